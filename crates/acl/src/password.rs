//! Passwords as SHA-256 digests.

use sha2::Digest as _;

/// The SHA-256 digest of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(hidden)")
    }
}

impl Digest {
    /// The digest of a password in plain text. Cost: its bytes.
    pub fn of(password: &[u8]) -> Digest {
        Digest(sha2::Sha256::digest(password).into())
    }

    /// The digest that 64 hexadecimal digits in lower case write; `None` for any other text.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        if text.len() != 64 {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(digest))
    }

    /// The digest.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        sluice_base::hex(&self.0)
    }

    /// Whether both are equal, in a time that does not depend on where they differ.
    pub fn is_same(&self, other: &Digest) -> bool {
        let differences = self.0.iter().zip(other.0).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0
    }
}

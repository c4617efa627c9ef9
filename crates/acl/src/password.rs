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
    /// The digest of a password in plain text. Cost: linear in the bytes of the password.
    pub fn of(password: &[u8]) -> Digest {
        #[cfg(test)]
        tests::WORK.with(|work| work.set((work.get().0 + 1, work.get().1)));
        Digest(sha2::Sha256::digest(password).into())
    }

    /// Parses 64 hexadecimal digits in lower case; `None` for any other text.
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

    /// The 32 bytes of the digest.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest as 64 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        sluice_base::hex(&self.0)
    }

    /// Whether one of `known` equals this digest. All of `known` are compared, and at least `least`
    /// comparisons are made. So the time shows neither the position of a match nor, up to `least`, how many
    /// passwords there are.
    pub(crate) fn is_among(&self, known: &[Digest], least: usize) -> bool {
        let found = known.iter().fold(false, |found, known| found | known.is_same(self));
        // These comparisons only take time, because the reply for a user with fewer passwords must not come
        // sooner.
        for _ in known.len()..least {
            std::hint::black_box(Digest([0; 32]).is_same(self));
        }
        found
    }

    /// Whether both digests are equal. The time does not depend on the position of the first difference.
    pub fn is_same(&self, other: &Digest) -> bool {
        #[cfg(test)]
        tests::WORK.with(|work| work.set((work.get().0, work.get().1 + 1)));
        let differences = self.0.iter().zip(other.0).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0
    }
}

#[cfg(test)]
mod tests {
    use crate::{AuthError, Digest, Users};
    use std::cell::Cell;

    thread_local! {
        /// Digests made and digests compared by this thread.
        pub(super) static WORK: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }

    #[test]
    fn a_refusal_takes_the_same_work_whatever_its_reason() {
        let mut users = Users::new(true);
        for (name, rules) in [
            ("one", "on >right"),
            ("eight", "on >1 >2 >3 >4 >5 >6 >7 >right"),
            ("none", "on"),
            ("disabled", "off >right"),
            ("disabled-nopass", "off nopass"),
            ("open", "on nopass"),
        ] {
            users.set_user(name.as_bytes(), rules.split(' ').map(str::as_bytes)).expect("rules");
        }
        let tried = |name: &str, password: &str| {
            WORK.set((0, 0));
            let result = users.authenticate(name.as_bytes(), password.as_bytes()).map(drop);
            (result, WORK.get())
        };
        for (name, password, result) in [
            ("nobody", "right", Err(AuthError::UnknownUser)),
            ("disabled", "right", Err(AuthError::Disabled)),
            ("disabled", "wrong", Err(AuthError::Disabled)),
            ("disabled-nopass", "wrong", Err(AuthError::Disabled)),
            ("none", "right", Err(AuthError::WrongPassword)),
            ("one", "wrong", Err(AuthError::WrongPassword)),
            ("eight", "wrong", Err(AuthError::WrongPassword)),
            ("one", "right", Ok(())),
            ("eight", "right", Ok(())),
            ("open", "wrong", Ok(())),
        ] {
            assert_eq!(tried(name, password), (result, (1, 8)), "{name} {password}");
        }
    }

    #[test]
    fn a_digest_is_found_at_any_position_and_none_in_nothing() {
        let known: Vec<Digest> = [&b"a"[..], b"b", b"c"].map(Digest::of).to_vec();
        assert!(known.iter().all(|digest| digest.is_among(&known, 8)));
        assert!(!Digest::of(b"d").is_among(&known, 8));
        assert!(!Digest::of(b"").is_among(&[], 8));
    }
}

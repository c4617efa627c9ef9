//! SipHash-1-3 over short keys, keyed so that clients cannot choose colliding keys.
//!
//! Source: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), with one
//! compression and three finalisation rounds. The oracle in the tests is the standard library's hasher,
//! which computes the same function.

use std::hash::Hasher;

/// A hasher for tables whose keys are hashes already. It returns the key itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "{} bytes that are no hash", bytes.len());
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The 128-bit key of the hash, drawn at random when the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HashSeed {
    /// First half of the key.
    pub k0: u64,
    /// Second half of the key.
    pub k1: u64,
}

/// Hashes `bytes` under `seed`. Cost: one round per 8 bytes and four more.
#[inline]
pub fn siphash13(seed: HashSeed, bytes: &[u8]) -> u64 {
    let mut v = [
        seed.k0 ^ 0x736f_6d65_7073_6575,
        seed.k1 ^ 0x646f_7261_6e64_6f6d,
        seed.k0 ^ 0x6c79_6765_6e65_7261,
        seed.k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let m = u64::from_le_bytes(*word);
        v[3] ^= m;
        round(&mut v);
        v[0] ^= m;
    }
    let last = (bytes.len() as u64) << 56 | tail_word(bytes, tail);
    v[3] ^= last;
    round(&mut v);
    v[0] ^= last;
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// The up to seven bytes of `tail`, the end of `bytes`, as a number. Overlapping words are read instead
/// of single bytes.
#[inline(always)]
fn tail_word(bytes: &[u8], tail: &[u8]) -> u64 {
    let len = tail.len();
    if len == 0 {
        return 0;
    }
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word) >> (64 - 8 * len);
    }
    if let (Some(first), Some(last)) = (tail.first_chunk(), tail.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first))
            | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4));
    }
    // One to three bytes are left: the first, the middle and the last of them are read, and may coincide.
    let byte = |at: usize| u64::from(tail[at]) << (8 * at);
    byte(0) | byte(len / 2) | byte(len - 1)
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    #[test]
    fn equals_the_standard_librarys_siphash13_under_the_zero_key() {
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=bytes.len() {
            #[allow(deprecated)]
            let mut oracle = std::collections::hash_map::DefaultHasher::new();
            oracle.write(&bytes[..len]);
            assert_eq!(siphash13(HashSeed { k0: 0, k1: 0 }, &bytes[..len]), oracle.finish(), "length {len}");
        }
    }

    #[test]
    fn the_seed_changes_the_hash() {
        let a = siphash13(HashSeed { k0: 1, k1: 2 }, b"key");
        let b = siphash13(HashSeed { k0: 2, k1: 1 }, b"key");
        assert_ne!(a, b);
    }
}

//! MurmurHash64A (Austin Appleby, 2008), the hash of HyperLogLog elements. The values of the hash
//! determine bytes of dumps, so the function is part of a file format.

/// Hashes `bytes` under `seed`. Not collision-resistant: clients can choose elements that collide.
pub fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> SHIFT;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> SHIFT
}

const M: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_hashes_to_what_its_seed_gives() {
        assert_eq!(murmur64a(b"", 0), 0);
        assert_ne!(murmur64a(b"", 1), murmur64a(b"", 2));
    }

    #[test]
    fn every_byte_counts() {
        let text: Vec<u8> = (1..40).collect();
        for len in 0..text.len() {
            let mut other = text[..len].to_vec();
            for at in 0..len {
                other[at] ^= 1;
                assert_ne!(murmur64a(&other, 5), murmur64a(&text[..len], 5), "byte {at} of {len}");
                other[at] ^= 1;
            }
        }
    }
}

//! MurmurHash3 of 32 bits (Austin Appleby, 2010). The reference hashes strings with it, and the order in
//! which `pairs` visits a table follows from the hashes, so the function must not change.

/// Hashes `bytes`; the seed is their length.
pub(crate) fn murmur3(bytes: &[u8]) -> u32 {
    let mut hash = bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash ^= mix(u32::from_le_bytes(*word));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u32::from_le_bytes(last));
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn mix(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

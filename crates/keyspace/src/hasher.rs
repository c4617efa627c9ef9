//! How keys are hashed, and where the hash holds the hash slot of the key.
//!
//! ```text
//!  bits    meaning
//!  63..56  the tag that an index keeps of the hash
//!  53..40  with a table for each slot, the hash slot of the key; else hash
//!  others  hash; an index addresses its buckets by the lowest, 30 at most
//! ```
//! A thread that hashes keys ahead of the main thread thus passes on their slots in the hashes, without
//! a separate field.

use sluice_base::{HashSeed, key_slot, siphash13};

/// Which tables a database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One table for all keys; no slot is computed.
    #[default]
    One,
    /// One table for each hash slot, for a cluster.
    PerSlot,
}

/// The hash function of keys: a seed and a layout. All threads that hash keys of a keyspace use the
/// same seed and layout.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher {
    seed: HashSeed,
    layout: Layout,
}

impl KeyHasher {
    /// The seed, for the tables inside of values.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// A hasher with `seed`, for databases with tables in `layout`.
    pub fn new(seed: HashSeed, layout: Layout) -> KeyHasher {
        KeyHasher { seed, layout }
    }

    /// The hash of a key. Cost: one round for each 8 bytes of the key, and four more; with
    /// [`Layout::PerSlot`] also a checksum of the key.
    #[inline]
    pub fn hash(self, key: &[u8]) -> u64 {
        let hash = self.hash_without_slot(key);
        match self.layout {
            Layout::One => hash,
            Layout::PerSlot => with_slot(hash, key),
        }
    }

    /// The hash without the slot; an index does not use the bits in which [`KeyHasher::hash`] differs.
    #[inline]
    pub(crate) fn hash_without_slot(self, key: &[u8]) -> u64 {
        siphash13(self.seed, key)
    }

    /// The layout of the tables of databases with this hasher.
    pub fn layout(self) -> Layout {
        self.layout
    }
}

// Marked as cold, so that with one table a key is hashed without the register spills of a call.
#[cold]
#[inline(never)]
fn with_slot(hash: u64, key: &[u8]) -> u64 {
    hash & !(SLOT_MASK << SLOT_AT) | u64::from(key_slot(key)) << SLOT_AT
}

/// The slot in a hash made for [`Layout::PerSlot`]: below [`sluice_base::crc16::SLOT_COUNT`].
#[inline(always)]
pub fn slot_of(hash: u64) -> usize {
    (hash >> SLOT_AT & SLOT_MASK) as usize
}

const SLOT_MASK: u64 = sluice_base::crc16::SLOT_COUNT as u64 - 1;
/// Position of the slot's lowest bit: above the bits that address buckets, below the tag.
const SLOT_AT: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_with_a_slot_differs_from_one_without_in_the_slots_bits_alone() {
        let seed = HashSeed { k0: 1, k1: 2 };
        for key in [&b"foo"[..], b"somekey", b"foo{hash_tag}", b"{}x", b""] {
            let plain = KeyHasher::new(seed, Layout::One).hash(key);
            let hash = KeyHasher::new(seed, Layout::PerSlot).hash(key);
            assert_eq!(plain, siphash13(seed, key));
            assert_eq!(slot_of(hash), usize::from(key_slot(key)));
            assert_eq!((plain ^ hash) & !(0x3fff << 40), 0, "tag and bucket stay");
        }
    }
}

//! A filter of keys: whether a listener may want to know of a change of a key.
//!
//! Each key sets two bits of one word, chosen by its hash (a Bloom filter of blocks of 64 bits: Putze,
//! Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). A key that was added is
//! always found; of the other keys, at most one in ten is found although it was not added. Keys are not
//! removed one by one; a part drops removed keys when it is filled again.
//!
//! Invariant: a part holds at most one key for each 8 of its bits, counted since it was filled.

use sluice_base::heap;
use sluice_collections::prefetch_items;

/// The set of added keys, with some false positives.
#[derive(Debug, Default)]
pub struct KeyFilter {
    /// Either [`KeyFilter::PARTS`] parts, or none before the first key.
    parts: Vec<FilterPart>,
}

#[derive(Clone, Debug, Default)]
struct FilterPart {
    words: Box<[u64]>,
    /// Number of keys that may be added before the part must be filled again.
    room: usize,
}

impl KeyFilter {
    /// Number of parts. One part is small enough to be filled again in one step.
    pub const PARTS: usize = 1024;

    /// The part of a key. The bits of the hash that choose the part lie above those that choose a word in
    /// the part, and below those that may hold a hash slot.
    #[inline]
    pub fn part_of(hash: u64) -> usize {
        (hash >> PART_SHIFT) as usize % KeyFilter::PARTS
    }

    /// Whether the key with this hash may have been added. Cost: two cache lines are read.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.parts.get(KeyFilter::part_of(hash)).is_some_and(|part| part.has(hash))
    }

    /// Prefetches what [`KeyFilter::may_have`] reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(part) = self.parts.get(KeyFilter::part_of(hash)) {
            let at = part.word_of(hash);
            prefetch_items(part.words.get(at..=at).unwrap_or_default());
        }
    }

    /// Adds a key; the result is whether the filter now contains the key. If not, its part has no room,
    /// and must be filled again with all of its keys, including this one.
    #[inline]
    #[must_use]
    pub fn add(&mut self, hash: u64) -> bool {
        if self.parts.is_empty() {
            self.parts = vec![FilterPart::default(); KeyFilter::PARTS];
        }
        self.parts[KeyFilter::part_of(hash)].add(hash)
    }

    /// Fills a part again with the keys of these hashes, all of which belong to it. Cost: O(keys).
    pub fn refill(&mut self, part: usize, hashes: impl ExactSizeIterator<Item = u64>) {
        let Some(part) = self.parts.get_mut(part) else { return };
        let words = (hashes.len().max(1) * BITS_PER_KEY).div_ceil(u64::BITS as usize);
        *part =
            FilterPart { words: vec![0; words].into(), room: words * u64::BITS as usize / BITS_PER_KEY_MIN };
        for hash in hashes {
            let has_room = part.add(hash);
            debug_assert!(has_room, "{words} words are too few");
        }
    }

    /// Removes all keys. Cost: O(parts).
    pub fn clear(&mut self) {
        self.parts = Vec::new();
    }

    /// Heap bytes of the filter. O(parts).
    pub fn footprint(&self) -> usize {
        heap::vec(&self.parts)
            + self.parts.iter().map(|part| heap::block(size_of_val(&*part.words))).sum::<usize>()
    }
}

impl FilterPart {
    #[inline]
    fn has(&self, hash: u64) -> bool {
        let bits = bits_of(hash);
        self.words.get(self.word_of(hash)).is_some_and(|word| word & bits == bits)
    }

    fn add(&mut self, hash: u64) -> bool {
        if self.has(hash) {
            return true;
        }
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        let at = self.word_of(hash);
        self.words[at] |= bits_of(hash);
        true
    }

    /// The index of a hash's word in this part; 0 if the part has no words.
    #[inline]
    fn word_of(&self, hash: u64) -> usize {
        let low = hash & ((1 << PART_SHIFT) - 1);
        ((low * self.words.len() as u64) >> PART_SHIFT) as usize
    }
}

/// The two bits of a key within its word. They are selected by the lowest 12 of the hash bits that choose
/// the word. These 12 bits hardly affect the choice of the word as long as a part has fewer than 262,144
/// words.
#[inline]
fn bits_of(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63)
}

/// Number of hash bits below those that choose the part.
const PART_SHIFT: u32 = 30;

/// Smallest number of bits that a part has for each of its keys.
const BITS_PER_KEY_MIN: usize = 8;

/// Number of bits for each key when a part is filled. This leaves room for half as many keys again.
const BITS_PER_KEY: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        for keys in [1, 100, 20_000, 300_000] {
            let (mut filter, mut rng) = (KeyFilter::default(), Rng::new(keys));
            let mut parts: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); KeyFilter::PARTS];
            assert!(!filter.may_have(rng.next_u64()));
            let mut refills = 0;
            for _ in 0..keys {
                let hash = rng.next_u64();
                let part = KeyFilter::part_of(hash);
                parts[part].insert(hash);
                if !filter.add(hash) {
                    filter.refill(part, parts[part].iter().copied());
                    refills += parts[part].len() as u64;
                }
            }
            assert!(parts.iter().flatten().all(|hash| filter.may_have(*hash)));
            let strangers = 100_000;
            let found = (0..strangers).filter(|_| filter.may_have(rng.next_u64())).count();
            assert!(found <= strangers / 10, "{keys}: {found}");
            // On average, each key is added again at most four times, however many keys there are.
            assert!(refills <= 4 * keys, "{keys}: {refills}");
            if keys > 100_000 {
                assert!(filter.footprint() < 2 * keys as usize, "{}", filter.footprint());
            }
            filter.clear();
            assert_eq!(filter.footprint(), 0);
        }
    }

    #[test]
    fn a_part_that_is_filled_anew_forgets_what_is_gone() {
        let (mut filter, mut rng) = (KeyFilter::default(), Rng::new(1));
        let hashes: Vec<u64> = (0..1000).map(|_| rng.next_u64() & !(1023 << 30)).collect();
        for (at, hash) in hashes.iter().enumerate() {
            if !filter.add(*hash) {
                filter.refill(0, hashes[..=at].iter().copied());
            }
        }
        filter.refill(0, hashes[..10].iter().copied());
        assert!(hashes[..10].iter().all(|hash| filter.may_have(*hash)));
        assert!(hashes[10..].iter().filter(|hash| filter.may_have(**hash)).count() < 100);
    }
}

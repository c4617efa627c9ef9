//! A hash table of slot numbers, which are indices in a list of the caller. The keys are in that list, so
//! the table needs only four bytes for each slot, plus some empty places.

/// An empty place of the table.
const EMPTY: u32 = u32::MAX;

/// Slot numbers by hash, with linear probing.
#[derive(Debug, Default)]
pub(crate) struct SlotIndex {
    /// The length is a power of two, or 0; at least a quarter of the places is empty.
    places: Box<[u32]>,
    used: usize,
}

impl SlotIndex {
    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Bytes of heap memory of the table.
    pub(crate) fn footprint(&self) -> usize {
        sluice_base::heap::block(size_of_val(&*self.places))
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        // The multiplication spreads the bits of hashes that differ in few bits.
        let spread = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & self.places.len().wrapping_sub(1)
    }

    #[inline]
    fn behind(&self, place: usize) -> usize {
        (place + 1) & self.places.len().wrapping_sub(1)
    }

    /// The slot with this hash for which `is_it` is true, if there is one.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.home(hash);
        loop {
            match *self.places.get(place)? {
                EMPTY => return None,
                slot if is_it(slot) => return Some(slot),
                _ => place = self.behind(place),
            }
        }
    }

    /// Adds a slot that is not in the table. `hash_of` returns the hash of a slot in the table.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        if (self.used + 1) * 4 > self.places.len() * 3 {
            let grown = vec![EMPTY; (self.places.len() * 2).max(8)].into();
            for old in std::mem::replace(&mut self.places, grown) {
                if old != EMPTY {
                    self.put(hash_of(old), old);
                }
            }
        }
        self.put(hash, slot);
        self.used += 1;
    }

    fn put(&mut self, hash: u32, slot: u32) {
        let mut place = self.home(hash);
        while self.places[place] != EMPTY {
            place = self.behind(place);
        }
        self.places[place] = slot;
    }

    /// Removes a slot with this hash, if it is in the table. Moves the following slots forward, so that
    /// look-ups still find their entries.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        let mut place = self.home(hash);
        while self.places.get(place).is_some_and(|found| *found != slot) {
            if self.places[place] == EMPTY {
                return;
            }
            place = self.behind(place);
        }
        if self.places.is_empty() {
            return;
        }
        self.used -= 1;
        let mut next = self.behind(place);
        while self.places[next] != EMPTY {
            let mask = self.places.len() - 1;
            let home = self.home(hash_of(self.places[next]));
            // The slot may move forward unless it would then be before the place at which a look-up of its
            // hash begins.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(place) & mask {
                self.places[place] = self.places[next];
                place = next;
            }
            next = self.behind(next);
        }
        self.places[place] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn slots_are_found_until_they_are_removed() {
        // Many slots have few different hashes, so there are long runs of used places, also across the end of
        // the table.
        let hash_of = |slot: u32| slot % 7 * 3;
        let (mut index, mut wanted, mut random) = (SlotIndex::default(), BTreeSet::new(), 1_u32);
        assert_eq!(index.find(5, |_| true), None);
        index.remove(5, 1, hash_of);
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (random >> 16) % 200;
            match wanted.insert(slot) {
                true => index.insert(hash_of(slot), slot, hash_of),
                false => {
                    wanted.remove(&slot);
                    index.remove(hash_of(slot), slot, hash_of);
                }
            }
            assert_eq!(index.len(), wanted.len());
            let asked = (random >> 8) % 200;
            let found = index.find(hash_of(asked), |slot| slot == asked);
            assert_eq!(found, wanted.contains(&asked).then_some(asked));
        }
    }
}

//! Sets of slots, as a bitmap of 2,048 bytes.

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16_384;
/// Bytes of a bitmap of all slots.
pub const BITMAP_LEN: usize = SLOT_COUNT as usize / 8;

/// A hash slot, below [`SLOT_COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashSlot(u16);

impl HashSlot {
    /// The slot `number`; `None` from [`SLOT_COUNT`] on.
    pub fn new(number: u16) -> Option<HashSlot> {
        (number < SLOT_COUNT).then_some(HashSlot(number))
    }

    /// The slot's number, below [`SLOT_COUNT`].
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A set of slots. Its bytes are those of a message: slot `s` is bit `s mod 8`, the least significant
/// first, of byte `s / 8`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    bits: [u8; BITMAP_LEN],
    /// How many bits are set: each iteration of a node, and each message, asks whether sets are empty that
    /// nearly always are.
    len: u16,
}

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet::EMPTY
    }
}

impl SlotSet {
    /// A set without slots.
    pub const EMPTY: SlotSet = SlotSet { bits: [0; BITMAP_LEN], len: 0 };

    /// The set that a bitmap of a message shows.
    pub fn from_bitmap(bits: &[u8; BITMAP_LEN]) -> SlotSet {
        let ones = bits.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
        SlotSet { bits: *bits, len: ones.sum::<u32>() as u16 }
    }

    /// The set as a bitmap of a message.
    pub fn bitmap(&self) -> &[u8; BITMAP_LEN] {
        &self.bits
    }

    /// Whether `slot` belongs to the set.
    pub fn contains(&self, slot: HashSlot) -> bool {
        self.bits[usize::from(slot.0 / 8)] & 1 << (slot.0 % 8) != 0
    }

    /// Adds `slot`; whether it was not there.
    pub fn insert(&mut self, slot: HashSlot) -> bool {
        let was_there = self.contains(slot);
        self.bits[usize::from(slot.0 / 8)] |= 1 << (slot.0 % 8);
        self.len += u16::from(!was_there);
        !was_there
    }

    /// Takes `slot` out; whether it was there.
    pub fn remove(&mut self, slot: HashSlot) -> bool {
        let was_there = self.contains(slot);
        self.bits[usize::from(slot.0 / 8)] &= !(1 << (slot.0 % 8));
        self.len -= u16::from(was_there);
        was_there
    }

    /// How many slots the set has. O(1).
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Whether the set has no slot. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots, ascending. O(1) for an empty set.
    pub fn iter(&self) -> impl Iterator<Item = HashSlot> + '_ {
        let bits = if self.is_empty() { &[] } else { &self.bits[..] };
        bits.iter().zip(0_u16..).filter(|(byte, _)| **byte != 0).flat_map(|(&byte, index)| {
            (0..8).filter(move |bit| byte & 1 << bit != 0).map(move |bit| HashSlot(index * 8 + bit))
        })
    }

    /// The runs of neighbouring slots, ascending: the first and the last of each.
    pub fn runs(&self) -> impl Iterator<Item = (HashSlot, HashSlot)> + '_ {
        let mut slots = self.iter().peekable();
        std::iter::from_fn(move || {
            let first = slots.next()?;
            let mut last = first;
            while let Some(next) = slots.next_if(|next| next.0 == last.0 + 1) {
                last = next;
            }
            Some((first, last))
        })
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.runs().map(|(first, last)| (first.0, last.0))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn the_count_is_that_of_the_bits_whatever_comes_and_goes() {
        let (mut rng, mut slots, mut twin) = (Rng::new(7), SlotSet::EMPTY, BTreeSet::new());
        for step in 0..4_000 {
            // Few slots, so that many are there already, and the set is empty now and then.
            let slot = HashSlot::new(rng.below(8) as u16 * 2_047).expect("a slot");
            match rng.below(2) {
                0 => assert_eq!(slots.insert(slot), twin.insert(slot), "step {step}"),
                _ => assert_eq!(slots.remove(slot), twin.remove(&slot), "step {step}"),
            }
            assert_eq!((usize::from(slots.len()), slots.is_empty()), (twin.len(), twin.is_empty()));
            assert!(slots.iter().eq(twin.iter().copied()), "step {step}");
            assert!(SlotSet::from_bitmap(slots.bitmap()) == slots, "step {step}");
        }
        assert_eq!(SlotSet::from_bitmap(&[u8::MAX; BITMAP_LEN]).len(), SLOT_COUNT);
    }
}

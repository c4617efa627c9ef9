//! Sets of slots, as a bitmap of 2,048 bytes.

/// The number of hash slots.
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

/// A set of slots. Its bytes have the form used in messages: slot `s` is bit `s mod 8`, the least significant
/// first, of byte `s / 8`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    bits: [u8; BITMAP_LEN],
    /// Number of set bits. The number is stored because each event loop iteration and each message checks
    /// whether some sets are empty, and nearly all of them are empty.
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

    /// The set in a bitmap of a message.
    pub fn from_bitmap(bits: &[u8; BITMAP_LEN]) -> SlotSet {
        let ones = bits.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
        SlotSet { bits: *bits, len: ones.sum::<u32>() as u16 }
    }

    /// The bitmap for a message.
    pub fn bitmap(&self) -> &[u8; BITMAP_LEN] {
        &self.bits
    }

    /// Whether `slot` belongs to the set.
    pub fn contains(&self, slot: HashSlot) -> bool {
        self.bits[usize::from(slot.0 / 8)] & 1 << (slot.0 % 8) != 0
    }

    /// Adds `slot`; `true` if it was not in the set.
    pub fn insert(&mut self, slot: HashSlot) -> bool {
        let was_there = self.contains(slot);
        self.bits[usize::from(slot.0 / 8)] |= 1 << (slot.0 % 8);
        self.len += u16::from(!was_there);
        !was_there
    }

    /// Removes `slot`; `true` if it was in the set.
    pub fn remove(&mut self, slot: HashSlot) -> bool {
        let was_there = self.contains(slot);
        self.bits[usize::from(slot.0 / 8)] &= !(1 << (slot.0 % 8));
        self.len -= u16::from(was_there);
        was_there
    }

    /// The number of slots in the set. O(1).
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Whether the set has no slot. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots in ascending order. O(words of the bitmap + slots), and O(1) for an empty set.
    pub fn iter(&self) -> impl Iterator<Item = HashSlot> + '_ {
        let words = if self.is_empty() { &[] } else { self.words() };
        words.iter().zip(0_u16..).filter(|(word, _)| **word != [0; 8]).flat_map(|(word, index)| {
            let mut left = u64::from_le_bytes(*word);
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as u16;
                left &= left - 1;
                Some(HashSlot(index * 64 + bit))
            })
        })
    }

    fn words(&self) -> &[[u8; 8]] {
        self.bits.as_chunks().0
    }

    /// The first slot from `from` on that is in the set (if `flip` is 0) or not in it (if `flip` has all bits
    /// set); [`SLOT_COUNT`] if there is none.
    fn first(&self, from: u16, flip: u64) -> u16 {
        let (word, bit) = (usize::from(from / 64), from % 64);
        let mut hidden = !(u64::MAX << bit);
        for (index, word) in (0_u16..).zip(self.words()).skip(word) {
            let left = (u64::from_le_bytes(*word) ^ flip) & !hidden;
            if left != 0 {
                return index * 64 + left.trailing_zeros() as u16;
            }
            hidden = 0;
        }
        SLOT_COUNT
    }

    /// The runs of neighbouring slots in ascending order, each as its first and last slot. 64 slots are
    /// examined at a time, because `nodes.conf` has the runs of every node, and there may be 1,000 nodes.
    pub fn runs(&self) -> impl Iterator<Item = (HashSlot, HashSlot)> + '_ {
        let (mut at, mut left) = (0, self.len);
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let first = self.first(at, 0);
            let end = self.first(first, u64::MAX);
            left -= end - first;
            at = end;
            Some((HashSlot(first), HashSlot(end - 1)))
        })
    }
}

impl FromIterator<HashSlot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = HashSlot>>(slots: I) -> SlotSet {
        let mut set = SlotSet::EMPTY;
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

/// Slots in a line of the log: `slot 5`, `slots 0-99 300`. Only the first 64 runs are named.
#[derive(Clone, Copy, Debug)]
pub struct NamedSlots<'a>(&'a SlotSet);

const RUNS_NAMED_MAX: usize = 64;

impl SlotSet {
    /// The slots in the form for log lines.
    pub fn named(&self) -> NamedSlots<'_> {
        NamedSlots(self)
    }

    /// The slots as the subject of a sentence: `Slot 5 is`, `Slots 0-99 300 are`.
    pub fn as_subject(&self) -> String {
        let verb = if self.len == 1 { "is" } else { "are" };
        format!("S{} {verb}", &self.named().to_string()[1..])
    }
}

impl std::fmt::Display for NamedSlots<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.len == 1 { "slot" } else { "slots" })?;
        let mut runs = self.0.runs();
        for (first, last) in runs.by_ref().take(RUNS_NAMED_MAX) {
            match first == last {
                true => write!(f, " {}", first.0)?,
                false => write!(f, " {}-{}", first.0, last.0)?,
            }
        }
        if runs.next().is_some() {
            write!(f, " and others, {} in all", self.0.len)?;
        }
        Ok(())
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
            // Only a few different slots are used, so that many are in the set already, and the set is
            // sometimes empty.
            let number = [0, 1, 63, 64, 65, 8_191, 8_192, SLOT_COUNT - 1][rng.below(8) as usize];
            let slot = HashSlot::new(number).expect("a slot");
            match rng.below(2) {
                0 => assert_eq!(slots.insert(slot), twin.insert(slot), "step {step}"),
                _ => assert_eq!(slots.remove(slot), twin.remove(&slot), "step {step}"),
            }
            assert_eq!((usize::from(slots.len()), slots.is_empty()), (twin.len(), twin.is_empty()));
            assert!(slots.iter().eq(twin.iter().copied()), "step {step}");
            let runs = slots.runs().flat_map(|(first, last)| first.0..=last.0);
            assert!(runs.eq(twin.iter().map(|slot| slot.0)), "step {step}");
            assert!(SlotSet::from_bitmap(slots.bitmap()) == slots, "step {step}");
        }
        let all = SlotSet::from_bitmap(&[u8::MAX; BITMAP_LEN]);
        assert_eq!(all.len(), SLOT_COUNT);
        assert!(all.runs().eq([(HashSlot(0), HashSlot(SLOT_COUNT - 1))]));
    }

    #[test]
    fn the_log_names_runs_of_slots_and_of_very_many_the_first() {
        let of = |numbers: &[u16]| numbers.iter().map(|number| HashSlot(*number)).collect::<SlotSet>();
        let text = |numbers: &[u16]| of(numbers).named().to_string();
        assert_eq!((text(&[7]), text(&[9, 7, 8, 20])), ("slot 7".to_owned(), "slots 7-9 20".to_owned()));
        assert_eq!(of(&[7]).as_subject(), "Slot 7 is");
        assert_eq!(of(&[7, 8]).as_subject(), "Slots 7-8 are");
        let odd: Vec<u16> = (0..SLOT_COUNT).filter(|number| number % 2 == 1).collect();
        assert!(text(&odd).ends_with(" 127 and others, 8192 in all"), "{}", text(&odd));
    }
}

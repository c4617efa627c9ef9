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
}

impl SlotSet {
    /// A set without slots.
    pub const EMPTY: SlotSet = SlotSet { bits: [0; BITMAP_LEN] };

    /// The set that a bitmap of a message shows.
    pub fn from_bitmap(bits: &[u8; BITMAP_LEN]) -> SlotSet {
        SlotSet { bits: *bits }
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
        !was_there
    }

    /// Takes `slot` out; whether it was there.
    pub fn remove(&mut self, slot: HashSlot) -> bool {
        let was_there = self.contains(slot);
        self.bits[usize::from(slot.0 / 8)] &= !(1 << (slot.0 % 8));
        was_there
    }

    /// How many slots the set has.
    pub fn len(&self) -> u16 {
        self.bits.iter().map(|byte| byte.count_ones() as u16).sum()
    }

    /// Whether the set has no slot.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|&byte| byte == 0)
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = HashSlot> + '_ {
        self.bits.iter().zip(0_u16..).filter(|(byte, _)| **byte != 0).flat_map(|(&byte, index)| {
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

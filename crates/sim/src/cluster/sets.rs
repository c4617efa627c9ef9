//! Operations on whole sets of slots.

use sluice_cluster::{BITMAP_LEN, HashSlot, SLOT_COUNT, SlotSet};

fn bytewise(a: &SlotSet, b: &SlotSet, of: impl Fn(u8, u8) -> u8) -> SlotSet {
    let mut bits = [0; BITMAP_LEN];
    for ((bits, a), b) in bits.iter_mut().zip(a.bitmap()).zip(b.bitmap()) {
        *bits = of(*a, *b);
    }
    SlotSet::from_bitmap(&bits)
}

pub(super) fn and(a: &SlotSet, b: &SlotSet) -> SlotSet {
    bytewise(a, b, |a, b| a & b)
}

pub(super) fn or(a: &SlotSet, b: &SlotSet) -> SlotSet {
    bytewise(a, b, |a, b| a | b)
}

pub(super) fn minus(a: &SlotSet, b: &SlotSet) -> SlotSet {
    bytewise(a, b, |a, b| a & !b)
}

/// The slots from `first` up to and without `end`.
pub(super) fn range(first: u16, end: u16) -> SlotSet {
    let mut set = SlotSet::EMPTY;
    (first..end.min(SLOT_COUNT)).filter_map(HashSlot::new).for_each(|slot| {
        set.insert(slot);
    });
    set
}

/// An element of a set, chosen by the random number `at`.
pub(super) fn pick(set: &SlotSet, at: u64) -> Option<HashSlot> {
    let len = u64::from(set.len());
    if len == 0 { None } else { set.iter().nth((at % len) as usize) }
}

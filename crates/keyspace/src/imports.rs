//! Slots in motion: imports in progress, which this server carries out or which a stream, a log or a snapshot
//! has reported, and slots that were moved away, whose keys are being deleted. The keys of all these slots
//! exist, but are hidden from scans, random choices and counts over a database.
//!
//! Invariants: (1) no two imports have a slot in common, and each has at least one, so there are at most
//! 16,384 imports, and at most 16,384 ranges in all of them together; (2) the hidden slots are those of
//! all imports, and the slots whose keys are being deleted.

use sluice_base::crc16::SLOT_COUNT;
use sluice_base::heap;
use std::sync::Arc;

/// Length in bytes of the name of an import.
pub const IMPORT_NAME_LEN: usize = 40;

const WORDS: usize = SLOT_COUNT as usize / 64;

/// An import of slots in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotImport {
    /// Name of the import, chosen by the server that began it.
    pub name: [u8; IMPORT_NAME_LEN],
    /// Id of the node from which the slots come; `None` if the import was read from a snapshot, which does
    /// not contain the id.
    pub source: Option<[u8; IMPORT_NAME_LEN]>,
    /// The first and the last slot of each range, in the order in which they were named.
    pub ranges: Box<[(u16, u16)]>,
}

impl SlotImport {
    /// The slots of all ranges.
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Whether a slot is part of the import.
    pub fn has(&self, slot: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// A set of slots whose keys are hidden.
#[derive(Clone, Debug)]
pub(crate) struct HiddenSlots([u64; WORDS]);

impl HiddenSlots {
    fn insert(&mut self, slot: u16) {
        if let Some(word) = self.0.get_mut(usize::from(slot / 64)) {
            *word |= 1 << (slot % 64);
        }
    }

    fn remove(&mut self, slot: u16) {
        if let Some(word) = self.0.get_mut(usize::from(slot / 64)) {
            *word &= !(1 << (slot % 64));
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Whether the slot of this number is hidden.
    #[inline]
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.0.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 != 0)
    }

    fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        let words = (0..).zip(&self.0).filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 64 + bit)
        })
    }

    /// The bits of the 64 slots that begin with slot `64 * at`.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
}

/// The imports of a keyspace, and its hidden slots.
#[derive(Debug, Default)]
pub(crate) struct SlotImports {
    list: Vec<SlotImport>,
    /// Slots whose keys are being deleted; `None` if there are none.
    leaving: Option<Box<HiddenSlots>>,
    hidden: Option<Arc<HiddenSlots>>,
}

impl SlotImports {
    pub(crate) fn list(&self) -> &[SlotImport] {
        &self.list
    }

    /// The hidden slots; `None` if none are hidden.
    pub(crate) fn hidden(&self) -> Option<&Arc<HiddenSlots>> {
        self.hidden.as_ref()
    }

    pub(crate) fn is_leaving(&self, slot: u16) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.has(usize::from(slot)))
    }

    pub(crate) fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        self.leaving.iter().flat_map(|leaving| leaving.slots())
    }

    /// Heap bytes of the imports and of both sets of slots.
    pub(crate) fn footprint(&self) -> usize {
        let ranges = self.list.iter().map(|import| heap::block(size_of_val(&*import.ranges)));
        let bitmaps = usize::from(self.hidden.is_some()) + usize::from(self.leaving.is_some());
        let hidden = bitmaps * size_of::<HiddenSlots>();
        heap::vec(&self.list) + ranges.sum::<usize>() + hidden
    }

    /// Adds an import and ends older ones with the same name or with one of its slots. Cost: one step
    /// for each slot and each import.
    pub(crate) fn begin(&mut self, import: SlotImport) {
        let mut own = HiddenSlots([0; WORDS]);
        import.slots().for_each(|slot| own.insert(slot));
        let is_over =
            |old: &SlotImport| old.name == import.name || old.slots().any(|slot| own.has(usize::from(slot)));
        self.list.retain(|old| !is_over(old));
        self.list.push(import);
        self.gather();
    }

    /// Removes the import with this name; `None` if there is none.
    pub(crate) fn end(&mut self, name: &[u8]) -> Option<SlotImport> {
        let at = self.list.iter().position(|import| import.name == name)?;
        let ended = self.list.remove(at);
        self.gather();
        Some(ended)
    }

    /// Hides slots from now on, because their keys are being deleted.
    pub(crate) fn hide(&mut self, slots: impl Iterator<Item = u16>) {
        let leaving = self.leaving.get_or_insert_with(|| Box::new(HiddenSlots([0; WORDS])));
        slots.for_each(|slot| leaving.insert(slot));
        self.gather();
    }

    pub(crate) fn take_leaving(&mut self) -> Option<Box<HiddenSlots>> {
        self.leaving.take()
    }

    /// Replaces the set of slots whose keys are being deleted.
    pub(crate) fn keep_leaving(&mut self, leaving: Option<Box<HiddenSlots>>) {
        self.leaving = leaving;
        self.gather();
    }

    /// Ends the hiding of slots, whose keys have been deleted or are to stay.
    pub(crate) fn show(&mut self, slots: impl Iterator<Item = u16>) {
        if let Some(leaving) = &mut self.leaving {
            slots.for_each(|slot| leaving.remove(slot));
        }
        self.leaving.take_if(|leaving| leaving.is_empty());
        self.gather();
    }

    /// Computes the set of hidden slots from the imports and from the slots whose keys are being deleted (2).
    fn gather(&mut self) {
        let mut hidden = self.leaving.as_deref().map_or(HiddenSlots([0; WORDS]), HiddenSlots::clone);
        self.list.iter().flat_map(SlotImport::slots).for_each(|slot| hidden.insert(slot));
        self.hidden = (!hidden.is_empty()).then(|| Arc::new(hidden));
    }
}

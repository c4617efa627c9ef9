//! Slots that are on their way here: imports that another server carries out, which a stream, a log or a
//! snapshot tells of. The keys of such slots are there, and are hidden from whoever looks at a database as a
//! whole.
//!
//! Invariants: (1) no two imports have a slot in common, and each has at least one: there are 16,384 of them
//! at most, with as many ranges together; (2) the hidden slots are those of all imports.

use sluice_base::crc16::SLOT_COUNT;
use sluice_base::heap;
use std::sync::Arc;

/// Bytes of the name of an import.
pub const IMPORT_NAME_LEN: usize = 40;

const WORDS: usize = SLOT_COUNT as usize / 64;

/// An import of slots that another server carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotImport {
    /// The name that the server which began the import has given it.
    pub name: [u8; IMPORT_NAME_LEN],
    /// The id of the node that the slots come from; a snapshot does not tell it.
    pub source: Option<[u8; IMPORT_NAME_LEN]>,
    /// The first and the last slot of each range, in the order in which they were named.
    pub ranges: Box<[(u16, u16)]>,
}

impl SlotImport {
    /// The slots.
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

/// Slots whose keys are hidden.
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

    /// Whether the slot of this number is hidden.
    #[inline]
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.0.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 != 0)
    }

    /// The bits of 64 slots, the first of which is `at` times 64.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
}

/// The imports of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct SlotImports {
    list: Vec<SlotImport>,
    hidden: Option<Arc<HiddenSlots>>,
}

impl SlotImports {
    pub(crate) fn list(&self) -> &[SlotImport] {
        &self.list
    }

    /// The hidden slots; none while there is no import.
    pub(crate) fn hidden(&self) -> Option<&Arc<HiddenSlots>> {
        self.hidden.as_ref()
    }

    fn is_hidden(&self, slot: u16) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.has(usize::from(slot)))
    }

    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        let ranges = self.list.iter().map(|import| heap::block(size_of_val(&*import.ranges)));
        let hidden = if self.hidden.is_some() { size_of::<HiddenSlots>() } else { 0 };
        heap::vec(&self.list) + ranges.sum::<usize>() + hidden
    }

    /// Adds an import; those of the same name, or with one of its slots, end. Cost: one step for each slot
    /// and each import, and a copy of 2 KiB.
    pub(crate) fn begin(&mut self, import: SlotImport) {
        self.end(&import.name);
        while let Some(taken) = import.slots().find(|slot| self.is_hidden(*slot)) {
            let has_it = |old: &&SlotImport| old.slots().any(|slot| slot == taken);
            let Some(old) = self.list.iter().find(has_it).map(|old| old.name) else { break };
            self.end(&old);
        }
        let mut hidden = self.hidden.as_deref().map_or(HiddenSlots([0; WORDS]), HiddenSlots::clone);
        import.slots().for_each(|slot| hidden.insert(slot));
        self.hidden = Some(Arc::new(hidden));
        self.list.push(import);
    }

    /// Takes the import of this name out.
    pub(crate) fn end(&mut self, name: &[u8]) -> Option<SlotImport> {
        let at = self.list.iter().position(|import| import.name == name)?;
        let ended = self.list.remove(at);
        self.hidden = self.hidden.as_deref().filter(|_| !self.list.is_empty()).map(|hidden| {
            let mut hidden = hidden.clone();
            ended.slots().for_each(|slot| hidden.remove(slot));
            Arc::new(hidden)
        });
        Some(ended)
    }
}

//! Begins and ends imports of slots and the deletion of slots. All databases hide the same slots; with
//! [`Layout::One`] they hide none.

use crate::dataset::Keyspace;
use crate::hasher::Layout;
use crate::imports::SlotImport;

impl Keyspace {
    /// The imports in progress. O(1).
    pub fn imports(&self) -> &[SlotImport] {
        self.imports.list()
    }

    /// Whether the keys of a slot are hidden. O(1).
    pub fn is_hidden(&self, slot: u16) -> bool {
        self.imports.hidden().is_some_and(|hidden| hidden.has(usize::from(slot)))
    }

    /// Makes scans, random choices and counts over a database leave out these slots, whose keys are being
    /// deleted. Does nothing if keys have no slots. Cost: one step for each of these slots, each slot of an
    /// import and each database.
    pub fn hide_slots(&mut self, slots: impl Iterator<Item = u16>) {
        if self.hasher().layout() == Layout::PerSlot {
            self.imports.hide(slots);
            self.tell_databases();
        }
    }

    /// Makes slots visible again that [`Keyspace::hide_slots`] has hidden. Costs as much as hiding them.
    pub fn show_slots(&mut self, slots: impl Iterator<Item = u16>) {
        self.imports.show(slots);
        self.tell_databases();
    }

    /// Whether the keys of a slot are being deleted. O(1).
    pub fn is_leaving(&self, slot: u16) -> bool {
        self.imports.is_leaving(slot)
    }

    /// The slots whose keys are being deleted, in order. Cost: one step if there are none, otherwise one step
    /// for each group of 64 slots, and one for each slot that is being deleted.
    pub fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        self.imports.leaving()
    }

    pub(crate) fn tell_databases(&mut self) {
        let hidden = self.imports.hidden().cloned();
        self.dbs_mut().iter_mut().for_each(|db| db.tables.hidden.clone_from(&hidden));
    }

    /// The handle with which imports are begun and ended.
    pub fn import_marks(&mut self) -> ImportMarks<'_> {
        ImportMarks { keyspace: self }
    }
}

/// The imports of a keyspace, opened to begin and end imports. Keys are neither read nor changed.
pub struct ImportMarks<'a> {
    keyspace: &'a mut Keyspace,
}

impl ImportMarks<'_> {
    /// Begins an import, whose slots are hidden from now on. Older imports with the same name, or with
    /// one of its slots, end, because the server that began this import has ended them without a report.
    /// Does nothing if keys have no slots. Cost: one step for each slot, import and database.
    pub fn begin(&mut self, import: SlotImport) {
        if self.keyspace.hasher().layout() == Layout::PerSlot {
            self.keyspace.imports.begin(import);
            self.keyspace.tell_databases();
        }
    }

    /// Ends the import with this name: from now on its slots and all their keys are visible. `None` if there
    /// is none. Cost: as for [`ImportMarks::begin`].
    pub fn end(&mut self, name: &[u8]) -> Option<SlotImport> {
        let ended = self.keyspace.imports.end(name)?;
        self.keyspace.tell_databases();
        Some(ended)
    }
}

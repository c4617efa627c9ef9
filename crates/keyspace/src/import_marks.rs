//! Imports of slots begin and end, and slots leave: all databases hide the same slots, with [`Layout::One`]
//! none.

use crate::dataset::Keyspace;
use crate::hasher::Layout;
use crate::imports::SlotImport;

impl Keyspace {
    /// The imports that are under way. O(1).
    pub fn imports(&self) -> &[SlotImport] {
        self.imports.list()
    }

    /// Whether the keys of a slot are hidden. O(1).
    pub fn is_hidden(&self, slot: u16) -> bool {
        self.imports.hidden().is_some_and(|hidden| hidden.has(usize::from(slot)))
    }

    /// Hides the keys of slots from whoever looks at a database as a whole: they are being deleted. Cost: one
    /// step for each of these slots, each slot of an import and each database.
    pub fn hide_slots(&mut self, slots: impl Iterator<Item = u16>) {
        if self.hasher().layout() == Layout::PerSlot {
            self.imports.hide(slots);
            self.tell_databases();
        }
    }

    /// Shows slots again that were hidden by [`Keyspace::hide_slots`]; at the same cost.
    pub fn show_slots(&mut self, slots: impl Iterator<Item = u16>) {
        self.imports.show(slots);
        self.tell_databases();
    }

    /// Whether the keys of a slot are being deleted. O(1).
    pub fn is_leaving(&self, slot: u16) -> bool {
        self.imports.is_leaving(slot)
    }

    /// The slots whose keys are being deleted, in their order. Cost: one step where there are none, else one
    /// for each 64 slots and each of these.
    pub fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        self.imports.leaving()
    }

    pub(crate) fn tell_databases(&mut self) {
        let hidden = self.imports.hidden().cloned();
        self.dbs_mut().iter_mut().for_each(|db| db.tables.hidden.clone_from(&hidden));
    }

    /// The imports, to begin and to end some.
    pub fn import_marks(&mut self) -> ImportMarks<'_> {
        ImportMarks { keyspace: self }
    }
}

/// The imports of a keyspace, to begin and to end some. Keys are neither looked at nor changed.
pub struct ImportMarks<'a> {
    keyspace: &'a mut Keyspace,
}

impl ImportMarks<'_> {
    /// Notes an import, whose slots are hidden from now on. Imports of the same name, or with one of its
    /// slots, are over: the server that has begun this one has ended them, though nobody was told. Where
    /// keys have no slots, nothing happens. Cost: one step for each slot, import and database.
    pub fn begin(&mut self, import: SlotImport) {
        if self.keyspace.hasher().layout() == Layout::PerSlot {
            self.keyspace.imports.begin(import);
            self.keyspace.tell_databases();
        }
    }

    /// Forgets the import of this name: its slots are shown from now on, with all keys that they have.
    /// `None` where there is none. Cost: as for [`ImportMarks::begin`].
    pub fn end(&mut self, name: &[u8]) -> Option<SlotImport> {
        let ended = self.keyspace.imports.end(name)?;
        self.keyspace.tell_databases();
        Some(ended)
    }
}

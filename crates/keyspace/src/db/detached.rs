//! Slots that were emptied at once: their tables are detached from those of the database, so no look-up, scan
//! or count finds their keys. The entries stay in the store and are freed in steps (`db/freeing.rs`).
//!
//! Invariants: (1) each entry is in exactly one index over keys, either that of a table of the database or
//! that of a detached table; if an entry of a detached table has an expiry, it is also in that table's index
//! over keys with an expiry; (2) an entry of a detached table does not change until it is freed, and
//! compaction is suspended until then; (3) a cut (`db/cut.rs`) that is opened after a slot was detached does
//! not include the slot's entries: the cut's cursor skips their blocks.

use super::tables::{IndexKind, Table};
use sluice_collections::slab::Handle;
use std::collections::BTreeMap;

/// The tables of detached slots that still have keys.
#[derive(Default)]
pub(crate) struct Detached {
    /// Detached tables by slot and age, the oldest of a slot first.
    pub(super) tables: BTreeMap<(u16, u32), DetachedTable>,
}

/// The detached table of one slot.
pub(super) struct DetachedTable {
    pub(super) table: Table,
    /// Whether the open cut was opened after the slot was detached; see invariant (3).
    pub(super) is_ahead_of_cut: bool,
}

impl Detached {
    pub(super) fn add(&mut self, slot: u16, table: Table) {
        let number = self.of_slot(slot).next_back().map_or(0, |((_, number), _)| number + 1);
        self.tables.insert((slot, number), DetachedTable { table, is_ahead_of_cut: false });
    }

    /// The tables of one slot, the oldest first.
    pub(super) fn of_slot(
        &self,
        slot: u16,
    ) -> impl DoubleEndedIterator<Item = (&(u16, u32), &DetachedTable)> {
        self.tables.range((slot, 0)..=(slot, u32::MAX))
    }

    /// Bytes of the indexes of a kind.
    pub(super) fn bytes(&self, kind: IndexKind) -> usize {
        self.tables.values().map(|detached| detached.table.index(kind).bytes()).sum()
    }

    /// Every entry in the detached tables' indexes of this kind, for checks.
    pub(super) fn iter(&self, kind: IndexKind) -> impl Iterator<Item = Handle> + '_ {
        self.tables.values().flat_map(move |detached| detached.table.index(kind).iter())
    }

    /// Records that a cut is opened, so that no table detached so far is part of the cut.
    pub(super) fn note_cut(&mut self) {
        self.tables.values_mut().for_each(|detached| detached.is_ahead_of_cut = true);
    }

    /// The slots in order; a slot appears once for each of its detached tables.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.tables.keys().map(|(slot, _)| *slot)
    }

    /// Whether no key is left to free.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

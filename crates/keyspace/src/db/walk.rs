//! The walk over one hash slot of a database, for a stream that has each key once, whole, and then each
//! change: the slot goes on changing meanwhile. No moment is shown, unlike by a cut.
//!
//! ```text
//!  order of hashes   │ passed: captured, or entered since │ ahead: captured where a change came first, else not yet │
//!                                                         ▲ cursor
//! ```
//!
//! Entries are passed in the order of [`Index::scan`](sluice_collections::Index): that of the hashes with
//! their bits reversed. So a hash says by itself on which side of the cursor its entry lies, whatever the
//! index has split or merged, and wherever the entry's block is.
//!
//! Invariants: (1) an entry is captured once: by the cursor, or ahead of its first change
//! ([`Db::before_change`](super::Db)), as it is then; (2) one that enters the slot during the walk is not
//! captured: whoever hears of changes heard of that; (3) `ahead` names those entries in front of the cursor
//! of which (1) or (2) has come true, and no other key: it takes as much as the slot has keys at most.

use crate::captured::Captured;
use sluice_base::heap;
use sluice_collections::slab::Handle;
use std::collections::BTreeSet;

/// A walk under way.
pub(crate) struct SlotWalk {
    /// The database's number, for what is captured.
    pub(super) number: usize,
    pub(super) slot: u16,
    /// Where the index goes on; none when the walk has passed all.
    pub(super) cursor: Option<u64>,
    /// See (3).
    pub(super) ahead: BTreeSet<Box<[u8]>>,
    /// Bytes of these, as the allocator rounds them.
    ahead_bytes: usize,
    /// What is captured and not taken yet.
    pub(super) captured: Option<Captured>,
    /// The entries of one bucket.
    pub(super) bucket: Vec<Handle>,
}

impl SlotWalk {
    /// A walk over a slot of the database of this number, ahead of all entries.
    pub(super) fn new(number: usize, slot: u16) -> SlotWalk {
        let (ahead, captured, bucket) = (BTreeSet::new(), None, Vec::new());
        SlotWalk { number, slot, cursor: Some(0), ahead, ahead_bytes: 0, captured, bucket }
    }

    /// Whether the walk has passed an entry of this hash.
    pub(super) fn has_passed(&self, hash: u64) -> bool {
        self.cursor.is_none_or(|cursor| hash.reverse_bits() < cursor.reverse_bits())
    }

    /// The slot has lost all its keys at once: nothing is left to pass.
    pub(super) fn abandon(&mut self) {
        self.cursor = None;
        self.ahead.clear();
        self.ahead_bytes = 0;
    }

    pub(super) fn note_ahead(&mut self, key: &[u8]) {
        if self.ahead.insert(key.into()) {
            self.ahead_bytes += heap::block(key.len());
        }
    }

    pub(super) fn forget_ahead(&mut self, key: &[u8]) -> bool {
        let was_there = self.ahead.remove(key);
        self.ahead_bytes -= if was_there { heap::block(key.len()) } else { 0 };
        was_there
    }

    /// Bytes that the walk takes, but for the values that it shares.
    pub(super) fn bytes(&self) -> usize {
        let ahead = heap::tree::<Box<[u8]>, ()>(self.ahead.len()) + self.ahead_bytes;
        let captured = self.captured.as_ref().map_or(0, Captured::footprint);
        heap::block(size_of::<SlotWalk>()) + heap::vec(&self.bucket) + ahead + captured
    }
}

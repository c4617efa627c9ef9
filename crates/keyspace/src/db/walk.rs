//! The walk over one hash slot of a database, for a stream that contains each key once, with its whole value,
//! and then each later change of the key. The slot may change during the walk; unlike a cut, a walk shows no
//! single moment.
//!
//! ```text
//!  order of hashes   │ passed: captured, or entered since │ ahead: captured where a change came first, else not yet │
//!                                                         ▲ cursor
//! ```
//!
//! The walk passes entries in the order of [`Index::scan`](sluice_collections::Index), that is, in the order
//! of their hashes with the bits reversed. Therefore the hash alone decides on which side of the cursor an
//! entry is, however the index has split or merged buckets, and wherever the entry's block is.
//!
//! Invariants: (1) an entry is captured once, in its present state: by the cursor, or before a command first
//! changes it ([`Db::before_change`](super::Db)) or reads it (`walking::capture_read`); (2) an entry that
//! enters the slot during the walk in front of the cursor is not captured, because the stream contains it as
//! a change; (3) `ahead` contains exactly those entries in front of the cursor that were captured as in (1)
//! or entered the slot as in (2); these are at most as many as the slot has keys.

use crate::captured::Captured;
use sluice_base::heap;
use sluice_collections::slab::Handle;
use std::collections::BTreeSet;

/// A walk in progress.
pub(crate) struct SlotWalk {
    /// The database's number, for the captured entries.
    pub(super) number: usize,
    pub(super) slot: u16,
    /// Cursor in the index; `None` once the walk has passed all entries.
    pub(super) cursor: Option<u64>,
    /// Entries in front of the cursor that the cursor must skip; see (3).
    pub(super) ahead: BTreeSet<Box<[u8]>>,
    /// Bytes of the keys in `ahead`, as the allocator rounds them.
    ahead_bytes: usize,
    /// Entries that were captured and not taken yet.
    pub(super) captured: Option<Captured>,
    /// Buffer for the entries of one bucket.
    pub(super) bucket: Vec<Handle>,
}

impl SlotWalk {
    /// A walk over a slot of database `number`, at its beginning.
    pub(super) fn new(number: usize, slot: u16) -> SlotWalk {
        let (ahead, captured, bucket) = (BTreeSet::new(), None, Vec::new());
        SlotWalk { number, slot, cursor: Some(0), ahead, ahead_bytes: 0, captured, bucket }
    }

    /// Whether the walk has passed the place of an entry with this hash.
    pub(super) fn has_passed(&self, hash: u64) -> bool {
        self.cursor.is_none_or(|cursor| hash.reverse_bits() < cursor.reverse_bits())
    }

    /// Ends the walk because the slot has lost all its keys at once.
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

    /// Bytes of the walk, without the values that it shares.
    pub(super) fn bytes(&self) -> usize {
        let ahead = heap::tree::<Box<[u8]>, ()>(self.ahead.len()) + self.ahead_bytes;
        let captured = self.captured.as_ref().map_or(0, Captured::footprint);
        heap::block(size_of::<SlotWalk>()) + heap::vec(&self.bucket) + ahead + captured
    }
}

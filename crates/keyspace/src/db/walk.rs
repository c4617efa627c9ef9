//! The walk over one hash slot of a database, for whoever wants each key once, whole, and behind it each
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

use super::Db;
use super::tables::IndexKind;
use crate::Key;
use crate::captured::Captured;
use crate::entry::{self, Head, Name};
use crate::hasher::slot_of;
use sluice_base::{heap, key_slot};
use sluice_collections::slab::Handle;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// A walk under way.
pub(crate) struct SlotWalk {
    /// The database's number, for what is captured.
    number: usize,
    slot: u16,
    /// Where the index goes on; none when the walk has passed all.
    cursor: Option<u64>,
    /// See (3).
    ahead: BTreeSet<Box<[u8]>>,
    /// Bytes of these, as the allocator rounds them.
    ahead_bytes: usize,
    /// What is captured and not taken yet.
    captured: Option<Captured>,
    /// The entries of one bucket.
    bucket: Vec<Handle>,
}

impl SlotWalk {
    /// Whether the walk has passed an entry of this hash.
    fn has_passed(&self, hash: u64) -> bool {
        self.cursor.is_none_or(|cursor| hash.reverse_bits() < cursor.reverse_bits())
    }

    fn note_ahead(&mut self, key: &[u8]) {
        if self.ahead.insert(key.into()) {
            self.ahead_bytes += heap::block(key.len());
        }
    }

    fn forget_ahead(&mut self, key: &[u8]) -> bool {
        let was_there = self.ahead.remove(key);
        self.ahead_bytes -= if was_there { heap::block(key.len()) } else { 0 };
        was_there
    }
}

impl Db {
    /// Begins a walk over a slot, in the database of this number; none is made where the slot is empty: what
    /// enters it later is no part of the walk (2).
    pub(crate) fn begin_walk(&mut self, number: usize, slot: u16) {
        debug_assert!(self.store.walk.is_none(), "one walk at a time");
        if self.slot_len(slot) > 0 {
            let (ahead, captured, bucket) = (BTreeSet::new(), None, Vec::new());
            let walk = SlotWalk { number, slot, cursor: Some(0), ahead, ahead_bytes: 0, captured, bucket };
            self.store.walk = Some(Box::new(walk));
        }
    }

    /// Captures the entries of one bucket more; whether any is left.
    pub(crate) fn advance_walk(&mut self) -> bool {
        let Some(walk) = self.store.walk.as_deref_mut() else { return false };
        let Some(cursor) = walk.cursor else { return false };
        let mut bucket = std::mem::take(&mut walk.bucket);
        let index = self.tables.of_slot(walk.slot);
        let next = index.map_or(0, |index| {
            index.scan(cursor, |handle| {
                self.store.slab.prefetch(handle);
                bucket.push(handle);
            })
        });
        for handle in bucket.drain(..) {
            self.capture_passed(handle);
        }
        let Some(walk) = self.store.walk.as_deref_mut() else { return false };
        walk.bucket = bucket;
        walk.cursor = (next != 0).then_some(next);
        walk.cursor.is_some()
    }

    /// The cursor comes to an entry.
    fn capture_passed(&mut self, handle: Handle) {
        let hash = self.store.rehash(handle);
        let (key, walk) = (self.store.key(handle), self.store.walk.as_deref());
        // A bucket of an index that has shrunk has entries behind the cursor too.
        if walk.is_none_or(|walk| walk.has_passed(hash)) {
            return;
        }
        let is_ahead = walk.is_some_and(|walk| walk.ahead.contains(key));
        if is_ahead {
            let key = key.to_vec();
            if let Some(walk) = self.store.walk.as_deref_mut() {
                walk.forget_ahead(&key);
            }
        } else {
            self.capture_entry(handle);
        }
    }

    /// An entry is about to change while a walk is under way.
    #[cold]
    pub(super) fn capture_ahead(&mut self, handle: Handle) {
        let (key, Some(walk)) = (self.store.key(handle), self.store.walk.as_deref()) else { return };
        if key_slot(key) != walk.slot
            || walk.has_passed(self.store.rehash(handle))
            || walk.ahead.contains(key)
        {
            return;
        }
        let key = key.to_vec();
        self.capture_entry(handle);
        if let Some(walk) = self.store.walk.as_deref_mut() {
            walk.note_ahead(&key);
        }
    }

    /// Captures the entry of a key ahead of the cursor, if there is one: a command reads it.
    pub(crate) fn capture_read(&mut self, key: Key<'_>) {
        if let Some(found) = self.find(key) {
            self.capture_ahead(found.handle);
        }
    }

    /// The entry of a key as it is, whether or not a walk is under way.
    pub(crate) fn image_of(&self, number: usize, key: Key<'_>) -> Option<Captured> {
        let mut image = Captured::sparse(number);
        self.push_entry(self.find(key)?.handle, &mut image);
        Some(image)
    }

    /// A key has entered an index while a walk is under way.
    #[cold]
    pub(super) fn note_entered(&mut self, key: Key<'_>) {
        let Some(walk) = self.store.walk.as_deref_mut() else { return };
        if slot_of(key.hash) == usize::from(walk.slot) && !walk.has_passed(key.hash) {
            walk.note_ahead(key.bytes);
        }
    }

    /// A key leaves while a walk is under way.
    #[cold]
    pub(super) fn note_left(&mut self, key: Key<'_>) {
        if let Some(walk) = self.store.walk.as_deref_mut() {
            walk.forget_ahead(key.bytes);
        }
    }

    fn capture_entry(&mut self, handle: Handle) {
        let Some(mut walk) = self.store.walk.take() else { return };
        let number = walk.number;
        self.push_entry(handle, walk.captured.get_or_insert_with(|| Captured::sparse(number)));
        self.store.walk = Some(walk);
    }

    fn push_entry(&self, handle: Handle, into: &mut Captured) {
        let super::Store { slab, values, keys, .. } = &self.store;
        let (word, body) = slab.block(handle);
        let head = Head(word.load(Relaxed));
        let key = match entry::name_of(body) {
            Name::Inside(_) => None,
            Name::Outside(index) => keys.get(index).map(|key| &key[..]),
        };
        let is_outside = head.form().is_outside();
        let value = is_outside.then(|| values.get(entry::index_of(entry::payload(head, body)))).flatten();
        into.push(head, body, key, value);
    }

    /// What the walk has captured since it was asked last.
    pub(crate) fn take_walked(&mut self) -> Option<Captured> {
        self.store.walk.as_deref_mut()?.captured.take()
    }

    /// Ends the walk, whether it is through or not.
    pub(crate) fn end_walk(&mut self) {
        self.store.walk = None;
    }

    /// Bytes that the walk takes, but for the values that it shares.
    pub(super) fn walk_bytes(&self) -> usize {
        let Some(walk) = self.store.walk.as_deref() else { return 0 };
        let ahead = heap::tree::<Box<[u8]>, ()>(walk.ahead.len()) + walk.ahead_bytes;
        let captured = walk.captured.as_ref().map_or(0, Captured::footprint);
        heap::block(size_of::<SlotWalk>()) + heap::vec(&walk.bucket) + ahead + captured
    }

    /// Checks that every entry in front of the cursor that `ahead` names is there (3); for tests. O(n).
    pub(super) fn check_walk(&self) {
        let Some(walk) = self.store.walk.as_deref() else { return };
        for key in &walk.ahead {
            let key = Key::hashed(key, self.hasher());
            let index = self.tables.index(IndexKind::Keys, key.hash);
            assert!(index.find(key.hash, |handle| self.key(handle) == key.bytes).is_some());
            assert!(slot_of(key.hash) == usize::from(walk.slot) && !walk.has_passed(key.hash));
        }
    }
}

//! The steps of a walk over a slot: who captures an entry, and when. `db/walk.rs` says what a walk is, and
//! has its invariants.

use super::walk::SlotWalk;
use super::{Db, Store};
use crate::Key;
use crate::captured::Captured;
use crate::entry::{self, Head, Name};
use crate::hasher::slot_of;
use sluice_base::key_slot;
use sluice_collections::slab::Handle;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// An entry is about to change, or is read, while a walk is under way.
    #[cold]
    pub(super) fn capture_ahead(&mut self, handle: Handle) {
        let (key, Some(walk)) = (self.key(handle), self.walk.as_deref()) else { return };
        if key_slot(key) != walk.slot || walk.has_passed(self.rehash(handle)) || walk.ahead.contains(key) {
            return;
        }
        let key = key.to_vec();
        self.capture_for_walk(handle);
        if let Some(walk) = self.walk.as_deref_mut() {
            walk.note_ahead(&key);
        }
    }

    /// The cursor comes to an entry.
    fn capture_passed(&mut self, handle: Handle) {
        let (key, Some(walk)) = (self.key(handle), self.walk.as_deref()) else { return };
        // A bucket of an index that has shrunk has entries behind the cursor too.
        if walk.has_passed(self.rehash(handle)) {
            return;
        }
        if !walk.ahead.contains(key) {
            return self.capture_for_walk(handle);
        }
        let key = key.to_vec();
        if let Some(walk) = self.walk.as_deref_mut() {
            walk.forget_ahead(&key);
        }
    }

    fn capture_for_walk(&mut self, handle: Handle) {
        let Some(mut walk) = self.walk.take() else { return };
        let number = walk.number;
        self.push_entry(handle, walk.captured.get_or_insert_with(|| Captured::sparse(number)));
        self.walk = Some(walk);
    }

    fn push_entry(&self, handle: Handle, into: &mut Captured) {
        let Store { slab, values, keys, .. } = self;
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

    /// A key has entered an index while a walk is under way.
    #[cold]
    pub(super) fn note_entered(&mut self, key: Key<'_>) {
        let Some(walk) = self.walk.as_deref_mut() else { return };
        if slot_of(key.hash) == usize::from(walk.slot) && !walk.has_passed(key.hash) {
            walk.note_ahead(key.bytes);
        }
    }

    /// A key leaves while a walk is under way.
    #[cold]
    pub(super) fn note_left(&mut self, key: Key<'_>) {
        if let Some(walk) = self.walk.as_deref_mut() {
            walk.forget_ahead(key.bytes);
        }
    }
}

/// Begins a walk over a slot, in the database of this number; none is made where the slot is empty: what
/// enters the slot later is no part of the walk (2).
pub(crate) fn begin(db: &mut Db, number: usize, slot: u16) {
    debug_assert!(db.store.walk.is_none(), "one walk at a time");
    if db.slot_len(slot) > 0 {
        db.store.walk = Some(Box::new(SlotWalk::new(number, slot)));
        db.store.look_for_watchers();
    }
}

/// Captures the entries of one bucket more; whether any is left.
pub(crate) fn advance(db: &mut Db) -> bool {
    let Db { store, tables, .. } = db;
    let Some(walk) = store.walk.as_deref_mut() else { return false };
    let Some(cursor) = walk.cursor else { return false };
    let mut bucket = std::mem::take(&mut walk.bucket);
    let index = tables.of_slot(walk.slot);
    let next = index.map_or(0, |index| {
        index.scan(cursor, |handle| {
            store.slab.prefetch(handle);
            bucket.push(handle);
        })
    });
    for handle in bucket.drain(..) {
        store.capture_passed(handle);
    }
    let Some(walk) = store.walk.as_deref_mut() else { return false };
    walk.bucket = bucket;
    walk.cursor = (next != 0).then_some(next);
    walk.cursor.is_some()
}

/// Captures the entry of a key ahead of the cursor, if there is one: a command reads it.
pub(crate) fn capture_read(db: &mut Db, key: Key<'_>) {
    if let Some(found) = db.find(key) {
        db.store.capture_ahead(found.handle);
    }
}

/// The entry of a key as it is, whether or not a walk is under way.
pub(crate) fn image_of(db: &Db, number: usize, key: Key<'_>) -> Option<Captured> {
    let mut image = Captured::sparse(number);
    db.store.push_entry(db.find(key)?.handle, &mut image);
    Some(image)
}

/// What the walk has captured since it was asked last.
pub(crate) fn take(db: &mut Db) -> Option<Captured> {
    db.store.walk.as_deref_mut()?.captured.take()
}

/// Ends the walk, whether it is through or not.
pub(crate) fn end(db: &mut Db) {
    db.store.walk = None;
    db.store.look_for_watchers();
}

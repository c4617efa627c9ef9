//! The steps of a walk over a slot: what captures an entry, and when. `db/walk.rs` defines the walk
//! and its invariants.

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
    /// Captures an entry that is about to be changed or read, if it is in the slot of the walk in progress,
    /// in front of the cursor and not in `ahead`.
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

    /// Captures an entry that the cursor has reached, unless it is in `ahead`, from which it is removed then.
    fn capture_passed(&mut self, handle: Handle) {
        let (key, Some(walk)) = (self.key(handle), self.walk.as_deref()) else { return };
        // Entries that the cursor has passed already are skipped, because in an index that has shrunk, a
        // bucket also holds such entries.
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

    /// Adds a new key to `ahead` if it is in the slot of the walk in progress, in front of the cursor.
    #[cold]
    pub(super) fn note_entered(&mut self, key: Key<'_>) {
        let Some(walk) = self.walk.as_deref_mut() else { return };
        if slot_of(key.hash) == usize::from(walk.slot) && !walk.has_passed(key.hash) {
            walk.note_ahead(key.bytes);
        }
    }

    /// Removes from `ahead` a key that is being deleted, if a walk is in progress and the key is there.
    #[cold]
    pub(super) fn note_left(&mut self, key: Key<'_>) {
        if let Some(walk) = self.walk.as_deref_mut() {
            walk.forget_ahead(key.bytes);
        }
    }
}

/// Begins a walk over a slot of database `number`. An empty slot gets no walk, because keys that enter the
/// slot later would not be captured (2).
pub(crate) fn begin(db: &mut Db, number: usize, slot: u16) {
    debug_assert!(db.store.walk.is_none(), "one walk at a time");
    if db.slot_len(slot) > 0 {
        db.store.walk = Some(Box::new(SlotWalk::new(number, slot)));
        db.store.look_for_watchers();
    }
}

/// Captures the entries of one more bucket; the result is whether any bucket is left.
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

/// Captures the entry of a key that a command is about to read, if it exists and the walk in progress has
/// yet to capture it.
pub(crate) fn capture_read(db: &mut Db, key: Key<'_>) {
    if let Some(found) = db.find(key) {
        db.store.capture_ahead(found.handle);
    }
}

/// A copy of the entry of a key, whether or not a walk is in progress; `None` if the key is absent.
pub(crate) fn image_of(db: &Db, number: usize, key: Key<'_>) -> Option<Captured> {
    let mut image = Captured::sparse(number);
    db.store.push_entry(db.find(key)?.handle, &mut image);
    Some(image)
}

/// Takes what the walk has captured since the last call; `None` if it has captured nothing, or if no walk is
/// in progress.
pub(crate) fn take(db: &mut Db) -> Option<Captured> {
    db.store.walk.as_deref_mut()?.captured.take()
}

/// Ends the walk, complete or not.
pub(crate) fn end(db: &mut Db) {
    db.store.walk = None;
    db.store.look_for_watchers();
}

//! The steps that detach a slot from a database and free its keys. `db/detached.rs` defines detached
//! slots and their invariants.

use super::change::free_block;
use super::detached::DetachedTable;
use super::tables::IndexKind;
use super::volatile::earliest_in;
use super::{Db, Store, earliest_of_key};
use crate::Key;
use crate::entry::Head;
use crate::hasher::slot_of;
use sluice_base::key_slot;
use sluice_collections::slab::Handle;
use sluice_value::Value;
use std::sync::atomic::Ordering::Relaxed;

/// A step of freeing takes no further buckets once it has taken this many entries.
const TAKEN_AT_ONCE: usize = 32;

/// Detaches a slot with all its keys; the result is the number of these keys. A walk over the slot ends.
/// Cost: O(log n) for n detached tables.
pub(crate) fn detach(db: &mut Db, slot: u16) -> usize {
    let Some(table) = db.tables.take_table(slot) else { return 0 };
    if let Some(walk) = db.store.walk.as_deref_mut().filter(|walk| walk.slot == slot) {
        walk.abandon();
    }
    let len = table.index(IndexKind::Keys).len();
    db.detached.add(slot, table);
    len
}

/// Whether a key existed when its slot was last detached, and is not freed yet.
pub(crate) fn was_detached(db: &Db, key: Key<'_>) -> bool {
    let newest = db.detached.of_slot(slot_of(key.hash) as u16).next_back();
    newest.is_some_and(|(_, detached)| {
        detached.table.index(IndexKind::Keys).find(key.hash, |h| db.key_is(h, key.bytes)).is_some()
    })
}

/// Frees about [`TAKEN_AT_ONCE`] entries of a detached table. `freed` is called with each key, and with the
/// key's value if the value is stored outside the entry's block.
pub(crate) fn free(db: &mut Db, mut freed: impl FnMut(&[u8], Option<Value>)) {
    let Db { store, detached, .. } = db;
    let Some(mut first) = detached.tables.first_entry() else { return };
    let DetachedTable { table, is_ahead_of_cut } = first.get_mut();
    let (is_ahead_of_cut, mut taken) = (*is_ahead_of_cut, Vec::with_capacity(2 * TAKEN_AT_ONCE));
    let keys = table.index_mut(IndexKind::Keys);
    while taken.len() < TAKEN_AT_ONCE && !keys.is_empty() {
        keys.take_bucket(&mut taken, |h| store.rehash(h));
    }
    let is_through = keys.is_empty();
    taken.iter().for_each(|handle| store.slab.prefetch(*handle));
    for handle in &taken {
        if Head(store.slab.head(*handle).load(Relaxed)).has_expiry() {
            let expires = table.index_mut(IndexKind::Expires);
            if let Some(position) = expires.find(store.rehash(*handle), |h| h == *handle) {
                expires.remove(position, |h| store.rehash(h));
            }
        }
    }
    if is_through {
        first.remove();
    }
    for handle in taken {
        db.store.leave_to_cut(handle, is_ahead_of_cut);
        let value = db.take_value(handle);
        if let Some(at) = value.as_ref().and_then(earliest_in) {
            forget_fields(db, handle, at);
        }
        freed(db.store.key(handle), value);
        free_block(&mut db.store, handle);
    }
}

/// Removes a freed hash from the list of hashes with fields that expire, unless a new hash has the same
/// key and the same time.
#[cold]
fn forget_fields(db: &mut Db, handle: Handle, at: i64) {
    let name = db.store.key(handle).to_vec();
    let key = Key::hashed(&name, db.hasher());
    if earliest_of_key(db, key) != Some(at) {
        db.volatile.change(key.bytes, Some(at), None);
    }
}

/// Whether the open cut does not include an entry because the entry's slot was detached before the cut
/// (3). Cost: O(1) if no slot is detached; otherwise a CRC of the key, O(log n) for n detached tables, and
/// a look-up in each table of the slot that was detached before the cut.
pub(super) fn is_ahead_of_cut(db: &Db, handle: Handle) -> bool {
    if db.detached.is_empty() {
        return false;
    }
    let of_slot = db.detached.of_slot(key_slot(db.store.key(handle)));
    let mut ahead = of_slot.filter(|(_, detached)| detached.is_ahead_of_cut).peekable();
    if ahead.peek().is_none() {
        return false;
    }
    let hash = db.store.rehash(handle);
    ahead.any(|(_, detached)| detached.table.index(IndexKind::Keys).find(hash, |h| h == handle).is_some())
}

impl Store {
    /// Prepares the release of an entry of a detached table while a cut may be open. Walks do not
    /// include the entry.
    fn leave_to_cut(&mut self, handle: Handle, is_ahead_of_cut: bool) {
        match (self.cut.is_some(), is_ahead_of_cut) {
            (false, _) => {}
            // The cursor must not capture the block as an entry of the cut.
            (true, true) => self.note_born(handle),
            (true, false) => self.capture_changed(handle),
        }
    }
}

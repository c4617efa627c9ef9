//! WATCH: the keys that clients watch, and the clients whose transaction fails because one of them changed.
//!
//! Invariants: (1) a client is listed under a key exactly when the key is in the client's own list; (2) a
//! marked client watches nothing: one change makes its transaction fail, so later changes need not find the
//! client; (3) a key that had expired when watched counts as absent, so its deletion changes nothing; (4) a
//! change of one key costs O(log n) for each watcher that stays unmarked, however many keys it watches;
//! marking a watcher removes each of its keys once. Therefore the key's entry, not the client's list, stores
//! whether the key had expired.

use sluice_base::Epoch;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_keyspace::KeyMap;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Watched keys and the clients that watch them.
#[derive(Debug, Default)]
pub struct Watching {
    /// Advanced when the first key becomes watched, and when the last one is no longer watched.
    epoch: Epoch,
    /// The watchers of each key, and whether the key had expired when the client began to watch it.
    keys: KeyMap<BTreeMap<SessionKey, bool>>,
    clients: BTreeMap<SessionKey, OwnKeys>,
    /// Marked clients: a key that they watched has changed.
    changed: BTreeSet<SessionKey>,
}

/// The keys that a client watches.
#[derive(Debug, Default)]
struct OwnKeys {
    keys: Vec<(usize, Box<[u8]>)>,
    /// Bytes of the keys that count as the client's memory.
    bytes: usize,
}

/// Bytes by which a watched key of this length increases a client's memory, because the key is in the
/// client's list and in the map.
fn bytes_of_key(len: usize) -> usize {
    2 * len + size_of::<(usize, Box<[u8]>)>() + size_of::<(SessionKey, bool)>()
}

/// A key that a client watches.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    /// Number of the database.
    pub db: usize,
    /// The key's name, as the client wrote it.
    pub key: Box<[u8]>,
    /// Whether the key had already expired, without being deleted yet.
    pub expired: bool,
}

/// A kind of change to a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedChange {
    /// The key was modified or created.
    Modified,
    /// The key was deleted because it had expired, or because its whole database was emptied.
    Expired,
}

/// The state of a key in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPresence {
    /// The database has no value under this key.
    Absent,
    /// The key's value has expired but is not deleted yet.
    Expired,
    /// The key has a value that has not expired.
    Live,
}

impl Watching {
    /// The state without watched keys, which advances `epoch` (see the field).
    pub fn new(epoch: Epoch) -> Watching {
        Watching { epoch, ..Watching::default() }
    }

    /// Bytes of heap memory for keys and clients. O(watched keys).
    pub fn footprint(&self) -> usize {
        let watchers = |of: &BTreeMap<SessionKey, bool>| heap::tree::<SessionKey, bool>(of.len());
        let own = |OwnKeys { keys, .. }: &OwnKeys| {
            heap::vec(keys) + keys.iter().map(|(_, key)| heap::block(key.len())).sum::<usize>()
        };
        self.keys.footprint()
            + self.keys.values().map(watchers).sum::<usize>()
            + heap::tree::<SessionKey, OwnKeys>(self.clients.len())
            + self.clients.values().map(own).sum::<usize>()
            + heap::tree::<SessionKey, ()>(self.changed.len())
    }

    /// Whether no client watches a key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of watched keys.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Number of clients that watch keys.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Number of keys that the client watches.
    pub fn count(&self, client: SessionKey) -> usize {
        self.clients.get(&client).map_or(0, |own| own.keys.len())
    }

    /// Bytes that count for a client's watched keys. O(log n), because `maxmemory-clients` queries every
    /// client once an iteration.
    pub fn heap_bytes(&self, client: SessionKey) -> usize {
        self.clients.get(&client).map_or(0, |own| own.bytes)
    }

    /// Whether the client watches keys or is marked.
    pub fn concerns(&self, client: SessionKey) -> bool {
        self.clients.contains_key(&client) || self.changed.contains(&client)
    }

    /// Whether the client is marked: a key that it watched has changed.
    pub fn has_changed(&self, client: SessionKey) -> bool {
        self.changed.contains(&client)
    }

    /// Database and name of the client's watched keys that had not expired when watched.
    pub fn live(&self, client: SessionKey) -> impl Iterator<Item = (usize, &[u8])> {
        let own = self.clients.get(&client).into_iter().flat_map(|own| &own.keys);
        let had_expired = move |db: usize, key: &[u8]| {
            self.keys.get(db, key).and_then(|watchers| watchers.get(&client)) == Some(&true)
        };
        own.filter(move |(db, key)| !had_expired(*db, key)).map(|(db, key)| (*db, &**key))
    }

    /// Watches a key for a client; no effect if the client watches the key already or is marked.
    pub fn watch(&mut self, client: SessionKey, watched: WatchedKey) {
        let WatchedKey { db, key, expired } = watched;
        if self.changed.contains(&client) {
            return;
        }
        let before = self.is_empty();
        if let Entry::Vacant(entry) = self.keys.entry(db, &key).entry(client) {
            entry.insert(expired);
            let own = self.clients.entry(client).or_default();
            own.bytes += bytes_of_key(key.len());
            own.keys.push((db, key));
        }
        self.note_empty(before);
    }

    /// Removes a client's watched keys and its mark. Cost: O(log n) for each key of the client.
    pub fn forget(&mut self, client: SessionKey) {
        self.changed.remove(&client);
        self.unlist(client);
    }

    fn unlist(&mut self, client: SessionKey) {
        let before = self.is_empty();
        for (db, key) in self.clients.remove(&client).unwrap_or_default().keys {
            let Some(watchers) = self.keys.get_mut(db, &key) else { continue };
            watchers.remove(&client);
            if watchers.is_empty() {
                self.keys.remove(db, &key);
            }
        }
        self.note_empty(before);
    }

    fn note_empty(&self, before: bool) {
        if self.is_empty() != before {
            self.epoch.advance();
        }
    }

    /// Marks the watchers of a changed key. With [`WatchedChange::Expired`], a watcher for which the key had
    /// expired when watched is not marked; from then on the key counts as absent for it.
    pub fn changed(&mut self, db: usize, key: &[u8], change: WatchedChange) {
        self.mark_watchers(db, key, |had_expired| {
            change == WatchedChange::Modified || !std::mem::take(had_expired)
        });
    }

    /// Marks those watchers of a key for which `is_changed` returns true. The argument of `is_changed` says
    /// whether the key had expired when the client began to watch it, and may be modified.
    fn mark_watchers(&mut self, db: usize, key: &[u8], mut is_changed: impl FnMut(&mut bool) -> bool) {
        let Some(watchers) = self.keys.get_mut(db, key) else { return };
        let mut marked = Vec::new();
        for (client, had_expired) in watchers {
            if is_changed(had_expired) {
                marked.push(*client);
            }
        }
        marked.into_iter().for_each(|client| self.mark(client));
    }

    /// Marks the watchers of the keys that an emptied database held. Not marked are watchers for which the
    /// key had expired when they began to watch it, because for them nothing was deleted.
    pub fn database_emptied(&mut self, db: usize, mut held: impl FnMut(&[u8]) -> bool) {
        let keys: Vec<Box<[u8]>> =
            self.keys.of_db(db).filter(|(key, _)| held(key)).map(|(key, _)| key.into()).collect();
        keys.iter().for_each(|key| self.changed(db, key, WatchedChange::Expired));
    }

    /// Marks watchers after SWAPDB exchanged a database. `look` returns whether the database held the key
    /// before, and the state of the key in it now. An expired key counts as absent, before and after.
    pub fn database_exchanged(&mut self, db: usize, mut look: impl FnMut(&[u8]) -> (bool, KeyPresence)) {
        let keys: Vec<(Box<[u8]>, bool, KeyPresence)> = self
            .keys
            .of_db(db)
            .filter_map(|(key, _)| {
                let (held, found) = look(key);
                (held || found != KeyPresence::Absent).then(|| (key.into(), held, found))
            })
            .collect();
        for (key, held, found) in keys {
            self.mark_watchers(db, &key, |had_expired| match found {
                KeyPresence::Absent => !std::mem::take(had_expired),
                KeyPresence::Expired if *had_expired => false,
                KeyPresence::Expired => {
                    *had_expired = !held;
                    held
                }
                KeyPresence::Live => true,
            });
        }
    }

    fn mark(&mut self, client: SessionKey) {
        self.unlist(client);
        self.changed.insert(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(slot: u32) -> SessionKey {
        SessionKey { slot, generation: 0 }
    }

    fn watched(key: &[u8], expired: bool) -> WatchedKey {
        WatchedKey { db: 0, key: key.into(), expired }
    }

    #[test]
    fn a_change_marks_every_watcher_once_and_unlists_it() {
        let mut watching = Watching::default();
        watching.watch(client(1), watched(b"a", false));
        watching.watch(client(1), watched(b"a", false));
        watching.watch(client(1), watched(b"b", false));
        watching.watch(client(2), watched(b"a", false));
        assert_eq!((watching.keys(), watching.clients(), watching.count(client(1))), (2, 2, 2));
        watching.changed(1, b"a", WatchedChange::Modified);
        assert!(!watching.has_changed(client(1)), "another database");
        watching.changed(0, b"a", WatchedChange::Modified);
        assert!(watching.has_changed(client(1)) && watching.has_changed(client(2)));
        assert!(watching.is_empty());
        watching.watch(client(1), watched(b"c", false));
        assert!(watching.is_empty(), "its transaction fails anyway");
        watching.forget(client(1));
        assert!(!watching.has_changed(client(1)));
    }

    #[test]
    fn deleting_what_had_expired_before_is_no_change() {
        let mut watching = Watching::default();
        watching.watch(client(1), watched(b"a", true));
        watching.changed(0, b"a", WatchedChange::Expired);
        assert!(!watching.has_changed(client(1)));
        watching.changed(0, b"a", WatchedChange::Expired);
        assert!(watching.has_changed(client(1)), "a life that began after WATCH");
    }

    /// Watches `count` keys that had expired.
    fn many_watched(count: u32) -> Watching {
        let mut watching = Watching::default();
        for i in 0..count {
            watching.watch(client(1), watched(&i.to_be_bytes(), true));
        }
        watching
    }

    #[test]
    fn regress_a_change_costs_no_walk_over_the_clients_list() {
        // If each change walked over the client's list, this test would take minutes.
        let mut watching = many_watched(200_000);
        for i in 0..200_000u32 {
            watching.changed(0, &i.to_be_bytes(), WatchedChange::Expired);
        }
        assert!(!watching.has_changed(client(1)));
        assert_eq!(watching.live(client(1)).count(), 200_000, "each had one life that was over");
    }

    #[test]
    fn regress_the_memory_of_watched_keys_is_a_sum_that_is_kept() {
        let mut watching = many_watched(200_000);
        let each = bytes_of_key(4);
        // If each call summed up the list, this test would take minutes.
        assert!((0..100_000).all(|_| watching.heap_bytes(client(1)) == 200_000 * each));
        watching.watch(client(1), watched(&[0; 4], false));
        assert_eq!(watching.heap_bytes(client(1)), 200_000 * each, "a key counts once");
        watching.changed(0, &[0; 4], WatchedChange::Modified);
        assert_eq!(watching.heap_bytes(client(1)), 0);
    }

    #[test]
    fn an_exchange_marks_whoever_watches_a_key_that_is_not_as_good_as_the_same() {
        use KeyPresence::{Absent, Expired, Live};
        let cases = [
            // Columns: whether the key had expired when watched; whether the old database held it; its state
            // in the new database; whether the client is marked.
            (true, true, Absent, false),
            (true, true, Expired, false),
            (true, true, Live, true),
            (false, false, Absent, false),
            (false, false, Expired, false),
            (false, false, Live, true),
            (false, true, Absent, true),
            (false, true, Expired, true),
            (false, true, Live, true),
        ];
        for (expired, held, found, marks) in cases {
            let mut watching = Watching::default();
            watching.watch(client(1), watched(b"a", expired));
            watching.database_exchanged(0, |_| (held, found));
            assert_eq!(watching.has_changed(client(1)), marks, "{expired} {held} {found:?}");
        }
    }
}

//! WATCH: which keys clients watch, and whose transaction fails because one of them changed.
//!
//! Invariants: (1) a client is listed under a key exactly when the key is in the client's own list; (2) a client that is
//! marked watches nothing: one change is enough, so later ones need not find it; (3) a key that had expired when it was
//! watched counts as absent: its deletion changes nothing.

use crate::key_map::KeyMap;
use crate::session_key::SessionKey;
use sluice_base::heap;
use std::collections::{BTreeMap, BTreeSet};

/// Watched keys and their clients.
#[derive(Debug, Default)]
pub struct Watching {
    keys: KeyMap<BTreeSet<SessionKey>>,
    clients: BTreeMap<SessionKey, Vec<WatchedKey>>,
    /// Clients whose watched keys have changed.
    changed: BTreeSet<SessionKey>,
}

/// A key that a client watches.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    /// Database.
    pub db: usize,
    /// Key.
    pub key: Box<[u8]>,
    /// It had expired already.
    pub expired: bool,
}

/// A change that watchers may have to learn of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was modified or created.
    Modified,
    /// The key was deleted because it had expired.
    Expired,
}

/// What a database has under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPresence {
    /// Nothing.
    Absent,
    /// A value that has expired and was not deleted yet.
    Expired,
    /// A value.
    Live,
}

impl Watching {
    /// Bytes that the allocator has given. O(keys that are watched).
    pub(crate) fn footprint(&self) -> usize {
        let watchers = |of: &BTreeSet<SessionKey>| heap::tree::<SessionKey, ()>(of.len());
        let own = |keys: &Vec<WatchedKey>| {
            heap::vec(keys) + keys.iter().map(|watched| heap::block(watched.key.len())).sum::<usize>()
        };
        self.keys.footprint()
            + self.keys.values().map(watchers).sum::<usize>()
            + heap::tree::<SessionKey, Vec<WatchedKey>>(self.clients.len())
            + self.clients.values().map(own).sum::<usize>()
            + heap::tree::<SessionKey, ()>(self.changed.len())
    }

    /// Whether a key is watched by any client.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of keys that are watched.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Number of clients that watch keys.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Number of keys that a client watches.
    pub fn count(&self, client: SessionKey) -> usize {
        self.clients.get(&client).map_or(0, Vec::len)
    }

    /// Bytes that a client's watched keys take.
    pub fn heap_bytes(&self, client: SessionKey) -> usize {
        let keys = self.clients.get(&client).into_iter().flatten();
        // Each key is kept here and in the map.
        keys.map(|watched| 2 * watched.key.len() + size_of::<WatchedKey>() + size_of::<SessionKey>()).sum()
    }

    /// Whether a client watches keys, or watched keys that have changed.
    pub(crate) fn concerns(&self, client: SessionKey) -> bool {
        self.clients.contains_key(&client) || self.changed.contains(&client)
    }

    /// Whether a key that a client watched has changed.
    pub(crate) fn has_changed(&self, client: SessionKey) -> bool {
        self.changed.contains(&client)
    }

    /// The keys that a client watches.
    pub fn of(&self, client: SessionKey) -> &[WatchedKey] {
        self.clients.get(&client).map_or(&[], Vec::as_slice)
    }

    /// Watches a key for a client; nothing is done where the client watches the key already, or has been marked.
    pub fn watch(&mut self, client: SessionKey, watched: WatchedKey) {
        if self.changed.contains(&client) {
            return;
        }
        if self.keys.entry(watched.db, &watched.key).insert(client) {
            self.clients.entry(client).or_default().push(watched);
        }
    }

    /// Forgets what a client watches, and that something has changed. Cost: O(log n) for each key of the client.
    pub fn forget(&mut self, client: SessionKey) {
        self.changed.remove(&client);
        self.unlist(client);
    }

    fn unlist(&mut self, client: SessionKey) {
        for watched in self.clients.remove(&client).unwrap_or_default() {
            let Some(watchers) = self.keys.get_mut(watched.db, &watched.key) else { continue };
            watchers.remove(&client);
            if watchers.is_empty() {
                self.keys.remove(watched.db, &watched.key);
            }
        }
    }

    /// A key has changed: its watchers are marked.
    pub fn changed(&mut self, db: usize, key: &[u8], change: Change) {
        let Some(watchers) = self.keys.get(db, key) else { return };
        for client in watchers.clone() {
            let Some(watched) = self.watched(client, db, key) else { continue };
            if change == Change::Expired && std::mem::take(&mut watched.expired) {
                continue;
            }
            self.mark(client);
        }
    }

    /// A database was emptied: the watchers of the keys that it held are marked. A key that had expired when it was
    /// watched was not there to be deleted.
    pub(crate) fn database_emptied(&mut self, db: usize, mut held: impl FnMut(&[u8]) -> bool) {
        let keys: Vec<Box<[u8]>> =
            self.keys.of_db(db).filter(|(key, _)| held(key)).map(|(key, _)| key.into()).collect();
        keys.iter().for_each(|key| self.changed(db, key, Change::Expired));
    }

    /// A database was exchanged: `look` says of a key whether the old one held it, and what the new one has. A key that
    /// has expired is as good as none, before and after.
    pub(crate) fn database_exchanged(
        &mut self,
        db: usize,
        mut look: impl FnMut(&[u8]) -> (bool, KeyPresence),
    ) {
        let keys: Vec<(Box<[u8]>, bool, KeyPresence)> = self
            .keys
            .of_db(db)
            .filter_map(|(key, _)| {
                let (held, found) = look(key);
                (held || found != KeyPresence::Absent).then(|| (key.into(), held, found))
            })
            .collect();
        for (key, held, found) in keys {
            let Some(watchers) = self.keys.get(db, &key) else { continue };
            for client in watchers.clone() {
                let Some(watched) = self.watched(client, db, &key) else { continue };
                match found {
                    KeyPresence::Absent if watched.expired => watched.expired = false,
                    KeyPresence::Expired if watched.expired => {}
                    KeyPresence::Expired if !held => watched.expired = true,
                    KeyPresence::Absent | KeyPresence::Expired | KeyPresence::Live => self.mark(client),
                }
            }
        }
    }

    /// What a client watches under a key.
    fn watched(&mut self, client: SessionKey, db: usize, key: &[u8]) -> Option<&mut WatchedKey> {
        let own = self.clients.get_mut(&client)?;
        own.iter_mut().find(|watched| watched.db == db && *watched.key == *key)
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
        watching.changed(1, b"a", Change::Modified);
        assert!(!watching.has_changed(client(1)), "another database");
        watching.changed(0, b"a", Change::Modified);
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
        watching.changed(0, b"a", Change::Expired);
        assert!(!watching.has_changed(client(1)));
        watching.changed(0, b"a", Change::Expired);
        assert!(watching.has_changed(client(1)), "a life that began after WATCH");
    }

    #[test]
    fn an_exchange_marks_whoever_watches_a_key_that_is_not_as_good_as_the_same() {
        use KeyPresence::{Absent, Expired, Live};
        let cases = [
            // Expired when it was watched; held by the old database; found in the new; marks.
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

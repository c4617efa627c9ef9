//! Prefixes of clients in BCAST mode, and the changed keys *below* them (keys that begin with a prefix) that
//! are not yet taken to be sent.
//!
//! A tree of the prefixes (`tree.rs`) finds all prefixes of a key, so a change costs O(length of the key +
//! prefixes of the key), however many other prefixes exist.
//!
//! Invariants: (1) a prefix without clients does not exist; (2) a changed key is once in the list of changes,
//! and once in the list of each of its prefixes that was registered at its last change; (3) an ended client
//! stays registered until its prefixes are removed, in slices: clients are identified by their tracking
//! numbers, so the ended client is not confused with a new client of the same slot; (4) once more than
//! `CHANGED_BYTES_MAX` bytes are listed, further changes are not listed, and clients have to drop all copies.

use sluice_base::IdentityHasher;
use sluice_base::SessionKey;
use sluice_base::heap;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::tracking::table::Tracker;
use crate::tracking::tree::NameTree;

/// The registered prefixes with their clients, and the changed keys below them.
#[derive(Debug, Default)]
pub struct Prefixes {
    /// Finds the index of a prefix in `nodes`.
    tree: NameTree,
    nodes: Vec<Prefix>,
    free: Vec<u32>,
    /// Keys changed since the last [`Prefixes::take_changed`].
    changed: Vec<ChangedKey>,
    /// Approximate bytes of `changed` and of the lists of indexes into it.
    changed_bytes: usize,
    /// A change was not listed because of the bound on bytes.
    is_beyond: bool,
    /// Index in `changed` of each changed key, by the hash of the key.
    indexes: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    /// Indexes in `nodes` of the prefixes with changed keys.
    pending: Vec<u32>,
    /// Number of prefixes ever registered, including removed ones.
    begun: u64,
}

#[derive(Debug, Default)]
struct Prefix {
    name: Arc<[u8]>,
    clients: BTreeSet<Tracker>,
    /// Changed keys below this prefix, as indexes in `changed`.
    keys: Vec<u32>,
    /// Sequence number of this prefix among all that were ever registered, from 1.
    number: u64,
}

/// A changed key below some prefix.
#[derive(Debug)]
pub struct ChangedKey {
    /// The key, as clients know it.
    pub name: Box<[u8]>,
    /// The client that wrote the key; `None` if several clients or none did.
    pub writer: Option<SessionKey>,
    /// The database of the first change.
    db: usize,
    /// Other databases with a changed key of this name.
    other_dbs: BTreeSet<usize>,
    /// Value of `begun` when the key was put into the lists of its prefixes: prefixes that were registered
    /// later do not list the key.
    listed: u64,
}

impl ChangedKey {
    /// The databases with a changed key of this name.
    pub fn databases(&self) -> impl Iterator<Item = usize> + Clone {
        std::iter::once(self.db).chain(self.other_dbs.iter().copied())
    }
}

/// The changed keys below one prefix.
#[derive(Debug)]
pub struct Broadcast {
    /// Index of the prefix in `nodes`; comparing `number` shows whether the index was reused.
    node: u32,
    number: u64,
    /// Indexes in the list of changed keys, in the order of their first changes.
    pub keys: Vec<u32>,
}

/// Changes that were taken to be sent.
#[derive(Debug)]
pub struct TakenChanges {
    /// The prefixes with changed keys, in the order of sending.
    pub broadcasts: VecDeque<Broadcast>,
    /// The changed keys, to which the broadcasts refer by index.
    pub changed: Vec<ChangedKey>,
    /// Approximate bytes of `broadcasts` and `changed`.
    pub bytes: usize,
}

impl Prefixes {
    /// Number of registered prefixes.
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Bytes of heap memory for prefixes and changed keys. O(prefixes and changed keys).
    pub(super) fn footprint(&self) -> usize {
        let prefix = |prefix: &Prefix| {
            let name = if prefix.clients.is_empty() { 0 } else { name_bytes(&prefix.name) };
            name + heap::tree::<Tracker, ()>(prefix.clients.len()) + heap::vec(&prefix.keys)
        };
        let key =
            |key: &ChangedKey| heap::block(key.name.len()) + heap::tree::<usize, ()>(key.other_dbs.len());
        let indexes = match self.indexes.capacity() {
            0 => 0,
            capacity => heap::block((capacity * 8 / 7).next_power_of_two() * 17 + 16),
        };
        self.tree.footprint()
            + heap::vec(&self.nodes)
            + heap::vec(&self.free)
            + self.nodes.iter().map(prefix).sum::<usize>()
            + heap::vec(&self.changed)
            + self.changed.iter().map(key).sum::<usize>()
            + indexes
            + heap::vec(&self.pending)
    }

    /// Registers a prefix for a client. Returns the shared copy of the name. O(length of the name).
    pub(super) fn add(&mut self, name: &[u8], client: Tracker) -> Arc<[u8]> {
        if let Some(at) = self.tree.get(name) {
            let node = &mut self.nodes[at as usize];
            node.clients.insert(client);
            return Arc::clone(&node.name);
        }
        let name: Arc<[u8]> = name.into();
        self.begun += 1;
        let node = Prefix {
            name: Arc::clone(&name),
            clients: BTreeSet::from([client]),
            keys: Vec::new(),
            number: self.begun,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.tree.insert(&name, at);
        name
    }

    /// Unregisters a prefix for a client; a prefix without clients is removed. Costs the same as
    /// [`Prefixes::add`].
    pub(super) fn remove(&mut self, name: &[u8], client: Tracker) {
        let Some(at) = self.tree.get(name) else { return };
        let node = &mut self.nodes[at as usize];
        node.clients.remove(&client);
        if !node.clients.is_empty() {
            return;
        }
        self.nodes[at as usize] = Prefix::default();
        self.tree.remove(name);
        self.free.push(at);
        if self.tree.len() == 0 {
            // No client is left, so the listed changes and all memory are dropped.
            *self = Prefixes { begun: self.begun, ..Prefixes::default() };
        }
    }

    /// Lists a changed key below its prefixes. `writer` is the client that changed it, if one did.
    pub fn note_changed(&mut self, hash: u64, db: usize, name: &[u8], writer: Option<SessionKey>) {
        if self.tree.len() == 0 {
            return;
        }
        let known = self.indexes.get(&hash).copied();
        if let Some(known) = known.map(|index| &mut self.changed[index as usize]) {
            if known.writer != writer {
                known.writer = None;
            }
            if known.db != db {
                known.other_dbs.insert(db);
            }
            if known.listed == self.begun {
                return;
            }
        }
        if self.changed_bytes > CHANGED_BYTES_MAX {
            self.is_beyond = true;
            return;
        }
        let Prefixes { tree, nodes, changed, changed_bytes, indexes, pending, begun, .. } = self;
        let index = known.unwrap_or(changed.len() as u32);
        let listed = match known {
            // Prefixes registered after the key was listed need the key, too, as their clients may have read
            // it since then.
            Some(known) => std::mem::replace(&mut changed[known as usize].listed, *begun),
            None => 0,
        };
        let mut is_below = false;
        tree.for_each_prefix(name, |at| {
            let node = &mut nodes[at as usize];
            if node.number > listed {
                if node.keys.is_empty() {
                    pending.push(at);
                }
                node.keys.push(index);
                *changed_bytes += size_of::<u32>();
            }
            is_below = true;
        });
        if is_below && known.is_none() {
            *changed_bytes += KEY_BYTES + name.len();
            indexes.insert(hash, index);
            let other_dbs = BTreeSet::new();
            changed.push(ChangedKey { name: name.into(), writer, db, other_dbs, listed: *begun });
        }
    }

    /// Whether a key below a prefix has changed since the last [`Prefixes::take_changed`].
    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Whether changes were left out of the list, so clients have to drop all copies.
    #[inline]
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Removes and returns the changes since the last call. At most `SORTED_MAX` prefixes are sorted by name;
    /// if there are more, they stay in the order of their first changes. O(prefixes with changed keys).
    pub fn take_changed(&mut self) -> TakenChanges {
        match self.indexes.capacity() > SLOTS_KEPT {
            true => self.indexes = HashMap::default(),
            false => self.indexes.clear(),
        }
        let changed = std::mem::take(&mut self.changed);
        let bytes = std::mem::take(&mut self.changed_bytes);
        self.is_beyond = false;
        let mut pending = std::mem::take(&mut self.pending);
        if pending.len() <= SORTED_MAX {
            pending.sort_unstable_by(|a, b| self.nodes[*a as usize].name.cmp(&self.nodes[*b as usize].name));
        }
        let mut broadcasts = VecDeque::with_capacity(pending.len());
        for at in pending {
            let node = &mut self.nodes[at as usize];
            let keys = std::mem::take(&mut node.keys);
            // A removed prefix has no keys; its index may have been reused.
            if !keys.is_empty() {
                broadcasts.push_back(Broadcast { node: at, number: node.number, keys });
            }
        }
        TakenChanges { broadcasts, changed, bytes }
    }

    /// The clients of a broadcast's prefix that come after `last` in their order; none if the
    /// prefix was removed.
    pub fn clients_after(
        &self,
        broadcast: &Broadcast,
        last: Option<Tracker>,
    ) -> impl Iterator<Item = Tracker> {
        let node = self.nodes.get(broadcast.node as usize).filter(|node| node.number == broadcast.number);
        let from = last.map_or(Unbounded, Excluded);
        node.into_iter().flat_map(move |node| node.clients.range((from, Unbounded)).copied())
    }
}

/// Bytes of heap memory of a name, with the counts of its `Arc`.
pub(super) fn name_bytes(name: &Arc<[u8]>) -> usize {
    heap::block(2 * size_of::<usize>() + name.len())
}

/// A map of changed keys with room for more keys than this is replaced by an empty one after an iteration;
/// a smaller map keeps its memory.
const SLOTS_KEPT: usize = 1024;

/// Up to this many prefixes are sorted by name before sending, because sorting more in one step would take
/// too long.
const SORTED_MAX: usize = 1024;

/// Approximate maximum of the bytes of changed keys and of the lists that refer to them. If more bytes would
/// be needed, clients have to drop all copies.
const CHANGED_BYTES_MAX: usize = 64 << 20;

/// Approximate bytes of a changed key without its name: the list entry and the map entry.
const KEY_BYTES: usize = size_of::<ChangedKey>() + 32;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeMap;

    fn session(tracker: Tracker) -> SessionKey {
        SessionKey { slot: tracker.slot, generation: tracker.number }
    }

    fn word(rng: &mut Rng, letters: u64) -> Vec<u8> {
        (0..rng.below(5)).map(|_| b'a' + rng.below(letters) as u8).collect()
    }

    /// In this test, clients also register and remove prefixes between the changes of an iteration. Each
    /// prefix must receive the changes since its registration.
    #[test]
    fn broadcasts_are_what_comparing_every_prefix_finds() {
        type Keys = BTreeSet<Vec<u8>>;
        /// The writer of a key, and the databases in which it was written.
        type Written = (Option<SessionKey>, BTreeSet<usize>);
        let mut rng = Rng::new(9);
        let mut prefixes = Prefixes::default();
        let mut asked: BTreeMap<Vec<u8>, (BTreeSet<Tracker>, Keys)> = BTreeMap::new();
        let mut writers: BTreeMap<Vec<u8>, Written> = BTreeMap::new();
        let mut told = 0;
        for _ in 0..40_000 {
            let client = Tracker { slot: rng.below(4) as u32, number: 1 };
            let name = word(&mut rng, 3);
            match rng.below(6) {
                0 => {
                    prefixes.add(&name, client);
                    asked.entry(name).or_default().0.insert(client);
                }
                1 => {
                    prefixes.remove(&name, client);
                    if let Some((clients, _)) = asked.get_mut(&name) {
                        clients.remove(&client);
                    }
                    asked.retain(|_, (clients, _)| !clients.is_empty());
                    if asked.is_empty() {
                        writers.clear();
                        assert!(!prefixes.has_changed());
                        assert_eq!(prefixes.footprint(), 0, "nothing is kept for nobody");
                    }
                }
                2..5 => {
                    let writer = (rng.below(2) == 0).then_some(session(client));
                    let hash = name.iter().fold(1, |hash, byte| hash * 256 + u64::from(*byte));
                    let db = rng.below(3) as usize;
                    prefixes.note_changed(hash, db, &name, writer);
                    let mut is_below = false;
                    for (_, (_, keys)) in asked.iter_mut().filter(|(prefix, _)| name.starts_with(prefix)) {
                        keys.insert(name.clone());
                        is_below = true;
                    }
                    match writers.get_mut(&name) {
                        Some((known, databases)) => {
                            *known = known.filter(|known| Some(*known) == writer);
                            databases.insert(db);
                        }
                        None if is_below => drop(writers.insert(name, (writer, BTreeSet::from([db])))),
                        None => {}
                    }
                }
                _ => {
                    let TakenChanges { broadcasts, changed, .. } = prefixes.take_changed();
                    let found: Vec<_> = broadcasts
                        .iter()
                        .map(|of| {
                            let key = |at: &u32| {
                                let key = &changed[*at as usize];
                                (key.name.to_vec(), (key.writer, key.databases().collect()))
                            };
                            let clients: Vec<Tracker> = prefixes.clients_after(of, None).collect();
                            let after = prefixes.clients_after(of, Some(clients[0]));
                            assert_eq!(after.collect::<Vec<_>>(), clients[1..]);
                            let mut keys: Vec<_> = of.keys.iter().map(key).collect();
                            keys.sort();
                            (clients, keys)
                        })
                        .collect();
                    let expected: Vec<_> = asked
                        .values_mut()
                        .filter(|(_, keys)| !keys.is_empty())
                        .map(|(clients, keys)| {
                            let keys = std::mem::take(keys).into_iter().map(|key| {
                                let written = writers[&key].clone();
                                (key, written)
                            });
                            (clients.iter().copied().collect::<Vec<_>>(), keys.collect::<Vec<_>>())
                        })
                        .collect();
                    assert_eq!(found, expected);
                    writers.clear();
                    told += found.len();
                }
            }
            assert_eq!(prefixes.len(), asked.len());
        }
        assert!(told > 10_000, "{told}");
    }

    #[test]
    fn what_two_clients_have_written_is_nobodys_own() {
        let [one, two] = [1, 2].map(|slot| Tracker { slot, number: 1 });
        let mut prefixes = Prefixes::default();
        prefixes.add(b"", one);
        prefixes.note_changed(1, 0, b"a", Some(session(one)));
        prefixes.note_changed(1, 0, b"a", Some(session(two)));
        prefixes.note_changed(2, 0, b"b", Some(session(one)));
        prefixes.note_changed(2, 0, b"b", Some(session(one)));
        let taken = prefixes.take_changed();
        let writers: Vec<_> = taken.changed.iter().map(|key| key.writer).collect();
        assert_eq!(writers, [None, Some(session(one))]);
    }

    #[test]
    fn a_prefix_that_has_ended_since_its_changes_were_taken_has_no_clients() {
        let [one, two] = [1, 2].map(|slot| Tracker { slot, number: 1 });
        let mut prefixes = Prefixes::default();
        prefixes.add(b"a", one);
        prefixes.add(b"b", one);
        prefixes.note_changed(1, 0, b"a", None);
        let taken = prefixes.take_changed();
        prefixes.remove(b"a", one);
        prefixes.add(b"c", two);
        assert_eq!(prefixes.clients_after(&taken.broadcasts[0], None).count(), 0);
    }

    #[test]
    fn the_list_of_changes_has_a_bound() {
        let mut prefixes = Prefixes::default();
        prefixes.add(b"", Tracker { slot: 1, number: 1 });
        let name = vec![b'x'; 1 << 20];
        for number in 0..66 {
            assert!(!prefixes.is_beyond() || number > 64);
            prefixes.note_changed(number, 0, &name, None);
        }
        assert!(prefixes.is_beyond() && prefixes.has_changed());
        let taken = prefixes.take_changed();
        assert_eq!((taken.changed.len(), prefixes.is_beyond()), (64, false));
        prefixes.note_changed(1, 0, b"x", None);
        assert_eq!(prefixes.take_changed().bytes, KEY_BYTES + 1 + 4);
    }
}

//! Prefixes that clients in BCAST mode have asked for, and the keys below them that have changed in this
//! iteration.
//!
//! All prefixes of a key stand on one path: the last prefix that is not behind the key in the order of
//! bytes, and from there from each prefix to the longest other one that it begins with. Whatever lies
//! between a prefix of the key and the key begins with that prefix, so that no prefix of the key is
//! elsewhere. A change costs O(log prefixes) and the length of the path, not a comparison with each prefix.
//!
//! Invariants: (1) a prefix that nobody asks for does not exist; (2) `parent` is the longest other prefix
//! that a prefix begins with; (3) a key that has changed stands once in the list of the iteration, and once
//! in the list of each of its prefixes.

use sluice_base::SessionKey;
use sluice_base::heap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::table::HashItself;

/// All prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    by_name: BTreeMap<Arc<[u8]>, u32>,
    nodes: Vec<Prefix>,
    free: Vec<u32>,
    /// Keys that have changed in this iteration.
    changed: Vec<ChangedKey>,
    /// Where they stand in `changed`, by their hash.
    places: HashMap<u64, u32, BuildHasherDefault<HashItself>>,
    /// Prefixes below which a key has changed.
    pending: Vec<u32>,
    /// Prefixes that have begun so far, with those that are gone.
    begun: u64,
}

#[derive(Debug, Default)]
struct Prefix {
    name: Arc<[u8]>,
    parent: Option<u32>,
    clients: BTreeSet<SessionKey>,
    /// Keys that have changed below it, as places in `changed`.
    keys: Vec<u32>,
    /// Which of all prefixes that have begun.
    number: u64,
}

/// A key that has changed.
#[derive(Debug)]
pub(super) struct ChangedKey {
    /// Its name.
    pub name: Box<[u8]>,
    /// The client that has written it, where it was one alone.
    pub writer: Option<SessionKey>,
    /// Prefixes that had begun when it was put into the lists of its prefixes: later ones lack it.
    listed: u64,
}

/// What has changed below one prefix.
#[derive(Debug)]
pub(super) struct Broadcast {
    /// Who has asked for the prefix.
    pub clients: Vec<SessionKey>,
    /// Places of the keys, in the order of their names.
    pub keys: Vec<u32>,
}

impl Prefixes {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Bytes that the allocator has given. O(prefixes).
    pub(super) fn footprint(&self) -> usize {
        let prefix = |prefix: &Prefix| {
            let name = if prefix.clients.is_empty() { 0 } else { heap::block(16 + prefix.name.len()) };
            name + heap::tree::<SessionKey, ()>(prefix.clients.len()) + heap::vec(&prefix.keys)
        };
        let places = match self.places.capacity() {
            0 => 0,
            capacity => heap::block((capacity * 8 / 7).next_power_of_two() * 17 + 16),
        };
        heap::tree::<Arc<[u8]>, u32>(self.by_name.len())
            + heap::vec(&self.nodes)
            + heap::vec(&self.free)
            + self.nodes.iter().map(prefix).sum::<usize>()
            + heap::vec(&self.changed)
            + self.changed.iter().map(|key| heap::block(key.name.len())).sum::<usize>()
            + places
            + heap::vec(&self.pending)
    }

    /// A client asks for a prefix. O(log prefixes), and the prefixes that begin with it.
    pub(super) fn add(&mut self, name: &[u8], client: SessionKey) -> Arc<[u8]> {
        if let Some((known, at)) = self.by_name.get_key_value(name) {
            self.nodes[*at as usize].clients.insert(client);
            return Arc::clone(known);
        }
        let parent = self.longest_before(name);
        let name: Arc<[u8]> = name.into();
        self.begun += 1;
        let node = Prefix {
            name: Arc::clone(&name),
            parent,
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
        for (below, node) in below(&self.by_name, &name) {
            debug_assert!(below.len() > name.len());
            let node = &mut self.nodes[node as usize];
            if node.parent == parent {
                node.parent = Some(at);
            }
        }
        self.by_name.insert(Arc::clone(&name), at);
        name
    }

    /// A client does not ask for a prefix any more. As [`Prefixes::add`].
    pub(super) fn remove(&mut self, name: &[u8], client: SessionKey) {
        let Some(&at) = self.by_name.get(name) else { return };
        let node = &mut self.nodes[at as usize];
        node.clients.remove(&client);
        if !node.clients.is_empty() {
            return;
        }
        let parent = node.parent;
        self.nodes[at as usize] = Prefix::default();
        self.by_name.remove(name);
        for (_, node) in below(&self.by_name, name) {
            let node = &mut self.nodes[node as usize];
            if node.parent == Some(at) {
                node.parent = parent;
            }
        }
        self.free.push(at);
        if self.by_name.is_empty() {
            // Nobody is left to be told. What was allocated goes, too.
            *self = Prefixes { begun: self.begun, ..Prefixes::default() };
        }
    }

    /// The longest prefix that a name begins with, itself included.
    fn longest_before(&self, name: &[u8]) -> Option<u32> {
        let (_, &last) = self.by_name.range::<[u8], _>((Unbounded, Included(name))).next_back()?;
        let mut at = Some(last);
        while let Some(node) = at.map(|at| &self.nodes[at as usize])
            && !name.starts_with(&node.name)
        {
            at = node.parent;
        }
        at
    }

    /// A key has changed, by this client or by none.
    pub(super) fn note_changed(&mut self, hash: u64, name: &[u8], writer: Option<SessionKey>) {
        if self.by_name.is_empty() {
            return;
        }
        let known = self.places.get(&hash).copied();
        if let Some(known) = known.map(|place| &mut self.changed[place as usize]) {
            if known.writer != writer {
                known.writer = None;
            }
            if known.listed == self.begun {
                return;
            }
        }
        let mut at = self.longest_before(name);
        if at.is_none() {
            return;
        }
        let place = known.unwrap_or(self.changed.len() as u32);
        let listed = match known {
            // Asked for meanwhile, or again: whoever did so may have read the key since.
            Some(known) => std::mem::replace(&mut self.changed[known as usize].listed, self.begun),
            None => {
                self.places.insert(hash, place);
                self.changed.push(ChangedKey { name: name.into(), writer, listed: self.begun });
                0
            }
        };
        while let Some(number) = at {
            let node = &mut self.nodes[number as usize];
            if node.number > listed {
                if node.keys.is_empty() {
                    self.pending.push(number);
                }
                node.keys.push(place);
            }
            at = node.parent;
        }
    }

    /// Whether a key below a prefix has changed since the last [`Prefixes::take_changed`].
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What has changed since the last call, by prefix in the order of the prefixes, and the keys.
    pub(super) fn take_changed(&mut self) -> (Vec<Broadcast>, Vec<ChangedKey>) {
        match self.places.capacity() > PLACES_KEPT {
            true => self.places = HashMap::default(),
            false => self.places.clear(),
        }
        let changed = std::mem::take(&mut self.changed);
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable_by(|a, b| self.nodes[*a as usize].name.cmp(&self.nodes[*b as usize].name));
        let mut broadcasts = Vec::with_capacity(pending.len());
        for at in pending {
            let node = &mut self.nodes[at as usize];
            let mut keys = std::mem::take(&mut node.keys);
            // One that was removed meanwhile has none; its place may be another's.
            if keys.is_empty() {
                continue;
            }
            keys.sort_unstable_by(|a, b| changed[*a as usize].name.cmp(&changed[*b as usize].name));
            broadcasts.push(Broadcast { clients: node.clients.iter().copied().collect(), keys });
        }
        (broadcasts, changed)
    }
}

/// Memory for so many places is kept from iteration to iteration.
const PLACES_KEPT: usize = 1024;

/// The prefixes that begin with `name`, itself excluded.
fn below<'a>(
    by_name: &'a BTreeMap<Arc<[u8]>, u32>,
    name: &'a [u8],
) -> impl Iterator<Item = (&'a Arc<[u8]>, u32)> {
    by_name
        .range::<[u8], _>((std::ops::Bound::Excluded(name), Unbounded))
        .take_while(move |(other, _)| other.starts_with(name))
        .map(|(other, at)| (other, *at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    fn word(rng: &mut Rng, letters: u64) -> Vec<u8> {
        (0..rng.below(5)).map(|_| b'a' + rng.below(letters) as u8).collect()
    }

    /// Clients ask for prefixes and give them up between the changes of an iteration, too: a prefix is told
    /// what has changed since somebody asked for it.
    #[test]
    fn broadcasts_are_what_comparing_every_prefix_finds() {
        type Keys = BTreeSet<Vec<u8>>;
        let mut rng = Rng::new(9);
        let mut prefixes = Prefixes::default();
        let mut asked: BTreeMap<Vec<u8>, (BTreeSet<SessionKey>, Keys)> = BTreeMap::new();
        let mut writers: BTreeMap<Vec<u8>, Option<SessionKey>> = BTreeMap::new();
        let mut told = 0;
        for _ in 0..40_000 {
            let client = SessionKey { slot: rng.below(4) as u32, generation: 1 };
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
                    let writer = (rng.below(2) == 0).then_some(client);
                    let hash = name.iter().fold(1, |hash, byte| hash * 256 + u64::from(*byte));
                    prefixes.note_changed(hash, &name, writer);
                    let mut is_below = false;
                    for (_, (_, keys)) in asked.iter_mut().filter(|(prefix, _)| name.starts_with(prefix)) {
                        keys.insert(name.clone());
                        is_below = true;
                    }
                    match writers.get_mut(&name) {
                        Some(known) if *known != writer => *known = None,
                        Some(_) => {}
                        None if is_below => drop(writers.insert(name, writer)),
                        None => {}
                    }
                }
                _ => {
                    let (broadcasts, changed) = prefixes.take_changed();
                    let found: Vec<_> = broadcasts
                        .iter()
                        .map(|of| {
                            let key = |at: &u32| {
                                let key = &changed[*at as usize];
                                (key.name.to_vec(), key.writer)
                            };
                            (of.clients.clone(), of.keys.iter().map(key).collect::<Vec<_>>())
                        })
                        .collect();
                    let expected: Vec<_> = asked
                        .values_mut()
                        .filter(|(_, keys)| !keys.is_empty())
                        .map(|(clients, keys)| {
                            let keys = std::mem::take(keys).into_iter().map(|key| {
                                let writer = writers[&key];
                                (key, writer)
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
        let [one, two] = [1, 2].map(|slot| SessionKey { slot, generation: 1 });
        let mut prefixes = Prefixes::default();
        prefixes.add(b"", one);
        prefixes.note_changed(1, b"a", Some(one));
        prefixes.note_changed(1, b"a", Some(two));
        prefixes.note_changed(2, b"b", Some(one));
        prefixes.note_changed(2, b"b", Some(one));
        let (_, changed) = prefixes.take_changed();
        let writers: Vec<_> = changed.iter().map(|key| key.writer).collect();
        assert_eq!(writers, [None, Some(one)]);
    }
}

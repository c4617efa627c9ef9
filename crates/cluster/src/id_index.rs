//! Finds the positions of nodes in the table by id, because each entry of gossip needs a look-up, and a
//! message in a cluster of 1,000 nodes has a hundred entries.
//!
//! Invariants: (1) an index only holds positions, 4 bytes each, and is at most half full, so the index of
//! 1,000 nodes takes 8 KiB and stays in the processor's nearest cache; (2) the key of the hash comes from the
//! seed of the state machine, so that no outsider can choose colliding ids; (3) the result of a look-up is a
//! function of the ids and the key.

use crate::id::NodeId;
use sluice_base::{HashSeed, siphash13};

/// The entry that stands for "no position".
const NOTHING: u32 = u32::MAX;
/// Entries of the smallest index.
const ENTRIES_MIN: usize = 16;

/// Positions by the hash of an id, with open addressing.
#[derive(Clone, Debug)]
pub(crate) struct IdIndex {
    seed: HashSeed,
    entries: Vec<u32>,
    len: usize,
}

impl IdIndex {
    /// An index without positions.
    pub(crate) fn new(seed: HashSeed) -> IdIndex {
        IdIndex { seed, entries: vec![NOTHING; ENTRIES_MIN], len: 0 }
    }

    /// The position of the node with this id; `id_at` returns the id at a position.
    pub(crate) fn find<'a>(&self, id: &NodeId, id_at: impl Fn(u32) -> &'a NodeId) -> Option<u32> {
        let mut at = self.first(id);
        loop {
            match self.entries[at] {
                NOTHING => return None,
                position if id_at(position) == id => return Some(position),
                _ => at = self.next(at),
            }
        }
    }

    /// Adds a position whose id is not in the index. Returns `false` if there is no room; the caller then has
    /// to [`IdIndex::rebuild`] the index for all nodes.
    #[must_use]
    pub(crate) fn insert(&mut self, id: &NodeId, position: u32) -> bool {
        if 2 * (self.len + 1) > self.entries.len() {
            return false;
        }
        self.len += 1;
        let mut at = self.first(id);
        while self.entries[at] != NOTHING {
            at = self.next(at);
        }
        self.entries[at] = position;
        true
    }

    /// Rebuilds the index for all nodes, at most `count`. O(nodes): for growth, and after a node was
    /// deleted or got another id.
    pub(crate) fn rebuild<'a>(&mut self, count: usize, nodes: impl Iterator<Item = (&'a NodeId, u32)>) {
        let entries = (2 * count + 2).next_power_of_two().max(ENTRIES_MIN);
        (self.entries, self.len) = (vec![NOTHING; entries], 0);
        for (id, position) in nodes {
            let had_room = self.insert(id, position);
            assert!(had_room, "an index is made for all nodes");
        }
    }

    fn first(&self, id: &NodeId) -> usize {
        siphash13(self.seed, id.as_bytes()) as usize & (self.entries.len() - 1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn an_index_says_what_a_map_says_whatever_comes_and_goes() {
        let mut rng = Rng::new(11);
        let ids: Vec<NodeId> = (0..300).map(|_| NodeId::random(&mut rng)).collect();
        let mut index = IdIndex::new(HashSeed { k0: 1, k1: 2 });
        let mut twin: BTreeMap<NodeId, u32> = BTreeMap::new();
        for step in 0..3_000 {
            let position = rng.below(300) as u32;
            let id = ids[position as usize];
            if twin.remove(&id).is_none() {
                twin.insert(id, position);
                if !index.insert(&id, position) {
                    index.rebuild(twin.len(), twin.iter().map(|(id, position)| (id, *position)));
                }
            } else {
                index.rebuild(twin.len(), twin.iter().map(|(id, position)| (id, *position)));
            }
            let asked = rng.below(300) as usize;
            let found = index.find(&ids[asked], |position| &ids[position as usize]);
            assert_eq!(found, twin.get(&ids[asked]).copied(), "step {step}");
        }
    }
}

//! Builds a tree of many members in one pass.
//!
//! If members were inserted one by one, each would be searched in its leaf, and every leaf would be split
//! several times. Instead, members that are known to be distinct are gathered with their hashes, sorted,
//! and cut into leaves that are filled once.

use super::leaf::HashLeaf;
use super::node::{self, LEAF_BYTES_FILLED, LEAF_LEN_FILLED};
use super::{Content, HashTree, TreeText};
use sluice_base::hash::{HashSeed, siphash13};

/// Members that [`MemberGathering::finish`] turns into a tree.
///
/// Memory: a copy of each member and 24 bytes, until the tree is built.
#[derive(Debug)]
pub struct MemberGathering {
    seed: HashSeed,
    /// The bytes of all members, one member after another.
    bytes: Vec<u8>,
    members: Vec<Gathered>,
}

/// The hash of a member and its place in `bytes`.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    hash: u64,
    at: usize,
    len: usize,
}

impl MemberGathering {
    /// A gathering without members, for a tree with this seed.
    pub fn new(seed: HashSeed) -> MemberGathering {
        MemberGathering { seed, bytes: Vec::new(), members: Vec::new() }
    }

    /// Adds a member that is distinct from all others.
    #[inline]
    pub fn push(&mut self, member: &[u8]) {
        let (hash, at) = (siphash13(self.seed, member), self.bytes.len());
        self.bytes.extend_from_slice(member);
        self.members.push(Gathered { hash, at, len: member.len() });
    }

    /// Number of members added.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes of all members together.
    pub fn text_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no member was added.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The tree of all members. Cost: O(n log n).
    pub fn finish(mut self) -> HashTree {
        self.members.sort_unstable_by_key(|member| member.hash);
        let mut leaves = Vec::with_capacity(self.members.len() / LEAF_LEN_FILLED + 1);
        let mut rest = &self.members[..];
        while !rest.is_empty() {
            let (filled, behind) = rest.split_at(leaf_len(rest));
            leaves.push((filled[0].hash, self.leaf(filled)));
            rest = behind;
        }
        if leaves.is_empty() {
            return HashTree::new(self.seed, Content::Members);
        }
        let (root, sums) = node::of_leaves(leaves);
        HashTree { root, sums, seed: self.seed, content: Content::Members }
    }

    fn leaf(&self, members: &[Gathered]) -> HashLeaf {
        let texts = members.iter().map(|member| {
            let bytes = &self.bytes[member.at..member.at + member.len];
            (member.hash, TreeText::Bytes(bytes))
        });
        HashLeaf::of_members(texts)
    }
}

/// How many of `members`, from the first on, fill one leaf. Members with equal hashes stay together.
fn leaf_len(members: &[Gathered]) -> usize {
    let (mut len, mut bytes) = (0, 0);
    for (at, member) in members.iter().enumerate() {
        let is_apart = at > 0 && members[at - 1].hash != member.hash;
        bytes += HashLeaf::entry_len_max(member.len);
        if is_apart && (len >= LEAF_LEN_FILLED || bytes > LEAF_BYTES_FILLED) {
            break;
        }
        len = at + 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SEED: HashSeed = HashSeed { k0: 3, k1: 5 };

    /// A member of one of many lengths; some members have their own allocation.
    fn name(number: usize) -> Vec<u8> {
        let mut name = format!("m{number}").into_bytes();
        match number % 60 {
            0 => name.resize(600, b'x'),
            1..5 => name.resize(300, b'y'),
            _ => {}
        }
        name
    }

    fn check(tree: &HashTree) {
        let (_, sums) = match tree.is_empty() {
            true => (1, tree.sums),
            false => tree.root.check(0..1 << 64, &|name| siphash13(SEED, name)),
        };
        assert_eq!(sums, tree.sums);
    }

    #[test]
    fn a_tree_made_at_once_has_every_member_and_goes_on_as_any() {
        for count in [0, 1, 47, 48, 49, 96, 97, 1000, 3000, 20_000] {
            let mut gathering = MemberGathering::new(SEED);
            assert!(gathering.is_empty());
            let mut twin: BTreeSet<Vec<u8>> = (0..count).map(name).collect();
            twin.iter().for_each(|name| gathering.push(name));
            assert_eq!(gathering.len(), count);
            assert_eq!(gathering.text_len(), twin.iter().map(Vec::len).sum::<usize>());
            let mut tree = gathering.finish();
            check(&tree);
            assert_eq!(tree.len(), count);
            let mut garbage = Vec::new();
            for number in (0..count + 300).step_by(3) {
                let name = name(number);
                assert_eq!(tree.contains(&name), twin.contains(&name));
                match number % 2 {
                    0 => assert_eq!(tree.remove(&name, &mut garbage), twin.remove(&name)),
                    _ => {
                        let is_new = tree.insert(&name, b"", super::super::Expiry::Clear, &mut garbage);
                        assert_eq!(is_new, twin.insert(name));
                    }
                }
            }
            check(&tree);
            let there: BTreeSet<Vec<u8>> = tree.iter().map(|field| field.name.bytes().to_vec()).collect();
            assert_eq!(there, twin);
        }
    }

    #[test]
    fn a_leaf_ends_behind_members_of_one_hash_that_cross_its_edge() {
        let gathered = |hash| Gathered { hash, at: 0, len: 4 };
        let edge = LEAF_LEN_FILLED as u64;
        let mut members: Vec<Gathered> = (0..2 * edge).map(gathered).collect();
        assert_eq!(leaf_len(&members), LEAF_LEN_FILLED);
        members[LEAF_LEN_FILLED] = members[LEAF_LEN_FILLED - 1];
        assert_eq!(leaf_len(&members), LEAF_LEN_FILLED + 1);
    }

    #[test]
    fn a_tree_made_at_once_is_no_larger_than_one_of_single_members() {
        let (mut gathering, mut single) = (MemberGathering::new(SEED), HashTree::new(SEED, Content::Members));
        for number in 0..50_000 {
            let name = format!("member:{number}");
            gathering.push(name.as_bytes());
            single.insert(name.as_bytes(), b"", super::super::Expiry::Clear, &mut Vec::new());
        }
        let tree = gathering.finish();
        assert!(tree.heap_bytes() <= single.heap_bytes(), "{} {}", tree.heap_bytes(), single.heap_bytes());
    }
}

//! A hash table of packed leaves that can be shared: fields with values and expiries, or members only.
//!
//! Leaves are in the order of their fields' hashes, and the fields of a leaf in any order; a leaf is split
//! when it has more than 64 fields or 4 KiB of entries. Inner nodes of up to 64 children find a leaf by hash.
//! Each node is reference-counted: [`HashTree::share`] takes the root, and a writer copies the nodes of its
//! path that have another owner. A write splits or joins at most a few nodes, so no write waits for the table
//! to grow.
//!
//! A **set** is `HashTree::new(seed, Content::Members)`: `insert(member, b"", Expiry::Clear, ..)` returns
//! whether the member is new, and `contains`, `remove`, `iter`, `nth` (for SRANDMEMBER and SPOP, with a
//! random rank below `len()`) and `scan` serve the other commands. A member of at most 512 bytes takes 4 or 5
//! bytes in addition to its own bytes, and its share of the leaf's head of 40 bytes. A **hash** is
//! `Content::Fields`.
//!
//! A cursor of [`HashTree::scan`] is a hash, and all fields with smaller hashes have been visited. Splitting
//! and joining nodes does not change hashes, so a field that exists throughout a scan is visited exactly
//! once.
//!
//! Invariants: (1) the hash of a field is a function of the field and the seed, and clients do not know the
//! seed, so they cannot choose fields that fill one leaf; (2) changing a tree costs O(log n) and frees no
//! more than a few nodes; long strings that are removed go to `garbage`, for the caller to free on another
//! thread; (3) dropping a tree costs O(n) for the parts without another owner, so a large tree should be
//! dropped on another thread.

mod field;
mod gather;
mod iter;
mod leaf;
mod node;
#[cfg(test)]
mod tests;

use leaf::{HashLeaf, NEVER};
use node::{HashChild, HashNode, HashRange, Sums};
use sluice_base::Bytes;
use sluice_base::hash::{HashSeed, siphash13};
use std::ops::{Range, RangeInclusive};

pub use field::{Content, Expiry, Field, TreeText};
pub use gather::MemberGathering;
pub use iter::HashTreeIter;

/// A table of fields; see the module's documentation.
#[derive(Debug)]
pub struct HashTree {
    root: HashNode,
    sums: Sums,
    seed: HashSeed,
    content: Content,
}

impl HashTree {
    /// An empty tree whose fields are hashed with `seed`.
    pub fn new(seed: HashSeed, content: Content) -> HashTree {
        let leaf = HashLeaf::new(content);
        let sums = Sums { heap: leaf.heap_bytes(), ..Sums::NONE };
        HashTree { root: HashNode::Leaf(leaf), sums, seed, content }
    }

    /// A second owner of the tree; neither owner sees changes by the other. O(1).
    #[must_use]
    pub fn share(&self) -> HashTree {
        HashTree { root: self.root.clone(), sums: self.sums, seed: self.seed, content: self.content }
    }

    /// Number of fields. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.sums.count
    }

    /// Whether there is no field.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sums.count == 0
    }

    /// Bytes allocated, including shared nodes. O(1).
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.sums.heap
    }

    /// Whether the root, or a node directly below it, has another owner. O(1).
    pub fn is_shared(&self) -> bool {
        self.root.is_shared()
    }

    /// Bytes of the nodes without another owner. Cost: one step for each of them.
    pub fn own_bytes(&self) -> usize {
        self.root.own_bytes()
    }

    /// Number of fields with an expiry. O(1).
    #[inline]
    pub fn volatile_len(&self) -> usize {
        self.sums.volatile
    }

    /// The earliest expiry of all fields, ms since the epoch. O(1).
    #[inline]
    pub fn earliest(&self) -> Option<i64> {
        (self.sums.volatile > 0).then_some(self.sums.earliest)
    }

    fn hash(&self, name: &[u8]) -> u64 {
        siphash13(self.seed, name)
    }

    /// Looks up a field. Cost: O(log n).
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        let hash = self.hash(name);
        let leaf = self.root.leaf_of(hash);
        leaf.find(hash, name).map(|slot| leaf.get(slot))
    }

    /// Whether a field exists, expired or not.
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        let hash = self.hash(name);
        self.root.leaf_of(hash).find(hash, name).is_some()
    }

    /// Changes the leaf that a hash belongs to.
    fn change<R>(&mut self, hash: u64, op: impl FnOnce(&mut HashLeaf) -> R) -> R {
        let seed = self.seed;
        node::change(&mut self.root, &mut self.sums, hash, |name| siphash13(seed, name), op)
    }

    /// Sets the value and the expiry of a field; returns whether the field is new. A tree of members ignores
    /// the value. Cost: O(log n).
    pub fn insert(&mut self, name: &[u8], value: &[u8], expiry: Expiry, garbage: &mut Vec<Bytes>) -> bool {
        let hash = self.hash(name);
        let content = self.content;
        // Members that are added to a large set often exist already. A shared path is not copied for such
        // members.
        if content == Content::Members
            && expiry == Expiry::Clear
            && !self.root.is_unique()
            && self.root.leaf_of(hash).find(hash, name).is_some()
        {
            return false;
        }
        self.change(hash, |leaf| {
            let Some(slot) = leaf.find(hash, name) else {
                let at = match expiry {
                    Expiry::At(at) => Some(at),
                    Expiry::Keep | Expiry::Clear => None,
                };
                leaf.push(hash, TreeText::Bytes(name), TreeText::Bytes(value), at);
                return true;
            };
            if content == Content::Fields {
                leaf.set_value(slot, value, garbage);
            }
            match expiry {
                Expiry::Keep => {}
                Expiry::Clear => leaf.set_expiry(slot, None),
                Expiry::At(at) => leaf.set_expiry(slot, Some(at)),
            }
            false
        })
    }

    /// Sets or clears the expiry of a field; returns whether the field exists.
    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<i64>) -> bool {
        let hash = self.hash(name);
        self.change(hash, |leaf| {
            let slot = leaf.find(hash, name);
            if let Some(slot) = slot {
                leaf.set_expiry(slot, expiry);
            }
            slot.is_some()
        })
    }

    /// Removes a field; returns whether it existed.
    pub fn remove(&mut self, name: &[u8], garbage: &mut Vec<Bytes>) -> bool {
        let hash = self.hash(name);
        // A shared path is not copied for an absent field.
        if !self.root.is_unique() && self.root.leaf_of(hash).find(hash, name).is_none() {
            return false;
        }
        self.change(hash, |leaf| {
            let slot = leaf.find(hash, name);
            if let Some(slot) = slot {
                leaf.remove(slot, garbage);
            }
            slot.is_some()
        })
    }

    /// Removes up to `max` fields that expire at `bound` or earlier, each after `visit` has seen its
    /// name; returns the number removed. Cost: O(log n) for each.
    pub fn remove_expired(
        &mut self,
        bound: i64,
        max: usize,
        garbage: &mut Vec<Bytes>,
        mut visit: impl FnMut(&[u8]),
    ) -> usize {
        let mut name = Vec::new();
        for removed in 0..max {
            let Some(leaf) = self.root.leaf_expired(bound) else { return removed };
            let Some(slot) = leaf.find_expired(bound) else { return removed };
            name.clear();
            name.extend_from_slice(leaf.name(slot));
            visit(&name);
            self.remove(&name, garbage);
        }
        max
    }

    /// Removes the fields at `ranks` (positions in the order of [`HashTree::iter`]) from the tree. The range
    /// must hold at least one field, but not all. Returns the fields as trees in the same order; these trees
    /// now own the fields' memory. Cost: O(log n), with allocations and copies only for the leaves at both
    /// ends; at most about 130 trees for each level.
    pub fn take_ranks(&mut self, ranks: Range<usize>) -> Vec<HashTree> {
        if ranks.is_empty() || ranks.end > self.len() || ranks.len() == self.len() {
            debug_assert!(false, "{ranks:?} of {}", self.len());
            return Vec::new();
        }
        let (seed, content) = (self.seed, self.content);
        let mut pieces = Vec::new();
        node::take_ranks(&mut self.root, &mut self.sums, ranks, &mut pieces);
        let tree = |piece: HashChild| HashTree { root: piece.node, sums: piece.sums, seed, content };
        pieces.into_iter().map(tree).collect()
    }

    /// Bytes of the names of all fields as bulk strings of the wire protocol. O(1).
    pub fn bulk_bytes(&self) -> usize {
        self.sums.bulk
    }

    /// The field at index `rank` in the order of [`HashTree::iter`]. A random rank gives a random field.
    /// Cost: O(log n).
    pub fn nth(&self, rank: usize) -> Option<Field<'_>> {
        let (mut node, mut rank) = (&self.root, rank);
        loop {
            match node {
                HashNode::Leaf(leaf) => return (rank < leaf.len()).then(|| leaf.get(rank)),
                HashNode::Inner(inner) => {
                    let mut below = None;
                    for child in inner.children() {
                        if rank < child.sums.count {
                            below = Some(&child.node);
                            break;
                        }
                        rank -= child.sums.count;
                    }
                    node = below?;
                }
            }
        }
    }

    /// All fields, leaf by leaf, in the order of the leaves' hashes.
    pub fn iter(&self) -> HashTreeIter<'_> {
        HashTreeIter::new(&self.root)
    }

    /// All fields except the first `rank`, in the order of [`HashTree::iter`]. Cost to begin: O(log n).
    pub fn iter_from(&self, rank: usize) -> HashTreeIter<'_> {
        HashTreeIter::from_rank(&self.root, rank)
    }

    /// Visits about `count` fields from a cursor on, at least one if there is any; returns the next
    /// cursor, 0 at the end. A scan begins with 0.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut visit: impl FnMut(Field<'a>)) -> u64 {
        let (mut cursor, mut left) = (cursor, count.max(1));
        loop {
            let (leaf, next) = self.leaf_from(cursor);
            let mut slots: Vec<(u64, usize)> = (0..leaf.len())
                .map(|slot| (self.hash(leaf.name(slot)), slot))
                .filter(|(hash, _)| *hash >= cursor)
                .collect();
            slots.sort_unstable();
            for (at, (hash, slot)) in slots.iter().enumerate() {
                // Fields with equal hashes are visited together.
                if left == 0 && at > 0 && slots[at - 1].0 != *hash {
                    return *hash;
                }
                visit(leaf.get(*slot));
                left = left.saturating_sub(1);
            }
            match next {
                None => return 0,
                Some(next) if left == 0 => return next,
                Some(next) => cursor = next,
            }
        }
    }

    /// Prefetches the parts of the table that looking up these fields will read. The leaves of a large
    /// table are not in the cache, and a look-up reads three parts of a leaf, each of which leads to the
    /// next. The cache misses of several fields overlap.
    pub fn prefetch<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>) {
        while self.group(&mut names).is_some() {}
    }

    /// Prefetches the fields that one command is about to set. Does nothing for a single field, which would
    /// gain nothing, and for a table that fits in the cache, where prefetching would make the command about a
    /// fifth slower.
    #[inline]
    pub fn prefetch_group<'n>(&self, names: impl ExactSizeIterator<Item = &'n [u8]>) {
        if names.len() > 1 && self.len() >= PREFETCHED_FROM {
            self.prefetch(names);
        }
    }

    /// Looks up each of these fields, in order. Cost: O(log n) for each, but cache misses of
    /// several look-ups overlap.
    pub fn get_each<'t, 'n>(
        &'t self,
        mut names: impl Iterator<Item = &'n [u8]>,
        mut visit: impl FnMut(Option<Field<'t>>),
    ) {
        while let Some(group) = self.group(&mut names) {
            for lookup in group.lookups() {
                let found =
                    lookup.leaf().and_then(|leaf| Some(leaf.get(leaf.find(lookup.hash, lookup.name)?)));
                visit(found);
            }
        }
    }

    /// Calls `visit` for each of these fields, with `true` if it exists, expired or not. Costs the same as
    /// [`HashTree::get_each`].
    pub fn contains_each<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>, mut visit: impl FnMut(bool)) {
        while let Some(group) = self.group(&mut names) {
            group.lookups().iter().for_each(|lookup| visit(lookup.slot().is_some()));
        }
    }

    /// Removes these fields and returns how many existed. A shared node is copied only if one of the fields
    /// is below it. Costs the same as [`HashTree::get_each`], and O(log n) for each removal.
    pub fn remove_each<'n>(
        &mut self,
        mut names: impl Iterator<Item = &'n [u8]>,
        garbage: &mut Vec<Bytes>,
    ) -> usize {
        let before = self.len();
        while let Some(group) = self.group(&mut names) {
            // The removals below change the tree, so no reference to a leaf may be kept. Only the slot, hash
            // and name of each existing field are kept.
            let mut found = [(0, 0, &b""[..]); GROUP_LEN];
            let mut count = 0;
            for lookup in group.lookups() {
                if let Some(slot) = lookup.slot() {
                    found[count] = (slot, lookup.hash, lookup.name);
                    count += 1;
                }
            }
            for (slot, hash, name) in &found[..count] {
                self.change(*hash, |leaf| {
                    if let Some(slot) = leaf.find_near(*slot, *hash, name) {
                        leaf.remove(slot, garbage);
                    }
                });
            }
        }
        before - self.len()
    }

    /// Finds the leaves of the next few names while prefetching their nodes from memory; `None` after
    /// the last name.
    fn group<'t, 'n>(&'t self, names: &mut impl Iterator<Item = &'n [u8]>) -> Option<NameGroup<'t, 'n>> {
        let none = NameLookup { node: &self.root, range: HashRange::ALL, hash: 0, name: b"" };
        let mut group = NameGroup { lookups: [none; GROUP_LEN], len: 0 };
        for (lookup, name) in group.lookups.iter_mut().zip(names) {
            *lookup = NameLookup { node: &self.root, range: HashRange::ALL, hash: self.hash(name), name };
            group.len += 1;
        }
        let lookups = &mut group.lookups[..group.len];
        // All names descend level by level, so that their cache misses at one level overlap. All leaves
        // have the same depth.
        while let HashNode::Inner(_) = lookups.first()?.node {
            for lookup in lookups.iter() {
                if let HashNode::Inner(inner) = lookup.node {
                    inner.prefetch_child(lookup.hash, lookup.range);
                }
            }
            for lookup in lookups.iter_mut() {
                if let HashNode::Inner(inner) = lookup.node {
                    let (at, range) = inner.find(lookup.hash, lookup.range);
                    (lookup.node, lookup.range) = (&inner.children()[at].node, range);
                    lookup.node.prefetch();
                }
            }
        }
        let leaves = || group.lookups().iter().filter_map(|lookup| Some((lookup.leaf()?, lookup.hash)));
        leaves().for_each(|(leaf, hash)| leaf.prefetch_entry(hash));
        Some(group)
    }

    /// A [`Finder`], which looks up many members in sequence. Its look-ups are quickest if the members
    /// come in the order of another tree with the same seed.
    pub fn finder(&self) -> Finder<'_> {
        Finder { tree: self, leaf: None, hashes: 0..=0 }
    }

    /// The leaf that a hash belongs to, and the first hash of the next leaf (`None` for the last leaf).
    fn leaf_from(&self, hash: u64) -> (&HashLeaf, Option<u64>) {
        let (leaf, hashes) = self.root.leaf_and_hashes(hash);
        (leaf, hashes.end().checked_add(1))
    }
}

/// Looks up many members: see [`HashTree::finder`].
#[derive(Clone, Debug)]
pub struct Finder<'a> {
    tree: &'a HashTree,
    /// The leaf of the member looked up last.
    leaf: Option<&'a HashLeaf>,
    /// The hashes that belong to `leaf`.
    hashes: RangeInclusive<u64>,
}

impl Finder<'_> {
    /// Whether a member exists, expired or not.
    #[inline]
    pub fn contains(&mut self, name: &[u8]) -> bool {
        let hash = self.tree.hash(name);
        let leaf = match self.leaf {
            Some(leaf) if self.hashes.contains(&hash) => leaf,
            Some(_) | None => {
                let (leaf, hashes) = self.tree.root.leaf_and_hashes(hash);
                self.hashes = hashes;
                self.leaf.insert(leaf)
            }
        };
        leaf.find(hash, name).is_some()
    }
}

/// Some names of one command, with the leaves that they belong to.
struct NameGroup<'t, 'n> {
    lookups: [NameLookup<'t, 'n>; GROUP_LEN],
    len: usize,
}

/// The look-up of one name.
#[derive(Clone, Copy)]
struct NameLookup<'t, 'n> {
    node: &'t HashNode,
    /// The hashes that belong to `node`.
    range: HashRange,
    hash: u64,
    name: &'n [u8],
}

impl<'t, 'n> NameGroup<'t, 'n> {
    fn lookups(&self) -> &[NameLookup<'t, 'n>] {
        &self.lookups[..self.len]
    }
}

impl<'t> NameLookup<'t, '_> {
    fn leaf(&self) -> Option<&'t HashLeaf> {
        match self.node {
            HashNode::Leaf(leaf) => Some(leaf),
            HashNode::Inner(_) => None,
        }
    }

    fn slot(&self) -> Option<usize> {
        self.leaf()?.find(self.hash, self.name)
    }
}

/// Fields that are looked up together: about as many cache misses as a processor has under way.
const GROUP_LEN: usize = 16;
/// The smallest number of fields for which [`HashTree::prefetch_group`] prefetches, because look-ups in a
/// table of this size mostly miss the cache. At 20,000 fields prefetching costs more time than it saves; at
/// 100,000 reads become faster by a seventh, and at 2 million reads and writes by two fifths.
const PREFETCHED_FROM: usize = 100_000;

const _: () = assert!(NEVER == i64::MAX);

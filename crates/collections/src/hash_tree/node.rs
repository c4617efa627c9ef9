//! Nodes of a search tree over hashes. All leaves have the same depth.
//!
//! Invariants: (1) from the second child of an inner node on, the `low`s ascend, and a child's hashes are at
//! least its `low` and less than the next child's. The first child takes all hashes below the second child's
//! `low`; its own `low` means nothing, because children in front of it may have been removed, in this node or
//! in a higher one. When two nodes are joined, the first child of the right node is no longer a first child,
//! so it gets the `low` of the right node. (2) `sums` of a child are those of its node; (3) a shared node is
//! never written, because a writer copies the nodes of its path that have another owner.

use super::leaf::{HashLeaf, NEVER};
use crate::arch::prefetch;
use sluice_base::heap;
use std::ops::{Range, RangeInclusive};
use triomphe::Arc;

/// A leaf, or an inner node.
#[derive(Clone, Debug)]
pub(super) enum HashNode {
    Leaf(HashLeaf),
    Inner(Arc<HashInner>),
}

/// An inner node of up to [`FAN_OUT`] children.
#[derive(Clone, Debug)]
pub(super) struct HashInner {
    children: Vec<HashChild>,
}

/// A node and the facts that its parent stores about it, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct HashChild {
    /// The first hash that belongs to the node; meaningless for a first child.
    low: u64,
    pub(super) node: HashNode,
    pub(super) sums: Sums,
}

/// Sums over the fields below a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: usize,
    /// Bytes allocated, including the node's own.
    pub(super) heap: usize,
    /// Bytes of the fields as bulk strings.
    pub(super) bulk: usize,
    /// Number of fields with an expiry.
    pub(super) volatile: usize,
    /// The earliest expiry, or [`NEVER`].
    pub(super) earliest: i64,
}

/// The range of hashes that belong to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashRange {
    first: u64,
    last: u64,
}

/// The effect of a change on the shape of a node.
enum Reshape {
    Fits,
    /// The upper part has become a separate node.
    Split(HashChild),
    /// The node is so small that it should be joined with a neighbour.
    Small,
}

/// The most children of an inner node.
const FAN_OUT: usize = 64;
/// The most fields of a leaf, unless all have the same hash.
const LEAF_LEN_MAX: usize = 64;
/// A leaf that changes is split if its entries have more bytes than this, unless it has a single entry, or
/// all have the same hash.
const LEAF_BYTES_MAX: usize = 4096;

/// Number of fields that fill a leaf of a tree that is built at once. Two leaves are joined only if they have
/// no more fields than this together, so that the new leaf has room for more.
pub(super) const LEAF_LEN_FILLED: usize = LEAF_LEN_MAX * 3 / 4;
/// Bytes of entries that fill a leaf of a tree that is built at once, and up to which two leaves are joined.
pub(super) const LEAF_BYTES_FILLED: usize = LEAF_BYTES_MAX * 3 / 4;
/// The most children of an inner node of a tree that is built at once, and of a node that two nodes are
/// joined to.
const FAN_OUT_FILLED: usize = FAN_OUT * 3 / 4;

impl Sums {
    pub(super) const NONE: Sums = Sums { count: 0, heap: 0, bulk: 0, volatile: 0, earliest: NEVER };

    fn of_leaf(leaf: &HashLeaf) -> Sums {
        Sums {
            count: leaf.len(),
            heap: leaf.heap_bytes(),
            bulk: leaf.bulk_bytes(),
            volatile: leaf.volatile(),
            earliest: leaf.earliest(),
        }
    }

    fn plus(self, other: Sums) -> Sums {
        Sums {
            count: self.count + other.count,
            heap: self.heap + other.heap,
            bulk: self.bulk + other.bulk,
            volatile: self.volatile + other.volatile,
            earliest: self.earliest.min(other.earliest),
        }
    }
}

impl HashChild {
    fn leaf(low: u64, leaf: HashLeaf) -> HashChild {
        HashChild { low, sums: Sums::of_leaf(&leaf), node: HashNode::Leaf(leaf) }
    }

    fn inner(inner: HashInner) -> HashChild {
        HashChild { low: inner.children[0].low, sums: inner.sums(), node: HashNode::Inner(Arc::new(inner)) }
    }
}

impl HashRange {
    pub(super) const ALL: HashRange = HashRange { first: 0, last: u64::MAX };

    /// The fraction of the range that lies below a hash, from 0 to 1.
    #[inline]
    fn part(self, hash: u64) -> f64 {
        (hash - self.first) as f64 / ((self.last - self.first) as f64 + 1.0)
    }
}

impl HashInner {
    /// The probable index of the child that a hash belongs to. The guess is good because hashes are uniform,
    /// and children cover similar ranges.
    #[inline]
    fn guess(&self, hash: u64, range: HashRange) -> usize {
        let at = (range.part(hash) * self.children.len() as f64) as usize;
        at.min(self.children.len() - 1)
    }

    /// The index of the child that a hash belongs to, and that child's range. `range` is this node's.
    #[inline]
    pub(super) fn find(&self, hash: u64, range: HashRange) -> (usize, HashRange) {
        let children = &self.children[..];
        let mut at = self.guess(hash, range);
        while at > 0 && children[at].low > hash {
            at -= 1;
        }
        while let Some(next) = children.get(at + 1)
            && next.low <= hash
        {
            at += 1;
        }
        let first = if at > 0 { children[at].low } else { range.first };
        let last = children.get(at + 1).map_or(range.last, |next| next.low - 1);
        (at, HashRange { first, last })
    }

    /// Prefetches the child that a hash probably belongs to.
    #[inline]
    pub(super) fn prefetch_child(&self, hash: u64, range: HashRange) {
        let child = &raw const self.children[self.guess(hash, range)];
        prefetch(child);
        prefetch(child.cast::<u8>().wrapping_add(64));
    }

    pub(super) fn children(&self) -> &[HashChild] {
        &self.children
    }

    fn own_heap(&self) -> usize {
        heap::block(size_of::<usize>() + size_of::<HashInner>()) + heap::vec(&self.children)
    }

    fn sums(&self) -> Sums {
        let all = self.children.iter().fold(Sums::NONE, |sums, child| sums.plus(child.sums));
        Sums { heap: all.heap + self.own_heap(), ..all }
    }

    /// Whether the node has so few children that it should be joined with a neighbour.
    fn is_small(&self) -> bool {
        self.children.len() < FAN_OUT / 4
    }

    /// Inserts a child at `at`. A full node first splits off its upper half.
    fn insert_or_split(&mut self, at: usize, child: HashChild) -> Reshape {
        if self.children.len() < FAN_OUT {
            self.children.insert(at, child);
            return Reshape::Fits;
        }
        let half = FAN_OUT / 2;
        let mut upper = HashInner { children: self.children.split_off(half) };
        if at > half {
            upper.children.insert(at - half, child);
        } else {
            self.children.insert(at, child);
        }
        Reshape::Split(HashChild::inner(upper))
    }

    /// Joins the small child at `at` with a neighbour if one node has room for both, or removes the child if
    /// it is empty; returns whether either was done.
    fn join(&mut self, at: usize) -> bool {
        if self.children[at].sums.count == 0 && self.children.len() > 1 {
            self.children.remove(at);
            return true;
        }
        let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
        for left in neighbours {
            if left + 1 >= self.children.len() {
                continue;
            }
            let (first, second) = self.children.split_at_mut(left + 1);
            if join_nodes(&mut first[left], &second[0]) {
                self.children.remove(left + 1);
                return true;
            }
        }
        false
    }
}

/// Adds the contents of `right`, the next child, to `left`; returns `false`, and adds nothing, if they would
/// fill a node to more than three quarters.
fn join_nodes(left: &mut HashChild, right: &HashChild) -> bool {
    match (&mut left.node, &right.node) {
        (HashNode::Leaf(into), HashNode::Leaf(from)) => {
            if into.len() + from.len() > LEAF_LEN_MAX * 3 / 4
                || into.entry_bytes() + from.entry_bytes() > LEAF_BYTES_MAX * 3 / 4
            {
                return false;
            }
            into.append(from);
            left.sums = Sums::of_leaf(into);
        }
        (HashNode::Inner(into), HashNode::Inner(from)) => {
            if into.children.len() + from.children.len() > FAN_OUT * 3 / 4 {
                return false;
            }
            let inner = Arc::make_mut(into);
            let joint = inner.children.len();
            inner.children.extend_from_slice(&from.children);
            // The first child of the right node is not the first child of the joined node, so its `low` has a
            // meaning from now on.
            inner.children[joint].low = right.low;
            left.sums = inner.sums();
        }
        (HashNode::Leaf(_), HashNode::Inner(_)) | (HashNode::Inner(_), HashNode::Leaf(_)) => {
            unreachable!("all leaves have the same depth")
        }
    }
    true
}

impl HashNode {
    /// Whether the node, or one directly below it, has another owner.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            HashNode::Leaf(leaf) => !leaf.is_unique(),
            HashNode::Inner(inner) => {
                !inner.is_unique() || inner.children.iter().any(|child| !child.node.is_unique())
            }
        }
    }

    fn is_small(&self) -> bool {
        match self {
            HashNode::Leaf(leaf) => is_small_leaf(leaf),
            HashNode::Inner(inner) => inner.is_small(),
        }
    }

    /// Whether the node itself has no other owner.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        match self {
            HashNode::Leaf(leaf) => leaf.is_unique(),
            HashNode::Inner(inner) => inner.is_unique(),
        }
    }

    /// Bytes of the nodes without another owner. Cost: one step for each of them.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            _ if !self.is_unique() => 0,
            HashNode::Leaf(leaf) => leaf.heap_bytes(),
            HashNode::Inner(inner) => {
                let below: usize = inner.children.iter().map(|child| child.node.own_bytes()).sum();
                inner.own_heap() + below
            }
        }
    }

    /// Prefetches the parts of the node that a look-up reads.
    #[inline]
    pub(super) fn prefetch(&self) {
        match self {
            HashNode::Leaf(leaf) => leaf.prefetch(),
            HashNode::Inner(inner) => prefetch(&raw const **inner),
        }
    }

    /// The leaf that a hash belongs to.
    #[inline]
    pub(super) fn leaf_of(&self, hash: u64) -> &HashLeaf {
        self.leaf_and_hashes(hash).0
    }

    /// The leaf that a hash belongs to, and the range of the leaf's hashes.
    #[inline]
    pub(super) fn leaf_and_hashes(&self, hash: u64) -> (&HashLeaf, RangeInclusive<u64>) {
        let (mut node, mut range) = (self, HashRange::ALL);
        loop {
            match node {
                HashNode::Leaf(leaf) => return (leaf, range.first..=range.last),
                HashNode::Inner(inner) => {
                    let (at, below) = inner.find(hash, range);
                    (node, range) = (&inner.children[at].node, below);
                }
            }
        }
    }

    /// A leaf with a field that expires at `bound` or earlier. Cost: O(log n).
    pub(super) fn leaf_expired(&self, bound: i64) -> Option<&HashLeaf> {
        let mut node = self;
        loop {
            match node {
                HashNode::Leaf(leaf) => return (leaf.earliest() <= bound).then_some(leaf),
                HashNode::Inner(inner) => {
                    node = &inner.children.iter().find(|child| child.sums.earliest <= bound)?.node;
                }
            }
        }
    }
}

/// The root and the sums of a tree of these leaves. There is at least one leaf; the leaves are in ascending
/// order, each with its first hash.
pub(super) fn of_leaves(leaves: Vec<(u64, HashLeaf)>) -> (HashNode, Sums) {
    let mut children: Vec<HashChild> =
        leaves.into_iter().map(|(low, leaf)| HashChild::leaf(low, leaf)).collect();
    while children.len() > 1 {
        // The nodes get nearly equal sizes, so that none is joined with its neighbour soon.
        let count = children.len().div_ceil(FAN_OUT_FILLED);
        let mut above = Vec::with_capacity(count);
        let mut left = children.into_iter();
        for nodes_left in (1..=count).rev() {
            let len = left.len().div_ceil(nodes_left);
            above.push(HashChild::inner(HashInner { children: left.by_ref().take(len).collect() }));
        }
        children = above;
    }
    let root = children.pop().expect("there is a leaf, and each round leaves a node");
    (root.node, root.sums)
}

/// Changes the leaf that `hash` belongs to, copies shared nodes on the path, and keeps the tree in
/// shape. `sums` are those of `root`.
pub(super) fn change<R>(
    root: &mut HashNode,
    sums: &mut Sums,
    hash: u64,
    hash_of: impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> R {
    let (result, reshape) = change_node(root, sums, hash, HashRange::ALL, &hash_of, op);
    match reshape {
        Reshape::Fits => {}
        Reshape::Split(upper) => {
            let lower = HashChild { low: 0, node: root.clone(), sums: *sums };
            let inner = HashInner { children: vec![lower, upper] };
            *sums = inner.sums();
            *root = HashNode::Inner(Arc::new(inner));
        }
        Reshape::Small => shorten(root, sums),
    }
    result
}

fn change_node<R>(
    node: &mut HashNode,
    sums: &mut Sums,
    hash: u64,
    range: HashRange,
    hash_of: &impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> (R, Reshape) {
    match node {
        HashNode::Leaf(leaf) => {
            let result = op(leaf);
            let reshape = reshape_leaf(leaf, hash_of);
            *sums = Sums::of_leaf(leaf);
            (result, reshape)
        }
        HashNode::Inner(inner) => change_inner(inner, sums, hash, range, hash_of, op),
    }
}

fn change_inner<R>(
    shared: &mut Arc<HashInner>,
    sums: &mut Sums,
    hash: u64,
    range: HashRange,
    hash_of: &impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> (R, Reshape) {
    if !shared.is_unique() {
        // The copy has no spare room for children, so it may be smaller than the original.
        let own_before = shared.own_heap();
        let inner = Arc::make_mut(shared);
        sums.heap = sums.heap - own_before + inner.own_heap();
    }
    let inner = Arc::make_mut(shared);
    let (at, range) = inner.find(hash, range);
    let child = &mut inner.children[at];
    let before = child.sums;
    let (result, below) = change_node(&mut child.node, &mut child.sums, hash, range, hash_of, op);
    let after = child.sums;
    let reshape = match below {
        Reshape::Fits => {
            sums.count = sums.count - before.count + after.count;
            sums.volatile = sums.volatile - before.volatile + after.volatile;
            sums.heap = sums.heap - before.heap + after.heap;
            sums.bulk = sums.bulk - before.bulk + after.bulk;
            if before.earliest == sums.earliest && after.earliest > before.earliest {
                let all = inner.children.iter().map(|child| child.sums.earliest);
                sums.earliest = all.min().unwrap_or(NEVER);
            } else {
                sums.earliest = sums.earliest.min(after.earliest);
            }
            return (result, Reshape::Fits);
        }
        Reshape::Split(upper) => inner.insert_or_split(at + 1, upper),
        Reshape::Small => {
            inner.join(at);
            if inner.is_small() { Reshape::Small } else { Reshape::Fits }
        }
    };
    *sums = inner.sums();
    (result, reshape)
}

/// Removes the fields at these ranks from the tree below `root`. The range must hold at least one field, but
/// not all. Whole nodes are moved to `pieces`, and so are copies of parts of leaves.
pub(super) fn take_ranks(
    root: &mut HashNode,
    sums: &mut Sums,
    ranks: Range<usize>,
    pieces: &mut Vec<HashChild>,
) {
    *sums = take_from_node(root, ranks, pieces);
    shorten(root, sums);
}

/// Removes the fields at these ranks from the tree below a node; returns the sums of the rest.
fn take_from_node(node: &mut HashNode, ranks: Range<usize>, pieces: &mut Vec<HashChild>) -> Sums {
    let shared = match node {
        HashNode::Leaf(leaf) => {
            pieces.push(HashChild::leaf(0, leaf.part_of(|slot| ranks.contains(&slot))));
            let rest = leaf.part_of(|slot| !ranks.contains(&slot));
            let sums = Sums::of_leaf(&rest);
            *node = HashNode::Leaf(rest);
            return sums;
        }
        HashNode::Inner(inner) => inner,
    };
    let inner = Arc::make_mut(shared);
    let (mut at, mut first) = (0, 0);
    // Children whose fields are all in the range are removed. The children at both ends of the range may lose
    // only a part; they are joined with a neighbour if they have become small.
    let mut reduced = Vec::new();
    while at < inner.children.len() {
        let child = &mut inner.children[at];
        let count = child.sums.count;
        let part = ranks.start.saturating_sub(first)..ranks.end.saturating_sub(first).min(count);
        first += count;
        if part.len() == count {
            pieces.push(inner.children.remove(at));
            continue;
        }
        if !part.is_empty() {
            child.sums = take_from_node(&mut child.node, part, pieces);
            reduced.push(at);
        }
        at += 1;
    }
    for at in reduced.into_iter().rev() {
        if inner.children[at].node.is_small() {
            inner.join(at);
        }
    }
    inner.sums()
}

/// Replaces the root by its child as long as there is only one child. A root with at least two children
/// stays.
fn shorten(root: &mut HashNode, sums: &mut Sums) {
    while let HashNode::Inner(inner) = root
        && let [child] = inner.children()
    {
        let child = child.clone();
        *sums = child.sums;
        *root = child.node;
    }
}

/// Splits a leaf that is too large (the upper half of its hashes becomes a new leaf), and reports a leaf that
/// is too small.
fn reshape_leaf(leaf: &mut HashLeaf, hash_of: &impl Fn(&[u8]) -> u64) -> Reshape {
    if is_small_leaf(leaf) {
        return Reshape::Small;
    }
    let len = leaf.len();
    if len < 2 || (len <= LEAF_LEN_MAX && leaf.entry_bytes() <= LEAF_BYTES_MAX) {
        return Reshape::Fits;
    }
    let hashes: Vec<u64> = (0..len).map(|slot| hash_of(leaf.name(slot))).collect();
    let mut sorted = hashes.clone();
    sorted.sort_unstable();
    // Fields with equal hashes stay together, so a leaf in which all hashes are equal is not split.
    let Some(low) = middle_step(&sorted) else { return Reshape::Fits };
    let upper = leaf.part_of(|slot| hashes[slot] >= low);
    *leaf = leaf.part_of(|slot| hashes[slot] < low);
    Reshape::Split(HashChild::leaf(low, upper))
}

/// Whether a leaf is so small that it should be joined with a neighbour.
fn is_small_leaf(leaf: &HashLeaf) -> bool {
    leaf.len() < LEAF_LEN_MAX / 4 && leaf.entry_bytes() < LEAF_BYTES_MAX / 4
}

/// The number that begins the upper part of a split. Among the numbers that differ from their predecessor, it
/// is the one nearest to the middle. `None` if all numbers are equal.
fn middle_step(sorted: &[u64]) -> Option<u64> {
    let middle = sorted.len() / 2;
    let steps = (1..sorted.len()).filter(|at| sorted[at - 1] != sorted[*at]);
    steps.min_by_key(|at| at.abs_diff(middle)).map(|at| sorted[at])
}

#[cfg(test)]
impl HashNode {
    /// Checks invariants (1) and (2) below the node; returns its depth and its sums.
    pub(super) fn check(
        &self,
        range: std::ops::Range<u128>,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> (usize, Sums) {
        match self {
            HashNode::Leaf(leaf) => {
                for slot in 0..leaf.len() {
                    assert!(range.contains(&u128::from(hash_of(leaf.name(slot)))));
                }
                let expiries = (0..leaf.len()).filter_map(|slot| leaf.get(slot).expiry);
                assert_eq!(expiries.clone().count(), leaf.volatile());
                assert_eq!(expiries.min().unwrap_or(NEVER), leaf.earliest());
                let names = (0..leaf.len()).map(|slot| leaf.name(slot).len());
                let bulk: usize = names.map(|len| format!("${len}\r\n\r\n").len() + len).sum();
                assert_eq!(bulk, leaf.bulk_bytes());
                assert!(leaf.len() <= LEAF_LEN_MAX, "{} fields in a leaf", leaf.len());
                (1, Sums::of_leaf(leaf))
            }
            HashNode::Inner(inner) => {
                let mut depths = Vec::new();
                for (at, child) in inner.children.iter().enumerate() {
                    let low = if at == 0 { range.start } else { u128::from(child.low) };
                    let end = inner.children.get(at + 1).map_or(range.end, |next| u128::from(next.low));
                    assert!(low < end, "lows ascend");
                    let (depth, sums) = child.node.check(low..end, hash_of);
                    assert_eq!(sums, child.sums);
                    assert!(sums.count > 0, "no empty leaf");
                    depths.push(depth);
                }
                assert!(inner.children.len() <= FAN_OUT);
                assert!(depths.iter().all(|depth| *depth == depths[0]));
                (depths[0] + 1, inner.sums())
            }
        }
    }
}

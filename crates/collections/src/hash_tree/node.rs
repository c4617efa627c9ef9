//! Nodes: a search tree over hashes. All leaves have the same depth.
//!
//! Invariants: (1) the lows of an inner node's children ascend from the second on, and a child's hashes are
//! not below its low and below the next child's. The first child takes all that is below the second's low:
//! its own low says nothing, since children in front of it may have gone, here or above; where it gets a
//! neighbour on its left, the node above knows the low between them; (2) `sums` of a child are those of its
//! node; (3) what is shared is never written: a writer copies the nodes of its path that have another owner.

use super::leaf::{HashLeaf, NEVER};
use crate::arch::prefetch;
use sluice_base::heap;
use std::ops::{Range, RangeInclusive};
use triomphe::Arc;

/// A leaf, or an inner node.
#[derive(Clone, Debug)]
pub(super) enum HashNode {
    Leaf(Arc<HashLeaf>),
    Inner(Arc<HashInner>),
}

/// Up to [`FAN_OUT`] nodes. `lows` stands apart, since a search looks at nothing else.
#[derive(Clone, Debug)]
pub(super) struct HashInner {
    lows: Vec<u64>,
    children: Vec<HashChild>,
}

#[derive(Clone, Debug)]
pub(super) struct HashChild {
    pub(super) node: HashNode,
    pub(super) sums: Sums,
}

/// What the fields below a node amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: usize,
    /// Bytes allocated, the node's own included.
    pub(super) heap: usize,
    /// Fields that expire.
    pub(super) volatile: usize,
    /// The first expiry, or [`NEVER`].
    pub(super) earliest: i64,
}

/// What a change did to the shape of a node.
enum Reshape {
    Fits,
    /// The upper part became a node of its own, from this hash on.
    Split(u64, HashChild),
    /// So little is left that the node should be joined with a neighbour.
    Small,
}

/// Children of an inner node at most.
const FAN_OUT: usize = 64;
/// Fields of a leaf at most, unless all have the same hash.
const LEAF_LEN_MAX: usize = 64;
/// Bytes of a leaf's entries at most, unless it has but one.
const LEAF_BYTES_MAX: usize = 4096;

/// Fields of a leaf of a tree that is made at once: with room for more, as full as joined leaves are at most.
pub(super) const LEAF_LEN_FILLED: usize = LEAF_LEN_MAX * 3 / 4;
/// Bytes of such a leaf's entries.
pub(super) const LEAF_BYTES_FILLED: usize = LEAF_BYTES_MAX * 3 / 4;
/// Children of an inner node of such a tree at most.
const FAN_OUT_FILLED: usize = FAN_OUT * 3 / 4;

impl Sums {
    pub(super) const NONE: Sums = Sums { count: 0, heap: 0, volatile: 0, earliest: NEVER };

    fn of_leaf(leaf: &HashLeaf) -> Sums {
        Sums {
            count: leaf.len(),
            heap: leaf.heap_bytes(),
            volatile: leaf.volatile(),
            earliest: leaf.earliest(),
        }
    }

    fn plus(self, other: Sums) -> Sums {
        Sums {
            count: self.count + other.count,
            heap: self.heap + other.heap,
            volatile: self.volatile + other.volatile,
            earliest: self.earliest.min(other.earliest),
        }
    }
}

impl HashChild {
    fn leaf(leaf: HashLeaf) -> HashChild {
        HashChild { sums: Sums::of_leaf(&leaf), node: HashNode::Leaf(Arc::new(leaf)) }
    }

    fn inner(inner: HashInner) -> HashChild {
        HashChild { sums: inner.sums(), node: HashNode::Inner(Arc::new(inner)) }
    }
}

impl HashInner {
    /// Which child takes a hash.
    pub(super) fn position(&self, hash: u64) -> usize {
        self.lows.get(1..).map_or(0, |lows| lows.partition_point(|low| *low <= hash))
    }

    pub(super) fn children(&self) -> &[HashChild] {
        &self.children
    }

    /// Where the hashes of the child behind this one begin.
    pub(super) fn low_behind(&self, position: usize) -> Option<u64> {
        self.lows.get(position + 1).copied()
    }

    fn own_heap(&self) -> usize {
        heap::block(size_of::<usize>() + size_of::<HashInner>())
            + heap::vec(&self.lows)
            + heap::vec(&self.children)
    }

    fn sums(&self) -> Sums {
        let all = self.children.iter().fold(Sums::NONE, |sums, child| sums.plus(child.sums));
        Sums { heap: all.heap + self.own_heap(), ..all }
    }

    /// Whether so few children are left that the node should be joined with a neighbour.
    fn is_small(&self) -> bool {
        self.children.len() < FAN_OUT / 4
    }

    fn insert(&mut self, at: usize, low: u64, child: HashChild) {
        self.lows.insert(at, low);
        self.children.insert(at, child);
    }

    /// Puts a child at `at`. A full node gives its upper half away first.
    fn insert_or_split(&mut self, at: usize, low: u64, child: HashChild) -> Reshape {
        if self.children.len() < FAN_OUT {
            self.insert(at, low, child);
            return Reshape::Fits;
        }
        let half = FAN_OUT / 2;
        let mut upper =
            HashInner { lows: self.lows.split_off(half), children: self.children.split_off(half) };
        if at > half {
            upper.insert(at - half, low, child);
        } else {
            self.insert(at, low, child);
        }
        Reshape::Split(upper.lows[0], HashChild::inner(upper))
    }

    /// Joins the child at `at`, of which little is left, with a neighbour where both fit into one.
    fn join(&mut self, at: usize, hash_of: &impl Fn(&[u8]) -> u64) -> bool {
        if self.children[at].sums.count == 0 && self.children.len() > 1 {
            self.children.remove(at);
            self.lows.remove(at);
            return true;
        }
        let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
        for left in neighbours {
            if left + 1 >= self.children.len() {
                continue;
            }
            let (first, second) = self.children.split_at_mut(left + 1);
            if join_nodes(&mut first[left], &second[0], self.lows[left + 1], hash_of) {
                self.children.remove(left + 1);
                self.lows.remove(left + 1);
                return true;
            }
        }
        false
    }
}

/// Adds what `right` holds, whose hashes begin at `low`, to `left` where one node has room for both.
fn join_nodes(left: &mut HashChild, right: &HashChild, low: u64, hash_of: &impl Fn(&[u8]) -> u64) -> bool {
    match (&mut left.node, &right.node) {
        (HashNode::Leaf(into), HashNode::Leaf(from)) => {
            if into.len() + from.len() > LEAF_LEN_MAX * 3 / 4
                || into.entry_bytes() + from.entry_bytes() > LEAF_BYTES_MAX * 3 / 4
            {
                return false;
            }
            let leaf = Arc::make_mut(into);
            leaf.append(from, hash_of);
            left.sums = Sums::of_leaf(leaf);
        }
        (HashNode::Inner(into), HashNode::Inner(from)) => {
            if into.children.len() + from.children.len() > FAN_OUT * 3 / 4 {
                return false;
            }
            let inner = Arc::make_mut(into);
            inner.lows.push(low);
            inner.lows.extend_from_slice(&from.lows[1..]);
            inner.children.extend_from_slice(&from.children);
            left.sums = inner.sums();
        }
        (HashNode::Leaf(_), HashNode::Inner(_)) | (HashNode::Inner(_), HashNode::Leaf(_)) => {
            unreachable!("all leaves have the same depth")
        }
    }
    true
}

impl HashNode {
    /// Whether the node, or one right below it, has another owner.
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

    fn is_unique(&self) -> bool {
        match self {
            HashNode::Leaf(leaf) => leaf.is_unique(),
            HashNode::Inner(inner) => inner.is_unique(),
        }
    }

    /// Bytes of the nodes that have no other owner. Cost: one step for each of them.
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

    /// Asks the processor for the pointer to the node, ahead of [`HashNode::prefetch_parts`].
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
    }

    /// Asks the processor for what a look-up reads of the node. Waits for its pointer.
    #[inline]
    pub(super) fn prefetch_parts(&self) {
        match self {
            HashNode::Leaf(leaf) => leaf.prefetch(),
            HashNode::Inner(inner) => prefetch(&raw const **inner),
        }
    }

    /// The leaf that has a hash, if any has.
    pub(super) fn leaf_of(&self, hash: u64) -> &HashLeaf {
        let mut node = self;
        loop {
            match node {
                HashNode::Leaf(leaf) => return leaf,
                HashNode::Inner(inner) => node = &inner.children[inner.position(hash)].node,
            }
        }
    }

    /// The leaf that has a hash, if any has, and the hashes that the leaf takes.
    pub(super) fn leaf_and_hashes(&self, hash: u64) -> (&HashLeaf, RangeInclusive<u64>) {
        let (mut node, mut low, mut last) = (self, 0, u64::MAX);
        loop {
            match node {
                HashNode::Leaf(leaf) => return (leaf, low..=last),
                HashNode::Inner(inner) => {
                    let at = inner.position(hash);
                    if at > 0 {
                        low = inner.lows[at];
                    }
                    last = inner.low_behind(at).map_or(last, |next| next.saturating_sub(1));
                    node = &inner.children[at].node;
                }
            }
        }
    }

    /// Some leaf with a field whose expiry is `bound` or earlier. Cost: O(log n).
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

/// The tree of these leaves, at least one, each with its first hash, in the order of these.
pub(super) fn of_leaves(leaves: Vec<(u64, HashLeaf)>) -> (HashNode, Sums) {
    let (mut lows, mut children): (Vec<u64>, Vec<HashChild>) =
        leaves.into_iter().map(|(low, leaf)| (low, HashChild::leaf(leaf))).unzip();
    while children.len() > 1 {
        // Nodes of nearly the same size: none is to be joined with its neighbour soon.
        let count = children.len().div_ceil(FAN_OUT_FILLED);
        let (mut above_lows, mut above) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut lows_left, mut left) = (lows.into_iter(), children.into_iter());
        for nodes_left in (1..=count).rev() {
            let len = left.len().div_ceil(nodes_left);
            let lows: Vec<u64> = lows_left.by_ref().take(len).collect();
            above_lows.extend(lows.first());
            above.push(HashChild::inner(HashInner { lows, children: left.by_ref().take(len).collect() }));
        }
        (lows, children) = (above_lows, above);
    }
    let root = children.pop().expect("there is a leaf, and each round leaves a node");
    (root.node, root.sums)
}

/// Changes the leaf that has `hash`, copying what is shared on the way, and keeps the tree in shape. `sums`
/// are those of `root`.
pub(super) fn change<R>(
    root: &mut HashNode,
    sums: &mut Sums,
    hash: u64,
    hash_of: impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> R {
    let (result, reshape) = change_node(root, sums, hash, &hash_of, op);
    match reshape {
        Reshape::Fits => {}
        Reshape::Split(low, upper) => {
            let lower = HashChild { node: root.clone(), sums: *sums };
            let inner = HashInner { lows: vec![0, low], children: vec![lower, upper] };
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
    hash_of: &impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> (R, Reshape) {
    match node {
        HashNode::Leaf(leaf) => {
            let leaf = Arc::make_mut(leaf);
            let result = op(leaf);
            let reshape = reshape_leaf(leaf, hash_of);
            *sums = Sums::of_leaf(leaf);
            (result, reshape)
        }
        HashNode::Inner(inner) => change_inner(inner, sums, hash, hash_of, op),
    }
}

fn change_inner<R>(
    shared: &mut Arc<HashInner>,
    sums: &mut Sums,
    hash: u64,
    hash_of: &impl Fn(&[u8]) -> u64,
    op: impl FnOnce(&mut HashLeaf) -> R,
) -> (R, Reshape) {
    if !shared.is_unique() {
        // A copy has no room to spare.
        let own_before = shared.own_heap();
        let inner = Arc::make_mut(shared);
        sums.heap = sums.heap - own_before + inner.own_heap();
    }
    let inner = Arc::make_mut(shared);
    let at = inner.position(hash);
    let child = &mut inner.children[at];
    let before = child.sums;
    let (result, below) = change_node(&mut child.node, &mut child.sums, hash, hash_of, op);
    let after = child.sums;
    let reshape = match below {
        Reshape::Fits => {
            sums.count = sums.count - before.count + after.count;
            sums.volatile = sums.volatile - before.volatile + after.volatile;
            sums.heap = sums.heap - before.heap + after.heap;
            if before.earliest == sums.earliest && after.earliest > before.earliest {
                let all = inner.children.iter().map(|child| child.sums.earliest);
                sums.earliest = all.min().unwrap_or(NEVER);
            } else {
                sums.earliest = sums.earliest.min(after.earliest);
            }
            return (result, Reshape::Fits);
        }
        Reshape::Split(low, upper) => inner.insert_or_split(at + 1, low, upper),
        Reshape::Small => {
            inner.join(at, hash_of);
            if inner.is_small() { Reshape::Small } else { Reshape::Fits }
        }
    };
    *sums = inner.sums();
    (result, reshape)
}

/// Cuts the fields with these ranks out of the tree below `root`, neither none nor all of them. Whole nodes
/// go as they are: the nodes that went are added to `pieces`.
pub(super) fn take_ranks(
    root: &mut HashNode,
    sums: &mut Sums,
    ranks: Range<usize>,
    hash_of: impl Fn(&[u8]) -> u64,
    pieces: &mut Vec<HashChild>,
) {
    *sums = take_from_node(root, ranks, &hash_of, pieces);
    shorten(root, sums);
}

/// Cuts the fields with these ranks out of the tree below a node; the sums of what stays.
fn take_from_node(
    node: &mut HashNode,
    ranks: Range<usize>,
    hash_of: &impl Fn(&[u8]) -> u64,
    pieces: &mut Vec<HashChild>,
) -> Sums {
    let shared = match node {
        HashNode::Leaf(leaf) => {
            let hashes: Vec<u64> = (0..leaf.len()).map(|slot| hash_of(leaf.name(slot))).collect();
            pieces.push(HashChild::leaf(leaf.part_of(&hashes, |slot, _| ranks.contains(&slot))));
            let rest = leaf.part_of(&hashes, |slot, _| !ranks.contains(&slot));
            let sums = Sums::of_leaf(&rest);
            *node = HashNode::Leaf(Arc::new(rest));
            return sums;
        }
        HashNode::Inner(inner) => inner,
    };
    let inner = Arc::make_mut(shared);
    let (mut at, mut first) = (0, 0);
    // Children that lose a part: at both ends of the ranks.
    let mut reduced = Vec::new();
    while at < inner.children.len() {
        let child = &mut inner.children[at];
        let count = child.sums.count;
        let part = ranks.start.saturating_sub(first)..ranks.end.saturating_sub(first).min(count);
        first += count;
        if part.len() == count {
            pieces.push(inner.children.remove(at));
            inner.lows.remove(at);
            continue;
        }
        if !part.is_empty() {
            child.sums = take_from_node(&mut child.node, part, hash_of, pieces);
            reduced.push(at);
        }
        at += 1;
    }
    for at in reduced.into_iter().rev() {
        if inner.children[at].node.is_small() {
            inner.join(at, hash_of);
        }
    }
    inner.sums()
}

/// Takes single nodes at the top away: the root may be of any size, but one with a single child is not
/// needed.
fn shorten(root: &mut HashNode, sums: &mut Sums) {
    while let HashNode::Inner(inner) = root
        && let [child] = inner.children()
    {
        let child = child.clone();
        *sums = child.sums;
        *root = child.node;
    }
}

/// Cuts a leaf in two where it is too large: the upper half of its hashes goes.
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
    // Fields with the same hash stay together.
    let Some(low) = middle_step(&sorted) else { return Reshape::Fits };
    let upper = leaf.part_of(&hashes, |_, hash| hash >= low);
    *leaf = leaf.part_of(&hashes, |_, hash| hash < low);
    Reshape::Split(low, HashChild::leaf(upper))
}

/// Whether so little is left of a leaf that it should be joined with a neighbour.
fn is_small_leaf(leaf: &HashLeaf) -> bool {
    leaf.len() < LEAF_LEN_MAX / 4 && leaf.entry_bytes() < LEAF_BYTES_MAX / 4
}

/// The number at the step between two different numbers that is nearest to the middle.
fn middle_step(sorted: &[u64]) -> Option<u64> {
    let middle = sorted.len() / 2;
    let steps = (1..sorted.len()).filter(|at| sorted[at - 1] != sorted[*at]);
    steps.min_by_key(|at| at.abs_diff(middle)).map(|at| sorted[at])
}

#[cfg(test)]
impl HashNode {
    /// Checks invariants (1) and (2) below the node; its depth and its sums.
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
                assert!(leaf.len() <= LEAF_LEN_MAX, "{} fields in a leaf", leaf.len());
                (1, Sums::of_leaf(leaf))
            }
            HashNode::Inner(inner) => {
                let mut depths = Vec::new();
                for (at, child) in inner.children.iter().enumerate() {
                    let low = if at == 0 { range.start } else { u128::from(inner.lows[at]) };
                    let end = inner.low_behind(at).map_or(range.end, u128::from);
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

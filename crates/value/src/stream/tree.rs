//! An ordered tree of small items with reference-counted nodes. A stream keeps its macro nodes, groups,
//! consumers and pending entries in such trees.
//! Invariants: (1) all leaves are at the same depth; (2) no node is empty; (3) items ascend by their keys;
//! (4) the weight stored beside a node is the sum over its items and nodes; (5) [`SharedTree::share`] costs
//! O(1), because a write copies those nodes of one path that have another owner, and adds their bytes to
//! `copied`.

use std::cmp::Ordering;
use std::mem::{size_of, take};

use sluice_base::heap;
use triomphe::Arc;

/// Maximum number of items in a leaf, or of children of an inner node.
const FANOUT: usize = 64;
/// After a removal, a node with fewer items or children may be joined with a neighbour (see `mend`).
const SPARSE: usize = FANOUT / 4;
/// Levels of the highest tree; a higher one would have more items than memory holds.
const LEVELS_MAX: usize = 12;

/// An item of a tree.
pub(super) trait TreeItem: Clone {
    /// The key that orders items.
    type Key: Clone;
    /// The type that keys are compared with.
    type Probe: ?Sized;
    fn key(&self) -> Self::Key;
    /// The order of a key relative to `probe`.
    fn compare(key: &Self::Key, probe: &Self::Probe) -> Ordering;
    /// The order of the item's key relative to `probe`.
    fn is_beside(&self, probe: &Self::Probe) -> Ordering;
    /// The item's contribution to the sums.
    fn weight(&self) -> Weight;
    /// Bytes allocated outside of the item that have no other owner.
    fn own_bytes(&self) -> usize {
        0
    }
}

/// Sums over items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// Number of items.
    pub items: usize,
    /// Number of stream entries in the items.
    pub entries: u64,
    /// Bytes allocated outside of the items, and for the nodes of the tree.
    pub heap: usize,
}

impl Weight {
    fn plus(self, other: Weight) -> Weight {
        Weight {
            items: self.items + other.items,
            entries: self.entries + other.entries,
            heap: self.heap + other.heap,
        }
    }

    fn minus(self, other: Weight) -> Weight {
        Weight {
            items: self.items - other.items,
            entries: self.entries - other.entries,
            heap: self.heap - other.heap,
        }
    }
}

/// A B+ tree of items that can be shared: writers copy the shared nodes on their path.
pub(super) struct SharedTree<T: TreeItem> {
    root: Option<Arc<TreeNode<T>>>,
    weight: Weight,
}

enum TreeNode<T: TreeItem> {
    Leaf(Vec<T>),
    Inner(Vec<Branch<T>>),
}

struct Branch<T: TreeItem> {
    /// A key that is not greater than the first key of this branch, and greater than all keys of the previous
    /// branch.
    first: T::Key,
    weight: Weight,
    node: Arc<TreeNode<T>>,
}

impl<T: TreeItem> Clone for Branch<T> {
    fn clone(&self) -> Branch<T> {
        Branch { first: self.first.clone(), weight: self.weight, node: self.node.clone() }
    }
}

impl<T: TreeItem> Clone for TreeNode<T> {
    fn clone(&self) -> TreeNode<T> {
        match self {
            TreeNode::Leaf(items) => TreeNode::Leaf(items.clone()),
            TreeNode::Inner(branches) => TreeNode::Inner(branches.clone()),
        }
    }
}

impl<T: TreeItem> Default for SharedTree<T> {
    fn default() -> SharedTree<T> {
        SharedTree { root: None, weight: Weight::default() }
    }
}

impl<T: TreeItem> std::fmt::Debug for SharedTree<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedTree").field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl<T: TreeItem> TreeNode<T> {
    fn len(&self) -> usize {
        match self {
            TreeNode::Leaf(items) => items.len(),
            TreeNode::Inner(branches) => branches.len(),
        }
    }

    /// Bytes of the node itself, without its children.
    fn own_heap(&self) -> usize {
        let buffer = match self {
            TreeNode::Leaf(items) => heap::vec(items),
            TreeNode::Inner(branches) => heap::vec(branches),
        };
        heap::block(size_of::<usize>() + size_of::<TreeNode<T>>()) + buffer
    }

    fn weigh(&self) -> Weight {
        let own = Weight { heap: self.own_heap(), ..Weight::default() };
        match self {
            TreeNode::Leaf(items) => items.iter().fold(own, |sum, item| sum.plus(item.weight())),
            TreeNode::Inner(branches) => branches.iter().fold(own, |sum, branch| sum.plus(branch.weight)),
        }
    }

    fn own_bytes(&self) -> usize {
        let below: usize = match self {
            TreeNode::Leaf(items) => items.iter().map(T::own_bytes).sum(),
            TreeNode::Inner(branches) => {
                branches.iter().filter(|b| b.node.is_unique()).map(|b| b.node.own_bytes()).sum()
            }
        };
        self.own_heap() + below
    }
}

/// The node for writing; it is copied if it has another owner.
fn writable<'a, T: TreeItem>(node: &'a mut Arc<TreeNode<T>>, copied: &mut u64) -> &'a mut TreeNode<T> {
    if !node.is_unique() {
        *copied += node.own_heap() as u64;
    }
    Arc::make_mut(node)
}

/// The branch that a key belongs to.
fn branch_of<T: TreeItem>(branches: &[Branch<T>], probe: &T::Probe) -> usize {
    branches.partition_point(|branch| T::compare(&branch.first, probe).is_le()).saturating_sub(1)
}

fn index_of<T: TreeItem>(items: &[T], probe: &T::Probe) -> Result<usize, usize> {
    items.binary_search_by(|item| item.is_beside(probe))
}

impl<T: TreeItem> SharedTree<T> {
    /// A second owner of the tree. O(1).
    pub(super) fn share(&self) -> SharedTree<T> {
        SharedTree { root: self.root.clone(), weight: self.weight }
    }

    /// The sums over all items. O(1).
    pub(super) fn weight(&self) -> Weight {
        self.weight
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Whether the tree has another owner. O(1).
    pub(super) fn is_shared(&self) -> bool {
        self.root.as_ref().is_some_and(|root| !root.is_unique())
    }

    /// Bytes that have no other owner. Cost: one step for each part that is not shared.
    pub(super) fn own_bytes(&self) -> usize {
        self.root.as_ref().filter(|root| root.is_unique()).map_or(0, |root| root.own_bytes())
    }

    /// The item of this key.
    pub(super) fn get(&self, probe: &T::Probe) -> Option<&T> {
        let mut node = &**self.root.as_ref()?;
        loop {
            match node {
                TreeNode::Leaf(items) => return items.get(index_of(items, probe).ok()?),
                TreeNode::Inner(branches) => node = &branches[branch_of(branches, probe)].node,
            }
        }
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.iter_back(None).next()
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.iter(None).next()
    }

    /// The items in order, from the first whose key is not less than `from`.
    pub(super) fn iter(&self, from: Option<&T::Probe>) -> TreeIter<'_, T> {
        TreeIter::new(self, from, Direction::Forward)
    }

    /// The items in reverse order, from the last whose key is not greater than `from`.
    pub(super) fn iter_back(&self, from: Option<&T::Probe>) -> TreeIter<'_, T> {
        TreeIter::new(self, from, Direction::Back)
    }

    /// Inserts an item, and replaces an item with the same key.
    pub(super) fn insert(&mut self, probe: &T::Probe, item: T, copied: &mut u64) {
        let Some(root) = &mut self.root else {
            let node = TreeNode::Leaf(vec![item]);
            self.weight = node.weigh();
            self.root = Some(Arc::new(node));
            return;
        };
        if let Some(split) = insert_below(root, &mut self.weight, probe, item, copied)
            && let Some(old) = self.root.take()
            && let Some(first) = first_key(&old)
        {
            let node = TreeNode::Inner(vec![Branch { first, weight: self.weight, node: old }, split]);
            self.weight = node.weigh();
            self.root = Some(Arc::new(node));
        }
    }

    /// Changes the item of a key by `change`, which must leave the key as it is. `None` if there is
    /// no such item.
    pub(super) fn update<R>(
        &mut self,
        probe: &T::Probe,
        copied: &mut u64,
        change: impl FnOnce(&mut T, &mut u64) -> R,
    ) -> Option<R> {
        self.get(probe)?;
        update_below(self.root.as_mut()?, &mut self.weight, probe, copied, change)
    }

    /// Removes the item of a key.
    pub(super) fn remove(&mut self, probe: &T::Probe, copied: &mut u64) -> Option<T> {
        self.get(probe)?;
        let removed = remove_below(self.root.as_mut()?, &mut self.weight, probe, copied);
        self.lower_root();
        removed
    }

    /// Removes the last item.
    pub(super) fn pop_back(&mut self, copied: &mut u64) -> Option<T> {
        let removed = pop_below(self.root.as_mut()?, &mut self.weight, copied);
        self.lower_root();
        removed
    }

    /// Removes the first items, as long as `cut` accepts them. `cut` is called with a whole branch, described
    /// by its weight and a key after it, or with a single item, and returns whether that branch or item is to
    /// be removed completely. Returns the removed parts. Cost: O(log n) calls of `cut`, times the fan-out.
    pub(super) fn cut_front(
        &mut self,
        cut: &mut dyn FnMut(TreePart<'_, T>) -> bool,
        copied: &mut u64,
    ) -> Vec<SharedTree<T>> {
        let mut parts = Vec::new();
        if let Some(root) = &mut self.root {
            cut_below(root, &mut self.weight, cut, &mut parts, copied);
        }
        self.lower_root();
        parts
    }

    /// Removes levels with a single branch, and the root of an empty tree.
    fn lower_root(&mut self) {
        while let Some(root) = &self.root {
            let lower = match &**root {
                TreeNode::Leaf(items) if items.is_empty() => None,
                TreeNode::Inner(branches) => match branches.as_slice() {
                    [] => None,
                    [only] => Some((only.node.clone(), only.weight)),
                    _ => return,
                },
                TreeNode::Leaf(_) => return,
            };
            match lower {
                Some((node, weight)) => (self.root, self.weight) = (Some(node), weight),
                None => *self = SharedTree::default(),
            }
        }
    }
}

/// The argument of `cut` in [`SharedTree::cut_front`].
pub(super) enum TreePart<'a, T: TreeItem> {
    /// A part of the tree: its weight, and a key that is greater than all of the part's keys and not
    /// greater than those after it.
    Branch(Weight, &'a T::Key),
    /// A single item of a leaf.
    Item(&'a T),
}

fn first_key<T: TreeItem>(node: &TreeNode<T>) -> Option<T::Key> {
    match node {
        TreeNode::Leaf(items) => items.first().map(T::key),
        TreeNode::Inner(branches) => branches.first().map(|branch| branch.first.clone()),
    }
}

/// Splits a full node in two. A node that grew at its end keeps all but its last child, so that items
/// added in order fill the nodes.
fn split<T: TreeItem>(node: &mut TreeNode<T>, at_end: bool) -> Option<Branch<T>> {
    let at = if at_end { node.len() - 1 } else { node.len() / 2 };
    let right = match node {
        TreeNode::Leaf(items) => {
            let right = items.split_off(at);
            items.shrink_to_fit();
            TreeNode::Leaf(right)
        }
        TreeNode::Inner(branches) => {
            let right = branches.split_off(at);
            branches.shrink_to_fit();
            TreeNode::Inner(right)
        }
    };
    Some(Branch { first: first_key(&right)?, weight: right.weigh(), node: Arc::new(right) })
}

fn insert_below<T: TreeItem>(
    node: &mut Arc<TreeNode<T>>,
    weight: &mut Weight,
    probe: &T::Probe,
    item: T,
    copied: &mut u64,
) -> Option<Branch<T>> {
    let own_before = node.own_heap();
    let node = writable(node, copied);
    let at_end = match node {
        TreeNode::Leaf(items) => {
            let added = item.weight();
            *weight = weight.plus(added);
            match index_of(items, probe) {
                Ok(at) => {
                    *weight = weight.minus(items[at].weight());
                    items[at] = item;
                    false
                }
                Err(at) => {
                    items.insert(at, item);
                    at + 1 == items.len()
                }
            }
        }
        TreeNode::Inner(branches) => {
            let at = branch_of(branches, probe);
            let branch = &mut branches[at];
            let before = branch.weight;
            if at == 0 && T::compare(&branch.first, probe).is_gt() {
                branch.first = item.key();
            }
            let split = insert_below(&mut branch.node, &mut branch.weight, probe, item, copied);
            *weight = weight.minus(before).plus(branch.weight);
            let is_split = split.is_some();
            if let Some(right) = split {
                *weight = weight.plus(right.weight);
                branches.insert(at + 1, right);
            }
            is_split && at + 2 == branches.len()
        }
    };
    let split = if node.len() > FANOUT { split(node, at_end) } else { None };
    if let Some(right) = &split {
        // Only the weight of the items below the new node is subtracted, because the bytes of the new node
        // itself were never part of this node's weight.
        *weight = weight.minus(Weight { heap: right.weight.heap - right.node.own_heap(), ..right.weight });
    }
    weight.heap = weight.heap + node.own_heap() - own_before;
    split
}

fn update_below<T: TreeItem, R>(
    node: &mut Arc<TreeNode<T>>,
    weight: &mut Weight,
    probe: &T::Probe,
    copied: &mut u64,
    change: impl FnOnce(&mut T, &mut u64) -> R,
) -> Option<R> {
    let own_before = node.own_heap();
    let node = writable(node, copied);
    let done = match node {
        TreeNode::Leaf(items) => {
            let at = index_of(items, probe).ok()?;
            let before = items[at].weight();
            let done = change(&mut items[at], copied);
            *weight = weight.minus(before).plus(items[at].weight());
            Some(done)
        }
        TreeNode::Inner(branches) => {
            let at = branch_of(branches, probe);
            let branch = &mut branches[at];
            let before = branch.weight;
            let done = update_below(&mut branch.node, &mut branch.weight, probe, copied, change);
            *weight = weight.minus(before).plus(branch.weight);
            done
        }
    };
    // If the node was copied, its own bytes may have changed, because a copy may have less capacity
    // than the original.
    weight.heap = weight.heap + node.own_heap() - own_before;
    done
}

fn remove_below<T: TreeItem>(
    node: &mut Arc<TreeNode<T>>,
    weight: &mut Weight,
    probe: &T::Probe,
    copied: &mut u64,
) -> Option<T> {
    let own_before = node.own_heap();
    let node = writable(node, copied);
    let removed = match node {
        TreeNode::Leaf(items) => {
            let item = items.remove(index_of(items, probe).ok()?);
            *weight = weight.minus(item.weight());
            Some(item)
        }
        TreeNode::Inner(branches) => {
            let at = branch_of(branches, probe);
            let branch = &mut branches[at];
            let before = branch.weight;
            let removed = remove_below(&mut branch.node, &mut branch.weight, probe, copied);
            *weight = weight.minus(before).plus(branch.weight);
            mend(branches, at, weight, copied);
            removed
        }
    };
    weight.heap = weight.heap + node.own_heap() - own_before;
    removed
}

fn pop_below<T: TreeItem>(node: &mut Arc<TreeNode<T>>, weight: &mut Weight, copied: &mut u64) -> Option<T> {
    let own_before = node.own_heap();
    let node = writable(node, copied);
    let removed = match node {
        TreeNode::Leaf(items) => {
            let item = items.pop()?;
            *weight = weight.minus(item.weight());
            Some(item)
        }
        TreeNode::Inner(branches) => {
            let at = branches.len() - 1;
            let branch = &mut branches[at];
            let before = branch.weight;
            let removed = pop_below(&mut branch.node, &mut branch.weight, copied);
            *weight = weight.minus(before).plus(branch.weight);
            mend(branches, at, weight, copied);
            removed
        }
    };
    weight.heap = weight.heap + node.own_heap() - own_before;
    removed
}

/// Removes an empty branch, or joins a sparse one with a neighbour if both together fill at most half a node.
fn mend<T: TreeItem>(branches: &mut Vec<Branch<T>>, at: usize, weight: &mut Weight, copied: &mut u64) {
    let len = branches[at].node.len();
    if len == 0 {
        *weight = weight.minus(branches[at].weight);
        branches.remove(at);
        return;
    }
    if len >= SPARSE || branches.len() < 2 {
        return;
    }
    let left = if at + 1 < branches.len() { at } else { at - 1 };
    // Some room must remain, or the next insert would split the node again.
    if branches[left].node.len() + branches[left + 1].node.len() > FANOUT / 2 {
        return;
    }
    let mut right = branches.remove(left + 1);
    let into = &mut branches[left];
    *weight = weight.minus(into.weight).minus(right.weight);
    match (writable(&mut into.node, copied), writable(&mut right.node, copied)) {
        (TreeNode::Leaf(items), TreeNode::Leaf(more)) => items.append(&mut take(more)),
        (TreeNode::Inner(inner), TreeNode::Inner(more)) => inner.append(&mut take(more)),
        (TreeNode::Leaf(_) | TreeNode::Inner(_), _) => unreachable!("invariant 1: neighbours have one depth"),
    }
    into.weight = into.node.weigh();
    *weight = weight.plus(into.weight);
}

fn cut_below<T: TreeItem>(
    node: &mut Arc<TreeNode<T>>,
    weight: &mut Weight,
    cut: &mut dyn FnMut(TreePart<'_, T>) -> bool,
    parts: &mut Vec<SharedTree<T>>,
    copied: &mut u64,
) {
    let own_before = node.own_heap();
    let count = match &**node {
        TreeNode::Leaf(items) => items.iter().take_while(|item| cut(TreePart::Item(item))).count(),
        TreeNode::Inner(branches) => {
            let pairs = branches.iter().zip(branches.iter().skip(1));
            pairs.take_while(|(branch, next)| cut(TreePart::Branch(branch.weight, &next.first))).count()
        }
    };
    if count == 0 && matches!(&**node, TreeNode::Leaf(_)) {
        return;
    }
    let node = writable(node, copied);
    match node {
        TreeNode::Leaf(items) => {
            let gone = TreeNode::Leaf(items.drain(..count).collect());
            let gone_weight = gone.weigh();
            let own = gone.own_heap();
            *weight = weight.minus(Weight { heap: gone_weight.heap - own, ..gone_weight });
            parts.push(SharedTree { root: Some(Arc::new(gone)), weight: gone_weight });
        }
        TreeNode::Inner(branches) => {
            for branch in branches.drain(..count) {
                *weight = weight.minus(branch.weight);
                parts.push(SharedTree { root: Some(branch.node), weight: branch.weight });
            }
            if let Some(branch) = branches.first_mut() {
                let before = branch.weight;
                cut_below(&mut branch.node, &mut branch.weight, cut, parts, copied);
                *weight = weight.minus(before).plus(branch.weight);
                mend(branches, 0, weight, copied);
            }
        }
    }
    weight.heap = weight.heap + node.own_heap() - own_before;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

/// Iterator over items, forwards or backwards. Allocates nothing.
pub(super) struct TreeIter<'a, T: TreeItem> {
    /// The nodes from the root down, each with the index of its next child or item; backwards, with this
    /// index plus one. The index of a finished node is past its end.
    path: [Option<(&'a TreeNode<T>, usize)>; LEVELS_MAX],
    depth: usize,
    direction: Direction,
}

impl<T: TreeItem> Clone for TreeIter<'_, T> {
    fn clone(&self) -> Self {
        TreeIter { path: self.path, depth: self.depth, direction: self.direction }
    }
}

impl<'a, T: TreeItem> TreeIter<'a, T> {
    fn new(tree: &'a SharedTree<T>, from: Option<&T::Probe>, direction: Direction) -> TreeIter<'a, T> {
        let mut iter = TreeIter { path: [None; LEVELS_MAX], depth: 0, direction };
        let mut next = tree.root.as_ref();
        while let Some(node) = next {
            let node = &**node;
            // For iteration backwards, positions are the index plus one, so that 0 means finished.
            let at = match (node, from, direction) {
                (TreeNode::Leaf(items), Some(probe), Direction::Forward) => {
                    items.partition_point(|item| item.is_beside(probe).is_lt())
                }
                (TreeNode::Leaf(items), Some(probe), Direction::Back) => {
                    items.partition_point(|item| item.is_beside(probe).is_le())
                }
                (TreeNode::Inner(branches), Some(probe), _) => branch_of(branches, probe),
                (_, None, Direction::Forward) => 0,
                (TreeNode::Leaf(items), None, Direction::Back) => items.len(),
                (TreeNode::Inner(branches), None, Direction::Back) => branches.len() - 1,
            };
            next = match node {
                TreeNode::Leaf(_) => {
                    iter.push(node, at);
                    None
                }
                TreeNode::Inner(branches) => {
                    // The stored position is the one after this branch.
                    iter.push(node, if direction == Direction::Forward { at + 1 } else { at });
                    Some(&branches[at].node)
                }
            };
        }
        iter
    }

    fn push(&mut self, node: &'a TreeNode<T>, at: usize) {
        self.path[self.depth] = Some((node, at));
        self.depth += 1;
    }
}

impl<'a, T: TreeItem> Iterator for TreeIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            let level = self.depth.checked_sub(1)?;
            let (node, at) = self.path[level]?;
            let index = match self.direction {
                Direction::Forward if at < node.len() => at,
                Direction::Back if at > 0 => at - 1,
                Direction::Forward | Direction::Back => {
                    self.depth = level;
                    continue;
                }
            };
            self.path[level] =
                Some((node, if self.direction == Direction::Forward { at + 1 } else { at - 1 }));
            match node {
                TreeNode::Leaf(items) => return items.get(index),
                TreeNode::Inner(branches) => {
                    let below = &*branches[index].node;
                    let at = if self.direction == Direction::Forward { 0 } else { below.len() };
                    self.push(below, at);
                }
            }
        }
    }
}

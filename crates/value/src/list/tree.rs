//! The tree between a list's first and last leaf.
//!
//! Inner nodes hold up to [`FANOUT`] children with the sums of each, so that an index finds its leaf. A node
//! may be written only if no node on the path from the root to it has a second owner. Therefore a writer
//! replaces each node with a second owner by a copy on the way down.
//!
//! Invariants: (1) all leaves are at the same depth; (2) no child is empty; (3) removed parts are not dropped
//! here, but go to the garbage of the context.

mod edit;

use triomphe::Arc;

use super::chunk::End;
use super::leaf::{Leaf, LeafSums};

/// The most children of an inner node. A write after a share copies up to this many for each level.
const FANOUT: usize = 32;
/// An inner node with fewer children is joined with a neighbour if one node has room for the children of
/// both.
const SPARSE: usize = FANOUT / 4;

/// A tree of leaves; `top` is `None` if there are no leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    top: Option<Child>,
}

/// A node and the sums of its leaves.
#[derive(Clone, Debug)]
pub(super) struct Child {
    node: Node,
    sums: LeafSums,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Arc<Inner>),
}

impl From<Leaf> for Node {
    fn from(leaf: Leaf) -> Node {
        Node::Leaf(leaf)
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    children: Vec<Child>,
}

impl Clone for Inner {
    fn clone(&self) -> Inner {
        Inner::copy_of(&self.children)
    }
}

/// Capacity for the few children that an update may add before the node is split.
const CAPACITY: usize = FANOUT + 4;

impl Inner {
    fn copy_of(from: &[Child]) -> Inner {
        let mut children = Vec::with_capacity(CAPACITY);
        children.extend_from_slice(from);
        Inner { children }
    }

    fn of(children: impl IntoIterator<Item = Child>) -> Child {
        let mut all = Vec::with_capacity(CAPACITY);
        all.extend(children);
        let mut child =
            Child { node: Node::Inner(Arc::new(Inner { children: all })), sums: LeafSums::default() };
        child.add_up();
        child
    }
}

/// Bytes of an inner node.
const INNER_BYTES: usize = 8 + size_of::<Inner>() + CAPACITY * size_of::<Child>();

impl Child {
    /// A leaf as a child.
    pub(super) fn leaf(leaf: Leaf) -> Child {
        let sums = leaf.sums();
        Child { node: Node::Leaf(leaf), sums }
    }

    fn own_bytes(&self) -> usize {
        match &self.node {
            Node::Leaf(leaf) => leaf.own_bytes(),
            Node::Inner(inner) if !inner.is_unique() => 0,
            Node::Inner(inner) => INNER_BYTES + inner.children.iter().map(Child::own_bytes).sum::<usize>(),
        }
    }

    /// Recomputes the sums.
    fn add_up(&mut self) {
        self.sums = match &self.node {
            Node::Leaf(leaf) => leaf.sums(),
            Node::Inner(inner) => {
                let own = LeafSums { heap: INNER_BYTES, ..LeafSums::default() };
                inner.children.iter().fold(own, |sums, child| sums.plus(child.sums))
            }
        };
    }
}

/// The child that holds the element at `index`, and the number of elements in front of that child.
fn child_at(children: &[Child], index: usize) -> Option<(usize, usize)> {
    let mut before = 0;
    for (at, child) in children.iter().enumerate() {
        if index < before + child.sums.count {
            return Some((at, before));
        }
        before += child.sums.count;
    }
    None
}

impl Tree {
    /// A removed part as a tree.
    pub(super) fn of(top: Child) -> Tree {
        Tree { top: Some(top) }
    }

    /// Whether the top node has another owner.
    pub(super) fn is_shared(&self) -> bool {
        match self.top.as_ref().map(|top| &top.node) {
            Some(Node::Leaf(leaf)) => leaf.is_shared(),
            Some(Node::Inner(inner)) => !inner.is_unique(),
            None => false,
        }
    }

    /// Bytes of the top node alone.
    pub(super) fn top_bytes(&self) -> usize {
        match self.top.as_ref().map(|top| &top.node) {
            Some(Node::Leaf(leaf)) => leaf.sums().heap,
            Some(Node::Inner(_)) => INNER_BYTES,
            None => 0,
        }
    }

    /// Bytes allocated that have no other owner.
    pub(super) fn own_bytes(&self) -> usize {
        self.top.as_ref().map_or(0, Child::own_bytes)
    }

    /// The sums of all leaves.
    #[inline]
    pub(super) fn sums(&self) -> LeafSums {
        self.top.as_ref().map_or(LeafSums::default(), |top| top.sums)
    }

    /// The leaf of the element at `index`, and the element's index in that leaf. Cost: O(log n).
    pub(super) fn find(&self, mut index: usize) -> Option<(&Leaf, usize)> {
        let mut child = self.top.as_ref()?;
        loop {
            match &child.node {
                Node::Leaf(leaf) => return Some((leaf, index)),
                Node::Inner(inner) => {
                    let (at, before) = child_at(&inner.children, index)?;
                    index -= before;
                    child = &inner.children[at];
                }
            }
        }
    }

    /// The index of a leaf's first element, and whether the leaf is compressed. The leaf is the one with
    /// `skip` other leaves between it and the end. Cost: O(log n).
    pub(super) fn leaf_from(&self, end: End, skip: usize) -> Option<(usize, bool)> {
        let mut child = self.top.as_ref()?;
        let mut left = match end {
            End::Front => skip,
            End::Back => child.sums.leaves.checked_sub(skip + 1)?,
        };
        if left >= child.sums.leaves {
            return None;
        }
        let mut before = 0;
        loop {
            let inner = match &child.node {
                Node::Leaf(leaf) => return Some((before, leaf.is_compressed())),
                Node::Inner(inner) => inner,
            };
            child = inner.children.iter().find(|child| {
                let found = left < child.sums.leaves;
                if !found {
                    left -= child.sums.leaves;
                    before += child.sums.count;
                }
                found
            })?;
        }
    }
}

#[cfg(test)]
impl Tree {
    /// Checks every node; returns the number of levels.
    pub(super) fn check(&self) -> usize {
        self.top.as_ref().map_or(0, Child::check)
    }
}

#[cfg(test)]
impl Child {
    fn check(&self) -> usize {
        let mut sums = self.clone();
        sums.add_up();
        assert_eq!(sums.sums, self.sums);
        assert!(self.sums.count > 0);
        let Node::Inner(inner) = &self.node else { return 1 };
        assert!((1..=FANOUT).contains(&inner.children.len()));
        assert!(inner.children.capacity() <= CAPACITY);
        let depths: Vec<usize> = inner.children.iter().map(Child::check).collect();
        assert!(depths.iter().all(|depth| *depth == depths[0]));
        1 + depths[0]
    }
}

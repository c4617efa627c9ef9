//! The tree between a list's first and last leaf.
//!
//! Inner nodes hold up to [`FANOUT`] children with what each amounts to, so that an index finds its leaf. A node
//! belongs to its parent; whether it may be written is a property of the path from the root: each node of the path is
//! asked on the way down, and copied where it has a second owner.
//!
//! Invariants: (1) all leaves are at the same depth; (2) no child is empty; (3) nothing that is taken out of the tree
//! is dropped here: it goes to the context.

use std::mem::{replace, take};

use triomphe::Arc;

use super::ListContext;
use super::chunk::End;
use super::leaf::{Leaf, Sums};

/// Children of an inner node at most. A write after a share copies so many for each level.
const FANOUT: usize = 32;
/// An inner node with fewer children is joined with a neighbour.
const SPARSE: usize = FANOUT / 4;

/// A tree of leaves; `None` without any.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    top: Option<Child>,
}

/// A node and what its leaves amount to.
#[derive(Clone, Debug)]
pub(super) struct Child {
    node: Node,
    sums: Sums,
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

/// An update may add a few children before the node is split.
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
        let mut child = Child { node: Node::Inner(Arc::new(Inner { children: all })), sums: Sums::default() };
        child.add_up();
        child
    }
}

/// Bytes of an inner node.
const INNER_BYTES: usize = 8 + size_of::<Inner>() + CAPACITY * size_of::<Child>();

/// Changes a leaf; the leaves that follow it now.
pub(super) type Edit<'a> = &'a mut dyn FnMut(&mut Leaf, usize, &mut ListContext) -> Vec<Leaf>;

impl Child {
    /// A leaf as a child.
    pub(super) fn leaf(leaf: Leaf) -> Child {
        let sums = leaf.sums();
        Child { node: Node::Leaf(leaf), sums }
    }

    /// The children to write to.
    fn children(&mut self, context: &mut ListContext) -> Option<&mut Vec<Child>> {
        let Node::Inner(inner) = &mut self.node else { return None };
        if !inner.is_unique() {
            let copy = Arc::new(Inner::clone(inner));
            context.discard_child(Child { node: Node::Inner(replace(inner, copy)), sums: self.sums });
        }
        Arc::get_mut(inner).map(|inner| &mut inner.children)
    }

    fn own_bytes(&self) -> usize {
        match &self.node {
            Node::Leaf(leaf) => leaf.own_bytes(),
            Node::Inner(inner) if !inner.is_unique() => 0,
            Node::Inner(inner) => INNER_BYTES + inner.children.iter().map(Child::own_bytes).sum::<usize>(),
        }
    }

    /// Brings the sums up to date.
    fn add_up(&mut self) {
        self.sums = match &self.node {
            Node::Leaf(leaf) => leaf.sums(),
            Node::Inner(inner) => {
                let own = Sums { heap: INNER_BYTES, ..Sums::default() };
                inner.children.iter().fold(own, |sums, child| sums.plus(child.sums))
            }
        };
    }

    /// Adds a leaf at an end; the new neighbour at that end when there is no room for it.
    fn push(&mut self, end: End, leaf: Child, context: &mut ListContext) -> Option<Child> {
        let Some(children) = self.children(context) else { return Some(leaf) };
        let nearest = match end {
            End::Front => children.first_mut(),
            End::Back => children.last_mut(),
        };
        let over = match nearest {
            Some(child) => child.push(end, leaf, context),
            None => Some(leaf),
        };
        let Some(over) = over else {
            self.add_up();
            return None;
        };
        if children.len() >= FANOUT {
            return Some(Inner::of([over]));
        }
        let at = if end == End::Front { 0 } else { children.len() };
        children.insert(at, over);
        self.add_up();
        None
    }

    /// Takes the leaf at an end out. The child is empty afterwards if that was the only one.
    fn pop(&mut self, end: End, context: &mut ListContext) -> Option<Leaf> {
        let children = self.children(context)?;
        let at = if end == End::Front { 0 } else { children.len().checked_sub(1)? };
        let child = children.get_mut(at)?;
        let leaf = match &child.node {
            Node::Inner(_) => {
                let leaf = child.pop(end, context);
                if child.sums.count == 0 {
                    let empty = children.remove(at);
                    context.discard_child(empty);
                }
                leaf
            }
            Node::Leaf(_) => match children.remove(at).node {
                Node::Leaf(leaf) => Some(leaf),
                Node::Inner(_) => None,
            },
        };
        self.add_up();
        leaf
    }

    /// Takes whole leaves out at an end as long as they have at most `count` elements together; how many elements
    /// are left to remove, fewer than the leaf at that end has.
    fn cut(&mut self, end: End, mut count: usize, context: &mut ListContext) -> usize {
        let Node::Inner(inner) = &mut self.node else { return count };
        let len = inner.children.len();
        let mut whole = 0;
        while whole < len {
            let next = &inner.children[if end == End::Front { whole } else { len - 1 - whole }];
            if next.sums.count > count {
                break;
            }
            count -= next.sums.count;
            whole += 1;
        }
        let (cut, kept) = match end {
            End::Front => (0..whole, whole..len),
            End::Back => (len - whole..len, 0..len - whole),
        };
        if !inner.is_unique() {
            // A copy of what is kept alone: each child that is copied costs a cache miss for its count of owners.
            let copy = Arc::new(Inner::copy_of(&inner.children[kept]));
            context.discard_child(Child { node: Node::Inner(replace(inner, copy)), sums: self.sums });
        } else if whole > 0
            && let Some(inner) = Arc::get_mut(inner)
        {
            // One node for all of them, so that the caller's list of discarded parts grows by one for each level.
            context.discard_child(Inner::of(inner.children.drain(cut)));
        }
        let Some(children) = Arc::get_mut(inner).map(|inner| &mut inner.children) else { return count };
        if count > 0 {
            let nearest = if end == End::Front { children.first_mut() } else { children.last_mut() };
            if let Some(child) = nearest {
                count = child.cut(end, count, context);
            }
        }
        self.add_up();
        count
    }

    /// Lets `edit` change the leaf of an element; neighbours of this child that came into being.
    fn update(&mut self, index: usize, context: &mut ListContext, edit: Edit<'_>) -> Vec<Child> {
        if let Node::Leaf(leaf) = &mut self.node {
            let was_compressed = leaf.is_compressed();
            let mut after = edit(leaf, index, context);
            if was_compressed {
                leaf.compress(context);
                after.iter_mut().for_each(|leaf| leaf.compress(context));
            }
            self.add_up();
            return after.into_iter().map(Child::leaf).collect();
        }
        let Some(children) = self.children(context) else { return Vec::new() };
        let Some((at, before)) = place(children, index) else { return Vec::new() };
        let after = children[at].update(index - before, context, edit);
        children.splice(at + 1..at + 1, after);
        if children[at].sums.count == 0 {
            let empty = children.remove(at);
            context.discard_child(empty);
        }
        join(children, at, context);
        let right = split(children);
        self.add_up();
        right
    }
}

/// Leaves a node as many children as it may have; nodes with the others, about the same number each. An edit under a
/// setting that was lowered makes thousands of leaves of one.
fn split(children: &mut Vec<Child>) -> Vec<Child> {
    let parts = children.len().div_ceil(FANOUT).max(1);
    let each = children.len().div_ceil(parts);
    let mut right = Vec::new();
    while children.len() > each {
        let last = (children.len() - 1) / each * each;
        right.push(Inner::of(children.drain(last..)));
    }
    right.reverse();
    // The bytes of a node are reckoned with this capacity.
    children.shrink_to(CAPACITY);
    right
}

/// The child that holds the element at `index`, and how many elements are in front of it.
fn place(children: &[Child], index: usize) -> Option<(usize, usize)> {
    let mut before = 0;
    for (at, child) in children.iter().enumerate() {
        if index < before + child.sums.count {
            return Some((at, before));
        }
        before += child.sums.count;
    }
    None
}

/// Joins the child at a place with a neighbour, where one of them is sparse.
fn join(children: &mut Vec<Child>, at: usize, context: &mut ListContext) {
    for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        if left + 1 >= children.len() {
            continue;
        }
        let (head, tail) = children.split_at_mut(left + 1);
        let (Some(one), Some(other)) = (head.last_mut(), tail.first()) else { continue };
        let joined = match (&mut one.node, &other.node) {
            (Node::Leaf(leaf), Node::Leaf(next)) => leaf.join(next, context),
            (Node::Inner(inner), Node::Inner(next)) => {
                let (one, other) = (inner.children.len(), next.children.len());
                one.min(other) < SPARSE && one + other <= FANOUT / 4 * 3
            }
            (Node::Leaf(_), Node::Inner(_)) | (Node::Inner(_), Node::Leaf(_)) => false,
        };
        if joined {
            let mut gone = children.remove(left + 1);
            let moved = gone.children(context).map(take).unwrap_or_default();
            if let Some(children) = children[left].children(context) {
                children.extend(moved);
            }
            children[left].add_up();
            gone.add_up();
            context.discard_child(gone);
            return;
        }
    }
}

impl Tree {
    /// The tree under a child: a part that was taken out.
    pub(super) fn of(top: Child) -> Tree {
        Tree { top: Some(top) }
    }

    /// Whether the top has another owner.
    pub(super) fn is_shared(&self) -> bool {
        match self.top.as_ref().map(|top| &top.node) {
            Some(Node::Leaf(leaf)) => leaf.is_shared(),
            Some(Node::Inner(inner)) => !inner.is_unique(),
            None => false,
        }
    }

    /// Bytes of the top alone.
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

    /// What the leaves amount to.
    #[inline]
    pub(super) fn sums(&self) -> Sums {
        self.top.as_ref().map_or(Sums::default(), |top| top.sums)
    }

    /// The leaf of an element, and the element's index in it. Cost: O(log n).
    pub(super) fn find(&self, mut index: usize) -> Option<(&Leaf, usize)> {
        let mut child = self.top.as_ref()?;
        loop {
            match &child.node {
                Node::Leaf(leaf) => return Some((leaf, index)),
                Node::Inner(inner) => {
                    let (at, before) = place(&inner.children, index)?;
                    index -= before;
                    child = &inner.children[at];
                }
            }
        }
    }

    /// Adds a leaf at an end. Cost: O(log n).
    pub(super) fn push(&mut self, end: End, leaf: Leaf, context: &mut ListContext) {
        let leaf = Child::leaf(leaf);
        let Some(mut top) = self.top.take() else {
            self.top = Some(leaf);
            return;
        };
        if let Some(over) = top.push(end, leaf, context) {
            top = Inner::of(if end == End::Front { [over, top] } else { [top, over] });
        }
        self.top = Some(top);
    }

    /// Takes the leaf at an end out. Cost: O(log n).
    pub(super) fn pop(&mut self, end: End, context: &mut ListContext) -> Option<Leaf> {
        let top = self.top.as_mut()?;
        let leaf = match &top.node {
            Node::Inner(_) => top.pop(end, context),
            Node::Leaf(_) => match self.top.take()?.node {
                Node::Leaf(leaf) => Some(leaf),
                Node::Inner(_) => None,
            },
        };
        self.settle(context);
        leaf
    }

    /// Takes whole leaves out at an end; how many elements are left to remove, fewer than the leaf at that end has.
    pub(super) fn cut(&mut self, end: End, count: usize, context: &mut ListContext) -> usize {
        let Some(top) = &mut self.top else { return count };
        if top.sums.count <= count {
            let left = count - top.sums.count;
            if let Some(top) = self.top.take() {
                context.discard_child(top);
            }
            return left;
        }
        let left = top.cut(end, count, context);
        self.settle(context);
        left
    }

    /// Lets `edit` change the leaf of an element. Cost: O(log n), and what `edit` costs.
    pub(super) fn update(&mut self, index: usize, context: &mut ListContext, edit: Edit<'_>) {
        let Some(mut top) = self.top.take() else { return };
        let mut after = top.update(index, context, edit);
        while !after.is_empty() {
            let mut level: Vec<Child> = std::iter::once(top).chain(after).collect();
            after = split(&mut level);
            top = Inner::of(level);
        }
        self.top = Some(top);
        self.settle(context);
    }

    /// Takes off what stands on top of a single child, or of nothing.
    fn settle(&mut self, context: &mut ListContext) {
        while let Some(mut top) = self.top.take() {
            if top.sums.count == 0 {
                return context.discard_child(top);
            }
            let single = matches!(&top.node, Node::Inner(inner) if inner.children.len() == 1);
            if !single {
                self.top = Some(top);
                return;
            }
            self.top = top.children(context).and_then(Vec::pop);
            top.add_up();
            context.discard_child(top);
        }
    }

    /// The leaf that has `skip` leaves between it and an end: the index of its first element, and whether it is
    /// compressed. Cost: O(log n).
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
    /// Checks every node; how many levels there are.
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

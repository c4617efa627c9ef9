//! Changes of the tree. Removed parts go to the garbage of the context.

use std::mem::{replace, take};

use triomphe::Arc;

use super::{CAPACITY, Child, FANOUT, Inner, Node, SPARSE, Tree, child_at};
use crate::list::chunk::End;
use crate::list::leaf::Leaf;
use crate::list::{LeafEdit, ListContext};

impl Child {
    /// The node's children for writing; a shared node is copied first.
    fn children(&mut self, context: &mut ListContext) -> Option<&mut Vec<Child>> {
        let Node::Inner(inner) = &mut self.node else { return None };
        if !inner.is_unique() {
            let copy = Arc::new(Inner::clone(inner));
            context.discard_child(Child { node: Node::Inner(replace(inner, copy)), sums: self.sums });
        }
        Arc::get_mut(inner).map(|inner| &mut inner.children)
    }

    /// Adds a leaf at an end. If this node has no room, returns a new child that the caller must put beside
    /// this one at that end.
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

    /// Removes the leaf at an end. The child is empty afterwards if that was the only leaf.
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

    /// Removes whole leaves at an end as long as they have at most `count` elements together. Returns
    /// the number of elements still to be removed, which is less than the leaf at that end has.
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
            // Only the kept children are copied, because each copy costs a cache miss for the child's count
            // of owners.
            let copy = Arc::new(Inner::copy_of(&inner.children[kept]));
            context.discard_child(Child { node: Node::Inner(replace(inner, copy)), sums: self.sums });
        } else if whole > 0
            && let Some(inner) = Arc::get_mut(inner)
        {
            // All removed children go into one node, so that the garbage grows by one part for each level.
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

    /// Applies `edit` to the leaf of the element at `index`. Returns the new nodes that follow this child.
    fn update(&mut self, index: usize, context: &mut ListContext, edit: LeafEdit<'_>) -> Vec<Child> {
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
        let Some((at, before)) = child_at(children, index) else { return Vec::new() };
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

/// Reduces `children` to the allowed number and returns the others in nodes of similar size. There may be
/// thousands of others, because an edit after a threshold was lowered divides one leaf into many.
fn split(children: &mut Vec<Child>) -> Vec<Child> {
    let parts = children.len().div_ceil(FANOUT).max(1);
    let each = children.len().div_ceil(parts);
    let mut right = Vec::new();
    while children.len() > each {
        let last = (children.len() - 1) / each * each;
        right.push(Inner::of(children.drain(last..)));
    }
    right.reverse();
    // The capacity is set back, because `INNER_BYTES` assumes it.
    children.shrink_to(CAPACITY);
    right
}

/// Joins the child at `at` with a neighbour if one of the two is sparse.
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
    /// Adds a leaf at an end. Cost: O(log n).
    pub(in crate::list) fn push(&mut self, end: End, leaf: Leaf, context: &mut ListContext) {
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

    /// Removes the leaf at an end. Cost: O(log n).
    pub(in crate::list) fn pop(&mut self, end: End, context: &mut ListContext) -> Option<Leaf> {
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

    /// Removes whole leaves at an end. Returns the number of elements still to be removed, which is less
    /// than the leaf at that end has.
    pub(in crate::list) fn cut(&mut self, end: End, count: usize, context: &mut ListContext) -> usize {
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

    /// Applies `edit` to the leaf of the element at `index`. Cost: O(log n), and the cost of `edit`.
    pub(in crate::list) fn update(&mut self, index: usize, context: &mut ListContext, edit: LeafEdit<'_>) {
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

    /// Removes top nodes with a single child, and an empty top.
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
}

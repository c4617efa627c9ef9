//! Iteration over all fields of a tree.

use super::field::Field;
use super::leaf::HashLeaf;
use super::node::{HashChild, HashNode};

/// Iterator over the fields, leaf by leaf, from the first field or from a later one.
#[derive(Clone, Debug)]
pub struct HashTreeIter<'a> {
    /// The unvisited children of each node on the path to the leaf.
    path: Vec<std::slice::Iter<'a, HashChild>>,
    leaf: Option<(&'a HashLeaf, usize)>,
}

impl<'a> HashTreeIter<'a> {
    pub(super) fn new(root: &'a HashNode) -> HashTreeIter<'a> {
        let mut iter = HashTreeIter { path: Vec::new(), leaf: None };
        iter.descend(root);
        iter
    }

    /// The elements from index `rank` on. Cost: O(log n).
    pub(super) fn from_rank(root: &'a HashNode, rank: usize) -> HashTreeIter<'a> {
        let mut iter = HashTreeIter { path: Vec::new(), leaf: None };
        let (mut node, mut rank) = (root, rank);
        loop {
            match node {
                HashNode::Leaf(leaf) => {
                    iter.leaf = Some((leaf, rank));
                    return iter;
                }
                HashNode::Inner(inner) => {
                    let mut children = inner.children().iter();
                    let below = children.find(|child| {
                        let is_below = rank < child.sums.count;
                        rank -= if is_below { 0 } else { child.sums.count };
                        is_below
                    });
                    let Some(below) = below else { return iter };
                    iter.path.push(children);
                    node = &below.node;
                }
            }
        }
    }

    fn descend(&mut self, mut node: &'a HashNode) {
        loop {
            match node {
                HashNode::Leaf(leaf) => {
                    self.leaf = Some((leaf, 0));
                    return;
                }
                HashNode::Inner(inner) => {
                    let mut children = inner.children().iter();
                    let Some(first) = children.next() else { return };
                    self.path.push(children);
                    node = &first.node;
                }
            }
        }
    }
}

impl<'a> Iterator for HashTreeIter<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        loop {
            if let Some((leaf, slot)) = &mut self.leaf
                && *slot < leaf.len()
            {
                *slot += 1;
                return Some(leaf.get(*slot - 1));
            }
            match self.path.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => {
                    self.path.pop();
                }
            }
        }
    }
}

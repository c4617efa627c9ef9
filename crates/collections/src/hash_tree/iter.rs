//! The walk over all fields of a tree.

use super::Field;
use super::leaf::Leaf;
use super::node::{Child, Node};

/// All fields, leaf by leaf.
#[derive(Clone, Debug)]
pub struct HashTreeIter<'a> {
    /// The children not yet visited of each node on the way down.
    path: Vec<std::slice::Iter<'a, Child>>,
    leaf: Option<(&'a Leaf, usize)>,
}

impl<'a> HashTreeIter<'a> {
    pub(super) fn new(root: &'a Node) -> HashTreeIter<'a> {
        let mut iter = HashTreeIter { path: Vec::new(), leaf: None };
        iter.descend(root);
        iter
    }

    fn descend(&mut self, mut node: &'a Node) {
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = Some((leaf, 0));
                    return;
                }
                Node::Inner(inner) => {
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

//! A radix tree of names, which finds all names that a key begins with.
//!
//! A node represents the bytes on the path from the root. Its label, the part after its parent's bytes, is a
//! slice of some name that ends at this node or below it, so no bytes are copied. Adding, removing and
//! finding cost O(length of the name or key), however many names there are, and however many begin alike.
//!
//! Invariants: (1) the labels of two children of a node differ in their first byte, and none is empty; (2) a
//! node other than the root is the end of a name, or has at least two children; (3) the root is node 0 and
//! represents the empty name; (4) a label is a slice of a present name, so no name is kept in memory after
//! its removal.

use sluice_base::heap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A radix tree that maps names to numbers.
#[derive(Debug, Default)]
pub(super) struct NameTree {
    nodes: Vec<NameNode>,
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug, Default)]
struct NameNode {
    /// A name that begins with the bytes that the node represents.
    name: Arc<[u8]>,
    /// Start of the label in `name`.
    start: usize,
    /// End of the label in `name`: the number of bytes that the node represents.
    end: usize,
    /// Indexes of child nodes, by the first byte of their labels.
    children: BTreeMap<u8, u32>,
    /// The value of the name that ends at this node.
    value: Option<u32>,
}

impl NameNode {
    fn label(&self) -> &[u8] {
        &self.name[self.start..self.end]
    }
}

impl NameTree {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of heap memory of the tree, without the names. O(names).
    pub(super) fn footprint(&self) -> usize {
        let node = |node: &NameNode| heap::tree::<u8, u32>(node.children.len());
        heap::vec(&self.nodes) + heap::vec(&self.free) + self.nodes.iter().map(node).sum::<usize>()
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &[u8]) -> Option<u32> {
        let mut node = self.nodes.first()?;
        let mut rest = name;
        while let Some(first) = rest.first() {
            node = &self.nodes[*node.children.get(first)? as usize];
            rest = rest.strip_prefix(node.label())?;
        }
        node.value
    }

    /// Passes the value of each name that `key` begins with to `take`, shortest name first;
    /// `key` itself counts.
    pub(super) fn for_each_prefix(&self, key: &[u8], mut take: impl FnMut(u32)) {
        let Some(mut node) = self.nodes.first() else { return };
        let mut rest = key;
        loop {
            node.value.into_iter().for_each(&mut take);
            let Some(child) = rest.first().and_then(|first| node.children.get(first)) else { return };
            node = &self.nodes[*child as usize];
            let Some(behind) = rest.strip_prefix(node.label()) else { return };
            rest = behind;
        }
    }

    /// Adds a name that is not in the tree.
    pub(super) fn insert(&mut self, name: &Arc<[u8]>, value: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(NameNode::default());
        }
        let (mut at, mut depth) = (0, 0);
        while let Some(&first) = name.get(depth) {
            let Some(&child) = self.nodes[at as usize].children.get(&first) else {
                // No child begins with this byte, so the name becomes a new leaf.
                let leaf = self.node(NameNode { start: depth, end: name.len(), ..NameNode::default() });
                self.nodes[at as usize].children.insert(first, leaf);
                at = leaf;
                break;
            };
            let label = self.nodes[child as usize].label();
            let common = label.iter().zip(&name[depth..]).take_while(|(one, other)| one == other).count();
            at = if common == label.len() { child } else { self.split(at, child, common) };
            depth += common;
        }
        let node = &mut self.nodes[at as usize];
        debug_assert!(node.value.is_none());
        node.value = Some(value);
        node.name = Arc::clone(name);
        self.len += 1;
    }

    /// Removes a name and returns its value.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<u32> {
        let mut path = Vec::new();
        let (mut at, mut rest) = (0, name);
        while let Some(first) = rest.first() {
            path.push(at);
            at = *self.nodes.get(at as usize)?.children.get(first)?;
            rest = rest.strip_prefix(self.nodes[at as usize].label())?;
        }
        let node = self.nodes.get_mut(at as usize)?;
        let value = node.value.take()?;
        self.len -= 1;
        if self.len == 0 {
            // No name is left, so all memory is freed.
            *self = NameTree::default();
            return Some(value);
        }
        let removed = Arc::clone(&node.name);
        if node.children.is_empty()
            && let Some(&first) = node.label().first()
            && let Some(parent) = path.last()
        {
            self.nodes[at as usize] = NameNode::default();
            self.free.push(at);
            self.nodes[*parent as usize].children.remove(&first);
        } else {
            path.push(at);
        }
        if let Some(last) = path.last() {
            self.join(*last);
        }
        // The nodes are updated bottom-up, so that a name taken from a child has already been replaced.
        for at in path.iter().rev() {
            let node = &self.nodes[*at as usize];
            if Arc::ptr_eq(&node.name, &removed)
                && let Some(child) = node.children.values().next()
            {
                let name = Arc::clone(&self.nodes[*child as usize].name);
                self.nodes[*at as usize].name = name;
            }
        }
        Some(value)
    }

    fn node(&mut self, node: NameNode) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Inserts a node between a child and its parent, after the first `common` bytes of the child's label.
    fn split(&mut self, parent: u32, child: u32, common: usize) -> u32 {
        let below = &mut self.nodes[child as usize];
        let (start, end) = (below.start, below.start + common);
        below.start = end;
        let name = Arc::clone(&below.name);
        let (first, behind) = (name[start], name[end]);
        let children = BTreeMap::from([(behind, child)]);
        let middle = self.node(NameNode { name, start, end, children, value: None });
        self.nodes[parent as usize].children.insert(first, middle);
        middle
    }

    /// Joins a node with its only child, if no name ends at the node and it is not the root.
    fn join(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        if at == 0 || node.value.is_some() || node.children.len() != 1 {
            return;
        }
        let (start, Some(&child)) = (node.start, node.children.values().next()) else { return };
        let below = std::mem::take(&mut self.nodes[child as usize]);
        self.free.push(child);
        self.nodes[at as usize] = NameNode { start, ..below };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    fn check(tree: &NameTree) {
        let mut reachable = 0;
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            reachable += 1;
            let node = &tree.nodes[at as usize];
            assert!(at == 0 || node.value.is_some() || node.children.len() > 1);
            assert!(at == 0 || tree.get(&node.name).is_some(), "a removed name is kept");
            for (first, child) in &node.children {
                assert_eq!(tree.nodes[*child as usize].label().first(), Some(first));
                open.push(*child);
            }
        }
        assert_eq!(reachable + tree.free.len(), tree.nodes.len());
    }

    #[test]
    fn it_finds_what_comparing_every_name_finds() {
        let mut rng = Rng::new(4);
        let mut tree = NameTree::default();
        let mut names: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut found_in_all = 0;
        for number in 0..30_000 {
            let name: Vec<u8> = (0..rng.below(7)).map(|_| b'a' + rng.below(2) as u8).collect();
            assert_eq!(tree.get(&name), names.get(&name).copied());
            match rng.below(3) {
                0 if !names.contains_key(&name) => {
                    tree.insert(&name.as_slice().into(), number);
                    names.insert(name, number);
                }
                1 => assert_eq!(tree.remove(&name), names.remove(&name)),
                _ => {
                    let mut found = Vec::new();
                    tree.for_each_prefix(&name, |value| found.push(value));
                    let expected = names.iter().filter(|(prefix, _)| name.starts_with(prefix));
                    assert_eq!(found, expected.map(|(_, value)| *value).collect::<Vec<_>>());
                    found_in_all += found.len();
                }
            }
            assert_eq!(tree.len(), names.len());
            match names.is_empty() {
                true => assert_eq!(tree.footprint(), 0),
                false => check(&tree),
            }
        }
        assert!(found_in_all > 10_000, "{found_in_all}");
    }
}

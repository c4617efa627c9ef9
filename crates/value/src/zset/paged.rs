//! A paged array: items by number, shared in O(1). A writer copies the path to an item.
//!
//! A tree of arrays with [`FANOUT`] slots. Invariants: (1) all items are at the depth `height`; (2) an array
//! with a second owner is never written; a copy takes its place, and the old array goes to the garbage.

pub(super) mod edit;

use std::fmt::Debug;

use sluice_base::heap;
use sluice_collections::prefetch_items;
use triomphe::Arc;

/// Slots of an array.
pub(super) const FANOUT: usize = 32;
const BITS: u32 = FANOUT.trailing_zeros();

/// An item of a paged array.
pub(super) trait Shelved: Clone + Debug {
    /// Bytes allocated for an item without another owner; 0 for a shared item.
    fn own_bytes(&self) -> usize;
}

/// An array of items by number, stored in nodes that several owners can share.
#[derive(Clone, Debug)]
pub(super) struct PagedArray<T> {
    top: Option<ShelfNode<T>>,
    height: u32,
}

/// A node: an array of items, or of lower nodes.
#[derive(Clone, Debug)]
pub(super) enum ShelfNode<T> {
    Items(Arc<[Option<T>; FANOUT]>),
    Nodes(Arc<[Option<ShelfNode<T>>; FANOUT]>),
}

impl<T: Shelved> Default for PagedArray<T> {
    fn default() -> PagedArray<T> {
        PagedArray { top: None, height: 0 }
    }
}

impl<T: Shelved> ShelfNode<T> {
    /// Bytes of one node.
    pub(super) fn top_bytes(&self) -> usize {
        match self {
            ShelfNode::Items(_) => heap::block(8 + size_of::<[Option<T>; FANOUT]>()),
            ShelfNode::Nodes(_) => heap::block(8 + size_of::<[Option<ShelfNode<T>>; FANOUT]>()),
        }
    }

    /// Bytes allocated without another owner.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            ShelfNode::Items(items) if items.is_unique() => {
                self.top_bytes() + items.iter().flatten().map(T::own_bytes).sum::<usize>()
            }
            ShelfNode::Nodes(nodes) if nodes.is_unique() => {
                self.top_bytes() + nodes.iter().flatten().map(ShelfNode::own_bytes).sum::<usize>()
            }
            ShelfNode::Items(_) | ShelfNode::Nodes(_) => 0,
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        match self {
            ShelfNode::Items(items) => !items.is_unique(),
            ShelfNode::Nodes(nodes) => !nodes.is_unique(),
        }
    }
}

impl<T: Shelved> PagedArray<T> {
    /// The item with this number.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        let mut node = self.top.as_ref()?;
        let mut shift = self.height * BITS;
        if number >> shift >= FANOUT {
            return None;
        }
        loop {
            let at = number >> shift & (FANOUT - 1);
            match node {
                ShelfNode::Items(items) => return items.get(at)?.as_ref(),
                ShelfNode::Nodes(nodes) => node = nodes.get(at)?.as_ref()?,
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    /// Prefetches the slot of an item, which is to be read soon.
    pub(super) fn prefetch(&self, number: usize) {
        let mut next = self.top.as_ref();
        let mut shift = self.height * BITS;
        while let Some(node) = next {
            let at = number >> shift & (FANOUT - 1);
            match node {
                ShelfNode::Items(items) => return prefetch_items(&items[at..=at]),
                ShelfNode::Nodes(nodes) => next = nodes[at].as_ref(),
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.top.as_ref().is_some_and(ShelfNode::is_shared)
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.top.as_ref().map_or(0, ShelfNode::own_bytes)
    }
}

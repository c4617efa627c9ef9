//! A shelf: items by number, which can be shared in O(1). A writer copies the path to an item.
//!
//! A tree of arrays of [`FANOUT`] places. Invariants: (1) all items are at the depth `height`; (2) an array with a second owner
//! is never written: a copy takes its place, and the array goes to the garbage.

use std::fmt::Debug;
use std::mem::replace;

use sluice_base::heap;
use sluice_collections::prefetch_items;
use triomphe::Arc;

use super::{ZsetPart, ZsetWork};

/// Places of an array.
pub(super) const FANOUT: usize = 32;
const BITS: u32 = FANOUT.trailing_zeros();

/// What stands on a shelf.
pub(super) trait Shelved: Clone + Debug {
    /// A part that is to be dropped elsewhere.
    fn part(node: ShelfNode<Self>) -> ZsetPart;
    /// Bytes allocated of one item that has no other owner; 0 of one that has.
    fn own_bytes(&self) -> usize;
}

/// Items by number.
#[derive(Clone, Debug)]
pub(super) struct Shelf<T> {
    top: Option<ShelfNode<T>>,
    height: u32,
}

/// An array of items, or of arrays.
#[derive(Clone, Debug)]
pub(super) enum ShelfNode<T> {
    Items(Arc<[Option<T>; FANOUT]>),
    Nodes(Arc<[Option<ShelfNode<T>>; FANOUT]>),
}

impl<T: Shelved> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf { top: None, height: 0 }
    }
}

impl<T: Shelved> ShelfNode<T> {
    /// Bytes of one array.
    pub(super) fn top_bytes(&self) -> usize {
        match self {
            ShelfNode::Items(_) => heap::block(8 + size_of::<[Option<T>; FANOUT]>()),
            ShelfNode::Nodes(_) => heap::block(8 + size_of::<[Option<ShelfNode<T>>; FANOUT]>()),
        }
    }

    /// Bytes that have no other owner.
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

    fn empty(height: u32, work: &mut ZsetWork<'_>) -> ShelfNode<T> {
        let node = match height {
            0 => ShelfNode::Items(Arc::new([const { None }; FANOUT])),
            _ => ShelfNode::Nodes(Arc::new([const { None }; FANOUT])),
        };
        work.heap += node.top_bytes();
        node
    }

    /// Makes sure that the array has no second owner.
    fn unshare(&mut self, work: &mut ZsetWork<'_>) {
        if self.is_shared() {
            let copy = match self {
                ShelfNode::Items(items) => ShelfNode::Items(Arc::new((**items).clone())),
                ShelfNode::Nodes(nodes) => ShelfNode::Nodes(Arc::new((**nodes).clone())),
            };
            work.garbage.push(T::part(replace(self, copy)));
        }
    }

    /// The place of an item, where arrays may have to come into being. `height` is this array's.
    fn place(&mut self, number: usize, height: u32, work: &mut ZsetWork<'_>) -> Option<&mut Option<T>> {
        self.unshare(work);
        let at = number >> (height * BITS) & (FANOUT - 1);
        match self {
            ShelfNode::Items(items) => Arc::get_mut(items)?.get_mut(at),
            ShelfNode::Nodes(nodes) => {
                let slot = Arc::get_mut(nodes)?.get_mut(at)?;
                slot.get_or_insert_with(|| ShelfNode::empty(height - 1, work)).place(number, height - 1, work)
            }
        }
    }
}

impl<T: Shelved> Shelf<T> {
    /// The item of a number.
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

    /// Asks the processor for the place of an item, which is to be read soon.
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

    /// The place of an item, to be written: the path to it has no second owner afterwards. Cost: O(log n).
    pub(super) fn place(&mut self, number: usize, work: &mut ZsetWork<'_>) -> Option<&mut Option<T>> {
        let mut top = match self.top.take() {
            Some(top) => top,
            None => ShelfNode::empty(self.height, work),
        };
        while number >> (self.height * BITS) >= FANOUT {
            self.height += 1;
            let below = replace(&mut top, ShelfNode::empty(self.height, work));
            if let ShelfNode::Nodes(nodes) = &mut top
                && let Some(nodes) = Arc::get_mut(nodes)
            {
                nodes[0] = Some(below);
            }
        }
        let height = self.height;
        self.top.insert(top).place(number, height, work)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.top.as_ref().is_some_and(ShelfNode::is_shared)
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.top.as_ref().map_or(0, ShelfNode::own_bytes)
    }
}

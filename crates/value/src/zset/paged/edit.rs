//! Changes of a paged array. An array with a second owner is replaced by a copy, and goes to the garbage.

use std::mem::replace;

use triomphe::Arc;

use super::{BITS, FANOUT, PagedArray, ShelfNode, Shelved};
use crate::zset::part::{ZsetPart, ZsetWork};

/// An item of a paged array that can be changed.
pub(in crate::zset) trait Replaced: Shelved {
    /// A replaced node as garbage, to be freed on another thread.
    fn part(node: ShelfNode<Self>) -> ZsetPart;
}

impl<T: Replaced> ShelfNode<T> {
    fn empty(height: u32, work: &mut ZsetWork<'_>) -> ShelfNode<T> {
        let node = match height {
            0 => ShelfNode::Items(Arc::new([const { None }; FANOUT])),
            _ => ShelfNode::Nodes(Arc::new([const { None }; FANOUT])),
        };
        work.heap += node.top_bytes();
        node
    }

    /// Makes the caller the only owner of the array, by a copy if necessary.
    fn unshare(&mut self, work: &mut ZsetWork<'_>) {
        if self.is_shared() {
            let copy = match self {
                ShelfNode::Items(items) => ShelfNode::Items(Arc::new((**items).clone())),
                ShelfNode::Nodes(nodes) => ShelfNode::Nodes(Arc::new((**nodes).clone())),
            };
            work.garbage.push(T::part(replace(self, copy)));
        }
    }

    /// The slot of an item, for writing; missing arrays are created. `height` is that of this array.
    fn slot_mut(&mut self, number: usize, height: u32, work: &mut ZsetWork<'_>) -> Option<&mut Option<T>> {
        self.unshare(work);
        let at = number >> (height * BITS) & (FANOUT - 1);
        match self {
            ShelfNode::Items(items) => Arc::get_mut(items)?.get_mut(at),
            ShelfNode::Nodes(nodes) => {
                let slot = Arc::get_mut(nodes)?.get_mut(at)?;
                slot.get_or_insert_with(|| ShelfNode::empty(height - 1, work)).slot_mut(
                    number,
                    height - 1,
                    work,
                )
            }
        }
    }
}

impl<T: Replaced> PagedArray<T> {
    /// The slot of an item, for writing. Afterwards no array on the path has a second owner. Cost: O(log n).
    pub(in crate::zset) fn slot_mut(
        &mut self,
        number: usize,
        work: &mut ZsetWork<'_>,
    ) -> Option<&mut Option<T>> {
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
        self.top.insert(top).slot_mut(number, height, work)
    }
}

//! Cutting off long ranges, and clearing the parts cut off.
//!
//! A cut removes the subtrees of a range from the tree. Their leaves stay in the paged array and in the index
//! until they are cleared, a few by every change and the rest by compaction. Until then a leaf that the index
//! names counts only if the descent of the tree reaches it as well (`Large::is_live`).

use std::ops::Range;

use triomphe::Arc;

use super::edit::LargeParts;
use super::{INNER_BYTES, InnerNode, Large, Link, hash, own_bytes};
use crate::zset::edge::Edge;
use crate::zset::leaf::RowLeaf;
use crate::zset::part::ZsetPart;

/// Number of leaves that a cut clears at once.
const CLEARED_BY_CUT: usize = 64;

impl Large {
    /// Bytes of cut-off inner nodes without another owner.
    pub(super) fn remains_own_bytes(&self) -> usize {
        let of = |link: &Link| match link {
            Link::Inner(inner) => own_bytes(inner),
            Link::Leaf(_) => 0,
        };
        self.remains.iter().map(of).sum()
    }

    /// Whether the leaf that has this element is part of the tree, and was not cut off.
    #[inline]
    pub(super) fn is_live(&self, number: u32, score: f64, member: &[u8]) -> bool {
        self.remains.is_empty() || self.leaf_before(Edge::AfterElement(score, member)).1 == Some(number)
    }

    /// Cuts off the elements of these ranks, which must not be all elements.
    pub(super) fn cut(&mut self, ranks: Range<usize>, garbage: &mut Vec<ZsetPart>) {
        let len = ranks.len();
        let (mut parts, top, count) = self.parts(garbage);
        parts.cut(top, ranks);
        parts.lower(top);
        *count -= len;
        self.heap = parts.work.heap;
        self.clear_remains(CLEARED_BY_CUT, garbage);
    }

    /// Clears up to `leaves` cut-off leaves; returns whether there are more.
    pub(in super::super) fn clear_remains(&mut self, leaves: usize, garbage: &mut Vec<ZsetPart>) -> bool {
        let mut left = leaves;
        while left > 0
            && let Some(link) = self.remains.pop()
        {
            let (mut parts, _, _) = self.parts(garbage);
            left -= parts.clear(link);
            self.heap = parts.work.heap;
        }
        self.has_remains()
    }

    pub(in super::super) fn has_remains(&self) -> bool {
        !self.remains.is_empty()
    }
}

impl LargeParts<'_, '_> {
    /// Removes the elements of these ranks from below a node; they are some, but not all, of the node's
    /// elements.
    fn cut(&mut self, inner: &mut Arc<InnerNode>, ranks: Range<usize>) {
        let Some(children) = self.children(inner) else { return };
        let (mut behind, mut gone) = (0, 0..0);
        for (at, child) in children.iter_mut().enumerate() {
            let before = behind;
            behind += child.count;
            let part = ranks.start.max(before)..ranks.end.min(behind);
            if part.is_empty() {
                continue;
            }
            if part.len() == child.count {
                gone = if gone.is_empty() { at..at + 1 } else { gone.start..at + 1 };
                continue;
            }
            match &mut child.link {
                Link::Inner(next) => self.cut(next, part.start - before..part.end - before),
                Link::Leaf(number) => {
                    self.remove_in_leaf(*number, part.start - before, part.len());
                }
            }
            child.refresh(self.paged);
        }
        let seam = gone.start;
        self.remains.extend(children.drain(gone).map(|branch| branch.link));
        if seam < children.len() {
            self.join(children, seam);
        }
    }

    /// Clears a cut-off leaf, or takes an inner node apart; returns the number of leaves cleared.
    fn clear(&mut self, link: Link) -> usize {
        let number = match link {
            Link::Leaf(number) => number,
            Link::Inner(inner) => {
                self.remains.extend(inner.children.iter().map(|child| child.link.clone()));
                self.work.heap -= INNER_BYTES;
                if !inner.is_unique() {
                    self.work.garbage.push(ZsetPart::Inner(inner));
                }
                return 0;
            }
        };
        let leaf = self.paged.get(number as usize);
        for entry in leaf.into_iter().flat_map(RowLeaf::iter) {
            self.index.remove(hash(self.seed, entry.member), (number, 0), &mut self.work);
        }
        self.drop_leaf(number);
        1
    }
}

#[cfg(test)]
pub(super) fn leaves_below(link: &Link, found: &mut Vec<u32>) {
    match link {
        Link::Leaf(number) => found.push(*number),
        Link::Inner(inner) => inner.children.iter().for_each(|child| leaves_below(&child.link, found)),
    }
}

//! Changes of a leaf. Replaced leaves go to the garbage.

use std::mem::replace;
use std::ops::Range;

use triomphe::Arc;

use super::{LeafSpan, RowLeaf};
use crate::zset::marks::RowMarks;
use crate::zset::paged::ShelfNode;
use crate::zset::paged::edit::Replaced;
use crate::zset::part::ZsetPart;
use crate::zset::row;

impl RowLeaf {
    /// Replaces this leaf by another one.
    pub(in crate::zset) fn replace(&mut self, new: RowLeaf, garbage: &mut Vec<ZsetPart>) {
        replace(self, new).discard(garbage);
    }

    /// Frees the leaf if that is little work and nothing is shared; otherwise puts it into the garbage.
    pub(in crate::zset) fn discard(self, garbage: &mut Vec<ZsetPart>) {
        if self.is_shared() || self.heap_bytes() > FREED_HERE_MAX {
            garbage.push(ZsetPart::Leaf(self));
        }
    }

    /// Inserts an element at an offset of the row, between two elements.
    #[inline]
    pub(in crate::zset) fn insert(
        &mut self,
        at: usize,
        member: &[u8],
        score: f64,
        garbage: &mut Vec<ZsetPart>,
    ) {
        let need = row::entry_len(member, score);
        let count = self.count() + 1;
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            let LeafSpan { start, end, .. } = inner.header.span;
            let (start, end) = (start as usize, end as usize);
            if inner.slice.len() - (end - start) >= need {
                let (start, end) = make_room(&mut inner.slice, start..end, at, need);
                row::write(&mut inner.slice[start + at..start + at + need], member, score);
                inner.header.span = LeafSpan { start: start as u32, end: end as u32, count: count as u32 };
                if inner.header.marks.follow_insert(at, need, count, end - start) {
                    inner.header.marks = RowMarks::of_row(&inner.slice[start..end], count);
                }
                return;
            }
        }
        self.replace(RowLeaf::of_row(&self.with(at, member, score), count, 0), garbage);
    }

    /// Removes the `count` elements in a range of the row.
    pub(in crate::zset) fn remove(&mut self, range: Range<usize>, count: usize, garbage: &mut Vec<ZsetPart>) {
        let left = self.count() - count;
        let (len, capacity) = (self.row().len() - range.len(), self.0.slice.len());
        // A leaf that is less than half full is reallocated.
        let is_sparse = capacity > 64 && len < capacity / 2;
        if !is_sparse && let Some(inner) = Arc::get_mut(&mut self.0) {
            let span = inner.header.span;
            let (mut start, mut end) = (span.start as usize, span.end as usize);
            let cut = start + range.start..start + range.end;
            inner.header.marks.follow_removal(range, count);
            if cut.start - start <= end - cut.end {
                inner.slice.copy_within(start..cut.start, start + cut.len());
                start += cut.len();
            } else {
                inner.slice.copy_within(cut.end..end, cut.start);
                end -= cut.len();
            }
            inner.header.span = LeafSpan { start: start as u32, end: end as u32, count: left as u32 };
            return;
        }
        let old = self.row();
        let mut new = Vec::with_capacity(len);
        new.extend_from_slice(&old[..range.start]);
        new.extend_from_slice(&old[range.end..]);
        self.replace(RowLeaf::of_row(&new, left, 0), garbage);
    }
}

impl Replaced for RowLeaf {
    fn part(node: ShelfNode<RowLeaf>) -> ZsetPart {
        ZsetPart::Leaves(node)
    }
}

/// Opens a gap of `need` bytes at offset `at` of the row in `range`; returns the new range of the row.
/// `bytes` must have room.
#[inline]
fn make_room(bytes: &mut [u8], range: Range<usize>, at: usize, need: usize) -> (usize, usize) {
    let Range { start, end } = range;
    let in_front_is_shorter = at < (end - start) / 2;
    if start >= need && (in_front_is_shorter || bytes.len() - end < need) {
        bytes.copy_within(start..start + at, start - need);
        return (start - need, end);
    }
    if bytes.len() - end >= need {
        bytes.copy_within(start + at..end, start + at + need);
        return (start, end + need);
    }
    // Neither end alone has enough room, so the row moves to the front.
    bytes.copy_within(start..end, 0);
    let end = end - start;
    bytes.copy_within(at..end, at + need);
    (0, end + need)
}

/// A larger leaf is freed on another thread.
const FREED_HERE_MAX: usize = 8 << 10;

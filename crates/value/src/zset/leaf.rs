//! A leaf: a row of elements in one allocation, which may be shared.
//!
//! Invariants: (1) `start <= end <= capacity`, and the bytes between them are a row of `count` elements; (2)
//! a leaf with a second owner is never written, but replaced by a copy; (3) the marks (`marks.rs`) fit the
//! row.

mod edit;

use std::ops::Range;

use sluice_base::heap;
use sluice_collections::prefetch_items;
use triomphe::{Arc, HeaderSlice};

use super::edge::Edge;
use super::marks::RowMarks;
use super::row::{self, RowGap, RowIter};

/// A row of elements in one allocation.
#[derive(Clone, Debug)]
pub(super) struct RowLeaf(Arc<HeaderSlice<LeafHeader, [u8]>>);

#[derive(Debug)]
struct LeafHeader {
    span: LeafSpan,
    marks: RowMarks,
    _witness: Witness,
}

#[derive(Clone, Copy, Debug, Default)]
struct LeafSpan {
    start: u32,
    end: u32,
    count: u32,
}

/// Records for tests which thread freed a leaf.
#[derive(Debug)]
struct Witness;

#[cfg(test)]
thread_local! {
    /// Leaves freed by this thread.
    pub(super) static FREED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Drop for Witness {
    fn drop(&mut self) {
        FREED.set(FREED.get() + 1);
    }
}

/// Bytes of a leaf that hold no elements.
pub(super) const OVERHEAD: usize = 8 + size_of::<LeafHeader>();
/// The most bytes of the row of a leaf in a tree, unless a single element has more. Looking up a member walks
/// half of a row on average.
pub(super) const ROW_BYTES_MAX: usize = 640 - OVERHEAD;
/// Bytes of the row of a leaf that was filled in order. The leaf is not filled completely, because otherwise
/// an element inserted between two of its elements would split it and move half of its index entries, which
/// would be most of the cost of an insertion into a set that was built in order.
pub(super) const ROW_BYTES_FILLED: usize = 512 - OVERHEAD;

impl RowLeaf {
    /// A leaf with this row and room for `spare` more bytes.
    pub(super) fn of_row(row: &[u8], count: usize, spare: usize) -> RowLeaf {
        let capacity = heap::block(OVERHEAD + row.len() + spare) - OVERHEAD;
        let span = LeafSpan { start: 0, end: row.len() as u32, count: count as u32 };
        let header = LeafHeader { span, marks: RowMarks::of_row(row, count), _witness: Witness };
        let mut small = [0; ROW_BYTES_MAX];
        if let Some(bytes) = small.get_mut(..capacity) {
            bytes[..row.len()].copy_from_slice(row);
            return RowLeaf(Arc::from_header_and_slice(header, bytes));
        }
        let mut bytes = vec![0; capacity];
        bytes[..row.len()].copy_from_slice(row);
        RowLeaf(Arc::from_header_and_slice(header, &bytes))
    }

    fn span(&self) -> LeafSpan {
        self.0.header.span
    }

    #[inline]
    pub(super) fn row(&self) -> &[u8] {
        let span = self.span();
        &self.0.slice[span.start as usize..span.end as usize]
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.span().count as usize
    }

    /// Prefetches the row, which is to be read soon.
    pub(super) fn prefetch(&self) {
        prefetch_items(&self.0.slice);
    }

    pub(super) fn iter(&self) -> RowIter<'_> {
        RowIter::new(self.row())
    }

    /// The position of an edge in the row. Cost: a walk over about an eighth of the row, or over the whole
    /// row if it has no marks.
    #[inline]
    pub(super) fn gap_of(&self, edge: Edge<'_>) -> RowGap {
        let row = self.row();
        let is_before = |at: usize| {
            let entry = row.get(at..).and_then(row::read);
            entry.is_some_and(|entry| edge.is_after(entry.score, || entry.member))
        };
        row::gap_from(row, self.0.header.marks.last_before(is_before), edge)
    }

    /// Offset of the element at `index`; the row's length if there is none. Costs the same as
    /// [`RowLeaf::gap_of`].
    pub(super) fn offset_of(&self, index: usize) -> usize {
        row::offset_from(self.row(), self.0.header.marks.last_up_to(index), index)
    }

    /// Bytes allocated for the leaf.
    pub(super) fn heap_bytes(&self) -> usize {
        OVERHEAD + self.0.slice.len()
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.0.is_unique()
    }

    /// Replaces the contents by a row that fits; returns `false` and leaves the leaf unchanged if it is
    /// shared, too small, or far too large.
    pub(super) fn load(&mut self, row: &[u8], count: usize) -> bool {
        let Some(inner) = Arc::get_mut(&mut self.0) else { return false };
        if inner.slice.len() < row.len() || inner.slice.len() > SCRATCH_BYTES_MAX {
            return false;
        }
        inner.slice[..row.len()].copy_from_slice(row);
        inner.header.span = LeafSpan { start: 0, end: row.len() as u32, count: count as u32 };
        inner.header.marks = RowMarks::of_row(row, count);
        true
    }

    /// Moves the element in a range of the row to a gap, with another score of the same width, so that no
    /// length changes. Returns `false` and leaves the leaf unchanged if it is shared.
    pub(super) fn turn(&mut self, range: Range<usize>, gap: usize, (member, score): (&[u8], f64)) -> bool {
        let Some(inner) = Arc::get_mut(&mut self.0) else { return false };
        let span = inner.header.span;
        let row = &mut inner.slice[span.start as usize..span.end as usize];
        let at = if gap > range.end {
            row.copy_within(range.end..gap, range.start);
            gap - range.len()
        } else if gap < range.start {
            row.copy_within(gap..range.start, gap + range.len());
            gap
        } else {
            range.start
        };
        row::write(&mut row[at..at + range.len()], member, score);
        let (count, bytes) = (span.count as usize, row.len());
        inner.header.marks.follow_removal(range.clone(), 1);
        if inner.header.marks.follow_insert(at, range.len(), count, bytes) {
            inner.header.marks = RowMarks::of_row(row, count);
        }
        true
    }

    /// A copy of the row with an element inserted at an offset.
    pub(super) fn with(&self, at: usize, member: &[u8], score: f64) -> Vec<u8> {
        let old = self.row();
        let need = row::entry_len(member, score);
        let mut new = vec![0; old.len() + need];
        new[..at].copy_from_slice(&old[..at]);
        row::write(&mut new[at..at + need], member, score);
        new[at + need..].copy_from_slice(&old[at..]);
        new
    }
}

#[cfg(test)]
impl RowLeaf {
    pub(super) fn check(&self) {
        assert_eq!(self.iter().count(), self.count());
        assert_eq!(self.iter().map(|entry| entry.len).sum::<usize>(), self.row().len());
        self.0.header.marks.check(self.row());
    }
}

/// Maximum bytes of a leaf that is kept for the next inline set.
const SCRATCH_BYTES_MAX: usize = 4096;

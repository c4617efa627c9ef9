//! Marks in a row: the offsets of some elements, so that a search need not start at the front.
//!
//! Elements differ in their lengths, so a row has no random access. A few marks are spread over the row when
//! its leaf is made and moved along with every edit. They limit a walk to an eighth of the row, as long as
//! edits are spread evenly; a leaf whose marks have gathered at one end gets new ones.
//! Invariants: (1) each mark names the first byte of an element and its index, or the end of the row; (2)
//! marks are in order. After a removal, a mark of the first removed element names the element after the
//! removed ones; marks of further removed elements fall back to the previous mark. Rows of few elements or of
//! more than 65,535 bytes get no marks and are searched from the front.

use super::row::{self, RowGap};
use std::ops::Range;

/// Number of marks in a row.
const MARKS: usize = 7;
/// The least number of elements with which a row gets marks.
const MARKED_FROM: usize = 16;

/// Positions in a row. An unused mark names the beginning of the row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowMarks([RowMark; MARKS]);

#[derive(Clone, Copy, Debug, Default)]
struct RowMark {
    at: u16,
    index: u16,
}

impl RowMark {
    fn gap(self) -> RowGap {
        RowGap { index: usize::from(self.index), at: usize::from(self.at) }
    }
}

impl RowMarks {
    /// Evenly spaced marks. Cost: a walk over the row.
    pub(super) fn of_row(row: &[u8], count: usize) -> RowMarks {
        let mut marks = RowMarks::default();
        if count < MARKED_FROM || row.len() > usize::from(u16::MAX) {
            return marks;
        }
        let (mut at, mut index) = (0, 0);
        for (number, mark) in marks.0.iter_mut().enumerate() {
            let wanted = count * (number + 1) / (MARKS + 1);
            while index < wanted
                && let Some(end) = row::element_end(row, at)
            {
                at = end;
                index += 1;
            }
            // Both values are below 65,536, because the row is not longer.
            *mark = RowMark { at: at as u16, index: index as u16 };
        }
        marks
    }

    /// The last mark for which `is_before` is true, or the beginning of the row. `is_before` must be true for
    /// the first marks and false for all later ones.
    #[inline]
    pub(super) fn last_before(&self, is_before: impl Fn(usize) -> bool) -> RowGap {
        let before = self.0.partition_point(|mark| mark.at == 0 || is_before(usize::from(mark.at)));
        before.checked_sub(1).map_or(RowGap::default(), |last| self.0[last].gap())
    }

    /// The last mark at or before the element with this index, or the beginning of the row.
    pub(super) fn last_up_to(&self, index: usize) -> RowGap {
        let up_to = self.0.partition_point(|mark| usize::from(mark.index) <= index);
        up_to.checked_sub(1).map_or(RowGap::default(), |last| self.0[last].gap())
    }

    /// Adjusts the marks after an element of `len` bytes was inserted at `at`; returns whether new marks
    /// would be much better. The row now has `count` elements and `bytes` bytes.
    #[inline]
    pub(super) fn follow_insert(&mut self, at: usize, len: usize, count: usize, bytes: usize) -> bool {
        if bytes > usize::from(u16::MAX) {
            *self = RowMarks::default();
            return false;
        }
        let is_last = at + len == bytes;
        let (at, len) = (at as u16, len as u16);
        for mark in &mut self.0 {
            let is_after = u16::from(mark.at > at);
            mark.at += is_after * len;
            mark.index += is_after;
        }
        if count < MARKED_FROM {
            return false;
        }
        let (first, last) = (usize::from(self.0[0].index), usize::from(self.0[MARKS - 1].index));
        if is_last && count - last > count / 8 {
            // The row grows at its end, so the first mark becomes the last.
            self.0.rotate_left(1);
            self.0[MARKS - 1] = RowMark { at, index: (count - 1) as u16 };
        }
        // New marks are better if more than half of the elements lie at one end without a mark.
        first.max(count.saturating_sub(last)) > count / 2
    }

    /// Adjusts the marks after `count` elements in a range of the row were removed.
    #[inline]
    pub(super) fn follow_removal(&mut self, range: Range<usize>, count: usize) {
        let mut before = RowMark::default();
        for mark in &mut self.0 {
            let at = usize::from(mark.at);
            if at >= range.end {
                // The mark lies after the removed range.
                mark.at -= range.len() as u16;
                mark.index -= count as u16;
            } else if at > range.start {
                *mark = before;
            }
            before = *mark;
        }
    }

    /// Checks that the marks fit a row.
    #[cfg(test)]
    pub(super) fn check(&self, row: &[u8]) {
        let (mut at, mut index) = (0, 0);
        for mark in &self.0 {
            while index < usize::from(mark.index)
                && let Some(end) = row::element_end(row, at)
            {
                at = end;
                index += 1;
            }
            assert_eq!((usize::from(mark.at), usize::from(mark.index)), (at, index));
        }
    }
}

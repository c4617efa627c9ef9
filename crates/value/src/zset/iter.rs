//! Reading a range of ranks.

use std::ops::Range;

use super::large::Large;
use super::row::{self, RowIter};

/// The elements of a range of ranks, in sequence: member and score.
#[derive(Debug)]
pub struct ZsetIter<'a> {
    source: RowSource<'a>,
    /// Ranks that were not read yet.
    ranks: Range<usize>,
    direction: Direction,
    /// The present row; when reading forwards, only its unread part.
    row: &'a [u8],
    /// Offsets of the row's unread elements, when reading backwards.
    offsets: Vec<u32>,
}

/// The order in which the elements of a range are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest score to the highest.
    Up,
    /// From the highest score to the lowest.
    Down,
}

/// The source of rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowSource<'a> {
    One(&'a [u8]),
    Tree(&'a Large),
}

impl<'a> RowSource<'a> {
    /// The row with the element of a rank, and the index of the element in that row.
    fn row_at(self, rank: usize) -> Option<(&'a [u8], usize)> {
        match self {
            RowSource::One(row) => Some((row, rank)),
            RowSource::Tree(large) => large.leaf_at(rank).map(|(leaf, at)| (leaf.row(), at)),
        }
    }

    /// The row from the element of a rank on.
    fn row_from(self, rank: usize) -> Option<&'a [u8]> {
        match self {
            RowSource::One(row) => row.get(row::offset_of(row, rank)..),
            RowSource::Tree(large) => {
                let (leaf, at) = large.leaf_at(rank)?;
                leaf.row().get(leaf.offset_of(at)..)
            }
        }
    }
}

impl<'a> ZsetIter<'a> {
    /// An iterator over the elements of `ranks`, which must lie within the set.
    pub(super) fn new(source: RowSource<'a>, ranks: Range<usize>, direction: Direction) -> ZsetIter<'a> {
        ZsetIter { source, ranks, direction, row: &[], offsets: Vec::new() }
    }

    fn up(&mut self) -> Option<(&'a [u8], f64)> {
        if self.row.is_empty() {
            self.row = self.source.row_from(self.ranks.start)?;
        }
        let entry = row::read(self.row)?;
        self.row = self.row.get(entry.len..)?;
        self.ranks.start += 1;
        Some((entry.member, entry.score))
    }

    fn down(&mut self) -> Option<(&'a [u8], f64)> {
        if self.offsets.is_empty() {
            let (row, at) = self.source.row_at(self.ranks.end - 1)?;
            self.row = row;
            let mut offset = 0;
            for entry in RowIter::new(row).take(at + 1) {
                self.offsets.push(offset as u32);
                offset += entry.len;
            }
        }
        let entry = row::read(self.row.get(self.offsets.pop()? as usize..)?)?;
        self.ranks.end -= 1;
        Some((entry.member, entry.score))
    }
}

impl<'a> Iterator for ZsetIter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        if self.ranks.is_empty() {
            return None;
        }
        match self.direction {
            Direction::Up => self.up(),
            Direction::Down => self.down(),
        }
    }
}

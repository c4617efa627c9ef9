//! Reading a range of elements.

use std::ops::Range;

use sluice_base::Bytes;
use sluice_collections::listpack::Element;

use super::chunk::{End, RowIter, row_offset};
use super::leaf::Leaf;
use super::{ListItem, ListRef, Root, inline_parts};

/// The elements of a range, in sequence. An element is valid until the next one is requested.
#[derive(Debug)]
pub struct ListIter<'a> {
    /// `None` for an inline list.
    root: Option<&'a Root>,
    /// Indexes of the elements that were not read yet.
    range: Range<usize>,
    /// The end of the list from which the range is read.
    from: End,
    rest: LeafRest<'a>,
    /// The decompressed row of a compressed leaf.
    scratch: Vec<u8>,
}

/// The unread elements of the present leaf.
#[derive(Debug)]
enum LeafRest<'a> {
    /// No leaf is open, so the next one has to be found.
    Nowhere,
    Row(RowIter<'a>),
    Large(&'a Bytes),
    /// Elements in these bytes of `scratch`, and the length of each element if they are uniform, else 0.
    Scratch(Range<usize>, usize),
}

impl<'a> ListRef<'a> {
    /// The elements with these indexes, in order. `range` may reach past the end. Cost to begin: O(log n).
    pub fn iter(self, range: Range<usize>) -> ListIter<'a> {
        ListIter::new(self, range, End::Front)
    }

    /// The elements with these indexes in reverse order.
    pub fn iter_rev(self, range: Range<usize>) -> ListIter<'a> {
        ListIter::new(self, range, End::Back)
    }

    /// Passes the element at `index` to `read`; `None` if there is no such element. Cost: O(log n).
    pub fn get<R>(self, index: usize, read: impl FnOnce(ListItem<'_>) -> R) -> Option<R> {
        let end = index.checked_add(1)?;
        self.iter(index..end).next().map(read)
    }
}

impl<'a> ListIter<'a> {
    pub(super) fn new(list: ListRef<'a>, range: Range<usize>, from: End) -> ListIter<'a> {
        let len = list.len();
        let end = range.end.min(len);
        let range = range.start.min(end)..end;
        let mut this = ListIter { root: None, range, from, rest: LeafRest::Nowhere, scratch: Vec::new() };
        match list {
            ListRef::Value(list) => this.root = Some(&list.0),
            ListRef::Inline { bytes, .. } => {
                let row = inline_parts(bytes).1;
                let left = part(row, len, 0, this.index(), from);
                this.rest = LeafRest::Row(RowIter::new(&row[left], 0));
            }
        }
        this
    }

    /// Index of the next element.
    fn index(&self) -> usize {
        if self.from == End::Front { self.range.start } else { self.range.end.saturating_sub(1) }
    }

    /// The next element in the iterator's direction.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<ListItem<'_>> {
        if self.range.is_empty() {
            return None;
        }
        if let LeafRest::Row(row) = &mut self.rest {
            let element = if self.from == End::Front { row.next() } else { row.next_back() };
            if let Some(element) = element {
                match self.from {
                    End::Front => self.range.start += 1,
                    End::Back => self.range.end -= 1,
                }
                return Some(item(element));
            }
        }
        self.next_slowly()
    }

    /// The next element, if it is not in the present row.
    fn next_slowly(&mut self) -> Option<ListItem<'_>> {
        let at_end = match &self.rest {
            LeafRest::Nowhere | LeafRest::Row(_) => true,
            LeafRest::Large(_) => false,
            LeafRest::Scratch(left, _) => left.is_empty(),
        };
        if at_end {
            self.enter()?;
        }
        let from = self.from;
        match from {
            End::Front => self.range.start += 1,
            End::Back => self.range.end -= 1,
        }
        match &mut self.rest {
            LeafRest::Nowhere => None,
            LeafRest::Row(row) => (if from == End::Front { row.next() } else { row.next_back() }).map(item),
            LeafRest::Large(bytes) => {
                let bytes = *bytes;
                self.rest = LeafRest::Nowhere;
                Some(ListItem::Shared(bytes))
            }
            LeafRest::Scratch(left, uniform) => {
                let mut row = RowIter::new(&self.scratch[left.clone()], *uniform);
                let element = if from == End::Front { row.next() } else { row.next_back() }?;
                let rest = row.rest_len();
                *left = if from == End::Front {
                    left.end - rest..left.end
                } else {
                    left.start..left.start + rest
                };
                Some(item(element))
            }
        }
    }

    /// Finds the leaf of the next element.
    fn enter(&mut self) -> Option<()> {
        let index = self.index();
        let (leaf, at) = self.root?.find(index)?;
        self.rest = match leaf {
            Leaf::Chunk(chunk) => {
                let left = part(chunk.row(), chunk.count(), chunk.uniform(), at, self.from);
                LeafRest::Row(RowIter::new(&chunk.row()[left], chunk.uniform()))
            }
            Leaf::Large(bytes) => LeafRest::Large(bytes),
            Leaf::Compressed(small) => {
                small.read_into(&mut self.scratch);
                let left = part(&self.scratch, small.count(), small.uniform(), at, self.from);
                LeafRest::Scratch(left, small.uniform())
            }
        };
        Some(())
    }

    /// Skips elements up to and including the first one equal to `value`; returns its index.
    pub fn find_equal(&mut self, value: &[u8]) -> Option<usize> {
        let wanted = Element::of(value);
        loop {
            let index = self.index();
            let equal = match (self.next()?, wanted) {
                (ListItem::Int(number), Element::Int(wanted)) => number == wanted,
                (ListItem::Bytes(bytes), Element::Bytes(wanted)) => bytes == wanted,
                (ListItem::Shared(bytes), _) => **bytes == *value,
                (ListItem::Int(_), Element::Bytes(_)) => false,
                (ListItem::Bytes(_), Element::Int(_)) => false,
            };
            if equal {
                return Some(index);
            }
        }
    }
}

#[inline]
fn item(element: Element<'_>) -> ListItem<'_> {
    match element {
        Element::Int(number) => ListItem::Int(number),
        Element::Bytes(bytes) => ListItem::Bytes(bytes),
    }
}

/// The bytes of a row that are still to be read if the element at `index` is the next one: from `End::Front`,
/// that element and those after it; from `End::Back`, that element and those before it.
fn part(row: &[u8], count: usize, uniform: usize, index: usize, from: End) -> Range<usize> {
    match from {
        End::Front => row_offset(row, count, uniform, index)..row.len(),
        End::Back => 0..row_offset(row, count, uniform, index + 1),
    }
}

//! The list: elements in order, pushed and popped at both ends.
//!
//! A list lives *inline* in the block of its entry while it is small (the bytes of [`List::write_inline`], read through
//! [`ListRef::Inline`]), or as a [`List`] beside its entry.
//!
//! Invariants: (1) [`List::share`] costs O(1), and neither list sees what is changed in the other; (2) what a list
//! reports as its encoding follows the reference's thresholds and sticks as there: it does not follow the form; (3)
//! whatever is removed that may be large goes to [`ListContext::garbage`]: changing a list frees none of it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use sluice_base::Bytes;
use sluice_base::num::{IntBuffer, parse_i64};

/// A list that lives outside its entry. One word wide.
#[derive(Debug, Default)]
pub struct List(Arc<Root>);

/// What OBJECT ENCODING answers for a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListEncoding {
    /// Small enough for one listpack.
    #[default]
    Listpack,
    /// A list of listpacks.
    Quicklist,
}

impl ListEncoding {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ListEncoding::Listpack => "listpack",
            ListEncoding::Quicklist => "quicklist",
        }
    }
}

/// What the configuration says about lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// `list-max-listpack-size`: -1 to -5 for 4, 8, 16, 32 and 64 KiB, positive for a number of elements.
    pub max_listpack_size: i32,
    /// `list-compress-depth`: how many nodes at either end are not compressed; 0 compresses none.
    pub compress_depth: u32,
}

impl Default for ListLimits {
    fn default() -> ListLimits {
        ListLimits { max_listpack_size: -2, compress_depth: 0 }
    }
}

/// What changing a list needs and yields.
#[derive(Debug, Default)]
pub struct ListContext {
    /// The thresholds in force.
    pub limits: ListLimits,
    /// Removed parts, and copied ones, each as a list: to be dropped on another thread.
    pub garbage: Vec<List>,
}

/// An element as it is read.
#[derive(Clone, Copy, Debug)]
pub enum ListItem<'a> {
    /// A string that is the canonical form of an integer.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
    /// A string so large that it has memory of its own, which a reply can share.
    Shared(&'a Bytes),
}

impl ListItem<'_> {
    /// The element's bytes; `buffer` has room for digits.
    pub fn bytes<'b>(&'b self, buffer: &'b mut IntBuffer) -> &'b [u8] {
        match *self {
            ListItem::Int(number) => buffer.format(number),
            ListItem::Bytes(bytes) => bytes,
            ListItem::Shared(bytes) => bytes,
        }
    }
}

/// A list as it is read, wherever it lives.
#[derive(Clone, Copy, Debug)]
pub enum ListRef<'a> {
    /// In the block of its entry.
    Inline {
        /// What [`List::write_inline`] wrote.
        bytes: &'a [u8],
        /// Kept in the head of the entry.
        encoding: ListEncoding,
    },
    /// Outside.
    Value(&'a List),
}

impl<'a> ListRef<'a> {
    /// How many elements. O(1).
    pub fn len(self) -> usize {
        match self {
            ListRef::Inline { bytes, .. } => inline_len(bytes),
            ListRef::Value(list) => list.len(),
        }
    }

    /// Whether there is no element. Never true of a list in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding to report.
    pub fn encoding(self) -> ListEncoding {
        match self {
            ListRef::Inline { encoding, .. } => encoding,
            ListRef::Value(list) => list.encoding(),
        }
    }

    /// The elements with these indexes, in order. `range` is cut to the list. Cost: O(log n) to begin.
    pub fn iter(self, range: Range<usize>) -> ListIter<'a> {
        ListIter::new(self, range, Direction::Forward)
    }

    /// The elements with these indexes, the last first.
    pub fn iter_rev(self, range: Range<usize>) -> ListIter<'a> {
        ListIter::new(self, range, Direction::Backward)
    }

    /// Hands the element at `index` to `read`; `None` where there is no such element. Cost: O(log n).
    pub fn get<R>(self, index: usize, read: impl FnOnce(ListItem<'_>) -> R) -> Option<R> {
        let end = index.checked_add(1)?;
        self.iter(index..end).next().map(read)
    }
}

/// The elements of a range, one after the other. An element is valid until the next is asked for.
#[derive(Debug)]
pub struct ListIter<'a> {
    elements: Elements<'a>,
    range: Range<usize>,
    direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

#[derive(Debug)]
enum Elements<'a> {
    Inline(Vec<Element>),
    Value(&'a VecDeque<Element>),
}

impl<'a> ListIter<'a> {
    fn new(list: ListRef<'a>, range: Range<usize>, direction: Direction) -> ListIter<'a> {
        let end = range.end.min(list.len());
        let elements = match list {
            ListRef::Inline { bytes, .. } => Elements::Inline(read_inline(bytes)),
            ListRef::Value(list) => Elements::Value(&list.0.elements),
        };
        ListIter { elements, range: range.start.min(end)..end, direction }
    }

    /// The next element in the iterator's direction.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<ListItem<'_>> {
        let index = match self.direction {
            Direction::Forward => self.range.next()?,
            Direction::Backward => self.range.next_back()?,
        };
        match &self.elements {
            Elements::Inline(elements) => elements.get(index).map(Element::item),
            Elements::Value(elements) => elements.get(index).map(Element::item),
        }
    }
}

impl List {
    /// An empty list, to be reported as a listpack.
    pub fn new() -> List {
        List::default()
    }

    /// The list that [`List::write_inline`] wrote. Bytes that it cannot have written give some list.
    pub fn from_inline(bytes: &[u8], encoding: ListEncoding) -> List {
        let mut list = List::new();
        list.load_inline(bytes, encoding);
        list
    }

    /// Replaces the list by the one that [`List::write_inline`] wrote, keeping its memory where it can. For a list
    /// that is no value of a key, and shared with nobody.
    pub fn load_inline(&mut self, bytes: &[u8], encoding: ListEncoding) {
        self.0 = Arc::new(Root { elements: read_inline(bytes).into(), encoding });
    }

    /// How many bytes [`List::write_inline`] writes; `None` for a list too large for the block of an entry. O(1).
    pub fn inline_len(&self) -> Option<usize> {
        let len = 2 + self.0.elements.iter().map(|element| 2 + element.bytes().len()).sum::<usize>();
        (len <= INLINE_LEN_MAX).then_some(len)
    }

    /// Writes the list in the form for the block of an entry. `out` is as long as [`List::inline_len`] says.
    pub fn write_inline(&self, out: &mut [u8]) {
        let mut bytes = (self.len() as u16).to_le_bytes().to_vec();
        for element in &self.0.elements {
            bytes.extend_from_slice(&(element.bytes().len() as u16).to_le_bytes());
            bytes.extend_from_slice(&element.bytes());
        }
        out.copy_from_slice(&bytes);
    }

    /// The same list a second time. O(1).
    #[must_use]
    pub fn share(&self) -> List {
        List(Arc::clone(&self.0))
    }

    /// The list to read from.
    pub fn view(&self) -> ListRef<'_> {
        ListRef::Value(self)
    }

    /// How many elements. O(1).
    pub fn len(&self) -> usize {
        self.0.elements.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding to report.
    pub fn encoding(&self) -> ListEncoding {
        self.0.encoding
    }

    /// Bytes allocated for the list. O(1).
    pub fn heap_bytes(&self) -> usize {
        64 + self.0.elements.capacity() * size_of::<Element>()
    }

    /// To be called before elements are added, with how many and how many bytes they have together: a listpack that
    /// would get too large is a quicklist from now on, whether they are added or not.
    pub fn convert_before_adding(&mut self, count: usize, bytes: usize, limits: ListLimits) {
        if self.listpack_bytes() + bytes > 8192
            || limits.max_listpack_size > 0 && self.len() + count > limits.max_listpack_size as usize
        {
            self.root().encoding = ListEncoding::Quicklist;
        }
    }

    /// To be called when a command has removed or replaced elements: a quicklist that is small enough is a listpack again.
    pub fn convert_after_removing(&mut self, limits: ListLimits) {
        if self.listpack_bytes() <= 4096
            && (limits.max_listpack_size < 0 || self.len() <= limits.max_listpack_size as usize / 2)
        {
            self.root().encoding = ListEncoding::Listpack;
        }
    }

    /// To be called when a list has been loaded: both conversions, with the whole limit.
    pub fn convert_after_loading(&mut self, limits: ListLimits) {
        self.convert_before_adding(0, 0, limits);
    }

    /// Adds an element at the front.
    pub fn push_front(&mut self, value: &[u8], _context: &mut ListContext) {
        self.root().elements.push_front(Element::new(value));
    }

    /// Adds an element at the back.
    pub fn push_back(&mut self, value: &[u8], _context: &mut ListContext) {
        self.root().elements.push_back(Element::new(value));
    }

    /// Removes the first element after `read` has seen it.
    pub fn pop_front<R>(
        &mut self,
        context: &mut ListContext,
        read: impl FnOnce(ListItem<'_>) -> R,
    ) -> Option<R> {
        let seen = self.view().get(0, read)?;
        self.remove_front(1, context);
        Some(seen)
    }

    /// Removes the last element after `read` has seen it.
    pub fn pop_back<R>(
        &mut self,
        context: &mut ListContext,
        read: impl FnOnce(ListItem<'_>) -> R,
    ) -> Option<R> {
        let seen = self.view().get(self.len().checked_sub(1)?, read)?;
        self.remove_back(1, context);
        Some(seen)
    }

    /// Removes the first `count` elements, or all. Cost: O(log n).
    pub fn remove_front(&mut self, count: usize, _context: &mut ListContext) {
        let count = count.min(self.len());
        self.root().elements.drain(..count);
    }

    /// Removes the last `count` elements, or all. Cost: O(log n).
    pub fn remove_back(&mut self, count: usize, _context: &mut ListContext) {
        let left = self.len().saturating_sub(count);
        self.root().elements.truncate(left);
    }

    /// Keeps the elements with these indexes. Cost: O(log n).
    pub fn trim(&mut self, keep: Range<usize>, context: &mut ListContext) {
        let end = keep.end.min(self.len());
        self.remove_back(self.len() - end, context);
        self.remove_front(keep.start, context);
    }

    /// Adds an element that gets this index, at most the length. Cost: O(log n).
    pub fn insert(&mut self, index: usize, value: &[u8], _context: &mut ListContext) {
        let index = index.min(self.len());
        self.root().elements.insert(index, Element::new(value));
    }

    /// Replaces an element; `false` where there is none. Cost: O(log n).
    pub fn set(&mut self, index: usize, value: &[u8], _context: &mut ListContext) -> bool {
        let found = self.root().elements.get_mut(index);
        found.map(|element| *element = Element::new(value)).is_some()
    }

    /// Removes elements equal to `value`: the first `count`, the last `-count`, or all for 0. How many there were.
    pub fn remove_equal(&mut self, count: i64, value: &[u8], _context: &mut ListContext) -> usize {
        let before = self.len();
        let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let wanted = Element::new(value);
        let mut keep = |element: &Element| {
            let equal = left > 0 && element == &wanted;
            left -= u64::from(equal);
            !equal
        };
        let elements = &mut self.root().elements;
        if count < 0 {
            let kept: Vec<Element> =
                std::mem::take(elements).into_iter().rev().filter(|element| keep(element)).collect();
            elements.extend(kept.into_iter().rev());
        } else {
            elements.retain(keep);
        }
        before - self.len()
    }

    fn root(&mut self) -> &mut Root {
        Arc::make_mut(&mut self.0)
    }

    /// The size that the elements would have in one listpack.
    fn listpack_bytes(&self) -> usize {
        7 + self.0.elements.iter().map(|element| 2 + element.bytes().len()).sum::<usize>()
    }
}

#[derive(Clone, Debug, Default)]
struct Root {
    elements: VecDeque<Element>,
    encoding: ListEncoding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Int(i64),
    Bytes(Bytes),
}

impl Element {
    fn new(value: &[u8]) -> Element {
        parse_i64(value).map_or_else(|| Element::Bytes(Bytes::copy_from(value)), Element::Int)
    }

    fn item(&self) -> ListItem<'_> {
        match self {
            Element::Int(number) => ListItem::Int(*number),
            Element::Bytes(bytes) => ListItem::Bytes(bytes),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.item().bytes(&mut IntBuffer::new()).to_vec()
    }
}

fn inline_len(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |len| usize::from(u16::from_le_bytes(*len)))
}

fn read_inline(bytes: &[u8]) -> Vec<Element> {
    let mut rest = bytes.get(2..).unwrap_or_default();
    let mut elements = Vec::new();
    while let Some((len, after)) = rest.split_first_chunk() {
        let Some((value, after)) = after.split_at_checked(usize::from(u16::from_le_bytes(*len))) else {
            break;
        };
        elements.push(Element::new(value));
        rest = after;
    }
    elements
}

/// Bytes of the largest list in the block of an entry.
const INLINE_LEN_MAX: usize = 900;

#[cfg(test)]
mod tests;

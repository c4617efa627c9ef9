//! The list: elements in order, pushed and popped at both ends.
//!
//! A small list is stored *inline* in the block of its entry (the bytes of [`List::write_inline`], read
//! through [`ListRef::Inline`]). Other lists are a [`List`] outside of the entry.
//!
//! Invariants: (1) [`List::share`] costs O(1), and neither list sees changes of the other; (2) the reported
//! encoding follows the reference's thresholds and their hysteresis, no matter how the elements are stored;
//! (3) removed parts that may be large go to [`ListContext::garbage`]: changing a list frees none of them.

mod chunk;
mod iter;
mod leaf;
mod limits;
mod tree;

use std::ops::Range;

use sluice_base::Bytes;
use sluice_base::num::IntBuffer;
use sluice_collections::listpack::{self, Element, entry};

use chunk::{Chunk, End};
pub use iter::ListIter;
use leaf::{Leaf, LeafSums};
pub use limits::{ListEncoding, ListLimits};
use tree::Tree;

/// A list outside of its entry. One word wide.
#[derive(Debug, Default)]
pub struct List(Box<Root>);

/// Settings for a change of a list, and the garbage that the change leaves.
#[derive(Debug, Default)]
pub struct ListContext {
    /// The thresholds in force.
    pub limits: ListLimits,
    /// Parts that were removed, or replaced by a copy, each as a list, to be freed on another thread.
    pub garbage: Vec<List>,
}

/// A function that changes a leaf, at an index in that leaf, and returns the new leaves that follow the leaf.
type LeafEdit<'a> = &'a mut dyn FnMut(&mut Leaf, usize, &mut ListContext) -> Vec<Leaf>;

/// An element for reading.
#[derive(Clone, Copy, Debug)]
pub enum ListItem<'a> {
    /// A string that is the canonical form of an integer.
    Int(i64),
    /// Any other string, borrowed from the bytes in which it is stored.
    Bytes(&'a [u8]),
    /// A string so large that it has its own allocation, which a reply can share.
    Shared(&'a Bytes),
}

impl ListItem<'_> {
    /// The element's bytes. `buffer` holds the digits of an integer.
    pub fn bytes<'b>(&'b self, buffer: &'b mut IntBuffer) -> &'b [u8] {
        match *self {
            ListItem::Int(number) => buffer.format(number),
            ListItem::Bytes(bytes) => bytes,
            ListItem::Shared(bytes) => bytes,
        }
    }
}

/// A list for reading, inside its keyspace entry or outside of it.
#[derive(Clone, Copy, Debug)]
pub enum ListRef<'a> {
    /// A list in the block of its entry.
    Inline {
        /// The bytes that [`List::write_inline`] wrote.
        bytes: &'a [u8],
        /// The encoding to report, from the head of the entry.
        encoding: ListEncoding,
    },
    /// A value outside of the entry's block.
    Value(&'a List),
}

impl<'a> ListRef<'a> {
    /// Number of elements. O(1).
    pub fn len(self) -> usize {
        match self {
            ListRef::Inline { bytes, .. } => inline_parts(bytes).0,
            ListRef::Value(list) => list.len(),
        }
    }

    /// Whether there is no element. Never true of a list in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(self) -> ListEncoding {
        match self {
            ListRef::Inline { encoding, .. } => encoding,
            ListRef::Value(list) => list.encoding(),
        }
    }
}

impl List {
    /// An empty list that reports a listpack.
    pub fn new() -> List {
        List::default()
    }

    /// The list that [`List::write_inline`] wrote. Malformed bytes give an arbitrary list.
    pub fn from_inline(bytes: &[u8], encoding: ListEncoding) -> List {
        let mut list = List::new();
        list.load_inline(bytes, encoding);
        list
    }

    /// Replaces the contents by those that [`List::write_inline`] wrote, and reuses the memory if possible.
    /// Only for a list that is not the value of a key, because the old contents are dropped at once instead
    /// of going to the garbage.
    pub fn load_inline(&mut self, bytes: &[u8], encoding: ListEncoding) {
        let root = &mut *self.0;
        let (count, row) = inline_parts(bytes);
        root.encoding = encoding;
        root.middle = Tree::default();
        root.back = None;
        if let Some(Leaf::Chunk(chunk)) = &mut root.front
            && chunk.load(row, count, 0)
        {
            return;
        }
        let mut chunk = Chunk::empty(row.len().max(INLINE_LEN_MAX));
        chunk.load(row, count, 0);
        root.front = Some(Leaf::Chunk(chunk));
    }

    /// The number of bytes that [`List::write_inline`] writes; `None` for a list that is too large for
    /// the block of an entry. O(1).
    pub fn inline_len(&self) -> Option<usize> {
        let bytes = match (&self.0.front, &self.0.back) {
            (None, _) => 0,
            (Some(Leaf::Chunk(chunk)), None) => chunk.listpack_bytes(),
            (Some(_), _) => return None,
        };
        let len = INLINE_HEADER_LEN + bytes;
        (len <= INLINE_LEN_MAX).then_some(len)
    }

    /// Writes the inline form of the list. `out` has the length [`List::inline_len`].
    pub fn write_inline(&self, out: &mut [u8]) {
        let (header, mut rest) = out.split_at_mut(INLINE_HEADER_LEN);
        header.copy_from_slice(&(self.len() as u16).to_le_bytes());
        let Some(Leaf::Chunk(chunk)) = &self.0.front else { return };
        if chunk.uniform() == 0 {
            rest.copy_from_slice(chunk.row());
            return;
        }
        for element in chunk.elements() {
            let written = entry::write(rest, element);
            rest = &mut rest[written..];
        }
    }

    /// A second owner of the list's contents. O(1).
    #[must_use]
    pub fn share(&self) -> List {
        let root = &*self.0;
        List(Box::new(Root {
            front: root.front.clone(),
            middle: root.middle.clone(),
            back: root.back.clone(),
            encoding: root.encoding,
        }))
    }

    /// The list for reading.
    pub fn view(&self) -> ListRef<'_> {
        ListRef::Value(self)
    }

    /// Number of elements. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.0.end_count(End::Front) + self.0.middle.sums().count + self.0.end_count(End::Back)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(&self) -> ListEncoding {
        self.0.encoding
    }

    /// Bytes allocated for the list, including shared parts. O(1).
    pub fn heap_bytes(&self) -> usize {
        size_of::<Root>() + self.0.sums().heap
    }

    /// Whether a leaf at an end, or the top node of the tree between them, has another owner. If only nodes
    /// below the top are shared, the result is `false`. O(1).
    pub(crate) fn is_shared(&self) -> bool {
        let Root { front, middle, back, .. } = &*self.0;
        middle.is_shared() || front.iter().chain(back).any(Leaf::is_shared)
    }

    /// The bytes of the leaves at the ends and of the top node, without the shared nodes below. For a part
    /// from [`ListContext::garbage`] that an edit has replaced by a copy. O(1).
    pub fn copied_bytes(&self) -> usize {
        let Root { front, middle, back, .. } = &*self.0;
        let ends: usize = front.iter().chain(back).map(|leaf| leaf.sums().heap).sum();
        middle.top_bytes() + ends
    }

    /// Bytes allocated that have no other owner. Cost: one step for each node that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        let Root { front, middle, back, .. } = &*self.0;
        let ends: usize = front.iter().chain(back).map(Leaf::own_bytes).sum();
        size_of::<Root>() + middle.own_bytes() + ends
    }

    /// To be called before elements are added, with their number and their total bytes. A list that
    /// would be too large for a listpack is a quicklist from now on, even if the elements are not added.
    pub fn convert_before_adding(&mut self, count: usize, bytes: usize, limits: ListLimits) {
        let size = listpack::EMPTY_LEN + self.0.sums().listpack + bytes;
        if self.0.encoding == ListEncoding::Listpack && limits.exceeded_by(size, self.len() + count) {
            self.0.encoding = ListEncoding::Quicklist;
        }
    }

    /// To be called after a command has removed or replaced elements. A quicklist of one node becomes a
    /// listpack again if it has at most half the size that a node may have.
    pub fn convert_after_removing(&mut self, limits: ListLimits) {
        if self.0.encoding == ListEncoding::Quicklist && self.0.is_one_node(limits) {
            let size = listpack::EMPTY_LEN + self.0.sums().listpack;
            if limits.allows_half(size, self.len()) {
                self.0.encoding = ListEncoding::Listpack;
            }
        }
    }

    /// To be called after a list was loaded from `nodes` parts: sets the encoding that its size requires.
    pub fn convert_after_loading(&mut self, nodes: usize, limits: ListLimits) {
        let size = listpack::EMPTY_LEN + self.0.sums().listpack;
        let small = nodes <= 1 && !limits.exceeded_by(size, self.len());
        self.0.encoding = if small { ListEncoding::Listpack } else { ListEncoding::Quicklist };
    }

    /// Adds an element at the front.
    #[inline]
    pub fn push_front(&mut self, value: &[u8], context: &mut ListContext) {
        self.0.push(End::Front, value, context);
    }

    /// Adds an element at the back.
    #[inline]
    pub fn push_back(&mut self, value: &[u8], context: &mut ListContext) {
        self.0.push(End::Back, value, context);
    }

    /// Appends an element that was read from another value.
    pub fn push_back_item(&mut self, item: ListItem<'_>, context: &mut ListContext) {
        // An integer that goes into the last chunk is not converted to digits and parsed again.
        if let ListItem::Int(number) = item
            && self.0.push_int_back(number, context)
        {
            return;
        }
        self.push_back(item.bytes(&mut IntBuffer::new()), context);
    }

    /// Removes the first element after `read` has seen it; `None` if the list is empty.
    pub fn pop_front<R>(
        &mut self,
        context: &mut ListContext,
        read: impl FnOnce(ListItem<'_>) -> R,
    ) -> Option<R> {
        let seen = self.view().get(0, read)?;
        self.0.remove(End::Front, 1, context);
        Some(seen)
    }

    /// Removes the first `count` elements, or all if there are fewer. Cost: O(log n).
    pub fn remove_front(&mut self, count: usize, context: &mut ListContext) {
        self.0.remove(End::Front, count, context);
    }

    /// Removes the last `count` elements, or all if there are fewer. Cost: O(log n).
    pub fn remove_back(&mut self, count: usize, context: &mut ListContext) {
        self.0.remove(End::Back, count, context);
    }

    /// Keeps only the elements with these indexes. Cost: O(log n).
    pub fn trim(&mut self, keep: Range<usize>, context: &mut ListContext) {
        let end = keep.end.min(self.len());
        self.remove_back(self.len() - end, context);
        self.remove_front(keep.start, context);
    }

    /// Inserts an element at an index, which is at most the length. Cost: O(log n).
    pub fn insert(&mut self, index: usize, value: &[u8], context: &mut ListContext) {
        if index == 0 {
            self.push_front(value, context);
        } else if index >= self.len() {
            self.push_back(value, context);
        } else {
            let max = context.limits.element_max(self.0.encoding);
            self.0.edit(index, context, &mut |leaf, at, context| leaf.splice(at..at, value, max, context));
        }
    }

    /// Replaces the element at an index; returns `false` if there is none. Cost: O(log n).
    pub fn set(&mut self, index: usize, value: &[u8], context: &mut ListContext) -> bool {
        let found = index < self.len();
        if found {
            let max = context.limits.element_max(self.0.encoding);
            self.0
                .edit(index, context, &mut |leaf, at, context| leaf.splice(at..at + 1, value, max, context));
        }
        found
    }

    /// Removes elements equal to `value`: the first `count`, the last `-count` if `count` is negative, or all
    /// if it is 0. Returns the number removed. Cost: O(n).
    pub fn remove_equal(&mut self, count: i64, value: &[u8], context: &mut ListContext) -> usize {
        let mut left = match usize::try_from(count.unsigned_abs()) {
            Ok(1..) if count != 0 => count.unsigned_abs() as usize,
            _ => usize::MAX,
        };
        let from = if count < 0 { End::Back } else { End::Front };
        let wanted = Element::of(value);
        let (mut removed, mut rest) = (0, 0..self.len());
        while left > 0 {
            let mut iter = match from {
                End::Front => self.view().iter(rest.clone()),
                End::Back => self.view().iter_rev(rest.clone()),
            };
            let Some(found) = iter.find_equal(value) else { break };
            let (mut leaf_start, mut gone, mut kept) = (0, 0, 0);
            self.0.edit(found, context, &mut |leaf, at, context| {
                leaf_start = found - at;
                gone = leaf.remove_equal(wanted, left, from, context);
                kept = leaf.count();
                Vec::new()
            });
            removed += gone;
            left -= gone;
            rest = match from {
                End::Front => leaf_start + kept..rest.end - gone,
                End::Back => rest.start..leaf_start,
            };
        }
        removed
    }
}

/// A list: its first leaf, its last leaf, and the tree of the leaves between them.
///
/// An empty list has no leaf, or an empty chunk as `front`. The only leaf of a list is `front`. The
/// leaves at the ends are never compressed.
#[derive(Debug, Default)]
struct Root {
    front: Option<Leaf>,
    middle: Tree,
    back: Option<Leaf>,
    encoding: ListEncoding,
}

impl Root {
    fn sums(&self) -> LeafSums {
        let of = |leaf: &Option<Leaf>| leaf.as_ref().map_or(LeafSums::default(), Leaf::sums);
        of(&self.front).plus(self.middle.sums()).plus(of(&self.back))
    }

    #[inline]
    fn end_count(&self, end: End) -> usize {
        let leaf = if end == End::Front { &self.front } else { &self.back };
        leaf.as_ref().map_or(0, Leaf::count)
    }

    fn len(&self) -> usize {
        self.end_count(End::Front) + self.middle.sums().count + self.end_count(End::Back)
    }

    /// The leaf at an end. The only leaf of a list is at both ends.
    #[inline]
    fn nearest(&mut self, end: End) -> Option<&mut Leaf> {
        match end {
            End::Back if self.back.is_some() => self.back.as_mut(),
            End::Back | End::Front => self.front.as_mut(),
        }
    }

    /// Whether the reference may have all elements in one node. If a node of the reference may be larger than
    /// a chunk, several leaves may correspond to one node; so the caller also compares the size.
    fn is_one_node(&self, limits: ListLimits) -> bool {
        let is_plain = matches!(&self.front, Some(Leaf::Large(long)) if limits.is_plain(long.len()));
        !is_plain && (self.back.is_none() || limits.node_bytes() > chunk::CHUNK_BYTES)
    }

    fn find(&self, index: usize) -> Option<(&Leaf, usize)> {
        let front = self.end_count(End::Front);
        if index < front {
            return self.front.as_ref().map(|leaf| (leaf, index));
        }
        let behind = index - front;
        let middle = self.middle.sums().count;
        if behind < middle {
            return self.middle.find(behind);
        }
        let at = behind - middle;
        self.back.as_ref().filter(|leaf| at < leaf.count()).map(|leaf| (leaf, at))
    }

    #[inline]
    fn push(&mut self, end: End, value: &[u8], context: &mut ListContext) {
        let room = context.limits.room();
        let element_max = context.limits.element_max(self.encoding);
        if value.len() <= element_max
            && let Some(Leaf::Chunk(chunk)) = self.nearest(end)
            && chunk.push(end, Element::of(value), room, &mut |chunk| context.discard(Leaf::Chunk(chunk)))
        {
            return;
        }
        // The new chunk gets its full size at once, because a list with elements will probably fill it.
        // It gets only the size of its element if the list is empty, or if chunks are limited by a count.
        let bytes = if self.end_count(End::Front) == 0 || room.count != usize::MAX { 0 } else { room.bytes };
        self.push_leaf(end, Leaf::of(value, element_max, end, bytes), context);
    }

    /// Adds an integer to the last chunk; returns whether the chunk had room for it.
    fn push_int_back(&mut self, number: i64, context: &mut ListContext) -> bool {
        let room = context.limits.room();
        if context.limits.element_max(self.encoding) < INT_DIGITS_MAX {
            return false;
        }
        let Some(Leaf::Chunk(chunk)) = self.nearest(End::Back) else { return false };
        chunk.push(End::Back, Element::Int(number), room, &mut |chunk| context.discard(Leaf::Chunk(chunk)))
    }

    fn push_leaf(&mut self, end: End, leaf: Leaf, context: &mut ListContext) {
        if self.end_count(End::Front) == 0 {
            let empty = self.front.replace(leaf);
            empty.into_iter().for_each(|leaf| context.discard(leaf));
            return;
        }
        match end {
            End::Front => {
                let Some(mut old) = self.front.replace(leaf) else { return };
                old.fit(context);
                match self.back {
                    None => self.back = Some(old),
                    Some(_) => self.push_inner(End::Front, old, context),
                }
            }
            End::Back => {
                let Some(mut old) = self.back.replace(leaf) else { return };
                old.fit(context);
                self.push_inner(End::Back, old, context);
            }
        }
    }

    /// Adds a leaf to the tree, and compresses the leaf that is now far enough from that end.
    fn push_inner(&mut self, end: End, leaf: Leaf, context: &mut ListContext) {
        self.middle.push(end, leaf, context);
        let depth = context.limits.compress_depth as usize;
        // The first and the last leaf, which are not in the tree, count among the leaves left uncompressed.
        let Some(skip) = depth.checked_sub(1) else { return };
        if self.middle.sums().leaves <= 2 * skip {
            return;
        }
        if let Some((index, false)) = self.middle.leaf_from(end, skip) {
            self.middle.update(index, context, &mut |leaf, _, context| {
                leaf.compress(context);
                Vec::new()
            });
        }
    }

    /// Removes `count` elements at an end, or all if there are fewer.
    fn remove(&mut self, end: End, count: usize, context: &mut ListContext) {
        if count == 0 {
            return;
        }
        if count >= self.len() {
            return self.clear(context);
        }
        let Some(leaf) = self.nearest(end) else { return };
        if count < leaf.count() {
            leaf.remove(end, count, context);
        } else {
            let beyond = count - leaf.count();
            let left = self.middle.cut(end, beyond, context);
            self.refill(end, context);
            if left > 0
                && let Some(leaf) = self.nearest(end)
            {
                leaf.remove(end, left, context);
            }
        }
        self.join_ends(context);
    }

    fn clear(&mut self, context: &mut ListContext) {
        if self.back.is_none()
            && let Some(Leaf::Chunk(chunk)) = &mut self.front
        {
            return chunk.clear(&mut |chunk| context.discard(Leaf::Chunk(chunk)));
        }
        let empty = Root { encoding: self.encoding, ..Root::default() };
        context.garbage.push(List(Box::new(std::mem::replace(self, empty))));
    }

    /// Replaces the leaf at an end by the next leaf, which must exist.
    fn refill(&mut self, end: End, context: &mut ListContext) {
        let mut next = self.middle.pop(end, context);
        if let Some(leaf) = &mut next {
            leaf.decompress(context);
        }
        let old = match end {
            End::Front => {
                let next = next.or_else(|| self.back.take());
                std::mem::replace(&mut self.front, next)
            }
            End::Back => std::mem::replace(&mut self.back, next),
        };
        old.into_iter().for_each(|leaf| context.discard(leaf));
    }

    /// Joins the two leaves of a list into one, if one of them is sparse and both fit.
    fn join_ends(&mut self, context: &mut ListContext) {
        if self.middle.sums().count == 0
            && let (Some(front), Some(back)) = (&mut self.front, &self.back)
            && front.join(back, context)
        {
            self.back.take().into_iter().for_each(|leaf| context.discard(leaf));
        }
    }

    /// Applies `edit` to the leaf of the element at `index`, which must exist.
    fn edit(&mut self, index: usize, context: &mut ListContext, edit: LeafEdit<'_>) {
        let front_count = self.end_count(End::Front);
        let middle_count = self.middle.sums().count;
        if index < front_count {
            let Some(front) = &mut self.front else { return };
            let mut after = edit(front, index, context);
            if self.back.is_none() {
                self.back = after.pop();
            }
            after.into_iter().rev().for_each(|leaf| self.push_inner(End::Front, leaf, context));
        } else if index < front_count + middle_count {
            self.middle.update(index - front_count, context, edit);
        } else {
            let Some(mut back) = self.back.take() else { return };
            let after = edit(&mut back, index - front_count - middle_count, context);
            for next in after {
                self.push_inner(End::Back, std::mem::replace(&mut back, next), context);
            }
            self.back = Some(back);
        }
        if self.end_count(End::Front) == 0 && self.len() > 0 {
            self.refill(End::Front, context);
        }
        if self.back.is_some() && self.end_count(End::Back) == 0 {
            self.refill(End::Back, context);
        }
        self.join_ends(context);
    }
}

impl ListContext {
    /// Puts a leaf into the garbage.
    fn discard(&mut self, leaf: Leaf) {
        self.discard_child(tree::Child::leaf(leaf));
    }

    /// Puts a part of a tree into the garbage.
    fn discard_child(&mut self, child: tree::Child) {
        let root = Root { middle: Tree::of(child), ..Root::default() };
        self.garbage.push(List(Box::new(root)));
    }
}

/// Number of elements and row of an inline list.
fn inline_parts(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes.split_first_chunk() {
        Some((count, row)) => (usize::from(u16::from_le_bytes(*count)), row),
        None => (0, &[]),
    }
}

/// Bytes in front of the entries of an inline list, which hold their number.
const INLINE_HEADER_LEN: usize = 2;
/// Bytes of the longest integer's text, with its sign.
const INT_DIGITS_MAX: usize = 20;
/// Bytes of the largest inline list.
const INLINE_LEN_MAX: usize = 900;

#[cfg(test)]
mod tests;

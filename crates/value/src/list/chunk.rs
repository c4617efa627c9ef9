//! A chunk: consecutive elements in one allocation of at most 8 KiB, which may be shared.
//!
//! The elements are contiguous and may begin anywhere in the chunk's bytes, so that both ends have room to
//! grow. They are a row of listpack entries. If all of them are strings of one length and no integers, the
//! chunk can be *uniform*, that is, hold only their bytes and store their length once.
//!
//! Invariants: (1) `start <= end <= capacity`; (2) a uniform chunk holds `count * uniform` bytes, and any
//! other chunk a complete row of `count` entries; (3) a chunk with a second owner is never written; a copy
//! takes its place, and the caller gets the old chunk.

use std::mem::replace;
use std::ops::Range;

use sluice_collections::listpack::{Element, entry};
use triomphe::{Arc, HeaderSlice};

/// Bytes of the largest chunk, as the allocator counts them.
pub(super) const CHUNK_BYTES: usize = 8192;
/// Bytes of a chunk that hold no elements: the reference count and the header.
pub(super) const OVERHEAD: usize = 8 + size_of::<Header>();
/// Bytes for elements in the largest chunk.
pub(super) const CAPACITY_MAX: usize = CHUNK_BYTES - OVERHEAD;
/// Longest string in a chunk, in bytes. A longer one has a leaf of its own, because a chunk might not hold
/// two of them.
pub(super) const ELEMENT_MAX: usize = 4000;

const _: () =
    assert!(OVERHEAD == 16 && 2 * (ELEMENT_MAX + 5) < CAPACITY_MAX && CAPACITY_MAX <= u16::MAX as usize);

/// An end of a chunk, or of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// The limits of a chunk's size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes for encoded elements.
    pub(super) bytes: usize,
    /// Number of elements.
    pub(super) count: usize,
}

/// Consecutive elements in one allocation.
#[derive(Clone, Debug)]
pub(super) struct Chunk(Arc<HeaderSlice<Header, [u8]>>);

#[derive(Debug)]
struct Header {
    span: ElementSpan,
    _witness: Witness,
}

/// The range of a chunk's bytes that holds elements, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct ElementSpan {
    start: u16,
    end: u16,
    count: u16,
    /// The length of every element in a uniform chunk; 0 for a row of entries.
    uniform: u16,
}

/// Records for tests which thread freed a chunk.
#[derive(Debug)]
struct Witness;

#[cfg(test)]
thread_local! {
    /// Chunks freed by this thread.
    pub(super) static FREED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Drop for Witness {
    fn drop(&mut self) {
        FREED.set(FREED.get() + 1);
    }
}

static ZEROS: [u8; CAPACITY_MAX] = [0; CAPACITY_MAX];

impl Chunk {
    /// An empty chunk whose size is the allocator's size class for `bytes` bytes of elements.
    pub(super) fn empty(bytes: usize) -> Chunk {
        Chunk::with_span(bytes, ElementSpan::default())
    }

    fn with_span(bytes: usize, span: ElementSpan) -> Chunk {
        let capacity = class(bytes.min(CAPACITY_MAX) + OVERHEAD) - OVERHEAD;
        let header = Header { span, _witness: Witness };
        Chunk(Arc::from_header_and_slice(header, &ZEROS[..capacity.min(CAPACITY_MAX)]))
    }

    /// A chunk of exactly these elements, which must fit.
    pub(super) fn of(elements: &[Element<'_>]) -> Chunk {
        let uniform = match elements.first() {
            Some(&first) if elements.iter().all(|&element| uniform_len(element) == uniform_len(first)) => {
                uniform_len(first)
            }
            _ => 0,
        };
        let bytes = elements.iter().map(|&element| size(element, uniform)).sum();
        let end = bytes as u16;
        let mut chunk = Chunk::with_span(
            bytes,
            ElementSpan { start: 0, end, count: elements.len() as u16, uniform: uniform as u16 },
        );
        if let Some(inner) = Arc::get_mut(&mut chunk.0) {
            let mut rest = &mut inner.slice[..bytes];
            for &element in elements {
                let written = write(rest, element, uniform);
                rest = &mut rest[written..];
            }
        }
        chunk
    }

    /// A chunk of a row of `count` entries, or of `count` uniform elements, with room at both ends.
    pub(super) fn of_row(row: &[u8], count: usize, uniform: usize) -> Chunk {
        let mut chunk = Chunk::empty(row.len());
        chunk.load(row, count, uniform);
        chunk
    }

    /// Replaces the contents by a row that fits; returns `false` and leaves the chunk unchanged if it is
    /// shared or too small, or if the row has more than 65,535 elements.
    pub(super) fn load(&mut self, row: &[u8], count: usize, uniform: usize) -> bool {
        let capacity = self.capacity();
        let Some(inner) = Arc::get_mut(&mut self.0) else { return false };
        if row.len() > capacity || count > usize::from(u16::MAX) {
            return false;
        }
        let start = (capacity - row.len()) / 2;
        let end = start + row.len();
        inner.slice[start..end].copy_from_slice(row);
        inner.header.span = ElementSpan {
            start: start as u16,
            end: end as u16,
            count: count as u16,
            uniform: uniform as u16,
        };
        true
    }

    fn span(&self) -> ElementSpan {
        self.0.header.span
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.span().count)
    }

    /// The length of every element; 0 when the chunk is a row of entries.
    #[inline]
    pub(super) fn uniform(&self) -> usize {
        usize::from(self.span().uniform)
    }

    /// The bytes of the elements: a row of entries, or uniform elements.
    #[inline]
    pub(super) fn row(&self) -> &[u8] {
        let span = self.span();
        &self.0.slice[usize::from(span.start)..usize::from(span.end)]
    }

    /// Bytes that the chunk has for elements, used or not.
    pub(super) fn capacity(&self) -> usize {
        self.0.slice.len()
    }

    /// The bytes that the elements take in a listpack. O(1).
    pub(super) fn listpack_bytes(&self) -> usize {
        row_listpack_bytes(self.row().len(), self.count(), self.uniform())
    }

    /// The elements in order.
    pub(super) fn elements(&self) -> RowIter<'_> {
        RowIter::new(self.row(), self.uniform())
    }

    /// Whether the chunk has a second owner.
    pub(super) fn is_shared(&self) -> bool {
        !self.0.is_unique()
    }

    /// Makes the caller the only owner of the chunk, by a copy if necessary; the shared chunk
    /// goes to `garbage`.
    fn unshare(&mut self, garbage: &mut impl FnMut(Chunk)) -> &mut HeaderSlice<Header, [u8]> {
        if !self.0.is_unique() {
            let header = Header { span: self.span(), _witness: Witness };
            let copy = Chunk(Arc::from_header_and_slice(header, &self.0.slice));
            garbage(replace(self, copy));
        }
        Arc::get_mut(&mut self.0).expect("nobody else holds a chunk that was made or found unique here")
    }

    /// Removes every element. A chunk that is shared is replaced, and goes to `garbage`.
    pub(super) fn clear(&mut self, garbage: &mut impl FnMut(Chunk)) {
        match Arc::get_mut(&mut self.0) {
            Some(inner) => inner.header.span = ElementSpan::default(),
            None => garbage(replace(self, Chunk::empty(0))),
        }
    }

    /// Adds an element at an end; returns `false` if there is no room.
    #[inline]
    pub(super) fn push(
        &mut self,
        end: End,
        element: Element<'_>,
        room: Room,
        garbage: &mut impl FnMut(Chunk),
    ) -> bool {
        let span = self.span();
        if usize::from(span.count) >= room.count {
            return false;
        }
        if span.count == 0 {
            let at = if end == End::Front { self.capacity() as u16 } else { 0 };
            let uniform = uniform_len(element) as u16;
            self.unshare(garbage).header.span = ElementSpan { start: at, end: at, count: 0, uniform };
        } else if span.uniform != 0 && uniform_len(element) != usize::from(span.uniform) {
            let more = entry::len(element);
            if self.listpack_bytes() + more > room.bytes {
                return false;
            }
            self.become_entries(end, more, garbage);
        }
        let mut need = size(element, self.uniform());
        if self.room_at(end) < need {
            self.become_uniform(end, element, garbage);
            need = size(element, self.uniform());
            if !self.make_room(end, need, room.bytes, garbage) {
                return false;
            }
        }
        let uniform = self.uniform();
        let inner = self.unshare(garbage);
        let span = &mut inner.header.span;
        let at = match end {
            End::Front => {
                span.start -= need as u16;
                span.start
            }
            End::Back => {
                span.end += need as u16;
                span.end - need as u16
            }
        };
        span.count += 1;
        write(&mut inner.slice[usize::from(at)..usize::from(at) + need], element, uniform);
        true
    }

    /// Converts a uniform chunk to a row of entries with `more` bytes of room.
    fn become_entries(&mut self, end: End, more: usize, garbage: &mut impl FnMut(Chunk)) {
        let bytes = self.listpack_bytes();
        let mut other = Chunk::empty((bytes + more).max(self.capacity()));
        let capacity = other.capacity();
        let start = if end == End::Front { capacity - bytes } else { 0 };
        let span = ElementSpan {
            start: start as u16,
            end: (start + bytes) as u16,
            count: self.span().count,
            uniform: 0,
        };
        let inner = other.unshare(garbage);
        inner.header.span = span;
        let mut rest = &mut inner.slice[start..start + bytes];
        for element in self.elements() {
            let written = write(rest, element, 0);
            rest = &mut rest[written..];
        }
        garbage(replace(self, other));
    }

    /// Converts a row of entries to a uniform chunk with room for `element`, if all present elements have its
    /// length.
    #[cold]
    fn become_uniform(&mut self, end: End, element: Element<'_>, garbage: &mut impl FnMut(Chunk)) {
        let uniform = uniform_len(element);
        if uniform == 0 || self.uniform() != 0 || !self.elements().all(|one| uniform_len(one) == uniform) {
            return;
        }
        let bytes = self.count() * uniform;
        let mut other = Chunk::empty(bytes + uniform);
        let start = if end == End::Front { other.capacity() - bytes } else { 0 };
        let span = ElementSpan {
            start: start as u16,
            end: (start + bytes) as u16,
            count: self.span().count,
            uniform: uniform as u16,
        };
        let inner = other.unshare(garbage);
        inner.header.span = span;
        let mut rest = &mut inner.slice[start..start + bytes];
        for element in self.elements() {
            let written = write(rest, element, uniform);
            rest = &mut rest[written..];
        }
        garbage(replace(self, other));
    }

    /// Free bytes at an end.
    #[inline]
    fn room_at(&self, end: End) -> usize {
        match end {
            End::Front => usize::from(self.span().start),
            End::Back => self.capacity() - usize::from(self.span().end),
        }
    }

    /// Makes room for `need` bytes at an end; returns `false` if `limit` does not allow that.
    #[inline]
    fn make_room(&mut self, end: End, need: usize, limit: usize, garbage: &mut impl FnMut(Chunk)) -> bool {
        self.room_at(end) >= need || self.make_room_slowly(end, need, limit, garbage)
    }

    #[cold]
    fn make_room_slowly(
        &mut self,
        end: End,
        need: usize,
        limit: usize,
        garbage: &mut impl FnMut(Chunk),
    ) -> bool {
        let (capacity, used) = (self.capacity(), self.row().len());
        let limit = limit.min(CAPACITY_MAX);
        if used + need > limit {
            return false;
        }
        let span = self.span();
        let free = capacity - used;
        if free >= need.max(capacity / 8) {
            // The other end has room and keeps half of it, so that alternating pushes at both ends rarely
            // move the elements.
            let spare = (free - need) / 2;
            let start = if end == End::Front { need + spare } else { spare };
            let inner = self.unshare(garbage);
            inner.slice.copy_within(usize::from(span.start)..usize::from(span.end), start);
            inner.header.span = ElementSpan { start: start as u16, end: (start + used) as u16, ..span };
            return true;
        }
        if capacity >= limit {
            return false;
        }
        // From 512 bytes on, only the needed bytes are requested: rounding them up to the allocator's next
        // size class, which is larger by a quarter or less, leaves room for growth.
        let wanted = used + need;
        let wanted = if wanted < 512 { (wanted * 3 / 2).min(limit.max(wanted)) } else { wanted };
        let mut other = Chunk::empty(wanted);
        let start = if end == End::Front { other.capacity() - used } else { 0 };
        let inner = other.unshare(garbage);
        inner.slice[start..start + used].copy_from_slice(self.row());
        inner.header.span = ElementSpan { start: start as u16, end: (start + used) as u16, ..span };
        garbage(replace(self, other));
        true
    }

    /// Removes `count` elements from an end, or all if there are fewer.
    #[inline]
    pub(super) fn remove(&mut self, end: End, count: usize, garbage: &mut impl FnMut(Chunk)) {
        let total = self.count();
        if count >= total {
            return self.clear(garbage);
        }
        let index = if end == End::Front { count } else { total - count };
        let at = self.offset(index) as u16;
        let span = &mut self.unshare(garbage).header.span;
        match end {
            End::Front => span.start += at,
            End::Back => span.end = span.start + at,
        }
        span.count -= count as u16;
    }

    /// Offset in the row of the element at `index`, or the end of the row if `index` is the number of
    /// elements.
    fn offset(&self, index: usize) -> usize {
        row_offset(self.row(), self.count(), self.uniform(), index)
    }

    /// Replaces the elements with the indexes `at` by at most one other element in place; returns `false` and
    /// leaves the chunk unchanged if that is impossible.
    pub(super) fn splice(
        &mut self,
        at: Range<usize>,
        element: Option<Element<'_>>,
        room: Room,
        garbage: &mut impl FnMut(Chunk),
    ) -> bool {
        let uniform = self.uniform();
        if element.is_some_and(|element| uniform != 0 && uniform_len(element) != uniform) {
            return false;
        }
        let (removed, added) = (at.len(), usize::from(element.is_some()));
        if self.count() - removed + added > room.count.max(self.count()) {
            return false;
        }
        let (from, to) = (self.offset(at.start), self.offset(at.end));
        let need = element.map_or(0, |element| size(element, uniform));
        if need > to - from && !self.make_room(End::Back, need - (to - from), room.bytes, garbage) {
            return false;
        }
        let inner = self.unshare(garbage);
        let span = &mut inner.header.span;
        let start = usize::from(span.start);
        let end = usize::from(span.end);
        inner.slice.copy_within(start + to..end, start + from + need);
        span.end = (end - (to - from) + need) as u16;
        span.count = (usize::from(span.count) - removed + added) as u16;
        if let Some(element) = element {
            write(&mut inner.slice[start + from..start + from + need], element, uniform);
        }
        true
    }

    /// A copy in the smallest size class that holds the elements, if that saves an eighth.
    pub(super) fn fitted(&self) -> Option<Chunk> {
        let wanted = class(self.row().len() + OVERHEAD);
        let has = self.capacity() + OVERHEAD;
        (wanted < has && has - wanted >= has / 8)
            .then(|| Chunk::of_row(self.row(), self.count(), self.uniform()))
    }
}

/// The size class of the allocator for `bytes`: there are four classes from one power of two to the next.
pub(super) fn class(bytes: usize) -> usize {
    let bytes = bytes.max(64);
    let step = (1 << (bytes - 1).ilog2()) / 4;
    bytes.next_multiple_of(step)
}

/// Bytes that a row takes in a listpack.
pub(super) fn row_listpack_bytes(row_len: usize, count: usize, uniform: usize) -> usize {
    // A uniform element counts as a listpack string of that length.
    if uniform == 0 { row_len } else { count * entry::string_len(uniform) }
}

/// The element's length if a uniform chunk may hold the element, otherwise 0.
#[inline]
fn uniform_len(element: Element<'_>) -> usize {
    match element {
        Element::Int(_) => 0,
        Element::Bytes(bytes) => bytes.len(),
    }
}

/// Number of bytes that an element takes in a chunk.
#[inline]
fn size(element: Element<'_>, uniform: usize) -> usize {
    if uniform == 0 { entry::len(element) } else { uniform }
}

#[inline]
fn write(out: &mut [u8], element: Element<'_>, uniform: usize) -> usize {
    match element {
        Element::Bytes(bytes) if uniform != 0 => {
            out[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        }
        Element::Bytes(_) | Element::Int(_) => entry::write(out, element),
    }
}

/// Offset in a row of the element at `index`, or the end of the row if `index` is `count`.
pub(super) fn row_offset(row: &[u8], count: usize, uniform: usize, index: usize) -> usize {
    if index >= count {
        row.len()
    } else if uniform != 0 {
        (index * uniform).min(row.len())
    } else {
        entry::seek(row, count, index).unwrap_or(row.len())
    }
}

/// An iterator over the elements of a row, from both ends.
#[derive(Clone, Debug)]
pub(super) enum RowIter<'a> {
    Entries(entry::Iter<'a>),
    Uniform(std::slice::ChunksExact<'a, u8>),
}

impl<'a> RowIter<'a> {
    #[inline]
    pub(super) fn new(row: &'a [u8], uniform: usize) -> RowIter<'a> {
        match uniform {
            0 => RowIter::Entries(entry::Iter::new(row)),
            len => RowIter::Uniform(row.chunks_exact(len)),
        }
    }

    /// Bytes that were not read yet.
    pub(super) fn rest_len(&self) -> usize {
        match self {
            RowIter::Entries(entries) => entries.rest().len(),
            // All elements have the length of the next one.
            RowIter::Uniform(chunks) => chunks.len() * chunks.clone().next().map_or(0, <[u8]>::len),
        }
    }
}

impl<'a> Iterator for RowIter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            RowIter::Entries(entries) => entries.next(),
            RowIter::Uniform(chunks) => chunks.next().map(Element::Bytes),
        }
    }
}

impl DoubleEndedIterator for RowIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            RowIter::Entries(entries) => entries.next_back(),
            RowIter::Uniform(chunks) => chunks.next_back().map(Element::Bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_allocator_s() {
        let classes =
            [64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 1024, 1280, 4096, 5120, 6144, 7168, 8192];
        for class_bytes in classes {
            assert_eq!(class(class_bytes), class_bytes);
            assert!(class(class_bytes - 1) <= class_bytes && class(class_bytes + 1) > class_bytes);
        }
    }
}

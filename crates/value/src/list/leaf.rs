//! A leaf: a chunk, a string too long for one, or a compressed chunk.

use std::mem::replace;

use sluice_base::{Bytes, lzf};
use sluice_collections::listpack::{Element, entry};
use triomphe::{Arc, HeaderSlice};

use super::ListContext;
use super::chunk::{CAPACITY_MAX, Chunk, End, OVERHEAD, Room, row_listpack_bytes};

/// Elements of a list in one allocation.
#[derive(Clone, Debug)]
pub(super) enum Leaf {
    Chunk(Chunk),
    /// One string that is too long for a chunk.
    Large(Bytes),
    /// A chunk that is only read, into a buffer of the reader's.
    Compressed(Compressed),
}

/// A chunk's row, compressed.
#[derive(Clone, Debug)]
pub(super) struct Compressed(Arc<HeaderSlice<Shape, [u8]>>);

/// The row before compression.
#[derive(Clone, Copy, Debug)]
struct Shape {
    row_len: u16,
    count: u16,
    uniform: u16,
}

impl Compressed {
    /// `None` where compressing does not save enough.
    fn of(chunk: &Chunk) -> Option<Compressed> {
        let row = chunk.row();
        if row.len() < COMPRESSED_FROM {
            return None;
        }
        let small = lzf::compress(row, row.len() - COMPRESSION_GAIN)?;
        let shape =
            Shape { row_len: row.len() as u16, count: chunk.count() as u16, uniform: chunk.uniform() as u16 };
        Some(Compressed(Arc::from_header_and_slice(shape, &small)))
    }

    /// The row, in place of what is in `scratch`.
    pub(super) fn read_into(&self, scratch: &mut Vec<u8>) {
        let read = lzf::decompress_into(&self.0.slice, usize::from(self.0.header.row_len), scratch);
        assert!(read.is_some(), "what was compressed here is read here");
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.0.header.count)
    }

    pub(super) fn uniform(&self) -> usize {
        usize::from(self.0.header.uniform)
    }

    fn chunk(&self) -> Chunk {
        let mut row = Vec::new();
        self.read_into(&mut row);
        Chunk::of_row(&row, self.count(), self.uniform())
    }
}

/// Rows of fewer bytes are not compressed.
const COMPRESSED_FROM: usize = 48;
/// Bytes that compression must save.
const COMPRESSION_GAIN: usize = 8;

/// What a leaf, or all of a tree's, amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Leaves.
    pub(super) leaves: usize,
    /// Elements.
    pub(super) count: usize,
    /// Bytes of their entries in a listpack.
    pub(super) listpack: usize,
    /// Bytes allocated.
    pub(super) heap: usize,
}

impl Sums {
    pub(super) fn plus(self, other: Sums) -> Sums {
        Sums {
            leaves: self.leaves + other.leaves,
            count: self.count + other.count,
            listpack: self.listpack + other.listpack,
            heap: self.heap + other.heap,
        }
    }
}

impl Leaf {
    /// A leaf of one element, a chunk if the element has `element_max` bytes at most. `room` is for a chunk that will grow
    /// at an end.
    pub(super) fn of(value: &[u8], element_max: usize, end: End, room: usize) -> Leaf {
        if value.len() > element_max {
            return Leaf::Large(Bytes::copy_from(value));
        }
        let element = Element::of(value);
        let mut chunk = Chunk::empty(room.max(entry::len(element)));
        let all = Room { bytes: CAPACITY_MAX, count: usize::MAX };
        let pushed = chunk.push(end, element, all, &mut |_| {});
        assert!(pushed, "a chunk made for an element has room for it");
        Leaf::Chunk(chunk)
    }

    /// Whether the leaf has another owner.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Leaf::Chunk(chunk) => chunk.is_shared(),
            Leaf::Large(bytes) => bytes.is_shared(),
            Leaf::Compressed(small) => !small.0.is_unique(),
        }
    }

    /// Bytes allocated that have no other owner.
    pub(super) fn own_bytes(&self) -> usize {
        if self.is_shared() { 0 } else { self.sums().heap }
    }

    /// O(1).
    pub(super) fn sums(&self) -> Sums {
        match self {
            Leaf::Chunk(chunk) => Sums {
                leaves: 1,
                count: chunk.count(),
                listpack: chunk.listpack_bytes(),
                heap: chunk.capacity() + OVERHEAD,
            },
            Leaf::Large(bytes) => Sums {
                leaves: 1,
                count: 1,
                listpack: entry::string_len(bytes.len()),
                heap: 40 + bytes.capacity(),
            },
            Leaf::Compressed(small) => Sums {
                leaves: 1,
                count: small.count(),
                listpack: row_listpack_bytes(
                    usize::from(small.0.header.row_len),
                    small.count(),
                    small.uniform(),
                ),
                heap: 8 + size_of::<Shape>() + small.0.slice.len(),
            },
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        match self {
            Leaf::Chunk(chunk) => chunk.count(),
            Leaf::Large(_) => 1,
            Leaf::Compressed(small) => small.count(),
        }
    }

    /// Whether it is a compressed chunk.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self, Leaf::Compressed(_))
    }

    /// Compresses a chunk where that helps.
    pub(super) fn compress(&mut self, context: &mut ListContext) {
        if let Leaf::Chunk(chunk) = self
            && let Some(small) = Compressed::of(chunk)
        {
            context.discard(replace(self, Leaf::Compressed(small)));
        }
    }

    /// Makes a compressed chunk one that can be written.
    pub(super) fn decompress(&mut self, context: &mut ListContext) {
        if let Leaf::Compressed(small) = self {
            let chunk = small.chunk();
            context.discard(replace(self, Leaf::Chunk(chunk)));
        }
    }

    /// Gives back the room that a chunk will not need, because others follow it.
    pub(super) fn fit(&mut self, context: &mut ListContext) {
        if let Leaf::Chunk(chunk) = self
            && let Some(fitted) = chunk.fitted()
        {
            context.discard(replace(self, Leaf::Chunk(fitted)));
        }
    }

    /// Removes elements from an end: fewer than there are.
    pub(super) fn remove(&mut self, end: End, count: usize, context: &mut ListContext) {
        self.decompress(context);
        match self {
            Leaf::Chunk(chunk) => chunk.remove(end, count, &mut |chunk| context.discard(Leaf::Chunk(chunk))),
            Leaf::Large(_) | Leaf::Compressed(_) => {}
        }
    }

    /// Puts an element, which goes into a chunk if it has `element_max` bytes at most, in the place of those with these
    /// indexes: of one, or of none. The leaves that follow this one now.
    pub(super) fn splice(
        &mut self,
        at: std::ops::Range<usize>,
        value: &[u8],
        element_max: usize,
        context: &mut ListContext,
    ) -> Vec<Leaf> {
        self.decompress(context);
        let room = context.limits.room();
        let element = (value.len() <= element_max).then(|| Element::of(value));
        if let (Leaf::Chunk(chunk), true) = (&mut *self, element.is_some())
            && chunk.splice(at.clone(), element, room, &mut |chunk| context.discard(Leaf::Chunk(chunk)))
        {
            return Vec::new();
        }
        let mut leaves = Vec::new();
        match self {
            Leaf::Chunk(chunk) => {
                let mut elements: Vec<Element<'_>> = chunk.elements().collect();
                if element.is_some() {
                    elements.splice(at, element);
                    build(&elements, room, &mut leaves);
                } else {
                    build(&elements[..at.start], room, &mut leaves);
                    leaves.push(Leaf::Large(Bytes::copy_from(value)));
                    build(&elements[at.end..], room, &mut leaves);
                }
            }
            Leaf::Large(long) => {
                leaves.push(Leaf::of(value, element_max, End::Back, 0));
                if at.is_empty() {
                    leaves.push(Leaf::Large(long.clone()));
                }
            }
            Leaf::Compressed(_) => {}
        }
        let rest = leaves.split_off(1);
        if let Some(first) = leaves.pop() {
            context.discard(replace(self, first));
        }
        rest
    }

    /// Removes up to `count` elements that equal `wanted`, those nearest to `from` first; how many. A leaf of which
    /// nothing is left has a count of 0 afterwards.
    pub(super) fn remove_equal(
        &mut self,
        wanted: Element<'_>,
        count: usize,
        from: End,
        context: &mut ListContext,
    ) -> usize {
        let (chunk, removed) = match self {
            Leaf::Compressed(small) => without(&small.chunk(), wanted, count, from),
            Leaf::Chunk(chunk) => without(chunk, wanted, count, from),
            Leaf::Large(long) => {
                let equal = count > 0 && Element::of(long) == wanted;
                (Chunk::empty(0), usize::from(equal))
            }
        };
        if removed > 0 {
            context.discard(replace(self, Leaf::Chunk(chunk)));
        }
        removed
    }

    /// Takes the elements of the next leaf into this one, when both are sparse; whether it did.
    pub(super) fn join(&mut self, next: &Leaf, context: &mut ListContext) -> bool {
        let (Leaf::Chunk(one), Leaf::Chunk(other)) = (&*self, next) else { return false };
        let room = context.limits.room();
        let bytes = one.listpack_bytes() + other.listpack_bytes();
        let sparse = room.bytes / 4;
        if one.row().len().min(other.row().len()) > sparse
            || bytes > room.bytes / 4 * 3
            || one.count() + other.count() > room.count
        {
            return false;
        }
        let elements: Vec<Element<'_>> = one.elements().chain(other.elements()).collect();
        let joined = Chunk::of(&elements);
        context.discard(replace(self, Leaf::Chunk(joined)));
        true
    }
}

/// The chunk without elements that equal `wanted`, and how many that were.
fn without(chunk: &Chunk, wanted: Element<'_>, count: usize, from: End) -> (Chunk, usize) {
    let mut kept: Vec<Element<'_>> = Vec::with_capacity(chunk.count());
    let mut removed = 0;
    let keep = |element: &Element<'_>| {
        let equal = removed < count && *element == wanted;
        removed += usize::from(equal);
        !equal
    };
    match from {
        End::Front => kept.extend(chunk.elements().filter(keep)),
        End::Back => {
            kept.extend(chunk.elements().rev().filter(keep));
            kept.reverse();
        }
    }
    (Chunk::of(&kept), removed)
}

/// Makes chunks of the elements: one, or several of about the same size.
fn build(elements: &[Element<'_>], room: Room, leaves: &mut Vec<Leaf>) {
    let total: usize = elements.iter().map(|&element| entry::len(element)).sum();
    let parts = if total <= room.bytes { 1 } else { total / (room.bytes / 4 * 3) + 1 };
    let target = total / parts + 1;
    let (mut from, mut bytes) = (0, 0);
    for (at, &element) in elements.iter().enumerate() {
        let len = entry::len(element);
        if at > from && (bytes + len > room.bytes || bytes >= target || at - from >= room.count) {
            leaves.push(Leaf::Chunk(Chunk::of(&elements[from..at])));
            (from, bytes) = (at, 0);
        }
        bytes += len;
    }
    if from < elements.len() {
        leaves.push(Leaf::Chunk(Chunk::of(&elements[from..])));
    }
}

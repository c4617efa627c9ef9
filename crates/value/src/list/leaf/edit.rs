//! Changes of a leaf. Replaced parts go to the garbage of the context.

use std::mem::replace;

use sluice_base::Bytes;
use sluice_collections::listpack::{Element, entry};

use super::{Compressed, Leaf};
use crate::list::ListContext;
use crate::list::chunk::{Chunk, End, Room};

impl Leaf {
    /// Compresses a chunk if that saves enough bytes.
    pub(in crate::list) fn compress(&mut self, context: &mut ListContext) {
        if let Leaf::Chunk(chunk) = self
            && let Some(small) = Compressed::of(chunk)
        {
            context.discard(replace(self, Leaf::Compressed(small)));
        }
    }

    /// Decompresses a compressed chunk, so that it can be written.
    pub(in crate::list) fn decompress(&mut self, context: &mut ListContext) {
        if let Leaf::Compressed(small) = self {
            let chunk = small.chunk();
            context.discard(replace(self, Leaf::Chunk(chunk)));
        }
    }

    /// Frees the unused bytes of a chunk that is not expected to grow, because a new leaf takes its place at
    /// the end of the list.
    pub(in crate::list) fn fit(&mut self, context: &mut ListContext) {
        if let Leaf::Chunk(chunk) = self
            && let Some(fitted) = chunk.fitted()
        {
            context.discard(replace(self, Leaf::Chunk(fitted)));
        }
    }

    /// Removes `count` elements at an end. The leaf must have more elements than that.
    pub(in crate::list) fn remove(&mut self, end: End, count: usize, context: &mut ListContext) {
        self.decompress(context);
        match self {
            Leaf::Chunk(chunk) => chunk.remove(end, count, &mut |chunk| context.discard(Leaf::Chunk(chunk))),
            Leaf::Large(_) | Leaf::Compressed(_) => {}
        }
    }

    /// Replaces the element in the range `at` of indexes by `value`; an empty range means that `value` is
    /// inserted there. The value goes into a chunk if it has at most `element_max` bytes. Returns the new
    /// leaves that follow this one.
    pub(in crate::list) fn splice(
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

    /// Removes up to `count` elements equal to `wanted`, beginning at the end `from`; returns the number
    /// removed. A leaf that loses all elements has a count of 0 afterwards.
    pub(in crate::list) fn remove_equal(
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

    /// Adds the elements of the next leaf to this one if one of the two is sparse and both fit into three
    /// quarters of a chunk; returns whether it did.
    pub(in crate::list) fn join(&mut self, next: &Leaf, context: &mut ListContext) -> bool {
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

/// Copies the chunk without up to `count` elements equal to `wanted`, namely those nearest to the end `from`.
/// Returns the copy and the number of elements left out.
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

/// Makes chunks of the elements: one, or several of similar size.
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

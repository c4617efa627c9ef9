//! Large arguments that were received into memory of their own and can become values without a copy.
//!
//! Such an argument is not a range of its request's input: the input holds the bytes before it and the
//! bytes after it, joined. Its span begins beyond the end of any input. Reading an argument therefore
//! costs no more than the bounds check that is needed in any case, and only a span outside the input is
//! looked up here.

use sluice_base::{Bytes, heap};

use crate::span::Span;

/// The arguments of one request that were received apart from the request's input, in their order.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    list: Vec<ApartArgument>,
    /// Sum of the arguments' lengths in bytes.
    bytes: usize,
}

/// An argument that was received apart, and its position in the request.
#[derive(Clone, Debug)]
struct ApartArgument {
    /// Offset among the request's other bytes at which the argument is missing.
    at: usize,
    bytes: Bytes,
}

impl Apart {
    /// The empty list, for requests without arguments that were received apart.
    pub const NONE: &'static Apart = &Apart { list: Vec::new(), bytes: 0 };

    /// Whether no argument was received apart.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Total length in bytes of the arguments that were received apart.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes allocated for the arguments, without the list.
    pub fn heap_bytes(&self) -> usize {
        self.list.iter().map(|piece| piece.bytes.capacity()).sum()
    }

    /// Bytes of heap memory of the list and the arguments, as the allocator rounds them.
    pub(crate) fn footprint(&self) -> usize {
        heap::vec(&self.list) + self.list.iter().map(|piece| piece.bytes.footprint()).sum::<usize>()
    }

    /// Removes all arguments; the list keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// Appends an argument that is missing from the request's other bytes at `at`; the result is its span.
    pub(crate) fn push(&mut self, at: usize, bytes: Bytes) -> Span {
        let span = Span { start: usize::MAX - self.list.len(), len: bytes.len() };
        self.bytes += bytes.len();
        self.list.push(ApartArgument { at, bytes });
        span
    }

    /// The argument at `span`. Panics if `span` is not one of this list.
    #[cold]
    #[inline(never)]
    pub fn get(&self, span: Span) -> &Bytes {
        &self.list[usize::MAX - span.start].bytes
    }

    /// Appends the whole request to `to`; `rest` is the request without these arguments.
    pub(crate) fn join(&self, rest: &[u8], to: &mut Vec<u8>) {
        let mut from = 0;
        for piece in &self.list {
            to.extend_from_slice(&rest[from..piece.at]);
            to.extend_from_slice(&piece.bytes);
            from = piece.at;
        }
        to.extend_from_slice(&rest[from..]);
    }

    /// The range of the argument `span` in the whole request. The field `at` does not count arguments that
    /// were received apart, so the lengths of those before `span` are added.
    pub(crate) fn joined(&self, span: Span) -> Span {
        let index = usize::MAX - span.start;
        let own = self.list.get(index);
        let at = own.map_or(span.start, |piece| piece.at);
        let is_before = |(number, piece): &(usize, &ApartArgument)| match own {
            Some(_) => *number < index,
            None => piece.at <= at,
        };
        let before = self.list.iter().enumerate().filter(is_before).map(|(_, piece)| piece.bytes.len());
        Span { start: at + before.sum::<usize>(), len: span.len }
    }
}

/// The bytes of `span`: a range of `input`, or an argument that was received apart. Panics if `span` is
/// neither.
#[inline(always)]
pub fn named<'a>(span: Span, input: &'a [u8], apart: &'a Apart) -> &'a [u8] {
    match input.get(span.start..span.start.wrapping_add(span.len)) {
        Some(bytes) => bytes,
        None => apart.get(span),
    }
}

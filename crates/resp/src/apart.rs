//! Large arguments that were received into memory of their own, so that they can become values without being
//! copied.
//!
//! Such an argument is no range of its request's input: the input has the bytes before it and behind it,
//! together. Its span begins beyond every input, so that reading an argument costs the one question about
//! bounds that it costs anyway, and only a span that no input contains is looked up here.

use sluice_base::{Bytes, heap};

use crate::span::Span;

/// The arguments of one request that lie apart from its input, in order.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    list: Vec<ApartArgument>,
    /// Of all of them.
    bytes: usize,
}

/// One of them.
#[derive(Clone, Debug)]
struct ApartArgument {
    /// Where it is missing from the request's other bytes.
    at: usize,
    bytes: Bytes,
}

impl Apart {
    /// No argument.
    pub const NONE: &'static Apart = &Apart { list: Vec::new(), bytes: 0 };

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes of all arguments that are here.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes allocated for them.
    pub fn heap_bytes(&self) -> usize {
        self.list.iter().map(|piece| piece.bytes.capacity()).sum()
    }

    /// Bytes that the allocator has given for the list and the arguments.
    pub(crate) fn footprint(&self) -> usize {
        heap::vec(&self.list) + self.list.iter().map(|piece| piece.bytes.footprint()).sum::<usize>()
    }

    /// Forgets them and keeps the room for their list.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// Appends one that is missing from the request's other bytes at `at`, and names it.
    pub(crate) fn push(&mut self, at: usize, bytes: Bytes) -> Span {
        let span = Span { start: usize::MAX - self.list.len(), len: bytes.len() };
        self.bytes += bytes.len();
        self.list.push(ApartArgument { at, bytes });
        span
    }

    /// The argument that `span` names. Panics when it names none.
    #[cold]
    #[inline(never)]
    pub fn get(&self, span: Span) -> &Bytes {
        &self.list[usize::MAX - span.start].bytes
    }

    /// Appends the whole request to `to`, of which `rest` are the bytes that are not here.
    pub(crate) fn join(&self, rest: &[u8], to: &mut Vec<u8>) {
        let mut from = 0;
        for piece in &self.list {
            to.extend_from_slice(&rest[from..piece.at]);
            to.extend_from_slice(&piece.bytes);
            from = piece.at;
        }
        to.extend_from_slice(&rest[from..]);
    }

    /// Where the argument that `span` names lies in the whole request, whose other bytes `span` counts from.
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

/// The bytes that `span` names: of `input`, or of an argument apart.
#[inline(always)]
pub fn named<'a>(span: Span, input: &'a [u8], apart: &'a Apart) -> &'a [u8] {
    match input.get(span.start..span.start.wrapping_add(span.len)) {
        Some(bytes) => bytes,
        None => apart.get(span),
    }
}

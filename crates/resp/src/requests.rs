//! The parser's result: a reused arena of requests and their arguments.

use crate::apart::{Apart, named};
use crate::span::Span;
use sluice_base::heap;
use std::ops::Range;

/// The complete requests of one call of [`crate::Parser::parse`], in order.
///
/// Spans are relative to the input of that call, so the same slice must be passed to [`Requests::at`].
#[derive(Debug, Default)]
pub struct Requests {
    /// Slots for arguments, of which the first `used` belong to requests. Up to `ARGS_KEPT` slots are kept
    /// from call to call. The room for a request is checked once, so storing an argument needs no check.
    args: Vec<Span>,
    used: usize,
    list: Vec<RequestEntry>,
    /// Words of inline requests. They are not ranges of the input, because escapes in them are resolved.
    pub(crate) words: Vec<u8>,
    /// Arguments apart, that is, large arguments that were received into memory of their own (`apart.rs`).
    /// All of them belong to the first request, which begins at the start of the input.
    apart: Apart,
}

#[derive(Clone, Copy, Debug)]
struct RequestEntry {
    /// Index of the first argument.
    first: usize,
    argc: usize,
    /// The request's offset in the input and its length in bytes.
    raw: Span,
    form: RequestForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestForm {
    Multibulk,
    Inline,
}

/// One request. It has at least one argument, the first of which is the name of the command.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    /// The bytes from which `start` counts.
    input: &'a [u8],
    /// Offset of the request in `input`.
    start: usize,
    /// Number of bytes in which the request arrived, including arguments apart.
    wire_len: usize,
    /// Arguments apart of the arena's first request; only that request's spans refer to them.
    apart: &'a Apart,
}

impl Requests {
    /// An empty arena; nothing is allocated before the first request is parsed.
    pub fn new() -> Requests {
        Requests::default()
    }

    /// Number of complete requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no requests.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes the requests. Keeps the memory, but no more than the requests of usual clients need.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        self.used = 0;
        self.words.clear();
        if self.args.len() > ARGS_KEPT || self.words.capacity() > WORDS_KEPT || !self.apart.is_empty() {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.args.truncate(ARGS_KEPT);
        self.args.shrink_to_fit();
        self.words.shrink_to(WORDS_KEPT);
        self.apart.clear();
    }

    /// Request number `index`; `input` is the slice that was parsed. Panics if there is no such request.
    #[inline]
    pub fn at<'a>(&'a self, index: usize, input: &'a [u8]) -> Request<'a> {
        self.request(&self.list[index], input)
    }

    /// The requests in `numbers`, in order; `input` is the slice that was parsed. Panics if there are fewer.
    #[inline(always)]
    pub fn range<'a>(
        &'a self,
        numbers: Range<usize>,
        input: &'a [u8],
    ) -> impl ExactSizeIterator<Item = Request<'a>> {
        self.list[numbers].iter().map(move |entry| self.request(entry, input))
    }

    #[inline(always)]
    fn request<'a>(&'a self, entry: &RequestEntry, input: &'a [u8]) -> Request<'a> {
        Request {
            bytes: match entry.form {
                RequestForm::Multibulk => input,
                RequestForm::Inline => &self.words,
            },
            spans: &self.args[entry.first..entry.first + entry.argc],
            input,
            start: entry.raw.start,
            wire_len: entry.raw.len,
            apart: &self.apart,
        }
    }

    /// Offset in the input of the first byte after request number `index`. Panics if there is
    /// no such request.
    pub fn end_of(&self, index: usize) -> usize {
        // The first request's length includes the arguments apart, which are not in the input and all
        // belong to this request.
        let raw = self.list[index].raw;
        if raw.start == 0 { raw.len - self.apart.bytes() } else { raw.start + raw.len }
    }

    /// The requests in order; `input` is the slice that was parsed.
    pub fn iter<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = Request<'a>> {
        self.range(0..self.len(), input)
    }

    /// Takes over the first request's arguments apart. `apart` gets this arena's old list, so that its memory
    /// is used again.
    pub(crate) fn take_apart(&mut self, apart: &mut Apart) {
        std::mem::swap(&mut self.apart, apart);
    }

    /// Bytes of heap memory of the requests, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.args) + heap::vec(&self.list) + heap::vec(&self.words) + self.apart.footprint()
    }

    /// Bytes allocated for arguments, requests and inline words.
    pub fn capacity_bytes(&self) -> usize {
        self.args.capacity() * size_of::<Span>()
            + self.list.capacity() * size_of::<RequestEntry>()
            + self.words.capacity()
            + self.apart.heap_bytes()
    }

    /// Room for the next request's arguments: `count` slots whose contents are meaningless.
    #[inline(always)]
    pub(crate) fn room(&mut self, count: usize) -> &mut [Span] {
        if self.args.len() - self.used < count {
            self.grow(count);
        }
        &mut self.args[self.used..self.used + count]
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        let len = (self.used + count).max(self.args.len() * 2).max(ARGS_FIRST);
        self.args.resize(len, Span::default());
    }

    /// Makes a request of the first `argc` arguments (at least 1) that were written to [`Requests::room`].
    #[inline(always)]
    pub(crate) fn conclude(&mut self, argc: usize, raw: Span, form: RequestForm) {
        debug_assert!(argc > 0);
        self.list.push(RequestEntry { first: self.used, argc, raw, form });
        self.used += argc;
    }
}

impl<'a> Request<'a> {
    /// A request whose arguments are these ranges of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span], raw: Span) -> Request<'a> {
        Request { bytes, spans, input: bytes, start: raw.start, wire_len: raw.len, apart: Apart::NONE }
    }

    /// Whether the request arrived as a line of words, which are not ranges of its bytes.
    pub(crate) fn is_inline(&self) -> bool {
        self.input.get(self.start) != Some(&b'*')
    }

    /// Number of arguments, including the command's name; at least 1.
    #[inline]
    pub(crate) fn argc(&self) -> usize {
        self.spans.len()
    }

    /// Argument number `index`; 0 is the command's name. Panics if there is no such argument.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        named(self.spans[index], self.bytes, self.apart)
    }

    /// The arguments in order.
    #[inline]
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (bytes, apart) = (self.bytes, self.apart);
        self.spans.iter().map(move |span| named(*span, bytes, apart))
    }

    /// The arguments as ranges of [`Request::bytes`] or of [`Request::apart`], for holders that keep no
    /// iterator.
    #[inline]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The arguments that are not ranges of [`Request::bytes`]; usually there are none.
    #[inline]
    pub fn apart(&self) -> &'a Apart {
        self.apart
    }

    /// The bytes to which the spans are relative.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the request as they arrived, including line ends, without the arguments apart.
    #[inline]
    pub(crate) fn raw(&self) -> &'a [u8] {
        let own = self.own_apart().bytes();
        &self.input[self.start..self.start + self.wire_len - own]
    }

    /// The arguments of this request that are not ranges of [`Request::bytes`].
    pub(crate) fn own_apart(&self) -> &'a Apart {
        if self.start == 0 { self.apart } else { Apart::NONE }
    }

    /// Appends the bytes of the request as they arrived.
    pub fn push_wire(&self, out: &mut Vec<u8>) {
        self.own_apart().join(self.raw(), out);
    }

    /// Number of bytes in which the whole request arrived; a replica's offset counts these bytes.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.wire_len
    }

    /// Whether the request is the first line or a header of HTTP, which a browser sends if a web page
    /// names this port. The connection is then closed without a reply.
    pub fn is_http(&self) -> bool {
        let name = self.arg(0);
        name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
    }
}

/// Number of arguments for which room is kept. This is enough for a full batch of 1,024 requests of four
/// arguments.
const ARGS_KEPT: usize = 4096;
const ARGS_FIRST: usize = 64;
/// Maximum capacity in bytes of the buffer for the words of inline requests that is kept from call to call.
const WORDS_KEPT: usize = 64 * 1024;

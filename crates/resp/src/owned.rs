//! Requests that outlive the buffer from which they were parsed, because they are queued by MULTI, blocked,
//! or postponed, for example by CLIENT PAUSE.
//!
//! All requests of an [`OwnedRequests`] share one buffer and one list of ranges, so a queue of a thousand
//! commands needs only a few allocations. A request keeps the bytes in which it arrived, because a
//! replica's offset counts them; large arguments that were received apart from these bytes (`apart.rs`) are
//! inserted again at their positions. The words of an inline request are stored separately after its line,
//! because their escapes are already resolved.

use crate::requests::Request;
use crate::span::Span;
use sluice_base::heap;

/// The arguments of one command of a script, which no client has sent. Reused from command to command.
#[derive(Debug, Default)]
pub struct ArgumentList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgumentList {
    /// Removes the arguments; keeps the memory, unless it is large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        if self.bytes.capacity() > LARGE_BYTES {
            self.bytes = Vec::new();
        }
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
    }

    /// Makes room for `count` more arguments of `bytes` bytes in total.
    #[inline]
    pub fn reserve(&mut self, count: usize, bytes: usize) {
        self.spans.reserve(count);
        self.bytes.reserve(bytes);
    }

    /// Appends an argument, whose bytes `write` appends to the given buffer.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.spans.push(Span { start, len: self.bytes.len() - start });
    }

    /// Appends a copy of `argument`.
    #[inline]
    pub fn push(&mut self, argument: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(argument));
    }

    /// Number of arguments, including the command's name.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The arguments (at least one) as a request. The length of the arguments alone counts as its length on
    /// the wire.
    pub fn request(&self) -> Request<'_> {
        Request::new(&self.bytes, &self.spans, Span { start: 0, len: self.bytes.len() })
    }

    /// Bytes of heap memory of the arguments, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.bytes) + heap::vec(&self.spans)
    }
}

/// Requests copied out of their input, in order.
#[derive(Clone, Debug, Default)]
pub struct OwnedRequests {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    list: Vec<OwnedEntry>,
}

#[derive(Clone, Copy, Debug)]
struct OwnedEntry {
    first: usize,
    argc: usize,
    raw: Span,
}

impl OwnedRequests {
    /// An empty queue; nothing is allocated.
    pub fn new() -> OwnedRequests {
        OwnedRequests::default()
    }

    /// A queue of one request, copied.
    pub fn of(request: &Request<'_>) -> OwnedRequests {
        let mut owned = OwnedRequests {
            bytes: Vec::with_capacity(request.wire_len()),
            spans: Vec::with_capacity(request.argc()),
            list: Vec::with_capacity(1),
        };
        owned.push(request);
        owned
    }

    /// Appends a copy of a request. Cost: O(bytes of the request).
    pub fn push(&mut self, request: &Request<'_>) {
        let raw = Span { start: self.bytes.len(), len: request.wire_len() };
        let first = self.spans.len();
        self.make_room(raw.len);
        request.own_apart().join(request.raw(), &mut self.bytes);
        if !request.own_apart().is_empty() {
            // A request with arguments that were received apart begins at the start of its input, so its
            // spans already count from the beginning of the request.
            for span in request.spans() {
                let Span { start, len } = request.own_apart().joined(*span);
                self.spans.push(Span { start: raw.start + start, len });
            }
        } else if request.is_inline() {
            for word in request.args() {
                self.spans.push(Span { start: self.bytes.len(), len: word.len() });
                self.bytes.extend_from_slice(word);
            }
        } else {
            // The distance of an argument from the end of the request's bytes stays the same; a line end
            // follows the last argument there.
            let end = request.spans().last().map_or(0, |span| span.start + span.len + LINE_END);
            for span in request.spans() {
                self.spans.push(Span { start: raw.start + raw.len - (end - span.start), len: span.len });
            }
        }
        self.list.push(OwnedEntry { first, argc: request.argc(), raw });
    }

    /// Makes room for `more` bytes. A large request does not double its buffer, because the buffer
    /// counts as memory of the client.
    fn make_room(&mut self, more: usize) {
        let wanted = self.bytes.len() + more;
        if wanted > LARGE_BYTES && wanted > self.bytes.capacity() {
            self.bytes.reserve_exact(more.max(self.bytes.len() / 4));
        }
    }

    /// Replaces an argument of request number `index`. The bytes in which the request arrived do not
    /// change. Panics if there is no such request or argument.
    pub fn replace_arg(&mut self, index: usize, arg: usize, bytes: &[u8]) {
        let OwnedEntry { first, argc, .. } = self.list[index];
        assert!(arg < argc, "the request has such an argument");
        self.spans[first + arg] = Span { start: self.bytes.len(), len: bytes.len() };
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of requests in the queue.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Request number `index`. Panics if there is no such request.
    pub fn at(&self, index: usize) -> Request<'_> {
        let entry = &self.list[index];
        Request::new(&self.bytes, &self.spans[entry.first..entry.first + entry.argc], entry.raw)
    }

    /// Total length of all arguments, in bytes.
    pub fn args_bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }

    /// Number of bytes in which the requests arrived, plus the words of inline requests and the new values of
    /// replaced arguments.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of heap memory of the requests, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.bytes) + heap::vec(&self.spans) + heap::vec(&self.list)
    }

    /// Number of bytes allocated for the requests, their arguments and the lists.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.list.capacity() * size_of::<OwnedEntry>()
    }
}

/// A buffer of requests that grows beyond this many bytes grows by a quarter, or by as many bytes as are
/// needed if these are more. An emptied argument list keeps a buffer of at most this size.
const LARGE_BYTES: usize = 64 * 1024;
/// An emptied argument list keeps room for at most this many arguments.
const SPANS_KEPT: usize = 1024;
/// Length in bytes of the line end after an argument.
const LINE_END: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AuthState, ParseLimits, Parser, Requests};

    fn parsed(input: &[u8]) -> Requests {
        let mut requests = Requests::new();
        Parser::new().parse(input, &ParseLimits::new(AuthState::Authenticated, 1 << 20, 16), &mut requests);
        requests
    }

    #[test]
    fn large_requests_are_given_little_more_room_than_they_need() {
        let value = "v".repeat(100_000);
        let input = format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{value}\r\n");
        let requests = parsed(input.as_bytes());
        let mut owned = OwnedRequests::new();
        for count in 1..10 {
            requests.iter(input.as_bytes()).for_each(|request| owned.push(&request));
            assert!(
                owned.heap_bytes() < count * input.len() * 13 / 10 + 4096,
                "{count}: {}",
                owned.heap_bytes()
            );
        }
    }

    #[test]
    fn a_copy_reads_as_the_request_did() {
        let input =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nSET  k \"a b\"\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n";
        let requests = parsed(input);
        assert_eq!(requests.len(), 3);
        let mut owned = OwnedRequests::new();
        requests.iter(input).for_each(|request| owned.push(&request));
        for (i, request) in requests.iter(input).enumerate() {
            let copy = owned.at(i);
            assert_eq!(copy.raw(), request.raw());
            assert_eq!(copy.is_inline(), request.is_inline());
            assert_eq!(copy.args().collect::<Vec<_>>(), request.args().collect::<Vec<_>>());
        }
        assert_eq!(owned.args_bytes(), 4 + 7 + 5);
        assert!(owned.heap_bytes() >= input.len());
    }

    #[test]
    fn one_request_takes_one_buffer() {
        let input = b"*1\r\n$4\r\nPING\r\n";
        let owned = OwnedRequests::of(&parsed(input).at(0, input));
        assert_eq!(owned.len(), 1);
        assert_eq!(owned.at(0).arg(0), b"PING");
    }
}

//! The input of one connection, whichever thread owns the socket: the query buffer, the parser, and the
//! state of receiving.
//!
//! ```text
//!            argument of 4 KiB or more begins        32 KiB of it or more are missing
//!   Open ------------------------------------> Large ---------------------------------> Filling
//!    |  ^ <------------------------------------  ^ <------------------------------------
//!    |  |         the argument is whole          the event loop returns the buffer
//!    |  | the batch comes back
//!    v  |                                   any state -----> Shut: the connection ends
//!   Executing        Open -----> Deferred -----> Open: a request waits in the engine
//! ```
//!
//! A large argument of which only the beginning has arrived gets memory of its own, which becomes the
//! value; the query buffer has the other bytes of the request (see `docs/design/large-arguments.md`).
//!
//! Invariants: (1) while a large argument is received into its memory (`Filling`), the event loop has the
//! argument's buffer; (2) an announced length is not trusted: each step makes room in proportion to the
//! bytes received, so that the cost of growing stays linear; (3) the bytes that a connection may send
//! while its request is deferred are bounded by `client-query-buffer-limit`, as for every request;
//! receiving continues, because the end of the client would not be noticed otherwise; (4) `Shut` is
//! final.

use sluice_base::{Bytes, heap};
use sluice_resp::Parser;

/// The size of a query buffer and the part of it that is in use, both including large arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryBufUsage {
    /// Number of bytes that were received and not executed.
    pub used: usize,
    /// Number of bytes allocated, both used and free.
    pub room: usize,
}

/// The input of a connection: received bytes, parser and state.
pub struct Input {
    /// Received bytes that cannot be executed yet: an incomplete request, bytes after requests that are
    /// being executed or deferred, or bytes of a connection that is leaving. A connection that keeps no bytes
    /// needs no memory for them.
    pub query_buf: Vec<u8>,
    /// The parser's state, whose position is an offset in `query_buf`.
    pub parser: Parser,
    state: State,
    /// The usage that was last reported to the main thread, as used bytes and room. [`u32::MAX`] stands
    /// for this number of bytes or more.
    reported: [u32; 2],
}

enum State {
    Open,
    Large(Box<LargeArgument>),
    Filling(Box<Filling>),
    Executing,
    Deferred,
    Shut,
}

/// The states of receiving; the module's diagram shows the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// Bytes are received as they arrive.
    Open,
    /// Bytes are received as they arrive, while an argument with memory of its own is incomplete.
    Large,
    /// A large argument is received straight into its memory.
    Filling,
    /// The main thread has a batch of the connection. No bytes are received while it has the batch.
    Executing,
    /// A request of the client waits in the engine. Bytes are still received, because otherwise the end of
    /// the client would not be noticed.
    Deferred,
    /// No more bytes are read, because the connection ends.
    Shut,
}

/// An incomplete argument of `LARGE_BYTES` or more, in memory of its own.
struct LargeArgument {
    bytes: Vec<u8>,
    /// Number of bytes that have not been received.
    missing: usize,
}

/// A large argument whose buffer is in the event loop.
struct Filling {
    missing: usize,
    /// Number of bytes in the buffer when the event loop got the buffer.
    from: usize,
    /// Usage of the query buffer at that time.
    usage: QueryBufUsage,
}

/// An instruction to the event loop about the bytes that it receives.
#[derive(Debug)]
pub enum Receive {
    /// Receive chunks as they arrive.
    Chunks,
    /// Receive nothing, so that bytes stay in the kernel.
    Nothing,
    /// Receive up to this many bytes into this buffer, after the bytes that it has. [`Input::filled`] takes
    /// the buffer back.
    Into(Vec<u8>, usize),
    /// Change nothing, because the event loop has the buffer of a large argument.
    Unchanged,
}

/// An incomplete argument of at least this many bytes gets memory of its own.
const LARGE_BYTES: usize = 4096;
/// A large argument that lacks at least this many bytes is received straight into its memory.
const FILL_BYTES: usize = 32 * 1024;
/// One step makes room for at least this many bytes of a large argument, unless fewer bytes are missing.
const FILL_STEP_BYTES: usize = 1 << 20;
/// Number of bytes of further room that a large argument may get for each of its bytes that was received.
/// The factor is small enough that a length that is only announced takes little memory, and large enough
/// that few bytes are moved as the room grows.
const ROOM_PER_RECEIVED: usize = 16;

impl Input {
    /// The input of a connection that has received nothing.
    pub fn new() -> Input {
        Input { query_buf: Vec::new(), parser: Parser::new(), state: State::Open, reported: [0; 2] }
    }

    /// Heap bytes of the input, without the buffer that the event loop has.
    pub fn footprint(&self) -> usize {
        let state = match &self.state {
            State::Large(large) => heap::boxed::<LargeArgument>() + heap::vec(&large.bytes),
            State::Filling(_) => heap::boxed::<Filling>(),
            State::Open | State::Executing | State::Deferred | State::Shut => 0,
        };
        heap::vec(&self.query_buf) + self.parser.footprint() + state
    }

    /// The state of receiving.
    #[inline]
    pub fn state(&self) -> InputState {
        match &self.state {
            State::Open => InputState::Open,
            State::Large(_) => InputState::Large,
            State::Filling(_) => InputState::Filling,
            State::Executing => InputState::Executing,
            State::Deferred => InputState::Deferred,
            State::Shut => InputState::Shut,
        }
    }

    /// Whether requests may be parsed.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Records that a batch of complete requests is sent to the main thread.
    ///
    /// # Panics
    /// If the input is not open.
    pub fn begin_executing(&mut self) {
        assert!(self.is_open(), "a connection has one batch at the main thread at most");
        self.state = State::Executing;
    }

    /// Records that the batch came back, so that parsing continues, unless the input was shut in the
    /// meantime.
    ///
    /// # Panics
    /// If the main thread had no batch.
    pub fn end_executing(&mut self) {
        match self.state {
            State::Executing => self.state = State::Open,
            State::Shut => {}
            State::Open | State::Large(_) | State::Filling(_) | State::Deferred => {
                panic!("a batch comes back to where it left from")
            }
        }
    }

    /// Records that a request waits in the engine. The query buffer, which begins after that request, is
    /// parsed again after `resume`.
    ///
    /// # Panics
    /// If the input is neither open nor shut.
    pub fn defer(&mut self) {
        match self.state {
            State::Open => {
                self.state = State::Deferred;
                self.parser = Parser::new();
            }
            State::Shut => {}
            State::Large(_) | State::Filling(_) | State::Executing | State::Deferred => {
                panic!("only a request that was parsed is deferred")
            }
        }
    }

    /// Ends the deferral of a request. Returns whether a request was deferred.
    pub fn resume(&mut self) -> bool {
        let deferred = matches!(self.state, State::Deferred);
        if deferred {
            self.state = State::Open;
        }
        deferred
    }

    /// Stops reading permanently.
    pub fn shut(&mut self) {
        self.state = State::Shut;
    }

    /// Usage of the query buffer, including the buffer that the event loop has.
    #[inline]
    pub fn usage(&self) -> QueryBufUsage {
        let apart = self.parser.apart();
        let (used, room) = match &self.state {
            State::Filling(filling) => return filling.usage,
            State::Large(large) => (large.bytes.len(), large.bytes.capacity()),
            State::Open | State::Executing | State::Deferred | State::Shut => (0, 0),
        };
        QueryBufUsage {
            used: self.query_buf.len() + used + apart.bytes(),
            room: self.query_buf.capacity() + room + apart.heap_bytes(),
        }
    }

    /// The usage, which the caller reports to the main thread; `None` if it equals the usage last
    /// reported. A usage that is too large to be compared is always returned.
    #[inline]
    pub fn unreported(&mut self) -> Option<QueryBufUsage> {
        let usage = self.usage();
        let short = [usage.used, usage.room].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let is_news = std::mem::replace(&mut self.reported, short) != short || short[1] == u32::MAX;
        is_news.then_some(usage)
    }

    /// The instruction for the event loop that follows from the state. The instruction may contain the
    /// buffer of a large argument. Repeated calls are cheap.
    pub fn receive(&mut self) -> Receive {
        match &self.state {
            State::Large(large) if large.missing >= FILL_BYTES => self.fill(),
            _ => self.receive_chunks(),
        }
    }

    /// Like [`Input::receive`], but begins no receive into the memory of a large argument.
    pub fn receive_chunks(&self) -> Receive {
        match &self.state {
            State::Open | State::Large(_) | State::Deferred => Receive::Chunks,
            State::Executing | State::Shut => Receive::Nothing,
            State::Filling(_) => Receive::Unchanged,
        }
    }

    /// The instruction that stops receiving. While the event loop has the buffer of a large argument, the
    /// instruction is to change nothing.
    pub fn receive_nothing(&self) -> Receive {
        match &self.state {
            State::Filling(_) => Receive::Unchanged,
            State::Open | State::Large(_) | State::Executing | State::Deferred | State::Shut => {
                Receive::Nothing
            }
        }
    }

    /// Appends received bytes. Bytes of the large argument under way go to its memory, all others to the
    /// query buffer.
    pub fn keep(&mut self, bytes: &[u8]) {
        let rest = self.grow_large(bytes);
        self.query_buf.extend_from_slice(rest);
    }

    /// Appends the bytes that the unfinished request lacks, if their number is known, or else all bytes;
    /// returns the bytes after them.
    pub fn complete<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = self.grow_large(bytes);
        let missing = self.parser.missing(self.query_buf.len()).unwrap_or(usize::MAX);
        let (own, others) = rest.split_at(missing.min(rest.len()));
        self.query_buf.extend_from_slice(own);
        others
    }

    /// Keeps `rest`, an unfinished request that the parser has seen. The query buffer must be empty. If
    /// the argument under way is large, it gets memory of its own.
    pub fn keep_rest(&mut self, rest: &[u8]) {
        match self.large_begun() {
            None => self.query_buf.extend_from_slice(rest),
            Some(len) => {
                let (before, begun) = rest.split_at(self.parser.at());
                self.query_buf.extend_from_slice(before);
                self.begin_large(len);
                self.keep(begun);
            }
        }
    }

    /// Moves a large argument of an unfinished request from `query_buf` into memory of its own.
    pub fn move_out_large_argument(&mut self) {
        if let Some(len) = self.large_begun() {
            let at = self.parser.at();
            let mut query_buf = std::mem::take(&mut self.query_buf);
            self.begin_large(len);
            let behind = self.grow_large(&query_buf[at..]).len();
            query_buf.drain(at..query_buf.len() - behind);
            self.query_buf = query_buf;
        }
    }

    /// Frees unused room.
    pub fn shrink(&mut self) {
        self.query_buf.shrink_to_fit();
        if let State::Large(large) = &mut self.state {
            large.bytes.shrink_to_fit();
        }
    }

    /// Length of the argument under way, if the argument is large and has no memory of its own yet.
    #[inline]
    fn large_begun(&self) -> Option<usize> {
        self.parser.begun().filter(|len| *len >= LARGE_BYTES && self.is_open())
    }

    fn begin_large(&mut self, len: usize) {
        self.state = State::Large(Box::new(LargeArgument { bytes: Vec::new(), missing: len }));
    }

    /// Appends the bytes of the large argument under way, and returns the bytes after them.
    #[inline]
    fn grow_large<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let State::Large(large) = &mut self.state else { return bytes };
        let (own, rest) = bytes.split_at(large.missing.min(bytes.len()));
        large.make_room(own.len());
        large.bytes.extend_from_slice(own);
        large.missing -= own.len();
        if large.missing == 0 {
            self.supply();
        }
        rest
    }

    /// Hands the completed large argument to the parser.
    fn supply(&mut self) {
        if let State::Large(large) = std::mem::replace(&mut self.state, State::Open) {
            let mut bytes = large.bytes;
            bytes.shrink_to_fit();
            self.parser.supply(Bytes::from_vec(bytes));
        }
    }

    /// Moves the buffer of the large argument to the event loop.
    fn fill(&mut self) -> Receive {
        let State::Large(large) = &mut self.state else { return Receive::Unchanged };
        large.make_room(FILL_BYTES);
        let LargeArgument { ref mut bytes, missing } = **large;
        let step = missing.min(bytes.capacity() - bytes.len());
        let (from, usage) = (bytes.len(), self.usage());
        let State::Large(large) = std::mem::replace(&mut self.state, State::Open) else {
            return Receive::Unchanged;
        };
        self.state = State::Filling(Box::new(Filling { missing, from, usage }));
        Receive::Into(large.bytes, step)
    }

    /// Takes back the buffer of a large argument from the event loop. Returns how many bytes were
    /// received; if the input was shut in the meantime, the bytes are dropped.
    pub fn filled(&mut self, bytes: Vec<u8>) -> usize {
        let State::Filling(filling) = &self.state else { return 0 };
        let come = bytes.len().saturating_sub(filling.from);
        // No more than the missing bytes can have arrived, because the event loop had no room for more.
        let missing = filling.missing.saturating_sub(come);
        self.state = State::Large(Box::new(LargeArgument { bytes, missing }));
        if missing == 0 {
            self.supply();
        }
        come
    }
}

impl LargeArgument {
    /// Makes room for at least `bytes` more bytes, but never for more than the missing bytes.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.capacity() - self.bytes.len() < bytes {
            let come = self.bytes.len().saturating_mul(ROOM_PER_RECEIVED);
            let step = FILL_STEP_BYTES.max(come).max(bytes);
            self.bytes.reserve_exact(self.missing.min(step));
        }
    }
}

#[cfg(test)]
mod tests;

//! The input of one connection, wherever its socket is: bytes that are no whole request yet, and how receiving goes on.
//!
//! A large argument of which only the beginning has come gets memory of its own, which becomes the value: `carry` has the
//! other bytes of its request (docs/design/large-arguments.md).
//!
//! Invariants: (1) while a large argument is received into its place (`Input::Filling`) the loop has `large`, and what is
//! here is empty; (2) an announced size is not believed: as much room again as has come is made at a step, so growing stays
//! linear; (3) what a connection may send ahead while its request
//! waits is bounded by `client-query-buffer-limit`, as for every request: a connection that is not received from would not
//! be known to have ended.

use sluice_base::Bytes;
use sluice_evloop::{AnyLoop, Source};
use sluice_resp::Parser;

/// Input that is no whole request yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes.
    pub used: usize,
    /// Room for bytes, used and free together.
    pub room: usize,
}

/// See the module.
pub struct Inbound {
    /// Bytes of a request that has not come whole, or that waits. Without room for connections whose requests come whole,
    /// and for idle ones.
    pub carry: Vec<u8>,
    /// Where the parser stands in `carry`.
    pub parser: Parser,
    /// How input is going.
    pub input: Input,
    /// What has come of the large argument under way; without room when there is none.
    large: Vec<u8>,
    /// Bytes that are missing of it.
    missing: usize,
    /// What was held when the receive into `large` began.
    filling: Kept,
    /// The part of `large` in that.
    filling_from: usize,
    /// What the engine was told of `carry` last.
    told: Kept,
}

/// How input is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes are received as they come.
    Open,
    /// The same, while large arguments of the unfinished request are in memory of their own.
    Large,
    /// A large argument is received straight into its place.
    Filling,
    /// A worker's batch of it is at the executing thread; nothing is received meanwhile.
    Away,
    /// The engine keeps a request waiting. Bytes are still received, since that is how one learns that the client has gone.
    Held,
    /// Nothing more is read: the connection ends.
    Shut,
}

/// From this length on, an argument that has not come whole gets memory of its own.
const LARGE_BYTES: usize = 4096;
/// From this many missing bytes on, a large argument is received straight into its place.
const FILL_BYTES: usize = 32 * 1024;
/// Bytes of a large argument that are received at least in one step.
const FILL_STEP_BYTES: usize = 1 << 20;

impl Inbound {
    /// Of a connection that has sent these bytes, not looked at yet.
    pub fn new(carry: Vec<u8>, input: Input) -> Inbound {
        Inbound {
            carry,
            parser: Parser::new(),
            input,
            large: Vec::new(),
            missing: 0,
            filling: Kept::default(),
            filling_from: 0,
            told: Kept::default(),
        }
    }

    /// What it holds, the loop's part included.
    pub fn kept(&self) -> Kept {
        match self.input {
            Input::Filling => self.filling,
            Input::Large => self.kept_with_large(),
            Input::Open | Input::Away | Input::Held | Input::Shut => {
                Kept { used: self.carry.len(), room: self.carry.capacity() }
            }
        }
    }

    #[cold]
    fn kept_with_large(&self) -> Kept {
        let apart = self.parser.apart();
        Kept {
            used: self.carry.len() + self.large.len() + apart.bytes(),
            room: self.carry.capacity() + self.large.capacity() + apart.heap_bytes(),
        }
    }

    /// Notes what the engine is told of it; whether that is news.
    #[inline]
    pub fn tell(&mut self, kept: Kept) -> bool {
        std::mem::replace(&mut self.told, kept) != kept
    }

    /// What the engine was told last.
    pub fn told(&self) -> Kept {
        self.told
    }

    /// Lets the loop receive, or not, as the state has it. Cheap to call again.
    pub fn receive(&mut self, event_loop: &mut AnyLoop, source: Source) {
        match self.input {
            Input::Large if self.missing >= FILL_BYTES => self.fill(event_loop, source),
            Input::Open | Input::Large | Input::Held => event_loop.recv_start(source),
            Input::Away | Input::Shut => event_loop.recv_stop(source),
            Input::Filling => {}
        }
    }

    /// Whether more than the usual receiving is wanted: then [`Inbound::receive`] is due.
    #[inline]
    pub fn is_unusual(&self) -> bool {
        self.input != Input::Open
    }

    /// Keeps bytes behind those that are here; those of the large argument under way in its place.
    pub fn keep(&mut self, bytes: &[u8]) {
        let rest = self.grow_large(bytes);
        self.carry.extend_from_slice(rest);
    }

    /// Keeps those bytes that the unfinished request lacks, where that is known, and else all; returns the others.
    pub fn complete<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = self.grow_large(bytes);
        let missing = self.parser.missing(self.carry.len()).unwrap_or(usize::MAX);
        let (own, others) = rest.split_at(missing.min(rest.len()));
        self.carry.extend_from_slice(own);
        others
    }

    /// Keeps the unfinished request, `rest`, which the parser has seen; nothing was kept before. If the argument under way
    /// is a large one, it gets memory of its own.
    pub fn keep_rest(&mut self, rest: &[u8]) {
        match self.large_begun() {
            None => self.carry.extend_from_slice(rest),
            Some(len) => {
                let (before, begun) = rest.split_at(self.parser.at());
                self.carry.extend_from_slice(before);
                self.begin_large(len);
                self.keep(begun);
            }
        }
    }

    /// The same for an unfinished request that is in `carry`.
    pub fn part_carry(&mut self) {
        if let Some(len) = self.large_begun() {
            let at = self.parser.at();
            let mut carry = std::mem::take(&mut self.carry);
            self.begin_large(len);
            let behind = self.grow_large(&carry[at..]).len();
            carry.drain(at..carry.len() - behind);
            self.carry = carry;
        } else if self.input == Input::Open && !self.parser.apart().is_empty() {
            self.input = Input::Large;
        }
    }

    /// Whether there may be a request to parse: not before the large argument under way is whole.
    pub fn is_ready(&mut self) -> bool {
        if self.input == Input::Large && self.missing == 0 {
            self.input = Input::Open;
        }
        self.input != Input::Large
    }

    /// Puts large arguments back among the bytes of their request, to be parsed again by whoever gets `carry`.
    pub fn join(&mut self) {
        let at = self.parser.at();
        let behind = if self.missing > 0 { self.carry.split_off(at) } else { Vec::new() };
        debug_assert!(behind.is_empty(), "nothing comes behind an argument under way");
        self.parser.give_up(&mut self.carry);
        self.carry.append(&mut self.large);
        self.large = Vec::new();
        self.missing = 0;
        if self.input == Input::Large {
            self.input = Input::Open;
        }
    }

    /// Gives back room that nothing is in.
    pub fn shrink(&mut self) {
        self.carry.shrink_to_fit();
        self.large.shrink_to_fit();
    }

    /// Length of the argument under way, if it is large and has no memory of its own yet.
    #[inline]
    fn large_begun(&self) -> Option<usize> {
        self.parser.begun().filter(|len| *len >= LARGE_BYTES && self.input == Input::Open)
    }

    fn begin_large(&mut self, len: usize) {
        self.input = Input::Large;
        self.missing = len;
    }

    /// Appends what belongs to the large argument under way, and returns the rest.
    #[inline]
    fn grow_large<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.missing == 0 {
            return bytes;
        }
        let (own, rest) = bytes.split_at(self.missing.min(bytes.len()));
        self.make_room(own.len());
        self.large.extend_from_slice(own);
        self.missing -= own.len();
        if self.missing == 0 {
            self.supply();
        }
        rest
    }

    /// Makes room for bytes of the large argument: for these at least, and for no more than all.
    fn make_room(&mut self, bytes: usize) {
        if self.large.capacity() - self.large.len() < bytes {
            let step = FILL_STEP_BYTES.max(self.large.len()).max(bytes);
            self.large.reserve_exact(self.missing.min(step));
        }
    }

    /// The large argument is whole.
    fn supply(&mut self) {
        let mut large = std::mem::take(&mut self.large);
        large.shrink_to_fit();
        self.parser.supply(Bytes::from_vec(large));
    }

    /// Receives the large argument under way into its place; the loop returns it.
    fn fill(&mut self, event_loop: &mut AnyLoop, source: Source) {
        self.make_room(FILL_BYTES);
        self.filling = self.kept();
        let large = std::mem::take(&mut self.large);
        self.filling_from = large.len();
        self.input = Input::Filling;
        let step = self.missing.min(large.capacity() - large.len());
        event_loop.recv_into(source, large, step);
    }

    /// The loop returns the large argument. Returns how many bytes have come.
    pub fn filled(&mut self, large: Vec<u8>) -> usize {
        let come = large.len().saturating_sub(self.filling_from);
        // It may have been shut meanwhile.
        if self.input == Input::Filling {
            self.input = Input::Large;
            self.large = large;
            // There was no room for more than is missing.
            self.missing = self.missing.saturating_sub(come);
            if self.missing == 0 {
                self.supply();
            }
        }
        come
    }
}

#[cfg(test)]
mod tests;

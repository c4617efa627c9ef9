//! The input of one connection, wherever its socket is: bytes that are no whole request yet, and how receiving goes on.
//!
//! Invariants: (1) while a large argument is received (`Input::Filling`) the loop has `carry`, and what is here is empty;
//! (2) an announced size is not believed: as much room again as has come is made at a step, so growing stays linear; (3)
//! what a connection may send ahead while its request waits is bounded.

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
    /// What `carry` held when the receive into it began.
    filling: Kept,
    /// What the engine was told of `carry` last.
    told: Kept,
}

/// How input is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes are received as they come.
    Open,
    /// A large argument is received straight into `carry`.
    Filling,
    /// A worker's batch of it is at the executing thread; nothing is received meanwhile.
    Away,
    /// The engine keeps a request waiting. Bytes are still received, up to a bound, since that is how one learns that the
    /// client has gone.
    Held,
    /// Nothing more is read: the connection ends.
    Shut,
}

/// From this many missing bytes on, a large argument is received straight into its place.
const FILL_BYTES: usize = 32 * 1024;
/// Bytes of a large argument that are received at least in one step.
const FILL_STEP_BYTES: usize = 1 << 20;
/// What a connection may send ahead while its request waits.
const HELD_BYTES: usize = 64 * 1024;

impl Inbound {
    /// Of a connection that has sent these bytes, not looked at yet.
    pub fn new(carry: Vec<u8>, input: Input) -> Inbound {
        Inbound { carry, parser: Parser::new(), input, filling: Kept::default(), told: Kept::default() }
    }

    /// What it holds, the loop's part included.
    pub fn kept(&self) -> Kept {
        match self.input {
            Input::Filling => self.filling,
            _ => Kept { used: self.carry.len(), room: self.carry.capacity() },
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
            Input::Open if self.parser.wanted() >= FILL_BYTES => self.fill(event_loop, source),
            Input::Open => event_loop.recv_start(source),
            Input::Held if self.carry.len() < HELD_BYTES => event_loop.recv_start(source),
            Input::Away | Input::Held | Input::Shut => event_loop.recv_stop(source),
            Input::Filling => {}
        }
    }

    /// Whether more than the usual receiving is wanted: then [`Inbound::receive`] is due.
    #[inline]
    pub fn is_unusual(&self) -> bool {
        self.input != Input::Open || self.parser.wanted() >= FILL_BYTES
    }

    /// Receives a large argument into `carry`; the loop returns it.
    fn fill(&mut self, event_loop: &mut AnyLoop, source: Source) {
        let mut carry = std::mem::take(&mut self.carry);
        let used = carry.len();
        let wanted = self.parser.wanted();
        carry.reserve_exact(wanted.min(FILL_STEP_BYTES.max(used)));
        self.input = Input::Filling;
        self.filling = Kept { used, room: carry.capacity() };
        let step = wanted.min(carry.capacity() - used);
        event_loop.recv_into(source, carry, step);
    }

    /// The loop returns `carry`. Returns how many bytes have come into it.
    pub fn filled(&mut self, carry: Vec<u8>) -> usize {
        let come = carry.len().saturating_sub(self.filling.used);
        self.carry = carry;
        // It may have been shut meanwhile.
        if self.input == Input::Filling {
            self.input = Input::Open;
        }
        come
    }
}

//! The output of one connection, whichever thread owns its socket: replies in order, one send in flight at a
//! time.

use std::collections::VecDeque;

use super::plain_output::PlainOutput;
use sluice_base::heap;
use sluice_resp::{Mark, Outbox};

/// See the module.
#[derive(Default)]
pub struct Output {
    /// Output behind the send in flight, in order; there only while there is some.
    #[allow(
        clippy::box_collection,
        reason = "a connection has none nearly always, and there are many connections"
    )]
    waiting: Option<Box<VecDeque<OutputPiece>>>,
    is_sending: bool,
    closes_when_sent: bool,
}

/// A piece of output.
pub enum OutputPiece {
    /// For the client.
    Output(Outbox),
    /// What is left of output that the transport encodes a part at a time.
    Rest(Box<PlainOutput>),
    /// Bytes of the transport's own: they are sent as they are, and are no output of the connection.
    Answer(Vec<u8>),
}

/// What follows when nothing is in flight.
pub enum NextOutput {
    /// This is to be sent.
    Send(OutputPiece),
    /// Everything was sent.
    Idle,
    /// Everything was sent, and the connection ends.
    Close,
}

impl Output {
    /// Bytes that the allocator has given: without the shared values, and without what is in flight.
    pub fn footprint(&self) -> usize {
        let piece = |piece: &OutputPiece| match piece {
            OutputPiece::Output(outbox) => outbox.footprint(),
            OutputPiece::Rest(rest) => heap::boxed::<PlainOutput>() + rest.footprint(),
            OutputPiece::Answer(bytes) => heap::vec(bytes),
        };
        self.waiting.as_deref().map_or(0, |waiting| {
            heap::boxed::<VecDeque<OutputPiece>>()
                + heap::deque(waiting)
                + waiting.iter().map(piece).sum::<usize>()
        })
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: OutputPiece) {
        self.waiting.get_or_insert_default().push_back(piece);
    }

    /// Puts a piece ahead of all that waits.
    pub fn push_front(&mut self, piece: OutputPiece) {
        self.waiting.get_or_insert_default().push_front(piece);
    }

    /// Adds bytes of the transport's own: ahead of all that is not encoded yet, since they were encoded
    /// before, and behind earlier ones.
    pub fn push_answer(&mut self, bytes: Vec<u8>) {
        let waiting = self.waiting.get_or_insert_default();
        let answers = waiting.iter().take_while(|piece| matches!(piece, OutputPiece::Answer(_))).count();
        match answers.checked_sub(1).and_then(|last| waiting.get_mut(last)) {
            Some(OutputPiece::Answer(before)) => before.extend_from_slice(&bytes),
            _ => waiting.insert(answers, OutputPiece::Answer(bytes)),
        }
    }

    /// Whether bytes of the transport's own wait: nothing is received meanwhile, or a peer that does not read
    /// could have any number of them made.
    pub fn has_answers(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| matches!(waiting.front(), Some(OutputPiece::Answer(_))))
    }

    /// Appends a copy of some output to what waits; `buffer` gives memory where nothing does.
    pub fn push_copy(&mut self, output: &Outbox, buffer: impl FnOnce() -> Vec<u8>) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some(OutputPiece::Output(last)) = waiting.back_mut() {
            return last.append_copy(output, Mark::default(), output.mark());
        }
        let mut copy = Outbox::from_buffer(buffer());
        copy.append_copy(output, Mark::default(), output.mark());
        waiting.push_back(OutputPiece::Output(copy));
    }

    /// The connection ends when everything was sent.
    pub fn close_when_sent(&mut self) {
        self.closes_when_sent = true;
    }

    /// Whether the connection ends when everything was sent.
    pub fn closes_when_sent(&self) -> bool {
        self.closes_when_sent
    }

    /// Whether a send is in flight.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Whether output waits to be sent.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether what comes next is the rest of a large reply.
    #[inline]
    pub fn next_is_rest(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| matches!(waiting.front(), Some(OutputPiece::Rest(_))))
    }

    /// Whether nothing is in flight and nothing waits.
    pub fn is_idle(&self) -> bool {
        !self.is_sending && self.waiting.is_none()
    }

    /// A send is in flight from now on.
    ///
    /// # Panics
    /// When one is already: two could overtake each other.
    pub fn begin_send(&mut self) {
        assert!(!self.is_sending, "one send is in flight at a time");
        self.is_sending = true;
    }

    /// The send in flight is over.
    ///
    /// # Panics
    /// When there was none.
    pub fn end_send(&mut self) {
        assert!(self.is_sending, "a send that ends was begun");
        self.is_sending = false;
    }

    /// What is to be done next.
    ///
    /// # Panics
    /// When a send is in flight.
    pub fn next(&mut self) -> NextOutput {
        assert!(!self.is_sending, "one send is in flight at a time");
        match self.waiting.as_mut().and_then(|waiting| waiting.pop_front()) {
            Some(piece) => {
                self.waiting.take_if(|waiting| waiting.is_empty());
                NextOutput::Send(piece)
            }
            None if self.closes_when_sent => NextOutput::Close,
            None => NextOutput::Idle,
        }
    }
}

//! The output of one connection, whichever thread owns the socket. Replies are sent in order, with one
//! send in flight at a time.

use std::collections::VecDeque;

use super::plain_output::PlainOutput;
use sluice_base::heap;
use sluice_resp::{Mark, Outbox};

/// The waiting output of a connection, and whether a send is in flight.
#[derive(Default)]
pub struct Output {
    /// Output that is to be sent after the send in flight, in order; `None` while there is no such output.
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
    /// Replies and messages for the client, not encoded.
    Output(Outbox),
    /// The rest of output that the transport encodes part by part.
    Rest(Box<PlainOutput>),
    /// Protocol bytes of the transport, such as TLS alerts. They are sent unchanged, and not counted as
    /// output.
    Answer(Vec<u8>),
}

/// The next step of a connection that has no send in flight.
pub enum NextOutput {
    /// The piece to send.
    Send(OutputPiece),
    /// All output was sent, and the connection continues.
    Idle,
    /// All output was sent, and the connection ends.
    Close,
}

impl Output {
    /// Heap bytes of the waiting output, without shared values and without the send in flight.
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

    /// Appends a piece to the output that waits.
    pub fn push(&mut self, piece: OutputPiece) {
        self.waiting.get_or_insert_default().push_back(piece);
    }

    /// Puts a piece before all waiting output.
    pub fn push_front(&mut self, piece: OutputPiece) {
        self.waiting.get_or_insert_default().push_front(piece);
    }

    /// Adds protocol bytes of the transport. Their place is before all output that is not encoded yet,
    /// because they were encoded earlier, and after earlier protocol bytes.
    pub fn push_answer(&mut self, bytes: Vec<u8>) {
        let waiting = self.waiting.get_or_insert_default();
        let answers = waiting.iter().take_while(|piece| matches!(piece, OutputPiece::Answer(_))).count();
        match answers.checked_sub(1).and_then(|last| waiting.get_mut(last)) {
            Some(OutputPiece::Answer(before)) => before.extend_from_slice(&bytes),
            _ => waiting.insert(answers, OutputPiece::Answer(bytes)),
        }
    }

    /// Whether protocol bytes of the transport wait. While they wait, nothing is received, because a peer
    /// that does not read could otherwise cause any number of protocol bytes.
    pub fn has_answers(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| matches!(waiting.front(), Some(OutputPiece::Answer(_))))
    }

    /// Appends a copy of some output; `buffer` supplies memory if the last waiting piece cannot be extended.
    pub fn push_copy(&mut self, output: &Outbox, buffer: impl FnOnce() -> Vec<u8>) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some(OutputPiece::Output(last)) = waiting.back_mut() {
            return last.append_copy(output, Mark::default(), output.mark());
        }
        let mut copy = Outbox::from_buffer(buffer());
        copy.append_copy(output, Mark::default(), output.mark());
        waiting.push_back(OutputPiece::Output(copy));
    }

    /// Makes the connection end when all output was sent.
    pub fn close_when_sent(&mut self) {
        self.closes_when_sent = true;
    }

    /// Whether the connection ends when all output was sent.
    pub fn closes_when_sent(&self) -> bool {
        self.closes_when_sent
    }

    /// Whether a send is in flight.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Whether output waits in addition to the send in flight.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether the next piece is the rest of a large reply.
    #[inline]
    pub fn next_is_rest(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| matches!(waiting.front(), Some(OutputPiece::Rest(_))))
    }

    /// Whether no send is in flight and no output waits.
    pub fn is_idle(&self) -> bool {
        !self.is_sending && self.waiting.is_none()
    }

    /// Records that a send is in flight.
    ///
    /// # Panics
    /// If a send is in flight already, because two sends could overtake each other.
    pub fn begin_send(&mut self) {
        assert!(!self.is_sending, "one send is in flight at a time");
        self.is_sending = true;
    }

    /// Records that the send in flight is over.
    ///
    /// # Panics
    /// If no send was in flight.
    pub fn end_send(&mut self) {
        assert!(self.is_sending, "a send that ends was begun");
        self.is_sending = false;
    }

    /// Takes the next step of the output.
    ///
    /// # Panics
    /// If a send is in flight.
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

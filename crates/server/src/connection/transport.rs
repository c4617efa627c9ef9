//! The way of a connection's bytes between its socket and the rest of the connection.
//!
//! A plain transport hands the event loop's bytes on as they are. One with a [`Codec`] transforms them, may
//! hold some back until more has come, and may have bytes of its own to send: TLS is to be one, and nothing
//! else of a connection will know of it.

use super::input::Receive;
use super::output::Piece;
use crate::net::{Endpoint, Stream, options};
use sluice_base::SessionKey;
use sluice_evloop::{AnyLoop, SendBuf, Sending, Sent, Shared, Shutdown, Source};
use sluice_resp::Outbox;

/// See the module. It belongs to the event loop that it was attached to.
pub struct Transport {
    source: Source,
    codec: Option<Box<Coded>>,
}

/// A codec, and what is under way through it.
struct Coded {
    codec: Box<dyn Codec>,
    /// Bytes of output in flight, before they were encoded.
    plain_in_flight: usize,
}

/// Transforms a connection's bytes.
pub trait Codec: Send {
    /// Decodes bytes from the socket: appends those for the query buffer to `plain` and those that the peer
    /// must be sent because of them to `answer`. What is no whole unit yet is held back.
    ///
    /// # Errors
    /// The bytes are invalid: the connection ends, for this reason.
    fn decode(&mut self, bytes: &[u8], plain: &mut Vec<u8>, answer: &mut Vec<u8>) -> Result<(), String>;

    /// Encodes output for the socket.
    fn encode(&mut self, output: Outbox) -> Outbox;
}

impl Transport {
    /// Attaches a connection to an event loop.
    pub fn attach(event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) -> Transport {
        Transport { source: stream.attach(event_loop, Endpoint::Client(key)), codec: None }
    }

    /// Takes over a socket that the event loop has already. Its events stay with the endpoint that had it,
    /// until [`Transport::become_client`].
    pub fn adopt(source: Source) -> Transport {
        Transport { source, codec: None }
    }

    /// From now on the socket's events are of this client.
    pub fn become_client(&mut self, event_loop: &mut AnyLoop, key: SessionKey) {
        event_loop.set_token(self.source, Endpoint::Client(key).token());
    }

    /// A transport whose socket is in no event loop yet: [`Transport::move_to`] follows.
    pub fn detached() -> Transport {
        Transport { source: Source::NONE, codec: None }
    }

    /// Attaches the connection, which has left another event loop, to this one. The codec stays.
    pub fn move_to(&mut self, event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) {
        self.source = stream.attach(event_loop, Endpoint::Client(key));
    }

    /// Lets everything go through a codec.
    #[cfg(test)]
    pub fn set_codec(&mut self, codec: Box<dyn Codec>) {
        self.codec = Some(Box::new(Coded { codec, plain_in_flight: 0 }));
    }

    /// Has packets filled at the price of a delay: a replica that takes a stream does not answer it.
    pub fn fill_packets(&self, event_loop: &AnyLoop) {
        if let Some(socket) = event_loop.fd(self.source) {
            options::fill_packets(socket);
        }
    }

    /// Whether received bytes go through [`Transport::decode`].
    #[inline]
    pub fn is_coded(&self) -> bool {
        self.codec.is_some()
    }

    /// Decodes received bytes; see [`Codec::decode`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(&mut self, bytes: &[u8], plain: &mut Vec<u8>, answer: &mut Vec<u8>) -> Result<(), String> {
        match &mut self.codec {
            Some(coded) => coded.codec.decode(bytes, plain, answer),
            None => {
                plain.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Lets the event loop receive as the input wants. Coded bytes are never received into the place of an
    /// argument.
    #[inline]
    pub fn receive(&mut self, event_loop: &mut AnyLoop, wanted: Receive) {
        match wanted {
            Receive::Chunks => event_loop.recv_start(self.source),
            Receive::Nothing => event_loop.recv_stop(self.source),
            Receive::Into(buf, step) => event_loop.recv_into(self.source, buf, step),
            Receive::Unchanged => {}
        }
    }

    /// Has the event loop return the buffer of a large argument, as it is.
    pub fn end_filling(&mut self, event_loop: &mut AnyLoop) {
        event_loop.recv_into_end(self.source);
    }

    /// Sends a piece of output.
    #[inline]
    pub fn send(&mut self, event_loop: &mut AnyLoop, piece: Piece) -> Sending {
        let buf = match (piece, &mut self.codec) {
            (Piece::Output(output), None) => into_send_buf(output),
            (Piece::Output(output), Some(coded)) => {
                coded.plain_in_flight = output.len();
                into_send_buf(coded.codec.encode(output))
            }
            (Piece::Answer(answer), _) => SendBuf { head: answer, shared: Vec::new() },
        };
        event_loop.send(self.source, buf)
    }

    /// Bytes of output, before they were encoded, that a finished send stands for.
    #[inline]
    pub fn plain_sent(&mut self, sent: &Sent) -> usize {
        match &mut self.codec {
            None => sent.bytes,
            Some(coded) => std::mem::take(&mut coded.plain_in_flight),
        }
    }

    /// Has the event loop let go of the socket, which follows as an event.
    pub fn detach(&mut self, event_loop: &mut AnyLoop) {
        event_loop.detach(self.source);
    }

    /// Tells the peer the end now. An event loop of completions closes the socket only when nothing is under
    /// way on it.
    #[cold]
    pub fn end(&mut self, event_loop: &mut AnyLoop) {
        event_loop.shutdown(self.source, Shutdown::Both);
    }

    /// Closes the socket.
    pub fn close(&mut self, event_loop: &mut AnyLoop) {
        event_loop.close(self.source);
    }
}

/// Output as the event loop sends it.
#[inline]
fn into_send_buf(outbox: Outbox) -> SendBuf {
    let (head, shared) = outbox.into_parts();
    if shared.is_empty() {
        // Nearly always; collecting nothing costs as much as half of a send.
        return SendBuf { head, shared: Vec::new() };
    }
    SendBuf { head, shared: shared.into_iter().map(|(at, bytes)| Shared { at, bytes }).collect() }
}

//! The way of a connection's bytes between its socket and the rest of the connection.
//!
//! A plain transport hands the event loop's bytes on as they are. One with a [`Codec`] transforms them, may
//! hold some back until more has come, and may have bytes of its own to send. Nothing else of a connection
//! knows of TLS.

use super::input::Receive;
use super::output::OutputPiece;
use super::plain_output::PlainOutput;
use crate::net::{Codec, Endpoint, PeerSide, Stream, UnpackingCodec, options, send_now};
use sluice_base::{SessionKey, heap};
use sluice_evloop::{AnyLoop, Interest, SendBuf, Sending, Sent, Shared, Shutdown, Source};
use sluice_persist::rdb::PackedStream;
use sluice_resp::Outbox;
use sluice_tls::Buffers;

/// See the module. It belongs to the event loop that it was attached to.
pub struct Transport {
    source: Source,
    coded: Option<Box<Coded>>,
}

/// A codec, and what is under way through it.
struct Coded {
    codec: Box<dyn Codec>,
    /// Bytes of output in flight, before they were encoded.
    plain_in_flight: usize,
    /// A send is in flight: nothing else can be sent.
    is_sending: bool,
    /// The peer was told the end.
    has_ended: bool,
    /// The peer has told the end, and nobody has acted on it.
    peer_has_ended: bool,
}

impl Coded {
    fn new(codec: Box<dyn Codec>) -> Box<Coded> {
        let peer_has_ended = codec.peer_has_ended();
        Box::new(Coded { codec, plain_in_flight: 0, is_sending: false, has_ended: false, peer_has_ended })
    }
}

/// What became of a piece that went through a codec.
pub struct CodedSend {
    /// What the event loop says; none where the bytes could not be encoded.
    pub sending: Result<Sending, String>,
    /// What is to be sent when this is done.
    pub rest: Option<OutputPiece>,
    /// The buffer of the output, which nobody needs any more.
    pub used: Option<SendBuf>,
}

impl Transport {
    /// Attaches a connection to an event loop.
    pub fn attach(event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) -> Transport {
        Transport::attach_as(event_loop, stream, Endpoint::Client(key))
    }

    /// Attaches what is no client's, until [`Transport::become_client`].
    pub fn attach_as(event_loop: &mut AnyLoop, stream: Stream, endpoint: Endpoint) -> Transport {
        let (source, codec) = stream.attach(event_loop, endpoint);
        Transport { source, coded: codec.map(Coded::new) }
    }

    /// The connection that the event loop has let go of, with its codec.
    pub fn into_stream(self, socket: sluice_evloop::Fd) -> Stream {
        Stream::with_codec(socket, self.coded.map(|coded| coded.codec))
    }

    /// The socket, while it is in the event loop.
    pub fn socket<'a>(&self, event_loop: &'a mut AnyLoop) -> Option<std::os::fd::BorrowedFd<'a>> {
        event_loop.fd(self.source)
    }

    /// From now on the socket's events are of this client.
    pub fn become_client(&mut self, event_loop: &mut AnyLoop, key: SessionKey) {
        event_loop.set_token(self.source, Endpoint::Client(key).token());
    }

    /// A transport whose socket is in no event loop yet: [`Transport::move_to`] follows.
    pub fn detached() -> Transport {
        Transport { source: Source::NONE, coded: None }
    }

    /// Attaches the connection, which has left another event loop, to this one. The codec stays; one that was
    /// in no event loop before brings its own.
    pub fn move_to(&mut self, event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) {
        let (source, codec) = stream.attach(event_loop, Endpoint::Client(key));
        self.source = source;
        if let Some(codec) = codec {
            self.coded = Some(Coded::new(codec));
        }
    }

    /// Lets everything go through a codec.
    #[cfg(test)]
    pub fn set_codec(&mut self, codec: Box<dyn Codec>) {
        self.coded = Some(Coded::new(codec));
    }

    /// From now on the connection brings the stream of a primary, which may be compressed. Returns the
    /// commands in `first`, the bytes that have come.
    ///
    /// # Errors
    /// The stream is malformed.
    pub fn unpack(&mut self, first: &[u8]) -> Result<Vec<u8>, String> {
        let (mut stream, mut plain) = (PackedStream::default(), Vec::new());
        stream.feed(first, &mut plain).map_err(|error| error.to_string())?;
        self.coded = Some(match self.coded.take() {
            None => Coded::new(UnpackingCodec::boxed(stream, None)),
            Some(coded) => {
                let Coded { codec, plain_in_flight, is_sending, has_ended, peer_has_ended } = *coded;
                let codec = UnpackingCodec::boxed(stream, Some(codec));
                Box::new(Coded { codec, plain_in_flight, is_sending, has_ended, peer_has_ended })
            }
        });
        Ok(plain)
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        self.coded.as_ref().map_or(0, |coded| heap::boxed::<Coded>() + coded.codec.footprint())
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
        self.coded.is_some()
    }

    /// Decodes received bytes; see [`Codec::decode`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String> {
        match &mut self.coded {
            Some(coded) => coded.codec.decode(bytes, buffers),
            None => {
                buffers.plain.extend_from_slice(bytes);
                Ok(PeerSide::Open)
            }
        }
    }

    /// Lets the event loop receive as the input wants. Coded bytes are never received into the memory of an
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

    /// Sends a piece of output, not through a codec.
    #[inline]
    pub fn send(&mut self, event_loop: &mut AnyLoop, piece: OutputPiece) -> Sending {
        let buf = match piece {
            OutputPiece::Output(output) => into_send_buf(output),
            OutputPiece::Rest(rest) => rest.into_buf(),
            OutputPiece::Answer(answer) => SendBuf { head: answer, shared: Vec::new() },
        };
        event_loop.send(self.source, buf)
    }

    /// Sends a piece of output through the codec, a part of it if it is large. `out` is an empty buffer.
    pub fn send_coded(
        &mut self,
        event_loop: &mut AnyLoop,
        piece: OutputPiece,
        mut out: Vec<u8>,
    ) -> CodedSend {
        let Some(coded) = &mut self.coded else {
            return CodedSend { sending: Ok(self.send(event_loop, piece)), rest: None, used: None };
        };
        let mut output = match piece {
            OutputPiece::Answer(answer) => {
                let sending = event_loop.send(self.source, SendBuf { head: answer, shared: Vec::new() });
                coded.is_sending = matches!(sending, Sending::InFlight);
                return CodedSend { sending: Ok(sending), rest: None, used: None };
            }
            OutputPiece::Output(output) => Box::new(PlainOutput::new(into_send_buf(output))),
            OutputPiece::Rest(output) => output,
        };
        let encoded = output.encode_part(coded.codec.as_mut(), &mut out);
        let sending = encoded.map(|plain| {
            coded.plain_in_flight = plain;
            let sending = event_loop.send(self.source, SendBuf { head: out, shared: Vec::new() });
            coded.is_sending = matches!(sending, Sending::InFlight);
            sending
        });
        match output.is_over() {
            true => CodedSend { sending, rest: None, used: Some(output.into_buf()) },
            false => CodedSend { sending, rest: Some(OutputPiece::Rest(output)), used: None },
        }
    }

    /// The peer has told the end behind requests that are being executed.
    #[cold]
    pub fn note_peer_end(&mut self) {
        if let Some(coded) = &mut self.coded {
            coded.peer_has_ended = true;
        }
    }

    /// Whether the peer has told the end behind requests that were being executed.
    #[inline]
    pub fn peer_has_ended(&self) -> bool {
        self.coded.as_ref().is_some_and(|coded| coded.peer_has_ended)
    }

    /// Has [`sluice_evloop::Event::Ready`] follow when the socket has room.
    pub fn watch_room(&self, event_loop: &mut AnyLoop) {
        event_loop.watch(self.source, Interest::WRITABLE);
    }

    /// Sends the bytes that a codec wants to be the last ones, if there is room for them.
    pub fn send_last(&mut self, event_loop: &mut AnyLoop, bytes: &[u8]) {
        if let Some(coded) = &mut self.coded
            && (!coded.is_sending || event_loop.has_sent(self.source))
            && let Some(socket) = event_loop.fd(self.source)
        {
            coded.has_ended = true;
            send_now(socket, bytes);
        }
    }

    /// Bytes of output, before they were encoded, that a finished send stands for.
    #[inline]
    pub fn plain_sent(&mut self, sent: &Sent) -> usize {
        match &mut self.coded {
            None => sent.bytes,
            Some(coded) => {
                coded.is_sending = false;
                std::mem::take(&mut coded.plain_in_flight)
            }
        }
    }

    /// Has the codec tell the peer the end, unless the socket is full: bytes of a send would follow.
    fn report_end(&mut self, event_loop: &mut AnyLoop) {
        if let Some(coded) = &mut self.coded
            && !coded.has_ended
            && (!coded.is_sending || event_loop.has_sent(self.source))
            && let Some(socket) = event_loop.fd(self.source)
        {
            coded.has_ended = true;
            let mut last = Vec::new();
            coded.codec.end(&mut last);
            send_now(socket, &last);
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
        self.report_end(event_loop);
        event_loop.shutdown(self.source, Shutdown::Both);
    }

    /// Closes the socket.
    pub fn close(&mut self, event_loop: &mut AnyLoop) {
        self.report_end(event_loop);
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

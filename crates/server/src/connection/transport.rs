//! Passes a connection's bytes between its socket and its input and output.
//!
//! A plain transport passes bytes unchanged. A transport with a [`Codec`] transforms the bytes, may keep
//! received bytes until more have arrived, and may send protocol bytes of its own. No other part of a
//! connection knows of TLS.

use super::input::Receive;
use super::output::OutputPiece;
use super::plain_output::PlainOutput;
use crate::net::{Codec, Endpoint, PeerSide, Stream, UnpackingCodec, options, send_now};
use sluice_base::{SessionKey, heap};
use sluice_evloop::{AnyLoop, Interest, SendBuf, Sending, Sent, Shared, Shutdown, Source};
use sluice_persist::rdb::PackedStream;
use sluice_resp::Outbox;
use sluice_tls::Buffers;

/// A connection's socket in an event loop, with its codec. A value belongs to the event loop to which it was
/// attached.
pub struct Transport {
    source: Source,
    coded: Option<Box<Coded>>,
}

/// A codec, and the state of the bytes that pass through it.
struct Coded {
    codec: Box<dyn Codec>,
    /// Number of plain bytes, before encoding, of the output in flight.
    plain_in_flight: usize,
    /// Whether a send is in flight. No other bytes can be sent until it has finished.
    is_sending: bool,
    /// Whether the codec's last bytes, a closing message or an alert, were sent to the peer.
    has_ended: bool,
    /// Whether the codec has reported that the peer has sent its closing message.
    peer_has_ended: bool,
}

impl Coded {
    fn new(codec: Box<dyn Codec>) -> Box<Coded> {
        let peer_has_ended = codec.peer_has_ended();
        Box::new(Coded { codec, plain_in_flight: 0, is_sending: false, has_ended: false, peer_has_ended })
    }
}

/// The result of a send through a codec.
pub struct CodedSend {
    /// The event loop's result; `Err` if the bytes could not be encoded.
    pub sending: Result<Sending, String>,
    /// The piece that is to be sent next, if this piece was only partly encoded.
    pub rest: Option<OutputPiece>,
    /// The buffer of the output, for reuse, if all output in it was encoded.
    pub used: Option<SendBuf>,
}

impl Transport {
    /// Attaches a client's connection to an event loop.
    pub fn attach(event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) -> Transport {
        Transport::attach_as(event_loop, stream, Endpoint::Client(key))
    }

    /// Attaches a connection whose events go to `endpoint`, until [`Transport::become_client`].
    pub fn attach_as(event_loop: &mut AnyLoop, stream: Stream, endpoint: Endpoint) -> Transport {
        let (source, codec) = stream.attach(event_loop, endpoint);
        Transport { source, coded: codec.map(Coded::new) }
    }

    /// The connection, with its codec, after the event loop has released its `socket`.
    pub fn into_stream(self, socket: sluice_evloop::Fd) -> Stream {
        Stream::with_codec(socket, self.coded.map(|coded| coded.codec))
    }

    /// The socket, while it is in the event loop.
    pub fn socket<'a>(&self, event_loop: &'a mut AnyLoop) -> Option<std::os::fd::BorrowedFd<'a>> {
        event_loop.fd(self.source)
    }

    /// Makes the socket's events go to this client.
    pub fn become_client(&mut self, event_loop: &mut AnyLoop, key: SessionKey) {
        event_loop.set_token(self.source, Endpoint::Client(key).token());
    }

    /// A transport whose socket is in no event loop yet. [`Transport::move_to`] attaches the socket.
    pub fn detached() -> Transport {
        Transport { source: Source::NONE, coded: None }
    }

    /// Attaches the connection, which has left another event loop, to this event loop. The codec stays; a
    /// connection that was in no event loop before brings its codec with `stream`.
    pub fn move_to(&mut self, event_loop: &mut AnyLoop, stream: Stream, key: SessionKey) {
        let (source, codec) = stream.attach(event_loop, Endpoint::Client(key));
        self.source = source;
        if let Some(codec) = codec {
            self.coded = Some(Coded::new(codec));
        }
    }

    /// Sets the connection's codec.
    #[cfg(test)]
    pub fn set_codec(&mut self, codec: Box<dyn Codec>) {
        self.coded = Some(Coded::new(codec));
    }

    /// Makes the transport decompress a primary's stream, which may be compressed. Returns the commands in
    /// `first`, the bytes already received.
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

    /// Bytes of heap memory of the codec with its state; 0 without a codec.
    pub fn footprint(&self) -> usize {
        self.coded.as_ref().map_or(0, |coded| heap::boxed::<Coded>() + coded.codec.footprint())
    }

    /// Makes the kernel fill packets, at the price of a delay. This is meant for a replica, which receives
    /// a stream and does not answer the commands in it.
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
    /// The errors of [`Codec::decode`].
    pub fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String> {
        match &mut self.coded {
            Some(coded) => coded.codec.decode(bytes, buffers),
            None => {
                buffers.plain.extend_from_slice(bytes);
                Ok(PeerSide::Open)
            }
        }
    }

    /// Makes the event loop receive as `wanted` says. Callers pass no [`Receive::Into`] for a connection
    /// with a codec, because encoded bytes must not get into the memory of an argument.
    #[inline]
    pub fn receive(&mut self, event_loop: &mut AnyLoop, wanted: Receive) {
        match wanted {
            Receive::Chunks => event_loop.recv_start(self.source),
            Receive::Nothing => event_loop.recv_stop(self.source),
            Receive::Into(buf, step) => event_loop.recv_into(self.source, buf, step),
            Receive::Unchanged => {}
        }
    }

    /// Makes the event loop return the buffer of a large argument, filled or not.
    pub fn end_filling(&mut self, event_loop: &mut AnyLoop) {
        event_loop.recv_into_end(self.source);
    }

    /// Sends a piece of output without a codec.
    #[inline]
    pub fn send(&mut self, event_loop: &mut AnyLoop, piece: OutputPiece) -> Sending {
        let buf = match piece {
            OutputPiece::Output(output) => into_send_buf(output),
            OutputPiece::Rest(rest) => rest.into_buf(),
            OutputPiece::Answer(answer) => SendBuf { head: answer, shared: Vec::new() },
        };
        event_loop.send(self.source, buf)
    }

    /// Sends a piece of output, or a part of it if it is large, through the codec. `out` is an empty buffer.
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

    /// Records that the peer has sent its closing message. Requests that arrived before the message may still
    /// be executed.
    #[cold]
    pub fn note_peer_end(&mut self) {
        if let Some(coded) = &mut self.coded {
            coded.peer_has_ended = true;
        }
    }

    /// Whether the codec has reported that the peer has sent its closing message.
    #[inline]
    pub fn peer_has_ended(&self) -> bool {
        self.coded.as_ref().is_some_and(|coded| coded.peer_has_ended)
    }

    /// Requests an event [`sluice_evloop::Event::Ready`] as soon as the socket has room.
    pub fn watch_room(&self, event_loop: &mut AnyLoop) {
        event_loop.watch(self.source, Interest::WRITABLE);
    }

    /// Sends a codec's last bytes, such as an alert, as far as the socket has room. Sends nothing while an
    /// earlier send is unfinished, because the rest of that send would follow these bytes.
    pub fn send_last(&mut self, event_loop: &mut AnyLoop, bytes: &[u8]) {
        if let Some(coded) = &mut self.coded
            && (!coded.is_sending || event_loop.has_sent(self.source))
            && let Some(socket) = event_loop.fd(self.source)
        {
            coded.has_ended = true;
            send_now(socket, bytes);
        }
    }

    /// Number of plain bytes, before encoding, of a finished send.
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

    /// Sends the codec's closing message, unless the codec's last bytes were sent already, or a send is
    /// unfinished, because the rest of that send would follow the message.
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

    /// Requests the release of the socket from the event loop; an event returns it.
    pub fn detach(&mut self, event_loop: &mut AnyLoop) {
        event_loop.detach(self.source);
    }

    /// Sends the codec's closing message if possible, and shuts the connection down at once, because a
    /// completion-based event loop (io_uring) closes a socket only when no operation on it is under way.
    #[cold]
    pub fn end(&mut self, event_loop: &mut AnyLoop) {
        self.report_end(event_loop);
        event_loop.shutdown(self.source, Shutdown::Both);
    }

    /// Sends the codec's closing message if possible, and closes the socket.
    pub fn close(&mut self, event_loop: &mut AnyLoop) {
        self.report_end(event_loop);
        event_loop.close(self.source);
    }
}

/// Converts output into the event loop's form.
#[inline]
fn into_send_buf(outbox: Outbox) -> SendBuf {
    let (head, shared) = outbox.into_parts();
    if shared.is_empty() {
        // Nearly all output shares no values, and even collecting an empty list costs half as much as a send.
        return SendBuf { head, shared: Vec::new() };
    }
    SendBuf { head, shared: shared.into_iter().map(|(at, bytes)| Shared { at, bytes }).collect() }
}

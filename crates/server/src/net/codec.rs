//! Codecs, which transform the bytes of a connection between the socket and the rest of the server: for
//! TLS, and for the compression of a primary's stream (`unpacking.rs`).
//!
//! A codec belongs to the holder of the connection and moves with the connection. It is part of a
//! [`super::Stream`], and is used by `Transport` in an event loop and by [`super::BlockingStream`] on a
//! thread.

use sluice_tls::{Buffers, Session};
use std::fmt;

/// Transforms a connection's bytes.
pub trait Codec: Send + fmt::Debug {
    /// Decodes bytes from the socket: appends plain bytes for the server to `buffers.plain`, and protocol
    /// bytes that must be sent to the peer to `buffers.answer`. The bytes of an incomplete TLS record or
    /// compressed frame are kept until it is complete.
    ///
    /// # Errors
    /// The bytes are invalid. The error is the reason with which the connection ends. The bytes in
    /// `buffers.answer` are sent before it ends, if the socket has room.
    fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String>;

    /// Encodes the parts and appends the result to `out`.
    ///
    /// # Errors
    /// Nothing more can be sent. The error is the reason with which the connection ends.
    fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String>;

    /// Whether the peer has sent its closing message.
    fn peer_has_ended(&self) -> bool;

    /// Appends the closing message for the peer.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Bytes of heap memory of the boxed codec.
    fn footprint(&self) -> usize;
}

/// The state of the peer's sending side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSide {
    /// More bytes may arrive from the peer.
    Open,
    /// The peer has sent its closing message.
    Ended,
}

/// The codec of a TLS session whose handshake is over.
pub struct TlsCodec {
    session: Session,
    /// Plain bytes that arrived with the peer's last packet of the handshake; the next `decode`
    /// returns them first.
    unread: Vec<u8>,
    peer_has_ended: bool,
}

impl TlsCodec {
    /// The codec of an established session without unread bytes; the peer may have sent its
    /// closing message already.
    pub fn boxed(session: Session, peer_has_ended: bool) -> Box<dyn Codec> {
        Box::new(TlsCodec { session, unread: Vec::new(), peer_has_ended })
    }

    /// The codec of a session in which this server is the client. Sluice and Valkey send nothing before a
    /// request, so `unread` has bytes only if the peer is another kind of server.
    pub fn with_unread(session: Session, unread: Vec<u8>) -> Box<dyn Codec> {
        Box::new(TlsCodec { session, unread, peer_has_ended: false })
    }
}

impl fmt::Debug for TlsCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsCodec")
    }
}

impl Codec for TlsCodec {
    fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String> {
        buffers.plain.append(&mut self.unread);
        let received = self.session.receive(bytes, buffers).map_err(|error| error.to_string())?;
        self.peer_has_ended |= received.closed;
        Ok(if self.peer_has_ended { PeerSide::Ended } else { PeerSide::Open })
    }

    fn peer_has_ended(&self) -> bool {
        self.peer_has_ended
    }

    fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        self.session.send(parts.iter().copied(), out).map_err(|error| error.to_string())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.session.close(out);
    }

    fn footprint(&self) -> usize {
        self.session.footprint() + size_of::<TlsCodec>()
    }
}

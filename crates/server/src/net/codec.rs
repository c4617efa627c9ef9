//! What transforms the bytes of a connection on their way between the socket and the rest of the server: TLS.
//!
//! A codec belongs to the holder of the connection and moves along with it: [`super::Stream`] carries it,
//! `Transport` uses it in an event loop, [`super::BlockingStream`] on a thread.

use sluice_tls::{Buffers, Session};
use std::fmt;

/// Transforms a connection's bytes.
pub trait Codec: Send + fmt::Debug {
    /// Decodes bytes from the socket: appends those for the server to `buffers.plain` and those that the peer
    /// must be sent because of them to `buffers.answer`. What is no whole unit yet is held back.
    ///
    /// # Errors
    /// The bytes are invalid: the connection ends, for this reason. What is in `buffers.answer` is sent
    /// before, if there is room.
    fn decode(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<PeerSide, String>;

    /// Appends the parts, encoded, to `out`.
    ///
    /// # Errors
    /// Nothing more can be sent: the connection ends, for this reason.
    fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String>;

    /// Whether the peer has said that nothing more comes.
    fn peer_has_ended(&self) -> bool;

    /// Appends what tells the peer that nothing more follows.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Bytes that the allocator has given.
    fn footprint(&self) -> usize;
}

/// The peer's side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSide {
    /// More may come.
    Open,
    /// The peer has said that nothing more comes.
    Ended,
}

/// TLS.
pub struct TlsCodec {
    session: Session,
    /// What came with the peer's last packet of the handshake; it is decoded with what comes next.
    unread: Vec<u8>,
    peer_has_ended: bool,
}

impl TlsCodec {
    /// The codec of a session whose handshake is over, and of which nothing is unread; the peer may have said
    /// already that nothing more comes.
    pub fn boxed(session: Session, peer_has_ended: bool) -> Box<dyn Codec> {
        Box::new(TlsCodec { session, unread: Vec::new(), peer_has_ended })
    }

    /// The codec of a client's session: a server does not speak before it was asked, so that something is
    /// unread only where the server is none of ours.
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
        self.peer_has_ended = received.closed;
        Ok(if received.closed { PeerSide::Ended } else { PeerSide::Open })
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

//! The TLS session of one connection, of either side.
//!
//! Invariants: (1) rustls is given one record at a time and no record after the handshake; later records go
//! to [`Records`]; (2) `pending` is the beginning of an incomplete record, as received; (3) after an error or
//! close_notify nothing is read any more; (4) a session at rest has no buffer: handshake buffers are freed
//! with the handshake, `pending` with its record.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, HandshakeKind, ProtocolVersion, ServerConfig};
use rustls_pki_types::{IpAddr, Ipv4Addr, ServerName};

use crate::certificate::Certificate;
use crate::record::{HEADER_LEN, KeySide, OpenedRecord, Records};
use crate::{NameField, SessionError, words};

/// The most bytes of complete records that a handshake keeps. rustls allows a message of 64 KiB. Without this
/// bound, messages in pieces of one byte, each padded to a whole record, would keep a gigabyte.
pub const PENDING_MAX: usize = 128 * 1024;

/// The most bytes of a record after its header in TLS 1.2.
const RECORD_MAX: usize = 16 * 1024 + 2048;

/// Approximate bytes that rustls keeps during a handshake besides its connection: measured by
/// `tests/memory.rs`.
const HANDSHAKE_BYTES: usize = 3500;

/// Output bytes of sessions: emptied by the caller, reused for all sessions of a thread.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Decrypted bytes are appended here. Records are decrypted in place in this buffer.
    pub plain: Vec<u8>,
    /// Bytes to be sent to the peer are appended here.
    pub answer: Vec<u8>,
}

impl Buffers {
    /// Bytes of memory that both buffers take.
    pub fn footprint(&self) -> usize {
        self.plain.capacity() + self.answer.capacity()
    }
}

/// The result of processing received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake was completed by these bytes.
    pub established_now: bool,
    /// The peer has sent close_notify, so it sends no more data, but data may still be sent to it.
    pub closed: bool,
}

/// TLS of one connection. Belongs to one thread at a time; one pointer wide.
pub struct Session(Box<SessionState>);

struct SessionState {
    phase: TlsPhase,
    pending: Vec<u8>,
    /// The peer has closed its side.
    is_closed: bool,
    has_sent_close: bool,
}

enum TlsPhase {
    Handshake(Box<TlsHandshake>),
    Open(Box<OpenSession>),
    /// An error has ended the session.
    Over,
}

struct TlsHandshake {
    side: TlsSide,
    /// Records of an incomplete handshake message, unchanged: rustls reads them again from here.
    records: Vec<u8>,
}

/// The state of a session after the handshake.
struct OpenSession {
    records: Records,
    /// The peer's own certificate, without its chain.
    peer: Option<Box<[u8]>>,
    version: &'static str,
    suite: rustls::CipherSuite,
    is_resumed: bool,
}

enum TlsSide {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// The result of one step of rustls.
enum Advance {
    /// Another step may be possible.
    Again,
    /// rustls needs more bytes.
    Waits,
    /// The peer has closed its side.
    Closed,
    /// The session has ended with this error.
    Failed(rustls::Error),
}

impl Session {
    /// A session of the server's side.
    pub(crate) fn accept(config: Arc<ServerConfig>) -> Result<Session, SessionError> {
        let connection = UnbufferedServerConnection::new(config).map_err(SessionError::of)?;
        Ok(Session::new(TlsSide::Server(connection)))
    }

    /// A session of the client's side. The server name given to rustls is never sent and never compared.
    pub(crate) fn connect(config: Arc<ClientConfig>) -> Result<Session, SessionError> {
        let nobody = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        let connection = UnbufferedClientConnection::new(config, nobody).map_err(SessionError::of)?;
        Ok(Session::new(TlsSide::Client(connection)))
    }

    fn new(side: TlsSide) -> Session {
        let phase = TlsPhase::Handshake(Box::new(TlsHandshake { side, records: Vec::new() }));
        Session(Box::new(SessionState {
            phase,
            pending: Vec::new(),
            is_closed: false,
            has_sent_close: false,
        }))
    }

    /// Processes bytes from the socket. Appends decrypted data to `buffers.plain`, and bytes for the peer
    /// to `buffers.answer`; before an error, `buffers.answer` gets the alert, if the peer is to receive one.
    /// Keeps only an incomplete record, or during the handshake an incomplete message. Costs one copy of
    /// `bytes` besides the decryption.
    ///
    /// # Errors
    /// The session is over: nothing can be received or sent any more. `buffers.plain` has the
    /// data before the error.
    pub fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<Received, SessionError> {
        let received = self.0.receive(bytes, buffers);
        if received.is_err() {
            self.0.phase = TlsPhase::Over;
            self.0.pending = Vec::new();
        }
        received
    }

    /// Appends a client's first handshake bytes to `buffers.answer`, before anything was received. Does
    /// nothing on the server's side.
    ///
    /// # Errors
    /// The errors of [`Session::receive`].
    pub fn start(&mut self, buffers: &mut Buffers) -> Result<(), SessionError> {
        let TlsPhase::Handshake(handshake) = &mut self.0.phase else { return Ok(()) };
        match handshake.pump(buffers) {
            Advance::Failed(error) => {
                self.0.phase = TlsPhase::Over;
                Err(SessionError::of(error))
            }
            Advance::Again | Advance::Waits | Advance::Closed => Ok(()),
        }
    }

    /// Whether the handshake is over and the session has not failed, so that data may be sent.
    pub fn is_established(&self) -> bool {
        matches!(self.0.phase, TlsPhase::Open(_))
    }

    /// Encrypts `parts`, in order, and appends the records to `out`: as few as possible, at most 16 KiB of
    /// data each. Each byte is copied once and then encrypted in place.
    ///
    /// # Errors
    /// The session is not established or has ended; `out` has the records that were encrypted before.
    pub fn send<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.0.has_sent_close {
            return Err(SessionError::Ended);
        }
        match &mut self.0.phase {
            TlsPhase::Open(open) => open.records.seal(parts, out),
            TlsPhase::Handshake(_) => Err(SessionError::NotEstablished),
            TlsPhase::Over => Err(SessionError::Ended),
        }
    }

    /// Appends close_notify to `out` when it is called for the first time. Nothing can be sent after it.
    /// During a handshake and after an error nothing is appended.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if let TlsPhase::Open(open) = &mut self.0.phase
            && !self.0.has_sent_close
        {
            open.records.seal_close(out);
        }
        self.0.has_sent_close = true;
    }

    /// The names in the peer's certificate: the subject's first common name, or the URIs of
    /// subjectAltName in order. Names with a NUL byte are left out. Empty before the handshake is
    /// over. Parses the certificate.
    pub fn peer_names(&self, field: NameField) -> Vec<Vec<u8>> {
        let own = self.0.open().and_then(|open| open.peer.as_deref()).and_then(Certificate::read);
        own.map(|certificate| certificate.names(field)).unwrap_or_default()
    }

    /// Whether the peer has shown a certificate, which was verified. False before the handshake is over.
    pub fn has_peer_certificate(&self) -> bool {
        self.0.open().is_some_and(|open| open.peer.is_some())
    }

    /// Whether the handshake resumed an earlier session. False before the handshake is over.
    pub fn is_resumed(&self) -> bool {
        self.0.open().is_some_and(|open| open.is_resumed)
    }

    /// Version and suite by OpenSSL's names; `None` before the handshake is over.
    pub fn version_and_suite(&self) -> Option<(&'static str, String)> {
        self.0.open().map(|open| (open.version, words::suite_name(open.suite)))
    }

    /// Bytes on the heap for the session, its own box included: exact except for the state of
    /// rustls, which is estimated.
    pub fn footprint(&self) -> usize {
        let phase = match &self.0.phase {
            TlsPhase::Handshake(handshake) => {
                size_of::<TlsHandshake>() + HANDSHAKE_BYTES + handshake.records.capacity()
            }
            TlsPhase::Open(open) => {
                let peer = open.peer.as_ref().map_or(0, |der| der.len());
                size_of::<OpenSession>() + peer + open.records.kept()
            }
            TlsPhase::Over => 0,
        };
        size_of::<SessionState>() + phase + self.0.pending.capacity()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").field("pending", &self.0.pending.len()).finish_non_exhaustive()
    }
}

impl SessionState {
    fn open(&self) -> Option<&OpenSession> {
        match &self.phase {
            TlsPhase::Open(open) => Some(open),
            TlsPhase::Handshake(_) | TlsPhase::Over => None,
        }
    }

    fn receive(&mut self, mut bytes: &[u8], buffers: &mut Buffers) -> Result<Received, SessionError> {
        if matches!(self.phase, TlsPhase::Over) {
            return Err(SessionError::Ended);
        }
        let mut established_now = false;
        while !bytes.is_empty() && !self.is_closed {
            let Some((header, length)) = self.next_record(bytes, buffers)? else {
                self.pending.extend_from_slice(bytes);
                break;
            };
            let (rest_of_record, behind) = bytes.split_at(HEADER_LEN + length - self.pending.len());
            bytes = behind;
            // The buffer is freed together with the record, because a session at rest has none.
            let pending = std::mem::take(&mut self.pending);
            match &mut self.phase {
                TlsPhase::Handshake(handshake) => {
                    handshake.records.extend_from_slice(&pending);
                    handshake.records.extend_from_slice(rest_of_record);
                    established_now |= self.advance(buffers)?;
                }
                TlsPhase::Open(open) => {
                    let first = pending.get(HEADER_LEN..).unwrap_or_default();
                    let skip = HEADER_LEN.saturating_sub(pending.len());
                    let body = [first, &rest_of_record[skip..]];
                    let opened = open.records.open(header, body, &mut buffers.plain, &mut buffers.answer);
                    self.is_closed |= opened.map_err(|refusal| {
                        open.records.seal_refusal(&refusal, &mut buffers.answer);
                        refusal.error
                    })? == OpenedRecord::Closed;
                }
                TlsPhase::Over => return Err(SessionError::Ended),
            }
        }
        if self.is_closed {
            self.pending = Vec::new();
        }
        Ok(Received { established_now, closed: self.is_closed })
    }

    /// Header and body length of the record that begins in `pending` and continues in `bytes`; `None` if
    /// the record is not complete.
    fn next_record(
        &mut self,
        bytes: &[u8],
        buffers: &mut Buffers,
    ) -> Result<Option<([u8; HEADER_LEN], usize)>, SessionError> {
        let received = self.pending.len() + bytes.len();
        if received < HEADER_LEN {
            return Ok(None);
        }
        let mut both = self.pending.iter().chain(bytes).copied();
        let header: [u8; HEADER_LEN] = std::array::from_fn(|_| both.next().unwrap_or(0));
        let length = match &mut self.phase {
            TlsPhase::Open(open) => open.records.body_len(header).map_err(|refusal| {
                open.records.seal_refusal(&refusal, &mut buffers.answer);
                refusal.error
            })?,
            TlsPhase::Handshake(_) => {
                let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
                let is_tls = (20..=23).contains(&header[0]) && header[1] == 3 && length <= RECORD_MAX;
                // rustls refuses any other record by its header alone, and gives the reason.
                if is_tls { length } else { 0 }
            }
            TlsPhase::Over => return Err(SessionError::Ended),
        };
        Ok((received >= HEADER_LEN + length).then_some((header, length)))
    }

    /// Lets rustls process the record that was added. Returns whether the handshake is over.
    fn advance(&mut self, buffers: &mut Buffers) -> Result<bool, SessionError> {
        let TlsPhase::Handshake(handshake) = &mut self.phase else { return Ok(false) };
        match handshake.pump(buffers) {
            Advance::Failed(error) => return Err(SessionError::of(error)),
            Advance::Closed => self.is_closed = true,
            Advance::Again | Advance::Waits => {}
        }
        if handshake.records.len() > PENDING_MAX {
            return Err(SessionError::Protocol("peer's handshake message is too large".to_owned()));
        }
        if handshake.side.common().is_handshaking() {
            return Ok(false);
        }
        match std::mem::replace(&mut self.phase, TlsPhase::Over) {
            TlsPhase::Handshake(handshake) => {
                self.phase = TlsPhase::Open(Box::new(handshake.into_open()?));
                Ok(true)
            }
            TlsPhase::Open(_) | TlsPhase::Over => Ok(false),
        }
    }
}

impl TlsHandshake {
    /// Takes the secrets out of rustls, for [`Records`].
    fn into_open(self) -> Result<OpenSession, SessionError> {
        let common = self.side.common();
        let chain = common.peer_certificates().unwrap_or_default();
        let peer = chain.first().map(|der| Box::from(der.as_ref()));
        let is_resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLSv1.2",
        };
        let unknown = || SessionError::Protocol("the handshake ended without a known suite".to_owned());
        let suite = common.negotiated_cipher_suite().ok_or_else(unknown)?.suite();
        if !self.records.is_empty() {
            return Err(SessionError::Protocol("received a message in the record of Finished".to_owned()));
        }
        let (secrets, kernel) = match self.side {
            TlsSide::Server(server) => {
                let (secrets, kernel) =
                    server.dangerous_into_kernel_connection().map_err(SessionError::of)?;
                (secrets, KeySide::Server(kernel))
            }
            TlsSide::Client(client) => {
                let (secrets, kernel) =
                    client.dangerous_into_kernel_connection().map_err(SessionError::of)?;
                (secrets, KeySide::Client(kernel))
            }
        };
        let records = Records::new(secrets, kernel).ok_or_else(unknown)?;
        Ok(OpenSession { records, peer, version, suite, is_resumed })
    }

    /// Appends the bytes that rustls has queued after an error. Only unread bytes may be passed, because
    /// rustls would fail on the same bytes again and queue a second alert.
    fn take_alert(&mut self, used: usize, buffers: &mut Buffers) {
        while self.side.common().wants_write() {
            let rest = self.records.get_mut(used..).unwrap_or_default();
            let (_, Advance::Again) = self.side.step(rest, buffers) else { return };
        }
    }

    /// Runs all possible steps over the records. After an error, the alert that rustls has made for the peer
    /// is in `buffers.answer`.
    fn pump(&mut self, buffers: &mut Buffers) -> Advance {
        let mut used = 0;
        let advance = loop {
            let rest = self.records.get_mut(used..).unwrap_or_default();
            let (done, advance) = self.side.step(rest, buffers);
            used += done;
            match advance {
                Advance::Again => {}
                Advance::Failed(error) => {
                    self.take_alert(used, buffers);
                    return Advance::Failed(error);
                }
                Advance::Waits | Advance::Closed => break advance,
            }
        };
        self.records.drain(..used.min(self.records.len()));
        advance
    }
}

impl TlsSide {
    fn common(&self) -> &CommonState {
        match self {
            TlsSide::Server(server) => server,
            TlsSide::Client(client) => client,
        }
    }

    /// One step of rustls over `bytes`; returns the number of bytes that are used up.
    fn step(&mut self, bytes: &mut [u8], buffers: &mut Buffers) -> (usize, Advance) {
        match self {
            TlsSide::Server(server) => handle(server.process_tls_records(bytes), buffers),
            TlsSide::Client(client) => handle(client.process_tls_records(bytes), buffers),
        }
    }
}

/// Does what a state of rustls requires.
fn handle<D>(status: UnbufferedStatus<'_, '_, D>, buffers: &mut Buffers) -> (usize, Advance) {
    let step = match status.state {
        Err(error) => Advance::Failed(error),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let answer = &mut buffers.answer;
            let at = answer.len();
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                answer.resize(at + size.required_size, 0);
                let written = data.encode(&mut answer[at..]).unwrap_or(0);
                answer.truncate(at + written);
            }
            Advance::Again
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Advance::Again
        }
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Advance::Closed,
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Advance::Waits,
        // Early data arrive before the end of the handshake; this crate never agrees to them.
        Ok(_) => {
            Advance::Failed(rustls::Error::General("data came before the end of the handshake".to_owned()))
        }
    };
    (status.discard, step)
}

#[cfg(test)]
mod tests;

//! One connection's session, of either side.
//!
//! Invariants: (1) `pending` holds the record that is not complete yet, and handshake messages whose rest is
//! in records to come: rustls finds them again where they lie, changed in place; (2) `record_at` is where the
//! first incomplete record begins in it, and nothing before it has to be read for its length; (3) behind an
//! error or close_notify nothing is read any more.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{ClientConfig, CommonState, HandshakeKind, ProtocolVersion, ServerConfig};
use rustls_pki_types::{IpAddr, Ipv4Addr, ServerName};

use crate::certificate::Certificate;
use crate::{NameField, SessionError, words};

/// Most bytes that a session keeps of what it has received, in bytes. A handshake message is at most 64 KiB
/// to rustls; a record is at most 16 KiB and some. Without a bound, messages in pieces of one byte, each
/// padded to a whole record, would keep a gigabyte.
pub const PENDING_MAX: usize = 128 * 1024;

/// Bytes of a record's header.
const HEADER_LEN: usize = 5;

/// Most bytes of a record behind its header, as TLS 1.2 has it.
const RECORD_MAX: usize = 16 * 1024 + 2048;

/// Most plain bytes in a record.
const PLAIN_MAX: usize = 16 * 1024;

/// Room for a record around its plain bytes; rustls says so when it needs more.
const OVERHEAD: usize = 64;

/// What rustls keeps of a session at rest without certificates, in bytes: keys, states, hashes. Measured by
/// `tests/memory.rs`.
const STATE_BYTES: usize = 4096;

/// Bytes on their way through a thread: emptied by the caller, reused for all its sessions.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Decrypted bytes, appended.
    pub plain: Vec<u8>,
    /// What the peer must be sent, appended.
    pub answer: Vec<u8>,
    /// Where records are decrypted in place.
    scratch: Vec<u8>,
}

impl Buffers {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        self.plain.capacity() + self.answer.capacity() + self.scratch.capacity()
    }
}

/// What came of bytes that were received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake ended with these bytes.
    pub established_now: bool,
    /// The peer's close_notify was among them: it sends no more, and may still be sent to.
    pub closed: bool,
}

/// TLS of one connection. Belongs to one thread at a time; one pointer wide.
pub struct Session(Box<SessionState>);

struct SessionState {
    connection: Side,
    pending: Vec<u8>,
    /// Where the first incomplete record begins in `pending`.
    record_at: usize,
    /// Nothing can be read any more: an error or close_notify came.
    is_read_over: bool,
    has_failed: bool,
    has_sent_close: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// How far a step of rustls came.
enum Advance {
    /// There may be more.
    Again,
    /// It waits for more bytes.
    Waits,
    /// The peer has closed its side.
    Closed,
    /// The session is over.
    Failed(rustls::Error),
}

impl Session {
    /// Of the server's side.
    pub(crate) fn accept(config: Arc<ServerConfig>) -> Result<Session, SessionError> {
        let connection = UnbufferedServerConnection::new(config).map_err(SessionError::of)?;
        Ok(Session::new(Side::Server(connection)))
    }

    /// Of the client's side. The name is never sent and never compared.
    pub(crate) fn connect(config: Arc<ClientConfig>) -> Result<Session, SessionError> {
        let nobody = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        let connection = UnbufferedClientConnection::new(config, nobody).map_err(SessionError::of)?;
        Ok(Session::new(Side::Client(connection)))
    }

    fn new(connection: Side) -> Session {
        Session(Box::new(SessionState {
            connection,
            pending: Vec::new(),
            record_at: 0,
            is_read_over: false,
            has_failed: false,
            has_sent_close: false,
        }))
    }

    /// Takes bytes from the socket. What they decrypt to is appended to `buffers.plain`, what the peer must
    /// be sent to `buffers.answer`, also before an error: the alert then. A record that is not complete is
    /// kept, and nothing else. Costs one copy of `bytes` beside the decryption.
    ///
    /// # Errors
    /// The session is over: nothing more can be received or sent; `buffers.plain` has what came before.
    pub fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<Received, SessionError> {
        self.0.receive(bytes, buffers)
    }

    /// Client side: appends its first flight to `buffers.answer`, before anything was received. Does nothing
    /// on the server's side.
    ///
    /// # Errors
    /// As [`Session::receive`].
    pub fn start(&mut self, buffers: &mut Buffers) -> Result<(), SessionError> {
        self.0.receive(&[], buffers).map(|_| ())
    }

    /// Whether the handshake is over and data may be sent.
    pub fn is_established(&self) -> bool {
        !self.0.has_failed && !self.0.connection.common().is_handshaking()
    }

    /// Encrypts `parts`, in order, and appends the records to `out`: as few as hold them, at most 16 KiB
    /// each.
    ///
    /// # Errors
    /// Where the session is not established or has ended; `out` has what was encrypted before.
    pub fn send<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.0.has_failed || self.0.has_sent_close {
            return Err(SessionError::Ended);
        }
        self.0.send(parts, out)
    }

    /// Appends close_notify to `out`, the first time. Nothing can be sent behind it. During a handshake there
    /// is none: nothing is appended.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if !self.0.has_failed && !self.0.has_sent_close {
            self.0.close(out);
        }
    }

    /// Names of the peer's certificate: the subject's first common name, or the URIs of subjectAltName in
    /// order. A name with a NUL byte is none. Parses the certificate.
    pub fn peer_names(&self, field: NameField) -> Vec<Vec<u8>> {
        let chain = self.0.connection.common().peer_certificates();
        let own = chain.and_then(|chain| chain.first()).and_then(|der| Certificate::read(der));
        own.map(|certificate| certificate.names(field)).unwrap_or_default()
    }

    /// Whether the peer has shown a certificate, which was verified then.
    pub fn has_peer_certificate(&self) -> bool {
        self.0.connection.common().peer_certificates().is_some_and(|chain| !chain.is_empty())
    }

    /// Whether the handshake went on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.0.connection.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Version and suite by OpenSSL's names, as soon as they are agreed.
    pub fn version_and_suite(&self) -> Option<(&'static str, String)> {
        let common = self.0.connection.common();
        let version = match common.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => return None,
        };
        Some((version, words::suite_name(common.negotiated_cipher_suite()?.suite())))
    }

    /// Bytes of the heap that the session takes, its own box included: an estimate for what rustls keeps,
    /// exact for what was received and waits, and for the peer's certificates.
    pub fn footprint(&self) -> usize {
        let chain = self.0.connection.common().peer_certificates().unwrap_or_default();
        let certificates: usize = chain.iter().map(|der| der.len()).sum();
        size_of::<SessionState>() + STATE_BYTES + certificates + self.0.pending.capacity()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").field("pending", &self.0.pending.len()).finish_non_exhaustive()
    }
}

impl SessionState {
    fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<Received, SessionError> {
        if self.has_failed {
            return Err(SessionError::Ended);
        }
        if self.is_read_over {
            return Ok(Received { established_now: false, closed: true });
        }
        let was_handshaking = self.connection.common().is_handshaking();
        let step = if self.is_whole_with(bytes) {
            self.process(bytes, buffers)
        } else {
            self.pending.extend_from_slice(bytes);
            Advance::Waits
        };
        if self.pending.len() > PENDING_MAX {
            return Err(self.fail(SessionError::Protocol("peer's handshake message is too large".to_owned())));
        }
        let established_now = was_handshaking && !self.connection.common().is_handshaking();
        match step {
            Advance::Failed(error) => Err(self.fail(SessionError::of(error))),
            Advance::Closed => {
                self.is_read_over = true;
                self.pending = Vec::new();
                Ok(Received { established_now, closed: true })
            }
            Advance::Again | Advance::Waits => Ok(Received { established_now, closed: false }),
        }
    }

    /// The session is over.
    fn fail(&mut self, error: SessionError) -> SessionError {
        self.has_failed = true;
        self.pending = Vec::new();
        error
    }

    /// Whether a record is complete with `bytes` behind what is pending, or nothing is pending.
    fn is_whole_with(&self, bytes: &[u8]) -> bool {
        let old = &self.pending[self.record_at..];
        if old.is_empty() {
            return true;
        }
        let mut header = old.iter().chain(bytes).copied();
        let header: [Option<u8>; HEADER_LEN] = std::array::from_fn(|_| header.next());
        match header {
            [_, _, _, Some(high), Some(low)] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                // rustls refuses a length above the limit as soon as it sees the header.
                length > RECORD_MAX || old.len() + bytes.len() >= HEADER_LEN + length
            }
            _ => false,
        }
    }

    /// Lets rustls work on what is pending and `bytes`, in the thread's buffer.
    fn process(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Advance {
        let Buffers { plain, answer, scratch } = buffers;
        scratch.clear();
        scratch.extend_from_slice(&self.pending);
        scratch.extend_from_slice(bytes);
        let record_at = last_record(scratch, self.record_at);
        let (used, step) = self.connection.pump(scratch, plain, answer);
        let rest = scratch.get(used..).unwrap_or_default();
        if rest.is_empty() {
            self.pending = Vec::new();
        } else {
            self.pending.clear();
            self.pending.shrink_to(rest.len());
            self.pending.extend_from_slice(rest);
        }
        self.record_at = record_at.saturating_sub(used).min(self.pending.len());
        step
    }

    fn send<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.connection.common().is_handshaking() {
            return Err(SessionError::NotEstablished);
        }
        if let Advance::Failed(error) = self.connection.flush(&mut self.pending, out) {
            return Err(self.fail(SessionError::of(error)));
        }
        let sent = match &mut self.connection {
            Side::Server(server) => with_writer(server.process_tls_records(&mut self.pending), parts, out),
            Side::Client(client) => with_writer(client.process_tls_records(&mut self.pending), parts, out),
        };
        sent.map_err(|error| self.fail(error))
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.has_sent_close = true;
        if self.connection.common().is_handshaking()
            || matches!(self.connection.flush(&mut self.pending, out), Advance::Failed(_))
        {
            return;
        }
        match &mut self.connection {
            Side::Server(server) => close_notify(server.process_tls_records(&mut self.pending), out),
            Side::Client(client) => close_notify(client.process_tls_records(&mut self.pending), out),
        }
    }
}

/// Appends close_notify in the state that allows it.
fn close_notify<D>(status: UnbufferedStatus<'_, '_, D>, out: &mut Vec<u8>) {
    if let Ok(ConnectionState::WriteTraffic(mut writer)) = status.state {
        let at = out.len();
        out.resize(at + OVERHEAD, 0);
        let written = writer.queue_close_notify(&mut out[at..]).unwrap_or(0);
        out.truncate(at + written);
    }
}

/// Where the first incomplete record begins, when the record at `at` is the first one to look at.
fn last_record(bytes: &[u8], mut at: usize) -> usize {
    while let Some([_, _, _, high, low]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LEN>()) {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if bytes.len() - at < HEADER_LEN + length {
            break;
        }
        at += HEADER_LEN + length;
    }
    at
}

impl Side {
    fn common(&self) -> &CommonState {
        match self {
            Side::Server(server) => server,
            Side::Client(client) => client,
        }
    }

    /// One step over `bytes`, with how many of them are done with.
    fn step(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>, answer: &mut Vec<u8>) -> (usize, Advance) {
        match self {
            Side::Server(server) => handle(server.process_tls_records(bytes), plain, answer),
            Side::Client(client) => handle(client.process_tls_records(bytes), plain, answer),
        }
    }

    /// All steps over `bytes`, with how many of them are done with. Behind an error the alert is in `answer`.
    fn pump(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>, answer: &mut Vec<u8>) -> (usize, Advance) {
        let mut used = 0;
        loop {
            let rest = bytes.get_mut(used..).unwrap_or_default();
            let (done, step) = self.step(rest, plain, answer);
            used += done;
            match step {
                Advance::Again => {}
                Advance::Failed(error) => {
                    // The alert is queued, and comes before anything is read again. Once: behind the alert rustls
                    // would read the bad bytes again. What rustls keeps of a handshake lies in these bytes.
                    let rest = bytes.get_mut(used..).unwrap_or_default();
                    let _ = self.step(rest, &mut Vec::new(), answer);
                    return (used, Advance::Failed(error));
                }
                Advance::Waits | Advance::Closed => return (used, step),
            }
        }
    }

    /// Appends what is queued for the peer, while nothing new was received.
    fn flush(&mut self, pending: &mut [u8], out: &mut Vec<u8>) -> Advance {
        let (_, step) = self.pump(pending, &mut Vec::new(), out);
        step
    }
}

/// What a state of rustls asks for.
fn handle<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &mut Vec<u8>,
    answer: &mut Vec<u8>,
) -> (usize, Advance) {
    let mut used = status.discard;
    let step = match status.state {
        Err(error) => Advance::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut step = Advance::Again;
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        plain.extend_from_slice(record.payload);
                        used += record.discard;
                    }
                    Err(error) => step = Advance::Failed(error),
                }
            }
            step
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let mut room = 0;
            let at = answer.len();
            loop {
                answer.resize(at + room, 0);
                match data.encode(&mut answer[at..]) {
                    Ok(written) => {
                        answer.truncate(at + written);
                        break;
                    }
                    Err(EncodeError::InsufficientSize(size)) => room = size.required_size,
                    Err(EncodeError::AlreadyEncoded) => break,
                }
            }
            Advance::Again
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Advance::Again
        }
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Advance::Closed,
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Advance::Waits,
        // Early data, which is never agreed to.
        Ok(_) => Advance::Failed(rustls::Error::General("early data came unasked".to_owned())),
    };
    (used, step)
}

/// Encrypts `parts` in the state that allows it.
fn with_writer<'a, D>(
    status: UnbufferedStatus<'_, '_, D>,
    parts: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), SessionError> {
    match status.state {
        Ok(ConnectionState::WriteTraffic(mut writer)) => encrypt(&mut writer, parts, out),
        Ok(_) => Err(SessionError::Ended),
        Err(error) => Err(SessionError::of(error)),
    }
}

/// Gathers small parts into records; what fills a record by itself is encrypted where it lies.
fn encrypt<'a, D>(
    writer: &mut WriteTraffic<'_, D>,
    parts: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut gathered: Vec<u8> = Vec::new();
    for mut part in parts {
        while !part.is_empty() {
            if gathered.is_empty() && part.len() >= PLAIN_MAX {
                let (record, rest) = part.split_at(PLAIN_MAX);
                encrypt_record(writer, record, out)?;
                part = rest;
                continue;
            }
            let (more, rest) = part.split_at(part.len().min(PLAIN_MAX - gathered.len()));
            gathered.extend_from_slice(more);
            part = rest;
            if gathered.len() == PLAIN_MAX {
                encrypt_record(writer, &gathered, out)?;
                gathered.clear();
            }
        }
    }
    if gathered.is_empty() { Ok(()) } else { encrypt_record(writer, &gathered, out) }
}

/// Appends one record.
fn encrypt_record<D>(
    writer: &mut WriteTraffic<'_, D>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let at = out.len();
    let mut room = plain.len() + OVERHEAD;
    loop {
        out.resize(at + room, 0);
        match writer.encrypt(plain, &mut out[at..]) {
            Ok(written) => {
                out.truncate(at + written);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size
            }
            Err(error) => {
                out.truncate(at);
                return Err(SessionError::Protocol(error.to_string()));
            }
        }
    }
}

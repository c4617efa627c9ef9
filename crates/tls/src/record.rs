//! Records of an established session. They are encrypted in the buffer in which they are gathered, and
//! decrypted in the buffer in which the caller wants the data.
//!
//! rustls makes the handshake and hands its secrets over ([`rustls::kernel`]); this module handles all
//! later records, for two reasons. The record layer of rustls allocates and copies twice for each record,
//! which costs several times as much as the cipher. The state that rustls keeps from the handshake is
//! several times what a session at rest needs.
//!
//! Invariants: (1) a nonce is the initialization vector xor a sequence number that grows with each record and
//! restarts only with a new key; (2) a record that fails authentication adds no byte to the output; (3) of a
//! handshake message that comes in pieces, at most the header and [`HANDSHAKE_MAX`] bytes are kept; (4)
//! messages without effect (empty records, key updates, warnings, tickets) are counted, and too many in a row
//! end the session; (5) no key encrypts or decrypts more than its suite allows: then TLS 1.3 continues with a
//! new key, whereas a session of TLS 1.2 with AES-GCM ends.

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey,
};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, SupportedCipherSuite};

use crate::SessionError;

/// Bytes of a record's header.
pub(crate) const HEADER_LEN: usize = 5;

/// The most plain bytes in a record.
const PLAIN_MAX: usize = 16 * 1024;

/// The most bytes that a handshake message after the handshake may have, in addition to its header.
const HANDSHAKE_MAX: usize = 64 * 1024;

/// Approximate bytes that rustls keeps to make new keys in TLS 1.3: measured by `tests/memory.rs`.
const KERNEL_BYTES: usize = 736;

/// The most records without effect that are accepted in a row; each kind is counted separately.
const IDLE_RECORDS_MAX: u8 = 32;

/// Bytes of the explicit part of a nonce in each record of AES-GCM in TLS 1.2.
const EXPLICIT_LEN: usize = 8;

/// The most blocks of 16 bytes that a TLS 1.2 key with AES-GCM encrypts: the blocks of 2^24 full records,
/// 256 GiB, below the 2^24.5 full records of RFC 8446 5.5. Small records count by their blocks too, because
/// a client with one short reply at a time would reach a bound of 2^24 records within minutes.
const BLOCKS_MAX: u64 = 1 << 34;

/// Bytes of an authentication tag.
const TAG_LEN: usize = 16;

const TYPE_ALERT: u8 = 21;
const TYPE_HANDSHAKE: u8 = 22;
const TYPE_DATA: u8 = 23;

const MESSAGE_HELLO_REQUEST: u8 = 0;
const MESSAGE_CLIENT_HELLO: u8 = 1;
const MESSAGE_NEW_SESSION_TICKET: u8 = 4;
const MESSAGE_KEY_UPDATE: u8 = 24;

/// Alerts by their numbers in RFC 8446 6.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alert {
    CloseNotify = 0,
    UnexpectedMessage = 10,
    BadRecordMac = 20,
    RecordOverflow = 22,
    IllegalParameter = 47,
    DecodeError = 50,
    InternalError = 80,
    UserCanceled = 90,
    NoRenegotiation = 100,
}

/// The kind of a record that was decrypted.
#[derive(PartialEq, Eq)]
pub(crate) enum OpenedRecord {
    /// Application data, or a message that has been processed.
    Handled,
    /// The peer's close_notify, after which the peer sends no more data.
    Closed,
}

/// The reason why a record ends the session, with the alert for the peer, if any.
pub(crate) struct RecordRefusal {
    alert: Option<Alert>,
    pub(crate) error: SessionError,
}

/// The side of the protocol, with the state of rustls that makes new keys in TLS 1.3.
pub(crate) enum KeySide {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

/// The keys and counters of an established session, in both directions.
pub(crate) struct Records {
    receiving: TrafficKey,
    sending: TrafficKey,
    /// `None` for TLS 1.2, which never changes its keys.
    kernel: Option<KeySide>,
    is_server: bool,
    framing: RecordShape,
    /// Number of records under one key after which the next record gets a new key (TLS 1.3).
    key_limit: u64,
    /// Number of blocks under one key, in either direction, after which the session ends (TLS 1.2 with
    /// AES-GCM).
    block_limit: u64,
    /// The beginning of a handshake message that later records continue.
    message: Vec<u8>,
    empty: u8,
    key_updates: u8,
    warnings: u8,
}

/// The layout of a record around its data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordShape {
    /// TLS 1.3: the record type is encrypted after the data.
    Inner,
    /// TLS 1.2 with AES-GCM: the explicit part of the nonce is before the data.
    Explicit,
    /// TLS 1.2 with ChaCha20: only the data and the tag.
    Plain,
}

/// A key, its initialization vector, and the number of the next record.
struct TrafficKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    /// Blocks of 16 bytes that the key has encrypted or decrypted, including one for the tag of each record.
    blocks: u64,
}

impl Records {
    /// The records of a session after its handshake. `None` for an unknown suite, which cannot
    /// have been agreed on.
    pub(crate) fn new(secrets: ExtractedSecrets, kernel: KeySide) -> Option<Records> {
        let (version, suite) = match &kernel {
            KeySide::Server(kernel) => (kernel.protocol_version(), kernel.negotiated_cipher_suite()),
            KeySide::Client(kernel) => (kernel.protocol_version(), kernel.negotiated_cipher_suite()),
        };
        let is_13 = version == ProtocolVersion::TLSv1_3;
        let framing = match &secrets.tx.1 {
            _ if is_13 => RecordShape::Inner,
            ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => RecordShape::Plain,
            _ => RecordShape::Explicit,
        };
        let key_limit = match suite {
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls12(_) => u64::MAX,
        };
        Some(Records {
            receiving: TrafficKey::new(secrets.rx)?,
            sending: TrafficKey::new(secrets.tx)?,
            is_server: matches!(kernel, KeySide::Server(_)),
            kernel: is_13.then_some(kernel),
            framing,
            key_limit,
            block_limit: if framing == RecordShape::Explicit { BLOCKS_MAX } else { u64::MAX },
            message: Vec::new(),
            empty: 0,
            key_updates: 0,
            warnings: 0,
        })
    }

    /// Bytes on the heap: an incomplete handshake message, and approximately the key state of rustls.
    pub(crate) fn kept(&self) -> usize {
        self.message.capacity() + self.kernel.as_ref().map_or(0, |_| KERNEL_BYTES)
    }

    /// Makes a TLS 1.3 key used up after fewer records, for tests.
    #[cfg(test)]
    pub(crate) fn limit_key(&mut self, records: u64) {
        self.key_limit = records;
    }

    /// Makes a TLS 1.2 key used up after fewer blocks, for tests.
    #[cfg(test)]
    pub(crate) fn limit_blocks(&mut self, blocks: u64) {
        self.block_limit = blocks;
    }

    /// Blocks that a key may encrypt, for tests.
    #[cfg(test)]
    pub(crate) fn block_limit(&self) -> u64 {
        self.block_limit
    }

    /// Switches to a new sending key without a message to the peer, for tests. Returns whether there is a
    /// new key.
    #[cfg(test)]
    pub(crate) fn next_sending(&mut self) -> bool {
        self.next_key(RecordDirection::Sending).map(|key| self.sending = key).is_some()
    }

    /// Length of the body that follows a header, in bytes. Errors: the header is not acceptable.
    pub(crate) fn body_len(&self, header: [u8; HEADER_LEN]) -> Result<usize, RecordRefusal> {
        let [kind, major, _, high, low] = header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let is_kind = match self.framing {
            RecordShape::Inner => kind == TYPE_DATA,
            RecordShape::Explicit | RecordShape::Plain => (TYPE_ALERT..=TYPE_DATA).contains(&kind),
        };
        if !is_kind || major != 3 {
            return Err(RecordRefusal::new(
                Alert::UnexpectedMessage,
                "received a record of an unexpected type",
            ));
        }
        let (least, most) = match self.framing {
            RecordShape::Inner => (1 + TAG_LEN, PLAIN_MAX + 256),
            RecordShape::Explicit => (EXPLICIT_LEN + TAG_LEN, PLAIN_MAX + 2048),
            RecordShape::Plain => (TAG_LEN, PLAIN_MAX + 2048),
        };
        if length > most {
            return Err(RecordRefusal::new(Alert::RecordOverflow, "received a record that is too long"));
        }
        if length < least {
            return Err(RecordRefusal::new(Alert::BadRecordMac, "received a record that is too short"));
        }
        Ok(length)
    }

    /// Decrypts a record whose body lies in two pieces. Appends its data to `plain`, and bytes to be sent
    /// to the peer to `answer`. Costs one copy besides the cipher.
    pub(crate) fn open(
        &mut self,
        header: [u8; HEADER_LEN],
        body: [&[u8]; 2],
        plain: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> Result<OpenedRecord, RecordRefusal> {
        let at = plain.len();
        plain.extend_from_slice(body[0]);
        plain.extend_from_slice(body[1]);
        let opened = self.decrypt(header, &mut plain[at..]);
        plain.truncate(at + opened.as_ref().map_or(0, |(_, length)| *length));
        let (kind, length) = opened?;
        if length > PLAIN_MAX {
            plain.truncate(at);
            return Err(RecordRefusal::new(Alert::RecordOverflow, "received a record that is too long"));
        }
        if kind == TYPE_DATA && self.message.is_empty() {
            self.count_data(length)?;
            return Ok(OpenedRecord::Handled);
        }
        let content = plain[at..].to_vec();
        plain.truncate(at);
        match kind {
            TYPE_ALERT if self.message.is_empty() => self.alert(&content),
            TYPE_HANDSHAKE if !content.is_empty() => self.handshake(content, answer),
            _ => Err(RecordRefusal::new(Alert::UnexpectedMessage, "received a record of an unexpected type")),
        }
    }

    /// Decrypts in place; returns the type of the record and the number of its plain bytes.
    fn decrypt(&mut self, header: [u8; HEADER_LEN], body: &mut [u8]) -> Result<(u8, usize), RecordRefusal> {
        let TrafficKey { key, iv, sequence, blocks } = &mut self.receiving;
        if *blocks >= self.block_limit && header[0] == TYPE_DATA {
            return Err(RecordRefusal { alert: Some(Alert::InternalError), error: SessionError::KeyUsedUp });
        }
        let nonce = nonce(iv, *sequence);
        let opened = match self.framing {
            RecordShape::Inner => key.open_in_place(nonce, Aad::from(header), body),
            RecordShape::Plain => {
                let aad = additional(*sequence, header[0], body.len() - TAG_LEN);
                key.open_in_place(nonce, Aad::from(aad), body)
            }
            RecordShape::Explicit => {
                let mut nonce = *iv;
                nonce[NONCE_LEN - EXPLICIT_LEN..].copy_from_slice(&body[..EXPLICIT_LEN]);
                let aad = additional(*sequence, header[0], body.len() - EXPLICIT_LEN - TAG_LEN);
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_within(nonce, Aad::from(aad), body, EXPLICIT_LEN..)
            }
        };
        let opened = opened.map_err(|_| {
            RecordRefusal::new(Alert::BadRecordMac, "received a record that cannot be decrypted")
        })?;
        *sequence += 1;
        *blocks += blocks_of(opened.len());
        if self.framing != RecordShape::Inner {
            return Ok((header[0], opened.len()));
        }
        match opened.iter().rposition(|byte| *byte != 0) {
            Some(end) => Ok((opened[end], end)),
            None => Err(RecordRefusal::new(Alert::UnexpectedMessage, "received a record without a type")),
        }
    }

    /// Counts a record of data: too many empty records in a row end the session.
    fn count_data(&mut self, length: usize) -> Result<(), RecordRefusal> {
        if length > 0 {
            (self.empty, self.key_updates, self.warnings) = (0, 0, 0);
            return Ok(());
        }
        count(&mut self.empty, "received too many empty records")
    }

    /// Processes an alert of the peer.
    fn alert(&mut self, content: &[u8]) -> Result<OpenedRecord, RecordRefusal> {
        let [level, description] = *content else {
            return Err(RecordRefusal::new(Alert::DecodeError, "received an alert that is not two bytes"));
        };
        if description == Alert::CloseNotify as u8 {
            return Ok(OpenedRecord::Closed);
        }
        // In TLS 1.3 the level has no meaning, and every alert but close_notify and user_canceled ends the
        // session.
        let is_warning = match self.framing {
            RecordShape::Inner => description == Alert::UserCanceled as u8,
            RecordShape::Explicit | RecordShape::Plain => level == 1,
        };
        if is_warning {
            count(&mut self.warnings, "received too many warnings")?;
            return Ok(OpenedRecord::Handled);
        }
        let name = rustls::AlertDescription::from(description);
        Err(RecordRefusal { alert: None, error: SessionError::Alert(format!("{name:?}")) })
    }

    /// Processes bytes of handshake messages.
    fn handshake(&mut self, content: Vec<u8>, answer: &mut Vec<u8>) -> Result<OpenedRecord, RecordRefusal> {
        if self.framing != RecordShape::Inner {
            return self.refuse_renegotiation(&content, answer);
        }
        if self.message.is_empty() {
            self.message = content;
        } else {
            self.message.extend_from_slice(&content);
        }
        while let Some([kind, high, middle, low]) = self.message.first_chunk::<4>().copied() {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            let is_expected = match kind {
                MESSAGE_KEY_UPDATE => true,
                MESSAGE_NEW_SESSION_TICKET => !self.is_server,
                _ => false,
            };
            if !is_expected {
                return Err(RecordRefusal::new(
                    Alert::UnexpectedMessage,
                    "received an unexpected handshake message",
                ));
            }
            if length > HANDSHAKE_MAX || kind == MESSAGE_KEY_UPDATE && length != 1 {
                return Err(RecordRefusal::new(
                    Alert::DecodeError,
                    "received a handshake message of a wrong length",
                ));
            }
            let Some(body) = self.message.get(4..4 + length) else { return Ok(OpenedRecord::Handled) };
            if kind == MESSAGE_KEY_UPDATE {
                let wanted = body[0];
                if self.message.len() > 4 + length {
                    return Err(RecordRefusal::new(
                        Alert::UnexpectedMessage,
                        "received a message after a key update",
                    ));
                }
                self.message = Vec::new();
                self.update_receiving(wanted, answer)?;
            } else {
                // Tickets have no effect, because this side, as a client, never resumes a session.
                count(&mut self.warnings, "received too many tickets")?;
                self.message.drain(..4 + length);
            }
        }
        if self.message.is_empty() {
            self.message = Vec::new();
        }
        Ok(OpenedRecord::Handled)
    }

    /// Handles a key update: the peer has changed its sending key. `wanted` is 1 if the peer asks for a
    /// change of this side's key as well.
    fn update_receiving(&mut self, wanted: u8, answer: &mut Vec<u8>) -> Result<(), RecordRefusal> {
        count(&mut self.key_updates, "received too many key updates")?;
        self.receiving = self
            .next_key(RecordDirection::Receiving)
            .ok_or_else(|| RecordRefusal::new(Alert::InternalError, "no new key"))?;
        match wanted {
            0 => Ok(()),
            1 => self.update_sending(answer).map_err(|error| RecordRefusal { alert: None, error }),
            _ => Err(RecordRefusal::new(
                Alert::IllegalParameter,
                "received a key update that is not understood",
            )),
        }
    }

    /// Sends a key update, after which the next record has a new key.
    fn update_sending(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        self.seal_message(TYPE_HANDSHAKE, &[MESSAGE_KEY_UPDATE, 0, 0, 1, 0], out)?;
        let no_key = || SessionError::Protocol("no new key".to_owned());
        self.sending = self.next_key(RecordDirection::Sending).ok_or_else(no_key)?;
        Ok(())
    }

    /// The next key of that direction; `None` for TLS 1.2.
    fn next_key(&mut self, way: RecordDirection) -> Option<TrafficKey> {
        let secrets = match (self.kernel.as_mut()?, way) {
            (KeySide::Server(kernel), RecordDirection::Receiving) => kernel.update_rx_secret(),
            (KeySide::Server(kernel), RecordDirection::Sending) => kernel.update_tx_secret(),
            (KeySide::Client(kernel), RecordDirection::Receiving) => kernel.update_rx_secret(),
            (KeySide::Client(kernel), RecordDirection::Sending) => kernel.update_tx_secret(),
        };
        TrafficKey::new(secrets.ok()?)
    }

    /// TLS 1.2: a request to renegotiate is answered with a warning. The session ends if a warning or an
    /// earlier request has arrived since the last data, or if the message is not such a request.
    fn refuse_renegotiation(
        &mut self,
        content: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<OpenedRecord, RecordRefusal> {
        let wish = if self.is_server { MESSAGE_CLIENT_HELLO } else { MESSAGE_HELLO_REQUEST };
        if content.first() != Some(&wish) || self.warnings > 0 {
            return Err(RecordRefusal::new(
                Alert::UnexpectedMessage,
                "received an unexpected handshake message",
            ));
        }
        self.warnings += 1;
        self.seal_message(TYPE_ALERT, &[1, Alert::NoRenegotiation as u8], answer)
            .map_err(|error| RecordRefusal { alert: None, error })?;
        Ok(OpenedRecord::Handled)
    }

    /// Encrypts `parts` into records and appends those to `out`. Each byte is copied once and
    /// then encrypted in place.
    pub(crate) fn seal<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let mut record: Option<usize> = None;
        for mut part in parts {
            while !part.is_empty() {
                let at = match record {
                    Some(at) => at,
                    None => {
                        if self.sending.sequence >= self.key_limit {
                            self.update_sending(out)?;
                        }
                        if self.sending.blocks >= self.block_limit {
                            return Err(SessionError::KeyUsedUp);
                        }
                        *record.insert(self.begin(out))
                    }
                };
                let room = PLAIN_MAX - (out.len() - at - self.prefix_len());
                let (now, rest) = part.split_at(part.len().min(room));
                out.extend_from_slice(now);
                part = rest;
                if now.len() == room {
                    self.finish(TYPE_DATA, at, out)?;
                    record = None;
                }
            }
        }
        match record {
            Some(at) => self.finish(TYPE_DATA, at, out),
            None => Ok(()),
        }
    }

    /// Appends a close_notify record to `out`.
    pub(crate) fn seal_close(&mut self, out: &mut Vec<u8>) {
        let _exhausted = self.seal_message(TYPE_ALERT, &[1, Alert::CloseNotify as u8], out);
    }

    /// Appends the alert of a refusal to `out`, if the refusal has one.
    pub(crate) fn seal_refusal(&mut self, refusal: &RecordRefusal, out: &mut Vec<u8>) {
        if let Some(alert) = refusal.alert {
            let _exhausted = self.seal_message(TYPE_ALERT, &[2, alert as u8], out);
        }
    }

    /// Appends a record of another type than data to `out`.
    pub(crate) fn seal_message(
        &mut self,
        kind: u8,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let at = self.begin(out);
        out.extend_from_slice(content);
        self.finish(kind, at, out)
    }

    /// Bytes of a record before its data.
    fn prefix_len(&self) -> usize {
        HEADER_LEN + if self.framing == RecordShape::Explicit { EXPLICIT_LEN } else { 0 }
    }

    /// Appends room for the prefix of a record; returns the position of the prefix.
    fn begin(&self, out: &mut Vec<u8>) -> usize {
        let at = out.len();
        out.resize(at + self.prefix_len(), 0);
        at
    }

    /// Encrypts the data gathered after the prefix at position `at`, and fills in the prefix.
    fn finish(&mut self, kind: u8, at: usize, out: &mut Vec<u8>) -> Result<(), SessionError> {
        let data_at = at + self.prefix_len();
        let (outer, sequence) = match self.framing {
            RecordShape::Inner => {
                out.push(kind);
                (TYPE_DATA, self.sending.sequence)
            }
            RecordShape::Explicit | RecordShape::Plain => (kind, self.sending.sequence),
        };
        let length = out.len() - data_at;
        let body_len = out.len() - at - HEADER_LEN + TAG_LEN;
        let [high, low] = u16::try_from(body_len).unwrap_or(u16::MAX).to_be_bytes();
        let header = [outer, 3, 3, high, low];
        out[at..at + HEADER_LEN].copy_from_slice(&header);
        let bytes = nonce_bytes(&self.sending.iv, sequence);
        if self.framing == RecordShape::Explicit {
            out[at + HEADER_LEN..data_at].copy_from_slice(&bytes[NONCE_LEN - EXPLICIT_LEN..]);
        }
        let nonce = Nonce::assume_unique_for_key(bytes);
        let key = &self.sending.key;
        let data = &mut out[data_at..];
        let tag: Result<Tag, _> = if self.framing == RecordShape::Inner {
            key.seal_in_place_separate_tag(nonce, Aad::from(header), data)
        } else {
            key.seal_in_place_separate_tag(nonce, Aad::from(additional(sequence, kind, length)), data)
        };
        let Ok(tag) = tag else {
            out.truncate(at);
            return Err(SessionError::Protocol("a record cannot be encrypted".to_owned()));
        };
        out.extend_from_slice(tag.as_ref());
        self.sending.sequence += 1;
        self.sending.blocks += blocks_of(length);
        Ok(())
    }
}

/// A direction of records, as this side sees it.
#[derive(Clone, Copy)]
enum RecordDirection {
    Receiving,
    Sending,
}

impl TrafficKey {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Option<TrafficKey> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(TrafficKey { key, iv: iv.as_ref().try_into().ok()?, sequence, blocks: 0 })
    }
}

impl RecordRefusal {
    fn new(alert: Alert, text: &str) -> RecordRefusal {
        RecordRefusal { alert: Some(alert), error: SessionError::Protocol(text.to_owned()) }
    }
}

/// Number of blocks that a record with this many bytes counts as, its tag included.
fn blocks_of(bytes: usize) -> u64 {
    bytes.div_ceil(16) as u64 + 1
}

/// Counts one more message without effect; too many in a row are an error.
fn count(counter: &mut u8, text: &str) -> Result<(), RecordRefusal> {
    *counter += 1;
    if *counter > IDLE_RECORDS_MAX {
        return Err(RecordRefusal::new(Alert::UnexpectedMessage, text));
    }
    Ok(())
}

/// The nonce of a record: the initialization vector xor the sequence number.
fn nonce_bytes(iv: &[u8; NONCE_LEN], sequence: u64) -> [u8; NONCE_LEN] {
    let mut bytes = *iv;
    for (byte, part) in bytes[NONCE_LEN - 8..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= part;
    }
    bytes
}

/// The nonce of a record, in the type of ring.
fn nonce(iv: &[u8; NONCE_LEN], sequence: u64) -> Nonce {
    Nonce::assume_unique_for_key(nonce_bytes(iv, sequence))
}

/// The additional data that TLS 1.2 authenticates: sequence number, type, version, length.
fn additional(sequence: u64, kind: u8, length: usize) -> [u8; 13] {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&sequence.to_be_bytes());
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    bytes[8..].copy_from_slice(&[kind, 3, 3, high, low]);
    bytes
}

//! A connection as the server holds it: its source in the event loop, and input that is no whole request yet.

use crate::host::plain_error;
use crate::inbound::{Inbound, Input};
use sluice_engine::SessionKey;
use sluice_evloop::{SendBuf, Shared, Source};
use sluice_resp::Outbox;

/// A connection.
pub struct Wire {
    /// The loop's name for its socket, while it is here.
    pub source: Source,
    /// Where its socket is.
    pub place: Place,
    /// The engine's name for its client.
    pub key: SessionKey,
    /// Its input; while a worker has it, only what that told of it.
    pub inbound: Inbound,
    /// A send is in flight.
    pub sending: bool,
    /// To be closed when nothing is in flight any more.
    pub close_when_sent: bool,
    /// The most bytes that were executed from `carry` since its room was last looked at.
    pub carry_peak: usize,
}

/// Where a connection's socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the executing thread's loop.
    Here,
    /// On its way out of that loop.
    Leaving,
    /// With the worker on this seat. Input and output are its affair.
    Worker(usize),
    /// On its way back from there: output waits until it is here.
    Returning(usize),
}

impl Wire {
    /// A new connection.
    pub fn new(source: Source, key: SessionKey) -> Box<Wire> {
        Box::new(Wire {
            source,
            place: Place::Here,
            key,
            inbound: Inbound::new(Vec::new(), Input::Open),
            sending: false,
            close_when_sent: false,
            carry_peak: 0,
        })
    }
}

/// A session's key as a token of the loop, and back.
pub fn token_of(key: SessionKey) -> sluice_evloop::Token {
    sluice_evloop::Token(u64::from(key.generation) << 32 | u64::from(key.slot))
}

/// The session that a token names.
pub fn key_of(token: sluice_evloop::Token) -> SessionKey {
    SessionKey { slot: token.0 as u32, generation: (token.0 >> 32) as u32 }
}

/// Why a connection ends whose client closed it: for the log.
pub const CLIENT_CLOSED: &str = "Client closed connection";

/// Why a connection ends that could not be read from: for the log.
pub fn read_failed(error: &std::io::Error) -> String {
    format!("Reading from client: {}", plain_error(error))
}

/// Why a connection ends that could not be written to: for the log.
pub fn write_failed(error: &std::io::Error) -> String {
    format!("Error writing to client: {}", plain_error(error))
}

/// Replies as the loop sends them.
pub fn into_send(outbox: Outbox) -> SendBuf {
    let (head, shared) = outbox.into_parts();
    SendBuf { head, shared: shared.into_iter().map(|(at, bytes)| Shared { at, bytes }).collect() }
}

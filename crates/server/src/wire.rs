//! A connection as the server holds it: its source in the event loop, and input that is no whole request yet.

use sluice_engine::SessionKey;
use sluice_evloop::Source;
use sluice_resp::Parser;

/// A connection.
pub struct Wire {
    /// The loop's name for its socket, while it is here.
    pub source: Source,
    /// Where its socket is.
    pub place: Place,
    /// The engine's name for its client.
    pub key: SessionKey,
    /// Bytes of a request that has not come whole, or that waits. Without room for connections whose requests come whole,
    /// and for idle ones.
    pub carry: Vec<u8>,
    /// Where the parser stands in `carry`.
    pub parser: Parser,
    /// How input is going.
    pub input: Input,
    /// A send is in flight.
    pub sending: bool,
    /// To be closed when nothing is in flight any more.
    pub close_when_sent: bool,
    /// Bytes that `carry` held when the receive into it began.
    pub filled_from: usize,
    /// The most bytes that were executed from `carry` since its room was last looked at.
    pub carry_peak: usize,
    /// Bytes in `carry` and its room, as last told to the engine.
    pub published: (usize, usize),
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

/// How input is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes are received as they come.
    Open,
    /// A large argument is received straight into `carry`.
    Filling,
    /// The engine keeps a request waiting. Bytes are still received, up to a bound, since that is how one learns that the
    /// client has gone.
    Held,
    /// Nothing more is read: the connection ends.
    Shut,
}

impl Wire {
    /// A new connection.
    pub fn new(source: Source, key: SessionKey) -> Box<Wire> {
        Box::new(Wire {
            source,
            place: Place::Here,
            key,
            carry: Vec::new(),
            parser: Parser::new(),
            input: Input::Open,
            sending: false,
            close_when_sent: false,
            filled_from: 0,
            carry_peak: 0,
            published: (0, 0),
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

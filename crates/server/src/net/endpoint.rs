//! The connection or socket that a token of the event loop names. Only this module makes and reads tokens.
//!
//! ```text
//!   63      56 55              32 31                                0
//!  ┌──────────┬──────────────────┬──────────────────────────────────┐
//!  │ kind     │ index            │ generation                       │
//!  └──────────┴──────────────────┴──────────────────────────────────┘
//! ```
//!
//! The index is a slot in the table of the kind. The generation distinguishes the successive users of a
//! slot. It shows the code that gets an event whether the event's connection is gone. A new kind is a
//! variant here, with its number, and an arm of the `match` in `take_other_event` (`iteration.rs`).
//!
//! A client has the kind 0, so that an I/O thread, whose event loop has only clients, need not
//! check the kind.

use sluice_base::SessionKey;
use sluice_evloop::Token;

/// The connection or socket to which an event belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A client's connection, by the session's key. On the threads of handshakes and of the metrics endpoint,
    /// a connection in the thread's own table.
    Client(SessionKey),
    /// A socket on which the main thread, or the metrics endpoint, accepts connections.
    Listener {
        /// The slot in the table of listeners.
        slot: u32,
        /// A number that is different for each use of the slot.
        generation: u32,
    },
    /// A connection of the replication link to the primary, while the link itself handles its events. Later
    /// the connection may become a client's.
    PrimaryLink {
        /// Which of the link's connections this is.
        channel: LinkChannel,
        /// The lower 32 bits of the link's attempt number.
        attempt: u32,
    },
    /// The socket to which signal handlers write.
    Signal,
    /// A connection of the cluster's bus.
    BusLink(BusPlace),
}

/// The place of a connection in the table of bus connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusPlace {
    /// The slot in the table.
    pub slot: u32,
    /// A number that is different for each use of the slot.
    pub generation: u32,
}

/// A connection of the link to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChannel {
    /// The connection of the handshake. It is the only connection, or the main channel of a dual-channel
    /// sync.
    Main,
    /// The connection that only transfers a snapshot.
    Snapshot,
}

impl Endpoint {
    /// Maximum number of clients at the same time. It is limited because an index has 24 bits.
    pub const CLIENTS_MAX: usize = 16_000_000;

    const CLIENT: u8 = 0;
    const LISTENER: u8 = 1;
    const PRIMARY_LINK: u8 = 2;
    const SIGNAL: u8 = 3;
    const BUS_LINK: u8 = 4;

    /// The token of this endpoint.
    pub fn token(self) -> Token {
        let (kind, index, generation) = match self {
            Endpoint::Client(key) => (Self::CLIENT, key.slot, key.generation),
            Endpoint::Listener { slot, generation } => (Self::LISTENER, slot, generation),
            Endpoint::PrimaryLink { channel: LinkChannel::Main, attempt } => (Self::PRIMARY_LINK, 0, attempt),
            Endpoint::PrimaryLink { channel: LinkChannel::Snapshot, attempt } => {
                (Self::PRIMARY_LINK, 1, attempt)
            }
            Endpoint::Signal => (Self::SIGNAL, 0, 0),
            Endpoint::BusLink(place) => (Self::BUS_LINK, place.slot, place.generation),
        };
        debug_assert!(index <= INDEX_MAX, "an index has 24 bits");
        Token(u64::from(kind) << 56 | u64::from(index & INDEX_MAX) << 32 | u64::from(generation))
    }

    /// The endpoint that a token names; `None` if no [`Endpoint::token`] has made the token. Cost for the
    /// token of a client: one comparison and two shifts.
    #[inline(always)]
    pub fn of(token: Token) -> Option<Endpoint> {
        if token.0 >> 56 == u64::from(Self::CLIENT) {
            return Some(Endpoint::Client(Endpoint::client(token)));
        }
        Endpoint::rare(token)
    }

    /// The client that a token names, in an event loop that has only clients.
    #[inline(always)]
    pub fn client(token: Token) -> SessionKey {
        debug_assert!(token.0 >> 56 == u64::from(Self::CLIENT), "it has nothing but clients");
        SessionKey { slot: (token.0 >> 32) as u32, generation: token.0 as u32 }
    }

    /// The endpoint of a token that names no client.
    #[cold]
    fn rare(token: Token) -> Option<Endpoint> {
        let (index, generation) = ((token.0 >> 32) as u32 & INDEX_MAX, token.0 as u32);
        match ((token.0 >> 56) as u8, index) {
            (Self::LISTENER, slot) => Some(Endpoint::Listener { slot, generation }),
            (Self::PRIMARY_LINK, 0) => {
                Some(Endpoint::PrimaryLink { channel: LinkChannel::Main, attempt: generation })
            }
            (Self::PRIMARY_LINK, 1) => {
                Some(Endpoint::PrimaryLink { channel: LinkChannel::Snapshot, attempt: generation })
            }
            (Self::SIGNAL, 0) => Some(Endpoint::Signal),
            (Self::BUS_LINK, slot) => Some(Endpoint::BusLink(BusPlace { slot, generation })),
            _ => None,
        }
    }
}

/// The largest index, which has 24 bits.
const INDEX_MAX: u32 = (1 << 24) - 1;

const _: () = assert!(Endpoint::CLIENTS_MAX < INDEX_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_what_it_was_made_for_and_nothing_else() {
        let key = |slot, generation| SessionKey { slot, generation };
        let mut all = vec![Endpoint::Signal];
        for number in [0, 1, 77, INDEX_MAX] {
            for generation in [0, 1, 0x00ff_ffff, 0x0100_0000, u32::MAX] {
                all.push(Endpoint::Client(key(number, generation)));
                all.push(Endpoint::Listener { slot: number, generation });
                all.push(Endpoint::BusLink(BusPlace { slot: number, generation }));
            }
        }
        for channel in [LinkChannel::Main, LinkChannel::Snapshot] {
            all.extend([1, u32::MAX].map(|attempt| Endpoint::PrimaryLink { channel, attempt }));
        }
        let mut tokens: Vec<Token> = all.iter().map(|endpoint| endpoint.token()).collect();
        for (endpoint, token) in all.iter().zip(&tokens) {
            assert_eq!(Endpoint::of(*token), Some(*endpoint));
        }
        tokens.sort();
        tokens.dedup();
        assert_eq!(tokens.len(), all.len());
        let client = key(INDEX_MAX, u32::MAX);
        assert_eq!(Endpoint::client(Endpoint::Client(client).token()), client);
    }

    #[test]
    fn a_token_that_was_never_made_names_nothing() {
        for token in [5 << 56, 2 << 56 | 2 << 32, 3 << 56 | 1 << 32, u64::MAX] {
            assert_eq!(Endpoint::of(Token(token)), None);
        }
    }
}

//! The link to the primary as the process has it: threads that connect and receive, and who has the
//! connection meanwhile. What is done when is decided by [`sluice_engine::LinkDriver`];
//! `iteration/replica.rs` is its transport.
//!
//! ```text
//!  Connecting (thread) ──► Attached (event loop) ──► Leaving ─┬► Receiving (thread) ─┬► Received ──► Session (event loop)
//!                              │                             └► Loading (thread) ────┘                     ▲
//!                              └───────────────── +CONTINUE ────────────────────────────────────────────►┘
//! ```
//!
//! Invariants: (1) one holder has the connection, by value (D-1); (2) what works for an attempt that was
//! given up finds a socket that is shut, and nobody waits for it; (3) what such a thread still reports
//! carries the number of its attempt.

pub mod connect;
pub mod download;
pub mod main_channel;
pub mod memory;
pub mod progress;

use crate::connection::transport::Transport;
use crate::net::{Endpoint, LinkChannel, Stream};
use connect::Connecting;
use download::Download;
use main_channel::{MainLink, StreamBuffer};
use memory::MemorySync;

/// Who has the connection to the primary.
pub enum LinkConnection {
    /// There is none.
    Nobody,
    /// A thread that makes it.
    Connecting(Connecting),
    /// The event loop, for the handshake.
    Attached(Transport),
    /// The event loop lets go of it; these bytes of the snapshot have come.
    Leaving(Transport, Vec<u8>),
    /// The main thread, until something receives the snapshot; these bytes of it have come.
    Left(Stream, Vec<u8>),
    /// A thread that receives the snapshot.
    Receiving(Download),
    /// The thread of a load that reads the snapshot from it.
    Loading(MemorySync),
    /// The main thread, until the snapshot is loaded; these bytes have come behind it.
    Received(Stream, Vec<u8>),
    /// The event loop, as that of a client.
    Session(sluice_base::SessionKey),
}

/// The link and what it stands on.
pub struct PrimaryConnections {
    pub holder: LinkConnection,
    /// The attempt of the link that the connections are of.
    pub attempt: u64,
    /// The connection of the handshake, while the snapshot has another: then `holder` is about that.
    pub main: Option<MainLink>,
    /// What the main channel has brought and the link's session has not executed.
    pub replay: Option<StreamBuffer>,
    /// What had been heard of a primary that others listen to, of a snapshot or of a session, when something
    /// was heard last (`Incoming::heard_ns`).
    pub last_activity: (u64, i64, usize),
}

impl PrimaryConnections {
    /// Without connections.
    pub fn new() -> PrimaryConnections {
        PrimaryConnections {
            attempt: 0,
            holder: LinkConnection::Nobody,
            main: None,
            replay: None,
            last_activity: (0, 0, 0),
        }
    }

    /// The session of the link, while commands are received.
    pub fn session(&self) -> Option<sluice_base::SessionKey> {
        match self.holder {
            LinkConnection::Session(key) => Some(key),
            _ => None,
        }
    }

    /// What the connection is to the event loop that the holder has, or is to have.
    pub fn endpoint(&self) -> Endpoint {
        let channel = if self.main.is_some() { LinkChannel::Snapshot } else { LinkChannel::Main };
        Endpoint::PrimaryLink { channel, attempt: self.attempt as u32 }
    }

    /// Whether the event loop has the holder's connection, as this one of the link's.
    pub fn is_in_event_loop(&self, channel: LinkChannel, attempt: u32) -> bool {
        self.endpoint() == Endpoint::PrimaryLink { channel, attempt }
            && matches!(self.holder, LinkConnection::Attached(_) | LinkConnection::Leaving(..))
    }

    /// Whether this one of the link's connections is the main channel of a synchronisation over two: until
    /// the last byte is executed that came beside the snapshot.
    pub fn is_main_channel(&self, channel: LinkChannel, attempt: u32) -> bool {
        let is_beside = self.main.is_some() || self.replay.is_some();
        is_beside && channel == LinkChannel::Main && attempt == self.attempt as u32
    }
}

//! The process's side of the link to the primary: the threads that connect and receive, and the part of
//! the server that holds the connection. [`sluice_engine::LinkDriver`] decides each step;
//! `iteration/replica.rs` implements its transport.
//!
//! ```text
//!  Connecting (thread) ──► Attached (event loop) ──► Leaving ─┬► Receiving (thread) ─┬► Received ──► Session (event loop)
//!                              │                             └► Loading (thread) ────┘                     ▲
//!                              └───────────────── +CONTINUE ────────────────────────────────────────────►┘
//! ```
//!
//! Invariants: (1) the connection has one holder, by value (D-1); (2) the main thread does not wait for a
//! thread that works for an attempt that was given up: a receiving thread finds its socket shut down, and the
//! reports of the thread are dropped; (3) an event of an earlier attempt's connection has the number of that
//! attempt, and is ignored.

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

/// The holder of the connection to the primary.
pub enum LinkConnection {
    /// There is no connection.
    Nobody,
    /// A thread that makes the connection.
    Connecting(Connecting),
    /// The main thread's event loop, for the handshake.
    Attached(Transport),
    /// The event loop, which was asked to release the connection. The bytes are those of the snapshot that
    /// have arrived.
    Leaving(Transport, Vec<u8>),
    /// The main thread, until a thread receives the snapshot. The bytes are those of the snapshot that have
    /// arrived.
    Left(Stream, Vec<u8>),
    /// A thread that receives the snapshot into a file.
    Receiving(Download),
    /// The thread of a load, which reads the snapshot from the connection.
    Loading(MemorySync),
    /// The main thread, until the snapshot is loaded. The bytes are those that arrived after the snapshot.
    Received(Stream, Vec<u8>),
    /// The event loop, as the connection of a client.
    Session(sluice_base::SessionKey),
}

/// The connections of the link to the primary.
pub struct PrimaryConnections {
    pub holder: LinkConnection,
    /// Number of the link's attempt to which the connections belong.
    pub attempt: u64,
    /// The connection of the handshake, if the snapshot has a separate one, which `holder` then describes.
    pub main: Option<MainLink>,
    /// The stream from the main channel that the link's session has not executed yet.
    pub replay: Option<StreamBuffer>,
    /// Numbers that change with each receive on the connection: received bytes, time of the last receive in
    /// seconds, and bytes of waiting input. The values are those at the time `Incoming::last_activity_ns`.
    pub last_activity: (u64, i64, usize),
}

impl PrimaryConnections {
    /// The state without a connection, before the first attempt.
    pub fn new() -> PrimaryConnections {
        PrimaryConnections {
            attempt: 0,
            holder: LinkConnection::Nobody,
            main: None,
            replay: None,
            last_activity: (0, 0, 0),
        }
    }

    /// The session of the link; `None` before the link receives commands.
    pub fn session(&self) -> Option<sluice_base::SessionKey> {
        match self.holder {
            LinkConnection::Session(key) => Some(key),
            _ => None,
        }
    }

    /// The endpoint of the holder's connection in the event loop.
    pub fn endpoint(&self) -> Endpoint {
        let channel = if self.main.is_some() { LinkChannel::Snapshot } else { LinkChannel::Main };
        Endpoint::PrimaryLink { channel, attempt: self.attempt as u32 }
    }

    /// Whether the event loop has the connection that `holder` describes, and an event of this channel and
    /// attempt belongs to that connection.
    pub fn is_in_event_loop(&self, channel: LinkChannel, attempt: u32) -> bool {
        self.endpoint() == Endpoint::PrimaryLink { channel, attempt }
            && matches!(self.holder, LinkConnection::Attached(_) | LinkConnection::Leaving(..))
    }

    /// Whether this connection of the link is the main channel of a dual-channel sync. The connection stays
    /// the main channel until the last buffered byte is executed.
    pub fn is_main_channel(&self, channel: LinkChannel, attempt: u32) -> bool {
        let is_beside = self.main.is_some() || self.replay.is_some();
        is_beside && channel == LinkChannel::Main && attempt == self.attempt as u32
    }
}

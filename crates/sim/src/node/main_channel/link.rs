//! The state of the main channel.

use crate::net::ConnId;
use sluice_base::SessionKey;

/// The connection of the main channel, and its buffered stream.
pub(in crate::node) struct MainLink {
    pub conn: ConnId,
    /// The buffered stream; `None` before the primary has announced the stream.
    pub(in crate::node) buffer: Option<Vec<u8>>,
    /// Whether the end of the connection was reported to the link.
    pub(super) has_ended: bool,
}

impl MainLink {
    /// The main channel on a connection from which nothing has been received yet.
    pub(in crate::node) fn new(conn: ConnId) -> MainLink {
        MainLink { conn, buffer: None, has_ended: false }
    }
}

/// Buffered bytes that are not executed yet, and the session that executes them.
pub(in crate::node) struct Replay {
    pub key: SessionKey,
    pub(super) rest: Vec<u8>,
}

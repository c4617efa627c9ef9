//! What a node keeps of the main channel.

use crate::net::ConnId;
use sluice_base::SessionKey;

/// The main channel.
pub(in crate::node) struct MainLink {
    pub conn: ConnId,
    /// What it has brought of the stream; none before that was promised.
    pub(in crate::node) buffer: Option<Vec<u8>>,
    /// Its end was told.
    pub(super) has_ended: bool,
}

impl MainLink {
    /// A connection that has brought nothing.
    pub(in crate::node) fn new(conn: ConnId) -> MainLink {
        MainLink { conn, buffer: None, has_ended: false }
    }
}

/// What was buffered and is not executed, and the session that executes it.
pub(in crate::node) struct Replay {
    pub key: SessionKey,
    pub(super) rest: Vec<u8>,
}

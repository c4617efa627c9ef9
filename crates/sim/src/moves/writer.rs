//! The state of a client.

use super::ledger::Excuse;
use super::view::KeyName;
use crate::net::NodeId;
use sluice_base::SessionKey;

/// A client that writes, at one node at a time.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) at: Option<(NodeId, u64, SessionKey)>,
    pub(super) doing: Doing,
    pub(super) since_ns: u64,
    pub(super) idle_until_ns: u64,
    /// Received bytes of an incomplete line.
    pub(super) input: String,
    /// The node that the client was redirected to.
    pub(super) next: Option<NodeId>,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Doing {
    #[default]
    Nothing,
    Write(Write),
    Wait {
        key: KeyName,
        ids: Vec<u64>,
    },
}

/// A write that is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Number of lines that the node sends before the reply to this write.
    pub(super) ahead: usize,
    pub(super) key: KeyName,
    pub(super) ids: Vec<u64>,
    pub(super) when: Executed,
}

/// When a write is executed, as far as its client's node shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Executed {
    /// The node has executed the write as soon as it was sent. The value is the reason, if any, for which the
    /// write could be lost at that moment.
    AtOnce(Option<Excuse>),
    /// The node executes the write at an unknown time before the reply.
    Later,
}

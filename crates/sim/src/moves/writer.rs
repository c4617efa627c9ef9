//! What a client does.

use super::ledger::Excuse;
use super::view::KeyName;
use crate::net::NodeId;
use sluice_base::SessionKey;

/// A client.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) at: Option<(NodeId, u64, SessionKey)>,
    pub(super) doing: Doing,
    pub(super) since_ns: u64,
    pub(super) idle_until_ns: u64,
    /// Bytes of a line whose end has not come.
    pub(super) input: String,
    /// Where it was redirected to.
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

/// A write whose answer has not come.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Lines that come ahead of the answer.
    pub(super) ahead: usize,
    pub(super) key: KeyName,
    pub(super) ids: Vec<u64>,
    pub(super) when: Executed,
}

/// When a write was executed, as far as the client's node shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Executed {
    /// At once, with the excuse of that moment.
    AtOnce(Option<Excuse>),
    /// Some time until the answer.
    Later,
}

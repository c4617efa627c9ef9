//! The end of the server that waits for something: writes are kept back, replicas are asked how far they are,
//! and the server ends when all have everything, or after `shutdown-timeout`. A node of a cluster can have a
//! replica take over first, and goes on for a moment then, so that clients learn where their slots are.

pub mod begin;
pub mod readiness;

use crate::persistence::saving::Ending;
use sluice_base::SessionKey;
use sluice_commands::CmdError;
use sluice_config::choice::shutdown;
use sluice_session::Session;

/// How the server is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOrder {
    /// What is saved.
    pub ending: Ending,
    /// FORCE: the server ends whatever comes of the save.
    pub force: bool,
    /// NOW: nothing is waited for.
    pub at_once: bool,
    /// What the end owes the cluster.
    pub in_cluster: ClusterEnd,
}

/// What the end of a node owes its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterEnd {
    /// SAFE: a primary with slots does not end.
    pub is_safe: bool,
    /// FAILOVER: a replica takes over first.
    pub hands_over: bool,
}

impl EndOrder {
    /// An end that waits for replicas, and owes nothing to a cluster.
    pub fn new(ending: Ending, force: bool) -> EndOrder {
        EndOrder { ending, force, at_once: false, in_cluster: ClusterEnd::default() }
    }

    /// What `shutdown-on-sigterm` or `shutdown-on-sigint` says, as its bits.
    pub fn of_flags(flags: u32) -> EndOrder {
        let has = |flag: u32| flags & flag != 0;
        let ending = match () {
            () if has(shutdown::SAVE) => Ending::Save,
            () if has(shutdown::NOSAVE) => Ending::NoSave,
            () => Ending::ByConfig,
        };
        let in_cluster = ClusterEnd { is_safe: has(shutdown::SAFE), hands_over: has(shutdown::FAILOVER) };
        EndOrder { ending, force: has(shutdown::FORCE), at_once: has(shutdown::NOW), in_cluster }
    }
}

/// What an end waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStage {
    /// A unit stood open when the end was ordered: what it writes counts.
    OpenUnit,
    /// Replicas shall have everything, or one of them if that one is to take over.
    Replicas,
    /// A replica was told to take over. No write may come until it has.
    TakingOver,
    /// This node is a replica. Clients are sent away, and the server ends when the last one has gone.
    Leaving {
        /// The end comes no earlier, ms of the monotonic clock: other nodes have to hear that this one
        /// leaves.
        earliest_ms: u64,
        /// The end comes no later, ms of the monotonic clock.
        until_ms: u64,
    },
    /// Nothing.
    Ready,
}

/// An end that waits.
#[derive(Debug)]
pub struct PendingEnd {
    /// How the server is to end.
    pub order: EndOrder,
    /// What is waited for.
    pub stage: EndStage,
    /// Offset of the stream that replicas must have.
    pub offset: u64,
    /// When the wait began, monotonic ns.
    pub began_ns: u64,
    /// When it is not waited for any more, ms of the monotonic clock.
    pub deadline_ms: u64,
    /// Clients of SHUTDOWN.
    pub clients: Vec<SessionKey>,
    /// SHUTDOWN ABORT.
    pub is_aborted: bool,
    /// The server has been told to end: nothing is left to do, and commands that write wait until it has.
    pub is_over: bool,
}

impl PendingEnd {
    /// Whether a replica lacks something that it shall have.
    pub(crate) fn is_awaited(&self, session: &Session) -> bool {
        let waits = matches!(self.stage, EndStage::OpenUnit | EndStage::Replicas);
        let state = session.caller.replica_state().filter(|_| waits);
        state.is_some_and(|replica| !u64::try_from(replica.acked).is_ok_and(|acked| acked >= self.offset))
    }

    /// Whether commands that write wait. A node whose slots another one has by now sends them there.
    pub(crate) fn holds_writes(&self) -> bool {
        self.is_over || !matches!(self.stage, EndStage::Leaving { .. })
    }
}

/// The answer of SHUTDOWN that did not end the server.
pub const NOT_ENDED: CmdError = CmdError::text("ERR Errors trying to SHUTDOWN. Check logs.");

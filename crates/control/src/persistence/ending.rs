//! A pending shutdown: writes are held, replicas are asked for their offsets, and the server ends when
//! all replicas have everything, or after `shutdown-timeout`. A cluster node can first have a replica
//! take over, and then runs for a moment longer, so that clients learn the new owner of its slots.

pub mod begin;
pub mod readiness;

use crate::persistence::saving::Ending;
use sluice_base::SessionKey;
use sluice_commands::CmdError;
use sluice_config::choice::shutdown;
use sluice_session::Session;

/// The options of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOrder {
    /// Whether the data is saved before the end.
    pub ending: Ending,
    /// FORCE: the server ends even if the save fails, the first base of the append-only file is missing, or
    /// SAFE is given.
    pub force: bool,
    /// NOW: the shutdown does not wait for lagging replicas.
    pub at_once: bool,
    /// Options that concern the cluster.
    pub in_cluster: ClusterEnd,
}

/// Options of a shutdown that concern the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterEnd {
    /// SAFE: a primary with slots refuses to end.
    pub is_safe: bool,
    /// FAILOVER: a replica takes over first.
    pub hands_over: bool,
}

impl EndOrder {
    /// A shutdown that waits for replicas, without options for the cluster.
    pub fn new(ending: Ending, force: bool) -> EndOrder {
        EndOrder { ending, force, at_once: false, in_cluster: ClusterEnd::default() }
    }

    /// The options in `shutdown-on-sigterm` or `shutdown-on-sigint`, from their bits.
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

/// The condition that a pending shutdown waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStage {
    /// The end of the transaction or script that was in progress when the shutdown was ordered, because
    /// replicas must receive its writes, too.
    OpenUnit,
    /// All replicas have received everything, or, if one is to take over, any one of them has.
    Replicas,
    /// A replica that was ordered to take over has done so. Until then no write may run.
    TakingOver,
    /// This node has become a replica. Clients are redirected, and the server ends when the last client has
    /// disconnected.
    Leaving {
        /// The server ends no earlier than this, in ms of the monotonic clock, because other nodes
        /// must be informed.
        earliest_ms: u64,
        /// The server ends no later than this, in ms of the monotonic clock.
        until_ms: u64,
    },
    /// Nothing: the server ends at the next step.
    Ready,
}

/// A shutdown that waits for some condition.
#[derive(Debug)]
pub struct PendingEnd {
    /// The options of the shutdown.
    pub order: EndOrder,
    /// The condition that is waited for.
    pub stage: EndStage,
    /// Offset of the stream that replicas must reach.
    pub offset: u64,
    /// Start of the wait, in ns of the monotonic clock.
    pub began_ns: u64,
    /// End of the wait for replicas, in ms of the monotonic clock.
    pub deadline_ms: u64,
    /// Clients of SHUTDOWN, which are answered if the server does not end.
    pub clients: Vec<SessionKey>,
    /// SHUTDOWN ABORT was called.
    pub is_aborted: bool,
    /// The process was told to end: nothing is left to do, and writes are held until the process has ended.
    pub is_over: bool,
}

impl PendingEnd {
    /// Whether the shutdown waits for this session: a replica that has not yet reached the required offset.
    pub(crate) fn is_awaited(&self, session: &Session) -> bool {
        let waits = matches!(self.stage, EndStage::OpenUnit | EndStage::Replicas);
        let state = session.caller.replica_state().filter(|_| waits);
        state.is_some_and(|replica| !u64::try_from(replica.acked).is_ok_and(|acked| acked >= self.offset))
    }

    /// Whether writes are held. Until the process is told to end, writes are not held in the stage `Leaving`,
    /// because another node owns the slots then, and writes are redirected to it.
    pub(crate) fn holds_writes(&self) -> bool {
        self.is_over || !matches!(self.stage, EndStage::Leaving { .. })
    }
}

/// The reply of a SHUTDOWN that did not end the server.
pub const NOT_ENDED: CmdError = CmdError::text("ERR Errors trying to SHUTDOWN. Check logs.");

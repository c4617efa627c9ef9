//! FAILOVER: this server hands its role to a replica that has all data.
//!
//! ```text
//!  none ──FAILOVER──► waiting-for-sync ──replica has all, or FORCE and timeout──► failover-in-progress ──accepted──► none, a replica
//!    ▲                      │ timeout, ABORT                                             │ refused, ABORT
//!    └──────────────────────┴────────────────────────────── primary again ◄─────────────┘
//! ```
//!
//! Invariants: (1) writes wait from the command until the end of the failover, so the stream gets only
//! the GETACK of a client's WAIT, and the target has acknowledged the stream's end when it is asked to
//! take over; (2) clients blocked on keys or replicas stay blocked until the target has accepted: a
//! failed failover is invisible to them; (3) in `failover-in-progress` this server is a replica that has
//! asked its primary, the target, to take over; only the target's reply decides, no timeout does.

use sluice_base::SessionKey;
use sluice_session::Session;

/// A failover in progress.
#[derive(Debug)]
pub struct Failover {
    /// The target: named by the client, or found since; `None` while not yet found.
    pub target: Option<FailoverTarget>,
    /// Whether a target that lacks data takes over when the time is up.
    pub force: bool,
    /// End of the wait for the target, in ms of the monotonic clock; `None` without a timeout.
    pub deadline_ms: Option<u64>,
    /// The client that ran FAILOVER.
    pub asked_by: SessionKey,
    /// The id of the notification that the failover has begun, sent to clients that asked for notifications.
    pub told_as: Option<i64>,
    /// The target was asked to take over.
    pub is_in_progress: bool,
    /// FAILOVER ABORT was called.
    pub is_aborted: bool,
}

/// A replica that shall take over, by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverTarget {
    /// The host as the client wrote it, or as the replica announces it.
    pub host: String,
    /// The port for clients of the replica.
    pub port: i64,
}

impl Failover {
    /// The name of the stage in INFO.
    pub(crate) fn stage_name(&self) -> &'static str {
        if self.is_in_progress { "failover-in-progress" } else { "waiting-for-sync" }
    }

    /// Bytes of heap memory that the failover takes.
    pub fn footprint(&self) -> usize {
        let host = self.target.as_ref().map_or(0, |target| target.host.capacity());
        sluice_base::heap::boxed::<Failover>() + sluice_base::heap::block(host)
    }
}

impl FailoverTarget {
    /// The announced address of a replica.
    pub fn of(session: &Session) -> FailoverTarget {
        let (ip, port) = session.caller.replica_address();
        FailoverTarget { host: ip.to_owned(), port: i64::from(port) }
    }
}

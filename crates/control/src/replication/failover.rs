//! FAILOVER: this server hands its role to a replica that has everything.
//!
//! ```text
//!  none ──FAILOVER──► waiting-for-sync ──replica has all, or FORCE and timeout──► failover-in-progress ──accepted──► none, a replica
//!    ▲                      │ timeout, ABORT                                             │ refused, ABORT
//!    └──────────────────────┴────────────────────────────── primary again ◄─────────────┘
//! ```
//!
//! Invariants: (1) writes wait from the command on until the failover has ended, so nothing is added to the
//! stream but the question of a client's WAIT, and the target has acknowledged its end when it is asked; (2)
//! clients that wait for keys or replicas wait on until the target has accepted: when the failover comes to
//! nothing, they have noticed nothing; (3) `failover-in-progress` is the role of a replica that asks its
//! primary, the target, to become one; the reply decides, and no time does.

use sluice_base::SessionKey;
use sluice_session::Session;

/// A failover under way.
#[derive(Debug)]
pub struct Failover {
    /// The replica that was named, or that was found.
    pub target: Option<FailoverTarget>,
    /// A target that lacks something takes over when the time is up.
    pub force: bool,
    /// When it is not waited for any more, ms of the monotonic clock.
    pub deadline_ms: Option<u64>,
    /// The client that has asked for it.
    pub asked_by: SessionKey,
    /// The id under which clients that want to know of failovers were told that it has begun.
    pub told_as: Option<i64>,
    /// The target was asked to take over.
    pub is_in_progress: bool,
    /// FAILOVER ABORT.
    pub is_aborted: bool,
}

/// The replica that shall take over, as the client has named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverTarget {
    /// The host, as the client wrote it.
    pub host: String,
    /// The port.
    pub port: i64,
}

impl Failover {
    /// As INFO says it.
    pub(crate) fn stage_name(&self) -> &'static str {
        if self.is_in_progress { "failover-in-progress" } else { "waiting-for-sync" }
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let host = self.target.as_ref().map_or(0, |target| target.host.capacity());
        sluice_base::heap::boxed::<Failover>() + sluice_base::heap::block(host)
    }
}

impl FailoverTarget {
    /// Where a replica says that it can be reached.
    pub fn of(session: &Session) -> FailoverTarget {
        let (ip, port) = session.caller.replica_address();
        FailoverTarget { host: ip.to_owned(), port: i64::from(port) }
    }
}

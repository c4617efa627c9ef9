//! A message of a target to the source, which waits for the target's replicas, because a replica may
//! be elected as soon as this node owns the slots, and must then have the data that WAIT confirmed at the
//! source.

use super::SyncMessage;
use crate::id::NodeId;

/// The source is asked to hold writers back only when the replicas acknowledge within this time (ns) after
/// they were asked, because the writers then have to wait about as long for the next acknowledgement.
const LAG_NS_MAX: u64 = 50_000_000;
/// Maximum time for which replicas are waited for before the source is asked to hold writes back, ns. Slower
/// replicas are left out.
pub const AWAITED_NS_MAX: u64 = 3_000_000_000;
/// Maximum time for which replicas are waited for while the source holds writes back, ns; after that the job
/// fails.
const HELD_NS_MAX: u64 = 500_000_000;

/// A message to the source that waits until the replicas have acknowledged the data received so far.
#[derive(Clone, Copy, Debug)]
pub struct HeldMessage {
    /// The message to send when the wait is over.
    pub word: SyncMessage,
    /// The replication offset that the replicas have to acknowledge.
    pub offset: u64,
    /// Time at which the replicas were asked, ns of the monotonic clock.
    pub asked_ns: u64,
    /// Time since which the message waits, ns of the monotonic clock.
    pub since_ns: u64,
}

/// The action for a message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldAction {
    /// Keep the message back, and look again later.
    Wait,
    /// Ask the replicas again, because their acknowledgement took so long that writers would have to wait too
    /// long for the next one.
    AskAnew,
    /// Send the message. Replicas that have not acknowledged the offset are left out.
    Send,
    /// Fail the job, because writers wait at the source and must not wait any longer.
    Fail,
}

impl HeldMessage {
    /// The action at this time; `lag` is the number of awaited replicas that have not
    /// acknowledged the offset.
    pub fn step(&self, lag: usize, now_ns: u64) -> HeldAction {
        let (waited_ns, late_ns) =
            (now_ns.saturating_sub(self.since_ns), now_ns.saturating_sub(self.asked_ns));
        match self.word {
            SyncMessage::RequestFailover if lag == 0 => HeldAction::Send,
            SyncMessage::RequestFailover if waited_ns >= HELD_NS_MAX => HeldAction::Fail,
            SyncMessage::RequestFailover => HeldAction::Wait,
            _ if waited_ns >= AWAITED_NS_MAX => HeldAction::Send,
            _ if lag > 0 => HeldAction::Wait,
            _ if late_ns <= LAG_NS_MAX => HeldAction::Send,
            _ => HeldAction::AskAnew,
        }
    }
}

/// Whether a message waits for a replica. While the source holds writes back, only replicas that have
/// acknowledged all earlier data (`in_sync`) are waited for, so a replica that receives a snapshot or lags
/// does not delay the move.
pub fn is_awaited(word: SyncMessage, in_sync: &[NodeId], replica: &NodeId) -> bool {
    word != SyncMessage::RequestFailover || in_sync.contains(replica)
}

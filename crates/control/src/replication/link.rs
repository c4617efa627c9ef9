//! Operations on the link to the primary that need only the replication state.

use crate::control::ReplicationState;
use sluice_replication::{HistoryPoint, ReplicaLink, TransportOrder};

impl ReplicationState {
    /// The link to the primary; `None` for a primary.
    pub fn link(&self) -> Option<&ReplicaLink> {
        self.replica.as_ref().map(|role| &role.link)
    }

    /// Whether a received snapshot file is being installed or loaded.
    pub fn is_file_committed(&self) -> bool {
        self.link().is_some_and(ReplicaLink::is_committed)
    }

    /// The position in the primary's history of the snapshot that is being received.
    pub fn awaited_point(&self) -> Option<&HistoryPoint> {
        self.link()?.point()
    }

    /// Whether the link's next tick is due. If so, schedules the one after it.
    pub fn takes_link_tick(&mut self, now_ns: u64) -> bool {
        let Some(role) = self.replica.quietly() else { return false };
        let is_due = now_ns >= role.next_tick_ns;
        if is_due {
            role.next_tick_ns = now_ns + TICK_NS;
        }
        is_due
    }

    /// Records that no received file waits any longer to replace the RDB file.
    pub fn forget_commit(&mut self) {
        if let Some(role) = self.replica.quietly() {
            role.commit_waits = false;
        }
    }

    /// Gives up the link of a role that ends. Its connections are closed, and their later
    /// results are ignored.
    pub fn give_link_up(&mut self, link: &ReplicaLink) {
        let was_closing = self.link_outputs.drain(..).any(|output| output == TransportOrder::Close.into());
        self.link_attempts = link.attempt();
        if was_closing || link.is_under_way() {
            self.link_outputs.push_back(TransportOrder::Close.into());
        }
    }
}

/// Time between two ticks of the link, in ns.
const TICK_NS: u64 = 100_000_000;

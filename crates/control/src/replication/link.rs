//! The link of a replica as far as nothing but the state of replication is needed.

use crate::control::ReplicationState;
use sluice_replication::{HistoryPoint, ReplicaLink, TransportOrder};

impl ReplicationState {
    /// The link to the primary.
    pub fn link(&self) -> Option<&ReplicaLink> {
        self.replica.as_ref().map(|role| &role.link)
    }

    /// Whether a file that was received is put in force or loaded.
    pub fn is_file_committed(&self) -> bool {
        self.link().is_some_and(ReplicaLink::is_committed)
    }

    /// The point of the primary's history that the snapshot stands at which is received.
    pub fn awaited_point(&self) -> Option<&HistoryPoint> {
        self.link()?.point()
    }

    /// Whether time is to be told to the link; notes when next.
    pub fn takes_link_tick(&mut self, now_ns: u64) -> bool {
        let Some(role) = self.replica.quietly() else { return false };
        let is_due = now_ns >= role.next_tick_ns;
        if is_due {
            role.next_tick_ns = now_ns + TICK_NS;
        }
        is_due
    }

    /// No file waits to take the place of the RDB file any more.
    pub fn forget_commit(&mut self) {
        if let Some(role) = self.replica.quietly() {
            role.commit_waits = false;
        }
    }

    /// Gives up the link of a role that ends. The connections that work for the link are closed, and what
    /// still comes of them is ignored.
    pub fn give_link_up(&mut self, link: &ReplicaLink) {
        let was_closing = self.link_outputs.drain(..).any(|output| output == TransportOrder::Close.into());
        self.link_attempts = link.attempt();
        if was_closing || link.is_under_way() {
            self.link_outputs.push_back(TransportOrder::Close.into());
        }
    }
}

/// Time between two ticks of the link.
const TICK_NS: u64 = 100_000_000;

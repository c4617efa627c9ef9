//! The record of a node, and the file with all records (N-1, N-12).

use sluice_cluster::wire::NodeFlags;
use sluice_cluster::{NodeId, ShardId, SlotSet};
use std::collections::BTreeMap;

/// The state of a node, this one or another (N-1), as far as the model needs it. Flags are those of the wire.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct StockNode {
    pub(in crate::cluster) shard: ShardId,
    pub(in crate::cluster) flags: u16,
    pub(in crate::cluster) config_epoch: u64,
    pub(in crate::cluster) slots: SlotSet,
    /// Slots that the node no longer claims (E-12).
    pub(super) unclaimed: SlotSet,
    pub(in crate::cluster) primary: Option<NodeId>,
    pub(super) ip: String,
    pub(super) host_name: String,
    pub(super) created: u64,
    pub(super) ping_sent: u64,
    pub(super) pong_received: u64,
    pub(super) data_received: u64,
    pub(super) meet_sent: u64,
    pub(super) fail_time: u64,
    pub(super) link_in_lost: u64,
    pub(super) dialled: u64,
    pub(super) offset: u64,
    /// By reporter, the time of its report (F-3).
    pub(super) reports: BTreeMap<NodeId, u64>,
    pub(in crate::cluster) link_out: Option<u64>,
    pub(in crate::cluster) link_in: Option<u64>,
}

impl StockNode {
    pub(in crate::cluster) fn has(&self, flag: NodeFlags) -> bool {
        self.flags & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: NodeFlags) {
        self.flags |= flag.0;
    }

    pub(super) fn clear(&mut self, flag: NodeFlags) {
        self.flags &= !flag.0;
    }

    pub(super) fn put(&mut self, flag: NodeFlags, is_set: bool) {
        if is_set { self.set(flag) } else { self.clear(flag) }
    }

    pub(super) fn is_voter(&self) -> bool {
        self.has(NodeFlags::PRIMARY) && !self.slots.is_empty()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.has(NodeFlags::PFAIL | NodeFlags::FAIL)
    }

    pub(super) fn become_primary(&mut self) {
        self.clear(NodeFlags::REPLICA);
        self.set(NodeFlags::PRIMARY);
        self.primary = None;
    }

    pub(super) fn become_replica(&mut self, primary: Option<NodeId>) {
        self.clear(NodeFlags::PRIMARY);
        self.set(NodeFlags::REPLICA);
        self.primary = primary;
    }
}

/// The model's replacement for `nodes.conf`.
#[derive(Clone)]
pub(in crate::cluster) struct StockFile {
    pub(super) me: NodeId,
    pub(super) nodes: BTreeMap<NodeId, StockNode>,
    pub(super) current_epoch: u64,
    pub(super) last_vote: u64,
}

#[cfg(test)]
impl StockFile {
    /// The file with `-` in place of the primary on the node's own line.
    pub(in crate::cluster) fn without_primary(&self) -> StockFile {
        let mut file = self.clone();
        if let Some(own) = file.nodes.get_mut(&file.me) {
            own.primary = None;
        }
        file
    }
}

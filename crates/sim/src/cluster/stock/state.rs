//! The state of a stock node.

use super::record::StockNode;
use crate::cluster::act::Act;
use sluice_base::Rng;
use sluice_cluster::NodeId;
use sluice_cluster::wire::ReceiveBuffer;
use std::collections::{BTreeMap, BTreeSet};

/// Directives of a stock node.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct StockSettings {
    pub(in crate::cluster) timeout_ms: u64,
    pub(in crate::cluster) ping_interval_ms: u64,
    pub(in crate::cluster) blacklist_ttl_ms: u64,
    pub(in crate::cluster) require_full_coverage: bool,
    pub(in crate::cluster) allow_replica_migration: bool,
    pub(in crate::cluster) migration_barrier: usize,
    pub(in crate::cluster) manual_timeout_ms: u64,
    pub(in crate::cluster) host_name: String,
    /// Whether the node is of version 8.0, which does not know repeated MEETs (bit 12).
    pub(in crate::cluster) is_old: bool,
}

/// The work for the end of the step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Todo {
    pub(super) failover: bool,
    pub(super) evaluate: bool,
    pub(super) save: bool,
}

/// The state of the cluster in this node's view (F-20).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    pub(super) is_ok: bool,
    pub(super) size: usize,
    pub(super) first_ms: Option<u64>,
    pub(super) is_safe_to_join: bool,
    pub(super) minority_ms: Option<u64>,
}

/// A stock node. Times are milliseconds of the wall clock (D19).
pub(in crate::cluster) struct Stock {
    pub(super) settings: StockSettings,
    pub(super) rng: Rng,
    pub(super) now: u64,
    pub(super) crons: u64,
    pub(super) me: NodeId,
    pub(super) nodes: BTreeMap<NodeId, StockNode>,
    pub(super) links: BTreeMap<u64, StockLink>,
    pub(super) next_link: u64,
    pub(super) current_epoch: u64,
    pub(super) last_vote: u64,
    /// Forgotten ids, each with the end of its time (G-21).
    pub(super) blacklist: BTreeMap<NodeId, u64>,
    pub(super) health: Health,
    pub(super) election: Election,
    pub(super) manual: Manual,
    /// Nodes of which this node keeps old state: those whose messages are ignored as stale, perhaps for
    /// good (D17), and replicas that own slots in this node's view.
    pub(super) stuck: BTreeSet<NodeId>,
    pub(super) seen_primaries: BTreeMap<NodeId, SeenPrimary>,
    pub(super) todo: Todo,
    pub(super) out: Vec<Act>,
}

/// A connection of the bus, in either direction.
#[derive(Debug)]
pub(super) struct StockLink {
    pub(super) node: Option<NodeId>,
    pub(super) is_out: bool,
    pub(super) created: u64,
    pub(super) reads_extensions: bool,
    /// The address of the other end, for an incoming link.
    pub(super) peer: String,
    /// The address of this end, for an incoming link.
    pub(super) local: String,
    pub(super) inbox: ReceiveBuffer,
}

/// State that the cron keeps of a primary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenPrimary {
    pub(super) replicas: usize,
    pub(super) has_slots: bool,
    pub(super) orphaned: Option<u64>,
}

/// An election of this node; `time` is 0 without one.
#[derive(Clone, Debug, Default)]
pub(super) struct Election {
    pub(super) time: u64,
    pub(super) is_sent: bool,
    pub(super) epoch: u64,
    pub(super) votes: usize,
    pub(super) rank: u64,
    pub(super) frank: u64,
    pub(super) is_forced: bool,
    /// The voters whose votes were counted, with the epochs of the votes, which reveal the effects of E-46's
    /// defects.
    pub(super) counted: Vec<(NodeId, u64)>,
}

/// A manual failover, at the replica or at the primary.
#[derive(Clone, Debug, Default)]
pub(super) struct Manual {
    pub(super) end: Option<u64>,
    pub(super) goal: Option<u64>,
    pub(super) can_start: bool,
    /// The replica for which this node, a primary, pauses writes.
    pub(super) pauses_for: Option<NodeId>,
    /// The beginning of that pause, ms.
    pub(super) paused_ms: Option<u64>,
}

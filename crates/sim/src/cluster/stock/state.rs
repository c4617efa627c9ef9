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
    /// 8.0: knows nothing of repeated MEETs (bit 12).
    pub(in crate::cluster) is_old: bool,
}

/// What settle has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Todo {
    pub(super) failover: bool,
    pub(super) evaluate: bool,
    pub(super) save: bool,
}

/// The state of the cluster as the node sees it (F-20).
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
    /// Forgotten ids, each until a time (G-21).
    pub(super) blacklist: BTreeMap<NodeId, u64>,
    pub(super) health: Health,
    pub(super) election: Election,
    pub(super) manual: Manual,
    /// Whose messages are ignored as stale, for good perhaps (D17), and replicas that own slots here: what is
    /// held of them is old.
    pub(super) stuck: BTreeSet<NodeId>,
    pub(super) seen_primaries: BTreeMap<NodeId, SeenPrimary>,
    pub(super) todo: Todo,
    pub(super) out: Vec<Act>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct StockLink {
    pub(super) node: Option<NodeId>,
    pub(super) is_out: bool,
    pub(super) created: u64,
    pub(super) reads_extensions: bool,
    /// The other end's address, for a link in.
    pub(super) peer: String,
    /// This end's address, for a link in.
    pub(super) local: String,
    pub(super) inbox: ReceiveBuffer,
}

/// What the cron remembers of a primary.
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
    /// Whose votes of which epochs were counted: to mark what the defects of E-46 do.
    pub(super) counted: Vec<(NodeId, u64)>,
}

/// A failover by hand, on either side.
#[derive(Clone, Debug, Default)]
pub(super) struct Manual {
    pub(super) end: Option<u64>,
    pub(super) goal: Option<u64>,
    pub(super) can_start: bool,
    /// The replica that this node, a primary, pauses for.
    pub(super) pauses_for: Option<NodeId>,
    /// The beginning of that pause, ms.
    pub(super) paused_ms: Option<u64>,
}

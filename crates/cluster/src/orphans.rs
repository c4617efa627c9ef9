//! Replica migration: a primary without replicas gets one from a primary with the most replicas (R20).
//!
//! Invariant: a primary that this node leaves keeps at least `cluster-migration-barrier` replicas, not
//! counting those that have failed or that this node suspects (S-37).

use crate::id::NodeId;
use crate::machine::{ClusterMachine, Sureness, log};
use crate::node::{ClusterNode, Ms, NodeHealth, NodeIx};
use crate::output::{ClusterState, Synchronisation};
use crate::roles::{self, OpenSlots};
use sluice_base::mistake::{Mistake, is_made};
use std::collections::BTreeSet;

/// Milliseconds after which a replica moves to a primary without replicas.
const ORPHANED_MS: Ms = 5_000;

/// Looks for a primary without replicas, and moves this replica there if it is this replica's turn.
/// Called by the cron.
pub(crate) fn tick(m: &mut ClusterMachine) {
    if m.table.me().primary().is_none() || !m.settings.allow_replica_migration {
        m.cron.orphans.clear();
        return;
    }
    note_orphans(m);
    let Some(target) = oldest_enough(m).filter(|_| is_my_turn(m)) else { return };
    let shard = m.table.node(target).shown_shard();
    log!(m, Notice, "Migrating to orphaned primary {} in shard {shard}", m.name(target));
    roles::follow(m, target, OpenSlots::Close, Synchronisation::Full);
    m.announce();
}

/// Whether a node is a known primary, other than this node, that has an address and has not failed. Only the
/// replicas of such primaries are counted.
fn is_there(m: &ClusterMachine, ix: NodeIx, node: &ClusterNode) -> bool {
    let is_known = ix != m.table.my_ix() && !node.is_handshake() && !node.is_without_address();
    is_known && node.is_primary() && !node.is_failed()
}

/// Replicas of a node that have not failed.
fn good_replicas<'a>(m: &'a ClusterMachine, node: &'a ClusterNode) -> impl Iterator<Item = NodeIx> + 'a {
    node.replicas.iter().copied().filter(|ix| !m.table.node(*ix).is_failed())
}

/// Records the primaries with slots that want a replica (R21) and have none that works, each with the time
/// since which this is so.
fn note_orphans(m: &mut ClusterMachine) {
    let is_orphaned = |ix: NodeIx, node: &ClusterNode| {
        let wants_one = node.is_voter() && node.marks.migrate_to;
        wants_one && is_there(m, ix, node) && good_replicas(m, node).next().is_none()
    };
    let now: BTreeSet<NodeId> =
        m.table.iter().filter(|(ix, node)| is_orphaned(*ix, node)).map(|(_, node)| node.id).collect();
    let orphans = &mut m.cron.orphans;
    orphans.retain(|id, _| now.contains(id));
    for id in now {
        orphans.entry(id).or_insert(m.time.now);
    }
}

/// The primary with the smallest id among those that have been without replicas for long enough.
fn oldest_enough(m: &ClusterMachine) -> Option<NodeIx> {
    let mut orphans = m.cron.orphans.iter();
    let (id, _) = orphans.find(|(_, since)| m.time.now.saturating_sub(**since) > ORPHANED_MS)?;
    m.table.find(id)
}

/// Whether this replica is the one that moves. The cluster must be up, and this node sure of its state and
/// neither ending nor in a manual failover. This replica's primary must have at least two replicas and keep
/// enough without this one, and no primary may have more replicas. Among the replicas of all primaries with
/// that number of replicas, this one must have the smallest id. Failed replicas are left out, because they
/// would never move and all others would wait for them (D16).
fn is_my_turn(m: &ClusterMachine) -> bool {
    let is_free = m.cluster.state == ClusterState::Ok
        && m.rights.sureness == Sureness::Sure
        && !m.failover.is_leaving
        && m.failover.candidacy.wanted.end().is_none();
    let Some(primary) = m.table.me().primary().filter(|_| is_free) else { return false };
    let primaries = || m.table.iter().filter(|(ix, node)| is_there(m, *ix, node)).map(|(_, node)| node);
    let most = primaries().map(|node| good_replicas(m, node).count()).max().unwrap_or(0);
    let mine = m.table.node(primary);
    if most < 2 || !is_there(m, primary, mine) || good_replicas(m, mine).count() < most {
        return false;
    }
    let is_up = |ix: &&NodeIx| m.table.node(**ix).health == NodeHealth::Up;
    let stay = (mine.replicas.iter().filter(is_up).count() as u64).saturating_sub(1);
    if stay < m.settings.replica.migration_barrier && !is_made(Mistake::BarrierIgnored) {
        return false;
    }
    let full = primaries().filter(|node| good_replicas(m, node).count() == most);
    let first = full.flat_map(|node| good_replicas(m, node)).map(|ix| m.table.node(ix).id).min();
    first == Some(m.table.me().id)
}

//! A node that is about to end. As a primary it hands over to a replica (M10, M11); as a replica it makes the
//! other nodes stop sending clients to it.
//!
//! The offset 0 says that a replica has no data for clients (N-8). Nodes of the reference, too, omit such a
//! replica from CLUSTER SLOTS, and no election prefers it.

use crate::id::NodeId;
use crate::machine::{ClusterMachine, ManualFailover};
use crate::migration::export;
use crate::node::{NodeHealth, NodeIx, NodeRole};
use crate::output::ClusterOutput;

/// The offset that this node sends to others: `offset`, or 0 if this node is a replica that is about to end.
pub(crate) fn offset_to_tell(m: &ClusterMachine, offset: u64) -> u64 {
    if is_leaving_replica(m) { 0 } else { offset }
}

/// Whether clients that read from this replica are redirected.
pub(crate) fn is_leaving_replica(m: &ClusterMachine) -> bool {
    m.failover.is_leaving && m.table.me().is_replica()
}

/// Asks for a pause of this primary's writes so that one of `candidates` can take over; returns the chosen
/// one. Returns `None` if no candidate can win, or if slots are granted to the target of a move, because the
/// replica would claim these slots, too.
pub(crate) fn begin_handover(m: &mut ClusterMachine, candidates: &[NodeId]) -> Option<NodeId> {
    if export::has_granted(m) {
        return None;
    }
    let replica = best(m, candidates)?;
    let timeout = m.settings.manual_failover_timeout_ms;
    let end = m.time.now.saturating_add(timeout);
    m.failover.paused = ManualFailover::Paused { replica, end };
    m.out.push_back(ClusterOutput::PauseWrites { until: end.saturating_add(timeout) });
    Some(m.table.node(replica).id)
}

/// Records that this node is about to end, or that it continues after all.
pub(crate) fn set_leaving(m: &mut ClusterMachine, is_leaving: bool) {
    if m.failover.is_leaving != is_leaving {
        m.failover.is_leaving = is_leaving;
        m.table.me_mut().offset = offset_to_tell(m, m.table.me().offset);
        m.reconsider();
        m.announce();
    }
}

/// The best of the candidates that the bus reaches. Replicas with an offset are preferred to those that have
/// no data or are about to end (offset 0). Among equals, replicas that start elections are preferred, and
/// then the smallest id. A replica that the bus does not reach cannot ask for votes.
fn best(m: &ClusterMachine, candidates: &[NodeId]) -> Option<NodeIx> {
    let my_ix = m.table.my_ix();
    let can_win = |ix: &NodeIx| {
        let node = m.table.node(*ix);
        let is_reached = node.health == NodeHealth::Up && node.place.link_out.key().is_some();
        node.role == NodeRole::Replica(Some(my_ix)) && is_reached
    };
    let known = candidates.iter().filter_map(|id| m.table.find(id)).filter(can_win);
    known.min_by_key(|ix| {
        let node = m.table.node(*ix);
        (node.offset == 0, node.marks.no_failover, node.id)
    })
}

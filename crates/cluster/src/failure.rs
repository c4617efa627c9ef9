//! Failure detection: suspicion, reports, FAIL, and the end of FAIL (section 4 of the specification of the
//! bus).

use crate::health;
use crate::id::NodeId;
use crate::machine::{ClusterMachine, log};
use crate::node::{Ms, NodeHealth, NodeIx};
use crate::send;
use sluice_base::mistake::{Mistake, is_made};

/// Suspects a node that has not answered for the node timeout T (F-1). Called by the cron for each node
/// that is due, and for all nodes at the deadline of a suspicion.
pub(crate) fn suspect(m: &mut ClusterMachine, ix: NodeIx) {
    let node = m.table.node(ix);
    let Some(sent) = node.clocks.ping_sent else { return };
    let mut silent =
        m.time.now.saturating_sub(sent).min(m.time.now.saturating_sub(node.clocks.data_received));
    if is_made(Mistake::SilenceByWallClock) {
        silent = u64::try_from(m.time.wall_ms - node.clocks.ping_wall_ms).unwrap_or(0);
    }
    if !node.is_up() || silent <= m.settings.node_timeout_ms {
        return;
    }
    m.table.set_health(ix, NodeHealth::PFail);
    m.statistics.pfails += 1;
    m.reconsider();
    if m.table.me().is_voter() {
        condemn_if_agreed(m, ix);
    } else {
        log!(m, Debug, "NODE {} possibly failing.", m.name(ix));
    }
}

/// The time at which a node with an unanswered ping is to be suspected; `None` if no ping is unanswered, or
/// if the node is suspected already, is in handshake or has no address.
pub(crate) fn suspicion_at(m: &ClusterMachine, ix: NodeIx) -> Option<Ms> {
    let node = m.table.node(ix);
    if !node.is_up() || node.is_handshake() || node.is_without_address() {
        return None;
    }
    let since = node.clocks.ping_sent?.max(node.clocks.data_received);
    since.checked_add(m.settings.node_timeout_ms)?.checked_add(1)
}

/// Handles the health of a node in gossip (G-10 item 3): bad health reported by a voter is a report of
/// failure, good health revokes the report.
pub(crate) fn gossiped(m: &mut ClusterMachine, ix: NodeIx, by: NodeIx, opinion: Opinion) {
    match opinion {
        Opinion::Failing => {
            let counts = m.table.node(by).is_voter() || is_made(Mistake::ReportsOfAnybody);
            if counts && report(m, ix, by) {
                log!(m, Verbose, "Node {} reported node {} as not reachable.", m.name(by), m.name(ix));
            }
            condemn_if_agreed(m, ix);
        }
        Opinion::Healthy => {
            // Reports are looked for first, because `node_mut` makes the cron check the node, and nearly
            // all nodes are well and have no reports.
            if !m.table.node(ix).reports.is_empty() && m.table.node_mut(ix).reports.remove(by.0) {
                log!(m, Verbose, "Node {} reported node {} is back online.", m.name(by), m.name(ix));
            }
        }
    }
}

/// The health of a node in a gossip entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opinion {
    Failing,
    Healthy,
}

/// Stores a report about a node that is not FAIL, with the next whole second of the wall clock as its time;
/// `true` if it is the reporter's first report about the node.
fn report(m: &mut ClusterMachine, ix: NodeIx, by: NodeIx) -> bool {
    let at = m.time.now + (1_000 - m.time.wall_ms.rem_euclid(1_000)) as u64;
    let node = m.table.node_mut(ix);
    if node.is_failed() {
        return false;
    }
    node.reports.note(by.0, at)
}

/// The number of reports about a node that count because they are recent and by voters (F-4). Old reports are
/// dropped.
pub(crate) fn count_reports(m: &mut ClusterMachine, ix: NodeIx) -> u32 {
    let limit = m.settings.node_timeout_ms.saturating_mul(2);
    let now = m.time.now;
    let is_young = |at: u64| at.saturating_add(limit) > now || is_made(Mistake::ReportsForever);
    m.table.node_mut(ix).reports.retain(is_young);
    let counts = |by: NodeIx| m.table.node(by).is_voter() || is_made(Mistake::ReportsOfAnybody);
    m.table.node(ix).reports.reporters().filter(|by| counts(NodeIx(*by))).count() as u32
}

/// Marks a node as FAIL if this node suspects it and a quorum does (F-5). The times of reports are examined
/// only if the reports would suffice for a quorum in case all of them were recent. Then either the node is
/// marked, or old reports are dropped.
fn condemn_if_agreed(m: &mut ClusterMachine, ix: NodeIx) {
    if m.table.node(ix).health != NodeHealth::PFail {
        return;
    }
    let (mine, quorum) = (u32::from(m.table.me().is_voter()), health::quorum(health::deciding_size(m)));
    if m.table.node(ix).reports.len() + mine < quorum || count_reports(m, ix) + mine < quorum {
        return;
    }
    log!(m, Notice, "Marking node {} as failing (quorum reached).", m.name(ix));
    condemn(m, ix);
    let id = m.table.node(ix).id;
    send::fail(m, id);
}

/// Marks a node as FAIL.
pub(crate) fn condemn(m: &mut ClusterMachine, ix: NodeIx) {
    let since = m.time.now;
    m.table.set_health(ix, NodeHealth::Fail { since });
    m.statistics.fails += 1;
    m.reconsider_soon();
    m.save();
    m.todo.elect |= m.is_my_primary(ix);
}

/// Handles a FAIL message (F-7).
pub(crate) fn told(m: &mut ClusterMachine, sender: NodeIx, about: NodeId) {
    let Some(ix) = m.table.find(&about) else {
        return;
    };
    let node = m.table.node(ix);
    if ix == m.table.my_ix() || node.is_failed() || node.is_handshake() {
        return;
    }
    log!(m, Notice, "FAIL message received from {} about {}", m.name(sender), m.name(ix));
    condemn(m, ix);
}

/// Handles a PONG on a node's outgoing link: the node is no longer suspected. If it was FAIL, it stays FAIL
/// only if it has slots and replicas and has not been FAIL for two node timeouts yet (F-8).
pub(crate) fn answered(m: &mut ClusterMachine, ix: NodeIx) {
    let node = m.table.node(ix);
    let is_voter = node.is_voter();
    let ends = match node.health {
        NodeHealth::Up => false,
        NodeHealth::PFail => true,
        NodeHealth::Fail { since } => {
            let is_old = m.time.now - since > m.settings.node_timeout_ms.saturating_mul(2);
            // A node without replicas need not stay FAIL for a while, because no replica can have taken over
            // (D22).
            let has_heir = !node.replicas.is_empty() || is_made(Mistake::HeirlessStaysFailed);
            if !is_voter {
                let what = if node.is_replica() { "replica" } else { "primary without slots" };
                log!(m, Notice, "Clear FAIL state for node {}: {what} is reachable again.", m.name(ix));
            } else if is_old || !has_heir {
                log!(
                    m,
                    Notice,
                    "Clear FAIL state for node {}: is reachable again and nobody is serving its slots after some time.",
                    m.name(ix)
                );
            }
            !is_voter || is_old || !has_heir
        }
    };
    if ends {
        m.table.set_health(ix, NodeHealth::Up);
        // The node may still have old reports that were too few for a quorum. They are dropped here, because
        // pong times in gossip are ignored for a node with reports (G-10 item 4).
        count_reports(m, ix);
        m.reconsider_soon();
        m.save();
    }
}

/// Sets MY_PRIMARY_FAIL exactly while this node is a replica whose primary is FAIL (F-9).
pub(crate) fn note_my_primary(m: &mut ClusterMachine) {
    let primary = m.table.me().primary();
    let failed = primary.is_some_and(|primary| m.table.node(primary).is_failed());
    let marks = &mut m.table.me_mut().marks;
    marks.my_primary_fail = failed || (marks.my_primary_fail && is_made(Mistake::MournsForever));
}

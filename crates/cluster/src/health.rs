//! The cluster's state, ok or fail, and the number of voters (F-20 to F-24); and the consequences of a long
//! suspension of this node's process (S-24).

use crate::machine::{ClusterMachine, DownReason, Sureness, log};
use crate::node::{ClusterNode, NodeIx};
use crate::output::ClusterState;
use crate::slots::SLOT_COUNT;
use sluice_base::mistake::{Mistake, is_made};

/// Milliseconds after its start for which a primary keeps the cluster's state at fail (F-21).
const WRITABLE_DELAY_MS: u64 = 2_000;

/// Evaluates the cluster's state (F-20). Only this function updates the size of the cluster.
pub(crate) fn evaluate(m: &mut ClusterMachine) {
    let now = m.time.now;
    let is_primary = m.table.me().is_primary();
    let first = *m.cluster.first.get_or_insert(now);
    let is_patient = is_primary && !is_made(Mistake::ServesAtOnce);
    if is_patient && m.cluster.state == ClusterState::Fail && now - first < WRITABLE_DELAY_MS {
        m.cluster.is_safe_to_join = false;
        // The number of voters is updated for a replica that became a primary after its first evaluation,
        // because it knows more voters by now, and with the old number too few of them would decide about a
        // failure.
        if m.cluster.size > 0 {
            m.cluster.size = known_voters(m);
        }
        return;
    }
    if !m.cluster.is_safe_to_join {
        m.cluster.is_safe_to_join = true;
        // A new map is sent to the server, so that requests that have waited are answered.
        m.todo.map |= m.cluster.has_come_back;
    }
    let reason = why_down(m);
    let state = if reason.is_none() { ClusterState::Ok } else { ClusterState::Fail };
    if state == ClusterState::Ok && m.cluster.state == ClusterState::Fail && is_patient {
        let delay = m.settings.node_timeout_ms.clamp(500, 5_000);
        if m.cluster.last_minority.is_some_and(|at| now - at < delay) {
            return;
        }
    }
    change(m, state, reason);
}

/// Whether this node was a primary at the end of its last process, and does not know yet whether it still
/// is one (F-21). If the last process has handed over to a replica and ended quickly, clients come back to
/// this node before it learns who is the primary.
pub(crate) fn is_coming_back(m: &ClusterMachine) -> bool {
    let is_patient = m.table.me().is_primary() && !m.cluster.is_safe_to_join;
    m.cluster.has_come_back && is_patient && m.cluster.state == ClusterState::Fail
}

/// Called after this node's process was suspended for longer than the node timeout T, so that a replica may
/// have taken over. This node serves no slots until a quorum has answered again (S-24) and then for the delay
/// after a minority (F-23), in which voters with newer state can report it. All links are dialled again,
/// because an answer that waits on an old link may be from before the suspension; links to replicas, too,
/// because a replica may have become a voter.
pub(crate) fn after_standstill(m: &mut ClusterMachine) {
    if is_made(Mistake::ServesAfterStandstill) {
        return;
    }
    log!(
        m,
        Warning,
        "This process stood still for longer than cluster-node-timeout: no slot is served until a \
         majority of the primaries has answered."
    );
    m.cluster.stood_until = Some(m.time.now);
    // The delay after a minority (F-23) is counted from now, even if the delay after a start (F-21) postpones
    // evaluations.
    m.cluster.last_minority = Some(m.time.now);
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        if ix != m.table.my_ix() {
            m.drop_link_out(ix);
        }
    }
    m.todo.evaluate = true;
}

/// Whether this node was out of contact with a majority of the voters at the last evaluation, or whether no
/// majority has answered since this node was suspended or completed a takeover that it had forgotten. In that
/// case another node may have taken this node's place.
pub(crate) fn is_apart(m: &ClusterMachine) -> bool {
    m.cluster.stood_until.is_some() || m.cluster.reason == Some(DownReason::Minority)
}

/// Whether this voter has answered a PING since the moment `stood_until`. Always true for this node itself,
/// and if `stood_until` is not set.
fn has_answered(m: &ClusterMachine, ix: NodeIx, node: &ClusterNode) -> bool {
    let Some(since) = m.cluster.stood_until.filter(|_| ix != m.table.my_ix()) else { return true };
    let link = node.place.link_out.key().and_then(|key| m.links.get(key));
    link.and_then(|link| link.pong_at).is_some_and(|at| at >= since)
}

/// The reason why the cluster is down; `None` if it is ok (F-22).
fn why_down(m: &mut ClusterMachine) -> Option<DownReason> {
    let (mut size, mut reachable, mut covered) = (0_u32, 0, 0);
    for (ix, node) in m.table.iter() {
        let is_left_out = node.is_failed() && is_made(Mistake::FailedVotersLeftOut);
        if node.is_voter() && !is_left_out {
            size += 1;
            reachable += u32::from(node.is_up() && has_answered(m, ix, node));
        }
        if !node.is_failed() {
            covered += node.slot_count;
        }
    }
    m.cluster.size = size;
    if reachable < quorum(size) && !is_made(Mistake::MinorityServes) {
        // A node that knows no voter misses no majority, so a new cluster need not wait for its nodes.
        if size > 0 {
            m.cluster.last_minority = Some(m.time.now);
        }
        return Some(DownReason::Minority);
    }
    m.cluster.stood_until = None;
    let is_covered = covered == SLOT_COUNT || !m.settings.require_full_coverage;
    let is_sure = m.rights.sureness == Sureness::Sure;
    (!is_covered || !is_sure).then_some(DownReason::Coverage)
}

/// The number of voters of which a majority decides about a failure: the number at the last evaluation, or,
/// before the first evaluation, the number of known voters. Without the latter, a node that has just started
/// would decide alone.
pub(crate) fn deciding_size(m: &ClusterMachine) -> u32 {
    match m.cluster.size {
        0 => known_voters(m),
        size => size,
    }
}

fn known_voters(m: &ClusterMachine) -> u32 {
    m.table.iter().filter(|(_, node)| node.is_voter()).count() as u32
}

/// The smallest majority of `size` voters.
pub(crate) fn quorum(size: u32) -> u32 {
    size / 2 + u32::from(!is_made(Mistake::HalfDecides))
}

fn change(m: &mut ClusterMachine, state: ClusterState, reason: Option<DownReason>) {
    let is_new_reason = reason.is_some() && reason != m.cluster.reason;
    if state != m.cluster.state {
        match state {
            ClusterState::Ok => log!(m, Notice, "Cluster state changed: ok"),
            ClusterState::Fail => log!(m, Warning, "Cluster state changed: fail"),
        }
        m.cluster.state = state;
        m.statistics.state_changes += 1;
        m.todo.map = true;
    }
    if m.cluster.reason == Some(DownReason::Minority) && reason != m.cluster.reason {
        // This node no longer defends slots that were granted to it (`contested.rs`), because a replica may
        // have taken this node's place, and slots may have moved on from that replica. The node that claims
        // them with the greatest epoch owns them.
        m.keys.granted_here.clear();
    }
    m.cluster.reason = reason;
    match reason.filter(|_| is_new_reason) {
        Some(DownReason::Coverage) => log!(
            m,
            Warning,
            "Cluster is currently down: At least one hash slot is not served by any available node. Please check \
             the 'cluster-require-full-coverage' configuration."
        ),
        Some(DownReason::Minority) => {
            log!(m, Warning, "Cluster is currently down: I am part of a minority partition.");
        }
        None => {}
    }
}

/// The next moment at which work is due without any other input: the end of a delay (F-21, F-23) or of a
/// node's time to answer (F-26).
pub(crate) fn deadline(m: &ClusterMachine) -> Option<u64> {
    let delays = match m.cluster.state == ClusterState::Fail && m.table.me().is_primary() {
        true => {
            let start = m.cluster.first.map(|first| first + WRITABLE_DELAY_MS);
            let rejoin = m.cluster.last_minority.map(|at| at + m.settings.node_timeout_ms.clamp(500, 5_000));
            [start, rejoin]
        }
        false => [None, None],
    };
    delays.into_iter().chain([m.cron.suspicion_at]).flatten().filter(|at| *at > m.time.now).min()
}

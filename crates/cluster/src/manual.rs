//! A manual failover at the primary, which pauses writes, sends its offset to the replica, and ends the pause
//! in time (M3, M4, M6).

use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, ManualFailover, log};
use crate::migration::export;
use crate::node::NodeIx;
use crate::output::ClusterOutput;
use crate::send;
use crate::wire::MessageType;

/// Handles MFSTART of a replica of this node (M3).
pub(crate) fn requested(m: &mut ClusterMachine, key: LinkKey, sender: NodeIx) {
    if m.table.node(sender).primary() != Some(m.table.my_ix()) || !m.table.me().is_primary() {
        return;
    }
    // The request is ignored while slots are granted to the target of a move, because the replica does not
    // know of the grant. It would take the slots from the target, whose writes would be lost.
    if export::has_granted(m) {
        let name = m.name(sender);
        log!(
            m,
            Warning,
            "Manual failover requested by replica {name} was refused: slots are moving to another node. Try again later."
        );
        return;
    }
    let timeout = m.settings.manual_failover_timeout_ms;
    let end = m.time.now.saturating_add(timeout);
    m.failover.paused = ManualFailover::Pausing { replica: sender, end, link: key };
    log!(m, Warning, "Manual failover requested by replica {}.", m.name(sender));
    m.out.push_back(ClusterOutput::PauseWrites { until: end.saturating_add(timeout) });
}

/// Called when writes are held back from this offset on. Sends the offset to the replica, on the link of its
/// request. The offset is not sent earlier, because a write after that offset could then still be
/// acknowledged, and would be lost (S-26).
pub(crate) fn paused(m: &mut ClusterMachine, offset: u64) {
    m.table.me_mut().offset = offset;
    if let ManualFailover::Pausing { replica, end, link } = m.failover.paused {
        m.failover.paused = ManualFailover::Paused { replica, end };
        send::gossip(m, link, MessageType::Ping);
    }
}

/// Sends the replica the end of the stream again, and ends a failover that has taken too long (M6).
/// Called by the cron.
pub(crate) fn tick(m: &mut ClusterMachine) {
    if m.failover.paused.end().is_some_and(|end| m.time.now > end) {
        log!(m, Warning, "Manual failover timed out.");
        m.end_pause();
    }
    if let ManualFailover::Paused { replica, .. } = m.failover.paused {
        send::ping(m, replica);
    }
}

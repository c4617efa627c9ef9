//! A manual failover, on the primary's side: pause, tell the offset, end in time (M3, M4, M6).

use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, ManualFailover, log};
use crate::node::NodeIx;
use crate::output::ClusterOutput;
use crate::roles;
use crate::send;
use crate::wire::MessageType;

/// MFSTART of one of my replicas (M3).
pub(crate) fn requested(m: &mut ClusterMachine, key: LinkKey, sender: NodeIx) {
    if m.table.node(sender).primary() != Some(m.table.my_ix()) || !m.table.me().is_primary() {
        return;
    }
    let timeout = m.settings.manual_failover_timeout_ms;
    let end = m.time.now.saturating_add(timeout);
    m.failover.paused = ManualFailover::Paused { replica: sender, end };
    log!(m, Warning, "Manual failover requested by replica {}.", m.name(sender));
    m.out.push_back(ClusterOutput::PauseWrites { until: end.saturating_add(timeout) });
    send::gossip(m, key, MessageType::Ping);
}

/// Tells the replica again where the stream stands, and ends what has taken too long (M6). Called by the
/// cron.
pub(crate) fn tick(m: &mut ClusterMachine) {
    let ManualFailover::Paused { replica, end } = m.failover.paused else { return };
    if m.time.now > end {
        log!(m, Warning, "Manual failover timed out.");
        roles::end_pause(m);
        return;
    }
    send::ping(m, replica);
}

//! Epochs (section 5.1 of the specification of the bus): epochs of other nodes, and new epochs of this node.

use crate::candidacy::ElectionStage;
use crate::id::ClusterEpoch;
use crate::machine::{ClusterMachine, Sureness, log};
use crate::node::{ClusterNode, NodeIx};
use sluice_base::mistake::{Mistake, is_made};

/// Handles another node's current epoch; this node keeps the highest one (E-2). The epoch may be sent on
/// before it is durable, because only this node's own epochs must be durable first (E-53).
pub(crate) fn heard(m: &mut ClusterMachine, epoch: ClusterEpoch) {
    if epoch > m.epochs.current {
        m.epochs.current = epoch;
    }
    let published = &mut m.durable.published;
    published.current_epoch = published.current_epoch.max(epoch);
}

/// Handles a primary's config epoch. A higher one is accepted (E-3), and the current epoch becomes at least
/// as high.
pub(crate) fn claimed(m: &mut ClusterMachine, ix: NodeIx, epoch: ClusterEpoch) {
    if epoch > m.table.node(ix).config_epoch {
        m.table.node_mut(ix).config_epoch = epoch;
        heard(m, epoch);
        m.save();
        m.todo.map = true;
        outbid(m, ix, epoch);
        if m.is_my_primary(ix) {
            ask_anew(m);
        }
    }
}

/// Ends the open election, so that the next one begins at once. Voters may have refused their votes, because
/// this node's request named an older config epoch of this node's primary than the voters know (E-50). This
/// node has only now learnt the new one, so the next request is not refused for this reason.
fn ask_anew(m: &mut ClusterMachine) {
    let ElectionStage::Requested { epoch, .. } = m.failover.candidacy.stage else { return };
    log!(
        m,
        Notice,
        "Failover election for epoch {epoch} asked with an old epoch of my primary. Starting another one."
    );
    m.failover.candidacy.stage = ElectionStage::Idle;
    m.todo.elect = true;
}

/// Handles the epoch that a primary claims. If the epoch is not below that of this node's open election
/// (E-3), the election cannot be won any more, because the votes of that epoch have been given. A new
/// election then begins immediately, not when the time of this one is over.
fn outbid(m: &mut ClusterMachine, by: NodeIx, claimed: ClusterEpoch) {
    let ElectionStage::Requested { epoch, .. } = m.failover.candidacy.stage else { return };
    if claimed < epoch {
        return;
    }
    log!(
        m,
        Warning,
        "Failover election in progress for epoch {epoch}, but received a claim from node {} with an equal or higher \
         epoch {claimed}. Resetting the election since we cannot win an election in the past.",
        m.name(by)
    );
    m.failover.candidacy.stage = ElectionStage::Idle;
    m.todo.elect = true;
}

/// Takes a new epoch without votes (E-4); `None` if this node's epoch is already the highest, is not 0, and
/// no other primary has the same. A dead primary with the same epoch counts, too. While it is dead, the
/// collision (E-6) is not resolved, and when it comes back, its claims would count as much as this node's.
pub(crate) fn bump(m: &mut ClusterMachine) -> Option<ClusterEpoch> {
    let highest = m.table.iter().map(|(_, node)| node.config_epoch).fold(m.epochs.current, ClusterEpoch::max);
    let mine = m.table.me().config_epoch;
    let my_ix = m.table.my_ix();
    let has_mine =
        |(ix, node): (NodeIx, &ClusterNode)| ix != my_ix && node.is_primary() && node.config_epoch == mine;
    if mine != ClusterEpoch(0) && mine == highest && !m.table.iter().any(has_mine) {
        return None;
    }
    let epoch = advance(m);
    log!(m, Warning, "New configEpoch set to {epoch}");
    Some(epoch)
}

/// Takes a new epoch if this node is a primary that gets slots at epoch 0, and there are other nodes (E-7).
/// The new epoch is needed for two reasons: any claim beats epoch 0; and a node may have had an epoch and
/// lost it, as a replica does at a restart, while other nodes remember that epoch.
pub(crate) fn leave_zero(m: &mut ClusterMachine) {
    if m.table.me().is_primary() && m.table.me().config_epoch == ClusterEpoch(0) && m.table.len() > 1 {
        bump(m);
    }
}

/// Takes a new epoch without votes, whatever this node's epoch is, for a forced takeover.
pub(crate) fn advance_alone(m: &mut ClusterMachine) {
    // The conditions of `bump` do not apply, because they look at this node's own epoch. That epoch has no
    // meaning for a replica; the epoch of its shard is its primary's.
    advance(m);
}

/// Makes the next current epoch this node's config epoch, and announces it once it is durable.
fn advance(m: &mut ClusterMachine) -> ClusterEpoch {
    let epoch = m.epochs.current.next();
    m.epochs.current = epoch;
    m.table.me_mut().config_epoch = epoch;
    m.save();
    m.announce();
    m.todo.map = true;
    epoch
}

/// Handles a primary's config epoch. If this node is a primary with the same config epoch, the one of the two
/// with the smaller id takes a new epoch (E-6), so that the primary with the greatest id never has to.
pub(crate) fn collide(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch) {
    let me = m.table.me();
    let other = m.table.node(sender);
    if m.rights.sureness != Sureness::Sure {
        // This node's epoch was lost with its line of the file, so an equal epoch is a coincidence (N-26).
        return;
    }
    let stays = other.id <= me.id && !is_made(Mistake::GreaterIdMovesToo);
    if !me.is_primary() || !other.is_primary() || epoch != me.config_epoch || stays {
        return;
    }
    let epoch = advance(m);
    log!(m, Warning, "configEpoch collision with node {}. configEpoch set to {epoch}", m.name(sender));
}

/// Called when this node becomes a voter, perhaps in place of another voter, which may have voted in any
/// epoch up to the present one. This node then does not vote in these epochs, because two replicas could win
/// an epoch in which both the former voter and its successor vote (S-20).
pub(crate) fn takes_seat(m: &mut ClusterMachine) {
    m.epochs.last_vote = m.epochs.current;
    m.save();
}

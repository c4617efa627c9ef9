//! The roles of other nodes according to their headers (E-16), and changes of this node's role (R1).

use crate::epochs;
use crate::id::{ClusterEpoch, NodeId};
use crate::machine::{ClusterMachine, Sureness, log};
use crate::node::{NodeIx, NodeRole};
use crate::output::{ClusterOutput, RoleChange, Synchronisation};
use crate::slots::{HashSlot, SLOT_COUNT, SlotSet};
use sluice_base::mistake::{Mistake, is_made};

/// Whether the rest of a message is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum HeaderVerdict {
    Go,
    /// The message is older than the known state, so the rest is ignored.
    Stale,
}

/// What happens to open slots (migrating or imported ones) when this node follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenSlots {
    Keep,
    Close,
}

/// Makes this node, which owns no slot, a replica of `primary` (R1). If the two are not known to be in one
/// shard, the synchronisation is full whatever `at_best` is.
pub(crate) fn follow(m: &mut ClusterMachine, primary: NodeIx, open: OpenSlots, at_best: Synchronisation) {
    assert!(m.table.me().slot_count == 0, "a replica owns no slot");
    let target = m.table.node(primary);
    let stays = m.table.me().shares_shard_with(target);
    let synchronisation = if stays { at_best } else { Synchronisation::Full };
    let (shard, made_up) = (target.shard, target.made_up_shard);
    let (node, address) = (target.id, target.place.address.clone());
    let elsewhere = others_slots(&target.slots);
    let my_ix = m.table.my_ix();
    m.table.make_replica(my_ix, Some(primary));
    let me = m.table.me_mut();
    (me.shard, me.made_up_shard) = (shard, made_up);
    if synchronisation == Synchronisation::Full && !is_made(Mistake::OldOffsetTold) {
        me.offset = 0;
    }
    if open == OpenSlots::Close {
        m.table.migrating.clear();
        m.table.importing.clear();
    }
    (m.keys.strays, m.keys.dirty) = (SlotSet::EMPTY, SlotSet::EMPTY);
    m.channels_gone(elsewhere);
    m.end_pause();
    m.failover.candidacy.give_up();
    // `voted_until` no longer matters, because this node is a replica now, and slots that it gets later as a
    // primary come with a new epoch, above that of its vote.
    m.failover.voted_until = 0;
    m.out.push_back(ClusterOutput::Role(RoleChange::ReplicaOf { node, address, synchronisation }));
    m.reconsider();
    m.save();
}

fn others_slots(slots: &SlotSet) -> SlotSet {
    let mut others = SlotSet::EMPTY;
    for slot in (0..SLOT_COUNT).filter_map(HashSlot::new).filter(|slot| !slots.contains(*slot)) {
        others.insert(slot);
    }
    others
}

/// Handles the sender's role in a header (E-16).
pub(crate) fn heard(
    m: &mut ClusterMachine,
    sender: NodeIx,
    replica_of: Option<NodeId>,
    epoch: ClusterEpoch,
) -> HeaderVerdict {
    let Some(id) = replica_of else {
        if !m.table.node(sender).is_primary() {
            m.table.make_primary(sender);
            m.reconsider();
            m.save();
        }
        return HeaderVerdict::Go;
    };
    // A node whose primary is itself, or the temporary id of a handshake, has no known primary.
    let primary = m.table.find(&id).filter(|ix| *ix != sender && !m.table.node(*ix).is_handshake());
    if !m.table.node(sender).is_replica() {
        if demote(m, sender, primary, epoch) == HeaderVerdict::Stale {
            return HeaderVerdict::Stale;
        }
        attach(m, sender, primary);
        log_primary(m, sender);
    } else if primary.is_some() && m.table.node(sender).primary() != primary {
        attach(m, sender, primary);
        log_primary(m, sender);
    }
    disclaim(m, sender);
    follow_the_chain(m);
    if let Some(primary) = m.table.node(sender).primary() {
        adopt_shard(m, sender, primary);
    }
    HeaderVerdict::Go
}

/// Lets any node claim the slots that are still bound to a replica here, because a replica claims no slots
/// (E-12). This node has ascribed them to the replica by late news of a failover (E-16 item 2) that was
/// undone at the same epoch. Therefore the epoch of the true owner would not win them back, and an UPDATE
/// from this node would make the owner give them up.
fn disclaim(m: &mut ClusterMachine, replica: NodeIx) {
    if m.table.node(replica).slot_count == 0 {
        return;
    }
    let slots = m.table.node(replica).slots.clone();
    for slot in slots.iter() {
        m.table.set_unclaimed(slot);
    }
}

/// Logs the new primary of a node.
fn log_primary(m: &mut ClusterMachine, replica: NodeIx) {
    let Some(primary) = m.table.node(replica).primary() else { return };
    let shard = m.table.node(primary).shown_shard();
    log!(m, Notice, "Node {} is now a replica of node {} in shard {shard}", m.name(replica), m.name(primary));
}

/// Handles a node that has become a replica (E-16 item 2). If it follows a node of its shard that is a
/// replica here, that node has won a failover and gets the slots; if it has left its shard, or its new
/// primary is not known, the slots lose their owner.
fn demote(
    m: &mut ClusterMachine,
    sender: NodeIx,
    primary: Option<NodeIx>,
    epoch: ClusterEpoch,
) -> HeaderVerdict {
    let shard = m.table.node(sender).shown_shard();
    if let Some(winner) = primary.filter(|winner| are_of_one_shard(m, *winner, sender)) {
        let winners_epoch = m.table.node(m.table.primary_of(winner)).config_epoch;
        let known = m.table.node(sender).config_epoch.max(winners_epoch);
        let is_me = winner == m.table.my_ix() && m.table.me().is_replica();
        let is_old = known > epoch && !is_made(Mistake::StaleRoleTaken);
        if is_old && !is_me && m.table.node(sender).slot_count == 0 {
            // The message is handled despite its older epoch, because the sender has no slots that could be
            // lost, and its own epoch may stay above its primary's for ever (E-17).
            return HeaderVerdict::Go;
        }
        if is_me && epoch > known && may_remember(m, sender) {
            remember(m, sender, epoch);
            return HeaderVerdict::Go;
        }
        if is_old || is_me {
            log!(
                m,
                Notice,
                "Ignore stale message from {}; gossip config epoch: {epoch}, current config epoch: {known}",
                m.name(sender)
            );
            return HeaderVerdict::Stale;
        }
        if m.table.node(winner).is_replica() {
            hand_over(m, sender, winner, epoch);
        }
    } else {
        let slots = m.table.node(sender).slots.clone();
        for slot in slots.iter() {
            m.unbind(slot);
        }
        let count = slots.len();
        m.channels_gone(slots);
        log!(
            m,
            Notice,
            "Node {} is no longer primary of shard {shard}; removed all {count} slot(s) it used to own",
            m.name(sender)
        );
        if let Some(primary) = primary {
            let shard = m.table.node(primary).shown_shard();
            log!(m, Notice, "Node {} is now part of shard {shard}", m.name(sender));
        }
    }
    HeaderVerdict::Go
}

/// Whether this replica may believe its primary's message that this replica has won an epoch. It may if it is
/// sure of its state, has data (which the primary will copy), and is not about to end.
fn may_remember(m: &ClusterMachine, sender: NodeIx) -> bool {
    m.rights.sureness == Sureness::Sure
        && m.table.me().primary() == Some(sender)
        && m.keys.are_known
        && has_data_of_shard(m, sender)
        && !m.failover.is_leaving
}

/// Whether a primary that becomes a replica of this node, and copies its data, loses nothing. This is so if
/// this node has keys. If it has none, the shard may have no keys, either; then that primary's offset must be
/// known, and this node's offset, from its files, must have reached it. A node without files, or with older
/// ones, does not qualify.
fn has_data_of_shard(m: &ClusterMachine, primary: NodeIx) -> bool {
    let (mine, its) = (m.table.me().offset, m.table.node(primary).offset);
    m.keys.has_any || (its != 0 && mine >= its)
}

/// Completes a takeover that this node does not remember: its primary has become its replica, with an epoch
/// that this node does not know. This node has won that epoch, announced it while its file could not be
/// written (`cluster-config-save-behavior best-effort`), and has restarted from the older file. No node
/// serves the slots, and by the reference's rule each of the two waits for the other until an operator
/// repairs that. The message cannot be an old one to an earlier process, because connections end with their
/// process. Another replica may have won a later epoch in the meantime, so nothing is served until a majority
/// has answered.
fn remember(m: &mut ClusterMachine, old: NodeIx, epoch: ClusterEpoch) {
    log!(
        m,
        Warning,
        "Node {} is a replica of this node by config epoch {epoch}, which the cluster configuration \
         file lacks: this node completes the takeover.",
        m.name(old)
    );
    m.epochs.current = m.epochs.current.max(epoch);
    m.table.me_mut().config_epoch = epoch;
    take_over(m, old);
    m.cluster.stood_until = Some(m.time.now);
    m.todo.evaluate = true;
}

/// Whether two nodes are in one shard according to their shard ids, or because one follows the other in this
/// node's view.
fn are_of_one_shard(m: &ClusterMachine, one: NodeIx, other: NodeIx) -> bool {
    let (a, b) = (m.table.node(one), m.table.node(other));
    a.shares_shard_with(b) || a.primary() == Some(other) || b.primary() == Some(one)
}

/// Applies a failover that this node did not see. All slots of the loser, and all open slots that name it, go
/// to the winner.
fn hand_over(m: &mut ClusterMachine, loser: NodeIx, winner: NodeIx, epoch: ClusterEpoch) {
    let shard = m.table.node(loser).shown_shard();
    let slots = m.table.node(loser).slots.clone();
    m.table.make_primary(winner);
    for slot in slots.iter() {
        // Slots that the loser did not claim any more stay unclaimed, because the winner has not claimed
        // them, either.
        let is_unclaimed = m.table.is_unclaimed(slot);
        m.table.unbind(slot);
        m.table.bind(slot, winner);
        if is_unclaimed {
            m.table.set_unclaimed(slot);
        }
    }
    let node = m.table.node_mut(winner);
    (node.config_epoch, node.marks.has_claimed) = (epoch, false);
    let (sources, targets) = (redirect(&mut m.table.importing, loser, winner), {
        redirect(&mut m.table.migrating, loser, winner)
    });
    let name = m.name(winner).to_string();
    log!(
        m,
        Notice,
        "A failover occurred in shard {shard}; node {} lost {} slot(s) and failed over to node {} with a config epoch \
         of {epoch}",
        m.name(loser),
        slots.len(),
        m.name(winner)
    );
    if !sources.is_empty() {
        log!(
            m,
            Verbose,
            "Failover occurred in migration source. Update importing source for {} to node {name} in shard {shard}.",
            sources.named()
        );
        log!(
            m,
            Notice,
            "A failover occurred in migration source. Update importing source of {} slot(s) to node {name} in shard \
             {shard}.",
            sources.len()
        );
    }
    if !targets.is_empty() {
        log!(
            m,
            Verbose,
            "Failover occurred in migration target. {} now being migrated to node {name} in shard {shard}.",
            targets.as_subject()
        );
        log!(
            m,
            Notice,
            "A failover occurred in migration target. Update migrating target of {} slot(s) to node {name} in shard \
             {shard}.",
            targets.len()
        );
    }
    m.reconsider();
    m.save();
}

/// Replaces a node in open slots by another one; returns the slots that changed.
fn redirect(open: &mut std::collections::BTreeMap<HashSlot, NodeIx>, from: NodeIx, to: NodeIx) -> SlotSet {
    let of_node = open.iter_mut().filter(|(_, node)| **node == from);
    of_node
        .map(|(slot, node)| {
            *node = to;
            *slot
        })
        .collect()
}

/// Sets the primary of a node. If that would form a cycle, the node's primary becomes unknown.
fn attach(m: &mut ClusterMachine, sender: NodeIx, primary: Option<NodeIx>) {
    let primary = primary.filter(|primary| !m.table.leads_to(*primary, sender));
    if m.table.node(sender).role != NodeRole::Replica(primary) {
        m.table.make_replica(sender, primary);
        m.reconsider();
        m.save();
    }
}

/// If this node's primary follows another node, this node follows the other node, too (E-16 item 3), unless
/// the other node is this node itself, or this node is not sure of its state.
fn follow_the_chain(m: &mut ClusterMachine) {
    let Some(primary) = m.table.me().primary() else { return };
    let Some(above) = m.table.node(primary).primary() else { return };
    if above == m.table.my_ix() || m.rights.sureness != Sureness::Sure {
        return;
    }
    log!(
        m,
        Notice,
        "I'm a sub-replica! Reconfiguring myself as a replica of {} from {}",
        m.table.node(above).id,
        m.table.node(primary).id
    );
    follow(m, above, OpenSlots::Close, Synchronisation::Partial);
    m.announce();
}

/// Puts a replica into its primary's shard (N-5).
pub(crate) fn adopt_shard(m: &mut ClusterMachine, replica: NodeIx, primary: NodeIx) {
    let (shard, made_up) = (m.table.node(primary).shard, m.table.node(primary).made_up_shard);
    let node = m.table.node_mut(replica);
    if (node.shard, node.made_up_shard) != (shard, made_up) {
        let was = node.shown_shard();
        (node.shard, node.made_up_shard) = (shard, made_up);
        if node.shown_shard() != was {
            m.save();
            m.todo.map = true;
        }
    }
}

/// Makes this replica the primary of its shard (E-55).
pub(crate) fn take_over(m: &mut ClusterMachine, old: NodeIx) {
    let (shard, my_ix) = (m.table.me().shown_shard(), m.table.my_ix());
    log!(
        m,
        Notice,
        "Setting myself to primary in shard {shard} after failover; my old primary is {}",
        m.name(old)
    );
    stand_alone(m);
    let slots = m.table.node(old).slots.clone();
    for slot in slots.iter() {
        m.table.unbind(slot);
        m.table.bind(slot, my_ix);
    }
    epochs::takes_seat(m);
    // A node that is not sure of its state gets here only by an operator's command (N-26).
    m.grow_sure();
    m.channels_gone(slots);
    // The host is asked for the slots that have keys, as at a start (R30), so that keys in other nodes' slots
    // are found.
    m.out.push_back(ClusterOutput::AskKeys);
    m.reconsider();
    m.save();
    m.announce();
    m.keys.strays = SlotSet::EMPTY;
}

/// Makes this node a primary without slots.
pub(crate) fn stand_alone(m: &mut ClusterMachine) {
    let my_ix = m.table.my_ix();
    m.table.make_primary(my_ix);
    m.end_pause();
    m.failover.candidacy.give_up();
    m.out.push_back(ClusterOutput::Role(RoleChange::Primary));
    m.reconsider();
    m.save();
}

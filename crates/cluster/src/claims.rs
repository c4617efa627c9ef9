//! Claims of slots by headers and UPDATEs, and their effect on this node's role (E-10 to E-15, E-19, E-20).

use crate::epochs;
use crate::id::{ClusterEpoch, NodeId};
use crate::machine::{ClusterMachine, Sureness, log};
use crate::migration::{contested, export};
use crate::node::NodeIx;
use crate::output::{ClusterOutput, LostSlots, Synchronisation};
use crate::roles::{self, OpenSlots};
use crate::send;
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};
use std::collections::BTreeMap;

/// Handles the slots in a primary's header (step 10 of `receive.rs`); a claim that changes nothing is
/// ignored.
pub(crate) fn heard(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    let node = m.table.node(sender);
    if !node.is_primary() {
        return;
    }
    confirm_strays(m, sender, epoch, slots);
    let is_new = m.table.node(sender).slots != *slots;
    if is_new || m.table.has_unclaimed() {
        take(m, sender, epoch, slots);
    }
    if !m.keys.granted_here.is_empty() {
        contested::heard(m, sender, epoch, Some(slots));
    }
    if is_new {
        correct(m, sender, epoch, slots);
    }
}

/// Deletes keys that were found at the start or at a promotion in another node's slots, once the owner has
/// claimed the slot. The claim must have arrived in this process, with an epoch that is not below the
/// owner's known epoch. Only a primary that is sure of its state deletes them.
fn confirm_strays(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    if m.keys.strays.is_empty() || epoch < m.table.node(sender).config_epoch {
        return;
    }
    if m.rights.sureness != Sureness::Sure || !m.table.me().is_primary() {
        return;
    }
    let mut gone = SlotSet::EMPTY;
    for slot in m.keys.strays.iter().filter(|slot| slots.contains(*slot)) {
        // A slot that is being imported is left out, because its new keys cannot be told from the old ones.
        if m.table.owner(slot) == Some(sender) && !m.table.importing.contains_key(&slot) {
            gone.insert(slot);
        }
    }
    empty(m, gone, LostSlots::FoundAtStart);
}

/// Asks the host to delete the keys of slots.
fn empty(m: &mut ClusterMachine, slots: SlotSet, why: LostSlots) {
    if slots.is_empty() || is_made(Mistake::LostKeysKept) {
        return;
    }
    for slot in slots.iter() {
        m.keys.strays.remove(slot);
    }
    if why == LostSlots::FoundAtStart {
        log!(m, Notice, "I have keys for {} that another node owns. Deleting them.", slots.named());
    }
    m.out.push_back(ClusterOutput::EmptySlots { slots: Box::new(slots), why });
}

/// The changes that a claim makes.
struct SlotsTaken {
    /// Number of slots that this node or its primary has lost.
    lost: u16,
    /// Slots that have a new owner.
    rebound: SlotSet,
    closed: ClosedSlots,
}

/// Open slots (migrating or imported ones) that a claim has changed, with the nodes at their other ends.
#[derive(Default)]
struct ClosedSlots {
    exports: BTreeMap<NodeIx, SlotSet>,
    imports: BTreeMap<NodeIx, SlotSet>,
    /// Imports that have a new source.
    redirected: SlotSet,
}

/// Gives to `sender` those of `slots` that it may take (E-10), and then adapts this node's role (E-14).
pub(crate) fn take(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    if sender == m.table.my_ix() {
        log!(m, Notice, "Discarding UPDATE message about myself.");
        return;
    }
    let my_epoch = m.table.node(m.table.primary_of(m.table.my_ix())).config_epoch;
    let taken = rebind(m, sender, epoch, slots);
    disclaim(m, sender, epoch, slots);
    if !taken.rebound.is_empty() {
        m.channels_gone(taken.rebound);
        m.reconsider();
        m.save();
    }
    become_what_is_left(m, sender, taken.lost, &SlotClaim { epoch, my_epoch, slots });
}

/// A claim of slots. Its epoch is compared with that of this node's primary, or with this node's own if
/// this node is a primary.
struct SlotClaim<'a> {
    epoch: ClusterEpoch,
    my_epoch: ClusterEpoch,
    slots: &'a SlotSet,
}

fn rebind(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) -> SlotsTaken {
    let my_ix = m.table.my_ix();
    let mine = m.table.primary_of(my_ix);
    let mut taken = SlotsTaken { lost: 0, rebound: SlotSet::EMPTY, closed: ClosedSlots::default() };
    for slot in slots.iter() {
        let owner = m.table.owner(slot);
        if owner == Some(sender) {
            m.table.set_claimed(slot);
            continue;
        }
        let yields = owner.is_none_or(|owner| {
            let known = m.table.node(owner).config_epoch;
            let is_equal = known == epoch && is_made(Mistake::ReboundAtEqualEpoch);
            // A slot that was granted to the sender goes to the sender whatever the epochs are.
            let is_granted = owner == my_ix && export::is_granted(m, slot, sender);
            m.table.is_unclaimed(slot) || known < epoch || is_equal || is_granted
        });
        if !yields || owner == Some(my_ix) && contested::is_kept(m, slot, sender) {
            continue;
        }
        taken.lost += u16::from(owner == Some(mine));
        if owner == Some(my_ix) {
            m.keys.dirty.insert(slot);
        }
        close_open_slot(m, slot, sender, &mut taken.closed);
        m.table.unbind(slot);
        m.table.bind(slot, sender);
        taken.rebound.insert(slot);
    }
    log_closed(m, sender, &taken.closed);
    log_moves(m, sender, &taken);
    taken
}

fn log_moves(m: &mut ClusterMachine, sender: NodeIx, taken: &SlotsTaken) {
    if taken.lost == 0 {
        return;
    }
    let mine = m.table.primary_of(m.table.my_ix());
    let (from, to) = (m.table.node(mine).shown_shard(), m.table.node(sender).shown_shard());
    if from == to {
        return;
    }
    for (first, last) in taken.rebound.runs() {
        log!(
            m,
            Notice,
            "Slot range [{}, {}] is migrated from node {} in shard {from} to node {} in shard {to}.",
            first.number(),
            last.number(),
            m.name(mine),
            m.name(sender)
        );
    }
}

/// Updates an open slot whose owner changes (E-11).
fn close_open_slot(m: &mut ClusterMachine, slot: HashSlot, sender: NodeIx, closed: &mut ClosedSlots) {
    if m.table.migrating.contains_key(&slot) && !m.table.node(sender).shares_shard_with(m.table.me()) {
        let to = m.table.migrating.remove(&slot);
        if let Some(to) = to {
            closed.exports.entry(to).or_default().insert(slot);
        }
    }
    let Some(from) = m.table.importing.get(&slot).copied().filter(|from| *from != sender) else { return };
    if m.table.node(sender).shares_shard_with(m.table.node(from)) {
        m.table.importing.insert(slot, sender);
        closed.redirected.insert(slot);
    } else {
        m.table.importing.remove(&slot);
        closed.imports.entry(from).or_default().insert(slot);
    }
}

fn log_closed(m: &mut ClusterMachine, sender: NodeIx, closed: &ClosedSlots) {
    for (to, slots) in &closed.exports {
        log!(m, Notice, "{} no longer being migrated to node {}.", slots.as_subject(), m.name(*to));
    }
    for (from, slots) in &closed.imports {
        log!(m, Notice, "{} no longer being imported from node {}.", slots.as_subject(), m.name(*from));
    }
    if !closed.redirected.is_empty() {
        log!(
            m,
            Verbose,
            "Failover occurred in migration source. Update importing source for {} to node {}.",
            closed.redirected.named(),
            m.name(sender)
        );
    }
}

/// Handles slots that the sender owns in this node's view and does not claim any more (E-12, E-13).
fn disclaim(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    let owned = &m.table.node(sender).slots;
    if owned.iter().any(|slot| !slots.contains(slot)) {
        for slot in owned.clone().iter().filter(|slot| !slots.contains(*slot)) {
            m.table.set_unclaimed(slot);
        }
    }
    if !m.table.migrating.is_empty() {
        follow_targets(m, sender, epoch, slots);
    }
    if !m.table.importing.is_empty() && m.table.me().is_primary() {
        let left =
            m.table.importing.iter().filter(|(slot, from)| **from == sender && !slots.contains(**slot));
        let left: SlotSet = left.map(|(slot, _)| *slot).collect();
        finish_imports(m, &left);
    }
}

/// If slots migrate from this node to a shard in which a failover has happened, makes the winner of the
/// failover their target (E-12).
fn follow_targets(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    let moved: SlotSet = m
        .table
        .migrating
        .iter()
        .filter(|(slot, to)| {
            let target = m.table.node(**to);
            **to != sender
                && !slots.contains(**slot)
                && target.shares_shard_with(m.table.node(sender))
                && (target.config_epoch < epoch || target.is_replica())
        })
        .map(|(slot, _)| *slot)
        .collect();
    if moved.is_empty() {
        return;
    }
    for slot in moved.iter() {
        m.table.migrating.insert(slot, sender);
    }
    log!(
        m,
        Verbose,
        "Failover occurred in migration target. {} now being migrated to node {}.",
        moved.as_subject(),
        m.name(sender)
    );
}

/// Takes slots that this node imports and that their source no longer claims (E-13).
fn finish_imports(m: &mut ClusterMachine, slots: &SlotSet) {
    // A node that is not sure of its state, because its line of the file was damaged, gets no slots by
    // other nodes' messages (N-26).
    if slots.is_empty() || m.rights.sureness != Sureness::Sure {
        return;
    }
    let my_ix = m.table.my_ix();
    log!(m, Notice, "{} no longer claimed by the source: the import has ended.", slots.as_subject());
    for slot in slots.iter() {
        m.table.importing.remove(&slot);
        if m.table.owner(slot) != Some(my_ix) {
            let is_new_voter = !m.table.me().is_voter();
            m.table.unbind(slot);
            m.table.bind(slot, my_ix);
            epochs::bump(m);
            if is_new_voter {
                epochs::takes_seat(m);
            }
        }
    }
    m.reconsider();
    m.save();
}

/// Adapts this node's role after a claim (E-14, E-15).
fn become_what_is_left(m: &mut ClusterMachine, sender: NodeIx, lost: u16, claim: &SlotClaim<'_>) {
    let my_ix = m.table.my_ix();
    let is_mine = m.is_my_primary(sender);
    let same_shard = m.table.me().shares_shard_with(m.table.node(sender));
    let gave_up = claim.slots.is_empty()
        && m.table.me().slot_count == 0
        && !is_mine
        && claim.my_epoch < claim.epoch
        && same_shard;
    let mine = m.table.primary_of(my_ix);
    let dirty = std::mem::replace(&mut m.keys.dirty, SlotSet::EMPTY);
    // A node that is not sure of its state keeps its role, because its data may be the last copy.
    let is_unsure = m.rights.sureness != Sureness::Sure;
    if (lost == 0 && !gave_up) || m.table.node(mine).slot_count > 0 || is_unsure {
        return empty(m, dirty, LostSlots::TakenOver);
    }
    if same_shard || m.settings.allow_replica_migration {
        log!(
            m,
            Notice,
            "Configuration change detected. Reconfiguring myself as a replica of node {}",
            m.name(sender)
        );
        let open = if same_shard { OpenSlots::Keep } else { OpenSlots::Close };
        roles::follow(m, sender, open, Synchronisation::Partial);
        m.announce();
    } else if m.table.me().is_primary() && claim.slots.len() >= lost {
        log!(
            m,
            Notice,
            "My last slot was migrated to node {} in shard {}. I am now an empty primary.",
            m.name(sender),
            m.table.node(sender).shown_shard()
        );
        empty(m, dirty, LostSlots::TakenOver);
    }
}

/// If the sender claims slots with an epoch that is too old, sends one UPDATE about the owner of the first of
/// these slots (E-19).
fn correct(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: &SlotSet) {
    let newer = slots.iter().find_map(|slot| {
        let owner = m.table.owner(slot).filter(|owner| *owner != sender && !m.table.is_unclaimed(slot))?;
        (m.table.node(owner).config_epoch > epoch && has_claimed(m, owner)).then_some(owner)
    });
    if let Some(owner) = newer {
        correct_about(m, sender, owner);
    }
}

/// Handles the slots that a replica of this node ascribes to this node. The replica may not know that this
/// node has given a slot away, and would claim the slot when it takes over. Its epoch could then be above
/// that of the slot's new owner, because this node's epoch may have risen since the grant. Therefore
/// epochs are not compared here, unlike for slots that another node ascribes to itself (E-19).
pub(crate) fn heard_by_replica(m: &mut ClusterMachine, replica: NodeIx, slots: &SlotSet) {
    if !m.table.me().is_primary() {
        return;
    }
    let owner = slots.iter().find_map(|slot| {
        let is_mine = |owner: &NodeIx| *owner == m.table.my_ix() || m.table.is_unclaimed(slot);
        m.table.owner(slot).filter(|owner| !is_mine(owner))
    });
    if let Some(owner) = owner {
        correct_about(m, replica, owner);
    }
}

/// Whether the slots of `owner` may be sent to other nodes.
fn has_claimed(m: &ClusterMachine, owner: NodeIx) -> bool {
    owner == m.table.my_ix() || m.table.node(owner).marks.has_claimed
}

/// Sends an UPDATE to a node with an old view of the owner's slots.
pub(crate) fn correct_about(m: &mut ClusterMachine, node: NodeIx, owner: NodeIx) {
    if !has_claimed(m, owner) {
        return;
    }
    log!(
        m,
        Verbose,
        "Node {} has old slots configuration, sending an UPDATE message about {}",
        m.name(node),
        m.name(owner)
    );
    send::update(m, node, owner);
}

/// Handles an UPDATE (E-20).
pub(crate) fn updated(
    m: &mut ClusterMachine,
    sender: NodeIx,
    about: NodeId,
    epoch: ClusterEpoch,
    slots: &SlotSet,
) {
    let Some(subject) = m.table.find(&about).filter(|ix| !m.table.node(*ix).is_handshake()) else { return };
    let old = m.table.node(subject).config_epoch;
    // By the UPDATE, the sender itself gives up those of its slots that the UPDATE ascribes to the other
    // node.
    let given: Vec<HashSlot> =
        slots.iter().filter(|slot| m.table.owner(*slot) == Some(sender) && subject != sender).collect();
    if epoch < old || epoch == old && given.is_empty() {
        return;
    }
    given.into_iter().for_each(|slot| m.table.set_unclaimed(slot));
    if subject == m.table.my_ix() {
        log!(m, Notice, "Discarding UPDATE message about myself.");
        return;
    }
    log!(
        m,
        Notice,
        "Processing UPDATE message received from {} about node {} old configEpoch {old}, new configEpoch {epoch}",
        m.name(sender),
        m.name(subject)
    );
    if !m.table.node(subject).is_primary() {
        m.table.make_primary(subject);
        m.reconsider();
    }
    epochs::claimed(m, subject, epoch);
    take(m, subject, epoch, slots);
    m.table.node_mut(subject).marks.has_claimed = true;
    contested::heard(m, subject, epoch, None);
}

/// Compares keys with slots, at the start and at promotion (R30). Of the slots that have keys here, this node
/// takes those without an owner; it remembers those of other nodes, so that their keys are deleted when the
/// owner claims the slot. Slots that this node imports are left out. Does nothing on a replica, and on a node
/// that is not sure of its state.
pub(crate) fn check_keys(m: &mut ClusterMachine, keys: &SlotSet) {
    if !m.table.me().is_primary() || m.rights.sureness != Sureness::Sure {
        return;
    }
    let my_ix = m.table.my_ix();
    let is_new_voter = !m.table.me().is_voter();
    let mut taken = SlotSet::EMPTY;
    for slot in keys.iter() {
        match m.table.owner(slot) {
            Some(owner) if owner == my_ix => {}
            _ if m.table.importing.contains_key(&slot) => {}
            Some(_) => {
                m.keys.strays.insert(slot);
            }
            None => {
                m.table.bind(slot, my_ix);
                taken.insert(slot);
            }
        }
    }
    if !taken.is_empty() {
        log!(m, Notice, "I have keys for unassigned {}. Taking responsibility for them.", taken.named());
        if is_new_voter {
            epochs::takes_seat(m);
        }
        m.reconsider();
        m.save();
    }
}

//! CLUSTER SETSLOT, with which an operator moves slots (O-1, O-5, O-6).

use crate::epochs;
use crate::id::NodeId;
use crate::input::{HasKeys, SetSlot, SlotAction};
use crate::machine::{ClusterMachine, log};
use crate::migration::contested;
use crate::node::NodeIx;
use crate::output::{ClusterAnswer, Synchronisation};
use crate::roles::{self, OpenSlots};
use crate::slots::{HashSlot, SlotSet};

/// Executes the command.
///
/// # Errors
/// The error for the client; nothing has changed then.
pub(crate) fn execute(m: &mut ClusterMachine, command: &SetSlot<'_>) -> Result<ClusterAnswer, String> {
    let slot = command.slot;
    match checked(m, command)? {
        Checked::Migrating(to) => {
            log!(m, Notice, "Migrating slot {} to node {}", slot.number(), m.name(to));
            m.table.migrating.insert(slot, to);
            // The slot's former source may be `to` itself, whose claim then counts as any other node's.
            let mut opened = SlotSet::EMPTY;
            opened.insert(slot);
            contested::may_leave(m, &opened);
        }
        Checked::Importing(from) => {
            log!(m, Notice, "Importing slot {} from node {}", slot.number(), m.name(from));
            m.table.importing.insert(slot, from);
        }
        Checked::Stable => {
            log!(m, Notice, "Marking slot {} stable", slot.number());
            m.table.importing.remove(&slot);
            m.table.migrating.remove(&slot);
        }
        Checked::Node(owner) => assign(m, slot, owner, command.keys),
    }
    m.reconsider();
    m.save();
    Ok(ClusterAnswer::Ok)
}

/// Checks whether the command could be executed now.
///
/// # Errors
/// The error for the client.
pub(crate) fn check(m: &ClusterMachine, command: &SetSlot<'_>) -> Result<(), String> {
    checked(m, command).map(drop)
}

/// A command that has passed its checks.
enum Checked {
    Migrating(NodeIx),
    Importing(NodeIx),
    Stable,
    Node(NodeIx),
}

fn checked(m: &ClusterMachine, command: &SetSlot<'_>) -> Result<Checked, String> {
    let (slot, my_ix) = (command.slot, m.table.my_ix());
    let owner = m.table.owner(slot);
    match command.action {
        SlotAction::Migrating(node) => {
            if m.table.me().is_primary() && owner != Some(my_ix) {
                return Err(format!("ERR I'm not the owner of hash slot {}", slot.number()));
            }
            other_end(m, node).map(Checked::Migrating)
        }
        SlotAction::Importing(node) => {
            if owner == Some(my_ix) {
                return Err(format!("ERR I'm already the owner of hash slot {}", slot.number()));
            }
            other_end(m, node).map(Checked::Importing)
        }
        SlotAction::Stable => Ok(Checked::Stable),
        SlotAction::Node(node) => {
            let ix = primary(m, m.known(node)?)?;
            if owner == Some(my_ix) && ix != my_ix && command.keys == HasKeys::Yes {
                return Err(format!(
                    "ERR Can't assign hashslot {} to a different node while I still hold keys for this hash slot.",
                    slot.number()
                ));
            }
            Ok(Checked::Node(ix))
        }
    }
}

/// The node at the other end of an open slot.
fn other_end(m: &ClusterMachine, text: &[u8]) -> Result<NodeIx, String> {
    let known = NodeId::parse(text).and_then(|id| m.table.find(&id));
    let ix = known.ok_or_else(|| format!("ERR I don't know about node {}", String::from_utf8_lossy(text)))?;
    if ix == m.table.my_ix() {
        return Err("ERR Target node is myself".to_owned());
    }
    primary(m, ix)
}

fn primary(m: &ClusterMachine, ix: NodeIx) -> Result<NodeIx, String> {
    match m.table.node(ix).is_replica() {
        true => Err("ERR Target node is not a master".to_owned()),
        false => Ok(ix),
    }
}

/// SETSLOT NODE (O-5).
fn assign(m: &mut ClusterMachine, slot: HashSlot, ix: NodeIx, keys: HasKeys) {
    let my_ix = m.table.my_ix();
    let owner = m.table.owner(slot);
    let shard = m.table.node(ix).shown_shard();
    log!(m, Notice, "Assigning slot {} to node {} in shard {shard}", slot.number(), m.name(ix));
    if keys == HasKeys::No {
        m.table.migrating.remove(&slot);
    }
    let mine = m.table.primary_of(my_ix);
    let was_ours = owner == Some(mine);
    if ix == my_ix {
        m.grow_sure();
    }
    let is_new_voter = ix == my_ix && !m.table.me().is_voter();
    m.table.unbind(slot);
    m.table.bind(slot, ix);
    m.keys.strays.remove(slot);
    let mut gone = SlotSet::EMPTY;
    gone.insert(slot);
    m.channels_gone(gone);
    if was_ours && ix != mine && m.table.node(mine).slot_count == 0 {
        lose_last(m, ix);
    }
    let is_ours = ix == my_ix || m.is_my_primary(ix);
    if is_ours && m.table.importing.remove(&slot).is_some() && m.table.me().is_primary() {
        if epochs::bump(m).is_some() {
            log!(m, Notice, "ConfigEpoch updated after importing slot {}", slot.number());
        }
        m.announce();
    }
    if ix == my_ix {
        epochs::leave_zero(m);
    }
    if is_new_voter {
        epochs::takes_seat(m);
    }
}

/// Handles the loss of the last slot of this node's shard to `winner`.
fn lose_last(m: &mut ClusterMachine, winner: NodeIx) {
    let shard = m.table.node(winner).shown_shard();
    if m.settings.allow_replica_migration {
        log!(
            m,
            Notice,
            "Lost my last slot during slot migration. Reconfiguring myself as a replica of {} in shard {shard}",
            m.name(winner)
        );
        roles::follow(m, winner, OpenSlots::Close, Synchronisation::Full);
        m.announce();
    } else if m.table.me().is_primary() {
        log!(
            m,
            Notice,
            "My last slot was migrated to node {} in shard {shard}. I am now an empty primary.",
            m.name(winner)
        );
    }
}

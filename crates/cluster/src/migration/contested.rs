//! Slots that this node has claimed by a grant, until their source is heard to give them up.
//!
//! The source takes the claim whatever its epoch. Until then it goes on telling that the slots are its
//! own, and may make a higher epoch meanwhile, as the target of another move: by that epoch this node and all
//! others would give the slots back to a node that is about to give them up, and both would delete the keys.
//! So this node's epoch stays above the source's until a header of the source is without the slots. A PING
//! follows the claim, whose answer has that header: an operator may hand a slot back by SETSLOT in the next
//! moment, and this node learns of that by the claim alone.

use crate::epochs;
use crate::health;
use crate::id::ClusterEpoch;
use crate::machine::{ClusterMachine, log};
use crate::node::NodeIx;
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};

/// These slots are claimed, which were `source`'s.
pub(crate) fn claimed(m: &mut ClusterMachine, slots: &SlotSet, source: NodeIx) {
    let id = m.table.node(source).id;
    m.keys.granted_here.extend(slots.iter().map(|slot| (slot, id)));
}

/// These slots may go to another node, the source they came from among others: by a grant of this node, or by
/// an operator who has opened them here.
pub(crate) fn may_leave(m: &mut ClusterMachine, slots: &SlotSet) {
    m.keys.granted_here.retain(|slot, _| !slots.contains(*slot));
}

/// Whether a slot of mine stays mine whatever its source claims.
pub(crate) fn is_kept(m: &ClusterMachine, slot: HashSlot, from: NodeIx) -> bool {
    let source = m.keys.granted_here.get(&slot);
    source.is_some_and(|source| *source == m.table.node(from).id) && !is_made(Mistake::SourceOutbidsClaim)
}

/// A node says that it follows a primary: it has no claim of its own any more, and the next one is an
/// election's. A source that has granted its last slot follows its target at once, and a header of it
/// without the slots never comes: a replica's has those of its primary.
pub(crate) fn follows(m: &mut ClusterMachine, sender: NodeIx) {
    if !m.keys.granted_here.is_empty() {
        let id = m.table.node(sender).id;
        m.keys.granted_here.retain(|_, source| *source != id);
    }
}

/// A node is heard of with this epoch; what it claims was taken up, so that of two nodes which have slots of
/// each other each gives up its own first. `slots`: the claim, where it is the node's own word.
pub(crate) fn heard(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: Option<&SlotSet>) {
    let my_ix = m.table.my_ix();
    let table = &m.table;
    m.keys.granted_here.retain(|slot, _| table.owner(*slot) == Some(my_ix));
    let id = m.table.node(sender).id;
    if m.keys.granted_here.values().all(|source| *source != id) || is_made(Mistake::SourceOutbidsClaim) {
        return;
    }
    let is_outbid = epoch > m.table.me().config_epoch && m.table.me().is_primary();
    // A node that was apart may have lost its place to a replica, whose claim an epoch of now would outbid.
    if is_outbid && !health::is_apart(m) && epochs::bump(m).is_some() {
        let name = m.name(sender);
        log!(m, Notice, "Node {name} has made epoch {epoch} and not heard that slots it granted are mine.");
    }
    // Also where the slots are given up with that epoch: its older headers may come later, by another link.
    if let Some(slots) = slots {
        m.keys.granted_here.retain(|slot, source| *source != id || slots.contains(*slot));
    }
}

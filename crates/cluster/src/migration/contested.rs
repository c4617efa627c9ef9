//! Slots that this node has claimed by a grant (the permission that the source of a move gives its target),
//! until the source no longer claims them.
//!
//! The source accepts the claim whatever its epoch is. Until the source receives the claim, it still
//! claims the slots itself, and may get a higher epoch, for example as the target of another move. With that
//! epoch, this node and all others would give the slots back to a node that is about to give them up, and
//! both would delete the keys. Therefore this node keeps its epoch above the source's until a header of the
//! source is without the slots. To get such a header, this node sends a PING right after its claim. Once the
//! header has arrived, this node accepts claims of the source again, because an operator may give a slot back
//! by SETSLOT, of which this node learns only by the source's claim.

use crate::epochs;
use crate::health;
use crate::id::ClusterEpoch;
use crate::machine::{ClusterMachine, log};
use crate::node::NodeIx;
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};

/// Records that this node has claimed slots that `source` has granted to it.
pub(crate) fn claimed(m: &mut ClusterMachine, slots: &SlotSet, source: NodeIx) {
    let id = m.table.node(source).id;
    m.keys.granted_here.extend(slots.iter().map(|slot| (slot, id)));
}

/// Records that these slots may go to another node, or back to their source, because this node has granted
/// them or an operator has opened them here.
pub(crate) fn may_leave(m: &mut ClusterMachine, slots: &SlotSet) {
    m.keys.granted_here.retain(|slot, _| !slots.contains(*slot));
}

/// Whether this node keeps a slot against a claim of `from`, because `from` has granted it the slot.
pub(crate) fn is_kept(m: &ClusterMachine, slot: HashSlot, from: NodeIx) -> bool {
    let source = m.keys.granted_here.get(&slot);
    source.is_some_and(|source| *source == m.table.node(from).id) && !is_made(Mistake::SourceOutbidsClaim)
}

/// Called when a header shows that its sender is a replica. This node then stops keeping slots against it,
/// because a replica claims no slots of its own, and its next claim would be that of a won election. A source
/// that has granted its last slot follows its target at once. It never sends a header without the slots,
/// because a replica's header has the slots of its primary.
pub(crate) fn follows(m: &mut ClusterMachine, sender: NodeIx) {
    if !m.keys.granted_here.is_empty() {
        let id = m.table.node(sender).id;
        m.keys.granted_here.retain(|_, source| *source != id);
    }
}

/// Handles the epoch of a node's message. The caller has handled the claim in the message before, so that two
/// nodes that have granted slots to each other first give up the slots that they have granted. `slots` is the
/// claim, if the node itself has made it.
pub(crate) fn heard(m: &mut ClusterMachine, sender: NodeIx, epoch: ClusterEpoch, slots: Option<&SlotSet>) {
    let my_ix = m.table.my_ix();
    let table = &m.table;
    m.keys.granted_here.retain(|slot, _| table.owner(*slot) == Some(my_ix));
    let id = m.table.node(sender).id;
    if m.keys.granted_here.values().all(|source| *source != id) || is_made(Mistake::SourceOutbidsClaim) {
        return;
    }
    let is_outbid = epoch > m.table.me().config_epoch && m.table.me().is_primary();
    // If this node was out of contact, it takes no new epoch, because a replica may have taken its place, and
    // the new epoch would outbid the replica's claim.
    if is_outbid && !health::is_apart(m) && epochs::bump(m).is_some() {
        let name = m.name(sender);
        log!(m, Notice, "Node {name} has the new epoch {epoch}, but this node owns slots that it granted.");
    }
    // The new epoch is taken even if this message no longer claims the slots, because older headers of the
    // node may arrive later, on another link.
    if let Some(slots) = slots {
        m.keys.granted_here.retain(|slot, source| *source != id || slots.contains(*slot));
    }
}

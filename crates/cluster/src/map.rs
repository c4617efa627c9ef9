//! Makes the map of slots for the gate (the checks before a command runs), CLUSTER SLOTS and CLUSTER SHARDS.

use crate::durable::OwnClaim;
use crate::health;
use crate::leaving;
use crate::machine::ClusterMachine;
use crate::node::{ClusterNode, NodeIx, NodeRole};
use crate::output::{MapNode, SlotMap};
use crate::slots::{HashSlot, SLOT_COUNT, SlotSet};

/// The present map. O(slots + nodes).
pub(crate) fn of(m: &ClusterMachine) -> SlotMap {
    let mut positions = vec![0_u16; m.table.positions() as usize];
    let mut nodes = Vec::with_capacity(m.table.len());
    for ix in m.table.by_id() {
        nodes.push(node(m, ix));
        positions[ix.0 as usize] = nodes.len() as u16;
    }
    let slots = (0..SLOT_COUNT).filter_map(HashSlot::new);
    let owners = slots.map(|slot| m.table.owner(slot).map_or(0, |ix| positions[ix.0 as usize]));
    let open = |slots: &std::collections::BTreeMap<HashSlot, NodeIx>| {
        slots.iter().map(|(slot, ix)| (*slot, m.table.node(*ix).id)).collect()
    };
    SlotMap {
        state: m.cluster.state,
        owners: owners.collect(),
        nodes,
        postponed: postponed(m),
        is_leaving: leaving::is_leaving_replica(m),
        is_coming_back: health::is_coming_back(m),
        my_primary: m.table.me().primary().map(|ix| m.table.node(ix).id),
        migrating: open(&m.table.migrating),
        importing: open(&m.table.importing),
    }
}

/// Slots whose requests wait for the file. These are slots of this node that are not in the file yet, and
/// slots that are imported key by key while the file still names this node as their owner, because the
/// imported keys would be deleted together with the old ones.
fn postponed(m: &ClusterMachine) -> SlotSet {
    let mut slots = m.table.me().slots.clone();
    if let OwnClaim::Primary { slots: published, .. } = &m.durable.published.claim {
        published.iter().for_each(|slot| {
            slots.remove(slot);
        });
    }
    // Slots that are granted to a target are not in the claim that is sent, but are served here until the
    // target has them.
    m.keys.moves.granted().for_each(|slot| _ = slots.remove(slot));
    let was_mine =
        |slot: &HashSlot| m.durable.is_owned_in_file(*slot) && m.table.owner(*slot) != Some(m.table.my_ix());
    for slot in m.table.importing.keys().copied().filter(was_mine) {
        slots.insert(slot);
    }
    slots
}

fn node(m: &ClusterMachine, ix: NodeIx) -> MapNode {
    let node: &ClusterNode = m.table.node(ix);
    MapNode {
        id: node.id,
        shard: node.shown_shard(),
        address: node.place.address.clone(),
        labels: node.place.labels.clone(),
        health: node.health,
        is_loading: node.is_replica() && node.offset == 0,
        primary: node.primary().map(|primary| m.table.node(primary).id),
        is_myself: ix == m.table.my_ix(),
        is_hidden: node.is_handshake() || node.is_without_address() || node.role == NodeRole::Unknown,
        config_epoch: m.table.node(m.table.primary_of(ix)).config_epoch,
    }
}

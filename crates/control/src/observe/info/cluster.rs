//! The section `cluster_info` of INFO, which is also the reply of CLUSTER INFO, and the section
//! about slot migrations.

use super::view::View;
use sluice_cluster::{ClusterInfo, ClusterState, HashSlot};
use sluice_numbers::info::fields::field;
use sluice_numbers::info::sink::Sink;
use sluice_numbers::info::value::FieldValue;

/// Names of message types in CLUSTER INFO, by their number on the wire.
const TYPES: [&str; 11] = [
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "module",
    "publishshard",
];

/// Writes the section; nothing without cluster mode.
pub(super) fn section(view: &View<'_>, out: &mut dyn Sink) {
    if let Some(mode) = &view.control.cluster {
        write(&mode.machine.info(), out);
    }
}

/// Writes the section about slot migrations (V-6); nothing without cluster mode.
pub(super) fn slot_migration(view: &View<'_>, out: &mut dyn Sink) {
    if let Some(mode) = &view.control.cluster {
        out.add(field::SLOT_MIGRATIONS_ACTIVE, mode.machine.moves_under_way() as u64);
        let (exports, holds) = (mode.exports(), mode.exports().holds);
        out.add(field::SLOT_MIGRATION_LAST_PAUSE_US, holds.last_ns / 1_000);
        out.add(field::SLOT_MIGRATION_MAX_PAUSE_US, holds.max_ns / 1_000);
        out.add(field::SLOT_MIGRATION_HELD_WRITES, holds.writes);
        out.add(field::SLOT_MIGRATION_BRAKED_SLOTS, exports.braked_slots());
        let mut freed = mode.emptying.slots.clone();
        view.keyspace.detached_slots().filter_map(HashSlot::new).for_each(|slot| {
            freed.insert(slot);
        });
        out.add(field::SLOTS_BEING_FREED, u64::from(freed.len()));
    }
}

/// Writes the fields in the reference's order (V-2).
pub(crate) fn write(info: &ClusterInfo, out: &mut dyn Sink) {
    let slots = &info.slots;
    let state = match info.state {
        ClusterState::Ok => FieldValue::Word("ok", 1),
        ClusterState::Fail => FieldValue::Word("fail", 0),
    };
    out.add(field::CLUSTER_STATE, state);
    out.add(field::CLUSTER_SLOTS_ASSIGNED, slots.ok + slots.pfail + slots.fail);
    out.add(field::CLUSTER_SLOTS_OK, slots.ok);
    out.add(field::CLUSTER_SLOTS_PFAIL, slots.pfail);
    out.add(field::CLUSTER_SLOTS_FAIL, slots.fail);
    out.add(field::CLUSTER_NODES_PFAIL, info.nodes_pfail);
    out.add(field::CLUSTER_NODES_FAIL, info.nodes_fail);
    out.add(field::CLUSTER_VOTING_NODES_PFAIL, info.voting_nodes_pfail);
    out.add(field::CLUSTER_VOTING_NODES_FAIL, info.voting_nodes_fail);
    out.add(field::CLUSTER_KNOWN_NODES, info.known_nodes);
    out.add(field::CLUSTER_SIZE, info.size);
    out.add(field::CLUSTER_CURRENT_EPOCH, info.current_epoch.0);
    out.add(field::CLUSTER_MY_EPOCH, info.my_epoch.0);
    let statistics = &info.statistics;
    for (name, count) in TYPES.iter().zip(statistics.sent).filter(|(_, count)| *count > 0) {
        out.add_at(field::CLUSTER_MESSAGES_SENT_BY_TYPE, name, count);
    }
    out.add(field::CLUSTER_MESSAGES_SENT, statistics.sent.iter().sum::<u64>());
    for (name, count) in TYPES.iter().zip(statistics.received).filter(|(_, count)| *count > 0) {
        out.add_at(field::CLUSTER_MESSAGES_RECEIVED_BY_TYPE, name, count);
    }
    out.add(field::CLUSTER_MESSAGES_RECEIVED, statistics.received.iter().sum::<u64>());
    out.add(field::CLUSTER_BYTES_SENT, statistics.bytes_sent);
    out.add(field::CLUSTER_BYTES_RECEIVED, statistics.bytes_received);
    out.add(field::CLUSTER_PUBSUB_BYTES_SENT, statistics.pubsub_bytes_sent);
    out.add(field::CLUSTER_PUBSUB_BYTES_RECEIVED, statistics.pubsub_bytes_received);
    // This server sends no messages of modules.
    out.add(field::CLUSTER_MODULE_BYTES_SENT, 0u64);
    out.add(field::CLUSTER_MODULE_BYTES_RECEIVED, statistics.module_bytes_received);
    out.add(field::CLUSTER_LINKS_BUFFER_LIMIT_EXCEEDED, statistics.buffer_limit_exceeded);
}

//! Tests the lasting effects of other nodes' messages about this node, its primary and unknown nodes.
use super::network::{Network, TIMEOUT_MS, header_of};
use crate::wire::{
    AnnouncedLabels, BusHeader, BusMessage, ForgottenNode, GossipBuffer, GossipEntry, MessageBody,
    MessageFlags, MessageType, NodeFlags,
};
use crate::*;
use std::net::{IpAddr, Ipv4Addr};

/// Sends a PING of node `from` with the gossip in `told` to node `to`.
fn ping(network: &mut Network, from: usize, to: usize, told: &GossipBuffer) {
    let m = &network.peers[from].cluster.machine;
    let (slots, replica_of) = match m.table.me().primary() {
        Some(primary) => (m.table.node(primary).slots.clone(), Some(m.table.node(primary).id)),
        None => (m.table.me().slots.clone(), None),
    };
    let primary = m.table.primary_of(m.table.my_ix());
    let header = BusHeader {
        current_epoch: m.epochs.current,
        config_epoch: m.table.node(primary).config_epoch,
        replica_of,
        flags: NodeFlags(if replica_of.is_some() { 0x1C12 } else { 0x1C11 }),
        message_flags: MessageFlags { reads_extensions: true, ..MessageFlags::default() },
        ..header_of(network.id(from), &slots)
    };
    network.inject(from, to, &BusMessage::Full(header, MessageBody::Ping(told.gossip())));
}

/// Gossip without entries, which says that some nodes are forgotten for `seconds`.
fn forgotten(network: &Network, by: usize, nodes: &[NodeId], seconds: u64) -> GossipBuffer {
    let shard = network.peers[by].cluster.machine.table.me().shard.unwrap();
    let labels = AnnouncedLabels {
        host_name: "",
        human_name: b"",
        client_ipv4: None,
        client_ipv6: None,
        client_port: 0,
        client_tls_port: 0,
        availability_zone: b"",
        shard,
    };
    let mut told = GossipBuffer::default();
    told.announce(&labels, nodes.iter().map(|node| ForgottenNode { node: *node, seconds }));
    told
}

#[test]
fn cl_g21_nobody_forgets_itself_its_primary_or_the_sender_by_what_others_say() {
    let mut network = Network::cluster(5, 3);
    let primary = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: primary.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let all = [network.id(3), primary, network.id(1), network.id(4)];
    let told = forgotten(&network, 1, &all, 60);
    ping(&mut network, 1, 3, &told);
    assert!(network.knows(3, 0) && network.knows(3, 1), "its primary, and who says so");
    assert!(!network.knows(3, 4), "any other");
    network.run(1_000);
    assert!(network.knows(3, 0) && network.knows(3, 1) && !network.knows(3, 4));
}

#[test]
fn cl_g21_others_are_forgotten_for_seven_days_at_most() {
    let mut network = Network::cluster(4, 3);
    let id = network.id(3);
    let told = forgotten(&network, 1, &[id], u64::MAX);
    ping(&mut network, 1, 0, &told);
    let m = &network.peers[0].cluster.machine;
    let week_ms = 7 * 24 * 3_600 * 1_000;
    assert!(m.blacklist.contains(&id, network.now_ms + week_ms - 1));
    assert!(!m.blacklist.contains(&id, network.now_ms + week_ms));
}

#[test]
fn cl_g10_x6_flags_that_are_the_speakers_own_knowledge_are_not_taken_with_a_node() {
    let mut network = Network::cluster(2, 2);
    let id = NodeId::parse(&[b'a'; 40]).unwrap();
    let mut told = GossipBuffer::default();
    // The flags are PRIMARY, PFAIL, MYSELF, MEET, MIGRATE_TO, MY_PRIMARY_FAIL, and the node's capabilities.
    let flags = NodeFlags(0x0001 | 0x0004 | 0x0010 | 0x0080 | 0x0100 | 0x2000 | 0x1C00);
    told.push(&GossipEntry {
        node: id,
        ping_sent_s: 0,
        pong_received_s: 0,
        ip: "10.0.0.99",
        port: 6_379,
        other_port: 0,
        bus_port: 16_379,
        flags,
    });
    ping(&mut network, 1, 0, &told);
    let table = &network.peers[0].cluster.machine.table;
    let node = table.node(table.find(&id).unwrap());
    assert_eq!(node.flags(), NodeFlags(0x1C01));
    assert_eq!(table.me().id, network.id(0));
    // The node that gossip named would be sent MEETs at its address if it had been taken with the flag MEET.
    let listener = network.add(Ipv4Addr::new(10, 0, 0, 99));
    network.run(1_000);
    assert_eq!(network.sent(0, listener, MessageType::Meet), 0);
}

#[test]
fn the_time_of_a_node_does_not_go_back_at_an_accepted_connection() {
    let mut network = Network::cluster(2, 2);
    network.run(1_000);
    let mut now = network.now();
    now.mono_ns -= 500_000_000;
    let cluster = &mut network.peers[1].cluster;
    let before = cluster.machine.time.now;
    let ip = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    assert!(cluster.accept(now, ip(9), ip(2)).is_some());
    assert_eq!(cluster.machine.time.now, before);
}

/// The pause between two UPDATEs about one owner must not apply to the next node in the owner's place.
#[test]
fn x_10_a_deleted_owner_is_no_longer_the_last_one_of_an_update() {
    let mut network = Network::cluster(3, 3);
    let (one, two) = (network.id(1), network.id(2));
    let m = &mut network.peers[0].cluster.machine;
    let (one, two) = (m.table.find(&one).unwrap(), m.table.find(&two).unwrap());
    m.table.node_mut(one).clocks.updated = Some((two, 5));
    m.delete(two);
    assert_eq!(m.table.node(one).clocks.updated, None);
}

#[test]
fn cl_m23_a_reset_closes_connections_that_no_node_has_made_its_own() {
    let mut network = Network::cluster(2, 2);
    let ip = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let now = network.now();
    let stranger = network.peers[1].cluster.accept(now, ip(9), ip(2)).unwrap();
    network.command(1, ClusterCommand::Reset { kind: ResetKind::Hard, data: HasKeys::No });
    assert!(network.peers[1].cluster.machine.links.get(stranger).is_none());
}

#[test]
fn cl_w16_the_shard_of_a_node_that_gossip_named_counts_ahead_of_its_role() {
    let mut network = Network::cluster(4, 3);
    let first = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: first.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    // Node 1 knows the old primary from a file without shard ids, and does not know of which primary the
    // winner is a replica.
    let third = network.id(3);
    let table = &mut network.peers[1].cluster.machine.table;
    let (old, winner) = (table.find(&first).unwrap(), table.find(&third).unwrap());
    let slots = table.node(old).slots.clone();
    table.node_mut(old).shard = None;
    table.make_replica(winner, None);
    network.cut(0, 1);
    network.cut(3, 1);
    network.take_over(3);
    network.run(1_000);
    assert_eq!(network.flags(3, 0), "slave");
    let told = forgotten(&network, 0, &[], 0);
    ping(&mut network, 0, 1, &told);
    // The loser and the winner are in one shard, so the slots go to the winner and do not lose their owner.
    assert_eq!(network.peers[1].cluster.machine.table.node(winner).slots, slots);
}

#[test]
fn cl_x10_updates_about_one_owner_are_ten_in_a_timeout() {
    let mut network = Network::cluster(2, 2);
    let id = network.id(1);
    let table = &network.peers[0].cluster.machine.table;
    let (me, other) = (table.my_ix(), table.find(&id).unwrap());
    let before = network.sent(0, 1, MessageType::Update);
    for _ in 0..TIMEOUT_MS / 100 {
        for _ in 0..5 {
            crate::send::update(&mut network.peers[0].cluster.machine, other, me);
        }
        network.run(100);
    }
    let sent = network.sent(0, 1, MessageType::Update) - before;
    assert!((9..=10).contains(&sent), "{sent}");
}

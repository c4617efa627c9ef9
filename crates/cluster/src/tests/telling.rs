//! Gossip, extensions, published messages, clocks, bounds.
use super::network::{Disk, Network, TIMEOUT_MS};
use crate::wire::MessageType;
use crate::*;
use sluice_base::Bytes;

#[test]
fn cl_w10_names_reach_the_others_and_are_cleared() {
    let mut network = Network::cluster(3, 3);
    network.configure(1, |settings| {
        settings.announced.labels.host_name = "one.example".into();
        settings.announced.labels.human_name = b"R1"[..].into();
        settings.announced.labels.client_port = 7_000;
    });
    network.run(1_000);
    assert!(network.line(0, 1).unwrap()[1].ends_with(",one.example"));
    let (_, file) = network.peers[0].written.last().unwrap();
    assert!(file.contains(",one.example,client-tcp-port=7000,tls-port=0,nodename=R1,shard-id="), "{file}");
    network.configure(1, |settings| settings.announced.labels = NodeLabels::default());
    network.run(1_000);
    assert!(!network.line(0, 1).unwrap()[1].contains("one.example"));
}

#[test]
fn cl_c1_nofailover_is_told_and_shown() {
    let mut network = Network::cluster(3, 2);
    network.configure(2, |settings| settings.replica_no_failover = true);
    network.run(500);
    assert_eq!(network.flags(0, 2), "master,nofailover");
}

#[test]
fn cl_n5_all_agree_on_shards() {
    let network = Network::cluster(4, 3);
    for one in 0..4 {
        for other in 0..4 {
            let id = network.id(other);
            let shard = |number: usize| {
                let table = &network.peers[number].cluster.machine.table;
                table.node(table.find(&id).unwrap()).shard
            };
            assert_eq!(shard(one), shard(other), "N-4: {one} about {other}");
            assert!(shard(one).is_some());
        }
    }
}

fn delivered(network: &Network, number: usize) -> Vec<(Vec<u8>, PublishScope)> {
    let seen = network.peers[number].seen.iter();
    seen.filter_map(|output| match output {
        ClusterOutput::Deliver { message, scope, .. } => Some((message.to_vec(), *scope)),
        _ => None,
    })
    .collect()
}

#[test]
fn cl_p1_p2_p3_published_messages_go_to_all_or_to_the_shard() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let (channel, all, some) = (Bytes::copy_from(b"c"), Bytes::copy_from(b"all"), Bytes::copy_from(b"some"));
    network.step(0, &ClusterInput::Publish { channel: &channel, message: &all, scope: PublishScope::All });
    network.step(0, &ClusterInput::Publish { channel: &channel, message: &some, scope: PublishScope::Shard });
    network.deliver();
    let for_all = (b"all".to_vec(), PublishScope::All);
    assert_eq!(delivered(&network, 1), std::slice::from_ref(&for_all));
    assert_eq!(delivered(&network, 2), std::slice::from_ref(&for_all));
    assert_eq!(delivered(&network, 3), [for_all, (b"some".to_vec(), PublishScope::Shard)]);
    let light = network.peers[0].sent.iter().filter(|(kind, _)| *kind == 0x8004).count();
    assert_eq!(light, 3, "every node has bound its link");
    let (sent, received) =
        (network.peers[0].cluster.info().statistics, network.peers[1].cluster.info().statistics);
    assert_eq!(sent.sent[MessageType::Publish as usize], 3);
    assert_eq!(received.received[MessageType::Publish as usize], 1);
    assert_eq!(sent.pubsub_bytes_sent, 3 * received.pubsub_bytes_received + 24 + 5);
}

#[test]
fn cl_w6_a_ping_tells_of_a_tenth_and_of_three_at_least() {
    let network = Network::cluster(8, 3);
    let m = &network.peers[0].cluster.machine;
    assert_eq!(m.cron.draws.len(), 3);
    assert!(m.cron.draws.iter().all(|ix| *ix != m.table.my_ix()));
}

#[test]
fn cl_s30_a_jump_of_the_wall_clock_changes_no_health() {
    let mut network = Network::cluster(3, 3);
    for hours in [5, -11] {
        network.wall_offset_ms += hours * 3_600_000;
        network.run(3 * TIMEOUT_MS);
        for one in 0..3 {
            let info = network.peers[one].cluster.info();
            assert_eq!((info.nodes_pfail, info.nodes_fail), (0, 0), "K-24");
            assert_eq!(info.state, ClusterState::Ok);
        }
    }
}

#[test]
fn cl_g31_a_queue_beyond_the_limit_drops_its_link() {
    let mut network = Network::cluster(3, 3);
    network.configure(0, |settings| settings.link_sendbuf_limit_bytes = 1);
    network.run(100);
    let dropped = network.peers[0].cluster.info().statistics.buffer_limit_exceeded;
    assert_eq!(dropped, 4, "an idle link counts 48 bytes");
    network.configure(0, |settings| settings.link_sendbuf_limit_bytes = 0);
    network.run(1_000);
    assert_eq!(network.peers[0].cluster.links().count(), 4);
}

#[test]
fn cl_v10_dropped_types_are_counted() {
    let mut network = Network::cluster(3, 3);
    network.configure(0, |settings| settings.debug.packet_filter = PacketFilter::Type(0));
    let pings = |network: &Network| network.peers[0].cluster.info().statistics.received[0];
    let (before, pongs) = (pings(&network), network.sent(0, 1, MessageType::Pong));
    network.run(1_000);
    assert!(pings(&network) > before);
    assert_eq!(network.sent(0, 1, MessageType::Pong), pongs);
}

#[test]
fn cl_x6_a_header_of_my_own_id_changes_nothing() {
    let mut network = Network::cluster(3, 3);
    let slots = SlotSet::EMPTY;
    let header = wire::BusHeader {
        current_epoch: ClusterEpoch(99),
        config_epoch: ClusterEpoch(99),
        offset: 0,
        sender: network.id(0),
        slots: slots.bitmap(),
        replica_of: None,
        ip: "10.6.6.6",
        port: 1,
        other_port: 0,
        bus_port: 2,
        flags: wire::NodeFlags(0x1C11),
        is_down: false,
        message_flags: wire::MessageFlags::default(),
    };
    network.inject(1, 0, &wire::BusMessage::Full(header, wire::MessageBody::Ping(wire::Gossip::default())));
    assert_eq!(network.peers[0].cluster.info().current_epoch, ClusterEpoch(3));
    assert!(network.line(0, 0).unwrap()[1].starts_with("10.0.0.1:"));
}

#[test]
fn cl_e16_w15_a_stale_claim_of_being_a_replica_is_ignored() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    network.take_over(3);
    network.run(2_000);
    // What node 3 said ahead of the takeover comes late: it is node 0's replica.
    let slots = network.peers[3].cluster.machine.table.me().slots.clone();
    let header = wire::BusHeader {
        current_epoch: ClusterEpoch(4),
        config_epoch: ClusterEpoch(1),
        offset: 0,
        sender: network.id(3),
        slots: slots.bitmap(),
        replica_of: Some(node),
        ip: "10.0.0.4",
        port: 6_379,
        other_port: 0,
        bus_port: 16_379,
        flags: wire::NodeFlags(0x1C12),
        is_down: false,
        message_flags: wire::MessageFlags::default(),
    };
    network.inject(3, 1, &wire::BusMessage::Full(header, wire::MessageBody::Ping(wire::Gossip::default())));
    assert!(network.has_logged(1, "Ignore stale message from"), "K-10");
    assert_eq!(network.flags(1, 3), "master");
    assert_eq!(network.flags(1, 0), "slave");
}

#[test]
fn cl_c1_a_timeout_of_zero_is_lived_with() {
    let mut network = Network::cluster(3, 3);
    for number in 0..3 {
        network.configure(number, |settings| settings.node_timeout_ms = 0);
    }
    network.run(3_000);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 3);
}

#[test]
fn cl_g13_d9_a_deaf_node_is_met_three_times_at_most() {
    let mut network = Network::cluster(2, 2);
    // Node 1 answers, and does not dial.
    network.configure(1, |settings| settings.debug.reconnection = Switch::Disabled);
    let node = network.id(0);
    let kill = ClusterCommand::KillLinks { direction: LinkDirection::To, node: node.as_bytes() };
    network.command(1, kill);
    let before = network.sent(0, 1, MessageType::Meet);
    network.run(8 * TIMEOUT_MS);
    assert_eq!(network.sent(0, 1, MessageType::Meet) - before, 3);
}

#[test]
fn cl_g10_d31_a_fail_that_was_learned_with_the_node_stays_until_it_has_spoken() {
    let mut network = Network::cluster(4, 3);
    network.kill(2);
    network.run(2 * TIMEOUT_MS);
    let newcomer = network.add(std::net::Ipv4Addr::new(10, 0, 0, 77));
    network.meet(newcomer, 0);
    network.run(1_000);
    assert_eq!(network.flags(newcomer, 2), "master,fail", "learned with the node");
    let ip = network.peers[2].ip;
    network.revive(2, ip);
    network.run(1_000);
    assert_eq!(
        network.flags(newcomer, 2),
        "master,fail",
        "a voter stays FAIL for 2T, although its slots came later"
    );
    network.run(3 * TIMEOUT_MS);
    assert_eq!(network.flags(newcomer, 2), "master");
}

#[test]
fn cl_f10_gossip_alone_makes_nobody_fail() {
    let mut network = Network::cluster(4, 3);
    let id = network.id(2);
    let m = &mut network.peers[3].cluster.machine;
    let ix = m.table.find(&id).unwrap();
    let origin = FailOrigin::Declared;
    m.table.node_mut(ix).health = NodeHealth::Fail { since: network.now_ms, origin };
    network.cut(3, 2);
    network.run(2_000);
    assert_eq!(network.flags(0, 2), "master");
}

#[test]
fn cl_e53_the_shard_is_told_with_the_role_that_it_belongs_to() {
    let mut network = Network::cluster(4, 3);
    let (first, own) = (network.id(0), network.id(3));
    let shard_here = |network: &Network, number: usize, id: &NodeId| {
        let table = &network.peers[number].cluster.machine.table;
        table.node(table.find(id).unwrap()).shard
    };
    let before = shard_here(&network, 1, &own);
    network.peers[3].disk = Disk::Stands;
    network.ask(3, ClusterCommand::Replicate { node: first.as_bytes(), data: HasKeys::No });
    network.run(2_000);
    assert_eq!(network.flags(1, 3), "master");
    assert_eq!(shard_here(&network, 1, &own), before, "a primary of the other's shard");
    network.peers[3].disk = Disk::Writes;
    network.write(3);
    network.run(1_000);
    // Its own epoch is 4, and its primary's is 1: within one shard that message would be a stale one (E-16).
    assert_eq!(network.flags(1, 3), "slave");
    assert_eq!(shard_here(&network, 1, &own), shard_here(&network, 1, &first));
}

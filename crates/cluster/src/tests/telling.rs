//! Tests of gossip, extensions, published messages, clocks and limits.
use super::network::{Disk, Network, TIMEOUT_MS, header_of};
use crate::wire::MessageType;
use crate::*;
use sluice_base::Bytes;
use std::net::Ipv4Addr;

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
    network.configure(2, |settings| settings.replica.no_failover = true);
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

/// P-3: two nodes that meet each other at the same time answer each other before they know each other.
#[test]
fn cl_p3_no_message_is_lost_between_nodes_that_have_met_each_other_at_once() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.meet(1, 0);
    let (channel, message) = (Bytes::copy_from(b"c"), Bytes::copy_from(b"m"));
    let mut published = 0;
    for _ in 0..30 {
        network.run(100);
        for (from, to) in [(0, 1), (1, 0)] {
            if network.line(from, to).is_some_and(|line| line[7] == "connected") {
                let scope = PublishScope::All;
                network.step(from, &ClusterInput::Publish { channel: &channel, message: &message, scope });
                network.deliver();
                published += 1;
                assert_eq!(delivered(&network, 0).len() + delivered(&network, 1).len(), published);
            }
        }
    }
    let light = network.peers.iter().flat_map(|peer| &peer.sent).filter(|(kind, _)| *kind == 0x8004).count();
    assert!(published >= 58 && light > 20, "{light} light ones of {published}");
}

#[test]
fn cl_p3_a_message_without_a_sender_closes_a_link_without_a_node() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.run(1_000);
    let published = wire::PublishedMessage { channel: b"c", message: b"m" };
    network.inject(0, 1, &wire::BusMessage::Light(wire::LightBody::Publish(published)));
    assert!(network.has_logged(1, "that sent a lightweight message as its first message on the link"));
    assert!(delivered(&network, 1).is_empty());
    assert_eq!(network.peers[1].cluster.links().count(), 2, "the other links stay");
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
fn cl_w6_nodes_are_drawn_alike_and_each_once() {
    let mut network = Network::cluster(40, 3);
    // Removes some nodes, so that positions of the table are without a node.
    for gone in [5, 11, 17] {
        network.kill(gone);
        let id = network.id(gone);
        let forget = ClusterCommand::Forget { node: id.as_bytes() };
        assert_eq!(network.command(0, forget), ClusterAnswer::Ok);
    }
    let m = &mut network.peers[0].cluster.machine;
    let receiver = m.table.iter().map(|(ix, _)| ix).find(|ix| *ix != m.table.my_ix());
    let (rounds, mut draws) = (8_000, Vec::new());
    let mut times = vec![0_u32; m.table.positions() as usize];
    for _ in 0..rounds {
        crate::send::draw(m, receiver, &mut draws);
        let mut once = draws.clone();
        once.sort();
        once.dedup();
        assert_eq!((once.len(), draws.len()), (3, 3), "a tenth of 37");
        draws.iter().for_each(|ix| times[ix.0 as usize] += 1);
    }
    let eligible: Vec<u32> = m
        .table
        .iter()
        .filter(|(ix, _)| *ix != m.table.my_ix() && Some(*ix) != receiver)
        .map(|(ix, _)| times[ix.0 as usize])
        .collect();
    assert_eq!(eligible.iter().sum::<u32>(), 3 * rounds, "nobody else");
    // 24,000 draws among 35 eligible nodes give each node about 686, with a standard deviation of 25.
    assert!(eligible.iter().all(|times| (540..=830).contains(times)), "{eligible:?}");
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
        ip: "10.6.6.6",
        port: 1,
        bus_port: 2,
        ..header_of(network.id(0), &slots)
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
    // A message that node 3 sent before its takeover arrives late; in it, node 3 is node 0's replica.
    let slots = network.peers[3].cluster.machine.table.me().slots.clone();
    let header = wire::BusHeader {
        current_epoch: ClusterEpoch(4),
        config_epoch: ClusterEpoch(1),
        replica_of: Some(node),
        ip: "10.0.0.4",
        flags: wire::NodeFlags(0x1C12),
        ..header_of(network.id(3), &slots)
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
    // Node 1 answers on the link of node 0, but does not dial.
    network.configure(1, |settings| settings.debug.reconnection = Switch::Disabled);
    let node = network.id(0);
    let kill = ClusterCommand::KillLinks { direction: LinkDirection::To, node: node.as_bytes() };
    network.command(1, kill);
    let before = network.sent(0, 1, MessageType::Meet);
    network.run(8 * TIMEOUT_MS);
    assert_eq!(network.sent(0, 1, MessageType::Meet) - before, 3);
}

#[test]
fn cl_g10_a_fail_that_was_learned_with_the_node_ends_at_its_first_answer() {
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
    assert_eq!(network.flags(newcomer, 2), "master");
}

#[test]
fn cl_f10_gossip_alone_makes_nobody_fail() {
    let mut network = Network::cluster(4, 3);
    let id = network.id(2);
    let m = &mut network.peers[3].cluster.machine;
    let ix = m.table.find(&id).unwrap();
    m.table.node_mut(ix).health = NodeHealth::Fail { since: network.now_ms };
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
    // The own epoch of node 3 is 4, and its primary's epoch is 1, so within one shard the message would be
    // stale (E-16).
    assert_eq!(network.flags(1, 3), "slave");
    assert_eq!(shard_here(&network, 1, &own), shard_here(&network, 1, &first));
}

#[test]
fn cl_n14_clients_are_shown_the_address_and_port_that_are_theirs() {
    let mut network = Network::cluster(2, 2);
    let shown = |network: &Network, is_ipv6, is_tls| {
        let text = network.peers[0].cluster.nodes_text_for(AskingClient { is_ipv6, is_tls });
        let id = network.id(1).to_string();
        text.lines().find(|line| line.starts_with(&id)).unwrap().split(' ').nth(1).unwrap().to_owned()
    };
    network.configure(1, |settings| settings.announced.tls_port = 6_380);
    network.run(1_000);
    for is_ipv6 in [false, true] {
        assert_eq!(shown(&network, is_ipv6, false), "10.0.0.2:6379@16379");
        assert_eq!(shown(&network, is_ipv6, true), "10.0.0.2:6380@16379");
    }
    network.configure(1, |settings| {
        settings.announced.labels.host_name = "two".into();
        settings.announced.labels.client_ipv4 = Some(Ipv4Addr::new(192, 0, 2, 7));
        settings.announced.labels.client_ipv6 = "2001:db8::7".parse().ok();
        settings.announced.labels.client_port = 7_001;
        settings.announced.labels.client_tls_port = 7_002;
    });
    network.run(1_000);
    assert_eq!(shown(&network, false, false), "192.0.2.7:7001@16379,two");
    assert_eq!(shown(&network, false, true), "192.0.2.7:7002@16379,two");
    assert_eq!(shown(&network, true, false), "2001:db8::7:7001@16379,two");
    assert_eq!(shown(&network, true, true), "2001:db8::7:7002@16379,two");
    let (_, file) = network.peers[0].written.last().unwrap();
    assert!(file.contains(" 10.0.0.2:6379@16379,two,"), "N-12: the file has the address of the bus");
}

#[test]
fn cl_g32_published_messages_beyond_the_limit_are_dropped_one_by_one() {
    let mut network = Network::cluster(2, 2);
    network.configure(0, |settings| settings.link_publish_limit_bytes = 10_000);
    let m = &mut network.peers[0].cluster;
    let (channel, message) = (Bytes::copy_from(b"c"), Bytes::copy_from(&[b'm'; 3_000]));
    let now = sluice_base::Now { mono_ns: 2_000_000_000_000, unix_us: 1_700_000_000_000_000 };
    let publish = ClusterInput::Publish { channel: &channel, message: &message, scope: PublishScope::All };
    let sent = |m: &mut Cluster| {
        let outputs = std::iter::from_fn(|| m.next_output());
        outputs.filter(|output| matches!(output, ClusterOutput::Send { lane: BusLane::Publish, .. })).count()
    };
    // No bytes are written to the links while these messages are published.
    let count: usize = (0..5)
        .map(|_| {
            m.step(now, &publish);
            sent(m)
        })
        .sum();
    let statistics = m.info().statistics;
    assert_eq!((count, statistics.dropped_publishes), (3, 2));
    assert_eq!(statistics.dropped_publish_bytes, 2 * (24 + 1 + 3_000));
    let huge = Bytes::copy_from(&[b'm'; 20_000]);
    let link = m.links().find(|link| link.is_out).unwrap().link;
    m.step(now, &ClusterInput::Sent { link, lane: BusLane::Publish, bytes: 3 * (24 + 1 + 3_000) });
    m.step(now, &ClusterInput::Publish { channel: &channel, message: &huge, scope: PublishScope::All });
    assert_eq!(sent(m), 1, "a message alone always fits");
}

#[test]
fn cl_x2_what_links_keep_of_unfinished_messages_has_a_sum() {
    let mut network = Network::cluster(2, 2);
    let now = network.now();
    let m = &mut network.peers[0].cluster;
    let ip = std::net::IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9));
    // The bytes are a PING of the maximum length, without its last byte.
    let mut bytes = vec![0; crate::wire::MESSAGE_MAX - 1];
    bytes[..14].copy_from_slice(b"RCmb\0\0\0\0\0\x01\0\0\0\0");
    bytes[4..8].copy_from_slice(&(crate::wire::MESSAGE_MAX as u32).to_be_bytes());
    let links: Vec<LinkKey> = (0..12).map(|_| m.accept(now, ip, ip).unwrap()).collect();
    for link in &links {
        m.step(now, &ClusterInput::ReceivedMessage { link: *link, bytes: &bytes });
        assert!(m.machine.links.kept() <= crate::receive::KEPT_MAX, "S-10");
    }
    let closed = std::iter::from_fn(|| m.next_output());
    let closed = closed.filter(|output| matches!(output, ClusterOutput::Close { .. })).count() as u64;
    assert!(closed > 0 && closed < 12, "{closed}");
    assert_eq!(m.info().statistics.buffer_limit_exceeded, closed);
    assert_eq!(m.links().count(), 2, "links of nodes stay");
    for link in links {
        m.step(now, &ClusterInput::Closed { link });
    }
    assert_eq!(m.machine.links.kept(), m.machine.links.iter().map(|(_, link)| link.kept).sum());
}

#[test]
fn cl_x2_a_link_whose_other_end_does_not_read_is_closed() {
    let mut network = Network::cluster(2, 2);
    let now = network.now();
    let m = &mut network.peers[0].cluster;
    let link = m.links().find(|link| link.is_out).unwrap().link;
    let ix = m.machine.table.find(&m.links().next().unwrap().node).unwrap();
    for _ in 0..crate::send::CONTROL_MAX / 2_000 {
        crate::send::ping(&mut m.machine, ix);
    }
    assert!(m.links().all(|facts| facts.link != link), "closed");
    let queued = m.links().map(|facts| facts.queue_bytes as u64).max();
    assert!(queued.unwrap() <= crate::send::CONTROL_MAX + 5_000);
    assert_eq!(m.info().statistics.buffer_limit_exceeded, 1);
    m.step(now, &ClusterInput::Tick);
}

#[test]
fn cl_e17_a_replica_whose_primary_is_forgotten_is_no_primary() {
    let mut network = Network::cluster(4, 3);
    let (first, second) = (network.id(0), network.id(1));
    network.command(3, ClusterCommand::Replicate { node: first.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    network.peers[3].disk = Disk::Stands;
    network.ask(3, ClusterCommand::Replicate { node: second.as_bytes(), data: HasKeys::No });
    network.ask(3, ClusterCommand::Forget { node: first.as_bytes() });
    for _ in 0..10 {
        network.run(100);
        assert_eq!(network.flags(2, 3), "slave", "its file says that it follows the forgotten node");
    }
}

#[test]
fn cb_e13_what_a_transaction_gives_up_and_takes_again_is_told_to_nobody() {
    let mut network = Network::cluster(2, 2);
    let slot = HashSlot::new(5).unwrap();
    let source = network.id(0);
    // A source that gives up a slot leaves it to the importing node.
    let action = SlotAction::Importing(source.as_bytes());
    let command = SetSlot { slot, action, keys: HasKeys::No };
    assert_eq!(network.command(1, ClusterCommand::SetSlot(command)), ClusterAnswer::Ok);
    for command in [ClusterCommand::DelSlots { slots: &[slot] }, ClusterCommand::AddSlots { slots: &[slot] }]
    {
        let now = network.now();
        let answer = network.peers[0].cluster.execute_at_once(now, "test", &command);
        assert_eq!(answer, ClusterAnswer::Ok);
        // The transaction stays open while time passes.
        network.run(2_000);
        assert!(network.peers[0].cluster.awaits_unit_end());
    }
    network.step(0, &ClusterInput::UnitEnd);
    network.run(2_000);
    for peer in &network.peers {
        let table = &peer.cluster.machine.table;
        assert_eq!(table.owner(slot).map(|ix| table.node(ix).id), Some(source));
    }
    // Node 1 has never received the news that the slot had no owner.
    assert!(!network.has_logged(1, "Slot 5 is no longer claimed by the source"));
}

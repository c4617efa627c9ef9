//! Tests of nodes that meet.
use super::network::{Network, TIMEOUT_MS};
use crate::*;

#[test]
fn cl_g12_g14_two_nodes_meet_and_know_each_other_by_id() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.run(500);
    for (one, other) in [(0, 1), (1, 0)] {
        assert_eq!(network.flags(one, other), "master", "node {one} about node {other}");
        assert_eq!(network.peers[one].cluster.info().known_nodes, 2);
        assert_eq!(network.peers[one].cluster.links().count(), 2, "G-1: a link out and a link in");
    }
    assert!(network.has_logged(0, "Successfully completed handshake with"));
}

#[test]
fn cl_g18_a_node_learns_its_own_address_from_a_meet() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.run(500);
    assert!(network.line(1, 1).unwrap()[1].starts_with("10.0.0.2:6379@16379"));
    assert!(network.line(0, 0).unwrap()[1].starts_with("10.0.0.1:6379@16379"));
}

#[test]
fn cl_g10_gossip_makes_all_of_a_star_known_to_all() {
    let mut network = Network::cluster(6, 3);
    for one in 0..6 {
        for other in 0..6 {
            assert!(network.knows(one, other), "{one} does not know {other}");
        }
        assert_eq!(network.peers[one].cluster.info().state, ClusterState::Ok);
        assert_eq!(network.peers[one].cluster.links().count(), 10);
    }
    network.run(20_000);
    for peer in &network.peers {
        assert_eq!(peer.cluster.info().nodes_pfail + peer.cluster.info().nodes_fail, 0, "S-29");
    }
}

#[test]
fn cl_g15_a_handshake_with_nobody_ends() {
    let mut network = Network::of(1);
    let command = ClusterCommand::Meet { ip: "10.9.9.9", port: 6_379, bus_port: None };
    network.command(0, command);
    network.run(TIMEOUT_MS);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 2);
    network.run(200);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 1);
    assert!(network.has_logged(0, "Clusterbus handshake timeout 10.9.9.9:16379"));
}

#[test]
fn cl_g14_a_handshake_with_myself_ends() {
    let mut network = Network::of(1);
    network.meet(0, 0);
    network.run(500);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 1);
}

#[test]
fn cl_g12_a_second_meet_of_the_same_address_changes_nothing() {
    let mut network = Network::of(2);
    network.cut(0, 1);
    network.meet(0, 1);
    network.meet(0, 1);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 2);
    network.heal();
    network.run(500);
    network.meet(0, 1);
    network.run(500);
    assert_eq!(network.peers[0].cluster.info().known_nodes, 2);
}

#[test]
fn cl_g13_a_meet_is_repeated_until_it_is_answered() {
    let mut network = Network::of(2);
    network.cut(0, 1);
    network.meet(0, 1);
    network.run(1_000);
    network.heal();
    network.run(1_000);
    assert_eq!(network.flags(1, 0), "master");
    assert_eq!(network.flags(0, 1), "master");
}

#[test]
fn cl_x11_meet_refuses_what_is_no_address() {
    let mut network = Network::of(1);
    for (ip, port, bus_port) in [("host", 1, None), ("10.0.0.1", 0, None), ("10.0.0.1", 60_000, None)] {
        let answer = network.command(0, ClusterCommand::Meet { ip, port, bus_port });
        assert_eq!(answer, ClusterAnswer::Error(format!("ERR Invalid node address specified: {ip}:{port}")));
    }
}

#[test]
fn cl_g21_a_forgotten_node_is_forgotten_everywhere_and_comes_back_by_meet_alone() {
    let mut network = Network::cluster(4, 3);
    let id = network.id(3);
    assert_eq!(network.command(0, ClusterCommand::Forget { node: id.as_bytes() }), ClusterAnswer::Ok);
    network.run(1_000);
    for one in 0..3 {
        assert!(!network.knows(one, 3), "{one} still knows the forgotten node");
    }
    let answer = network.command(0, ClusterCommand::Forget { node: id.as_bytes() });
    assert_eq!(answer, ClusterAnswer::Ok, "an id that is forgotten already");
    let own = network.id(0);
    let answer = network.command(0, ClusterCommand::Forget { node: own.as_bytes() });
    assert_eq!(answer, ClusterAnswer::Error("ERR I tried hard but I can't forget myself...".to_owned()));
    network.command(3, ClusterCommand::Reset { kind: ResetKind::Soft, data: HasKeys::No });
    network.meet(3, 0);
    network.run(3_000);
    assert!(network.knows(0, 3), "a node that knows nobody of the cluster is let in by its MEET");
}

#[test]
fn cl_m22_reset_hard_forgets_all_and_takes_a_new_id() {
    let mut network = Network::cluster(3, 2);
    let (id, soft_id) = (network.id(2), network.id(1));
    network.command(2, ClusterCommand::Reset { kind: ResetKind::Hard, data: HasKeys::No });
    assert_ne!(network.id(2), id);
    let info = network.peers[2].cluster.info();
    assert_eq!((info.known_nodes, info.current_epoch, info.my_epoch), (1, ClusterEpoch(0), ClusterEpoch(0)));
    network.command(1, ClusterCommand::Reset { kind: ResetKind::Soft, data: HasKeys::No });
    assert_eq!(network.id(1), soft_id);
    assert_eq!(network.peers[1].cluster.info().my_epoch, ClusterEpoch(2));
    assert_eq!(network.peers[1].cluster.info().slots.ok, 0);
}

#[test]
fn cl_w9_extensions_go_to_readers_of_them_alone() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.run(500);
    let first = |number: usize, kind: wire::MessageType| {
        let peer = &network.peers[number];
        peer.sent.iter().position(|(sent, _)| *sent == kind as u16).map(|at| peer.lengths[at])
    };
    assert_eq!(first(0, wire::MessageType::Meet), Some(2_256), "of node 1 nothing is known");
    assert_eq!(first(1, wire::MessageType::Pong), Some(2_256 + 48), "the MEET has said so");
}

#[test]
fn cl_g5_a_connection_that_nobody_makes_his_own_is_closed() {
    let mut network = Network::of(1);
    let now = network.now();
    let ip = |last: u8| std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last));
    network.peers[0].cluster.accept(now, ip(9), ip(1)).unwrap();
    network.run(TIMEOUT_MS);
    assert_eq!(network.peers[0].cluster.machine.links.len(), 1);
    network.run(100);
    assert_eq!(network.peers[0].cluster.machine.links.len(), 0);
    let taken = (0..1_000).filter(|_| network.peers[0].cluster.accept(now, ip(9), ip(1)).is_some());
    assert!(taken.count() < 100);
}

#[test]
fn cl_g2_d29_dials_to_nodes_that_do_not_answer_are_throttled() {
    let mut network = Network::cluster(3, 3);
    network.kill(1);
    network.kill(2);
    network.run(1_000);
    let before = network.peers[0].dials;
    network.run(3_000);
    let dials = network.peers[0].dials - before;
    assert!((20..=40).contains(&dials), "T/20 is 150 ms: every second cron, not {dials} in 30 for two nodes");
}

#[test]
fn cl_g19_a_node_that_has_forgotten_me_is_dialled_anew() {
    let mut network = Network::cluster(2, 2);
    // Node 1 forgets all nodes, and node 0's connection to it stays open.
    let m = &mut network.peers[1].cluster.machine;
    let ix = m.table.iter().find(|(ix, _)| *ix != m.table.my_ix()).unwrap().0;
    let key = m.table.node_mut(ix).place.link_in.take().unwrap();
    m.links.get_mut(key).unwrap().since = m.time.now;
    m.links.unbind(key);
    m.delete(ix);
    network.deliver();
    let before = network.peers[0].dials;
    network.meet(1, 0);
    network.run(200);
    assert!(network.has_logged(0, "Freeing outbound link to node"));
    assert_eq!(network.peers[0].dials, before + 1);
    network.run(1_000);
    assert_eq!(network.flags(1, 0), "master");
}

#[test]
fn cl_g21_a_forgotten_node_is_told_for_no_longer_than_it_is_forgotten() {
    let id = NodeId::parse(&[b'a'; 40]).unwrap();
    let mut list = crate::table::Blacklist::default();
    list.add(id, 3, 1_000);
    let told = |now| list.iter(now).map(|(_, seconds)| seconds).collect::<Vec<_>>();
    assert_eq!((told(1_000), told(1_001), told(2_500)), (vec![3], vec![2], vec![1]));
    assert_eq!(told(3_001), Vec::<u64>::new(), "the last second");
    assert!(list.contains(&id, 3_999) && !list.contains(&id, 4_000));
}

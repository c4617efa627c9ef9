//! Tests of changes of nodes' addresses.
use super::network::{Network, TIMEOUT_MS};
use crate::*;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn cl_g17_a_node_at_a_new_address_is_believed_itself() {
    let mut network = Network::cluster(3, 3);
    network.kill(1);
    network.revive(1, Ipv4Addr::new(10, 0, 1, 1));
    network.run(2_000);
    for one in [0, 2] {
        assert!(network.line(one, 1).unwrap()[1].starts_with("10.0.1.1:6379"), "node {one}");
        assert!(network.has_logged(one, "now 10.0.1.1:6379, was 10.0.0.2:6379"));
    }
    assert_eq!(network.flags(0, 1), "master");
}

#[test]
fn cl_g16_somebody_else_at_an_address_is_noaddr_and_fail_for_all() {
    let mut network = Network::cluster(3, 3);
    network.kill(1);
    let ip = network.peers[1].ip;
    let stranger = network.add(ip);
    network.command(stranger, ClusterCommand::SetConfigEpoch { epoch: 50 });
    network.run(1_000);
    assert_eq!(network.peers[0].cluster.info().current_epoch, ClusterEpoch(3), "nor does it raise epochs");
    assert_eq!(network.line(0, 1).unwrap()[6], "2");
    for one in [0, 2] {
        let flags = network.flags(one, 1);
        assert!(flags.contains("fail"), "node {one}: {flags}");
        assert!(!network.knows(one, stranger), "a reused address merges nothing");
    }
    assert!(network.flags(0, 1).contains("noaddr"));
    assert!(network.has_logged(0, "PONG contains mismatching sender ID"));
    assert_eq!(network.peers[stranger].cluster.info().known_nodes, 1);
}

/// Gives all nodes host names, stops them, and starts them at other addresses, as Kubernetes does with pods.
fn all_move(network: &mut Network) {
    let count = network.peers.len();
    for number in 0..count {
        network.configure(number, |settings| {
            settings.announced.labels.host_name = format!("node-{number}").into();
        });
    }
    network.run(1_000);
    for number in 0..count {
        network.kill(number);
    }
    for number in 0..count {
        network.revive(number, Ipv4Addr::new(10, 0, 7, number as u8 + 1));
    }
}

/// Answers the nodes' look-ups of host names with the present addresses, and with one at which there
/// is no node.
fn resolve(network: &mut Network) {
    for number in 0..network.peers.len() {
        let asked: Vec<(NodeId, String)> = network.peers[number]
            .seen
            .iter()
            .filter_map(|output| match output {
                ClusterOutput::Resolve { node, host } => Some((*node, host.to_string())),
                _ => None,
            })
            .collect();
        network.peers[number].seen.retain(|output| !matches!(output, ClusterOutput::Resolve { .. }));
        for (node, host) in asked {
            let target: usize = host.strip_prefix("node-").unwrap().parse().unwrap();
            let addresses = [IpAddr::V4(Ipv4Addr::new(10, 8, 8, 8)), IpAddr::V4(network.peers[target].ip)];
            network.step(number, &ClusterInput::Resolved { node, addresses: &addresses });
        }
    }
    network.deliver();
}

#[test]
fn cl_g23_nodes_with_all_new_addresses_find_each_other_by_their_names() {
    let mut network = Network::cluster(3, 3);
    all_move(&mut network);
    for _ in 0..60 {
        network.run(500);
        resolve(&mut network);
    }
    for one in 0..3 {
        for other in (0..3).filter(|other| *other != one) {
            let line = network.line(one, other).unwrap();
            assert!(line[1].starts_with(&format!("10.0.7.{}:", other + 1)), "{one} about {other}: {line:?}");
            assert_eq!(line[2], "master", "{one} about {other}");
        }
        assert_eq!(network.peers[one].cluster.info().state, ClusterState::Ok);
    }
    assert!(network.has_logged(0, "now 10.0.7.2:6379, was 10.0.0.2:6379"));
}

#[test]
fn cl_g23_a_wrong_id_at_a_candidate_drops_the_candidate_alone() {
    let mut network = Network::cluster(3, 3);
    network.configure(1, |settings| settings.announced.labels.host_name = "node-1".into());
    network.run(1_000);
    network.kill(1);
    let stranger = network.add(Ipv4Addr::new(10, 0, 5, 5));
    network.run(3 * TIMEOUT_MS);
    let node = network.id(1);
    let addresses = [IpAddr::V4(network.peers[stranger].ip)];
    network.step(0, &ClusterInput::Resolved { node, addresses: &addresses });
    network.run(2_000);
    let line = network.line(0, 1).unwrap();
    assert!(line[1].starts_with("10.0.0.2:"), "the announced address stays: {line:?}");
    assert!(!line[2].contains("noaddr"), "G-16 does not apply to a trial");
    assert!(!network.knows(0, stranger));
    let m = &network.peers[0].cluster.machine;
    assert!(m.table.node(m.table.find(&node).unwrap()).place.candidates.addresses.is_empty());
}

#[test]
fn cl_g14_a_meet_at_a_new_address_moves_a_known_node() {
    let mut network = Network::cluster(2, 2);
    network.kill(0);
    network.kill(1);
    network.revive(0, Ipv4Addr::new(10, 0, 6, 1));
    network.revive(1, Ipv4Addr::new(10, 0, 6, 2));
    network.meet(0, 1);
    network.run(3_000);
    assert!(network.line(0, 1).unwrap()[1].starts_with("10.0.6.2:"));
    assert!(network.line(1, 0).unwrap()[1].starts_with("10.0.6.1:"));
    assert_eq!(network.peers[0].cluster.info().known_nodes, 2);
}

#[test]
fn cl_g10_an_address_that_gossip_alone_names_is_a_candidate() {
    let mut network = Network::cluster(3, 3);
    network.kill(1);
    let stranger = network.add(Ipv4Addr::new(10, 0, 5, 5));
    network.run(3 * TIMEOUT_MS);
    assert!(network.flags(0, 1).contains("fail"));
    let seen = crate::address::Seen { ip: "10.0.5.5", tcp_port: 7_000, tls_port: 0, bus_port: 17_000 };
    let id = network.id(1);
    let dials = network.peers[0].dials;
    let m = &mut network.peers[0].cluster.machine;
    let ix = m.table.find(&id).unwrap();
    crate::addresses::heard(m, ix, &seen);
    network.run(300);
    assert!(network.peers[0].dials > dials, "dialled at once");
    let line = network.line(0, 1).unwrap();
    assert!(
        line[1].starts_with("10.0.0.2:6379") && line[2] == "master,fail",
        "a wrong id there is nothing: {line:?}"
    );
    assert!(!network.knows(0, stranger));
    // The node itself answers at that address.
    network.kill(stranger);
    network.revive(1, Ipv4Addr::new(10, 0, 5, 6));
    let seen = crate::address::Seen { ip: "10.0.5.6", ..seen };
    crate::addresses::heard(&mut network.peers[0].cluster.machine, ix, &seen);
    // Only node 0 gets a tick here, because in a tick node 1 would dial.
    network.now_ms += 200;
    network.step(0, &ClusterInput::Tick);
    network.deliver();
    let line = network.line(0, 1).unwrap();
    assert!(line[1].starts_with("10.0.5.6:7000@17000"), "with the ports that were named: {line:?}");
}

#[test]
fn cl_g16_g23_a_node_without_address_is_found_by_its_name_with_the_ports_it_had() {
    let mut network = Network::cluster(2, 2);
    let old = network.peers[1].ip;
    network.kill(0);
    network.kill(1);
    let stranger = network.add(old);
    network.revive(0, Ipv4Addr::new(10, 0, 6, 1));
    network.revive(1, Ipv4Addr::new(10, 0, 6, 2));
    network.run(1_000);
    assert!(network.flags(0, 1).contains("noaddr"));
    network.run(2 * TIMEOUT_MS);
    let node = network.id(1);
    let addresses = [IpAddr::V4(network.peers[stranger].ip), IpAddr::V4(network.peers[1].ip)];
    network.step(0, &ClusterInput::Resolved { node, addresses: &addresses });
    network.run(2_000);
    let line = network.line(0, 1).unwrap();
    assert!(line[1].starts_with("10.0.6.2:6379@16379"), "{line:?}");
    assert!(!line[2].contains("noaddr"), "{line:?}");
    assert!(network.line(1, 0).unwrap()[1].starts_with("10.0.6.1:"), "and so it learns of the first");
}

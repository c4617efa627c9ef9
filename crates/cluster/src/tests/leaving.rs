//! Tests of a node that is about to shut down (M10, M11).
use super::network::Network;
use crate::*;

/// Three voters; nodes 3 and 4 follow node 0.
fn with_replicas() -> Network {
    let mut network = Network::with_replicas();
    for replica in [3, 4] {
        network.step(replica, &ClusterInput::Offset(50));
    }
    network.run(1_000);
    network
}

fn begin(network: &mut Network, candidates: &[usize]) -> Option<NodeId> {
    let ids: Vec<NodeId> = candidates.iter().map(|node| network.id(*node)).collect();
    let now = network.now();
    let chosen = network.peers[0].cluster.begin_handover(now, &ids);
    network.deliver();
    chosen
}

/// Whether the newest map of a node shows another node as one without data for clients.
fn is_hidden(network: &Network, at: usize, node: usize) -> bool {
    let map = newest_map(network.peers[at].seen.iter()).expect("a map");
    map.nodes.iter().any(|seen| seen.id == network.id(node) && seen.is_loading)
}

#[test]
fn cl_m10_m11_a_primary_hands_over_and_pauses_until_it_has() {
    let mut network = with_replicas();
    let chosen = begin(&mut network, &[3, 4]);
    let first = if network.id(3) < network.id(4) { 3 } else { 4 };
    assert_eq!(chosen, Some(network.id(first)), "of two as good the one with the smaller id");
    assert!(network.peers[0].cluster.is_handing_over());
    assert!(network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::PauseWrites { .. })));
    assert!(network.peers[0].cluster.is_voter());
    // The order to take over, which names the replica, comes in the replication stream.
    let command = ClusterCommand::Failover { kind: FailoverKind::Ordered };
    assert_eq!(network.command(first, command), ClusterAnswer::Ok);
    assert!(
        network.has_logged(first, "Forced failover primary request accepted (primary request from 'test').")
    );
    network.run(200);
    let me = &network.peers[0].cluster;
    assert!(!me.is_primary() && !me.is_voter() && !me.is_handing_over());
    assert!(network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::Unpause)));
    assert_eq!(network.line(0, 0).unwrap()[3], network.id(first).to_string());
}

#[test]
fn cl_m10_only_a_replica_that_the_bus_reaches_is_asked() {
    let mut network = with_replicas();
    let (first, second) = if network.id(3) < network.id(4) { (3, 4) } else { (4, 3) };
    assert_eq!(begin(&mut network, &[]), None);
    assert_eq!(begin(&mut network, &[1]), None, "no replica of this node");
    let now = network.now();
    network.peers[first].cluster.leave(now);
    network.deliver();
    assert_eq!(begin(&mut network, &[first]), Some(network.id(first)), "better than none");
    assert_eq!(begin(&mut network, &[first, second]), Some(network.id(second)), "the other one ends, too");
    network.peers[first].cluster.stay(now);
    network.step(first, &ClusterInput::Offset(50));
    network.configure(first, |settings| settings.replica.no_failover = true);
    network.run(1_000);
    assert_eq!(begin(&mut network, &[first]), Some(network.id(first)), "better than none");
    assert_eq!(begin(&mut network, &[first, second]), Some(network.id(second)));
    network.kill(second);
    network.run(200);
    assert_eq!(begin(&mut network, &[first, second]), Some(network.id(first)));
    network.kill(first);
    network.run(200);
    assert_eq!(begin(&mut network, &[first, second]), None);
}

#[test]
fn cl_m6_a_replica_that_does_not_take_over_is_given_up() {
    let mut network = with_replicas();
    assert!(begin(&mut network, &[3, 4]).is_some());
    network.run(5_000);
    assert!(network.peers[0].cluster.is_handing_over());
    network.run(300);
    assert!(!network.peers[0].cluster.is_handing_over());
    assert!(network.has_logged(0, "Manual failover timed out."));
    assert!(network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::Unpause)));
}

#[test]
fn cl_n8_a_replica_that_ends_is_hidden_from_clients_and_stands_for_no_election() {
    let mut network = with_replicas();
    assert!(!is_hidden(&network, 1, 3));
    let now = network.now();
    network.peers[3].cluster.leave(now);
    network.deliver();
    assert!(is_hidden(&network, 1, 3) && is_hidden(&network, 0, 3), "all hear it at once");
    let map = newest_map(network.peers[3].seen.iter()).unwrap();
    assert!(map.is_leaving);
    // A replica that continues to execute the stream stays hidden.
    network.step(3, &ClusterInput::Offset(60));
    network.run(1_000);
    assert!(is_hidden(&network, 1, 3));
    let at = Some(network.now_ms);
    for replica in [3, 4] {
        network.step(replica, &ClusterInput::PrimaryContact { at });
    }
    network.kill(0);
    network.run(8_000);
    assert!(network.flags(1, 4).contains("master") && network.flags(1, 3).contains("slave"));

    let now = network.now();
    network.peers[3].cluster.stay(now);
    network.step(3, &ClusterInput::Offset(70));
    network.run(1_000);
    assert!(!is_hidden(&network, 1, 3), "it stays after all");
    assert!(!newest_map(network.peers[3].seen.iter()).unwrap().is_leaving);
}

#[test]
fn a_primary_that_ends_without_a_heir_goes_on_as_it_was() {
    let mut network = with_replicas();
    let now = network.now();
    network.step(0, &ClusterInput::Offset(9));
    network.peers[0].cluster.leave(now);
    network.deliver();
    assert_eq!(network.peers[0].cluster.own_offset(), 9);
    assert!(!newest_map(network.peers[0].seen.iter()).unwrap().is_leaving);
}

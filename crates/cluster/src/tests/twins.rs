//! Tests of two primaries of one shard (D-7).
use super::network::{Network, TIMEOUT_MS};
use crate::*;

/// Node 0, which has no slots, was down while its replica, node 3, took over, and is running again. Node 3
/// claims no slots, so no claim makes node 0 a replica.
fn twins() -> Network {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    let command = ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.run(1_000);
    let slots: Vec<HashSlot> = network.peers[0].cluster.machine.table.me().slots.iter().collect();
    for number in 0..4 {
        network.command(number, ClusterCommand::DelSlots { slots: &slots });
    }
    network.run(500);
    let ip = network.peers[0].ip;
    network.kill(0);
    network.run(200);
    network.take_over(3);
    network.run(200);
    network.revive(0, ip);
    for number in [0, 3] {
        network.step(number, &ClusterInput::HasKeys(HasKeys::No));
    }
    network.run(300);
    let shard = |number: usize| network.peers[number].cluster.shard_id();
    assert_eq!(shard(0), shard(3));
    assert_eq!([0, 3].map(|number| network.flags(1, number)), ["master", "master"]);
    network
}

fn is_primary(network: &Network, number: usize) -> bool {
    network.peers[number].cluster.is_primary()
}

#[test]
fn cl_d7_of_two_primaries_of_a_shard_the_one_without_slots_follows_after_the_timeout() {
    let mut network = twins();
    network.run(TIMEOUT_MS - 400);
    assert!(is_primary(&network, 0), "not before the timeout");
    network.run(1_000);
    for one in 0..4 {
        assert!(network.flags(one, 0).ends_with("slave"), "node {one}: {}", network.flags(one, 0));
        assert_eq!(network.line(one, 0).unwrap()[3], network.id(3).to_string(), "node {one}");
        assert!(network.flags(one, 3).ends_with("master"), "node {one}: {}", network.flags(one, 3));
    }
    let loads = network.peers[0].seen.iter().any(|output| {
        let synchronisation = Synchronisation::Full;
        let ClusterOutput::Role(RoleChange::ReplicaOf { node, synchronisation: how, .. }) = output else {
            return false;
        };
        (*node, *how) == (network.id(3), synchronisation)
    });
    assert!(loads, "the data are those of the other one, as after CLUSTER REPLICATE");
    assert!(network.has_logged(0, "I have no slots and no keys. Reconfiguring myself as a replica of it."));
}

#[test]
fn cl_d7_a_primary_with_keys_says_why_it_stays_and_follows_without_them() {
    let mut network = twins();
    network.step(0, &ClusterInput::HasKeys(HasKeys::Yes));
    network.run(3 * TIMEOUT_MS);
    assert!(is_primary(&network, 0));
    let is_warning = |line: &&String| line.contains("do not become its replica because I have keys");
    assert_eq!(network.peers[0].log.iter().filter(is_warning).count(), 1, "said once");
    network.step(0, &ClusterInput::HasKeys(HasKeys::No));
    network.run(500);
    assert!(!is_primary(&network, 0));
}

#[test]
fn cl_d7_a_primary_of_which_nobody_says_that_it_has_no_keys_stays() {
    let mut network = twins();
    network.peers[0].cluster.machine.keys.has_any = true;
    network.run(3 * TIMEOUT_MS);
    assert!(is_primary(&network, 0), "as while data are loaded");
}

#[test]
fn cl_d7_a_primary_with_a_slot_or_one_that_is_on_its_way_stays() {
    let slot = HashSlot::new(0).unwrap();
    let mut network = twins();
    assert_eq!(network.command(0, ClusterCommand::AddSlots { slots: &[slot] }), ClusterAnswer::Ok);
    network.run(3 * TIMEOUT_MS);
    assert!(is_primary(&network, 0));
    let mut network = twins();
    let from = network.id(1);
    let table = &mut network.peers[0].cluster.machine.table;
    let from = table.find(&from).unwrap();
    table.importing.insert(slot, from);
    network.run(3 * TIMEOUT_MS);
    assert!(is_primary(&network, 0));
    network.peers[0].cluster.machine.table.importing.clear();
    network.run(2 * TIMEOUT_MS);
    assert!(!is_primary(&network, 0));
}

#[test]
fn cl_d7_the_lower_epoch_decides_who_follows() {
    let mut network = twins();
    // If epochs did not count, each of the two primaries would follow the other.
    assert!(matches!(network.command(0, ClusterCommand::BumpEpoch), ClusterAnswer::Status(_)));
    network.run(3 * TIMEOUT_MS);
    assert_eq!([0, 3].map(|number| is_primary(&network, number)), [true, false]);
    assert_eq!(network.line(1, 3).unwrap()[3], network.id(0).to_string());
}

/// The shard has no slots, and the node with the lower epoch gets one.
#[test]
fn cl_d7_who_has_slots_is_followed_whatever_its_epoch() {
    let mut network = twins();
    let slot = HashSlot::new(0).unwrap();
    assert!(matches!(network.command(0, ClusterCommand::BumpEpoch), ClusterAnswer::Status(_)));
    assert_eq!(network.command(3, ClusterCommand::AddSlots { slots: &[slot] }), ClusterAnswer::Ok);
    assert!(matches!(network.command(0, ClusterCommand::BumpEpoch), ClusterAnswer::Status(_)));
    network.run(3 * TIMEOUT_MS);
    assert_eq!([0, 3].map(|number| is_primary(&network, number)), [false, true]);
}

#[test]
fn cl_d7_a_primary_that_fell_silent_within_the_wait_is_not_followed() {
    let mut network = twins();
    network.run(TIMEOUT_MS / 2);
    network.cut(0, 3);
    network.run(4 * TIMEOUT_MS);
    assert!(is_primary(&network, 0));
    network.heal();
    network.run(TIMEOUT_MS);
    assert!(is_primary(&network, 0), "the wait begins anew");
    network.run(TIMEOUT_MS);
    assert!(!is_primary(&network, 0));
}

#[test]
fn cl_d7_what_a_file_says_of_a_shard_is_no_word_of_the_other_primary() {
    let mut network = twins();
    let other = network.id(3);
    for _ in 0..3 * TIMEOUT_MS / 100 {
        // Headers of the other primary arrive, but none names the shard.
        let table = &mut network.peers[0].cluster.machine.table;
        let other = table.find(&other).unwrap();
        table.node_mut(other).clocks.told_primary = None;
        network.run(100);
        let table = &mut network.peers[0].cluster.machine.table;
        table.node_mut(other).clocks.told_primary = None;
    }
    assert!(is_primary(&network, 0));
}

//! Tests of replicas that migrate to primaries which have lost their own replicas (R20, R21).
use super::network::{Network, TIMEOUT_MS};
use crate::*;

/// Three voters; nodes 3 to 5 follow node 0, and node 6 follows node 1.
fn with_spares() -> Network {
    let mut network = Network::cluster(7, 3);
    for (replica, primary) in [(3, 0), (4, 0), (5, 0), (6, 1)] {
        let node = network.id(primary);
        let command = ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No };
        assert_eq!(network.command(replica, command), ClusterAnswer::Ok);
    }
    network.run(1_000);
    network
}

/// The living replicas of a primary, as node 2 sees them.
fn followers(network: &Network, primary: usize) -> Vec<usize> {
    let id = network.id(primary).to_string();
    let follows = |replica: &usize| {
        network.peers[*replica].is_alive && network.line(2, *replica).is_some_and(|line| line[3] == id)
    };
    (3..7).filter(follows).collect()
}

/// The replicas of node 0, ordered by id.
fn by_id(network: &Network) -> Vec<usize> {
    let mut replicas = vec![3, 4, 5];
    replicas.sort_by_key(|replica| network.id(*replica));
    replicas
}

/// Milliseconds until all nodes have marked a silent node as FAIL.
const FAILS_MS: u64 = TIMEOUT_MS + 1_000;

#[test]
fn cl_r20_the_replica_with_the_smallest_id_moves_to_a_primary_without_replicas() {
    let mut network = with_spares();
    let first = by_id(&network)[0];
    network.kill(6);
    network.run(FAILS_MS + 3_900);
    assert!(followers(&network, 1).is_empty(), "an orphan of less than 5 s");
    network.run(1_000);
    assert_eq!(followers(&network, 1), [first]);
    let name = network.id(1).to_string();
    assert!(network.has_logged(first, &format!("Migrating to orphaned primary {name}")));
    let changes = network.peers[first].seen.iter();
    let mut roles = changes.filter_map(|output| match output {
        ClusterOutput::Role(change) => Some(change),
        _ => None,
    });
    let Some(RoleChange::ReplicaOf { node, synchronisation, .. }) = roles.next_back() else {
        panic!("no role")
    };
    assert_eq!((*node, *synchronisation), (network.id(1), Synchronisation::Full));
    assert_eq!(network.line(4, first).unwrap()[3], name, "all have heard");
    // One replica is enough, so no other one migrates.
    network.run(12_000);
    assert_eq!((followers(&network, 0).len(), followers(&network, 1).len()), (2, 1));
}

#[test]
fn cl_r20_a_dead_candidate_is_not_waited_for() {
    let mut network = with_spares();
    let replicas = by_id(&network);
    network.kill(replicas[0]);
    network.kill(6);
    network.run(FAILS_MS + 6_000);
    assert_eq!(followers(&network, 1), [replicas[1]]);
    assert_eq!(followers(&network, 0), [replicas[2]]);
}

#[test]
fn cl_r20_s37_a_primary_keeps_as_many_replicas_as_the_barrier_says() {
    for (barrier, moved) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
        let mut network = with_spares();
        for node in 3..7 {
            network.configure(node, |settings| settings.replica.migration_barrier = barrier);
        }
        network.kill(6);
        network.run(FAILS_MS + 8_000);
        assert_eq!(followers(&network, 1).len(), moved, "barrier {barrier}");
    }
    // A suspected replica does not count as one that stays.
    let mut network = with_spares();
    for node in 3..7 {
        network.configure(node, |settings| settings.replica.migration_barrier = 2);
    }
    let replicas = by_id(&network);
    network.kill(6);
    network.run(FAILS_MS);
    network.cut(replicas[0], replicas[1]);
    network.cut(replicas[0], replicas[2]);
    network.run(8_000);
    assert!(followers(&network, 1).is_empty(), "{:?}", network.flags(replicas[0], replicas[1]));
}

#[test]
fn cl_r20_nobody_moves_who_may_not() {
    for case in ["no", "never had one", "two each"] {
        let mut network = with_spares();
        match case {
            "no" => (3..7).for_each(|node| {
                network.configure(node, |settings| settings.allow_replica_migration = false);
            }),
            // Node 2 has never had a replica, so it wants none (R21); node 1 keeps its own.
            "never had one" => {}
            _ => {
                let node = network.id(1);
                let command = ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No };
                network.command(5, command);
                network.run(1_000);
            }
        }
        let before = [0, 1, 2].map(|primary| followers(&network, primary));
        if case == "no" {
            network.kill(6);
        }
        network.run(FAILS_MS + 8_000);
        let now = [0, 1, 2].map(|primary| followers(&network, primary));
        assert_eq!((&now[0], &now[2]), (&before[0], &before[2]), "{case}");
    }
}

#[test]
fn cl_r20_the_time_of_an_orphan_begins_anew() {
    let mut network = with_spares();
    let ip = network.peers[6].ip;
    network.kill(6);
    network.run(FAILS_MS + 3_000);
    network.revive(6, ip);
    network.run(1_000);
    assert!(!network.flags(3, 6).contains("fail"));
    network.kill(6);
    network.run(FAILS_MS + 3_500);
    assert!(followers(&network, 1).is_empty(), "the seconds of before do not count");
    network.run(3_000);
    assert_eq!(followers(&network, 1).len(), 1);
}

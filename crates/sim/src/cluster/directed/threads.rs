//! Elections that public threads describe, each with the thread's number (`V#`: valkey-io/valkey), in
//! clusters of nodes of ours and stock nodes. V#4655 and V#4533 are `cl_e46_…` and `cl_f9_…`.

use super::*;
use sluice_cluster::wire::{self, BusHeader, BusMessage, MessageBody, MessageFlags, NodeFlags};

/// Allows a replica of ours to start elections however old its data are.
fn stands(world: &mut World, host: usize) {
    let stands = world.configure(host, |settings| {
        (settings.replica.no_failover, settings.replica.validity_factor) = (false, 0);
    });
    stands.unwrap();
}

/// A cluster of `count` primaries, then as many replicas in the same order. Node `n` is of ours if bit `n` of
/// `ours` is set.
fn pairs(count: usize, ours: u64, seed: u64) -> World {
    let kind = |number: usize| if ours >> number & 1 == 1 { Ours } else { Stock };
    let primaries = (0..count).map(|number| (kind(number), Primary));
    let replicas = (0..count).map(|number| (kind(count + number), ReplicaOf(number)));
    let hosts: Vec<Wanted> = primaries.chain(replicas).collect();
    let mut world = cluster(&hosts, seed);
    (0..2 * count).for_each(|host| stands(&mut world, host));
    world.pass(2_000);
    world
}

/// V#3996. Two controllers order node 3, of ours, to take over by force, again and again, while the votes of
/// stock nodes 1 and 2 are on their way. By the reference's rule, each command would begin a new election.
#[test]
fn cl_v3996_commands_of_two_controllers_do_not_delay_each_other() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (slots, epoch) = (world.owned(0), world.seen(3).current_epoch);
    for voter in [1, 2] {
        world.net.slow_ways.insert((voter, 3), 300 * MS);
    }
    for _ in 0..20 {
        world.told(3, &Order::Failover(Failover::Force));
        world.pass(50);
        if world.seen(3).own().is_voter() {
            break;
        }
        world.told(3, &Order::Failover(Failover::Force));
        world.pass(50);
    }
    assert_eq!(world.owned(3), slots);
    assert_eq!(world.seen(3).own().epoch, epoch + 1, "the first election");
}

/// V#2169. Node 3, of ours, does not know the last epoch of its stock primary, which dies. Voters of both
/// models refuse their votes, and send that epoch in an UPDATE. Without the UPDATE of a voter, node 3 would
/// never win.
#[test]
fn cl_v2169_a_replica_that_has_missed_its_primarys_last_epoch_wins() {
    let hosts = [(Stock, Primary), (Ours, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (slots, primary) = (world.owned(0), world.named(0));
    stands(&mut world, 3);
    world.pass(500);
    let known = world.seen(3).nodes[&primary].epoch;
    world.deafen(3, &[0]);
    world.told(0, &Order::Bump);
    world.pass(300);
    assert_eq!(world.seen(3).nodes[&primary].epoch, known);
    assert!([1, 2].iter().all(|voter| world.seen(*voter).nodes[&primary].epoch > known));
    world.crash(0, true);
    world.pass(2 * TIMEOUT_MS);
    assert_eq!(world.owned(3), slots, "long before the time of the election that was refused is over");
}

/// V#4627, V#4700. Voters of 9.2 report a refusal by a message that earlier versions do not have (W-12). Node
/// 3, of ours, neither ends its election for that reason nor begins another one, because candidates that end
/// an election at a refusal ask for votes in epoch after epoch.
#[test]
fn cl_v4627_v4700_a_refusal_of_9_2_ends_no_election_and_begins_none() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (slots, epoch) = (world.owned(0), world.seen(3).current_epoch + 1);
    world.deafen(3, &[0, 2]);
    world.told(3, &Order::Failover(Failover::Force));
    world.pass(20);
    for _ in 0..20 {
        let (view, link) = (world.seen(1), world.link_to(1, 3).expect("a link"));
        let (conn, side) = world.hosts[1].links[&link];
        let message = refusal(&view, epoch).into();
        world.net.send((conn, side), &message, world.now_ns, (&mut world.rng, &mut world.queue));
        world.pass(20);
        assert_eq!(world.seen(3).current_epoch, epoch);
        assert!(world.seen(3).own().role != Role::Primary, "one vote of three");
    }
    world.hears_again(3, &[0, 2]);
    world.pass(50);
    assert_eq!((world.owned(3), world.seen(3).own().epoch), (slots, epoch));
}

/// A message of type 11: a header, the epoch of the request, and the reason "already voted".
fn refusal(view: &View, epoch: u64) -> Vec<u8> {
    let slots = view.own().slots.clone();
    let header = BusHeader {
        current_epoch: sluice_cluster::ClusterEpoch(view.current_epoch),
        config_epoch: sluice_cluster::ClusterEpoch(view.own().epoch),
        offset: 1,
        sender: view.me,
        slots: slots.bitmap(),
        replica_of: None,
        ip: "",
        port: 6_379,
        other_port: 0,
        bus_port: 16_379,
        flags: NodeFlags(0x5C11),
        is_down: false,
        message_flags: MessageFlags::default(),
    };
    let mut bytes = Vec::new();
    wire::write(&BusMessage::Full(header, MessageBody::AuthRequest), &mut bytes).unwrap();
    bytes.extend(epoch.to_be_bytes());
    bytes.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
    bytes[12..14].copy_from_slice(&11_u16.to_be_bytes());
    bytes
}

/// Ends all nodes in `dead` at one moment; returns the milliseconds until the replica of each of them has its
/// slots.
fn replaced_after(world: &mut World, dead: &[usize], is_loud: bool) -> u64 {
    let count = world.hosts.len() / 2;
    let slots: Vec<SlotSet> = dead.iter().map(|host| world.owned(*host)).collect();
    dead.iter().for_each(|host| world.crash(*host, is_loud));
    for waited_ms in (0..12 * TIMEOUT_MS).step_by(50) {
        world.pass(50);
        let mut heirs = dead.iter().zip(&slots);
        if heirs.all(|(host, slots)| world.owned(count + host) == *slots) {
            return waited_ms + 50;
        }
    }
    world.show_views();
    panic!("some of {dead:?} are not replaced");
}

/// Whether all replicas are of ours. A stock replica whose votes were split would wait for four timeouts
/// (D23).
fn are_replicas_ours(ours: u64, count: usize) -> bool {
    (count..2 * count).all(|replica| ours >> replica & 1 == 1)
}

/// Two shards lose their primaries at one moment. Replicas start elections in the order of their shards
/// (E-42). A replica starts a new election if another replica has won the epoch of its election (E-3), or
/// has received the votes that it needed (D23).
#[test]
fn two_primaries_that_die_at_once_are_replaced_at_once_among_ours_and_stock_ones() {
    // The four clusters: all nodes are ours; the primaries are stock nodes; the replicas are stock nodes;
    // every second node is a stock node.
    for ours in [0x3FF, 0x3E0, 0x01F, 0x155] {
        for seed in 1..4 {
            let mut world = pairs(5, ours, seed);
            let after_ms = replaced_after(&mut world, &[0, 1], seed % 2 == 0);
            println!("two of five: ours {ours:x}, seed {seed}: {after_ms} ms");
            let most_ms = if are_replicas_ours(ours, 5) { 2 } else { 8 } * TIMEOUT_MS;
            assert!(after_ms < most_ms, "ours {ours:x}, seed {seed}: {after_ms} ms");
        }
    }
}

/// V#2181. Three of seven primaries die at one moment, the largest number that leaves a majority.
#[test]
fn cl_v2181_half_of_all_primaries_are_replaced_among_ours_and_stock_ones() {
    for ours in [0x3FFF, 0x3F80, 0x1555] {
        for seed in 1..3 {
            let mut world = pairs(7, ours, seed);
            let after_ms = replaced_after(&mut world, &[0, 1, 2], seed % 2 == 0);
            println!("three of seven: ours {ours:x}, seed {seed}: {after_ms} ms");
            let most_ms = if are_replicas_ours(ours, 7) { 2 } else { 8 } * TIMEOUT_MS;
            assert!(after_ms < most_ms, "ours {ours:x}, seed {seed}: {after_ms} ms");
            world.pass(TIMEOUT_MS);
            assert!((3..14).all(|host| world.seen(host).is_ok), "ours {ours:x}, seed {seed}");
        }
    }
}

//! Scenarios with reports about slots of other nodes (E-20), and with two primaries of one shard that have
//! the same epoch (E-6).

use super::*;

/// E-20, E-16. Stock node 3 takes over from stock node 0, and gives up all slots at the same moment and with
/// the same epoch. Node 2, of ours, receives first that node 3 has given them up, then an old message of node
/// 3, which counts because node 3 has no slots (E-17), and then node 0's message that node 0 follows node 3.
/// This last message makes node 3 the owner of the slots in node 2's view. Node 2 must report this owner to
/// no other node before node 3 has claimed the slots in a message to node 2 with that epoch, which never
/// happens.
#[test]
fn cl_e20_slots_of_a_failover_are_not_told_while_their_stock_owner_has_claimed_none_here() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Ours, Primary), (Stock, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (old, new, slots) = (world.named(0), world.named(3), world.owned(0));
    // Messages of node 3 on the connection that node 3 has dialled arrive later than its answers on node
    // 2's connection.
    world.net.slow_ways.insert((3, 2), 800 * MS);
    world.pass(1_500);
    world.deafen(2, &[0]);
    world.told(3, &Order::Failover(Failover::Takeover));
    world.told(3, &Order::DelSlots(Box::new(slots.clone())));
    let of_new = |world: &World| world.seen(2).nodes[&new].clone();
    while of_new(&world).role != Role::Primary {
        world.pass(2);
    }
    let (epoch, is_empty) = (of_new(&world).epoch, of_new(&world).slots.is_empty());
    assert_eq!((epoch, is_empty), (world.seen(3).own().epoch, true));
    // Node 3 stops answering.
    world.hosts[3].frozen_ns = world.now_ns + 60_000 * MS;
    while of_new(&world).role == Role::Primary {
        world.pass(2);
    }
    assert_eq!(of_new(&world).role, Role::Replica(Some(old)));
    world.hears_again(2, &[0]);
    world.pass(20);
    assert_eq!((of_new(&world).slots, of_new(&world).epoch), (slots.clone(), epoch));
    // Node 1 claims one of the slots with a lower epoch.
    let slot = sets::pick(&slots, 0).expect("a slot");
    let one = Box::new(sets::range(slot.number(), slot.number() + 1));
    world.told(1, &Order::DelSlots(one.clone()));
    world.told(1, &Order::AddSlots(one));
    let updates = world.ledger.updates_told;
    world.pass(200);
    assert_eq!(world.ledger.updates_told, updates);
    assert!(of_new(&world).slots.contains(slot), "node 1's epoch is lower");
}

/// E-6 inside a shard (V#974). Node 3, of ours, has won an epoch while its stock primary, node 0, was cut
/// off and got the same epoch by BUMPEPOCH. By the reference's rule, which is ours too, the node with the
/// smaller id takes a new epoch and has the slots, whichever of the two has received writes since. If node
/// 0 has the smaller id, the writes to node 3 are lost.
#[test]
fn cl_e6_of_two_primaries_of_a_shard_with_one_epoch_the_smaller_id_has_the_slots() {
    let mut winners = [0; 2];
    for seed in 1..9 {
        winners[usize::from(part_a_shard(seed))] += 1;
    }
    assert!(winners.iter().all(|count| *count > 0), "{winners:?}");
}

/// Whether the winner of the election keeps its slots.
fn part_a_shard(seed: u64) -> bool {
    let hosts = [(Stock, Primary), (Stock, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, seed);
    let slots = world.owned(0);
    let stands = world.configure(3, |settings| settings.replica.no_failover = false);
    stands.unwrap();
    world.pass(1_000);
    (1..4).for_each(|host| world.part(0, host));
    world.pass(4 * TIMEOUT_MS);
    assert_eq!(world.owned(3), slots);
    world.told(0, &Order::Bump);
    let epochs = [0, 3].map(|host| world.seen(host).own().epoch);
    assert_eq!(epochs[0], epochs[1]);
    assert!(world.seen(0).served().is_empty(), "node 0 is alone");
    world.hosts[3].keys = slots.clone();
    world.all_hear();
    world.pass(4 * TIMEOUT_MS);
    let (owner, other) = if world.named(0) < world.named(3) { (0, 3) } else { (3, 0) };
    for host in 0..4 {
        assert!(believes(&world.seen(host), world.named(owner), &slots), "seed {seed}, node {host}");
    }
    assert_eq!(world.seen(owner).own().epoch, epochs[0] + 1, "seed {seed}");
    assert_eq!(world.seen(other).own().role, Role::Replica(Some(world.named(owner))), "seed {seed}");
    assert_eq!(world.hosts[3].keys == slots, owner == 3, "seed {seed}");
    owner == 3
}

//! Scenarios of D-7, in which a shard has two primaries.

use super::*;

/// Checks that `old`, a primary without slots beside the primary `new` of its shard, becomes a replica of
/// `new`, and takes over the slots of `new` when `new` dies. By the reference's rules `old` would stay a
/// primary without slots, and no node would take over.
fn is_replaced_by_its_twin(mut world: World, old: usize, new: usize, slots: &SlotSet) {
    let shard = |world: &World, host: usize| world.seen(host).own().shard;
    assert_eq!(shard(&world, old), shard(&world, new));
    let roles = [old, new].map(|host| world.seen(host).own().role);
    assert_eq!(roles, [Role::Primary; 2], "both, and nothing that either claims changes that");
    world.pass(4 * TIMEOUT_MS);
    for host in 0..world.hosts.len() {
        let role = world.seen(host).nodes[&world.named(old)].role;
        assert_eq!(role, Role::Replica(Some(world.named(new))), "node {host}");
    }
    let stands = world.configure(old, |settings| settings.replica.no_failover = false);
    stands.unwrap();
    world.hand(slots, new);
    world.pass(2 * TIMEOUT_MS);
    world.crash(new, true);
    world.pass(6 * TIMEOUT_MS);
    assert_eq!(world.owned(old), *slots, "the slots of the primary that died are served");
}

/// Node 3, of ours, has given its slots away, and does not run while its stock replica, node 4, takes its
/// place. Neither of them claims a slot, so no claim makes node 3 a replica.
#[test]
fn cl_d7_a_primary_without_slots_that_was_replaced_by_a_stock_node_becomes_its_replica() {
    let replicas = [(Ours, Primary), (Stock, ReplicaOf(3))];
    let hosts = [&[(Stock, Primary), (Stock, Primary), (Stock, Primary)][..], &replicas].concat();
    let mut world = cluster(&hosts, 1);
    let slots = world.owned(3);
    world.hand(&slots, 0);
    world.pass(1_000);
    assert!(world.owned(3).is_empty() && world.seen(3).own().role == Role::Primary);
    world.crash(3, true);
    world.pass(4 * TIMEOUT_MS);
    assert_eq!(world.seen(4).own().role, Role::Primary, "replicas of primaries without slots stand, too");
    world.start(3).unwrap();
    world.pass(1_000);
    is_replaced_by_its_twin(world, 3, 4, &slots);
}

/// Node 0, of ours, dies with slots. Stock node 3 takes over, and gives them to stock node 1, before
/// node 0 comes back with the keys of these slots.
#[test]
fn cl_d7_a_primary_whose_winner_has_given_the_slots_away_becomes_the_replica_of_that_stock_node() {
    let hosts = [(Ours, Primary), (Stock, Primary), (Stock, Primary), (Stock, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let slots = world.owned(0);
    world.hosts[0].keys = slots.clone();
    world.crash(0, true);
    world.pass(4 * TIMEOUT_MS);
    assert_eq!(world.owned(3), slots);
    world.hand(&slots, 1);
    world.pass(500);
    world.start(0).unwrap();
    world.pass(1_000);
    assert!(world.owned(0).is_empty() && world.hosts[0].keys.is_empty(), "node 1 has a higher epoch");
    is_replaced_by_its_twin(world, 0, 3, &slots);
}

/// Node 0, of ours, is the second primary of stock node 3's shard, and has keys that no other node has.
/// Therefore it stays a primary.
#[test]
fn cl_d7_a_primary_with_keys_stays_beside_a_stock_one_of_its_shard() {
    let hosts = [(Ours, Primary), (Stock, Primary), (Stock, Primary), (Stock, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let slots = world.owned(0);
    world.crash(0, true);
    world.pass(4 * TIMEOUT_MS);
    world.hand(&slots, 1);
    world.pass(500);
    world.start(0).unwrap();
    world.pass(1_000);
    assert!(world.owned(0).is_empty());
    world.hosts[0].keys = sets::range(0, 1);
    world.pass(6 * TIMEOUT_MS);
    assert_eq!(world.seen(0).own().role, Role::Primary);
    assert!(!world.hosts[0].keys.is_empty());
}

//! Directed scenarios. Each is a course of events in a cluster of nodes of ours and stock nodes, in which a
//! rule of the reference does harm and our different rule prevents the harm. Only rules that stock nodes can
//! notice are tried here. A scenario fails when our rule is removed; `docs/design/cluster-arrows.md` has the
//! list.

use crate::cluster::act::{Failover, File, Order};
use crate::cluster::clock::MS;
use crate::cluster::file::Damage;
use crate::cluster::net::Delays;
use crate::cluster::plan::{FaultRates, HostPlan, Part, Plan, Season};
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role, View};
use crate::cluster::world::World;
use sluice_cluster::{ClusterInput, NodeId, SlotSet};

mod claims;
mod threads;
mod twins;

const TIMEOUT_MS: u64 = 2_000;

/// The model of a node, and its role in the cluster.
type Wanted = (Kind, Part);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Stock,
}

use Kind::{Ours, Stock};
use Part::{Primary, ReplicaOf};

/// A cluster in which all nodes agree. The nodes have epochs from 1 on, in their order.
fn cluster(hosts: &[Wanted], seed: u64) -> World {
    cluster_with_pings_after(100, hosts, seed)
}

fn cluster_with_pings_after(ping_interval_ms: u64, hosts: &[Wanted], seed: u64) -> World {
    let hosts = hosts.iter().map(|(kind, part)| HostPlan {
        is_stock: *kind == Stock,
        part: *part,
        group: 0,
        has_name: false,
        is_best_effort: false,
        stands: false,
        drift_ppm: 0,
    });
    let plan = Plan {
        season: Season::OneEpoch,
        hosts: hosts.collect(),
        timeout_ms: TIMEOUT_MS,
        ping_interval_ms,
        delays: Delays { usual_ms: 2, ..Delays::default() },
        late_tick_ms: 0,
        disk_ms: 0,
        rates: FaultRates::default(),
        storm_ms: 0,
        blacklist_ttl_s: 12,
        sets_epochs: true,
        full_coverage: false,
        allow_migration: false,
        migration_barrier: 1,
    };
    let mut world = World::new(plan, seed, std::env::var_os("SLUICE_SIM_TRACE").is_some());
    world.build().expect("a cluster");
    world
}

impl World {
    fn pass(&mut self, ms: u64) {
        let passed = self.run(ms);
        if passed.is_err() {
            self.show_views();
        }
        passed.unwrap();
    }

    fn told(&mut self, host: usize, order: &Order) {
        self.order(host, order).unwrap();
    }

    fn seen(&self, host: usize) -> View {
        self.hosts[host].view().expect("a node that runs")
    }

    fn named(&self, host: usize) -> NodeId {
        self.hosts[host].id().expect("a node that runs")
    }

    fn owned(&self, host: usize) -> SlotSet {
        self.seen(host).own().slots.clone()
    }

    /// Holds back all messages from `from` to `to`.
    fn deafen(&mut self, to: usize, from: &[usize]) {
        from.iter().for_each(|from| self.net.cut(*from, to));
    }

    fn hears_again(&mut self, to: usize, from: &[usize]) {
        let is_mended = |one, other| other == to && from.contains(&one);
        self.net.mend(is_mended, self.now_ns, &mut self.queue);
    }

    fn all_hear(&mut self) {
        self.net.mend(|_, _| true, self.now_ns, &mut self.queue);
    }

    /// Gives slots to a node, after all running nodes have removed the owner of these slots from their views.
    fn hand(&mut self, slots: &SlotSet, to: usize) {
        let boxed = Box::new(slots.clone());
        for host in 0..self.hosts.len() {
            if self.is_alive(host) {
                self.told(host, &Order::DelSlots(boxed.clone()));
            }
        }
        self.told(to, &Order::AddSlots(boxed));
    }
}

/// Whether `owner` owns slots in a node's view.
fn believes(view: &View, owner: NodeId, slots: &SlotSet) -> bool {
    view.nodes.get(&owner).is_some_and(|node| sets::minus(slots, &node.slots).is_empty())
}

/// S-20. Stock node 0 votes in an epoch for stock node 4. Node 3, of ours, has won the preceding epoch, takes
/// node 0's place, and is asked by stock node 5 for a vote in the epoch of node 4's election. If node 3
/// voted, nodes 4 and 5 would both win.
#[test]
fn cl_s20_stock_replicas_do_not_both_win_an_epoch_by_the_votes_of_one_place() {
    let replicas = [(Ours, ReplicaOf(0)), (Stock, ReplicaOf(1)), (Stock, ReplicaOf(2))];
    let hosts = [[(Stock, Primary), (Stock, Primary), (Stock, Primary)], replicas].concat();
    let mut world = cluster(&hosts, 1);
    let epoch = world.seen(0).current_epoch;
    // Node 3 asks for votes of the next epoch. The votes are given, and arrive late.
    world.deafen(3, &[0, 1, 2, 4]);
    world.told(3, &Order::Failover(Failover::Force));
    world.pass(50);
    assert_eq!(world.seen(5).current_epoch, epoch + 1);
    // Node 4 asks for votes of the epoch after that. Nodes 1, 3 and 5 receive nothing of this election.
    world.deafen(5, &[0, 1, 2, 3, 4]);
    world.deafen(1, &[0, 2, 4]);
    world.deafen(0, &[1]);
    world.deafen(2, &[1]);
    world.told(4, &Order::Failover(Failover::Force));
    world.pass(50);
    assert_eq!((world.seen(4).own().role, world.seen(4).own().epoch), (Role::Primary, epoch + 2));
    // Node 3 learns of that epoch, receives its votes, and takes the place of node 0.
    world.hears_again(3, &[0]);
    world.pass(400);
    assert_eq!(world.seen(3).own().role, Role::Replica(Some(world.named(0))));
    world.hears_again(3, &[1]);
    world.pass(50);
    let taken = world.seen(3);
    assert!(taken.own().is_voter() && taken.own().epoch == epoch + 1 && taken.current_epoch == epoch + 2);
    // Node 5 knows nothing of the second election, so it asks for votes of the same epoch.
    world.told(5, &Order::Failover(Failover::Force));
    world.pass(20);
    assert_eq!(world.seen(5).current_epoch, epoch + 2);
    world.hears_again(5, &[1, 3]);
    // If node 5 won this epoch too, the ledger would report two winners.
    world.pass(400);
    assert_eq!(world.seen(5).own().role, Role::Replica(Some(world.named(2))));
}

/// E-7. Node 3, of ours, is at epoch 0, and takes the slots of a dead stock node, which comes back.
#[test]
fn cl_e7_slots_of_a_dead_stock_node_are_kept_when_it_is_back() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    world.told(3, &Order::ResetHard);
    world.pass(200);
    world.meet(0, 3).unwrap();
    world.pass(3_000);
    assert_eq!(world.seen(3).own().epoch, 0);
    let slots = world.owned(1);
    world.crash(1, true);
    world.hand(&slots, 3);
    world.pass(500);
    world.hosts[3].keys = slots.clone();
    world.start(1).unwrap();
    world.pass(4_000);
    let own = world.named(3);
    for host in 0..4 {
        assert!(believes(&world.seen(host), own, &slots), "node {host}");
    }
    assert_eq!(world.hosts[3].keys, slots, "keys that were written after the slots had come");
}

/// E-4. A stock node dies while node 0, of ours, has the same epoch. Node 0 gets one of the dead node's
/// slots, and a new epoch by BUMPEPOCH; then the stock node comes back. It would take a new epoch, and with
/// it the slot, if the two epochs were still equal.
#[test]
fn cl_e4_bumpepoch_keeps_a_slot_from_a_stock_node_that_died_with_the_same_epoch() {
    let hosts = [(Ours, Primary), (Stock, Primary), (Stock, Primary)];
    // Node 1 must have the smaller id, because when two nodes have the same epoch, the node with the smaller
    // id takes a new one (E-6).
    let mut worlds = (1..20).map(|seed| cluster(&hosts, seed));
    let mut world = worlds.find(|world| world.named(1) < world.named(0)).expect("ids are drawn");
    let highest = world.seen(0).current_epoch;
    world.part(0, 1);
    world.part(0, 2);
    world.part(1, 2);
    world.told(0, &Order::Bump);
    world.told(1, &Order::Bump);
    let epochs = [0, 1].map(|host| world.seen(host).own().epoch);
    let expected = if epochs[0] == highest { highest } else { highest + 1 };
    assert_eq!(epochs, [expected; 2]);
    // Node 0 receives the other node's epoch, but the other does not receive node 0's.
    world.hears_again(0, &[1]);
    world.pass(300);
    assert_eq!(world.seen(0).nodes[&world.named(1)].epoch, expected);
    let theirs = world.owned(1);
    let first = sets::pick(&theirs, 0).expect("a slot").number();
    let slot = sets::range(first, first + 1);
    world.crash(1, true);
    world.all_hear();
    world.pass(500);
    world.hand(&slot, 0);
    world.told(0, &Order::Bump);
    world.hosts[0].keys = sets::or(&world.hosts[0].keys, &slot);
    world.pass(500);
    world.start(1).unwrap();
    world.pass(4_000);
    let own = world.named(0);
    for host in 0..3 {
        assert!(believes(&world.seen(host), own, &slot), "node {host}");
    }
    assert!(!sets::and(&world.hosts[0].keys, &slot).is_empty());
}

/// F-4. Stock node 1 does not reach node 3, reports this failure, and gives its own slots away. Then node 0,
/// of ours, does not reach node 3 either. Only one of the three remaining voters suspects node 3 now, and one
/// voter is no quorum.
#[test]
fn cl_f4_a_report_of_a_stock_node_that_is_no_voter_any_more_makes_nobody_fail() {
    let hosts =
        [(Ours, Primary), (Stock, Primary), (Stock, Primary), (Stock, Primary), (Stock, ReplicaOf(3))];
    let mut world = cluster(&hosts, 1);
    let (silent, slots) = (world.named(3), world.owned(1));
    world.part(1, 3);
    world.pass(1_000);
    world.part(0, 3);
    world.pass(1_500);
    assert_eq!(world.seen(1).nodes[&silent].opinion, Opinion::Suspected);
    assert_eq!(world.seen(0).nodes[&silent].opinion, Opinion::Up);
    world.hand(&slots, 2);
    for _ in 0..20 {
        world.pass(100);
        for host in [0, 2, 4] {
            let opinion = world.seen(host).nodes[&silent].opinion;
            assert_ne!(opinion, Opinion::Failed, "node {host}: node 3 lives, and node 2 reaches it");
        }
    }
    assert_eq!(world.seen(0).nodes[&silent].opinion, Opinion::Suspected);
}

/// E-51. Node 0, of ours, is asked for a vote by stock node 3, to which it has no link, and in the same
/// epoch by stock node 4, which needs its vote.
#[test]
fn cl_e51_a_vote_that_cannot_be_sent_is_left_for_another_stock_candidate() {
    let replicas = [(Stock, ReplicaOf(1)), (Stock, ReplicaOf(2))];
    let hosts = [&[(Ours, Primary), (Stock, Primary), (Stock, Primary)][..], &replicas].concat();
    let mut world = cluster(&hosts, 1);
    let epoch = world.seen(0).current_epoch;
    world.deafen(3, &[0]);
    let link = world.link_to(0, 3).expect("a link");
    let (conn, _) = world.hosts[0].links[&link];
    world.net.kill(conn, world.now_ns, (&mut world.rng, &mut world.queue));
    world.pass(300);
    // Only node 0 learns of the first election.
    [1, 2, 4].into_iter().for_each(|host| world.deafen(host, &[0, 3]));
    world.part(1, 4);
    world.told(3, &Order::Failover(Failover::Force));
    world.pass(50);
    assert_eq!((world.seen(0).current_epoch, world.seen(4).current_epoch), (epoch + 1, epoch));
    world.told(4, &Order::Failover(Failover::Force));
    world.pass(20);
    world.hears_again(4, &[0]);
    world.pass(1_000);
    assert!(world.seen(4).own().is_voter(), "nodes 0 and 2 are a majority");
}

/// N-26. Node 2, of ours, starts with a damaged line about itself. Its stock replica takes over and gives the
/// slots away, so that this replica is then the primary of a shard without slots.
#[test]
fn cl_n26_a_node_with_a_damaged_line_keeps_its_data_when_a_stock_node_has_its_shard() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Ours, Primary), (Stock, ReplicaOf(2))];
    let mut world = cluster(&hosts, 1);
    let slots = world.owned(2);
    world.hosts[2].keys = slots.clone();
    world.crash(2, true);
    world.spoil(2, Damage::OwnLine);
    world.start(2).unwrap();
    world.pass(1_000);
    world.told(3, &Order::Failover(Failover::Takeover));
    world.pass(500);
    assert_eq!(world.owned(3), slots);
    for host in [0, 1, 3] {
        world.told(host, &Order::DelSlots(Box::new(slots.clone())));
    }
    world.told(0, &Order::AddSlots(Box::new(slots.clone())));
    world.pass(2_000);
    assert!(world.owned(3).is_empty() && world.seen(3).own().role == Role::Primary);
    assert_eq!(world.seen(2).own().role, Role::Primary);
    assert_eq!(world.hosts[2].keys, slots);
}

/// N-26. In the file of node 3, of ours, its own line ends after the id of its primary, stock node 0.
/// Then node 0 moves to another shard.
#[test]
fn cl_n26_a_node_with_a_damaged_line_keeps_its_data_when_its_stock_primary_follows_another() {
    let hosts = [(Stock, Primary), (Stock, Primary), (Stock, Primary), (Ours, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (primary, slots) = (world.named(0), world.owned(0));
    world.crash(3, true);
    let Some(File::Text(text)) = &world.hosts[3].disk.file else { unreachable!("a file of ours") };
    let lines = std::str::from_utf8(text).unwrap().lines().map(|line| {
        let words = if line.contains("myself") { 4 } else { usize::MAX };
        line.split(' ').take(words).collect::<Vec<_>>().join(" ") + "\n"
    });
    world.hosts[3].disk.file = Some(File::Text(lines.collect::<String>().into_bytes().into()));
    world.start(3).unwrap();
    world.pass(1_000);
    assert_eq!(world.seen(3).own().role, Role::Replica(Some(primary)));
    world.hosts[3].keys = slots.clone();
    for host in [0, 1, 2] {
        world.told(host, &Order::DelSlots(Box::new(slots.clone())));
    }
    world.told(1, &Order::AddSlots(Box::new(slots.clone())));
    let follows = Order::Replicate(world.named(1));
    world.told(0, &follows);
    world.pass(2_000);
    assert_eq!(world.seen(0).own().role, Role::Replica(Some(world.named(1))));
    assert_eq!(world.seen(3).own().role, Role::Replica(Some(primary)));
    assert_eq!(world.hosts[3].keys, slots);
}

/// G-10. Stock node 1 has a new address, and stock node 3 has node 1's old one. Node 0, of ours, does not
/// reach node 1, and receives late messages in which stock node 2 reports that node 1 is well at its old
/// address.
#[test]
fn cl_g10_an_old_address_in_the_gossip_of_a_stock_node_makes_nobody_fail() {
    for seed in 1..5 {
        is_looked_for_at_an_old_address(seed);
    }
}

fn is_looked_for_at_an_old_address(seed: u64) {
    let hosts = [(Ours, Primary), (Stock, Primary), (Stock, Primary), (Stock, Primary)];
    // New messages are rare in this cluster, so that the late ones count for a while.
    let mut world = cluster_with_pings_after(TIMEOUT_MS / 2, &hosts, seed);
    let moved = world.named(1);
    world.net.slow_ways.insert((2, 0), 5_000 * MS);
    world.pass(1_100);
    let old = world.hosts[1].ip;
    world.crash(1, true);
    world.move_away(1);
    world.start(1).unwrap();
    world.pass(600);
    assert_eq!(world.seen(0).nodes[&moved].opinion, Opinion::Up);
    world.crash(3, true);
    world.hosts[3].ip = old;
    world.start(3).unwrap();
    world.part(0, 1);
    let mut was_suspected = false;
    for _ in 0..60 {
        world.pass(100);
        was_suspected |= world.seen(0).nodes[&moved].opinion == Opinion::Suspected;
        for host in 0..4 {
            let node = &world.seen(host).nodes[&moved];
            assert_ne!(node.opinion, Opinion::Failed, "node {host}: node 1 lives, and two reach it");
        }
    }
    assert!(was_suspected);
}

/// E-17. Node 4, of ours, follows stock node 3 by now, and forgets its dead primary; because node 4's disk is
/// slow, its file still names that primary. Stock nodes that took node 4 for a primary at this time would do
/// so for ever, because node 4's own epoch is above that of node 3.
#[test]
fn cl_e17_a_replica_that_forgets_its_old_primary_is_no_primary_for_stock_nodes() {
    let replicas = [(Stock, ReplicaOf(0)), (Ours, ReplicaOf(0))];
    let hosts = [&[(Stock, Primary), (Stock, Primary), (Stock, Primary)][..], &replicas].concat();
    let mut world = cluster(&hosts, 1);
    let (dead, winner, own) = (world.named(0), world.named(3), world.named(4));
    world.crash(0, true);
    world.plan.disk_ms = 20_000;
    world.told(3, &Order::Failover(Failover::Takeover));
    world.pass(500);
    world.told(4, &Order::Bump);
    world.order_all(&Order::Forget(dead), 0).unwrap();
    assert_eq!(world.seen(4).own().role, Role::Replica(Some(winner)));
    assert!(!world.seen(4).nodes.contains_key(&dead));
    for _ in 0..10 {
        world.pass(100);
        for host in 1..4 {
            let role = world.seen(host).nodes[&own].role;
            assert!(matches!(role, Role::Replica(_)), "node {host}: {role:?}");
        }
    }
    world.plan.disk_ms = 0;
    world.pass(21_000);
    for host in 1..4 {
        assert_eq!(world.seen(host).nodes[&own].role, Role::Replica(Some(winner)), "node {host}");
    }
}

/// E-17. The file of stock node 3 has lost its primary, so that all nodes take node 3 for a primary; then
/// node 3 is made a replica again. The own epoch of node 3 is above its primary's. By the reference's rule
/// node 3 would stay a primary for ever in the view of the others, and get no vote.
#[test]
fn cl_e17_a_stock_replica_that_looked_like_a_primary_gets_the_votes_of_ours() {
    let hosts = [(Stock, Primary), (Ours, Primary), (Ours, Primary), (Stock, ReplicaOf(0))];
    let mut world = cluster(&hosts, 1);
    let (primary, own) = (world.named(0), world.named(3));
    world.crash(3, true);
    let Some(File::Stock(file)) = &world.hosts[3].disk.file else { unreachable!("a stock node's file") };
    world.hosts[3].disk.file = Some(File::Stock(file.without_primary().into()));
    world.start(3).unwrap();
    world.pass(1_000);
    assert_eq!(world.seen(1).nodes[&own].role, Role::Primary, "zeros are what a primary says");
    world.told(3, &Order::Bump);
    world.pass(500);
    world.told(3, &Order::Replicate(primary));
    world.pass(1_000);
    world.crash(0, true);
    world.pass(6 * TIMEOUT_MS);
    assert!(world.seen(3).own().is_voter(), "the slots of the dead primary are served");
}

/// F-9. Replicas 3, of ours, and 4, a stock node, have seen their primary FAIL and come back. The primary
/// dies again when node 3 has more of the primary's data than node 4 knows. Node 4 must then not start an
/// election at once.
#[test]
fn cl_f9_a_stock_replica_waits_for_the_offset_of_ours_at_the_second_failure_too() {
    let replicas = [(Ours, ReplicaOf(0)), (Stock, ReplicaOf(0))];
    let hosts = [&[(Stock, Primary), (Stock, Primary), (Stock, Primary)][..], &replicas].concat();
    let mut world = cluster(&hosts, 1);
    let primary = world.named(0);
    let opinion = |world: &World, host: usize| world.seen(host).nodes[&primary].opinion;
    // At the first failure, no replica gets a vote.
    world.crash(0, true);
    world.pass(TIMEOUT_MS - 100);
    [1, 2].into_iter().for_each(|host| world.deafen(host, &[4]));
    world.pass(TIMEOUT_MS);
    assert_eq!([3, 4].map(|host| opinion(&world, host)), [Opinion::Failed; 2]);
    world.start(0).unwrap();
    world.pass(4 * TIMEOUT_MS);
    assert_eq!([3, 4].map(|host| opinion(&world, host)), [Opinion::Up; 2]);
    world.all_hear();
    world.pass(2 * TIMEOUT_MS);
    assert!((1..5).all(|host| opinion(&world, host) == Opinion::Up));
    // Before the second failure, node 3 has new data, and node 4 receives node 3's offset a moment later.
    let changed = world.configure(3, |settings| {
        (settings.replica.no_failover, settings.replica.validity_factor) = (false, 0);
    });
    changed.unwrap();
    world.step(3, |host, now| host.input(now, &ClusterInput::Offset(1))).unwrap();
    world.pass(1_000);
    world.crash(0, true);
    world.pass(TIMEOUT_MS - 100);
    world.deafen(4, &[3]);
    world.step(3, |host, now| host.input(now, &ClusterInput::Offset(u64::MAX / 4))).unwrap();
    while opinion(&world, 4) != Opinion::Failed {
        world.deafen(3, &[1, 2, 4]);
        world.pass(5);
    }
    world.pass(30);
    world.all_hear();
    world.pass(1_000);
    assert!(world.seen(3).own().is_voter(), "node 3 has the most data");
    assert_eq!(world.seen(4).own().role, Role::Replica(Some(world.named(3))));
}

/// E-46. Votes of stock nodes 1 and 2 for the first election of node 3, of ours, arrive when the second
/// election of node 3 is scheduled but not open yet. The second election has the epoch in which stock node
/// 4 wins by the votes of nodes 1 and 2.
#[test]
fn cl_e46_late_votes_of_stock_nodes_do_not_win_the_next_epoch() {
    let replicas = [(Ours, ReplicaOf(0)), (Stock, ReplicaOf(0))];
    let hosts = [&[(Stock, Primary), (Stock, Primary), (Stock, Primary)][..], &replicas].concat();
    let mut world = cluster(&hosts, 1);
    let primary = world.named(0);
    // Node 3 may start elections however old its data are. Because it has no data, it waits half a second
    // longer.
    let changed = world.configure(3, |settings| {
        (settings.replica.no_failover, settings.replica.validity_factor) = (false, 0);
    });
    changed.unwrap();
    world.crash(0, true);
    world.crash(4, true);
    while world.seen(3).nodes[&primary].opinion != Opinion::Failed {
        world.pass(5);
    }
    world.deafen(3, &[1, 2, 4]);
    let epoch = world.seen(3).current_epoch + 1;
    while world.seen(3).current_epoch < epoch {
        world.pass(5);
    }
    // The next election is scheduled four timeouts later. Before that, node 4 starts its election.
    world.pass(500);
    world.start(4).unwrap();
    world.pass(4 * TIMEOUT_MS - 300);
    assert_eq!((world.seen(4).own().role, world.seen(4).own().epoch), (Role::Primary, epoch + 1));
    assert_eq!(world.seen(3).current_epoch, epoch);
    // Only the old messages arrive, no newer ones.
    world.hears_again(3, &[1, 2]);
    world.pass(5);
    world.deafen(3, &[1, 2, 4]);
    assert_eq!(world.seen(3).current_epoch, epoch);
    world.pass(1_000);
    assert_eq!(world.seen(3).current_epoch, epoch + 1, "the second election");
    assert_eq!(world.seen(3).own().role, Role::Replica(Some(primary)), "nobody has voted for it");
    world.all_hear();
    world.pass(2 * TIMEOUT_MS);
    assert_eq!(world.seen(3).own().role, Role::Replica(Some(world.named(4))));
}

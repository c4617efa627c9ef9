//! Tests of failing nodes, and of the cluster's state.
use super::network::{Network, TIMEOUT_MS, header_of};
use crate::*;

#[test]
fn cl_f1_f5_f6_a_dead_voter_is_fail_for_all() {
    let mut network = Network::cluster(4, 3);
    network.kill(2);
    network.run(TIMEOUT_MS - 100);
    assert_eq!(network.flags(0, 2), "master", "F-1: not before T");
    network.run(1_500);
    for one in [0, 1, 3] {
        assert_eq!(network.flags(one, 2), "master,fail", "node {one}");
        assert_eq!(
            network.peers[one].cluster.info().state,
            ClusterState::Fail,
            "F-22: a slot of a failed owner"
        );
    }
    assert!(network.has_logged(0, "At least one hash slot is not served"));
}

#[test]
fn cl_f3_f5_one_voter_of_three_does_not_condemn() {
    let mut network = Network::cluster(3, 3);
    network.cut(0, 2);
    network.run(5 * TIMEOUT_MS);
    assert_eq!(network.flags(0, 2), "master,fail?");
    assert_eq!(network.flags(1, 2), "master");
    let node = network.id(2);
    let answer = network.command(1, ClusterCommand::CountFailureReports { node: node.as_bytes() });
    assert_eq!(answer, ClusterAnswer::Integer(1));
    network.heal();
    network.run(2_000);
    assert_eq!(network.flags(0, 2), "master", "F-8: any PONG ends suspicion");
    assert!(network.has_logged(1, "is back online"));
}

#[test]
fn cl_f4_reports_expire() {
    let mut network = Network::cluster(3, 3);
    network.cut(0, 2);
    network.run(2 * TIMEOUT_MS);
    // The reporter, node 0, is cut off from node 1.
    network.cut(0, 1);
    let node = network.id(2);
    network.run(2 * TIMEOUT_MS + 1_000);
    let answer = network.command(1, ClusterCommand::CountFailureReports { node: node.as_bytes() });
    assert_eq!(answer, ClusterAnswer::Integer(0));
}

#[test]
fn cl_f8_fail_of_a_voter_ends_after_two_timeouts_and_of_others_at_once() {
    let mut network = Network::cluster(5, 3);
    let node = network.id(2);
    network.command(4, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let (ip2, ip3) = (network.peers[2].ip, network.peers[3].ip);
    network.kill(2);
    network.kill(3);
    network.run(TIMEOUT_MS + 1_500);
    assert_eq!((network.flags(0, 2).as_str(), network.flags(0, 3).as_str()), ("master,fail", "master,fail"));
    network.revive(2, ip2);
    network.revive(3, ip3);
    network.run(1_000);
    assert_eq!(network.flags(0, 3), "master", "a primary without slots");
    assert_eq!(network.flags(0, 2), "master,fail");
    network.run(2 * TIMEOUT_MS);
    assert_eq!(network.flags(0, 2), "master");
}

#[test]
fn cl_f22_f23_a_primary_with_a_minority_stops_and_waits_before_it_serves_again() {
    let mut network = Network::cluster(3, 3);
    network.cut(0, 1);
    network.cut(0, 2);
    network.run(TIMEOUT_MS + 300);
    assert_eq!(
        network.peers[0].cluster.info().state,
        ClusterState::Fail,
        "F-26: T and the interval of pings"
    );
    assert!(network.has_logged(0, "I am part of a minority partition."));
    network.heal();
    network.run(TIMEOUT_MS - 500);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Fail, "F-23");
    network.run(3 * TIMEOUT_MS);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok);
}

#[test]
fn cl_s24_a_node_that_stood_still_serves_when_a_quorum_has_answered_anew() {
    let state = |network: &Network| network.peers[0].cluster.info().state;
    for others in [&[1][..], &[1, 2]] {
        let mut network = Network::cluster(3, 3);
        network.cut(0, 1);
        network.cut(0, 2);
        network.step(0, &ClusterInput::Suspension);
        assert_eq!(state(&network), ClusterState::Fail, "whatever was said last");
        network.run(TIMEOUT_MS - 200);
        assert_eq!(network.flags(0, 1), "master", "nobody is suspected yet");
        assert_eq!(state(&network), ClusterState::Fail, "nobody has answered");
        network.heal();
        for other in [1, 2].into_iter().filter(|other| !others.contains(other)) {
            network.cut(0, other);
        }
        network.run(TIMEOUT_MS - 200);
        assert_eq!(state(&network), ClusterState::Fail, "F-23, with the answers of {others:?}");
        network.run(600);
        assert_eq!(state(&network), ClusterState::Ok, "two of three voters are a quorum: {others:?}");
    }
}

#[test]
fn cl_s24_the_only_voter_needs_nobodys_answer() {
    let mut network = Network::cluster(2, 1);
    network.step(0, &ClusterInput::Suspension);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok);
}

#[test]
fn cl_f21_a_primary_waits_after_its_start() {
    let mut network = Network::of(1);
    network.configure(0, |settings| settings.require_full_coverage = false);
    let slot = [HashSlot::new(1).unwrap()];
    network.command(0, ClusterCommand::AddSlots { slots: &slot });
    network.run(1_900);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Fail);
    network.run(200);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok);
}

/// If the node still used the number of voters that it knew as a replica, one of the three voters would be a
/// quorum.
#[test]
fn cl_f21_who_becomes_a_primary_ahead_of_the_delays_end_counts_the_voters_of_now() {
    let mut network = Network::with_replicas();
    let mut file = super::files::saved(&network, 3);
    let others = [1, 2].map(|number| network.id(number));
    let of_others = file.others.iter_mut().filter(|node| others.contains(&node.id));
    of_others.for_each(|node| node.slots = SlotSet::EMPTY);
    network.kill(3);
    [0, 1, 2, 4].into_iter().for_each(|other| network.cut(3, other));
    super::files::restart(&mut network, 3, &file);
    network.run(300);
    assert_eq!(network.peers[3].cluster.info().size, 1);
    network.command(3, ClusterCommand::Failover { kind: crate::FailoverKind::Takeover });
    network.heal();
    network.run(1_000);
    let info = network.peers[3].cluster.info();
    assert_eq!((info.state, info.size), (ClusterState::Fail, 3));
}

#[test]
fn cl_f23_a_node_that_has_known_no_voter_serves_its_first_slots_at_once() {
    let mut network = Network::of(1);
    network.configure(0, |settings| settings.require_full_coverage = false);
    network.run(10_000);
    assert!(network.has_logged(0, "I am part of a minority partition."));
    network.command(0, ClusterCommand::AddSlots { slots: &[HashSlot::new(1).unwrap()] });
    network.run(200);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok);
}

#[test]
fn cl_f1_a_link_that_ends_starts_the_clock_of_suspicion() {
    for wait in [0, TIMEOUT_MS / 8, TIMEOUT_MS / 4, TIMEOUT_MS * 3 / 8] {
        let mut network = Network::cluster(4, 3);
        (0..4).for_each(|number| network.configure(number, |settings| settings.ping_interval_ms = 0));
        network.run(5_000 + wait);
        network.kill(3);
        network.run(TIMEOUT_MS - 100);
        assert_eq!(network.flags(0, 3), "master", "{wait}: never before T without contact");
        network.run(300);
        assert_ne!(network.flags(0, 3), "master", "{wait}");
    }
}

#[test]
fn cl_f9_a_replica_says_that_its_primary_is_fail_and_takes_it_back() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    let answer = network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    assert_eq!(answer, ClusterAnswer::Ok);
    network.run(500);
    assert_eq!(network.flags(1, 3), "slave");
    let ip = network.peers[0].ip;
    network.kill(0);
    network.run(TIMEOUT_MS + 1_500);
    assert!(network.peers[3].cluster.machine.table.me().marks.my_primary_fail);
    network.revive(0, ip);
    network.run(3 * TIMEOUT_MS);
    assert!(!network.peers[3].cluster.machine.table.me().marks.my_primary_fail);
}

#[test]
fn cl_f7_w14_fail_of_an_unknown_sender_is_ignored() {
    let mut network = Network::cluster(3, 3);
    let stranger = network.add(std::net::Ipv4Addr::new(10, 0, 9, 9));
    let slots = SlotSet::EMPTY;
    let header =
        wire::BusHeader { current_epoch: ClusterEpoch(1), ..header_of(network.id(stranger), &slots) };
    let about = network.id(2);
    network.inject(stranger, 0, &wire::BusMessage::Full(header, wire::MessageBody::Fail(about)));
    assert_eq!(network.flags(0, 2), "master");
    assert!(network.has_logged(0, "Ignoring FAIL message from unknown node"));
    let known = network.id(1);
    let slots = network.peers[1].cluster.machine.table.me().slots.clone();
    let header = wire::BusHeader { sender: known, slots: slots.bitmap(), ..header };
    network.inject(1, 0, &wire::BusMessage::Full(header, wire::MessageBody::Fail(about)));
    assert_eq!(network.flags(0, 2), "master,fail");
}

#[test]
fn cl_f5_a_node_that_has_just_started_does_not_condemn_alone() {
    let mut network = Network::cluster(3, 3);
    // The node timeout is below the writable delay, at whose end voters are first counted (F-21).
    (0..3).for_each(|number| network.configure(number, |settings| settings.node_timeout_ms = 1_000));
    network.run(500);
    let ip = network.peers[0].ip;
    network.kill(0);
    network.cut(0, 2);
    network.revive(0, ip);
    let (_, file) = network.peers[0].written.last().unwrap().clone();
    let settings = network.peers[0].settings.clone().into();
    let cluster = Cluster::start(network.now(), settings, 9, Some(file.as_bytes()), &[]);
    network.peers[0].cluster = cluster.unwrap();
    network.run(1_800);
    assert_eq!(network.flags(0, 2), "master,fail?");
    assert_eq!(network.flags(1, 2), "master");
}

#[test]
fn cl_f26_a_primary_that_is_cut_off_stops_at_its_deadline_without_a_cron() {
    let mut network = Network::cluster(3, 3);
    network.cut(0, 1);
    network.cut(0, 2);
    // These are the last regular ticks; they send the PINGs that stay unanswered.
    network.run(300);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok);
    let mut steps = 0;
    let first = network.now_ms;
    while network.peers[0].cluster.info().state == ClusterState::Ok {
        let deadline = network.peers[0].cluster.deadline().expect("an answer is owed");
        assert!(deadline > network.now_ms, "a deadline lies ahead");
        network.now_ms = deadline;
        network.step(0, &ClusterInput::Deadline);
        steps += 1;
        assert!(steps < 10);
    }
    assert!(network.now_ms - first <= TIMEOUT_MS + 1, "{} ms", network.now_ms - first);
    assert!(network.now_ms - first > TIMEOUT_MS - 400);
    assert!(
        network.has_logged(0, "Cluster state changed: fail") || {
            network.deliver();
            network.has_logged(0, "Cluster state changed: fail")
        }
    );
}

#[test]
fn cl_d22_a_voter_without_replicas_is_no_longer_fail_once_it_answers() {
    let mut network = Network::cluster(3, 3);
    let ip = network.peers[2].ip;
    network.kill(2);
    network.run(TIMEOUT_MS + 1_500);
    assert_eq!(network.flags(0, 2), "master,fail");
    network.revive(2, ip);
    network.run(1_000);
    assert_eq!(network.flags(0, 2), "master");
}

#[test]
fn nodes_are_shown_with_their_slots_primaries_and_health() {
    let mut network = Network::cluster(4, 3);
    let primary = network.id(1);
    network.command(3, ClusterCommand::Replicate { node: primary.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    network.kill(2);
    network.run(TIMEOUT_MS + 1_500);
    let m = &network.peers[0].cluster;
    let shown = |number: usize| {
        let id = network.id(number);
        m.nodes().find(|node| node.id == id).unwrap()
    };
    assert_eq!(m.nodes().count(), 4);
    let own = shown(0);
    assert!(own.is_myself && own.is_linked && own.pong_wall_ms == 0 && own.first_slot == HashSlot::new(0));
    let [second, dead, replica] = [shown(1), shown(2), shown(3)];
    assert!(second.health == NodeHealth::Up && second.is_linked && second.pong_wall_ms > 0);
    assert!(matches!(dead.health, NodeHealth::Fail { .. }) && dead.slots > 5_000, "{dead:?}");
    assert_eq!((replica.primary, replica.is_replica, replica.slots), (Some(primary), true, 0));
    assert_eq!(m.nodes().map(|node| u32::from(node.slots)).sum::<u32>(), 16_384);
}

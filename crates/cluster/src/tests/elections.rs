//! Tests of elections that a node holds, and of manual failovers.
use super::network::{Network, TIMEOUT_MS, header_of};
use crate::*;

/// Three voters; nodes 3 and 4 are replicas of node 0 and in contact with it.
fn with_replicas() -> Network {
    let mut network = Network::with_replicas();
    hear_primary(&mut network, &[100, 90]);
    network.run(1_000);
    network
}

/// Reports to the replicas that they are in contact with their primary now, at these offsets of its
/// replication stream.
fn hear_primary(network: &mut Network, offsets: &[u64]) {
    let at = Some(network.now_ms);
    for (replica, offset) in (3..).zip(offsets) {
        network.step(replica, &ClusterInput::PrimaryContact { at });
        network.step(replica, &ClusterInput::Offset(*offset));
    }
    network.deliver();
}

fn masters(network: &Network, seen_by: usize) -> Vec<usize> {
    (0..5).filter(|node| network.flags(seen_by, *node).contains("master")).collect()
}

/// Whether the newest slot map that a node has output marks the node itself as loading; `None` without a map.
fn is_loading(network: &mut Network, at: usize) -> Option<bool> {
    let outputs: Vec<ClusterOutput> =
        std::iter::from_fn(|| network.peers[at].cluster.next_output()).collect();
    newest_map(outputs.iter()).map(|map| map.nodes.iter().any(|node| node.is_myself && node.is_loading))
}

#[test]
fn cb_k34_a_replica_sees_itself_in_the_map_once_it_has_data() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let now = network.now();
    let mut offset = |offset: u64| {
        network.peers[3].cluster.step(now, &ClusterInput::Offset(offset));
        is_loading(&mut network, 3)
    };
    assert_eq!(offset(0), None, "no change");
    assert_eq!(offset(14), Some(false));
    assert_eq!(offset(28), None, "the map shows no offsets");
    assert_eq!(offset(0), Some(true), "a full copy has begun");
}

#[test]
fn cl_e40_e55_the_replica_with_the_most_data_takes_over() {
    let mut network = with_replicas();
    network.kill(0);
    network.run(TIMEOUT_MS + 1_000);
    for node in 1..5 {
        assert_eq!(masters(&network, node), [0, 1, 2, 3], "node {node}");
        assert!(network.flags(node, 0).contains("fail"));
    }
    assert!(network.has_logged(3, "Failover election won: I'm the new primary."));
    let info = network.peers[3].cluster.info();
    assert_eq!((info.state, info.my_epoch), (ClusterState::Ok, info.current_epoch));
    assert_eq!(network.line(4, 4).unwrap()[3], network.id(3).to_string(), "the other one follows the winner");
    let role = network.peers[3].seen.iter().any(|output| *output_role(output) == Some(RoleChange::Primary));
    assert!(role, "replication is told");
}

fn output_role(output: &ClusterOutput) -> Box<Option<RoleChange>> {
    Box::new(match output {
        ClusterOutput::Role(change) => Some(change.clone()),
        _ => None,
    })
}

#[test]
fn cl_e41_a_replica_that_has_not_heard_its_primary_for_too_long_stays_one() {
    let mut network = with_replicas();
    for replica in [3, 4] {
        network.step(replica, &ClusterInput::PrimaryContact { at: None });
    }
    network.kill(0);
    network.run(TIMEOUT_MS * 3);
    assert_eq!(masters(&network, 1), [0, 1, 2]);
    assert!(network.has_logged(3, "Disconnected from primary for longer than allowed."));
}

#[test]
fn cl_e45_votes_are_asked_for_when_the_epoch_is_durable() {
    let mut network = with_replicas();
    network.peers[3].disk = super::network::Disk::Stands;
    network.peers[4].settings.replica.no_failover = true;
    let settings = network.peers[4].settings.clone().into();
    network.step(4, &ClusterInput::Settings(&settings));
    network.kill(0);
    network.run(TIMEOUT_MS + 1_000);
    let asked = |network: &Network| network.sent(3, 1, wire::MessageType::AuthRequest);
    assert_eq!(asked(&network), 0);
    // The first write contains the FAIL, the second one the epoch of the election.
    network.write(3);
    network.write(3);
    assert_eq!(asked(&network), 1);
    assert_eq!(masters(&network, 1), [0, 1, 2], "what a takeover tells waits as well");
    network.write(3);
    network.run(200);
    assert_eq!(masters(&network, 1), [0, 1, 2, 3]);
}

#[test]
fn cl_m2_m4_a_failover_by_hand_waits_for_the_data() {
    let mut network = with_replicas();
    assert_eq!(
        network.command(0, ClusterCommand::Failover { kind: FailoverKind::Agreed }),
        ClusterAnswer::Error("ERR You should send CLUSTER FAILOVER to a replica".to_owned())
    );
    network.step(0, &ClusterInput::Offset(120));
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.run(300);
    assert!(network.has_logged(4, "Received replication offset for paused primary manual failover: 120"));
    assert_eq!(masters(&network, 1), [0, 1, 2]);
    network.step(4, &ClusterInput::Offset(120));
    network.run(1_000);
    assert_eq!(masters(&network, 1), [1, 2, 4]);
    assert_eq!(network.flags(0, 0), "myself,slave");
    // The new map must come first, because it says that the writes which waited are not executed by this
    // node.
    let seen = &network.peers[0].seen;
    let is_replicas = |output: &_| matches!(output, ClusterOutput::Slots(map) if map.my_primary.is_some());
    let map = seen.iter().position(is_replicas).unwrap();
    let unpause = seen.iter().position(|output| matches!(output, ClusterOutput::Unpause)).unwrap();
    assert!(map < unpause, "S-26");
}

#[test]
fn cl_s26_no_offset_is_told_while_writes_may_still_come() {
    let mut network = with_replicas();
    network.step(0, &ClusterInput::Offset(120));
    network.peers[0].is_busy = true;
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.step(4, &ClusterInput::Offset(120));
    network.run(1_000);
    assert!(!network.has_logged(4, "Received replication offset"), "a script has yet to write");
    assert_eq!(masters(&network, 1), [0, 1, 2]);
    // The script ends, after it has added 30 bytes to the stream.
    network.step(0, &ClusterInput::WritesPaused { offset: 150 });
    network.run(300);
    assert!(network.has_logged(4, "Received replication offset for paused primary manual failover: 150"));
    assert_eq!(masters(&network, 1), [0, 1, 2]);
    assert!(network.peers[4].cluster.awaits_own_offset());
    // The primary deletes a key during the pause, without a command.
    network.step(0, &ClusterInput::Offset(155));
    network.run(300);
    network.step(4, &ClusterInput::Offset(155));
    network.run(1_000);
    assert_eq!(masters(&network, 1), [1, 2, 4]);
    // Clients whose writes waited continue after the new role and the new map.
    let at = |wanted: &dyn Fn(&ClusterOutput) -> bool| {
        network.peers[0].seen.iter().rposition(wanted).expect("it was told")
    };
    let unpaused = at(&|output| matches!(output, ClusterOutput::Unpause));
    let is_map = |output: &ClusterOutput| matches!(output, ClusterOutput::Slots(map) if map.my_primary == Some(network.id(4)));
    let map = network.peers[0].seen.iter().position(is_map).expect("a map of a replica");
    let role = at(&|output| matches!(output, ClusterOutput::Role(RoleChange::ReplicaOf { .. })));
    assert!(role < unpaused && map < unpaused, "{role} {map} {unpaused}");
}

/// A pause ends with the primary's process; the next process executes writes at once.
#[test]
fn cl_s26_a_failover_ends_with_the_pause_that_it_was_agreed_on() {
    let mut network = with_replicas();
    network.step(0, &ClusterInput::Offset(120));
    network.peers[4].disk = super::network::Disk::Stands;
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.run(300);
    network.step(4, &ClusterInput::Offset(120));
    network.run(300);
    assert!(network.has_logged(4, "Starting a failover election"));
    let file = super::files::saved(&network, 0);
    network.kill(0);
    super::files::restart(&mut network, 0, &file);
    network.run(1_000);
    network.peers[4].disk = super::network::Disk::Writes;
    network.write(4);
    network.run(3_000);
    assert!(network.has_logged(4, "Manual failover stopped"), "{:?}", network.peers[4].log);
    assert_eq!(masters(&network, 1), [0, 1, 2]);
}

#[test]
fn cl_r1_a_replica_of_another_primary_does_not_go_on_with_its_failover() {
    let mut network = with_replicas();
    network.step(0, &ClusterInput::Offset(120));
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.run(300);
    assert!(network.peers[4].cluster.awaits_own_offset());
    let command = ClusterCommand::Failover { kind: FailoverKind::Takeover };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.run(300);
    assert_eq!(network.line(4, 4).unwrap()[3], network.id(3).to_string(), "the other one follows the winner");
    network.step(4, &ClusterInput::Offset(120));
    network.run(2_000);
    assert_eq!(masters(&network, 1), [1, 2, 3], "the winner stays");
    assert!(!network.has_logged(4, "Setting myself to primary"));
}

#[test]
fn cl_m6_a_failover_by_hand_that_never_catches_up_ends() {
    let mut network = with_replicas();
    network.step(0, &ClusterInput::Offset(120));
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.run(6_000);
    assert!(network.has_logged(4, "Manual failover timed out."));
    assert_eq!(masters(&network, 1), [0, 1, 2]);
}

#[test]
fn cl_m7_m8_force_asks_voters_and_takeover_asks_nobody() {
    let mut network = with_replicas();
    let command = ClusterCommand::Failover { kind: FailoverKind::Forced };
    assert_eq!(network.command(4, command), ClusterAnswer::Ok);
    network.run(1_000);
    assert_eq!(masters(&network, 1), [1, 2, 4]);
    // One voter of three is left, which is no majority.
    network.kill(1);
    network.kill(2);
    let command = ClusterCommand::Failover { kind: FailoverKind::Takeover };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.run(1_000);
    assert!(network.flags(3, 3).contains("master"), "{}", network.flags(3, 3));
    assert!(network.flags(4, 4).contains("slave"), "{}", network.flags(4, 4));
}

#[test]
fn cl_m5_a_second_force_leaves_the_election_as_it_is() {
    let mut network = with_replicas();
    let force = ClusterCommand::Failover { kind: FailoverKind::Forced };
    // The other voters do not answer, so the election stays open.
    network.cut(4, 1);
    network.cut(4, 2);
    assert_eq!(network.command(4, force.clone()), ClusterAnswer::Ok);
    network.run(200);
    let epoch = network.peers[4].cluster.info().current_epoch;
    assert_eq!(network.command(4, force.clone()), ClusterAnswer::Ok);
    network.run(200);
    assert_eq!(network.peers[4].cluster.info().current_epoch, epoch, "one election");
    let state = format!("epoch {epoch}, 1 of 2 votes, timeout in 4");
    assert!(network.has_logged(4, "The election of a manual failover is under way already"));
    assert!(network.has_logged(4, &state), "the second is told how far the first is");
    assert!(!network.has_logged(4, "Resetting the election"));
    let agreed = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(4, agreed), ClusterAnswer::Ok);
    network.run(200);
    assert_eq!(network.peers[4].cluster.info().current_epoch, epoch, "nor by a wish of the other kind");
    // A new order replaces an election that has ended or whose request was never sent.
    network.run(6_000);
    network.heal();
    network.run(3_000);
    assert_eq!(network.command(4, force), ClusterAnswer::Ok);
    network.run(3_000);
    assert_eq!(masters(&network, 1), [1, 2, 4]);
}

/// Two replicas of different shards have asked for votes in the same epoch, and the rival of node 3 has won
/// the election.
#[test]
fn cl_e3_an_election_gives_way_to_a_claim_of_its_epoch_and_begins_anew() {
    let mut network = with_replicas();
    network.kill(0);
    // Node 3 gets no answers, so its election stays open.
    network.cut(3, 1);
    network.cut(3, 2);
    network.kill(4);
    let requests = |network: &Network| network.sent(3, 2, wire::MessageType::AuthRequest);
    network.command(3, ClusterCommand::Failover { kind: FailoverKind::Forced });
    let epoch = network.peers[3].cluster.info().current_epoch;
    assert_eq!(requests(&network), 1);
    let other = network.id(1);
    let claim = |network: &mut Network, epoch| {
        let m = &mut network.peers[3].cluster.machine;
        let winner = m.table.find(&other).unwrap();
        crate::epochs::claimed(m, winner, epoch);
        network.heal();
        network.run(300);
    };
    claim(&mut network, ClusterEpoch(epoch.0 - 1));
    assert!(!network.has_logged(3, "Resetting the election since"));
    assert_eq!(requests(&network), 1);
    claim(&mut network, epoch);
    network.run(500);
    assert!(network.has_logged(3, "Resetting the election since"));
    assert_eq!(requests(&network), 2, "another election, long before the first one's time is over");
    assert!(network.flags(1, 3).contains("master"));
}

#[test]
fn cl_e46_a_vote_of_another_epoch_counts_for_nothing() {
    let mut network = with_replicas();
    // Two of three voters are dead, so no replica can win.
    network.kill(0);
    network.kill(1);
    network.run(TIMEOUT_MS * 2);
    let epoch = network.peers[3].cluster.info().current_epoch;
    for voter in [1, 2] {
        network.vote(voter, 3, ClusterEpoch(epoch.0 + 7));
    }
    assert_eq!(masters(&network, 3), [0, 1, 2]);
}

/// A request for a vote with the present header of a node of the network, but with these slots and this
/// offset.
fn pong_of<'a>(network: &Network, from: usize, slots: &'a SlotSet, offset: u64) -> wire::BusMessage<'a> {
    let m = &network.peers[from].cluster.machine;
    let primary = m.table.me().primary().map(|primary| m.table.node(primary).id);
    let header = wire::BusHeader {
        current_epoch: m.epochs.current,
        config_epoch: m.table.node(m.table.primary_of(m.table.my_ix())).config_epoch,
        offset,
        replica_of: primary,
        flags: wire::NodeFlags(0x1C12),
        ..header_of(network.id(from), slots)
    };
    wire::BusMessage::Full(header, wire::MessageBody::AuthRequest)
}

/// The FAIL about its primary and the offset of its sibling reach a replica together; the rank must result
/// from both messages. When it did not, 5 of 15 replicas on one host took the first rank at once.
#[test]
fn cl_e42_messages_that_come_together_decide_together_on_the_rank() {
    let mut network = with_replicas();
    // Node 4 has more data than node 3 knows of.
    let (dead, teller) = (network.id(0), network.id(1));
    let (slots, offset) = (network.peers[0].cluster.machine.table.me().slots.clone(), 500);
    let mut news = Vec::new();
    let pong = pong_of(&network, 4, &slots, offset);
    wire::write(&pong, &mut news).unwrap();
    let mut fail = Vec::new();
    let of_teller = network.peers[1].cluster.machine.table.me().slots.clone();
    let wire::BusMessage::Full(mut header, _) = pong_of(&network, 1, &of_teller, 0) else { unreachable!() };
    (header.sender, header.flags) = (teller, wire::NodeFlags(0x1C11));
    wire::write(&wire::BusMessage::Full(header, wire::MessageBody::Fail(dead)), &mut fail).unwrap();
    let now = network.now();
    let mut link_of = |from: usize| {
        let (ip, local) = (network.peers[from].ip, network.peers[3].ip);
        network.peers[3].cluster.accept(now, ip.into(), local.into()).unwrap()
    };
    let links = [link_of(1), link_of(4)];
    let scheduled = |network: &Network| {
        let mut lines = network.peers[3].log.iter().rev();
        lines.find(|line| line.contains("Start of election delayed")).cloned()
    };
    network.step_within(3, &ClusterInput::ReceivedMessage { link: links[0], bytes: &fail });
    network.step_within(3, &ClusterInput::ReceivedMessage { link: links[1], bytes: &news });
    let candidacy = &network.peers[3].cluster.machine.failover.candidacy;
    assert_eq!(candidacy.stage, crate::candidacy::ElectionStage::Idle, "the iteration goes on");
    assert!(network.peers[3].cluster.awaits_iteration_end());
    network.step_within(3, &ClusterInput::IterationEnd);
    network.deliver();
    let line = scheduled(&network).expect("an election at the end of the iteration, without a cron");
    assert!(line.contains("(rank #1, primary rank #0, offset 100)"), "{line}");
    assert!(!network.peers[3].cluster.awaits_iteration_end());
}

/// The votes of an epoch went to replicas of two shards, and neither has a majority. Usually another election
/// begins only after twice the time for which an election is open; here it must begin earlier.
#[test]
fn cl_d23_an_election_whose_votes_went_to_two_replicas_is_held_again() {
    let mut network = with_replicas();
    network.kill(4);
    // One of the two living voters receives nothing from node 3, so that no replica has a majority.
    network.cut(3, 2);
    network.kill(0);
    network.run(TIMEOUT_MS + 300);
    let requests = |network: &Network| network.sent(3, 1, wire::MessageType::AuthRequest);
    let epoch = network.peers[3].cluster.info().current_epoch;
    assert_eq!(requests(&network), 1);
    network.run(1_500);
    assert_eq!(requests(&network), 1, "nobody else asks");
    // Node 4, here of another shard, asks for votes in the same epoch.
    network.ask_for_vote(4, 3, epoch.0, super::network::Force::Yes);
    network.heal();
    network.run(1_000);
    assert!(network.has_logged(3, "neither has a majority. Starting another election."));
    assert_eq!(masters(&network, 1), [0, 1, 2, 3]);
    assert!(network.peers[3].cluster.info().my_epoch > epoch);
}

/// A replica of another shard asks for votes in each epoch of node 3, so that no election has a majority. The
/// waits between these elections must grow, because voters that write their files slowly answer late.
#[test]
fn cl_d23_each_split_election_is_waited_for_longer_than_the_one_before() {
    let mut network = with_replicas();
    network.kill(4);
    network.cut(3, 2);
    network.kill(0);
    network.run(TIMEOUT_MS + 300);
    let (mut at, mut asked) = (Vec::new(), 1);
    for ms in (0..7_000).step_by(100) {
        let epoch = network.peers[3].cluster.info().current_epoch;
        network.ask_for_vote(4, 3, epoch.0, super::network::Force::Yes);
        network.run(100);
        let now = network.sent(3, 1, wire::MessageType::AuthRequest);
        if now > asked {
            (at, asked) = ([at, vec![ms]].concat(), now);
        }
    }
    let gaps: Vec<u64> = at.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.len() >= 2 && gaps.windows(2).all(|two| two[1] > two[0] + 300), "{at:?}");
}

/// A voter has refused its vote, and sends an epoch of the dead primary that this replica does
/// not know (V#2169).
#[test]
fn cl_e50_a_replica_that_was_refused_for_its_primarys_epoch_asks_again_at_once() {
    let mut network = with_replicas();
    network.kill(4);
    network.cut(3, 0);
    assert!(matches!(network.command(0, ClusterCommand::BumpEpoch), ClusterAnswer::Status(_)));
    network.run(300);
    network.kill(0);
    network.run(TIMEOUT_MS + 1_000);
    assert!(network.has_logged(1, "> reqConfigEpoch ("));
    assert!(network.has_logged(3, "asked with an old epoch of my primary"));
    assert_eq!(masters(&network, 1), [0, 1, 2, 3]);
}

/// K-4: no simulated network delivers a vote twice, so this test does.
#[test]
fn cl_e46_a_voter_counts_once() {
    let mut network = with_replicas();
    network.kill(4);
    network.cut(3, 1);
    network.cut(3, 2);
    network.kill(0);
    network.run(TIMEOUT_MS);
    network.command(3, ClusterCommand::Failover { kind: FailoverKind::Forced });
    let epoch = network.peers[3].cluster.info().current_epoch;
    network.vote(1, 3, epoch);
    network.vote(1, 3, epoch);
    assert!(!network.has_logged(3, "Failover election won"));
    network.vote(2, 3, epoch);
    assert!(network.has_logged(3, "Failover election won"));
}

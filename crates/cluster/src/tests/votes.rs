//! Tests of votes of a node, and of pauses of a node as a primary.
use super::network::{Disk, Force, Network, TIMEOUT_MS, header_of};
use crate::machine::ManualFailover;
use crate::wire::MessageType;
use crate::*;

/// Three voters, of which node 0 has failed; node 3 is its replica.
fn with_dead_primary() -> Network {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    network.kill(0);
    network.run(TIMEOUT_MS + 1_500);
    assert_eq!(network.flags(1, 0), "master,fail");
    network
}

#[test]
fn cl_e50_e51_one_vote_in_an_epoch() {
    let mut network = with_dead_primary();
    network.ask_for_vote(3, 1, 10, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 1);
    assert!(network.has_logged(1, "Failover auth granted to"));
    network.ask_for_vote(3, 1, 10, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 1);
    assert!(network.has_logged(1, "already voted for epoch 10"));
    network.ask_for_vote(3, 1, 9, Force::No);
    assert!(network.has_logged(1, "reqEpoch (9) < curEpoch(10)"));
    network.ask_for_vote(3, 1, 11, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 2, "no waiting time between epochs");
}

/// Whether a node votes for a replica that asks in an epoch.
fn is_granted(network: &mut Network, from: usize, to: usize, epoch: ClusterEpoch) -> bool {
    let before = network.sent(to, from, MessageType::AuthAck);
    network.ask_for_vote(from, to, epoch.0, Force::Yes);
    network.sent(to, from, MessageType::AuthAck) > before
}

#[test]
fn cl_s20_who_takes_over_has_the_vote_of_the_old_primary_and_not_one_more() {
    for kind in [FailoverKind::Forced, FailoverKind::Takeover] {
        let mut network = Network::cluster(5, 3);
        for (replica, of) in [(3, 0), (4, 1)] {
            let node = network.id(of);
            network.command(replica, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
        }
        network.run(1_000);
        assert_eq!(network.command(3, ClusterCommand::Failover { kind }), ClusterAnswer::Ok);
        network.run(1_000);
        assert_eq!(network.flags(3, 3), "myself,master");
        // In a forced failover node 0 has voted in this epoch, and node 3 has taken node 0's place by now.
        let epoch = network.peers[3].cluster.info().current_epoch;
        assert!(!is_granted(&mut network, 4, 3, epoch), "{kind:?}: two votes of one place");
        assert!(network.has_logged(3, &format!("already voted for epoch {epoch}")));
        let (_, file) = network.peers[3].written.last().unwrap();
        assert!(file.contains(&format!("lastVoteEpoch {epoch}")), "{file}");
        assert!(is_granted(&mut network, 4, 3, epoch.next()));
    }
}

#[test]
fn cl_s20_who_gets_the_slots_of_a_voter_does_not_vote_in_its_epoch() {
    let mut network = Network::cluster(5, 3);
    let (source, own) = (network.id(0), network.id(3));
    let node = network.id(1);
    network.command(4, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let slot = HashSlot::new(3).unwrap();
    for action in [SlotAction::Importing(source.as_bytes()), SlotAction::Node(own.as_bytes())] {
        let command = ClusterCommand::SetSlot(SetSlot { slot, action, keys: HasKeys::No });
        assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    }
    let epoch = network.peers[3].cluster.info().current_epoch;
    assert!(!is_granted(&mut network, 4, 3, epoch));
    assert!(is_granted(&mut network, 4, 3, epoch.next()));
}

#[test]
fn cl_e53_a_vote_waits_for_its_file() {
    let mut network = with_dead_primary();
    network.peers[1].disk = Disk::Stands;
    network.ask_for_vote(3, 1, 10, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 0, "S-21, S-23");
    network.run(500);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 0);
    let (_, file) = network.peers[1].standing.clone().unwrap();
    // The write under way may have begun before the vote, so a second one is completed, too.
    network.write(1);
    if !file.contains("lastVoteEpoch 10") {
        assert_eq!(network.sent(1, 3, MessageType::AuthAck), 0);
        network.write(1);
    }
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 1);
    assert!(network.peers[1].written.last().unwrap().1.contains("lastVoteEpoch 10"));
}

#[test]
fn cl_n23_a_node_whose_write_failed_gives_no_vote() {
    let mut network = with_dead_primary();
    network.configure(1, |settings| settings.save_behavior = SaveBehavior::BestEffort);
    network.peers[1].disk = Disk::Fails;
    network.ask_for_vote(3, 1, 10, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 0, "E-53: the vote is dropped");
    network.ask_for_vote(3, 1, 11, Force::No);
    assert!(network.has_logged(1, "it is not safe to vote in this moment"));
    network.run(3_000);
    let is_said = |line: &&String| line.ends_with("writing the cluster config file to disk failed.");
    assert_eq!(network.peers[1].log.iter().filter(is_said).count(), 1, "N-22: once in 30 s");
    network.peers[1].disk = Disk::Writes;
    network.run(1_500);
    network.ask_for_vote(3, 1, 12, Force::No);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 1, "one write has succeeded");
}

#[test]
fn cl_e53_a_write_that_takes_longer_than_t_bars_votes() {
    let mut network = with_dead_primary();
    network.peers[1].disk = Disk::Stands;
    network.ask(1, ClusterCommand::SaveConfig);
    network.run(TIMEOUT_MS - 500);
    network.ask_for_vote(3, 1, 10, Force::No);
    assert!(network.has_logged(1, "Failover auth granted"));
    network.run(1_000);
    network.ask_for_vote(3, 1, 11, Force::No);
    assert!(network.has_logged(1, "it is not safe to vote in this moment"));
}

#[test]
fn cl_n22_a_failed_write_ends_the_process_with_sync() {
    let mut network = Network::of(1);
    network.peers[0].disk = Disk::Fails;
    let slots = [HashSlot::new(0).unwrap()];
    assert_eq!(network.ask(0, ClusterCommand::AddSlots { slots: &slots }), None);
    let ends = network.peers[0]
        .seen
        .iter()
        .any(|output| matches!(output, ClusterOutput::End(ExitReason::ConfigNotSaved)));
    assert!(ends);
}

#[test]
fn cl_e50_refusals() {
    let mut network = with_dead_primary();
    network.ask_for_vote(2, 1, 10, Force::No);
    assert!(network.has_logged(1, "it is a primary node"));
    let ip = network.peers[0].ip;
    network.revive(0, ip);
    network.run(4 * TIMEOUT_MS);
    network.ask_for_vote(3, 1, 11, Force::No);
    assert!(network.has_logged(1, "its primary is up"));
    network.ask_for_vote(3, 1, 12, Force::Yes);
    assert_eq!(network.sent(1, 3, MessageType::AuthAck), 1, "FORCEACK");
}

#[test]
fn cl_e50_a_candidate_with_old_slots_gets_an_update() {
    let mut network = with_dead_primary();
    let before = network.sent(1, 3, MessageType::Update);
    let m = &mut network.peers[1].cluster.machine;
    let ix = m.table.iter().find(|(_, node)| node.is_failed()).unwrap().0;
    m.table.node_mut(ix).config_epoch = ClusterEpoch(4);
    m.epochs.current = ClusterEpoch(4);
    network.ask_for_vote(3, 1, 10, Force::No);
    assert!(network.has_logged(1, "slot 0 epoch (4) > reqConfigEpoch (1)"));
    assert!(network.has_logged(1, "has old slots configuration, sending an UPDATE message about"));
    assert_eq!(network.sent(1, 3, MessageType::Update), before + 1);
}

#[test]
fn cl_e51_without_a_link_no_vote_is_spent() {
    let mut network = with_dead_primary();
    network.kill(3);
    let before = network.peers[1].cluster.machine.epochs.last_vote;
    network.ask_for_vote(3, 1, 10, Force::No);
    assert_eq!(network.peers[1].cluster.machine.epochs.last_vote, before);
}

#[test]
fn cl_m3_m6_mfstart_pauses_the_primary_for_a_time() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let slots = SlotSet::EMPTY;
    let header = |sender, replica_of| wire::BusHeader {
        current_epoch: ClusterEpoch(4),
        config_epoch: ClusterEpoch(1),
        replica_of: Some(replica_of),
        flags: wire::NodeFlags(0x1C12),
        ..header_of(sender, &slots)
    };
    let start = wire::MessageBody::ManualFailoverStart;
    let (id0, id2, id3) = (network.id(0), network.id(2), network.id(3));
    network.inject(2, 0, &wire::BusMessage::Full(header(id2, id0), start.clone()));
    assert_eq!(network.peers[0].cluster.machine.failover.paused, ManualFailover::Off, "not of my replicas");
    network.inject(3, 0, &wire::BusMessage::Full(header(id3, id0), start));
    let until = network.peers[0].seen.iter().find_map(|output| match output {
        ClusterOutput::PauseWrites { until } => Some(*until),
        _ => None,
    });
    assert_eq!(until, Some(network.now_ms + 10_000));
    assert!(network.has_logged(0, "Manual failover requested by replica"));
    network.run(4_900);
    assert_ne!(network.peers[0].cluster.machine.failover.paused, ManualFailover::Off);
    network.run(300);
    assert!(network.has_logged(0, "Manual failover timed out."));
    assert!(network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::Unpause)));
}

//! Tests of atomic moves of slots away from a node (specification of the slots, section 6; ids A-…).

use super::network::{Force, Network};
use crate::node::NodeHealth;
use crate::*;

/// Slots of node 0 that move to node 1 in most tests.
const SLOTS: [(u16, u16); 2] = [(100, 101), (7, 7)];
/// `cluster-manual-failover-timeout` of these tests, in ms.
const PAUSE_MS: u64 = 5_000;

fn slot(number: u16) -> HashSlot {
    HashSlot::new(number).unwrap()
}

fn group(network: &Network, ranges: &[(u16, u16)], to: usize) -> SlotsToMove {
    let ranges = ranges.iter().map(|(first, last)| (slot(*first), slot(*last))).collect();
    SlotsToMove { ranges, target: network.id(to) }
}

fn step(network: &mut Network, input: MigrationInput<'_>) {
    network.step(0, &ClusterInput::Migration(input));
    network.deliver();
}

/// A cluster of three primaries, in which a move from node 0 to node 1 has begun.
fn begun() -> (Network, JobName) {
    begun_in(Network::cluster(3, 3))
}

fn begun_in(mut network: Network) -> (Network, JobName) {
    network.configure(0, |settings| {
        settings.migration.repl_timeout_ms = 10_000;
        settings.manual_failover_timeout_ms = PAUSE_MS;
    });
    let groups = [group(&network, &SLOTS, 1)];
    step(&mut network, MigrationInput::Begin { client: "test", groups: &groups });
    let name = network.peers[0].cluster.migrations().next().unwrap().name;
    (network, name)
}

/// An event that brings a job into its next state: an input, or a message from the target. `COURSE` has the
/// events of a move up to the grant, in order, each with the state that follows.
#[derive(Clone, Copy, Debug)]
enum Event {
    Is(ExportInput<'static>),
    Says(SyncMessage),
}

const COURSE: [(Event, &str); 10] = [
    (Event::Is(ExportInput::Handshake(ExportHandshake::SendingAuthCommand)), "sending-auth-command"),
    (Event::Is(ExportInput::Handshake(ExportHandshake::ReadingAuthResponse)), "reading-auth-response"),
    (
        Event::Is(ExportInput::Handshake(ExportHandshake::SendingEstablishCommand)),
        "sending-establish-command",
    ),
    (
        Event::Is(ExportInput::Handshake(ExportHandshake::ReadingEstablishResponse)),
        "reading-establish-response",
    ),
    (Event::Is(ExportInput::Established), "waiting-to-snapshot"),
    (Event::Is(ExportInput::StreamBegan), "snapshotting"),
    (Event::Is(ExportInput::ImageSent), "replicating"),
    (Event::Says(SyncMessage::RequestPause), "waiting-to-pause"),
    (Event::Is(ExportInput::Held { left: 0 }), "failover-paused"),
    (Event::Says(SyncMessage::RequestFailover), "failover-granted"),
];

fn take_place(network: &mut Network, job: JobName, event: Event) {
    match event {
        Event::Is(input) => step(network, MigrationInput::Export { job, input }),
        Event::Says(word) => step(network, MigrationInput::Said { job, word }),
    }
}

/// A network with a move whose job is in the state called `state`.
fn in_state(state: &str) -> (Network, JobName) {
    let (mut network, job) = begun();
    bring_to(&mut network, job, state);
    (network, job)
}

fn bring_to(network: &mut Network, job: JobName, state: &str) {
    for (event, after) in COURSE {
        if shown(network).0 == state {
            break;
        }
        take_place(network, job, event);
        assert_eq!(shown(network).0, after);
    }
    assert_eq!(shown(network).0, state);
    orders(network);
}

/// State and message of the newest job, as commands show them.
fn shown(network: &Network) -> (String, String) {
    let row = network.peers[0].cluster.migrations().next().unwrap();
    (row.state.to_owned(), row.message.to_owned())
}

/// The outputs of node 0 that concern moves of slots, since the last call.
fn orders(network: &mut Network) -> Vec<MigrationOrder> {
    let seen = std::mem::take(&mut network.peers[0].seen);
    let orders = seen.into_iter().filter_map(|output| match output {
        ClusterOutput::Migration(order) => Some(order),
        _ => None,
    });
    orders.collect()
}

fn owner(network: &Network, of: usize, number: u16) -> Option<NodeId> {
    let table = &network.peers[of].cluster.machine.table;
    table.owner(slot(number)).map(|ix| table.node(ix).id)
}

/// Makes node `by` take the slots and claim them in its messages, with its present epoch.
fn claim(network: &mut Network, by: usize, ranges: &[(u16, u16)]) {
    let m = &mut network.peers[by].cluster.machine;
    let ix = m.table.my_ix();
    for number in ranges.iter().flat_map(|(first, last)| *first..=*last) {
        m.table.unbind(slot(number));
        m.table.bind(slot(number), ix);
    }
    m.save();
    m.announce();
    network.step(by, &ClusterInput::Offset(1));
    network.deliver();
    network.run(300);
}

#[test]
fn cb_a3_an_export_goes_through_its_states_and_orders_what_each_needs() {
    let (mut network, job) = begun();
    assert_eq!(shown(&network).0, "connecting");
    let address = &network.peers[1].cluster.machine.table.me().place.address;
    let connect = MigrationOrder::Connect { job, ip: address.ip.clone(), port: address.tcp_port };
    assert_eq!(orders(&mut network), [connect]);
    let say = |word| MigrationOrder::Say { job, word };
    for (event, after) in COURSE {
        take_place(&mut network, job, event);
        assert_eq!(shown(&network).0, after);
        let expected: &[MigrationOrder] = match after {
            "waiting-to-snapshot" => &[say(SyncMessage::Ack), MigrationOrder::Stream { job }],
            "waiting-to-pause" => &[MigrationOrder::Hold { job }],
            "failover-granted" => &[say(SyncMessage::FailoverGranted)],
            _ => &[],
        };
        assert_eq!(orders(&mut network), expected, "{after}");
    }
    claim(&mut network, 1, &SLOTS);
    assert_eq!(shown(&network), ("success".to_owned(), String::new()));
    assert_eq!(orders(&mut network), [MigrationOrder::EndExport { job }]);
    assert_eq!(owner(&network, 0, 100), Some(network.id(1)));
}

#[test]
fn cb_a10_slots_leave_that_are_mine_and_in_no_other_move() {
    let (network, _) = begun();
    let node = &network.peers[0].cluster;
    let slots = |first: u16, last: u16| {
        let mut slots = SlotSet::EMPTY;
        (first..=last).for_each(|number| _ = slots.insert(slot(number)));
        slots
    };
    assert_eq!(node.may_export(&slots(1, 6)), Ok(()));
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(node.may_export(&slots(6, 8)), error("ERR I am already migrating slot 7."));
    assert_eq!(node.may_export(&slots(9_000, 9_000)), error("ERR Slots are not served by this node."));
    let id = |text: &str| node.export_target(text.as_bytes());
    let unknown = "0".repeat(40);
    assert_eq!(id("abc"), Err("ERR Invalid node name: abc".to_owned()));
    assert_eq!(id(&unknown), Err(format!("ERR Unknown node name: {unknown}")));
    let me = network.id(0).to_string();
    assert_eq!(id(&me), Err("ERR Target node can not be this node.".to_owned()));
    assert_eq!(id(&network.id(2).to_string()), Ok(network.id(2)));
}

#[test]
fn cb_a15_groups_of_one_command_stand_in_its_order_and_newer_commands_ahead() {
    let (mut network, _) = begun();
    let groups = [group(&network, &[(200, 200)], 1), group(&network, &[(201, 201)], 2)];
    step(&mut network, MigrationInput::Begin { client: "test", groups: &groups });
    let rows: Vec<_> = network.peers[0].cluster.migrations().collect();
    let ranges: Vec<_> = rows.iter().map(|row| row.slot_ranges.as_str()).collect();
    assert_eq!(ranges, ["200-200", "201-201", "100-101 7-7"]);
    assert_eq!(rows[1].nodes, Some((network.id(2), network.id(0))));
    assert!(rows.iter().all(|row| row.operation == "EXPORT"));
    let names: std::collections::BTreeSet<_> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), 3, "each has a name of its own");
}

#[test]
fn cb_a13_a_cancel_ends_every_move_but_one_whose_slots_may_have_gone() {
    for (_, state) in COURSE {
        let (mut network, job) = in_state(state);
        step(&mut network, MigrationInput::Cancel { client: "test" });
        if state == "failover-granted" {
            assert_eq!((shown(&network).0.as_str(), orders(&mut network)), (state, vec![]));
            claim(&mut network, 1, &SLOTS);
            assert_eq!(shown(&network).0, "success");
        } else {
            assert_eq!(shown(&network), ("cancelled".to_owned(), String::new()), "{state}");
            assert_eq!(orders(&mut network), [MigrationOrder::EndExport { job }]);
        }
    }
}

#[test]
fn cb_a22_words_out_of_turn_fail_the_move() {
    let words = [
        SyncMessage::SnapshotEof,
        SyncMessage::RequestPause,
        SyncMessage::Paused,
        SyncMessage::RequestFailover,
    ];
    for (_, state) in COURSE.into_iter().skip(4) {
        for word in words {
            let (mut network, job) = in_state(state);
            step(&mut network, MigrationInput::Said { job, word });
            let is_in_turn = match word {
                SyncMessage::RequestPause => ["snapshotting", "replicating"].contains(&state),
                SyncMessage::RequestFailover => state == "failover-paused",
                _ => false,
            };
            let failed = ("failed".to_owned(), "Unexpected state machine transition".to_owned());
            assert_eq!(shown(&network) != failed, is_in_turn, "{word:?} in {state}");
        }
    }
}

#[test]
fn cb_a41_a42_a_target_that_is_not_reached_or_refuses_fails_the_move() {
    let (mut network, job) = in_state("reading-establish-response");
    let why = "Received error during handshake to target: -ERR Slot 1 has no node served.";
    step(&mut network, MigrationInput::Export { job, input: ExportInput::NotConnected(why) });
    assert_eq!(shown(&network), ("failed".to_owned(), why.to_owned()));
    assert_eq!(orders(&mut network), [MigrationOrder::EndExport { job }]);
}

#[test]
fn cb_a45_a_pause_can_be_prevented_and_begins_when_it_no_longer_is() {
    let (mut network, job) = in_state("replicating");
    network.configure(0, |settings| settings.debug.pauses_of_exports = Switch::Disabled);
    step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestPause });
    assert_eq!(orders(&mut network), []);
    network.configure(0, |settings| settings.debug.pauses_of_exports = Switch::Runs);
    assert_eq!(orders(&mut network), [MigrationOrder::Hold { job }]);
}

#[test]
fn cb_a47_a_pause_that_is_over_ends_the_move() {
    let (mut network, _) = in_state("failover-paused");
    network.run(2 * PAUSE_MS + 200);
    assert_eq!(shown(&network).1, "Timed out before streaming completed");
    let (mut network, job) = in_state("failover-granted");
    network.run(2 * PAUSE_MS + 200);
    assert!(network.has_logged(0, "Write loss risk!"));
    assert_eq!(
        shown(&network).1,
        "Unpaused before migration completed (migration may have succeeded with lost writes)"
    );
    let ends = orders(&mut network).into_iter().filter(|order| *order == MigrationOrder::EndExport { job });
    assert_eq!(ends.count(), 1);
}

#[test]
fn cb_a47_who_may_claim_has_two_seconds_for_it() {
    let (mut network, job) = in_state("failover-paused");
    network.run(2 * PAUSE_MS - 300);
    step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestFailover });
    network.run(1_500);
    assert_eq!(shown(&network).0, "failover-granted");
    network.run(1_000);
    assert_eq!(shown(&network).0, "failed");
}

#[test]
fn cb_a47_a_lost_connection_is_no_failure_once_the_slots_may_be_claimed() {
    for (_, state) in COURSE {
        let (mut network, job) = in_state(state);
        step(&mut network, MigrationInput::LinkLost { job });
        let expected = if state == "failover-granted" { state } else { "failed" };
        assert_eq!(shown(&network).0, expected);
    }
}

#[test]
fn cb_a48_a_claim_counts_at_any_epoch_once_it_was_granted_and_not_before() {
    for (state, is_taken) in [("failover-paused", false), ("failover-granted", true)] {
        let (mut network, _) = in_state(state);
        // The source's epoch is above the one with which the target claims.
        for _ in 0..3 {
            network.command(0, ClusterCommand::BumpEpoch);
        }
        network.run(300);
        let epochs = [0, 1].map(|node| network.peers[node].cluster.info().my_epoch);
        assert!(epochs[0] > epochs[1]);
        claim(&mut network, 1, &SLOTS);
        let owns = owner(&network, 0, 100) == Some(network.id(1));
        assert_eq!((owns, shown(&network).0 == "success"), (is_taken, is_taken), "{state}");
    }
}

#[test]
fn cb_a60_slots_that_go_to_another_owner_fail_the_move() {
    for (_, state) in COURSE {
        let (mut network, _) = in_state(state);
        network.command(2, ClusterCommand::BumpEpoch);
        claim(&mut network, 2, &[(100, 100)]);
        assert_eq!(shown(&network).1, "Slots are no longer owned by myself", "{state}");
    }
}

#[test]
fn cb_a60_a_target_that_is_forgotten_ends_the_move_and_the_slots_stay() {
    let (mut network, job) = in_state("replicating");
    let id = network.id(1);
    network.command(0, ClusterCommand::Forget { node: id.as_bytes() });
    assert_eq!(shown(&network).0, "failed");
    assert_eq!(orders(&mut network), [MigrationOrder::EndExport { job }]);
    assert_eq!(owner(&network, 0, 100), Some(network.id(0)));
}

#[test]
fn cb_a60_silence_and_a_flush_end_the_move() {
    let (mut network, _) = in_state("replicating");
    network.run(10_300);
    assert_eq!(shown(&network).1, "Timed out after too long with no interaction");
    let (mut network, _) = in_state("failover-paused");
    step(&mut network, MigrationInput::Flushed);
    assert_eq!(shown(&network).1, "Data was flushed");
}

#[test]
fn cb_a47_a_flush_does_not_end_a_move_whose_slots_may_be_the_targets() {
    let (mut network, _) = in_state("failover-granted");
    step(&mut network, MigrationInput::Flushed);
    assert_eq!((shown(&network).0.as_str(), orders(&mut network)), ("failover-granted", vec![]));
    claim(&mut network, 1, &SLOTS);
    assert_eq!(shown(&network).0, "success");
}

#[test]
fn cb_a48_slots_that_may_be_the_targets_are_not_unbound_by_hand() {
    for (_, state) in COURSE {
        let (mut network, _) = in_state(state);
        let refused = ClusterAnswer::Error("ERR Slot export in progress.".to_owned());
        let is_granted = state == "failover-granted";
        let others = network.command(0, ClusterCommand::DelSlots { slots: &[slot(8)] });
        assert_eq!(others, ClusterAnswer::Ok, "{state}");
        let answer = network.command(0, ClusterCommand::DelSlots { slots: &[slot(8), slot(7)] });
        assert_ne!(answer, ClusterAnswer::Ok, "{state}: slot 8 has no owner");
        let answer = network.command(0, ClusterCommand::DelSlots { slots: &[slot(7)] });
        assert_eq!(answer == refused, is_granted, "{state}");
        let answer = network.command(0, ClusterCommand::FlushSlots { data: HasKeys::No });
        assert_eq!(answer == refused, is_granted, "{state}");
    }
}

/// Node 3 follows node 0, the source of a move, and is ordered to take over.
fn with_a_replica_that_takes_over(state: &str) -> (Network, JobName) {
    let mut network = Network::with_replicas();
    // The replica waits for data that it lacks.
    network.step(0, &ClusterInput::Offset(120));
    network.step(3, &ClusterInput::Offset(50));
    network.run(1_000);
    let (mut network, job) = begun_in(network);
    bring_to(&mut network, job, state);
    let command = ClusterCommand::Failover { kind: FailoverKind::Agreed };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.deliver();
    (network, job)
}

#[test]
fn cb_a64_a_source_votes_for_its_replica_or_grants_slots_but_not_both() {
    for (state, is_voted_for) in [("failover-paused", true), ("failover-granted", false)] {
        let (mut network, job) = begun_in(Network::with_replicas());
        bring_to(&mut network, job, state);
        network.ask_for_vote(3, 0, 50, Force::Yes);
        assert_eq!(network.sent(0, 3, wire::MessageType::AuthAck) == 1, is_voted_for, "{state}");
        assert_eq!(shown(&network).1 == "Slots are no longer owned by myself", is_voted_for, "{state}");
        assert_eq!(network.has_logged(0, "are granted to another node)"), !is_voted_for);
    }
}

#[test]
fn cb_a64_nothing_is_granted_while_a_replica_may_claim_by_the_vote_of_the_source() {
    let (mut network, job) = begun_in(Network::with_replicas());
    bring_to(&mut network, job, "failover-paused");
    network.ask_for_vote(3, 0, 50, Force::Yes);
    // The replica that got the vote is slow to announce its claim, and another move asks for its failover
    // before that.
    let (mut network, job) = begun_in(network);
    bring_to(&mut network, job, "failover-paused");
    step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestFailover });
    assert_eq!(shown(&network), ("failed".to_owned(), "Slots are no longer owned by myself".to_owned()));
}

/// `cargo xtask histories --moving` found this: a primary that had been out of contact got a slot just when
/// its replica was elected, and the replica had none of the slot's keys.
#[test]
fn cb_a64_nothing_is_granted_to_a_target_in_whose_place_a_replica_may_be_elected() {
    for health in [NodeHealth::PFail, NodeHealth::Fail { since: 0 }] {
        let (mut network, job) = in_state("failover-paused");
        let (target, table) = (network.id(1), &mut network.peers[0].cluster.machine.table);
        let ix = table.find(&target).unwrap();
        table.set_health(ix, health);
        step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestFailover });
        assert_eq!(shown(&network), ("failed".to_owned(), "Target node is failing".to_owned()));
        assert_eq!(owner(&network, 0, 100), Some(network.id(0)));
    }
}

/// A target that has refused claims no slots, so writers need not wait as long as after a lost link.
#[test]
fn cb_a47_a_target_that_refuses_ends_the_move_at_once() {
    for state in ["failover-paused", "failover-granted"] {
        let (mut network, job) = in_state(state);
        step(&mut network, MigrationInput::Said { job, word: SyncMessage::Refused });
        let (shown, why) = shown(&network);
        assert_eq!(shown, "failed", "{state}");
        assert!(why.starts_with("The target has refused the slots."), "{why}");
        assert_eq!(owner(&network, 0, 100), Some(network.id(0)));
        step(&mut network, MigrationInput::LinkLost { job });
        assert!(!crate::migration::export::has_granted(&network.peers[0].cluster.machine), "{state}");
    }
}

#[test]
fn cb_a64_a_primary_that_has_followed_its_winner_and_taken_over_again_grants_slots() {
    let mut network = Network::with_replicas();
    network.ask_for_vote(3, 0, 50, Force::Yes);
    for node in [3, 0] {
        network.take_over(node);
        network.run(300);
        assert_eq!(owner(&network, 0, 100), Some(network.id(node)));
    }
    let (mut network, job) = begun_in(network);
    bring_to(&mut network, job, "failover-paused");
    step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestFailover });
    assert_eq!(shown(&network).0, "failover-granted");
}

#[test]
fn cb_a64_a_replica_takes_over_by_hand_or_slots_are_granted_but_not_both() {
    let (mut network, job) = with_a_replica_that_takes_over("failover-paused");
    assert!(network.has_logged(0, "Manual failover requested by replica"));
    step(&mut network, MigrationInput::Said { job, word: SyncMessage::RequestFailover });
    assert_eq!(shown(&network), ("failed".to_owned(), "A manual failover is in progress".to_owned()));
    let is_paused = |output: &ClusterOutput| matches!(output, ClusterOutput::PauseWrites { .. });
    let (mut network, _) = with_a_replica_that_takes_over("failover-granted");
    assert!(network.has_logged(0, "was refused: slots are moving to another node. Try again later."));
    assert!(!network.peers[0].seen.iter().any(is_paused));
    let replica = network.id(3);
    let hands_over = |network: &mut Network| {
        let now = network.now();
        network.peers[0].cluster.begin_handover(now, &[replica])
    };
    assert_eq!(hands_over(&mut network), None);
    claim(&mut network, 1, &SLOTS);
    assert_eq!(shown(&network).0, "success");
    assert_eq!(hands_over(&mut network), Some(replica));
}

#[test]
fn cb_a71_acks_are_said_each_second_from_the_agreement_to_the_grant() {
    for (state, expected) in [
        ("reading-establish-response", 0),
        ("snapshotting", 3),
        ("failover-paused", 3),
        ("failover-granted", 0),
    ] {
        let (mut network, job) = in_state(state);
        network.run(3_050);
        let ack = MigrationOrder::Say { job, word: SyncMessage::Ack };
        let said = orders(&mut network).into_iter().filter(|order| *order == ack).count();
        assert_eq!(said, expected, "{state}");
    }
}

#[test]
fn cb_a49_the_map_is_that_of_after_when_writers_go_on() {
    let (mut network, job) = in_state("failover-granted");
    claim(&mut network, 1, &SLOTS);
    let seen = &network.peers[0].seen;
    let map = seen.iter().position(|output| matches!(output, ClusterOutput::Slots(_))).unwrap();
    let is_end = |output: &ClusterOutput| matches!(output, ClusterOutput::Migration(MigrationOrder::EndExport { job: ended }) if *ended == job);
    assert!(map < seen.iter().position(is_end).unwrap());
}

#[test]
fn cb_a47_a_stream_that_breaks_after_the_grant_changes_nothing() {
    for (state, after) in [("failover-paused", "failed"), ("failover-granted", "failover-granted")] {
        let (mut network, job) = in_state(state);
        step(&mut network, MigrationInput::Export { job, input: ExportInput::StreamBroke("full") });
        assert_eq!(shown(&network).0, after);
    }
}

#[test]
fn cb_a23_a_name_belongs_to_one_job() {
    let (network, job) = begun();
    let ranges = [(slot(9_000), slot(9_000))].into();
    let import = SlotMove { name: job, source: Some(network.id(1)), ranges };
    let taken = "ERR Slot is already being imported on the target by a different migration";
    assert_eq!(network.peers[0].cluster.may_import(&import), Err(taken.to_owned()));
}

/// A target that restarts has the claim in its file but no longer knows the source of the slots, so no claim
/// of the source may beat its own.
#[test]
fn cb_a47_slots_that_were_granted_are_not_claimed_until_the_move_fails() {
    let claims = |network: &Network| {
        let table = &network.peers[2].cluster.machine.table;
        let ix = table.find(&network.id(0)).unwrap();
        SLOTS.iter().all(|(first, _)| table.claimed_slots(ix).contains(slot(*first)))
    };
    let (mut network, job) = in_state("failover-paused");
    assert!(claims(&network));
    take_place(&mut network, job, Event::Says(SyncMessage::RequestFailover));
    network.run(300);
    assert!(!claims(&network), "whatever epoch this node makes, the target's claim stands");
    assert_eq!(owner(&network, 2, 100), Some(network.id(0)), "nobody else has claimed them");
    let map = newest_map(network.peers[0].seen.iter());
    assert!(map.is_none_or(|map| map.postponed.is_empty()), "reads are served");
    network.run(2 * PAUSE_MS + 300);
    assert_eq!(shown(&network).0, "failed");
    assert!(claims(&network));
}

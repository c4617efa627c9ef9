//! Tests of atomic moves of slots to a node (specification of the slots, section 6; ids A-…).

use super::files::{restart, saved};
use super::network::{Disk, Network, header_of};
use crate::*;

/// The name of the job of most tests, which moves two slots of node 1 to node 0.
const JOB: JobName = JobName([b'a'; 40]);
const FIRST: u16 = 8_200;

fn slot(number: u16) -> HashSlot {
    HashSlot::new(number).unwrap()
}

fn job(network: &Network, source: usize, ranges: &[(u16, u16)]) -> SlotMove {
    let ranges = ranges.iter().map(|(first, last)| (slot(*first), slot(*last))).collect();
    SlotMove { name: JOB, source: Some(network.id(source)), ranges }
}

fn step(network: &mut Network, input: MigrationInput<'_>) {
    network.step(0, &ClusterInput::Migration(input));
    network.deliver();
}

fn say(network: &mut Network, words: &[SyncMessage]) {
    words.iter().for_each(|word| step(network, MigrationInput::Said { job: JOB, word: *word }));
}

/// Two primaries that share the slots; the job of the move has begun at node 0.
fn begun() -> Network {
    let mut network = Network::cluster(2, 2);
    let job = job(&network, 1, &[(FIRST, FIRST), (8_300, 8_300)]);
    assert_eq!(network.peers[0].cluster.may_import(&job), Ok(()));
    network.configure(0, |settings| settings.migration.repl_timeout_ms = 10_000);
    step(&mut network, MigrationInput::Established(&job));
    network
}

/// The messages of a source that bring its target's job into the next state, in order.
const WORDS: [SyncMessage; 4] =
    [SyncMessage::Ack, SyncMessage::SnapshotEof, SyncMessage::Paused, SyncMessage::FailoverGranted];

fn state(network: &Network) -> String {
    network.peers[0].cluster.migrations().next().map(|row| row.state.to_owned()).unwrap_or_default()
}

fn message(network: &Network) -> String {
    network.peers[0].cluster.migrations().next().map(|row| row.message.to_owned()).unwrap_or_default()
}

/// The outputs of node 0 that concern moves of slots, since the last call.
fn orders(network: &mut Network) -> Vec<MigrationOrder> {
    let seen = std::mem::take(&mut network.peers[0].seen);
    seen.into_iter()
        .filter_map(|output| match output {
            ClusterOutput::Migration(order) => Some(order),
            _ => None,
        })
        .collect()
}

fn owner(network: &Network, of: usize, number: u16) -> Option<NodeId> {
    let table = &network.peers[of].cluster.machine.table;
    table.owner(slot(number)).map(|ix| table.node(ix).id)
}

const CLOSE: MigrationOrder = MigrationOrder::Close { job: JOB };

/// The output with which a failing job ends its connection after the first `said` messages of [`WORDS`]. A
/// source that already holds writes back is sent a refusal.
fn close_after(said: usize) -> MigrationOrder {
    if said < 3 { CLOSE } else { MigrationOrder::Refuse { job: JOB } }
}

fn said(word: SyncMessage) -> MigrationOrder {
    MigrationOrder::Say { job: JOB, word }
}

fn clean_up(why: &'static str) -> MigrationOrder {
    MigrationOrder::CleanUp { job: JOB, why }
}

#[test]
fn cb_a22_an_import_goes_through_its_states_and_asks_the_source_to_go_on() {
    let mut network = begun();
    assert_eq!(state(&network), "waiting-for-ack");
    assert!(network.has_logged(0, "New slot import job created: {name: aaaa"));
    for (word, after, answer) in [
        (SyncMessage::Ack, "receiving-snapshot", None),
        (SyncMessage::SnapshotEof, "waiting-for-paused", Some(SyncMessage::RequestPause)),
        (SyncMessage::Ack, "waiting-for-paused", None),
        (SyncMessage::Paused, "failover-requested", Some(SyncMessage::RequestFailover)),
    ] {
        say(&mut network, &[word]);
        assert_eq!(state(&network), after);
        assert_eq!(orders(&mut network), answer.map(said).into_iter().collect::<Vec<_>>(), "{word:?}");
    }
    assert_eq!(owner(&network, 0, FIRST), Some(network.id(1)), "nothing is claimed before the grant");
    let epoch = network.peers[0].cluster.info().current_epoch;
    say(&mut network, &[SyncMessage::FailoverGranted]);
    assert_eq!(orders(&mut network), [MigrationOrder::Show { job: JOB }, CLOSE]);
    assert_eq!((state(&network), message(&network)), ("success".to_owned(), String::new()));
    for number in [FIRST, 8_300] {
        assert_eq!(owner(&network, 0, number), Some(network.id(0)));
    }
    assert_eq!(owner(&network, 0, FIRST + 1), Some(network.id(1)), "the others stay");
    assert!(network.peers[0].cluster.info().current_epoch > epoch, "a claim is of an epoch of its own");
    network.run(200);
    assert_eq!(owner(&network, 1, FIRST), Some(network.id(0)), "the source has heard the claim");
    assert!(network.has_logged(0, "This node is now the owner of the slots"));
    assert!(network.has_logged(0, "state transition: receiving-snapshot -> waiting-for-paused"));
    assert!(network.has_logged(0, "finished. State: success, Message: none"));
    assert_eq!(network.peers[0].cluster.imports_under_way(), 0);
}

#[test]
fn cb_a46_the_source_takes_nothing_back_by_an_epoch_that_it_took_while_the_slots_moved() {
    let mut network = begun();
    say(&mut network, &WORDS[..3]);
    // The source takes a higher epoch, as it does when it gets slots of other nodes, and announces it just
    // when this node claims the slots.
    network.peers[1].cluster.machine.epochs.current = ClusterEpoch(50);
    let command = ClusterCommand::BumpEpoch;
    network.step(1, &ClusterInput::Command { ticket: Ticket(99), client: "test", command });
    let granted = MigrationInput::Said { job: JOB, word: SyncMessage::FailoverGranted };
    network.step(0, &ClusterInput::Migration(granted));
    network.deliver();
    network.run(1_000);
    for node in [0, 1] {
        assert_eq!(owner(&network, node, FIRST), Some(network.id(0)), "by the view of node {node}");
    }
    let epochs = [0, 1].map(|node| network.peers[node].cluster.info().my_epoch);
    assert!(epochs[0] > epochs[1] && epochs[1] > ClusterEpoch(50), "{epochs:?}");
    // The source has received the claim by now, so its later claims count by their epochs, as usual.
    assert!(network.peers[0].cluster.machine.keys.granted_here.is_empty());
}

/// SETSLOT as an operator's tool sends it: opens the slot at the target and, if `opens_source`, at the
/// source, and assigns it to `target`, first at the target.
fn move_by_hand(network: &mut Network, from: usize, target: usize, opens_source: bool) {
    let (source_id, target_id) = (network.id(from), network.id(target));
    let of = |network: &mut Network, node: usize, action: SlotAction<'_>| {
        let command = SetSlot { slot: slot(FIRST), action, keys: HasKeys::No };
        assert_eq!(network.command(node, ClusterCommand::SetSlot(command)), ClusterAnswer::Ok);
    };
    of(network, target, SlotAction::Importing(source_id.as_bytes()));
    if opens_source {
        of(network, from, SlotAction::Migrating(target_id.as_bytes()));
    }
    for node in [target, from] {
        of(network, node, SlotAction::Node(target_id.as_bytes()));
    }
}

#[test]
fn cb_a46_a_slot_goes_back_to_its_source_by_hand_in_the_next_moment() {
    for opens_source in [true, false] {
        let mut network = begun();
        say(&mut network, &WORDS);
        assert!(
            network.peers[0].cluster.machine.keys.granted_here.is_empty(),
            "the source has answered a PING"
        );
        move_by_hand(&mut network, 0, 1, opens_source);
        network.run(1_000);
        for node in [0, 1] {
            assert_eq!(owner(&network, node, FIRST), Some(network.id(1)), "by the view of node {node}");
        }
    }
}

/// A source of stock Valkey that has granted its last slot follows its target at once: its later headers have
/// its primary's slots. This was found with such a source, whose election divided the shard.
#[test]
fn cb_a46_a_source_that_follows_its_target_may_be_elected_for_the_slots_it_gave() {
    let mut network = begun();
    say(&mut network, &WORDS[..3]);
    // The source's answer to the claim is on its way, and arrives when the source is already a replica.
    let granted = MigrationInput::Said { job: JOB, word: SyncMessage::FailoverGranted };
    network.cut(0, 1);
    network.step(0, &ClusterInput::Migration(granted));
    assert_eq!(network.peers[0].cluster.machine.keys.granted_here.len(), 2);
    let (me, source) = (network.id(0), network.id(1));
    let mine = network.peers[0].cluster.machine.table.me().slots.clone();
    let epoch = network.peers[0].cluster.info().my_epoch;
    let header = wire::BusHeader {
        current_epoch: epoch,
        config_epoch: epoch,
        replica_of: Some(me),
        ip: "10.0.0.2",
        flags: wire::NodeFlags(2),
        ..header_of(source, &mine)
    };
    let ping = wire::MessageBody::Ping(wire::Gossip::default());
    network.inject(1, 0, &wire::BusMessage::Full(header, ping));
    assert!(network.peers[0].cluster.machine.keys.granted_here.is_empty());
    // The source wins an election, and claims the slots that this node had.
    let elected = ClusterEpoch(epoch.0 + 5);
    let header = wire::BusHeader {
        current_epoch: elected,
        config_epoch: elected,
        ip: "10.0.0.2",
        ..header_of(source, &mine)
    };
    let ping = wire::MessageBody::Ping(wire::Gossip::default());
    network.inject(1, 0, &wire::BusMessage::Full(header, ping));
    for number in [0, FIRST, 8_300] {
        assert_eq!(owner(&network, 0, number), Some(source), "slot {number}");
    }
    assert_eq!(network.peers[0].cluster.info().my_epoch, elected, "no epoch was made against the election");
}

#[test]
fn cb_a46_a_slot_that_an_operator_opens_is_not_held_against_its_source() {
    let mut network = begun();
    say(&mut network, &WORDS[..3]);
    // The source's answer to the claim is on its way.
    let granted = MigrationInput::Said { job: JOB, word: SyncMessage::FailoverGranted };
    network.step(0, &ClusterInput::Migration(granted));
    let kept = |network: &Network| network.peers[0].cluster.machine.keys.granted_here.len();
    assert_eq!(kept(&network), 2);
    let source = network.id(1);
    let action = SlotAction::Migrating(source.as_bytes());
    let command = ClusterCommand::SetSlot(SetSlot { slot: slot(FIRST), action, keys: HasKeys::No });
    network.step(0, &ClusterInput::Command { ticket: Ticket(99), client: "test", command });
    assert_eq!(kept(&network), 1, "the other slot of the job");
}

#[test]
fn cb_a22_a_word_at_another_moment_fails_the_job() {
    let words = [
        SyncMessage::SnapshotEof,
        SyncMessage::Paused,
        SyncMessage::FailoverGranted,
        SyncMessage::RequestPause,
        SyncMessage::RequestFailover,
    ];
    for done in 0..WORDS.len() {
        for word in words.into_iter().filter(|word| *word != WORDS[done]) {
            let mut network = begun();
            say(&mut network, &WORDS[..done]);
            orders(&mut network);
            say(&mut network, &[word]);
            let why = "Unexpected state machine transition";
            assert_eq!(orders(&mut network), [close_after(done), clean_up(why)], "{done} {word:?}");
            assert_eq!((state(&network), message(&network)), ("cleaning-up".to_owned(), why.to_owned()));
            say(&mut network, &[SyncMessage::Ack, word]);
            assert_eq!(orders(&mut network), [], "a failed job hears nothing more");
        }
    }
    let mut network = begun();
    say(&mut network, &[SyncMessage::Unknown]);
    assert_eq!(message(&network), "Unknown SYNCSLOTS subcommand used");
}

#[test]
fn cb_a60_a_failed_job_is_finished_when_its_keys_are_gone() {
    let lost =
        "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more information.";
    let refused = "Failed to process command during slot migration. Check logs for more information";
    let full = "Ran out of memory (OOM) during slot import";
    for (input, why) in [
        (MigrationInput::LinkLost { job: JOB }, lost),
        (MigrationInput::Flushed, "Data was flushed"),
        (MigrationInput::Faulted { job: JOB, fault: ImportFault::Refused }, refused),
        (MigrationInput::Faulted { job: JOB, fault: ImportFault::OutOfMemory }, full),
    ] {
        for done in 0..=3 {
            let mut network = begun();
            say(&mut network, &WORDS[..done]);
            orders(&mut network);
            step(&mut network, input);
            assert_eq!(orders(&mut network), [close_after(done), clean_up(why)], "{why}");
            assert_eq!(state(&network), "cleaning-up");
            assert_eq!(network.peers[0].cluster.imports_under_way(), 1, "its slots are not free yet");
            assert!(network.peers[0].cluster.are_free_to_import([slot(FIRST)].into_iter()).is_err());
            step(&mut network, MigrationInput::CleanedUp { job: JOB });
            assert_eq!((state(&network), message(&network)), ("failed".to_owned(), why.to_owned()));
            assert!(network.has_logged(0, &format!("finished. State: failed, Message: {why}")));
            assert!(network.peers[0].cluster.are_free_to_import([slot(FIRST)].into_iter()).is_ok());
        }
    }
}

#[test]
fn cb_a60_a_silent_source_fails_the_job_and_any_bytes_count() {
    let mut network = begun();
    say(&mut network, &[SyncMessage::Ack]);
    network.run(9_000);
    let at = network.now_ms;
    step(&mut network, MigrationInput::Heard { job: JOB, at });
    network.run(9_900);
    assert_eq!(state(&network), "receiving-snapshot");
    network.run(300);
    assert_eq!(message(&network), "Timed out after too long with no interaction");
    assert!(network.has_logged(0, "after not receiving ack for too long"));
}

#[test]
fn cb_a70_an_ack_leaves_each_second_from_the_first_of_the_source_on() {
    let mut network = begun();
    network.run(3_000);
    assert_eq!(orders(&mut network), [], "the source reads nothing but the reply before its ACK");
    say(&mut network, &[SyncMessage::Ack]);
    network.run(3_000);
    assert_eq!(orders(&mut network), vec![said(SyncMessage::Ack); 3]);
}

#[test]
fn cb_a60_a_job_fails_when_the_slots_are_not_the_sources_any_more() {
    let slots = [slot(FIRST)];
    // Another node gets the slot.
    let mut network = Network::cluster(3, 2);
    let moved = job(&network, 1, &[(FIRST, FIRST)]);
    step(&mut network, MigrationInput::Established(&moved));
    let third = network.id(2);
    let action = SlotAction::Node(third.as_bytes());
    let command = SetSlot { slot: slots[0], action, keys: HasKeys::No };
    network.command(0, ClusterCommand::SetSlot(command));
    assert_eq!(message(&network), "Slots are no longer owned by source node");
    // This node gets one of the slots in another way.
    let mut network = begun();
    let me = network.id(0);
    let command = SetSlot { slot: slots[0], action: SlotAction::Node(me.as_bytes()), keys: HasKeys::No };
    network.command(0, ClusterCommand::SetSlot(command));
    assert_eq!(message(&network), "Slots were unexpectedly assigned to myself during import");
    // This node forgets the source.
    let mut network = begun();
    let source = network.id(1);
    network.command(0, ClusterCommand::Forget { node: source.as_bytes() });
    assert_eq!(message(&network), "Slots are no longer owned by source node");
    // This node is reset, which forgets all others.
    let mut network = begun();
    network.command(0, ClusterCommand::Reset { kind: ResetKind::Soft, data: HasKeys::No });
    assert_eq!(message(&network), "Slots are no longer owned by source node");
}

#[test]
fn cb_a46_nothing_is_told_of_a_takeover_before_its_file_is_durable() {
    let mut network = begun();
    say(&mut network, &WORDS[..3]);
    orders(&mut network);
    network.peers[0].disk = Disk::Stands;
    say(&mut network, &WORDS[3..]);
    assert_eq!(orders(&mut network), []);
    network.run(300);
    assert_eq!(owner(&network, 1, FIRST), Some(network.id(1)), "the source knows nothing yet");
    assert_eq!(state(&network), "failover-granted");
    // The link to the source is lost, and the data are flushed, before the file is written. The slots are
    // taken nevertheless.
    step(&mut network, MigrationInput::LinkLost { job: JOB });
    step(&mut network, MigrationInput::Flushed);
    network.write(0);
    network.write(0);
    let orders: Vec<_> =
        orders(&mut network).into_iter().filter(|order| *order != said(SyncMessage::Ack)).collect();
    assert_eq!(orders, [MigrationOrder::Show { job: JOB }, CLOSE]);
    assert_eq!(state(&network), "success");
    network.run(200);
    assert_eq!(owner(&network, 1, FIRST), Some(network.id(0)));
}

/// A node with the greatest epoch keeps its epoch, and announces its claim nevertheless.
#[test]
fn cb_a70_the_claim_is_told_at_once_whatever_the_epoch() {
    for (target, source) in [(0, 1), (1, 0)] {
        let mut network = Network::cluster(2, 2);
        network.run(500);
        let number = if source == 1 { FIRST } else { 5 };
        let moved = job(&network, source, &[(number, number)]);
        network.step(target, &ClusterInput::Migration(MigrationInput::Established(&moved)));
        for word in WORDS {
            network.step(target, &ClusterInput::Migration(MigrationInput::Said { job: JOB, word }));
        }
        network.deliver();
        assert_eq!(owner(&network, source, number), Some(network.id(target)), "no time has passed");
    }
}

#[test]
fn cb_a46_nothing_is_claimed_while_another_node_may_have_this_ones_place() {
    type Prepare = fn(&mut Network);
    let rows: [(Prepare, &str); 3] = [
        (
            |network| network.step(0, &ClusterInput::Suspension),
            "The target does not hear a majority of the primaries",
        ),
        (
            |network| network.peers[0].cluster.machine.failover.voted_until = u64::MAX,
            "A manual failover is in progress",
        ),
        (
            |network| {
                let replica = network.peers[0].cluster.machine.table.my_ix();
                network.peers[0].cluster.machine.failover.paused =
                    ManualFailover::Paused { replica, end: u64::MAX };
            },
            "A manual failover is in progress",
        ),
    ];
    for (prepare, why) in rows {
        let mut network = begun();
        say(&mut network, &WORDS[..3]);
        let epoch = network.peers[0].cluster.info().current_epoch;
        prepare(&mut network);
        let granted = MigrationInput::Said { job: JOB, word: SyncMessage::FailoverGranted };
        network.step(0, &ClusterInput::Migration(granted));
        assert_eq!(message(&network), why);
        assert_eq!(owner(&network, 0, FIRST), Some(network.id(1)));
        assert_eq!(network.peers[0].cluster.info().current_epoch, epoch);
    }
}

#[test]
fn cb_a48_a_node_that_was_apart_outbids_nobody_and_keeps_nothing_from_its_source() {
    let (mut network, _) = claimed_unheard();
    let machine = |network: &Network| network.peers[0].cluster.machine.keys.granted_here.len();
    assert!(machine(&network) > 0);
    let epoch = network.peers[0].cluster.info().my_epoch;
    network.step(0, &ClusterInput::Suspension);
    assert!(machine(&network) > 0, "what waits on a link may be older than the claim");
    network.run(6_000);
    assert_eq!(machine(&network), 0);
    assert!(network.peers[0].cluster.info().my_epoch <= epoch);
}

#[test]
fn cb_a46_debug_holds_the_takeover_and_a_lost_link_fails_it_then() {
    let mut network = begun();
    network.configure(0, |settings| settings.debug.takeover_of_imports = Switch::Disabled);
    say(&mut network, &WORDS);
    network.run(1_000);
    assert_eq!(state(&network), "failover-granted");
    assert_eq!(owner(&network, 0, FIRST), Some(network.id(1)));
    let mut other = begun();
    other.configure(0, |settings| settings.debug.takeover_of_imports = Switch::Disabled);
    say(&mut other, &WORDS);
    step(&mut other, MigrationInput::LinkLost { job: JOB });
    assert_eq!(state(&other), "cleaning-up");
    network.configure(0, |settings| settings.debug.takeover_of_imports = Switch::Runs);
    assert_eq!(state(&network), "success");
}

#[test]
fn cb_a60_a_demoted_target_leaves_the_job_to_its_primary_and_deletes_nothing() {
    let mut network = Network::cluster(3, 2);
    let moved = job(&network, 1, &[(FIRST, FIRST)]);
    // The third node has no slots and imports one from the second; then it becomes a replica of the first.
    network.step(2, &ClusterInput::Migration(MigrationInput::Established(&moved)));
    let primary = network.id(0);
    let command = ClusterCommand::Replicate { node: primary.as_bytes(), data: HasKeys::No };
    assert_eq!(network.command(2, command), ClusterAnswer::Ok);
    let seen = std::mem::take(&mut network.peers[2].seen);
    let of_job: Vec<_> = seen.iter().filter(|output| matches!(output, ClusterOutput::Migration(_))).collect();
    assert!(matches!(of_job[..], [ClusterOutput::Migration(MigrationOrder::Close { .. })]), "{of_job:?}");
    let row = network.peers[2].cluster.migrations().next().expect("the job");
    assert_eq!((row.state, row.nodes), ("occurring-on-primary", None));
}

#[test]
fn cb_a15_the_rows_are_those_of_the_reference_the_newest_first() {
    let mut network = begun();
    let row = network.peers[0].cluster.migrations().next().expect("the job");
    assert_eq!((row.name, row.operation, &*row.slot_ranges), (JOB, "IMPORT", "8200-8200 8300-8300"));
    assert_eq!(row.nodes, Some((network.id(0), network.id(1))), "the target comes first");
    let created = row.numbers[0].1;
    assert_eq!(row.numbers.map(|number| number.1), [created; 3], "the last ACK begins as the creation");
    network.run(2_000);
    say(&mut network, &[SyncMessage::Ack]);
    let row = network.peers[0].cluster.migrations().next().expect("the job");
    assert_eq!(row.numbers.map(|number| number.1 - created), [0, 2, 2]);
    // A node that knows a move only from a report shows neither its source nor its target.
    let second = SlotMove { name: JobName([b'b'; 40]), ..job(&network, 1, &[(9_000, 9_001)]) };
    step(&mut network, MigrationInput::Reported { job: &second, from: ReportSource::Snapshot });
    let rows: Vec<_> = network.peers[0].cluster.migrations().collect();
    assert_eq!(rows[0].name, JOB, "one of a file stands at the tail");
    assert_eq!((rows[1].nodes, rows[1].state), (None, "occurring-on-primary"));
}

#[test]
fn cb_a16_finished_jobs_are_forgotten_from_the_tail_on() {
    let mut network = begun();
    network.configure(0, |settings| settings.migration.log_len_max = 2);
    for number in b'b'..=b'f' {
        let told = SlotMove { name: JobName([number; 40]), ..job(&network, 1, &[(9_000, 9_000)]) };
        step(&mut network, MigrationInput::Reported { job: &told, from: ReportSource::Command });
        let end = MigrationInput::ReportedEnd { job: told.name, success: true, message: b"" };
        step(&mut network, end);
    }
    network.run(100);
    let names: Vec<u8> = network.peers[0].cluster.migrations().map(|row| row.name.0[0]).collect();
    assert_eq!(names, [b'f', b'a'], "the job that is not finished stays");
    step(&mut network, MigrationInput::DataReplaced);
    assert_eq!(network.peers[0].cluster.migrations().count(), 0);
    assert_eq!(orders(&mut network), [CLOSE]);
    assert!(network.has_logged(0, "Message: A new RDB is being loaded"));
}

#[test]
fn cb_a23_what_stands_in_the_way_of_a_job() {
    let network = Network::cluster(2, 2);
    let node = &network.peers[0].cluster;
    assert_eq!(node.import_source(&[b'f'; 40]), Err("ERR Target node does not know the source node".into()));
    let me = node.id();
    assert_eq!(node.import_source(me.as_bytes()), Err("ERR Source node is target node itself".into()));
    let mut owners = OwnersOfRanges::default();
    assert_eq!(node.add_range(&mut owners, slot(8_192), slot(8_200)), Ok(()));
    let spans = Err("ERR Requested slots span multiple shards".to_owned());
    assert_eq!(node.add_range(&mut owners, slot(0), slot(0)), spans);
    let disagrees = Err("ERR Target node does not agree about current slot ownership".to_owned());
    assert_eq!(node.may_import(&job(&network, 1, &[(0, 0)])), disagrees, "the slot is this node's");
    let mut network = begun();
    let node = &network.peers[0].cluster;
    let taken = Err("ERR Slot is already being imported on the target by a different migration".to_owned());
    assert_eq!(node.are_free_to_import([slot(FIRST)].into_iter()), taken);
    assert_eq!(node.may_import(&job(&network, 1, &[(FIRST, FIRST)])), taken);
    assert_eq!(node.may_import(&job(&network, 1, &[(9_000, 9_000)])), taken, "a name of a job under way");
    let source = network.id(1);
    let action = SlotAction::Importing(source.as_bytes());
    let command = SetSlot { slot: slot(9_000), action, keys: HasKeys::No };
    network.command(0, ClusterCommand::SetSlot(command));
    let by_hand = Err("ERR Slots are being manually imported".to_owned());
    assert_eq!(network.peers[0].cluster.may_import_at_all(), by_hand);
}

/// A source that is the target of another move takes a new epoch between the grant and the news of the claim.
/// The source's messages of that time are no reason to give the slots back, because the source is about to
/// give them up.
#[test]
fn cb_a48_the_source_takes_nothing_back_by_an_epoch_that_it_made_ahead_of_the_news() {
    let mut network = begun();
    let mut old = SlotSet::EMPTY;
    (SLOT_COUNT / 2..SLOT_COUNT).for_each(|number| _ = old.insert(slot(number)));
    say(&mut network, &WORDS[..3]);
    network.cut(0, 1);
    say(&mut network, &WORDS[3..]);
    assert_eq!(state(&network), "success");
    let epoch = |network: &Network| network.peers[0].cluster.info().my_epoch;
    let tells = |network: &mut Network, epoch: u64, slots: &SlotSet| {
        let epoch = ClusterEpoch(epoch);
        let header =
            wire::BusHeader { current_epoch: epoch, config_epoch: epoch, ..header_of(network.id(1), slots) };
        let body = wire::MessageBody::Ping(wire::Gossip::default());
        network.inject(1, 0, &wire::BusMessage::Full(header, body));
    };
    tells(&mut network, 9, &old);
    assert_eq!(owner(&network, 0, FIRST), Some(network.id(0)), "the grant binds the source");
    assert!(epoch(&network) > ClusterEpoch(9), "others are to believe this node");
    // The news of the claim has arrived at the source, which had taken another epoch by then.
    let mut given_up = old.clone();
    [FIRST, 8_300].into_iter().for_each(|number| _ = given_up.remove(slot(number)));
    tells(&mut network, 20, &given_up);
    assert!(epoch(&network) > ClusterEpoch(20), "an older header may come later");
    tells(&mut network, 20, &old);
    assert_eq!(owner(&network, 0, FIRST), Some(network.id(0)));
    // From then on the source counts as any other node.
    tells(&mut network, 40, &old);
    assert_eq!(owner(&network, 0, FIRST), Some(network.id(1)), "the higher epoch counts");
}

/// Node 0 has claimed two slots that node 1 has granted to it. Node 1 has not received the claim.
fn claimed_unheard() -> (Network, JobName) {
    let mut network = Network::cluster(3, 3);
    for node in [0, 1] {
        network.configure(node, |settings| settings.migration.repl_timeout_ms = 10_000);
    }
    let ranges = [(slot(FIRST), slot(FIRST)), (slot(8_300), slot(8_300))];
    let groups = [SlotsToMove { ranges: ranges.into(), target: network.id(0) }];
    let at_source = |network: &mut Network, input: MigrationInput<'_>| {
        network.step(1, &ClusterInput::Migration(input));
        network.deliver();
    };
    at_source(&mut network, MigrationInput::Begin { client: "test", groups: &groups });
    let name = network.peers[1].cluster.migrations().next().unwrap().name;
    let said = |word| MigrationInput::Said { job: name, word };
    let is = |input| MigrationInput::Export { job: name, input };
    let job = SlotMove { name, source: Some(network.id(1)), ranges: ranges.into() };
    step(&mut network, MigrationInput::Established(&job));
    for input in [ExportInput::Established, ExportInput::StreamBegan, ExportInput::ImageSent] {
        at_source(&mut network, is(input));
    }
    at_source(&mut network, said(SyncMessage::RequestPause));
    at_source(&mut network, is(ExportInput::Held { left: 0 }));
    at_source(&mut network, said(SyncMessage::RequestFailover));
    WORDS[..3].iter().for_each(|word| step(&mut network, said(*word)));
    network.cut(0, 1);
    step(&mut network, said(SyncMessage::FailoverGranted));
    assert_eq!(state(&network), "success");
    (network, name)
}

/// The claimant's file does not have the grant. The claimant keeps the slots nevertheless, because the source
/// no longer claims them.
#[test]
fn cb_a48_a_claimant_that_starts_again_ahead_of_the_news_keeps_the_slots() {
    let (mut network, name) = claimed_unheard();
    let file = saved(&network, 0);
    network.kill(0);
    // The source takes a new epoch in the meantime, as the target of another move does.
    network.run(300);
    let epoch = |network: &Network, node: usize| network.peers[node].cluster.info().my_epoch;
    assert!(
        matches!(network.command(1, ClusterCommand::BumpEpoch), ClusterAnswer::Status(text) if text.starts_with("BUMPED"))
    );
    network.run(300);
    assert!(epoch(&network, 1) > file.me.config_epoch);
    network.peers[0].seen.clear();
    restart(&mut network, 0, &file);
    network.heal();
    for ms in [1_000, 5_000] {
        network.run(ms);
        for node in 0..3 {
            assert_eq!(owner(&network, node, FIRST), Some(network.id(0)), "by node {node} after {ms} ms");
        }
    }
    let row = network.peers[1].cluster.migrations().find(|row| row.name == name).unwrap();
    assert_eq!(row.state, "success");
    let empties = |output: &ClusterOutput| matches!(output, ClusterOutput::EmptySlots { .. });
    assert!(!network.peers[0].seen.iter().any(empties), "the claimant deletes nothing");
}

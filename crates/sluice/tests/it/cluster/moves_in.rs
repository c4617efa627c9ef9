//! Slots that a primary of the reference moves to one of ours by MIGRATESLOTS (specification of the
//! slots, section 6), and events during the move. In every test nodes 0 and 1 are primaries of the
//! reference, node 2 is a primary of ours and node 3 its replica, also ours unless a test says otherwise;
//! slots 100 to 300 move from node 0 to node 2.

use super::member::Member;
use super::moves::{begin, cluster, count, digests, fill, is_over, owns};
use super::operators::{Group, has_of_moved, keys_to_move};
use crate::common::{Client, until};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn cb_a46_a_stock_primary_moves_slots_here_while_clients_count() {
    moves_while_clients_count("ssoo");
}

/// Node 3 is the reference's here.
#[test]
fn cb_a36_a_stock_replica_of_ours_gets_the_slots_that_come() {
    moves_while_clients_count("ssos");
}

fn moves_while_clients_count(kinds: &str) {
    let Some(group) = cluster(kinds, &[]) else { return };
    let (moved, others) = keys_to_move();
    let (source, target, replica) = (&group.members[0], &group.members[2], &group.members[3]);
    fill(&mut source.client(), &moved);
    let before = digests(source, &moved);
    let counters: Vec<String> = moved.iter().map(|key| format!("{{{key}}}counter")).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let thread = count([source.port(), target.port()], counters.clone(), &stop);
    until("counters", || (source.client().send("DBSIZE\r\n").line() != ":0").then_some(()));
    begin(&group);
    for member in [source, target] {
        is_over(member, "success");
    }
    assert!(owns(target, "100-300"));
    // The counting must continue at the target.
    let counted = |client: &mut Client| client.info("cmdstat_incr");
    let first = counted(&mut target.client());
    until("counting to go on", || (counted(&mut target.client()) != first).then_some(()));
    stop.store(true, Ordering::Relaxed);
    let counts = thread.join().expect("no write was lost");
    let mut client = target.client();
    for (key, count) in counters.iter().zip(&counts) {
        assert_eq!(client.bulk(&format!("GET {key}")), count.to_string().as_bytes(), "{key}");
    }
    assert_eq!(digests(target, &moved), before);
    until("the source to be rid of the keys", || (has_of_moved(source) == 0).then_some(()));
    group.have_the_same(2, 3);
    assert_eq!(digests(replica, &moved), before);
    let expiry = client.send(format!("SELECT 0\r\nEXPIRETIME {}\r\n", moved[2])).expect("+OK\r\n").line();
    assert_eq!(expiry, ":9999999999");
    // Another move is possible now.
    target.client().check("CLUSTER CANCELSLOTMIGRATIONS", "-ERR No migrations ongoing\r\n");
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 400 400 NODE {}", target.id());
    source.client().check(&line, "+OK\r\n");
    is_over(target, "slot_ranges 400-400");
    is_over(target, "success");
    assert!(others.iter().all(|key| !moved.contains(key)));
}

/// A tool returns a slot by SETSLOT as soon as the move is over. All nodes of the second cluster are ours.
#[test]
fn cb_a46_a_slot_that_has_come_goes_back_by_hand_at_once() {
    for kinds in ["ssoo", "oooo"] {
        let Some(group) = cluster(kinds, &[]) else { continue };
        let (source, target) = (&group.members[0], &group.members[2]);
        let (from, to) = (source.id(), target.id());
        for _ in 0..5 {
            source.client().check(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 400 400 NODE {to}"), "+OK\r\n");
            is_over(source, "success");
            source.client().check(&format!("CLUSTER SETSLOT 400 IMPORTING {to}"), "+OK\r\n");
            target.client().check(&format!("CLUSTER SETSLOT 400 MIGRATING {from}"), "+OK\r\n");
            for member in [source, target] {
                member.client().check(&format!("CLUSTER SETSLOT 400 NODE {from}"), "+OK\r\n");
            }
        }
    }
}

/// Begins a move whose keys arrive at the target; the source does not let the move end.
fn held(group: &Group) {
    let (moved, _) = keys_to_move();
    let source = &group.members[0];
    fill(&mut source.client(), &moved);
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n");
    begin(group);
    for at in [2, 3] {
        until("the keys to come", || (has_of_moved(&group.members[at]) > 50).then_some(()));
    }
    assert_eq!(group.members[2].client().send("DBSIZE\r\n").line(), ":0", "nobody sees them");
    is_over(&group.members[2], "waiting-for-paused");
    is_over(&group.members[3], "occurring-on-primary");
}

#[track_caller]
fn are_gone(group: &Group) {
    for at in [2, 3] {
        until("the keys to go", || (has_of_moved(&group.members[at]) == 0).then_some(()));
    }
    is_over(&group.members[3], "failed");
}

const LOST: &str = "failed message Connection lost to source.";

#[test]
fn cb_a60_a_move_that_the_source_cancels_or_that_loses_its_data_here_can_begin_again() {
    let Some(group) = cluster("ssoo", &[]) else { return };
    let (source, target) = (&group.members[0], &group.members[2]);
    held(&group);
    source.client().check("CLUSTER CANCELSLOTMIGRATIONS", "+OK\r\n");
    is_over(target, LOST);
    are_gone(&group);
    let had = has_of_moved(source);
    begin(&group);
    until("the keys to come", || (has_of_moved(target) == had).then_some(()));
    target.client().check("FLUSHALL", "+OK\r\n");
    is_over(target, "failed message Data was flushed");
    is_over(source, "failed message Connection lost to target.");
    are_gone(&group);
    assert_eq!(has_of_moved(source), had, "the source keeps its own");
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 0", "+OK\r\n");
    begin(&group);
    is_over(target, "success");
    assert_eq!(has_of_moved(target), had);
    group.have_the_same(2, 3);
}

/// If the target abandons the move when it may take over the slots, it reports this to the source, so that
/// writers at the source need not wait ten seconds. All nodes of the second cluster are ours.
#[test]
fn cb_a47_a_source_of_either_kind_goes_on_at_once_when_the_target_refuses() {
    for (kinds, why) in
        [("ssoo", "failed message Unknown SYNCSLOTS"), ("oooo", "failed message The target has refused")]
    {
        let Some(group) = cluster(kinds, &[]) else { continue };
        let (moved, _) = keys_to_move();
        let (source, target) = (&group.members[0], &group.members[2]);
        fill(&mut source.client(), &moved);
        target.client().check("DEBUG SLOTMIGRATION PREVENT-FAILOVER 1", "+OK\r\n");
        begin(&group);
        is_over(target, "failover-granted");
        is_over(source, "failover-granted");
        let mut writer = source.client();
        writer.stream.write_all(format!("SET {{{}}}held 1\r\n", moved[0]).as_bytes()).expect("it is sent");
        let began = Instant::now();
        target.client().check("FLUSHALL", "+OK\r\n");
        assert_eq!(writer.line(), "+OK");
        assert!(began.elapsed() < Duration::from_secs(5), "{kinds}: {:?}", began.elapsed());
        is_over(source, why);
        is_over(target, "failed message Data was flushed");
        assert!(!owns(target, "100-300"), "{kinds}");
    }
}

#[test]
fn cb_a60_a_source_that_is_killed_leaves_nothing_behind_here() {
    let Some(group) = cluster("ssoo", &[]) else { return };
    held(&group);
    group.members[0].signal("KILL");
    is_over(&group.members[2], LOST);
    are_gone(&group);
    assert!(!owns(&group.members[2], "100-300"));
}

#[test]
fn cb_a37_a_target_that_is_killed_comes_back_without_the_move() {
    let Some(mut group) = cluster("ssoo", &["--appendonly", "yes", "--enable-debug-command", "yes"]) else {
        return;
    };
    held(&group);
    let Member::Ours(node) = group.members.remove(2) else { panic!("node 2 is ours") };
    group.members.insert(2, Member::Ours(node.kill_and_restart()));
    let (source, target) = (&group.members[0], &group.members[2]);
    is_over(target, "failed message Process restarted");
    is_over(source, "failed message Connection lost to target.");
    are_gone(&group);
    let had = has_of_moved(source);
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 0", "+OK\r\n");
    until("the source to reach the target", || {
        let lines = super::nodes(&mut source.client());
        let id = target.id();
        lines.iter().any(|line| line.starts_with(&id) && line.contains(" connected ")).then_some(())
    });
    begin(&group);
    is_over(target, "success");
    assert_eq!(has_of_moved(target), had);
    group.have_the_same(2, 3);
}

/// A primary of the reference that has given away all of its slots immediately follows the node that has them
/// now, and may be elected soon after that. The shard stays intact.
#[test]
fn cb_a46_a_stock_primary_that_gave_all_its_slots_takes_them_over_again() {
    let Some(group) = cluster("ssoo", &[]) else { return };
    let (source, target) = (&group.members[0], &group.members[2]);
    let (moved, _) = keys_to_move();
    fill(&mut source.client(), &moved);
    let before = digests(source, &moved);
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 5460 NODE {}", target.id());
    source.client().check(&line, "+OK\r\n");
    is_over(target, "success");
    until("the source to follow", || source.follows().then_some(()));
    assert_eq!(digests(target, &moved), before);
    source.client().check("CLUSTER FAILOVER", "+OK\r\n");
    until("the roles to change", || (source.is_primary() && target.follows()).then_some(()));
    group.is_well(4);
    assert!(owns(source, "0-5460") && owns(source, "10923-16383"));
    assert_eq!(digests(source, &moved), before);
    group.have_the_same(0, 2);
    group.have_the_same(0, 3);
}

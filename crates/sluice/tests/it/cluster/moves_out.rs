//! Slots that a primary of ours moves by MIGRATESLOTS (specification of the slots, section 6), and what can
//! happen meanwhile. Node 0 is a primary of ours, node 1 a stock one, and which of the others are stock is
//! said in each test; slots 100 to 300 go from node 0 to node 2.

use super::member::Member;
use super::moves::{begin, cluster, count, digests, fill, is_over, owns};
use super::operators::{Group, has_of_moved, keys_to_move};
use crate::common::{Client, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slots move while clients count: no write is lost, every value arrives, and the source's side is rid of
/// what has left.
fn moves_while_clients_count(kinds: &str) {
    let Some(group) = cluster(kinds, &[]) else { return };
    let (moved, _) = keys_to_move();
    let (source, target, replica) = (&group.members[0], &group.members[2], &group.members[3]);
    fill(&mut source.client(), &moved);
    let mut names = (0..).map(|number| format!("stays:{number}"));
    let stays = names.find(|key| (400..5_000).contains(&sluice_base::key_slot(key.as_bytes())));
    source.client().check(&format!("SET {} here", stays.expect("slots have keys")), "+OK\r\n");
    let before = digests(source, &moved);
    let counters: Vec<String> = moved.iter().map(|key| format!("{{{key}}}counter")).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let thread = count([source.port(), target.port()], counters.clone(), &stop);
    let counter = |client: &mut Client| client.bulk(&format!("GET {}", counters[0]));
    let exists = format!("EXISTS {}\r\n", counters[0]);
    until("counting", || (source.client().send(&exists).line() == ":1").then_some(()));
    begin(&group);
    for member in [source, target] {
        is_over(member, "success");
    }
    assert!(owns(target, "100-300"));
    let first = counter(&mut target.client());
    until("counting to go on", || (counter(&mut target.client()) != first).then_some(()));
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
    group.have_the_same(0, 4);
    source.client().check("CLUSTER CANCELSLOTMIGRATIONS", "-ERR No migrations ongoing\r\n");
}

/// Node 1 is stock.
#[test]
fn cb_a46_slots_move_between_nodes_of_ours_while_clients_count() {
    moves_while_clients_count("osooo");
}

/// Nodes 1, 2, 3 and 4 are stock: the target, its replica, and the source's replica.
#[test]
fn cb_a70_slots_move_to_a_stock_primary_while_clients_count() {
    moves_while_clients_count("ossss");
}

/// A move whose image has left, and that does not go on to hold writers.
fn held(group: &Group) -> usize {
    let (moved, _) = keys_to_move();
    let (source, target) = (&group.members[0], &group.members[2]);
    fill(&mut source.client(), &moved);
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n");
    begin(group);
    is_over(source, "waiting-to-pause");
    until("the keys to come", || (has_of_moved(target) > 50).then_some(()));
    has_of_moved(source)
}

/// Nodes 1 and 3 are stock.
#[test]
fn cb_a60_a_move_that_is_cancelled_or_loses_its_data_leaves_the_slots_where_they_are() {
    let Some(group) = cluster("osos", &[]) else { return };
    let (source, target) = (&group.members[0], &group.members[2]);
    let had = held(&group);
    source.client().check("CLUSTER CANCELSLOTMIGRATIONS", "+OK\r\n");
    is_over(source, "cancelled");
    is_over(target, "failed message Connection lost to source.");
    until("the target to be rid of the keys", || (has_of_moved(target) == 0).then_some(()));
    assert_eq!(has_of_moved(source), had);
    begin(&group);
    is_over(source, "waiting-to-pause");
    target.client().check("FLUSHALL", "+OK\r\n");
    is_over(source, "failed message Connection lost to target.");
    assert!(owns(source, "0-5460"), "{:?}", super::nodes(&mut source.client()));
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 0", "+OK\r\n");
    begin(&group);
    is_over(source, "success");
    is_over(target, "success");
    assert_eq!(has_of_moved(target), had);
    group.have_the_same(2, 3);
    // Its own data gone, a move ends at once.
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 400 400 NODE {}", target.id());
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n").check(&line, "+OK\r\n");
    is_over(source, "waiting-to-pause");
    source.client().check("FLUSHALL", "+OK\r\n");
    is_over(source, "failed message Data was flushed");
}

/// Node 1 is stock.
#[test]
fn cb_a60_a_target_that_is_killed_leaves_the_slots_where_they_are() {
    let Some(group) = cluster("osoo", &[]) else { return };
    let source = &group.members[0];
    let had = held(&group);
    group.members[2].signal("KILL");
    is_over(source, "failed message Connection lost to target.");
    assert_eq!(has_of_moved(source), had);
    let (moved, _) = keys_to_move();
    source.client().check(&format!("SET {} again", moved[0]), "+OK\r\n");
}

/// Nodes 0 and 3 are ours, 1 and 2 stock: what one refuses, the other refuses with the same words.
#[test]
fn cb_a10_commands_are_refused_with_the_words_of_the_reference() {
    let Some(group) = cluster("osso", &[]) else { return };
    let [ours, stock] = [0, 1].map(|at| &group.members[at]);
    let firsts = [137, 5_597];
    let (other, unknown) = (group.members[2].id(), "0".repeat(40));
    for words in [
        "SLOTS",
        "SLOTSRANGE",
        "SLOTSRANGE x 1 NODE TARGET",
        "SLOTSRANGE FIRST",
        "SLOTSRANGE FIRST x NODE TARGET",
        "SLOTSRANGE 16384 16384 NODE TARGET",
        "SLOTSRANGE -1 1 NODE TARGET",
        "SLOTSRANGE 12 11 NODE TARGET",
        "SLOTSRANGE 5460 5461 NODE TARGET",
        "SLOTSRANGE FIRST FIRST FIRST FIRST NODE TARGET",
        "SLOTSRANGE NODE TARGET",
        "SLOTSRANGE 16000 16001 NODE TARGET",
        "SLOTSRANGE FIRST FIRST TARGET",
        "SLOTSRANGE FIRST FIRST NODE",
        "SLOTSRANGE FIRST FIRST NODE short",
        "SLOTSRANGE FIRST FIRST NODE UNKNOWN",
        "SLOTSRANGE FIRST FIRST NODE MYSELF",
        "SLOTSRANGE FIRST FIRST NODE TARGET SLOTSRANGE FIRST FIRST NODE TARGET",
        "SLOTSRANGE FIRST FIRST NODE TARGET more",
    ] {
        let answers = [ours, stock].into_iter().zip(firsts).map(|(member, first)| {
            let words = words.replace("FIRST", &first.to_string()).replace("TARGET", &other);
            let words = words.replace("UNKNOWN", &unknown).replace("MYSELF", &member.id());
            let answer = member.client().send(format!("CLUSTER MIGRATESLOTS {words}\r\n")).line();
            answer.replace(&first.to_string(), "FIRST").replace(&member.id(), "MYSELF")
        });
        let answers: Vec<String> = answers.collect();
        assert_eq!(answers[0], answers[1], "{words}");
        assert!(answers[0].starts_with('-'), "{words}: {}", answers[0]);
    }
    let replica: &Member = &group.members[3];
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 0 NODE {other}");
    replica.client().check(&line, "-ERR Slot migration can only be used on primary nodes.\r\n");
}

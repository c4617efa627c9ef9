//! Slots that a primary of ours moves by MIGRATESLOTS (specification of the slots, section 6), and events
//! during the move. Node 0 is a primary of ours, node 1 one of the reference; the comment of each test says
//! which other nodes are the reference's. Slots 100 to 300 move from node 0 to node 2.

use super::member::Member;
use super::moves::{begin, cluster, count, digests, fill, is_over, owns};
use super::operators::{Group, has_of_moved, keys_to_move};
use super::{Node, of_node};
use crate::common::reference::Reference;
use crate::common::{Client, Dir, free_port, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slots move while clients increment counters: no write is lost, every value arrives, and the source's
/// shard deletes the moved keys.
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

/// Node 1 is the reference's.
#[test]
fn cb_a46_slots_move_between_nodes_of_ours_while_clients_count() {
    moves_while_clients_count("osooo");
}

/// Nodes 1 to 4 are the reference's, among them the target, its replica, and the source's replica.
#[test]
fn cb_a70_slots_move_to_a_stock_primary_while_clients_count() {
    moves_while_clients_count("ossss");
}

/// Begins a move that sends its snapshot, but does not go on to pause writers. Returns the number of the
/// source's keys in the moved slots.
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

/// Nodes 1 and 3 are the reference's.
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
    // A move fails at once when the data of the source are deleted.
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 400 400 NODE {}", target.id());
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n").check(&line, "+OK\r\n");
    is_over(source, "waiting-to-pause");
    source.client().check("FLUSHALL", "+OK\r\n");
    is_over(source, "failed message Data was flushed");
}

/// A folder for another server, with copies of these files of a server's folder.
fn copied(from: &Dir, names: &[&str]) -> Dir {
    let to = Dir::new();
    for name in names {
        let (source, copy) = (from.path().join(name), to.path().join(name));
        if source.is_dir() {
            std::fs::create_dir(&copy).unwrap();
            for entry in std::fs::read_dir(&source).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
        } else {
            std::fs::copy(source, copy).unwrap();
        }
    }
    to
}

/// Starts our server and the reference's, each as a separate node with these arguments, on copies of
/// these files of node `at`. Our server must show the same data as the node. The reference's server is
/// returned.
fn loaded(group: &Group, at: usize, names: &[&str], arguments: &[&str], digest: &str) -> Member {
    let Member::Ours(node) = &group.members[at] else { panic!("node {at} is ours") };
    let more = [&["--cluster-databases", "2"], arguments].concat();
    let own_words = more.iter().map(|word| (*word).to_owned()).collect();
    let ours = Member::Ours(Node::start_in(copied(&node.server.dir, names), own_words));
    until("our server to have it", || (ours.digest() == digest).then_some(()));
    let (dir, bus) = (copied(&node.server.dir, names), free_port());
    let words = of_node(bus);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more).collect();
    let stock = Reference::start(&[&words[..], &["--dir", &dir.join("")]].concat());
    let stock = Member::Stock(stock.expect("there was one before"), bus);
    until("the stock server to load it", || (stock.client().info("loading") == "0").then_some(()));
    stock
}

/// Nodes 0 and 2 are ours, 1 and 3 the reference's.
#[test]
fn cb_h25_what_is_saved_and_rewritten_beside_a_move_is_right_at_both_ends() {
    let debug = ["--enable-debug-command", "yes", "--appendonly", "yes"];
    let Some(group) = cluster("osos", &debug) else { return };
    let (moved, _) = keys_to_move();
    let (source, target) = (&group.members[0], &group.members[2]);
    fill(&mut source.client(), &moved);
    let own = (0..).map(|number| format!("own:{number}"));
    let own: Vec<String> =
        own.filter(|key| sluice_base::key_slot(key.as_bytes()) > 10_922).take(20).collect();
    for key in &own {
        target.client().check(&format!("SET {key} value"), "+OK\r\n");
    }
    // The source saves these keys too, so that its save takes longer than sending the slots' keys.
    let stays = (0..).map(|number| format!("stays:{number}"));
    let is_of_source = |key: &String| (1_000..5_000).contains(&sluice_base::key_slot(key.as_bytes()));
    for key in stays.filter(is_of_source).take(100) {
        source.client().check(&format!("SET {key} value"), "+OK\r\n");
    }
    source.client().check("DEBUG SLOTMIGRATION PREVENT-PAUSE 1", "+OK\r\n");
    for member in [source, target] {
        // Saving each key takes 10,000 microseconds more.
        member.client().check("CONFIG SET rdb-key-save-delay 10000", "+OK\r\n");
    }
    for (ask, begun, is_running, names) in [
        ("BGSAVE", "+Background saving started\r\n", "rdb_bgsave_in_progress", ["dump.rdb"]),
        (
            "BGREWRITEAOF",
            "+Background append only file rewriting started\r\n",
            "aof_rewrite_in_progress",
            ["appendonlydir"],
        ),
    ] {
        let arguments = if ask == "BGSAVE" { &["--appendonly", "no"] } else { &["--appendonly", "yes"] };
        let digest_of = [source.digest(), target.digest()];
        let has_ended = |member: &Member| (member.client().info(is_running) == "0").then_some(());
        until("an earlier one to end", || has_ended(source).and_then(|()| has_ended(target)));
        source.client().check(ask, begun);
        begin(&group);
        is_over(source, "waiting-to-pause");
        assert_eq!(source.client().info(is_running), "1", "the walk was beside it");
        target.client().check(ask, begun);
        assert_eq!(has_of_moved(target), has_of_moved(source), "all keys are there, and hidden");
        until("the end", || has_ended(source).and_then(|()| has_ended(target)));
        let stock = loaded(&group, 0, &names, arguments, &digest_of[0]);
        assert_eq!(stock.digest(), digest_of[0], "{names:?} of the source");
        // A primary that restarts in the middle of a move abandons the move. A node of the reference without
        // slots, however, first considers the slots of the move its own and keeps their keys, so it shows
        // that the file has all of these keys.
        let stock = loaded(&group, 2, &names, arguments, &digest_of[1]);
        assert_eq!(digests(&stock, &moved), digests(source, &moved), "{names:?} of the target");
        assert_eq!(digests(&stock, &own), digests(target, &own), "{names:?} of the target");
        source.client().check("CLUSTER CANCELSLOTMIGRATIONS", "+OK\r\n");
        until("the target to be rid of the keys", || (has_of_moved(target) == 0).then_some(()));
    }
}

/// Node 1 is the reference's.
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

/// Nodes 0 and 3 are ours, 1 and 2 the reference's. A node of ours and one of the reference must refuse with
/// the same words.
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

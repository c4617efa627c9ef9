//! Commands about the keys of slots: CLUSTERSCAN, and CLUSTER FLUSHSLOT.

use crate::cluster::{OTHER, node, slots, two_shards};
use sluice_base::{key_slot, slot_tag};
use sluice_cluster::{SavedCluster, SavedRole};
use sluice_testkit::Rig;
use std::collections::BTreeMap;

/// A node that has started from `saved`, in a cluster whose state has become `ok`.
fn up(saved: &SavedCluster, directives: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::node(Some(saved), &[&[("port", "7000")], directives].concat());
    rig.pass_ms(2_100);
    rig.end_iteration();
    rig
}

/// A node that owns all slots.
fn alone(directives: &[(&str, &str)]) -> Rig {
    let mut saved = two_shards();
    saved.me = node(crate::cluster::ME, 7000, SavedRole::Primary, slots(&[(0, 16_383)]));
    saved.others.clear();
    up(&saved, directives)
}

/// The cursor and the keys in a reply of CLUSTERSCAN.
fn parts(reply: &str) -> (String, Vec<String>) {
    let inner = reply.strip_prefix("[\"").and_then(|rest| rest.strip_suffix("]]")).expect(reply);
    let (cursor, keys) = inner.split_once("\", [").expect(reply);
    let keys = keys.split(", ").filter(|key| !key.is_empty());
    (cursor.to_owned(), keys.map(|key| key.trim_matches('"').to_owned()).collect())
}

/// Walks with CLUSTERSCAN from `cursor` to the end of this node's slots. Returns how often each key was
/// shown, and the last cursor.
fn walk(rig: &mut Rig, cursor: &str, options: &str) -> (BTreeMap<String, usize>, String) {
    let (mut cursor, mut keys) = (cursor.to_owned(), BTreeMap::new());
    for _ in 0..100_000 {
        let reply = rig.run(&format!("CLUSTERSCAN {cursor} {options}"));
        if reply.starts_with("-MOVED") {
            return (keys, cursor);
        }
        let (next, found) = parts(&reply);
        found.into_iter().for_each(|key| *keys.entry(key).or_default() += 1);
        cursor = next;
        if cursor == "0" {
            return (keys, cursor);
        }
    }
    panic!("the walk has no end");
}

fn fill(rig: &mut Rig, keys: &[String]) {
    keys.iter().for_each(|key| rig.check(&format!("SET {key} v"), "+OK"));
}

#[test]
fn cb_n7_a_walk_meets_every_key_once_and_ends() {
    let mut rig = alone(&[]);
    let slot = key_slot(b"a");
    let names = (0..500).map(|n| format!("key:{n}")).chain(["{06S}".to_owned()]);
    let keys: Vec<String> = names.filter(|name| key_slot(name.as_bytes()) != slot).collect();
    let crowd: Vec<String> = (0..300).map(|n| format!("{{a}}{n}")).collect();
    fill(&mut rig, &keys);
    fill(&mut rig, &crowd);
    let all: BTreeMap<String, usize> = keys.iter().chain(&crowd).map(|key| (key.clone(), 1)).collect();
    for options in ["COUNT 1", "COUNT 7", "", "COUNT 100000", "TYPE string"] {
        let (found, cursor) = walk(&mut rig, "0-{06S}-0", options);
        assert!(found == all && cursor == "0", "{options}: {} keys", found.len());
    }
    let (found, _) = walk(&mut rig, "0-{06S}-0", "TYPE list");
    assert!(found.is_empty());
    // The walk visits one slot, which is given by its number or by the pattern.
    for options in [format!("SLOT {slot}"), "MATCH {a}*".to_owned(), format!("SLOT {slot} MATCH *1 COUNT 3")]
    {
        let first = format!("0-{{{}}}-0", String::from_utf8_lossy(&slot_tag(slot)));
        let expected = if options.contains("*1") { 30 } else { crowd.len() };
        let (found, cursor) = walk(&mut rig, &first, &options);
        assert_eq!((found.len(), cursor.as_str()), (expected, "0"), "{options}");
        assert!(found.iter().all(|(key, times)| key.starts_with("{a}") && *times == 1));
    }
}

#[test]
fn cb_n5_n6_where_a_walk_begins() {
    let mut rig = alone(&[]);
    let tag = |slot: u16| String::from_utf8_lossy(&slot_tag(slot)).into_owned();
    let at = |slot: u16| format!("[\"0-{{{}}}-0\", []]", tag(slot));
    let (a, b) = (key_slot(b"a"), key_slot(b"b"));
    assert!(a > b);
    rig.check("CLUSTERSCAN 0", &at(0));
    rig.check("CLUSTERSCAN 0 SLOT 5", &at(5));
    rig.check("CLUSTERSCAN 0 MATCH {a}*", &at(a));
    rig.check("CLUSTERSCAN 0 MATCH a*", &at(0));
    rig.check(&format!("CLUSTERSCAN 0 MATCH {{a}}* SLOT {b}"), "[\"0\", []]");
    rig.check(&format!("CLUSTERSCAN 0-{{{}}}-0 MATCH {{a}}*", tag(b)), &at(a));
    rig.check(&format!("CLUSTERSCAN 0-{{{}}}-0 MATCH {{b}}*", tag(a)), "[\"0\", []]");
    // A walk of one slot in which no name matches the pattern ends, in any order of the slots.
    rig.check(&format!("CLUSTERSCAN 0-{{{}}}-0 MATCH {{a}}* SLOT {b}", tag(b)), "[\"0\", []]");
    rig.check(&format!("CLUSTERSCAN 0-{{{}}}-0 MATCH {{b}}* SLOT {a}", tag(a)), "[\"0\", []]");
    rig.check("CLUSTERSCAN 0-{a}-0 SLOT 5", "-ERR Cursor slot mismatch with SLOT argument");
}

#[test]
fn cb_n10_errors_are_the_references() {
    let mut rig = alone(&[]);
    for (line, error) in [
        ("CLUSTERSCAN abc", "Invalid cursor"),
        ("CLUSTERSCAN 0-{0000}-0", "Invalid cursor"),
        ("CLUSTERSCAN 0 SLOT 5 SLOT 6", "SLOT option can only be specified once"),
        ("CLUSTERSCAN 0 SLOT 16384", "Invalid or out of range slot"),
        ("CLUSTERSCAN 0 SLOT", "syntax error"),
        ("CLUSTERSCAN 0 COUNT 0", "syntax error"),
        ("CLUSTERSCAN 0 COUNT x", "value is not an integer or out of range"),
        ("CLUSTERSCAN 0 TYPE foo", "unknown type name 'foo'"),
        ("CLUSTERSCAN 0 NOVALUES", "NOVALUES option can only be used in HSCAN"),
    ] {
        rig.check(line, &format!("-ERR {error}"));
    }
    Rig::new().check("CLUSTERSCAN 0", "-ERR This instance has cluster support disabled");
}

#[test]
fn cb_n2_a_walk_leaves_a_node_where_the_nodes_slots_end() {
    let mut rig = up(&two_shards(), &[("cluster-announce-ip", "10.0.0.1")]);
    let keys: Vec<String> =
        (0..200).map(|n| format!("key:{n}")).filter(|key| key_slot(key.as_bytes()) < 8_192).collect();
    fill(&mut rig, &keys);
    let (found, cursor) = walk(&mut rig, "0-{06S}-0", "COUNT 5");
    assert_eq!(found.len(), keys.len());
    assert_eq!(cursor, format!("0-{{{}}}-0", String::from_utf8_lossy(&slot_tag(8_192))));
    // Taken as a key, the cursor 0 is in slot 13907.
    rig.check("CLUSTERSCAN 0", "-MOVED 13907 10.0.0.1:7001");
    // Keys of other nodes' slots, which are here until they are deleted, are not part of this node's walk.
    let reply = rig.run(&format!("CLUSTER SETSLOT 8192 IMPORTING {OTHER}"));
    assert_eq!(reply, "+OK");
    let name = (0..).map(|n| format!("x{n}")).find(|name| key_slot(name.as_bytes()) == 8_192).unwrap();
    let client = rig.connect();
    rig.check_as(client, "ASKING", "+OK");
    rig.check_as(client, &format!("SET {name} v"), "+OK");
    let (found, _) = walk(&mut rig, "0-{06S}-0", "COUNT 100000");
    assert!(!found.contains_key(&name));
}

#[test]
fn cb_b10_any_number_is_a_legal_cursor() {
    let mut rig = alone(&[]);
    fill(&mut rig, &(0..50).map(|n| format!("{{0}}{n}")).collect::<Vec<_>>());
    let (mark, _) = parts(&rig.run("CLUSTERSCAN 0-{0}-0 COUNT 3"));
    let mark = mark.split('-').next().unwrap().to_owned();
    assert_ne!(mark, "0");
    let mut rng = sluice_base::Rng::new(7);
    for _ in 0..2_000 {
        let number = rng.next_u64() >> rng.below(64);
        for number in [number, number << 14 | 13_907] {
            let (next, _) = parts(&rig.run(&format!("CLUSTERSCAN {mark}-{{0}}-{number} COUNT 3")));
            assert!(next == "0" || next.contains('{'), "{next}");
        }
    }
}

#[test]
fn cb_g20_flushslot_deletes_the_keys_of_a_slot_in_all_databases() {
    let mut rig = alone(&[("notify-keyspace-events", "KEA"), ("cluster-databases", "3")]);
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE __keyevent*");
    let watcher = rig.connect();
    rig.check("SET {a}1 v", "+OK");
    rig.check("SET {b}1 v", "+OK");
    rig.check("SELECT 2", "+OK");
    rig.check("SET {a}2 v", "+OK");
    rig.check_as(watcher, "WATCH {a}1", "+OK");
    rig.output(listener);
    let replica = rig.replica();
    rig.fed(replica);
    let slot = key_slot(b"a");
    for (line, error) in [
        ("CLUSTER FLUSHSLOT x", "Invalid or out of range slot"),
        ("CLUSTER FLUSHSLOT 16384", "Invalid or out of range slot"),
        ("CLUSTER FLUSHSLOT 1 now", "syntax error"),
        (
            "CLUSTER FLUSHSLOT 1 SYNC ASYNC",
            "unknown subcommand or wrong number of arguments for 'FLUSHSLOT'. Try CLUSTER HELP.",
        ),
    ] {
        rig.check(line, &format!("-ERR {error}"));
    }
    let changes = |rig: &mut Rig| {
        let info = rig.run("INFO persistence");
        let text = info.split("rdb_changes_since_last_save:").nth(1).unwrap().split("\\r").next().unwrap();
        text.parse::<u64>().unwrap()
    };
    let before = changes(&mut rig);
    rig.check(&format!("CLUSTER FLUSHSLOT {slot} SYNC"), "+OK");
    assert_eq!(changes(&mut rig), before + 2);
    assert_eq!(rig.fed(replica), format!("SELECT 2; CLUSTER FLUSHSLOT {slot} SYNC"));
    let told = String::from_utf8_lossy(&rig.output(listener)).into_owned();
    assert!(told.contains("__keyevent@0__:del") && told.contains("__keyevent@2__:del"), "{told}");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":0");
    rig.check("SELECT 0", "+OK");
    rig.check("DBSIZE", ":1");
    rig.check_as(watcher, "MULTI", "+OK");
    rig.check_as(watcher, "PING", "+QUEUED");
    rig.check_as(watcher, "EXEC", "nil-array");
    // Without a key nothing is propagated.
    rig.check(&format!("CLUSTER FLUSHSLOT {slot}"), "+OK");
    assert_eq!(rig.fed(replica), "");
}

/// A slot with many keys is emptied at once; its keys are freed in slices (G-22).
#[test]
fn cb_g22_flushslot_of_many_keys_ends_at_once_and_frees_in_slices() {
    let mut rig = alone(&[]);
    let slot = key_slot(b"a");
    rig.check("DEBUG POPULATE 6000 {a}", "+OK");
    rig.check("SET {b}1 v", "+OK");
    let (watcher, tracker) = (rig.connect(), rig.connect());
    rig.run_as(tracker, "HELLO 3");
    rig.check_as(tracker, "CLIENT TRACKING ON", "+OK");
    rig.run_as(tracker, "MGET {a}:5 {a}:1999");
    rig.check_as(watcher, "WATCH {a}:7", "+OK");
    let replica = rig.replica();
    rig.fed(replica);
    // Each reading of the clock advances it by 1.5 ms, which ends a slice.
    rig.process.us_each_look = 1_500;
    rig.check(&format!("CLUSTER FLUSHSLOT {slot}"), "+OK");
    assert_eq!(rig.fed(replica), format!("CLUSTER FLUSHSLOT {slot}"));
    for (line, reply) in
        [("DBSIZE", ":1"), (&format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":0"), ("GET {a}:5", "nil")]
    {
        rig.check(line, reply);
    }
    rig.check_as(watcher, "MULTI", "+OK");
    rig.check_as(watcher, "PING", "+QUEUED");
    rig.check_as(watcher, "EXEC", "nil-array");
    // New keys get the names of detached keys that are still to be freed, and a transaction watches one of
    // the new keys. No slice may touch them.
    (0..20).for_each(|number| rig.check(&format!("SET {{a}}:{number} new"), "+OK"));
    rig.check_as(watcher, "WATCH {a}:7", "+OK");
    rig.fed(replica);
    assert!(rig.run("INFO everything").contains("slots_being_freed:1\\r"));
    assert_eq!(rig.engine.cluster_deadline_ns(), 0, "the next slice is due at once");
    let mut slices = 0;
    while rig.engine.keyspace().has_detached() {
        rig.engine.take_command_ns();
        rig.end_iteration();
        slices += 1;
        assert!(slices < 5_000);
    }
    assert!(slices > 10, "{slices}");
    assert!(rig.run("INFO everything").contains("slots_being_freed:0\\r"));
    assert!(rig.engine.cluster_deadline_ns() > 0);
    assert_eq!(rig.fed(replica), "", "no key is told by itself");
    let told = String::from_utf8_lossy(&rig.output(tracker)).into_owned();
    assert!(told.contains("invalidate") && told.contains("{a}:1999"), "{told}");
    rig.check_as(watcher, "MULTI", "+OK");
    rig.check_as(watcher, "GET {a}:7", "+QUEUED");
    rig.check_as(watcher, "EXEC", "[\"new\"]");
    rig.check("DBSIZE", ":21");
}

#[test]
fn cb_g22_a_slice_of_freeing_is_no_longer_after_a_time_in_which_nothing_ran() {
    let mut rig = alone(&[]);
    (0..2_000).for_each(|number| rig.check(&format!("SET {{a}}:{number} v"), "+OK"));
    rig.process.us_each_look = 100;
    rig.check(&format!("CLUSTER FLUSHSLOT {}", key_slot(b"a")), "+OK");
    let mut slices = 0;
    while rig.engine.keyspace().has_detached() {
        rig.engine.take_command_ns();
        rig.pass_ms(40);
        rig.end_iteration();
        slices += 1;
    }
    // With slices of five milliseconds there would be only two.
    assert!(slices > 3, "{slices}");
}

/// The event of a key's deletion precedes the events of later commands on the key.
#[test]
fn cb_g20_events_of_a_flushed_slot_stand_ahead_of_those_of_later_commands() {
    let mut rig = alone(&[("notify-keyspace-events", "KEA")]);
    (0..1_000).for_each(|number| rig.check(&format!("SET {{a}}{number} v"), "+OK"));
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE __keyspace*");
    rig.output(listener);
    rig.check(&format!("CLUSTER FLUSHSLOT {}", key_slot(b"a")), "+OK");
    rig.check("SET {a}1 v", "+OK");
    let told = String::from_utf8_lossy(&rig.output(listener)).into_owned();
    assert_eq!(told.matches("$3\r\ndel").count(), 1_000);
    assert!(told.rfind("$3\r\ndel") < told.find("$3\r\nset"), "the key that was made last");
}

#[test]
fn cb_g20_flushslot_is_refused_to_clients_of_a_replica() {
    let mut saved = two_shards();
    saved.me = node(crate::cluster::ME, 7000, SavedRole::Replica(Some(saved.others[0].id)), slots(&[]));
    let mut rig = up(&saved, &[]);
    rig.check("CLUSTER FLUSHSLOT 1", "-READONLY You can't write against a read only replica.");
}

/// A watched key that was deleted with its slot was reported as changed at that time, though it is not freed
/// yet. Emptying another slot does not change it again.
#[test]
fn cb_g22_the_end_of_a_slot_changes_no_key_of_another_that_is_left_to_free() {
    let mut rig = alone(&[]);
    rig.check("DEBUG POPULATE 2000 {a}", "+OK");
    rig.check("DEBUG POPULATE 2000 {b}", "+OK");
    // Each reading of the clock advances it by 1.5 ms, which ends a slice.
    rig.process.us_each_look = 1_500;
    rig.check(&format!("CLUSTER FLUSHSLOT {}", key_slot(b"a")), "+OK");
    rig.check("WATCH {a}:5 {a}:1999", "+OK");
    rig.check(&format!("CLUSTER FLUSHSLOT {}", key_slot(b"b")), "+OK");
    rig.check("MULTI", "+OK");
    rig.check("SET {a}new 1", "+QUEUED");
    rig.check("EXEC", "[+OK]");
}

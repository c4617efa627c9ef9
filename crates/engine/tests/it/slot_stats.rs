//! CLUSTER SLOT-STATS: the counts for each slot of a node. The numbers were measured with a node of
//! Valkey 9.1.2 unless a comment says otherwise.

use crate::cluster::{ME, OTHER, node, slots, two_shards};
use sluice_cluster::{OwnLine, SavedCluster, SavedRole, SlotSet};
use sluice_testkit::Rig;

const ON: (&str, &str) = ("cluster-slot-stats-enabled", "yes");
const NO_FORM: &str =
    "-ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.";
const TWICE: &str = "-ERR Multiple filters of the same type are disallowed.";
const BAD_LIMIT: &str = "-ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
const NO_METRIC: &str = "-ERR Unrecognized sort metric for ORDERBY.";
const NO_SLOT: &str = "-ERR Invalid or out of range slot";

fn started(mut rig: Rig) -> Rig {
    rig.pass_ms(2_100);
    rig.end_iteration();
    assert!(rig.run("CLUSTER INFO").contains("cluster_state:ok"));
    rig
}

/// A node that has all slots and counts, with these further directives.
fn whole_with(directives: &[(&str, &str)]) -> Rig {
    let me = node(ME, 7000, SavedRole::Primary, slots(&[(0, 16383)]));
    let saved = SavedCluster { me, others: Vec::new(), ..two_shards() };
    started(Rig::node(Some(&saved), &[&[ON], directives].concat()))
}

fn whole() -> Rig {
    whole_with(&[])
}

/// The counts of a slot: whether processor time was counted, bytes in, bytes out.
fn counted(rig: &mut Rig, key: &str) -> (bool, u64, u64) {
    let observer = rig.connect();
    let slot = rig.run_as(observer, &format!("CLUSTER KEYSLOT {key}"));
    let slot = slot.trim_start_matches(':');
    let told = rig.run_as(observer, &format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}"));
    let words: Vec<&str> = told.split([',', '[', ']', ' ']).filter(|word| !word.is_empty()).collect();
    let number = |name: &str| -> u64 {
        let at = words.iter().position(|word| word.trim_matches('"') == name).expect("a metric of the slot");
        words[at + 1].trim_start_matches(':').parse().expect("a number")
    };
    (number("cpu-usec") > 0, number("network-bytes-in"), number("network-bytes-out"))
}

/// Resets the counts, runs the lines, and compares the counts of the slot of `key`.
fn check(rig: &mut Rig, lines: &[&str], expected: (bool, u64, u64)) {
    rig.run("FLUSHALL");
    rig.run("CONFIG RESETSTAT");
    for line in lines {
        rig.run(line);
    }
    assert_eq!(counted(rig, "key"), expected, "{lines:?}");
}

#[test]
fn cb_l1_l2_forms_and_errors() {
    let mut rig = whole();
    let zero = "[\"key-count\", :0, \"cpu-usec\", :0, \"network-bytes-in\", :0, \"network-bytes-out\", :0]";
    let stats = "CLUSTER SLOT-STATS";
    for (form, expected) in [
        ("SLOTSRANGE 1 2", &*format!("[[:1, {zero}], [:2, {zero}]]")),
        ("SLOTSRANGE 16383 16383", &format!("[[:16383, {zero}]]")),
        ("ORDERBY key-count LIMIT 1", &format!("[[:0, {zero}]]")),
        ("ORDERBY key-count ASC LIMIT 2", &format!("[[:0, {zero}], [:1, {zero}]]")),
        ("orderby CPU-USEC limit 1 desc", &format!("[[:0, {zero}]]")),
        ("SLOTSRANGE 2 1", "-ERR Start slot number 2 is greater than end slot number 1"),
        ("SLOTSRANGE -1 2", NO_SLOT),
        ("SLOTSRANGE 1 16384", NO_SLOT),
        ("SLOTSRANGE a b", NO_SLOT),
        ("SLOTSRANGE 1", NO_FORM),
        ("SLOTSRANGE 1 2 3", NO_FORM),
        ("FOO x", NO_FORM),
        ("ORDERBY foo", NO_METRIC),
        ("ORDERBY memory-bytes LIMIT 1", NO_METRIC),
        ("ORDERBY foo LIMIT 0", NO_METRIC),
        ("ORDERBY key-count LIMIT 0", BAD_LIMIT),
        ("ORDERBY key-count LIMIT 16385", BAD_LIMIT),
        ("ORDERBY key-count LIMIT x", BAD_LIMIT),
        ("ORDERBY key-count LIMIT 1 LIMIT 2", TWICE),
        ("ORDERBY key-count ASC DESC", TWICE),
        ("ORDERBY key-count ASC LIMIT 1 ASC", TWICE),
        ("ORDERBY key-count LIMIT", "-ERR syntax error"),
        ("ORDERBY key-count bad", "-ERR syntax error"),
        ("SLOTSRANGE", "-ERR wrong number of arguments for 'cluster|slot-stats' command"),
    ] {
        rig.check(&format!("{stats} {form}"), expected);
    }
    // Without a limit, the reply has all slots of the shard.
    assert_eq!(rig.run(&format!("{stats} ORDERBY key-count")).matches("cpu-usec").count(), 16_384);
    // Counts that are off are not shown, and cannot be ordered by.
    rig.check("CONFIG SET cluster-slot-stats-enabled no", "+OK");
    rig.check(&format!("{stats} SLOTSRANGE 1 1"), "[[:1, [\"key-count\", :0]]]");
    rig.check(&format!("{stats} ORDERBY cpu-usec"), NO_METRIC);
}

#[test]
fn cb_l1_only_slots_of_the_shard_are_shown() {
    let mut rig = started(Rig::node(Some(&two_shards()), &[]));
    rig.check("SET bar 1", "+OK");
    rig.check("CLUSTER SLOT-STATS SLOTSRANGE 8191 8193", "[[:8191, [\"key-count\", :0]]]");
    rig.check("CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1", "[[:5061, [\"key-count\", :1]]]");
    // A replica shows the slots of its primary.
    let other = node(OTHER, 7001, SavedRole::Primary, slots(&[(8192, 16383)]));
    let first =
        node("dddddddddddddddddddddddddddddddddddddddd", 7003, SavedRole::Primary, slots(&[(0, 8191)]));
    let me = node(ME, 7000, SavedRole::Replica(Some(other.id)), SlotSet::EMPTY);
    let saved = SavedCluster { me, own_line: OwnLine::Whole, others: vec![other, first], ..two_shards() };
    let mut rig = started(Rig::node(Some(&saved), &[]));
    rig.check("CLUSTER SLOT-STATS SLOTSRANGE 8191 8192", "[[:8192, [\"key-count\", :0]]]");
}

#[test]
fn cb_l2_order_by_a_number() {
    let mut rig = whole();
    // The keys are in slots 12539, 5061 and 866.
    for line in ["SET key 1", "SET {key}2 1", "SET bar 1", "SET {bar}2 1", "SET hello 1"] {
        rig.check(line, "+OK");
    }
    let order = |told: &str| -> Vec<u16> {
        let ends = told.split(", [\"key-count\"").filter_map(|part| part.rsplit(':').next()?.parse().ok());
        ends.collect()
    };
    let told = rig.run("CLUSTER SLOT-STATS ORDERBY key-count LIMIT 4");
    assert_eq!(order(&told), [5061, 12539, 866, 0], "{told}");
    let told = rig.run("CLUSTER SLOT-STATS ORDERBY network-bytes-in DESC LIMIT 3");
    assert_eq!(order(&told), [5061, 12539, 866], "{told}");
    let told = rig.run("CLUSTER SLOT-STATS ORDERBY key-count ASC");
    assert_eq!(&order(&told)[16_381..], [866, 5061, 12539], "{}", told.len());
}

#[test]
fn cb_l4_l5_l6_commands() {
    let mut rig = whole();
    for (lines, expected) in [
        (&["SET key value"][..], (true, 33, 5)),
        (&["GET key"], (true, 22, 5)),
        (&["MSET key 1 {key}2 2"], (true, 49, 5)),
        (&["LPUSH key v", "INCR key"], (true, 54, 72)),
        (&["GET key x"], (false, 0, 0)),
        (&["SET key v BAD"], (true, 38, 19)),
        (&["WATCH key", "UNWATCH"], (true, 24, 5)),
        (&["MGET key zzz"], (false, 0, 0)),
        (&["PING"], (false, 0, 0)),
        (&["PUBLISH key hello"], (false, 0, 0)),
        (&["CLIENT REPLY SKIP", "SET key value"], (true, 33, 0)),
    ] {
        check(&mut rig, lines, expected);
    }
    rig.run("CONFIG RESETSTAT");
    rig.bytes(rig.client, b"SET key value\r\n");
    assert_eq!(counted(&mut rig, "key"), (true, 15, 5), "an inline request");
}

#[test]
fn cb_l7_a_transaction_counts_once() {
    let mut rig = whole();
    for (lines, expected) in [
        // The reference counts 49, 43 and 18 bytes out, because it counts the replies of inner commands once
        // more.
        (&["MULTI", "SET key value", "GET key", "EXEC"][..], (true, 84, 20)),
        (&["MULTI", "PING", "GET key", "EXEC"], (true, 51, 16)),
        (&["MULTI", "SET key value", "EXEC"], (true, 62, 9)),
        (&["MULTI", "SET key value", "DISCARD"], (false, 33, 0)),
        (&["MULTI", "SET key v", "GET", "EXEC"], (false, 29, 0)),
        (&["MULTI", "EXEC"], (false, 0, 0)),
        (&["MULTI", "PING", "EXEC"], (false, 0, 0)),
    ] {
        check(&mut rig, lines, expected);
    }
    // A watched key was changed, so EXEC counts nothing.
    let other = rig.connect();
    rig.run("FLUSHALL");
    rig.run("CONFIG RESETSTAT");
    rig.run("WATCH key");
    rig.check_as(other, "SET key 1", "+OK");
    for line in ["MULTI", "SET key value"] {
        rig.run(line);
    }
    rig.check("EXEC", "nil-array");
    assert_eq!(counted(&mut rig, "key"), (true, 86, 10));
}

#[test]
fn cb_l4_scripts_count_once_or_not_at_all() {
    let mut rig = whole();
    let cross = "#!lua flags=allow-cross-slot-keys\\nreturn server.call('get', KEYS[1])";
    for (script, keys, expected) in [
        ("return 1", "1 key", (true, 44, 4)),
        // The reference counts the replies inside scripts, too, which gives 10, 15 and 10 bytes out.
        ("#!lua\\nreturn redis.call('get',KEYS[1])", "1 key", (true, 75, 5)),
        ("#!lua\\nredis.call('get',KEYS[1]) return redis.call('get',KEYS[1])", "1 key", (true, 101, 5)),
        ("#!lua\\nreturn redis.call('get','key')", "0", (true, 64, 5)),
        ("return server.call('get', KEYS[1])", "1 key", (false, 0, 0)),
        ("return server.call('get', 'key')", "0", (false, 0, 0)),
        (cross, "1 key", (false, 0, 0)),
    ] {
        check(&mut rig, &[&format!("EVAL \"{script}\" {keys}")], expected);
    }
    let library = "#!lua name=l\\nredis.register_function('f', function(k, a) redis.call('set', 'key', '1') return redis.call('get', 'key') end)";
    rig.check(&format!("FUNCTION LOAD \"{library}\""), "\"l\"");
    check(&mut rig, &["FCALL f 0"], (true, 29, 7));
    // A transaction has the slot that a script of its queue finds.
    let found = "EVAL \"#!lua\\nreturn redis.call('get','key')\" 0";
    check(&mut rig, &["MULTI", found, "EXEC"], (true, 29, 9));
    let free = "EVAL \"return redis.call('get',KEYS[1])\" 1 key";
    check(&mut rig, &["MULTI", free, "EXEC"], (false, 69, 0));
}

#[test]
fn cb_l5_a_wait_counts_when_it_ends_with_its_key() {
    let mut rig = whole();
    let waits = rig.connect();
    rig.run_as(waits, "BLPOP key 0");
    assert_eq!(counted(&mut rig, "key"), (false, 0, 0));
    rig.check("LPUSH key v", ":1");
    assert_eq!(counted(&mut rig, "key"), (true, 62, 24));
    rig.run("CONFIG RESETSTAT");
    let id = rig.run_as(waits, "CLIENT ID");
    rig.run_as(waits, "BLPOP key 0");
    rig.check(&format!("CLIENT UNBLOCK {}", id.rsplit(':').next().unwrap()), ":1");
    assert_eq!(counted(&mut rig, "key"), (false, 0, 0));
}

#[test]
fn cb_l5_l6_sharded_channels() {
    let mut rig = whole();
    let (first, second) = (rig.connect(), rig.connect());
    rig.run_as(first, "SSUBSCRIBE channel");
    assert_eq!(counted(&mut rig, "channel"), (true, 34, 38));
    rig.run("CONFIG RESETSTAT");
    rig.check("SPUBLISH channel hello", ":1");
    assert_eq!(counted(&mut rig, "channel"), (true, 42, 46));
    rig.run_as(second, "SSUBSCRIBE channel");
    rig.run("CONFIG RESETSTAT");
    rig.check("SPUBLISH channel hello", ":2");
    assert_eq!(counted(&mut rig, "channel"), (true, 42, 88));
    rig.run("CONFIG RESETSTAT");
    rig.run_as(first, "SSUBSCRIBE {channel}1 {channel}2");
    assert_eq!(counted(&mut rig, "channel"), (true, 55, 84));
    rig.run("CONFIG RESETSTAT");
    rig.run_as(first, "SUNSUBSCRIBE channel");
    assert_eq!(counted(&mut rig, "channel"), (true, 36, 40));
    rig.run("CONFIG RESETSTAT");
    rig.run_as(second, "SUNSUBSCRIBE");
    assert_eq!(counted(&mut rig, "channel"), (false, 0, 0));
}

#[test]
fn cb_l6_what_replicas_are_sent() {
    let mut rig = whole();
    rig.replica();
    for (lines, expected) in [
        (&["SET key value"][..], (true, 33, 38)),
        (&["SET key value", "DEL key"], (true, 55, 64)),
        (&["MSET key v {key}2 w"], (true, 49, 54)),
        // MULTI and EXEC of the stream count; SELECT does not.
        (&["MULTI", "SET key value", "SET key value", "EXEC"], (true, 95, 14 + 66 + 29)),
        (&["MULTI", "SET key value", "EXEC"], (true, 62, 9 + 33)),
        (&["GET key"], (true, 22, 5)),
    ] {
        check(&mut rig, lines, expected);
    }
    rig.replica();
    check(&mut rig, &["SET key value"], (true, 33, 5 + 2 * 33));
}

#[test]
fn cb_l8_refused_requests() {
    let mut rig = whole();
    let other = rig.connect();
    check(&mut rig, &["CONFIG SET maxmemory 1", "SET key value", "CONFIG SET maxmemory 0"], (false, 33, 0));
    let at_exec = ["MULTI", "SET key value"];
    rig.run("CONFIG RESETSTAT");
    at_exec.iter().for_each(|line| drop(rig.run(line)));
    rig.check_as(other, "CONFIG SET maxmemory 1", "+OK");
    assert!(rig.run("EXEC").starts_with("-EXECABORT"));
    rig.check_as(other, "CONFIG SET maxmemory 0", "+OK");
    assert_eq!(counted(&mut rig, "key"), (false, 62, 0));
    rig.run("CONFIG RESETSTAT");
    rig.run("ACL SETUSER bob on nopass +get ~*");
    rig.run_as(other, "AUTH bob x");
    assert!(rig.run_as(other, "SET key value").starts_with("-NOPERM"));
    assert_eq!(counted(&mut rig, "key"), (false, 33, 0));
}

#[test]
fn cb_l3_counters_begin_again() {
    let mut rig = whole();
    check(&mut rig, &["SET key value"], (true, 33, 5));
    rig.check("CONFIG RESETSTAT", "+OK");
    assert_eq!(counted(&mut rig, "key"), (false, 0, 0));
    // The counts of a slot that leaves and returns begin at zero; other slots keep their counts.
    check(&mut rig, &["SET key value", "SET bar value"], (true, 33, 5));
    rig.check("CLUSTER DELSLOTS 12539", "+OK");
    rig.check("CLUSTER ADDSLOTS 12539", "+OK");
    assert_eq!(counted(&mut rig, "key"), (false, 0, 0));
    assert_eq!(counted(&mut rig, "bar"), (true, 33, 5));
    // While counting is off, nothing is counted, and the counts stay.
    check(
        &mut rig,
        &[
            "SET key v",
            "CONFIG SET cluster-slot-stats-enabled no",
            "SET key v",
            "CONFIG SET cluster-slot-stats-enabled yes",
        ],
        (true, 29, 5),
    );
}

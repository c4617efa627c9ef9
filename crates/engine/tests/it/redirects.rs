//! Tests how a cluster node treats requests: which it serves, which it redirects, and what this means for
//! transactions, scripts and clients that wait.

use crate::cluster::{ME, OTHER, node, slots, two_shards};
use sluice_base::SessionKey;
use sluice_cluster::{OwnLine, SavedCluster, SavedRole, SlotSet};
use sluice_session::{ClientAddress, Medium};
use sluice_testkit::{Rig, render};

/// `bar` (slot 5061) and `hello` (slot 866) belong to this node; `foo` (slot 12182) and `{x}` (slot 16287) do
/// not.
const MOVED_FOO: &str = "-MOVED 12182 10.0.0.1:7001";
const CROSSED: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

/// A primary in a cluster of two shards, after the cluster's state has become `ok`.
fn served() -> Rig {
    well(&two_shards(), &[])
}

fn well(saved: &SavedCluster, directives: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::node(Some(saved), directives);
    rig.pass_ms(2_100);
    rig.end_iteration();
    assert!(rig.run("CLUSTER INFO").contains("cluster_state:ok"));
    rig
}

/// A replica of the second shard.
fn replica() -> Rig {
    let other = node(OTHER, 7001, SavedRole::Primary, slots(&[(8192, 16383)]));
    let first =
        node("dddddddddddddddddddddddddddddddddddddddd", 7003, SavedRole::Primary, slots(&[(0, 8191)]));
    let me = node(ME, 7000, SavedRole::Replica(Some(other.id)), SlotSet::EMPTY);
    well(
        &SavedCluster { me, own_line: OwnLine::Whole, others: vec![other, first], ..two_shards() },
        &[("replica-serve-stale-data", "yes")],
    )
}

fn check_all(rig: &mut Rig, rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        rig.check(line, expected);
    }
}

const UNBALANCED: &str =
    "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.";

#[test]
fn cb_s10_to_s19_slots_of_others_are_told() {
    let mut rig = served();
    check_all(
        &mut rig,
        &[
            ("SET bar 1", "+OK"),
            ("GET foo", MOVED_FOO),
            ("MSET bar 1 hello 2", CROSSED),
            ("MSET foo 1 {x} 2", CROSSED),
            ("MSET foo{bar} 1 bar 2", "+OK"),
            ("MGET {foo}1 {foo}2", MOVED_FOO),
            ("RENAME bar hello", CROSSED),
            ("RENAME {bar}1 {bar}2", "-ERR no such key"),
            ("ZUNIONSTORE bar 2 bar foo", CROSSED),
            ("ZUNIONSTORE foo 2 {foo}1 {foo}2", MOVED_FOO),
            ("SORT foo STORE {foo}1", MOVED_FOO),
            ("SORT bar STORE foo", CROSSED),
            ("XREAD STREAMS foo 0", MOVED_FOO),
            ("OBJECT ENCODING foo", MOVED_FOO),
            ("MEMORY USAGE foo", MOVED_FOO),
            ("PFMERGE foo", MOVED_FOO),
            // The next three commands have no keys, or no keys that could be found.
            ("PING", "+PONG"),
            ("DBSIZE", ":2"),
            ("ZUNIONSTORE foo x bar", "-ERR value is not an integer or out of range"),
            ("WATCH foo", MOVED_FOO),
            ("WATCH bar hello", CROSSED),
            ("SSUBSCRIBE foo", MOVED_FOO),
            ("SSUBSCRIBE foo bar", CROSSED),
            // The next two calls are invalid; their errors come from the node that was asked.
            ("XREAD STREAMS foo foo 0", UNBALANCED),
            ("XREAD NOSUCH STREAMS foo 0", "-ERR syntax error"),
            ("XREAD COUNT 1 BLOCK 1 STREAMS foo 0", MOVED_FOO),
            ("XREADGROUP GROUP g c NOACK STREAMS foo >", MOVED_FOO),
            ("XREADGROUP GROUP g c d STREAMS foo >", "-ERR syntax error"),
            ("SPUBLISH foo x", MOVED_FOO),
            ("SPUBLISH bar x", ":0"),
            ("PUBLISH foo x", ":0"),
        ],
    );
    // These requests have more keys than are hashed when a request is prepared.
    let many: Vec<String> = (0..40).map(|at| format!("{{bar}}{at}")).collect();
    rig.check(&format!("EXISTS {}", many.join(" ")), ":0");
    rig.check(&format!("EXISTS {} foo", many.join(" ")), CROSSED);
}

#[test]
fn cb_s11_a_slot_without_an_owner_is_not_served() {
    let mut saved = two_shards();
    saved.me.slots = slots(&[(0, 4095)]);
    let mut rig = well(&saved, &[("cluster-require-full-coverage", "no")]);
    rig.check("GET bar", "-CLUSTERDOWN Hash slot not served");
    rig.check("MGET bar foo", CROSSED);
    rig.check("EVAL 'return server.call(\"get\", KEYS[1])' 1 bar", "-CLUSTERDOWN Hash slot not served");
}

#[test]
fn cb_s14_a_cluster_that_is_down() {
    let mut rig = served();
    rig.check("CLUSTER DELSLOTS 16383", "+OK");
    let down = "-CLUSTERDOWN The cluster is down";
    check_all(
        &mut rig,
        &[
            ("GET bar", down),
            ("GET foo", down),
            ("MGET bar foo", CROSSED),
            ("SPUBLISH bar x", ":0"),
            ("CONFIG SET cluster-allow-pubsubshard-when-down no", "+OK"),
            ("SPUBLISH bar x", down),
            ("CONFIG SET cluster-allow-reads-when-down yes", "+OK"),
            ("GET bar", "nil"),
            ("GET foo", MOVED_FOO),
            ("SET bar 1", "-CLUSTERDOWN The cluster is down and only accepts read commands"),
            ("SET foo 1", "-CLUSTERDOWN The cluster is down and only accepts read commands"),
        ],
    );
    let told = rig.run("EVAL 'return server.call(\"set\", \"bar\", 1)' 0");
    let text = "-ERR Can not execute a write command 'set' while the cluster is down and readonly script: ";
    assert!(told.starts_with(text), "{told}");
    rig.check("CONFIG SET cluster-allow-reads-when-down no", "+OK");
    let told = rig.run("EVAL 'return server.call(\"get\", \"bar\")' 0");
    assert!(
        told.starts_with("-ERR Can not execute a command 'get' while the cluster is down script: "),
        "{told}"
    );
}

#[test]
fn cl_s24_a_node_that_has_stood_still_refuses_the_next_request() {
    let mut rig = served();
    rig.check("SET bar 1", "+OK");
    rig.pass_ms(15_000);
    rig.check("SET bar 2", "+OK");
    rig.pass_ms(15_001);
    rig.check("SET bar 3", "-CLUSTERDOWN The cluster is down");
    assert!(rig.process.log.iter().any(|(_, text)| text.starts_with("This process stood still")));
    // The event loop may sleep for longer than the shortest timeouts.
    let mut rig = Rig::node(Some(&two_shards()), &[("cluster-node-timeout", "0")]);
    for (ms, is_standstill) in [(500, false), (501, true)] {
        rig.pass_ms(ms);
        rig.check("PING", "+PONG");
        let is_said = rig.process.log.iter().any(|(_, text)| text.starts_with("This process stood still"));
        assert_eq!(is_said, is_standstill, "after {ms} ms");
    }
    // A replica that has stood still refuses the next read, too.
    let mut rig = replica();
    check_all(&mut rig, &[("READONLY", "+OK"), ("GET foo", "nil")]);
    rig.pass_ms(15_001);
    rig.check("GET foo", "-CLUSTERDOWN The cluster is down");
}

/// Commands that were queued while the cluster was up, in particular writes, are not executed once the
/// cluster is down.
#[test]
fn cb_s14_the_flags_of_the_queue_decide_at_exec() {
    let mut rig = served();
    check_all(&mut rig, &[("MULTI", "+OK"), ("SET bar 1", "+QUEUED"), ("GET bar", "+QUEUED")]);
    let operator = rig.connect();
    rig.check_as(operator, "CONFIG SET cluster-allow-reads-when-down yes", "+OK");
    rig.check_as(operator, "CLUSTER DELSLOTS 16383", "+OK");
    rig.check("EXEC", "-CLUSTERDOWN The cluster is down and only accepts read commands");
    check_all(&mut rig, &[("MULTI", "+OK"), ("GET bar", "+QUEUED"), ("EXEC", "[nil]")]);
}

#[test]
fn cb_s30_a_refusal_is_counted_and_shown() {
    let mut rig = served();
    rig.check("CONFIG RESETSTAT", "+OK");
    for line in ["GET foo", "GET foo", "MGET bar foo", "SET bar 1"] {
        rig.run(line);
    }
    let stats = rig.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_get:calls=1") && stats.contains("cmdstat_get:calls=0,"), "{stats}");
    assert!(stats.contains("rejected_calls=2"), "{stats}");
    let errors = rig.run("INFO errorstats");
    assert!(errors.contains("errorstat_MOVED:count=2"), "{errors}");
    assert!(errors.contains("errorstat_CROSSSLOT:count=1"), "{errors}");
    assert!(rig.run("INFO stats").contains("total_error_replies:3"));
    // CLIENT REPLY suppresses redirects like other replies (S-35).
    assert_eq!(rig.bytes(rig.client, b"CLIENT REPLY SKIP\r\nGET foo\r\n"), b"");
    rig.check("PING", "+PONG");
}

#[test]
fn cb_s31_s32_transactions_are_refused_as_a_whole() {
    let mut rig = served();
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    check_all(
        &mut rig,
        &[
            ("MULTI", "+OK"),
            ("SET bar 1", "+QUEUED"),
            ("GET foo", MOVED_FOO),
            ("EXEC", aborted),
            ("MULTI", "+OK"),
            ("SET bar 1", "+QUEUED"),
            ("SET hello 1", "+QUEUED"),
            ("EXEC", CROSSED),
            ("EXEC", "-ERR EXEC without MULTI"),
            // Queued keys do not count once a command was refused.
            ("MULTI", "+OK"),
            ("SET bar 1", "+QUEUED"),
            ("SET hello 1", "+QUEUED"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
            ("EXEC", aborted),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("EXEC", "[+PONG]"),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("SET bar 1", "+QUEUED"),
            ("MGET {bar}1 bar", "+QUEUED"),
            ("EXEC", "[+PONG, +OK, [nil, \"1\"]]"),
            // Conditions are keys of the transaction (S-6).
            ("MULTI", "+OK"),
            ("GET bar", "+QUEUED"),
            ("EXEC XX hello", CROSSED),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("EXEC XX foo", MOVED_FOO),
            ("MULTI", "+OK"),
            ("GET bar", "+QUEUED"),
            ("EXEC XX bar", "[\"1\"]"),
        ],
    );
    // The change of a watched key is reported only if the slots of the commands that were queued before the
    // change let EXEC pass; it is dropped with the transaction.
    check_all(&mut rig, &[("WATCH bar", "+OK"), ("SET bar 2", "+OK"), ("MULTI", "+OK")]);
    check_all(&mut rig, &[("GET bar", "+QUEUED"), ("GET hello", "+QUEUED"), ("EXEC", "nil-array")]);
    check_all(&mut rig, &[("MULTI", "+OK"), ("GET bar", "+QUEUED"), ("EXEC", "[\"2\"]")]);
    let other = rig.connect();
    check_all(&mut rig, &[("WATCH bar", "+OK"), ("MULTI", "+OK"), ("GET bar", "+QUEUED")]);
    check_all(&mut rig, &[("GET hello", "+QUEUED")]);
    rig.check_as(other, "SET bar 3", "+OK");
    check_all(&mut rig, &[("GET {hello}1", "+QUEUED"), ("EXEC", CROSSED)]);
    check_all(&mut rig, &[("MULTI", "+OK"), ("GET bar", "+QUEUED"), ("EXEC", "[\"3\"]")]);
}

#[test]
fn cb_t42_exec_after_the_slot_has_gone() {
    let mut rig = served();
    check_all(&mut rig, &[("MULTI", "+OK"), ("GET bar", "+QUEUED")]);
    let operator = rig.connect();
    rig.check_as(operator, &format!("CLUSTER SETSLOT 5061 NODE {OTHER}"), "+OK");
    rig.check("EXEC", "-MOVED 5061 10.0.0.1:7001");
    rig.check("PING", "+PONG");
}

/// Requests for a slot that is migrating, from a client with and without ASKING.
#[test]
fn cb_s16_a_slot_that_moves_away() {
    let mut rig = served();
    rig.check("SET {bar}1 1", "+OK");
    rig.check(&format!("CLUSTER SETSLOT 5061 MIGRATING {OTHER}"), "+OK");
    let ask = "-ASK 5061 10.0.0.1:7001";
    let again = "-TRYAGAIN Multiple keys request during rehashing of slot";
    check_all(
        &mut rig,
        &[
            ("GET {bar}1", "\"1\""),
            ("GET bar", ask),
            ("MGET {bar}1 bar", again),
            ("MGET {bar}2 bar", ask),
            ("MGET {bar}1 {bar}1", "[\"1\", \"1\"]"),
            ("MOVE {bar}1 0", again),
            ("COPY {bar}1 {bar}2 DB 1", again),
            ("COPY {bar}1 {bar}2 DB 0", again),
            ("COPY {bar}1 {bar}1 DB 0", "-ERR source and destination objects are the same"),
            ("COPY {bar}1 {bar}1 DB x", again),
            ("COPY {bar}1 {bar}1 DB", "-ERR syntax error"),
            ("SPUBLISH bar x", ":0"),
            // Queueing looks up no key; EXEC looks up all keys.
            ("MULTI", "+OK"),
            ("GET bar", "+QUEUED"),
            ("EXEC", ask),
            ("MULTI", "+OK"),
            ("GET {bar}1", "+QUEUED"),
            ("GET bar", "+QUEUED"),
            ("EXEC", again),
            ("MULTI", "+OK"),
            ("MOVE {bar}1 0", again),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("GET {bar}1", "+QUEUED"),
            ("EXEC", "[\"1\"]"),
        ],
    );
    // An expired key is missing, and the lookup does not delete it.
    rig.check("PEXPIRE {bar}1 5", ":1");
    rig.pass_ms(50);
    rig.check("GET {bar}1", ask);
    rig.check("DBSIZE", ":1");
    let told = rig.run("EVAL 'return server.call(\"get\", \"bar\")' 0");
    assert!(
        told.starts_with("-ERR Attempted to access a non local key in a cluster node script: "),
        "{told}"
    );
}

#[test]
fn cb_s17_s60_a_slot_that_comes_here() {
    let mut rig = served();
    rig.check(&format!("CLUSTER SETSLOT 12182 IMPORTING {OTHER}"), "+OK");
    let again = "-TRYAGAIN Multiple keys request during rehashing of slot";
    check_all(
        &mut rig,
        &[
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("SET foo 1", "+OK"),
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("PING", "+PONG"),
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("NOTHING", "-ERR unknown command 'NOTHING', with args beginning with: "),
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("ASKING", "+OK"),
            ("GET foo", "\"1\""),
            ("ASKING", "+OK"),
            ("MGET foo {foo}2", again),
            ("MGET foo {foo}2", MOVED_FOO),
            ("ASKING", "+OK"),
            ("GET {foo}2", "nil"),
            ("ASKING", "+OK"),
            ("RESET", "+RESET"),
            ("GET foo", MOVED_FOO),
            // With MULTI, ASKING lasts until EXEC.
            ("ASKING", "+OK"),
            ("MULTI", "+OK"),
            ("GET foo", "+QUEUED"),
            ("PING", "+QUEUED"),
            ("GET foo", "+QUEUED"),
            ("EXEC", "[\"1\", +PONG, \"1\"]"),
            ("GET foo", MOVED_FOO),
            // Inside MULTI, ASKING is queued, and its effect has ended with EXEC.
            ("MULTI", "+OK"),
            ("ASKING", "+QUEUED"),
            ("EXEC", "[+OK]"),
            ("GET foo", MOVED_FOO),
            ("ASKING", "+OK"),
            ("EVAL 'return server.call(\"get\", KEYS[1])' 1 foo", "\"1\""),
            ("GET foo", MOVED_FOO),
        ],
    );
    let payload = rig.argv(rig.client, &[b"ASKING"]);
    assert_eq!(payload, b"+OK\r\n");
    let dumped = rig.argv(rig.client, &[b"DUMP", b"foo"]);
    let body = &dumped[dumped.iter().position(|byte| *byte == b'\n').unwrap() + 1..dumped.len() - 2];
    assert_eq!(rig.argv(rig.client, &[b"RESTORE-ASKING", b"{foo}3", b"0", body]), b"+OK\r\n");
    assert_eq!(render(&rig.argv(rig.client, &[b"RESTORE", b"{foo}4", b"0", body])), MOVED_FOO);
}

/// Scripts are checked with the flags of their client (T-10), and do not change these flags.
#[test]
fn cb_t10_a_script_changes_no_flag_of_its_client() {
    let mut rig = served();
    let flags = |rig: &mut Rig| {
        let line = rig.run("CLIENT INFO");
        line.split(' ').find(|word| word.starts_with("flags=")).unwrap().to_owned()
    };
    let before = flags(&mut rig);
    for name in ["ASKING", "READONLY"] {
        rig.check(&format!("EVAL \"return redis.call('{name}')\" 0"), "+OK");
        assert_eq!(flags(&mut rig), before, "{name}");
    }
    rig.check("READONLY", "+OK");
    assert_eq!(flags(&mut rig), "flags=r");
    rig.check("EVAL \"return redis.call('READWRITE')\" 0", "+OK");
    assert_eq!(flags(&mut rig), "flags=r");
}

/// A request that waits during a pause still has its ASKING when it continues (S-63).
#[test]
fn cb_s63_asking_lasts_until_its_command_has_run() {
    let mut rig = served();
    rig.check(&format!("CLUSTER SETSLOT 12182 IMPORTING {OTHER}"), "+OK");
    let operator = rig.connect();
    rig.check_as(operator, "CLIENT PAUSE 100000 WRITE", "+OK");
    rig.check("ASKING", "+OK");
    rig.check("SET foo 1", "");
    rig.check_as(operator, "CLIENT UNPAUSE", "+OK");
    assert_eq!(rig.output(rig.client), b"+OK\r\n");
    rig.check("GET foo", MOVED_FOO);
}

#[test]
fn cb_s18_a_replica_reads_for_who_wants_that() {
    let mut rig = replica();
    let moved = "-MOVED 12182 10.0.0.1:7001";
    check_all(
        &mut rig,
        &[
            ("GET foo", moved),
            ("GET bar", "-MOVED 5061 10.0.0.1:7003"),
            ("READONLY", "+OK"),
            ("GET foo", "nil"),
            ("GET bar", "-MOVED 5061 10.0.0.1:7003"),
            ("SET foo 1", moved),
            ("MULTI", "+OK"),
            ("GET foo", "+QUEUED"),
            ("EXEC", "[nil]"),
            ("MULTI", "+OK"),
            ("SET foo 1", moved),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            // A script without a first line may read; a first line declares what the script does (T12).
            ("EVAL 'return server.call(\"get\", KEYS[1])' 1 foo", "nil"),
            ("EVAL '#!lua\nreturn 1' 1 foo", moved),
            ("EVAL '#!lua flags=no-writes\nreturn 1' 1 foo", ":1"),
            ("READWRITE", "+OK"),
            ("GET foo", moved),
            // Sharded publish/subscribe needs no READONLY.
            ("SPUBLISH foo x", ":0"),
            ("SPUBLISH bar x", "-MOVED 5061 10.0.0.1:7003"),
        ],
    );
    // Writes inside a script fail on their own.
    rig.check("READONLY", "+OK");
    let told = rig.run("EVAL 'return server.call(\"set\", KEYS[1], 1)' 1 foo");
    assert!(told.starts_with("-"), "{told}");
}

#[test]
fn cb_t2_t13_scripts_keep_to_their_slot() {
    let mut rig = served();
    let refused = "-ERR Can not run script on cluster, 'no-cluster' flag is set.";
    let call = |key: &str| format!("return server.call(\\\"get\\\", \\\"{key}\\\")");
    let two = |first: &str, second: &str| {
        format!("server.call(\\\"get\\\", \\\"{first}\\\") return server.call(\\\"get\\\", \\\"{second}\\\")")
    };
    rig.check("EVAL \"#!lua flags=no-cluster\\nreturn 1\" 0", refused);
    rig.check("EVAL \"return server.call('get', KEYS[1])\" 1 foo", MOVED_FOO);
    let starts = |rig: &mut Rig, line: &str, text: &str| {
        let told = rig.run(line);
        assert!(told.starts_with(text), "{line}: {told}");
    };
    let other = "-ERR Script attempted to access keys that do not hash to the same slot script: ";
    let foreign = "-ERR Attempted to access a non local key in a cluster node script: ";
    starts(&mut rig, &format!("EVAL \"{}\" 1 bar", call("foo")), foreign);
    // A script without a first line may access any local slot.
    rig.check(&format!("EVAL \"{}\" 1 bar", call("hello")), "nil");
    starts(&mut rig, &format!("EVAL \"#!lua\\n{}\" 1 bar", call("hello")), other);
    rig.check(&format!("EVAL \"#!lua\\n{}\" 1 bar", call("{bar}2")), "nil");
    // If no key is declared, the first call decides the slot.
    starts(&mut rig, &format!("EVAL \"#!lua\\n{}\" 0", two("bar", "hello")), other);
    rig.check(&format!("EVAL \"#!lua\\n{}\" 0", two("bar", "{bar}1")), "nil");
    rig.check(&format!("EVAL \"#!lua flags=allow-cross-slot-keys\\n{}\" 0", two("bar", "hello")), "nil");
    starts(
        &mut rig,
        &format!("EVAL \"#!lua flags=allow-cross-slot-keys\\n{}\" 0", two("bar", "foo")),
        foreign,
    );
    starts(&mut rig, "EVAL \"return server.call('mget', 'bar', 'hello')\" 0", foreign);
    // A request is routed before its script is looked up.
    rig.check("EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 foo", MOVED_FOO);
    rig.check("FCALL f 1 foo", MOVED_FOO);
    let errors = rig.run("INFO errorstats");
    assert!(errors.contains("errorstat_ERR:"), "{errors}");
}

fn blocked(rig: &mut Rig, line: &str) -> SessionKey {
    let client = rig.connect();
    rig.check_as(client, line, "");
    client
}

#[test]
fn cb_s70_s73_clients_that_wait_are_told_when_their_slot_leaves() {
    let mut rig = served();
    let list = blocked(&mut rig, "BLPOP bar 0");
    let stays = blocked(&mut rig, "BLPOP hello 0");
    let stream = blocked(&mut rig, "XREAD BLOCK 0 STREAMS {bar}s $");
    rig.check("CONFIG RESETSTAT", "+OK");
    rig.check(&format!("CLUSTER SETSLOT 5061 NODE {OTHER}"), "+OK");
    for client in [list, stream] {
        assert_eq!(render(&rig.output(client)), "-MOVED 5061 10.0.0.1:7001");
    }
    assert_eq!(rig.output(stays), b"");
    let stats = rig.run("INFO commandstats");
    assert!(stats.contains("cmdstat_blpop:calls=1,") && stats.contains("rejected_calls=1"), "{stats}");
    assert!(rig.run("INFO errorstats").contains("errorstat_MOVED:count=2"));
    // A client that has sent ASKING waits in a slot that is being imported.
    rig.check(&format!("CLUSTER SETSLOT 12182 IMPORTING {OTHER}"), "+OK");
    let asking = rig.connect();
    rig.check_as(asking, "ASKING", "+OK");
    rig.check_as(asking, "BLPOP foo 0", "");
    // The cluster is down, so no client waits any more.
    rig.check("CLUSTER DELSLOTS 16383", "+OK");
    for client in [stays, asking] {
        assert_eq!(render(&rig.output(client)), "-CLUSTERDOWN The cluster is down");
    }
}

/// S-72: a client that is served runs its command again, and may be redirected to the key's new node.
#[test]
fn cb_s74_a_client_that_waits_is_told_when_the_slot_has_no_owner() {
    let mut rig = well(&two_shards(), &[("cluster-require-full-coverage", "no")]);
    let client = blocked(&mut rig, "BZPOPMIN bar 0");
    rig.check("CLUSTER DELSLOTS 5061", "+OK");
    assert_eq!(render(&rig.output(client)), "-CLUSTERDOWN Hash slot not served");
}

#[test]
fn requests_to_a_new_slot_wait_until_its_file_is_durable() {
    let mut saved = two_shards();
    saved.me.slots = slots(&[(0, 4095)]);
    let mut rig = well(&saved, &[("cluster-require-full-coverage", "no")]);
    rig.holds_saves = true;
    let operator = rig.connect();
    rig.argv_unread(operator, &[b"CLUSTER", b"ADDSLOTS", b"5061"]);
    rig.end_iteration();
    rig.check("SET bar 1", "");
    let generation = rig.orders.iter().find_map(|order| match order {
        sluice_control::cluster::order::BusOrder::Persist { generation, .. } => Some(*generation),
        _ => None,
    });
    let generation = generation.expect("the file is written");
    rig.holds_saves = false;
    rig.step_cluster(&sluice_cluster::ClusterInput::Saved { generation });
    assert_eq!(rig.output(rig.client), b"+OK\r\n");
    assert_eq!(rig.output(operator), b"+OK\r\n");
}

#[test]
fn cb_s50_to_s53_what_stands_for_a_node() {
    let mut saved = two_shards();
    saved.others[0].labels.host_name = "node.example".into();
    saved.others[0].labels.client_port = 8001;
    saved.others[0].labels.client_ipv4 = Some("192.0.2.7".parse().unwrap());
    let mut rig = well(&saved, &[]);
    check_all(
        &mut rig,
        &[
            ("GET foo", "-MOVED 12182 192.0.2.7:8001"),
            ("CONFIG SET cluster-preferred-endpoint-type hostname", "+OK"),
            ("GET foo", "-MOVED 12182 node.example:8001"),
            ("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint", "+OK"),
            ("GET foo", "-MOVED 12182 :8001"),
            // ASK names an address whatever the type is (U31).
            (&format!("CLUSTER SETSLOT 5061 MIGRATING {OTHER}"), "+OK"),
            ("GET bar", "-ASK 5061 192.0.2.7:8001"),
        ],
    );
    let mut rig = served();
    rig.check("CONFIG SET cluster-preferred-endpoint-type hostname", "+OK");
    rig.check("GET foo", "-MOVED 12182 ?:7001");
}

/// A client from this address.
fn client_from(rig: &mut Rig, addr: &str, medium: Medium) -> SessionKey {
    let (addr, laddr) = (addr.to_owned(), "10.0.0.1:7000".into());
    rig.engine.connect(ClientAddress { addr, laddr, fd: 9, medium, has_priority: false }, &mut rig.process)
}

#[test]
fn cb_s51_a_network_is_told_the_endpoints_that_are_announced_for_it() {
    let mut saved = two_shards();
    saved.others[0].labels.host_name = "node.example".into();
    let rules = format!(
        "203.0.113.0/24 10.0.0.1:7000 198.51.100.1:9000 203.0.113.0/24 {OTHER} out.example:9001 \
         0.0.0.0/0 node.example far.example"
    );
    let own = [("port", "7000"), ("cluster-announce-ip", "10.0.0.1")];
    let mut rig = well(&saved, &[&own[..], &[("announce-endpoint-for", &rules)]].concat());
    let near = client_from(&mut rig, "203.0.113.9:5000", Medium::Tcp);
    let far = client_from(&mut rig, "192.0.2.9:5000", Medium::Tcp);
    let other_family = client_from(&mut rig, "[2001:db8::9]:5000", Medium::Tcp);
    let local = client_from(&mut rig, "/socket:0", Medium::Unix);
    let slots = |rig: &mut Rig, client, first: &str, second: &str| {
        let told = rig.run_as(client, "CLUSTER SLOTS");
        let node = |endpoint: &str, id: &str, more: &str| format!("[{endpoint}, \"{id}\", [{more}]]");
        let name = "\"hostname\", \"node.example\"";
        let expected =
            format!("[[:0, :8191, {}], [:8192, :16383, {}]]", node(first, ME, ""), node(second, OTHER, name));
        assert_eq!(told, expected);
    };
    // The check runs twice: first the reply is made, then it comes from the cache.
    for _ in 0..2 {
        slots(&mut rig, near, "\"198.51.100.1\", :9000", "\"out.example\", :9001");
        slots(&mut rig, far, "\"10.0.0.1\", :7000", "\"far.example\", :7001");
        slots(&mut rig, other_family, "\"10.0.0.1\", :7000", "\"10.0.0.1\", :7001");
        slots(&mut rig, local, "\"10.0.0.1\", :7000", "\"10.0.0.1\", :7001");
    }
    assert_eq!(rig.run_as(near, "GET foo"), "-MOVED 12182 out.example:9001");
    assert_eq!(rig.run_as(far, "GET foo"), "-MOVED 12182 far.example:7001");
    assert_eq!(rig.run_as(other_family, "GET foo"), "-MOVED 12182 10.0.0.1:7001");
    let shards = rig.run_as(near, "CLUSTER SHARDS");
    let shown = "\"port\", :9001, \"ip\", \"10.0.0.1\", \"endpoint\", \"out.example\", \"hostname\", \"node.example\"";
    assert!(shards.contains(shown), "{shards}");
    // The address announced for clients replaces the node's own address, as in the reference; an announced
    // name does not replace it.
    let shown = "\"port\", :9000, \"ip\", \"198.51.100.1\", \"endpoint\", \"198.51.100.1\"";
    assert!(shards.contains(shown), "{shards}");
    // The announced endpoints are used whichever type is preferred, for ASK as for MOVED.
    rig.check("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint", "+OK");
    let slots_of_near = rig.run_as(near, "CLUSTER SLOTS");
    for ip in ["198.51.100.1", "10.0.0.1"] {
        assert!(slots_of_near.contains(&format!("[\"ip\", \"{ip}\"")), "{slots_of_near}");
    }
    rig.check(&format!("CLUSTER SETSLOT 5061 MIGRATING {OTHER}"), "+OK");
    assert_eq!(rig.run_as(near, "GET foo"), "-MOVED 12182 out.example:9001");
    assert_eq!(rig.run_as(near, "GET bar"), "-ASK 5061 out.example:9001");
    rig.check("CONFIG SET cluster-preferred-endpoint-type ip announce-endpoint-for \"\"", "+OK");
    slots(&mut rig, near, "\"10.0.0.1\", :7000", "\"10.0.0.1\", :7001");
    assert_eq!(rig.run_as(near, "GET foo"), "-MOVED 12182 10.0.0.1:7001");
}

#[test]
fn cb_d1_d3_v9_databases_and_commands_of_one_server() {
    let mut rig = served();
    rig.check("SELECT 1", "-ERR DB index is out of range");
    let mut rig = well(&two_shards(), &[("cluster-databases", "3")]);
    check_all(
        &mut rig,
        &[
            ("SELECT 2", "+OK"),
            ("SELECT 3", "-ERR DB index is out of range"),
            ("CONFIG GET cluster-databases", "[\"cluster-databases\", \"3\"]"),
            ("CONFIG GET databases", "[\"databases\", \"16\"]"),
            ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
            ("SET bar 1", "+OK"),
            ("MOVE bar 1", ":1"),
            ("COPY bar {bar} DB 1", ":0"),
            ("REPLICAOF 127.0.0.1 1", "-ERR REPLICAOF not allowed in cluster mode."),
            ("SLAVEOF NO ONE", "-ERR REPLICAOF not allowed in cluster mode."),
            ("FAILOVER", "-ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead."),
        ],
    );
    assert!(rig.run("INFO cluster").contains("cluster_enabled:1"));
    assert!(rig.run("INFO server").contains("_mode:cluster"));
    assert!(rig.run("HELLO").contains("\"mode\", \"cluster\""));
    let mut rig = Rig::new();
    rig.check("ASKING", "-ERR This instance has cluster support disabled");
    assert!(rig.run("INFO cluster").contains("cluster_enabled:0"));
    assert!(rig.run("HELLO").contains("\"mode\", \"standalone\""));
}

#[test]
fn cb_g10_g11_k39_keys_of_a_slot() {
    let mut rig = well(&two_shards(), &[("cluster-databases", "2")]);
    check_all(
        &mut rig,
        &[
            ("CLUSTER KEYSLOT foo", ":12182"),
            ("CLUSTER KEYSLOT ''", ":0"),
            ("CLUSTER KEYSLOT 'a{foo}'", ":12182"),
            ("MSET {bar}1 1 {bar}2 2 {bar}3 3", "+OK"),
            ("CLUSTER COUNTKEYSINSLOT 5061", ":3"),
            ("CLUSTER COUNTKEYSINSLOT 5062", ":0"),
            ("CLUSTER COUNTKEYSINSLOT x", "-ERR value is not an integer or out of range"),
            ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
            ("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid slot"),
            ("CLUSTER GETKEYSINSLOT 5061 0", "[]"),
            ("CLUSTER GETKEYSINSLOT 5061 -1", "-ERR Invalid slot or number of keys"),
            ("CLUSTER GETKEYSINSLOT 16384 1", "-ERR Invalid slot or number of keys"),
            ("CLUSTER GETKEYSINSLOT 5061 x", "-ERR value is not an integer or out of range"),
        ],
    );
    assert_eq!(rig.run("CLUSTER GETKEYSINSLOT 5061 2").matches("{bar}").count(), 2);
    assert_eq!(rig.run("CLUSTER GETKEYSINSLOT 5061 9223372036854775807").matches("{bar}").count(), 3);
    check_all(&mut rig, &[("SELECT 1", "+OK"), ("CLUSTER COUNTKEYSINSLOT 5061", ":0")]);
}

#[test]
fn cb_t20_sort_names_keys_of_its_slot_alone() {
    let mut rig = served();
    let refused = |word: &str| {
        format!(
            "-ERR {word} option of SORT denied in Cluster mode when keys formed by the pattern may be in \
             different slots."
        )
    };
    check_all(
        &mut rig,
        &[
            ("RPUSH bar 2 1", ":2"),
            ("SORT bar BY w_*", &refused("BY")),
            ("SORT bar BY {hello}_*", &refused("BY")),
            ("SORT bar BY {bar}_*", "[\"1\", \"2\"]"),
            ("SORT bar BY nosort", "[\"2\", \"1\"]"),
            ("SORT bar GET x_*", &refused("GET")),
            ("SORT bar GET # GET {bar}_*", "[\"1\", nil, \"2\", nil]"),
            ("SORT_RO bar BY *{bar}", &refused("BY")),
        ],
    );
    Rig::new().check("SORT bar BY w_* GET x_*", "[]");
}

#[test]
fn cb_t32_subscribers_of_a_slot_that_leaves_are_told() {
    let mut rig = served();
    let (first, second) = (rig.connect(), rig.connect());
    rig.run_as(second, "HELLO 3");
    rig.check_as(first, "SSUBSCRIBE bar", "[\"ssubscribe\", \"bar\", :1]");
    rig.check_as(first, "SSUBSCRIBE hello", "[\"ssubscribe\", \"hello\", :2]");
    rig.run_as(second, "SSUBSCRIBE {bar}2");
    // Channels are listed in the order of slots (T31).
    rig.check("PUBSUB SHARDCHANNELS", "[\"hello\", \"bar\", \"{bar}2\"]");
    rig.check(&format!("CLUSTER SETSLOT 5061 NODE {OTHER}"), "+OK");
    assert_eq!(render(&rig.output(first)), "[\"sunsubscribe\", \"bar\", :1]");
    assert_eq!(rig.output(second), b">3\r\n$12\r\nsunsubscribe\r\n$6\r\n{bar}2\r\n:0\r\n");
    rig.check("PUBSUB SHARDCHANNELS", "[\"hello\"]");
    rig.check_as(first, "SSUBSCRIBE bar", "-MOVED 5061 10.0.0.1:7001");
    // A client of RESP2 without remaining subscriptions is an ordinary one again.
    rig.check(&format!("CLUSTER SETSLOT 866 NODE {OTHER}"), "+OK");
    assert_eq!(render(&rig.output(first)), "[\"sunsubscribe\", \"hello\", :0]");
    rig.check_as(first, "ECHO x", "\"x\"");
}

#[test]
fn cb_t30_messages_reach_local_subscribers_and_no_replica_by_its_stream() {
    let mut rig = served();
    let (listener, replica) = (rig.connect(), rig.replica());
    rig.check_as(listener, "SUBSCRIBE c", "[\"subscribe\", \"c\", :1]");
    rig.check_as(listener, "SSUBSCRIBE bar", "[\"ssubscribe\", \"bar\", :1]");
    rig.check("PUBLISH c m", ":1");
    rig.check("SPUBLISH bar m", ":1");
    rig.check("PUBLISH nobody m", ":0");
    assert_eq!(render(&rig.output(listener)), "[\"message\", \"c\", \"m\"]\n[\"smessage\", \"bar\", \"m\"]");
    rig.check("SET bar 1", "+OK");
    let fed = rig.fed(replica);
    assert!(fed.contains("SET bar 1") && !fed.contains("PUBLISH"), "{fed}");
}

/// A pattern whose names are all in one slot is searched there only, and finds the same as a search
/// of all slots.
#[test]
fn cb_g2_g3_patterns_of_one_slot() {
    let mut rig = served();
    for at in 0..200 {
        rig.run(&format!("SET {{bar}}{at} v"));
        rig.run(&format!("SET {{hello}}{at} v"));
    }
    assert_eq!(rig.run("KEYS {bar}*").matches("{bar}").count(), 200);
    rig.check("KEYS {bar}7", "[\"{bar}7\"]");
    rig.check("KEYS *{bar}7", "[\"{bar}7\"]");
    rig.check("KEYS {nobody}*", "[]");
    for (pattern, keys) in
        [("{bar}*", 200), ("{hello}*", 200), ("{hello}1?", 10), ("{bar}7", 1), ("{nobody}*", 0)]
    {
        let (mut cursor, mut found, mut calls) = ("0".to_owned(), 0, 0);
        loop {
            let reply = rig.run(&format!("SCAN {cursor} MATCH {pattern} COUNT 20"));
            found += reply.matches('{').count();
            calls += 1;
            cursor = reply.split('"').nth(1).unwrap().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, keys, "{pattern}");
        assert!(calls <= 40, "{pattern}: {calls} calls look at one slot of 200 keys");
    }
    // A cursor after the pattern's slot has nothing more to find.
    rig.check("SCAN 5062 MATCH {bar}*", "[\"0\", []]");
    // Outside a cluster, slots mean nothing for patterns and cursors.
    let mut plain = Rig::new();
    plain.check("SET {bar}1 v", "+OK");
    plain.check("KEYS {bar}*", "[\"{bar}1\"]");
    plain.check("SCAN 0 MATCH {bar}1", "[\"0\", [\"{bar}1\"]]");
}

//! Atomic moves of slots to this server (specification of the slots, section 6): messages and commands of a
//! source, propagation to replicas and files, and how a move ends. No Valkey node takes part; the tests
//! contain the source's commands.

use crate::cluster::{ME, OTHER, REPLICA, slots, two_shards};
use crate::handover::announced;
use sluice_base::SessionKey;
use sluice_cluster::{ClusterInput, SavedCluster, SavedRole};
use sluice_control::cluster::order::BusOrder;
use sluice_testkit::{Rig, request_of};

const JOB: &str = "1111111111222222222233333333334444444444";
/// The slot of `foo`, which belongs to the other node; `bar` is in slot 5061, which belongs to this node.
const FOO: u16 = 12_182;

fn establish(name: &str, ranges: &str) -> String {
    format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {OTHER} NAME {name} SLOTSRANGE {ranges}")
}

fn word(text: &str) -> String {
    format!("CLUSTER SYNCSLOTS {text}")
}

/// A cluster node that is a primary and serves requests.
fn node(directives: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::node(Some(&two_shards()), &[&[("cluster-databases", "4")], directives].concat());
    rig.pass_ms(2_100);
    rig.end_iteration();
    rig
}

/// Begins the job of a move, and returns the connection of its source.
fn begun(rig: &mut Rig) -> SessionKey {
    let source = rig.connect();
    assert_eq!(rig.bytes(source, &request_of(&establish(JOB, "12182 12182"))), b"+OK\r\n");
    source
}

/// Sends commands of the source, which must get no reply.
#[track_caller]
fn send(rig: &mut Rig, source: SessionKey, lines: &[&str]) {
    assert_eq!(say(rig, source, lines), "");
}

/// Sends messages of the source, and returns the messages that the source is sent.
fn say(rig: &mut Rig, source: SessionKey, lines: &[&str]) -> String {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| request_of(line)).collect();
    let answer = rig.bytes(source, &bytes).escape_ascii().to_string();
    answer.replace("*3\\r\\n$7\\r\\nCLUSTER\\r\\n$9\\r\\nSYNCSLOTS\\r\\n", "").replace("\\r\\n", " ")
}

/// Makes everything of a move (job) arrive except its end, with keys in two databases; returns the source's
/// connection.
fn all_come(rig: &mut Rig) -> SessionKey {
    let source = begun(rig);
    let ack = word("ACK");
    send(rig, source, &[&ack, "SELECT 0", "SET foo 1", "PEXPIREAT foo 1", "SELECT 2", "RPUSH foo a b"]);
    assert_eq!(say(rig, source, &[&word("SNAPSHOT-EOF")]), "$13 REQUEST-PAUSE ");
    // A Valkey source selects no database here, whichever database its snapshot ends with.
    send(rig, source, &["SET {foo}2 v", "INCR {foo}3"]);
    assert_eq!(say(rig, source, &[&word("PAUSED")]), "$16 REQUEST-FAILOVER ");
    source
}

fn said(rig: &Rig) -> String {
    rig.process.log.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ")
}

/// Runs iterations for 20 ms, without the cron.
fn settle(rig: &mut Rig) {
    for _ in 0..20 {
        rig.pass_ms(1);
        rig.end_iteration();
    }
}

fn row(rig: &mut Rig) -> String {
    rig.run("CLUSTER GETSLOTMIGRATIONS")
}

#[track_caller]
fn has_failed(rig: &mut Rig, why: &str) {
    settle(rig);
    let row = row(rig);
    assert!(row.contains(&format!("\"failed\", \"message\", \"{why}\"")), "{row}");
    assert!(said(rig).contains(&format!("finished. State: failed, Message: {why}")), "{}", said(rig));
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":0");
}

#[test]
fn cb_v3_what_comes_by_the_connection_of_an_import_is_counted_apart() {
    let number = |rig: &mut Rig, field: &str| {
        let info = rig.run("INFO everything");
        let text = info.split(&format!("\\n{field}:")).nth(1).unwrap().split("\\r").next().unwrap();
        text.parse::<u64>().unwrap()
    };
    let mut rig = node(&[]);
    assert_eq!(number(&mut rig, "mem_cluster_slot_import"), 0);
    let source = all_come(&mut rig);
    let clients = number(&mut rig, "mem_clients_normal");
    let import = number(&mut rig, "mem_cluster_slot_import");
    assert!(import > 0 && clients > 0);
    assert!(!rig.run("MEMORY STATS").contains("\"cluster.slot_import\", :0,"), "{import}");
    rig.pass_ms(150);
    rig.end_iteration();
    let so_far = number(&mut rig, "total_net_cluster_slot_import_bytes");
    assert!(so_far > 100, "{so_far}");
    rig.engine.disconnect(source, &mut rig.process);
    settle(&mut rig);
    assert_eq!(number(&mut rig, "mem_cluster_slot_import"), 0);
    assert!(number(&mut rig, "total_net_cluster_slot_import_bytes") >= so_far);
    rig.check("CONFIG RESETSTAT", "+OK");
    assert_eq!(number(&mut rig, "total_net_cluster_slot_import_bytes"), 0);
}

#[test]
fn cb_a22_slots_come_with_their_keys_and_are_served_at_once() {
    let mut rig = node(&[]);
    rig.check("SET bar 1", "+OK");
    let replica = rig.replica();
    rig.fed(replica);
    let source = all_come(&mut rig);
    rig.check("DBSIZE", ":1");
    let active = "slot_migrations_active:1\\r\\n";
    assert!(rig.run("INFO slot_migration").contains(active));
    assert_eq!(rig.run("GET foo"), "-MOVED 12182 10.0.0.1:7001", "until the end the slot is the source's");
    assert!(row(&mut rig).contains("\"failover-requested\""));
    assert_eq!(say(&mut rig, source, &[&word("FAILOVER-GRANTED")]), "");
    assert!(rig.is_closing(source));
    rig.check("DBSIZE", ":4");
    rig.check("GET {foo}2", "\"v\"");
    rig.check("GET foo", "nil");
    rig.check("SELECT 2", "+OK");
    rig.check("LRANGE foo 0 -1", "[\"a\", \"b\"]");
    assert!(row(&mut rig).contains(&format!("\"{ME}\", \"source_node\", \"{OTHER}\"")));
    assert!(row(&mut rig).contains("\"success\", \"message\", \"\""));
    // The replica's stream selects its databases by itself, whichever database the source has selected
    // (A-35).
    let fed = rig.fed(replica);
    let begin = establish(JOB, "12182 12182");
    let wanted = format!(
        "{begin}; SET foo 1; PEXPIREAT foo 1; SELECT 2; RPUSH foo a b; SET {{foo}}2 v; INCR {{foo}}3; CLUSTER \
         SYNCSLOTS FINISH STATE success NAME {JOB}; "
    );
    assert!(fed.starts_with(&wanted), "{fed}");
}

/// A primary that serves, and the session of its replica, which the bus knows.
fn node_with_replica() -> (Rig, SessionKey) {
    let mut saved = two_shards();
    saved.others[1].role = SavedRole::Replica(Some(saved.me.id));
    let mut rig = Rig::node(Some(&saved), &[]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    let replica = announced(&mut rig, &format!("version 9.1.2 set-cluster-node-id {REPLICA}"));
    acknowledge(&mut rig, replica, 0);
    (rig, replica)
}

/// Makes the replica acknowledge all but the last `less` bytes of the stream.
fn acknowledge(rig: &mut Rig, replica: SessionKey, less: u64) {
    let info = rig.run("INFO replication");
    let offset = info.split("master_repl_offset:").nth(1).unwrap().split("\\r").next().unwrap();
    let offset = offset.parse::<u64>().unwrap() - less;
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.to_string().as_bytes()]);
    rig.end_iteration();
}

/// Runs the node's iterations for `ms`, without an acknowledgement.
fn wait_ms(rig: &mut Rig, ms: u64) {
    for _ in 0..ms / 100 {
        rig.pass_ms(100);
        rig.end_iteration();
    }
}

/// The target asks the source to continue only when the target's replicas have the received data. One of them
/// may be elected at once, and must have the writes that WAIT has confirmed at the source.
#[test]
fn cb_a46_a_target_asks_for_the_slots_when_its_replicas_have_their_keys() {
    let (mut rig, replica) = node_with_replica();
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", &word("SNAPSHOT-EOF")]);
    rig.end_iteration();
    let fed = rig.fed(replica);
    assert!(fed.ends_with("SET foo 1; REPLCONF GETACK *"), "the replica is asked: {fed}");
    acknowledge(&mut rig, replica, 60);
    assert_eq!(say(&mut rig, source, &[]), "", "it lacks the key");
    acknowledge(&mut rig, replica, 0);
    assert_eq!(say(&mut rig, source, &["SET {foo}2 2"]), "$13 REQUEST-PAUSE ");
    send(&mut rig, source, &[&word("PAUSED")]);
    acknowledge(&mut rig, replica, 0);
    assert_eq!(say(&mut rig, source, &[]), "$16 REQUEST-FAILOVER ");
}

#[test]
fn cb_a46_writers_are_not_held_back_while_a_replica_answers_late() {
    let (mut rig, replica) = node_with_replica();
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", &word("SNAPSHOT-EOF")]);
    wait_ms(&mut rig, 100);
    assert_eq!(say(&mut rig, source, &["SET {foo}2 2"]), "$3 ACK ");
    acknowledge(&mut rig, replica, 20);
    assert_eq!(say(&mut rig, source, &[]), "", "a tenth of a second is too late");
    acknowledge(&mut rig, replica, 0);
    assert_eq!(say(&mut rig, source, &[]), "$13 REQUEST-PAUSE ");
}

#[test]
fn cb_a46_a_replica_that_lags_for_long_is_left_out() {
    let (mut rig, _) = node_with_replica();
    // The target never waits for a replica that is no cluster node.
    let stranger = rig.replica();
    acknowledge(&mut rig, stranger, 0);
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", &word("SNAPSHOT-EOF")]);
    wait_ms(&mut rig, 2_900);
    assert_eq!(say(&mut rig, source, &[&word("ACK")]).replace("$3 ACK ", ""), "");
    wait_ms(&mut rig, 200);
    assert_eq!(say(&mut rig, source, &[]).replace("$3 ACK ", ""), "$13 REQUEST-PAUSE ");
    assert!(said(&rig).contains("1 replicas of this node are unreachable or lag"), "{}", said(&rig));
    assert_eq!(say(&mut rig, source, &[&word("PAUSED")]), "$16 REQUEST-FAILOVER ");
}

#[test]
fn cb_a46_writers_wait_half_a_second_for_a_replica_that_hangs() {
    let (mut rig, replica) = node_with_replica();
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", &word("SNAPSHOT-EOF")]);
    acknowledge(&mut rig, replica, 0);
    assert_eq!(say(&mut rig, source, &["SET {foo}2 2"]), "$13 REQUEST-PAUSE ");
    send(&mut rig, source, &[&word("PAUSED")]);
    // The replica's connection ends. The replica may still be elected, without the last write.
    rig.engine.disconnect(replica, &mut rig.process);
    wait_ms(&mut rig, 400);
    assert_eq!(say(&mut rig, source, &[]).replace("$3 ACK ", ""), "");
    wait_ms(&mut rig, 200);
    has_failed(&mut rig, "A replica of the target did not acknowledge in time");
}

#[test]
fn cb_a47_a_grant_that_is_read_late_is_not_used() {
    let mut rig = node(&[]);
    let source = all_come(&mut rig);
    rig.pass_ms(1_600);
    let told = say(&mut rig, source, &[&word("FAILOVER-GRANTED")]);
    assert!(told.ends_with("$7 REFUSED "), "writers wait at the source: {told}");
    has_failed(&mut rig, "The grant came too late");
}

#[test]
fn cb_a60_a_client_s_flushslot_ends_the_move_of_that_slot() {
    let mut rig = node(&[]);
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1"]);
    rig.check("CLUSTER FLUSHSLOT 5061", "+OK");
    assert!(row(&mut rig).contains("receiving-snapshot"));
    rig.check(&format!("CLUSTER FLUSHSLOT {FOO}"), "+OK");
    has_failed(&mut rig, "Data was flushed");
}

#[test]
fn cb_g17_nothing_expires_on_the_connection_of_a_move() {
    let mut rig = node(&[]);
    let source = begun(&mut rig);
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", "PEXPIREAT foo 1", "APPEND foo 2"]);
    rig.cron();
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":1");
    send(&mut rig, source, &["PERSIST foo"]);
    assert_eq!(say(&mut rig, source, &[&word("SNAPSHOT-EOF")]), "$13 REQUEST-PAUSE ");
    assert_eq!(say(&mut rig, source, &[&word("PAUSED")]), "$16 REQUEST-FAILOVER ");
    send(&mut rig, source, &[&word("FAILOVER-GRANTED")]);
    rig.check("GET foo", "\"12\"");
}

#[test]
fn cb_a46_the_takeover_waits_for_its_file_and_so_do_clients() {
    let mut rig = node(&[]);
    let source = all_come(&mut rig);
    rig.holds_saves = true;
    assert_eq!(say(&mut rig, source, &[&word("FAILOVER-GRANTED")]), "");
    rig.check("DBSIZE", ":0");
    let client = rig.connect();
    rig.argv_unread(client, &[b"GET", b"{foo}2"]);
    assert_eq!(rig.output(client), b"", "the slot is not this node's for others yet");
    let saves: Vec<_> =
        rig.orders.drain(..).filter(|order| matches!(order, BusOrder::Persist { .. })).collect();
    rig.holds_saves = false;
    for save in saves {
        let BusOrder::Persist { generation, .. } = save else { continue };
        rig.step_cluster(&ClusterInput::Saved { generation });
    }
    assert_eq!(rig.output(client), b"$1\r\nv\r\n");
    assert!(rig.is_closing(source));
}

#[test]
fn cb_a60_a_lost_connection_deletes_what_has_come_and_tells_replicas() {
    let mut rig = node(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    rig.appended();
    let replica = rig.replica();
    let source = all_come(&mut rig);
    rig.fed(replica);
    rig.engine.disconnect(source, &mut rig.process);
    has_failed(
        &mut rig,
        "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more information.",
    );
    let fed = rig.fed(replica);
    assert_eq!(fed.matches("UNLINK").count(), 4, "{fed}");
    let end = format!("CLUSTER SYNCSLOTS FINISH STATE failed NAME {JOB} MESSAGE Connection lost to source.");
    let at = |word: &str| fed.rfind(word).unwrap();
    assert!(at("UNLINK") < at(&end), "{fed}");
    let appended = rig.appended();
    assert!(appended.contains("ESTABLISH") && appended.contains(&end), "{appended}");
    assert_eq!(rig.run("GET foo"), "-MOVED 12182 10.0.0.1:7001");
    // A second move of these slots succeeds.
    let source = all_come(&mut rig);
    send(&mut rig, source, &[&word("FAILOVER-GRANTED")]);
    rig.check("GET {foo}3", "\"1\"");
}

/// A connection that has become that of a replica, or was reset, still belongs to the migration.
#[test]
fn cb_a60_the_end_of_the_connection_counts_whatever_it_has_become() {
    for line in ["PSYNC ? -1", "RESET", "CLIENT REPLY ON"] {
        let mut rig = node(&[]);
        let source = begun(&mut rig);
        rig.bytes(source, &request_of(&word("ACK")));
        rig.bytes(source, &request_of(line));
        rig.engine.disconnect(source, &mut rig.process);
        settle(&mut rig);
        assert!(row(&mut rig).contains("\"failed\""), "{line}: {}", row(&mut rig));
    }
}

#[test]
fn cb_a60_a_flush_fails_a_move() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let mut rig = node(&[]);
        let source = all_come(&mut rig);
        rig.check(flush, "+OK");
        assert!(rig.is_closing(source), "{flush}");
        has_failed(&mut rig, "Data was flushed");
    }
}

#[test]
fn cb_a33_what_cannot_be_executed_fails_a_move() {
    let refused = "Failed to process command during slot migration. Check logs for more information";
    let second_job = establish(&"2".repeat(40), "9000 9000");
    for line in [
        "NOSUCHCOMMAND",
        // A-20: a connection belongs to one job.
        &second_job,
        "SET foo",
        "SELECT 9",
        "RPUSH foo x",
        // A-34: these are commands outside of the job's slots, and commands without keys.
        "SET bar 1",
        "FLUSHALL",
        "MULTI",
        "EVAL 'return 1' 0",
        "CLUSTER SYNCSLOTS FINISH STATE success NAME 1111111111222222222233333333334444444444",
    ] {
        let mut rig = node(&[]);
        rig.check("SET bar own", "+OK");
        let source = begun(&mut rig);
        send(&mut rig, source, &[&word("ACK"), "SET foo 1", line, "SET {foo}9 1"]);
        assert!(rig.is_closing(source), "{line}");
        has_failed(&mut rig, refused);
        assert!(said(&rig).contains("== CRITICAL == This slot-import-target is sending an error"), "{line}");
        rig.check("GET bar", "\"own\"");
        rig.check("DBSIZE", ":1");
    }
    let mut rig = node(&[]);
    let source = begun(&mut rig);
    rig.check("CONFIG SET maxmemory 1", "+OK");
    send(&mut rig, source, &[&word("ACK"), "SET foo 1"]);
    has_failed(&mut rig, "Ran out of memory (OOM) during slot import");
}

/// A-26: commands of the connection have the rights of the user that AUTH has named.
#[test]
fn cb_a26_rights_of_the_user_hold_for_what_the_source_sends() {
    let mut rig = node(&[]);
    rig.check("ACL SETUSER mover on nopass ~* +@all -rpush alldbs", "+OK");
    let source = rig.connect();
    rig.check_as(source, "AUTH mover x", "+OK");
    assert_eq!(rig.bytes(source, &request_of(&establish(JOB, "12182 12182"))), b"+OK\r\n");
    send(&mut rig, source, &[&word("ACK"), "SET foo 1", "RPUSH {foo}2 x"]);
    has_failed(&mut rig, "Failed to process command during slot migration. Check logs for more information");
}

/// E-4: an ESTABLISH and a wrong message arrive in one piece, several times with the same job name.
#[test]
fn cb_a22_words_that_come_with_establish_are_the_jobs() {
    let mut rig = node(&[]);
    for _ in 0..3 {
        let source = rig.connect();
        let both = [establish(JOB, "12182 12182"), word("PAUSED")];
        let bytes: Vec<u8> = both.iter().flat_map(|line| request_of(line)).collect();
        rig.argv_unread(source, &[b"PING"]);
        assert_eq!(rig.output(source), b"+PONG\r\n");
        rig.bytes(source, &bytes);
        rig.end_iteration();
        rig.bytes(source, &request_of(&word("PAUSED")));
        has_failed(&mut rig, "Unexpected state machine transition");
    }
}

#[test]
fn cb_a20_words_belong_to_connections_of_moves() {
    let mut rig = node(&[]);
    let words =
        ["FINISH", "SNAPSHOT-EOF", "REQUEST-PAUSE", "PAUSED", "REQUEST-FAILOVER", "FAILOVER-GRANTED", "ACK"];
    for text in words {
        let error = format!("-ERR CLUSTER SYNCSLOTS {text} should only be used by slot migration clients");
        rig.check(&word(text), &error);
    }
    rig.check(&word("NOTHING"), "-ERR syntax error");
    rig.check(&word("CAPA x"), "");
    rig.check("CLUSTER CANCELSLOTMIGRATIONS", "-ERR No migrations ongoing");
    rig.check("CLUSTER GETSLOTMIGRATIONS", "[]");
    Rig::new().check("CLUSTER GETSLOTMIGRATIONS", "-ERR This instance has cluster support disabled");
}

#[test]
fn cb_a23_an_establish_is_judged_word_by_word() {
    let mut rig = node(&[]);
    let unknown = "f".repeat(40);
    let long = format!("NAME {JOB} SLOTSRANGE 12182 12182");
    for (words, error) in [
        (format!("SOURCE {unknown} x"), "Target node does not know the source node"),
        (format!("SOURCE {ME} x"), "Source node is target node itself"),
        (format!("{long} SOURCE {OTHER} x"), "syntax error"),
        (format!("NAME {JOB} SOURCE {OTHER}"), "syntax error"),
        (format!("SOURCE {OTHER} NAME short SLOTSRANGE 12182 12182"), "syntax error"),
        ("SLOTSRANGE 8191 8192 x".to_owned(), "Requested slots span multiple shards"),
        ("SLOTSRANGE 9000 8999".to_owned(), "Start slot number 9000 is greater than end slot number 8999."),
        ("SLOTSRANGE 9000".to_owned(), "No end slot for final slot range"),
        ("SLOTSRANGE x".to_owned(), "No slot ranges specified"),
        (
            "SLOTSRANGE 9000 9001 9001 9002".to_owned(),
            "Slot range 9001-9002 overlaps with previous range 9000-9001.",
        ),
        (
            format!("SOURCE {OTHER} NAME {JOB} SLOTSRANGE 5 5"),
            "Target node does not agree about current slot ownership",
        ),
    ] {
        rig.check(&word(&format!("ESTABLISH {words}")), &format!("-ERR {error}"));
    }
    let _source = begun(&mut rig);
    let second = establish(&"2".repeat(40), "12182 12182");
    let taken = "-ERR Slot is already being imported on the target by a different migration";
    rig.check(&second, taken);
    rig.check("CLUSTER SETSLOT 1 STABLE", "-ERR Slot import in progress.");
    let mut saved = two_shards();
    saved.others[0].slots = slots(&[(8192, 16_382)]);
    let mut rig = Rig::node(Some(&saved), &[]);
    rig.check(&establish(JOB, "16383 16383"), "-ERR Slot 16383 has no node served.");
}

/// Old keys in slots that are being imported would be taken for keys of the source.
#[test]
fn cb_g16_keys_of_before_are_gone_when_a_job_begins() {
    let mut saved: SavedCluster = two_shards();
    saved.others[0].slots = slots(&[(8192, FOO - 1), (FOO + 1, 16_383)]);
    saved.me.slots = slots(&[(0, 8191), (FOO, FOO)]);
    let mut rig = Rig::node(Some(&saved), &[]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    for number in 0..200 {
        rig.check(&format!("SET {{foo}}{number} old"), "+OK");
    }
    rig.check(&format!("CLUSTER DELSLOTS {FOO}"), "+OK");
    rig.check(&format!("CLUSTER SETSLOT {FOO} NODE {OTHER}"), "+OK");
    let replica = rig.replica();
    let source = begun(&mut rig);
    let fed = rig.fed(replica);
    assert_eq!(fed.matches("UNLINK").count(), 200);
    assert!(fed.rfind("UNLINK") < fed.find("ESTABLISH"), "{fed}");
    send(&mut rig, source, &[&word("ACK"), "SET foo 1"]);
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":1");
}

#[test]
fn cb_a30_the_connection_of_a_move_is_shown_as_one_and_waits_for_client_pause() {
    let mut rig = node(&[]);
    let source = begun(&mut rig);
    let list = rig.run("CLIENT LIST FLAGS i");
    assert!(list.contains("cmd=cluster|syncslots"), "{list}");
    assert_eq!(rig.run("CLIENT LIST TYPE normal").matches("id=").count(), 1);
    send(&mut rig, source, &[&word("ACK")]);
    rig.check("CLIENT PAUSE 100000 WRITE", "+OK");
    send(&mut rig, source, &["SET foo 1"]);
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":0");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":1");
}

/// Clients of this node that cache or watch keys are notified of imported keys, too.
#[test]
fn cb_g21_clients_that_watch_are_told_of_keys_that_come() {
    let mut rig = node(&[("notify-keyspace-events", "KEA")]);
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE *foo*");
    let cache = rig.connect();
    rig.run_as(cache, "HELLO 3");
    rig.check_as(cache, "CLIENT TRACKING ON BCAST PREFIX foo", "+OK");
    let source = all_come(&mut rig);
    let heard = rig.output(listener).escape_ascii().to_string();
    assert!(heard.contains("__keyspace@2__:foo") && heard.contains("rpush"), "{heard}");
    let invalidations =
        |rig: &mut Rig| rig.output(cache).escape_ascii().to_string().matches("invalidate").count();
    assert!(invalidations(&mut rig) > 0);
    rig.engine.disconnect(source, &mut rig.process);
    settle(&mut rig);
    assert!(invalidations(&mut rig) > 0, "caches are told that the keys have gone");
    assert_eq!(rig.output(listener), b"", "no event tells of keys that go with a failed move");
}

#[test]
fn cb_a60_a_load_ends_moves_and_empties_the_list() {
    let mut rig = node(&[]);
    let source = all_come(&mut rig);
    rig.check("DEBUG RELOAD", "+OK");
    assert!(rig.is_closing(source));
    assert!(said(&rig).contains("Cleaning slot migration log in anticipation of a load operation."));
    assert!(said(&rig).contains("Message: A new RDB is being loaded"));
    settle(&mut rig);
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {FOO}"), ":0");
    let source = all_come(&mut rig);
    send(&mut rig, source, &[&word("FAILOVER-GRANTED")]);
    rig.check("DBSIZE", ":3");
}

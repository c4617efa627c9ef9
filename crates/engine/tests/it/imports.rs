//! Slots that are being moved to this server's primary (specification of the slots, 5.2 and 6.5): visibility
//! of their keys, how an import ends, and its state in files and at a promotion. No Valkey node takes part;
//! the tests contain the primary's commands.

use crate::cluster::{ME, OTHER, node, slots, two_shards};
use sluice_base::{SessionKey, key_slot};
use sluice_cluster::{OwnLine, SavedCluster, SavedRole, SlotSet};
use sluice_control::persistence::loading::LoadEnded;
use sluice_control::process::AppendOnlyFile;
use sluice_control::replication::role::SyncSource;
use sluice_replication::HistoryPoint;
use sluice_snapshot::NotLoaded;
use sluice_testkit::{Rig, RigLink, request_of};

const REPLID: &str = "0123456789abcdef0123456789abcdef01234567";
const JOB: &str = "1111111111222222222233333333334444444444";
const SOURCE: &str = "dddddddddddddddddddddddddddddddddddddddd";
/// The slot of `bar`, which belongs to the first shard; `foo` is in slot 12182, which belongs to this
/// server's shard.
const BAR: u16 = 5061;

/// A replica of the shard that owns the upper half of the slots.
fn saved() -> SavedCluster {
    let other = node(OTHER, 7001, SavedRole::Primary, slots(&[(8192, 16383)]));
    let first = node(SOURCE, 7003, SavedRole::Primary, slots(&[(0, 8191)]));
    let me = node(ME, 7000, SavedRole::Replica(Some(other.id)), SlotSet::EMPTY);
    SavedCluster { me, own_line: OwnLine::Whole, others: vec![other, first], ..two_shards() }
}

/// The node of `saved` as the primary of its shard.
fn saved_primary() -> SavedCluster {
    let mut saved = saved();
    saved.me = node(ME, 7000, SavedRole::Primary, slots(&[(8192, 16383)]));
    saved.others.remove(0);
    saved
}

/// A replica whose link is up, and the link's session.
fn following(directives: &[(&str, &str)]) -> (Rig, SessionKey) {
    let mut rig = Rig::node(Some(&saved()), directives);
    rig.pass_ms(2_100);
    rig.end_iteration();
    let primary = follow(&mut rig);
    (rig, primary)
}

fn follow(rig: &mut Rig) -> SessionKey {
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    RigLink::streaming(rig)
}

fn log_of(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| request_of(line)).collect()
}

/// Makes the primary send these commands.
fn stream(rig: &mut Rig, primary: SessionKey, lines: &[&str]) {
    assert_eq!(rig.bytes(primary, &log_of(lines)), b"");
}

fn establish(name: &str, ranges: &str) -> String {
    format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {SOURCE} NAME {name} SLOTSRANGE {ranges}")
}

fn finish(state: &str) -> String {
    format!("CLUSTER SYNCSLOTS FINISH STATE {state} NAME {JOB}")
}

fn said(rig: &Rig) -> String {
    rig.process.log.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ")
}

/// The lines of INFO about databases.
fn databases(rig: &mut Rig) -> String {
    let text = rig.run("INFO keyspace");
    text.split("\\r\\n").filter(|line| line.starts_with("db")).collect::<Vec<_>>().join(" ")
}

/// A replica with one key of its own shard in database 0, and one in database 1. It has received the
/// beginning of an import and three keys of the import in database 0, and one in database 2.
fn half_imported() -> (Rig, SessionKey) {
    half_imported_by(&[("cluster-databases", "4")])
}

fn half_imported_by(directives: &[(&str, &str)]) -> (Rig, SessionKey) {
    let (mut rig, primary) = following(directives);
    stream(&mut rig, primary, &["SELECT 0", "SET foo 1 PX 1000000", "SELECT 1", "SET foo 2"]);
    let lines =
        ["SELECT 0", "SET bar 1 PX 1000000", "RPUSH {bar}2 x", "HSET {bar}3 f v", "SELECT 2", "SET bar 5"];
    let begin = establish(JOB, "5000 5100");
    stream(&mut rig, primary, &[&[&*begin], &lines[..]].concat());
    (rig, primary)
}

#[test]
fn cb_g13_what_looks_at_a_database_does_not_see_slots_that_are_on_their_way() {
    let (mut rig, primary) = following(&[("cluster-databases", "4")]);
    stream(&mut rig, primary, &["SELECT 0", "SET foo 1 PX 1000000", "SELECT 1", "SET foo 2"]);
    let (digest, info) = (rig.run("DEBUG DIGEST"), databases(&mut rig));
    let (mut rig, primary) = half_imported();
    rig.check("DBSIZE", ":1");
    assert_eq!(databases(&mut rig), info);
    rig.check("KEYS *", "[\"foo\"]");
    rig.check("KEYS {bar}*", "[]");
    rig.check("KEYS bar", "[]");
    rig.check("SCAN 0 COUNT 1000", "[\"0\", [\"foo\"]]");
    rig.check(&format!("SCAN {BAR} COUNT 1000"), "[\"0\", [\"foo\"]]");
    rig.check(&format!("SCAN {} COUNT 1000", (7 << 14) + u64::from(BAR)), "[\"0\", [\"foo\"]]");
    rig.check("SCAN 0 MATCH {bar}* COUNT 1000", "[\"0\", []]");
    rig.check(&format!("SCAN {BAR} MATCH {{bar}}*"), "[\"0\", []]");
    rig.run("READONLY");
    assert!(rig.run("CLUSTERSCAN 0-{bar}-0").starts_with("-MOVED"), "the slot is another node's");
    for _ in 0..50 {
        rig.check("RANDOMKEY", "\"foo\"");
    }
    rig.check("DEBUG DIGEST", &digest);
    rig.check("SELECT 2", "+OK");
    rig.check("RANDOMKEY", "nil");
    rig.check("DBSIZE", ":0");
    rig.check("SELECT 0", "+OK");
    // These commands do show the keys.
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":3");
    assert_eq!(rig.run(&format!("CLUSTER GETKEYSINSLOT {BAR} 10")).matches("bar").count(), 3);
    assert_ne!(rig.run("DEBUG DIGEST-VALUE bar"), rig.run("DEBUG DIGEST-VALUE nothing"));
    assert!(rig.run("CLUSTER SLOT-STATS SLOTSRANGE 5061 5061").starts_with("[]"), "it is foreign (L-1)");
    // A key of the primary's own slots that arrives during the import is shown; a key of the import is not.
    stream(&mut rig, primary, &["SELECT 3", "SET bar 1", "SET foo 1"]);
    rig.check("SELECT 3", "+OK");
    rig.check("KEYS *", "[\"foo\"]");
}

#[test]
fn cb_a36_success_shows_all_keys_at_once() {
    let (mut rig, primary) = half_imported();
    stream(&mut rig, primary, &[&finish("success")]);
    rig.check("DBSIZE", ":4");
    assert!(databases(&mut rig).starts_with("db0:keys=4,expires=2,"));
    assert_eq!(rig.run("KEYS {bar}*").matches("bar").count(), 2);
    rig.check("SELECT 2", "+OK");
    rig.check("RANDOMKEY", "\"bar\"");
    assert!(!said(&rig).contains("CRITICAL"), "{}", said(&rig));
}

#[test]
fn cb_a36_failure_shows_what_the_primary_has_left() {
    let (mut rig, primary) = half_imported();
    let gone = ["SELECT 0", "UNLINK bar {bar}2 {bar}3", "SELECT 2", "UNLINK bar"];
    stream(&mut rig, primary, &gone);
    let end = format!("{} MESSAGE why", finish("failed"));
    stream(&mut rig, primary, &[&end, "SELECT 0", "SET bar 1"]);
    rig.check("DBSIZE", ":2");
    assert!(!said(&rig).contains("CRITICAL"), "{}", said(&rig));
}

#[test]
fn cb_a60_a_flush_leaves_the_mark_until_the_primary_ends_it() {
    let (mut rig, primary) = half_imported();
    stream(&mut rig, primary, &["FLUSHALL", "SELECT 0", "SET foo 1", "SET bar 1"]);
    rig.check("KEYS *", "[\"foo\"]");
    stream(&mut rig, primary, &[&finish("failed")]);
    rig.check("DBSIZE", ":2");
}

/// The stream of a Valkey primary also has the messages that the two ends of a move send each other.
#[test]
fn cb_a20_other_words_of_a_move_say_nothing_here() {
    let (mut rig, primary) = half_imported();
    let words =
        ["ACK", "SNAPSHOT-EOF", "REQUEST-PAUSE", "PAUSED", "REQUEST-FAILOVER", "FAILOVER-GRANTED", "CAPA"];
    let lines: Vec<String> = words.iter().map(|word| format!("CLUSTER SYNCSLOTS {word}")).collect();
    stream(&mut rig, primary, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    rig.check("DBSIZE", ":1");
    assert!(!said(&rig).contains("CRITICAL"), "{}", said(&rig));
    let rows = rig.run("CLUSTER GETSLOTMIGRATIONS");
    assert!(rows.contains("\"occurring-on-primary\"") && !rows.contains("_node"), "{rows}");
    Rig::new().check(&finish("success"), "-ERR This instance has cluster support disabled");
}

#[test]
fn cb_a23_an_establish_of_another_form_hides_nothing() {
    let long = format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {SOURCE} NAME {JOB}");
    for (line, error) in [
        (establish(&JOB[1..], "5061 5061"), "syntax error"),
        (long.clone(), "syntax error"),
        (format!("{long} NAME {JOB} SLOTSRANGE 5061 5061"), "syntax error"),
        (format!("{long} SLOTSRANGE 5061 5061 NO"), "syntax error"),
        (format!("{long} SLOTSRANGE"), "No slot ranges specified"),
        (format!("{long} SLOTSRANGE 5061"), "No end slot for final slot range"),
        (format!("{long} SLOTSRANGE 5061 16384"), "Invalid or out of range slot"),
        (format!("{long} SLOTSRANGE -1 5061"), "Invalid or out of range slot"),
        (
            format!("{long} SLOTSRANGE 5061 5060"),
            "Start slot number 5061 is greater than end slot number 5060.",
        ),
        (
            format!("{long} SLOTSRANGE 0 5061 5061 6000"),
            "Slot range 5061-6000 overlaps with previous range 0-5061.",
        ),
        (finish("success"), "No such slot migration job"),
        (finish("nothing"), "syntax error"),
        (format!("{} MESSAGE", finish("failed")), "syntax error"),
    ] {
        let (mut rig, primary) = following(&[]);
        stream(&mut rig, primary, &["SET bar 1", &line]);
        assert!(said(&rig).contains(error), "{line}: {}", said(&rig));
        rig.check("DBSIZE", ":1");
    }
    // ESTABLISH in the stream takes its options in any order, and is not checked against the map, which does
    // not know this source.
    let (mut rig, primary) = following(&[]);
    let line =
        format!("cluster syncslots establish slotsrange 5061 5061 0 0 name {JOB} source {}", "f".repeat(40));
    stream(&mut rig, primary, &["SET bar 1", &line]);
    rig.check("DBSIZE", ":0");
}

#[test]
fn a_second_import_of_a_slot_takes_the_place_of_the_first() {
    let (mut rig, primary) = half_imported();
    let second = "2".repeat(40);
    stream(&mut rig, primary, &[&establish(&second, "5061 5061"), "SELECT 0", "SET {foo}2 1"]);
    stream(&mut rig, primary, &[&finish("success")]);
    assert!(said(&rig).contains("No such slot migration job"));
    rig.check("DBSIZE", ":2");
    stream(&mut rig, primary, &[&finish("success").replace(JOB, &second)]);
    rig.check("DBSIZE", ":5");
}

/// The append-only file of a replica has the same commands as the stream for its own replicas, so the file
/// gets both ends of an import.
#[test]
fn cb_a35_both_ends_are_passed_on() {
    let (mut rig, primary) = following(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    rig.appended();
    let lines = [&*establish(JOB, "5061 5061"), "CLUSTER SYNCSLOTS ACK", "SET bar 1", &finish("success")];
    stream(&mut rig, primary, &lines);
    let appended = rig.appended();
    assert!(appended.contains("ESTABLISH") && appended.contains("FINISH STATE success"), "{appended}");
    assert!(!appended.contains("ACK"), "{appended}");
    let at = |word: &str| appended.find(word).unwrap();
    assert!(at("ESTABLISH") < at("bar") && at("bar") < at("FINISH"), "{appended}");
}

fn snapshot(rig: &mut Rig) -> Vec<u8> {
    rig.check("SAVE", "+OK");
    rig.process.snapshots.borrow()[&b"dump.rdb"[..]].clone()
}

/// A server that loads this snapshot at its start.
fn restarted(saved: Option<&SavedCluster>, file: Vec<u8>) -> (Rig, Option<LoadEnded>) {
    let mut rig = match saved {
        Some(saved) => Rig::node(Some(saved), &[("cluster-databases", "4")]),
        None => Rig::new(),
    };
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), file);
    rig.holds_loads = true;
    assert_eq!(rig.engine.begin_load_at_start(&mut rig.process), Ok(true));
    rig.end_iteration();
    let ended = rig.finish_loads();
    rig.holds_loads = false;
    (rig, ended)
}

#[test]
fn cb_a38_a_snapshot_holds_imports_that_are_under_way() {
    let (mut rig, _) = half_imported();
    let file = snapshot(&mut rig);
    let wanted = [&b"\xf3\x28"[..], JOB.as_bytes(), b"\x01\x53\x88\x53\xec"].concat();
    let at = file.windows(wanted.len()).position(|bytes| bytes == wanted).expect("opcode 243");
    let first_db = file.windows(2).position(|bytes| bytes == b"\xfe\x00").expect("database 0");
    assert!(at < first_db);
    // A replica continues the import where its primary does.
    let (mut rig, ended) = restarted(Some(&saved()), file.clone());
    assert_eq!(ended, Some(LoadEnded::Start(Ok(()))));
    rig.pass_ms(2_100);
    rig.end_iteration();
    rig.check("DBSIZE", ":1");
    let primary = follow(&mut rig);
    stream(&mut rig, primary, &["SELECT 0", "SET {bar}6 1"]);
    rig.check("DBSIZE", ":1");
    rig.check("DEBUG RELOAD", "+OK");
    rig.end_iteration();
    rig.finish_loads();
    rig.check("DBSIZE", ":1");
    stream(&mut rig, primary, &[&finish("success")]);
    rig.check("DBSIZE", ":5");
    // A server outside a cluster refuses the file, and names the record that it cannot load.
    let (mut rig, ended) = restarted(None, file);
    assert_eq!(ended, Some(LoadEnded::Start(Err(NotLoaded::Failed))));
    assert!(said(&rig).contains("opcode 243"), "{}", said(&rig));
    rig.check("DBSIZE", ":0");
    // Once the import has ended, the file has no record of it.
    let (mut rig, primary) = half_imported();
    stream(&mut rig, primary, &[&finish("success")]);
    let file = snapshot(&mut rig);
    assert!(!file.windows(40).any(|bytes| bytes == JOB.as_bytes()));
}

/// Checks that the log says that the import's keys were deleted, and why.
#[track_caller]
fn was_cleaned_up(rig: &Rig, why: &str) {
    let log = said(rig);
    assert!(log.contains(&format!("Cleaning up slot migration {{name: {JOB}, operation: import, ")), "{log}");
    assert!(log.contains(&format!("finished. State: failed, Message: {why}")), "{log}");
}

/// Runs iterations until the keys of other nodes' slots are deleted.
fn settle(rig: &mut Rig) {
    for _ in 0..20 {
        rig.pass_ms(100);
        rig.cron();
        rig.end_iteration();
    }
}

#[test]
fn cb_a37_a_primary_that_is_restarted_deletes_what_an_unfinished_import_has_brought() {
    let (mut rig, _) = half_imported();
    let file = snapshot(&mut rig);
    let (mut rig, ended) = restarted(Some(&saved_primary()), file);
    assert_eq!(ended, Some(LoadEnded::Start(Ok(()))));
    let replica = rig.replica();
    rig.check("DBSIZE", ":1");
    settle(&mut rig);
    rig.check("DBSIZE", ":1");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":0");
    let fed = rig.fed(replica);
    assert_eq!(fed.matches("UNLINK").count(), 4, "{fed}");
    let end = format!("{} MESSAGE Process restarted", finish("failed"));
    assert!(fed.ends_with(&end), "{fed}");
    was_cleaned_up(&rig, "Process restarted");
    // The import is over, so a snapshot has no record of it.
    let file = snapshot(&mut rig);
    assert!(!file.windows(40).any(|bytes| bytes == JOB.as_bytes()));
}

#[test]
fn cb_a60_an_import_that_a_primary_loads_by_a_command_fails_with_its_own_reason() {
    let (mut rig, _) = half_imported();
    let file = snapshot(&mut rig);
    let mut rig = Rig::node(Some(&saved_primary()), &[("cluster-databases", "4")]);
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), file);
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    settle(&mut rig);
    was_cleaned_up(&rig, "A new RDB is being loaded");
}

/// keys of slots that have become this node's own by the end of the import stay.
#[test]
fn cb_a61_keys_of_slots_that_are_the_nodes_own_stay() {
    let (mut rig, primary) = following(&[("cluster-databases", "4")]);
    stream(&mut rig, primary, &[&establish(JOB, "5061 5061 12182 12182"), "SET bar 1", "SET foo 1"]);
    rig.check("DBSIZE", ":0");
    let file = snapshot(&mut rig);
    let (mut rig, _) = restarted(Some(&saved_primary()), file);
    let replica = rig.replica();
    // Keys of a slot that is in the file are not deleted (E-53). If the import waited for their deletion,
    // `foo` would be hidden until the next map, and the move would not end before that map.
    for _ in 0..5 {
        rig.pass_ms(1);
        rig.end_iteration();
    }
    rig.check("KEYS *", "[\"foo\"]");
    let fed = rig.fed(replica);
    assert!(fed.contains("UNLINK bar") && !fed.contains("UNLINK foo"), "{fed}");
    assert!(fed.ends_with(&format!("{} MESSAGE Process restarted", finish("failed"))), "{fed}");
    settle(&mut rig);
    rig.check("KEYS *", "[\"foo\"]");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":0");
}

#[test]
fn cb_a60_a_replica_that_is_promoted_fails_the_imports_of_its_primary() {
    let (mut rig, _) = half_imported_by(&[("cluster-databases", "4"), ("appendonly", "yes")]);
    rig.engine.begin_aof();
    rig.appended();
    rig.check("CLUSTER FAILOVER TAKEOVER", "+OK");
    // The cron does not run here, because it would begin a rewrite.
    for _ in 0..10 {
        rig.pass_ms(1);
        rig.end_iteration();
    }
    assert!(rig.run("ROLE").starts_with("[\"master\""));
    rig.check("KEYS *", "[\"foo\"]");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":0");
    let appended = rig.appended();
    assert_eq!(appended.matches("UNLINK").count(), 4, "{appended}");
    let end = format!("{} MESSAGE A failover occurred during slot import", finish("failed"));
    assert!(appended.ends_with(&end), "{appended}");
    was_cleaned_up(&rig, "A failover occurred during slot import");
    let file = snapshot(&mut rig);
    assert!(!file.windows(40).any(|bytes| bytes == JOB.as_bytes()));
}

#[test]
fn cb_a3a_a_full_synchronisation_ends_what_the_file_does_not_know() {
    for is_known in [false, true] {
        let (mut theirs, primary) = half_imported();
        if !is_known {
            stream(&mut theirs, primary, &[&finish("success")]);
        }
        theirs.check("SAVE", "+OK");
        let (mut rig, _) = half_imported();
        rig.process.snapshots = theirs.process.snapshots.clone();
        rig.engine.begin_sync_load(SyncSource::File, &mut rig.process);
        rig.end_iteration();
        rig.finish_loads();
        let wanted = if is_known { ":1" } else { ":4" };
        rig.check("DBSIZE", wanted);
        rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":3");
    }
}

/// A replica of this server gets the import with its full copy; a replica whose version cannot read the
/// record gets no copy.
#[test]
fn cb_a38_a_full_copy_holds_imports() {
    let (mut rig, _) = half_imported();
    let client = rig.connect();
    rig.run_as(client, "REPLCONF capa eof capa psync2 version 9.1.2");
    let ask = |rig: &mut Rig, client| {
        let mut bytes = rig.argv(client, &[b"PSYNC", b"?", b"-1"]);
        for _ in 0..10 {
            rig.pass_ms(1_000);
            rig.cron();
            rig.end_iteration();
            bytes.extend(rig.output(client));
        }
        bytes
    };
    let copy = ask(&mut rig, client);
    assert!(copy.windows(42).any(|bytes| bytes[..2] == *b"\xf3\x28" && bytes[2..] == *JOB.as_bytes()));
    rig.engine.disconnect(client, &mut rig.process);
    let old = rig.connect();
    rig.run_as(old, "REPLCONF capa eof capa psync2 version 8.1.0");
    ask(&mut rig, old);
    assert!(said(&rig).contains("Can't store slot migrations in RDB version 11"), "{}", said(&rig));
}

/// A server that loads these files at its start.
fn loaded(saved: &SavedCluster, files: &[Vec<u8>]) -> Rig {
    let mut rig = Rig::node(Some(saved), &[("appendonly", "yes"), ("cluster-databases", "4")]);
    let named = files.iter().enumerate().map(|(at, bytes)| match at {
        0 => ("base".to_owned(), bytes.clone()),
        at => (format!("incr.{at}"), bytes.clone()),
    });
    *rig.process.aof_parts.lock().expect("one thread") = named.collect();
    let config = rig.engine.config().clone();
    let parts = rig.process.aof_files(&config, Vec::new(), 0);
    rig.engine.begin_aof_load_at_start(parts, &mut rig.process);
    rig.end_iteration();
    rig.finish_loads();
    assert!(!said(&rig).contains("failed when they were replayed"), "{}", said(&rig));
    rig
}

#[test]
fn cb_a37_a_log_has_both_ends_and_what_is_not_ended_is_a_replicas_to_go_on_with() {
    let begin = establish(JOB, "5061 5061");
    let open = log_of(&["SELECT 0", "SET foo 1", &begin, "SET bar 1"]);
    let ended = [open.clone(), log_of(&[&finish("success")])].concat();
    for saved in [saved(), saved_primary()] {
        let mut rig = loaded(&saved, &[Vec::new(), ended.clone()]);
        rig.check("DBSIZE", ":2");
    }
    let mut rig = loaded(&saved(), &[Vec::new(), open.clone()]);
    settle(&mut rig);
    rig.check("DBSIZE", ":1");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":1");
    let mut rig = loaded(&saved_primary(), &[Vec::new(), open]);
    rig.check("DBSIZE", ":1");
    settle(&mut rig);
    rig.check("DBSIZE", ":1");
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":0");
}

#[test]
fn cb_a37_a_rewrite_keeps_imports_that_are_under_way() {
    for preamble in ["yes", "no"] {
        let (mut rig, primary) = following(&[("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)]);
        stream(&mut rig, primary, &["SET foo 1", &establish(JOB, "5000 5060 5061 5061"), "SET bar 1"]);
        rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
        while rig.engine.has_job() {
            rig.engine.save_slice(1_000_000, &mut rig.process);
        }
        let base = rig.process.snapshots.borrow()[&b""[..]].clone();
        let source = if preamble == "yes" { "" } else { SOURCE };
        assert!(source.is_empty() || base.windows(40).any(|bytes| bytes == SOURCE.as_bytes()));
        let more = log_of(&["SELECT 0", "SET {bar}2 1"]);
        let mut again = loaded(&saved(), &[base.clone(), more.clone()]);
        again.check("DBSIZE", ":1");
        again.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":2");
        let more = [more, log_of(&[&finish("success")])].concat();
        let mut again = loaded(&saved(), &[base, more]);
        again.check("DBSIZE", ":3");
    }
}

/// An import that was loaded from a snapshot lacks the id of its source. Nevertheless, a rewrite can write a
/// base of commands.
#[test]
fn a_base_of_commands_needs_no_source() {
    let (mut rig, _) = half_imported();
    let file = snapshot(&mut rig);
    let (mut rig, _) = restarted(Some(&saved()), file);
    rig.check("CONFIG SET aof-use-rdb-preamble no", "+OK");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    let base = rig.process.snapshots.borrow()[&b""[..]].clone();
    let mut rig = loaded(&saved(), &[base, Vec::new()]);
    rig.check("DBSIZE", ":1");
    assert_eq!(key_slot(b"bar"), BAR);
    rig.check(&format!("CLUSTER COUNTKEYSINSLOT {BAR}"), ":3");
}

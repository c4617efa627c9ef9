//! PSYNC: replicas that were disconnected continue where they were, as far as the backlog reaches.

use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_control::persistence::ending::EndOrder;
use sluice_engine::EndBegun;
use sluice_session::{ClientAddress, Medium};
use sluice_testkit::Rig;

/// A field of INFO.
fn info(rig: &mut Rig, section: &str, name: &str) -> String {
    let text = rig.run(&format!("INFO {section}"));
    let value = text.split(&format!("{name}:")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    value.split("\\r\\n").next().unwrap_or_default().to_owned()
}

fn number(rig: &mut Rig, name: &str) -> u64 {
    info(rig, "replication", name).parse().expect("the field of INFO is a number")
}

/// Sends a command, and returns the client's output.
fn ask(rig: &mut Rig, client: SessionKey, line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    rig.argv_unread(client, &words);
    rig.output(client)
}

/// Connects a replica that asks for the stream from the byte `wanted`. Returns its session, the first line of
/// the reply, and the bytes after it.
fn psync(rig: &mut Rig, replid: &str, wanted: u64) -> (SessionKey, String, Vec<u8>) {
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "REPLCONF capa eof capa psync2"), "+OK");
    let bytes = ask(rig, client, &format!("PSYNC {replid} {wanted}"));
    let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap_or_else(|| panic!("{bytes:?}"));
    (client, String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes[end + 2..].to_vec())
}

/// A server with a replica, the replica's session, and the id of the replication history.
fn with_replica(directives: &[(&str, &str)]) -> (Rig, SessionKey, String) {
    let mut rig = Rig::with(directives);
    let replica = rig.replica();
    let replid = info(&mut rig, "replication", "master_replid");
    (rig, replica, replid)
}

#[test]
fn a_replica_that_was_away_is_sent_what_it_missed() {
    let (mut rig, replica, replid) = with_replica(&[]);
    rig.run("SET a 1");
    let before = rig.output(replica).len() as u64;
    rig.engine.disconnect(replica, &mut rig.process);
    rig.run("SET b 2");
    rig.run("SELECT 3");
    rig.run("SET c 3");
    let (back, line, missed) = psync(&mut rig, &replid, before + 1);
    assert_eq!(line, format!("+CONTINUE {replid}"));
    let missed = String::from_utf8(missed).unwrap();
    assert!(missed.starts_with("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n"), "no SELECT stands before: {missed}");
    assert!(missed.ends_with("SELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$1\r\n3\r\n"), "{missed}");
    rig.run("SET d 4");
    assert_eq!(rig.fed(back), "SET d 4");
    assert_eq!(info(&mut rig, "stats", "sync_full"), "0");
    assert_eq!(info(&mut rig, "stats", "sync_partial_ok"), "1");
    assert_eq!(info(&mut rig, "replication", "connected_slaves"), "1");
}

#[test]
fn an_id_that_is_not_known_and_an_offset_out_of_reach_get_everything() {
    let (mut rig, replica, replid) = with_replica(&[("repl-backlog-size", "16384")]);
    for _ in 0..60 {
        rig.run(&format!("SET a {}", "v".repeat(1000)));
        rig.output(replica);
    }
    let (first, histlen) =
        (number(&mut rig, "repl_backlog_first_byte_offset"), number(&mut rig, "repl_backlog_histlen"));
    let offset = number(&mut rig, "master_repl_offset");
    assert!(first > 1 && first + histlen == offset + 1);
    let full = format!("+FULLRESYNC {replid} {offset}");
    assert_eq!(psync(&mut rig, &replid, first).1, format!("+CONTINUE {replid}"));
    assert_eq!(psync(&mut rig, &replid, offset + 1).1, format!("+CONTINUE {replid}"));
    for (id, wanted) in [(&replid, first - 1), (&replid, offset + 2), (&"f".repeat(40), offset + 1)] {
        assert_eq!(psync(&mut rig, id, wanted).1, full, "{id} {wanted}");
    }
    assert_eq!(info(&mut rig, "stats", "sync_partial_ok"), "2");
    assert_eq!(info(&mut rig, "stats", "sync_partial_err"), "3");
}

#[test]
fn one_that_does_not_know_of_second_ids_is_told_none() {
    let (mut rig, _, replid) = with_replica(&[]);
    let client = rig.connect();
    assert_eq!(ask(&mut rig, client, &format!("PSYNC {replid} 1")), b"+CONTINUE\r\n");
}

#[test]
fn what_is_written_between_two_replicas_is_in_the_history() {
    let (mut rig, replica, replid) = with_replica(&[]);
    rig.engine.disconnect(replica, &mut rig.process);
    rig.run("SET a 1");
    assert!(number(&mut rig, "master_repl_offset") > 0);
    assert_eq!(number(&mut rig, "repl_backlog_active"), 1);
    let (_, line, missed) = psync(&mut rig, &replid, 1);
    assert_eq!(line, format!("+CONTINUE {replid}"));
    assert!(missed.ends_with(b"a\r\n$1\r\n1\r\n"));
}

#[test]
fn the_backlog_is_freed_when_no_replica_has_come_for_its_time_and_a_new_history_begins() {
    let (mut rig, replica, replid) = with_replica(&[("repl-backlog-ttl", "5")]);
    rig.run("SET a 1");
    rig.cron();
    rig.pass_ms(10_000);
    rig.cron();
    assert_eq!(number(&mut rig, "repl_backlog_active"), 1, "there is a replica");
    rig.engine.disconnect(replica, &mut rig.process);
    for (seconds, active) in [(0, 1), (4, 1), (3, 0)] {
        rig.pass_ms(seconds * 1000 + 1000);
        rig.cron();
        assert_eq!(number(&mut rig, "repl_backlog_active"), active, "{seconds}");
    }
    let offset = number(&mut rig, "master_repl_offset");
    rig.run("SET b 1");
    assert_eq!(number(&mut rig, "master_repl_offset"), offset, "nothing is counted");
    let next = info(&mut rig, "replication", "master_replid");
    assert_ne!(next, replid);
    for id in [&replid, &next] {
        let (client, line, _) = psync(&mut rig, id, offset + 1);
        assert!(line.starts_with("+FULLRESYNC "), "what was written since is in neither: {line}");
        rig.engine.disconnect(client, &mut rig.process);
        rig.pass_ms(1000);
        rig.cron();
        rig.pass_ms(7000);
        rig.cron();
    }
}

/// Number of bytes that the server has queued for a client and not sent.
fn owed(rig: &Rig, client: SessionKey) -> usize {
    rig.engine.session(client).map_or(0, sluice_session::Session::output_bytes)
}

#[test]
fn a_slow_replica_costs_nothing_of_its_own_until_the_backlog_is_passed_and_is_cut_at_its_limit() {
    let limits = [("client-output-buffer-limit", "replica 1mb 0 0"), ("repl-backlog-size", "4mb")];
    let (mut rig, slow, replid) = with_replica(&limits);
    let fast = rig.replica();
    let mut sets = 0;
    while !rig.is_closing(slow) {
        rig.run(&format!("SET a {}", "v".repeat(10_000)));
        assert!(!rig.output(fast).is_empty());
        assert!(owed(&rig, slow) <= (1 << 20) + (32 << 10), "a window at most: {}", owed(&rig, slow));
        sets += 1;
        assert!(sets < 2000, "the limit does not work");
    }
    // A window of one megabyte was queued, the four megabytes of the backlog cost the replica nothing, and
    // the limit is one megabyte beyond that.
    assert!((600..640).contains(&sets), "{sets}");
    assert!(!rig.is_closing(fast));
    assert_eq!(info(&mut rig, "stats", "client_output_buffer_limit_disconnections"), "1");
    rig.engine.disconnect(slow, &mut rig.process);
    rig.run("SET a 1");
    rig.output(fast);
    assert!(number(&mut rig, "repl_backlog_histlen") < (4 << 20) + (32 << 10), "what it held alone is freed");
    let first = number(&mut rig, "repl_backlog_first_byte_offset");
    assert_eq!(psync(&mut rig, &replid, first).1, format!("+CONTINUE {replid}"));
}

#[test]
fn a_replica_that_catches_up_is_sent_every_byte_in_order() {
    let (mut rig, slow, _) = with_replica(&[("repl-backlog-size", "16384")]);
    let fast = rig.replica();
    let (mut all, mut got) = (Vec::new(), Vec::new());
    for i in 0..300 {
        rig.run(&format!("SET k{i} {}", "v".repeat(i * 97 % 12_000)));
        all.extend(rig.output(fast));
    }
    loop {
        let piece = rig.output(slow);
        if piece.is_empty() {
            break;
        }
        got.extend(piece);
    }
    // The second replica's attachment has named the database again.
    let tail = got.len() - all.len();
    assert!(got[tail..] == all[..], "{} {}", got.len(), all.len());
    assert!(tail < 30);
}

/// A server that starts from a saved snapshot.
fn restarted_from(rig: &mut Rig) -> Rig {
    restarted_from_with(rig, &[])
}

fn restarted_from_with(rig: &mut Rig, directives: &[(&str, &str)]) -> Rig {
    rig.check("SAVE", "+OK");
    let mut restarted = Rig::with(directives);
    // The restart takes a second, and the server has another replication id than in its last run.
    restarted.pass_ms(1000);
    restarted.process.entropy = 0x99;
    assert_eq!(restarted.run("DEBUG CHANGE-REPL-ID"), "+OK");
    restarted.process.snapshots = rig.process.snapshots.clone();
    assert_eq!(restarted.engine.begin_load_at_start(&mut restarted.process), Ok(true));
    restarted.finish_loads();
    restarted
}

#[test]
fn after_a_restart_who_has_exactly_what_was_saved_goes_on_and_nobody_else() {
    let (mut rig, _, old) = with_replica(&[]);
    rig.run("SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    let mut restarted = restarted_from(&mut rig);
    let new = info(&mut restarted, "replication", "master_replid");
    assert_ne!(new, old);
    assert_eq!(number(&mut restarted, "repl_backlog_active"), 1);
    restarted.run("SET b 2");
    let (_, line, missed) = psync(&mut restarted, &old, offset + 1);
    assert_eq!(line, format!("+CONTINUE {new}"));
    assert!(missed.starts_with(b"*2\r\n$6\r\nSELECT\r\n") && missed.ends_with(b"b\r\n$1\r\n2\r\n"));
    // This stands for a crash after the save. A replica that received more has another history than this
    // server.
    let after = number(&mut restarted, "master_repl_offset");
    for (id, wanted) in [(&old, offset), (&old, offset + 2), (&old, after + 1), (&new, offset)] {
        let (_, line, _) = psync(&mut restarted, id, wanted);
        assert!(line.starts_with(&format!("+FULLRESYNC {new} ")), "{id} {wanted}: {line}");
    }
}

/// A new stream begins with a PING (`a_stream_at_its_beginning_is_pinged_at_once`); a stream that
/// continues at 0 is not new, and its replicas keep their offset for a period.
#[test]
fn a_history_without_writes_goes_on_at_0_after_a_restart() {
    let (mut rig, _, old) = with_replica(&[]);
    assert_eq!(number(&mut rig, "master_repl_offset"), 0);
    let mut restarted = restarted_from(&mut rig);
    let (replica, line, _) = psync(&mut restarted, &old, 1);
    assert!(line.starts_with("+CONTINUE "), "{line}");
    restarted.cron();
    for _ in 0..3 {
        restarted.pass_ms(1000);
        restarted.cron();
        assert_eq!(restarted.output(replica), b"");
    }
    assert_eq!(number(&mut restarted, "master_repl_offset"), 0);
}

#[test]
fn keys_that_expired_while_the_server_was_away_are_deleted_at_replicas_that_go_on() {
    let (mut rig, replica, old) = with_replica(&[]);
    rig.run("SET a 1 PX 1");
    rig.run("SET b 1");
    rig.output(replica);
    let offset = number(&mut rig, "master_repl_offset");
    let mut restarted = restarted_from(&mut rig);
    restarted.check("DBSIZE", ":1");
    assert_eq!(info(&mut restarted, "persistence", "rdb_last_load_keys_expired"), "1");
    let (_, line, missed) = psync(&mut restarted, &old, offset + 1);
    assert!(line.starts_with("+CONTINUE "), "{line}");
    assert_eq!(
        missed.escape_ascii().to_string(),
        "*2\\r\\n$6\\r\\nSELECT\\r\\n$1\\r\\n0\\r\\n*2\\r\\n$6\\r\\nUNLINK\\r\\n$1\\r\\na\\r\\n"
    );
}

#[test]
fn fields_that_expired_while_the_server_was_away_are_deleted_at_replicas_that_go_on() {
    let (mut rig, replica, old) = with_replica(&[]);
    rig.run("HSETEX all PX 1 FIELDS 1 f v");
    rig.run("HSETEX some PX 1 FIELDS 2 a 1 b 2");
    rig.run("HSET some kept 3");
    rig.output(replica);
    let offset = number(&mut rig, "master_repl_offset");
    let mut restarted = restarted_from(&mut rig);
    // HLEN counts fields that have expired and are not deleted.
    restarted.check("HLEN some", ":1");
    restarted.check("DBSIZE", ":1");
    let (_, line, missed) = psync(&mut restarted, &old, offset + 1);
    assert!(line.starts_with("+CONTINUE "), "{line}");
    let missed = missed.escape_ascii().to_string();
    for told in [
        "*2\\r\\n$6\\r\\nUNLINK\\r\\n$3\\r\\nall\\r\\n",
        "*4\\r\\n$4\\r\\nHDEL\\r\\n$4\\r\\nsome\\r\\n$1\\r\\na\\r\\n$1\\r\\nb\\r\\n",
    ] {
        assert!(missed.contains(told), "{told} in {missed}");
    }
}

#[test]
fn a_replica_goes_on_only_where_the_backlog_holds_all_keys_that_expired_meanwhile() {
    let (mut rig, replica, old) = with_replica(&[("repl-backlog-size", "16kb")]);
    for i in 0..2000 {
        rig.run(&format!("SET key:{i} 1 PX 1"));
    }
    rig.output(replica);
    let offset = number(&mut rig, "master_repl_offset");
    let mut restarted = restarted_from_with(&mut rig, &[("repl-backlog-size", "16kb")]);
    assert_eq!(info(&mut restarted, "persistence", "rdb_last_load_keys_expired"), "2000");
    assert!(number(&mut restarted, "repl_backlog_histlen") < 64 * 1024);
    let (_, line, _) = psync(&mut restarted, &old, offset + 1);
    assert!(line.starts_with("+FULLRESYNC "), "{line}");
}

/// A replica that has a snapshot with a mark, and has not acknowledged it.
fn with_snapshot(rig: &mut Rig) -> SessionKey {
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "REPLCONF capa eof capa psync2 version 9.1.2"), "+OK");
    assert!(ask(rig, client, "PSYNC ? -1").starts_with(b"+FULLRESYNC "));
    client
}

#[test]
fn a_replica_is_online_when_it_says_that_it_has_the_snapshot() {
    let mut rig = Rig::with(&[("min-replicas-to-write", "1")]);
    rig.cron();
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    rig.check("GET a", "nil");
    let replica = with_snapshot(&mut rig);
    assert!(rig.run("INFO replication").contains("state=send_bulk"));
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    ask(&mut rig, replica, "REPLCONF ACK 0");
    assert!(rig.run("INFO replication").contains("state=online"));
    assert_eq!(info(&mut rig, "replication", "min_slaves_good_slaves"), "1");
    rig.check("SET a 1", "+OK");
    rig.check("MULTI", "+OK");
    rig.check("SET b 1", "+QUEUED");
    rig.check("EXEC", "[+OK]");
    // Directives apply at once, whatever was counted before.
    rig.pass_ms(3000);
    rig.check("CONFIG SET min-replicas-max-lag 2", "+OK");
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    rig.check("CONFIG SET min-replicas-max-lag 10", "+OK");
    rig.check("SET a 1", "+OK");
    // A silent replica is late after ten seconds.
    for _ in 0..12 {
        rig.pass_ms(1000);
        rig.cron();
        rig.end_iteration();
    }
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    ask(&mut rig, replica, "REPLCONF ACK 1");
    rig.pass_ms(1000);
    rig.cron();
    rig.end_iteration();
    rig.check("SET a 1", "+OK");
    rig.engine.disconnect(replica, &mut rig.process);
    rig.end_iteration();
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
}

#[test]
fn waitaof_counts_what_replicas_say_of_their_logs() {
    let (mut rig, replica, _) = with_replica(&[]);
    let client = rig.connect();
    rig.run_as(client, "SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    assert_eq!(rig.run_as(client, "WAITAOF 0 0 0"), "[:0, :0]");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset} FACK 0"));
    assert_eq!(rig.run_as(client, "WAIT 1 0"), ":1");
    assert_eq!(ask(&mut rig, client, "WAITAOF 0 1 0"), b"", "it waits");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset} FACK {}", offset - 1));
    assert_eq!(rig.output(client), b"");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset} FACK {offset}"));
    assert_eq!(rig.output(client), b"*2\r\n:0\r\n:1\r\n");
    assert_eq!(rig.run_as(client, "WAITAOF 0 1 0"), "[:0, :1]");
}

/// A new connection of the replica at port 7001, which continues at an offset of the history, or gets a full
/// copy.
fn comes(rig: &mut Rig, replid: &str, wanted: i64) -> SessionKey {
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "REPLCONF listening-port 7001 capa psync2"), "+OK");
    ask(rig, client, &format!("PSYNC {replid} {wanted}"));
    client
}

#[test]
fn a_replica_that_has_come_back_counts_once() {
    let (mut rig, other, replid) = with_replica(&[]);
    let client = rig.connect();
    rig.run_as(client, "SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    let before = comes(&mut rig, &replid, offset as i64 + 1);
    for replica in [other, before] {
        ask(&mut rig, replica, &format!("REPLCONF ACK {offset} FACK {offset}"));
    }
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":2");
    // The replica comes back while the end of its former connection is not known yet.
    let back = comes(&mut rig, &replid, offset as i64 + 1);
    ask(&mut rig, back, &format!("REPLCONF ACK {offset} FACK {offset}"));
    assert_eq!(info(&mut rig, "replication", "connected_slaves"), "3");
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":2");
    assert_eq!(rig.run_as(client, "WAITAOF 0 0 0"), "[:0, :2]");
    // An acknowledgement that was still under way on the former connection does not make that connection
    // count again.
    ask(&mut rig, before, &format!("REPLCONF ACK {offset} FACK {offset}"));
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":2");
    assert_eq!(ask(&mut rig, client, "WAIT 3 0"), b"", "it waits");
}

#[test]
fn writes_rely_on_a_replica_that_has_come_back_once() {
    let mut rig = Rig::with(&[("min-replicas-to-write", "2")]);
    let other = with_snapshot(&mut rig);
    ask(&mut rig, other, "REPLCONF ACK 0");
    let replid = info(&mut rig, "replication", "master_replid");
    let start = number(&mut rig, "master_repl_offset") as i64 + 1;
    let first = comes(&mut rig, &replid, start);
    rig.check("SET a 1", "+OK");
    let offset = number(&mut rig, "master_repl_offset");
    rig.engine.disconnect(other, &mut rig.process);
    rig.end_iteration();
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    // Two connections of one replica count as one copy of the write.
    let back = comes(&mut rig, &replid, offset as i64 + 1);
    rig.check("SET a 1", "-NOREPLICAS Not enough good replicas to write.");
    assert_eq!(info(&mut rig, "replication", "connected_slaves"), "2");
    assert_eq!(info(&mut rig, "replication", "min_slaves_good_slaves"), "1");
    // If the first connection acknowledges again, another replica has the same address, and both connections
    // count.
    rig.pass_ms(2000);
    ask(&mut rig, first, "REPLCONF ACK 0");
    rig.cron();
    rig.end_iteration();
    assert_eq!(info(&mut rig, "replication", "min_slaves_good_slaves"), "2");
    rig.engine.disconnect(back, &mut rig.process);
    rig.end_iteration();
    assert_eq!(info(&mut rig, "replication", "min_slaves_good_slaves"), "1");
}

/// The replica has received the write, and has no data until it has loaded the snapshot.
#[test]
fn a_replica_that_comes_back_for_everything_does_not_count_by_what_it_had() {
    let (mut rig, _, replid) = with_replica(&[]);
    let client = rig.connect();
    rig.run_as(client, "SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    let before = comes(&mut rig, &replid, offset as i64 + 1);
    ask(&mut rig, before, &format!("REPLCONF ACK {offset}"));
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":1");
    comes(&mut rig, "?", -1);
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":0");
}

#[test]
fn two_replicas_behind_one_address_count_both_as_soon_as_the_first_says_more() {
    let (mut rig, _, replid) = with_replica(&[]);
    let client = rig.connect();
    let start = number(&mut rig, "master_repl_offset") as i64 + 1;
    let replicas = [comes(&mut rig, &replid, start), comes(&mut rig, &replid, start)];
    rig.run_as(client, "SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    for replica in replicas {
        ask(&mut rig, replica, &format!("REPLCONF ACK {offset}"));
    }
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":2");
}

/// Data written before the history began are at offset 0, and so is a replica that still loads its first
/// snapshot, so offset 0 without an acknowledgement must not count.
#[test]
fn a_replica_that_has_said_nothing_is_not_counted() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.check_as(client, "SET a 1", "+OK");
    let replica = rig.connect();
    ask(&mut rig, replica, "PSYNC ? -1");
    rig.output(replica);
    assert_eq!(ask(&mut rig, client, "WAIT 1 0"), b"", "it waits");
    let offset = number(&mut rig, "master_repl_offset");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset}"));
    assert_eq!(rig.output(client), b":1\r\n");
}

#[test]
fn a_wait_that_would_end_behind_all_time_is_refused() {
    let mut rig = Rig::new();
    for command in ["WAIT 1", "WAITAOF 0 1"] {
        rig.check(&format!("{command} 9223372036854775807"), "-ERR timeout is out of range");
        let text = "-ERR timeout is not an integer or out of range";
        rig.check(&format!("{command} 9223372036854775808"), text);
        rig.check(&format!("{command} -1"), "-ERR timeout is negative");
    }
}

#[test]
fn a_snapshot_on_a_second_channel_keeps_the_offset_for_the_first() {
    let (mut rig, _, replid) =
        with_replica(&[("dual-channel-replication-enabled", "yes"), ("repl-backlog-size", "16384")]);
    rig.run("SET a 1");
    rig.end_iteration();
    let offset = number(&mut rig, "master_repl_offset");
    let main = rig.connect();
    assert_eq!(rig.run_as(main, "REPLCONF capa eof capa psync2 capa dual-channel"), "+OK");
    assert_eq!(ask(&mut rig, main, "PSYNC ? -1"), b"+DUALCHANNELSYNC\r\n");
    assert_eq!(rig.run_as(main, "REPLCONF set-rdb-client-id 77"), "-ERR Unrecognized RDB client id 77");
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "REPLCONF capa eof rdb-only 1 rdb-channel 1"), "+OK");
    let bytes = ask(&mut rig, other, "SYNC");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let line = text.lines().next().unwrap();
    let id = line.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(line, format!("$ENDOFF:{offset} {replid} -1 {id}"));
    assert!(text.lines().nth(1).unwrap().starts_with("$EOF:"), "{text}");
    assert_eq!(number(&mut rig, "replicas_waiting_psync"), 1);
    // Much is written before the main channel asks for the stream, which is kept until then.
    for _ in 0..40 {
        rig.run(&format!("SET a {}", "v".repeat(1000)));
        rig.end_iteration();
    }
    assert_eq!(rig.run_as(main, &format!("REPLCONF set-rdb-client-id {id}")), "+OK");
    let bytes = ask(&mut rig, main, &format!("PSYNC {replid} {}", offset + 1));
    let behind = format!("+CONTINUE {replid}\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n");
    assert!(bytes.starts_with(behind.as_bytes()), "{}", bytes[..200].escape_ascii());
    assert!(bytes.len() > 40_000);
    assert!(rig.run("INFO replication").contains("state=bg_transfer,offset=0,lag=0,type=main-channel"));
    assert_eq!(number(&mut rig, "replicas_waiting_psync"), 0);
    ask(&mut rig, main, "REPLCONF ACK 5");
    assert!(rig.run("INFO replication").contains("state=online,offset=5,lag=0,type=replica"));
    // Without the setting, a replica gets everything on one channel.
    rig.run("CONFIG SET dual-channel-replication-enabled no");
    let third = rig.connect();
    assert_eq!(rig.run_as(third, "REPLCONF capa eof capa psync2 capa dual-channel"), "+OK");
    assert!(ask(&mut rig, third, "PSYNC ? -1").starts_with(b"+FULLRESYNC"));
}

#[test]
fn a_snapshot_has_no_checksum_where_every_replica_says_so_and_came_by_tls() {
    let cases = [
        ("capa skip-rdb-checksum", Medium::Tls, "yes", true),
        ("capa psync2", Medium::Tls, "yes", false),
        ("capa skip-rdb-checksum", Medium::Tcp, "yes", false),
        ("capa skip-rdb-checksum", Medium::Tls, "no", false),
    ];
    for (capability, medium, diskless, skipped) in cases {
        let mut rig = Rig::with(&[("repl-diskless-sync", diskless), ("repl-diskless-sync-delay", "0")]);
        rig.run("SET a 1");
        let connection = ClientAddress {
            addr: "10.0.0.1:6379".to_owned(),
            laddr: "".into(),
            fd: 9,
            medium,
            has_priority: false,
        };
        let replica = rig.engine.connect(connection, &mut rig.process);
        assert_eq!(rig.run_as(replica, &format!("REPLCONF capa eof {capability} version 9.1.2")), "+OK");
        let bytes = ask(&mut rig, replica, "PSYNC ? -1");
        // The mark of forty bytes follows the file.
        let sum = &bytes[bytes.len() - 48..bytes.len() - 40];
        assert_eq!(sum == [0; 8], skipped, "{capability} {medium:?} {diskless}");
        let line = "while skipping RDB checksum for this transfer";
        assert_eq!(rig.process.log.iter().any(|(_, text)| text.contains(line)), skipped);
    }
}

#[test]
fn an_offset_is_kept_for_a_minute_behind_the_end_of_the_second_channel() {
    let (mut rig, _, _) = with_replica(&[]);
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "REPLCONF capa eof rdb-only 1 rdb-channel 1"), "+OK");
    ask(&mut rig, other, "SYNC");
    rig.cron();
    rig.engine.disconnect(other, &mut rig.process);
    for (seconds, kept) in [(50, 1), (12, 0)] {
        rig.pass_ms(seconds * 1000);
        rig.cron();
        assert_eq!(number(&mut rig, "replicas_waiting_psync"), kept, "{seconds}");
    }
}

#[test]
fn replicas_that_come_within_the_delay_share_a_snapshot() {
    let mut rig = Rig::with(&[("repl-diskless-sync-delay", "5"), ("repl-diskless-sync-max-replicas", "3")]);
    let mut coming = Vec::new();
    for _ in 0..2 {
        let client = rig.connect();
        assert_eq!(rig.run_as(client, "REPLCONF capa eof"), "+OK");
        assert_eq!(ask(&mut rig, client, "PSYNC ? -1"), b"");
        coming.push(client);
        rig.pass_ms(2000);
    }
    assert!(rig.run("INFO replication").contains("state=wait_bgsave"));
    assert_eq!(info(&mut rig, "replication", "connected_slaves"), "2");
    let says_so =
        |text: &str| text.starts_with("Delay next BGSAVE for diskless SYNC: replicas that ask within 5");
    assert_eq!(rig.process.log.iter().filter(|(_, text)| says_so(text)).count(), 2);
    rig.pass_ms(2000);
    for client in coming {
        assert!(rig.output(client).starts_with(b"+FULLRESYNC"));
    }
    // Replicas whose number reaches the maximum do not wait for more, nor does a replica that takes a file.
    let three: Vec<SessionKey> = (0..3).map(|_| rig.connect()).collect();
    for client in &three {
        assert_eq!(rig.run_as(*client, "REPLCONF capa eof"), "+OK");
        rig.argv_unread(*client, &[b"PSYNC", b"?", b"-1"]);
    }
    assert!(rig.output(three[0]).starts_with(b"+FULLRESYNC"));
    let old = rig.connect();
    rig.output(three[1]);
    rig.output(three[2]);
    assert!(ask(&mut rig, old, "SYNC").starts_with(b"$"));
    // Of the three, the first two waited for more.
    assert_eq!(rig.process.log.iter().filter(|(_, text)| says_so(text)).count(), 4);
}

fn has_ended(rig: &Rig) -> bool {
    rig.actions.iter().any(|action| matches!(action, sluice_control::action::Action::Shutdown))
}

#[test]
fn an_end_waits_for_replicas_and_keeps_writes_back() {
    let (mut rig, replica, _) = with_replica(&[("save", "\"\"")]);
    rig.run("SET a 1");
    let (asker, writer) = (rig.connect(), rig.connect());
    assert_eq!(ask(&mut rig, asker, "SHUTDOWN"), b"");
    assert_eq!(ask(&mut rig, writer, "SET b 1"), b"", "a write waits");
    rig.check("GET a", "\"1\"");
    let left_ms: u64 = info(&mut rig, "server", "shutdown_in_milliseconds").parse().unwrap();
    assert!((9_000..=10_000).contains(&left_ms));
    rig.check("SHUTDOWN ABORT", "+OK");
    assert!(!rig.run("INFO server").contains("shutdown_in_milliseconds"));
    assert_eq!(rig.output(asker), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    assert_eq!(rig.output(writer), b"+OK\r\n");
    let offset = number(&mut rig, "master_repl_offset");
    assert_eq!(ask(&mut rig, asker, "SHUTDOWN"), b"");
    assert!(!has_ended(&rig));
    let asked = rig.fed(replica);
    assert!(asked.ends_with("REPLCONF GETACK *"), "{asked}");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset}"));
    rig.end_iteration();
    assert!(has_ended(&rig));
}

/// The flag of the first signal once remained set, so that the second signal killed the process.
#[test]
fn regress_an_end_that_fails_after_its_wait_lets_the_next_signal_ask_again() {
    let (mut rig, _, _) = with_replica(&[("save", "100 1"), ("shutdown-timeout", "1")]);
    rig.run("SET a 1");
    rig.process.refuse_snapshots = Some("no disk".to_owned());
    let order = EndOrder::of_flags(0);
    let goes_on = |rig: &Rig| rig.actions.iter().any(|action| matches!(action, Action::KeepRunning));
    for _ in 0..2 {
        assert_eq!(rig.engine.begin_end(&order, &mut rig.process), EndBegun::Waits);
        rig.end_iteration();
        assert!(!goes_on(&rig) && !has_ended(&rig));
        rig.pass_ms(1_100);
        rig.end_iteration();
        assert!(goes_on(&rig) && !has_ended(&rig), "the save fails");
        rig.actions.clear();
    }
    rig.process.refuse_snapshots = None;
    assert_eq!(rig.engine.begin_end(&order, &mut rig.process), EndBegun::Waits);
    rig.pass_ms(1_100);
    rig.end_iteration();
    assert!(has_ended(&rig));
}

/// There are iterations between the order to end and the end, and some more until the last replies are sent.
#[test]
fn an_end_happens_once_and_nothing_is_executed_behind_it() {
    let (mut rig, replica, _) = with_replica(&[("save", "3600 1")]);
    rig.run("SET n 1");
    let (asker, writer, popper) = (rig.connect(), rig.connect(), rig.connect());
    assert_eq!(ask(&mut rig, asker, "SHUTDOWN"), b"");
    assert_eq!(ask(&mut rig, writer, "INCR n"), b"");
    assert_eq!(ask(&mut rig, popper, "BLPOP l 1"), b"");
    let offset = number(&mut rig, "master_repl_offset");
    ask(&mut rig, replica, &format!("REPLCONF ACK {offset}"));
    let ends = |rig: &Rig| rig.actions.iter().filter(|action| matches!(action, Action::Shutdown)).count();
    for _ in 0..3 {
        rig.end_iteration();
        assert_eq!(ends(&rig), 1);
    }
    let saves = |rig: &Rig| rig.process.log.iter().filter(|(_, line)| line.contains("final RDB")).count();
    assert_eq!(saves(&rig), 1);
    rig.engine.stop();
    // Timeouts of all kinds expire during this time.
    rig.pass_ms(100_000);
    for _ in 0..3 {
        rig.end_iteration();
    }
    assert_eq!((ends(&rig), saves(&rig)), (1, 1));
    assert_eq!((rig.output(writer), rig.output(popper)), (Vec::new(), Vec::new()));
    rig.check("GET n", "\"1\"");
}

#[test]
fn an_end_waits_no_longer_than_its_timeout_and_not_at_all_when_asked() {
    for (line, waits) in [("SHUTDOWN NOSAVE", true), ("SHUTDOWN NOSAVE NOW", false)] {
        let (mut rig, _, _) = with_replica(&[]);
        rig.run("SET a 1");
        let asker = rig.connect();
        ask(&mut rig, asker, line);
        assert_eq!(has_ended(&rig), !waits, "{line}");
        rig.pass_ms(9_900);
        rig.end_iteration();
        assert_eq!(has_ended(&rig), !waits, "{line}");
        rig.pass_ms(200);
        rig.end_iteration();
        assert!(has_ended(&rig));
    }
}

/// A replica whose snapshot does not progress while megabytes are written, and the output of another replica
/// that takes everything.
fn behind_a_snapshot(rig: &mut Rig) -> (SessionKey, Vec<u8>) {
    rig.run("DEBUG POPULATE 2000 key 100");
    rig.process.background_room.set(0);
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF capa eof version 9.1.2"), "+OK");
    rig.argv_unread(replica, &[b"PSYNC", b"?", b"-1"]);
    rig.end_iteration();
    let fast = rig.replica();
    let mut all = Vec::new();
    for n in 0..400 {
        rig.run(&format!("SET k{n} {}", "v".repeat(n * 77 % 20_000)));
        all.extend(rig.output(fast));
    }
    (replica, all)
}

/// Reads the output of a client until there is no more.
fn read_all(rig: &mut Rig, client: SessionKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let piece = rig.output(client);
        if piece.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&piece);
    }
}

const SMALL: [(&str, &str); 2] =
    [("client-output-buffer-limit", "replica 1mb 0 0"), ("repl-backlog-size", "100kb")];

#[test]
fn what_waits_behind_a_snapshot_goes_to_disk_and_does_not_count() {
    let mut rig = Rig::with(&SMALL);
    let (replica, all) = behind_a_snapshot(&mut rig);
    assert!(!rig.is_closing(replica));
    assert!(all.len() > 3 << 20);
    assert!(
        rig.process.spooled.get() > all.len() - (200 << 10),
        "{} {}",
        rig.process.spooled.get(),
        all.len()
    );
    assert!(number(&mut rig, "repl_backlog_histlen") < 200 << 10);
    rig.process.background_room.set(usize::MAX);
    let snapshot = read_all(&mut rig, replica);
    assert!(snapshot.starts_with(b"+FULLRESYNC "));
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    let mut got = Vec::new();
    while got.len() < all.len() {
        let piece = rig.output(replica);
        assert!(!piece.is_empty());
        assert!(piece.len() < (1 << 20) + (64 << 10), "no more than the window: {}", piece.len());
        got.extend(piece);
        // Another client writes between the pieces.
        rig.run("SET late 1");
    }
    got.extend(read_all(&mut rig, replica));
    let at = got.windows(100).position(|window| *window == all[..100]).unwrap();
    assert!(at < 60, "{at}");
    assert!(got[at..].starts_with(&all), "every byte in order");
    assert!(!rig.is_closing(replica));
    assert_eq!(rig.fed(replica), "");
    rig.run("SET last 1");
    assert_eq!(rig.fed(replica), "SET last 1");
}

#[test]
fn a_replica_whose_stream_the_disk_does_not_take_is_cut_at_its_limit() {
    let mut rig = Rig::with(&SMALL);
    rig.process.is_spool_stuck.set(true);
    let (replica, _) = behind_a_snapshot(&mut rig);
    assert!(rig.is_closing(replica));
    rig.engine.disconnect(replica, &mut rig.process);
}

#[test]
fn packets_to_replicas_are_filled_where_the_configuration_asks_for_it() {
    for (value, expected) in [("no", 0), ("yes", 1)] {
        let mut rig = Rig::with(&[("repl-disable-tcp-nodelay", value)]);
        let replica = with_snapshot(&mut rig);
        rig.engine.take_actions(&mut rig.actions);
        let asked = rig
            .actions
            .iter()
            .filter(|action| matches!(action, Action::FillPackets(key) if *key == replica))
            .count();
        assert_eq!(asked, expected, "{value}");
    }
}

/// The later connection ends. If the earlier one still lives, the replica acknowledges on it again.
#[test]
fn an_earlier_connection_counts_again_when_the_later_one_has_gone() {
    let (mut rig, _, replid) = with_replica(&[]);
    let client = rig.connect();
    rig.run_as(client, "SET a 1");
    let offset = number(&mut rig, "master_repl_offset");
    let acknowledge = format!("REPLCONF ACK {offset} FACK {offset}");
    let before = comes(&mut rig, &replid, offset as i64 + 1);
    ask(&mut rig, before, &acknowledge);
    let later = [comes(&mut rig, &replid, offset as i64 + 1), comes(&mut rig, &replid, offset as i64 + 1)];
    for gone in later {
        ask(&mut rig, before, &acknowledge);
        assert_eq!(rig.run_as(client, "WAIT 0 0"), ":0");
        rig.engine.disconnect(gone, &mut rig.process);
    }
    assert_eq!(rig.run_as(client, "WAIT 0 0"), ":0", "what it had may be more than it has");
    assert_eq!(ask(&mut rig, client, "WAIT 1 0"), b"", "it waits");
    ask(&mut rig, before, &acknowledge);
    assert_eq!(rig.output(client), b":1\r\n");
    assert_eq!(rig.run_as(client, "WAITAOF 0 0 0"), "[:0, :1]");
}

//! PSYNC: replicas that were away go on where they were, as far as the backlog reaches.
#![allow(missing_docs)]

use sluice_engine::SessionKey;
use sluice_testkit::Rig;

/// A field of INFO.
fn info(rig: &mut Rig, section: &str, name: &str) -> String {
    let text = rig.run(&format!("INFO {section}"));
    let value = text.split(&format!("{name}:")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    value.split("\\r\\n").next().unwrap_or_default().to_owned()
}

fn number(rig: &mut Rig, name: &str) -> u64 {
    info(rig, "replication", name).parse().unwrap()
}

/// Sends a command, and takes what the client is sent.
fn ask(rig: &mut Rig, client: SessionKey, line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    rig.argv_unread(client, &words);
    rig.output(client)
}

/// A new connection of a replica that has the data: the first line that it is answered, and what follows.
fn psync(rig: &mut Rig, replid: &str, wanted: u64) -> (SessionKey, String, Vec<u8>) {
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "REPLCONF capa eof capa psync2"), "+OK");
    let bytes = ask(rig, client, &format!("PSYNC {replid} {wanted}"));
    let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap_or_else(|| panic!("{bytes:?}"));
    (client, String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes[end + 2..].to_vec())
}

/// A server with a replica, and the replica's history: its id.
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
    rig.engine.disconnect(replica);
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
fn an_id_that_is_not_known_and_a_place_out_of_reach_get_everything() {
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
    rig.engine.disconnect(replica);
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
    rig.engine.disconnect(replica);
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
        rig.engine.disconnect(client);
        rig.pass_ms(1000);
        rig.cron();
        rig.pass_ms(7000);
        rig.cron();
    }
}

/// What the server has queued for a client and not sent.
fn owed(rig: &Rig, client: SessionKey) -> usize {
    rig.engine.session(client).map_or(0, sluice_engine::Session::output_bytes)
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
    // A window was queued, the backlog is free, and a megabyte is beyond that.
    assert!((600..640).contains(&sets), "{sets}");
    assert!(!rig.is_closing(fast));
    assert_eq!(info(&mut rig, "stats", "client_output_buffer_limit_disconnections"), "1");
    rig.engine.disconnect(slow);
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
    // The second replica's coming named the database again.
    let tail = got.len() - all.len();
    assert!(got[tail..] == all[..], "{} {}", got.len(), all.len());
    assert!(tail < 30);
}

/// A snapshot that was saved goes to a server that starts.
fn restarted_from(rig: &mut Rig) -> Rig {
    rig.check("SAVE", "+OK");
    let mut restarted = Rig::new();
    // A second for the restart, and another id than the last run's.
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
    // A crash behind the save: whoever was sent more has another history than this server.
    let after = number(&mut restarted, "master_repl_offset");
    for (id, wanted) in [(&old, offset), (&old, offset + 2), (&old, after + 1), (&new, offset)] {
        let (_, line, _) = psync(&mut restarted, id, wanted);
        assert!(line.starts_with(&format!("+FULLRESYNC {new} ")), "{id} {wanted}: {line}");
    }
}

#[test]
fn keys_that_expired_while_the_server_was_away_are_deleted_at_replicas_that_go_on() {
    let (mut rig, replica, old) = with_replica(&[]);
    rig.run("SET a 1 PX 1");
    rig.run("SET b 1");
    rig.output(replica);
    let offset = number(&mut rig, "master_repl_offset");
    let mut restarted = restarted_from(&mut rig);
    let (replica, line, missed) = psync(&mut restarted, &old, offset + 1);
    assert!(line.starts_with("+CONTINUE "), "{line}");
    assert_eq!(missed.escape_ascii().to_string(), "");
    restarted.check("DBSIZE", ":2");
    restarted.check("GET a", "nil");
    assert_eq!(restarted.fed(replica), "UNLINK a");
    restarted.check("DBSIZE", ":1");
}

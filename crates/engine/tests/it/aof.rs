//! Tests of execution units that are appended to the append-only file, and of replies that wait under
//! `appendfsync always`.

use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_control::process::{AofBacklog, AofIncrement};
use sluice_numbers::facts::AofFacts;
use sluice_session::Closing;
use sluice_testkit::Rig;

fn with_aof(directives: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::with(&[&[("appendonly", "yes")], directives].concat());
    rig.engine.begin_aof();
    rig
}

#[test]
fn writes_are_appended_and_reads_are_not() {
    let mut rig = with_aof(&[]);
    rig.check("GET a", "nil");
    assert_eq!(rig.appended(), "");
    rig.check("SET a 1", "+OK");
    rig.check("GET a", "\"1\"");
    rig.check("GETEX a", "\"1\"");
    assert_eq!(rig.appended(), "SELECT 0 SET a 1");
    rig.check("SET a 2 EX 100", "+OK");
    assert!(rig.appended().starts_with("SET a 2 PXAT "));
    rig.run("MULTI");
    rig.run("SET a 3");
    rig.run("PUBLISH channel message");
    rig.run("EXEC");
    assert_eq!(rig.appended(), "SET a 3", "the message changes no data, so one command is left");
    rig.check("FLUSHALL", "+OK");
    assert_eq!(rig.appended(), "FLUSHALL");
    rig.engine.end_aof();
    rig.check("SET a 1", "+OK");
    assert_eq!(rig.appended(), "");
}

#[test]
fn each_file_begins_with_select_whatever_replicas_were_told() {
    let mut rig = with_aof(&[]);
    rig.run("SELECT 3");
    rig.run("SET a 1");
    let replica = rig.replica();
    rig.run("SET a 2");
    assert_eq!(rig.fed(replica), "SELECT 3; SET a 2");
    assert_eq!(rig.appended(), "SELECT 3 SET a 1 SET a 2");
    rig.engine.begin_aof_file();
    rig.run("SET a 3");
    assert_eq!(rig.appended(), "SELECT 3 SET a 3");
    assert_eq!(rig.fed(replica), "SET a 3");
}

#[test]
fn the_replication_offset_does_not_count_what_is_appended() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1");
    assert!(rig.engine.aof_position() > 0);
    assert!(rig.run("INFO replication").contains("master_repl_offset:0"));
}

#[test]
fn positions_are_where_blocks_begin_and_end() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1");
    let mut first = Vec::new();
    let range = rig.engine.take_aof(&mut first).unwrap();
    assert_eq!(range, 0..first.len() as u64);
    assert_eq!(rig.engine.take_aof(&mut Vec::new()), None);
    rig.run("SET a 2");
    let mut second = Vec::new();
    let next = rig.engine.take_aof(&mut second).unwrap();
    assert_eq!(next, range.end..range.end + second.len() as u64);
}

#[test]
fn keys_that_expire_are_appended_as_deletions() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1 PX 10");
    rig.appended();
    rig.pass_ms(50);
    rig.check("GET a", "nil");
    assert_eq!(rig.appended(), "UNLINK a");
}

#[test]
fn times_stand_where_the_second_changes_and_in_front_of_transactions() {
    let mut rig = with_aof(&[("aof-timestamp-enabled", "yes")]);
    rig.run("SET a 1");
    let text = rig.appended();
    let (stamp, rest) = text.split_once(' ').unwrap();
    let first: i64 = stamp.strip_prefix("#TS:").unwrap().parse().unwrap();
    assert_eq!(rest, "SELECT 0 SET a 1");
    rig.run("SET a 2");
    assert_eq!(rig.appended(), "SET a 2");
    rig.pass_ms(2000);
    rig.run("MULTI");
    rig.run("SET a 3");
    rig.run("SET a 4");
    rig.run("EXEC");
    assert_eq!(rig.appended(), format!("#TS:{} MULTI SET a 3 SET a 4 EXEC", first + 2));
    rig.engine.begin_aof_file();
    rig.run("SET a 5");
    assert_eq!(rig.appended(), format!("#TS:{} SELECT 0 SET a 5", first + 2));
}

/// An engine under `appendfsync always`, and another client.
fn strict() -> (Rig, SessionKey) {
    let mut rig = with_aof(&[("appendfsync", "always")]);
    let other = rig.connect();
    (rig, other)
}

/// The output of a client that the engine releases up to the reported durable position of the file, and
/// whether the client is closed after this output.
fn sent(rig: &mut Rig, client: SessionKey) -> (String, Closing) {
    let (outbox, closing) = rig.engine.take_output(client).expect("the session is there");
    (String::from_utf8(outbox.flatten()).unwrap(), closing)
}

fn write(rig: &mut Rig, client: SessionKey, line: &[&[u8]]) {
    rig.argv_unread(client, line);
}

#[test]
fn output_waits_in_its_session_until_it_is_durable() {
    let (mut rig, writer) = strict();
    let other = rig.connect();
    write(&mut rig, writer, &[b"SET", b"a", b"1"]);
    let first = rig.engine.aof_position();
    write(&mut rig, other, &[b"PING"]);
    assert_eq!(sent(&mut rig, writer).0, "");
    assert_eq!(sent(&mut rig, other).0, "+PONG\r\n", "who has seen nothing of it does not wait");
    write(&mut rig, writer, &[b"PING"]);
    write(&mut rig, writer, &[b"SET", b"a", b"2"]);
    write(&mut rig, writer, &[b"QUIT"]);
    assert_eq!(sent(&mut rig, writer), (String::new(), Closing::No));
    let mut ready = Vec::new();
    rig.engine.take_ready(&mut ready);
    ready.clear();
    rig.engine.report_aof_durable(first, &mut rig.process);
    rig.engine.take_ready(&mut ready);
    assert_eq!(ready, [writer], "it is listed when something of it may go");
    assert_eq!(sent(&mut rig, writer), ("+OK\r\n".to_owned(), Closing::No));
    let last = rig.engine.aof_position();
    rig.engine.report_aof_durable(last, &mut rig.process);
    assert_eq!(sent(&mut rig, writer), ("+PONG\r\n+OK\r\n+OK\r\n".to_owned(), Closing::AfterReply));
}

#[test]
fn what_waits_goes_when_replies_do_not_wait_any_more() {
    let (mut rig, writer) = strict();
    write(&mut rig, writer, &[b"SET", b"a", b"1"]);
    assert_eq!(sent(&mut rig, writer).0, "");
    let mut ready = Vec::new();
    rig.engine.take_ready(&mut ready);
    let client = rig.client;
    write(&mut rig, client, &[b"CONFIG", b"SET", b"appendfsync", b"everysec"]);
    rig.engine.end_iteration(&mut rig.process);
    ready.clear();
    rig.engine.take_ready(&mut ready);
    assert!(ready.contains(&writer));
    assert_eq!(sent(&mut rig, writer).0, "+OK\r\n");
}

/// The position of the file that must be durable before the reply to this command, sent by a new client, is
/// released.
fn needed(rig: &mut Rig, line: &str) -> u64 {
    let client = rig.connect();
    rig.run_as(client, line);
    rig.engine.output_position(client)
}

#[test]
fn a_reply_waits_for_the_last_write_of_what_was_read_and_of_nothing_else() {
    let (mut rig, writer) = strict();
    rig.run_as(writer, "SET a 1");
    let a = rig.engine.output_position(writer);
    assert_eq!(a, rig.engine.aof_position());
    rig.run_as(writer, "MSET b 1 c 1");
    let b = rig.engine.output_position(writer);
    assert!(b > a);
    for (line, wanted) in [
        ("GET untouched", 0),
        ("PING", 0),
        ("CONFIG GET save", 0),
        ("GET a", a),
        ("EXISTS untouched a", a),
        ("MGET a c", b),
        ("STRLEN b", b),
        ("SETNX a 2", a),
        ("DEL untouched", 0),
        ("DBSIZE", b),
        ("KEYS x*", b),
        ("SUBSCRIBE channel", b),
        ("DEBUG OBJECT untouched", b),
    ] {
        assert_eq!(needed(&mut rig, line), wanted, "{line}");
    }
}

#[test]
fn regress_a_sort_with_patterns_waits_for_keys_that_it_does_not_name() {
    let (mut rig, writer) = strict();
    rig.run_as(writer, "RPUSH list 1");
    let list = rig.engine.output_position(writer);
    rig.run_as(writer, "SET d_1 new");
    let newest = rig.engine.output_position(writer);
    assert!(newest > list);
    for (line, wanted) in [
        ("SORT list BY nosort GET d_*", newest),
        ("SORT list by w_*", newest),
        ("SORT_RO list BY nosort get h_*->f", newest),
        ("SORT_RO list", list),
        ("SORT list BY nosort", list),
        ("SORT list BY nosort GET #", list),
    ] {
        assert_eq!(needed(&mut rig, line), wanted, "{line}");
    }
    rig.run_as(writer, "SORT list BY w_* STORE stored");
    let stored = rig.engine.output_position(writer);
    assert_eq!((needed(&mut rig, "GET untouched"), needed(&mut rig, "LLEN stored")), (0, stored));
}

#[test]
fn deletions_renames_and_expiry_are_writes_of_their_keys() {
    let (mut rig, writer) = strict();
    rig.run_as(writer, "SET a 1");
    rig.run_as(writer, "DEL a");
    let deleted = rig.engine.output_position(writer);
    assert_eq!(needed(&mut rig, "GET a"), deleted);
    rig.run_as(writer, "SET b 1");
    rig.run_as(writer, "RENAME b c");
    let renamed = rig.engine.output_position(writer);
    assert_eq!(needed(&mut rig, "GET b"), renamed);
    assert_eq!(needed(&mut rig, "GET c"), renamed);
    rig.run_as(writer, "SET d 1 PX 10");
    rig.pass_ms(100);
    rig.cron();
    let expired = rig.engine.aof_position();
    assert!(expired > renamed);
    assert_eq!(needed(&mut rig, "EXISTS d"), expired);
    assert_eq!(needed(&mut rig, "GET c"), renamed);
}

#[test]
fn what_no_key_names_is_a_write_of_all_keys() {
    for line in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        let (mut rig, writer) = strict();
        rig.run_as(writer, "SET a 1");
        rig.run_as(writer, line);
        let all = rig.engine.output_position(writer);
        assert_eq!(needed(&mut rig, "GET untouched"), all, "{line}");
    }
}

#[test]
fn a_transaction_waits_for_the_newest_write() {
    let (mut rig, writer) = strict();
    rig.run_as(writer, "SET a 1");
    let newest = rig.engine.aof_position();
    let reader = rig.connect();
    for line in ["MULTI", "GET untouched", "EXEC"] {
        rig.run_as(reader, line);
    }
    assert_eq!(rig.engine.output_position(reader), newest);
}

#[test]
fn a_served_client_waits_for_its_own_unit_and_pushes_wait_for_the_newest() {
    let (mut rig, writer) = strict();
    let blocked = rig.connect();
    rig.run_as(blocked, "BLPOP list 0");
    assert_eq!(rig.engine.output_position(blocked), 0);
    let listener = rig.connect();
    rig.run_as(listener, "SUBSCRIBE channel");
    rig.run_as(writer, "RPUSH list x");
    let newest = rig.engine.aof_position();
    assert_eq!(rig.engine.output_position(blocked), newest);
    rig.run_as(writer, "PUBLISH channel m");
    assert_eq!(rig.engine.output_position(listener), newest);
    rig.run_as(listener, "UNSUBSCRIBE");
    assert_eq!(rig.engine.output_position(listener), newest, "it never falls");
    let replica = rig.replica();
    rig.run_as(writer, "RPUSH list x");
    assert_eq!(rig.engine.output_position(replica), rig.engine.aof_position());
    assert!(rig.engine.aof_position() > newest);
}

#[test]
fn always_can_be_set_and_left_at_run_time() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1");
    assert!(!rig.engine.is_aof_strict());
    rig.run("CONFIG SET appendfsync always");
    assert!(rig.engine.is_aof_strict());
    let newest = rig.engine.aof_position();
    assert_eq!(needed(&mut rig, "GET untouched"), newest, "what was written before may not be durable");
    rig.run("CONFIG SET appendfsync no");
    assert!(!rig.engine.is_aof_strict());
    rig.run("CONFIG SET appendfsync always");
    rig.engine.end_aof();
    assert!(!rig.engine.is_aof_strict());
}

/// An invalidation is sent after the write that it reports is durable, and after a reply that waits.
#[test]
fn an_invalidation_waits_until_the_write_is_durable() {
    for options in ["", "REDIRECT 4", "BCAST", "BCAST REDIRECT 4"] {
        let (mut rig, writer) = strict();
        let [client, target] = [rig.connect(), rig.connect()];
        for of in [client, target] {
            rig.run_as(of, "HELLO 3");
        }
        rig.run_as(client, &format!("CLIENT TRACKING ON {options}"));
        rig.run_as(client, "GET a");
        let told = if options.contains("REDIRECT") { target } else { client };
        write(&mut rig, writer, &[b"SET", b"a", b"1"]);
        rig.engine.end_iteration(&mut rig.process);
        assert_eq!(sent(&mut rig, told).0, "", "{options}");
        let position = rig.engine.aof_position();
        rig.engine.report_aof_durable(position, &mut rig.process);
        assert_eq!(sent(&mut rig, told).0, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", "{options}");
        // A client that got no invalidation does not wait for writes of other clients.
        write(&mut rig, writer, &[b"SET", b"q", b"1"]);
        write(&mut rig, told, &[b"PING"]);
        if !options.contains("BCAST") {
            assert_eq!(sent(&mut rig, told).0, "+PONG\r\n", "{options}");
        }
    }
}

#[test]
fn a_fault_refuses_writes_until_it_is_over() {
    let mut rig = with_aof(&[]);
    let reason = Some("No space left on device".to_owned());
    rig.engine.report_aof_fault(reason);
    let refused = "-MISCONF Errors writing to the AOF file: No space left on device";
    rig.check("SET a 1", refused);
    rig.check("PING", refused);
    rig.check("GET a", "nil");
    rig.check("MULTI", "+OK");
    rig.check("SET a 1", refused);
    rig.check("DISCARD", "+OK");
    rig.engine.report_aof_fault(None);
    rig.check("SET a 1", "+OK");
}

#[test]
fn a_rewrite_cuts_the_stream_where_it_cuts_the_data() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    rig.check("BGREWRITEAOF", "-ERR Background append only file rewriting already in progress");
    let (increment, before, end) = rig.process.aof_cuts.pop().unwrap();
    assert_eq!(increment, AofIncrement::Next);
    assert!(before.ends_with(b"SET\r\n$1\r\na\r\n$1\r\n1\r\n"));
    assert_eq!(end, before.len() as u64);
    rig.run("SET b 1");
    assert_eq!(rig.appended(), "SELECT 0 SET b 1", "another file begins");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    assert_eq!(rig.process.aof_ended, [true]);
    assert!(rig.run("INFO persistence").contains("aof_rewrite_in_progress:1"), "it is not in force yet");
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert!(rig.run("INFO persistence").contains("aof_rewrite_in_progress:0"));
}

#[test]
fn the_file_begins_with_a_rewrite_when_it_is_turned_on_and_ends_when_it_is_turned_off() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.check("CONFIG SET appendonly yes", "+OK");
    assert_eq!(rig.process.aof_cuts, [(AofIncrement::First, vec![], 0)]);
    rig.run("SET b 1");
    rig.check("CONFIG SET appendonly no", "+OK");
    let (last, end) = rig.process.aof_closed.pop().unwrap();
    assert!(last.ends_with(b"SET\r\n$1\r\nb\r\n$1\r\n1\r\n"));
    assert_eq!(end, last.len() as u64);
    assert!(!rig.engine.has_job(), "the rewrite is broken off");
    rig.run("SET c 1");
    assert_eq!(rig.appended(), "");
}

#[test]
fn a_rewrite_waits_for_a_save_and_for_the_end_of_a_transaction() {
    let mut rig = with_aof(&[]);
    rig.run("SET a 1");
    rig.run("BGSAVE");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting scheduled");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    assert!(rig.process.aof_cuts.is_empty());
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 1);
    slices(&mut rig);
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    rig.run("MULTI");
    rig.run("SET b 1");
    rig.run("BGREWRITEAOF");
    rig.run("SET c 1");
    assert_eq!(rig.run("EXEC"), "[+OK, +Background append only file rewriting scheduled, +OK]");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 2);
    let (increment, before, _) = rig.process.aof_cuts.pop().unwrap();
    assert_eq!(increment, AofIncrement::Next);
    let before = String::from_utf8_lossy(&before);
    assert!(before.ends_with("EXEC\r\n"), "the whole transaction is in the file before: {before}");
    slices(&mut rig);
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    let mut rig = Rig::new();
    rig.run("MULTI");
    rig.run("SET b 1");
    rig.run("CONFIG SET appendonly yes");
    rig.run("EXEC");
    assert!(rig.process.aof_cuts.is_empty());
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts, [(AofIncrement::First, vec![], 0)]);
    rig.run("SET c 1");
    assert_eq!(rig.appended(), "SELECT 0 SET c 1");
}

/// Completes the background save or rewrite under way.
fn slices(rig: &mut Rig) {
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
}

#[test]
fn rewrites_that_fail_leave_an_increment_each_and_after_three_of_them_growth_begins_none_for_a_minute() {
    let mut rig = with_aof(&[("auto-aof-rewrite-percentage", "1"), ("auto-aof-rewrite-min-size", "1kb")]);
    for number in 1..=3 {
        rig.run("SET a 1");
        rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
        slices(&mut rig);
        rig.engine.report_aof_rewrite(false, &mut rig.process);
        assert!(rig.run("INFO persistence").contains("aof_last_bgrewrite_status:err"));
        assert_eq!(rig.process.aof_cuts.len(), number);
    }
    assert!(rig.process.aof_cuts.iter().all(|(increment, ..)| *increment == AofIncrement::Next));
    let said =
        "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in 1 minutes";
    assert_eq!(rig.process.log.iter().filter(|(_, line)| line == said).count(), 1);
    rig.process.facts.aof = AofFacts { current_bytes: 5000, base_bytes: 1000, ..AofFacts::default() };
    rig.pass_ms(59_000);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 3, "growth rests");
    rig.pass_ms(2_000);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 4);
    slices(&mut rig);
    rig.engine.report_aof_rewrite(false, &mut rig.process);
    // After the fourth failure, rewrites because of growth pause for longer; BGREWRITEAOF need not wait.
    rig.pass_ms(61_000);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 4);
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    slices(&mut rig);
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert!(rig.run("INFO persistence").contains("aof_last_bgrewrite_status:ok"));
}

#[test]
fn a_file_that_is_turned_on_beside_a_save_begins_when_the_save_is_over() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.process.background_room.set(0);
    rig.check("BGSAVE", "+Background saving started");
    rig.check("CONFIG SET appendonly yes", "+OK");
    assert!(rig.run("INFO persistence").contains("aof_rewrite_scheduled:1"));
    rig.run("SET b 1");
    let client = rig.connect();
    rig.run_as(client, "SET b 2");
    assert_eq!(rig.run_as(client, "WAITAOF 1 0 0"), "", "it waits for the first base");
    assert!(rig.process.aof_cuts.is_empty());
    assert_eq!(rig.appended(), "");
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts, [(AofIncrement::First, vec![], 0)]);
    rig.run("SET c 1");
    assert_eq!(rig.appended(), "SELECT 0 SET c 1");
    slices(&mut rig);
    assert_eq!(rig.output(client), b"");
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert_eq!(rig.output(client), b"*2\r\n:1\r\n:0\r\n");
}

#[test]
fn a_file_that_is_turned_off_before_it_could_begin_does_not_begin() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.process.background_room.set(0);
    rig.check("BGSAVE", "+Background saving started");
    rig.check("CONFIG SET appendonly yes", "+OK");
    rig.check("CONFIG SET appendonly no", "+OK");
    assert!(rig.run("INFO persistence").contains("aof_rewrite_scheduled:0"));
    let said = "AOF was disabled but there is a scheduled AOF background, cancel it.";
    assert_eq!(rig.process.log.iter().filter(|(_, text)| text == said).count(), 1);
    // Only turning `appendonly` off cancels a scheduled rewrite: a CONFIG SET that changes nothing does not
    // cancel the one that BGREWRITEAOF has scheduled.
    rig.check("BGREWRITEAOF", "+Background append only file rewriting scheduled");
    rig.check("CONFIG SET appendonly no", "+OK");
    rig.check("CONFIG SET maxmemory 0", "+OK");
    assert!(rig.run("INFO persistence").contains("aof_rewrite_scheduled:1"));
    rig.run("CONFIG SET appendonly yes");
    rig.run("CONFIG SET appendonly no");
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    rig.pass_ms(200);
    rig.cron();
    assert!(rig.process.aof_cuts.is_empty());
}

#[test]
fn commands_that_write_wait_while_the_disk_is_behind_and_others_do_not() {
    let mut rig = with_aof(&[]);
    let other = rig.connect();
    rig.run("SET a 1");
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    assert_eq!(rig.run("SET a 2"), "", "it waits");
    for (line, reply) in [
        ("GET a", "\"1\""),
        ("PING", "+PONG"),
        ("PUBLISH channel message", ":0"),
        ("MULTI", "+OK"),
        ("INCR a", "+QUEUED"),
        ("GET a", "+QUEUED"),
    ] {
        assert_eq!(rig.run_as(other, line), reply, "{line}");
    }
    assert_eq!(rig.run_as(other, "EXEC"), "", "it waits");
    let reader = rig.connect();
    for (line, reply) in [("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "[\"1\"]")] {
        assert_eq!(rig.run_as(reader, line), reply, "{line}");
    }
    assert_eq!(rig.appended(), "SELECT 0 SET a 1");
    // A second report of a full backlog changes nothing.
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    assert_eq!(rig.appended(), "");
    rig.engine.report_aof_backlog(AofBacklog::Fine, &mut rig.process);
    assert_eq!(rig.appended(), "SET a 2 INCR a", "they ran by themselves, in order");
    assert_eq!(rig.output(other), b"*2\r\n:3\r\n$1\r\n3\r\n");
    let said = |part: &str| rig.process.log.iter().filter(|(_, line)| line.contains(part)).count();
    assert_eq!(said("The disk is too slow for the AOF file"), 1);
    assert_eq!(said("The disk has caught up with the AOF file"), 1);
}

#[test]
fn a_client_that_waits_for_the_disk_waits_for_the_end_of_a_pause_too() {
    let mut rig = with_aof(&[]);
    let writer = rig.connect();
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    assert_eq!(rig.run_as(writer, "SET a 1"), "");
    rig.check("CLIENT PAUSE 100000 WRITE", "+OK");
    rig.engine.report_aof_backlog(AofBacklog::Fine, &mut rig.process);
    assert_eq!(rig.output(writer), b"");
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    rig.check("CLIENT UNPAUSE", "+OK");
    assert_eq!(rig.output(writer), b"");
    rig.engine.report_aof_backlog(AofBacklog::Fine, &mut rig.process);
    assert_eq!(rig.output(writer), b"+OK\r\n");
}

#[test]
fn commands_that_write_wait_behind_a_cut_until_its_increment_is_there() {
    let mut rig = with_aof(&[]);
    let writer = rig.connect();
    rig.process.aof_backlog_at_cut = AofBacklog::Changing;
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    assert_eq!(rig.run_as(writer, "SET a 1"), "");
    rig.check("GET a", "nil");
    rig.engine.report_aof_backlog(AofBacklog::Fine, &mut rig.process);
    assert_eq!(rig.output(writer), b"+OK\r\n");
    assert!(!rig.process.log.iter().any(|(_, line)| line.contains("The disk")), "every rewrite begins so");
}

#[test]
fn the_end_of_the_file_ends_the_wait_for_its_disk() {
    let mut rig = with_aof(&[]);
    let writer = rig.connect();
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    assert_eq!(rig.run_as(writer, "SET a 1"), "");
    rig.check("CONFIG SET appendonly no", "+OK");
    assert_eq!(rig.output(writer), b"+OK\r\n");
    assert_eq!(rig.engine.aof_backlog(), AofBacklog::Fine);
}

#[test]
fn a_rewrite_is_under_way_until_its_base_is_in_force() {
    let mut rig = with_aof(&[("save", "1 1")]);
    rig.run("SET a 1");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    // The base is written, and the process has not put it in force yet.
    rig.check("BGREWRITEAOF", "-ERR Background append only file rewriting already in progress");
    assert!(
        rig.run("BGSAVE").starts_with("-ERR Another child process is active (AOF?): can't BGSAVE right now.")
    );
    rig.check("BGSAVE SCHEDULE", "+Background saving scheduled");
    for _ in 0..50 {
        rig.pass_ms(100);
        rig.cron();
    }
    assert!(!rig.engine.has_job(), "neither the scheduled save nor one at a save point begins");
    assert_eq!(rig.process.aof_cuts.len(), 1);
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    rig.pass_ms(100);
    rig.cron();
    assert!(rig.engine.has_job());
    assert!(rig.run("INFO persistence").contains("rdb_bgsave_in_progress:1"));
}

/// An append-only file that was turned on, and whose first base is not in force yet.
fn before_the_first_base() -> Rig {
    let mut rig = Rig::new();
    rig.process.aof_has_base = false;
    rig.check("CONFIG SET appendonly yes", "+OK");
    rig.check("SET a 1", "+OK");
    rig
}

#[test]
fn waitaof_counts_no_file_without_a_base() {
    let mut rig = before_the_first_base();
    let end = rig.engine.aof_position();
    rig.engine.report_aof_durable(end, &mut rig.process);
    rig.check("WAITAOF 0 0 0", "[:0, :0]");
    let waiter = rig.connect();
    assert_eq!(rig.run_as(waiter, "SET b 1"), "+OK");
    assert_eq!(rig.run_as(waiter, "WAITAOF 1 0 100"), "");
    let end = rig.engine.aof_position();
    rig.engine.report_aof_durable(end, &mut rig.process);
    assert_eq!(rig.output(waiter), b"");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.output(waiter), b"*2\r\n:0\r\n:0\r\n", "its time is over");
    assert_eq!(rig.run_as(waiter, "WAITAOF 1 0 0"), "");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    assert_eq!(rig.output(waiter), b"");
    rig.process.aof_has_base = true;
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert_eq!(rig.output(waiter), b"*2\r\n:1\r\n:0\r\n");
}

#[test]
fn waiters_for_the_file_end_with_it_and_waiters_for_replicas_do_not() {
    let mut rig = with_aof(&[]);
    let (local, replicas) = (rig.connect(), rig.connect());
    for client in [local, replicas] {
        assert_eq!(rig.run_as(client, "SET a 1"), "+OK");
    }
    assert_eq!(rig.run_as(local, "WAITAOF 1 0 0"), "");
    assert_eq!(rig.run_as(replicas, "WAITAOF 0 1 1000"), "");
    rig.check("CONFIG SET appendonly no", "+OK");
    let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
    assert_eq!(rig.output(local), refused.as_bytes());
    assert_eq!(rig.output(replicas), b"");
    rig.pass_ms(2000);
    rig.cron();
    assert_eq!(rig.output(replicas), b"*2\r\n:0\r\n:0\r\n");
}

#[test]
fn the_server_does_not_end_before_the_first_base_unless_it_is_told_to() {
    let refused = "-ERR Errors trying to SHUTDOWN. Check logs.";
    for (line, ends) in [
        ("SHUTDOWN", false),
        ("SHUTDOWN SAVE", false),
        ("SHUTDOWN NOSAVE", true),
        ("SHUTDOWN FORCE", true),
        ("SHUTDOWN NOW FORCE", true),
    ] {
        let mut rig = before_the_first_base();
        let reply = rig.run(line);
        let has_ended = rig.actions.iter().any(|action| matches!(action, Action::Shutdown));
        assert_eq!(has_ended, ends, "{line}: {reply}");
        assert_eq!(reply == refused, !ends, "{line}: {reply}");
        let said =
            if ends { "Writing initial AOF. Exit anyway." } else { "Writing initial AOF, can't exit." };
        assert!(rig.process.log.iter().any(|(_, text)| text == said), "{line}");
    }
    // A first base that could not be written does not keep the server from ending, either; the data are saved
    // if SAVE is given.
    for (line, saves) in [("SHUTDOWN", false), ("SHUTDOWN SAVE", true)] {
        let mut rig = before_the_first_base();
        rig.check("CONFIG SET save \"\"", "+OK");
        slices(&mut rig);
        rig.engine.report_aof_rewrite(false, &mut rig.process);
        assert_eq!(rig.run(line), "", "{line}");
        assert!(rig.actions.iter().any(|action| matches!(action, Action::Shutdown)), "{line}");
        assert_eq!(rig.process.log.iter().any(|(_, text)| text == "DB saved on disk"), saves, "{line}");
        let said = "The first base file of the AOF could not be written: ";
        assert!(rig.process.log.iter().any(|(_, text)| text.starts_with(said)), "{line}");
    }
    let mut rig = before_the_first_base();
    rig.process.aof_has_base = true;
    rig.run("SHUTDOWN");
    assert!(rig.actions.iter().any(|action| matches!(action, Action::Shutdown)));
}

#[test]
fn what_shows_a_library_waits_until_the_library_is_durable() {
    for reader in [&[&b"FCALL"[..], b"one", b"0"][..], &[b"FCALL_RO", b"one", b"0"], &[b"FUNCTION", b"LIST"]]
    {
        let (mut rig, writer) = strict();
        let other = rig.connect();
        let code = b"#!lua name=l\nredis.register_function{function_name='one',callback=function() return 1 end,flags={'no-writes'}}";
        write(&mut rig, writer, &[b"FUNCTION", b"LOAD", code]);
        write(&mut rig, other, reader);
        assert_eq!(sent(&mut rig, other).0, "", "{reader:?}");
        let last = rig.engine.aof_position();
        rig.engine.report_aof_durable(last, &mut rig.process);
        assert_ne!(sent(&mut rig, other).0, "");
        write(&mut rig, other, &[b"EVAL", b"return 1", b"0"]);
        assert_eq!(sent(&mut rig, other).0, ":1\r\n");
    }
}

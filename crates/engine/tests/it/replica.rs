//! Tests of the engine of a server that follows a primary: what the primary may do, what clients may not do,
//! and what is counted.

use sluice_base::SessionKey;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::saving::Ending;
use sluice_control::process::SnapshotFiles;
use sluice_control::replication::role::SyncSource;
use sluice_replication::HistoryPoint;
use sluice_replication::{Input, TransportOrder};
use sluice_testkit::{Rig, RigLink, request_of};

const REPLID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A replica whose link is up, at offset 100 of its primary's history, and the session of the link.
fn following(directives: &[(&str, &str)]) -> (Rig, SessionKey) {
    let mut rig = Rig::with(directives);
    assert_eq!(rig.run("REPLICAOF 10.0.0.1 6379"), "+OK");
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    let primary = RigLink::streaming(&mut rig);
    (rig, primary)
}

/// Executes commands of the primary. Returns the replies.
fn stream(rig: &mut Rig, primary: SessionKey, lines: &[&str]) -> String {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| request_of(line)).collect();
    String::from_utf8(rig.bytes(primary, &bytes)).unwrap()
}

fn offset(rig: &Rig) -> u64 {
    rig.engine.resume_point().unwrap().offset
}

#[test]
fn the_primary_s_commands_run_and_are_not_answered() {
    let (mut rig, primary) = following(&[]);
    let lines = ["SELECT 2", "SET a 1", "LPUSH a wrong", "NOSUCHCOMMAND x", "GET a"];
    assert_eq!(stream(&mut rig, primary, &lines), "");
    let sent: usize = lines.iter().map(|line| request_of(line).len()).sum();
    assert_eq!(offset(&rig), 100 + sent as u64);
    rig.check("SELECT 2", "+OK");
    rig.check("GET a", "\"1\"");
}

#[test]
fn the_primary_s_commands_are_no_load_of_the_replica_s_clients() {
    let (mut rig, primary) = following(&[("hotkeys-top-k", "4"), ("hotkeys-sampling-percentage", "100")]);
    let window = |rig: &mut Rig| {
        rig.pass_ms(1000);
        rig.run("HOTKEYS GET")
    };
    window(&mut rig);
    stream(&mut rig, primary, &["SET a 1", "SET a 2", "SET b 1"]);
    rig.check("GET b", "\"1\"");
    assert_eq!(window(&mut rig), r#"[["key", "b", "db", :0, "qps", :1]]"#);
    stream(&mut rig, primary, &["FLUSHALL"]);
    rig.check("HOTKEYS GET", "[]");
}

#[test]
fn the_log_names_each_command_of_the_primary_that_is_dropped_once() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["VADD vs a", "vadd vs b", "CLUSTER MEET x", "SET a 1", "XGROUP NOSUCH x"]);
    rig.check("GET a", "\"1\"");
    let told = |rig: &Rig, name: &str| {
        let part = format!("has sent '{name}'");
        rig.process.log.iter().filter(|(_, line)| line.contains(&part)).count()
    };
    assert_eq!(["vadd", "VADD", "CLUSTER", "XGROUP"].map(|name| told(&rig, name)), [0, 1, 1, 1]);
}

#[test]
fn clients_may_read_and_not_write() {
    let (mut rig, _) = following(&[]);
    rig.check("GET a", "nil");
    rig.check("SET a 1", "-READONLY You can't write against a read only replica.");
    rig.check("MULTI", "+OK");
    rig.check("SET a 1", "-READONLY You can't write against a read only replica.");
    rig.check("DISCARD", "+OK");
    rig.check("CONFIG SET replica-read-only no", "+OK");
    rig.check("SET a 1", "+OK");
    // A write of a client here is not part of the primary's history.
    assert_eq!(offset(&rig), 100);
}

#[test]
fn a_transaction_counts_when_it_ends() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["MULTI", "SET a 1"]);
    assert_eq!(offset(&rig), 100);
    rig.check("GET a", "nil");
    // Commands that this version lacks are dropped, and nothing else with them.
    stream(&mut rig, primary, &["NOSUCHCOMMAND", "SET b 2", "EXEC"]);
    let sent: usize = ["MULTI", "SET a 1", "NOSUCHCOMMAND", "SET b 2", "EXEC"]
        .map(|line| request_of(line).len())
        .iter()
        .sum();
    assert_eq!(offset(&rig), 100 + sent as u64);
    rig.check("MGET a b", "[\"1\", \"2\"]");
}

#[test]
fn what_is_cut_off_with_the_link_is_not_counted() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["SELECT 3", "SET a 1"]);
    let before = offset(&rig);
    stream(&mut rig, primary, &["MULTI", "SET a 2"]);
    rig.engine.client_lost(primary, &mut rig.process);
    rig.engine.disconnect(primary, &mut rig.process);
    RigLink::of(&rig).connection_lost(&mut rig);
    assert_eq!(offset(&rig), before);
    let primary = RigLink::streaming(&mut rig);
    // The database is the one that the stream has selected.
    stream(&mut rig, primary, &["SET b 2"]);
    rig.check("SELECT 3", "+OK");
    rig.check("MGET a b", "[\"1\", \"2\"]");
}

#[test]
fn neither_maxmemory_nor_a_fault_holds_the_primary() {
    let (mut rig, primary) = following(&[("maxmemory", "1")]);
    rig.engine.report_aof_fault(Some("No space left on device".to_owned()));
    stream(&mut rig, primary, &["SET a 1"]);
    rig.check("GET a", "\"1\"");
}

/// The limits are lower here than at the primary, which has accepted the commands. A command that failed here
/// would make the data differ.
#[test]
fn limits_lower_than_the_primary_s_lose_nothing_of_what_it_sends() {
    for (directive, value, line, question, answer) in crate::load_aof::LOWERED {
        // The limit does not apply to the stream.
        let (mut rig, primary) = following(&[(directive, value)]);
        assert_eq!(stream(&mut rig, primary, &["SELECT 0", line]), "");
        rig.check(question, answer);
        // The limit applies to a client's script.
        if directive == "script-memory-limit" {
            let answer = rig.run("EVAL return(#([[x]]):rep(2000000)) 0");
            assert!(answer.contains("not enough memory"), "{answer}");
        }
        // The limit does not apply to the snapshot.
        let (mut rig, primary) = following(&[]);
        stream(&mut rig, primary, &["SELECT 0", line]);
        rig.check("SAVE", "+OK");
        let (mut replica, _) = following(&[(directive, value)]);
        replica.process.snapshots = rig.process.snapshots.clone();
        let source = replica.process.snapshot_source(b"dump.rdb");
        replica
            .engine
            .begin_sync_load(SyncSource::Exchanged(source, REPLID.to_owned()), &mut replica.process);
        replica.end_iteration();
        replica.finish_loads();
        replica.check(question, answer);
    }
}

/// A script of the primary is executed to its end: a signal waits for it, and the log says what can be done.
#[test]
fn the_end_of_the_server_waits_for_a_script_of_the_primary() {
    let (mut rig, primary) = following(&[("busy-reply-threshold", "100")]);
    rig.process.us_each_look = 100;
    stream(&mut rig, primary, &["SELECT 0", "EVAL repeat(tostring)(1)until(false) 0"]);
    assert!(rig.engine.has_open_unit());
    rig.pass_ms(150);
    for _ in 0..3 {
        assert!(rig.engine.end_waits_for_cron(&mut rig.process));
        rig.engine.advance_unit(&mut rig.process);
    }
    assert!(rig.engine.has_open_unit());
    let said = |(_, line): &&(_, String)| {
        line.contains("waits for a script of the primary") && line.contains("SHUTDOWN NOSAVE FORCE NOW")
    };
    assert_eq!(rig.process.log.iter().filter(said).count(), 1, "{:?}", rig.process.log);
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "SHUTDOWN NOSAVE FORCE NOW"), "");
    let ends =
        |action: &sluice_control::action::Action| matches!(action, sluice_control::action::Action::Shutdown);
    assert!(rig.actions.iter().any(ends), "the client's word ends the server");
}

#[test]
fn the_length_of_an_argument_of_the_primary_has_no_limit_of_this_server() {
    let (rig, primary) = following(&[("proto-max-bulk-len", "1mb")]);
    assert_eq!(rig.engine.authentication(primary), sluice_resp::AuthState::Primary);
    let limits = rig.engine.limits();
    let admission = limits.admission(rig.engine.authentication(primary));
    let limits = sluice_resp::ParseLimits::new(admission, limits.proto_max_bulk_len as u64, 16);
    let bytes = request_of(&format!("SET a {}", "x".repeat(2 << 20)));
    let mut requests = sluice_resp::Requests::new();
    let progress = sluice_resp::Parser::new().parse(&bytes, &limits, &mut requests);
    assert_eq!((progress.consumed, progress.state), (bytes.len(), sluice_resp::State::Starved));
}

#[test]
fn a_pause_holds_the_primary_and_counts_what_was_read() {
    let (mut rig, primary) = following(&[]);
    rig.run("CLIENT PAUSE 100000 WRITE");
    stream(&mut rig, primary, &["SET a 1"]);
    rig.check("GET a", "nil");
    let read = 100 + request_of("SET a 1").len();
    let info = rig.run("INFO replication");
    assert!(
        info.contains("slave_repl_offset:100") && info.contains(&format!("slave_read_repl_offset:{read}")),
        "{info}"
    );
    rig.run("CLIENT UNPAUSE");
    rig.check("GET a", "\"1\"");
    assert_eq!(offset(&rig), read as u64);
}

#[test]
fn offsets_are_told_without_the_question() {
    let (mut rig, primary) = following(&[]);
    let told = stream(&mut rig, primary, &["SET a 1", "REPLCONF GETACK *"]);
    let set = request_of("SET a 1").len();
    assert_eq!(told.as_bytes(), request_of(&format!("REPLCONF ACK {}", 100 + set)));
    rig.engine.acknowledge();
    let all = set + request_of("REPLCONF GETACK *").len();
    assert_eq!(rig.output(primary), request_of(&format!("REPLCONF ACK {}", 100 + all)));
}

#[test]
fn the_link_is_a_client_of_its_own_kind() {
    let (mut rig, _) = following(&[]);
    let list = rig.run("CLIENT LIST TYPE master");
    assert!(list.contains("flags=M") && list.contains("user=(superuser)"), "{list}");
    rig.check("CLIENT KILL TYPE primary", ":1");
}

#[test]
fn stale_data_are_refused_where_that_is_wanted() {
    let (mut rig, _) = following(&[("replica-serve-stale-data", "no")]);
    rig.check("GET a", "nil");
    let mut link = RigLink::of(&rig);
    link.connection_lost(&mut rig);
    link.connect(&mut rig);
    let refusal = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    rig.check("GET a", refusal);
    rig.check("MULTI", "+OK");
    rig.check("INFO replication", "+QUEUED");
    assert!(rig.run("EXEC").starts_with('['));
    assert!(rig.run("INFO replication").contains("master_link_status:down"));
}

#[test]
fn keys_past_their_expiry_are_absent_to_clients_and_there_for_the_primary() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["SET a 1 PXAT 1"]);
    rig.check("GET a", "nil");
    rig.pass_ms(2000);
    rig.cron();
    rig.check("DBSIZE", ":1");
    stream(&mut rig, primary, &["APPEND a 2", "PERSIST a"]);
    rig.check("GET a", "\"12\"");
}

#[test]
fn a_promotion_begins_a_history_behind_the_old_one() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["SET a 1"]);
    let end = offset(&rig);
    assert!(rig.process.logs_as_replica);
    rig.check("REPLICAOF NO ONE", "+OK");
    assert!(rig.is_closing(primary) && rig.engine.primary().is_none() && !rig.process.logs_as_replica);
    rig.check("SET b 2", "+OK");
    let info = rig.run("INFO replication");
    assert!(info.contains("role:master") && info.contains(&format!("master_replid2:{REPLID}")), "{info}");
    assert!(info.contains(&format!("second_repl_offset:{}", end + 1)), "{info}");
    // Commands that the old primary still sends are not executed.
    stream(&mut rig, primary, &["SET late 1"]);
    rig.check("EXISTS late", ":0");
    rig.check("REPLICAOF NO ONE", "+OK");
}

#[test]
fn d3_a_role_that_comes_behind_the_commit_waits_for_the_load() {
    let (mut rig, _) = following(&[]);
    rig.check("SAVE", "+OK");
    RigLink::of(&rig).connection_lost(&mut rig);
    let mut link = RigLink::committed(&mut rig, 'f');
    rig.check("REPLICAOF NO ONE", "+OK");
    let info = rig.run("INFO replication");
    assert!(info.contains("role:slave"));
    // A program that looks for a replica to promote must not choose this one for data that it is
    // about to lose.
    assert!(info.contains("slave_repl_offset:1\\r"), "{info}");
    assert!(rig.engine.history_point().is_none());
    link.load(&mut rig);
    assert!(rig.run("INFO replication").contains("role:slave"));
    link.loaded(&mut rig);
    let info = rig.run("INFO replication");
    assert!(
        info.contains("role:master") && info.contains(&format!("master_replid2:{}", "f".repeat(40))),
        "{info}"
    );
}

#[test]
fn a_role_is_not_taken_up_while_the_primary_s_commands_run() {
    let (mut rig, primary) = following(&[]);
    let lines = ["SET a 1", "REPLICAOF NO ONE", "REPLCONF GETACK *", "SET b 2"];
    stream(&mut rig, primary, &lines);
    // All commands that the link's session executes count for the offset; the new role begins after them.
    let sent: usize = lines.map(|line| request_of(line).len()).iter().sum();
    assert_eq!(offset(&rig), 100 + sent as u64);
    assert!(rig.run("INFO replication").contains("role:slave"));
    assert_eq!(rig.engine.next_transport_order(&mut rig.process), Some(TransportOrder::Close));
    assert!(rig.run("INFO replication").contains("role:master"));
    rig.check("MGET a b", "[\"1\", \"2\"]");
}

#[test]
fn d3_a_role_may_be_asked_for_while_the_file_is_loaded() {
    let (mut rig, _) = following(&[]);
    rig.check("SAVE", "+OK");
    RigLink::of(&rig).connection_lost(&mut rig);
    let mut link = RigLink::committed(&mut rig, 'f');
    rig.holds_loads = true;
    link.load(&mut rig);
    assert!(rig.run("GET a").starts_with("-LOADING"));
    rig.check("REPLICAOF 10.0.0.2 6379", "+OK");
    assert!(rig.run("INFO replication").contains("master_host:10.0.0.1"));
    rig.finish_loads();
    link.loaded(&mut rig);
    assert!(rig.run("INFO replication").contains("master_host:10.0.0.2"));
}

#[test]
fn no_save_takes_the_place_of_a_snapshot_that_is_to_be_loaded() {
    let (mut rig, _) = following(&[]);
    rig.check("SAVE", "+OK");
    RigLink::of(&rig).connection_lost(&mut rig);
    let mut link = RigLink::committed(&mut rig, 'f');
    assert!(rig.run("SAVE").starts_with("-ERR"));
    rig.run("BGSAVE");
    rig.cron();
    assert!(rig.run("INFO persistence").contains("rdb_bgsave_in_progress:0"));
    link.load(&mut rig);
    link.loaded(&mut rig);
    rig.check("SAVE", "+OK");
}

#[test]
fn who_waits_is_told_and_ends() {
    let mut rig = Rig::new();
    let waiting = rig.connect();
    rig.run_as(waiting, "BLPOP nothing 0");
    rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
    let told = String::from_utf8(rig.output(waiting)).unwrap();
    assert!(told.starts_with("-UNBLOCKED force unblock from blocking operation"), "{told}");
    assert!(rig.is_closing(waiting));
    let stats = rig.run("INFO commandstats");
    let of_blpop = stats.split("cmdstat_blpop:").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(of_blpop.starts_with("calls=1,") && of_blpop.contains("rejected_calls=1"), "{of_blpop}");
}

const REDIRECTED: &str = "-REDIRECT 10.0.0.1:6379";

#[test]
fn a_client_that_can_be_redirected_is_sent_to_the_primary() {
    let (mut rig, primary) = following(&[]);
    rig.check("CLIENT CAPA redirect", "+OK");
    for line in ["GET a", "SET a 1", "DBSIZE", "FLUSHALL", "BLPOP a 0"] {
        rig.check(line, REDIRECTED);
    }
    rig.check("PING", "+PONG");
    rig.check("PUBLISH a b", ":0");
    rig.check("MULTI", "+OK");
    rig.check("GET a", REDIRECTED);
    rig.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    // A client that has sent READONLY reads here.
    rig.check("READONLY", "+OK");
    rig.check("GET a", "nil");
    rig.check("SET a 1", REDIRECTED);
    rig.check("READWRITE", "+OK");
    rig.check("GET a", REDIRECTED);
    // The primary's commands are not redirected.
    assert_eq!(stream(&mut rig, primary, &["SET a 1"]), "");
    rig.check("REPLICAOF NO ONE", "+OK");
    rig.check("GET a", "\"1\"");
}

#[test]
fn a_transaction_that_was_queued_before_the_role_is_redirected_as_a_whole() {
    let mut rig = Rig::new();
    let (reads, talks) = (rig.connect(), rig.connect());
    for client in [reads, talks] {
        rig.check_as(client, "CLIENT CAPA redirect", "+OK");
        rig.check_as(client, "MULTI", "+OK");
    }
    rig.check_as(reads, "GET a", "+QUEUED");
    rig.check_as(talks, "PING", "+QUEUED");
    rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
    rig.check_as(reads, "EXEC", REDIRECTED);
    rig.check_as(reads, "EXEC", "-ERR EXEC without MULTI");
    rig.check_as(talks, "EXEC", "[+PONG]");
}

/// Replies to clients that wait when the role changes, by the flags that they have set.
#[test]
fn who_waits_is_redirected_where_it_can_be_and_stays_where_a_replica_may_answer() {
    let mut rig = Rig::new();
    let unblocked =
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    let cases: &[(&[&str], &str, &str, bool)] = &[
        (&["CLIENT CAPA redirect"], "BLPOP x 0", REDIRECTED, false),
        (&["CLIENT CAPA redirect"], "XREAD BLOCK 0 STREAMS s 0", REDIRECTED, false),
        (&["CLIENT CAPA redirect"], "WAIT 1 0", unblocked, true),
        (&["CLIENT CAPA redirect", "READONLY"], "BLPOP x 0", REDIRECTED, false),
        (&["CLIENT CAPA redirect", "READONLY"], "XREAD BLOCK 0 STREAMS s 0", "", false),
        (&["READONLY"], "XREAD BLOCK 0 STREAMS s 0", "", false),
        (&[], "XREAD BLOCK 0 STREAMS s 0", unblocked, true),
    ];
    let mut clients = Vec::new();
    for (said, waits, _, _) in cases {
        let client = rig.connect();
        for line in *said {
            rig.check_as(client, line, "+OK");
        }
        assert_eq!(rig.run_as(client, waits), "");
        clients.push(client);
    }
    rig.check("REPLICAOF 10.0.0.1 6379", "+OK");
    for (client, (said, waits, told, closes)) in clients.into_iter().zip(cases) {
        let output = String::from_utf8(rig.output(client)).unwrap();
        assert_eq!(output.trim_end(), *told, "{said:?} {waits}");
        assert_eq!(rig.is_closing(client), *closes, "{said:?} {waits}");
    }
}

#[test]
fn what_clients_of_a_writable_replica_give_an_expiry_is_deleted_there() {
    let (mut rig, primary) = following(&[("replica-read-only", "no")]);
    let tracked = |rig: &mut Rig| {
        let info = rig.run("INFO stats");
        info.split("slave_expires_tracked_keys:").nth(1).unwrap().split('\\').next().unwrap().to_owned()
    };
    stream(&mut rig, primary, &["SELECT 0", "SET theirs 1 PX 5"]);
    rig.check("SET own 1 PX 5", "+OK");
    rig.check("SET kept 1 PX 5", "+OK");
    rig.check("PERSIST kept", ":1");
    rig.check("SET moved 1 PX 5", "+OK");
    rig.check("MOVE moved 3", ":1");
    rig.check("SET plain 1", "+OK");
    // The name `moved` is tracked in two databases.
    assert_eq!(tracked(&mut rig), "4");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(tracked(&mut rig), "0");
    rig.check("DBSIZE", ":3");
    rig.check("SELECT 3", "+OK");
    rig.check("DBSIZE", ":0");
    // Keys that the primary has written expire by its deletions only.
    rig.check("SELECT 0", "+OK");
    rig.check("GET theirs", "nil");
    rig.check("KEYS *", "[\"kept\", \"plain\"]");
    // All keys are forgotten when the data is emptied, and at the end of the role.
    rig.check("SET own 1 EX 100", "+OK");
    rig.check("FLUSHALL", "+OK");
    assert_eq!(tracked(&mut rig), "0");
    rig.check("SET own 1 EX 100", "+OK");
    assert_eq!(tracked(&mut rig), "1");
    rig.check("REPLICAOF NO ONE", "+OK");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(tracked(&mut rig), "0");
}

#[test]
fn what_a_rewrite_makes_durable_is_told_to_the_primary_though_nothing_is_synced_behind_it() {
    let (mut rig, primary) = following(&[("appendonly", "yes"), ("appendfsync", "no")]);
    rig.pass_ms(200);
    rig.cron();
    let (_, _, cut) = *rig.process.aof_cuts.last().unwrap();
    rig.engine.report_aof_durable(cut, &mut rig.process);
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    let acked = |rig: &mut Rig, primary| {
        rig.engine.acknowledge();
        String::from_utf8(rig.output(primary)).unwrap()
    };
    let told = |ack: u64, fack: u64| {
        String::from_utf8(request_of(&format!("REPLCONF ACK {ack} FACK {fack}"))).unwrap()
    };
    assert_eq!(acked(&mut rig, primary), told(100, 0), "the increment has no base yet");
    // A note of the offset is appended, and counts as soon as the kernel has it.
    stream(&mut rig, primary, &["SET a 1"]);
    let end = 100 + request_of("SET a 1").len() as u64;
    assert_eq!(acked(&mut rig, primary), told(end, 0));
    rig.engine.report_aof_rewrite(true, &mut rig.process);
    assert_eq!(acked(&mut rig, primary), told(end, 100), "the data of the cut");
    rig.engine.report_aof_durable(rig.engine.aof_position(), &mut rig.process);
    assert_eq!(acked(&mut rig, primary), told(end, end));
}

/// The received RDB file becomes the base of the append-only file; data loaded from no file are rewritten.
#[test]
fn the_snapshot_of_the_primary_becomes_the_base_of_the_append_only_file() {
    for preamble in ["yes", "no"] {
        let mut rig = with_received_file(preamble);
        rig.check("EXISTS theirs", ":1");
        let is_reused = preamble == "yes";
        assert_eq!(rig.process.aof_snapshot_bases.len(), usize::from(is_reused), "{preamble}");
        let info = rig.run("INFO persistence");
        assert!(info.contains(&format!("aof_rewrite_in_progress:{}", u8::from(is_reused))), "{info}");
        assert!(info.contains(&format!("aof_rewrite_scheduled:{}", u8::from(!is_reused))), "{info}");
        // The file of a SAVE would be linked in place of the received one, so SAVE is refused until the base
        // is in force.
        rig.check("SAVE", if is_reused { "-ERR" } else { "+OK" });
        assert_eq!(rig.engine.is_snapshot_wanted(&mut rig.process), is_reused);
        rig.engine.report_aof_rewrite(true, &mut rig.process);
        assert!(rig.run("INFO persistence").contains("aof_rewrite_in_progress:0"));
        assert!(!rig.engine.is_snapshot_wanted(&mut rig.process));
        rig.check("SAVE", "+OK");
    }
}

/// The link may give up the synchronisation while the load ends. The data are then exchanged, but have no
/// offset in the former data's history.
#[test]
fn data_that_were_exchanged_stand_nowhere_before_their_history_is_named() {
    let mut primary = Rig::new();
    primary.run("SET theirs 1");
    primary.check("SAVE", "+OK");
    let (mut rig, _) = following(&[("repl-diskless-load", "swapdb"), ("rdbcompression", "no")]);
    rig.process.snapshots = primary.process.snapshots.clone();
    let source = rig.process.snapshot_source(b"dump.rdb");
    rig.engine.begin_sync_load(SyncSource::Exchanged(source, REPLID.to_owned()), &mut rig.process);
    assert_eq!(offset(&rig), 100, "the data of before are served, and can be brought up to date");
    rig.end_iteration();
    rig.finish_loads();
    rig.check("EXISTS theirs", ":1");
    assert_eq!(rig.engine.resume_point(), None);
    // A file that is written now must not say that the data belong to the history of the former data,
    // because a start would believe that.
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    let file = rig.process.snapshots.borrow()[&b""[..]].clone();
    assert!(file.windows(6).any(|bytes| bytes == b"theirs"));
    assert!(!file.windows(REPLID.len()).any(|bytes| bytes == REPLID.as_bytes()));
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 700 };
    rig.engine.adopt_history(point, &mut rig.process);
    assert_eq!(offset(&rig), 700);
}

/// A start reads the increment of a newly enabled append-only file only once the file's base is in force.
#[test]
fn what_lies_beside_a_base_that_is_not_in_force_is_not_said_to_be_on_disk() {
    let (mut rig, primary) = following(&[("appendonly", "yes")]);
    rig.process.aof_has_base = false;
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 1, "the first base is written");
    stream(&mut rig, primary, &["SET a 1"]);
    let offset = offset(&rig);
    let mut acknowledged = || {
        let position = rig.engine.aof_position();
        rig.engine.report_aof_durable(position, &mut rig.process);
        rig.engine.acknowledge();
        let said = String::from_utf8(rig.output(primary)).unwrap();
        while rig.engine.has_job() {
            rig.engine.save_slice(1_000_000, &mut rig.process);
        }
        rig.engine.report_aof_rewrite(true, &mut rig.process);
        said
    };
    for durable in [0, offset] {
        let said = acknowledged();
        let wanted = request_of(&format!("REPLCONF ACK {offset} FACK {durable}"));
        assert_eq!(said.as_bytes(), wanted, "{said}");
    }
}

/// The append-only file was turned off while its thread may still link the RDB file as its base.
#[test]
fn no_other_file_takes_the_name_of_a_snapshot_that_a_broken_off_rewrite_may_link() {
    let mut rig = with_received_file("yes");
    assert!(rig.engine.is_snapshot_wanted(&mut rig.process));
    rig.process.aof_closes = true;
    rig.check("CONFIG SET appendonly no save \"1 1\"", "+OK");
    assert!(rig.engine.is_snapshot_wanted(&mut rig.process));
    rig.check("REPLICAOF NO ONE", "+OK");
    rig.run("SET a 1");
    rig.check("SAVE", "-ERR");
    let answer = rig.run("BGSAVE");
    assert!(answer.starts_with("-ERR Another child process is active"), "{answer}");
    rig.pass_ms(5_000);
    rig.cron();
    assert!(!rig.engine.has_job(), "a save point waits");
    rig.check("BGSAVE SCHEDULE", "+Background saving scheduled");
    rig.cron();
    assert!(!rig.engine.has_job(), "what is scheduled waits");
    assert!(!rig.engine.prepare_end(&EndOrder::new(Ending::Save, false), &mut rig.process));
    rig.process.aof_closes = false;
    rig.pass_ms(200);
    rig.cron();
    assert!(rig.engine.has_job());
}

/// The thread of the former append-only file may end a moment after a snapshot as small as this one is
/// loaded.
#[test]
fn a_received_file_becomes_the_base_when_the_file_before_has_ended() {
    for is_written in [false, true] {
        let mut rig = received_file("yes", |rig| rig.process.aof_closes = true);
        assert!(!rig.engine.is_snapshot_wanted(&mut rig.process));
        if is_written {
            let primary = RigLink::streaming(&mut rig);
            stream(&mut rig, primary, &["SET a 1"]);
        }
        rig.process.aof_closes = false;
        rig.pass_ms(200);
        rig.cron();
        assert_eq!(rig.engine.is_snapshot_wanted(&mut rig.process), !is_written);
        assert_eq!(rig.engine.has_job(), is_written, "the file has not what was written since");
    }
}

/// A replica with an append-only file that has loaded the RDB file of its primary. With
/// `aof-use-rdb-preamble yes` that file is about to be the base of the append-only file.
fn with_received_file(preamble: &str) -> Rig {
    received_file(preamble, |_| {})
}

/// As `with_received_file`; `before_adopting` runs before the link names the history.
fn received_file(preamble: &str, before_adopting: impl FnOnce(&mut Rig)) -> Rig {
    let mut primary = Rig::new();
    primary.run("SET theirs 1");
    primary.check("SAVE", "+OK");
    let mut rig = Rig::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)]);
    rig.process.snapshots = primary.process.snapshots.clone();
    assert_eq!(rig.run("REPLICAOF 10.0.0.1 6379"), "+OK");
    rig.engine.begin_sync_load(SyncSource::File, &mut rig.process);
    rig.end_iteration();
    rig.finish_loads();
    before_adopting(&mut rig);
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    rig
}

/// A replica of the former primary continues with the promoted server.
#[test]
fn a_server_that_is_promoted_behind_a_load_has_the_history_of_what_was_loaded() {
    let (mut rig, _) = following(&[]);
    rig.check("SAVE", "+OK");
    RigLink::of(&rig).connection_lost(&mut rig);
    let mut link = RigLink::asking(&mut rig);
    let replid = "f".repeat(40);
    let answer = format!("+FULLRESYNC {replid} 700\r\n$EOF:{replid}\r\n");
    let outputs = link.receive(&mut rig, answer.as_bytes());
    assert!(outputs.iter().any(|output| matches!(output, TransportOrder::Receive(_))), "{outputs:?}");
    rig.holds_loads = true;
    let source = rig.process.snapshot_source(b"dump.rdb");
    rig.engine.begin_sync_load(SyncSource::Stream(source), &mut rig.process);
    rig.end_iteration();
    assert!(rig.run("REPLICAOF NO ONE").starts_with("-LOADING"));
    rig.finish_loads();
    link.step(&mut rig, Input::Accepted(link.attempt));
    link.loaded(&mut rig);
    let info = rig.run("INFO replication");
    assert!(info.contains("role:slave") && info.contains(&format!("master_replid:{replid}")), "{info}");
    rig.check("REPLICAOF NO ONE", "+OK");
    let info = rig.run("INFO replication");
    assert!(info.contains("role:master") && info.contains(&format!("master_replid2:{replid}")), "{info}");
}

#[test]
fn a_command_of_the_primary_that_fails_is_told_to_the_operator() {
    let (mut rig, primary) = following(&[]);
    stream(&mut rig, primary, &["SELECT 0", "SET n text", "INCRBY n 1", "fake-command 1"]);
    let said = |part: &str| rig.process.log.iter().filter(|(_, text)| text.contains(part)).count();
    assert_eq!(said("== CRITICAL =="), 2);
    assert_eq!(said("not an integer or out of range' after processing the command 'incrby'"), 1);
    assert_eq!(said("has sent 'fake-command'"), 1);
    assert!(rig.run("INFO stats").contains("unexpected_error_replies:2"));
}

#[test]
fn debug_replicate_tells_replicas_alone() {
    let (mut rig, _) = following(&[]);
    rig.check(
        "DEBUG REPLICATE",
        "-ERR unknown subcommand or wrong number of arguments for 'REPLICATE'. Try DEBUG HELP.",
    );
    rig.check("DEBUG REPLICATE SET a 1", "+OK");
    rig.check("GET a", "nil");
}

fn cuts(rig: &Rig) -> usize {
    rig.process.log.iter().filter(|(_, line)| line.contains("set databases to the primary's")).count()
}

/// After a command that has failed here, and that decides where later commands go, no later
/// command is executed.
#[test]
fn a_primary_with_more_databases_is_cut_off_ahead_of_what_would_go_elsewhere() {
    for lines in [
        &["SELECT 4", "SET lost 1"][..],
        &["SELECT x", "SET lost 1"],
        &["SELECT", "SET lost 1"],
        &["MULTI", "SET lost 1", "SELECT 4", "SET lost 2", "EXEC"],
        &["MULTI", "SELECT 99999999999", "SET lost 2", "EXEC"],
        &["SWAPDB 0 4", "SET lost 1"],
        &["EXEC", "SET lost 1"],
        &["DISCARD", "SET lost 1"],
    ] {
        let (mut rig, primary) = following(&[("databases", "4")]);
        stream(&mut rig, primary, &["SELECT 3", "SET a 1"]);
        let before = offset(&rig);
        stream(&mut rig, primary, lines);
        assert!(rig.is_closing(primary), "{lines:?}");
        assert_eq!(cuts(&rig), 1, "{lines:?}");
        // The next attempt resumes before the command, in the database that was selected.
        assert_eq!(offset(&rig), before, "{lines:?}");
        rig.engine.disconnect(primary, &mut rig.process);
        RigLink::of(&rig).connection_lost(&mut rig);
        assert!(rig.run("INFO replication").contains("master_link_status:down"));
        let primary = RigLink::streaming(&mut rig);
        assert!(!rig.is_closing(primary));
        stream(&mut rig, primary, &["SET b 2"]);
        for (db, found) in [(0, "[nil, nil, nil]"), (3, "[\"1\", \"2\", nil]")] {
            rig.run(&format!("SELECT {db}"));
            assert_eq!(rig.run("MGET a b lost"), found, "{lines:?}");
        }
    }
}

#[test]
fn half_of_a_transaction_that_a_cut_has_left_is_no_point_to_go_on_from() {
    for failing in ["MOVE a 4", "COPY a b DB 4", "SWAPDB 1 4"] {
        let (mut rig, primary) = following(&[("databases", "4")]);
        stream(&mut rig, primary, &["MULTI", "SET a 1", failing, "SET lost 2", "EXEC"]);
        assert!(rig.is_closing(primary) && cuts(&rig) == 1, "{failing}");
        assert!(rig.engine.resume_point().is_none(), "{failing}");
        rig.check("MGET a lost", "[\"1\", nil]");
    }
    // A SELECT alone has changed nothing.
    let (mut rig, primary) = following(&[("databases", "4")]);
    stream(&mut rig, primary, &["SET a 1", "MOVE a 4", "SET lost 2"]);
    assert!(rig.is_closing(primary) && rig.engine.resume_point().is_some());
    rig.check("MGET a lost", "[\"1\", nil]");
}

/// Attempts follow each other at the pace of a refused link, and ask for no snapshot.
#[test]
fn a_link_that_is_cut_again_and_again_waits_between_its_attempts() {
    let (mut rig, mut primary) = following(&[("databases", "4")]);
    let (began, attempts) = (rig.process.now.mono_ns, 20);
    for _ in 0..attempts {
        stream(&mut rig, primary, &["SELECT 4"]);
        assert!(rig.is_closing(primary));
        rig.engine.disconnect(primary, &mut rig.process);
        RigLink::of(&rig).connection_lost(&mut rig);
        primary = RigLink::streaming(&mut rig);
    }
    let passed_s = (rig.process.now.mono_ns - began) / 1_000_000_000;
    assert!(passed_s >= attempts / 4, "{attempts} attempts in {passed_s} s");
    assert_eq!(rig.engine.link_counts().snapshots, 0);
}

/// The stream after a snapshot may continue in a database without naming it.
#[test]
fn a_snapshot_whose_stream_is_in_a_database_that_is_not_here_is_followed_by_nothing() {
    for (databases, is_cut) in [("16", false), ("4", true)] {
        let mut primary = Rig::new();
        primary.replica();
        primary.run("SELECT 9");
        primary.run("SET gone 1");
        primary.run("DEL gone");
        primary.check("SAVE", "+OK");
        let mut rig = Rig::with(&[("databases", databases)]);
        rig.process.snapshots = primary.process.snapshots.clone();
        assert_eq!(rig.run("REPLICAOF 10.0.0.1 6379"), "+OK");
        rig.engine.begin_sync_load(SyncSource::File, &mut rig.process);
        rig.end_iteration();
        rig.finish_loads();
        let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
        rig.engine.adopt_history(point, &mut rig.process);
        let session = RigLink::streaming(&mut rig);
        assert_eq!((rig.is_closing(session), cuts(&rig)), (is_cut, usize::from(is_cut)));
        stream(&mut rig, session, &["SET a 1"]);
        rig.check("GET a", "nil");
        rig.check("DBSIZE", ":0");
        if !is_cut {
            rig.run("SELECT 9");
            rig.check("GET a", "\"1\"");
        }
    }
}

/// E-41: the data continue from the former primary, whose last contact counts until the next primary
/// has sent something.
#[test]
fn the_time_without_a_link_goes_on_when_another_primary_is_followed() {
    let down_s = |rig: &mut Rig| {
        let text = rig.run("INFO replication");
        let value = text.split("master_link_down_since_seconds:").nth(1).expect("the field");
        value.split("\\r\\n").next().expect("a value").to_owned()
    };
    let mut rig = Rig::new();
    assert_eq!(rig.run("REPLICAOF 10.0.0.1 6379"), "+OK");
    assert_eq!(down_s(&mut rig), "-1");
    let (mut rig, _) = following(&[]);
    assert_eq!(rig.run("REPLICAOF 10.0.0.2 6379"), "+OK");
    rig.pass_ms(7_000);
    assert_eq!(down_s(&mut rig), "7");
    assert_eq!(rig.run("REPLICAOF 10.0.0.3 6379"), "+OK");
    rig.pass_ms(2_000);
    assert_eq!(down_s(&mut rig), "9");
}

//! FAILOVER and PSYNC FAILOVER: the conditions of a failover, the requests that wait for it, and the replies.

use sluice_base::SessionKey;
use sluice_replication::HistoryPoint;
use sluice_testkit::{Rig, RigLink};

/// A primary with a replica at 10.0.0.2:7000.
fn with_replica() -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let replica = add_replica(&mut rig, 7000);
    (rig, replica)
}

fn add_replica(rig: &mut Rig, port: u16) -> SessionKey {
    let replica = rig.connect();
    let line = format!("REPLCONF listening-port {port} ip-address 10.0.0.2 capa psync2");
    assert_eq!(rig.run_as(replica, &line), "+OK");
    rig.engine.feed(replica);
    replica
}

fn field(rig: &mut Rig, name: &str) -> String {
    let text = rig.run("INFO");
    let value = text.split(&format!("{name}:")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    value.split("\\r\\n").next().unwrap().to_owned()
}

fn state(rig: &mut Rig) -> String {
    field(rig, "master_failover_state")
}

/// Makes the replica acknowledge everything that it was sent.
fn acknowledge(rig: &mut Rig, replica: SessionKey) {
    let offset = field(rig, "master_repl_offset");
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
    rig.end_iteration();
}

fn log(rig: &Rig) -> String {
    rig.process.log.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_log_says_at_the_beginning_that_writes_wait() {
    let (mut rig, _) = with_replica();
    rig.check("FAILOVER TO 10.0.0.2 7001", "-ERR FAILOVER target HOST and PORT is not a replica.");
    assert!(!log(&rig).contains("wait"), "{}", log(&rig));
    rig.check("FAILOVER", "+OK");
    assert!(
        log(&rig).ends_with(
            "FAILOVER requested to any replica.\n\
             Writes wait until the failover has ended; FAILOVER ABORT ends it."
        ),
        "{}",
        log(&rig)
    );
}

#[test]
fn errors_are_the_reference_s() {
    let mut rig = Rig::new();
    let syntax = "-ERR syntax error";
    for (line, error) in [
        ("FAILOVER a", syntax),
        ("FAILOVER ABORT", "-ERR No failover in progress."),
        ("FAILOVER ABORT TIMEOUT 10", syntax),
        ("FAILOVER TIMEOUT 10 ABORT", syntax),
        ("FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TIMEOUT -1", "-ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TIMEOUT x", "-ERR value is not an integer or out of range"),
        ("FAILOVER TIMEOUT 10 TIMEOUT 10", syntax),
        ("FAILOVER TO a", syntax),
        ("FAILOVER TO a x", "-ERR value is not an integer or out of range"),
        ("FAILOVER TO a 1", "-ERR FAILOVER requires connected replicas."),
        ("FAILOVER FORCE", "-ERR FAILOVER requires connected replicas."),
        ("FAILOVER", "-ERR FAILOVER requires connected replicas."),
    ] {
        rig.check(line, error);
    }
    add_replica(&mut rig, 7000);
    let force = "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
    let no_replica = "-ERR FAILOVER target HOST and PORT is not a replica.";
    for (line, error) in [
        ("FAILOVER TO 10.0.0.2 7001", no_replica),
        ("FAILOVER TO 10.0.0.2 -5", no_replica),
        ("FAILOVER TO 10.0.0.3 7000", no_replica),
        ("FAILOVER FORCE", force),
        ("FAILOVER TO 10.0.0.2 7000 FORCE", force),
        ("FAILOVER FORCE TIMEOUT 5", force),
        ("FAILOVER FORCE FORCE", syntax),
    ] {
        rig.check(line, error);
    }
    rig.check("FAILOVER TO 10.0.0.2 7000", "+OK");
    for line in ["FAILOVER", "FAILOVER FORCE"] {
        rig.check(line, "-ERR FAILOVER already in progress.");
    }
    for line in ["REPLICAOF NO ONE", "REPLICAOF 10.0.0.9 1", "SLAVEOF NO ONE"] {
        rig.check(line, "-ERR REPLICAOF not allowed while failing over.");
    }
    rig.check("FAILOVER ABORT", "+OK");
    rig.check("FAILOVER TO 10.0.0.2 7000 FORCE TIMEOUT 100", "+OK");
    rig.pass_ms(200);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "failover-in-progress");
    let other = rig.connect();
    rig.check_as(other, "PSYNC ? -1", "-NOMASTERLINK Can't SYNC while failing over");
    rig.check_as(other, "SYNC", "-NOMASTERLINK Can't SYNC while failing over");
    let mut replica = Rig::new();
    replica.run("REPLICAOF 10.0.0.1 6379");
    replica.check("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.");
}

#[test]
fn writes_wait_and_reads_do_not_until_it_is_given_up() {
    let (mut rig, replica) = with_replica();
    rig.check("SET a 1", "+OK");
    rig.check("FAILOVER", "+OK");
    assert_eq!(state(&mut rig), "waiting-for-sync");
    assert_eq!(
        (field(&mut rig, "paused_reason"), field(&mut rig, "paused_actions")),
        ("failover_in_progress".to_owned(), "write".to_owned())
    );
    rig.check("GET a", "\"1\"");
    let writer = rig.connect();
    rig.check_as(writer, "SET a 2", "");
    // Neither CLIENT UNPAUSE nor the time that passes ends the pause.
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.pass_ms(10_000);
    rig.cron();
    rig.end_iteration();
    rig.check("GET a", "\"1\"");
    assert!(!rig.fed(replica).contains("ping"));
    rig.check("FAILOVER ABORT", "+OK");
    assert_eq!(state(&mut rig), "no-failover");
    assert_eq!(field(&mut rig, "paused_reason"), "none");
    assert_eq!(rig.output(writer), b"+OK\r\n");
    rig.check("GET a", "\"2\"");
    assert!(log(&rig).contains("FAILOVER aborted: Failover manually aborted"), "{}", log(&rig));
}

/// A write that waits is not refused when something else that it waited for ends. The simulation found
/// it at the end of an open unit (seed 24342).
#[test]
fn a_write_that_waits_is_not_refused_while_the_target_is_asked() {
    let (mut rig, _) = with_replica();
    rig.run("SET a 1");
    rig.check("FAILOVER TO 10.0.0.2 7000 FORCE TIMEOUT 100", "+OK");
    let writer = rig.connect();
    rig.check_as(writer, "SET a 2", "");
    rig.pass_ms(200);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "failover-in-progress");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.end_iteration();
    assert_eq!(rig.output(writer), b"");
    // A request that arrives now gets its error at once.
    rig.check("SET a 3", "-READONLY You can't write against a read only replica.");
    rig.check("FAILOVER ABORT", "+OK");
    assert_eq!(rig.output(writer), b"+OK\r\n");
    rig.check("GET a", "\"2\"");
}

/// In the coordinated failover of a Sentinel, CLIENT PAUSE outlasts the failover, until the Sentinel closes
/// the clients, which must get no error.
#[test]
fn regress_a_write_that_waits_waits_on_where_a_pause_outlasts_the_failover() {
    let (mut rig, behind) = with_replica();
    rig.run("SET a 1");
    rig.end_iteration();
    rig.check("CLIENT PAUSE 10000 WRITE", "+OK");
    rig.check("FAILOVER", "+OK");
    let writer = rig.connect();
    rig.check_as(writer, "SET a 2", "");
    acknowledge(&mut rig, behind);
    rig.engine.end_failover(&mut rig.process);
    rig.end_iteration();
    assert_eq!((state(&mut rig).as_str(), rig.output(writer)), ("no-failover", Vec::new()));
    rig.check("SET a 3", "-READONLY You can't write against a read only replica.");
    rig.check("CLIENT UNPAUSE", "+OK");
    assert!(rig.output(writer).starts_with(b"-READONLY "));
}

#[test]
fn a_replica_that_never_catches_up_ends_it() {
    let (mut rig, _) = with_replica();
    rig.run("SET a 1");
    rig.check("FAILOVER TO 10.0.0.2 7000 TIMEOUT 500", "+OK");
    rig.pass_ms(400);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "waiting-for-sync");
    rig.pass_ms(200);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "no-failover");
    rig.check("SET a 2", "+OK");
    let line = "FAILOVER to 10.0.0.2:7000 aborted: Replica never caught up before timeout";
    assert!(log(&rig).contains(line), "{}", log(&rig));
}

#[test]
fn the_replica_that_has_everything_takes_over() {
    let (mut rig, behind) = with_replica();
    let other = add_replica(&mut rig, 7001);
    rig.run("SET a 1");
    rig.end_iteration();
    let waiting = rig.connect();
    rig.run_as(waiting, "BLPOP nothing 0");
    rig.check("FAILOVER", "+OK");
    // The primary sends no REPLCONF GETACK, because it would be part of the stream, and a replica that has
    // acknowledged everything before would lack it.
    rig.end_iteration();
    assert!(!rig.fed(other).contains("GETACK"));
    acknowledge(&mut rig, other);
    assert!(rig.engine.is_failing_over());
    let primary = rig.engine.primary().unwrap();
    assert_eq!((primary.host.as_str(), primary.port), ("10.0.0.2", 7001));
    assert_eq!(state(&mut rig), "failover-in-progress");
    assert_eq!(field(&mut rig, "role"), "slave");
    assert!(rig.is_closing(behind) && rig.is_closing(other));
    assert_eq!(rig.output(waiting), b"");
    rig.engine.end_failover(&mut rig.process);
    assert_eq!(state(&mut rig), "no-failover");
    assert!(rig.output(waiting).starts_with(b"-UNBLOCKED force unblock from blocking operation"));
    rig.check("SET a 2", "-READONLY You can't write against a read only replica.");
    assert!(log(&rig).contains("Failover target 10.0.0.2:7001 is synced, failing over."), "{}", log(&rig));
}

/// A target that has lost its data has acknowledged everything on an earlier connection, whose end the
/// primary does not know yet.
#[test]
fn a_connection_that_a_later_one_of_the_same_replica_supersedes_has_acknowledged_nothing() {
    for line in ["FAILOVER", "FAILOVER TO 10.0.0.2 7000"] {
        let (mut rig, replica) = with_replica();
        rig.run("SET a 1");
        acknowledge(&mut rig, replica);
        let back = rig.connect();
        let announced = "REPLCONF listening-port 7000 ip-address 10.0.0.2 capa psync2";
        assert_eq!(rig.run_as(back, announced), "+OK");
        rig.argv_unread(back, &[b"PSYNC", b"?", b"-1"]);
        let asked = rig.run(line);
        rig.end_iteration();
        assert_ne!(state(&mut rig), "failover-in-progress", "{line}: {asked}");
    }
}

/// The target was disconnected while the failover waited for it. Writes would wait for ever if the
/// target were refused (as the reference does).
#[test]
fn a_target_that_comes_back_takes_over() {
    for needs_everything in [false, true] {
        let (mut rig, replica) = with_replica();
        rig.run("SET a 1");
        rig.check("FAILOVER TO 10.0.0.2 7000", "+OK");
        rig.engine.disconnect(replica, &mut rig.process);
        rig.end_iteration();
        let back = rig.connect();
        let announced = "REPLCONF listening-port 7000 ip-address 10.0.0.2 capa eof capa psync2";
        assert_eq!(rig.run_as(back, announced), "+OK");
        let replid = field(&mut rig, "master_replid");
        let (asked, answer): ([&[u8]; 2], _) = match needs_everything {
            false => ([replid.as_bytes(), b"1"], "+CONTINUE "),
            true => ([b"?", b"-1"], "+FULLRESYNC "),
        };
        rig.argv_unread(back, &[b"PSYNC", asked[0], asked[1]]);
        rig.end_iteration();
        let said = rig.output(back);
        assert!(said.starts_with(answer.as_bytes()), "{}", said.escape_ascii());
        assert_eq!(state(&mut rig), "waiting-for-sync");
        acknowledge(&mut rig, back);
        assert_eq!(state(&mut rig), "failover-in-progress");
    }
}

#[test]
fn what_its_transaction_writes_behind_it_is_handed_over() {
    let (mut rig, replica) = with_replica();
    rig.run("SET a 1");
    acknowledge(&mut rig, replica);
    let before = field(&mut rig, "master_repl_offset");
    for line in ["MULTI", "SET b 1", "FAILOVER", "SET c 1", "EXEC"] {
        rig.run(line);
    }
    rig.end_iteration();
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", before.as_bytes()]);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "waiting-for-sync");
    acknowledge(&mut rig, replica);
    assert_eq!(state(&mut rig), "failover-in-progress");
}

/// A client aborts the failover in the iteration that brings the target's answer. The answer must be ignored,
/// because the target's history lacks the writes that have waited.
#[test]
fn an_answer_that_comes_behind_the_end_of_a_failover_is_not_taken() {
    for is_given_up in [false, true] {
        let (mut rig, replica) = with_replica();
        rig.run("SET a 1");
        acknowledge(&mut rig, replica);
        rig.check("FAILOVER TO 10.0.0.2 7000", "+OK");
        acknowledge(&mut rig, replica);
        assert_eq!(state(&mut rig), "failover-in-progress");
        let mut link = RigLink::asking(&mut rig);
        if is_given_up {
            rig.check("FAILOVER ABORT", "+OK");
        }
        let answer = format!("+CONTINUE {}\r\n", "b".repeat(40));
        link.receive(&mut rig, answer.as_bytes());
        assert_eq!(rig.engine.link_counts().continued, u64::from(!is_given_up));
    }
}

#[test]
fn clients_that_can_be_redirected_are_when_the_target_has_taken_over() {
    let (mut rig, _) = with_replica();
    let (waits, reads) = (rig.connect(), rig.connect());
    for client in [waits, reads] {
        rig.check_as(client, "CLIENT CAPA redirect", "+OK");
    }
    rig.run_as(waits, "BLPOP nothing 0");
    rig.run("SET a 1");
    rig.check("FAILOVER TO 10.0.0.2 7000 FORCE TIMEOUT 100", "+OK");
    rig.pass_ms(200);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "failover-in-progress");
    rig.check_as(reads, "GET a", "");
    // A read of a client that cannot be redirected does not wait.
    rig.check("GET a", "\"1\"");
    rig.engine.end_failover(&mut rig.process);
    for client in [waits, reads] {
        assert_eq!(rig.output(client), b"-REDIRECT 10.0.0.2:7000\r\n");
    }
}

#[test]
fn force_hands_over_to_one_that_lacks_something() {
    let (mut rig, _) = with_replica();
    rig.run("SET a 1");
    rig.check("FAILOVER TO 10.0.0.2 7000 FORCE TIMEOUT 500", "+OK");
    rig.pass_ms(600);
    rig.end_iteration();
    assert_eq!(state(&mut rig), "failover-in-progress");
    let line = "FAILOVER to 10.0.0.2:7000 time out exceeded, failing over.";
    assert!(log(&rig).contains(line), "{}", log(&rig));
}

#[test]
fn one_that_is_refused_leaves_a_primary_whose_clients_have_noticed_nothing() {
    let (mut rig, replica) = with_replica();
    let waiting = rig.connect();
    rig.run_as(waiting, "BLPOP list 0");
    rig.run("SET a 1");
    rig.check("FAILOVER", "+OK");
    let writer = rig.connect();
    rig.check_as(writer, "RPUSH list x", "");
    acknowledge(&mut rig, replica);
    assert_eq!(state(&mut rig), "failover-in-progress");
    let before = field(&mut rig, "master_replid");
    rig.engine.abort_failover("Failover target rejected psync request", &mut rig.process);
    assert_eq!((state(&mut rig), field(&mut rig, "role")), ("no-failover".to_owned(), "master".to_owned()));
    assert_eq!(field(&mut rig, "master_replid2"), before);
    assert_eq!(rig.output(writer), b":1\r\n");
    assert_eq!(rig.output(waiting), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
}

#[test]
fn keys_that_expire_stay_while_the_role_is_handed_over() {
    let (mut rig, _) = with_replica();
    rig.run("SET a 1 PX 100");
    rig.check("FAILOVER", "+OK");
    rig.pass_ms(200);
    rig.check("GET a", "nil");
    rig.cron();
    rig.check("DBSIZE", ":1");
    rig.check("FAILOVER ABORT", "+OK");
    rig.check("GET a", "nil");
    rig.check("DBSIZE", ":0");
}

const REPLID: &str = "0123456789abcdef0123456789abcdef01234567";

/// Sends PSYNC as a primary that hands over its role. Returns the reply.
fn psync(rig: &mut Rig, replid: &str, words: &[&[u8]]) -> String {
    let client = rig.connect();
    assert_eq!(rig.run_as(client, "REPLCONF listening-port 7009 capa psync2"), "+OK");
    let all: Vec<&[u8]> =
        [&b"PSYNC"[..], replid.as_bytes()].into_iter().chain(words.iter().copied()).collect();
    rig.argv_unread(client, &all);
    String::from_utf8(rig.output(client)).unwrap()
}

#[test]
fn a_replica_is_promoted_by_its_primary() {
    let mut rig = Rig::new();
    let error = "-ERR PSYNC FAILOVER can't be sent to a master.\r\n";
    assert_eq!(psync(&mut rig, REPLID, &[b"1", b"FAILOVER"]), error);
    rig.run("REPLICAOF 10.0.0.1 6379");
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    RigLink::up(&mut rig);
    let error = "-ERR PSYNC FAILOVER replid must match my replid.\r\n";
    assert_eq!(psync(&mut rig, &"f".repeat(40), &[b"x", b"failover"]), error);
    assert_eq!(field(&mut rig, "role"), "slave");
    let reply = psync(&mut rig, REPLID, &[b"101", b"failover"]);
    let replid = field(&mut rig, "master_replid");
    assert_eq!(reply, format!("+CONTINUE {replid}\r\n"));
    assert_ne!(replid, REPLID);
    assert_eq!(
        (field(&mut rig, "role"), field(&mut rig, "master_replid2")),
        ("master".to_owned(), REPLID.to_owned())
    );
    assert_eq!(field(&mut rig, "connected_slaves"), "1");
    rig.check("SET a 1", "+OK");
    assert!(log(&rig).contains("PRIMARY MODE enabled (failover request from 'id="), "{}", log(&rig));
}

/// The target was restarted with less data than it had acknowledged. A takeover would lose data of the
/// primary. A replica whose link has been up since its start takes over although it lacks data, if it is
/// asked with FORCE.
#[test]
fn a_replica_that_lacks_data_since_its_start_does_not_take_over() {
    for has_been_up in [false, true] {
        let mut rig = Rig::new();
        rig.run("REPLICAOF 10.0.0.1 6379");
        let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
        rig.engine.adopt_history(point, &mut rig.process);
        if has_been_up {
            RigLink::up(&mut rig).connection_lost(&mut rig);
        }
        let reply = psync(&mut rig, REPLID, &[b"102", b"failover"]);
        let error = "-ERR PSYNC FAILOVER asks for data that this replica does not have.\r\n";
        assert_eq!(
            (reply == error, field(&mut rig, "role") == "slave"),
            (!has_been_up, !has_been_up),
            "{reply}"
        );
    }
}

#[test]
fn a_promotion_waits_for_a_snapshot_that_is_loaded() {
    let mut rig = Rig::new();
    rig.run("REPLICAOF 10.0.0.1 6379");
    let point = HistoryPoint { replid: REPLID.to_owned(), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    rig.run("SET a 1");
    let mut primary = Rig::new();
    primary.check("SAVE", "+OK");
    rig.process.snapshots = primary.process.snapshots.clone();
    let mut link = RigLink::committed(&mut rig, 'f');
    let client = rig.connect();
    rig.argv_unread(client, &[b"PSYNC", REPLID.as_bytes(), b"101", b"FAILOVER"]);
    assert_eq!(rig.output(client), b"");
    link.load(&mut rig);
    assert_eq!(rig.output(client), b"");
    link.loaded(&mut rig);
    // The replica asked for the history of the replaced data.
    assert!(rig.output(client).starts_with(b"+FULLRESYNC"));
    assert_eq!(field(&mut rig, "role"), "master");
}

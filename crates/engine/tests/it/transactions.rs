//! MULTI, EXEC, DISCARD, WATCH, UNWATCH, and WAIT.

use sluice_testkit::{Rig, check};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn exec_runs_what_was_queued_as_one_unit() {
    check(&[
        ("MULTI", "+OK"),
        ("SET k 5", "+QUEUED"),
        ("INCR k", "+QUEUED"),
        ("GETRANGE k 0 0", "+QUEUED"),
        ("GET k", "+QUEUED"),
        ("EXEC", "[+OK, :6, \"6\", \"6\"]"),
        ("GET k", "\"6\""),
        ("MULTI", "+OK"),
        ("EXEC", "[]"),
    ]);
}

#[test]
fn an_error_while_running_stops_nothing() {
    check(&[
        ("SET k x", "+OK"),
        ("MULTI", "+OK"),
        ("INCR k", "+QUEUED"),
        ("APPEND k y", "+QUEUED"),
        ("EXEC", "[-ERR value is not an integer or out of range, :2]"),
    ]);
}

#[test]
fn an_error_while_queueing_aborts() {
    for bad in ["NOSUCH", "GET", "MULTI", "WATCH k", "SYNC", "SHUTDOWN", "CLIENT REPLY OFF", "CLIENT NOSUCH"]
    {
        let mut rig = Rig::new();
        rig.check("MULTI", "+OK");
        rig.check("SET k v", "+QUEUED");
        assert!(rig.run(bad).starts_with("-ERR "), "{bad}");
        rig.check("SET k w", "+QUEUED");
        assert!(rig.run("CLIENT LIST").starts_with("+QUEUED"));
        rig.check("EXEC", ABORTED);
        rig.check("EXISTS k", ":0");
    }
    check(&[
        ("MULTI", "+OK"),
        ("MULTI", "-ERR Command 'multi' not allowed inside a transaction"),
        ("CLIENT REPLY OFF", "-ERR Command 'client|reply' not allowed inside a transaction"),
        ("DISCARD", "+OK"),
        ("PING", "+PONG"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
    ]);
}

#[test]
fn what_changes_the_session_takes_effect_inside() {
    check(&[
        ("MULTI", "+OK"),
        ("SELECT 3", "+QUEUED"),
        ("SET k v", "+QUEUED"),
        ("SELECT 0", "+QUEUED"),
        ("EXISTS k", "+QUEUED"),
        ("EXEC", "[+OK, +OK, +OK, :0]"),
        ("SELECT 3", "+OK"),
        ("GET k", "\"v\""),
        ("MULTI", "+OK"),
        ("SET k w", "+QUEUED"),
        ("RESET", "+RESET"),
        ("PING", "+PONG"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "+OK"),
        ("MONITOR", "+QUEUED"),
        ("UNWATCH", "+QUEUED"),
        ("WAIT 1 0", "+QUEUED"),
        ("EXEC", "[-ERR MONITOR isn't allowed for DENY BLOCKING client, +OK, :0]"),
    ]);
}

#[test]
fn maxmemory_is_asked_when_queueing_and_at_exec() {
    let mut rig = Rig::new();
    rig.check("CONFIG SET maxmemory 1", "+OK");
    rig.check("MULTI", "+OK");
    rig.check("SET k v", "-OOM command not allowed when used memory > 'maxmemory'.");
    rig.check("EXEC", ABORTED);
    rig.check("CONFIG SET maxmemory 0", "+OK");
    let other = rig.connect();
    rig.check("MULTI", "+OK");
    rig.check("SET k v", "+QUEUED");
    assert_eq!(rig.run_as(other, "CONFIG SET maxmemory 1"), "+OK");
    rig.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
    );
    rig.check("EXISTS k", ":0");
    rig.check("EXEC", "-ERR EXEC without MULTI");
}

#[test]
fn exec_with_arguments_that_are_no_conditions_ends_the_transaction() {
    for line in ["EXEC x", "EXEC IFEQ", "EXEC IFEQ k", "EXEC NX", "EXEC XX k IFNE k", "EXEC NX k IFEQ k v v"]
    {
        check(&[
            ("EXEC NX k", "-ERR EXEC without MULTI"),
            ("MULTI", "+OK"),
            ("SET k v", "+QUEUED"),
            (line, "-EXECABORT Transaction discarded because of: invalid check condition syntax"),
            ("EXISTS k", ":0"),
            ("EXEC", "-ERR EXEC without MULTI"),
        ]);
    }
}

#[test]
fn exec_runs_where_its_conditions_hold() {
    let rows = [
        ("NX none", "[+PONG]"),
        ("nx k", "nil-array"),
        ("XX k", "[+PONG]"),
        ("XX none", "nil-array"),
        ("IFEQ k 12", "[+PONG]"),
        ("ifeq k 012", "nil-array"),
        ("IFEQ none 12", "nil-array"),
        ("IFNE k v", "[+PONG]"),
        ("IFNE k 12", "nil-array"),
        ("IFNE none 12", "[+PONG]"),
        ("XX l", "[+PONG]"),
        ("NX l", "nil-array"),
        ("IFEQ l a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("IFNE l a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("NX none XX k IFEQ k 12 IFNE k 13", "[+PONG]"),
        ("NX none XX none IFEQ l a", "nil-array"),
        ("IFEQ NX NX", "nil-array"),
    ];
    for (conditions, reply) in rows {
        check(&[
            ("SET k 12", "+OK"),
            ("RPUSH l a", ":1"),
            ("WATCH k", "+OK"),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            (&format!("EXEC {conditions}"), reply),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("SET k v", "+OK"),
            ("MULTI", "+OK"),
            ("EXEC", "[]"),
        ]);
    }
}

#[test]
fn conditions_of_exec_are_about_the_clients_own_database() {
    check(&[
        ("SET k v", "+OK"),
        ("MULTI", "+OK"),
        ("SELECT 1", "+QUEUED"),
        ("EXISTS k", "+QUEUED"),
        ("EXEC XX k", "[+OK, :0]"),
        ("MULTI", "+OK"),
        ("EXEC XX k", "nil-array"),
    ]);
}

#[test]
fn a_condition_of_exec_asks_for_the_right_to_read_its_key() {
    let mut rig = Rig::new();
    rig.check("ACL SETUSER u on nopass +@all ~a resetchannels", "+OK");
    rig.check("AUTH u x", "+OK");
    rig.check("MULTI", "+OK");
    rig.check("EXEC NX a", "[]");
    rig.check("MULTI", "+OK");
    let refused = rig.run("EXEC NX a IFEQ b 1");
    assert!(refused.starts_with("-EXECABORT Transaction discarded because of: NOPERM"), "{refused}");
    rig.check("EXEC", "-ERR EXEC without MULTI");
}

#[test]
fn keys_of_conditions_are_asked_for_in_the_clients_own_database() {
    let mut rig = Rig::new();
    rig.check("ACL SETUSER u on nopass +@all ~* db=1", "+OK");
    rig.check("AUTH u x", "+OK");
    for (exec, reply) in [("EXEC", "[+OK, nil]"), ("EXEC NX a", "-EXECABORT")] {
        rig.check("MULTI", "+OK");
        rig.check("SELECT 1", "+QUEUED");
        rig.check("GET a", "+QUEUED");
        let found = rig.run(exec);
        assert!(found.starts_with(reply), "{exec}: {found}");
        rig.check("RESET", "+RESET");
        rig.check("AUTH u x", "+OK");
    }
}

#[test]
fn a_select_behind_a_command_that_was_rejected_selects_nothing() {
    let mut rig = Rig::new();
    rig.check("ACL SETUSER u on nopass +@all ~* db=1", "+OK");
    rig.check("AUTH u x", "+OK");
    rig.check("MULTI", "+OK");
    let refused = rig.run("GET a");
    assert!(refused.starts_with("-NOPERM"), "{refused}");
    rig.check("SELECT 1", "+QUEUED");
    assert_eq!(rig.run("GET a"), refused);
    assert!(rig.run("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn exec_before_auth_is_refused_as_a_transaction() {
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    rig.check("MULTI", "-NOAUTH Authentication required.");
    rig.check("EXEC", "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.");
}

#[test]
fn a_transaction_with_a_write_waits_for_the_end_of_a_pause() {
    let mut rig = Rig::new();
    let (b, c) = (rig.connect(), rig.connect());
    for (client, line) in [(b, "SET k v"), (c, "GET k")] {
        assert_eq!(rig.run_as(client, "MULTI"), "+OK");
        assert_eq!(rig.run_as(client, line), "+QUEUED");
    }
    rig.check("CLIENT PAUSE 1000 WRITE", "+OK");
    assert_eq!(rig.run_as(b, "EXEC"), "");
    assert_eq!(rig.run_as(c, "EXEC"), "[nil]");
    rig.check("CLIENT UNPAUSE", "+OK");
    assert_eq!(rig.output(b), b"*1\r\n+OK\r\n");
}

#[test]
fn a_watched_key_that_changes_makes_exec_answer_nil() {
    // Each row has a command before WATCH, and one between WATCH and EXEC, which the watching client or
    // another client sends.
    let changes = [
        ("SET k v", "SET k v"),
        ("SET k v", "DEL k"),
        ("SET k v", "EXPIRE k 100"),
        ("SET k v", "RENAME k other"),
        ("SET other v", "RENAME other k"),
        ("SET k v", "MOVE k 1"),
        ("SET k v", "FLUSHALL"),
        ("SET k v", "FLUSHDB"),
        ("SET k v", "SWAPDB 0 1"),
        ("SET k v", "SWAPDB 5 0"),
        ("PING", "APPEND k v"),
        ("SET k v EX 1", "!expire"),
        ("PING", "XGROUP CREATE k g $ MKSTREAM"),
        ("HSET k a 1", "HSETEX k PX 0 FIELDS 2 b 1 a 1"),
        // The field has expired and exists until a command deletes it.
        ("HSETEX k PX 1 FIELDS 1 a 1", "!later HSETEX k PX 0 FIELDS 1 a 1"),
    ];
    for (before, change) in changes {
        for own in [false, true] {
            let mut rig = Rig::new();
            let other = if own { rig.client } else { rig.connect() };
            rig.run(before);
            rig.check("WATCH k", "+OK");
            match change {
                "!expire" => rig.pass_ms(2000),
                line if line.starts_with("!later ") => {
                    rig.pass_ms(10);
                    assert!(!rig.run_as(other, &line[7..]).starts_with('-'), "{line}");
                }
                line => assert!(!rig.run_as(other, line).starts_with('-'), "{line}"),
            }
            rig.check("MULTI", "+OK");
            rig.check("PING", "+QUEUED");
            rig.check("EXEC", "nil-array");
            rig.check("MULTI", "+OK");
            rig.check("PING", "+QUEUED");
            rig.check("EXEC", "[+PONG]");
        }
    }
}

#[test]
fn regress_a_change_of_a_group_is_a_change_of_its_stream() {
    // The reference behaves in this way since 9.1.3.
    for change in [
        "XGROUP CREATE k other $",
        "XGROUP SETID k g 0",
        "XGROUP DESTROY k g",
        "XGROUP CREATECONSUMER k g d",
        "XGROUP DELCONSUMER k g c",
        "XSETID k 9-9",
        "XREADGROUP GROUP g c STREAMS k >",
        "XREADGROUP GROUP g c NOACK STREAMS k >",
        "XREADGROUP GROUP g newcomer STREAMS k 0",
        "XACK k g 1-1",
        "XCLAIM k g d 0 1-1",
        "XAUTOCLAIM k g d 0 0",
    ] {
        let mut rig = Rig::new();
        let other = rig.connect();
        rig.run("XADD k 1-1 a b");
        rig.run("XGROUP CREATE k g 0");
        rig.run("XREADGROUP GROUP g c STREAMS k >");
        rig.run("XADD k 1-2 a b");
        rig.check("WATCH k", "+OK");
        assert!(!rig.run_as(other, change).starts_with('-'), "{change}");
        rig.check("MULTI", "+OK");
        assert_eq!(rig.run("EXEC"), "nil-array", "{change}");
    }
}

#[test]
fn what_is_no_change_of_a_watched_key_lets_exec_run() {
    let unchanged = [
        ("SET k v", "GET k"),
        ("SET k v", "SET other v"),
        ("SET k v", "SETNX k w"),
        ("PING", "DEL k"),
        ("PING", "FLUSHALL"),
        ("SET other v", "FLUSHALL"),
        ("PING", "SWAPDB 0 1"),
        ("SET k v", "SWAPDB 1 2"),
        ("SET k v", "SWAPDB 0 0"),
        ("RPUSH k a b", "LTRIM k -6 -1"),
        ("XADD k 1-1 a b", "XREAD STREAMS k 0"),
        ("XGROUP CREATE k g $ MKSTREAM", "XACK k g 1-1"),
        ("XGROUP CREATE k g $ MKSTREAM", "XGROUP DESTROY k none"),
        ("SELECT 2", "FLUSHDB"),
        // The fields are stored with an expiry time in the past, and did not exist before.
        ("PING", "HSETEX k PX 0 FIELDS 1 a 1"),
        ("HSET k a 1", "HSETEX k PXAT 1 FIELDS 1 b 1"),
    ];
    for (before, line) in unchanged {
        let mut rig = Rig::new();
        let other = rig.connect();
        rig.run(before);
        rig.check("SELECT 0", "+OK");
        rig.check("WATCH k", "+OK");
        assert!(!rig.run_as(other, line).starts_with('-'), "{line}");
        rig.check("MULTI", "+OK");
        rig.check("EXEC", "[]");
    }
}

#[test]
fn a_key_that_had_expired_when_it_was_watched_was_absent() {
    let mut rig = Rig::new();
    rig.run("DEBUG SET-ACTIVE-EXPIRE 0");
    rig.run("SET k v PX 1");
    rig.pass_ms(10);
    rig.check("WATCH k", "+OK");
    rig.check("EXISTS k", ":0");
    rig.check("MULTI", "+OK");
    rig.check("EXEC", "[]");
    // A storing command with an empty result deletes the expired key, which does not count as a change; a
    // command that stores something changes the key.
    for (line, is_changed) in [("SDIFFSTORE k none", false), ("SDIFFSTORE k set", true)] {
        rig.run("SADD set a");
        rig.run("SET k v PX 1");
        rig.pass_ms(10);
        rig.check("WATCH k", "+OK");
        rig.run(line);
        rig.check("MULTI", "+OK");
        rig.check("EXEC", if is_changed { "nil-array" } else { "[]" });
    }
}

#[test]
fn an_exchange_of_databases_changes_no_key_that_has_expired_before_and_after() {
    for (here, there) in
        [("SET k v PX 1", "PING"), ("PING", "SET k v PX 1"), ("SET k v PX 1", "SET k w PX 1")]
    {
        let mut rig = Rig::new();
        rig.run("DEBUG SET-ACTIVE-EXPIRE 0");
        for line in ["SELECT 1", there, "SELECT 0", here] {
            assert!(!rig.run(line).starts_with('-'), "{line}");
        }
        rig.pass_ms(10);
        rig.check("WATCH k", "+OK");
        rig.check("SWAPDB 0 1", "+OK");
        rig.check("MULTI", "+OK");
        rig.check("EXEC", "[]");
    }
}

#[test]
fn unwatch_discard_and_the_end_of_a_client_forget() {
    let mut rig = Rig::new();
    let other = rig.connect();
    for forget in ["UNWATCH", "MULTI | DISCARD", "MULTI | EXEC", "RESET"] {
        rig.check("WATCH k j", "+OK");
        assert!(rig.run_as(other, "INFO clients").contains("watching_clients:1\\r\\n"));
        assert!(rig.run_as(other, "INFO clients").contains("total_watched_keys:2\\r\\n"));
        assert!(rig.run_as(other, "CLIENT LIST ID 1").contains(" watch=2 "));
        forget.split(" | ").for_each(|line| assert!(!rig.run(line).starts_with('-')));
        assert_eq!(rig.run_as(other, "SET k v"), "+OK");
        rig.check("MULTI", "+OK");
        rig.check("EXEC", "[]");
        assert!(rig.run_as(other, "INFO clients").contains("watching_clients:0\\r\\n"), "{forget}");
    }
    let third = rig.connect();
    assert_eq!(rig.run_as(third, "WATCH k"), "+OK");
    rig.engine.disconnect(third, &mut rig.process);
    assert!(rig.run("INFO clients").contains("total_watched_keys:0\\r\\n"));
}

#[test]
fn client_list_shows_transactions() {
    let mut rig = Rig::new();
    let b = rig.connect();
    let line = |rig: &mut Rig| rig.run("CLIENT LIST ID 2");
    assert!(line(&mut rig).contains(" flags=N "));
    assert!(line(&mut rig).contains(" multi=-1 watch=0 "));
    rig.run_as(b, "WATCH k");
    rig.run_as(b, "MULTI");
    rig.run_as(b, "SET k v");
    rig.run_as(b, "CLIENT INFO");
    let shown = line(&mut rig);
    assert!(shown.contains(" flags=x ") && shown.contains(" multi=2 watch=1 "), "{shown}");
    assert!(!shown.contains(" multi-mem=0 "));
    rig.run("SET k w");
    assert!(line(&mut rig).contains(" flags=xd "));
    assert!(line(&mut rig).contains(" watch=0 "));
    assert_eq!(rig.run_as(b, "EXEC"), "nil-array");
    let shown = line(&mut rig);
    assert!(shown.contains(" flags=N ") && shown.contains(" multi=0 ") && shown.contains(" multi-mem=0 "));
    rig.run_as(b, "MULTI");
    rig.run_as(b, "CLIENT INFO");
    let own = rig.run_as(b, "EXEC");
    assert!(own.contains(" flags=x ") && own.contains(" multi=1 ") && own.contains(" cmd=exec "), "{own}");
}

#[test]
fn a_queue_above_the_query_buffer_limit_ends_the_client() {
    let mut rig = Rig::with(&[("client-query-buffer-limit", "1mb")]);
    rig.check("MULTI", "+OK");
    let value = "v".repeat(100_000);
    for _ in 0..9 {
        rig.check(&format!("SET k {value}"), "+QUEUED");
    }
    for _ in 0..8 {
        rig.run(&format!("SET k {value}"));
    }
    assert!(rig.is_closing(rig.client));
    let b = rig.connect();
    assert!(rig.run_as(b, "INFO stats").contains("client_query_buffer_limit_disconnections:1\\r\\n"));
}

#[test]
fn monitor_shows_what_exec_runs_before_exec() {
    let mut rig = Rig::new();
    let monitor = rig.connect();
    rig.run_as(monitor, "MONITOR");
    for line in ["MULTI", "SET k v", "GET k", "EXEC"] {
        rig.run(line);
    }
    let shown = String::from_utf8(rig.output(monitor)).unwrap();
    let words: Vec<&str> = shown.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(words, ["MULTI", "SET", "GET", "EXEC"]);
}

#[test]
fn a_unit_of_several_writes_is_propagated_as_one() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    for (lines, fed) in [
        (&["SET a 1", "GET a", "INCR b"][..], "MULTI; SET a 1; INCR b; EXEC"),
        (&["GET a", "INCR b"][..], "INCR b"),
        (&["GET a"][..], ""),
        (&[][..], ""),
        (&["SET a 1", "SELECT 1", "SET c 1"][..], "MULTI; SET a 1; SELECT 1; SET c 1; EXEC"),
    ] {
        rig.check("SELECT 0", "+OK");
        rig.check("MULTI", "+OK");
        lines.iter().for_each(|line| rig.check(line, "+QUEUED"));
        rig.run("EXEC");
        assert_eq!(rig.fed(replica), fed, "{lines:?}");
    }
}

#[test]
fn time_stands_still_inside_exec() {
    let mut rig = Rig::new();
    rig.check("MULTI", "+OK");
    rig.check("SET k v PX 100", "+QUEUED");
    rig.check("DEBUG SLEEP 1", "+QUEUED");
    rig.check("GET k", "+QUEUED");
    rig.check("EXEC", "[+OK, +OK, \"v\"]");
    rig.pass_ms(1000);
    rig.check("GET k", "nil");
}

#[test]
fn wait_answers_how_many_replicas_have_what_the_client_wrote() {
    let mut rig = Rig::new();
    rig.check("WAIT 0 0", ":0");
    rig.check("WAIT -1 10", ":0");
    rig.check("WAIT x 0", "-ERR value is not an integer or out of range");
    rig.check("WAIT 1 -1", "-ERR timeout is negative");
    rig.check("WAIT 1 x", "-ERR timeout is not an integer or out of range");
    let (r1, r2) = (rig.replica(), rig.replica());
    rig.check("SET k v", "+OK");
    let offset: u64 = {
        let info = rig.run("INFO replication");
        let text = info.split("master_repl_offset:").nth(1).unwrap();
        text.split("\\r").next().unwrap().parse().unwrap()
    };
    assert_eq!(rig.run("WAIT 2 1000"), "");
    assert!(rig.fed(r1).contains("REPLCONF GETACK *"));
    assert!(rig.run_as(r1, &format!("REPLCONF ACK {}", offset - 1)).is_empty());
    assert_eq!(rig.output(rig.client), b"");
    rig.run_as(r1, &format!("REPLCONF ACK {offset}"));
    assert_eq!(rig.output(rig.client), b"");
    rig.run_as(r2, &format!("REPLCONF ACK {offset}"));
    assert_eq!(rig.output(rig.client), b":2\r\n");
    rig.check("WAIT 2 0", ":2");
}

#[test]
fn wait_gives_up_when_its_time_is_over() {
    let mut rig = Rig::new();
    let b = rig.connect();
    assert_eq!(rig.run_as(b, "WAIT 1 100"), "");
    assert!(rig.run("INFO clients").contains("blocked_clients:1\\r\\n"));
    assert!(rig.run("INFO clients").contains("clients_in_timeout_table:1\\r\\n"));
    rig.pass_ms(50);
    rig.cron();
    assert_eq!(rig.output(b), b"");
    rig.pass_ms(51);
    rig.cron();
    assert_eq!(rig.output(b), b":0\r\n");
    assert!(rig.run("INFO clients").contains("clients_in_timeout_table:0\\r\\n"));
    assert_eq!(rig.run("ROLE"), "[\"master\", :1, []]", "the question to nobody counts a byte");
}

#[test]
fn client_unblock_ends_a_wait() {
    let mut rig = Rig::new();
    let b = rig.connect();
    for (how, reply) in [
        ("", &b":0\r\n"[..]),
        (" TIMEOUT", b":0\r\n"),
        (" ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ] {
        assert_eq!(rig.run_as(b, "WAIT 1 0"), "");
        rig.check(&format!("CLIENT UNBLOCK 2{how}"), ":1");
        assert_eq!(rig.output(b), reply);
        rig.check("CLIENT UNBLOCK 2", ":0");
    }
    assert_eq!(rig.run_as(b, "WAIT 1 0"), "");
    rig.check("MULTI", "+OK");
    rig.check("CLIENT UNBLOCK 2", "+QUEUED");
    rig.check("CLIENT UNBLOCK 2 ERROR", "+QUEUED");
    rig.check("EXEC", "[:1, :0]");
    assert_eq!(rig.output(b), b":0\r\n");
    rig.check("CLIENT UNBLOCK 2 NOW", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    rig.check("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range");
}

#[test]
fn a_change_reaches_every_watcher_and_later_watchers_begin_anew() {
    let mut rig = Rig::new();
    let clients: Vec<_> = (0..100).map(|_| rig.connect()).collect();
    for round in 0..2 {
        for client in &clients {
            assert_eq!(rig.run_as(*client, "WATCH k other"), "+OK");
        }
        assert!(rig.run("INFO clients").contains("total_watched_keys:2\\r\\n"));
        rig.check(&format!("SET k {round}"), "+OK");
        assert!(rig.run("INFO clients").contains("total_watched_keys:0\\r\\n"));
        for client in &clients {
            assert_eq!(rig.run_as(*client, "MULTI"), "+OK");
            assert_eq!(rig.run_as(*client, "EXEC"), "nil-array");
        }
    }
}

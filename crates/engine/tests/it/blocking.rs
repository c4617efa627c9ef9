//! Tests of clients that wait for lists: the order in which they are served, and the data that other clients
//! see in the meantime.

use sluice_testkit::{Rig, check, render};

/// The output of a client since the last call, rendered.
fn got(rig: &mut Rig, client: sluice_base::SessionKey) -> String {
    render(&rig.output(client))
}

#[test]
fn what_is_there_is_taken_at_once() {
    check(&[
        ("RPUSH b 1 2 3", ":3"),
        ("BLPOP a b 0", "[\"b\", \"1\"]"),
        ("BRPOP a b 0", "[\"b\", \"3\"]"),
        ("BLMPOP 0 2 a b LEFT COUNT 5", "[\"b\", [\"2\"]]"),
        ("EXISTS b", ":0"),
        ("RPUSH b 1 2", ":2"),
        ("BLMOVE b c LEFT RIGHT 0", "\"1\""),
        ("BRPOPLPUSH b c 0", "\"2\""),
        ("LRANGE c 0 -1", "[\"2\", \"1\"]"),
        ("SET s x", "+OK"),
        ("BLPOP a s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn timeouts_are_judged_as_the_reference_judges_them() {
    check(&[
        ("BLPOP l -1", "-ERR timeout is negative"),
        ("BLPOP l x", "-ERR timeout is not a float or out of range"),
        ("BLPOP l nan", "-ERR timeout is not a float or out of range"),
        ("BLPOP l 1e20", "-ERR timeout is out of range"),
        ("BLPOP l inf", "-ERR timeout is out of range"),
        ("BLPOP l 9223372036854775.807", "-ERR timeout is out of range"),
        ("BLMOVE a b UP LEFT x", "-ERR syntax error"),
        ("BLMPOP x 1 l LEFT", "-ERR timeout is not a float or out of range"),
        ("BLMPOP x 0 l LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP -1 1 l UP", "-ERR syntax error"),
        ("BLMPOP 1e300 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("BLMPOP 1 0 l LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP 1 1 l UP", "-ERR syntax error"),
    ]);
}

#[test]
fn a_wait_ends_with_nil_when_its_time_is_over() {
    for line in [
        "BLPOP a b 0.1",
        "BRPOP a 0.1",
        "BLMPOP 0.1 1 a LEFT",
        "BLMOVE a b LEFT LEFT 0.1",
        "BRPOPLPUSH a b 0.1",
    ] {
        let mut rig = Rig::new();
        let b = rig.connect();
        assert_eq!(rig.run_as(b, line), "", "{line}");
        rig.pass_ms(95);
        rig.cron();
        assert_eq!(got(&mut rig, b), "", "{line}");
        rig.pass_ms(10);
        rig.cron();
        assert_eq!(got(&mut rig, b), "nil-array", "{line}");
        assert_eq!(rig.run_as(b, "PING"), "+PONG");
        assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
        assert!(rig.run("INFO clients").contains("total_blocking_keys:0\\r\\n"));
    }
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "HELLO 3");
    rig.run_as(b, "BLPOP a 0.0001");
    rig.pass_ms(2);
    rig.cron();
    assert_eq!(got(&mut rig, b), "null");
}

#[test]
fn those_who_came_first_are_served_first() {
    let mut rig = Rig::new();
    let (a, b, c) = (rig.connect(), rig.connect(), rig.connect());
    for (client, line) in [(a, "BLPOP l 0"), (b, "BRPOP x l 0"), (c, "BLPOP l 0")] {
        assert_eq!(rig.run_as(client, line), "");
    }
    rig.check("RPUSH l 1 2", ":2");
    assert_eq!(got(&mut rig, a), "[\"l\", \"1\"]");
    assert_eq!(got(&mut rig, b), "[\"l\", \"2\"]");
    assert_eq!(got(&mut rig, c), "");
    rig.check("EXISTS l", ":0");
    rig.check("LPUSH l 3", ":1");
    assert_eq!(got(&mut rig, c), "[\"l\", \"3\"]");
}

#[test]
fn a_waiting_client_is_served_before_the_next_command_of_anybody() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "BLPOP l 0");
    let replies = rig.bytes(rig.client, b"LPUSH l 1\r\nLPOP l\r\n");
    assert_eq!(render(&replies), ":1\nnil");
    assert_eq!(got(&mut rig, b), "[\"l\", \"1\"]");
}

#[test]
fn what_comes_and_goes_inside_a_transaction_serves_nobody() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "BLPOP l 0");
    for line in ["MULTI", "RPUSH l 1", "DEL l", "EXEC"] {
        rig.run(line);
    }
    assert_eq!(got(&mut rig, b), "");
    for line in ["MULTI", "RPUSH l 1", "DEL l", "RPUSH l 2", "LLEN l", "EXEC"] {
        rig.run(line);
    }
    assert_eq!(got(&mut rig, b), "[\"l\", \"2\"]");
}

#[test]
fn nothing_waits_inside_a_transaction() {
    check(&[
        ("MULTI", "+OK"),
        ("BLPOP l 0", "+QUEUED"),
        ("BLMOVE l m LEFT LEFT 0", "+QUEUED"),
        ("BRPOPLPUSH l m 0", "+QUEUED"),
        ("BLMPOP 0 1 l LEFT", "+QUEUED"),
        ("RPUSH l 1", "+QUEUED"),
        ("BLPOP l 0", "+QUEUED"),
        ("EXEC", "[nil-array, nil, nil, nil-array, :1, [\"l\", \"1\"]]"),
    ]);
}

#[test]
fn a_key_becomes_a_list_in_many_ways() {
    for (before, line) in [
        ("PING", "RPUSH l v"),
        ("RPUSH other v", "RENAME other l"),
        ("RPUSH other v", "COPY other l"),
        ("RPUSH other v", "LMOVE other l LEFT LEFT"),
        ("RPUSH other v", "RPOPLPUSH other l"),
        ("SELECT 1 | RPUSH l v", "MOVE l 0"),
        ("SELECT 1 | RPUSH l v", "SWAPDB 0 1"),
        ("SELECT 1 | RPUSH l v", "COPY l l DB 0"),
    ] {
        let mut rig = Rig::new();
        let b = rig.connect();
        assert_eq!(rig.run_as(b, "BLPOP l 0"), "");
        before.split(" | ").for_each(|line| assert!(!rig.run(line).starts_with('-')));
        rig.run(line);
        assert_eq!(got(&mut rig, b), "[\"l\", \"v\"]", "{line}");
    }
}

#[test]
fn another_type_under_the_key_ends_no_wait() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "BLPOP l 0");
    rig.check("SET l x", "+OK");
    rig.check("APPEND l y", ":2");
    assert_eq!(got(&mut rig, b), "");
    rig.check("DEL l", ":1");
    rig.check("RPUSH l v", ":1");
    assert_eq!(got(&mut rig, b), "[\"l\", \"v\"]");
}

#[test]
fn one_service_may_lead_to_the_next() {
    let mut rig = Rig::new();
    let (a, b, c) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_as(a, "BLMOVE x y LEFT RIGHT 0");
    rig.run_as(b, "BLMOVE y z LEFT RIGHT 0");
    rig.run_as(c, "BLPOP z 0");
    rig.check("RPUSH x v", ":1");
    assert_eq!(got(&mut rig, a), "\"v\"");
    assert_eq!(got(&mut rig, b), "\"v\"");
    assert_eq!(got(&mut rig, c), "[\"z\", \"v\"]");
    rig.check("DBSIZE", ":0");
}

#[test]
fn a_target_of_another_type_gives_the_waiter_an_error_and_leaves_the_element() {
    let mut rig = Rig::new();
    let (a, b) = (rig.connect(), rig.connect());
    rig.run_as(a, "BLMOVE l target LEFT RIGHT 0");
    rig.run_as(b, "BLPOP l 0");
    rig.check("SET target x", "+OK");
    rig.check("RPUSH l v", ":1");
    assert!(got(&mut rig, a).starts_with("-WRONGTYPE "));
    assert_eq!(got(&mut rig, b), "[\"l\", \"v\"]");
}

#[test]
fn what_follows_a_wait_in_a_pipeline_waits_too() {
    let mut rig = Rig::new();
    let b = rig.connect();
    // The engine executes the requests up to the one that waits. The server keeps the rest, and is notified
    // when the client can continue.
    assert_eq!(render(&rig.bytes(b, b"PING\r\nBLPOP l 0\r\n")), "+PONG");
    rig.check("RPUSH l v", ":1");
    let resumed = rig.actions.iter().any(|action| match action {
        sluice_control::action::Action::Resume(keys) => keys.contains(&b),
        _ => false,
    });
    assert!(resumed);
}

#[test]
fn a_client_that_goes_is_forgotten() {
    let mut rig = Rig::new();
    let (a, b) = (rig.connect(), rig.connect());
    rig.run_as(a, "BLPOP l m 5");
    rig.run_as(b, "BLPOP l 0");
    let info = rig.run("INFO clients");
    assert!(info.contains("blocked_clients:2\\r\\n") && info.contains("total_blocking_keys:2\\r\\n"));
    assert!(info.contains("clients_in_timeout_table:1\\r\\n"));
    rig.engine.disconnect(a, &mut rig.process);
    let info = rig.run("INFO clients");
    assert!(info.contains("blocked_clients:1\\r\\n") && info.contains("total_blocking_keys:1\\r\\n"));
    assert!(info.contains("clients_in_timeout_table:0\\r\\n"));
    rig.check("RPUSH l v", ":1");
    assert_eq!(got(&mut rig, b), "[\"l\", \"v\"]");
}

#[test]
fn a_pause_holds_the_service_back() {
    let mut rig = Rig::new();
    let (b, c) = (rig.connect(), rig.connect());
    rig.run_as(b, "BLPOP l 0");
    rig.check("CLIENT PAUSE 1000 WRITE", "+OK");
    assert_eq!(rig.run_as(c, "RPUSH l v"), "");
    assert_eq!(got(&mut rig, b), "");
    rig.check("CLIENT UNPAUSE", "+OK");
    assert_eq!(got(&mut rig, c), ":1");
    assert_eq!(got(&mut rig, b), "[\"l\", \"v\"]");
}

#[test]
fn client_unblock_and_kill_end_a_wait() {
    let mut rig = Rig::new();
    let (b, c) = (rig.connect(), rig.connect());
    rig.run_as(b, "BLPOP l 0");
    rig.check("CLIENT UNBLOCK 2", ":1");
    assert_eq!(got(&mut rig, b), "nil-array");
    rig.run_as(b, "BLPOP l 0");
    rig.check("CLIENT UNBLOCK 2 ERROR", ":1");
    assert_eq!(got(&mut rig, b), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    let stats = rig.run("INFO commandstats");
    let line = stats.split("cmdstat_blpop:").nth(1).unwrap();
    assert!(line.starts_with("calls=2,") && line.contains(",rejected_calls=1,failed_calls=0"), "{line}");
    rig.run_as(b, "BLPOP l 0");
    rig.run_as(c, "BLPOP l 0");
    rig.check("CLIENT KILL ID 2", ":1");
    rig.check("RPUSH l v", ":1");
    assert_eq!(got(&mut rig, c), "[\"l\", \"v\"]", "one that is being closed gets nothing");
}

#[test]
fn a_wait_that_is_not_satisfied_keeps_its_time() {
    let mut rig = Rig::new();
    let (a, b) = (rig.connect(), rig.connect());
    rig.run_as(a, "BLPOP l 0");
    rig.run_as(b, "BLPOP l 1");
    rig.pass_ms(600);
    rig.check("RPUSH l v", ":1");
    assert_eq!(got(&mut rig, a), "[\"l\", \"v\"]");
    rig.pass_ms(450);
    rig.cron();
    assert_eq!(got(&mut rig, b), "nil-array");
}

#[test]
fn the_stream_gets_what_was_done_in_a_unit_of_its_own() {
    for (wait, push, fed) in [
        ("BLPOP l 0", "RPUSH l 1 2", "RPUSH l 1 2; LPOP l"),
        ("BRPOP l 0", "RPUSH l 1 2", "RPUSH l 1 2; RPOP l"),
        ("BLMPOP 0 1 l LEFT COUNT 2", "RPUSH l 1 2", "RPUSH l 1 2; LPOP l 2"),
        ("BLMOVE l m left RIGHT 0", "RPUSH l 1", "RPUSH l 1; LMOVE l m left RIGHT"),
        ("BRPOPLPUSH l m 0", "RPUSH l 1", "RPUSH l 1; RPOPLPUSH l m"),
    ] {
        let mut rig = Rig::new();
        let replica = rig.replica();
        let b = rig.connect();
        rig.run_as(b, wait);
        rig.run(push);
        assert_eq!(rig.fed(replica), fed, "{wait}");
    }
}

#[test]
fn monitor_shows_a_waiting_command_when_it_came() {
    let mut rig = Rig::new();
    let (b, monitor) = (rig.connect(), rig.connect());
    rig.run_as(monitor, "MONITOR");
    rig.run_as(b, "BLPOP l 0");
    rig.run("RPUSH l v");
    let shown = String::from_utf8(rig.output(monitor)).unwrap();
    let words: Vec<&str> = shown.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(words, ["BLPOP", "RPUSH"]);
}

#[test]
fn a_waiting_client_shows_what_it_waits_with() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "BLPOP some keys 0");
    let line = rig.run("CLIENT LIST ID 2");
    assert!(
        line.contains(" flags=b ") && line.contains(" cmd=blpop ") && line.contains(" argv-mem=14 "),
        "{line}"
    );
    rig.run("RPUSH keys v");
    let line = rig.run("CLIENT LIST ID 2");
    assert!(line.contains(" flags=N ") && line.contains(" argv-mem=0 "), "{line}");
    let stats = rig.run("INFO commandstats");
    assert!(stats.contains("cmdstat_blpop:calls=1,"), "{stats}");
}

#[test]
fn ten_thousand_clients_wait_for_one_key() {
    let mut rig = Rig::new();
    let clients: Vec<_> = (0..10_000).map(|_| rig.connect()).collect();
    for client in &clients {
        assert_eq!(rig.run_as(*client, "BLPOP l 0"), "");
    }
    rig.check("RPUSH l 1 2 3", ":3");
    assert_eq!(got(&mut rig, clients[2]), "[\"l\", \"3\"]");
    assert_eq!(got(&mut rig, clients[3]), "");
    clients.iter().for_each(|client| rig.engine.disconnect(*client, &mut rig.process));
    assert!(rig.run("INFO clients").contains("total_blocking_keys:0\\r\\n"));
}

#[test]
fn a_client_that_is_lost_takes_nothing() {
    let mut rig = Rig::new();
    let (a, b, c) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_as(a, "BLPOP l 0");
    rig.run_as(b, "WAIT 1 0");
    rig.check("CLIENT PAUSE 1000 WRITE", "+OK");
    assert_eq!(rig.run_as(c, "SET k v"), "");
    for client in [a, b, c] {
        rig.engine.client_lost(client, &mut rig.process);
    }
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.check("RPUSH l v", ":1");
    rig.check("LLEN l", ":1");
    rig.check("EXISTS k", ":0");
    assert_eq!(got(&mut rig, a) + &got(&mut rig, b) + &got(&mut rig, c), "");
}

#[test]
fn a_pause_that_ends_runs_nothing_of_a_killed_client() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.check("CLIENT PAUSE 1000 WRITE", "+OK");
    assert_eq!(rig.run_as(b, "SET k v"), "");
    rig.check("CLIENT KILL ID 2", ":1");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.check("EXISTS k", ":0");
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
}

#[test]
fn who_was_unblocked_is_not_served() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run_as(b, "BLPOP l 0");
    for line in ["MULTI", "RPUSH l v", "CLIENT UNBLOCK 2"] {
        rig.run(line);
    }
    rig.check("EXEC", "[:1, :1]");
    assert_eq!(got(&mut rig, b), "nil-array");
    rig.check("LLEN l", ":1");
}

#[test]
fn those_who_wait_for_a_sorted_set_are_served_in_order() {
    let mut rig = Rig::new();
    let [min, max, many] = [rig.connect(), rig.connect(), rig.connect()];
    for (client, line) in
        [(min, "BZPOPMIN z y 0"), (max, "BZPOPMAX y z 0"), (many, "BZMPOP 0 2 x z MAX COUNT 2")]
    {
        assert_eq!(rig.run_as(client, line), "", "{line}");
    }
    // A list under the key does not serve these clients, because they wait for a sorted set.
    rig.check("RPUSH z a", ":1");
    rig.check("DEL z", ":1");
    assert_eq!(got(&mut rig, min), "");
    rig.check("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5");
    assert_eq!(got(&mut rig, min), "[\"z\", \"a\", \"1\"]");
    assert_eq!(got(&mut rig, max), "[\"z\", \"e\", \"5\"]");
    assert_eq!(got(&mut rig, many), "[\"z\", [[\"d\", \"4\"], [\"c\", \"3\"]]]");
    rig.check("ZRANGE z 0 -1", "[\"b\"]");
    rig.check("DEL z", ":1");
    // Commands that store or rename a set serve the clients, too.
    for (fill, line) in [
        ("ZUNIONSTORE z 1 source", "BZPOPMIN z 0"),
        ("ZRANGESTORE z source 0 -1", "BZPOPMIN z 0"),
        ("RENAME source z", "BZPOPMIN z 0"),
        ("COPY source z", "BZPOPMIN z 0"),
        ("GEOSEARCHSTORE z source FROMLONLAT 0 0 BYRADIUS 30000 km", "BZPOPMIN z 0"),
    ] {
        rig.run("GEOADD source 0 0 m");
        assert_eq!(rig.run_as(min, line), "");
        rig.run(fill);
        assert!(got(&mut rig, min).starts_with("[\"z\", \"m\", "), "{fill}");
        rig.run("DEL source z");
    }
}

#[test]
fn waits_for_a_sorted_set_end_and_propagate_as_in_the_reference() {
    for line in ["BZPOPMIN a b 0.1", "BZPOPMAX a 0.1", "BZMPOP 0.1 1 a MIN"] {
        let mut rig = Rig::new();
        let b = rig.connect();
        assert_eq!(rig.run_as(b, line), "", "{line}");
        rig.pass_ms(105);
        rig.cron();
        assert_eq!(got(&mut rig, b), "nil-array", "{line}");
        // Inside a transaction a command does not wait.
        rig.run("MULTI");
        rig.run(line);
        rig.check("EXEC", "[nil-array]");
    }
    for (line, fed) in [
        ("BZPOPMIN z 0", "ZPOPMIN z"),
        ("BZPOPMAX z 0", "ZPOPMAX z"),
        ("BZMPOP 0 1 z MAX COUNT 5", "ZPOPMAX z 2"),
    ] {
        let mut rig = Rig::new();
        let b = rig.connect();
        rig.run_as(b, line);
        let replica = rig.replica();
        rig.run("ZADD z 1 a 2 b");
        rig.output(b);
        let stream = rig.fed(replica);
        assert!(stream.contains("ZADD z 1 a 2 b") && stream.ends_with(fed), "{stream}");
    }
}

//! Publish/subscribe: receivers of messages, their order, and the commands that a subscriber may send.

use sluice_base::SessionKey;
use sluice_testkit::{Rig, render};

/// The rendered output of a client since the last call, as one line.
fn sent(rig: &mut Rig, client: SessionKey) -> String {
    render(&rig.output(client)).lines().collect::<Vec<_>>().join(" ")
}

/// A rig and a client of this protocol version.
fn listener(proto: &str) -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run_as(client, &format!("HELLO {proto}"));
    (rig, client)
}

/// A subscriber's command, and the bytes of the replies, with `|` for line ends.
const CONFIRMATIONS: &[(&str, &str)] = &[
    ("SUBSCRIBE x y x", "*3|$9|subscribe|$1|x|:1|*3|$9|subscribe|$1|y|:2|*3|$9|subscribe|$1|x|:2|"),
    ("PSUBSCRIBE p*", "*3|$10|psubscribe|$2|p*|:3|"),
    ("SSUBSCRIBE s", "*3|$10|ssubscribe|$1|s|:1|"),
    ("PING", "*2|$4|pong|$0||"),
    ("PING hi", "*2|$4|pong|$2|hi|"),
    ("PING a b", "-ERR wrong number of arguments for 'ping' command|"),
    ("UNSUBSCRIBE x zz", "*3|$11|unsubscribe|$1|x|:2|*3|$11|unsubscribe|$2|zz|:2|"),
    ("UNSUBSCRIBE", "*3|$11|unsubscribe|$1|y|:1|"),
    ("UNSUBSCRIBE", "*3|$11|unsubscribe|$-1|:1|"),
    ("PUNSUBSCRIBE", "*3|$12|punsubscribe|$2|p*|:0|"),
    ("PUNSUBSCRIBE", "*3|$12|punsubscribe|$-1|:0|"),
    ("SUNSUBSCRIBE", "*3|$12|sunsubscribe|$1|s|:0|"),
    ("SUNSUBSCRIBE", "*3|$12|sunsubscribe|$-1|:0|"),
    ("PING", "+PONG|"),
];

#[test]
fn subscribing_is_confirmed_channel_by_channel() {
    let mut rig = Rig::new();
    for (line, expected) in CONFIRMATIONS {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let got = rig.argv(rig.client, &words);
        assert_eq!(String::from_utf8_lossy(&got).replace("\r\n", "|"), *expected, "{line}");
    }
}

#[test]
fn confirmations_and_messages_are_pushes_in_resp3() {
    let (mut rig, client) = listener("3");
    for (line, expected) in [
        (&["UNSUBSCRIBE"][..], ">3|$11|unsubscribe|_|:0|"),
        (&["SUBSCRIBE", "x"], ">3|$9|subscribe|$1|x|:1|"),
        (&["PSUBSCRIBE", "x*"], ">3|$10|psubscribe|$2|x*|:2|"),
        (&["SSUBSCRIBE", "x"], ">3|$10|ssubscribe|$1|x|:1|"),
        (&["PING"], "+PONG|"),
    ] {
        let words: Vec<&[u8]> = line.iter().map(|word| word.as_bytes()).collect();
        let got = rig.argv(client, &words);
        assert_eq!(String::from_utf8_lossy(&got).replace("\r\n", "|"), expected, "{line:?}");
    }
    rig.check("PUBLISH x m", ":2");
    rig.check("SPUBLISH x m", ":1");
    let got = rig.output(client);
    assert_eq!(
        String::from_utf8_lossy(&got).replace("\r\n", "|"),
        ">3|$7|message|$1|x|$1|m|>4|$8|pmessage|$2|x*|$1|x|$1|m|>3|$8|smessage|$1|x|$1|m|"
    );
}

#[test]
fn a_message_reaches_subscribers_of_both_versions_and_nobody_else() {
    let mut rig = Rig::new();
    let [two, three, other] = [(); 3].map(|()| rig.connect());
    rig.run_as(three, "HELLO 3");
    for client in [two, three] {
        rig.run_as(client, "SUBSCRIBE news");
    }
    rig.run_as(other, "SUBSCRIBE other");
    rig.check("PUBLISH news hello", ":2");
    assert_eq!(rig.output(two), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert_eq!(rig.output(three), b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert_eq!(rig.output(other), b"");
    rig.engine.disconnect(three, &mut rig.process);
    rig.check("PUBLISH news again", ":1");
}

#[test]
fn a_large_message_arrives_whole_in_both_versions() {
    let mut rig = Rig::new();
    let [two, three] = [(); 2].map(|()| rig.connect());
    rig.run_as(three, "HELLO 3");
    for client in [two, three] {
        rig.run_as(client, "SUBSCRIBE news");
    }
    let large = vec![b'x'; 100_000];
    rig.argv(rig.client, &[b"PUBLISH", b"news", &large]);
    for (client, kind) in [(two, "*"), (three, ">")] {
        let head = format!("{kind}3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$100000\r\n");
        assert_eq!(rig.output(client), [head.as_bytes(), &large, b"\r\n"].concat());
    }
}

#[test]
fn a_resp2_subscriber_may_only_listen() {
    let mut rig = Rig::new();
    rig.run("SUBSCRIBE x");
    for (line, name) in [
        ("GET k", "get"),
        ("PUBLISH x m", "publish"),
        ("HELLO 3", "hello"),
        ("MULTI", "multi"),
        ("CONFIG GET port", "config|get"),
        ("AUTH x", "auth"),
    ] {
        let error = format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        );
        rig.check(line, &error);
    }
    rig.check("GET", "-ERR wrong number of arguments for 'get' command");
    rig.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of: Can't execute 'exec': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / \
         PING / QUIT / RESET are allowed in this context",
    );
    rig.check("RESET", "+RESET");
    rig.check("GET k", "nil");
    rig.check("PUBLISH x m", ":0");
    rig.run("SSUBSCRIBE x");
    assert!(rig.run("GET k").starts_with("-ERR Can't"), "shard channels count");
    rig.run("SUNSUBSCRIBE");
    rig.check("GET k", "nil");
}

#[test]
fn a_subscriber_that_turns_to_resp2_may_only_listen() {
    let (mut rig, client) = listener("3");
    rig.run_as(client, "SUBSCRIBE x");
    assert_eq!(rig.run_as(client, "GET k"), "null");
    rig.run_as(client, "HELLO 2");
    assert!(rig.run_as(client, "GET k").starts_with("-ERR Can't"));
}

#[test]
fn what_a_client_publishes_to_itself_comes_behind_the_reply() {
    let (mut rig, client) = listener("3");
    rig.run_as(client, "SUBSCRIBE x");
    assert_eq!(
        rig.argv(client, &[b"PUBLISH", b"x", b"m"]),
        b":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n"
    );
    let both = rig.bytes(client, b"PUBLISH x m\r\nPING\r\n");
    assert_eq!(both, b":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n+PONG\r\n");
}

#[test]
fn messages_of_a_transaction_to_oneself_come_behind_it_and_confirmations_within() {
    let mut rig = Rig::new();
    for line in ["MULTI", "SUBSCRIBE x", "PUBLISH x hello", "PING"] {
        rig.run(line);
    }
    let got = rig.argv(rig.client, &[b"EXEC"]);
    assert_eq!(
        String::from_utf8_lossy(&got).replace("\r\n", "|"),
        "*3|*3|$9|subscribe|$1|x|:1|:1|*2|$4|pong|$0||*3|$7|message|$1|x|$5|hello|"
    );
    assert!(rig.run("GET k").starts_with("-ERR Can't"));
}

#[test]
fn messages_and_confirmations_are_sent_though_replies_are_off() {
    let (mut rig, client) = listener("3");
    assert_eq!(rig.run_as(client, "CLIENT REPLY OFF"), "");
    assert_eq!(rig.argv(client, &[b"SUBSCRIBE", b"x"]), b">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n");
    assert_eq!(rig.argv(client, &[b"PUBLISH", b"x", b"n"]), b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nn\r\n");
    rig.run("PUBLISH x m");
    assert_eq!(rig.output(client), b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n");
    assert_eq!(rig.run_as(client, "CLIENT REPLY ON"), "+OK");
    assert_eq!(rig.run_as(client, "CLIENT REPLY SKIP"), "");
    assert_eq!(rig.argv(client, &[b"UNSUBSCRIBE"]), b">3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n");
    assert_eq!(rig.run_as(client, "PING"), "+PONG");
}

#[test]
fn pubsub_tells_what_is_subscribed_to() {
    let (mut rig, client) = listener("3");
    let other = rig.connect();
    rig.run_as(client, "SUBSCRIBE x y");
    rig.run_as(client, "SSUBSCRIBE s");
    rig.run_as(other, "SUBSCRIBE x");
    rig.run_as(other, "PSUBSCRIBE a* b*");
    rig.run_as(client, "PSUBSCRIBE a*");
    for (line, expected) in [
        ("PUBSUB CHANNELS", "[\"x\", \"y\"]"),
        ("PUBSUB CHANNELS x*", "[\"x\"]"),
        ("PUBSUB CHANNELS q", "[]"),
        ("PUBSUB NUMSUB", "[]"),
        ("PUBSUB NUMSUB x q y", "[\"x\", :2, \"q\", :0, \"y\", :1]"),
        ("PUBSUB NUMPAT", ":2"),
        ("PUBSUB SHARDCHANNELS", "[\"s\"]"),
        ("PUBSUB SHARDCHANNELS x", "[]"),
        ("PUBSUB SHARDNUMSUB s t", "[\"s\", :1, \"t\", :0]"),
        ("PUBSUB", "-ERR wrong number of arguments for 'pubsub' command"),
        ("PUBSUB foo", "-ERR unknown subcommand 'foo'. Try PUBSUB HELP."),
        (
            "PUBSUB CHANNELS a b",
            "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
        ),
        ("PUBSUB NUMPAT x", "-ERR wrong number of arguments for 'pubsub|numpat' command"),
    ] {
        rig.check(line, expected);
    }
    assert!(rig.run("PUBSUB HELP").contains("SHARDNUMSUB"));
    let info = rig.run("INFO everything");
    for field in ["pubsub_clients:2", "pubsub_channels:2", "pubsub_patterns:2", "pubsubshard_channels:1"] {
        assert!(info.contains(field), "{field}");
    }
    let list = rig.run("CLIENT LIST TYPE pubsub");
    assert!(list.contains("flags=P ") && list.contains("sub=2 psub=1 ssub=1 "), "{list}");
    assert!(list.contains("sub=1 psub=2 ssub=0 "), "{list}");
    rig.engine.disconnect(client, &mut rig.process);
    rig.engine.disconnect(other, &mut rig.process);
    let info = rig.run("INFO everything");
    for field in ["pubsub_clients:0", "pubsub_channels:0", "pubsub_patterns:0", "pubsubshard_channels:0"] {
        assert!(info.contains(field), "{field}");
    }
}

#[test]
fn subscriptions_count_in_the_memory_of_a_client() {
    let (mut rig, client) = listener("3");
    let id = rig.run_as(client, "CLIENT ID").split_off(1);
    let memory = |rig: &mut Rig| {
        // Another client requests the list, because the client's own replies would be in the way.
        let line = rig.run(&format!("CLIENT LIST ID {id}"));
        let at = line.find("tot-mem=").expect("a field") + "tot-mem=".len();
        line[at..].split(' ').next().and_then(|number| number.parse::<usize>().ok()).expect("a number")
    };
    let before = memory(&mut rig);
    let name = "n".repeat(5000);
    rig.run_as(client, &format!("SUBSCRIBE {name}"));
    assert!(memory(&mut rig) >= before + 5000);
    rig.run_as(client, "UNSUBSCRIBE");
    assert_eq!(memory(&mut rig), before);
}

#[test]
fn kinds_of_clients_tell_subscribers_apart() {
    let (mut rig, client) = listener("2");
    rig.run_as(client, "SUBSCRIBE x");
    rig.check("CLIENT KILL TYPE pubsub", ":1");
    assert!(rig.is_closing(client));
    rig.check("PUBLISH x m", ":0");
    rig.engine.disconnect(client, &mut rig.process);
    rig.check("PUBSUB NUMSUB x", "[\"x\", :0]");
    rig.check("CLIENT KILL TYPE pubsub", ":0");
}

#[test]
fn a_subscriber_that_never_reads_is_cut_at_its_limit_and_others_are_not() {
    let mut rig = Rig::with(&[("client-output-buffer-limit", "pubsub 10000 0 0")]);
    let [slow, quick] = [(); 2].map(|()| rig.connect());
    for client in [slow, quick] {
        rig.run_as(client, "SUBSCRIBE news");
    }
    let message = "m".repeat(1000);
    for _ in 0..9 {
        rig.check(&format!("PUBLISH news {message}"), ":2");
        rig.output(quick);
    }
    assert!(!rig.is_closing(slow), "9 messages of 1,038 bytes are below the limit");
    rig.check(&format!("PUBLISH news {message}"), ":2");
    assert!(rig.is_closing(slow));
    assert!(!rig.is_closing(quick));
    assert!(rig.run("INFO stats").contains("client_output_buffer_limit_disconnections:1"));
    let said = rig
        .process
        .log
        .iter()
        .any(|(_, line)| line.contains("scheduled to be closed ASAP for overcoming of output"));
    assert!(said, "{:?}", rig.process.log);
    let mut closed = Vec::new();
    rig.engine.take_to_close(&mut closed);
    assert_eq!(closed, [slow]);
}

#[test]
fn one_transaction_does_not_take_a_subscriber_far_beyond_its_limit() {
    let mut rig = Rig::with(&[("client-output-buffer-limit", "pubsub 10000 0 0")]);
    let slow = rig.connect();
    rig.run_as(slow, "SUBSCRIBE news");
    rig.run("MULTI");
    let message = "m".repeat(1000);
    for _ in 0..1000 {
        rig.run(&format!("PUBLISH news {message}"));
    }
    rig.run("EXEC");
    assert!(rig.is_closing(slow));
    let bytes = rig.engine.session(slow).map(|session| session.output_bytes());
    assert!(bytes.is_some_and(|bytes| bytes < 12_000), "{bytes:?}");
}

#[test]
fn a_subscriber_is_no_idle_client() {
    let mut rig = Rig::with(&[("timeout", "1")]);
    let client = rig.connect();
    rig.run_as(client, "SUBSCRIBE x");
    let idle = rig.connect();
    for _ in 0..60 {
        rig.pass_ms(100);
        rig.run("PING");
        rig.cron();
    }
    assert!(rig.is_closing(idle));
    assert!(!rig.is_closing(client));
}

#[test]
fn replicas_are_told_what_is_published() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    rig.run("PUBLISH x m");
    rig.run("SPUBLISH s m");
    rig.run("SUBSCRIBE x");
    assert_eq!(rig.fed(replica), "PUBLISH x m; SPUBLISH s m");
    rig.run("UNSUBSCRIBE");
    for line in ["MULTI", "SET k v", "PUBLISH x m", "EXEC"] {
        rig.run(line);
    }
    assert_eq!(rig.fed(replica), "MULTI; SET k v; PUBLISH x m; EXEC");
    assert!(rig.run("INFO persistence").contains("rdb_changes_since_last_save:1"));
}

#[test]
fn publishing_waits_for_the_end_of_a_pause_of_writes() {
    let (mut rig, client) = listener("2");
    rig.run_as(client, "SUBSCRIBE x");
    rig.run("CLIENT PAUSE 1000 WRITE");
    rig.check("PUBLISH x m", "");
    assert_eq!(rig.output(client), b"");
    rig.pass_ms(2000);
    rig.cron();
    assert_ne!(rig.output(client), b"");
}

#[test]
fn monitors_see_subscribing_and_publishing() {
    let mut rig = Rig::new();
    let monitor = rig.connect();
    rig.run_as(monitor, "MONITOR");
    rig.run("PUBLISH x m");
    rig.run("SUBSCRIBE x");
    let lines = sent(&mut rig, monitor);
    assert!(lines.contains("\"PUBLISH\" \"x\" \"m\"") && lines.contains("\"SUBSCRIBE\" \"x\""), "{lines}");
}

#[test]
fn a_client_that_ends_or_became_a_replica_is_sent_nothing() {
    let (mut rig, client) = listener("3");
    rig.run_as(client, "SUBSCRIBE x");
    rig.engine.feed(client);
    rig.check("PUBLISH x m", ":1");
    assert!(rig.is_closing(client), "a message in its stream would be a command");
    let (mut rig, client) = listener("3");
    rig.run_as(client, "SUBSCRIBE x");
    rig.argv_unread(client, &[b"QUIT"]);
    rig.check("PUBLISH x m", ":1");
    assert_eq!(rig.output(client), b"+OK\r\n");
}

/// Confirmations are arrays in RESP2 and pushes in RESP3, also within EXEC's array, as in the reference.
#[test]
fn the_array_of_exec_has_one_value_of_each_subscription_that_is_queued() {
    let cases: &[(&[&str], &str)] = &[
        (&["SUBSCRIBE a", "GET q"], "*2|*3|$9|subscribe|$1|a|:1|$-1|"),
        (
            &["SUBSCRIBE a b c", "INCR k"],
            "*2|*3|$9|subscribe|$1|a|:1|:1|*3|$9|subscribe|$1|b|:2|*3|$9|subscribe|$1|c|:3|",
        ),
        (
            &["PSUBSCRIBE a b", "SUBSCRIBE c d", "GET q"],
            "*3|*3|$10|psubscribe|$1|a|:1|*3|$9|subscribe|$1|c|:3|$-1|\
             *3|$10|psubscribe|$1|b|:2|*3|$9|subscribe|$1|d|:4|",
        ),
        (
            &["SUBSCRIBE a b", "UNSUBSCRIBE", "UNSUBSCRIBE", "ECHO x"],
            "*4|*3|$9|subscribe|$1|a|:1|*3|$11|unsubscribe|$1|a|:1|*3|$11|unsubscribe|$-1|:0|$1|x|\
             *3|$9|subscribe|$1|b|:2|*3|$11|unsubscribe|$1|b|:0|",
        ),
        (
            &["PSUBSCRIBE a b", "PUNSUBSCRIBE a b", "SUNSUBSCRIBE a b"],
            "*3|*3|$10|psubscribe|$1|a|:1|*3|$12|punsubscribe|$1|a|:1|*3|$12|sunsubscribe|$1|a|:0|\
             *3|$10|psubscribe|$1|b|:2|*3|$12|punsubscribe|$1|b|:0|*3|$12|sunsubscribe|$1|b|:0|",
        ),
        (&["SSUBSCRIBE a b", "GET q"], "*2|-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client|$-1|"),
        (
            &["SUBSCRIBE a b", "PUBLISH b m"],
            "*2|*3|$9|subscribe|$1|a|:1|:1|*3|$9|subscribe|$1|b|:2|*3|$7|message|$1|b|$1|m|",
        ),
    ];
    for proto in ["2", "3"] {
        for (lines, expected) in cases {
            let (mut rig, client) = listener(proto);
            rig.run_as(client, "MULTI");
            for line in *lines {
                rig.check_as(client, line, "+QUEUED");
            }
            let got = String::from_utf8(rig.argv(client, &[b"EXEC"])).unwrap().replace("\r\n", "|");
            let expected = match proto {
                "2" => (*expected).to_owned(),
                _ => expected.replace("*3|$", ">3|$").replace("$-1|", "_|"),
            };
            // The head of EXEC's own array is that of an array in both protocols.
            let head = format!("*{}|", lines.len());
            assert_eq!(got, head + expected.split_once('|').unwrap().1, "{lines:?}");
        }
    }
}

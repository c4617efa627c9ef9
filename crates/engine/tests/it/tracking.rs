//! Tests of CLIENT TRACKING: the receivers and the order of invalidations, and that no client keeps a stale
//! copy.

use sluice_base::{Rng, SessionKey};
use sluice_replication::HistoryPoint;
use sluice_testkit::{Rig, RigLink, render};
use std::collections::BTreeMap;

/// The output of a client since the last call, as one line with `|` for line ends.
fn told(rig: &mut Rig, client: SessionKey) -> String {
    String::from_utf8_lossy(&rig.output(client)).replace("\r\n", "|")
}

/// A rig whose first client writes, and a client in RESP3 that tracks with these options.
fn tracker(options: &str) -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run_as(client, "HELLO 3");
    assert_eq!(rig.run_as(client, &format!("CLIENT TRACKING ON {options}")), "+OK");
    (rig, client)
}

/// The push that invalidates one key.
fn push(key: &str) -> String {
    format!(">2|$10|invalidate|*1|${}|{key}|", key.len())
}

/// The push that invalidates all keys.
const ALL: &str = ">2|$10|invalidate|_|";

/// Each row has a preparation, a command by which the tracking client reads keys, a command of another
/// client, and the keys that are then reported to the reader.
const CHANGES: &[(&str, &str, &str, &[&str])] = &[
    ("", "GET k", "SET k 1", &["k"]),
    ("SET k 1", "GET k", "SET k 1", &["k"]),
    ("SET k 1", "GET k", "GET k", &[]),
    ("SET k 1", "GET k", "DEL k", &["k"]),
    ("SET k 1", "GET k", "DEL q", &[]),
    ("SET k 1", "GET k", "EXPIRE k 100", &["k"]),
    ("SET k 1", "MGET k q", "RENAME k q", &["k", "q"]),
    ("SET k 1", "GET k", "MOVE k 3", &["k"]),
    ("SET k 1", "MGET k q", "COPY k q", &["q"]),
    ("SET k 1", "MGET k q z", "MSET z 1 k 2", &["z", "k"]),
    ("SET k 1", "GET k", "EVAL \"return redis.call('set', 'k', 2)\" 0", &["k"]),
    ("HSET k a 1", "HGETALL k", "HDEL k a", &["k"]),
    ("XADD k 1-1 a b", "XLEN k", "XGROUP CREATE k g 0", &["k"]),
    ("XADD k 1-1 a b", "XRANGE k - +", "XADD k 2-1 a b", &["k"]),
    ("SADD k a", "SMEMBERS k", "SINTERSTORE q k k", &[]),
    ("SADD k a", "SINTER k q", "SINTERSTORE q k k", &["q"]),
    ("PFADD k a", "PFCOUNT k", "PFADD k b", &["k"]),
    // Whether the keys of a command that fails or may write are remembered follows the reference.
    ("LPUSH k a", "GET k", "LPUSH k b", &["k"]),
    ("SET k 1", "GETEX k", "SET k 2", &[]),
    ("SET k 1", "OBJECT ENCODING k", "SET k 2", &["k"]),
    ("XADD k 1-1 a b", "XREAD BLOCK 100 STREAMS k 1-1", "SET q 1", &[]),
    ("", "SPUBLISH k m", "SET k 1", &[]),
    // The keys read by a script are remembered, not the declared ones.
    ("", "EVAL \"return redis.call('get', 'q')\" 1 k", "MSET k 1 q 1", &["q"]),
    ("", "EVAL_RO \"return redis.call('get', 'q')\" 1 k", "MSET k 1 q 1", &["q"]),
    ("", "EVAL_RO \"return 1\" 1 k", "MSET k 1 q 1", &[]),
];

#[test]
fn readers_are_told_of_the_keys_that_change() {
    for (before, read, write, keys) in CHANGES {
        let (mut rig, client) = tracker("");
        if !before.is_empty() {
            rig.run(before);
        }
        rig.run_as(client, read);
        rig.run(write);
        let expected: String = keys.iter().map(|key| push(key)).collect();
        assert_eq!(told(&mut rig, client), expected, "{before}; {read}; {write}");
        // A key that was not read again is not reported again.
        rig.run(write);
        assert_eq!(told(&mut rig, client), "", "{before}; {read}; {write}; again");
    }
}

#[test]
fn a_change_in_any_database_is_told() {
    let (mut rig, client) = tracker("");
    rig.run_as(client, "GET k");
    rig.run("SELECT 9");
    rig.run("SET k 1");
    assert_eq!(told(&mut rig, client), push("k"));
}

#[test]
fn whoever_changes_is_told_behind_the_reply_of_the_unit() {
    let (mut rig, client) = tracker("");
    rig.run_as(client, "MGET a b");
    rig.argv_unread(client, &[b"SET", b"a", b"1"]);
    assert_eq!(told(&mut rig, client), format!("+OK|{}", push("a")));
    // Replies to a script's calls are in another protocol than the client's.
    rig.run_as(client, "GET a");
    rig.argv_unread(client, &[b"EVAL", b"return redis.call('incr', 'a')", b"0"]);
    assert_eq!(told(&mut rig, client), format!(":2|{}", push("a")));
    rig.run_as(client, "MULTI");
    rig.run_as(client, "SET b 1");
    rig.run_as(client, "GET b");
    rig.run_as(client, "FLUSHDB");
    rig.argv_unread(client, &[b"EXEC"]);
    assert_eq!(told(&mut rig, client), format!("*3|+OK|$1|1|+OK|{}{ALL}", push("b")));
}

#[test]
fn with_noloop_own_changes_are_not_told_but_those_of_nobody() {
    let (mut rig, client) = tracker("NOLOOP");
    rig.run_as(client, "MGET a b");
    rig.run_as(client, "SET a 1");
    rig.run("SET a 2");
    assert_eq!(told(&mut rig, client), "", "its own change has taken the row away");
    rig.run("SET b 2");
    assert_eq!(told(&mut rig, client), push("b"));
    // An expiry has no writer, even if a read has caused it.
    rig.run_as(client, "SET e 1 PX 10");
    rig.run_as(client, "GET e");
    rig.pass_ms(20);
    rig.argv_unread(client, &[b"GET", b"e"]);
    assert_eq!(told(&mut rig, client), format!("_|{}", push("e")));
    rig.argv_unread(client, &[b"FLUSHALL"]);
    assert_eq!(told(&mut rig, client), format!("+OK|{ALL}"));
}

#[test]
fn optin_and_optout_are_for_the_next_command_or_transaction() {
    for (options, caching, expected) in [("OPTIN", "YES", true), ("OPTOUT", "NO", false)] {
        let (mut rig, client) = tracker(options);
        let run = |rig: &mut Rig, lines: &[&str]| {
            lines.iter().for_each(|line| drop(rig.run_as(client, line)));
            rig.run("SET k 1");
            told(rig, client) == push("k")
        };
        let caching = format!("CLIENT CACHING {caching}");
        assert_eq!(run(&mut rig, &["GET k"]), !expected, "{options}");
        assert_eq!(run(&mut rig, &[&caching, "GET k"]), expected, "{options}");
        assert_eq!(run(&mut rig, &[&caching, "CLIENT ID", "GET k"]), expected, "{options}");
        // A request that is no command counts as the next command, too.
        for between in ["PING", "NOSUCH", "GET"] {
            assert_eq!(run(&mut rig, &[&caching, between, "GET k"]), !expected, "{options}, {between}");
        }
        assert_eq!(run(&mut rig, &[&caching, "MULTI", "GET q", "GET k", "EXEC"]), expected, "{options}");
        assert_eq!(run(&mut rig, &["MULTI", &caching, "GET k", "EXEC"]), expected, "{options}");
        assert_eq!(run(&mut rig, &["GET k"]), !expected, "{options}");
        let script = "EVAL \"redis.call('get', 'q') return redis.call('get', 'k')\" 0";
        assert_eq!(run(&mut rig, &[&caching, script]), expected, "{options}");
    }
}

#[test]
fn what_caching_has_said_outlives_that_tracking_is_asked_for_again() {
    for (options, caching, flag) in [("OPTIN", "YES", "caching-yes"), ("OPTOUT", "NO", "caching-no")] {
        let (mut rig, client) = tracker(options);
        rig.run_as(client, &format!("CLIENT CACHING {caching}"));
        assert_eq!(rig.run_as(client, &format!("CLIENT TRACKING ON {options} NOLOOP")), "+OK");
        let info = rig.run_as(client, "CLIENT TRACKINGINFO");
        assert!(info.contains(flag), "{info}");
        rig.run_as(client, "GET k");
        rig.run("SET k 1");
        assert_eq!(told(&mut rig, client), if options == "OPTIN" { push("k") } else { String::new() });
        let info = rig.run_as(client, "CLIENT TRACKINGINFO");
        assert!(!info.contains(flag), "{info}");
    }
}

#[test]
fn prefixes_are_told_at_the_end_of_the_iteration() {
    let (mut rig, client) = tracker("BCAST PREFIX a PREFIX b NOLOOP");
    let [all, own] = [rig.connect(), rig.connect()];
    for other in [all, own] {
        rig.run_as(other, "HELLO 3");
    }
    rig.run_as(all, "CLIENT TRACKING ON BCAST");
    for line in ["MSET b2 1 b1 1 c 1 a1 1", "SET b1 2", "INCR b1"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        rig.argv_unread(rig.client, &words);
    }
    let two = ">2|$10|invalidate|*2|$2|b1|$2|b2|";
    assert_eq!(told(&mut rig, client), format!("{}{two}", push("a1")));
    assert_eq!(told(&mut rig, all), ">2|$10|invalidate|*4|$2|a1|$2|b1|$2|b2|$1|c|");
    // Keys that a client has written itself are left out of its own array, unless another client
    // wrote them too.
    rig.argv_unread(client, &[b"MSET", b"b1", b"1", b"b2", b"1"]);
    rig.argv_unread(rig.client, &[b"SET", b"b2", b"1"]);
    assert_eq!(told(&mut rig, client), format!("+OK|{}", push("b2")));
    assert_eq!(told(&mut rig, all), two);
    let info = rig.run("INFO stats");
    assert!(info.contains("tracking_total_prefixes:3"), "{info}");
    rig.run_as(client, "CLIENT TRACKING OFF");
    rig.run_as(all, "RESET");
    let info = rig.run("INFO stats");
    assert!(info.contains("tracking_total_prefixes:0"), "{info}");
    rig.run("SET b1 3");
    assert_eq!(told(&mut rig, client), "");
}

/// A key changes, then a client begins to track the key's prefix, then the key changes again, all in one
/// iteration.
#[test]
fn a_prefix_that_joins_in_an_iteration_is_told_what_changes_behind_that() {
    let begin = b"CLIENT TRACKING ON BCAST PREFIX foo\r\n";
    for before in [&b"CLIENT TRACKING OFF\r\n"[..], b"RESET\r\nHELLO 3\r\n", b""] {
        let mut rig = Rig::new();
        let [client, other] = [rig.connect(), rig.connect()];
        for of in [client, other] {
            rig.run_as(of, "HELLO 3");
        }
        rig.run_as(other, "CLIENT TRACKING ON BCAST");
        if !before.is_empty() {
            rig.run_as(client, "CLIENT TRACKING ON BCAST PREFIX foo");
        }
        let requests = [b"SET foo 1\r\n", before, begin, b"GET foo\r\nSET foo 2\r\n"].concat();
        let got = String::from_utf8(rig.bytes(client, &requests)).unwrap().replace("\r\n", "|");
        assert!(got.ends_with(&format!("$1|1|+OK|{}", push("foo"))), "{got}");
        assert_eq!(told(&mut rig, other), push("foo"), "once");
    }
}

#[test]
fn a_redirection_tells_another_client_and_a_broken_one_is_told() {
    let mut rig = Rig::new();
    let [client, target] = [rig.connect(), rig.connect()];
    assert_eq!(rig.run_as(client, "CLIENT TRACKING ON REDIRECT 3"), "+OK");
    rig.check_as(client, "CLIENT GETREDIR", ":3");
    let read_and_change = |rig: &mut Rig| {
        rig.run_as(client, "GET k");
        rig.run("INCR k");
        (told(rig, client), told(rig, target))
    };
    // In RESP2 a client that has subscribed to nothing would take a message for a reply.
    assert_eq!(read_and_change(&mut rig), (String::new(), String::new()));
    rig.run_as(target, "SUBSCRIBE __redis__:invalidate");
    let message = "*3|$7|message|$20|__redis__:invalidate|*1|$1|k|";
    assert_eq!(read_and_change(&mut rig), (String::new(), message.to_owned()));
    rig.run("FLUSHALL");
    assert_eq!(told(&mut rig, target), "*3|$7|message|$20|__redis__:invalidate|$-1|");
    rig.run_as(target, "UNSUBSCRIBE");
    rig.run_as(target, "HELLO 3");
    assert_eq!(read_and_change(&mut rig), (String::new(), push("k")));
    let line = rig.run_as(client, "CLIENT INFO");
    assert!(line.contains(" flags=t ") && line.contains(" redir=3 "), "{line}");

    rig.engine.disconnect(target, &mut rig.process);
    rig.run_as(client, "GET k");
    rig.run("INCR k");
    assert_eq!(told(&mut rig, client), "", "RESP2 has no pushes");
    let line = rig.run_as(client, "CLIENT INFO");
    assert!(line.contains(" flags=tR "), "{line}");
    rig.run_as(client, "HELLO 3");
    rig.run_as(client, "GET k");
    rig.run("INCR k");
    assert_eq!(told(&mut rig, client), ">2|$21|tracking-redir-broken|:3|");
    rig.check_as(
        client,
        "CLIENT TRACKINGINFO",
        "{\"flags\": ~[\"on\", \"broken_redirect\"], \"redirect\": :3, \"prefixes\": []}",
    );
}

#[test]
fn what_goes_without_a_command_is_told() {
    let (mut rig, client) = tracker("");
    rig.run("SET e 1 PX 10");
    rig.run_as(client, "GET e");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(told(&mut rig, client), push("e"));
    for line in ["FLUSHDB", "FLUSHALL", "SWAPDB 0 3", "DEBUG RELOAD"] {
        rig.run_as(client, "GET k");
        rig.run(line);
        let got = told(&mut rig, client);
        assert!(!got.is_empty() && got.replace(ALL, "").is_empty(), "{line}: {got}");
        rig.run("SET k 1");
        assert_eq!(told(&mut rig, client), "", "{line} has forgotten all keys");
    }
    rig.run("SWAPDB 0 0");
    assert_eq!(told(&mut rig, client), "");

    rig.run("CONFIG SET maxmemory-policy allkeys-random");
    rig.run("SET k 1");
    rig.run_as(client, "GET k");
    rig.run("CONFIG SET maxmemory 1");
    rig.end_iteration();
    assert_eq!(told(&mut rig, client), push("k"));
}

#[test]
fn a_replica_tells_what_its_primary_changes() {
    let mut rig = Rig::new();
    assert_eq!(rig.run("REPLICAOF 10.0.0.1 6379"), "+OK");
    let point = HistoryPoint { replid: "a".repeat(40), offset: 100 };
    rig.engine.adopt_history(point, &mut rig.process);
    let primary = RigLink::streaming(&mut rig);
    let client = rig.connect();
    rig.run_as(client, "HELLO 3");
    rig.run_as(client, "CLIENT TRACKING ON");
    rig.run_as(client, "GET k");
    rig.argv(primary, &[b"SET", b"k", b"1"]);
    assert_eq!(told(&mut rig, client), push("k"));
}

#[test]
fn the_table_has_a_bound_and_its_victims_are_named() {
    let (mut rig, client) = tracker("");
    rig.run("CONFIG SET tracking-table-max-keys 10");
    rig.run("MSET there1 1 there2 2");
    let mut known: Vec<String> = Vec::new();
    for number in 0..40 {
        let key = if number < 2 { format!("there{}", number + 1) } else { format!("absent{number}") };
        let got = rig.argv(client, &[b"GET", key.as_bytes()]);
        known.push(key);
        let got = String::from_utf8_lossy(&got).replace("\r\n", "|");
        let victims: Vec<String> = known.iter().filter(|key| got.contains(&push(key))).cloned().collect();
        assert_eq!(got.matches("invalidate").count(), victims.len(), "{got}");
        known.retain(|key| !victims.contains(key));
        assert!(known.len() <= 10, "{known:?}");
    }
    assert_eq!(known.len(), 10);
    let info = rig.run("INFO stats");
    assert!(info.contains("tracking_total_keys:10") && info.contains("tracking_total_items:10"), "{info}");
    // A lowered bound takes effect at the end of the iteration.
    rig.run("CONFIG SET tracking-table-max-keys 3");
    rig.end_iteration();
    assert_eq!(told(&mut rig, client).matches("invalidate").count(), 7);
}

#[test]
fn nothing_is_left_of_a_client_that_has_ended() {
    let (mut rig, stays) = tracker("");
    let goes = rig.connect();
    rig.run_as(goes, "HELLO 3");
    rig.run_as(goes, "CLIENT TRACKING ON");
    for number in 0..5000 {
        rig.argv(goes, &[b"GET", format!("k{number}").as_bytes()]);
    }
    rig.run_as(stays, "GET k7");
    rig.engine.disconnect(goes, &mut rig.process);
    for _ in 0..2000 {
        rig.end_iteration();
    }
    let info = rig.run("INFO stats");
    assert!(info.contains("tracking_total_keys:1") && info.contains("tracking_total_items:1"), "{info}");
    rig.run("SET k7 1");
    assert_eq!(told(&mut rig, stays), push("k7"));
    rig.run_as(stays, "CLIENT TRACKING OFF");
    for _ in 0..2000 {
        rig.end_iteration();
    }
    let parts = rig.engine.memory_parts();
    let tracking = parts.iter().find(|part| part.0 == "tracking").unwrap();
    assert!(tracking.1 < 64, "{tracking:?}");
}

#[test]
fn nothing_is_left_of_keys_that_a_flush_has_emptied() {
    let (mut rig, client) = tracker("");
    for number in 0..5000 {
        rig.argv(client, &[b"EXISTS", format!("k{number}").as_bytes()]);
    }
    let tracked = |rig: &Rig| rig.engine.memory_parts().iter().find(|part| part.0 == "tracking").unwrap().1;
    let before = tracked(&rig);
    rig.run("FLUSHALL");
    told(&mut rig, client);
    for _ in 0..2000 {
        rig.end_iteration();
    }
    assert!(tracked(&rig) < before / 50, "{} of {before}", tracked(&rig));
    // The flush also emptied the filter of tracked keys (`KeyFilter`), which must still register keys that
    // are read afterwards.
    rig.run_as(client, "GET k7");
    rig.run("SET k7 1");
    assert_eq!(told(&mut rig, client), push("k7"));
}

/// A client with many prefixes turns tracking off, and its prefixes are removed in slices. A prefix that the
/// client registers again before the end of the removal is not removed with them.
#[test]
fn prefixes_of_a_client_that_has_ended_are_removed_in_slices() {
    let (mut rig, stays) = tracker("BCAST PREFIX k1 PREFIX q");
    let goes = rig.connect();
    rig.run_as(goes, "HELLO 3");
    let names: Vec<String> = (0..1000).map(|number| format!("PREFIX k{number:04}")).collect();
    let begin = format!("CLIENT TRACKING ON BCAST {}\r\n", names.join(" "));
    rig.bytes(goes, begin.as_bytes());
    let count = |rig: &Rig| {
        let parts = rig.engine.memory_parts();
        parts.iter().find(|part| part.0 == "tracking").unwrap().1
    };
    let before = count(&rig);
    rig.argv_unread(goes, &[b"CLIENT", b"TRACKING", b"OFF"]);
    assert!(count(&rig) > before / 2, "one step would remove all");
    rig.argv_unread(goes, &[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", b"k0007"]);
    for _ in 0..100 {
        rig.end_iteration();
    }
    let info = rig.run("INFO stats");
    assert!(info.contains("tracking_total_prefixes:3"), "{info}");
    rig.output(goes);
    rig.run("MSET k0007x 1 k0008x 1 k1x 1");
    assert_eq!(told(&mut rig, goes), push("k0007x"));
    assert_eq!(told(&mut rig, stays), push("k1x"));
}

#[test]
fn the_names_of_prefixes_count_as_memory_of_their_client() {
    let (mut rig, client) = tracker("BCAST PREFIX a");
    let bytes = |rig: &mut Rig| {
        let line = rig.run("CLIENT LIST ID 2");
        let (_, rest) = line.split_once(" tot-mem=").unwrap();
        rest.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let before = bytes(&mut rig);
    let name = "x".repeat(10_000);
    rig.run_as(client, &format!("CLIENT TRACKING ON BCAST PREFIX {name}"));
    let with = bytes(&mut rig);
    assert!((before + 10_000..before + 11_000).contains(&with), "{before}, {with}");
    rig.run_as(client, &format!("CLIENT TRACKING ON BCAST PREFIX {name}"));
    assert_eq!(bytes(&mut rig), with, "once");
    rig.run_as(client, "CLIENT TRACKING OFF");
    assert!(bytes(&mut rig) < before);
}

#[test]
fn nothing_is_left_of_what_the_last_client_would_have_been_told() {
    let (mut rig, client) = tracker("BCAST PREFIX a");
    let mut requests = Vec::new();
    for number in 0..1000 {
        requests.extend_from_slice(format!("SET a{number} 1\r\n").as_bytes());
    }
    requests.extend_from_slice(b"CLIENT TRACKING OFF\r\n");
    rig.bytes(client, &requests);
    let parts = rig.engine.memory_parts();
    let tracking = parts.iter().find(|part| part.0 == "tracking").unwrap();
    assert!(tracking.1 < 64, "{tracking:?}");
}

/// An invalidation waits for the reply of a slow read, whether it goes to the reading client itself, whose
/// output must stay in order, or to another client.
#[test]
fn a_slow_reply_is_not_overtaken() {
    for redirect in [false, true] {
        let mut rig = Rig::with(&[("slow-read-elements", "10")]);
        let words: Vec<String> = (0..100).map(|number| format!("element:{number}")).collect();
        rig.run(&format!("RPUSH l {}", words.join(" ")));
        let [client, target] = [rig.connect(), rig.connect()];
        for of in [client, target] {
            rig.run_as(of, "HELLO 3");
        }
        let (options, receiver) = if redirect { ("REDIRECT 3", target) } else { ("", client) };
        rig.run_as(client, &format!("CLIENT TRACKING ON {options}"));
        rig.run_as(client, "GET other");
        rig.holds_reads = true;
        assert_eq!(rig.run_as(client, "LRANGE l 0 -1"), "");
        rig.run("LPUSH l new");
        rig.run("SET other 1");
        assert_eq!(told(&mut rig, receiver), "", "redirect: {redirect}");
        rig.finish_read();
        let own = told(&mut rig, client);
        let pushes = format!("{}{}", push("l"), push("other"));
        if redirect {
            assert!(own.starts_with("*100|") && own.ends_with("element:99|"), "{own}");
            assert_eq!(told(&mut rig, target), pushes);
        } else {
            assert!(own.starts_with("*100|") && own.ends_with(&format!("element:99|{pushes}")), "{own}");
        }
        rig.run("LPUSH l newer");
        assert_eq!(told(&mut rig, receiver), "");
    }
}

#[test]
fn a_client_that_redirects_while_too_much_waits_drops_all() {
    let mut rig = Rig::with(&[("slow-read-elements", "10")]);
    let words: Vec<String> = (0..100).map(|number| format!("element:{number}")).collect();
    rig.run(&format!("RPUSH l {}", words.join(" ")));
    let [client, target] = [rig.connect(), rig.connect()];
    rig.run_as(target, "HELLO 3");
    rig.run_as(client, "CLIENT TRACKING ON BCAST REDIRECT 3");
    rig.holds_reads = true;
    rig.run_as(client, "LRANGE l 0 -1");
    for number in 0..5000 {
        rig.argv(rig.client, &[b"SET", format!("k{number}").as_bytes(), b"1"]);
    }
    assert_eq!(told(&mut rig, target), "");
    rig.finish_read();
    assert_eq!(told(&mut rig, target), ALL);
}

/// Clients with caches read, while others change everything that can change. Once a client has read its
/// pushes, each of its remaining copies equals the key's value.
#[test]
fn a_cache_is_never_stale() {
    for seed in 0..12 {
        let mut model = Model::new(seed);
        for step in 0..1000 {
            model.step();
            if step % 5 == 0 {
                model.check(seed, step);
            }
        }
        assert!(model.kept > 200, "{}", model.kept);
    }
}

struct Model {
    rig: Rig,
    rng: Rng,
    clients: Vec<Cached>,
    kept: usize,
}

struct Cached {
    key: SessionKey,
    /// The client that receives the pushes.
    told: SessionKey,
    no_loop: bool,
    copies: BTreeMap<String, String>,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut rig = Rig::with(&[("tracking-table-max-keys", "12")]);
        let mut clients = Vec::new();
        for (options, redirects) in [
            ("", false),
            ("NOLOOP", false),
            ("BCAST", false),
            ("BCAST NOLOOP", false),
            ("", true),
            ("OPTOUT", false),
        ] {
            // Without prefixes, changes of untracked keys are not recorded.
            if seed % 2 == 1 && options.contains("BCAST") {
                continue;
            }
            let [key, target] = [rig.connect(), rig.connect()];
            for of in [key, target] {
                rig.run_as(of, "HELLO 3");
            }
            let told = if redirects { target } else { key };
            let id = rig.run_as(target, "CLIENT ID");
            let redirect = if redirects { format!("REDIRECT {}", &id[1..]) } else { String::new() };
            assert_eq!(rig.run_as(key, &format!("CLIENT TRACKING ON {options} {redirect}")), "+OK");
            clients.push(Cached { key, told, no_loop: options.contains("NOLOOP"), copies: BTreeMap::new() });
        }
        rig.run("CONFIG SET maxmemory-policy volatile-random");
        Model { rig, rng: Rng::new(seed), clients, kept: 0 }
    }

    fn key(&mut self) -> String {
        match self.rng.below(20) {
            // The names are so long that the table does not keep them even if the key is absent.
            number @ 17.. => format!("k{number}{}", "x".repeat(2000)),
            number => format!("k{number}"),
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.clients.len() as u64) as usize;
        let (key, other) = (self.key(), self.key());
        match self.rng.below(100) {
            0..50 => {
                let client = self.clients[at].key;
                let got = String::from_utf8(self.rig.argv(client, &[b"GET", key.as_bytes()])).unwrap();
                let client = &mut self.clients[at];
                read(&got, &mut client.copies, Some(&key));
            }
            number => {
                let line = match number {
                    50..70 => format!("SET {key} {}", self.rng.below(1000)),
                    70..74 => format!("SET {key} 1 PX {}", 1 + self.rng.below(30)),
                    74..78 => format!("DEL {key} {other}"),
                    78..81 => format!("RENAME {key} {other}"),
                    81..83 => format!("COPY {key} {other} REPLACE"),
                    83..85 => format!("EVAL \"redis.call('set', '{key}', 7) redis.call('incr', '{key}')\" 0"),
                    85..87 => format!("PEXPIRE {key} 5"),
                    87 => "SWAPDB 0 1".to_owned(),
                    88 => "FLUSHDB".to_owned(),
                    89..92 => {
                        self.rig.pass_ms(1 + self.rng.below(20));
                        self.rig.cron();
                        return;
                    }
                    92 => "CONFIG SET maxmemory 1".to_owned(),
                    93 => "CONFIG SET maxmemory 0".to_owned(),
                    94 => "DEBUG RELOAD".to_owned(),
                    95 => format!("MOVE {key} 1"),
                    _ => format!("APPEND {key} x"),
                };
                // About a third of the changes are made by a tracking client. With NOLOOP, this client is not
                // told of its own changes, so it drops its copies itself (below).
                let writes =
                    self.rng.below(3) == 0 && !line.starts_with("CONFIG") && !line.starts_with("DEBUG");
                let writer = if writes { self.clients[at].key } else { self.rig.client };
                let words: Vec<Vec<u8>> =
                    sluice_base::quote::split_args(line.as_bytes(), sluice_base::quote::Dialect::Config)
                        .unwrap();
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let got = String::from_utf8(self.rig.argv(writer, &words)).unwrap();
                if writes {
                    let client = &mut self.clients[at];
                    read(&got, &mut client.copies, None);
                    if client.no_loop {
                        client.copies.remove(&key);
                        client.copies.remove(&other);
                    }
                }
            }
        }
    }

    /// Reads the pushes. After that no copy may differ from the key's value.
    fn check(&mut self, seed: u64, step: usize) {
        for at in 0..self.clients.len() {
            let told = self.clients[at].told;
            let pushes = String::from_utf8(self.rig.output(told)).unwrap();
            read(&pushes, &mut self.clients[at].copies, None);
        }
        for at in 0..self.clients.len() {
            let copies = self.clients[at].copies.clone();
            for (key, copy) in copies {
                let got = render(&self.rig.argv(self.rig.client, &[b"GET", key.as_bytes()]));
                // Reading may delete an expired key, whose invalidation is on its way then.
                let pushes = String::from_utf8(self.rig.output(self.clients[at].told)).unwrap();
                read(&pushes, &mut self.clients[at].copies, None);
                if self.clients[at].copies.contains_key(&key) {
                    assert_eq!(
                        copy_of(&got),
                        copy_of(&render(copy.as_bytes())),
                        "client {at}, {key}, seed {seed}, step {step}"
                    );
                    self.kept += 1;
                }
            }
        }
    }
}

/// The contents of a rendered reply; the null of RESP2 and that of RESP3 both give an empty text.
fn copy_of(rendered: &str) -> String {
    if rendered == "null" || rendered == "nil" { String::new() } else { rendered.to_owned() }
}

/// Reads a client's output: a reply, which is a copy of `key` if one is given, and pushes around it.
fn read(got: &str, copies: &mut BTreeMap<String, String>, key: Option<&str>) {
    let mut lines = got.split("\r\n");
    while let Some(line) = lines.next() {
        match line {
            ">2" => {
                assert_eq!((lines.next(), lines.next()), (Some("$10"), Some("invalidate")));
                let names = lines.next().unwrap();
                if names == "_" {
                    copies.clear();
                }
                for _ in 0..names.strip_prefix('*').map_or(0, |count| count.parse().unwrap()) {
                    lines.next();
                    copies.remove(lines.next().unwrap());
                }
            }
            "" => {}
            line => {
                if let Some(key) = key {
                    let text = if line.starts_with('$') { lines.next().unwrap() } else { "" };
                    let copy = if line == "_" { "_\r\n".to_owned() } else { format!("{line}\r\n{text}\r\n") };
                    copies.insert(key.to_owned(), copy);
                }
            }
        }
    }
}

/// Changes of a suspended transaction are reported after its whole reply, and to no other client that is
/// served during the suspension.
#[test]
fn a_reply_that_stands_still_is_not_cut() {
    let (mut rig, client) = tracker("");
    let replica = rig.replica();
    rig.run_as(client, "GET a");
    for line in ["MULTI", "DEBUG STAND-STILL 10", "SET a 1", "DEBUG STAND-STILL 1000"] {
        rig.run_as(client, line);
    }
    rig.argv_unread(client, &[b"EXEC"]);
    rig.pass_ms(10);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit());
    assert_eq!(told(&mut rig, client), "");
    let got = rig.argv(replica, &[b"REPLCONF", b"ACK", b"0"]);
    assert!(!String::from_utf8_lossy(&got).contains("invalidate"), "{}", got.escape_ascii());
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert_eq!(told(&mut rig, client), format!("*3|+OK|+OK|+OK|{}", push("a")));
}

/// Changes under a prefix, which are gathered until the iteration ends, also wait while a transaction is
/// suspended. Each client gets one array, after the transaction's reply.
#[test]
fn prefixes_wait_for_the_end_of_a_unit() {
    let (mut rig, client) = tracker("BCAST");
    let other = rig.connect();
    rig.run_as(other, "HELLO 3");
    rig.run_as(other, "CLIENT TRACKING ON BCAST PREFIX b");
    for line in ["MULTI", "SET b1 1", "DEBUG STAND-STILL 10", "SET b2 1", "DEBUG STAND-STILL 10"] {
        rig.run_as(client, line);
    }
    // Changes by another client in the same iteration wait, too.
    rig.argv_unread(rig.client, &[b"SET", b"a", b"1"]);
    rig.argv_unread(client, &[b"EXEC"]);
    rig.engine.take_refused_between_units();
    for _ in 0..2 {
        assert!(rig.engine.has_open_unit());
        assert_eq!((told(&mut rig, client), told(&mut rig, other)), (String::new(), String::new()));
        assert!(rig.engine.take_refused_between_units().contains(&"Invalidations".to_owned()));
        rig.pass_ms(10);
        rig.engine.advance_unit(&mut rig.process);
    }
    let keys = ">2|$10|invalidate|*3|$1|a|$2|b1|$2|b2|";
    assert_eq!(told(&mut rig, client), format!("*4|+OK|+OK|+OK|+OK|{keys}"));
    assert_eq!(told(&mut rig, other), ">2|$10|invalidate|*2|$2|b1|$2|b2|");
}

#[test]
fn keys_make_room_behind_the_reply_of_a_unit() {
    let (mut rig, client) = tracker("");
    let other = rig.connect();
    rig.run_as(other, "HELLO 3");
    rig.run_as(other, "CLIENT TRACKING ON");
    for number in 0..200 {
        rig.run_as(client, &format!("GET k{number}"));
    }
    for line in ["MULTI", "CONFIG SET tracking-table-max-keys 20", "DEBUG STAND-STILL 10", "GET k0"] {
        rig.run_as(client, line);
    }
    rig.argv_unread(client, &[b"EXEC"]);
    for _ in 0..3 {
        assert_eq!(told(&mut rig, client), "");
    }
    rig.pass_ms(10);
    rig.engine.advance_unit(&mut rig.process);
    let got = told(&mut rig, client);
    assert!(got.starts_with("*3|+OK|+OK|_|>2|"), "{got}");
    let rest: String = (0..3).map(|_| told(&mut rig, client)).collect();
    assert_eq!(format!("{got}{rest}").matches("invalidate").count(), 180);
}

/// Invalidations redirected to another client are sent only after the client of the suspended transaction has
/// got its reply.
#[test]
fn a_unit_that_redirects_is_told_behind_its_reply() {
    for options in ["", "BCAST"] {
        let mut rig = Rig::new();
        let [client, target] = [rig.connect(), rig.connect()];
        for of in [client, target] {
            rig.run_as(of, "HELLO 3");
        }
        rig.run_as(client, &format!("CLIENT TRACKING ON REDIRECT 3 {options}"));
        rig.run_as(client, "MGET a b");
        // The target must be told nothing yet, although the client has finished a command in this iteration
        // and the transaction has run in part.
        rig.argv_unread(client, &[b"SET", b"a", b"1"]);
        for line in ["MULTI", "GET b", "SET b 1", "DEBUG STAND-STILL 10", "GET c", "SET c 1", "FLUSHDB"] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            rig.argv_unread(client, &words);
        }
        rig.argv_unread(client, &[b"EXEC"]);
        assert!(rig.engine.has_open_unit());
        assert_eq!(told(&mut rig, target), "", "{options}");
        rig.pass_ms(10);
        rig.engine.advance_unit(&mut rig.process);
        assert!(!rig.engine.has_open_unit());
        let got = told(&mut rig, target);
        if options.is_empty() {
            assert_eq!(got, ALL);
        } else {
            assert_eq!(got, format!(">2|$10|invalidate|*3|$1|a|$1|b|$1|c|{ALL}"));
        }
        assert!(told(&mut rig, client).ends_with("|*6|_|+OK|+OK|_|+OK|+OK|"));
        rig.run_as(client, "GET a");
        rig.run_as(client, "SET a 1");
        assert_eq!(told(&mut rig, target), push("a"), "{options}");
        // When the client disconnects, its pending invalidations are discarded, and the target is told to
        // drop all copies instead.
        rig.run_as(client, "GET a");
        rig.argv_unread(client, &[b"SET", b"a", b"2"]);
        rig.engine.disconnect(client, &mut rig.process);
        assert_eq!(told(&mut rig, target), ALL);
    }
}

/// A total of INFO stats.
fn total(rig: &mut Rig, name: &str) -> usize {
    let info = rig.run("INFO stats");
    let at = info.find(name).unwrap_or_else(|| panic!("{name}: {info}"));
    let digits: String = info[at + name.len() + 1..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn no_command_leaves_the_table_above_its_bound() {
    let (mut rig, client) = tracker("");
    rig.run("CONFIG SET tracking-table-max-keys 100");
    let mut number = 0;
    for keys in [1, 50, 64, 65, 200, 5000, 3] {
        let names: Vec<String> = (0..keys).map(|of| format!("k{}", number + of)).collect();
        number += keys;
        rig.run_as(client, &format!("MGET {}", names.join(" ")));
        assert!(total(&mut rig, "tracking_total_keys") <= 100, "behind {keys} keys");
    }
    assert_eq!(told(&mut rig, client).matches("invalidate").count(), 0, "they came behind the replies");
}

/// A lowered bound is reached soon, because rows are evicted for half a millisecond of each iteration.
#[test]
fn a_lower_bound_is_reached_by_time_and_not_by_a_number_of_rows() {
    let (mut rig, client) = tracker("");
    let names: Vec<String> = (0..5000).map(|of| format!("k{of}")).collect();
    rig.run_as(client, &format!("MGET {}", names.join(" ")));
    rig.run("CONFIG SET tracking-table-max-keys 2000");
    rig.end_iteration();
    assert_eq!(total(&mut rig, "tracking_total_keys"), 2000);
    // If evicting is slow, the iteration ends above the bound, and later iterations continue.
    rig.process.us_each_look = 600;
    rig.run("CONFIG SET tracking-table-max-keys 10");
    rig.end_iteration();
    let first = total(&mut rig, "tracking_total_keys");
    assert!(10 < first && first < 2000, "{first}");
    for _ in 0..2000 / 64 {
        rig.end_iteration();
    }
    assert_eq!(total(&mut rig, "tracking_total_keys"), 10);
}

/// A name that is kept counts as one key for each 64 bytes of the name.
#[test]
fn the_bound_of_keys_bounds_the_bytes_of_names() {
    let (mut rig, client) = tracker("");
    rig.run("CONFIG SET tracking-table-max-keys 1000");
    let tracked = |rig: &Rig| rig.engine.memory_parts().iter().find(|part| part.0 == "tracking").unwrap().1;
    let before = tracked(&rig);
    for number in 0..3000 {
        rig.run_as(client, &format!("GET {number:04}{}", "x".repeat(1020)));
        assert!(total(&mut rig, "tracking_total_keys") <= 1000 / 17);
    }
    // In addition to the names, there are a thousand shards, each with room for some rows.
    assert!(tracked(&rig) < before + 1000 * 64 + 300_000, "{} after {before}", tracked(&rig));
    // The name of an existing key is not kept.
    for number in 0..100 {
        let name = format!("{number:04}{}", "y".repeat(1020));
        rig.run(&format!("SET {name} 1"));
        rig.run_as(client, &format!("GET {name}"));
    }
    assert!(total(&mut rig, "tracking_total_keys") >= 100);
}

/// A long name is not kept, so that it evicts no rows of other keys. A change of the key is reported by name
/// to the client that read it; if the row is evicted instead, that client is told to drop all keys.
#[test]
fn an_absent_key_with_a_long_name_takes_the_room_of_one_key() {
    let (mut rig, client) = tracker("");
    rig.run("CONFIG SET tracking-table-max-keys 20");
    for number in 0..10 {
        rig.run_as(client, &format!("GET k{number}"));
    }
    let other = rig.connect();
    rig.run_as(other, "HELLO 3");
    rig.run_as(other, "CLIENT TRACKING ON");
    let long = |number: usize| format!("{number}{}", "x".repeat(64 * 1000));
    rig.run_as(other, &format!("MGET {} {}", long(1), long(2)));
    assert_eq!(told(&mut rig, client), "");
    assert_eq!(total(&mut rig, "tracking_total_keys"), 12);
    rig.run(&format!("SET {} 1", long(1)));
    assert_eq!(told(&mut rig, other), push(&long(1)));
    // `client` reads keys until the row of `other` is evicted. The row has no name, so `other` is told once
    // to drop all copies.
    for number in 10..200 {
        rig.run_as(client, &format!("GET k{number}"));
    }
    assert_eq!(told(&mut rig, other), ALL);
    rig.run(&format!("SET {} 1", long(2)));
    assert_eq!(told(&mut rig, other), "");
}

#[test]
fn keys_of_high_databases_are_named_when_they_make_room() {
    let mut rig = Rig::with(&[("databases", "40"), ("tracking-table-max-keys", "1")]);
    let client = rig.connect();
    rig.run_as(client, "HELLO 3");
    rig.run_as(client, "CLIENT TRACKING ON");
    for db in [0, 15, 16, 39] {
        rig.run_as(client, &format!("SELECT {db}"));
        rig.run(&format!("SELECT {db}"));
        rig.run("MSET a 1 b 1");
        rig.run_as(client, "GET a");
        told(&mut rig, client);
        let got = String::from_utf8(rig.argv(client, &[b"GET", b"b"])).unwrap().replace("\r\n", "|");
        assert_eq!(got, format!("$1|1|{}", push("a")), "database {db}");
        rig.run_as(client, "GET c");
        told(&mut rig, client);
    }
}

/// Clients that come and go do not cause searches of the whole table.
#[test]
fn a_client_that_reads_little_and_ends_leaves_rows_that_are_swept_one_shard_at_a_time() {
    let (mut rig, stays) = tracker("");
    let keys: Vec<String> = (0..3000).map(|number| format!("k{number}")).collect();
    rig.run_as(stays, &format!("MGET {}", keys.join(" ")));
    let goes = rig.connect();
    for line in ["HELLO 3", "CLIENT TRACKING ON", &format!("MGET {}", keys[..100].join(" "))] {
        rig.run_as(goes, line);
    }
    rig.engine.disconnect(goes, &mut rig.process);
    for _ in 0..2000 {
        rig.end_iteration();
    }
    assert!(total(&mut rig, "tracking_total_items") > 3090);
    rig.run("SET k7 1");
    assert_eq!(told(&mut rig, stays), push("k7"));
    for _ in 0..1024 {
        rig.pass_ms(100);
        rig.end_iteration();
    }
    assert_eq!(total(&mut rig, "tracking_total_items"), 2999);
    // If more than a quarter of the items are dead, all shards are swept without waiting.
    let goes = rig.connect();
    for line in ["HELLO 3", "CLIENT TRACKING ON", &format!("MGET {}", keys[..2000].join(" "))] {
        rig.run_as(goes, line);
    }
    rig.engine.disconnect(goes, &mut rig.process);
    for _ in 0..2000 {
        rig.end_iteration();
    }
    assert_eq!(total(&mut rig, "tracking_total_items"), 2999);
}

#[test]
fn prefixes_are_told_the_names_that_their_user_may_read() {
    let mut rig = Rig::new();
    let [all, some, none] = [rig.connect(), rig.connect(), rig.connect()];
    for rules in
        ["some on nopass +@all %R~mine:* %W~written:*", "none on nopass +@all", "all on nopass +@all ~*"]
    {
        rig.check(&format!("ACL SETUSER {rules}"), "+OK");
    }
    for (client, user) in [(all, "all"), (some, "some"), (none, "none")] {
        rig.run_as(client, &format!("HELLO 3 AUTH {user} x"));
        rig.check_as(client, "CLIENT TRACKING ON BCAST", "+OK");
    }
    rig.run("MSET mine:1 1 other:1 1 written:1 1");
    rig.end_iteration();
    let names = |keys: &[&str]| {
        let list: String = keys.iter().map(|key| format!("${}|{key}|", key.len())).collect();
        format!(">2|$10|invalidate|*{}|{list}", keys.len())
    };
    assert_eq!(told(&mut rig, all), names(&["mine:1", "other:1", "written:1"]));
    assert_eq!(told(&mut rig, some), names(&["mine:1"]));
    assert_eq!(told(&mut rig, none), "");
    // Rights are checked when names are sent.
    rig.run("ACL SETUSER some resetkeys ~other:*");
    rig.run("MSET mine:1 2 other:1 2");
    rig.end_iteration();
    assert_eq!(told(&mut rig, some), names(&["other:1"]));
    rig.run("FLUSHALL");
    assert_eq!(told(&mut rig, none), ALL);
}

#[test]
fn prefixes_are_told_no_names_of_databases_that_their_user_may_not_select() {
    let mut rig = Rig::new();
    // One selector has to allow both the key and its database.
    let users = [
        ("zero", "~* db=0", &["a", "both"][..]),
        ("several", "~a* db=0 (~b* +@all db=3)", &["a", "b3", "both"]),
        ("none", "~* resetdbs", &[]),
        ("all", "~* alldbs", &["a", "a3", "b3", "both"]),
    ];
    let mut clients = Vec::new();
    for (user, rules, names) in users {
        rig.check(&format!("ACL SETUSER {user} on nopass +@all {rules}"), "+OK");
        let client = rig.connect();
        rig.run_as(client, &format!("HELLO 3 AUTH {user} x"));
        rig.check_as(client, "CLIENT TRACKING ON BCAST", "+OK");
        clients.push((user, client, names));
    }
    for line in ["MULTI", "MSET a 1 both 1", "SELECT 3", "MSET a3 1 b3 1 both 1", "EXEC"] {
        rig.run(line);
    }
    rig.end_iteration();
    for (user, client, names) in clients {
        let list: String = names.iter().map(|name| format!("${}|{name}|", name.len())).collect();
        let expected = match names {
            [] => String::new(),
            _ => format!(">2|$10|invalidate|*{}|{list}", names.len()),
        };
        assert_eq!(told(&mut rig, client), expected, "{user}");
    }
}

#[test]
fn whoever_is_told_in_place_of_a_client_that_ends_drops_all_copies() {
    for (ending, is_told) in [("end", true), ("RESET", true), ("CLIENT TRACKING OFF", false)] {
        for (options, reads, has_copies) in [("", true, true), ("", false, false), ("BCAST", false, true)] {
            let mut rig = Rig::new();
            let [client, target] = [rig.connect(), rig.connect()];
            rig.run_as(target, "HELLO 3");
            rig.check_as(client, &format!("CLIENT TRACKING ON {options} REDIRECT 3"), "+OK");
            if reads {
                rig.run_as(client, "GET k");
            }
            match ending {
                "end" => rig.engine.disconnect(client, &mut rig.process),
                line => drop(rig.run_as(client, line)),
            }
            rig.end_iteration();
            let expected = if is_told && has_copies { ALL } else { "" };
            assert_eq!(told(&mut rig, target), expected, "{ending} {options} {reads}");
            rig.end_iteration();
            assert_eq!(told(&mut rig, target), "");
        }
    }
}

/// Work that waits for the end of a suspended transaction must not wake the event loop again and again until
/// then.
#[test]
fn whoever_is_told_in_place_of_an_ended_client_costs_no_slices_while_a_unit_stands_open() {
    let mut rig = Rig::new();
    let [client, target, other] = [rig.connect(), rig.connect(), rig.connect()];
    rig.run_as(target, "HELLO 3");
    rig.check_as(client, "CLIENT TRACKING ON REDIRECT 3", "+OK");
    rig.run_as(client, "GET k");
    for line in ["MULTI", "DEBUG STAND-STILL 10"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        rig.argv_unread(other, &words);
    }
    rig.argv_unread(other, &[b"EXEC"]);
    assert!(rig.engine.has_open_unit());
    rig.engine.disconnect(client, &mut rig.process);
    // The state of the client itself is freed within some iterations.
    for _ in 0..100 {
        rig.end_iteration();
    }
    let before = rig.process.now.mono_ns;
    rig.end_iteration();
    let after = rig.process.now.mono_ns;
    assert!(after - before < 20_000, "{} ns of looks at the clock", after - before);
    assert_eq!(told(&mut rig, target), "");
    rig.pass_ms(10);
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    rig.end_iteration();
    assert_eq!(told(&mut rig, target), ALL);
}

//! Keyspace notifications: which events are published, in which channels and order.

use sluice_resp::{Value, decode};
use sluice_testkit::Rig;

/// The messages in a subscriber's output, each as `channel message` without the common parts of the channels.
fn told(bytes: &[u8]) -> String {
    let mut rest = bytes;
    let mut all = Vec::new();
    while let Ok(Some((value, len))) = decode(rest) {
        rest = &rest[len..];
        let (Value::Array(words) | Value::Push(words)) = value else { panic!("{value:?}") };
        let text = |value: &Value| match value {
            Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        };
        if words.len() == 4 {
            all.push(format!("{} {}", text(&words[2]).replace("__", ""), text(&words[3])));
        }
    }
    assert!(rest.is_empty());
    all.join("; ").replace("keyspace@", "s").replace("keyevent@", "e")
}

/// Each row has the value of `notify-keyspace-events`, the commands, and the notifications of the last
/// command. `!pass` advances the clock by 10 ms; `!refused` precedes a command that gets an error, and that
/// may have accessed a key before.
#[rustfmt::skip]
const ROWS: &[(&str, &[&str], &str)] = &[
    ("KEA", &["SET k v"], "s0:k set; e0:set k"),
    ("KEAn", &["SET k v"], "s0:k new; e0:new k; s0:k set; e0:set k"),
    ("KEAn", &["SET k v", "SET k w"], "s0:k set; e0:set k"),
    ("KA", &["SET k v"], "s0:k set"),
    ("EA", &["SET k v"], "e0:set k"),
    ("A", &["SET k v"], ""),
    ("KE", &["SET k v"], ""),
    ("E$", &["SET k v"], "e0:set k"),
    ("E$", &["SET k v", "DEL k"], ""),
    ("Eg", &["SET k v"], ""),
    ("Eg", &["SET k v EX 10"], "e0:expire k"),
    ("El", &["RPUSH l a"], "e0:rpush l"),
    ("Eln", &["RPUSH l a"], "e0:new l; e0:rpush l"),
    ("EA", &["RPUSH l a", "LPOP l"], "e0:lpop l; e0:del l"),
    ("EAn", &["RPUSH k a", "LMOVE k l LEFT RIGHT"], "e0:new l; e0:rpush l; e0:lpop k; e0:del k"),
    ("EA", &["SELECT 3", "SET k v"], "e3:set k"),
    ("EAn", &["SET a 1", "RENAME a b"], "e0:new b; e0:rename_from a; e0:rename_to b"),
    ("EAn", &["MSET a 1 b 2", "RENAME a b"], "e0:new b; e0:rename_from a; e0:rename_to b"),
    ("EAn", &["SET a 1", "MOVE a 3"], "e3:new a; e0:move_from a; e3:move_to a"),
    ("EAn", &["SET a 1", "COPY a b"], "e0:new b; e0:copy_to b"),
    ("EAn", &["INCR k"], "e0:new k; e0:incrby k"),
    ("EAn", &["APPEND k v"], "e0:new k; e0:append k"),
    ("EAm", &["GET k"], "e0:keymiss k"),
    ("EA", &["GET k"], ""),
    ("EAm", &["MGET a b"], "e0:keymiss a; e0:keymiss b"),
    ("EAm", &["OBJECT ENCODING k"], ""),
    ("EAm", &["EXISTS k"], "e0:keymiss k"),
    ("EAm", &["LPOP k"], ""),
    ("EAmn", &["GETSET k v"], "e0:keymiss k; e0:new k; e0:set k"),
    ("EAm", &["SET k v PX 5", "!pass", "GET k"], "e0:expired k; e0:keymiss k"),
    ("EAm", &["SET k v PX 5", "!pass", "MGET a k b k"],
        "e0:keymiss a; e0:expired k; e0:keymiss k; e0:keymiss b; e0:keymiss k"),
    ("EAm", &["MSET a 1 b 2", "PEXPIRE a 5", "PEXPIRE b 5", "!pass", "MGET a b"],
        "e0:expired a; e0:keymiss a; e0:expired b; e0:keymiss b"),
    ("EAn", &["SET k v PX 5", "!pass", "SET k w"], "e0:expired k; e0:new k; e0:set k"),
    ("Ex", &["SET k v PX 5", "!pass", "!cron"], "e0:expired k"),
    ("KEx", &["SET k v PX 5", "!pass", "!cron"], "s0:k expired; e0:expired k"),
    ("EA", &["MULTI", "SET a 1", "DEL a", "EXEC"], "e0:set a; e0:del a"),
    ("EA", &["SET a 1", "FLUSHALL"], ""),
    ("EAn", &["RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\""], "e0:new k; e0:restore k"),
    ("EAn", &["SET k x", "RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE"], "e0:new k; e0:restore k"),
    ("Ez", &["ZADD z 1 a"], "e0:zadd z"),
    ("E$", &["ZADD z 1 a"], ""),
    ("EAn", &["ZADD z 1 a"], "e0:new z; e0:zadd z"),
    ("EA", &["ZADD z 1 a", "ZADD z 1 a"], ""),
    ("EA", &["ZADD z 1 a", "ZADD z 2 a"], "e0:zadd z"),
    ("EA", &["ZADD z 1 a", "ZADD z INCR 2 a"], "e0:zincr z"),
    ("EAn", &["ZINCRBY z 2 a"], "e0:new z; e0:zincr z"),
    ("EA", &["ZADD z 1 a 2 b", "ZREM z a"], "e0:zrem z"),
    ("EA", &["ZADD z 1 a", "ZREM z a"], "e0:zrem z; e0:del z"),
    ("EA", &["ZADD z 1 a", "ZREM z b"], ""),
    ("EA", &["ZADD z 1 a", "ZREMRANGEBYRANK z 0 -1"], "e0:zremrangebyrank z; e0:del z"),
    ("EA", &["ZADD z 1 a 2 b", "ZREMRANGEBYSCORE z 1 1"], "e0:zremrangebyscore z"),
    ("EA", &["ZADD z 1 a", "ZREMRANGEBYLEX z - +"], "e0:zremrangebylex z; e0:del z"),
    ("EA", &["ZADD z 1 a", "ZPOPMIN z"], "e0:zpopmin z; e0:del z"),
    ("EA", &["ZADD z 1 a 2 b", "ZPOPMAX z"], "e0:zpopmax z"),
    ("EA", &["ZADD z 1 a 2 b", "ZMPOP 1 z MIN COUNT 2"], "e0:zpopmin z; e0:del z"),
    ("EA", &["ZADD z 1 a", "BZPOPMIN z 0"], "e0:zpopmin z; e0:del z"),
    ("EAn", &["ZADD z 1 a", "ZUNIONSTORE d 1 z"], "e0:new d; e0:zunionstore d"),
    ("EAn", &["ZADD z 1 a", "SET d x", "ZUNIONSTORE d 1 z"], "e0:zunionstore d"),
    ("EA", &["SET d x", "ZUNIONSTORE d 1 z"], "e0:del d"),
    ("EA", &["ZUNIONSTORE d 1 z"], ""),
    ("EA", &["ZADD z 1 a", "ZINTERSTORE d 1 z"], "e0:zinterstore d"),
    ("EA", &["ZADD z 1 a", "ZDIFFSTORE d 1 z"], "e0:zdiffstore d"),
    ("EAn", &["ZADD z 1 a", "ZRANGESTORE d z 0 -1"], "e0:new d; e0:zrangestore d"),
    ("EAn", &["GEOADD g 1 1 a"], "e0:new g; e0:zadd g"),
    ("EAn", &["GEOADD g 1 1 a", "GEORADIUS g 1 1 1 km STORE d"], "e0:new d; e0:georadiusstore d"),
    ("EA", &["GEOADD g 1 1 a", "GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 1 km"], "e0:geosearchstore d"),
    ("EA", &["SET d x", "GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 1 km"], "e0:del d"),
    ("EAm", &["ZSCORE z a"], "e0:keymiss z"),
    ("EAm", &["ZADD z 1 a"], "e0:zadd z"),
    ("EAm", &["ZPOPMIN z"], ""),
    ("EAm", &["ZUNION 2 a b"], "e0:keymiss a; e0:keymiss b"),
    ("EAm", &["ZUNIONSTORE d 1 z"], "e0:keymiss z"),
    ("EAm", &["ZRANGESTORE d z 0 -1"], "e0:keymiss z"),
    ("EAm", &["SET s v PX 5", "!pass", "ZDIFFSTORE d 3 z s z"],
        "e0:keymiss z; e0:expired s; e0:keymiss s; e0:keymiss z"),
    ("EAm", &["GEOPOS g a"], "e0:keymiss g"),
    ("EAm", &["GEORADIUS g 1 1 1 km STORE d"], "e0:keymiss g"),
    ("EAm", &["ZMPOP 1 z MIN"], ""),
    ("EAm", &["ZREM z a"], ""),
    ("EAm", &["ZSCAN z 0"], "e0:keymiss z"),
    ("EAm", &["SET s v", "SET t v PX 5", "!pass", "!refused PFCOUNT s t"], ""),
    ("EAm", &["SET s v PX 5", "!pass", "SDIFFSTORE d a s b"], "e0:keymiss a; e0:expired s; e0:keymiss s; e0:keymiss b"),
    ("EAm", &["SET s v PX 5", "!pass", "BITOP AND d a s s"], "e0:keymiss a; e0:expired s; e0:keymiss s; e0:keymiss s"),
    ("EA", &["SET s v PX 5", "!pass", "SDIFFSTORE d a s b"], "e0:expired s"),
    ("EAm", &["SET s v PX 5", "SET t v", "!pass", "!refused SUNIONSTORE d s t"], "e0:expired s; e0:keymiss s"),
    ("EAm", &["LPUSH s a", "SADD t v", "PEXPIRE t 5", "!pass", "!refused SMOVE s t x"], "e0:expired t"),
    ("EAm", &["SADD t v", "PEXPIRE t 5", "!pass", "SMOVE s t x"], "e0:expired t"),
    // A target that has expired is deleted by the command.
    ("EAm", &["SET d v PX 5", "!pass", "SUNIONSTORE d nx"], "e0:keymiss nx; e0:del d"),
    ("EAm", &["SET d v PX 5", "!pass", "ZUNIONSTORE d 1 nx"], "e0:keymiss nx; e0:del d"),
    ("EAm", &["SET d v PX 5", "!pass", "SORT nx STORE d"], "e0:keymiss nx; e0:del d"),
    ("EAm", &["SET d v PX 5", "!pass", "BITOP AND d nx"], "e0:keymiss nx; e0:del d"),
    // A source of another type ends the command before the later keys are looked up.
    ("EAm", &["SET s v", "SADD t a", "PEXPIRE t 5", "!pass", "!refused SINTERSTORE d s t"], ""),
    ("EAm", &["SADD t a", "PEXPIRE t 5", "SET s v", "!pass", "!refused SINTERSTORE d t s"], "e0:expired t; e0:keymiss t"),
];

#[test]
fn events_are_published_as_the_directive_says() {
    for (directive, lines, expected) in ROWS {
        let mut rig = Rig::with(&[("notify-keyspace-events", directive)]);
        let listener = rig.connect();
        rig.run_as(listener, "PSUBSCRIBE __key*");
        let mut got = String::new();
        for line in *lines {
            rig.output(listener);
            match *line {
                "!pass" => rig.pass_ms(10),
                "!cron" => rig.cron(),
                line => {
                    let refused = line.strip_prefix("!refused ");
                    let reply = rig.run(refused.unwrap_or(line));
                    assert_eq!(reply.starts_with('-'), refused.is_some(), "{line}: {reply}");
                }
            }
            got = told(&rig.output(listener));
        }
        assert_eq!(got, *expected, "{directive} {lines:?}");
    }
}

#[test]
fn a_claim_of_an_absent_stream_tells_of_the_miss_before_it_is_refused() {
    for line in ["XCLAIM s g c bad 0", "XAUTOCLAIM s g c bad 0", "XAUTOCLAIM s g c 0 0 FOO"] {
        let mut rig = Rig::with(&[("notify-keyspace-events", "EAm")]);
        let listener = rig.connect();
        rig.run_as(listener, "PSUBSCRIBE __key*");
        rig.output(listener);
        assert!(rig.run(line).starts_with('-'), "{line}");
        assert_eq!(told(&rig.output(listener)), "e0:keymiss s", "{line}");
    }
}

#[test]
fn subscribers_of_one_channel_are_told_of_it_alone() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "KEA")]);
    let listener = rig.connect();
    rig.run_as(listener, "SUBSCRIBE __keyevent@0__:set");
    rig.run("MSET a 1 b 2");
    rig.run("DEL a");
    let got = rig.output(listener);
    let message = |key: &str| format!("*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\n{key}\r\n");
    assert_eq!(got, format!("{}{}", message("a"), message("b")).as_bytes());
}

#[test]
fn config_set_turns_notifications_on_and_off() {
    let mut rig = Rig::new();
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE __key*");
    rig.run("SET k v");
    assert_eq!(told(&rig.output(listener)), "");
    for (given, shown) in [("KEA", "AKE"), ("Kx", "xK"), ("KEAmn", "AKEm"), ("$gE", "g$E"), ("", "")] {
        rig.check(&format!("CONFIG SET notify-keyspace-events \"{given}\""), "+OK");
        rig.check("CONFIG GET notify-keyspace-events", &format!("[\"notify-keyspace-events\", \"{shown}\"]"));
    }
    assert!(rig.run("CONFIG SET notify-keyspace-events KEq").starts_with("-ERR"));
    rig.run("SET k v");
    assert_eq!(told(&rig.output(listener)), "");
    rig.run("CONFIG SET notify-keyspace-events EA");
    rig.run("SET k v");
    assert_eq!(told(&rig.output(listener)), "e0:set k");
}

#[test]
fn a_client_is_told_of_its_own_writes_behind_the_reply() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "EA")]);
    rig.run("HELLO 3");
    rig.run("PSUBSCRIBE *");
    let pushed = |event: &str| {
        format!(">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$18\r\n__keyevent@0__:{event}\r\n$1\r\nk\r\n")
    };
    assert_eq!(rig.bytes(rig.client, b"SET k v\r\n"), format!("+OK\r\n{}", pushed("set")).as_bytes());
    rig.run("MULTI");
    rig.run("SET k v");
    rig.run("DEL k");
    let got = rig.bytes(rig.client, b"EXEC\r\n");
    let expected = format!("*2\r\n+OK\r\n:1\r\n{}{}", pushed("set"), pushed("del"));
    assert_eq!(String::from_utf8_lossy(&got), expected);
}

#[test]
fn a_client_that_waited_is_told_of_what_it_took() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "EA")]);
    let [waiter, listener] = [(); 2].map(|()| rig.connect());
    rig.run_as(listener, "PSUBSCRIBE __key*");
    rig.run_as(waiter, "HELLO 3");
    rig.run_as(waiter, "SUBSCRIBE __keyevent@0__:lpop");
    rig.run_as(waiter, "BLPOP l 0");
    rig.run("RPUSH l a");
    assert_eq!(told(&rig.output(listener)), "e0:rpush l; e0:lpop l; e0:del l");
    let got = rig.output(waiter);
    let head = b"*2\r\n$1\r\nl\r\n$1\r\na\r\n>3\r\n$7\r\nmessage\r\n";
    assert!(got.starts_with(head), "{}", got.escape_ascii());
}

#[test]
fn watching_and_notifications_do_not_disturb_each_other() {
    for (directive, line) in [("Ex", "SET k v"), ("EAmn", "GET other"), ("Km", "GET other")] {
        let mut rig = Rig::with(&[("notify-keyspace-events", directive)]);
        let listener = rig.connect();
        rig.run_as(listener, "PSUBSCRIBE __key*");
        let other = rig.connect();
        rig.run("WATCH k other");
        rig.run_as(other, line);
        rig.run("MULTI");
        rig.run("PING");
        let expected = if line == "SET k v" { "nil-array" } else { "[+PONG]" };
        let got = rig.run("EXEC");
        assert!(got == expected || expected == "nil-array" && got != "[+PONG]", "{directive} {line}: {got}");
    }
}

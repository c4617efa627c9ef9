//! Behaviour of the set commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};

#[test]
fn members_are_added_and_removed() {
    check(&[
        ("SADD k 1 2 3", ":3"),
        ("OBJECT ENCODING k", r#""intset""#),
        ("SADD k 3 4", ":1"),
        ("SCARD k", ":4"),
        ("SISMEMBER k 3", ":1"),
        ("SISMEMBER k 03", ":0"),
        ("SISMEMBER k x", ":0"),
        ("SMEMBERS k", r#"["1", "2", "3", "4"]"#),
        ("SADD k a", ":1"),
        ("OBJECT ENCODING k", r#""listpack""#),
        ("SMEMBERS k", r#"["1", "2", "3", "4", "a"]"#),
        ("SMISMEMBER k 1 a b 2", "[:1, :1, :0, :1]"),
        ("SMISMEMBER none 1 a", "[:0, :0]"),
        ("SISMEMBER none 1", ":0"),
        ("SISMEMBER none 1 XX", ":-1"),
        ("SISMEMBER k 3 XX", ":1"),
        ("SISMEMBER k x xx", ":0"),
        ("SISMEMBER k 3 FOO", "-ERR syntax error"),
        ("SISMEMBER none 3 XX XX", "-ERR syntax error"),
        ("SCARD none", ":0"),
        ("SMEMBERS none", "[]"),
        ("SREM k 1 zz 2", ":2"),
        ("SREM k 3 4", ":2"),
        ("OBJECT ENCODING k", r#""listpack""#),
        ("SREM k a", ":1"),
        ("EXISTS k", ":0"),
        ("SREM none a", ":0"),
        ("SADD s x", ":1"),
        ("TYPE s", "+set"),
        ("SADD big xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", ":1"),
        ("OBJECT ENCODING big", r#""hashtable""#),
        ("SREM big xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", ":1"),
        ("SADD k", "-ERR wrong number of arguments for 'sadd' command"),
        ("SREM k", "-ERR wrong number of arguments for 'srem' command"),
        ("SCARD", "-ERR wrong number of arguments for 'scard' command"),
        ("SMISMEMBER k", "-ERR wrong number of arguments for 'smismember' command"),
        ("SISMEMBER k", "-ERR wrong number of arguments for 'sismember' command"),
        ("SMEMBERS k k", "-ERR wrong number of arguments for 'smembers' command"),
    ]);
}

#[test]
fn members_move_between_sets() {
    check(&[
        ("SADD a 1 2", ":2"),
        ("SADD b 3 x", ":2"),
        ("SMOVE a b 1", ":1"),
        ("SMEMBERS a", r#"["2"]"#),
        ("SMEMBERS b", r#"["3", "x", "1"]"#),
        ("SMOVE a b 9", ":0"),
        ("SMOVE none b 1", ":0"),
        ("SMOVE a a 2", ":1"),
        ("SMOVE a a 9", ":0"),
        ("SMOVE a new 2", ":1"),
        ("EXISTS a", ":0"),
        ("OBJECT ENCODING new", r#""intset""#),
        ("SET str v", "+OK"),
        ("SMOVE str b 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMOVE b str 3", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMOVE none str 3", ":0"),
        ("SMOVE str none 3", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMOVE b b", "-ERR wrong number of arguments for 'smove' command"),
    ]);
}

#[test]
fn sets_are_combined() {
    check(&[
        ("SADD a 1 2 3 4", ":4"),
        ("SADD b 2 4 6", ":3"),
        ("SADD c 4 x y", ":3"),
        ("SINTER a b", r#"["2", "4"]"#),
        ("SINTER a b c", r#"["4"]"#),
        ("SINTER a", r#"["1", "2", "3", "4"]"#),
        ("SINTER a none", "[]"),
        ("SINTER none", "[]"),
        ("SINTER none str", "[]"),
        ("SET str v", "+OK"),
        ("SINTER none str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTER str none", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTER a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SDIFF a b", r#"["1", "3"]"#),
        ("SDIFF a b c", r#"["1", "3"]"#),
        ("SDIFF none a", "[]"),
        ("SDIFF a none", r#"["1", "2", "3", "4"]"#),
        ("SDIFF a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SDIFF none str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SDIFF a a", "[]"),
        ("SUNION b none", r#"["2", "4", "6"]"#),
        ("SUNION a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTERCARD 2 a b", ":2"),
        ("SINTERCARD 2 a b LIMIT 1", ":1"),
        ("SINTERCARD 2 a b LIMIT 0", ":2"),
        ("SINTERCARD 1 a", ":4"),
        ("SINTERCARD 1 none", ":0"),
        ("SINTERCARD 2 none str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD x a", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD -1 a", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
        ("SINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 2 a b LIMIT x", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 2 a b LIMIT", "-ERR syntax error"),
        ("SINTERCARD 2 a b FOO 1", "-ERR syntax error"),
        ("SINTERCARD 2 a b LIMIT 1 LIMIT 2", ":2"),
        ("SINTERSTORE d a b", ":2"),
        ("SMEMBERS d", r#"["2", "4"]"#),
        ("OBJECT ENCODING d", r#""intset""#),
        ("SINTERSTORE d a c", ":1"),
        ("OBJECT ENCODING d", r#""intset""#),
        ("SINTERSTORE d c a", ":1"),
        ("OBJECT ENCODING d", r#""intset""#),
        ("SUNIONSTORE d b none", ":3"),
        ("SMEMBERS d", r#"["2", "4", "6"]"#),
        ("SUNIONSTORE d b c", ":5"),
        ("OBJECT ENCODING d", r#""listpack""#),
        ("SCARD d", ":5"),
        ("SDIFFSTORE d a b", ":2"),
        ("SMEMBERS d", r#"["1", "3"]"#),
        ("OBJECT ENCODING d", r#""intset""#),
        ("SDIFFSTORE d a a", ":0"),
        ("EXISTS d", ":0"),
        ("SINTERSTORE d none a", ":0"),
        ("SUNIONSTORE d none", ":0"),
        ("SINTERSTORE str none a", ":0"),
        ("EXISTS str", ":0"),
        ("SET str v", "+OK"),
        ("SINTERSTORE str a b", ":2"),
        ("TYPE str", "+set"),
        ("SET str v", "+OK"),
        ("SINTERSTORE d a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SUNIONSTORE d a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SDIFFSTORE d a str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SINTERSTORE a a b", ":2"),
        ("SMEMBERS a", r#"["2", "4"]"#),
        ("EXPIRE a 100", ":1"),
        ("SUNIONSTORE a a b", ":3"),
        ("TTL a", ":-1"),
        ("SINTERSTORE d", "-ERR wrong number of arguments for 'sinterstore' command"),
        ("SINTER", "-ERR wrong number of arguments for 'sinter' command"),
    ]);
}

#[test]
fn members_are_drawn() {
    check(&[
        ("SADD k 1", ":1"),
        ("SRANDMEMBER k", r#""1""#),
        ("SRANDMEMBER k 1", r#"["1"]"#),
        ("SRANDMEMBER k 5", r#"["1"]"#),
        ("SRANDMEMBER k -3", r#"["1", "1", "1"]"#),
        ("SRANDMEMBER k 0", "[]"),
        ("SRANDMEMBER none", "nil"),
        ("SRANDMEMBER none 1", "[]"),
        ("SRANDMEMBER none -1", "[]"),
        ("SRANDMEMBER none x", "-ERR value is not an integer or out of range"),
        ("SRANDMEMBER k x", "-ERR value is not an integer or out of range"),
        (
            "SRANDMEMBER k -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("SRANDMEMBER k 1 1", "-ERR syntax error"),
        ("SPOP k 0", "[]"),
        ("SPOP k -1", "-ERR value is out of range, must be positive"),
        ("SPOP k x", "-ERR value is out of range, must be positive"),
        ("SPOP none 0", "[]"),
        ("SPOP none -1", "-ERR value is out of range, must be positive"),
        ("SPOP none x", "-ERR value is out of range, must be positive"),
        ("SPOP k 1 1", "-ERR syntax error"),
        ("SPOP k", r#""1""#),
        ("EXISTS k", ":0"),
        ("SPOP none", "nil"),
        ("SPOP none 5", "[]"),
        ("SADD k 1 2 3", ":3"),
        ("SPOP k 3", r#"["1", "2", "3"]"#),
        ("EXISTS k", ":0"),
        ("SADD k 1", ":1"),
        ("SPOP k 100", r#"["1"]"#),
        ("SET str v", "+OK"),
        ("SPOP str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SPOP str 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SPOP str x", "-ERR value is out of range, must be positive"),
        ("SRANDMEMBER str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SRANDMEMBER str 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SRANDMEMBER str x", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn a_small_set_is_scanned_at_once() {
    check(&[
        ("SADD k 1 2 a", ":3"),
        ("SSCAN k 0", r#"["0", ["1", "2", "a"]]"#),
        ("SSCAN k 0 MATCH a*", r#"["0", ["a"]]"#),
        ("SSCAN k 0 COUNT 1", r#"["0", ["1", "2", "a"]]"#),
        ("SSCAN none 0", r#"["0", []]"#),
        ("SSCAN k 7", r#"["0", ["1", "2", "a"]]"#),
        ("SSCAN k x", "-ERR invalid cursor"),
        ("SSCAN none x", "-ERR invalid cursor"),
        ("SSCAN k 0 COUNT 0", "-ERR syntax error"),
        ("SSCAN k 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("SSCAN k 0 FOO", "-ERR syntax error"),
        ("SSCAN k 0 MATCH", "-ERR syntax error"),
        ("SSCAN k 0 TYPE set", "-ERR syntax error"),
        ("SSCAN k 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
        ("SET str v", "+OK"),
        ("SSCAN str 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SSCAN str x", "-ERR invalid cursor"),
        ("SSCAN none 0 COUNT 0", r#"["0", []]"#),
    ]);
}

#[test]
fn other_types_are_refused() {
    check(&[
        ("SET str v", "+OK"),
        ("SADD str a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SREM str a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SCARD str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMEMBERS str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SISMEMBER str a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SISMEMBER str a XX", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SMISMEMBER str a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SADD k a", ":1"),
        ("GET k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPUSH k a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("APPEND k a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SETRANGE k 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SETBIT k 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("STRLEN k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn encodings_follow_the_thresholds_and_stick() {
    let mut bench = Bench::with(&[
        ("set-max-intset-entries", "4"),
        ("set-max-listpack-entries", "3"),
        ("set-max-listpack-value", "5"),
    ]);
    let check = |bench: &mut Bench, line: &str, key: &str, encoding: &str| {
        bench.run(line);
        let expected = format!("\"{encoding}\"");
        assert_eq!(bench.run(&format!("OBJECT ENCODING {key}")), expected, "after {line}");
    };
    check(&mut bench, "SADD a 1 2 3 4", "a", "intset");
    check(&mut bench, "SADD a 4", "a", "intset");
    check(&mut bench, "SADD a 5", "a", "hashtable");
    check(&mut bench, "SREM a 5 4 3 2", "a", "hashtable");
    check(&mut bench, "SADD b 1 2 3 4 5", "b", "hashtable");
    check(&mut bench, "SADD c x 1 2", "c", "listpack");
    check(&mut bench, "SADD c 2", "c", "listpack");
    check(&mut bench, "SADD c 3", "c", "hashtable");
    check(&mut bench, "SADD d x abcdef", "d", "hashtable");
    check(&mut bench, "SADD e 1 2", "e", "intset");
    check(&mut bench, "SADD e x", "e", "listpack");
    check(&mut bench, "SADD f 1 2 3", "f", "intset");
    check(&mut bench, "SADD f x", "f", "hashtable");
    check(&mut bench, "SADD g 100000", "g", "intset");
    check(&mut bench, "SADD g x", "g", "hashtable");
    // A set that is sure to become too large is converted at once, whether or not members are added.
    check(&mut bench, "SADD h x", "h", "listpack");
    check(&mut bench, "SADD h x x x x", "h", "hashtable");
    // Changing a setting converts no set.
    check(&mut bench, "SADD i 1 2 3 4", "i", "intset");
    bench.check("CONFIG SET set-max-intset-entries 2", "+OK");
    check(&mut bench, "SREM i 4", "i", "intset");
    check(&mut bench, "SADD i 4", "i", "hashtable");
}

#[test]
fn a_pop_of_most_members_makes_a_small_set_of_the_rest() {
    let mut bench = Bench::new();
    let add = |bench: &mut Bench, key: &str, count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        bench.run(&format!("SADD {key} {}", members.join(" ")));
    };
    add(&mut bench, "k", 200);
    bench.check("OBJECT ENCODING k", r#""hashtable""#);
    bench.run("SPOP k 100");
    bench.check("OBJECT ENCODING k", r#""hashtable""#);
    bench.check("SCARD k", ":100");
    bench.run("SPOP k 90");
    bench.check("OBJECT ENCODING k", r#""listpack""#);
    bench.check("SCARD k", ":10");
}

#[test]
fn draws_are_members_and_differ() {
    let mut bench = Bench::new();
    for (key, count) in [("small", 20), ("large", 3000)] {
        let members: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        bench.run(&format!("SADD {key} {}", members.join(" ")));
        for drawn in [1, 5, 15, count / 2, count - 1] {
            let reply = bench.run(&format!("SRANDMEMBER {key} {drawn}"));
            let names: std::collections::BTreeSet<&str> =
                reply.split('"').filter(|part| part.starts_with('m')).collect();
            assert_eq!(names.len(), drawn, "{key} {drawn}");
        }
        let reply = bench.run(&format!("SRANDMEMBER {key} -50"));
        assert_eq!(reply.matches("\"m").count(), 50);
        let popped = bench.run(&format!("SPOP {key} 7"));
        assert_eq!(popped.matches("\"m").count(), 7);
        for name in popped.split('"').filter(|part| part.starts_with('m')) {
            bench.check(&format!("SISMEMBER {key} {name}"), ":0");
        }
        bench.check(&format!("SCARD {key}"), &format!(":{}", count - 7));
    }
}

#[test]
fn a_scan_of_a_large_set_visits_every_member() {
    let mut bench = Bench::new();
    let members: Vec<String> = (0..2000).map(|n| format!("m{n}")).collect();
    bench.run(&format!("SADD k {}", members.join(" ")));
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    for call in 0..2000 {
        let reply = bench.run(&format!("SSCAN k {cursor} COUNT 10"));
        let mut parts =
            reply.split('"').filter(|part| !part.contains([' ', '[', ']', ',']) && !part.is_empty());
        cursor = parts.next().expect("the cursor comes first").to_owned();
        seen.extend(parts.map(str::to_owned));
        if cursor == "0" {
            assert!(call > 50, "{call} calls are too few for some ten members each");
            break;
        }
    }
    assert_eq!(seen.len(), 2000);
}

#[test]
fn replies_are_sets_in_the_third_version_of_the_protocol() {
    check(&[
        ("SADD a 1 2", ":2"),
        ("SADD b 2 3", ":2"),
        ("HELLO 3", "+OK"),
        ("SMEMBERS a", r#"~["1", "2"]"#),
        ("SMEMBERS none", "~[]"),
        ("SINTER a b", r#"~["2"]"#),
        ("SUNION a", r#"~["1", "2"]"#),
        ("SDIFF a b", r#"~["1"]"#),
        ("SRANDMEMBER a 2", r#"["1", "2"]"#),
        ("SMISMEMBER a 1 5", "[:1, :0]"),
        ("SPOP a 0", "~[]"),
        ("SPOP a 2", r#"~["1", "2"]"#),
        ("SPOP a", "null"),
    ]);
}

#[test]
fn values_are_copied_and_restored() {
    let mut bench = Bench::new();
    for (key, members) in
        [("ints", "1 2 70000"), ("pack", "a b 5"), ("table", &format!("a 1 {}", "x".repeat(70)))]
    {
        bench.run(&format!("SADD {key} {members}"));
        let (digest, encoding) =
            (bench.run(&format!("DEBUG DIGEST-VALUE {key}")), bench.run(&format!("OBJECT ENCODING {key}")));
        bench.check(&format!("COPY {key} copy REPLACE"), ":1");
        assert_eq!(bench.run("DEBUG DIGEST-VALUE copy"), digest);
        let dumped = bench.argv(&[b"DUMP", key.as_bytes()]);
        let payload =
            &dumped[dumped.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1..dumped.len() - 2];
        assert_eq!(bench.argv(&[b"RESTORE", b"back", b"0", payload, b"REPLACE"]), b"+OK\r\n");
        assert_eq!(bench.run("DEBUG DIGEST-VALUE back"), digest);
        assert_eq!(bench.run("OBJECT ENCODING back"), encoding);
        bench.check("SADD copy another", ":1");
        assert_eq!(bench.run(&format!("DEBUG DIGEST-VALUE {key}")), digest);
        bench.check("RENAME copy copy2", "+OK");
        bench.check("MOVE copy2 1", ":1");
        bench.run("SELECT 1");
        bench.check("DEL copy2", ":1");
        bench.run("SELECT 0");
    }
}

/// Adds the members in the range `members` to a set, in requests of a hundred.
fn fill(bench: &mut Bench, key: &str, members: std::ops::Range<usize>) {
    for at in members.clone().step_by(100) {
        let names = (at..members.end.min(at + 100)).map(|member| format!(" member:{member}"));
        bench.run(&format!("SADD {key}{}", names.collect::<String>()));
    }
}

#[test]
fn large_sets_are_combined_whole_however_many_they_are() {
    let mut bench = Bench::new();
    bench.check("CONFIG SET set-max-listpack-entries 950 slow-read-elements 0", "+OK");
    let keys: Vec<String> = (0..8).map(|key| format!("s{key}")).collect();
    for (number, key) in keys.iter().enumerate() {
        // The first set is a long listpack, the others are tables; each shares 1,000 members with the next.
        let len = if number == 0 { 900 } else { 3000 };
        fill(&mut bench, key, number * 2000..number * 2000 + len);
    }
    bench.check("OBJECT ENCODING s0", r#""listpack""#);
    bench.check("OBJECT ENCODING s1", r#""hashtable""#);
    for count in 1..=keys.len() {
        let tables = keys[1..count].join(" ");
        let all = keys[..count].join(" ");
        let union = if count == 1 { 900 } else { 900 + 3000 + (count - 2) * 2000 };
        bench.check(&format!("SUNIONSTORE to {all}"), &format!(":{union}"));
        bench.check("SCARD to", &format!(":{union}"));
        let reply = bench.run(&format!("SUNION {all}"));
        assert_eq!(reply.matches("member:").count(), union);
        if count > 1 {
            bench.check(&format!("SUNIONSTORE to {tables} absent {tables}"), &format!(":{}", union - 900));
        }
    }
    bench.check("SINTERSTORE to s1 s2", ":1000");
    bench.check("OBJECT ENCODING to", r#""hashtable""#);
    bench.check("SMISMEMBER to member:3999 member:4000 member:4999 member:5000", "[:0, :1, :1, :0]");
    bench.check("SDIFFSTORE to s1 s2", ":2000");
    bench.check("SMISMEMBER to member:2000 member:3999 member:4000", "[:1, :1, :0]");
    bench.check("SADD to member:2000 other", ":1");
    bench.check("SREM to member:2000 other", ":2");
    bench.check("SINTERSTORE to s1 s3", ":0");
    bench.check("EXISTS to", ":0");
}

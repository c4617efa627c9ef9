//! Behaviour of the hash commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};
use std::collections::BTreeSet;

#[test]
fn pairs_keep_their_order_while_a_hash_is_a_listpack() {
    check(&[
        ("HSET h a 1 b 2 c xyz", ":3"),
        ("HSET h b 5 d -7", ":1"),
        ("HGETALL h", r#"["a", "1", "b", "5", "c", "xyz", "d", "-7"]"#),
        ("HKEYS h", r#"["a", "b", "c", "d"]"#),
        ("HVALS h", r#"["1", "5", "xyz", "-7"]"#),
        ("HMGET h d none a", r#"["-7", nil, "1"]"#),
        ("HSCAN h 0", r#"["0", ["a", "1", "b", "5", "c", "xyz", "d", "-7"]]"#),
        ("HSCAN h 77 MATCH [ab] NOVALUES", r#"["0", ["a", "b"]]"#),
        ("HSTRLEN h c", ":3"),
        ("HSTRLEN h d", ":2"),
        ("HSTRLEN h none", ":0"),
        ("OBJECT ENCODING h", r#""listpack""#),
        ("TYPE h", "+hash"),
        ("HDEL h a c", ":2"),
        ("HGETALL h", r#"["b", "5", "d", "-7"]"#),
        ("HDEL h b d e", ":2"),
        ("EXISTS h", ":0"),
        ("HGETALL h", "[]"),
        ("HSET h \"\" \"\"", ":1"),
        ("HGET h \"\"", r#""""#),
        ("SCAN 0 TYPE hash", r#"["0", ["h"]]"#),
    ]);
}

#[test]
fn a_large_hash_is_scanned_and_drawn_from_completely() {
    let mut bench = Bench::new();
    for n in 0..2000 {
        bench.check(&format!("HSET h field:{n} {n}"), ":1");
    }
    bench.check("OBJECT ENCODING h", r#""hashtable""#);
    bench.check("HLEN h", ":2000");
    bench.check("HGET h field:1234", r#""1234""#);
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut calls = 0;
    loop {
        let reply = bench.run(&format!("HSCAN h {cursor} COUNT 100 NOVALUES"));
        let words: Vec<&str> = reply.split('"').skip(1).step_by(2).collect();
        seen.extend(words[1..].iter().map(|word| word.to_string()));
        cursor = words[0].to_owned();
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((seen.len(), calls), (2000, 20));
    for count in [1, 10, 700, 1999, 2000, 5000] {
        let reply = bench.run(&format!("HRANDFIELD h {count}"));
        let drawn: BTreeSet<&str> = reply.split('"').skip(1).step_by(2).collect();
        assert_eq!(drawn.len(), count.min(2000), "different fields");
    }
    assert_eq!(bench.run("HRANDFIELD h -3000").split('"').count() / 2, 3000);
    for n in 0..2000 {
        bench.check(&format!("HDEL h field:{n}"), ":1");
    }
    bench.check("EXISTS h", ":0");
}

#[test]
fn draws_are_about_uniform() {
    let mut bench = Bench::new();
    for n in 0..1000 {
        bench.run(&format!("HSET h f{n} 1"));
    }
    let reply = bench.run("HRANDFIELD h -100000");
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    reply.split('"').skip(1).step_by(2).for_each(|field| *counts.entry(field).or_default() += 1);
    // Each field is expected a hundred times; sixty is six standard deviations.
    assert_eq!(counts.len(), 1000);
    assert!(counts.values().all(|count| (40..=160).contains(count)));
}

#[test]
fn fields_that_are_stored_when_their_time_is_over_count_where_they_were_there() {
    let mut bench = Bench::new();
    for (line, counted) in [
        ("HSETEX h PX 0 FIELDS 1 a 1", 0),
        ("HSET h a 1 b 2", 2),
        ("HSETEX h PX 0 FIELDS 2 c 1 d 1", 0),
        ("HSETEX h PX 0 FIELDS 3 c 1 a 1 d 1", 1),
        ("HSETEX h PX 0 FIELDS 1 b 1", 1),
        ("HSETEX h PX 1 FIELDS 1 x 1", 1),
        ("!expire", 0),
        ("HSETEX h PX 0 FIELDS 1 x 1", 1),
    ] {
        let before = bench.counts.changes;
        match line {
            "!expire" => bench.pass_ms(10),
            _ => assert_eq!(bench.run(line).chars().next(), Some(':'), "{line}"),
        }
        assert_eq!(bench.counts.changes - before, counted, "{line}");
    }
    bench.check("EXISTS h", ":0");
}

#[test]
fn a_hash_with_expiring_fields_keeps_them_under_another_name() {
    let mut bench = Bench::new();
    bench.check("HSET h a 1 b 2", ":2");
    bench.check("HEXPIRE h 100 FIELDS 1 a", "[:1]");
    bench.check("COPY h copy", ":1");
    bench.check("RENAME h other", "+OK");
    bench.check("MOVE other 1", ":1");
    bench.check("HTTL copy FIELDS 2 a b", "[:100, :-1]");
    for db in [0, 1] {
        let db = bench.keyspace.db(db);
        assert_eq!((db.len(), db.expires_len(), db.volatile_len()), (1, 0, 1));
    }
    bench.check("DEL copy", ":1");
    bench.check("SELECT 1", "+OK");
    bench.check("HTTL other FIELDS 2 a b", "[:100, :-1]");
    bench.check("SET other x", "+OK");
    assert!([0, 1].iter().all(|db| bench.keyspace.db(*db).volatile_len() == 0));
}

#[test]
fn a_dump_keeps_fields_values_and_expiries() {
    for line in ["HSET h a 1 b x", "HSETEX h PXAT 33177117420123 FIELDS 2 a 1 b x"] {
        let mut bench = Bench::new();
        bench.run(line);
        let dump = bench.argv(&[b"DUMP", b"h"]);
        let start = dump.iter().position(|byte| *byte == b'\n').expect("a bulk reply has a length") + 1;
        let payload = &dump[start..dump.len() - 2];
        assert_eq!(bench.argv(&[b"RESTORE", b"g", b"0", payload]), b"+OK\r\n");
        for question in ["HGETALL", "OBJECT ENCODING", "HPEXPIRETIME"] {
            let ask = |key: &str| match question {
                "HPEXPIRETIME" => format!("HPEXPIRETIME {key} FIELDS 2 a b"),
                question => format!("{question} {key}"),
            };
            let before = bench.run(&ask("h"));
            assert_eq!(bench.run(&ask("g")), before);
        }
        assert_eq!(bench.run("DEBUG DIGEST-VALUE h"), bench.run("DEBUG DIGEST-VALUE g"));
    }
}

#[test]
fn a_count_that_no_memory_holds_is_refused() {
    check(&[
        ("HSET h a 1", ":1"),
        ("HRANDFIELD h -9223372036854775807", "-ERR value is out of range"),
        ("HRANDFIELD h -200000000", "-ERR value is out of range"),
    ]);
}

#[test]
fn fields_expire_and_are_absent_from_then_on() {
    let mut bench = Bench::new();
    for (line, wanted) in [
        ("HSET h a 1 b 2", ":2"),
        ("HEXPIRE h 100 FIELDS 1 a", "[:1]"),
        ("HTTL h FIELDS 3 a b c", "[:100, :-1, :-2]"),
        ("HTTL nokey FIELDS 2 a b", "[:-2, :-2]"),
        ("HSET h a 5", ":0"),
        ("HTTL h FIELDS 1 a", "[:-1]"),
        ("HEXPIRE h 0 FIELDS 1 a", "[:2]"),
        ("HEXPIRE h -5 FIELDS 1 b", "-ERR invalid expire time in 'hexpire' command"),
        ("HEXPIRE h 10 NX FIELDS 1 b", "[:1]"),
        ("HSET h a 1 b 2 c 3", ":2"),
        ("HPEXPIRE h 30 FIELDS 2 a b", "[:1, :1]"),
    ] {
        bench.check(line, wanted);
    }
    bench.pass_ms(50);
    for (line, wanted) in [
        ("HLEN h", ":3"),
        ("HGET h a", "nil"),
        ("HEXISTS h a", ":0"),
        ("HSTRLEN h a", ":0"),
        ("HMGET h a b c", r#"[nil, nil, "3"]"#),
        ("HTTL h FIELDS 2 a c", "[:-2, :-1]"),
        ("HEXPIRE h 10 FIELDS 1 a", "[:-2]"),
        ("HPERSIST h FIELDS 1 a", "[:-2]"),
        ("HSETNX h a 9", ":1"),
        ("HLEN h", ":3"),
        ("HINCRBY h b 5", ":5"),
        ("HLEN h", ":3"),
        ("OBJECT ENCODING h", r#""hashtable""#),
        ("HPEXPIRE h 1 FIELDS 3 a b c", "[:1, :1, :1]"),
    ] {
        bench.check(line, wanted);
    }
    bench.pass_ms(20);
    for (line, wanted) in [
        ("HLEN h", ":3"),
        ("EXISTS h", ":1"),
        ("TYPE h", "+hash"),
        ("HDEL h a", ":0"),
        ("HLEN h", ":3"),
        ("HDEL h b c", ":0"),
        ("EXISTS h", ":1"),
        ("HSETEX h EX 10 FIELDS 2 a 1 b 2", ":1"),
        ("HSETEX h FNX EX 10 FIELDS 2 a 1 c 2", ":0"),
        ("HSETEX h FXX EX 10 FIELDS 2 a 1 c 2", ":0"),
        ("HSETEX h FXX EX 10 FIELDS 2 a 1 b 2", ":1"),
        ("HSETEX h KEEPTTL FIELDS 1 a 7", ":1"),
        ("HTTL h FIELDS 2 a b", "[:10, :10]"),
        ("HSETEX h FIELDS 1 a 7", ":1"),
        ("HTTL h FIELDS 2 a b", "[:-1, :10]"),
        ("HSETEX h NX FIELDS 1 a 7", ":0"),
        ("HSETEX h XX FIELDS 1 a 7", ":1"),
        ("HSETEX k2 XX FIELDS 1 a 7", ":0"),
        ("HSETEX k2 NX PX 1000 FIELDS 1 a 7", ":1"),
        ("HSETEX k2 PXAT 1 FIELDS 2 a 7 b 5", ":1"),
        ("EXISTS k2", ":0"),
        ("HSETEX k3 PXAT 1 FIELDS 1 a 7", ":1"),
        ("EXISTS k3", ":0"),
        ("HGETEX h FIELDS 1 a", r#"["7"]"#),
        ("HGETEX h EX 10 FIELDS 3 a b zz", r#"["7", "2", nil]"#),
        ("HGETEX h PERSIST FIELDS 2 a b", r#"["7", "2"]"#),
        ("HGETEX h PERSIST FIELDS 2 a b", r#"["7", "2"]"#),
        ("HGETEX h PXAT 1 FIELDS 1 a", r#"["7"]"#),
        ("HGETEX nokey EX 10 FIELDS 1 a", "[nil]"),
        ("HGETDEL h FIELDS 2 b zz", r#"["2", nil]"#),
        ("EXISTS h", ":1"),
        ("HGETDEL h FIELDS 2 b zz", "[nil, nil]"),
        ("HSET h a 1 b 2", ":2"),
        ("HPEXPIRE h 1 FIELDS 1 a", "[:1]"),
    ] {
        bench.check(line, wanted);
    }
    bench.pass_ms(20);
    for (line, wanted) in [
        ("HGETDEL h FIELDS 1 a", "[nil]"),
        ("HLEN h", ":3"),
        ("HGETEX h EX 10 FIELDS 1 a", "[nil]"),
        ("HSETEX h FNX EX 10 FIELDS 1 a 5", ":1"),
        ("HLEN h", ":3"),
        ("HINCRBY h a 1", ":6"),
        ("HTTL h FIELDS 1 a", "[:10]"),
        ("HINCRBYFLOAT h a 1.5", r#""7.5""#),
        ("HTTL h FIELDS 1 a", "[:10]"),
        ("HPEXPIRE h 1 FIELDS 1 a", "[:1]"),
    ] {
        bench.check(line, wanted);
    }
    bench.pass_ms(20);
    for (line, wanted) in [("HSETEX h FXX EX 10 FIELDS 1 a 5", ":0"), ("HSET h a 6", ":1"), ("HLEN h", ":3")]
    {
        bench.check(line, wanted);
    }
}

#[test]
fn arguments_are_refused_in_the_references_order_and_words() {
    let mut bench = Bench::new();
    for (line, wanted) in [
        ("HSET h a 1 b 2", ":2"),
        ("HEXPIRE h abc FIELDS 1 a", "-ERR value is not an integer or out of range"),
        (
            "HEXPIRE h 10 FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HEXPIRE h 10 FIELDS 1 a b",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HEXPIRE h 10 FIELDS 0 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HEXPIRE h 10 FIELDS -1 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HEXPIRE h 10 FIELDS x a", "-ERR value is not an integer or out of range"),
        (
            "HEXPIRE h 10 NX XX FIELDS 1 a",
            "-ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        ("HEXPIRE h 10 NX NX FIELDS 1 a", "[:1]"),
        ("HEXPIRE h 10 GT LT FIELDS 1 a", "-ERR GT and LT options at the same time are not compatible"),
        ("HEXPIRE h 10 FOO FIELDS 1 a", "-ERR Unsupported option FOO"),
        (
            "HEXPIRE h 10 FIELDS 1 a NX",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HEXPIRE h 10 a b c",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HEXPIRE h 10 NX a b c d",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
        ("HPEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hpexpire' command"),
        ("HEXPIREAT h -1 FIELDS 1 a", "-ERR invalid expire time in 'hexpireat' command"),
        ("HPEXPIREAT h 9223372036854775807 FIELDS 1 a", "[:1]"),
        ("HPEXPIRETIME h FIELDS 1 a", "[:9223372036854775807]"),
        ("HEXPIRE h 10 FIELDS 2 a a", "[:1, :1]"),
        ("HEXPIRE h 0 FIELDS 3 a a b", "[:2, :-2, :2]"),
        ("EXISTS h", ":0"),
        ("SET s 1", "+OK"),
        ("HEXPIRE s 10 FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HEXPIRE s abc FIELDS 1 a", "-ERR value is not an integer or out of range"),
        (
            "HEXPIRE s 10 FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HEXPIRE nokey abc FIELDS 1 a", "-ERR value is not an integer or out of range"),
        (
            "HEXPIRE nokey 10 FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HEXPIRE nokey 10 FIELDS 1 a", "[:-2]"),
        ("HTTL h FIELDS 2 a", "-ERR syntax error"),
        ("HTTL s FIELDS 2 a", "-ERR syntax error"),
        ("HTTL h FIELDS 0 a", "-ERR syntax error"),
        ("HTTL h FIELDS x a", "-ERR value is not an integer or out of range"),
        ("HTTL h FOO 1 a", "-ERR syntax error"),
        (
            "HPERSIST h FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HPERSIST s FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HPERSIST s FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HPERSIST h FOO 1 a", "-ERR syntax error"),
        ("HPERSIST nokey FIELDS 1 a", "[:-2]"),
        ("HSETEX h FIELDS 1 a", "-ERR wrong number of arguments for 'hsetex' command"),
        (
            "HSETEX h FIELDS 2 a 1 b",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HSETEX h FIELDS 1 a 1 b 2",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HSETEX h FIELDS 0 a 1",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HSETEX h FIELDS -1 a 1",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HSETEX h FIELDS x a 1", "-ERR value is not an integer or out of range"),
        ("HSETEX h FOO FIELDS 1 a 1", "-ERR syntax error"),
        (
            "HSETEX h FOO 1 a 1",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HSETEX h EX FIELDS 1 a 1", "-ERR syntax error"),
        ("HSETEX h EX 10 PX 10 FIELDS 1 a 1", "-ERR syntax error"),
        ("HSETEX h EX 10 KEEPTTL FIELDS 1 a 1", "-ERR syntax error"),
        ("HSETEX h EX 10 EX 20 FIELDS 1 a 1", ":1"),
        ("HSETEX h NX XX FIELDS 1 a 1", "-ERR syntax error"),
        ("HSETEX h NX NX FIELDS 1 a 1", ":0"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR syntax error"),
        (
            "HSETEX h FIELDS 1 a 1 EX 10",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HSETEX h EX 0 FIELDS 1 a 1", ":1"),
        ("HSETEX h EX -1 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command"),
        ("HSETEX h EX abc FIELDS 1 a 1", "-ERR value is not an integer or out of range"),
        ("HSETEX h EX 9223372036854775807 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command"),
        ("HSETEX s EX 10 FIELDS 1 a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSETEX s EX -1 FIELDS 1 a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "HSETEX s NX EX 10 FIELDS 1 a 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("HSETEX h EX 10 FIELDS 2 a 1 a 2", ":1"),
        ("HSETEX h FNX FIELDS 2 n1 1 n1 2", ":1"),
        ("HSETEX q FXX FIELDS 1 n1 1", ":0"),
        ("HSETEX q FNX FIELDS 1 n1 1", ":1"),
        (
            "HGETEX h FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HGETEX h FIELDS 1 a b",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HGETEX h FIELDS 0 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETEX h FIELDS x a", "-ERR value is not an integer or out of range"),
        (
            "HGETEX h FOO 1 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETEX h FOO FIELDS 1 a", "-ERR syntax error"),
        // The search for the word FIELDS begins at the key.
        ("HGETEX FIELDS h 1 a", "-ERR value is not an integer or out of range"),
        ("HGETEX FIELDS FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HSETEX FIELDS NX FIELDS 1 a b", "-ERR value is not an integer or out of range"),
        ("HSETEX FIELDS 2 a b c d", ":1"),
        ("HGETEX fields 2 a b", "[nil, nil]"),
        ("HGETEX FIELDS 3 a c d", r#"["b", "d", nil]"#),
        ("HGETEX h EX FIELDS 1 a", "-ERR syntax error"),
        ("HGETEX h EX 0 FIELDS 1 a", r#"["2"]"#),
        ("HGETEX h EX -1 FIELDS 1 a", "-ERR invalid expire time in 'hgetex' command"),
        ("HGETEX h EX 1 PX 1 FIELDS 1 a", "-ERR syntax error"),
        ("HGETEX h EX 1 PERSIST FIELDS 1 a", "-ERR syntax error"),
        ("HGETEX h PERSIST PERSIST FIELDS 1 a", "[nil]"),
        ("HGETEX h KEEPTTL FIELDS 1 a", "-ERR syntax error"),
        ("HGETEX h NX FIELDS 1 a", "-ERR syntax error"),
        ("HGETEX s FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HGETEX s EX abc FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HGETEX nokey EX abc FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HGETEX nokey FIELDS 2 a b", "[nil, nil]"),
        (
            "HGETEX h FIELDS 1 a EX 10",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HGETDEL h FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        (
            "HGETDEL h FIELDS 0 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETDEL h FIELDS x a", "-ERR value is not an integer or out of range"),
        ("HGETDEL h FOO 1 a", "-ERR syntax error"),
        (
            "HGETDEL h FIELDS 1 a b",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETDEL s FIELDS 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "HGETDEL s FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETDEL nokey FIELDS 2 a b", "[nil, nil]"),
        ("HGETDEL h FIELDS 2 a a", "[nil, nil]"),
        ("HGETDEL h FIELDS 2 b n1", r#"[nil, "2"]"#),
        ("HSET h a 1", ":1"),
        ("HRANDFIELD h 0", "[]"),
        ("HRANDFIELD h abc", "-ERR value is not an integer or out of range"),
        ("HRANDFIELD h 1 WITHVALUES x", "-ERR syntax error"),
        ("HRANDFIELD h 1 FOO", "-ERR syntax error"),
    ] {
        bench.check(line, wanted);
    }
}

#[test]
fn conditions_encodings_and_numbers() {
    let mut bench = Bench::new();
    for (line, wanted) in [
        ("SET s 1", "+OK"),
        ("HSET h b 2", ":1"),
        ("HSET h a 1", ":1"),
        ("HRANDFIELD s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HRANDFIELD nokey", "nil"),
        ("HRANDFIELD nokey 1", "[]"),
        ("HRANDFIELD nokey abc", "-ERR value is not an integer or out of range"),
        ("HRANDFIELD s abc", "-ERR value is not an integer or out of range"),
        ("HINCRBY h a 9223372036854775807", "-ERR increment or decrement would overflow"),
        ("HSET h x foo", ":1"),
        ("HINCRBY h x 1", "-ERR hash value is not an integer"),
        ("HINCRBY h x abc", "-ERR value is not an integer or out of range"),
        ("HINCRBYFLOAT h x 1", "-ERR hash value is not a float"),
        ("HINCRBYFLOAT h a inf", "-ERR value is NaN or Infinity"),
        ("HINCRBYFLOAT h a nan", "-ERR value is not a valid float"),
        ("HINCRBYFLOAT h a abc", "-ERR value is not a valid float"),
        ("HINCRBYFLOAT s a abc", "-ERR value is not a valid float"),
        ("HINCRBY s a abc", "-ERR value is not an integer or out of range"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
        ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command"),
        ("HMSET h a 1", "+OK"),
        ("HSET s a 1 b", "-ERR wrong number of arguments for 'hset' command"),
        ("HSCAN nokey abc", "-ERR invalid cursor"),
        ("HSCAN nokey 0", r#"["0", []]"#),
        ("HSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSCAN nokey 0 NOVALUES FOO", r#"["0", []]"#),
        ("HSCAN s 0 FOO", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSTRLEN h x", ":3"),
        ("HLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HMGET s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HMGET nokey a b", "[nil, nil]"),
        ("HDEL h a a x", ":2"),
        ("HDEL nokey a", ":0"),
        ("HDEL s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HINCRBY h cnt 5", ":5"),
        ("HINCRBYFLOAT h cnt 0.5", r#""5.5""#),
        ("HSETNX h cnt 5", ":0"),
        ("HSETNX h cnt2 5", ":1"),
        ("OBJECT ENCODING h", r#""listpack""#),
        (
            "HEXPIRE s abc FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HEXPIRE h abc FOO FIELDS 1 a", "-ERR Unsupported option FOO"),
        (
            "HEXPIRE h abc NX XX FIELDS 2 a",
            "-ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        ("HEXPIRE h 10 FOO FIELDS 2 a", "-ERR Unsupported option FOO"),
        ("HEXPIRE h 10 FOO FIELDS x a", "-ERR Unsupported option FOO"),
        ("HEXPIRE h -1 FOO FIELDS 1 a", "-ERR Unsupported option FOO"),
        ("HEXPIRE s -1 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
        ("HEXPIRE nokey -1 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
        (
            "HEXPIRE h -1 NX XX FIELDS 1 a",
            "-ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        ("HEXPIRE h 10 FIELDS FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HSETEX h FOO FIELDS 2 a 1", "-ERR syntax error"),
        ("HSETEX h EX abc FOO FIELDS 1 a 1", "-ERR syntax error"),
        (
            "HSETEX s EX abc FIELDS 2 a 1",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HSETEX s FOO FIELDS 1 a 1", "-ERR syntax error"),
        ("HGETEX s FOO FIELDS 1 a", "-ERR syntax error"),
        (
            "HGETEX s EX 10 FIELDS 2 a",
            "-ERR numfields should be greater than 0 and match the provided number of fields",
        ),
        ("HGETEX h EX 10 FIELDS 1 a", "[nil]"),
        ("HSETEX h FNX EX abc FIELDS 1 a 1", "-ERR value is not an integer or out of range"),
        ("HSETEX h NX EX abc FIELDS 1 a 1", ":0"),
        ("HSETEX zz XX EX -1 FIELDS 1 a 1", ":0"),
        ("HGETEX h EX 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hgetex' command"),
        ("HEXPIRE h 100 GT FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 100 LT FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 100 XX FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 100 XX LT FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 50 GT FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 100 GT FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 0 NX FIELDS 1 x", "[:-2]"),
        ("HEXPIRE h 0 GT FIELDS 1 x", "[:-2]"),
        ("HSET h p 1", ":1"),
        ("HEXPIRE h 0 GT FIELDS 1 p", "[:0]"),
        ("HEXPIRE h 0 XX FIELDS 1 p", "[:0]"),
        ("COPY h h2", ":1"),
        ("HTTL h2 FIELDS 2 x p", "[:-2, :-1]"),
        ("HPERSIST h2 FIELDS 1 x", "[:-2]"),
        ("OBJECT ENCODING h2", r#""listpack""#),
        ("CONFIG SET hash-max-listpack-entries 1", "+OK"),
        ("HSET lp a 1", ":1"),
        ("HSET lp b 1", ":1"),
        ("OBJECT ENCODING lp", r#""hashtable""#),
        ("HSET lp2 a 1 a 2", ":1"),
        ("OBJECT ENCODING lp2", r#""hashtable""#),
        ("CONFIG SET hash-max-listpack-entries 512", "+OK"),
        (
            "HINCRBY lp3 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1",
            ":1",
        ),
        ("OBJECT ENCODING lp3", r#""hashtable""#),
        (
            "HSETNX lp4 a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ":1",
        ),
        ("OBJECT ENCODING lp4", r#""hashtable""#),
        ("HDEL lp4 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ":0"),
        ("HSET lp5 x 1", ":1"),
        (
            "HSETNX lp5 x aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ":0",
        ),
        ("OBJECT ENCODING lp5", r#""listpack""#),
        ("HSETEX lp6 EX 100 FIELDS 1 a 1", ":1"),
        ("OBJECT ENCODING lp6", r#""hashtable""#),
        ("HSETEX lp7 FIELDS 1 a 1", ":1"),
        ("OBJECT ENCODING lp7", r#""listpack""#),
        (
            "HSETEX lp8 FIELDS 1 a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ":1",
        ),
        ("OBJECT ENCODING lp8", r#""hashtable""#),
        ("HSET lp9 x 1", ":1"),
        ("HEXPIRE lp9 100 XX FIELDS 1 x", "[:0]"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
        ("HEXPIRE lp9 100 FIELDS 1 y", "[:-2]"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
        ("HSETEX lp9 KEEPTTL FIELDS 1 y 1", ":1"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
        ("HGETEX lp9 EX 100 FIELDS 1 zz", "[nil]"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
        ("HSETEX lp9 EX 0 FIELDS 1 zz 1", ":1"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
        ("HSETEX lp9 EX 0 FIELDS 1 x 1", ":1"),
        ("OBJECT ENCODING lp9", r#""listpack""#),
    ] {
        bench.check(line, wanted);
    }
}

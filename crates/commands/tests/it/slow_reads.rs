//! Slow reads: which reads are slow, and replies produced by another thread, piece by piece. The
//! engine's tests cover the time at which a read sees the data, and its cost for other clients.

use crate::common::Bench;

fn fill(bench: &mut Bench, key: &str, elements: usize) {
    let numbers: Vec<String> = (0..elements).map(|number| format!("element:{number}")).collect();
    for some in numbers.chunks(1000) {
        let mut argv: Vec<&[u8]> = vec![b"RPUSH", key.as_bytes()];
        argv.extend(some.iter().map(|text| text.as_bytes()));
        bench.argv(&argv);
    }
}

#[test]
fn replies_are_those_of_reads_in_place() {
    let mut apart = Bench::with(&[("slow-read-elements", "1"), ("list-max-listpack-size", "16")]);
    let mut here = Bench::with(&[("slow-read-elements", "0"), ("list-max-listpack-size", "16")]);
    let long = "x".repeat(40_000);
    let text = "ohmytext".repeat(60);
    let other = "mynewtext".repeat(60);
    let mut lines = vec![
        "RPUSH small a 1 b".to_owned(),
        format!("RPUSH l {long} a {long} 12 {}", "y".repeat(9000)),
        format!("SET s {}", "abc".repeat(400)),
        format!("SET a {text}"),
        format!("SET b {other}"),
        "SETRANGE pages 200000 x".to_owned(),
        "SETBIT pages 700001 1".to_owned(),
        "SETRANGE ones 0 x".to_owned(),
    ];
    lines.extend([
        format!("HSET h a 1 b {long} c {} d 4", "z".repeat(3000)),
        "HSET small-h a 1 b 2 c 3".to_owned(),
        "HPEXPIRE h 100000 FIELDS 1 a".to_owned(),
        "HPEXPIRE h 1 FIELDS 1 d".to_owned(),
    ]);
    let fields: Vec<String> = (0..3000).map(|number| format!("field:{number} {number}")).collect();
    lines.push(format!("HSET large-h {}", fields.join(" ")));
    for key in ["h", "small-h", "large-h", "l", "missing"] {
        lines.extend(["HGETALL", "HKEYS", "HVALS", "DUMP"].map(|name| format!("{name} {key}")));
    }
    lines.extend(lines_of_other_types());
    for (first, last) in [(0, -1), (1, 3), (-2, -1), (3, 1), (0, 100), (2, 2)] {
        lines.extend([format!("LRANGE l {first} {last}"), format!("LRANGE small {first} {last}")]);
        for key in ["s", "pages", "a", "missing"] {
            lines.push(format!("BITCOUNT {key} {first} {last}"));
            lines.push(format!("BITCOUNT {key} {} 100000 BIT", first * 13 + 5));
            for bit in [0, 1] {
                lines.push(format!("BITPOS {key} {bit} {first}"));
                lines.push(format!("BITPOS {key} {bit} {first} {last}"));
                lines.push(format!("BITPOS {key} {bit} {} 1600000 BIT", first * 11 + 3));
            }
        }
    }
    for options in ["", "LEN", "IDX", "IDX WITHMATCHLEN MINMATCHLEN 4"] {
        lines.push(format!("LCS a b {options}"));
        lines.push(format!("LCS s a {options}"));
    }
    lines.extend(["DUMP l", "DUMP small", "DUMP s", "LRANGE s 0 -1", "BITCOUNT l"].map(str::to_owned));
    let lines: Vec<String> = lines.iter().chain([&"HELLO 3".to_owned()]).chain(&lines).cloned().collect();
    for line in lines {
        if line.starts_with("HGETALL h") {
            for bench in [&mut apart, &mut here] {
                bench.pass_ms(10);
            }
        }
        let shown = &line[..line.len().min(40)];
        assert_eq!(apart.run(&line), here.run(&line), "{shown}");
    }
    assert_eq!(here.counts.slow_reads, 0);
    assert!(apart.counts.slow_reads > 50, "they went the other way");
}

/// Lines that create sorted sets, a geo set, streams and sets, and lines that read them.
fn lines_of_other_types() -> Vec<String> {
    let scores = |step: usize| (0..2000).map(move |n| format!("{} member:{}", n / 7, n * step));
    let mut lines = vec![
        format!("ZADD z {}", scores(1).collect::<Vec<_>>().join(" ")),
        format!("ZADD other-z {}", scores(3).collect::<Vec<_>>().join(" ")),
        "ZADD small-z 1 member:3 2 b 3 c".to_owned(),
        "ZADD same 0 a 0 b 0 c 0 d".to_owned(),
        "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.5 38.2 near".to_owned(),
    ];
    for range in ["0 -1", "5 100", "-3 -1", "7 2", "0 -1 WITHSCORES", "3 9 WITHSCORES"] {
        for key in ["z", "small-z", "missing", "l"] {
            lines.extend([format!("ZRANGE {key} {range}"), format!("ZREVRANGE {key} {range}")]);
        }
    }
    for line in [
        "ZRANGE z 3 (50 BYSCORE LIMIT 2 100 WITHSCORES",
        "ZRANGE z 50 (3 BYSCORE REV LIMIT 2 100",
        "ZRANGEBYSCORE z -inf +inf WITHSCORES",
        "ZREVRANGEBYSCORE z 100 20",
        "ZRANGEBYLEX same [b + LIMIT 1 10",
        "ZREVRANGEBYLEX same + (a",
        "ZINTERCARD 2 z other-z LIMIT 5",
        "ZINTERCARD 2 z other-z",
        "ZDIFF 2 z z WITHSCORES",
        "GEOSEARCH g FROMLONLAT 14 38 BYRADIUS 300 km ASC WITHDIST WITHHASH WITHCOORD",
        "GEOSEARCH g FROMMEMBER Palermo BYBOX 100 100 km COUNT 1 ANY",
        "GEOSEARCH g BYPOLYGON 3 10 35 17 35 14 40 DESC",
        "GEORADIUS_RO g 14 38 1 m",
        "GEORADIUSBYMEMBER_RO g Palermo 200 km WITHDIST",
    ] {
        lines.push(line.to_owned());
    }
    for name in ["ZUNION", "ZINTER", "ZDIFF"] {
        lines.push(format!("{name} 3 z small-z other-z WITHSCORES"));
        lines.push(format!("{name} 2 missing z"));
    }
    lines.extend(
        ["ZUNION 2 z other-z WEIGHTS 2 -1 AGGREGATE MIN WITHSCORES", "DUMP z", "DUMP g"].map(str::to_owned),
    );
    lines.extend((1..900).map(|n| format!("XADD x {}-{} field {n} other value", n / 5, n % 5 + 1)));
    lines.extend(["XDEL x 3-2 100-1", "XADD one 1-1 a b"].map(str::to_owned));
    for range in ["- +", "5 60-2", "(3-1 (9", "- + COUNT 1", "- + COUNT 350", "9 3", "7-1 7-1", "3-2 3-2"] {
        let ids: Vec<&str> = range.split(' ').collect();
        let rest = ids[2..].join(" ");
        for key in ["x", "one", "missing"] {
            lines.push(format!("XRANGE {key} {range}"));
            lines.push(format!("XREVRANGE {key} {} {} {rest}", ids[1], ids[0]));
        }
    }
    lines.push("DUMP x".to_owned());
    let members =
        |step: usize| (0..2000).map(move |n| format!("member:{}", n * step)).collect::<Vec<_>>().join(" ");
    lines.extend([format!("SADD s1 {}", members(1)), format!("SADD s2 {}", members(3))]);
    lines.extend(["SADD ints 1 2 3 4 5 6", "SADD few a member:3 b"].map(str::to_owned));
    for name in ["SINTER", "SUNION", "SDIFF", "SINTERCARD 2", "SINTERCARD 2"] {
        for keys in ["s1 s2", "s1 few", "ints few", "s1 missing", "missing s1", "s1 s1", "l s1"] {
            lines.push(format!("{name} {keys}"));
        }
    }
    lines.extend(
        ["SINTERCARD 2 s1 s2 LIMIT 7", "ZUNION 2 s1 z WITHSCORES", "ZINTER 2 s2 z"].map(str::to_owned),
    );
    for key in ["s1", "ints", "few", "missing", "l"] {
        lines.extend([format!("SMEMBERS {key}"), format!("DUMP {key}")]);
    }
    lines
}

#[test]
fn large_collections_come_in_pieces() {
    let mut apart = Bench::new();
    let mut here = Bench::with(&[("slow-read-elements", "0")]);
    for first in (0..30_000).step_by(1000) {
        let numbers = || (first..first + 1000).map(|n: usize| n.to_string());
        let words = |of: &dyn Fn(String) -> String| numbers().map(of).collect::<Vec<_>>().join(" ");
        let lines = [
            format!("ZADD z {}", words(&|n| format!("{n} member-{n:0>20}"))),
            format!("SADD s {}", words(&|n| format!("member-{n:0>20}"))),
            format!("HSET h {}", words(&|n| format!("field-{n:0>20} {n}"))),
        ];
        let adds = numbers().map(|n| format!("XADD x {}-1 field {n}", n.parse::<u64>().unwrap() + 1));
        for line in lines.into_iter().chain(adds) {
            assert_eq!(apart.run(&line), here.run(&line));
        }
    }
    for line in [
        "ZRANGE z 0 -1 WITHSCORES",
        "ZREVRANGE z 0 -1",
        "ZUNION 2 z z",
        "HGETALL h",
        "HVALS h",
        "SMEMBERS s",
        "SUNION s s",
        "XRANGE x - +",
        "XREVRANGE x + -",
        "DUMP z",
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let before = apart.counts.slow_reads;
        let reply = apart.argv(&words);
        assert_eq!(apart.counts.slow_reads, before + 1, "{line}");
        assert!(apart.pieces.iter().all(|len| *len <= 256 << 10), "{line}: {:?}", apart.pieces);
        assert!(reply == here.argv(&words), "{line}");
    }
}

/// Creates keys and elements whose names match slowly. Returns the pattern, which has `[^b]` many times and
/// then `b`.
fn hostile_names(bench: &mut Bench) -> String {
    for name in ["a".repeat(20_000), "a".repeat(16_000) + "b", "b".repeat(14_000), "short".to_owned()] {
        bench.check(&format!("SET {name} x"), "+OK");
        bench.check(&format!("HSET h {name} 1"), ":1");
        bench.check(&format!("SADD s {name}"), ":1");
        bench.check(&format!("ZADD z 1.5 {name}"), ":1");
    }
    format!("*{}b*", "[^b]".repeat(8000))
}

fn sorted_names(reply: &str) -> Vec<String> {
    let mut names: Vec<String> = reply.split('"').map(str::to_owned).collect();
    names.sort();
    names
}

fn check_matched_apart(limits: &[(&str, &str)]) {
    let mut apart = Bench::with(limits);
    let mut here = Bench::with(&[limits, &[("slow-read-elements", "0")]].concat());
    let pattern = hostile_names(&mut apart);
    hostile_names(&mut here);
    let mut apart_before = apart.counts.slow_reads;
    let forms = [
        "KEYS #",
        "SCAN 0 COUNT 1000 MATCH #",
        "HSCAN h 0 COUNT 1000 MATCH #",
        "SSCAN s 0 COUNT 1000 MATCH #",
        "ZSCAN z 0 COUNT 1000 MATCH #",
        "HSCAN h 0 COUNT 1000 MATCH # NOVALUES",
    ];
    for form in forms {
        let line = form.replace('#', &pattern);
        let reply = apart.run(&line);
        apart_before += 1;
        assert_eq!(apart.counts.slow_reads, apart_before, "{form}: another thread matches");
        let expected = here.run(&line);
        assert!(expected.contains("aab\""), "{form}: {expected}");
        assert!(!expected.contains("short"), "{form}");
        if form.starts_with("SCAN") {
            // A call ends after the bucket that contains an undecided name.
            assert!(!reply.contains("short"), "{form}");
            continue;
        }
        assert_eq!(sorted_names(&reply), sorted_names(&expected), "{form}");
    }
    // A queued KEYS is matched on the main thread.
    apart.may_wait = false;
    apart.run(&format!("KEYS {pattern}"));
    apart.may_wait = true;
    assert_eq!(apart.run("KEYS s*").matches('"').count(), 4, "ordinary patterns are decided at once");
    assert_eq!(apart.counts.slow_reads, apart_before);
}

#[test]
fn a_pattern_that_takes_long_is_matched_apart() {
    check_matched_apart(&[]);
}

#[test]
fn a_pattern_that_takes_long_over_tables_is_matched_apart() {
    check_matched_apart(&[("hash-max-listpack-entries", "1"), ("zset-max-listpack-entries", "1")]);
}

#[test]
fn a_small_range_of_a_large_stream_or_map_is_read_where_it_runs() {
    let mut bench = Bench::new();
    for n in 0..5000 {
        bench.run(&format!("XADD x {n}-1 a b"));
        bench.run(&format!("GEOADD g {} 10 {n}", n as f64 / 1000.0));
    }
    assert!(bench.run("XRANGE x 100 102").starts_with("[[\"100-1\""));
    assert!(bench.run("XRANGE x - + COUNT 2").starts_with("[[\"0-1\""));
    assert_eq!(bench.run("GEOSEARCH g FROMLONLAT 1 10 BYRADIUS 10 m ASC"), "[\"1000\"]");
    assert_eq!(bench.counts.slow_reads, 0);
    bench.run("GEOSEARCH g FROMLONLAT 1 10 BYRADIUS 10000 km");
    assert_eq!(bench.counts.slow_reads, 1);
}

#[test]
fn a_reply_comes_in_pieces_of_256_kib_at_most() {
    let mut bench = Bench::new();
    fill(&mut bench, "l", 100_000);
    let reply = bench.argv(&[b"LRANGE", b"l", b"0", b"-1"]);
    let (last, others) = bench.pieces.split_last().unwrap();
    assert!(*last <= 256 << 10 && others.len() > 2, "{:?}", bench.pieces);
    let is_full = |len: &usize| (200 << 10..=256 << 10).contains(len);
    assert!(others.iter().all(is_full), "as large as may be: {:?}", bench.pieces);
    let mut here = Bench::with(&[("slow-read-elements", "0")]);
    fill(&mut here, "l", 100_000);
    assert!(reply == here.argv(&[b"LRANGE", b"l", b"0", b"-1"]));
}

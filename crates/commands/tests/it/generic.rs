//! Behaviour of the commands on keys of any type.

use crate::common::{Bench, check};
use sluice_resp::Protocol;

#[test]
fn del_and_unlink_count_what_was_there() {
    check(&[
        ("MSET a 1 b 2 c 3 d 4", "+OK"),
        ("DEL a b a nokey", ":2"),
        ("UNLINK c nokey", ":1"),
        ("EXISTS a b c d", ":1"),
        ("DEL", "-ERR wrong number of arguments for 'del' command"),
        ("UNLINK", "-ERR wrong number of arguments for 'unlink' command"),
    ]);
}

#[test]
fn exists_and_touch_count_a_key_as_often_as_it_is_named() {
    check(&[
        ("MSET a 1 b 2", "+OK"),
        ("EXISTS a a b c", ":3"),
        ("TOUCH a b c a", ":3"),
        ("EXISTS", "-ERR wrong number of arguments for 'exists' command"),
        ("TOUCH", "-ERR wrong number of arguments for 'touch' command"),
    ]);
}

#[test]
fn type_names_the_type() {
    check(&[
        ("SET a 1", "+OK"),
        ("TYPE a", "+string"),
        ("TYPE nokey", "+none"),
        ("TYPE", "-ERR wrong number of arguments for 'type' command"),
    ]);
}

#[test]
fn rename() {
    check(&[
        ("SET a 1", "+OK"),
        ("RENAME a a", "+OK"),
        ("RENAME nokey x", "-ERR no such key"),
        ("RENAME nokey nokey", "-ERR no such key"),
        ("SET b 2 EX 100", "+OK"),
        ("RENAME a b", "+OK"),
        ("GET b", "\"1\""),
        ("TTL b", ":-1"),
        ("EXISTS a", ":0"),
        ("EXPIRE b 100", ":1"),
        ("RENAME b c", "+OK"),
        ("TTL c", ":100"),
        ("RENAME a", "-ERR wrong number of arguments for 'rename' command"),
    ]);
}

#[test]
fn renamenx() {
    check(&[
        ("MSET a 1 b 2", "+OK"),
        ("RENAMENX a a", ":0"),
        ("RENAMENX a b", ":0"),
        ("RENAMENX nokey b", "-ERR no such key"),
        ("RENAMENX a c", ":1"),
        ("MGET a b c", "[nil, \"2\", \"1\"]"),
    ]);
}

#[test]
fn copy() {
    check(&[
        ("SET d 1 EX 100", "+OK"),
        ("COPY d d", "-ERR source and destination objects are the same"),
        ("COPY d d DB 0", "-ERR source and destination objects are the same"),
        ("COPY d d DB 1 DB 0", "-ERR source and destination objects are the same"),
        ("COPY nokey nokey", "-ERR source and destination objects are the same"),
        ("COPY d e", ":1"),
        ("TTL e", ":100"),
        ("COPY d e", ":0"),
        ("SET d 2", "+OK"),
        ("COPY d e REPLACE REPLACE", ":1"),
        ("GET e", "\"2\""),
        ("TTL e", ":-1"),
        ("COPY d d db 1", ":1"),
        ("COPY d e DB 99", "-ERR DB index is out of range"),
        ("COPY d e DB -1", "-ERR DB index is out of range"),
        ("COPY d e DB 99 foo", "-ERR DB index is out of range"),
        ("COPY d e DB x", "-ERR value is not an integer or out of range"),
        ("COPY d d DB x", "-ERR value is not an integer or out of range"),
        (
            "COPY d e DB 4294967296",
            "-ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        ("COPY d e DB", "-ERR syntax error"),
        ("COPY d e DB 0 DB", "-ERR syntax error"),
        ("COPY d e FOO", "-ERR syntax error"),
        ("COPY nokey e REPLACE", ":0"),
        ("GET e", "\"2\""),
        ("COPY d", "-ERR wrong number of arguments for 'copy' command"),
    ]);
}

#[test]
fn move_goes_to_another_database_and_back() {
    check(&[
        ("SET d 1 EX 100", "+OK"),
        ("MOVE d 0", "-ERR source and destination objects are the same"),
        ("MOVE nokey 0", "-ERR source and destination objects are the same"),
        ("MOVE d x", "-ERR value is not an integer or out of range"),
        ("MOVE d 99", "-ERR DB index is out of range"),
        ("MOVE d -1", "-ERR DB index is out of range"),
        ("MOVE d 2147483648", "-ERR value is out of range, value must between -2147483648 and 2147483647"),
        ("MOVE nokey 1", ":0"),
        ("MOVE d 1", ":1"),
        ("EXISTS d", ":0"),
        ("SET d 2", "+OK"),
        ("MOVE d 1", ":0"),
        ("SELECT 1", "+OK"),
        ("GET d", "\"1\""),
        ("TTL d", ":100"),
        ("MOVE d", "-ERR wrong number of arguments for 'move' command"),
    ]);
}

#[test]
fn move_replaces_what_is_there_when_told_to() {
    check(&[
        ("SET d new EX 100", "+OK"),
        ("SELECT 1", "+OK"),
        ("RPUSH d old old", ":2"),
        ("SELECT 0", "+OK"),
        ("MOVE d 1 FOO", "-ERR syntax error"),
        ("MOVE d 1 REPLACE REPLACE", "-ERR syntax error"),
        ("MOVE nokey 99 FOO", "-ERR syntax error"),
        ("MOVE d 0 REPLACE", "-ERR source and destination objects are the same"),
        ("MOVE d 99 REPLACE", "-ERR DB index is out of range"),
        ("MOVE nokey 1 REPLACE", ":0"),
        ("MOVE d 1", ":0"),
        ("MOVE d 1 replace", ":1"),
        ("EXISTS d", ":0"),
        ("MOVE d 1 REPLACE", ":0"),
        ("SELECT 1", "+OK"),
        ("DBSIZE", ":1"),
        ("GET d", "\"new\""),
        ("TTL d", ":100"),
        ("MOVE d 0 REPLACE", ":1"),
        ("DBSIZE", ":0"),
    ]);
}

#[test]
fn keys() {
    check(&[
        ("KEYS *", "[]"),
        ("MSET one 1 two 2", "+OK"),
        ("KEYS o*", "[\"one\"]"),
        ("KEYS t[a-z]o", "[\"two\"]"),
        ("KEYS nokey*", "[]"),
        ("KEYS", "-ERR wrong number of arguments for 'keys' command"),
    ]);
}

#[test]
fn scan_options_and_their_errors() {
    check(&[
        ("SCAN 0", "[\"0\", []]"),
        ("SET d 1", "+OK"),
        ("SCAN 0", "[\"0\", [\"d\"]]"),
        ("SCAN +0", "[\"0\", [\"d\"]]"),
        ("SCAN 0 MATCH d TYPE string", "[\"0\", [\"d\"]]"),
        ("SCAN 0 TYPE String", "[\"0\", [\"d\"]]"),
        ("SCAN 0 TYPE list", "[\"0\", []]"),
        ("SCAN 0 TYPE hash", "[\"0\", []]"),
        ("SCAN 0 MATCH * MATCH zz", "[\"0\", []]"),
        ("SCAN 0 TYPE nonsense", "-ERR unknown type name 'nonsense'"),
        ("SCAN 0 TYPE foo COUNT 0", "-ERR unknown type name 'foo'"),
        ("SCAN 0 TYPE none", "-ERR unknown type name 'none'"),
        ("SCAN 0 COUNT 5 COUNT 7", "[\"0\", [\"d\"]]"),
        ("SCAN 0 COUNT 9223372036854775807", "[\"0\", [\"d\"]]"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 0 COUNT -1", "-ERR syntax error"),
        ("SCAN 0 COUNT abc", "-ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT", "-ERR syntax error"),
        ("SCAN 0 MATCH", "-ERR syntax error"),
        ("SCAN 0 TYPE", "-ERR syntax error"),
        ("SCAN 0 FOO", "-ERR syntax error"),
        ("SCAN 0 FOO bar", "-ERR syntax error"),
        ("SCAN 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
        ("SCAN 0 NOSCORES", "-ERR NOSCORES option can only be used in ZSCAN"),
        ("SCAN abc", "-ERR invalid cursor"),
        ("SCAN abc COUNT 0", "-ERR invalid cursor"),
        ("SCAN -1", "-ERR invalid cursor"),
        ("SCAN 18446744073709551616", "-ERR invalid cursor"),
    ]);
}

#[test]
fn scan_from_any_cursor_answers() {
    let mut bench = Bench::new();
    bench.check("SET d 1", "+OK");
    for cursor in [1u64, 12345, 1 << 40, u64::MAX] {
        let reply = bench.run(&format!("SCAN {cursor}"));
        assert!(reply.starts_with("[\""), "{cursor}: {reply}");
    }
}

#[test]
fn scan_visits_every_key_while_others_come_and_go() {
    let mut bench = Bench::new();
    for i in 0..500 {
        bench.run(&format!("SET stay:{i} v"));
    }
    let mut seen = std::collections::BTreeSet::new();
    let (mut cursor, mut round) = ("0".to_owned(), 0);
    loop {
        let reply = bench.run(&format!("SCAN {cursor} COUNT 7 MATCH stay:*"));
        let mut words = reply.split('"').skip(1).step_by(2).map(str::to_owned);
        cursor = words.next().unwrap();
        seen.extend(words);
        for i in 0..20 {
            bench.run(&format!("SET come:{round}:{i} v"));
            bench.run(&format!("DEL come:{}:{i}", (round + 180) / 2));
        }
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 500);
}

#[test]
fn randomkey() {
    let mut bench = Bench::new();
    bench.check("RANDOMKEY", "nil");
    bench.check("MSET a 1 b 2", "+OK");
    let seen: std::collections::BTreeSet<String> = (0..100).map(|_| bench.run("RANDOMKEY")).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["\"a\"", "\"b\""]);
    bench.check("RANDOMKEY x", "-ERR wrong number of arguments for 'randomkey' command");
}

#[test]
fn randomkey_finds_the_one_live_key_among_expired_ones() {
    let mut bench = Bench::new();
    for i in 0..2000 {
        bench.run(&format!("SET gone:{i} v PX 10"));
    }
    bench.check("SET live v", "+OK");
    bench.pass_ms(20);
    bench.check("RANDOMKEY", "\"live\"");
    bench.check("DEL live", ":1");
    bench.check("RANDOMKEY", "nil");
}

#[test]
fn object() {
    let mut bench = Bench::new();
    bench.check("SET k v", "+OK");
    bench.check("SET n 12", "+OK");
    bench.check("OBJECT ENCODING k", "\"embstr\"");
    bench.check("OBJECT ENCODING n", "\"int\"");
    bench.check("OBJECT ENCODING nokey", "nil");
    bench.check("OBJECT REFCOUNT k", ":1");
    bench.check("OBJECT REFCOUNT nokey", "nil");
    bench.check("OBJECT IDLETIME k", ":0");
    bench.pass_ms(3000);
    bench.check("OBJECT IDLETIME k", ":3");
    bench.check("EXISTS k", ":1");
    bench.check("OBJECT IDLETIME k", ":3");
    bench.check("TOUCH k", ":1");
    bench.check("OBJECT IDLETIME k", ":0");
    bench.check("OBJECT IDLETIME nokey", "nil");
    bench.check("OBJECT FREQ nokey", "nil");
    bench.check(
        "OBJECT FREQ k",
        "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    bench.check("OBJECT", "-ERR wrong number of arguments for 'object' command");
    bench.check("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command");
    bench.check("OBJECT HELP x", "-ERR wrong number of arguments for 'object|help' command");
    assert!(bench.run("OBJECT HELP").contains("IDLETIME <key>"));
}

#[test]
fn object_freq_under_an_lfu_policy() {
    let mut bench = Bench::with(&[("maxmemory-policy", "allkeys-lfu"), ("lfu-log-factor", "0")]);
    bench.check("SET k v", "+OK");
    bench.check("OBJECT FREQ k", ":5");
    bench.check("GET k", "\"v\"");
    bench.check("OBJECT FREQ k", ":6");
    bench.check("TTL k", ":-1");
    bench.check("EXISTS k", ":1");
    bench.check("TYPE k", "+string");
    bench.check("OBJECT FREQ k", ":6");
    bench.check("EXPIRE k 1000", ":1");
    bench.check("PERSIST k", ":1");
    bench.check("OBJECT FREQ k", ":8");
    bench.pass_ms(120_000);
    bench.check("OBJECT FREQ k", ":6");
    bench.check(
        "OBJECT IDLETIME k",
        "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
         policies at runtime LRU and LFU data will take some time to adjust.",
    );
}

#[test]
fn replies_are_the_same_in_both_protocols_where_there_is_no_null() {
    let mut bench = Bench::new();
    bench.run("SET k v EX 100");
    for line in ["KEYS *", "SCAN 0", "TYPE k", "TTL k", "EXISTS k", "RANDOMKEY", "OBJECT ENCODING k"] {
        let [two, three] = [Protocol::Resp2, Protocol::Resp3].map(|proto| {
            bench.proto = proto;
            bench.run(line)
        });
        assert_eq!(two, three, "{line}");
    }
}

#[test]
fn scan_reads_words_up_to_a_zero_byte() {
    check(&[
        (r#"SCAN "0\x00x""#, "[\"0\", []]"),
        (r#"SCAN "\x00""#, "-ERR invalid cursor"),
        (r#"SCAN 0 TYPE "string\x00x""#, "[\"0\", []]"),
        (r#"SCAN 0 TYPE "x\x00y""#, "-ERR unknown type name 'x'"),
        (r#"OBJECT "ENCODING\x00x" nosuch"#, "nil"),
        (r#"COMMAND GETKEYS OBJECT "ENCODING\x00x" a"#, "[\"a\"]"),
    ]);
}

#[test]
fn elements_are_sorted() {
    check(&[
        ("RPUSH l 3 1 2", ":3"),
        ("SORT l", r#"["1", "2", "3"]"#),
        ("SORT l DESC", r#"["3", "2", "1"]"#),
        ("SORT l LIMIT 1 1", r#"["2"]"#),
        ("SORT l LIMIT 0 -1", r#"["1", "2", "3"]"#),
        ("SORT l LIMIT -5 2", r#"["1", "2"]"#),
        ("SORT l LIMIT 5 2", "[]"),
        ("SORT l LIMIT 1 -5", r#"["2", "3"]"#),
        ("SORT l LIMIT 2 100", r#"["3"]"#),
        ("SORT l ALPHA", r#"["1", "2", "3"]"#),
        ("RPUSH a b a c 10 9", ":5"),
        ("SORT a", "-ERR One or more scores can't be converted into double"),
        ("SORT a ALPHA", r#"["10", "9", "a", "b", "c"]"#),
        ("SORT a ALPHA DESC", r#"["c", "b", "a", "9", "10"]"#),
        ("SORT a ALPHA LIMIT 1 2", r#"["9", "a"]"#),
        ("SORT a BY nosort", r#"["b", "a", "c", "10", "9"]"#),
        ("SORT a BY nosort DESC", r#"["9", "10", "c", "a", "b"]"#),
        ("SORT a BY nosort LIMIT 1 2", r#"["a", "c"]"#),
        ("SORT none", "[]"),
        ("SORT none STORE d", ":0"),
        ("SORT none BY w_*", "[]"),
        ("SET w_1 30", "+OK"),
        ("SET w_2 20", "+OK"),
        ("SET w_3 10", "+OK"),
        ("SORT l BY w_*", r#"["3", "2", "1"]"#),
        ("SORT l BY w_* DESC", r#"["1", "2", "3"]"#),
        ("SORT l BY w_* GET w_*", r#"["10", "20", "30"]"#),
        ("SORT l BY w_* GET # GET w_* GET nope_*", r#"["3", "10", nil, "2", "20", nil, "1", "30", nil]"#),
        ("SORT l GET #", r#"["1", "2", "3"]"#),
        ("SORT l GET x", "[nil, nil, nil]"),
        ("SORT l BY w_* STORE d", ":3"),
        ("LRANGE d 0 -1", r#"["3", "2", "1"]"#),
        ("TYPE d", "+list"),
        ("SORT l GET nope_* STORE d", ":3"),
        ("LRANGE d 0 -1", r#"["", "", ""]"#),
        ("SORT none STORE d", ":0"),
        ("EXISTS d", ":0"),
        ("SET w_2 abc", "+OK"),
        ("SORT l BY w_*", "-ERR One or more scores can't be converted into double"),
        ("SORT l BY w_* ALPHA", r#"["3", "1", "2"]"#),
        ("DEL w_2", ":1"),
        ("SORT l BY w_*", r#"["2", "3", "1"]"#),
        ("SORT l BY none_*", r#"["1", "2", "3"]"#),
        ("SORT l BY none_* DESC", r#"["3", "2", "1"]"#),
        ("SADD s 3 1 2", ":3"),
        ("SORT s", r#"["1", "2", "3"]"#),
        ("SORT s BY nosort", r#"["1", "2", "3"]"#),
        ("SORT s BY nosort STORE d", ":3"),
        ("LRANGE d 0 -1", r#"["1", "2", "3"]"#),
        ("SORT s BY nosort LIMIT 0 2", r#"["1", "2"]"#),
        ("SADD sm a c b", ":3"),
        ("SORT sm ALPHA", r#"["a", "b", "c"]"#),
        ("SORT sm BY nosort", r#"["a", "c", "b"]"#),
        ("SORT sm BY nosort STORE d", ":3"),
        ("LRANGE d 0 -1", r#"["a", "b", "c"]"#),
        ("SORT sm", "-ERR One or more scores can't be converted into double"),
        ("SORT sm STORE d", "-ERR One or more scores can't be converted into double"),
        ("LRANGE d 0 -1", r#"["a", "b", "c"]"#),
        ("SET str v", "+OK"),
        ("SORT str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SORT_RO l", r#"["1", "2", "3"]"#),
        ("SORT_RO l DESC", r#"["3", "2", "1"]"#),
        ("SORT_RO l STORE d", "-ERR syntax error"),
        ("SORT l FOO", "-ERR syntax error"),
        ("SORT l LIMIT 1", "-ERR syntax error"),
        ("SORT l LIMIT x 1", "-ERR value is not an integer or out of range"),
        ("SORT l LIMIT 1 x", "-ERR value is not an integer or out of range"),
        ("SORT l BY", "-ERR syntax error"),
        ("SORT l GET", "-ERR syntax error"),
        ("SORT l STORE", "-ERR syntax error"),
        ("SORT l ASC DESC", r#"["3", "2", "1"]"#),
        ("SORT l BY w_* BY nosort", r#"["3", "1", "2"]"#),
        ("SORT l STORE d STORE e", ":3"),
        ("LRANGE e 0 -1", r#"["1", "2", "3"]"#),
        ("EXISTS d", ":1"),
        ("RPUSH f 1.5 -2 inf 1e3 -inf 0x10", ":6"),
        ("SORT f", "-ERR One or more scores can't be converted into double"),
        ("RPUSH g nan", ":1"),
        ("SORT g", "-ERR One or more scores can't be converted into double"),
        (r#"RPUSH g2 "" 1"#, ":2"),
        ("SORT g2", "-ERR One or more scores can't be converted into double"),
        (r#"RPUSH g3 " 1" 0"#, ":2"),
        ("SORT g3", "-ERR One or more scores can't be converted into double"),
        (r#"RPUSH g4 "1 " 0"#, ":2"),
        ("SORT g4", "-ERR One or more scores can't be converted into double"),
        // A number ends at a zero byte, and must not be empty.
        (r#"MSET z_a "3\x00x" z_b 2 z_c "\x001""#, "+OK"),
        ("RPUSH z a b", ":2"),
        ("SORT z BY z_*", r#"["b", "a"]"#),
        (r#"RPUSH z0 "3\x00" "20\x001""#, ":2"),
        ("SORT z0 DESC GET nothing", "[nil, nil]"),
        ("RPUSH z c", ":3"),
        ("SORT z BY z_*", "-ERR One or more scores can't be converted into double"),
        ("RPUSH e1 b a b", ":3"),
        ("SORT e1 ALPHA", r#"["a", "b", "b"]"#),
        ("RPUSH e2 1 01 1.0", ":3"),
        ("SORT e2", r#"["01", "1", "1.0"]"#),
        ("SORT e2 DESC", r#"["1.0", "1", "01"]"#),
        ("RPUSH k1 a b", ":2"),
        ("SET k1_a 1", "+OK"),
        ("SORT k1 BY k1_*_x", r#"["a", "b"]"#),
        ("SORT k1 ALPHA BY *", r#"["a", "b"]"#),
        ("SORT k1 BY *", r#"["a", "b"]"#),
        ("SORT k1 ALPHA GET * GET #", r#"[nil, "a", nil, "b"]"#),
        ("SORT l BY w_*->f", r#"["1", "2", "3"]"#),
        ("SORT l GET w_*->", "[nil, nil, nil]"),
        ("SORT l ALPHA GET *->x GET # STORE l", ":6"),
        ("LRANGE l 0 -1", r#"["", "1", "", "2", "", "3"]"#),
        ("SORT l BY #", r#"["", "1", "", "2", "", "3"]"#),
        (
            "SORT_RO l BY nosort GET # GET w_*",
            r#"["", nil, "1", "30", "", nil, "2", nil, "", nil, "3", "10"]"#,
        ),
        ("EXPIRE l 100", ":1"),
        ("SORT l ALPHA STORE l", ":6"),
        ("TTL l", ":-1"),
        ("SORT l ALPHA STORE str", ":6"),
        ("TYPE str", "+list"),
        ("COMMAND GETKEYSANDFLAGS SORT l STORE d", r#"[["l", [+RO, +access]], ["d", [+OW, +update]]]"#),
        (
            "COMMAND GETKEYSANDFLAGS SORT l STORE d STORE e",
            r#"[["l", [+RO, +access]], ["e", [+OW, +update]]]"#,
        ),
        ("COMMAND GETKEYSANDFLAGS SORT l BY x* GET y* LIMIT 1 2 STORE", r#"[["l", [+RO, +access]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT l BY STORE d", r#"[["l", [+RO, +access]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT l GET STORE d", r#"[["l", [+RO, +access]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT l LIMIT STORE d", r#"[["l", [+RO, +access]]]"#),
        (
            "COMMAND GETKEYSANDFLAGS SORT l LIMIT STORE d STORE e",
            r#"[["l", [+RO, +access]], ["e", [+OW, +update]]]"#,
        ),
        ("COMMAND GETKEYSANDFLAGS SORT l FOO STORE d", r#"[["l", [+RO, +access]], ["d", [+OW, +update]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT l", r#"[["l", [+RO, +access]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT_RO l STORE d", r#"[["l", [+RO, +access]]]"#),
        ("COMMAND GETKEYSANDFLAGS SORT_RO l BY x", r#"[["l", [+RO, +access]]]"#),
    ]);
}

#[test]
fn sort_gets_texts_of_every_length() {
    let mut bench = Bench::new();
    // With these lengths, strings are inside their entry, outside of it, and in pages; values of hash fields
    // likewise.
    let lens = [0, 1, 5000, 200_000];
    let text = |len: usize| "x".repeat(len);
    for (number, len) in lens.into_iter().enumerate() {
        bench.run(&format!("RPUSH l {number}"));
        if len > 0 {
            bench.run(&format!("APPEND s_{number} {}", text(len)));
            bench.run(&format!("HSET h_{number} f {}", text(len)));
        }
    }
    bench.run("SET s_0 -12");
    bench.run("HSET h_0 f -12");
    let rows = lens.map(|len| if len == 0 { r#""-12""#.to_owned() } else { format!("{:?}", text(len)) });
    let twice: Vec<String> = rows.iter().map(|row| format!("{row}, {row}")).collect();
    bench.check("SORT l GET s_* GET h_*->f", &format!("[{}]", twice.join(", ")));
    bench.check("SORT l BY s_* ALPHA GET #", r#"["0", "1", "2", "3"]"#);
    bench.check("SORT l BY h_*->f ALPHA DESC GET #", r#"["3", "2", "1", "0"]"#);
    bench.check("SORT l BY s_*", "-ERR One or more scores can't be converted into double");
}

#[test]
fn weights_come_from_fields_of_hashes_and_elements_from_sorted_sets() {
    check(&[
        ("RPUSH l a b c", ":3"),
        ("HSET h_a w 3 n first", ":2"),
        ("HSET h_b w 1", ":1"),
        ("HSET h_c w 2", ":1"),
        ("SORT l BY h_*->w GET # GET h_*->n", r#"["b", nil, "c", nil, "a", "first"]"#),
        ("SORT l BY h_*->none ALPHA DESC LIMIT 0 1 GET h_*", "[nil]"),
        ("ZADD z 1 b 2 a 3 c", ":3"),
        ("SORT z ALPHA", r#"["a", "b", "c"]"#),
        ("SORT z BY nosort", r#"["b", "a", "c"]"#),
        ("SORT z BY nosort DESC LIMIT 0 2", r#"["c", "a"]"#),
        ("HSET h x 1", ":1"),
        ("SORT h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn a_large_list_is_sorted_whole_and_in_parts() {
    let mut bench = Bench::new();
    let numbers: Vec<i64> = (0..3000_i64).map(|n| n * 7919 % 3001 - 1500).collect();
    for part in numbers.chunks(100) {
        let words: String = part.iter().map(|number| format!(" {number}")).collect();
        bench.run(&format!("RPUSH l{words}"));
    }
    // Numbers that are equal as doubles, and the two zeros, are ordered by their bytes.
    bench.check("RPUSH l 9007199254740993 9007199254740992 9007199254740992.5 -0 0.0 1e3", ":3006");
    bench.check("SORT l STORE to", ":3006");
    bench.check(
        "LRANGE to -4 -1",
        r#"["1500", "9007199254740992", "9007199254740992.5", "9007199254740993"]"#,
    );
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    let first: Vec<String> = sorted[..5].iter().map(|number| format!("\"{number}\"")).collect();
    bench.check("SORT l LIMIT 0 5", &format!("[{}]", first.join(", ")));
    bench.check("LRANGE to 0 4", &format!("[{}]", first.join(", ")));
    bench.check("SORT l DESC LIMIT 1 2", r#"["9007199254740992.5", "9007199254740992"]"#);
    bench.check("SORT l DESC STORE to", ":3006");
    bench.check("LRANGE to 0 1", r#"["9007199254740993", "9007199254740992.5"]"#);
    bench.check("OBJECT ENCODING to", r#""quicklist""#);
    let zero = sorted.iter().position(|number| *number == 0).expect("7919 * n is 1500 for some n");
    bench.check(&format!("SORT l LIMIT {zero} 3"), r#"["-0", "0", "0.0"]"#);
    bench.check("SORT l ALPHA LIMIT 0 3", r#"["-0", "-1", "-10"]"#);
    bench.check("SORT l ALPHA DESC LIMIT 0 2", r#"["999", "998"]"#);
    bench.check("SORT l BY nosort LIMIT 3005 1 GET # GET none_*", r#"["1e3", nil]"#);
}

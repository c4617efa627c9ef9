//! Behaviour of the list commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};

#[test]
fn pushing_and_reading() {
    check(&[
        ("LPUSH k a b c", ":3"),
        ("RPUSH k d 1 -5", ":6"),
        ("LLEN k", ":6"),
        ("LRANGE k 0 -1", r#"["c", "b", "a", "d", "1", "-5"]"#),
        ("LRANGE k 1 2", r#"["b", "a"]"#),
        ("LRANGE k -2 -1", r#"["1", "-5"]"#),
        ("LRANGE k 5 3", "[]"),
        ("LRANGE k -100 100", r#"["c", "b", "a", "d", "1", "-5"]"#),
        ("LRANGE k 6 9", "[]"),
        ("LINDEX k 0", r#""c""#),
        ("LINDEX k -1", r#""-5""#),
        ("LINDEX k 4", r#""1""#),
        ("LINDEX k 6", "nil"),
        ("LINDEX k -7", "nil"),
        ("LINDEX k x", "-ERR value is not an integer or out of range"),
        ("LINDEX none x", "nil"),
        ("LINDEX none 0", "nil"),
        ("LLEN none", ":0"),
        ("LRANGE none 0 -1", "[]"),
        ("LRANGE none x -1", "-ERR value is not an integer or out of range"),
        ("LRANGE k 0 x", "-ERR value is not an integer or out of range"),
        ("LPUSHX none a", ":0"),
        ("RPUSHX none a b", ":0"),
        ("EXISTS none", ":0"),
        ("LPUSHX k y z", ":8"),
        ("RPUSHX k w", ":9"),
        ("LRANGE k 0 -1", r#"["z", "y", "c", "b", "a", "d", "1", "-5", "w"]"#),
        ("TYPE k", "+list"),
        ("OBJECT ENCODING k", r#""listpack""#),
        ("LPUSH k", "-ERR wrong number of arguments for 'lpush' command"),
        ("RPUSH", "-ERR wrong number of arguments for 'rpush' command"),
        ("LLEN", "-ERR wrong number of arguments for 'llen' command"),
        ("LLEN k k", "-ERR wrong number of arguments for 'llen' command"),
        ("LRANGE k 0", "-ERR wrong number of arguments for 'lrange' command"),
        ("LINDEX k", "-ERR wrong number of arguments for 'lindex' command"),
    ]);
}

#[test]
fn other_types_are_refused() {
    check(&[
        ("SET s v", "+OK"),
        ("LPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPUSHX s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPUSHX s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LINDEX s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LINDEX s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LSET s 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LSET s x a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LINSERT s BEFORE a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LREM s 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LTRIM s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPOP s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPOP s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPOP s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPOP s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPOS s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMPOP 1 s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMPOP 2 none s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPUSH k a", ":1"),
        ("LMOVE k s LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMOVE s k LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LMOVE none s LEFT LEFT", "nil"),
        ("RPOPLPUSH k s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPOPLPUSH none s", "nil"),
        ("RPOPLPUSH s none", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LRANGE k 0 -1", r#"["a"]"#),
        ("GET k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("APPEND k v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("INCR k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SETRANGE k 0 v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GETRANGE k 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("STRLEN k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SET k v GET", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("MGET k s", r#"[nil, "v"]"#),
        ("GETDEL k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SET k v", "+OK"),
        ("GET k", r#""v""#),
    ]);
}

#[test]
fn popping() {
    check(&[
        ("RPUSH k 1 2 3 4 5 6 7", ":7"),
        ("LPOP k", r#""1""#),
        ("RPOP k", r#""7""#),
        ("LPOP k 2", r#"["2", "3"]"#),
        ("RPOP k 2", r#"["6", "5"]"#),
        ("LPOP k 0", "[]"),
        ("RPOP k 100", r#"["4"]"#),
        ("EXISTS k", ":0"),
        ("LPOP k", "nil"),
        ("LPOP k 0", "nil-array"),
        ("LPOP k 3", "nil-array"),
        ("RPOP k 3", "nil-array"),
        ("LPOP k x", "-ERR value is out of range, must be positive"),
        ("LPOP k -1", "-ERR value is out of range, must be positive"),
        ("LPOP k 1 2", "-ERR wrong number of arguments for 'lpop' command"),
        ("RPOP k 1 2", "-ERR wrong number of arguments for 'rpop' command"),
        ("LPOP", "-ERR wrong number of arguments for 'lpop' command"),
        ("RPUSH k a", ":1"),
        ("LPOP k x", "-ERR value is out of range, must be positive"),
        ("LPOP k -1", "-ERR value is out of range, must be positive"),
        ("LPOP k 9223372036854775808", "-ERR value is out of range, must be positive"),
        ("LPOP k 9223372036854775807", r#"["a"]"#),
        ("RPUSH k a", ":1"),
        ("RPOP k", r#""a""#),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn popping_from_several() {
    check(&[
        ("RPUSH a 1 2 3", ":3"),
        ("RPUSH b x y", ":2"),
        ("LMPOP 2 none a LEFT", r#"["a", ["1"]]"#),
        ("LMPOP 2 none b RIGHT COUNT 5", r#"["b", ["y", "x"]]"#),
        ("EXISTS b", ":0"),
        ("LMPOP 2 b a right count 1", r#"["a", ["3"]]"#),
        ("LMPOP 1 a LEFT COUNT 10", r#"["a", ["2"]]"#),
        ("LMPOP 2 a b LEFT", "nil-array"),
        ("LMPOP 0 a LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP x a LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP -1 a LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP 2 a LEFT", "-ERR syntax error"),
        ("LMPOP 1 a UP", "-ERR syntax error"),
        ("LMPOP 1 a LEFT COUNT", "-ERR syntax error"),
        ("LMPOP 1 a LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("LMPOP 1 a LEFT COUNT x", "-ERR count should be greater than 0"),
        ("LMPOP 1 a LEFT COUNT 1 COUNT 2", "-ERR syntax error"),
        ("LMPOP 1 a LEFT FOO 1", "-ERR syntax error"),
        ("LMPOP 1 a LEFT COUNT 1 x", "-ERR syntax error"),
        ("LMPOP 1 a", "-ERR wrong number of arguments for 'lmpop' command"),
        ("LMPOP 5 a LEFT", "-ERR syntax error"),
    ]);
}

#[test]
fn inserting_and_setting() {
    check(&[
        ("LINSERT none BEFORE a b", ":0"),
        ("LINSERT none UP a b", "-ERR syntax error"),
        ("RPUSH k a c a", ":3"),
        ("LINSERT k BEFORE c b", ":4"),
        ("LINSERT k after a x", ":5"),
        ("LINSERT k AFTER nosuch y", ":-1"),
        ("LINSERT k UP a y", "-ERR syntax error"),
        ("LRANGE k 0 -1", r#"["a", "x", "b", "c", "a"]"#),
        ("LSET k 0 first", "+OK"),
        ("LSET k -1 last", "+OK"),
        ("LSET k 5 no", "-ERR index out of range"),
        ("LSET k -6 no", "-ERR index out of range"),
        ("LSET k x no", "-ERR value is not an integer or out of range"),
        ("LSET none 0 v", "-ERR no such key"),
        ("LSET none x v", "-ERR no such key"),
        ("LRANGE k 0 -1", r#"["first", "x", "b", "c", "last"]"#),
        ("RPUSH n 1 2 10 20", ":4"),
        ("LINSERT n BEFORE 10 5", ":5"),
        ("LINSERT n AFTER 010 5", ":-1"),
        ("LRANGE n 0 -1", r#"["1", "2", "5", "10", "20"]"#),
        ("LINSERT k BEFORE a", "-ERR wrong number of arguments for 'linsert' command"),
        ("LSET k 0", "-ERR wrong number of arguments for 'lset' command"),
    ]);
}

#[test]
fn removing() {
    check(&[
        ("RPUSH k a b a c a 5 a", ":7"),
        ("LREM k 2 a", ":2"),
        ("LRANGE k 0 -1", r#"["b", "c", "a", "5", "a"]"#),
        ("LREM k -1 a", ":1"),
        ("LRANGE k 0 -1", r#"["b", "c", "a", "5"]"#),
        ("LREM k 0 5", ":1"),
        ("LREM k 0 nosuch", ":0"),
        ("LREM none 0 a", ":0"),
        ("LREM k x a", "-ERR value is not an integer or out of range"),
        (
            "LREM k -9223372036854775808 a",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("LREM k 9223372036854775807 a", ":1"),
        ("LRANGE k 0 -1", r#"["b", "c"]"#),
        ("LREM k 0 b", ":1"),
        ("LREM k 0 c", ":1"),
        ("EXISTS k", ":0"),
        ("RPUSH k 1 2 3 4 5", ":5"),
        ("LTRIM k 1 -2", "+OK"),
        ("LRANGE k 0 -1", r#"["2", "3", "4"]"#),
        ("LTRIM k 0 100", "+OK"),
        ("LTRIM k x 1", "-ERR value is not an integer or out of range"),
        ("LTRIM none 0 x", "-ERR value is not an integer or out of range"),
        ("LTRIM none 0 1", "+OK"),
        ("LTRIM k 5 10", "+OK"),
        ("EXISTS k", ":0"),
        ("RPUSH k a b", ":2"),
        ("LTRIM k -1 -1", "+OK"),
        ("LRANGE k 0 -1", r#"["b"]"#),
        ("LTRIM k 1 0", "+OK"),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn moving() {
    check(&[
        ("RPUSH a 1 2 3", ":3"),
        ("LMOVE a b LEFT RIGHT", r#""1""#),
        ("LMOVE a b RIGHT LEFT", r#""3""#),
        ("LRANGE b 0 -1", r#"["3", "1"]"#),
        ("LMOVE b b LEFT RIGHT", r#""3""#),
        ("LRANGE b 0 -1", r#"["1", "3"]"#),
        ("LMOVE b b LEFT LEFT", r#""1""#),
        ("RPOPLPUSH b b", r#""3""#),
        ("LRANGE b 0 -1", r#"["3", "1"]"#),
        ("RPOPLPUSH a b", r#""2""#),
        ("EXISTS a", ":0"),
        ("LRANGE b 0 -1", r#"["2", "3", "1"]"#),
        ("LMOVE none b LEFT LEFT", "nil"),
        ("RPOPLPUSH none b", "nil"),
        ("LMOVE a b UP LEFT", "-ERR syntax error"),
        ("LMOVE a b LEFT DOWN", "-ERR syntax error"),
        ("LMOVE a b LEFT", "-ERR wrong number of arguments for 'lmove' command"),
        ("RPUSH one x", ":1"),
        ("LMOVE one one LEFT RIGHT", r#""x""#),
        ("RPOPLPUSH one one", r#""x""#),
        ("LRANGE one 0 -1", r#"["x"]"#),
    ]);
}

#[test]
fn positions() {
    check(&[
        ("RPUSH k a b c 1 2 3 c c", ":8"),
        ("LPOS k c", ":2"),
        ("LPOS k c RANK 2", ":6"),
        ("LPOS k c RANK -1", ":7"),
        ("LPOS k c RANK 4", "nil"),
        ("LPOS k c COUNT 2", "[:2, :6]"),
        ("LPOS k c COUNT 0", "[:2, :6, :7]"),
        ("LPOS k c COUNT 2 RANK -1", "[:7, :6]"),
        ("LPOS k c RANK -2 COUNT 0", "[:6, :2]"),
        ("LPOS k x", "nil"),
        ("LPOS k x COUNT 0", "[]"),
        ("LPOS none a", "nil"),
        ("LPOS none a COUNT 1", "[]"),
        ("LPOS k 3", ":5"),
        ("LPOS k c MAXLEN 2", "nil"),
        ("LPOS k c MAXLEN 3", ":2"),
        ("LPOS k c COUNT 0 MAXLEN 7", "[:2, :6]"),
        ("LPOS k c COUNT 0 MAXLEN 7 RANK -1", "[:7, :6, :2]"),
        ("LPOS k c MAXLEN 0", ":2"),
        (
            "LPOS k c RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        ),
        ("LPOS k c RANK x", "-ERR value is not an integer or out of range"),
        (
            "LPOS k c RANK -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("LPOS k c RANK 9223372036854775807", "nil"),
        ("LPOS k c COUNT -1", "-ERR COUNT can't be negative"),
        ("LPOS k c COUNT x", "-ERR COUNT can't be negative"),
        ("LPOS k c MAXLEN -1", "-ERR MAXLEN can't be negative"),
        ("LPOS k c RANK", "-ERR syntax error"),
        ("LPOS k c FOO 1", "-ERR syntax error"),
        (
            "LPOS none c RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        ),
        ("LPOS k", "-ERR wrong number of arguments for 'lpos' command"),
    ]);
}

#[test]
fn encodings() {
    check(&[
        ("CONFIG SET list-max-listpack-size 3", "+OK"),
        ("RPUSH k 1 2 3", ":3"),
        ("OBJECT ENCODING k", r#""listpack""#),
        ("RPUSH k 4", ":4"),
        ("OBJECT ENCODING k", r#""quicklist""#),
        ("LPOP k", r#""1""#),
        ("OBJECT ENCODING k", r#""quicklist""#),
        ("LPOP k", r#""2""#),
        ("OBJECT ENCODING k", r#""quicklist""#),
        ("LPOP k", r#""3""#),
        ("OBJECT ENCODING k", r#""listpack""#),
        ("RPUSH l 1 2 3", ":3"),
        ("LINSERT l BEFORE nosuch x", ":-1"),
        ("OBJECT ENCODING l", r#""quicklist""#),
        ("LREM l 0 nosuch", ":0"),
        ("OBJECT ENCODING l", r#""quicklist""#),
        ("LTRIM l 0 0", "+OK"),
        ("OBJECT ENCODING l", r#""listpack""#),
        ("RPUSH m 1 2 3", ":3"),
        ("LMOVE m m LEFT RIGHT", r#""1""#),
        ("OBJECT ENCODING m", r#""listpack""#),
        ("LSET m 9 x", "-ERR index out of range"),
        ("OBJECT ENCODING m", r#""quicklist""#),
        ("LSET m 0 x", "+OK"),
        ("OBJECT ENCODING m", r#""quicklist""#),
        ("RPUSH n 1 1 1 1", ":4"),
        ("OBJECT ENCODING n", r#""quicklist""#),
        ("LREM n 3 1", ":3"),
        ("OBJECT ENCODING n", r#""listpack""#),
        ("RPUSH p 1 2 3 4", ":4"),
        ("CONFIG SET list-max-listpack-size -2", "+OK"),
        ("LTRIM p 0 -1", "+OK"),
        ("OBJECT ENCODING p", r#""quicklist""#),
        ("COPY n o", ":1"),
        ("OBJECT ENCODING o", r#""listpack""#),
        ("LMPOP 1 p LEFT COUNT 4", r#"["p", ["1", "2", "3", "4"]]"#),
        ("EXISTS p", ":0"),
        ("CONFIG SET list-max-listpack-size 0", "+OK"),
        ("RPUSH q 1", ":1"),
        ("OBJECT ENCODING q", r#""listpack""#),
        ("RPUSH q 1", ":2"),
        ("OBJECT ENCODING q", r#""quicklist""#),
    ]);
}

#[test]
fn generic_commands_take_lists() {
    check(&[
        ("RPUSH k a b 1", ":3"),
        ("COPY k l", ":1"),
        ("LPUSH l x", ":4"),
        ("LRANGE k 0 -1", r#"["a", "b", "1"]"#),
        ("LRANGE l 0 -1", r#"["x", "a", "b", "1"]"#),
        ("RENAME k m", "+OK"),
        ("LRANGE m 0 -1", r#"["a", "b", "1"]"#),
        ("EXPIRE m 100", ":1"),
        ("RPUSH m c", ":4"),
        ("TTL m", ":100"),
        ("LPOP m 4", r#"["a", "b", "1", "c"]"#),
        ("TTL m", ":-2"),
        ("TYPE l", "+list"),
        ("SCAN 0 TYPE list", r#"["0", ["l"]]"#),
        ("DEL l", ":1"),
        ("EXISTS l", ":0"),
    ]);
}

#[test]
fn nothing_is_null_in_the_third_protocol() {
    let mut bench = Bench::new();
    bench.run("HELLO 3");
    bench.run("RPUSH k a");
    let rows = [
        ("LPOP none", "null"),
        ("LPOP none 1", "null"),
        ("LPOP none 0", "null"),
        ("RPOP none", "null"),
        ("LINDEX none 0", "null"),
        ("LINDEX k 5", "null"),
        ("LMPOP 1 none LEFT", "null"),
        ("LPOS k x", "null"),
        ("LPOS none x", "null"),
        ("LMOVE none k LEFT LEFT", "null"),
        ("RPOPLPUSH none k", "null"),
        ("LRANGE none 0 -1", "[]"),
        ("LPOP k 0", "[]"),
        ("LMPOP 1 k LEFT", r#"["k", ["a"]]"#),
    ];
    for (line, expected) in rows {
        bench.check(line, expected);
    }
}

/// Tests long lists and long elements, at both ends.
#[test]
fn large_lists_behave_as_small_ones() {
    let mut bench = Bench::new();
    let long = vec![b'x'; 10_000];
    for number in 0..3000 {
        let value = format!("element:{number:08}");
        bench.argv(&[b"RPUSH", b"k", value.as_bytes(), &number.to_string().into_bytes()]);
    }
    bench.argv(&[b"LPUSH", b"k", &long]);
    bench.check("LLEN k", ":6001");
    bench.check("OBJECT ENCODING k", r#""quicklist""#);
    bench.check("LRANGE k 1 2", r#"["element:00000000", "0"]"#);
    bench.check("LRANGE k 3000 3002", r#"["1499", "element:00001500", "1500"]"#);
    bench.check("LINDEX k -2", r#""element:00002999""#);
    bench.check("LPOS k 2999", ":6000");
    bench.check("LPOS k element:00002000", ":4001");
    bench.check("LINSERT k AFTER element:00001000 new", ":6002");
    bench.check("LINDEX k 2002", r#""new""#);
    bench.check("LSET k 2002 newer", "+OK");
    bench.check("LREM k 0 newer", ":1");
    bench.check("COPY k l", ":1");
    bench.check("LTRIM k 2001 2002", "+OK");
    bench.check("LRANGE k 0 -1", r#"["element:00001000", "1000"]"#);
    bench.check("OBJECT ENCODING k", r#""listpack""#);
    bench.check("LLEN l", ":6001");
    assert_eq!(bench.argv(&[b"LPOP", b"l"]).len(), 8 + 10_000 + 2);
    bench.check("RPOP l 2", r#"["2999", "element:00002999"]"#);
    bench.check("LMOVE l l LEFT RIGHT", r#""element:00000000""#);
    bench.check("LINDEX l -1", r#""element:00000000""#);
    bench.check("DEL l k", ":2");
}

/// The bench checks after each request that an empty database counts no bytes.
#[test]
fn an_emptied_list_leaves_no_bytes_counted() {
    let mut bench = Bench::new();
    bench.check("CONFIG SET list-max-listpack-size 1", "+OK");
    // The list has two nodes, so it does not fit its entry's block; neither node has spare room.
    bench.check("LPUSH small a a", ":2");
    // The edit of `small` below reuses the memory of this list, which is larger than that of `small`.
    bench.check(&format!("RPUSH large {}", "x".repeat(800)), ":1");
    bench.check("DEL large", ":1");
    bench.check("LREM small 0 a", ":2");
    bench.check("DBSIZE", ":0");
}

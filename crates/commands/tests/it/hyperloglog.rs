//! Behaviour of the HyperLogLog commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};

#[test]
fn elements_are_added_counted_and_merged() {
    check(&[
        ("PFADD h", ":1"),
        ("PFADD h", ":0"),
        ("GET h", r#""HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff""#),
        ("PFADD h a b c hello world 12345678 1234567890123456789", ":1"),
        ("PFADD h a b c", ":0"),
        ("PFCOUNT h", ":7"),
        (
            "GET h",
            r#""HYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00J\xb5\x88@z\x80U\xc0\x80C\n\x80EQ\x88HR\x84K\xfb\x80BZ""#,
        ),
        ("PFDEBUG ENCODING h", "+sparse"),
        (
            "PFDEBUG DECODE h",
            r#""Z:2742 v:3,1 Z:123 v:1,1 Z:5569 v:1,1 Z:779 v:1,1 Z:1362 v:3,1 Z:2131 v:2,1 Z:3068 v:1,1 Z:603""#,
        ),
        ("OBJECT ENCODING h", r#""raw""#),
        ("PFADD h2 d e f", ":1"),
        ("GET h2", r#""HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80Fm\x80V\x0c\x80^\xb7\x80D\xc9""#),
        ("PFCOUNT h h2", ":10"),
        ("PFCOUNT h none h2 h", ":10"),
        ("PFCOUNT none", ":0"),
        ("PFCOUNT none none", ":0"),
        ("PFMERGE m h h2", "+OK"),
        ("PFCOUNT m", ":10"),
        (
            "PFDEBUG DECODE m",
            r#""Z:1646 v:1,1 Z:1095 v:3,1 Z:123 v:1,1 Z:4425 v:1,1 Z:1143 v:1,1 Z:779 v:1,1 Z:1362 v:3,1 Z:2131 v:2,1 Z:2445 v:1,1 Z:622 v:1,1 Z:603""#,
        ),
        ("PFMERGE m", "+OK"),
        ("PFMERGE new none", "+OK"),
        ("GET new", r#""HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff""#),
        ("PFDEBUG TODENSE h", ":1"),
        ("PFDEBUG TODENSE h", ":0"),
        ("STRLEN h", ":12304"),
        ("PFDEBUG ENCODING h", "+dense"),
        ("PFDEBUG DECODE h", "-ERR HLL encoding is not sparse"),
        ("PFCOUNT h", ":7"),
        ("PFADD h a", ":0"),
        ("PFADD h x y", ":1"),
        ("PFCOUNT h", ":9"),
        ("PFMERGE m h", "+OK"),
        ("PFDEBUG ENCODING m", "+dense"),
        ("PFCOUNT m", ":12"),
        ("PFMERGE new2 h2 h", "+OK"),
        ("STRLEN new2", ":12304"),
        ("PFDEBUG SIMD ON", "+enabled"),
        ("PFDEBUG SIMD off", "+disabled"),
        ("PFDEBUG FOO h", "-ERR Unknown PFDEBUG subcommand 'FOO'"),
        ("PFDEBUG FOO none", "-ERR The specified key does not exist"),
        ("PFDEBUG ENCODING", "-ERR wrong number of arguments for 'pfdebug' command"),
        ("PFSELFTEST", "+OK"),
        ("PFSELFTEST x", "-ERR wrong number of arguments for 'pfselftest' command"),
        ("PFADD", "-ERR wrong number of arguments for 'pfadd' command"),
        ("PFCOUNT", "-ERR wrong number of arguments for 'pfcount' command"),
        ("PFMERGE", "-ERR wrong number of arguments for 'pfmerge' command"),
    ]);
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    check(&[
        ("SET s foo", "+OK"),
        ("SET i 5", "+OK"),
        ("RPUSH l a", ":1"),
        ("PFADD s a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFADD i a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFADD l a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFCOUNT s", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFCOUNT l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFCOUNT i", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFADD h a", ":1"),
        ("PFCOUNT h s", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFCOUNT h l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFMERGE h s", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFMERGE s h", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("PFMERGE l h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFMERGE h l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFDEBUG ENCODING l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("PFDEBUG ENCODING s", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("GET s", r#""foo""#),
        (r#"SETRANGE h 15 "\x00\x00\x00""#, ":21"),
        ("PFCOUNT h", ":0"),
        (r#"SET c "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xf0""#, "+OK"),
        ("PFCOUNT c", "-INVALIDOBJ Corrupted HLL object detected"),
        ("PFADD c a", ":1"),
        ("PFADD c b", ":1"),
        ("PFADD c c d e f g h i", ":1"),
        ("PFMERGE m c", "-INVALIDOBJ Corrupted HLL object detected"),
        ("PFDEBUG GETREG c", "-INVALIDOBJ Corrupted HLL object detected"),
        ("PFDEBUG TODENSE c", "-INVALIDOBJ Corrupted HLL object detected"),
        (
            "PFDEBUG DECODE c",
            r#""Z:1646 v:1,1 Z:2537 v:1,1 Z:3107 v:1,1 Z:1085 v:2,1 z:57 v:1,1 Z:3523 v:1,1 Z:750 v:2,1 Z:2445 v:1,1 Z:622 v:1,1 Z:588""#,
        ),
        (r#"SET c2 "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xf0""#, "+OK"),
        ("PFCOUNT c2", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        (r#"SET c3 "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xf0""#, "+OK"),
        ("PFCOUNT c3", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        (r#"SET c4 "HYLL\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00""#, "+OK"),
        ("PFCOUNT c4", ":5"),
        ("PFADD c4 x", "-INVALIDOBJ Corrupted HLL object detected"),
    ]);
}

#[test]
fn the_largest_sparse_size_is_configured() {
    let mut bench = Bench::with(&[("hll-sparse-max-bytes", "30")]);
    bench.check("PFADD h a b", ":1");
    bench.check("PFDEBUG ENCODING h", "+sparse");
    bench.check("PFADD h c d e f g", ":1");
    bench.check("PFDEBUG ENCODING h", "+dense");
    bench.check("CONFIG SET hll-sparse-max-bytes 3000", "+OK");
    bench.check("PFADD h2 a b c d e f g", ":1");
    bench.check("PFDEBUG ENCODING h2", "+sparse");
    bench.check("PFCOUNT h h2", ":7");
}

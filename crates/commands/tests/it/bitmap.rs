//! Behaviour of the bitmap commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};

#[test]
fn bits_are_set_and_read() {
    check(&[
        ("SETBIT k 7 1", ":0"),
        ("GETBIT k 7", ":1"),
        ("GETBIT k 6", ":0"),
        ("GETBIT k 800", ":0"),
        ("SETBIT k 7 1", ":1"),
        ("SETBIT k 0 1", ":0"),
        ("GET k", r#""\x81""#),
        ("SETBIT k 15 0", ":0"),
        ("STRLEN k", ":2"),
        ("OBJECT ENCODING k", r#""raw""#),
        ("SET n 10", "+OK"),
        ("SETBIT n 7 0", ":1"),
        ("OBJECT ENCODING n", r#""raw""#),
        ("GET n", r#""00""#),
        ("SETBIT n 7 1", ":0"),
        ("GET n", r#""10""#),
        ("GETBIT none 5", ":0"),
        ("SETBIT k -1 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 1.5 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 1 2", "-ERR bit is not an integer or out of range"),
        ("SETBIT k 1 x", "-ERR bit is not an integer or out of range"),
        ("GETBIT k 4294967296", "-ERR bit offset is not an integer or out of range"),
        ("GETBIT k x", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 1", "-ERR wrong number of arguments for 'setbit' command"),
    ]);
}

#[test]
fn set_bits_are_counted_in_any_part() {
    check(&[
        ("SET k foobar", "+OK"),
        ("BITCOUNT k", ":26"),
        ("BITCOUNT k 0 0", ":4"),
        ("BITCOUNT k 1 1", ":6"),
        ("BITCOUNT k 0 -1", ":26"),
        ("BITCOUNT k -2 -1", ":7"),
        ("BITCOUNT k -2", ":7"),
        ("BITCOUNT k 2", ":16"),
        ("BITCOUNT k 5 30 BIT", ":17"),
        ("BITCOUNT k 5 -5 BIT", ":23"),
        ("BITCOUNT k 1 1 BYTE", ":6"),
        ("BITCOUNT k 7 9", ":0"),
        ("BITCOUNT k -1 -2", ":0"),
        ("BITCOUNT k -100 -99", ":4"),
        ("BITCOUNT k -99 -100", ":0"),
        ("BITCOUNT k -100 0", ":4"),
        ("BITCOUNT k -9223372036854775808 9223372036854775807 BIT", ":26"),
        ("BITCOUNT k 3 2 bit", ":0"),
        ("BITCOUNT none", ":0"),
        ("BITCOUNT none 0 -1", ":0"),
        ("BITCOUNT none x 1", "-ERR value is not an integer or out of range"),
        ("BITCOUNT none 0 -1 foo", "-ERR syntax error"),
        ("BITCOUNT k 0 x", "-ERR value is not an integer or out of range"),
        ("BITCOUNT k 0 -1 BIT x", "-ERR syntax error"),
        ("SET n 123", "+OK"),
        ("BITCOUNT n", ":10"),
        ("BITCOUNT n 8 15 BIT", ":3"),
        (r#"SET e """#, "+OK"),
        ("BITCOUNT e", ":0"),
        ("BITCOUNT e 0 -1", ":0"),
    ]);
}

#[test]
fn the_first_bit_is_found_in_any_part() {
    check(&[
        (r#"SET k "\xff\xf0\x00""#, "+OK"),
        ("BITPOS k 0", ":12"),
        ("BITPOS k 1", ":0"),
        ("BITPOS k 1 1", ":8"),
        ("BITPOS k 1 2", ":-1"),
        ("BITPOS k 0 0 0", ":-1"),
        ("BITPOS k 0 0 -1", ":12"),
        ("BITPOS k 1 -1 -1", ":-1"),
        ("BITPOS k 1 5 11 BIT", ":5"),
        ("BITPOS k 0 5 11 BIT", ":-1"),
        ("BITPOS k 0 5 12 BIT", ":12"),
        ("BITPOS k 1 12 -1 BIT", ":-1"),
        (r#"SET o "\xff\xff""#, "+OK"),
        ("BITPOS o 0", ":16"),
        ("BITPOS o 0 0", ":16"),
        ("BITPOS o 0 1", ":16"),
        ("BITPOS o 0 2", ":-1"),
        ("BITPOS o 0 0 -1", ":-1"),
        ("BITPOS o 0 0 15 BIT", ":-1"),
        ("BITPOS o 0 9 -1 BIT", ":-1"),
        ("BITPOS o 1 -1", ":8"),
        ("BITPOS o 1 3 2", ":-1"),
        (r#"SET z "\x00\x00""#, "+OK"),
        ("BITPOS z 1", ":-1"),
        ("BITPOS z 0", ":0"),
        ("BITPOS z 1 0 -1", ":-1"),
        ("BITPOS z 0 9 -1 BIT", ":9"),
        ("BITPOS none 0", ":0"),
        ("SET letter a", "+OK"),
        ("BITPOS none 1", ":-1"),
        ("BITPOS none 0 5 6", ":0"),
        ("BITPOS none 2", "-ERR The bit argument must be 1 or 0."),
        ("BITPOS none x", "-ERR value is not an integer or out of range"),
        ("BITPOS none 0 x", "-ERR value is not an integer or out of range"),
        ("BITPOS k 0 0 -1 foo", "-ERR syntax error"),
        ("BITPOS k 0 0 -1 BIT x", "-ERR syntax error"),
        (r#"SET e """#, "+OK"),
        ("BITPOS e 0", ":-1"),
        // Reversed ends that are both before the beginning are clamped to the first byte, unlike
        // those of BITCOUNT.
        ("BITPOS letter 0 -2 -10", ":0"),
        ("BITPOS letter 1 -1 -3", ":1"),
        ("BITPOS letter 0 -10 -30 BIT", ":0"),
        ("BITPOS letter 1 -1 -3 BIT", ":-1"),
        ("BITCOUNT letter -2 -10", ":0"),
        ("BITCOUNT letter -10 -30 BIT", ":0"),
        ("BITPOS e 1", ":-1"),
        ("BITPOS e 0 0 -1", ":-1"),
        ("SET n 7", "+OK"),
        ("BITPOS n 1", ":2"),
    ]);
}

#[test]
fn strings_are_combined() {
    check(&[
        (r#"SET a "\xff\x0f""#, "+OK"),
        (r#"SET b "\x0f""#, "+OK"),
        ("BITOP AND d a b", ":2"),
        ("GET d", r#""\x0f\x00""#),
        ("OBJECT ENCODING d", r#""raw""#),
        ("BITOP OR d a b", ":2"),
        ("GET d", r#""\xff\x0f""#),
        ("BITOP XOR d a b none", ":2"),
        ("GET d", r#""\xf0\x0f""#),
        ("BITOP NOT d a", ":2"),
        ("GET d", r#""\x00\xf0""#),
        ("BITOP AND d a none", ":2"),
        ("GET d", r#""\x00\x00""#),
        ("BITOP AND d a", ":2"),
        ("GET d", r#""\xff\x0f""#),
        ("SET n 12", "+OK"),
        ("BITOP OR d n b", ":2"),
        ("GET d", r#""?2""#),
        ("EXPIRE d 100", ":1"),
        ("BITOP and d a a", ":2"),
        ("TTL d", ":-1"),
        ("BITOP OR d none none2", ":0"),
        ("EXISTS d", ":0"),
        ("BITOP OR d none", ":0"),
        ("BITOP NOT d none", ":0"),
        ("BITOP NOT a a", ":2"),
        ("GET a", r#""\x00\xf0""#),
        ("RPUSH l x", ":1"),
        ("BITOP AND d a l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITOP AND l a b", ":2"),
        ("TYPE l", "+string"),
        ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP FOO d a", "-ERR syntax error"),
        ("BITOP DIFF d a b", "-ERR syntax error"),
        ("BITOP AND d", "-ERR wrong number of arguments for 'bitop' command"),
    ]);
}

#[test]
fn fields_are_read_and_changed() {
    check(&[
        ("BITFIELD k SET u8 0 255 GET u8 0 GET i8 0 GET u4 4 GET u16 0", "[:0, :255, :-1, :15, :65280]"),
        ("BITFIELD k SET i8 #1 -2 GET i8 #1 GET u8 8", "[:0, :-2, :254]"),
        ("BITFIELD k INCRBY u8 0 10", "[:9]"),
        (
            "BITFIELD k OVERFLOW SAT INCRBY u8 0 300 OVERFLOW FAIL INCRBY u8 0 1 OVERFLOW WRAP INCRBY u8 0 1",
            "[:255, nil, :0]",
        ),
        (
            "BITFIELD k OVERFLOW SAT INCRBY i8 0 -128 INCRBY i8 0 -1 OVERFLOW FAIL INCRBY i8 0 -1 OVERFLOW WRAP INCRBY i8 0 -1",
            "[:-128, :-128, nil, :127]",
        ),
        (
            "BITFIELD k SET i64 3 -9223372036854775808 INCRBY i64 3 -1 OVERFLOW SAT INCRBY i64 3 9223372036854775807",
            "[:-4503599627370496, :9223372036854775807, :9223372036854775807]",
        ),
        (
            "BITFIELD k OVERFLOW SAT SET u8 0 -1 SET u8 0 300 SET i8 0 200 SET i8 0 -200 GET i8 0",
            "[:111, :255, :-1, :127, :-128]",
        ),
        (
            "BITFIELD k OVERFLOW WRAP SET u8 0 -1 SET u8 0 300 SET i8 0 200 SET i8 0 -200 GET i8 0",
            "[:128, :255, :44, :-56, :56]",
        ),
        (
            "BITFIELD k OVERFLOW FAIL SET u8 0 -1 SET u8 0 300 SET i8 0 200 SET i8 0 -200 GET i8 0",
            "[nil, nil, nil, nil, :56]",
        ),
        (
            "BITFIELD k SET u63 0 9223372036854775807 INCRBY u63 0 1 OVERFLOW SAT INCRBY u63 0 -1",
            "[:2053641430080946175, :0, :0]",
        ),
        ("BITFIELD k INCRBY u63 5 9223372036854775807 INCRBY u63 5 9223372036854775807", "[:29, :28]"),
        (
            "BITFIELD k SET u1 100 1 GET u1 100 GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("BITFIELD k GET u1 100 GET u3 99", "[:0, :0]"),
        ("STRLEN k", ":9"),
        ("BITFIELD none GET u8 0 GET i64 100", "[:0, :0]"),
        ("EXISTS none", ":0"),
        ("BITFIELD new OVERFLOW FAIL INCRBY u2 10 9", "[nil]"),
        ("STRLEN new", ":2"),
        ("BITFIELD k", "[]"),
        ("BITFIELD k GET", "-ERR syntax error"),
        ("BITFIELD k GET u8", "-ERR syntax error"),
        (
            "BITFIELD k GET u0 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "BITFIELD k GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "BITFIELD k GET i65 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "BITFIELD k GET x8 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "BITFIELD k GET u 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("BITFIELD k GET u8 -1", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD k GET u8 #-1", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD k GET u8 4294967295", "[:0]"),
        ("BITFIELD k GET u8 4294967296", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD k GET u8 #536870911", "[:0]"),
        ("BITFIELD k GET u8 #536870912", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD k GET u8 #9223372036854775807", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD k SET u8 0", "-ERR syntax error"),
        ("BITFIELD k SET u8 0 x", "-ERR value is not an integer or out of range"),
        ("BITFIELD k OVERFLOW", "-ERR syntax error"),
        ("BITFIELD k OVERFLOW FOO", "-ERR Invalid OVERFLOW type specified"),
        ("BITFIELD k FOO u8 0", "-ERR syntax error"),
        ("BITFIELD_RO k GET u8 0 GET i8 0", "[:0, :0]"),
        ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("BITFIELD_RO k OVERFLOW FAIL GET u8 0", "[:0]"),
        ("BITFIELD_RO none GET u8 0", "[:0]"),
        ("BITFIELD_RO k", "[]"),
        ("SET n 10", "+OK"),
        ("BITFIELD n GET u8 0", "[:49]"),
        ("OBJECT ENCODING n", r#""int""#),
        ("BITFIELD n SET u8 0 49", "[:49]"),
        ("OBJECT ENCODING n", r#""raw""#),
    ]);
}

#[test]
fn other_types_are_refused() {
    check(&[
        ("RPUSH l x", ":1"),
        ("SETBIT l 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GETBIT l 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITCOUNT l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITPOS l 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITFIELD l GET u8 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITFIELD l SET u8 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITFIELD l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BITFIELD_RO l GET u8 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

/// Tests strings in pages, with pages of zeros. The expected numbers were counted by hand.
#[test]
fn large_strings_are_counted_searched_and_combined() {
    check(&[
        ("SETBIT k 4294967295 1", ":0"),
        ("STRLEN k", ":536870912"),
        ("BITCOUNT k", ":1"),
        ("BITPOS k 1", ":4294967295"),
        ("BITPOS k 0", ":0"),
        ("BITPOS k 1 0 -2", ":-1"),
        ("SETBIT k 1000000 1", ":0"),
        ("SETBIT k 1000001 1", ":0"),
        ("BITCOUNT k 1000001 -2 BIT", ":1"),
        ("BITCOUNT k 1000001 -1 BIT", ":2"),
        ("BITPOS k 1 1000002 -1 BIT", ":4294967295"),
        ("BITFIELD k GET u3 1000000 GET u16 4294967288", "[:6, :256]"),
        ("SETBIT a 1048576 1", ":0"),
        ("SETBIT b 524287 1", ":0"),
        ("BITOP OR d a b", ":131073"),
        ("BITCOUNT d", ":2"),
        ("BITPOS d 1", ":524287"),
        ("BITPOS d 1 65536", ":1048576"),
        ("BITOP AND d a b", ":131073"),
        ("BITCOUNT d", ":0"),
        ("STRLEN d", ":131073"),
        ("BITOP XOR d a a b", ":131073"),
        ("BITCOUNT d", ":1"),
        ("BITOP NOT d a", ":131073"),
        ("BITCOUNT d", ":1048583"),
        ("BITPOS d 0", ":1048576"),
        ("BITPOS d 0 131073", ":-1"),
        ("COPY a c", ":1"),
        ("SETBIT a 1048576 0", ":1"),
        ("BITCOUNT a", ":0"),
        ("BITCOUNT c", ":1"),
    ]);
}

#[test]
fn every_write_of_a_field_counts_where_the_string_grew() {
    let mut bench = Bench::new();
    bench.run("BITFIELD k SET u8 0 0 SET u8 0 0 SET u8 8 5 INCRBY u8 8 0");
    assert_eq!(bench.counts.changes, 4);
    bench.run("BITFIELD k SET u8 0 1 SET u8 0 1");
    assert_eq!(bench.counts.changes, 5);
}

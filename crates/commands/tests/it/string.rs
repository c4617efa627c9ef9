//! Behaviour of the string commands. The replies are those of the reference, Valkey 9.1, except for INCREX,
//! DELEX and SET with IFNE, which come from Valkey 9.2.

use crate::common::{Bench, check};

#[test]
fn get_reads_a_string() {
    check(&[
        ("GET k", "nil"),
        ("SET k v", "+OK"),
        ("GET k", r#""v""#),
        ("SET k 12", "+OK"),
        ("GET k", r#""12""#),
        (r#"SET k """#, "+OK"),
        ("GET k", r#""""#),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("GET k k", "-ERR wrong number of arguments for 'get' command"),
    ]);
}

#[test]
fn set_stores_on_conditions() {
    check(&[
        ("SET k v NX", "+OK"),
        ("SET k w NX", "nil"),
        ("GET k", r#""v""#),
        ("SET k w XX", "+OK"),
        ("SET none v XX", "nil"),
        ("GET none", "nil"),
        ("SET k x IFEQ v", "nil"),
        ("SET k x IFEQ w", "+OK"),
        ("SET none x IFEQ x", "nil"),
        ("SET k y IFNE x", "nil"),
        ("SET k x IFNE y", "+OK"),
        ("SET fresh x ifne x", "+OK"),
        ("SET fresh y ifne x", "nil"),
        ("SET fresh 12 IFNE y KEEPTTL", "+OK"),
        ("SET fresh 13 IFNE 12", "nil"),
        ("SET fresh 13 IFNE 012 GET", r#""12""#),
        ("SET fresh 14 GET IFNE 13", r#""13""#),
        ("DEL fresh", ":1"),
        ("SET fresh x GET IFNE x", "nil"),
        ("GETDEL fresh", r#""x""#),
        ("SET k 12", "+OK"),
        ("SET k 13 IFEQ 12", "+OK"),
        ("GET k", r#""13""#),
        ("SET k y NX NX", "nil"),
        ("SET k y XX XX", "+OK"),
        ("SET k y", "+OK"),
        ("SET k get IFEQ y", "+OK"),
        ("SET k GET IFEQ get GET", r#""get""#),
    ]);
}

#[test]
fn set_get_replies_what_was_there() {
    check(&[
        ("SET k v GET", "nil"),
        ("SET k w GET", r#""v""#),
        ("SET k x GET GET", r#""w""#),
        ("SET k y NX GET", r#""x""#),
        ("GET k", r#""x""#),
        ("SET new y NX GET", "nil"),
        ("GET new", r#""y""#),
        ("SET none v XX GET", "nil"),
        ("GET none", "nil"),
        ("SET k z IFEQ no GET", r#""x""#),
        ("SET k z IFEQ x GET", r#""x""#),
        ("GET k", r#""z""#),
        ("SET k v PXAT 1 GET", r#""z""#),
        ("GET k", "nil"),
        ("SET k v PXAT 1 GET", "nil"),
    ]);
}

#[test]
fn set_refuses_what_makes_no_sense() {
    check(&[
        ("SET k", "-ERR wrong number of arguments for 'set' command"),
        ("SET", "-ERR wrong number of arguments for 'set' command"),
        ("SET k v FOO", "-ERR syntax error"),
        ("SET k v NX XX", "-ERR syntax error"),
        ("SET k v XX NX", "-ERR syntax error"),
        ("SET k v NX IFEQ v", "-ERR syntax error"),
        ("SET k v IFEQ v XX", "-ERR syntax error"),
        ("SET k v IFEQ v IFEQ v", "-ERR syntax error"),
        ("SET k v IFEQ", "-ERR syntax error"),
        ("SET k v IFNE", "-ERR syntax error"),
        ("SET k v IFNE v IFEQ v", "-ERR syntax error"),
        ("SET k v IFEQ v IFNE v", "-ERR syntax error"),
        ("SET k v IFNE v IFNE v", "-ERR syntax error"),
        ("SET k v IFNE v NX", "-ERR syntax error"),
        ("SET k v XX IFNE v", "-ERR syntax error"),
        ("SET k v PERSIST", "-ERR syntax error"),
        ("SET k v EX", "-ERR syntax error"),
        ("SET k v EX 10 PX 10", "-ERR syntax error"),
        ("SET k v EX 10 KEEPTTL", "-ERR syntax error"),
        ("SET k v KEEPTTL EX 10", "-ERR syntax error"),
        ("SET k v EX 10 PERSIST", "-ERR syntax error"),
        ("SET k v EX abc", "-ERR value is not an integer or out of range"),
        ("SET k v EX 1.5", "-ERR value is not an integer or out of range"),
        ("SET k v EX +10", "-ERR value is not an integer or out of range"),
        ("SET k v EX abc FOO", "-ERR syntax error"),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX -1", "-ERR invalid expire time in 'set' command"),
        ("SET k v PX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EXAT 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v PXAT -5", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 0 NX", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775", "-ERR invalid expire time in 'set' command"),
        ("SET k v PX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SET k v EXAT 9223372036854776", "-ERR invalid expire time in 'set' command"),
        ("GET k", "nil"),
        ("SET k v EXAT 9223372036854775", "+OK"),
        ("SET k v PXAT 9223372036854775807", "+OK"),
        ("SET k v EX 10 EX 20", "+OK"),
        ("SET k v KEEPTTL KEEPTTL", "+OK"),
        ("SET k v ex 10 nx get", r#""v""#),
        ("GET k", r#""v""#),
    ]);
}

#[test]
fn setnx_stores_where_nothing_is() {
    check(&[
        ("SETNX k v", ":1"),
        ("SETNX k w", ":0"),
        ("GET k", r#""v""#),
        ("SETNX k", "-ERR wrong number of arguments for 'setnx' command"),
    ]);
}

#[test]
fn setex_and_psetex_store_for_a_time() {
    check(&[
        ("SETEX k 10 v", "+OK"),
        ("GET k", r#""v""#),
        ("PSETEX k 10000 w", "+OK"),
        ("GET k", r#""w""#),
        ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
        ("SETEX k -1 v", "-ERR invalid expire time in 'setex' command"),
        ("SETEX k abc v", "-ERR value is not an integer or out of range"),
        ("SETEX k 9223372036854775807 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k 0 v", "-ERR invalid expire time in 'psetex' command"),
        ("PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command"),
        ("PSETEX k abc v", "-ERR value is not an integer or out of range"),
        ("PSETEX k 9223372036854775807 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX k 10", "-ERR wrong number of arguments for 'setex' command"),
        ("PSETEX k 10", "-ERR wrong number of arguments for 'psetex' command"),
        ("GET k", r#""w""#),
    ]);
}

#[test]
fn getset_replaces() {
    check(&[
        ("GETSET k v", "nil"),
        ("GETSET k 12", r#""v""#),
        ("GETSET k w", r#""12""#),
        ("GET k", r#""w""#),
        ("GETSET k", "-ERR wrong number of arguments for 'getset' command"),
    ]);
}

#[test]
fn getdel_removes() {
    check(&[
        ("GETDEL k", "nil"),
        ("SET k v", "+OK"),
        ("GETDEL k", r#""v""#),
        ("GET k", "nil"),
        ("GETDEL k", "nil"),
        ("GETDEL", "-ERR wrong number of arguments for 'getdel' command"),
    ]);
}

#[test]
fn getex_reads_and_changes_the_time() {
    check(&[
        ("GETEX k", "nil"),
        ("SET k v", "+OK"),
        ("GETEX k", r#""v""#),
        ("GETEX k EX 100", r#""v""#),
        ("GETEX k PX 100000", r#""v""#),
        ("GETEX k EXAT 99999999999", r#""v""#),
        ("GETEX k PXAT 99999999999000", r#""v""#),
        ("GETEX k PERSIST", r#""v""#),
        ("GETEX k PERSIST PERSIST", r#""v""#),
        ("GETEX k EX 10 EX 20", r#""v""#),
        ("GETEX k FOO", "-ERR syntax error"),
        ("GETEX k NX", "-ERR syntax error"),
        ("GETEX k XX", "-ERR syntax error"),
        ("GETEX k GET", "-ERR syntax error"),
        ("GETEX k KEEPTTL", "-ERR syntax error"),
        ("GETEX k IFEQ v", "-ERR syntax error"),
        ("GETEX k IFNE v", "-ERR syntax error"),
        ("GETEX k EX", "-ERR syntax error"),
        ("GETEX k EX abc", "-ERR value is not an integer or out of range"),
        ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
        ("GETEX k PX -1", "-ERR invalid expire time in 'getex' command"),
        ("GETEX k EX 9223372036854775807", "-ERR invalid expire time in 'getex' command"),
        ("GETEX k PERSIST EX 10", "-ERR syntax error"),
        ("GETEX k EX 10 PERSIST", "-ERR syntax error"),
        ("GETEX k PERSIST EX", "-ERR syntax error"),
        ("GETEX none EX abc", "-ERR value is not an integer or out of range"),
        ("GETEX none EX -1", "-ERR invalid expire time in 'getex' command"),
        ("GETEX none EX 10", "nil"),
        ("GETEX k EXAT 1", r#""v""#),
        ("GET k", "nil"),
        ("SET k v", "+OK"),
        ("GETEX k PXAT 1", r#""v""#),
        ("GET k", "nil"),
    ]);
}

#[test]
fn delifeq_removes_what_is_equal() {
    check(&[
        ("DELIFEQ k v", ":0"),
        ("SET k v", "+OK"),
        ("DELIFEQ k w", ":0"),
        ("GET k", r#""v""#),
        ("DELIFEQ k v", ":1"),
        ("GET k", "nil"),
        ("SET k 12", "+OK"),
        ("DELIFEQ k 12", ":1"),
        (r#"SET k """#, "+OK"),
        (r#"DELIFEQ k """#, ":1"),
        ("DELIFEQ k", "-ERR wrong number of arguments for 'delifeq' command"),
    ]);
}

#[test]
fn delex_removes_what_is_equal_or_is_not() {
    check(&[
        ("DELEX k IFEQ v", ":0"),
        ("DELEX k IFNE v", ":0"),
        ("SET k v", "+OK"),
        ("DELEX k IFEQ w", ":0"),
        ("DELEX k ifne v", ":0"),
        ("GET k", r#""v""#),
        ("DELEX k ifeq v", ":1"),
        ("GET k", "nil"),
        ("SET k 12", "+OK"),
        ("DELEX k IFNE 12", ":0"),
        ("DELEX k IFNE 012", ":1"),
        ("GET k", "nil"),
        ("SET k 12", "+OK"),
        ("DELEX k IFEQ 12", ":1"),
        (r#"SET k """#, "+OK"),
        (r#"DELEX k IFNE """#, ":0"),
        (r#"DELEX k IFEQ """#, ":1"),
        ("DELEX k IFDEQ 0", "-ERR syntax error"),
        ("DELEX k NX 0", "-ERR syntax error"),
        ("DELEX k", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX k IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX k IFEQ a IFNE b", "-ERR wrong number of arguments for 'delex' command"),
        ("RPUSH l a", ":1"),
        ("DELEX l IFEQ a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("DELEX l IFNE a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn increx_adds_integers_within_bounds() {
    check(&[
        ("INCREX k", "[:1, :1]"),
        ("INCREX k BYINT 5", "[:6, :5]"),
        ("increx k byint -2", "[:4, :-2]"),
        ("GET k", r#""4""#),
        ("INCREX k NX", "[:4, :0]"),
        ("INCREX none XX", "[:0, :0]"),
        ("EXISTS none", ":0"),
        ("INCREX k XX", "[:5, :1]"),
        ("INCREX n NX BYINT 3", "[:3, :3]"),
        // Without SATURATE, a sum outside the bounds changes nothing. The value may lie outside the bounds
        // from the start: UBOUND may be below it, and LBOUND above it.
        ("SET k 10", "+OK"),
        ("INCREX k BYINT 5 UBOUND 12", "[:10, :0]"),
        ("INCREX k BYINT 5 UBOUND 5", "[:10, :0]"),
        ("INCREX k BYINT 5 UBOUND 15", "[:15, :5]"),
        ("INCREX k BYINT -5 UBOUND 10", "[:10, :-5]"),
        ("INCREX k BYINT -5 LBOUND 8", "[:10, :0]"),
        ("INCREX k BYINT 5 LBOUND 10 UBOUND 10", "[:10, :0]"),
        ("INCREX k BYINT 5 UBOUND 12 SATURATE", "[:12, :2]"),
        ("INCREX k BYINT 5 UBOUND 5 SATURATE", "[:5, :-7]"),
        ("INCREX k BYINT -5 LBOUND 20 SATURATE", "[:20, :15]"),
        ("INCREX k SATURATE", "[:21, :1]"),
        ("SET k 9223372036854775807", "+OK"),
        ("INCREX k", "[:9223372036854775807, :0]"),
        ("INCREX k SATURATE", "[:9223372036854775807, :0]"),
        ("INCREX k BYINT -5 UBOUND -9223372036854775808 SATURATE", "-ERR applied increment would overflow"),
        ("GET k", r#""9223372036854775807""#),
        ("SET k -9223372036854775801", "+OK"),
        ("INCREX k BYINT -10 SATURATE", "[:-9223372036854775808, :-7]"),
        ("SET k 10", "+OK"),
        ("INCREX k BYINT 9223372036854775807 UBOUND 100 SATURATE", "[:100, :90]"),
        // An absent key counts as 0, and is created if something is stored.
        ("INCREX new UBOUND 0", "[:0, :0]"),
        ("INCREX new LBOUND 5", "[:0, :0]"),
        ("EXISTS new", ":0"),
        ("INCREX new UBOUND 0 SATURATE", "[:0, :0]"),
        ("GET new", r#""0""#),
        ("DEL new", ":1"),
        ("INCREX new LBOUND 5 SATURATE", "[:5, :5]"),
        ("OBJECT ENCODING new", r#""int""#),
        ("APPEND new 1", ":2"),
        ("INCREX new", "[:52, :1]"),
        ("OBJECT ENCODING new", r#""int""#),
    ]);
}

#[test]
fn increx_adds_floats_within_bounds() {
    check(&[
        ("INCREX k BYFLOAT 2.5", r#"["2.5", "2.5"]"#),
        ("INCREX k BYFLOAT -0.25", r#"["2.25", "-0.25"]"#),
        ("GET k", r#""2.25""#),
        ("INCREX k NX BYFLOAT 1", r#"["2.25", "0"]"#),
        ("INCREX none XX BYFLOAT 1", r#"["0", "0"]"#),
        ("SET k 10", "+OK"),
        ("INCREX k BYFLOAT 5.5 UBOUND 12.5", r#"["10", "0"]"#),
        ("INCREX k BYFLOAT 5.5 UBOUND 12.5 SATURATE", r#"["12.5", "2.5"]"#),
        ("INCREX k BYFLOAT -6 LBOUND 8 SATURATE", r#"["8", "-4.5"]"#),
        ("INCREX k BYFLOAT 1 UBOUND inf", r#"["9", "1"]"#),
        ("INCREX k BYFLOAT 1 LBOUND -inf", r#"["10", "1"]"#),
        ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf", r#"["10", "0"]"#),
        ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", "-ERR applied increment would be Infinity"),
        ("INCREX k BYFLOAT 1e4932 UBOUND 100", r#"["10", "0"]"#),
        ("INCREX k BYFLOAT -1e4932 LBOUND -100 SATURATE", r#"["-100", "-110"]"#),
        // The reply contains the amount that was added, not the requested one.
        ("SET k 100000000000000000000", "+OK"),
        ("INCREX k BYFLOAT 1", r#"["100000000000000000000", "0"]"#),
        ("INCREX k BYFLOAT 9", r#"["100000000000000000008", "8"]"#),
        ("SET k 1e4932", "+OK"),
        ("INCREX k BYFLOAT 1e4932 EX 60", &huge_declined()),
        ("TTL k", ":-1"),
        ("GET k", r#""1e4932""#),
        ("SET k inf", "+OK"),
        ("INCREX k BYFLOAT 1", "-ERR value cannot be Infinity"),
        ("INCREX k", "-ERR value is not an integer or out of range"),
        ("INCREX z BYFLOAT 0.02", r#"["0.02", "0.02"]"#),
        ("INCREX z BYFLOAT -0.02", r#"["0", "-0.02"]"#),
        ("GET z", r#""0""#),
    ]);
}

/// The numbers 1e4932 and 0, as a reply shows them.
fn huge_declined() -> String {
    let mut bench = Bench::new();
    format!("[{}, \"0\"]", bench.run("INCRBYFLOAT k 1e4932"))
}

#[test]
fn increx_refuses_what_it_does_not_understand() {
    check(&[
        ("SET k 10", "+OK"),
        ("INCREX", "-ERR wrong number of arguments for 'increx' command"),
        ("INCREX k 5", "-ERR syntax error"),
        ("INCREX k BYINT", "-ERR syntax error"),
        ("INCREX k LBOUND", "-ERR syntax error"),
        ("INCREX k UBOUND", "-ERR syntax error"),
        ("INCREX k EX", "-ERR syntax error"),
        ("INCREX k NX XX", "-ERR syntax error"),
        ("INCREX k BYINT 1 BYFLOAT 1", "-ERR syntax error"),
        ("INCREX k EX 10 PX 10", "-ERR syntax error"),
        ("INCREX k EX 10 PERSIST", "-ERR syntax error"),
        ("INCREX k PERSIST EX 10", "-ERR syntax error"),
        ("INCREX k PERSIST ENX", "-ERR syntax error"),
        ("INCREX k ENX PERSIST", "-ERR syntax error"),
        ("INCREX k KEEPTTL", "-ERR syntax error"),
        ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
        ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
        ("INCREX k EX x", "-ERR value is not an integer or out of range"),
        ("INCREX k BYINT abc", "-ERR Increment is not an integer or out of range"),
        ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
        ("INCREX k BYFLOAT abc", "-ERR Increment is not a valid float"),
        ("INCREX k BYFLOAT nan", "-ERR Increment is not a valid float"),
        ("INCREX k BYFLOAT 1e99999", "-ERR Increment is not a valid float"),
        ("INCREX k BYFLOAT +inf", "-ERR BYFLOAT increment cannot be Infinity"),
        ("INCREX k UBOUND 12.5", "-ERR UBOUND is not an integer or out of range"),
        ("INCREX k LBOUND inf", "-ERR LBOUND is not an integer or out of range"),
        ("INCREX k BYFLOAT 1 UBOUND abc", "-ERR UBOUND is not a valid float"),
        ("INCREX k BYFLOAT 1 LBOUND nan", "-ERR LBOUND is not a valid float"),
        ("INCREX k LBOUND 20 UBOUND 0 SATURATE", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k BYFLOAT 1 UBOUND -inf", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k BYFLOAT 1 LBOUND inf", "-ERR LBOUND can't be greater than UBOUND"),
        ("GET k", r#""10""#),
        ("SET k abc", "+OK"),
        ("INCREX k", "-ERR value is not an integer or out of range"),
        ("INCREX k EXAT 1", "-ERR value is not an integer or out of range"),
        ("INCREX k BYFLOAT 1", "-ERR value is not a valid float"),
        ("RPUSH l a", ":1"),
        ("INCREX l", WRONG_TYPE),
        ("INCREX l EXAT 1", WRONG_TYPE),
    ]);
}

#[test]
fn increx_sets_keeps_and_removes_the_expiry() {
    check(&[
        ("INCREX k EX 100", "[:1, :1]"),
        ("TTL k", ":100"),
        ("INCREX k", "[:2, :1]"),
        ("TTL k", ":100"),
        ("INCREX k PX 50000", "[:3, :1]"),
        ("TTL k", ":50"),
        ("INCREX k EX 100 ENX", "[:4, :1]"),
        ("TTL k", ":50"),
        ("INCREX k EXAT 1 ENX", "[:5, :1]"),
        ("TTL k", ":50"),
        // A refused increment leaves the expiry unchanged too.
        ("INCREX k UBOUND 5 EX 100", "[:5, :0]"),
        ("INCREX k UBOUND 5 PERSIST", "[:5, :0]"),
        ("INCREX k NX EX 100", "[:5, :0]"),
        ("TTL k", ":50"),
        ("INCREX k UBOUND 5 SATURATE EX 100", "[:5, :0]"),
        ("TTL k", ":100"),
        ("INCREX k PERSIST", "[:6, :1]"),
        ("TTL k", ":-1"),
        ("INCREX k PERSIST", "[:7, :1]"),
        ("INCREX k EX 100 ENX", "[:8, :1]"),
        ("TTL k", ":100"),
        ("INCREX k EXAT 1", "[:9, :1]"),
        ("EXISTS k", ":0"),
        ("INCREX k EXAT 1", "[:1, :1]"),
        ("EXISTS k", ":0"),
        ("INCREX k PERSIST BYFLOAT 1.5", r#"["1.5", "1.5"]"#),
        ("TTL k", ":-1"),
        ("INCREX k BYFLOAT 1 EX 100", r#"["2.5", "1"]"#),
        ("TTL k", ":100"),
    ]);
}

#[test]
fn append_grows_a_string() {
    check(&[
        ("APPEND k ab", ":2"),
        ("APPEND k cd", ":4"),
        ("GET k", r#""abcd""#),
        (r#"APPEND k """#, ":4"),
        (r#"APPEND e """#, ":0"),
        ("GET e", r#""""#),
        ("SET n 12", "+OK"),
        ("APPEND n 34", ":4"),
        ("GET n", r#""1234""#),
        ("INCR n", ":1235"),
        ("APPEND i 7", ":1"),
        ("INCR i", ":8"),
        ("APPEND k", "-ERR wrong number of arguments for 'append' command"),
    ]);
}

#[test]
fn strlen_counts_bytes() {
    check(&[
        ("STRLEN k", ":0"),
        ("SET k hello", "+OK"),
        ("STRLEN k", ":5"),
        ("SET k -12345", "+OK"),
        ("STRLEN k", ":6"),
        (r#"SET k """#, "+OK"),
        ("STRLEN k", ":0"),
        ("STRLEN", "-ERR wrong number of arguments for 'strlen' command"),
    ]);
}

#[test]
fn setrange_writes_over() {
    check(&[
        (r#"SETRANGE k 0 """#, ":0"),
        (r#"SETRANGE k 5 """#, ":0"),
        ("GET k", "nil"),
        ("SETRANGE k 2 ab", ":4"),
        ("GET k", r#""\x00\x00ab""#),
        ("SETRANGE k 0 xyz", ":4"),
        ("GET k", r#""xyzb""#),
        (r#"SETRANGE k 0 """#, ":4"),
        ("SETRANGE k -1 x", "-ERR offset is out of range"),
        (r#"SETRANGE k -1 """#, "-ERR offset is out of range"),
        ("SETRANGE k abc x", "-ERR value is not an integer or out of range"),
        ("SETRANGE k 9223372036854775808 x", "-ERR value is not an integer or out of range"),
        ("SETRANGE k 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE k 536870911 xy", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE none 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        (r#"SETRANGE none 536870912 """#, ":0"),
        ("SET n 1234", "+OK"),
        ("SETRANGE n 1 9", ":4"),
        ("GET n", r#""1934""#),
        ("INCR n", ":1935"),
        ("SETRANGE k 0", "-ERR wrong number of arguments for 'setrange' command"),
    ]);
}

/// A large string is kept in pages, and behaves like any other string.
#[test]
fn a_large_string_is_like_any_other() {
    const LEN: usize = 300_000;
    let text: String = (0..LEN).map(|i| char::from(b'a' + (i / 7 % 26) as u8)).collect();
    // The string is made by SET, by SETRANGE on an absent key, by SETRANGE far past the end of an integer and
    // of a short string, and by APPEND.
    for setup in [
        &[format!("SET k {text}"), "SETRANGE k 0 a".to_owned()][..],
        &[format!("SETRANGE k 0 {text}")],
        &[
            "SET k 7".to_owned(),
            format!("SETRANGE k {} {}", LEN - 1, &text[LEN - 1..]),
            format!("SETRANGE k 0 {text}"),
        ],
        &[
            "SET k short".to_owned(),
            format!("SETRANGE k 200000 {}", &text[200_000..]),
            format!("SETRANGE k 0 {}", &text[..200_000]),
        ],
        &[
            "SET k a".to_owned(),
            format!("APPEND k {}", &text[1..70_000]),
            format!("APPEND k {}", &text[70_000..]),
        ],
    ] {
        let mut bench = Bench::new();
        setup.iter().for_each(|command| drop(bench.run(command)));
        let quoted = |text: &str| format!("\"{text}\"");
        for (command, wanted) in [
            ("GET k".to_owned(), quoted(&text)),
            ("STRLEN k".to_owned(), format!(":{LEN}")),
            ("OBJECT ENCODING k".to_owned(), quoted("raw")),
            ("GETRANGE k 65530 65540".to_owned(), quoted(&text[65_530..=65_540])),
            ("GETRANGE k 100 -100".to_owned(), quoted(&text[100..=LEN - 100])),
            ("GETRANGE k 0 65535".to_owned(), quoted(&text[..65_536])),
            ("GETRANGE k -1 -1".to_owned(), quoted(&text[LEN - 1..])),
            ("SUBSTR k 0 -1".to_owned(), quoted(&text)),
            ("MGET k none".to_owned(), format!("[{}, nil]", quoted(&text))),
            ("INCR k".to_owned(), "-ERR value is not an integer or out of range".to_owned()),
            ("INCRBYFLOAT k 1".to_owned(), "-ERR value is not a valid float".to_owned()),
            (
                "LCS k k".to_owned(),
                "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".to_owned(),
            ),
            ("LCS k s LEN".to_owned(), ":3".to_owned()),
            ("SET k other IFEQ wrong".to_owned(), "nil".to_owned()),
            (format!("DELIFEQ k {}", &text[1..]), ":0".to_owned()),
            ("COPY k twin".to_owned(), ":1".to_owned()),
            ("SETRANGE twin 70000 xyz".to_owned(), format!(":{LEN}")),
            (
                "GETRANGE twin 69999 70003".to_owned(),
                quoted(&format!("{}xyz{}", &text[69_999..70_000], &text[70_003..=70_003])),
            ),
            ("RENAME k r".to_owned(), "+OK".to_owned()),
            ("MOVE r 1".to_owned(), ":1".to_owned()),
            ("SELECT 1".to_owned(), "+OK".to_owned()),
            ("PEXPIRE r 100000".to_owned(), ":1".to_owned()),
            ("GETEX r PERSIST".to_owned(), quoted(&text)),
            ("GETSET r 1".to_owned(), quoted(&text)),
            ("APPEND r 2".to_owned(), ":2".to_owned()),
            (format!("APPEND r {}", &text[2..]), format!(":{LEN}")),
            (format!("SET r 5 IFEQ 12{}", &text[2..]), "+OK".to_owned()),
            (format!("SETRANGE r 0 {text}"), format!(":{LEN}")),
            ("GETDEL r".to_owned(), quoted(&text)),
            (format!("SETRANGE r 0 {text}"), format!(":{LEN}")),
            (format!("DELIFEQ r {text}"), ":1".to_owned()),
            ("EXISTS r".to_owned(), ":0".to_owned()),
        ] {
            if command == "LCS k s LEN" {
                bench.run("SET s abc");
            }
            let short = |text: &str| text.chars().take(60).collect::<String>();
            let reply = bench.run(&command);
            assert!(reply == wanted, "{}: {} and not {}", short(&command), short(&reply), short(&wanted));
        }
    }
}

#[test]
fn zeros_between_the_end_and_a_write_are_read() {
    let mut bench = Bench::new();
    assert_eq!(bench.run("SETRANGE k 1000000 x"), ":1000001");
    let (entries, outside) = bench.keyspace.footprint();
    assert!(entries + outside < 100_000, "{entries} and {outside} bytes");
    assert_eq!(bench.run("GETRANGE k 999998 -1"), r#""\x00\x00x""#);
    let wanted = format!("\"{}x\"", "\\x00".repeat(1_000_000));
    assert!(bench.run("GET k") == wanted);
    assert!(bench.run("APPEND k yz") == ":1000003");
    assert_eq!(bench.run("GETRANGE k -4 -1"), r#""\x00xyz""#);
}

#[test]
fn a_reply_keeps_the_string_as_it_was() {
    let text = "a".repeat(200_000);
    let mut bench = Bench::new();
    bench.run(&format!("SETRANGE k 0 {text}"));
    let reply = bench.argv_unread(&[b"GET", b"k"]);
    bench.check("SETRANGE k 70000 b", ":200000");
    bench.check("APPEND k c", ":200001");
    assert!(reply.flatten() == format!("$200000\r\n{text}\r\n").as_bytes());
    assert_eq!(bench.run("GETRANGE k 70000 70000"), "\"b\"");
}

#[test]
fn getrange_cuts() {
    check(&[
        ("SET k 1934", "+OK"),
        ("GETRANGE k 0 -1", r#""1934""#),
        ("GETRANGE k 1 2", r#""93""#),
        ("GETRANGE k 0 0", r#""1""#),
        ("GETRANGE k -100 100", r#""1934""#),
        ("GETRANGE k 3 1", r#""""#),
        ("GETRANGE k -1 -3", r#""""#),
        ("GETRANGE k -1 -1", r#""4""#),
        ("GETRANGE k 4 4", r#""""#),
        ("GETRANGE k 10 20", r#""""#),
        ("GETRANGE k -10 -9", r#""1""#),
        ("GETRANGE k -9 -10", r#""""#),
        ("GETRANGE k 0 -10", r#""1""#),
        ("GETRANGE k -9223372036854775808 9223372036854775807", r#""1934""#),
        ("GETRANGE k 0 -9223372036854775808", r#""1""#),
        (r#"SET k "This is a string""#, "+OK"),
        ("GETRANGE k -5 -1", r#""tring""#),
        ("GETRANGE k 5 5000", r#""is a string""#),
        ("GETRANGE none 0 -1", r#""""#),
        ("GETRANGE none a 1", "-ERR value is not an integer or out of range"),
        ("GETRANGE k a 1", "-ERR value is not an integer or out of range"),
        ("GETRANGE k 0 b", "-ERR value is not an integer or out of range"),
        ("GETRANGE k 0", "-ERR wrong number of arguments for 'getrange' command"),
        ("SUBSTR k 0 3", r#""This""#),
        ("SUBSTR k -6 -1", r#""string""#),
        ("SUBSTR none 0 1", r#""""#),
        ("SUBSTR k a 1", "-ERR value is not an integer or out of range"),
        ("SUBSTR k 0", "-ERR wrong number of arguments for 'substr' command"),
        (r#"SET e """#, "+OK"),
        ("GETRANGE e 0 -1", r#""""#),
    ]);
}

#[test]
fn incr_and_its_like_count() {
    check(&[
        ("INCR k", ":1"),
        ("INCR k", ":2"),
        ("DECR k", ":1"),
        ("INCRBY k 10", ":11"),
        ("DECRBY k 4", ":7"),
        ("INCRBY k -20", ":-13"),
        ("GET k", r#""-13""#),
        ("DECR new", ":-1"),
        ("INCRBY other 5", ":5"),
        ("DECRBY another 5", ":-5"),
        ("INCRBY k abc", "-ERR value is not an integer or out of range"),
        ("INCRBY k 1.5", "-ERR value is not an integer or out of range"),
        ("INCRBY k +5", "-ERR value is not an integer or out of range"),
        (r#"INCRBY k """#, "-ERR value is not an integer or out of range"),
        ("DECRBY k abc", "-ERR value is not an integer or out of range"),
        ("DECRBY none -9223372036854775808", "-ERR decrement would overflow"),
        ("GET none", "nil"),
        ("SET k 9223372036854775807", "+OK"),
        ("INCR k", "-ERR increment or decrement would overflow"),
        ("INCRBY k 1", "-ERR increment or decrement would overflow"),
        ("DECRBY k -1", "-ERR increment or decrement would overflow"),
        ("GET k", r#""9223372036854775807""#),
        ("SET k -9223372036854775808", "+OK"),
        ("DECR k", "-ERR increment or decrement would overflow"),
        ("INCRBY k 9223372036854775807", ":-1"),
        (r#"SET k " 11""#, "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        (r#"SET k "11 ""#, "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        ("SET k abc", "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        ("SET k 010", "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        (r#"SET k """#, "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        ("SET k 1.0", "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        ("SET k 9223372036854775808", "+OK"),
        ("INCR k", "-ERR value is not an integer or out of range"),
        ("INCR", "-ERR wrong number of arguments for 'incr' command"),
        ("DECR k k", "-ERR wrong number of arguments for 'decr' command"),
        ("INCRBY k", "-ERR wrong number of arguments for 'incrby' command"),
        ("DECRBY k", "-ERR wrong number of arguments for 'decrby' command"),
    ]);
}

#[test]
fn incrbyfloat_adds_extended_doubles() {
    check(&[
        ("INCRBYFLOAT k 1.5", r#""1.5""#),
        ("INCRBYFLOAT k 1.5", r#""3""#),
        ("GET k", r#""3""#),
        ("INCR k", ":4"),
        ("INCRBYFLOAT k 1.1", r#""5.1""#),
        ("INCRBYFLOAT k -1.1", r#""4""#),
        ("INCRBYFLOAT k 5.0e3", r#""5004""#),
        ("INCRBYFLOAT k 0x10", r#""5020""#),
        ("SET k 10", "+OK"),
        ("INCRBYFLOAT k 0.1", r#""10.1""#),
        ("SET k 1", "+OK"),
        ("INCRBYFLOAT k 17179869184", r#""17179869185""#),
        ("INCRBYFLOAT z -0", r#""0""#),
        ("INCRBYFLOAT z 0.000000000000000001", r#""0""#),
        ("INCRBYFLOAT z 1e-5", r#""0.00001""#),
        ("SET k 1", "+OK"),
        ("INCRBYFLOAT k -1", r#""0""#),
        ("INCRBYFLOAT k abc", "-ERR value is not a valid float"),
        (r#"INCRBYFLOAT k """#, "-ERR value is not a valid float"),
        (r#"INCRBYFLOAT k " 1""#, "-ERR value is not a valid float"),
        ("INCRBYFLOAT k nan", "-ERR value is not a valid float"),
        ("INCRBYFLOAT k inf", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT k -inf", "-ERR increment would produce NaN or Infinity"),
        ("SET k abc", "+OK"),
        ("INCRBYFLOAT k 1", "-ERR value is not a valid float"),
        (r#"SET k "1 ""#, "+OK"),
        ("INCRBYFLOAT k 1", "-ERR value is not a valid float"),
        ("SET k nan", "+OK"),
        ("INCRBYFLOAT k 1", "-ERR value is not a valid float"),
        ("SET k inf", "+OK"),
        ("INCRBYFLOAT k 1", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT k -inf", "-ERR increment would produce NaN or Infinity"),
        ("SET k 1e4932", "+OK"),
        ("INCRBYFLOAT k 1e4932", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT k", "-ERR wrong number of arguments for 'incrbyfloat' command"),
    ]);
}

#[test]
fn mget_reads_many() {
    check(&[
        ("MSET a 1 b two", "+OK"),
        ("MGET a b none a", r#"["1", "two", nil, "1"]"#),
        ("MGET none", "[nil]"),
        ("MGET", "-ERR wrong number of arguments for 'mget' command"),
    ]);
}

#[test]
fn mset_writes_many() {
    check(&[
        ("MSET a 1 b 2 a 3", "+OK"),
        ("MGET a b", r#"["3", "2"]"#),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
        ("MSET", "-ERR wrong number of arguments for 'mset' command"),
    ]);
}

#[test]
fn msetnx_writes_all_or_nothing() {
    check(&[
        ("MSETNX a 1 b 2", ":1"),
        ("MSETNX b 3 c 4", ":0"),
        ("MGET a b c", r#"["1", "2", nil]"#),
        ("MSETNX d 1 d 2", ":1"),
        ("GET d", r#""2""#),
        ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
        ("MSETNX a", "-ERR wrong number of arguments for 'msetnx' command"),
    ]);
}

#[test]
fn msetex_writes_many_on_conditions() {
    check(&[
        ("MSETEX 2 a 1 b 2", ":1"),
        ("MSETEX 2 a 3 b 4 NX", ":0"),
        ("MSETEX 2 a 3 c 4 XX", ":0"),
        ("MGET a b c", r#"["1", "2", nil]"#),
        ("MSETEX 2 a 3 b 4 XX", ":1"),
        ("MSETEX 2 a 3 b 4 EX 100", ":1"),
        ("MSETEX 2 a 3 b 4 KEEPTTL", ":1"),
        ("MSETEX 2 a 3 b 4 EX 100 XX", ":1"),
        ("MSETEX 2 c 3 d 4 NX PXAT 99999999999000", ":1"),
        ("MSETEX 2 a 3 b 4 EX 10 EX 20", ":1"),
        ("MSETEX 2 a 3 b 4 NX NX", ":0"),
        ("MSETEX 2 x 1 x 2", ":1"),
        ("GET x", r#""2""#),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX -1 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX abc a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX +1 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX 2147483648 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX 9223372036854775808 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX 2147483647 a 1", "-ERR syntax error"),
        ("MSETEX 1073741824 a 1", "-ERR syntax error"),
        ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command"),
        ("MSETEX 2 a 1", "-ERR syntax error"),
        ("MSETEX 2 a 1 b", "-ERR syntax error"),
        ("MSETEX 3 a 1 b 2", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 FOO", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 GET", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 IFEQ 1", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 IFNE 1", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 PERSIST", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 NX XX", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 EX", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 EX abc", "-ERR value is not an integer or out of range"),
        ("MSETEX 2 a 1 b 2 EX 0", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 2 a 1 b 2 PX -1", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 2 a 1 b 2 EX 9223372036854775807", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 2 a 1 b 2 EX 10 PX 10", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 EX 10 KEEPTTL", "-ERR syntax error"),
        ("MSETEX 2 a 1 b 2 EXAT 1", ":1"),
        ("MGET a b", "[nil, nil]"),
    ]);
}

#[test]
fn lcs_compares() {
    check(&[
        ("MSET a ohmytext b mynewtext", "+OK"),
        ("LCS a b", r#""mytext""#),
        ("LCS a b LEN", ":6"),
        ("LCS a b IDX", r#"["matches", [[[:4, :7], [:5, :8]], [[:2, :3], [:0, :1]]], "len", :6]"#),
        (
            "LCS a b IDX WITHMATCHLEN",
            r#"["matches", [[[:4, :7], [:5, :8], :4], [[:2, :3], [:0, :1], :2]], "len", :6]"#,
        ),
        ("LCS a b IDX MINMATCHLEN 4", r#"["matches", [[[:4, :7], [:5, :8]]], "len", :6]"#),
        ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", r#"["matches", [[[:4, :7], [:5, :8], :4]], "len", :6]"#),
        ("LCS a b IDX MINMATCHLEN 100", r#"["matches", [], "len", :6]"#),
        (
            "LCS a b IDX MINMATCHLEN -1",
            r#"["matches", [[[:4, :7], [:5, :8]], [[:2, :3], [:0, :1]]], "len", :6]"#,
        ),
        ("LCS a b MINMATCHLEN 5", r#""mytext""#),
        ("LCS a b LEN MINMATCHLEN 5 WITHMATCHLEN", ":6"),
        ("LCS a b idx IDX", r#"["matches", [[[:4, :7], [:5, :8]], [[:2, :3], [:0, :1]]], "len", :6]"#),
        ("LCS a a IDX WITHMATCHLEN", r#"["matches", [[[:0, :7], [:0, :7], :8]], "len", :8]"#),
        ("LCS a none", r#""""#),
        ("LCS none a LEN", ":0"),
        ("LCS none none IDX", r#"["matches", [], "len", :0]"#),
        ("LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."),
        ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
        ("LCS a b FOO", "-ERR syntax error"),
        ("LCS a b MINMATCHLEN", "-ERR syntax error"),
        ("LCS a b MINMATCHLEN abc", "-ERR value is not an integer or out of range"),
        ("LCS a", "-ERR wrong number of arguments for 'lcs' command"),
        ("MSET n 12345 m 345", "+OK"),
        ("LCS n m", r#""345""#),
        ("LCS n m IDX", r#"["matches", [[[:2, :4], [:0, :2]]], "len", :3]"#),
    ]);
}

#[test]
fn a_value_expires_when_its_time_has_passed() {
    let mut bench = Bench::new();
    bench.check("SET k v PX 100", "+OK");
    bench.pass_ms(50);
    bench.check("GET k", "\"v\"");
    bench.pass_ms(60);
    bench.check("GET k", "nil");
}

#[test]
fn set_keeps_or_clears_the_expiry() {
    // Each row has a command on a key with 100 ms to live, and whether the key still exists later.
    let rows = [
        ("SET k v", true),
        ("SET k v KEEPTTL", false),
        ("SET k v PX 1000", true),
        ("SET k v PX 50", false),
        ("SET k v EX 1 XX", true),
        ("GETSET k v", true),
        ("GETEX k", false),
        ("GETEX k PERSIST", true),
        ("GETEX k PX 1000", true),
        ("GETEX k PX 50", false),
        ("APPEND k v", false),
        ("SETRANGE k 0 v", false),
        ("INCR k", false),
        ("INCRBYFLOAT k 1.5", false),
        ("INCREX k", false),
        ("INCREX k PX 1000", true),
        ("INCREX k PX 1000 ENX", false),
        ("INCREX k PERSIST", true),
        ("MSET k v", true),
        ("MSETEX 1 k v", true),
        ("MSETEX 1 k v KEEPTTL", false),
        ("MSETEX 1 k v PX 1000", true),
        ("MSETEX 1 k v PX 50", false),
        ("SETEX k 1 v", true),
        ("PSETEX k 50 v", false),
    ];
    for (line, stays) in rows {
        let mut bench = Bench::new();
        bench.check("SET k 5 PX 100", "+OK");
        assert!(!bench.run(line).starts_with('-'), "{line}");
        bench.pass_ms(200);
        assert_eq!(bench.run("STRLEN k") != ":0", stays, "{line}");
    }
}

#[test]
fn an_expired_key_is_absent_to_every_command() {
    let rows = [
        ("GET k", "nil"),
        ("SET k v NX", "+OK"),
        ("SET k v XX", "nil"),
        ("SET k v GET", "nil"),
        ("SET k w IFEQ 5", "nil"),
        ("SETNX k v", ":1"),
        ("GETSET k v", "nil"),
        ("GETDEL k", "nil"),
        ("GETEX k", "nil"),
        ("DELIFEQ k 5", ":0"),
        ("APPEND k x", ":1"),
        ("SETRANGE k 1 x", ":2"),
        ("STRLEN k", ":0"),
        ("GETRANGE k 0 -1", "\"\""),
        ("INCR k", ":1"),
        ("INCRBYFLOAT k 1.5", "\"1.5\""),
        ("MGET k k", "[nil, nil]"),
        ("MSETNX k 1", ":1"),
        ("MSETEX 1 k 1 XX", ":0"),
        ("LCS k k LEN", ":0"),
    ];
    for (line, reply) in rows {
        let mut bench = Bench::new();
        bench.check("SET k 5 PX 100", "+OK");
        bench.pass_ms(200);
        bench.check(line, reply);
    }
}

/// Pages of zeros take no memory, so under a very high `proto-max-bulk-len` SETRANGE could once make strings
/// so long that their bit numbers overflowed. Now lengths have a fixed bound.
#[test]
fn no_limit_lets_a_string_have_bits_that_cannot_be_counted() {
    let mut bench = Bench::with(&[("proto-max-bulk-len", "9223372036854775807")]);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let bad_offset = "-ERR bit offset is not an integer or out of range";
    bench.check("SETRANGE k 1099511627775 x", ":1099511627776");
    bench.check("APPEND k x", too_long);
    bench.check("SETRANGE k 2305843009213693952 x", too_long);
    bench.check("SETRANGE k 9223372036854775806 x", too_long);
    bench.check("SETBIT k 8796093022208 1", bad_offset);
    bench.check("SETBIT k 9223372036854775807 1", bad_offset);
    bench.check("BITFIELD k SET u8 #1152921504606846975 1", bad_offset);
    bench.check("BITPOS k 1 -3", ":8796093022201");
    bench.check("BITCOUNT k -3 -1", ":4");
    bench.check("STRLEN k", ":1099511627776");
}

#[test]
fn strings_end_at_the_configured_size() {
    let mut bench = Bench::with(&[("proto-max-bulk-len", "1mb")]);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    bench.check(&format!("SET k {}", "x".repeat(1 << 10)), "+OK");
    bench.check("SETRANGE k 1048570 xxx", ":1048573");
    bench.check("APPEND k xxxx", too_long);
    bench.check("APPEND k xxx", ":1048576");
    bench.check("APPEND k x", too_long);
    bench.check("SETRANGE k 1048576 x", too_long);
    bench.check("SETRANGE k 1048575 x", ":1048576");
    bench.check("STRLEN k", ":1048576");
}

#[test]
fn lcs_refuses_a_table_above_the_largest_string() {
    let mut bench = Bench::with(&[("proto-max-bulk-len", "1mb")]);
    let (short, long) = ("x".repeat(511), "x".repeat(512));
    bench.check(&format!("MSET a {short} b {short} c {long}"), "+OK");
    bench.check("LCS a b LEN", ":511");
    let error = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    bench.check("LCS a c LEN", error);
    bench.check("LCS c a", error);
}

#[test]
fn replies_in_resp3_have_its_null_and_maps() {
    let mut bench = Bench::new();
    bench.run("HELLO 3");
    for (line, expected) in [
        ("GET none", "null"),
        ("SET k v XX", "null"),
        ("SET k v GET", "null"),
        ("SET k v NX", "null"),
        ("GETSET none v", "null"),
        ("GETDEL nothing", "null"),
        ("GETEX nothing", "null"),
        ("MGET k nothing", "[\"v\", null]"),
        ("INCRBYFLOAT f 1.5", "\"1.5\""),
        ("INCREX i", "[:1, :1]"),
        ("INCREX f BYFLOAT 1", "[,2.5, ,1]"),
        ("MSET x 12345 y 345", "+OK"),
        ("LCS x y", "\"345\""),
        ("LCS x y LEN", ":3"),
        ("LCS x y IDX", "{\"matches\": [[[:2, :4], [:0, :2]]], \"len\": :3}"),
        ("LCS x y IDX WITHMATCHLEN", "{\"matches\": [[[:2, :4], [:0, :2], :3]], \"len\": :3}"),
        ("LCS x none IDX", "{\"matches\": [], \"len\": :0}"),
    ] {
        bench.check(line, expected);
    }
}

#[test]
fn commands_that_read_count_hits_and_misses() {
    let reads = [
        "GET k",
        "SET k v GET",
        "GETSET k v",
        "GETDEL k",
        "GETEX k",
        "GETEX k EX 100",
        "STRLEN k",
        "GETRANGE k 0 1",
        "SUBSTR k 0 1",
        "MGET k",
    ];
    let others = [
        "SET k v",
        "SET k v NX",
        "SET k v XX",
        "SET k v IFEQ v",
        "SETNX k v",
        "SETEX k 10 v",
        "APPEND k x",
        "SETRANGE k 1 x",
        "INCR k",
        "INCRBYFLOAT k 1",
        "INCREX k",
        "MSET k 1",
        "MSETNX k 1",
        "MSETEX 1 k 1 NX",
        "DELEX k IFEQ 5",
        "DELIFEQ k 5",
    ];
    let counts = reads.map(|line| (line, 1)).into_iter().chain(others.map(|line| (line, 0)));
    for (line, count) in counts {
        let mut bench = Bench::new();
        bench.run(line);
        assert_eq!(bench.counts.misses, count, "misses of {line}");
        bench.check("SET k 5", "+OK");
        bench.run(line);
        assert_eq!(bench.counts.hits, count, "hits of {line}");
        assert_eq!(bench.counts.misses, count, "misses of {line}");
    }
}

#[test]
fn changes_are_counted_by_key_and_expired_keys_are_not() {
    // Each row has a command, and the number of changes that it makes to an absent key, to a key with an
    // expiry, and to a key that has expired.
    let rows = [
        ("GET k", [0, 0, 0]),
        ("SET k v", [1, 1, 1]),
        ("SET k v XX", [0, 1, 0]),
        ("SET k v PX 1000", [1, 1, 1]),
        ("SET k v PXAT 1", [0, 1, 0]),
        ("SETNX k v", [1, 0, 1]),
        ("GETDEL k", [0, 1, 0]),
        ("GETEX k", [0, 0, 0]),
        ("GETEX k EX 100", [0, 1, 0]),
        ("GETEX k PERSIST", [0, 1, 0]),
        ("GETEX k PXAT 1", [0, 1, 0]),
        ("APPEND k \"\"", [1, 1, 1]),
        ("SETRANGE k 1 \"\"", [0, 0, 0]),
        ("MGET k", [0, 0, 0]),
        ("MSET k 1 other 2", [2, 2, 2]),
        ("MSETEX 2 k 1 other 2 EX 10", [2, 2, 2]),
        ("MSETEX 1 k 1 PXAT 1", [1, 1, 1]),
        ("DELEX k IFEQ 5", [0, 1, 0]),
        ("DELEX k IFNE 5", [0, 0, 0]),
        ("DELIFEQ k 5", [0, 1, 0]),
    ];
    for (line, changes) in rows {
        for (setup_ms, expected) in [None, Some(1000), Some(1)].into_iter().zip(changes) {
            let mut bench = Bench::new();
            if let Some(ms) = setup_ms {
                bench.check(&format!("SET k 5 PX {ms}"), "+OK");
                bench.pass_ms(10);
            }
            let (before, expired) = (bench.counts.changes, setup_ms == Some(1));
            bench.run(line);
            assert_eq!(bench.counts.changes - before, expected, "{line} {setup_ms:?}");
            let now = line.ends_with("PXAT 1") && !line.starts_with("MSETEX") && setup_ms.is_some();
            assert_eq!(bench.counts.expired_keys, usize::from(expired || now), "{line} {setup_ms:?}");
        }
    }
}

#[test]
fn options_end_at_a_zero_byte() {
    check(&[
        (r#"SET a 1 "EX\x00x" 100"#, "+OK"),
        ("TTL a", ":100"),
        (r#"GETEX a "PERSIST\x00""#, "\"1\""),
        ("TTL a", ":-1"),
        (r#"MSETEX 1 a 2 "EX\x00" 100"#, ":1"),
        ("TTL a", ":100"),
        (r#"SET a 1 "EX y" 100"#, "-ERR syntax error"),
    ]);
}

/// Writes that end exactly at the limit on a string's length succeed; writes that go beyond it are refused.
#[test]
fn strings_end_at_the_limit() {
    let mut bench = Bench::new();
    let error = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    for (line, wanted) in [
        ("SETRANGE s 536870911 x", ":536870912"),
        ("SETRANGE s 536870912 x", error),
        ("APPEND s x", error),
        ("SETRANGE s 9223372036854775807 x", error),
        ("SETRANGE s -1 x", "-ERR offset is out of range"),
        ("SETBIT s 4294967295 1", ":0"),
        ("SETBIT s 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("BITFIELD s SET u8 4294967288 255", "[:121]"),
        ("STRLEN s", ":536870912"),
        ("BITCOUNT s", ":8"),
        ("GETRANGE s -1 -1", "\"\\xff\""),
        // Only the offset is limited, so the field may end one byte beyond the limit, as in the reference.
        ("BITFIELD s SET u8 4294967289 255", "[:254]"),
        ("STRLEN s", ":536870913"),
        ("BITFIELD s SET u8 4294967296 255", "-ERR bit offset is not an integer or out of range"),
    ] {
        bench.check(line, wanted);
    }
}

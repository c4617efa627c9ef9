//! Behaviour of expiry: setting it, reading it, and commands that meet an expired key.

use crate::common::{Bench, check};

#[test]
fn expire_conditions() {
    check(&[
        ("SET k v", "+OK"),
        ("EXPIRE k 100 XX", ":0"),
        ("EXPIRE k 100 GT", ":0"),
        ("EXPIRE k 100 LT", ":1"),
        ("EXPIRE k 100 NX", ":0"),
        ("EXPIRE k 1 XX GT", ":0"),
        ("EXPIRE k 200 XX GT", ":1"),
        ("EXPIRE k 300 LT", ":0"),
        ("EXPIRE k 150 xx lt", ":1"),
        ("TTL k", ":150"),
        ("PERSIST k", ":1"),
        ("EXPIRE k 100 nx nx", ":1"),
        ("TTL k", ":100"),
        ("EXPIRE k -1 GT", ":0"),
        ("EXPIRE k -1 NX", ":0"),
        ("EXPIRE k -1 LT", ":1"),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn expire_errors() {
    check(&[
        ("SET k v", "+OK"),
        ("EXPIRE k 1 FOO", "-ERR Unsupported option FOO"),
        ("EXPIRE k 10 \"\"", "-ERR Unsupported option "),
        ("EXPIRE k abc FOO", "-ERR Unsupported option FOO"),
        ("EXPIRE k 10 NX XX FOO", "-ERR Unsupported option FOO"),
        ("EXPIRE nokey 1 FOO", "-ERR Unsupported option FOO"),
        ("EXPIRE k 1 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 1 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 1 NX LT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 1 NX XX GT LT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE k abc", "-ERR value is not an integer or out of range"),
        ("EXPIRE k \"\"", "-ERR value is not an integer or out of range"),
        ("EXPIRE nokey abc", "-ERR value is not an integer or out of range"),
        ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("EXPIRE k -9223372036854775808", "-ERR invalid expire time in 'expire' command"),
        ("EXPIRE k 9223372036854775", "-ERR invalid expire time in 'expire' command"),
        ("PEXPIRE k 9223372036854770000", "-ERR invalid expire time in 'pexpire' command"),
        ("EXPIREAT k 9223372036854776", "-ERR invalid expire time in 'expireat' command"),
        ("EXPIREAT k -9223372036854776", "-ERR invalid expire time in 'expireat' command"),
        ("EXPIRE k", "-ERR wrong number of arguments for 'expire' command"),
        ("TTL k", ":-1"),
    ]);
}

#[test]
fn any_time_that_fits_can_be_set() {
    check(&[
        ("SET k v", "+OK"),
        ("PEXPIREAT k 9223372036854775807", ":1"),
        ("PEXPIRETIME k", ":9223372036854775807"),
        ("EXPIRETIME k", ":9223372036854776"),
        ("EXPIRE k 100 GT", ":0"),
        ("EXPIREAT k 9223372036854775", ":1"),
        ("EXPIREAT k 1800000000", ":1"),
        ("PEXPIRETIME k", ":1800000000000"),
        ("PEXPIRE k -9223372036854775808", ":1"),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn ttl_rounds_halves_upwards() {
    let mut bench = Bench::new();
    bench.check("SET k v", "+OK");
    bench.check("PEXPIREAT k 33177117420500", ":1");
    bench.check("EXPIRETIME k", ":33177117421");
    bench.check("PEXPIREAT k 33177117420499", ":1");
    bench.check("EXPIRETIME k", ":33177117420");
    bench.check("PEXPIRETIME k", ":33177117420499");
    bench.check("PEXPIRE k 1500", ":1");
    bench.check("TTL k", ":2");
    bench.check("PEXPIRE k 1499", ":1");
    bench.check("TTL k", ":1");
    bench.check("PTTL k", ":1499");
    bench.check("PEXPIRE k 400", ":1");
    bench.check("TTL k", ":0");
}

#[test]
fn ttl_of_what_has_none() {
    check(&[
        ("SET k v", "+OK"),
        ("TTL k", ":-1"),
        ("PTTL k", ":-1"),
        ("EXPIRETIME k", ":-1"),
        ("PEXPIRETIME k", ":-1"),
        ("TTL nokey", ":-2"),
        ("PTTL nokey", ":-2"),
        ("EXPIRETIME nokey", ":-2"),
        ("PEXPIRETIME nokey", ":-2"),
        ("PERSIST k", ":0"),
        ("PERSIST nokey", ":0"),
        ("EXPIRE nokey 100", ":0"),
        ("EXPIRE nokey -1", ":0"),
    ]);
}

#[test]
fn a_time_that_has_passed_deletes_at_once() {
    for command in
        ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k 0", "EXPIREAT k 1", "EXPIREAT k -1", "PEXPIREAT k -1"]
    {
        let mut bench = Bench::new();
        bench.check("SET k v", "+OK");
        bench.check(command, ":1");
        bench.check("EXISTS k", ":0");
        assert_eq!(bench.keyspace.db(0).len(), 0, "{command}");
    }
}

#[test]
fn an_expired_key_is_gone_for_every_command() {
    for (line, reply) in [
        ("GET k", "nil"),
        ("EXISTS k", ":0"),
        ("TYPE k", "+none"),
        ("TTL k", ":-2"),
        ("TOUCH k", ":0"),
        ("OBJECT ENCODING k", "nil"),
        ("RENAME k l", "-ERR no such key"),
        ("COPY k l", ":0"),
        ("MOVE k 1", ":0"),
        ("PERSIST k", ":0"),
        ("EXPIRE k 100", ":0"),
        ("DEL k", ":0"),
        ("RANDOMKEY", "nil"),
        ("SCAN 0", "[\"0\", []]"),
    ] {
        let mut bench = Bench::new();
        bench.check("SET k v PX 10", "+OK");
        bench.pass_ms(10);
        bench.check("EXISTS k", ":1");
        bench.pass_ms(1);
        bench.check(line, reply);
        assert_eq!(bench.keyspace.db(0).len(), 0, "{line} deletes what it meets");
    }
}

#[test]
fn keys_hides_expired_ones_and_leaves_them_to_others() {
    let mut bench = Bench::new();
    bench.check("SET k v PX 10", "+OK");
    bench.pass_ms(20);
    bench.check("KEYS *", "[]");
    bench.check("SCAN 0 MATCH other", "[\"0\", []]");
    bench.check("SCAN 0 TYPE list", "[\"0\", []]");
    assert_eq!(bench.keyspace.db(0).len(), 1);
}

/// A time that does not fit in 64 bits is an error and not a time in the past, so the key stays.
#[test]
fn no_time_that_is_given_wraps_into_the_past() {
    let payload = r#""\x00\x01vP\x00^\x22\x07#\x87j\xed:""#;
    let now_ms = Bench::new().now.unix_ms();
    let max = i64::MAX;
    let amounts = [max, max - 1, max - now_ms, max - now_ms + 1, max / 1000, max / 1000 + 1, max / 2];
    let amounts = amounts.into_iter().chain([(max - now_ms) / 1000, (max - now_ms) / 1000 + 1, 1 << 53]);
    let lines = [
        "EXPIRE k #",
        "PEXPIRE k #",
        "EXPIREAT k #",
        "PEXPIREAT k #",
        "SET k v EX #",
        "SET k v PX #",
        "SET k v EXAT #",
        "SET k v PXAT #",
        "SETEX k # v",
        "PSETEX k # v",
        "GETEX k EX #",
        "GETEX k PX #",
        "GETEX k EXAT #",
        "GETEX k PXAT #",
        "MSETEX 1 k v EX #",
        "MSETEX 1 k v PX #",
        "MSETEX 1 k v EXAT #",
        "MSETEX 1 k v PXAT #",
        "INCREX n EX #",
        "INCREX n PX #",
        "INCREX n EXAT #",
        "INCREX n PXAT #",
        "HEXPIRE h # FIELDS 1 f",
        "HPEXPIRE h # FIELDS 1 f",
        "HEXPIREAT h # FIELDS 1 f",
        "HPEXPIREAT h # FIELDS 1 f",
        "HSETEX h EX # FIELDS 1 f v",
        "HSETEX h PX # FIELDS 1 f v",
        "HSETEX h EXAT # FIELDS 1 f v",
        "HSETEX h PXAT # FIELDS 1 f v",
        "HGETEX h EX # FIELDS 1 f",
        "HGETEX h PX # FIELDS 1 f",
        "HGETEX h EXAT # FIELDS 1 f",
        "HGETEX h PXAT # FIELDS 1 f",
        "RESTORE k # @ REPLACE",
        "RESTORE k # @ REPLACE ABSTTL",
        "RESTORE-ASKING k # @ REPLACE",
        "RESTORE k 0 @ REPLACE IDLETIME #",
    ];
    for amount in amounts {
        for line in lines {
            let mut bench = Bench::new();
            bench.run("MSET k v n 5");
            bench.run("HSET h f v");
            let line = line.replace('#', &amount.to_string()).replace('@', payload);
            let answer = bench.run(&line);
            let is_refused = answer.starts_with("-ERR invalid expire time in '");
            assert!(is_refused || !answer.starts_with('-'), "{line}: {answer}");
            assert_eq!(bench.run("EXISTS k n"), ":2", "{line}: {answer}");
            assert_eq!(bench.run("HGET h f"), "\"v\"", "{line}: {answer}");
            assert!(!bench.run("PTTL k").starts_with(":-2"), "{line}: {answer}");
        }
    }
}

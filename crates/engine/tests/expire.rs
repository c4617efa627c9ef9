//! Behaviour of expiry: setting, asking, and what happens when the time comes.
#![allow(missing_docs)]

use sluice_testkit::{Rig, check};

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
    let mut rig = Rig::new();
    rig.check("SET k v", "+OK");
    rig.check("PEXPIREAT k 33177117420500", ":1");
    rig.check("EXPIRETIME k", ":33177117421");
    rig.check("PEXPIREAT k 33177117420499", ":1");
    rig.check("EXPIRETIME k", ":33177117420");
    rig.check("PEXPIRETIME k", ":33177117420499");
    rig.check("PEXPIRE k 1500", ":1");
    rig.check("TTL k", ":2");
    rig.check("PEXPIRE k 1499", ":1");
    rig.check("TTL k", ":1");
    rig.check("PTTL k", ":1499");
    rig.check("PEXPIRE k 400", ":1");
    rig.check("TTL k", ":0");
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
        let mut rig = Rig::new();
        rig.check("SET k v", "+OK");
        rig.check(command, ":1");
        rig.check("EXISTS k", ":0");
        assert_eq!(rig.engine.keyspace().db(0).len(), 0, "{command}");
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
        let mut rig = Rig::new();
        rig.check("SET k v PX 10", "+OK");
        rig.pass_ms(10);
        rig.check("EXISTS k", ":1");
        rig.pass_ms(1);
        rig.check(line, reply);
        assert_eq!(rig.engine.keyspace().db(0).len(), 0, "{line} deletes what it meets");
    }
}

#[test]
fn keys_hides_expired_ones_and_leaves_them_to_others() {
    let mut rig = Rig::new();
    rig.check("SET k v PX 10", "+OK");
    rig.pass_ms(20);
    rig.check("KEYS *", "[]");
    rig.check("SCAN 0 MATCH other", "[\"0\", []]");
    rig.check("SCAN 0 TYPE list", "[\"0\", []]");
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
}

#[test]
fn the_cycle_deletes_what_nobody_looks_at() {
    let mut rig = Rig::new();
    for i in 0..5000 {
        rig.run(&format!("SET key:{i} v PX {}", 1 + i % 50));
    }
    rig.run("SET stays v EX 1000");
    rig.pass_ms(60);
    for _ in 0..50 {
        rig.pass_ms(100);
        rig.cron();
    }
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
    rig.engine.keyspace().db(0).check();
}

#[test]
fn import_mode_keeps_expired_keys() {
    let mut rig = Rig::with(&[("import-mode", "yes")]);
    rig.check("SET k 1 PX 10", "+OK");
    rig.pass_ms(200);
    rig.cron();
    rig.check("GET k", "nil");
    rig.check("TTL k", ":-2");
    rig.check("KEYS *", "[]");
    rig.check("SCAN 0", "[\"0\", []]");
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
    rig.check("DEL k", ":1");
    rig.check("SET k 1", "+OK");
    rig.check("EXPIREAT k -1", ":1");
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
    rig.check("SETNX k 2", ":1");
    rig.check("GET k", "\"2\"");
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
    rig.engine.keyspace().db(0).check();
}

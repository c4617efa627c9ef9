//! Behaviour of expiry: setting, asking, and what happens when the time comes.

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

/// A server that holds so many keys, and a hash with so many fields, all of which have expired, as a cycle
/// begins.
fn expired_at_once(directives: &[(&str, &str)], keys: usize, fields: usize) -> Rig {
    let mut rig = Rig::with(directives);
    let at_ms = rig.process.now.unix_ms() + 1_000_000;
    for i in 0..keys {
        rig.run(&format!("SET key:{i} v PXAT {at_ms}"));
    }
    for i in 0..fields {
        rig.run(&format!("HSETEX hash PXAT {at_ms} FIELDS 1 f{i} v"));
    }
    rig.pass_ms(2_000_000);
    rig.engine.cron(&mut rig.process);
    rig
}

fn left(rig: &Rig) -> usize {
    rig.engine.keyspace().db(0).len()
}

#[test]
fn regress_a_cycle_runs_in_slices_that_nobody_waits_long_for() {
    let mut rig = expired_at_once(&[], 30_000, 0);
    assert_eq!(left(&rig), 30_000, "the cron begins a cycle, slices run it");
    let (mut slices, mut longest_ns) = (0, 0);
    while left(&rig) > 0 {
        let start_ns = rig.process.now.mono_ns;
        assert!(rig.engine.next_expiry_ns() <= start_ns, "without clients a slice follows upon a slice");
        assert!(rig.engine.expire_slice(&mut rig.process));
        longest_ns = longest_ns.max(rig.process.now.mono_ns - start_ns);
        slices += 1;
    }
    assert!(slices > 1 && longest_ns < 300_000, "{slices} slices, the longest {longest_ns} ns");
    while rig.engine.expire_slice(&mut rig.process) {}
    assert_eq!(rig.engine.next_expiry_ns(), u64::MAX, "the cycle is over");
    let stats = rig.run("INFO stats");
    assert!(stats.contains("expired_keys:30000") && stats.contains("expired_time_cap_reached_count:0"));
    assert!(stats.contains("expired_stale_perc:5.00"), "{stats}");
}

#[test]
fn beside_clients_slices_have_the_share_that_the_effort_says() {
    for (effort, wanted) in [("1", 22..28), ("10", 40..46)] {
        let mut rig = expired_at_once(&[("active-expire-effort", effort)], 30_000, 0);
        let (start_ns, mut slices_ns) = (rig.process.now.mono_ns, 0);
        while left(&rig) > 0 {
            rig.check("PING", "+PONG");
            let before_ns = rig.process.now.mono_ns;
            if rig.engine.expire_slice(&mut rig.process) {
                slices_ns += rig.process.now.mono_ns - before_ns;
            }
            rig.process.pass_us(20);
        }
        let percent = slices_ns * 100 / (rig.process.now.mono_ns - start_ns);
        assert!(wanted.contains(&percent), "effort {effort}: {percent} %");
    }
}

#[test]
fn deletions_for_replicas_and_the_log_keep_to_the_share_without_clients_too() {
    let mut rig = expired_at_once(&[], 30_000, 0);
    rig.engine.begin_aof();
    assert!(rig.engine.expire_slice(&mut rig.process));
    let end_ns = rig.process.now.mono_ns;
    assert!(!rig.engine.expire_slice(&mut rig.process));
    let waits_ns = rig.engine.next_expiry_ns() - end_ns;
    assert!((500_000..700_000).contains(&waits_ns), "three times a slice: {waits_ns}");
}

#[test]
fn what_holds_expiry_holds_it_between_two_slices() {
    for (hold, release) in [
        ("CLIENT PAUSE 100000 WRITE", "CLIENT UNPAUSE"),
        ("CONFIG SET import-mode yes", "CONFIG SET import-mode no"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", "DEBUG SET-ACTIVE-EXPIRE 1"),
        ("DEBUG PAUSE-CRON 1", "DEBUG PAUSE-CRON 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ] {
        let mut rig = expired_at_once(&[], 30_000, 0);
        assert!(rig.engine.expire_slice(&mut rig.process));
        let before = left(&rig);
        rig.check(hold, "+OK");
        rig.pass_ms(100);
        rig.cron();
        assert_eq!(left(&rig), before, "{hold}");
        rig.check(release, "+OK");
        for _ in 0..20 {
            rig.pass_ms(100);
            rig.cron();
        }
        assert_eq!(left(&rig), 0, "{release}");
    }
}

#[test]
fn fields_and_keys_expire_in_the_same_slices() {
    let mut rig = expired_at_once(&[], 20_000, 20_000);
    assert!(rig.engine.expire_slice(&mut rig.process));
    let stats = rig.run("INFO stats");
    let count = |name: &str| {
        let line = stats.split("\\r\\n").find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.parse::<usize>().unwrap_or_else(|_| panic!("{name} {stats}"))
    };
    assert!((1000..20_000).contains(&count("expired_keys:")) && count("expired_fields:") > 1000, "{stats}");
    for _ in 0..5 {
        rig.pass_ms(100);
        rig.cron();
    }
    assert_eq!(left(&rig), 0, "the hash went with its last field");
    assert!(rig.run("INFO stats").contains("expired_fields:20000"));
}

#[test]
fn a_cycle_that_its_period_is_too_short_for_is_counted() {
    let mut rig = expired_at_once(&[], 30_000, 0);
    for _ in 0..3 {
        rig.check("PING", "+PONG");
        rig.engine.expire_slice(&mut rig.process);
        rig.pass_ms(100);
        rig.engine.cron(&mut rig.process);
    }
    assert!(rig.run("INFO stats").contains("expired_time_cap_reached_count:3"));
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

/// A time beyond what 64 bits hold is an error, and no time that has passed: what is there stays.
#[test]
fn no_time_that_is_given_wraps_into_the_past() {
    let payload = r#""\x00\x01vP\x00^\x22\x07#\x87j\xed:""#;
    let now_ms = Rig::new().process.now.unix_ms();
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
            let mut rig = Rig::new();
            rig.run("MSET k v n 5");
            rig.run("HSET h f v");
            let line = line.replace('#', &amount.to_string()).replace('@', payload);
            let answer = rig.run(&line);
            let is_refused = answer.starts_with("-ERR invalid expire time in '");
            assert!(is_refused || !answer.starts_with('-'), "{line}: {answer}");
            rig.cron();
            assert_eq!(rig.run("EXISTS k n"), ":2", "{line}: {answer}");
            assert_eq!(rig.run("HGET h f"), "\"v\"", "{line}: {answer}");
            assert!(!rig.run("PTTL k").starts_with(":-2"), "{line}: {answer}");
        }
    }
}

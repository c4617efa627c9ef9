//! The cycle of expiry, and states that keep expired keys. Commands that set and read expiry times
//! are in `crates/commands/tests/it/expire.rs`.

use sluice_testkit::Rig;

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
fn the_cycle_deletes_fields_and_the_key_of_a_hash_without_any() {
    let mut rig = Rig::new();
    rig.check("HSET h a 1 b 2 c 3", ":3");
    rig.check("HPEXPIRE h 50 FIELDS 2 a b", "[:1, :1]");
    rig.check("HSETEX g PX 50 FIELDS 1 x 1", ":1");
    assert!(rig.run("INFO keyspace").contains("keys_with_volatile_items=2"));
    rig.pass_ms(200);
    rig.check("HLEN h", ":3");
    rig.cron();
    rig.check("HLEN h", ":1");
    rig.check("EXISTS g", ":0");
    assert!(rig.run("INFO keyspace").contains("keys_with_volatile_items=0"));
    assert!(rig.run("INFO stats").contains("expired_fields:3"));
}

/// A server with `keys` keys, and a hash with `fields` fields, all of which have expired, at the beginning of
/// a cycle.
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

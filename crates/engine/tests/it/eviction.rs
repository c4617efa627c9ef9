//! Memory limits: evicted keys, refused writes, closed clients. Only the data count as memory here.

use sluice_testkit::Rig;

/// A server with this policy on which only the data count as memory; it has no limit yet.
fn rig_with(policy: &str, extra: &[(&str, &str)]) -> Rig {
    let mut rig =
        Rig::with(&[&[("maxmemory-policy", policy), ("maxmemory-eviction-tenacity", "100")], extra].concat());
    rig.process.facts.used_memory = 0;
    rig.process.counts_data = true;
    rig
}

fn limit_to(rig: &mut Rig, bytes: usize) {
    rig.check(&format!("CONFIG SET maxmemory {bytes}"), "+OK");
}

fn used(rig: &Rig) -> usize {
    rig.engine.keyspace().data_bytes()
}

/// Writes the keys `prefix:0` to `prefix:<count - 1>` with values of a hundred bytes.
fn fill(rig: &mut Rig, prefix: &str, count: usize) {
    let value = "v".repeat(100);
    for n in 0..count {
        rig.run(&format!("SET {prefix}:{n} {value}"));
    }
}

fn count(rig: &mut Rig) -> usize {
    rig.run("DBSIZE").strip_prefix(':').expect("a number").parse().expect("a number")
}

fn stat(rig: &mut Rig, field: &str) -> u64 {
    let text = rig.run("INFO everything");
    let line = text.split("\\r\\n").find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field}")).parse().expect("a number")
}

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn every_policy_for_all_keys_keeps_memory_below_the_limit_and_takes_every_write() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let mut rig = rig_with(policy, &[]);
        fill(&mut rig, "before", 1000);
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        for n in 0..3000 {
            rig.check(&format!("SET after:{n} {}", "w".repeat(100)), "+OK");
            // Keys are evicted before a command, so the command itself may exceed the limit.
            assert!(used(&rig) <= limit + 4096, "{policy}: {} above {limit}", used(&rig));
        }
        let left = count(&mut rig);
        assert!((800..=1001).contains(&left), "{policy}: {left}");
        assert_eq!(stat(&mut rig, "evicted_keys") as usize, 4000 - left, "{policy}");
    }
}

#[test]
fn cb_g22_what_a_flushed_slot_has_left_to_free_makes_room_ahead_of_keys_and_of_refusals() {
    for policy in ["noeviction", "allkeys-lru"] {
        let mut rig = rig_with(policy, &[("cluster-enabled", "yes")]);
        fill(&mut rig, "{a}", 1000);
        fill(&mut rig, "stays", 200);
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        rig.check(&format!("CLUSTER FLUSHSLOT {}", sluice_base::key_slot(b"a")), "+OK");
        // Each of these keys is the only one in its slot, so each command makes a hash table.
        for n in 0..200 {
            rig.check(&format!("SET after:{n} {}", "w".repeat(100)), "+OK");
        }
        assert_eq!((count(&mut rig), stat(&mut rig, "evicted_keys")), (400, 0), "{policy}");
    }
}

#[test]
fn volatile_policies_evict_keys_with_an_expiry_alone_and_then_refuse_writes() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let mut rig = rig_with(policy, &[]);
        fill(&mut rig, "stays", 500);
        let value = "v".repeat(100);
        for n in 0..500 {
            rig.run(&format!("SET goes:{n} {value} EX 100000"));
        }
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        let mut refused = 0;
        for n in 0..800 {
            let reply = rig.run(&format!("SET new:{n} {value}"));
            refused += usize::from(reply == OOM);
            assert!(reply == "+OK" || reply == OOM, "{policy}: {reply}");
        }
        assert!(refused > 100, "{policy}: {refused}");
        for n in 0..500 {
            rig.check(&format!("EXISTS stays:{n} goes:{n}"), ":1");
        }
        // Reads, and writes that only free memory, are not refused.
        rig.check("STRLEN stays:0", ":100");
        rig.check("DEL stays:0", ":1");
    }
}

#[test]
fn noeviction_refuses_what_needs_memory() {
    let mut rig = rig_with("noeviction", &[]);
    fill(&mut rig, "k", 100);
    limit_to(&mut rig, 1000);
    rig.check("SET a 1", OOM);
    rig.check("STRLEN k:1", ":100");
    assert_eq!(stat(&mut rig, "evicted_keys"), 0);
    rig.pass_ms(50);
    assert!(stat(&mut rig, "current_eviction_exceeded_time") >= 50);
    limit_to(&mut rig, 1 << 30);
    rig.pass_ms(10);
    rig.check("SET a 1", "+OK");
    assert_eq!(stat(&mut rig, "current_eviction_exceeded_time"), 0);
    assert!(stat(&mut rig, "total_eviction_exceeded_time") >= 50);
}

#[test]
fn the_keys_that_were_used_last_stay() {
    let mut rig = rig_with("allkeys-lru", &[("maxmemory-samples", "10")]);
    fill(&mut rig, "old", 1000);
    rig.pass_ms(10_000);
    fill(&mut rig, "used", 500);
    let limit = used(&rig);
    limit_to(&mut rig, limit);
    rig.pass_ms(10_000);
    fill(&mut rig, "new", 800);
    let mut left = |prefix: &str, of: usize| {
        (0..of).filter(|n| rig.run(&format!("EXISTS {prefix}:{n}")) == ":1").count()
    };
    assert!(left("used", 500) > 450);
    assert!(left("old", 1000) < 300);
    assert_eq!(left("new", 800), 800, "nothing is evicted that was written a moment ago");
}

#[test]
fn a_candidate_that_is_used_again_stays() {
    // One key is the best candidate for eviction until a client reads it.
    let mut rig = rig_with("allkeys-lru", &[("maxmemory-samples", "64")]);
    rig.run(&format!("SET oldest {}", "v".repeat(100)));
    rig.pass_ms(5_000);
    rig.run(&format!("SET second {}", "v".repeat(100)));
    rig.pass_ms(5_000);
    fill(&mut rig, "k", 300);
    let limit = used(&rig);
    limit_to(&mut rig, limit);
    // The first eviction fills the pool of candidates and evicts the oldest key; the second oldest is then in
    // the pool.
    fill(&mut rig, "new", 3);
    rig.check("EXISTS oldest", ":0");
    let evicted = stat(&mut rig, "evicted_keys");
    assert!(evicted >= 1);
    if rig.run("EXISTS second") == ":1" {
        rig.pass_ms(60_000);
        rig.run("GET second");
        fill(&mut rig, "more", 200);
        rig.check("EXISTS second", ":1");
    }
}

#[test]
fn the_keys_that_are_used_often_stay_under_lfu() {
    let mut rig = rig_with("allkeys-lfu", &[("maxmemory-samples", "10"), ("lfu-log-factor", "1")]);
    fill(&mut rig, "rare", 1000);
    fill(&mut rig, "often", 300);
    for _ in 0..40 {
        for n in 0..300 {
            rig.run(&format!("GET often:{n}"));
        }
    }
    let limit = used(&rig);
    limit_to(&mut rig, limit);
    fill(&mut rig, "new", 800);
    let left = (0..300).filter(|n| rig.run(&format!("EXISTS often:{n}")) == ":1").count();
    assert!(left > 290, "{left}");
}

#[test]
fn volatile_ttl_takes_the_keys_that_expire_first() {
    let mut rig = rig_with("volatile-ttl", &[("maxmemory-samples", "10")]);
    let value = "v".repeat(100);
    for n in 0..1000 {
        rig.run(&format!("SET k:{n} {value} EX {}", 1000 + n));
    }
    let limit = used(&rig);
    limit_to(&mut rig, limit);
    fill(&mut rig, "new", 400);
    let mut left =
        |range: std::ops::Range<usize>| range.filter(|n| rig.run(&format!("EXISTS k:{n}")) == ":1").count();
    assert!(left(0..300) < 60);
    assert!(left(700..1000) > 280);
}

#[test]
fn evictions_propagate_are_told_and_end_transactions_that_watch() {
    for (lazy, name) in [("yes", "UNLINK"), ("no", "DEL")] {
        let mut rig = rig_with("allkeys-random", &[("lazyfree-lazy-eviction", lazy)]);
        rig.run(&format!("SET only {}", "v".repeat(100)));
        let replica = rig.replica();
        rig.engine.record_events();
        let watcher = rig.connect();
        rig.run_as(watcher, "WATCH only");
        rig.run_as(watcher, "MULTI");
        rig.run_as(watcher, "PING");
        rig.fed(replica);
        rig.process.facts.used_memory = 1000;
        limit_to(&mut rig, 1);
        rig.check("SET new 1", OOM);
        assert_eq!(rig.fed(replica), format!("{name} only"));
        assert_eq!(rig.engine.take_events(), ["0:evicted only"]);
        assert_eq!(rig.run_as(watcher, "EXEC"), "nil-array");
    }
}

#[test]
fn the_client_whose_command_evicts_is_told_of_it() {
    let mut rig = rig_with("allkeys-random", &[("notify-keyspace-events", "Ee")]);
    rig.run("HELLO 3");
    rig.run("SET only 1");
    let limit = used(&rig);
    rig.run("SUBSCRIBE __keyevent@0__:evicted");
    limit_to(&mut rig, limit);
    rig.check(&format!("SET only {}", "v".repeat(200)), "+OK");
    let reply = rig.run("SET new 1");
    assert_eq!(reply, ">[\"message\", \"__keyevent@0__:evicted\", \"only\"]\n+OK", "ahead of the command");
}

#[test]
fn a_call_takes_no_longer_than_the_tenacity_lets_it_and_the_clock_goes_on() {
    let mut rig = rig_with("allkeys-lru", &[]);
    fill(&mut rig, "k", 3000);
    rig.check("CONFIG SET maxmemory-eviction-tenacity 0", "+OK");
    limit_to(&mut rig, 100_000);
    // Each reading of the clock advances it by a microsecond, so with a budget of no time the first reading
    // ends the call.
    rig.pass_ms(10);
    let before = stat(&mut rig, "evicted_keys");
    // Keys are evicted before the command and at the end of its iteration; the command that reads the number
    // is an iteration of its own.
    rig.check("SET new 1", "+OK");
    let evicted = stat(&mut rig, "evicted_keys") - before;
    assert!(
        evicted > 0 && evicted <= 160 && evicted.is_multiple_of(16),
        "{evicted}: the command may run while more is to be evicted"
    );
    let mut rounds = 0;
    while rig.engine.cron(&mut rig.process) == 0 {
        rounds += 1;
        assert!(rounds < 10_000);
    }
    assert!(rounds > 50, "{rounds}");
    assert!(used(&rig) <= 100_000);
}

#[test]
fn eviction_stands_still_in_a_pause_and_import_mode_refuses_writes_instead() {
    let mut rig = rig_with("allkeys-lru", &[]);
    fill(&mut rig, "k", 100);
    rig.run("CONFIG SET import-mode yes");
    limit_to(&mut rig, 1000);
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(count(&mut rig), 100);
    rig.check("SET a 1", OOM);
    rig.run("CLIENT PAUSE 100000 WRITE");
    rig.run("CONFIG SET import-mode no");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(count(&mut rig), 100);
    rig.run("CLIENT UNPAUSE");
    // A change of the configuration takes effect within its iteration.
    rig.run("CONFIG SET maxmemory 999");
    rig.engine.end_iteration(&mut rig.process);
    assert!(count(&mut rig) < 20);
}

#[test]
fn large_values_count_as_freed_when_they_lose_their_keys() {
    let mut rig = rig_with("allkeys-lru", &[]);
    for n in 0..20 {
        rig.run(&format!("SET large:{n} {}", "x".repeat(300_000)));
        rig.run(&format!("RPUSH list:{n} {}", "y".repeat(300_000)));
    }
    let limit = used(&rig);
    limit_to(&mut rig, limit);
    rig.pass_ms(10);
    rig.run(&format!("SET more {}", "x".repeat(300_000)));
    rig.run("SET little 1");
    // The values still wait to be freed by another thread, but no more keys are evicted for them.
    let evicted = stat(&mut rig, "evicted_keys");
    assert!((1..=2).contains(&evicted), "{evicted}");
}

#[test]
fn a_cut_evicts_what_would_be_evicted_without() {
    let evicted = |saves: bool| {
        let mut rig = rig_with("allkeys-lru", &[("save", "")]);
        fill(&mut rig, "k", 3000);
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        if saves {
            rig.process.background_room.set(0);
            rig.run("BGSAVE");
        }
        for n in 0..2000 {
            rig.pass_ms(2);
            rig.run(&format!("SET new:{n} {}", "w".repeat(100)));
        }
        assert_eq!(rig.engine.has_job(), saves);
        stat(&mut rig, "evicted_keys") as f64
    };
    let (without, with) = (evicted(false), evicted(true));
    assert!(without > 1000.0);
    assert!((with / without - 1.0).abs() <= 0.01, "{with} against {without}");
}

#[test]
fn a_database_that_was_emptied_under_a_cut_makes_no_more_room_than_without() {
    let kept = |rewrites: bool| {
        let mut rig = rig_with("allkeys-lru", &[("appendonly", "yes")]);
        rig.engine.begin_aof();
        fill(&mut rig, "old", 2000);
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        if rewrites {
            rig.process.background_room.set(0);
            rig.run("BGREWRITEAOF");
        }
        rig.run("FLUSHALL");
        for n in 0..4000 {
            rig.pass_ms(2);
            rig.run(&format!("SET new:{n} {}", "w".repeat(100)));
        }
        assert_eq!(rig.engine.has_job(), rewrites);
        count(&mut rig) as f64
    };
    let (without, with) = (kept(false), kept(true));
    // Tables that only the rewrite's view of the old data holds do not count, so about as many keys stay with
    // a rewrite as without.
    assert!((with / without - 1.0).abs() < 0.1, "{with} against {without}");
}

#[test]
fn exec_is_refused_as_a_whole_and_its_commands_evict_nothing() {
    let mut rig = rig_with("noeviction", &[]);
    fill(&mut rig, "k", 10);
    rig.run("MULTI");
    rig.run("SET a 1");
    let other = rig.connect();
    rig.run_as(other, "CONFIG SET maxmemory 100");
    rig.check("EXEC", "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.");
}

#[test]
fn the_largest_clients_are_closed_when_all_together_take_too_much() {
    let mut rig = Rig::with(&[("maxmemory-clients", "1mb")]);
    let (small, large, kept) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_as(kept, "CLIENT NO-EVICT on");
    rig.engine.publish_input(small, 100_000, 0);
    rig.engine.publish_input(large, 500_000, 0);
    rig.engine.end_iteration(&mut rig.process);
    assert!(!rig.is_closing(large));
    rig.engine.publish_input(kept, 700_000, 0);
    rig.pass_ms(20);
    rig.engine.end_iteration(&mut rig.process);
    assert!(rig.is_closing(large));
    assert!(!rig.is_closing(small) && !rig.is_closing(kept));
    assert_eq!(stat(&mut rig, "evicted_clients"), 1);
    assert!(rig.process.log.iter().any(|(_, line)| line.starts_with("Evicting client: id=")));
}

#[test]
fn a_share_of_maxmemory_bounds_the_clients() {
    let mut rig = Rig::with(&[("maxmemory", "10mb"), ("maxmemory-clients", "5%")]);
    let (a, b) = (rig.connect(), rig.connect());
    rig.engine.publish_input(a, 400_000, 0);
    rig.engine.end_iteration(&mut rig.process);
    assert!(!rig.is_closing(a));
    rig.engine.publish_input(b, 200_000, 0);
    rig.pass_ms(20);
    rig.engine.end_iteration(&mut rig.process);
    assert!(rig.is_closing(a) && !rig.is_closing(b));
}

/// The memory of a removed range of a sorted set is freed before any key is evicted, and before a
/// write is refused.
#[test]
fn what_a_removed_range_held_makes_room_first() {
    for policy in ["allkeys-lru", "noeviction"] {
        let mut rig = rig_with(policy, &[]);
        for i in 0..20_000 {
            rig.run(&format!("ZADD z {i} member:{i:06}"));
        }
        rig.check("ZREMRANGEBYRANK z 1000 16999", ":16000");
        let limit = used(&rig);
        limit_to(&mut rig, limit);
        fill(&mut rig, "before", 1000);
        rig.check("SET after 1", "+OK");
        assert_eq!(count(&mut rig), 1002, "{policy}");
        assert_eq!(stat(&mut rig, "evicted_keys"), 0, "{policy}");
        assert!(used(&rig) <= limit + 4096, "{policy}");
        rig.check("ZRANGE z 999 1000", r#"["member:000999", "member:017000"]"#);
    }
}

#[test]
fn regress_a_client_that_waits_for_a_group_learns_that_its_stream_was_evicted_by_the_clock() {
    let mut rig = rig_with("allkeys-lru", &[]);
    let waiting = rig.connect();
    rig.run("XADD s * a 1");
    rig.check("XGROUP CREATE s g $", "+OK");
    assert_eq!(rig.run_as(waiting, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "");
    limit_to(&mut rig, 1);
    rig.pass_ms(100);
    rig.cron();
    assert_eq!(rig.engine.keyspace().db(0).len(), 0);
    let gone = b"-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    assert_eq!(rig.output(waiting), gone);
}

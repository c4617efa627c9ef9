//! Behaviour of compaction: entries are moved together without an effect on commands, and INFO reports it.

use sluice_testkit::Rig;
use std::collections::BTreeMap;

fn number(rig: &mut Rig, section: &str, name: &str) -> u64 {
    let text = rig.run(&format!("INFO {section}"));
    let found = text.split("\\r\\n").find_map(|line| line.strip_prefix(&format!("{name}:")));
    found.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
}

const SHORT_STEPS: [(&str, &str); 4] = [
    ("activedefrag", "yes"),
    ("active-defrag-ignore-bytes", "500kb"),
    ("active-defrag-cycle-max", "80"),
    ("active-defrag-cycle-us", "50"),
];

/// Writes 30,000 keys with values of 64 bytes, every twentieth with an expiry, and deletes nine of ten.
fn sparse(rig: &mut Rig) {
    for i in 0..30_000 {
        let expiry = if i % 20 == 0 { " EX 1000" } else { "" };
        rig.run(&format!("SET key:{i:06} {i:064}{expiry}"));
    }
    for i in (0..30_000).filter(|i| i % 10 != 0) {
        rig.check(&format!("DEL key:{i:06}"), ":1");
    }
}

#[test]
fn sparse_chunks_are_emptied_between_units_and_nothing_is_lost() {
    // The steps are short, because the clock of the rig advances only a microsecond with each reading.
    let mut rig = Rig::with(&SHORT_STEPS);
    sparse(&mut rig);
    let before = rig.engine.keyspace().chunk_memory();
    let mut runs = 0;
    loop {
        rig.pass_ms(50);
        rig.cron();
        runs += 1;
        if runs == 2 {
            assert_eq!(number(&mut rig, "memory", "active_defrag_running"), 80);
            assert!(number(&mut rig, "stats", "current_active_defrag_time") > 0);
        }
        if number(&mut rig, "memory", "active_defrag_running") == 0 {
            break;
        }
        assert!(runs < 1000, "it comes to an end");
    }
    assert!(runs > 3, "it takes several steps: {runs}");
    let after = rig.engine.keyspace().chunk_memory();
    assert_eq!(before.used_bytes, after.used_bytes);
    let wasted = |memory: sluice_keyspace::ChunkMemory| memory.touched_bytes - memory.used_bytes;
    assert!(wasted(after) * 5 < wasted(before) * 4, "{before:?} {after:?}");
    let moved = number(&mut rig, "stats", "active_defrag_hits");
    assert!((1000..=3000).contains(&moved), "{moved}");
    assert_eq!(number(&mut rig, "stats", "active_defrag_key_hits"), moved);
    assert_eq!(number(&mut rig, "stats", "active_defrag_misses"), 0);
    assert!(number(&mut rig, "stats", "total_active_defrag_time") >= 50);
    assert_eq!(number(&mut rig, "stats", "current_active_defrag_time"), 0);
    for i in (0..30_000).step_by(10) {
        rig.check(&format!("GET key:{i:06}"), &format!("\"{i:064}\""));
        let ttl = rig.run(&format!("TTL key:{i:06}"));
        assert_eq!(ttl == ":-1", i % 20 != 0, "{ttl}");
    }
    rig.check("CONFIG RESETSTAT", "+OK");
    assert_eq!(number(&mut rig, "stats", "active_defrag_hits"), 0);
}

#[test]
fn activedefrag_raises_the_share_of_time() {
    let mut rig = Rig::with(&SHORT_STEPS);
    sparse(&mut rig);
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(number(&mut rig, "memory", "active_defrag_running"), 80);
}

#[test]
fn without_activedefrag_it_is_compacted_too() {
    let mut rig = Rig::new();
    sparse(&mut rig);
    let before = rig.engine.keyspace().chunk_memory().touched_bytes;
    // The clock of the rig advances a microsecond with each reading, so a step makes some two thousand moves.
    for _ in 0..40 {
        rig.pass_ms(200);
        rig.cron();
    }
    assert_eq!(number(&mut rig, "memory", "active_defrag_running"), 0);
    assert!(number(&mut rig, "stats", "active_defrag_hits") > 1000);
    assert!(rig.engine.keyspace().chunk_memory().touched_bytes < before);
}

#[test]
fn random_traffic_loses_nothing_while_entries_move() {
    let mut rig = Rig::with(&SHORT_STEPS);
    let mut rng = sluice_base::Rng::new(21);
    let mut oracle: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for round in 0..120_000u64 {
        let number = rng.below(24_000);
        // Some keys and some values are outside of their entry's block; some values are integers.
        let key = match number % 50 {
            0 => format!("{number}{}", "k".repeat(300)),
            _ => format!("key:{number}"),
        };
        let grows = (round / 30_000) % 2 == 0;
        if rng.below(10) < if grows { 9 } else { 2 } {
            let value = match number % 40 {
                1 => number.to_string(),
                2 => "l".repeat(2_000),
                _ => "v".repeat(64),
            };
            let expires = rng.below(3) == 0;
            let expiry = if expires { " EX 100000" } else { "" };
            rig.check(&format!("SET {key} {value}{expiry}"), "+OK");
            oracle.insert(key, (value, expires));
        } else {
            let gone = u8::from(oracle.remove(&key).is_some());
            rig.check(&format!("DEL {key}"), &format!(":{gone}"));
        }
        if round % 10 == 0 {
            rig.pass_ms(1);
            rig.cron();
        }
    }
    assert!(number(&mut rig, "stats", "active_defrag_hits") > 1_000);
    assert_eq!(number(&mut rig, "stats", "active_defrag_misses"), 0);
    rig.check("DBSIZE", &format!(":{}", oracle.len()));
    let expiring = oracle.values().filter(|(_, expires)| *expires).count();
    assert_eq!(rig.engine.keyspace().db(0).expires_len(), expiring);
    rig.engine.keyspace().db(0).check();
    for (key, (value, expires)) in &oracle {
        rig.check(&format!("GET {key}"), &format!("\"{value}\""));
        assert_eq!(rig.run(&format!("TTL {key}")) != ":-1", *expires);
    }
}

/// The leaves of a removed range are freed even if no client writes to the set any more.
#[test]
fn what_a_removed_range_held_comes_back_between_units() {
    let mut rig = Rig::new();
    for i in 0..20_000 {
        rig.run(&format!("ZADD z {i} member:{i:06}"));
    }
    let usage = |rig: &mut Rig| {
        let text = rig.run("MEMORY USAGE z");
        text.trim_start_matches(':').parse::<u64>().expect("a number")
    };
    let full = usage(&mut rig);
    rig.check("ZREMRANGEBYRANK z 1000 16999", ":16000");
    rig.check("ZCARD z", ":4000");
    assert!(usage(&mut rig) * 2 > full, "the leaves are cleared later");
    for _ in 0..1000 {
        rig.pass_ms(50);
        rig.cron();
    }
    assert!(usage(&mut rig) * 2 < full, "{} of {full}", usage(&mut rig));
    rig.check("ZRANGE z 999 1001", r#"["member:000999", "member:017000", "member:017001"]"#);
    rig.check("ZSCORE z member:005000", "nil");
}

//! Behaviour of MEMORY.

use sluice_testkit::{Rig, check};

#[test]
fn usage_grows_with_the_value_and_is_null_for_what_is_absent() {
    let mut rig = Rig::new();
    rig.run("SET short v");
    rig.run(&format!("SET long {}", "x".repeat(500)));
    let size = |rig: &mut Rig, key: &str| {
        rig.run(&format!("MEMORY USAGE {key}")).trim_start_matches(':').parse::<u64>().unwrap_or(0)
    };
    assert!((8..100).contains(&size(&mut rig, "short")));
    assert!((500..700).contains(&size(&mut rig, "long")));
    rig.check("MEMORY USAGE nosuch", "nil");
}

#[test]
fn usage_takes_samples() {
    check(&[
        ("MEMORY USAGE a SAMPLES 0", "nil"),
        ("MEMORY USAGE a SAMPLES 5 samples 6", "nil"),
        ("MEMORY USAGE a SAMPLES", "-ERR syntax error"),
        ("MEMORY USAGE a SAMPLES -1", "-ERR syntax error"),
        ("MEMORY USAGE a SAMPLES x", "-ERR value is not an integer or out of range"),
        ("MEMORY USAGE a SAMPELS 5", "-ERR syntax error"),
        ("MEMORY USAGE a SAMPLES 5 6", "-ERR syntax error"),
        ("MEMORY USAGE", "-ERR wrong number of arguments for 'memory|usage' command"),
        ("MEMORY FOO", "-ERR unknown subcommand 'FOO'. Try MEMORY HELP."),
    ]);
}

#[test]
fn stats_has_as_many_pairs_as_it_says() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("HELLO 3");
    let text = rig.run("MEMORY STATS");
    assert!(text.starts_with("{\"peak.allocated\": :"), "{text}");
    for name in
        ["\"keys.count\": :1", "\"db.0\": {\"overhead.hashtable.main\": :", "\"fragmentation.bytes\": :"]
    {
        assert!(text.contains(name), "{name} in {text}");
    }
    // The map's length must cover exactly its elements, or the client would read a later reply as part of it.
    assert_eq!(text.lines().count(), 1);
    rig.check("ECHO x", "\"x\"");
}

#[test]
fn purge_and_malloc_stats_ask_the_process() {
    check(&[("MEMORY PURGE", "+OK"), ("MEMORY MALLOC-STATS", "\"fake\"")]);
}

#[test]
fn doctor_says_something() {
    let mut rig = Rig::new();
    assert!(rig.run("MEMORY DOCTOR").contains("too little"));
    rig.process.facts.used_memory = 100 << 20;
    rig.process.facts.resident = 1000 << 20;
    assert!(rig.run("MEMORY DOCTOR").contains("Fragmentation"));
}

#[test]
fn help_lists_the_subcommands() {
    let text = Rig::new().run("MEMORY HELP");
    assert!(
        text.starts_with("[+MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{text}"
    );
}

#[test]
fn usage_counts_what_expired_and_is_still_there() {
    let mut rig = Rig::new();
    rig.run("DEBUG SET-ACTIVE-EXPIRE 0");
    rig.run("SET a 1 PX 10");
    rig.pass_ms(20);
    assert!(rig.run("MEMORY USAGE a").starts_with(':'));
    rig.check("DBSIZE", ":1");
    rig.check("GET a", "nil");
    rig.check("MEMORY USAGE a", "nil");
}

#[test]
fn a_database_without_room_refuses_what_could_need_some_and_nothing_else() {
    let mut rig = Rig::new();
    rig.run("MSET a 1 b 2");
    rig.engine.set_entry_space_max(0);
    let refused = "-OOM command not allowed when a database has nearly as many entries as one can hold";
    for line in [
        "SET c 3",
        "EXPIRE a 100",
        "COPY a c DB 1",
        "RENAME a c",
        "MOVE a 1",
        "GETEX a EX 5",
        "DEBUG POPULATE 5",
    ] {
        rig.check(line, refused);
    }
    rig.check("GET a", "\"1\"");
    rig.check("DBSIZE", ":2");
    rig.check("SELECT 1", "+OK");
    rig.check("SET c 3", refused);
    rig.check("SELECT 0", "+OK");
    rig.check("GETDEL a", "\"1\"");
    rig.check("DEL b", ":1");
    rig.check("SET c 3", "+OK");
    rig.check("SET d 4", refused);
    rig.check("FLUSHALL", "+OK");
    rig.check("SET d 4", "+OK");
}

#[test]
fn a_database_that_another_one_fills_is_noticed_by_the_cron() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.check("MOVE a 1", ":1");
    rig.engine.set_entry_space_max(0);
    rig.check("SET b 1", "+OK");
    rig.run("DEL b");
    rig.pass_ms(1000);
    rig.cron();
    assert!(rig.run("SET b 1").starts_with("-OOM "));
}

//! Behaviour of DEBUG.

use sluice_control::action::{Action, Crash};
use sluice_engine::DeclaredKeysCheck;
use sluice_testkit::{Rig, check};

/// The check of declared keys ends the process if a command accesses a key that it does not declare. The
/// weights of SORT are exempt, but not in this test, which shows that the check works.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "sort met a key that it does not declare: \"w_a\" in database 0")]
fn a_command_that_meets_a_key_that_it_does_not_declare_ends_the_process() {
    let mut rig = Rig::new();
    rig.run("RPUSH l a");
    rig.check("SORT l BY w_*", "[\"a\"]");
    rig.engine.check_keys(DeclaredKeysCheck::WithoutExemptions);
    rig.run("SORT l BY w_*");
}

#[test]
fn digest_value_is_the_references() {
    check(&[
        ("SET foo bar", "+OK"),
        ("SET bar 1 EX 100", "+OK"),
        (
            "DEBUG DIGEST-VALUE foo bar nosuch",
            "[+68467c70ae30376e7ce005bcc8827f5ba7fd67dc, +5279988c5d1911f474bcbbf2f0a87012d40f8459, \
             +0000000000000000000000000000000000000000]",
        ),
        ("DEBUG DIGEST-VALUE", "[]"),
    ]);
}

#[test]
fn digest_is_the_references() {
    check(&[
        ("DEBUG DIGEST", "+0000000000000000000000000000000000000000"),
        ("SET foo bar", "+OK"),
        ("SET bar 1 EX 100", "+OK"),
        ("DEBUG POPULATE 3", "+OK"),
        ("SELECT 9", "+OK"),
        ("SET x y", "+OK"),
        ("DEBUG DIGEST", "+975cf570bac5b4a627b2d39e3a8de68c7853f614"),
    ]);
}

#[test]
fn populate_makes_keys_and_keeps_those_that_are_there() {
    check(&[
        ("SET key:1 mine", "+OK"),
        ("DEBUG POPULATE 3", "+OK"),
        ("DBSIZE", ":3"),
        ("GET key:0", "\"value:0\""),
        ("GET key:1", "\"mine\""),
        ("DEBUG POPULATE 1 p 3", "+OK"),
        ("GET p:0", "\"val\""),
        ("DEBUG POPULATE 1 q 10", "+OK"),
        ("GET q:0", "\"value:0\\x00\\x00\\x00\""),
        ("DEBUG POPULATE 1 r 0", "+OK"),
        ("GET r:0", "\"value:0\""),
        ("DEBUG POPULATE -1", "-ERR value is out of range, must be positive"),
        ("DEBUG POPULATE a", "-ERR value is out of range, must be positive"),
        ("DEBUG POPULATE 1 p a", "-ERR value is out of range, must be positive"),
    ]);
}

#[test]
fn unknown_subcommands_and_wrong_counts_have_one_error() {
    let error = |name: &str| {
        format!("-ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.")
    };
    let mut rig = Rig::new();
    for line in
        ["foo", "sleep", "sleep 1 2", "populate", "log", "error", "htstats", "replybuffer foo 1", "digest x"]
    {
        let name = line.split(' ').next().unwrap_or_default();
        assert_eq!(rig.run(&format!("DEBUG {line}")), error(name));
    }
    rig.check("DEBUG", "-ERR wrong number of arguments for 'debug' command");
}

#[test]
fn protocol_shows_each_type() {
    check(&[
        ("DEBUG PROTOCOL string", "\"Hello World\""),
        ("DEBUG PROTOCOL double", "\"3.141\""),
        ("DEBUG PROTOCOL null", "nil"),
        ("DEBUG PROTOCOL map", "[:0, :0, :1, :1, :2, :0]"),
        ("DEBUG PROTOCOL attrib", "\"Some real reply following the attribute\""),
        ("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command"),
        ("DEBUG PROTOCOL verbatim", "\"This is a verbatim\\nstring\""),
        ("DEBUG PROTOCOL TRUE", ":1"),
    ]);
}

#[test]
fn htstats_shows_sizes_of_indexes_that_hold_something() {
    let mut rig = Rig::new();
    rig.check("DEBUG HTSTATS 0", "\"[Dictionary HT]\\n[Expires HT]\\n\"");
    rig.run("SET a 1");
    let text = rig.run("DEBUG HTSTATS 0 full");
    assert!(
        text.contains("[Dictionary HT]\\nHash table 0 stats (main hash table):\\n table size: "),
        "{text}"
    );
    assert!(
        text.contains("\\n number of entries: 1\\n rehashing index: -1\\n top-level buckets: 1\\n"),
        "{text}"
    );
    assert!(text.ends_with("[Expires HT]\\n\""), "{text}");
    rig.check("DEBUG HTSTATS a", "-ERR value is not an integer or out of range");
    rig.check("DEBUG HTSTATS 99", "-ERR Out of range database");
}

#[test]
fn object_describes_a_value() {
    let mut rig = Rig::new();
    rig.run("SET foo bar");
    rig.run("SET n 1");
    let text = rig.run("DEBUG OBJECT foo");
    assert!(text.starts_with("+Value at:0x"), "{text}");
    assert!(text.contains(" refcount:1 encoding:embstr serializedlength:4 lru:"), "{text}");
    assert!(text.ends_with(" lru_seconds_idle:0"), "{text}");
    assert!(rig.run("DEBUG OBJECT n").contains(" encoding:int serializedlength:2 "));
    assert!(!rig.run("DEBUG OBJECT n fast").contains("serializedlength"));
    rig.check("DEBUG OBJECT nosuch", "-ERR no such key");
    rig.pass_ms(5000);
    assert!(rig.run("DEBUG OBJECT n").ends_with("lru_seconds_idle:5"));
}

#[test]
fn switches_are_taken_and_anything_else_is_off() {
    let mut rig = Rig::new();
    for line in [
        "SET-ACTIVE-EXPIRE 0",
        "SET-ACTIVE-EXPIRE a",
        "DICT-RESIZING 1",
        "PAUSE-CRON 1",
        "CLIENT-ENFORCE-REPLY-LIST 0",
    ] {
        rig.check(&format!("DEBUG {line}"), "+OK");
    }
    for line in ["PEAK-RESET-TIME 100", "PEAK-RESET-TIME reset", "PEAK-RESET-TIME never", "RESIZING 1"] {
        rig.check(&format!("DEBUG REPLYBUFFER {line}"), "+OK");
    }
}

#[test]
fn the_packed_threshold_outlives_changes_of_the_configuration() {
    const BAD: &str = "-ERR argument must be a memory value bigger than 1 and smaller than 4gb";
    let mut rig = Rig::new();
    for (bytes, reply) in
        [("0", "+OK"), ("3gb", "+OK"), ("4293918721", BAD), ("-1", BAD), ("x", BAD), ("10b", "+OK")]
    {
        rig.check(&format!("DEBUG QUICKLIST-PACKED-THRESHOLD {bytes}"), reply);
    }
    rig.check("CONFIG SET list-max-listpack-size 3", "+OK");
    rig.check("RPUSH l a b c d", ":4");
    rig.check("LSET l -1 dddddddddd", "+OK");
    rig.check("LTRIM l -1 -1", "+OK");
    rig.check("OBJECT ENCODING l", "\"quicklist\"");
    rig.check("LSET l 0 ddddddddd", "+OK");
    rig.check("OBJECT ENCODING l", "\"listpack\"");
    rig.check("LRANGE l 0 -1", "[\"ddddddddd\"]");
}

#[test]
fn active_expire_can_be_turned_off() {
    let mut rig = Rig::new();
    rig.run("SET k v PX 10");
    rig.run("DEBUG SET-ACTIVE-EXPIRE 0");
    rig.pass_ms(1000);
    rig.cron();
    rig.check("DBSIZE", ":1");
    rig.run("DEBUG SET-ACTIVE-EXPIRE 1");
    rig.pass_ms(1000);
    rig.cron();
    rig.check("DBSIZE", ":0");
}

#[test]
fn sleep_stops_the_clock_of_others() {
    let mut rig = Rig::new();
    let before = rig.process.now.unix_us;
    rig.check("DEBUG SLEEP 0.5", "+OK");
    assert!(rig.process.now.unix_us - before >= 500_000);
    rig.check("DEBUG SLEEP a", "+OK");
    rig.check("DEBUG SLEEP -1", "+OK");
}

#[test]
fn log_and_error_say_what_they_are_told() {
    let mut rig = Rig::new();
    rig.check("DEBUG LOG hello", "+OK");
    assert!(rig.process.log.iter().any(|(_, line)| line == "DEBUG LOG: hello"));
    rig.check("DEBUG ERROR \"BAD thing\"", "-BAD thing");
    assert!(!rig.run("INFO errorstats").contains("errorstat_BAD"));
    assert!(rig.run("INFO commandstats").contains(",failed_calls=0"));
}

#[test]
fn crashes_are_wishes() {
    for (name, how) in [("SEGFAULT", Crash::Segfault), ("PANIC", Crash::Panic), ("ASSERT", Crash::Assert)] {
        let mut rig = Rig::new();
        rig.check(&format!("DEBUG {name}"), "");
        assert!(matches!(rig.actions.as_slice(), [Action::Crash(got)] if *got == how));
    }
}

#[test]
fn change_repl_id_begins_another_history() {
    let mut rig = Rig::new();
    rig.check("DEBUG CHANGE-REPL-ID", "+OK");
}

#[test]
fn the_command_is_guarded() {
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run \
                   it from a local connection, otherwise you need to set this option in the configuration file, and \
                   then restart the server.";
    Rig::with(&[("enable-debug-command", "no")]).check("DEBUG SLEEP 0", refused);
    Rig::with(&[("enable-debug-command", "local")]).check("DEBUG SLEEP 0", "+OK");
}

#[test]
fn help_lists_the_subcommands() {
    let text = Rig::new().run("DEBUG HELP");
    assert!(text.starts_with("[+DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "), "{text}");
    assert!(text.contains("+OBJECT <key> [fast], "), "{text}");
}

//! HOTKEYS: which accesses count, which window is shown, and what clears the counts.

use sluice_testkit::{Rig, check};

const ON: [(&str, &str); 2] = [("hotkeys-top-k", "16"), ("hotkeys-sampling-percentage", "100")];

/// Reply of HOTKEYS GET once the window is over.
fn shown(rig: &mut Rig) -> String {
    rig.pass_ms(1000);
    listed(rig)
}

/// Reply of HOTKEYS GET, as `db:key=qps`.
fn listed(rig: &mut Rig) -> String {
    let reply = rig.run("HOTKEYS GET");
    let words: Vec<&str> = reply.split(['[', ']', ',', ' ', '"']).filter(|word| !word.is_empty()).collect();
    let entries = words.as_chunks::<6>().0.iter();
    let entries = entries.map(|[_, key, _, db, _, qps]| format!("{}:{key}={}", &db[1..], &qps[1..]));
    entries.collect::<Vec<_>>().join(" ")
}

#[test]
fn nothing_is_shown_while_detection_is_off() {
    let mut rig = Rig::new();
    rig.check(
        "CONFIG GET hotkeys-*",
        r#"["hotkeys-sampling-percentage", "1", "hotkeys-top-k", "0", "hotkeys-window-seconds", "1"]"#,
    );
    rig.check("SET k v", "+OK");
    assert_eq!(shown(&mut rig), "");
    rig.check("HOTKEYS RESET", "+OK");
    rig.check("HOTKEYS GET", "[]");
}

#[test]
fn words_and_settings_are_looked_at() {
    check(&[
        ("HOTKEYS", "-ERR wrong number of arguments for 'hotkeys' command"),
        ("HOTKEYS GET 5", "-ERR wrong number of arguments for 'hotkeys|get' command"),
        ("HOTKEYS RESET x", "-ERR wrong number of arguments for 'hotkeys|reset' command"),
        ("HOTKEYS START", "-ERR unknown subcommand 'START'. Try HOTKEYS HELP."),
        ("CONFIG SET hotkeys-top-k 1000 hotkeys-sampling-percentage 1 hotkeys-window-seconds 300", "+OK"),
    ]);
    for line in [
        "hotkeys-top-k 1001",
        "hotkeys-top-k -1",
        "hotkeys-sampling-percentage 0",
        "hotkeys-sampling-percentage 101",
        "hotkeys-window-seconds 0",
        "hotkeys-window-seconds 301",
    ] {
        let reply = Rig::new().run(&format!("CONFIG SET {line}"));
        assert!(reply.starts_with("-ERR CONFIG SET failed"), "{line}: {reply}");
    }
}

#[test]
fn entries_have_a_key_a_database_and_a_rate() {
    let mut rig = Rig::with(&ON);
    rig.check("HOTKEYS GET", "[]");
    (0..7).for_each(|_| drop(rig.run("GET k")));
    rig.run("SET other 1");
    rig.pass_ms(1000);
    let wanted = r#"[["key", "k", "db", :0, "qps", :7], ["key", "other", "db", :0, "qps", :1]]"#;
    rig.check("HOTKEYS GET", wanted);
    assert!(
        rig.run("INFO hotkeys")
            .contains("hotkeys_last_window_samples:8\\r\\nhotkeys_last_window_duration_ms:1000")
    );
    assert!(!rig.run("INFO").contains("hotkeys"));
    assert!(rig.run("INFO all").contains("# Hotkeys"));
    rig.run("HELLO 3");
    let wanted = r#"[{"key": "k", "db": :0, "qps": :7}, {"key": "other", "db": :0, "qps": :1}]"#;
    rig.check("HOTKEYS GET", wanted);
    rig.check("HOTKEYS RESET", "+OK");
    rig.check("HOTKEYS GET", "[]");
    assert!(rig.run("INFO hotkeys").contains("hotkeys_last_window_duration_ms:0"));
}

#[test]
fn each_key_that_a_command_accesses_counts() {
    let rows = [
        ("SET k v", "0:k=1"),
        ("SET k v NX GET", "0:k=1"),
        ("GET missing", "0:missing=1"),
        ("EXISTS k | TYPE k | TTL k", "0:k=3"),
        ("MGET a b a", "0:a=2 0:b=1"),
        ("MSET a 1 b 2", "0:a=1 0:b=1"),
        ("DEL a b | UNLINK a", "0:a=2 0:b=1"),
        ("SELECT 5 | GET k", "5:k=1"),
        ("ZUNIONSTORE d 2 x y", "0:d=1 0:x=1 0:y=1"),
        ("LPUSH l a | BLPOP l 0", "0:l=2"),
        ("SET s v | LPUSH s a", "0:s=2"),
        ("CLIENT NO-TOUCH ON | GET k", "0:k=1"),
        ("MULTI | GET k | GET k | EXEC", "0:k=2"),
        ("MULTI | GET k | EXEC NX k", "0:k=2"),
        ("EVAL \"return server.call('GET', KEYS[1])\" 1 k", "0:k=1"),
        ("OBJECT ENCODING k | MEMORY USAGE k | WATCH k | DEBUG OBJECT k", ""),
        ("PING | DBSIZE | KEYS * | COMMAND GETKEYS GET k", ""),
    ];
    for (script, wanted) in rows {
        let mut rig = Rig::with(&ON);
        script.split(" | ").for_each(|line| drop(rig.run(line)));
        assert_eq!(shown(&mut rig), wanted, "{script}");
    }
}

#[test]
fn the_hottest_are_shown_and_cold_ones_go() {
    let mut rig = Rig::with(&[("hotkeys-top-k", "2"), ON[1]]);
    for (key, times) in [("cold", 1), ("warm", 5), ("hot", 10), ("warm", 1)] {
        (0..times).for_each(|_| drop(rig.run(&format!("GET {key}"))));
    }
    assert_eq!(shown(&mut rig), "0:hot=10 0:warm=6");
    assert_eq!(shown(&mut rig), "");
}

#[test]
fn a_part_of_the_accesses_is_drawn_and_the_others_are_added() {
    let mut rig = Rig::with(&[("hotkeys-top-k", "2"), ("hotkeys-sampling-percentage", "20")]);
    rig.run("HOTKEYS RESET");
    (0..5000).for_each(|_| drop(rig.run("GET k")));
    let shown = shown(&mut rig);
    let rate: u64 = shown.strip_prefix("0:k=").and_then(|rate| rate.parse().ok()).expect(&shown);
    assert!((4300..=5700).contains(&rate), "{rate}");
}

#[test]
fn settings_and_emptied_databases_forget() {
    const BOTH: &str = "0:k=2 1:k=1";
    // Each row has commands, and what HOTKEYS then shows if the commands come within the window of the
    // accesses, and if they come after that window.
    let rows = [
        ("FLUSHALL", "", ""),
        ("FLUSHALL FOO", BOTH, BOTH),
        ("FLUSHDB", "1:k=1", "1:k=1"),
        ("MULTI | FLUSHDB | EXEC", "1:k=1", "1:k=1"),
        ("SWAPDB 0 1", BOTH, BOTH),
        ("CONFIG SET hotkeys-window-seconds 2", "", BOTH),
        ("CONFIG SET hotkeys-sampling-percentage 50", "", BOTH),
        ("CONFIG SET hotkeys-top-k 1", "", "0:k=2"),
        ("CONFIG SET hotkeys-top-k 0", "", ""),
        ("CONFIG SET hotkeys-top-k 0 | CONFIG SET hotkeys-top-k 16", "", ""),
        ("CONFIG SET maxmemory-samples 6", BOTH, BOTH),
    ];
    for (script, of_open, of_over) in rows {
        for (is_over, wanted) in [(false, of_open), (true, of_over)] {
            let mut rig = Rig::with(&ON);
            ["SELECT 1", "GET k", "SELECT 0", "GET k", "GET k"].iter().for_each(|line| drop(rig.run(line)));
            if is_over {
                shown(&mut rig);
            }
            script.split(" | ").for_each(|line| drop(rig.run(line)));
            let found = if is_over { listed(&mut rig) } else { shown(&mut rig) };
            assert_eq!(found, wanted, "{script}, {is_over}");
        }
    }
}

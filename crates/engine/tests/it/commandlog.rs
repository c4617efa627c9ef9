//! Behaviour of COMMANDLOG and SLOWLOG.

use sluice_testkit::{Rig, check};

/// A rig that logs every command as slow.
fn logging() -> Rig {
    Rig::with(&[("commandlog-execution-slower-than", "0")])
}

#[test]
fn a_slow_command_is_logged_with_its_client() {
    let mut rig = Rig::new();
    rig.run("CLIENT SETNAME me");
    rig.check("SLOWLOG LEN", ":0");
    rig.run("DEBUG SLEEP 0.2");
    rig.check("SLOWLOG LEN", ":1");
    let text = rig.run("SLOWLOG GET");
    assert!(text.starts_with("[[:0, :1700000000, :20"), "{text}");
    assert!(text.ends_with(", [\"DEBUG\", \"SLEEP\", \"0.2\"], \"127.0.0.1:5001\", \"me\"]]"), "{text}");
    assert_eq!(rig.run("COMMANDLOG GET -1 slow"), text);
}

#[test]
fn the_name_of_a_client_is_cut_as_an_argument_is() {
    let mut rig = logging();
    let client = rig.connect();
    let name = vec![b'n'; 1 << 20];
    rig.argv(client, &[b"CLIENT", b"SETNAME", &name]);
    (0..100).for_each(|_| drop(rig.run_as(client, "PING")));
    let text = rig.run("SLOWLOG GET 1");
    let shown = format!("\"{}... ({} more bytes)\"]]", "n".repeat(128), (1 << 20) - 128);
    assert!(text.ends_with(&shown), "{}", text.len());
}

#[test]
fn get_shows_the_newest_entries_first() {
    let mut rig = logging();
    (0..12).for_each(|n| drop(rig.run(&format!("GET {n}"))));
    assert_eq!(rig.run("SLOWLOG GET").matches("\"GET\"").count(), 10);
    assert!(rig.run("SLOWLOG GET 2").starts_with("[[:12, "));
    rig.check("SLOWLOG GET 0", "[]");
    assert_eq!(rig.run("SLOWLOG GET -1").matches("\"GET\"").count(), 15);
}

#[test]
fn the_log_keeps_so_many_entries() {
    let mut rig = logging();
    rig.run("CONFIG SET slowlog-max-len 3");
    (0..10).for_each(|n| drop(rig.run(&format!("GET {n}"))));
    rig.check("SLOWLOG LEN", ":3");
    rig.run("CONFIG SET slowlog-max-len 0");
    rig.run("SLOWLOG RESET");
    rig.run("GET a");
    rig.check("SLOWLOG LEN", ":0");
}

/// Each list with a bound keeps this bound while it fills, and is within a lower bound as soon as the command
/// that sets the bound is answered. ACL LOG is not among these lists: a lower bound applies from the next
/// refusal on, as in the reference, so that an operator who turns the log off can still read it.
#[test]
fn a_list_with_a_bound_is_within_it_at_once() {
    type Fill = fn(&mut Rig, usize);
    let logged: Fill = |rig, n| drop(rig.run(&format!("SET key:{n} value")));
    let lists = [
        ("slowlog-max-len", "SLOWLOG LEN", logged),
        ("commandlog-slow-execution-max-len", "COMMANDLOG LEN slow", logged),
        ("commandlog-large-request-max-len", "COMMANDLOG LEN large-request", logged),
        ("commandlog-large-reply-max-len", "COMMANDLOG LEN large-reply", logged),
    ];
    for (directive, count, fill) in lists {
        let mut rig = logging();
        rig.run("CONFIG SET commandlog-request-larger-than 0 commandlog-reply-larger-than 0");
        let entries = |rig: &mut Rig| -> usize { rig.run(count).trim_start_matches(':').parse().unwrap() };
        rig.run(&format!("CONFIG SET {directive} 20"));
        (0..50).for_each(|n| fill(&mut rig, n));
        assert_eq!(entries(&mut rig), 20, "{directive}");
        for lower in [3, 0] {
            // Logging is off, so that no new entry makes room.
            rig.run(&format!(
                "CONFIG SET commandlog-execution-slower-than -1 commandlog-request-larger-than -1 \
                 commandlog-reply-larger-than -1 {directive} {lower}"
            ));
            assert_eq!(entries(&mut rig), lower, "{directive}");
        }
    }
}

#[test]
fn the_log_of_refusals_keeps_its_entries_until_the_next_one() {
    let mut rig = Rig::new();
    let entries = |rig: &mut Rig| rig.run("ACL LOG 100").matches("\"entry-id\"").count();
    (0..5).for_each(|n| drop(rig.run(&format!("AUTH nobody:{n} password"))));
    rig.check("CONFIG SET acllog-max-len 2", "+OK");
    assert_eq!(entries(&mut rig), 5);
    rig.run("AUTH nobody:5 password");
    assert_eq!(entries(&mut rig), 2);
    rig.check("CONFIG SET acllog-max-len 0", "+OK");
    assert_eq!(entries(&mut rig), 2);
    rig.run("AUTH nobody:6 password");
    assert_eq!(entries(&mut rig), 0);
}

#[test]
fn nothing_is_slow_below_a_negative_threshold() {
    let mut rig = logging();
    rig.run("CONFIG SET commandlog-execution-slower-than -1");
    rig.run("SLOWLOG RESET");
    rig.run("DEBUG SLEEP 1");
    rig.check("SLOWLOG LEN", ":0");
}

#[test]
fn ids_go_on_after_a_reset() {
    let mut rig = logging();
    rig.run("GET a");
    rig.check("SLOWLOG RESET", "+OK");
    let text = rig.run("SLOWLOG GET");
    assert!(text.starts_with("[[:1, "), "{text}");
}

#[test]
fn large_requests_and_replies_have_logs_of_their_own() {
    let mut rig =
        Rig::with(&[("commandlog-request-larger-than", "1000"), ("commandlog-reply-larger-than", "1000")]);
    let large = "x".repeat(2000);
    rig.run(&format!("SET a {large}"));
    rig.run("GET a");
    for (kind, word) in [("large-request", "SET"), ("large-reply", "GET")] {
        rig.check(&format!("COMMANDLOG LEN {kind}"), ":1");
        let text = rig.run(&format!("COMMANDLOG GET -1 {kind}"));
        assert!(text.contains(&format!("[\"{word}\", \"a\"")), "{text}");
    }
    rig.check("COMMANDLOG LEN slow", ":0");
    rig.check("COMMANDLOG RESET LARGE-REPLY", "+OK");
    rig.check("COMMANDLOG LEN large-reply", ":0");
    rig.check("COMMANDLOG LEN large-request", ":1");
}

#[test]
fn long_arguments_and_long_lists_are_cut() {
    let mut rig = logging();
    rig.run(&format!("GET {}", "A".repeat(129)));
    let text = rig.run("SLOWLOG GET 1");
    assert!(text.contains(&format!("\"{}... (1 more bytes)\"", "A".repeat(128))), "{text}");
    let many = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    rig.run(&format!("MGET {many}"));
    let text = rig.run("SLOWLOG GET 1");
    assert!(text.contains("\"29\", \"... (10 more arguments)\"]"), "{text}");
}

#[test]
fn secrets_are_not_logged() {
    let mut rig = logging();
    rig.run("CONFIG SET primaryauth hidden");
    let text = rig.run("SLOWLOG GET 1");
    assert!(text.contains("[\"CONFIG\", \"SET\", \"primaryauth\", \"(redacted)\"]"), "{text}");
    for (line, logged) in [
        ("CONFIG SET hz 10 PrimaryAuth a maxclients 9", "hz, 10, PrimaryAuth, (redacted), maxclients, 9"),
        // The password was sent without quotes, so it has several words.
        ("CONFIG SET hz 10 requirepass my secret", "hz, 10, requirepass, (redacted), (redacted)"),
        ("CONFIG SET requirepass my secret words", "requirepass, (redacted), (redacted), (redacted)"),
    ] {
        rig.run(line);
        let text = rig.run("SLOWLOG GET 1").replace('"', "");
        assert!(text.contains(&format!("[CONFIG, SET, {logged}]")), "{line}: {text}");
    }
}

#[test]
fn arguments_are_checked() {
    let kind = "-ERR type should be one of the following: slow, large-request, large-reply";
    let count = "-ERR count should be greater than or equal to -1";
    check(&[
        ("COMMANDLOG GET 10", "-ERR wrong number of arguments for 'commandlog|get' command"),
        ("COMMANDLOG GET 10 foo", kind),
        ("COMMANDLOG GET a foo", count),
        ("COMMANDLOG GET a slow", count),
        ("COMMANDLOG GET -2 slow", count),
        ("COMMANDLOG LEN foo", kind),
        ("COMMANDLOG RESET foo", kind),
        ("COMMANDLOG FOO", "-ERR unknown subcommand 'FOO'. Try COMMANDLOG HELP."),
        ("SLOWLOG GET a", count),
        ("SLOWLOG GET -2", count),
        (
            "SLOWLOG GET 1 2",
            "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
        ),
        ("SLOWLOG FOO", "-ERR unknown subcommand 'FOO'. Try SLOWLOG HELP."),
    ]);
}

#[test]
fn help_lists_the_subcommands() {
    for name in ["COMMANDLOG", "SLOWLOG"] {
        let text = Rig::new().run(&format!("{name} HELP"));
        let head = format!("[+{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, ");
        assert!(text.starts_with(&head), "{text}");
    }
}

#[test]
fn get_reads_its_count_before_its_type() {
    check(&[
        ("COMMANDLOG GET slow 5", "-ERR count should be greater than or equal to -1"),
        ("COMMANDLOG GET x y", "-ERR count should be greater than or equal to -1"),
        ("COMMANDLOG GET 5 y", "-ERR type should be one of the following: slow, large-request, large-reply"),
    ]);
}

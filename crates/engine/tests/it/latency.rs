//! Behaviour of LATENCY.

use sluice_testkit::{Rig, check};

/// A rig with two spikes of the event `command`, of 10 and 30 ms, a second apart.
fn spiked() -> Rig {
    let mut rig = Rig::with(&[("latency-monitor-threshold", "5")]);
    rig.run("DEBUG SLEEP 0.01");
    rig.pass_ms(1000);
    rig.run("DEBUG SLEEP 0.03");
    rig
}

#[test]
fn without_a_threshold_nothing_is_kept() {
    check(&[
        ("DEBUG SLEEP 1", "+OK"),
        ("LATENCY LATEST", "[]"),
        ("LATENCY HISTORY command", "[]"),
        ("LATENCY GRAPH command", "-ERR No samples available for event 'command'"),
        ("LATENCY RESET", ":0"),
        ("LATENCY FOO", "-ERR unknown subcommand 'FOO'. Try LATENCY HELP."),
    ]);
}

#[test]
fn spikes_below_the_commandlogs_threshold_are_kept_too() {
    let mut rig = Rig::with(&[("latency-monitor-threshold", "2"), ("slowlog-log-slower-than", "-1")]);
    rig.run("DEBUG SLEEP 0.003");
    assert!(rig.run("LATENCY LATEST").contains("\"command\""));
}

#[test]
fn latest_shows_the_newest_the_largest_and_sums() {
    spiked().check("LATENCY LATEST", "[[\"command\", :1700000001, :30, :30, :40, :2]]");
}

#[test]
fn history_shows_every_sample() {
    spiked().check("LATENCY HISTORY command", "[[:1700000000, :10], [:1700000001, :30]]");
}

#[test]
fn graph_draws_the_samples() {
    let text = spiked().run("LATENCY GRAPH command");
    assert!(text.starts_with("\"command - high 30 ms, low 10 ms (all time high 30 ms)\\n-----"), "{text}");
    assert!(text.ends_with("-\\n #\\n |\\n |\\n_|\\n  \\n10\\nss\\n\""), "{text}");
}

#[test]
fn doctor_counts_spikes_and_gives_advice() {
    let text = spiked().run("LATENCY DOCTOR");
    assert!(text.contains("1. command: 2 latency spikes (average 20ms, mean deviation 10ms,"), "{text}");
    assert!(text.contains("- SLOWLOG GET "), "{text}");
    assert!(Rig::new().run("LATENCY DOCTOR").contains("latency-monitor-threshold"));
}

#[test]
fn reset_forgets_the_events_named_or_all() {
    let mut rig = spiked();
    rig.check("LATENCY RESET nosuch", ":0");
    rig.check("LATENCY RESET command nosuch", ":1");
    rig.check("LATENCY LATEST", "[]");
    rig.run("DEBUG SLEEP 0.01");
    rig.check("LATENCY RESET", ":1");
}

#[test]
fn histogram_counts_calls_by_duration() {
    let mut rig = Rig::new();
    (0..3).for_each(|n| drop(rig.run(&format!("SET {n} v"))));
    rig.run("CONFIG GET port");
    rig.run("CONFIG GET port");
    let set = "\"set\", [\"calls\", :3, \"histogram_usec\", [:1, :3]]";
    let get = "\"config|get\", [\"calls\", :2, \"histogram_usec\", [:1, :2]]";
    rig.check("LATENCY HISTOGRAM set nosuch SET", &format!("[{set}]"));
    rig.check("LATENCY HISTOGRAM config set", &format!("[{get}, {set}]"));
    rig.check("LATENCY HISTOGRAM nosuch", "[]");
    assert!(rig.run("LATENCY HISTOGRAM").contains("\"latency|histogram\""));
}

#[test]
fn histogram_is_a_map_in_resp3() {
    let mut rig = Rig::new();
    rig.run("SET a v");
    rig.run("HELLO 3");
    rig.check("LATENCY HISTOGRAM set", "{\"set\": {\"calls\": :1, \"histogram_usec\": {:1: :1}}}");
}

#[test]
fn help_lists_the_subcommands() {
    let text = Rig::new().run("LATENCY HELP");
    assert!(
        text.starts_with("[+LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{text}"
    );
}

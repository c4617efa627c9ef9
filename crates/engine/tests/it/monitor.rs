//! Behaviour of MONITOR.

use sluice_base::SessionKey;
use sluice_testkit::{Rig, render};

fn watched() -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let monitor = rig.connect();
    assert_eq!(rig.run_as(monitor, "MONITOR"), "+OK");
    (rig, monitor)
}

/// Lines that the monitor got, without times and addresses.
fn shown(rig: &mut Rig, monitor: SessionKey) -> String {
    let lines = render(&rig.output(monitor));
    let tails: Vec<&str> =
        lines.lines().map(|line| line.split_once("] ").map_or(line, |(_, tail)| tail)).collect();
    tails.join("\n")
}

#[test]
fn monitor_shows_time_database_address_and_arguments() {
    let (mut rig, monitor) = watched();
    rig.run("SELECT 3");
    rig.output(monitor);
    rig.run("ECHO \"a\\\"\\\\\\n\\xff\"");
    let line = String::from_utf8(rig.output(monitor)).unwrap();
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.starts_with("+1700000000.0") && time.len() == "+1700000000.000000".len(), "{time}");
    assert_eq!(rest, "[3 127.0.0.1:5001] \"ECHO\" \"a\\\"\\\\\\n\\xff\"\r\n");
}

#[test]
fn monitor_shows_a_database_after_it_was_chosen_and_no_unknown_or_administrative_command() {
    let (mut rig, monitor) = watched();
    for line in ["NOSUCH", "GET", "CONFIG GET port", "CLIENT LIST", "CLIENT KILL ID 99", "MONITOR", "RESET"] {
        rig.run(line);
    }
    assert_eq!(shown(&mut rig, monitor), "\"RESET\"");
    rig.run("SELECT 99");
    rig.run("CLIENT ID");
    assert_eq!(shown(&mut rig, monitor), "\"SELECT\" \"99\"\n\"CLIENT\" \"ID\"");
}

#[test]
fn monitor_hides_secrets() {
    let (mut rig, monitor) = watched();
    for (line, expected) in [
        ("AUTH secret", "\"AUTH\" \"(redacted)\""),
        ("AUTH me secret", "\"AUTH\" \"(redacted)\" \"(redacted)\""),
        ("AUTH a b c", "\"AUTH\" \"(redacted)\" \"(redacted)\" \"(redacted)\""),
        ("HELLO 2 AUTH me secret", "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\""),
        (
            "HELLO 2 SETNAME x auth me secret",
            "\"HELLO\" \"2\" \"SETNAME\" \"x\" \"auth\" \"(redacted)\" \"(redacted)\"",
        ),
        ("HELLO 2 AUTH me", "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\""),
        (
            "COMMAND GETKEYS MIGRATE h 1 k 0 5 AUTH2 a b",
            "\"COMMAND\" \"GETKEYS\" \"MIGRATE\" \"h\" \"1\" \"k\" \"0\" \"5\" \"AUTH2\" \"(redacted)\" \"(redacted)\"",
        ),
        ("COMMAND GETKEYS GET k", "\"COMMAND\" \"GETKEYS\" \"GET\" \"k\""),
    ] {
        rig.run(line);
        assert_eq!(shown(&mut rig, monitor), expected);
    }
}

#[test]
fn monitor_shows_its_own_commands_after_their_replies() {
    let (mut rig, monitor) = watched();
    let lines = rig.run_as(monitor, "PING");
    assert!(lines.starts_with("+PONG\n+17") && lines.ends_with("] \"PING\""), "{lines}");
    assert_eq!(rig.run_as(monitor, "MONITOR"), "", "a second stream is no reply");
    rig.check("PING", "+PONG");
}

#[test]
fn monitor_may_not_touch_keys() {
    let (mut rig, monitor) = watched();
    for line in ["GET k", "SET k v", "DBSIZE", "FLUSHALL"] {
        assert_eq!(rig.run_as(monitor, line), "-ERR Replica can't interact with the keyspace", "{line}");
    }
    assert_eq!(rig.run_as(monitor, "RESET"), "+RESET");
    assert_eq!(rig.run_as(monitor, "GET k"), "nil");
    rig.run("PING");
    assert_eq!(rig.output(monitor), b"");
}

#[test]
fn monitor_is_silent_while_replies_are_off() {
    let (mut rig, monitor) = watched();
    rig.run_as(monitor, "CLIENT REPLY OFF");
    rig.run("PING");
    assert_eq!(rig.output(monitor), b"");
    let lines = rig.run_as(monitor, "CLIENT REPLY ON");
    assert!(lines.starts_with("+OK\n+17"), "{lines}");
}

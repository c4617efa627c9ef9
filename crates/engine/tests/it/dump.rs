//! RESTORE: clients that wait for or watch the key, and the log. Payloads and replies
//! are in `crates/commands/tests/it/dump.rs`.

use sluice_testkit::{Rig, check, render};

#[test]
fn the_switch_about_checksums_outlives_changes_of_the_configuration() {
    let line = "RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xee:\" REPLACE";
    check(&[
        ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"),
        ("CONFIG SET maxclients 500", "+OK"),
        (line, "+OK"),
        ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0", "+OK"),
        (line, "-ERR DUMP payload version or checksum are wrong"),
    ]);
}

#[test]
fn a_restored_list_serves_who_waits_for_it() {
    let mut rig = Rig::new();
    let waiter = rig.connect();
    assert_eq!(rig.run_as(waiter, "BLPOP l 0"), "");
    rig.check("RESTORE l 0 \"\\x01\\x02\\x01a\\xc0\\x05P\\x00\\x88\\x89\\xbe\\x18n\\x9d\\xdcc\"", "+OK");
    assert_eq!(render(&rig.output(waiter)), "[\"l\", \"a\"]");
    rig.check("LRANGE l 0 -1", "[\"5\"]");
}

#[test]
fn a_restored_key_fails_a_transaction_that_watches_it() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.run("WATCH k");
    assert_eq!(rig.run_as(other, "RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\""), "+OK");
    rig.run("MULTI");
    rig.run("PING");
    rig.check("EXEC", "nil-array");
}

/// The log gets the kind and the place of a defect in a payload, but neither key nor value.
#[test]
fn the_log_says_what_is_wrong_with_a_payload() {
    let mut rig = Rig::new();
    rig.run("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    rig.check(
        "RESTORE secret 0 \"\\x12\\x01\\x02\\x03abc\\x50\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"",
        "-ERR Bad data format",
    );
    let lines = &rig.process.log;
    let wanted = "RESTORE refused a payload: integrity check failed for a node of a list at byte 2";
    assert!(lines.iter().any(|(_, line)| line.contains(wanted)), "{lines:?}");
}

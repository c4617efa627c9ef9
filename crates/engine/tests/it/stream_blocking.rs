//! Clients that wait for entries of streams: the order in which they are served, and the end of a wait.

use sluice_testkit::{Rig, render};

/// The rendered output of a client since the last call.
fn got(rig: &mut Rig, client: sluice_base::SessionKey) -> String {
    render(&rig.output(client))
}

#[test]
fn xread_waits_for_the_next_entry() {
    let mut rig = Rig::new();
    let (a, b, c) = (rig.connect(), rig.connect(), rig.connect());
    rig.check("XADD s 1-1 a b", "\"1-1\"");
    assert_eq!(rig.run_as(a, "XREAD BLOCK 0 STREAMS none s 0 $"), "");
    assert_eq!(rig.run_as(b, "XREAD BLOCK 0 STREAMS s 1-2"), "");
    assert_eq!(rig.run_as(c, "XREAD BLOCK 0 STREAMS t +"), "");
    rig.check("XADD s 1-2 a b", "\"1-2\"");
    assert_eq!(got(&mut rig, a), "[[\"s\", [[\"1-2\", [\"a\", \"b\"]]]]]");
    assert_eq!(got(&mut rig, b), "");
    rig.check("XADD s 1-3 a b", "\"1-3\"");
    assert_eq!(got(&mut rig, b), "[[\"s\", [[\"1-3\", [\"a\", \"b\"]]]]]");
    rig.check("XADD t 5-5 a b", "\"5-5\"");
    assert_eq!(got(&mut rig, c), "[[\"t\", [[\"5-5\", [\"a\", \"b\"]]]]]");
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
}

#[test]
fn the_dollar_is_what_it_was_when_the_client_came() {
    let mut rig = Rig::new();
    let a = rig.connect();
    rig.check("XADD s 1-1 a b", "\"1-1\"");
    assert_eq!(rig.run_as(a, "XREAD BLOCK 0 STREAMS s $"), "");
    // An entry that is deleted before the client is served wakes it in vain.
    rig.run("MULTI");
    rig.run("XADD s 1-2 a b");
    rig.run("XDEL s 1-2");
    rig.run("EXEC");
    assert_eq!(got(&mut rig, a), "");
    rig.check("XADD s 1-3 c d", "\"1-3\"");
    assert_eq!(got(&mut rig, a), "[[\"s\", [[\"1-3\", [\"c\", \"d\"]]]]]");
}

#[test]
fn a_key_of_another_type_does_not_end_a_plain_wait() {
    let mut rig = Rig::new();
    let a = rig.connect();
    assert_eq!(rig.run_as(a, "XREAD BLOCK 0 STREAMS s 0"), "");
    rig.check("RPUSH s x", ":1");
    assert_eq!(got(&mut rig, a), "");
    rig.check("DEL s", ":1");
    rig.check("XADD s 1-1 a b", "\"1-1\"");
    assert_eq!(got(&mut rig, a), "[[\"s\", [[\"1-1\", [\"a\", \"b\"]]]]]");
}

#[test]
fn waits_end_with_nil_when_their_time_is_over() {
    for line in ["XREAD BLOCK 100 STREAMS s 0", "XREADGROUP GROUP g c BLOCK 100 STREAMS k >"] {
        let mut rig = Rig::new();
        let a = rig.connect();
        rig.check("XGROUP CREATE k g 0 MKSTREAM", "+OK");
        assert_eq!(rig.run_as(a, line), "", "{line}");
        rig.pass_ms(95);
        rig.cron();
        assert_eq!(got(&mut rig, a), "", "{line}");
        rig.pass_ms(10);
        rig.cron();
        assert_eq!(got(&mut rig, a), "nil-array", "{line}");
    }
}

#[test]
fn consumers_of_a_group_share_its_entries() {
    let mut rig = Rig::new();
    let (a, b) = (rig.connect(), rig.connect());
    rig.check("XGROUP CREATE s g 0 MKSTREAM", "+OK");
    assert_eq!(rig.run_as(a, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"), "");
    assert_eq!(rig.run_as(b, "XREADGROUP GROUP g b BLOCK 0 STREAMS s >"), "");
    rig.check("XADD s 1-1 a b", "\"1-1\"");
    assert_eq!(got(&mut rig, a), "[[\"s\", [[\"1-1\", [\"a\", \"b\"]]]]]");
    assert_eq!(got(&mut rig, b), "");
    rig.check("XADD s 1-2 a b", "\"1-2\"");
    assert_eq!(got(&mut rig, b), "[[\"s\", [[\"1-2\", [\"a\", \"b\"]]]]]");
    rig.check("XPENDING s g", "[:2, \"1-1\", \"1-2\", [[\"a\", \"1\"], [\"b\", \"1\"]]]");
}

#[test]
fn a_wait_for_a_group_ends_when_the_group_or_the_key_goes() {
    const GONE: &str = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (line, wanted) in [
        ("XGROUP DESTROY s g", GONE),
        ("DEL s", GONE),
        ("UNLINK s", GONE),
        ("RENAME s t", GONE),
        ("FLUSHALL", GONE),
        ("FLUSHDB", GONE),
        ("SWAPDB 0 1", GONE),
        ("MOVE s 1", GONE),
        ("EXPIRE s -1", GONE),
        ("SET s x", WRONG),
        ("RESTORE s 0 \\x00\\x01x REPLACE", ""),
    ] {
        let mut rig = Rig::new();
        let a = rig.connect();
        rig.check("XGROUP CREATE s g 0 MKSTREAM", "+OK");
        assert_eq!(rig.run_as(a, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "", "{line}");
        rig.run(line);
        assert_eq!(got(&mut rig, a), wanted, "{line}");
        let blocked = usize::from(wanted.is_empty());
        assert!(rig.run("INFO clients").contains(&format!("blocked_clients:{blocked}\\r\\n")), "{line}");
    }
}

#[test]
fn a_wait_inside_a_transaction_answers_at_once() {
    let mut rig = Rig::new();
    rig.run("MULTI");
    rig.run("XREAD BLOCK 0 STREAMS s 0");
    rig.check("EXEC", "[nil-array]");
}

#[test]
fn a_group_that_is_set_back_wakes_its_readers() {
    let mut rig = Rig::new();
    let (reader, other, plain) = (rig.connect(), rig.connect(), rig.connect());
    rig.run("XADD s 1-1 a b");
    rig.run("XADD s 2-1 c d");
    rig.run("XGROUP CREATE s g $");
    rig.run("XGROUP CREATE s h $");
    assert_eq!(rig.run_as(reader, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "");
    assert_eq!(rig.run_as(other, "XREADGROUP GROUP h c BLOCK 0 STREAMS s >"), "");
    assert_eq!(rig.run_as(plain, "XREAD BLOCK 0 STREAMS s $"), "");
    rig.check("XGROUP SETID s g 1-1", "+OK");
    assert_eq!(got(&mut rig, reader), "[[\"s\", [[\"2-1\", [\"c\", \"d\"]]]]]");
    assert_eq!(got(&mut rig, other), "");
    assert_eq!(got(&mut rig, plain), "");
    rig.check("XGROUP SETID s h $", "+OK");
    assert_eq!(got(&mut rig, other), "");
    // After a change within a transaction, waiting clients are served at the end of the transaction.
    for line in ["MULTI", "XGROUP SETID s h 0", "EXEC"] {
        rig.run(line);
    }
    assert!(got(&mut rig, other).starts_with("[[\"s\", [[\"1-1\""));
    assert!(rig.run("INFO clients").contains("blocked_clients:1\\r\\n"));
}

//! String commands: propagation to replicas, and keys that are hidden from some clients. Calls and
//! replies are in `crates/commands/tests/it/string.rs`.

use sluice_testkit::Rig;

/// Runs lines one after another, and checks the replica's stream after each. `pass` lets 10 ms pass.
#[track_caller]
fn fed(script: &[(&str, &str)]) {
    let mut rig = Rig::new();
    let replica = rig.replica();
    for (line, expected) in script {
        if *line == "pass" {
            rig.pass_ms(10);
            continue;
        }
        let reply = rig.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        // Times in the arguments are a little later than 1700000000 seconds, so they begin with 17000.
        let sent = rig.fed(replica);
        let sent: Vec<&str> =
            sent.split(' ').map(|word| if word.starts_with("17000") { "TIME" } else { word }).collect();
        assert_eq!(sent.join(" "), *expected, "stream of: {line}");
    }
}

#[test]
fn set_propagates_what_it_did() {
    fed(&[
        ("SET k v", "SET k v"),
        ("set k v xx", "set k v xx"),
        ("SET k v NX", ""),
        ("SET none v XX", ""),
        ("SET k v GET", "SET k v"),
        ("SET k v GET KEEPTTL get", "SET k v KEEPTTL"),
        ("SET k v IFEQ no", ""),
        ("SET k get IFEQ v", "SET k get IFEQ v"),
        ("SET k v GET IFEQ get", "SET k v IFEQ get"),
        ("SET get get GET", "SET get get"),
        ("SET k v EX 100", "SET k v PXAT TIME"),
        ("set k v PX 100000 XX GET", "set k v PXAT TIME"),
        ("SET k v IFEQ v EX 100", "SET k v PXAT TIME"),
        ("SET k v EX 100 NX", ""),
        ("SET k v EXAT 99999999999", "SET k v PXAT 99999999999000"),
        ("SET k v pxat 99999999999000 XX GET", "SET k v pxat 99999999999000 XX GET"),
        ("SETEX k 100 v", "SET k v PXAT TIME"),
        ("psetex k 100000 v", "SET k v PXAT TIME"),
        ("SETNX k v", ""),
        ("SETNX new v", "SETNX new v"),
        ("GETSET k v", "SET k v"),
        ("GETSET new2 v", "SET new2 v"),
    ]);
}

#[test]
fn a_time_that_has_passed_propagates_as_a_deletion() {
    fed(&[
        ("SET k v", "SET k v"),
        ("SET k v PXAT 1", "UNLINK k"),
        ("SET k v PXAT 1", ""),
        ("SET k v EXAT 1", ""),
        ("SET k v", "SET k v"),
        ("SET k v EXAT 1 GET", "UNLINK k"),
        ("SET k v PX 1", "SET k v PXAT TIME"),
        ("pass", ""),
        ("SET k v PXAT 1", "UNLINK k"),
        ("SET k v", "SET k v"),
        ("GETEX k PXAT 1", "UNLINK k"),
        ("GETEX k PXAT 1", ""),
        ("MSETEX 2 a 1 b 2 EXAT 1", "MSETEX 2 a 1 b 2 PXAT 1000"),
        ("MSETEX 2 a 1 b 2 PXAT 1", "MULTI; UNLINK a; UNLINK b; MSETEX 2 a 1 b 2 PXAT 1; EXEC"),
    ]);
}

#[test]
fn keys_that_expired_propagate_before_the_command() {
    fed(&[
        ("SET k v PX 1", "SET k v PXAT TIME"),
        ("pass", ""),
        ("GET k", "UNLINK k"),
        ("GET k", ""),
        ("SET k v PX 1", "SET k v PXAT TIME"),
        ("pass", ""),
        ("SET k v NX GET", "MULTI; UNLINK k; SET k v NX; EXEC"),
        ("SET k v PX 1", "SET k v PXAT TIME"),
        ("pass", ""),
        ("SET k v XX", "UNLINK k"),
        ("MSETEX 2 a 1 b 2 PX 1", "MSETEX 2 a 1 b 2 PXAT TIME"),
        ("pass", ""),
        ("MGET a b a", "MULTI; UNLINK a; UNLINK b; EXEC"),
        ("MSETEX 2 a 1 b 2 PX 1", "MSETEX 2 a 1 b 2 PXAT TIME"),
        ("SET k v", "SET k v"),
        ("pass", ""),
        ("MSETNX a 1 k 2", "UNLINK a"),
        ("MSETNX b 1 a 2", "MULTI; UNLINK b; MSETNX b 1 a 2; EXEC"),
    ]);
}

#[test]
fn other_string_commands_propagate_what_they_did() {
    fed(&[
        ("SET k v", "SET k v"),
        ("GETEX k", ""),
        ("GETEX k EX 100", "PEXPIREAT k TIME"),
        ("GETEX k PXAT 99999999999000", "PEXPIREAT k 99999999999000"),
        ("GETEX k PERSIST", "PERSIST k"),
        ("GETEX k PERSIST", ""),
        ("APPEND k x", "APPEND k x"),
        ("APPEND k \"\"", "APPEND k \"\""),
        ("SETRANGE k 2 abc", "SETRANGE k 2 abc"),
        ("SETRANGE k 2 \"\"", ""),
        ("DELIFEQ k no", ""),
        ("DELIFEQ k vxabc", "DEL k"),
        ("GETDEL k", ""),
        ("INCR c", "INCR c"),
        ("decrby c 5", "decrby c 5"),
        ("INCRBY c 0", "INCRBY c 0"),
        ("INCRBYFLOAT c 1.5", "SET c -2.5 KEEPTTL"),
        ("GETDEL c", "DEL c"),
        ("MSET a 1 b 2", "MSET a 1 b 2"),
        ("MSETNX a 1 z 2", ""),
        ("MSETNX y 1 z 2", "MSETNX y 1 z 2"),
        ("MSETEX 2 a 1 b 2", "MSETEX 2 a 1 b 2"),
        ("MSETEX 2 a 1 b 2 NX", ""),
        ("MSETEX 2 a 1 b 2 XX EX 100", "MSETEX 2 a 1 b 2 XX PXAT TIME"),
        ("MSETEX 2 a 1 b 2 px 100000 xx", "MSETEX 2 a 1 b 2 PXAT TIME xx"),
        ("MSETEX 1 a 1 pxat 99999999999000", "MSETEX 1 a 1 pxat 99999999999000"),
        ("MSETEX 1 a 1 KEEPTTL", "MSETEX 1 a 1 KEEPTTL"),
    ]);
}

#[test]
fn a_hidden_key_is_replaced_and_not_doubled() {
    let mut rig = Rig::new();
    let source = rig.connect();
    rig.check("SET k v PX 5", "+OK");
    rig.check("CONFIG SET import-mode yes", "+OK");
    assert_eq!(rig.run_as(source, "CLIENT IMPORT-SOURCE ON"), "+OK");
    rig.pass_ms(10);
    rig.check("GET k", "nil");
    assert_eq!(rig.run_as(source, "GET k"), "\"v\"");
    rig.check("APPEND k x", ":1");
    rig.check("GET k", "\"x\"");
    rig.check("DBSIZE", ":1");
    rig.check("SET k v PXAT 1", "+OK");
    rig.check("GET k", "nil");
    assert_eq!(rig.run_as(source, "GET k"), "\"v\"");
    rig.check("INCR k", ":1");
    rig.check("DBSIZE", ":1");
}

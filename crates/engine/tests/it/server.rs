//! Behaviour of the server commands that have no file of their own.

use sluice_control::action::Action;
use sluice_testkit::{Rig, check};

#[test]
fn flushall_empties_every_database() {
    for mode in ["", " ASYNC", " sync"] {
        check(&[
            ("SET a 1", "+OK"),
            ("SELECT 1", "+OK"),
            ("SET a 1", "+OK"),
            (&format!("FLUSHALL{mode}"), "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 0", "+OK"),
            ("DBSIZE", ":0"),
        ]);
    }
}

#[test]
fn flushdb_empties_the_selected_database() {
    check(&[
        ("SET a 1", "+OK"),
        ("SELECT 1", "+OK"),
        ("SET a 1", "+OK"),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SELECT 0", "+OK"),
        ("DBSIZE", ":1"),
    ]);
}

#[test]
fn flush_takes_one_option() {
    check(&[
        ("FLUSHALL foo", "-ERR syntax error"),
        ("FLUSHALL SYNC ASYNC", "-ERR syntax error"),
        ("FLUSHDB foo", "-ERR syntax error"),
    ]);
}

#[test]
fn flush_frees_elsewhere_unless_told_otherwise() {
    let freed = |line: &str, lazy: &str| {
        let mut rig = Rig::with(&[("lazyfree-lazy-user-flush", lazy)]);
        rig.run("SET a 1");
        rig.run(line);
        rig.actions.iter().any(|action| matches!(action, Action::FreeDb(_)))
    };
    assert!(freed("FLUSHALL", "yes"));
    assert!(!freed("FLUSHALL", "no"));
    assert!(!freed("FLUSHDB SYNC", "yes"));
    assert!(freed("FLUSHDB ASYNC", "no"));
}

#[test]
fn swapdb_exchanges_databases() {
    check(&[
        ("SET a 0", "+OK"),
        ("SWAPDB 0 1", "+OK"),
        ("GET a", "nil"),
        ("SELECT 1", "+OK"),
        ("GET a", "\"0\""),
        ("SWAPDB 0 0", "+OK"),
        ("SWAPDB a 1", "-ERR invalid first DB index"),
        ("SWAPDB 0 b", "-ERR invalid second DB index"),
        ("SWAPDB a b", "-ERR invalid first DB index"),
        ("SWAPDB 0 16", "-ERR DB index is out of range"),
        ("SWAPDB -1 0", "-ERR DB index is out of range"),
        ("SWAPDB 0", "-ERR wrong number of arguments for 'swapdb' command"),
    ]);
}

#[test]
fn lastsave_begins_with_the_start() {
    check(&[("LASTSAVE", ":1700000000")]);
}

#[test]
fn role_of_a_primary_without_replicas() {
    check(&[("ROLE", "[\"master\", :0, []]")]);
}

#[test]
fn shutdown_is_a_wish_without_a_reply() {
    for line in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN save NOW FORCE", "SHUTDOWN SAFE FORCE"] {
        let mut rig = Rig::new();
        rig.check(line, "");
        assert!(matches!(rig.actions.as_slice(), [Action::Shutdown]), "{line}: {:?}", rig.actions);
    }
}

#[test]
fn shutdown_refuses() {
    check(&[
        ("SHUTDOWN foo", "-ERR syntax error"),
        ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
        ("SHUTDOWN ABORT NOSAVE", "-ERR syntax error"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
    ]);
}

#[test]
fn shutdown_cannot_be_aborted_as_it_waits_for_nobody() {
    let mut rig = Rig::new();
    rig.run("SHUTDOWN");
    rig.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.");
}

#[test]
fn flushes_and_swaps_are_propagated_even_when_nothing_changed() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    for line in
        ["flushall", "set a b", "flushall async", "flushdb", "flushdb sync", "swapdb 0 0", "debug populate 2"]
    {
        rig.run(line);
    }
    let fed = rig.fed(replica);
    assert!(fed.ends_with("flushall; set a b; flushall async; flushdb; flushdb sync; swapdb 0 0"), "{fed}");
}

#[test]
fn regress_numbers_that_are_none_are_refused_as_in_the_reference() {
    check(&[
        ("SWAPDB 0 99999999999", "-ERR invalid second DB index"),
        ("SWAPDB 99999999999 0", "-ERR invalid first DB index"),
        ("SWAPDB 0 99", "-ERR DB index is out of range"),
        ("SWAPDB 0 -1", "-ERR DB index is out of range"),
        ("WAITAOF 0 x 1", "-ERR value is out of range, must be positive"),
        ("WAITAOF x 0 1", "-ERR value is not an integer or out of range"),
        ("WAITAOF 0 -1 1", "-ERR value is out of range, must be positive"),
    ]);
}

#[test]
fn there_are_no_modules() {
    let refused = "-ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    let mut rig = Rig::new();
    rig.check("MODULE LIST", "[]");
    rig.check("MODULE LIST x", "-ERR wrong number of arguments for 'module|list' command");
    rig.check("MODULE LOAD", "-ERR wrong number of arguments for 'module|load' command");
    rig.check("MODULE nosuch", "-ERR unknown subcommand 'nosuch'. Try MODULE HELP.");
    for line in ["MODULE LOAD a.so", "MODULE LOADEX a.so CONFIG a b", "MODULE UNLOAD lua"] {
        rig.check(line, refused);
    }
    let mut rig = Rig::with(&[("enable-module-command", "yes")]);
    for line in ["MODULE LOAD a.so", "MODULE LOADEX a.so CONFIG a b"] {
        rig.check(line, "-ERR Error loading the extension: this server has no modules in C");
    }
    rig.check("MODULE UNLOAD lua", "-ERR Error unloading module: no such module with that name");
}

#[test]
fn a_word_that_is_no_subcommand_is_refused() {
    for name in ["COMMAND", "OBJECT", "XGROUP", "XINFO"] {
        let expected = format!("-ERR unknown subcommand 'FOO'. Try {name} HELP.");
        Rig::new().check(&format!("{name} FOO"), &expected);
    }
}

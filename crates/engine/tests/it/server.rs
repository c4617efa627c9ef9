//! Behaviour of the server commands that have no file of their own.

use sluice_control::action::Action;
use sluice_testkit::{Rig, check};

#[test]
fn dbsize_counts_the_keys_of_the_selected_database() {
    check(&[
        ("DBSIZE", ":0"),
        ("SET a 1", "+OK"),
        ("DBSIZE", ":1"),
        ("SELECT 1", "+OK"),
        ("DBSIZE", ":0"),
        ("DBSIZE x", "-ERR wrong number of arguments for 'dbsize' command"),
    ]);
}

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
fn time_is_seconds_and_microseconds() {
    let mut rig = Rig::new();
    rig.process.now.unix_us = 1_700_000_000_000_041;
    rig.check("TIME", "[\"1700000000\", \"41\"]");
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
fn command_list_names_subcommands_and_command_count_leaves_them_out() {
    let mut rig = Rig::new();
    let listed = rig.run("COMMAND LIST");
    assert!(listed.contains("\"client|list\""), "{listed}");
    let names = listed.matches('"').count() / 2 - listed.matches('|').count();
    assert_eq!(rig.run("COMMAND COUNT"), format!(":{names}"));
}

#[test]
fn command_info_describes_what_is_known() {
    check(&[
        (
            "COMMAND INFO get nosuch",
            "[[\"get\", :2, [+readonly, +fast], :1, :1, :1, [+@read, +@string, +@fast], [], \
             [[\"flags\", [+RO, +access], \"begin_search\", [\"type\", \"index\", \"spec\", [\"index\", :1]], \
             \"find_keys\", [\"type\", \"range\", \"spec\", [\"lastkey\", :0, \"keystep\", :1, \"limit\", :0]]]], []], nil]",
        ),
        (
            "COMMAND INFO config|get",
            "[[\"config|get\", :-3, [+admin, +noscript, +loading, +stale], :0, :0, :0, [+@admin, +@slow, +@dangerous], \
             [], [], []]]",
        ),
    ]);
}

#[test]
fn command_info_without_names_describes_all() {
    let mut rig = Rig::new();
    let bare = rig.run("COMMAND");
    assert_eq!(bare, rig.run("COMMAND INFO"));
    assert!(bare.len() > 1000);
}

#[test]
fn command_docs_leaves_out_what_is_unknown() {
    let mut rig = Rig::new();
    rig.check("COMMAND DOCS nosuch", "[]");
    let text = rig.run("COMMAND DOCS get nosuch");
    assert!(text.starts_with("[\"get\", [\"summary\", "), "{text}");
    assert!(text.contains("\"since\", \"1.0.0\", \"group\", \"string\", \"complexity\", \"O(1)\""), "{text}");
    assert!(rig.run("COMMAND DOCS").len() > 1000);
}

#[test]
fn command_list_filters() {
    check(&[
        ("COMMAND LIST FILTERBY PATTERN sw*", "[\"swapdb\"]"),
        ("COMMAND LIST FILTERBY MODULE lua", "[]"),
        ("COMMAND LIST FILTERBY ACLCAT nosuch", "[]"),
        ("COMMAND LIST x", "-ERR syntax error"),
        ("COMMAND LIST FILTERBY", "-ERR syntax error"),
        ("COMMAND LIST FILTERBY PATTERN", "-ERR syntax error"),
        ("COMMAND LIST FILTERBY PATTERN a b", "-ERR syntax error"),
        ("COMMAND LIST FILTERBY NOSUCH a", "-ERR syntax error"),
    ]);
}

#[test]
fn command_getkeys_finds_the_keys_of_a_call() {
    check(&[
        ("COMMAND GETKEYS get a", "[\"a\"]"),
        ("COMMAND GETKEYS mset a b c d", "[\"a\", \"c\"]"),
        ("COMMAND GETKEYSANDFLAGS set a b", "[[\"a\", [+OW, +update]]]"),
        ("COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command"),
        ("COMMAND GETKEYS get", "-ERR Invalid number of arguments specified for command"),
        ("COMMAND GETKEYS nosuch a", "-ERR Invalid command specified"),
        ("COMMAND GETKEYS ping", "-ERR The command has no key arguments"),
        ("COMMAND GETKEYSANDFLAGS set a", "-ERR Invalid number of arguments specified for command"),
        ("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP."),
    ]);
}

#[test]
fn command_help_lists_the_subcommands() {
    let text = Rig::new().run("COMMAND HELP");
    assert!(
        text.starts_with("[+COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{text}"
    );
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
fn lolwut_names_the_version() {
    let mut rig = Rig::new();
    for line in ["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION 6 10 3"] {
        let text = rig.run(line);
        assert!(text.ends_with("Valkey ver. 9.1.2\\n\""), "{text}");
    }
    rig.check("LOLWUT VERSION a", "-ERR value is not an integer or out of range");
    rig.check("LOLWUT VERSION", "-ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]");
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
fn lolwut_takes_what_the_picture_of_its_version_takes() {
    let syntax = "-ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]";
    check(&[
        ("LOLWUT 1", syntax),
        ("LOLWUT 1 2 3", syntax),
        ("LOLWUT 1 2 x y", "-ERR value is not a valid float"),
        ("LOLWUT 1 2 nan 1", "-ERR value is not a valid float"),
        ("LOLWUT 1 x 1 1", "-ERR value is not an integer or out of range"),
        ("LOLWUT VERSION", syntax),
        ("LOLWUT VERSION x", "-ERR value is not an integer or out of range"),
        ("LOLWUT VERSION 9 1", syntax),
        ("LOLWUT VERSION 5 1 x", "-ERR value is not an integer or out of range"),
        ("LOLWUT VERSION 7", "\"Valkey ver.9.1.2\\n\""),
        ("LOLWUT VERSION -1 x", "\"Valkey ver.9.1.2\\n\""),
    ]);
    for line in
        ["LOLWUT", "LOLWUT 3 3", "LOLWUT 3 3 1 inf", "LOLWUT VERSION 5 1 2 3 x", "LOLWUT VERSION 6 1 2 x"]
    {
        let text = Rig::new().run(line);
        assert!(text.ends_with("Valkey ver. 9.1.2\\n\""), "{line}: {text}");
    }
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

//! Behaviour of the server commands that need only the command table, the clock or one database. The
//! others are in the engine's tests.

use crate::common::{Bench, check};

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
fn time_is_seconds_and_microseconds() {
    let mut bench = Bench::new();
    bench.now.unix_us = 1_700_000_000_000_041;
    bench.check("TIME", "[\"1700000000\", \"41\"]");
}

#[test]
fn command_list_names_subcommands_and_command_count_leaves_them_out() {
    let mut bench = Bench::new();
    let listed = bench.run("COMMAND LIST");
    assert!(listed.contains("\"client|list\""), "{listed}");
    let names = listed.matches('"').count() / 2 - listed.matches('|').count();
    assert_eq!(bench.run("COMMAND COUNT"), format!(":{names}"));
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
    let mut bench = Bench::new();
    let bare = bench.run("COMMAND");
    assert_eq!(bare, bench.run("COMMAND INFO"));
    assert!(bare.len() > 1000);
}

#[test]
fn command_docs_leaves_out_what_is_unknown() {
    let mut bench = Bench::new();
    bench.check("COMMAND DOCS nosuch", "[]");
    let text = bench.run("COMMAND DOCS get nosuch");
    assert!(text.starts_with("[\"get\", [\"summary\", "), "{text}");
    assert!(text.contains("\"since\", \"1.0.0\", \"group\", \"string\", \"complexity\", \"O(1)\""), "{text}");
    assert!(bench.run("COMMAND DOCS").len() > 1000);
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
    ]);
}

#[test]
fn command_help_lists_the_subcommands() {
    let text = Bench::new().run("COMMAND HELP");
    assert!(
        text.starts_with("[+COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{text}"
    );
}

#[test]
fn lolwut_names_the_version() {
    let mut bench = Bench::new();
    for line in ["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION 6 10 3"] {
        let text = bench.run(line);
        assert!(text.ends_with("Valkey ver. 9.1.2\\n\""), "{text}");
    }
    bench.check("LOLWUT VERSION a", "-ERR value is not an integer or out of range");
    bench.check("LOLWUT VERSION", "-ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]");
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
        let text = Bench::new().run(line);
        assert!(text.ends_with("Valkey ver. 9.1.2\\n\""), "{line}: {text}");
    }
}

//! Behaviour of the CLIENT container.

use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_testkit::{Rig, check, render};

#[test]
fn client_needs_a_subcommand_that_exists() {
    check(&[
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
        ("CLIENT INFO x", "-ERR wrong number of arguments for 'client|info' command"),
        ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command"),
        ("CLIENT ID", ":1"),
    ]);
    let mut rig = Rig::new();
    let help = rig.run("CLIENT HELP");
    assert!(
        help.starts_with("[+CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, "),
        "{help}"
    );
    assert!(help.contains("+UNPAUSE, "), "{help}");
}

#[test]
fn client_setname_takes_what_fits_a_line() {
    let refusal = "-ERR Client names cannot contain spaces, newlines or special characters.";
    check(&[
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME !~", "+OK"),
        ("CLIENT SETNAME \"a b\"", refusal),
        ("CLIENT SETNAME \"a\\n\"", refusal),
        ("CLIENT SETNAME \"\\x7f\"", refusal),
        ("CLIENT SETNAME \"\\xc3\\xa9\"", refusal),
        ("CLIENT GETNAME", "\"!~\""),
        ("CLIENT SETNAME \"\"", "+OK"),
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME a b", "-ERR wrong number of arguments for 'client|setname' command"),
    ]);
}

#[test]
fn client_setinfo_labels_the_library() {
    let mut rig = Rig::new();
    for (line, expected) in [
        ("CLIENT SETINFO lib-name some.lib", "+OK"),
        ("CLIENT SETINFO LIB-VER 1.2", "+OK"),
        (
            "CLIENT SETINFO Lib-Name \"a b\"",
            "-ERR Lib-Name cannot contain spaces, newlines or special characters.",
        ),
        (
            "CLIENT SETINFO LIB-VER \"1\\n\"",
            "-ERR LIB-VER cannot contain spaces, newlines or special characters.",
        ),
        ("CLIENT SETINFO bAd x", "-ERR Unrecognized option 'bAd'"),
        ("CLIENT SETINFO lib-name", "-ERR wrong number of arguments for 'client|setinfo' command"),
    ] {
        rig.check(line, expected);
    }
    assert!(rig.run("CLIENT INFO").contains(" lib-name=some.lib lib-ver=1.2 "));
    rig.check("CLIENT SETINFO lib-name \"\"", "+OK");
    assert!(rig.run("CLIENT INFO").contains(" lib-name= lib-ver=1.2 "));
}

#[test]
fn client_info_is_a_line_of_these_fields() {
    let mut rig = Rig::new();
    rig.pass_ms(2500);
    let info = rig.run("CLIENT INFO");
    let line = info.trim_start_matches('"').trim_end_matches("\\n\"");
    let names: Vec<&str> = line.split(' ').map(|field| field.split_once('=').unwrap().0).collect();
    assert_eq!(
        names.join(" "),
        "id addr laddr fd name age idle flags capa db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp \
         obl oll omem tot-mem events cmd user redir resp lib-name lib-ver tot-net-in tot-net-out tot-cmds"
    );
    for field in [
        "id=1 ",
        " addr=127.0.0.1:5001 laddr=127.0.0.1:6379 ",
        " age=2 idle=0 flags=N ",
        " sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=10 multi-mem=0 ",
        " obl=0 oll=0 omem=0 ",
        " events=r cmd=client|info user=default redir=-1 resp=2 ",
        " tot-net-in=26 tot-net-out=0 tot-cmds=0",
    ] {
        assert!(line.contains(field), "{field} in {line}");
    }
    let again = rig.run("CLIENT INFO");
    assert!(again.contains(" tot-net-in=52 ") && again.contains(" tot-cmds=1\\n"), "{again}");
}

#[test]
fn client_info_counts_requests_that_do_not_run_as_input_only() {
    let mut rig = Rig::new();
    rig.run("NOSUCH");
    rig.run("GET");
    rig.run("SELECT 99");
    let info = rig.run("CLIENT INFO");
    assert!(info.contains(" tot-net-in=79 ") && info.contains(" tot-cmds=1\\n"), "{info}");
}

#[test]
fn client_list_is_verbatim_in_resp3() {
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    assert!(rig.run("CLIENT LIST").starts_with("=txt:id=1 "));
    assert!(rig.run("CLIENT INFO").starts_with("=txt:id=1 "));
    rig.check("CLIENT LIST ID 99", "=txt:");
}

/// Three clients: `a` asks; `b` has labels, a database and an age; `c` has flags and a capability.
fn three() -> (Rig, SessionKey, SessionKey) {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run("CLIENT SETNAME a");
    for line in ["CLIENT SETNAME b", "CLIENT SETINFO LIB-NAME lib", "CLIENT SETINFO LIB-VER 7", "SELECT 3"] {
        rig.run_as(b, line);
    }
    rig.pass_ms(5000);
    let c = rig.connect();
    for line in ["CLIENT SETNAME c", "CLIENT NO-EVICT ON", "CLIENT NO-TOUCH ON", "CLIENT CAPA redirect"] {
        rig.run_as(c, line);
    }
    (rig, b, c)
}

/// Names of the clients in a reply of CLIENT LIST, in its order; any other reply unchanged.
fn names(reply: &str) -> String {
    if reply.starts_with('-') {
        return reply.to_owned();
    }
    reply.split(" name=").skip(1).filter_map(|rest| rest.split(' ').next()).collect()
}

#[test]
fn client_list_chooses() {
    let (mut rig, ..) = three();
    for (filter, expected) in [
        ("", "abc"),
        ("ID 2", "b"),
        ("ID 3 2", "bc"),
        ("ID 2 ID 1", "ab"),
        ("ID 2 3 TYPE normal ID 1", "abc"),
        ("ID 99", ""),
        ("ID 2 NAME a", ""),
        ("NOT-ID 2", "ac"),
        ("NOT-ID 1 2", "c"),
        ("TYPE normal", "abc"),
        ("TYPE NORMAL TYPE pubsub", ""),
        ("TYPE master", ""),
        ("TYPE primary", ""),
        ("TYPE slave", ""),
        ("TYPE replica", ""),
        ("NOT-TYPE normal", ""),
        ("NOT-TYPE replica", "abc"),
        ("USER default", "abc"),
        ("NOT-USER default", ""),
        ("ADDR 127.0.0.1:5001", "a"),
        ("ADDR x", ""),
        ("NOT-ADDR 127.0.0.1:5001", "bc"),
        ("LADDR 127.0.0.1:6379", "abc"),
        ("NOT-LADDR 127.0.0.1:6379", ""),
        ("IP 127.0.0.1", "abc"),
        ("IP 127.0.0.1:5001", ""),
        ("NOT-IP 127.0.0.1", ""),
        ("NOT-IP ::1", "abc"),
        ("SKIPME yes", "bc"),
        ("SKIPME YES SKIPME no", "abc"),
        ("MAXAGE 5", "ab"),
        ("MAXAGE 1000", ""),
        ("IDLE 5", "b"),
        ("IDLE 100", ""),
        ("FLAGS N", "ab"),
        ("FLAGS NN", "ab"),
        ("FLAGS e", "c"),
        ("FLAGS Te", "c"),
        ("FLAGS Ne", ""),
        ("FLAGS \"\"", "abc"),
        ("FLAGS ABEHIMNOPRSTUbcdeirtux", ""),
        ("NOT-FLAGS N", "c"),
        ("NOT-FLAGS eT", "ab"),
        ("NOT-FLAGS NT", "abc"),
        ("NAME a", "a"),
        ("NAME \"\"", ""),
        ("NOT-NAME a", "bc"),
        ("NOT-NAME \"\"", "abc"),
        ("LIB-NAME lib", "b"),
        ("LIB-NAME \"\"", ""),
        ("NOT-LIB-NAME lib", "ac"),
        ("LIB-VER 7", "b"),
        ("NOT-LIB-VER 7", "ac"),
        ("DB 3", "b"),
        ("DB 0 DB 3", "b"),
        ("NOT-DB 3", "ac"),
        ("CAPA r", "c"),
        ("CAPA \"\"", "abc"),
        ("NOT-CAPA r", "ab"),
        ("NOT-CAPA \"\"", ""),
        ("not-name a not-db 3", "c"),
    ] {
        let got = names(&rig.run(&format!("CLIENT LIST {filter}")));
        assert_eq!(got, expected, "CLIENT LIST {filter}");
    }
}

#[test]
fn client_list_refuses_filters_that_mean_nothing() {
    let (mut rig, ..) = three();
    for (filter, expected) in [
        ("x", "syntax error"),
        ("x y", "syntax error"),
        ("ID", "syntax error"),
        ("ID x", "syntax error"),
        ("ID 2 x", "syntax error"),
        ("ID 2 NAME", "syntax error"),
        ("ID 99999999999999999999", "syntax error"),
        ("ID 0", "client-id should be greater than 0"),
        ("ID 2 -1", "client-id should be greater than 0"),
        ("NOT-ID 0", "client-id should be greater than 0"),
        ("TYPE", "syntax error"),
        ("TYPE foo USER nope", "Unknown client type 'foo'"),
        ("NOT-TYPE foo", "Unknown client type 'foo'"),
        ("USER nope", "No such user 'nope'"),
        ("NOT-USER nope", "No such user 'nope'"),
        ("SKIPME maybe", "syntax error"),
        ("NOT-SKIPME yes", "syntax error"),
        ("MAXAGE 0", "maxage should be greater than 0"),
        ("MAXAGE -1", "maxage should be greater than 0"),
        ("MAXAGE x", "maxage is not an integer or out of range"),
        ("NOT-MAXAGE 5", "syntax error"),
        ("IDLE 0", "idle should be greater than 0"),
        ("IDLE x", "idle is not an integer or out of range"),
        ("NOT-IDLE 5", "syntax error"),
        ("FLAGS NQ", "Unknown flags found in the provided filter: NQ"),
        ("NOT-FLAGS Q", "Unknown flags found in the NOT-FLAGS filter: Q"),
        ("CAPA redirect", "Unknown capa found in the provided filter: redirect"),
        ("NOT-CAPA x", "Unknown capa found in the NOT-CAPA filter: x"),
        ("DB 16", "DB number should be between 0 and 15"),
        ("DB -1", "DB number should be between 0 and 15"),
        ("NOT-DB 16", "NOT-DB number should be between 0 and 15"),
        ("DB x", "DB is not an integer or out of range"),
        ("NOT-DB 4294967296", "NOT-DB is not an integer or out of range"),
    ] {
        rig.check(&format!("CLIENT LIST {filter}"), &format!("-ERR {expected}"));
    }
}

#[test]
fn client_kill_by_address_alone_takes_the_caller_too() {
    let (mut rig, b, c) = three();
    rig.check("CLIENT KILL 1.2.3.4:5", "-ERR No such client");
    rig.check("CLIENT KILL id", "-ERR No such client");
    rig.check("CLIENT KILL 127.0.0.1:5001", "+OK");
    assert!(rig.is_closing(rig.client));
    assert!(!rig.is_closing(b) && !rig.is_closing(c));
}

#[test]
fn client_kill_chooses_and_spares_the_caller() {
    let (mut rig, b, c) = three();
    for (line, expected) in [
        ("CLIENT KILL ID 99", ":0"),
        ("CLIENT KILL ID 1", ":0"),
        ("CLIENT KILL NAME a", ":0"),
        ("CLIENT KILL a b c", "-ERR syntax error"),
        ("CLIENT KILL USER nope", "-ERR No such user 'nope'"),
        ("CLIENT KILL DB 3", ":1"),
        ("CLIENT KILL DB 3", ":0"),
        ("CLIENT KILL ID 2 3 SKIPME no", ":1"),
    ] {
        rig.check(line, expected);
    }
    assert!(rig.is_closing(b) && rig.is_closing(c) && !rig.is_closing(rig.client));
    assert_eq!(names(&rig.run("CLIENT LIST")), "a");
    assert_eq!(rig.run_as(b, "SET k v"), "");
    rig.check("GET k", "nil");
    rig.check("CLIENT KILL SKIPME no MAXAGE 5", ":1");
    assert!(rig.is_closing(rig.client));
}

#[test]
fn client_kill_sends_nothing_more() {
    let (mut rig, b, _) = three();
    rig.run_as(b, "MONITOR");
    rig.run("PING");
    rig.check("CLIENT KILL NAME b", ":1");
    assert_eq!(rig.output(b), b"");
}

#[test]
fn client_switches() {
    let mut rig = Rig::new();
    for (line, expected) in [
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
        ("CLIENT NO-TOUCH ON", "+OK"),
        ("CLIENT NO-TOUCH", "-ERR wrong number of arguments for 'client|no-touch' command"),
        ("CLIENT CAPA nosuch", "+OK"),
        ("CLIENT CAPA", "-ERR wrong number of arguments for 'client|capa' command"),
        ("CLIENT IMPORT-SOURCE on", "-ERR Server is not in import mode"),
        ("CLIENT IMPORT-SOURCE maybe", "-ERR Server is not in import mode"),
        ("CLIENT IMPORT-SOURCE off", "+OK"),
    ] {
        rig.check(line, expected);
    }
    assert!(rig.run("CLIENT INFO").contains(" flags=eT capa= "));
    rig.run("CLIENT NO-EVICT off");
    rig.run("CLIENT NO-TOUCH off");
    assert!(rig.run("CLIENT INFO").contains(" flags=N "));
}

#[test]
fn client_import_source_in_import_mode() {
    let mut rig = Rig::with(&[("import-mode", "yes")]);
    rig.check("CLIENT IMPORT-SOURCE maybe", "-ERR syntax error");
    rig.check("CLIENT IMPORT-SOURCE on", "+OK");
    assert!(rig.run("CLIENT INFO").contains(" flags=I "));
}

#[test]
fn client_reply_silences() {
    for (pipeline, expected) in [
        (&["OFF", "PING", "ON", "PING"][..], "+OK\n+PONG"),
        (&["SKIP", "PING", "ECHO 1"], "\"1\""),
        (&["SKIP", "ON", "PING"], "+OK\n+PONG"),
        (&["SKIP", "SKIP", "PING", "ECHO 1"], "\"1\""),
        (&["OFF", "SKIP", "PING", "ECHO 1", "ON", "ECHO 2"], "+OK\n\"2\""),
        (&["SKIP", "OFF", "PING", "ECHO 1", "ON", "ECHO 2"], "+OK\n\"2\""),
        (&["OFF", "NOSUCH", "GET", "SELECT 99", "x", "ON"], "+OK"),
        (&["SKIP", "NOSUCH", "ECHO 1"], "\"1\""),
        (&["SKIP", "GET", "ECHO 1"], "\"1\""),
        (&["SKIP", "SELECT 99", "ECHO 1"], "\"1\""),
        (&["SKIP", "x", "ECHO 1"], "\"1\""),
        (&["OFF", "QUIT"], ""),
        (&["x"], "-ERR syntax error"),
    ] {
        let mut rig = Rig::new();
        let lines: String = pipeline
            .iter()
            .map(|line| match *line {
                "ON" | "OFF" | "SKIP" | "x" => format!("CLIENT REPLY {line}\r\n"),
                line => format!("{line}\r\n"),
            })
            .collect();
        let got = render(&rig.bytes(rig.client, lines.as_bytes()));
        assert_eq!(got, expected, "{pipeline:?}");
    }
}

#[test]
fn client_pause_judges_its_arguments() {
    check(&[
        ("CLIENT PAUSE", "-ERR wrong number of arguments for 'client|pause' command"),
        ("CLIENT PAUSE a", "-ERR timeout is not an integer or out of range"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative"),
        ("CLIENT PAUSE 9223372036854775807", "-ERR timeout is out of range"),
        ("CLIENT PAUSE a maybe", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
        ("CLIENT PAUSE 0", "+OK"),
        ("CLIENT UNPAUSE", "+OK"),
        ("CLIENT UNPAUSE x", "-ERR wrong number of arguments for 'client|unpause' command"),
    ]);
}

fn resumed(rig: &mut Rig) -> Vec<SessionKey> {
    rig.actions
        .drain(..)
        .filter_map(|action| if let Action::Resume(keys) = action { Some(keys) } else { None })
        .flatten()
        .collect()
}

#[test]
fn a_reply_that_is_to_be_skipped_is_skipped_even_of_reset() {
    let mut rig = Rig::new();
    assert_eq!(rig.bytes(rig.client, b"CLIENT REPLY SKIP\r\nRESET\r\nPING\r\n"), b"+PONG\r\n");
    assert_eq!(rig.bytes(rig.client, b"CLIENT REPLY OFF\r\nPING\r\nRESET\r\n"), b"+RESET\r\n");
}

#[test]
fn client_pause_write_keeps_writes_back_only() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.check("CLIENT PAUSE 1000 write", "+OK");
    let info = rig.run("INFO clients");
    assert!(info.contains("paused_reason:client_pause\\r\\npaused_actions:write\\r\\n"), "{info}");
    assert_eq!(rig.run_as(b, "GET k"), "nil");
    assert_eq!(rig.run_as(b, "SET k"), "-ERR wrong number of arguments for 'set' command");
    assert_eq!(rig.run_as(b, "SET k v"), "");
    rig.check("GET k", "nil");
    // PFCOUNT stores its estimate in the value, so it waits as a write does.
    let c = rig.connect();
    assert_eq!(rig.run_as(c, "PFCOUNT k"), "");
    rig.engine.disconnect(c, &mut rig.process);
    rig.check("CLIENT UNBLOCK 2", ":0");
    assert!(rig.run("INFO clients").contains("blocked_clients:1\\r\\n"));
    assert!(rig.run("CLIENT LIST FLAGS b").contains("id=2 "));
    assert!(resumed(&mut rig).is_empty());
    rig.check("CLIENT UNPAUSE", "+OK");
    assert_eq!(resumed(&mut rig), [b]);
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
    assert_eq!(rig.output(b), b"+OK\r\n", "the command ran by itself");
    rig.check("GET k", "\"v\"");
}

#[test]
fn a_paused_client_that_pauses_again_meanwhile_runs_once() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.check("CLIENT PAUSE 1000 WRITE", "+OK");
    assert_eq!(rig.run_as(b, "INCR k"), "");
    let lines = b"CLIENT UNPAUSE\r\nCLIENT PAUSE 1000 WRITE\r\n";
    assert_eq!(rig.bytes(rig.client, lines), b"+OK\r\n+OK\r\n");
    assert_eq!(rig.output(b), b":1\r\n");
    assert_eq!(rig.run_as(b, "INCR k"), "");
    rig.engine.disconnect(b, &mut rig.process);
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.check("GET k", "\"1\"");
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
}

#[test]
fn client_pause_keeps_back_everything_but_who_receives_a_stream() {
    let mut rig = Rig::new();
    let (b, monitor) = (rig.connect(), rig.connect());
    rig.run_as(monitor, "MONITOR");
    rig.check("CLIENT PAUSE 1000", "+OK");
    assert!(rig.run_as(monitor, "PING").starts_with("+PONG\n"));
    assert_eq!(rig.run_as(b, "NOSUCH"), "-ERR unknown command 'NOSUCH', with args beginning with: ");
    for line in ["CLIENT UNPAUSE", "QUIT", "INFO", "PING", "HELLO"] {
        let other = rig.connect();
        assert_eq!(rig.run_as(other, line), "", "{line}");
    }
}

#[test]
fn client_pause_is_neither_shortened_nor_made_milder() {
    let mut rig = Rig::new();
    let b = rig.connect();
    let lines = b"CLIENT PAUSE 1000 WRITE\r\nCLIENT PAUSE 10 ALL\r\n";
    assert_eq!(rig.bytes(rig.client, lines), b"+OK\r\n+OK\r\n");
    rig.pass_ms(500);
    rig.cron();
    assert_eq!(rig.run_as(b, "GET k"), "");
    assert!(resumed(&mut rig).is_empty());
    rig.pass_ms(600);
    rig.cron();
    assert_eq!(resumed(&mut rig), [b]);
    assert_eq!(rig.output(b), b"$-1\r\n");
}

#[test]
fn clients_with_room_for_input_are_looked_at_by_the_cron() {
    let mut rig = Rig::new();
    let quiet = rig.connect();
    rig.engine.publish_input(quiet, 3, 100);
    rig.pass_ms(3000);
    rig.cron();
    let trims = |rig: &mut Rig| -> Vec<_> {
        let trim = |action| match action {
            Action::TrimInput { key, idle_s } => Some((key, idle_s)),
            _ => None,
        };
        rig.engine.take_actions(&mut rig.actions);
        rig.actions.drain(..).filter_map(trim).collect()
    };
    assert!(trims(&mut rig).contains(&(quiet, 3)));
    // Part of a request counts as activity.
    let now = rig.process.now;
    rig.engine.touch_last_interaction(quiet, now);
    rig.pass_ms(1000);
    rig.cron();
    assert!(trims(&mut rig).contains(&(quiet, 1)));
    rig.engine.publish_input(quiet, 0, 0);
    rig.pass_ms(1000);
    rig.cron();
    assert_eq!(trims(&mut rig), []);
}

#[test]
fn client_pause_keeps_expired_keys() {
    let mut rig = Rig::new();
    rig.check("SET k v PX 10", "+OK");
    rig.check("CLIENT PAUSE 10000 WRITE", "+OK");
    rig.pass_ms(200);
    rig.cron();
    rig.check("GET k", "nil");
    rig.check("DBSIZE", ":1");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.check("GET k", "nil");
    rig.check("DBSIZE", ":0");
}

#[test]
fn a_client_that_waits_for_a_pause_may_end() {
    let mut rig = Rig::new();
    let b = rig.connect();
    rig.run("CLIENT PAUSE 1000 WRITE");
    rig.run_as(b, "SET k v");
    rig.engine.disconnect(b, &mut rig.process);
    assert!(rig.run("INFO clients").contains("blocked_clients:0\\r\\n"));
    rig.check("CLIENT UNPAUSE", "+OK");
    assert!(resumed(&mut rig).is_empty());
}

#[test]
fn client_unblock_finds_nobody() {
    check(&[
        ("CLIENT UNBLOCK 1", ":0"),
        ("CLIENT UNBLOCK -5 TIMEOUT", ":0"),
        ("CLIENT UNBLOCK 1 error", ":0"),
        ("CLIENT UNBLOCK a", "-ERR value is not an integer or out of range"),
        ("CLIENT UNBLOCK a maybe", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    ]);
}

#[test]
fn client_tracking_is_judged() {
    let absent = "-ERR The client ID you want redirect to does not exist";
    check(&[
        ("CLIENT TRACKING", "-ERR wrong number of arguments for 'client|tracking' command"),
        ("CLIENT TRACKING maybe", "-ERR syntax error"),
        ("CLIENT TRACKING maybe REDIRECT 99", absent),
        ("CLIENT TRACKING ON nosuch", "-ERR syntax error"),
        ("CLIENT TRACKING ON REDIRECT", "-ERR syntax error"),
        ("CLIENT TRACKING ON REDIRECT a", "-ERR value is not an integer or out of range"),
        ("CLIENT TRACKING ON REDIRECT 0", absent),
        ("CLIENT TRACKING OFF REDIRECT 99", absent),
        (
            "CLIENT TRACKING ON REDIRECT 1 REDIRECT 1",
            "-ERR A client can only redirect to a single other client",
        ),
        ("CLIENT TRACKING ON PREFIX", "-ERR syntax error"),
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("CLIENT TRACKING ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("CLIENT TRACKING ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
        (
            "CLIENT TRACKING ON BCAST PREFIX a PREFIX ab",
            "-ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single client must not overlap.",
        ),
        ("CLIENT TRACKING ON BCAST", "+OK"),
        ("CLIENT TRACKING OFF", "+OK"),
        ("CLIENT TRACKING on BCAST PREFIX b PREFIX a NOLOOP", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"bcast\", \"noloop\"], \"redirect\", :0, \"prefixes\", [\"a\", \"b\"]]",
        ),
        (
            "CLIENT TRACKING ON",
            "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        (
            "CLIENT TRACKING ON OPTIN OPTOUT",
            "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("CLIENT TRACKING ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        (
            "CLIENT TRACKING ON BCAST PREFIX c PREFIX ab PREFIX abc",
            "-ERR Prefix 'ab' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
        ),
        (
            "CLIENT TRACKING ON BCAST PREFIX cc PREFIX c PREFIX ab",
            "-ERR Prefix 'cc' overlaps with another provided prefix 'c'. Prefixes for a single client must not overlap.",
        ),
        (
            "CLIENT TRACKING ON BCAST PREFIX a",
            "-ERR Prefix 'a' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
        ),
        (
            "CLIENT CACHING YES",
            "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        ("CLIENT CACHING maybe", "-ERR syntax error"),
        ("CLIENT TRACKING ON BCAST", "+OK"),
        (
            "CLIENT TRACKING ON BCAST PREFIX z",
            "-ERR Prefix 'z' overlaps with an existing prefix ''. Prefixes for a single client must not overlap.",
        ),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"bcast\"], \"redirect\", :0, \"prefixes\", [\"\", \"a\", \"b\"]]",
        ),
        ("CLIENT GETREDIR", ":0"),
        ("CLIENT TRACKING OFF", "+OK"),
        ("CLIENT TRACKING ON OPTIN REDIRECT 1", "+OK"),
        ("CLIENT GETREDIR", ":1"),
        (
            "CLIENT TRACKING ON OPTOUT",
            "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("CLIENT CACHING YES", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"optin\", \"caching-yes\"], \"redirect\", :1, \"prefixes\", []]",
        ),
        ("CLIENT TRACKING ON", "+OK"),
        ("CLIENT TRACKINGINFO", "[\"flags\", [\"on\"], \"redirect\", :0, \"prefixes\", []]"),
        ("CLIENT TRACKING ON OPTOUT", "+OK"),
        (
            "CLIENT TRACKING ON OPTIN",
            "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("CLIENT CACHING NO", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"optout\", \"caching-no\"], \"redirect\", :0, \"prefixes\", []]",
        ),
        ("CLIENT TRACKING OFF BCAST OPTIN", "+OK"),
        ("CLIENT GETREDIR", ":-1"),
        ("CLIENT TRACKINGINFO", "[\"flags\", [\"off\"], \"redirect\", :-1, \"prefixes\", []]"),
        (
            "CLIENT CACHING maybe",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ),
    ]);
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    rig.check("CLIENT TRACKINGINFO", "{\"flags\": ~[\"off\"], \"redirect\": :-1, \"prefixes\": []}");
}

#[test]
fn idle_clients_are_closed_after_the_timeout_but_not_monitors() {
    let mut rig = Rig::with(&[("timeout", "10")]);
    let monitor = rig.connect();
    rig.run_as(monitor, "MONITOR");
    let lazy = rig.connect();
    rig.pass_ms(9000);
    rig.run("PING");
    rig.pass_ms(2000);
    rig.cron();
    assert!(rig.is_closing(lazy));
    assert!(!rig.is_closing(monitor) && !rig.is_closing(rig.client));
}

#[test]
fn a_reply_beyond_the_hard_limit_is_not_sent() {
    let mut rig = Rig::with(&[("client-output-buffer-limit", "normal 9000 0 0")]);
    rig.check(&format!("SET k {}", "x".repeat(6000)), "+OK");
    assert_eq!(rig.run("GET k").len(), 6002);
    assert_eq!(rig.bytes(rig.client, b"GET k\r\nGET k\r\nSET k v\r\n"), b"");
    assert!(rig.is_closing(rig.client));
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "GET k").len(), 6002, "the rest of the pipeline did not run");
    assert!(rig.run_as(other, "INFO stats").contains("client_output_buffer_limit_disconnections:1\\r\\n"));
}

#[test]
fn a_client_above_the_soft_limit_has_its_seconds() {
    let mut rig = Rig::with(&[("client-output-buffer-limit", "normal 0 1000 3")]);
    rig.check(&format!("SET k {}", "x".repeat(2000)), "+OK");
    let reader = rig.connect();
    let taken = |rig: &mut Rig| rig.engine.take_output(reader).map_or(0, |(outbox, _)| outbox.len());
    rig.run("PING");
    let words: &[&[u8]] = &[b"GET", b"k"];
    assert!(rig.argv(reader, words).len() > 2000, "what is read at once is no matter");
    // The server has taken the output but never sends it, so the reader lags.
    let mut parser = sluice_resp::Parser::new();
    let mut requests = sluice_resp::Requests::new();
    let input = b"GET k\r\n";
    let limits = sluice_resp::ParseLimits::new(sluice_resp::AuthState::Authenticated, 1 << 20, 16);
    parser.parse(input, &limits, &mut requests);
    rig.engine.submit(reader, input, &requests, &mut rig.process);
    assert!(taken(&mut rig) > 2000);
    for _ in 0..3 {
        rig.pass_ms(1000);
        rig.cron();
        assert!(!rig.is_closing(reader));
    }
    rig.pass_ms(1500);
    rig.cron();
    assert!(rig.is_closing(reader));
}

#[test]
fn words_of_client_end_at_a_zero_byte() {
    check(&[
        (r#"CLIENT SETINFO "x\x00y" 1"#, "-ERR Unrecognized option 'x'"),
        (
            r#"CLIENT SETINFO "lib-Name\x00" "b c""#,
            "-ERR lib-Name cannot contain spaces, newlines or special characters.",
        ),
        (r#"CLIENT LIST USER "x\x00y""#, "-ERR No such user 'x'"),
        (r#"CLIENT LIST TYPE "x\x00y""#, "-ERR Unknown client type 'x'"),
        (r#"CLIENT LIST FLAGS "q\x00q""#, "-ERR Unknown flags found in the provided filter: q"),
        (r#"CLIENT LIST NOT-CAPA "q\x00q""#, "-ERR Unknown capa found in the NOT-CAPA filter: q"),
        (r#"CLIENT LIST "IDLE\x00" 0"#, "-ERR idle should be greater than 0"),
        (r#"CLIENT NO-EVICT "on\x00""#, "+OK"),
    ]);
}

#[test]
fn a_name_is_shown_up_to_a_zero_byte() {
    let mut rig = Rig::new();
    rig.check(r#"CLIENT SETNAME "a\x00b\n""#, "+OK");
    rig.check("CLIENT GETNAME", r#""a\x00b\n""#);
    assert!(rig.run("CLIENT INFO").contains(" name=a age="));
}

#[test]
fn an_empty_list_of_ids_chooses_nobody() {
    check(&[
        ("CLIENT LIST ID", "-ERR syntax error"),
        ("CLIENT LIST ID x", "-ERR syntax error"),
        ("CLIENT LIST ID ID", "\"\""),
        ("CLIENT LIST ID TYPE normal", "\"\""),
        ("CLIENT LIST ID IDLE 0", "-ERR idle should be greater than 0"),
        ("CLIENT KILL ID SKIPME yes", ":0"),
        ("CLIENT KILL NOT-ID TYPE pubsub", ":0"),
    ]);
    assert!(Rig::new().run("CLIENT LIST NOT-ID TYPE normal").starts_with("\"id=1 "));
}

#[test]
fn client_list_takes_ids_in_any_order_and_twice() {
    let mut rig = Rig::new();
    for _ in 0..4 {
        rig.connect();
    }
    let text = rig.run("CLIENT LIST ID 5 2 5 ID 3 2 99");
    let shown = (1..=5).filter(|id| text.contains(&format!("id={id} addr"))).collect::<Vec<_>>();
    assert_eq!(shown, [2, 3, 5], "{text}");
    let text = rig.run("CLIENT LIST NOT-ID 5 2 5");
    let shown = (1..=5).filter(|id| text.contains(&format!("id={id} addr"))).collect::<Vec<_>>();
    assert_eq!(shown, [1, 3, 4], "{text}");
}

/// An import source sees expired keys, as a primary does, but has the limits of a client.
#[test]
fn an_import_source_has_the_limits_of_a_client() {
    let mut rig = Rig::with(&[("import-mode", "yes"), ("proto-max-bulk-len", "1mb")]);
    let replica = rig.replica();
    rig.check("CLIENT IMPORT-SOURCE ON", "+OK");
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    rig.check("SETRANGE k 2000000 x", too_long);
    rig.check("SETBIT k 16000000 1", "-ERR bit offset is not an integer or out of range");
    rig.check(
        "XADD s MAXLEN 1 LIMIT 5 1-1 a b",
        "-ERR syntax error, LIMIT cannot be used without the special ~ option",
    );
    rig.run("XADD s 1-1 a b");
    rig.run("XGROUP CREATE s g 0");
    rig.fed(replica);
    let now_ms = rig.process.now.unix_ms();
    rig.run(&format!("XCLAIM s g c 0 1-1 FORCE TIME {}", now_ms + 1_000_000));
    let fed = rig.fed(replica);
    assert!(fed.contains(&format!("TIME {now_ms} ")), "a time ahead is now: {fed}");
}

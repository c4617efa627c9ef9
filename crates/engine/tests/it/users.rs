//! Users: authentication, refusals, waits after which rights are checked again, and clients whose
//! user changes. The meaning of rules is tested in the crate `acl`, and against the reference by
//! `cargo xtask differential`.

use sluice_base::SessionKey;
use sluice_commands::{MigrationOutcome, WaitFor};
use sluice_control::process::AofBacklog;
use sluice_testkit::{Rig, render};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const NO_SET: &str = "-NOPERM User u has no permissions to run the 'set' command";
const NO_KEY: &str = "-NOPERM No permissions to access a key";

fn got(rig: &mut Rig, client: SessionKey) -> String {
    render(&rig.output(client))
}

/// A rig, and a client that acts as the user `u` with these rules.
fn with_user(rules: &str) -> (Rig, SessionKey) {
    let mut rig = Rig::new();
    let client = user(&mut rig, rules);
    (rig, client)
}

/// A client that acts as the user `u` with these rules.
fn user(rig: &mut Rig, rules: &str) -> SessionKey {
    rig.check(&format!("ACL SETUSER u on >pw {rules}"), "+OK");
    let client = rig.connect();
    rig.check_as(client, "AUTH u pw", "+OK");
    client
}

#[test]
fn whoever_gives_the_right_name_and_password_is_let_in() {
    let (mut rig, client) = with_user("+@all ~*");
    rig.check_as(client, "ACL WHOAMI", "\"u\"");
    for (line, expected) in [
        ("AUTH u wrong", WRONG),
        ("AUTH nobody pw", WRONG),
        ("HELLO 2 AUTH u wrong", WRONG),
        ("ACL SETUSER u off", "+OK"),
        ("AUTH u pw", WRONG),
        ("ACL SETUSER u on nopass", "+OK"),
        ("AUTH u anything", "+OK"),
        ("ACL WHOAMI", "\"u\""),
        ("RESET", "+RESET"),
        ("ACL WHOAMI", "\"default\""),
    ] {
        rig.check(line, expected);
    }
    let log = rig.run("ACL LOG");
    assert_eq!(log.matches("\"auth\"").count(), 2 + 1, "two users, and HELLO: {log}");
    assert!(rig.run("INFO stats").contains("acl_access_denied_auth:4"));
}

#[test]
fn a_default_user_that_is_closed_lets_nobody_in() {
    let mut rig = Rig::new();
    let before = rig.connect();
    rig.check("ACL SETUSER default off", "+OK");
    let behind = rig.connect();
    rig.check_as(behind, "GET k", "-NOAUTH Authentication required.");
    rig.check_as(before, "GET k", "nil");
    rig.check("ACL SETUSER default on resetpass >pw", "+OK");
    rig.check_as(behind, "AUTH pw", "+OK");
    rig.check_as(behind, "GET k", "nil");
    rig.check("CONFIG SET requirepass other", "+OK");
    let latest = rig.connect();
    rig.check_as(latest, "AUTH pw", WRONG);
    rig.check_as(latest, "AUTH other", "+OK");
    rig.check("CONFIG SET requirepass \"\"", "+OK");
    let open = rig.connect();
    rig.check_as(open, "GET k", "nil");
}

#[test]
fn what_a_user_may_not_do_is_refused_logged_and_counted() {
    let (mut rig, client) = with_user("+get +set +publish +select ~mine:* &news db=0,1");
    for (line, expected) in [
        ("SET mine:a 1", "+OK"),
        ("SET other 1", NO_KEY),
        ("DEL mine:a", "-NOPERM User u has no permissions to run the 'del' command"),
        ("PUBLISH news x", ":0"),
        ("PUBLISH olds x", "-NOPERM No permissions to access a channel"),
        ("SELECT 2", "-NOPERM No permissions to access database"),
        ("SET", "-ERR wrong number of arguments for 'set' command"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
    ] {
        rig.check_as(client, line, expected);
    }
    let log = rig.run("ACL LOG");
    for (reason, object) in [("key", "other"), ("command", "del"), ("channel", "olds"), ("database", "2")] {
        let entry = format!(
            "\"reason\", \"{reason}\", \"context\", \"toplevel\", \"object\", \"{object}\", \"username\", \"u\""
        );
        assert!(log.contains(&entry), "{entry} in {log}");
    }
    let stats = rig.run("INFO stats");
    for name in ["cmd", "key", "channel", "db"] {
        assert!(stats.contains(&format!("acl_access_denied_{name}:1")), "{name}");
    }
    assert!(rig.run("INFO commandstats").contains("cmdstat_set:calls=1,"), "what is refused is no call");
}

#[test]
fn words_that_are_names_hide_no_key() {
    let (mut rig, client) = with_user("+@all ~mine ~by ~limit ~STREAMS ~c");
    for line in ["RPUSH mine 1 2", "SET other secret", "XADD stream 1-1 f secret"] {
        rig.run(line);
    }
    for group in ["g", "STREAMS"] {
        rig.check(&format!("XGROUP CREATE stream {group} 0"), "+OK");
    }
    for (line, expected) in [
        ("SORT mine STORE by STORE other", NO_KEY),
        ("SORT mine STORE limit STORE other", NO_KEY),
        ("SORT mine STORE other STORE by", ":2"),
        ("SORT mine STORE mine LIMIT 0 1 STORE limit", ":1"),
        ("XREADGROUP COUNT 1 GROUP g STREAMS STREAMS stream >", NO_KEY),
        ("XREADGROUP COUNT 1 GROUP STREAMS c STREAMS stream >", NO_KEY),
        ("XREADGROUP GROUP STREAMS STREAMS NOACK BLOCK 1 STREAMS stream c > >", NO_KEY),
        ("XREADGROUP GROUP g STREAMS STREAMS STREAMS >", NO_GROUP),
    ] {
        rig.check_as(client, line, expected);
    }
    rig.check("COMMAND GETKEYS XREADGROUP GROUP STREAMS c STREAMS stream >", "[\"stream\"]");
    rig.check("COMMAND GETKEYS SORT mine STORE by STORE other", "[\"mine\", \"other\"]");
}

const NO_GROUP: &str = "-NOGROUP No such key 'STREAMS' or consumer group 'g' in XREADGROUP with GROUP option";

#[test]
fn keys_are_asked_for_where_their_number_can_be_read_at_all() {
    let (mut rig, client) = with_user("+@all ~mine*");
    let sum = "-ERR at least 1 input key is needed for 'zunionstore' command";
    for (line, expected) in [
        ("ZUNIONSTORE other 0 mine", sum),
        ("ZUNIONSTORE other 1x mine", NO_KEY),
        ("ZUNIONSTORE mine 0 other", sum),
        ("ZDIFFSTORE other 3 mine", "-ERR syntax error"),
        ("ZINTERSTORE other x mine", "-ERR value is not an integer or out of range"),
        ("LMPOP 01 other LEFT", NO_KEY),
        ("LMPOP 01 mine LEFT", "-ERR numkeys should be greater than 0"),
        ("EVAL \"return 1\" +1 other", NO_KEY),
        ("EVAL \"return 1\" 4294967297 other", NO_KEY),
        ("EVAL \"return 1\" 0 other", ":1"),
    ] {
        rig.check_as(client, line, expected);
    }
}

#[test]
fn a_refusal_aborts_the_transaction_that_is_queued() {
    let (mut rig, client) = with_user("+@all -del ~*");
    rig.run_as(client, "MULTI");
    rig.check_as(client, "SET k 1", "+QUEUED");
    rig.check_as(client, "DEL k", "-NOPERM User u has no permissions to run the 'del' command");
    rig.check_as(client, "EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    rig.check("GET k", "nil");
    assert!(rig.run("ACL LOG").contains("\"context\", \"multi\", \"object\", \"del\""));
}

#[test]
fn a_queued_select_says_in_which_database_the_next_command_is_asked() {
    let (mut rig, client) = with_user("+@all ~* db=0,1");
    rig.run_as(client, "SELECT 1");
    for (line, expected) in [
        ("MULTI", "+OK"),
        ("SELECT 0", "+QUEUED"),
        ("SET k 1", "+QUEUED"),
        ("SELECT 3", "-NOPERM No permissions to access database"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("SET k 1", "+QUEUED"),
        ("SELECT 0", "+QUEUED"),
        ("GET k", "+QUEUED"),
        ("EXEC", "[+OK, +OK, nil]"),
    ] {
        rig.check_as(client, line, expected);
    }
}

/// The ways in which a request waits, each with the test that rights are checked again when it goes on.
/// A new way needs a new test.
const fn tested_by(on: &WaitFor) -> &'static str {
    match on {
        WaitFor::Pause => "behind_a_pause, behind_a_migration_of_its_key, behind_a_log_that_is_full",
        WaitFor::Held => "behind_a_unit_that_stood_open",
        WaitFor::Turn => "behind_the_scripts_of_others",
        WaitFor::SlowRead { .. } => "behind_slow_reads_of_others",
        WaitFor::Keys(_) => "behind_a_key",
        WaitFor::UserLoads => "behind_the_loads_of_others",
        // The command has run, and the client waits only for the rest of its reply.
        WaitFor::Unit => "in_an_exec_that_stood_still",
        WaitFor::Load
        | WaitFor::Users
        | WaitFor::Shutdown
        | WaitFor::Reply
        | WaitFor::Migration(_)
        | WaitFor::Cluster(_)
        | WaitFor::ReplicasFirst { .. }
        | WaitFor::Replicas { .. } => "nothing is looked at again",
    }
}

#[test]
fn every_way_to_wait_is_listed() {
    assert_eq!(tested_by(&WaitFor::Held), "behind_a_unit_that_stood_open");
}

/// Takes the right to SET from `u`, and lets the client, whose SET of `k` waits, continue. The reply must be
/// a refusal that is logged, and nothing may have changed.
fn refused_behind(rig: &mut Rig, client: SessionKey, go_on: impl FnOnce(&mut Rig)) {
    assert_eq!(got(rig, client), "", "it waits");
    rig.check("ACL SETUSER u -set", "+OK");
    go_on(rig);
    assert_eq!(got(rig, client), NO_SET);
    rig.check("GET k", "nil");
    assert!(rig.run("ACL LOG").contains("\"object\", \"set\""));
}

#[test]
fn behind_a_pause() {
    let (mut rig, client) = with_user("+@all ~*");
    rig.check("CLIENT PAUSE 100000 WRITE", "+OK");
    rig.run_as(client, "SET k new");
    refused_behind(&mut rig, client, |rig| rig.check("CLIENT UNPAUSE", "+OK"));
}

#[test]
fn behind_a_migration_of_its_key() {
    let (mut rig, client) = with_user("+@all ~*");
    let mover = rig.connect();
    rig.check("SET k old", "+OK");
    assert_eq!(rig.run_as(mover, "MIGRATE h 1 k 0 1000"), "");
    let migration = rig.migrations.pop().unwrap();
    rig.run_as(client, "SET k new");
    refused_behind(&mut rig, client, |rig| {
        let outcome = MigrationOutcome { taken: vec![0], error: None };
        rig.engine.end_migration(migration.id, outcome, &mut rig.process);
    });
}

#[test]
fn behind_a_log_that_is_full() {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    let client = user(&mut rig, "+@all ~*");
    rig.engine.report_aof_backlog(AofBacklog::Full, &mut rig.process);
    rig.run_as(client, "SET k new");
    refused_behind(&mut rig, client, |rig| rig.engine.report_aof_backlog(AofBacklog::Fine, &mut rig.process));
}

#[test]
fn behind_a_unit_that_stood_open() {
    let (mut rig, client) = with_user("+@all ~*");
    for line in ["MULTI", "DEBUG STAND-STILL 1000", "ACL SETUSER u -set"] {
        rig.run(line);
    }
    assert_eq!(rig.run("EXEC"), "");
    assert_eq!(rig.run_as(client, "SET k new"), "", "it is held");
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    let own = rig.client;
    assert_eq!(got(&mut rig, own), "[+OK, +OK]");
    assert_eq!(got(&mut rig, client), NO_SET);
    rig.check("GET k", "nil");
}

#[test]
fn behind_the_scripts_of_others() {
    let (mut rig, client) = with_user("+@all ~*");
    let other = rig.connect();
    rig.process.us_each_look = 30_000;
    rig.argv_unread(other, &[b"EVAL", b"return 1", b"0"]);
    rig.process.us_each_look = 1;
    rig.argv_unread(client, &[b"EVAL", b"return server.call('SET', 'k', 'new')", b"0"]);
    rig.check("ACL SETUSER u -eval", "+OK");
    rig.end_iteration();
    rig.engine.advance_unit(&mut rig.process);
    assert_eq!(got(&mut rig, client), "-NOPERM User u has no permissions to run the 'eval' command");
    rig.check("GET k", "nil");
}

#[test]
fn behind_a_key() {
    let (mut rig, client) = with_user("+@all ~*");
    let keyless = user(&mut rig, "");
    assert_eq!(rig.run_as(client, "BLPOP l 0"), "");
    assert_eq!(rig.run_as(keyless, "BLMOVE l d LEFT LEFT 0"), "");
    rig.check("ACL SETUSER u resetkeys ~l", "+OK");
    rig.check("RPUSH l a b", ":2");
    assert_eq!(got(&mut rig, client), "[\"l\", \"a\"]", "its key is still its own");
    assert_eq!(got(&mut rig, keyless), NO_KEY, "of two keys one is not");
    rig.check("LRANGE l 0 -1", "[\"b\"]");
}

#[test]
fn behind_slow_reads_of_others() {
    let mut rig = Rig::with(&[("slow-read-elements", "10")]);
    let client = user(&mut rig, "+@all ~*");
    let elements: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    rig.run(&format!("RPUSH l {}", elements.join(" ")));
    rig.holds_reads = true;
    // One thread produces replies, so the second read waits for it.
    let other = rig.connect();
    rig.run_as(other, "LRANGE l 0 -1");
    assert_eq!(rig.run_as(client, "LRANGE l 0 -1"), "");
    rig.check("ACL SETUSER u -lrange", "+OK");
    rig.finish_read();
    assert_eq!(got(&mut rig, client), "-NOPERM User u has no permissions to run the 'lrange' command");
}

#[test]
fn in_an_exec_that_stood_still() {
    let (mut rig, client) = with_user("+@all ~*");
    for line in ["MULTI", "DEBUG STAND-STILL 1000", "ACL SETUSER u -set ~*", "SET k new", "GET k"] {
        rig.run_as(client, line);
    }
    assert_eq!(rig.run_as(client, "EXEC"), "");
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert_eq!(
        got(&mut rig, client),
        "[+OK, +OK, -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
         This command is no longer allowed for the following reason: no permission to execute the command or \
         subcommand, nil]"
    );
    assert!(rig.run("ACL LOG").contains("\"context\", \"multi\", \"object\", \"set\""));
}

#[test]
fn what_scripts_call_is_asked_of_their_client_s_user() {
    let (mut rig, client) = with_user("+@all -set ~mine:*");
    rig.run("FUNCTION LOAD \"#!lua name=l\nserver.register_function('f', function(k, a) return server.call(unpack(a)) end)\"");
    for (line, told) in [
        ("SET mine:a 1", "User u has no permissions to run the 'set' command"),
        ("INCR other", "No permissions to access a key"),
    ] {
        for call in ["EVAL \"return server.call(unpack(ARGV))\" 0", "FCALL f 0"] {
            let reply = rig.run_as(client, &format!("{call} {line}"));
            assert!(reply.starts_with(&format!("-ERR ACL failure in script: {told} script: ")), "{reply}");
        }
    }
    rig.check("EXISTS mine:a other", ":0");
    for (call, allowed) in [("'SET','mine:a','1'", "nil"), ("'GET','mine:a'", ":1"), ("'GET','other'", "nil")]
    {
        rig.check_as(client, &format!("EVAL \"return server.acl_check_cmd({call})\" 0"), allowed);
    }
    assert!(rig.run("ACL LOG").contains("\"context\", \"lua\", \"object\", \"set\""));
}

#[test]
fn scripts_may_ask_about_calls_that_lack_arguments() {
    let (mut rig, client) = with_user("+eval +get +set +mset +config +xread ~p*");
    let invalid = "-ERR Invalid command passed to server.acl_check_cmd() script: on @user_script:1.";
    for (call, allowed) in [
        ("get", ":1"),
        ("get k", "nil"),
        ("get p1 too many", ":1"),
        ("set k", "nil"),
        ("set p1", ":1"),
        ("mset a", "nil"),
        ("config", ":1"),
        ("config get", ":1"),
        ("config nope", invalid),
        ("nope", invalid),
        ("eval", ":1"),
        ("xread x", ":1"),
        ("del", "nil"),
    ] {
        let line = format!("EVAL \"return server.acl_check_cmd(unpack(ARGV))\" 0 {call}");
        assert_eq!(rig.run_as(client, &line), allowed, "{call}");
    }
    assert!(!rig.run("ACL LOG").contains("lua"), "who asks is not logged");
}

#[test]
fn sort_reads_the_keys_that_elements_name_for_whoever_may_read_all() {
    let (mut rig, client) = with_user("+@all ~l");
    rig.run("RPUSH l 1 2");
    let by = "-ERR BY option of SORT denied due to insufficient ACL permissions.";
    let get = "-ERR GET option of SORT denied due to insufficient ACL permissions.";
    for (line, expected) in [
        ("SORT l BY w_*", by),
        ("SORT_RO l BY w_*", by),
        ("SORT l GET #", get),
        ("SORT l BY nosort", "[\"1\", \"2\"]"),
        ("EVAL \"return server.pcall('SORT', 'l', 'BY', 'w_*').err\" 1 l", &format!("\"{}\"", &by[1..])),
    ] {
        rig.check_as(client, line, expected);
    }
    rig.check("ACL SETUSER u %R~*", "+OK");
    rig.check_as(client, "SORT l BY w_*", "[\"1\", \"2\"]");
}

#[test]
fn clients_of_a_deleted_user_are_closed() {
    let (mut rig, client) = with_user("+@all ~*");
    let (blocked, own) = (user(&mut rig, ""), user(&mut rig, ""));
    assert_eq!(rig.run_as(blocked, "BLPOP l 0"), "");
    rig.check("ACL DELUSER u default", "-ERR The 'default' user cannot be removed");
    rig.check_as(own, "ACL DELUSER u nobody", ":1");
    for closed in [client, blocked, own] {
        assert!(rig.is_closing(closed));
    }
    rig.check("RPUSH l a", ":1");
    rig.check("LRANGE l 0 -1", "[\"a\"]");
    assert!(!rig.is_closing(rig.client));
    rig.check("CLIENT LIST USER u", "-ERR No such user 'u'");
}

#[test]
fn who_deletes_its_own_user_in_a_transaction_has_no_rights_for_the_rest() {
    let (mut rig, client) = with_user("+@all ~p*");
    rig.check("SET secret s", "+OK");
    let lines = [
        "MULTI",
        "ACL DELUSER u",
        "ACL WHOAMI",
        "EVAL \"return server.call('SET', 'p:out', server.call('GET', 'secret'))\" 0",
        "DEBUG STAND-STILL 1000",
        "SET p 1",
    ];
    for line in lines {
        rig.run_as(client, line);
    }
    let refused = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                   This command is no longer allowed for the following reason: no permission to execute the command or \
                   subcommand";
    rig.check_as(client, "EXEC", &format!("[:1, {refused}, {refused}, {refused}, {refused}]"));
    assert!(rig.is_closing(client));
    rig.check("KEYS *", "[\"secret\"]");
    assert!(rig.run("ACL LOG 1").contains("\"username\", \"u\""), "the log names whom it refused");
}

/// A rig with a file of users whose loads are held after the check, and a client that acts as `u`.
fn with_held_loads(file: &str) -> (Rig, SessionKey) {
    let mut rig = Rig::with(&[("aclfile", "users.acl")]);
    let client = user(&mut rig, "+@all ~p*");
    set_file(&mut rig, file);
    rig.holds_user_loads = true;
    (rig, client)
}

fn set_file(rig: &mut Rig, text: &str) {
    let text = format!("user default on nopass ~* &* +@all\n{text}");
    rig.process.user_files.insert(b"users.acl".to_vec(), text.into_bytes());
}

#[test]
fn a_file_is_put_in_force_behind_a_unit_that_stands_open() {
    for (file, ends) in [("", true), ("user u on nopass +get ~*\n", false)] {
        let (mut rig, client) = with_held_loads(file);
        rig.check("SET secret s", "+OK");
        let own = rig.client;
        rig.argv_unread(own, &[b"ACL", b"LOAD"]);
        let steal = "EVAL \"return type(server.pcall('GET', 'secret'))\" 0";
        for line in ["MULTI", "DEBUG STAND-STILL 1000", steal, "SET p 1", "ACL WHOAMI", "RPUSH pl x"] {
            rig.run_as(client, line);
        }
        assert_eq!(rig.run_as(client, "EXEC"), "");
        assert_eq!(rig.finish_user_loads(), 1);
        assert_eq!(rig.engine.take_refused_between_units(), ["Users"]);
        assert_eq!(got(&mut rig, own), "", "the load has not happened");
        assert!(!rig.is_closing(client));
        rig.pass_ms(1000);
        rig.engine.advance_unit(&mut rig.process);
        assert_eq!(got(&mut rig, own), "+OK");
        assert_eq!(rig.is_closing(client), ends);
        rig.check("EXISTS p pl", ":2");
        let log = rig.run("ACL LOG");
        assert!(log.contains("\"object\", \"secret\", \"username\", \"u\""), "{log}");
        if !ends {
            let reply = got(&mut rig, client);
            assert_eq!(reply, "[+OK, \"table\", +OK, \"u\", :1]", "the rights of before, to the end");
            rig.check_as(client, "SET p 2", NO_SET);
        }
    }
}

#[test]
fn a_script_that_stands_still_keeps_the_rights_with_which_it_began() {
    for file in ["", "user u on nopass +@all -set ~p*\n"] {
        let (mut rig, client) = with_held_loads(file);
        rig.check("SET secret s", "+OK");
        let own = rig.client;
        rig.argv_unread(own, &[b"ACL", b"LOAD"]);
        rig.process.us_each_look = 1000;
        let text = "for i = 1, 100 do for j = 1, 500 do end server.call('SET', 'p', i) \
                    if type(server.pcall('GET', 'secret')) == 'string' then return 'stolen' end end \
                    return server.call('GET', 'p')";
        rig.argv_unread(client, &[b"EVAL", text.as_bytes(), b"0"]);
        assert!(rig.engine.has_open_unit(), "it stands still");
        assert_eq!(rig.finish_user_loads(), 1);
        while rig.engine.has_open_unit() {
            rig.engine.advance_unit(&mut rig.process);
        }
        assert_eq!(got(&mut rig, own), "+OK");
        rig.check("GET p", "\"100\"");
    }
}

#[test]
fn a_unit_whose_client_has_gone_is_told_of_what_it_changes() {
    let (mut rig, client) = with_user("+@all ~*");
    for line in
        ["MULTI", "DEBUG STAND-STILL 1000", "SET a 1", "ACL SETUSER u -set", "SET b 1", "ACL DELUSER u"]
    {
        rig.run_as(client, line);
    }
    rig.run_as(client, "DEL a");
    rig.run_as(client, "EXEC");
    rig.engine.disconnect(client, &mut rig.process);
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    rig.check("KEYS *", "[\"a\"]");
}

#[test]
fn of_two_loads_the_later_has_the_last_word() {
    let (mut rig, _) = with_held_loads("user eve on nopass\n");
    let (first, second, third) = (rig.client, rig.connect(), rig.connect());
    rig.check_as(first, "ACL LOAD", "");
    set_file(&mut rig, "");
    rig.check_as(second, "ACL LOAD", "");
    rig.check_as(third, "ACL LOAD", "");
    assert_eq!(rig.user_loads.len(), 1, "one at a time");
    rig.finish_user_loads();
    assert_eq!(got(&mut rig, first), "+OK");
    assert_eq!((got(&mut rig, second), rig.user_loads.len()), (String::new(), 1));
    rig.check("ACL GETUSER nobody", "nil");
    rig.check("ACL USERS", "[\"default\", \"eve\"]");
    set_file(&mut rig, "zzz\n");
    rig.finish_user_loads();
    assert_eq!((got(&mut rig, second), got(&mut rig, third)), ("+OK".to_owned(), String::new()));
    rig.check("ACL USERS", "[\"default\"]");
    rig.finish_user_loads();
    assert!(got(&mut rig, third).starts_with("-ERR users.acl:2 should start with user keyword"));
    assert_eq!(rig.finish_user_loads(), 0);
    set_file(&mut rig, "");
    rig.holds_user_loads = false;
    rig.check("ACL LOAD", "+OK");
}

#[test]
fn behind_the_loads_of_others() {
    let (mut rig, client) = with_held_loads("user u on nopass +@all -acl ~*\n");
    let (gone, last) = (rig.connect(), rig.connect());
    rig.check("ACL LOAD", "");
    rig.check_as(client, "ACL LOAD", "");
    rig.check_as(gone, "ACL LOAD", "");
    rig.check_as(last, "ACL LOAD", "");
    rig.engine.disconnect(gone, &mut rig.process);
    rig.finish_user_loads();
    assert_eq!(got(&mut rig, client), "-NOPERM User u has no permissions to run the 'acl|load' command");
    assert_eq!(rig.user_loads.len(), 1, "whoever has gone loads nothing");
    rig.finish_user_loads();
    assert_eq!(got(&mut rig, last), "+OK");
}

#[test]
fn a_load_that_was_overtaken_by_a_change_reads_its_file_again() {
    let changes = [
        "ACL SETUSER eve off",
        "ACL DELUSER eve",
        "ACL SETROLE r +get",
        "ACL DELROLE r",
        "ACL SAVE",
        "CONFIG SET requirepass x",
        "CONFIG SET acl-pubsub-default allchannels",
    ];
    for change in changes {
        let (mut rig, _) = with_held_loads("user eve on nopass\n");
        let other = rig.connect();
        rig.check("ACL LOAD", "");
        rig.run_as(other, change);
        set_file(&mut rig, "user late on\n");
        rig.finish_user_loads();
        let own = rig.client;
        assert_eq!((got(&mut rig, own), rig.user_loads.len()), (String::new(), 1), "{change}");
        rig.finish_user_loads();
        assert_eq!(got(&mut rig, own), "+OK");
        rig.check("ACL USERS", "[\"default\", \"late\"]");
    }
    // Commands that change no users, and no setting of theirs, do not make the load read its file again.
    let (mut rig, client) = with_held_loads("user u on nopass +@all ~*\n");
    rig.check("ACL LOAD", "");
    for line in ["ACL LIST", "ACL GETUSER u", "AUTH u pw", "ACL DRYRUN u GET k", "CONFIG SET hz 20"] {
        rig.run_as(client, line);
    }
    rig.finish_user_loads();
    let own = rig.client;
    assert_eq!((got(&mut rig, own), rig.user_loads.len()), ("+OK".to_owned(), 0));
}

#[test]
fn deleted_and_saved_while_a_file_is_loaded_a_user_stays_away() {
    let (mut rig, client) = with_held_loads("user eve on nopass\n");
    rig.check("ACL SETUSER eve on nopass", "+OK");
    rig.check_as(client, "ACL LOAD", "");
    rig.check("ACL DELUSER eve", ":1");
    rig.check("ACL SAVE", "+OK");
    rig.finish_user_loads();
    rig.finish_user_loads();
    assert_eq!(got(&mut rig, client), "+OK");
    rig.check("ACL GETUSER eve", "nil");
}

#[test]
fn changes_without_end_do_not_keep_a_load_from_its_own() {
    let (mut rig, _) = with_held_loads("user late on\n");
    let (own, other, next) = (rig.client, rig.connect(), rig.connect());
    rig.check("ACL LOAD", "");
    rig.check_as(next, "ACL LOAD", "");
    let mut rounds = 0;
    let reply = loop {
        rig.check_as(other, "ACL SETUSER busy on", "+OK");
        rig.finish_user_loads();
        rounds += 1;
        let reply = got(&mut rig, own);
        if !reply.is_empty() {
            break reply;
        }
        assert!(rounds < 10, "a load has an end");
    };
    assert_eq!((reply.as_str(), rounds), ("+OK", 3));
    rig.check_as(other, "ACL USERS", "[\"default\", \"late\"]");
    // The next load counts its attempts from the beginning.
    rig.check_as(other, "ACL SETUSER busy on", "+OK");
    rig.finish_user_loads();
    assert_eq!((got(&mut rig, next), rig.user_loads.len()), (String::new(), 1));
    rig.finish_user_loads();
    assert_eq!(got(&mut rig, next), "+OK");
}

#[test]
fn who_was_deleted_while_its_file_is_loaded_loads_nothing() {
    let (mut rig, client) = with_held_loads("user u on nopass +@all ~*\n");
    rig.check_as(client, "ACL LOAD", "");
    rig.check("ACL DELUSER u", ":1");
    assert!(rig.is_closing(client));
    rig.finish_user_loads();
    assert!(rig.user_loads.is_empty());
    rig.check("ACL USERS", "[\"default\"]");
    let noted = rig.process.log.iter().any(|(_, line)| line.contains("ACL LOAD was stopped"));
    assert!(noted, "{:?}", rig.process.log);
    // The load of a client that has gone takes effect unless another change overtakes it.
    let other = rig.connect();
    rig.check_as(other, "ACL LOAD", "");
    rig.engine.disconnect(other, &mut rig.process);
    rig.finish_user_loads();
    rig.check("ACL USERS", "[\"default\", \"u\"]");
}

#[test]
fn subscribers_end_with_their_channels_and_no_others_do() {
    let (mut rig, news) = with_user("+@all ~* resetchannels &news &old*");
    let (old, pattern, nothing) = (user(&mut rig, ""), user(&mut rig, ""), user(&mut rig, ""));
    rig.run_as(news, "SUBSCRIBE news");
    rig.run_as(old, "SSUBSCRIBE old1");
    rig.run_as(pattern, "PSUBSCRIBE old*");
    rig.check("ACL SETUSER u &more", "+OK");
    rig.check("ACL SETUSER u resetchannels &news", "+OK");
    let closed = [news, old, pattern, nothing].map(|client| rig.is_closing(client));
    assert_eq!(closed, [false, true, true, false]);
    rig.check("PUBLISH old1 x", ":0");
}

#[test]
fn a_file_is_loaded_as_a_whole_or_not_at_all() {
    let mut rig = Rig::with(&[("aclfile", "users.acl")]);
    let stays = user(&mut rig, "+@all ~*");
    rig.check("ACL SETUSER v on nopass +@all ~*", "+OK");
    let goes = rig.connect();
    rig.check_as(goes, "AUTH v x", "+OK");
    rig.check("ACL SAVE", "+OK");
    let saved = rig.process.user_files[b"users.acl".as_slice()].clone();
    assert!(saved.starts_with(b"user default on nopass"), "{}", saved.escape_ascii());
    let broken = [&saved[..], b"user w +nosuch\n"].concat();
    rig.process.user_files.insert(b"users.acl".to_vec(), broken);
    let refusal = rig.run("ACL LOAD");
    assert!(refusal.starts_with("-ERR users.acl:4: Error in applying operation '+nosuch'"), "{refusal}");
    assert!(!rig.is_closing(goes) && !rig.is_closing(stays));
    let text = b"user u on nopass +get ~*\n".to_vec();
    rig.process.user_files.insert(b"users.acl".to_vec(), text);
    rig.check("ACL LOAD", "+OK");
    assert!(rig.is_closing(goes) && !rig.is_closing(stays));
    rig.check_as(stays, "SET k 1", NO_SET);
    rig.check("ACL USERS", "[\"default\", \"u\"]");
    rig.process.user_files.clear();
    let refusal = rig.run("ACL LOAD");
    assert_eq!(refusal, "-ERR Error loading ACLs, opening file 'users.acl': No such file or directory");
}

#[test]
fn who_loads_a_file_without_its_own_user_has_the_answer_and_ends() {
    let mut rig = Rig::with(&[("aclfile", "users.acl")]);
    let client = user(&mut rig, "+@all ~*");
    rig.process.user_files.insert(b"users.acl".to_vec(), b"user default on nopass +@all\n".to_vec());
    rig.check_as(client, "ACL LOAD", "+OK");
    assert!(rig.is_closing(client));
    rig.run("ACL SETUSER v on nopass");
    for (line, expected) in [("MULTI", "+OK"), ("ACL LOAD", "+QUEUED"), ("ACL USERS", "+QUEUED")] {
        rig.check(line, expected);
    }
    rig.check("EXEC", "[+OK, [\"default\"]]");
}

#[test]
fn without_a_file_there_is_nothing_to_load() {
    let mut rig = Rig::new();
    for line in ["ACL LOAD", "ACL SAVE"] {
        assert!(rig.run(line).starts_with("-ERR This instance is not configured to use an ACL file. "));
    }
}

#[test]
fn secrets_are_shown_to_nobody() {
    let mut rig = Rig::new();
    rig.run("CONFIG SET slowlog-log-slower-than 0");
    let monitor = rig.connect();
    rig.run_as(monitor, "MONITOR");
    let client = rig.connect();
    for line in [
        "ACL SETUSER u on >hidden1 +@all",
        "ACL GETUSER u",
        "AUTH u hidden1",
        "HELLO 2 AUTH u hidden1",
        "ACL SETUSER u <hidden1 >hidden2",
        "AUTH u hidden3",
        "CONFIG SET requirepass hidden4",
        "ACL SETROLE r >hidden5",
        "ACL DRYRUN u AUTH u hidden6",
        "ACL DRYRUN u ACL DRYRUN u AUTH u hidden7",
        "ACL DRYRUN u COMMAND GETKEYS ACL SETUSER v on >hidden8",
        "COMMAND GETKEYS ACL DRYRUN u MIGRATE h 1 k 0 1 AUTH hidden9",
    ] {
        rig.run_as(client, line);
    }
    let shown =
        [got(&mut rig, monitor), rig.run("SLOWLOG GET -1"), rig.run("CLIENT LIST"), rig.run("ACL LOG")]
            .concat();
    assert!(shown.contains("ACL"), "the commands are there");
    assert!(!shown.contains("hidden"), "{shown}");
}

#[test]
fn secrets_are_shown_to_nobody_under_another_name() {
    let renames = [("rename-command", "AUTH LOGIN"), ("slowlog-log-slower-than", "0")];
    let mut rig = Rig::with(&renames);
    let client = rig.connect();
    for line in ["LOGIN u hidden1", "ACL DRYRUN default LOGIN u hidden2", "ACL DRYRUN default AUTH u shown"] {
        rig.run_as(client, line);
    }
    let log = rig.run("SLOWLOG GET -1");
    assert!(log.contains("LOGIN") && log.contains("shown"), "AUTH is no command any more: {log}");
    assert!(!log.contains("hidden"), "{log}");
}

#[test]
fn users_with_rules_slow_nobody_else() {
    let (mut rig, client) = with_user("+get ~*");
    assert_eq!(rig.run_as(client, "GET k"), "nil");
    let mask = |rig: &Rig, client| rig.engine.session(client).unwrap().mask;
    assert_ne!(mask(&rig, client), mask(&rig, rig.client));
    rig.check("ACL SETUSER u +@all", "+OK");
    assert_ne!(mask(&rig, client), mask(&rig, rig.client), "channels are left");
    rig.check("ACL SETUSER u &*", "+OK");
    assert_eq!(mask(&rig, client), mask(&rig, rig.client));
}

#[test]
fn roles_are_shown_by_their_commands() {
    let mut rig = Rig::new();
    rig.check("ACL ROLES", "[]");
    rig.check("ACL GETROLE none", "nil");
    let before = rig.run("ACL GETUSER default");
    assert!(!before.contains("roles"), "as 9.1 until there is a role: {before}");
    rig.check("ACL SETROLE reader ~app:* +@read (+info)", "+OK");
    rig.check("ACL SETROLE Reader +get", "+OK");
    rig.check("ACL ROLES", "[\"Reader\", \"reader\"]");
    rig.check("ACL SETUSER alice on role=reader", "+OK");
    rig.check(
        "ACL GETROLE reader",
        "[\"commands\", \"-@all +@read\", \"keys\", \"~app:*\", \"channels\", \"\", \"databases\", \"alldbs\", \
         \"selectors\", [[\"commands\", \"-@all +info\", \"keys\", \"\", \"channels\", \"\", \"databases\", \
         \"alldbs\"]], \"users\", [\"alice\"]]",
    );
    assert!(rig.run("ACL GETUSER alice").ends_with("\"selectors\", [], \"roles\", [\"reader\"]]"));
    rig.check(
        "ACL LIST",
        "[\"role Reader resetchannels -@all +get\", \
         \"role reader ~app:* resetchannels -@all +@read (resetchannels -@all +info)\", \
         \"user alice on role=reader resetchannels -@all\", \"user default on nopass ~* &* +@all\"]",
    );
    let held = "-ERR Role 'reader' is assigned to one or more users. Remove it from them first.";
    rig.check("ACL DELROLE Reader reader", held);
    rig.check("ACL SETUSER alice resetroles", "+OK");
    rig.check("ACL DELROLE Reader reader none", ":2");
    rig.check("ACL ROLES", "[]");
}

#[test]
fn a_changed_role_changes_those_who_act_by_it() {
    let mut rig = Rig::new();
    rig.check("ACL SETROLE writer +@all -@admin ~k* &a", "+OK");
    let client = user(&mut rig, "role=writer");
    rig.check_as(client, "SET k v", "+OK");
    rig.check_as(client, "SORT kl BY w_*", NO_KEY_FOR_BY);
    rig.check_as(client, "MULTI", "+OK");
    rig.check_as(client, "SET k w", "+QUEUED");
    rig.check("ACL SETROLE writer -set", "+OK");
    assert!(rig.run_as(client, "EXEC").contains("NOPERM"), "EXEC asks again");
    rig.check_as(client, "SET k v", NO_SET);
    rig.check_as(client, "GET k", "\"v\"");
    // A client that is subscribed to a channel that its user may no longer access is closed.
    rig.run_as(client, "SUBSCRIBE a");
    assert!(!rig.is_closing(client));
    rig.check("ACL SETROLE writer +get", "+OK");
    assert!(!rig.is_closing(client));
    rig.check("ACL SETROLE writer resetchannels &b", "+OK");
    assert!(rig.is_closing(client));
    rig.check("PUBLISH a x", ":0");
    let other = rig.connect();
    rig.check_as(other, "AUTH u pw", "+OK");
    rig.run_as(other, "SUBSCRIBE b");
    rig.check("ACL SETUSER u resetroles", "+OK");
    assert!(rig.is_closing(other));
}

const NO_KEY_FOR_BY: &str = "-ERR BY option of SORT denied due to insufficient ACL permissions.";

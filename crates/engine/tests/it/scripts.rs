//! Scripts of EVAL: replies, permitted calls, visibility to other clients, and propagation to
//! replicas and files.

use sluice_base::SessionKey;
use sluice_testkit::{Rig, check, render};

const BUSY: &str = "-BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// A rig whose clock advances while a script runs: each reading is a tenth of a millisecond later.
fn running(directives: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::with(directives);
    rig.process.us_each_look = 100;
    rig
}

/// Makes the first client run an endless script, and checks that it is suspended.
fn begin(rig: &mut Rig, script: &str) -> SessionKey {
    let other = rig.connect();
    assert_eq!(rig.run(&format!("EVAL \"{script}\" 0")), "", "its reply comes at the end");
    assert!(rig.engine.has_open_unit());
    other
}

/// Continues the suspended script, until it has ended or `slices` slices are over.
fn go_on(rig: &mut Rig, slices: usize) {
    for _ in 0..slices {
        if rig.engine.has_open_unit() {
            rig.engine.advance_unit(&mut rig.process);
        }
    }
}

fn answer(rig: &mut Rig, client: SessionKey) -> String {
    render(&rig.output(client))
}

#[test]
fn values_are_answered_as_replies() {
    check(&[
        ("EVAL \"return 3.99\" 0", ":3"),
        ("EVAL \"return {1,'a',{2},nil,4}\" 0", "[:1, \"a\", [:2]]"),
        ("EVAL \"return {KEYS[1],ARGV[1],#KEYS,#ARGV}\" 1 k a b", "[\"k\", \"a\", :1, :2]"),
        ("EVAL \"return redis.status_reply('fine')\" 0", "+fine"),
        ("EVAL \"return redis.error_reply('MY text')\" 0", "-MY text"),
        ("EVAL \"return true\" 0", ":1"),
        ("EVAL \"return false\" 0", "nil"),
        ("EVAL \"return redis.sha1hex('')\" 0", "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\""),
        ("EVAL \"return 1\" x", "-ERR value is not an integer or out of range"),
        ("EVAL \"return 1\" 1", "-ERR Number of keys can't be greater than number of args"),
        ("EVAL \"return 1\" -1", "-ERR Number of keys can't be negative"),
    ]);
}

#[test]
fn commands_are_called_and_their_errors_are_values() {
    check(&[
        ("EVAL \"return redis.call('SET',KEYS[1],ARGV[1])\" 1 k v", "+OK"),
        ("EVAL \"return redis.call('GET',KEYS[1])\" 1 k", "\"v\""),
        ("EVAL \"return redis.call('GET','none')\" 0", "nil"),
        ("EVAL \"return redis.pcall('INCR','k').err\" 0", "\"ERR value is not an integer or out of range\""),
        (
            "EVAL \"return redis.call('INCR','k')\" 0",
            "-ERR value is not an integer or out of range script: on @user_script:1.",
        ),
        (
            "EVAL \"return redis.call('NOSUCH')\" 0",
            "-ERR Unknown command called from script script: on @user_script:1.",
        ),
        (
            "EVAL \"return redis.call('GET')\" 0",
            "-ERR Wrong number of args calling command from script script: on @user_script:1.",
        ),
        (
            "EVAL \"return redis.call('SUBSCRIBE','c')\" 0",
            "-ERR This Valkey command is not allowed from script script: on @user_script:1.",
        ),
        ("EVAL \"return redis.call('BLPOP','none',0)\" 0", "nil"),
        ("EVAL \"redis.call('SELECT',3) return redis.call('SET','in3','x')\" 0", "+OK"),
        ("EXISTS in3", ":0"),
        (
            "EVAL_RO \"return redis.call('SET','k','w')\" 0",
            "-ERR Write commands are not allowed from read-only scripts. script: on @user_script:1.",
        ),
        (
            "EVAL \"#!lua flags=no-writes\\nreturn redis.call('SET','k','w')\" 0",
            "-ERR Write commands are not allowed from read-only scripts. script: on @user_script:2.",
        ),
        (
            "EVAL \"x = 1\" 0",
            "-ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.",
        ),
        (
            "EVAL \"return x\" 0",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: on @user_script:1.",
        ),
    ]);
}

#[test]
fn scripts_are_known_by_their_names() {
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let mut rig = Rig::new();
    rig.check(&format!("EVALSHA {sha} 0"), "-NOSCRIPT No matching script.");
    rig.check("SCRIPT LOAD \"return 1\"", &format!("\"{sha}\""));
    rig.check(&format!("EVALSHA {} 0", sha.to_uppercase()), ":1");
    rig.check(&format!("SCRIPT EXISTS {sha} x"), "[:1, :0]");
    let name = [sha.as_bytes(), b"\0z"].concat();
    assert_eq!(render(&rig.argv(rig.client, &[b"SCRIPT", b"EXISTS", &name])), "[:1]");
    rig.check(&format!("SCRIPT SHOW {sha}"), "\"return 1\"");
    rig.check("SCRIPT FLUSH", "+OK");
    rig.check(&format!("SCRIPT EXISTS {sha}"), "[:0]");
    rig.check(
        "SCRIPT LOAD \"return (\"",
        "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
    );
}

#[test]
fn replicas_and_files_get_what_a_script_did_as_one() {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    let replica = rig.replica();
    rig.fed(replica);
    rig.appended();
    rig.run("EVAL \"redis.call('SET','a',1) redis.call('GET','a') redis.call('INCR','a')\" 0");
    assert_eq!(rig.fed(replica), "MULTI; SET a 1; INCR a; EXEC");
    assert_eq!(rig.appended(), "MULTI SELECT 0 SET a 1 INCR a EXEC");
    // A script with a single change is propagated without MULTI.
    rig.run("EVAL \"return redis.call('INCR','a')\" 0");
    assert_eq!(rig.fed(replica), "INCR a");
    rig.appended();
    rig.run("EVAL \"redis.set_repl(redis.REPL_AOF) redis.call('INCR','a')\" 0");
    assert_eq!((rig.fed(replica), rig.appended()), (String::new(), "INCR a".into()));
    rig.run("EVAL \"redis.set_repl(redis.REPL_REPLICA) redis.call('INCR','a')\" 0");
    assert_eq!((rig.fed(replica), rig.appended()), ("INCR a".into(), String::new()));
    rig.run("EVAL \"redis.set_repl(redis.REPL_NONE) redis.call('INCR','a')\" 0");
    assert_eq!((rig.fed(replica), rig.appended()), (String::new(), String::new()));
    rig.check("GET a", "\"6\"");
}

#[test]
fn a_script_that_goes_on_holds_others_and_is_then_busy() {
    let mut rig = running(&[("busy-reply-threshold", "50")]);
    let other = begin(&mut rig, "while true do end");
    rig.check_as(other, "GET k", "");
    go_on(&mut rig, 10);
    assert_eq!(answer(&mut rig, other), "", "it is held");
    go_on(&mut rig, 50);
    assert_eq!(answer(&mut rig, other), BUSY);
    rig.check_as(other, "PING", BUSY);
    rig.check_as(other, "FUNCTION KILL", BUSY);
    rig.check_as(other, "MULTI", "+OK");
    rig.check_as(other, "GET k", BUSY);
    rig.check_as(other, "DISCARD", "+OK");
    rig.check_as(other, "SCRIPT KILL", "+OK");
    go_on(&mut rig, 1);
    assert!(!rig.engine.has_open_unit());
    let client = rig.client;
    let killed = answer(&mut rig, client);
    assert_eq!(killed, "-ERR Script killed by user with SCRIPT KILL. script: on @user_script:1.");
    rig.check_as(other, "SCRIPT KILL", "-NOTBUSY No scripts in execution right now.");
    rig.check_as(other, "PING", "+PONG");
}

#[test]
fn a_script_that_has_written_is_not_killed_and_is_told_of_at_its_end() {
    let mut rig = running(&[("busy-reply-threshold", "10")]);
    let replica = rig.replica();
    rig.fed(replica);
    let script = "redis.call('SET','a',1) for i = 1, 2000000 do end redis.call('SET','b',2) return 7";
    let other = begin(&mut rig, script);
    go_on(&mut rig, 6);
    let unkillable = rig.run_as(other, "SCRIPT KILL");
    assert!(unkillable.starts_with("-UNKILLABLE Sorry the script already executed write"), "{unkillable}");
    assert!(!rig.fed(replica).contains("SET"), "nobody gets half of it");
    go_on(&mut rig, 10_000);
    let client = rig.client;
    assert_eq!(answer(&mut rig, client), ":7");
    assert!(rig.fed(replica).ends_with("SET a 1; SET b 2; EXEC"));
}

#[test]
fn a_script_in_a_transaction_stands_still_there() {
    let mut rig = running(&[]);
    let other = rig.connect();
    for line in
        ["MULTI", "SET a 1", "EVAL \"for i = 1, 2000000 do end return redis.call('INCR','a')\" 0", "INCR a"]
    {
        rig.run(line);
    }
    assert_eq!(rig.run("EXEC"), "");
    assert!(rig.engine.has_open_unit());
    rig.check_as(other, "INCR a", "");
    go_on(&mut rig, 10_000);
    let client = rig.client;
    assert_eq!(answer(&mut rig, client), "[+OK, :2, :3]");
    assert_eq!(answer(&mut rig, other), ":4");
}

#[test]
fn a_script_whose_client_has_gone_ends_if_it_has_not_written() {
    let mut rig = running(&[]);
    let other = begin(&mut rig, "while true do end");
    let client = rig.client;
    rig.engine.client_lost(client, &mut rig.process);
    rig.engine.disconnect(client, &mut rig.process);
    go_on(&mut rig, 1);
    assert!(!rig.engine.has_open_unit());
    rig.check_as(other, "PING", "+PONG");
    let log: Vec<&str> = rig.process.log.iter().map(|(_, line)| line.as_str()).collect();
    assert!(log.contains(&"A script that had changed nothing was ended: its client has gone"), "{log:?}");
    assert!(!log.iter().any(|line| line.contains("KILL")), "nobody has killed it: {log:?}");
}

#[test]
fn monitors_are_shown_the_script_and_then_its_commands() {
    let mut rig = Rig::new();
    let monitor = rig.connect();
    rig.check_as(monitor, "MONITOR", "+OK");
    rig.run("EVAL \"return redis.call('GET',KEYS[1])\" 1 k");
    let shown = answer(&mut rig, monitor);
    let (eval, get) = (shown.find("\"EVAL\"").unwrap(), shown.find("\"GET\"").unwrap());
    assert!(eval < get && shown.contains("[0 lua] \"GET\" \"k\""), "{shown}");
}

#[test]
fn what_scripts_take_is_told() {
    let mut rig = Rig::new();
    rig.run("EVAL \"return redis.call('PING')\" 0");
    let info = rig.run("INFO everything");
    for wanted in
        ["number_of_cached_scripts:1", "cmdstat_eval:calls=1", "cmdstat_ping:calls=1", "evicted_scripts:0"]
    {
        assert!(info.contains(wanted), "{wanted}");
    }
    assert!(!info.contains("used_memory_vm_eval:0"));
    for number in 0..501 {
        rig.run(&format!("EVAL \"return {number}\" 0"));
    }
    let info = rig.run("INFO everything");
    assert!(info.contains("number_of_cached_scripts:500") && info.contains("evicted_scripts:2"), "{info}");
}

/// Number of cached scripts.
fn cached_scripts(rig: &mut Rig) -> u32 {
    let info = rig.run("INFO everything");
    let rest = info.split("number_of_cached_scripts:").nth(1).unwrap();
    rest.split("\\r").next().unwrap().parse().unwrap()
}

#[test]
fn names_in_scripts_count_against_what_they_may_take() {
    let mut rig = Rig::with(&[("maxmemory-scripts", "100kb")]);
    for script in 0..20 {
        let names: String = (0..200).map(|name| format!("t.of{script}name{name} = 1 ")).collect();
        rig.check(&format!("EVAL \"local t = {{}} {names}return 1\" 0"), ":1");
    }
    // Each script has a text of 4 KB, and names that take 9 KB.
    let kept = cached_scripts(&mut rig);
    assert!((4..8).contains(&kept), "{kept}");
}

#[test]
fn scripts_of_eval_take_no_more_than_they_may() {
    let mut rig = Rig::with(&[("maxmemory-scripts", "20kb")]);
    let loaded = rig.run("SCRIPT LOAD \"return 'loaded'\"");
    for number in 0..100 {
        rig.check(&format!("EVAL \"return {number}\" 0"), &format!(":{number}"));
    }
    let kept = cached_scripts(&mut rig);
    assert!((40..90).contains(&kept), "{kept}");
    assert!(rig.run("INFO stats").contains(&format!("evicted_scripts:{}", 101 - kept)));
    // The last script is cached, and so are those of SCRIPT LOAD.
    rig.check(&format!("EVALSHA {} 0", loaded.trim_matches('"')), "\"loaded\"");
    rig.run("EVAL \"return 99\" 0");
    assert_eq!(cached_scripts(&mut rig), kept);
    rig.check("CONFIG SET maxmemory-scripts 0", "+OK");
    rig.run("EVAL \"return 1000\" 0");
    assert_eq!(cached_scripts(&mut rig), kept + 1);
}

#[test]
fn a_debugger_without_a_copy_of_the_process_is_all_there_is() {
    check(&[
        ("SCRIPT DEBUG NO", "+OK"),
        (
            "SCRIPT DEBUG YES lua",
            "-ERR SCRIPT DEBUG YES needs a copy of the process, which this server does not make: use SCRIPT DEBUG SYNC",
        ),
        (
            "EVAL \"return redis.call('set','k','1')\" 1 k",
            "-ERR SCRIPT DEBUG YES needs a copy of the process, which this server does not make: use SCRIPT DEBUG SYNC",
        ),
        ("EXISTS k", ":0"),
        ("EVAL \"return 1\" 0", ":1"),
        ("SCRIPT DEBUG x", "-ERR Use SCRIPT DEBUG YES/SYNC/NO"),
        ("SCRIPT DEBUG YES js", "-ERR No scripting engine found with name 'js' to enable debug"),
    ]);
}

#[test]
fn a_script_has_its_limit_of_memory() {
    let mut rig = Rig::with(&[("script-memory-limit", "4mb")]);
    let grown = rig.run("EVAL \"local t = {} while true do t[#t+1] = string.rep('x', 1000) .. #t end\" 0");
    assert!(grown.contains("not enough memory"), "{grown}");
    rig.check("EVAL \"return 1\" 0", ":1");
}

#[test]
fn an_error_in_the_result_is_a_failed_call_whoever_has_counted_it() {
    let failed = |script: &str| {
        let mut rig = Rig::new();
        rig.run(&format!("EVAL \"{script}\" 0"));
        let info = rig.run("INFO everything");
        let failed = |name: &str| {
            info.contains(&format!("cmdstat_{name}:")) && {
                let line = info.split(&format!("cmdstat_{name}:")).nth(1).unwrap();
                line.split("\\r").next().unwrap().contains("failed_calls=1")
            }
        };
        let errors =
            info.split("total_error_replies:").nth(1).unwrap().split("\\r").next().unwrap().to_string();
        (failed("eval"), failed("incr"), errors)
    };
    let set = "redis.call('SET','k','x')";
    assert_eq!(failed(&format!("{set} return redis.call('INCR','k')")), (true, true, "1".into()));
    assert_eq!(failed(&format!("{set} return redis.pcall('INCR','k')")), (true, true, "1".into()));
    assert_eq!(failed(&format!("{set} redis.pcall('INCR','k') return 1")), (false, true, "1".into()));
    assert_eq!(failed("return {1,redis.error_reply('MY x')}"), (true, false, "1".into()));
}

#[test]
fn a_code_of_an_error_has_no_line_break_in_it() {
    let mut rig = Rig::new();
    rig.run("EVAL \"error(redis.error_reply('MY:\\\\r\\\\n x'))\" 0");
    let info = rig.run("INFO errorstats");
    assert!(info.contains("errorstat_MY_:count=1"), "{info}");
}

#[test]
fn an_error_may_be_any_value() {
    check(&[
        ("EVAL \"error(true)\" 0", "-ERR true script: on @user_script:1."),
        ("EVAL \"error(false)\" 0", "-ERR false script: on @user_script:1."),
        ("EVAL \"error()\" 0", "-ERR nil script: on @user_script:1."),
        ("EVAL \"error({})\" 0", "-ERR unknown error script: on @user_script:1."),
        ("EVAL \"error({err='MY own', more=1})\" 0", "-MY own script: on @user_script:1."),
        ("EVAL \"error({err={}})\" 0", "-ERR unknown error script: on @user_script:1."),
        // The process of the reference ends at this script.
        (
            "EVAL \"error(setmetatable({}, {__index = function() error('x') end}))\" 0",
            "-ERR unknown error script: on @user_script:1.",
        ),
        ("EVAL \"error({err=5})\" 0", "-5 script: on @user_script:1."),
        ("EVAL \"return __redis__err__handler(true)\" 0", "-ERR true"),
    ]);
    let told = Rig::new().run("EVAL \"error(function() end)\" 0");
    assert!(told.starts_with("-ERR function: 0x"), "{told}");
}

#[test]
fn exec_is_rejected_for_what_a_queued_script_says_of_itself() {
    let mut rig = Rig::new();
    let other = rig.connect();
    let writer = "EVAL \"#!lua\\nreturn 1\" 0";
    let reader = "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0";
    for (script, wanted) in
        [(writer, "-EXECABORT Transaction discarded because of: READONLY"), (reader, "[:1]")]
    {
        rig.check("MULTI", "+OK");
        rig.check(script, "+QUEUED");
        rig.check_as(other, "REPLICAOF 127.0.0.1 7000", "+OK");
        let answer = rig.run("EXEC");
        assert!(answer.starts_with(wanted), "{script}: {answer}");
        rig.check_as(other, "REPLICAOF NO ONE", "+OK");
    }
}

#[test]
fn machines_follow_the_configuration() {
    let mut rig = Rig::with(&[("enable-protected-configs", "yes")]);
    let is_there = "EVAL \"return type(getfenv())\" 0";
    assert!(rig.run(is_there).contains("nonexistent global variable 'getfenv'"));
    let sha = rig.run("SCRIPT LOAD \"return 7\"").trim_matches('"').to_string();
    rig.check("CONFIG SET lua-enable-insecure-api yes", "+OK");
    rig.check(is_there, "\"table\"");
    rig.check(&format!("SCRIPT EXISTS {sha}"), "[:0]");
    rig.check("CONFIG SET lua-enable-insecure-api no", "+OK");
    assert!(rig.run(is_there).contains("nonexistent global variable 'getfenv'"));
    rig.check("CONFIG SET script-memory-limit 4mb", "+OK");
    let large = rig.run("EVAL \"return #string.rep('x', 8000000)\" 0");
    assert!(large.contains("not enough memory"), "{large}");
    rig.check("CONFIG SET script-memory-limit 64mb", "+OK");
    rig.check("EVAL \"return #string.rep('x', 8000000)\" 0", ":8000000");
}

#[test]
fn scripts_do_not_see_attributes_and_sets_are_sorted_for_them() {
    check(&[
        ("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK"),
        (
            "EVAL \"redis.setresp(3) return redis.call('DEBUG','PROTOCOL','attrib')\" 0",
            "\"Some real reply following the attribute\"",
        ),
        ("SADD s d a c aa b e g f h k z y x", ":13"),
        (
            "EVAL \"return table.concat(redis.call('SORT','s','BY','_'),' ')\" 0",
            "\"a aa b c d e f g h k x y z\"",
        ),
    ]);
}

#[test]
fn between_scripts_that_take_long_everybody_else_is_served() {
    let mut rig = running(&[]);
    let long = "EVAL \"for i=1,2500000 do end return 1\" 0";
    let clients: Vec<SessionKey> = (0..4).map(|_| rig.connect()).collect();
    let other = rig.connect();
    for client in &clients {
        assert_eq!(rig.run_as(*client, long), "");
    }
    let (mut ended, mut pinged_behind, mut is_asked) = (Vec::new(), Vec::new(), false);
    for _ in 0..1000 {
        if rig.engine.has_open_unit() && !is_asked {
            assert_eq!(rig.run_as(other, "PING"), "");
            is_asked = true;
        }
        rig.engine.advance_unit(&mut rig.process);
        rig.engine.end_iteration(&mut rig.process);
        let _ = rig.engine.take_command_ns();
        for (number, client) in clients.iter().enumerate() {
            if answer(&mut rig, *client) == ":1" {
                ended.push(number);
            }
        }
        if answer(&mut rig, other) == "+PONG" {
            pinged_behind.push(ended.len());
            is_asked = false;
        }
    }
    assert_eq!(ended, [0, 1, 2, 3], "in the order of their coming");
    assert_eq!(pinged_behind, [1, 2, 3, 4]);
    assert_eq!(rig.engine.next_unit_ns(), u64::MAX, "nobody waits any more");
}

#[test]
fn a_script_that_comes_while_others_wait_for_their_turn_goes_behind_them() {
    let mut rig = running(&[]);
    let (first, second, third) = (rig.connect(), rig.connect(), rig.connect());
    assert_eq!(rig.run_as(first, "EVAL \"for i=1,2500000 do end return 1\" 0"), "");
    assert_eq!(rig.run_as(second, "EVAL \"redis.call('RPUSH','order','second')\" 0"), "");
    for _ in 0..1000 {
        rig.engine.advance_unit(&mut rig.process);
        if !rig.engine.has_open_unit() {
            break;
        }
    }
    // The share is used up, so the second script waits for its turn, and so does the third, which arrives
    // now.
    assert_eq!(rig.run_as(third, "EVAL \"redis.call('RPUSH','order','third')\" 0"), "");
    rig.engine.end_iteration(&mut rig.process);
    rig.engine.advance_unit(&mut rig.process);
    rig.check("LRANGE order 0 -1", "[\"second\", \"third\"]");
}

#[test]
fn a_script_that_began_in_time_goes_beyond_maxmemory_unless_its_calls_are_to_ask() {
    let fill = "EVAL \"for i=1,100 do redis.call('SET','k'..i,string.rep('x',10000)) end return 1\" 0";
    for (asks, wanted) in [("no", ":1"), ("yes", "-OOM command not allowed when used memory > 'maxmemory'.")]
    {
        let mut rig = Rig::with(&[("script-deny-oom-calls", asks), ("maxmemory-policy", "noeviction")]);
        rig.process.facts.used_memory = 0;
        rig.process.counts_data = true;
        rig.check("CONFIG SET maxmemory 100000", "+OK");
        let answered = rig.run(fill);
        assert!(answered.starts_with(wanted), "{answered}");
        let keys: i64 = rig.run("DBSIZE")[1..].parse().unwrap();
        assert_eq!(keys == 100, asks == "no", "{keys}");
        let info = rig.run("INFO everything");
        assert!(!info.contains("scripts_maxmemory_overrun_bytes:0\\r"), "{asks}");
    }
}

#[test]
fn a_script_that_waits_for_its_turn_does_not_run_behind_the_end() {
    let mut rig = running(&[]);
    let (first, second) = (rig.connect(), rig.connect());
    assert_eq!(rig.run_as(first, "EVAL \"for i=1,2500000 do end return 1\" 0"), "");
    assert_eq!(rig.run_as(second, "EVAL \"return redis.call('SET','k','v')\" 0"), "");
    while rig.engine.has_open_unit() {
        rig.engine.advance_unit(&mut rig.process);
    }
    assert_eq!(rig.engine.next_unit_ns(), 0, "the second waits for its turn");
    rig.engine.stop();
    rig.engine.end_iteration(&mut rig.process);
    assert_eq!(rig.engine.next_unit_ns(), u64::MAX);
    rig.engine.advance_unit(&mut rig.process);
    assert_eq!(answer(&mut rig, second), "");
    assert_eq!(rig.engine.keyspace().db(0).len(), 0);
}

#[test]
fn shutdown_ends_a_server_with_a_busy_script_only_without_a_save() {
    for script in ["while true do end", "redis.call('SET','half',1) while true do end"] {
        let mut rig = running(&[("busy-reply-threshold", "50"), ("save", "3600 1")]);
        let held = begin(&mut rig, script);
        rig.check_as(held, "SHUTDOWN SAVE", "");
        go_on(&mut rig, 60);
        assert_eq!(answer(&mut rig, held), BUSY, "it was held, and is not run within the script");
        let other = rig.connect();
        for line in ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW", "SHUTDOWN SAVE FORCE"] {
            rig.check_as(other, line, BUSY);
        }
        rig.check_as(other, "SHUTDOWN ABORT", "-ERR No shutdown in progress.");
        rig.check_as(other, "SHUTDOWN NOSAVE SAVE", "-ERR syntax error");
        assert!(rig.process.snapshots.borrow().is_empty(), "half of a script is in no file");
        assert!(!has_ended(&rig));
        rig.run_as(other, "SHUTDOWN nosave now");
        assert!(has_ended(&rig) && rig.process.snapshots.borrow().is_empty());
    }
}

#[test]
fn shutdown_names_the_way_to_kill_a_busy_function() {
    let mut rig = running(&[("busy-reply-threshold", "10")]);
    rig.run(
        r##"FUNCTION LOAD "#!lua name=l\nserver.register_function('f',function() while true do end end)""##,
    );
    let other = rig.connect();
    rig.check("FCALL f 0", "");
    go_on(&mut rig, 20);
    rig.check_as(other, "SHUTDOWN", &BUSY.replace("SCRIPT KILL", "FUNCTION KILL"));
}

#[test]
fn shutdown_nosave_waits_for_replicas_and_not_for_a_script_without_end() {
    for (line, waits) in [("SHUTDOWN NOSAVE", true), ("SHUTDOWN NOSAVE NOW", false)] {
        let mut rig = running(&[("busy-reply-threshold", "10")]);
        let _lags = rig.replica();
        let other = begin(&mut rig, "redis.call('SET','half',1) while true do end");
        rig.run("SET before 1");
        go_on(&mut rig, 20);
        // The replica has not acknowledged the stream after its synchronisation.
        rig.run_as(other, line);
        assert_eq!(has_ended(&rig), !waits, "{line}");
        rig.pass_ms(9_000);
        rig.end_iteration();
        assert_eq!(has_ended(&rig), !waits, "{line}");
        rig.pass_ms(1_500);
        rig.end_iteration();
        assert!(has_ended(&rig) && rig.engine.has_open_unit(), "{line}");
        assert!(rig.process.snapshots.borrow().is_empty());
    }
}

fn has_ended(rig: &Rig) -> bool {
    rig.actions.iter().any(|action| matches!(action, sluice_control::action::Action::Shutdown))
}

/// A subscriber of RESP3 may run scripts, in which replies are those of RESP2.
#[test]
fn ping_in_a_script_of_a_subscriber_is_answered_as_to_anybody() {
    let mut rig = running(&[]);
    rig.run("HELLO 3");
    rig.run("SUBSCRIBE ch");
    rig.check("EVAL \"return redis.call('PING')\" 0", "+PONG");
    rig.check("EVAL \"return redis.call('PING', 'x')\" 0", "\"x\"");
}

#[test]
fn messages_of_a_script_to_its_own_client_are_in_the_client_s_protocol() {
    let publish = "redis.call('PUBLISH','ch','m')";
    let message = ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n";
    let rows = [
        ("SUBSCRIBE ch", publish.to_owned(), message),
        ("SUBSCRIBE ch", format!("redis.setresp(3) {publish}"), message),
        ("SUBSCRIBE ch", format!("for i = 1, 500000 do end {publish}"), message),
        (
            "SSUBSCRIBE ch",
            "redis.call('SPUBLISH','ch','m')".to_owned(),
            ">3\r\n$8\r\nsmessage\r\n$2\r\nch\r\n$1\r\nm\r\n",
        ),
        (
            "PSUBSCRIBE __keyevent*",
            "redis.call('SET','k','v')".to_owned(),
            ">4\r\n$8\r\npmessage\r\n$11\r\n__keyevent*\r\n$18\r\n__keyevent@0__:set\r\n$1\r\nk\r\n",
        ),
    ];
    for (subscribe, script, wanted) in rows {
        let mut rig = running(&[("notify-keyspace-events", "E$")]);
        let client = rig.client;
        rig.run("HELLO 3");
        rig.run(subscribe);
        let told = format!(":1\r\n{wanted}");
        let eval = format!("{script} return 1");
        let mut got = rig.argv(client, &[b"EVAL", eval.as_bytes(), b"0"]);
        go_on(&mut rig, 10_000);
        got.extend(rig.output(client));
        assert_eq!(String::from_utf8_lossy(&got), told, "{script}");
        let function =
            format!("#!lua name=l\nserver.register_function('f', function() {script} return 1 end)");
        rig.argv(client, &[b"FUNCTION", b"LOAD", b"REPLACE", function.as_bytes()]);
        let mut got = rig.argv(client, &[b"FCALL", b"f", b"0"]);
        go_on(&mut rig, 10_000);
        got.extend(rig.output(client));
        assert_eq!(String::from_utf8_lossy(&got), told, "FCALL: {script}");
    }
}

#[test]
fn numbers_are_arguments_without_a_second_zero() {
    check(&[
        ("EVAL \"return redis.call('ECHO',-tonumber(ARGV[1]))\" 0 0", "\"0\""),
        ("EVAL \"redis.call('SET','c',5) return redis.call('INCRBY','c',-tonumber(ARGV[1]))\" 0 0", ":5"),
        ("EVAL \"return redis.call('ECHO',math.ceil(-0.5))\" 0", "\"0\""),
        ("EVAL \"return redis.call('ECHO',0/0)\" 0", "\"-nan\""),
        ("EVAL \"return redis.call('ECHO',-(0/0))\" 0", "\"nan\""),
        ("EVAL \"return redis.call('ECHO',-math.huge)\" 0", "\"-inf\""),
        ("EVAL \"return redis.call('ECHO',2^62)\" 0", "\"4611686018427387904\""),
        ("EVAL \"return redis.call('ECHO',-0.1)\" 0", "\"-0.1\""),
    ]);
}

#[test]
fn arguments_of_calls_count_as_memory_of_the_script() {
    let many = "local s, t = string.rep('x', 2000000), {} for i = 1, 20 do t[i] = s end";
    for call in ["redis.call('NOSUCH',unpack(t))", "redis.pcall('NOSUCH',unpack(t))"] {
        let mut rig = Rig::with(&[("script-memory-limit", "16mb")]);
        let line = format!("EVAL \"{many} return {call}\" 0");
        let got = rig.run(&line);
        assert!(got.contains("not enough memory"), "{call}: {got}");
        let line = format!(
            "EVAL \"{many} local ok, e = pcall(function() return redis.acl_check_cmd('set',unpack(t)) end) return e\" 0"
        );
        rig.check(&line, "\"not enough memory\"");
        rig.check("EVAL \"return redis.call('SET','k',string.rep('x', 3000000))\" 0", "+OK");
        rig.check("STRLEN k", ":3000000");
    }
}

#[test]
fn a_script_that_calls_with_large_arguments_stands_still_in_time() {
    let mut rig = running(&[]);
    let script = "local s = string.rep('x', 2000000) for i = 1, 40 do redis.pcall('NOSUCH', s) end return 1";
    begin(&mut rig, script);
    go_on(&mut rig, 10_000);
    let client = rig.client;
    assert_eq!(answer(&mut rig, client), ":1");
}

#[test]
fn a_number_that_a_text_says_is_the_number_that_is_used() {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    let replica = rig.replica();
    rig.fed(replica);
    for text in ["'0x3'", "' 3 '", "3.9"] {
        rig.run(&format!("EVAL \"redis.set_repl({text}) redis.call('SET','a',1)\" 0"));
        assert!(rig.fed(replica).ends_with("SET a 1"), "{text}");
        rig.check(
            &format!("EVAL \"redis.setresp({text}) return redis.call('HGETALL','none').map and 3 or 2\" 0"),
            ":3",
        );
    }
    rig.appended();
    rig.run("EVAL \"redis.set_repl('0x1') redis.call('SET','a',1)\" 0");
    assert_eq!((rig.fed(replica), rig.appended()), (String::new(), "SET a 1".into()));
    let flags = "-ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. script: on @user_script:1.";
    for number in ["0/0", "2^31", "2^32+3", "'nan'"] {
        rig.check(&format!("EVAL \"redis.set_repl({number})\" 0"), flags);
        rig.check(
            &format!("EVAL \"redis.setresp({number})\" 0"),
            "-ERR RESP version must be 2 or 3. script: on @user_script:1.",
        );
        rig.check(
            &format!("EVAL \"redis.log({number},'x')\" 0"),
            "-ERR Invalid log level. script: on @user_script:1.",
        );
    }
}

#[test]
fn time_goes_on_in_a_script_once_that_is_busy_and_not_before() {
    let mut rig = running(&[("busy-reply-threshold", "50")]);
    let wait = "local a = redis.call('TIME') repeat local b = redis.call('TIME') \
                until (b[1] - a[1]) * 1000000 + b[2] - a[2] > 100000 return 'over'";
    begin(&mut rig, wait);
    go_on(&mut rig, 10_000);
    let client = rig.client;
    assert_eq!(answer(&mut rig, client), "\"over\"");
    let still = "local a = redis.call('TIME') for i = 1, 200 do \
                 if redis.call('TIME')[2] ~= a[2] then return 'moved' end end return 'still'";
    rig.run(&format!("EVAL \"{still}\" 0"));
    go_on(&mut rig, 10_000);
    let later = answer(&mut rig, client);
    assert!(later.is_empty() || later == "\"still\"", "{later}");
    // Keys expire by the time at the script's beginning, busy or not.
    let keeps = "redis.call('SET','k','v','PX',20) for i = 1, 5000000 do end return redis.call('GET','k')";
    begin(&mut rig, keeps);
    go_on(&mut rig, 10_000);
    assert_eq!(answer(&mut rig, client), "\"v\"");
    rig.check("GET k", "nil");
}

#[test]
fn lines_of_scripts_are_written_as_the_reference_writes_them() {
    let mut rig = Rig::new();
    let rows = [
        ("-0/0,0/0,0,-0,1e15,1e17,0.1,'x',true,nil,{},'y'", "<lua> -nan -nan 0 0 1e+15 1e+17 0.1 x y"),
        ("'a\\0b','c'", "<lua> a c"),
        ("true,1,2", "<lua> (null) 1 2"),
        ("{}", "<lua> (null)"),
        ("''", "<lua> "),
    ];
    for (arguments, wanted) in rows {
        let script = format!("redis.log('0x3',{arguments})");
        let client = rig.client;
        rig.argv(client, &[b"EVAL", script.as_bytes(), b"0"]);
        let (_, line) = rig.process.log.last().unwrap();
        assert_eq!(line, wanted, "{arguments}");
    }
    rig.run("EVAL \"redis.log(3,string.rep('y',3000),'z')\" 0");
    assert_eq!(rig.process.log.last().unwrap().1.len(), 1023);
}

#[test]
fn zero_bytes_in_programs_are_what_they_are_for_the_reference() {
    let compiling = "ERR Error compiling script (new function): user_script:1:";
    let rows: [(&[u8], String); 7] = [
        (b"return 1\0xx", ":1".into()),
        (b"return 1\0\0+1", ":2".into()),
        (b"return 'a'.\0'b'", "\"ab\"".into()),
        (b"return loadstring('return 1\\0xx')()", ":1".into()),
        (b"return 5 \0", format!("-{compiling} '<eof>' expected")),
        (b"x\0=1", format!("-{compiling} '=' expected")),
        (b"return 1 --\0 (", ":1".into()),
    ];
    let mut rig = Rig::new();
    for (program, wanted) in rows {
        let client = rig.client;
        let got = rig.argv(client, &[b"EVAL", program, b"0"]);
        assert_eq!(render(&got), wanted, "{}", program.escape_ascii());
    }
}

#[test]
fn texts_of_errors_and_states_end_at_a_zero_and_keep_what_is_ahead() {
    let mut rig = Rig::new();
    for (script, wanted) in [
        ("return {err='a\\0b'}", "-a\r\n"),
        ("return {ok='a\\0b'}", "+a\r\n"),
        ("return redis.status_reply('a\\0b')", "+a\r\n"),
        ("return {err='\\r\\na'}", "-  a\r\n"),
        ("return {err='\\r\\n\\r\\nX a\\r\\nb\\r\\n'}", "-    X a  b\r\n"),
        ("return {err='a\\r\\n\\0'}", "-a\r\n"),
        ("return {ok='\\r\\na\\r\\n'}", "+  a  \r\n"),
        ("return redis.error_reply('\\r\\na')", "-ERR   a\r\n"),
        ("return redis.error_reply('a\\r\\n').err", "$7\r\nERR a\r\n\r\n"),
        ("return redis.error_reply('A \\r\\nb\\r\\n')", "-A b\r\n"),
        (
            "return redis.pcall('CONFIG','\\r\\nx').err",
            "$46\r\nERR unknown subcommand '  x'. Try CONFIG HELP.\r\n",
        ),
        ("error({err='a\\0b'})", "-a script: on @user_script:1.\r\n"),
        ("error({err='\\r\\na'})", "-  a script: on @user_script:1.\r\n"),
        ("error('a\\0b')", "-ERR user_script:1: a script: on @user_script:1.\r\n"),
        (
            "return (string.gsub('incr','%w+',redis.call))",
            "-ERR Wrong number of args calling command from script script: on =[C]:-1.\r\n",
        ),
        (
            "local f,e=load(function() return redis.call('GET','nos') end) return {err=e}",
            "-user_script:1: reader function must return a string\r\n",
        ),
    ] {
        let client = rig.client;
        let got = rig.argv(client, &[b"EVAL", script.as_bytes(), b"0"]);
        assert_eq!(String::from_utf8_lossy(&got), wanted, "{script}");
    }
    rig.run("HELLO 3");
    for (format, wanted) in [("tx", "tx "), ("", "   "), ("t\\0x", "t  "), ("text", "tex")] {
        let script = format!("return {{verbatim_string={{format='{format}',string='abc'}}}}");
        let client = rig.client;
        let got = rig.argv(client, &[b"EVAL", script.as_bytes(), b"0"]);
        assert_eq!(String::from_utf8_lossy(&got), format!("=7\r\n{wanted}:abc\r\n"));
    }
}

#[test]
fn what_a_debugger_is_not_started_with() {
    let mut rig = Rig::new();
    let wrong = "-ERR unknown subcommand or wrong number of arguments for 'DEBUG'. Try SCRIPT HELP.";
    rig.check("SCRIPT DEBUG no lua x", wrong);
    rig.check("SCRIPT DEBUG no LUA", "+OK");
    rig.check("SCRIPT DEBUG SYNC", "+OK");
    rig.check("EVALSHA x 0", "-NOSCRIPT No matching script.");
    rig.check(
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "-ERR Please use EVAL instead of EVALSHA for debugging",
    );
}

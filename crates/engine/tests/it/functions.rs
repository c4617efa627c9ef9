//! Function libraries: loading, calls, listing, saves, and propagation to replicas.

use sluice_base::SessionKey;
use sluice_testkit::{Rig, render};

/// The command that loads a library of one function with this body.
fn load(library: &str, function: &str, body: &str) -> String {
    format!(
        r##"FUNCTION LOAD "#!lua name={library}\nserver.register_function('{function}',function(keys,args) {body} end)""##
    )
}

/// A rig with the library that `load` describes.
fn with(library: &str, function: &str, body: &str) -> Rig {
    let mut rig = Rig::new();
    rig.check(&load(library, function, body), &format!("\"{library}\""));
    rig
}

fn check(rig: &mut Rig, rows: &[(&str, &str)]) {
    rows.iter().for_each(|(line, wanted)| rig.check(line, wanted));
}

#[test]
fn functions_are_called_with_keys_and_arguments() {
    let mut rig = with("l", "show", "return {keys[1],args[1],#keys,#args}");
    check(
        &mut rig,
        &[
            ("FCALL show 2 a b c", r#"["a", "c", :2, :1]"#),
            ("FCALL SHOW 0 x", "[]"),
            ("FCALL nope 0", "-ERR Function not found"),
            ("FCALL show x", "-ERR Bad number of keys provided"),
            ("FCALL show 1", "-ERR Number of keys can't be greater than number of args"),
            ("FCALL show -1", "-ERR Number of keys can't be negative"),
            ("FCALL_RO show 0", "-ERR Can not execute a script with write flag using *_ro command."),
            ("FUNCTION DELETE l", "+OK"),
            ("FUNCTION DELETE l", "-ERR Library not found"),
            ("FCALL show 0", "-ERR Function not found"),
        ],
    );
}

#[test]
fn what_a_library_keeps_it_keeps_until_it_goes() {
    let mut rig = Rig::new();
    let line = r##"FUNCTION LOAD REPLACE "#!lua name=l\nlocal n=0 server.register_function('next',function() n=n+1 return n end)""##;
    rig.check(line, "\"l\"");
    check(&mut rig, &[("FCALL next 0", ":1"), ("FCALL next 0", ":2")]);
    rig.check(line, "\"l\"");
    rig.check("FCALL next 0", ":1");
}

#[test]
fn a_library_that_is_no_good_leaves_the_old_one_in_its_place() {
    let mut rig = with("l", "f", "return 1");
    rig.check(&load("l", "f", "return 2"), "-ERR Library 'l' already exists");
    rig.check(&load("m", "F", "return 2"), "-ERR Function F already exists");
    for (line, wanted) in [
        (r##"FUNCTION LOAD REPLACE "#!lua name=l\nx =""##, "-ERR Error compiling function: "),
        (r##"FUNCTION LOAD REPLACE "#!lua name=l\nerror('no')""##, "-ERR Error registering functions: "),
        (r##"FUNCTION LOAD REPLACE "#!lua name=l\n""##, "-ERR No functions registered"),
        ("FUNCTION LOAD REPLACE x", "-ERR Missing library metadata"),
        ("FUNCTION LOAD no x", "-ERR Unknown option given: no"),
    ] {
        let got = rig.run(line);
        assert!(got.starts_with(wanted), "{line}: {got}");
        rig.check("FCALL f 0", ":1");
    }
}

#[test]
fn libraries_are_shown() {
    let mut rig = with("one", "f", "return 1");
    rig.check(
        r##"FUNCTION LOAD "#!lua name=two\nserver.register_function{function_name='g',callback=function() end,flags={'allow-stale','no-writes'},description='d'}""##,
        "\"two\"",
    );
    let one = r#"["library_name", "one", "engine", "LUA", "functions", [["name", "f", "description", nil, "flags", []]]"#;
    let two = r#"["library_name", "two", "engine", "LUA", "functions", [["name", "g", "description", "d", "flags", [+no-writes, +allow-stale]]]"#;
    rig.check("FUNCTION LIST", &format!("[{one}], {two}]]"));
    rig.check("FUNCTION LIST LIBRARYNAME T*", &format!("[{two}]]"));
    let code = rig.run("FUNCTION LIST WITHCODE LIBRARYNAME one");
    assert!(code.starts_with(&format!("[{one}, \"library_code\", \"#!lua name=one")), "{code}");
    check(
        &mut rig,
        &[
            ("FUNCTION LIST LIBRARYNAME", "-ERR library name argument was not given"),
            ("FUNCTION LIST x", "-ERR Unknown argument x"),
            (
                "FUNCTION STATS",
                r#"["running_script", nil, "engines", ["LUA", ["libraries_count", :2, "functions_count", :2]]]"#,
            ),
            ("FUNCTION FLUSH ASYNC", "+OK"),
            ("FUNCTION LIST", "[]"),
            ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now."),
        ],
    );
}

/// The payload of FUNCTION DUMP.
fn dumped(rig: &mut Rig) -> Vec<u8> {
    let client = rig.client;
    let reply = rig.argv(client, &[b"FUNCTION", b"DUMP"]);
    let head = reply.iter().position(|byte| *byte == b'\n').unwrap();
    reply[head + 1..reply.len() - 2].to_vec()
}

fn restore(rig: &mut Rig, payload: &[u8], policy: &str) -> String {
    let client = rig.client;
    render(&rig.argv(client, &[b"FUNCTION", b"RESTORE", payload, policy.as_bytes()]))
}

#[test]
fn libraries_are_restored_whole_or_not_at_all() {
    let mut rig = with("l", "f", "return 1");
    rig.run(&load("m", "g", "return 1"));
    let payload = dumped(&mut rig);
    rig.check("FUNCTION FLUSH", "+OK");
    rig.check(&load("m", "g", "return 2"), "\"m\"");
    assert_eq!(restore(&mut rig, &payload, "APPEND"), "-ERR Library m already exists");
    rig.check("FCALL f 0", "-ERR Function not found");
    assert_eq!(restore(&mut rig, &payload, "REPLACE"), "+OK");
    check(&mut rig, &[("FCALL f 0", ":1"), ("FCALL g 0", ":1"), ("FUNCTION FLUSH SYNC", "+OK")]);
    rig.check(&load("other", "G", "return 3"), "\"other\"");
    assert_eq!(restore(&mut rig, &payload, "REPLACE"), "-ERR Function g already exists");
    check(&mut rig, &[("FCALL g 0", ":3"), ("FCALL f 0", "-ERR Function not found")]);
    assert_eq!(restore(&mut rig, &payload, "FLUSH"), "+OK");
    check(&mut rig, &[("FCALL g 0", ":1"), ("FUNCTION DELETE other", "-ERR Library not found")]);
    let mut wrong = payload.clone();
    wrong[3] ^= 1;
    assert_eq!(restore(&mut rig, &wrong, "FLUSH"), "-ERR DUMP payload version or checksum are wrong");
    assert!(restore(&mut rig, &payload, "x").starts_with("-ERR Wrong restore policy given"));
}

#[test]
fn a_function_s_writes_are_one_unit_and_its_library_is_told_as_it_came() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    rig.run(&load("l", "w", "server.call('SET',keys[1],1) server.call('INCR',keys[1])"));
    let loaded = rig.fed(replica);
    assert!(loaded.contains("FUNCTION LOAD #!lua name=l"), "{loaded}");
    rig.run("FCALL w 1 k");
    assert_eq!(rig.fed(replica), "MULTI; SET k 1; INCR k; EXEC");
    rig.run("FUNCTION DELETE l");
    assert_eq!(rig.fed(replica), "FUNCTION DELETE l");
}

#[test]
fn a_transaction_loads_and_calls() {
    let mut rig = Rig::new();
    let load = load("l", "f", "return 5");
    for line in ["MULTI", &load, "FCALL f 0", "FUNCTION FLUSH", "FCALL f 0"] {
        rig.run(line);
    }
    rig.check("EXEC", r#"["l", :5, +OK, -ERR Function not found]"#);
}

#[test]
fn libraries_come_back_with_the_data() {
    let mut rig = with("l", "f", "return 1");
    rig.check("DEBUG RELOAD", "+OK");
    rig.check("FCALL f 0", ":1");
    rig.check(&load("m", "g", "return 2"), "\"m\"");
    // The file has the library `l`, which exists already.
    rig.check("DEBUG RELOAD NOSAVE NOFLUSH", "-ERR Error trying to load the RDB dump, check server logs.");
    check(&mut rig, &[("FCALL f 0", ":1"), ("FCALL g 0", ":2")]);
    rig.check("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK");
    check(&mut rig, &[("FCALL f 0", ":1"), ("FCALL g 0", ":2")]);
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    check(&mut rig, &[("FCALL f 0", ":1"), ("FCALL g 0", "-ERR Function not found")]);
    check(&mut rig, &[("FLUSHALL", "+OK"), ("FCALL f 0", ":1")]);
}

/// A client that calls an endless function; `writes` is its beginning, which may write.
fn endless(writes: &str) -> (Rig, SessionKey) {
    let mut rig = with("l", "spin", &format!("{writes} while true do server.call('PING') end"));
    rig.check("CONFIG SET busy-reply-threshold 100", "+OK");
    let other = rig.connect();
    assert_eq!(rig.run("FCALL spin 1 k"), "");
    assert!(rig.engine.has_open_unit());
    rig.pass_ms(150);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit());
    (rig, other)
}

#[test]
fn a_function_that_goes_on_is_shown_and_killed() {
    let (mut rig, other) = endless("");
    let busy = "-BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    rig.check_as(other, "GET k", busy);
    let stats = rig.run_as(other, "FUNCTION STATS");
    assert!(
        stats.starts_with(r#"["running_script", ["name", "spin", "command", ["FCALL", "spin", "1", "k"], "duration_ms", :15"#),
        "{stats}"
    );
    rig.check_as(other, "SCRIPT KILL", busy);
    rig.check_as(other, "FUNCTION KILL", "+OK");
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    let client = rig.client;
    let answer = render(&rig.output(client));
    assert!(answer.starts_with("-ERR Script killed by user with FUNCTION KILL."), "{answer}");
    rig.check_as(other, "FUNCTION KILL", "-NOTBUSY No scripts in execution right now.");
    // The library can be called again.
    assert_eq!(rig.run("FCALL spin 1 k"), "");
    assert!(rig.engine.has_open_unit());
}

#[test]
fn a_function_that_has_written_is_not_killed() {
    let (mut rig, other) = endless("server.call('SET',keys[1],1)");
    let answer = rig.run_as(other, "FUNCTION KILL");
    assert!(answer.starts_with("-UNKILLABLE Sorry the script already executed write commands"), "{answer}");
}

#[test]
fn a_native_function_may_be_the_function() {
    let mut rig = Rig::new();
    check(
        &mut rig,
        &[
            (
                r##"FUNCTION LOAD "#!lua name=l\nserver.register_function('f',server.register_function) server.register_function('w',redis.log)""##,
                "\"l\"",
            ),
            ("FCALL f 0", "-ERR server.register_function can only be called on FUNCTION LOAD command"),
            ("FCALL w 0", "-ERR First argument must be a number (log level)."),
            ("FCALL w 0 x", "-ERR First argument must be a number (log level)."),
        ],
    );
}

/// The payload of FUNCTION DUMP with libraries of these programs, which no server has accepted.
fn payload_of(programs: &[&str]) -> Vec<u8> {
    let codes: Vec<Vec<u8>> = programs
        .iter()
        .enumerate()
        .map(|(at, program)| format!("#!lua name=l{at}\n{program}").into_bytes())
        .collect();
    sluice_persist::rdb::dump_functions(codes.iter().map(Vec::as_slice), false)
}

const SHORT: &str = "server.register_function('short', function() return 1 end)";

/// Endless programs: of instructions alone, of calls of the server, of conversions of a long string, and of
/// registrations.
const ENDLESS: [&str; 4] = [
    "while true do end",
    "while true do server.log(server.LOG_NOTICE, 'x') end",
    "local s = ('1'):rep(1000000) while true do local x = s + 1 end",
    "while true do server.register_function{function_name='a', callback=server.log, flags={'no-writes'}} end",
];

#[test]
fn a_library_without_an_end_is_restored_in_slices_and_ends_with_its_time() {
    for program in ENDLESS {
        let mut rig = with("kept", "f", "return 1");
        let (client, other) = (rig.client, rig.connect());
        let payload = payload_of(&[SHORT, program]);
        rig.process.us_each_look = 100;
        assert_eq!(
            render(&rig.argv(client, &[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"])),
            "",
            "{program}"
        );
        assert!(rig.engine.has_open_unit(), "{program}");
        let mut slices = 0;
        while rig.engine.has_open_unit() {
            slices += 1;
            assert!(slices < 1000, "{program}");
            rig.engine.advance_unit(&mut rig.process);
        }
        let answer = render(&rig.output(client));
        let is_bound = answer.contains("at most 10000 functions");
        assert!(
            answer == "-ERR Error registering functions: ERR FUNCTION LOAD timeout" || is_bound,
            "{answer}"
        );
        assert!(rig.process.log.len() < 200, "{} lines: {program}", rig.process.log.len());
        rig.process.us_each_look = 0;
        rig.check_as(other, "FCALL f 0", ":1");
        rig.check_as(other, "FCALL short 0", "-ERR Function not found");
    }
}

#[test]
fn a_restore_without_an_end_is_killed() {
    let mut rig = Rig::new();
    let (client, other) = (rig.client, rig.connect());
    rig.check("CONFIG SET busy-reply-threshold 100", "+OK");
    let payload = payload_of(&[SHORT, ENDLESS[1]]);
    rig.process.us_each_look = 100;
    assert_eq!(render(&rig.argv(client, &[b"FUNCTION", b"RESTORE", &payload])), "");
    rig.pass_ms(150);
    rig.engine.advance_unit(&mut rig.process);
    rig.check_as(other, "FUNCTION KILL", "+OK");
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    let answer = render(&rig.output(client));
    assert!(answer.contains("Script killed by user with FUNCTION KILL."), "{answer}");
    rig.check_as(other, "FCALL short 0", "-ERR Function not found");
}

#[test]
fn the_end_of_the_server_ends_a_script_that_has_written_nothing() {
    let (mut rig, _) = endless("");
    assert!(rig.engine.end_waits_for_cron(&mut rig.process));
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    let client = rig.client;
    let answer = render(&rig.output(client));
    assert!(
        answer.starts_with("-ERR A script that had changed nothing was ended: the server ends"),
        "{answer}"
    );
    assert!(!rig.engine.end_waits_for_cron(&mut rig.process));
    // The server waits for a function that has written, and the log says what can be done.
    let (mut rig, _) = endless("server.call('SET',keys[1],1)");
    for _ in 0..3 {
        assert!(rig.engine.end_waits_for_cron(&mut rig.process));
        rig.engine.advance_unit(&mut rig.process);
    }
    assert!(rig.engine.has_open_unit());
    let lines = rig.process.log.iter().filter(|(_, line)| line.contains("SHUTDOWN NOSAVE FORCE NOW")).count();
    assert_eq!(lines, 1);
}

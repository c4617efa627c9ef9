//! SCRIPT DEBUG SYNC: where a run stops, the debugger's replies, and the end of a run whose client
//! or server ends.

use sluice_base::SessionKey;
use sluice_testkit::{Rig, render};

const SCRIPT: &str = "local a = {1,2,x='y'}
local function f(n)
  local m = n * 2
  return m
end
local s = redis.call('SET', KEYS[1], ARGV[1])
local b = f(21)
redis.debug('seen', b, nil, true)
if b > 40 then
  redis.breakpoint()
end
for i=1,2 do
  b = b + i
end
return {b, s}";

/// A client whose script is stopped at its first line.
fn begin_with(rig: &mut Rig, script: &str) -> SessionKey {
    let client = rig.connect();
    rig.check_as(client, "SCRIPT DEBUG SYNC", "+OK");
    let first = ask(rig, client, &["EVAL", script, "1", "k", "v"]);
    assert!(first.starts_with("[+* Stopped at 1, stop reason = step over, +-> 1 "), "{first}");
    client
}

fn begin(rig: &mut Rig) -> SessionKey {
    begin_with(rig, SCRIPT)
}

fn ask(rig: &mut Rig, client: SessionKey, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut out = rig.argv(client, &words);
    out.extend(rig.output(client));
    render(&out)
}

/// Checks a debugging session, line by line: `words => answer`.
fn check(rig: &mut Rig, client: SessionKey, session: &[(&str, &str)]) {
    for (words, wanted) in session {
        let words: Vec<&str> = words.split('|').collect();
        assert_eq!(ask(rig, client, &words), *wanted, "{words:?}");
    }
}

#[test]
fn a_run_stops_at_lines_breakpoints_and_where_it_says() {
    let mut rig = Rig::new();
    let client = begin(&mut rig);
    check(
        &mut rig,
        client,
        &[
            ("p", "[+No local variables in the current context.]"),
            ("s", "[+* Stopped at 5, stop reason = step over, +-> 5   end]"),
            (
                "n",
                "[+* Stopped at 6, stop reason = step over, +-> 6   local s = redis.call('SET', KEYS[1], ARGV[1])]",
            ),
            (
                "step",
                "[+<command> SET k v, +<reply> \"+OK\", +* Stopped at 7, stop reason = step over, +-> 7   local b = f(21)]",
            ),
            ("s", "[+* Stopped at 3, stop reason = step over, +-> 3     local m = n * 2]"),
            ("t", "[+In f:, +-> 3     local m = n * 2, +From top level:, +   7   local b = f(21)]"),
            ("p|n", "[+<value> 21]"),
            ("p|a", "[+<value> {[1]=1; [2]=2; [x]=y; }]"),
            ("p|m", "[+No such variable.]"),
            ("p|KEYS", "[+<value> {k; }]"),
            ("b|13", "[+   12  for i=1,2 do, +  #13    b = b + i, +   14  end]"),
            ("b|99", "[+Wrong line number.]"),
            ("b|x", "[+Invalid argument:'x']"),
            ("b", "[+1 breakpoints set:, +  #13    b = b + i]"),
            (
                "c",
                "[+<debug> line 8: seen, 42, nil, true, +* Stopped at 12, stop reason = server.breakpoint() called, \
                 +-> 12  for i=1,2 do]",
            ),
            ("continue", "[+* Stopped at 13, stop reason = break point, +->#13    b = b + i]"),
            (
                "list|2|1",
                "[+   1   local a = {1,2,x='y'}, +   2   local function f(n), +   3     local m = n * 2]",
            ),
            ("c", "[+* Stopped at 13, stop reason = break point, +->#13    b = b + i]"),
            ("b|-13", "[+Breakpoint removed.]"),
            ("b|-13", "[+No breakpoint in the specified line.]"),
            ("c", "[+<endsession>]\n[:45, +OK]"),
        ],
    );
    assert!(!rig.engine.has_open_unit());
    rig.check("GET k", "\"v\"");
}

#[test]
fn commands_are_called_and_programs_evaluated_beside_the_run() {
    let mut rig = Rig::new();
    let client = begin(&mut rig);
    check(
        &mut rig,
        client,
        &[
            ("r|SET|q|1", "[+<command> SET q 1, +<reply> \"+OK\"]"),
            ("server|PING", "[+<command> PING, +<reply> \"+PONG\"]"),
            (
                "valkey|NOSUCH",
                "[+<command> NOSUCH, +<reply> \"-ERR unknown command 'NOSUCH', with args beginning with: \", \
                 +<error> Unknown command called from script]",
            ),
            (
                "r|MULTI",
                "[+<command> MULTI, +<reply> \"-ERR command 'multi' is not allowed on script mode\", \
                 +<error> This Valkey command is not allowed from script]",
            ),
            (
                "r|INCR|q|2",
                "[+<command> INCR q 2, +<reply> \"-ERR wrong number of arguments for 'incr' command\", \
                 +<error> Wrong number of args calling command from script]",
            ),
            ("r", "[+<error> Unknown debugger command or wrong number of arguments.]"),
            ("e|1+1", "[+<retval> 2]"),
            ("eval|return|redis.call('INCR',|'q')", "[+<retval> 2]"),
            ("e|return KEYS", "[+<retval> {k; }]"),
            ("e|error('x')", "[+<error> ldb_eval:1: x]"),
            ("e|x = 1", "[+<error> ldb_eval:1: Attempt to modify a readonly table]"),
            ("e|for", "[+Error compiling code: ldb_eval:1: '<name>' expected near '<eof>']"),
            ("e|return {1,{2}},nil", "[+<retval> {1; {2; }; }]"),
            ("nonsense", "[+<error> Unknown debugger command or wrong number of arguments.]"),
            ("maxlen|5", "[+<value> replies are truncated at 60 bytes.]"),
            ("maxlen", "[+Current maxlen is 60]"),
            ("abort", "[+<endsession>]\n-ERR script aborted for user request script: on @user_script:1."),
        ],
    );
    rig.check("GET q", "\"2\"");
}

#[test]
fn what_is_evaluated_without_end_is_given_up() {
    let mut rig = Rig::new();
    rig.process.us_each_look = 100;
    let client = begin(&mut rig);
    let answer = ask(&mut rig, client, &["e", "while true do end"]);
    assert!(answer.starts_with("[+<error> evaluated for 100 ms"), "{answer}");
    check(&mut rig, client, &[("e|1+1", "[+<retval> 2]")]);
}

#[test]
fn others_are_held_then_busy_and_may_kill() {
    let mut rig = Rig::with(&[("busy-reply-threshold", "50")]);
    let client = begin(&mut rig);
    let other = rig.connect();
    rig.check_as(other, "PING", "");
    rig.pass_ms(200);
    rig.engine.advance_unit(&mut rig.process);
    let told = render(&rig.output(other));
    assert!(told.starts_with("-BUSY"), "{told}");
    check(&mut rig, client, &[("p|n", "[+No such variable.]")]);
    rig.check_as(other, "SCRIPT KILL", "+OK");
    rig.pass_ms(200);
    rig.engine.advance_unit(&mut rig.process);
    let ended = render(&rig.output(client));
    assert!(ended.starts_with("[+<endsession>]\n-ERR Script killed by user"), "{ended}");
    rig.check_as(other, "PING", "+PONG");
}

#[test]
fn a_run_goes_on_without_its_client() {
    let mut rig = Rig::new();
    for has_written in [false, true] {
        let client = begin(&mut rig);
        if has_written {
            check(&mut rig, client, &[("r|SET|w|1", "[+<command> SET w 1, +<reply> \"+OK\"]")]);
        }
        rig.engine.disconnect(client, &mut rig.process);
        rig.pass_ms(200);
        rig.engine.advance_unit(&mut rig.process);
        assert!(!rig.engine.has_open_unit());
        // A script that has changed nothing is aborted; a script that has written runs to its end.
        rig.check("GET k", if has_written { "\"v\"" } else { "nil" });
    }
}

#[test]
fn a_stopped_run_that_has_written_nothing_ends_with_the_server() {
    let mut rig = Rig::new();
    let client = begin(&mut rig);
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit(), "it waits for its client, however long");
    assert!(rig.engine.end_waits_for_cron(&mut rig.process), "a signal has come");
    rig.pass_ms(200);
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    let answer = render(&rig.output(client));
    assert!(
        answer.starts_with("-ERR A script that had changed nothing was ended: the server ends"),
        "{answer}"
    );
    assert!(!rig.engine.end_waits_for_cron(&mut rig.process));
}

#[test]
fn a_run_without_end_stops_behind_the_threshold() {
    let mut rig = Rig::with(&[("busy-reply-threshold", "50")]);
    rig.process.us_each_look = 100;
    let client = begin_with(&mut rig, "while true do end");
    let mut told = ask(&mut rig, client, &["c"]);
    for _ in 0..1000 {
        rig.engine.advance_unit(&mut rig.process);
        told += &render(&rig.output(client));
        if !told.is_empty() {
            break;
        }
    }
    assert_eq!(
        told,
        "[+* Stopped at 1, stop reason = timeout reached, infinite loop?, +-> 1   while true do end]"
    );
}

#[test]
fn the_session_ends_with_what_does_not_begin() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.check_as(client, "SCRIPT DEBUG SYNC lua", "+OK");
    rig.check_as(
        client,
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "-ERR Please use EVAL instead of EVALSHA for debugging",
    );
    rig.check_as(client, "SCRIPT DEBUG NO", "+OK");
    rig.check_as(client, "EVAL \"return 1\" 0", ":1");
    rig.check_as(client, "SCRIPT DEBUG sync", "+OK");
    let answer = ask(&mut rig, client, &["EVAL", "x = = 1", "0"]);
    let error = "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '='";
    assert_eq!(answer, format!("[+<endsession>]\n{error}"));
    // A script without any line stops at line 1, too.
    let client = rig.connect();
    rig.check_as(client, "SCRIPT DEBUG SYNC", "+OK");
    let answer = ask(&mut rig, client, &["EVAL", "", "0"]);
    assert!(answer.contains("Stopped at 1"), "{answer}");
    check(&mut rig, client, &[("c", "[+<endsession>]\nnil")]);
}

#[test]
fn a_transaction_is_debugged_too_and_told_of_as_one() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    rig.fed(replica);
    let client = rig.connect();
    for (line, reply) in [
        ("SCRIPT DEBUG SYNC", "+OK"),
        ("MULTI", "+OK"),
        ("SET m 1", "+QUEUED"),
        ("EVAL \"return redis.call('INCR','m')\" 0", "+QUEUED"),
        ("SET n 2", "+QUEUED"),
        ("EXEC", "[+* Stopped at 1, stop reason = step over, +-> 1   return redis.call('INCR','m')]"),
    ] {
        rig.check_as(client, line, reply);
    }
    assert_eq!(rig.fed(replica), "");
    check(&mut rig, client, &[("s", "[+<command> INCR m, +<reply> 2, +<endsession>]\n[+OK, :2, +OK]")]);
    assert_eq!(rig.fed(replica), "MULTI; SET m 1; INCR m; SET n 2; EXEC");
}

#[test]
fn a_run_is_not_killed_whose_client_has_written_for_it() {
    let mut rig = Rig::with(&[("busy-reply-threshold", "50")]);
    let client = begin(&mut rig);
    let other = rig.connect();
    check(&mut rig, client, &[("r|SET|w|1", "[+<command> SET w 1, +<reply> \"+OK\"]")]);
    rig.pass_ms(200);
    rig.engine.advance_unit(&mut rig.process);
    let mut out = rig.argv(other, &[b"SCRIPT", b"KILL"]);
    out.extend(rig.output(other));
    let answer = render(&out);
    assert!(answer.starts_with("-UNKILLABLE"), "{answer}");
}

#[test]
fn the_end_is_told_behind_more_lines_than_are_kept() {
    let mut rig = Rig::new();
    let script = "local t = string.rep('x', 200)\nfor i = 1, 30000 do redis.debug(t) end\nreturn 1";
    let client = begin_with(&mut rig, script);
    let told = ask(&mut rig, client, &["c"]);
    assert!(told.len() < 8 << 20, "{}", told.len());
    assert!(told.ends_with("+<endsession>]\n:1"), "{}", &told[told.len() - 100..]);
}

#[test]
fn a_threshold_of_zero_is_that_of_the_reference() {
    let mut rig = Rig::with(&[("busy-reply-threshold", "0")]);
    rig.process.us_each_look = 100;
    let client = begin_with(&mut rig, "for i = 1, 20000 do end return 1");
    let mut told = ask(&mut rig, client, &["c"]);
    for _ in 0..1000 {
        rig.engine.advance_unit(&mut rig.process);
        told += &render(&rig.output(client));
    }
    assert_eq!(told, "[+<endsession>]\n:1");
}

//! Hostile scripts, with real sockets: many scripts at once, endless scripts, and scripts with unbounded
//! memory or unusual results.

use super::common::{Client, Server, request, until};
use std::time::{Duration, Instant};

const BUSY: &str = "-BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// `CLIENTS`: number of clients with one script each. `EACH_MS`: duration of each script, milliseconds.
const CLIENTS: usize = 120;
const EACH_MS: u64 = 20;

#[test]
fn beside_many_clients_with_long_scripts_everybody_is_served() {
    let server = Server::start(&[]);
    // The script runs for a fixed time and not for a number of steps, because the bounds below are times that
    // must hold on a busy machine, too.
    let script = format!(
        "local ends = os.clock() + {EACH_MS} / 1000 while os.clock() < ends do end return redis.call('INCR', KEYS[1])"
    );
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let mut other = server.client();
    other.check("PING", "+PONG\r\n");
    for client in &mut clients {
        client.send(request(&[b"EVAL", script.as_bytes(), b"1", b"ended"]));
    }
    let ended = |other: &mut Client| {
        let number: Option<usize> = String::from_utf8(other.bulk("GET ended")).unwrap().parse().ok();
        number.unwrap_or(0)
    };
    let (mut worst, mut looks, mut last) = (Duration::ZERO, 0, 0);
    // Requests during the scripts are answered between two scripts, and not only after the last one.
    while last < CLIENTS {
        let began = Instant::now();
        other.check("PING", "+PONG\r\n");
        worst = worst.max(began.elapsed());
        looks += 1;
        last = ended(&mut other);
    }
    assert!(looks >= CLIENTS / 10, "only {looks} questions were answered meanwhile");
    let all = Duration::from_millis(EACH_MS * CLIENTS as u64);
    assert!(worst < all / 2, "one PING took {worst:?}; all scripts take {all:?}");
    let mut answers: Vec<usize> = clients
        .iter_mut()
        .map(|client| client.line().trim_start_matches(':').trim().parse().unwrap())
        .collect();
    answers.sort_unstable();
    assert_eq!(answers, (1..=CLIENTS).collect::<Vec<_>>());
}

#[test]
fn a_script_without_end_is_killed_by_somebody_else() {
    let server = Server::start(&["--busy-reply-threshold", "50"]);
    let (mut caller, mut other) = (server.client(), server.client());
    caller.send(request(&[b"EVAL", b"while true do end", b"0"]));
    // Commands wait until the script counts as busy, and then get an error.
    until("the script to be busy", || {
        other.send("GET k\r\n");
        (other.line().trim_end() == BUSY).then_some(())
    });
    other.check("SCRIPT KILL", "+OK\r\n");
    caller.expect("-ERR Script killed by user with SCRIPT KILL. script: on @user_script:1.\r\n");
    other.check("GET k", "$-1\r\n");
    caller.check("PING", "+PONG\r\n");
}

#[test]
fn a_script_without_bound_meets_the_limit_of_memory() {
    let server = Server::start(&["--script-memory-limit", "16mb"]);
    let mut client = server.client();
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local function f() return 1 + f() end return f()",
        "return string.rep('x', 100000000)",
        "local t = {} for i = 1, 100000 do t[i] = string.rep('x', i) end",
        "local t = {} for i = 1, 3000 do t[i] = function() return t end end return table.concat({string.rep('y', 20000000)})",
    ] {
        client.send(request(&[b"EVAL", script.as_bytes(), b"0"]));
        let answer = client.line();
        let is_known = ["not enough memory", "stack overflow"].iter().any(|text| answer.contains(text));
        assert!(is_known && answer.starts_with("-ERR"), "{script}: {answer}");
        client.check("PING", "+PONG\r\n");
    }
    // The scripts' memory is free again.
    let large = "local t = {} for i = 1, 100 do t[i] = string.rep('x', 100000) .. i end return #t";
    client.send(request(&[b"EVAL", large.as_bytes(), b"0"])).expect(":100\r\n");
}

#[test]
fn results_of_any_form_are_answered() {
    let server = Server::start(&[]);
    let mut client = server.client();
    // The reply for a table that contains itself ends where the reference ends it.
    let cyclic = ["*1\r\n".repeat(7995).as_str(), "-ERR reached lua stack limit\r\n"].concat();
    client.send(request(&[b"EVAL", b"local t = {} t[1] = t return t", b"0"])).expect(cyclic);
    // A reply of a million elements is made and sent while other clients are served.
    let mut other = server.client();
    let many = b"local t = {} for i = 1, 1000000 do t[i] = i % 10 end return t";
    client.send(request(&[b"EVAL", many, b"0"]));
    other.check("PING", "+PONG\r\n");
    let elements: String = (1..=1_000_000).map(|number| format!(":{}\r\n", number % 10)).collect();
    client.expect(format!("*1000000\r\n{elements}"));
    for (script, answer) in [
        ("error({err = 'MY own', more = {1, 2}})", "-MY own script: on @user_script:1.\r\n"),
        ("error({})", "-ERR unknown error script: on @user_script:1.\r\n"),
        ("error(true)", "-ERR true script: on @user_script:1.\r\n"),
        ("return {1, 2, nil, 4}", "*2\r\n:1\r\n:2\r\n"),
        ("redis.call('SET', 'undeclared', 1) return redis.call('GET', 'undeclared')", "$1\r\n1\r\n"),
    ] {
        client.send(request(&[b"EVAL", script.as_bytes(), b"0"])).expect(answer);
    }
}

#[test]
fn a_script_cannot_call_itself() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let script = b"return redis.call('EVALSHA', ARGV[1], 0, ARGV[1])";
    client.send(request(&[b"SCRIPT", b"LOAD", script])).expect("$40\r\n");
    let sha = client.line().trim().to_owned();
    let refused = "-ERR This Valkey command is not allowed from script script: on @user_script:1.\r\n";
    client.check(&format!("EVALSHA {sha} 0 {sha}"), refused);
    let caught = b"return redis.pcall('EVAL', 'return 1', 0)";
    client
        .send(request(&[b"EVAL", caught, b"0"]))
        .expect("-ERR This Valkey command is not allowed from script\r\n");
}

/// The connection belongs to the main thread or to an I/O thread. The debugger receives each request of the
/// client, also one that arrived together with EVAL.
#[test]
fn a_script_is_debugged_over_a_socket() {
    for threads in [&[][..], &["--io-threads", "3", "--io-threads-always-active", "yes"]] {
        let server = Server::start(threads);
        let (mut client, mut other) = (server.client(), server.client());
        client.check("SCRIPT DEBUG SYNC", "+OK\r\n");
        let script = b"local a = 7\nredis.call('SET', KEYS[1], a)\nreturn a";
        let mut requests = request(&[b"EVAL", script, b"1", b"k"]);
        requests.extend(request(&[b"step"]));
        client.send(requests);
        client.expect("*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   local a = 7\r\n");
        client.expect(
            "*2\r\n+* Stopped at 2, stop reason = step over\r\n+-> 2   redis.call('SET', KEYS[1], a)\r\n",
        );
        other.send("GET k\r\n");
        client.send("print a\r\n");
        client.expect("*1\r\n+<value> 7\r\n");
        client.send("continue\r\n");
        client.expect("*1\r\n+<endsession>\r\n:7\r\n");
        client.expect_end();
        other.expect("$1\r\n7\r\n");
    }
}

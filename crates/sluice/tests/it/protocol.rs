//! The protocol, end to end: bytes in any pieces, replies in order, exact errors.

use crate::common::{self, Server, request, until};
use std::io::Write;

#[test]
fn every_split_of_a_stream_gives_the_same_replies() {
    let server = Server::start(&[]);
    let mut stream = request(&[b"SET", b"key", b"a\r\nb\0c"]);
    stream.extend_from_slice(b"PING\r\n\n\r\n");
    stream.extend(request(&[b"GET", b"key"]));
    stream.extend_from_slice(b"SET \"in line\" 'x y'\r\n");
    stream.extend(request(&[b"GET", b"in line"]));
    let replies = b"+OK\r\n+PONG\r\n$6\r\na\r\nb\0c\r\n+OK\r\n$3\r\nx y\r\n";
    let mut bystander = server.client();
    let mut client = server.client();
    for cut in 1..stream.len() {
        client.send(&stream[..cut]);
        // The server serves connections in the order in which they became ready, so the first part has been
        // read when PING is answered.
        bystander.check("PING", "+PONG\r\n");
        client.send(&stream[cut..]).expect(replies);
    }
    for byte in &stream {
        client.send([*byte]);
        bystander.check("PING", "+PONG\r\n");
    }
    client.expect(replies);
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let count = 20_000;
    let mut out = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let stream: Vec<u8> = (0..count).flat_map(|_| request(&[b"INCR", b"n"])).collect();
        std::io::Write::write_all(&mut out, &stream).unwrap();
    });
    let replies: String = (1..=count).map(|n| format!(":{n}\r\n")).collect();
    client.expect(&replies);
    writer.join().unwrap();
}

#[test]
fn a_large_value_comes_and_goes_whole_and_is_counted_once() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let value: Vec<u8> = (0..16 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let before = client.info_number("total_net_input_bytes");
    let set = request(&[b"SET", b"big", &value]);
    client.send(&set).expect("+OK\r\n");
    let after = client.info_number("total_net_input_bytes");
    let asking = "INFO everything debug\r\n".len() as i64;
    assert_eq!(after - before, set.len() as i64 + asking);
    let mut reply = format!("${}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\n");
    client.check("GET big", &reply);
    // A request that arrives together with the end of the large value is not taken as part of the value.
    let mut both = set.clone();
    both.extend_from_slice(b"STRLEN big\r\nPI");
    client.send(&both).expect("+OK\r\n:16777216\r\n");
    let mut bystander = server.client();
    until("the room of a large value is given back", || {
        let list = String::from_utf8(bystander.bulk("CLIENT LIST")).unwrap();
        let room = |line: &str| line.split(" qbuf-free=").nth(1)?.split(' ').next()?.parse::<usize>().ok();
        (list.lines().filter_map(room).max()? < 1 << 20).then_some(())
    });
    client.send("NG\r\n").expect("+PONG\r\n");
}

#[test]
fn large_values_in_pieces_and_pipelines_are_stored_to_the_byte() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let value = |len: usize| (0..len).map(|at| (at * 31 / 7 + len) as u8).collect::<Vec<u8>>();
    let lengths = [4095, 4096, 16_384, 20_000, 40_000, 150_000];
    let (mut stream, mut replies) = (Vec::new(), Vec::new());
    for len in lengths {
        let (one, two) = (value(len), value(len + 1));
        stream.extend(request(&[b"SET", b"one", &one]));
        stream.extend(request(&[b"MSET", b"one", &one, b"two", &two]));
        stream.extend(request(&[b"APPEND", b"two", b"x"]));
        stream.extend_from_slice(b"MULTI\r\n");
        stream.extend(request(&[b"SETEX", b"three", b"100", &two]));
        stream.extend_from_slice(b"EXEC\r\nMGET one two three\r\n");
        replies.extend_from_slice(b"+OK\r\n+OK\r\n");
        replies.extend(format!(":{}\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n", len + 2).bytes());
        let read = request(&[&one, &[&two[..], b"x"].concat(), &two]);
        replies.extend(read);
    }
    for piece in [stream.len(), 16_384, 5_000, 33_333] {
        let (sent, mut out) = (stream.clone(), client.stream.try_clone().unwrap());
        let mut pace = server.client();
        let writer = std::thread::spawn(move || {
            for part in sent.chunks(piece) {
                std::io::Write::write_all(&mut out, part).unwrap();
                // When PING is answered, the server has received all earlier bytes.
                pace.check("PING", "+PONG\r\n");
            }
        });
        client.expect(&replies);
        writer.join().unwrap();
    }
}

#[test]
fn wrong_requests_are_answered_to_the_letter_and_end_the_connection() {
    let server = Server::start(&[]);
    let long = "x".repeat(64 * 1024 + 1);
    let cases: &[(&str, &str)] = &[
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$600000000\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*1\r\nfoo\r\n", "expected '$', got 'f'"),
        ("SET \"x\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&format!("*{long}"), "too big mbulk count string"),
        (&format!("*1\r\n${long}"), "too big bulk count string"),
    ];
    for (sent, text) in cases {
        let mut client = server.client();
        // Requests before the error are answered first.
        client.send("PING\r\n").send(sent).expect(format!("+PONG\r\n-ERR Protocol error: {text}\r\n"));
        client.expect_end();
    }
}

#[test]
fn nothing_behind_a_wrong_request_runs() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send("*1\r\n!\r\nSET after 1\r\n").expect("-ERR Protocol error: expected '$', got '!'\r\n");
    client.expect_end();
    server.client().check("EXISTS after", ":0\r\n");
}

#[test]
fn an_argument_may_be_as_large_as_configured() {
    let server = Server::start(&["--proto-max-bulk-len", "1mb"]);
    let mut client = server.client();
    let value = vec![b'x'; 1 << 20];
    client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    client
        .send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n")
        .expect("-ERR Protocol error: invalid bulk length\r\n");
    client.expect_end();
}

#[test]
fn quit_answers_and_ends_even_when_replies_are_off() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send("SET a 1\r\nQUIT\r\nSET a 2\r\n").expect("+OK\r\n+OK\r\n").expect_end();
    let mut silent = server.client();
    silent.send("CLIENT REPLY OFF\r\nSET b 1\r\nQUIT\r\n").expect_end();
    server.client().check("MGET a b", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

#[test]
fn a_web_page_that_talks_to_the_port_is_cut_off() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nSET x 1\r\n").expect_end();
    server.client().check("EXISTS x", ":0\r\n");
}

#[test]
fn a_request_that_waits_keeps_its_place_and_its_end_is_noticed() {
    let server = Server::start(&[]);
    let mut control = server.client();
    control.check("CLIENT PAUSE 100000000 WRITE", "+OK\r\n");
    let mut waiting = server.client();
    waiting.send("PING\r\nSET a 1\r\nGET a\r\nINCR a\r\n").expect("+PONG\r\n");
    let mut leaving = server.client();
    leaving.send("SET gone 1\r\n");
    until("two waiting clients", || (control.info_number("blocked_clients") == 2).then_some(()));
    drop(leaving);
    until("the end of one", || (control.info_number("connected_clients") == 2).then_some(()));
    // A blocked client may send further requests, within limits.
    waiting.send("PING\r\n".repeat(1000));
    control.check("CLIENT UNPAUSE", "+OK\r\n");
    waiting.expect("+OK\r\n$1\r\n1\r\n:2\r\n").expect("+PONG\r\n".repeat(1000));
    control.check("EXISTS gone", ":0\r\n");
}

#[test]
fn the_end_of_a_client_that_sent_ahead_is_noticed() {
    let server = Server::start(&[]);
    let (mut control, mut waiting) = (server.client(), server.client());
    waiting.send("BLPOP l 0\r\n");
    until("it waits", || (control.info_number("blocked_clients") == 1).then_some(()));
    waiting.send(request(&[b"ECHO", &[b'x'; 300_000]]));
    drop(waiting);
    until("its end", || (control.info_number("connected_clients") == 1).then_some(()));
    control.check("RPUSH l v", ":1\r\n").check("LLEN l", ":1\r\n");
}

#[test]
fn what_a_waiting_client_may_send_ahead_is_bounded() {
    let server = Server::start(&["--client-query-buffer-limit", "1mb"]);
    let (mut control, mut greedy) = (server.client(), server.client());
    greedy.send("BLPOP l 0\r\n");
    until("it waits", || (control.info_number("blocked_clients") == 1).then_some(()));
    let piece = vec![b'x'; 64 * 1024];
    until("the end of the connection", || greedy.stream.write_all(&piece).is_err().then_some(()));
    until("its count", || {
        (control.info_number("client_query_buffer_limit_disconnections") == 1).then_some(())
    });
    until("nobody waits", || (control.info_number("blocked_clients") == 0).then_some(()));
}

#[test]
fn a_client_that_ended_before_a_push_is_not_served() {
    let server = Server::start(&[]);
    let mut control = server.client();
    if control.info_number("io_threads_active") > 0 || common::is_on_io_uring() {
        println!(
            "skipped: two threads, or two completions of a ring, may tell the end and the push in any order"
        );
        return;
    }
    for _ in 0..20 {
        let mut waiting = server.client();
        waiting.send("BLPOP l 0\r\n");
        until("it waits", || (control.info_number("blocked_clients") == 1).then_some(()));
        // The connection of the pusher is newer and was idle until now, so every event loop reports its
        // readiness after that of the waiting client.
        let mut pusher = server.client();
        until("all are there", || (control.info_number("connected_clients") == 3).then_some(()));
        // While the server's process is suspended, both connections become ready, so that one iteration of
        // its event loop finds both.
        server.signal("STOP");
        let ports = (waiting.stream.local_addr().unwrap().port(), server.port);
        drop(waiting);
        until("the kernel has the end", || the_end_has_arrived(ports).then_some(()));
        pusher.send("RPUSH l v\r\n");
        server.signal("CONT");
        pusher.expect(":1\r\n").check("LPOP l", "$1\r\nv\r\n");
        drop(pusher);
        until("both are gone", || (control.info_number("connected_clients") == 1).then_some(()));
    }
}

/// Whether the server's kernel has acknowledged that the client has closed the connection between these
/// ports. The client's end is then in state FIN_WAIT2 (5), or no longer listed.
fn the_end_has_arrived((local, remote): (u16, u16)) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (local, remote) = (format!(":{local:04X}"), format!(":{remote:04X}"));
    let state = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1)?.ends_with(&local) && words.get(2)?.ends_with(&remote);
        is_it.then(|| words[3].to_owned())
    };
    table.lines().filter_map(state).all(|state| state == "05")
}

/// A client library checks an idle connection for its end before it uses the connection again, so the killed
/// client's connection must have ended when the killer has its reply.
#[test]
fn a_killed_client_is_closed_before_its_killer_is_told() {
    let server = Server::start(&[]);
    let mut control = server.client();
    if control.info_number("io_threads_active") > 0 {
        println!("skipped: the thread that owns the killed connection and the one that answers are two");
        return;
    }
    for _ in 0..200 {
        let mut victim = server.client();
        let id = victim.send("CLIENT ID\r\n").line();
        let id = id.trim_start_matches(':');
        control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        victim.stream.set_nonblocking(true).unwrap();
        let read = std::io::Read::read(&mut victim.stream, &mut [0]);
        assert!(matches!(read, Ok(0)), "the reply came before the end: {read:?}");
    }
}

#[test]
fn a_client_can_be_killed_while_it_does_not_read() {
    let server = Server::start(&[]);
    let mut control = server.client();
    control.check("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"", "+OK\r\n");
    control.send(request(&[b"SET", b"big", &vec![b'x'; 8 << 20]])).expect("+OK\r\n");
    let mut lazy = server.client();
    lazy.check("CLIENT ID", ":2\r\n");
    lazy.send("GET big\r\n".repeat(8));
    until("a send in flight", || {
        let list = String::from_utf8(control.bulk("CLIENT LIST ID 2")).unwrap();
        (!list.contains(" omem=0 ")).then_some(())
    });
    control.check("CLIENT KILL ID 2", ":1\r\n");
    until("its end", || (control.info_number("connected_clients") == 1).then_some(()));
    control.check("PING", "+PONG\r\n");
}

#[test]
fn a_flood_does_not_keep_others_waiting() {
    let server = Server::start(&[]);
    let flood = server.client();
    let mut out = flood.stream.try_clone().unwrap();
    let total = 400_000;
    let writer = std::thread::spawn(move || {
        let chunk = "ECHO flood\r\n".repeat(1000);
        for _ in 0..total / 1000 {
            if std::io::Write::write_all(&mut out, chunk.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut reader = flood.stream.try_clone().unwrap();
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let finished = done.clone();
    let drain = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut left = total * "$5\r\nflood\r\n".len();
        while left > 0 {
            left -= std::io::Read::read(&mut reader, &mut buffer).unwrap();
        }
        finished.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut other = server.client();
    let mut answered = 0;
    while answered < 20 && !done.load(std::sync::atomic::Ordering::Relaxed) {
        other.check("PING", "+PONG\r\n");
        answered += 1;
    }
    assert!(answered >= 20, "{answered} answers while the flood of {total} lasted");
    drain.join().unwrap();
    writer.join().unwrap();
}

#[test]
fn an_idle_connection_holds_no_buffers() {
    let server = Server::start(&[]);
    let mut control = server.client();
    let request = request(&[b"SET", b"k", &[b'x'; 10_000]]);
    let (first, second) = request.split_at(5000);
    let round = |control: &mut common::Client| -> Vec<common::Client> {
        let one = |_| {
            let mut client = server.client();
            client.send(first);
            control.check("PING", "+PONG\r\n");
            client
                .send(second)
                .expect("+OK\r\n")
                .send("GET k\r\n")
                .expect("$10000\r\n")
                .expect([b'x'; 10_000])
                .expect("\r\n");
            client
        };
        (0..200).map(one).collect()
    };
    // The first clients fill the caches that all clients share.
    drop(round(&mut control));
    until("the first have gone", || (control.info_number("connected_clients") == 1).then_some(()));
    let before = control.info_number("used_memory");
    let clients = round(&mut control);
    // A buffer for partial input is kept for two seconds, in case more input arrives.
    until("their room for input is given back", || {
        let after = control.info_number("used_memory");
        let each = (after - before) / clients.len() as i64;
        // A session and its connection take about 660 bytes; up to 256 KiB in total are kept for later
        // sessions.
        (each < 1024 + (256 << 10) / clients.len() as i64).then_some(())
    });
}

#[test]
fn what_follows_a_reset_is_that_of_a_client_that_has_not_authenticated() {
    let server = Server::start(&["--requirepass", "pass"]);
    let refused = "-ERR Protocol error: unauthenticated multibulk length\r\n";
    for pieces in [&["AUTH pass\r\nRESET\r\n*11\r\n"][..], &["AUTH pass\r\n", "RESET\r\n*11\r\n"]] {
        let mut client = server.client();
        for piece in pieces {
            client.send(piece);
        }
        client.expect(format!("+OK\r\n+RESET\r\n{refused}")).expect_end();
    }
    // A further AUTH lifts the limits again.
    let mut client = server.client();
    client.send("AUTH pass\r\nRESET\r\nAUTH pass\r\nPING\r\n").expect("+OK\r\n+RESET\r\n+OK\r\n+PONG\r\n");
}

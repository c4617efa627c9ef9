//! Operation, end to end: the log, the process and its end.

use crate::common::{self, BINARY, Client, Dir, Server, free_port, until};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

#[test]
fn the_log_tells_what_an_operator_asks() {
    let server = Server::start(&["--always-show-logo", "yes", "--bind", "127.0.0.1"]);
    let pid = server.child.id();
    let in_order = [
        format!("{pid}:M "),
        " * Sluice is starting".into(),
        "compatible with Valkey 9.1.2".into(),
        " * Configuration loaded from built-in defaults and command-line options".into(),
        format!(" PID: {pid}"),
        " * event loop: ".into(),
        " * Server initialized".into(),
        format!(" * listening on 127.0.0.1 port {}", server.port),
        " * Ready to accept connections tcp".into(),
    ];
    in_order.iter().for_each(|part| assert!(server.log.wait(part).is_some(), "{part}"));
    // The position of this line in the log depends on the time needed to determine the frequency of the
    // clock's counter.
    assert!(server.log.wait(" * monotonic clock: ").is_some());
    server.client().send("SHUTDOWN NOSAVE\r\n");
    let text = server.log.all();
    let positions: Vec<_> = in_order.iter().map(|part| text.find(part)).collect();
    assert!(positions.is_sorted(), "{positions:?}\n{text}");
    let day = text.split(" * Sluice is starting").next().unwrap().rsplit('\n').next().unwrap();
    // The line begins with the process id, the role and the time, as in `pid:M 20 Nov 2026 06:54:17.222`.
    let words: Vec<&str> = day.split(' ').collect();
    assert_eq!(words.iter().map(|w| w.len()).collect::<Vec<_>>()[1..], [2, 3, 4, 12], "{day}");
}

#[test]
fn the_log_and_info_say_why_the_event_loop_is_the_one_it_is() {
    for (directive, name, why) in [
        ("auto", "epoll", "the default; io_uring runs only where it is configured"),
        ("epoll", "epoll", "configured"),
        ("poll", "poll", "configured"),
    ] {
        let server = Server::start(&["--event-loop", directive]);
        let wanted = format!("{name}: {why}");
        let line = server.log.wait(" * event loop: ").unwrap();
        assert!(line.ends_with(&format!(" * event loop: {wanted}")), "{line}");
        let mut client = server.client();
        assert_eq!(client.info("event_loop"), name);
        assert_eq!(client.info("event_loop_reason"), wanted);
    }
}

#[test]
fn structured_lines_have_the_same_facts() {
    for (format, wanted) in [
        ("logfmt", "role=primary timestamp=\""),
        ("json", "\"role\":\"primary\",\"timestamp\":\""),
        ("legacy", ":M 2"),
    ] {
        let server = Server::start(&["--log-format", format, "--log-timestamp-format", "iso8601"]);
        let line = server.log.wait("Server initialized").unwrap();
        assert!(line.contains(wanted), "{line}");
        let stamp = line.split_once('T').unwrap().1;
        assert!(stamp.contains(['+', '-']), "a zone: {line}");
    }
}

#[test]
fn a_log_file_in_the_directory_holds_everything_and_may_be_moved_away() {
    let dir = Dir::new();
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--logfile", "log", "--save", ""]);
    command.args(["--enable-debug-command", "yes"]);
    let mut server = Server::spawn(command, port, dir);
    let path = server.dir.path().join("log");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    until("the start", || read(&path).contains("Ready to accept").then_some(()));
    assert!(read(&path).contains("Sluice is starting"));
    let mut client = server.client();
    assert_eq!(client.config("logfile"), "log");
    std::fs::rename(&path, server.dir.path().join("old")).unwrap();
    client.check("DEBUG LOG second", "+OK\r\n");
    assert!(read(&path).contains("second"));
    server.signal("TERM");
    assert!(server.wait().success());
    assert_eq!(server.log.all(), "");
    assert_eq!(server.stderr.all(), "");
}

#[test]
fn the_pid_file_is_written_and_removed() {
    let server = Server::start(&["--pidfile", "pid"]);
    let path = server.dir.path().join("pid");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", server.child.id()));
    let mut server = server;
    // The file is removed even if the working directory has changed.
    std::fs::create_dir(server.dir.path().join("sub")).unwrap();
    server.client().check("CONFIG SET dir sub", "+OK\r\n");
    server.signal("INT");
    assert!(server.wait().success());
    assert!(!path.exists());
    let server = Server::start(&["--pidfile", "/nowhere/pid"]);
    assert!(server.log.wait("Failed to write PID file: No such file or directory").is_some());
}

#[test]
fn a_daemon_leaves_its_parent_and_its_terminal() {
    let dir = Dir::new();
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--daemonize", "yes"]);
    command.args(["--pidfile", &dir.join("pid"), "--logfile", &dir.join("log"), "--save", ""]);
    let mut server = Server::spawn(command, port, dir);
    assert!(server.wait().success(), "the parent ends well");
    let mut client = until("the daemon", || {
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
        Some(common::Client { stream })
    });
    let pid = client.info("process_id");
    assert_eq!(std::fs::read_to_string(server.dir.path().join("pid")).unwrap(), format!("{pid}\n"));
    let log = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    assert!(log.lines().all(|line| line.starts_with(&format!("{pid}:M "))), "{log}");
    // Fields 6 and 7 show that the process has a session of its own and no terminal.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!((fields[3], fields[4]), (pid.as_str(), "0"));
    client.send("SHUTDOWN NOSAVE\r\n").expect_end();
    until("its end", || (!server.dir.path().join("pid").exists()).then_some(()));
}

#[test]
fn shutdown_ends_the_connection_without_a_reply() {
    for words in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN NOW FORCE"] {
        let mut server = Server::start(&[]);
        let mut other = server.client();
        other.check("PING", "+PONG\r\n");
        let mut client = server.client();
        client.check("SET a 1", "+OK\r\n").send(format!("{words}\r\n")).expect_end();
        other.expect_end();
        assert!(server.wait().success(), "{words}");
        assert!(server.log.all().contains("ready to exit, bye bye"));
    }
}

#[test]
fn the_first_signal_ends_in_good_order() {
    for (signal, name) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let mut server = Server::start(&["--shutdown-on-sigterm", "nosave now force"]);
        let mut client = server.client();
        client.check("PING", "+PONG\r\n");
        server.signal(signal);
        client.expect_end();
        assert!(server.wait().success());
        let log = server.log.all();
        assert!(log.contains(&format!("Received {name} scheduling shutdown...")), "{log}");
        assert!(log.contains("User requested shutdown...") && log.contains("bye bye..."), "{log}");
    }
}

#[test]
fn the_second_signal_ends_at_once() {
    let mut server = Server::start(&[]);
    // When the line has been logged, the main thread executes the rest of this batch and nothing else, so the
    // first signal has to wait.
    server.client().send("DEBUG LOG asleep\r\nDEBUG SLEEP 100000\r\n");
    server.log.wait("DEBUG LOG: asleep").unwrap();
    server.signal("TERM");
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(1));
    assert!(!server.log.all().contains("bye bye"));
}

#[test]
fn other_signals_do_no_harm() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for name in ["HUP", "PIPE", "CONT", "HUP"] {
        server.signal(name);
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn an_alarm_shows_where_the_main_thread_is_and_the_server_goes_on() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send("DEBUG LOG asleep\r\nDEBUG SLEEP 1\r\nPING\r\n");
    server.log.wait("DEBUG LOG: asleep").unwrap();
    server.signal("ALRM");
    server.log.wait("Received SIGALRM").unwrap();
    // The load address of the binary varies, so the report shows the name of the binary and an offset, for
    // addr2line. The process title, which is written over the program's arguments, is not part of the name.
    let frame = server.log.wait("(+0x").unwrap();
    assert!(frame.starts_with("sluice-server(+0x"), "{frame}");
    server.log.wait("STACK TRACE DONE").unwrap();
    client.expect("+OK\r\n+OK\r\n+PONG\r\n");
    server.signal("ALRM");
    client.check("PING", "+PONG\r\n");
}

#[test]
fn the_end_that_a_signal_asks_for_waits_for_a_paused_cron_and_can_be_aborted() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    client.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");
    client.check("DEBUG PAUSE-CRON 1", "+OK\r\n");
    server.signal("TERM");
    server.log.wait("Received SIGTERM scheduling shutdown").unwrap();
    client.check("PING", "+PONG\r\n").check("SHUTDOWN ABORT", "+OK\r\n");
    server.log.wait("Shutdown manually aborted").unwrap();
    client.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");
    // The next signal counts as a first signal again.
    server.signal("INT");
    server.log.wait("Received SIGINT scheduling shutdown").unwrap();
    client.send("DEBUG PAUSE-CRON 0\r\n").expect("+OK\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_log_shows_what_is_no_request_unless_it_shall_not() {
    for (hide, shown) in [
        ("no", r"Query buffer: '*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n'"),
        ("yes", "Query buffer: *redacted*"),
    ] {
        let server = Server::start(&["--loglevel", "verbose", "--hide-user-data-from-log", hide]);
        let mut client = server.client();
        client.send("PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n");
        client.expect("+PONG\r\n-ERR Protocol error: invalid bulk length\r\n").expect_end();
        let line = server.log.wait("Protocol error (invalid bulk length) from client: id=").unwrap();
        assert!(line.ends_with(shown), "{line}");
    }
    let server = Server::start(&["--loglevel", "verbose", "--hide-user-data-from-log", "no"]);
    server.client().send(format!("*1\r\n$x{}\r\n", "y".repeat(200)));
    let line = server.log.wait("Protocol error").unwrap();
    assert!(line.ends_with("yyy' (...)") && !line.contains(&"y".repeat(128)), "{line}");
}

fn assert_report(server: &mut Server, parts: &[&str]) {
    let status = server.wait();
    let text = server.log.all();
    assert!(status.signal().is_some() && !status.success(), "{status:?}\n{text}");
    let wanted = ["BUG REPORT START", "STACK TRACE", "BUG REPORT END"];
    wanted.iter().chain(parts).for_each(|part| assert!(text.contains(part), "{part} in {text}"));
    assert_eq!(text.matches("BUG REPORT START").count(), 1, "{text}");
}

#[test]
fn a_fault_is_reported_and_still_ends_the_process_by_its_signal() {
    for (name, number) in [("SEGV", 11), ("BUS", 7), ("FPE", 8), ("ILL", 4), ("ABRT", 6)] {
        let mut server = Server::start(&[]);
        server.signal(name);
        let text = format!("crashed by signal: {number}, ");
        assert_report(&mut server, &[&text, "Crashed running the instruction at: 0x", "VmRSS:", "on_fault"]);
        assert_eq!(server.wait().signal(), Some(number));
    }
}

#[test]
fn a_fault_inside_the_allocator_is_reported_with_names_of_functions() {
    if !common::has_switches() {
        return;
    }
    let mut server = Server::start_in(Dir::new(), |command| {
        // The fault occurs in the main thread's arena of the allocator, so the main thread has to receive the
        // requests.
        command.env("SLUICE_TEST_ALLOCATOR_FAULT", "1").args(["--io-threads", "1"]);
    });
    let value = "v".repeat(1 << 20);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    for key in 0..64 {
        let request = format!("*3\r\n$3\r\nSET\r\n$2\r\n{key:02}\r\n$1048576\r\n{value}\r\n");
        // The server ends at some point during the requests.
        if client.write_all(request.as_bytes()).is_err() {
            break;
        }
    }
    // The report need not show the main thread's stack, because a thread that starts late may fault first.
    assert_report(&mut server, &["crashed by signal: 11", "src/allocator.rs", "_rjem_je_"]);
    assert_eq!(server.wait().signal(), Some(11), "and not by the alarm of a report that hangs");
}

#[test]
fn debug_can_end_the_server_in_every_bad_way() {
    for (words, parts) in [
        ("DEBUG SEGFAULT", ["crashed by signal: 11", "src/start.rs"]),
        ("DEBUG PANIC", ["ended by a panic", "src/start.rs"]),
        ("DEBUG ASSERT", ["ASSERTION FAILED", "src/start.rs"]),
    ] {
        let mut server = Server::start(&[]);
        server.client().send(format!("{words}\r\n")).expect_end();
        assert_report(&mut server, &parts);
    }
}

#[test]
fn debug_starts_the_server_again_in_its_own_place() {
    let dir = Dir::new();
    // The path is valid only in the folder of the start, because `dir` changes the folder.
    dir.file("own.conf", "dir data\nsave 3600 1\n");
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.current_dir(dir.path()).arg("own.conf").args(["--port", &port.to_string()]);
    command.args(["--enable-debug-command", "yes"]).args(common::arm());
    let server = Server::spawn(command, port, dir);
    assert!(server.log.wait("Ready to accept").is_some(), "{}", server.log.all());
    let mut client = server.client();
    client.check("SET kept 1", "+OK\r\n").check("CONFIG SET maxmemory-samples 7", "+OK\r\n");
    let pid = client.info("process_id");
    client.check("DEBUG RESTART x", "-ERR value is not an integer or out of range\r\n");
    client.send("DEBUG RESTART 20\r\n").expect_end();
    let started_for_the = |count: usize| {
        until("the server is back", || {
            (server.log.so_far().matches("Ready to accept").count() == count).then(|| server.client())
        })
    };
    let mut client = started_for_the(2);
    assert_eq!(client.info("process_id"), pid);
    client.check("GET kept", "$1\r\n1\r\n").check("SET lost 1", "+OK\r\n");
    assert_eq!(client.config("maxmemory-samples"), "7", "the file was written back");
    client.send("DEBUG CRASH-AND-RECOVER\r\n").expect_end();
    let mut client = started_for_the(3);
    assert_eq!(client.info("process_id"), pid);
    client.check("GET kept", "$1\r\n1\r\n").check("GET lost", "$-1\r\n");
}

#[test]
fn a_report_goes_to_the_log_file_and_can_be_turned_off() {
    let dir = Dir::new();
    let log = dir.join("log");
    let mut server = Server::start(&["--crash-log-enabled", "no"]);
    server.signal("SEGV");
    assert_eq!(server.wait().signal(), Some(11));
    assert!(!server.log.all().contains("BUG REPORT"));
    let mut server = Server::start(&["--crash-log-enabled", "no"]);
    server.client().check("CONFIG SET crash-log-enabled yes", "+OK\r\n");
    server.signal("SEGV");
    assert_report(&mut server, &[]);
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--logfile", &log, "--save", ""]);
    let mut server = Server::spawn(command, port, dir);
    until("the start", || {
        std::fs::read_to_string(&log).unwrap_or_default().contains("Ready to accept").then_some(())
    });
    server.signal("SEGV");
    server.wait();
    assert!(std::fs::read_to_string(&log).unwrap().contains("BUG REPORT END"));
}

#[test]
fn a_supervisor_is_told() {
    let dir = Dir::new();
    let path = dir.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(common::DEADLINE)).unwrap();
    let mut server = Server::start_in(Dir::new(), |command| {
        command.args(["--supervised", "auto"]).env("NOTIFY_SOCKET", &path);
    });
    let receive = || {
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert!(receive().lines().any(|line| line == "READY=1"));
    server.signal("TERM");
    assert_eq!(receive(), "STOPPING=1\n");
    assert!(server.wait().success());
    let server = Server::start(&["--supervised", "systemd"]);
    assert!(server.log.wait("systemd supervision error: NOTIFY_SOCKET not found!").is_some());
}

#[test]
fn the_kernel_is_told_whom_to_kill() {
    let server =
        Server::start(&["--oom-score-adj", "absolute", "--oom-score-adj-values", "100", "200", "300"]);
    let read = || std::fs::read_to_string(format!("/proc/{}/oom_score_adj", server.child.id())).unwrap();
    assert_eq!(read().trim(), "100");
    server.client().check("CONFIG SET oom-score-adj-values \"150 200 300\"", "+OK\r\n");
    assert_eq!(read().trim(), "150");
    server.client().check("REPLICAOF 127.0.0.1 1", "+OK\r\n");
    assert_eq!(read().trim(), "200", "a replica has the second value");
    server.client().check("REPLICAOF NO ONE", "+OK\r\n");
    assert_eq!(read().trim(), "150");
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    server.client().check("CONFIG SET oom-score-adj no", "+OK\r\n");
    assert_eq!(read(), own);
    // A server that starts as a replica has the value of a replica.
    let server = Server::start(&[
        "--oom-score-adj",
        "absolute",
        "--oom-score-adj-values",
        "100",
        "200",
        "300",
        "--replicaof",
        "127.0.0.1",
        "1",
    ]);
    let path = format!("/proc/{}/oom_score_adj", server.child.id());
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "200");
}

#[test]
fn the_title_tells_what_the_process_is() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    let read = |server: &Server| {
        let bytes = std::fs::read(format!("/proc/{}/cmdline", server.child.id())).unwrap();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    };
    assert_eq!(read(&server), format!("{BINARY} 127.0.0.1:{}", server.port));
    // This title is longer than the arguments were, so it continues in the memory of the environment.
    let long = "x".repeat(300);
    server.client().check(&format!("CONFIG SET proc-title-template \"{long} {{port}}\""), "+OK\r\n");
    assert_eq!(read(&server), format!("{long} {}", server.port));
    let server = Server::start(&["--set-proc-title", "no"]);
    assert!(read(&server).contains("--set-proc-title\0no"));
}

#[test]
fn the_log_says_in_the_same_words_why_a_connection_ended() {
    let server = Server::start(&["--loglevel", "verbose"]);
    let mut client = server.client();
    client.check("PING", "+PONG\r\n");
    let address = client.stream.local_addr().unwrap().to_string();
    // With a linger time of zero, closing resets the connection.
    socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    let line = server.log.wait("Reading from client").unwrap();
    assert!(line.ends_with(&format!("Reading from client: Connection reset by peer {address}")), "{line}");
    let client = server.client();
    let address = client.stream.local_addr().unwrap().to_string();
    drop(client);
    let line = server.log.wait("Client closed connection").unwrap();
    assert!(line.ends_with(&format!("Client closed connection {address}")), "{line}");
}

#[test]
fn an_iteration_that_only_waited_is_told_from_one_that_worked() {
    let server = Server::start(&["--io-threads", "1"]);
    let mut client = server.client();
    // The figures are sampled ten times a second.
    client.check("DEBUG SLEEP 0.1", "+OK\r\n");
    let slept = until("the figures", || {
        let slept = client.info_number("eventloop_iteration_max_usec");
        (slept > 100_000).then_some(slept)
    });
    let worked = client.info_number("eventloop_iteration_max_cpu_usec");
    assert!((0..50_000).contains(&worked), "{worked} of {slept}");
    // The maximum is reset, so the next maximum may be smaller.
    client.check("CONFIG RESETSTAT", "+OK\r\n");
    let longest_us = client.info_number("eventloop_duration_max");
    assert!((1..slept).contains(&longest_us), "{longest_us} of {slept}");
    client.check("DEBUG POPULATE 300000", "+OK\r\n");
    let (wall, worked) = until("the figures", || {
        let worked = client.info_number("eventloop_iteration_max_cpu_usec");
        (worked > 10_000).then(|| (client.info_number("eventloop_iteration_max_usec"), worked))
    });
    assert!(worked <= wall, "{worked} of {wall}");
}

#[test]
fn only_a_build_for_tests_has_their_switches() {
    let binary = std::fs::read(BINARY).unwrap();
    let found = binary.windows(12).any(|bytes| bytes == b"SLUICE_TEST_");
    assert_eq!(found, cfg!(debug_assertions));
}

#[test]
fn replies_beyond_one_turn_of_sending_come_whole_and_the_end_waits_for_them() {
    let server = Server::start(&["--save", ""]);
    let value = vec![b'v'; 1 << 20];
    let mut first = server.client();
    first.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len())).send(&value).send("\r\n");
    first.expect("+OK\r\n");
    // The replies have 12 MiB, three times what one iteration sends. The second time they are sent during the
    // server's shutdown.
    for ends in [false, true] {
        let mut readers: Vec<Client> = (0..12).map(|_| server.client()).collect();
        for reader in &mut readers {
            reader.send("GET k\r\n");
        }
        if ends {
            until("all to be executed", || {
                let text = String::from_utf8(first.bulk("INFO commandstats")).unwrap();
                text.contains("cmdstat_get:calls=24,").then_some(())
            });
            first.send("SHUTDOWN NOSAVE\r\n");
        }
        let reply = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
        std::thread::scope(|scope| {
            for reader in &mut readers {
                scope.spawn(|| reader.expect(&reply));
            }
        });
    }
}

//! Limits on clients, end to end: before AUTH, on their number, their idle time, and their
//! input and output bytes.

use crate::common::{self, Client, Dir, Server, request, until};
use std::io::{Read, Write};

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";

#[test]
fn a_password_is_asked_for_before_anything_else() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut client = server.client();
    client.check("GET x", NOAUTH).check("NOSUCH", NOAUTH);
    client.check("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    client.check("AUTH secret", "+OK\r\n").check("SET x 1", "+OK\r\n");
    // The AUTH within a pipeline lifts the limits for later commands of the pipeline.
    let mut other = server.client();
    let large = request(&[b"SET", b"y", &[b'z'; 20_000]]);
    other.send([request(&[b"AUTH", b"secret"]), large].concat()).expect("+OK\r\n+OK\r\n");
}

#[test]
fn a_stranger_may_send_ten_arguments_of_sixteen_kilobytes() {
    let server = Server::start(&["--requirepass", "secret"]);
    server.client().send("*10\r\n$4\r\nECHO\r\n").send("$1\r\nx\r\n".repeat(9)).expect(NOAUTH);
    let mut many = server.client();
    many.send("*11\r\n").expect("-ERR Protocol error: unauthenticated multibulk length\r\n").expect_end();
    server.client().send(request(&[b"ECHO", &[b'x'; 16384]])).expect(NOAUTH);
    let mut large = server.client();
    large
        .send("*2\r\n$16385\r\n")
        .expect("-ERR Protocol error: unauthenticated bulk length\r\n")
        .expect_end();
}

#[test]
fn limits_of_strangers_end_with_the_password() {
    let server = Server::start(&["--requirepass", "secret"]);
    let (mut early, mut control) = (server.client(), server.client());
    early.check("PING", NOAUTH);
    control.check("AUTH secret", "+OK\r\n").check("CONFIG SET requirepass \"\"", "+OK\r\n");
    let many = [&[b"MSET".as_slice()], [b"k".as_slice(); 12].as_slice()].concat();
    let large: [&[u8]; 3] = [b"SET", b"k", &[b'x'; 20_000]];
    early.send(request(&many)).expect("+OK\r\n").send(request(&large)).expect("+OK\r\n");
    // The client never authenticated itself, so the limits apply again once there is a password again.
    control.check("CONFIG SET requirepass other", "+OK\r\n");
    early
        .send(request(&many))
        .expect("-ERR Protocol error: unauthenticated multibulk length\r\n")
        .expect_end();
}

#[test]
fn a_stranger_that_does_not_read_is_cut_off() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut stranger = server.client();
    let line = "PING\r\n".repeat(1000);
    // The kernel buffers some replies; beyond these, the server keeps only few bytes of output.
    until("the end of the connection", || stranger.stream.write_all(line.as_bytes()).is_err().then_some(()));
    let mut control = server.client();
    control.check("AUTH secret", "+OK\r\n");
    assert_eq!(control.info_number("client_output_buffer_limit_disconnections"), 1);
}

#[test]
fn maxclients_refuses_the_next_one_and_can_be_raised() {
    let server = Server::start(&["--maxclients", "2"]);
    let mut first = server.client();
    first.check("PING", "+PONG\r\n");
    let mut second = server.client();
    second.check("PING", "+PONG\r\n");
    server.client().expect("-ERR max number of clients reached\r\n").expect_end();
    assert_eq!(first.info_number("rejected_connections"), 1);
    assert_eq!(first.info_number("total_connections_received"), 2);
    first.check("CONFIG SET maxclients 3", "+OK\r\n");
    server.client().check("PING", "+PONG\r\n");
    drop(second);
    until("the end of one", || (first.info_number("connected_clients") == 1).then_some(()));
}

/// A connection from this local address.
fn client_from(source: &str, server: &Server) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let address = |ip: &str, port| std::net::SocketAddr::new(ip.parse().unwrap(), port).into();
    socket.bind(&address(source, 0)).unwrap();
    socket.connect(&address("127.0.0.1", server.port)).unwrap();
    let client = Client { stream: socket.into() };
    client.stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    client
}

#[test]
fn some_of_maxclients_are_kept_for_subnets_with_priority() {
    const FULL: &str = "-ERR max number of clients reached\r\n";
    let server = Server::start(&["--maxclients", "5", "--maxclients-reserved", "3"]);
    // No connections are reserved while no subnet is configured.
    let mut control = server.client();
    let mut others: Vec<Client> = (0..4).map(|_| client_from("127.0.0.1", &server)).collect();
    for client in &mut others {
        client.check("PING", "+PONG\r\n");
    }
    others.truncate(1);
    until("the end of three", || (control.info_number("connected_clients") == 2).then_some(()));
    control.check("CONFIG SET priority-subnets 127.0.0.2/31,::1", "+OK\r\n");
    client_from("127.0.0.1", &server).expect(FULL).expect_end();
    let mut first: Vec<Client> = (0..3).map(|_| client_from("127.0.0.2", &server)).collect();
    for client in &mut first {
        client.check("PING", "+PONG\r\n");
    }
    assert_eq!(control.info_number("connected_priority_clients"), 3);
    control.check(
        "CONFIG SET maxclients-reserved 5",
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients-reserved') - maxclients-reserved must be less \
         than maxclients, or nobody else gets in\r\n",
    );
    client_from("127.0.0.3", &server).expect(FULL).expect_end();
    assert_eq!(control.info_number("rejected_connections"), 2);
    assert_eq!(control.info_number("rejected_priority_connections"), 1);
    let listed = String::from_utf8(control.bulk("CLIENT LIST FLAGS H")).unwrap();
    assert_eq!(listed.matches(" addr=127.0.0.2:").count(), 3, "{listed}");
    assert_eq!(listed.lines().count(), 3, "{listed}");
    // Connected clients keep their priority.
    control.check("CONFIG SET priority-subnets 192.0.2.0/24", "+OK\r\n");
    assert_eq!(control.info_number("connected_priority_clients"), 3);
    drop(first);
    until("their end", || (control.info_number("connected_priority_clients") == 0).then_some(()));
    control.check(
        "CONFIG SET priority-subnets 10.0.0.0/33",
        "-ERR CONFIG SET failed (possibly related to argument 'priority-subnets') - Invalid IP address or CIDR subnet \
         in priority-subnets\r\n",
    );
}

/// Six hundred clients connect, and the last one has priority.
#[test]
fn who_has_priority_is_served_ahead_of_those_that_came_before() {
    let loops = ["epoll", "poll", "io_uring"].into_iter();
    let missing = |name: &&str| *name != "io_uring" || common::has_io_uring();
    for name in loops.filter(missing) {
        // There are no I/O threads, because while one of them wakes, the other connections would become
        // clients.
        let words = ["--tcp-backlog", "2048", "--priority-subnets", "127.0.0.2", "--io-threads", "1"];
        let server = Server::start(&[&words[..], &["--event-loop", name]].concat());
        server.signal("STOP");
        let mut others: Vec<Client> = (0..600).map(|_| server.client()).collect();
        for client in &mut others {
            client.send("PING\r\n");
        }
        let mut first = client_from("127.0.0.2", &server);
        first.send("INFO clients\r\n");
        server.signal("CONT");
        let clients = String::from_utf8(first.bulk_reply()).unwrap();
        let field = |name: &str| {
            let line = clients.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.parse::<usize>().unwrap()
        };
        assert_eq!(field("connected_priority_clients:"), 1);
        assert!(field("connected_clients:") < 300, "{name}: {clients}");
        for client in &mut others {
            client.expect("+PONG\r\n");
        }
        assert_eq!(first.info_number("connected_clients"), 601, "{name}");
    }
}

#[test]
fn maxclients_follows_the_limit_of_descriptors() {
    let shell = format!("ulimit -n 100 && exec {} \"$@\"", common::BINARY);
    let dir = Dir::new();
    let server = {
        let mut command = std::process::Command::new("sh");
        let port = common::free_port();
        command.args(["-c", &shell, "sh", "--port", &port.to_string(), "--save", "", "--maxclients", "1000"]);
        command.args(["--dir", &dir.join("")]);
        Server::spawn(command, port, dir)
    };
    server.log.wait("Ready to accept").unwrap();
    assert!(server.log.wait("You requested maxclients of 1000 requiring at least 1032 max file").is_some());
    assert!(server.log.wait("maxclients has been reduced to 68").is_some());
    let mut client = server.client();
    assert_eq!(client.config("maxclients"), "68");
    client.check(
        "CONFIG SET maxclients 69",
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
         handle the specified number of clients, try with 68\r\n",
    );
    assert_eq!(client.config("maxclients"), "68");
    let mut others: Vec<Client> = (0..67).map(|_| server.client()).collect();
    for client in &mut others {
        client.check("PING", "+PONG\r\n");
    }
    server.client().expect("-ERR max number of clients reached\r\n").expect_end();
}

#[test]
fn descriptors_of_io_threads_are_not_promised_to_clients() {
    let shell = format!("ulimit -n 200 && exec {} \"$@\"", common::BINARY);
    let server = Server::start_in(Dir::new(), |command| {
        let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        *command = std::process::Command::new("sh");
        command.args(["-c", &shell, "sh"]).args(arguments);
        command.args(["--io-threads", "17", "--io-threads-always-active", "yes", "--maxclients", "160"]);
    });
    assert!(server.log.wait("You requested maxclients of 160 requiring at least 240 max file").is_some());
    assert!(server.log.wait("maxclients has been reduced to 120").is_some());
    let mut clients: Vec<Client> = (0..120).map(|_| server.client()).collect();
    for client in &mut clients {
        client.check("PING", "+PONG\r\n");
    }
    server.client().expect("-ERR max number of clients reached\r\n").expect_end();
    // Fewer threads leave more descriptors for clients.
    clients[0].check("CONFIG SET io-threads 2 maxclients 165", "+OK\r\n");
    assert_eq!(clients[0].config("maxclients"), "165");
    clients[0].check("CONFIG SET io-threads 3", "+OK\r\n");
    assert!(server.log.wait("With io-threads 3 there are file descriptors for 162 clients").is_some());
}

#[test]
fn who_is_silent_for_too_long_is_closed() {
    let server = Server::start(&["--timeout", "1"]);
    let mut silent = server.client();
    silent.check("PING", "+PONG\r\n");
    let mut chatty = server.client();
    let asked = std::time::Instant::now();
    let reader = std::thread::spawn(move || silent.expect_end());
    until("the end of the silent one", || {
        chatty.check("PING", "+PONG\r\n");
        reader.is_finished().then_some(())
    });
    reader.join().unwrap();
    assert!(asked.elapsed().as_millis() >= 1000);
    chatty.check("CONFIG SET timeout 0", "+OK\r\n");
}

#[test]
fn a_reader_behind_its_hard_limit_is_closed() {
    let server = Server::start(&["--client-output-buffer-limit", "normal 1mb 0 0"]);
    let mut control = server.client();
    control.send(request(&[b"SET", b"k", &[b'x'; 100_000]])).expect("+OK\r\n");
    let mut lazy = server.client();
    lazy.check("PING", "+PONG\r\n").send("GET k\r\n".repeat(1000));
    until("its end", || (control.info_number("connected_clients") == 1).then_some(()));
    assert_eq!(control.info_number("client_output_buffer_limit_disconnections"), 1);
    assert!(server.log.wait("scheduled to be closed ASAP for overcoming of output buffer limits").is_some());
    let mut got = Vec::new();
    let _ = lazy.stream.read_to_end(&mut got);
    assert!(got.len() < 100_000_000);
}

#[test]
fn a_reader_behind_its_soft_limit_is_closed_when_it_stays_there() {
    let server = Server::start(&["--client-output-buffer-limit", "normal 0 1mb 1"]);
    let mut control = server.client();
    control.send(request(&[b"SET", b"k", &[b'x'; 1_000_000]])).expect("+OK\r\n");
    let mut lazy = server.client();
    let asked = std::time::Instant::now();
    lazy.check("PING", "+PONG\r\n").send("GET k\r\n".repeat(30));
    until("its end", || (control.info_number("connected_clients") == 1).then_some(()));
    assert!(asked.elapsed().as_millis() >= 1000);
    assert_eq!(control.info_number("client_output_buffer_limit_disconnections"), 1);
}

#[test]
fn a_request_beyond_the_query_buffer_limit_ends_the_connection() {
    let server = Server::start(&["--client-query-buffer-limit", "1mb"]);
    let mut control = server.client();
    let mut greedy = server.client();
    let piece = vec![b'x'; 64 * 1024];
    greedy.send("*2\r\n$4\r\nECHO\r\n$20000000\r\n");
    until("the end of the connection", || greedy.stream.write_all(&piece).is_err().then_some(()));
    until("its count", || {
        (control.info_number("client_query_buffer_limit_disconnections") == 1).then_some(())
    });
    assert!(server.log.wait("Closing client that reached max query buffer length").is_some());
}

/// Sets the server's soft limit of descriptors; returns whether this was possible.
fn limit_descriptors(server: &Server, count: u32) -> bool {
    set_descriptors(server, &format!("{count}:"))
}

/// Sets both limits of descriptors, `soft:hard`, or one of them; returns whether this was possible.
fn set_descriptors(server: &Server, limits: &str) -> bool {
    let (nofile, pid) = (format!("--nofile={limits}"), server.child.id().to_string());
    let status = std::process::Command::new("prlimit").args(["--pid", &pid, &nofile]).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn threads_that_cannot_start_leave_the_server_as_it_was() {
    // The server must not have root's rights, because root could raise the limit again, as the server does
    // when threads need descriptors.
    let shell = "[ $(id -u) != 0 ] && exec \"$@\"; exec setpriv --bounding-set=-sys_resource \"$@\"";
    if !std::process::Command::new("setpriv").arg("--version").output().is_ok_and(|out| out.status.success())
    {
        println!("skipped: this machine has no setpriv");
        return;
    }
    let server = Server::start_in(Dir::new(), |command| {
        let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        *command = std::process::Command::new("sh");
        command.args(["-c", shell, "sh", common::BINARY]).args(arguments);
        command.args(["--io-threads", "1", "--io-threads-always-active", "no"]);
    });
    let mut client = server.client();
    // Open descriptors have the lowest numbers, so a limit that equals their count allows no further
    // descriptor.
    let mut others: Vec<Client> = (0..30).map(|_| server.client()).collect();
    for other in &mut others {
        other.check("PING", "+PONG\r\n");
    }
    let next = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    if !set_descriptors(&server, &format!("{next}:{next}")) {
        println!("skipped: this machine has no prlimit");
        return;
    }
    client.check("CONFIG SET io-threads 4", "+OK\r\n");
    assert!(server.log.wait("Could not start all I/O threads").is_some());
    // The event loop must sleep between requests; a loop that spins would make many iterations for each
    // request.
    let before = client.info_number("eventloop_cycles");
    let asked = 50;
    for _ in 0..asked {
        client.check("PING", "+PONG\r\n");
    }
    let iterations = client.info_number("eventloop_cycles") - before;
    assert!(iterations < 4 * asked, "{iterations} iterations for {asked} requests");
    drop(others);
    until("their end", || (client.info_number("connected_clients") == 1).then_some(()));
    client.check("CONFIG SET io-threads 1", "+OK\r\n").check("CONFIG SET io-threads 3", "+OK\r\n");
    assert!(server.log.wait("io-threads 3: I/O threads ready: 2").is_some());
}

#[test]
fn without_descriptors_new_clients_wait_and_old_ones_are_served() {
    let server = Server::start(&[]);
    let mut old = server.client();
    old.check("PING", "+PONG\r\n");
    if !limit_descriptors(&server, 5) {
        println!("skipped: this machine has no prlimit");
        return;
    }
    let mut new = server.client();
    new.send("PING\r\n");
    // io_uring applies the limit that was in force when the accept was armed, so it accepts the new
    // connection at once.
    if !common::is_on_io_uring() {
        assert!(server.log.wait("Accepting client connection: Too many open files").is_some());
    }
    old.check("PING", "+PONG\r\n");
    assert!(limit_descriptors(&server, 1000));
    new.expect("+PONG\r\n");
}

/// The limits on requests change with AUTH, on any thread and whenever AUTH is executed.
#[test]
fn regress_an_auth_that_was_paused_counts_for_the_parser() {
    for more in [&[][..], &["--io-threads", "4", "--io-threads-always-active", "yes"]] {
        let server = Server::start(&[&["--requirepass", "secret"], more].concat());
        let mut control = server.client();
        let mut client = server.client();
        // All commands wait, CLIENT UNPAUSE too, so the pause ends by its timeout.
        control.check("AUTH secret", "+OK\r\n").check("CLIENT PAUSE 300 ALL", "+OK\r\n");
        client.send(request(&[b"AUTH", b"secret"])).expect("+OK\r\n");
        // The request is larger than the limit before AUTH.
        let value = vec![b'x'; 40_000];
        client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    }
}

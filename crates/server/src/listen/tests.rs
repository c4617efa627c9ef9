use super::*;
use std::os::unix::fs::PermissionsExt;

fn config(lines: &str) -> Config {
    sluice_config::parse_file(lines.as_bytes(), "test", b"", &mut |_: &[u8]| Ok(Vec::new()))
        .expect("valid lines")
}

/// A port that is not in use.
fn free_port() -> u16 {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    probe.local_addr().expect("bound").port()
}

fn accepts(address: &str, port: u16) -> bool {
    std::net::TcpStream::connect((address, port)).is_ok()
}

fn listen(listening: &mut Listening, lines: &str) -> Result<(), ListenError> {
    listening.listen_tcp(&config(lines), &mut |_| {})
}

/// An accepted connection, from this machine or another.
fn newcomer(local: bool) -> Accepted {
    Accepted { addr: String::new(), laddr: String::new(), local, has_priority: false }
}

#[test]
fn a_stranger_is_refused_while_there_is_no_password() {
    let others = |lines: &str, unguarded: bool| {
        let refused = refusal(&newcomer(false), clients(0), &config(lines), unguarded);
        refused.map(|refused| refused.text[..7].to_vec())
    };
    assert_eq!(others("", true), Some(b"-DENIED".to_vec()));
    assert_eq!(others("requirepass x", true), Some(b"-DENIED".to_vec()), "users of a file may say otherwise");
    assert_eq!(others("", false), None);
    assert_eq!(others("protected-mode no", true), None);
    assert_eq!(refusal(&newcomer(true), clients(0), &config(""), true), None);
}

fn clients(clients: usize) -> TakenConnections {
    TakenConnections { clients, ..TakenConnections::default() }
}

const NO_ROOM: &[u8] = b"-ERR max number of clients reached\r\n";

#[test]
fn cl_g33_connections_of_the_bus_count_against_the_limit_of_clients() {
    let node = config("cluster-enabled yes\nmaxclients 10");
    let taken = |clients, of_bus| {
        let connections = TakenConnections { clients, of_bus, ..TakenConnections::default() };
        refusal(&newcomer(true), connections, &node, false).map(|refused| refused.text)
    };
    assert_eq!(taken(5, 4), None);
    let text = &b"-ERR max number of clients + cluster connections reached\r\n"[..];
    assert_eq!(taken(6, 4), Some(text));
}

#[test]
fn the_limit_of_clients_comes_before_everything_else() {
    let text =
        |taken, config: &Config| refusal(&newcomer(false), clients(taken), config, true).map(|r| r.text);
    let limited = config("maxclients 2");
    assert_eq!(text(2, &limited), Some(NO_ROOM));
    assert_eq!(text(Endpoint::CLIENTS_MAX, &config("maxclients 4294967295")), Some(NO_ROOM));
    assert!(text(1, &limited).is_some_and(|text| text.starts_with(b"-DENIED")));
}

#[test]
fn what_is_kept_for_priority_is_closed_to_others_alone() {
    use RejectedConnection::{Ordinary, Priority};
    let config = config("maxclients 6");
    let refused = |clients, with_priority, reserved, has_priority| {
        let connections = TakenConnections { clients, with_priority, of_bus: 0, reserved };
        let accepted = Accepted { has_priority, ..newcomer(true) };
        let refusal = refusal(&accepted, connections, &config, false)?;
        assert_eq!(refusal.text, NO_ROOM);
        Some(refusal.rejected)
    };
    // `taken` is the number of clients, the number of those with priority, and the number of reserved places.
    for (taken, ordinary, priority) in [
        ((2, 0, 3), None, None),
        ((3, 0, 3), Some(Ordinary), None),
        // Clients with priority, even if they are more than the reserved number, do not count against the
        // places of ordinary clients, but only against the total.
        ((5, 4, 3), None, None),
        ((6, 4, 3), Some(Ordinary), Some(Priority)),
        // All places are reserved, or even more than there are.
        ((0, 0, 6), Some(Ordinary), None),
        ((1, 1, 100), Some(Ordinary), None),
        // No place is reserved.
        ((5, 0, 0), None, None),
        ((6, 0, 0), Some(Ordinary), Some(Priority)),
    ] {
        let (clients, with_priority, reserved) = taken;
        assert_eq!(refused(clients, with_priority, reserved, false), ordinary, "{taken:?}");
        assert_eq!(refused(clients, with_priority, reserved, true), priority, "{taken:?}");
    }
}

#[test]
fn an_address_that_stays_keeps_its_socket() {
    let port = free_port();
    let mut listening = Listening::default();
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.1")).expect("first");
    let before = listening.active()[0].clone();
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.2 127.0.0.1")).expect("second");
    assert_eq!(listening.active().len(), 2);
    assert!(listening.active()[1].same(&before));
    assert!(accepts("127.0.0.1", port) && accepts("127.0.0.2", port));
}

#[test]
fn a_wildcard_may_follow_an_address_and_the_other_way_round() {
    let port = free_port();
    let mut listening = Listening::default();
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.1")).expect("address");
    listen(&mut listening, &format!("port {port}\nbind *")).expect("wildcard");
    assert!(accepts("127.0.0.2", port));
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.1")).expect("address again");
    assert!(accepts("127.0.0.1", port));
    assert!(!accepts("127.0.0.2", port));
}

#[test]
fn a_failure_leaves_everything_as_it_was() {
    let port = free_port();
    let mut listening = Listening::default();
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.1 127.0.0.2")).expect("first");
    // The wildcard makes the old sockets release the port before the other address turns out to be
    // missing on this machine.
    let failed = listen(&mut listening, &format!("port {port}\nbind * 192.0.2.1"));
    let text = format!(
        "Could not create server TCP listening socket 192.0.2.1:{port}: bind: Cannot assign requested address"
    );
    assert_eq!(failed, Err(ListenError { text, port: format!("{port} (tcp)") }));
    assert_eq!(listening.active().len(), 2);
    assert!(accepts("127.0.0.1", port) && accepts("127.0.0.2", port));
    assert!(!accepts("127.0.0.3", port));
}

#[test]
fn an_address_of_nobody_is_passed_over_when_it_is_optional() {
    let port = free_port();
    let mut listening = Listening::default();
    let mut warnings = Vec::new();
    let lines = config(&format!("port {port}\nbind -192.0.2.1 127.0.0.1"));
    listening.listen_tcp(&lines, &mut |text| warnings.push(text)).expect("one is there");
    assert_eq!(listening.active().len(), 1);
    assert_eq!(warnings.len(), 1);
    assert_eq!(listening.info_lines(), [(0, format!("name=tcp,bind=127.0.0.1,port={port}"))]);
}

#[test]
fn a_port_in_use_is_an_error_and_port_zero_is_silence() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = other.local_addr().expect("bound").port();
    let mut listening = Listening::default();
    assert!(listen(&mut listening, &format!("port {port}\nbind 127.0.0.1")).is_err());
    assert!(listening.active().is_empty());
    listen(&mut listening, "port 0").expect("none wanted");
    assert!(listening.active().is_empty());
}

#[test]
fn keepalive_is_set_as_the_configuration_says() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let kind = ListenerKind::Tcp { word: "127.0.0.1".into(), port: 1, speech: Speech::Plain };
    let own = OwnedFd::from(server.try_clone().expect("cloned"));
    tune(&Listener { socket: Arc::new(own), kind: kind.clone() }, &config("tcp-keepalive 300"));
    let _client = std::net::TcpStream::connect(server.local_addr().expect("bound")).expect("connected");
    let socket = server.accept().expect("accepted").0;
    let stream = Stream::from(socket.try_clone().expect("cloned"));
    let accepted = inspect(&stream, &kind, &Subnets::default());
    assert!(accepted.local);
    let options = SockRef::from(&socket);
    assert!(options.keepalive().expect("readable") && options.tcp_nodelay().expect("readable"));
    assert_eq!(options.tcp_keepalive_time().expect("readable"), Duration::from_secs(300));
    assert_eq!(options.tcp_keepalive_interval().expect("readable"), Duration::from_secs(100));
    assert_eq!(options.tcp_keepalive_retries().expect("readable"), 3);
}

#[test]
fn a_unix_socket_has_the_permissions_that_were_asked_for() {
    let dir = std::env::temp_dir().join(format!("sluice-listen-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temporary directory");
    let path = dir.join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("left by an earlier run"));
    let mut listening = Listening::default();
    let lines = format!("unixsocket {}\nunixsocketperm 720\nport 0", path.display());
    listening.listen_unix(&config(&lines)).expect("listening");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o720);
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    assert_eq!(listening.unix_file(), Some(&*path));
    // A change of the TCP sockets does not affect the unix socket.
    let port = free_port();
    listen(&mut listening, &format!("port {port}\nbind 127.0.0.1")).expect("tcp too");
    listen(&mut listening, "port 0").expect("no tcp any more");
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    assert_eq!(listening.info_lines(), [(1, format!("name=unix,bind={}", path.display()))]);
    // Another server has replaced the socket, so the socket's file must stay.
    std::fs::remove_file(&path).expect("removable");
    let other = std::os::unix::net::UnixListener::bind(&path).expect("free");
    listening.remove_unix_file();
    assert!(path.exists());
    drop(other);
    listening.listen_unix(&config(&lines)).expect("listening");
    listening.remove_unix_file();
    assert!(!path.exists());
    // A file with data is not taken for the socket of an earlier run.
    std::fs::write(&path, "data").expect("writable");
    let error = listening.listen_unix(&config(&lines)).expect_err("a file is there").to_string();
    assert_eq!(error, "opening Unix socket: bind: Address already in use");
    assert_eq!(std::fs::read(&path).expect("there"), b"data");
    std::fs::remove_dir_all(&dir).expect("removable");
}

#[test]
fn regress_a_start_with_a_ring_waits_for_the_port_of_a_server_that_has_crashed() {
    let start = |port: u16, event_loop: &str| {
        let lines = format!("port {port}\nbind 127.0.0.1\nevent-loop {event_loop}");
        Listening::default().listen_tcp_at_start(&config(&lines), &mut |_| {})
    };
    let before = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = before.local_addr().expect("bound").port();
    assert!(start(port, "epoll").is_err(), "nobody else keeps a port behind the end");
    let kernel = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(before);
    });
    assert_eq!(start(port, "io_uring"), Ok(()));
    kernel.join().expect("the port is free");
}

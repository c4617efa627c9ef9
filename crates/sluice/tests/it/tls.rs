//! TLS with real sockets: handshakes, client certificates, moves and ends of connections, links
//! to other servers.

use crate::common::certificates::{Certificate, Offer, TlsClient, arguments};
use crate::common::guide::{Bash, block};
use crate::common::{self, Client, Dir, Server, free_port, until};
use rustls::SupportedProtocolVersion;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

static SERVER: LazyLock<Certificate> = LazyLock::new(|| Certificate::named("server"));
static ALICE: LazyLock<Certificate> = LazyLock::new(|| Certificate::with_uri("alice", "urn:alice"));

/// Starts a server that listens for plain TCP and for TLS; returns the server and its port for TLS.
fn start(more: &[&str]) -> (Server, u16) {
    let (dir, port) = (Dir::new(), free_port());
    let words = arguments(&dir, port, &SERVER);
    let server = Server::start_in(dir, |command| {
        command.args(&words).args(more);
    });
    (server, port)
}

const ONLY_12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const ONLY_13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
const OPTIONAL: &[&str] = &["--tls-auth-clients", "optional"];

#[test]
fn clients_are_served_in_both_versions() {
    let (server, port) = start(OPTIONAL);
    for versions in [ONLY_12, ONLY_13] {
        let mut client = TlsClient::connect(port, &Offer { versions: Some(versions), ..Offer::default() });
        client.check("SET k value", "+OK\r\n").check("GET k", "$5\r\nvalue\r\n");
        // A large argument, a large reply and a pipeline take many records in both directions.
        let value = "v".repeat(3_000_000);
        client.send(common::request(&[b"SET", b"large", value.as_bytes()])).expect("+OK\r\n");
        client.send("GET large\r\nPING\r\n");
        client.expect(format!("$3000000\r\n{value}\r\n+PONG\r\n"));
        client.send("PING\r\n".repeat(5000)).expect("+PONG\r\n".repeat(5000));
    }
    let mut plain = server.client();
    plain.check("GET k", "$5\r\nvalue\r\n");
    assert!(plain.info_number("tls_server_cert_expires_in_seconds") > 1_000_000);
    assert_eq!(plain.info("listener2"), format!("name=tls,bind=*,bind=-::*,port={port}"));
}

#[test]
fn a_handshake_of_a_subnet_with_priority_may_have_what_is_kept_for_it() {
    let words = ["--priority-subnets", "127.0.0.1", "--maxclients-reserved", "1", "--maxclients", "2"];
    let (server, port) = start(&[OPTIONAL, &words].concat());
    let offer = Offer::default();
    let (mut one, mut two) = (TlsClient::connect(port, &offer), TlsClient::connect(port, &offer));
    one.check("SET k value", "+OK\r\n");
    two.check("GET k", "$5\r\nvalue\r\n");
    server.client().expect("-ERR max number of clients reached\r\n").expect_end();
    one.check("CLIENT KILL TYPE normal", ":1\r\n");
}

/// The client's last flight of the handshake, followed by a first request.
fn last_flight(
    port: u16,
    versions: &'static [&'static SupportedProtocolVersion],
    request: &[u8],
) -> (TlsClient, Vec<u8>) {
    let offer = Offer { certificate: Some(&ALICE), versions: Some(versions) };
    let mut client = TlsClient::open(port, &offer);
    client.connection.writer().write_all(request).unwrap();
    loop {
        let flight = client.flight();
        if !client.connection.is_handshaking() {
            return (client, flight);
        }
        client.socket.write_all(&flight).unwrap();
        client.connection.read_tls(&mut client.socket).unwrap();
        client.connection.process_new_packets().unwrap();
    }
}

#[test]
fn a_request_that_comes_with_the_handshakes_end_is_served_at_once() {
    let (_server, port) = start(&[]);
    for step in [usize::MAX, 1] {
        let (mut client, flight) = last_flight(port, ONLY_13, b"PING\r\n");
        assert!(flight.len() > 100, "a certificate, the end of the handshake, and a request");
        flight.chunks(step.min(flight.len())).for_each(|piece| client.socket.write_all(piece).unwrap());
        client.expect("+PONG\r\n").check("ECHO more", "$4\r\nmore\r\n");
    }
}

#[test]
fn whoever_must_have_a_certificate_is_let_in_with_one_alone() {
    let (server, port) = start(&[]);
    let mut stranger = TlsClient::open(port, &Offer::default());
    stranger.connection.writer().write_all(b"PING\r\n").unwrap();
    assert!(stranger.receive(1).is_err());
    assert!(server.log.wait("Error accepting a client connection: ").is_some());
    let with = Offer { certificate: Some(&ALICE), ..Offer::default() };
    TlsClient::connect(port, &with).check("ACL WHOAMI", "$7\r\ndefault\r\n");
    // An expired certificate is refused.
    let expired = Certificate::expired("alice");
    let mut late = TlsClient::open(port, &Offer { certificate: Some(&expired), ..Offer::default() });
    late.connection.writer().write_all(b"PING\r\n").unwrap();
    assert!(late.receive(1).is_err());
    server.client().check("CONFIG SET tls-auth-clients no", "+OK\r\n");
    TlsClient::connect(port, &Offer::default());
}

#[test]
fn a_certificate_makes_its_client_a_user() {
    let (server, port) = start(&["--tls-auth-clients-user", "CN"]);
    let mut plain = server.client();
    let with = Offer { certificate: Some(&ALICE), ..Offer::default() };
    TlsClient::connect(port, &with).check("ACL WHOAMI", "$7\r\ndefault\r\n");
    assert_eq!(plain.info_number("acl_access_denied_tls_cert"), 1);
    plain
        .check("ACL SETUSER alice on +@all ~*", "+OK\r\n")
        .check("ACL SETUSER urn:alice on +@all", "+OK\r\n");
    TlsClient::connect(port, &with).check("ACL WHOAMI", "$5\r\nalice\r\n");
    plain.check("CONFIG SET tls-auth-clients-user URI", "+OK\r\n");
    TlsClient::connect(port, &with).check("ACL WHOAMI", "$9\r\nurn:alice\r\n");
    plain.check("ACL SETUSER urn:alice off", "+OK\r\n");
    TlsClient::connect(port, &with).check("ACL WHOAMI", "$7\r\ndefault\r\n");
    assert_eq!(plain.info_number("acl_access_denied_tls_cert"), 2);
}

#[test]
fn whoever_speaks_something_else_is_closed_without_a_word() {
    let (server, port) = start(OPTIONAL);
    let mut client = Client::to("127.0.0.1", port);
    client.send("PING\r\n");
    client.expect_end();
    assert!(server.log.wait("the client does not speak TLS").is_some());
    // A handshake that continues with garbage gets no answer, or only an alert.
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"\x16\x03\x01\x00\x05garbage and more of it").unwrap();
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.first().is_none_or(|kind| *kind == 0x15), "{rest:?}");
    TlsClient::connect(port, &Offer::default());
}

#[test]
fn both_sides_say_the_end() {
    let (server, port) = start(OPTIONAL);
    let mut plain = server.client();
    let mut client = TlsClient::connect(port, &Offer::default());
    client.send("QUIT\r\n").expect("+OK\r\n").expect_end();
    let mut client = TlsClient::connect(port, &Offer::default());
    client.check("CLIENT SETNAME victim", "+OK\r\n");
    plain.check("CLIENT KILL TYPE normal SKIPME yes", ":1\r\n");
    client.expect_end();
    // The client sends a request, and closes the session at once.
    let mut client = TlsClient::connect(port, &Offer::default());
    client.connection.writer().write_all(b"ECHO last\r\n").unwrap();
    client.connection.send_close_notify();
    let flight = client.flight();
    client.socket.write_all(&flight).unwrap();
    client.expect("$4\r\nlast\r\n").expect_end();
    until("the client's end", || (plain.info_number("connected_clients") == 1).then_some(()));
}

#[test]
fn messages_and_a_large_reply_reach_a_client_that_changes_its_thread() {
    let (server, port) = start(OPTIONAL);
    let mut plain = server.client();
    plain.check("SETRANGE large 60000000 x", ":60000001\r\n");
    let mut subscriber = TlsClient::connect(port, &Offer::default());
    subscriber.send("SUBSCRIBE c\r\n").expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let mut reader = TlsClient::connect(port, &Offer::default());
    reader.send("GET large\r\n").expect("$60000001\r\n");
    for threads in ["4", "1", "3", "1"] {
        plain.check(&format!("CONFIG SET io-threads {threads}"), "+OK\r\n");
        plain.check("PUBLISH c text", ":1\r\n");
        assert_eq!(reader.receive(10_000_000).unwrap().len(), 10_000_000);
        subscriber.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\ntext\r\n");
    }
    let rest = reader.receive(20_000_001).unwrap();
    assert_eq!(rest.last(), Some(&b'x'));
    reader.expect("\r\n").check("PING", "+PONG\r\n");
}

#[test]
fn ports_and_certificates_change_while_the_server_runs() {
    let (server, port) = start(OPTIONAL);
    let mut old = TlsClient::connect(port, &Offer::default());
    let refused = "Unable to update TLS configuration. Check server logs.\r\n";
    let failed =
        |name: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {refused}");
    let other = Certificate::named("other").files(&server.dir, "other");
    let expired = Certificate::expired("server").files(&server.dir, "expired");
    let mut plain = server.client();
    let serial = plain.info("tls_server_cert_serial");
    // A certificate without its key, an expired one, and a missing one are refused.
    for cert in [&other[0], &expired[0], &server.dir.join("none")] {
        plain.check(&format!("CONFIG SET tls-cert-file {cert}"), failed("tls-cert-file"));
    }
    let both = format!("CONFIG SET tls-cert-file {} tls-key-file {}", expired[0], expired[1]);
    plain.check(&both, failed("tls-cert-file"));
    assert_eq!(plain.info("tls_server_cert_serial"), serial);
    TlsClient::connect(port, &Offer::default());
    plain.check(&format!("CONFIG SET tls-cert-file {} tls-key-file {}", other[0], other[1]), "+OK\r\n");
    assert_ne!(plain.info("tls_server_cert_serial"), serial);
    TlsClient::connect(port, &Offer::default());
    let next = free_port();
    plain.check(&format!("CONFIG SET tls-port {next}"), "+OK\r\n");
    TlsClient::connect(next, &Offer::default());
    plain.check("CONFIG SET tls-port 0", "+OK\r\n");
    assert_eq!(plain.info("tls_server_cert_serial"), "none");
    assert!(TcpStream::connect(("127.0.0.1", next)).is_err());
    old.check("PING", "+PONG\r\n");
    plain.check(&format!("CONFIG SET tls-port {port}"), "+OK\r\n").check("CONFIG SET port 0", "+OK\r\n");
    TlsClient::connect(port, &Offer::default()).check("CONFIG GET port", "*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
}

#[test]
fn certificates_that_have_changed_are_taken_up_by_themselves() {
    let (server, port) = start(&[
        "--tls-auth-clients",
        "optional",
        "--tls-auto-reload-interval",
        "1",
        "--loglevel",
        "verbose",
    ]);
    let mut plain = server.client();
    let serial = plain.info("tls_server_cert_serial");
    assert!(server.log.wait("materials unchanged").is_some());
    Certificate::expired("server").files(&server.dir, "server");
    assert!(server.log.wait("the present ones stay in use").is_some());
    assert_eq!(plain.info("tls_server_cert_serial"), serial);
    Certificate::named("server").files(&server.dir, "server");
    assert!(server.log.wait("TLS materials reloaded successfully").is_some());
    assert_ne!(plain.info("tls_server_cert_serial"), serial);
    TlsClient::connect(port, &Offer::default());
}

#[test]
fn handshakes_that_go_nowhere_keep_nobody_out_and_count_as_clients() {
    let (server, port) = start(&["--tls-auth-clients", "optional", "--maxclients", "60"]);
    let mut plain = server.client();
    let half: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    for mut socket in &half {
        socket.write_all(b"\x16\x03\x01").unwrap();
    }
    let mut client = TlsClient::connect(port, &Offer::default());
    let more: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    until("rejections", || (plain.info_number("rejected_connections") > 0).then_some(()));
    let mut refused = Client::to("127.0.0.1", server.port);
    refused.expect("-ERR max number of clients reached\r\n").expect_end();
    client.check("PING", "+PONG\r\n");
    drop((half, more));
    until("room", || {
        let mut next = Client::to("127.0.0.1", server.port);
        next.send("PING\r\n");
        let mut first = [0];
        (next.stream.read(&mut first).is_ok() && first == *b"+").then_some(())
    });
}

#[test]
fn replicas_follow_over_tls() {
    let (primary, port) = start(&["--tls-replication", "yes"]);
    let mut source = primary.client();
    source.check("DEBUG POPULATE 20000 key 100", "+OK\r\n");
    let ways: [&[&str]; 3] =
        [&[], &["--dual-channel-replication-enabled", "yes"], &["--repl-diskless-load", "swapdb"]];
    for way in ways {
        let dual = if way.iter().any(|word| word.contains("dual")) { "yes" } else { "no" };
        source.check(&format!("CONFIG SET dual-channel-replication-enabled {dual}"), "+OK\r\n");
        let primary = format!("127.0.0.1 {port}");
        let more = [way, &["--tls-replication", "yes", "--replicaof", &primary]].concat();
        let (replica, _) = start(&more);
        let mut client = replica.client();
        until("the link", || (client.info("master_link_status") == "up").then_some(()));
        source.check("SET after x", "+OK\r\n").check("WAIT 1 60000", ":1\r\n");
        client.check("GET after", "$1\r\nx\r\n").check("DBSIZE", ":20001\r\n");
        assert!(source.info("slave0").contains("state=online"));
        // The link is closed, and continues by a partial synchronization.
        source.check("CLIENT KILL TYPE replica", ":1\r\n").check("SET again y", "+OK\r\n");
        until("the stream", || {
            client.send("GET again\r\n");
            let line = client.line();
            (line == "$1").then(|| client.line())
        });
        assert!(source.info_number("sync_partial_ok") > 0);
        source.check("DEL after again", ":2\r\n").check("CONFIG RESETSTAT", "+OK\r\n");
    }
}

#[test]
fn keys_migrate_over_tls_where_tls_cluster_says_so() {
    let (target, port) = start(&["--tls-cluster", "yes"]);
    let (server, _) = start(&["--tls-cluster", "yes"]);
    let mut client = server.client();
    client.check("SET k v", "+OK\r\n");
    client.check(&format!("MIGRATE 127.0.0.1 {port} k 0 20000"), "+OK\r\n");
    client.check("EXISTS k", ":0\r\n");
    target.client().check("GET k", "$1\r\nv\r\n");
    // MIGRATE also works on a cached connection, within a transaction.
    client.check("SET k w", "+OK\r\n").check("MULTI", "+OK\r\n");
    client.check(&format!("MIGRATE 127.0.0.1 {port} k 0 20000 REPLACE"), "+QUEUED\r\n");
    client.check("EXEC", "*1\r\n+OK\r\n");
    target.client().check("GET k", "$1\r\nw\r\n");
}

#[test]
fn what_is_no_good_ends_the_start_and_is_named_by_a_check() {
    let dir = Dir::new();
    let words = arguments(&dir, free_port(), &Certificate::expired("server"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = |more: &[&str]| {
        let output =
            Command::new(common::BINARY).args(more).args(&words).args(["--port", "0"]).output().unwrap();
        assert!(!output.status.success());
        [output.stdout, output.stderr].concat()
    };
    let told = String::from_utf8(run(&[])).unwrap();
    assert!(told.contains("Failed to configure TLS. Check logs for more info."), "{told}");
    assert!(told.contains("server.crt") && told.contains("expired"), "{told}");
    let told = String::from_utf8(run(&["--check-config"])).unwrap();
    assert!(told.contains("error: ") && told.contains("expired"), "{told}");
}

/// A client that sends requests and checks replies until it is stopped or killed.
fn ask_in_order(mut client: TlsClient, stop: &AtomicBool, big: &str) {
    let (mut number, mut seed) = (0_u64, client.socket.local_addr().unwrap().port());
    while !stop.load(Relaxed) {
        seed = seed.wrapping_mul(25_173).wrapping_add(13_849);
        let (mut request, mut expected) = (String::new(), String::new());
        for _ in 0..=seed % 20 {
            let text = number.to_string();
            request += &format!("ECHO {text}\r\n");
            expected += &format!("${}\r\n{text}\r\n", text.len());
            number += 1;
        }
        if seed.is_multiple_of(3) {
            request += "GET big\r\n";
            expected += &format!("${}\r\n{big}\r\n", big.len());
        }
        client.connection.writer().write_all(request.as_bytes()).unwrap();
        let flight = client.flight();
        if client.socket.write_all(&flight).is_err() {
            return;
        }
        // A killed client has received a part of its replies, in order.
        let got = client.receive(expected.len()).unwrap_or_default();
        assert!(expected.as_bytes().starts_with(&got), "answers are in order");
        if got.len() < expected.len() {
            return;
        }
    }
}

#[test]
fn chaos_leaves_order_and_nothing_else() {
    let (server, port) =
        start(&["--tls-auth-clients", "optional", "--client-output-buffer-limit", "normal 4mb 0 0"]);
    let mut control = server.client();
    let big = "x".repeat(200_000);
    control.send(common::request(&[b"SET", b"big", big.as_bytes()])).expect("+OK\r\n");
    let stop = Arc::new(AtomicBool::new(false));
    let spawn = |name: &str| {
        let mut client = TlsClient::connect(port, &Offer::default());
        client.check(&format!("CLIENT SETNAME {name}"), "+OK\r\n");
        let (stop, big) = (stop.clone(), big.clone());
        std::thread::spawn(move || ask_in_order(client, &stop, &big))
    };
    let stay: Vec<_> = (0..4).map(|_| spawn("stays")).collect();
    let mut victims: Vec<_> = (0..3).map(|_| spawn("victim")).collect();
    let mut lazy = Vec::new();
    for step in 0..30_u32 {
        match step.wrapping_mul(7) % 5 {
            0 => drop(control.check(&format!("CONFIG SET io-threads {}", 1 + step % 4), "+OK\r\n")),
            1 => drop(control.check("CLIENT PAUSE 10 ALL", "+OK\r\n")),
            2 => {
                // The client requests more bytes than its output limit allows, and reads none of them.
                let mut reader = TlsClient::connect(port, &Offer::default());
                reader.send("GET big\r\n".repeat(60));
                lazy.push(reader);
            }
            3 => {
                let list = String::from_utf8(control.bulk("CLIENT LIST")).unwrap();
                for line in list.lines().filter(|line| line.contains(" name=victim ")) {
                    let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
                    control.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
                }
                victims.drain(..).for_each(|victim| victim.join().unwrap());
                victims.extend((0..3).map(|_| spawn("victim")));
            }
            _ => drop(control.check("CONFIG SET io-threads-always-active yes", "+OK\r\n")),
        }
    }
    stop.store(true, Relaxed);
    stay.into_iter().chain(victims).for_each(|client| client.join().unwrap());
    drop(lazy);
    until("all clients' end", || (control.info_number("connected_clients") == 1).then_some(()));
}

#[test]
fn a_key_update_leaves_the_order_of_a_reply_that_waits() {
    let (server, port) = start(OPTIONAL);
    server.client().check("SETRANGE large 20000000 x", ":20000001\r\n");
    let mut client = TlsClient::connect(port, &Offer { versions: Some(ONLY_13), ..Offer::default() });
    client.send("GET large\r\n").expect("$20000001\r\n");
    for _ in 0..3 {
        client.connection.refresh_traffic_keys().unwrap();
        client.send("PING\r\n");
        assert_eq!(client.receive(1_000_000).unwrap().len(), 1_000_000);
    }
    assert_eq!(client.receive(17_000_001).unwrap().last(), Some(&b'x'));
    client.expect("\r\n+PONG\r\n+PONG\r\n+PONG\r\n");
}

#[test]
fn what_came_ahead_of_an_end_or_of_garbage_is_executed() {
    let (server, port) = start(&[]);
    // A request and close_notify follow the handshake at once.
    let offer = Offer { certificate: Some(&ALICE), versions: Some(ONLY_13) };
    let (mut client, mut flight) = last_flight(port, ONLY_13, b"SET a 1\r\n");
    client.connection.send_close_notify();
    flight.extend(client.flight());
    client.socket.write_all(&flight).unwrap();
    client.expect("+OK\r\n").expect_end();
    let mut plain = server.client();
    plain.check("GET a", "$1\r\n1\r\n");
    // A record that cannot be decrypted follows one that can.
    let mut client = TlsClient::connect(port, &offer);
    client.connection.writer().write_all(b"SET b 2\r\n").unwrap();
    let mut flight = client.flight();
    flight.extend_from_slice(&[0x17, 3, 3, 0, 30]);
    flight.extend_from_slice(&[7; 30]);
    client.socket.write_all(&flight).unwrap();
    until("the request", || {
        plain.send("EXISTS b\r\n");
        (plain.line() == ":1").then_some(())
    });
    // A large reply is sent completely, although its request is followed by close_notify and the end of the
    // connection.
    plain.check("SETRANGE large 20000000 x", ":20000001\r\n");
    let mut client = TlsClient::connect(port, &offer);
    client.connection.writer().write_all(b"GET large\r\n").unwrap();
    client.connection.send_close_notify();
    let flight = client.flight();
    client.socket.write_all(&flight).unwrap();
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    client.expect("$20000001\r\n");
    assert_eq!(client.receive(20_000_003).unwrap().len(), 20_000_003);
    client.expect_end();
}

/// The common name in the certificate that OpenSSL's client receives; `None` if the handshake fails.
fn name_shown(port: u16, words: &[&str]) -> Option<String> {
    let address = format!("127.0.0.1:{port}");
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address]).args(words).stdin(Stdio::null());
    let text = String::from_utf8_lossy(&client.output().unwrap().stdout).into_owned();
    let subject = text.lines().find_map(|line| line.strip_prefix("subject="))?;
    Some(subject.replace(' ', "").rsplit("CN=").next()?.to_owned())
}

#[test]
fn of_two_certificates_a_client_is_shown_the_one_that_it_can_check() {
    let openssl =
        |words: &[&str]| Command::new("openssl").args(words).output().is_ok_and(|o| o.status.success());
    let dir = Dir::new();
    let [cert, key, sealed] = ["rsa.crt", "rsa.key", "sealed.key"].map(|name| dir.join(name));
    let make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &cert];
    if !openssl(&[&make[..], &["-subj", "/CN=rsa", "-addext", "basicConstraints=critical,CA:FALSE"]].concat())
    {
        return println!("skipped: this machine has no openssl");
    }
    let seal =
        ["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:secret", "-in", &key, "-out", &sealed];
    assert!(openssl(&seal));
    let alternative =
        ["--tls-alt-cert-file", &cert, "--tls-alt-key-file", &sealed, "--tls-alt-key-file-pass", "secret"];
    let (server, port) = start(&[OPTIONAL, &alternative].concat());
    let mut plain = server.client();
    let (only_ecdsa, only_rsa) = ("ECDSA+SHA256", "RSA-PSS+SHA256:RSA+SHA256");
    for version in ["-tls1_2", "-tls1_3"] {
        let shown = |sigalgs: &str| name_shown(port, &[version, "-sigalgs", sigalgs]);
        assert_eq!(shown(only_ecdsa).as_deref(), Some("server"), "{version}");
        assert_eq!(shown(only_rsa).as_deref(), Some("rsa"), "{version}");
        // If a client can check both certificates, the server uses the one for the client's first choice.
        assert_eq!(shown(&format!("{only_ecdsa}:{only_rsa}")).as_deref(), Some("server"), "{version}");
        assert_eq!(shown(&format!("{only_rsa}:{only_ecdsa}")).as_deref(), Some("rsa"), "{version}");
    }
    let suites = |name: &str| name_shown(port, &["-tls1_2", "-cipher", name]);
    assert_eq!(suites("ECDHE-ECDSA-AES128-GCM-SHA256").as_deref(), Some("server"));
    assert_eq!(suites("ECDHE-RSA-AES128-GCM-SHA256").as_deref(), Some("rsa"));
    assert!(plain.info_number("tls_server_alt_cert_expires_in_seconds") > 1_000_000);
    // A certificate without its key changes nothing; a certificate and its key together take effect. The
    // second certificate can be removed.
    let other = Certificate::named("other").files(&server.dir, "other");
    plain.send(format!("CONFIG SET tls-alt-cert-file {}\r\n", other[0]));
    assert!(plain.line().starts_with("-ERR CONFIG SET failed"));
    assert_eq!(name_shown(port, &["-sigalgs", only_rsa]).as_deref(), Some("rsa"));
    let serial = plain.info("tls_server_alt_cert_serial");
    plain.check(
        &format!(
            "CONFIG SET tls-alt-cert-file {} tls-alt-key-file {} tls-alt-key-file-pass \"\"",
            other[0], other[1]
        ),
        "+OK\r\n",
    );
    assert_ne!(plain.info("tls_server_alt_cert_serial"), serial);
    assert_eq!(name_shown(port, &["-sigalgs", only_rsa]), None);
    plain.check("CONFIG SET tls-alt-cert-file \"\" tls-alt-key-file \"\"", "+OK\r\n");
    assert_eq!(plain.info("tls_server_alt_cert_serial"), "none");
}

#[test]
fn the_guide_makes_two_certificates_and_each_client_is_shown_its_own() {
    if Command::new("openssl").arg("version").output().is_err() {
        return println!("skipped: this machine has no openssl");
    }
    const GUIDE: &str = include_str!("../../../../docs/operating.md");
    let (mut bash, port) = (Bash::new(), free_port().to_string());
    let folder = bash.dir.join("tls");
    std::fs::create_dir(&folder).unwrap();
    let names = [("NODE", "localhost"), ("TLS_DIR", folder.as_str())];
    bash.run("the certificates", &block(GUIDE, "tls-two-certificates"), &names);
    let conf = format!("{folder}/sluice.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, text.replace("tls-port 6380", &format!("tls-port {port}"))).unwrap();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--include", &conf]);
    });
    assert_ne!(server.client().info("tls_server_alt_cert_serial"), "none");
    let seen = block(GUIDE, "tls-two-certificates-seen").replace(":6380", &format!(":{port}"));
    bash.run("what clients are shown", &seen, &names);
}

#[test]
fn certificates_are_in_force_together_or_not_at_all() {
    let (server, port) = start(OPTIONAL);
    let mut plain = server.client();
    let serial = plain.info("tls_server_cert_serial");
    let other = Certificate::named("other").files(&server.dir, "other");
    // The old key is no longer on disk when the change is rolled back, so the rollback must not read it.
    server.dir.file("server.key", "no key");
    let busy = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let taken = busy.local_addr().unwrap().port();
    plain.send(format!(
        "CONFIG SET tls-cert-file {} tls-key-file {} tls-port {taken}\r\n",
        other[0], other[1]
    ));
    assert!(plain.line().starts_with("-ERR CONFIG SET failed"));
    assert_eq!(plain.info("tls_server_cert_serial"), serial);
    TlsClient::connect(port, &Offer::default());
}

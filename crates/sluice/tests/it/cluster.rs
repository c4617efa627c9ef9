//! A cluster node with real sockets: meeting nodes of ours and of the reference; the content of the files
//! after a kill; invalid messages on the bus port; TLS; refused starts; saves that fail; the port of the bus;
//! a load at the start.

mod half_moved;
mod handover;
mod learning;
mod member;
mod moves;
mod moves_in;
mod moves_out;
mod moving_in;
mod operators;
mod redirects;
mod single;

use crate::common::certificates::{Certificate, Offer, TlsClient, arguments};
use crate::common::reference::Reference;
use crate::common::{self, BINARY, Client, Dir, Server, free_port, until};
use rustls::SupportedProtocolVersion;
use sluice_base::Rng;
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// A node of ours, with the port of its cluster bus.
struct Node {
    server: Server,
    bus: u16,
    more: Vec<String>,
}

impl Node {
    fn start(more: &[&str]) -> Node {
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        Node::start_in(Dir::new(), more)
    }

    fn start_in(dir: Dir, more: Vec<String>) -> Node {
        let bus = Cell::new(0);
        let server = Server::start_in(dir, |command| {
            bus.set(free_port());
            command.args(of_node(bus.get())).args(&more);
        });
        Node { server, bus: bus.get(), more }
    }

    /// Kills the process and starts another one with the same file and the same ports.
    fn kill_and_restart(self) -> Node {
        let Node { mut server, bus, more } = self;
        server.signal("KILL");
        server.wait();
        let (port, dir) = (server.port, std::mem::replace(&mut server.dir, Dir::new()));
        let mut command = Command::new(BINARY);
        command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""]);
        command.args(common::arm()).args(of_node(bus)).args(&more);
        let server = Server::spawn(command, port, dir);
        assert!(server.log.wait("Ready to accept").is_some(), "{}", server.log.all());
        Node { server, bus, more }
    }

    fn client(&self) -> Client {
        self.server.client()
    }
}

/// The arguments of a node with this bus port.
fn of_node(bus: u16) -> Vec<String> {
    let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port"];
    words.map(str::to_owned).into_iter().chain([bus.to_string()]).collect()
}

fn id_of(client: &mut Client) -> String {
    String::from_utf8(client.bulk("CLUSTER MYID")).unwrap()
}

/// The lines of CLUSTER NODES.
fn nodes(client: &mut Client) -> Vec<String> {
    let text = String::from_utf8(client.bulk("CLUSTER NODES")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Waits until a node knows exactly the nodes with these ids, and is connected to all of them.
#[track_caller]
fn knows(client: &mut Client, ids: &[&str]) {
    until("the nodes to know each other", || {
        let lines = nodes(client);
        let is_there = |id: &&str| {
            lines.iter().any(|line| line.starts_with(*id) && line.split(' ').nth(7) == Some("connected"))
        };
        (lines.len() == ids.len() && ids.iter().all(is_there)).then_some(())
    });
}

fn meet(client: &mut Client, port: u16, bus: u16) {
    client.check(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"), "+OK\r\n");
}

#[test]
fn two_nodes_meet_and_know_each_other_again_after_a_kill() {
    let (one, two) = (Node::start(&[]), Node::start(&[]));
    let (mut here, mut there) = (one.client(), two.client());
    let (first, second) = (id_of(&mut here), id_of(&mut there));
    meet(&mut here, two.server.port, two.bus);
    knows(&mut here, &[&first, &second]);
    knows(&mut there, &[&first, &second]);
    // Another process may not use the node's file, whatever ports the process has.
    let arguments = [of_node(free_port()), vec!["--dir".to_owned(), one.server.dir.join("")]].concat();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (_, refused, is_well) =
        common::run(&[&["--port", &free_port().to_string()], &words[..]].concat(), "");
    assert!(refused.contains("nodes.conf is already used by a different Cluster node"), "{refused}");
    assert!(!is_well);

    let one = one.kill_and_restart();
    assert_eq!(id_of(&mut one.client()), first);
    knows(&mut one.client(), &[&first, &second]);
    knows(&mut there, &[&first, &second]);
    let (one, two) = (one.kill_and_restart(), two.kill_and_restart());
    knows(&mut one.client(), &[&first, &second]);
    knows(&mut two.client(), &[&first, &second]);
    let log = one.server.log.so_far();
    assert!(log.contains(&format!("Node configuration loaded, I'm {first}")), "{log}");
}

#[test]
fn a_node_of_the_reference_and_one_of_ours_meet_either_way() {
    let bus = free_port();
    let words = of_node(bus);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(stock) = Reference::start(&words) else { return };
    let (one, two) = (Node::start(&[]), Node::start(&[]));
    let (mut first, mut second, mut theirs) = (one.client(), two.client(), stock.client());
    let ids = [id_of(&mut first), id_of(&mut second), id_of(&mut theirs)];
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    meet(&mut first, stock.port, bus);
    meet(&mut theirs, two.server.port, two.bus);
    for client in [&mut first, &mut second, &mut theirs] {
        knows(client, &ids);
    }
    // Each pair of nodes has two links, because each node opens one to the other.
    let links = |client: &mut Client| {
        client.send("CLUSTER LINKS\r\n");
        let count = client.line();
        client.send("PING\r\n");
        while client.line() != "+PONG" {}
        count
    };
    until("two links with each", || (links(&mut first) == "*4" && links(&mut theirs) == "*4").then_some(()));
    // The reference does not start with a file that a node of ours is using. (The reverse is not tested,
    // because the reference loses the lock on its own file with its first save.)
    let stock_in_ours = Command::new(std::env::var("SLUICE_PEER_SERVER").unwrap())
        .args(["--port", &free_port().to_string(), "--dir", &one.server.dir.join("")])
        .args(["--cluster-enabled", "yes"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&stock_in_ours.stdout);
    assert!(text.contains("is already used by a different Cluster node"), "{text}");
    assert!(!stock_in_ours.status.success());
    // The reference reads our file, and keeps our node's id.
    let Node { mut server, .. } = one;
    server.signal("TERM");
    assert!(server.wait().success());
    let taken_over = Command::new(std::env::var("SLUICE_PEER_SERVER").unwrap())
        .args(["--port", &server.port.to_string(), "--dir", &server.dir.join("")])
        .args(["--logfile", "stock.log", "--save", ""])
        .args(of_node(one.bus))
        .spawn();
    let mut child = taken_over.unwrap();
    let mut client = until("the reference", || {
        TcpStream::connect(("127.0.0.1", server.port)).ok().map(|_| Client::to("127.0.0.1", server.port))
    });
    assert_eq!(id_of(&mut client), ids[0]);
    knows(&mut client, &ids);
    knows(&mut second, &ids);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The first 16 bytes of a message.
fn head(length: u32, kind: u16) -> Vec<u8> {
    let mut bytes = b"RCmb".to_vec();
    bytes.extend(length.to_be_bytes());
    bytes.extend(1_u16.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 0]);
    bytes
}

fn to_bus(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    stream.set_write_timeout(Some(common::DEADLINE)).unwrap();
    stream
}

/// Whether the other end closes the connection. What the other end has sent, or has not read, does not
/// matter.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn hostile_bytes_at_the_bus_leave_the_node_as_it_was() {
    let node = Node::start(&["--cluster-node-timeout", "60000"]);
    let mut client = node.client();
    let id = id_of(&mut client);
    let before = client.info_number("used_memory");
    // An invalid message ends the connection.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &head(15, 0), &head(2_255, 1), &head(4, 0x8004)] {
        let mut stream = to_bus(node.bus);
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream), "{bytes:?}");
    }
    // The bytes of a message with an impossible length are skipped.
    let mut long = Vec::new();
    for kind in [0, 3, 4, 9, 0x8004, 0x800a] {
        let mut stream = to_bus(node.bus);
        stream.write_all(&head(u32::MAX, kind)).unwrap();
        for _ in 0..64 {
            if stream.write_all(&[0; 64 * 1024]).is_err() {
                break;
            }
        }
        long.push(stream);
    }
    client.check("PING", "+PONG\r\n");
    let grown = client.info_number("used_memory") - before;
    assert!(grown < 8 * 1024 * 1024, "24 MiB of nothing made {grown} bytes");
    // A message is cut off at many lengths. Half of the connections are then closed, and the others stay
    // open.
    let whole = [head(2_256, 0), vec![0; 2_240]].concat();
    let mut left_behind = Vec::new();
    for at in (0..whole.len()).step_by(97) {
        let mut stream = to_bus(node.bus);
        stream.write_all(&whole[..at]).unwrap();
        if at % 2 == 0 {
            left_behind.push(stream);
        }
    }
    drop((long, left_behind));
    random_packets(node.bus);
    client.check("PING", "+PONG\r\n");
    let grown = client.info_number("used_memory") - before;
    assert!(grown < 16 * 1024 * 1024, "{grown} bytes more");
    assert_eq!(id_of(&mut client), id);
    // The file has no node from these messages, because handshakes are not saved, and time out.
    let file = std::fs::read_to_string(node.server.dir.join("nodes.conf")).unwrap();
    assert_eq!(file.lines().count(), 2, "{file}");
    // The node can still meet other nodes.
    let other = Node::start(&[]);
    meet(&mut client, other.server.port, other.bus);
    until("a node beside the noise", || {
        nodes(&mut client).iter().any(|line| line.starts_with(&id_of(&mut other.client()))).then_some(())
    });
}

/// Sends twenty thousand messages with a valid beginning, of any type and content.
fn random_packets(bus: u16) {
    let mut rng = Rng::new(20_000);
    let mut stream = to_bus(bus);
    for _ in 0..20_000 {
        let kind = match rng.below(4) {
            0 => rng.below(u64::from(u16::MAX)) as u16,
            1 => 0x8000 | rng.below(12) as u16,
            _ => rng.below(12) as u16,
        };
        let least = if kind & 0x8000 != 0 { 16 } else { 2_256 };
        let length = least + rng.below(600) as u32;
        let mut bytes = head(length, kind);
        while bytes.len() < length as usize {
            bytes.extend(rng.next_u64().to_ne_bytes());
        }
        bytes.truncate(length as usize);
        if rng.below(2) == 0 && length >= 2_256 {
            // This message resembles one of an unknown node: ids are readable, and few of the other bytes are
            // random.
            bytes[16..].iter_mut().for_each(|byte| *byte = if rng.below(16) == 0 { *byte } else { 0 });
            bytes[40..80].fill(b'a');
        }
        if stream.write_all(&bytes).is_err() {
            stream = to_bus(bus);
        }
    }
}

const ONLY_12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const ONLY_13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

#[test]
fn nodes_show_each_other_certificates_where_the_bus_speaks_tls() {
    let certificate = Certificate::named("node");
    let node = || {
        let (dir, port) = (Dir::new(), free_port());
        let mut words = arguments(&dir, port, &certificate);
        // `tls-auth-clients` is about clients only; nodes have to show certificates in any case.
        words.extend(["--tls-cluster", "yes", "--tls-auth-clients", "no"].map(str::to_owned));
        Node::start_in(dir, words)
    };
    let (one, two) = (node(), node());
    let (mut here, mut there) = (one.client(), two.client());
    let (first, second) = (id_of(&mut here), id_of(&mut there));
    meet(&mut here, two.server.port, two.bus);
    knows(&mut here, &[&first, &second]);
    knows(&mut there, &[&first, &second]);
    // Connections in plain text or without a certificate are refused.
    let mut plain = to_bus(one.bus);
    plain.write_all(&[head(2_256, 0), vec![0; 2_240]].concat()).unwrap();
    assert!(is_closed(&mut plain));
    for versions in [ONLY_12, ONLY_13] {
        let mut stranger = TlsClient::open(one.bus, &Offer { certificate: None, versions: Some(versions) });
        let _ = rustls::Stream::new(&mut stranger.connection, &mut stranger.socket).write_all(&head(16, 0));
        let mut got = [0; 1];
        let read = rustls::Stream::new(&mut stranger.connection, &mut stranger.socket).read(&mut got);
        assert!(read.is_err() || read.is_ok_and(|len| len == 0));
    }
    let one = one.kill_and_restart();
    knows(&mut one.client(), &[&first, &second]);
    knows(&mut there, &[&first, &second]);
}

#[test]
fn a_start_that_cannot_be_a_node_says_why() {
    let refused = |words: &[&str]| {
        let (_, text, is_well) = common::run(&[&["--cluster-enabled", "yes"], words].concat(), "");
        assert!(!is_well, "{text}");
        text
    };
    let dir = Dir::new();
    let folder = dir.join("");
    let text = refused(&["--port", "60000", "--dir", &folder]);
    assert!(text.contains("port number too high."), "{text}");
    // The default port of the bus may lie in the range of ports for outgoing connections, so another is set.
    let (port, bus) = (free_port().to_string(), free_port().to_string());
    let ports = ["--port", &port, "--cluster-port", &bus, "--dir", &folder];
    let text = refused(&[&ports[..], &["--replicaof", "h 1"]].concat());
    assert!(text.contains("replicaof directive not allowed in cluster mode"), "{text}");
    let text = refused(&[&ports[..], &["--bind", ""]].concat());
    assert!(
        text.contains("No bind address is configured, but it is required for the Cluster bus."),
        "{text}"
    );
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let held = taken.local_addr().unwrap().port().to_string();
    let text = refused(&["--port", &port, "--dir", &folder, "--cluster-port", &held]);
    assert!(text.contains(&format!("Failed listening on port {held} (cluster), aborting.")), "{text}");
    let damaged = "no line of a node\nvars currentEpoch 1 lastVoteEpoch 0\n";
    dir.file("nodes.conf", damaged);
    let text = refused(&ports);
    assert!(text.contains("line 1"), "{text}");
    // The damaged file is left unchanged for the operator.
    assert_eq!(std::fs::read_to_string(dir.join("nodes.conf")).unwrap(), damaged);
}

/// Makes the next save of a node fail, because a folder takes the name of the temporary file.
fn block_saves(node: &Node) {
    let temporary = node.server.dir.join(&format!("nodes.conf.tmp-{}", node.server.child.id()));
    // The first save may still be running.
    until("the first save", || std::fs::create_dir(&temporary).ok());
}

#[test]
fn a_node_whose_file_cannot_be_written_ends_or_goes_on_as_it_is_told() {
    let mut node = Node::start(&[]);
    block_saves(&node);
    let mut client = node.client();
    // An epoch that is not saved is not announced.
    client.send("CLUSTER BUMPEPOCH\r\n");
    assert_eq!(node.server.wait().code(), Some(1));
    let log = node.server.log.all();
    assert!(log.contains("Could not open temp cluster config file: File exists"), "{log}");
    assert!(log.contains("Fatal: can't update cluster config file."), "{log}");
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"+BUMPED"), "{:?}", String::from_utf8_lossy(&rest));

    let node = Node::start(&["--cluster-config-save-behavior", "best-effort"]);
    block_saves(&node);
    let mut client = node.client();
    client.send("CLUSTER BUMPEPOCH\r\n");
    assert_eq!(client.line(), "+BUMPED 1");
    client.check("PING", "+PONG\r\n");
}

#[test]
fn cl_n21_the_file_is_written_when_the_server_ends() {
    let mut node = Node::start(&[]);
    let file = node.server.dir.join("nodes.conf");
    let mut client = node.client();
    client.send("CLUSTER BUMPEPOCH\r\n");
    assert_eq!(client.line(), "+BUMPED 1");
    std::fs::remove_file(&file).unwrap();
    client.send("SHUTDOWN\r\n");
    assert_eq!(node.server.wait().code(), Some(0));
    assert!(node.server.log.all().contains("Saving the cluster configuration file before exiting."));
    assert!(std::fs::read_to_string(&file).unwrap().contains("vars currentEpoch 1 lastVoteEpoch 0"));
}

#[test]
fn the_bus_follows_the_port_of_clients_where_it_has_none_of_its_own() {
    let node = Node::start(&["--cluster-port", "0"]);
    let mut client = node.client();
    let port = until("two free ports", || {
        let port = free_port();
        std::net::TcpListener::bind(("0.0.0.0", port + 10_000)).is_ok().then_some(port)
    });
    drop(to_bus(node.server.port + 10_000));
    client.check(&format!("CONFIG SET port {port}"), "+OK\r\n");
    client.check("PING", "+PONG\r\n");
    drop(to_bus(port + 10_000));
    assert!(TcpStream::connect(("127.0.0.1", node.server.port + 10_000)).is_err());
    client.send("CONFIG SET port 60000\r\n");
    assert!(client.line().starts_with("-ERR CONFIG SET failed"), "no bus has the port 70000");
    assert_eq!(client.config("port"), port.to_string());
    drop(to_bus(port + 10_000));
}

#[test]
fn a_primary_that_loads_hears_no_other_node() {
    let filler = Server::start(&[]);
    filler.client().check("DEBUG POPULATE 500", "+OK\r\n").check("SAVE", "+OK\r\n");
    let dir = Dir::new();
    std::fs::copy(filler.dir.join("dump.rdb"), dir.join("dump.rdb")).unwrap();
    let (port, bus) = (free_port(), free_port());
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""]);
    command.args(["--enable-debug-command", "yes", "--key-load-delay", "1000000"]);
    command.args(common::arm()).args(of_node(bus));
    let server = Server::spawn(command, port, dir);
    assert!(server.log.wait("Loading RDB produced by Valkey").is_some(), "{}", server.log.all());
    let mut stream = to_bus(bus);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    server.client().check("CONFIG SET key-load-delay 0", "+OK\r\n");
    stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    assert!(
        is_closed(&mut stream),
        "the connection is accepted behind the load, and its bytes are no message"
    );
}

//! Sentinels of the reference with servers of ours: what they find, which server they promote, and that
//! no write is lost that WAIT has confirmed. Without the reference the tests print a note.

use crate::common::{BINARY, Client, DEADLINE, Dir, Server, free_port, until};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The path of a program of the reference that lies beside its server; prints a note if there is none.
fn tool(name: &str) -> Option<PathBuf> {
    let server = std::env::var_os("SLUICE_PEER_SERVER");
    let path = server.map(|server| Path::new(&server).with_file_name(name)).filter(|path| path.exists());
    if path.is_none() {
        println!("skipped: SLUICE_PEER_SERVER names no reference with {name} beside it");
    }
    path
}

/// A server with a configuration file of its own, which Sentinel makes the server rewrite.
struct Node {
    server: Server,
    dir: Dir,
    port: u16,
}

impl Node {
    fn start() -> Node {
        let (dir, port) = (Dir::new(), free_port());
        let folder = dir.join("");
        dir.file(
            "sluice.conf",
            &format!(
                "port {port}\ndir {folder}\nsave \"\"\nrepl-diskless-sync-delay 0\nenable-debug-command yes\n"
            ),
        );
        let server = Node::spawn(&dir, port);
        Node { server, dir, port }
    }

    fn spawn(dir: &Dir, port: u16) -> Server {
        let mut command = Command::new(BINARY);
        command.arg(dir.join("sluice.conf"));
        let server = Server::spawn(command, port, Dir::new());
        assert!(server.log.wait("Ready to accept").is_some(), "{}", server.log.all());
        server
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn crash(&mut self) {
        self.server.child.kill().unwrap();
        self.server.wait();
    }

    fn restart(&mut self) {
        self.server = Node::spawn(&self.dir, self.port);
    }

    fn conf(&self) -> String {
        std::fs::read_to_string(self.dir.join("sluice.conf")).unwrap()
    }
}

/// A Sentinel of the reference, killed on drop.
struct Sentinel {
    child: Child,
    port: u16,
    dir: Dir,
}

impl Sentinel {
    fn watch(binary: &Path, primary: u16) -> Sentinel {
        let (dir, port) = (Dir::new(), free_port());
        let folder = dir.join("");
        let conf = format!(
            "port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile sentinel.log\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {NAME} 3000\nsentinel failover-timeout {NAME} 15000\n\
             sentinel parallel-syncs {NAME} 2\n"
        );
        let file = dir.file("sentinel.conf", &conf);
        let child =
            Command::new(binary).arg(file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("a Sentinel", || TcpStream::connect(("127.0.0.1", port)).ok());
        Sentinel { child, port, dir }
    }

    fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(self.dir.join("sentinel.log")).unwrap_or_default());
        }
    }
}

const NAME: &str = "ours";

/// A primary, two replicas, and three Sentinels that know these servers and each other.
struct Watched {
    nodes: Vec<Node>,
    sentinels: Vec<Sentinel>,
}

impl Watched {
    fn start() -> Option<Watched> {
        let binary = tool("valkey-sentinel")?;
        let nodes: Vec<Node> = (0..3).map(|_| Node::start()).collect();
        for replica in &nodes[1..] {
            replica.client().check(&format!("REPLICAOF 127.0.0.1 {}", nodes[0].port), "+OK\r\n");
        }
        until("two replicas", || {
            let mut primary = nodes[0].client();
            let is_online = |client: &mut Client, name| client.info(name).contains("state=online");
            (primary.info("connected_slaves") == "2"
                && is_online(&mut primary, "slave0")
                && is_online(&mut primary, "slave1"))
            .then_some(())
        });
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::watch(&binary, nodes[0].port)).collect();
        let watched = Watched { nodes, sentinels };
        watched.until_known();
        Some(watched)
    }

    /// Waits until each Sentinel has found two replicas and the two other Sentinels.
    fn until_known(&self) {
        for sentinel in &self.sentinels {
            let mut client = sentinel.client();
            until("Sentinel to find everybody", || {
                let text = String::from_utf8(client.bulk("INFO sentinel")).unwrap();
                let is_known = text.contains("status=ok") && text.contains("slaves=2,sentinels=3");
                std::thread::sleep(Duration::from_millis(50));
                is_known.then_some(())
            });
        }
    }

    /// The port of the primary, as a Sentinel reports it to clients.
    fn primary_port(&self) -> u16 {
        told_primary(self.sentinels[0].port).unwrap()
    }

    fn node(&self, port: u16) -> &Node {
        self.nodes.iter().find(|node| node.port == port).unwrap()
    }

    /// Waits until the node follows that primary. Each check opens a new connection, because Sentinel closes
    /// the clients of a server whose role it changes.
    fn until_follows(&self, port: u16, primary: u16) {
        until("a replica of the new primary", || {
            std::thread::sleep(Duration::from_millis(50));
            follows(port, primary).then_some(())
        });
    }

    /// Waits until all nodes follow the primary that Sentinel reports; returns its port. On a machine that
    /// stalls, Sentinel may fail over once more in the meantime.
    fn settled(&self) -> u16 {
        until("one primary with two replicas", || {
            std::thread::sleep(Duration::from_millis(50));
            let primary = told_primary(self.sentinels[0].port).ok()?;
            let fits = |node: &Node| match node.port == primary {
                true => replication(primary).is_ok_and(|info| info.contains("role:master\r\n")),
                false => follows(node.port, primary),
            };
            self.nodes.iter().all(fits).then_some(primary)
        })
    }
}

/// Sends a command to a server; connection errors are returned to the caller.
fn ask(stream: &mut BufReader<TcpStream>, line: &str) -> io::Result<String> {
    stream.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
    read_line(stream)
}

fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut answer = String::new();
    if stream.read_line(&mut answer)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim_end().to_owned())
}

fn open(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    Ok(BufReader::new(stream))
}

/// Whether a server follows that primary, and its link is up.
fn follows(port: u16, primary: u16) -> bool {
    let lines = ["role:slave\r\n", &format!("master_port:{primary}\r\n"), "master_link_status:up\r\n"];
    replication(port).is_ok_and(|info| lines.iter().all(|line| info.contains(line)))
}

/// INFO replication of a server.
fn replication(port: u16) -> io::Result<String> {
    let mut stream = open(port)?;
    let header = ask(&mut stream, "INFO replication")?;
    let len: usize = header.trim_start_matches('$').parse().map_err(io::Error::other)?;
    let mut text = vec![0; len];
    stream.read_exact(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// The port of the primary that a Sentinel reports. The Sentinel's reply has a bulk string for the address,
/// and one for the port.
fn told_primary(sentinel: u16) -> io::Result<u16> {
    let mut stream = open(sentinel)?;
    ask(&mut stream, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"))?;
    for _ in 0..3 {
        read_line(&mut stream)?;
    }
    read_line(&mut stream)?.parse().map_err(io::Error::other)
}

/// A client that asks Sentinel for the primary, writes key after key, and records the keys that WAIT has
/// confirmed.
struct Load {
    stop: Arc<AtomicBool>,
    confirmed: Arc<AtomicU64>,
    thread: Option<JoinHandle<BTreeSet<u64>>>,
}

impl Load {
    /// Starts the client. WAIT must confirm each write for `replicas` replicas.
    fn start(sentinel: u16, replicas: usize) -> Load {
        let (stop, confirmed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (stop.clone(), confirmed.clone());
        let thread = std::thread::spawn(move || {
            let (mut kept, mut next) = (BTreeSet::new(), 0);
            while !is_over.load(Relaxed) {
                // After an error of any kind, the client asks Sentinel for the primary again.
                let _ = write_on((sentinel, replicas), &mut next, &mut kept, &is_over, &count);
                std::thread::sleep(Duration::from_millis(20));
            }
            kept
        });
        Load { stop, confirmed, thread: Some(thread) }
    }

    fn until_more(&self) {
        let before = self.confirmed.load(Relaxed);
        until("confirmed writes", || {
            std::thread::sleep(Duration::from_millis(5));
            (self.confirmed.load(Relaxed) > before + 200).then_some(())
        });
    }

    fn end(mut self) -> BTreeSet<u64> {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn write_on(
    (sentinel, wanted): (u16, usize),
    next: &mut u64,
    kept: &mut BTreeSet<u64>,
    is_over: &AtomicBool,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut stream = open(told_primary(sentinel)?)?;
    while !is_over.load(Relaxed) {
        *next += 1;
        if ask(&mut stream, &format!("SET key:{next} {next}"))? != "+OK" {
            return Err(io::ErrorKind::Other.into());
        }
        let replicas = ask(&mut stream, &format!("WAIT {wanted} 1000"))?;
        if replicas.trim_start_matches(':').parse().is_ok_and(|replicas: usize| replicas >= wanted) {
            kept.insert(*next);
            count.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// Checks that the server has every key of the set.
fn assert_kept(client: &mut Client, kept: &BTreeSet<u64>) {
    for key in kept {
        client.send(format!("GET key:{key}\r\n"));
        let header = client.line();
        assert_ne!(header, "$-1", "key:{key}, which WAIT has confirmed, is lost");
        assert_eq!(client.line(), key.to_string());
    }
}

fn until_same(a: &mut Client, b: &mut Client) {
    until("equal data", || {
        let [left, right] = [&mut *a, &mut *b].map(|client| client.send("DEBUG DIGEST\r\n").line());
        (left == right).then_some(())
    });
}

#[test]
fn a_primary_that_dies_is_replaced_and_no_confirmed_write_is_lost() {
    let Some(mut watched) = Watched::start() else { return };
    let old = watched.nodes[0].port;
    let load = Load::start(watched.sentinels[1].port, 1);
    load.until_more();
    watched.nodes[0].crash();
    let new = until("another primary", || {
        std::thread::sleep(Duration::from_millis(50));
        Some(watched.primary_port()).filter(|port| *port != old)
    });
    load.until_more();
    let other = watched.nodes[1..].iter().map(|node| node.port).find(|port| *port != new).unwrap();
    watched.until_follows(other, new);
    // The old primary restarts as a primary, and is then made a replica.
    watched.nodes[0].restart();
    watched.until_follows(old, new);
    load.until_more();
    let kept = load.end();
    let new = watched.settled();
    let mut primary = watched.node(new).client();
    assert_kept(&mut primary, &kept);
    for port in watched.nodes.iter().map(|node| node.port).filter(|port| *port != new) {
        until_same(&mut primary, &mut watched.node(port).client());
        let conf = watched.node(port).conf();
        assert!(conf.contains(&format!("replicaof 127.0.0.1 {new}")), "{conf}");
    }
    assert!(!watched.node(new).conf().contains("replicaof"), "{}", watched.node(new).conf());
}

#[test]
fn a_failover_by_command_under_load_loses_no_confirmed_write() {
    let Some(watched) = Watched::start() else { return };
    // Without COORDINATED the old primary continues for a while, with the other replica. Only writes that all
    // replicas have are then safe.
    let load = Load::start(watched.sentinels[0].port, 2);
    load.until_more();
    let mut primary = watched.primary_port();
    for how in ["", " COORDINATED"] {
        let mut sentinel = watched.sentinels[0].client();
        // A Sentinel that has just failed over waits before it does so again.
        let deadline = Instant::now() + DEADLINE;
        while sentinel.send(format!("SENTINEL FAILOVER {NAME}{how}\r\n")).line() != "+OK" {
            assert!(Instant::now() < deadline, "Sentinel does not fail over");
            std::thread::sleep(Duration::from_millis(200));
        }
        let new = until("another primary", || {
            std::thread::sleep(Duration::from_millis(50));
            Some(watched.primary_port()).filter(|port| *port != primary)
        });
        load.until_more();
        for node in watched.nodes.iter().filter(|node| node.port != new) {
            watched.until_follows(node.port, new);
        }
        if !how.is_empty() {
            let log = &watched.node(primary).server.log;
            assert!(log.wait("FAILOVER requested to 127.0.0.1").is_some(), "Sentinel has not asked for it");
        }
        primary = new;
        watched.until_known();
    }
    let kept = load.end();
    let primary = watched.settled();
    let mut client = watched.node(primary).client();
    assert_kept(&mut client, &kept);
    for node in watched.nodes.iter().filter(|node| node.port != primary) {
        until_same(&mut client, &mut node.client());
    }
}

#[test]
fn a_replica_of_priority_zero_is_not_promoted() {
    let Some(mut watched) = Watched::start() else { return };
    let [_, second, third] = [0, 1, 2].map(|i| watched.nodes[i].port);
    watched.node(second).client().check("CONFIG SET replica-priority 0", "+OK\r\n");
    let mut sentinel = watched.sentinels[0].client();
    until("the priority to be known", || {
        std::thread::sleep(Duration::from_millis(200));
        sentinel.send(format!("SENTINEL REPLICAS {NAME}\r\n"));
        let replicas: usize = sentinel.line()[1..].parse().unwrap();
        let mut priorities = Vec::new();
        for _ in 0..replicas {
            let words: usize = sentinel.line()[1..].parse().unwrap();
            let words: Vec<String> = (0..words)
                .map(|_| {
                    sentinel.line();
                    sentinel.line()
                })
                .collect();
            let at = words.iter().position(|word| word == "slave-priority").unwrap();
            priorities.push(words[at + 1].clone());
        }
        priorities.contains(&"0".to_owned()).then_some(())
    });
    watched.nodes[0].crash();
    until("another primary", || {
        std::thread::sleep(Duration::from_millis(50));
        Some(watched.primary_port()).filter(|port| *port == third)
    });
    watched.until_follows(second, third);
}

#[test]
fn the_command_line_client_plays_a_replica_and_fetches_a_snapshot() {
    let Some(cli) = tool("valkey-cli") else { return };
    let server = Server::start(&[]);
    let mut client = server.client();
    client.check("SET before 1", "+OK\r\n");
    let dir = Dir::new();
    let port = server.port.to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(&cli).args(["-p", &port]).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_fine, said) = run(&["--rdb", &dir.join("fetched.rdb")]);
    assert!(is_fine, "{said}");
    let folder = dir.join("");
    let loaded = Server::start(&["--dir", &folder, "--dbfilename", "fetched.rdb"]);
    loaded.client().check("GET before", "$1\r\n1\r\n");
    let mut replica = Command::new(&cli)
        .args(["-p", &port, "--replica"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the client as a replica", || (client.info("connected_slaves") == "1").then_some(()));
    client.check("SET behind 2", "+OK\r\n");
    let mut lines = BufReader::new(replica.stdout.take().unwrap()).lines();
    let written = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("\"behind\"")));
    assert!(written.is_some());
    replica.kill().unwrap();
    replica.wait().unwrap();
}

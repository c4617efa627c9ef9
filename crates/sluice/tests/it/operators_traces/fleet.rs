//! The servers and sentinels of a trace, and the execution of the trace.

use super::reads::Names;
use super::trace::{Step, Trace};
use crate::common::certificates::{Certificate, Offer, TlsClient, arguments};
use crate::common::{BINARY, Client, Dir, Server, free_port, request, until};
use sluice_resp::{Value, decode};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server or a sentinel.
struct Node {
    is_ours: bool,
    program: PathBuf,
    port: u16,
    bus: u16,
    dir: Dir,
    process: Option<Server>,
    connections: BTreeMap<String, Wire>,
}

/// A connection, with received bytes that are no complete reply yet.
struct Wire {
    transport: Transport,
    input: Vec<u8>,
}

enum Transport {
    Plain(Client),
    Tls(Box<TlsClient>),
}

impl Wire {
    fn open(port: u16, has_tls: bool) -> Wire {
        let transport = match has_tls {
            true => Transport::Tls(Box::new(TlsClient::open(port, &Offer::default()))),
            false => Transport::Plain(Client::to("127.0.0.1", port)),
        };
        Wire { transport, input: Vec::new() }
    }

    /// Sends a command and returns the reply; `None` if the connection ends.
    fn ask(&mut self, words: &[String]) -> Option<Value> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let bytes = request(&words);
        let sent = match &mut self.transport {
            Transport::Plain(client) => client.stream.write_all(&bytes),
            Transport::Tls(client) => {
                client.connection.writer().write_all(&bytes).unwrap();
                let flight = client.flight();
                client.socket.write_all(&flight)
            }
        };
        sent.ok()?;
        loop {
            while let Some((value, length)) = decode(&self.input).expect("a reply") {
                self.input.drain(..length);
                if !matches!(value, Value::Push(_)) {
                    return Some(value);
                }
            }
            let come = match &mut self.transport {
                Transport::Plain(client) => {
                    let mut chunk = vec![0; 64 * 1024];
                    let length = client.stream.read(&mut chunk).unwrap_or(0);
                    chunk.truncate(length);
                    chunk
                }
                Transport::Tls(client) => client.receive(1).unwrap_or_default(),
            };
            if come.is_empty() {
                return None;
            }
            self.input.extend(come);
        }
    }
}

/// All nodes of a run: servers first, sentinels last.
pub struct Fleet {
    nodes: Vec<Node>,
    servers: usize,
    has_cluster: bool,
    has_tls: bool,
    tools: PathBuf,
}

impl Fleet {
    /// Starts nodes that do not know each other, and waits until all of them listen.
    pub fn start(trace: &Trace, kinds: &str) -> Fleet {
        assert_eq!(kinds.len(), trace.nodes, "{kinds}");
        let peer = PathBuf::from(std::env::var_os("SLUICE_PEER_SERVER").unwrap());
        let tools = peer.parent().unwrap().to_owned();
        let (has_cluster, has_tls) = (trace.has_cluster, trace.has_tls);
        let mut fleet = Fleet { nodes: Vec::new(), servers: trace.nodes, has_cluster, has_tls, tools };
        for kind in kinds.chars() {
            let program = if kind == 'o' { PathBuf::from(BINARY) } else { peer.clone() };
            let node = Node::new(kind == 'o', program);
            node.dir.file("users.acl", &(trace.users.join("\n") + "\n"));
            fleet.nodes.push(node);
            fleet.configure(fleet.nodes.len() - 1, trace);
        }
        for _ in 0..trace.sentinels {
            let node = Node::new(false, fleet.tools.join("valkey-sentinel"));
            let text =
                format!("port {}\ndir {}\nsentinel resolve-hostnames no\n", node.port, node.dir.join(""));
            node.dir.file("node.conf", &text);
            fleet.nodes.push(node);
        }
        for at in 0..fleet.nodes.len() {
            fleet.nodes[at].run();
        }
        for at in 0..fleet.nodes.len() {
            fleet.wait_for(at);
        }
        fleet
    }

    fn configure(&self, at: usize, trace: &Trace) {
        let node = &self.nodes[at];
        let dir = node.dir.path().display().to_string();
        let mut lines =
            vec![format!("dir {dir}"), "save \"\"".to_owned(), "repl-diskless-sync-delay 0".to_owned()];
        if self.has_tls {
            lines.push("port 0".to_owned());
            let words = arguments(&node.dir, node.port, &Certificate::named("node"));
            lines.extend(words.chunks(2).map(|pair| format!("{} {}", &pair[0][2..], pair[1])));
        } else {
            lines.push(format!("port {}", node.port));
        }
        if self.has_cluster {
            lines.push(format!("cluster-enabled yes\ncluster-port {}", node.bus));
        }
        lines.extend(trace.directives.iter().map(|line| line.replace("{dir}", &dir)));
        node.dir.file("node.conf", &(lines.join("\n") + "\n"));
    }

    /// Waits until a node listens; a cluster node must also have saved its id.
    fn wait_for(&mut self, at: usize) {
        let node = &self.nodes[at];
        until("a node that listens", || TcpStream::connect(("127.0.0.1", node.port)).ok());
        if self.has_cluster && at < self.servers {
            until("an id", || node.id());
        }
    }

    /// Executes all steps; returns the results, each with the number of the step's line.
    pub fn play(mut self, trace: &Trace) -> Vec<String> {
        let mut read = Vec::new();
        for step in &trace.steps {
            if step.is_repeated {
                let mut last = String::new();
                let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    until("what a trace waits for", || match self.carry_out(step) {
                        Ok(values) => Some(values),
                        Err(wrong) => {
                            last = wrong;
                            None
                        }
                    })
                }));
                read.extend(found.unwrap_or_else(|_| panic!("line {}: {last}", step.line)));
            } else {
                // A restarted node may still be loading its primary's snapshot, so the command is tried
                // again, as an operator would do.
                let values = until("a node that has loaded", || match self.carry_out(step) {
                    Err(wrong) if wrong.contains("-LOADING") => None,
                    done => Some(done),
                });
                read.extend(values.unwrap_or_else(|wrong| panic!("line {}: {wrong}", step.line)));
            }
        }
        read
    }

    /// Executes one step on every node that the step concerns.
    fn carry_out(&mut self, step: &Step) -> Result<Vec<String>, String> {
        let (first, rest) = step.words.split_first().unwrap();
        let count = self.servers;
        match first.as_str() {
            "stop" => self.stop(self.at(&rest[0])),
            "kill" => {
                let at = self.at(&rest[0]);
                self.nodes[at].process = None;
            }
            "start" => {
                let at = self.at(&rest[0]);
                self.nodes[at].run();
                self.wait_for(at);
            }
            "move" => self.give_new_ports(self.at(&rest[0])),
            "cli" => return self.read(step, None, &self.cli(rest)),
            "all" => return self.ask_each((0..count).map(|at| (at, at)), step, rest),
            "pairs" => {
                let pairs = (0..count).flat_map(|at| (0..count).map(move |other| (at, other)));
                return self.ask_each(pairs.filter(|(at, other)| at != other), step, rest);
            }
            _ => {
                let (name, _) = first.split_once('@').unwrap_or((first, ""));
                let at = self.at(name);
                let reply = self.ask(at, first, rest, at);
                return self.read(step, Some(at), &reply);
            }
        }
        Ok(Vec::new())
    }

    fn ask_each(
        &mut self,
        pairs: impl Iterator<Item = (usize, usize)>,
        step: &Step,
        words: &[String],
    ) -> Result<Vec<String>, String> {
        let mut read = Vec::new();
        for (at, other) in pairs {
            let reply = self.ask(at, &(at + 1).to_string(), words, other);
            read.extend(self.read(step, Some(at), &reply)?);
        }
        Ok(read)
    }

    /// Sends a command on the connection with this name. The connection is opened when it is
    /// first used, and again if the server has closed it, because a sentinel closes the clients of a server
    /// whose role it changes.
    fn ask(&mut self, at: usize, connection: &str, words: &[String], other: usize) -> Value {
        let words: Vec<String> = words.iter().map(|word| self.fill(word, other)).collect();
        let has_tls = self.has_tls && at < self.servers;
        let node = &mut self.nodes[at];
        for _ in 0..2 {
            let port = node.port;
            let wire =
                node.connections.entry(connection.to_owned()).or_insert_with(|| Wire::open(port, has_tls));
            if let Some(reply) = wire.ask(&words) {
                return reply;
            }
            node.connections.remove(connection);
        }
        panic!("{words:?} at {}: the connection ends", at + 1);
    }

    fn read(&self, step: &Step, at: Option<usize>, reply: &Value) -> Result<Vec<String>, String> {
        let is_ours = at.is_some_and(|at| self.nodes[at].is_ours);
        let names = self.names();
        let of = |read: &super::reads::Read| {
            let value = read.of(reply, is_ours, &names);
            let who = at.map_or(String::new(), |at| format!(" at {}", at + 1));
            value
                .map(|value| format!("line {}{who}: {value}", step.line))
                .map_err(|wrong| format!("{:?}{who}: {wrong}", step.words))
        };
        step.reads.iter().map(of).collect()
    }

    fn cli(&self, words: &[String]) -> Value {
        let words: Vec<String> = words.iter().map(|word| self.fill(word, 0)).collect();
        let output = Command::new("timeout")
            .arg("30")
            .arg(self.tools.join("valkey-cli"))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Value::Bulk([output.stdout, output.stderr].concat())
    }

    fn stop(&mut self, at: usize) {
        // The connections are closed first, because a node that shuts down may wait until its clients have
        // disconnected.
        self.nodes[at].connections.clear();
        let mut process = self.nodes[at].process.take().unwrap();
        process.signal("TERM");
        assert!(process.wait().success(), "{}", process.log.all());
    }

    /// Gives new ports to a node that has ended, because a restarted container has a new address.
    fn give_new_ports(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let (port, bus) = (free_port(), free_port());
        let path = node.dir.path().join("node.conf");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(&format!("port {}", node.port), &format!("port {port}"));
        let text = text.replace(&format!("cluster-port {}", node.bus), &format!("cluster-port {bus}"));
        std::fs::write(&path, text).unwrap();
        (node.port, node.bus) = (port, bus);
    }

    fn at(&self, name: &str) -> usize {
        match name.strip_prefix('s') {
            Some(number) => self.servers + number.parse::<usize>().unwrap() - 1,
            None => name.parse::<usize>().unwrap() - 1,
        }
    }

    /// A word with the run's values in place of `{2.port}` and the like.
    fn fill(&self, word: &str, other: usize) -> String {
        let Some((before, rest)) = word.split_once('{') else { return word.to_owned() };
        let (inside, after) = rest.split_once('}').unwrap();
        let (who, what) = inside.split_once('.').unwrap();
        let node = &self.nodes[if who == "other" { other } else { self.at(who) }];
        let value = match what {
            "port" => node.port.to_string(),
            "bus" => node.bus.to_string(),
            "address" => format!("127.0.0.1:{}", node.port),
            "full" => format!("127.0.0.1:{}@{}", node.port, node.bus),
            "id" => node.id().unwrap(),
            "dir" => node.dir.path().display().to_string(),
            _ => panic!("{word}"),
        };
        format!("{before}{value}{}", self.fill(after, other))
    }

    fn names(&self) -> Names {
        let mut names = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let name =
                if at < self.servers { (at + 1).to_string() } else { format!("s{}", at + 1 - self.servers) };
            names.extend(node.id().filter(|_| self.has_cluster).map(|id| (id, format!("ID{name}"))));
            names.push((format!("127.0.0.1:{}@{}", node.port, node.bus), format!("ADDRESS{name}")));
            names.push((format!("127.0.0.1:{}", node.port), format!("ADDRESS{name}")));
            names.push((format!("@{}", node.bus), format!("@BUS{name}")));
            names.push((node.port.to_string(), format!("PORT{name}")));
            names.push((node.dir.path().display().to_string(), format!("DIR{name}")));
        }
        Names(names)
    }
}

impl Node {
    fn new(is_ours: bool, program: PathBuf) -> Node {
        let (port, bus, dir) = (free_port(), free_port(), Dir::new());
        Node { is_ours, program, port, bus, dir, process: None, connections: BTreeMap::new() }
    }

    fn run(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg(self.dir.join("node.conf"));
        self.process = Some(Server::spawn(command, self.port, Dir::new()));
    }

    /// The node's id, read from its `nodes.conf`.
    fn id(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.dir.path().join(Path::new("nodes.conf"))).ok()?;
        let line = text.lines().find(|line| line.contains("myself"))?;
        line.split(' ').next().map(str::to_owned)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = self.process.take().filter(|_| std::thread::panicking()) {
            println!("{}", process.log.so_far());
        }
    }
}

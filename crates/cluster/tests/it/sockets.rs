//! A node of ours on real sockets, in one thread: it sends and receives what its state machine orders, but
//! writes no file.

use sluice_base::Now;
use sluice_cluster::{
    BusLane, Cluster, ClusterAnswer, ClusterCommand, ClusterInput, ClusterOutput, ClusterSettings,
    DialMoment, LinkKey, OwnAddress, Ticket,
};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds between two ticks.
const CRON_MS: u64 = 100;
/// Milliseconds that a test waits for a condition.
const PATIENCE_MS: u64 = 30_000;

pub(crate) struct SocketNode {
    pub(crate) cluster: Cluster,
    pub(crate) bus_port: u16,
    listener: TcpListener,
    streams: HashMap<LinkKey, TcpStream>,
    start: Instant,
    next_cron: u64,
    tickets: u64,
    pub(crate) log: Vec<String>,
    /// All outputs except those for sockets, disk and log.
    pub(crate) seen: Vec<ClusterOutput>,
}

#[expect(clippy::disallowed_methods, reason = "a node on real sockets needs real time")]
fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a node on real sockets needs real time")]
fn unix_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

impl SocketNode {
    /// A new node at 127.0.0.1 with these settings, except for the port of the bus.
    pub(crate) fn start(settings: ClusterSettings, seed: u64) -> SocketNode {
        let bus_port = crate::reference::free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, bus_port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let announced = OwnAddress { bus_port, ..settings.announced.clone() };
        let settings = ClusterSettings { announced, ..settings };
        let start = instant();
        let cluster = Cluster::new(now(start), settings.into(), seed);
        let streams = HashMap::new();
        let (log, seen) = (Vec::new(), Vec::new());
        SocketNode { cluster, bus_port, listener, streams, start, next_cron: 0, tickets: 0, log, seen }
    }

    /// Sends a command that must be answered with OK.
    pub(crate) fn command(&mut self, command: ClusterCommand<'_>) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.step(&ClusterInput::Command { ticket, client: "test", command });
        let answer = self.seen.iter().find_map(|output| match output {
            ClusterOutput::Reply { to, answer } if *to == ticket => Some(answer.clone()),
            _ => None,
        });
        assert_eq!(answer, Some(ClusterAnswer::Ok));
    }

    pub(crate) fn step(&mut self, input: &ClusterInput<'_>) {
        self.cluster.step(now(self.start), input);
        self.carry_out();
    }

    /// Runs the node, and calls `is_done` ten times a second until it returns true. Panics after
    /// `PATIENCE_MS`.
    pub(crate) fn run_until(&mut self, what: &str, mut is_done: impl FnMut(&mut SocketNode) -> bool) {
        let end = self.ms() + PATIENCE_MS;
        loop {
            self.accept();
            self.receive();
            if self.ms() >= self.next_cron {
                self.next_cron = self.ms() + CRON_MS;
                self.step(&ClusterInput::Tick);
                if is_done(self) {
                    return;
                }
            }
            assert!(self.ms() < end, "{what}: ours has\n{}{:#?}", self.cluster.nodes_text(), self.log);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn accept(&mut self) {
        while let Ok((stream, peer)) = self.listener.accept() {
            let local = stream.local_addr().unwrap().ip();
            if let Some(link) = self.cluster.accept(now(self.start), peer.ip(), local) {
                self.keep(link, stream);
            }
        }
    }

    fn keep(&mut self, link: LinkKey, stream: TcpStream) {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        self.streams.insert(link, stream);
    }

    fn receive(&mut self) {
        let links: Vec<LinkKey> = self.streams.keys().copied().collect();
        let mut buffer = [0; 4_096];
        for link in links {
            while let Some(stream) = self.streams.get_mut(&link) {
                match stream.read(&mut buffer) {
                    Ok(0) => self.ended(link),
                    Ok(count) => self.step(&ClusterInput::ReceivedMessage { link, bytes: &buffer[..count] }),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => self.ended(link),
                }
            }
        }
    }

    fn ended(&mut self, link: LinkKey) {
        self.streams.remove(&link);
        self.step(&ClusterInput::Closed { link });
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.cluster.next_output() {
            match output {
                ClusterOutput::Dial { link, ip, port } => self.dial(link, ip.parse().unwrap(), port),
                ClusterOutput::Close { link } => {
                    self.streams.remove(&link);
                }
                ClusterOutput::Send { link, message, lane } => self.send(link, &message, lane),
                ClusterOutput::Persist { generation, .. } => {
                    self.cluster.step(now(self.start), &ClusterInput::Saved { generation });
                }
                ClusterOutput::Log(_, text) => self.log.push(text),
                other => self.seen.push(other),
            }
        }
    }

    fn dial(&mut self, link: LinkKey, ip: IpAddr, port: u16) {
        match TcpStream::connect_timeout(&(ip, port).into(), Duration::from_millis(500)) {
            Ok(stream) => {
                self.keep(link, stream);
                self.cluster.step(now(self.start), &ClusterInput::Connected { link });
            }
            Err(_) => {
                let input = ClusterInput::DialFailed { link, moment: DialMoment::Later };
                self.cluster.step(now(self.start), &input);
            }
        }
    }

    fn send(&mut self, link: LinkKey, mut message: &[u8], lane: BusLane) {
        let bytes = message.len();
        let Some(stream) = self.streams.get_mut(&link) else { return };
        while !message.is_empty() {
            match stream.write(message) {
                Ok(count) => message = &message[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The end of the connection is reported by its reading side.
                Err(_) => return,
            }
        }
        self.cluster.step(now(self.start), &ClusterInput::Sent { link, lane, bytes });
    }

    /// The fields of a node's line in this node's CLUSTER NODES.
    pub(crate) fn line(&self, id: &str) -> Option<Vec<String>> {
        let text = self.cluster.nodes_text();
        let line = text.lines().find(|line| line.starts_with(id))?;
        Some(line.split(' ').map(str::to_owned).collect())
    }
}

fn now(start: Instant) -> Now {
    Now { mono_ns: 1_000_000_000_000 + start.elapsed().as_nanos() as u64, unix_us: unix_us() }
}

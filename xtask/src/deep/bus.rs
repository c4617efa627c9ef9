//! Hostile packets on the buses of three cluster nodes: first from strangers, then in headers with the
//! nodes' own ids, which the bus does not authenticate.
//!
//! Invariants: (1) the seed determines the packets; (2) every node answers during and after the packets;
//! (3) packets of strangers do not change the nodes' views of each other, once handshakes that their MEETs
//! began have ended; (4) a node's memory grows by at most [`GROWTH_MAX`], whether its replies are read or
//! not; (5) a run in which a bus accepted too few packets fails, because it tested nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use sluice_base::Rng;

use crate::cluster::{Cluster, PRIMARIES, Replicas};
use crate::shell::{self, Ran};
use crate::{Result, binaries};

/// Number of packets in each of the two parts, for all nodes together.
const PACKETS: usize = 60_000;
/// Number of packets on one connection, unless the node closes it earlier.
const PACKETS_OF_CONNECTION: usize = 250;
/// Number of packets between two checks of a node's memory.
const PACKETS_BETWEEN_LOOKS: usize = 1_000;
/// Bytes by which `used_memory` of a node may grow.
const GROWTH_MAX: u64 = 10 << 20;
/// The share of its packets that each node must count as messages. The other packets are cut, or are sent
/// on a connection that the node closes because of an earlier packet.
const TAKEN_MIN_PERCENT: u64 = 25;
/// Maximum time for the node to read a packet.
const PATIENCE: Duration = Duration::from_secs(10);

const HEADER_LEN: usize = 2_256;
const ENTRY_LEN: usize = 104;
const ID_LEN: usize = 40;
/// Offsets of fields in the header (see `docs/formats/cluster-bus.md`).
const SENDER: usize = 40;
const EXTENSIONS: usize = 2_214;

/// Runs both parts against three nodes of `ours`, or of a release of the checked-out commit.
pub(super) fn run(ours: Option<&Path>, seed: u64) -> Result<Ran> {
    let binary = match ours {
        Some(ours) => std::path::absolute(ours)?,
        None => binaries::build_server()?.ok_or("there is no server to run")?,
    };
    let mut rng = Rng::new(seed);
    let mut faults = Vec::new();
    for part in [Part::Strangers, Part::OwnIds] {
        let mut cluster = Cluster::start(&binary, Replicas::None, &["--cluster-node-timeout", "5000"])?;
        let ids = cluster.ask_each(&["CLUSTER", "MYID"])?.into_iter().map(|id| id.text).collect();
        let scene = Scene {
            part,
            ids,
            before: memory(&cluster)?,
            views: views(&cluster)?,
            received: received(&cluster)?,
        };
        let began = shell::now();
        let looked = scene.play(&mut cluster, &mut rng);
        let took = shell::seconds(began.elapsed());
        match looked {
            Ok(Outcome { growth, written, taken }) => println!(
                "bus: {part:?}: {PACKETS} packets in {took}, {written} written, {taken} taken, \
                 memory grew by {growth} bytes at most"
            ),
            Err(fault) => faults.push(format!("  {part:?}: {fault}")),
        }
    }
    match faults.is_empty() {
        true => Ok(Ran::Passed),
        false => Err(format!("hostile packets did harm:\n{}", faults.join("\n")).into()),
    }
}

/// The ids under which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Strangers,
    OwnIds,
}

struct Scene {
    part: Part,
    ids: Vec<Vec<u8>>,
    /// `used_memory` of each node before the packets.
    before: Vec<u64>,
    views: Vec<Vec<String>>,
    /// Messages that each node had counted before the packets.
    received: Vec<u64>,
}

/// The result of one part.
struct Outcome {
    /// Maximum growth of a node's memory, bytes.
    growth: u64,
    /// Packets that were written to a connection that was open.
    written: usize,
    /// Messages that the nodes have counted.
    taken: u64,
}

impl Scene {
    fn play(&self, cluster: &mut Cluster, rng: &mut Rng) -> Result<Outcome> {
        let flooded = self.flood(cluster, rng);
        for node in &mut cluster.nodes {
            if !node.is_alive() {
                return Err(format!("a node ended:\n{}", node.log_tail()).into());
            }
        }
        let (growth, written) = flooded?;
        let least = PACKETS as u64 / PRIMARIES as u64 * TAKEN_MIN_PERCENT / 100;
        let mut taken = 0;
        for (at, (now, before)) in received(cluster)?.iter().zip(&self.received).enumerate() {
            let of_node = now.saturating_sub(*before);
            if of_node < least {
                return Err(format!("node {at} has taken {of_node} packets, and not {least}").into());
            }
            taken += of_node;
        }
        if self.part == Part::Strangers {
            cluster.until("what the nodes said before", |of| Ok(views(of)? == self.views))?;
        }
        if growth > GROWTH_MAX {
            return Err(format!("memory grew by {growth} bytes of {GROWTH_MAX}").into());
        }
        Ok(Outcome { growth, written, taken })
    }

    /// The maximum growth of a node's memory, and the number of packets that were written.
    fn flood(&self, cluster: &Cluster, rng: &mut Rng) -> Result<(u64, usize)> {
        let (mut growth, mut written) = (0, 0);
        for at in 0..PRIMARIES {
            let mut sender =
                Sender { bus: cluster.buses[at], stream: None, sent: 0, written: 0, reads: false };
            for number in 0..PACKETS / PRIMARIES {
                let packet = self.packet(rng);
                sender.send(&packet);
                if number % PACKETS_BETWEEN_LOOKS == 0 {
                    growth = growth.max(self.growth(cluster)?);
                }
            }
            written += sender.written;
        }
        Ok((growth.max(self.growth(cluster)?), written))
    }

    /// The growth of memory of the node that grew most.
    fn growth(&self, cluster: &Cluster) -> Result<u64> {
        let now = memory(cluster)?;
        Ok(now.iter().zip(&self.before).map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or(0))
    }

    /// A packet of a known type with some fields spoiled; one in eight is not spoiled.
    fn packet(&self, rng: &mut Rng) -> Packet {
        let sender = match self.part {
            Part::Strangers => id(rng),
            Part::OwnIds => self.ids[below(rng, self.ids.len())].clone(),
        };
        let mut bytes = self.whole(rng, &sender);
        let mut is_cut = false;
        match rng.below(8) {
            0 => {
                let length = odd_length(rng, bytes.len());
                put(&mut bytes, 4, &length.to_be_bytes());
            }
            1 => put(&mut bytes, 14, &(rng.next_u64() as u16).to_be_bytes()),
            2 => put(&mut bytes, 12, &odd_kind(rng).to_be_bytes()),
            3 => {
                bytes.truncate(below(rng, bytes.len()));
                is_cut = true;
            }
            4 => {
                for _ in 0..=rng.below(32) {
                    let at = below(rng, bytes.len());
                    bytes[at] = rng.next_u64() as u8;
                }
            }
            5 => put(&mut bytes, EXTENSIONS, &(rng.next_u64() as u16 % 64).to_be_bytes()),
            6 => {
                let at = 14 + below(rng, bytes.len() - 14);
                bytes[at..].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            }
            _ => {}
        }
        Packet { bytes, is_cut }
    }

    /// A whole message of a type, with its body.
    fn whole(&self, rng: &mut Rng, sender: &[u8]) -> Vec<u8> {
        let kind = rng.below(12) as u16;
        let mut bytes = header(rng, kind, sender);
        match kind {
            0..=2 => {
                let entries = below(rng, 12);
                put(&mut bytes, 14, &(entries as u16).to_be_bytes());
                for _ in 0..entries {
                    bytes.extend(self.entry(rng));
                }
                let extensions = below(rng, 6);
                put(&mut bytes, EXTENSIONS, &(extensions as u16).to_be_bytes());
                for _ in 0..extensions {
                    bytes.extend(extension(rng));
                }
            }
            3 => bytes.extend(self.any_id(rng)),
            4 | 10 => {
                let (channel, message) = (rng.below(64) as u32, rng.below(4_096) as u32);
                bytes.extend([channel.to_be_bytes(), message.to_be_bytes()].concat());
                bytes.extend(noise(rng, (channel + message) as usize));
            }
            7 => {
                bytes.extend(rng.below(100).to_be_bytes());
                bytes.extend(self.any_id(rng));
                bytes.extend(noise(rng, 2_048));
            }
            9 => {
                let length = rng.below(4_096) as u32;
                bytes.extend(rng.next_u64().to_be_bytes());
                bytes.extend(length.to_be_bytes());
                bytes.extend(noise(rng, 1 + length as usize));
            }
            _ => {}
        }
        let length = bytes.len() as u32;
        put(&mut bytes, 4, &length.to_be_bytes());
        bytes
    }

    /// A gossip entry, of a node of the cluster or of a node that does not exist.
    fn entry(&self, rng: &mut Rng) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_LEN];
        put(&mut entry, 0, &self.any_id(rng));
        put(&mut entry, 40, &(rng.next_u64() as u32).to_be_bytes());
        put(&mut entry, 44, &(rng.next_u64() as u32).to_be_bytes());
        put(&mut entry, 48, b"127.0.0.1");
        // No process listens on that port.
        put(&mut entry, 94, &1_u16.to_be_bytes());
        put(&mut entry, 96, &(1 + rng.below(20) as u16).to_be_bytes());
        put(&mut entry, 98, &(rng.next_u64() as u16).to_be_bytes());
        entry
    }

    fn any_id(&self, rng: &mut Rng) -> Vec<u8> {
        if rng.below(2) == 0 { id(rng) } else { self.ids[below(rng, self.ids.len())].clone() }
    }
}

struct Packet {
    bytes: Vec<u8>,
    /// Whether the packet was cut, so that no further packet can follow on the connection.
    is_cut: bool,
}

fn header(rng: &mut Rng, kind: u16, sender: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    put(&mut bytes, 0, b"RCmb");
    put(&mut bytes, 8, &1_u16.to_be_bytes());
    put(&mut bytes, 10, &1_u16.to_be_bytes());
    put(&mut bytes, 12, &kind.to_be_bytes());
    put(&mut bytes, 16, &rng.below(50).to_be_bytes());
    put(&mut bytes, 24, &rng.below(50).to_be_bytes());
    put(&mut bytes, 32, &rng.below(1_000).to_be_bytes());
    put(&mut bytes, SENDER, sender);
    if rng.below(4) == 0 {
        let slots = noise(rng, 2_048);
        put(&mut bytes, 80, &slots);
    }
    put(&mut bytes, 2_248, &(1 + rng.below(20) as u16).to_be_bytes());
    put(&mut bytes, 2_250, &(if rng.below(3) == 0 { rng.next_u64() as u16 } else { 0x1c11 }).to_be_bytes());
    bytes[2_253] = 4 | rng.below(8) as u8;
    bytes
}

/// An extension of a valid or invalid type, whose length is mostly right.
fn extension(rng: &mut Rng) -> Vec<u8> {
    let words = below(rng, 9);
    let payload = noise(rng, 8 * words);
    let length = if rng.below(4) == 0 { rng.next_u64() as u32 % 1_000 } else { 8 + payload.len() as u32 };
    let kind = rng.below(11) as u16;
    [&length.to_be_bytes()[..], &kind.to_be_bytes(), &[0, 0], &payload].concat()
}

fn odd_length(rng: &mut Rng, length: usize) -> u32 {
    let length = length as u32;
    match rng.below(6) {
        0 => rng.next_u64() as u32,
        1 => u32::MAX,
        2 => rng.below(u64::from(length)) as u32,
        3 => length + 1,
        4 => length + ENTRY_LEN as u32,
        _ => length - 1,
    }
}

fn odd_kind(rng: &mut Rng) -> u16 {
    match rng.below(3) {
        0 => rng.next_u64() as u16,
        1 => 0x8000 | rng.below(12) as u16,
        _ => rng.below(16) as u16,
    }
}

fn id(rng: &mut Rng) -> Vec<u8> {
    (0..ID_LEN).map(|_| b"0123456789abcdef"[below(rng, 16)]).collect()
}

fn noise(rng: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    rng.below(bound.max(1) as u64) as usize
}

/// Overwrites bytes at an offset.
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// A connection to a bus. It is opened again when the node closes it, when it has carried its number of
/// packets, and after a packet that was cut.
struct Sender {
    bus: u16,
    stream: Option<TcpStream>,
    sent: usize,
    /// Packets of all connections that were written completely.
    written: usize,
    /// Whether the node's replies are read; true for every second connection.
    reads: bool,
}

impl Sender {
    fn send(&mut self, packet: &Packet) {
        if self.sent >= PACKETS_OF_CONNECTION {
            self.stream = None;
        }
        if self.stream.is_none() {
            self.stream = connect(self.bus);
            (self.sent, self.reads) = (0, !self.reads);
        }
        self.sent += 1;
        let Some(stream) = &mut self.stream else { return };
        if stream.write_all(&packet.bytes).is_err() {
            self.stream = None;
            return;
        }
        self.written += 1;
        if packet.is_cut {
            self.stream = None;
        } else if self.reads {
            read_what_is_there(stream);
        }
    }
}

fn connect(bus: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", bus)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

fn read_what_is_there(stream: &mut TcpStream) {
    let mut buffer = [0; 65_536];
    if stream.set_nonblocking(true).is_ok() {
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
        let _closed = stream.set_nonblocking(false);
    }
}

/// `used_memory` of each node.
fn memory(cluster: &Cluster) -> Result<Vec<u64>> {
    numbers(cluster, &["INFO", "memory"], "used_memory:")
}

/// The number of messages that each node has counted, including those that it then dropped.
fn received(cluster: &Cluster) -> Result<Vec<u64>> {
    numbers(cluster, &["CLUSTER", "INFO"], "cluster_stats_messages_received:")
}

/// The number in a field of each node's reply.
fn numbers(cluster: &Cluster, words: &[&str], field: &str) -> Result<Vec<u64>> {
    let number = |text: String| {
        let value = text.lines().find_map(|line| line.strip_prefix(field));
        value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("an answer without {field}"))
    };
    let texts = cluster.ask_each(words)?;
    Ok(texts.into_iter().map(|text| number(text.string())).collect::<std::result::Result<_, _>>()?)
}

/// Each node's view of all nodes, without the times of their last messages.
fn views(cluster: &Cluster) -> Result<Vec<Vec<String>>> {
    let of = |text: String| {
        let line = |line: &str| {
            let fields = line.split(' ').enumerate().filter(|(at, _)| !matches!(at, 4 | 5));
            fields.map(|(_, field)| field).collect::<Vec<_>>().join(" ")
        };
        let mut lines: Vec<String> = text.lines().map(line).collect();
        lines.sort();
        lines
    };
    Ok(cluster.ask_each(&["CLUSTER", "NODES"])?.into_iter().map(|text| of(text.string())).collect())
}

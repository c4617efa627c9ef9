//! Costs of one node of a large cluster: of its cron, of the messages that it receives, and of its text
//! replies, for several numbers of nodes.
//!
//! `cargo bench -p sluice-micro --bench bus -- [NODES …]`. The node is only the state machine of
//! `sluice_cluster`: no socket, no other process. The bench writes the messages of the other nodes. A third
//! of the nodes are replicas. The bench prints, for each step, the median and the 90th percentile of its
//! time.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]
#![allow(clippy::redundant_closure, reason = "a constructor in its place is not general over lifetimes")]

use sluice_base::{LogLevel, Now, Rng};
use sluice_cluster::wire::{
    self, BusHeader, BusMessage, GossipBuffer, GossipEntry, MessageBody, MessageFlags, NodeFlags,
};
use sluice_cluster::{
    BITMAP_LEN, Cluster, ClusterEpoch, ClusterInput, ClusterOutput, ClusterSettings, Generation, HashSlot,
    LinkKey, NodeId, OwnAddress, SlotSet,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The value of `cluster-node-timeout`, ms.
const TIMEOUT_MS: u64 = 15_000;

fn main() {
    let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let mut sizes: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![100, 300, 1_000];
    }
    for size in sizes {
        println!("{size} nodes");
        Bench::new(size.clamp(12, 1_999)).run();
    }
}

/// The times of one step.
#[derive(Default)]
struct StepTimes {
    times: Vec<Duration>,
}

impl StepTimes {
    fn time<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = step();
        let time = began.elapsed();
        self.times.push(time);
        result
    }

    fn show(&mut self, what: &str) {
        self.times.sort();
        let (steps, us) = (self.times.len().max(1), |time: &Duration| time.as_secs_f64() * 1e6);
        let median = self.times.get(steps / 2).map_or(0.0, us);
        let slow = self.times.get(steps * 9 / 10).map_or(0.0, us);
        println!("  {what:<52} {median:>9.2} us (of ten one {slow:.2}), {steps} times");
    }
}

struct Bench {
    count: usize,
    primaries: usize,
    now_ms: u64,
    cluster: Cluster,
    rng: Rng,
    /// Dialled links, with the number of the node at the other end.
    out: BTreeMap<LinkKey, usize>,
    /// Links accepted from the other nodes, by the number of the node.
    accepted: Vec<Option<LinkKey>>,
}

fn ip_of(number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32 + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The id of a node: 40 random hexadecimal digits, as in real ids, but the same in every run for the same
/// number.
fn id_text(number: usize) -> String {
    let mut rng = Rng::new(number as u64);
    (0..40).map(|_| char::from(b"0123456789abcdef"[rng.below(16) as usize])).collect()
}

fn id_of(number: usize) -> NodeId {
    NodeId::parse(id_text(number).as_bytes()).expect("an id")
}

impl Bench {
    fn new(count: usize) -> Bench {
        let primaries = count - count / 3;
        let line = |number: usize| {
            let myself = if number == 0 { "myself," } else { "" };
            let primary = number.checked_sub(primaries).unwrap_or(number);
            let shard = id_text(1_000_000 + primary);
            let place = format!("{}:6379@16379,,tls-port=0,shard-id={shard}", ip_of(number));
            let (id, epoch) = (id_text(number), primary + 1);
            if primary != number {
                return format!("{id} {place} {myself}slave {} 0 0 {epoch} connected\n", id_text(primary));
            }
            let bound = |number: usize| number * 16_384 / primaries;
            let (first, last) = (bound(number), bound(number + 1) - 1);
            format!("{id} {place} {myself}master - 0 0 {epoch} connected {first}-{last}\n")
        };
        let lines: String = (0..count).map(line).collect();
        let file = format!("{lines}vars currentEpoch {count} lastVoteEpoch 0\n");
        let settings = Arc::new(ClusterSettings {
            node_timeout_ms: TIMEOUT_MS,
            announced: OwnAddress { tcp_port: 6_379, bus_port: 16_379, ..OwnAddress::default() },
            log_level: LogLevel::Warning,
            ..ClusterSettings::default()
        });
        let now_ms = 1_000_000;
        let local = [IpAddr::V4(ip_of(0))];
        let started = Cluster::start(now(now_ms), settings, 7, Some(file.as_bytes()), &local);
        Bench {
            count,
            primaries,
            now_ms,
            cluster: started.expect("a file of ours"),
            rng: Rng::new(7),
            out: BTreeMap::new(),
            accepted: vec![None; count],
        }
    }

    fn now(&self) -> Now {
        now(self.now_ms)
    }

    /// Carries out the requests of the node's state machine. Another node answers its PINGs if `answers` is
    /// true for the number of that node. Returns the number of new slot maps.
    fn drain(&mut self, answers: &dyn Fn(usize) -> bool) -> usize {
        let (mut maps, mut pongs, mut dialled) = (0, Vec::new(), Vec::new());
        loop {
            let Some(output) = self.cluster.next_output() else {
                let Some(generation) = dialled.pop() else { break };
                self.cluster.step(self.now(), &generation);
                continue;
            };
            match output {
                ClusterOutput::Dial { link, ip, .. } => {
                    let ip: Ipv4Addr = ip.parse().expect("an address");
                    let [.., high, low] = ip.octets();
                    self.out.insert(link, usize::from(u16::from_be_bytes([high, low])) - 1);
                    dialled.push(ClusterInput::Connected { link });
                }
                ClusterOutput::Send { link, message, lane } => {
                    self.cluster.step(self.now(), &ClusterInput::Sent { link, lane, bytes: message.len() });
                    if let Some(to) = self.out.get(&link)
                        && message[12..14] == [0, 0]
                        && answers(*to)
                    {
                        pongs.push((link, *to));
                    }
                }
                ClusterOutput::Persist { generation: Generation(number), .. } => {
                    dialled.push(ClusterInput::Saved { generation: Generation(number) });
                }
                ClusterOutput::Slots(_) => maps += 1,
                _ => {}
            }
        }
        for (link, from) in pongs {
            let bytes = self.message(from, |gossip| MessageBody::Pong(gossip), |_| NodeFlags(0));
            self.cluster.step(self.now(), &ClusterInput::ReceivedMessage { link, bytes: &bytes });
            maps += self.drain(&|_| false);
        }
        maps
    }

    /// A message of a node with gossip about a random tenth of the nodes (at least three), and about all
    /// nodes for which `opinion` returns a flag.
    fn message(
        &mut self,
        from: usize,
        body: impl for<'a> Fn(wire::Gossip<'a>) -> MessageBody<'a>,
        opinion: impl Fn(usize) -> NodeFlags,
    ) -> Vec<u8> {
        let mut told = GossipBuffer::new();
        let ids: Vec<usize> = (0..(self.count / 10).max(3))
            .map(|_| self.rng.below(self.count as u64) as usize)
            .filter(|number| opinion(*number) == NodeFlags(0))
            .chain((0..self.count).filter(|number| opinion(*number) != NodeFlags(0)))
            .collect();
        let wall_s = (now(self.now_ms).unix_ms() / 1_000) as u32;
        for number in ids {
            let ip = ip_of(number).to_string();
            let role = if number < self.primaries { NodeFlags::PRIMARY } else { NodeFlags::REPLICA };
            told.push(&GossipEntry {
                node: id_of(number),
                ping_sent_s: 0,
                pong_received_s: wall_s - 3,
                ip: &ip,
                port: 6_379,
                other_port: 0,
                bus_port: 16_379,
                flags: role | opinion(number),
            });
        }
        self.write(from, &body(told.gossip()))
    }

    fn write(&self, from: usize, body: &MessageBody<'_>) -> Vec<u8> {
        let primary = from.checked_sub(self.primaries).unwrap_or(from);
        let mut slots = SlotSet::EMPTY;
        let bound = |number: usize| number * 16_384 / self.primaries;
        for slot in bound(primary)..bound(primary + 1) {
            slots.insert(HashSlot::new(slot as u16).expect("a slot"));
        }
        let bitmap: &[u8; BITMAP_LEN] = slots.bitmap();
        let role = if primary == from { NodeFlags::PRIMARY } else { NodeFlags::REPLICA };
        let header = BusHeader {
            current_epoch: ClusterEpoch(self.count as u64),
            config_epoch: ClusterEpoch(primary as u64 + 1),
            offset: 1,
            sender: id_of(from),
            slots: bitmap,
            replica_of: (primary != from).then(|| id_of(primary)),
            ip: "",
            port: 6_379,
            other_port: 0,
            bus_port: 16_379,
            flags: role | NodeFlags::MYSELF | NodeFlags::EXTENSIONS | NodeFlags::MULTI_MEET,
            is_down: false,
            message_flags: MessageFlags { reads_extensions: true, ..MessageFlags::default() },
        };
        let mut bytes = Vec::new();
        wire::write(&BusMessage::Full(header, body.clone()), &mut bytes).expect("a message is short");
        bytes
    }

    /// Passes a message to the node's state machine on the sender's accepted link; `times` records the time
    /// of this step only.
    fn receive(&mut self, times: &mut StepTimes, from: usize, bytes: &[u8]) -> usize {
        let link = match self.accepted[from] {
            Some(link) => link,
            None => {
                let (peer, local) = (IpAddr::V4(ip_of(from)), IpAddr::V4(ip_of(0)));
                let link = self.cluster.accept(self.now(), peer, local).expect("room for links");
                *self.accepted[from].insert(link)
            }
        };
        let now = self.now();
        times.time(|| self.cluster.step(now, &ClusterInput::ReceivedMessage { link, bytes }));
        self.drain(&|_| true)
    }

    fn tick(&mut self, times: &mut StepTimes, answers: &dyn Fn(usize) -> bool) {
        self.now_ms += 100;
        let now = self.now();
        times.time(|| self.cluster.step(now, &ClusterInput::Tick));
        self.drain(answers);
    }

    fn run(mut self) {
        let mut ignored = StepTimes::default();
        self.drain(&|_| true);
        // The node connects to all others, and then receives a PING from each of them on an accepted link.
        for _ in 0..30 {
            self.tick(&mut ignored, &|_| true);
        }
        for from in 1..self.count {
            let bytes = self.message(from, |gossip| MessageBody::Ping(gossip), |_| NodeFlags(0));
            self.receive(&mut ignored, from, &bytes);
        }
        for _ in 0..100 {
            self.tick(&mut ignored, &|_| true);
        }
        let mut crons = StepTimes::default();
        for _ in 0..200 {
            self.tick(&mut crons, &|_| true);
        }
        crons.show("cron, with the PINGs that are due");
        let mut pings = StepTimes::default();
        let mut maps = 0;
        for turn in 0..2_000 {
            let from = 1 + turn % (self.count - 1);
            let bytes = self.message(from, |gossip| MessageBody::Ping(gossip), |_| NodeFlags(0));
            maps += self.receive(&mut pings, from, &bytes);
        }
        pings.show("PING that says nothing new, and its PONG");
        println!("  maps by these: {maps}");
        let mut texts = StepTimes::default();
        for _ in 0..50 {
            texts.time(|| self.cluster.nodes_text().len());
        }
        texts.show("text of CLUSTER NODES");
        let mut files = StepTimes::default();
        for _ in 0..50 {
            files.time(|| self.cluster.file_text().len());
        }
        files.show("text of nodes.conf");
        let mut infos = StepTimes::default();
        for _ in 0..50 {
            infos.time(|| self.cluster.info().known_nodes);
        }
        infos.show("numbers of CLUSTER INFO");
        self.lose();
    }

    /// Measures the failure of just under half of the primaries: they become silent, and the others report
    /// them.
    fn lose(mut self) {
        let dead = 1..self.primaries / 2;
        let is_dead = |number: usize| dead.contains(&number);
        let mut crons = StepTimes::default();
        let mut ignored = StepTimes::default();
        let wall = TIMEOUT_MS + 9_000;
        for round in 0..wall / 100 {
            let times = if round > 100 { &mut crons } else { &mut ignored };
            self.tick(times, &|number| !is_dead(number));
            // The living nodes continue to connect and to send.
            for _ in 0..self.count / 50 + 1 {
                let from = self.primaries + self.rng.below((self.count - self.primaries) as u64) as usize;
                let bytes = self.message(from, |gossip| MessageBody::Ping(gossip), |_| NodeFlags(0));
                self.receive(&mut ignored, from, &bytes);
            }
        }
        crons.show("cron while the dead are suspected");
        let opinion = |number: usize| if is_dead(number) { NodeFlags::PFAIL } else { NodeFlags(0) };
        let (mut first, mut again) = (StepTimes::default(), StepTimes::default());
        // Two thirds of the living voters report the dead nodes, which is no majority of all voters.
        let voters: Vec<usize> = (1..self.primaries).filter(|number| !is_dead(*number)).collect();
        for round in 0..2 {
            for from in voters.iter().take(voters.len() * 2 / 3) {
                let bytes = self.message(*from, |gossip| MessageBody::Ping(gossip), opinion);
                self.receive(if round == 0 { &mut first } else { &mut again }, *from, &bytes);
            }
        }
        first.show("PING of a voter that suspects half of the primaries");
        again.show("the same voter's next PING");
        let mut fails = StepTimes::default();
        let mut maps = 0;
        for about in dead.clone() {
            let fail = self.write(self.primaries, &MessageBody::Fail(id_of(about)));
            maps += self.receive(&mut fails, self.primaries, &fail);
        }
        fails.show("FAIL of a primary");
        println!("  maps by {} of these: {maps}", fails.times.len());
    }
}

fn now(now_ms: u64) -> Now {
    Now { mono_ns: now_ms * 1_000_000, unix_us: 1_700_000_000_000_000 + now_ms as i64 * 1_000 }
}

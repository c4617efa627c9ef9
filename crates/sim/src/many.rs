//! Measures a healthy cluster of many nodes: the traffic of its bus, and the time that news takes.
//!
//! Every node is the state machine of the server, on a network without losses and with a delay of 1 ms. The
//! traffic is compared with the rules of the bus: each node pings every other node twice within
//! `cluster-node-timeout`, each ping is answered, and both messages carry gossip about a tenth of the nodes.

use sluice_base::{LogLevel, Now};
use sluice_cluster::{
    Cluster, ClusterCommand, ClusterInput, ClusterOutput, ClusterSettings, ClusterState, DialMoment,
    Generation, LinkKey, MapNode, NodeHealth, NodeId, OwnAddress, SlotMap, Ticket,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The figures of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManyFigures {
    /// Number of nodes, a third of them replicas.
    pub nodes: usize,
    /// Bytes that a node sends in a second, on average over all nodes.
    pub bytes_a_second: f64,
    /// Messages that a node sends in a second, on average over all nodes.
    pub messages_a_second: f64,
    /// Bytes that a node sends in a second by the rules of the bus.
    pub bytes_by_formula: f64,
    /// Milliseconds from MEET until every node knows a new node.
    pub known_after_ms: u64,
    /// Milliseconds from the death of a replica until every node considers it failed.
    pub failed_after_ms: u64,
    /// Number of primaries that die at one moment, later than the replica. Each of them has a replica, and a
    /// majority of primaries is left.
    pub halved: usize,
    /// Milliseconds from the death of these primaries until every node reports that all slots are served.
    pub served_after_ms: u64,
    /// Milliseconds from that report until all nodes agree on every node's role, shard, epoch, slots and
    /// failure.
    pub agreed_after_ms: u64,
}

/// `cluster-node-timeout` of the measured cluster, ms.
const TIMEOUT_MS: u64 = 15_000;
/// Time for the nodes to connect to each other, ms.
const CONNECT_MS: u64 = 12_000;
/// Duration of the measurement, in which all pings of half a timeout are sent, ms.
const MEASURE_MS: u64 = TIMEOUT_MS / 2;
/// Time after which news counts as lost, ms.
const NEWS_MS: u64 = 4 * TIMEOUT_MS;
/// Time after which agreement counts as missed, ms. By then every node has received messages of every other.
const AGREED_MS: u64 = 2 * TIMEOUT_MS;
/// Time after which the slots of many dead primaries count as lost. It is long because replicas start
/// elections one after another, 500 ms apart, and a second time after four timeouts.
const SERVED_MS: u64 = 24 * TIMEOUT_MS;
/// Delay of a message, ms.
const DELAY_MS: u64 = 1;
/// Duration of a write of `nodes.conf`, ms.
const DISK_MS: u64 = 5;
/// Bytes of a message's header. The next two constants are the bytes of a gossip entry and of the
/// extensions.
const HEADER_BYTES: f64 = 2_256.0;
const GOSSIP_BYTES: f64 = 104.0;
const EXTENSION_BYTES: f64 = 48.0;

struct ManyNode {
    cluster: Cluster,
    ip: Ipv4Addr,
    is_alive: bool,
    /// Whether the node's outputs are being carried out; outputs that this causes are carried out after them.
    is_draining: bool,
    /// The other ends of the node's connections.
    peers: BTreeMap<LinkKey, (usize, LinkKey)>,
    /// The last map that the node has given out.
    map: Option<Arc<SlotMap>>,
}

struct OnTheWay {
    at_ms: u64,
    from: (usize, LinkKey),
    to: (usize, LinkKey),
    message: Arc<[u8]>,
}

struct ManyNodes<'a> {
    nodes: Vec<ManyNode>,
    now_ms: u64,
    /// The phase of the measurement, and the time at which it began.
    phase: (&'static str, u64),
    /// Receives the progress of the measurement, which takes minutes in a large cluster.
    say: &'a mut dyn FnMut(&str),
    wire: VecDeque<OnTheWay>,
    /// Writes of `nodes.conf`: time of the end, node, and generation.
    disks: VecDeque<(u64, usize, Generation)>,
    /// Numbers of messages and bytes that were sent since the last reset of these counts.
    sent: (u64, u64),
    /// Number of all messages since the start.
    messages: u64,
}

/// Builds a cluster of `count` nodes, at least 4 and at most 1,999 (a node knows up to 2,000), and measures
/// it. `say` receives each figure as soon as it is known, and the progress once in a simulated second.
///
/// # Errors
/// A node that did not receive the news; missing connections; nodes that do not agree.
pub fn run_many(count: usize, seed: u64, mut say: impl FnMut(&str)) -> Result<ManyFigures, String> {
    let mut world = ManyNodes::new(count, seed, &mut say);
    world.begin("connecting");
    world.pass(CONNECT_MS);
    world.are_connected()?;
    world.agreement()?;
    world.begin("measuring");
    world.sent = (0, 0);
    world.pass(MEASURE_MS);
    let per_node_second = |total: u64| total as f64 * 1_000.0 / (MEASURE_MS as f64 * count as f64);
    let (messages, bytes) = world.sent;
    (world.say)(&format!("{count} nodes, each in a second: {} bytes", per_node_second(bytes)));
    let known_after_ms = world.meet_another(seed)?;
    (world.say)(&format!("a new node is known to all after {known_after_ms} ms"));
    world.agree()?;
    let failed_after_ms = world.lose(count - 1)?;
    (world.say)(&format!("a dead one has failed for all after {failed_after_ms} ms"));
    world.agree()?;
    let (halved, served_after_ms) = world.halve(count)?;
    (world.say)(&format!("the slots of {halved} primaries are served after {served_after_ms} ms"));
    let agreed_after_ms = world.agree()?;
    (world.say)(&format!("all nodes agree {agreed_after_ms} ms later"));
    let told = (count / 10).max(3) as f64;
    let message_bytes = HEADER_BYTES + GOSSIP_BYTES * told + EXTENSION_BYTES;
    let messages_by_formula = 2.0 * 2.0 * (count - 1) as f64 * 1_000.0 / TIMEOUT_MS as f64;
    Ok(ManyFigures {
        nodes: count,
        bytes_a_second: per_node_second(bytes),
        messages_a_second: per_node_second(messages),
        bytes_by_formula: messages_by_formula * message_bytes,
        known_after_ms,
        failed_after_ms,
        halved,
        served_after_ms,
        agreed_after_ms,
    })
}

fn settings() -> Arc<ClusterSettings> {
    Arc::new(ClusterSettings {
        node_timeout_ms: TIMEOUT_MS,
        announced: OwnAddress { tcp_port: 6_379, bus_port: 16_379, ..OwnAddress::default() },
        log_level: LogLevel::Warning,
        ..ClusterSettings::default()
    })
}

fn ip_of(number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32 + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The file of node `me`, which knows all others. Replicas are the last third, one for each of
/// the first primaries.
fn file_of(me: usize, count: usize) -> String {
    let primaries = count - count / 3;
    let line = |number: usize| {
        let myself = if number == me { "myself," } else { "" };
        let id = number + 1;
        // The files have the nodes' shards, because without them each node would write its file again for
        // every other node from which it learns a shard.
        let primary = number.checked_sub(primaries).unwrap_or(number) + 1;
        let place = format!("{}:6379@16379,,tls-port=0,shard-id={:040x}", ip_of(number), 5_000 + primary);
        if primary == id {
            let bound = |number: usize| number * 16_384 / primaries;
            let (first, last) = (bound(number), bound(number + 1) - 1);
            format!("{id:040x} {place} {myself}master - 0 0 {id} connected {first}-{last}\n")
        } else {
            format!("{id:040x} {place} {myself}slave {primary:040x} 0 0 {primary} connected\n")
        }
    };
    let lines: String = (0..count).map(line).collect();
    format!("{lines}vars currentEpoch {count} lastVoteEpoch 0\n")
}

impl<'a> ManyNodes<'a> {
    fn new(count: usize, seed: u64, say: &'a mut dyn FnMut(&str)) -> ManyNodes<'a> {
        let mut world = ManyNodes {
            nodes: Vec::with_capacity(count + 1),
            now_ms: 1_000_000,
            phase: ("starting", 1_000_000),
            say,
            wire: VecDeque::new(),
            disks: VecDeque::new(),
            sent: (0, 0),
            messages: 0,
        };
        let settings = settings();
        for number in 0..count {
            let file = file_of(number, count);
            let seed = seed.wrapping_add(number as u64);
            let local = [IpAddr::V4(ip_of(number))];
            let started = Cluster::start(world.now(), settings.clone(), seed, Some(file.as_bytes()), &local);
            world.add(started.expect("a file of ours"));
        }
        // Every node gives out its first map.
        for number in 0..count {
            world.drain(number);
        }
        world
    }

    /// Begins a phase of the measurement.
    fn begin(&mut self, phase: &'static str) {
        self.phase = (phase, self.now_ms);
        (self.say)(phase);
    }

    fn add(&mut self, cluster: Cluster) {
        let ip = ip_of(self.nodes.len());
        self.nodes.push(ManyNode {
            cluster,
            ip,
            is_alive: true,
            is_draining: false,
            peers: BTreeMap::new(),
            map: None,
        });
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.now_ms * 1_000_000, unix_us: 1_700_000_000_000_000 + self.now_ms as i64 * 1_000 }
    }

    /// Advances the time. The ticks of the nodes are spread over 100 ms.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            let (phase, since_ms) = self.phase;
            if (self.now_ms - since_ms).is_multiple_of(1_000) {
                let (after_s, messages) = ((self.now_ms - since_ms) / 1_000, self.messages);
                (self.say)(&format!("{phase}: {after_s} s, {messages} messages so far"));
            }
            for number in 0..self.nodes.len() {
                if (self.now_ms + number as u64 * 37).is_multiple_of(100) {
                    self.step(number, &ClusterInput::Tick);
                }
            }
            let count = self.wire.iter().take_while(|next| next.at_ms <= self.now_ms).count();
            let mut arrived: Vec<OnTheWay> = self.wire.drain(..count).collect();
            // The messages that a node receives in one millisecond are handled together, as in a process of
            // its own, because the tables of 1,000 nodes do not fit into a cache, but those of one node do.
            arrived.sort_by_key(|next| next.to.0);
            arrived.iter().for_each(|next| self.deliver(next));
            while let Some((_, number, generation)) = self.disks.pop_front_if(|next| next.0 <= self.now_ms) {
                self.step(number, &ClusterInput::Saved { generation });
            }
            // All messages of one millisecond form one event loop iteration.
            for number in 0..self.nodes.len() {
                if self.nodes[number].cluster.awaits_iteration_end() {
                    self.step(number, &ClusterInput::IterationEnd);
                }
            }
        }
    }

    fn deliver(&mut self, next: &OnTheWay) {
        let (to, link) = next.to;
        if self.nodes[to].peers.get(&link) == Some(&next.from) {
            self.step(to, &ClusterInput::ReceivedMessage { link, bytes: &next.message });
        }
    }

    fn step(&mut self, number: usize, input: &ClusterInput<'_>) {
        if !self.nodes[number].is_alive {
            return;
        }
        let now = self.now();
        self.nodes[number].cluster.step(now, input);
        self.drain(number);
    }

    /// Carries out a node's outputs. A step that an output causes adds to the outputs, and calls this
    /// function again. Without `is_draining`, three broadcasts to 1,000 nodes would overflow the stack by
    /// nested calls.
    fn drain(&mut self, number: usize) {
        if std::mem::replace(&mut self.nodes[number].is_draining, true) {
            return;
        }
        while let Some(output) = self.nodes[number].cluster.next_output() {
            self.carry_out(number, output);
        }
        self.nodes[number].is_draining = false;
    }

    fn carry_out(&mut self, number: usize, output: ClusterOutput) {
        match output {
            ClusterOutput::Dial { link, ip, .. } => self.dial(number, link, &ip),
            ClusterOutput::Close { link } => {
                if let Some((other, theirs)) = self.nodes[number].peers.remove(&link) {
                    self.nodes[other].peers.remove(&theirs);
                    self.step(other, &ClusterInput::Closed { link: theirs });
                }
            }
            ClusterOutput::Send { link, message, lane } => {
                let bytes = message.len();
                self.sent = (self.sent.0 + 1, self.sent.1 + bytes as u64);
                self.messages += 1;
                if let Some(to) = self.nodes[number].peers.get(&link).copied() {
                    let at_ms = self.now_ms + DELAY_MS;
                    self.wire.push_back(OnTheWay { at_ms, from: (number, link), to, message });
                }
                self.step(number, &ClusterInput::Sent { link, lane, bytes });
            }
            ClusterOutput::Persist { generation, .. } => {
                self.disks.push_back((self.now_ms + DISK_MS, number, generation));
            }
            ClusterOutput::Slots(map) => self.nodes[number].map = Some(map),
            _ => {}
        }
    }

    fn dial(&mut self, number: usize, link: LinkKey, ip: &str) {
        let target = ip.parse().ok().and_then(|ip: Ipv4Addr| {
            let [.., high, low] = ip.octets();
            let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
            self.nodes.get(number)?.is_alive.then_some(number)
        });
        let now = self.now();
        let from = IpAddr::V4(self.nodes[number].ip);
        let accepted = target.and_then(|target| {
            let node = &mut self.nodes[target];
            Some((target, node.cluster.accept(now, from, IpAddr::V4(node.ip))?))
        });
        let Some((target, theirs)) = accepted else {
            return self.step(number, &ClusterInput::DialFailed { link, moment: DialMoment::AtOnce });
        };
        self.nodes[number].peers.insert(link, (target, theirs));
        self.nodes[target].peers.insert(theirs, (number, link));
        self.step(number, &ClusterInput::Connected { link });
    }

    /// Introduces a new node to the first one; returns the milliseconds until all nodes know it.
    fn meet_another(&mut self, seed: u64) -> Result<u64, String> {
        self.begin("a new node");
        let number = self.nodes.len();
        let cluster = Cluster::new(self.now(), settings(), seed ^ 0x9e37_79b9);
        let id = cluster.id();
        self.add(cluster);
        self.step(number, &ClusterInput::Tick);
        let ip = ip_of(number).to_string();
        let command = ClusterCommand::Meet { ip: &ip, port: 6_379, bus_port: Some(16_379) };
        self.step(0, &ClusterInput::Command { ticket: Ticket(1), client: "sim", command });
        self.until("a new node", |node| node.cluster.offset(&id).is_some())
    }

    /// Ends a node without a message; returns the milliseconds until all nodes consider it failed.
    fn lose(&mut self, number: usize) -> Result<u64, String> {
        self.begin("a death");
        let dead = self.nodes[number].cluster.id();
        self.end(number);
        self.until("a death", |node| node.seen(&dead).is_some_and(is_failed))
    }

    /// Ends, at one moment, as many of the first primaries as have a living replica and leave a majority.
    /// Returns their number, and the milliseconds until every node reports that all slots are served.
    fn halve(&mut self, count: usize) -> Result<(usize, u64), String> {
        let (replicas, primaries) = (count / 3, count - count / 3);
        // All replicas but one can take over, because the last replica is already dead.
        let halved = (replicas - 1).min((primaries - 1) / 2);
        self.begin("half of the primaries");
        let at = Some(self.now_ms);
        for replica in primaries..count {
            self.step(replica, &ClusterInput::PrimaryContact { at });
            self.step(replica, &ClusterInput::Offset(1));
        }
        // In this time all other nodes receive the offsets.
        self.pass(TIMEOUT_MS);
        for number in 0..halved {
            self.end(number);
        }
        let is_served = |node: &ManyNode| {
            let info = node.cluster.info();
            info.state == ClusterState::Ok && info.slots.ok == 16_384
        };
        // One timeout is passed before the check, because all nodes report that all slots are served until
        // they notice the failure.
        self.pass(TIMEOUT_MS);
        Ok((halved, TIMEOUT_MS + self.until_within(SERVED_MS - TIMEOUT_MS, "successors", is_served)?))
    }

    /// Ends a process without a message, and its connections with it.
    fn end(&mut self, number: usize) {
        self.nodes[number].is_alive = false;
        for (other, theirs) in std::mem::take(&mut self.nodes[number].peers).into_values() {
            self.nodes[other].peers.remove(&theirs);
            self.step(other, &ClusterInput::Closed { link: theirs });
        }
    }

    /// Checks that every node has two connections with each other one.
    fn are_connected(&self) -> Result<(), String> {
        for (number, node) in self.nodes.iter().enumerate() {
            let (links, wanted) = (node.cluster.links().count(), node.cluster.connections_wanted());
            if links != wanted || wanted != 2 * (self.nodes.len() - 1) {
                return Err(format!("node {number} has {links} connections with nodes, not {wanted}"));
            }
        }
        Ok(())
    }

    /// Waits until all nodes agree; returns how many milliseconds this took.
    fn agree(&mut self) -> Result<u64, String> {
        self.begin("agreeing");
        let since_ms = self.now_ms;
        loop {
            match self.agreement() {
                Ok(()) => return Ok(self.now_ms - since_ms),
                Err(why) if self.now_ms - since_ms >= AGREED_MS => return Err(why),
                Err(_) => self.pass(100),
            }
        }
    }

    /// Checks that all living nodes have the same view of every node and slot.
    fn agreement(&self) -> Result<(), String> {
        let living = self.nodes.iter().enumerate().filter(|(_, node)| node.is_alive);
        let mut maps = living.filter_map(|(number, node)| Some((number, node.map.as_deref()?)));
        let (first, of_first) = maps.next().ok_or("no node has a map")?;
        for (number, map) in maps {
            if let Some(why) = difference(of_first, map) {
                return Err(format!("nodes {first} and {number} do not agree: {why}"));
            }
        }
        let all = self.nodes.iter().filter(|node| node.is_alive).all(|node| node.map.is_some());
        if all { Ok(()) } else { Err("a node has no map".to_owned()) }
    }

    fn until(&mut self, what: &str, knows: impl Fn(&ManyNode) -> bool) -> Result<u64, String> {
        self.until_within(NEWS_MS, what, knows)
    }

    fn until_within(
        &mut self,
        most_ms: u64,
        what: &str,
        knows: impl Fn(&ManyNode) -> bool,
    ) -> Result<u64, String> {
        let since_ms = self.now_ms;
        while self.now_ms - since_ms < most_ms {
            self.pass(100);
            if self.nodes.iter().filter(|node| node.is_alive).all(&knows) {
                return Ok(self.now_ms - since_ms);
            }
        }
        let left = self.nodes.iter().filter(|node| node.is_alive && !knows(node)).count();
        Err(format!("{left} of {} nodes have not heard of {what} within {most_ms} ms", self.nodes.len()))
    }
}

impl ManyNode {
    /// The node with this id in this node's map.
    fn seen(&self, id: &NodeId) -> Option<&MapNode> {
        let nodes = &self.map.as_deref()?.nodes;
        nodes.binary_search_by_key(id, |node| node.id).ok().map(|at| &nodes[at])
    }
}

fn is_failed(node: &MapNode) -> bool {
    matches!(node.health, NodeHealth::Fail { .. })
}

/// The difference between two maps, if any. Suspicions and their times may differ, because each node
/// has its own.
fn difference(one: &SlotMap, other: &SlotMap) -> Option<String> {
    if one.state != other.state {
        return Some(format!("the state is {:?} or {:?}", one.state, other.state));
    }
    if one.nodes.len() != other.nodes.len() {
        return Some(format!("there are {} or {} nodes", one.nodes.len(), other.nodes.len()));
    }
    for (one, other) in one.nodes.iter().zip(&other.nodes) {
        let said = |node: &MapNode| {
            (node.id, node.shard, node.primary, is_failed(node), node.is_hidden, node.config_epoch)
        };
        if said(one) != said(other) {
            return Some(format!("{:?} or {:?}", said(one), said(other)));
        }
    }
    // The nodes of both maps are ordered by id, so that positions name the same nodes.
    let slot = one.owners.iter().zip(&other.owners).position(|(one, other)| one != other);
    slot.map(|slot| format!("slot {slot} has two owners"))
}

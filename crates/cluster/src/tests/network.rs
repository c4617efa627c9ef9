//! A simulated network of cluster state machines, with connections, disks and a clock in memory.

use crate::*;
use sluice_base::Now;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

/// The node timeout T of the tests.
pub(super) const TIMEOUT_MS: u64 = 3_000;

/// How a node's disk treats the write of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Writes,
    /// Writes wait until [`Network::write`].
    Stands,
    Fails,
}

/// The flag FORCEACK in a request for a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Force {
    Yes,
    No,
}

pub(super) struct Peer {
    pub(super) cluster: Cluster,
    pub(super) ip: Ipv4Addr,
    pub(super) settings: ClusterSettings,
    pub(super) disk: Disk,
    pub(super) is_alive: bool,
    pub(super) written: Vec<(Generation, String)>,
    pub(super) standing: Option<(Generation, String)>,
    /// All outputs except those for network, disk and log.
    pub(super) seen: Vec<ClusterOutput>,
    pub(super) log: Vec<String>,
    /// The type and the receiver of each message sent.
    pub(super) sent: Vec<(u16, usize)>,
    /// The length of each message sent, in the order of `sent`.
    pub(super) lengths: Vec<usize>,
    pub(super) dials: usize,
    /// Whether a command or script is still being executed, so that a pause of writes is not in force yet.
    pub(super) is_busy: bool,
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) peers: Vec<Peer>,
    pub(super) now_ms: u64,
    connections: BTreeMap<(usize, LinkKey), (usize, LinkKey)>,
    /// Pairs of sender and receiver between which nothing arrives.
    cuts: BTreeSet<(usize, usize)>,
    wire: VecDeque<((usize, LinkKey), (usize, LinkKey), std::sync::Arc<[u8]>)>,
    tickets: u64,
    pub(super) wall_offset_ms: i64,
}

pub(super) fn settings(ip: Ipv4Addr) -> ClusterSettings {
    ClusterSettings {
        node_timeout_ms: TIMEOUT_MS,
        ping_interval_ms: 100,
        announced: OwnAddress { tcp_port: 6_379, bus_port: 16_379, ..OwnAddress::default() },
        log_level: sluice_base::LogLevel::Debug,
        ..with_ip(ip)
    }
}

fn with_ip(_: Ipv4Addr) -> ClusterSettings {
    ClusterSettings::default()
}

/// The header of a primary at epoch 0 that claims `slots`; a test overwrites the fields that it is about.
pub(super) fn header_of(sender: NodeId, slots: &SlotSet) -> wire::BusHeader<'_> {
    wire::BusHeader {
        current_epoch: ClusterEpoch(0),
        config_epoch: ClusterEpoch(0),
        offset: 0,
        sender,
        slots: slots.bitmap(),
        replica_of: None,
        ip: "",
        port: 6_379,
        other_port: 0,
        bus_port: 16_379,
        flags: wire::NodeFlags(0x1C11),
        is_down: false,
        message_flags: wire::MessageFlags::default(),
    }
}

impl Network {
    /// `count` nodes that have just started and know no other.
    pub(super) fn of(count: usize) -> Network {
        let mut network = Network { now_ms: 1_000_000, ..Network::default() };
        for number in 0..count {
            network.add(Ipv4Addr::new(10, 0, 0, number as u8 + 1));
        }
        network
    }

    /// A cluster: `count` nodes that know each other; the first `primaries` of them share the slots. All have
    /// different epochs.
    pub(super) fn cluster(count: usize, primaries: usize) -> Network {
        let mut network = Network::of(count);
        for number in 0..count {
            let epoch = number as i64 + 1;
            assert_eq!(network.command(number, ClusterCommand::SetConfigEpoch { epoch }), ClusterAnswer::Ok);
        }
        for number in 0..primaries {
            let share = usize::from(SLOT_COUNT).div_ceil(primaries);
            let all: Vec<HashSlot> = (0..SLOT_COUNT).filter_map(HashSlot::new).collect();
            let slots = all.chunks(share).nth(number).unwrap();
            assert_eq!(network.command(number, ClusterCommand::AddSlots { slots }), ClusterAnswer::Ok);
        }
        for number in 1..count {
            network.meet(0, number);
        }
        network.run(4_000);
        network
    }

    /// Three voters; nodes 3 and 4 follow node 0, and have none of its data yet.
    pub(super) fn with_replicas() -> Network {
        let mut network = Network::cluster(5, 3);
        let node = network.id(0);
        for replica in [3, 4] {
            let command = ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No };
            assert_eq!(network.command(replica, command), ClusterAnswer::Ok);
        }
        network.run(1_000);
        network
    }

    pub(super) fn add(&mut self, ip: Ipv4Addr) -> usize {
        let number = self.peers.len();
        let settings = settings(ip);
        let cluster = Cluster::new(self.now(), settings.clone().into(), number as u64 + 1);
        self.peers.push(Peer {
            cluster,
            ip,
            settings,
            disk: Disk::Writes,
            is_alive: true,
            written: Vec::new(),
            standing: None,
            seen: Vec::new(),
            log: Vec::new(),
            sent: Vec::new(),
            lengths: Vec::new(),
            dials: 0,
            is_busy: false,
        });
        self.deliver();
        number
    }

    pub(super) fn now(&self) -> Now {
        Now {
            mono_ns: self.now_ms * 1_000_000,
            unix_us: 1_700_000_000_000_000 + (self.now_ms as i64 + self.wall_offset_ms) * 1_000,
        }
    }

    pub(super) fn id(&self, number: usize) -> NodeId {
        self.peers[number].cluster.id()
    }

    pub(super) fn meet(&mut self, from: usize, to: usize) {
        let ip = self.peers[to].ip.to_string();
        let command = ClusterCommand::Meet { ip: &ip, port: 6_379, bus_port: Some(16_379) };
        assert_eq!(self.command(from, command), ClusterAnswer::Ok);
    }

    /// Advances the time in steps of 100 ms, each with a tick of every living node. A last part of less than
    /// 100 ms is left out.
    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now_ms += 100;
            for number in 0..self.peers.len() {
                if self.peers[number].is_alive {
                    self.step(number, &ClusterInput::Tick);
                }
            }
            self.deliver();
        }
    }

    /// Passes one input to a node, in an event loop iteration of its own.
    pub(super) fn step(&mut self, number: usize, input: &ClusterInput<'_>) {
        self.step_within(number, input);
        if self.peers[number].cluster.awaits_iteration_end() {
            self.step_within(number, &ClusterInput::IterationEnd);
        }
    }

    /// Passes one input to a node, in an event loop iteration that continues.
    pub(super) fn step_within(&mut self, number: usize, input: &ClusterInput<'_>) {
        let now = self.now();
        self.peers[number].cluster.step(now, input);
    }

    /// Sends a command that is answered at once.
    pub(super) fn command(&mut self, number: usize, command: ClusterCommand<'_>) -> ClusterAnswer {
        self.ask(number, command).expect("an answer")
    }

    /// Sends a command, and returns the answer if there is one at once.
    pub(super) fn ask(&mut self, number: usize, command: ClusterCommand<'_>) -> Option<ClusterAnswer> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.step(number, &ClusterInput::Command { ticket, client: "test", command });
        self.deliver();
        self.answer(number, ticket)
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        Ticket(self.tickets)
    }

    pub(super) fn answer(&self, number: usize, ticket: Ticket) -> Option<ClusterAnswer> {
        self.peers[number].seen.iter().find_map(|output| match output {
            ClusterOutput::Reply { to, answer } if *to == ticket => Some(answer.clone()),
            _ => None,
        })
    }

    /// Completes the write that waits on a node's disk.
    pub(super) fn write(&mut self, number: usize) {
        if let Some((generation, file)) = self.peers[number].standing.take() {
            self.peers[number].written.push((generation, file));
            self.step(number, &ClusterInput::Saved { generation });
            self.deliver();
        }
    }

    /// Cuts two nodes off from each other; their connections stay open.
    pub(super) fn cut(&mut self, one: usize, other: usize) {
        self.cuts.insert((one, other));
        self.cuts.insert((other, one));
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Stops a node: its connections are lost, and dials to it are refused.
    pub(super) fn kill(&mut self, number: usize) {
        self.peers[number].is_alive = false;
        let broken = self.connections.iter().filter(|(one, _)| one.0 == number);
        let broken: Vec<_> = broken.map(|(one, other)| (*one, *other)).collect();
        self.connections.retain(|one, other| one.0 != number && other.0 != number);
        for ((one, key), (other, link)) in broken {
            self.step(other, &ClusterInput::Closed { link });
            self.step(one, &ClusterInput::Closed { link: key });
        }
        self.deliver();
    }

    /// Revives a killed node with its old state, at the address `ip`.
    pub(super) fn revive(&mut self, number: usize, ip: Ipv4Addr) {
        self.peers[number].is_alive = true;
        self.peers[number].ip = ip;
    }

    /// Sends a request of `from` for the vote of `to`, in `epoch`.
    pub(super) fn ask_for_vote(&mut self, from: usize, to: usize, epoch: u64, force: Force) {
        let m = &self.peers[from].cluster.machine;
        let primary = m.table.node(m.table.primary_of(m.table.my_ix()));
        let slots = primary.slots.clone();
        let header = wire::BusHeader {
            current_epoch: ClusterEpoch(epoch),
            config_epoch: primary.config_epoch,
            replica_of: Some(primary.id),
            flags: wire::NodeFlags(0x1C12),
            message_flags: wire::MessageFlags { force_ack: force == Force::Yes, ..Default::default() },
            ..header_of(self.id(from), &slots)
        };
        self.inject(from, to, &wire::BusMessage::Full(header, wire::MessageBody::AuthRequest));
    }

    /// Sends a vote of `from` for `to`, in `epoch`.
    pub(super) fn vote(&mut self, from: usize, to: usize, epoch: ClusterEpoch) {
        let m = &self.peers[from].cluster.machine;
        let slots = m.table.me().slots.clone();
        let header = wire::BusHeader {
            current_epoch: epoch,
            config_epoch: m.table.me().config_epoch,
            ..header_of(self.id(from), &slots)
        };
        self.inject(from, to, &wire::BusMessage::Full(header, wire::MessageBody::AuthAck));
    }

    /// Number of messages of a type that one node has sent to another.
    pub(super) fn sent(&self, from: usize, to: usize, kind: wire::MessageType) -> usize {
        self.peers[from].sent.iter().filter(|sent| **sent == (kind as u16, to)).count()
    }

    /// Makes a node take a slot of another node by a higher epoch, and runs the network for one second.
    pub(super) fn outbid(&mut self, number: usize, slot: HashSlot) {
        let m = &mut self.peers[number].cluster.machine;
        let my_ix = m.table.my_ix();
        m.table.unbind(slot);
        m.table.bind(slot, my_ix);
        self.command(number, ClusterCommand::BumpEpoch);
        self.run(1_000);
    }

    /// Makes a node take over from its primary, as the winner of an election does (E-55).
    pub(super) fn take_over(&mut self, number: usize) {
        let m = &mut self.peers[number].cluster.machine;
        let my_ix = m.table.my_ix();
        let old = m.table.me().primary().expect("a replica");
        let slots = m.table.node(old).slots.clone();
        m.table.make_primary(my_ix);
        for slot in slots.iter() {
            m.table.unbind(slot);
            m.table.bind(slot, my_ix);
        }
        m.epochs.current = m.epochs.current.next();
        m.table.me_mut().config_epoch = m.epochs.current;
        m.save();
        m.announce();
        m.reconsider();
        self.step(number, &ClusterInput::Offset(7));
        self.deliver();
    }

    /// Sends a message that the state machine of `from` has not made; the bytes arrive on a new connection of
    /// `from`.
    pub(super) fn inject(&mut self, from: usize, to: usize, message: &wire::BusMessage<'_>) {
        let mut bytes = Vec::new();
        wire::write(message, &mut bytes).unwrap();
        let now = self.now();
        let ip = IpAddr::V4(self.peers[from].ip);
        let local = IpAddr::V4(self.peers[to].ip);
        let link = self.peers[to].cluster.accept(now, ip, local).unwrap();
        for part in bytes.chunks(1_000) {
            self.step(to, &ClusterInput::ReceivedMessage { link, bytes: part });
        }
        self.deliver();
    }

    /// Carries out outputs until there are none.
    pub(super) fn deliver(&mut self) {
        for _ in 0..200_000 {
            let mut is_quiet = true;
            for number in 0..self.peers.len() {
                while let Some(output) = self.peers[number].cluster.next_output() {
                    is_quiet = false;
                    self.carry_out(number, output);
                }
            }
            if let Some((from, to, message)) = self.wire.pop_front() {
                is_quiet = false;
                let is_cut = self.cuts.contains(&(from.0, to.0)) || !self.peers[to.0].is_alive;
                if !is_cut && self.connections.get(&from) == Some(&to) {
                    self.step(to.0, &ClusterInput::ReceivedMessage { link: to.1, bytes: &message });
                }
            }
            if is_quiet {
                return;
            }
        }
        panic!("the nodes never come to rest");
    }

    fn carry_out(&mut self, number: usize, output: ClusterOutput) {
        match output {
            ClusterOutput::Dial { link, ip, .. } => self.dial(number, link, &ip),
            ClusterOutput::Close { link } => {
                if let Some((other, key)) = self.connections.remove(&(number, link)) {
                    self.connections.remove(&(other, key));
                    self.step(other, &ClusterInput::Closed { link: key });
                }
            }
            ClusterOutput::Send { link, message, lane } => {
                let bytes = message.len();
                if let Some(to) = self.connections.get(&(number, link)) {
                    let kind = u16::from_be_bytes([message[12], message[13]]);
                    self.peers[number].sent.push((kind, to.0));
                    self.peers[number].lengths.push(bytes);
                    self.wire.push_back(((number, link), *to, message));
                }
                self.step(number, &ClusterInput::Sent { link, lane, bytes });
            }
            ClusterOutput::Persist { generation, file } => {
                self.persist(number, generation, String::from_utf8_lossy(&file).into_owned())
            }
            ClusterOutput::Log(_, text) => self.peers[number].log.push(text),
            ClusterOutput::PauseWrites { .. } if !self.peers[number].is_busy => {
                self.peers[number].seen.push(output);
                self.pause(number);
            }
            other => self.peers[number].seen.push(other),
        }
    }

    /// Reports to a node that its writes are held back, at the present end of its replication stream.
    pub(super) fn pause(&mut self, number: usize) {
        let offset = self.peers[number].cluster.machine.table.me().offset;
        self.step(number, &ClusterInput::WritesPaused { offset });
    }

    fn dial(&mut self, number: usize, link: LinkKey, ip: &str) {
        self.peers[number].dials += 1;
        let target = self.peers.iter().position(|peer| peer.is_alive && peer.ip.to_string() == ip);
        let Some(target) = target.filter(|target| !self.cuts.contains(&(number, *target))) else {
            return self.step(number, &ClusterInput::DialFailed { link, moment: DialMoment::AtOnce });
        };
        let now = self.now();
        let (peer, local) = (IpAddr::V4(self.peers[number].ip), IpAddr::V4(self.peers[target].ip));
        let Some(key) = self.peers[target].cluster.accept(now, peer, local) else {
            return self.step(number, &ClusterInput::DialFailed { link, moment: DialMoment::Later });
        };
        self.connections.insert((number, link), (target, key));
        self.connections.insert((target, key), (number, link));
        self.step(number, &ClusterInput::Connected { link });
    }

    fn persist(&mut self, number: usize, generation: Generation, file: String) {
        match self.peers[number].disk {
            Disk::Writes => {
                self.peers[number].written.push((generation, file));
                self.step(number, &ClusterInput::Saved { generation });
            }
            Disk::Stands => {
                assert!(self.peers[number].standing.is_none(), "S-7: two writes at once");
                self.peers[number].standing = Some((generation, file));
            }
            Disk::Fails => self.step(number, &ClusterInput::SaveFailed { generation }),
        }
    }

    /// The fields of the line about `other` in CLUSTER NODES of `one`.
    pub(super) fn line(&self, one: usize, other: usize) -> Option<Vec<String>> {
        let id = self.id(other).to_string();
        let text = self.peers[one].cluster.nodes_text();
        let line = text.lines().find(|line| line.starts_with(&id))?;
        Some(line.split(' ').map(str::to_owned).collect())
    }

    /// The flags of `other` in CLUSTER NODES of `one`.
    pub(super) fn flags(&self, one: usize, other: usize) -> String {
        self.line(one, other).map(|line| line[2].clone()).unwrap_or_default()
    }

    pub(super) fn knows(&self, one: usize, other: usize) -> bool {
        self.line(one, other).is_some()
    }

    pub(super) fn has_logged(&self, number: usize, text: &str) -> bool {
        self.peers[number].log.iter().any(|line| line.contains(text))
    }

    pub(super) fn configure(&mut self, number: usize, change: impl FnOnce(&mut ClusterSettings)) {
        change(&mut self.peers[number].settings);
        let settings = self.peers[number].settings.clone().into();
        self.step(number, &ClusterInput::Settings(&settings));
        self.deliver();
    }
}

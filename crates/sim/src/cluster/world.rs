//! Hosts, network and disks in virtual time: events in their order, and the requests of nodes.

use crate::cluster::act::{Act, File, Link, Order};
use crate::cluster::clock::{HostClock, MS};
use crate::cluster::disk::HostDisk;
use crate::cluster::host::{Host, Model, OwnWord};
use crate::cluster::ledger::Ledger;
use crate::cluster::looks::Looks;
use crate::cluster::met::ClusterMet;
use crate::cluster::net::{Delays, End, Found, Net};
use crate::cluster::plan::{HostPlan, Plan, Season};
use crate::cluster::queue::{ConnId, Event, HostId, Queue};
use crate::cluster::stock::StockSettings;
use sluice_base::Rng;
use sluice_cluster::{
    ClusterInput, ClusterSettings, Generation, NodeId, NodeLabels, OwnAddress, ReplicaRules, SaveBehavior,
    SavedRole, SlotSet,
};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The state of a run: hosts, network, events and checks.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) is_traced: bool,
    pub(super) rng: Rng,
    pub(super) now_ns: u64,
    pub(super) queue: Queue,
    pub(super) net: Net,
    pub(super) hosts: Vec<Host>,
    pub(super) ledger: Ledger,
    pub(super) looks: Looks,
    pub(super) met: ClusterMet,
    pub(super) tickets: u64,
    pub(super) answers: BTreeMap<u64, Result<String, String>>,
    /// Whether faults are caused at random.
    pub(super) is_stormy: bool,
}

/// Time at the beginning of a run, ns.
const START_NS: u64 = 1_000_000 * MS;

/// The type of a vote on the wire.
const VOTE: usize = 6;

impl World {
    pub(super) fn new(plan: Plan, seed: u64, is_traced: bool) -> World {
        let mut rng = Rng::new(seed ^ 0xC1_0575);
        let mut hosts = Vec::new();
        for (number, host) in plan.hosts.iter().enumerate() {
            hosts.push(new_host(&plan, host, number));
        }
        let mut world = World {
            is_traced,
            rng: Rng::new(rng.next_u64()),
            now_ns: START_NS,
            queue: Queue::default(),
            net: Net::default(),
            hosts,
            ledger: Ledger::default(),
            looks: Looks::default(),
            met: ClusterMet::default(),
            tickets: 0,
            answers: BTreeMap::new(),
            is_stormy: false,
            plan,
        };
        // A cluster is built without losses, because a message that is lost during the construction would
        // have to be repeated by an operator.
        world.net.delays = match world.plan.season {
            Season::Storm => Delays { late_one_in: 0, slow_one_in: 0, ..world.plan.delays },
            _ => world.plan.delays,
        };
        world.trace(|| format!("{:?}", world.plan));
        for number in 0..world.hosts.len() {
            let at_ns = world.now_ns + world.rng.below(200) * MS;
            world.queue.push(at_ns, Event::Start(number));
        }
        world.queue.push(world.now_ns, Event::Look);
        world
    }

    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{:>9.3} {}", (self.now_ns - START_NS) as f64 / 1e9, text());
        }
    }

    /// Prints each node's view of each other node.
    pub(super) fn show_views(&self) {
        for (number, host) in self.hosts.iter().enumerate() {
            let Some(view) = host.view() else { continue };
            let (epoch, state) = (view.current_epoch, if view.is_ok { "ok" } else { "fail" });
            self.trace(|| format!("node {number}, {}, holds at epoch {epoch}, {state}:", host.ip));
            for (id, node) in &view.nodes {
                let links = (node.has_link_out, node.has_link_in);
                self.trace(|| {
                    format!(
                        "  {id} {:?} at {} with {:?}, {:?}, links {links:?}{}",
                        node.role,
                        node.epoch,
                        node.slots,
                        node.opinion,
                        if node.is_nowhere { ", no address" } else { "" }
                    )
                });
            }
        }
    }

    /// Handles the events of the next `ms` milliseconds.
    pub(super) fn run(&mut self, ms: u64) -> Result<(), String> {
        let until_ns = self.now_ns + ms * MS;
        while let Some((at_ns, event)) = self.queue.pop(until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.happen(event)?;
        }
        self.now_ns = until_ns;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        if let Some(host) = self.frozen_host(&event) {
            let host_state = &mut self.hosts[host];
            if host_state.waiting.is_empty() {
                host_state.stands_since_ns = self.now_ns;
                self.queue.push(host_state.frozen_ns, Event::Thaw(host));
            }
            host_state.waiting.push(event);
            return Ok(());
        }
        match event {
            Event::Tick(host, boot) if self.is_running(host, boot) => self.tick(host),
            Event::Wake(host, boot) if self.is_running(host, boot) => {
                self.step(host, |host, now| host.input(now, &ClusterInput::Deadline))
            }
            Event::IterationEnd(host, boot) if self.is_running(host, boot) => {
                self.hosts[host].ends_iteration = false;
                self.step(host, |host, now| host.input(now, &ClusterInput::IterationEnd))
            }
            Event::Tick(..) | Event::Wake(..) | Event::IterationEnd(..) => Ok(()),
            Event::Pipe(conn, side) => self.arrive(conn, side),
            Event::Dial(conn) => self.dial(conn),
            Event::Accept(conn) => self.accept(conn),
            Event::Made(conn) => self.made(conn),
            Event::DialFailed(conn, at_once) => self.dial_failed(conn, at_once),
            Event::Disk(host, boot, generation) => self.written(host, boot, generation),
            Event::Resolved(host, boot, node, name) => self.resolved(host, boot, node, &name),
            Event::Start(host) => self.start(host),
            Event::Look => self.look(),
            Event::Fault => self.fault(),
            Event::Mend(one, other) => {
                let is_mended = |from, to| {
                    (from == one && other.is_none_or(|other| other == to)) || (other.is_none() && to == one)
                };
                self.net.mend(is_mended, self.now_ns, &mut self.queue);
                Ok(())
            }
            Event::DiskHeals(host) => {
                self.hosts[host].disk.is_full = false;
                Ok(())
            }
            Event::Thaw(host) => self.thaw(host),
        }
    }

    /// Handles the events that waited for a suspended process, unless the suspension has been extended.
    pub(super) fn thaw(&mut self, number: HostId) -> Result<(), String> {
        let host = &mut self.hosts[number];
        if host.frozen_ns > self.now_ns {
            self.queue.push(host.frozen_ns, Event::Thaw(number));
            return Ok(());
        }
        let has_stood = !host.waiting.is_empty()
            && self.now_ns - host.stands_since_ns > self.plan.timeout_ms.max(500) * MS
            && host.is_ours()
            && host.view().is_some_and(|view| view.own().is_voter());
        for event in std::mem::take(&mut host.waiting) {
            self.queue.push(self.now_ns, event);
        }
        if !has_stood {
            return Ok(());
        }
        host.stood_until_ns = Some(self.now_ns);
        self.step(number, |host, now| host.input(now, &ClusterInput::Suspension))
    }

    /// The host whose process the event is for, if the process is suspended.
    fn frozen_host(&self, event: &Event) -> Option<HostId> {
        let end = |conn: &ConnId, side: usize| self.net.get(*conn)?.ends[side].map(|end| end.host);
        let host = match event {
            Event::Tick(host, _)
            | Event::IterationEnd(host, _)
            | Event::Wake(host, _)
            | Event::Disk(host, ..)
            | Event::Resolved(host, ..) => *host,
            Event::Pipe(conn, side) => end(conn, 1 - side)?,
            Event::Accept(conn) => end(conn, 1)?,
            Event::Made(conn) | Event::DialFailed(conn, _) => end(conn, 0)?,
            _ => return None,
        };
        (self.hosts[host].frozen_ns > self.now_ns).then_some(host)
    }

    fn is_running(&self, host: HostId, boot: u64) -> bool {
        self.hosts[host].machine.is_some() && self.hosts[host].boot == boot
    }

    pub(super) fn is_alive(&self, host: HostId) -> bool {
        self.hosts[host].machine.is_some()
    }

    fn tick(&mut self, number: HostId) -> Result<(), String> {
        let heard = self.replicated(number);
        self.step(number, |host, now| host.tick(now, heard))?;
        let late_ms = if self.rng.below(4) == 0 { self.rng.below(self.plan.late_tick_ms + 1) } else { 0 };
        let late_ms = if self.is_stormy || self.plan.season == Season::Calm { late_ms } else { 0 };
        let at_ns = self.now_ns + (100 + late_ms) * MS + self.rng.below(MS);
        self.queue.push(at_ns, Event::Tick(number, self.hosts[number].boot));
        Ok(())
    }

    /// Passes an event to a host's state machine, and carries out the requests of the state machine.
    pub(super) fn step(
        &mut self,
        number: HostId,
        what: impl FnOnce(&mut Host, sluice_base::Now),
    ) -> Result<(), String> {
        let host = &mut self.hosts[number];
        let now = host.clock.now(self.now_ns);
        what(host, now);
        self.carry_out(number)
    }

    /// Sends an operator's command; returns the ticket of the answer.
    pub(super) fn order(&mut self, number: HostId, order: &Order) -> Result<u64, String> {
        self.tickets += 1;
        let ticket = self.tickets;
        self.trace(|| format!("operator: node {number}: {order:?}"));
        let host = &mut self.hosts[number];
        if let Order::DelSlots(slots) = order {
            // An operator's command that takes slots from a node takes the keys of these slots, too.
            host.keys = crate::cluster::sets::minus(&host.keys, slots);
        }
        host.order(host.clock.now(self.now_ns), ticket, order);
        if matches!(order, Order::ResetHard)
            && let Some(view) = host.view()
        {
            // The node may announce its new state at once, because no other node knows anything of its new
            // id.
            note_view(host, &view);
        }
        self.carry_out(number)?;
        Ok(ticket)
    }

    fn carry_out(&mut self, number: HostId) -> Result<(), String> {
        loop {
            let acts = self.hosts[number].take_acts();
            if acts.is_empty() {
                break;
            }
            for act in acts {
                self.act(number, act)?;
            }
        }
        let host = &mut self.hosts[number];
        if host.awaits_iteration_end() && !host.ends_iteration {
            host.ends_iteration = true;
            self.queue.push(self.now_ns, Event::IterationEnd(number, host.boot));
        }
        let wakes_ms = host.deadline_ms();
        if wakes_ms != host.wakes_ms {
            host.wakes_ms = wakes_ms;
            if let Some(at_ms) = wakes_ms {
                let at_ns = host.clock.real_ns(at_ms).max(self.now_ns + MS);
                self.queue.push(at_ns, Event::Wake(number, host.boot));
            }
        }
        Ok(())
    }

    fn act(&mut self, number: HostId, act: Act) -> Result<(), String> {
        match act {
            Act::Dial { link, ip } => self.begin_dial(number, link, ip),
            Act::Close { link } => {
                if let Some((conn, side)) = self.hosts[number].links.remove(&link) {
                    self.net.close(conn, side, self.now_ns, (&mut self.rng, &mut self.queue));
                }
            }
            Act::Send { link, message } => self.send(number, link, &message)?,
            Act::Persist { generation: 0, file } => {
                let host = &mut self.hosts[number];
                host.disk.file = Some(file);
                if self.is_stormy && self.rng.below(8) == 0 {
                    host.frozen_ns =
                        host.frozen_ns.max(self.now_ns + self.rng.below(self.plan.disk_ms + 1) * MS);
                }
            }
            Act::Persist { generation, file } => {
                let takes_ns = self.rng.below(self.plan.disk_ms * MS + 1) + MS / 20;
                let host = &mut self.hosts[number];
                host.disk.begin(generation, file, self.now_ns, takes_ns)?;
                self.queue.push(self.now_ns + takes_ns, Event::Disk(number, host.boot, generation));
            }
            Act::Resolve { node, host } => {
                let at_ns = self.now_ns + (1 + self.rng.below(100)) * MS;
                let boot = self.hosts[number].boot;
                self.queue.push(at_ns, Event::Resolved(number, boot, node, host.to_string()));
                self.met.resolved += 1;
            }
            Act::Answer { ticket, text } => {
                self.answers.insert(ticket, text);
            }
            Act::Empty(slots) => self.empty(number, &slots)?,
            Act::DropKeys => {
                self.hosts[number].drop_keys();
            }
            Act::Follow { is_full } => {
                let copy_ns = if is_full { self.rng.below(2 * self.plan.timeout_ms) * MS } else { 0 };
                let host = &mut self.hosts[number];
                host.keys = SlotSet::EMPTY;
                host.loads_until_ns = host.loads_until_ns.max(self.now_ns + copy_ns);
                host.has_copy &= !is_full;
                // The suspension is forgotten, because a node that has become a replica serves slots again
                // only after an election, which needs the votes of a majority.
                host.stood_until_ns = None;
                self.met.copies += u64::from(is_full);
            }
            Act::Lead => self.hosts[number].loads_until_ns = 0,
            Act::Pause => {
                self.hosts[number].paused_ns = Some(self.now_ns);
                self.hosts[number].quiet_ns.get_or_insert(self.now_ns);
                self.met.pauses += 1;
                let now = self.hosts[number].clock.now(self.now_ns);
                let offset = self.hosts[number].stream_end(now);
                self.hosts[number].input(now, &ClusterInput::WritesPaused { offset });
            }
            Act::Unpause => (self.hosts[number].paused_ns, self.hosts[number].quiet_ns) = (None, None),
            Act::Map(map) => {
                self.ledger.owners_change(number, &map);
                self.hosts[number].map = Some(map);
            }
            Act::Won { epoch, votes } => self.won(number, epoch, &votes)?,
            Act::Log(text) => self.logged(number, &text)?,
            Act::End => {
                self.crash(number, true);
                self.queue.push(self.now_ns + self.plan.timeout_ms * MS, Event::Start(number));
            }
        }
        Ok(())
    }

    /// Reads a line of a node's log that reports what no other output does.
    fn logged(&mut self, number: HostId, text: &str) -> Result<(), String> {
        self.trace(|| format!("node {number}: {text}"));
        self.hosts[number].note_catching_up(text, self.now_ns);
        self.hosts[number].told_beyond_file |= text.starts_with("Cluster config updated even though");
        if let Some(epoch) = epoch_won(text) {
            self.met.won_by_ours += 1;
            self.won(number, epoch, &[])?;
            self.ledger.has_majority(&self.hosts[number], epoch)?;
        }
        if let Some(old) = text.split("; my old primary is ").nth(1) {
            // The line is also written at an operator's TAKEOVER, which asks for no votes.
            self.hosts[number].serves_at_once = true;
            self.has_all_data(number, old)?;
        }
        Ok(())
    }

    fn won(&mut self, number: HostId, epoch: u64, votes: &[(NodeId, u64)]) -> Result<(), String> {
        self.hosts[number].serves_at_once = true;
        let host = &self.hosts[number];
        self.trace(|| format!("node {number} wins epoch {epoch}"));
        self.met.won += 1;
        match host.id() {
            Some(id) => self.ledger.won((host.group, epoch), id, votes, &self.hosts),
            None => Ok(()),
        }
    }

    fn send(&mut self, number: HostId, link: Link, message: &std::sync::Arc<[u8]>) -> Result<(), String> {
        self.met.messages += 1;
        let Some((conn, side)) = self.hosts[number].links.get(&link).copied() else { return Ok(()) };
        let to = self.net.get(conn).and_then(|conn| conn.ends[1 - side]).map(|end| end.host);
        let kind = usize::from(message[13]);
        if let Some(count) = self.hosts[number].sent.get_mut(kind) {
            *count += 1;
        }
        if kind == VOTE {
            self.trace(|| match to {
                Some(to) => format!("node {number} sends node {to} its vote"),
                None => {
                    format!("node {number} sends its vote to a node that has not accepted yet, or has gone")
                }
            });
        }
        if self.hosts[number].is_ours() {
            let to = to.and_then(|to| self.hosts[to].id());
            let times = (self.now_ns, self.plan.timeout_ms);
            self.ledger.goes((number, &self.hosts[number]), to, message, times)?;
        }
        self.net.send((conn, side), message, self.now_ns, (&mut self.rng, &mut self.queue));
        if let Link::Ours(link) = link {
            let (lane, bytes) = (sluice_cluster::BusLane::Control, message.len());
            let now = self.hosts[number].clock.now(self.now_ns);
            self.hosts[number].input(now, &ClusterInput::Sent { link, lane, bytes });
        }
        Ok(())
    }

    fn begin_dial(&mut self, number: HostId, link: Link, ip: String) {
        let end = End { host: number, boot: self.hosts[number].boot, link: Some(link) };
        let conn = self.net.open(end, ip.clone(), &mut self.rng);
        self.hosts[number].links.insert(link, (conn, 0));
        let delay_ns = self.net.delay_ns(&mut self.rng);
        let is_refused = self.host_at(&ip).is_none_or(|host| !self.is_alive(host));
        if is_refused && self.rng.below(2) == 0 {
            self.queue.push(self.now_ns + MS / 10, Event::DialFailed(conn, true));
        } else {
            self.queue.push(self.now_ns + delay_ns, Event::Dial(conn));
        }
    }

    /// The host that has an address.
    pub(super) fn host_at(&self, ip: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.ip.to_string() == ip)
    }

    /// Handles a dial that arrives at its target. The dial waits while the hosts are cut off from each other,
    /// and is refused where no process listens. If no host has the address, the dial is refused or waits.
    fn dial(&mut self, id: ConnId) -> Result<(), String> {
        let Some(conn) = self.net.get(id) else { return Ok(()) };
        let Some(dialler) = conn.ends[0].map(|end| end.host) else { return Ok(()) };
        let target = self.host_at(&conn.ip.clone());
        let is_cut =
            target.is_some_and(|target| self.net.is_cut(dialler, target) || self.net.is_cut(target, dialler));
        let delay_ns = self.net.delay_ns(&mut self.rng);
        match target.filter(|target| self.is_alive(*target)) {
            _ if is_cut => self.queue.push(self.now_ns + 200 * MS, Event::Dial(id)),
            Some(target) => {
                let end = End { host: target, boot: self.hosts[target].boot, link: None };
                if let Some(conn) = self.net.get_mut(id) {
                    (conn.ends[1], conn.hosts[1]) = (Some(end), Some(target));
                }
                self.queue.push(self.now_ns, Event::Accept(id));
                self.queue.push(self.now_ns + delay_ns, Event::Made(id));
            }
            None if target.is_some() || self.rng.below(2) == 0 => {
                self.queue.push(self.now_ns + delay_ns, Event::DialFailed(id, false));
            }
            // No host has the address, so the dial gets no answer and is tried again.
            None => self.queue.push(self.now_ns + 1_000 * MS, Event::Dial(id)),
        }
        Ok(())
    }

    fn accept(&mut self, id: ConnId) -> Result<(), String> {
        let Some([Some(dialler), Some(target)]) = self.net.get(id).map(|conn| conn.ends) else {
            return Ok(());
        };
        if !self.is_running(target.host, target.boot) {
            return Ok(());
        }
        let peer = self.hosts[dialler.host].ip;
        let host = &mut self.hosts[target.host];
        let now = host.clock.now(self.now_ns);
        match host.accept(now, peer) {
            Some(link) => {
                host.links.insert(link, (id, 1));
                if let Some(conn) = self.net.get_mut(id) {
                    conn.ends[1] = Some(End { link: Some(link), ..target });
                }
                self.queue.push(self.now_ns, Event::Pipe(id, 0));
            }
            None => self.net.close(id, 1, self.now_ns, (&mut self.rng, &mut self.queue)),
        }
        self.carry_out(target.host)
    }

    fn made(&mut self, id: ConnId) -> Result<(), String> {
        let Some(end) = self.net.get(id).and_then(|conn| conn.ends[0]) else { return Ok(()) };
        let Some(link) = end.link.filter(|_| self.is_running(end.host, end.boot)) else { return Ok(()) };
        self.step(end.host, |host, now| host.connected(now, link))
    }

    fn dial_failed(&mut self, id: ConnId, at_once: bool) -> Result<(), String> {
        let Some(end) = self.net.get(id).and_then(|conn| conn.ends[0]) else { return Ok(()) };
        self.net.remove(id);
        let Some(link) = end.link.filter(|_| self.is_running(end.host, end.boot)) else { return Ok(()) };
        self.hosts[end.host].links.remove(&link);
        self.step(end.host, |host, now| host.dial_failed(now, link, at_once))
    }

    /// Passes the bytes that have arrived from a side of a connection to its other end.
    fn arrive(&mut self, id: ConnId, side: usize) -> Result<(), String> {
        loop {
            let Some(conn) = self.net.get(id) else { return Ok(()) };
            let Some(end) = conn.ends[1 - side] else { return Ok(()) };
            let from = conn.hosts[side];
            // Nothing is passed on while the connection is not accepted yet, or after the process at this
            // end has ended.
            let Some(link) = end.link.filter(|_| self.is_running(end.host, end.boot)) else { return Ok(()) };
            match self.net.receive(id, side, self.now_ns) {
                Found::Nothing => return Ok(()),
                Found::Bytes(message, range) => {
                    let is_last = range.end == message.len();
                    if let Some(from) = from.filter(|_| is_last) {
                        let to = (end.host, &mut self.hosts[end.host]);
                        self.ledger.comes(to, from, &message, self.now_ns);
                    }
                    self.step(end.host, |host, now| host.received(now, link, &message[range]))?;
                }
                Found::End => {
                    self.hosts[end.host].links.remove(&link);
                    self.net.close(id, 1 - side, self.now_ns, (&mut self.rng, &mut self.queue));
                    return self.step(end.host, |host, now| host.closed(now, link));
                }
            }
        }
    }

    fn written(&mut self, number: HostId, boot: u64, generation: u64) -> Result<(), String> {
        if !self.is_running(number, boot) {
            return Ok(());
        }
        let host = &mut self.hosts[number];
        let Some((file, is_there)) = host.disk.end(generation) else { return Ok(()) };
        note_words(host, &file, is_there);
        let generation = Generation(generation);
        let input = match is_there {
            true => ClusterInput::Saved { generation },
            // A node that continues without its file may announce the state that the file would have held.
            false => ClusterInput::SaveFailed { generation },
        };
        self.met.failed_writes += u64::from(!is_there);
        self.step(number, |host, now| host.input(now, &input))
    }

    fn resolved(&mut self, number: HostId, boot: u64, node: NodeId, name: &str) -> Result<(), String> {
        if !self.is_running(number, boot) {
            return Ok(());
        }
        let named = self.hosts.iter().enumerate().find(|(at, _)| host_name(*at) == name);
        let addresses: Vec<std::net::IpAddr> =
            named.map(|(_, host)| std::net::IpAddr::V4(host.ip)).into_iter().collect();
        self.step(number, |host, now| {
            host.input(now, &ClusterInput::Resolved { node, addresses: &addresses })
        })
    }

    /// Starts the process of a host.
    pub(super) fn start(&mut self, number: HostId) -> Result<(), String> {
        if self.is_alive(number) {
            return Ok(());
        }
        for (conn, side) in self.net.of_host(number) {
            self.net.close(conn, side, self.now_ns, (&mut self.rng, &mut self.queue));
        }
        let seed = self.rng.next_u64();
        let host = &mut self.hosts[number];
        host.boot += 1;
        host.started_ns = self.now_ns;
        (host.paused_ns, host.quiet_ns, host.frozen_ns) = (None, None, 0);
        (host.wakes_ms, host.heard_epoch) = (None, 0);
        (host.ends_iteration, host.contact_ms, host.caught_up_ns) = (false, None, None);
        (host.stood_until_ns, host.stands_since_ns) = (None, self.now_ns);
        self.looks.restarts(number);
        host.words.clear();
        (host.durable_epoch, host.durable_vote) = (0, 0);
        if let Some(file) = host.disk.file.clone() {
            note_words(host, &file, true);
        }
        host.start(host.clock.now(self.now_ns), seed)?;
        let boot = host.boot;
        if let Some(id) = host.id() {
            self.ledger.ids.insert(id, number);
            let view = host.view();
            if let Some(view) = view {
                note_view(host, &view);
                host.serves_at_once = view.own().role != crate::cluster::view::Role::Primary;
                if !host.serves_at_once {
                    host.loads_until_ns = 0;
                }
            }
        }
        self.trace(|| {
            format!("node {number} starts at {}: {:?}", self.hosts[number].ip, self.hosts[number].id())
        });
        self.queue.push(self.now_ns + self.rng.below(100) * MS, Event::Tick(number, boot));
        self.carry_out(number)
    }

    /// Ends a process. If `is_loud`, its connections are closed at once, which its peers notice.
    pub(super) fn crash(&mut self, number: HostId, is_loud: bool) {
        if !self.is_alive(number) {
            return;
        }
        self.trace(|| format!("node {number} ends"));
        self.met.crashes += 1;
        let host = &mut self.hosts[number];
        host.machine = None;
        host.map = None;
        host.links.clear();
        host.disk.crash(self.now_ns, &mut self.rng);
        self.ledger.ended(number);
        if is_loud {
            for (conn, side) in self.net.of_host(number) {
                self.net.close(conn, side, self.now_ns, (&mut self.rng, &mut self.queue));
            }
        }
    }

    /// Changes the settings of a node of ours.
    pub(super) fn configure(
        &mut self,
        number: HostId,
        change: impl FnOnce(&mut ClusterSettings),
    ) -> Result<(), String> {
        let Model::Ours(settings) = &mut self.hosts[number].model else { return Ok(()) };
        change(settings);
        let settings = std::sync::Arc::new((**settings).clone());
        self.step(number, |host, now| host.input(now, &ClusterInput::Settings(&settings)))
    }
}

/// The epoch of the election that a log line of a node of ours reports as won.
fn epoch_won(text: &str) -> Option<u64> {
    text.strip_prefix("configEpoch set to ")?.strip_suffix(" after successful failover")?.parse().ok()
}

/// The host name of a host in the simulation.
pub(super) fn host_name(number: usize) -> String {
    format!("node-{number}.example")
}

/// The settings of a node of ours that matter while it is a replica.
fn rules_of(plan: &Plan, host: &HostPlan) -> ReplicaRules {
    ReplicaRules {
        no_failover: !host.stands,
        migration_barrier: plan.migration_barrier as u64,
        ..ReplicaRules::default()
    }
}

fn new_host(plan: &Plan, host: &HostPlan, number: usize) -> Host {
    let name = if host.has_name { host_name(number) } else { String::new() };
    let model = if host.is_stock {
        Model::Stock(StockSettings {
            timeout_ms: plan.timeout_ms,
            ping_interval_ms: plan.ping_interval_ms,
            blacklist_ttl_ms: plan.blacklist_ttl_s * 1_000,
            require_full_coverage: plan.full_coverage,
            allow_replica_migration: plan.allow_migration,
            migration_barrier: plan.migration_barrier,
            manual_timeout_ms: 5_000,
            host_name: name,
            is_old: plan.season == Season::LostMeetings,
        })
    } else {
        Model::Ours(Box::new(ClusterSettings {
            node_timeout_ms: plan.timeout_ms,
            ping_interval_ms: plan.ping_interval_ms,
            require_full_coverage: plan.full_coverage,
            allow_replica_migration: plan.allow_migration,
            replica: rules_of(plan, host),
            blacklist_ttl_s: plan.blacklist_ttl_s,
            save_behavior: if host.is_best_effort { SaveBehavior::BestEffort } else { SaveBehavior::Sync },
            announced: OwnAddress {
                tcp_port: 6_379,
                bus_port: 16_379,
                labels: NodeLabels { host_name: name.into(), ..NodeLabels::default() },
                ..OwnAddress::default()
            },
            ..ClusterSettings::default()
        }))
    };
    Host {
        model,
        machine: None,
        disk: HostDisk::default(),
        clock: HostClock { drift_ppm: host.drift_ppm, wall_off_ms: 0 },
        ip: Ipv4Addr::new(10, 0, (number / 250) as u8, (number % 250) as u8 + 1),
        boot: 0,
        started_ns: 0,
        serves_at_once: false,
        told_beyond_file: false,
        frozen_ns: 0,
        stands_since_ns: 0,
        stood_until_ns: None,
        waiting: Vec::new(),
        group: host.group,
        links: BTreeMap::new(),
        keys: SlotSet::EMPTY,
        held_at: BTreeMap::new(),
        map: None,
        paused_ns: None,
        quiet_ns: None,
        ends_iteration: false,
        told_offset: 0,
        contact_ms: None,
        loads_until_ns: 0,
        has_copy: false,
        caught_up_ns: None,
        words: Vec::new(),
        durable_epoch: 0,
        durable_vote: 0,
        heard_epoch: 0,
        wakes_ms: None,
        was: None,
        sent: [0; 11],
    }
}

/// Notes the claims that a file allows a node to send; the file's vote counts only if the file is durable.
fn note_words(host: &mut Host, file: &File, is_there: bool) {
    let File::Text(text) = file else { return };
    let Ok(saved) = crate::cluster::file::read(text) else { return };
    // The lines' epochs count too, because a start raises currentEpoch to them (N-17).
    let epochs = saved.others.iter().chain([&saved.me]).map(|node| node.config_epoch.0);
    host.durable_epoch = epochs.fold(host.durable_epoch, u64::max);
    let (is_replica, replica_of) = match saved.me.role {
        SavedRole::Replica(primary) => (true, primary),
        _ => (false, None),
    };
    let word = OwnWord {
        id: saved.me.id,
        replica_of,
        is_replica,
        epoch: saved.me.config_epoch.0,
        slots: saved.me.slots,
    };
    if host.words.last() != Some(&word) {
        host.words.push(word);
    }
    host.durable_epoch = host.durable_epoch.max(saved.epochs.current.0);
    if let Some(vote) = saved.epochs.last_vote.filter(|_| is_there) {
        host.durable_vote = host.durable_vote.max(vote.0);
    }
}

/// Notes that a node may announce its own view: at its start, and after a failed write with best-effort.
fn note_view(host: &mut Host, view: &crate::cluster::view::View) {
    let own = view.own();
    let (is_replica, replica_of) = match own.role {
        crate::cluster::view::Role::Replica(primary) => (true, primary),
        _ => (false, None),
    };
    host.words.push(OwnWord {
        id: view.me,
        replica_of,
        is_replica,
        epoch: own.epoch,
        slots: own.slots.clone(),
    });
    host.durable_epoch = host.durable_epoch.max(view.current_epoch);
}

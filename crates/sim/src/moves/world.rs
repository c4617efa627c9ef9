//! Hosts, network and time of the simulation in which slots move between nodes: steps, connections, crashes
//! and starts.

use super::ledger::{Excuse, Ledger};
use super::met::MovesMet;
use super::orders::Operators;
use super::plan::{MovesPlan, MovesSeason};
use super::view::{KeyName, NodeLine, content_of, lines_of, own_line, slot_of};
use super::writer::Writer;
use crate::disk::Disk;
use crate::net::{Net, NodeId};
use crate::node::{Call, SimNode, node_of};
use crate::node_file::NodeFile;
use sluice_base::{Now, Rng};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const MS: u64 = 1_000_000;
const START: Now = Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 };

/// A host: a node, and the state that outlives it.
pub(super) struct MovesHost {
    pub(super) node: Option<SimNode>,
    disk: Disk,
    pub(super) file: NodeFile,
    /// Number of processes that were started here.
    pub(super) boot: u64,
    starts_ns: u64,
    /// Until when the process is suspended, ns.
    pub(super) stalls_until_ns: u64,
    pub(super) file_heals_ns: u64,
    /// Whether a replica lacks data of slots that moved here, as the node's log has reported.
    has_left_out: bool,
    /// Until when a failover here counts as forced by an operator, ns.
    pub(super) forced_until_ns: u64,
    /// The node's primary that was noted last.
    followed: Option<NodeId>,
    /// The node's imports at the last step: names and slots.
    pub(super) imports: Vec<(Vec<u8>, Vec<u16>)>,
    /// The writes in the data of the host's last process, by key.
    last_content: BTreeMap<KeyName, Vec<u64>>,
    /// Whether the last process was a primary whose append-only file had no base.
    lacked_base: bool,
}

impl MovesHost {
    /// The node's own line: from CLUSTER NODES, or from its file if it does not run.
    pub(super) fn own_line(&self) -> NodeLine {
        match self.node.as_ref().and_then(|node| node.engine.node()) {
            Some(machine) => own_line(&machine.nodes_text()),
            None => own_line(&String::from_utf8_lossy(&self.file.text())),
        }
    }

    fn content(&self) -> BTreeMap<KeyName, Vec<u64>> {
        self.node.as_ref().map_or_else(|| self.last_content.clone(), |node| content_of(&node.engine))
    }
}

/// A connection that is being established.
struct Opening {
    due_ns: u64,
    from: NodeId,
    boot: u64,
    to: NodeId,
    what: Wanted,
}

enum Wanted {
    /// The link to the primary, with the number of its attempt.
    Primary(u64),
    Other(Call),
}

/// The hosts, the network, the clients and the operators of a run.
pub(super) struct MovesWorld {
    pub(super) plan: MovesPlan,
    is_traced: bool,
    pub(super) rng: Rng,
    pub(super) now: Now,
    pub(super) net: Net,
    pub(super) hosts: Vec<MovesHost>,
    openings: Vec<Opening>,
    pub(super) writers: Vec<Writer>,
    pub(super) operators: Operators,
    pub(super) ledger: Ledger,
    /// When all nodes can reach each other again, ns.
    pub(super) heals_ns: u64,
    /// Since when two nodes own a slot at one epoch, ns.
    pub(super) two_owners: BTreeMap<(NodeId, NodeId), u64>,
    /// Slots that a primary owns although an import of them failed there, each with the import's name: for a
    /// while, the primary's replicas may have keys of that import.
    pub(super) kept: BTreeSet<(Vec<u8>, u16)>,
    pub(super) met: MovesMet,
    pub(super) steps: u64,
    /// Until when clients pause, so that replicas can receive all of their primaries' data, ns.
    pub(super) rests_ns: u64,
}

impl MovesWorld {
    pub(super) fn new(seed: u64, is_traced: bool) -> Result<MovesWorld, String> {
        let mut rng = Rng::new(seed ^ 0x5107_4075);
        let plan = MovesPlan::new(seed, &mut rng);
        let mut net = Net::default();
        net.latency_ms = plan.latency_ms;
        net.pass(START.mono_ns);
        let hosts = plan.nodes.iter().zip(&plan.follows).map(|(node, follows)| MovesHost {
            node: None,
            disk: Disk::default(),
            file: node.node_file.clone().unwrap_or_else(|| NodeFile::new("", 0)),
            boot: 0,
            starts_ns: 0,
            stalls_until_ns: 0,
            file_heals_ns: 0,
            has_left_out: false,
            forced_until_ns: 0,
            followed: *follows,
            imports: Vec::new(),
            last_content: BTreeMap::new(),
            lacked_base: false,
        });
        let mut world = MovesWorld {
            is_traced,
            now: START,
            net,
            hosts: hosts.collect(),
            openings: Vec::new(),
            writers: (0..5).map(|_| Writer::default()).collect(),
            operators: Operators::default(),
            ledger: Ledger::default(),
            heals_ns: 0,
            two_owners: BTreeMap::new(),
            kept: BTreeSet::new(),
            met: MovesMet::default(),
            steps: 0,
            rests_ns: u64::MAX,
            rng,
            plan,
        };
        world.trace(|| format!("{:?}", world.plan));
        for id in 0..world.hosts.len() {
            world.start(id)?;
        }
        Ok(world)
    }

    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{:>8.3} {}", (self.now.mono_ns - START.mono_ns) as f64 / 1e9, text());
        }
    }

    /// Prints the view of each node.
    pub(super) fn show(&self) {
        for (id, host) in self.hosts.iter().enumerate() {
            self.trace(|| format!("node {id} holds:"));
            let Some(machine) = host.node.as_ref().and_then(|node| node.engine.node()) else { continue };
            for line in machine.nodes_text().lines() {
                self.trace(|| format!("  {line}"));
            }
            for row in machine.migrations().take(6) {
                self.trace(|| format!("  {row:?}"));
            }
        }
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.run_ms(2_500 + 2 * self.plan.timeout_ms)?;
        let end_ns = self.now.mono_ns + self.plan.busy_ms * MS;
        while self.now.mono_ns < end_ns {
            self.strike()?;
            self.order_moves();
            self.step()?;
        }
        if self.plan.season == MovesSeason::Calm {
            self.met.calms += 1;
        }
        self.heal()?;
        self.come_together()?;
        self.judge()
    }

    pub(super) fn run_ms(&mut self, ms: u64) -> Result<(), String> {
        let end_ns = self.now.mono_ns + ms * MS;
        while self.now.mono_ns < end_ns {
            self.step()?;
        }
        Ok(())
    }

    /// Does one step: advances the time, starts nodes, advances the clients, opens connections, runs an
    /// iteration of each node that is not suspended, and makes the checks.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        let ms = 1 + self.rng.below(self.plan.step_ms);
        self.now.mono_ns += ms * MS;
        self.now.unix_us += (ms * 1_000) as i64;
        self.net.pass(self.now.mono_ns);
        for id in 0..self.hosts.len() {
            if self.hosts[id].node.is_none() && self.hosts[id].starts_ns <= self.now.mono_ns {
                self.start(id)?;
            }
        }
        self.write();
        self.open_connections();
        let first = self.rng.below(self.hosts.len() as u64) as usize;
        for at in 0..self.hosts.len() {
            self.iterate((at + first) % self.hosts.len())?;
        }
        self.look()
    }

    fn iterate(&mut self, id: NodeId) -> Result<(), String> {
        if self.is_stalled(id) {
            return Ok(());
        }
        let host = &mut self.hosts[id];
        let Some(node) = &mut host.node else { return Ok(()) };
        node.iterate(self.now, &mut self.net);
        let link = node.wants.take().map(|(attempt, to)| (Wanted::Primary(attempt), to));
        let others = std::mem::take(&mut node.calls).into_iter();
        let wanted: Vec<(Wanted, NodeId)> =
            link.into_iter().chain(others.map(|(call, to)| (Wanted::Other(call), to))).collect();
        let (boot, ends, log) = (host.boot, node.is_ending(), node.take_log());
        for (what, to) in wanted {
            let due_ns = self.now.mono_ns + self.net.delay_ns(&mut self.rng);
            self.openings.push(Opening { due_ns, from: id, boot, to, what });
        }
        for line in log {
            self.trace(|| format!("node {id}: {line}"));
            self.operators.read(id, &line, &mut self.met);
            self.hosts[id].has_left_out |= line.contains("does not wait for them");
            if line.contains("operation: import") && line.ends_with("-> failover-granted") {
                self.claims_by_the_highest_epoch(id)?;
            }
            if line.contains("operation: import") && line.contains("finished. State: failed") {
                self.note_kept(id);
            }
        }
        self.follow_roles(id);
        if ends {
            self.trace(|| format!("node {id} ends itself"));
            self.crash(id);
        }
        Ok(())
    }

    /// Notes the node's present primary. If the node has taken the place of the primary that was noted last,
    /// notes in the ledger which writes may be lost.
    fn follow_roles(&mut self, id: NodeId) {
        let host = &self.hosts[id];
        let Some(node) = &host.node else { return };
        let follows = node.engine.primary().map(node_of);
        let Some(old) = host.followed.filter(|_| follows.is_none()) else {
            self.hosts[id].followed = follows;
            return;
        };
        self.met.promotions += 1;
        self.trace(|| format!("node {id} takes the place of node {old}"));
        let content = self.hosts[old].content();
        let excuse = match () {
            () if self.now.mono_ns < self.hosts[id].forced_until_ns => Excuse::Forced,
            () if self.hosts[old].has_left_out => Excuse::LeftOut,
            () => Excuse::Failover,
        };
        self.excuse_all_but_own(id, content, excuse);
        self.hosts[id].followed = None;
    }

    /// Notes in the ledger which writes in `content` may be lost: those in slots of the node that are not in
    /// the node's data.
    fn excuse_all_but_own(&mut self, id: NodeId, content: BTreeMap<KeyName, Vec<u64>>, excuse: Excuse) {
        let host = &self.hosts[id];
        let Some(node) = &host.node else { return };
        let (here, own) = (content_of(&node.engine), host.own_line());
        for (key, ids) in content.into_iter().filter(|(key, _)| own.has(slot_of(key))) {
            let has = here.get(&key).map_or(&[][..], Vec::as_slice);
            let lost = ids.into_iter().filter(|id| !has.contains(id)).collect();
            self.ledger.lost(&key, &lost, excuse);
        }
    }

    /// Notes in the ledger which writes may be lost: those that the last process of a node had only in
    /// memory, in slots that no other node has taken from the node.
    fn excuse_memory_of(&mut self, id: NodeId) {
        let (lines, mut content) = (self.own_lines(), self.hosts[id].last_content.clone());
        content.retain(|key, _| {
            let is_taken = |line: &NodeLine| line.has(slot_of(key)) && line.epoch > lines[id].epoch;
            !lines.iter().any(is_taken)
        });
        self.excuse_all_but_own(id, content, Excuse::Base);
    }

    /// Checks rule A-46 of the specification: a node that has just claimed granted slots has a higher
    /// configEpoch than every other primary that it knows.
    fn claims_by_the_highest_epoch(&self, id: NodeId) -> Result<(), String> {
        let Some(machine) = self.hosts[id].node.as_ref().and_then(|node| node.engine.node()) else {
            return Ok(());
        };
        let (lines, own) = (lines_of(&machine.nodes_text()), self.hosts[id].own_line());
        let claimed = machine.migrations().filter(|row| row.operation == "IMPORT");
        let claimed = claimed.filter(|row| row.state == "failover-granted");
        let mut firsts = claimed.filter_map(|row| row.slot_ranges.split('-').next()?.parse().ok());
        let is_above = |line: &NodeLine| line.is_myself || !line.is_primary || line.epoch < own.epoch;
        if firsts.any(|first| own.has(first)) && !lines.iter().all(is_above) {
            return Err(format!(
                "A-46: node {id} claims slots at epoch {}, which is not the highest",
                own.epoch
            ));
        }
        Ok(())
    }

    fn open_connections(&mut self) {
        let now_ns = self.now.mono_ns;
        for opening in std::mem::take(&mut self.openings) {
            let Opening { due_ns, from, boot, to, .. } = opening;
            if self.hosts[from].boot != boot || self.hosts[from].node.is_none() {
                continue;
            }
            if due_ns > now_ns || self.net.is_cut(from, to) || self.is_stalled(from) {
                self.openings.push(opening);
                continue;
            }
            let made = match &mut self.hosts[to].node {
                Some(node) => {
                    let conn = self.net.open(from, to);
                    match opening.what {
                        Wanted::Other(Call::Bus(_)) => node.accept_bus(conn, from, &mut self.net),
                        Wanted::Other(Call::Export(_)) | Wanted::Primary(_) => node.accept(conn),
                    }
                    Ok(conn)
                }
                None => Err("Connection refused"),
            };
            let Some(node) = &mut self.hosts[from].node else { continue };
            match opening.what {
                Wanted::Primary(attempt) => node.connected(attempt, made, &mut self.net),
                Wanted::Other(Call::Bus(link)) => node.bus_connected(link, made, &mut self.net),
                Wanted::Other(Call::Export(job)) => node.export_connected(job, made, &mut self.net),
            }
        }
    }

    pub(super) fn is_stalled(&self, id: NodeId) -> bool {
        self.hosts[id].stalls_until_ns > self.now.mono_ns
    }

    /// Whether a node's process is running and not suspended.
    pub(super) fn goes_on(&self, id: NodeId) -> bool {
        self.hosts[id].node.is_some() && !self.is_stalled(id)
    }

    pub(super) fn crash(&mut self, id: NodeId) {
        let Some(node) = self.hosts[id].node.take() else { return };
        self.trace(|| format!("node {id} crashes"));
        self.met.crashes += 1;
        self.operators.ended(id, &mut self.met);
        self.hosts[id].last_content = content_of(&node.engine);
        self.hosts[id].lacked_base = node.process.lacks_aof_base() && node.engine.primary().is_none();
        drop(node);
        self.net.leave(id, &mut self.rng);
        let away_ms = 50 + self.rng.below(2 * self.plan.timeout_ms);
        let host = &mut self.hosts[id];
        host.disk.crash(&mut self.rng);
        host.file.crash(&mut self.rng);
        host.starts_ns = self.now.mono_ns + away_ms * MS;
        host.stalls_until_ns = 0;
        host.imports.clear();
    }

    pub(super) fn start(&mut self, id: NodeId) -> Result<(), String> {
        if self.hosts[id].node.is_some() {
            return Ok(());
        }
        self.trace(|| format!("node {id} starts"));
        let rng = Rng::new(self.rng.next_u64());
        let host = &mut self.hosts[id];
        host.boot += 1;
        let started = SimNode::start(id, &self.plan.nodes[id], None, host.disk.clone(), (self.now, rng));
        let node = started.map_err(|why| format!("node {id} does not start: {why}"))?;
        // The node starts with the role in its file. Even if a replica took its place while the process was
        // down, this start is not a promotion.
        host.followed = node.engine.primary().map(node_of);
        host.node = Some(node);
        if std::mem::take(&mut host.lacked_base) {
            self.excuse_memory_of(id);
        }
        Ok(())
    }

    /// The lines of all nodes about themselves, with slots and epochs.
    pub(super) fn own_lines(&self) -> Vec<NodeLine> {
        self.hosts.iter().map(MovesHost::own_line).collect()
    }
}

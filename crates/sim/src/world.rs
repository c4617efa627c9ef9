//! The simulation of replication: nodes, network, clients, faults, and a Sentinel that sees the nodes
//! that it can reach.
//!
//! ```text
//!  step: time passes ─► faults ─► Sentinel ─► clients ─► an iteration of each node ─► checks
//! ```
//!
//! The simulation checks that (1) the data of a node at a point of a history equal those of every other node
//! at that point ([`Histories`]), so accepted partial resynchronisations were right; (2) at least as many
//! replicas have had a write as WAIT has reported; (3) the write is on at least as many disks as WAITAOF has
//! reported, and a crashed node comes back with the data of its disk; (4) when the primary is lost, the
//! replica of its history with the highest offset has every write that a promotable replica has acknowledged;
//! (5) at the end, when no more faults occur, all nodes reach the same point with the same data, and every
//! promise is kept; (6) FAILOVER keeps its promises (see `world/handover.rs`, and `world/handover/drill.rs`
//! for slow steps without other faults); (7) scripts that are interrupted at the end of slices have all of
//! their effects or none (see `world/runs.rs`). Faulty disks are in `world/disks.rs`.

mod asked;
mod disks;
mod handover;
mod runs;

use self::disks::DiskFaults;
use self::handover::Handovers;
use self::runs::Runs;
use crate::disk::Disk;
use crate::history::Histories;
use crate::net::{Net, NodeId};
use crate::node::{SimNode, node_of};
use crate::plan::Plan;
use crate::promises::{Given, PendingPromise};
use crate::workload::{self, SessionState, Words};
use sluice_base::SessionKey;
use sluice_base::{Now, Rng};
use sluice_replication::LinkState;
use std::collections::BTreeSet;

/// The options of a run, in addition to its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimOptions {
    /// Whether events and logs are written to standard output.
    pub is_traced: bool,
    /// Whether the Sentinel promotes the replica with the lowest offset, a mistake that a run must detect.
    pub promotes_lowest: bool,
}

/// Counts of the events of a run, which show what the run has tested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub syncs: u64,
    pub continued: u64,
    pub failovers: u64,
    pub crashes: u64,
    pub waits: u64,
    pub aof_waits: u64,
    /// Writes that were answered under `appendfsync always`.
    pub answers: u64,
    pub compared: u64,
    /// `handed_over` counts failovers that handed the role over, `not_handed_over` failovers that did not,
    /// and `resumed` the waiting writes that were executed after a failover without a handover.
    pub handed_over: u64,
    pub not_handed_over: u64,
    pub resumed: u64,
    /// `drilled` counts the failovers of drills that handed the role over; `slow_steps` counts the slow steps
    /// during failovers.
    pub drilled: u64,
    pub slow_steps: u64,
    /// Disks that became faulty.
    pub disk_faults: u64,
    /// Snapshots that arrived on a connection of their own.
    pub dual_syncs: u64,
    /// `runs` counts scripts and functions that clients have started; `suspensions` counts the iterations
    /// that found one of them interrupted at the end of a slice.
    pub runs: u64,
    pub suspensions: u64,
    /// How often these scripts and functions ended in each way, in the order of the fields: completed,
    /// killed, not killable, abandoned by their client, and lost in the middle of their writes.
    pub ended: u64,
    pub killed: u64,
    pub unkillable: u64,
    pub left: u64,
    pub lost_halves: u64,
    /// Shutdowns that were asked for while an execution unit was open.
    pub shutdowns: u64,
}

impl Met {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Met) {
        self.syncs += other.syncs;
        self.continued += other.continued;
        self.failovers += other.failovers;
        self.crashes += other.crashes;
        self.waits += other.waits;
        self.answers += other.answers;
        self.aof_waits += other.aof_waits;
        self.compared += other.compared;
        self.handed_over += other.handed_over;
        self.not_handed_over += other.not_handed_over;
        self.resumed += other.resumed;
        self.drilled += other.drilled;
        self.slow_steps += other.slow_steps;
        self.disk_faults += other.disk_faults;
        self.dual_syncs += other.dual_syncs;
        self.runs += other.runs;
        self.suspensions += other.suspensions;
        self.ended += other.ended;
        self.killed += other.killed;
        self.unkillable += other.unkillable;
        self.left += other.left;
        self.lost_halves += other.lost_halves;
        self.shutdowns += other.shutdowns;
    }
}

/// A simulated host: a node, and the state that outlives it.
struct SimHost {
    node: Option<SimNode>,
    disk: Disk,
    /// The primary that the node's configuration file names; `None` if the file makes the node a primary.
    follows: Option<NodeId>,
    /// When the node starts again, ns.
    starts_ns: u64,
    /// Until when the process is suspended, ns.
    stalls_until_ns: u64,
    /// Number of snapshots that the node had loaded at the last check.
    syncs: u64,
    /// Number of partial resynchronisations at the last check.
    continued: u64,
    /// Number of snapshots received on a separate connection at the last check.
    dual_syncs: u64,
    /// The offset of the node that the trace has shown last.
    shown: u64,
}

#[derive(Default)]
struct Client {
    at: Option<(NodeId, SessionKey)>,
    session: SessionState,
}

struct Opening {
    due_ns: u64,
    attempt: u64,
    from: NodeId,
    to: NodeId,
}

/// The hosts, the network and the clients of a run, with the promises that are to be kept.
pub struct World {
    plan: Plan,
    options: SimOptions,
    rng: Rng,
    now: Now,
    net: Net,
    hosts: Vec<SimHost>,
    openings: Vec<Opening>,
    clients: Vec<Client>,
    promiser: Client,
    pending: Option<PendingPromise>,
    given: Vec<Given>,
    promises: u64,
    /// The node that the Sentinel considers the primary; `primary_replid` is the id of its history when the
    /// node was last seen.
    primary: NodeId,
    primary_replid: String,
    /// Since when the Sentinel has not seen the primary, ns; `None` while it sees the primary.
    unseen_ns: Option<u64>,
    isolated: Option<NodeId>,
    heals_ns: u64,
    handovers: Handovers,
    disks: DiskFaults,
    runs: Runs,
    histories: Histories,
    met: Met,
    step: u64,
}

const START: Now = Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 };
const MS: u64 = 1_000_000;
/// How long the Sentinel must not have seen the primary before it promotes a replica.
const FAILOVER_NS: u64 = 1_500 * MS;
/// Milliseconds without faults after which all nodes must agree.
const HEALED_MS: u64 = 150_000;

/// Runs the simulation of a seed. Errors: the invariant that is broken.
pub fn run(seed: u64, options: SimOptions) -> Result<Met, String> {
    let mut world = World::new(seed, options)?;
    let played = world.play();
    if played.is_err() && options.is_traced {
        world.show_data();
    }
    played.map(|()| world.met)
}

impl World {
    fn new(seed: u64, options: SimOptions) -> Result<World, String> {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(seed, &mut rng);
        let mut net = Net::default();
        net.latency_ms = plan.latency_ms;
        net.pass(START.mono_ns);
        let mut hosts = Vec::new();
        for (id, node) in plan.nodes.iter().enumerate() {
            let disk = Disk::default();
            let follows = (id > 0).then_some(0);
            let started = SimNode::start(id, node, follows, disk.clone(), (START, Rng::new(rng.next_u64())))?;
            hosts.push(SimHost {
                node: Some(started),
                disk,
                follows,
                starts_ns: 0,
                stalls_until_ns: 0,
                syncs: 0,
                continued: 0,
                dual_syncs: 0,
                shown: 0,
            });
        }
        let world = World {
            plan,
            options,
            rng,
            now: START,
            net,
            hosts,
            openings: Vec::new(),
            clients: (0..2).map(|_| Client::default()).collect(),
            promiser: Client::default(),
            pending: None,
            given: Vec::new(),
            promises: 0,
            primary: 0,
            primary_replid: String::new(),
            unseen_ns: None,
            isolated: None,
            heals_ns: 0,
            handovers: Handovers::new(seed),
            disks: DiskFaults::new(seed),
            runs: Runs::new(seed),
            histories: Histories::default(),
            met: Met::default(),
            step: 0,
        };
        world.trace(|| format!("{:?}", world.plan));
        Ok(world)
    }

    fn trace(&self, text: impl FnOnce() -> String) {
        if self.options.is_traced {
            println!("{:>8.3} {}", (self.now.mono_ns - START.mono_ns) as f64 / 1e9, text());
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let end_ns = START.mono_ns + self.plan.faulty_ms * MS;
        while self.now.mono_ns < end_ns {
            self.pass()?;
            self.faults()?;
            self.sentinel()?;
            self.write_something();
            self.run_something()?;
            self.promise()?;
            self.iterate()?;
        }
        self.heal()?;
        self.drill()?;
        self.met.compared = self.histories.compared;
        Ok(())
    }

    fn pass(&mut self) -> Result<(), String> {
        let ms = 1 + self.rng.below(self.plan.step_ms);
        self.pass_ms(ms)
    }

    fn pass_ms(&mut self, ms: u64) -> Result<(), String> {
        self.step += 1;
        self.now.mono_ns += ms * MS;
        self.now.unix_us += (ms * 1000) as i64;
        self.net.pass(self.now.mono_ns);
        for id in 0..self.hosts.len() {
            let host = &self.hosts[id];
            if host.node.is_none() && host.starts_ns <= self.now.mono_ns {
                self.start(id)?;
            }
        }
        Ok(())
    }

    /// Runs one iteration of each node that is not suspended, and then checks that node.
    fn iterate(&mut self) -> Result<(), String> {
        self.open_connections();
        let first = self.rng.below(self.hosts.len() as u64) as usize;
        for id in 0..self.hosts.len() {
            let id = (id + first) % self.hosts.len();
            if self.is_stalled(id) {
                continue;
            }
            let Some(node) = &mut self.hosts[id].node else { continue };
            node.iterate(self.now, &mut self.net);
            let wants = node.wants.take();
            if self.options.is_traced {
                for line in node.take_log() {
                    self.trace(|| format!("node {id}: {line}"));
                }
            }
            if let Some((attempt, to)) = wants {
                let due_ns =
                    self.now.mono_ns + self.net.delay_ns(&mut self.rng) + self.handovers.slow_set_up_ns();
                self.openings.push(Opening { due_ns, attempt, from: id, to });
            }
            let ends = self.hosts[id].node.as_ref().is_some_and(SimNode::is_ending);
            self.observe(id)?;
            if ends {
                self.shut_down(id);
            }
        }
        Ok(())
    }

    fn open_connections(&mut self) {
        let now_ns = self.now.mono_ns;
        let all = std::mem::take(&mut self.openings);
        for opening in all {
            let Opening { due_ns, attempt, from, to } = opening;
            if due_ns > now_ns || self.net.is_cut(from, to) {
                self.openings.push(opening);
                continue;
            }
            let made = match self.hosts.get_mut(to).and_then(|host| host.node.as_mut()) {
                Some(node) => {
                    let conn = self.net.open(from, to);
                    node.accept(conn);
                    Ok(conn)
                }
                None => Err("Connection refused"),
            };
            match &mut self.hosts[from].node {
                Some(node) => node.connected(attempt, made, &mut self.net),
                None => self.net.leave(from, &mut self.rng),
            }
        }
    }

    /// Checks a node after its iteration.
    fn observe(&mut self, id: NodeId) -> Result<(), String> {
        let host = &mut self.hosts[id];
        let Some(node) = &mut host.node else { return Ok(()) };
        if let Some((point, digest)) = node.state() {
            if self.options.is_traced && host.shown != point.offset {
                host.shown = point.offset;
                println!(
                    "         node {id} stands at {}:{} with {digest:016x}",
                    &point.replid[..6],
                    point.offset
                );
            }
            self.histories.note(id, &point, digest)?;
        }
        if let Some(pending) = self.pending.as_mut().filter(|pending| node.has_key(&pending.key)) {
            pending.had.insert(id);
        }
        let counts = node.link_counts();
        let has_other_data = counts.snapshots != host.syncs;
        self.met.dual_syncs += node.met_dual - std::mem::replace(&mut host.dual_syncs, node.met_dual);
        self.met.continued += counts.continued - std::mem::replace(&mut host.continued, counts.continued);
        if counts.snapshots != host.syncs {
            self.met.syncs += counts.snapshots - std::mem::replace(&mut host.syncs, counts.snapshots);
            for given in &mut self.given {
                if !node.has_key(&given.key) {
                    given.holders.remove(&id);
                    given.durable.remove(&id);
                }
            }
            if let Some(pending) = &mut self.pending {
                pending.excused.insert(id);
            }
        }
        self.check_runs(id, has_other_data)
    }

    // --- faults

    fn strikes(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.rng.below(one_in) == 0
    }

    fn any_node(&mut self) -> NodeId {
        self.rng.below(self.hosts.len() as u64) as usize
    }

    fn faults(&mut self) -> Result<(), String> {
        let rates = self.plan.rates;
        if self.heals_ns > 0 && self.heals_ns <= self.now.mono_ns {
            self.trace(|| "the network is whole".to_owned());
            self.net.heal();
            (self.isolated, self.heals_ns) = (None, 0);
        }
        if self.strikes(rates.crash) {
            let id = self.any_node();
            self.crash(id);
        }
        if self.strikes(rates.kill_connection)
            && let Some(conn) = self.net.kill_any(&mut self.rng)
        {
            self.trace(|| format!("connection {conn} dies"));
        }
        if self.heals_ns == 0 && self.strikes(rates.isolate) {
            let id = self.any_node();
            (0..self.hosts.len()).filter(|other| *other != id).for_each(|other| self.net.cut(id, other));
            self.isolated = Some(id);
            self.heals_ns = self.now.mono_ns + self.rng.below(6_000) * MS;
            self.trace(|| format!("node {id} is alone"));
        }
        if self.heals_ns == 0 && self.strikes(rates.cut_pair) {
            let (a, b) = (self.any_node(), self.any_node());
            if a != b {
                self.net.cut(a, b);
                self.heals_ns = self.now.mono_ns + self.rng.below(6_000) * MS;
                self.trace(|| format!("nothing passes between {a} and {b}"));
            }
        }
        for (one_in, words) in [(rates.save, &["BGSAVE", "SCHEDULE"][..]), (rates.rewrite, &["BGREWRITEAOF"])]
        {
            if self.strikes(one_in) {
                let id = self.any_node();
                self.order(id, words);
            }
        }
        if self.strikes(rates.chain) && !self.handovers.is_under_way() {
            self.make_chain();
        }
        self.hand_over_or_abort();
        self.break_disks();
        Ok(())
    }

    /// Sends a command to a node from a new client that sends nothing else.
    fn order(&mut self, id: NodeId, words: &[&str]) {
        self.trace(|| format!("to {id}: {}", words.join(" ")));
        let Some(node) = &mut self.hosts[id].node else { return };
        let client = node.client();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        node.request(client, &words);
        // The session stays open, because the answer may arrive later.
    }

    fn follow(&mut self, id: NodeId, primary: Option<NodeId>) {
        if self.hosts[id].follows == primary && self.followed(id) == primary {
            return;
        }
        self.hosts[id].follows = primary;
        if self.hosts[id].node.as_ref().is_some_and(|node| node.engine.has_failover()) {
            // The failover is aborted, because the former primary would wait for replicas that it no longer
            // has, and would refuse REPLICAOF until the failover ends.
            self.order(id, &["FAILOVER", "ABORT"]);
        }
        match primary {
            Some(to) => {
                let port = crate::node::port_of(to).to_string();
                self.order(id, &["REPLICAOF", &format!("node{to}"), &port]);
            }
            None => self.order(id, &["REPLICAOF", "NO", "ONE"]),
        }
    }

    /// The node that a node follows; `None` for a primary, or a node that is down.
    fn followed(&self, id: NodeId) -> Option<NodeId> {
        self.hosts[id].node.as_ref().and_then(|node| node.engine.primary().map(node_of))
    }

    fn make_chain(&mut self) {
        let (low, high) = (self.any_node(), self.any_node());
        let is_replica = |id: NodeId| id != self.primary && self.hosts[id].node.is_some();
        // Nothing changes if `high` follows `low`, directly or through others, because the chain would become
        // a cycle.
        let mut above = Some(high);
        while let Some(id) = above {
            if id == low {
                return;
            }
            above = self.hosts[id].follows;
        }
        if is_replica(low) && self.isolated != Some(low) {
            self.follow(low, Some(high));
        }
    }

    fn crash(&mut self, id: NodeId) {
        let Some(node) = self.hosts[id].node.take() else { return };
        self.lose_runs(id, &node);
        self.trace(|| format!("node {id} crashes"));
        self.met.crashes += 1;
        for given in &mut self.given {
            given.holders.remove(&id);
            if !node.has_key(&given.key) {
                given.durable.remove(&id);
            }
        }
        if let Some(pending) = &mut self.pending {
            pending.excused.insert(id);
        }
        // A promise that is pending at this node ends, because after a restart the process gives its
        // sessions the same keys again.
        self.pending.take_if(|pending| pending.primary == id);
        for client in self.clients.iter_mut().chain([&mut self.promiser]) {
            client.at.take_if(|(at, _)| *at == id);
        }
        let host = &mut self.hosts[id];
        (host.syncs, host.continued, host.dual_syncs) = (0, 0, 0);
        drop(node);
        self.net.leave(id, &mut self.rng);
        host.disk.crash(&mut self.rng);
        host.starts_ns = self.now.mono_ns + (100 + self.rng.below(4_000)) * MS;
        let is_primary = host.follows.is_none();
        if is_primary && !self.plan.restarts_primary {
            // A node whose configuration file makes it a primary restarts only when the Sentinel has
            // chosen another primary.
            host.starts_ns = u64::MAX;
        }
        self.openings.retain(|opening| opening.from != id);
    }

    fn start(&mut self, id: NodeId) -> Result<(), String> {
        self.trace(|| format!("node {id} starts"));
        let rng = Rng::new(self.rng.next_u64());
        let host = &self.hosts[id];
        let started =
            SimNode::start(id, &self.plan.nodes[id], host.follows, host.disk.clone(), (self.now, rng));
        let mut node = match started {
            Ok(node) => node,
            Err(why) if host.disk.fault().is_some() || host.disk.repair() => {
                self.hosts[id].starts_ns = self.now.mono_ns + 500 * MS;
                self.trace(|| format!("node {id} cannot start: {why}"));
                return Ok(());
            }
            Err(why) => return Err(format!("node {id} does not start: {why}")),
        };
        if self.options.is_traced {
            for line in node.take_log() {
                println!("         node {id}: {line}");
            }
        }
        for given in &self.given {
            if given.durable.contains(&id) && !node.has_key(&given.key) {
                let key = given.key.escape_ascii();
                return Err(format!("node {id} had {key} on disk, as WAITAOF has said, and starts without"));
            }
        }
        self.hosts[id].node = Some(node);
        if id == self.primary {
            self.forget_lost(id);
        }
        self.check_runs(id, true)
    }

    /// Drops the given promises whose writes are missing at the node `id`, which is the primary now.
    fn forget_lost(&mut self, id: NodeId) {
        let Some(node) = &self.hosts[id].node else { return };
        self.given.retain(|given| node.has_key(&given.key));
    }

    /// Ends the pending promise and gives up its client's session, whose later replies would otherwise be
    /// taken for those to the next promise.
    fn forget_pending(&mut self) {
        self.pending = None;
        self.promiser.at = None;
    }

    // --- the Sentinel

    fn is_seen(&self, id: NodeId) -> bool {
        self.hosts[id].node.is_some() && self.isolated != Some(id)
    }

    fn sentinel(&mut self) -> Result<(), String> {
        self.watch_handover()?;
        let primary = self.primary;
        if self.is_seen(primary) {
            self.unseen_ns = None;
            if self.handovers.is_under_way() {
                return Ok(());
            }
            self.insist_on_primary();
            if let Some(point) =
                self.hosts[primary].node.as_ref().and_then(|node| node.engine.history_point())
            {
                self.primary_replid = point.replid;
            }
            for id in 0..self.hosts.len() {
                let is_lost = self.followed(id).is_none_or(|to| !self.is_seen(to));
                if id != primary && self.is_seen(id) && is_lost && self.rng.below(10) == 0 {
                    self.follow(id, Some(primary));
                }
            }
            return Ok(());
        }
        let since_ns = *self.unseen_ns.get_or_insert(self.now.mono_ns);
        match self.now.mono_ns - since_ns > FAILOVER_NS && self.rng.below(10) == 0 {
            true => self.fail_over(),
            false => Ok(()),
        }
    }

    /// The replicas that can be promoted because their data belong to the lost primary's history, each with
    /// its offset.
    fn candidates(&self) -> Vec<(u64, NodeId)> {
        let candidate = |id: NodeId| {
            let node = self.hosts[id].node.as_ref().filter(|_| self.is_seen(id) && id != self.primary)?;
            node.engine.primary()?;
            let point = node.engine.history_point().filter(|_| !node.engine.is_loading())?;
            (point.replid == self.primary_replid).then_some((point.offset, id))
        };
        (0..self.hosts.len()).filter_map(candidate).collect()
    }

    fn fail_over(&mut self) -> Result<(), String> {
        let candidates = self.candidates();
        let best = match self.options.promotes_lowest {
            true => candidates.iter().min(),
            false => candidates.iter().max(),
        };
        let Some((offset, best)) = best.copied() else { return self.give_up_primary() };
        self.trace(|| format!("node {best} at {offset} is promoted; there were {candidates:?}"));
        self.met.failovers += 1;
        let able: BTreeSet<NodeId> = candidates.iter().map(|(_, id)| *id).collect();
        let has = |id: NodeId, key: &[u8]| self.hosts[id].node.as_ref().is_some_and(|node| node.has_key(key));
        for given in &self.given {
            let has_holder = given.holders.iter().any(|id| able.contains(id));
            let held = able.iter().find(|id| has(**id, &given.key));
            if !has(best, &given.key) && (has_holder || held.is_some()) {
                return Err(format!(
                    "node {best} is promoted at {offset} and lacks {}, which was confirmed; holders {:?}, \
                     found at {held:?}, candidates {candidates:?}",
                    given.key.escape_ascii(),
                    given.holders
                ));
            }
        }
        let old = std::mem::replace(&mut self.primary, best);
        self.unseen_ns = None;
        self.follow(best, None);
        self.forget_lost(best);
        self.forget_pending();
        // Other nodes are switched to the new primary once the Sentinel sees them.
        for id in 0..self.hosts.len() {
            if id != best && id != old && self.is_seen(id) {
                self.follow(id, Some(best));
            }
        }
        self.hosts[old].follows = Some(best);
        if self.hosts[old].starts_ns == u64::MAX {
            self.hosts[old].starts_ns = self.now.mono_ns + self.rng.below(3_000) * MS;
        }
        Ok(())
    }

    /// Lets the lost primary restart if it is down, because no other node has its data.
    fn give_up_primary(&mut self) -> Result<(), String> {
        let host = &mut self.hosts[self.primary];
        if host.starts_ns == u64::MAX {
            host.starts_ns = self.now.mono_ns + 200 * MS;
        }
        Ok(())
    }

    // --- clients

    /// The client's session. If the client has none, and sometimes if the session is not at the primary, a
    /// new one is opened at the primary.
    fn attach(&mut self, client: &mut Client) -> Option<(NodeId, SessionKey)> {
        let is_there =
            |id: NodeId, key| self.hosts[id].node.as_ref().is_some_and(|node| node.has_client(key));
        client.at = client.at.filter(|(id, key)| is_there(*id, *key));
        let is_elsewhere = client.at.is_none_or(|(id, _)| id != self.primary);
        if is_elsewhere && (client.at.is_none() || self.rng.below(20) == 0) {
            let node = self.hosts[self.primary].node.as_mut()?;
            *client = Client { at: Some((self.primary, node.client())), session: SessionState::default() };
        }
        client.at
    }

    fn write_something(&mut self) {
        let mut clients = std::mem::take(&mut self.clients);
        for client in &mut clients {
            if self.rng.below(self.plan.commands) > 0 {
                continue;
            }
            let Some((id, key)) = self.attach(client) else { continue };
            let words: Words = workload::command(&mut self.rng, &mut client.session, self.step);
            if self.options.is_traced {
                let shown: Vec<String> =
                    words.iter().map(|word| word[..word.len().min(20)].escape_ascii().to_string()).collect();
                self.trace(|| format!("to {id}: {}", shown.join(" ")));
            }
            if let Some(node) = &mut self.hosts[id].node {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                node.request(key, &words);
                node.replies(key);
            }
        }
        self.clients = clients;
    }

    // --- the end

    /// Ends all faults, and checks that all nodes reach the same point with the same data.
    fn heal(&mut self) -> Result<(), String> {
        self.trace(|| "nothing goes wrong any more".to_owned());
        self.end_handover();
        self.heal_disks();
        self.net.heal();
        self.net.latency_ms = self.net.latency_ms.min(20);
        (self.isolated, self.heals_ns) = (None, 0);
        for host in &mut self.hosts {
            // A crashed primary that may start only after a promotion keeps waiting for the promotion.
            if host.starts_ns < u64::MAX {
                host.starts_ns = host.starts_ns.min(self.now.mono_ns + 100 * MS);
            }
        }
        self.settle()
    }

    /// Waits until all nodes are at the same point, and checks their data.
    fn settle(&mut self) -> Result<(), String> {
        let end_ns = self.now.mono_ns + HEALED_MS * MS;
        while self.now.mono_ns < end_ns {
            self.pass()?;
            self.sentinel()?;
            if !self.handovers.is_under_way() {
                self.heal_roles();
            }
            self.mend_logs();
            self.iterate()?;
            if self.is_settled() {
                return self.check_end();
            }
        }
        Err(format!("nobody comes together: {}", self.describe()))
    }

    fn heal_roles(&mut self) {
        for id in 0..self.hosts.len() {
            if self.is_seen(id) && id != self.primary {
                // A replica that followed another replica keeps following that replica.
                let to = self.hosts[id].follows.unwrap_or(self.primary);
                self.follow(id, Some(to));
            }
        }
        if self.is_seen(self.primary) {
            self.follow(self.primary, None);
        }
    }

    fn is_settled(&mut self) -> bool {
        let primary = self.primary;
        let point = |host: &SimHost| host.node.as_ref().and_then(|node| node.engine.history_point());
        let Some(wanted) = point(&self.hosts[primary]) else { return false };
        self.hosts.iter().enumerate().all(|(id, host)| {
            let is_up = host.node.as_ref().is_some_and(|node| node.link_state() == LinkState::Connected);
            let has_fault = host.node.as_ref().is_some_and(|node| node.process.has_aof_fault());
            let is_open = host.node.as_ref().is_some_and(|node| node.engine.has_open_unit());
            // The last write has to be on the disk too.
            let is_durable = host.node.as_ref().is_some_and(|node| {
                node.process.durable().is_none_or(|position| position >= node.engine.aof_position())
            });
            let stands = point(host).as_ref() == Some(&wanted);
            (id == primary || is_up) && stands && !has_fault && !is_open && is_durable
        })
    }

    fn check_end(&mut self) -> Result<(), String> {
        for id in 0..self.hosts.len() {
            let Some(node) = &mut self.hosts[id].node else { continue };
            let Some((point, digest)) = node.state_anew() else {
                return Err(format!("node {id} stands nowhere at the end"));
            };
            self.histories.note(id, &point, digest)?;
            self.check_runs(id, true)?;
            let disk = &self.hosts[id].disk;
            let lost =
                self.given.iter().find(|given| given.durable.contains(&id) && !disk.has_durably(&given.key));
            if let Some(given) = lost {
                let key = given.key.escape_ascii();
                return Err(format!(
                    "node {id} had {key} on disk, as WAITAOF has said, and has not at the end"
                ));
            }
        }
        let Some(node) = &self.hosts[self.primary].node else { return Ok(()) };
        match self.given.iter().find(|given| !node.has_key(&given.key)) {
            Some(given) => Err(format!("{} was promised and is forgotten", given.key.escape_ascii())),
            None => Ok(()),
        }
    }

    /// Prints all data of all nodes.
    fn show_data(&self) {
        for (id, host) in self.hosts.iter().enumerate() {
            let Some(node) = &host.node else { continue };
            crate::digest::lines(&node.engine).into_iter().for_each(|line| println!("node {id}: {line}"));
        }
    }

    fn describe(&mut self) -> String {
        let mut text = format!("primary {}", self.primary);
        for (id, host) in self.hosts.iter_mut().enumerate() {
            let Some(node) = &mut host.node else {
                text.push_str(&format!("; node {id} is down"));
                continue;
            };
            let (link, follows, state) = (node.link_state(), host.follows, node.state());
            text.push_str(&format!("; node {id} {link:?} follows {follows:?} {state:?}"));
        }
        text
    }
}

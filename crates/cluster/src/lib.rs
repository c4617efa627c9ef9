//! A node of a cluster as one state machine. It handles messages of the bus, and keeps the state of the
//! nodes, owners of slots, moves of slots, failures, replicas and their primaries.
//!
//! Invariants: (1) the machine has no socket, file, thread, clock, key or client; time is an argument of each
//! step, and requests to the host are outputs that the host drains; (2) a machine is a function of its inputs
//! and its seed, so that a simulation can replay it; (3) a message changes nothing before the whole of it has
//! been checked;
//! (4) state that other nodes rely on (votes, own epochs, own slots, own role) is sent only when it is
//! durable; with `cluster-config-save-behavior best-effort`, all but votes may also be sent after a failed
//! write.
//!
//! Ids such as N-7, E-53 or M3, in comments and names of tests, and sections such as 2.3, are those of the
//! specification of the bus; `docs/formats/cluster-bus.md` describes the messages.
#![forbid(unsafe_code)]

mod address;
mod addresses;
mod candidacy;
mod candidate;
mod claims;
mod commands;
pub mod conf;
mod cron;
mod durable;
mod epochs;
mod failure;
mod fuzz;
mod gossip;
mod health;
mod id;
mod id_index;
mod info;
mod input;
mod invariants;
mod leaving;
mod link;
mod link_key;
mod machine;
mod manual;
mod map;
mod meet;
mod migration;
mod node;
mod open_slots;
mod orphans;
mod output;
mod receive;
mod redirect;
mod reports;
mod roles;
mod saved;
mod send;
mod setslot;
mod settings;
mod slots;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
pub mod text;
mod twins;
mod voter;
pub mod wire;

pub use address::{AskingClient, BusTransport, IpText, NodeAddress, NodeLabels};
pub use candidate::FailoverKind;
pub use conf::StartRefused;
pub use cron::CRON_MS;
pub use durable::SaveCounts;
pub use fuzz::{fuzz_bus_packets, fuzz_nodes_conf};
pub use id::{ClusterEpoch, NodeId, ShardId};
pub use info::{ClusterInfo, LinkFacts, NodeFacts};
pub use input::{
    ClusterCommand, ClusterInput, DialMoment, HasKeys, LinkDirection, ResetKind, SetSlot, SlotAction,
};
pub use link_key::LinkKey;
pub use migration::convergence::{Convergence, ConvergenceStep};
pub use migration::establish::OwnersOfRanges;
pub use migration::held::{AWAITED_NS_MAX, HeldAction, HeldMessage, is_awaited};
pub use migration::job::MigrationRow;
pub use migration::{
    ExportHandshake, ExportInput, ImportFault, JobName, MOVE_TIMED_OUT, MigrationInput, MigrationOrder,
    ReportSource, SlotMove, SlotsToMove, SyncMessage,
};
pub use node::{Initiator, Ms, NodeHealth, NodeStanding};
pub use open_slots::OpenSlotList;
pub use output::{
    BusLane, ClusterAnswer, ClusterOutput, ClusterState, ExitReason, Generation, LostSlots, MapNode,
    PublishScope, RoleChange, SlotMap, Synchronisation, Ticket, newest_map,
};
pub use redirect::{DownRules, KeyCounts, SlotRequest, SlotVerdict};
pub use saved::{OwnLine, SavedCluster, SavedEpochs, SavedNode, SavedRole};
pub use settings::{
    BusDebug, ClusterSettings, MigrationRules, OnPacketDrop, OwnAddress, PacketFilter, ReplicaRules,
    SaveBehavior, Switch,
};
pub use slots::{BITMAP_LEN, HashSlot, NamedSlots, SLOT_COUNT, SlotSet};
pub use statistics::Statistics;
pub use table::{BLACKLIST_MAX, HANDSHAKES_MAX, NODES_MAX};

use link::{BusLink, DialTarget, LinkKind, SendQueue};
use machine::{ClusterMachine, Epochs, ManualFailover, StepTime, log};
use migration::{establish, export, import};
use node::{ClusterNode, NodeRole};
use sluice_base::{Now, Rng};
use std::net::IpAddr;
use std::sync::Arc;
use table::NodeTable;
use wire::ReceiveBuffer;

/// A connection is accepted only while fewer links are open than four for each known node plus this number
/// (G-5).
const UNKNOWN_LINKS_MAX: usize = 64;

/// The state machine of a cluster's node: [`Cluster::step`] takes an input, [`Cluster::next_output`]
/// returns the requests that follow from it.
pub struct Cluster {
    machine: ClusterMachine,
    inputs: u64,
}

impl Cluster {
    /// A node at the start of its process, from the text of its file; an empty or missing file makes a new
    /// node. Parts of the file that are ignored are logged; `local` are the addresses of this computer, as
    /// far as they are known.
    pub fn start(
        now: Now,
        settings: Arc<ClusterSettings>,
        seed: u64,
        file: Option<&[u8]>,
        local: &[IpAddr],
    ) -> Result<Cluster, StartRefused> {
        let Some(text) = file.filter(|text| !text.is_empty()) else {
            return Ok(Cluster::new(now, settings, seed));
        };
        let read = conf::read(text, settings.transport)?;
        let mut cluster = Cluster::load(now, settings, seed, &read.saved, local);
        let m = &mut cluster.machine;
        for (level, text) in read.repairs.into_iter().filter(|(level, _)| m.settings.log_level <= *level) {
            m.out.push_back(ClusterOutput::Log(level, text));
        }
        Ok(cluster)
    }

    /// A node without a file: a new id, a new shard, a primary without slots (N-18). The first outputs
    /// write the file.
    pub fn new(now: Now, settings: Arc<ClusterSettings>, seed: u64) -> Cluster {
        let mut rng = Rng::new(seed);
        let id = NodeId::random(&mut rng);
        let shard = ShardId::random(&mut rng);
        let time = step_time(now);
        let mut me = ClusterNode::new(id, shard, time.now);
        me.shard = Some(shard);
        me.role = NodeRole::Primary;
        me.marks.capabilities = send::CAPABILITIES;
        let table = NodeTable::new(me, machine::index_seed(&rng));
        let mut machine = ClusterMachine::new(table, Epochs::default(), settings, rng);
        machine.time = time;
        log!(machine, Notice, "No cluster configuration found, I'm {id}");
        machine.save();
        let mut cluster = Cluster { machine, inputs: 0 };
        cluster.apply_settings();
        cluster.settle();
        cluster
    }

    /// A node that continues from its file. `local` are the addresses of this computer, as far as they are
    /// known.
    pub fn load(
        now: Now,
        settings: Arc<ClusterSettings>,
        seed: u64,
        saved: &SavedCluster,
        local: &[IpAddr],
    ) -> Cluster {
        let machine = saved::load(step_time(now), settings, seed, saved, local);
        let mut cluster = Cluster { machine, inputs: 0 };
        cluster.apply_settings();
        cluster.resume_replication();
        cluster.settle();
        cluster
    }

    /// At the start of the process, makes a replica follow its primary again if the primary's address is
    /// known (R5); if the address becomes known later, `addresses.rs` does this.
    fn resume_replication(&mut self) {
        let m = &mut self.machine;
        let Some(primary) = m.table.me().primary() else { return };
        let node = m.table.node(primary);
        let (node, address) = (node.id, node.place.address.clone());
        if address.ip.is_empty() {
            return;
        }
        let synchronisation = Synchronisation::Partial;
        m.out.push_back(ClusterOutput::Role(RoleChange::ReplicaOf { node, address, synchronisation }));
    }

    /// Handles one input. Outputs follow from [`Cluster::next_output`].
    pub fn step(&mut self, now: Now, input: &ClusterInput<'_>) {
        self.machine.advance(step_time(now));
        self.handle(input);
        let may_wait = matches!(input, ClusterInput::ReceivedMessage { .. } | ClusterInput::Sent { .. });
        if !may_wait && std::mem::take(&mut self.machine.todo.reconsider) {
            self.machine.reconsider();
        }
        self.settle();
        // `Sent` does not count, because written bytes change nothing that is shown of nodes.
        self.inputs += u64::from(!matches!(input, ClusterInput::Sent { .. }));
        #[cfg(test)]
        invariants::check(&self.machine);
    }

    /// The next output; outputs have to be carried out in this order.
    pub fn next_output(&mut self) -> Option<ClusterOutput> {
        self.machine.out.pop_front()
    }

    /// Whether [`Cluster::next_output`] would return an output.
    pub fn has_outputs(&self) -> bool {
        !self.machine.out.is_empty()
    }

    /// Adds an accepted connection. `None` if there are too many links (G-5); the caller then has to close
    /// the connection.
    pub fn accept(&mut self, now: Now, peer: IpAddr, local: IpAddr) -> Option<LinkKey> {
        self.inputs += 1;
        self.machine.advance(step_time(now));
        let m = &mut self.machine;
        if m.links.len() >= UNKNOWN_LINKS_MAX + 4 * m.table.len() {
            return None;
        }
        let (peer, local) = (addresses::text(peer), addresses::text(local));
        Some(m.links.insert(BusLink {
            kind: LinkKind::In { node: None, greeted_by: None, peer, local },
            since: m.time.now,
            since_wall_ms: m.time.wall_ms,
            is_open: true,
            reads_extensions: false,
            pong_at: None,
            is_bound_there: false,
            queue: SendQueue::default(),
            inbox: ReceiveBuffer::default(),
            kept: 0,
        }))
    }

    /// Whether [`ClusterInput::IterationEnd`] is needed after the inputs of this event loop iteration. O(1).
    pub fn awaits_iteration_end(&self) -> bool {
        self.machine.todo.elect || self.machine.todo.reconsider
    }

    /// Whether [`ClusterInput::UnitEnd`] is needed once the present command or transaction ends. O(1).
    pub fn awaits_unit_end(&self) -> bool {
        self.machine.todo.is_in_unit
    }

    /// The time at which [`ClusterInput::Deadline`] is needed, if no other input precedes it. O(1).
    pub fn deadline(&self) -> Option<Ms> {
        health::deadline(&self.machine)
    }

    /// `cluster-node-timeout` (T), in ms.
    pub fn node_timeout_ms(&self) -> u64 {
        self.machine.settings.node_timeout_ms
    }

    /// The id of this node, which CLUSTER RESET HARD changes.
    pub fn id(&self) -> NodeId {
        self.machine.table.me().id
    }

    /// Executes a command of a client that cannot wait, as in a transaction. The answer is returned
    /// immediately, and may report a change that is not durable yet. Nothing is written, and no other node is
    /// told, before [`ClusterInput::UnitEnd`]. Outputs follow from [`Cluster::next_output`].
    pub fn execute_at_once(&mut self, now: Now, client: &str, command: &ClusterCommand<'_>) -> ClusterAnswer {
        self.inputs += 1;
        self.machine.time = step_time(now);
        let answer = commands::execute_at_once(&mut self.machine, client, command);
        self.machine.todo.is_in_unit = true;
        self.settle();
        answer
    }

    /// Checks whether a SETSLOT, ADDSLOTS or DELSLOTS could be executed now. Other commands always pass.
    ///
    /// # Errors
    /// The error for the client.
    pub fn check(&self, command: &ClusterCommand<'_>) -> Result<(), String> {
        match command {
            ClusterCommand::SetSlot(command) => setslot::check(&self.machine, command),
            ClusterCommand::AddSlots { slots } => commands::slots_to_add(&self.machine, slots).map(drop),
            ClusterCommand::DelSlots { slots } => commands::slots_to_delete(&self.machine, slots).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether this node is a primary.
    pub fn is_primary(&self) -> bool {
        self.machine.table.me().is_primary()
    }

    /// Whether this node is a primary with slots, whose vote counts.
    pub fn is_voter(&self) -> bool {
        self.machine.table.me().is_voter()
    }

    /// Asks this primary to hold its writes back, so that one of `candidates` (replicas that have all of
    /// the data) can take over. The chosen replica does so when it receives the command in the replication
    /// stream. Returns the chosen replica, or `None` if none of them can win, or slots are granted to the
    /// target of a move. The pause ends with this node's demotion or after `cluster-manual-failover-timeout`.
    /// Outputs follow from [`Cluster::next_output`].
    pub fn begin_handover(&mut self, now: Now, candidates: &[NodeId]) -> Option<NodeId> {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::begin_handover(&mut self.machine, candidates)
    }

    /// Records that this node is about to end. A replica then sends the offset 0, and starts no election by
    /// itself. Outputs follow from [`Cluster::next_output`].
    pub fn leave(&mut self, now: Now) {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::set_leaving(&mut self.machine, true);
        self.settle();
    }

    /// Revokes [`Cluster::leave`]: this node does not end. Outputs follow from [`Cluster::next_output`].
    pub fn stay(&mut self, now: Now) {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::set_leaving(&mut self.machine, false);
        self.settle();
    }

    /// Whether keys of a slot that another node owns may be deleted, because this node would not claim the
    /// slot after a restart (E-53). O(1).
    pub fn may_delete_keys_of(&self, slot: HashSlot) -> bool {
        !self.machine.durable.is_owned_in_file(slot)
    }

    /// Checks the conditions that concern only this node before slots may move to it: it must be a primary,
    /// and no slot may be open for a manual move with SETSLOT (A-10, rows 1 to 3).
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_import_at_all(&self) -> Result<(), String> {
        establish::check_node(&self.machine)
    }

    /// The node that slots are to move from.
    ///
    /// # Errors
    /// The error for the client.
    pub fn import_source(&self, text: &[u8]) -> Result<NodeId, String> {
        establish::source(&self.machine, text)
    }

    /// Adds a range of slots to those of a command, which must all have one owner.
    ///
    /// # Errors
    /// The error for the client.
    pub fn add_range(
        &self,
        owners: &mut OwnersOfRanges,
        first: HashSlot,
        last: HashSlot,
    ) -> Result<(), String> {
        owners.add(&self.machine, first, last)
    }

    /// Checks that these slots are in no other move to this node.
    ///
    /// # Errors
    /// The error for the client.
    pub fn are_free_to_import(&self, slots: impl Iterator<Item = HashSlot>) -> Result<(), String> {
        establish::check_free(&self.machine, slots)
    }

    /// Checks whether slots that all have one owner may move away from this node.
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_export(&self, slots: &SlotSet) -> Result<(), String> {
        export::check_slots(&self.machine, slots)
    }

    /// The node that slots are to move to.
    ///
    /// # Errors
    /// The error for the client.
    pub fn export_target(&self, text: &[u8]) -> Result<NodeId, String> {
        export::target(&self.machine, text)
    }

    /// The slots of a move from this node that is not finished; empty for any other name.
    pub fn slots_of_export(&self, job: JobName) -> impl Iterator<Item = HashSlot> + '_ {
        let exports = self.machine.keys.moves.exports().filter(move |export| export.name() == job);
        exports.filter(|export| !export.state.is_finished()).take(1).flat_map(|export| export.job.slots())
    }

    /// Number of unfinished moves, from and to this node.
    pub fn moves_under_way(&self) -> usize {
        self.imports_under_way() + self.machine.keys.moves.unfinished_exports().len()
    }

    /// Whether any move from this node is unfinished.
    pub fn has_exports(&self) -> bool {
        !self.machine.keys.moves.unfinished_exports().is_empty()
    }

    /// The latest time until which writers may be held back for a move from this node, ms of the monotonic
    /// clock. `None` if no move holds writers.
    pub fn moves_hold_until_ms(&self) -> Option<u64> {
        let exports = self.machine.keys.moves.exports().filter(|export| !export.state.is_finished());
        exports.filter_map(|export| export.unpauses).max()
    }

    /// Checks whether a move to this node may begin now.
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_import(&self, job: &SlotMove) -> Result<(), String> {
        establish::check(&self.machine, job)
    }

    /// The rows of CLUSTER GETSLOTMIGRATIONS, newest job first.
    pub fn migrations(&self) -> impl Iterator<Item = MigrationRow<'_>> {
        let me = self.id();
        self.machine.keys.moves.rows(me)
    }

    /// Number of unfinished moves to this node or to its primary.
    pub fn imports_under_way(&self) -> usize {
        self.machine.keys.moves.iter().filter(|job| !job.state.is_finished()).count()
    }

    /// Whether a move with this name to this node or to its primary is unfinished.
    pub fn has_import(&self, name: JobName) -> bool {
        self.machine.keys.moves.iter().any(|job| job.name() == name && !job.state.is_finished())
    }

    /// Whether this node itself carries out an unfinished move with this name.
    pub fn carries_out(&self, name: JobName) -> bool {
        self.machine.keys.moves.of_this_node().contains(&name)
    }

    /// The id of this node's shard, as clients see it.
    pub fn shard_id(&self) -> ShardId {
        self.machine.table.me().shown_shard()
    }

    /// The lines of CLUSTER REPLICAS for the node whose id is the text `node`, without ends of lines.
    ///
    /// # Errors
    /// The error for the client: the node is unknown, or no primary.
    pub fn replica_lines(&self, node: &[u8], client: AskingClient) -> Result<Vec<String>, String> {
        info::replica_lines(&self.machine, node, client)
    }

    /// The last offset that a node has sent, or this node's own; `None` for an unknown node.
    pub fn offset(&self, node: &NodeId) -> Option<u64> {
        let table = &self.machine.table;
        table.find(node).map(|ix| table.node(ix).offset)
    }

    /// Replicas that may be elected in place of this node, because they are not suspected and are allowed to
    /// fail over.
    pub fn electable_replicas(&self) -> impl Iterator<Item = NodeId> + '_ {
        let table = &self.machine.table;
        let is_electable = |node: &ClusterNode| {
            node.primary() == Some(table.my_ix()) && node.is_up() && !node.marks.no_failover
        };
        table.iter().map(|(_, node)| node).filter(move |node| is_electable(node)).map(|node| node.id)
    }

    /// Number of replicas of this node that are not in `known` and may be elected some day,
    /// suspected ones included.
    pub fn other_replicas(&self, known: &[NodeId]) -> usize {
        let table = &self.machine.table;
        let may_stand = |node: &&ClusterNode| {
            node.primary() == Some(table.my_ix()) && !node.marks.no_failover && !known.contains(&node.id)
        };
        table.iter().map(|(_, node)| node).filter(may_stand).count()
    }

    /// The newest map among the outputs that are not drained yet.
    pub fn awaited_map(&self) -> Option<&Arc<SlotMap>> {
        output::newest_map(self.machine.out.iter())
    }

    /// The replication offset that this node sends to other nodes.
    pub fn own_offset(&self) -> u64 {
        self.machine.table.me().offset
    }

    /// Whether this replica starts an election as soon as it has executed its paused primary's stream to the
    /// end. If so, its offset is needed at once (M-4).
    pub fn awaits_own_offset(&self) -> bool {
        candidate::awaits_offset(&self.machine)
    }

    /// Whether this primary pauses so that a replica can take over. If so, its offset must not advance (M-3).
    pub fn is_handing_over(&self) -> bool {
        self.machine.failover.paused != machine::ManualFailover::Off
    }

    /// Bytes queued on links, and bytes of incomplete messages.
    pub fn link_bytes(&self) -> usize {
        self.machine.links.iter().map(|(_, link)| link.queue.memory() + link.kept).sum()
    }

    /// The figures of CLUSTER INFO.
    pub fn info(&self) -> ClusterInfo {
        info::info(&self.machine)
    }

    /// The nodes as the web page for operators shows them, in no particular order. Nodes that are still in
    /// the handshake are left out.
    pub fn nodes(&self) -> impl Iterator<Item = NodeFacts<'_>> {
        info::nodes(&self.machine)
    }

    /// The rows of CLUSTER LINKS.
    pub fn links(&self) -> impl Iterator<Item = LinkFacts> + '_ {
        info::links(&self.machine)
    }

    /// Sets all counters to 0, for CONFIG RESETSTAT.
    pub fn reset_statistics(&mut self) {
        self.machine.statistics = Statistics::default();
    }

    /// The text of `nodes.conf` at this moment, for a process that ends (N-21).
    pub fn file_text(&self) -> Arc<[u8]> {
        Arc::from(info::file_text(&self.machine))
    }

    /// Number of bus connections in a healthy cluster: two with each known node (G-33).
    pub fn connections_wanted(&self) -> usize {
        2 * self.machine.table.len().saturating_sub(1)
    }

    /// The reply of CLUSTER NODES to a caller without a connection.
    pub fn nodes_text(&self) -> String {
        let is_tls = self.machine.settings.transport == BusTransport::Tls;
        self.nodes_text_for(AskingClient { is_ipv6: false, is_tls })
    }

    /// Number of inputs that may have changed what is shown of nodes. A text that was made at the same number
    /// is still current. O(1).
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// The reply of CLUSTER NODES to a client (N-14). O(nodes and their runs of slots).
    pub fn nodes_text_for(&self, client: AskingClient) -> String {
        info::nodes_text(&self.machine, client)
    }

    fn handle(&mut self, input: &ClusterInput<'_>) {
        let m = &mut self.machine;
        match *input {
            ClusterInput::Tick => cron::tick(m),
            ClusterInput::Deadline => cron::expired(m),
            ClusterInput::Suspension => health::after_standstill(m),
            ClusterInput::Connected { link } => cron::connected(m, link),
            ClusterInput::ReceivedMessage { link, bytes } => receive::bytes(m, link, bytes),
            ClusterInput::Sent { link, lane, bytes } => info::sent(m, link, lane, bytes),
            ClusterInput::Closed { link } => m.lost(link),
            ClusterInput::DialFailed { link, moment } => self.dial_failed(link, moment),
            ClusterInput::Resolved { node, addresses } => {
                if let Some(ix) = m.table.find(&node) {
                    addresses::resolved(m, ix, addresses);
                }
            }
            ClusterInput::Saved { generation } => m.todo.map |= m.durable.saved(generation),
            ClusterInput::SaveFailed { generation } => self.save_failed(generation),
            ClusterInput::Offset(offset) => {
                // The map shows a replica at offset 0 as loading (N-8), so a change from or to 0 needs a
                // new map.
                let offset = leaving::offset_to_tell(m, offset);
                let was_loading = std::mem::replace(&mut m.table.me_mut().offset, offset) == 0;
                m.todo.map |= was_loading != (offset == 0);
                m.todo.elect |= candidate::is_near(m);
            }
            ClusterInput::WritesPaused { offset } => manual::paused(m, offset),
            ClusterInput::PrimaryContact { at } => m.failover.candidacy.contact = at,
            ClusterInput::KeysIn(slots) => claims::check_keys(m, slots),
            ClusterInput::HasKeys(keys) => {
                m.keys.has_any = keys == HasKeys::Yes;
                m.keys.are_known = true;
            }
            ClusterInput::IterationEnd => {
                if m.todo.elect {
                    candidate::advance(m);
                }
            }
            ClusterInput::UnitEnd => m.todo.is_in_unit = false,
            ClusterInput::OpenSlots(open) => saved::reopen(m, open),
            ClusterInput::Command { ticket, client, ref command } => {
                commands::execute(m, ticket, client, command)
            }
            ClusterInput::Settings(settings) => {
                m.settings = Arc::clone(settings);
                m.table.all_due();
                self.apply_settings();
            }
            ClusterInput::Publish { channel, message, scope } => send::publish(m, channel, message, scope),
            ClusterInput::Migration(input) => import::handle(m, input),
        }
    }

    /// Handles a failed dial. If the call that opens the connection fails, the node counts as pinged from
    /// now on, so that it is suspected after the node timeout (G-3).
    fn dial_failed(&mut self, key: LinkKey, moment: DialMoment) {
        let m = &mut self.machine;
        let Some(LinkKind::Out { node, target }) = m.links.get(key).map(|link| &link.kind) else { return };
        let ix = *node;
        let address = match target {
            DialTarget::AnnouncedLabels => m.table.node(ix).place.address.clone(),
            DialTarget::Candidate(address) => address.clone(),
        };
        let is_announced = *target == DialTarget::AnnouncedLabels;
        m.unlink(key);
        let now = m.time.now;
        if is_announced {
            addresses::unreachable(m, ix);
        }
        match moment {
            DialMoment::AtOnce => {
                m.table.node_mut(ix).clocks.ping_sent.get_or_insert(now);
            }
            DialMoment::Later => {
                log!(
                    m,
                    Verbose,
                    "Connection with Node {} at {}:{} failed",
                    m.name(ix),
                    address.ip,
                    address.bus_port
                );
            }
        }
    }

    /// Handles a failed write of `nodes.conf`. With `cluster-config-save-behavior sync` the process ends
    /// (N-22); with `best-effort` the process continues, and this node does not vote until a write has
    /// succeeded (N-23).
    fn save_failed(&mut self, generation: Generation) {
        let m = &mut self.machine;
        match m.settings.save_behavior {
            SaveBehavior::Sync => {
                log!(m, Warning, "Fatal: can't update cluster config file.");
                m.out.push_back(ClusterOutput::End(ExitReason::ConfigNotSaved));
            }
            SaveBehavior::BestEffort => {
                m.todo.map |= m.durable.failed(generation, m.time.now);
                if m.durable.says_failure(m.time.now) {
                    log!(
                        m,
                        Warning,
                        "Cluster config updated even though writing the cluster config file to disk failed."
                    );
                }
            }
        }
    }

    /// Copies settings into this node's own record.
    fn apply_settings(&mut self) {
        let m = &mut self.machine;
        let announced = &m.settings.announced;
        let no_failover = m.settings.replica.no_failover;
        let me = m.table.me_mut();
        let address = NodeAddress {
            ip: announced.ip.clone().unwrap_or_else(|| IpText::clone(&me.place.address.ip)),
            tcp_port: announced.tcp_port,
            tls_port: announced.tls_port,
            bus_port: announced.bus_port,
        };
        let is_same = me.place.address == address
            && me.place.labels == announced.labels
            && me.marks.no_failover == no_failover;
        if !is_same {
            me.place.address = address;
            me.place.labels = announced.labels.clone();
            me.marks.no_failover = no_failover;
            m.save();
        }
        m.reconsider();
        export::settings_changed(m);
    }

    /// The end of each step: advances moves to this node, evaluates the cluster's state, begins a write of
    /// the file, releases withheld messages, and queues the new map and the outputs that must follow it.
    fn settle(&mut self) {
        let m = &mut self.machine;
        failure::note_my_primary(m);
        import::advance(m);
        if std::mem::take(&mut m.todo.evaluate) {
            health::evaluate(m);
        }
        if !m.todo.is_in_unit && m.durable.wants_write(m.time.now) {
            let file = Arc::from(info::file_text(m));
            let view = m.view();
            let generation = m.durable.begin(view, m.table.me().slots.clone(), m.time.now);
            m.out.push_back(ClusterOutput::Persist { generation, file });
        }
        while let Some(held) = m.durable.release() {
            send::release(m, held);
        }
        if std::mem::take(&mut m.todo.map) {
            let map = Arc::new(map::of(m));
            m.out.push_back(ClusterOutput::Slots(map));
        }
        // `Unpause` follows the output of the new map. With the old map, writes that waited would be executed
        // here, not redirected, and would be lost (S-26).
        if std::mem::take(&mut m.todo.unpause) && m.failover.paused == ManualFailover::Off {
            m.out.push_back(ClusterOutput::Unpause);
        }
        for job in std::mem::take(&mut m.keys.moves.ended) {
            m.out.push_back(ClusterOutput::Migration(MigrationOrder::EndExport { job }));
        }
    }
}

fn step_time(now: Now) -> StepTime {
    StepTime { now: now.mono_ns / 1_000_000, wall_ms: now.unix_ms() }
}

//! A node of a cluster as one state machine: the bus's messages, the nodes, who owns which slot, who has
//! failed, who may follow whom.
//!
//! Invariants: (1) no socket, file, thread, clock, key or client: time comes in with each step, and what is
//! wanted goes out as outputs that are drained; (2) a machine is a function of its inputs and its seed, so
//! that a simulation can replay it; (3) a message changes nothing before the whole of it has been checked;
//! (4) what others may rely on (votes, own epochs, own slots, own role) is told when it is durable, and no
//! earlier.
//!
//! Ids in comments and names of tests (N-7, G-16, F-4, E-53; R1, M3 without dash) are those of the
//! specification of the bus.
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
pub use migration::job::MigrationRow;
pub use migration::kept::{AWAITED_NS_MAX, KeptStep, KeptWord, is_awaited};
pub use migration::{
    ExportHandshake, ExportInput, ImportFault, JobName, MOVE_TIMED_OUT, MigrationInput, MigrationOrder,
    SlotMove, SlotsToMove, SyncWord, ToldBy,
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

/// Links in without a node that are kept beside twice the nodes that are known (G-5).
const STRANGERS_MAX: usize = 64;

/// A node of a cluster.
pub struct Cluster {
    machine: ClusterMachine,
    inputs: u64,
}

impl Cluster {
    /// A node at the start of its process, which goes on from its file: without a file, or from an empty
    /// one, a new node. Lines of the log tell what of the file is passed over; `local` are the machine's
    /// addresses, as far as they are known.
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

    /// A node that has no file yet: a new id, a new shard, a primary without slots (N-18). The first outputs
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

    /// A node that goes on from its file. `local` are the machine's addresses, as far as they are known.
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

    /// A replica begins with its primary again once it has an address (R5).
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

    /// One event. Outputs follow from [`Cluster::next_output`].
    pub fn step(&mut self, now: Now, input: &ClusterInput<'_>) {
        // A unit that has stood open publishes at its own time, which the bus has passed.
        let time = step_time(now);
        if time.now >= self.machine.time.now {
            self.machine.time = time;
        }
        self.handle(input);
        let may_wait = matches!(input, ClusterInput::ReceivedMessage { .. } | ClusterInput::Sent { .. });
        if !may_wait && std::mem::take(&mut self.machine.todo.reconsider) {
            self.machine.reconsider();
        }
        self.settle();
        // What was written says nothing of nodes.
        self.inputs += u64::from(!matches!(input, ClusterInput::Sent { .. }));
        #[cfg(test)]
        invariants::check(&self.machine);
    }

    /// The next output, in the order in which outputs have to be carried out.
    pub fn next_output(&mut self) -> Option<ClusterOutput> {
        self.machine.out.pop_front()
    }

    /// Whether [`Cluster::next_output`] has something.
    pub fn has_outputs(&self) -> bool {
        !self.machine.out.is_empty()
    }

    /// A connection was accepted. `None`: it has to be closed, there are too many of strangers (G-5).
    pub fn accept(&mut self, now: Now, peer: IpAddr, local: IpAddr) -> Option<LinkKey> {
        self.inputs += 1;
        let m = &mut self.machine;
        m.time = step_time(now);
        if m.links.len() >= STRANGERS_MAX + 4 * m.table.len() {
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

    /// Whether [`ClusterInput::IterationEnd`] is wanted once the inputs of this event loop iteration are
    /// stepped. O(1).
    pub fn awaits_iteration_end(&self) -> bool {
        self.machine.todo.elect || self.machine.todo.reconsider
    }

    /// Whether [`ClusterInput::UnitEnd`] is wanted once no unit stands open. O(1).
    pub fn awaits_unit_end(&self) -> bool {
        self.machine.todo.is_in_unit
    }

    /// When [`ClusterInput::Deadline`] is wanted, if nothing happens before. O(1).
    pub fn deadline(&self) -> Option<Ms> {
        health::deadline(&self.machine)
    }

    /// T, `cluster-node-timeout`, in ms.
    pub fn node_timeout_ms(&self) -> u64 {
        self.machine.settings.node_timeout_ms
    }

    /// This node's id.
    pub fn id(&self) -> NodeId {
        self.machine.table.me().id
    }

    /// One command of a client that cannot wait, as in a transaction: the answer comes at once, and may tell
    /// of what is not durable yet. Nothing is written, and so nobody is told, before
    /// [`ClusterInput::UnitEnd`]. Outputs follow from [`Cluster::next_output`].
    pub fn execute_at_once(&mut self, now: Now, client: &str, command: &ClusterCommand<'_>) -> ClusterAnswer {
        self.inputs += 1;
        self.machine.time = step_time(now);
        let answer = commands::execute_at_once(&mut self.machine, client, command);
        self.machine.todo.is_in_unit = true;
        self.settle();
        answer
    }

    /// Whether a SETSLOT, ADDSLOTS or DELSLOTS could be executed now. Other commands are not asked.
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

    /// Whether this node follows no other.
    pub fn is_primary(&self) -> bool {
        self.machine.table.me().is_primary()
    }

    /// Whether this node is a primary with slots, whose vote counts.
    pub fn is_voter(&self) -> bool {
        self.machine.table.me().is_voter()
    }

    /// Has this primary hold its writes back, so that one of `candidates`, replicas with all of the data,
    /// can take over when the stream orders that. The result is the chosen one, or none where the bus
    /// reaches none of them. This node's demotion ends the pause, or `cluster-manual-failover-timeout` does.
    /// Outputs follow from [`Cluster::next_output`].
    pub fn begin_handover(&mut self, now: Now, candidates: &[NodeId]) -> Option<NodeId> {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::begin_handover(&mut self.machine, candidates)
    }

    /// This node is about to end: as a replica it tells the offset 0, and stands for no election. Outputs
    /// follow from [`Cluster::next_output`].
    pub fn leave(&mut self, now: Now) {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::set_leaving(&mut self.machine, true);
        self.settle();
    }

    /// This node goes on, and does not end. Outputs follow from [`Cluster::next_output`].
    pub fn stay(&mut self, now: Now) {
        self.inputs += 1;
        self.machine.time = step_time(now);
        leaving::set_leaving(&mut self.machine, false);
        self.settle();
    }

    /// Whether keys of a slot that another node owns may be deleted: a start of this node would not take the
    /// slot for its own (E-53). O(1).
    pub fn may_delete_keys_of(&self, slot: HashSlot) -> bool {
        !self.machine.durable.is_owned_in_file(slot)
    }

    /// What stands in the way of any move of slots to this node (A-10, rows 1 to 3).
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_import_at_all(&self) -> Result<(), String> {
        establish::check_node(&self.machine)
    }

    /// The node that slots are to come from.
    ///
    /// # Errors
    /// The error for the client.
    pub fn import_source(&self, text: &[u8]) -> Result<NodeId, String> {
        establish::source(&self.machine, text)
    }

    /// Adds a range of slots to those of a command, which all have one owner.
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

    /// Whether these slots are in no other move to this node.
    ///
    /// # Errors
    /// The error for the client.
    pub fn are_free_to_import(&self, slots: impl Iterator<Item = HashSlot>) -> Result<(), String> {
        establish::check_free(&self.machine, slots)
    }

    /// Whether slots that all have one owner may leave this node.
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_export(&self, slots: &SlotSet) -> Result<(), String> {
        export::check_slots(&self.machine, slots)
    }

    /// The node that slots are to go to.
    ///
    /// # Errors
    /// The error for the client.
    pub fn export_target(&self, text: &[u8]) -> Result<NodeId, String> {
        export::target(&self.machine, text)
    }

    /// The slots of a move from this node that is not finished.
    pub fn slots_of_export(&self, job: JobName) -> impl Iterator<Item = HashSlot> + '_ {
        let exports = self.machine.keys.moves.exports().filter(move |export| export.name() == job);
        exports.filter(|export| !export.state.is_finished()).take(1).flat_map(|export| export.job.slots())
    }

    /// How many moves are not finished.
    pub fn moves_under_way(&self) -> usize {
        self.imports_under_way() + self.machine.keys.moves.unfinished_exports().len()
    }

    /// Whether a move from this node is not finished.
    pub fn has_exports(&self) -> bool {
        !self.machine.keys.moves.unfinished_exports().is_empty()
    }

    /// Until when writers of slots on their way from this node may be held at most, ms of the monotonic
    /// clock: of the move that may hold them longest. None where no move holds any.
    pub fn moves_hold_until_ms(&self) -> Option<u64> {
        let exports = self.machine.keys.moves.exports().filter(|export| !export.state.is_finished());
        exports.filter_map(|export| export.unpauses).max()
    }

    /// Whether a move to this node may begin now.
    ///
    /// # Errors
    /// The error for the client.
    pub fn may_import(&self, job: &SlotMove) -> Result<(), String> {
        establish::check(&self.machine, job)
    }

    /// Jobs as CLUSTER GETSLOTMIGRATIONS shows them, the newest first.
    pub fn migrations(&self) -> impl Iterator<Item = MigrationRow<'_>> {
        let me = self.id();
        self.machine.keys.moves.rows(me)
    }

    /// How many moves to this node, or to its primary, are not finished.
    pub fn imports_under_way(&self) -> usize {
        self.machine.keys.moves.iter().filter(|job| !job.state.is_finished()).count()
    }

    /// Whether a move of this name is not finished.
    pub fn has_import(&self, name: JobName) -> bool {
        self.machine.keys.moves.iter().any(|job| job.name() == name && !job.state.is_finished())
    }

    /// Whether this node carries out a move of this name that is not finished.
    pub fn carries_out(&self, name: JobName) -> bool {
        self.machine.keys.moves.of_this_node().contains(&name)
    }

    /// The id of this node's shard.
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

    /// The offset that a node has told last, or this node's own.
    pub fn offset(&self, node: &NodeId) -> Option<u64> {
        let table = &self.machine.table;
        table.find(node).map(|ix| table.node(ix).offset)
    }

    /// Replicas of this node that may be elected in its place: they are not suspected, and may fail over.
    pub fn electable_replicas(&self) -> impl Iterator<Item = NodeId> + '_ {
        let table = &self.machine.table;
        let is_electable = |node: &ClusterNode| {
            node.primary() == Some(table.my_ix()) && node.is_up() && !node.marks.no_failover
        };
        table.iter().map(|(_, node)| node).filter(move |node| is_electable(node)).map(|node| node.id)
    }

    /// How many replicas of this node beside these may be elected one day, suspected ones too.
    pub fn other_replicas(&self, known: &[NodeId]) -> usize {
        let table = &self.machine.table;
        let may_stand = |node: &&ClusterNode| {
            node.primary() == Some(table.my_ix()) && !node.marks.no_failover && !known.contains(&node.id)
        };
        table.iter().map(|(_, node)| node).filter(may_stand).count()
    }

    /// The newest map among the outputs that nobody has taken.
    pub fn awaited_map(&self) -> Option<&Arc<SlotMap>> {
        output::newest_map(self.machine.out.iter())
    }

    /// The offset that this node tells the others.
    pub fn own_offset(&self) -> u64 {
        self.machine.table.me().offset
    }

    /// Whether this replica stands for election as soon as it has executed its paused primary's stream to the
    /// end: its offset is of interest at once (M-4).
    pub fn awaits_own_offset(&self) -> bool {
        candidate::awaits_offset(&self.machine)
    }

    /// Whether this primary pauses so that one of its replicas can take over: nothing may move its offset
    /// (M-3).
    pub fn is_handing_over(&self) -> bool {
        self.machine.failover.paused != machine::ManualFailover::Off
    }

    /// Bytes that links have queued, and what they keep of unfinished messages.
    pub fn link_bytes(&self) -> usize {
        self.machine.links.iter().map(|(_, link)| link.queue.memory() + link.kept).sum()
    }

    /// The numbers of CLUSTER INFO.
    pub fn info(&self) -> ClusterInfo {
        info::info(&self.machine)
    }

    /// The nodes as a page for operators shows them, without those of a handshake, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeFacts<'_>> {
        info::nodes(&self.machine)
    }

    /// Links with a node, as CLUSTER LINKS shows them.
    pub fn links(&self) -> impl Iterator<Item = LinkFacts> + '_ {
        info::links(&self.machine)
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&mut self) {
        self.machine.statistics = Statistics::default();
    }

    /// What `nodes.conf` would hold of this moment, for a process that ends (N-21).
    pub fn file_text(&self) -> Arc<[u8]> {
        Arc::from(info::file_text(&self.machine))
    }

    /// How many connections of the bus this node has when all is well: two with each node that it knows
    /// (G-33).
    pub fn connections_wanted(&self) -> usize {
        2 * self.machine.table.len().saturating_sub(1)
    }

    /// What `CLUSTER NODES` shows of every node to somebody without a connection.
    pub fn nodes_text(&self) -> String {
        let is_tls = self.machine.settings.transport == BusTransport::Tls;
        self.nodes_text_for(AskingClient { is_ipv6: false, is_tls })
    }

    /// How many events there were of which what is shown of nodes may be another one: a text that was made
    /// at the same number is still right. O(1).
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// What `CLUSTER NODES` shows of every node to a client (N-14). O(nodes and their runs of slots).
    pub fn nodes_text_for(&self, client: AskingClient) -> String {
        info::nodes_text(&self.machine, client)
    }

    fn handle(&mut self, input: &ClusterInput<'_>) {
        let m = &mut self.machine;
        match *input {
            ClusterInput::Tick => cron::tick(m),
            ClusterInput::Deadline => cron::expired(m),
            ClusterInput::StoodStill => health::stood_still(m),
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
                // A replica at 0 is loading, which the map shows (N-8).
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

    /// A dial that failed in the call starts the clock of suspicion (G-3).
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

    /// A failed write ends the process, or bars votes (N-22, N-23).
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

    /// Settings as far as they are kept in this node's own record.
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

    /// The end of each step: state of the cluster, what may be told, what has to be written, the map.
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
        // By the map of before, writes that waited would be executed here and be lost (S-26).
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

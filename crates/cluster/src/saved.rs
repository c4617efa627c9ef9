//! The contents of `nodes.conf` as plain data, and the state machine that starts from them (N-15 to N-17,
//! N-26, N-27).
//!
//! Invariants: (1) the table is consistent for any data: of several claims of a slot, or lines with the same
//! id, the first counts, and a cycle in which replicas name each other as primary is broken; (2) after the
//! load, other nodes receive no claim that the file did not hold.

use crate::address::{IpText, NodeAddress, NodeLabels};
use crate::addresses;
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::machine::{ClusterMachine, Epochs, StepTime, Sureness, VoteRight, index_seed, log};
use crate::node::{ClusterNode, NodeHealth, NodeIx, NodeRole, NodeStanding};
use crate::open_slots::OpenSlotList;
use crate::roles;
use crate::send;
use crate::settings::ClusterSettings;
use crate::slots::{HashSlot, SlotSet};
use crate::table::{NODES_MAX, NodeTable};
use sluice_base::Rng;
use sluice_base::mistake::{Mistake, is_made};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// The line of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedNode {
    /// The id in the line's first field.
    pub id: NodeId,
    /// The node's address and ports.
    pub address: NodeAddress,
    /// The node's names, and its addresses for clients.
    pub labels: NodeLabels,
    /// The shard, if the line names one.
    pub shard: Option<ShardId>,
    /// The node's role by its flags.
    pub role: SavedRole,
    /// Whether flag FAIL is set.
    pub is_failed: bool,
    /// Whether flag NOADDR is set.
    pub is_without_address: bool,
    /// Whether flag NOFAILOVER is set.
    pub no_failover: bool,
    /// The node's config epoch. It is not read for a replica of a known primary.
    pub config_epoch: ClusterEpoch,
    /// The slots that the node owns by its line.
    pub slots: SlotSet,
}

/// The role that the flags of a line give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedRole {
    /// No flag names a role.
    Unknown,
    /// Flag `master` is set.
    Primary,
    /// Flag `slave` is set; the id is the primary's, if the line has one.
    Replica(Option<NodeId>),
}

/// All lines of one `nodes.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCluster {
    /// The line of this node.
    pub me: SavedNode,
    /// Whether that line could be read as a whole (N-26).
    pub own_line: OwnLine,
    /// The lines of the other nodes.
    pub others: Vec<SavedNode>,
    /// Slots that migrate away from this node, each with its target.
    pub migrating: Vec<(HashSlot, NodeId)>,
    /// Slots that this node imports, each with its source.
    pub importing: Vec<(HashSlot, NodeId)>,
    /// The epochs of the line `vars`.
    pub epochs: SavedEpochs,
}

/// The epochs in the line `vars`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedEpochs {
    /// currentEpoch; 0 if it could not be read.
    pub current: ClusterEpoch,
    /// lastVoteEpoch; `None` if it could not be read, so that the node may have voted in any epoch (N-27).
    pub last_vote: Option<ClusterEpoch>,
}

/// How much of this node's own line could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnLine {
    /// The line could be read. An invalid value, for example an invalid name, counts as absent (N-25).
    Whole,
    /// The line could not be read as a whole, so the node is not sure of its role and slots.
    Damaged,
}

/// The state machine that starts from a file. `local` are addresses of the host, with which `own_address`
/// corrects this node's saved address.
pub(crate) fn load(
    time: StepTime,
    settings: Arc<ClusterSettings>,
    seed: u64,
    saved: &SavedCluster,
    local: &[IpAddr],
) -> ClusterMachine {
    let mut rng = Rng::new(seed);
    let mut me = record(&saved.me, ShardId::random(&mut rng), time);
    me.shard.get_or_insert(me.made_up_shard);
    me.marks.capabilities = send::CAPABILITIES;
    me.health = NodeHealth::Up;
    me.standing = NodeStanding::Known;
    let SavedEpochs { current, last_vote } = saved.epochs;
    let mut last_vote = last_vote.unwrap_or_default();
    if is_made(Mistake::VoteNotReadBack) {
        last_vote = ClusterEpoch(0);
    }
    let epochs = Epochs { current: current.max(last_vote), last_vote };
    let table = NodeTable::new(me, index_seed(&rng));
    let mut m = ClusterMachine::new(table, epochs, settings, rng);
    m.time = time;
    for node in &saved.others {
        if m.table.len() >= NODES_MAX {
            break;
        }
        if m.table.find(&node.id).is_none() {
            let made_up = ShardId::random(&mut m.rng);
            m.table.insert(record(node, made_up, time));
        }
    }
    let lines = || std::iter::once(&saved.me).chain(&saved.others);
    lines().for_each(|node| set_role(&mut m, node));
    share_shards(&mut m);
    set_slots(&mut m, saved);
    m.cluster.has_come_back = m.table.me().slot_count > 0 && m.table.len() > 1;
    open_slots(&mut m, saved);
    for (_, node) in m.table.iter() {
        m.epochs.current = m.epochs.current.max(node.config_epoch);
    }
    if saved.own_line == OwnLine::Damaged {
        m.rights.sureness = Sureness::Unsure { warned: None };
    }
    if saved.epochs.last_vote.is_none() {
        m.rights.votes = VoteRight::EpochUnknown { since: time.now, heard: Vec::new() };
    }
    // This node's claim and slots come from the file, so they count as durable and may be sent.
    m.durable.loaded(m.view(), m.table.me().slots.clone());
    log!(m, Notice, "Node configuration loaded, I'm {}", saved.me.id);
    own_address(&mut m, local);
    m.save();
    m
}

fn record(saved: &SavedNode, made_up: ShardId, time: StepTime) -> ClusterNode {
    let mut node = ClusterNode::new(saved.id, made_up, time.now);
    node.shard = saved.shard;
    node.place.address = saved.address.clone();
    node.place.labels = saved.labels.clone();
    node.marks.no_failover = saved.no_failover;
    node.config_epoch = saved.config_epoch;
    if saved.is_without_address {
        node.standing = NodeStanding::NoAddr;
    }
    if saved.is_failed || saved.is_without_address {
        node.health = NodeHealth::Fail { since: time.now };
    }
    node
}

/// The node with this id. An id without a line gets a node of which only the id is known (N-16). `None`
/// if there are too many nodes.
fn named(m: &mut ClusterMachine, id: NodeId) -> Option<NodeIx> {
    if let Some(ix) = m.table.find(&id) {
        return Some(ix);
    }
    if m.table.len() >= NODES_MAX {
        return None;
    }
    let node = m.new_node(id);
    Some(m.table.insert(node))
}

fn set_role(m: &mut ClusterMachine, saved: &SavedNode) {
    let Some(ix) = m.table.find(&saved.id) else { return };
    if m.table.node(ix).role != NodeRole::Unknown {
        return;
    }
    match saved.role {
        SavedRole::Unknown => {}
        SavedRole::Primary => m.table.make_primary(ix),
        SavedRole::Replica(primary) => {
            let primary = primary.and_then(|id| named(m, id));
            let primary = primary.filter(|primary| !m.table.leads_to(*primary, ix));
            m.table.make_replica(ix, primary);
            if primary.is_some() {
                m.table.node_mut(ix).config_epoch = ClusterEpoch(0);
            }
        }
    }
    // This node is a primary if the file names no role for it.
    if ix == m.table.my_ix() && m.table.me().role == NodeRole::Unknown {
        m.table.make_primary(ix);
    }
}

/// Puts replicas into the shards of their primaries, whatever the order of the lines; a primary whose
/// line names no shard gets that of a replica.
fn share_shards(m: &mut ClusterMachine) {
    let replicas: Vec<(NodeIx, NodeIx)> =
        m.table.iter().filter_map(|(ix, node)| Some((ix, top(m, node.primary()?)))).collect();
    for (replica, top) in &replicas {
        if m.table.node(*top).shard.is_none() {
            m.table.node_mut(*top).shard = m.table.node(*replica).shard;
        }
    }
    for (replica, top) in replicas {
        roles::adopt_shard(m, replica, top);
    }
}

/// The last primary of the chain that begins at `ix`; the chain has no cycle.
fn top(m: &ClusterMachine, ix: NodeIx) -> NodeIx {
    let mut at = ix;
    while let Some(above) = m.table.node(at).primary() {
        at = above;
    }
    at
}

/// Gives slots to the nodes whose lines claim them. If several lines claim a slot, or several have the same
/// node id, the first counts. Claims of replicas, and of this node's line if it is damaged, do not count.
fn set_slots(m: &mut ClusterMachine, saved: &SavedCluster) {
    let mut seen = BTreeSet::new();
    for line in std::iter::once(&saved.me).chain(&saved.others) {
        let Some(ix) = m.table.find(&line.id) else { continue };
        let is_damaged = ix == m.table.my_ix() && saved.own_line == OwnLine::Damaged;
        if !seen.insert(ix) || m.table.node(ix).is_replica() || is_damaged {
            continue;
        }
        for slot in line.slots.iter() {
            if m.table.owner(slot).is_none() {
                m.table.bind(slot, ix);
            }
        }
    }
}

/// Replaces the known open slots by those of this node's primary (O-11). Has no effect on a primary.
pub(crate) fn reopen(m: &mut ClusterMachine, open: &OpenSlotList) {
    if !m.table.me().is_replica() {
        return;
    }
    let mut list = |slots: &[(HashSlot, NodeId)]| {
        slots
            .iter()
            .filter_map(|(slot, id)| Some((*slot, named(m, *id)?)))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let (migrating, importing) = (list(&open.migrating), list(&open.importing));
    if m.table.migrating != migrating || m.table.importing != importing {
        (m.table.migrating, m.table.importing) = (migrating, importing);
        m.reconsider();
        m.save();
    }
}

fn open_slots(m: &mut ClusterMachine, saved: &SavedCluster) {
    let my_ix = m.table.my_ix();
    for (slot, id) in &saved.migrating {
        let Some(ix) = named(m, *id) else { continue };
        if ix != my_ix && m.table.owner(*slot) == Some(my_ix) {
            m.table.migrating.insert(*slot, ix);
        }
    }
    for (slot, id) in &saved.importing {
        let Some(ix) = named(m, *id) else { continue };
        if ix != my_ix && m.table.owner(*slot) != Some(my_ix) {
            m.table.importing.insert(*slot, ix);
        }
    }
}

/// Replaces this node's saved address if the host is known not to have it and the configuration announces
/// none. The new address is the host's only non-loopback address; if there is not exactly one, it is empty
/// until the next MEET or PING shows it.
fn own_address(m: &mut ClusterMachine, local: &[IpAddr]) {
    let old = IpText::clone(&m.table.me().place.address.ip);
    let mut here =
        local.iter().filter(|ip| !ip.is_loopback() && !ip.is_unspecified()).map(|ip| addresses::text(*ip));
    let is_here = local.is_empty() || local.iter().any(|ip| addresses::text(*ip) == old);
    if old.is_empty() || is_here || m.settings.announced.ip.is_some() {
        return;
    }
    let new = here.next().filter(|_| here.next().is_none()).unwrap_or_else(|| "".into());
    log!(m, Notice, "IP address for this node updated to {new}, was {old}");
    m.table.me_mut().place.address.ip = new;
}

//! Nodes and their file (section 1).

use super::{Health, Stock, StockSettings, Todo};
use crate::cluster::stock::election::{Election, Manual};
use sluice_base::Rng;
use sluice_cluster::wire::NodeFlags;
use sluice_cluster::{NodeId, ShardId, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

/// A node (N-1), as far as the model needs it. Flags are those of the wire.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct StockNode {
    pub(in crate::cluster) shard: ShardId,
    pub(in crate::cluster) flags: u16,
    pub(in crate::cluster) config_epoch: u64,
    pub(in crate::cluster) slots: SlotSet,
    /// Slots that the node stopped claiming (E-12).
    pub(super) unclaimed: SlotSet,
    pub(in crate::cluster) primary: Option<NodeId>,
    pub(super) ip: String,
    pub(super) host_name: String,
    pub(super) created: u64,
    pub(super) ping_sent: u64,
    pub(super) pong_received: u64,
    pub(super) data_received: u64,
    pub(super) meet_sent: u64,
    pub(super) fail_time: u64,
    pub(super) link_in_lost: u64,
    pub(super) dialled: u64,
    pub(super) offset: u64,
    /// When each reporter reported (F-3).
    pub(super) reports: BTreeMap<NodeId, u64>,
    pub(in crate::cluster) link_out: Option<u64>,
    pub(in crate::cluster) link_in: Option<u64>,
}

impl StockNode {
    pub(in crate::cluster) fn has(&self, flag: NodeFlags) -> bool {
        self.flags & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: NodeFlags) {
        self.flags |= flag.0;
    }

    pub(super) fn clear(&mut self, flag: NodeFlags) {
        self.flags &= !flag.0;
    }

    pub(super) fn put(&mut self, flag: NodeFlags, is_set: bool) {
        if is_set { self.set(flag) } else { self.clear(flag) }
    }

    pub(super) fn is_voter(&self) -> bool {
        self.has(NodeFlags::PRIMARY) && !self.slots.is_empty()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.has(NodeFlags::PFAIL | NodeFlags::FAIL)
    }

    pub(super) fn become_primary(&mut self) {
        self.clear(NodeFlags::REPLICA);
        self.set(NodeFlags::PRIMARY);
        self.primary = None;
    }

    pub(super) fn become_replica(&mut self, primary: Option<NodeId>) {
        self.clear(NodeFlags::PRIMARY);
        self.set(NodeFlags::REPLICA);
        self.primary = primary;
    }
}

/// What the model keeps in place of `nodes.conf`.
#[derive(Clone)]
pub(in crate::cluster) struct StockFile {
    me: NodeId,
    nodes: BTreeMap<NodeId, StockNode>,
    current_epoch: u64,
    last_vote: u64,
}

/// Bits of 9.1.2, and of 8.0.
fn capabilities(settings: &StockSettings) -> NodeFlags {
    let old = NodeFlags::EXTENSIONS | NodeFlags::LIGHT_PUBLISH;
    if settings.is_old { old } else { old | NodeFlags::MULTI_MEET }
}

impl Stock {
    /// A node without a file (N-18).
    pub(in crate::cluster) fn new(now: u64, settings: StockSettings, seed: u64) -> Stock {
        let mut rng = Rng::new(seed);
        let me = NodeId::random(&mut rng);
        let file = StockFile { me, nodes: BTreeMap::new(), current_epoch: 0, last_vote: 0 };
        let mut stock = Stock::load(now, settings, rng.next_u64(), &file);
        let mut own = stock.new_node(NodeFlags::MYSELF | NodeFlags::PRIMARY);
        own.set(capabilities(&stock.settings));
        stock.nodes.insert(me, own);
        stock.todo.save = true;
        stock.settle();
        stock
    }

    /// A node that goes on from its file (N-15).
    pub(in crate::cluster) fn load(now: u64, settings: StockSettings, seed: u64, file: &StockFile) -> Stock {
        let mut nodes = file.nodes.clone();
        for (id, node) in &mut nodes {
            (node.link_out, node.link_in) = (None, None);
            (node.dialled, node.meet_sent, node.link_in_lost) = (0, 0, now);
            (node.created, node.data_received) = (now, now);
            node.reports.clear();
            node.clear(NodeFlags::MEET);
            // N-15: times that are not 0 become now; a FAIL begins now.
            node.ping_sent = if node.ping_sent == 0 { 0 } else { now };
            node.pong_received = if node.pong_received == 0 { 0 } else { now };
            node.fail_time = now;
            if *id == file.me {
                node.set(capabilities(&settings));
            }
        }
        let highest = nodes.values().map(|node| node.config_epoch).max().unwrap_or(0);
        Stock {
            settings,
            rng: Rng::new(seed),
            now,
            crons: 0,
            me: file.me,
            nodes,
            links: BTreeMap::new(),
            next_link: 0,
            current_epoch: file.current_epoch.max(highest),
            last_vote: file.last_vote,
            blacklist: BTreeMap::new(),
            health: Health::default(),
            election: Election::default(),
            manual: Manual::default(),
            stuck: BTreeSet::new(),
            todo: Todo { evaluate: true, ..Todo::default() },
            out: Vec::new(),
        }
    }

    /// The file of this moment: handshakes are left out (N-12).
    pub(super) fn file(&self) -> StockFile {
        let known = self.nodes.iter().filter(|(_, node)| !node.has(NodeFlags::HANDSHAKE));
        StockFile {
            me: self.me,
            nodes: known.map(|(id, node)| (*id, node.clone())).collect(),
            current_epoch: self.current_epoch,
            last_vote: self.last_vote,
        }
    }

    /// A record with a random shard (N-4).
    pub(super) fn new_node(&mut self, flags: NodeFlags) -> StockNode {
        StockNode {
            shard: ShardId::random(&mut self.rng),
            flags: flags.0,
            config_epoch: 0,
            slots: SlotSet::EMPTY,
            unclaimed: SlotSet::EMPTY,
            primary: None,
            ip: String::new(),
            host_name: String::new(),
            created: self.now,
            ping_sent: 0,
            pong_received: 0,
            data_received: self.now,
            meet_sent: 0,
            fail_time: 0,
            link_in_lost: self.now,
            dialled: 0,
            offset: 0,
            reports: BTreeMap::new(),
            link_out: None,
            link_in: None,
        }
    }

    /// Takes a node away (G-22).
    pub(super) fn delete(&mut self, id: NodeId) {
        let links = self.nodes.get(&id).map(|node| [node.link_out, node.link_in]).unwrap_or_default();
        for number in links.into_iter().flatten() {
            self.close(number);
        }
        self.nodes.remove(&id);
        for node in self.nodes.values_mut() {
            node.reports.remove(&id);
            if node.primary == Some(id) {
                node.primary = None;
            }
        }
        self.todo.evaluate = true;
    }
}

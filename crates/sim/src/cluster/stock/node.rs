//! Records of nodes: at the start, and when nodes are added and deleted (section 1 of the specification).

use super::record::{StockFile, StockNode};
use super::state::{Election, Health, Manual, Stock, StockSettings, Todo};
use sluice_base::Rng;
use sluice_cluster::wire::NodeFlags;
use sluice_cluster::{NodeId, ShardId, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

/// The capability bits of 9.1.2, or of 8.0.
fn capabilities(settings: &StockSettings) -> NodeFlags {
    let old = NodeFlags::EXTENSIONS | NodeFlags::LIGHT_PUBLISH;
    if settings.is_old { old } else { old | NodeFlags::MULTI_MEET }
}

impl Stock {
    /// A node that starts without a file (N-18).
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

    /// A node that starts from its file (N-15).
    pub(in crate::cluster) fn load(now: u64, settings: StockSettings, seed: u64, file: &StockFile) -> Stock {
        let mut nodes = file.nodes.clone();
        for (id, node) in &mut nodes {
            (node.link_out, node.link_in) = (None, None);
            (node.dialled, node.meet_sent, node.link_in_lost) = (0, 0, now);
            (node.created, node.data_received) = (now, now);
            node.reports.clear();
            node.clear(NodeFlags::MEET);
            // Times other than 0, and the beginning of a FAIL, become the present time at the load (N-15).
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
            seen_primaries: BTreeMap::new(),
            todo: Todo { evaluate: true, ..Todo::default() },
            out: Vec::new(),
        }
    }

    /// The file of the present state, without handshakes (N-12).
    pub(super) fn file(&self) -> StockFile {
        let known = self.nodes.iter().filter(|(_, node)| !node.has(NodeFlags::HANDSHAKE));
        StockFile {
            me: self.me,
            nodes: known.map(|(id, node)| (*id, node.clone())).collect(),
            current_epoch: self.current_epoch,
            last_vote: self.last_vote,
        }
    }

    /// A new record with a random shard (N-4).
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

    /// Deletes a node (G-22).
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

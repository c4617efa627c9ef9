//! A node's view of its cluster, whichever model the node is of.

use crate::cluster::file;
use crate::cluster::stock::{Stock, StockNode};
use sluice_cluster::wire::NodeFlags;
use sluice_cluster::{Cluster, ClusterState, NodeId, ShardId, SlotMap, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

/// A node's role in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Unknown,
    Primary,
    Replica(Option<NodeId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opinion {
    Up,
    Suspected,
    Failed,
}

/// A node's view of another node, or of itself.
#[derive(Clone, Debug)]
pub(super) struct SeenNode {
    pub(super) role: Role,
    pub(super) epoch: u64,
    pub(super) slots: SlotSet,
    pub(super) opinion: Opinion,
    pub(super) is_handshake: bool,
    pub(super) is_nowhere: bool,
    pub(super) shard: Option<ShardId>,
    pub(super) has_link_out: bool,
    pub(super) has_link_in: bool,
}

impl SeenNode {
    pub(super) fn is_voter(&self) -> bool {
        self.role == Role::Primary && !self.slots.is_empty()
    }
}

/// The whole view of a node.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) me: NodeId,
    pub(super) nodes: BTreeMap<NodeId, SeenNode>,
    pub(super) is_ok: bool,
    pub(super) current_epoch: u64,
    /// Nodes of which a stock node keeps old state by a defect of its own.
    pub(super) stuck: BTreeSet<NodeId>,
}

impl View {
    pub(super) fn own(&self) -> &SeenNode {
        &self.nodes[&self.me]
    }

    /// The voters, which may include the node itself.
    pub(super) fn voters(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().filter(|(_, node)| node.is_voter()).map(|(id, _)| id)
    }

    /// The slots that the node serves: those that it owns as a primary while the cluster is ok.
    pub(super) fn served(&self) -> SlotSet {
        let own = self.own();
        if self.is_ok && own.role == Role::Primary { own.slots.clone() } else { SlotSet::EMPTY }
    }

    /// The view of a node of ours, from its texts and its map.
    pub(super) fn ours(cluster: &Cluster, map: Option<&SlotMap>) -> View {
        let mut nodes: BTreeMap<NodeId, SeenNode> =
            cluster.nodes_text().lines().filter_map(seen_in).collect();
        for node in map.map(|map| &map.nodes[..]).unwrap_or_default() {
            if let Some(seen) = nodes.get_mut(&node.id) {
                seen.shard = Some(node.shard);
            }
        }
        for link in cluster.links() {
            if let Some(seen) = nodes.get_mut(&link.node) {
                seen.has_link_out |= link.is_out;
                seen.has_link_in |= !link.is_out;
            }
        }
        let info = cluster.info();
        View {
            me: cluster.id(),
            nodes,
            is_ok: info.state == ClusterState::Ok,
            current_epoch: info.current_epoch.0,
            stuck: BTreeSet::new(),
        }
    }

    /// The view of a stock node.
    pub(super) fn stock(stock: &Stock) -> View {
        let nodes = stock.nodes().iter().map(|(id, node)| (*id, seen_of(stock, node))).collect();
        View {
            me: stock.id(),
            nodes,
            is_ok: stock.is_ok(),
            current_epoch: stock.current_epoch(),
            stuck: stock.stuck().clone(),
        }
    }
}

/// Parses a line of CLUSTER NODES.
fn seen_in(line: &str) -> Option<(NodeId, SeenNode)> {
    let words: Vec<&str> = line.split(' ').collect();
    let has = |name: &str| words[2].split(',').any(|flag| flag == name);
    let role = match (has("master"), has("slave")) {
        (true, _) => Role::Primary,
        (_, true) => Role::Replica(NodeId::parse(words[3].as_bytes())),
        _ => Role::Unknown,
    };
    let opinion = match (has("fail"), has("fail?")) {
        (true, _) => Opinion::Failed,
        (_, true) => Opinion::Suspected,
        _ => Opinion::Up,
    };
    let node = SeenNode {
        role,
        epoch: words[6].parse().ok()?,
        slots: file::slots(&words[8..]),
        opinion,
        is_handshake: has("handshake"),
        is_nowhere: has("noaddr"),
        shard: None,
        has_link_out: false,
        has_link_in: false,
    };
    Some((NodeId::parse(words[0].as_bytes())?, node))
}

fn seen_of(stock: &Stock, node: &StockNode) -> SeenNode {
    let role = match (node.has(NodeFlags::PRIMARY), node.has(NodeFlags::REPLICA)) {
        (true, _) => Role::Primary,
        (_, true) => Role::Replica(node.primary),
        _ => Role::Unknown,
    };
    let opinion = match (node.has(NodeFlags::FAIL), node.has(NodeFlags::PFAIL)) {
        (true, _) => Opinion::Failed,
        (_, true) => Opinion::Suspected,
        _ => Opinion::Up,
    };
    let primary = node.primary.and_then(|primary| stock.nodes().get(&primary));
    SeenNode {
        role,
        epoch: primary.unwrap_or(node).config_epoch,
        slots: node.slots.clone(),
        opinion,
        is_handshake: node.has(NodeFlags::HANDSHAKE),
        is_nowhere: node.has(NodeFlags::NOADDR),
        shard: Some(node.shard),
        has_link_out: node.link_out.is_some(),
        has_link_in: node.link_in.is_some(),
    }
}

//! The nodes in a message's gossip (W-6), and the parts of received gossip that count (section 3.2 of the
//! specification).

use super::state::Stock;
use sluice_cluster::NodeId;
use sluice_cluster::wire::{Extension, Gossip, GossipEntry, NodeFlags};

impl Stock {
    /// Draws the nodes for a gossip section: some at random, and all suspected ones.
    pub(super) fn draw(&mut self, receiver: Option<NodeId>) -> Vec<NodeId> {
        let known = self.nodes.len();
        let wanted = (known / 10).max(3).min(known.saturating_sub(2));
        let is_told = |id: NodeId, me: NodeId| id != me && Some(id) != receiver;
        let mut left: Vec<NodeId> = self.nodes.keys().copied().collect();
        let mut drawn = Vec::new();
        while drawn.len() < wanted && !left.is_empty() {
            let id = left.swap_remove(self.rng.below(left.len() as u64) as usize);
            let node = &self.nodes[&id];
            let is_hidden = node.has(NodeFlags::PFAIL | NodeFlags::HANDSHAKE | NodeFlags::NOADDR);
            if is_told(id, self.me) && !is_hidden && (node.link_out.is_some() || !node.slots.is_empty()) {
                drawn.push(id);
            }
        }
        let suspects = self.nodes.iter().filter(|(id, node)| {
            is_told(**id, self.me)
                && node.has(NodeFlags::PFAIL)
                && !node.has(NodeFlags::HANDSHAKE | NodeFlags::NOADDR)
        });
        drawn.extend(suspects.map(|(id, _)| *id));
        drawn
    }

    /// Handles the entries of a message (G-10), or none of them if one has an invalid id (G-11).
    pub(super) fn entries(&mut self, sender: Option<NodeId>, gossip: &Gossip<'_>) {
        for entry in gossip.entries() {
            match self.nodes.contains_key(&entry.node) {
                true => self.known_entry(sender, &entry),
                false => self.unknown_entry(sender, &entry),
            }
        }
    }

    /// G-10 item 1: a new node gets all flags of the entry, and a FAIL begins at time 0 (D31).
    fn unknown_entry(&mut self, sender: Option<NodeId>, entry: &GossipEntry<'_>) {
        let is_forgotten = self.blacklist.get(&entry.node).is_some_and(|until| *until > self.now);
        if sender.is_none() || entry.flags.contains(NodeFlags::NOADDR) || is_forgotten {
            return;
        }
        let mut node = self.new_node(NodeFlags(entry.flags.0 & !NodeFlags::MYSELF.0));
        node.ip = entry.ip.to_owned();
        self.nodes.insert(entry.node, node);
    }

    /// G-10 items 2 to 5: handles an entry about a known node.
    fn known_entry(&mut self, sender: Option<NodeId>, entry: &GossipEntry<'_>) {
        let id = entry.node;
        if id == self.me || self.nodes[&id].has(NodeFlags::HANDSHAKE) {
            return;
        }
        let is_failing = entry.flags.0 & (NodeFlags::PFAIL.0 | NodeFlags::FAIL.0) != 0;
        if let Some(sender) = sender.filter(|sender| *sender != id) {
            if is_failing {
                if self.nodes[&sender].is_voter() {
                    self.report(id, sender);
                }
                self.condemn_if_agreed(id);
            } else {
                self.node_mut(id).reports.remove(&sender);
            }
        }
        let (now, node) = (self.now, self.node_mut(id));
        let is_well = !node.has(NodeFlags::MEET | NodeFlags::PFAIL | NodeFlags::FAIL);
        if !is_failing && is_well && node.ping_sent == 0 && node.reports.is_empty() {
            let pong = u64::from(entry.pong_received_s) * 1_000;
            if pong <= now + 500 && pong > node.pong_received {
                node.pong_received = pong;
            }
        }
        let is_elsewhere = self.nodes[&id].is_failing() && !is_failing && self.nodes[&id].ip != entry.ip;
        if is_elsewhere && !entry.flags.contains(NodeFlags::NOADDR) {
            self.drop_link_out(id);
            let node = self.node_mut(id);
            node.ip = entry.ip.to_owned();
            node.clear(NodeFlags::NOADDR);
        }
    }

    /// Handles the extensions of a known sender (step 12, W-10).
    pub(super) fn extensions(&mut self, sender: NodeId, gossip: &Gossip<'_>) {
        let (mut host_name, mut shard) = (String::new(), None);
        for extension in gossip.extensions() {
            match extension {
                Extension::HostName(text) => host_name = text.to_owned(),
                Extension::Shard(id) => shard = Some(id),
                Extension::Forgotten(forgotten) => {
                    self.forgotten_elsewhere(forgotten.node, forgotten.seconds)
                }
                _ => {}
            }
        }
        if !self.nodes.contains_key(&sender) {
            return;
        }
        self.node_mut(sender).host_name = host_name;
        let of_primary =
            self.nodes[&sender].primary.and_then(|primary| self.nodes.get(&primary)).map(|node| node.shard);
        match of_primary {
            // A replica gets its primary's shard. Another shard that the replica sends is not taken (N-5).
            Some(theirs) => self.node_mut(sender).shard = theirs,
            None => {
                if let Some(id) = shard.filter(|id| self.nodes[&sender].shard != *id) {
                    self.node_mut(sender).shard = id;
                    let replicas = self.nodes.values_mut().filter(|node| node.primary == Some(sender));
                    replicas.for_each(|node| node.shard = id);
                    self.todo.save = true;
                }
            }
        }
    }

    /// Extension 2: forgets a node that another node has forgotten, except this node's primary (G-21).
    fn forgotten_elsewhere(&mut self, id: NodeId, seconds: u64) {
        if id == self.me || !self.nodes.contains_key(&id) || self.own().primary == Some(id) {
            return;
        }
        self.blacklist.insert(id, self.now + seconds * 1_000);
        self.delete(id);
        self.todo.save = true;
    }
}

//! Epochs, slots and roles from headers and UPDATEs (sections 5.1 to 5.3 of the specification).

use super::state::Stock;
use crate::cluster::act::Act;
use crate::cluster::sets;
use sluice_cluster::wire::{BusHeader, MessageBody, NodeFlags};
use sluice_cluster::{ClusterEpoch, NodeId, SlotSet};

impl Stock {
    /// E-3: takes a sender's higher config epoch, and ends an election of this node that is not above it.
    pub(super) fn take_epoch(&mut self, sender: NodeId, epoch: u64) {
        if epoch <= self.nodes[&sender].config_epoch {
            return;
        }
        self.node_mut(sender).config_epoch = epoch;
        self.todo.save = true;
        if self.election.is_sent && self.election.time != 0 && epoch >= self.election.epoch {
            self.election.time = 0;
        }
    }

    /// E-4: takes a new epoch without an election; `false` if this node has the highest one already.
    pub(super) fn bump(&mut self) -> bool {
        let highest = self.nodes.values().map(|node| node.config_epoch).max().unwrap_or(0);
        let highest = highest.max(self.current_epoch);
        let mine = self.own().config_epoch;
        if mine != 0 && mine == highest {
            return false;
        }
        self.current_epoch += 1;
        self.own_mut().config_epoch = self.current_epoch;
        self.todo.save = true;
        self.pong_to_all();
        true
    }

    /// Step 10 of processing a message (section 2.5), except for the role: takes the slots, sends one UPDATE,
    /// and resolves a collision of epochs (E-6).
    pub(super) fn slots_of_header(&mut self, sender: NodeId, header: &BusHeader<'_>) {
        if header.replica_of.is_some() {
            return;
        }
        let (epoch, slots) = (header.config_epoch.0, SlotSet::from_bitmap(header.slots));
        let node = &self.nodes[&sender];
        if node.slots != slots || !node.unclaimed.is_empty() {
            let differs = node.slots != slots;
            self.claim(sender, epoch, &slots);
            if differs {
                self.correct(sender, epoch, &slots);
            }
        }
        let is_collision = self.own().has(NodeFlags::PRIMARY) && self.own().config_epoch == epoch;
        if is_collision && sender > self.me {
            self.current_epoch += 1;
            self.own_mut().config_epoch = self.current_epoch;
            self.todo.save = true;
            self.pong_to_all();
        }
    }

    /// E-10, E-12, E-14 and E-15: takes a sender's claim of slots, with sets in place of single slots.
    fn claim(&mut self, sender: NodeId, epoch: u64, slots: &SlotSet) {
        if sender == self.me {
            return;
        }
        let mine = self.primary_of(self.me);
        let my_epoch = self.nodes[&mine].config_epoch;
        let old = self.nodes[&sender].slots.clone();
        let (mut left, mut new) = (sets::minus(slots, &old), old.clone());
        let mut lost = 0;
        let owners: Vec<NodeId> = self.nodes.keys().copied().filter(|id| *id != sender).collect();
        for id in owners {
            let owner = self.node_mut(id);
            let contested = sets::and(&left, &owner.slots);
            if contested.is_empty() {
                continue;
            }
            let taken = if owner.config_epoch < epoch {
                contested.clone()
            } else {
                sets::and(&contested, &owner.unclaimed)
            };
            owner.slots = sets::minus(&owner.slots, &taken);
            owner.unclaimed = sets::minus(&owner.unclaimed, &taken);
            lost += if id == mine { taken.len() } else { 0 };
            new = sets::or(&new, &taken);
            left = sets::minus(&left, &contested);
        }
        new = sets::or(&new, &left);
        let is_changed = new != old;
        let node = self.node_mut(sender);
        node.unclaimed = sets::minus(&new, slots);
        node.slots = new;
        if is_changed {
            self.todo.save = true;
            self.todo.evaluate = true;
        }
        let same_shard = self.own().shard == self.nodes[&sender].shard;
        let gave_up = slots.is_empty()
            && self.own().slots.is_empty()
            && self.own().primary != Some(sender)
            && my_epoch < epoch
            && same_shard;
        let is_allowed = same_shard || self.settings.allow_replica_migration;
        if (lost > 0 || gave_up) && self.nodes[&mine].slots.is_empty() && is_allowed {
            self.follow(sender);
            self.pong_to_all();
        }
    }

    /// E-19: sends one UPDATE, about the first newer owner.
    fn correct(&mut self, sender: NodeId, epoch: u64, slots: &SlotSet) {
        let first = self.nodes.iter().filter(|(id, node)| **id != sender && node.config_epoch > epoch);
        let first = first.filter_map(|(id, node)| {
            let claimed = sets::minus(&node.slots, &node.unclaimed);
            let slot = sets::and(&claimed, slots).iter().next()?;
            Some((slot, *id))
        });
        if let Some((_, owner)) = first.min() {
            self.send_update(sender, owner);
        }
    }

    pub(super) fn send_update(&mut self, to: NodeId, about: NodeId) {
        let Some(number) = self.nodes[&to].link_out else { return };
        let node = &self.nodes[&about];
        let claimed = sets::minus(&node.slots, &node.unclaimed);
        let config_epoch = ClusterEpoch(node.config_epoch);
        self.send(number, &MessageBody::Update { config_epoch, node: about, slots: claimed.bitmap() });
    }

    /// E-20: takes the slots and the higher epoch in an UPDATE about a node.
    pub(super) fn update(&mut self, about: NodeId, epoch: u64, slots: &SlotSet) {
        let Some(node) = self.nodes.get_mut(&about) else { return };
        if epoch <= node.config_epoch {
            return;
        }
        if node.has(NodeFlags::REPLICA) {
            node.become_primary();
        }
        self.take_epoch(about, epoch);
        self.claim(about, epoch, slots);
    }

    /// E-16: takes the role in the sender's header; `false` if the rest of the message is ignored.
    pub(super) fn role(&mut self, sender: NodeId, header: &BusHeader<'_>) -> bool {
        let Some(primary) = header.replica_of else {
            if !self.nodes[&sender].has(NodeFlags::PRIMARY) {
                self.node_mut(sender).become_primary();
                (self.todo.save, self.todo.evaluate) = (true, true);
            }
            return true;
        };
        let is_known = |id: &NodeId| {
            *id != sender && self.nodes.get(id).is_some_and(|node| !node.has(NodeFlags::HANDSHAKE))
        };
        let known = Some(primary).filter(is_known);
        if !self.nodes[&sender].has(NodeFlags::REPLICA) {
            if !self.demote(sender, known, header.config_epoch.0) {
                return false;
            }
            self.node_mut(sender).become_replica(known);
            (self.todo.save, self.todo.evaluate) = (true, true);
        }
        let Some(primary) = known else { return true };
        if self.nodes[&sender].primary != Some(primary) {
            self.node_mut(sender).primary = Some(primary);
            self.todo.save = true;
        }
        let above = self.own().primary.and_then(|mine| self.nodes.get(&mine)?.primary);
        if let Some(above) = above.filter(|above| *above != self.me && self.nodes.contains_key(above)) {
            self.follow(above);
            self.pong_to_all();
        }
        let shard = self.nodes[&primary].shard;
        self.node_mut(sender).shard = shard;
        true
    }

    /// E-16 item 2: a primary has become a replica; `false` if its header is stale.
    fn demote(&mut self, sender: NodeId, primary: Option<NodeId>, epoch: u64) -> bool {
        let same = primary.filter(|id| self.nodes[id].shard == self.nodes[&sender].shard);
        let Some(winner) = same else {
            let node = self.node_mut(sender);
            (node.slots, node.unclaimed) = (SlotSet::EMPTY, SlotSet::EMPTY);
            return true;
        };
        let of_winner = self.nodes[&self.primary_of(winner)].config_epoch;
        if self.nodes[&sender].config_epoch > epoch || of_winner > epoch {
            self.out.push(Act::Log(format!("stock: {sender} is stale at {epoch}")));
            return false;
        }
        if self.nodes[&winner].has(NodeFlags::REPLICA) {
            let loser = self.node_mut(sender);
            let slots = std::mem::replace(&mut loser.slots, SlotSet::EMPTY);
            loser.unclaimed = SlotSet::EMPTY;
            let node = self.node_mut(winner);
            node.become_primary();
            node.config_epoch = epoch;
            node.slots = sets::or(&node.slots, &slots);
        }
        true
    }

    /// this node becomes a replica of `primary`.
    pub(super) fn follow(&mut self, primary: NodeId) {
        self.out.push(Act::Log(format!("stock: I follow {primary}")));
        let shard = self.nodes[&primary].shard;
        let own = self.own_mut();
        own.become_replica(Some(primary));
        own.shard = shard;
        own.offset = 0;
        self.election.time = 0;
        self.clear_manual();
        (self.todo.save, self.todo.evaluate) = (true, true);
    }

    /// Sends MFSTART to this node's primary (M-2).
    pub(super) fn ask_for_pause(&mut self) {
        let primary = self.own().primary.and_then(|id| self.nodes.get(&id)?.link_out);
        if let Some(number) = primary {
            self.send(number, &MessageBody::ManualFailoverStart);
        }
    }
}

//! How a message is processed, in the order of section 2.5 of the specification, and the node's other work:
//! ticks, and what it does before the event loop waits.

use super::record::StockNode;
use super::state::Stock;
use crate::cluster::act::{Act, File, Link};
use sluice_cluster::NodeId;
use sluice_cluster::wire::{
    self, BusHeader, BusMessage, Gossip, MessageBody, MessageType, NodeFlags, ReceiveBuffer, ReceivedMessage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Stock {
    pub(in crate::cluster) fn id(&self) -> NodeId {
        self.me
    }

    pub(in crate::cluster) fn is_primary(&self) -> bool {
        self.own().has(NodeFlags::PRIMARY)
    }

    pub(in crate::cluster) fn nodes(&self) -> &BTreeMap<NodeId, StockNode> {
        &self.nodes
    }

    pub(in crate::cluster) fn stuck(&self) -> &BTreeSet<NodeId> {
        &self.stuck
    }

    pub(in crate::cluster) fn is_ok(&self) -> bool {
        self.health.is_ok
    }

    pub(in crate::cluster) fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// The node's requests since the last call, in order.
    pub(in crate::cluster) fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn own(&self) -> &StockNode {
        &self.nodes[&self.me]
    }

    pub(super) fn own_mut(&mut self) -> &mut StockNode {
        self.node_mut(self.me)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut StockNode {
        self.nodes.get_mut(&id).expect("the caller knows the node")
    }

    /// The primary of a node: the known primary of a replica, or the node itself.
    pub(super) fn primary_of(&self, id: NodeId) -> NodeId {
        self.nodes[&id].primary.filter(|primary| self.nodes.contains_key(primary)).unwrap_or(id)
    }

    /// Handles bytes of a link (step 1).
    pub(in crate::cluster) fn received(&mut self, now: u64, number: u64, mut bytes: &[u8]) {
        self.now = now;
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut inbox: ReceiveBuffer = std::mem::take(&mut link.inbox);
        while let Some(received) = inbox.next(&mut bytes, usize::MAX, |_| true) {
            match received {
                ReceivedMessage::BusMessage(message) => {
                    if let Ok(BusMessage::Full(header, body)) = wire::parse(message) {
                        self.message(number, &header, &body);
                    }
                }
                ReceivedMessage::PassedOver(_) => {}
                ReceivedMessage::Bad(_) => self.close(number),
            }
            if !self.links.contains_key(&number) {
                break;
            }
        }
        if let Some(link) = self.links.get_mut(&number) {
            link.inbox = inbox;
        }
        self.settle();
    }

    /// Does steps 6 to 13 of processing a message.
    fn message(&mut self, number: u64, header: &BusHeader<'_>, body: &MessageBody<'_>) {
        let sender = self.sender_of(number, header);
        if let Some(sender) = sender {
            self.header_of(sender, header);
        }
        match body {
            MessageBody::Ping(gossip) => self.talk(number, sender, header, gossip, MessageType::Ping),
            MessageBody::Pong(gossip) => self.talk(number, sender, header, gossip, MessageType::Pong),
            MessageBody::Meet(gossip) => self.talk(number, sender, header, gossip, MessageType::Meet),
            other => {
                if let Some(sender) = sender {
                    self.rest(number, sender, header, other);
                }
            }
        }
    }

    /// Step 6: the sender is the node of the link, whatever id the header has. If the link has no node that
    /// has ended its handshake, it is the known node that the header names.
    fn sender_of(&mut self, number: u64, header: &BusHeader<'_>) -> Option<NodeId> {
        let link = self.links.get_mut(&number)?;
        link.reads_extensions |= header.message_flags.reads_extensions;
        let of_link = link.node.filter(|id| !self.nodes[id].has(NodeFlags::HANDSHAKE));
        let named = Some(header.sender)
            .filter(|id| self.nodes.get(id).is_some_and(|node| !node.has(NodeFlags::HANDSHAKE)));
        let sender = of_link.or(named).filter(|id| *id != self.me);
        let (is_out, is_bound) = (self.links[&number].is_out, self.links[&number].node.is_some());
        if let Some(sender) = sender.filter(|_| !is_out && !is_bound) {
            self.bind(number, sender);
        }
        let now = self.now;
        if let Some(id) = self.links[&number].node.or(sender) {
            self.node_mut(id).data_received = now;
        }
        sender
    }

    /// Steps 6 and 7: takes the properties of the sender from its header.
    fn header_of(&mut self, sender: NodeId, header: &BusHeader<'_>) {
        let taken = NodeFlags::LIGHT_PUBLISH | NodeFlags::MULTI_MEET | NodeFlags::MY_PRIMARY_FAIL;
        let node = self.node_mut(sender);
        node.flags = (node.flags & !taken.0) | (header.flags.0 & taken.0);
        if header.message_flags.reads_extensions {
            node.set(NodeFlags::EXTENSIONS);
        }
        node.offset = header.offset;
        self.current_epoch = self.current_epoch.max(header.current_epoch.0);
        if header.replica_of.is_none() {
            self.take_epoch(sender, header.config_epoch.0);
        }
        self.follow_offset(sender, header);
    }

    /// Handles PING, PONG and MEET (steps 8 to 12).
    fn talk(
        &mut self,
        number: u64,
        sender: Option<NodeId>,
        header: &BusHeader<'_>,
        gossip: &Gossip<'_>,
        kind: MessageType,
    ) {
        if kind != MessageType::Pong {
            self.greet(number, sender, header, gossip, kind);
        }
        let Some(link) = self.links.get(&number) else { return };
        let (is_out, of_link) = (link.is_out, link.node);
        if let Some(id) = of_link.filter(|_| is_out) {
            if self.nodes[&id].has(NodeFlags::HANDSHAKE) {
                if let Some(id) = self.finish_handshake(number, id, header)
                    && kind == MessageType::Pong
                {
                    self.pong(id);
                }
                return;
            }
            if id != header.sender {
                return self.is_somebody_else(number, id);
            }
        }
        let Some(sender) = sender else { return };
        let wants_none = header.flags.contains(NodeFlags::NOFAILOVER);
        let node = self.node_mut(sender);
        node.clear(NodeFlags::MEET);
        node.put(NodeFlags::NOFAILOVER, wants_none);
        if kind == MessageType::Ping && !is_out {
            self.take_address(sender, number, header);
        }
        if kind == MessageType::Pong && is_out {
            self.pong(sender);
        }
        if !self.role(sender, header) {
            self.stuck.insert(sender);
            return;
        }
        // A node that gave up a slot as a primary and then became a replica still owns the slot in this
        // node's view, and its later messages do not correct that (E-16 item 2; observed with 9.1.2). This
        // node then keeps old state about it, which `stuck` records.
        let node = &self.nodes[&sender];
        if node.has(NodeFlags::REPLICA) && !node.slots.is_empty() {
            self.stuck.insert(sender);
        } else {
            self.stuck.remove(&sender);
        }
        self.slots_of_header(sender, header);
        self.entries(Some(sender), gossip);
        if self.nodes.contains_key(&sender) {
            self.extensions(sender, gossip);
        }
    }

    /// Handles all other types of messages (step 13).
    fn rest(&mut self, number: u64, sender: NodeId, header: &BusHeader<'_>, body: &MessageBody<'_>) {
        match body {
            MessageBody::Fail(about) => self.told_of_failure(*about),
            MessageBody::AuthRequest => self.asked_for_vote(sender, header),
            MessageBody::AuthAck => self.vote_came(sender, header.current_epoch.0),
            MessageBody::ManualFailoverStart => self.pause_for(number, sender),
            MessageBody::Update { config_epoch, node, slots } => {
                let slots = sluice_cluster::SlotSet::from_bitmap(slots);
                self.update(*node, config_epoch.0, &slots);
            }
            _ => {}
        }
    }

    /// Does the work before the event loop waits: failover, the cluster's state, and the file, which is
    /// durable before any message is sent.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.todo.failover) {
            self.failover();
        }
        if std::mem::take(&mut self.todo.evaluate) {
            self.evaluate();
        }
        if std::mem::take(&mut self.todo.save) {
            let file = File::Stock(Arc::new(self.file()));
            self.out.insert(0, Act::Persist { generation: 0, file });
        }
    }

    /// Does the work of a tick, every 100 ms.
    pub(in crate::cluster) fn tick(&mut self, now: u64) {
        self.now = now;
        self.crons += 1;
        let nodes: Vec<NodeId> = self.nodes.keys().copied().filter(|id| *id != self.me).collect();
        for id in &nodes {
            self.connect(*id);
        }
        if self.crons.is_multiple_of(10) {
            self.ping_at_random();
        }
        for id in nodes {
            if self.nodes.contains_key(&id) {
                self.contact(id);
            }
        }
        self.manual_tick();
        self.failover();
        self.migrate();
        if !self.health.is_ok || self.nodes.values().any(|node| node.has(NodeFlags::PFAIL)) {
            self.evaluate();
        }
        self.settle();
    }

    /// Sends a message without gossip, with the present header.
    pub(super) fn send(&mut self, number: u64, body: &MessageBody<'_>) {
        let slots = self.header_slots();
        let mut bytes = Vec::new();
        let message = BusMessage::Full(self.header(&slots), body.clone());
        if wire::write(&message, &mut bytes).is_ok() {
            self.out.push(Act::Send { link: Link::Stock(number), message: bytes.into() });
        }
    }
}

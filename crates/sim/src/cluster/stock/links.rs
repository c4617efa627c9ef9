//! Links and meetings (sections 3.1 and 3.3 of the specification).

use super::state::{Stock, StockLink};
use crate::cluster::act::{Act, Link};
use sluice_cluster::wire::{
    self, BusHeader, ForgottenNode, Gossip, GossipBuffer, GossipEntry, MessageBody, MessageFlags,
    MessageType, NodeFlags, ReceiveBuffer,
};
use sluice_cluster::{ClusterEpoch, NodeId, SlotSet};

/// The ports of every node of the simulation.
pub(in crate::cluster) const PORT: u16 = 6_379;
pub(in crate::cluster) const BUS_PORT: u16 = 16_379;

impl Stock {
    fn add_link(&mut self, node: Option<NodeId>, is_out: bool, peer: String, local: String) -> u64 {
        self.next_link += 1;
        let link = StockLink {
            node,
            is_out,
            created: self.now,
            reads_extensions: false,
            peer,
            local,
            inbox: ReceiveBuffer::new(),
        };
        self.links.insert(self.next_link, link);
        self.next_link
    }

    /// Adds an accepted connection (G-5).
    pub(in crate::cluster) fn accept(&mut self, now: u64, peer: String, local: String) -> Link {
        self.now = now;
        Link::Stock(self.add_link(None, false, peer, local))
    }

    /// Sends PING on a dialled connection that is now established, or MEET if the node has that flag (G-6).
    pub(in crate::cluster) fn connected(&mut self, now: u64, number: u64) {
        self.now = now;
        if let Some(id) = self.links.get(&number).and_then(|link| link.node) {
            let before = self.nodes[&id].ping_sent;
            let is_met = self.nodes[&id].has(NodeFlags::MEET);
            self.gossip(number, if is_met { MessageType::Meet } else { MessageType::Ping });
            if before != 0 {
                self.node_mut(id).ping_sent = before;
            }
        }
        self.settle();
    }

    /// Removes a connection that has ended.
    pub(in crate::cluster) fn closed(&mut self, now: u64, number: u64) {
        self.now = now;
        self.unlink(number);
    }

    /// Handles a failed dial (G-3).
    pub(in crate::cluster) fn dial_failed(&mut self, now: u64, number: u64, at_once: bool) {
        self.now = now;
        let node = self.links.get(&number).and_then(|link| link.node);
        self.unlink(number);
        if let Some(id) = node.filter(|id| at_once && self.nodes[id].ping_sent == 0) {
            self.node_mut(id).ping_sent = now;
        }
    }

    fn unlink(&mut self, number: u64) -> bool {
        let Some(link) = self.links.remove(&number) else { return false };
        let now = self.now;
        if let Some(node) = link.node.and_then(|id| self.nodes.get_mut(&id)) {
            if node.link_out == Some(number) {
                node.link_out = None;
            }
            if node.link_in == Some(number) {
                (node.link_in, node.link_in_lost) = (None, now);
            }
        }
        true
    }

    pub(super) fn close(&mut self, number: u64) {
        if self.unlink(number) {
            self.out.push(Act::Close { link: Link::Stock(number) });
        }
    }

    pub(super) fn drop_link_out(&mut self, id: NodeId) {
        if let Some(number) = self.nodes[&id].link_out {
            self.close(number);
        }
    }

    /// Binds an incoming link to a node; an older incoming link is closed.
    pub(super) fn bind(&mut self, number: u64, id: NodeId) {
        if let Some(old) = self.nodes[&id].link_in.filter(|old| *old != number) {
            self.close(old);
        }
        if let Some(link) = self.links.get_mut(&number) {
            link.node = Some(id);
            self.node_mut(id).link_in = Some(number);
        }
    }

    /// Ends a node's handshake that has timed out, or dials the node if it has no outgoing link (G-2, G-15).
    pub(super) fn connect(&mut self, id: NodeId) {
        let now = self.now;
        let node = &self.nodes[&id];
        if node.has(NodeFlags::HANDSHAKE) && now - node.created > self.handshake_ms() {
            return self.delete(id);
        }
        let is_late = node.link_in.is_none() && now - node.dialled < self.settings.timeout_ms / 20;
        if node.link_out.is_some() || node.has(NodeFlags::NOADDR) || node.ip.is_empty() || is_late {
            return;
        }
        let ip = node.ip.clone();
        let number = self.add_link(Some(id), true, String::new(), String::new());
        let node = self.node_mut(id);
        (node.link_out, node.dialled) = (Some(number), now);
        self.out.push(Act::Dial { link: Link::Stock(number), ip });
    }

    /// Milliseconds that a handshake lasts, and for which a MEET is not repeated.
    pub(super) fn handshake_ms(&self) -> u64 {
        self.settings.timeout_ms.max(1_000)
    }

    fn ping_after_ms(&self) -> u64 {
        if self.settings.ping_interval_ms > 0 {
            self.settings.ping_interval_ms
        } else {
            self.settings.timeout_ms / 2
        }
    }

    /// Draws five random nodes, and pings the one with the oldest pong (G-7).
    pub(super) fn ping_at_random(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        let mut oldest: Option<(u64, u64)> = None;
        for _ in 0..5 {
            let id = ids[self.rng.below(ids.len() as u64) as usize];
            let node = &self.nodes[&id];
            let Some(number) = node.link_out else { continue };
            if id == self.me || node.ping_sent != 0 || node.has(NodeFlags::HANDSHAKE) {
                continue;
            }
            if oldest.is_none_or(|(at, _)| node.pong_received < at) {
                oldest = Some((node.pong_received, number));
            }
        }
        if let Some((_, number)) = oldest {
            self.gossip(number, MessageType::Ping);
        }
    }

    /// The work of a tick for one node: auto-MEET, a dead link, a ping, suspicion (G-8, G-9, G-13, F-1).
    pub(super) fn contact(&mut self, id: NodeId) {
        let (now, timeout) = (self.now, self.settings.timeout_ms);
        let node = &self.nodes[&id];
        if node.has(NodeFlags::HANDSHAKE | NodeFlags::NOADDR) {
            return;
        }
        let limit = self.handshake_ms();
        let is_deaf = node.link_in.is_none()
            && now - node.link_in_lost > limit
            && now - node.meet_sent > limit
            && node.has(NodeFlags::MULTI_MEET)
            && !node.has(NodeFlags::MEET | NodeFlags::PFAIL | NodeFlags::FAIL);
        if let Some(number) = node.link_out.filter(|_| is_deaf && !self.settings.is_old) {
            self.node_mut(id).set(NodeFlags::MEET);
            self.gossip(number, MessageType::Meet);
        }
        let node = &self.nodes[&id];
        if let Some(number) = node.link_out {
            let is_silent = node.ping_sent != 0
                && now - node.ping_sent > timeout / 2
                && now - node.data_received > timeout / 2;
            if is_silent && now - self.links[&number].created > timeout {
                self.close(number);
            }
        }
        let node = &self.nodes[&id];
        if let Some(number) = node.link_out
            && node.ping_sent == 0
            && now.saturating_sub(node.pong_received) > self.ping_after_ms()
        {
            self.gossip(number, MessageType::Ping);
        }
        self.suspect(id);
    }

    /// Step 8: takes this node's own address, begins a handshake for MEET, and answers.
    pub(super) fn greet(
        &mut self,
        number: u64,
        sender: Option<NodeId>,
        header: &BusHeader<'_>,
        gossip: &Gossip<'_>,
        kind: MessageType,
    ) {
        let local = self.links[&number].local.clone();
        if !local.is_empty() && (kind == MessageType::Meet || self.own().ip.is_empty()) {
            self.own_mut().ip = local;
        }
        if kind == MessageType::Meet {
            match sender {
                Some(id) => {
                    let node = &self.nodes[&id];
                    if node.link_out.is_some() && self.now - node.created > self.handshake_ms() {
                        self.drop_link_out(id);
                    }
                }
                None => self.met_by(number, header, gossip),
            }
        }
        self.gossip(number, MessageType::Pong);
    }

    /// Handles a MEET of an unknown node on a link without a node (G-12).
    fn met_by(&mut self, number: u64, header: &BusHeader<'_>, gossip: &Gossip<'_>) {
        let link = &self.links[&number];
        if link.node.is_some() || link.is_out || header.sender == self.me {
            return;
        }
        let ip = if header.ip.is_empty() { link.peer.clone() } else { header.ip.to_owned() };
        if let Some(id) = self.begin_handshake(ip, NodeFlags::HANDSHAKE) {
            self.bind(number, id);
        }
        self.entries(None, gossip);
        self.todo.save = true;
    }

    /// Adds a node whose id is not known yet (N-2); `None` if a handshake with its address is under way.
    pub(super) fn begin_handshake(&mut self, ip: String, flags: NodeFlags) -> Option<NodeId> {
        if self.nodes.values().any(|node| node.has(NodeFlags::HANDSHAKE) && node.ip == ip) {
            return None;
        }
        let id = NodeId::random(&mut self.rng);
        let mut node = self.new_node(flags);
        node.ip = ip;
        self.nodes.insert(id, node);
        Some(id)
    }

    /// Handles the first answer on the outgoing link of a handshake (G-14). Adds the node under its own id,
    /// which is returned; `None` if that id is known already, which ends the handshake.
    pub(super) fn finish_handshake(
        &mut self,
        number: u64,
        id: NodeId,
        header: &BusHeader<'_>,
    ) -> Option<NodeId> {
        if self.nodes.contains_key(&header.sender) {
            let ip = self.nodes[&id].ip.clone();
            self.delete(id);
            if header.sender != self.me {
                self.address_is(header.sender, ip);
            }
            return None;
        }
        let mut node = self.nodes.remove(&id)?;
        node.clear(NodeFlags::HANDSHAKE);
        node.flags |= header.flags.0 & (NodeFlags::PRIMARY.0 | NodeFlags::REPLICA.0);
        for of_node in [Some(number), node.link_in].into_iter().flatten() {
            if let Some(link) = self.links.get_mut(&of_node) {
                link.node = Some(header.sender);
            }
        }
        self.nodes.insert(header.sender, node);
        self.todo.save = true;
        self.todo.evaluate = true;
        Some(header.sender)
    }

    /// Handles an answer from a node with another id (G-16).
    pub(super) fn is_somebody_else(&mut self, number: u64, id: NodeId) {
        self.close(number);
        let now = self.now;
        let node = self.node_mut(id);
        node.set(NodeFlags::NOADDR);
        node.ip.clear();
        let was_failed = node.has(NodeFlags::FAIL);
        if !was_failed {
            node.set(NodeFlags::FAIL);
            node.clear(NodeFlags::PFAIL);
            node.fail_time = now;
            self.tell_of_failure(id);
        }
        self.todo.save = true;
        self.todo.evaluate = true;
    }

    /// Takes the sender's address from a PING on another link than the outgoing one (G-17).
    pub(super) fn take_address(&mut self, sender: NodeId, number: u64, header: &BusHeader<'_>) {
        let peer = self.links[&number].peer.clone();
        let ip = if header.ip.is_empty() { peer } else { header.ip.to_owned() };
        self.address_is(sender, ip);
    }

    pub(super) fn address_is(&mut self, id: NodeId, ip: String) {
        let node = &self.nodes[&id];
        if ip.is_empty() || (node.ip == ip && !node.has(NodeFlags::NOADDR)) {
            return;
        }
        self.drop_link_out(id);
        let node = self.node_mut(id);
        node.ip = ip;
        node.clear(NodeFlags::NOADDR);
        self.todo.save = true;
    }

    /// The header of a message that is sent now (2.1, W-17).
    pub(super) fn header<'a>(&'a self, slots: &'a SlotSet) -> BusHeader<'a> {
        let own = self.own();
        let primary = own.primary.filter(|primary| self.nodes.contains_key(primary));
        let sent = NodeFlags::PRIMARY.0
            | NodeFlags::REPLICA.0
            | NodeFlags::MYSELF.0
            | NodeFlags::NOFAILOVER.0
            | NodeFlags::EXTENSIONS.0
            | NodeFlags::LIGHT_PUBLISH.0
            | NodeFlags::MULTI_MEET.0
            | NodeFlags::MY_PRIMARY_FAIL.0;
        BusHeader {
            current_epoch: ClusterEpoch(self.current_epoch),
            config_epoch: ClusterEpoch(self.nodes[&self.primary_of(self.me)].config_epoch),
            offset: self.offset(),
            sender: self.me,
            slots: slots.bitmap(),
            replica_of: primary,
            ip: "",
            port: PORT,
            other_port: 0,
            bus_port: BUS_PORT,
            flags: NodeFlags(own.flags & sent),
            is_down: !self.health.is_ok,
            message_flags: MessageFlags {
                is_paused: self.manual.pauses_for.is_some(),
                force_ack: false,
                reads_extensions: false,
            },
        }
    }

    /// The slots in this node's header: its own, or its primary's.
    pub(super) fn header_slots(&self) -> SlotSet {
        self.nodes[&self.primary_of(self.me)].slots.clone()
    }

    /// Sends PING, PONG or MEET on a link.
    pub(super) fn gossip(&mut self, number: u64, kind: MessageType) {
        let (now, Some(link)) = (self.now, self.links.get(&number)) else { return };
        let (receiver, is_out) = (link.node, link.is_out);
        let reads_extensions =
            link.reads_extensions || receiver.is_some_and(|id| self.nodes[&id].has(NodeFlags::EXTENSIONS));
        if let Some(id) = receiver.filter(|_| is_out) {
            match kind {
                MessageType::Ping => self.node_mut(id).ping_sent = now,
                MessageType::Meet => self.node_mut(id).meet_sent = now,
                _ => {}
            }
        }
        let mut told = GossipBuffer::new();
        for id in self.draw(receiver) {
            let node = &self.nodes[&id];
            told.push(&GossipEntry {
                node: id,
                ping_sent_s: (node.ping_sent / 1_000) as u32,
                pong_received_s: (node.pong_received / 1_000) as u32,
                ip: &node.ip,
                port: PORT,
                other_port: 0,
                bus_port: BUS_PORT,
                flags: NodeFlags(node.flags),
            });
        }
        if reads_extensions {
            let labels = wire::AnnouncedLabels {
                host_name: &self.settings.host_name,
                human_name: b"",
                client_ipv4: None,
                client_ipv6: None,
                client_port: 0,
                client_tls_port: 0,
                availability_zone: b"",
                shard: self.own().shard,
            };
            let forgotten = self.blacklist.iter().filter(|(_, until)| **until > now);
            let forgotten =
                forgotten.map(|(node, until)| ForgottenNode { node: *node, seconds: (until - now) / 1_000 });
            told.announce(&labels, forgotten);
        }
        let slots = self.header_slots();
        let mut header = self.header(&slots);
        header.message_flags.reads_extensions = true;
        let body = match kind {
            MessageType::Pong => MessageBody::Pong(told.gossip()),
            MessageType::Meet => MessageBody::Meet(told.gossip()),
            _ => MessageBody::Ping(told.gossip()),
        };
        let mut bytes = Vec::new();
        let message = wire::BusMessage::Full(header, body);
        if wire::write(&message, &mut bytes).is_ok() {
            self.out.push(Act::Send { link: Link::Stock(number), message: bytes.into() });
        }
    }

    /// Sends a message without gossip on the outgoing links of all nodes that are not in handshake.
    pub(super) fn tell_all(&mut self, body: &MessageBody<'_>, flags: MessageFlags) {
        let slots = self.header_slots();
        let mut bytes = Vec::new();
        let mut header = self.header(&slots);
        header.message_flags.force_ack = flags.force_ack;
        if wire::write(&wire::BusMessage::Full(header, body.clone()), &mut bytes).is_err() {
            return;
        }
        let message: std::sync::Arc<[u8]> = bytes.into();
        for node in self.nodes.values().filter(|node| !node.has(NodeFlags::HANDSHAKE)) {
            if let Some(number) = node.link_out {
                self.out.push(Act::Send { link: Link::Stock(number), message: message.clone() });
            }
        }
    }

    pub(super) fn pong_to_all(&mut self) {
        let known = self.nodes.values().filter(|node| !node.has(NodeFlags::HANDSHAKE));
        let links: Vec<u64> = known.filter_map(|node| node.link_out).collect();
        for number in links {
            self.gossip(number, MessageType::Pong);
        }
    }
}

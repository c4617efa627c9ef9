//! Sends messages to other nodes. Decides which role, epochs and slots a message states for this node, and on
//! which link it is sent.

use crate::address::{BusTransport, Seen};
use crate::durable::{OwnClaim, Withheld};
use crate::id::{ClusterEpoch, NodeId};
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, ManualFailover, log};
use crate::migration::import;
use crate::node::{ClusterNode, LinkOut, MeetFlag, NodeHealth, NodeIx};
use crate::output::{BusLane, ClusterOutput, ClusterState, PublishScope};
use crate::slots::SlotSet;
use crate::wire::{
    self, BusHeader, BusMessage, ForgottenNode, GossipBuffer, GossipEntry, LightBody, MessageBody,
    MessageFlags, MessageType, NodeFlags, PublishedMessage,
};
use sluice_base::Bytes;
use sluice_base::mistake::{Mistake, is_made};
use std::sync::Arc;

/// The capabilities of this version (W-3).
pub(crate) const CAPABILITIES: NodeFlags =
    NodeFlags(NodeFlags::EXTENSIONS.0 | NodeFlags::LIGHT_PUBLISH.0 | NodeFlags::MULTI_MEET.0);

/// A node gets at most this many consecutive UPDATEs about the same owner within the node timeout T.
const UPDATES_A_TIMEOUT: u64 = 10;
/// The most bytes of messages, without published ones, that may wait on one link.
pub(crate) const CONTROL_MAX: u64 = 16 << 20;
/// The reference allocates at least this many bytes for a PING, PONG or MEET. The memory of a queue counts
/// each such message with at least this size (G-30).
const PING_ALLOCATION_MIN: usize = 4_352;

/// The present header. This node's own role, slots and epochs are those of the last durable file (E-53). The
/// epoch and slots that a replica takes from its primary need not be durable.
fn header(m: &ClusterMachine) -> BusHeader<'_> {
    let me = m.table.me();
    let announced = &m.settings.announced;
    let (port, other_port) = match m.settings.transport {
        BusTransport::Tcp => (announced.tcp_port, announced.tls_port),
        BusTransport::Tls => (announced.tls_port, announced.tcp_port),
    };
    let (role, config_epoch, slots, replica_of) = claim(m);
    let marks = [
        (me.marks.no_failover, NodeFlags::NOFAILOVER),
        (me.marks.migrate_to, NodeFlags::MIGRATE_TO),
        (me.marks.my_primary_fail, NodeFlags::MY_PRIMARY_FAIL),
    ];
    let marks =
        marks.into_iter().filter(|(is_set, _)| *is_set).fold(NodeFlags(0), |all, (_, flag)| all | flag);
    BusHeader {
        current_epoch: m.durable.published.current_epoch,
        config_epoch,
        offset: me.offset,
        sender: me.id,
        slots: slots.bitmap(),
        replica_of,
        ip: announced.ip.as_deref().unwrap_or(""),
        port,
        other_port,
        bus_port: announced.bus_port,
        flags: role | NodeFlags::MYSELF | CAPABILITIES | marks,
        is_down: m.cluster.state == ClusterState::Fail,
        message_flags: MessageFlags {
            is_paused: matches!(m.failover.paused, ManualFailover::Paused { .. }),
            force_ack: false,
            reads_extensions: false,
        },
    }
}

/// The role, epoch, slots and primary that may be sent. A replica sends its primary's epoch and slots. While
/// the last durable file names a primary that is no longer in the table, a replica still sends that primary's
/// id, because an id of zeros would mean that the sender is a primary (E-17).
fn claim(m: &ClusterMachine) -> (NodeFlags, ClusterEpoch, &SlotSet, Option<NodeId>) {
    match &m.durable.published.claim {
        OwnClaim::Primary { config_epoch, slots } => (NodeFlags::PRIMARY, *config_epoch, slots, None),
        OwnClaim::Replica { of } => match of.and_then(|of| m.table.find(&of)) {
            Some(primary) => {
                let node = m.table.node(primary);
                (NodeFlags::REPLICA, node.config_epoch, &node.slots, Some(node.id))
            }
            None => (NodeFlags::REPLICA, m.table.me().config_epoch, &SlotSet::EMPTY, *of),
        },
    }
}

/// Queues a message on a link, if the link has room.
fn queue(m: &mut ClusterMachine, key: LinkKey, kind: MessageType, message: Arc<[u8]>, lane: BusLane) {
    let Some(link) = m.links.get_mut(key) else { return };
    let limit = match lane {
        BusLane::Publish => m.settings.link_publish_limit_bytes,
        BusLane::Control => CONTROL_MAX,
    };
    if !link.queue.has_room(message.len(), lane, limit) {
        return overfull(m, key, message.len(), lane);
    }
    let allocated = match kind {
        MessageType::Ping | MessageType::Pong | MessageType::Meet => message.len().max(PING_ALLOCATION_MIN),
        _ => message.len(),
    };
    link.queue.push(message.len(), allocated, lane);
    m.statistics.sent[kind as usize] += 1;
    m.out.push_back(ClusterOutput::Send { link: key, message, lane });
}

/// Handles a message for which a link has no room. A published message is dropped (G-32); for any other
/// message the link is closed, because the other end does not read.
fn overfull(m: &mut ClusterMachine, key: LinkKey, bytes: usize, lane: BusLane) {
    match lane {
        BusLane::Publish => {
            m.statistics.dropped_publishes += 1;
            m.statistics.dropped_publish_bytes += bytes as u64;
        }
        BusLane::Control => {
            log!(m, Warning, "Closing a link whose other end does not read: {CONTROL_MAX} bytes wait.");
            m.statistics.buffer_limit_exceeded += 1;
            m.close(key);
        }
    }
}

/// Sends PING on the outgoing link, or MEET if the node's [`MeetFlag`] asks for one (G-6), and records the
/// time.
pub(crate) fn ping_or_meet(m: &mut ClusterMachine, ix: NodeIx) {
    match m.table.node(ix).meet {
        MeetFlag::Wanted => {
            meet(m, ix);
            if is_made(Mistake::MeetNotRepeated) {
                m.table.node_mut(ix).meet = MeetFlag::No;
            }
        }
        MeetFlag::No => ping(m, ix),
    }
}

/// Sends PING on the outgoing link of a node.
pub(crate) fn ping(m: &mut ClusterMachine, ix: NodeIx) {
    let Some(key) = m.table.node(ix).place.link_out.key() else { return };
    let time = m.time;
    let clocks = &mut m.table.node_mut(ix).clocks;
    if clocks.ping_sent.is_none() {
        clocks.ping_sent = Some(time.now);
        clocks.ping_wall_ms = time.wall_ms;
    }
    gossip(m, key, MessageType::Ping);
}

/// Sends MEET on the outgoing link of a node.
pub(crate) fn meet(m: &mut ClusterMachine, ix: NodeIx) {
    let Some(key) = m.table.node(ix).place.link_out.key() else { return };
    m.table.node_mut(ix).clocks.meet_sent = Some(m.time.now);
    gossip(m, key, MessageType::Meet);
}

/// Sends PING, PONG or MEET on any link.
pub(crate) fn gossip(m: &mut ClusterMachine, key: LinkKey, kind: MessageType) {
    let Some(link) = m.links.get(key) else { return };
    let receiver = link.node();
    let reads_extensions = link.reads_extensions
        || receiver.is_some_and(|ix| m.table.node(ix).marks.capabilities.contains(NodeFlags::EXTENSIONS));
    if let (Some(ix), MessageType::Ping) = (receiver, kind) {
        let bound = if link.is_out() { "outbound" } else { "inbound" };
        log!(m, Debug, "Sending ping packet to node {} on {bound} link", m.name(ix));
    }
    let mut draws = std::mem::take(&mut m.cron.draws);
    let mut told = std::mem::take(&mut m.cron.gossip);
    let mut packet = std::mem::take(&mut m.cron.packet);
    draw(m, receiver, &mut draws);
    told.clear();
    for ix in &draws {
        told.push(&entry(m, m.table.node(*ix)));
    }
    if reads_extensions {
        announce(m, &mut told);
    }
    let body = match kind {
        MessageType::Pong => MessageBody::Pong(told.gossip()),
        MessageType::Meet => MessageBody::Meet(told.gossip()),
        _ => MessageBody::Ping(told.gossip()),
    };
    let mut header = header(m);
    header.message_flags.reads_extensions = true;
    let message = bytes(&mut packet, &BusMessage::Full(header, body));
    (m.cron.draws, m.cron.gossip, m.cron.packet) = (draws, told, packet);
    if let Some(message) = message {
        queue(m, key, kind, message, BusLane::Control);
    }
}

/// Draws the nodes for a message's gossip (W-6): some random ones that may be of interest, and
/// all suspected ones.
pub(crate) fn draw(m: &mut ClusterMachine, receiver: Option<NodeIx>, draws: &mut Vec<NodeIx>) {
    let known = m.table.len();
    let wanted = (known * usize::from(m.settings.gossip_percent) / 100).max(3).min(known.saturating_sub(2));
    let me = m.table.my_ix();
    let is_told = |ix: NodeIx, node: &ClusterNode| {
        ix != me && Some(ix) != receiver && !node.is_handshake() && !node.is_without_address()
    };
    let is_eligible = |ix: NodeIx, node: &ClusterNode| {
        is_told(ix, node)
            && node.health != NodeHealth::PFail
            && (node.place.link_out != LinkOut::None || node.slot_count > 0)
    };
    draws.clear();
    // Nearly all nodes are eligible nearly always. Therefore positions are drawn, and drawn again after a
    // miss or a repetition. The result is as random as a choice from a list of all eligible nodes.
    let positions = u64::from(m.table.positions());
    let is_few = 2 * wanted as u64 <= positions;
    for _ in 0..if is_few { DRAWS_FOR_EACH * wanted } else { 0 } {
        if draws.len() == wanted {
            break;
        }
        let drawn = m.table.at(m.rng.below(positions) as u32);
        draws.extend(drawn.filter(|ix| is_eligible(*ix, m.table.node(*ix)) && !draws.contains(ix)));
    }
    if draws.len() < wanted {
        draws.clear();
        draws.extend(m.table.iter().filter(|(ix, node)| is_eligible(*ix, node)).map(|(ix, _)| ix));
        let count = wanted.min(draws.len());
        for at in 0..count {
            let other = at + m.rng.below((draws.len() - at) as u64) as usize;
            draws.swap(at, other);
        }
        draws.truncate(count);
    }
    if m.table.suspects() > 0 {
        let suspects =
            m.table.iter().filter(|(ix, node)| is_told(*ix, node) && node.health == NodeHealth::PFail);
        draws.extend(suspects.map(|(ix, _)| ix));
    }
}

/// Number of draws for each wanted node. If they do not suffice, or more nodes are wanted than half of the
/// table's positions, all eligible nodes are listed instead.
const DRAWS_FOR_EACH: usize = 3;

/// The gossip entry about a node.
fn entry<'a>(m: &ClusterMachine, node: &'a ClusterNode) -> GossipEntry<'a> {
    let address = &node.place.address;
    let (port, other_port) = match m.settings.transport {
        BusTransport::Tcp => (address.tcp_port, address.tls_port),
        BusTransport::Tls => (address.tls_port, address.tcp_port),
    };
    let seconds = |ms: i64| u32::try_from(ms / 1_000).unwrap_or(0);
    GossipEntry {
        node: node.id,
        ping_sent_s: seconds(node.clocks.ping_wall_ms),
        pong_received_s: seconds(node.clocks.pong_wall_ms),
        ip: &address.ip,
        port,
        other_port,
        bus_port: address.bus_port,
        flags: node.flags(),
    }
}

/// Adds this node's extensions (W-8).
fn announce(m: &ClusterMachine, told: &mut GossipBuffer) {
    let labels = &m.settings.announced.labels;
    let announced = wire::AnnouncedLabels {
        host_name: &labels.host_name,
        human_name: &labels.human_name,
        client_ipv4: labels.client_ipv4,
        client_ipv6: labels.client_ipv6,
        client_port: labels.client_port,
        client_tls_port: labels.client_tls_port,
        availability_zone: &labels.availability_zone,
        shard: m.durable.published.shard,
    };
    let forgotten = m.blacklist.iter(m.time.now);
    told.announce(&announced, forgotten.map(|(node, seconds)| ForgottenNode { node, seconds }));
}

/// The bytes of a message; `None` if it is longer than messages may be.
fn bytes(packet: &mut Vec<u8>, message: &BusMessage<'_>) -> Option<Arc<[u8]>> {
    packet.clear();
    wire::write(message, packet).ok()?;
    Some(Arc::from(&packet[..]))
}

/// The bytes of a message without gossip; `None` if it is too long. `current_epoch`, if there is one,
/// replaces that of the present header.
fn plain(
    m: &ClusterMachine,
    current_epoch: Option<ClusterEpoch>,
    body: MessageBody<'_>,
) -> Option<Arc<[u8]>> {
    let mut header = header(m);
    header.current_epoch = current_epoch.unwrap_or(header.current_epoch);
    bytes(&mut Vec::new(), &BusMessage::Full(header, body))
}

/// Sends FAIL about a node to all nodes with an outgoing link that are not in handshake (F-6).
pub(crate) fn fail(m: &mut ClusterMachine, id: NodeId) {
    if let Some(message) = plain(m, None, MessageBody::Fail(id)) {
        to_all(m, MessageType::Fail, &message);
    }
}

/// Sends AUTH_REQUEST to all nodes with an outgoing link that are not in handshake, in an epoch that is
/// durable (E-45).
fn vote_request(m: &mut ClusterMachine, epoch: ClusterEpoch, forces: bool) {
    let mut header = header(m);
    header.current_epoch = epoch;
    header.message_flags.force_ack = forces;
    if let Some(message) = bytes(&mut Vec::new(), &BusMessage::Full(header, MessageBody::AuthRequest)) {
        to_all(m, MessageType::AuthRequest, &message);
    }
}

/// Sends MFSTART to this node's primary (M-2).
pub(crate) fn failover_start(m: &mut ClusterMachine, primary: NodeIx) {
    let key = m.table.node(primary).place.link_out.key();
    let message = plain(m, None, MessageBody::ManualFailoverStart);
    if let (Some(key), Some(message)) = (key, message) {
        queue(m, key, MessageType::ManualFailoverStart, message, BusLane::Control);
    }
}

fn to_all(m: &mut ClusterMachine, kind: MessageType, message: &Arc<[u8]>) {
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        let node = m.table.node(ix);
        if let (false, Some(key)) = (node.is_handshake(), node.place.link_out.key()) {
            queue(m, key, kind, Arc::clone(message), BusLane::Control);
        }
    }
}

/// Sends an UPDATE about the slots of the node `about` to the node `to`, whose view of these slots is old
/// (E-19). Does nothing if it sent the same UPDATE a short time ago.
pub(crate) fn update(m: &mut ClusterMachine, to: NodeIx, about: NodeIx) {
    let Some(key) = m.table.node(to).place.link_out.key() else { return };
    let (now, pause) = (m.time.now, m.settings.node_timeout_ms / UPDATES_A_TIMEOUT);
    if m.table.node(to).clocks.updated.is_some_and(|(last, at)| last == about && now - at < pause) {
        return;
    }
    m.table.node_mut(to).clocks.updated = Some((about, now));
    let slots = m.table.claimed_slots(about);
    let node = m.table.node(about);
    // An UPDATE about this node itself has the last durable state, just as this node's headers do.
    let (epoch, slots) = match &m.durable.published.claim {
        OwnClaim::Primary { config_epoch, slots } if about == m.table.my_ix() => (*config_epoch, &**slots),
        _ => (node.config_epoch, &slots),
    };
    let body = MessageBody::Update { config_epoch: epoch, node: node.id, slots: slots.bitmap() };
    if let Some(message) = plain(m, None, body) {
        queue(m, key, MessageType::Update, message, BusLane::Control);
    }
}

/// Releases an output that waited for a durable file: sends it to other nodes, or gives it to the host.
pub(crate) fn release(m: &mut ClusterMachine, held: Withheld) {
    match held {
        Withheld::Vote { to, epoch } => {
            let key = m.table.find(&to).and_then(|ix| m.table.node(ix).place.link_out.key());
            let message = plain(m, Some(epoch), MessageBody::AuthAck);
            if let (Some(key), Some(message)) = (key, message) {
                queue(m, key, MessageType::AuthAck, message, BusLane::Control);
            }
        }
        // The request is dropped if its election is over.
        Withheld::VoteRequest { epoch } => {
            if let Some(schedule) = m.failover.candidacy.open_election(epoch) {
                m.failover.candidacy.asked_at = Some(m.time.now);
                vote_request(m, epoch, schedule.forces);
            }
        }
        Withheld::Reply { to, answer } => m.out.push_back(ClusterOutput::Reply { to, answer }),
        Withheld::Announce => pong_to_all(m),
        Withheld::Takeover { job } => {
            if let Some(source) = import::taken_over(m, job) {
                ping(m, source);
            }
        }
    }
}

/// Sends PONG to all nodes with an established outgoing link that are not in handshake.
fn pong_to_all(m: &mut ClusterMachine) {
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        let node = m.table.node(ix);
        if let (false, LinkOut::Open(key)) = (node.is_handshake(), node.place.link_out) {
            gossip(m, key, MessageType::Pong);
        }
    }
}

/// Sends a published message to the nodes of its scope (P-1, P-2). A node gets it with a light header if it
/// reads such headers and knows that this link comes from this node, that is, has bound the link (P-3). The
/// answer to a first PING does not prove that the link is bound, because the node may not have known this one
/// when it answered. A node closes an unbound link on which a light message arrives. Only the answer to a
/// PING that this node sent after the other node had connected back proves that the link is bound.
pub(crate) fn publish(m: &mut ClusterMachine, channel: &Bytes, message: &Bytes, scope: PublishScope) {
    let kind = match scope {
        PublishScope::All => MessageType::Publish,
        PublishScope::Shard => MessageType::PublishShard,
    };
    let published = PublishedMessage { channel, message };
    let (light_body, full_body) = match scope {
        PublishScope::All => (LightBody::Publish(published), MessageBody::Publish(published)),
        PublishScope::Shard => (LightBody::PublishShard(published), MessageBody::PublishShard(published)),
    };
    let (mut light, mut full) = (None, None);
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        let node = m.table.node(ix);
        let is_reached = match scope {
            PublishScope::All => true,
            PublishScope::Shard => node.shares_shard_with(m.table.me()),
        };
        let Some(key) = node.place.link_out.key().filter(|_| is_reached && !node.is_handshake()) else {
            continue;
        };
        let is_bound = node.marks.capabilities.contains(NodeFlags::LIGHT_PUBLISH)
            && m.links.get(key).is_some_and(|link| link.is_bound_there);
        let block = if is_bound {
            light.get_or_insert_with(|| bytes(&mut Vec::new(), &BusMessage::Light(light_body.clone())))
        } else {
            full.get_or_insert_with(|| plain(m, None, full_body.clone()))
        };
        if let Some(block) = block.clone() {
            queue(m, key, kind, block, BusLane::Publish);
        }
    }
}

/// The address in a message's header, or that of the connection if the header has none.
pub(crate) fn seen<'a>(m: &ClusterMachine, header: &BusHeader<'a>, peer: &'a str) -> Seen<'a> {
    let ip = if header.ip.is_empty() { peer } else { header.ip };
    Seen::new(ip, header.port, header.other_port, header.bus_port, m.settings.transport)
}

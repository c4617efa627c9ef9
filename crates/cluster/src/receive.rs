//! Handles received messages one after another. The numbered steps are those of section 2.5 of the
//! specification of the bus.

use crate::address::IpText;
use crate::addresses;
use crate::candidate;
use crate::claims;
use crate::cron::CRON_MS;
use crate::epochs;
use crate::failure;
use crate::gossip;
use crate::link::{DialTarget, LinkKind};
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, log};
use crate::manual;
use crate::meet;
use crate::migration::contested;
use crate::node::{ClusterNode, Ms, NodeIx, NodeStanding};
use crate::output::{ClusterOutput, PublishScope};
use crate::roles::{self, HeaderVerdict};
use crate::send;
use crate::settings::{OnPacketDrop, PacketFilter};
use crate::slots::SlotSet;
use crate::statistics::COUNTED_TYPES;
use crate::twins;
use crate::voter;
use crate::wire::{
    self, BusHeader, BusMessage, Gossip, LightBody, MessageBody, MessagePrefix, MessageType, NodeFlags,
    PublishedMessage, ReceivedMessage,
};
use sluice_base::Bytes;
use sluice_base::mistake::{Mistake, is_made};

/// Time after which a node that has connected to this one certainly knows this one, ms.
const INTRODUCTION_MS: Ms = 2 * CRON_MS;
/// The most bytes of a published message that a known node may send.
const PUBLISHED_MAX: usize = 32 + 2 * 512 * 1024 * 1024;
/// Bytes of incomplete messages that all links together may keep, without published messages.
pub(crate) const KEPT_MAX: usize = 64 << 20;
/// Flags of a header that name capabilities of the sender.
const CAPABILITIES: u16 = NodeFlags::LIGHT_PUBLISH.0 | NodeFlags::MULTI_MEET.0;

/// Handles bytes of a link (step 1). The bytes of an incomplete message are kept.
pub(crate) fn bytes(m: &mut ClusterMachine, key: LinkKey, mut input: &[u8]) {
    let Some(link) = m.links.get_mut(key) else { return };
    let mut inbox = std::mem::take(&mut link.inbox);
    loop {
        let of_link = m.links.get(key).and_then(|link| link.node());
        let is_known = |ix: NodeIx| !m.table.node(ix).is_handshake();
        let is_of_known_node = of_link.is_some_and(is_known);
        let mut rest = input;
        let received = inbox.next(&mut rest, PUBLISHED_MAX, |sender| match sender {
            Some(id) => m.table.find(&id).is_some_and(is_known),
            None => is_of_known_node,
        });
        input = &input[input.len() - rest.len()..];
        match received {
            None => break,
            Some(ReceivedMessage::BusMessage(bytes)) => whole(m, key, bytes),
            Some(ReceivedMessage::PassedOver(prefix)) => {
                count(m, prefix, prefix.length as usize);
                if prefix.is_light && !is_of_known_node {
                    close_unbound(m, key);
                }
            }
            Some(ReceivedMessage::Bad(_)) => {
                let peer = peer_of(m, key);
                log!(m, Warning, "Bad message length or signature received on the Cluster bus from {peer}.");
                m.close(key);
            }
        }
        if m.links.get(key).is_none() {
            return;
        }
    }
    m.links.keep(key, inbox);
    limit_kept(m, key);
}

/// Closes links while all links together keep too many bytes: first the links without a node, beginning with
/// the fullest; then the link `last`, which has just received bytes.
fn limit_kept(m: &mut ClusterMachine, last: LinkKey) {
    while m.links.kept() > KEPT_MAX {
        let key = m.links.fullest_without_node().unwrap_or(last);
        let peer = peer_of(m, key);
        log!(
            m,
            Warning,
            "Closing the link of {peer}: unfinished messages of all links take too much memory."
        );
        m.statistics.buffer_limit_exceeded += 1;
        m.close(key);
        if key == last {
            return;
        }
    }
}

/// Counts a message that arrived as a whole, even if it is dropped (step 2).
fn count(m: &mut ClusterMachine, prefix: MessagePrefix, bytes: usize) {
    let bytes = bytes as u64;
    m.statistics.bytes_received += bytes;
    if let Some(counter) = m.statistics.received.get_mut(usize::from(prefix.number)) {
        *counter += 1;
    }
    match MessageType::from_number(prefix.number) {
        Some(MessageType::Publish | MessageType::PublishShard) => m.statistics.pubsub_bytes_received += bytes,
        Some(MessageType::Module) => m.statistics.module_bytes_received += bytes,
        _ => {}
    }
}

/// Handles one whole message (steps 2 to 4).
fn whole(m: &mut ClusterMachine, key: LinkKey, bytes: &[u8]) {
    let Some(Ok(prefix)) = MessagePrefix::of(bytes) else { return };
    count(m, prefix, bytes.len());
    let is_dropped = match m.settings.debug.packet_filter {
        PacketFilter::None => false,
        PacketFilter::All => true,
        PacketFilter::Type(number) => number == prefix.number,
    };
    if is_dropped {
        if m.settings.debug.on_packet_drop == OnPacketDrop::Close {
            m.close(key);
        }
        return;
    }
    match wire::parse(bytes) {
        Ok(message) => message_of(m, key, &message),
        Err(invalid) => {
            m.statistics.invalid_packets += 1;
            if invalid.is_logged() {
                log!(m, Warning, "{invalid}");
            }
            if invalid.breach == wire::Breach::SenderId {
                end_handshake(m, key);
            }
        }
    }
}

/// Ends the handshake of an outgoing link whose other end sent an invalid id, or this node's own id (X-4,
///
fn end_handshake(m: &mut ClusterMachine, key: LinkKey) {
    let link = m.links.get(key).filter(|link| link.is_out());
    if let Some(ix) = link.and_then(|link| link.node()).filter(|ix| m.table.node(*ix).is_handshake()) {
        m.delete(ix);
    }
}

/// Handles a checked message of a link.
pub(crate) fn message_of(m: &mut ClusterMachine, key: LinkKey, message: &BusMessage<'_>) {
    match message {
        BusMessage::Full(header, body) => full(m, key, header, body),
        BusMessage::Light(body) => light(m, key, body),
    }
}

/// Handles a message without a sender; the link must have a node, which must not be in handshake (step 5).
fn light(m: &mut ClusterMachine, key: LinkKey, body: &LightBody<'_>) {
    let Some(link) = m.links.get(key) else { return };
    let Some(ix) = link.node().filter(|ix| !m.table.node(*ix).is_handshake()) else {
        return close_unbound(m, key);
    };
    m.table.node_mut(ix).clocks.data_received = m.time.now;
    match body {
        LightBody::Publish(published) => deliver(m, published, PublishScope::All),
        LightBody::PublishShard(published) => deliver(m, published, PublishScope::Shard),
        LightBody::Module => {}
    }
}

/// Closes a link without a known node on which a message without a sender arrived, so that the sender, which
/// considers the link bound, dials again.
fn close_unbound(m: &mut ClusterMachine, key: LinkKey) {
    let peer = peer_of(m, key);
    log!(
        m,
        Notice,
        "Closing link for {peer} that sent a lightweight message as its first message on the link"
    );
    m.close(key);
}

fn deliver(m: &mut ClusterMachine, published: &PublishedMessage<'_>, scope: PublishScope) {
    let (channel, message) = (Bytes::copy_from(published.channel), Bytes::copy_from(published.message));
    m.out.push_back(ClusterOutput::Deliver { channel, message, scope });
}

fn peer_of(m: &ClusterMachine, key: LinkKey) -> IpText {
    match m.links.get(key).map(|link| &link.kind) {
        Some(LinkKind::In { peer, .. }) => IpText::clone(peer),
        Some(LinkKind::Out { node, target }) => match target {
            DialTarget::AnnouncedLabels => IpText::clone(&m.table.node(*node).place.address.ip),
            DialTarget::Candidate(address) => IpText::clone(&address.ip),
        },
        None => "".into(),
    }
}

/// Handles a message with a full header (steps 6 to 13).
fn full(m: &mut ClusterMachine, key: LinkKey, header: &BusHeader<'_>, body: &MessageBody<'_>) {
    let Some(link) = m.links.get_mut(key) else { return };
    link.reads_extensions |= header.message_flags.reads_extensions;
    let of_link = link.node();
    let is_out = link.is_out();
    if header.sender == m.table.me().id {
        // a message with this node's own id ends a handshake with itself, or gets a PONG; nothing else
        // in it counts.
        if is_out && of_link.is_some_and(|ix| m.table.node(ix).is_handshake()) {
            end_handshake(m, key);
        } else if !is_out && matches!(body, MessageBody::Ping(_) | MessageBody::Meet(_)) {
            send::gossip(m, key, MessageType::Pong);
        }
        return;
    }
    // A header with another id than that of the link's node says nothing about that node. The reference takes
    // epochs and offset from such a header, that is, from any node that now has the address.
    let sender = m.table.find(&header.sender).filter(|ix| !m.table.node(*ix).is_handshake());
    let is_strange =
        is_out && of_link.is_some_and(|ix| !m.table.node(ix).is_handshake() && Some(ix) != sender);
    let believed = of_link.filter(|_| is_strange && is_made(Mistake::StrangeHeaderBelieved));
    let sender = sender.filter(|_| !is_strange).or(believed);
    if let Some(ix) = sender {
        claims_of_header(m, key, ix, header);
    } else if let Some(ix) = of_link.filter(|_| !is_strange) {
        m.table.node_mut(ix).clocks.data_received = m.time.now;
    }
    match body {
        MessageBody::Ping(gossip) => talk(m, key, sender, header, gossip, MessageType::Ping),
        MessageBody::Pong(gossip) => talk(m, key, sender, header, gossip, MessageType::Pong),
        MessageBody::Meet(gossip) => talk(m, key, sender, header, gossip, MessageType::Meet),
        other => rest(m, key, sender, header, other),
    }
}

/// Takes the properties of a known sender from its header (steps 6 and 7).
fn claims_of_header(m: &mut ClusterMachine, key: LinkKey, ix: NodeIx, header: &BusHeader<'_>) {
    let link = m.links.get(key);
    if link.is_some_and(|link| !link.is_out() && link.node().is_none()) {
        meet::bind(m, key, ix);
    }
    let now = m.time.now;
    let node = m.table.node_mut(ix);
    node.clocks.data_received = now;
    let mut capabilities = header.flags.0 & CAPABILITIES;
    if header.message_flags.reads_extensions || node.marks.capabilities.contains(NodeFlags::EXTENSIONS) {
        capabilities |= NodeFlags::EXTENSIONS.0;
    }
    node.marks.capabilities = NodeFlags(capabilities);
    node.marks.my_primary_fail = header.flags.contains(NodeFlags::MY_PRIMARY_FAIL);
    // The map shows a replica at offset 0 as loading, so a change from or to 0 needs a new map; other offsets
    // are read when needed (N-8).
    let was_loading = std::mem::replace(&mut node.offset, header.offset) == 0;
    m.todo.map |= was_loading != (header.offset == 0);
    epochs::heard(m, header.current_epoch);
    voter::heard(m, ix);
    if header.replica_of.is_none() {
        // Slots are read only from PING, PONG and MEET. If another message has a new epoch, the node has not
        // claimed its slots at that epoch yet.
        let node = m.table.node_mut(ix);
        node.marks.has_claimed &= header.config_epoch <= node.config_epoch;
        epochs::claimed(m, ix, header.config_epoch);
    }
}

/// Handles PING, PONG and MEET (steps 8 to 12).
fn talk(
    m: &mut ClusterMachine,
    key: LinkKey,
    sender: Option<NodeIx>,
    header: &BusHeader<'_>,
    gossip: &Gossip<'_>,
    kind: MessageType,
) {
    if kind != MessageType::Pong {
        greet(m, key, sender, header, gossip, kind);
    }
    let Some(link) = m.links.get(key) else { return };
    let is_out = link.is_out();
    if let (true, Some(ix)) = (is_out, link.node()) {
        if m.table.node(ix).is_handshake() {
            if meet::finish(m, key, ix, header) && kind == MessageType::Pong {
                pong(m, key, ix);
            }
            return;
        }
        if m.table.node(ix).id != header.sender {
            return meet::answered_by_other_node(m, key, ix);
        }
    }
    let Some(ix) = sender else {
        if is_made(Mistake::StrangersBelieved) {
            gossip::of_unknown_node(m, gossip);
        }
        return;
    };
    meet::heard_from(m, ix);
    note_failover_wish(m, ix, header);
    candidate::heard_of_pause(m, ix, header, is_out);
    if !is_out && kind == MessageType::Ping && m.table.node(ix).id == header.sender {
        let peer = peer_of(m, key);
        let seen = send::seen(m, header, &peer);
        addresses::take(m, ix, &seen);
    }
    if is_out && kind == MessageType::Pong {
        pong(m, key, ix);
    }
    gossip::shard_ahead_of_role(m, ix, gossip);
    if roles_and_slots(m, ix, header) == HeaderVerdict::Stale {
        return;
    }
    let id = m.table.node(ix).id;
    gossip::entries(m, ix, gossip);
    // The sender is looked up again. No rule lets gossip delete the sender of a message, but a peer may send
    // any contents.
    if m.table.find(&id) == Some(ix) {
        gossip::extensions(m, ix, gossip);
        twins::heard(m, ix, header, gossip);
    }
}

/// Handles a PING or MEET (step 8). May learn this node's own address, begins the handshake for a MEET, and
/// sends the answer, which shows the state before the rest of the message is handled.
fn greet(
    m: &mut ClusterMachine,
    key: LinkKey,
    sender: Option<NodeIx>,
    header: &BusHeader<'_>,
    gossip: &Gossip<'_>,
    kind: MessageType,
) {
    if let Some(LinkKind::In { local, .. }) = m.links.get(key).map(|link| &link.kind)
        && (kind == MessageType::Meet || m.table.me().place.address.ip.is_empty())
    {
        let local = IpText::clone(local);
        addresses::learn_own(m, &local);
    }
    if sender.is_none()
        && let Some(link) = m.links.get_mut(key)
        && let LinkKind::In { node: None, greeted_by, .. } = &mut link.kind
    {
        *greeted_by = Some(header.sender);
    }
    if kind == MessageType::Meet {
        match sender {
            Some(ix) => meet::met_again(m, ix),
            None => meet::met_by(m, key, header, gossip),
        }
    }
    if is_made(Mistake::NoPongWhileWriting) && m.durable.is_writing() {
        return;
    }
    send::gossip(m, key, MessageType::Pong);
}

fn note_failover_wish(m: &mut ClusterMachine, ix: NodeIx, header: &BusHeader<'_>) {
    let wants_none = header.flags.contains(NodeFlags::NOFAILOVER);
    let marks = &mut m.table.node_mut(ix).marks;
    if marks.no_failover != wants_none {
        marks.no_failover = wants_none;
        m.save();
    }
}

/// Handles a PONG on an outgoing link, which shows that the node answers (step 9).
fn pong(m: &mut ClusterMachine, key: LinkKey, ix: NodeIx) {
    let time = m.time;
    let mut confirmed = None;
    let place = &m.table.node(ix).place;
    let met_at = place.link_in.and_then(|key| m.links.get(key)).map(|link| link.since);
    let asked_at = m.table.node(ix).clocks.ping_sent;
    if let Some(link) = m.links.get_mut(key) {
        link.pong_at = Some(time.now);
        link.is_bound_there |=
            met_at.zip(asked_at).is_some_and(|(met, asked)| asked >= met.saturating_add(INTRODUCTION_MS));
        if let LinkKind::Out { target, .. } = &mut link.kind
            && let DialTarget::Candidate(address) = std::mem::replace(target, DialTarget::AnnouncedLabels)
        {
            confirmed = Some(address);
        }
    }
    let clocks = &mut m.table.node_mut(ix).clocks;
    clocks.ping_sent = None;
    clocks.ping_wall_ms = 0;
    clocks.pong_received = Some(time.now);
    clocks.pong_wall_ms = time.wall_ms;
    if let Some(address) = confirmed {
        addresses::confirmed(m, ix, address);
    }
    failure::answered(m, ix);
}

/// Handles role, slots and epoch of a header (step 10).
fn roles_and_slots(m: &mut ClusterMachine, ix: NodeIx, header: &BusHeader<'_>) -> HeaderVerdict {
    if roles::heard(m, ix, header.replica_of, header.config_epoch) == HeaderVerdict::Stale {
        return HeaderVerdict::Stale;
    }
    if header.replica_of.is_none() {
        let node: &ClusterNode = m.table.node(ix);
        let is_awaited = !m.keys.strays.is_empty() || !m.keys.granted_here.is_empty();
        if node.slots.bitmap() != header.slots || m.table.has_unclaimed() || is_awaited {
            claims::heard(m, ix, header.config_epoch, &SlotSet::from_bitmap(header.slots));
        }
        m.table.node_mut(ix).marks.has_claimed = true;
        epochs::collide(m, ix, header.config_epoch);
    } else {
        contested::follows(m, ix);
        if header.replica_of == Some(m.table.me().id) && m.table.me().slots.bitmap() != header.slots {
            claims::heard_by_replica(m, ix, &SlotSet::from_bitmap(header.slots));
        }
    }
    HeaderVerdict::Go
}

/// Handles the other types (step 13). Messages of an unknown sender are ignored (W-14).
fn rest(
    m: &mut ClusterMachine,
    key: LinkKey,
    sender: Option<NodeIx>,
    header: &BusHeader<'_>,
    body: &MessageBody<'_>,
) {
    let Some(ix) = sender else {
        if let MessageBody::Fail(about) = body {
            log!(m, Notice, "Ignoring FAIL message from unknown node {} about {about}", header.sender);
        }
        return;
    };
    if m.table.node(ix).standing == NodeStanding::NoAddr && matches!(body, MessageBody::AuthRequest) {
        return;
    }
    match body {
        MessageBody::Fail(about) => failure::told(m, ix, *about),
        MessageBody::Publish(published) => deliver(m, published, PublishScope::All),
        MessageBody::PublishShard(published) => deliver(m, published, PublishScope::Shard),
        MessageBody::AuthRequest => voter::asked(m, ix, header),
        MessageBody::ManualFailoverStart => manual::requested(m, key, ix),
        MessageBody::Update { config_epoch, node, slots } => {
            claims::updated(m, ix, *node, *config_epoch, &SlotSet::from_bitmap(slots));
        }
        MessageBody::Unknown(number) => log!(m, Warning, "Received unknown packet type: {number}"),
        MessageBody::AuthAck => candidate::voted(m, ix, header),
        // Module messages are counted and dropped. The other types do not get here (see `full`).
        MessageBody::Module | MessageBody::Ping(_) | MessageBody::Pong(_) | MessageBody::Meet(_) => {}
    }
}

const _: () = assert!(COUNTED_TYPES == MessageType::PublishShard as usize + 1);

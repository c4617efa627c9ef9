//! Meeting other nodes (G-12 to G-20).

use crate::address::{IpText, Seen};
use crate::addresses;
use crate::failure;
use crate::id::NodeId;
use crate::link::{BusLink, DialTarget, LinkKind};
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, log};
use crate::node::{ClusterNode, Initiator, LinkOut, MeetFlag, NodeIx, NodeStanding};
use crate::send;
use crate::table::{HANDSHAKES_MAX, NODES_MAX};
use crate::wire::{BusHeader, Gossip, NodeFlags};
use sluice_base::mistake::{Mistake, is_made};

/// The most MEETs that this node sends on its own to a node that has no bound incoming link (G-13).
const AUTO_MEETS_MAX: u8 = 3;

/// Begins a handshake with an address. `None` if a handshake with this address is under way, or if there are
/// too many handshakes or nodes.
pub(crate) fn begin(m: &mut ClusterMachine, seen: &Seen<'_>, initiator: Initiator) -> Option<NodeIx> {
    let handshakes = m.table.iter().filter(|(_, node)| node.is_handshake());
    let mut count = 0;
    for (_, node) in handshakes {
        count += 1;
        let address = &node.place.address;
        if *address.ip == *seen.ip && address.bus_port == seen.bus_port {
            return None;
        }
    }
    if count >= HANDSHAKES_MAX || m.table.len() >= NODES_MAX {
        log!(m, Warning, "Too many nodes or handshakes: no handshake with {}:{}", seen.ip, seen.bus_port);
        return None;
    }
    let id = NodeId::random(&mut m.rng);
    let mut node = m.new_node(id);
    node.standing = NodeStanding::Handshake { since: m.time.now, initiator };
    if initiator == Initiator::Met {
        node.meet = MeetFlag::Wanted;
    }
    node.place.address = seen.owned();
    Some(m.table.insert(node))
}

/// Handles MEET of an unknown node on a link without a node (G-12). A node in the blacklist is only admitted
/// if its gossip names no node that this node knows. A node whose gossip names such a node is coming back by
/// itself, not by an operator's MEET.
pub(crate) fn met_by(m: &mut ClusterMachine, key: LinkKey, header: &BusHeader<'_>, gossip: &Gossip<'_>) {
    let Some(link) = m.links.get(key) else { return };
    let LinkKind::In { node: None, peer, .. } = &link.kind else { return };
    let peer = IpText::clone(peer);
    if m.blacklist.contains(&header.sender, m.time.now) {
        let my_id = m.table.me().id;
        let knows_us =
            gossip.entries().any(|entry| entry.node == my_id || m.table.find(&entry.node).is_some());
        if knows_us && !is_made(Mistake::ForgottenNodeMet) {
            log!(m, Debug, "Ignoring MEET of the forgotten node {}", header.sender);
            return;
        }
    }
    let seen = send::seen(m, header, &peer);
    if let Some(ix) = begin(m, &seen, Initiator::MetBy) {
        m.table.node_mut(ix).marks.let_in_until = m.blacklist.remove(&header.sender);
        bind(m, key, ix);
    }
}

/// Binds an incoming link to a node; an older incoming link of the node is closed (G-5).
pub(crate) fn bind(m: &mut ClusterMachine, key: LinkKey, ix: NodeIx) {
    if let Some(old) = m.table.node(ix).place.link_in.filter(|old| *old != key) {
        log!(m, Debug, "Replacing inbound link of node {}", m.name(ix));
        m.close(old);
    }
    if m.links.get(key).is_some_and(|link| !link.is_out()) {
        m.links.bind(key, ix);
        let node = m.table.node_mut(ix);
        node.place.link_in = Some(key);
        node.marks.auto_meets = 0;
    }
}

/// Binds the incoming link on which a newly known node has introduced itself. The node has received an answer
/// on that link, and may therefore send messages without a sender on it.
fn bind_greeted(m: &mut ClusterMachine, ix: NodeIx) {
    if m.table.node(ix).place.link_in.is_some() {
        return;
    }
    let id = m.table.node(ix).id;
    let is_greeted = |link: &BusLink| matches!(link.kind, LinkKind::In { node: None, greeted_by, .. } if greeted_by == Some(id));
    if let Some(key) = m.links.find_unbound(is_greeted) {
        bind(m, key, ix);
    }
}

/// Handles the first answer on the outgoing link of a handshake (G-14); `false` if the link or its
/// node was removed.
pub(crate) fn finish(m: &mut ClusterMachine, key: LinkKey, ix: NodeIx, header: &BusHeader<'_>) -> bool {
    let peer = IpText::clone(&m.table.node(ix).place.address.ip);
    if header.sender == m.table.me().id {
        m.delete(ix);
        return false;
    }
    if let Some(known) = m.table.find(&header.sender) {
        log!(
            m,
            Verbose,
            "Handshake: we already know node {}, updating the address if needed.",
            m.name(known)
        );
        let seen = send::seen(m, header, &peer);
        m.delete(ix);
        addresses::take(m, known, &seen);
        return false;
    }
    m.table.rename(ix, header.sender);
    m.table.node_mut(ix).standing = NodeStanding::Known;
    if header.flags.contains(NodeFlags::PRIMARY) {
        m.table.make_primary(ix);
    } else if header.flags.contains(NodeFlags::REPLICA) {
        m.table.make_replica(ix, None);
    }
    if let Some(link) = m.links.get_mut(key) {
        link.pong_at = Some(m.time.now);
    }
    bind_greeted(m, ix);
    log!(m, Debug, "Handshake with node {} completed.", m.name(ix));
    m.reconsider();
    m.save();
    true
}

/// Handles a message with another id than that of the link's node (G-16). If the address was only a
/// candidate, the candidate is removed; otherwise the node has no address any more and counts as failed.
pub(crate) fn answered_by_other_node(m: &mut ClusterMachine, key: LinkKey, ix: NodeIx) {
    let target = match m.links.get(key).map(|link| &link.kind) {
        Some(LinkKind::Out { target, .. }) => target.clone(),
        _ => return,
    };
    if let DialTarget::Candidate(address) = target {
        addresses::drop_candidate(m, ix, &address);
        m.close(key);
        return;
    }
    let node = m.table.node(ix);
    let age = m.time.now - node.clocks.created;
    log!(
        m,
        Notice,
        "PONG contains mismatching sender ID. About node {} in shard {} added {age} ms ago, having flags {}",
        m.name(ix),
        node.shown_shard(),
        node.flags().0
    );
    let was_failed = node.is_failed();
    let id = node.id;
    let node = m.table.node_mut(ix);
    node.standing = NodeStanding::NoAddr;
    let lost = std::mem::replace(&mut node.place.address, crate::address::NodeAddress::none());
    log!(m, Debug, "Node {id} is not at {} any more", lost.ip);
    m.table.node_mut(ix).place.candidates.lost = Some(lost);
    m.close(key);
    m.reconsider();
    m.save();
    if !was_failed {
        failure::condemn(m, ix);
        send::fail(m, id);
    }
}

/// Records that a message of the node itself has arrived, so that MEET need not be repeated (G-13).
pub(crate) fn heard_from(m: &mut ClusterMachine, ix: NodeIx) {
    if m.table.node(ix).meet == MeetFlag::Wanted {
        m.table.node_mut(ix).meet = MeetFlag::No;
        log!(m, Notice, "Successfully completed handshake with {}", m.name(ix));
    }
}

/// Handles MEET of a known node, which has forgotten this one. Unless the node is newer than the handshake
/// timeout, the outgoing link to it is closed, because a new link makes it bind this node again (G-19).
pub(crate) fn met_again(m: &mut ClusterMachine, ix: NodeIx) {
    let node = m.table.node(ix);
    let is_old = m.time.now - node.clocks.created > m.settings.handshake_ms();
    if is_old && node.place.link_out != LinkOut::None {
        log!(
            m,
            Notice,
            "Freeing outbound link to node {} after receiving a MEET packet from this known node",
            m.name(ix)
        );
        m.drop_link_out(ix);
    }
}

/// Ends a handshake that has taken too long (G-15); `true` if the node was removed.
pub(crate) fn expire(m: &mut ClusterMachine, ix: NodeIx) -> bool {
    let NodeStanding::Handshake { since, .. } = m.table.node(ix).standing else { return false };
    if m.time.now - since <= m.settings.handshake_ms() {
        return false;
    }
    let address = &m.table.node(ix).place.address;
    log!(m, Warning, "Clusterbus handshake timeout {}:{}", address.ip, address.bus_port);
    m.delete(ix);
    true
}

/// Sends MEET to a node that does not dial this one (G-13). Called by the cron for each node.
pub(crate) fn repeat_meet(m: &mut ClusterMachine, ix: NodeIx) {
    let now = m.time.now;
    let limit = m.settings.handshake_ms();
    let node = m.table.node(ix);
    let LinkOut::Open(key) = node.place.link_out else { return };
    if !is_deaf(node, now, limit) {
        return;
    }
    let answered = m.links.get(key).and_then(|link| link.pong_at);
    let is_silent = answered.is_none_or(|at| now - at > m.settings.node_timeout_ms);
    if is_silent && !is_made(Mistake::MeetsWithoutEnd) {
        return;
    }
    log!(m, Notice, "Sending MEET packet to node {} because there is no inbound link for it", m.name(ix));
    let node = m.table.node_mut(ix);
    node.meet = MeetFlag::Wanted;
    node.marks.auto_meets = node.marks.auto_meets.saturating_add(1);
    send::meet(m, ix);
}

fn is_deaf(node: &ClusterNode, now: u64, limit: u64) -> bool {
    node.standing == NodeStanding::Known
        && node.meet == MeetFlag::No
        && node.is_up()
        && node.place.link_in.is_none()
        && now.saturating_sub(node.clocks.link_in_lost) > limit
        && node.clocks.meet_sent.is_none_or(|at| now - at > limit)
        && node.marks.capabilities.contains(NodeFlags::MULTI_MEET)
        && (node.marks.auto_meets < AUTO_MEETS_MAX || is_made(Mistake::MeetsWithoutEnd))
}

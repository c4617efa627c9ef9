//! Changes of nodes' addresses, caused by a node's own messages, by gossip, or by look-ups of host names
//! (G-17, G-18, G-23).
//!
//! Invariants: (1) an address that only gossip or a resolver has named is a candidate, not the node's
//! address, so that only the list of candidates changes if another node answers there; (2) each new address
//! of another node is one line of the log with the old and the new one.

use crate::address::{IpText, NodeAddress, Seen};
use crate::link::DialTarget;
use crate::machine::{ClusterMachine, log};
use crate::node::{CANDIDATES_MAX, LinkOut, NodeIx, NodeStanding};
use crate::output::{ClusterOutput, RoleChange, Synchronisation};
use std::net::IpAddr;
use std::sync::Arc;

/// The text of a connection's address; an IPv4 address in IPv6 form is written as IPv4.
pub(crate) fn text(ip: IpAddr) -> IpText {
    ip.to_canonical().to_string().into()
}

/// Gives a node a new address: its outgoing link is dropped, and replication follows if the node is this
/// node's primary. An equal address changes nothing, unless the node was one without an address.
pub(crate) fn take(m: &mut ClusterMachine, ix: NodeIx, seen: &Seen<'_>) {
    let node = m.table.node(ix);
    if node.place.address.is(seen) && !node.is_without_address() {
        return;
    }
    let old = replace(m, ix, seen.owned());
    m.drop_link_out(ix);
    report(m, ix, &old);
}

/// Handles the answer of a node at a candidate address, which becomes the node's address; the link stays
/// open.
pub(crate) fn confirmed(m: &mut ClusterMachine, ix: NodeIx, address: NodeAddress) {
    let old = replace(m, ix, address);
    report(m, ix, &old);
}

/// Handles another node's report that a node is healthy at a different address (G-10 item 5). If this node
/// has no address of that node, no link to it, or receives no answers from it, the reported address becomes
/// the candidate to dial next; if the node answers there, the candidate becomes its address.
pub(crate) fn heard(m: &mut ClusterMachine, ix: NodeIx, seen: &Seen<'_>) {
    let (now, patience) = (m.time.now, m.settings.node_timeout_ms);
    let node = m.table.node_mut(ix);
    let is_silent = node.clocks.ping_sent.is_some_and(|sent| now.saturating_sub(sent) > patience / 2);
    if !is_silent && !node.is_without_address() && node.place.link_out != LinkOut::None {
        return;
    }
    let candidates = &mut node.place.candidates;
    if !add(&mut candidates.addresses, seen.owned()) {
        return;
    }
    candidates.turn = candidates.addresses.len();
    candidates.failing_since = Some(now.saturating_sub(patience + 1));
    m.drop_link_out(ix);
}

fn replace(m: &mut ClusterMachine, ix: NodeIx, new: NodeAddress) -> NodeAddress {
    let node = m.table.node_mut(ix);
    let old = std::mem::replace(&mut node.place.address, new);
    if node.is_without_address() {
        node.standing = NodeStanding::Known;
    }
    let candidates = &mut node.place.candidates;
    candidates.turn = 0;
    candidates.failing_since = None;
    candidates.lost = None;
    let place = &mut node.place;
    place.candidates.addresses.retain(|candidate| !is_same_place(candidate, &place.address));
    if !is_same_place(&old, &place.address) {
        add(&mut place.candidates.addresses, old.clone());
    }
    old
}

fn report(m: &mut ClusterMachine, ix: NodeIx, old: &NodeAddress) {
    let address = m.table.node(ix).place.address.clone();
    let port = address.tcp_port.max(address.tls_port);
    log!(
        m,
        Notice,
        "Address updated for node {}, now {}:{port}, was {}:{}",
        m.name(ix),
        address.ip,
        old.ip,
        old.tcp_port.max(old.tls_port)
    );
    if m.is_my_primary(ix) {
        let (node, synchronisation) = (m.table.node(ix).id, Synchronisation::Partial);
        m.out.push_back(ClusterOutput::Role(RoleChange::ReplicaOf { node, address, synchronisation }));
    }
    m.save();
    m.reconsider();
}

/// Whether two addresses name the same listener of the bus.
fn is_same_place(one: &NodeAddress, other: &NodeAddress) -> bool {
    (&one.ip, one.bus_port) == (&other.ip, other.bus_port)
}

/// Adds a candidate, in place of the oldest if there are too many; `true` if it is new and can be dialled.
fn add(addresses: &mut Vec<NodeAddress>, address: NodeAddress) -> bool {
    let is_known = addresses.iter().any(|candidate| is_same_place(candidate, &address));
    if address.ip.is_empty() || address.bus_port == 0 || is_known {
        return false;
    }
    if addresses.len() >= CANDIDATES_MAX {
        addresses.remove(0);
    }
    addresses.push(address);
    true
}

/// Adds the addresses of a host name as candidates, with the node's known ports.
pub(crate) fn resolved(m: &mut ClusterMachine, ix: NodeIx, addresses: &[IpAddr]) {
    let place = &mut m.table.node_mut(ix).place;
    let ports = match &place.candidates.lost {
        Some(lost) if place.address.bus_port == 0 => lost.clone(),
        _ => place.address.clone(),
    };
    for ip in addresses.iter().take(CANDIDATES_MAX) {
        let address = NodeAddress { ip: text(*ip), ..ports.clone() };
        if !is_same_place(&address, &place.address) {
            add(&mut place.candidates.addresses, address);
        }
    }
}

/// Removes a candidate at which another node has answered.
pub(crate) fn drop_candidate(m: &mut ClusterMachine, ix: NodeIx, address: &NodeAddress) {
    let candidates = &mut m.table.node_mut(ix).place.candidates;
    candidates.addresses.retain(|candidate| !is_same_place(candidate, address));
    candidates.turn = 0;
}

/// The next address of a node to dial, and its port; `None` if that address cannot be dialled. Until the
/// announced address has failed for as long as `patience_ms` says, only that address is dialled; after that,
/// all known addresses are dialled in turn.
pub(crate) fn next_target(m: &mut ClusterMachine, ix: NodeIx) -> Option<(DialTarget, IpText, u16)> {
    let now = m.time.now;
    let patience = patience_ms(m, ix);
    let place = &mut m.table.node_mut(ix).place;
    let candidates = &mut place.candidates;
    let is_failing = candidates.failing_since.is_some_and(|since| now.saturating_sub(since) >= patience);
    let count = if is_failing { candidates.addresses.len() } else { 0 };
    let mut turn = candidates.turn % (count + 1);
    if turn == 0 && place.address.ip.is_empty() && count > 0 {
        turn = 1;
    }
    candidates.turn = turn + 1;
    let (target, address) = match turn.checked_sub(1) {
        None => (DialTarget::AnnouncedLabels, &place.address),
        Some(at) => {
            let candidate = &candidates.addresses[at];
            (DialTarget::Candidate(candidate.clone()), candidate)
        }
    };
    let can_be_dialled = !address.ip.is_empty() && address.bus_port != 0;
    can_be_dialled.then(|| (target, Arc::clone(&address.ip), address.bus_port))
}

/// The time, in ms, for which the announced address of a node must have failed before candidates are dialled.
/// It is just above the node timeout, or 0 for a node that has not answered in this process. For such a node
/// the timeout would be too long, because all nodes may have new addresses since the file was written, and
/// nodes suspect one another after a timeout without answers.
fn patience_ms(m: &ClusterMachine, ix: NodeIx) -> u64 {
    match m.table.node(ix).clocks.pong_received {
        None => 0,
        Some(_) => m.settings.node_timeout_ms + 1,
    }
}

/// Handles a failed dial to a node's announced address. If the node has not answered in this process, its
/// candidates are tried next.
pub(crate) fn unreachable(m: &mut ClusterMachine, ix: NodeIx) {
    let now = m.time.now;
    let node = m.table.node_mut(ix);
    if node.clocks.pong_received.is_none() && !node.is_handshake() {
        node.place.candidates.failing_since.get_or_insert(now);
        look_for(m, ix);
    }
}

/// Records whether a node answers. If its address has failed for as long as `patience_ms` says, looks up its
/// host name, at most once in half a node timeout. Called by the cron, and after failed dials.
pub(crate) fn look_for(m: &mut ClusterMachine, ix: NodeIx) {
    let now = m.time.now;
    let timeout = m.settings.node_timeout_ms;
    let patience = patience_ms(m, ix);
    let node = m.table.node_mut(ix);
    if node.is_handshake() {
        return;
    }
    let has_answered = node.clocks.pong_received.is_some();
    let is_silent = node.clocks.ping_sent.is_some_and(|sent| now.saturating_sub(sent) > timeout / 2);
    let is_failing = is_silent || node.is_without_address();
    let candidates = &mut node.place.candidates;
    if !is_failing && (has_answered || candidates.failing_since.is_none()) {
        // Memory is written only if something changes, because the cron calls this often.
        if candidates.failing_since.is_some() {
            candidates.failing_since = None;
        }
        return;
    }
    let since = *candidates.failing_since.get_or_insert(now);
    let is_due = candidates.resolved.is_none_or(|at| now - at > timeout / 2);
    if now.saturating_sub(since) >= patience && is_due && !node.place.labels.host_name.is_empty() {
        candidates.resolved = Some(now);
        let (id, host) = (node.id, Arc::clone(&node.place.labels.host_name));
        m.out.push_back(ClusterOutput::Resolve { node: id, host });
    }
}

/// Takes this node's own address from the connection of a MEET or PING (G-18), unless the configuration
/// announces one.
pub(crate) fn learn_own(m: &mut ClusterMachine, local: &IpText) {
    if local.is_empty() || m.settings.announced.ip.is_some() || m.table.me().place.address.ip == *local {
        return;
    }
    m.table.me_mut().place.address.ip = Arc::clone(local);
    log!(m, Notice, "IP address for this node updated to {local}");
    m.save();
    m.reconsider();
}

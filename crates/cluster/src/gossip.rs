//! Handles the gossip and the extensions in received messages, in which a sender describes other nodes and
//! itself (G-10, W-10).

use crate::address::{NodeLabels, Seen};
use crate::addresses;
use crate::failure::{self, Opinion};
use crate::id::ShardId;
use crate::machine::{ClusterMachine, log};
use crate::node::{MeetFlag, NodeHealth, NodeIx};
use crate::roles;
use crate::table::NODES_MAX;
use crate::wire::{Extension, ForgottenNode, Gossip, GossipEntry, NodeFlags};
use std::sync::Arc;

/// The flags of a gossip entry that become the capabilities of a new node.
const TAKEN: NodeFlags =
    NodeFlags(NodeFlags::EXTENSIONS.0 | NodeFlags::LIGHT_PUBLISH.0 | NodeFlags::MULTI_MEET.0);
/// How far a sender's wall clock may be ahead for its pong times to count.
const AHEAD_MS: i64 = 500;
/// A node may be readmitted by its own MEET before its FORGET has ended. Another node's report of a FORGET
/// that ends at most this many ms later is taken for the same FORGET and ignored, because nodes round to
/// seconds, and messages are delayed.
const SAME_FORGET_MS: u64 = 2_000;

/// Handles the gossip entries of a known sender. If one of them has an invalid id, none is used.
pub(crate) fn entries(m: &mut ClusterMachine, sender: NodeIx, gossip: &Gossip<'_>) {
    if gossip.invalid_ids > 0
        && let Some(id) = gossip.invalid_id()
    {
        let id = String::from_utf8_lossy(id);
        log!(m, Warning, "Received gossip about a node with invalid ID {id}.");
        let count = gossip.invalid_ids;
        log!(m, Warning, "Node {} gossiped {count} nodes with invalid IDs.", m.name(sender));
        return;
    }
    for entry in gossip.entries() {
        match m.table.find(&entry.node) {
            Some(ix) => known(m, sender, ix, &entry),
            None => unknown(m, &entry),
        }
    }
}

/// Handles the gossip entries of an unknown sender. This is wrong on purpose: it is called only if a test has
/// switched on `Mistake::StrangersBelieved`.
pub(crate) fn of_unknown_node(m: &mut ClusterMachine, gossip: &Gossip<'_>) {
    for entry in gossip.entries() {
        if m.table.find(&entry.node).is_none() {
            unknown(m, &entry);
        }
    }
}

/// Adds a node that gossip names for the first time. The node belongs to the cluster, because the sender does
/// (G-10 item 1, G-24). A node in handshake, without an address or forgotten is not added, nor is one above
/// the maximum number of nodes.
fn unknown(m: &mut ClusterMachine, entry: &GossipEntry<'_>) {
    let is_refused = entry.flags.contains(NodeFlags::NOADDR)
        || entry.flags.contains(NodeFlags::HANDSHAKE)
        || m.blacklist.contains(&entry.node, m.time.now)
        || m.table.len() >= NODES_MAX;
    if is_refused {
        return;
    }
    let mut node = m.new_node(entry.node);
    node.place.address = seen(m, entry).owned();
    node.marks.capabilities = NodeFlags(entry.flags.0 & TAKEN.0);
    node.marks.no_failover = entry.flags.contains(NodeFlags::NOFAILOVER);
    if entry.flags.contains(NodeFlags::FAIL) {
        // The gossip entry does not say since when the node has failed; with 0, the node's first answer
        // ends the failure.
        node.health = NodeHealth::Fail { since: 0 };
    }
    let ix = m.table.insert(node);
    if entry.flags.contains(NodeFlags::PRIMARY) {
        m.table.make_primary(ix);
    } else if entry.flags.contains(NodeFlags::REPLICA) {
        m.table.make_replica(ix, None);
    }
    m.reconsider();
    m.save();
}

fn seen<'a>(m: &ClusterMachine, entry: &GossipEntry<'a>) -> Seen<'a> {
    Seen::new(entry.ip, entry.port, entry.other_port, entry.bus_port, m.settings.transport)
}

fn known(m: &mut ClusterMachine, sender: NodeIx, ix: NodeIx, entry: &GossipEntry<'_>) {
    if ix == m.table.my_ix() || m.table.node(ix).is_handshake() {
        return;
    }
    let is_failing = entry.flags.contains(NodeFlags::PFAIL) || entry.flags.contains(NodeFlags::FAIL);
    if ix != sender {
        let opinion = if is_failing { Opinion::Failing } else { Opinion::Healthy };
        failure::gossiped(m, ix, sender, opinion);
    }
    if is_failing || entry.flags.contains(NodeFlags::NOADDR) {
        return;
    }
    let node = m.table.node(ix);
    let is_well = node.is_up() && !node.is_without_address() && node.meet == MeetFlag::No;
    if is_well && node.clocks.ping_sent.is_none() && node.reports.is_empty() {
        pong_by_hearsay(m, ix, entry);
    } else if !node.is_up() && !node.place.address.is(&seen(m, entry)) {
        let seen = seen(m, entry);
        addresses::heard(m, ix, &seen);
    }
}

/// Takes the time of a healthy node's pong from another node's gossip (G-10 item 4).
fn pong_by_hearsay(m: &mut ClusterMachine, ix: NodeIx, entry: &GossipEntry<'_>) {
    let time = m.time;
    let at_ms = i64::from(entry.pong_received_s) * 1_000;
    let known_ms = m.table.node(ix).clocks.pong_wall_ms;
    if at_ms > known_ms && at_ms <= time.wall_ms + AHEAD_MS {
        let clocks = &mut m.table.node_mut(ix).clocks;
        clocks.pong_wall_ms = at_ms;
        let age = u64::try_from(time.wall_ms - at_ms).unwrap_or(0);
        let at = time.now.saturating_sub(age);
        clocks.pong_received = Some(clocks.pong_received.map_or(at, |before| before.max(at)));
    }
}

/// Handles the extensions of a known sender (step 12 of `receive.rs`). A name, address or port whose
/// extension is absent is cleared (W-10).
pub(crate) fn extensions(m: &mut ClusterMachine, sender: NodeIx, gossip: &Gossip<'_>) {
    let mut shard = None;
    for extension in gossip.extensions() {
        match extension {
            Extension::Shard(id) => shard = Some(id),
            Extension::Forgotten(forgotten) => forget(m, sender, forgotten),
            Extension::HostName(_)
            | Extension::HumanName(_)
            | Extension::ClientIpv4(_)
            | Extension::ClientIpv6(_)
            | Extension::ClientPort(_)
            | Extension::ClientTlsPort(_)
            | Extension::AvailabilityZone(_) => {}
        }
    }
    labels(m, sender, gossip);
    take_shard(m, sender, shard);
}

/// Takes the names, addresses and ports from the extensions; does nothing if all of them are unchanged.
fn labels(m: &mut ClusterMachine, sender: NodeIx, gossip: &Gossip<'_>) {
    let (mut host, mut human, mut zone) = ("", &b""[..], &b""[..]);
    let (mut ipv4, mut ipv6, mut port, mut tls_port) = (None, None, 0, 0);
    for extension in gossip.extensions() {
        match extension {
            Extension::HostName(text) => host = text,
            Extension::HumanName(text) => human = text,
            Extension::AvailabilityZone(text) => zone = text,
            Extension::ClientIpv4(ip) => ipv4 = Some(ip),
            Extension::ClientIpv6(ip) => ipv6 = Some(ip),
            Extension::ClientPort(number) => port = number,
            Extension::ClientTlsPort(number) => tls_port = number,
            Extension::Shard(_) | Extension::Forgotten(_) => {}
        }
    }
    let old = &m.table.node(sender).place.labels;
    let is_same = (&*old.host_name, &*old.human_name, &*old.availability_zone) == (host, human, zone)
        && (old.client_ipv4, old.client_ipv6, old.client_port, old.client_tls_port)
            == (ipv4, ipv6, port, tls_port);
    if is_same {
        return;
    }
    m.table.node_mut(sender).place.labels = NodeLabels {
        host_name: host.into(),
        human_name: Arc::from(human),
        availability_zone: Arc::from(zone),
        client_ipv4: ipv4,
        client_ipv6: ipv6,
        client_port: port,
        client_tls_port: tls_port,
    };
    m.save();
    m.todo.map = true;
}

/// Handles the shard that a sender names (N-5). If the sender is a primary, it gets this shard. A replica
/// always gets its primary's shard; if that is not known yet, the primary gets the shard that the replica
/// names.
pub(crate) fn take_shard(m: &mut ClusterMachine, sender: NodeIx, shard: Option<ShardId>) {
    if let Some(primary) = m.table.node(sender).primary() {
        let theirs = m.table.node(primary).shard;
        if let (Some(id), Some(theirs)) = (shard, theirs)
            && id != theirs
        {
            log!(
                m,
                Notice,
                "Shard id {id} update request for node id {} diverges from existing primary shard id {theirs}, \
                 rejecting!",
                m.table.node(sender).id
            );
        }
        if theirs.is_some() || shard.is_none() {
            return roles::adopt_shard(m, sender, primary);
        }
        // The sender is a replica, and its primary has not named a shard itself yet.
        if let Some(id) = shard {
            set_shard(m, primary, id);
        }
        return;
    }
    if let Some(id) = shard.filter(|id| m.table.node(sender).shard != Some(*id)) {
        set_shard(m, sender, id);
    }
}

/// Sets the shard of a primary and of all its replicas.
fn set_shard(m: &mut ClusterMachine, primary: NodeIx, id: ShardId) {
    m.table.node_mut(primary).shard = Some(id);
    for at in 0..m.table.node(primary).replicas.len() {
        let replica = m.table.node(primary).replicas[at];
        roles::adopt_shard(m, replica, primary);
    }
    m.save();
    m.todo.map = true;
}

/// Handles the shard extension of a sender with an unknown shard, before the sender's role is handled
/// (W-16).
pub(crate) fn shard_ahead_of_role(m: &mut ClusterMachine, sender: NodeIx, gossip: &Gossip<'_>) {
    if m.table.node(sender).shard.is_some() || m.table.node(sender).primary().is_some() {
        return;
    }
    let shard = gossip.extensions().find_map(|extension| match extension {
        Extension::Shard(id) => Some(id),
        _ => None,
    });
    take_shard(m, sender, shard);
}

/// Forgets a node that an operator has forgotten at another node (extension 2, G-21). Ignored are reports
/// about the receiving node itself, its primary or the sender, reports without a duration, and reports of a
/// FORGET during which the node was readmitted.
fn forget(m: &mut ClusterMachine, sender: NodeIx, forgotten: ForgottenNode) {
    let Some(ix) = m.table.find(&forgotten.node) else { return };
    if ix == m.table.my_ix() || m.is_my_primary(ix) || ix == sender || forgotten.seconds == 0 {
        return;
    }
    let end = m.time.now.saturating_add(forgotten.seconds.saturating_mul(1_000));
    if m.table.node(ix).marks.let_in_until.is_some_and(|until| end <= until.saturating_add(SAME_FORGET_MS)) {
        return;
    }
    m.blacklist.add(forgotten.node, forgotten.seconds, m.time.now);
    log!(m, Notice, "Forgetting node {} as {} does", m.name(ix), m.name(sender));
    m.delete(ix);
}

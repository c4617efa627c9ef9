//! The node's state as texts and figures, for CLUSTER INFO, LINKS and NODES, and for `nodes.conf`.

use crate::address::AskingClient;
use crate::id::{ClusterEpoch, NodeId};
use crate::link::LinkKind;
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, Sureness, VoteRight};
use crate::node::{ClusterNode, LinkOut, NodeHealth, NodeIx, NodeRole};
use crate::output::{BusLane, ClusterState};
use crate::slots::HashSlot;
use crate::statistics::Statistics;
use sluice_base::num::push_u64;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The figures of CLUSTER INFO (V-1), and further ones that only this server has (V-6).
#[derive(Clone, Debug, PartialEq, Eq)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct ClusterInfo {
    pub state: ClusterState,
    pub slots: SlotCounts,
    pub nodes_pfail: u32,
    pub nodes_fail: u32,
    pub voting_nodes_pfail: u32,
    pub voting_nodes_fail: u32,
    pub known_nodes: usize,
    /// Number of voters at the last evaluation.
    pub size: u32,
    pub current_epoch: ClusterEpoch,
    pub my_epoch: ClusterEpoch,
    pub statistics: Statistics,
    pub saves: crate::durable::SaveCounts,
}

/// Numbers of slots by the health of their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct SlotCounts {
    pub ok: u32,
    pub pfail: u32,
    pub fail: u32,
}

/// The present figures. O(nodes).
pub(crate) fn info(m: &ClusterMachine) -> ClusterInfo {
    let mut slots = SlotCounts::default();
    let (mut pfail, mut fail, mut voting_pfail, mut voting_fail) = (0, 0, 0, 0);
    for (_, node) in m.table.iter() {
        let count = u32::from(node.slot_count);
        let voting = u32::from(node.is_voter());
        match node.health {
            NodeHealth::Up => slots.ok += count,
            NodeHealth::PFail => {
                slots.pfail += count;
                pfail += 1;
                voting_pfail += voting;
            }
            NodeHealth::Fail { .. } => {
                slots.fail += count;
                fail += 1;
                voting_fail += voting;
            }
        }
    }
    ClusterInfo {
        state: m.cluster.state,
        slots,
        nodes_pfail: pfail,
        nodes_fail: fail,
        voting_nodes_pfail: voting_pfail,
        voting_nodes_fail: voting_fail,
        known_nodes: m.table.len(),
        size: m.cluster.size,
        current_epoch: m.epochs.current,
        my_epoch: m.table.node(m.table.primary_of(m.table.my_ix())).config_epoch,
        statistics: m.statistics.clone(),
        saves: m.durable.counts,
    }
}

/// A link in the reply of CLUSTER LINKS (V-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct LinkFacts {
    pub link: LinkKey,
    /// Whether this node dialled (`to`) or accepted (`from`) the link.
    pub is_out: bool,
    pub node: NodeId,
    pub created_wall_ms: i64,
    pub queue_bytes: usize,
}

/// What a page for operators shows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFacts<'a> {
    /// The node's id.
    pub id: NodeId,
    /// The name that an operator gave the node, or else its host name, in bytes as announced; empty if it
    /// has neither.
    pub name: &'a [u8],
    /// Address of the node, as it announces it.
    pub ip: &'a str,
    /// Port of the node for clients: the TCP port, or the TLS port if the node has no TCP port.
    pub port: u16,
    /// Whether the node is this server itself.
    pub is_myself: bool,
    /// The primary of a replica; `None` for a primary, and for a replica whose primary is not known.
    pub primary: Option<NodeId>,
    /// Whether the node is a replica.
    pub is_replica: bool,
    /// How many slots the node has.
    pub slots: u16,
    /// The first slot of the node's shard.
    pub first_slot: Option<HashSlot>,
    /// The node's health, as this server sees it.
    pub health: NodeHealth,
    /// Whether this node's connection to the node's bus is open; always true for this node itself.
    pub is_linked: bool,
    /// Wall time of the last PONG of the node in milliseconds; 0 for none, and for this server's own node.
    pub pong_wall_ms: i64,
}

/// All nodes except those in handshake, in no particular order.
pub(crate) fn nodes(m: &ClusterMachine) -> impl Iterator<Item = NodeFacts<'_>> {
    m.table.iter().filter(|(_, node)| !node.is_handshake()).map(|(ix, node)| {
        let (address, labels) = (&node.place.address, &node.place.labels);
        let is_myself = ix == m.table.my_ix();
        let name =
            if labels.human_name.is_empty() { labels.host_name.as_bytes() } else { &*labels.human_name };
        let port = if address.tcp_port == 0 { address.tls_port } else { address.tcp_port };
        NodeFacts {
            id: node.id,
            name,
            ip: &address.ip,
            port,
            is_myself,
            primary: node.primary().map(|primary| m.table.node(primary).id),
            is_replica: node.is_replica(),
            slots: node.slot_count,
            first_slot: m.table.node(m.table.primary_of(ix)).slots.runs().next().map(|(first, _)| first),
            health: node.health,
            is_linked: is_myself || matches!(node.place.link_out, LinkOut::Open(_)),
            pong_wall_ms: if is_myself { 0 } else { node.clocks.pong_wall_ms },
        }
    })
}

/// The links that have a node.
pub(crate) fn links(m: &ClusterMachine) -> impl Iterator<Item = LinkFacts> + '_ {
    m.links.iter().filter_map(|(key, link)| {
        Some(LinkFacts {
            link: key,
            is_out: matches!(link.kind, LinkKind::Out { .. }),
            node: m.table.node(link.node()?).id,
            created_wall_ms: link.since_wall_ms,
            queue_bytes: link.queue.memory(),
        })
    })
}

/// Records that bytes of a link's lane were written (V-2).
pub(crate) fn sent(m: &mut ClusterMachine, key: LinkKey, lane: BusLane, bytes: usize) {
    m.statistics.bytes_sent += bytes as u64;
    if lane == BusLane::Publish {
        m.statistics.pubsub_bytes_sent += bytes as u64;
    }
    if let Some(link) = m.links.get_mut(key) {
        link.queue.written(bytes, lane);
    }
}

/// The text of CLUSTER NODES (N-14).
pub(crate) fn nodes_text(m: &ClusterMachine, client: AskingClient) -> String {
    let mut text = TextBytes(Vec::with_capacity(LINE_BYTES * m.table.len()));
    for (ix, node) in m.table.iter() {
        line(m, &mut text, ix, node, LineReader::Client(client));
    }
    String::from_utf8_lossy(&text.0).into_owned()
}

/// The lines of a primary's replicas (K-20).
pub(crate) fn replica_lines(
    m: &ClusterMachine,
    node: &[u8],
    client: AskingClient,
) -> Result<Vec<String>, String> {
    let ix = m.known(node)?;
    if m.table.node(ix).is_replica() {
        return Err("ERR The specified node is not a master".to_owned());
    }
    let replicas = m.table.node(ix).replicas.iter();
    let lines = replicas.map(|replica| {
        let mut text = TextBytes::default();
        line(m, &mut text, *replica, m.table.node(*replica), LineReader::Client(client));
        String::from_utf8_lossy(text.0.trim_ascii_end()).into_owned()
    });
    Ok(lines.collect())
}

/// The text of `nodes.conf` (N-12). Names in it are bytes as announced, UTF-8 or not.
pub(crate) fn file_text(m: &ClusterMachine) -> Vec<u8> {
    let mut text = TextBytes(Vec::with_capacity(LINE_BYTES * m.table.len()));
    for (ix, node) in m.table.iter().filter(|(_, node)| !node.is_handshake()) {
        line(m, &mut text, ix, node, LineReader::File);
    }
    // Writing to a vector of bytes cannot fail.
    let _ = write!(text, "vars currentEpoch {}", m.epochs.current);
    // An unknown vote stays unknown at the next start (N-27).
    if m.rights.votes == VoteRight::Free {
        let _ = write!(text, " lastVoteEpoch {}", m.epochs.last_vote);
    }
    text.0.push(b'\n');
    text.0
}

/// Typical length of a line, in bytes.
const LINE_BYTES: usize = 256;

/// Text that may hold names that are not UTF-8.
#[derive(Default)]
struct TextBytes(Vec<u8>);

impl TextBytes {
    /// Appends several texts. Most parts of a line are added this way, because `write!` takes three times as
    /// long, and a node of a large cluster writes all lines again at each change.
    fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
    }

    fn number(&mut self, before: &[u8], number: u64) {
        self.0.extend_from_slice(before);
        push_u64(&mut self.0, number);
    }

    /// Appends a time; times before 1970 are written as 0.
    fn time(&mut self, wall_ms: i64) {
        self.number(b" ", u64::try_from(wall_ms).unwrap_or(0));
    }
}

impl std::fmt::Write for TextBytes {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The reader of a line: a client, or the next start of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineReader {
    Client(AskingClient),
    File,
}

fn line(m: &ClusterMachine, text: &mut TextBytes, ix: NodeIx, node: &ClusterNode, reader: LineReader) {
    let (address, labels) = (&node.place.address, &node.place.labels);
    let (ip, port) = match reader {
        LineReader::Client(client) => (client.ip(address, labels), client.port(address, labels)),
        LineReader::File => (Cow::Borrowed(&*address.ip), address.tcp_port),
    };
    text.push(&[node.id.as_bytes(), b" ", ip.as_bytes()]);
    text.number(b":", port.into());
    text.number(b"@", address.bus_port.into());
    let host = &labels.host_name;
    if reader == LineReader::File || !host.is_empty() {
        text.push(&[b",", host.as_bytes()]);
    }
    if reader == LineReader::File {
        aux(text, node);
    }
    text.0.push(b' ');
    flags(text, node, ix == m.table.my_ix());
    match node.primary() {
        Some(primary) => text.push(&[b" ", m.table.node(primary).id.as_bytes()]),
        None => text.push(&[b" -"]),
    }
    let epoch = m.table.node(m.table.primary_of(ix)).config_epoch;
    text.time(node.clocks.ping_wall_ms);
    text.time(node.clocks.pong_wall_ms);
    text.number(b" ", epoch.0);
    if reader == LineReader::File && ix == m.table.my_ix() && m.rights.sureness != Sureness::Sure {
        // This node is not sure of its slots, so its line ends before them. The next start then finds a
        // damaged line and is not sure of the slots, either (N-26).
        return text.0.push(b'\n');
    }
    let is_linked = ix == m.table.my_ix() || matches!(node.place.link_out, LinkOut::Open(_));
    text.push(&[if is_linked { b" connected" } else { b" disconnected" }]);
    for (first, last) in node.slots.runs() {
        text.number(b" ", first.number().into());
        if first != last {
            text.number(b"-", last.number().into());
        }
    }
    if ix == m.table.my_ix() {
        open_slots(m, text);
    }
    text.0.push(b'\n');
}

fn open_slots(m: &ClusterMachine, text: &mut TextBytes) {
    let importing = m.table.importing.iter().filter(|(slot, _)| !m.table.migrating.contains_key(*slot));
    let importing = importing.map(|(slot, from)| (*slot, '<', *from));
    let migrating = m.table.migrating.iter().map(|(slot, to)| (*slot, '>', *to));
    let mut open: Vec<(HashSlot, char, NodeIx)> = importing.chain(migrating).collect();
    open.sort_by_key(|(slot, _, _)| *slot);
    for (slot, direction, ix) in open {
        let _ = write!(text, " [{}-{direction}-{}]", slot.number(), m.table.node(ix).id);
    }
}

fn aux(text: &mut TextBytes, node: &ClusterNode) {
    let labels = &node.place.labels;
    name(text, b",availability-zone=", &labels.availability_zone);
    if labels.client_tls_port != 0 {
        text.number(b",client-tls-port=", labels.client_tls_port.into());
    }
    if labels.client_port != 0 {
        text.number(b",client-tcp-port=", labels.client_port.into());
    }
    if let Some(ip) = labels.client_ipv6 {
        let _ = write!(text, ",client-ipv6={ip}");
    }
    if let Some(ip) = labels.client_ipv4 {
        let _ = write!(text, ",client-ipv4={ip}");
    }
    text.number(b",tls-port=", node.place.address.tls_port.into());
    name(text, b",nodename=", &labels.human_name);
    text.push(&[b",shard-id=", node.shown_shard().as_bytes()]);
}

/// Appends a field with a name, unless the name is empty.
fn name(text: &mut TextBytes, field: &[u8], value: &[u8]) {
    if !value.is_empty() {
        text.push(&[field, value]);
    }
}

fn flags(text: &mut TextBytes, node: &ClusterNode, is_me: bool) {
    let text = &mut text.0;
    let start = text.len();
    let names = [
        (is_me, "myself,"),
        (node.is_primary(), "master,"),
        (matches!(node.role, NodeRole::Replica(_)), "slave,"),
        (node.health == NodeHealth::PFail, "fail?,"),
        (node.is_failed(), "fail,"),
        (node.is_handshake(), "handshake,"),
        (node.is_without_address(), "noaddr,"),
        (node.marks.no_failover, "nofailover,"),
    ];
    names.iter().filter(|(is_set, _)| *is_set).for_each(|(_, name)| text.extend_from_slice(name.as_bytes()));
    if text.len() == start {
        text.extend_from_slice(b"noflags,");
    }
    text.pop();
}

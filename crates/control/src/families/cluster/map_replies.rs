//! CLUSTER SLOTS, CLUSTER SHARDS and CLUSTER NODES.
//!
//! The replies are kept encoded, one for each kind of client, and encoded again once after a change of
//! the map (K-34), so thousands of clients that ask at once cost one copy each. SHARDS contains offsets,
//! which change with every bus message: it is also encoded again after each tick of the machine. NODES
//! contains times and links, and is encoded again after each input of the machine.

use crate::cluster::endpoint::{EndpointClient, NodeEndpoint};
use crate::cluster::mode::{ClusterMode, KeptReply, MapReply};
use crate::ctx::ClusterCtx;
use sluice_base::Bytes;
use sluice_cluster::{MapNode, NodeHealth, SlotMap};
use sluice_commands::{Args, Outcome, Run};
use sluice_config::choice::EndpointType;
use sluice_config::param;
use sluice_resp::{Outbox, Protocol, Reply};
use std::collections::BTreeMap;

/// A kept reply of at least this many bytes is shared by the clients that receive it; copying a smaller one
/// costs less.
const SHARED_BYTES_MIN: usize = 4096;

/// The properties of clients that get the same reply.
struct MapAudience<'a> {
    client: EndpointClient<'a>,
    endpoints: EndpointType,
}

pub(super) fn slots(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    kept(ctx, MapReply::Slots, |mode, audience, reply| write_slots(mode.newest_map(), audience, reply))
}

pub(super) fn shards(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let own = ctx.offset;
    kept(ctx, MapReply::Shards, |mode, audience, reply| {
        let offset = |node: &MapNode| match node.is_myself {
            true => own,
            false => mode.machine.offset(&node.id).unwrap_or(0),
        };
        write_shards(mode.newest_map(), audience, &offset, reply);
    })
}

pub(super) fn nodes(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    kept(ctx, MapReply::Nodes, |mode, audience, reply| {
        reply.verbatim(b"txt", mode.machine.nodes_text_for(audience.client.client).as_bytes());
    })
}

/// Returns the replication offset of a node of the map.
type Offsets<'a> = &'a dyn Fn(&MapNode) -> u64;

fn kept(
    ctx: &mut ClusterCtx<'_>,
    what: MapReply,
    write: impl FnOnce(&ClusterMode, &MapAudience<'_>, &mut Reply<'_>),
) -> Run {
    let audience = MapAudience {
        client: EndpointClient::of(&ctx.session.caller, ctx.config),
        endpoints: ctx.config.choice::<EndpointType>(param::CLUSTER_PREFERRED_ENDPOINT_TYPE),
    };
    let key = KeptReply {
        what,
        client: audience.client.client,
        // The reply of NODES does not depend on the client's network, so its key has no rules.
        rules: if what == MapReply::Nodes { Vec::new() } else { audience.client.matching.clone() },
        is_resp3: ctx.reply.protocol() == Protocol::Resp3,
        endpoints: audience.endpoints as u8,
    };
    let made_at = (what == MapReply::Nodes).then(|| ctx.mode.machine.inputs());
    if let Some((of, reply)) = ctx.mode.replies.get(&key)
        && *of == made_at
    {
        send(reply, &mut ctx.reply);
        return Ok(Outcome::Done);
    }
    let mut outbox = Outbox::new();
    write(ctx.mode, &audience, &mut Reply::new(&mut outbox, ctx.reply.protocol()));
    let bytes = Bytes::copy_from(&outbox.flatten());
    send(&bytes, &mut ctx.reply);
    ctx.mode.replies.insert(key, (made_at, bytes));
    Ok(Outcome::Done)
}

/// Sends a reply: a large one is shared by the clients that receive it, a small one is copied.
fn send(bytes: &Bytes, reply: &mut Reply<'_>) {
    match bytes.len() < SHARED_BYTES_MIN {
        true => reply.raw(bytes),
        false => reply.outbox().push_shared(bytes.clone()),
    }
}

/// Runs of adjacent slots with one owner, each as first slot, last slot and index of the owner.
fn runs(map: &SlotMap) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (slot, owner) in map.owners.iter().enumerate() {
        let Some(owner) = usize::from(*owner).checked_sub(1) else { continue };
        match runs.last_mut() {
            Some((_, last, of)) if *of == owner && *last + 1 == slot => *last = slot,
            _ => runs.push((slot, slot, owner)),
        }
    }
    runs
}

/// Whether clients can read from this replica (K-33).
fn is_readable(node: &MapNode) -> bool {
    !matches!(node.health, NodeHealth::Fail { .. }) && !node.is_loading && !node.is_hidden
}

/// Writes the reply of CLUSTER SLOTS (K-31).
fn write_slots(map: &SlotMap, audience: &MapAudience<'_>, reply: &mut Reply<'_>) {
    let mut replicas: BTreeMap<_, Vec<&MapNode>> = BTreeMap::new();
    for node in map.nodes.iter().filter(|node| is_readable(node)) {
        if let Some(primary) = node.primary {
            replicas.entry(primary).or_default().push(node);
        }
    }
    let runs = runs(map);
    reply.array(runs.len());
    for (first, last, owner) in runs {
        let owner = &map.nodes[owner];
        let replicas = replicas.get(&owner.id).map_or(&[][..], Vec::as_slice);
        reply.array(3 + replicas.len());
        reply.int(first as i64);
        reply.int(last as i64);
        std::iter::once(&owner).chain(replicas).for_each(|node| write_node_of_slots(node, audience, reply));
    }
}

fn write_node_of_slots(node: &MapNode, audience: &MapAudience<'_>, reply: &mut Reply<'_>) {
    reply.array(4);
    match audience.client.endpoint_of(node, audience.endpoints) {
        NodeEndpoint::At(endpoint) => reply.bulk(endpoint.as_bytes()),
        NodeEndpoint::Nameless => reply.bulk(b"?"),
        NodeEndpoint::WhereAsked => reply.null(),
    }
    reply.int(i64::from(audience.client.port_of(node)));
    reply.bulk(node.id.to_string().as_bytes());
    let ip = audience.client.ip_of(node);
    let labels = &node.labels;
    let wants_ip = audience.endpoints != EndpointType::Ip;
    let wants_name = audience.endpoints != EndpointType::Hostname && !labels.host_name.is_empty();
    let wants_zone = !labels.availability_zone.is_empty();
    let metadata: [(bool, &[u8], &[u8]); 3] = [
        (wants_ip, b"ip", ip.as_bytes()),
        (wants_name, b"hostname", labels.host_name.as_bytes()),
        (wants_zone, b"availability-zone", &labels.availability_zone),
    ];
    reply.map(metadata.iter().filter(|(is_wanted, ..)| *is_wanted).count());
    for (_, name, value) in metadata.iter().filter(|(is_wanted, ..)| *is_wanted) {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// Writes the reply of CLUSTER SHARDS (K-35).
fn write_shards(map: &SlotMap, audience: &MapAudience<'_>, offset: Offsets<'_>, reply: &mut Reply<'_>) {
    let mut shards: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (position, node) in map.nodes.iter().enumerate().filter(|(_, node)| !node.is_hidden) {
        shards.entry(node.shard).or_default().push(position);
    }
    let mut slots: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (first, last, owner) in runs(map) {
        slots.entry(owner).or_default().push((first, last));
    }
    reply.array(shards.len());
    for (shard, nodes) in shards {
        reply.map(3);
        reply.bulk(b"slots");
        let ranges = nodes.iter().find_map(|position| slots.get(position)).map_or(&[][..], Vec::as_slice);
        reply.array(2 * ranges.len());
        for (first, last) in ranges {
            reply.int(*first as i64);
            reply.int(*last as i64);
        }
        reply.bulk(b"nodes");
        reply.array(nodes.len());
        nodes
            .iter()
            .for_each(|position| write_node_of_shards(&map.nodes[*position], audience, offset, reply));
        reply.bulk(b"id");
        reply.bulk(shard.to_string().as_bytes());
    }
}

/// One node in CLUSTER SHARDS (K-36).
fn write_node_of_shards(
    node: &MapNode,
    audience: &MapAudience<'_>,
    offset: Offsets<'_>,
    reply: &mut Reply<'_>,
) {
    let labels = &node.labels;
    let ruled = audience.client.rule_for(node).map_or(0, |rule| rule.port);
    // The port of a rule replaces the TLS port for a client that uses TLS, the plain port for any other
    // client.
    let first_of = |ports: [u16; 3]| ports.into_iter().find(|port| *port != 0).unwrap_or(0);
    let by_tls = audience.client.client.is_tls;
    let [ruled_tcp, ruled_tls] = if by_tls { [0, ruled] } else { [ruled, 0] };
    let ports = [
        ("port", first_of([ruled_tcp, labels.client_port, node.address.tcp_port])),
        ("tls-port", first_of([ruled_tls, labels.client_tls_port, node.address.tls_port])),
    ];
    let endpoint = match audience.client.endpoint_of(node, audience.endpoints) {
        NodeEndpoint::At(endpoint) => endpoint,
        NodeEndpoint::Nameless => "?".into(),
        NodeEndpoint::WhereAsked => "".into(),
    };
    let (id, ip) = (node.id.to_string(), audience.client.ip_of(node));
    let health = match node.health {
        NodeHealth::Fail { .. } => "fail",
        NodeHealth::Up | NodeHealth::PFail if node.is_loading => "loading",
        NodeHealth::Up | NodeHealth::PFail => "online",
    };
    let role = if node.primary.is_some() { "replica" } else { "master" };
    let has_name = !labels.host_name.is_empty();
    let has_zone = !labels.availability_zone.is_empty();
    let shown_ports = ports.iter().filter(|(_, port)| *port != 0);
    reply.map(6 + shown_ports.clone().count() + usize::from(has_name) + usize::from(has_zone));
    let mut text = |name: &str, value: &[u8]| {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    };
    text("id", id.as_bytes());
    for (name, port) in shown_ports {
        reply.bulk(name.as_bytes());
        reply.int(i64::from(*port));
    }
    let mut text = |name: &str, value: &[u8]| {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    };
    text("ip", ip.as_bytes());
    text("endpoint", endpoint.as_bytes());
    if has_name {
        text("hostname", labels.host_name.as_bytes());
    }
    text("role", role.as_bytes());
    reply.bulk(b"replication-offset");
    reply.int(i64::try_from(offset(node)).unwrap_or(i64::MAX));
    let mut text = |name: &str, value: &[u8]| {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    };
    text("health", health.as_bytes());
    if has_zone {
        text("availability-zone", &labels.availability_zone);
    }
}

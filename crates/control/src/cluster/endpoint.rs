//! How a client is told where a node is (S-50 to S-54): one rule for redirects, CLUSTER SLOTS, SHARDS and
//! NODES.

use sluice_cluster::{AskingClient, MapNode};
use sluice_config::choice::EndpointType;
use sluice_session::{Caller, Medium};
use std::borrow::Cow;

/// The client of a session, as far as addresses depend on it (S-52, S-53).
pub fn asking(caller: &Caller) -> AskingClient {
    AskingClient {
        is_tls: caller.flags.medium == Medium::Tls,
        is_ipv6: caller.flags.medium != Medium::Unix && caller.origin.addr.starts_with('['),
    }
}

/// What stands for a node in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEndpoint<'a> {
    /// An address, or a host name.
    At(Cow<'a, str>),
    /// Host names are preferred, and the node announces none.
    Nameless,
    /// The client is to ask where it asked before.
    WhereAsked,
}

/// The address of a node for a client.
pub fn ip_of(node: &MapNode, client: AskingClient) -> Cow<'_, str> {
    client.ip(&node.address, &node.labels)
}

/// The port of a node for a client.
pub fn port_of(node: &MapNode, client: AskingClient) -> u16 {
    client.port(&node.address, &node.labels)
}

/// What stands for a node, by `cluster-preferred-endpoint-type` of the node that answers (S-51).
pub fn endpoint_of(node: &MapNode, client: AskingClient, kind: EndpointType) -> NodeEndpoint<'_> {
    match kind {
        EndpointType::Ip => NodeEndpoint::At(ip_of(node, client)),
        EndpointType::Hostname if node.labels.host_name.is_empty() => NodeEndpoint::Nameless,
        EndpointType::Hostname => NodeEndpoint::At(Cow::Borrowed(&*node.labels.host_name)),
        EndpointType::Unknown => NodeEndpoint::WhereAsked,
    }
}

/// Host and port of a node for a client, with a colon between, as clients put together what CLUSTER SLOTS
/// tells; none where the client is told no host, or one that has colons: clients take the text apart at the
/// first one.
pub fn host_and_port(node: &MapNode, client: AskingClient, kind: EndpointType) -> Option<String> {
    match endpoint_of(node, client, kind) {
        NodeEndpoint::At(host) if !host.contains(':') => Some(format!("{host}:{}", port_of(node, client))),
        NodeEndpoint::At(_) | NodeEndpoint::Nameless | NodeEndpoint::WhereAsked => None,
    }
}

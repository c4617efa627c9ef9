//! How a client is told where a node is (S-50 to S-54): one rule for redirects, CLUSTER SLOTS, SHARDS and
//! NODES.

use sluice_cluster::MapNode;
use sluice_config::choice::EndpointType;
use sluice_session::{Caller, Medium};
use std::borrow::Cow;

/// What of the client that asks decides which of a node's addresses it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskingClient {
    /// Whether the client has come by TLS.
    pub is_tls: bool,
    /// Whether the client has come by IPv6.
    pub is_ipv6: bool,
}

impl AskingClient {
    /// The client of a session.
    pub fn of(caller: &Caller) -> AskingClient {
        AskingClient {
            is_tls: caller.flags.medium == Medium::Tls,
            is_ipv6: caller.flags.medium != Medium::Unix && caller.origin.addr.starts_with('['),
        }
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

/// The address of a node for clients: the one that the node announces for the family, else that of the bus.
pub fn ip_of(node: &MapNode, client: AskingClient) -> Cow<'_, str> {
    let announced = match client.is_ipv6 {
        true => node.labels.client_ipv6.map(|ip| ip.to_string()),
        false => node.labels.client_ipv4.map(|ip| ip.to_string()),
    };
    announced.map_or(Cow::Borrowed(&*node.address.ip), Cow::Owned)
}

/// The port of a node for clients (S-53).
pub fn port_of(node: &MapNode, client: AskingClient) -> u16 {
    let (announced, own) = match client.is_tls {
        true => (node.labels.client_tls_port, node.address.tls_port),
        false => (node.labels.client_port, node.address.tcp_port),
    };
    if announced != 0 { announced } else { own }
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

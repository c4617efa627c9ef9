//! Addresses of nodes, and names beside the id.

use crate::text::Ipv6Text;
use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// An address of a node as text of at most 45 bytes; empty while none is known.
pub type IpText = Arc<str>;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub struct NodeAddress {
    pub ip: IpText,
    /// The port of clients without TLS; 0 for none.
    pub tcp_port: u16,
    /// The port of clients with TLS; 0 for none.
    pub tls_port: u16,
    pub bus_port: u16,
}

impl NodeAddress {
    /// No address.
    pub fn none() -> NodeAddress {
        NodeAddress { ip: "".into(), tcp_port: 0, tls_port: 0, bus_port: 0 }
    }

    /// Whether ip and ports are those of `other`.
    pub(crate) fn is(&self, other: &Seen<'_>) -> bool {
        *self.ip == *other.ip
            && (self.tcp_port, self.tls_port, self.bus_port)
                == (other.tcp_port, other.tls_port, other.bus_port)
    }
}

/// An address in a message, not copied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) ip: &'a str,
    pub(crate) tcp_port: u16,
    pub(crate) tls_port: u16,
    pub(crate) bus_port: u16,
}

impl<'a> Seen<'a> {
    /// The address that a message names as one port and "the other one": `port` is that of TLS with
    /// `tls-cluster yes`.
    pub(crate) fn new(
        ip: &'a str,
        port: u16,
        other_port: u16,
        bus_port: u16,
        transport: BusTransport,
    ) -> Seen<'a> {
        let (tcp_port, tls_port) = match transport {
            BusTransport::Tcp => (port, other_port),
            BusTransport::Tls => (other_port, port),
        };
        Seen { ip, tcp_port, tls_port, bus_port }
    }

    /// The address with a text of its own.
    pub(crate) fn owned(&self) -> NodeAddress {
        let (tcp_port, tls_port, bus_port) = (self.tcp_port, self.tls_port, self.bus_port);
        NodeAddress { ip: self.ip.into(), tcp_port, tls_port, bus_port }
    }
}

/// What the bus runs on: `tls-cluster`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusTransport {
    /// `tls-cluster no`.
    #[default]
    Tcp,
    /// `tls-cluster yes`.
    Tls,
}

/// Names and addresses that a node announces by extensions (2.3). Empty and 0 stand for none.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub struct NodeLabels {
    pub host_name: Arc<str>,
    pub human_name: Arc<[u8]>,
    pub availability_zone: Arc<[u8]>,
    pub client_ipv4: Option<Ipv4Addr>,
    pub client_ipv6: Option<Ipv6Text>,
    pub client_port: u16,
    pub client_tls_port: u16,
}

impl Default for NodeLabels {
    fn default() -> NodeLabels {
        NodeLabels {
            host_name: "".into(),
            human_name: Arc::from(&b""[..]),
            availability_zone: Arc::from(&b""[..]),
            client_ipv4: None,
            client_ipv6: None,
            client_port: 0,
            client_tls_port: 0,
        }
    }
}

/// A client that asks for addresses of nodes, as far as the answer depends on the client (S-52, S-53).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskingClient {
    /// Whether the client's own address is IPv6. Without a connection: no.
    pub is_ipv6: bool,
    /// Whether the client came by TLS. Without a connection: as `tls-cluster` says.
    pub is_tls: bool,
}

impl AskingClient {
    /// The address of a node for this client: the announced one of the client's family, else that of the bus.
    pub fn ip<'a>(&self, address: &'a NodeAddress, labels: &NodeLabels) -> Cow<'a, str> {
        let announced = match self.is_ipv6 {
            true => labels.client_ipv6.map(|ip| ip.to_string()),
            false => labels.client_ipv4.map(|ip| ip.to_string()),
        };
        announced.map_or(Cow::Borrowed(&*address.ip), Cow::Owned)
    }

    /// The port of a node for this client: the announced one of the client's transport, else the node's.
    pub fn port(&self, address: &NodeAddress, labels: &NodeLabels) -> u16 {
        let (announced, own) = match self.is_tls {
            true => (labels.client_tls_port, address.tls_port),
            false => (labels.client_port, address.tcp_port),
        };
        if announced != 0 { announced } else { own }
    }
}

/// The name of a node in logs: its human name, else address and port (N-6).
pub(crate) struct LogName<'a> {
    pub(crate) labels: &'a NodeLabels,
    pub(crate) address: &'a NodeAddress,
    pub(crate) transport: BusTransport,
}

impl fmt::Display for LogName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.labels.human_name.is_empty() {
            return f.write_str(&String::from_utf8_lossy(&self.labels.human_name));
        }
        let port = match self.transport {
            BusTransport::Tcp => self.address.tcp_port,
            BusTransport::Tls => self.address.tls_port,
        };
        if self.address.ip.contains(':') {
            write!(f, "[{}]:{port}", self.address.ip)
        } else {
            write!(f, "{}:{port}", self.address.ip)
        }
    }
}

//! Addresses of nodes, and the names that nodes have beside their ids.

use crate::text::Ipv6Text;
use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// An address of a node as text of at most 45 bytes; empty while none is known.
pub type IpText = Arc<str>;

/// The address and ports that a node listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
// Fields without a comment are explained by their names.
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
    /// The value for a node without a known address: an empty ip, and ports of 0.
    pub fn none() -> NodeAddress {
        NodeAddress { ip: "".into(), tcp_port: 0, tls_port: 0, bus_port: 0 }
    }

    /// Whether the ip and the ports equal those of `other`.
    pub(crate) fn is(&self, other: &Seen<'_>) -> bool {
        *self.ip == *other.ip
            && (self.tcp_port, self.tls_port, self.bus_port)
                == (other.tcp_port, other.tls_port, other.bus_port)
    }
}

/// An address in a received message, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) ip: &'a str,
    pub(crate) tcp_port: u16,
    pub(crate) tls_port: u16,
    pub(crate) bus_port: u16,
}

impl<'a> Seen<'a> {
    /// The address in a message's fields: with `tls-cluster yes`, `port` is the TLS port and `other_port`
    /// the TCP port, otherwise the other way round.
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

    /// A copy of the address that owns its text.
    pub(crate) fn owned(&self) -> NodeAddress {
        let (tcp_port, tls_port, bus_port) = (self.tcp_port, self.tls_port, self.bus_port);
        NodeAddress { ip: self.ip.into(), tcp_port, tls_port, bus_port }
    }
}

/// The transport of the bus: `tls-cluster`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusTransport {
    /// The bus uses plain TCP (`tls-cluster no`).
    #[default]
    Tcp,
    /// The bus uses TLS (`tls-cluster yes`).
    Tls,
}

/// Names and addresses that a node announces in the extensions of its messages (2.3). Empty texts and 0 stand
/// for none.
#[derive(Clone, Debug, PartialEq, Eq)]
// Fields without a comment are explained by their names.
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

/// The properties of a client that decide which address and port of each node the client is shown (S-52,
/// S-53).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskingClient {
    /// Whether the client's own address is IPv6; `false` without a connection.
    pub is_ipv6: bool,
    /// Whether the client's connection uses TLS; without a connection, whether the bus uses TLS
    /// (`tls-cluster`).
    pub is_tls: bool,
}

impl AskingClient {
    /// The address of a node for this client: the announced one of the client's address family, or that
    /// of the bus.
    pub fn ip<'a>(&self, address: &'a NodeAddress, labels: &NodeLabels) -> Cow<'a, str> {
        let announced = match self.is_ipv6 {
            true => labels.client_ipv6.map(|ip| ip.to_string()),
            false => labels.client_ipv4.map(|ip| ip.to_string()),
        };
        announced.map_or(Cow::Borrowed(&*address.ip), Cow::Owned)
    }

    /// The port of a node for this client: the announced one of the client's transport, or the node's own.
    pub fn port(&self, address: &NodeAddress, labels: &NodeLabels) -> u16 {
        let (announced, own) = match self.is_tls {
            true => (labels.client_tls_port, address.tls_port),
            false => (labels.client_port, address.tcp_port),
        };
        if announced != 0 { announced } else { own }
    }
}

/// The name of a node in logs: its human name, or address and port (N-6).
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

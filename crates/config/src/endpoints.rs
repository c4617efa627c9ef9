//! `announce-endpoint-for`: what stands for a node of a cluster where a client comes from a certain network.

use crate::subnets::Subnet;
use std::net::SocketAddr;

/// A rule: clients of a network are told an endpoint in place of a node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRule {
    /// The network of the clients.
    pub subnet: Subnet,
    /// Which node.
    pub node: RuleNode,
    /// Address or host name that these are told.
    pub host: Box<str>,
    /// The port that these are told; 0: the one that they would be told without the rule.
    pub port: u16,
    /// The three words, as they were written.
    words: [Box<str>; 3],
}

/// How a rule names a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleNode {
    /// By its id, forty digits.
    Id(Box<str>),
    /// By its address and port, of TLS or not.
    At(Box<str>, u16),
    /// By the host name that it announces.
    HostName(Box<str>),
}

impl EndpointRule {
    /// The rule that these words mean: a network, a node, and an address or host name with or without a port.
    /// `None` where one of them is none.
    pub(crate) fn parse(words: &[&[u8]; 3]) -> Option<EndpointRule> {
        let [subnet, node, endpoint] = words.map(|word| std::str::from_utf8(word).ok());
        let (subnet, node, endpoint) = (subnet?, node?, endpoint?);
        let (host, port) = host_and_port(endpoint)?;
        Some(EndpointRule {
            subnet: Subnet::parse(subnet)?,
            node: RuleNode::parse(node)?,
            host: host.into(),
            port,
            words: [subnet.into(), node.into(), endpoint.into()],
        })
    }

    /// The words that mean it.
    pub(crate) fn words(&self) -> String {
        self.words.join(" ")
    }
}

impl RuleNode {
    fn parse(word: &str) -> Option<RuleNode> {
        if word.len() == ID_DIGITS && word.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Some(RuleNode::Id(word.to_ascii_lowercase().into()));
        }
        if let Ok(address) = word.parse::<SocketAddr>() {
            return Some(RuleNode::At(address.ip().to_string().into(), address.port()));
        }
        is_host_name(word).then(|| RuleNode::HostName(word.into()))
    }
}

/// Digits of the id of a node.
const ID_DIGITS: usize = 40;

/// `host`, `host:port`, `[::1]:port`, or an IPv6 address by itself. No port is 0.
fn host_and_port(word: &str) -> Option<(&str, u16)> {
    let is_host = |host: &str| is_host_name(host) || host.parse::<std::net::IpAddr>().is_ok();
    let (host, port) = match word.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None if word.matches(':').count() == 1 => {
            let (host, port) = word.split_once(':')?;
            (host, Some(port))
        }
        None => (word, None),
    };
    let port = match port {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port != 0)?,
        None => 0,
    };
    is_host(host).then_some((host, port))
}

/// What a node may announce as its host name.
fn is_host_name(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !word.is_empty() && word.len() < 256 && word.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Option<EndpointRule> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        EndpointRule::parse(words.as_slice().try_into().expect("three words"))
    }

    #[test]
    fn a_rule_names_a_network_a_node_and_an_endpoint() {
        let id = "0123456789abcdef0123456789ABCDEF01234567";
        for (text, node, host, port) in [
            (
                "10.0.0.0/8 10.0.0.5:6379 db.example:7000",
                RuleNode::At("10.0.0.5".into(), 6379),
                "db.example",
                7000,
            ),
            (
                "::/0 [2001:db8::5]:6379 [2001:db8::9]:7000",
                RuleNode::At("2001:db8::5".into(), 6379),
                "2001:db8::9",
                7000,
            ),
            (
                "::/0 node-1.internal 2001:db8::9",
                RuleNode::HostName("node-1.internal".into()),
                "2001:db8::9",
                0,
            ),
            (
                &*format!("0.0.0.0/0 {id} 203.0.113.7"),
                RuleNode::Id(id.to_lowercase().into()),
                "203.0.113.7",
                0,
            ),
        ] {
            let rule = rule(text).expect(text);
            assert_eq!((rule.node.clone(), &*rule.host, rule.port), (node, host, port), "{text}");
            assert_eq!(rule.words(), text);
        }
    }

    #[test]
    fn what_is_no_rule_is_none() {
        for text in [
            "10.0.0.0/33 10.0.0.5:6379 db",
            "10.0.0.0/8 10.0.0.5: db",
            "10.0.0.0/8 a_b db",
            "10.0.0.0/8 node db:0",
            "10.0.0.0/8 node db:65536",
            "10.0.0.0/8 node [::1]7000",
            "10.0.0.0/8 node [::1",
            "10.0.0.0/8 node d\"b",
            "10.0.0.0/8 node ",
        ] {
            assert_eq!(rule(text), None, "{text}");
        }
    }
}

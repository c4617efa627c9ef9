//! `announce-endpoint-for`: the endpoint that clients of a certain network receive for a cluster node.

use crate::subnets::Subnet;
use std::net::{IpAddr, SocketAddr};

/// A rule: clients of a network receive this endpoint in place of a node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRule {
    /// The network of the clients.
    pub subnet: Subnet,
    /// The node whose endpoint the rule replaces.
    pub node: RuleNode,
    /// Address or host name that these clients receive.
    pub host: Box<str>,
    /// The port that these clients receive; 0: the port that they would receive without the rule.
    pub port: u16,
    /// The three words, as they were written.
    words: [Box<str>; 3],
}

/// How a rule names a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleNode {
    /// By its id, forty digits.
    Id(Box<str>),
    /// By its address and its plain or TLS port.
    At(Box<str>, u16),
    /// By the host name that it announces.
    HostName(Box<str>),
}

impl EndpointRule {
    /// The rule of three words: a network, a node, and an address or host name with or without a port.
    ///
    /// # Errors
    /// The word of the line that is not valid, and why.
    pub(crate) fn parse(words: &[&[u8]; 3]) -> Result<EndpointRule, String> {
        let texts = words.map(|word| std::str::from_utf8(word).unwrap_or_default());
        let [subnet, node, endpoint] = texts;
        let wrong = |word: &[u8], why: &str| {
            let [subnet, node, endpoint] = words.map(shown);
            format!(
                "the rule 'announce-endpoint-for {subnet} {node} {endpoint}' is none: '{}' {why}",
                shown(word)
            )
        };
        let (host, port) = host_and_port(endpoint)
            .ok_or_else(|| wrong(words[2], "is no address or host name, with or without a port"))?;
        Ok(EndpointRule {
            subnet: Subnet::parse(subnet)
                .ok_or_else(|| wrong(words[0], "is no network, such as 10.0.0.0/8"))?,
            node: RuleNode::parse(node).map_err(|why| wrong(words[1], why))?,
            host: host.into(),
            port,
            words: texts.map(Box::from),
        })
    }

    /// What the rule does, for the log.
    pub fn described(&self) -> String {
        let [subnet, node, endpoint] = &self.words;
        let port = if self.port == 0 { " and the node's port" } else { "" };
        format!("clients from {subnet} receive {endpoint}{port} for the node {node}")
    }

    /// The words of the rule, as in the config file.
    pub(crate) fn words(&self) -> String {
        self.words.join(" ")
    }
}

impl RuleNode {
    /// The node that a word names.
    ///
    /// # Errors
    /// The reason why the word names no node.
    fn parse(word: &str) -> Result<RuleNode, &'static str> {
        let is_hex = word.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_hex && word.len() == ID_DIGITS {
            return Ok(RuleNode::Id(word.to_ascii_lowercase().into()));
        }
        if let Ok(address) = word.parse::<SocketAddr>() {
            return Ok(RuleNode::At(address.ip().to_string().into(), address.port()));
        }
        match () {
            // A word of at least 32 hexadecimal digits that is no id is refused as a mistyped id: as a host
            // name, it would most likely match no node, and the rule would silently do nothing.
            () if is_hex && word.len() >= MISTYPED_ID_DIGITS => {
                Err("is no id of a node, which has 40 digits")
            }
            () if word.parse::<IpAddr>().is_ok() => Err("is no node: an address needs the port of the node"),
            () if is_host_name(word) => Ok(RuleNode::HostName(word.into())),
            () => Err("is no node: ADDRESS:PORT, an id, or a host name that a node announces"),
        }
    }
}

/// Digits of the id of a node.
const ID_DIGITS: usize = 40;
/// A word of at least this many hexadecimal digits is taken for an id.
const MISTYPED_ID_DIGITS: usize = 32;
/// An error repeats at most this many bytes of a word.
const SHOWN_MAX: usize = 100;

/// A word as an error repeats it: printable, and not long.
fn shown(word: &[u8]) -> String {
    let more = if word.len() > SHOWN_MAX { "..." } else { "" };
    format!("{}{more}", word[..word.len().min(SHOWN_MAX)].escape_ascii())
}

/// `host`, `host:port`, `[::1]:port`, or an IPv6 address by itself. The port is 0 if the word has none.
fn host_and_port(word: &str) -> Option<(&str, u16)> {
    let is_host = |host: &str| is_host_name(host) || host.parse::<IpAddr>().is_ok();
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

/// Whether a node may announce the word as its host name, and resolvers do not take it for an address.
fn is_host_name(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let last = word.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let ends_in_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    !word.is_empty() && word.len() < 256 && word.bytes().all(allowed) && !ends_in_number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<EndpointRule, String> {
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
    fn what_is_no_rule_is_named_with_the_word_that_is_wrong() {
        for (text, wrong) in [
            ("10.0.0.0/33 10.0.0.5:6379 db", "'10.0.0.0/33' is no network"),
            ("10.0.0.0/8 10.0.0.5: db", "'10.0.0.5:' is no node"),
            ("10.0.0.0/8 10.0.0.5 db", "'10.0.0.5' is no node: an address needs the port of the node"),
            ("10.0.0.0/8 10.0.0.5.6379 db", "'10.0.0.5.6379' is no node"),
            ("10.0.0.0/8 0123456789abcdef0123456789abcdef0123456 db", "which has 40 digits"),
            ("10.0.0.0/8 a_b db", "'a_b' is no node"),
            ("10.0.0.0/8 node db:0", "'db:0' is no address"),
            ("10.0.0.0/8 node db:65536", "'db:65536' is no address"),
            ("10.0.0.0/8 node 203.0.113.777", "'203.0.113.777' is no address"),
            ("10.0.0.0/8 node [::1]7000", "'[::1]7000' is no address"),
            ("10.0.0.0/8 node [::1", "'[::1' is no address"),
            ("10.0.0.0/8 node d\"b", "'d\\\"b' is no address"),
            ("10.0.0.0/8 node ", "'' is no address"),
        ] {
            let reason = rule(text).expect_err(text);
            let named = format!("the rule 'announce-endpoint-for {}' is none: ", text.replace('"', "\\\""));
            assert!(reason.starts_with(&named) && reason.contains(wrong), "{text}: {reason}");
        }
    }
}

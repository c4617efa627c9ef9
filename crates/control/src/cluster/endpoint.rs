//! How a client is told where a node is (S-50 to S-54): one rule for redirects, CLUSTER SLOTS and SHARDS.
//! NODES, which operators and other nodes read, is the machine's.
//!
//! Beside what a node announces, `announce-endpoint-for` of the node that answers says what clients of a
//! network are told. A node does not tell the others of endpoints for networks: the bus has no message for
//! that, and nodes of Valkey write a warning for each extension that is unknown to them.

use sluice_cluster::{AskingClient, MapNode};
use sluice_config::choice::EndpointType;
use sluice_config::{Config, EndpointRule, RuleNode};
use sluice_session::{Caller, Medium};
use std::borrow::Cow;
use std::net::IpAddr;

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

/// A client that is told where nodes are.
#[derive(Clone, Debug)]
pub struct ToldClient<'a> {
    /// The client, as far as announcements of nodes tell clients apart.
    pub client: AskingClient,
    /// The rules of `announce-endpoint-for`.
    rules: &'a [EndpointRule],
    /// Positions of the rules for the client's network: clients with the same positions are told the same. No
    /// memory where there are none.
    pub matching: Vec<u16>,
}

impl<'a> ToldClient<'a> {
    /// The client of a session. O(rules).
    pub fn of(caller: &Caller, config: &'a Config) -> ToldClient<'a> {
        let rules = config.endpoint_rules();
        let (client, mut matching) = (asking(caller), Vec::new());
        if !rules.is_empty()
            && caller.flags.medium != Medium::Unix
            && let Ok(address) = sluice_session::ip_of(&caller.origin.addr).parse::<IpAddr>()
        {
            let positions = (0_u16..).zip(rules).filter(|(_, rule)| rule.subnet.has(address));
            matching.extend(positions.map(|(position, _)| position));
        }
        ToldClient { client, rules, matching }
    }

    /// The first rule for the client's network and that node.
    pub(crate) fn rule_for(&self, node: &MapNode) -> Option<&'a EndpointRule> {
        let mut rules = self.matching.iter().filter_map(|position| self.rules.get(usize::from(*position)));
        rules.find(|rule| is_about(rule, node))
    }

    /// The port of a node.
    pub fn port_of(&self, node: &MapNode) -> u16 {
        let own = self.client.port(&node.address, &node.labels);
        self.rule_for(node).map(|rule| rule.port).filter(|port| *port != 0).unwrap_or(own)
    }

    /// The address of a node: the rule's where its endpoint is an address, as the reference shows
    /// `cluster-announce-client-ipv4`, else that which the node announces.
    pub fn ip_of<'b>(&self, node: &'b MapNode) -> Cow<'b, str>
    where
        'a: 'b,
    {
        let ruled = self.rule_for(node).filter(|rule| rule.host.parse::<IpAddr>().is_ok());
        ruled.map_or_else(|| self.announced_ip_of(node), |rule| Cow::Borrowed(&*rule.host))
    }

    fn announced_ip_of<'b>(&self, node: &'b MapNode) -> Cow<'b, str> {
        self.client.ip(&node.address, &node.labels)
    }

    /// What stands for a node: the rule's endpoint, else what `cluster-preferred-endpoint-type` of the node
    /// that answers says (S-51).
    pub fn endpoint_of<'b>(&self, node: &'b MapNode, kind: EndpointType) -> NodeEndpoint<'b>
    where
        'a: 'b,
    {
        if let Some(rule) = self.rule_for(node) {
            return NodeEndpoint::At(Cow::Borrowed(&*rule.host));
        }
        match kind {
            EndpointType::Ip => NodeEndpoint::At(self.announced_ip_of(node)),
            EndpointType::Hostname if node.labels.host_name.is_empty() => NodeEndpoint::Nameless,
            EndpointType::Hostname => NodeEndpoint::At(Cow::Borrowed(&*node.labels.host_name)),
            EndpointType::Unknown => NodeEndpoint::WhereAsked,
        }
    }

    /// Host and port of a node, with a colon between, as clients put together what CLUSTER SLOTS tells; none
    /// where the client is told no host, or one that has colons: clients take the text apart at the first.
    pub fn host_and_port(&self, node: &MapNode, kind: EndpointType) -> Option<String> {
        match self.endpoint_of(node, kind) {
            NodeEndpoint::At(host) if !host.is_empty() && !host.contains(':') => {
                Some(format!("{host}:{}", self.port_of(node)))
            }
            NodeEndpoint::At(_) | NodeEndpoint::Nameless | NodeEndpoint::WhereAsked => None,
        }
    }
}

fn is_about(rule: &EndpointRule, node: &MapNode) -> bool {
    match &rule.node {
        RuleNode::Id(id) => id.as_bytes() == node.id.as_bytes(),
        RuleNode::At(ip, port) => {
            // A node alone does not know its own address.
            let is_there = *node.address.ip == **ip || node.is_myself && node.address.ip.is_empty();
            is_there && [node.address.tcp_port, node.address.tls_port].contains(port)
        }
        RuleNode::HostName(name) => *node.labels.host_name == **name,
    }
}

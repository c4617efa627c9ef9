//! The address of a node as given to a client (S-50 to S-54): redirects, CLUSTER SLOTS and CLUSTER SHARDS
//! all show this address. CLUSTER NODES, for operators and other nodes, is written by the node's state
//! machine (`sluice_cluster`) and shows the announced addresses.
//!
//! In addition to a node's announcements, `announce-endpoint-for` of the answering node sets endpoints
//! for clients of certain networks. These endpoints are not sent to other nodes: the bus has no message for
//! them, and nodes of Valkey log a warning for each unknown extension.

use sluice_cluster::{AskingClient, MapNode};
use sluice_config::choice::EndpointType;
use sluice_config::{Config, EndpointRule, RuleNode};
use sluice_session::{Caller, Medium};
use std::borrow::Cow;
use std::net::IpAddr;

/// The properties of a session's client on which addresses depend (S-52, S-53).
pub fn asking(caller: &Caller) -> AskingClient {
    AskingClient {
        is_tls: caller.flags.medium == Medium::Tls,
        is_ipv6: caller.flags.medium != Medium::Unix && caller.origin.addr.starts_with('['),
    }
}

/// The endpoint of a node in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEndpoint<'a> {
    /// An IP address or a host name.
    At(Cow<'a, str>),
    /// Host names are preferred, but the node does not announce one.
    Nameless,
    /// The client uses the endpoint of its present connection.
    WhereAsked,
}

/// A client that receives addresses of nodes, with the rules that apply to it.
#[derive(Clone, Debug)]
pub struct EndpointClient<'a> {
    /// The properties of the client on which nodes' announcements depend.
    pub client: AskingClient,
    /// The rules of `announce-endpoint-for`.
    rules: &'a [EndpointRule],
    /// Indexes of the rules for the client's network; clients with equal indexes get equal replies. Not
    /// allocated when empty.
    pub matching: Vec<u16>,
}

impl<'a> EndpointClient<'a> {
    /// The client of a session, with its matching rules. O(rules).
    pub fn of(caller: &Caller, config: &'a Config) -> EndpointClient<'a> {
        let rules = config.endpoint_rules();
        let (client, mut matching) = (asking(caller), Vec::new());
        if !rules.is_empty()
            && caller.flags.medium != Medium::Unix
            && let Ok(address) = sluice_session::ip_of(&caller.origin.addr).parse::<IpAddr>()
        {
            let positions = (0_u16..).zip(rules).filter(|(_, rule)| rule.subnet.has(address));
            matching.extend(positions.map(|(position, _)| position));
        }
        EndpointClient { client, rules, matching }
    }

    /// The first rule that matches both the client's network and the node.
    pub(crate) fn rule_for(&self, node: &MapNode) -> Option<&'a EndpointRule> {
        let mut rules = self.matching.iter().filter_map(|position| self.rules.get(usize::from(*position)));
        rules.find(|rule| is_about(rule, node))
    }

    /// The port of a node: the port of the matching rule, or else the announced port.
    pub fn port_of(&self, node: &MapNode) -> u16 {
        let own = self.client.port(&node.address, &node.labels);
        self.rule_for(node).map(|rule| rule.port).filter(|port| *port != 0).unwrap_or(own)
    }

    /// The IP address of a node: the endpoint of the matching rule if that endpoint is an address (as the
    /// reference does for `cluster-announce-client-ipv4`), otherwise the announced address.
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

    /// The endpoint of a node: the endpoint of the matching rule, or else the one that
    /// `cluster-preferred-endpoint-type` of the answering node selects (S-51).
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

    /// Host and port of a node joined by a colon, as clients form it from CLUSTER SLOTS. `None` if the
    /// client gets no host, or a host with colons: clients split the text at the first colon.
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
            // A rule with an address also matches this node while its own address is empty, because a node
            // without peers does not know its own address.
            let is_there = *node.address.ip == **ip || node.is_myself && node.address.ip.is_empty();
            is_there && [node.address.tcp_port, node.address.tls_port].contains(port)
        }
        RuleNode::HostName(name) => *node.labels.host_name == **name,
    }
}

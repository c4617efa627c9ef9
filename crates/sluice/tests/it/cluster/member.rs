//! A member of a cluster, a node of ours or of the reference, with queries for tests.

use super::{Node, id_of, of_node};
use crate::common::reference::Reference;
use crate::common::{Client, free_port};

/// A node of ours, or one of the reference with the port of its bus.
pub enum Member {
    Ours(Node),
    Stock(Reference, u16),
}

impl Member {
    /// Starts a node with these additional arguments; returns `None` for a node of the reference if the
    /// environment names no reference.
    pub fn start(is_stock: bool, more: &[&str]) -> Option<Member> {
        if !is_stock {
            return Some(Member::Ours(Node::start(more)));
        }
        let bus = free_port();
        let words = of_node(bus);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Some(Member::Stock(Reference::start(&words)?, bus))
    }

    pub fn port(&self) -> u16 {
        match self {
            Member::Ours(node) => node.server.port,
            Member::Stock(server, _) => server.port,
        }
    }

    pub fn bus(&self) -> u16 {
        match self {
            Member::Ours(node) => node.bus,
            Member::Stock(_, bus) => *bus,
        }
    }

    /// The address in the format of the tools.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}@{}", self.port(), self.bus())
    }

    pub fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port())
    }

    pub fn id(&self) -> String {
        id_of(&mut self.client())
    }

    pub fn signal(&self, name: &str) {
        match self {
            Member::Ours(node) => node.server.signal(name),
            Member::Stock(server, _) => server.signal(name),
        }
    }

    pub fn is_primary(&self) -> bool {
        self.client().info("role") == "master"
    }

    /// Whether the node follows a primary, and is up to date.
    pub fn follows(&self) -> bool {
        let mut client = self.client();
        client.info("role") == "slave" && client.info("master_link_status") == "up"
    }

    pub fn digest(&self) -> String {
        self.client().send("DEBUG DIGEST\r\n").line()
    }
}

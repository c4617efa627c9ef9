//! A cluster of three primaries, with a replica for each if a task wants it.
//!
//! Invariant: a program leaves the slots with their original primaries, so that the next program finds
//! the same cluster; [`Cluster::is_unchanged`] checks the ranges of slots.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::server::{Server, free_port};
use crate::shell;
use crate::wire::{Connection, Reply};

/// Number of primaries. In the list of nodes, the replicas follow the primaries, in the same order.
pub(crate) const PRIMARIES: usize = 3;
/// The first slot of each primary, and the number of slots.
const BORDERS: [u16; PRIMARIES + 1] = [0, 5461, 10_922, 16_384];
/// Maximum duration of each wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Running nodes, which are ended when the value is dropped.
pub(crate) struct Cluster {
    /// The nodes, primaries first.
    pub(crate) nodes: Vec<Server>,
    /// The ports of the nodes' cluster buses.
    pub(crate) buses: Vec<u16>,
}

/// Whether each primary has a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replicas {
    None,
    One,
}

impl Cluster {
    /// Starts the nodes, and waits until each one serves and lists every node to clients.
    pub(crate) fn start(binary: &Path, replicas: Replicas, more: &[&str]) -> Result<Cluster> {
        let count = if replicas == Replicas::One { 2 * PRIMARIES } else { PRIMARIES };
        let mut cluster = Cluster { nodes: Vec::new(), buses: Vec::new() };
        for _ in 0..count {
            let bus = free_port()?;
            let port = bus.to_string();
            // The first sync must not be delayed by waiting for further replicas.
            let words =
                ["--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--cluster-port", &port];
            let words: Vec<String> = words.iter().chain(more).map(|word| (*word).to_owned()).collect();
            cluster.nodes.push(Server::start(binary, &words)?);
            cluster.buses.push(bus);
        }
        let ids = cluster.ask_each(&["CLUSTER", "MYID"])?;
        for (at, ends) in BORDERS.windows(2).enumerate() {
            let (first, last) = (ends[0].to_string(), (ends[1] - 1).to_string());
            cluster.done(at, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        for (node, bus) in cluster.nodes.iter().zip(&cluster.buses).skip(1) {
            let (port, bus) = (node.port.to_string(), bus.to_string());
            cluster.done(0, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        cluster.until("all nodes to know each other", |of| {
            let texts = of.ask_each(&["CLUSTER", "NODES"])?;
            let knows = |text: &Reply| ids.iter().all(|id| text.string().contains(&id.string()));
            Ok(texts.iter().all(knows))
        })?;
        for at in PRIMARIES..count {
            cluster.done(at, &["CLUSTER", "REPLICATE", &ids[at - PRIMARIES].string()])?;
        }
        cluster.until("a cluster that serves", Cluster::serves)?;
        Ok(cluster)
    }

    /// The ports of the nodes, primaries first, as arguments for programs.
    pub(crate) fn ports(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.port.to_string()).collect()
    }

    /// Waits until each primary has exactly one of the original ranges of slots, no slot is open, and the
    /// cluster serves.
    pub(crate) fn is_unchanged(&self) -> Result<()> {
        self.until("the slots of the beginning", |of| {
            let ranges = of.ask_each(&["CLUSTER", "NODES"])?.iter().all(|text| {
                let text = text.string();
                BORDERS.windows(2).all(|ends| text.contains(&format!(" {}-{}\n", ends[0], ends[1] - 1)))
            });
            Ok(ranges && of.serves()?)
        })
    }

    /// Whether every node serves, and all nodes list all nodes with the same primaries.
    pub(crate) fn serves(&self) -> Result<bool> {
        let are_ok = self.ask_each(&["CLUSTER", "INFO"])?;
        let are_ok = are_ok.iter().all(|text| text.string().starts_with("cluster_state:ok"));
        // A range has its two ends, and then a field for each node. A replica without data is not listed.
        let fields = 2 + self.nodes.len() / PRIMARIES;
        let is_whole = |slots: &Reply| {
            slots.items.len() == PRIMARIES && slots.items.iter().all(|range| range.items.len() == fields)
        };
        let slots = self.ask_each(&["CLUSTER", "SLOTS"])?;
        let id = |range: &Reply| range.items.get(2).and_then(|node| node.items.get(2)).map(Reply::string);
        let primaries = |slots: &Reply| -> Vec<_> { slots.items.iter().map(id).collect() };
        let agree = slots.windows(2).all(|two| primaries(&two[0]) == primaries(&two[1]));
        Ok(are_ok && agree && slots.iter().all(is_whole))
    }

    /// Whether the node reports that it is a primary; an error while it does not answer.
    pub(crate) fn is_primary(&self, at: usize) -> Result<bool> {
        let text = self.ask(at, &["INFO", "replication"])?.string();
        match text.contains("role:master") || text.contains("role:slave") {
            true => Ok(text.contains("role:master")),
            false => Err(format!("INFO replication: {text}").into()),
        }
    }

    /// Waits until a restarted node serves, follows its primary if it is a replica, and all
    /// nodes list all nodes.
    pub(crate) fn until_back(&self, at: usize) -> Result<()> {
        self.until("a node that is back", |of| {
            // An error means that the node does not listen yet.
            let is_back = || -> Result<bool> {
                let text = of.ask(at, &["INFO", "replication"])?.string();
                let is_there = text.contains("role:master") || text.contains("master_link_status:up");
                Ok(is_there && of.serves()?)
            };
            Ok(is_back().unwrap_or(false))
        })
    }

    pub(crate) fn ask(&self, at: usize, words: &[&str]) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        Connection::open(self.nodes[at].port)?.ask(&words)
    }

    pub(crate) fn ask_each(&self, words: &[&str]) -> Result<Vec<Reply>> {
        (0..self.nodes.len()).map(|at| self.ask(at, words)).collect()
    }

    pub(crate) fn done(&self, at: usize, words: &[&str]) -> Result<()> {
        let reply = self.ask(at, words)?;
        if reply.is_error() {
            return Err(format!("{}: {}", words.join(" "), reply.string()).into());
        }
        Ok(())
    }

    /// Waits until `holds` is true of the nodes.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Cluster) -> Result<bool>) -> Result<()> {
        let began = shell::now();
        while !holds(self)? {
            if began.elapsed() > PATIENCE {
                let view = |at| match self.ask(at, &["CLUSTER", "NODES"]) {
                    Ok(text) => text.string(),
                    Err(error) => format!("node {at}: {error}\n{}", self.nodes[at].log_tail()),
                };
                let views: Vec<String> = (0..self.nodes.len()).map(view).collect();
                return Err(format!("waited for {what} in vain:\n{}", views.join("\n")).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

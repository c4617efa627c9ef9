//! A cluster for the client programs: three primaries with a replica each, of the built server.
//!
//! Invariant: a program leaves the slots with the primaries that had them, so that the next one finds the
//! cluster as this one did; [`Cluster::is_unchanged`] looks.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::server::{Server, free_port};
use crate::shell;
use crate::wire::{Connection, Reply};

/// The primaries. As many replicas follow in the list, in the order of their primaries.
const PRIMARIES: usize = 3;
/// The first slot of each primary, and one more than the last slot.
const BORDERS: [u16; PRIMARIES + 1] = [0, 5461, 10_922, 16_384];
/// Bound of each wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Six running nodes, which end with their owner.
pub(super) struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the nodes, and waits until each one serves and every client is told of every node.
    pub(super) fn start(binary: &Path) -> Result<Cluster> {
        let mut nodes = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..2 * PRIMARIES {
            let bus = free_port()?.to_string();
            // A replica of the first moment, not after the seconds in which a primary waits for more of them.
            let words =
                ["--cluster-enabled", "yes", "--cluster-port", &bus, "--repl-diskless-sync-delay", "0"];
            nodes.push(Server::start(binary, &words.map(str::to_owned))?);
            buses.push(bus);
        }
        let cluster = Cluster { nodes };
        let ids = cluster.ask_each(&["CLUSTER", "MYID"])?;
        for (at, ends) in BORDERS.windows(2).enumerate() {
            let (first, last) = (ends[0].to_string(), (ends[1] - 1).to_string());
            cluster.done(at, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        for (node, bus) in cluster.nodes.iter().zip(&buses).skip(1) {
            cluster.done(0, &["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string(), bus])?;
        }
        cluster.until("all nodes to know each other", |of| {
            let texts = of.ask_each(&["CLUSTER", "NODES"])?;
            let knows = |text: &Reply| ids.iter().all(|id| text.string().contains(&id.string()));
            Ok(texts.iter().all(knows))
        })?;
        for at in PRIMARIES..2 * PRIMARIES {
            cluster.done(at, &["CLUSTER", "REPLICATE", &ids[at - PRIMARIES].string()])?;
        }
        cluster.until("a cluster that serves", Cluster::serves)?;
        Ok(cluster)
    }

    /// The ports of the nodes, primaries first, as the programs take them.
    pub(super) fn ports(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.port.to_string()).collect()
    }

    /// Waits until every primary has its slots of the beginning and no others, and none is open.
    pub(super) fn is_unchanged(&self) -> Result<()> {
        self.until("the slots of the beginning", |of| {
            let ranges = of.ask_each(&["CLUSTER", "NODES"])?.iter().all(|text| {
                let text = text.string();
                BORDERS.windows(2).all(|ends| text.contains(&format!(" {}-{}\n", ends[0], ends[1] - 1)))
            });
            Ok(ranges && of.serves()?)
        })
    }

    /// Whether every node serves, and names all six to clients.
    fn serves(&self) -> Result<bool> {
        let are_ok = self.ask_each(&["CLUSTER", "INFO"])?;
        let are_ok = are_ok.iter().all(|text| text.string().starts_with("cluster_state:ok"));
        // A replica that has no data yet is not named.
        let is_whole = |slots: &Reply| {
            slots.items.len() == PRIMARIES && slots.items.iter().all(|range| range.items.len() == 4)
        };
        Ok(are_ok && self.ask_each(&["CLUSTER", "SLOTS"])?.iter().all(is_whole))
    }

    fn ask(&self, at: usize, words: &[&str]) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        Connection::open(self.nodes[at].port)?.ask(&words)
    }

    fn ask_each(&self, words: &[&str]) -> Result<Vec<Reply>> {
        (0..self.nodes.len()).map(|at| self.ask(at, words)).collect()
    }

    fn done(&self, at: usize, words: &[&str]) -> Result<()> {
        let reply = self.ask(at, words)?;
        if reply.is_error() {
            return Err(format!("{}: {}", words.join(" "), reply.string()).into());
        }
        Ok(())
    }

    fn until(&self, what: &str, holds: impl Fn(&Cluster) -> Result<bool>) -> Result<()> {
        let began = shell::now();
        while !holds(self)? {
            if began.elapsed() > PATIENCE {
                let views = self.ask_each(&["CLUSTER", "NODES"])?;
                let views: Vec<String> = views.iter().map(Reply::string).collect();
                return Err(format!("waited for {what} in vain:\n{}", views.join("\n")).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

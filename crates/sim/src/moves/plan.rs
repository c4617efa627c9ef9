//! The decisions that a seed makes before a run with moves of slots.

use crate::net::NodeId;
use crate::node::{NodePlan, port_of};
use crate::node_file::NodeFile;
use sluice_base::{HashSeed, Rng, key_slot};
use sluice_cluster::SLOT_COUNT;

/// The kinds of faults in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovesSeason {
    /// Delays, cancels, rewrites of logs, and lost connections of moves.
    Calm,
    /// All faults, crashes and cuts included.
    Storm,
}

/// The rate of each event: once in this many steps on average; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct MoveRates {
    pub migrate: u64,
    pub cancel: u64,
    pub kill_move: u64,
    pub kill: u64,
    pub crash: u64,
    /// Crashes of nodes that have claimed slots and not announced the claim yet.
    pub crash_claimant: u64,
    pub cut: u64,
    pub isolate: u64,
    pub stall: u64,
    pub node_file: u64,
    pub flush: u64,
    pub rewrite: u64,
    pub fail_over: u64,
}

/// The plan of one run with moves.
#[derive(Clone, Debug)]
pub struct MovesPlan {
    pub season: MovesSeason,
    pub nodes: Vec<NodePlan>,
    /// The primary of each node at the beginning; `None` for primaries.
    pub follows: Vec<Option<NodeId>>,
    pub rates: MoveRates,
    pub databases: u64,
    pub timeout_ms: u64,
    pub latency_ms: u64,
    pub step_ms: u64,
    /// Duration of the phase in which moves are begun, ms.
    pub busy_ms: u64,
    /// Longest duration of a write of `nodes.conf`, ms.
    pub file_ms: u64,
    /// The hash tags of clients' keys, and their slots.
    pub tags: Vec<(String, u16)>,
}

impl MovesPlan {
    /// Draws the plan of a seed.
    pub fn new(seed: u64, rng: &mut Rng) -> MovesPlan {
        let season = if seed.is_multiple_of(4) { MovesSeason::Calm } else { MovesSeason::Storm };
        let primaries = 2 + rng.below(3) as usize;
        // One run of four has no replicas. There an answered write counts as confirmed without WAIT.
        let replicas = if rng.below(4) == 0 { 0 } else { primaries };
        let follows: Vec<Option<NodeId>> =
            (0..primaries + replicas).map(|node| node.checked_sub(primaries)).collect();
        let timeout_ms = 1_500 + rng.below(2_000);
        let file_ms = [2, 40, 300][rng.below(3) as usize];
        let databases = 1 + rng.below(3);
        let texts = files(&follows);
        let mut nodes = Vec::new();
        for text in texts {
            nodes.push(node(rng, (timeout_ms, databases), NodeFile::new(&text, file_ms)));
        }
        let rates = rates(season, rng);
        if rates.crash + rates.crash_claimant > 0 {
            // Runs with crashes do not use `best-effort`, because a node that continues without its file
            // would announce state that it loses in a crash.
            let best_effort = ("cluster-config-save-behavior", "best-effort".to_owned());
            nodes.iter_mut().for_each(|node| node.directives.retain(|row| *row != best_effort));
        }
        let tags = (0..10 + rng.below(6)).map(|at| {
            let tag = format!("{{t{}}}", at * 7 + seed % 5);
            let slot = key_slot(tag.as_bytes());
            (tag, slot)
        });
        MovesPlan {
            season,
            nodes,
            follows,
            rates,
            databases,
            timeout_ms,
            latency_ms: [1, 5, 20][rng.below(3) as usize],
            step_ms: 4 + rng.below(24),
            busy_ms: 10_000 + rng.below(6_000),
            file_ms,
            tags: tags.collect(),
        }
    }
}

fn rates(season: MovesSeason, rng: &mut Rng) -> MoveRates {
    let mut rate = |one_in: u64| match rng.below(3) {
        0 => 0,
        _ => one_in / 2 + rng.below(one_in),
    };
    let calm = MoveRates {
        migrate: 20 + rate(30),
        cancel: rate(250),
        kill_move: rate(150),
        rewrite: rate(150),
        ..MoveRates::default()
    };
    match season {
        MovesSeason::Calm => calm,
        MovesSeason::Storm => MoveRates {
            kill: rate(100),
            crash: rate(300),
            crash_claimant: rate(12),
            cut: rate(300),
            isolate: rate(500),
            stall: rate(400),
            node_file: rate(300),
            flush: rate(800),
            fail_over: rate(300),
            ..calm
        },
    }
}

fn node(rng: &mut Rng, (timeout_ms, databases): (u64, u64), file: NodeFile) -> NodePlan {
    let mut pick = |values: &[&str]| values[rng.below(values.len() as u64) as usize].to_owned();
    let directives = vec![
        ("cluster-node-timeout", timeout_ms.to_string()),
        ("cluster-databases", databases.to_string()),
        ("cluster-manual-failover-timeout", pick(&["1000", "3000"])),
        ("cluster-config-save-behavior", pick(&["sync", "best-effort"])),
        ("cluster-allow-replica-migration", pick(&["yes", "no"])),
        ("cluster-require-full-coverage", "no".to_owned()),
        ("slot-migration-max-failover-repl-bytes", pick(&["0", "0", "200", "-1"])),
        ("repl-timeout", pick(&["3", "5", "60"])),
        ("repl-diskless-sync-delay", "0".to_owned()),
        // The delay makes the walk of a slot's keys slow, so that writes occur during the walk.
        ("rdb-key-save-delay", pick(&["0", "0", "10000"])),
        ("repl-backlog-size", pick(&["16kb", "1mb"])),
        ("aof-use-rdb-preamble", pick(&["yes", "no"])),
        ("appendfsync", "always".to_owned()),
        ("list-max-listpack-size", pick(&["1", "-2"])),
        ("set-max-intset-entries", pick(&["1", "512"])),
    ];
    NodePlan {
        directives,
        has_aof: true,
        is_strict: true,
        hash_seed: HashSeed { k0: rng.next_u64(), k1: rng.next_u64() },
        leaves_later: false,
        stream_bound: usize::MAX,
        block_bytes: 16 << 10,
        look_us: [1, 1, 300, 1_100][rng.below(4) as usize],
        node_file: Some(file),
    }
}

/// The id of a node, as `nodes.conf` has it.
pub fn id_of(node: NodeId) -> String {
    format!("{:02x}{:038x}", 0x30 + node * 16 % 200 + node, node + 1)
}

/// The `nodes.conf` of each node, in a cluster in which all nodes know each other.
fn files(follows: &[Option<NodeId>]) -> Vec<String> {
    let primaries = follows.iter().filter(|primary| primary.is_none()).count();
    let share = SLOT_COUNT.div_ceil(primaries as u16);
    let line = |me: NodeId, node: NodeId| {
        let (flags, primary, slots) = match follows[node] {
            None => {
                let first = share * node as u16;
                let last = SLOT_COUNT.min(first + share) - 1;
                ("master", "-".to_owned(), format!(" {first}-{last}"))
            }
            Some(primary) => ("slave", id_of(primary), String::new()),
        };
        let shard = follows[node].unwrap_or(node);
        let (port, flags) = (port_of(node), format!("{}{flags}", if me == node { "myself," } else { "" }));
        let epoch = shard + 1;
        format!(
            "{} {}:{port}@{},,tls-port=0,shard-id={:040x} {flags} {primary} 0 0 {epoch} connected{slots}\n",
            id_of(node),
            crate::node::ip_of(node),
            port + 10_000,
            0x5A00 + shard,
        )
    };
    let file = |me: NodeId| {
        let lines: String = (0..follows.len()).map(|node| line(me, node)).collect();
        format!("{lines}vars currentEpoch {primaries} lastVoteEpoch 0\n")
    };
    (0..follows.len()).map(file).collect()
}

//! The decisions that a seed makes before a run: the number of nodes, their configuration, the
//! rates of faults.

use crate::node::NodePlan;
use sluice_base::{HashSeed, Rng};

/// The rate of each fault: once in this many steps on average; 0 for never.
#[derive(Clone, Copy, Debug)]
pub struct FaultRates {
    pub crash: u64,
    pub kill_connection: u64,
    pub isolate: u64,
    pub cut_pair: u64,
    pub save: u64,
    pub rewrite: u64,
    pub chain: u64,
}

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: Vec<NodePlan>,
    pub rates: FaultRates,
    /// Longest usual delay of a piece of data on the network, ms.
    pub latency_ms: u64,
    /// Longest duration of a step, ms.
    pub step_ms: u64,
    /// Duration of the phase with faults, ms.
    pub faulty_ms: u64,
    /// Whether a crashed primary may restart before another node is promoted; data that are in no file are
    /// then lost.
    pub restarts_primary: bool,
    /// Each client sends a command once in this many steps on average.
    pub commands: u64,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn new(seed: u64, rng: &mut Rng) -> Plan {
        let count = 2 + rng.below(3) as usize;
        let has_files = rng.below(3);
        let mut nodes: Vec<NodePlan> = (0..count).map(|_| node(rng, has_files)).collect();
        add_second_channel(&mut Rng::new(seed ^ 0x2C4A_77E1), &mut nodes);
        add_strict_logs(&mut Rng::new(seed ^ 0xA1_3A75), &mut nodes);
        add_runs(&mut Rng::new(seed ^ 0x2_57A9D5), &mut nodes);
        add_forms(&mut Rng::new(seed ^ 0xF0_2A5), &mut nodes);
        let mut rate = |one_in: u64| match rng.below(3) {
            0 => 0,
            _ => one_in / 2 + rng.below(one_in),
        };
        let rates = FaultRates {
            crash: rate(120),
            kill_connection: rate(25),
            isolate: rate(120),
            cut_pair: rate(90),
            save: rate(60),
            rewrite: rate(80),
            chain: rate(120),
        };
        Plan {
            nodes,
            rates,
            latency_ms: [2, 20, 80][rng.below(3) as usize],
            step_ms: 20 + rng.below(80),
            faulty_ms: 8_000 + rng.below(8_000),
            restarts_primary: rng.below(4) == 0,
            commands: 1 + rng.below(3),
        }
    }
}

/// Draws which nodes use a second channel for a full synchronisation. A separate generator is used, so that
/// the runs of a seed without the second channel are the same as before these draws existed.
fn add_second_channel(rng: &mut Rng, nodes: &mut [NodePlan]) {
    let share = rng.below(3);
    for node in nodes {
        if share == 0 || rng.below(2) < share - 1 {
            continue;
        }
        node.directives.push(("dual-channel-replication-enabled", "yes".to_owned()));
        if rng.below(4) > 0 {
            // Without diskless sync a primary offers no second channel.
            node.directives.retain(|(name, _)| *name != "repl-diskless-sync");
            node.directives.push(("repl-diskless-sync", "yes".to_owned()));
        }
        node.leaves_later = rng.below(2) == 0;
        node.stream_bound = [usize::MAX, 2_000][rng.below(2) as usize];
        node.block_bytes = [16 << 10, 200][rng.below(2) as usize];
    }
}

/// Draws which nodes use `appendfsync always`. A separate generator is used, so that the other draws of a
/// seed stay the same.
fn add_strict_logs(rng: &mut Rng, nodes: &mut [NodePlan]) {
    let share = rng.below(3);
    for node in nodes.iter_mut().filter(|node| node.has_aof) {
        node.is_strict = rng.below(2) < share;
        if node.is_strict {
            node.directives.push(("appendfsync", "always".to_owned()));
        }
    }
}

/// Draws the time limit of scripts, the wait for replicas at a shutdown, and the time by which a reading of
/// the clock advances the clock while a script runs. A separate generator is used, so that the other draws of
/// a seed stay the same.
fn add_runs(rng: &mut Rng, nodes: &mut [NodePlan]) {
    for node in nodes {
        let mut pick = |values: &[&str]| values[rng.below(values.len() as u64) as usize].to_owned();
        node.directives.push(("busy-reply-threshold", pick(&["1", "50", "400", "5000"])));
        node.directives.push(("shutdown-timeout", pick(&["0", "1", "3"])));
        node.look_us = [300, 1100, 2500][rng.below(3) as usize];
    }
}

/// Draws the hash seeds and encodings of each node. A separate generator is used, so that the other draws of
/// a seed stay the same. The nodes differ in these, because a primary's stream must give equal data under
/// other hashes and encodings.
fn add_forms(rng: &mut Rng, nodes: &mut [NodePlan]) {
    for node in nodes {
        node.hash_seed = HashSeed { k0: rng.next_u64(), k1: rng.next_u64() };
        let mut pick = |values: &[&str]| values[rng.below(values.len() as u64) as usize].to_owned();
        for (name, values) in [
            ("hash-max-listpack-entries", ["1", "512"]),
            ("hash-max-listpack-value", ["1", "64"]),
            ("set-max-intset-entries", ["1", "512"]),
            ("set-max-listpack-entries", ["1", "128"]),
            ("zset-max-listpack-entries", ["1", "128"]),
            ("list-max-listpack-size", ["1", "-2"]),
        ] {
            node.directives.push((name, pick(&values)));
        }
    }
}

fn node(rng: &mut Rng, has_files: u64) -> NodePlan {
    let mut pick = |values: &[&str]| values[rng.below(values.len() as u64) as usize].to_owned();
    let directives = vec![
        ("repl-backlog-size", pick(&["16kb", "16kb", "64kb"])),
        ("repl-diskless-sync", pick(&["yes", "no"])),
        ("repl-diskless-sync-delay", pick(&["0", "0", "1"])),
        ("repl-diskless-load", pick(&["disabled", "on-empty-db", "swapdb", "flush-before-load"])),
        ("repl-timeout", pick(&["2", "4", "60"])),
        ("aof-use-rdb-preamble", pick(&["yes", "no"])),
        ("aof-timestamp-enabled", pick(&["yes", "no"])),
    ];
    let has_aof = match has_files {
        0 => false,
        1 => true,
        _ => rng.below(2) == 0,
    };
    NodePlan {
        directives,
        has_aof,
        is_strict: false,
        hash_seed: HashSeed { k0: 1, k1: 2 },
        leaves_later: false,
        stream_bound: usize::MAX,
        block_bytes: 16 << 10,
        look_us: 1,
        node_file: None,
    }
}

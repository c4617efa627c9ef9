//! The effects on programs with real client libraries when a primary of their cluster is killed, another one
//! hands over by CLUSTER FAILOVER, and a third one by SIGTERM. This is a part of `cargo xtask clients`.
//!
//! The requirements are: a replica takes over the role of the dead primary within 1.5 times
//! `cluster-node-timeout` and a second; no call fails, and no acknowledged write is lost, when a role is
//! handed over; no read finds a value that no program wrote to the key. The failed calls after the death of a
//! primary are counted and printed, because a library reports an error to its application when it gives up
//! while a slot has no owner.

use std::path::Path;
use std::time::Duration;

use crate::cluster::{Cluster, PRIMARIES, Replicas};
use crate::error::Result;
use crate::loops::{Found, LIBRARIES, Loops, of};
use crate::shell;

/// `cluster-node-timeout`. With half of this value, live nodes of a busy machine are marked as failed.
const NODE_TIMEOUT_MS: u64 = 2_000;
/// A library that is left out unless it is named: `KEEPS_DEAD_CONNECTIONS` of rolling.rs has the reason.
const UNFIT: &str = "redis-rs";
/// Maximum time in which the slots of a killed primary are not served.
const OUTAGE: Duration = Duration::from_millis(NODE_TIMEOUT_MS * 3 / 2 + 1_000);
/// A program is well if no call fails and no worker is without success for this long.
const WINDOW: Duration = Duration::from_millis(400);
/// Maximum wait for the end of a node.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// Maximum time until a program is well again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the loops with these names, or those of all libraries but `UNFIT`, through the three events.
pub(crate) fn run(server: &Path, names: &[String]) -> Result<()> {
    let timeout = NODE_TIMEOUT_MS.to_string();
    let options = ["--cluster-node-timeout", &timeout, "--shutdown-on-sigterm", "failover"];
    let mut cluster = Cluster::start(server, Replicas::One, &options)?;
    let all: Vec<String> = LIBRARIES.iter().filter(|name| **name != UNFIT).map(|name| of(name)).collect();
    let names = if names.is_empty() { &all } else { names };
    let mut loops = Loops::start(names, "tuned", &cluster.ports())?;
    if loops.is_empty() {
        println!("failovers under clients: skipped, no program of these could be made here");
        return Ok(());
    }
    // Each event concerns another primary and its replica, so that no event has to wait for the node of the
    // previous event.
    let began = shell::now();
    cluster.nodes[0].signal("-KILL")?;
    cluster.until("the replica as a primary", |of| of.is_primary(PRIMARIES))?;
    let took = began.elapsed();
    let killed = settled(&mut loops)?;
    cluster.nodes[0].wait_for_end(END_PATIENCE)?;
    cluster.nodes[0].begin_again(server)?;

    cluster.done(1 + PRIMARIES, &["CLUSTER", "FAILOVER"])?;
    cluster.until("the replica as a primary", |of| of.is_primary(1 + PRIMARIES))?;
    let by_hand = settled(&mut loops)?;

    cluster.nodes[2].signal("-TERM")?;
    cluster.nodes[2].wait_for_end(END_PATIENCE)?;
    let by_signal = settled(&mut loops)?;
    cluster.nodes[2].begin_again(server)?;
    cluster.until_back(0)?;
    cluster.until_back(2)?;
    let end = settled(&mut loops)?;

    println!("clients: failovers: a primary that was killed is replaced after {} ms", took.as_millis());
    for (((killed, by_hand), by_signal), end) in killed.iter().zip(&by_hand).zip(&by_signal).zip(&end) {
        println!(
            "clients: failovers: {}: killed {}; CLUSTER FAILOVER {}; SIGTERM {}; {} writes, {} reads",
            killed.name,
            in_words(killed),
            in_words(by_hand),
            in_words(by_signal),
            killed.writes + by_hand.writes + by_signal.writes + end.writes,
            killed.reads + by_hand.reads + by_signal.reads + end.reads,
        );
        killed.has_read_no_other()?;
        [by_hand, by_signal, end].into_iter().try_for_each(Found::has_been_well)?;
    }
    if took > OUTAGE {
        return Err(format!("nobody took over within {} ms", OUTAGE.as_millis()).into());
    }
    Ok(())
}

fn in_words(found: &Found) -> String {
    let lost = if found.lost.is_empty() { String::new() } else { format!(", {} lost", found.lost.len()) };
    format!("{} errors{lost}, longest gap {} ms", found.errors.len(), found.gap_ms)
}

/// Waits until each program is well again; returns the sum of each program's reports until then. Errors: a
/// program is not well within [`PATIENCE`].
fn settled(loops: &mut Loops) -> Result<Vec<Found>> {
    let began = shell::now();
    let mut all = loops.report()?;
    loop {
        std::thread::sleep(WINDOW);
        let window = loops.report()?;
        let ill = window.iter().find(|found| !found.is_well(WINDOW));
        if let Some(ill) = ill.filter(|_| began.elapsed() > PATIENCE) {
            return Err(format!("{} does not go on: {:?}", ill.name, ill.errors.last()).into());
        }
        let are_well = ill.is_none();
        all.iter_mut().zip(window).for_each(|(all, window)| all.add(window));
        if are_well {
            return Ok(all);
        }
    }
}

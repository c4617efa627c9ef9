//! Measures how long one command blocks all other clients: the main thread's own processor time in commands
//! on very large values.
//!
//! Method: an engine in this process (no socket, no other thread) holds a list of ten million elements of
//! 16 bytes. Each command runs alone, between two readings of CLOCK_THREAD_CPUTIME_ID, so that neither
//! the scheduler nor other processes count. Values that a command leaves to other threads are dropped
//! outside of the readings. Each command is measured on a fresh copy (COPY is O(1)), nine times; the
//! median and the worst are printed.
//!
//! `cargo bench -p sluice-server --bench turns [-- ELEMENTS]`
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use sluice_testkit::Rig;
use std::time::Duration;

const ROUNDS: usize = 9;
const BATCH: usize = 1000;

fn thread_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    Duration::from(nix::time::clock_gettime(clock).expect("every Linux has this clock"))
}

/// Runs a command and returns the processor time that it took.
fn timed(rig: &mut Rig, line: &str) -> Duration {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let before = thread_time();
    rig.argv_unread(rig.client, &words);
    let took = thread_time() - before;
    let reply = rig.output(rig.client);
    assert!(!reply.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&reply));
    rig.actions.clear();
    took
}

fn fill(rig: &mut Rig, elements: usize) {
    for base in (0..elements).step_by(BATCH) {
        let items: Vec<String> =
            (base..(base + BATCH).min(elements)).map(|i| format!("element:{i:08}")).collect();
        let mut words: Vec<&[u8]> = vec![b"RPUSH", b"big"];
        words.extend(items.iter().map(String::as_bytes));
        rig.argv(rig.client, &words);
    }
}

fn main() {
    let elements = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(10_000_000);
    let mut rig = Rig::new();
    fill(&mut rig, elements);
    let quarter = elements / 4;
    let commands = [
        "PING".to_owned(),
        "COPY big twin REPLACE".to_owned(),
        "DEL twin".to_owned(),
        "UNLINK twin".to_owned(),
        "SET twin x".to_owned(),
        format!("LTRIM twin {quarter} {}", 3 * quarter),
        "LTRIM twin 1 0".to_owned(),
        "LPUSH twin x".to_owned(),
        format!("LSET twin {} x", elements / 2),
        format!("LINDEX twin {}", elements / 2),
        "LPOP twin 1000".to_owned(),
        "RENAME twin other".to_owned(),
        "MOVE twin 1".to_owned(),
    ];
    println!("list of {elements} elements; microseconds of the main thread's processor time");
    println!("{:34} {:>10} {:>10}", "command", "median", "worst");
    for command in commands {
        let mut took: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                timed(&mut rig, "COPY big twin REPLACE");
                timed(&mut rig, "COPY big twin DB 1 REPLACE");
                if command.starts_with("MOVE") {
                    timed(&mut rig, "SELECT 1");
                    timed(&mut rig, "DEL twin");
                    timed(&mut rig, "SELECT 0");
                }
                timed(&mut rig, &command)
            })
            .collect();
        took.sort_unstable();
        let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
        println!("{command:34} {:10.1} {:10.1}", us(took[ROUNDS / 2]), us(took[ROUNDS - 1]));
    }
}

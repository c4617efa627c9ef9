//! The cost of writes to a large string for other clients: the main thread's own processor time
//! in APPEND and SETRANGE on a string of 512 MiB that has no other holder, or is also held by a
//! reply or another key.
//!
//! Method: an engine in this process (no socket, no other thread) with the server's allocator. Each
//! command runs alone, between two readings of CLOCK_THREAD_CPUTIME_ID, so that neither the scheduler nor
//! other processes count; the kernel's work for memory does count. Values that a command leaves to other
//! threads are dropped outside of the measured time. SETRANGE writes one byte at a random position; APPEND
//! adds 100 bytes. "a reply" is a GET of the string whose reply has not been sent to the client yet; "a copy"
//! is a COPY of the string. Both are made again after 4,000 commands. The benchmark prints the median of
//! 20,000 commands (100 of GET), two percentiles and the maximum. The last line gives the lower bound, which
//! is the cost of allocating, copying and keeping a page without a server.
//!
//! `cargo bench -p sluice --bench strings`
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use sluice_base::Rng;
use sluice_base::SessionKey;
use sluice_control::process::ProcessClock;
use sluice_testkit::Rig;
use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const LEN: usize = 512 << 20;
const COMMANDS: usize = 20_000;
const HELD: usize = 4000;

fn thread_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    Duration::from(nix::time::clock_gettime(clock).expect("every Linux has this clock"))
}

#[derive(Clone, Copy)]
enum Holder {
    Nobody,
    Reply,
    Copy,
}

#[derive(Clone, Copy)]
enum Write {
    Append,
    SetRange,
}

/// Drops a reply as if it had been sent.
fn release(rig: &mut Rig, reader: SessionKey) {
    rig.engine.end_iteration(&mut rig.process);
    rig.engine.take_ready(&mut Vec::new());
    if let Some((outbox, _)) = rig.engine.take_output(reader) {
        rig.engine.sent(reader, outbox.len(), rig.process.now());
        rig.engine.recycle(outbox);
    }
}

/// Measures the cost of the memory alone: a page is allocated, filled from another page, and kept, as for a
/// write into a string that a reply or another key also holds.
fn measure_copies() -> Vec<Duration> {
    let from = vec![1u8; 64 << 10];
    let mut kept = Vec::with_capacity(HELD);
    let mut took = Vec::with_capacity(COMMANDS);
    for n in 0..COMMANDS {
        if n % HELD == 0 {
            kept.clear();
        }
        let before = thread_time();
        kept.push(black_box(&from).clone());
        took.push(thread_time() - before);
    }
    took.sort_unstable();
    took
}

/// Measures GET of the whole string; the reply is dropped outside of the measured time.
fn measure_get(rig: &mut Rig) -> Vec<Duration> {
    let reader = rig.connect();
    let mut took = Vec::new();
    for _ in 0..100 {
        let before = thread_time();
        rig.argv_unread(reader, &[b"GET", b"big"]);
        took.push(thread_time() - before);
        release(rig, reader);
    }
    took.sort_unstable();
    took
}

fn print(name: &str, by: &str, took: &[Duration]) {
    let us = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1000.0;
    let (median, most, nearly_all, worst) = (us(0.5), us(0.99), us(0.999), us(1.0));
    println!("{name:14} {by:8} {median:8.1} {most:8.1} {nearly_all:8.1} {worst:8.1}");
}

fn measure(rig: &mut Rig, write: Write, holder: Holder) -> Vec<Duration> {
    let (writer, reader) = (rig.client, rig.connect());
    let mut rng = Rng::new(1);
    let mut took = Vec::with_capacity(COMMANDS);
    for n in 0..COMMANDS {
        if n % HELD == 0 {
            match holder {
                Holder::Nobody => {}
                Holder::Reply => {
                    release(rig, reader);
                    rig.argv_unread(reader, &[b"GET", b"big"]);
                }
                Holder::Copy => {
                    rig.run("COPY big twin REPLACE");
                    rig.actions.clear();
                }
            }
        }
        let offset = rng.below(LEN as u64).to_string();
        let words: &[&[u8]] = match write {
            Write::Append => &[b"APPEND", b"big", &[b'x'; 100]],
            Write::SetRange => &[b"SETRANGE", b"big", offset.as_bytes(), b"x"],
        };
        let before = thread_time();
        rig.argv_unread(writer, words);
        took.push(thread_time() - before);
        assert!(rig.output(writer).starts_with(b":"));
        rig.actions.clear();
    }
    release(rig, reader);
    rig.run("DEL twin");
    rig.actions.clear();
    took.sort_unstable();
    took
}

fn main() {
    // `cargo test` runs this program too, but without `--bench`; then there is nothing to do.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    tikv_jemalloc_ctl::background_thread::write(true).expect("the server does this too");
    let mut rig = Rig::with(&[("proto-max-bulk-len", "1gb"), ("client-output-buffer-limit", "normal 0 0 0")]);
    let piece = vec![b'v'; 1 << 20];
    rig.argv(rig.client, &[b"SETRANGE", b"big", (LEN - 1).to_string().as_bytes(), b"v"]);
    for offset in (0..LEN).step_by(piece.len()) {
        rig.argv(rig.client, &[b"SETRANGE", b"big", offset.to_string().as_bytes(), &piece]);
    }
    println!("string of {} MiB; microseconds of the main thread's processor time", LEN >> 20);
    println!("{:14} {:8} {:>8} {:>8} {:>8} {:>8}", "command", "held by", "median", "p99", "p99.9", "worst");
    for (name, write) in [("SETRANGE", Write::SetRange), ("APPEND", Write::Append)] {
        for (by, holder) in [("nobody", Holder::Nobody), ("a reply", Holder::Reply), ("a copy", Holder::Copy)]
        {
            print(name, by, &measure(&mut rig, write, holder));
        }
    }
    print("GET", "nobody", &measure_get(&mut rig));
    print("copy of 64 KiB", "", &measure_copies());
}

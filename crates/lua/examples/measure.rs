//! Measures what the Lua machine costs besides executing instructions: `cargo run --release -p sluice-lua
//! --example measure`.
//!
//! Measures runs of short programs, each from its start to the freeing of its objects; slices of the
//! collector over heaps of about 100 MB; and the bytes of large tables and the time to free them.

#![expect(clippy::disallowed_methods, reason = "a program for people at a terminal")]

mod clock;

use std::time::Instant;

use sluice_lua::{RunOutcome, Vm, compile};

fn vm(source: &str) -> (Vm, sluice_lua::LoadedChunk) {
    let mut vm = Vm::new(4 << 30).expect("room for the libraries");
    vm.seal(true);
    let proto = compile(source.as_bytes(), b"@measure").expect("a program");
    let chunk = vm.load(&proto).expect("room for the chunk");
    (vm, chunk)
}

fn main() {
    short_runs();
    slices();
    for (what, source) in [
        ("1,000,000 numbers", "t = {} for i = 1, 1000000 do t[i] = i end"),
        ("1,000,000 short strings", "t = {} for i = 1, 1000000 do t[i] = 's' .. i end"),
    ] {
        table(what, &format!("local {source} return t"));
    }
}

/// Prints the cost of a run: the best of some rounds, which is the cost without disturbance, and the median
/// of the rounds.
fn short_runs() {
    const RUNS: u32 = 100_000;
    for source in ["return 1", "return KEYS", "local a = {1, 2, 3} return #a", "return tostring(12)"] {
        let (mut vm, chunk) = vm(source);
        let mut rounds: Vec<f64> = (0..15)
            .map(|_| {
                let begin = Instant::now();
                for _ in 0..RUNS {
                    let mut run = vm.start(chunk);
                    let outcome = run.resume_unwatched(1 << 30);
                    assert!(matches!(outcome, RunOutcome::Done));
                    assert_eq!(run.results().len(), 1);
                    drop(run.end());
                }
                begin.elapsed().as_secs_f64() * 1e9 / f64::from(RUNS)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!("{source:32} {:7.1} ns at best, {:7.1} ns median", rounds[0], rounds[7]);
    }
}

/// Programs that fill a library's heap with about 100 MB.
const HEAPS: [(&str, &str); 5] = [
    (
        "many tables and a large one",
        "local t = {} for i = 1, 700000 do t[i] = {i, 'text' .. i} end local h = {} \
         for i = 1, 300000 do h['k' .. i] = i end return {t, h}",
    ),
    ("garbage alone", "local t = {} for i = 1, 900000 do t[i] = {i, 'text' .. i} end return 1"),
    (
        "garbage of one large table",
        "local t = {} for i = 1, 8000000 do t[i] = i end local s = ('x'):rep(40000000) return 1",
    ),
    (
        "weak values, half of them dead",
        "local kept, t = {}, setmetatable({}, {__mode = 'v'}) for i = 1, 1000000 do \
         local v = {} t[i] = v if i % 2 == 0 then kept[i / 2] = v end end return {kept, t}",
    ),
    (
        "closures and coroutines",
        "local t = {} for i = 1, 300000 do t[i] = function() return i end end local c = {} \
         for i = 1, 15000 do c[i] = coroutine.wrap(function() coroutine.yield() end) c[i]() end return {t, c}",
    ),
];

/// Number of times that each heap is built and collected.
const COLLECTIONS: usize = 7;

/// Prints the longest slice of a collection, in processor time. The slices of a heap are the same in each
/// collection, but disturbances are not, so for each slice the shortest time of several collections counts.
/// The longest time of any slice is shown as well.
fn slices() {
    const WORK: usize = 8192;
    for (what, source) in HEAPS {
        let mut shortest: Vec<f64> = Vec::new();
        let (mut met, mut sizes) = (0.0_f64, (0, 0));
        for _ in 0..COLLECTIONS {
            let (mut vm, chunk) = vm(source);
            let mut run = vm.start(chunk);
            assert!(matches!(run.resume_unwatched(u64::MAX >> 2), RunOutcome::Done));
            let value = run.results()[0];
            vm.end_and_keep();
            vm.pin(value);
            // The first of these two rounds ends the cycle that may have begun while the program ran.
            let before = vm.bytes();
            let mut times = Vec::new();
            for _ in 0..2 {
                loop {
                    let ran = clock::now();
                    let done = vm.collect(WORK);
                    times.push((clock::now() - ran).as_secs_f64() * 1e3);
                    if done {
                        break;
                    }
                }
            }
            sizes = (before >> 20, vm.bytes() >> 20);
            met = times.iter().copied().fold(met, f64::max);
            if shortest.is_empty() {
                shortest.clone_from(&times);
            }
            assert_eq!(shortest.len(), times.len(), "the same heap takes the same slices");
            shortest.iter_mut().zip(times).for_each(|(least, time)| *least = least.min(time));
        }
        let total: f64 = shortest.iter().sum();
        let longest = shortest.iter().copied().fold(0.0, f64::max);
        let at = shortest.iter().position(|time| *time == longest).unwrap_or(0);
        println!(
            "heap of {} MB, {} afterwards: {what}\n  {} slices of {WORK} values: {total:.1} ms in all, the longest {longest:.3} \
             (number {at}); the longest met {met:.3}",
            sizes.0,
            sizes.1,
            shortest.len(),
        );
    }
}

fn table(what: &str, source: &str) {
    let (mut vm, chunk) = vm(source);
    let before = vm.bytes();
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(u64::MAX >> 2), RunOutcome::Done));
    let value = run.results()[0];
    vm.end_and_keep();
    vm.pin(value);
    while !vm.collect(1 << 20) {}
    while !vm.collect(1 << 20) {}
    println!("{what:32} {:.1} MB", (vm.bytes() - before) as f64 / 1e6);
    let (mut vm, chunk) = self::vm(source);
    let begin = Instant::now();
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(u64::MAX >> 2), RunOutcome::Done));
    let ran = begin.elapsed();
    let begin = Instant::now();
    let garbage = vm.end();
    let ended = begin.elapsed();
    println!(
        "  again: run {ran:?}, end {ended:?}, parts {:?}",
        garbage.as_ref().map(sluice_lua::DiscardedRun::parts)
    );
    let begin = Instant::now();
    drop(garbage);
    println!("  freed elsewhere in {:?}", begin.elapsed());
}

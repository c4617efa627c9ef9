//! What the machine costs besides instructions: `cargo run --release -p sluice-lua --example measure`.
//!
//! A run of `return 1` from call to truncated region; slices of the collector over a heap of 100 MB; bytes of tables.

#![expect(clippy::disallowed_methods, reason = "a program for people at a terminal")]

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

/// The best of some rounds: what a run costs when nothing disturbs it, and the median of the rounds.
fn short_runs() {
    const RUNS: u32 = 100_000;
    for source in ["return 1", "return KEYS", "local a = {1, 2, 3} return #a", "return tostring(12)"] {
        let (mut vm, chunk) = vm(source);
        let mut rounds: Vec<f64> = (0..15)
            .map(|_| {
                let begin = Instant::now();
                for _ in 0..RUNS {
                    let mut run = vm.start(chunk);
                    let outcome = run.resume(1 << 30);
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

/// A library's heap of 100 MB: many tables, one of them large.
fn slices() {
    let (mut vm, chunk) = vm("local t = {} for i = 1, 700000 do t[i] = {i, 'text' .. i} end local h = {} \
         for i = 1, 300000 do h['k' .. i] = i end return {t, h}");
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(u64::MAX >> 2), RunOutcome::Done));
    let value = run.results()[0];
    vm.end_and_keep();
    vm.pin(value);
    println!("heap of {} MB", vm.bytes() >> 20);
    for work in [4096, 8192, 8192, 8192, 8192, 8192] {
        let (mut times, begin) = (Vec::new(), Instant::now());
        loop {
            let slice = Instant::now();
            let done = vm.collect(work);
            times.push(slice.elapsed().as_secs_f64() * 1e3);
            if done {
                break;
            }
        }
        let total = begin.elapsed().as_secs_f64() * 1e3;
        let (count, bytes) = (times.len(), vm.bytes() >> 20);
        let (at, longest) = times.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("slices");
        println!(
            "work {work}: {count} slices, {total:.1} ms in all, longest {longest:.3} ms, the {at}th; {bytes} MB"
        );
    }
}

fn table(what: &str, source: &str) {
    let (mut vm, chunk) = vm(source);
    let before = vm.bytes();
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(u64::MAX >> 2), RunOutcome::Done));
    let value = run.results()[0];
    vm.end_and_keep();
    vm.pin(value);
    while !vm.collect(1 << 20) {}
    while !vm.collect(1 << 20) {}
    println!("{what:32} {:.1} MB", (vm.bytes() - before) as f64 / 1e6);
    let (mut vm, chunk) = self::vm(source);
    let begin = Instant::now();
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(u64::MAX >> 2), RunOutcome::Done));
    let ran = begin.elapsed();
    let begin = Instant::now();
    let garbage = vm.end();
    let ended = begin.elapsed();
    println!(
        "  again: run {ran:?}, end {ended:?}, parts {:?}",
        garbage.as_ref().map(sluice_lua::Garbage::parts)
    );
    let begin = Instant::now();
    drop(garbage);
    println!("  freed elsewhere in {:?}", begin.elapsed());
}

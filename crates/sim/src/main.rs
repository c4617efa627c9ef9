//! `sluice-sim [--cluster | --moves] [--seed SEED] [--first SEED] [--seeds COUNT] [--until-failure]
//! [--mistake NAME]`: runs the simulation of replication, or with `--cluster` that of clusters, or with
//! `--moves` that of moves of slots. `sluice-sim --many NODES` measures a cluster of this many nodes.
//! `sluice-sim --mistakes` prints the names of the mistakes, which are deliberate errors in the code under
//! test.
//!
//! `--seed` runs one seed, with a trace of its events. Without it, `--seeds` seeds are run from
//! `--first` on; with `--until-failure`, only those up to the first that fails. The exit status is 0 if
//! no check failed.

use sluice_sim::{ClusterMet, Met, MovesMet, SimOptions, run, run_cluster, run_many, run_moves};
use std::fmt::Debug;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str| option(name).and_then(|text| text.parse::<u64>().ok());
    if let Some(name) = option("--mistake")
        && let Err(why) = make_mistake(name)
    {
        println!("{why}");
        return ExitCode::FAILURE;
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("--mistakes") {
        print_mistakes();
        return ExitCode::SUCCESS;
    }
    let first = number("--first").unwrap_or(0);
    if let Some(count) = number("--many") {
        return measure_many(usize::try_from(count).unwrap_or(usize::MAX).clamp(4, 1_999));
    }
    let end = if has("--until-failure") { SeedsEnd::AtFirstFailure } else { SeedsEnd::AtLast };
    let seeds = Seeds { one: number("--seed"), first, count: number("--seeds").unwrap_or(1000), end };
    if has("--cluster") {
        return play(&seeds, "--cluster ", run_cluster, ClusterMet::add);
    }
    if has("--moves") {
        return play(&seeds, "--moves ", run_moves, MovesMet::add);
    }
    play(&seeds, "", run, Met::add)
}

/// Measures a cluster of many nodes, and prints the expected figures beside the measured ones. The
/// progress is printed to standard error, with the seconds since the start.
fn measure_many(count: usize) -> ExitCode {
    #[allow(
        clippy::disallowed_methods,
        reason = "a measurement of minutes says to a person how long it has taken; nothing simulated sees it"
    )]
    let began = Instant::now();
    let say = |news: &str| eprintln!("{:7.1} s  {news}", began.elapsed().as_secs_f64());
    match run_many(count, 7, say) {
        Ok(figures) => {
            println!("{figures:#?}");
            println!("bytes beside the formula: {:.3}", figures.bytes_a_second / figures.bytes_by_formula);
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The seeds to run.
struct Seeds {
    /// A single seed, which is run with a trace.
    one: Option<u64>,
    first: u64,
    count: u64,
    end: SeedsEnd,
}

/// When a run of many seeds ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SeedsEnd {
    AtLast,
    AtFirstFailure,
}

/// Runs the seeds in one of the simulations; `flag` is the option that selects this simulation.
fn play<T: Default + Debug>(
    seeds: &Seeds,
    flag: &str,
    run: fn(u64, SimOptions) -> Result<T, String>,
    add: fn(&mut T, T),
) -> ExitCode {
    if let Some(seed) = seeds.one {
        let played = run(seed, SimOptions { is_traced: true, ..SimOptions::default() });
        let is_right = played.is_ok();
        match played {
            Ok(met) => println!("seed {seed}: {met:?}"),
            Err(why) => println!("seed {seed}: {why}"),
        }
        return ExitCode::from(u8::from(!is_right));
    }
    let (mut met, mut failures) = (T::default(), 0);
    for seed in seeds.first..seeds.first.saturating_add(seeds.count) {
        match run(seed, SimOptions::default()) {
            Ok(more) => add(&mut met, more),
            Err(why) => {
                failures += 1;
                println!(
                    "seed {seed}: {why}\n  again: cargo run --package sluice-sim -- {flag}--seed {seed}"
                );
                if seeds.end == SeedsEnd::AtFirstFailure {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{} seeds, {failures} failures; {met:?}", seeds.count);
    ExitCode::from(u8::from(failures > 0))
}

/// Enables the mistake of this name in every run.
#[cfg(sluice_mistakes)]
fn make_mistake(name: &str) -> Result<(), String> {
    use sluice_base::mistake::{Mistake, make};
    let mut all = Mistake::ALL.into_iter().chain(Mistake::OF_CLUSTERS).chain(Mistake::OF_MOVES);
    let found = all.find(|mistake| format!("{mistake:?}") == name);
    make(found.ok_or_else(|| {
        let (clusters, moves) = (Mistake::OF_CLUSTERS, Mistake::OF_MOVES);
        format!("no mistake is called {name}: {:?}, {clusters:?}, {moves:?}", Mistake::ALL)
    })?);
    Ok(())
}

#[cfg(not(sluice_mistakes))]
fn make_mistake(name: &str) -> Result<(), String> {
    Err(format!("{name} can be made by a build with RUSTFLAGS=\"--cfg sluice_mistakes\" alone"))
}

/// Prints the names of the mistakes, each after the simulation that is to detect it.
fn print_mistakes() {
    use sluice_base::mistake::Mistake;
    Mistake::ALL.iter().for_each(|mistake| println!("replication {mistake:?}"));
    Mistake::OF_CLUSTERS.iter().for_each(|mistake| println!("clusters {mistake:?}"));
    Mistake::OF_MOVES.iter().for_each(|mistake| println!("moves {mistake:?}"));
}

//! `sluice-sim [--seed SEED] [--first SEED] [--seeds COUNT] [--mistake NAME]`: runs the simulation.
//!
//! With `--seed` one seed, with a trace of its events. Without, so many seeds from the first one on; the exit
//! status says whether everything held.

use sluice_sim::{Met, SimOptions, run};
use std::process::ExitCode;

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
    if let Some(seed) = number("--seed") {
        return match run(seed, SimOptions { is_traced: true, ..SimOptions::default() }) {
            Ok(met) => {
                println!("seed {seed}: {met:?}");
                ExitCode::SUCCESS
            }
            Err(why) => {
                println!("seed {seed}: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let (first, count) = (number("--first").unwrap_or(0), number("--seeds").unwrap_or(1000));
    let (mut met, mut failures) = (Met::default(), 0);
    for seed in first..first.saturating_add(count) {
        match run(seed, SimOptions::default()) {
            Ok(more) => met.add(more),
            Err(why) => {
                failures += 1;
                println!("seed {seed}: {why}\n  again: cargo run --package sluice-sim -- --seed {seed}");
            }
        }
    }
    println!("{count} seeds, {failures} failures; {met:?}");
    ExitCode::from(u8::from(failures > 0))
}

/// Has the mistake of this name be made in every run.
#[cfg(sluice_mistakes)]
fn make_mistake(name: &str) -> Result<(), String> {
    use sluice_base::mistake::{Mistake, make};
    let found = Mistake::ALL.into_iter().find(|mistake| format!("{mistake:?}") == name);
    make(found.ok_or_else(|| format!("no mistake is called {name}: {:?}", Mistake::ALL))?);
    Ok(())
}

#[cfg(not(sluice_mistakes))]
fn make_mistake(name: &str) -> Result<(), String> {
    Err(format!("{name} can be made by a build with RUSTFLAGS=\"--cfg sluice_mistakes\" alone"))
}

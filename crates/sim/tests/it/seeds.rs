//! What the first seeds come to meet must hold: 150 of them in the tests, a thousand in `cargo xtask ci`,
//! which sets `SLUICE_SIM_SEEDS`; `cargo xtask deep sim` runs ten thousand.

use sluice_sim::{Met, SimOptions, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many without `SLUICE_SIM_SEEDS`.
const SEEDS: u64 = 150;

#[test]
fn histories_promises_and_disks_hold_whatever_goes_wrong() {
    let seeds = std::env::var("SLUICE_SIM_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let (next, all) = (AtomicU64::new(0), Mutex::new((Met::default(), Vec::new())));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Relaxed: each number is taken once, and nothing else is passed on by it.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let found = run(seed, SimOptions::default());
                    let (met, failures) = &mut *all.lock().unwrap();
                    match found {
                        Ok(more) => met.add(more),
                        Err(why) => {
                            failures.push(format!("{why}\n  cargo run --package sluice-sim -- --seed {seed}"))
                        }
                    }
                }
            });
        }
    });
    let (met, failures) = all.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {seeds} seeds fail:\n{}", failures.len(), failures.join("\n"));
    // A run in which nothing happens shows nothing. The bounds are those of a thousand seeds.
    let at_least = |met: u64, of_thousand: u64| met * 1000 > of_thousand * seeds;
    let Met { syncs, continued, failovers, crashes, waits, aof_waits, compared, .. } = met;
    assert!(at_least(syncs, 1000) && at_least(continued, 1000), "{met:?}");
    assert!(at_least(failovers, 200) && at_least(crashes, 1000), "{met:?}");
    assert!(at_least(waits, 1000) && at_least(aof_waits, 500) && at_least(compared, 100_000), "{met:?}");
    assert!(at_least(met.disk_faults, 1500) && at_least(met.dual_syncs, 500), "{met:?}");
    assert!(at_least(met.handed_over, 150) && at_least(met.not_handed_over, 450), "{met:?}");
    assert!(at_least(met.resumed, 450), "{met:?}");
    assert!(at_least(met.drilled, 150) && at_least(met.slow_steps, 1500), "{met:?}");
    assert!(at_least(met.runs, 10_000) && at_least(met.stood_still, 50_000), "{met:?}");
    assert!(at_least(met.ended, 2000) && at_least(met.left, 400), "{met:?}");
    assert!(at_least(met.killed, 30) && at_least(met.unkillable, 400), "{met:?}");
    assert!(at_least(met.lost_halves, 200) && at_least(met.shutdowns, 300), "{met:?}");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..5 {
        let twice = [run(seed, SimOptions::default()), run(seed, SimOptions::default())];
        assert_eq!(format!("{:?}", twice[0]), format!("{:?}", twice[1]), "seed {seed}");
    }
}

#[test]
fn a_sentinel_that_promotes_the_replica_with_the_lowest_offset_is_found() {
    let options = SimOptions { promotes_lowest: true, ..SimOptions::default() };
    let found = (0..300).find(|seed| run(*seed, options).is_err_and(|why| why.contains("is promoted")));
    assert!(found.is_some(), "no seed finds it");
}

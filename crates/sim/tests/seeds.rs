//! What a thousand seeds come to meet must hold; `cargo xtask deep sim` runs ten thousand.
#![allow(missing_docs)]

use sluice_sim::{Met, SimOptions, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 1000;

#[test]
fn histories_promises_and_disks_hold_whatever_goes_wrong() {
    let (next, all) = (AtomicU64::new(0), Mutex::new((Met::default(), Vec::new())));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Relaxed: each number is taken once, and nothing else is passed on by it.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
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
    assert!(failures.is_empty(), "{} of {SEEDS} seeds fail:\n{}", failures.len(), failures.join("\n"));
    // A run in which nothing happens shows nothing.
    let Met { syncs, continued, failovers, crashes, waits, aof_waits, compared, .. } = met;
    assert!(syncs > 1000 && continued > 1000 && failovers > 200 && crashes > 1000, "{met:?}");
    assert!(waits > 1000 && aof_waits > 500 && compared > 100_000, "{met:?}");
    assert!(met.disk_faults > 1500 && met.dual_syncs > 500, "{met:?}");
    assert!(met.handed_over > 150 && met.not_handed_over > 500 && met.resumed > 500, "{met:?}");
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

//! Runs the simulation of replication with the first seeds; all checks must pass. There are 150 seeds in the
//! tests and a thousand in `cargo xtask ci`, which sets `SLUICE_SIM_SEEDS`; `cargo xtask deep sim` runs ten
//! thousand.

use crate::first_seeds::first_seeds;
use sluice_sim::{Met, SimOptions, run};

/// Number of seeds if `SLUICE_SIM_SEEDS` is not set.
const SEEDS: u64 = 150;

#[test]
fn histories_promises_and_disks_hold_whatever_goes_wrong() {
    let run_one = |seed| {
        run(seed, SimOptions::default())
            .map_err(|why| format!("{why}\n  cargo run --package sluice-sim -- --seed {seed}"))
    };
    let (seeds, met) = first_seeds(("SLUICE_SIM_SEEDS", SEEDS), run_one, Met::add);
    // A run in which few events occur tests little. The bounds are for a thousand seeds.
    let at_least = |met: u64, of_thousand: u64| met * 1000 > of_thousand * seeds;
    let Met { syncs, continued, failovers, crashes, waits, aof_waits, compared, .. } = met;
    assert!(at_least(syncs, 1000) && at_least(continued, 1000), "{met:?}");
    assert!(at_least(failovers, 200) && at_least(crashes, 1000), "{met:?}");
    assert!(at_least(waits, 1000) && at_least(aof_waits, 500) && at_least(compared, 100_000), "{met:?}");
    assert!(at_least(met.disk_faults, 1500) && at_least(met.dual_syncs, 500), "{met:?}");
    assert!(at_least(met.handed_over, 150) && at_least(met.not_handed_over, 450), "{met:?}");
    assert!(at_least(met.resumed, 450), "{met:?}");
    assert!(at_least(met.drilled, 150) && at_least(met.slow_steps, 1500), "{met:?}");
    assert!(at_least(met.runs, 10_000) && at_least(met.suspensions, 50_000), "{met:?}");
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

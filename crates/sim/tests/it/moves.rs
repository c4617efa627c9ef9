//! Runs simulated moves of slots with the first seeds; all checks must pass. There are 30 seeds in the tests,
//! or as many as `SLUICE_SIM_MOVES` says; `cargo xtask deep sim-moves` runs two thousand.

use crate::first_seeds::first_seeds;
use sluice_sim::{MovesMet, SimOptions, run_moves};

/// Number of seeds if `SLUICE_SIM_MOVES` is not set.
const SEEDS: u64 = 30;

#[test]
fn slots_move_and_keep_what_was_written_whatever_goes_wrong() {
    let run = |seed| {
        run_moves(seed, SimOptions::default())
            .map_err(|why| format!("{why}\n  cargo run --package sluice-sim -- --moves --seed {seed}"))
    };
    let (seeds, met) = first_seeds(("SLUICE_SIM_MOVES", SEEDS), run, MovesMet::add);
    // A run in which few events occur tests little. The bounds are for a thousand seeds.
    let at_least = |met: u64, of_thousand: u64| met * 1000 > of_thousand * seeds;
    assert!(at_least(met.begun, 6_000) && at_least(met.succeeded, 3_000), "{met:?}");
    assert!(at_least(met.failed, 1_500) && at_least(met.cancelled, 200), "{met:?}");
    assert!(at_least(met.forgotten, 100) && at_least(met.refused, 500), "{met:?}");
    assert!(at_least(met.confirmed, 500_000) && at_least(met.redirected, 50_000), "{met:?}");
    assert!(at_least(met.crashes, 1_000) && at_least(met.cuts, 500), "{met:?}");
    assert!(at_least(met.kills, 2_000) && at_least(met.killed_moves, 500), "{met:?}");
    assert!(at_least(met.stalls, 800) && at_least(met.node_file_faults, 800), "{met:?}");
    assert!(at_least(met.flushes, 300) && at_least(met.rewrites, 2_000), "{met:?}");
    assert!(at_least(met.failovers, 500) && at_least(met.promotions, 200), "{met:?}");
    assert!(at_least(met.calms, 200), "{met:?}");
    // The writes that are lost for an excused reason must be less than a quarter of the confirmed writes.
    let excused = met.lost_by_failover + met.lost_by_flush + met.lost_by_claims + met.lost_by_base;
    assert!(excused * 4 < met.confirmed, "{met:?}");
}

#[test]
fn moves_are_a_function_of_their_seed() {
    for seed in [0, 3] {
        let twice = [run_moves(seed, SimOptions::default()), run_moves(seed, SimOptions::default())];
        assert_eq!(format!("{:?}", twice[0]), format!("{:?}", twice[1]), "seed {seed}");
    }
}

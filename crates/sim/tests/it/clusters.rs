//! Runs simulated clusters with the first seeds; all checks must pass. There are 60 seeds in the tests and
//! 500 in `cargo xtask ci`, which sets `SLUICE_SIM_CLUSTERS`; `cargo xtask deep sim-clusters` runs a hundred
//! thousand.

use crate::first_seeds::first_seeds;
use sluice_sim::{ClusterMet, SimOptions, run_cluster};

/// Number of seeds if `SLUICE_SIM_CLUSTERS` is not set.
const SEEDS: u64 = 60;

#[test]
fn clusters_agree_and_keep_their_word_whatever_goes_wrong() {
    let run = |seed| {
        run_cluster(seed, SimOptions::default())
            .map_err(|why| format!("{why}\n  cargo run --package sluice-sim -- --cluster --seed {seed}"))
    };
    let (seeds, met) = first_seeds(("SLUICE_SIM_CLUSTERS", SEEDS), run, ClusterMet::add);
    // A run in which few events occur tests little. The bounds are for a thousand seeds.
    let at_least = |met: u64, of_thousand: u64| met * 1000 > of_thousand * seeds;
    assert!(at_least(met.messages, 2_000_000), "{met:?}");
    assert!(at_least(met.crashes, 3_000) && at_least(met.cuts, 1_500), "{met:?}");
    assert!(at_least(met.kills, 2_000) && at_least(met.freezes, 800), "{met:?}");
    assert!(at_least(met.failed_writes, 150) && at_least(met.damaged_files, 500), "{met:?}");
    assert!(at_least(met.wall_jumps, 800) && at_least(met.moves, 600), "{met:?}");
    assert!(at_least(met.garbage, 250) && at_least(met.orders, 4_000), "{met:?}");
    assert!(at_least(met.forgotten, 150) && at_least(met.contested, 400), "{met:?}");
    assert!(at_least(met.resolved, 500) && at_least(met.repairs, 400), "{met:?}");
    assert!(at_least(met.won, 200) && at_least(met.votes, 500), "{met:?}");
    assert!(at_least(met.won_by_ours, 60) && at_least(met.restarts, 500), "{met:?}");
    assert!(at_least(met.fails, 4_000) && at_least(met.updates, 500), "{met:?}");
    assert!(at_least(met.pauses, 100) && at_least(met.emptied, 60), "{met:?}");
    assert!(at_least(met.agreed, 450) && at_least(met.drills, 350), "{met:?}");
    assert!(at_least(met.calms, 90) && at_least(met.scenes, 350), "{met:?}");
    assert!(at_least(met.resets, 60) && at_least(met.migrated, 10), "{met:?}");
    assert!(at_least(met.agreed_failovers, 80) && at_least(met.copies, 400), "{met:?}");
}

#[test]
fn a_cluster_is_a_function_of_its_seed() {
    for seed in [0, 6] {
        let twice = [run_cluster(seed, SimOptions::default()), run_cluster(seed, SimOptions::default())];
        assert_eq!(format!("{:?}", twice[0]), format!("{:?}", twice[1]), "seed {seed}");
    }
}

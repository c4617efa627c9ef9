//! Each mistake that a build with `--cfg sluice_mistakes` can make is found by one of the first seeds:
//! `cargo xtask deep sim-mistakes`.

use sluice_base::mistake::{Mistake, make};
use sluice_sim::{SimOptions, run, run_cluster};

/// So many seeds have to be enough.
const SEEDS: u64 = 1000;

/// So many seeds of clusters have to be enough.
const CLUSTERS: u64 = 150;

#[test]
fn every_mistake_is_found() {
    let mut not_found = Vec::new();
    for mistake in Mistake::ALL {
        if !is_found(mistake, SEEDS, |seed| run(seed, SimOptions::default()).map(|_| ())) {
            not_found.push(mistake);
        }
    }
    for mistake in Mistake::OF_CLUSTERS {
        if !is_found(mistake, CLUSTERS, |seed| run_cluster(seed, SimOptions::default()).map(|_| ())) {
            not_found.push(mistake);
        }
    }
    make(Mistake::None);
    assert!(not_found.is_empty(), "not found: {not_found:?}");
}

fn is_found(mistake: Mistake, seeds: u64, run: impl Fn(u64) -> Result<(), String>) -> bool {
    make(mistake);
    let found = (0..seeds).find_map(|seed| run(seed).err().map(|why| (seed, why)));
    if let Some((seed, why)) = &found {
        println!("{mistake:?}: seed {seed}: {why}");
    }
    found.is_some()
}

//! Each mistake that a build with `--cfg sluice_mistakes` can make is found by one of the first seeds:
//! `cargo xtask deep sim-mistakes`.

use sluice_base::mistake::{Mistake, make};
use sluice_sim::{SimOptions, run};

/// So many seeds have to be enough.
const SEEDS: u64 = 1000;

#[test]
fn every_mistake_is_found() {
    let mut not_found = Vec::new();
    for mistake in Mistake::ALL {
        make(mistake);
        let found = (0..SEEDS).find_map(|seed| run(seed, SimOptions::default()).err().map(|why| (seed, why)));
        match found {
            Some((seed, why)) => println!("{mistake:?}: seed {seed}: {why}"),
            None => not_found.push(mistake),
        }
    }
    make(Mistake::None);
    assert!(not_found.is_empty(), "not found: {not_found:?}");
}

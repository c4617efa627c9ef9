//! Runs the first seeds of a simulation, on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs the seeds from 0 on, as many as the environment variable says, or else the default number.
/// Returns the number of seeds, and the sum, by `add`, of the counts that `run` returns for each seed.
/// An error of `run` is the reason for which a seed fails.
///
/// # Panics
/// If a seed fails, with the reasons of all seeds that fail.
pub fn first_seeds<M: Default + Send>(
    (variable, by_default): (&str, u64),
    run: impl Fn(u64) -> Result<M, String> + Sync,
    add: fn(&mut M, M),
) -> (u64, M) {
    let seeds = std::env::var(variable).map_or(by_default, |text| text.parse().unwrap());
    let (next, all) = (AtomicU64::new(0), Mutex::new((M::default(), Vec::new())));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Relaxed: each number is taken once, and no other data are shared through it.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let found = run(seed);
                    let (met, failures) = &mut *all.lock().unwrap();
                    match found {
                        Ok(more) => add(met, more),
                        Err(why) => failures.push(why),
                    }
                }
            });
        }
    });
    let (met, failures) = all.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {seeds} seeds fail:\n{}", failures.len(), failures.join("\n"));
    (seeds, met)
}

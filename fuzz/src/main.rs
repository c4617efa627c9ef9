//! Mutation fuzzing on the stable toolchain: `sluice-fuzz TARGET SEED SECONDS CRASH_FILE [careful]`.
//!
//! `cargo xtask fuzz` starts this program, limits its memory and collects its crashes. The inputs are a
//! function only of the target, its corpus and the seed, so a run that died can be repeated. With `careful`,
//! every input is written to the crash file before it is tried, and the last one is still there after a stack
//! overflow, an abort, or a kill.
//!
//! Invariants: (1) a panic ends the run and leaves its input in the crash file; (2) an input
//! that takes longer than [`INPUT_SECONDS_MAX`] is a failure like a panic; (3) time only
//! determines the number of inputs.

mod mutate;
mod targets;
mod tls;
mod tls_client;
mod users;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use mutate::Corpus;
use targets::{TARGETS, Target};

/// Maximum time for one input.
const INPUT_SECONDS_MAX: u64 = 10;

/// Number of inputs between two readings of the clock.
const BURST: u64 = 64;

/// The options of the command line.
struct Run<'a> {
    target: &'static Target,
    seed: u64,
    seconds: u64,
    crash_file: &'a Path,
    writes: Writes,
}

/// The inputs that are written to the crash file.
#[derive(PartialEq)]
enum Writes {
    /// Only inputs that fail.
    Failing,
    /// Every input, before it is tried.
    Every,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "list") {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    if let [replay, name, file] = arguments.as_slice()
        && replay == "replay"
    {
        return try_file(name, Path::new(file));
    }
    match parse(&arguments) {
        Some(run) => fuzz(&run),
        None => {
            eprintln!(
                "usage: sluice-fuzz list | replay TARGET FILE | TARGET SEED SECONDS CRASH_FILE [careful]"
            );
            ExitCode::from(2)
        }
    }
}

/// Parses the command line of a run.
fn parse(arguments: &[String]) -> Option<Run<'_>> {
    let [name, seed, seconds, crash_file, rest @ ..] = arguments else { return None };
    Some(Run {
        target: find(name)?,
        seed: seed.parse().ok()?,
        seconds: seconds.parse().ok()?,
        crash_file: Path::new(crash_file),
        writes: if rest.is_empty() { Writes::Failing } else { Writes::Every },
    })
}

/// The target with that name.
fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Tries one input from a file.
fn try_file(name: &str, file: &Path) -> ExitCode {
    let (Some(target), Ok(input)) = (find(name), std::fs::read(file)) else {
        eprintln!("no target {name}, or {} cannot be read", file.display());
        return ExitCode::from(2);
    };
    (target.run)(&input);
    println!("{name}: {} bytes pass", input.len());
    ExitCode::SUCCESS
}

/// Runs a target until the time is over or an input fails.
fn fuzz(run: &Run<'_>) -> ExitCode {
    let mut corpus = corpus(run.target);
    let mut rng = Rng::new(run.seed);
    let tried = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&tried, &done, run.target.name));
        let code = try_inputs(run, &mut corpus, &mut rng, &tried);
        done.store(1, Ordering::Relaxed);
        code
    })
}

/// The seeds of the target: its own and those in its folder.
fn corpus(target: &Target) -> Corpus {
    let mut seeds: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.sort();
    seeds.extend(paths.iter().filter_map(|path| std::fs::read(path).ok()));
    Corpus::new(seeds)
}

/// Tries inputs until the time is over or one fails; the seeds are tried even if the time is over.
#[expect(
    clippy::disallowed_methods,
    reason = "a fuzzing run is bounded by time; its inputs are not a function of it"
)]
fn try_inputs(run: &Run<'_>, corpus: &mut Corpus, rng: &mut Rng, tried: &AtomicU64) -> ExitCode {
    let end = Instant::now() + Duration::from_secs(run.seconds);
    let seeds = corpus.seeds.len() as u64;
    for count in 0.. {
        if count % BURST == 0 && Instant::now() >= end && count >= seeds {
            break;
        }
        let input = match usize::try_from(count).ok().and_then(|index| corpus.seeds.get(index)) {
            Some(seed) => seed.clone(),
            None => corpus.mutate(rng, run.target.words),
        };
        if run.writes == Writes::Every {
            let _unwritable = std::fs::write(run.crash_file, &input);
        }
        if catch_unwind(AssertUnwindSafe(|| (run.target.run)(&input))).is_err() {
            let _unwritable = std::fs::write(run.crash_file, &input);
            println!(
                "{}: input {count} of seed {} fails: {}",
                run.target.name,
                run.seed,
                input.escape_ascii()
            );
            return ExitCode::FAILURE;
        }
        tried.store(count + 1, Ordering::Relaxed);
    }
    println!("{}: {} inputs pass, seed {}", run.target.name, tried.load(Ordering::Relaxed), run.seed);
    ExitCode::SUCCESS
}

/// Ends the process when one input takes too long.
fn watch(tried: &AtomicU64, done: &AtomicU64, name: &str) {
    let (mut last, mut waits) = (u64::MAX, 0);
    // Only the fuzzing thread writes `tried` and `done`. Relaxed ordering suffices, because the numbers order
    // nothing else.
    while done.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(20));
        let now = tried.load(Ordering::Relaxed);
        waits = if now == last { waits + 1 } else { 0 };
        last = now;
        if waits > INPUT_SECONDS_MAX * 50 {
            println!("{name}: input {now} takes longer than {INPUT_SECONDS_MAX} s");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_base::Rng;

    use super::{TARGETS, corpus};

    #[test]
    fn a_seed_gives_the_same_inputs_again() {
        let inputs = || {
            let (mut corpus, mut rng) = (corpus(&TARGETS[0]), Rng::new(7));
            (0..500).map(|_| corpus.mutate(&mut rng, TARGETS[0].words)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(), inputs());
    }

    #[test]
    fn every_target_takes_its_seeds_and_some_mutants() {
        for target in TARGETS.iter().filter(|target| !target.name.starts_with("canary")) {
            let (mut corpus, mut rng) = (corpus(target), Rng::new(1));
            corpus.seeds.iter().for_each(|seed| (target.run)(seed));
            (0..500).for_each(|_| (target.run)(&corpus.mutate(&mut rng, target.words)));
        }
    }
}

//! `ci`: the checks that every change must pass. The tests are in `test.rs`, the long runs in `deep.rs`.
//!
//! Invariants: (1) `ci` with the tests takes less than thirty minutes on two processors, so each step
//! prints its time; (2) a step that lacks an external tool says so and is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Arguments;
use crate::binaries::{PEER_VARIABLE, build_checked_server, build_server, peer_server};
use crate::error::Result;
use crate::histories::{self, Histories};
use crate::shell::{self, Ran, Steps};
use crate::{clients, differential, fuzz, test, tidy};

/// Number of commands of the differential test.
const DIFFERENTIAL_COMMANDS: u64 = 50_000;
/// Number of commands of each slower differential test: with append-only files that are loaded after each
/// stream, with each command held to the keys that it declares, and with both servers as clusters.
const DIFFERENTIAL_COMMANDS_SLOW: u64 = 10_000;
/// Seed of the differential test, fixed so that a new difference is caused by the change. `deep` and runs
/// by hand use other seeds.
const DIFFERENTIAL_SEED: u64 = 7;

/// Seconds of fuzzing per target, and for all targets together.
const FUZZ_SECONDS: [u64; 2] = [20, 120];

/// Number of seeds of the simulation of replication, from the first seed on; the tests use fewer, `deep`
/// more.
const SIM_SEEDS: u64 = 600;
/// Number of seeds of the simulation of clusters, from the first seed on.
const CLUSTER_SEEDS: u64 = 300;

/// Number of faults in the histories of real clusters, for all histories together; three histories run at a
/// time. `HISTORY_SEED` is the seed of the first history.
const HISTORY_FAULTS: u64 = 20;
const HISTORY_SEED: u64 = 1;
/// Number of moves of slots between real processes, with one fault each.
const MOVE_FAULTS: u64 = 4;

/// Targets for which the drivers of the event loop are compiled, but never run.
const OTHER_SYSTEMS: [&str; 2] = ["x86_64-unknown-freebsd", "x86_64-apple-darwin"];

/// Every check that a change must pass. `--no-test` leaves out the steps of `test`, for callers that have
/// just run it.
pub(crate) fn ci(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let without_tests = arguments.flag("--no-test");
    arguments.words()?;
    let mut steps = Steps::new();
    steps.step("format", || shell::pass(shell::cargo().args(["fmt", "--all", "--check"])));
    steps.step("clippy", clippy);
    steps.step("tidy", || tidy::tidy(&[]).map(|()| Ran::Passed));
    if !without_tests {
        steps.step("test", test::workspace);
    }
    steps
        .step("generated files", || crate::generate::generate(&["--check".to_owned()]).map(|()| Ran::Passed));
    steps.step("doc", doc);
    steps.step("other systems", other_systems);
    steps.step("probe", crate::probe::run);
    steps.step("loom", run_loom);
    steps.step("fuzz", || fuzz::smoke(shell::unix_seconds(), FUZZ_SECONDS));
    steps.step("simulation", simulation);
    // This step uses the server that the tests have built, because an optimised build only for this step
    // would take both processors four minutes. `deep` compares the release.
    steps.step("differential", || {
        differential_of(test::server, DIFFERENTIAL_COMMANDS, DIFFERENTIAL_SEED, &[])
    });
    steps.step("differential, append-only files", || {
        differential_of(test::server, DIFFERENTIAL_COMMANDS_SLOW, DIFFERENTIAL_SEED, &["--append-only"])
    });
    steps.step("differential, declared keys", || {
        differential_of(test::server, DIFFERENTIAL_COMMANDS_SLOW, DIFFERENTIAL_SEED, &["--checked"])
    });
    steps.step("differential, clusters", || {
        differential_of(
            test::server,
            DIFFERENTIAL_COMMANDS_SLOW,
            DIFFERENTIAL_SEED,
            &["--cluster", "--no-metadata"],
        )
    });
    steps.step("histories", || {
        histories::run(test::server()?.as_deref(), &Histories::of_ours(HISTORY_SEED, HISTORY_FAULTS))
    });
    steps.step("histories, moves", || {
        histories::run(test::server()?.as_deref(), &Histories::of_moves(HISTORY_SEED, MOVE_FAULTS))
    });
    if !without_tests {
        steps.step("clients", || clients::run(&[]));
    }
    steps.finish()
}

/// Model checks: every crate that has `tests/loom_*.rs`.
pub(crate) fn loom(arguments: &[String]) -> Result<()> {
    Arguments::new(arguments).words()?;
    run_loom().map(drop)
}

/// Runs clippy on all targets, with warnings as errors.
fn clippy() -> Result<Ran> {
    let lint = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    shell::pass(shell::cargo().args(lint))
}

/// Runs the simulations, optimised, with more seeds than in the tests. They are built with the profile
/// `checked`, with which the fuzzer was built before.
fn simulation() -> Result<Ran> {
    let mut test = shell::cargo();
    test.env("SLUICE_SIM_SEEDS", SIM_SEEDS.to_string());
    test.env("SLUICE_SIM_CLUSTERS", CLUSTER_SEEDS.to_string());
    shell::pass(test.args([
        "test",
        "--profile",
        "checked",
        "--package",
        "sluice-sim",
        "--test",
        "it",
        "--",
        "--quiet",
    ]))
}

/// Checks that the documentation builds without a broken link.
fn doc() -> Result<Ran> {
    let mut doc = shell::cargo();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    shell::pass(doc.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]))
}

/// Checks that the code for other systems compiles for them; it cannot be run here.
fn other_systems() -> Result<Ran> {
    let mut ran = Ran::Skipped;
    for system in OTHER_SYSTEMS {
        let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", system]).output()?;
        if !Path::new(String::from_utf8_lossy(&folder.stdout).trim()).is_dir() {
            println!("other systems: skipped: {system} is not installed (rustup target add {system})");
            continue;
        }
        let lint = ["clippy", "--quiet", "--package", "sluice-evloop", "--target", system];
        shell::run(shell::cargo().args(lint).args(["--", "-D", "warnings"]))?;
        ran = Ran::Passed;
    }
    Ok(ran)
}

/// The differential test with a release build of our server; skipped without a reference or a server of ours.
pub(crate) fn differential_run(commands: u64, seed: u64, more: &[&str]) -> Result<Ran> {
    differential_of(build_server, commands, seed, more)
}

/// The differential test with a debug build of our server, which checks that each command accesses only
/// the keys that it declares.
pub(crate) fn differential_checked(commands: u64, seed: u64, more: &[&str]) -> Result<Ran> {
    differential_of(build_checked_server, commands, seed, &[more, &["--checked"]].concat())
}

fn differential_of(
    build: fn() -> Result<Option<PathBuf>>,
    commands: u64,
    seed: u64,
    more: &[&str],
) -> Result<Ran> {
    let Some(peer) = peer_server() else {
        println!("differential: skipped: {PEER_VARIABLE} names no reference server");
        return Ok(Ran::Skipped);
    };
    let Some(ours) = build()? else {
        println!("differential: skipped: the workspace has no server yet");
        return Ok(Ran::Skipped);
    };
    let words = [
        "--ours",
        &ours.to_string_lossy(),
        "--peer",
        &peer.to_string_lossy(),
        "--commands",
        &commands.to_string(),
        "--seed",
        &seed.to_string(),
    ]
    .map(str::to_string);
    let more: Vec<String> = more.iter().map(|word| (*word).to_string()).collect();
    differential::differential(&[&words[..], &more].concat()).map(|()| Ran::Passed)
}

/// The environment variable that names a deliberate mistake, which a crate's build then contains: see
/// `crates/queue/src/primitive.rs`.
pub(crate) const MUTANT_VARIABLE: &str = "SLUICE_MUTANT";

/// Runs the loom tests of every crate that has them.
fn run_loom() -> Result<Ran> {
    let crates = crates_with(|folder| has_loom_tests(&folder.join("tests")))?;
    if crates.is_empty() {
        println!("loom: skipped: no crate has tests/loom_*.rs");
        return Ok(Ran::Skipped);
    }
    for name in crates {
        shell::run(&mut loom_test(&name))?;
    }
    Ok(Ran::Passed)
}

/// The command that runs the loom tests of a crate, without a deliberate mistake.
pub(crate) fn loom_test(name: &str) -> Command {
    let mut test = shell::cargo();
    test.env("RUSTFLAGS", "--cfg loom").env_remove(MUTANT_VARIABLE);
    // Thin LTO is off, because it would link the checker again into every test of every mutant, which takes
    // a minute each instead of seconds.
    test.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_DEBUG", "none")]);
    test.arg("test").arg("--target-dir").arg(shell::target_dir().join("loom"));
    test.args(["--release", "--quiet", "--package", &format!("sluice-{name}"), "--test", "loom_*"]);
    test
}

/// Whether a `tests/` folder holds model checks.
fn has_loom_tests(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("loom_"))
}

/// Names of the folders under `crates/` for which `test` holds, sorted.
pub(crate) fn crates_with(test: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(shell::root().join("crates"))? {
        let path = entry?.path();
        if test(&path) {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

//! The collections of checks: `ci` before every change is taken, `test` for everybody, `deep` for the long runs.
//!
//! Invariants: (1) `ci` stays below thirty minutes on two processors, so each step prints its time; (2) what a step
//! needs from outside and does not find, it says and skips; (3) a deep run is recorded with its commit when it passes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Arguments;
use crate::shell::{self, Ran, Steps};
use crate::{Result, clients, conformance, differential, fuzz, tidy};

/// Names the reference server's binary.
pub(crate) const PEER_VARIABLE: &str = "SLUICE_PEER_SERVER";

/// Commands of the differential test in `ci`, and for each seed in `deep`.
const DIFFERENTIAL_COMMANDS: [u64; 2] = [50_000, 1_000_000];

/// Commands of the same in `ci`, and for each way in `deep`, where append-only files are loaded again behind each stream.
const DIFFERENTIAL_COMMANDS_LOGS: [u64; 2] = [10_000, 200_000];

/// Commands of the same in `ci` and in `deep`, where each command is held to the keys that it declares.
const DIFFERENTIAL_COMMANDS_CHECKED: [u64; 2] = [10_000, 200_000];

/// Commands in each way of [`ARMS`].
const DIFFERENTIAL_COMMANDS_ARM: u64 = 200_000;
/// Seed of the differential test in `ci`: what differs is then the change's doing. New seeds are for `deep`, and for runs by hand.
const DIFFERENTIAL_SEED: u64 = 7;
/// Seeds of the differential test in `deep`.
const DIFFERENTIAL_SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

/// Seconds of fuzzing in `ci`: per target, and together.
const FUZZ_SECONDS_CI: [u64; 2] = [20, 180];

/// The same in `deep`.
const FUZZ_SECONDS_DEEP: [u64; 2] = [600, 7200];

/// Systems whose drivers of the event loop are compiled and never run.
const OTHER_SYSTEMS: [&str; 2] = ["x86_64-unknown-freebsd", "x86_64-apple-darwin"];

/// Where `deep` notes what passed when.
const RECORD: &str = "docs/deep-runs.toml";

/// Every check that a change must pass. `--no-test` leaves out what `test` runs, for callers that have just run it.
pub(crate) fn ci(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let without_tests = arguments.flag("--no-test");
    arguments.words()?;
    let mut steps = Steps::new();
    steps.step("format", || shell::pass(shell::cargo().args(["fmt", "--all", "--check"])));
    steps.step("clippy", clippy);
    steps.step("tidy", || tidy::tidy(&[]).map(|()| Ran::Passed));
    if !without_tests {
        steps.step("test", workspace_tests);
    }
    steps
        .step("generated files", || crate::generate::generate(&["--check".to_owned()]).map(|()| Ran::Passed));
    steps.step("doc", doc);
    steps.step("other systems", other_systems);
    steps.step("probe", crate::probe::run);
    steps.step("loom", run_loom);
    steps.step("fuzz", || fuzz::smoke(FUZZ_SECONDS_CI[0], FUZZ_SECONDS_CI[1]));
    steps.step("differential", || differential_run(DIFFERENTIAL_COMMANDS[0], DIFFERENTIAL_SEED, &[]));
    steps.step("differential, append-only files", || {
        differential_run(DIFFERENTIAL_COMMANDS_LOGS[0], DIFFERENTIAL_SEED, &["--append-only"])
    });
    steps.step("differential, declared keys", || {
        differential_checked(DIFFERENTIAL_COMMANDS_CHECKED[0], DIFFERENTIAL_SEED, &[])
    });
    if !without_tests {
        steps.step("clients", || clients::run(&[]));
    }
    steps.finish()
}

/// What the README's test command runs: the workspace's tests, then the client programs against the built server.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    Arguments::new(arguments).words()?;
    let mut steps = Steps::new();
    steps.step("test", workspace_tests);
    steps.step("clients", || clients::run(&[]));
    steps.finish()
}

/// A long run: its name and what it does.
type LongRun = (&'static str, fn() -> Result<Ran>);

/// The long runs. Words choose among them; without words all run.
pub(crate) fn deep(arguments: &[String]) -> Result<()> {
    let wanted = Arguments::new(arguments).words()?;
    let runs: [LongRun; 14] = [
        ("differential", || differential_deep()),
        ("differential-arms", differential_arms),
        ("differential-append-only", differential_append_only),
        ("differential-checked", || differential_checked(DIFFERENTIAL_COMMANDS_CHECKED[1], 1, &[])),
        ("differential-canary", differential_canary),
        ("fuzz", || fuzz::smoke(FUZZ_SECONDS_DEEP[0], FUZZ_SECONDS_DEEP[1])),
        ("valgrind", valgrind),
        ("loom-mutants", loom_mutants),
        ("races", races),
        ("sim", sim),
        ("sim-mistakes", sim_mistakes),
        ("matrix", matrix),
        ("conformance", || conformance::run(&[])),
        ("conformance-io-threads", || conformance::run(&["--io-threads".into()])),
    ];
    if let Some(unknown) = wanted.iter().find(|word| !runs.iter().any(|(name, _)| name == word)) {
        return Err(format!("no deep run is called {unknown:?}").into());
    }
    let mut steps = Steps::new();
    for (name, run) in
        runs.into_iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name))
    {
        if steps.step(name, run) == Some(Ran::Passed) {
            record(name)?;
        }
    }
    steps.finish()
}

/// Model checks: every crate that has `tests/loom_*.rs`.
pub(crate) fn loom(arguments: &[String]) -> Result<()> {
    Arguments::new(arguments).words()?;
    run_loom().map(drop)
}

/// The lints, all targets, warnings refused.
fn clippy() -> Result<Ran> {
    let lint = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    shell::pass(shell::cargo().args(lint))
}

/// All tests of the workspace. Cargo says what it builds and runs; the tests themselves are a dot each.
fn workspace_tests() -> Result<Ran> {
    shell::pass(shell::cargo().args(["test", "--workspace", "--no-fail-fast", "--", "--quiet"]))
}

/// The documentation builds without a broken link.
fn doc() -> Result<Ran> {
    let mut doc = shell::cargo();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    shell::pass(doc.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]))
}

/// What is written for other systems compiles there; nobody here can run it.
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

/// The built server in release form, with the check tools beside it, or `None` while the workspace has no server.
pub(crate) fn build_server() -> Result<Option<PathBuf>> {
    if !shell::root().join("crates/server/Cargo.toml").exists() {
        return Ok(None);
    }
    shell::run(shell::cargo().args([
        "build",
        "--release",
        "--package",
        "sluice-server",
        "--package",
        "sluice-check",
    ]))?;
    Ok(Some(shell::target_dir().join("release/sluice-server")))
}

/// The built server with debug assertions, or `None` while the workspace has no server.
pub(crate) fn build_checked_server() -> Result<Option<PathBuf>> {
    if !shell::root().join("crates/server/Cargo.toml").exists() {
        return Ok(None);
    }
    shell::run(shell::cargo().args(["build", "--package", "sluice-server", "--package", "sluice-check"]))?;
    Ok(Some(shell::target_dir().join("debug/sluice-server")))
}

/// The reference server's binary, where the environment names one.
pub(crate) fn peer_server() -> Option<PathBuf> {
    std::env::var_os(PEER_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The differential test with defaults; skips without a reference or without our server.
fn differential_run(commands: u64, seed: u64, more: &[&str]) -> Result<Ran> {
    differential_of(build_server, commands, seed, more)
}

/// The same with our server as a build with debug assertions: each command is held to the keys that it declares.
fn differential_checked(commands: u64, seed: u64, more: &[&str]) -> Result<Ran> {
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

/// The differential test with every seed of [`DIFFERENTIAL_SEEDS`].
fn differential_deep() -> Result<Ran> {
    for seed in DIFFERENTIAL_SEEDS {
        if differential_run(DIFFERENTIAL_COMMANDS[1], seed, &[])? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// Other ways to run our server, of which no client may notice anything.
const ARMS: [&str; 5] = [
    "--slow-read-elements 1",
    "--event-loop io_uring",
    "--event-loop poll",
    "--io-threads 4 --io-threads-always-active yes",
    "--io-threads 4 --io-threads-always-active yes --event-loop io_uring",
];

/// The differential test with our server run in each way of [`ARMS`].
fn differential_arms() -> Result<Ran> {
    for arm in ARMS {
        println!("differential: {arm}");
        if differential_run(DIFFERENTIAL_COMMANDS_ARM, 1, &["--ours-extra", arm])? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// Ways to write append-only files.
const WAYS_TO_APPEND: [[&str; 2]; 4] = [
    ["--both-extra", "--aof-timestamp-enabled yes"],
    ["--both-extra", "--aof-use-rdb-preamble no"],
    ["--both-extra", "--auto-aof-rewrite-min-size 16kb --auto-aof-rewrite-percentage 1"],
    ["--ours-extra", "--io-threads 4 --io-threads-always-active yes --event-loop io_uring"],
];

/// The differential test with append-only files, written in each way of [`WAYS_TO_APPEND`].
fn differential_append_only() -> Result<Ran> {
    for [whose, way] in WAYS_TO_APPEND {
        println!("differential: {way}");
        let more = ["--append-only", whose, way];
        if differential_run(DIFFERENTIAL_COMMANDS_LOGS[1], 1, &more)? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// The tester must notice a reference whose only fault is that it lacks one command.
fn differential_canary() -> Result<Ran> {
    let Some(peer) = peer_server() else {
        println!("differential canary: skipped: {PEER_VARIABLE} names no reference server");
        return Ok(Ran::Skipped);
    };
    let peer = peer.to_string_lossy();
    let words =
        ["--ours", &peer, "--peer", &peer, "--commands", "20000", "--failures", "1"].map(str::to_string);
    let faulty = ["--ours-extra", "--rename-command GETRANGE STRRANGE"].map(str::to_string);
    differential::differential(&words)
        .map_err(|error| format!("the reference differs from itself: {error}"))?;
    match differential::differential(&[words.as_slice(), &faulty].concat()) {
        Err(_) => Ok(Ran::Passed),
        Ok(()) => Err("a server without GETRANGE passed".into()),
    }
}

/// Names to a crate's build, at compile time, the deliberate mistake that it makes: `crates/queue/src/primitive.rs`.
const MUTANT_VARIABLE: &str = "SLUICE_MUTANT";

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

/// The command that runs the loom tests of a crate, without a mistake.
fn loom_test(name: &str) -> Command {
    let mut test = shell::cargo();
    test.env("RUSTFLAGS", "--cfg loom").env_remove(MUTANT_VARIABLE);
    // Thin LTO would link the checker anew into every test of every mutant: a minute each instead of seconds.
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
fn crates_with(test: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
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

/// Each deliberate mistake that a crate's `loom-mutants` file names (one per line) must make a model check fail.
fn loom_mutants() -> Result<Ran> {
    let crates = crates_with(|folder| folder.join("loom-mutants").is_file())?;
    if crates.is_empty() {
        println!("loom mutants: skipped: no crate has a file loom-mutants");
        return Ok(Ran::Skipped);
    }
    for name in crates {
        shell::run(&mut loom_test(&name)).map_err(|error| format!("{name} without a mistake: {error}"))?;
        let list = std::fs::read_to_string(shell::root().join("crates").join(&name).join("loom-mutants"))?;
        for mutant in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // A mutant that does not build would pass for one that was noticed.
            shell::run(loom_test(&name).env(MUTANT_VARIABLE, mutant).arg("--no-run"))?;
            if loom_test(&name).env(MUTANT_VARIABLE, mutant).output()?.status.success() {
                return Err(format!("{name}: the model checks do not notice the mutant {mutant}").into());
            }
            println!("loom mutants: {name}: {mutant} was noticed");
        }
    }
    Ok(Ran::Passed)
}

/// Seeds of the simulation of replication in a long run; the test of the crate runs the first thousand.
const SIM_SEEDS_DEEP: u64 = 10_000;

/// The simulation of replication, with many seeds, and optimised.
fn sim() -> Result<Ran> {
    let mut run = shell::cargo();
    run.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")]);
    run.arg("run").arg("--target-dir").arg(shell::target_dir().join("sim"));
    run.args([
        "--release",
        "--quiet",
        "--package",
        "sluice-sim",
        "--",
        "--seeds",
        &SIM_SEEDS_DEEP.to_string(),
    ]);
    shell::pass(&mut run)
}

/// Each mistake that `sluice_base::mistake` knows must be found by the simulation of replication.
fn sim_mistakes() -> Result<Ran> {
    let mut test = shell::cargo();
    test.env("RUSTFLAGS", "--cfg sluice_mistakes");
    test.arg("test").arg("--target-dir").arg(shell::target_dir().join("mistakes"));
    test.args(["--quiet", "--package", "sluice-sim", "--test", "mistakes", "--", "--nocapture"]);
    shell::pass(&mut test)
}

/// Crates whose unit tests run under valgrind: those with memory that they manage themselves. evloop's are the slabs of
/// its ring driver, by the scripted ring, since valgrind does not follow the kernel's.
const VALGRIND_CRATES: [&str; 3] = ["sluice-collections", "sluice-queue", "sluice-evloop"];

/// Unit tests under valgrind: reads and writes outside what they own, and leaks.
fn valgrind() -> Result<Ran> {
    if !shell::on_path("valgrind") {
        println!("valgrind: skipped: needs valgrind on the path");
        return Ok(Ran::Skipped);
    }
    let mut test = shell::cargo();
    let runner = "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite";
    test.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    test.args(["test", "--lib"]).args(VALGRIND_CRATES.iter().flat_map(|name| ["--package", name]));
    // valgrind knows no descriptors of processes.
    shell::pass(test.args(["--", "--test-threads=1", "--skip", "process::tests"]))
}

/// The race checker over the whole server, while the tests of IO threads run against it. The standard library is built
/// with it, or its locks would be taken for none; and memory comes from the system, whose reuse the checker follows.
fn races() -> Result<Ran> {
    let mut sysroot = Command::new("rustc");
    let sysroot = shell::output(sysroot.args(["--print", "sysroot"]))?;
    if !Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir() {
        println!("races: skipped: needs the standard library's source (rustup component add rust-src)");
        return Ok(Ran::Skipped);
    }
    let reports = shell::target_dir().join("races");
    if reports.exists() {
        std::fs::remove_dir_all(&reports)?;
    }
    std::fs::create_dir_all(&reports)?;
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg sluice_system_allocator";
    let mut test = shell::cargo();
    test.envs([("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", flags)]);
    // Servers are ended by signals and their exit is not looked at: what counts are the files.
    test.env("TSAN_OPTIONS", format!("exitcode=0 log_path={}/report", reports.display()));
    test.args(["test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu", "--target-dir"]);
    test.arg(shell::target_dir().join("tsan"));
    shell::run(test.args(["--package", "sluice-server", "--test", "iothreads"]))?;
    match std::fs::read_dir(&reports)?.count() {
        0 => Ok(Ran::Passed),
        count => Err(format!("{count} processes had races: {}", reports.display()).into()),
    }
}

/// A replica that is cut off in every way, with every way to send and to load a snapshot.
fn matrix() -> Result<Ran> {
    let mut test = shell::cargo();
    test.env("SLUICE_TEST_MATRIX", "all");
    shell::pass(test.args([
        "test",
        "--package",
        "sluice-server",
        "--test",
        "replication_matrix",
        "--",
        "--quiet",
    ]))
}

/// Notes that `name` passed on the commit that is checked out.
fn record(name: &str) -> Result<()> {
    let path = shell::root().join(RECORD);
    let mut table = tidy::read_table(&path)?;
    let mut git = Command::new("git");
    git.current_dir(shell::root()).args(["log", "-1", "--format=%h %cs"]);
    let commit = shell::output(&mut git)?;
    let mut entry = toml::Table::new();
    entry.insert("commit".into(), commit.trim().into());
    entry.insert("unix_seconds".into(), i64::try_from(shell::unix_seconds())?.into());
    if name == "differential" {
        let (first, last) = (DIFFERENTIAL_SEEDS.start(), DIFFERENTIAL_SEEDS.end());
        let what = format!("seeds {first} to {last}, {} commands each", DIFFERENTIAL_COMMANDS[1]);
        entry.insert("what".into(), what.into());
    }
    table.insert(name.into(), entry.into());
    let header = "# When each long run last passed, written by `cargo xtask deep`.\n\n";
    std::fs::write(path, format!("{header}{}", toml::to_string(&table)?))?;
    Ok(())
}

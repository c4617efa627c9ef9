//! `cargo xtask deep`: the long runs, for which the checks of every change have no time.
//!
//! Invariants: (1) a run that draws random numbers prints its seed, and `--seed` repeats it; (2) a run is
//! recorded with its commit when it passes, unless it did less than by default or used another server; (3) a
//! run that lacks an external tool says so and is skipped.

mod bus;
mod deny;
mod examples;
mod hostile;
mod lua;
mod metrics;
mod mistakes;
mod openssl;
mod packages;
mod page;
mod reproducible;
mod sentinel;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Arguments;
use crate::error::Result;
use crate::histories::{self, Histories};
use crate::shell::{self, Ran, Steps};
use crate::{binaries, ci, conformance, differential, fuzz, table, test};

/// One of the long runs.
struct LongRun {
    name: &'static str,
    about: &'static str,
    /// The options that change what the run does.
    takes: &'static [&'static str],
    /// Default number of commands of the differential test, for each seed, or for each way to run our server
    /// or to write logs; 0 for a run that sends no commands.
    commands: u64,
    run: fn(&Chosen) -> Result<Ran>,
}

/// The options of the command line, or their defaults.
struct Chosen {
    /// The first seed of runs that draw random numbers.
    seed: u64,
    /// Number of commands of each differential test; `None` for the default of the run.
    commands: Option<u64>,
    /// A server to use in place of a release of the checked-out commit.
    ours: Option<PathBuf>,
    /// Prefix of the names of the programs to run; `None`: all programs.
    only: Option<String>,
}

impl Chosen {
    fn commands_or(&self, default: u64) -> u64 {
        self.commands.unwrap_or(default)
    }
}

const SEED: &str = "--seed";
const COMMANDS: &str = "--commands";
const OURS: &str = "--ours";
const ONLY: &str = "--only";

/// The long runs, in the order in which they run.
const RUNS: &[LongRun] = &[
    LongRun {
        name: "differential",
        about: "random commands to ours and the reference, six seeds from --seed on",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_PER_SEED,
        run: differential_seeds,
    },
    LongRun {
        name: "differential-arms",
        about: "the same with ours run in other ways: slow reads, io_uring, poll, I/O threads",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_PER_WAY,
        run: differential_arms,
    },
    LongRun {
        name: "differential-append-only",
        about: "the same with append-only files, which both servers load again",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_PER_WAY,
        run: differential_append_only,
    },
    LongRun {
        name: "differential-checked",
        about: "the same with debug assertions: declared keys, sums of memory",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_PER_WAY,
        run: differential_checked,
    },
    LongRun {
        name: "differential-clusters",
        about: "the same with three nodes of a cluster on either side: redirects, CLUSTER commands",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_PER_WAY,
        run: differential_clusters,
    },
    LongRun {
        name: "differential-canary",
        about: "the tester must notice a reference that lacks one command",
        takes: &[SEED, COMMANDS],
        commands: COMMANDS_CANARY,
        run: differential_canary,
    },
    LongRun {
        name: "hostile",
        about: "clients and files that mean no good beside a PING: its longest wait, KILL, memory",
        takes: &[OURS, ONLY],
        commands: 0,
        run: |chosen| hostile::run(chosen.ours.as_deref(), chosen.only.as_deref()),
    },
    LongRun {
        name: "bus",
        about: "120,000 packets that mean no good at the buses of three nodes, from strangers and under their own ids",
        takes: &[SEED, OURS],
        commands: 0,
        run: |chosen| bus::run(chosen.ours.as_deref(), chosen.seed),
    },
    LongRun {
        name: "fuzz",
        about: "all fuzz targets, two hours together",
        takes: &[SEED],
        commands: 0,
        run: |chosen| fuzz::smoke(chosen.seed, FUZZ_SECONDS),
    },
    LongRun {
        name: "lua",
        about: "a million random programs, and random library calls, beside the reference's EVAL, from --seed on",
        takes: &[SEED],
        commands: 0,
        run: |chosen| lua::random(chosen.seed),
    },
    LongRun {
        name: "lua-programs",
        about: "the small programs of PUC's sources beside its interpreter",
        takes: &[],
        commands: 0,
        run: |_| lua::programs(),
    },
    LongRun {
        name: "lua-charges",
        about: "what a unit of the budget takes in time, with operands of one byte to 96 MiB, from --seed on",
        takes: &[SEED],
        commands: 0,
        run: |chosen| lua::charges(chosen.seed),
    },
    LongRun {
        name: "valgrind",
        about: "unit tests of the crates that manage memory themselves, under valgrind",
        takes: &[],
        commands: 0,
        run: valgrind,
    },
    LongRun {
        name: "lines",
        about: "cache lines that GET, SET and PING touch, beside bench/record/lines.json: 3 % more at most in pipelines",
        takes: &[OURS],
        commands: 0,
        run: lines,
    },
    LongRun {
        name: "loom-mutants",
        about: "the model checks must notice each deliberate mistake",
        takes: &[],
        commands: 0,
        run: loom_mutants,
    },
    LongRun {
        name: "races",
        about: "the race checker over the server, while the tests of I/O threads, TLS and tracking run",
        takes: &[],
        commands: 0,
        run: races,
    },
    LongRun {
        name: "sim",
        about: "the simulation of replication, 10,000 seeds from --seed on",
        takes: &[SEED],
        commands: 0,
        run: sim,
    },
    LongRun {
        name: "sim-clusters",
        about: "the simulation of clusters, 100,000 seeds from --seed on",
        takes: &[SEED],
        commands: 0,
        run: sim_clusters,
    },
    LongRun {
        name: "sim-moves",
        about: "the simulation of moves of slots, 2,000 seeds from --seed on, some 20,000 moves",
        takes: &[SEED],
        commands: 0,
        run: sim_moves,
    },
    LongRun {
        name: "sim-many",
        about: "a cluster of 1,000 nodes in the simulation: bytes of the bus, how long news takes",
        takes: &[],
        commands: 0,
        run: sim_many,
    },
    LongRun {
        name: "sim-mistakes",
        about: "the simulation must find each deliberate mistake, or those whose names begin with --only",
        takes: &[ONLY],
        commands: 0,
        run: |chosen| mistakes::run(chosen.only.as_deref()),
    },
    LongRun {
        name: "histories",
        about: "1,000 faults to clusters of real processes under load, from --seed on; says how to go on after a stop",
        takes: &[SEED, OURS],
        commands: 0,
        run: histories_of_ours,
    },
    LongRun {
        name: "moves",
        about: "300 moves of slots between real processes, ours and stock, one fault each, under INCR and RPUSH",
        takes: &[SEED, OURS],
        commands: 0,
        run: |chosen| {
            histories::run(server_of(chosen)?.as_deref(), &Histories::of_moves(chosen.seed, MOVE_FAULTS))
        },
    },
    LongRun {
        name: "histories-moving",
        about: "300 faults to clusters of real processes whose slots move from node to node all the time",
        takes: &[SEED, OURS],
        commands: 0,
        run: |chosen| {
            histories::run(server_of(chosen)?.as_deref(), &Histories::moving(chosen.seed, MOVE_FAULTS))
        },
    },
    LongRun {
        name: "histories-canary",
        about: "the judge of these histories must notice lost writes and stray keys, and stock nodes that serve after they stood still",
        takes: &[SEED, OURS],
        commands: 0,
        run: |chosen| histories::canary(server_of(chosen)?.as_deref(), chosen.seed),
    },
    LongRun {
        name: "arms",
        about: "the tests of the server in each way to run it: I/O threads, rings of two, io_uring, poll, a slow log",
        takes: &[],
        commands: 0,
        run: |_| test::in_arms(&test::ARMS.each_ref(), &[]),
    },
    LongRun {
        name: "matrix",
        about: "a replica that is cut off in every way, with every way to send and to load a snapshot",
        takes: &[],
        commands: 0,
        run: matrix,
    },
    LongRun {
        name: "conformance",
        about: "the upstream suite's units",
        takes: &[],
        commands: 0,
        run: |_| conformance::run(&[]),
    },
    LongRun {
        name: "conformance-io-threads",
        about: "the same with I/O threads forced",
        takes: &[],
        commands: 0,
        run: |_| conformance::run(&["--io-threads".into()]),
    },
    LongRun {
        name: "clusters-io-threads",
        about: "the upstream suite's units of clusters with I/O threads forced",
        takes: &[],
        commands: 0,
        run: |_| conformance::run(&["--io-threads".into(), UNITS_OF_CLUSTERS.into()]),
    },
    LongRun {
        name: "clusters-tls",
        about: "the upstream suite's units of clusters over TLS",
        takes: &[],
        commands: 0,
        run: |_| conformance::run(&["--tls".into(), UNITS_OF_CLUSTERS.into(), UNIT_OF_TLS.into()]),
    },
    LongRun {
        name: "conformance-mixed",
        about: "the upstream suite's units of clusters, in which every second node is the reference's, in both ways",
        takes: &[],
        commands: 0,
        run: conformance_mixed,
    },
    LongRun {
        name: "sentinel",
        about: "the upstream suite of Sentinel, with our server and the reference's sentinels",
        takes: &[],
        commands: 0,
        run: |_| sentinel::run(&[]),
    },
    LongRun {
        name: "conformance-tls",
        about: "the upstream suite's units over TLS",
        takes: &[],
        commands: 0,
        run: |_| conformance::run(&["--tls".into()]),
    },
    LongRun {
        name: "sentinel-tls",
        about: "the upstream suite of Sentinel over TLS",
        takes: &[],
        commands: 0,
        run: |_| sentinel::run(&["--tls"]),
    },
    LongRun {
        name: "openssl",
        about: "OpenSSL's client with each version and suite, served and refused",
        takes: &[],
        commands: 0,
        run: |_| openssl::run(),
    },
    LongRun {
        name: "clients",
        about: "the client programs against a release; the tests have them against a build with assertions",
        takes: &[],
        commands: 0,
        run: |_| crate::clients::run(&[]),
    },
    LongRun {
        name: "rolling",
        about: "a cluster is upgraded node by node under real clients: from the reference, from ours to ours, and back",
        takes: &[OURS],
        commands: 0,
        run: |chosen| crate::rolling::deep(chosen.ours.as_deref()),
    },
    LongRun {
        name: "metrics",
        about: "promtool reads what the metrics endpoint says and tries the alerts; redis_exporter has no name that it lacks",
        takes: &[],
        commands: 0,
        run: |_| metrics::run(),
    },
    LongRun {
        name: "examples",
        about: "the files of examples/ as promtool, docker compose, Kubernetes' schemas and shellcheck read them",
        takes: &[],
        commands: 0,
        run: |_| examples::run(),
    },
    LongRun {
        name: "page",
        about: "the page of the metrics endpoint in Chromium: its numbers are INFO's, in every state of a server",
        takes: &[],
        commands: 0,
        run: |_| page::run(),
    },
    LongRun {
        name: "packages",
        about: "the packages, read, installed, upgraded, removed, purged; the service, containers, clusters, shards, backups",
        takes: &[],
        commands: 0,
        run: |_| packages::run(),
    },
    LongRun {
        name: "reproducible",
        about: "two releases of one commit in two folders have one checksum",
        takes: &[],
        commands: 0,
        run: |_| reproducible::run(),
    },
    LongRun {
        name: "deny",
        about: "cargo-deny: licences, sources, doubled crates, and advisories of a stored database",
        takes: &[],
        commands: 0,
        run: |_| deny::run(),
    },
];

/// Number of commands of the differential test for each seed.
const COMMANDS_PER_SEED: u64 = 1_000_000;
/// Number of commands of the differential test for each way to run our server, or to write logs.
const COMMANDS_PER_WAY: u64 = 200_000;
/// Number of commands within which the differential test must notice the planted fault.
const COMMANDS_CANARY: u64 = 20_000;
/// Number of seeds of the differential test, from the first seed on.
const DIFFERENTIAL_SEEDS: u64 = 6;

/// Seconds of fuzzing per target, and for all targets together.
const FUZZ_SECONDS: [u64; 2] = [600, 7200];

/// Number of seeds of the simulation of replication; `ci` uses the first thousand, the tests 150.
const SIM_SEEDS: u64 = 10_000;
/// Number of seeds of the simulation of clusters; `ci` uses the first 500, the tests 60.
const CLUSTER_SEEDS: u64 = 100_000;
/// Number of seeds of the simulation of moves of slots, each of which starts about ten moves; the tests use
/// 30.
const MOVE_SEEDS: u64 = 2_000;

/// The upstream suite's units of clusters. `UNIT_OF_TLS` is a unit that has tests only over TLS.
const UNITS_OF_CLUSTERS: &str = "unit/cluster/*";
const UNIT_OF_TLS: &str = "unit/cluster/cluster-response-tls";
/// Number of faults in the histories of real clusters; `ci` has twenty.
const HISTORY_FAULTS: u64 = 1000;
/// Number of moves of slots between real processes, with one fault each; also the number of faults in
/// histories whose slots move continuously.
const MOVE_FAULTS: u64 = 300;

/// The file that records the runs that passed, with commit and date.
const RECORD: &str = "docs/deep-runs.toml";

/// The task: `[--seed N] [--commands N] [--ours BIN] [--only NAME] [run...]`; by default all runs, with the
/// current unix time as the first seed.
pub(crate) fn deep(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    if arguments.flag("--help") {
        print!("{}", help());
        return Ok(());
    }
    let seed = arguments.option_number(SEED)?;
    let commands = arguments.option_number(COMMANDS)?;
    let (ours, only) = (arguments.option(OURS)?.map(PathBuf::from), arguments.option(ONLY)?);
    let runs = chosen_runs(&arguments.words()?)?;
    let given = [
        (SEED, seed.is_some()),
        (COMMANDS, commands.is_some()),
        (OURS, ours.is_some()),
        (ONLY, only.is_some()),
    ];
    for (option, is_given) in given {
        if is_given && !runs.iter().any(|run| run.takes.contains(&option)) {
            return Err(format!(
                "none of these runs takes {option}; `cargo xtask deep --help` says which do"
            )
            .into());
        }
    }
    let chosen = Chosen { seed: seed.unwrap_or_else(shell::unix_seconds), commands, ours, only };
    let mut steps = Steps::new();
    for run in runs {
        if run.takes.contains(&SEED) {
            let sent = commands.map_or_else(String::new, |count| format!(" {COMMANDS} {count}"));
            println!("again: cargo xtask deep {} {SEED} {}{sent}", run.name, chosen.seed);
        }
        // The commit is read before the run, because the run builds this commit and takes so long that
        // another one may be checked out meanwhile.
        let commit = checked_out()?;
        if steps.step(run.name, || (run.run)(&chosen)) == Some(Ran::Passed) {
            record(run, &chosen, &commit)?;
        }
    }
    steps.finish()
}

/// The runs that the words name; all runs without words.
fn chosen_runs(words: &[String]) -> Result<Vec<&'static LongRun>> {
    if let Some(unknown) = words.iter().find(|word| !RUNS.iter().any(|run| run.name == *word)) {
        return Err(format!("no deep run is called {unknown:?}; `cargo xtask deep --help` lists them").into());
    }
    Ok(RUNS.iter().filter(|run| words.is_empty() || words.iter().any(|word| word == run.name)).collect())
}

fn help() -> String {
    let mut text = "cargo xtask deep [--seed N] [--commands N] [--ours BIN] [--only NAME] [run...]\n\n\
                    All runs without a name. A run that passes is noted in docs/deep-runs.toml with its commit.\n\n"
        .to_owned();
    for run in RUNS {
        text.push_str(&format!("  {:24} {}\n", run.name, run.about));
        if !run.takes.is_empty() {
            let default =
                if run.commands > 0 { format!(" ({} by default)", run.commands) } else { String::new() };
            text.push_str(&format!("  {:24}   takes {}{default}\n", "", run.takes.join(", ")));
        }
    }
    text.push_str(
        "\n  --seed N      the first seed; by default one of today, which is printed\n\
         \x20 --commands N  commands for each seed or way; with fewer than by default nothing is noted\n\
         \x20 --ours BIN    a server in place of a release of what is checked out; nothing is noted\n\
         \x20 --only NAME   the programs whose names begin so; nothing is noted\n",
    );
    text
}

/// The upstream suite with mixed clusters: our servers at odd ports, then at even ports.
fn conformance_mixed(_: &Chosen) -> Result<Ran> {
    match conformance::run(&["--mixed".into(), "odd".into()])? {
        Ran::Passed => conformance::run(&["--mixed".into(), "even".into()]),
        skipped => Ok(skipped),
    }
}

/// The differential test with several seeds.
fn differential_seeds(chosen: &Chosen) -> Result<Ran> {
    for seed in chosen.seed..chosen.seed.saturating_add(DIFFERENTIAL_SEEDS) {
        if ci::differential_run(chosen.commands_or(COMMANDS_PER_SEED), seed, &[])? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// The differential test with our server as a build with debug assertions.
fn differential_checked(chosen: &Chosen) -> Result<Ran> {
    ci::differential_checked(chosen.commands_or(COMMANDS_PER_WAY), chosen.seed, &[])
}

/// The differential test with clusters.
fn differential_clusters(chosen: &Chosen) -> Result<Ran> {
    let words = ["--cluster", "--no-metadata"];
    ci::differential_run(chosen.commands_or(COMMANDS_PER_WAY), chosen.seed, &words)
}

/// Options of our server that no client may notice.
const ARMS: [&str; 5] = [
    "--slow-read-elements 1",
    "--event-loop io_uring",
    "--event-loop poll",
    "--io-threads 4 --io-threads-always-active yes",
    "--io-threads 4 --io-threads-always-active yes --event-loop io_uring",
];

/// The differential test with each of the options of [`ARMS`].
fn differential_arms(chosen: &Chosen) -> Result<Ran> {
    for arm in ARMS {
        println!("differential: {arm}");
        let more = ["--ours-extra", arm];
        if ci::differential_run(chosen.commands_or(COMMANDS_PER_WAY), chosen.seed, &more)? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// Options that change how append-only files are written, each with the servers that get it.
const WAYS_TO_APPEND: [[&str; 2]; 4] = [
    ["--both-extra", "--aof-timestamp-enabled yes"],
    ["--both-extra", "--aof-use-rdb-preamble no"],
    ["--both-extra", "--auto-aof-rewrite-min-size 16kb --auto-aof-rewrite-percentage 1"],
    ["--ours-extra", "--io-threads 4 --io-threads-always-active yes --event-loop io_uring"],
];

/// The differential test with append-only files, written with each of [`WAYS_TO_APPEND`].
fn differential_append_only(chosen: &Chosen) -> Result<Ran> {
    for [whose, way] in WAYS_TO_APPEND {
        println!("differential: {way}");
        let more = ["--append-only", whose, way];
        if ci::differential_run(chosen.commands_or(COMMANDS_PER_WAY), chosen.seed, &more)? == Ran::Skipped {
            return Ok(Ran::Skipped);
        }
    }
    Ok(Ran::Passed)
}

/// Checks that the differential test notices a reference whose only fault is that it lacks one command.
fn differential_canary(chosen: &Chosen) -> Result<Ran> {
    let Some(peer) = binaries::peer_server() else {
        println!("differential canary: skipped: {} names no reference server", binaries::PEER_VARIABLE);
        return Ok(Ran::Skipped);
    };
    let peer = peer.to_string_lossy();
    let (commands, seed) = (chosen.commands_or(COMMANDS_CANARY).to_string(), chosen.seed.to_string());
    let words =
        ["--ours", &peer, "--peer", &peer, "--failures", "1", "--commands", &commands, "--seed", &seed];
    let words = words.map(str::to_string);
    let faulty = ["--ours-extra", "--rename-command GETRANGE STRRANGE"].map(str::to_string);
    differential::differential(&words)
        .map_err(|error| format!("the reference differs from itself: {error}"))?;
    match differential::differential(&[words.as_slice(), &faulty].concat()) {
        Err(_) => Ok(Ran::Passed),
        Ok(()) => Err("a server without GETRANGE passed".into()),
    }
}

/// Checks that each deliberate mistake in a crate's `loom-mutants` file (one per line) makes a model check
/// fail.
fn loom_mutants(_: &Chosen) -> Result<Ran> {
    let crates = ci::crates_with(|folder| folder.join("loom-mutants").is_file())?;
    if crates.is_empty() {
        println!("loom mutants: skipped: no crate has a file loom-mutants");
        return Ok(Ran::Skipped);
    }
    for name in crates {
        shell::run(&mut ci::loom_test(&name))
            .map_err(|error| format!("{name} without a mistake: {error}"))?;
        let list = std::fs::read_to_string(shell::root().join("crates").join(&name).join("loom-mutants"))?;
        for mutant in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // The mutant is built first, because one that does not compile would count as noticed.
            shell::run(ci::loom_test(&name).env(ci::MUTANT_VARIABLE, mutant).arg("--no-run"))?;
            if ci::loom_test(&name).env(ci::MUTANT_VARIABLE, mutant).output()?.status.success() {
                return Err(format!("{name}: the model checks do not notice the mutant {mutant}").into());
            }
            println!("loom mutants: {name}: {mutant} was noticed");
        }
    }
    Ok(Ran::Passed)
}

/// The simulation of replication, optimised, with many seeds.
fn sim(chosen: &Chosen) -> Result<Ran> {
    simulate(chosen, SIM_SEEDS, &[])
}

/// The simulation of clusters, optimised, with many seeds.
fn sim_clusters(chosen: &Chosen) -> Result<Ran> {
    simulate(chosen, CLUSTER_SEEDS, &["--cluster"])
}

/// The simulation of moves of slots, optimised, with many seeds.
fn sim_moves(chosen: &Chosen) -> Result<Ran> {
    simulate(chosen, MOVE_SEEDS, &["--moves"])
}

fn simulate(chosen: &Chosen, seeds: u64, flags: &[&str]) -> Result<Ran> {
    let mut run = shell::cargo();
    run.args(["run", "--profile", "checked", "--quiet", "--package", "sluice-sim", "--"]).args(flags);
    run.args(["--first", &chosen.seed.to_string(), "--seeds", &seeds.to_string()]);
    shell::pass(&mut run)
}

fn sim_many(_: &Chosen) -> Result<Ran> {
    let mut run = shell::cargo();
    run.args(["run", "--release", "--quiet", "--package", "sluice-sim", "--", "--many", "1000"]);
    shell::pass(&mut run)
}

/// Histories of real clusters with a release, or with the server of `--ours`.
fn histories_of_ours(chosen: &Chosen) -> Result<Ran> {
    histories::run(server_of(chosen)?.as_deref(), &Histories::of_ours(chosen.seed, HISTORY_FAULTS))
}

/// The server of `--ours`, or a release.
fn server_of(chosen: &Chosen) -> Result<Option<PathBuf>> {
    match &chosen.ours {
        Some(server) => Ok(Some(server.clone())),
        None => binaries::build_server(),
    }
}

/// Crates whose unit tests run under valgrind: crates that manage memory themselves. In evloop this covers
/// the slabs of the io_uring driver, which runs on a scripted ring here, because valgrind does not follow the
/// kernel's accesses.
const VALGRIND_CRATES: [&str; 3] = ["sluice-collections", "sluice-queue", "sluice-evloop"];

/// Runs unit tests under valgrind, which finds invalid reads and writes, and leaks.
fn valgrind(_: &Chosen) -> Result<Ran> {
    if !shell::on_path("valgrind") {
        println!("valgrind: skipped: needs valgrind on the path");
        return Ok(Ran::Skipped);
    }
    let mut test = shell::cargo();
    let runner = "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite";
    test.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    test.args(["test", "--lib"]).args(VALGRIND_CRATES.iter().flat_map(|name| ["--package", name]));
    // The tests of processes are skipped, because valgrind does not support pidfds.
    shell::pass(test.args(["--", "--test-threads=1", "--skip", "process::tests"]))
}

/// The record of the cache lines that a request fetches.
const LINES: &str = "bench/record/lines.json";

/// Compares the cache lines that a request fetches with the record. This is not a part of `ci`, which
/// builds no optimised server.
fn lines(chosen: &Chosen) -> Result<Ran> {
    if let Some(missing) = ["valgrind", "python3"].into_iter().find(|tool| !shell::on_path(tool)) {
        println!("lines: skipped: needs {missing} on the path");
        return Ok(Ran::Skipped);
    }
    let Some(server) = server_of(chosen)? else { return Ok(Ran::Skipped) };
    shell::pass(Command::new("bench/path").arg("--ours").arg(server).args([
        "--requests",
        "10000",
        "--recorded",
        LINES,
    ]))
}

/// Runs the tests of I/O threads, TLS and tracking against a server with the race checker. The standard
/// library is built with the checker, too, because otherwise its locks would be ignored; memory comes from
/// the system's allocator, whose reuse the checker follows.
fn races(_: &Chosen) -> Result<Ran> {
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
    run_under_the_race_checker(&reports, &[])?;
    for arm in test::ARMS.iter().filter(|arm| arm.has(test::IO_THREADS)) {
        println!("races: arm {}", arm.name);
        run_under_the_race_checker(&reports, arm.environment)?;
    }
    match std::fs::read_dir(&reports)?.count() {
        0 => Ok(Ran::Passed),
        count => Err(format!("{count} processes had races: {}", reports.display()).into()),
    }
}

/// Runs the tests of I/O threads, TLS and tracking with this environment. Each process with a race leaves a
/// file in `reports`.
fn run_under_the_race_checker(reports: &Path, environment: &[(&str, &str)]) -> Result<()> {
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg sluice_system_allocator";
    let mut test = shell::cargo();
    test.envs([("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", flags)]).envs(environment.iter().copied());
    // Servers are ended by signals and their exit status is not checked, so only the files count.
    test.env("TSAN_OPTIONS", format!("exitcode=0 log_path={}/report", reports.display()));
    test.args(["test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu", "--target-dir"]);
    test.arg(shell::target_dir().join("tsan"));
    let module = format!("{}::", test::IO_THREADS);
    shell::run(test.args(["--package", "sluice", "--test", "it", "--", &module, "tls::", "tracking::"]))
}

/// Tests a replica whose link is cut in every way, with every way to send and to load a snapshot.
fn matrix(_: &Chosen) -> Result<Ran> {
    let mut test = shell::cargo();
    test.env("SLUICE_TEST_MATRIX", "all");
    let words = ["test", "--package", "sluice", "--test", "it", "--", "--quiet", "replication_matrix::"];
    shell::pass(test.args(words))
}

/// The commit that is checked out, and its date.
fn checked_out() -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(shell::root()).args(["log", "-1", "--format=%h %cs"]);
    Ok(shell::output(&mut git)?.trim().to_owned())
}

/// Records that the run passed on a commit, unless it did less than by default or used another server.
fn record(run: &LongRun, chosen: &Chosen, commit: &str) -> Result<()> {
    let sends_commands = run.takes.contains(&COMMANDS);
    let commands = chosen.commands_or(run.commands);
    if sends_commands && commands < run.commands {
        println!("{}: not noted: {} commands are fewer than {}", run.name, commands, run.commands);
        return Ok(());
    }
    if run.takes.contains(&OURS) && (chosen.ours.is_some() || chosen.only.is_some()) {
        println!("{}: not noted: another server, or a part of the programs", run.name);
        return Ok(());
    }
    let path = shell::root().join(RECORD);
    let mut table = table::read_table(&path)?;
    let mut entry = toml::Table::new();
    entry.insert("commit".into(), commit.into());
    entry.insert("unix_seconds".into(), i64::try_from(shell::unix_seconds())?.into());
    if run.takes.contains(&SEED) {
        let sent = if sends_commands { format!(", {commands} commands each") } else { String::new() };
        entry.insert("what".into(), format!("from seed {} on{sent}", chosen.seed).into());
    }
    table.insert(run.name.into(), entry.into());
    let header = "# When each long run last passed, written by `cargo xtask deep`.\n\n";
    std::fs::write(path, format!("{header}{}", toml::to_string(&table)?))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{RUNS, chosen_runs, deep, help};

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn help_names_every_run_and_what_it_takes() {
        let text = help();
        for run in RUNS {
            assert!(text.contains(&format!("  {} ", run.name)), "{text}");
            assert_eq!(run.commands > 0, run.takes.contains(&"--commands"), "{}", run.name);
        }
        assert!(text.contains("takes --seed, --commands (1000000 by default)"), "{text}");
    }

    #[test]
    fn words_choose_runs_and_unknown_ones_are_errors() {
        let names = |of: &[&str]| chosen_runs(&words(of)).map(|runs| runs.len()).ok();
        assert_eq!(names(&[]), Some(RUNS.len()));
        assert_eq!(names(&["sim", "fuzz"]), Some(2));
        assert_eq!(names(&["sims"]), None);
    }

    #[test]
    fn an_option_that_no_chosen_run_takes_is_an_error() {
        for wrong in [&["--seed", "7", "valgrind"][..], &["--commands", "7", "sim"], &["--seeds", "7", "sim"]]
        {
            assert!(deep(&words(wrong)).is_err(), "{wrong:?}");
        }
    }
}

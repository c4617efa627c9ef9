//! `cargo xtask test`: builds the tests of the workspace once, runs their programs, and prints
//! the slowest tests.
//!
//! Invariants: (1) it runs the tests that `cargo test --workspace` would run, except code in doc comments, in
//! each package's folder and with the harness's own result lines; then it runs the tests of the server once
//! more in another arm (a configuration, see `arms.rs`); (2) a test that skips a part because this machine
//! lacks a requirement is listed at the end, with its message; (3) the output of a failed test is printed
//! completely.

mod arms;
mod harness;
mod programs;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::arms::{ARMS, Arm, IO_THREADS};
use self::harness::{Outcome, Run};
use self::programs::Program;
use crate::args::Arguments;
use crate::clients;
use crate::error::Result;
use crate::shell::{self, Ran, Steps};

/// Number of slowest tests that are printed.
const SLOWEST: usize = 20;

/// Number of the server's tests that run in parallel. They may be more than the processors, because they
/// mostly wait for servers, disks and timers.
const SERVER_THREADS: usize = 6;

/// The name of the server's program.
const SERVER: &str = "sluice-server";

/// The package of the server, whose tests run in arms.
const PACKAGE: &str = "sluice";

/// The task: `[--arm NAME] [word...]`. Words choose tests by parts of their names, as with `cargo test`; with
/// an arm, only the tests of the server run, in that arm. Without words and arm, the client programs run
/// after the tests.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let arm = arguments.option("--arm")?;
    let words = arguments.words()?;
    let mut steps = Steps::new();
    if let Some(name) = arm {
        let arm = arms::by_name(&name)?;
        steps.step("arm", || in_arms(&[arm], &words));
    } else if words.is_empty() {
        steps.step("test", workspace);
        steps.step("clients", || clients::against(server()?, &[]));
    } else {
        steps.step("test", || chosen(&words));
    }
    steps.finish()
}

/// All tests of the workspace, and the server's tests once more in the arm that every change must pass.
pub(crate) fn workspace() -> Result<Ran> {
    let programs = programs::build(&["--workspace"])?;
    let mut report = Report::default();
    for program in &programs {
        report.add(run(program, &[], None)?);
    }
    let arm = arms::of_every_change();
    for program in programs.iter().filter(|program| program.is_integration_of(PACKAGE)) {
        report.add(run(program, &[], Some(arm))?);
    }
    report.finish()
}

/// The server that the tests have built, with debug assertions, and with the file checkers beside it. A
/// separate build of the server with the same profile would enable other features of its dependencies, and
/// so build everything again.
pub(crate) fn server() -> Result<Option<PathBuf>> {
    programs::build(&["--workspace"])?;
    let server = shell::target_dir().join("debug").join(SERVER);
    Ok(server.is_file().then_some(server))
}

/// Runs the tests whose names contain one of the words.
fn chosen(words: &[String]) -> Result<Ran> {
    let mut report = Report::default();
    for program in &programs::build(&["--workspace"])? {
        report.add(run(program, words, None)?);
    }
    report.finish()
}

/// Runs the server's tests in each of the arms; only those whose names contain one of the
/// words, if there are words.
pub(crate) fn in_arms(arms: &[&Arm], words: &[String]) -> Result<Ran> {
    let programs = programs::build(&["--package", PACKAGE])?;
    let mut report = Report::default();
    for arm in arms {
        for program in programs.iter().filter(|program| program.is_integration_of(PACKAGE)) {
            report.add(run(program, words, Some(arm))?);
        }
    }
    report.finish()
}

/// Runs the tests of a program whose names contain one of the words; without words, the tests of the arm,
/// or all if there is no arm.
fn run(program: &Program, words: &[String], arm: Option<&Arm>) -> Result<Outcome> {
    let threads = match program.is_integration_of(PACKAGE) {
        true => SERVER_THREADS,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let within = arm.map_or_else(String::new, |arm| format!(" in the arm {}", arm.name));
    println!("     Running {}{within}", program.title());
    let filters = match arm {
        Some(arm) if words.is_empty() => arm.filters(),
        _ => words.to_vec(),
    };
    let environment = arm.map_or(&[][..], |arm| arm.environment);
    harness::run(&Run { program, filters: &filters, environment, threads, arm: arm.map(|arm| arm.name) })
}

/// The totals of all programs.
#[derive(Default)]
struct Report {
    timings: Vec<(Duration, String)>,
    skipped: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        self.timings.extend(outcome.timings);
        self.skipped.extend(outcome.skipped);
        self.failed.extend(outcome.failed);
    }

    /// Prints skipped and slow tests; an error names the programs that failed.
    fn finish(mut self) -> Result<Ran> {
        self.timings.sort_by_key(|(taken, _)| std::cmp::Reverse(*taken));
        println!(
            "\n{} tests; the slowest, from start to end while others ran beside them:",
            self.timings.len()
        );
        for (taken, name) in self.timings.iter().take(SLOWEST) {
            println!("  {:>8}  {name}", shell::seconds(*taken));
        }
        if !self.skipped.is_empty() {
            println!("left out here:");
            self.skipped.iter().for_each(|line| println!("  {line}"));
        }
        match self.failed.as_slice() {
            [] => Ok(Ran::Passed),
            failed => Err(format!("failed: {}", failed.join(", ")).into()),
        }
    }
}

//! `cargo xtask fuzz`: runs the targets of `fuzz/`, limits their memory, and keeps the inputs that made a
//! target fail.
//!
//! Invariant: before the results of other targets count, the runner must find the planted faults: a
//! panic, and a process that aborts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use crate::args::Arguments;
use crate::error::{Error, Result};
use crate::shell::{self, Ran};

/// Memory that a target may map, KiB: enough for the program itself, but not for an unchecked length.
const MEMORY_KIB_MAX: u64 = 1024 * 1024;

/// Seconds within which a planted fault must be found; it is found in less than one.
const CANARY_SECONDS: u64 = 10;

/// The built fuzzer, and the folder of failing inputs.
struct Fuzzer {
    program: PathBuf,
    crashes: PathBuf,
}

/// The task: `[--seconds N] [--seed S] [--replay FILE] [target...]`; by default all targets,
/// for ten seconds each.
pub(crate) fn fuzz(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let seconds = arguments.number("--seconds", 10)?;
    let seed = arguments.number("--seed", shell::unix_seconds())?;
    let replay = arguments.option("--replay")?;
    let names = arguments.words()?;
    let fuzzer = Fuzzer::build()?;
    if let Some(file) = replay {
        let [target] = names.as_slice() else { return Err("--replay needs exactly one target".into()) };
        return shell::run(Command::new(&fuzzer.program).args(["replay", target, &file]));
    }
    fuzzer.check_canaries()?;
    let targets = if names.is_empty() { fuzzer.targets()? } else { names };
    fuzzer.run_all(&targets, seed, seconds)
}

/// Runs all targets with this seed, each for `seconds`, or for less if all together would take more than
/// `total_seconds` of processor time; each for at least 1 s.
pub(crate) fn smoke(seed: u64, [seconds, total_seconds]: [u64; 2]) -> Result<Ran> {
    let fuzzer = Fuzzer::build()?;
    fuzzer.check_canaries()?;
    let targets = fuzzer.targets()?;
    let share = total_seconds / (targets.len() as u64).max(1);
    fuzzer.run_all(&targets, seed, seconds.min(share).max(1))?;
    Ok(Ran::Passed)
}

impl Fuzzer {
    /// Builds the targets, optimised, with overflow checks and assertions.
    fn build() -> Result<Fuzzer> {
        let mut build = shell::cargo();
        build.args(["build", "--quiet", "--profile", "checked", "--package", "sluice-fuzz"]);
        shell::run(&mut build)?;
        let crashes = shell::target_dir().join("crashes");
        std::fs::create_dir_all(&crashes)?;
        Ok(Fuzzer { program: shell::target_dir().join("checked/sluice-fuzz"), crashes })
    }

    /// The names of the targets that must not fail.
    fn targets(&self) -> Result<Vec<String>> {
        let list = shell::output(Command::new(&self.program).arg("list"))?;
        Ok(list.lines().filter(|name| !name.starts_with("canary")).map(str::to_string).collect())
    }

    /// Fails unless the planted faults are found, with the input `canary!` that triggers them.
    fn check_canaries(&self) -> Result<()> {
        for name in ["canary", "canary-abort"] {
            let input = self.run(name, 1, CANARY_SECONDS)?.map(std::fs::read).transpose()?;
            if input.as_deref() != Some(b"canary!") {
                return Err(format!("the fuzzer did not find the fault planted in {name}").into());
            }
        }
        println!("fuzz: both planted faults were found");
        Ok(())
    }

    /// Runs the targets, one for each processor at a time; an error names the failed ones.
    fn run_all(&self, targets: &[String], seed: u64, seconds: u64) -> Result<()> {
        let (left, failed) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
        let worker = || {
            loop {
                let next = left.lock().ok().and_then(|mut left| left.next());
                let Some(target) = next else { return };
                let what = match self.run(target, seed, seconds) {
                    Ok(None) => continue,
                    Ok(Some(file)) => {
                        let file = file.display();
                        println!("{target}: `cargo xtask fuzz {target} --replay {file}` shows it again");
                        target.clone()
                    }
                    Err(error) => format!("{target} ({error})"),
                };
                if let Ok(mut failed) = failed.lock() {
                    failed.push(what);
                }
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
        let failed = failed.into_inner()?;
        if failed.is_empty() { Ok(()) } else { Err(format!("failing: {}", failed.join(", ")).into()) }
    }

    /// Runs one target; returns the file for the failing input if the run has failed. A run that died
    /// without leaving its input is repeated with every input written to disk first.
    fn run(&self, target: &str, seed: u64, seconds: u64) -> Result<Option<PathBuf>> {
        let file = self.crashes.join(format!("{target}-{seed}"));
        let _absent = std::fs::remove_file(&file);
        let output = self.start(target, seed, seconds, &file, &[])?;
        print(target, &output);
        match output.status.code() {
            Some(0) => return Ok(None),
            Some(2) => return Err(format!("no target is called {target}").into()),
            _ => {}
        }
        if !file.exists() {
            println!("{target}: the process ended ({}); repeating it with care", output.status);
            // The run gets forty times as long, because writing each input to disk is about twenty times
            // slower.
            self.start(target, seed, seconds.saturating_mul(40), &file, &["careful"])?;
        }
        Ok(Some(file))
    }

    /// Starts the fuzzer with limited memory, and waits for its end.
    fn start(&self, target: &str, seed: u64, seconds: u64, file: &Path, more: &[&str]) -> Result<Output> {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &MEMORY_KIB_MAX.to_string()])
            .arg(&self.program);
        command.args([target, &seed.to_string(), &seconds.to_string()]).arg(file).args(more);
        command.output().map_err(|error| -> Error { format!("{}: {error}", self.program.display()).into() })
    }
}

/// Prints the output of a run, except for the canaries, whose output would only alarm the reader.
fn print(target: &str, output: &Output) {
    if !target.starts_with("canary") {
        print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
}

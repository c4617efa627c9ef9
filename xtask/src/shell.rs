//! Runs other programs, measures the time of steps, and finds files in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::Result;

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask/ lies in the root").to_path_buf()
}

/// The folder of build outputs.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that started this program, or the one on the path.
///
/// The variables that cargo has set about our own package are removed, because the build script of `ring`
/// reads them, so `ring` and all crates that depend on it would be rebuilt at each change between `cargo
/// build` and `cargo xtask`.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command.current_dir(root());
    command
}

/// Runs `command` as a step.
pub(crate) fn pass(command: &mut Command) -> Result<Ran> {
    run(command).map(|()| Ran::Passed)
}

/// Runs `command` with our standard output; an error names the command and its exit status.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{}: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", line(command)).into()) }
}

/// Runs `command` and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", line(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The command as typed in a shell.
fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Whether a program of this name is on the path.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The present time, for measuring durations.
#[expect(
    clippy::disallowed_methods,
    reason = "automation measures itself; the product takes time as an argument"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, for records and default seeds.
pub(crate) fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Milliseconds since 1970, for comparison with the times of other programs.
pub(crate) fn unix_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "automation dates its records; the product takes time as an argument"
)]
fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Processor time of this process and of its ended children, including their ended children; `None` where
/// the system does not report it. On a busy machine, processor time divided by the number of processors
/// is more meaningful than elapsed time.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields are counted after the name, which may contain any characters: `utime`, `stime`, `cutime` and
    // `cstime` are the fields 14 to 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().ok());
    ticks
        .sum::<Option<u64>>()
        .map(|ticks| Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)))
}

/// The unit of processor time in `/proc`: `USER_HZ`, which is 100 on every system that Linux runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The result of a step that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// The step has run successfully.
    Passed,
    /// A requirement was missing; the step has printed which.
    Skipped,
}

/// Named steps with their times; later steps run even after a failed one.
pub(crate) struct Steps {
    began: Instant,
    failed: Vec<&'static str>,
}

impl Steps {
    /// Starts the clock; no step has run yet.
    pub(crate) fn new() -> Steps {
        Steps { began: now(), failed: Vec::new() }
    }

    /// Runs `step` and prints its duration, and its error if it has failed; returns its result, or `None`
    /// after an error.
    pub(crate) fn step(&mut self, name: &'static str, step: impl FnOnce() -> Result<Ran>) -> Option<Ran> {
        println!("== {name}");
        let (began, cpu_before) = (now(), processor_time());
        let result = step();
        let mut seconds = seconds(began.elapsed());
        if let (Some(before), Some(after)) = (cpu_before, processor_time()) {
            seconds.push_str(&format!(" ({:.1} s of processor time)", (after - before).as_secs_f64()));
        }
        match result {
            Ok(Ran::Passed) => println!("== {name}: passed in {seconds}"),
            Ok(Ran::Skipped) => println!("== {name}: skipped"),
            Err(error) => {
                println!("{error}\n== {name}: FAILED after {seconds}");
                self.failed.push(name);
                return None;
            }
        }
        result.ok()
    }

    /// Prints the total time; an error lists the failed steps.
    pub(crate) fn finish(self) -> Result<()> {
        let seconds = seconds(self.began.elapsed());
        if self.failed.is_empty() {
            println!("== all passed in {seconds}");
            return Ok(());
        }
        Err(format!("failed after {seconds}: {}", self.failed.join(", ")).into())
    }
}

/// A duration as text, in seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// The files of a folder whose names end with `end`, sorted. Errors: the folder cannot be read.
pub(crate) fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(end) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

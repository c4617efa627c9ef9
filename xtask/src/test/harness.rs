//! Runs a test program and parses the output of its harness, line by line: results, duration of each
//! test, skipped parts.
//!
//! The harness of stable Rust does not report durations. It reports the end of each test, starts tests in the
//! order of their names, and keeps a fixed number of tests running, so a test starts when an earlier one
//! ends. So the starts follow from the ends. The duration is elapsed time while other tests ran, exact to
//! about a millisecond.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::programs::Program;
use crate::error::Result;
use crate::shell;

/// The parameters of one run.
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    /// Parts of the names of the tests to run; empty: all tests.
    pub(super) filters: &'a [String],
    pub(super) environment: &'a [(&'static str, &'static str)],
    /// Number of tests that run in parallel.
    pub(super) threads: usize,
    /// The name of the arm; `None` for the default configuration.
    pub(super) arm: Option<&'static str>,
}

/// The result of one run.
#[derive(Default)]
pub(super) struct Outcome {
    /// The duration of each test, with the command that runs it.
    pub(super) timings: Vec<(Duration, String)>,
    /// Reasons for skipped parts, with the tests.
    pub(super) skipped: Vec<String>,
    /// The program, if one of its tests failed.
    pub(super) failed: Option<String>,
}

/// Runs the tests; prints results, failures and output that is not the harness's.
pub(super) fn run(run: &Run) -> Result<Outcome> {
    let mut command = Command::new(&run.program.path);
    command.args(run.filters).args(["--show-output", "--test-threads", &run.threads.to_string()]);
    command.envs(run.environment.iter().copied()).env("CARGO_MANIFEST_DIR", &run.program.folder);
    command.current_dir(&run.program.folder).stdout(Stdio::piped());
    let began = shell::now();
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", run.program.path.display()))?;
    let mut reader = Reader::default();
    for line in BufReader::new(child.stdout.take().ok_or("no output")?).split(b'\n') {
        let line = line?;
        if let Some(text) = reader.read(&String::from_utf8_lossy(&line), began.elapsed()) {
            println!("{text}");
        }
    }
    let status = child.wait()?;
    let name = match run.arm {
        Some(arm) => format!("{} (arm {arm})", run.program.short()),
        None => run.program.short(),
    };
    let mut outcome = Outcome::default();
    if !status.success() {
        println!("{name} ended with {status}");
        outcome.failed = Some(name.clone());
    }
    if reader.ends.is_empty() && reader.is_without_harness() {
        reader.ends.push((began.elapsed(), String::new()));
    }
    let timings = durations(&reader.ends, run.threads);
    outcome.timings = timings.into_iter().map(|(taken, test)| (taken, format!("{name} {test}"))).collect();
    outcome.skipped =
        reader.skipped.iter().map(|(why, tests)| format!("{name}: {why}: {}", tests.join(", "))).collect();
    Ok(outcome)
}

/// The duration of each test, computed from the ends of the tests, of which `threads` ran in parallel.
fn durations(ends: &[(Duration, String)], threads: usize) -> Vec<(Duration, String)> {
    let mut by_name: Vec<&(Duration, String)> = ends.iter().collect();
    by_name.sort_by(|a, b| a.1.cmp(&b.1));
    let taken = by_name.iter().enumerate().map(|(at, (end, name))| {
        // The first tests start at once, and each further test starts when another one has ended.
        let start =
            at.checked_sub(threads).and_then(|ended| ends.get(ended)).map_or(Duration::ZERO, |end| end.0);
        (end.saturating_sub(start), name.clone())
    });
    taken.collect()
}

/// The part of the harness's output in which a line is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Running,
    /// The output of successful tests.
    Successes,
    /// The output of failed tests, and everything after it.
    Failures,
}

/// Parses the output of one program.
#[derive(Default)]
struct Reader {
    part: Part,
    is_of_harness: bool,
    /// The end of each test, in order.
    ends: Vec<(Duration, String)>,
    /// The test whose output is being read, among the successes.
    test: String,
    /// Reasons for skipped parts, with the names of the tests.
    skipped: BTreeMap<String, Vec<String>>,
}

impl Reader {
    /// Takes a line that was read `after` the start of the program; returns the part of the line that is to
    /// be printed.
    fn read<'a>(&mut self, line: &'a str, after: Duration) -> Option<&'a str> {
        match (self.part, line) {
            (_, line) if line.starts_with("test result: ") => {
                self.part = Part::Running;
                Some(line)
            }
            (_, "failures:") => {
                self.part = Part::Failures;
                Some(line)
            }
            (Part::Running, "successes:") => {
                self.part = Part::Successes;
                None
            }
            (Part::Running, line) => self.read_running(line, after),
            (Part::Successes, line) => {
                if let Some(name) =
                    line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
                {
                    self.test = name.to_owned();
                } else if let Some(why) = line.strip_prefix("skipped: ") {
                    let tests = self.skipped.entry(why.to_owned()).or_default();
                    // A test may report the same reason at each of its steps.
                    if tests.last() != Some(&self.test) {
                        tests.push(self.test.clone());
                    }
                }
                None
            }
            (Part::Failures, line) => Some(line),
        }
    }

    fn read_running<'a>(&mut self, line: &'a str, after: Duration) -> Option<&'a str> {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.is_of_harness = true;
            return None;
        }
        let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        else {
            return (!line.is_empty()).then_some(line);
        };
        self.ends.push((after, name.trim_end_matches(" - should panic").to_owned()));
        (!result.starts_with("ok") && !result.starts_with("ignored")).then_some(line)
    }

    /// Whether the program has a `main` of its own. If so, it counts as one test.
    fn is_without_harness(&self) -> bool {
        !self.is_of_harness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn beginnings_follow_from_the_ends() {
        // Two tests run at a time: a and b start at 0, c when a ends, d when c ends.
        let ends = [(10, "a"), (15, "c"), (30, "b"), (45, "d")].map(|(at, name)| (ms(at), name.to_owned()));
        let taken: Vec<u128> = durations(&ends, 2).iter().map(|(taken, _)| taken.as_millis()).collect();
        assert_eq!(taken, [10, 30, 5, 30]);
        let in_a_row = durations(&[(ms(10), "a".to_owned()), (ms(30), "b".to_owned())], 1);
        assert_eq!(in_a_row, [(ms(10), "a".to_owned()), (ms(20), "b".to_owned())]);
    }

    #[test]
    fn results_failures_and_what_was_skipped_are_told_apart() {
        let output = "\nrunning 3 tests\ntest a::x ... ok\ntest a::y - should panic ... ok\ntest b ... FAILED\n\nsuccesses:\n\n\
                      ---- a::x stdout ----\nskipped: no disk\nnoise\nskipped: no disk\n\nsuccesses:\n    a::x\n\nfailures:\n\n\
                      ---- b stdout ----\nwhy\n\ntest result: FAILED. 2 passed\n";
        let mut reader = Reader::default();
        let printed: Vec<&str> = output.lines().filter_map(|line| reader.read(line, ms(1))).collect();
        assert_eq!(
            printed,
            [
                "test b ... FAILED",
                "failures:",
                "",
                "---- b stdout ----",
                "why",
                "",
                "test result: FAILED. 2 passed"
            ]
        );
        assert_eq!(reader.ends.iter().map(|end| end.1.as_str()).collect::<Vec<_>>(), ["a::x", "a::y", "b"]);
        assert_eq!(reader.skipped["no disk"], ["a::x"]);
    }

    #[test]
    fn a_program_with_a_main_of_its_own_is_one_test() {
        let mut reader = Reader::default();
        assert_eq!(reader.read("it holds", ms(1)), Some("it holds"));
        assert!(reader.is_without_harness() && reader.ends.is_empty());
    }
}

//! Programs that read and write through real client libraries while their cluster changes.
//!
//! A program is started as `PROGRAM MODE PORT...`, with the ports of nodes. In mode `default`, no option of
//! the library is set. In mode `quiet`, the library requests no maintenance notifications. In mode `tuned`,
//! it has the settings that docs/moving-in.md recommends for primaries that die (go-redis, Lettuce).
//!
//! Three workers share the program's client, one for each third of the slots. Each worker has 64 keys of four
//! slots. In each turn a worker writes one of its keys, reads the key whose turn is 32 turns away, and pauses
//! for 2 ms. A value is the key and a number that grows. A read must find the write that was acknowledged
//! last, or a write that has failed and may have been done. The program's output has these lines:
//!
//! ```text
//! ready VERSION                          at the beginning, once
//! error UNIX_MS WORKER SET|GET TEXT      a call that failed: an error that has reached the application
//! lost UNIX_MS WORKER KEY N in place of M    a read has found an older write than the acknowledged one
//! wrong UNIX_MS WORKER KEY TEXT          a read has found what was never written to the key
//! report WRITES READS GAP_MS UNIX_MS     after each line of input: successes since the last report, the
//!                                        longest time without one of any worker, and its beginning
//! ```
//!
//! The program ends when its input ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::error::Result;
use crate::shell;

/// Libraries that have a program.
pub(crate) const LIBRARIES: [&str; 9] =
    ["redis-py", "valkey-py", "node-redis", "ioredis", "go-redis", "rueidis", "jedis", "lettuce", "redis-rs"];
/// Suffix of the name of a program, as in `go-redis-loop`.
pub(crate) const SUFFIX: &str = "-loop";
/// Maximum time until a program's next line; runtimes such as the JVM are slow if several start in parallel.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program.
struct Loop {
    name: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// The file with the program's standard error.
    complaints: PathBuf,
}

/// Running programs, which are ended when the value is dropped.
pub(crate) struct Loops {
    all: Vec<Loop>,
}

/// A program's report about the time since the previous report.
#[derive(Default)]
pub(crate) struct Found {
    /// The name of the library.
    pub(crate) name: String,
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    /// The longest time of any worker without success; `gap_at_ms` is the beginning of that time.
    pub(crate) gap_ms: u64,
    pub(crate) gap_at_ms: u64,
    /// Failed calls: time (Unix ms) and text of each.
    pub(crate) errors: Vec<(u64, String)>,
    /// Acknowledged writes that a later read has missed.
    pub(crate) lost: Vec<String>,
    /// Values that were read, although no program wrote them to the key.
    pub(crate) wrong: Vec<String>,
}

/// The name of a library's program.
pub(crate) fn of(library: &str) -> String {
    library.to_owned() + SUFFIX
}

impl Loops {
    /// Starts the programs with these names, or all, and waits until each of them has written and read. A
    /// library that is not installed is left out with a note.
    pub(crate) fn start(names: &[String], mode: &str, ports: &[String]) -> Result<Loops> {
        let mut run = Command::new(shell::root().join("e2e/clients/run"));
        run.env("SLUICE_CLIENTS_CACHE", shell::target_dir().join("e2e"));
        let programs = shell::output(run.arg("--programs").args(names))?;
        let mut loops = Loops { all: Vec::new() };
        for line in programs.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let [name, program, rest @ ..] = words.as_slice() else {
                return Err(format!("no program: {line}").into());
            };
            let mut command = Command::new(program);
            command.args(rest).arg(mode).args(ports);
            let name = name.strip_suffix(SUFFIX).unwrap_or(name);
            loops.all.push(Loop::start(name, &mut command)?);
        }
        for one in &mut loops.all {
            one.wait_for("ready", &mut Found::default())?;
        }
        // In this time each program writes each of its keys, which sets up its caches and connections.
        std::thread::sleep(Duration::from_secs(1));
        for found in loops.report()? {
            found.has_been_well()?;
        }
        Ok(loops)
    }

    /// Whether no program is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The reports of all programs.
    pub(crate) fn report(&mut self) -> Result<Vec<Found>> {
        self.all.iter_mut().map(Loop::report).collect()
    }
}

impl Loop {
    fn start(name: &str, command: &mut Command) -> Result<Loop> {
        let complaints = std::env::temp_dir().join(format!("sluice-{name}-{}.err", std::process::id()));
        let file = File::create(&complaints)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        let (sender, lines) = channel();
        // The thread ends when the program's output ends.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Loop { name: name.to_owned(), child, input, lines, complaints })
    }

    fn report(&mut self) -> Result<Found> {
        self.input.write_all(b"\n").map_err(|error| format!("{} has ended: {error}", self.name))?;
        let mut found = Found { name: self.name.clone(), ..Found::default() };
        let report = self.wait_for("report", &mut found)?;
        let numbers: Vec<u64> = report.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [writes, reads, gap_ms, gap_at_ms] = numbers[..] else {
            return Err(format!("{}: {report}", self.name).into());
        };
        (found.writes, found.reads, found.gap_ms, found.gap_at_ms) = (writes, reads, gap_ms, gap_at_ms);
        Ok(found)
    }

    /// The rest of the next line that begins with a word. Lines before it are added to `found`.
    fn wait_for(&mut self, word: &str, found: &mut Found) -> Result<String> {
        let mut last = String::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                let text = std::fs::read_to_string(&self.complaints).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(15)..].join("\n");
                let name = &self.name;
                return Err(format!("{name} does not say {word:?}, or has ended; last: {last}\n{end}").into());
            };
            let (kind, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match kind {
                _ if kind == word => return Ok(rest.to_owned()),
                "error" => {
                    let (at, text) = rest.split_once(' ').unwrap_or(("0", rest));
                    found.errors.push((at.parse()?, text.to_owned()));
                }
                "lost" => found.lost.push(rest.to_owned()),
                "wrong" => found.wrong.push(rest.to_owned()),
                // Any other line may be one that the library prints; the last such line is kept for an
                // error message.
                _ => last = line,
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        let _left = std::fs::remove_file(&self.complaints);
    }
}

impl Found {
    /// Adds a later report.
    pub(crate) fn add(&mut self, later: Found) {
        self.writes += later.writes;
        self.reads += later.reads;
        if later.gap_ms > self.gap_ms {
            (self.gap_ms, self.gap_at_ms) = (later.gap_ms, later.gap_at_ms);
        }
        self.errors.extend(later.errors);
        self.lost.extend(later.lost);
        self.wrong.extend(later.wrong);
    }

    /// Whether the program has written and read, no call has failed, and no worker was without success for as
    /// long as `within`.
    pub(crate) fn is_well(&self, within: Duration) -> bool {
        let is_stuck = u128::from(self.gap_ms) >= within.as_millis();
        !is_stuck && self.errors.is_empty() && self.writes > 0 && self.reads > 0
    }

    /// An error if the program has reported anything but success.
    pub(crate) fn has_been_well(&self) -> Result<()> {
        let Found { name, writes, reads, errors, .. } = self;
        if *writes == 0 || *reads == 0 || !errors.is_empty() {
            let (count, first) = (errors.len(), errors.first());
            let text =
                format!("{name}: {writes} writes, {reads} reads, {count} errors, the first: {first:?}");
            return Err(text.into());
        }
        self.has_lost_nothing()
    }

    /// An error if a read has found a wrong value, or has missed an acknowledged write.
    pub(crate) fn has_lost_nothing(&self) -> Result<()> {
        self.has_read_no_other()?;
        match self.lost.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} has lost {} acknowledged writes, the first: {first}",
                self.name,
                self.lost.len()
            )
            .into()),
        }
    }

    /// An error if a read has found a value that was never written to its key.
    pub(crate) fn has_read_no_other(&self) -> Result<()> {
        match self.wrong.first() {
            None => Ok(()),
            Some(first) => {
                Err(format!("{} has had {} wrong answers, the first: {first}", self.name, self.wrong.len())
                    .into())
            }
        }
    }

    /// The errors by kind: the number of each, and the milliseconds from `since_ms` to its
    /// first and last.
    pub(crate) fn kinds(&self, since_ms: u64) -> Vec<String> {
        let mut kinds: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (at, text) in &self.errors {
            // The number of the worker, which comes first in the text, is left out.
            let (_, text) = text.split_once(' ').unwrap_or(("", text));
            let after = i64::try_from(*at).unwrap_or(0) - i64::try_from(since_ms).unwrap_or(0);
            kinds.entry(text.to_owned()).or_default().push(after);
        }
        let kind = |(text, times): (String, Vec<i64>)| {
            let (first, last) = (times.iter().min().unwrap_or(&0), times.iter().max().unwrap_or(&0));
            format!("{} from {first} to {last} ms: {text}", times.len())
        };
        kinds.into_iter().map(kind).collect()
    }
}

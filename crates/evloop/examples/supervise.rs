//! A supervisor that uses nothing but the event loop:
//! `cargo run -p sluice-evloop --example supervise -- LOG COMMAND` runs a shell command, keeps its output in
//! a log, starts it again when it fails, and ends a run that takes too long.
//!
//! ```text
//!  child ──stdout──► FIFO ──read──► lines ──write at an offset──► log ──data sync, 20 ms later──► disk
//!    │  ▲                ▲                                          │
//!    │  └─ its input:    └── a mark, written here when the child    └── digest, on a thread of the pool
//!    │     watched until     has ended: all it said is before it
//!    │     it is writable; a line after each sync
//!    └─ awaited; timers: patience with one run, pause before the next
//! ```
//!
//! The tests run [`supervise`] on every driver (`tests/it/supervise.rs`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use sluice_evloop::{
    AnyLoop, Backend, Cancel, Config, Deadline, Event, Exit, FileDone, FileId, FileOp, FileOpId, Interest,
    JobOutcome, JobState, Mailbox, ProcessId, Source, TimerId, Token, WorkerPool,
};

/// The command to supervise, and its limits.
pub struct Plan {
    /// Path of the output; a FIFO lies beside it during the supervision.
    pub log: PathBuf,
    /// The shell script. It reads a line with the number of the run, and one line after each
    /// sync of the log.
    pub script: String,
    /// Maximum number of runs.
    pub runs_max: u32,
    /// Pause before the second run, ms; it doubles with each further run.
    pub pause_ms: u64,
    /// Maximum duration of a run, ms.
    pub patience_ms: u64,
}

/// The result of a supervision.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For each run, the exit code, or the negated number of the signal that ended it.
    pub ended: Vec<i32>,
    /// Bytes of the log.
    pub bytes: u64,
    /// Syncs of the log before its end.
    pub syncs: u32,
    /// The digest of the log, computed by a thread of the pool.
    pub digest: u64,
    /// Jobs that the pool has accepted.
    pub jobs: u64,
}

const OUTPUT: Token = Token(1);
const MARK: Token = Token(2);
const WRITTEN: Token = Token(3);
const SYNCED: Token = Token(4);
const CHILD: Token = Token(5);
const COMPANION: Token = Token(6);
const INPUT: Token = Token(7);
const PATIENCE: Token = Token(8);
const RESTART: Token = Token(9);
const SYNC: Token = Token(10);
const DIGEST: Token = Token(11);

/// A mark that no line of text of a child contains.
const END_OF_RUN: &[u8] = b"\0end\n";
/// Maximum time that bytes wait for a sync, ms.
const SYNC_AFTER_MS: u64 = 20;

/// A supervision under way.
struct Supervisor<'a> {
    lp: &'a mut AnyLoop,
    plan: &'a Plan,
    outcome: Outcome,
    fifo: FileId,
    /// The FIFO opened a second time, for writing, because operations of one file wait for each other, and a
    /// read may wait for long.
    marks: FileId,
    log: FileId,
    reading: Option<FileOpId>,
    /// Output of an unfinished line.
    line: Vec<u8>,
    /// Unfinished operations of the log.
    under_way: u32,
    sync: Option<TimerId>,
    patience: Option<TimerId>,
    child: Option<i32>,
    /// Input of the child, until the number of its run is written.
    input: Option<(Source, UnixStream)>,
    /// Input of the child afterwards.
    told: Option<UnixStream>,
    /// No run is under way, and no other follows.
    is_over: bool,
}

/// Runs the plan.
///
/// # Errors
/// Errors of files, of processes, of the thread pool and of the event loop itself.
pub fn supervise(lp: &mut AnyLoop, plan: &Plan) -> io::Result<Outcome> {
    let fifo = Fifo::beside(&plan.log)?;
    let log = File::create(&plan.log)?;
    // The FIFO is opened for reading and writing, so that it does not end when a child closes it.
    let fifo_id = lp.file_open(OwnedFd::from(fifo.open()?));
    let marks = lp.file_open(OwnedFd::from(fifo.open()?));
    let log = lp.file_open(OwnedFd::from(log));
    // The companion runs as long as the supervision. At the end, the wait for it is cancelled, and it is
    // killed.
    let mut companion = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()?;
    let companion_wait = lp.process_wait(id_of(&companion), COMPANION);
    let mut supervisor = Supervisor {
        lp,
        plan,
        outcome: Outcome::default(),
        fifo: fifo_id,
        marks,
        log,
        reading: None,
        line: Vec::new(),
        under_way: 0,
        sync: None,
        patience: None,
        child: None,
        input: None,
        told: None,
        is_over: false,
    };
    let ended = supervisor.run(&fifo, companion_wait);
    companion.kill()?;
    companion.wait()?;
    ended?;
    supervisor.digest()?;
    Ok(supervisor.outcome)
}

impl Supervisor<'_> {
    fn run(&mut self, fifo: &Fifo, companion_wait: ProcessId) -> io::Result<()> {
        self.read_on(vec![0; 4096]);
        self.start(fifo)?;
        // Whether the read of the FIFO and the wait for the companion were cancelled, and whether the
        // companion's wait has ended.
        let (mut asked, mut companion_left) = (false, false);
        while !(companion_left && self.reading.is_none()) {
            if self.is_over && self.under_way == 0 && !asked {
                asked = true;
                self.lp.process_cancel(companion_wait);
                self.reading.into_iter().for_each(|id| self.lp.file_cancel(id));
            }
            let _ = self.lp.wait(now_ns(), Deadline::NEVER)?;
            while let Some(event) = self.lp.next_event(now_ns()) {
                match event {
                    Event::FileDone { token: OUTPUT, done } => self.output(done)?,
                    Event::FileDone { token: WRITTEN, done } => {
                        self.under_way -= 1;
                        done.error.map_or(Ok(()), Err)?;
                        self.outcome.bytes += done.bytes as u64;
                    }
                    Event::FileDone { token: SYNCED, done } => {
                        self.under_way -= 1;
                        done.error.map_or(Ok(()), Err)?;
                        if !self.is_over {
                            self.outcome.syncs += 1;
                            // A child that does not read misses the lines that do not fit its socket.
                            self.told.iter_mut().for_each(|child| drop(child.write(b"synced\n")));
                        }
                    }
                    Event::FileDone { done, .. } => done.error.map_or(Ok(()), Err)?,
                    Event::ProcessEnded { token: COMPANION, exit, .. } => {
                        companion_left = true;
                        if !matches!(exit, Exit::Cancelled) {
                            return Err(io::Error::other(format!("the companion left: {exit:?}")));
                        }
                    }
                    Event::ProcessEnded { exit, .. } => self.child_ended(exit)?,
                    Event::Ready { ready, .. } => self.give_input(ready)?,
                    Event::Timer { token: PATIENCE, .. } => {
                        self.patience = None;
                        self.child
                            .and_then(Pid::from_raw)
                            .map_or(Ok(()), |pid| kill_process(pid, Signal::KILL))?;
                    }
                    Event::Timer { token: SYNC, .. } => {
                        self.sync = None;
                        self.under_way += 1;
                        self.lp.file_start(self.log, FileOp::sync_data(), SYNCED);
                    }
                    Event::Timer { .. } => self.start(fifo)?,
                    other => return Err(io::Error::other(format!("nobody asked for {other:?}"))),
                }
            }
        }
        for file in [self.fifo, self.marks, self.log] {
            self.lp.file_close(file);
        }
        // Every timer has fired or was cancelled.
        match self.lp.timers_len() {
            0 => Ok(()),
            left => Err(io::Error::other(format!("{left} timers are left"))),
        }
    }

    /// Starts the next run.
    fn start(&mut self, fifo: &Fifo) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new("sh")
            .args(["-c", &self.plan.script])
            .stdin(OwnedFd::from(theirs))
            // Opening the FIFO only for writing succeeds at once, because `supervise` has it open for
            // reading.
            .stdout(File::options().write(true).open(&fifo.0)?)
            .spawn()?;
        self.child = Some(id_of(&child));
        self.lp.process_wait(id_of(&child), CHILD);
        let source = self.lp.attach(OwnedFd::from(ours.try_clone()?), INPUT);
        self.lp.watch(source, Interest::WRITABLE.or(Interest::PRIORITY));
        self.input = Some((source, ours));
        self.patience = Some(self.lp.timer_at(in_ms(self.plan.patience_ms), PATIENCE));
        Ok(())
    }

    /// Called when the child's input can take bytes, or when its reader is gone.
    fn give_input(&mut self, ready: Interest) -> io::Result<()> {
        let Some((source, mut stream)) = self.input.take() else { return Ok(()) };
        let is_gone = ready.intersects(Interest::ERROR.or(Interest::HANGUP));
        if !is_gone && !ready.and(Interest::WRITABLE).is_empty() {
            let line = format!("{}\n", self.outcome.ended.len() + 1);
            match stream.write_all(line.as_bytes()) {
                // The child may end without reading.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        self.lp.close(source);
        self.told = Some(stream);
        Ok(())
    }

    fn read_on(&mut self, buf: Vec<u8>) {
        self.reading = Some(self.lp.file_start(self.fifo, FileOp::read_some(buf), OUTPUT));
    }

    /// Takes output of the child, and the mark after it.
    fn output(&mut self, FileDone { buf, bytes, error, .. }: FileDone) -> io::Result<()> {
        self.reading = None;
        self.line.extend_from_slice(buf.get(..bytes).unwrap_or_default());
        match error {
            Some(error) if error.raw_os_error() == Some(libc::ECANCELED) && self.is_over => return Ok(()),
            Some(error) => return Err(error),
            None => {}
        }
        let (mut text, mut has_ended) = (Vec::new(), false);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            // The last line of the child may lack a line break.
            match line.strip_suffix(END_OF_RUN) {
                None => text.extend([format!("{}: ", self.run_number()).as_bytes(), &line].concat()),
                Some(rest) => {
                    has_ended = true;
                    if !rest.is_empty() {
                        text.extend([format!("{}: ", self.run_number()).as_bytes(), rest, b"\n"].concat());
                    }
                }
            }
        }
        self.write(text);
        if has_ended {
            self.run_ended();
        }
        if !self.is_over {
            self.read_on(buf);
        }
        Ok(())
    }

    /// The number of the run whose output is being read. A child that has ended is already in `ended` while
    /// its last output is read.
    fn run_number(&self) -> usize {
        self.outcome.ended.len() + usize::from(self.child.is_some())
    }

    /// Appends to the log and schedules a sync.
    fn write(&mut self, text: Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.under_way += 1;
        // Operations of one file run in order, so the descriptor's position is the end.
        self.lp.file_start(self.log, FileOp::write(text), WRITTEN);
        if self.sync.is_none() {
            self.sync = Some(self.lp.timer_at(in_ms(SYNC_AFTER_MS), SYNC));
        }
    }

    fn child_ended(&mut self, exit: Exit) -> io::Result<()> {
        self.child = None;
        self.outcome.ended.push(match exit {
            Exit::Exited { code, .. } => code,
            Exit::Killed { signal, .. } => -signal,
            Exit::Failed(error) => return Err(error),
            Exit::NoChild | Exit::Cancelled => return Err(io::Error::other("somebody else has waited")),
        });
        self.patience.take().and_then(|timer| self.lp.timer_cancel(timer));
        if let Some((source, _)) = self.input.take() {
            self.lp.close(source);
        }
        self.told = None;
        self.lp.file_start(self.marks, FileOp::write(END_OF_RUN.to_vec()), MARK);
        Ok(())
    }

    /// Called when all output of a child has been read.
    fn run_ended(&mut self) {
        let runs = self.outcome.ended.len() as u32;
        if self.outcome.ended.last() == Some(&0) || runs >= self.plan.runs_max {
            self.is_over = true;
            self.sync.take().and_then(|timer| self.lp.timer_cancel(timer));
            self.under_way += 1;
            self.lp.file_start(self.log, FileOp::sync(), SYNCED);
        } else {
            self.lp.timer_at(in_ms(self.plan.pause_ms << (runs - 1).min(10)), RESTART);
        }
    }

    /// Has a thread of the pool read the log again. A second job, which would never end, is cancelled.
    fn digest(&mut self) -> io::Result<()> {
        let (threads, queue_max) = WorkerPool::DEFAULT;
        let pool = WorkerPool::open(threads, queue_max)?;
        let (sender, mut mailbox) = Mailbox::new(self.lp.waker());
        let path = self.plan.log.clone();
        let refused = |why| io::Error::other(format!("the pool takes no job: {why:?}"));
        pool.submit(&sender, DIGEST, move |_: &Cancel| digest_of(&path))
            .map_err(|refused_job| refused(refused_job.why))?;
        let endless = move |cancel: &Cancel| {
            while !cancel.is_requested() {
                std::hint::spin_loop();
            }
            Ok(0)
        };
        let endless =
            pool.submit(&sender, PATIENCE, endless).map_err(|refused_job| refused(refused_job.why))?;
        let mut left = 2;
        while left > 0 {
            let waited = self.lp.wait(now_ns(), in_ms(1000))?;
            for finished in waited.woken.then(|| mailbox.drain()).into_iter().flatten() {
                left -= 1;
                match finished.outcome {
                    JobOutcome::Done(digest) if finished.token == DIGEST => self.outcome.digest = digest?,
                    JobOutcome::Done(_) | JobOutcome::Cancelled => {}
                    JobOutcome::Panicked(message) => return Err(io::Error::other(message)),
                }
            }
            if left == 1 && endless.state() != JobState::Done {
                endless.cancel();
            }
        }
        pool.close();
        self.outcome.jobs = pool.statistics().calls;
        Ok(())
    }
}

/// FNV-1a of a file.
fn digest_of(path: &Path) -> io::Result<u64> {
    let (mut file, mut piece, mut sum) = (File::open(path)?, [0; 4096], 0xcbf2_9ce4_8422_2325);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(sum),
            len => sum = fnv(sum, &piece[..len]),
        }
    }
}

fn fnv(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A FIFO that is removed on drop.
struct Fifo(PathBuf);

impl Fifo {
    fn beside(log: &Path) -> io::Result<Fifo> {
        let path = log.with_extension("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)?;
        Ok(Fifo(path))
    }

    fn open(&self) -> io::Result<File> {
        File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&self.0)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn id_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(-1)
}

fn in_ms(ms: u64) -> Deadline {
    Deadline::at_ns(now_ns() + ms * 1_000_000)
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[allow(dead_code, reason = "the tests have another")]
fn main() -> io::Result<()> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [log, script] = words.as_slice() else { return Err(io::Error::other("wanted: LOG COMMAND")) };
    let script = script.to_string_lossy().into_owned();
    let plan = Plan { log: log.into(), script, runs_max: 5, pause_ms: 100, patience_ms: 10_000 };
    #[cfg(target_os = "linux")]
    let backends = [Backend::IoUring, Backend::Epoll, Backend::Poll];
    #[cfg(not(target_os = "linux"))]
    let backends = [Backend::Poll];
    let opened = AnyLoop::first_of(&backends, &Config::default())?;
    let mut lp = opened.event_loop;
    println!("event loop {}: {}", lp.name(), opened.reason);
    println!("{:?}", supervise(&mut lp, &plan)?);
    Ok(())
}

//! MIGRATE's connections to other servers: a thread for each migration under way, and idle threads and
//! connections that are kept for later migrations.
//!
//! Invariants: (1) the main thread never waits for these threads; inside a transaction the main thread itself
//! performs the migration; (2) one migration at a time uses a connection: the connection is taken out of the
//! cache, and put back after all of its requests were answered; (3) the cache keeps at most [`KEPT_MAX`]
//! connections, each for ten seconds after its last use; (4) a send or reply that exceeds the client's
//! timeout ends the connection; (5) a thread performs one migration at a time, and ends ten seconds after its
//! last migration. It does not end at once, because starting a thread takes as long as moving ten small keys,
//! and tools move ten keys at a time.

use crate::net::{BlockingStream, ConnectPlan, Stream};
use crate::threads::Thread;
use sluice_commands::{Migration, MigrationOutcome};
use sluice_evloop::Waker;
use sluice_tls::Context;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The threads of migrations, and the kept connections.
pub struct Migrator {
    kept: Arc<KeptLinks>,
    sender: Sender<(u64, MigrationOutcome)>,
    receiver: Receiver<(u64, MigrationOutcome)>,
    /// The migrations that have not ended, each with the sender to its thread; `None` if no thread could be
    /// started.
    running: HashMap<u64, Option<Sender<MigrationJob>>>,
    /// Threads without a migration. The thread that was used last is at the end.
    idle: Vec<IdleThread>,
    waker: Waker,
    /// When kept connections were last checked, seconds of the monotonic clock.
    looked_s: u64,
}

/// A migration that a thread is to perform.
struct MigrationJob {
    migration: Migration,
    source: MigrationSource,
}

/// A thread that waits for its next migration; it ends when all senders to it are dropped.
struct IdleThread {
    jobs: Sender<MigrationJob>,
    /// Seconds since the thread's last migration, as counted by `tick`.
    age_s: u64,
}

/// Kept connections that no migration uses, by host and port.
#[derive(Default)]
pub struct KeptLinks(Mutex<HashMap<(String, u16), KeptLink>>);

struct KeptLink {
    link: TargetLink,
    /// Seconds since the connection's last use, as counted by `tick`.
    age_s: u64,
}

/// How connections to other servers are made.
#[derive(Clone)]
pub struct MigrationSource {
    /// The local address from which connections are made; empty for any address.
    pub address: String,
    /// The TLS context; `None` for plain connections.
    pub tls: Option<Context>,
}

/// A connection to another server.
struct TargetLink {
    stream: BlockingStream,
    /// The database selected on the target; `None` if not known.
    db: Option<i64>,
    /// Received bytes after the last line that was read.
    input: Vec<u8>,
}

impl KeptLinks {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, u16), KeptLink>> {
        // The lock is never poisoned, because a panic ends the process.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of kept connections.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Closes all kept connections, because the settings with which connections are made have changed.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn take(&self, target: &(String, u16)) -> Option<TargetLink> {
        self.lock().remove(target).map(|kept| kept.link)
    }

    fn put(&self, target: (String, u16), link: TargetLink) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX
            && let Some(oldest) =
                kept.iter().max_by_key(|(_, kept)| kept.age_s).map(|(target, _)| target.clone())
        {
            kept.remove(&oldest);
        }
        kept.insert(target, KeptLink { link, age_s: 0 });
    }

    fn grow_older(&self, seconds: u64) {
        self.lock().retain(|_, kept| {
            kept.age_s += seconds;
            kept.age_s <= KEPT_S
        });
    }
}

impl Migrator {
    pub fn new(kept: Arc<KeptLinks>, waker: Waker) -> Migrator {
        let (sender, receiver) = channel();
        let (running, idle) = (HashMap::new(), Vec::new());
        Migrator { kept, sender, receiver, running, idle, waker, looked_s: 0 }
    }

    /// Begins a migration, on an idle thread or a new thread. If no thread can be started, the migration
    /// ends with an error.
    pub fn begin(&mut self, migration: Migration, source: MigrationSource) {
        let id = migration.id;
        let job = MigrationJob { migration, source };
        let jobs = match self.idle.pop() {
            Some(IdleThread { jobs, .. }) => Some(jobs),
            None => self.start_thread(),
        };
        // The send to an idle thread succeeds, because a thread receives for as long as there is a sender.
        let is_begun = jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !is_begun {
            // The client gets the error for an unreachable target.
            let error = Some(MigrationStep::Connecting.text());
            let _ = self.sender.send((id, MigrationOutcome { taken: Vec::new(), error }));
        }
        self.running.insert(id, jobs);
    }

    /// Starts a thread; `None` if it cannot be started.
    fn start_thread(&self) -> Option<Sender<MigrationJob>> {
        let (jobs, next) = channel::<MigrationJob>();
        let (kept, sender, waker) = (self.kept.clone(), self.sender.clone(), self.waker.clone());
        let started = Thread::Migrate.start(move || {
            for MigrationJob { migration, source } in next {
                let (id, outcome) = (migration.id, run(&migration, &source, &kept));
                // Large values are freed on this thread, so that the main thread need not free them.
                drop(migration);
                if sender.send((id, outcome)).is_ok() {
                    waker.wake();
                }
            }
        });
        started.is_ok().then_some(jobs)
    }

    /// Whether no migration is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The next finished migration, with its outcome.
    pub fn ended(&mut self) -> Option<(u64, MigrationOutcome)> {
        if self.running.is_empty() {
            return None;
        }
        let (id, outcome) = self.receiver.try_recv().ok()?;
        let jobs = self.running.remove(&id).flatten();
        self.idle.extend(jobs.map(|jobs| IdleThread { jobs, age_s: 0 }));
        Some((id, outcome))
    }

    /// Closes connections and ends threads that have been unused for more than `KEPT_S`. `now_s`: seconds
    /// of the monotonic clock.
    pub fn tick(&mut self, now_s: u64) {
        if now_s > self.looked_s {
            let seconds = now_s - self.looked_s;
            self.kept.grow_older(seconds);
            self.idle.iter_mut().for_each(|idle| idle.age_s += seconds);
            self.idle.retain(|idle| idle.age_s <= KEPT_S);
            self.looked_s = now_s;
        }
    }
}

/// The step at which a migration failed, for the client's error text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MigrationStep {
    Connecting,
    Writing,
    Reading,
}

impl MigrationStep {
    fn text(self) -> Vec<u8> {
        match self {
            MigrationStep::Connecting => b"IOERR error or timeout connecting to the client".to_vec(),
            MigrationStep::Writing => b"IOERR error or timeout writing to target instance".to_vec(),
            MigrationStep::Reading => b"IOERR error or timeout reading to target instance".to_vec(),
        }
    }
}

/// A failure of the connection to the target.
struct Broken {
    step: MigrationStep,
    is_timeout: bool,
}

impl Broken {
    fn at(step: MigrationStep) -> impl Fn(io::Error) -> Broken {
        move |error| Broken {
            step,
            is_timeout: matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Performs a migration on the calling thread. Connecting to each address of the target, each send and
/// each receive may take as long as the migration's timeout.
pub fn run(migration: &Migration, source: &MigrationSource, kept: &KeptLinks) -> MigrationOutcome {
    let mut outcome = MigrationOutcome::default();
    for is_last in [false, true] {
        let Err(Broken { step, is_timeout }) = attempt(migration, source, kept, &mut outcome) else {
            return outcome;
        };
        // A kept connection may have ended long ago, so a failed first attempt is repeated, except in the
        // following cases.
        if is_last
            || is_timeout
            || step == MigrationStep::Connecting
            || !outcome.taken.is_empty()
            || outcome.error.is_some()
        {
            outcome.error.get_or_insert_with(|| step.text());
            break;
        }
    }
    outcome
}

fn attempt(
    migration: &Migration,
    source: &MigrationSource,
    kept: &KeptLinks,
    outcome: &mut MigrationOutcome,
) -> Result<(), Broken> {
    let timeout = Duration::from_millis(migration.timeout_ms);
    let target = (migration.host.clone(), migration.port);
    let mut link = match kept.take(&target) {
        Some(link) => link,
        None => open(migration, source, timeout)?,
    };
    let writing = Broken::at(MigrationStep::Writing);
    link.stream.set_timeout(timeout).map_err(&writing)?;
    let mut out = Vec::new();
    let authenticates = migration.push_auth(&mut out);
    let selects = link.db != Some(migration.db);
    if selects {
        migration.push_select(&mut out);
    }
    for number in 0..migration.key_count() {
        migration.push_restore(number, &mut out);
        if out.len() >= SENT_AT_ONCE_BYTES {
            link.stream.write_all(&out).map_err(&writing)?;
            out.clear();
        }
    }
    link.stream.write_all(&out).map_err(&writing)?;
    let reading = Broken::at(MigrationStep::Reading);
    let auth = if authenticates { link.line().map_err(&reading)? } else { b"+".to_vec() };
    let select = if selects { link.line().map_err(&reading)? } else { b"+".to_vec() };
    for number in 0..migration.key_count() {
        let restore = link.line().map_err(&reading)?;
        match [&auth, &select, &restore].into_iter().find(|line| line.starts_with(b"-")) {
            None => outcome.taken.push(number),
            Some(line) => {
                let told = || [b"ERR Target instance replied with error: ", &line[1..]].concat();
                outcome.error.get_or_insert_with(told);
            }
        }
    }
    link.db = outcome.error.is_none().then_some(migration.db);
    kept.put(target, link);
    Ok(())
}

fn open(migration: &Migration, source: &MigrationSource, timeout: Duration) -> Result<TargetLink, Broken> {
    let (host, port) = (migration.host.clone(), migration.port);
    let MigrationSource { address, tls } = source.clone();
    let plan = ConnectPlan { host, port, source: address, timeout, tls };
    let stream = Stream::connect(&plan).map_err(|error| Broken {
        // A refused connection is reported as an error of writing, because the reference detects the
        // refusal only when it writes.
        step: if error.kind() == ErrorKind::ConnectionRefused {
            MigrationStep::Writing
        } else {
            MigrationStep::Connecting
        },
        is_timeout: false,
    })?;
    let stream = stream.block().map_err(Broken::at(MigrationStep::Connecting))?;
    // As in the reference, database -1 counts as selected at first, so any other database is selected.
    Ok(TargetLink { stream, db: Some(-1), input: Vec::new() })
}

impl TargetLink {
    /// The next line of the target's reply, without its line end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let rest = self.input.split_off(end + 1);
                let line = std::mem::replace(&mut self.input, rest);
                return Ok(line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]).to_vec());
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                len => self.input.extend_from_slice(&buffer[..len]),
            }
        }
    }
}

/// Maximum number of kept connections.
const KEPT_MAX: usize = 64;
/// Seconds for which an unused connection or thread is kept.
const KEPT_S: u64 = 10;
/// Number of bytes of requests that are gathered for one send.
const SENT_AT_ONCE_BYTES: usize = 64 * 1024;
/// Maximum length in bytes of a reply line.
const LINE_BYTES_MAX: usize = 64 * 1024;

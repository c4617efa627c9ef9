//! The process around the engine: clock, log, memory, files. Answers what the engine asks.

use sluice_engine::ProcessClock;
mod aof;
mod files;
mod memory;
mod settings;

use crate::alloc;
use crate::aof::{Aof, RewriteNumber};
use crate::bio::Bio;
use crate::cli;
use crate::listen::Listening;
use crate::log::Log;
use crate::longest::LongestIteration;
use crate::migrate::KeptLinks;
use crate::oom_score::OomScore;
use crate::os::plain_error;
use crate::parts::Parts;
use crate::replica::progress::SyncProgress;
use crate::storage::background::WriterHandle;
use crate::storage::lock::DataClaims;
use crate::storage::{self, Storage};
use crate::title::Title;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_clock::{Clock, News, SourceWatch};
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, param};
use sluice_engine::{Counts, CpuTimes, Facts, IoThreads, Peaks, Process, StreamBufferFacts, SyncFacts};
use sluice_evloop::Waker;
use sluice_keyspace::Keyspace;
use sluice_snapshot::LoadProgress;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The process around the engine.
pub struct Host {
    clock: Clock,
    clock_watch: SourceWatch,
    recent: Now,
    /// When it started, monotonic nanoseconds.
    pub started_ns: u64,
    /// The log.
    pub log: Log,
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// The data that no other server may write.
    claims: DataClaims,
    /// The background thread; none before the server runs.
    pub bio: Option<Bio>,
    /// The append-only file, where there is one.
    pub aof: Option<Aof>,
    /// An append-only file whose thread makes it durable and ends.
    pub closing_aof: Option<Aof>,
    /// How long each write of it waits: DEBUG AOF-FLUSH-SLEEP.
    pub aof_delay: Duration,
    /// The rewrite of the append-only file that was begun last.
    pub rewrite: RewriteNumber,
    /// Ends the main thread's wait; none before the server runs.
    pub waker: Option<Waker>,
    /// The number of the next snapshot that is begun. The first has any.
    next_snapshot: u64,
    /// Those that were begun in the background and may run still.
    pub background: Vec<WriterHandle>,
    /// Connections that MIGRATE has kept.
    pub kept_links: Arc<KeptLinks>,
    /// The load under way: its keyspace takes memory, too.
    pub load: Option<Arc<LoadProgress>>,
    /// The snapshot that is received from the primary, and when something of it came last, ns of the monotonic clock.
    pub sync: Option<Arc<SyncProgress>>,
    pub sync_heard_ns: u64,
    /// What the primary has sent behind a snapshot that is not loaded yet.
    pub stream_buffer: StreamBufferFacts,
    /// Facts that do not change while the server runs.
    pub fixed: Facts,
    /// Path of the config file, absolute.
    pub config_file: Option<PathBuf>,
    /// What IO threads did.
    pub io_threads: IoThreads,
    /// The reason that was logged when the supervisor could not be notified last; the same reason is not logged again.
    pub supervisor_deaf: Option<String>,
    /// Running counts.
    pub counts: Counts,
    /// Read and write events processed.
    pub reads: u64,
    /// Send operations.
    pub writes: u64,
    /// Time in which the main thread had work, nanoseconds.
    pub active_ns: u64,
    /// Time in commands, nanoseconds.
    pub command_ns: u64,
    /// Time in iterations, nanoseconds.
    pub cycle_ns: u64,
    /// The longest iteration.
    pub longest_iteration: LongestIteration,
    /// Largest input buffers of clients.
    pub input_peaks: Peaks,
    /// The listening sockets.
    pub listening: Listening,
    /// A CONFIG SET changed something that the server's loop must take up.
    pub configured: bool,
    /// The pid file that was written, absolute.
    pid_file: Option<PathBuf>,
    oom_score: OomScore,
    /// The process's title, where it is to be set.
    pub title: Option<Title>,
    /// Lines for INFO debug.
    pub debug: Vec<(String, String)>,
    /// The parts of memory, where they are summed: further lines for INFO debug.
    pub parts: Parts,
    memory: Memory,
}

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    used: usize,
    read_at_ns: u64,
    peak: usize,
    peak_s: i64,
    startup: usize,
}

/// Why no I/O thread runs where none is configured.
pub const NO_IO_THREADS: &str = "io-threads is 1: the main thread does everything";

impl Host {
    /// A process with its clock running and its log on standard output.
    pub fn new() -> Host {
        let mut clock = Clock::system();
        let recent = clock.now();
        Host {
            clock,
            clock_watch: SourceWatch::default(),
            recent,
            started_ns: recent.mono_ns,
            log: Log::stdout(),
            storage: storage::of_process(),
            claims: DataClaims::default(),
            bio: None,
            aof: None,
            closing_aof: None,
            aof_delay: Duration::ZERO,
            rewrite: RewriteNumber::default(),
            waker: None,
            next_snapshot: first_snapshot(),
            background: Vec::new(),
            kept_links: Arc::default(),
            load: None,
            sync: None,
            sync_heard_ns: 0,
            stream_buffer: StreamBufferFacts::default(),
            fixed: Facts::default(),
            config_file: None,
            io_threads: IoThreads { reason: NO_IO_THREADS, ..IoThreads::default() },
            supervisor_deaf: None,
            counts: Counts::default(),
            reads: 0,
            writes: 0,
            active_ns: 0,
            command_ns: 0,
            cycle_ns: 0,
            longest_iteration: LongestIteration::default(),
            input_peaks: Peaks::default(),
            listening: Listening::default(),
            configured: false,
            pid_file: None,
            oom_score: OomScore::read(),
            title: None,
            debug: Vec::new(),
            parts: Parts::default(),
            memory: Memory::default(),
        }
    }

    /// Fills in the facts that stay.
    pub fn settle_facts(&mut self, event_loop: &str, reason: &str, supervised: Option<&'static str>) {
        let uname = nix::sys::utsname::uname().ok();
        let os = uname.map_or_else(String::new, |u| {
            [u.sysname(), u.release(), u.machine()].map(|s| s.to_string_lossy().into_owned()).join(" ")
        });
        self.fixed = Facts {
            own_version: cli::VERSION,
            pid: std::process::id(),
            supervised,
            os,
            executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
            config_file: self.config_file.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
            monotonic_clock: self.clock.describe(),
            event_loop: event_loop.to_owned(),
            event_loop_reason: reason.to_owned(),
            listeners: self.listening.info_lines(),
            arch_bits: usize::BITS,
            allocator: alloc::name(),
            total_system_memory: total_memory(),
            ..Facts::default()
        };
        self.memory.startup = alloc::allocated().used();
    }

    /// Logs how the clock is read, as soon as that is known (a counter's rate takes some milliseconds to learn), and
    /// once more when the counter was given up.
    pub fn tell_clock(&mut self) {
        let (level, remark) = match self.clock_watch.look(&self.clock) {
            Some(News::Counter | News::NoCounter) => (LogLevel::Notice, ""),
            Some(News::CounterGivenUp) => {
                (LogLevel::Warning, ", because the processor's counter contradicted it repeatedly")
            }
            None => return,
        };
        let text = format!("monotonic clock: {}{remark}", self.clock.describe());
        self.note(level, &text);
    }

    /// Writes a log line.
    pub fn note(&mut self, level: LogLevel, text: &str) {
        let now = self.now();
        self.log.line(now, level, text);
    }

    /// Warns of a `maxmemory` that the control group of the process does not let it have: the kernel would end the process first.
    pub fn warn_of_container(&mut self, config: &Config) {
        let maxmemory = config.uint(param::MAXMEMORY);
        if let Some(limit) = crate::os::memory_limit().filter(|limit| maxmemory > *limit) {
            let text = format!(
                "WARNING: maxmemory ({maxmemory}) is above the memory limit of this process's control group ({limit}): the kernel \
                 may end the process before keys are evicted or writes refused"
            );
            self.note(LogLevel::Warning, &text);
        }
    }

    /// How far the snapshot is that is received from the primary.
    fn sync_facts(&self) -> Option<SyncFacts> {
        let (total_bytes, read_bytes) = self.sync.as_ref()?.bytes();
        let last_io_s = self.recent.mono_ns.saturating_sub(self.sync_heard_ns) / 1_000_000_000;
        Some(SyncFacts { total_bytes, read_bytes, last_io_s })
    }

    /// Keeps the peak of memory and the loop's counters up to date; called by the cron.
    pub fn sample(&mut self, metrics: &sluice_evloop::Metrics, keyspace: &Keyspace) {
        self.read_memory(keyspace);
        self.tell_clock();
        self.input_peaks.enter_second(self.recent.unix_s());
        let rows = [
            ("eventloop_parks", metrics.parks),
            ("eventloop_system_calls", metrics.system_calls),
            ("eventloop_events", metrics.events),
            ("eventloop_stale_events", metrics.stale),
            ("eventloop_gathered", metrics.gathered),
            ("eventloop_starvations", metrics.starvations),
            ("eventloop_wakes_coalesced", metrics.wakes_coalesced),
            ("eventloop_wakes_sent", metrics.wakes_sent),
            ("eventloop_wakes_seen", metrics.wakes_seen),
            ("eventloop_accept_failures", metrics.accept_failures),
            ("eventloop_sends_blocked", metrics.sends_blocked),
            ("eventloop_iteration_max_usec", self.longest_iteration.wall_us()),
            ("eventloop_iteration_max_cpu_usec", self.longest_iteration.cpu_us()),
        ];
        self.debug.clear();
        self.debug.extend(rows.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())));
    }

    /// Remembers how large a client's input buffer was.
    pub fn note_input(&mut self, bytes: usize) {
        self.input_peaks.note(bytes);
    }

    /// Writes the pid file, when one is wanted: by name, or as a daemon. That it cannot be written ends nothing.
    pub fn write_pid_file(&mut self, config: &Config) {
        let path = match config.bytes(param::PIDFILE) {
            b"" if config.bool(param::DAEMONIZE) => b"/var/run/valkey.pid",
            path => path,
        };
        if path.is_empty() {
            return;
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        if let Err(error) = std::fs::write(&path, format!("{}\n", std::process::id())) {
            self.note(LogLevel::Warning, &format!("Failed to write PID file: {}", plain_error(&error)));
        }
        self.pid_file = std::path::absolute(&path).ok();
    }

    /// Removes the pid file and the unix socket, and says so in the log.
    pub fn remove_files(&mut self) {
        if self.pid_file.is_some() {
            self.note(LogLevel::Notice, "Removing the pid file.");
        }
        if self.listening.unix_file().is_some() {
            self.note(LogLevel::Notice, "Removing the unix socket file.");
        }
        self.remove_files_silently();
    }

    /// The same where the last lines of the log say why there are no data: scripts look for them there.
    pub fn remove_files_silently(&mut self) {
        let files = [self.pid_file.take(), self.listening.unix_file().map(PathBuf::from)];
        for path in files.into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
        self.claims.release();
    }

    /// Claims the files that a server with this configuration writes. Errors: what another server has.
    pub fn claim_data(&mut self, config: &Config) -> Result<(), String> {
        let open = self.aof_directory();
        self.claim_with_aof(config, open.as_slice())
    }

    /// The directory of the append-only file that is open. It stays when the working directory changes.
    pub fn aof_directory(&self) -> Option<PathBuf> {
        let open = self.aof.as_ref().or(self.closing_aof.as_ref());
        open.and_then(|aof| aof.path().parent()).map(PathBuf::from)
    }

    /// The same with append-only files in these directories. Errors: what another server has.
    pub fn claim_with_aof(&mut self, config: &Config, aof: &[PathBuf]) -> Result<(), String> {
        let mut claims = std::mem::take(&mut self.claims);
        let storage = self.storage.clone();
        let claimed =
            claims.claim(storage.as_ref(), config, aof, &mut |text| self.note(LogLevel::Warning, &text));
        self.claims = claims;
        claimed
    }
}

impl ProcessClock for Host {
    #[inline]
    fn now(&mut self) -> Now {
        self.recent = self.clock.now();
        self.recent
    }

    #[inline]
    fn recent(&mut self) -> Now {
        self.recent
    }

    fn sleep(&mut self, microseconds: u64) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
}

impl Process for Host {
    fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        let numbers = self.read_memory(keyspace);
        let resident = resident_bytes();
        let counts = self.counts();
        let bio = self.bio.as_ref();
        Facts {
            migrate_cached_sockets: self.kept_links.count(),
            used_memory: numbers.used(),
            used_memory_peak: self.memory.peak,
            used_memory_peak_time: self.memory.peak_s,
            used_memory_startup: self.memory.startup,
            resident,
            allocator_allocated: numbers.allocated,
            allocator_active: numbers.active,
            allocator_resident: numbers.resident,
            allocator_muzzy: 0,
            cpu: cpu_times(self.active_ns / 1000),
            net_input_bytes: counts.net_input_bytes,
            net_output_bytes: counts.net_output_bytes,
            net_repl_input_bytes: counts.net_repl_input_bytes,
            sync: self.sync_facts(),
            stream_buffer: self.stream_buffer,
            reads_processed: self.reads,
            writes_processed: self.writes,
            eventloop_cycles: self.counts.cycles,
            eventloop_duration_sum: self.cycle_ns / 1000,
            eventloop_duration_cmd_sum: self.command_ns / 1000,
            longest_iteration_us: self.longest_iteration.wall_us(),
            lazyfree_pending: bio.map_or(0, Bio::pending),
            lazyfreed: bio.map_or(0, Bio::freed),
            debug: self.debug.iter().cloned().chain(self.parts.lines()).collect(),
            recent_max_input: self.input_peaks.max(),
            monotonic_clock: self.clock.describe(),
            io_threads: self.io_threads.clone(),
            aof: self.aof.as_ref().map(|aof| aof.shared().facts()).unwrap_or_default(),
            ..self.fixed.clone()
        }
    }

    fn counts(&mut self) -> Counts {
        // What another thread has received and not handed over yet.
        let under_way = self.sync.as_ref().map_or(0, |progress| progress.unmerged());
        Counts {
            cycle_us: self.cycle_ns / 1000,
            net_input_bytes: self.counts.net_input_bytes + under_way,
            net_repl_input_bytes: self.counts.net_repl_input_bytes + under_way,
            ..self.counts
        }
    }

    fn migrate(&mut self, migration: Migration) -> MigrationOutcome {
        crate::migrate::run(&migration, "", &self.kept_links)
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.note(level, line);
    }

    fn entropy(&mut self) -> [u8; 20] {
        let mut bytes = [0; 20];
        // Without entropy the server does not start: see `seeds`.
        let _ = getrandom::fill(&mut bytes);
        bytes
    }

    fn forget_longest_iteration(&mut self) {
        self.longest_iteration.forget();
    }
}

/// The number of the first snapshot: processes that have the same number, each in a container of its own, shall not meet in a folder.
fn first_snapshot() -> u64 {
    let mut bytes = [0; 4];
    // Without entropy the server does not start: see `seeds`.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

fn cpu_times(active_main: u64) -> CpuTimes {
    let micros = |t: nix::sys::time::TimeVal| t.tv_sec() as u64 * 1_000_000 + t.tv_usec() as u64;
    let read = |who| {
        getrusage(who)
            .ok()
            .map(|u: Usage| (micros(u.system_time()), micros(u.user_time())))
            .unwrap_or_default()
    };
    let (sys, user) = read(UsageWho::RUSAGE_SELF);
    let (sys_children, user_children) = read(UsageWho::RUSAGE_CHILDREN);
    let (sys_main, user_main) = read(UsageWho::RUSAGE_THREAD);
    CpuTimes { sys, user, sys_children, user_children, sys_main, user_main, active_main }
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split_whitespace().nth(1).and_then(|f| f.parse::<usize>().ok()));
    pages.map_or(0, |n| n * page_bytes())
}

fn page_bytes() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, |n| n as usize)
}

fn total_memory() -> usize {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|s| {
            let line = s.lines().find(|l| l.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<usize>().ok()
        })
        .map_or(0, |kib| kib * 1024)
}

//! The process around the engine: clock, log, memory and files. This module carries out the engine's requests
//! to the process.

mod aof;
mod clock;
mod incoming;
mod memory;
mod settings;
mod shown;
mod snapshots;
mod work;

use self::aof::AofState;
use self::clock::HostClock;
use self::incoming::Incoming;
use self::memory::Memory;
use self::settings::HostSettings;
pub use self::shown::NO_IO_THREADS;
use self::shown::Shown;
use self::snapshots::Snapshots;
pub use self::work::Work;
use crate::allocator::{Allocated, Allocator};

use crate::cli;
use crate::lazyfree::LazyFreeThread;
use crate::migrate::{KeptLinks, MigrationSource};
use crate::storage;
use nix::sys::resource::UsageWho;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, param};
use sluice_control::process::{MemoryShown, Process, ProcessClock};
use sluice_daemon::log::{Log, LogRole};
use sluice_daemon::named_file;
use sluice_daemon::restart::Restart;
use sluice_daemon::service_status::ServiceStatus;
use sluice_daemon::systemd::{self, NoteWait};
use sluice_daemon::usage;
use sluice_engine::Engine;
use sluice_evloop::Waker;
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::{Counts, CpuTimes, Facts, ProcessNumbers, SyncFacts};
use sluice_numbers::progress::LongWork;
use sluice_storage::Storage;
use sluice_storage::lock::DataClaims;
use sluice_storage::plain_error;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The process around the engine, in parts that each own related state.
pub struct Host {
    /// The clock, with its last reading.
    pub clock: HostClock,
    /// The allocator of the process.
    pub allocator: &'static dyn Allocator,
    /// The log: standard output or a file, and syslog.
    pub log: Log,
    /// How DEBUG RESTART starts the process again; `None` once the restart has begun.
    pub restart: Option<Restart>,
    /// Access to the file system.
    pub storage: Arc<dyn Storage>,
    /// The claims on data files, which no other server may write.
    claims: DataClaims,
    /// The lazy free thread; `None` before the server runs.
    pub bio: Option<LazyFreeThread>,
    /// The append-only files: the open file, and the file that is being closed.
    pub aof: AofState,
    /// Wakes the main thread from its wait; `None` before the server runs.
    pub waker: Option<Waker>,
    /// Snapshots and other files written in the background.
    pub snapshots: Snapshots,
    /// Connections that MIGRATE keeps for reuse.
    pub kept_links: Arc<KeptLinks>,
    /// Data that are being read: files that are being loaded, or a snapshot from the primary.
    pub incoming: Incoming,
    /// Counters of the event loop's iterations.
    pub work: Work,
    /// The state derived from the configuration.
    pub settings: HostSettings,
    /// The progress of long work as reported to systemd.
    pub status: ServiceStatus,
    /// Values that only INFO shows.
    pub shown: Shown,
    memory: Memory,
}

impl Host {
    /// A host whose clock runs and whose log goes to standard output.
    pub fn new(allocator: &'static dyn Allocator, restart: Restart) -> Host {
        Host {
            allocator,
            clock: HostClock::new(),
            log: Log::stdout(),
            restart: Some(restart),
            storage: storage::of_process(),
            claims: DataClaims::default(),
            bio: None,
            aof: AofState::default(),
            waker: None,
            snapshots: Snapshots::new(),
            kept_links: Arc::default(),
            incoming: Incoming::default(),
            work: Work::default(),
            settings: HostSettings::new(),
            status: ServiceStatus::default(),
            shown: Shown::new(),
            memory: Memory::default(),
        }
    }

    /// Requests that the process, when it would exit, executes its program again after this delay.
    pub fn restart_after(&mut self, delay_ms: u64) {
        if let Some(restart) = &mut self.restart {
            restart.after = Some(Duration::from_millis(delay_ms));
        }
    }

    /// Executes the program again in this process, if that was requested. Returns only if it was not
    /// requested, or has failed.
    pub fn start_again(&mut self) {
        let Some(restart) = self.restart.take_if(|restart| restart.after.is_some()) else { return };
        self.note(LogLevel::Notice, "The server restarts in the same process.");
        let error = restart.perform();
        self.note(LogLevel::Warning, &format!("The server cannot restart: {}", plain_error(&error)));
    }

    /// Sets the facts that are known at the start, and records how much memory is in use. Most facts
    /// never change, but CONFIG SET updates the listeners, and `facts_of` updates the description of the
    /// clock.
    pub fn set_facts(&mut self, event_loop: &str, reason: &str, supervised: Option<&'static str>) {
        let uname = nix::sys::utsname::uname().ok();
        let os = uname.map_or_else(String::new, |u| {
            [u.sysname(), u.release(), u.machine()].map(|s| s.to_string_lossy().into_owned()).join(" ")
        });
        self.shown.fixed = Facts {
            own_version: cli::VERSION,
            pid: std::process::id(),
            supervised,
            os,
            executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
            config_file: self
                .settings
                .config_file
                .as_ref()
                .map(|p| p.display().to_string())
                .unwrap_or_default(),
            monotonic_clock: self.clock.describe(),
            event_loop: event_loop.to_owned(),
            event_loop_reason: reason.to_owned(),
            listeners: self.settings.listening.info_lines(),
            arch_bits: usize::BITS,
            allocator: self.allocator.name(),
            total_system_memory: total_memory(),
            ..Facts::default()
        };
        self.memory.startup = self.allocator.allocated().used();
    }

    /// Logs how the clock is read, if the way has changed.
    pub fn report_clock(&mut self) {
        if let Some((level, text)) = self.clock.take_news() {
            self.note(level, &text);
        }
    }

    /// Writes a log line.
    pub fn note(&mut self, level: LogLevel, text: &str) {
        let now = self.now();
        self.log.line(now, level, text);
    }

    /// Warns if `maxmemory` exceeds the memory limit of the process's control group, because the kernel
    /// would kill the process first.
    pub fn warn_of_container(&mut self, config: &Config) {
        let maxmemory = config.uint(param::MAXMEMORY);
        if let Some(limit) = sluice_daemon::usage::memory_limit().filter(|limit| maxmemory > *limit) {
            let text = format!(
                "WARNING: maxmemory ({maxmemory}) is above the memory limit of this process's control group ({limit}): the \
                 kernel may kill the process before keys are evicted or writes refused. Lower maxmemory, or raise the limit"
            );
            self.note(LogLevel::Warning, &text);
        }
    }

    /// Updates the memory peak, the input peaks and the event loop's counters, and logs a change of the
    /// clock's source. Called by the cron.
    pub fn sample(&mut self, metrics: &sluice_evloop::Metrics, engine: &Engine) {
        self.watch_peak(engine.keyspace(), engine.commands_executed());
        self.report_clock();
        self.work.input_peaks.enter_second(self.clock.recent().unix_s());
        self.shown.learn_loop(metrics, &self.work);
    }

    /// Records the size of a client's input buffer.
    pub fn note_input(&mut self, bytes: usize) {
        self.work.input_peaks.note(bytes);
    }

    /// Writes the pid file if `pidfile` names one, or for a daemon. If writing fails, the server logs a
    /// warning and starts anyway.
    pub fn write_pid_file(&mut self, config: &Config) {
        let path = match config.bytes(param::PIDFILE) {
            b"" if config.bool(param::DAEMONIZE) => b"/var/run/valkey.pid",
            path => path,
        };
        if path.is_empty() {
            return;
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        if let Err(error) = named_file::write_pid(&path) {
            self.note(LogLevel::Warning, &format!("Failed to write PID file: {}", plain_error(&error)));
        }
        self.settings.pid_file = std::path::absolute(&path).ok();
    }

    /// Removes the pid file and the unix socket, and logs their removal. Gives up the claims on data files.
    pub fn remove_files(&mut self) {
        if self.settings.pid_file.is_some() {
            self.note(LogLevel::Notice, "Removing the pid file.");
        }
        if self.settings.listening.unix_file().is_some() {
            self.note(LogLevel::Notice, "Removing the unix socket file.");
        }
        self.remove_files_silently();
    }

    /// Does the same as [`Host::remove_files`] without logging, because scripts outside the server look in
    /// the last lines of the log for the reason why data could not be loaded or written.
    pub fn remove_files_silently(&mut self) {
        if let Some(path) = self.settings.pid_file.take() {
            named_file::remove_pid(&path);
        }
        self.settings.listening.remove_unix_file();
        self.claims.release();
    }

    /// Claims the files that a server with this configuration writes. Errors: another server has claimed
    /// one of the files.
    pub fn claim_data(&mut self, config: &Config) -> Result<(), String> {
        let open = self.aof.directory();
        self.claim_with_aof(config, open.as_slice())
    }

    /// Claims the files that a server with this configuration writes, with its append-only files in the
    /// directories `aof`. Errors: another server has claimed one of the files.
    pub fn claim_with_aof(&mut self, config: &Config, aof: &[PathBuf]) -> Result<(), String> {
        let mut claims = std::mem::take(&mut self.claims);
        let storage = self.storage.clone();
        let claimed =
            claims.claim(storage.as_ref(), config, aof, &mut |text| self.note(LogLevel::Warning, &text));
        self.claims = claims;
        claimed
    }
}

impl Host {
    /// The facts for INFO and for the metrics endpoint, with the given figures of the allocator and of the
    /// process. Called by the main thread.
    fn facts_of(&self, numbers: Allocated, process: ProcessNumbers) -> Facts {
        let counts = self.counts_now();
        let bio = self.bio.as_ref();
        let (sys_main, user_main) = usage::times_of(UsageWho::RUSAGE_THREAD);
        Facts {
            certificates: self.certificate_facts(),
            migrate_cached_sockets: self.kept_links.count(),
            used_memory: numbers.used(),
            used_memory_peak: self.memory.peak,
            used_memory_peak_time: self.memory.peak_s,
            used_memory_startup: self.memory.startup,
            resident: process.resident,
            allocator_allocated: numbers.allocated,
            allocator_active: numbers.active,
            allocator_resident: numbers.resident,
            allocator_muzzy: 0,
            cpu: CpuTimes {
                sys: process.sys,
                user: process.user,
                sys_children: process.sys_children,
                user_children: process.user_children,
                sys_main,
                user_main,
                active_main: self.work.active_ns / 1000,
            },
            net_input_bytes: counts.net_input_bytes,
            net_output_bytes: counts.net_output_bytes,
            net_repl_input_bytes: counts.net_repl_input_bytes,
            sync: self.incoming.sync_facts(self.clock.recent()),
            stream_buffer: self.incoming.stream_buffer,
            reads_processed: self.work.reads,
            writes_processed: self.work.writes,
            eventloop_cycles: self.work.counts.cycles,
            eventloop_duration_sum: self.work.cycle_ns / 1000,
            eventloop_duration_cmd_sum: self.work.command_ns / 1000,
            longest_iteration_us: self.work.longest_iteration.wall_us(),
            lazyfree_pending: bio.map_or(0, LazyFreeThread::pending),
            lazyfreed: bio.map_or(0, LazyFreeThread::freed),
            event_loop_counts: self.shown.event_loop,
            memory_parts: self.shown.parts.lines(),
            recent_max_input: self.work.input_peaks.max(),
            monotonic_clock: self.clock.describe(),
            io_threads: self.shown.io_threads.clone(),
            aof: self.aof.facts(),
            ..self.shown.fixed.clone()
        }
    }

    fn counts_now(&self) -> Counts {
        let under_way = self.incoming.unmerged_bytes();
        Counts {
            cycle_us: self.work.cycle_ns / 1000,
            net_input_bytes: self.work.counts.net_input_bytes + under_way,
            net_repl_input_bytes: self.work.counts.net_repl_input_bytes + under_way,
            ..self.work.counts
        }
    }
}

impl ProcessClock for Host {
    #[inline]
    fn now(&mut self) -> Now {
        self.clock.now()
    }

    #[inline]
    fn recent(&mut self) -> Now {
        self.clock.recent()
    }

    fn sleep(&mut self, microseconds: u64) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
}

impl Process for Host {
    fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        let numbers = self.read_memory(keyspace);
        self.facts_of(numbers, usage::process_numbers())
    }

    fn facts_for_info(&mut self, keyspace: &Keyspace, memory: MemoryShown) -> Facts {
        let (numbers, resident) = match memory {
            MemoryShown::No => (self.memory.numbers, 0),
            MemoryShown::After(commands) => (self.shown_memory(keyspace, commands), self.shown_resident()),
        };
        self.facts_of(numbers, usage::process_numbers_with(resident))
    }

    // The process's figures are left out, because the thread of the metrics endpoint reads them itself
    // (`metrics/facts.rs`).
    fn sample_facts(&mut self, keyspace: &Keyspace) -> Facts {
        let numbers = self.recent_memory(keyspace);
        self.facts_of(numbers, ProcessNumbers::default())
    }

    fn sync(&mut self) -> Option<SyncFacts> {
        self.incoming.sync_facts(self.clock.recent())
    }

    fn show_progress(&mut self, works: &[LongWork]) {
        let mut long = works.iter().filter(|work| work.is_long());
        match long.next() {
            Some(first) => self.log.show_bar(first, long.count()),
            None => self.log.clear_bar(),
        }
        let told = self.status.due(works, self.clock.recent().mono_ns);
        if let (Some(path), Some(state)) = (&self.status.socket, told) {
            // A notification that systemd does not take at once is lost, but another one follows.
            let _ = systemd::notify(path, &state, NoteWait::None);
        }
    }

    fn counts(&mut self) -> Counts {
        self.counts_now()
    }

    fn migrate(&mut self, migration: Migration) -> MigrationOutcome {
        let tls = self.settings.tls.context_of_migrations();
        let source = MigrationSource { address: String::new(), tls };
        crate::migrate::run(&migration, &source, &self.kept_links)
    }

    fn set_role(&mut self, is_replica: bool) {
        self.log.set_role(if is_replica { LogRole::Replica } else { LogRole::Primary });
        self.adjust_oom_score(is_replica);
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.note(level, line);
    }

    fn entropy(&mut self) -> [u8; 20] {
        let mut bytes = [0; 20];
        // The error is ignored, because without entropy the server does not start (`seeds` in `start.rs`).
        let _ = getrandom::fill(&mut bytes);
        bytes
    }

    fn forget_longest_iteration(&mut self) {
        self.work.longest_iteration.forget();
    }
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

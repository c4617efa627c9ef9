//! The process around the engine: clock, log, memory, files. Answers what the engine asks.

use crate::alloc;
use crate::bio::Bio;
use crate::listen::{self, Listener};
use crate::log::{Log, TimeFormat};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use sluice_base::Now;
use sluice_clock::Clock;
use sluice_config::choice::{LogLevel as LevelChoice, LogTimestampFormat};
use sluice_config::{Config, param};
use sluice_engine::{Counts, CpuTimes, Facts, LogLevel, Process};
use std::path::PathBuf;

/// The process around the engine.
pub struct Host {
    clock: Clock,
    recent: Now,
    /// The log.
    pub log: Log,
    /// The background thread; none before the server runs.
    pub bio: Option<Bio>,
    /// Facts that do not change while the server runs.
    pub fixed: Facts,
    /// Path of the config file, absolute.
    pub config_file: Option<PathBuf>,
    /// Running counts.
    pub counts: Counts,
    /// Read and write events processed.
    pub reads: u64,
    /// Send operations.
    pub writes: u64,
    /// Time in which the executing thread had work, nanoseconds.
    pub active_ns: u64,
    /// Time in commands, nanoseconds.
    pub command_ns: u64,
    /// Time in turns, nanoseconds.
    pub cycle_ns: u64,
    /// Longest turn, nanoseconds.
    pub longest_turn_ns: u64,
    /// Largest input buffer of a client recently.
    pub recent_max_input: usize,
    /// Listeners opened by a CONFIG SET, for the server to take.
    pub new_listeners: Option<Vec<Listener>>,
    /// Lines for INFO debug.
    pub debug: Vec<(String, String)>,
    memory: Memory,
}

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    allocated: usize,
    read_at_ns: u64,
    peak: usize,
    peak_s: i64,
    startup: usize,
}

/// How long a reading of the allocator's numbers serves for `maxmemory`.
const MEMORY_FRESH_NS: u64 = 1_000_000;

impl Host {
    /// A process with its clock running and its log on standard output.
    pub fn new() -> Host {
        let mut clock = Clock::system();
        let recent = clock.now();
        Host {
            clock,
            recent,
            log: Log::stdout(),
            bio: None,
            fixed: Facts::default(),
            config_file: None,
            counts: Counts::default(),
            reads: 0,
            writes: 0,
            active_ns: 0,
            command_ns: 0,
            cycle_ns: 0,
            longest_turn_ns: 0,
            recent_max_input: 0,
            new_listeners: None,
            debug: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Fills in the facts that stay.
    pub fn settle_facts(&mut self, event_loop: &str, reason: &str, listeners: Vec<String>) {
        let uname = nix::sys::utsname::uname().ok();
        let os = uname.map_or_else(String::new, |u| {
            [u.sysname(), u.release(), u.machine()].map(|s| s.to_string_lossy().into_owned()).join(" ")
        });
        self.fixed = Facts {
            pid: std::process::id(),
            os,
            executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
            config_file: self.config_file.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
            monotonic_clock: self.clock.describe(),
            event_loop: event_loop.to_owned(),
            event_loop_reason: reason.to_owned(),
            listeners,
            arch_bits: usize::BITS,
            allocator: alloc::name(),
            total_system_memory: total_memory(),
            ..Facts::default()
        };
        self.memory.startup = alloc::allocated().allocated;
    }

    /// How the clock is read, for the log at start.
    pub fn clock_description(&self) -> String {
        self.clock.describe()
    }

    /// Writes a log line.
    pub fn note(&mut self, level: LogLevel, text: &str) {
        let now = self.now();
        self.log.line(now, level, text);
    }

    /// Applies the log's directives.
    pub fn apply_log_config(&mut self, config: &Config) {
        self.log.set_level(match config.choice::<LevelChoice>(param::LOGLEVEL) {
            LevelChoice::Debug => Some(LogLevel::Debug),
            LevelChoice::Verbose => Some(LogLevel::Verbose),
            LevelChoice::Notice => Some(LogLevel::Notice),
            LevelChoice::Warning => Some(LogLevel::Warning),
            LevelChoice::Nothing => None,
        });
        self.log.set_time(match config.choice::<LogTimestampFormat>(param::LOG_TIMESTAMP_FORMAT) {
            LogTimestampFormat::Legacy => TimeFormat::Legacy,
            LogTimestampFormat::Iso8601 => TimeFormat::Iso8601,
            LogTimestampFormat::Milliseconds => TimeFormat::Milliseconds,
        });
    }

    fn read_memory(&mut self) -> alloc::Allocated {
        let numbers = alloc::allocated();
        self.memory.allocated = numbers.allocated;
        self.memory.read_at_ns = self.recent.mono_ns;
        if numbers.allocated > self.memory.peak {
            self.memory.peak = numbers.allocated;
            self.memory.peak_s = self.recent.unix_s();
        }
        numbers
    }

    /// Keeps the peak of memory and the loop's counters up to date; called by the cron.
    pub fn sample(&mut self, metrics: &sluice_evloop::Metrics) {
        self.read_memory();
        let rows = [
            ("eventloop_parks", metrics.parks),
            ("eventloop_system_calls", metrics.system_calls),
            ("eventloop_events", metrics.events),
            ("eventloop_stale_events", metrics.stale),
            ("eventloop_wakes_sent", metrics.wakes_sent),
            ("eventloop_wakes_seen", metrics.wakes_seen),
            ("eventloop_accept_failures", metrics.accept_failures),
            ("eventloop_sends_blocked", metrics.sends_blocked),
            ("eventloop_turn_max_usec", self.longest_turn_ns / 1000),
        ];
        self.debug.clear();
        self.debug.extend(rows.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())));
    }

    /// Writes the pid file, when one is wanted: by name, or as a daemon.
    pub fn write_pid_file(&mut self, config: &Config) {
        let Some(path) = pid_file(config) else { return };
        if let Err(error) = std::fs::write(&path, format!("{}\n", std::process::id())) {
            self.note(LogLevel::Warning, &format!("Failed to write PID file '{path}': {error}"));
        }
    }

    /// Removes the pid file and the unix socket.
    pub fn remove_files(&mut self, config: &Config) {
        if let Some(path) = pid_file(config) {
            self.note(LogLevel::Notice, "Removing the pid file.");
            let _ = std::fs::remove_file(path);
        }
        if let Some(path) = config.text(param::UNIXSOCKET) {
            self.note(LogLevel::Notice, "Removing the unix socket file.");
            let _ = std::fs::remove_file(String::from_utf8_lossy(path).as_ref());
        }
    }
}

impl Process for Host {
    #[inline]
    fn now(&mut self) -> Now {
        self.recent = self.clock.now();
        self.recent
    }

    #[inline]
    fn recent(&mut self) -> Now {
        self.recent
    }

    fn facts(&mut self) -> Facts {
        let numbers = self.read_memory();
        let resident = resident_bytes();
        let bio = self.bio.as_ref();
        Facts {
            used_memory: numbers.allocated,
            used_memory_peak: self.memory.peak,
            used_memory_peak_time: self.memory.peak_s,
            used_memory_startup: self.memory.startup,
            resident,
            allocator_allocated: numbers.allocated,
            allocator_active: numbers.active,
            allocator_resident: numbers.resident,
            allocator_muzzy: 0,
            cpu: cpu_times(self.active_ns / 1000),
            net_input_bytes: self.counts.net_input_bytes,
            net_output_bytes: self.counts.net_output_bytes,
            reads_processed: self.reads,
            writes_processed: self.writes,
            eventloop_cycles: self.counts.cycles,
            eventloop_duration_sum: self.cycle_ns / 1000,
            eventloop_duration_cmd_sum: self.command_ns / 1000,
            longest_turn_us: self.longest_turn_ns / 1000,
            lazyfree_pending: bio.map_or(0, Bio::pending),
            lazyfreed: bio.map_or(0, Bio::freed),
            debug: self.debug.clone(),
            recent_max_input: self.recent_max_input,
            monotonic_clock: self.clock.describe(),
            ..self.fixed.clone()
        }
    }

    fn counts(&mut self) -> Counts {
        Counts { cycle_us: self.cycle_ns / 1000, ..self.counts }
    }

    fn used_memory(&mut self) -> usize {
        if self.recent.mono_ns.saturating_sub(self.memory.read_at_ns) > MEMORY_FRESH_NS {
            self.read_memory();
        }
        self.memory.allocated
    }

    fn apply_config(&mut self, config: &Config, changed: &[&'static str]) -> Result<(), String> {
        for name in changed {
            match *name {
                "port" | "bind" => {
                    let opened = listen::open_tcp(config).map_err(|error| {
                        self.note(LogLevel::Warning, &error.to_string());
                        match *name {
                            "port" => "Unable to listen on this port. Check server logs.".to_owned(),
                            _ => "Failed to bind to specified addresses.".to_owned(),
                        }
                    })?;
                    self.fixed.listeners = listen::info_lines(config, &opened);
                    self.new_listeners = Some(opened);
                }
                "maxclients" => {
                    let wanted = config.int(param::MAXCLIENTS) as u64;
                    let got = listen::adjust_descriptor_limit(wanted);
                    if got < wanted {
                        return Err(format!(
                            "The operating system is not able to handle the specified number of clients, try with {got}"
                        ));
                    }
                }
                "dir" => {
                    std::env::set_current_dir(config.str(param::DIR).as_ref())
                        .map_err(|error| format!("Changing directory: {}", plain_error(&error)))?;
                }
                "loglevel" | "log-timestamp-format" => self.apply_log_config(config),
                _ => {}
            }
        }
        Ok(())
    }

    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        let Some(path) = self.config_file.clone() else {
            return Err("The server is running without a config file".to_owned());
        };
        let old = match std::fs::read(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("Rewriting config file: {}", plain_error(&error))),
        };
        let new = make(old.as_deref());
        replace_file(&path, &new).map_err(|error| {
            self.note(LogLevel::Warning, &format!("CONFIG REWRITE failed: {error}"));
            format!("Rewriting config file: {}", plain_error(&error))
        })?;
        self.note(LogLevel::Notice, "CONFIG REWRITE executed with success.");
        Ok(())
    }

    fn sleep(&mut self, microseconds: u64) {
        std::thread::sleep(std::time::Duration::from_micros(microseconds));
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

    fn purge_memory(&mut self) {
        alloc::purge();
    }

    fn malloc_stats(&mut self) -> String {
        alloc::report()
    }
}

/// Replaces a file so that a crash leaves the old or the new contents: a temporary one beside it, synced, renamed.
fn replace_file(path: &std::path::Path, contents: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = std::fs::File::create(&temporary)?;
    let mode = std::fs::metadata(path).map(|m| m.permissions());
    if let Ok(permissions) = mode {
        file.set_permissions(permissions)?;
    }
    let written = file.write_all(contents).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, path)) {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// The system's text for an error, without Rust's number behind it.
pub fn plain_error(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |n| nix::errno::Errno::from_raw(n).desc().to_owned())
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

fn pid_file(config: &Config) -> Option<String> {
    let path = config.str(param::PIDFILE).into_owned();
    if !path.is_empty() {
        return Some(path);
    }
    config.bool(param::DAEMONIZE).then(|| "/var/run/valkey.pid".to_owned())
}

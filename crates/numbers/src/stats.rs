//! Counters: per command, per error, and of the engine as a whole.
//!
//! Written by the main thread only, and kept off the cache lines of the command table.

use crate::facts::{Facts, IoThreads};
use sluice_acl::{Reason, Refusal};
use sluice_base::Histogram;
use sluice_base::{Now, heap};
use std::collections::BTreeMap;

/// Counters of one command.
#[derive(Debug, Default, Clone)]
pub struct CommandStats {
    /// Executions.
    pub calls: u64,
    /// Time in them, nanoseconds.
    pub spent_ns: u64,
    /// Refusals before execution.
    pub rejected: u64,
    /// Executions that ended in an error.
    pub failed: u64,
    /// Durations; made at the first call while `latency-tracking` is on.
    pub latency: Option<Box<Histogram>>,
}

/// Counters of the engine.
#[derive(Debug)]
pub struct Stats {
    /// By `Spec::id`.
    pub commands: Vec<CommandStats>,
    /// What was refused or went wrong.
    pub failures: FailureStats,
    /// Commands executed.
    pub total_commands: u64,
    /// Connections.
    pub connections: ConnectionStats,
    /// Look-ups of keys by commands that read.
    pub lookups: LookupStats,
    /// What expiry has done.
    pub expiry: ExpiryStats,
    /// What was done for `maxmemory` and `maxmemory-clients`.
    pub eviction: EvictionStats,
    /// Clients closed because of their buffers.
    pub disconnections: DisconnectionStats,
    /// Keys that were prefetched together.
    pub prefetch: PrefetchStats,
    /// What replicas were given.
    pub syncs: SyncStats,
    /// Commands within iterations.
    pub iteration: IterationStats,
    /// Compaction of entries.
    pub compaction: CompactionStats,
    /// Time in the cron, nanoseconds.
    pub cron_ns: u64,
    /// Operations per second and their like.
    pub rates: Rates,
    /// Largest output buffers of clients.
    pub output_peaks: Peaks,
    /// Where the process's own counts stood when the statistics began.
    pub base: Baseline,
}

/// What was refused or went wrong.
#[derive(Clone, Debug, Default)]
pub struct FailureStats {
    /// Error replies by the code that they begin with.
    pub by_code: BTreeMap<Box<str>, u64>,
    /// Error replies.
    pub replied: u64,
    /// Error replies on the link of a primary or a replica.
    pub unexpected: u64,
    /// What users were refused.
    pub refused: RefusalCounts,
}

/// Look-ups of keys by commands that read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupStats {
    /// Look-ups that found a key.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
}

/// What expiry has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpiryStats {
    /// Keys deleted because they expired.
    pub keys: u64,
    /// Fields of hashes deleted because they expired.
    pub fields: u64,
    /// Share of expired keys among those the cycle met, percent, running average.
    pub stale_percent: f64,
    /// Periods of the cron at whose end a cycle of expiry was still under way.
    pub capped: u64,
    /// Time in expiry cycles, nanoseconds.
    pub ns: u64,
}

/// What replicas were given.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncStats {
    /// Full synchronisations.
    pub full: u64,
    /// Replicas that went on where they were.
    pub partial_ok: u64,
    /// Replicas that asked to go on where they were, and were given a full synchronisation.
    pub partial_err: u64,
    /// Bytes sent to replicas.
    pub output_bytes: u64,
}

/// Commands within iterations.
#[derive(Clone, Copy, Debug, Default)]
pub struct IterationStats {
    /// Time in commands within the current iteration, nanoseconds.
    pub command_ns: u64,
    /// Commands executed before the current iteration.
    pub began_at: u64,
    /// Most commands within an iteration.
    pub commands_max: u64,
    /// Slices of scripts that stood still behind them.
    pub script_slices: u64,
}

/// What was done for `maxmemory` and `maxmemory-clients`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EvictionStats {
    /// Keys deleted to make room.
    pub keys: u64,
    /// Clients closed to make room.
    pub clients: u64,
    /// Scripts of EVAL that others have displaced.
    pub scripts: u64,
    /// Most bytes beyond `maxmemory` at the end of a script that had written.
    pub script_overrun_max: u64,
    /// Time with more memory in use than `maxmemory`.
    pub memory_exceeded: ExceededTime,
}

/// Keys that were prefetched together.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchStats {
    /// Batches of more than one key that were prefetched.
    pub batches: u64,
    /// Keys in them.
    pub entries: u64,
}

/// Clients closed because of their buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisconnectionStats {
    /// Clients closed for too much input.
    pub query_buffer: u64,
    /// Clients closed for too much output.
    pub output_buffer: u64,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused.
    pub rejected: u64,
    /// Connections refused, of [`RejectedConnection::Priority`] alone.
    pub rejected_priority: u64,
}

impl ConnectionStats {
    /// Counts a connection that was refused.
    pub fn count_rejected(&mut self, rejected: RejectedConnection) {
        self.rejected += 1;
        self.rejected_priority += u64::from(rejected == RejectedConnection::Priority);
    }
}

/// A connection that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedConnection {
    /// Any but those of the other kind.
    Ordinary,
    /// One of `priority-subnets`, because `maxclients` were there.
    Priority,
}

/// How long something was exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExceededTime {
    /// Since when it is, monotonic.
    since_ns: Option<u64>,
    /// How long it was before.
    before_ns: u64,
}

impl ExceededTime {
    /// Notes whether it is exceeded at this moment.
    pub fn note(&mut self, is_exceeded: bool, now: Now) {
        if is_exceeded {
            self.since_ns.get_or_insert(now.mono_ns);
        } else if let Some(since_ns) = self.since_ns.take() {
            self.before_ns += now.mono_ns.saturating_sub(since_ns);
        }
    }

    /// Milliseconds: altogether, and since it was exceeded last if it still is.
    pub fn ms(self, now: Now) -> (u64, u64) {
        let current_ns = self.since_ns.map_or(0, |since_ns| now.mono_ns.saturating_sub(since_ns));
        ((self.before_ns + current_ns) / 1_000_000, current_ns / 1_000_000)
    }
}

/// The process never sets its counts back: what CONFIG RESETSTAT found is subtracted when they are shown.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// What IO threads did.
    pub io_threads: IoThreads,
    /// Bytes received from clients.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Bytes received from the primary.
    pub net_repl_input_bytes: u64,
    /// Read events.
    pub reads_processed: u64,
    /// Write events.
    pub writes_processed: u64,
    /// Iterations of the event loop.
    pub eventloop_cycles: u64,
    /// Their duration together, microseconds.
    pub eventloop_duration_sum: u64,
    /// Duration of commands within them, microseconds.
    pub eventloop_duration_cmd_sum: u64,
    /// Values freed on another thread.
    pub lazyfreed: u64,
}

impl Baseline {
    /// Where the counts stand now.
    pub fn new(facts: &Facts) -> Baseline {
        Baseline {
            io_threads: facts.io_threads.clone(),
            net_input_bytes: facts.net_input_bytes,
            net_output_bytes: facts.net_output_bytes,
            net_repl_input_bytes: facts.net_repl_input_bytes,
            reads_processed: facts.reads_processed,
            writes_processed: facts.writes_processed,
            eventloop_cycles: facts.eventloop_cycles,
            eventloop_duration_sum: facts.eventloop_duration_sum,
            eventloop_duration_cmd_sum: facts.eventloop_duration_cmd_sum,
            lazyfreed: facts.lazyfreed,
        }
    }
}

/// How many error codes are counted apart; a client could invent more by `DEBUG ERROR` and scripts.
pub(crate) const ERROR_CODES_MAX: usize = 128;

/// Under which name INFO shows the codes beyond them.
const ERROR_CODES_OVERFLOW: &str = "ERRORSTATS_OVERFLOW";

impl Stats {
    /// Bytes that the allocator has given. O(commands).
    pub fn footprint(&self) -> usize {
        let errors: usize = self.failures.by_code.keys().map(|code| heap::block(code.len())).sum();
        let histograms = self.commands.iter().filter(|stats| stats.latency.is_some()).count();
        heap::vec(&self.commands)
            + histograms * Histogram::FOOTPRINT
            + heap::tree::<Box<str>, u64>(self.failures.by_code.len())
            + errors
    }

    /// All zero, for `commands` commands.
    pub fn new(commands: usize) -> Stats {
        Stats {
            commands: vec![CommandStats::default(); commands],
            failures: FailureStats::default(),
            total_commands: 0,
            connections: Default::default(),
            expiry: Default::default(),
            eviction: Default::default(),
            disconnections: Default::default(),
            prefetch: Default::default(),
            syncs: Default::default(),
            iteration: Default::default(),
            lookups: LookupStats::default(),
            compaction: CompactionStats::default(),
            cron_ns: 0,
            rates: Rates::default(),
            output_peaks: Peaks::default(),
            base: Baseline::default(),
        }
    }

    /// Counts an error reply by its code, the first word of its text. A line break ends a word too: on the
    /// wire it is a space.
    pub fn count_error(&mut self, text: &[u8]) {
        self.count_by_code(text, usize::MAX);
    }

    /// As [`Stats::count_error`], where a script has made the error: only so many different codes are
    /// remembered.
    pub fn count_custom_error(&mut self, text: &[u8]) {
        self.count_by_code(text, ERROR_CODES_MAX);
    }

    fn count_by_code(&mut self, text: &[u8], codes_max: usize) {
        self.failures.replied += 1;
        let code = text.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
        let code = &*String::from_utf8_lossy(code);
        if let Some(count) = self.failures.by_code.get_mut(code) {
            *count += 1;
        } else if self.failures.by_code.len() < codes_max {
            self.failures.by_code.insert(code.into(), 1);
        } else {
            *self.failures.by_code.entry(ERROR_CODES_OVERFLOW.into()).or_default() += 1;
        }
    }

    /// CONFIG RESETSTAT: everything begins again; `facts` are the process's counts now.
    pub fn reset(&mut self, facts: &Facts) {
        let mut rates = std::mem::take(&mut self.rates);
        rates.reset();
        let iteration = IterationStats { command_ns: self.iteration.command_ns, ..IterationStats::default() };
        let base = Baseline::new(facts);
        let output_peaks = std::mem::take(&mut self.output_peaks);
        *self = Stats { rates, iteration, base, output_peaks, ..Stats::new(self.commands.len()) };
    }
}

/// The largest of some sizes, forgotten after eight seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    /// By second modulo their number.
    by_second: [usize; Peaks::SECONDS],
    second: i64,
}

impl Peaks {
    /// How many seconds a size is remembered, the one in which it was noted included.
    pub const SECONDS: usize = 8;

    /// Forgets what is too old when it is this second; to be called at least once a second.
    pub fn enter_second(&mut self, second: i64) {
        if second != self.second {
            self.second = second;
            *self.slot() = 0;
        }
    }

    /// Remembers a size.
    #[inline]
    pub fn note(&mut self, size: usize) {
        let slot = self.slot();
        *slot = size.max(*slot);
    }

    /// The largest that is remembered.
    pub fn max(&self) -> usize {
        self.by_second.into_iter().max().unwrap_or(0)
    }

    #[inline]
    fn slot(&mut self) -> &mut usize {
        &mut self.by_second[self.second.rem_euclid(Peaks::SECONDS as i64) as usize]
    }
}

/// Rates over the last samples of the cron: 16 of them, one each 100 ms.
#[derive(Debug, Default)]
pub struct Rates {
    /// Commands a second.
    pub ops: Rate,
    /// Bytes a second received.
    pub input: Rate,
    /// Bytes a second sent.
    pub output: Rate,
    /// Bytes a second received from the primary.
    pub repl_input: Rate,
    /// Iterations a second.
    pub cycles: Rate,
    /// Microseconds per iteration.
    pub cycle_us: Rate,
}

impl Rates {
    /// Forgets the samples, not where the counters stood; commands count from zero again.
    fn reset(&mut self) {
        let Rates { ops, input, output, repl_input, cycles, cycle_us } = self;
        for rate in [ops, input, output, repl_input, cycles, cycle_us] {
            rate.samples = Default::default();
        }
        self.ops.last_value = 0;
    }
}

/// One rate: the mean of the last 16 samples.
#[derive(Debug, Default)]
pub struct Rate {
    samples: [u64; 16],
    next: usize,
    last_value: u64,
    last_base: u64,
}

impl Rate {
    /// Takes a sample of two counters: the rate is `value` per `base`, times `factor`.
    pub fn sample(&mut self, value: u64, base: u64, factor: u64) {
        let delta = base.saturating_sub(self.last_base);
        let amount = value.saturating_sub(self.last_value);
        self.samples[self.next] =
            u128::from(amount).saturating_mul(u128::from(factor)).checked_div(u128::from(delta)).unwrap_or(0)
                as u64;
        self.next = (self.next + 1) % self.samples.len();
        self.last_value = value;
        self.last_base = base;
    }

    /// The mean of the samples.
    pub fn mean(&self) -> u64 {
        self.samples.iter().sum::<u64>() / self.samples.len() as u64
    }
}

/// What INFO shows of compaction. CONFIG RESETSTAT begins it anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactionStats {
    /// Entries moved.
    pub moved: u64,
    /// Moves taken back.
    pub abandoned: u64,
    /// Percent of the time that it may take at present; 0 while there is nothing to do.
    pub running_percent: u64,
    /// Milliseconds for which there was something to do, but for the current stretch.
    pub total_ms: u64,
    /// When the current stretch began, ms since the epoch; 0 when there is none.
    pub since_ms: i64,
}

impl CompactionStats {
    /// Milliseconds of the current stretch.
    pub fn current_ms(&self, now_ms: i64) -> u64 {
        if self.since_ms == 0 { 0 } else { (now_ms - self.since_ms).max(0) as u64 }
    }
}

/// What was refused, by reason: INFO's `acl_access_denied_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusalCounts {
    /// Attempts to authenticate.
    pub auth: u64,
    /// Commands.
    pub command: u64,
    /// Keys.
    pub key: u64,
    /// Channels.
    pub channel: u64,
    /// Certificates that name no user.
    pub tls_cert: u64,
    /// Databases.
    pub database: u64,
}

impl RefusalCounts {
    /// Counts one.
    pub fn add(&mut self, refusal: Refusal) {
        let count = match refusal {
            Refusal::Auth => &mut self.auth,
            Refusal::TlsCert => &mut self.tls_cert,
            Refusal::Request(Reason::Command) => &mut self.command,
            Refusal::Request(Reason::Key) => &mut self.key,
            Refusal::Request(Reason::Channel) => &mut self.channel,
            Refusal::Request(Reason::Database) => &mut self.database,
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_is_forgotten_after_some_seconds() {
        let mut peaks = Peaks::default();
        peaks.note(1000);
        peaks.note(10);
        for second in 1..=Peaks::SECONDS as i64 {
            assert_eq!(peaks.max(), 1000, "{second}");
            peaks.enter_second(second);
            peaks.enter_second(second);
        }
        assert_eq!(peaks.max(), 0);
    }

    #[test]
    fn error_codes_beyond_the_bound_are_counted_together() {
        let mut stats = Stats::new(1);
        for code in 0..200 {
            stats.count_custom_error(format!("{code} text").as_bytes());
        }
        stats.count_custom_error(b"7 again");
        assert_eq!(stats.failures.by_code.get("7"), Some(&2));
        assert_eq!(stats.failures.by_code.get(ERROR_CODES_OVERFLOW), Some(&72));
        assert_eq!(stats.failures.replied, 201);
        stats.count_error(b"ERR this server's own");
        assert_eq!(stats.failures.by_code.get("ERR"), Some(&1), "the server's own codes are few");
    }
}

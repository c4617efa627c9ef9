//! Counters: for each command, for each error code, and for the engine as a whole.
//!
//! Only the main thread writes the counters. They lie apart from the command table, so that writing a counter
//! does not touch the table's cache lines.

use crate::facts::{Facts, IoThreads};
use sluice_acl::{Reason, Refusal};
use sluice_base::Histogram;
use sluice_base::{Now, heap};
use std::collections::BTreeMap;

/// Counters of one command.
#[derive(Debug, Default, Clone)]
pub struct CommandStats {
    /// Number of the command's executions.
    pub calls: u64,
    /// Time spent in executions, in nanoseconds.
    pub spent_ns: u64,
    /// Number of refusals before execution.
    pub rejected: u64,
    /// Number of executions that returned an error.
    pub failed: u64,
    /// Histogram of durations; allocated at the first call while `latency-tracking` is on.
    pub latency: Option<Box<Histogram>>,
}

/// The counters of the engine. CONFIG RESETSTAT resets them, except the ones that [`Stats::reset`] keeps.
#[derive(Debug)]
pub struct Stats {
    /// Counters of commands, indexed by `Spec::id`.
    pub commands: Vec<CommandStats>,
    /// Error replies and refusals.
    pub failures: FailureStats,
    /// Number of commands executed.
    pub total_commands: u64,
    /// Connections accepted and refused.
    pub connections: ConnectionStats,
    /// Key look-ups by commands that read.
    pub lookups: LookupStats,
    /// Work and results of active and lazy expiry.
    pub expiry: ExpiryStats,
    /// Work for `maxmemory` and `maxmemory-clients`.
    pub eviction: EvictionStats,
    /// Clients closed because of the size of their buffers.
    pub disconnections: DisconnectionStats,
    /// Batches of keys that were prefetched.
    pub prefetch: PrefetchStats,
    /// Full and partial synchronisations of replicas.
    pub syncs: SyncStats,
    /// Commands executed within event loop iterations.
    pub iteration: IterationStats,
    /// Compaction of the chunks of entries.
    pub compaction: CompactionStats,
    /// Time spent in the cron, in nanoseconds.
    pub cron_ns: u64,
    /// Rates of commands, bytes and iterations per second.
    pub rates: Rates,
    /// Largest recent output buffers of clients.
    pub output_peaks: Peaks,
    /// Values of the process's own counters at the last reset.
    pub base: Baseline,
}

/// Error replies and refusals.
#[derive(Clone, Debug, Default)]
pub struct FailureStats {
    /// Number of error replies by error code, the first word of the text.
    pub by_code: BTreeMap<Box<str>, u64>,
    /// Number of all error replies.
    pub replied: u64,
    /// Number of error replies on links of primaries or replicas.
    pub unexpected: u64,
    /// Number of refusals for lack of rights, by kind.
    pub refused: RefusalCounts,
}

/// Key look-ups by commands that read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupStats {
    /// Look-ups that found a key.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
}

/// Work and results of expiry.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpiryStats {
    /// Number of keys deleted because they had expired.
    pub keys: u64,
    /// Number of hash fields deleted because they had expired.
    pub fields: u64,
    /// Percentage of expired keys among those that the cycle inspects, as a running average.
    pub stale_percent: f64,
    /// Number of cron periods at the end of which an expiry cycle was still in progress.
    pub capped: u64,
    /// Time spent in expiry cycles, in nanoseconds.
    pub ns: u64,
}

/// Full and partial synchronisations of replicas.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncStats {
    /// Number of full synchronisations that were begun.
    pub full: u64,
    /// Number of partial synchronisations, which continue at the replica's offset.
    pub partial_ok: u64,
    /// Number of refused partial synchronisations, which became full ones.
    pub partial_err: u64,
    /// Number of bytes sent to replicas.
    pub output_bytes: u64,
}

/// Commands executed within event loop iterations.
#[derive(Clone, Copy, Debug, Default)]
pub struct IterationStats {
    /// Time spent in commands in the current iteration, in nanoseconds.
    pub command_ns: u64,
    /// Value of [`Stats::total_commands`] at the start of the current iteration.
    pub began_at: u64,
    /// Greatest number of commands in one iteration.
    pub commands_max: u64,
    /// Number of slices after which a script was suspended, to be continued later.
    pub script_slices: u64,
}

/// Work for `maxmemory` and `maxmemory-clients`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EvictionStats {
    /// Number of keys evicted.
    pub keys: u64,
    /// Number of clients closed to free memory.
    pub clients: u64,
    /// Number of EVAL scripts displaced from the cache by newer ones.
    pub scripts: u64,
    /// Most bytes above `maxmemory` at the end of a script that had written.
    pub script_overrun_max: u64,
    /// Time during which more memory than `maxmemory` was in use.
    pub memory_exceeded: ExceededTime,
}

/// Batches of keys that were prefetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchStats {
    /// Number of prefetched batches with more than one key.
    pub batches: u64,
    /// Number of keys in these batches.
    pub entries: u64,
}

/// Clients closed because of the size of their buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisconnectionStats {
    /// Number of clients closed because of their query buffer.
    pub query_buffer: u64,
    /// Number of clients closed because of their output buffer.
    pub output_buffer: u64,
}

/// Connections accepted and refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionStats {
    /// Number of connections accepted.
    pub accepted: u64,
    /// Number of connections refused, for any reason.
    pub rejected: u64,
    /// Number of refused connections of kind [`RejectedConnection::Priority`].
    pub rejected_priority: u64,
}

impl ConnectionStats {
    /// Counts a refused connection.
    pub fn count_rejected(&mut self, rejected: RejectedConnection) {
        self.rejected += 1;
        self.rejected_priority += u64::from(rejected == RejectedConnection::Priority);
    }
}

/// The kind of a refused connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedConnection {
    /// A connection refused for another reason, or not from `priority-subnets`.
    Ordinary,
    /// A connection from `priority-subnets`, refused because `maxclients` was reached.
    Priority,
}

/// The time during which some bound was exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExceededTime {
    /// Start of the current excess, in ns of the monotonic clock; `None` if there is none.
    since_ns: Option<u64>,
    /// Duration of all earlier excesses, in ns.
    before_ns: u64,
}

impl ExceededTime {
    /// Records whether the bound is exceeded now.
    pub fn note(&mut self, is_exceeded: bool, now: Now) {
        if is_exceeded {
            self.since_ns.get_or_insert(now.mono_ns);
        } else if let Some(since_ns) = self.since_ns.take() {
            self.before_ns += now.mono_ns.saturating_sub(since_ns);
        }
    }

    /// Milliseconds of all excesses together, and of the current one; 0 if there is none.
    pub fn ms(self, now: Now) -> (u64, u64) {
        let current_ns = self.since_ns.map_or(0, |since_ns| now.mono_ns.saturating_sub(since_ns));
        ((self.before_ns + current_ns) / 1_000_000, current_ns / 1_000_000)
    }
}

/// Counters of the process at the last CONFIG RESETSTAT. The process never resets its counters, so these
/// values are subtracted for display.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Counters of the I/O threads.
    pub io_threads: IoThreads,
    /// Bytes received, from clients and from the primary.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Bytes received from the primary.
    pub net_repl_input_bytes: u64,
    /// Number of read events.
    pub reads_processed: u64,
    /// Number of write events.
    pub writes_processed: u64,
    /// Number of iterations of the event loop.
    pub eventloop_cycles: u64,
    /// Total duration of the iterations, in microseconds.
    pub eventloop_duration_sum: u64,
    /// Duration of commands within iterations, in microseconds.
    pub eventloop_duration_cmd_sum: u64,
    /// Number of values freed on another thread.
    pub lazyfreed: u64,
}

impl Baseline {
    /// The present values of the counters.
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

/// If this many error codes are counted, new codes of scripts' errors are counted together, because scripts
/// could invent any number of codes.
pub(crate) const ERROR_CODES_MAX: usize = 128;

/// The name under which INFO shows all further codes of scripts' errors together.
const ERROR_CODES_OVERFLOW: &str = "ERRORSTATS_OVERFLOW";

impl Stats {
    /// Bytes of heap memory that the counters hold. O(commands and error codes).
    pub fn footprint(&self) -> usize {
        let errors: usize = self.failures.by_code.keys().map(|code| heap::block(code.len())).sum();
        let histograms = self.commands.iter().filter(|stats| stats.latency.is_some()).count();
        heap::vec(&self.commands)
            + histograms * Histogram::FOOTPRINT
            + heap::tree::<Box<str>, u64>(self.failures.by_code.len())
            + errors
    }

    /// All counters zero, for `commands` commands.
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

    /// Counts an error reply by its code, the first word of its text. A line break also ends the word,
    /// because it is sent as a space.
    pub fn count_error(&mut self, text: &[u8]) {
        self.count_by_code(text, usize::MAX);
    }

    /// Like [`Stats::count_error`], but for an error made by a script: beyond `ERROR_CODES_MAX` codes, new
    /// codes are counted together.
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

    /// Resets the counters for CONFIG RESETSTAT; `facts` has the process's present counters. The peaks of
    /// output buffers, the time of commands in this iteration and the counters from which the rates are
    /// computed stay.
    pub fn reset(&mut self, facts: &Facts) {
        let mut rates = std::mem::take(&mut self.rates);
        rates.reset();
        let iteration = IterationStats { command_ns: self.iteration.command_ns, ..IterationStats::default() };
        let base = Baseline::new(facts);
        let output_peaks = std::mem::take(&mut self.output_peaks);
        *self = Stats { rates, iteration, base, output_peaks, ..Stats::new(self.commands.len()) };
    }
}

/// The largest of the sizes noted in the last eight seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    /// Largest size of each second, indexed by the second modulo [`Peaks::SECONDS`].
    by_second: [usize; Peaks::SECONDS],
    second: i64,
}

impl Peaks {
    /// Number of seconds for which a size is remembered, including the second in which it was noted.
    pub const SECONDS: usize = 8;

    /// Forgets sizes that are too old at `second`; must be called at least once a second.
    pub fn enter_second(&mut self, second: i64) {
        if second != self.second {
            self.second = second;
            *self.slot() = 0;
        }
    }

    /// Records a size in the current second.
    #[inline]
    pub fn note(&mut self, size: usize) {
        let slot = self.slot();
        *slot = size.max(*slot);
    }

    /// The largest size in the last seconds; 0 if there is none.
    pub fn max(&self) -> usize {
        self.by_second.into_iter().max().unwrap_or(0)
    }

    #[inline]
    fn slot(&mut self) -> &mut usize {
        &mut self.by_second[self.second.rem_euclid(Peaks::SECONDS as i64) as usize]
    }
}

/// Rates over the last 16 samples of the cron, taken every 100 ms.
#[derive(Debug, Default)]
pub struct Rates {
    /// Commands executed per second.
    pub ops: Rate,
    /// Bytes received per second.
    pub input: Rate,
    /// Bytes sent per second.
    pub output: Rate,
    /// Bytes received from the primary per second.
    pub repl_input: Rate,
    /// Event loop iterations per second.
    pub cycles: Rate,
    /// Mean duration of an iteration, in microseconds.
    pub cycle_us: Rate,
}

impl Rates {
    /// Forgets the samples but keeps the last values of the counters, except that commands count
    /// from zero again.
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
    /// Adds a sample from two counters: the growth of `value` for each unit of growth of
    /// `base`, times `factor`; 0 if `base` has not grown.
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

/// Counters of compaction for INFO. CONFIG RESETSTAT resets them.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactionStats {
    /// Number of entries moved.
    pub moved: u64,
    /// Number of moves that were undone.
    pub abandoned: u64,
    /// Percentage of time that compaction may use at present; 0 if there is nothing to do.
    pub running_percent: u64,
    /// Milliseconds with work for compaction, without the current stretch.
    pub total_ms: u64,
    /// Start of the current stretch of work, in ms since the epoch; 0 if there is none.
    pub since_ms: i64,
}

impl CompactionStats {
    /// Duration of the current stretch of work, in milliseconds.
    pub fn current_ms(&self, now_ms: i64) -> u64 {
        if self.since_ms == 0 { 0 } else { (now_ms - self.since_ms).max(0) as u64 }
    }
}

/// Number of refusals by kind: INFO's `acl_access_denied_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusalCounts {
    /// Refused attempts to authenticate.
    pub auth: u64,
    /// Requests refused because of their command.
    pub command: u64,
    /// Requests refused because of a key.
    pub key: u64,
    /// Requests refused because of a channel.
    pub channel: u64,
    /// Certificates that name no user.
    pub tls_cert: u64,
    /// Requests refused because of a database.
    pub database: u64,
}

impl RefusalCounts {
    /// Counts a refusal under its kind.
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

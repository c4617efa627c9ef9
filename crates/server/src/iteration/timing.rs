//! The deadlines of the cron and of samples, and how long iterations take.

use crate::host::Work;
use crate::pipeline_depth::Depth;

/// The timing of iterations. Times are monotonic nanoseconds.
#[derive(Debug, Default)]
pub struct Timing {
    /// When this iteration began.
    pub began_ns: u64,
    /// Whether this iteration did any work.
    pub is_busy: bool,
    /// When the cron is due.
    pub next_cron_ns: u64,
    next_sample_ns: u64,
    /// The average number of requests in a receive.
    depth: Depth,
    /// If a receive has at least this many requests on average, the event loop may wait a little longer for
    /// more events (`event-loop-batch-wait-depth`).
    pub gather_depth: u64,
    /// Number of commands that had been executed at the last call of `learn_depth`.
    commands: u64,
    /// Number of receives that had been made at the last call of `learn_depth`.
    reads: u64,
}

/// Minimum time between two samples of the process's statistics. Reading the allocator's statistics costs
/// as much as a hundred commands, and the cron, which takes the samples, runs more often while entries are
/// compacted.
const SAMPLE_NS: u64 = 10_000_000;
/// Weight of the running mean of the number of requests in a receive, compared with the newest value.
const DEPTH_WEIGHT: u64 = 7;

impl Timing {
    /// Records the time at which an iteration begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// Records the end of an iteration. Returns how long the iteration took, if it did any work.
    pub fn end(&mut self, now_ns: u64, command_ns: u64, work: &mut Work) -> Option<u64> {
        let spent_ns = now_ns.saturating_sub(self.began_ns);
        let is_busy = std::mem::take(&mut self.is_busy);
        work.count_iteration(spent_ns, command_ns, is_busy);
        is_busy.then_some(spent_ns)
    }

    /// Updates the mean number of requests in a receive. Returns whether the mean is high enough that the
    /// event loop should wait longer to collect more events. A wait delays all replies to a pipeline
    /// together, which is a small cost for each; a single reply would bear the whole delay.
    pub fn learn_depth(&mut self, commands: u64, reads: u64) -> bool {
        let (new, receives) = (commands.saturating_sub(self.commands), reads.saturating_sub(self.reads));
        (self.commands, self.reads) = (commands, reads);
        self.depth.learn(new, receives, DEPTH_WEIGHT);
        self.depth.is_at_least(self.gather_depth)
    }

    /// Whether the engine's cron is due.
    pub fn cron_is_due(&self) -> bool {
        self.began_ns >= self.next_cron_ns
    }

    /// Schedules the next cron for `wait_ms` (at least 1) after `began_ns`, when this iteration began.
    pub fn plan_cron(&mut self, wait_ms: u64) {
        self.next_cron_ns = self.began_ns + wait_ms.max(1) * 1_000_000;
    }

    /// Whether the process's statistics are to be read now. If so, plans the next reading.
    pub fn sample_is_due(&mut self) -> bool {
        let is_due = self.began_ns >= self.next_sample_ns;
        if is_due {
            self.next_sample_ns = self.began_ns + SAMPLE_NS;
        }
        is_due
    }
}

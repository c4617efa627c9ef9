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
    /// How many requests a receive brings, on average.
    depth: Depth,
    /// When a receive brings at least this many requests on average, the event loop may wait a little longer
    /// for more events (`event-loop-batch-wait-depth`).
    pub gather_depth: u64,
    /// Commands executed as of the last call of `learn_depth`.
    commands: u64,
    /// Receives made as of the last call of `learn_depth`.
    reads: u64,
}

/// The least time between two samples of the process's statistics. Reading the allocator's statistics costs
/// as much as a hundred commands, and the cron, which takes the samples, runs more often while entries are
/// compacted.
const SAMPLE_NS: u64 = 10_000_000;
/// Weight of the running mean of requests in a receive, against the newest value.
const DEPTH_WEIGHT: u64 = 7;

impl Timing {
    /// Notes the time at which an iteration begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// Notes the end of an iteration; returns how long it took if it did any work.
    pub fn end(&mut self, now_ns: u64, command_ns: u64, work: &mut Work) -> Option<u64> {
        let spent_ns = now_ns.saturating_sub(self.began_ns);
        let is_busy = std::mem::take(&mut self.is_busy);
        work.count_iteration(spent_ns, command_ns, is_busy);
        is_busy.then_some(spent_ns)
    }

    /// Updates the mean number of requests in a receive; returns whether it is high enough that the event
    /// loop should wait longer to collect more events. The cost of a wait is small when spread over a
    /// pipeline's replies; a single reply would be delayed by all of it.
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

    /// Schedules the next cron `wait_ms` (at least 1) after the begin of this iteration, `began_ns`.
    pub fn plan_cron(&mut self, wait_ms: u64) {
        self.next_cron_ns = self.began_ns + wait_ms.max(1) * 1_000_000;
    }

    /// Whether the process's numbers are to be read; if so, plans the next reading.
    pub fn sample_is_due(&mut self) -> bool {
        let is_due = self.began_ns >= self.next_sample_ns;
        if is_due {
            self.next_sample_ns = self.began_ns + SAMPLE_NS;
        }
        is_due
    }
}

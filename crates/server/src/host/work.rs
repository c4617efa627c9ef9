//! Counters of the event loop's iterations.

use crate::iteration_stats::{LongestIteration, thread_ns};
use sluice_numbers::facts::Counts;
use sluice_numbers::stats::Peaks;

/// Counters since the start, which only grow, except for the two maxima.
#[derive(Default)]
pub struct Work {
    /// Numbers of iterations, and of bytes received and sent over sockets.
    pub counts: Counts,
    /// Number of receives from clients that the server has processed.
    pub reads: u64,
    /// Number of sends to clients, by all threads.
    pub writes: u64,
    /// Time in which the main thread had work, ns.
    pub active_ns: u64,
    /// Time in which the main thread polled for work and found none, ns.
    pub spun_ns: u64,
    /// Time in which the main thread executed commands, ns.
    pub command_ns: u64,
    /// Total time of the iterations, ns.
    pub cycle_ns: u64,
    /// The iteration that took longest, and its processor time.
    pub longest_iteration: LongestIteration,
    /// Recent maxima of clients' input buffers, bytes.
    pub input_peaks: Peaks,
}

impl Work {
    /// Counts an iteration of the event loop and the time in its commands. `is_busy`: whether the
    /// iteration did some work.
    pub fn count_iteration(&mut self, spent_ns: u64, command_ns: u64, is_busy: bool) {
        self.counts.cycles += 1;
        self.cycle_ns += spent_ns;
        self.command_ns += command_ns;
        self.longest_iteration.note(spent_ns, thread_ns);
        if is_busy {
            self.active_ns += spent_ns;
        }
    }
}

//! What the event loop's iterations did, in numbers.

use crate::iteration_stats::{LongestIteration, thread_ns};
use sluice_numbers::facts::Counts;
use sluice_numbers::stats::Peaks;

/// See the module. All numbers only grow, but for the two of maxima.
#[derive(Default)]
pub struct Work {
    /// Iterations, and bytes over sockets.
    pub counts: Counts,
    /// Read events processed.
    pub reads: u64,
    /// Send operations.
    pub writes: u64,
    /// Time in which the main thread had work, nanoseconds.
    pub active_ns: u64,
    /// Time in which the main thread looked for work and found none, nanoseconds.
    pub spun_ns: u64,
    /// Time in commands, nanoseconds.
    pub command_ns: u64,
    /// Time in iterations, nanoseconds.
    pub cycle_ns: u64,
    /// The longest iteration.
    pub longest_iteration: LongestIteration,
    /// Largest input buffers of clients.
    pub input_peaks: Peaks,
}

impl Work {
    /// Counts an iteration of the event loop and the time in its commands. `is_busy`: something happened in
    /// it.
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

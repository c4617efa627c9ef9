//! What INFO shows and nothing else reads.

use super::work::Work;
use crate::memory_parts::Parts;
use sluice_numbers::facts::{EventLoopCounts, Facts, IoThreads};

/// Why no I/O thread runs where none is configured.
pub const NO_IO_THREADS: &str = "io-threads is 1: the main thread does everything";

/// See the module.
pub struct Shown {
    /// Facts that do not change while the server runs.
    pub(super) fixed: Facts,
    /// What I/O threads did.
    pub io_threads: IoThreads,
    /// What the event loop did, once it was looked at.
    pub event_loop: Option<EventLoopCounts>,
    /// The parts of memory, where they are summed: further lines for INFO debug.
    pub parts: Parts,
}

impl Shown {
    /// Nothing is known yet.
    pub(super) fn new() -> Shown {
        Shown {
            fixed: Facts::default(),
            io_threads: IoThreads { reason: NO_IO_THREADS, ..IoThreads::default() },
            event_loop: None,
            parts: Parts::default(),
        }
    }

    /// Learns the event loop's counters.
    pub(super) fn learn_loop(&mut self, metrics: &sluice_evloop::Metrics, work: &Work) {
        self.event_loop = Some(EventLoopCounts {
            parks: metrics.parks,
            system_calls: metrics.system_calls,
            events: metrics.events,
            stale_events: metrics.stale,
            gathered: metrics.gathered,
            starvations: metrics.starvations,
            wakes_coalesced: metrics.wakes_coalesced,
            wakes_sent: metrics.wakes_sent,
            wakes_seen: metrics.wakes_seen,
            accept_failures: metrics.accept_failures,
            sends_blocked: metrics.sends_blocked,
            iteration_max_us: work.longest_iteration.wall_us(),
            iteration_max_cpu_us: work.longest_iteration.cpu_us(),
        });
    }
}

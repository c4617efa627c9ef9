//! Values that INFO shows and no other part of the server reads.

use super::work::Work;
use crate::memory_parts::Parts;
use sluice_numbers::facts::{EventLoopCounts, Facts, IoThreads};

/// The reason that INFO shows for the absence of I/O threads if none is configured.
pub const NO_IO_THREADS: &str = "io-threads is 1: the main thread serves all connections";

/// Values that only INFO shows.
pub struct Shown {
    /// Facts that are set at the start. Most of them never change.
    pub(super) fixed: Facts,
    /// Counters of the I/O threads.
    pub io_threads: IoThreads,
    /// Counters of the event loop; `None` before the first sample.
    pub event_loop: Option<EventLoopCounts>,
    /// The memory of each part of the server, for further lines of INFO debug, if it is measured.
    pub parts: Parts,
}

impl Shown {
    /// No values yet.
    pub(super) fn new() -> Shown {
        Shown {
            fixed: Facts::default(),
            io_threads: IoThreads { reason: NO_IO_THREADS, ..IoThreads::default() },
            event_loop: None,
            parts: Parts::default(),
        }
    }

    /// Stores the event loop's counters.
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

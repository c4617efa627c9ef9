//! What INFO shows and nothing else reads.

use super::work::Work;
use crate::parts::Parts;
use sluice_engine::{Facts, IoThreads};

/// Why no I/O thread runs where none is configured.
pub const NO_IO_THREADS: &str = "io-threads is 1: the main thread does everything";

/// See the module.
pub struct Shown {
    /// Facts that do not change while the server runs.
    pub(super) fixed: Facts,
    /// What I/O threads did.
    pub io_threads: IoThreads,
    /// Lines for INFO debug.
    debug: Vec<(String, String)>,
    /// The parts of memory, where they are summed: further lines for INFO debug.
    pub parts: Parts,
}

impl Shown {
    /// Nothing is known yet.
    pub(super) fn new() -> Shown {
        Shown {
            fixed: Facts::default(),
            io_threads: IoThreads { reason: NO_IO_THREADS, ..IoThreads::default() },
            debug: Vec::new(),
            parts: Parts::default(),
        }
    }

    /// Learns the event loop's counters.
    pub(super) fn learn_loop(&mut self, metrics: &sluice_evloop::Metrics, work: &Work) {
        let rows = [
            ("eventloop_parks", metrics.parks),
            ("eventloop_system_calls", metrics.system_calls),
            ("eventloop_events", metrics.events),
            ("eventloop_stale_events", metrics.stale),
            ("eventloop_gathered", metrics.gathered),
            ("eventloop_starvations", metrics.starvations),
            ("eventloop_wakes_coalesced", metrics.wakes_coalesced),
            ("eventloop_wakes_sent", metrics.wakes_sent),
            ("eventloop_wakes_seen", metrics.wakes_seen),
            ("eventloop_accept_failures", metrics.accept_failures),
            ("eventloop_sends_blocked", metrics.sends_blocked),
            ("eventloop_iteration_max_usec", work.longest_iteration.wall_us()),
            ("eventloop_iteration_max_cpu_usec", work.longest_iteration.cpu_us()),
        ];
        self.debug.clear();
        self.debug.extend(rows.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())));
    }

    /// Lines for INFO debug.
    pub(super) fn debug_lines(&self) -> Vec<(String, String)> {
        self.debug.iter().cloned().chain(self.parts.lines()).collect()
    }
}

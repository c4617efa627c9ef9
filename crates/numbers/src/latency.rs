//! The latency monitor: spikes by event, for the subcommands of LATENCY except HISTOGRAM.

use sluice_base::heap;
use std::collections::{BTreeMap, VecDeque};

/// Number of samples kept for each event.
pub(crate) const HISTORY_MAX: usize = 160;

/// The spikes of one event.
#[derive(Debug, Default)]
pub struct Series {
    /// `(second, milliseconds)`, oldest first: the largest spike of each second that had one, for the last
    /// 160 such seconds.
    pub samples: VecDeque<(i64, u64)>,
    /// The largest spike so far, in milliseconds.
    pub max_ms: u64,
    /// Sum of all spikes so far, in milliseconds.
    pub sum_ms: u64,
    /// Number of all spikes so far.
    pub count: u64,
}

/// The spikes of all events.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    series: BTreeMap<&'static str, Series>,
}

impl LatencyMonitor {
    /// Bytes of heap memory that the monitor holds. O(events).
    pub fn footprint(&self) -> usize {
        let samples: usize = self.series.values().map(|series| heap::deque(&series.samples)).sum();
        heap::tree::<&str, Series>(self.series.len()) + samples
    }

    /// Adds a spike of `duration_ms` at second `now_s`.
    pub fn add(&mut self, event: &'static str, now_s: i64, duration_ms: u64) {
        let series = self.series.entry(event).or_default();
        series.max_ms = series.max_ms.max(duration_ms);
        series.sum_ms += duration_ms;
        series.count += 1;
        match series.samples.back_mut() {
            Some((second, largest)) if *second == now_s => *largest = (*largest).max(duration_ms),
            _ => series.samples.push_back((now_s, duration_ms)),
        }
        if series.samples.len() > HISTORY_MAX {
            series.samples.pop_front();
        }
    }

    /// All events with their spikes, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Series)> {
        self.series.iter().map(|(name, series)| (*name, series))
    }

    /// The spikes of one event; `None` if there were none since the start or the last reset. O(events).
    pub fn get(&self, event: &[u8]) -> Option<&Series> {
        self.series.iter().find(|(name, _)| name.as_bytes() == event).map(|(_, s)| s)
    }

    /// Removes the events for which `which` returns true. Returns their number.
    pub fn reset(&mut self, which: impl Fn(&str) -> bool) -> usize {
        let before = self.series.len();
        self.series.retain(|name, _| !which(name));
        before - self.series.len()
    }
}

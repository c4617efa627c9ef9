//! The latency monitor: spikes by event, for LATENCY HISTORY and its like.

use sluice_base::heap;
use std::collections::{BTreeMap, VecDeque};

/// Spikes kept per event.
pub(crate) const HISTORY_MAX: usize = 160;

/// One event's spikes.
#[derive(Debug, Default)]
pub struct Series {
    /// `(second, milliseconds)`, oldest first; spikes within one second keep the largest.
    pub samples: VecDeque<(i64, u64)>,
    /// Largest of all time, milliseconds.
    pub max_ms: u64,
    /// Sum of all, milliseconds.
    pub sum_ms: u64,
    /// Number of all.
    pub count: u64,
}

/// Spikes by event.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    series: BTreeMap<&'static str, Series>,
}

impl LatencyMonitor {
    /// Bytes that the allocator has given. O(events).
    pub fn footprint(&self) -> usize {
        let samples: usize = self.series.values().map(|series| heap::deque(&series.samples)).sum();
        heap::tree::<&str, Series>(self.series.len()) + samples
    }

    /// Notes a spike.
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

    /// Every event with its spikes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Series)> {
        self.series.iter().map(|(name, series)| (*name, series))
    }

    /// One event's spikes.
    pub fn get(&self, event: &[u8]) -> Option<&Series> {
        self.series.iter().find(|(name, _)| name.as_bytes() == event).map(|(_, s)| s)
    }

    /// Forgets the events for which `which` says so; how many.
    pub fn reset(&mut self, which: impl Fn(&str) -> bool) -> usize {
        let before = self.series.len();
        self.series.retain(|name, _| !which(name));
        before - self.series.len()
    }
}

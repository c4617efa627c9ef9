//! A host's clocks: a monotonic one that is slightly too fast or too slow, and a wall clock that jumps.

use sluice_base::Now;

pub(super) const MS: u64 = 1_000_000;
/// Milliseconds between two bursts of writes.
const BURST_MS: u64 = 300;
/// Wall time at the beginning, µs.
const EPOCH_US: i64 = 1_700_000_000_000_000;

/// The clocks of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostClock {
    /// How much faster than real time the monotonic clock runs, in millionths; negative if it is slower.
    pub(super) drift_ppm: i64,
    /// The error of the wall clock, ms.
    pub(super) wall_off_ms: i64,
}

impl HostClock {
    /// The readings of the clocks at a real time.
    pub(super) fn now(self, real_ns: u64) -> Now {
        let mono_ns = (i128::from(real_ns) * i128::from(1_000_000 + self.drift_ppm) / 1_000_000) as u64;
        let unix_us = EPOCH_US + (mono_ns / 1_000) as i64 + self.wall_off_ms * 1_000;
        Now { mono_ns, unix_us }
    }

    /// The end offset of a primary's replication stream at a time of this clock. It grows with time, by the
    /// same rule as in the stock model.
    pub(super) fn stream_end(self, mono_ns: u64) -> u64 {
        written((EPOCH_US as u64 + mono_ns / 1_000) / 1_000)
    }

    /// The real time at which the monotonic clock shows `mono_ms`, plus 1 ms.
    pub(super) fn real_ns(self, mono_ms: u64) -> u64 {
        let ns = i128::from(mono_ms) * i128::from(MS);
        (ns * 1_000_000 / i128::from(1_000_000 + self.drift_ppm)) as u64 + MS
    }
}

/// The end of a primary's replication stream at a wall time, ms. Writes arrive in bursts; between two
/// bursts the stream does not grow, so that a replica can receive all of it before a pause of writes.
pub(super) fn written(wall_ms: u64) -> u64 {
    wall_ms - wall_ms % BURST_MS
}

//! Active expiry: when the keyspace deletes what has expired, and for how long at a time.
//!
//! The cron begins a cycle in each of its periods. The cycle runs in slices at the end of event loop
//! iterations, so that no client waits longer than a slice. While clients work, slices have a share of the
//! time that `active-expire-effort` decides, and commands have the rest. Without clients a slice follows upon
//! the one before, unless the deletions are propagated: replicas and the disk then take what the share gives
//! them.
//!
//! Invariants: (1) a slice takes 200 microseconds and one step of the keyspace at most, the commit of its
//! deletions included; (2) expiry is a write: a pause, a failover, an end of the server, import mode and a
//! primary keep expiry back; (3) each step of the keyspace is a unit, and each deletion propagates by itself.

mod steps;

use sluice_keyspace::ExpireWalk;

/// Where active expiry stands between slices. Times are monotonic nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct ActiveExpiry {
    /// Whether a cycle is under way.
    is_running: bool,
    walk: ExpireWalk,
    /// When the next slice is due.
    next_ns: u64,
    /// When the share of the time lets the next slice begin.
    shared_ns: u64,
    /// Commands executed at the last look, and when a look last found new ones.
    commands: u64,
    worked_ns: Option<u64>,
    /// Keys that the cycle has looked at and deleted since
    /// [`Stats::expired_stale_percent`](sluice_numbers::stats::Stats) learned of them.
    sampled: u64,
    expired: u64,
}

impl ActiveExpiry {
    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        self.walk.footprint()
    }
}

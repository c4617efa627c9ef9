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

use sluice_keyspace::ExpireWalk;

/// Where active expiry stands between slices. Times are monotonic nanoseconds.
#[derive(Debug, Default)]
pub struct ActiveExpiry {
    /// Whether a cycle is under way.
    pub is_running: bool,
    /// Where in the data the cycle is.
    pub walk: ExpireWalk,
    /// When the next slice is due.
    pub next_ns: u64,
    /// When the share of the time lets the next slice begin.
    pub shared_ns: u64,
    /// Commands executed at the last look.
    pub commands: u64,
    /// When a look last found new ones.
    pub worked_ns: Option<u64>,
    /// Keys that the cycle has looked at since [`Stats::expired_stale_percent`](sluice_numbers::stats::Stats)
    /// learned of them.
    pub sampled: u64,
    /// Keys that it has deleted since then.
    pub expired: u64,
}

impl ActiveExpiry {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        self.walk.footprint()
    }
}

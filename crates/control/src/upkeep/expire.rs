//! Active expiry: when expired keys are deleted, and for how long at a time.
//!
//! The cron begins a cycle in each of its periods. The cycle runs in slices at the end of event loop
//! iterations, so no client waits longer than a slice. While clients are active, slices get the share of
//! time that `active-expire-effort` determines, and commands get the rest. Without clients the slices
//! follow each other at once, unless deletions are propagated: then replicas and the disk get only as
//! many deletions as the share allows.
//!
//! Invariants: (1) a slice takes at most 200 microseconds and one step of the keyspace, including the commit
//! of its deletions; (2) expiry is a write, so a pause, a failover, a shutdown and import mode hold it back,
//! and a server with a primary leaves it to the primary; (3) each step of the keyspace is committed like a
//! command, and each deletion is propagated separately.

use sluice_keyspace::ExpireWalk;

/// The state of active expiry between slices. Times are in ns of the monotonic clock.
#[derive(Debug, Default)]
pub struct ActiveExpiry {
    /// Whether a cycle is in progress.
    pub is_running: bool,
    /// The cycle's position in the data.
    pub walk: ExpireWalk,
    /// Time at which the next slice is due.
    pub next_ns: u64,
    /// Earliest time of the next slice that the share of processor time allows.
    pub shared_ns: u64,
    /// Number of commands executed at the last check.
    pub commands: u64,
    /// Time of the last check that found new commands.
    pub worked_ns: Option<u64>,
    /// Keys sampled since the last update of
    /// [`ExpiryStats::stale_percent`](sluice_numbers::stats::ExpiryStats::stale_percent).
    pub sampled: u64,
    /// Keys deleted among the sampled ones.
    pub expired: u64,
}

impl ActiveExpiry {
    /// Bytes of heap memory that the cycle's position takes.
    pub fn footprint(&self) -> usize {
        self.walk.footprint()
    }
}

//! Memory limits: keys that make room above `maxmemory`, and clients that are closed above
//! `maxmemory-clients`.
//!
//! Room is made ahead of a command that may need more, and by the clock. What counts is what the process has
//! given out, less what a snapshot alone holds, what another thread is about to free, and what waits for
//! replicas and for the append-only file: all of that goes by itself. The allocator is asked once a
//! millisecond at most, and by the cron alone where a quarter of the limit is left; in between, the bytes of
//! the data say how much more or less it is.
//!
//! Invariants: (1) eviction stands between two units, and each deletion propagates by itself; (2) one call
//! takes no longer than `maxmemory-eviction-tenacity` lets it, about; (3) a pause, a load and a primary keep
//! eviction back; in import mode writes are refused instead.

use sluice_keyspace::EvictionPool;

/// What eviction remembers.
#[derive(Debug, Default)]
pub struct Eviction {
    /// Keys that were found to be the next to go.
    pub pool: EvictionPool,
    /// By what the pool was filled.
    pub rule: Option<EvictionRuleOf>,
    /// The memory that counts.
    pub gauge: MemoryGauge,
    /// There is more to evict than the last call had time for.
    pub is_running: bool,
    /// When clients are looked at again where there are many, monotonic.
    pub next_clients_ns: u64,
}

type EvictionRuleOf = (sluice_keyspace::EvictionOrder, sluice_keyspace::EvictionKeys);

/// The memory that counts, when it was read last.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryGauge {
    /// When the allocator was asked, monotonic ns; none: never.
    pub read_at_ns: Option<u64>,
    /// Bytes counted at that moment.
    pub counted_bytes: usize,
    /// Bytes of the data at that moment.
    pub data_bytes: usize,
}

/// Whether there is room for a command that needs more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// There is.
    Enough,
    /// More has to be evicted, and will be: the command may run.
    Later,
    /// There is nothing that may be evicted.
    None,
}

impl Eviction {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        self.pool.footprint()
    }
}

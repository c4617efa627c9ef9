//! Memory limits: keys are evicted above `maxmemory`, and clients closed above `maxmemory-clients`.
//!
//! Memory is freed before a command that may need more, and at regular times. The counted memory is that of
//! the process, without memory that only a snapshot holds, that another thread is about to free, or that
//! waits for replicas or the append-only file: all of that is freed without eviction. The allocator is
//! queried at most once a millisecond, and only by the cron while a quarter of the limit is free; between
//! two queries, the growth of the data since the last query is added to that query's result.
//!
//! Invariants: (1) eviction runs between two commands or transactions, and each deletion is propagated
//! separately; (2) one call takes about as long as `maxmemory-eviction-tenacity` allows; (3) no key is
//! evicted during a pause, during a load, or on a replica (with `replica-ignore-maxmemory`), whose primary
//! deletes; in import mode writes are refused instead.

use sluice_keyspace::EvictionPool;

/// The state of eviction between two calls.
#[derive(Debug, Default)]
pub struct Eviction {
    /// The best candidates for eviction among the keys sampled so far.
    pub pool: EvictionPool,
    /// The order and the kind of keys with which the pool was filled; `None` before the first time.
    pub rule: Option<EvictionRuleOf>,
    /// The counted memory at the last query.
    pub gauge: MemoryGauge,
    /// Whether the last call ran out of time with more to evict.
    pub is_running: bool,
    /// Time of the next check of `maxmemory-clients` if there are many clients, in ns of the monotonic
    /// clock.
    pub next_clients_ns: u64,
}

type EvictionRuleOf = (sluice_keyspace::EvictionOrder, sluice_keyspace::EvictionKeys);

/// The counted memory at the last query of the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryGauge {
    /// Time of the query, in ns of the monotonic clock; `None` before the first.
    pub read_at_ns: Option<u64>,
    /// Counted bytes at that time.
    pub counted_bytes: usize,
    /// Bytes of the data at that time.
    pub data_bytes: usize,
}

/// Whether there is memory for a command that needs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// The counted memory is within the limit, or eviction is held back: the command may run.
    Enough,
    /// More keys must be evicted, and will be: the command may run.
    Later,
    /// No key may be evicted: commands that may need more memory are refused.
    None,
}

impl Eviction {
    /// Bytes of heap memory that the pool takes.
    pub fn footprint(&self) -> usize {
        self.pool.footprint()
    }
}

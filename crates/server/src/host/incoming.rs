//! Data that the server is reading: a load, or a full sync from the primary.

use crate::replica::progress::SyncProgress;
use sluice_base::Now;
use sluice_numbers::facts::{StreamBufferFacts, SyncFacts};
use sluice_snapshot::LoadProgress;
use std::sync::Arc;

/// The load and the full sync under way.
#[derive(Default)]
pub struct Incoming {
    /// The load under way; its keyspace also counts as used memory.
    pub load: Option<Arc<LoadProgress>>,
    /// The snapshot that is being received from the primary.
    pub sync: Option<Arc<SyncProgress>>,
    /// Monotonic ns of the last receive from the primary.
    pub last_activity_ns: u64,
    /// Facts about the primary's replication stream, which is buffered while a snapshot is received on
    /// another connection and loaded.
    pub stream_buffer: StreamBufferFacts,
}

impl Incoming {
    /// How much of the primary's snapshot was received; `None` if no snapshot is being received.
    pub(super) fn sync_facts(&self, now: Now) -> Option<SyncFacts> {
        let (total_bytes, read_bytes) = self.sync.as_ref()?.bytes();
        let last_io_s = now.mono_ns.saturating_sub(self.last_activity_ns) / 1_000_000_000;
        Some(SyncFacts { total_bytes, read_bytes, last_io_s })
    }

    /// Number of bytes from the primary that another thread has received and the main thread has not counted.
    pub(super) fn unmerged_bytes(&self) -> u64 {
        self.sync.as_ref().map_or(0, |progress| progress.unmerged())
    }
}

//! Data on their way into the server.

use crate::replica::progress::SyncProgress;
use sluice_base::Now;
use sluice_numbers::facts::{StreamBufferFacts, SyncFacts};
use sluice_snapshot::LoadProgress;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub struct Incoming {
    /// The load under way: its keyspace takes memory, too.
    pub load: Option<Arc<LoadProgress>>,
    /// The snapshot that is received from the primary.
    pub sync: Option<Arc<SyncProgress>>,
    /// When something was heard of the primary last, ns of the monotonic clock.
    pub heard_ns: u64,
    /// What the primary has sent after a snapshot that is not loaded yet.
    pub stream_buffer: StreamBufferFacts,
}

impl Incoming {
    /// How far the snapshot is that is received from the primary.
    pub(super) fn sync_facts(&self, now: Now) -> Option<SyncFacts> {
        let (total_bytes, read_bytes) = self.sync.as_ref()?.bytes();
        let last_io_s = now.mono_ns.saturating_sub(self.heard_ns) / 1_000_000_000;
        Some(SyncFacts { total_bytes, read_bytes, last_io_s })
    }

    /// Bytes from the primary that another thread has received and not handed over yet.
    pub(super) fn unmerged_bytes(&self) -> u64 {
        self.sync.as_ref().map_or(0, |progress| progress.unmerged())
    }
}

//! How far a snapshot is that is received: written by the thread that receives it, read by the main thread
//! for INFO. One for each job, so that nothing is set back while another thread counts (D-6).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// See the module. The numbers only inform, so their order does not matter (relaxed).
#[derive(Debug)]
pub struct SyncProgress {
    /// -1 before the primary has told; 0 where it does not know.
    total: AtomicI64,
    /// Bytes of the snapshot that have come.
    read: AtomicU64,
    /// Bytes that have come: those of the metadata, and empty lines, too.
    received: AtomicU64,
    /// Those of them that the main thread has counted as its own.
    merged: AtomicU64,
}

impl Default for SyncProgress {
    fn default() -> SyncProgress {
        SyncProgress {
            total: AtomicI64::new(-1),
            read: AtomicU64::new(0),
            received: AtomicU64::new(0),
            merged: AtomicU64::new(0),
        }
    }
}

impl SyncProgress {
    /// The primary has told how many bytes come; 0: it does not know.
    pub fn set_total(&self, bytes: u64) {
        self.total.store(i64::try_from(bytes).unwrap_or(i64::MAX), Relaxed);
    }

    /// So many bytes have come over the connection.
    pub fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// So many bytes of the snapshot have come.
    pub fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes of the snapshot: -1 before the primary has told, 0 where it does not know; and those that have
    /// come.
    pub fn bytes(&self) -> (i64, u64) {
        (self.total.load(Relaxed), self.read.load(Relaxed))
    }

    /// Bytes that have come over the connection.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Bytes that have come and are not merged: what INFO adds to the main thread's count.
    pub fn unmerged(&self) -> u64 {
        self.received().saturating_sub(self.merged.load(Relaxed))
    }

    /// The main thread counts what has come: how much that is. Each byte is merged once.
    pub fn merge(&self) -> u64 {
        let received = self.received();
        let merged = self.merged.swap(received, Relaxed);
        received.saturating_sub(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_the_total_is_unknown_before_the_metadata_and_each_byte_is_merged_once() {
        let progress = SyncProgress::default();
        assert_eq!(progress.bytes(), (-1, 0));
        progress.set_total(0);
        assert_eq!(progress.bytes(), (0, 0), "a snapshot that ends with a mark");
        progress.count_received(100);
        progress.count_read(60);
        assert_eq!((progress.unmerged(), progress.merge(), progress.merge()), (100, 100, 0));
        progress.count_received(5);
        assert_eq!((progress.unmerged(), progress.merge(), progress.unmerged()), (5, 5, 0));
        progress.set_total(3 << 30);
        assert_eq!(progress.bytes(), (3 << 30, 60), "more than 2 GiB");
    }
}

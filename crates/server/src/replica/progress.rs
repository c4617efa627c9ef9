//! Counters that show how much of a snapshot was received. The receiving thread writes them, and the main
//! thread reads them for INFO. Each full sync has its own counters, so that no counter is reset while
//! another thread counts (D-6).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The counters of one full sync. They order no other accesses, so all accesses are relaxed.
#[derive(Debug)]
pub struct SyncProgress {
    /// Size of the snapshot in bytes; -1 before the primary has announced the size, 0 if the primary does
    /// not know it.
    total: AtomicI64,
    /// Number of bytes of the snapshot received so far.
    read: AtomicU64,
    /// Number of all bytes received so far, including the first line and empty lines.
    received: AtomicU64,
    /// Number of received bytes that the main thread has added to its own count.
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
    /// Sets the announced size in bytes; 0 if the primary does not know the size.
    pub fn set_total(&self, bytes: u64) {
        self.total.store(i64::try_from(bytes).unwrap_or(i64::MAX), Relaxed);
    }

    /// Counts bytes received over the connection.
    pub fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts received bytes of the snapshot.
    pub fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    /// The announced size of the snapshot (-1 before the announcement, 0 if the primary does not know the
    /// size), and the number of the snapshot's bytes received so far.
    pub fn bytes(&self) -> (i64, u64) {
        (self.total.load(Relaxed), self.read.load(Relaxed))
    }

    /// Number of bytes received over the connection.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Number of received bytes that are not merged. INFO adds them to the main thread's count.
    pub fn unmerged(&self) -> u64 {
        self.received().saturating_sub(self.merged.load(Relaxed))
    }

    /// Marks all received bytes as merged, and returns how many of them were not merged before. Each byte is
    /// merged once.
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

//! Syncs the append-only file on a separate thread, so that blocks are written while the disk syncs.
//! Written bytes survive the process, however it ends.
//!
//! Invariants: (1) one sync at a time; (2) after a sync, only the bytes that were written before the sync
//! began count as durable; (3) the thread ends when its owner is dropped, after the sync under way.

use super::shared::{AofItem, AofShared};
use crate::threads::Thread;
use sluice_storage::aof::PendingSync;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The owner's side of the thread.
pub struct SyncThread {
    orders: Sender<PendingSync>,
    outcomes: Receiver<SyncOutcome>,
    is_under_way: bool,
}

/// The result of a sync.
#[derive(Debug)]
pub struct SyncOutcome {
    /// The end of the bytes that were written before the sync began.
    pub position: u64,
    pub result: io::Result<()>,
}

impl SyncThread {
    /// Starts the thread, which wakes the file's thread after each sync. `slow`: a delay after each sync,
    /// for tests.
    pub fn start(shared: Arc<AofShared>, slow: Duration) -> io::Result<SyncThread> {
        let (orders, received) = channel::<PendingSync>();
        let (ended, outcomes) = channel();
        Thread::AofSync.start(move || {
            for mut pending in received {
                let result = pending.file.sync_data();
                if !slow.is_zero() {
                    std::thread::sleep(slow);
                }
                // The send fails if the owner has ended during the sync.
                let _ = ended.send(SyncOutcome { position: pending.position, result });
                shared.give(AofItem::SyncEnded);
            }
        })?;
        Ok(SyncThread { orders, outcomes, is_under_way: false })
    }

    /// Whether a sync is under way.
    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Begins a sync on the thread. No other sync may be under way.
    pub fn begin(&mut self, pending: PendingSync) {
        assert!(!self.is_under_way, "one sync at a time (1)");
        self.is_under_way = self.orders.send(pending).is_ok();
    }

    /// The result of the sync under way, if it has ended.
    pub fn outcome(&mut self) -> Option<SyncOutcome> {
        let outcome = self.outcomes.try_recv().ok()?;
        self.is_under_way = false;
        Some(outcome)
    }

    /// Waits for the sync under way; `None` if there is none.
    pub fn wait(&mut self) -> Option<SyncOutcome> {
        if !std::mem::take(&mut self.is_under_way) {
            return None;
        }
        self.outcomes.recv().ok()
    }
}

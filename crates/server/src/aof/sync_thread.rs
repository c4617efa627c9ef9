//! Syncs of the append-only file on a thread of their own, so that blocks are written while the disk takes
//! its time: what is written survives the process, whatever ends it.
//!
//! Invariants: (1) one sync at a time; (2) a sync makes durable what was written before it began, and nothing
//! else is claimed; (3) the thread ends with its owner, behind the sync that is under way.

use super::shared::{AofItem, AofShared};
use crate::threads::Thread;
use sluice_storage::aof::PendingSync;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The owner's end of the thread.
pub struct SyncThread {
    orders: Sender<PendingSync>,
    outcomes: Receiver<SyncOutcome>,
    is_under_way: bool,
}

/// What a sync has come to.
#[derive(Debug)]
pub struct SyncOutcome {
    /// What was written before it began ends here.
    pub position: u64,
    pub result: io::Result<()>,
}

impl SyncThread {
    /// Starts the thread, which wakes the thread of the file when it has synced; `slow`: a sync takes so much
    /// longer.
    pub fn start(shared: Arc<AofShared>, slow: Duration) -> io::Result<SyncThread> {
        let (orders, received) = channel::<PendingSync>();
        let (ended, outcomes) = channel();
        Thread::AofSync.start(move || {
            for mut pending in received {
                let result = pending.file.sync_data();
                if !slow.is_zero() {
                    std::thread::sleep(slow);
                }
                // Whoever has given the order may have ended meanwhile.
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

    /// Begins a sync, while none is under way.
    pub fn begin(&mut self, pending: PendingSync) {
        assert!(!self.is_under_way, "one sync at a time (1)");
        self.is_under_way = self.orders.send(pending).is_ok();
    }

    /// What the sync that was under way has come to, if it has ended.
    pub fn outcome(&mut self) -> Option<SyncOutcome> {
        let outcome = self.outcomes.try_recv().ok()?;
        self.is_under_way = false;
        Some(outcome)
    }

    /// Waits for the sync that is under way, if one is.
    pub fn wait(&mut self) -> Option<SyncOutcome> {
        if !std::mem::take(&mut self.is_under_way) {
            return None;
        }
        self.outcomes.recv().ok()
    }
}

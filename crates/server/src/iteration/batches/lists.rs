//! The lists of messages from I/O threads, and of batches that are sent back to them.

use crate::host::Host;
use crate::iothreads::{Batch, ToMain};
use sluice_base::SessionKey;
use sluice_base::heap;
use std::collections::BTreeMap;

/// Messages of I/O threads and their batches. Between two iterations the lists are empty, apart from
/// reserved room and kept batches. There is at most one batch for each connection.
#[derive(Default)]
pub struct Batches {
    pub(super) messages: Vec<ToMain>,
    /// Messages of one group. The keys of their batches are prefetched together.
    pub(super) group: Vec<ToMain>,
    /// Batches that were executed in this iteration.
    #[allow(clippy::vec_box, reason = "they travel on as they came")]
    pub(super) executed: Vec<Box<Batch>>,
    /// Batches whose replies wait for the append-only file (with `appendfsync always`), and the position
    /// that must be durable before the replies are sent.
    pub(super) kept: BTreeMap<SessionKey, (u64, Box<Batch>)>,
    /// Whether executed batches were sent back in this iteration.
    pub(super) has_served: bool,
}

impl Batches {
    /// Drops the kept batch of a connection that has ended.
    pub(in crate::iteration) fn forget(&mut self, key: SessionKey) {
        self.kept.remove(&key);
    }

    /// Heap bytes of the lists, without the batches in them and without `kept`.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.messages) + heap::vec(&self.group) + heap::vec(&self.executed)
    }

    /// Counts an iteration's time as service time of batches, if the iteration has executed any.
    pub fn count_service(&mut self, spent_ns: u64, host: &mut Host) {
        if std::mem::take(&mut self.has_served) {
            host.shown.io_threads.service_ns += spent_ns;
        }
    }
}

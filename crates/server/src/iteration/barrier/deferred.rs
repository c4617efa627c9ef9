//! Output that waits until it is durable. `iteration/barrier.rs` says when it goes out, and has the
//! invariants.

use crate::iothreads::Batch;
use sluice_engine::{Closing, SessionKey};
use sluice_resp::Outbox;
use std::collections::{BTreeMap, VecDeque};

/// What the barrier keeps. Bounded by the output limits: what is deferred counts as output of its client.
#[derive(Default)]
pub(in crate::iteration) struct Barrier {
    /// Position up to which everything is on disk.
    pub(super) durable: u64,
    /// Output by the position that must be durable first, and by the order in which it was deferred.
    pub(super) deferred: BTreeMap<(u64, u64), Deferred>,
    /// Outputs deferred so far.
    pub(super) order: u64,
    pub(super) in_transit: VecDeque<Output>,
}

/// What is deferred.
pub(super) enum Deferred {
    /// With its replies in it.
    Batch(Box<Batch>),
    Output(Output),
}

/// Output of one client, and whether the connection ends with it.
pub(super) struct Output {
    pub(super) key: SessionKey,
    pub(super) outbox: Outbox,
    pub(super) closing: Closing,
}

impl Barrier {
    /// Forgets what waits for a connection that has ended.
    pub(in crate::iteration) fn forget(&mut self, key: SessionKey) {
        self.in_transit.retain(|output| output.key != key);
    }

    /// Whether nothing waits.
    pub(in crate::iteration) fn is_empty(&self) -> bool {
        self.deferred.is_empty() && self.in_transit.is_empty()
    }
}

//! Counters for each slot of a cluster: processor time of commands, and bytes of requests
//! and replies (`cluster-slot-stats-enabled`).
//!
//! Invariant: the memory for the counters is allocated at the first count. A server that never
//! counts allocates none.

use sluice_base::heap;
use sluice_cluster::{HashSlot, NodeId, SLOT_COUNT, SlotMap};

/// The counters of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounters {
    /// Processor time of commands, ns.
    pub cpu_ns: u64,
    /// Bytes of requests received.
    pub bytes_in: u64,
    /// Bytes of replies, of messages in sharded channels, and of commands sent to replicas.
    pub bytes_out: u64,
}

/// The counters of all slots.
#[derive(Debug, Default)]
pub struct SlotStats {
    /// Indexed by slot; empty until the first count.
    slots: Box<[SlotCounters]>,
}

impl SlotStats {
    /// The counters of a slot; zero before the first count.
    pub fn of(&self, slot: HashSlot) -> SlotCounters {
        self.slots.get(usize::from(slot.number())).copied().unwrap_or_default()
    }

    /// Adds to the counters of a slot.
    pub fn add(&mut self, slot: HashSlot, more: SlotCounters) {
        if self.slots.is_empty() {
            self.slots = vec![SlotCounters::default(); usize::from(SLOT_COUNT)].into_boxed_slice();
        }
        if let Some(counters) = self.slots.get_mut(usize::from(slot.number())) {
            counters.cpu_ns = counters.cpu_ns.saturating_add(more.cpu_ns);
            counters.bytes_in = counters.bytes_in.saturating_add(more.bytes_in);
            counters.bytes_out = counters.bytes_out.saturating_add(more.bytes_out);
        }
    }

    /// Bytes of heap memory of the counters, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        heap::block(size_of_val(&*self.slots))
    }

    /// Resets all counters, for CONFIG RESETSTAT.
    pub(crate) fn reset(&mut self) {
        self.slots.fill(SlotCounters::default());
    }

    /// Resets the counters of slots whose owner differs between the two maps, or is missing in one of
    /// them (L-3). Cost: O(slots) after the first count.
    pub(crate) fn forget_moved(&mut self, old: &SlotMap, new: &SlotMap) {
        for (slot, counters) in self.slots.iter_mut().enumerate() {
            if owner(old, slot) != owner(new, slot) {
                *counters = SlotCounters::default();
            }
        }
    }
}

/// The owner of the slot of this number.
fn owner(map: &SlotMap, slot: usize) -> Option<NodeId> {
    let position = usize::from(*map.owners.get(slot)?).checked_sub(1)?;
    map.nodes.get(position).map(|node| node.id)
}

//! Messages of one link until the kernel has them: two lanes, of which one overtakes the other.
//!
//! Invariants: (1) a message leaves whole before another one begins; (2) at each border of messages those of
//! [`BusLane::Control`] go first; (3) within a lane the order is kept.

use sluice_base::heap;
use sluice_cluster::BusLane;
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module. The engine bounds what is queued (`cluster-link-sendbuf-limit`).
#[derive(Default)]
pub struct OutputLanes {
    control: VecDeque<Arc<[u8]>>,
    publish: VecDeque<Arc<[u8]>>,
    /// The message of which a part has left.
    begun: Option<BegunMessage>,
}

struct BegunMessage {
    lane: BusLane,
    message: Arc<[u8]>,
    /// Bytes that have left.
    taken: usize,
}

/// Bytes that were taken out of each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBytes {
    /// Of [`BusLane::Control`].
    pub control: usize,
    /// Of [`BusLane::Publish`].
    pub publish: usize,
}

impl OutputLanes {
    /// Queues a message.
    pub fn push(&mut self, message: Arc<[u8]>, lane: BusLane) {
        if !message.is_empty() {
            self.lane(lane).push_back(message);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.begun.is_none() && self.control.is_empty() && self.publish.is_empty()
    }

    /// Appends what leaves next to `out`, up to `room` bytes.
    pub fn take(&mut self, room: usize, out: &mut Vec<u8>) -> LaneBytes {
        let mut taken = LaneBytes::default();
        let mut left = room;
        while left > 0 {
            let Some(mut begun) = self.begun.take().or_else(|| self.next_message()) else { break };
            let rest = &begun.message[begun.taken..];
            let part = rest.len().min(left);
            out.extend_from_slice(&rest[..part]);
            left -= part;
            begun.taken += part;
            match begun.lane {
                BusLane::Control => taken.control += part,
                BusLane::Publish => taken.publish += part,
            }
            if begun.taken < begun.message.len() {
                self.begun = Some(begun);
            }
        }
        taken
    }

    /// Bytes that the allocator has given, without messages.
    pub fn footprint(&self) -> usize {
        heap::deque(&self.control) + heap::deque(&self.publish)
    }

    fn next_message(&mut self) -> Option<BegunMessage> {
        let lane = if self.control.is_empty() { BusLane::Publish } else { BusLane::Control };
        let message = self.lane(lane).pop_front()?;
        Some(BegunMessage { lane, message, taken: 0 })
    }

    fn lane(&mut self, lane: BusLane) -> &mut VecDeque<Arc<[u8]>> {
        match lane {
            BusLane::Control => &mut self.control,
            BusLane::Publish => &mut self.publish,
        }
    }
}

#[cfg(test)]
mod tests;

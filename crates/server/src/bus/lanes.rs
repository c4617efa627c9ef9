//! The messages of one link that the kernel has not taken yet. They wait in two lanes, one of which has
//! precedence.
//!
//! Invariants: (1) a message is sent whole before another one begins; (2) between two messages,
//! [`BusLane::Control`] has precedence; (3) the messages of one lane are sent in the order in which they
//! were queued.

use sluice_base::heap;
use sluice_cluster::BusLane;
use std::collections::VecDeque;
use std::sync::Arc;

/// The messages that wait on one link. The engine bounds the queue (`cluster-link-sendbuf-limit`).
#[derive(Default)]
pub struct OutputLanes {
    control: VecDeque<Arc<[u8]>>,
    publish: VecDeque<Arc<[u8]>>,
    /// The message that was partly taken.
    begun: Option<BegunMessage>,
}

struct BegunMessage {
    lane: BusLane,
    message: Arc<[u8]>,
    /// Number of bytes of the message that were taken.
    taken: usize,
}

/// Numbers of bytes that were taken from the lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBytes {
    /// Bytes of messages in [`BusLane::Control`].
    pub control: usize,
    /// Bytes of messages in [`BusLane::Publish`].
    pub publish: usize,
}

impl OutputLanes {
    /// Queues a message at the end of its lane; an empty message is dropped.
    pub fn push(&mut self, message: Arc<[u8]>, lane: BusLane) {
        if !message.is_empty() {
            self.lane(lane).push_back(message);
        }
    }

    /// Whether no message and no part of a message waits.
    pub fn is_empty(&self) -> bool {
        self.begun.is_none() && self.control.is_empty() && self.publish.is_empty()
    }

    /// Takes the next bytes, at most `room`, and appends them to `out`.
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

    /// Bytes of heap memory of the two queues, without the messages.
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

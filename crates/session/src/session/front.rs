//! Output of a session that is sent before its outbox: segments that wait until they are durable
//! (`appendfsync always`, C-5), and the reply that a thread produces.
//!
//! Order: the segments, then the reply that a thread produces, then the outbox.
//!
//! Invariants: (1) the positions of the segments never decrease, because `Session::durable_at` does not. So
//! the segments that may be sent are always a prefix, and a client receives its output in order; (2) no
//! segment is empty.

use crate::slow_reads::Producing;
use sluice_base::heap;
use sluice_resp::Outbox;
use std::collections::VecDeque;

/// Output that is sent before a session's outbox.
#[derive(Debug, Default)]
pub struct FrontOutput {
    /// Reply that a thread produces, and the output before it.
    pub producing: Option<Producing>,
    /// Segments of output, each with the position of the append-only file that must be on disk before
    /// it is sent.
    segments: VecDeque<(u64, Outbox)>,
}

impl FrontOutput {
    /// Appends output that must not be sent before position `needs` of the append-only file is durable.
    /// Returns whether a new segment was begun.
    pub fn push(&mut self, needs: u64, mut output: Outbox) -> bool {
        match self.segments.back_mut() {
            _ if output.is_empty() => false,
            Some((last, segment)) if *last == needs => {
                segment.append(&mut output);
                false
            }
            _ => {
                self.segments.push_back((needs, output));
                true
            }
        }
    }

    /// Takes the output that may be sent when the append-only file is durable up to `durable`.
    pub fn take(&mut self, durable: u64) -> Outbox {
        let mut output = Outbox::new();
        while let Some((_, mut segment)) = self.segments.pop_front_if(|(needs, _)| *needs <= durable) {
            output.append(&mut segment);
        }
        output
    }

    /// Whether output waits until it is durable.
    pub fn has_deferred_output(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Whether no output precedes the outbox.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.producing.is_none()
    }

    /// Memory of this output in bytes, as CLIENT LIST shows it.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.outboxes().map(Outbox::capacity_bytes).sum()
    }

    /// Heap bytes of this output.
    pub(crate) fn footprint(&self) -> usize {
        heap::boxed::<FrontOutput>()
            + heap::block(self.segments.capacity() * size_of::<(u64, Outbox)>())
            + self.outboxes().map(Outbox::footprint).sum::<usize>()
    }

    fn outboxes(&self) -> impl Iterator<Item = &Outbox> {
        let produced = self.producing.iter().map(|producing| &producing.unsent);
        produced.chain(self.segments.iter().map(|(_, segment)| segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Outbox {
        let mut output = Outbox::new();
        output.push(text.as_bytes());
        output
    }

    #[test]
    fn what_is_durable_comes_out_in_order_and_the_rest_waits() {
        let mut held = FrontOutput::default();
        for (needs, text) in [(3, "a"), (3, "b"), (5, ""), (5, "c"), (9, "d")] {
            held.push(needs, output(text));
        }
        assert!(held.take(2).is_empty() && !held.is_empty());
        assert_eq!(held.take(5).flatten(), b"abc");
        held.push(9, output("e"));
        assert_eq!((held.take(8).flatten(), held.take(9).flatten()), (Vec::new(), b"de".to_vec()));
        assert!(held.is_empty());
    }
}

//! Replies on their way to a connection: bytes, with large values between them that are not copied.
//!
//! ```text
//!   head    +OK..$20000..........\r\n:1\r\n
//!                       ^ shared: (position in head, value)
//! ```
//!
//! Invariant: (1) positions do not decrease and are at most the length of `head`.

use sluice_base::{Bytes, heap};

/// Replies in order, which a writer produces and the event loop sends.
#[derive(Debug, Default)]
pub struct Outbox {
    head: Vec<u8>,
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

/// Number of shared values for which the list gets room when the first is added; this room takes 256 bytes.
const SHARED_AT_FIRST: usize = 16;

/// A point in an outbox, to which the outbox can be rewound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    head: usize,
    shared: usize,
    /// Number of bytes before this point, including shared values.
    len: usize,
}

impl Outbox {
    /// An empty outbox; nothing is allocated.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// An empty outbox that uses this buffer's memory.
    pub fn from_buffer(mut head: Vec<u8>) -> Outbox {
        head.clear();
        Outbox { head, shared: Vec::new(), shared_bytes: 0 }
    }

    /// Total number of bytes to be sent.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.shared_bytes
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.shared.is_empty()
    }

    /// Whether the outbox has no shared values.
    pub fn is_plain(&self) -> bool {
        self.shared.is_empty()
    }

    /// Bytes of this outbox's own allocations, without the shared values.
    pub fn capacity_bytes(&self) -> usize {
        self.head.capacity() + self.shared.capacity() * size_of::<(usize, Bytes)>()
    }

    /// Bytes of heap memory of this outbox, as the allocator rounds them, without the shared values.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.head) + heap::vec(&self.shared)
    }

    /// The values that are shared rather than copied.
    pub fn shared(&self) -> impl Iterator<Item = &Bytes> {
        self.shared.iter().map(|(_, value)| value)
    }

    /// The plain bytes; writers of this crate only append to them.
    #[inline]
    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        &mut self.head
    }

    /// Appends bytes that already are a reply or part of a reply.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// Appends `value` without copying it.
    pub fn push_shared(&mut self, value: Bytes) {
        if !value.is_empty() {
            if self.shared.capacity() == 0 {
                // With this room, the list usually need not grow for the replies to one batch of a
                // pipeline.
                self.shared.reserve_exact(SHARED_AT_FIRST);
            }
            self.shared_bytes += value.len();
            self.shared.push((self.head.len(), value));
        }
    }

    /// The bytes to be sent, in runs, for a gathering write.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let pairs = self.shared.iter().flat_map(move |(at, value)| {
            let run = &self.head[from..*at];
            from = *at;
            [run, &value[..]]
        });
        let last = self.shared.last().map_or(0, |(at, _)| *at);
        pairs.chain([&self.head[last..]]).filter(|run| !run.is_empty())
    }

    /// The plain bytes, and the shared values with their positions among them, for an owner that sends
    /// them piece by piece.
    pub fn into_parts(self) -> (Vec<u8>, Vec<(usize, Bytes)>) {
        (self.head, self.shared)
    }

    /// The plain bytes, and the shared values with their positions among them, to be read.
    pub fn parts(&self) -> (&[u8], &[(usize, Bytes)]) {
        (&self.head, &self.shared)
    }

    /// All bytes in one vector; copies the shared values.
    pub fn flatten(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.segments().for_each(|run| all.extend_from_slice(run));
        all
    }

    /// Removes all bytes and values, and keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.head.clear();
        self.shared.clear();
        self.shared_bytes = 0;
    }

    /// Moves the contents of `other` to the end of this outbox.
    pub fn append(&mut self, other: &mut Outbox) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let base = self.head.len();
        self.head.append(&mut other.head);
        self.shared.extend(other.shared.drain(..).map(|(at, value)| (at + base, value)));
        self.shared_bytes += std::mem::take(&mut other.shared_bytes);
    }

    /// Removes and returns what was appended since `mark`. Cost: O(bytes since the mark). Panics if the
    /// outbox was emptied since then.
    pub fn split_off(&mut self, mark: Mark) -> Outbox {
        let head = self.head.split_off(mark.head);
        let shared: Vec<(usize, Bytes)> =
            self.shared.drain(mark.shared..).map(|(at, value)| (at - mark.head, value)).collect();
        let shared_bytes = shared.iter().map(|(_, value)| value.len()).sum();
        self.shared_bytes -= shared_bytes;
        Outbox { head, shared, shared_bytes }
    }

    /// Inserts the contents of `other` at the front of this outbox.
    pub fn prepend(&mut self, mut other: Outbox) {
        if other.is_empty() {
            return;
        }
        other.append(self);
        *self = other;
    }

    /// Appends a copy of what was appended to `other` between `from` and `to`; shared values
    /// are shared again.
    pub fn append_copy(&mut self, other: &Outbox, from: Mark, to: Mark) {
        let base = self.head.len();
        self.head.extend_from_slice(&other.head[from.head..to.head]);
        for (at, value) in &other.shared[from.shared..to.shared] {
            self.shared_bytes += value.len();
            self.shared.push((base + at - from.head, value.clone()));
        }
    }

    /// Turns each run of at least `min` plain bytes into a shared value, for replies that several
    /// connections receive. The bytes are copied only if there are shared values already.
    pub fn share_runs(&mut self, min: usize) {
        if self.head.len() < min {
            return;
        }
        let Outbox { head, shared, .. } = std::mem::take(self);
        if shared.is_empty() {
            return self.push_shared(Bytes::from_vec(head));
        }
        let mut from = 0;
        let end = (head.len(), Bytes::default());
        for (at, value) in shared.into_iter().chain([end]) {
            let run = &head[from..at];
            from = at;
            match run.len() < min {
                true => self.push(run),
                false => self.push_shared(Bytes::copy_from(run)),
            }
            self.push_shared(value);
        }
    }

    /// The memory of the plain bytes, for reuse. If no such memory was allocated, returns the memory of the
    /// last shared value, provided that nothing else refers to that value, and otherwise an empty buffer.
    pub fn into_buffer(self) -> Vec<u8> {
        let Outbox { head, mut shared, .. } = self;
        match shared.pop() {
            Some((_, value)) if head.capacity() == 0 => value.into_vec().unwrap_or_default(),
            Some(_) | None => head,
        }
    }

    /// The current end, for [`Outbox::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { head: self.head.len(), shared: self.shared.len(), len: self.len() }
    }

    /// Number of bytes appended since `mark`. Cost: O(1).
    #[inline]
    pub fn len_since(&self, mark: Mark) -> usize {
        self.len() - mark.len
    }

    /// Drops all bytes and values appended since `mark`. Panics if the outbox was emptied since then.
    pub fn rewind(&mut self, mark: Mark) {
        assert!(mark.head <= self.head.len());
        assert!(mark.shared <= self.shared.len());
        self.shared_bytes -= self.shared.drain(mark.shared..).map(|(_, value)| value.len()).sum::<usize>();
        self.head.truncate(mark.head);
    }

    /// Replaces `len` bytes of the head at `at` with `with`; moves the bytes and the shared values after
    /// them.
    pub(crate) fn splice(&mut self, at: usize, len: usize, with: &[u8]) {
        if with.len() == len {
            self.head[at..at + len].copy_from_slice(with);
            return;
        }
        self.head.splice(at..at + len, with.iter().copied());
        for (position, _) in self.shared.iter_mut().rev().take_while(|(position, _)| *position > at) {
            *position = *position + with.len() - len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    /// Returns an outbox of random bytes and shared values, and the mark after each of them.
    fn drawn(rng: &mut Rng) -> (Outbox, Vec<Mark>) {
        let mut outbox = Outbox::new();
        let mut marks = vec![Mark::default()];
        for _ in 0..rng.below(8) {
            let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
            match rng.below(2) {
                0 => outbox.push(&bytes),
                _ => outbox.push_shared(Bytes::from_vec(bytes)),
            }
            marks.push(outbox.mark());
        }
        (outbox, marks)
    }

    #[test]
    fn a_copy_is_what_was_appended_between_two_moments() {
        let mut rng = Rng::new(5);
        for _ in 0..2000 {
            let ((mut ours, _), (other, marks)) = (drawn(&mut rng), drawn(&mut rng));
            let first = rng.below(marks.len() as u64) as usize;
            let last = first + rng.below((marks.len() - first) as u64) as usize;
            let mut begin = Outbox::new();
            begin.append_copy(&other, Mark::default(), marks[first]);
            let mut middle = Outbox::new();
            middle.append_copy(&other, marks[first], marks[last]);
            let (before, all) = (ours.flatten(), other.flatten());
            ours.append_copy(&other, marks[first], marks[last]);
            assert_eq!(ours.len(), before.len() + middle.len());
            assert_eq!(ours.flatten(), [before, middle.flatten()].concat());
            assert!(all.starts_with(&[begin.flatten(), middle.flatten()].concat()));
        }
    }

    #[test]
    fn the_length_since_a_moment_is_that_of_what_was_appended() {
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let (mut ours, marks) = drawn(&mut rng);
            let first = rng.below(marks.len() as u64) as usize;
            let mut behind = Outbox::new();
            behind.append_copy(&ours, marks[first], ours.mark());
            assert_eq!(ours.len_since(marks[first]), behind.len());
            ours.rewind(marks[first]);
            assert_eq!(ours.len_since(marks[first]), 0);
        }
    }

    #[test]
    fn sharing_runs_changes_no_byte_and_leaves_short_ones() {
        let mut rng = Rng::new(6);
        for _ in 0..2000 {
            let (mut ours, _) = drawn(&mut rng);
            let (bytes, was_plain) = (ours.flatten(), ours.is_plain());
            ours.share_runs(20);
            assert_eq!((ours.flatten(), ours.len()), (bytes.clone(), bytes.len()));
            assert_eq!(ours.is_plain(), was_plain && bytes.len() < 20);
        }
    }

    #[test]
    fn the_memory_of_a_shared_text_comes_back_when_nobody_has_it() {
        let text = || {
            let mut text = Outbox::new();
            text.push(&[7; 100]);
            text.share_runs(50);
            text
        };
        assert_eq!(text().into_buffer().len(), 100);
        let (ours, mut copy) = (text(), Outbox::new());
        copy.append_copy(&ours, Mark::default(), ours.mark());
        assert_eq!(ours.into_buffer().capacity(), 0, "the copy has it");
        assert_eq!(copy.flatten(), [7; 100]);
    }
}

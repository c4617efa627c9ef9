//! The content of one send: the caller's own bytes with shared values inserted.

use std::io::IoSlice;

use sluice_base::{Bytes, heap};

/// Bytes to send: `head` with each of `shared` inserted before `head[at]`. Positions must not decrease; a
/// position after the end of `head` means its end.
#[derive(Debug, Default)]
pub struct SendBuf {
    /// The bytes that belong to this buffer alone.
    pub head: Vec<u8>,
    /// Large values, sent without being copied.
    pub shared: Vec<Shared>,
}

/// One shared value and its position.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Number of bytes of `head` that are sent before the value.
    pub at: usize,
    /// The bytes of the value, not copied.
    pub bytes: Bytes,
}

impl SendBuf {
    /// An empty buffer; allocates nothing.
    pub const fn new() -> SendBuf {
        SendBuf { head: Vec::new(), shared: Vec::new() }
    }

    /// Bytes that the allocator holds for the buffer, without the shared values.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.head) + heap::vec(&self.shared)
    }

    /// Number of bytes to send, shared values included. Cost: O(shared values).
    pub fn len(&self) -> usize {
        self.head.len() + self.shared.iter().map(|shared| shared.bytes.len()).sum::<usize>()
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.shared.iter().all(|shared| shared.bytes.is_empty())
    }

    /// Empties the buffer for the next use, and releases the shared values. The capacity stays.
    pub fn clear(&mut self) {
        self.head.clear();
        self.shared.clear();
    }
}

/// How far a buffer has been sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Number of bytes of `head` that were sent.
    head: usize,
    /// Number of shared values that were sent completely.
    shared: usize,
    /// Number of bytes of the next shared value that were sent.
    inside: usize,
}

impl Cursor {
    /// Bytes sent so far. Cost: O(shared values sent).
    #[inline]
    pub(crate) fn sent(&self, buf: &SendBuf) -> usize {
        let whole: usize = buf.shared[..self.shared].iter().map(|shared| shared.bytes.len()).sum();
        self.head + whole + self.inside
    }

    /// The unsent bytes of a buffer without shared values.
    #[inline]
    pub(crate) fn rest_of_head<'a>(&self, buf: &'a SendBuf) -> &'a [u8] {
        &buf.head[self.head..]
    }

    /// The unsent bytes of `head` up to the next shared value, and that value if there is one.
    fn stretch<'a>(&self, buf: &'a SendBuf) -> (&'a [u8], Option<&'a [u8]>) {
        match buf.shared.get(self.shared) {
            None => (&buf.head[self.head..], None),
            Some(shared) => {
                let end = shared.at.min(buf.head.len()).max(self.head);
                (&buf.head[self.head..end], Some(&shared.bytes[self.inside..]))
            }
        }
    }

    /// Fills `slices` with the next unsent bytes and returns how many were filled; 0 means that all was sent.
    pub(crate) fn gather<'a>(&self, buf: &'a SendBuf, slices: &mut [IoSlice<'a>]) -> usize {
        let mut at = *self;
        let mut count = 0;
        while count < slices.len() {
            let (own, shared) = at.stretch(buf);
            if !own.is_empty() {
                slices[count] = IoSlice::new(own);
                count += 1;
                at.head += own.len();
            } else if let Some(value) = shared {
                if !value.is_empty() {
                    slices[count] = IoSlice::new(value);
                    count += 1;
                }
                at.shared += 1;
                at.inside = 0;
            } else {
                break;
            }
        }
        count
    }

    /// Moves past `bytes` sent bytes. Returns whether unsent bytes are left.
    #[inline]
    pub(crate) fn advance(&mut self, buf: &SendBuf, bytes: usize) -> Left {
        if !buf.shared.is_empty() {
            return self.advance_over(buf, bytes);
        }
        self.head += bytes;
        if self.head < buf.head.len() { Left::Some } else { Left::Nothing }
    }

    fn advance_over(&mut self, buf: &SendBuf, mut bytes: usize) -> Left {
        loop {
            let (own, shared) = self.stretch(buf);
            let step = own.len().min(bytes);
            self.head += step;
            bytes -= step;
            if step < own.len() {
                return Left::Some;
            }
            let Some(value) = shared else { return Left::Nothing };
            let step = value.len().min(bytes);
            bytes -= step;
            if step < value.len() {
                self.inside += step;
                return Left::Some;
            }
            self.shared += 1;
            self.inside = 0;
        }
    }
}

/// Whether a buffer has unsent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Some,
    Nothing,
}

#[cfg(test)]
mod tests;

//! Memory that an I/O thread reuses for messages to many connections.

use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_engine::SHARED_BYTES_MIN;

/// Buffers kept for the next messages to many connections.
#[derive(Default)]
pub(in crate::iothreads::thread) struct Copies {
    /// Memory for copies of a text.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Memory for the text of a list.
    pub(super) text: Vec<u8>,
    /// Connections for which texts were gathered.
    pub(super) gathered: Vec<SessionKey>,
}

impl Copies {
    /// Maximum number of buffers that are kept.
    const COPIES_MAX: usize = 16;
    /// Maximum capacity in bytes of a kept buffer, which is enough for a copied text and some more bytes.
    pub(super) const COPY_BYTES_MAX: usize = 2 * SHARED_BYTES_MIN;

    /// Heap bytes of the buffers and lists.
    pub(in crate::iothreads::thread) fn footprint(&self) -> usize {
        heap::vec(&self.buffers)
            + self.buffers.iter().map(heap::vec).sum::<usize>()
            + heap::vec(&self.text)
            + heap::vec(&self.gathered)
    }

    /// Keeps a sent buffer for reuse if its size is suitable and there is room for another one. Otherwise
    /// returns the buffer.
    #[inline]
    pub(in crate::iothreads::thread) fn keep(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let fits = buffer.capacity() > 0 && buffer.capacity() <= Copies::COPY_BYTES_MAX;
        if !fits || self.buffers.len() >= self.buffers.capacity() {
            return Some(buffer);
        }
        self.buffers.push(buffer);
        None
    }

    pub(super) fn buffer(&mut self) -> Vec<u8> {
        if self.buffers.capacity() == 0 {
            // `keep` stores buffers only in reserved room, so from now on it keeps buffers.
            self.buffers.reserve_exact(Copies::COPIES_MAX);
        }
        self.buffers.pop().unwrap_or_default()
    }
}

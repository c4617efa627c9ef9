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
    /// The most buffers that are kept.
    const COPIES_MAX: usize = 16;
    /// The most room of a kept buffer: a copied text and some more.
    pub(super) const COPY_BYTES_MAX: usize = 2 * SHARED_BYTES_MIN;

    /// Heap bytes of the buffers and lists.
    pub(in crate::iothreads::thread) fn footprint(&self) -> usize {
        heap::vec(&self.buffers)
            + self.buffers.iter().map(heap::vec).sum::<usize>()
            + heap::vec(&self.text)
            + heap::vec(&self.gathered)
    }

    /// Keeps a sent buffer for reuse if it fits and there is room for it; returns it otherwise.
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
            // `keep` only fills reserved room, so it keeps buffers from now on.
            self.buffers.reserve_exact(Copies::COPIES_MAX);
        }
        self.buffers.pop().unwrap_or_default()
    }
}

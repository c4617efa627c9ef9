//! Empty query buffers that a thread keeps for connections whose next request comes in pieces.

use sluice_base::heap;

/// See the module. Bounded: [`SpareBuffers::COUNT_MAX`] buffers of at most [`SpareBuffers::BYTES_MAX`] each.
#[derive(Default)]
pub struct SpareBuffers {
    query_bufs: Vec<Vec<u8>>,
}

impl SpareBuffers {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.query_bufs) + self.query_bufs.iter().map(heap::vec).sum::<usize>()
    }

    /// Room that a query buffer is given first.
    pub const QUERY_BUF_BYTES: usize = 16 * 1024;
    /// Buffers kept at most.
    const COUNT_MAX: usize = 16;
    /// Room of a buffer that is kept, at most.
    const BYTES_MAX: usize = 32 * 1024;

    /// An empty query buffer with room.
    pub fn query_buf(&mut self) -> Vec<u8> {
        self.query_bufs.pop().unwrap_or_else(|| Vec::with_capacity(SpareBuffers::QUERY_BUF_BYTES))
    }

    /// Takes a query buffer that nothing is in; leaves others alone.
    pub fn keep_query_buf(&mut self, query_buf: &mut Vec<u8>) {
        let fits = query_buf.capacity() > 0 && query_buf.capacity() <= SpareBuffers::BYTES_MAX;
        if query_buf.is_empty() && fits && self.query_bufs.len() < SpareBuffers::COUNT_MAX {
            self.query_bufs.push(std::mem::take(query_buf));
        }
    }
}

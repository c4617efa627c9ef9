//! Buffers that a thread keeps for its connections, which have none of their own while they are idle: empty
//! query buffers for those whose next request comes in pieces, and what coded bytes go through.

use sluice_base::heap;
use sluice_tls::Buffers;

/// See the module. Bounded: [`SpareBuffers::COUNT_MAX`] query buffers of at most [`SpareBuffers::BYTES_MAX`]
/// each; what a receive of the event loop brings, decoded; a part of output, encoded.
#[derive(Default)]
pub struct SpareBuffers {
    query_bufs: Vec<Vec<u8>>,
    /// For bytes that are decoded; there once a connection has a codec.
    decoded: Option<Box<Buffers>>,
    /// For output that is encoded.
    encoded: Vec<u8>,
}

impl SpareBuffers {
    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let decoded =
            self.decoded.as_ref().map_or(0, |buffers| heap::boxed::<Buffers>() + buffers.footprint());
        let query_bufs = heap::vec(&self.query_bufs) + self.query_bufs.iter().map(heap::vec).sum::<usize>();
        query_bufs + decoded + heap::vec(&self.encoded)
    }

    /// Takes the buffers for decoded bytes, which are empty; [`SpareBuffers::keep_decoded`] gives them back.
    pub fn decoded(&mut self) -> Box<Buffers> {
        self.decoded.take().unwrap_or_default()
    }

    /// Takes back what [`SpareBuffers::decoded`] has given.
    pub fn keep_decoded(&mut self, mut buffers: Box<Buffers>) {
        for buffer in [&mut buffers.plain, &mut buffers.answer] {
            buffer.clear();
            buffer.shrink_to(SpareBuffers::CODED_BYTES_MAX);
        }
        self.decoded = Some(buffers);
    }

    /// An empty buffer for encoded output.
    pub fn encoded(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.encoded)
    }

    /// Keeps a buffer for the next output that is encoded.
    pub fn keep_encoded(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > self.encoded.capacity() && buffer.capacity() <= SpareBuffers::CODED_BYTES_MAX {
            buffer.clear();
            self.encoded = buffer;
        }
    }

    /// Room that a query buffer is given first.
    pub const QUERY_BUF_BYTES: usize = 16 * 1024;
    /// Room of a buffer for coded bytes that is kept, at most.
    const CODED_BYTES_MAX: usize = 320 * 1024;
    /// Query buffers kept at most.
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

//! Buffers that a thread keeps for its connections, because an idle connection has none of its own: empty
//! query buffers for connections whose next request arrives in pieces, and buffers for decoding and encoding.

use sluice_base::heap;
use sluice_tls::Buffers;

/// A thread's spare buffers. Their memory is bounded: at most [`SpareBuffers::COUNT_MAX`] query buffers
/// of at most [`SpareBuffers::BYTES_MAX`] each, the buffers for the decoded bytes of one receive, and the
/// buffer for one encoded part of output.
#[derive(Default)]
pub struct SpareBuffers {
    query_bufs: Vec<Vec<u8>>,
    /// Buffers for decoding; `None` before the first connection with a codec, and while they are taken.
    decoded: Option<Box<Buffers>>,
    /// The buffer for encoded output.
    encoded: Vec<u8>,
}

impl SpareBuffers {
    /// Heap bytes of the buffers that are kept at the moment.
    pub fn footprint(&self) -> usize {
        let decoded =
            self.decoded.as_ref().map_or(0, |buffers| heap::boxed::<Buffers>() + buffers.footprint());
        let query_bufs = heap::vec(&self.query_bufs) + self.query_bufs.iter().map(heap::vec).sum::<usize>();
        query_bufs + decoded + heap::vec(&self.encoded)
    }

    /// Takes the empty buffers for decoded bytes; [`SpareBuffers::keep_decoded`] puts them back.
    pub fn decoded(&mut self) -> Box<Buffers> {
        self.decoded.take().unwrap_or_default()
    }

    /// Takes back the buffers from [`SpareBuffers::decoded`].
    pub fn keep_decoded(&mut self, mut buffers: Box<Buffers>) {
        for buffer in [&mut buffers.plain, &mut buffers.answer] {
            buffer.clear();
            buffer.shrink_to(SpareBuffers::CODED_BYTES_MAX);
        }
        self.decoded = Some(buffers);
    }

    /// Takes the empty buffer for encoded output.
    pub fn encoded(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.encoded)
    }

    /// Keeps a buffer for the next encoded output if it is larger than the present one, and not too large.
    pub fn keep_encoded(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > self.encoded.capacity() && buffer.capacity() <= SpareBuffers::CODED_BYTES_MAX {
            buffer.clear();
            self.encoded = buffer;
        }
    }

    /// Capacity in bytes of a new query buffer.
    pub const QUERY_BUF_BYTES: usize = 16 * 1024;
    /// Maximum capacity in bytes of a kept buffer for decoding or encoding.
    const CODED_BYTES_MAX: usize = 320 * 1024;
    /// Maximum number of query buffers that are kept.
    const COUNT_MAX: usize = 16;
    /// Maximum capacity in bytes of a kept query buffer.
    const BYTES_MAX: usize = 32 * 1024;

    /// Takes an empty query buffer that has room.
    pub fn query_buf(&mut self) -> Vec<u8> {
        self.query_bufs.pop().unwrap_or_else(|| Vec::with_capacity(SpareBuffers::QUERY_BUF_BYTES))
    }

    /// Keeps a query buffer if the buffer is empty and not too large, and there is room for another one.
    /// Otherwise the buffer stays with its owner.
    pub fn keep_query_buf(&mut self, query_buf: &mut Vec<u8>) {
        let fits = query_buf.capacity() > 0 && query_buf.capacity() <= SpareBuffers::BYTES_MAX;
        if query_buf.is_empty() && fits && self.query_bufs.len() < SpareBuffers::COUNT_MAX {
            self.query_bufs.push(std::mem::take(query_buf));
        }
    }
}

//! Received bytes on loan from the loop.

use std::ops::Deref;

use sluice_base::heap;

/// The bytes of one receive, on loan: read them, copy out what must live longer, and return the chunk
/// with [`Loop::give_back`](crate::Loop::give_back). Dropping the chunk instead costs little more. A
/// chunk may be kept across iterations and sent to another thread, but each one kept occupies a whole
/// receive buffer, so keep it briefly.
#[derive(Debug)]
pub struct Chunk {
    storage: Box<[u8]>,
    start: u32,
    end: u32,
}

impl Chunk {
    /// The first `len` bytes of `storage`.
    #[inline]
    pub(crate) fn owned(storage: Box<[u8]>, len: usize) -> Chunk {
        assert!(len <= storage.len());
        Chunk { storage, start: 0, end: len as u32 }
    }

    /// Drops the first `bytes` bytes, at most all.
    pub(crate) fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.len());
        self.start += bytes as u32;
    }

    pub(crate) fn into_storage(self) -> Box<[u8]> {
        self.storage
    }
}

impl Deref for Chunk {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.storage[self.start as usize..self.end as usize]
    }
}

/// Receive buffers that wait for their next use. Readiness drivers need only one if the caller returns
/// each chunk before it asks for the next event.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    free: Vec<Box<[u8]>>,
    chunk_bytes: usize,
}

impl ChunkPool {
    pub(crate) fn new(chunk_bytes: usize) -> ChunkPool {
        ChunkPool { free: Vec::with_capacity(FREE_MAX), chunk_bytes }
    }

    /// Bytes that the allocator holds for the pool.
    pub(crate) fn footprint(&self) -> usize {
        heap::vec(&self.free) + self.free.len() * heap::block(self.chunk_bytes)
    }

    /// Bytes of each buffer.
    #[inline]
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Box<[u8]> {
        match self.free.pop() {
            Some(storage) => storage,
            None => vec![0; self.chunk_bytes].into_boxed_slice(),
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, storage: Box<[u8]>) {
        if self.free.len() < FREE_MAX && storage.len() == self.chunk_bytes {
            self.free.push(storage);
        }
    }
}

/// Number of buffers that are kept for reuse; further buffers of a burst are freed.
const FREE_MAX: usize = 4;

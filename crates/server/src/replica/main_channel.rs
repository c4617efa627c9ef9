//! The main channel of a dual-channel sync. While the snapshot arrives on another connection, the stream
//! is buffered here.
//!
//! ```text
//!  Asked ──+CONTINUE──► Buffering ──bound──► Full (nothing is received: the rest waits at the primary)
//!                            └──────loaded────┴──► `Replay`: executed a block an iteration ──► the socket is received from again
//! ```
//!
//! Invariants: (1) the buffer has at most as many bytes as the hard output limit of replicas, plus the
//! bytes that the event loop has received before receiving stopped; without such a limit, the buffer has
//! all bytes; (2) buffered bytes are executed in the order of their arrival, and before the bytes still in
//! the socket; (3) an iteration executes at most one block.

use crate::connection::transport::Transport;
use std::collections::VecDeque;

/// The main channel's connection, with its buffer.
pub struct MainLink {
    /// The connection, in the main thread's event loop.
    pub transport: Transport,
    /// The buffered stream; `None` before the primary has agreed to send it.
    pub buffer: Option<StreamBuffer>,
    /// Whether receiving has stopped because the buffer is full.
    pub is_full: bool,
}

impl MainLink {
    /// A connection on which no bytes were received yet.
    pub fn new(transport: Transport) -> MainLink {
        MainLink { transport, buffer: None, is_full: false }
    }
}

/// Bytes of the stream, in the order of their arrival.
#[derive(Default)]
pub struct StreamBuffer {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl StreamBuffer {
    /// Appends received bytes to the last block, and to new blocks if it is full.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            let room = self.blocks.back().map_or(0, |block| BLOCK_BYTES - block.len());
            if room == 0 {
                self.blocks.push_back(Vec::with_capacity(BLOCK_BYTES));
                continue;
            }
            let (own, rest) = bytes.split_at(room.min(bytes.len()));
            if let Some(block) = self.blocks.back_mut() {
                block.extend_from_slice(own);
            }
            bytes = rest;
        }
    }

    /// Takes the first block; `None` if no bytes are left.
    pub fn take_block(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.bytes -= block.len();
        Some(block)
    }

    /// Number of bytes that were pushed and not taken yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of blocks, including a last block that is not full.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Heap bytes of the buffer.
    pub fn footprint(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u8>>() + self.blocks.len() * BLOCK_BYTES
    }
}

/// Maximum number of bytes of the stream that an iteration executes. This is enough for several hundred of
/// the smallest commands.
const BLOCK_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_and_in_blocks() {
        let all: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        for piece in [1, 100, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 90_000] {
            let mut buffer = StreamBuffer::default();
            all.chunks(piece).for_each(|bytes| buffer.push(bytes));
            assert_eq!((buffer.bytes(), buffer.blocks()), (all.len(), all.len().div_ceil(BLOCK_BYTES)));
            assert!(buffer.footprint() < all.len() + 2 * BLOCK_BYTES);
            let mut out = Vec::new();
            while let Some(block) = buffer.take_block() {
                assert!(block.len() <= BLOCK_BYTES);
                out.extend(block);
            }
            assert!(out == all, "{piece}");
            assert_eq!((buffer.bytes(), buffer.blocks()), (0, 0));
        }
    }

    #[test]
    fn what_comes_while_blocks_are_taken_comes_behind_them() {
        let mut buffer = StreamBuffer::default();
        buffer.push(b"ab");
        assert_eq!(buffer.take_block(), Some(b"ab".to_vec()));
        buffer.push(b"c");
        buffer.push(b"d");
        assert_eq!((buffer.take_block(), buffer.take_block()), (Some(b"cd".to_vec()), None));
    }
}

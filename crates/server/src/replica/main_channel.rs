//! The main channel of a synchronisation over two connections, while the snapshot comes on the other: what it
//! brings is kept here.
//!
//! ```text
//!  Asked ──+CONTINUE──► Buffering ──bound──► Full (nothing is received: the rest waits at the primary)
//!                            └──────loaded────┴──► `Replay`: executed a block an iteration ──► the socket is received from again
//! ```
//!
//! Invariants: (1) at most the hard output limit of replicas and what one event brings is kept; without such
//! a limit all of it; (2) bytes are executed in the order in which they came, and before those that are still
//! in the socket; (3) an iteration executes one block at most.

use crate::connection::transport::Transport;
use std::collections::VecDeque;

/// The main channel as the process has it.
pub struct MainLink {
    /// The connection, in the main thread's event loop.
    pub transport: Transport,
    /// What it has brought of the stream; none before that was promised.
    pub buffer: Option<StreamBuffer>,
    /// Nothing more is received, because the buffer is full.
    pub is_full: bool,
}

impl MainLink {
    /// A connection that has brought nothing.
    pub fn new(transport: Transport) -> MainLink {
        MainLink { transport, buffer: None, is_full: false }
    }
}

/// Bytes of the stream in the order in which they came.
#[derive(Default)]
pub struct StreamBuffer {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl StreamBuffer {
    /// Appends bytes.
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

    /// Takes the block that comes next.
    pub fn take_block(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.bytes -= block.len();
        Some(block)
    }

    /// Bytes that were pushed and not taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u8>>() + self.blocks.len() * BLOCK_BYTES
    }
}

/// What an iteration executes at most: of the smallest commands, some hundred.
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

//! Appends blocks to one file, and keeps track of what is written, what is durable, and what remains after a
//! disk error.
//!
//! ```text
//!             write fails                      sync fails
//!   fine ◄───────────────► waiting      fine ───────────► lost
//!         a write succeeds              (for good: the next file ends it)
//! ```
//!
//! Invariants: (1) blocks are written whole and in order: if a failed write leaves a part of a block, the
//! part is cut off again, so that the file ends with a whole unit (a command or transaction), or else the
//! next write continues after the part; (2) a sync that failed is never tried again, because the kernel
//! counts the pages as clean, and the next sync would succeed with nothing written; (3) `synced` is a
//! position up to which everything is on disk.

use crate::StorageFile;
use sluice_base::heap;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};

/// Bytes of whole units, and the position where they end.
#[derive(Debug, Default)]
pub struct Block {
    /// The bytes to be written: whole units, one after the other.
    pub bytes: Vec<u8>,
    /// The position after the last byte, counted over all files of the log (the append-only file).
    pub end: u64,
}

/// Appends blocks to one file in order, and counts what is written and what is durable.
pub struct Appender {
    file: Box<dyn StorageFile>,
    /// Bytes of the file up to the end of the last whole block.
    size: u64,
    /// Bytes of the first waiting blocks that reached the file before an error and could not be cut off
    /// again.
    torn: usize,
    /// Blocks that are not written yet.
    waiting: VecDeque<Block>,
    /// Position in the log up to which everything is written to the file.
    written: u64,
    /// Position in the log up to which everything is durable.
    synced: u64,
    health: FileHealth,
    /// The bytes of several small blocks, gathered for one write.
    scratch: Vec<u8>,
    /// Buffers of blocks that were written.
    spent: Vec<Vec<u8>>,
}

/// The state of a file after its writes and syncs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileHealth {
    /// No sync has failed, and the last call of [`Appender::write`] wrote everything.
    Fine,
    /// The last write has failed; the next call of [`Appender::write`] tries again.
    Waiting,
    /// A sync has failed, so the file is never synced again.
    Lost,
}

/// Several blocks are written together up to this many bytes.
const TOGETHER_BYTES: usize = 256 * 1024;
/// At most this many buffers are kept for reuse.
const SPENT_MAX: usize = 64;
/// Buffers with a larger capacity than this, in bytes, are not kept.
const SPENT_BYTES: usize = 64 * 1024;

impl Appender {
    /// An appender for a file that ends with a whole unit, at this position. The bytes in the
    /// file must be durable.
    pub fn new(file: Box<dyn StorageFile>, position: u64) -> io::Result<Appender> {
        Ok(Appender {
            size: file.size()?,
            file,
            torn: 0,
            waiting: VecDeque::new(),
            written: position,
            synced: position,
            health: FileHealth::Fine,
            scratch: Vec::new(),
            spent: Vec::new(),
        })
    }

    /// Queues a block for the next [`Appender::write`].
    pub fn push(&mut self, block: Block) {
        self.waiting.push_back(block);
    }

    /// The state of the file.
    pub fn health(&self) -> &FileHealth {
        &self.health
    }

    /// Bytes of the file up to the end of the last whole block.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The position up to which everything is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The position up to which everything is durable.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether some bytes are written but not durable, and the file may still be synced.
    pub fn wants_sync(&self) -> bool {
        self.synced < self.written && self.health != FileHealth::Lost
    }

    /// Bytes of heap memory that waiting blocks and kept buffers take.
    pub fn footprint(&self) -> usize {
        let blocks = self.waiting.iter().map(|block| heap::vec(&block.bytes)).sum::<usize>();
        let spent = self.spent.iter().map(heap::vec).sum::<usize>();
        heap::deque(&self.waiting) + blocks + heap::vec(&self.scratch) + heap::vec(&self.spent) + spent
    }

    /// Buffers of blocks that were written, to be used again.
    pub fn take_spent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.spent)
    }

    /// Writes all waiting blocks; calls `written` with the number of bytes after each write. Errors: those
    /// of the system; the next call tries the remaining blocks again.
    pub fn write(&mut self, written: &mut dyn FnMut(u64)) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let (blocks, bytes) = self.next_together();
            if let Err(error) = self.write_some(blocks, bytes) {
                if self.health == FileHealth::Fine {
                    self.health = FileHealth::Waiting;
                }
                return Err(error);
            }
            written(bytes as u64);
        }
        if self.health == FileHealth::Waiting {
            self.health = FileHealth::Fine;
        }
        Ok(())
    }

    /// The number of blocks in the next write, and their bytes.
    fn next_together(&self) -> (usize, usize) {
        let (mut blocks, mut bytes) = (0, 0);
        for block in &self.waiting {
            if blocks > 0 && bytes + block.bytes.len() > TOGETHER_BYTES {
                break;
            }
            blocks += 1;
            bytes += block.bytes.len();
        }
        (blocks, bytes)
    }

    /// Writes the first `blocks` waiting blocks, which have `bytes` bytes together.
    fn write_some(&mut self, blocks: usize, bytes: usize) -> io::Result<()> {
        let Appender { file, waiting, scratch, torn, .. } = self;
        let text = match blocks {
            1 => waiting[0].bytes.as_slice(),
            _ => {
                scratch.clear();
                waiting.iter().take(blocks).for_each(|block| scratch.extend_from_slice(&block.bytes));
                scratch.as_slice()
            }
        };
        let mut done = *torn;
        let result = loop {
            if done == text.len() {
                break Ok(());
            }
            match file.write(&text[done..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if result.is_err() {
            // A failed write may have written a part. Where that part cannot be cut off, the next
            // attempt continues after it.
            *torn = match file.truncate(self.size) {
                Ok(()) => 0,
                Err(_) => file.size().map_or(done, |size| size.saturating_sub(self.size) as usize),
            };
            return result;
        }
        *torn = 0;
        self.size += bytes as u64;
        for block in self.waiting.drain(..blocks) {
            self.written = block.end;
            if self.spent.len() < SPENT_MAX && block.bytes.capacity() <= SPENT_BYTES {
                self.spent.push(block.bytes);
            }
        }
        Ok(())
    }

    /// Forces all written bytes to disk. Errors: the system's error; the file then counts as lost.
    pub fn sync(&mut self) -> io::Result<()> {
        assert!(self.health != FileHealth::Lost, "a sync that failed is not tried again");
        let result = self.file.sync_data();
        self.end_sync(self.written, result)
    }

    /// A second handle of the file, for another thread to force all written bytes to disk. The caller
    /// reports the result to [`Appender::end_sync`].
    pub fn begin_sync(&self) -> io::Result<PendingSync> {
        assert!(self.health != FileHealth::Lost, "a sync that failed is not tried again");
        Ok(PendingSync { file: self.file.twin()?, position: self.written })
    }

    /// Records the result of a sync that began at `position`, and returns that result. After an error
    /// the file is lost.
    pub fn end_sync(&mut self, position: u64, result: io::Result<()>) -> io::Result<()> {
        match &result {
            Ok(()) => self.synced = self.synced.max(position),
            Err(_) => self.health = FileHealth::Lost,
        }
        result
    }
}

/// A sync that another thread is to make.
pub struct PendingSync {
    /// A second handle of the file.
    pub file: Box<dyn StorageFile>,
    /// The position up to which the bytes were written when the sync was begun.
    pub position: u64,
}

#[cfg(test)]
mod tests;

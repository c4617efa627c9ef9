//! Appending to one file: what is written, what is durable, and what is left when the disk says no.
//!
//! ```text
//!             write fails                      sync fails
//!   fine ◄───────────────► waiting      fine ───────────► lost
//!         a write succeeds              (for good: the next file ends it)
//! ```
//!
//! Invariants: (1) blocks are written whole and in order: a part of one is cut off again, so that the file
//! ends with a unit; (2) a sync that failed is never tried again: the kernel counts the pages as clean, and
//! the next sync would succeed with nothing written; (3) `synced` is a position up to which everything is on
//! disk.

use crate::StorageFile;
use sluice_base::heap;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};

/// Bytes of whole units, and the position where they end.
#[derive(Debug, Default)]
pub struct Block {
    /// Whole units.
    pub bytes: Vec<u8>,
    /// The position behind the last byte.
    pub end: u64,
}

/// See the module.
pub struct Appender {
    file: Box<dyn StorageFile>,
    /// Bytes of the file that are whole blocks.
    size: u64,
    /// Bytes of the block in front that could not be cut off again.
    torn: usize,
    /// Blocks that are not written yet.
    waiting: VecDeque<Block>,
    /// Positions.
    written: u64,
    synced: u64,
    health: FileHealth,
    /// Small blocks are written together.
    scratch: Vec<u8>,
    /// Buffers of blocks that were written.
    spent: Vec<Vec<u8>>,
}

/// How a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileHealth {
    /// All that was tried has worked.
    Fine,
    /// The last write has failed; it is tried again.
    Waiting,
    /// A sync has failed.
    Lost,
}

/// Blocks are written together up to so many bytes.
const TOGETHER_BYTES: usize = 256 * 1024;
/// Buffers that are kept, and how large they may be.
const SPENT_MAX: usize = 64;
const SPENT_BYTES: usize = 64 * 1024;

impl Appender {
    /// A file that ends with a whole unit, at this position. What it holds must be durable.
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

    /// Takes a block to be written.
    pub fn push(&mut self, block: Block) {
        self.waiting.push_back(block);
    }

    /// How the file is.
    pub fn health(&self) -> &FileHealth {
        &self.health
    }

    /// Bytes of the file that are whole blocks.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Position up to which everything is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Position up to which everything is durable.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether something is written and not durable.
    pub fn wants_sync(&self) -> bool {
        self.synced < self.written && self.health != FileHealth::Lost
    }

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let blocks = self.waiting.iter().map(|block| heap::vec(&block.bytes)).sum::<usize>();
        let spent = self.spent.iter().map(heap::vec).sum::<usize>();
        heap::deque(&self.waiting) + blocks + heap::vec(&self.scratch) + heap::vec(&self.spent) + spent
    }

    /// Buffers of blocks that were written, to be used again.
    pub fn take_spent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.spent)
    }

    /// Writes all blocks; after each write `written` is told its bytes. Errors: the blocks that are left are
    /// tried again by the next call.
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

    /// How many blocks are written next, and their bytes.
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

    /// Writes the first blocks, so many bytes.
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
            // A part may be written even so. Where it cannot be cut off again, the next attempt goes on
            // behind it.
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

    /// Forces to disk what is written. Errors: the file is lost.
    pub fn sync(&mut self) -> io::Result<()> {
        assert!(self.health != FileHealth::Lost, "a sync that failed is not tried again");
        let result = self.file.sync_data();
        self.end_sync(self.written, result)
    }

    /// What another thread needs to force to disk what is written. [`Appender::end_sync`] is to be told what
    /// came of it.
    pub fn begin_sync(&self) -> io::Result<PendingSync> {
        assert!(self.health != FileHealth::Lost, "a sync that failed is not tried again");
        Ok(PendingSync { file: self.file.twin()?, position: self.written })
    }

    /// A sync has ended that was begun at this position. Errors: its own; the file is lost.
    pub fn end_sync(&mut self, position: u64, result: io::Result<()>) -> io::Result<()> {
        match &result {
            Ok(()) => self.synced = self.synced.max(position),
            Err(_) => self.health = FileHealth::Lost,
        }
        result
    }
}

/// A sync that is to be made.
pub struct PendingSync {
    /// The file once more.
    pub file: Box<dyn StorageFile>,
    /// What is written ends here.
    pub position: u64,
}

#[cfg(test)]
mod tests;

//! The cut: one moment of a database, captured entry by entry while the database continues to change.
//!
//! ```text
//!  begin ──► each entry is captured once, by the first of these two: ──► nothing left
//!            the cursor, which walks the chunks, or
//!            a change, which captures what it is about to change
//! ```
//!
//! A bitmap for each chunk has a bit set for each block that need not be captured. The bitmap is made
//! when a block of the chunk is first changed, handed out or visited. The bits of unused blocks are set then,
//! so a block that is handed out later has its bit set from the start. Chunks that had no size class when the
//! cut was opened, and chunks added later, are not part of the cut. Neither are the entries of slots that
//! were detached before the cut (`db/detached.rs`).
//!
//! Invariants: (1) `left` counts the blocks that were entries at the cut and have not been captured; (2)
//! while the cut is open, an entry changes, or moves to another block, only after a call of the hook
//! `Db::before_change`; compaction, which does not call the hook, is suspended; (3) a captured entry is as it
//! was at the cut, except for the access clock, which has no hook.

use crate::captured::Captured;
use sluice_collections::slab::{BlockBits, Slab};
use std::collections::VecDeque;

/// A cut that is open.
pub(crate) struct Cut {
    /// The database's number at the cut.
    pub(super) number: usize,
    /// State of each chunk that existed at the cut, by chunk number.
    pub(super) chunks: Vec<ChunkCut>,
    /// The chunk at which the cursor is.
    pub(super) at: u32,
    pub(super) left: usize,
    /// Pieces that were captured and not taken yet; the last one may have room.
    pub(super) captured: VecDeque<Captured>,
    /// Bytes copied into `captured`, and the weight of all pieces in `captured`.
    pub(super) waiting_bytes: usize,
    pub(super) waiting_weight: usize,
    /// Number of entries captured by changes, and the bytes copied for them.
    pub(super) by_changes: (u64, u64),
}

/// State of a chunk in a cut.
pub(super) enum ChunkCut {
    /// No block is left to capture.
    Done,
    /// The chunk is unchanged since the cut, and nothing is captured.
    Untouched,
    /// Some blocks may be left to capture; the bits of all others are set.
    Touched(Box<BlockBits>),
}

/// Progress of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutState {
    /// Number of entries left to capture.
    pub left: usize,
    /// Number of entries that were captured because they were about to change.
    pub changed: u64,
    /// Bytes copied for these entries, without shared values.
    pub changed_bytes: u64,
    /// Bytes captured and not taken yet, without shared values.
    pub waiting_bytes: usize,
    /// Bytes captured and not taken yet, shared values included.
    pub waiting_weight: usize,
}

impl Cut {
    pub(super) fn new(slab: &Slab, number: usize, entries: usize) -> Cut {
        let chunks = (0..slab.chunk_numbers()).map(|_| ChunkCut::Untouched).collect();
        Cut {
            number,
            chunks,
            at: 0,
            left: entries,
            captured: VecDeque::new(),
            waiting_bytes: 0,
            waiting_weight: 0,
            by_changes: (0, 0),
        }
    }

    /// The bits of a chunk, made if necessary; `None` if the chunk has nothing left to capture or was added
    /// after the cut.
    pub(super) fn bits(&mut self, slab: &Slab, chunk: u32) -> Option<&mut BlockBits> {
        let state = self.chunks.get_mut(chunk as usize)?;
        if matches!(state, ChunkCut::Untouched) {
            *state = match slab.unused_blocks(chunk) {
                Some(bits) => ChunkCut::Touched(Box::new(bits)),
                None => ChunkCut::Done,
            };
        }
        match state {
            ChunkCut::Touched(bits) => Some(bits),
            ChunkCut::Done | ChunkCut::Untouched => None,
        }
    }
}

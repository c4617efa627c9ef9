//! The cut: one moment of a database, captured entry by entry while the database goes on changing.
//!
//! ```text
//!  begin ──► each entry is captured once, by whoever comes first: ──► nothing left
//!            the cursor, which walks the chunks, or
//!            a change, which captures what it is about to change
//! ```
//!
//! A bit for each block says that there is nothing to capture in it. The bits of a chunk are made by the
//! first change, hand-out or visit in the chunk, with those of its unused blocks set; a block that is handed
//! out later is so born with its bit set. Chunks without a class at the cut, and those that came later, are
//! no part of it. Neither are the entries of slots that were taken out ahead of the cut (`db/detached.rs`).
//!
//! Invariants: (1) `left` counts the blocks that were entries at the cut and have not been captured; (2)
//! between two captures of the cut no entry changes its block but by the hook `Db::before_change`: compaction
//! stands still; (3) a captured entry is what it was at the cut, the access clock excepted, which has no
//! hook.

use crate::captured::Captured;
use sluice_collections::slab::{BlockBits, Slab};
use std::collections::VecDeque;

/// A cut that is open.
pub(crate) struct Cut {
    /// The database's number at the cut.
    pub(super) number: usize,
    /// By chunk number, those that were there at the cut.
    pub(super) chunks: Vec<ChunkCut>,
    /// Where the cursor stands: a chunk.
    pub(super) at: u32,
    pub(super) left: usize,
    /// Entries that were captured and not taken yet; the last may have room.
    pub(super) captured: VecDeque<Captured>,
    /// Bytes copied into these, and their weight.
    pub(super) waiting_bytes: usize,
    pub(super) waiting_weight: usize,
    /// Entries that changes have captured, and the bytes copied for them.
    pub(super) by_changes: (u64, u64),
}

/// What a cut knows of a chunk.
pub(super) enum ChunkCut {
    /// Nothing in it is left to capture.
    Done,
    /// It is as it was at the cut.
    Untouched,
    /// Some of it is captured: the blocks of these bits, and the unused ones.
    Touched(Box<BlockBits>),
}

/// How far a cut is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutState {
    /// Entries that are left to capture.
    pub left: usize,
    /// Entries that were captured because they were about to change.
    pub changed: u64,
    /// Bytes that were copied for these; values that are shared are left out.
    pub changed_bytes: u64,
    /// Bytes of what was captured and not taken yet; values that are shared are left out.
    pub waiting_bytes: usize,
    /// Bytes of what was captured and not taken yet, values that are shared included.
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

    /// The bits of a chunk, made if need be; `None` where it has nothing left.
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

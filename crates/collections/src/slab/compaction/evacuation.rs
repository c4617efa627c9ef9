//! The state of emptying a chunk.

use crate::slab::BlockBits;

/// The chunk that is being emptied.
pub(in crate::slab) struct Evacuation {
    pub(super) number: u32,
    pub(super) class: usize,
    /// The next free block to mark; `NONE` when all are marked.
    pub(super) mark: u32,
    /// Number of links that may still be followed. The number is limited because a list that a caller has
    /// overwritten may be circular.
    pub(super) marks_left: u32,
    /// The next block to examine.
    pub(super) cursor: u32,
    /// Whether a fresh chunk may be opened for the blocks.
    pub(super) may_open: bool,
    pub(super) free: BlockBits,
}

impl Evacuation {
    pub(in crate::slab) fn is_of(&self, number: u32) -> bool {
        self.number == number
    }
}

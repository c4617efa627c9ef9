//! How far the emptying of a chunk is.

use crate::slab::BlockBits;

/// The chunk being emptied.
pub(in crate::slab) struct Evacuation {
    pub(super) number: u32,
    pub(super) class: usize,
    /// The next free block to mark; `NONE` when all are.
    pub(super) mark: u32,
    /// Links that may be followed still: a list that a caller scribbled over may be a circle.
    pub(super) marks_left: u32,
    /// The next block to look at.
    pub(super) cursor: u32,
    /// A fresh chunk may be opened for the blocks.
    pub(super) may_open: bool,
    pub(super) free: BlockBits,
}

impl Evacuation {
    pub(in crate::slab) fn is_of(&self, number: u32) -> bool {
        self.number == number
    }
}

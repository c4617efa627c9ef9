//! Compaction: moving the blocks of sparse chunks into the fullest chunks of their class, one at a time.
//!
//! The slab copies a block and returns its old and new handle; the owner updates the references to the block
//! and confirms the move ([`SlabOf::finish_move`]). Between two calls the slab can be used as usual.
//!
//! Invariants:
//! 1. A chunk is chosen only if it is less than three quarters full, and only in two cases. Either its blocks
//!    fit in the free blocks of the class's other chunks, so that a whole chunk becomes free; or they do not
//!    fit there and less than a quarter of its touched bytes are in use. In the second case the blocks go
//!    into a fresh chunk, and at least `WASTE_MIN` bytes are regained.
//! 2. A chunk under evacuation is on no list, so that no new block comes from it. The evacuation ends when
//!    the chunk's last block is freed, when there is no room for a block elsewhere, when a block has no
//!    owner, or when the chunk's counts turn out to be wrong.
//! 3. First the chunk's free list is walked, which marks the free blocks; blocks that are freed during this
//!    walk are marked as they are freed. Then the unmarked blocks are moved in order. Each call continues the
//!    walk or the moves where the last call stopped.
#![forbid(unsafe_code)]

mod evacuation;

pub(super) use evacuation::Evacuation;

use std::sync::atomic::Ordering;

use super::{
    BlockBits, Book, Books, CLASSES, EVACUATING, HEAD, Handle, NONE, QUARTERS, Slab, SlabFull, SlabOf,
};

/// A block that was copied, head and body, while the references to it are not updated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the block is held twice until the move is finished or cancelled"]
pub struct Move {
    /// The old block, which still exists.
    pub from: Handle,
    /// The copy of the block.
    pub to: Handle,
}

impl<const CHUNK_BITS: u32, const BLOCK_BITS: u32> SlabOf<CHUNK_BITS, BLOCK_BITS> {
    /// Continues compaction until a block was copied, nothing is left to do, or `budget` steps were
    /// made; `budget` is reduced accordingly. A step examines one block or searches for a chunk, in
    /// constant time. Every move must be finished or cancelled before the next call.
    pub fn next_move(&mut self, budget: &mut usize) -> Option<Move> {
        while *budget > 0 {
            *budget -= 1;
            let books = self.books.as_deref_mut()?;
            let Some(evacuation) = books.evacuation.as_deref_mut() else {
                if books.begin(Self::BLOCKS) {
                    continue;
                }
                return None;
            };
            let number = evacuation.number;
            if evacuation.mark != NONE && evacuation.marks_left > 0 {
                let block = evacuation.mark;
                evacuation.free.add(block);
                evacuation.marks_left -= 1;
                let bump = books.rows.as_slice()[number as usize].bump;
                let next = self.link_of(number, block, bump);
                if let Some(evacuation) = self.evacuation() {
                    evacuation.mark = next;
                }
                continue;
            }
            let block = evacuation.free.next_absent(evacuation.cursor).unwrap_or(NONE);
            if block >= books.rows.as_slice()[number as usize].bump {
                // All blocks were examined, and the chunk is not empty (otherwise its evacuation would have
                // ended already). So its counts are wrong, and it is not chosen again.
                books.end_evacuation(true);
            } else {
                evacuation.cursor = block + 1;
                return match self.copy_out(number, block) {
                    Ok(copied) => Some(copied),
                    Err(SlabFull) => {
                        self.books.as_deref_mut()?.end_evacuation(false);
                        continue;
                    }
                };
            }
        }
        None
    }

    /// Frees the old block, once no reference to it is left.
    pub fn finish_move(&mut self, done: Move) {
        self.free(done.from);
    }

    /// Cancels a move: the copy is freed, the old block stays, and its chunk is not compacted again
    /// until it becomes empty.
    pub fn cancel_move(&mut self, failed: Move) {
        self.free(failed.to);
        if let Some(books) = self.books.as_deref_mut() {
            books.end_evacuation(true);
        }
    }

    /// Whether a chunk is being emptied.
    #[cfg(test)]
    pub(crate) fn is_compacting(&self) -> bool {
        self.books.as_deref().is_some_and(|books| books.evacuation.is_some())
    }

    fn evacuation(&mut self) -> Option<&mut Evacuation> {
        self.books.as_deref_mut()?.evacuation.as_deref_mut()
    }

    fn copy_out(&mut self, number: u32, block: u32) -> Result<Move, SlabFull> {
        let from = Self::join(number, block).ok_or(SlabFull)?;
        let (class, may_open) = self.evacuation().map(|e| (e.class, e.may_open)).ok_or(SlabFull)?;
        let room = self.books.as_deref().and_then(|books| books.fullest_with_room(class));
        let target = match room {
            Some(target) => target,
            None if may_open => self.open_cold(class)?,
            None => return Err(SlabFull),
        };
        let to = self.take(target).ok_or(SlabFull)?;
        let mut copy = [0; Slab::MAX_BLOCK - HEAD];
        let (head, body) = self.block(from);
        let head = head.load(Ordering::Relaxed);
        let len = body.len();
        copy[..len].copy_from_slice(body);
        self.body_mut(to).copy_from_slice(&copy[..len]);
        self.head(to).store(head, Ordering::Relaxed);
        Ok(Move { from, to })
    }

    /// Opens a chunk whose pages are not resident, so that blocks moved there take only the memory they fill.
    fn open_cold(&mut self, class: usize) -> Result<u32, SlabFull> {
        let vacant = self.books.as_deref().and_then(|books| {
            let units = super::units_of(per_chunk(Self::BLOCKS, class) * class * 8);
            Some(books.vacant[units]).filter(|&number| number != NONE)
        });
        if let Some(number) = vacant {
            if let Some(books) = self.books.as_deref_mut() {
                books.forget_warm(number);
            }
            self.cool(number);
        }
        self.open(class)
    }
}

impl Books {
    /// Begins to empty a chunk if that is worthwhile. `blocks_max` is the largest number of blocks
    /// in a chunk.
    fn begin(&mut self, blocks_max: usize) -> bool {
        for i in 0..CLASSES {
            let class = (self.search_at + i) % CLASSES;
            if let Some((number, may_open)) = self.sparse(class, per_chunk(blocks_max, class)) {
                self.search_at = class;
                self.unlist(number);
                let book = &mut self.rows.as_mut_slice()[number as usize];
                book.quarter = EVACUATING;
                let Book { free, bump, .. } = *book;
                let cursor = u32::from(number == 0);
                self.evacuation = Some(Box::new(Evacuation {
                    number,
                    class,
                    mark: free,
                    marks_left: bump,
                    cursor,
                    may_open,
                    free: BlockBits::EMPTY,
                }));
                return true;
            }
        }
        false
    }

    /// A chunk of the class that invariant (1) allows to be emptied, and whether a fresh chunk may be
    /// opened for its blocks.
    fn sparse(&self, class: usize, per_chunk: usize) -> Option<(u32, bool)> {
        let this = &self.classes[class];
        let first = *this.rooms[1..].iter().rev().find(|&&number| number != NONE)?;
        let rows = self.rows.as_slice();
        // The second chunk of the list is taken if there is one, because new blocks and copies of moved
        // blocks are allocated in the first chunk, and a block that was just moved must not be moved again.
        let number = match rows[first as usize].next {
            NONE => first,
            second => second,
        };
        let book = &rows[number as usize];
        if book.is_pinned {
            return None;
        }
        if this.chunks > 1 && this.blocks - this.used >= per_chunk {
            return Some((number, false));
        }
        let used = book.used as usize * class * 8;
        let wasted = (book.touched as usize).saturating_sub(used);
        (wasted >= WASTE_MIN && used * QUARTERS < book.touched as usize).then_some((number, true))
    }

    /// Returns the chunk under evacuation to its list. If `pinned` is true, the chunk is not chosen again
    /// until it becomes empty.
    fn end_evacuation(&mut self, pinned: bool) {
        let Some(evacuation) = self.evacuation.take() else { return };
        let number = evacuation.number;
        let book = &mut self.rows.as_mut_slice()[number as usize];
        book.is_pinned = pinned;
        let quarter = super::quarter_of(book.used, book.scale);
        self.list(number, quarter);
    }

    /// Marks a block that was freed in the chunk under evacuation; `NONE` is ignored.
    #[cold]
    pub(super) fn note_freed(&mut self, block: u32) {
        if block != NONE
            && let Some(evacuation) = self.evacuation.as_deref_mut()
        {
            evacuation.free.add(block);
        }
    }

    fn forget_warm(&mut self, number: u32) {
        if let Some(at) = self.warm.iter().position(|&warm| warm == number) {
            self.warm.remove(at);
            self.warm_bytes -= self.rows.as_slice()[number as usize].touched as usize;
        }
    }
}

/// Number of blocks in a chunk of the class.
fn per_chunk(blocks_max: usize, class: usize) -> usize {
    blocks_max.min(Slab::CHUNK_BYTES / (class * 8).max(1))
}

/// Bytes that a move into a fresh chunk must regain.
const WASTE_MIN: usize = 256 << 10;

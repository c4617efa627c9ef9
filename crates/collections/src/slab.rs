//! Blocks of bytes in size classes eight bytes apart, named by 32-bit handles.
//!
//! ```text
//!  handle   31            17 16                0          chunk (1 MiB, one class)
//!          ┌────────────────┬───────────────────┐        ┌───────┬───────┬───────┬──────┐
//!          │ chunk number   │ granule (8 bytes) │ ──────►│ block │ block │ block │ ...  │
//!          └────────────────┴───────────────────┘        └───────┴───────┴───────┴──────┘
//!                                                          │
//!  block    offset 0, 4 bytes: head word (atomic)          ▼
//!           offset 4, the rest: body; of a free block the first four bytes are the next free granule
//! ```
//!
//! Invariants:
//! 1. A live chunk has one class, fixed until it dies; its blocks begin at the multiples of the class's size. Changing
//!    that needs `&mut Slab`.
//! 2. Every byte of a chunk is initialised: it comes zeroed from the allocator (which maps it lazily, so that pages
//!    never handed out cost nothing) and is only ever overwritten.
//! 3. A handle is looked up only if its chunk is live and its granule is a multiple of the class's size; one
//!    multiplication decides both (`Chunk::magic`). The last block may begin inside the chunk and end in the padding
//!    behind it.
//! 4. Heads and bodies never overlap, by (1) and (3), *whatever handle is given*. So a shared `Slab` may hand out
//!    `&AtomicU32` for heads and `&[u8]` for bodies to any thread at once, and `&mut [u8]` needs `&mut Slab`.
//! 5. What a free block contains is not trusted: a link is used only after the checks of (3). A caller that writes
//!    through a stale handle, or frees twice, can mix up its own blocks, never the memory of anybody else.
//!
//! A handle that names no block (its chunk is gone, or it was never one) has an empty body, size 0, and a head word that
//! all such handles share. A stale handle whose place is in use again names the new block.
//!
//! Chunks with room are listed per class and quarter of occupancy; a block comes from the fullest, so that the emptier
//! ones may run empty and be given back. A few empty chunks are kept for any class to use.

mod typed;
pub use typed::TypedSlab;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arch;

/// The name of a block: never zero, so that `Option<Handle>` is four bytes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// The handle whose number is `raw`; none for 0. Any number may be asked for: see the module's notes.
    #[inline(always)]
    pub fn from_raw(raw: u32) -> Option<Handle> {
        NonZeroU32::new(raw).map(Handle)
    }

    /// The number of this handle.
    #[inline(always)]
    pub fn raw(self) -> u32 {
        self.0.get()
    }
}

/// The slab cannot hold another block: 32 GiB are reached, the allocator refuses, or the size is above
/// [`Slab::MAX_BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no room for another block")
    }
}

impl std::error::Error for Full {}

/// What one size class holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes of a block, head word included.
    pub block_size: usize,
    /// Chunks of this class.
    pub chunks: usize,
    /// Blocks handed out and not freed.
    pub blocks_used: usize,
    /// Blocks handed out at least once since their chunk joined the class: the memory that is surely resident.
    pub blocks_touched: usize,
}

/// Blocks of 16 to 1,024 bytes; see the module's notes.
pub struct Slab {
    /// What a lookup needs, by chunk number.
    chunks: Vec<Chunk>,
    /// What allocating and freeing need, by chunk number.
    books: Vec<Book>,
    /// First chunk with room, by class and quarter of occupancy; `NONE` when there is none.
    rooms: Vec<[u32; QUARTERS]>,
    /// Empty chunks that keep their memory.
    spares: Vec<u32>,
    /// Chunk numbers without memory.
    vacant: Vec<u32>,
    blocks_used: usize,
    bytes_used: usize,
    granules_touched: usize,
    /// The head word of handles that name no block.
    nowhere: AtomicU32,
}

/// The half of a chunk's description that every lookup reads.
#[derive(Clone, Copy)]
struct Chunk {
    /// Start of granule 0, aligned to a cache line; null when the chunk has no memory.
    base: *mut u8,
    /// `ceil(2^32 / granules of a block)`: `granule * magic` wraps to less than `magic` exactly for multiples of the
    /// block, for granules below 2^17 and blocks of at most 2^7. Zero in a dead chunk, where nothing is less.
    magic: u32,
    /// Bytes of a block.
    size: u32,
}

// SAFETY: the pointer is owned by the slab that holds the chunk; nobody else has it (invariant 4 covers sharing).
// JUSTIFICATION: the keyspace moves between threads, and readers share it.
unsafe impl Send for Chunk {}
// SAFETY: a shared chunk gives out shared bodies and atomic heads only (invariant 4).
// JUSTIFICATION: as above.
unsafe impl Sync for Chunk {}

/// The other half: granules are counted from the start of the chunk.
#[derive(Clone, Copy)]
struct Book {
    /// Granules of a block; 0 in a dead chunk.
    step: u32,
    /// Blocks handed out.
    used: u32,
    /// Where the next block never handed out begins; `GRANULES` or above when there is none.
    bump: u32,
    /// Highest `bump` since the chunk has its memory.
    touched: u32,
    /// First free block, `NONE` when there is none. Always a block of this chunk below `bump`.
    free: u32,
    /// Neighbours in the list of `rooms` that this chunk is on.
    prev: u32,
    next: u32,
    /// Which quarter's list that is; `UNLISTED` when on none.
    quarter: u8,
    /// Bytes from the start of the allocation to granule 0.
    pad: u8,
}

impl Slab {
    /// Bytes of the largest block, head word included.
    pub const MAX_BLOCK: usize = 1024;
    /// Bytes that the allocator is asked for with each chunk.
    pub const CHUNK_BYTES: usize = LAYOUT.size();
    /// Bytes that handles can name, 32 GiB: where [`Slab::alloc`] is [`Full`].
    pub const MAX_BYTES: usize = CHUNKS_MAX * GRANULES as usize * GRANULE;

    /// An empty slab; it takes about two KiB for its lists at the first block.
    pub fn new() -> Slab {
        Slab {
            chunks: Vec::new(),
            books: Vec::new(),
            rooms: Vec::new(),
            spares: Vec::new(),
            vacant: Vec::new(),
            blocks_used: 0,
            bytes_used: 0,
            granules_touched: 0,
            nowhere: AtomicU32::new(0),
        }
    }

    /// The size of the block that `alloc(size)` gives: the next multiple of 8, at least 16.
    #[inline]
    pub const fn rounded(size: usize) -> usize {
        let size = (size + 7) & !7;
        if size < MIN_BLOCK { MIN_BLOCK } else { size }
    }

    /// Takes a block of at least `size` bytes, head word included. Its head is zero; its body holds whatever it held.
    /// Constant time; a new chunk (one allocation of 1 MiB) when no chunk of the class has room.
    ///
    /// # Errors
    /// [`Full`]; nothing has changed then.
    #[inline]
    pub fn alloc(&mut self, size: usize) -> Result<Handle, Full> {
        if size > Slab::MAX_BLOCK {
            return Err(Full);
        }
        let step = (Slab::rounded(size) / GRANULE) as u32;
        let chunk = match self.fullest_with_room(step) {
            Some(chunk) => chunk,
            None => self.open(step)?,
        };
        let granule = self.take(chunk);
        let handle = Handle::from_raw(chunk << GRANULE_BITS | granule).ok_or(Full)?;
        self.head(handle).store(0, Ordering::Relaxed);
        Ok(handle)
    }

    /// Gives the block back. A handle that names no block, or a block that was never handed out, is ignored; freeing
    /// twice hands the block out twice later.
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        let (chunk, granule) = (handle.raw() >> GRANULE_BITS, handle.raw() & GRANULE_MASK);
        let Some(size) = self.locate(handle).map(|block| block.size) else { return };
        let book = &mut self.books[chunk as usize];
        if granule >= book.bump || book.used == 0 {
            return;
        }
        let link = std::mem::replace(&mut book.free, granule);
        book.used -= 1;
        let empty = book.used == 0;
        self.blocks_used = self.blocks_used.saturating_sub(1);
        self.bytes_used = self.bytes_used.saturating_sub(size);
        if let Some(first) = self.body_mut(handle).first_chunk_mut::<4>() {
            *first = link.to_le_bytes();
        }
        if empty {
            self.retire(chunk);
        } else {
            self.list_again(chunk);
        }
    }

    /// The first word of the block, for bits that readers change too. Use it relaxed: it orders nothing.
    #[inline(always)]
    pub fn head(&self, handle: Handle) -> &AtomicU32 {
        match self.locate(handle) {
            // SAFETY: `locate` gives the start of a block of a live chunk: valid for as long as `self` is borrowed,
            // aligned to 8, initialised (2); no reference to plain bytes ever covers it (4).
            // JUSTIFICATION: the first touch of every entry; indexing a vector of words per chunk costs two more
            // dependent loads.
            Some(block) => unsafe { AtomicU32::from_ptr(block.at.cast()) },
            None => &self.nowhere,
        }
    }

    /// The block without its head word; empty when the handle names no block.
    #[inline(always)]
    pub fn body(&self, handle: Handle) -> &[u8] {
        match self.locate(handle) {
            // SAFETY: the `size` bytes from `at` lie in the chunk or its padding (3), are initialised (2), and change
            // only through `&mut self`, since heads are left out (4).
            // JUSTIFICATION: every read of a key or value.
            Some(block) => unsafe {
                std::slice::from_raw_parts(block.at.wrapping_add(HEAD).cast_const(), block.size - HEAD)
            },
            None => &[],
        }
    }

    /// Head word and body together, for one look-up of the chunk.
    #[inline(always)]
    pub fn block(&self, handle: Handle) -> (&AtomicU32, &[u8]) {
        match self.locate(handle) {
            // SAFETY: as for `head` and for `body`, each of which covers its own part of the block.
            // JUSTIFICATION: a read of an entry needs both; locating twice costs a dozen instructions per GET.
            Some(block) => unsafe {
                let body =
                    std::slice::from_raw_parts(block.at.wrapping_add(HEAD).cast_const(), block.size - HEAD);
                (AtomicU32::from_ptr(block.at.cast()), body)
            },
            None => (&self.nowhere, &[]),
        }
    }

    /// The block without its head word, to write; empty when the handle names no block.
    #[inline(always)]
    pub fn body_mut(&mut self, handle: Handle) -> &mut [u8] {
        match self.locate(handle) {
            // SAFETY: as for `body`, and `&mut self` excludes every other reference into the slab.
            // JUSTIFICATION: every write of a key or value.
            Some(block) => unsafe {
                std::slice::from_raw_parts_mut(block.at.wrapping_add(HEAD), block.size - HEAD)
            },
            None => &mut [],
        }
    }

    /// Bytes of the block, head word included; 0 when the handle names no block.
    #[inline(always)]
    pub fn block_size(&self, handle: Handle) -> usize {
        self.locate(handle).map_or(0, |block| block.size)
    }

    /// Asks for the block's first cache line, and for its second if it has one.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        if let Some(block) = self.locate(handle) {
            arch::prefetch(block.at);
            if block.at.addr() % LINE + block.size > LINE {
                arch::prefetch(block.at.wrapping_add(LINE));
            }
        }
    }

    /// Blocks handed out and not freed.
    pub fn blocks_used(&self) -> usize {
        self.blocks_used
    }

    /// Bytes of the blocks handed out and not freed.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used
    }

    /// Chunks that have memory, spares included. O(1).
    pub fn chunks(&self) -> usize {
        self.chunks.len() - self.vacant.len()
    }

    /// Bytes taken from the allocator: whole chunks, mapped or not, and the lists.
    pub fn bytes_allocated(&self) -> usize {
        self.chunks() * Slab::CHUNK_BYTES
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.books.capacity() * size_of::<Book>()
            + self.rooms.capacity() * size_of::<[u32; QUARTERS]>()
            + (self.spares.capacity() + self.vacant.capacity()) * size_of::<u32>()
    }

    /// Bytes of the chunks that have a class: how much of [`Slab::MAX_BYTES`] is taken, free blocks in them included. O(1).
    #[inline]
    pub fn bytes_taken(&self) -> usize {
        let chunks = self.chunks() - self.spares.len();
        chunks * GRANULES as usize * GRANULE
    }

    /// Bytes of chunks that were handed out at least once: about what is resident.
    pub fn bytes_touched(&self) -> usize {
        self.granules_touched * GRANULE
    }

    /// The classes that have a chunk, smallest first. Cost: one step for each chunk.
    pub fn stats(&self) -> Vec<ClassStats> {
        let mut classes = [ClassStats::default(); Slab::MAX_BLOCK / GRANULE + 1];
        for (number, book) in self.books.iter().enumerate().filter(|(_, book)| book.step != 0) {
            let class = &mut classes[book.step as usize];
            class.block_size = book.step as usize * GRANULE;
            class.chunks += 1;
            class.blocks_used += book.used as usize;
            // Chunk 0 has no block at its start.
            class.blocks_touched += (book.bump / book.step) as usize - usize::from(number == 0);
        }
        classes.into_iter().filter(|class| class.chunks != 0).collect()
    }

    /// Frees everything, spares included. Every handle names no block then, until its number is handed out again. Cost:
    /// one deallocation for each chunk; to do it elsewhere, move the slab to another thread and drop it there.
    pub fn clear(&mut self) {
        *self = Slab::new();
    }

    /// The block that `handle` names, by invariant (3).
    #[inline(always)]
    fn locate(&self, handle: Handle) -> Option<Block> {
        let chunk = self.chunks.get((handle.raw() >> GRANULE_BITS) as usize)?;
        let granule = handle.raw() & GRANULE_MASK;
        if !chunk.has_block_at(granule) {
            return None;
        }
        let at = chunk.base.wrapping_add(granule as usize * GRANULE);
        Some(Block { at, size: chunk.size as usize })
    }

    #[inline]
    fn fullest_with_room(&self, step: u32) -> Option<u32> {
        let rooms = self.rooms.get(step as usize)?;
        rooms.iter().copied().find(|&chunk| chunk != NONE)
    }

    /// Takes a block from a chunk that has room.
    #[inline]
    fn take(&mut self, chunk: u32) -> u32 {
        let book = &self.books[chunk as usize];
        let granule = if book.free != NONE { book.free } else { book.bump };
        let next = if book.free != NONE { self.link_of(chunk, granule) } else { NONE };
        let book = &mut self.books[chunk as usize];
        if granule == book.bump {
            book.bump += book.step;
            let grown = book.bump.saturating_sub(book.touched);
            book.touched += grown;
            self.granules_touched += grown as usize;
        }
        book.free = next;
        book.used = book.used.saturating_add(1);
        self.blocks_used += 1;
        self.bytes_used += book.step as usize * GRANULE;
        self.list_again(chunk);
        granule
    }

    /// The free block after the one at `granule`, or `NONE` when the link is not a block of the chunk (invariant 5).
    #[inline]
    fn link_of(&self, chunk: u32, granule: u32) -> u32 {
        let Some(handle) = Handle::from_raw(chunk << GRANULE_BITS | granule) else { return NONE };
        let Some(link) = self.body(handle).first_chunk::<4>() else { return NONE };
        let link = u32::from_le_bytes(*link);
        let is_block = link < self.books[chunk as usize].bump
            && link < GRANULES
            && (chunk | link) != 0
            && self.chunks[chunk as usize].has_block_at(link);
        if is_block { link } else { NONE }
    }

    /// Puts the chunk on the list of its quarter, or on none if it is full.
    #[inline]
    fn list_again(&mut self, chunk: u32) {
        let book = &self.books[chunk as usize];
        let has_room = book.free != NONE || book.bump < GRANULES;
        let quarter = if has_room { quarter_of(book.used.saturating_mul(book.step)) } else { UNLISTED };
        if quarter != book.quarter {
            self.unlist(chunk);
            self.list(chunk, quarter);
        }
    }

    fn list(&mut self, chunk: u32, quarter: u8) {
        let book = &mut self.books[chunk as usize];
        book.quarter = quarter;
        if quarter == UNLISTED {
            return;
        }
        let first = &mut self.rooms[book.step as usize][quarter as usize];
        let next = std::mem::replace(first, chunk);
        (book.prev, book.next) = (NONE, next);
        if next != NONE {
            self.books[next as usize].prev = chunk;
        }
    }

    fn unlist(&mut self, chunk: u32) {
        let Book { step, prev, next, quarter, .. } = self.books[chunk as usize];
        if quarter == UNLISTED {
            return;
        }
        match prev {
            NONE => self.rooms[step as usize][quarter as usize] = next,
            prev => self.books[prev as usize].next = next,
        }
        if next != NONE {
            self.books[next as usize].prev = prev;
        }
        self.books[chunk as usize].quarter = UNLISTED;
    }

    /// An empty chunk for blocks of `step` granules, listed.
    #[cold]
    #[inline(never)]
    fn open(&mut self, step: u32) -> Result<u32, Full> {
        if self.rooms.is_empty() {
            self.rooms = vec![[NONE; QUARTERS]; Slab::MAX_BLOCK / GRANULE + 1];
        }
        let chunk = match self.spares.pop() {
            Some(chunk) => chunk,
            None => self.map()?,
        };
        let record = &mut self.chunks[chunk as usize];
        record.magic = magic_of(step);
        record.size = step * GRANULE as u32;
        let book = &mut self.books[chunk as usize];
        (book.step, book.used, book.free) = (step, 0, NONE);
        // Handle 0 does not exist.
        book.bump = if chunk == 0 { step } else { 0 };
        self.list(chunk, (QUARTERS - 1) as u8);
        Ok(chunk)
    }

    /// Memory for one more chunk, dead as yet.
    fn map(&mut self) -> Result<u32, Full> {
        let chunk = match self.vacant.last() {
            Some(&chunk) => chunk,
            None if self.chunks.len() < CHUNKS_MAX => self.chunks.len() as u32,
            None => return Err(Full),
        };
        // SAFETY: the layout's size is not zero.
        // JUSTIFICATION: only the allocator's zeroed pages are both initialised and untouched; the alignment is kept at
        // what it gives anyway, since for more it would write the zeros itself.
        let start = unsafe { alloc_zeroed(LAYOUT) };
        if start.is_null() {
            return Err(Full);
        }
        let pad = start.addr().wrapping_neg() % LINE;
        let record = Chunk { base: start.wrapping_add(pad), magic: 0, size: 0 };
        let book = Book { pad: pad as u8, ..Book::DEAD };
        if self.vacant.pop().is_some() {
            self.chunks[chunk as usize] = record;
            self.books[chunk as usize] = book;
        } else {
            self.chunks.push(record);
            self.books.push(book);
        }
        Ok(chunk)
    }

    /// Ends the life of an empty chunk: it becomes a spare, or its memory goes back.
    #[cold]
    #[inline(never)]
    fn retire(&mut self, chunk: u32) {
        self.unlist(chunk);
        let record = &mut self.chunks[chunk as usize];
        (record.magic, record.size) = (0, 0);
        let book = &mut self.books[chunk as usize];
        book.step = 0;
        if self.spares.len() < SPARES_MAX {
            self.spares.push(chunk);
        } else {
            self.granules_touched -= book.touched as usize;
            self.unmap(chunk);
            self.vacant.push(chunk);
        }
    }

    fn unmap(&mut self, chunk: u32) {
        let record = &mut self.chunks[chunk as usize];
        let base = std::mem::replace(&mut record.base, std::ptr::null_mut());
        (record.magic, record.size) = (0, 0);
        if !base.is_null() {
            let start = base.wrapping_sub(self.books[chunk as usize].pad as usize);
            // SAFETY: `start` is what `alloc_zeroed(LAYOUT)` returned in `map`, and it is given back once, as the base
            // is null from here on; `&mut self` says that no reference into it is left.
            // JUSTIFICATION: the other half of `map`.
            unsafe { dealloc(start, LAYOUT) }
        }
    }
}

impl Default for Slab {
    fn default() -> Slab {
        Slab::new()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for chunk in 0..self.chunks.len() as u32 {
            self.unmap(chunk);
        }
    }
}

impl Chunk {
    #[inline(always)]
    fn has_block_at(&self, granule: u32) -> bool {
        granule.wrapping_mul(self.magic) < self.magic
    }
}

impl Book {
    const DEAD: Book = Book {
        step: 0,
        used: 0,
        bump: 0,
        touched: 0,
        free: NONE,
        prev: NONE,
        next: NONE,
        quarter: UNLISTED,
        pad: 0,
    };
}

/// A block that exists: its start, aligned to 8, and its bytes.
#[derive(Clone, Copy)]
struct Block {
    at: *mut u8,
    size: usize,
}

/// `Chunk::magic` for blocks of `step` granules.
fn magic_of(step: u32) -> u32 {
    u32::MAX / step + 1
}

/// Which list: 0 for the fullest quarter, so that the search for a block looks there first.
#[inline(always)]
fn quarter_of(granules_used: u32) -> u8 {
    let quarter = (granules_used >> (GRANULE_BITS - 2)).min(QUARTERS as u32 - 1);
    (QUARTERS as u32 - 1 - quarter) as u8
}

/// Bytes that a handle counts in.
const GRANULE: usize = 8;
const GRANULE_BITS: u32 = 17;
const GRANULES: u32 = 1 << GRANULE_BITS;
const GRANULE_MASK: u32 = GRANULES - 1;
const CHUNKS_MAX: usize = 1 << (32 - GRANULE_BITS);
const HEAD: usize = size_of::<AtomicU32>();
const MIN_BLOCK: usize = 16;
const LINE: usize = 64;
const QUARTERS: usize = 4;
const UNLISTED: u8 = u8::MAX;
const NONE: u32 = u32::MAX;
/// Empty chunks kept: enough that a few classes on the edge of a chunk do not go to the allocator for every block.
const SPARES_MAX: usize = 4;
/// A chunk, room for its last block to end in, and room to align granule 0 to a cache line.
const LAYOUT: Layout = match Layout::from_size_align(GRANULES as usize * GRANULE + Slab::MAX_BLOCK + LINE, 16)
{
    Ok(layout) => layout,
    Err(_) => panic!("the size of a chunk is a constant"),
};

const _: () = assert!(size_of::<Chunk>() == 16 || size_of::<usize>() != 8);
const _: () = assert!(LAYOUT.size() <= (1 << 20) + 4096);

#[cfg(test)]
mod tests;

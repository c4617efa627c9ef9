//! Blocks of bytes in size classes eight bytes apart, named by 32-bit handles.
//!
//! ```text
//!  handle   31          12 11          0          chunk (4,096 blocks of one class, at most 1 MiB)
//!          ┌──────────────┬─────────────┐        ┌───────┬───────┬───────┬──────┐
//!          │ chunk number │ block       │ ──────►│ block │ block │ block │ ...  │
//!          └──────────────┴─────────────┘        └───────┴───────┴───────┴──────┘
//!                                                  │
//!  block    offset 0, 4 bytes: head word (atomic)  ▼
//!           offset 4, the rest: body (in a free block, 4 bytes with the number of the next free block)
//! ```
//!
//! Invariants:
//! 1. A chunk in use has one class, fixed until the chunk becomes empty; block `b` begins at `b` times
//!    the class's size. Changing the class needs `&mut Slab`.
//! 2. Every byte of a chunk is initialised: a chunk is in a piece of a reserved region, which reads as
//!    zeros before it is touched and is only overwritten or given back to the system (`memory.rs`,
//!    invariants 1 and 2). No code here writes the zeros.
//! 3. A handle is looked up only if its chunk number is below the number of chunks and its block number
//!    below the `count` of the chunk; a chunk without a class has the count 0. `count * size` never
//!    exceeds the piece of the chunk.
//! 4. Heads and bodies never overlap, by (1) and (3), *whatever handle is passed*: two handles name
//!    either the same block or disjoint ranges. So a shared `Slab` may give out `&AtomicU32` for heads
//!    and `&[u8]` for bodies to any thread at once, and `&mut [u8]` needs `&mut Slab`.
//! 5. The contents of a free block are not trusted: a link to the next free block is used only after the
//!    check of (3), and after a check that it is below `Book::bump`, the number of the first block that was
//!    never handed out. A caller that writes through a stale handle, or frees twice, can mix up its own
//!    blocks, but no other memory.
//!
//! A handle that names no block (its chunk has no class, or never existed) has an empty body, size 0, and a
//! head word that all such handles share. A stale handle whose block is in use again names the new block.
//!
//! Chunks with room are listed by class and quarter of occupancy. A new block is taken from one of the
//! fullest chunks, so that the others may become empty. [`Slab::next_move`] empties sparse chunks. A chunk
//! that became empty keeps its number and its address space for a class whose chunks have the same length.
//! The chunks that became empty last keep their pages for a while; older ones give them back. So the address
//! space of all chunks is at most the sum, over the 16 lengths, of the largest total that all chunks of a
//! length once had.

mod bits;
mod compaction;
mod memory;
mod typed;
pub use bits::BlockBits;
pub use compaction::Move;
pub use typed::TypedSlab;

use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arch;
use compaction::Evacuation;
use memory::{Regions, StableVec};

/// The name of a block; never zero, so that `Option<Handle>` also takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// The handle with the number `raw`; `None` for 0. Any number is safe, as the module's documentation
    /// explains.
    #[inline(always)]
    pub(crate) fn from_raw(raw: u32) -> Option<Handle> {
        NonZeroU32::new(raw).map(Handle)
    }

    /// The number of this handle.
    #[inline(always)]
    pub fn raw(self) -> u32 {
        self.0.get()
    }
}

/// The slab cannot hold another block: every chunk number is in use, the system refuses address space,
/// or the size exceeds [`Slab::MAX_BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabFull;

impl std::fmt::Display for SlabFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no room for another block")
    }
}

impl std::error::Error for SlabFull {}

/// Counts of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes of a block, head word included.
    pub block_size: usize,
    /// Chunks of this class.
    pub chunks: usize,
    /// Blocks handed out and not freed.
    pub blocks_used: usize,
    /// Blocks handed out at least once since their chunk joined the class. Their memory is certainly
    /// resident.
    pub blocks_touched: usize,
}

/// Blocks of 16 to 2,040 bytes; see the module's documentation. At most 2^32 blocks of up to 256 bytes,
/// or 1 TiB of larger ones.
pub type Slab = SlabOf<20, 12>;

/// A slab with `CHUNK_BITS` bits of chunk number and `BLOCK_BITS` bits of block number in a handle, at most
/// 32 together. All slabs but [`Slab`] are for tests, in which so few handles can be used up.
pub struct SlabOf<const CHUNK_BITS: u32, const BLOCK_BITS: u32> {
    /// The part of each chunk's description that lookups read, by chunk number.
    chunks: StableVec<SlabChunk>,
    /// The data for allocating and freeing; `None` before the first block, so that an empty slab
    /// takes 40 bytes.
    books: Option<Box<Books>>,
    /// The head word of handles that name no block.
    nowhere: AtomicU32,
}

/// The part of a chunk's description that every lookup reads.
#[derive(Clone, Copy)]
struct SlabChunk {
    /// Start of block 0, aligned to a page.
    base: NonNull<u8>,
    /// Bytes of a block.
    size: u32,
    /// Number of blocks; 0 in a chunk without a class.
    count: u32,
}

// SAFETY: the piece of memory is owned by the slab that holds the chunk (invariant 4 covers sharing).
// JUSTIFICATION: the keyspace moves between threads, and readers share it.
unsafe impl Send for SlabChunk {}
// SAFETY: a shared chunk gives out shared bodies and atomic heads only (invariant 4).
// JUSTIFICATION: as above.
unsafe impl Sync for SlabChunk {}

/// The part of a chunk's description that only allocating and freeing need.
#[derive(Clone, Copy)]
struct Book {
    used: u32,
    /// The first block that was never handed out; `count` if there is none.
    bump: u32,
    /// First free block, `NONE` when there is none. Always a block of this chunk below `bump`.
    free: u32,
    /// The chunk before this one in the list of `SizeClass::rooms` that the chunk is on.
    prev: u32,
    /// The chunk after this one in that list, or in the list of vacant chunks.
    next: u32,
    /// `ceil(4 * 2^16 / count)`: turns `used` into quarters by one multiplication.
    scale: u32,
    /// Bytes from the start that were handed out since the chunk's pages were last given back, and so may be
    /// resident.
    touched: u32,
    /// The quarter whose list the chunk is on; `UNLISTED` for none, `EVACUATING` while compaction
    /// empties the chunk.
    quarter: u8,
    /// Bytes of a block divided by eight; 0 in a chunk without a class.
    class: u8,
    /// Size of the chunk's piece, in [`UNIT`]s.
    units: u8,
    /// Whether compaction has found a block without an owner, or a wrong count. Such a chunk is not compacted
    /// again until it becomes empty.
    is_pinned: bool,
}

/// The chunks of one block size.
#[derive(Clone, Copy)]
struct SizeClass {
    /// First chunk with room, by quarter of occupancy; `NONE` when there is none.
    rooms: [u32; QUARTERS],
    chunks: u32,
    /// Blocks of all chunks of the class, handed out or not.
    blocks: usize,
    /// Blocks that are handed out now.
    used: usize,
}

/// The data for allocating and freeing.
struct Books {
    /// One row for each chunk, by chunk number.
    rows: StableVec<Book>,
    /// Size classes, by the bytes of a block divided by eight.
    classes: [SizeClass; CLASSES],
    /// First vacant chunk, which has no class, by the units of its piece.
    vacant: [u32; UNITS_MAX + 1],
    /// Pieces whose chunk number was given to a chunk of another length, by the length of the piece in units.
    /// Empty until all chunk numbers have been used.
    orphans: Vec<Vec<ChunkPages>>,
    regions: Regions,
    /// Vacant chunks that keep their pages, oldest first.
    warm: Vec<u32>,
    warm_bytes: usize,
    bytes_used: usize,
    bytes_touched: usize,
    /// Number of chunks with a class.
    chunks_taken: usize,
    evacuation: Option<Box<Evacuation>>,
    /// The class at which the search for a sparse chunk continues.
    search_at: usize,
}

/// The memory of a chunk.
#[derive(Clone, Copy)]
struct ChunkPages(NonNull<u8>);

// SAFETY: as for `SlabChunk`.
// JUSTIFICATION: as for `SlabChunk`.
unsafe impl Send for ChunkPages {}
// SAFETY: as for `SlabChunk`.
// JUSTIFICATION: as for `SlabChunk`.
unsafe impl Sync for ChunkPages {}

impl<const CHUNK_BITS: u32, const BLOCK_BITS: u32> SlabOf<CHUNK_BITS, BLOCK_BITS> {
    /// Bytes of the largest block, head word included.
    pub const MAX_BLOCK: usize = 2040;
    /// Bytes of a block's head word, which is not part of the body.
    pub const HEAD: usize = HEAD;
    /// Number of chunks that handles can name. If more were needed, [`Slab::alloc`] returns [`SlabFull`].
    pub const CHUNKS_MAX: usize = 1 << CHUNK_BITS;
    /// Bytes of the longest chunk.
    pub const CHUNK_BYTES: usize = 1 << 20;
    /// Bytes of the shortest chunk, one of the smallest class.
    pub const CHUNK_BYTES_MIN: usize = MIN_BLOCK << BLOCK_BITS;
    const BLOCKS: usize = 1 << BLOCK_BITS;

    /// An empty slab, which allocates nothing. The first block allocates about 13 KiB for directories.
    pub const fn new() -> Self {
        const { assert!(CHUNK_BITS + BLOCK_BITS <= 32 && BLOCK_BITS >= 2 && BLOCK_BITS <= 12) };
        SlabOf { chunks: StableVec::new(), books: None, nowhere: AtomicU32::new(0) }
    }

    /// The size of the block that `alloc(size)` gives: the next multiple of 8, at least 16.
    #[inline]
    pub const fn rounded(size: usize) -> usize {
        let size = (size + 7) & !7;
        if size < MIN_BLOCK { MIN_BLOCK } else { size }
    }

    /// Hands out a block of at least `size` bytes, head word included. The head is zero; the body keeps
    /// its old contents. Constant time. If no chunk of the class has room, a new chunk is opened; this takes
    /// a system call each time that between 1 and 64 MiB of chunks have been opened.
    ///
    /// # Errors
    /// [`SlabFull`]; the slab is unchanged.
    #[inline]
    pub fn alloc(&mut self, size: usize) -> Result<Handle, SlabFull> {
        if size > Self::MAX_BLOCK {
            return Err(SlabFull);
        }
        let class = Self::rounded(size) / 8;
        let number = match self.books.as_deref().and_then(|books| books.fullest_with_room(class)) {
            Some(number) => number,
            None => self.open(class)?,
        };
        let handle = self.take(number).ok_or(SlabFull)?;
        self.head(handle).store(0, Ordering::Relaxed);
        Ok(handle)
    }

    /// Frees a block. A handle that names no block, or a block that was never handed out, is ignored; a
    /// block that is freed twice is handed out twice later.
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        let (number, block) = Self::split(handle);
        let Some(size) = self.locate(handle).map(|block| block.size) else { return };
        let Some(books) = self.books.as_deref_mut() else { return };
        let book = &mut books.rows.as_mut_slice()[number as usize];
        if block >= book.bump || book.used == 0 {
            return;
        }
        let link = std::mem::replace(&mut book.free, block);
        book.used -= 1;
        let is_empty = book.used == 0;
        let class = &mut books.classes[book.class as usize];
        class.used = class.used.saturating_sub(1);
        books.bytes_used = books.bytes_used.saturating_sub(size);
        if let Some(first) = self.body_mut(handle).first_chunk_mut::<4>() {
            *first = link.to_le_bytes();
        }
        if is_empty {
            self.retire(number);
        } else {
            self.list_again(number, block);
        }
    }

    /// The first word of the block, which is atomic because readers, too, change bits of it. Relaxed accesses
    /// suffice: the word orders no other memory.
    #[inline(always)]
    pub fn head(&self, handle: Handle) -> &AtomicU32 {
        match self.locate(handle) {
            // SAFETY: `locate` gives the start of a block of a live chunk: valid for as long as `self` is
            // borrowed, aligned to 8 (a page and multiples of 8), initialised (2); no reference to plain
            // bytes ever covers it (4).
            // JUSTIFICATION: the first touch of every entry; indexing a vector of words per chunk costs two
            // more dependent loads.
            Some(block) => unsafe { AtomicU32::from_ptr(block.at.cast()) },
            None => &self.nowhere,
        }
    }

    /// The block without its head word; empty if the handle names no block.
    #[inline(always)]
    pub fn body(&self, handle: Handle) -> &[u8] {
        match self.locate(handle) {
            // SAFETY: the `size` bytes from `at` lie in the chunk's piece (3), are initialised (2), and
            // change only through `&mut self`, since heads are left out (4).
            // JUSTIFICATION: every read of a key or value.
            Some(block) => unsafe {
                std::slice::from_raw_parts(block.at.wrapping_add(HEAD).cast_const(), block.size - HEAD)
            },
            None => &[],
        }
    }

    /// Head word and body together, with one look-up of the chunk.
    #[inline(always)]
    pub fn block(&self, handle: Handle) -> (&AtomicU32, &[u8]) {
        match self.locate(handle) {
            // SAFETY: as for `head` and for `body`, each of which covers its own part of the block.
            // JUSTIFICATION: a read of an entry needs both; locating twice costs a dozen instructions per
            // GET.
            Some(block) => unsafe {
                let body =
                    std::slice::from_raw_parts(block.at.wrapping_add(HEAD).cast_const(), block.size - HEAD);
                (AtomicU32::from_ptr(block.at.cast()), body)
            },
            None => (&self.nowhere, &[]),
        }
    }

    /// Head word, and body for writing, with one look-up of the chunk.
    #[inline(always)]
    pub fn block_mut(&mut self, handle: Handle) -> (&AtomicU32, &mut [u8]) {
        match self.locate(handle) {
            // SAFETY: as for `head` and for `body_mut`, each of which covers its own part of the block.
            // JUSTIFICATION: an overwrite needs both; locating four times costs 60 instructions per SET.
            Some(block) => unsafe {
                let body = std::slice::from_raw_parts_mut(block.at.wrapping_add(HEAD), block.size - HEAD);
                (AtomicU32::from_ptr(block.at.cast()), body)
            },
            None => (&self.nowhere, &mut []),
        }
    }

    /// The block without its head word, for writing; empty if the handle names no block.
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

    /// Bytes of the block, head word included; 0 if the handle names no block.
    #[inline(always)]
    pub fn block_size(&self, handle: Handle) -> usize {
        self.locate(handle).map_or(0, |block| block.size)
    }

    /// Prefetches the block's first cache line, and its second if it has one.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        if let Some(block) = self.locate(handle) {
            arch::prefetch(block.at);
            if block.at.addr() % LINE + block.size > LINE {
                arch::prefetch(block.at.wrapping_add(LINE));
            }
        }
    }

    /// Blocks handed out and not freed. Cost: one step for each size class.
    #[cfg(test)]
    pub(crate) fn blocks_used(&self) -> usize {
        self.books.as_deref().map_or(0, |books| books.classes.iter().map(|class| class.used).sum())
    }

    /// Bytes of the blocks handed out and not freed. To get the memory in use, an owner adds them to the
    /// allocator's figure, which does not include the slab's regions. Freeing a block lowers the number at
    /// once. O(1).
    #[inline]
    pub fn bytes_used(&self) -> usize {
        self.books.as_deref().map_or(0, |books| books.bytes_used)
    }

    /// Bytes of chunks that were handed out at least once and whose pages were not given back since:
    /// approximately the resident bytes. A page that was handed out in part counts in part. O(1).
    pub fn bytes_touched(&self) -> usize {
        self.books.as_deref().map_or(0, |books| books.bytes_touched)
    }

    /// Bytes that are resident and hold no block: free blocks below the highest one handed out, and
    /// empty chunks that keep their pages. An owner adds this number to the allocator's fragmentation. O(1).
    #[cfg(test)]
    pub(crate) fn bytes_free(&self) -> usize {
        self.bytes_touched().saturating_sub(self.bytes_used())
    }

    /// Bytes of address space reserved for chunks, resident or not. O(1).
    #[cfg(test)]
    pub(crate) fn bytes_reserved(&self) -> usize {
        self.books.as_deref().map_or(0, |books| books.regions.reserved())
    }

    /// Bytes of directories and lists. Those of a small slab come from the allocator, whose figure
    /// includes them already. O(1), except in a slab that has used every chunk number.
    pub fn bytes_directories(&self) -> usize {
        let Some(books) = self.books.as_deref() else { return 0 };
        let orphans: usize = books.orphans.iter().map(|list| list.capacity() * size_of::<ChunkPages>()).sum();
        let evacuation = if books.evacuation.is_some() { size_of::<Evacuation>() } else { 0 };
        size_of::<Books>()
            + self.chunks.bytes()
            + books.rows.bytes()
            + books.regions.list_bytes()
            + orphans
            + evacuation
    }

    /// Number of chunks with a class, of at most [`Slab::CHUNKS_MAX`]. O(1).
    #[inline]
    pub fn chunks_taken(&self) -> usize {
        self.books.as_deref().map_or(0, |books| books.chunks_taken)
    }

    /// Counts of the classes that have a chunk, smallest block first. Cost: one step for each chunk.
    pub fn stats(&self) -> Vec<ClassStats> {
        let Some(books) = self.books.as_deref() else { return Vec::new() };
        let mut classes = [ClassStats::default(); CLASSES];
        for (number, book) in books.rows.as_slice().iter().enumerate().filter(|(_, book)| book.class != 0) {
            let class = &mut classes[book.class as usize];
            class.block_size = book.class as usize * 8;
            class.chunks += 1;
            class.blocks_used += book.used as usize;
            // Block 0 of chunk 0 is not counted, because handle 0 does not exist.
            class.blocks_touched += book.bump as usize - usize::from(number == 0);
        }
        classes.into_iter().filter(|class| class.chunks != 0).collect()
    }

    /// How many chunk numbers have been assigned so far, to chunks that have a class or once had one. O(1).
    #[inline]
    pub fn chunk_numbers(&self) -> u32 {
        self.chunks.as_slice().len() as u32
    }

    /// The blocks of a chunk that are not handed out; `None` if the chunk does not exist or has no
    /// class. Cost: one step for each block that was handed out and freed.
    pub fn unused_blocks(&self, number: u32) -> Option<BlockBits> {
        let book =
            self.books.as_deref()?.rows.as_slice().get(number as usize).filter(|book| book.class != 0)?;
        let mut unused = BlockBits::EMPTY;
        unused.add_from(book.bump);
        if number == 0 {
            // Block 0 of chunk 0 is never handed out, because handle 0 does not exist.
            unused.add(0);
        }
        let mut free = book.free;
        // The bound ends the loop even if a caller has overwritten a link and made the list circular.
        for _ in 0..book.bump {
            if free == NONE {
                break;
            }
            unused.add(free);
            free = self.link_of(number, free, book.bump);
        }
        Some(unused)
    }

    /// Chunk number and block number of a handle.
    #[inline]
    pub fn chunk_and_block(handle: Handle) -> (u32, u32) {
        Self::split(handle)
    }

    /// The handle of a block of a chunk; `None` for block 0 of chunk 0 (handle 0 does not exist), and for a
    /// chunk or block number that no handle can have.
    #[inline]
    pub fn handle_at(number: u32, block: u32) -> Option<Handle> {
        if block as usize >= Self::BLOCKS || number as usize >= Self::CHUNKS_MAX {
            return None;
        }
        Self::join(number, block)
    }

    /// Frees everything. After this, no handle names a block until its number is handed out again. Cost: the
    /// system takes every page back. To move that cost to another thread, drop the slab there instead.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Chunk number and block number of a handle.
    #[inline(always)]
    const fn split(handle: Handle) -> (u32, u32) {
        (handle.0.get() >> BLOCK_BITS, handle.0.get() & (Self::BLOCKS as u32 - 1))
    }

    /// The handle of a block; `None` for block 0 of chunk 0.
    #[inline(always)]
    fn join(number: u32, block: u32) -> Option<Handle> {
        Handle::from_raw(number << BLOCK_BITS | block)
    }

    /// The block that `handle` names, by invariant (3).
    #[inline(always)]
    fn locate(&self, handle: Handle) -> Option<LiveBlock> {
        let (number, block) = Self::split(handle);
        let chunk = self.chunks.as_slice().get(number as usize)?;
        if block >= chunk.count {
            return None;
        }
        let size = chunk.size as usize;
        Some(LiveBlock { at: chunk.base.as_ptr().wrapping_add(block as usize * size), size })
    }

    /// Takes a block from a chunk that should have room; `None` if it has none.
    #[inline]
    fn take(&mut self, number: u32) -> Option<Handle> {
        let count = self.chunks.as_slice()[number as usize].count;
        let books = self.books.as_deref()?;
        let book = books.rows.as_slice()[number as usize];
        let (block, next) = match book.free {
            NONE if book.bump >= count => return None,
            NONE => (book.bump, NONE),
            free => (free, self.link_of(number, free, book.bump)),
        };
        let books = self.books.as_deref_mut()?;
        let book = &mut books.rows.as_mut_slice()[number as usize];
        let size = u32::from(book.class) * 8;
        if block == book.bump {
            book.bump += 1;
            let grown = (book.bump * size).saturating_sub(book.touched);
            book.touched += grown;
            books.bytes_touched += grown as usize;
        }
        book.free = next;
        book.used = book.used.saturating_add(1);
        books.classes[book.class as usize].used += 1;
        books.bytes_used += size as usize;
        self.list_again(number, NONE);
        Self::join(number, block)
    }

    /// The free block after `block`, or `NONE` if the link is not a block below `bump` (invariant 5).
    #[inline]
    fn link_of(&self, number: u32, block: u32, bump: u32) -> u32 {
        let Some(handle) = Self::join(number, block) else { return NONE };
        let Some(link) = self.body(handle).first_chunk::<4>() else { return NONE };
        let link = u32::from_le_bytes(*link);
        if link < bump && (number | link) != 0 { link } else { NONE }
    }

    /// Moves the chunk to the list of its quarter, or to no list if it is full. `freed` is the block just
    /// freed (`NONE` after an allocation). If compaction is emptying the chunk, the function only marks this
    /// block.
    #[inline]
    fn list_again(&mut self, number: u32, freed: u32) {
        let count = self.chunks.as_slice()[number as usize].count;
        let Some(books) = self.books.as_deref_mut() else { return };
        let book = &books.rows.as_slice()[number as usize];
        let has_room = book.free != NONE || book.bump < count;
        let quarter = if has_room { quarter_of(book.used, book.scale) } else { UNLISTED };
        if quarter == book.quarter {
            return;
        }
        if book.quarter == EVACUATING {
            return books.note_freed(freed);
        }
        books.unlist(number);
        books.list(number, quarter);
    }

    /// Opens an empty chunk for blocks of `class` times eight bytes, and lists it.
    #[cold]
    #[inline(never)]
    fn open(&mut self, class: usize) -> Result<u32, SlabFull> {
        let count = Self::BLOCKS.min(Self::CHUNK_BYTES / (class * 8));
        let books = self.books.get_or_insert_with(Books::new);
        let units = units_of(count * class * 8);
        let number = match books.vacant[units] {
            NONE => self.map(units)?,
            number => number,
        };
        let Some(books) = self.books.as_deref_mut() else { return Err(SlabFull) };
        books.occupy(number);
        let chunk = &mut self.chunks.as_mut_slice()[number as usize];
        (chunk.size, chunk.count) = (class as u32 * 8, count as u32);
        let book = &mut books.rows.as_mut_slice()[number as usize];
        // Chunk 0 begins with block 1, because handle 0 does not exist.
        let first = u32::from(number == 0);
        *book = Book {
            bump: first,
            scale: (4u32 << SCALE_BITS).div_ceil(count as u32),
            class: class as u8,
            touched: book.touched,
            units: book.units,
            ..Book::VACANT
        };
        books.classes[class].chunks += 1;
        books.classes[class].blocks += count - first as usize;
        books.chunks_taken += 1;
        books.list(number, QUARTERS as u8 - 1);
        Ok(number)
    }

    /// Creates a vacant chunk with a piece of `units` and puts it first in its list. The chunk gets a new
    /// number or, once every number is in use, that of a vacant chunk of another length.
    fn map(&mut self, units: usize) -> Result<u32, SlabFull> {
        let Some(books) = self.books.as_deref_mut() else { return Err(SlabFull) };
        let number = books.rows.as_slice().len();
        if number == Self::CHUNKS_MAX {
            return self.map_again(units);
        }
        let base = books.piece(units).ok_or(SlabFull)?;
        let chunk = SlabChunk { base, size: 0, count: 0 };
        // The chunk's record may exist already, if the last call of `map` could store the record but not its
        // `Book`.
        match self.chunks.as_mut_slice().get_mut(number) {
            Some(record) => *record = chunk,
            None => self.chunks.push(chunk, Self::CHUNKS_MAX).ok_or(SlabFull)?,
        }
        let book = Book { units: units as u8, next: books.vacant[units], ..Book::VACANT };
        books.rows.push(book, Self::CHUNKS_MAX).ok_or(SlabFull)?;
        books.vacant[units] = number as u32;
        Ok(number as u32)
    }

    /// The part of `map` for a slab without a free number. A vacant chunk of another length gets another
    /// piece.
    #[cold]
    fn map_again(&mut self, units: usize) -> Result<u32, SlabFull> {
        let Some(books) = self.books.as_deref_mut() else { return Err(SlabFull) };
        let other = (1..=UNITS_MAX).find(|&other| books.vacant[other] != NONE).ok_or(SlabFull)?;
        let base = books.piece(units).ok_or(SlabFull)?;
        let number = books.vacant[other];
        books.occupy(number);
        self.cool(number);
        let record = &mut self.chunks.as_mut_slice()[number as usize];
        let old = std::mem::replace(record, SlabChunk { base, size: 0, count: 0 });
        let Some(books) = self.books.as_deref_mut() else { return Err(SlabFull) };
        books.orphan(other, ChunkPages(old.base));
        books.rows.as_mut_slice()[number as usize] =
            Book { units: units as u8, next: books.vacant[units], ..Book::VACANT };
        books.vacant[units] = number;
        Ok(number)
    }

    /// Makes an empty chunk vacant. Its pages are kept for a while, or given back at once.
    #[cold]
    #[inline(never)]
    fn retire(&mut self, number: u32) {
        let chunk = &mut self.chunks.as_mut_slice()[number as usize];
        let count = std::mem::take(&mut chunk.count) as usize;
        chunk.size = 0;
        let Some(books) = self.books.as_deref_mut() else { return };
        books.unlist(number);
        let is_evacuated = books.evacuation.as_ref().is_some_and(|evacuation| evacuation.is_of(number));
        let book = &mut books.rows.as_mut_slice()[number as usize];
        let class = &mut books.classes[book.class as usize];
        class.chunks -= 1;
        class.blocks -= count - usize::from(number == 0);
        books.chunks_taken -= 1;
        (book.class, book.quarter, book.is_pinned) = (0, UNLISTED, false);
        book.next = std::mem::replace(&mut books.vacant[book.units as usize], number);
        if is_evacuated {
            // Compaction has emptied the chunk to regain its pages, so they are given back at once.
            books.evacuation = None;
            return self.cool(number);
        }
        books.warm_bytes += book.touched as usize;
        books.warm.push(number);
        // The newest vacant chunk keeps its pages. Otherwise a class that opens and empties a chunk again and
        // again would ask the system for pages each time.
        while let Some(oldest) = self.books.as_deref_mut().and_then(Books::surplus) {
            self.cool(oldest);
        }
    }

    /// Gives the pages of a vacant chunk back to the system.
    fn cool(&mut self, number: u32) {
        let Some(books) = self.books.as_deref_mut() else { return };
        let base = self.chunks.as_slice()[number as usize].base;
        let touched = std::mem::take(&mut books.rows.as_mut_slice()[number as usize].touched) as usize;
        books.bytes_touched -= touched;
        if touched > 0 {
            // SAFETY: `base` is the start of a piece that `regions` carved, at least `touched` bytes
            // long, since no block of the chunk ended beyond its piece (3). `&mut self` says that no
            // reference into it exists.
            // JUSTIFICATION: the only way to give pages back; see `memory.rs`.
            unsafe { books.regions.give_back(base, touched) };
        }
    }
}

impl<const CHUNK_BITS: u32, const BLOCK_BITS: u32> Default for SlabOf<CHUNK_BITS, BLOCK_BITS> {
    fn default() -> Self {
        Self::new()
    }
}

impl Books {
    fn new() -> Box<Books> {
        let class = SizeClass { rooms: [NONE; QUARTERS], chunks: 0, blocks: 0, used: 0 };
        Box::new(Books {
            rows: StableVec::new(),
            classes: [class; CLASSES],
            vacant: [NONE; UNITS_MAX + 1],
            orphans: Vec::new(),
            regions: Regions::new(),
            warm: Vec::new(),
            warm_bytes: 0,
            bytes_used: 0,
            bytes_touched: 0,
            chunks_taken: 0,
            evacuation: None,
            search_at: 0,
        })
    }

    #[inline]
    fn fullest_with_room(&self, class: usize) -> Option<u32> {
        self.classes[class].rooms.iter().copied().find(|&number| number != NONE)
    }

    fn list(&mut self, number: u32, quarter: u8) {
        let rows = self.rows.as_mut_slice();
        let book = &mut rows[number as usize];
        book.quarter = quarter;
        if quarter == UNLISTED {
            return;
        }
        let first = &mut self.classes[book.class as usize].rooms[quarter as usize];
        let next = std::mem::replace(first, number);
        (book.prev, book.next) = (NONE, next);
        if next != NONE {
            rows[next as usize].prev = number;
        }
    }

    fn unlist(&mut self, number: u32) {
        let rows = self.rows.as_mut_slice();
        let Book { class, prev, next, quarter, .. } = rows[number as usize];
        rows[number as usize].quarter = UNLISTED;
        if quarter as usize >= QUARTERS {
            return;
        }
        match prev {
            NONE => self.classes[class as usize].rooms[quarter as usize] = next,
            prev => rows[prev as usize].next = next,
        }
        if next != NONE {
            rows[next as usize].prev = prev;
        }
    }

    /// Removes the first chunk of a list of vacant chunks from the list.
    fn occupy(&mut self, number: u32) {
        let book = self.rows.as_slice()[number as usize];
        debug_assert_eq!(self.vacant[book.units as usize], number);
        self.vacant[book.units as usize] = book.next;
        if let Some(at) = self.warm.iter().position(|&warm| warm == number) {
            self.warm.remove(at);
            self.warm_bytes -= book.touched as usize;
        }
    }

    /// The vacant chunk that has kept its pages for longest, if it must give them back now.
    fn surplus(&mut self) -> Option<u32> {
        let is_surplus = self.warm.len() > WARM_CHUNKS || self.warm.len() > 1 && self.warm_bytes > WARM_BYTES;
        if !is_surplus {
            return None;
        }
        let oldest = self.warm.remove(0);
        self.warm_bytes -= self.rows.as_slice()[oldest as usize].touched as usize;
        Some(oldest)
    }

    /// Memory for a chunk: an orphaned piece, or a new one.
    fn piece(&mut self, units: usize) -> Option<NonNull<u8>> {
        let orphan = self.orphans.get_mut(units).and_then(Vec::pop);
        orphan.map(|piece| piece.0).or_else(|| self.regions.carve(units * UNIT))
    }

    /// Keeps a piece that no longer has a chunk number.
    fn orphan(&mut self, units: usize, piece: ChunkPages) {
        if self.orphans.is_empty() {
            self.orphans = vec![Vec::new(); UNITS_MAX + 1];
        }
        self.orphans[units].push(piece);
    }
}

impl Book {
    const VACANT: Book = Book {
        used: 0,
        bump: 0,
        free: NONE,
        prev: NONE,
        next: NONE,
        scale: 0,
        touched: 0,
        quarter: UNLISTED,
        class: 0,
        units: 0,
        is_pinned: false,
    };
}

/// An existing block: its start, aligned to 8, and its bytes.
#[derive(Clone, Copy)]
struct LiveBlock {
    at: *mut u8,
    size: usize,
}

/// The quarter of a chunk's occupancy: 0 for the fullest, which is searched first.
#[inline(always)]
fn quarter_of(used: u32, scale: u32) -> u8 {
    let quarter = (used.wrapping_mul(scale) >> SCALE_BITS).min(QUARTERS as u32 - 1);
    (QUARTERS as u32 - 1 - quarter) as u8
}

/// Units of a piece for a chunk of `bytes` bytes.
const fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

const HEAD: usize = size_of::<AtomicU32>();
const MIN_BLOCK: usize = 16;
const LINE: usize = 64;
/// Classes by the bytes of a block divided by eight; those below `MIN_BLOCK` are not used.
const CLASSES: usize = Slab::MAX_BLOCK / 8 + 1;
const _: () = assert!(CLASSES <= 1 << u8::BITS, "a chunk's class is a byte");
/// Pieces of memory are multiples of this: 4,096 blocks of 16 bytes, and the longest page of any system.
const UNIT: usize = 64 << 10;
const UNITS_MAX: usize = units_of(Slab::CHUNK_BYTES);
const QUARTERS: usize = 4;
const UNLISTED: u8 = u8::MAX;
const EVACUATING: u8 = u8::MAX - 1;
const NONE: u32 = u32::MAX;
/// Fraction bits of `Book::scale`. `used * scale` stays below 2^19, because `used` is at most `count`.
const SCALE_BITS: u32 = 16;
/// At most this many vacant chunks keep their pages, which is enough for a few classes that open and empty a
/// chunk again and again.
const WARM_CHUNKS: usize = 8;
/// Vacant chunks keep pages of at most this many bytes. The newest chunk keeps its pages in any case.
const WARM_BYTES: usize = 2 << 20;

const _: () = assert!(size_of::<SlabChunk>() == 16 || size_of::<usize>() != 8);
const _: () = assert!(size_of::<Slab>() <= 40);

#[cfg(test)]
mod tests;

//! A leaf: a chunk, a string that is too long for a chunk, or a compressed chunk.

mod edit;

use sluice_base::{Bytes, lzf};
use sluice_collections::listpack::{Element, entry};
use triomphe::{Arc, HeaderSlice};

use super::chunk::{CAPACITY_MAX, Chunk, End, OVERHEAD, Room, row_listpack_bytes};

/// Consecutive elements of a list in one allocation.
#[derive(Clone, Debug)]
pub(super) enum Leaf {
    Chunk(Chunk),
    /// One string that is longer than `ListLimits::element_max` lets a chunk hold.
    Large(Bytes),
    /// A compressed chunk. Readers decompress it into their own buffer.
    Compressed(Compressed),
}

/// The row of a chunk (the bytes of its elements, see `chunk.rs`), compressed.
#[derive(Clone, Debug)]
pub(super) struct Compressed(Arc<HeaderSlice<LeafShape, [u8]>>);

/// What is needed to read the row once it is decompressed.
#[derive(Clone, Copy, Debug)]
struct LeafShape {
    row_len: u16,
    count: u16,
    uniform: u16,
}

impl Compressed {
    /// Compresses a chunk; `None` if its row is short, or if compression saves too few bytes.
    fn of(chunk: &Chunk) -> Option<Compressed> {
        let row = chunk.row();
        if row.len() < COMPRESSED_FROM {
            return None;
        }
        let small = lzf::compress(row, row.len() - COMPRESSION_GAIN)?;
        let shape = LeafShape {
            row_len: row.len() as u16,
            count: chunk.count() as u16,
            uniform: chunk.uniform() as u16,
        };
        Some(Compressed(Arc::from_header_and_slice(shape, &small)))
    }

    /// Decompresses the row into `scratch`, whose old contents are replaced.
    pub(super) fn read_into(&self, scratch: &mut Vec<u8>) {
        let read = lzf::decompress_into(&self.0.slice, usize::from(self.0.header.row_len), scratch);
        assert!(read.is_some(), "what was compressed here is read here");
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.0.header.count)
    }

    pub(super) fn uniform(&self) -> usize {
        usize::from(self.0.header.uniform)
    }

    fn chunk(&self) -> Chunk {
        let mut row = Vec::new();
        self.read_into(&mut row);
        Chunk::of_row(&row, self.count(), self.uniform())
    }
}

/// Rows of fewer bytes are not compressed.
const COMPRESSED_FROM: usize = 48;
/// Bytes that compression must save.
const COMPRESSION_GAIN: usize = 8;

/// Sums over one leaf, or over all leaves of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeafSums {
    /// Number of leaves.
    pub(super) leaves: usize,
    /// Number of elements.
    pub(super) count: usize,
    /// Bytes of the elements as listpack entries.
    pub(super) listpack: usize,
    /// Bytes that the leaves take from the allocator.
    pub(super) heap: usize,
}

impl LeafSums {
    pub(super) fn plus(self, other: LeafSums) -> LeafSums {
        LeafSums {
            leaves: self.leaves + other.leaves,
            count: self.count + other.count,
            listpack: self.listpack + other.listpack,
            heap: self.heap + other.heap,
        }
    }
}

impl Leaf {
    /// A leaf of one element, which is a chunk if the element has at most `element_max` bytes. The chunk has
    /// space for at least `room` bytes of elements, this one included; the rest of the space is for growth at
    /// `end`.
    pub(super) fn of(value: &[u8], element_max: usize, end: End, room: usize) -> Leaf {
        if value.len() > element_max {
            return Leaf::Large(Bytes::copy_from(value));
        }
        let element = Element::of(value);
        let mut chunk = Chunk::empty(room.max(entry::len(element)));
        let all = Room { bytes: CAPACITY_MAX, count: usize::MAX };
        let pushed = chunk.push(end, element, all, &mut |_| {});
        assert!(pushed, "a chunk made for an element has room for it");
        Leaf::Chunk(chunk)
    }

    /// Whether the leaf has another owner.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Leaf::Chunk(chunk) => chunk.is_shared(),
            Leaf::Large(bytes) => bytes.is_shared(),
            Leaf::Compressed(small) => !small.0.is_unique(),
        }
    }

    /// Bytes allocated that have no other owner.
    pub(super) fn own_bytes(&self) -> usize {
        if self.is_shared() { 0 } else { self.sums().heap }
    }

    /// The sums of this leaf alone. O(1).
    pub(super) fn sums(&self) -> LeafSums {
        match self {
            Leaf::Chunk(chunk) => LeafSums {
                leaves: 1,
                count: chunk.count(),
                listpack: chunk.listpack_bytes(),
                heap: chunk.capacity() + OVERHEAD,
            },
            Leaf::Large(bytes) => LeafSums {
                leaves: 1,
                count: 1,
                listpack: entry::string_len(bytes.len()),
                heap: 40 + bytes.capacity(),
            },
            Leaf::Compressed(small) => LeafSums {
                leaves: 1,
                count: small.count(),
                listpack: row_listpack_bytes(
                    usize::from(small.0.header.row_len),
                    small.count(),
                    small.uniform(),
                ),
                heap: 8 + size_of::<LeafShape>() + small.0.slice.len(),
            },
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        match self {
            Leaf::Chunk(chunk) => chunk.count(),
            Leaf::Large(_) => 1,
            Leaf::Compressed(small) => small.count(),
        }
    }

    /// Whether the leaf is a compressed chunk.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self, Leaf::Compressed(_))
    }
}

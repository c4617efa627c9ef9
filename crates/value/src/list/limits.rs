//! The thresholds of lists, and the encoding that is reported.

use super::chunk::{CAPACITY_MAX, CHUNK_BYTES, OVERHEAD, Room};

/// What OBJECT ENCODING answers for a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListEncoding {
    /// Small enough for one listpack.
    #[default]
    Listpack,
    /// A list of listpacks.
    Quicklist,
}

impl ListEncoding {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ListEncoding::Listpack => "listpack",
            ListEncoding::Quicklist => "quicklist",
        }
    }
}

/// What the configuration says about lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// `list-max-listpack-size`: -1 to -5 for 4, 8, 16, 32 and 64 KiB, positive for a number of elements.
    pub max_listpack_size: i32,
    /// `list-compress-depth`: how many nodes at either end are not compressed; 0 compresses none.
    pub compress_depth: u32,
}

impl Default for ListLimits {
    fn default() -> ListLimits {
        ListLimits { max_listpack_size: -2, compress_depth: 0 }
    }
}

impl ListLimits {
    /// Bytes that a node may have, listpack header included; the most there are where elements are counted.
    pub(super) fn node_bytes(self) -> usize {
        match self.max_listpack_size {
            0.. => usize::MAX,
            class => NODE_BYTES[(class.unsigned_abs() as usize - 1).min(NODE_BYTES.len() - 1)],
        }
    }

    /// Elements that a node may have.
    fn node_count(self) -> usize {
        match self.max_listpack_size {
            0 => 1,
            count @ 1.. => count as usize,
            _ => usize::MAX,
        }
    }

    /// Whether a listpack of so many bytes and elements is too large.
    pub(super) fn exceeded_by(self, bytes: usize, count: usize) -> bool {
        match self.max_listpack_size {
            0.. => bytes > COUNTED_BYTES_MAX || count > self.node_count(),
            _ => bytes > self.node_bytes(),
        }
    }

    /// Whether a node of so many bytes and elements is at most half of what is allowed.
    pub(super) fn allows_half(self, bytes: usize, count: usize) -> bool {
        bytes <= self.node_bytes() / 2 && count <= self.node_count() / 2
    }

    /// How large a chunk may get.
    pub(super) fn room(self) -> Room {
        let bytes = self.node_bytes().min(CHUNK_BYTES) - OVERHEAD;
        Room { bytes: bytes.min(CAPACITY_MAX), count: self.node_count() }
    }
}

/// Sizes of nodes for -1 to -5.
const NODE_BYTES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
/// A listpack whose elements are counted may not get larger than this either.
const COUNTED_BYTES_MAX: usize = 8192;

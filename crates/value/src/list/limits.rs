//! The thresholds of lists, and the reported encoding.

use super::chunk::{CAPACITY_MAX, CHUNK_BYTES, ELEMENT_MAX, OVERHEAD, Room};

/// The encoding that OBJECT ENCODING reports for a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListEncoding {
    /// Small enough for one listpack.
    #[default]
    Listpack,
    /// A list of listpacks.
    Quicklist,
}

impl ListEncoding {
    /// The name that OBJECT ENCODING replies.
    pub fn name(self) -> &'static str {
        match self {
            ListEncoding::Listpack => "listpack",
            ListEncoding::Quicklist => "quicklist",
        }
    }
}

/// The configuration of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// `list-max-listpack-size`: -1 to -5 for 4, 8, 16, 32 and 64 KiB, positive for a number of elements; 0
    /// counts as 1.
    pub max_listpack_size: i32,
    /// `list-compress-depth`: how many nodes at either end are not compressed; 0 compresses none.
    pub compress_depth: u32,
    /// DEBUG QUICKLIST-PACKED-THRESHOLD: an element of at least this many bytes gets a quicklist node of
    /// its own. 0: only an element that is larger than a node gets one.
    pub packed_threshold: usize,
}

impl Default for ListLimits {
    fn default() -> ListLimits {
        ListLimits { max_listpack_size: -2, compress_depth: 0, packed_threshold: 0 }
    }
}

impl ListLimits {
    /// Bytes that a node may have, listpack header included. If nodes are limited by a number of elements,
    /// this is the largest possible value.
    pub(super) fn node_bytes(self) -> usize {
        match self.max_listpack_size {
            0.. => usize::MAX,
            class => NODE_BYTES[(class.unsigned_abs() as usize - 1).min(NODE_BYTES.len() - 1)],
        }
    }

    /// Maximum number of elements of a node.
    fn node_count(self) -> usize {
        match self.max_listpack_size {
            0 => 1,
            count @ 1.. => count as usize,
            _ => usize::MAX,
        }
    }

    /// Whether a listpack of this many bytes and elements is too large.
    pub(super) fn exceeded_by(self, bytes: usize, count: usize) -> bool {
        match self.max_listpack_size {
            0.. => bytes > COUNTED_BYTES_MAX || count > self.node_count(),
            _ => bytes > self.node_bytes(),
        }
    }

    /// Whether the reference keeps an element of `len` bytes in a node of its own, which is no listpack.
    pub(super) fn is_plain(self, len: usize) -> bool {
        match (self.packed_threshold, self.max_listpack_size) {
            (0, 0..) => len > COUNTED_BYTES_MAX,
            (0, _) => len > self.node_bytes(),
            (threshold, _) => len >= threshold,
        }
    }

    /// Bytes of the largest element that goes into a chunk.
    #[inline]
    pub(super) fn element_max(self, encoding: ListEncoding) -> usize {
        match encoding {
            ListEncoding::Quicklist if self.packed_threshold > 0 => {
                ELEMENT_MAX.min(self.packed_threshold - 1)
            }
            ListEncoding::Quicklist | ListEncoding::Listpack => ELEMENT_MAX,
        }
    }

    /// Whether a node of this many bytes and elements is at most half of the allowed size.
    pub(super) fn allows_half(self, bytes: usize, count: usize) -> bool {
        bytes <= self.node_bytes() / 2 && count <= self.node_count() / 2
    }

    /// The limits of a chunk's size.
    pub(super) fn room(self) -> Room {
        let bytes = self.node_bytes().min(CHUNK_BYTES) - OVERHEAD;
        Room { bytes: bytes.min(CAPACITY_MAX), count: self.node_count() }
    }
}

/// Maximum bytes of a node for the values -1 to -5 of `list-max-listpack-size`.
const NODE_BYTES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
/// The most bytes of a listpack if nodes are limited by a number of elements.
const COUNTED_BYTES_MAX: usize = 8192;

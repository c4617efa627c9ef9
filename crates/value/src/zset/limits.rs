//! The thresholds of sorted sets, and the reported encoding.

/// The encoding that OBJECT ENCODING reports for a sorted set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZsetEncoding {
    /// Small enough for one listpack.
    #[default]
    Listpack,
    /// Any other sorted set. Named `skiplist` after the reference, as clients expect.
    Skiplist,
}

/// The configuration of sorted sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZsetLimits {
    /// `zset-max-listpack-entries`: maximum number of elements in a listpack.
    pub entries_max: usize,
    /// `zset-max-listpack-value`: maximum length in bytes of a member in a listpack.
    pub value_max: usize,
}

impl Default for ZsetLimits {
    fn default() -> ZsetLimits {
        ZsetLimits { entries_max: 128, value_max: 64 }
    }
}

impl ZsetLimits {
    /// The encoding of a sorted set of `count` elements whose longest member has `member_len` bytes.
    pub fn encoding_for(self, count: usize, member_len: usize) -> ZsetEncoding {
        let fits =
            count <= self.entries_max && member_len <= self.value_max && member_len <= LISTPACK_BYTES_MAX;
        if fits { ZsetEncoding::Listpack } else { ZsetEncoding::Skiplist }
    }
}

/// The most bytes of a listpack, so that its size fits the 32 bits of its header.
pub(super) const LISTPACK_BYTES_MAX: usize = 1 << 30;

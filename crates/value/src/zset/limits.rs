//! The thresholds of sorted sets, and the encoding that is reported.

/// What OBJECT ENCODING answers for a sorted set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZsetEncoding {
    /// Small enough for one listpack.
    #[default]
    Listpack,
    /// Anything else. The reference calls it `skiplist`, and so do clients.
    Skiplist,
}

/// What the configuration says about sorted sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZsetLimits {
    /// `zset-max-listpack-entries`.
    pub entries_max: usize,
    /// `zset-max-listpack-value`: bytes of a member.
    pub value_max: usize,
}

impl Default for ZsetLimits {
    fn default() -> ZsetLimits {
        ZsetLimits { entries_max: 128, value_max: 64 }
    }
}

impl ZsetLimits {
    /// The encoding of a sorted set of so many elements, the longest member of which has so many bytes.
    pub fn encoding_for(self, count: usize, member_len: usize) -> ZsetEncoding {
        let fits =
            count <= self.entries_max && member_len <= self.value_max && member_len <= LISTPACK_BYTES_MAX;
        if fits { ZsetEncoding::Listpack } else { ZsetEncoding::Skiplist }
    }
}

/// A listpack of more bytes is never made: its header has no room for many more.
pub(super) const LISTPACK_BYTES_MAX: usize = 1 << 30;

//! The storage of a database, without the tables that find entries: entries, and the values and keys
//! outside their blocks.

use super::cut::Cut;
use super::walk::SlotWalk;
use crate::collection::Scratch;
use crate::entry::{self, Name};
use crate::hasher::KeyHasher;
use sluice_collections::slab::{Handle, Slab, TypedSlab};
use sluice_value::Value;

/// Blocks, large values and large keys of one database.
pub(crate) struct Store {
    pub(super) slab: Slab,
    pub(super) values: TypedSlab<Value>,
    pub(super) keys: TypedSlab<Box<[u8]>>,
    /// Bytes of `values` and `keys`.
    pub(super) outside_bytes: usize,
    /// Collections whose memory is reused.
    pub(super) scratch: Scratch,
    /// Indexes in `values` of sorted sets that held memory of removed elements
    /// ([`sluice_value::Zset::has_remains`]) when they were noted.
    pub(super) zsets_with_remains: Vec<u32>,
    /// Parts of these sets that were replaced when their memory was released; another thread frees the
    /// parts.
    pub(super) remains: Vec<Value>,
    /// The open cut, if any.
    pub(super) cut: Option<Box<Cut>>,
    /// The walk over a slot in progress, if any.
    pub(super) walk: Option<Box<SlotWalk>>,
    /// Whether a cut is open or a walk in progress, so entries may have to be captured before a change.
    pub(super) is_watched: bool,
    pub(super) hasher: KeyHasher,
}

impl Store {
    pub(super) fn new(hasher: KeyHasher) -> Store {
        Store {
            slab: Slab::new(),
            values: TypedSlab::new(),
            keys: TypedSlab::new(),
            outside_bytes: 0,
            scratch: Scratch::default(),
            zsets_with_remains: Vec::new(),
            remains: Vec::new(),
            cut: None,
            walk: None,
            is_watched: false,
            hasher,
        }
    }

    /// Notes that a cut or a walk has begun or ended.
    pub(super) fn look_for_watchers(&mut self) {
        self.is_watched = self.cut.is_some() || self.walk.is_some();
    }

    /// The key of an entry.
    #[inline]
    pub(super) fn key(&self, handle: Handle) -> &[u8] {
        self.key_in(self.slab.body(handle))
    }

    /// The key of the entry with this body.
    #[inline]
    pub(super) fn key_in<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match entry::name_of(body) {
            Name::Inside(key) => key,
            Name::Outside(index) => self.keys.get(index).expect("a key that an entry names is there (2)"),
        }
    }

    /// The hash of an entry's key without the slot, which is enough for an index.
    #[inline]
    pub(super) fn rehash(&self, handle: Handle) -> u64 {
        self.hasher.hash_without_slot(self.key(handle))
    }
}

/// Memory of the entries' chunks. This memory is mapped from the system directly, so the allocator's
/// figures do not include it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkMemory {
    /// Bytes of the entries.
    pub used_bytes: usize,
    /// Bytes that hold entries, or have held some since their pages were last returned to the system.
    /// This is roughly the number of resident bytes.
    pub touched_bytes: usize,
}

impl ChunkMemory {
    /// The field-wise sum of `self` and `other`.
    pub fn plus(self, other: ChunkMemory) -> ChunkMemory {
        ChunkMemory {
            used_bytes: self.used_bytes + other.used_bytes,
            touched_bytes: self.touched_bytes + other.touched_bytes,
        }
    }
}

//! What a database stores, apart from the tables that find it: entries, and the values and keys that lie
//! outside of them.

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
    /// Memory of collections that is used again.
    pub(super) scratch: Scratch,
    /// Numbers of values that were sorted sets with remains: [`sluice_value::Zset::has_remains`].
    pub(super) zsets_with_remains: Vec<u32>,
    /// What clearing them has replaced, to be freed elsewhere.
    pub(super) remains: Vec<Value>,
    /// The cut that is open.
    pub(super) cut: Option<Box<Cut>>,
    /// The walk over a slot that is under way.
    pub(super) walk: Option<Box<SlotWalk>>,
    /// A cut is open or a walk under way: somebody wants to see entries as they are ahead of a change.
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

    /// The key of the entry whose body this is.
    #[inline]
    pub(super) fn key_in<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match entry::name_of(body) {
            Name::Inside(key) => key,
            Name::Outside(index) => self.keys.get(index).expect("a key that an entry names is there (2)"),
        }
    }

    /// The hash of an entry's key, as far as an index that splits a bucket asks for it.
    #[inline]
    pub(super) fn rehash(&self, handle: Handle) -> u64 {
        self.hasher.hash_without_slot(self.key(handle))
    }
}

/// What the entries' chunks take. The system maps them; the allocator's figures know nothing of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkMemory {
    /// Bytes of the entries.
    pub used_bytes: usize,
    /// Bytes that are entries, or were since their pages were last given back: about what is resident.
    pub touched_bytes: usize,
}

impl ChunkMemory {
    /// The memory of both.
    pub fn plus(self, other: ChunkMemory) -> ChunkMemory {
        ChunkMemory {
            used_bytes: self.used_bytes + other.used_bytes,
            touched_bytes: self.touched_bytes + other.touched_bytes,
        }
    }
}

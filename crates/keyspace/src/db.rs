//! One database: entries in a slab, an index over all of them, an index over those that expire.
//!
//! Invariants: (1) every live block of `slab` is an entry, is in `index` once, and is in `expires` exactly when its
//! head has an expiry; (2) every value of `values` and every key of `keys` belongs to exactly one entry; (3) both indexes
//! use the same seeded hash of the key; (4) before a block is changed or freed, or a value or key outside that it names,
//! [`Db::before_change`] is told its handle. The access clock alone is no change. This module is mechanism: it knows no
//! clock and leaves no effects.

mod before;
mod change;
mod compact;
mod in_place;
mod list;
mod take;

pub use before::BeforeImage;
pub(crate) use change::Meta;
pub use compact::Compacted;
pub(crate) use list::OpenList;

use crate::entry::{self, Form, Head, Name};
use crate::{ChunkMemory, Key, reference_string_encoding};
use sluice_base::{HashSeed, Rng, siphash13};
use sluice_collections::index::{Index, Position};
use sluice_collections::slab::{Handle, Slab, TypedSlab};
use sluice_value::{Encoding, List, Type, Value};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A database.
pub struct Db {
    slab: Slab,
    values: TypedSlab<Value>,
    keys: TypedSlab<Box<[u8]>>,
    index: Index,
    expires: Index,
    seed: HashSeed,
    /// Where the active expiry cycle stands in `expires`.
    pub(crate) expire_cursor: u64,
    /// Running average of the remaining life of keys with an expiry, ms; 0 when unknown. For INFO.
    pub avg_ttl_ms: i64,
    /// Bytes of `values` and `keys`.
    outside_bytes: usize,
    /// A list of no key whose memory is used again: where an inline list is while it is changed, and what stands for a
    /// list outside meanwhile. Its elements mean nothing.
    scratch: Option<List>,
    /// Entries as they were before changes; only while somebody wants them.
    before: Option<Vec<BeforeImage>>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("keys", &self.len())
            .field("expires", &self.expires_len())
            .finish_non_exhaustive()
    }
}

/// An entry's position: valid until the next change of the database.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    position: Position,
    /// The entry.
    pub handle: Handle,
}

impl Db {
    /// An empty database whose indexes hash under `seed`.
    pub fn new(seed: HashSeed) -> Db {
        Db {
            slab: Slab::new(),
            values: TypedSlab::new(),
            keys: TypedSlab::new(),
            index: Index::new(),
            expires: Index::new(),
            seed,
            expire_cursor: 0,
            avg_ttl_ms: 0,
            outside_bytes: 0,
            scratch: None,
            before: None,
        }
    }

    /// Number of keys, logically expired ones that were not met yet included.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys with an expiry.
    pub fn expires_len(&self) -> usize {
        self.expires.len()
    }

    /// The index over all keys, for statistics.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The index over keys with an expiry, for statistics.
    pub fn expires_index(&self) -> &Index {
        &self.expires
    }

    /// Bytes of the indexes.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Bytes of the index over keys that expire.
    pub fn expires_bytes(&self) -> usize {
        self.expires.bytes()
    }

    /// How much of what handles can name is taken, as if every chunk of the slab were of the longest: 1 TiB at most. O(1).
    #[inline]
    pub(crate) fn entry_bytes_taken(&self) -> usize {
        self.slab.chunks_taken() * Slab::CHUNK_BYTES
    }

    /// What the slab of entries takes. O(1).
    pub(crate) fn chunk_memory(&self) -> ChunkMemory {
        ChunkMemory { used_bytes: self.slab.bytes_used(), touched_bytes: self.slab.bytes_touched() }
    }

    /// Bytes of entries, and of the values and keys outside.
    pub fn entry_bytes(&self) -> usize {
        self.slab.bytes_used() + self.outside_bytes
    }

    /// The entry of `key`, expired or not.
    #[inline]
    pub fn find(&self, key: Key<'_>) -> Option<Found> {
        let position = self.index.find(key.hash, |h| self.key_is(h, key.bytes))?;
        Some(Found { position, handle: position.handle() })
    }

    #[inline]
    fn key_is(&self, handle: Handle, key: &[u8]) -> bool {
        if key.len() > entry::KEY_INSIDE_MAX {
            return self.key(handle) == key;
        }
        entry::is_key(self.slab.body(handle), key)
    }

    #[inline]
    pub(crate) fn head(&self, handle: Handle) -> Head {
        Head(self.slab.head(handle).load(Relaxed))
    }

    /// Stores the access clock; a plain store, so that a shared database can record it too.
    #[inline]
    pub(crate) fn set_clock(&self, handle: Handle, clock: u32) {
        let head = self.head(handle);
        // Writing only when it changes keeps the line clean for keys read twice in one clock tick.
        if head.clock() != clock {
            self.slab.head(handle).store(head.with_clock(clock).0, Relaxed);
        }
    }

    /// The key of an entry.
    #[inline]
    pub fn key(&self, handle: Handle) -> &[u8] {
        key_in(&self.slab, &self.keys, handle)
    }

    fn hash_of(&self, handle: Handle) -> u64 {
        siphash13(self.seed, self.key(handle))
    }

    /// The expiry of an entry, ms since the epoch.
    #[inline]
    pub fn expiry(&self, handle: Handle) -> Option<i64> {
        let head = self.head(handle);
        if !head.has_expiry() {
            return None;
        }
        entry::expiry(head, self.slab.body(handle))
    }

    /// The value outside that a payload names.
    #[inline]
    pub(crate) fn value_at(&self, payload: &[u8]) -> &Value {
        self.values.get(entry::index_of(payload)).expect("a value that an entry names is there (2)")
    }

    /// Head word and body of an entry.
    #[inline]
    pub(crate) fn block(&self, handle: Handle) -> (&AtomicU32, &[u8]) {
        self.slab.block(handle)
    }

    /// The type of an entry's value.
    pub fn type_of(&self, handle: Handle) -> Type {
        match self.head(handle).form() {
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => Type::String,
            Form::ListInlineListpack | Form::ListInlineQuicklist | Form::ListOutside => Type::List,
        }
    }

    /// How the value is stored, in the reference's terms.
    pub(crate) fn encoding(&self, handle: Handle) -> Encoding {
        let head = self.head(handle);
        match head.form() {
            Form::StrInt => Encoding::Int,
            Form::StrInlineRaw | Form::StrOutside => Encoding::Raw,
            Form::StrInline => {
                let value = entry::payload(head, self.slab.body(handle)).len();
                reference_string_encoding(self.key(handle).len(), head.has_expiry(), value)
            }
            Form::ListInlineListpack => Encoding::Listpack,
            Form::ListInlineQuicklist => Encoding::Quicklist,
            Form::ListOutside => match self.value_at(entry::payload(head, self.slab.body(handle))) {
                Value::List(list) => list.encoding().into(),
                Value::Str(_) | Value::Pages(_) => mixed_up(),
            },
        }
    }

    /// Bytes an entry takes: its block, its share of the index, and what it has outside.
    pub(crate) fn entry_size(&self, handle: Handle) -> usize {
        let (head, body) = (self.head(handle), self.slab.body(handle));
        let value = if head.form().is_outside() {
            self.value_at(entry::payload(head, body)).heap_bytes() + size_of::<Value>()
        } else {
            0
        };
        let key = match entry::name_of(body) {
            Name::Inside(_) => 0,
            Name::Outside(_) => self.key(handle).len() + size_of::<Box<[u8]>>(),
        };
        let expiry = if head.has_expiry() { 8 } else { 0 };
        self.slab.block_size(handle) + value + key + 8 + expiry
    }

    /// The access clock of an entry.
    pub fn clock(&self, handle: Handle) -> u32 {
        self.head(handle).clock()
    }

    /// Asks the processor for the bucket of a hash, ahead of [`Db::prefetch_entry`].
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch_bucket(hash);
    }

    /// Asks the processor for an entry.
    #[inline]
    pub(crate) fn prefetch(&self, handle: Handle) {
        self.slab.prefetch(handle);
    }

    /// Asks the processor for the entry that a hash probably has.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.index.prefetch_candidates(hash, |h| self.slab.prefetch(h));
    }

    /// Visits entries from `cursor` on; 0 starts and ends. Elements present all the while are visited at least once.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.index.scan(cursor, visit)
    }

    /// The same over entries with an expiry.
    pub fn scan_expires(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.expires.scan(cursor, visit)
    }

    /// A random entry.
    pub fn sample(&self, rng: &mut Rng) -> Option<Handle> {
        self.index.sample(rng)
    }

    /// A random entry with an expiry.
    pub fn sample_expires(&self, rng: &mut Rng) -> Option<Handle> {
        self.expires.sample(rng)
    }

    /// Every entry, in no order. O(n): for KEYS, digests and saving small databases.
    pub fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.index.iter()
    }

    /// Shrinks indexes that have become too large, at most `budget` bucket steps; whether more is to do.
    pub fn shrink_step(&mut self, budget: usize) -> bool {
        let Db { slab, keys, index, expires, seed, .. } = self;
        let rehash = |h| siphash13(*seed, key_in(slab, keys, h));
        let a = index.step(budget, rehash, |h| slab.prefetch(h));
        let b = expires.step(budget, rehash, |h| slab.prefetch(h));
        a || b
    }

    /// Checks invariants (1) and (2); for tests. O(n).
    #[doc(hidden)]
    pub fn check(&self) {
        let (mut count, mut with_expiry, mut values, mut keys) = (0, 0, 0, 0);
        for handle in self.iter() {
            count += 1;
            let hash = self.hash_of(handle);
            assert!(self.index.find(hash, |h| h == handle).is_some());
            let (head, body) = (self.head(handle), self.slab.body(handle));
            if head.has_expiry() {
                with_expiry += 1;
                assert!(self.expires.find(hash, |h| h == handle).is_some());
            }
            if head.form().is_outside() {
                values += 1;
                self.value_at(entry::payload(head, body));
            }
            match entry::name_of(body) {
                Name::Inside(_) => {}
                Name::Outside(index) => {
                    keys += 1;
                    assert!(self.keys.get(index).is_some_and(|key| key.len() > entry::KEY_INSIDE_MAX));
                }
            }
        }
        assert_eq!(count, self.index.len());
        assert_eq!(with_expiry, self.expires.len());
        assert_eq!(values, self.values.len());
        assert_eq!(keys, self.keys.len());
        let values: usize = self.values.iter().map(|(_, value)| value.heap_bytes()).sum();
        let keys: usize = self.keys.iter().map(|(_, key)| key.len()).sum();
        assert_eq!(values + keys, self.outside_bytes, "the parts of memory add up");
    }
}

/// The form names a value of another type than is there.
#[cold]
pub(crate) fn mixed_up() -> ! {
    panic!("an entry's form and its value are of two types: memory is corrupt")
}

#[inline]
fn key_in<'a>(slab: &'a Slab, keys: &'a TypedSlab<Box<[u8]>>, handle: Handle) -> &'a [u8] {
    match entry::name_of(slab.body(handle)) {
        Name::Inside(key) => key,
        Name::Outside(index) => keys.get(index).expect("a key that an entry names is there (2)"),
    }
}

//! One database: a store of entries, and tables that find them.
//!
//! Invariants: (1) every live block of the store's slab is an entry, is in one index of [`IndexKind::Keys`]
//! once, and in one of [`IndexKind::Expires`] exactly if its head has an expiry; the indexes are those of the
//! tables, or of a table detached from them (`db/detached.rs`); (2) every value of the store's `values` and
//! every key of its `keys` belongs to exactly one entry; (3) all indexes use the same seeded hash of the key,
//! which also selects the table; (4) [`Db::before_change`] gets an entry's handle before its block, or its
//! value or key outside the block, is changed or freed. A change of the access clock alone is exempt. This
//! module reads no clock and records no effects; `access.rs` does that.

mod capture;
mod change;
mod compact;
mod cut;
mod detached;
pub(crate) mod freeing;
mod in_place;
mod look;
mod open;
mod remains;
mod store;
mod stream;
mod tables;
mod take;
mod volatile;
mod walk;
pub(crate) mod walking;

pub(crate) use change::Meta;
pub use compact::Compacted;
pub use cut::CutState;
use detached::Detached;
pub use look::Entry;
pub(crate) use open::Open;

use crate::collection::Variant;
use crate::entry::{self, Form, FormKind, Head, Name};
use crate::hasher::{KeyHasher, slot_of};
use crate::{Key, reference_string_encoding};
use sluice_base::{Rng, heap};
use sluice_collections::Index;
use sluice_collections::index::{IndexStats, Position};
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{Encoding, Hash, List, Set, Type, Value, Zset};
use std::collections::HashSet;
use std::iter::once;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
pub use store::ChunkMemory;
use store::Store;
pub(crate) use tables::IndexKind;
use tables::Tables;
use volatile::{FirstExpiry, VolatileKeys, earliest_in};

/// One database: its entries, its indexes and the state of its background work.
pub struct Db {
    pub(crate) store: Store,
    pub(crate) tables: Tables,
    /// Tables of detached slots, whose keys are freed in steps.
    pub(crate) detached: Detached,
    /// The hashes with fields that expire, in order of their first expiry.
    volatile: VolatileKeys,
    /// The last hash that the active expiry cycle passed over because its slot is hidden or detached.
    volatile_cursor: Option<FirstExpiry>,
    /// Cursor of the active expiry cycle among the keys with an expiry.
    pub(crate) expire_cursor: u64,
    /// Running average of the remaining life of keys with an expiry, in ms; 0 if unknown. For INFO.
    pub avg_ttl_ms: i64,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("keys", &self.len())
            .field("expires", &self.expires_len())
            .finish_non_exhaustive()
    }
}

/// Maximum number of hashes of hidden and detached slots that a step of the expiry cycle looks at.
const HIDDEN_LOOKS: usize = 64;

/// The result of the search for a hash with expired fields.
pub(crate) enum VolatileDue {
    /// The hash's key.
    Hash(Box<[u8]>),
    /// Only hashes of hidden and detached slots were examined; later hashes may have expired fields.
    Unknown,
    /// No hash has expired fields.
    None,
}

/// An entry's position: valid until the next change of the database.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    position: Position,
    /// The entry's block in the slab.
    pub handle: Handle,
}

/// The database as scans and counts of all keys see it: without the keys of hidden slots, that is, of slots
/// that are being imported or emptied.
#[derive(Clone, Copy)]
pub struct ShownKeys<'a> {
    tables: &'a Tables,
}

impl<'a> ShownKeys<'a> {
    /// Number of keys, logically expired ones included. O(1) without hidden slots; otherwise one step
    /// for each hidden slot that has keys.
    pub fn len(self) -> usize {
        self.tables.shown_len(IndexKind::Keys)
    }

    /// Whether there is no key; costs as much as [`ShownKeys::len`].
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Number of keys with an expiry; costs as much as [`ShownKeys::len`].
    pub fn expires_len(self) -> usize {
        self.tables.shown_len(IndexKind::Expires)
    }

    /// Every entry, in no order, for KEYS and digests. Cost: O(n).
    pub fn iter(self) -> impl Iterator<Item = Handle> + 'a {
        self.tables.iter_shown(IndexKind::Keys)
    }
}

impl Db {
    /// An empty database whose keys are hashed by `hasher`.
    pub fn new(hasher: KeyHasher) -> Db {
        let (store, tables) = (Store::new(hasher), Tables::new(hasher.layout()));
        Db {
            store,
            tables,
            detached: Detached::default(),
            volatile: VolatileKeys::default(),
            volatile_cursor: None,
            expire_cursor: 0,
            avg_ttl_ms: 0,
        }
    }

    /// The hasher of this database's keys.
    #[inline]
    pub fn hasher(&self) -> KeyHasher {
        self.store.hasher
    }

    /// Number of keys, including those of hidden slots and expired keys that no look-up has
    /// deleted yet. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.tables.len(IndexKind::Keys)
    }

    /// The database without the keys of hidden slots.
    pub fn shown(&self) -> ShownKeys<'_> {
        ShownKeys { tables: &self.tables }
    }

    /// Whether there is no key, hidden or not.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the database has neither keys nor tables.
    #[inline]
    pub(crate) fn has_nothing(&self) -> bool {
        self.tables.single(IndexKind::Keys).is_some_and(Index::is_empty)
    }

    /// Number of keys with an expiry. O(1).
    pub fn expires_len(&self) -> usize {
        self.tables.len(IndexKind::Expires)
    }

    /// Number of hashes with fields that have an expiry, including those of detached slots. O(1).
    pub fn volatile_len(&self) -> usize {
        self.volatile.len()
    }

    /// The next hash with a field that expired before `now_ms`. Hashes of hidden and detached slots are
    /// passed over, at most [`HIDDEN_LOOKS`] of them for each call; the next call continues after them, and
    /// a call that has reached the last hash makes the next one begin again.
    pub(crate) fn next_volatile_due(&mut self, now_ms: i64) -> VolatileDue {
        if self.tables.hidden.is_none() && self.detached.is_empty() {
            self.volatile_cursor = None;
            let due = self.volatile.due(None, now_ms).next();
            return due.map_or(VolatileDue::None, |(_, key)| VolatileDue::Hash(key.clone()));
        }
        let is_shown = |at: i64, key: &[u8]| {
            let key = Key::hashed(key, self.hasher());
            !self.tables.hides(slot_of(key.hash)) && earliest_of_key(self, key) == Some(at)
        };
        let mut passed_over = None;
        let mut next = VolatileDue::None;
        for (looks, hash) in self.volatile.due(self.volatile_cursor.as_ref(), now_ms).enumerate() {
            if is_shown(hash.0, &hash.1) {
                next = VolatileDue::Hash(hash.1.clone());
                break;
            }
            passed_over = Some(hash);
            if looks + 1 == HIDDEN_LOOKS {
                next = VolatileDue::Unknown;
                break;
            }
        }
        match next {
            VolatileDue::None => self.volatile_cursor = None,
            VolatileDue::Hash(_) | VolatileDue::Unknown => {
                if let Some(hash) = passed_over.cloned() {
                    self.volatile_cursor = Some(hash);
                }
            }
        }
        next
    }

    /// Statistics of the indexes over all keys, summed. O(n).
    pub fn index_stats(&self) -> IndexStats {
        self.tables.stats(IndexKind::Keys)
    }

    /// Statistics of the indexes over keys with an expiry, summed. O(n).
    pub fn expires_stats(&self) -> IndexStats {
        self.tables.stats(IndexKind::Expires)
    }

    /// Bytes of the indexes over all keys. Cost: one step for each table that is not empty.
    pub fn index_bytes(&self) -> usize {
        self.tables.bytes(IndexKind::Keys) + self.detached.bytes(IndexKind::Keys)
    }

    /// Bytes of the indexes over keys with an expiry. Cost: one step for each table that is not empty.
    pub fn expires_bytes(&self) -> usize {
        self.tables.bytes(IndexKind::Expires) + self.detached.bytes(IndexKind::Expires)
    }

    /// Number of keys in a hash slot; 0 with [`crate::Layout::One`], which has no slots. O(1).
    pub fn slot_len(&self, slot: u16) -> usize {
        self.tables.of_slot(slot).map_or(0, Index::len)
    }

    /// Every entry of a hash slot, in no order; none with [`crate::Layout::One`].
    pub fn slot_iter(&self, slot: u16) -> impl Iterator<Item = Handle> + '_ {
        self.tables.of_slot(slot).into_iter().flat_map(Index::iter)
    }

    /// Bytes of handle space in use, counting every chunk of the slab at its largest size: at most
    /// 1 TiB. O(1).
    #[inline]
    pub(crate) fn entry_bytes_taken(&self) -> usize {
        self.store.slab.chunks_taken() * Slab::CHUNK_BYTES
    }

    /// Memory of the slab of entries. O(1).
    pub(crate) fn chunk_memory(&self) -> ChunkMemory {
        ChunkMemory {
            used_bytes: self.store.slab.bytes_used(),
            touched_bytes: self.store.slab.bytes_touched(),
        }
    }

    /// Bytes of entries, and of the values and keys outside their blocks.
    pub fn entry_bytes(&self) -> usize {
        self.store.slab.bytes_used() + self.store.outside_bytes
    }

    /// Bytes that the allocator holds for the database: directories, indexes, the state of background work,
    /// and the values and keys outside the entries' blocks. The chunks of the entries are not included. Cost:
    /// one step for each value and key outside.
    pub fn footprint(&self) -> usize {
        let store = &self.store;
        let values: usize = store.values.iter().map(|(_, value)| value.footprint()).sum();
        let keys: usize = store.keys.iter().map(|(_, key)| heap::block(key.len())).sum();
        let cursor = self.volatile_cursor.as_ref().map_or(0, |(_, key)| heap::block(key.len()));
        let scratch = store.scratch.heap_bytes() + self.volatile.footprint() + cursor;
        let tables = store.slab.bytes_directories() + store.values.bytes() + store.keys.bytes();
        self.index_bytes()
            + self.expires_bytes()
            + tables
            + values
            + keys
            + scratch
            + self.cut_bytes()
            + self.store.walk.as_ref().map_or(0, |walk| walk.bytes())
    }

    /// Makes room in the indexes of an empty database.
    pub(crate) fn reserve(&mut self, keys: usize, expires: usize) {
        self.tables.reserve(IndexKind::Keys, keys);
        self.tables.reserve(IndexKind::Expires, expires);
    }

    /// The entry of `key`, expired or not, and its head word.
    #[inline]
    pub(crate) fn find_head(&self, key: Key<'_>) -> Option<(Found, Head)> {
        if key.bytes.len() > entry::KEY_INSIDE_MAX {
            return self.find_outside_head(key);
        }
        let mut head = Head(0);
        let index = self.tables.index(IndexKind::Keys, key.hash);
        let position = index.find(key.hash, |handle| {
            let (word, body) = self.block(handle);
            head = Head(word.load(Relaxed));
            entry::is_key(body, key.bytes)
        })?;
        Some((Found { position, handle: position.handle() }, head))
    }

    #[cold]
    fn find_outside_head(&self, key: Key<'_>) -> Option<(Found, Head)> {
        self.find(key).map(|found| (found, self.head(found.handle)))
    }

    /// The entry of `key`, expired or not.
    #[inline]
    pub fn find(&self, key: Key<'_>) -> Option<Found> {
        let index = self.tables.index(IndexKind::Keys, key.hash);
        let position = index.find(key.hash, |h| self.key_is(h, key.bytes))?;
        Some(Found { position, handle: position.handle() })
    }

    #[inline]
    fn key_is(&self, handle: Handle, key: &[u8]) -> bool {
        if key.len() > entry::KEY_INSIDE_MAX {
            return self.key(handle) == key;
        }
        entry::is_key(self.store.slab.body(handle), key)
    }

    #[inline]
    pub(crate) fn head(&self, handle: Handle) -> Head {
        Head(self.store.slab.head(handle).load(Relaxed))
    }

    /// Stores the access clock. The store is atomic, so a shared reference suffices.
    #[inline]
    pub(crate) fn set_clock(&self, handle: Handle, clock: u32) {
        let head = self.head(handle);
        // An unchanged clock is not written, because the cache line of a key that is read twice in one clock
        // tick then stays clean.
        if head.clock() != clock {
            self.store.slab.head(handle).store(head.with_clock(clock).0, Relaxed);
        }
    }

    /// The key of an entry.
    #[inline]
    pub fn key(&self, handle: Handle) -> &[u8] {
        self.store.key(handle)
    }

    /// The key with this hash, expired or not, for callers that have kept only the hash.
    pub fn key_of_hash(&self, hash: u64) -> Option<&[u8]> {
        let index = self.tables.index(IndexKind::Keys, hash);
        let position = index.find(hash, |handle| self.hash_of(handle) == hash)?;
        Some(self.key(position.handle()))
    }

    fn hash_of(&self, handle: Handle) -> u64 {
        self.store.hasher.hash(self.key(handle))
    }

    /// The expiry of an entry, ms since the epoch.
    #[inline]
    pub fn expiry(&self, handle: Handle) -> Option<i64> {
        let head = self.head(handle);
        if !head.has_expiry() {
            return None;
        }
        entry::expiry(head, self.store.slab.body(handle))
    }

    /// The value outside the block to which a payload refers.
    #[inline]
    pub(crate) fn value_at(&self, payload: &[u8]) -> &Value {
        self.store
            .values
            .get(entry::index_of(payload))
            .expect("a value that an entry names is there: invariant 2")
    }

    /// Head word and body of an entry.
    #[inline]
    pub(crate) fn block(&self, handle: Handle) -> (&AtomicU32, &[u8]) {
        self.store.slab.block(handle)
    }

    /// The type of an entry's value.
    pub fn type_of(&self, handle: Handle) -> Type {
        match self.head(handle).form().kind() {
            FormKind::Str => Type::String,
            FormKind::List(_) => Type::List,
            FormKind::Hash(_) => Type::Hash,
            FormKind::Zset(_) => Type::Zset,
            FormKind::Set(_) => Type::Set,
            FormKind::Stream => Type::Stream,
        }
    }

    /// The encoding of the value, in the reference's terms.
    pub(crate) fn encoding(&self, handle: Handle) -> Encoding {
        let head = self.head(handle);
        let payload = entry::payload(head, self.store.slab.body(handle));
        match head.form().kind() {
            FormKind::Str => self.str_encoding(handle, head, payload.len()),
            FormKind::List(Some(encoding)) => encoding.into(),
            FormKind::List(None) => List::of(self.value_at(payload)).encoding().into(),
            FormKind::Hash(Some(encoding)) => encoding.into(),
            FormKind::Hash(None) => Hash::of(self.value_at(payload)).encoding().into(),
            FormKind::Zset(Some(encoding)) => encoding.into(),
            FormKind::Zset(None) => Zset::of(self.value_at(payload)).encoding().into(),
            FormKind::Set(Some(encoding)) => encoding.into(),
            FormKind::Set(None) => Set::of(self.value_at(payload)).encoding().into(),
            FormKind::Stream => Encoding::Stream,
        }
    }

    fn str_encoding(&self, handle: Handle, head: Head, payload_len: usize) -> Encoding {
        if head.is_form(Form::StrInt) {
            Encoding::Int
        } else if head.is_form(Form::StrInline) {
            reference_string_encoding(self.key(handle).len(), head.has_expiry(), payload_len)
        } else {
            Encoding::Raw
        }
    }

    /// Bytes of an entry: its block, its share of the index, and its value and key outside.
    pub(crate) fn entry_size(&self, handle: Handle) -> usize {
        let (head, body) = (self.head(handle), self.store.slab.body(handle));
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
        self.store.slab.block_size(handle) + value + key + 8 + expiry
    }

    /// The access clock of an entry.
    pub fn clock(&self, handle: Handle) -> u32 {
        self.head(handle).clock()
    }

    /// Prefetches the index buckets of `hashes`, ahead of [`Db::prefetch_entries`]. The check for a
    /// single table is made once for all hashes.
    #[inline]
    pub fn prefetch_buckets(&self, hashes: impl Iterator<Item = u64>) {
        match self.tables.single(IndexKind::Keys) {
            Some(index) => index.prefetch_buckets(hashes),
            None => hashes.for_each(|hash| {
                self.tables.index(IndexKind::Keys, hash).prefetch_buckets(once(hash));
            }),
        }
    }

    /// Prefetches an entry's block.
    #[inline]
    pub(crate) fn prefetch(&self, handle: Handle) {
        self.store.slab.prefetch(handle);
    }

    /// Prefetches the blocks of the entries that these hashes probably belong to.
    #[inline]
    pub fn prefetch_entries(&self, hashes: impl Iterator<Item = u64>) {
        let prefetch = |handle| self.store.slab.prefetch(handle);
        match self.tables.single(IndexKind::Keys) {
            Some(index) => index.prefetch_candidates(hashes, prefetch),
            None => hashes.for_each(|hash| {
                self.tables.index(IndexKind::Keys, hash).prefetch_candidates(once(hash), prefetch);
            }),
        }
    }

    /// Visits entries from `cursor` on, without those of hidden slots, and returns the next cursor. A scan
    /// begins with cursor 0 and ends when 0 is returned. Entries that exist during the whole scan are visited
    /// at least once.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.tables.scan(IndexKind::Keys, cursor, visit)
    }

    /// A random entry outside hidden slots, uniformly distributed.
    pub fn sample(&self, rng: &mut Rng) -> Option<Handle> {
        self.tables.sample(IndexKind::Keys, rng)
    }

    /// A random entry with an expiry, outside hidden slots.
    pub fn sample_expires(&self, rng: &mut Rng) -> Option<Handle> {
        self.tables.sample(IndexKind::Expires, rng)
    }

    /// Visits up to `count` entries (for `Expires`, entries with an expiry) from neighbouring buckets at a
    /// place that the random number `draw` determines. Returns how many were visited. The result is smaller
    /// than `count` only if there are few entries, or far fewer than there once were.
    #[inline]
    pub(crate) fn sample_from(
        &self,
        kind: IndexKind,
        draw: u64,
        count: usize,
        visit: impl FnMut(Handle),
    ) -> usize {
        self.tables.sample_from(kind, draw, count, visit)
    }

    /// Prefetches the memory that [`Db::sample_from`] with the same `draw` reads first.
    #[inline]
    pub(crate) fn prefetch_sample(&self, kind: IndexKind, draw: u64) {
        self.tables.prefetch_sample(kind, draw);
    }

    /// The entry with this handle, if the handle still belongs to an entry whose key has this hash.
    #[inline]
    pub(crate) fn find_handle(&self, hash: u64, handle: Handle) -> Option<Found> {
        let position = self.tables.index(IndexKind::Keys, hash).find(hash, |found| found == handle)?;
        // The hash is compared as a whole, because the block may hold another key by now, and a bucket
        // compares only some bits of the hash.
        (self.hash_of(handle) == hash).then_some(Found { position, handle })
    }

    /// Every entry, in no order, hidden slots included, for saving small databases. Cost: O(n).
    pub fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.tables.iter(IndexKind::Keys)
    }

    /// Shrinks indexes that have become too large, by at most `budget` buckets of one index. The result is
    /// whether work, or a check for it, is left.
    pub fn shrink_step(&mut self, budget: usize) -> bool {
        self.tables.shrink_step(budget, &self.store)
    }

    /// Checks invariants (1) and (2); for tests. O(n).
    #[doc(hidden)]
    pub fn check(&self) {
        let (mut count, mut with_expiry, mut values, mut keys) = (0, 0, 0, 0);
        let mut volatile = VolatileKeys::default();
        for handle in self.iter() {
            count += 1;
            let hash = self.hash_of(handle);
            assert!(self.tables.index(IndexKind::Keys, hash).find(hash, |h| h == handle).is_some());
            if self.head(handle).has_expiry() {
                with_expiry += 1;
                assert!(self.tables.index(IndexKind::Expires, hash).find(hash, |h| h == handle).is_some());
            }
            volatile.change(
                self.key(handle),
                None,
                earliest_of_key(self, Key::hashed(self.key(handle), self.hasher())),
            );
        }
        let (detached, of_detached) =
            (self.detached.iter(IndexKind::Keys), self.detached.iter(IndexKind::Expires));
        let (detached, of_detached): (Vec<Handle>, HashSet<Handle>) =
            (detached.collect(), of_detached.collect());
        assert_eq!(
            detached.iter().filter(|handle| self.head(**handle).has_expiry()).count(),
            of_detached.len()
        );
        for handle in self.iter().chain(detached.iter().copied()) {
            let (head, body) = (self.head(handle), self.store.slab.body(handle));
            values += usize::from(head.form().is_outside());
            match entry::name_of(body) {
                Name::Inside(_) => {}
                Name::Outside(index) => {
                    keys += 1;
                    assert!(self.store.keys.get(index).is_some_and(|key| key.len() > entry::KEY_INSIDE_MAX));
                }
            }
        }
        assert_eq!(count, self.len());
        assert!(self.volatile.contains(&volatile), "the index of expiring fields has the hashes");
        assert!(!self.detached.is_empty() || volatile == self.volatile, "and no others");
        let blocks = self.iter().chain(detached).map(|handle| self.store.slab.block_size(handle));
        assert_eq!(self.store.slab.bytes_used(), blocks.sum::<usize>(), "every block is an entry");
        assert_eq!(with_expiry, self.expires_len());
        assert_eq!(values, self.store.values.len());
        assert_eq!(keys, self.store.keys.len());
        let values: usize = self.store.values.iter().map(|(_, value)| value.heap_bytes()).sum();
        let keys: usize = self.store.keys.iter().map(|(_, key)| key.len()).sum();
        assert_eq!(values + keys, self.store.outside_bytes, "the parts of memory add up");
        self.tables.check(&self.store);
        for key in self.store.walk.iter().flat_map(|walk| &walk.ahead) {
            let found = self.find(Key::hashed(key, self.hasher()));
            assert!(found.is_some(), "what was captured ahead of the cursor is there");
        }
    }
}

/// Earliest expiry of a field of the key's hash, in ms; `None` if the key holds no hash with such a field.
fn earliest_of_key(db: &Db, key: Key<'_>) -> Option<i64> {
    let (found, head) = db.find_head(key)?;
    if !head.form().is_outside() {
        return None;
    }
    earliest_in(db.value_at(entry::payload(head, db.store.slab.body(found.handle))))
}

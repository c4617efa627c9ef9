//! One database: entries in a slab, an index over all of them, an index over those that expire.
//!
//! Invariants: (1) every live block of `slab` is an entry, is in `index` once, and is in `expires` exactly when its
//! head has an expiry; (2) every live element of `large` belongs to exactly one entry; (3) both indexes use the same
//! seeded hash of the key. This file is mechanism: it knows no clock and leaves no effects.

mod compact;

pub use compact::Compacted;

use crate::entry::{self, Head, Kind, Large};
use crate::{ChunkMemory, Key, reference_string_encoding};
use sluice_base::{Bytes, HashSeed, Rng, siphash13};
use sluice_collections::index::{Index, Slot};
use sluice_collections::slab::{Full, Handle, Slab, TypedSlab};
use sluice_value::{Encoding, Type, Value};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A database.
pub struct Db {
    slab: Slab,
    large: TypedSlab<Large>,
    index: Index,
    expires: Index,
    seed: HashSeed,
    /// Where the active expiry cycle stands in `expires`.
    pub(crate) expire_cursor: u64,
    /// Running average of the remaining life of keys with an expiry, ms; 0 when unknown. For INFO.
    pub avg_ttl_ms: i64,
    large_bytes: usize,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("keys", &self.len())
            .field("expires", &self.expires_len())
            .finish_non_exhaustive()
    }
}

/// What to store.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// A string in its canonical encoding: an integer where the bytes are one.
    Str(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A string kept as bytes even where they are a number's: what INCRBYFLOAT makes.
    Plain(&'a [u8]),
    /// The same, marked `raw`: what APPEND and SETRANGE make.
    Raw(&'a [u8]),
    /// A value with bytes of its own.
    Large(Value),
}

/// A string value, as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// An integer: its decimal form is the string.
    Int(i64),
    /// Bytes in the entry.
    Inline(&'a [u8]),
    /// Bytes that can be shared.
    Shared(&'a Bytes),
}

/// A place in the payload once parsed: what fits inside a block.
enum Form<'a> {
    Int([u8; 8]),
    Inline(&'a [u8], bool),
    Large(Value, bool),
}

impl Db {
    /// An empty database whose indexes hash under `seed`.
    pub fn new(seed: HashSeed) -> Db {
        Db {
            slab: Slab::new(),
            large: TypedSlab::new(),
            index: Index::new(),
            expires: Index::new(),
            seed,
            expire_cursor: 0,
            avg_ttl_ms: 0,
            large_bytes: 0,
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

    /// Bytes of entries and of large values.
    pub fn entry_bytes(&self) -> usize {
        self.slab.bytes_used() + self.large_bytes
    }

    /// The entry of `key`, expired or not.
    #[inline]
    pub fn find(&self, key: Key<'_>) -> Option<Found> {
        let slot = self.index.find(key.hash, |h| self.key_is(h, key.bytes))?;
        Some(Found { slot, handle: slot.handle() })
    }

    #[inline]
    fn key_is(&self, handle: Handle, key: &[u8]) -> bool {
        if key.len() > entry::KEY_INSIDE_MAX {
            return self.key(handle) == key;
        }
        let body = self.slab.body(handle);
        body.first() == Some(&(key.len() as u8))
            && body.get(1..1 + key.len()) == Some(key)
            && !(key.is_empty() && self.head(handle).key_outside())
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
        if self.head(handle).key_outside() {
            return self.large_of(handle).and_then(|l| l.key.as_deref()).unwrap_or_default();
        }
        entry::key_of(self.slab.body(handle))
    }

    fn hash_of(&self, handle: Handle) -> u64 {
        siphash13(self.seed, self.key(handle))
    }

    fn large_of(&self, handle: Handle) -> Option<&Large> {
        self.large.get(entry::index_of(entry::payload(self.head(handle), self.slab.body(handle))))
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

    /// The type of an entry's value.
    pub fn type_of(&self, handle: Handle) -> Type {
        match self.head(handle).kind() {
            Kind::Inline | Kind::Int => Type::String,
            Kind::Large => self.large_of(handle).map_or(Type::String, |l| l.value.type_of()),
        }
    }

    /// The string of an entry; `None` when its value is of another type.
    #[inline]
    pub fn str(&self, handle: Handle) -> Option<Str<'_>> {
        let (head, body) = self.slab.block(handle);
        self.str_in(Head(head.load(Relaxed)), body)
    }

    /// The string of an entry that was looked at already.
    #[inline]
    pub(crate) fn str_in<'a>(&'a self, head: Head, body: &'a [u8]) -> Option<Str<'a>> {
        let payload = entry::payload(head, body);
        match head.kind() {
            Kind::Inline => Some(Str::Inline(payload)),
            Kind::Int => Some(Str::Int(entry::int_of(payload))),
            Kind::Large => match &self.large.get(entry::index_of(payload))?.value {
                Value::Str(bytes) => Some(Str::Shared(bytes)),
            },
        }
    }

    /// Head word and body of an entry.
    #[inline]
    pub(crate) fn block(&self, handle: Handle) -> (&AtomicU32, &[u8]) {
        self.slab.block(handle)
    }

    /// How the value is stored, in the reference's terms.
    pub fn encoding(&self, handle: Handle) -> Encoding {
        let head = self.head(handle);
        match head.kind() {
            Kind::Int => Encoding::Int,
            Kind::Inline if head.is_raw() => Encoding::Raw,
            Kind::Inline => {
                let value = entry::payload(head, self.slab.body(handle)).len();
                reference_string_encoding(self.key(handle).len(), head.has_expiry(), value)
            }
            Kind::Large if head.key_outside() && !head.is_raw() => self.encoding_outside(handle),
            Kind::Large => Encoding::Raw,
        }
    }

    /// With a key outside, an integer is kept as its digits.
    #[cold]
    fn encoding_outside(&self, handle: Handle) -> Encoding {
        let is_int = |bytes: &[u8]| sluice_base::num::parse_i64(bytes).is_some();
        match self.large_of(handle).map(|large| &large.value) {
            Some(Value::Str(bytes)) if is_int(bytes) => Encoding::Int,
            Some(Value::Str(_)) | None => Encoding::Raw,
        }
    }

    /// Bytes an entry takes: its block, its share of the index and its large value.
    pub fn entry_size(&self, handle: Handle) -> usize {
        let large = self
            .large_of_kind(handle)
            .map_or(0, |l| l.value.heap_bytes() + l.key.as_ref().map_or(0, |k| k.len()) + size_of::<Large>());
        let expiry = if self.head(handle).has_expiry() { 8 } else { 0 };
        self.slab.block_size(handle) + large + 8 + expiry
    }

    fn large_of_kind(&self, handle: Handle) -> Option<&Large> {
        match self.head(handle).kind() {
            Kind::Large => self.large_of(handle),
            Kind::Inline | Kind::Int => None,
        }
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

    /// Asks the processor for the entry that a hash probably has.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.index.prefetch_candidates(hash, |h| self.slab.prefetch(h));
    }

    /// Inserts a key that is absent.
    pub fn insert(&mut self, key: Key<'_>, payload: Payload<'_>, expiry: Option<i64>, clock: u32) -> Handle {
        let form = Form::of(key.bytes.len(), expiry.is_some(), payload);
        let handle = self.build(key.bytes, form, expiry, clock);
        let Db { slab, large, index, seed, .. } = self;
        let rehash = |h| siphash13(*seed, key_in(slab, large, h));
        index.insert(key.hash, handle, rehash, |h| slab.prefetch(h));
        if expiry.is_some() {
            self.expires_insert(key.hash, handle);
        }
        handle
    }

    /// Replaces the value, and the expiry, of the entry at `found`; gives back what lived outside the block.
    /// Overwrites in place when the block's size class stays.
    #[inline]
    pub fn overwrite(
        &mut self,
        found: Found,
        key: Key<'_>,
        payload: Payload<'_>,
        expiry: Option<i64>,
        clock: u32,
    ) -> (Found, Option<Value>) {
        let form = Form::of(key.bytes.len(), expiry.is_some(), payload);
        let head = self.head(found.handle);
        let in_place =
            head.kind() != Kind::Large && head.has_expiry() == expiry.is_some() && !head.key_outside();
        if in_place && let Some((kind, raw, bytes)) = form.inside() {
            let len = entry::block_len(key.bytes.len(), expiry.is_some(), bytes.len());
            if Slab::rounded(len) == self.slab.block_size(found.handle) {
                let head = head.with_kind(kind).with_raw(raw).with_clock(clock);
                self.write_payload(found.handle, head, bytes, expiry);
                return (found, None);
            }
        }
        self.rebuild(found, key, form, expiry, clock)
    }

    #[inline]
    fn write_payload(&mut self, handle: Handle, head: Head, bytes: &[u8], expiry: Option<i64>) {
        let body = self.slab.body_mut(handle);
        if let Some(at) = expiry {
            entry::write_expiry(head, body, at);
        }
        let start = entry::payload_at(head, body);
        let slack = body.len() - start - bytes.len();
        body[start..start + bytes.len()].copy_from_slice(bytes);
        self.slab.head(handle).store(head.with_slack(slack).0, Relaxed);
    }

    fn rebuild(
        &mut self,
        found: Found,
        key: Key<'_>,
        form: Form<'_>,
        expiry: Option<i64>,
        clock: u32,
    ) -> (Found, Option<Value>) {
        let had_expiry = self.head(found.handle).has_expiry();
        let form = match form {
            // The reference loses the expiry after it has placed the string.
            Form::Inline(bytes, false) if had_expiry => Form::Inline(
                bytes,
                reference_string_encoding(key.bytes.len(), true, bytes.len()) == Encoding::Raw,
            ),
            form => form,
        };
        let handle = self.build(key.bytes, form, expiry, clock);
        self.index.replace(found.slot, handle);
        match (had_expiry, expiry.is_some()) {
            (true, true) => self.expires_replace(key.hash, found.handle, handle),
            (true, false) => self.expires_remove(key.hash, found.handle),
            (false, true) => self.expires_insert(key.hash, handle),
            (false, false) => {}
        }
        let value = self.release(found.handle);
        (Found { slot: found.slot, handle }, value)
    }

    fn build(&mut self, key: &[u8], form: Form<'_>, expiry: Option<i64>, clock: u32) -> Handle {
        let outside = key.len() > entry::KEY_INSIDE_MAX;
        let inside: &[u8] = if outside { &[] } else { key };
        let index;
        let (kind, raw, bytes): (Kind, bool, &[u8]) = match &form {
            Form::Large(value, raw) => {
                let large = Large { key: outside.then(|| key.into()), value: value.clone() };
                self.large_bytes += large.value.heap_bytes() + key.len();
                index = self.large.insert(large).to_le_bytes();
                (Kind::Large, *raw, &index)
            }
            Form::Int(bytes) => (Kind::Int, false, bytes),
            Form::Inline(bytes, raw) => (Kind::Inline, *raw, bytes),
        };
        let size = entry::block_len(inside.len(), expiry.is_some(), bytes.len());
        let handle = self.alloc(size);
        let head =
            Head::new(clock, kind).with_raw(raw).with_expiry(expiry.is_some()).with_key_outside(outside);
        let body = self.slab.body_mut(handle);
        body[0] = inside.len() as u8;
        body[1..1 + inside.len()].copy_from_slice(inside);
        self.write_payload(handle, head, bytes, expiry);
        handle
    }

    /// A block for an entry. That handles run out is for whoever lets writes pass to prevent
    /// ([`crate::Keyspace::is_nearly_full`]); that the system has no memory ends the process, as at any allocation.
    #[inline]
    fn alloc(&mut self, size: usize) -> Handle {
        match self.slab.alloc(size) {
            Ok(handle) => handle,
            Err(Full) => out_of_memory(),
        }
    }

    /// Frees an entry's block; the value that lived outside is given back.
    fn release(&mut self, handle: Handle) -> Option<Value> {
        let head = self.head(handle);
        let large = match head.kind() {
            Kind::Large => self.large.remove(entry::index_of(entry::payload(head, self.slab.body(handle)))),
            Kind::Inline | Kind::Int => None,
        };
        if let Some(large) = &large {
            let key = large.key.as_ref().map_or(head_key_len(self.slab.body(handle)), |k| k.len());
            self.large_bytes = self.large_bytes.saturating_sub(large.value.heap_bytes() + key);
        }
        self.slab.free(handle);
        large.map(|l| l.value)
    }

    /// Removes the entry at `found`; what lived outside its block is given back, to be freed where it hurts least.
    pub fn remove(&mut self, found: Found, key: Key<'_>) -> Option<Value> {
        if self.head(found.handle).has_expiry() {
            self.expires_remove(key.hash, found.handle);
        }
        let Db { slab, large, index, seed, .. } = self;
        let rehash = |h| siphash13(*seed, key_in(slab, large, h));
        index.remove(found.slot, rehash);
        self.release(found.handle)
    }

    /// Sets or clears the expiry of an entry.
    pub fn set_expiry(&mut self, found: Found, key: Key<'_>, expiry: Option<i64>) -> Found {
        let head = self.head(found.handle);
        match (head.has_expiry(), expiry) {
            (true, Some(at)) => {
                entry::write_expiry(head, self.slab.body_mut(found.handle), at);
                found
            }
            (false, None) => found,
            _ => {
                let form = self.form_of(found.handle);
                let key_outside = head.key_outside().then(|| key.bytes.into());
                let raw = form.0;
                let handle = self.move_entry(found.handle, key, form.1, raw, expiry, key_outside);
                self.index.replace(found.slot, handle);
                match expiry {
                    Some(_) => self.expires_insert(key.hash, handle),
                    None => self.expires_remove(key.hash, found.handle),
                }
                self.slab.free(found.handle);
                Found { slot: found.slot, handle }
            }
        }
    }

    /// Whether the entry stays `raw`, and its payload. A string too large with an expiry stays raw without.
    fn form_of(&self, handle: Handle) -> (bool, Vec<u8>) {
        let head = self.head(handle);
        let raw = head.is_raw() || head.kind() == Kind::Inline && self.encoding(handle) == Encoding::Raw;
        (raw, entry::payload(head, self.slab.body(handle)).to_vec())
    }

    /// Copies an entry's payload, whatever its kind, to a block with another expiry; the old block is not freed.
    fn move_entry(
        &mut self,
        old: Handle,
        key: Key<'_>,
        payload: Vec<u8>,
        raw: bool,
        expiry: Option<i64>,
        key_outside: Option<Box<[u8]>>,
    ) -> Handle {
        let head = self.head(old);
        let inside: &[u8] = if key_outside.is_some() { &[] } else { key.bytes };
        let size = entry::block_len(inside.len(), expiry.is_some(), payload.len());
        if size > Slab::MAX_BLOCK {
            let form = Form::Large(Value::Str(Bytes::from_vec(payload)), raw);
            return self.build(key.bytes, form, expiry, head.clock());
        }
        let handle = self.alloc(size);
        let new = Head::new(head.clock(), head.kind())
            .with_raw(raw)
            .with_expiry(expiry.is_some())
            .with_key_outside(key_outside.is_some());
        let body = self.slab.body_mut(handle);
        body[0] = inside.len() as u8;
        body[1..1 + inside.len()].copy_from_slice(inside);
        self.write_payload(handle, new, &payload, expiry);
        handle
    }

    /// Gives the large string at `handle` to be changed in place; `None` when the entry is of another kind.
    /// The closure returns its result; the accounting of bytes follows. The string becomes `raw`.
    pub fn edit_large<R>(&mut self, handle: Handle, edit: impl FnOnce(&mut Bytes) -> R) -> Option<R> {
        let head = self.head(handle);
        if head.kind() != Kind::Large {
            return None;
        }
        self.slab.head(handle).store(head.with_raw(true).0, Relaxed);
        let index = entry::index_of(entry::payload(head, self.slab.body(handle)));
        let large = self.large.get_mut(index)?;
        let before = large.value.heap_bytes();
        let result = match &mut large.value {
            Value::Str(bytes) => edit(bytes),
        };
        self.large_bytes = self.large_bytes + large.value.heap_bytes() - before;
        Some(result)
    }

    /// Changes the integer of an `Int` entry in place; `false` when the entry is of another kind.
    #[inline]
    pub fn write_int(&mut self, handle: Handle, value: i64) -> bool {
        let head = self.head(handle);
        if head.kind() != Kind::Int {
            return false;
        }
        let body = self.slab.body_mut(handle);
        let at = entry::payload_at(head, body);
        match body.get_mut(at..at + 8) {
            Some(bytes) => {
                bytes.copy_from_slice(&value.to_le_bytes());
                true
            }
            None => false,
        }
    }

    /// Gives the bytes of an inline string to be changed in place, grown with zeros to `len_min` bytes; it becomes `raw`.
    /// `None`, and no change, when the entry is of another kind or its block has no room.
    pub fn inline_mut(&mut self, handle: Handle, len_min: usize) -> Option<&mut [u8]> {
        let head = self.head(handle);
        if head.kind() != Kind::Inline {
            return None;
        }
        let body = self.slab.body_mut(handle);
        let (start, end) = (entry::payload_at(head, body), body.len() - head.slack());
        let new_end = end.max(start + len_min);
        let slack = body.len().checked_sub(new_end)?;
        body[end..new_end].fill(0);
        self.slab.head(handle).store(head.with_raw(true).with_slack(slack).0, Relaxed);
        self.slab.body_mut(handle).get_mut(start..new_end)
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
        let Db { slab, large, index, expires, seed, .. } = self;
        let rehash = |h| siphash13(*seed, key_in(slab, large, h));
        let a = index.step(budget, rehash, |h| slab.prefetch(h));
        let b = expires.step(budget, rehash, |h| slab.prefetch(h));
        a || b
    }

    fn expires_insert(&mut self, hash: u64, handle: Handle) {
        let Db { slab, large, expires, seed, .. } = self;
        let rehash = |h| siphash13(*seed, key_in(slab, large, h));
        expires.insert(hash, handle, rehash, |h| slab.prefetch(h));
    }

    fn expires_remove(&mut self, hash: u64, handle: Handle) {
        let Db { slab, large, expires, seed, .. } = self;
        if let Some(slot) = expires.find(hash, |h| h == handle) {
            let rehash = |h| siphash13(*seed, key_in(slab, large, h));
            expires.remove(slot, rehash);
        }
    }

    fn expires_replace(&mut self, hash: u64, old: Handle, new: Handle) {
        if let Some(slot) = self.expires.find(hash, |h| h == old) {
            self.expires.replace(slot, new);
        }
    }

    /// Checks invariants (1) and (2); for tests. O(n).
    #[doc(hidden)]
    pub fn check(&self) {
        let mut with_expiry = 0;
        let mut large = 0;
        let mut count = 0;
        for handle in self.iter() {
            count += 1;
            let hash = self.hash_of(handle);
            assert!(self.index.find(hash, |h| h == handle).is_some());
            let head = self.head(handle);
            if head.has_expiry() {
                with_expiry += 1;
                assert!(self.expires.find(hash, |h| h == handle).is_some());
            }
            if head.kind() == Kind::Large {
                large += 1;
                assert!(self.large_of(handle).is_some());
            }
        }
        assert_eq!(count, self.index.len());
        assert_eq!(with_expiry, self.expires.len());
        assert_eq!(large, self.large.len());
    }
}

/// An entry's position: valid until the next change of the database.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    slot: Slot,
    /// The entry.
    pub handle: Handle,
}

impl<'a> Form<'a> {
    #[inline]
    fn of(key_len: usize, has_expiry: bool, payload: Payload<'a>) -> Form<'a> {
        let inside = |bytes: &'a [u8], raw| {
            if entry::fits_inline(key_len, has_expiry, bytes.len()) {
                Form::Inline(bytes, raw)
            } else {
                Form::Large(Value::Str(Bytes::copy_from(bytes)), raw)
            }
        };
        match payload {
            Payload::Str(bytes) => match sluice_base::num::parse_i64(bytes) {
                Some(n) if key_len <= entry::KEY_INSIDE_MAX => Form::Int(n.to_le_bytes()),
                _ => inside(bytes, false),
            },
            Payload::Int(n) if key_len <= entry::KEY_INSIDE_MAX => Form::Int(n.to_le_bytes()),
            Payload::Int(n) => Form::Large(Value::Str(Bytes::from_vec(n.to_string().into_bytes())), false),
            // Beside a key that is outside, only the mark tells these digits from an integer's.
            Payload::Plain(bytes) => inside(bytes, key_len > entry::KEY_INSIDE_MAX),
            Payload::Raw(bytes) => inside(bytes, true),
            Payload::Large(value) => Form::Large(value, false),
        }
    }

    #[inline]
    fn inside(&self) -> Option<(Kind, bool, &[u8])> {
        match self {
            Form::Int(bytes) => Some((Kind::Int, false, bytes)),
            Form::Inline(bytes, raw) => Some((Kind::Inline, *raw, bytes)),
            Form::Large(..) => None,
        }
    }
}

#[inline]
fn key_in<'a>(slab: &'a Slab, large: &'a TypedSlab<Large>, handle: Handle) -> &'a [u8] {
    let head = Head(slab.head(handle).load(Relaxed));
    let body = slab.body(handle);
    if !head.key_outside() {
        return entry::key_of(body);
    }
    large.get(entry::index_of(entry::payload(head, body))).and_then(|l| l.key.as_deref()).unwrap_or_default()
}

#[cold]
fn out_of_memory() -> ! {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; Slab::MAX_BLOCK]>())
}

fn head_key_len(body: &[u8]) -> usize {
    entry::key_of(body).len()
}

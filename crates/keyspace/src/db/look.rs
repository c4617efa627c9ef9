//! Read access to an entry: its key, value, expiry and access clock.

use super::{Db, IndexKind};
use crate::entry::{self, Form, Head};
use crate::view::{Str, ValueRef, WrongType, value_of};
use crate::{AccessUpdate, Key};
use sluice_collections::slab::Handle;
use sluice_value::{Encoding, HashRef, ListRef, SetRef, Stream, Type, ZsetRef};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A key that exists, with its value, to read.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    db: &'a Db,
    pub(crate) handle: Handle,
    word: &'a AtomicU32,
    body: &'a [u8],
}

impl<'a> Entry<'a> {
    #[inline]
    pub(crate) fn of(db: &'a Db, handle: Handle) -> Entry<'a> {
        let (word, body) = db.block(handle);
        Entry { db, handle, word, body }
    }

    #[inline]
    fn head(self) -> Head {
        Head(self.word.load(Relaxed))
    }

    /// Whether the block holds this key inside; the key must be short enough for that.
    #[inline(always)]
    pub(crate) fn is_key_inside(self, key: &[u8]) -> bool {
        entry::is_key(self.body, key)
    }

    /// Stores the access clock after a look-up. The store is atomic, so a shared reference suffices.
    #[inline]
    pub(crate) fn touch(self, touch: AccessUpdate) {
        let head = self.head();
        let clock = touch.after(head.clock());
        // An unchanged clock is not written, because the cache line of a key that is read twice in one clock
        // tick then stays clean.
        if head.clock() != clock {
            self.word.store(head.with_clock(clock).0, Relaxed);
        }
    }

    /// The value, of any type.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        self.db.value_in(self.head(), self.body)
    }
    /// The string; an error for a value of another type.
    #[inline]
    pub fn as_str(self) -> Result<Str<'a>, WrongType> {
        let head = self.head();
        // Most strings lie in their block, so their forms are checked first, one by one.
        if head.is_form(Form::StrInline) {
            return Ok(Str::Inline(entry::payload(head, self.body)));
        }
        if head.is_form(Form::StrInt) {
            return Ok(Str::Int(entry::int_of(entry::payload(head, self.body))));
        }
        match self.value() {
            ValueRef::Str(text) => Ok(text),
            ValueRef::List(_)
            | ValueRef::Hash(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => Err(WrongType),
        }
    }
    /// The list; an error for a value of another type.
    #[inline]
    pub fn as_list(self) -> Result<ListRef<'a>, WrongType> {
        match self.value() {
            ValueRef::List(list) => Ok(list),
            ValueRef::Str(_)
            | ValueRef::Hash(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => Err(WrongType),
        }
    }
    /// The hash; an error for a value of another type.
    #[inline]
    pub fn as_hash(self) -> Result<HashRef<'a>, WrongType> {
        match self.value() {
            ValueRef::Hash(hash) => Ok(hash),
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => Err(WrongType),
        }
    }
    /// The sorted set; an error for a value of another type.
    #[inline]
    pub fn as_zset(self) -> Result<ZsetRef<'a>, WrongType> {
        match self.value() {
            ValueRef::Zset(zset) => Ok(zset),
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Stream(_)
            | ValueRef::Hash(_)
            | ValueRef::Set(_) => Err(WrongType),
        }
    }
    /// The set; an error for a value of another type.
    #[inline]
    pub fn as_set(self) -> Result<SetRef<'a>, WrongType> {
        match self.value() {
            ValueRef::Set(set) => Ok(set),
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Hash(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_) => Err(WrongType),
        }
    }
    /// The stream; an error for a value of another type.
    #[inline]
    pub fn as_stream(self) -> Result<&'a Stream, WrongType> {
        match self.value() {
            ValueRef::Stream(stream) => Ok(stream),
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Hash(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => Err(WrongType),
        }
    }
    /// The key's bytes, wherever the key is stored.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        self.db.store.key_in(self.body)
    }
    /// Type of the value.
    pub fn type_of(self) -> Type {
        self.db.type_of(self.handle)
    }
    /// Encoding of the value, as OBJECT ENCODING reports it.
    pub fn encoding(self) -> Encoding {
        self.db.encoding(self.handle)
    }
    /// Expiry, ms since the epoch; `None` if the key does not expire.
    #[inline]
    pub fn expiry(self) -> Option<i64> {
        entry::expiry(self.head(), self.body)
    }
    /// The access clock: an LRU time in seconds or the LFU bits, depending on `maxmemory-policy`.
    pub fn clock(self) -> u32 {
        self.head().clock()
    }
    /// Bytes of the entry, its value and its share of the indexes.
    pub fn size_bytes(self) -> usize {
        self.db.entry_size(self.handle)
    }
}

impl Db {
    /// The entry of a handle, to read.
    #[inline]
    pub fn entry(&self, handle: Handle) -> Entry<'_> {
        Entry::of(self, handle)
    }

    /// The value of an entry whose head and body are known already.
    #[inline]
    pub(crate) fn value_in<'a>(&'a self, head: Head, body: &'a [u8]) -> ValueRef<'a> {
        value_of(head, body, |payload| self.value_at(payload))
    }

    /// The entry of `key`, expired or not. Its block is looked up once, for the comparison and
    /// for later reads.
    #[inline(always)]
    pub(crate) fn find_entry(&self, key: Key<'_>) -> Option<Entry<'_>> {
        if key.bytes.len() > entry::KEY_INSIDE_MAX {
            return self.find_outside(key);
        }
        let mut found = None;
        self.tables.index(IndexKind::Keys, key.hash).find(key.hash, |handle| {
            let entry = self.entry(handle);
            let is_it = entry.is_key_inside(key.bytes);
            if is_it {
                found = Some(entry);
            }
            is_it
        })?;
        found
    }

    #[cold]
    fn find_outside(&self, key: Key<'_>) -> Option<Entry<'_>> {
        self.find(key).map(|found| self.entry(found.handle))
    }

    /// Prefetches the memory that look-ups of these members (of a set or sorted set) or fields (of a
    /// hash) will read soon, if the collection is large. Changes nothing.
    pub fn prefetch_members<'n>(&self, key: Key<'_>, members: impl Iterator<Item = &'n [u8]>) {
        match self.find_entry(key).map(Entry::value) {
            Some(ValueRef::Set(set)) if set.len() >= PREFETCHED_FROM => set.prefetch(members),
            Some(ValueRef::Hash(hash)) if hash.len() >= PREFETCHED_FROM => hash.prefetch(members),
            Some(ValueRef::Zset(zset)) if zset.len() >= SORTED_PREFETCHED_FROM => zset.prefetch(members),
            // A smaller collection is not prefetched, because the cache holds it, and a prefetch costs a
            // second descent to the leaf.
            Some(_) | None => {}
        }
    }
}

/// Members of a set or fields of a hash are prefetched only if there are at least this many of them, which
/// is some 100 KB of short members.
const PREFETCHED_FROM: usize = 4096;

/// Members of a sorted set are prefetched only if there are at least this many of them; more than for a set,
/// because the index of a sorted set takes less of the cache.
const SORTED_PREFETCHED_FROM: usize = 32_768;

//! Entries, to look at.

use super::{Db, IndexKind};
use crate::entry::{self, Form, Head};
use crate::view::{Str, ValueRef, WrongType, value_of};
use crate::{AccessUpdate, Key};
use sluice_collections::slab::Handle;
use sluice_value::{Encoding, HashRef, ListRef, SetRef, Stream, Type, ZsetRef};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A key that is there, to look at.
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

    /// Whether the block names this key, which is short enough to lie inside.
    #[inline(always)]
    pub(crate) fn is_key_inside(self, key: &[u8]) -> bool {
        entry::is_key(self.body, key)
    }

    /// Stores the access clock that a look-up leaves; a plain store, so that a shared database can record it
    /// too.
    #[inline]
    pub(crate) fn touch(self, touch: AccessUpdate) {
        let head = self.head();
        let clock = touch.after(head.clock());
        // Writing only when it changes keeps the line clean for keys read twice in one clock tick.
        if head.clock() != clock {
            self.word.store(head.with_clock(clock).0, Relaxed);
        }
    }

    /// The value.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        self.db.value_in(self.head(), self.body)
    }
    /// The string, for commands that work on strings alone.
    #[inline]
    pub fn as_str(self) -> Result<Str<'a>, WrongType> {
        let head = self.head();
        // Most strings lie in their block: their forms are asked about one by one.
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
    /// The list, for commands that work on lists alone.
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
    /// The hash, for commands that work on hashes alone.
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
    /// The sorted set, for commands that work on sorted sets alone.
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
    /// The set, for commands that work on sets alone.
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
    /// The stream, for commands that work on streams alone.
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
    /// The key itself.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        self.db.store.key_in(self.body)
    }
    /// Type of the value.
    pub fn type_of(self) -> Type {
        self.db.type_of(self.handle)
    }
    /// How it is stored.
    pub fn encoding(self) -> Encoding {
        self.db.encoding(self.handle)
    }
    /// Expiry, ms since the epoch.
    #[inline]
    pub fn expiry(self) -> Option<i64> {
        entry::expiry(self.head(), self.body)
    }
    /// The access clock: LRU seconds or LFU bits, by policy.
    pub fn clock(self) -> u32 {
        self.head().clock()
    }
    /// Bytes it takes, its share of the indexes included.
    pub fn size_bytes(self) -> usize {
        self.db.entry_size(self.handle)
    }
}

impl Db {
    /// An entry, to look at.
    #[inline]
    pub fn entry(&self, handle: Handle) -> Entry<'_> {
        Entry::of(self, handle)
    }

    /// The value of an entry that was looked at already.
    #[inline]
    pub(crate) fn value_in<'a>(&'a self, head: Head, body: &'a [u8]) -> ValueRef<'a> {
        value_of(head, body, |payload| self.value_at(payload))
    }

    /// The entry of `key`, expired or not, to look at: one look-up of its block for the comparison and for
    /// what follows.
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

    /// Asks the processor for what it takes to look members of a set or a sorted set, or fields of a hash, up
    /// soon. Leaves no trace.
    pub fn prefetch_members<'n>(&self, key: Key<'_>, members: impl Iterator<Item = &'n [u8]>) {
        match self.find_entry(key).map(Entry::value) {
            Some(ValueRef::Set(set)) if set.len() >= PREFETCHED_FROM => set.prefetch(members),
            Some(ValueRef::Hash(hash)) if hash.len() >= PREFETCHED_FROM => hash.prefetch(members),
            Some(ValueRef::Zset(zset)) if zset.len() >= SORTED_PREFETCHED_FROM => zset.prefetch(members),
            // The cache holds a smaller one: to ask for a member costs a second way to its leaf.
            Some(_) | None => {}
        }
    }
}

/// Members or fields of a set or hash from which on requests for them ask for memory ahead: some 100 KB, of
/// short members.
const PREFETCHED_FROM: usize = 4096;

/// Members of a sorted set from which on requests for them ask for memory ahead: its index takes less of the
/// cache.
const SORTED_PREFETCHED_FROM: usize = 32_768;

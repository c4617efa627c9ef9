//! Values as readers see them.

use crate::Touch;
use crate::collection::Variant;
use crate::db::{Db, mixed_up};
use crate::entry::{self, Form, Head};
use sluice_base::Bytes;
use sluice_collections::slab::Handle;
use sluice_value::{
    Encoding, Hash, HashEncoding, HashRef, List, ListEncoding, ListRef, Pages, Piece, Set, SetEncoding,
    SetRef, Stream, Type, Value, Zset, ZsetEncoding, ZsetRef,
};
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The value of a key, to read. Readers name every type.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(sluice_probe = "value-ref", non_exhaustive)]
pub enum ValueRef<'a> {
    /// A string.
    Str(Str<'a>),
    /// A list.
    List(ListRef<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// A stream.
    Stream(&'a Stream),
    /// A sorted set.
    Zset(ZsetRef<'a>),
    /// A set.
    Set(SetRef<'a>),
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
    /// Pages that can be shared: more bytes than [`sluice_value::PAGE_BYTES`].
    Pages(&'a Pages),
}

/// The key holds a value of another type than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

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

    /// Stores the access clock that a look-up leaves; a plain store, so that a shared database can record it too.
    #[inline]
    pub(crate) fn touch(self, touch: Touch) {
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
    pub fn key(self) -> &'a [u8] {
        self.db.key(self.handle)
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

impl Str<'_> {
    /// The string's bytes, copied.
    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Str::Int(n) => n.to_string().into_bytes(),
            Str::Inline(bytes) => bytes.to_vec(),
            Str::Shared(bytes) => bytes.to_vec(),
            Str::Pages(pages) => pages.to_vec(),
        }
    }

    /// The same in a vector with room for `capacity` bytes.
    pub(crate) fn to_vec_for(self, capacity: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(capacity.max(self.len()));
        self.for_each_slice(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            Str::Int(n) => sluice_base::num::digits_i64(n),
            Str::Inline(bytes) => bytes.len(),
            Str::Shared(bytes) => bytes.len(),
            Str::Pages(pages) => pages.len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the bytes of a string in one piece, without allocating; `None` for one in pages.
    #[inline]
    pub fn in_one_piece<R>(self, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            Str::Int(n) => {
                let mut buffer = sluice_base::num::IntBuffer::new();
                Some(f(buffer.format(n)))
            }
            Str::Inline(bytes) => Some(f(bytes)),
            Str::Shared(bytes) => Some(f(bytes)),
            Str::Pages(_) => None,
        }
    }

    /// Calls `f` with the bytes, slice by slice, without allocating.
    pub fn for_each_slice(self, mut f: impl FnMut(&[u8])) {
        match self {
            Str::Pages(pages) => pages.slices(0..pages.len()).for_each(f),
            Str::Int(_) | Str::Inline(_) | Str::Shared(_) => {
                self.in_one_piece(&mut f);
            }
        }
    }

    /// Calls `f` with the bytes of `range`, which is cut to the string, piece by piece, without allocating.
    pub fn for_each_piece(self, range: Range<usize>, mut f: impl FnMut(Piece<'_>)) {
        match self {
            Str::Pages(pages) => pages.pieces(range).for_each(f),
            Str::Int(_) | Str::Inline(_) | Str::Shared(_) => {
                self.in_one_piece(|bytes| {
                    let end = range.end.min(bytes.len());
                    if let Some(part) = bytes.get(range.start..end)
                        && !part.is_empty()
                    {
                        f(Piece::Part(part));
                    }
                });
            }
        }
    }

    /// Copies the bytes from `offset` on into `target`; zeros stand for those behind the end.
    pub fn copy_at(self, offset: usize, target: &mut [u8]) {
        let mut filled = 0;
        self.for_each_piece(offset..offset.saturating_add(target.len()), |piece| {
            let bytes = piece.bytes();
            target[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        });
        target[filled..].fill(0);
    }

    /// Whether these are the bytes.
    pub fn is(self, bytes: &[u8]) -> bool {
        match self {
            Str::Pages(pages) => pages.is(bytes),
            Str::Int(_) | Str::Inline(_) | Str::Shared(_) => {
                self.in_one_piece(|text| text == bytes).unwrap_or(false)
            }
        }
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
}

/// The value of an entry; `outside` gives the one that a payload names.
#[inline]
pub(crate) fn value_of<'a>(
    head: Head,
    body: &'a [u8],
    outside: impl FnOnce(&'a [u8]) -> &'a Value,
) -> ValueRef<'a> {
    let payload = entry::payload(head, body);
    match head.form() {
        Form::StrInline | Form::StrInlineRaw => ValueRef::Str(Str::Inline(payload)),
        Form::StrInt => ValueRef::Str(Str::Int(entry::int_of(payload))),
        Form::StrOutside => match outside(payload) {
            Value::Str(bytes) => ValueRef::Str(Str::Shared(bytes)),
            Value::Pages(pages) => ValueRef::Str(Str::Pages(pages)),
            Value::List(_) | Value::Hash(_) | Value::Stream(_) | Value::Zset(_) | Value::Set(_) => mixed_up(),
        },
        Form::ListInlineListpack => {
            ValueRef::List(ListRef::Inline { bytes: payload, encoding: ListEncoding::Listpack })
        }
        Form::ListInlineQuicklist => {
            ValueRef::List(ListRef::Inline { bytes: payload, encoding: ListEncoding::Quicklist })
        }
        Form::ListOutside => ValueRef::List(List::of(outside(payload)).view()),
        Form::HashInlineListpack => {
            ValueRef::Hash(HashRef::Inline { bytes: payload, encoding: HashEncoding::Listpack })
        }
        Form::HashInlineHashtable => {
            ValueRef::Hash(HashRef::Inline { bytes: payload, encoding: HashEncoding::Hashtable })
        }
        Form::HashOutside => ValueRef::Hash(Hash::of(outside(payload)).view()),
        Form::ZsetInlineListpack => {
            ValueRef::Zset(ZsetRef::Inline { bytes: payload, encoding: ZsetEncoding::Listpack })
        }
        Form::ZsetInlineSkiplist => {
            ValueRef::Zset(ZsetRef::Inline { bytes: payload, encoding: ZsetEncoding::Skiplist })
        }
        Form::ZsetOutside => ValueRef::Zset(Zset::of(outside(payload)).view()),
        Form::SetInlineIntset => {
            ValueRef::Set(SetRef::Inline { bytes: payload, encoding: SetEncoding::Intset })
        }
        Form::SetInlineListpack => {
            ValueRef::Set(SetRef::Inline { bytes: payload, encoding: SetEncoding::Listpack })
        }
        Form::SetInlineHashtable => {
            ValueRef::Set(SetRef::Inline { bytes: payload, encoding: SetEncoding::Hashtable })
        }
        Form::SetOutside => ValueRef::Set(Set::of(outside(payload)).view()),
        Form::StreamOutside => ValueRef::Stream(Stream::of(outside(payload))),
    }
}

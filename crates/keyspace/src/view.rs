//! Values as commands read them.

use crate::collection::Variant;
use crate::entry::{self, Form, Head, corrupt_entry};
use sluice_base::Bytes;
use sluice_value::{
    Hash, HashEncoding, HashRef, List, ListEncoding, ListRef, Pages, Piece, Set, SetEncoding, SetRef, Stream,
    Value, Zset, ZsetEncoding, ZsetRef,
};
use std::ops::Range;

/// The value of a key, to read. Code that reads values lists every type in its `match`, so that a new type is
/// a compile error wherever values are read.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(sluice_probe = "value-ref", non_exhaustive)]
pub enum ValueRef<'a> {
    /// A string, inside the entry or outside.
    Str(Str<'a>),
    /// A list, inside the entry or outside.
    List(ListRef<'a>),
    /// A hash, inside the entry or outside.
    Hash(HashRef<'a>),
    /// A stream, always outside the entry.
    Stream(&'a Stream),
    /// A sorted set, inside the entry or outside.
    Zset(ZsetRef<'a>),
    /// A set, inside the entry or outside.
    Set(SetRef<'a>),
}

/// A string value, as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// An integer, whose decimal form is the string.
    Int(i64),
    /// Bytes in the entry.
    Inline(&'a [u8]),
    /// Bytes outside the entry, in one piece, that can be shared without a copy.
    Shared(&'a Bytes),
    /// Pages that can be shared without a copy: more bytes than [`sluice_value::PAGE_BYTES`].
    Pages(&'a Pages),
}

/// The error that the key holds a value of another type than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

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

    /// The bytes, in a vector with room for `capacity` of them.
    pub(crate) fn to_vec_for(self, capacity: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(capacity.max(self.len()));
        self.for_each_slice(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// Length of the string in bytes.
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

    /// Calls `f` with the bytes of a string in one piece, without allocating; `None` for a string in pages.
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

    /// Calls `f` with the bytes of `range`, clamped to the string, piece by piece, without allocating.
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

    /// Copies the bytes from `offset` on into `target`; past the end of the string it writes zeros.
    pub fn copy_at(self, offset: usize, target: &mut [u8]) {
        let mut filled = 0;
        self.for_each_piece(offset..offset.saturating_add(target.len()), |piece| {
            let bytes = piece.bytes();
            target[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        });
        target[filled..].fill(0);
    }

    /// Whether the string equals `bytes`.
    pub fn is(self, bytes: &[u8]) -> bool {
        match self {
            Str::Pages(pages) => pages.is(bytes),
            Str::Int(_) | Str::Inline(_) | Str::Shared(_) => {
                self.in_one_piece(|text| text == bytes).unwrap_or(false)
            }
        }
    }
}

/// The value of an entry; `outside` looks up the value to which a payload refers.
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
            Value::List(_) | Value::Hash(_) | Value::Stream(_) | Value::Zset(_) | Value::Set(_) => {
                corrupt_entry()
            }
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

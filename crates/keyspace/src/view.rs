//! Values as readers see them.

use crate::Touch;
use crate::db::Db;
use crate::entry::{self, Head};
use sluice_base::Bytes;
use sluice_collections::slab::Handle;
use sluice_value::{Encoding, ListRef, Type};
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
        match self.value() {
            ValueRef::Str(text) => Ok(text),
            ValueRef::List(_) => Err(WrongType),
        }
    }
    /// The list, for commands that work on lists alone.
    #[inline]
    pub fn as_list(self) -> Result<ListRef<'a>, WrongType> {
        match self.value() {
            ValueRef::List(list) => Ok(list),
            ValueRef::Str(_) => Err(WrongType),
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
        }
    }

    /// The same in a vector with room for `capacity` bytes.
    pub(crate) fn to_vec_for(self, capacity: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(capacity.max(self.len()));
        self.with(|text| bytes.extend_from_slice(text));
        bytes
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            Str::Int(n) => sluice_base::num::digits_i64(n),
            Str::Inline(bytes) => bytes.len(),
            Str::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the bytes, without allocating.
    #[inline]
    pub fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Str::Int(n) => {
                let mut buffer = sluice_base::num::IntBuffer::new();
                f(buffer.format(n))
            }
            Str::Inline(bytes) => f(bytes),
            Str::Shared(bytes) => f(bytes),
        }
    }

    /// The shared bytes, when they are kept that way.
    pub fn shared(self) -> Option<Bytes> {
        match self {
            Str::Shared(bytes) => Some(bytes.clone()),
            Str::Int(_) | Str::Inline(_) => None,
        }
    }
}

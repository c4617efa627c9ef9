//! Values: each type of the data model with its encodings, and what they cost.
//!
//! A type joins as a variant of [`Value`] with its module. Small strings, integers and small collections do
//! not appear here: the keyspace keeps them inside the key's entry.
//!
//! A value moves. [`Value::share`] alone makes a second owner, in O(1). Code that reads values names every
//! variant, so that a new one is a compile error wherever values are read, copied, saved, digested, measured
//! or freed; `cargo xtask probe` proves it by adding one.
#![forbid(unsafe_code)]

pub mod geo;
pub mod hash;
pub mod hll;
pub mod list;
mod pages;
pub mod set;
pub mod stream;
pub mod zset;

use sluice_base::Bytes;

pub use hash::{Hash, HashContext, HashEncoding, HashField, HashIter, HashLimits, HashRef};
pub use sluice_collections::hash_tree::Expiry as HashExpiry;

pub use list::{List, ListContext, ListEncoding, ListItem, ListIter, ListLimits, ListRef};
pub use pages::{PAGE_BYTES, Pages, Piece};
pub use set::{Set, SetContext, SetEncoding, SetFinder, SetGathering, SetIter, SetLimits, SetRef};
pub use stream::{Stream, StreamContext, StreamId, StreamLimits};
pub use zset::{Direction, Edge, Zset, ZsetContext, ZsetEncoding, ZsetIter, ZsetLimits, ZsetRef};

/// A value that lives beside its entry: a large string or a collection. It has no `Clone`: see
/// [`Value::share`].
#[derive(Debug)]
#[cfg_attr(sluice_probe = "value", non_exhaustive)]
pub enum Value {
    /// A string too large for its entry, in one piece.
    Str(Bytes),
    /// A string too large to be copied at once.
    Pages(Pages),
    /// A list.
    List(List),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
    /// A sorted set.
    Zset(Zset),
    /// A set.
    Set(Set),
    /// Nothing: the variant that `cargo xtask probe` adds.
    #[cfg(sluice_probe = "variant")]
    Probe,
}

/// The type of a value, as TYPE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
    /// A sorted set.
    Zset,
    /// A set.
    Set,
}

impl Type {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Hash => "hash",
            Type::Stream => "stream",
            Type::Zset => "zset",
            Type::Set => "set",
        }
    }
}

/// How a value is stored, as OBJECT ENCODING answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A 64-bit integer.
    Int,
    /// Bytes in one piece with their entry.
    Embstr,
    /// Bytes of their own.
    Raw,
    /// A collection small enough for one listpack.
    Listpack,
    /// A list of listpacks.
    Quicklist,
    /// Integers in ascending order.
    Intset,
    /// A hash table.
    Hashtable,
    /// Macro nodes by their ids.
    Stream,
    /// A sorted set of more than one listpack.
    Skiplist,
}

impl Encoding {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::Quicklist => "quicklist",
            Encoding::Intset => "intset",
            Encoding::Hashtable => "hashtable",
            Encoding::Stream => "stream",
            // What the reference keeps large sorted sets in; clients know the name.
            Encoding::Skiplist => "skiplist",
        }
    }
}

impl From<ListEncoding> for Encoding {
    fn from(encoding: ListEncoding) -> Encoding {
        match encoding {
            ListEncoding::Listpack => Encoding::Listpack,
            ListEncoding::Quicklist => Encoding::Quicklist,
        }
    }
}

impl From<HashEncoding> for Encoding {
    fn from(encoding: HashEncoding) -> Encoding {
        match encoding {
            HashEncoding::Listpack => Encoding::Listpack,
            HashEncoding::Hashtable => Encoding::Hashtable,
        }
    }
}

impl From<SetEncoding> for Encoding {
    fn from(encoding: SetEncoding) -> Encoding {
        match encoding {
            SetEncoding::Intset => Encoding::Intset,
            SetEncoding::Listpack => Encoding::Listpack,
            SetEncoding::Hashtable => Encoding::Hashtable,
        }
    }
}

impl From<ZsetEncoding> for Encoding {
    fn from(encoding: ZsetEncoding) -> Encoding {
        match encoding {
            ZsetEncoding::Listpack => Encoding::Listpack,
            ZsetEncoding::Skiplist => Encoding::Skiplist,
        }
    }
}

impl Value {
    /// Bytes allocated beyond the enum itself. O(1).
    pub fn heap_bytes(&self) -> usize {
        match self {
            // The reference count and the vector's header, then the contents.
            Value::Str(bytes) => 40 + bytes.capacity(),
            Value::Pages(pages) => pages.heap_bytes(),
            Value::List(list) => list.heap_bytes(),
            Value::Hash(hash) => hash.heap_bytes(),
            Value::Stream(stream) => stream.heap_bytes(),
            Value::Zset(zset) => zset.heap_bytes(),
            Value::Set(set) => set.heap_bytes(),
        }
    }

    /// Bytes that the allocator has given beyond the enum itself; about, for a value of many pieces. O(1).
    pub fn footprint(&self) -> usize {
        match self {
            Value::Str(bytes) => bytes.footprint(),
            // All but the ends of a list is in pieces of whole size classes; so is a sorted set.
            Value::Pages(_)
            | Value::List(_)
            | Value::Hash(_)
            | Value::Stream(_)
            | Value::Zset(_)
            | Value::Set(_) => self.heap_bytes(),
        }
    }

    /// A second owner of the same contents. A writer copies what it changes while there are two. O(1).
    pub fn share(&self) -> Value {
        match self {
            Value::Str(bytes) => Value::Str(bytes.clone()),
            Value::Pages(pages) => Value::Pages(pages.share()),
            Value::List(list) => Value::List(list.share()),
            Value::Hash(hash) => Value::Hash(hash.share()),
            Value::Stream(stream) => Value::Stream(stream.share()),
            Value::Zset(zset) => Value::Zset(zset.share()),
            Value::Set(set) => Value::Set(set.share()),
        }
    }

    /// Whether a part of the value has another owner. O(1).
    pub fn is_shared(&self) -> bool {
        match self {
            Value::Str(bytes) => bytes.is_shared(),
            Value::Pages(pages) => pages.is_shared(),
            Value::List(list) => list.is_shared(),
            Value::Hash(hash) => hash.is_shared(),
            Value::Stream(stream) => stream.is_shared(),
            Value::Zset(zset) => zset.is_shared(),
            Value::Set(set) => set.is_shared(),
        }
    }

    /// Bytes allocated that have no other owner, and go with this one. Cost: one step for each part that is
    /// not shared.
    pub fn own_bytes(&self) -> usize {
        match self {
            Value::Str(bytes) if bytes.is_shared() => 0,
            Value::Str(_) => self.heap_bytes(),
            Value::Pages(pages) => pages.own_bytes(),
            Value::List(list) => list.own_bytes(),
            Value::Hash(hash) => hash.own_bytes(),
            Value::Stream(stream) => stream.own_bytes(),
            Value::Zset(zset) => zset.own_bytes(),
            Value::Set(set) => set.own_bytes(),
        }
    }

    /// Whether freeing the value is work for another thread, where one of more than `bytes_max` bytes is. A
    /// collection of many pieces always is, and a string of many pages: what the main thread drops is small,
    /// shared or not.
    pub fn is_freed_elsewhere(&self, bytes_max: usize) -> bool {
        match self {
            Value::Str(_) => self.heap_bytes() > bytes_max,
            Value::Pages(pages) => pages.heap_bytes() > bytes_max.saturating_mul(PAGES_MULTIPLE),
            Value::List(list) => list.heap_bytes() > bytes_max.min(PACKED_BYTES_MAX),
            Value::Hash(hash) => hash.heap_bytes() > bytes_max.min(PACKED_BYTES_MAX),
            Value::Stream(stream) => stream.heap_bytes() > bytes_max.min(PACKED_BYTES_MAX),
            Value::Set(set) => set.heap_bytes() > bytes_max.min(PACKED_BYTES_MAX),
            Value::Zset(zset) => !zset.is_small() || zset.heap_bytes() > bytes_max,
        }
    }
}

/// So many times as many bytes are freed where they are of a string in pages, 2 MiB where 1 MiB of others
/// are: a megabyte takes 3 µs, and to wake a thread that sleeps took a quarter of a BITOP NOT of a megabyte.
const PAGES_MULTIPLE: usize = 2;
/// A collection that takes no more bytes than this is in one piece.
const PACKED_BYTES_MAX: usize = 8 << 10;

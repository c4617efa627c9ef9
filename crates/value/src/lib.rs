//! Values: the types of the data model with their encodings and memory costs.
//!
//! Each type of collection has a variant of [`Value`] and a module. Strings have two variants, and the
//! modules `hll` and `geo` interpret strings and scores. Small strings, integers and small collections are no
//! [`Value`], because the keyspace keeps them inside the key's entry.
//!
//! [`Value`] does not implement `Clone`: only [`Value::share`] makes a second owner, in O(1). Code that reads
//! values names every variant, so a new variant causes a compile error wherever values are read, copied,
//! saved, digested, measured or freed; `cargo xtask probe` proves this by adding one.
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

/// A value outside of its keyspace entry: a large string or a collection. It does not implement `Clone`: see
/// [`Value::share`].
#[derive(Debug)]
#[cfg_attr(sluice_probe = "value", non_exhaustive)]
pub enum Value {
    /// A string in one piece that is too large for its entry.
    Str(Bytes),
    /// A string that is too large to be copied at once.
    Pages(Pages),
    /// A list with its own allocation; small lists are kept inline in their entry.
    List(List),
    /// A hash with its own allocation; small hashes are kept inline in their entry.
    Hash(Hash),
    /// A stream with its consumer groups.
    Stream(Stream),
    /// A sorted set with its own allocation; small ones are kept inline in their entry.
    Zset(Zset),
    /// A set with its own allocation; small sets are kept inline in their entry.
    Set(Set),
    /// A variant without a value. `cargo xtask probe` compiles it in to test that every `match` on values
    /// then fails.
    #[cfg(sluice_probe = "variant")]
    Probe,
}

/// The type of a value, as TYPE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Strings of every form: integers, bytes and pages.
    String,
    /// Lists of strings, changed at both ends or by index.
    List,
    /// Hashes of fields, with or without expiries.
    Hash,
    /// Streams of entries, with consumer groups.
    Stream,
    /// Sorted sets of members with scores.
    Zset,
    /// Sets of members without scores.
    Set,
}

impl Type {
    /// The name that TYPE replies.
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

/// The encoding of a value, as OBJECT ENCODING reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string that is the canonical form of a 64-bit integer.
    Int,
    /// A short string that the reference keeps in one piece with its key.
    Embstr,
    /// A longer string, or one that was built in pieces.
    Raw,
    /// A collection small enough for one listpack.
    Listpack,
    /// A list of listpacks.
    Quicklist,
    /// Integers in ascending order.
    Intset,
    /// A hash table: sets and hashes beyond the thresholds of a listpack.
    Hashtable,
    /// A stream: macro nodes ordered by their ids.
    Stream,
    /// A sorted set that is too large for one listpack.
    Skiplist,
}

impl Encoding {
    /// The name that OBJECT ENCODING replies.
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
            // The name is that of the reference's structure for large sorted sets, because clients know this
            // name.
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
            // The reference count and the vector's header take 40 bytes, in addition to the contents.
            Value::Str(bytes) => 40 + bytes.capacity(),
            Value::Pages(pages) => pages.heap_bytes(),
            Value::List(list) => list.heap_bytes(),
            Value::Hash(hash) => hash.heap_bytes(),
            Value::Stream(stream) => stream.heap_bytes(),
            Value::Zset(zset) => zset.heap_bytes(),
            Value::Set(set) => set.heap_bytes(),
        }
    }

    /// Bytes that the value takes from the allocator, beyond the enum itself; approximate for a value of many
    /// pieces. O(1).
    pub fn footprint(&self) -> usize {
        match self {
            Value::Str(bytes) => bytes.footprint(),
            // `heap_bytes` is nearly the same, because lists, except for their ends, and sorted sets consist
            // of blocks that fill the allocator's size classes.
            Value::Pages(_)
            | Value::List(_)
            | Value::Hash(_)
            | Value::Stream(_)
            | Value::Zset(_)
            | Value::Set(_) => self.heap_bytes(),
        }
    }

    /// A second owner of the same contents. While there are two owners, a writer copies the parts it changes.
    /// O(1).
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

    /// Whether the top of the value has another owner. If only parts below the top are shared, the result is
    /// `false`. O(1).
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

    /// Bytes allocated without another owner, which are freed with this value. Cost: one step for each
    /// part that is not shared.
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

    /// Whether the value is to be freed on another thread. This is so for a string of more than
    /// `bytes_max` bytes, for a string in pages of more than `PAGES_MULTIPLE` times that, for a sorted
    /// set in many pieces or of more than `bytes_max` bytes, and for another collection that has more
    /// bytes than `bytes_max` or than `PACKED_BYTES_MAX`. So the main thread frees only small values,
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

/// A string in pages may have this many times the bytes of other values before another thread frees it: by
/// default 2 MiB instead of 1 MiB. Freeing a megabyte on the main thread takes only 3 µs, whereas waking a
/// sleeping thread to free it took a quarter of the time of a BITOP NOT of a megabyte.
const PAGES_MULTIPLE: usize = 2;
/// A collection of at most this many bytes has so few pieces that the main thread may free it.
const PACKED_BYTES_MAX: usize = 8 << 10;

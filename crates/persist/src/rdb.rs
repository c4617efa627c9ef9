//! RDB, the snapshot format: a header, fields about the file, function libraries, databases of keys, a
//! checksum.
//!
//! `docs/formats/rdb.md` describes the bytes. Strings, lists, sets, hashes, sorted sets and streams can
//! be read. A module's value or a path hash is refused with the names of the type and the key, or skipped.

mod crc;
mod cursor;
mod decoder;
mod error;
mod foreign;
mod frame;
mod hash;
mod item;
mod judge;
mod kind;
mod list;
mod lz4;
mod pack;
mod packed_stream;
mod part;
mod payload;
mod reader;
mod set;
mod skip;
mod stream;
mod writer;
mod ziplist;
mod zset;
mod zstd;

pub use error::{LoadError, Problem};
pub use foreign::{ForeignType, ModuleType};
pub use frame::CompressionMethod;
pub use item::{Item, Loaded, LoadedEntry, Mended, ReadOptions, SlotSizes, Unknown};
pub use judge::Judge;
pub use pack::Packer;
pub use packed_stream::{PackedStream, StreamError, fuzz_packed_stream};
pub use payload::{
    Dumped, FunctionRecords, FunctionsError, PayloadError, dump, dump_functions, fuzz_functions,
    fuzz_payload, is_same_for_valkey, restore, restore_entry, restore_functions,
};
pub use reader::{ReadProgress, Reader, fuzz_rdb};
pub use writer::{Compression, WriteOptions, Writer};

/// The first bytes of a compressed file: the envelope's magic, and that of drafts before the release.
pub const ENVELOPES: [&[u8]; 2] = [frame::MAGIC, frame::DRAFT_MAGIC];

/// The first bytes of RDB files, compressed or not, of all servers.
pub const MAGICS: [&[u8]; 4] = [b"REDIS", b"VALKEY", frame::MAGIC, frame::DRAFT_MAGIC];

/// The version in which a file is written, depending on the servers that are to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `REDIS0011`: for Redis 7.2 and later, and for all versions of Valkey.
    Common,
    /// `VALKEY080`: for Valkey 9 and later. `VALKEY081`, which Valkey 9.2 writes, can be read.
    Valkey,
}

impl Version {
    /// The first nine bytes of a file.
    pub fn magic(self) -> &'static [u8; 9] {
        match self {
            Version::Common => b"REDIS0011",
            Version::Valkey => b"VALKEY080",
        }
    }
}

/// A string, either as an integer or as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// The canonical form of this integer.
    Int(i64),
    /// Any other string, as its bytes.
    Bytes(&'a [u8]),
}

/// How recently or how often a key was used, as a file states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// The file states neither for this key.
    #[default]
    Absent,
    /// Seconds since the last use.
    Idle(u64),
    /// The logarithmic counter of uses (LFU).
    Frequency(u8),
}

/// Opcodes and value types, which share a byte.
mod op {
    pub(crate) const SLOT_IMPORT: u8 = 0xf3;
    pub(crate) const SLOT_INFO: u8 = 0xf4;
    pub(crate) const FUNCTION: u8 = 0xf5;
    pub(crate) const FUNCTION_OLD: u8 = 0xf6;
    pub(crate) const MODULE_AUX: u8 = 0xf7;
    pub(crate) const IDLE: u8 = 0xf8;
    pub(crate) const FREQUENCY: u8 = 0xf9;
    pub(crate) const AUX: u8 = 0xfa;
    pub(crate) const RESIZE_DB: u8 = 0xfb;
    pub(crate) const EXPIRY_MS: u8 = 0xfc;
    pub(crate) const EXPIRY_S: u8 = 0xfd;
    pub(crate) const SELECT_DB: u8 = 0xfe;
    pub(crate) const EOF: u8 = 0xff;
    pub(crate) const TYPE_STRING: u8 = 0;
    pub(crate) const TYPE_LIST: u8 = 1;
    pub(crate) const TYPE_HASH: u8 = 4;
    pub(crate) const TYPE_HASH_ZIPMAP: u8 = 9;
    pub(crate) const TYPE_LIST_ZIPLIST: u8 = 10;
    pub(crate) const TYPE_HASH_ZIPLIST: u8 = 13;
    pub(crate) const TYPE_HASH_LISTPACK: u8 = 16;
    /// A hash whose fields expire, as release candidates of Redis 7.4 wrote it: field by field.
    pub(crate) const TYPE_HASH_DRAFT_VOLATILE: u8 = 22;
    /// A hash whose fields expire, as release candidates of Redis 7.4 wrote it: one listpack.
    pub(crate) const TYPE_HASH_DRAFT_LISTPACK: u8 = 23;
    /// Fields with expiries, as Valkey writes them from version 9 on.
    pub(crate) const TYPE_HASH_VOLATILE: u8 = 22;
    /// Paths with fields and values, as Valkey writes them from version 9.2 on.
    pub(crate) const TYPE_PATH_HASH: u8 = 23;
    /// A hash whose fields expire, as Redis writes it from version 7.4 on: field by field.
    pub(crate) const TYPE_HASH_REDIS_VOLATILE: u8 = 24;
    /// A hash whose fields expire, as Redis writes it from version 7.4 on: one listpack.
    pub(crate) const TYPE_HASH_REDIS_LISTPACK: u8 = 25;
    /// A module's value, from release candidates of Redis 4.0.
    pub(crate) const TYPE_OLD_MODULE: u8 = 6;
    pub(crate) const TYPE_MODULE: u8 = 7;
    pub(crate) const TYPE_SET: u8 = 2;
    pub(crate) const TYPE_SET_INTSET: u8 = 11;
    pub(crate) const TYPE_LIST_QUICKLIST: u8 = 14;
    pub(crate) const TYPE_STREAM: u8 = 15;
    pub(crate) const TYPE_LIST_QUICKLIST_2: u8 = 18;
    pub(crate) const TYPE_STREAM_2: u8 = 19;
    pub(crate) const TYPE_STREAM_3: u8 = 21;
    pub(crate) const TYPE_ZSET: u8 = 3;
    pub(crate) const TYPE_ZSET_2: u8 = 5;
    pub(crate) const TYPE_ZSET_ZIPLIST: u8 = 12;
    pub(crate) const TYPE_ZSET_LISTPACK: u8 = 17;
    pub(crate) const TYPE_SET_LISTPACK: u8 = 20;
}

/// First bytes of lengths of 32 and 64 bits, and of strings that are not stored as plain bytes.
mod form {
    pub(crate) const LEN_32: u8 = 0x80;
    pub(crate) const LEN_64: u8 = 0x81;
    pub(crate) const INT_8: u8 = 0xc0;
    pub(crate) const INT_16: u8 = 0xc1;
    pub(crate) const INT_32: u8 = 0xc2;
    pub(crate) const LZF: u8 = 0xc3;
}

//! RDB, the snapshot format: a header, fields about the file, databases of keys, a checksum.
//!
//! `docs/formats/rdb.md` describes the bytes. Strings and lists are the types so far; a file with another is
//! refused by name.

mod crc;
mod list;
mod reader;
mod writer;
mod ziplist;

pub use list::ListNode;
pub use reader::{Item, LoadError, Problem, Reader, fuzz_rdb};
pub use writer::{Options, Writer};

/// Which reader a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `REDIS0011`: what every reader of the last years understands.
    Common,
    /// `VALKEY080`: Valkey 9 and later.
    Valkey,
}

impl Version {
    /// The nine bytes that begin a file.
    pub fn magic(self) -> &'static [u8; 9] {
        match self {
            Version::Common => b"REDIS0011",
            Version::Valkey => b"VALKEY080",
        }
    }
}

/// A string, or an integer kept instead of its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// An integer.
    Int(i64),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// What a file may say about the last use of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// Nothing.
    #[default]
    Unsaid,
    /// Seconds since then.
    Idle(u64),
    /// The logarithmic counter of uses.
    Frequency(u8),
}

/// Opcodes, and the types of values, which share a byte.
mod op {
    pub const IDLE: u8 = 0xf8;
    pub const FREQUENCY: u8 = 0xf9;
    pub const AUX: u8 = 0xfa;
    pub const RESIZE_DB: u8 = 0xfb;
    pub const EXPIRY_MS: u8 = 0xfc;
    pub const EXPIRY_S: u8 = 0xfd;
    pub const SELECT_DB: u8 = 0xfe;
    pub const EOF: u8 = 0xff;
    pub const TYPE_STRING: u8 = 0;
    pub const TYPE_LIST: u8 = 1;
    pub const TYPE_LIST_ZIPLIST: u8 = 10;
    pub const TYPE_LIST_QUICKLIST: u8 = 14;
    pub const TYPE_LIST_QUICKLIST_2: u8 = 18;
}

/// First bytes of lengths, and of strings that are no plain bytes.
mod form {
    pub const LEN_32: u8 = 0x80;
    pub const LEN_64: u8 = 0x81;
    pub const INT_8: u8 = 0xc0;
    pub const INT_16: u8 = 0xc1;
    pub const INT_32: u8 = 0xc2;
    pub const LZF: u8 = 0xc3;
}

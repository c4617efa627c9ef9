//! How a file is read, and what it holds.

use sluice_base::HashSeed;
use sluice_value::{Hash, HashLimits, List, ListLimits, Pages, Set, SetLimits, Stream, Zset, ZsetLimits};
use std::borrow::Cow;
use std::fmt;

use super::Usage;
use super::foreign::{ForeignType, ModuleType};

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// What becomes of what is not known. Setting `rdb-version-check`.
    pub unknown: Unknown,
    /// Whether the checksum is compared. Setting `rdbchecksum`.
    pub checksum: bool,
    /// The thresholds of the lists that are made.
    pub list: ListLimits,
    /// The thresholds of the hashes that are made.
    pub hash: HashLimits,
    /// The thresholds of the sorted sets that are made.
    pub zset: ZsetLimits,
    /// The thresholds of the sets that are made.
    pub set: SetLimits,
    /// Under which members of large collections are hashed.
    pub member_seed: HashSeed,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            unknown: Unknown::Refuse,
            checksum: true,
            list: ListLimits::default(),
            hash: HashLimits::default(),
            zset: ZsetLimits::default(),
            set: SetLimits::default(),
            member_seed: HashSeed::default(),
        }
    }
}

/// What becomes of versions that are not known and of types that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are errors: `strict`.
    Refuse,
    /// The version is ignored, and values that delimit themselves are passed over: `relaxed`.
    Skip,
}

/// Something in a file.
#[derive(Debug)]
pub enum Item<'a> {
    /// A field about the file: name and value.
    Aux(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// A database begins.
    Db(u64),
    /// How many keys the database has, and how many with an expiry: a hint.
    Sizes(u64, u64),
    /// How many keys a slot of the database has: a hint.
    Slot(SlotSizes),
    /// An import of slots was under way: its name, and the first and last slot of each range.
    SlotImport {
        /// 40 bytes.
        name: Cow<'a, [u8]>,
        /// At least one.
        ranges: Vec<(u16, u16)>,
    },
    /// The code of a library of functions.
    Function(Cow<'a, [u8]>),
    /// What a module has left beside keys, which was passed over.
    ModuleRecord {
        /// Whose.
        module: ModuleType,
        /// Bytes of the record, its opcode included.
        bytes: u64,
    },
    /// A key with its value.
    LoadedEntry(LoadedEntry<'a>),
    /// A key whose value has no elements: the key is to be passed over.
    Empty {
        /// The key.
        key: Vec<u8>,
    },
    /// A key whose value was passed over, with [`Unknown::Skip`].
    Skipped {
        /// The key.
        key: Vec<u8>,
        /// The value's type.
        kind: ForeignType,
        /// Where the type stands in the file.
        offset: u64,
        /// The expiry, ms since the epoch.
        expiry_ms: Option<i64>,
    },
}

impl Item<'_> {
    /// The item with what it borrows as its own. Cost: a copy of its texts, of 1 MiB at most but for
    /// compressed ones.
    pub(super) fn into_owned(self) -> Item<'static> {
        let own = |text: Cow<'_, [u8]>| Cow::Owned(text.into_owned());
        match self {
            Item::Aux(name, value) => Item::Aux(own(name), own(value)),
            Item::Db(number) => Item::Db(number),
            Item::Sizes(keys, expires) => Item::Sizes(keys, expires),
            Item::Slot(sizes) => Item::Slot(sizes),
            Item::SlotImport { name, ranges } => Item::SlotImport { name: own(name), ranges },
            Item::Function(code) => Item::Function(own(code)),
            Item::ModuleRecord { module, bytes } => Item::ModuleRecord { module, bytes },
            Item::LoadedEntry(LoadedEntry { key, value, expiry_ms, usage, mended }) => {
                let value = match value {
                    Loaded::Str(text) => Loaded::Str(own(text)),
                    Loaded::Pages(pages) => Loaded::Pages(pages),
                    Loaded::List(list) => Loaded::List(list),
                    Loaded::Hash(hash) => Loaded::Hash(hash),
                    Loaded::Stream(stream) => Loaded::Stream(stream),
                    Loaded::Zset(zset) => Loaded::Zset(zset),
                    Loaded::Set(set) => Loaded::Set(set),
                };
                Item::LoadedEntry(LoadedEntry { key: own(key), value, expiry_ms, usage, mended })
            }
            Item::Empty { key } => Item::Empty { key },
            Item::Skipped { key, kind, offset, expiry_ms } => Item::Skipped { key, kind, offset, expiry_ms },
        }
    }
}

/// Sizes of a hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSizes {
    /// Below 16,384.
    pub slot: u16,
    /// Keys.
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
}

/// A key with its value.
#[derive(Debug)]
pub struct LoadedEntry<'a> {
    /// The key.
    pub key: Cow<'a, [u8]>,
    /// The value.
    pub value: Loaded<'a>,
    /// The expiry, ms since the epoch.
    pub expiry_ms: Option<i64>,
    /// The last use.
    pub usage: Usage,
    /// What contradicted itself in the value, and was put right.
    pub mended: Option<Mended>,
}

/// What contradicted itself in a value, and was put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    /// A stream said another number of entries than it has.
    StreamLength {
        /// What the value said.
        said: u64,
        /// What the stream has.
        found: u64,
    },
    /// A stream's last id was less than that of an entry, whose id it is now.
    StreamLastId,
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mended::StreamLength { said, found } => {
                write!(f, "stream of {found} entries that says to have {said}: its length is {found} now")
            }
            Mended::StreamLastId => {
                f.write_str("stream whose last id is less than that of an entry: it is that entry's now")
            }
        }
    }
}

/// A value that was read and checked.
#[derive(Debug)]
pub enum Loaded<'a> {
    /// A string; an integer as its digits.
    Str(Cow<'a, [u8]>),
    /// A string of more than 1 MiB.
    Pages(Pages),
    /// A list, which has elements.
    List(List),
    /// A hash, which has fields.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
    /// A sorted set, which has elements.
    Zset(Zset),
    /// A set, which has members.
    Set(Set),
}

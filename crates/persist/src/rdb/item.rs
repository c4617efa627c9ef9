//! Options of reading a file, and the items of a file.

use sluice_base::HashSeed;
use sluice_value::{Hash, HashLimits, List, ListLimits, Pages, Set, SetLimits, Stream, Zset, ZsetLimits};
use std::borrow::Cow;
use std::fmt;

use super::Usage;
use super::foreign::{ForeignType, ModuleType};

/// Options of reading a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The treatment of unknown versions and types. Setting `rdb-version-check`.
    pub unknown: Unknown,
    /// Whether the checksum is compared. Setting `rdbchecksum`.
    pub checksum: bool,
    /// Thresholds of the lists that are built.
    pub list: ListLimits,
    /// Thresholds of the hashes that are built.
    pub hash: HashLimits,
    /// Thresholds of the sorted sets that are built.
    pub zset: ZsetLimits,
    /// Thresholds of the sets that are built.
    pub set: SetLimits,
    /// Seed for hashing the members of large collections.
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

/// The treatment of unknown versions and of types that this server lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Unknown versions, and types that this server lacks, are errors: setting `strict`.
    Refuse,
    /// An unknown version other than 0 is ignored, and values of types that this server lacks are skipped if
    /// their format shows where they end: setting `relaxed`.
    Skip,
}

/// An item of a file.
#[derive(Debug)]
pub enum Item<'a> {
    /// An auxiliary field about the file: name and value.
    Aux(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// The number of a database, whose keys follow.
    Db(u64),
    /// Hints: the number of keys in the database, and the number of these keys that have an expiry.
    Sizes(u64, u64),
    /// Hints: the number of keys in a slot of the database, and the number of these keys that have an expiry.
    Slot(SlotSizes),
    /// An import of slots that was under way: its name, and the first and last slot of each range.
    SlotImport {
        /// The import's name, 40 bytes.
        name: Cow<'a, [u8]>,
        /// At least one range; each slot is below 16,384.
        ranges: Vec<(u16, u16)>,
    },
    /// The code of a function library.
    Function(Cow<'a, [u8]>),
    /// A module's record that belongs to no key; the record was skipped.
    ModuleRecord {
        /// Type of the module that has written the record.
        module: ModuleType,
        /// Bytes of the record, its opcode included.
        bytes: u64,
    },
    /// A key with its value.
    LoadedEntry(LoadedEntry<'a>),
    /// A key whose value has no elements; the caller leaves the key out.
    Empty {
        /// Name of that key.
        key: Vec<u8>,
    },
    /// A key whose value was skipped, with [`Unknown::Skip`].
    Skipped {
        /// Name of the skipped key.
        key: Vec<u8>,
        /// Type of the value.
        kind: ForeignType,
        /// Offset of the type in the file.
        offset: u64,
        /// The expiry, ms since the epoch.
        expiry_ms: Option<i64>,
    },
}

impl Item<'_> {
    /// Makes the borrowed texts of the item its own. Cost: a copy of each borrowed text; decompressed texts
    /// are owned already. A borrowed string value has 1 MiB at most; other texts have no such limit.
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

/// The number of keys in a hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSizes {
    /// Number of the slot, below 16,384.
    pub slot: u16,
    /// Number of keys in the slot.
    pub keys: u64,
    /// Number of keys in the slot that have an expiry.
    pub expires: u64,
}

/// A key with its value.
#[derive(Debug)]
pub struct LoadedEntry<'a> {
    /// Name of the key.
    pub key: Cow<'a, [u8]>,
    /// The value, decoded and checked.
    pub value: Loaded<'a>,
    /// Time at which the key expires, ms since the epoch; `None` for never.
    pub expiry_ms: Option<i64>,
    /// How recently (idle time) or how often (LFU counter) the key was used, if the file states it.
    pub usage: Usage,
    /// The contradiction in the value that was repaired, if any.
    pub mended: Option<Mended>,
}

/// A contradiction in a value that was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    /// A stream stated another number of entries than it has.
    StreamLength {
        /// The number that the value stated.
        said: u64,
        /// The number of entries in the stream.
        found: u64,
    },
    /// A stream's last id was less than that of an entry, and was replaced by that entry's id.
    StreamLastId,
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mended::StreamLength { said, found } => {
                write!(f, "stream of {found} entries with stored length {said}: its length is {found} now")
            }
            Mended::StreamLastId => {
                f.write_str("stream with a last id below the id of an entry: the last id is that entry's now")
            }
        }
    }
}

/// A value that was read and checked.
#[derive(Debug)]
pub enum Loaded<'a> {
    /// A string in one piece; an integer as its digits.
    Str(Cow<'a, [u8]>),
    /// A string of more than 1 MiB that is not compressed in the file.
    Pages(Pages),
    /// A list with at least one element.
    List(List),
    /// A hash with at least one field.
    Hash(Hash),
    /// A stream, with its consumer groups.
    Stream(Stream),
    /// A sorted set with at least one element.
    Zset(Zset),
    /// A set with at least one member.
    Set(Set),
}

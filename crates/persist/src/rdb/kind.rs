//! The types of values in files of all versions, and the parts by which a value is skipped if this server
//! lacks its type.

use super::cursor::{InputCursor, ReadStop};
use super::foreign::{ForeignType, ModuleType};
use super::hash::HashForm;
use super::op;

/// The numbering of types and opcodes in a file. The numberings of Redis and Valkey differ in RDB versions
/// above 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Redis, and Valkey before its version 9.
    Redis,
    /// Valkey 9 and later.
    Valkey,
}

/// A part of a value, for skipping.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Len,
    Text,
    /// A length, and this many repetitions of the parts.
    Counted(&'static [Part]),
    /// A module's value: parts that name their own types, up to an end mark.
    Module,
}

use Part::{Counted, Len, Module, Text};

/// The form of a list in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListForm {
    Elements,
    Ziplist,
    Ziplists,
    /// Plain elements and listpacks, mixed.
    Nodes,
}

/// The form of a stream in a file: each form has more fields than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamForm {
    /// Entries, groups, pending entries, consumers.
    Plain,
    /// As [`StreamForm::Plain`], and in addition the greatest deleted id and the numbers of entries added
    /// and read.
    Counted,
    /// As [`StreamForm::Counted`], and in addition the time at which each consumer was last active.
    Active,
}

/// The form of a sorted set in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZsetForm {
    /// Elements with scores as texts.
    Texts,
    /// Elements with scores as doubles.
    Doubles,
    Ziplist,
    Listpack,
}

/// The form of a set in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetForm {
    Members,
    Intset,
    Listpack,
}

/// The form of a value whose type this server lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignForm {
    /// A module's value as release candidates of Redis 4.0 wrote it; its end cannot be found without the
    /// module.
    OldModule,
    /// A module's value, written as parts with an end mark.
    Module,
    /// A Path Hash of Valkey 9.2.
    PathHash,
}

impl ForeignForm {
    /// The type of the value that follows; a module's value begins with its module type.
    pub(super) fn type_ahead(self, cursor: &InputCursor<'_>) -> Result<ForeignType, ReadStop> {
        let mut ahead = *cursor;
        Ok(match self {
            ForeignForm::OldModule | ForeignForm::Module => ForeignType::Module(ModuleType(ahead.len()?)),
            ForeignForm::PathHash => ForeignType::PathHash,
        })
    }

    /// The parts of the value, if its end can be found from them.
    pub(super) fn parts(self) -> Option<&'static [Part]> {
        match self {
            ForeignForm::OldModule => None,
            ForeignForm::Module => Some(MODULE_VALUE),
            ForeignForm::PathHash => Some(PATH_HASH),
        }
    }
}

/// The meaning of a byte in the position of a type.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    String,
    List(ListForm),
    Hash(HashForm),
    Stream(StreamForm),
    Zset(ZsetForm),
    Set(SetForm),
    /// A type that this server lacks.
    Foreign(ForeignForm),
}

impl ValueKind {
    /// The type of this number; `None` if the number is no type in this dialect.
    pub(super) fn of(number: u8, dialect: Dialect) -> Option<ValueKind> {
        match (number, dialect) {
            (op::TYPE_STRING, _) => Some(ValueKind::String),
            (op::TYPE_LIST, _) => Some(ValueKind::List(ListForm::Elements)),
            (op::TYPE_LIST_ZIPLIST, _) => Some(ValueKind::List(ListForm::Ziplist)),
            (op::TYPE_LIST_QUICKLIST, _) => Some(ValueKind::List(ListForm::Ziplists)),
            (op::TYPE_LIST_QUICKLIST_2, _) => Some(ValueKind::List(ListForm::Nodes)),
            (op::TYPE_HASH, _) => Some(ValueKind::Hash(HashForm::Pairs)),
            (op::TYPE_HASH_ZIPMAP, _) => Some(ValueKind::Hash(HashForm::Zipmap)),
            (op::TYPE_HASH_ZIPLIST, _) => Some(ValueKind::Hash(HashForm::Ziplist)),
            (op::TYPE_HASH_LISTPACK, _) => Some(ValueKind::Hash(HashForm::Listpack)),
            (op::TYPE_HASH_VOLATILE, Dialect::Valkey) => Some(ValueKind::Hash(HashForm::Volatile)),
            (op::TYPE_ZSET, _) => Some(ValueKind::Zset(ZsetForm::Texts)),
            (op::TYPE_ZSET_2, _) => Some(ValueKind::Zset(ZsetForm::Doubles)),
            (op::TYPE_ZSET_ZIPLIST, _) => Some(ValueKind::Zset(ZsetForm::Ziplist)),
            (op::TYPE_ZSET_LISTPACK, _) => Some(ValueKind::Zset(ZsetForm::Listpack)),
            (op::TYPE_SET, _) => Some(ValueKind::Set(SetForm::Members)),
            (op::TYPE_SET_INTSET, _) => Some(ValueKind::Set(SetForm::Intset)),
            (op::TYPE_SET_LISTPACK, _) => Some(ValueKind::Set(SetForm::Listpack)),
            (op::TYPE_HASH_DRAFT_VOLATILE, Dialect::Redis) => Some(ValueKind::Hash(HashForm::DraftPairs)),
            (op::TYPE_HASH_DRAFT_LISTPACK, Dialect::Redis) => Some(ValueKind::Hash(HashForm::DraftListpack)),
            (op::TYPE_PATH_HASH, Dialect::Valkey) => Some(ValueKind::Foreign(ForeignForm::PathHash)),
            (op::TYPE_HASH_REDIS_VOLATILE, Dialect::Redis) => Some(ValueKind::Hash(HashForm::RedisPairs)),
            (op::TYPE_HASH_REDIS_LISTPACK, Dialect::Redis) => Some(ValueKind::Hash(HashForm::RedisListpack)),
            (op::TYPE_STREAM, _) => Some(ValueKind::Stream(StreamForm::Plain)),
            (op::TYPE_STREAM_2, _) => Some(ValueKind::Stream(StreamForm::Counted)),
            (op::TYPE_STREAM_3, _) => Some(ValueKind::Stream(StreamForm::Active)),
            (op::TYPE_OLD_MODULE, _) => Some(ValueKind::Foreign(ForeignForm::OldModule)),
            (op::TYPE_MODULE, _) => Some(ValueKind::Foreign(ForeignForm::Module)),
            _ => None,
        }
    }
}

/// A Path Hash: paths, each with its fields and values.
const PATH_HASH: &[Part] = &[Counted(&[Text, Counted(&[Text, Text])])];

/// A module's value: its module type and its parts.
const MODULE_VALUE: &[Part] = &[Len, Module];

/// A module's record that belongs to no key, after the numbers at its beginning.
pub(super) const MODULE_RECORD: &[Part] = &[Module];

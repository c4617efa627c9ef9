//! The types of values that files have had, and how each delimits itself.

use super::cursor::{InputCursor, ReadStop};
use super::foreign::{ForeignType, ModuleType};
use super::hash::HashForm;
use super::op;

/// Whose numbering of types and opcodes a file has. The two parted after version 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Redis, and Valkey before its version 9.
    Redis,
    /// Valkey 9 and later.
    Valkey,
}

/// A part of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A length.
    Len,
    /// A text.
    Text,
    /// A length, and so many times these parts.
    Counted(&'static [Part]),
    /// Parts that say what they are, up to the one that ends them.
    Module,
}

use Part::{Counted, Len, Module, Text};

/// The type of a value as it stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListForm {
    /// Elements.
    Elements,
    /// One ziplist.
    Ziplist,
    /// Ziplists.
    Ziplists,
    /// Elements and listpacks.
    Nodes,
}

/// The type of a stream as it stands in a file: each knows more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamForm {
    /// Entries, groups, pending entries, consumers.
    Plain,
    /// What was deleted and how many entries were added and read.
    Counted,
    /// When each consumer was last active.
    Active,
}

/// How a sorted set stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZsetForm {
    /// Elements with scores as texts.
    Texts,
    /// Elements with scores as doubles.
    Doubles,
    /// One ziplist.
    Ziplist,
    /// One listpack.
    Listpack,
}

/// The type of a set's value as it stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetForm {
    /// Members.
    Members,
    /// One intset.
    Intset,
    /// One listpack.
    Listpack,
}

/// How a value of a type that this server lacks stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignForm {
    /// A module's, of the first release candidates: the value does not delimit itself.
    OldModule,
    /// A module's.
    Module,
    /// A Path Hash of Valkey 9.2.
    PathHash,
}

impl ForeignForm {
    /// The type of the value ahead, whose first part names a module's.
    pub(super) fn type_ahead(self, cursor: &InputCursor<'_>) -> Result<ForeignType, ReadStop> {
        let mut ahead = *cursor;
        Ok(match self {
            ForeignForm::OldModule | ForeignForm::Module => ForeignType::Module(ModuleType(ahead.len()?)),
            ForeignForm::PathHash => ForeignType::PathHash,
        })
    }

    /// The parts of the value, if the value delimits itself.
    pub(super) fn parts(self) -> Option<&'static [Part]> {
        match self {
            ForeignForm::OldModule => None,
            ForeignForm::Module => Some(MODULE_VALUE),
            ForeignForm::PathHash => Some(PATH_HASH),
        }
    }
}

/// What a byte at the position of a type announces.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    /// A string.
    String,
    /// A list.
    List(ListForm),
    /// A hash.
    Hash(HashForm),
    /// A stream.
    Stream(StreamForm),
    /// A sorted set.
    Zset(ZsetForm),
    /// A set.
    Set(SetForm),
    /// A type that this server lacks.
    Foreign(ForeignForm),
}

impl ValueKind {
    /// The type of this number; `None` for a number that is no type.
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

/// A Path Hash: paths, and the fields and values of each.
const PATH_HASH: &[Part] = &[Counted(&[Text, Counted(&[Text, Text])])];

/// A value of a module: its type and its parts.
const MODULE_VALUE: &[Part] = &[Len, Module];

/// A module's record beside keys, after the numbers that begin the record.
pub(super) const MODULE_RECORD: &[Part] = &[Module];

//! The types of values that files have had, and how each delimits itself.

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
    /// A type that is not there yet: its name and its parts, if the value delimits itself.
    Other(&'static str, Option<&'static [Part]>),
}

impl ValueKind {
    /// The type of this number; `None` for a number that is no type.
    pub(super) fn of(number: u8, dialect: Dialect) -> Option<ValueKind> {
        let other = |name, parts| Some(ValueKind::Other(name, Some(parts)));
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
            (22, Dialect::Redis) => other("hash", &[Counted(&[Len, Text, Text])]),
            (23, Dialect::Redis) => other("hash", &[Text]),
            (op::TYPE_PATH_HASH, Dialect::Valkey) => other("path hash", PATH_HASH),
            (op::TYPE_HASH_REDIS_VOLATILE, Dialect::Redis) => Some(ValueKind::Hash(HashForm::RedisPairs)),
            (op::TYPE_HASH_REDIS_LISTPACK, Dialect::Redis) => Some(ValueKind::Hash(HashForm::RedisListpack)),
            (op::TYPE_STREAM, _) => Some(ValueKind::Stream(StreamForm::Plain)),
            (op::TYPE_STREAM_2, _) => Some(ValueKind::Stream(StreamForm::Counted)),
            (op::TYPE_STREAM_3, _) => Some(ValueKind::Stream(StreamForm::Active)),
            (6, _) => Some(ValueKind::Other("module", None)),
            (7, _) => other("module", &[Len, Module]),
            _ => None,
        }
    }
}

/// A Path Hash: paths, and the fields and values of each.
const PATH_HASH: &[Part] = &[Counted(&[Text, Counted(&[Text, Text])])];

/// What a module has left beside keys: the module, when to load it, its parts.
pub(super) const MODULE_AUX: &[Part] = &[Len, Len, Len, Module];

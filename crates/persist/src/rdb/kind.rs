//! The types of values that files have had, and how each delimits itself.

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
    /// So many bytes.
    Bytes(u64),
    /// A score as text: a byte of its length, or one of three bytes that stand for a score.
    Score,
    /// A length, and so many times these parts.
    Counted(&'static [Part]),
    /// Parts that say what they are, up to the one that ends them.
    Module,
}

use Part::{Bytes, Counted, Len, Module, Score, Text};

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

/// What a byte in the place of a type announces.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    /// A string.
    String,
    /// A list.
    List(ListForm),
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
            (op::TYPE_SET, _) => Some(ValueKind::Set(SetForm::Members)),
            (op::TYPE_SET_INTSET, _) => Some(ValueKind::Set(SetForm::Intset)),
            (op::TYPE_SET_LISTPACK, _) => Some(ValueKind::Set(SetForm::Listpack)),
            (3, _) => other("zset", &[Counted(&[Text, Score])]),
            (5, _) => other("zset", &[Counted(&[Text, Bytes(8)])]),
            // A ziplist; a listpack.
            (12 | 17, _) => other("zset", &[Text]),
            (4, _) => other("hash", &[Counted(&[Text, Text])]),
            // A zipmap; a ziplist; a listpack.
            (9 | 13 | 16, _) => other("hash", &[Text]),
            // Fields that expire, in three ways; the one of a release candidate delimits itself as well.
            (22, Dialect::Valkey) => other("hash", &[Counted(&[Text, Text, Bytes(8)])]),
            (22, Dialect::Redis) => other("hash", &[Counted(&[Len, Text, Text])]),
            (23, Dialect::Redis) => other("hash", &[Text]),
            (24, Dialect::Redis) => other("hash", &[Bytes(8), Counted(&[Len, Text, Text])]),
            (25, Dialect::Redis) => other("hash", &[Bytes(8), Text]),
            (15, _) => other("stream", STREAM_1),
            (19, _) => other("stream", STREAM_2),
            (21, _) => other("stream", STREAM_3),
            (6, _) => Some(ValueKind::Other("module", None)),
            (7, _) => other("module", &[Len, Module]),
            _ => None,
        }
    }
}

/// What a module has left beside keys: the module, when to load it, its parts.
pub(super) const MODULE_AUX: &[Part] = &[Len, Len, Len, Module];

/// Entries in listpacks by their ids.
const ENTRIES: Part = Counted(&[Text, Text]);
/// Entries that a consumer has been sent: each an id, when, how often.
const PENDING: Part = Counted(&[Bytes(16 + 8), Len]);
/// Ids that a consumer has been sent.
const PENDING_IDS: Part = Counted(&[Bytes(16)]);

/// Entries, their number, the last id; groups: name, last id, pending entries, consumers.
const STREAM_1: &[Part] =
    &[ENTRIES, Len, Len, Len, Counted(&[Text, Len, Len, PENDING, Counted(&[Text, Bytes(8), PENDING_IDS])])];
/// The same with the first id, the highest deleted id and the number of entries added; groups with entries read.
const STREAM_2: &[Part] = stream::<8>();
/// The same with the consumers' last activity beside the time of their last look.
const STREAM_3: &[Part] = stream::<16>();

/// A stream whose consumers have so many bytes of times.
const fn stream<const TIMES: u64>() -> &'static [Part] {
    const {
        let consumers = &[Text, Bytes(TIMES), PENDING_IDS];
        &[
            ENTRIES,
            Len,
            Len,
            Len,
            Len,
            Len,
            Len,
            Len,
            Len,
            Counted(&[Text, Len, Len, Len, PENDING, Counted(consumers)]),
        ]
    }
}

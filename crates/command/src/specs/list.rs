//! List commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    list:
    BLMOVE,
    BLMPOP,
    BLPOP,
    BRPOP,
    BRPOPLPUSH,
    LINDEX,
    LINSERT,
    LLEN,
    LMOVE,
    LMPOP,
    LPOP,
    LPOS,
    LPUSH,
    LPUSHX,
    LRANGE,
    LREM,
    LSET,
    LTRIM,
    RPOP,
    RPOPLPUSH,
    RPUSH,
    RPUSHX,
}

/// `BLMOVE`
pub static BLMOVE: Spec = Spec {
    full_name: "blmove",
    subcommands: &[],
    group: Group::List,
    since: "6.2.0",
    arity: Arity::Exactly(6),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, RW_INSERT)]),
    args: &[
        key("source", 0),
        key("destination", 1),
        one_of("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        one_of("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        double("timeout"),
    ],
    tips: &[],
    history: &[],
    summary: "Moves an element from an end of one list to an end of another, waiting for one where the first is empty.",
    complexity: "O(1)",
    deprecated: None,
    id: id::BLMOVE,
};

/// `BLMPOP`
pub static BLMPOP: Spec = Spec {
    full_name: "blmpop",
    subcommands: &[],
    group: Group::List,
    since: "7.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
    acl: Cat::LIST,
    keys: Keys::Specs(&[counted(2, 0, 1, 1, RW_ACCESS_DELETE)]),
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).repeated(),
        one_of("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").after("COUNT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Takes elements from an end of the first list that has any, waiting where none has.",
    complexity: "O(N+M), N being the number of keys and M the number of elements taken",
    deprecated: None,
    id: id::BLMPOP,
};

/// `BLPOP`
pub static BLPOP: Spec = Spec {
    full_name: "blpop",
    subcommands: &[],
    group: Group::List,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::BLOCKING),
    acl: Cat::LIST,
    keys: Keys::Specs(&[range(1, -2, 1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0).repeated(), double("timeout")],
    tips: &[],
    history: &[("6.0.0", "`timeout` may have a fraction.")],
    summary: "Takes the first element of the first list that has one, waiting where none has.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::BLPOP,
};

/// `BRPOP`
pub static BRPOP: Spec = Spec {
    full_name: "brpop",
    subcommands: &[],
    group: Group::List,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::BLOCKING),
    acl: Cat::LIST,
    keys: Keys::Specs(&[range(1, -2, 1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0).repeated(), double("timeout")],
    tips: &[],
    history: &[("6.0.0", "`timeout` may have a fraction.")],
    summary: "Takes the last element of the first list that has one, waiting where none has.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::BRPOP,
};

/// `BRPOPLPUSH`
pub static BRPOPLPUSH: Spec = Spec {
    full_name: "brpoplpush",
    subcommands: &[],
    group: Group::List,
    since: "2.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, RW_INSERT)]),
    args: &[key("source", 0), key("destination", 1), double("timeout")],
    tips: &[],
    history: &[("6.0.0", "`timeout` may have a fraction.")],
    summary: "Moves the last element of a list to the front of another, waiting for one where the first is empty.",
    complexity: "O(1)",
    deprecated: None,
    id: id::BRPOPLPUSH,
};

/// `LINDEX`
pub static LINDEX: Spec = Spec {
    full_name: "lindex",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("index")],
    tips: &[],
    history: &[],
    summary: "Reads the element at an index.",
    complexity: "O(log(N)), N being the number of elements of a large list; O(1) for either end",
    deprecated: None,
    id: id::LINDEX,
};

/// `LINSERT`
pub static LINSERT: Spec = Spec {
    full_name: "linsert",
    subcommands: &[],
    group: Group::List,
    since: "2.2.0",
    arity: Arity::Exactly(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[
        key("key", 0),
        one_of("where", &[token("before", "BEFORE"), token("after", "AFTER")]),
        string("pivot"),
        string("element"),
    ],
    tips: &[],
    history: &[],
    summary: "Adds an element before or behind the first one that equals a pivot.",
    complexity: "O(N), N being the number of elements in front of the pivot",
    deprecated: None,
    id: id::LINSERT,
};

/// `LLEN`
pub static LLEN: Spec = Spec {
    full_name: "llen",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Counts the elements of a list.",
    complexity: "O(1)",
    deprecated: None,
    id: id::LLEN,
};

/// `LMOVE`
pub static LMOVE: Spec = Spec {
    full_name: "lmove",
    subcommands: &[],
    group: Group::List,
    since: "6.2.0",
    arity: Arity::Exactly(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, RW_INSERT)]),
    args: &[
        key("source", 0),
        key("destination", 1),
        one_of("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        one_of("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
    ],
    tips: &[],
    history: &[],
    summary: "Moves an element from an end of one list to an end of another.",
    complexity: "O(1)",
    deprecated: None,
    id: id::LMOVE,
};

/// `LMPOP`
pub static LMPOP: Spec = Spec {
    full_name: "lmpop",
    subcommands: &[],
    group: Group::List,
    since: "7.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::MOVABLE_KEYS),
    acl: Cat::LIST,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RW_ACCESS_DELETE)]),
    args: &[
        integer("numkeys"),
        key("key", 0).repeated(),
        one_of("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").after("COUNT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Takes elements from an end of the first list that has any.",
    complexity: "O(N+M), N being the number of keys and M the number of elements taken",
    deprecated: None,
    id: id::LMPOP,
};

/// `LPOP`
pub static LPOP: Spec = Spec {
    full_name: "lpop",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0), integer("count").optional().since("6.2.0")],
    tips: &[],
    history: &[("6.2.0", "Option `count`.")],
    summary: "Takes elements from the front of a list.",
    complexity: "O(N), N being the number of elements taken",
    deprecated: None,
    id: id::LPOP,
};

/// `LPOS`
pub static LPOS: Spec = Spec {
    full_name: "lpos",
    subcommands: &[],
    group: Group::List,
    since: "6.0.6",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("element"),
        integer("rank").after("RANK").optional(),
        integer("num-matches").after("COUNT").optional(),
        integer("len").after("MAXLEN").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Finds the indexes of the elements that equal a value.",
    complexity: "O(N), N being the number of elements looked at",
    deprecated: None,
    id: id::LPOS,
};

/// `LPUSH`
pub static LPUSH: Spec = Spec {
    full_name: "lpush",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("element").repeated()],
    tips: &[],
    history: &[("2.4.0", "More than one `element`.")],
    summary: "Adds elements to the front of a list, which comes into being where the key is missing.",
    complexity: "O(N), N being the number of elements added",
    deprecated: None,
    id: id::LPUSH,
};

/// `LPUSHX`
pub static LPUSHX: Spec = Spec {
    full_name: "lpushx",
    subcommands: &[],
    group: Group::List,
    since: "2.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("element").repeated()],
    tips: &[],
    history: &[("4.0.0", "More than one `element`.")],
    summary: "Adds elements to the front of a list that exists already.",
    complexity: "O(N), N being the number of elements added",
    deprecated: None,
    id: id::LPUSHX,
};

/// `LRANGE`
pub static LRANGE: Spec = Spec {
    full_name: "lrange",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY,
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("start"), integer("stop")],
    tips: &[],
    history: &[],
    summary: "Reads the elements between two indexes, both included.",
    complexity: "O(log(N)+M), N being the number of elements of the list and M the number of elements read",
    deprecated: None,
    id: id::LRANGE,
};

/// `LREM`
pub static LREM: Spec = Spec {
    full_name: "lrem",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), integer("count"), string("element")],
    tips: &[],
    history: &[],
    summary: "Removes elements that equal a value, from either end.",
    complexity: "O(N), N being the number of elements looked at",
    deprecated: None,
    id: id::LREM,
};

/// `LSET`
pub static LSET: Spec = Spec {
    full_name: "lset",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0), integer("index"), string("element")],
    tips: &[],
    history: &[],
    summary: "Replaces the element at an index.",
    complexity: "O(log(N)), N being the number of elements of a large list; O(1) for either end",
    deprecated: None,
    id: id::LSET,
};

/// `LTRIM`
pub static LTRIM: Spec = Spec {
    full_name: "ltrim",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), integer("start"), integer("stop")],
    tips: &[],
    history: &[],
    summary: "Removes the elements outside of two indexes.",
    complexity: "O(log(N)), N being the number of elements of a large list; what was removed is freed elsewhere",
    deprecated: None,
    id: id::LTRIM,
};

/// `RPOP`
pub static RPOP: Spec = Spec {
    full_name: "rpop",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0), integer("count").optional().since("6.2.0")],
    tips: &[],
    history: &[("6.2.0", "Option `count`.")],
    summary: "Takes elements from the back of a list.",
    complexity: "O(N), N being the number of elements taken",
    deprecated: None,
    id: id::RPOP,
};

/// `RPOPLPUSH`
pub static RPOPLPUSH: Spec = Spec {
    full_name: "rpoplpush",
    subcommands: &[],
    group: Group::List,
    since: "1.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, RW_INSERT)]),
    args: &[key("source", 0), key("destination", 1)],
    tips: &[],
    history: &[],
    summary: "Moves the last element of a list to the front of another.",
    complexity: "O(1)",
    deprecated: None,
    id: id::RPOPLPUSH,
};

/// `RPUSH`
pub static RPUSH: Spec = Spec {
    full_name: "rpush",
    subcommands: &[],
    group: Group::List,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("element").repeated()],
    tips: &[],
    history: &[("2.4.0", "More than one `element`.")],
    summary: "Adds elements to the back of a list, which comes into being where the key is missing.",
    complexity: "O(N), N being the number of elements added",
    deprecated: None,
    id: id::RPUSH,
};

/// `RPUSHX`
pub static RPUSHX: Spec = Spec {
    full_name: "rpushx",
    subcommands: &[],
    group: Group::List,
    since: "2.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::LIST,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("element").repeated()],
    tips: &[],
    history: &[("4.0.0", "More than one `element`.")],
    summary: "Adds elements to the back of a list that exists already.",
    complexity: "O(N), N being the number of elements added",
    deprecated: None,
    id: id::RPUSHX,
};

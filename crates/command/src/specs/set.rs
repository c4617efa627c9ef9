//! Set commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    set:
    SADD,
    SCARD,
    SDIFF,
    SDIFFSTORE,
    SINTER,
    SINTERCARD,
    SINTERSTORE,
    SISMEMBER,
    SMEMBERS,
    SMISMEMBER,
    SMOVE,
    SPOP,
    SRANDMEMBER,
    SREM,
    SSCAN,
    SUNION,
    SUNIONSTORE,
}

/// `SADD`
pub static SADD: Spec = Spec {
    full_name: "sadd",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("member").repeated()],
    tips: &[],
    history: &[("2.4.0", "More than one member.")],
    summary: "Adds members to a set, which is created where the key is missing.",
    complexity: "O(N), N being the number of members given",
    deprecated: None,
    id: id::SADD,
};

/// `SCARD`
pub static SCARD: Spec = Spec {
    full_name: "scard",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Counts the members of a set.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SCARD,
};

/// `SDIFF`
pub static SDIFF: Spec = Spec {
    full_name: "sdiff",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[range(1, -1, 1, RO_ACCESS)]),
    args: &[key("key", 0).repeated()],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Returns what is in the first set and in none of the others.",
    complexity: "O(N), N being the number of members of all sets",
    deprecated: None,
    id: id::SDIFF,
};

/// `SDIFFSTORE`
pub static SDIFFSTORE: Spec = Spec {
    full_name: "sdiffstore",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), range(2, -1, 1, RO_ACCESS)]),
    args: &[key("destination", 0), key("key", 1).repeated()],
    tips: &[],
    history: &[],
    summary: "Stores what is in the first set and in none of the others.",
    complexity: "O(N), N being the number of members of all sets",
    deprecated: None,
    id: id::SDIFFSTORE,
};

/// `SINTER`
pub static SINTER: Spec = Spec {
    full_name: "sinter",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[range(1, -1, 1, RO_ACCESS)]),
    args: &[key("key", 0).repeated()],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Returns what is in all of the sets.",
    complexity: "O(N*M), N being the size of the smallest set and M the number of sets",
    deprecated: None,
    id: id::SINTER,
};

/// `SINTERCARD`
pub static SINTERCARD: Spec = Spec {
    full_name: "sintercard",
    subcommands: &[],
    group: Group::Set,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RO_ACCESS)]),
    args: &[integer("numkeys"), key("key", 0).repeated(), integer("limit").after("LIMIT").optional()],
    tips: &[],
    history: &[],
    summary: "Counts what is in all of the sets.",
    complexity: "O(N*M), N being the size of the smallest set and M the number of sets",
    deprecated: None,
    id: id::SINTERCARD,
};

/// `SINTERSTORE`
pub static SINTERSTORE: Spec = Spec {
    full_name: "sinterstore",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), range(2, -1, 1, RO_ACCESS)]),
    args: &[key("destination", 0), key("key", 1).repeated()],
    tips: &[],
    history: &[],
    summary: "Stores what is in all of the sets.",
    complexity: "O(N*M), N being the size of the smallest set and M the number of sets",
    deprecated: None,
    id: id::SINTERSTORE,
};

/// `SISMEMBER`
pub static SISMEMBER: Spec = Spec {
    full_name: "sismember",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0), string("member"), token("xx", "XX").optional().since("9.2.0")],
    tips: &[],
    history: &[("9.2.0", "Option `XX`.")],
    summary: "Tells whether something is a member of a set.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SISMEMBER,
};

/// `SMEMBERS`
pub static SMEMBERS: Spec = Spec {
    full_name: "smembers",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Returns all members of a set.",
    complexity: "O(N), N being the size of the set",
    deprecated: None,
    id: id::SMEMBERS,
};

/// `SMISMEMBER`
pub static SMISMEMBER: Spec = Spec {
    full_name: "smismember",
    subcommands: &[],
    group: Group::Set,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member").repeated()],
    tips: &[],
    history: &[],
    summary: "Tells of several things whether they are members of a set.",
    complexity: "O(N), N being the number of things asked for",
    deprecated: None,
    id: id::SMISMEMBER,
};

/// `SMOVE`
pub static SMOVE: Spec = Spec {
    full_name: "smove",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, RW_INSERT)]),
    args: &[key("source", 0), key("destination", 1), string("member")],
    tips: &[],
    history: &[],
    summary: "Moves a member from one set to another.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SMOVE,
};

/// `SPOP`
pub static SPOP: Spec = Spec {
    full_name: "spop",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0), integer("count").optional().since("3.2.0")],
    tips: &["nondeterministic_output"],
    history: &[("3.2.0", "Option `count`.")],
    summary: "Takes random members out of a set.",
    complexity: "O(N), N being the number of members taken",
    deprecated: None,
    id: id::SPOP,
};

/// `SRANDMEMBER`
pub static SRANDMEMBER: Spec = Spec {
    full_name: "srandmember",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("count").optional().since("2.6.0")],
    tips: &["nondeterministic_output"],
    history: &[("2.6.0", "Option `count`.")],
    summary: "Returns random members of a set.",
    complexity: "O(N), N being the number of members returned",
    deprecated: None,
    id: id::SRANDMEMBER,
};

/// `SREM`
pub static SREM: Spec = Spec {
    full_name: "srem",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), string("member").repeated()],
    tips: &[],
    history: &[("2.4.0", "More than one member.")],
    summary: "Removes members from a set.",
    complexity: "O(N), N being the number of members given",
    deprecated: None,
    id: id::SREM,
};

/// `SSCAN`
pub static SSCAN: Spec = Spec {
    full_name: "sscan",
    subcommands: &[],
    group: Group::Set,
    since: "2.8.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").after("MATCH").optional(),
        integer("count").after("COUNT").optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Walks over the members of a set, some at a time.",
    complexity: "O(1) for a call; O(N) for a whole walk, N being the size of the set",
    deprecated: None,
    id: id::SSCAN,
};

/// `SUNION`
pub static SUNION: Spec = Spec {
    full_name: "sunion",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::SET,
    keys: Keys::Specs(&[range(1, -1, 1, RO_ACCESS)]),
    args: &[key("key", 0).repeated()],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Returns what is in any of the sets.",
    complexity: "O(N), N being the number of members of all sets",
    deprecated: None,
    id: id::SUNION,
};

/// `SUNIONSTORE`
pub static SUNIONSTORE: Spec = Spec {
    full_name: "sunionstore",
    subcommands: &[],
    group: Group::Set,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::SET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), range(2, -1, 1, RO_ACCESS)]),
    args: &[key("destination", 0), key("key", 1).repeated()],
    tips: &[],
    history: &[],
    summary: "Stores what is in any of the sets.",
    complexity: "O(N), N being the number of members of all sets",
    deprecated: None,
    id: id::SUNIONSTORE,
};

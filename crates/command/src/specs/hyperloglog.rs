//! HyperLogLog commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    hyperloglog:
    PFADD,
    PFCOUNT,
    PFDEBUG,
    PFMERGE,
    PFSELFTEST,
}

pub static PFADD: Spec = Spec {
    full_name: "pfadd",
    subcommands: &[],
    group: Group::HyperLogLog,
    since: "2.8.9",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HYPERLOGLOG,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("element").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Adds elements to a HyperLogLog, which is created where the key is missing.",
    complexity: "O(1) for each element",
    deprecated: None,
    id: id::PFADD,
};

pub static PFCOUNT: Spec = Spec {
    full_name: "pfcount",
    subcommands: &[],
    group: Group::HyperLogLog,
    since: "2.8.9",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::MAY_REPLICATE),
    acl: Cat::HYPERLOGLOG,
    keys: Keys::Specs(&[range(1, -1, 1, KeyFlags::RW.or(KeyFlags::ACCESS))
        .note("The flags are RW because the estimate is kept in the value.")]),
    args: &[key("key", 0).repeated()],
    tips: &[],
    history: &[],
    summary: "Estimates how many different elements were added to one or more HyperLogLogs.",
    complexity: "O(1) for one key, whose estimate is kept; O(N) for N keys, with a large constant",
    deprecated: None,
    id: id::PFCOUNT,
};

pub static PFDEBUG: Spec = Spec {
    full_name: "pfdebug",
    subcommands: &[],
    group: Group::HyperLogLog,
    since: "2.8.9",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::ADMIN).or(Flags::SYSCMD),
    acl: Cat::HYPERLOGLOG,
    keys: Keys::Specs(&[one(2, KeyFlags::RW.or(KeyFlags::ACCESS))]),
    args: &[string("subcommand"), key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Shows the registers and the encoding of a HyperLogLog.",
    complexity: "O(N), N being the number of registers",
    deprecated: None,
    id: id::PFDEBUG,
};

pub static PFMERGE: Spec = Spec {
    full_name: "pfmerge",
    subcommands: &[],
    group: Group::HyperLogLog,
    since: "2.8.9",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::HYPERLOGLOG,
    keys: Keys::Specs(&[
        one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::INSERT)),
        range(2, -1, 1, RO_ACCESS),
    ]),
    args: &[key("destkey", 0), key("sourcekey", 1).optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Joins HyperLogLogs into the first of the keys.",
    complexity: "O(N), N being the number of keys, with a large constant",
    deprecated: None,
    id: id::PFMERGE,
};

pub static PFSELFTEST: Spec = Spec {
    full_name: "pfselftest",
    subcommands: &[],
    group: Group::HyperLogLog,
    since: "2.8.9",
    arity: Arity::Exactly(1),
    flags: Flags::ADMIN.or(Flags::SYSCMD),
    acl: Cat::HYPERLOGLOG,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Tests the registers and the estimates of HyperLogLogs.",
    complexity: "O(N), N being the number of elements of the test, which is fixed",
    deprecated: None,
    id: id::PFSELFTEST,
};

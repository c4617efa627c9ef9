//! String commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    string:
    APPEND,
    DECR,
    DECRBY,
    DELEX,
    DELIFEQ,
    GET,
    GETDEL,
    GETEX,
    GETRANGE,
    GETSET,
    INCR,
    INCRBY,
    INCRBYFLOAT,
    INCREX,
    LCS,
    MGET,
    MSET,
    MSETEX,
    MSETNX,
    PSETEX,
    SET,
    SETEX,
    SETNX,
    SETRANGE,
    STRLEN,
    SUBSTR,
}

pub static APPEND: Spec = Spec {
    full_name: "append",
    subcommands: &[],
    group: Group::String,
    since: "2.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("value")],
    tips: &[],
    history: &[],
    summary: "Adds bytes to the end of a string, starting from an empty one where the key is missing.",
    complexity: "Amortised O(1) for short suffixes: room is kept for the next one; otherwise O(M), M being the length of the suffix",
    deprecated: None,
    id: id::APPEND,
};

pub static DECR: Spec = Spec {
    full_name: "decr",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Takes one off an integer; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::DECR,
};

pub static DECRBY: Spec = Spec {
    full_name: "decrby",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), integer("decrement")],
    tips: &[],
    history: &[],
    summary: "Takes an amount off an integer; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::DECRBY,
};

pub static DELEX: Spec = Spec {
    full_name: "delex",
    subcommands: &[],
    group: Group::String,
    since: "9.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RM_DELETE)]),
    args: &[
        key("key", 0),
        block(
            "condition",
            &[one_of("predicate", &[token("IFEQ", "IFEQ"), token("IFNE", "IFNE")]), string("value")],
        ),
    ],
    tips: &[],
    history: &[],
    summary: "Removes a key if its string is the one given, or if it is another.",
    complexity: "O(N), N being the length of the string",
    deprecated: None,
    id: id::DELEX,
};

pub static DELIFEQ: Spec = Spec {
    full_name: "delifeq",
    subcommands: &[],
    group: Group::String,
    since: "9.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RM_DELETE)]),
    args: &[key("key", 0), string("value")],
    tips: &[],
    history: &[],
    summary: "Removes a key if its string is exactly the one given.",
    complexity: "O(1)",
    deprecated: None,
    id: id::DELIFEQ,
};

pub static GET: Spec = Spec {
    full_name: "get",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Reads a string.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GET,
};

pub static GETDEL: Spec = Spec {
    full_name: "getdel",
    subcommands: &[],
    group: Group::String,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Reads a string and removes its key.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GETDEL,
};

pub static GETEX: Spec = Spec {
    full_name: "getex",
    subcommands: &[],
    group: Group::String,
    since: "6.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[
        one(1, RW_ACCESS_UPDATE).note("It counts as a write because the time to live may change.")
    ]),
    args: &[
        key("key", 0),
        one_of(
            "expiration",
            &[
                integer("seconds").after("EX"),
                integer("milliseconds").after("PX"),
                unix_time("unix-time-seconds").after("EXAT"),
                unix_time("unix-time-milliseconds").after("PXAT"),
                token("persist", "PERSIST"),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Reads a string and changes or clears its time to live.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GETEX,
};

pub static GETRANGE: Spec = Spec {
    full_name: "getrange",
    subcommands: &[],
    group: Group::String,
    since: "2.4.0",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY,
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("start"), integer("end")],
    tips: &[],
    history: &[],
    summary: "Reads the bytes of a string between two offsets, both included.",
    complexity: "O(N), N being the number of bytes read; short reads are as good as O(1)",
    deprecated: None,
    id: id::GETRANGE,
};

pub static GETSET: Spec = Spec {
    full_name: "getset",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), string("value")],
    tips: &[],
    history: &[],
    summary: "Replaces a string and returns the old one.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GETSET,
};

pub static INCR: Spec = Spec {
    full_name: "incr",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Adds one to an integer; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::INCR,
};

pub static INCRBY: Spec = Spec {
    full_name: "incrby",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), integer("increment")],
    tips: &[],
    history: &[],
    summary: "Adds an amount to an integer; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::INCRBY,
};

pub static INCRBYFLOAT: Spec = Spec {
    full_name: "incrbyfloat",
    subcommands: &[],
    group: Group::String,
    since: "2.6.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), double("increment")],
    tips: &[],
    history: &[],
    summary: "Adds an amount to a floating point number; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::INCRBYFLOAT,
};

pub static INCREX: Spec = Spec {
    full_name: "increx",
    subcommands: &[],
    group: Group::String,
    since: "9.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[
        key("key", 0),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        one_of(
            "expiration",
            &[
                integer("ex").after("EX"),
                integer("px").after("PX"),
                unix_time("unix-time-seconds").after("EXAT"),
                unix_time("unix-time-milliseconds").after("PXAT"),
                token("persist", "PERSIST"),
            ],
        )
        .optional(),
        token("enx", "ENX").optional(),
        one_of("value", &[integer("integer").after("BYINT"), double("float").after("BYFLOAT")]).optional(),
        string("lowerbound").after("LBOUND").optional(),
        string("upperbound").after("UBOUND").optional(),
        token("saturate", "SATURATE").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Adds to a number within bounds, and sets when it expires; a missing key counts as 0.",
    complexity: "O(1)",
    deprecated: None,
    id: id::INCREX,
};

pub static LCS: Spec = Spec {
    full_name: "lcs",
    subcommands: &[],
    group: Group::String,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::STRING,
    keys: Keys::Specs(&[range(1, 1, 1, RO_ACCESS)]),
    args: &[
        key("key1", 0),
        key("key2", 0),
        token("len", "LEN").optional(),
        token("idx", "IDX").optional(),
        integer("min-match-len").after("MINMATCHLEN").optional(),
        token("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Compares two strings by their longest common subsequence.",
    complexity: "O(N*M), N and M being the lengths of the two strings",
    deprecated: None,
    id: id::LCS,
};

pub static MGET: Spec = Spec {
    full_name: "mget",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[range(1, -1, 1, RO_ACCESS)]),
    args: &[key("key", 0).repeated()],
    tips: &["request_policy:multi_shard"],
    history: &[],
    summary: "Reads several strings at one moment.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::MGET,
};

pub static MSET: Spec = Spec {
    full_name: "mset",
    subcommands: &[],
    group: Group::String,
    since: "1.0.1",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Specs(&[range(1, -1, 2, OW_UPDATE)]),
    args: &[block("data", &[key("key", 0), string("value")]).repeated()],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    history: &[],
    summary: "Writes several strings at one moment.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::MSET,
};

pub static MSETEX: Spec = Spec {
    full_name: "msetex",
    subcommands: &[],
    group: Group::String,
    since: "9.1.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::STRING,
    keys: Keys::Specs(&[counted(1, 0, 1, 2, OW_UPDATE)]),
    args: &[
        integer("numkeys"),
        block("data", &[key("key", 0), string("value")]).repeated(),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        one_of(
            "expiration",
            &[
                integer("seconds").after("EX"),
                integer("milliseconds").after("PX"),
                unix_time("unix-time-seconds").after("EXAT"),
                unix_time("unix-time-milliseconds").after("PXAT"),
                token("keepttl", "KEEPTTL"),
            ],
        )
        .optional(),
    ],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    history: &[],
    summary: "Writes several strings at one moment, on conditions and with a time to live where asked.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::MSETEX,
};

pub static MSETNX: Spec = Spec {
    full_name: "msetnx",
    subcommands: &[],
    group: Group::String,
    since: "1.0.1",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Specs(&[range(1, -1, 2, OW_INSERT)]),
    args: &[block("data", &[key("key", 0), string("value")]).repeated()],
    tips: &[],
    history: &[],
    summary: "Writes several strings at one moment, provided that none of the keys is there.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::MSETNX,
};

pub static PSETEX: Spec = Spec {
    full_name: "psetex",
    subcommands: &[],
    group: Group::String,
    since: "2.6.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, OW_UPDATE)]),
    args: &[key("key", 0), integer("milliseconds"), string("value")],
    tips: &[],
    history: &[],
    summary: "Writes a string with a time to live in milliseconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PSETEX,
};

pub static SET: Spec = Spec {
    full_name: "set",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Fn(
        &[one(1, RW_ACCESS_UPDATE_VARIABLE_FLAGS).note("Reading and access apply with `GET` only.")],
        set_keys,
    ),
    args: &[
        key("key", 0),
        string("value"),
        one_of(
            "condition",
            &[
                token("nx", "NX").since("2.6.12"),
                token("xx", "XX").since("2.6.12"),
                string("comparison-value")
                    .after("IFEQ")
                    .since("8.1.0")
                    .says("Writes only if the string is this value now."),
                string("ifne-value")
                    .after("IFNE")
                    .since("9.2.0")
                    .says("Writes only if the string is not this value now."),
            ],
        )
        .optional(),
        token("get", "GET").optional().since("6.2.0"),
        one_of(
            "expiration",
            &[
                integer("seconds").after("EX").since("2.6.12"),
                integer("milliseconds").after("PX").since("2.6.12"),
                unix_time("unix-time-seconds").after("EXAT").since("6.2.0"),
                unix_time("unix-time-milliseconds").after("PXAT").since("6.2.0"),
                token("keepttl", "KEEPTTL").since("6.0.0"),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[
        ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Option `KEEPTTL`."),
        ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` and `GET` may be combined."),
        ("8.1.0", "Option `IFEQ`."),
        ("9.2.0", "Option `IFNE`."),
    ],
    summary: "Writes a string, whatever the key held before.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SET,
};

pub static SETEX: Spec = Spec {
    full_name: "setex",
    subcommands: &[],
    group: Group::String,
    since: "2.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, OW_UPDATE)]),
    args: &[key("key", 0), integer("seconds"), string("value")],
    tips: &[],
    history: &[],
    summary: "Writes a string with a time to live in seconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SETEX,
};

pub static SETNX: Spec = Spec {
    full_name: "setnx",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, OW_INSERT)]),
    args: &[key("key", 0), string("value")],
    tips: &[],
    history: &[],
    summary: "Writes a string if the key is missing.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SETNX,
};

pub static SETRANGE: Spec = Spec {
    full_name: "setrange",
    subcommands: &[],
    group: Group::String,
    since: "2.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0), integer("offset"), string("value")],
    tips: &[],
    history: &[],
    summary: "Writes bytes over part of a string from an offset on, growing it with zero bytes as needed.",
    complexity: "O(M), M being the number of bytes written, plus the zero bytes of a gap",
    deprecated: None,
    id: id::SETRANGE,
};

pub static STRLEN: Spec = Spec {
    full_name: "strlen",
    subcommands: &[],
    group: Group::String,
    since: "2.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Counts the bytes of a string.",
    complexity: "O(1)",
    deprecated: None,
    id: id::STRLEN,
};

pub static SUBSTR: Spec = Spec {
    full_name: "substr",
    subcommands: &[],
    group: Group::String,
    since: "1.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY,
    acl: Cat::STRING,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("start"), integer("end")],
    tips: &[],
    history: &[],
    summary: "Reads the bytes of a string between two offsets; the old name of GETRANGE.",
    complexity: "O(N), N being the number of bytes read",
    deprecated: None,
    id: id::SUBSTR,
};

/// Finds the key of SET; its flags say that SET reads the old value only with `GET`. As in the reference, any
/// word `GET` from the third argument on counts, even if it is the operand of another option.
fn set_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    if args.len() < 3 {
        return Err(());
    }
    let reads = args[3..].iter().any(|arg| crate::is_word(arg, "get"));
    found.push((1, if reads { RW_ACCESS_UPDATE } else { OW_UPDATE }));
    Ok(())
}

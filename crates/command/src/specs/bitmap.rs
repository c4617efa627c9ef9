//! Bitmap commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    bitmap:
    BITCOUNT,
    BITFIELD,
    BITFIELD_RO,
    BITOP,
    BITPOS,
    GETBIT,
    SETBIT,
}

pub static BITCOUNT: Spec = Spec {
    full_name: "bitcount",
    subcommands: &[],
    group: Group::Bitmap,
    since: "2.6.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block(
            "range",
            &[
                integer("start"),
                block(
                    "end-unit-block",
                    &[
                        integer("end"),
                        one_of("unit", &[token("byte", "BYTE"), token("bit", "BIT")])
                            .optional()
                            .since("7.0.0"),
                    ],
                )
                .optional(),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[
        ("7.0.0", "Option `BYTE|BIT`."),
        ("8.0.0", "A range may end with its start: the end is optional."),
    ],
    summary: "Counts the bits that are set in a string or in a part of one.",
    complexity: "O(N), N being the number of bytes counted",
    deprecated: None,
    id: id::BITCOUNT,
};

pub static BITFIELD: Spec = Spec {
    full_name: "bitfield",
    subcommands: &[],
    group: Group::Bitmap,
    since: "3.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::BITMAP,
    keys: Keys::Fn(
        &[one(1, RW_ACCESS_UPDATE_VARIABLE_FLAGS).note("Flags depend on whether an operation writes.")],
        bitfield_keys,
    ),
    args: &[
        key("key", 0),
        one_of(
            "operation",
            &[
                block("get-block", &[string("encoding"), integer("offset")]).after("GET"),
                block(
                    "write",
                    &[
                        one_of(
                            "overflow-block",
                            &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")],
                        )
                        .after("OVERFLOW")
                        .optional(),
                        one_of(
                            "write-operation",
                            &[
                                block(
                                    "set-block",
                                    &[string("encoding"), integer("offset"), integer("value")],
                                )
                                .after("SET"),
                                block(
                                    "incrby-block",
                                    &[string("encoding"), integer("offset"), integer("increment")],
                                )
                                .after("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .optional()
        .repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Reads and changes integers of any width inside a string.",
    complexity: "O(1) for each operation",
    deprecated: None,
    id: id::BITFIELD,
};

pub static BITFIELD_RO: Spec = Spec {
    full_name: "bitfield_ro",
    subcommands: &[],
    group: Group::Bitmap,
    since: "6.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("get-block", &[string("encoding"), integer("offset")])
            .after("GET")
            .optional()
            .repeated()
            .token_repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Reads integers of any width inside a string.",
    complexity: "O(1) for each operation",
    deprecated: None,
    id: id::BITFIELD_RO,
};

pub static BITOP: Spec = Spec {
    full_name: "bitop",
    subcommands: &[],
    group: Group::Bitmap,
    since: "2.6.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(2, OW_UPDATE), range(3, -1, 1, RO_ACCESS)]),
    args: &[
        one_of(
            "operation",
            &[token("and", "AND"), token("or", "OR"), token("xor", "XOR"), token("not", "NOT")],
        ),
        key("destkey", 0),
        key("key", 1).repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Combines strings bit by bit and stores the result.",
    complexity: "O(N), N being the length of the longest string",
    deprecated: None,
    id: id::BITOP,
};

pub static BITPOS: Spec = Spec {
    full_name: "bitpos",
    subcommands: &[],
    group: Group::Bitmap,
    since: "2.8.7",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        integer("bit"),
        block(
            "range",
            &[
                integer("start"),
                block(
                    "end-unit-block",
                    &[
                        integer("end"),
                        one_of("unit", &[token("byte", "BYTE"), token("bit", "BIT")])
                            .optional()
                            .since("7.0.0"),
                    ],
                )
                .optional(),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[("7.0.0", "Option `BYTE|BIT`.")],
    summary: "Finds the first bit that is set or clear in a string or in a part of one.",
    complexity: "O(N), N being the number of bytes searched",
    deprecated: None,
    id: id::BITPOS,
};

pub static GETBIT: Spec = Spec {
    full_name: "getbit",
    subcommands: &[],
    group: Group::Bitmap,
    since: "2.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), integer("offset")],
    tips: &[],
    history: &[],
    summary: "Returns the bit at an offset of a string.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GETBIT,
};

pub static SETBIT: Spec = Spec {
    full_name: "setbit",
    subcommands: &[],
    group: Group::Bitmap,
    since: "2.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::BITMAP,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), integer("offset"), integer("value")],
    tips: &[],
    history: &[],
    summary: "Sets or clears the bit at an offset of a string, which grows as needed.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SETBIT,
};

/// Finds the key of BITFIELD, which is only read if all operations of the call read. An invalid call counts
/// as one that writes.
fn bitfield_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    if args.len() < 2 {
        return Err(());
    }
    let mut at = 2;
    let mut reads_only = true;
    while at < args.len() && reads_only {
        let is = |word| crate::is_word(args[at], word);
        let len = if is("get") {
            3
        } else if is("overflow") {
            2
        } else {
            usize::MAX
        };
        reads_only = len <= args.len() - at;
        at = at.saturating_add(len);
    }
    found.push((1, if reads_only { RO_ACCESS } else { RW_ACCESS_UPDATE }));
    Ok(())
}

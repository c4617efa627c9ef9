//! Commands on keys of any type.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Begin, Cat, Find, Flags, Group, KeyFlags, KeySpec, Keys, Spec};

specs! {
    generic:
    COPY,
    DEL,
    DUMP,
    EXISTS,
    EXPIRE,
    EXPIREAT,
    EXPIRETIME,
    KEYS,
    MIGRATE,
    MOVE,
    OBJECT,
    OBJECT_ENCODING,
    OBJECT_FREQ,
    OBJECT_HELP,
    OBJECT_IDLETIME,
    OBJECT_REFCOUNT,
    PERSIST,
    PEXPIRE,
    PEXPIREAT,
    PEXPIRETIME,
    PTTL,
    RANDOMKEY,
    RENAME,
    RENAMENX,
    RESTORE,
    SCAN,
    SORT,
    SORT_RO,
    TOUCH,
    TTL,
    TYPE,
    UNLINK,
    WAIT,
    WAITAOF,
}

pub static COPY: Spec = Spec {
    full_name: "copy",
    subcommands: &[],
    group: Group::Generic,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS), one(2, OW_UPDATE)]),
    args: &[
        key("source", 0),
        key("destination", 1),
        integer("destination-db").after("DB").optional(),
        token("replace", "REPLACE").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Duplicates a value under another key.",
    complexity: "O(N), N being the number of elements of a collection; O(1) for strings",
    deprecated: None,
    id: id::COPY,
};

pub static DEL: Spec = Spec {
    full_name: "del",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[range(1, -1, 1, RM_DELETE)]),
    args: &[key("key", 0).repeated()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    history: &[],
    summary: "Removes keys.",
    complexity: "O(N), N being the number of keys, plus the number of elements in each collection removed",
    deprecated: None,
    id: id::DEL,
};

pub static DUMP: Spec = Spec {
    full_name: "dump",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Returns the value of a key as a payload for RESTORE.",
    complexity: "O(N), N being the size of the value",
    deprecated: None,
    id: id::DUMP,
};

pub static EXISTS: Spec = Spec {
    full_name: "exists",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[range(1, -1, 1, RO)]),
    args: &[key("key", 0).repeated()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    history: &[("3.0.3", "More than one key.")],
    summary: "Counts the given keys that exist.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::EXISTS,
};

pub static EXPIRE: Spec = Spec {
    full_name: "expire",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("seconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .optional()
            .since("7.0.0"),
    ],
    tips: &[],
    history: &[("7.0.0", "Conditions `NX`, `XX`, `GT` and `LT`.")],
    summary: "Sets the time to live of a key in seconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::EXPIRE,
};

pub static EXPIREAT: Spec = Spec {
    full_name: "expireat",
    subcommands: &[],
    group: Group::Generic,
    since: "1.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        unix_time("unix-time-seconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .optional()
            .since("7.0.0"),
    ],
    tips: &[],
    history: &[("7.0.0", "Conditions `NX`, `XX`, `GT` and `LT`.")],
    summary: "Sets the expiry of a key to a Unix time in seconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::EXPIREAT,
};

pub static EXPIRETIME: Spec = Spec {
    full_name: "expiretime",
    subcommands: &[],
    group: Group::Generic,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Returns the expiry of a key as a Unix time in seconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::EXPIRETIME,
};

pub static KEYS: Spec = Spec {
    full_name: "keys",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[pattern("pattern")],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    history: &[],
    summary: "Lists the keys whose names match a pattern.",
    complexity: "O(N), N being the number of keys in the database",
    deprecated: None,
    id: id::KEYS,
};

pub static MIGRATE: Spec = Spec {
    full_name: "migrate",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::MOVABLE_KEYS),
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Fn(
        &[
            one(3, RW_ACCESS_DELETE),
            KeySpec {
                begin: Begin::Keyword { word: "KEYS", from: -2 },
                find: Find::Range { last: -1, step: 1, limit: 0 },
                flags: RW_ACCESS_DELETE.or(KeyFlags::INCOMPLETE),
                notes: "",
            },
        ],
        migrate_keys,
    ),
    args: &[
        string("host"),
        integer("port"),
        one_of("key-selector", &[key("key", 0), token("empty-string", "\"\"")]),
        integer("destination-db"),
        integer("timeout"),
        token("copy", "COPY").optional().since("3.0.0"),
        token("replace", "REPLACE").optional().since("3.0.0"),
        one_of(
            "authentication",
            &[
                string("auth").after("AUTH").shown_as("password").since("4.0.7"),
                block("auth2", &[string("username"), string("password")]).after("AUTH2").since("6.0.0"),
            ],
        )
        .optional(),
        key("keys", 1).shown_as("key").after("KEYS").optional().repeated().since("3.0.6"),
    ],
    tips: &["nondeterministic_output"],
    history: &[
        ("3.0.0", "Options `COPY` and `REPLACE`."),
        ("3.0.6", "Option `KEYS`."),
        ("4.0.7", "Option `AUTH`."),
        ("6.0.0", "Option `AUTH2`."),
    ],
    summary: "Moves keys to another server.",
    complexity: "That of DUMP and DEL here and of RESTORE there, and O(N) for N bytes that are sent",
    deprecated: None,
    id: id::MIGRATE,
};

pub static MOVE: Spec = Spec {
    full_name: "move",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), integer("db"), token("replace", "REPLACE").optional().since("9.2.0")],
    tips: &[],
    history: &[("9.2.0", "Option `REPLACE`.")],
    summary: "Moves a key to another database.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MOVE,
};

pub static OBJECT: Spec = Spec {
    full_name: "object",
    subcommands: &[&OBJECT_ENCODING, &OBJECT_FREQ, &OBJECT_HELP, &OBJECT_IDLETIME, &OBJECT_REFCOUNT],
    group: Group::Generic,
    since: "2.2.3",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Container for commands about the representation of values.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::OBJECT,
};

pub static OBJECT_ENCODING: Spec = Spec {
    full_name: "object|encoding",
    subcommands: &[],
    group: Group::Generic,
    since: "2.2.3",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(2, RO)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Names the representation of a value in memory.",
    complexity: "O(1)",
    deprecated: None,
    id: id::OBJECT_ENCODING,
};

pub static OBJECT_FREQ: Spec = Spec {
    full_name: "object|freq",
    subcommands: &[],
    group: Group::Generic,
    since: "4.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(2, RO)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Reads the logarithmic counter of uses that LFU eviction keeps.",
    complexity: "O(1)",
    deprecated: None,
    id: id::OBJECT_FREQ,
};

pub static OBJECT_HELP: Spec = Spec {
    full_name: "object|help",
    subcommands: &[],
    group: Group::Generic,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::OBJECT_HELP,
};

pub static OBJECT_IDLETIME: Spec = Spec {
    full_name: "object|idletime",
    subcommands: &[],
    group: Group::Generic,
    since: "2.2.3",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(2, RO)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Returns the seconds since the last access to a value.",
    complexity: "O(1)",
    deprecated: None,
    id: id::OBJECT_IDLETIME,
};

pub static OBJECT_REFCOUNT: Spec = Spec {
    full_name: "object|refcount",
    subcommands: &[],
    group: Group::Generic,
    since: "2.2.3",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(2, RO)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Counts the references to a value.",
    complexity: "O(1)",
    deprecated: None,
    id: id::OBJECT_REFCOUNT,
};

pub static PERSIST: Spec = Spec {
    full_name: "persist",
    subcommands: &[],
    group: Group::Generic,
    since: "2.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Removes the expiry of a key.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PERSIST,
};

pub static PEXPIRE: Spec = Spec {
    full_name: "pexpire",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("milliseconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .optional()
            .since("7.0.0"),
    ],
    tips: &[],
    history: &[("7.0.0", "Conditions `NX`, `XX`, `GT` and `LT`.")],
    summary: "Sets the time to live of a key in milliseconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PEXPIRE,
};

pub static PEXPIREAT: Spec = Spec {
    full_name: "pexpireat",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        unix_time("unix-time-milliseconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .optional()
            .since("7.0.0"),
    ],
    tips: &[],
    history: &[("7.0.0", "Conditions `NX`, `XX`, `GT` and `LT`.")],
    summary: "Sets the expiry of a key to a Unix time in milliseconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PEXPIREAT,
};

pub static PEXPIRETIME: Spec = Spec {
    full_name: "pexpiretime",
    subcommands: &[],
    group: Group::Generic,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Returns the expiry of a key as a Unix time in milliseconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PEXPIRETIME,
};

pub static PTTL: Spec = Spec {
    full_name: "pttl",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[("2.8.0", "-2 for a missing key.")],
    summary: "Returns the time to live of a key in milliseconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PTTL,
};

pub static RANDOMKEY: Spec = Spec {
    full_name: "randomkey",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::READONLY.or(Flags::TOUCHES_ARBITRARY_KEYS),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
    history: &[],
    summary: "Returns a random key.",
    complexity: "O(1)",
    deprecated: None,
    id: id::RANDOMKEY,
};

pub static RENAME: Spec = Spec {
    full_name: "rename",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE,
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, OW_UPDATE)]),
    args: &[key("key", 0), key("newkey", 1)],
    tips: &[],
    history: &[],
    summary: "Gives a key another name, replacing what was there.",
    complexity: "O(1)",
    deprecated: None,
    id: id::RENAME,
};

pub static RENAMENX: Spec = Spec {
    full_name: "renamenx",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE), one(2, OW_INSERT)]),
    args: &[key("key", 0), key("newkey", 1)],
    tips: &[],
    history: &[("3.2.0", "A key may be renamed to itself without an error.")],
    summary: "Gives a key another name if that name is free.",
    complexity: "O(1)",
    deprecated: None,
    id: id::RENAMENX,
};

/// The arguments of `RESTORE` and `RESTORE-ASKING`.
pub(super) const RESTORE_ARGS: &[Arg] = &[
    key("key", 0),
    integer("ttl"),
    string("serialized-value"),
    token("replace", "REPLACE").optional().since("3.0.0"),
    token("absttl", "ABSTTL").optional().since("5.0.0"),
    integer("seconds").after("IDLETIME").optional().since("5.0.0"),
    integer("frequency").after("FREQ").optional().since("5.0.0"),
];

/// The history of `RESTORE` and `RESTORE-ASKING`.
pub(super) const RESTORE_HISTORY: &[(&str, &str)] = &[
    ("3.0.0", "Option `REPLACE`."),
    ("5.0.0", "Option `ABSTTL`."),
    ("5.0.0", "Options `IDLETIME` and `FREQ`."),
];

pub static RESTORE: Spec = Spec {
    full_name: "restore",
    subcommands: &[],
    group: Group::Generic,
    since: "2.6.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[one(1, OW_UPDATE)]),
    args: RESTORE_ARGS,
    tips: &[],
    history: RESTORE_HISTORY,
    summary: "Creates a key from a payload of DUMP.",
    complexity: "O(N), N being the size of the payload",
    deprecated: None,
    id: id::RESTORE,
};

pub static SCAN: Spec = Spec {
    full_name: "scan",
    subcommands: &[],
    group: Group::Generic,
    since: "2.8.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::TOUCHES_ARBITRARY_KEYS),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[]),
    args: &[
        integer("cursor"),
        pattern("pattern").after("MATCH").optional(),
        integer("count").after("COUNT").optional(),
        string("type").after("TYPE").optional().since("6.0.0"),
    ],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    history: &[("6.0.0", "Filter `TYPE`.")],
    summary: "Walks over the keys of the database in small steps.",
    complexity: "O(1) for a step, O(N) for the whole walk, N being the number of keys",
    deprecated: None,
    id: id::SCAN,
};

pub static SORT: Spec = Spec {
    full_name: "sort",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::SET.or(Cat::SORTEDSET).or(Cat::LIST).or(Cat::DANGEROUS),
    keys: Keys::Fn(
        &[
            one(1, RO_ACCESS),
            unknown(RO_ACCESS).note("Patterns of BY and GET name keys that the arguments do not show."),
            unknown(OW_UPDATE).note("The key of STORE may be given more than once; the last one counts."),
        ],
        sort_keys,
    ),
    args: &[
        key("key", 0),
        pattern("by-pattern").after("BY").shown_as("pattern").of_key_spec(1).optional(),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        pattern("get-pattern")
            .after("GET")
            .shown_as("pattern")
            .of_key_spec(1)
            .optional()
            .repeated()
            .token_repeated(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        token("sorting", "ALPHA").optional(),
        key("destination", 2).after("STORE").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Sorts the elements of a list, a set or a sorted set, and returns or stores them.",
    complexity: "O(N+M*log(M)), N being the number of elements sorted and M the number of those returned",
    deprecated: None,
    id: id::SORT,
};

pub static SORT_RO: Spec = Spec {
    full_name: "sort_ro",
    subcommands: &[],
    group: Group::Generic,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SET.or(Cat::SORTEDSET).or(Cat::LIST).or(Cat::DANGEROUS),
    keys: Keys::Fn(
        &[
            one(1, RO_ACCESS),
            unknown(RO_ACCESS).note("Patterns of BY and GET name keys that the arguments do not show."),
        ],
        sort_ro_keys,
    ),
    args: &[
        key("key", 0),
        pattern("by-pattern").after("BY").shown_as("pattern").of_key_spec(1).optional(),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        pattern("get-pattern")
            .after("GET")
            .shown_as("pattern")
            .of_key_spec(1)
            .optional()
            .repeated()
            .token_repeated(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        token("sorting", "ALPHA").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Sorts the elements of a list, a set or a sorted set, and returns them.",
    complexity: "O(N+M*log(M)), N being the number of elements sorted and M the number of those returned",
    deprecated: None,
    id: id::SORT_RO,
};

pub static TOUCH: Spec = Spec {
    full_name: "touch",
    subcommands: &[],
    group: Group::Generic,
    since: "3.2.1",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[range(1, -1, 1, RO)]),
    args: &[key("key", 0).repeated()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    history: &[],
    summary: "Updates the access time of keys, and counts those that exist.",
    complexity: "O(N), N being the number of keys",
    deprecated: None,
    id: id::TOUCH,
};

pub static TTL: Spec = Spec {
    full_name: "ttl",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    history: &[("2.8.0", "-2 for a missing key.")],
    summary: "Returns the time to live of a key in seconds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::TTL,
};

pub static TYPE: Spec = Spec {
    full_name: "type",
    subcommands: &[],
    group: Group::Generic,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Returns the type of a key's value.",
    complexity: "O(1)",
    deprecated: None,
    id: id::TYPE,
};

pub static UNLINK: Spec = Spec {
    full_name: "unlink",
    subcommands: &[],
    group: Group::Generic,
    since: "4.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[range(1, -1, 1, RM_DELETE)]),
    args: &[key("key", 0).repeated()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    history: &[],
    summary: "Removes keys and frees large values in the background.",
    complexity: "O(1) for each key; freeing a value is O(M) elsewhere, M being its number of allocations",
    deprecated: None,
    id: id::UNLINK,
};

pub static WAIT: Spec = Spec {
    full_name: "wait",
    subcommands: &[],
    group: Group::Generic,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::BLOCKING,
    acl: Cat::CONNECTION.or(Cat::BLOCKING),
    keys: Keys::Specs(&[]),
    args: &[integer("numreplicas"), integer("timeout")],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    history: &[],
    summary: "Waits until a number of replicas has acknowledged the client's writes, or until a timeout.",
    complexity: "O(N), N being the number of replicas",
    deprecated: None,
    id: id::WAIT,
};

pub static WAITAOF: Spec = Spec {
    full_name: "waitaof",
    subcommands: &[],
    group: Group::Generic,
    since: "7.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::BLOCKING,
    acl: Cat::CONNECTION.or(Cat::BLOCKING),
    keys: Keys::Specs(&[]),
    args: &[integer("numlocal"), integer("numreplicas"), integer("timeout")],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    history: &[],
    summary: "Waits until the client's writes are fsynced in the append-only files of this server and of a number of replicas, or until a timeout.",
    complexity: "O(1)",
    deprecated: None,
    id: id::WAITAOF,
};

/// Finds the keys of MIGRATE: the third argument, or the arguments after KEYS if it is empty.
fn migrate_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    if args.len() < 6 {
        return Err(());
    }
    let mut at = 6;
    // KEYS as the last argument is not an option.
    while at + 1 < args.len() {
        let is = |word| crate::is_word(args[at], word);
        at += match () {
            () if is("auth") => 2,
            () if is("auth2") => 3,
            // A call with both a key and KEYS is invalid.
            () if is("keys") && !args[3].is_empty() => return Ok(()),
            () if is("keys") => {
                found.extend((at + 1..args.len()).map(|at| (at, RW_ACCESS_DELETE)));
                return Ok(());
            }
            () => 1,
        };
    }
    found.push((3, RW_ACCESS_DELETE));
    Ok(())
}

/// Finds the keys of SORT: the sorted key, which is read, and the key of the last STORE, which is written.
fn sort_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    sort_ro_keys(args, found)?;
    let (mut at, mut target) = (2, None);
    while at < args.len() {
        let is = |word| crate::is_word(args[at], word);
        at += match () {
            () if is("limit") => 3,
            () if is("get") || is("by") => 2,
            // The word after STORE is a key, even if it is the name of an option.
            () if is("store") && at + 1 < args.len() => {
                target = Some((at + 1, OW_UPDATE));
                2
            }
            () => 1,
        };
    }
    found.extend(target);
    Ok(())
}

/// Finds the sorted key, the only key of SORT_RO that its arguments show.
fn sort_ro_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    if args.len() < 2 {
        return Err(());
    }
    found.push((1, RO_ACCESS));
    Ok(())
}

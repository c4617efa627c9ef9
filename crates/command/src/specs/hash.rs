//! Hash commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    hash:
    HDEL,
    HEXISTS,
    HEXPIRE,
    HEXPIREAT,
    HEXPIRETIME,
    HGET,
    HGETALL,
    HGETDEL,
    HGETEX,
    HINCRBY,
    HINCRBYFLOAT,
    HKEYS,
    HLEN,
    HMGET,
    HMSET,
    HPERSIST,
    HPEXPIRE,
    HPEXPIREAT,
    HPEXPIRETIME,
    HPTTL,
    HRANDFIELD,
    HSCAN,
    HSET,
    HSETEX,
    HSETNX,
    HSTRLEN,
    HTTL,
    HVALS,
}

/// `HDEL`
pub static HDEL: Spec = Spec {
    full_name: "hdel",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), string("field").repeated()],
    tips: &[],
    history: &[("2.4.0", "Takes several fields.")],
    summary: "Removes fields from a hash, and the hash with its last field.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HDEL,
};

/// `HEXISTS`
pub static HEXISTS: Spec = Spec {
    full_name: "hexists",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0), string("field")],
    tips: &[],
    history: &[],
    summary: "Says whether a hash has a field.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HEXISTS,
};

/// `HEXPIRE`
pub static HEXPIRE: Spec = Spec {
    full_name: "hexpire",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("seconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .optional(),
        block("fields", &[integer("numfields"), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Sets how many seconds fields of a hash live.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HEXPIRE,
};

/// `HEXPIREAT`
pub static HEXPIREAT: Spec = Spec {
    full_name: "hexpireat",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("unix-time-seconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .since("9.0.0")
            .optional(),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Sets until when fields of a hash live, as a Unix time in seconds.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HEXPIREAT,
};

/// `HEXPIRETIME`
pub static HEXPIRETIME: Spec = Spec {
    full_name: "hexpiretime",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Says until when fields of a hash live, as a Unix time in seconds.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HEXPIRETIME,
};

/// `HGET`
pub static HGET: Spec = Spec {
    full_name: "hget",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("field")],
    tips: &[],
    history: &[],
    summary: "Gives the value of a field of a hash.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HGET,
};

/// `HGETALL`
pub static HGETALL: Spec = Spec {
    full_name: "hgetall",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Gives all fields of a hash with their values.",
    complexity: "O(N), N being the size of the hash",
    deprecated: None,
    id: id::HGETALL,
};

/// `HGETDEL`
pub static HGETDEL: Spec = Spec {
    full_name: "hgetdel",
    subcommands: &[],
    group: Group::Hash,
    since: "9.1.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Gives the values of fields of a hash and removes the fields.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HGETDEL,
};

/// `HGETEX`
pub static HGETEX: Spec = Spec {
    full_name: "hgetex",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
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
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Gives the values of fields of a hash and changes how long the fields live.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HGETEX,
};

/// `HINCRBY`
pub static HINCRBY: Spec = Spec {
    full_name: "hincrby",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), string("field"), integer("increment")],
    tips: &[],
    history: &[],
    summary: "Adds an integer to the value of a field of a hash.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HINCRBY,
};

/// `HINCRBYFLOAT`
pub static HINCRBYFLOAT: Spec = Spec {
    full_name: "hincrbyfloat",
    subcommands: &[],
    group: Group::Hash,
    since: "2.6.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), string("field"), double("increment")],
    tips: &[],
    history: &[],
    summary: "Adds a floating point number to the value of a field of a hash.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HINCRBYFLOAT,
};

/// `HKEYS`
pub static HKEYS: Spec = Spec {
    full_name: "hkeys",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Gives all fields of a hash.",
    complexity: "O(N), N being the size of the hash",
    deprecated: None,
    id: id::HKEYS,
};

/// `HLEN`
pub static HLEN: Spec = Spec {
    full_name: "hlen",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Gives the number of fields of a hash.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HLEN,
};

/// `HMGET`
pub static HMGET: Spec = Spec {
    full_name: "hmget",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("field").repeated()],
    tips: &[],
    history: &[],
    summary: "Gives the values of fields of a hash.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HMGET,
};

/// `HMSET`
pub static HMSET: Spec = Spec {
    full_name: "hmset",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0), block("data", &[string("field"), string("value")]).repeated()],
    tips: &[],
    history: &[],
    summary: "Stores values under fields of a hash.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HMSET,
};

/// `HPERSIST`
pub static HPERSIST: Spec = Spec {
    full_name: "hpersist",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Lets fields of a hash live on without an end.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HPERSIST,
};

/// `HPEXPIRE`
pub static HPEXPIRE: Spec = Spec {
    full_name: "hpexpire",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("milliseconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .since("9.0.0")
            .optional(),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Sets how many milliseconds fields of a hash live.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HPEXPIRE,
};

/// `HPEXPIREAT`
pub static HPEXPIREAT: Spec = Spec {
    full_name: "hpexpireat",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        integer("unix-time-milliseconds"),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
            .since("9.0.0")
            .optional(),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Sets until when fields of a hash live, as a Unix time in milliseconds.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HPEXPIREAT,
};

/// `HPEXPIRETIME`
pub static HPEXPIRETIME: Spec = Spec {
    full_name: "hpexpiretime",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Says until when fields of a hash live, as a Unix time in milliseconds.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HPEXPIRETIME,
};

/// `HPTTL`
pub static HPTTL: Spec = Spec {
    full_name: "hpttl",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Says how many milliseconds fields of a hash still live.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HPTTL,
};

/// `HRANDFIELD`
pub static HRANDFIELD: Spec = Spec {
    full_name: "hrandfield",
    subcommands: &[],
    group: Group::Hash,
    since: "6.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withvalues", "WITHVALUES").optional()]).optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Gives fields of a hash, drawn at random.",
    complexity: "O(N), N being the number of fields given",
    deprecated: None,
    id: id::HRANDFIELD,
};

/// `HSCAN`
pub static HSCAN: Spec = Spec {
    full_name: "hscan",
    subcommands: &[],
    group: Group::Hash,
    since: "2.8.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").after("MATCH").optional(),
        integer("count").after("COUNT").optional(),
        token("novalues", "NOVALUES").optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Visits the fields of a hash, some with each call.",
    complexity: "O(1) for each call; O(N) for a whole visit, N being the size of the hash",
    deprecated: None,
    id: id::HSCAN,
};

/// `HSET`
pub static HSET: Spec = Spec {
    full_name: "hset",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0), block("data", &[string("field"), string("value")]).repeated()],
    tips: &[],
    history: &[("4.0.0", "Takes several fields with their values.")],
    summary: "Stores values under fields of a hash.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HSET,
};

/// `HSETEX`
pub static HSETEX: Spec = Spec {
    full_name: "hsetex",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[
        key("key", 0),
        one_of("key-condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        one_of("fields-condition", &[token("fnx", "FNX"), token("fxx", "FXX")]).optional(),
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
        block(
            "fields",
            &[
                integer("numfields").of_key_spec(0),
                block("data", &[string("field"), string("value")]).repeated(),
            ],
        )
        .after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Stores values under fields of a hash, under conditions and with an expiry.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HSETEX,
};

/// `HSETNX`
pub static HSETNX: Spec = Spec {
    full_name: "hsetnx",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RW_INSERT)]),
    args: &[key("key", 0), string("field"), string("value")],
    tips: &[],
    history: &[],
    summary: "Stores a value under a field of a hash that is absent.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HSETNX,
};

/// `HSTRLEN`
pub static HSTRLEN: Spec = Spec {
    full_name: "hstrlen",
    subcommands: &[],
    group: Group::Hash,
    since: "3.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0), string("field")],
    tips: &[],
    history: &[],
    summary: "Gives the length of the value of a field of a hash.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HSTRLEN,
};

/// `HTTL`
pub static HTTL: Spec = Spec {
    full_name: "httl",
    subcommands: &[],
    group: Group::Hash,
    since: "9.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("fields", &[integer("numfields").of_key_spec(0), string("field").repeated()]).after("FIELDS"),
    ],
    tips: &[],
    history: &[],
    summary: "Says how many seconds fields of a hash still live.",
    complexity: "O(N), N being the number of fields",
    deprecated: None,
    id: id::HTTL,
};

/// `HVALS`
pub static HVALS: Spec = Spec {
    full_name: "hvals",
    subcommands: &[],
    group: Group::Hash,
    since: "2.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY,
    acl: Cat::HASH,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Gives all values of a hash.",
    complexity: "O(N), N being the size of the hash",
    deprecated: None,
    id: id::HVALS,
};

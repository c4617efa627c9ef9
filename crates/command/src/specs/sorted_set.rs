//! Sorted set commands.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    sorted_set:
    BZMPOP,
    BZPOPMAX,
    BZPOPMIN,
    ZADD,
    ZCARD,
    ZCOUNT,
    ZDIFF,
    ZDIFFSTORE,
    ZINCRBY,
    ZINTER,
    ZINTERCARD,
    ZINTERSTORE,
    ZLEXCOUNT,
    ZMPOP,
    ZMSCORE,
    ZPOPMAX,
    ZPOPMIN,
    ZRANDMEMBER,
    ZRANGE,
    ZRANGEBYLEX,
    ZRANGEBYSCORE,
    ZRANGESTORE,
    ZRANK,
    ZREM,
    ZREMRANGEBYLEX,
    ZREMRANGEBYRANK,
    ZREMRANGEBYSCORE,
    ZREVRANGE,
    ZREVRANGEBYLEX,
    ZREVRANGEBYSCORE,
    ZREVRANK,
    ZSCAN,
    ZSCORE,
    ZUNION,
    ZUNIONSTORE,
}

/// The option of ranges that makes the reply for an absent key differ from that for an empty range.
const OR_ABSENT: Arg = token("xx", "XX").optional().since("9.2.0");

/// `BZMPOP`
pub static BZMPOP: Spec = Spec {
    full_name: "bzmpop",
    subcommands: &[],
    group: Group::SortedSet,
    since: "7.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(2, 0, 1, 1, RW_ACCESS_DELETE)]),
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).repeated(),
        one_of("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").after("COUNT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Takes elements of the lowest or highest scores from the first sorted set that has any, waiting where none has.",
    complexity: "O(K) + O(M*log(N)), K being the number of keys, M the number of elements taken",
    deprecated: None,
    id: id::BZMPOP,
};

/// `BZPOPMAX`
pub static BZPOPMAX: Spec = Spec {
    full_name: "bzpopmax",
    subcommands: &[],
    group: Group::SortedSet,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[range(1, -2, 1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0).repeated(), double("timeout")],
    tips: &[],
    history: &[("6.0.0", "`timeout` may have a fraction.")],
    summary: "Takes the element of the highest score from the first sorted set that has one, waiting where none has.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::BZPOPMAX,
};

/// `BZPOPMIN`
pub static BZPOPMIN: Spec = Spec {
    full_name: "bzpopmin",
    subcommands: &[],
    group: Group::SortedSet,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[range(1, -2, 1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0).repeated(), double("timeout")],
    tips: &[],
    history: &[("6.0.0", "`timeout` may have a fraction.")],
    summary: "Takes the element of the lowest score from the first sorted set that has one, waiting where none has.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::BZPOPMIN,
};

/// `ZADD`
pub static ZADD: Spec = Spec {
    full_name: "zadd",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("3.0.2"),
        one_of("comparison", &[token("gt", "GT"), token("lt", "LT")]).optional().since("6.2.0"),
        token("change", "CH").optional().since("3.0.2"),
        token("increment", "INCR").optional().since("3.0.2"),
        block("data", &[double("score"), string("member")]).repeated(),
    ],
    tips: &[],
    history: &[
        ("2.4.0", "Several elements in one call."),
        ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
        ("6.2.0", "`GT` and `LT`."),
    ],
    summary: "Adds elements with their scores to a sorted set, or changes the scores of members.",
    complexity: "O(log(N)) for each element, N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZADD,
};

/// `ZCARD`
pub static ZCARD: Spec = Spec {
    full_name: "zcard",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Counts the elements of a sorted set.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ZCARD,
};

/// `ZCOUNT`
pub static ZCOUNT: Spec = Spec {
    full_name: "zcount",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), double("min"), double("max")],
    tips: &[],
    history: &[],
    summary: "Counts the elements of a sorted set whose scores lie in a range.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZCOUNT,
};

/// `ZDIFF`
pub static ZDIFF: Spec = Spec {
    full_name: "zdiff",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RO_ACCESS)]),
    args: &[integer("numkeys"), key("key", 0).repeated(), token("withscores", "WITHSCORES").optional()],
    tips: &[],
    history: &[],
    summary: "Answers with the elements of the first sorted set that no other one has.",
    complexity: "O(L + (N-K)*log(N)), L being the number of elements in all sets, N that of the first, K that of the result",
    deprecated: None,
    id: id::ZDIFF,
};

/// `ZDIFFSTORE`
pub static ZDIFFSTORE: Spec = Spec {
    full_name: "zdiffstore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), counted(2, 0, 1, 1, RO_ACCESS)]),
    args: &[key("destination", 0), integer("numkeys"), key("key", 1).repeated()],
    tips: &[],
    history: &[],
    summary: "Stores the elements of the first sorted set that no other one has.",
    complexity: "O(L + (N-K)*log(N)), L being the number of elements in all sets, N that of the first, K that of the result",
    deprecated: None,
    id: id::ZDIFFSTORE,
};

/// `ZINCRBY`
pub static ZINCRBY: Spec = Spec {
    full_name: "zincrby",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_ACCESS_UPDATE)]),
    args: &[key("key", 0), integer("increment"), string("member")],
    tips: &[],
    history: &[],
    summary: "Adds to the score of a member, which comes into being where it is absent.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZINCRBY,
};

/// `ZINTER`
pub static ZINTER: Spec = Spec {
    full_name: "zinter",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RO_ACCESS)]),
    args: &[
        integer("numkeys"),
        key("key", 0).repeated(),
        integer("weight").after("WEIGHTS").optional().repeated(),
        one_of("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .after("AGGREGATE")
            .optional(),
        token("withscores", "WITHSCORES").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Answers with the elements that all sorted sets have.",
    complexity: "O(N*K)+O(M*log(M)), N being the number of elements in the smallest set, K the number of sets, M that of the result",
    deprecated: None,
    id: id::ZINTER,
};

/// `ZINTERCARD`
pub static ZINTERCARD: Spec = Spec {
    full_name: "zintercard",
    subcommands: &[],
    group: Group::SortedSet,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RO_ACCESS)]),
    args: &[integer("numkeys"), key("key", 0).repeated(), integer("limit").after("LIMIT").optional()],
    tips: &[],
    history: &[],
    summary: "Counts the elements that all sorted sets have.",
    complexity: "O(N*K), N being the number of elements in the smallest set, K the number of sets",
    deprecated: None,
    id: id::ZINTERCARD,
};

/// `ZINTERSTORE`
pub static ZINTERSTORE: Spec = Spec {
    full_name: "zinterstore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), counted(2, 0, 1, 1, RO_ACCESS)]),
    args: &[
        key("destination", 0),
        integer("numkeys"),
        key("key", 1).repeated(),
        integer("weight").after("WEIGHTS").optional().repeated(),
        one_of("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .after("AGGREGATE")
            .optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Stores the elements that all sorted sets have.",
    complexity: "O(N*K)+O(M*log(M)), N being the number of elements in the smallest set, K the number of sets, M that of the result",
    deprecated: None,
    id: id::ZINTERSTORE,
};

/// `ZLEXCOUNT`
pub static ZLEXCOUNT: Spec = Spec {
    full_name: "zlexcount",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.8.9",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("min"), string("max")],
    tips: &[],
    history: &[],
    summary: "Counts the members of a sorted set that lie in a range of strings.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZLEXCOUNT,
};

/// `ZMPOP`
pub static ZMPOP: Spec = Spec {
    full_name: "zmpop",
    subcommands: &[],
    group: Group::SortedSet,
    since: "7.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RW_ACCESS_DELETE)]),
    args: &[
        integer("numkeys"),
        key("key", 0).repeated(),
        one_of("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").after("COUNT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Takes elements of the lowest or highest scores from the first sorted set that has any.",
    complexity: "O(K) + O(M*log(N)), K being the number of keys, M the number of elements taken",
    deprecated: None,
    id: id::ZMPOP,
};

/// `ZMSCORE`
pub static ZMSCORE: Spec = Spec {
    full_name: "zmscore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member").repeated()],
    tips: &[],
    history: &[],
    summary: "Answers with the scores of members.",
    complexity: "O(N), N being the number of members asked for",
    deprecated: None,
    id: id::ZMSCORE,
};

/// `ZPOPMAX`
pub static ZPOPMAX: Spec = Spec {
    full_name: "zpopmax",
    subcommands: &[],
    group: Group::SortedSet,
    since: "5.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0), integer("count").optional()],
    tips: &[],
    history: &[],
    summary: "Takes the elements of the highest scores out of a sorted set.",
    complexity: "O(log(N)*M), M being the number of elements taken",
    deprecated: None,
    id: id::ZPOPMAX,
};

/// `ZPOPMIN`
pub static ZPOPMIN: Spec = Spec {
    full_name: "zpopmin",
    subcommands: &[],
    group: Group::SortedSet,
    since: "5.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_ACCESS_DELETE)]),
    args: &[key("key", 0), integer("count").optional()],
    tips: &[],
    history: &[],
    summary: "Takes the elements of the lowest scores out of a sorted set.",
    complexity: "O(log(N)*M), M being the number of elements taken",
    deprecated: None,
    id: id::ZPOPMIN,
};

/// `ZRANDMEMBER`
pub static ZRANDMEMBER: Spec = Spec {
    full_name: "zrandmember",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withscores", "WITHSCORES").optional()]).optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Answers with random members of a sorted set.",
    complexity: "O(N), N being the number of members asked for",
    deprecated: None,
    id: id::ZRANDMEMBER,
};

/// `ZRANGE`
pub static ZRANGE: Spec = Spec {
    full_name: "zrange",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("start"),
        string("stop"),
        one_of("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional().since("6.2.0"),
        token("rev", "REV").optional().since("6.2.0"),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional().since("6.2.0"),
        token("withscores", "WITHSCORES").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`."), ("9.2.0", "`XX`.")],
    summary: "Answers with the elements of a sorted set in a range of ranks, scores or strings.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZRANGE,
};

/// `ZRANGEBYLEX`
pub static ZRANGEBYLEX: Spec = Spec {
    full_name: "zrangebylex",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.8.9",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("min"),
        string("max"),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("9.2.0", "`XX`.")],
    summary: "Answers with the members of a sorted set in a range of strings.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZRANGEBYLEX,
};

/// `ZRANGEBYSCORE`
pub static ZRANGEBYSCORE: Spec = Spec {
    full_name: "zrangebyscore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.0.5",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        double("min"),
        double("max"),
        token("withscores", "WITHSCORES").optional().since("2.0.0"),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("2.0.0", "`WITHSCORES`."), ("9.2.0", "`XX`.")],
    summary: "Answers with the elements of a sorted set in a range of scores.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZRANGEBYSCORE,
};

/// `ZRANGESTORE`
pub static ZRANGESTORE: Spec = Spec {
    full_name: "zrangestore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), one(2, RO_ACCESS)]),
    args: &[
        key("dst", 0),
        key("src", 1),
        string("min"),
        string("max"),
        one_of("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional(),
        token("rev", "REV").optional(),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Stores the elements of a sorted set in a range of ranks, scores or strings.",
    complexity: "O(log(N)+M), M being the number of elements stored",
    deprecated: None,
    id: id::ZRANGESTORE,
};

/// `ZRANK`
pub static ZRANK: Spec = Spec {
    full_name: "zrank",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member"), token("withscore", "WITHSCORE").optional()],
    tips: &[],
    history: &[("7.2.0", "`WITHSCORE`.")],
    summary: "Answers with the rank of a member, that of the lowest score being 0.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZRANK,
};

/// `ZREM`
pub static ZREM: Spec = Spec {
    full_name: "zrem",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), string("member").repeated()],
    tips: &[],
    history: &[("2.4.0", "Several members in one call.")],
    summary: "Removes members from a sorted set.",
    complexity: "O(M*log(N)), M being the number of members removed",
    deprecated: None,
    id: id::ZREM,
};

/// `ZREMRANGEBYLEX`
pub static ZREMRANGEBYLEX: Spec = Spec {
    full_name: "zremrangebylex",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.8.9",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), string("min"), string("max")],
    tips: &[],
    history: &[],
    summary: "Removes the members of a sorted set in a range of strings.",
    complexity: "O(log(N)+M), M being the number of elements removed",
    deprecated: None,
    id: id::ZREMRANGEBYLEX,
};

/// `ZREMRANGEBYRANK`
pub static ZREMRANGEBYRANK: Spec = Spec {
    full_name: "zremrangebyrank",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), integer("start"), integer("stop")],
    tips: &[],
    history: &[],
    summary: "Removes the elements of a sorted set in a range of ranks.",
    complexity: "O(log(N)+M), M being the number of elements removed",
    deprecated: None,
    id: id::ZREMRANGEBYRANK,
};

/// `ZREMRANGEBYSCORE`
pub static ZREMRANGEBYSCORE: Spec = Spec {
    full_name: "zremrangebyscore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), double("min"), double("max")],
    tips: &[],
    history: &[],
    summary: "Removes the elements of a sorted set in a range of scores.",
    complexity: "O(log(N)+M), M being the number of elements removed",
    deprecated: None,
    id: id::ZREMRANGEBYSCORE,
};

/// `ZREVRANGE`
pub static ZREVRANGE: Spec = Spec {
    full_name: "zrevrange",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        integer("start"),
        integer("stop"),
        token("withscores", "WITHSCORES").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("9.2.0", "`XX`.")],
    summary: "Answers with the elements of a sorted set in a range of ranks, counted from the highest score.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZREVRANGE,
};

/// `ZREVRANGEBYLEX`
pub static ZREVRANGEBYLEX: Spec = Spec {
    full_name: "zrevrangebylex",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.8.9",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("max"),
        string("min"),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("9.2.0", "`XX`.")],
    summary: "Answers with the members of a sorted set in a range of strings, the largest first.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZREVRANGEBYLEX,
};

/// `ZREVRANGEBYSCORE`
pub static ZREVRANGEBYSCORE: Spec = Spec {
    full_name: "zrevrangebyscore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        double("max"),
        double("min"),
        token("withscores", "WITHSCORES").optional(),
        block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        OR_ABSENT,
    ],
    tips: &[],
    history: &[("2.1.6", "A bound may be exclusive."), ("9.2.0", "`XX`.")],
    summary: "Answers with the elements of a sorted set in a range of scores, the highest first.",
    complexity: "O(log(N)+M), M being the number of elements in the reply",
    deprecated: None,
    id: id::ZREVRANGEBYSCORE,
};

/// `ZREVRANK`
pub static ZREVRANK: Spec = Spec {
    full_name: "zrevrank",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member"), token("withscore", "WITHSCORE").optional()],
    tips: &[],
    history: &[("7.2.0", "`WITHSCORE`.")],
    summary: "Answers with the rank of a member, that of the highest score being 0.",
    complexity: "O(log(N)), N being the number of elements in the sorted set",
    deprecated: None,
    id: id::ZREVRANK,
};

/// `ZSCAN`
pub static ZSCAN: Spec = Spec {
    full_name: "zscan",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.8.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").after("MATCH").optional(),
        integer("count").after("COUNT").optional(),
        token("noscores", "NOSCORES").optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[("8.0.0", "`NOSCORES`.")],
    summary: "Walks over the elements of a sorted set, some at a time.",
    complexity: "O(1) for each call, O(N) for a whole walk",
    deprecated: None,
    id: id::ZSCAN,
};

/// `ZSCORE`
pub static ZSCORE: Spec = Spec {
    full_name: "zscore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "1.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member")],
    tips: &[],
    history: &[],
    summary: "Answers with the score of a member.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ZSCORE,
};

/// `ZUNION`
pub static ZUNION: Spec = Spec {
    full_name: "zunion",
    subcommands: &[],
    group: Group::SortedSet,
    since: "6.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[counted(1, 0, 1, 1, RO_ACCESS)]),
    args: &[
        integer("numkeys"),
        key("key", 0).repeated(),
        integer("weight").after("WEIGHTS").optional().repeated(),
        one_of("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .after("AGGREGATE")
            .optional(),
        token("withscores", "WITHSCORES").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Answers with the elements that any of the sorted sets has.",
    complexity: "O(N)+O(M*log(M)), N being the number of elements in all sets, M that of the result",
    deprecated: None,
    id: id::ZUNION,
};

/// `ZUNIONSTORE`
pub static ZUNIONSTORE: Spec = Spec {
    full_name: "zunionstore",
    subcommands: &[],
    group: Group::SortedSet,
    since: "2.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::SORTEDSET,
    keys: Keys::Specs(&[one(1, OW_UPDATE), counted(2, 0, 1, 1, RO_ACCESS)]),
    args: &[
        key("destination", 0),
        integer("numkeys"),
        key("key", 1).repeated(),
        integer("weight").after("WEIGHTS").optional().repeated(),
        one_of("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .after("AGGREGATE")
            .optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Stores the elements that any of the sorted sets has.",
    complexity: "O(N)+O(M*log(M)), N being the number of elements in all sets, M that of the result",
    deprecated: None,
    id: id::ZUNIONSTORE,
};

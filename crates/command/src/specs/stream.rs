//! Stream commands.

use super::shorthand::*;
use crate::spec::{Arity, Begin, Cat, Find, Flags, Group, KeyFlags, KeySpec, Keys, Spec};

specs! {
    stream:
    XACK,
    XACKDEL,
    XADD,
    XAUTOCLAIM,
    XCLAIM,
    XDEL,
    XDELEX,
    XGROUP,
    XGROUP_CREATE,
    XGROUP_CREATECONSUMER,
    XGROUP_DELCONSUMER,
    XGROUP_DESTROY,
    XGROUP_HELP,
    XGROUP_SETID,
    XINFO,
    XINFO_CONSUMERS,
    XINFO_GROUPS,
    XINFO_HELP,
    XINFO_STREAM,
    XLEN,
    XPENDING,
    XRANGE,
    XREAD,
    XREADGROUP,
    XREVRANGE,
    XSETID,
    XTRIM,
}

/// The keys after the word `STREAMS`, which is searched from argument `from` on. They are the first half of
/// the arguments after the word.
const fn streams(from: i8, flags: KeyFlags) -> KeySpec {
    let find = Find::Range { last: -1, step: 1, limit: 2 };
    KeySpec { begin: Begin::Keyword { word: "STREAMS", from }, find, flags, notes: "" }
}

/// Finds the keys of XREADGROUP. They are those of its key spec, except that STREAMS as the name of a group
/// or a consumer, or as the operand of another option, is not taken for the word.
fn read_group_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    let mut at = 1;
    while at + 1 < args.len() {
        let is = |word| crate::is_word(args[at], word);
        at += match () {
            () if is("group") => 3,
            () if is("block") || is("count") => 2,
            () if at >= GROUP_STREAMS_FROM as usize && is("streams") => {
                let keys = at + 1..at + 1 + (args.len() - at - 1) / 2;
                if keys.is_empty() {
                    return Err(());
                }
                found.extend(keys.map(|at| (at, RO_ACCESS)));
                return Ok(());
            }
            () => 1,
        };
    }
    Ok(())
}

/// The index from which on XREADGROUP searches for STREAMS.
const GROUP_STREAMS_FROM: i8 = 4;

pub static XACK: Spec = Spec {
    full_name: "xack",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[key("key", 0), string("group"), string("id").repeated()],
    tips: &[],
    history: &[],
    summary: "Acknowledges entries of a group: removes them from its pending entries.",
    complexity: "O(1) for each id",
    deprecated: None,
    id: id::XACK,
};

pub static XACKDEL: Spec = Spec {
    full_name: "xackdel",
    subcommands: &[],
    group: Group::Stream,
    since: "9.2.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        string("group"),
        one_of("mode", &[token("keepref", "KEEPREF"), token("delref", "DELREF"), token("acked", "ACKED")])
            .optional(),
        token("ids", "IDS"),
        integer("numids"),
        string("id").repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Acknowledges entries of a group, and deletes those that no group needs, or all.",
    complexity: "O(log N) for each id, and O(G) with G groups for DELREF and ACKED",
    deprecated: None,
    id: id::XACKDEL,
};

pub static XADD: Spec = Spec {
    full_name: "xadd",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE).note("Update rather than insert, since entries may be trimmed")]),
    args: &[
        key("key", 0),
        token("nomkstream", "NOMKSTREAM").optional().since("6.2.0"),
        block(
            "trim",
            &[
                one_of("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
                one_of("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
                string("threshold"),
                integer("count").after("LIMIT").optional().since("6.2.0"),
            ],
        )
        .optional(),
        one_of("id-selector", &[token("auto-id", "*"), string("id")]),
        block("data", &[string("field"), string("value")]).repeated(),
    ],
    tips: &["nondeterministic_output"],
    history: &[
        ("6.2.0", "`NOMKSTREAM`, `MINID` and `LIMIT` were added."),
        ("7.0.0", "An id may be `<ms>-*`."),
    ],
    summary: "Adds an entry to a stream, creating it where it is missing.",
    complexity: "O(1), or O(N) where N entries are trimmed",
    deprecated: None,
    id: id::XADD,
};

pub static XAUTOCLAIM: Spec = Spec {
    full_name: "xautoclaim",
    subcommands: &[],
    group: Group::Stream,
    since: "6.2.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("start"),
        integer("count").after("COUNT").optional(),
        token("justid", "JUSTID").optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[("7.0.0", "The reply names the entries that are gone.")],
    summary: "Assigns entries that have been pending for long to a consumer, in the order of their ids.",
    complexity: "O(1) where the count is small",
    deprecated: None,
    id: id::XAUTOCLAIM,
};

pub static XCLAIM: Spec = Spec {
    full_name: "xclaim",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("id").repeated(),
        integer("ms").after("IDLE").optional(),
        unix_time("unix-time-milliseconds").after("TIME").optional(),
        integer("count").after("RETRYCOUNT").optional(),
        token("force", "FORCE").optional(),
        token("justid", "JUSTID").optional(),
        string("lastid").after("LASTID").optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Assigns pending entries to a consumer.",
    complexity: "O(log N) for each id, N being the number of pending entries of the group",
    deprecated: None,
    id: id::XCLAIM,
};

pub static XDEL: Spec = Spec {
    full_name: "xdel",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[key("key", 0), string("id").repeated()],
    tips: &[],
    history: &[],
    summary: "Deletes entries by their ids, and returns their number.",
    complexity: "O(log N) for each id",
    deprecated: None,
    id: id::XDEL,
};

pub static XDELEX: Spec = Spec {
    full_name: "xdelex",
    subcommands: &[],
    group: Group::Stream,
    since: "9.2.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        one_of("mode", &[token("keepref", "KEEPREF"), token("delref", "DELREF"), token("acked", "ACKED")])
            .optional(),
        token("ids", "IDS"),
        integer("numids"),
        string("id").repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Deletes entries, and heeds or ends that groups have them pending.",
    complexity: "O(log N) for each id, and O(G) with G groups for DELREF and ACKED",
    deprecated: None,
    id: id::XDELEX,
};

pub static XGROUP: Spec = Spec {
    full_name: "xgroup",
    subcommands: &[
        &XGROUP_CREATE,
        &XGROUP_CREATECONSUMER,
        &XGROUP_DELCONSUMER,
        &XGROUP_DESTROY,
        &XGROUP_HELP,
        &XGROUP_SETID,
    ],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Manages consumer groups.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::XGROUP,
};

pub static XGROUP_CREATE: Spec = Spec {
    full_name: "xgroup|create",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RW_INSERT)]),
    args: &[
        key("key", 0),
        string("group"),
        one_of("id-selector", &[string("id"), token("new-id", "$")]),
        token("mkstream", "MKSTREAM").optional(),
        integer("entriesread").after("ENTRIESREAD").shown_as("entries-read").optional(),
    ],
    tips: &[],
    history: &[("7.0.0", "`ENTRIESREAD` was added.")],
    summary: "Creates a consumer group.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XGROUP_CREATE,
};

pub static XGROUP_CREATECONSUMER: Spec = Spec {
    full_name: "xgroup|createconsumer",
    subcommands: &[],
    group: Group::Stream,
    since: "6.2.0",
    arity: Arity::Exactly(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RW_INSERT)]),
    args: &[key("key", 0), string("group"), string("consumer")],
    tips: &[],
    history: &[],
    summary: "Creates a consumer in a group.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XGROUP_CREATECONSUMER,
};

pub static XGROUP_DELCONSUMER: Spec = Spec {
    full_name: "xgroup|delconsumer",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(5),
    flags: Flags::WRITE,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RW_DELETE)]),
    args: &[key("key", 0), string("group"), string("consumer")],
    tips: &[],
    history: &[],
    summary: "Removes a consumer with its pending entries.",
    complexity: "O(N), N being the number of its pending entries",
    deprecated: None,
    id: id::XGROUP_DELCONSUMER,
};

pub static XGROUP_DESTROY: Spec = Spec {
    full_name: "xgroup|destroy",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::WRITE,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RW_DELETE)]),
    args: &[key("key", 0), string("group")],
    tips: &[],
    history: &[],
    summary: "Removes a consumer group.",
    complexity: "O(1); what the group held is freed by another thread",
    deprecated: None,
    id: id::XGROUP_DESTROY,
};

pub static XGROUP_HELP: Spec = Spec {
    full_name: "xgroup|help",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XGROUP_HELP,
};

pub static XGROUP_SETID: Spec = Spec {
    full_name: "xgroup|setid",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RW_UPDATE)]),
    args: &[
        key("key", 0),
        string("group"),
        one_of("id-selector", &[string("id"), token("new-id", "$")]),
        integer("entriesread").after("ENTRIESREAD").shown_as("entries-read").optional(),
    ],
    tips: &[],
    history: &[("7.0.0", "`ENTRIESREAD` was added.")],
    summary: "Sets which entry a group has read last.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XGROUP_SETID,
};

pub static XINFO: Spec = Spec {
    full_name: "xinfo",
    subcommands: &[&XINFO_CONSUMERS, &XINFO_GROUPS, &XINFO_HELP, &XINFO_STREAM],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Describes streams.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::XINFO,
};

pub static XINFO_CONSUMERS: Spec = Spec {
    full_name: "xinfo|consumers",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RO_ACCESS)]),
    args: &[key("key", 0), string("group")],
    tips: &["nondeterministic_output"],
    history: &[("7.2.0", "`inactive` was added, and `idle` counts from the last attempt.")],
    summary: "Lists the consumers of a group.",
    complexity: "O(N), N being the number of consumers",
    deprecated: None,
    id: id::XINFO_CONSUMERS,
};

pub static XINFO_GROUPS: Spec = Spec {
    full_name: "xinfo|groups",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RO_ACCESS)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[("7.0.0", "`entries-read` and `lag` were added.")],
    summary: "Lists the groups of a stream.",
    complexity: "O(N), N being the number of groups",
    deprecated: None,
    id: id::XINFO_GROUPS,
};

pub static XINFO_HELP: Spec = Spec {
    full_name: "xinfo|help",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XINFO_HELP,
};

pub static XINFO_STREAM: Spec = Spec {
    full_name: "xinfo|stream",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(2, RO_ACCESS)]),
    args: &[
        key("key", 0),
        block("full-block", &[token("full", "FULL"), integer("count").after("COUNT").optional()]).optional(),
    ],
    tips: &[],
    history: &[
        ("6.0.0", "`FULL` was added."),
        ("7.0.0", "The fields about deleted and added entries, and groups' `lag`, were added."),
        ("7.2.0", "`active-time` was added, and `seen-time` is that of the last attempt."),
    ],
    summary: "Describes a stream.",
    complexity: "O(1) without FULL",
    deprecated: None,
    id: id::XINFO_STREAM,
};

pub static XLEN: Spec = Spec {
    full_name: "xlen",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RO)]),
    args: &[key("key", 0)],
    tips: &[],
    history: &[],
    summary: "Returns the number of entries of a stream.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XLEN,
};

pub static XPENDING: Spec = Spec {
    full_name: "xpending",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("group"),
        block(
            "filters",
            &[
                integer("min-idle-time").after("IDLE").optional().since("6.2.0"),
                string("start"),
                string("end"),
                integer("count"),
                string("consumer").optional(),
            ],
        )
        .optional(),
    ],
    tips: &["nondeterministic_output"],
    history: &[("6.2.0", "`IDLE` and exclusive ranges were added.")],
    summary: "Describes the pending entries of a group.",
    complexity: "O(N), N being the number of entries answered; with IDLE, of those looked at",
    deprecated: None,
    id: id::XPENDING,
};

pub static XRANGE: Spec = Spec {
    full_name: "xrange",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("start"), string("end"), integer("count").after("COUNT").optional()],
    tips: &[],
    history: &[("6.2.0", "Ranges may exclude their ends.")],
    summary: "Returns the entries of a range of ids.",
    complexity: "O(log N + M), M being the number of entries answered",
    deprecated: None,
    id: id::XRANGE,
};

pub static XREAD: Spec = Spec {
    full_name: "xread",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[streams(1, RO_ACCESS)]),
    args: &[
        integer("count").after("COUNT").optional(),
        integer("milliseconds").after("BLOCK").optional(),
        block("streams", &[key("key", 0).repeated(), string("id").repeated()]).after("STREAMS"),
    ],
    tips: &[],
    history: &[],
    summary: "Returns the entries of streams after given ids, with BLOCK waiting for some.",
    complexity: "",
    deprecated: None,
    id: id::XREAD,
};

pub static XREADGROUP: Spec = Spec {
    full_name: "xreadgroup",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(7),
    flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
    acl: Cat::STREAM,
    keys: Keys::Fn(&[streams(GROUP_STREAMS_FROM, RO_ACCESS)], read_group_keys),
    args: &[
        block("group-block", &[string("group"), string("consumer")]).after("GROUP"),
        integer("count").after("COUNT").optional(),
        integer("milliseconds").after("BLOCK").optional(),
        token("noack", "NOACK").optional(),
        block("streams", &[key("key", 0).repeated(), string("id").repeated()]).after("STREAMS"),
    ],
    tips: &[],
    history: &[],
    summary: "Returns entries of streams to a consumer of a group, with BLOCK waiting for some.",
    complexity: "O(log N + M) for each stream, M being the number of entries answered",
    deprecated: None,
    id: id::XREADGROUP,
};

pub static XREVRANGE: Spec = Spec {
    full_name: "xrevrange",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("end"), string("start"), integer("count").after("COUNT").optional()],
    tips: &[],
    history: &[("6.2.0", "Ranges may exclude their ends.")],
    summary: "Returns the entries of a range of ids, the last first.",
    complexity: "O(log N + M), M being the number of entries answered",
    deprecated: None,
    id: id::XREVRANGE,
};

pub static XSETID: Spec = Spec {
    full_name: "xsetid",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        string("last-id"),
        integer("entries-added").after("ENTRIESADDED").optional().since("7.0.0"),
        string("max-deleted-id").after("MAXDELETEDID").optional().since("7.0.0"),
    ],
    tips: &[],
    history: &[("7.0.0", "`ENTRIESADDED` and `MAXDELETEDID` were added.")],
    summary: "Sets what a stream remembers beside its entries.",
    complexity: "O(1)",
    deprecated: None,
    id: id::XSETID,
};

pub static XTRIM: Spec = Spec {
    full_name: "xtrim",
    subcommands: &[],
    group: Group::Stream,
    since: "5.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE,
    acl: Cat::STREAM,
    keys: Keys::Specs(&[one(1, RW_DELETE)]),
    args: &[
        key("key", 0),
        block(
            "trim",
            &[
                one_of("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
                one_of("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
                string("threshold"),
                integer("count").after("LIMIT").optional().since("6.2.0"),
            ],
        ),
    ],
    tips: &["nondeterministic_output"],
    history: &[("6.2.0", "`MINID` and `LIMIT` were added.")],
    summary: "Removes the first entries of a stream.",
    complexity: "O(log N), and a step for each entry of the last macro node",
    deprecated: None,
    id: id::XTRIM,
};

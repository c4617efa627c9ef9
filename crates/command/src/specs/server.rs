//! Commands on the server, and those that carry the replication stream.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec, SpecId};

/// Id of the first spec of this file.
const BASE: u16 = super::cluster::END;
/// One past the id of the last.
pub(crate) const END: u16 = BASE + SPECS.len() as u16;

/// Every spec of this file in the order of the ids.
pub(crate) static SPECS: [&Spec; 54] = [
    &COMMAND,
    &COMMAND_COUNT,
    &COMMAND_DOCS,
    &COMMAND_GETKEYS,
    &COMMAND_GETKEYSANDFLAGS,
    &COMMAND_HELP,
    &COMMAND_INFO,
    &COMMAND_LIST,
    &COMMANDLOG,
    &COMMANDLOG_GET,
    &COMMANDLOG_HELP,
    &COMMANDLOG_LEN,
    &COMMANDLOG_RESET,
    &CONFIG,
    &CONFIG_GET,
    &CONFIG_HELP,
    &CONFIG_RESETSTAT,
    &CONFIG_REWRITE,
    &CONFIG_SET,
    &DBSIZE,
    &DEBUG,
    &FLUSHALL,
    &FLUSHDB,
    &INFO,
    &LASTSAVE,
    &LATENCY,
    &LATENCY_DOCTOR,
    &LATENCY_GRAPH,
    &LATENCY_HELP,
    &LATENCY_HISTOGRAM,
    &LATENCY_HISTORY,
    &LATENCY_LATEST,
    &LATENCY_RESET,
    &LOLWUT,
    &MEMORY,
    &MEMORY_DOCTOR,
    &MEMORY_HELP,
    &MEMORY_MALLOC_STATS,
    &MEMORY_PURGE,
    &MEMORY_STATS,
    &MEMORY_USAGE,
    &MONITOR,
    &PSYNC,
    &REPLCONF,
    &ROLE,
    &SHUTDOWN,
    &SLOWLOG,
    &SLOWLOG_GET,
    &SLOWLOG_HELP,
    &SLOWLOG_LEN,
    &SLOWLOG_RESET,
    &SWAPDB,
    &SYNC,
    &TIME,
];

/// `COMMAND`
pub static COMMAND: Spec = Spec {
    name: "command",
    full_name: "command",
    subcommands: &[
        &COMMAND_COUNT,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_HELP,
        &COMMAND_INFO,
        &COMMAND_LIST,
    ],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::AtLeast(1),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Describes every command.",
    complexity: "O(N), N being the number of commands",
    deprecated: None,
    id: SpecId(BASE),
};

/// `COMMAND COUNT`
pub static COMMAND_COUNT: Spec = Spec {
    name: "count",
    full_name: "command|count",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Counts the commands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 1),
};

/// `COMMAND DOCS`
pub static COMMAND_DOCS: Spec = Spec {
    name: "docs",
    full_name: "command|docs",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("command-name").optional().repeated()],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Shows the documentation of commands.",
    complexity: "O(N), N being the number of commands asked for",
    deprecated: None,
    id: SpecId(BASE + 2),
};

/// `COMMAND GETKEYS`
pub static COMMAND_GETKEYS: Spec = Spec {
    name: "getkeys",
    full_name: "command|getkeys",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::AtLeast(3),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("command"), string("arg").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Finds the keys in a full command line.",
    complexity: "O(N), N being the number of arguments",
    deprecated: None,
    id: SpecId(BASE + 3),
};

/// `COMMAND GETKEYSANDFLAGS`
pub static COMMAND_GETKEYSANDFLAGS: Spec = Spec {
    name: "getkeysandflags",
    full_name: "command|getkeysandflags",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("command"), string("arg").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Finds the keys in a full command line and says how each is used.",
    complexity: "O(N), N being the number of arguments",
    deprecated: None,
    id: SpecId(BASE + 4),
};

/// `COMMAND HELP`
pub static COMMAND_HELP: Spec = Spec {
    name: "help",
    full_name: "command|help",
    subcommands: &[],
    group: Group::Server,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 5),
};

/// `COMMAND INFO`
pub static COMMAND_INFO: Spec = Spec {
    name: "info",
    full_name: "command|info",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::AtLeast(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("command-name").optional().repeated()],
    tips: &["nondeterministic_output_order"],
    history: &[("7.0.0", "Without a name it describes all commands.")],
    summary: "Describes the named commands, or all.",
    complexity: "O(N), N being the number of commands asked for",
    deprecated: None,
    id: SpecId(BASE + 6),
};

/// `COMMAND LIST`
pub static COMMAND_LIST: Spec = Spec {
    name: "list",
    full_name: "command|list",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "filterby",
        &[
            string("module-name").after("MODULE"),
            string("category").after("ACLCAT"),
            pattern("pattern").after("PATTERN"),
        ],
    )
    .after("FILTERBY")
    .optional()],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Lists the names of commands.",
    complexity: "O(N), N being the number of commands",
    deprecated: None,
    id: SpecId(BASE + 7),
};

/// `COMMANDLOG`
pub static COMMANDLOG: Spec = Spec {
    name: "commandlog",
    full_name: "commandlog",
    subcommands: &[&COMMANDLOG_GET, &COMMANDLOG_HELP, &COMMANDLOG_LEN, &COMMANDLOG_RESET],
    group: Group::Server,
    since: "8.1.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Looks at commands that were slow or large.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 8),
};

/// `COMMANDLOG GET`
pub static COMMANDLOG_GET: Spec = Spec {
    name: "get",
    full_name: "commandlog|get",
    subcommands: &[],
    group: Group::Server,
    since: "8.1.0",
    arity: Arity::Exactly(4),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[
        integer("count"),
        one_of(
            "type",
            &[
                token("slow", "SLOW"),
                token("large-request", "LARGE-REQUEST"),
                token("large-reply", "LARGE-REPLY"),
            ],
        ),
    ],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[],
    summary: "Shows the newest entries of one of the logs.",
    complexity: "O(N), N being the number of entries shown",
    deprecated: None,
    id: SpecId(BASE + 9),
};

/// `COMMANDLOG HELP`
pub static COMMANDLOG_HELP: Spec = Spec {
    name: "help",
    full_name: "commandlog|help",
    subcommands: &[],
    group: Group::Server,
    since: "8.1.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 10),
};

/// `COMMANDLOG LEN`
pub static COMMANDLOG_LEN: Spec = Spec {
    name: "len",
    full_name: "commandlog|len",
    subcommands: &[],
    group: Group::Server,
    since: "8.1.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "type",
        &[
            token("slow", "SLOW"),
            token("large-request", "LARGE-REQUEST"),
            token("large-reply", "LARGE-REPLY"),
        ],
    )],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    history: &[],
    summary: "Counts the entries of one of the logs.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 11),
};

/// `COMMANDLOG RESET`
pub static COMMANDLOG_RESET: Spec = Spec {
    name: "reset",
    full_name: "commandlog|reset",
    subcommands: &[],
    group: Group::Server,
    since: "8.1.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "type",
        &[
            token("slow", "SLOW"),
            token("large-request", "LARGE-REQUEST"),
            token("large-reply", "LARGE-REPLY"),
        ],
    )],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Empties one of the logs.",
    complexity: "O(N), N being the number of entries",
    deprecated: None,
    id: SpecId(BASE + 12),
};

/// `CONFIG`
pub static CONFIG: Spec = Spec {
    name: "config",
    full_name: "config",
    subcommands: &[&CONFIG_GET, &CONFIG_HELP, &CONFIG_RESETSTAT, &CONFIG_REWRITE, &CONFIG_SET],
    group: Group::Server,
    since: "2.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Reads and changes the configuration.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 13),
};

/// `CONFIG GET`
pub static CONFIG_GET: Spec = Spec {
    name: "get",
    full_name: "config|get",
    subcommands: &[],
    group: Group::Server,
    since: "2.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("parameter").repeated()],
    tips: &[],
    history: &[("7.0.0", "More than one pattern.")],
    summary: "Reads the parameters that match.",
    complexity: "O(N), N being the number of parameters",
    deprecated: None,
    id: SpecId(BASE + 14),
};

/// `CONFIG HELP`
pub static CONFIG_HELP: Spec = Spec {
    name: "help",
    full_name: "config|help",
    subcommands: &[],
    group: Group::Server,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 15),
};

/// `CONFIG RESETSTAT`
pub static CONFIG_RESETSTAT: Spec = Spec {
    name: "resetstat",
    full_name: "config|resetstat",
    subcommands: &[],
    group: Group::Server,
    since: "2.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Starts the statistics again from zero.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 16),
};

/// `CONFIG REWRITE`
pub static CONFIG_REWRITE: Spec = Spec {
    name: "rewrite",
    full_name: "config|rewrite",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Writes the present configuration back to its file.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 17),
};

/// `CONFIG SET`
pub static CONFIG_SET: Spec = Spec {
    name: "set",
    full_name: "config|set",
    subcommands: &[],
    group: Group::Server,
    since: "2.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[block("data", &[string("parameter"), string("value")]).repeated()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[("7.0.0", "More than one parameter.")],
    summary: "Changes parameters while the server runs.",
    complexity: "O(N), N being the number of parameters",
    deprecated: None,
    id: SpecId(BASE + 18),
};

/// `DBSIZE`
pub static DBSIZE: Spec = Spec {
    name: "dbsize",
    full_name: "dbsize",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    history: &[],
    summary: "Counts the keys of the database.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 19),
};

/// `DEBUG`
pub static DEBUG: Spec = Spec {
    name: "debug",
    full_name: "debug",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::SYSCMD)
        .or(Flags::PROTECTED),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Tools for those who work on the server.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 20),
};

/// `FLUSHALL`
pub static FLUSHALL: Spec = Spec {
    name: "flushall",
    full_name: "flushall",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::WRITE.or(Flags::ALL_DBS),
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "flush-type",
        &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")],
    )
    .optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[("4.0.0", "Modifier `ASYNC`."), ("6.2.0", "Modifier `SYNC`.")],
    summary: "Removes every key of every database.",
    complexity: "O(N), N being the number of keys in all databases",
    deprecated: None,
    id: SpecId(BASE + 21),
};

/// `FLUSHDB`
pub static FLUSHDB: Spec = Spec {
    name: "flushdb",
    full_name: "flushdb",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::WRITE,
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "flush-type",
        &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")],
    )
    .optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[("4.0.0", "Modifier `ASYNC`."), ("6.2.0", "Modifier `SYNC`.")],
    summary: "Removes every key of the database.",
    complexity: "O(N), N being the number of keys in the database",
    deprecated: None,
    id: SpecId(BASE + 22),
};

/// `INFO`
pub static INFO: Spec = Spec {
    name: "info",
    full_name: "info",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::DANGEROUS,
    keys: Keys::Specs(&[]),
    args: &[string("section").optional().repeated()],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[("7.0.0", "More than one section.")],
    summary: "Reports the state and the statistics of the server.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 23),
};

/// `LASTSAVE`
pub static LASTSAVE: Spec = Spec {
    name: "lastsave",
    full_name: "lastsave",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::ADMIN.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Says when, as a Unix time, the data set was last saved.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 24),
};

/// `LATENCY`
pub static LATENCY: Spec = Spec {
    name: "latency",
    full_name: "latency",
    subcommands: &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HELP,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
    ],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Looks at where time was lost.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 25),
};

/// `LATENCY DOCTOR`
pub static LATENCY_DOCTOR: Spec = Spec {
    name: "doctor",
    full_name: "latency|doctor",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    history: &[],
    summary: "Judges the recorded latencies in plain words.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 26),
};

/// `LATENCY GRAPH`
pub static LATENCY_GRAPH: Spec = Spec {
    name: "graph",
    full_name: "latency|graph",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("event")],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    history: &[],
    summary: "Draws the latencies of an event.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 27),
};

/// `LATENCY HELP`
pub static LATENCY_HELP: Spec = Spec {
    name: "help",
    full_name: "latency|help",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 28),
};

/// `LATENCY HISTOGRAM`
pub static LATENCY_HISTOGRAM: Spec = Spec {
    name: "histogram",
    full_name: "latency|histogram",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("command").optional().repeated()],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    history: &[],
    summary: "Shows how long commands took, as cumulative counts.",
    complexity: "O(N), N being the number of commands shown",
    deprecated: None,
    id: SpecId(BASE + 29),
};

/// `LATENCY HISTORY`
pub static LATENCY_HISTORY: Spec = Spec {
    name: "history",
    full_name: "latency|history",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("event")],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    history: &[],
    summary: "Lists the samples of an event: when and how long.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 30),
};

/// `LATENCY LATEST`
pub static LATENCY_LATEST: Spec = Spec {
    name: "latest",
    full_name: "latency|latest",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    history: &[],
    summary: "Lists the newest sample of each event.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 31),
};

/// `LATENCY RESET`
pub static LATENCY_RESET: Spec = Spec {
    name: "reset",
    full_name: "latency|reset",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("event").optional().repeated()],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
    history: &[],
    summary: "Forgets the samples of some events, or of all.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 32),
};

/// `LOLWUT`
pub static LOLWUT: Spec = Spec {
    name: "lolwut",
    full_name: "lolwut",
    subcommands: &[],
    group: Group::Server,
    since: "5.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::READONLY.or(Flags::FAST),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("version").after("VERSION").optional()],
    tips: &[],
    history: &[],
    summary: "Draws a picture and names the version.",
    complexity: "",
    deprecated: None,
    id: SpecId(BASE + 33),
};

/// `MEMORY`
pub static MEMORY: Spec = Spec {
    name: "memory",
    full_name: "memory",
    subcommands: &[
        &MEMORY_DOCTOR,
        &MEMORY_HELP,
        &MEMORY_MALLOC_STATS,
        &MEMORY_PURGE,
        &MEMORY_STATS,
        &MEMORY_USAGE,
    ],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Looks at the memory in use.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 34),
};

/// `MEMORY DOCTOR`
pub static MEMORY_DOCTOR: Spec = Spec {
    name: "doctor",
    full_name: "memory|doctor",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[],
    summary: "Judges the use of memory in plain words.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 35),
};

/// `MEMORY HELP`
pub static MEMORY_HELP: Spec = Spec {
    name: "help",
    full_name: "memory|help",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 36),
};

/// `MEMORY MALLOC-STATS`
pub static MEMORY_MALLOC_STATS: Spec = Spec {
    name: "malloc-stats",
    full_name: "memory|malloc-stats",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[],
    summary: "Shows the statistics of the allocator.",
    complexity: "Grows with the memory allocated; may be slow",
    deprecated: None,
    id: SpecId(BASE + 37),
};

/// `MEMORY PURGE`
pub static MEMORY_PURGE: Spec = Spec {
    name: "purge",
    full_name: "memory|purge",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Asks the allocator to give memory back.",
    complexity: "Grows with the memory allocated; may be slow",
    deprecated: None,
    id: SpecId(BASE + 38),
};

/// `MEMORY STATS`
pub static MEMORY_STATS: Spec = Spec {
    name: "stats",
    full_name: "memory|stats",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[],
    summary: "Breaks the memory in use down.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 39),
};

/// `MEMORY USAGE`
pub static MEMORY_USAGE: Spec = Spec {
    name: "usage",
    full_name: "memory|usage",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    acl: Cat::NONE,
    keys: Keys::Specs(&[one(2, RO)]),
    args: &[key("key", 0), integer("count").after("SAMPLES").optional()],
    tips: &[],
    history: &[],
    summary: "Estimates the memory of a key and its value.",
    complexity: "O(N), N being the number of elements sampled",
    deprecated: None,
    id: SpecId(BASE + 40),
};

/// `MONITOR`
pub static MONITOR: Spec = Spec {
    name: "monitor",
    full_name: "monitor",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Streams every command that the server runs.",
    complexity: "",
    deprecated: None,
    id: SpecId(BASE + 41),
};

/// `PSYNC`
pub static PSYNC: Spec = Spec {
    name: "psync",
    full_name: "psync",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("replicationid"), integer("offset")],
    tips: &[],
    history: &[],
    summary: "Starts or resumes the replication stream; sent by replicas.",
    complexity: "",
    deprecated: None,
    id: SpecId(BASE + 42),
};

/// `REPLCONF`
pub static REPLCONF: Spec = Spec {
    name: "replconf",
    full_name: "replconf",
    subcommands: &[],
    group: Group::Server,
    since: "3.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::ALLOW_BUSY)
        .or(Flags::SYSCMD),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Settles the terms of replication; sent between servers.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 43),
};

/// `ROLE`
pub static ROLE: Spec = Spec {
    name: "role",
    full_name: "role",
    subcommands: &[],
    group: Group::Server,
    since: "2.8.12",
    arity: Arity::Exactly(1),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST),
    acl: Cat::ADMIN.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Tells the part this server plays in replication.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 44),
};

/// `SHUTDOWN`
pub static SHUTDOWN: Spec = Spec {
    name: "shutdown",
    full_name: "shutdown",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::NO_MULTI)
        .or(Flags::ALLOW_BUSY),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "abort-selector",
        &[
            block(
                "save-selector-block",
                &[
                    one_of("save-selector", &[token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(),
                    token("now", "NOW").optional().since("7.0.0"),
                    token("force", "FORCE").optional().since("7.0.0"),
                    token("safe", "SAFE").optional().since("9.0.0"),
                    token("failover", "FAILOVER").optional().since("9.0.0"),
                ],
            ),
            token("abort", "ABORT").since("7.0.0"),
        ],
    )
    .optional()],
    tips: &[],
    history: &[
        ("7.0.0", "Modifiers `NOW`, `FORCE` and `ABORT`."),
        ("9.0.0", "Modifiers `SAFE` and `FAILOVER`."),
    ],
    summary: "Saves the data set where configured and stops the server.",
    complexity: "O(N) with a save, N being the number of keys in all databases; otherwise O(1)",
    deprecated: None,
    id: SpecId(BASE + 45),
};

/// `SLOWLOG`
pub static SLOWLOG: Spec = Spec {
    name: "slowlog",
    full_name: "slowlog",
    subcommands: &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
    group: Group::Server,
    since: "2.2.12",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Looks at commands that were slow.",
    complexity: "As the subcommand",
    deprecated: None,
    id: SpecId(BASE + 46),
};

/// `SLOWLOG GET`
pub static SLOWLOG_GET: Spec = Spec {
    name: "get",
    full_name: "slowlog|get",
    subcommands: &[],
    group: Group::Server,
    since: "2.2.12",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("count").optional()],
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[("4.0.0", "Entries have the address and the name of the client.")],
    summary: "Shows the newest entries of the log.",
    complexity: "O(N), N being the number of entries shown",
    deprecated: None,
    id: SpecId(BASE + 47),
};

/// `SLOWLOG HELP`
pub static SLOWLOG_HELP: Spec = Spec {
    name: "help",
    full_name: "slowlog|help",
    subcommands: &[],
    group: Group::Server,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Explains the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 48),
};

/// `SLOWLOG LEN`
pub static SLOWLOG_LEN: Spec = Spec {
    name: "len",
    full_name: "slowlog|len",
    subcommands: &[],
    group: Group::Server,
    since: "2.2.12",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    history: &[],
    summary: "Counts the entries of the log.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 49),
};

/// `SLOWLOG RESET`
pub static SLOWLOG_RESET: Spec = Spec {
    name: "reset",
    full_name: "slowlog|reset",
    subcommands: &[],
    group: Group::Server,
    since: "2.2.12",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Empties the log.",
    complexity: "O(N), N being the number of entries",
    deprecated: None,
    id: SpecId(BASE + 50),
};

/// `SWAPDB`
pub static SWAPDB: Spec = Spec {
    name: "swapdb",
    full_name: "swapdb",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::FAST),
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[]),
    args: &[integer("index1"), integer("index2")],
    tips: &[],
    history: &[],
    summary: "Exchanges the contents of two databases.",
    complexity: "O(N), N being the number of clients that watch or wait for keys of the two",
    deprecated: None,
    id: SpecId(BASE + 51),
};

/// `SYNC`
pub static SYNC: Spec = Spec {
    name: "sync",
    full_name: "sync",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Starts the replication stream with a full copy; sent by old replicas.",
    complexity: "",
    deprecated: None,
    id: SpecId(BASE + 52),
};

/// `TIME`
pub static TIME: Spec = Spec {
    name: "time",
    full_name: "time",
    subcommands: &[],
    group: Group::Server,
    since: "2.6.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Reads the clock of the server.",
    complexity: "O(1)",
    deprecated: None,
    id: SpecId(BASE + 53),
};

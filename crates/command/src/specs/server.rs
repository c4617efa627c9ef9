//! Server commands, and the commands that carry the replication stream.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    server:
    ACL,
    ACL_CAT,
    ACL_DELROLE,
    ACL_DELUSER,
    ACL_DIGEST,
    ACL_DRYRUN,
    ACL_GENPASS,
    ACL_GETROLE,
    ACL_GETUSER,
    ACL_HELP,
    ACL_LIST,
    ACL_LOAD,
    ACL_LOG,
    ACL_ROLES,
    ACL_SAVE,
    ACL_SETROLE,
    ACL_SETUSER,
    ACL_USERS,
    ACL_WHOAMI,
    BGREWRITEAOF,
    BGSAVE,
    COMMAND,
    COMMAND_COUNT,
    COMMAND_DOCS,
    COMMAND_GETKEYS,
    COMMAND_GETKEYSANDFLAGS,
    COMMAND_HELP,
    COMMAND_INFO,
    COMMAND_LIST,
    COMMANDLOG,
    COMMANDLOG_GET,
    COMMANDLOG_HELP,
    COMMANDLOG_LEN,
    COMMANDLOG_RESET,
    CONFIG,
    CONFIG_GET,
    CONFIG_HELP,
    CONFIG_INFO,
    CONFIG_RESETSTAT,
    CONFIG_REWRITE,
    CONFIG_SET,
    DBSIZE,
    DEBUG,
    FAILOVER,
    FLUSHALL,
    FLUSHDB,
    HOTKEYS,
    HOTKEYS_GET,
    HOTKEYS_HELP,
    HOTKEYS_RESET,
    INFO,
    LASTSAVE,
    LATENCY,
    LATENCY_DOCTOR,
    LATENCY_GRAPH,
    LATENCY_HELP,
    LATENCY_HISTOGRAM,
    LATENCY_HISTORY,
    LATENCY_LATEST,
    LATENCY_RESET,
    LOLWUT,
    MEMORY,
    MEMORY_DOCTOR,
    MEMORY_HELP,
    MEMORY_MALLOC_STATS,
    MEMORY_PURGE,
    MEMORY_STATS,
    MEMORY_USAGE,
    MODULE,
    MODULE_HELP,
    MODULE_LIST,
    MODULE_LOAD,
    MODULE_LOADEX,
    MODULE_UNLOAD,
    MONITOR,
    PSYNC,
    REPLCONF,
    REPLICAOF,
    RESTORE_ASKING,
    ROLE,
    SAVE,
    SHUTDOWN,
    SLAVEOF,
    SLOWLOG,
    SLOWLOG_GET,
    SLOWLOG_HELP,
    SLOWLOG_LEN,
    SLOWLOG_RESET,
    SWAPDB,
    SYNC,
    TIME,
}

/// `ACL`
pub static ACL: Spec = Spec {
    full_name: "acl",
    subcommands: &[
        &ACL_CAT,
        &ACL_DELROLE,
        &ACL_DELUSER,
        &ACL_DIGEST,
        &ACL_DRYRUN,
        &ACL_GENPASS,
        &ACL_GETROLE,
        &ACL_GETUSER,
        &ACL_HELP,
        &ACL_LIST,
        &ACL_LOAD,
        &ACL_LOG,
        &ACL_ROLES,
        &ACL_SAVE,
        &ACL_SETROLE,
        &ACL_SETUSER,
        &ACL_USERS,
        &ACL_WHOAMI,
    ],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Manages users and what they may do.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::ACL,
};

/// `ACL CAT`
pub static ACL_CAT: Spec = Spec {
    full_name: "acl|cat",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("category").optional()],
    tips: &[],
    history: &[],
    summary: "Lists the categories, or the commands of one.",
    complexity: "O(1), the categories and commands being a fixed set",
    deprecated: None,
    id: id::ACL_CAT,
};

/// `ACL DELROLE`
pub static ACL_DELROLE: Spec = Spec {
    full_name: "acl|delrole",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("rolename").repeated()],
    tips: &[],
    history: &[],
    summary: "Deletes roles that no user holds.",
    complexity: "O(N*M), N being the number of roles named and M that of users",
    deprecated: None,
    id: id::ACL_DELROLE,
};

/// `ACL DELUSER`
pub static ACL_DELUSER: Spec = Spec {
    full_name: "acl|deluser",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("username").repeated()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Deletes users and closes their connections.",
    complexity: "O(1) for each user, and a walk over the clients",
    deprecated: None,
    id: id::ACL_DELUSER,
};

/// `ACL DIGEST`
pub static ACL_DIGEST: Spec = Spec {
    full_name: "acl|digest",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows a fingerprint of all users, to compare servers by.",
    complexity: "O(N), N being the number of users",
    deprecated: None,
    id: id::ACL_DIGEST,
};

/// `ACL DRYRUN`
pub static ACL_DRYRUN: Spec = Spec {
    full_name: "acl|dryrun",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("username"), string("command"), string("arg").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Says whether a user may run a command, without running it.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ACL_DRYRUN,
};

/// `ACL GENPASS`
pub static ACL_GENPASS: Spec = Spec {
    full_name: "acl|genpass",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("bits").optional()],
    tips: &[],
    history: &[],
    summary: "Makes a password that nobody can guess.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ACL_GENPASS,
};

/// `ACL GETROLE`
pub static ACL_GETROLE: Spec = Spec {
    full_name: "acl|getrole",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("rolename")],
    tips: &[],
    history: &[],
    summary: "Shows what a role allows, and which users hold it.",
    complexity: "O(N), N being the number of rules of the role, and the number of users",
    deprecated: None,
    id: id::ACL_GETROLE,
};

/// `ACL GETUSER`
pub static ACL_GETUSER: Spec = Spec {
    full_name: "acl|getuser",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("username")],
    tips: &[],
    history: &[
        ("6.2.0", "The reply has the patterns of channels."),
        ("7.0.0", "The reply has the selectors, and patterns as rules in place of lists."),
        ("9.1.0", "The reply has the databases."),
    ],
    summary: "Shows what a user may do.",
    complexity: "O(N), N being the number of passwords, rules and patterns of the user",
    deprecated: None,
    id: id::ACL_GETUSER,
};

/// `ACL HELP`
pub static ACL_HELP: Spec = Spec {
    full_name: "acl|help",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
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
    id: id::ACL_HELP,
};

/// `ACL LIST`
pub static ACL_LIST: Spec = Spec {
    full_name: "acl|list",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows all users in the form of an ACL file.",
    complexity: "O(N), N being the number of users",
    deprecated: None,
    id: id::ACL_LIST,
};

/// `ACL LOAD`
pub static ACL_LOAD: Spec = Spec {
    full_name: "acl|load",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Takes over the users of the ACL file.",
    complexity: "O(N), N being the number of users",
    deprecated: None,
    id: id::ACL_LOAD,
};

/// `ACL LOG`
pub static ACL_LOG: Spec = Spec {
    full_name: "acl|log",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of("operation", &[integer("count"), token("reset", "RESET")]).optional()],
    tips: &[],
    history: &[("7.2.0", "Entries have an id and the times at which they were made and updated.")],
    summary: "Lists the latest refusals, or forgets them.",
    complexity: "O(N), N being the number of entries shown",
    deprecated: None,
    id: id::ACL_LOG,
};

/// `ACL ROLES`
pub static ACL_ROLES: Spec = Spec {
    full_name: "acl|roles",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lists the names of all roles.",
    complexity: "O(N), N being the number of roles",
    deprecated: None,
    id: id::ACL_ROLES,
};

/// `ACL SAVE`
pub static ACL_SAVE: Spec = Spec {
    full_name: "acl|save",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Writes all users to the ACL file.",
    complexity: "O(N), N being the number of users",
    deprecated: None,
    id: id::ACL_SAVE,
};

/// `ACL SETROLE`
pub static ACL_SETROLE: Spec = Spec {
    full_name: "acl|setrole",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("rolename"), string("rule").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Makes a role, or changes its rules for all users that hold it.",
    complexity: "O(N+M*C), N being the number of rules, M that of users and C that of clients",
    deprecated: None,
    id: id::ACL_SETROLE,
};

/// `ACL SETUSER`
pub static ACL_SETUSER: Spec = Spec {
    full_name: "acl|setuser",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("username"), string("rule").optional().repeated()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[
        ("6.2.0", "Rules may name channels."),
        ("7.0.0", "Rules may stand in selectors, and name what is done with keys."),
        ("9.1.0", "Rules may name databases."),
    ],
    summary: "Makes a user, or changes its rules.",
    complexity: "O(N), N being the number of rules",
    deprecated: None,
    id: id::ACL_SETUSER,
};

/// `ACL USERS`
pub static ACL_USERS: Spec = Spec {
    full_name: "acl|users",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lists the names of all users.",
    complexity: "O(N), N being the number of users",
    deprecated: None,
    id: id::ACL_USERS,
};

/// `ACL WHOAMI`
pub static ACL_WHOAMI: Spec = Spec {
    full_name: "acl|whoami",
    subcommands: &[],
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Names the user of the connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ACL_WHOAMI,
};

/// `BGREWRITEAOF`
pub static BGREWRITEAOF: Spec = Spec {
    full_name: "bgrewriteaof",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Rewrites the append-only file in the background.",
    complexity: "O(1)",
    deprecated: None,
    id: id::BGREWRITEAOF,
};

/// `BGSAVE`
pub static BGSAVE: Spec = Spec {
    full_name: "bgsave",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "operation",
        &[token("schedule", "SCHEDULE").since("3.2.2"), token("cancel", "CANCEL").since("8.1.0")],
    )
    .optional()],
    tips: &[],
    history: &[("3.2.2", "Modifier `SCHEDULE`."), ("8.1.0", "Modifier `CANCEL`.")],
    summary: "Writes the snapshot file in the background.",
    complexity: "O(1)",
    deprecated: None,
    id: id::BGSAVE,
};

/// `COMMAND`
pub static COMMAND: Spec = Spec {
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
    id: id::COMMAND,
};

/// `COMMAND COUNT`
pub static COMMAND_COUNT: Spec = Spec {
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
    id: id::COMMAND_COUNT,
};

/// `COMMAND DOCS`
pub static COMMAND_DOCS: Spec = Spec {
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
    id: id::COMMAND_DOCS,
};

/// `COMMAND GETKEYS`
pub static COMMAND_GETKEYS: Spec = Spec {
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
    id: id::COMMAND_GETKEYS,
};

/// `COMMAND GETKEYSANDFLAGS`
pub static COMMAND_GETKEYSANDFLAGS: Spec = Spec {
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
    id: id::COMMAND_GETKEYSANDFLAGS,
};

/// `COMMAND HELP`
pub static COMMAND_HELP: Spec = Spec {
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
    id: id::COMMAND_HELP,
};

/// `COMMAND INFO`
pub static COMMAND_INFO: Spec = Spec {
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
    id: id::COMMAND_INFO,
};

/// `COMMAND LIST`
pub static COMMAND_LIST: Spec = Spec {
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
    id: id::COMMAND_LIST,
};

/// `COMMANDLOG`
pub static COMMANDLOG: Spec = Spec {
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
    id: id::COMMANDLOG,
};

/// `COMMANDLOG GET`
pub static COMMANDLOG_GET: Spec = Spec {
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
    id: id::COMMANDLOG_GET,
};

/// `COMMANDLOG HELP`
pub static COMMANDLOG_HELP: Spec = Spec {
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
    id: id::COMMANDLOG_HELP,
};

/// `COMMANDLOG LEN`
pub static COMMANDLOG_LEN: Spec = Spec {
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
    id: id::COMMANDLOG_LEN,
};

/// `COMMANDLOG RESET`
pub static COMMANDLOG_RESET: Spec = Spec {
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
    id: id::COMMANDLOG_RESET,
};

/// `CONFIG`
pub static CONFIG: Spec = Spec {
    full_name: "config",
    subcommands: &[&CONFIG_GET, &CONFIG_HELP, &CONFIG_INFO, &CONFIG_RESETSTAT, &CONFIG_REWRITE, &CONFIG_SET],
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
    id: id::CONFIG,
};

/// `CONFIG GET`
pub static CONFIG_GET: Spec = Spec {
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
    id: id::CONFIG_GET,
};

/// `CONFIG HELP`
pub static CONFIG_HELP: Spec = Spec {
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
    id: id::CONFIG_HELP,
};

/// `CONFIG INFO`
pub static CONFIG_INFO: Spec = Spec {
    full_name: "config|info",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("pattern").repeated()],
    tips: &[],
    history: &[],
    summary: "Tells the types of the parameters that match, and what they accept.",
    complexity: "O(N), N being the number of parameters",
    deprecated: None,
    id: id::CONFIG_INFO,
};

/// `CONFIG RESETSTAT`
pub static CONFIG_RESETSTAT: Spec = Spec {
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
    id: id::CONFIG_RESETSTAT,
};

/// `CONFIG REWRITE`
pub static CONFIG_REWRITE: Spec = Spec {
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
    id: id::CONFIG_REWRITE,
};

/// `CONFIG SET`
pub static CONFIG_SET: Spec = Spec {
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
    id: id::CONFIG_SET,
};

/// `DBSIZE`
pub static DBSIZE: Spec = Spec {
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
    id: id::DBSIZE,
};

/// `DEBUG`
pub static DEBUG: Spec = Spec {
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
    id: id::DEBUG,
};

/// `FAILOVER`
pub static FAILOVER: Spec = Spec {
    full_name: "failover",
    subcommands: &[],
    group: Group::Server,
    since: "6.2.0",
    arity: Arity::AtLeast(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[
        block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()])
            .after("TO")
            .optional(),
        token("abort", "ABORT").optional(),
        integer("milliseconds").after("TIMEOUT").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Hands the role of the primary to a replica that has everything.",
    complexity: "O(1)",
    deprecated: None,
    id: id::FAILOVER,
};

/// `FLUSHALL`
pub static FLUSHALL: Spec = Spec {
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
    id: id::FLUSHALL,
};

/// `FLUSHDB`
pub static FLUSHDB: Spec = Spec {
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
    id: id::FLUSHDB,
};

/// `HOTKEYS`
pub static HOTKEYS: Spec = Spec {
    full_name: "hotkeys",
    subcommands: &[&HOTKEYS_GET, &HOTKEYS_HELP, &HOTKEYS_RESET],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Looks at the keys that clients access most.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::HOTKEYS,
};

/// `HOTKEYS GET`
pub static HOTKEYS_GET: Spec = Spec {
    full_name: "hotkeys|get",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lists the keys of the last window, the one with most accesses in a second first.",
    complexity: "O(N*log(N)), N being the number of keys that are followed",
    deprecated: None,
    id: id::HOTKEYS_GET,
};

/// `HOTKEYS HELP`
pub static HOTKEYS_HELP: Spec = Spec {
    full_name: "hotkeys|help",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
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
    id: id::HOTKEYS_HELP,
};

/// `HOTKEYS RESET`
pub static HOTKEYS_RESET: Spec = Spec {
    full_name: "hotkeys|reset",
    subcommands: &[],
    group: Group::Server,
    since: "9.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Forgets all accesses that were counted.",
    complexity: "O(N), N being the number of keys that are followed",
    deprecated: None,
    id: id::HOTKEYS_RESET,
};

/// `INFO`
pub static INFO: Spec = Spec {
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
    id: id::INFO,
};

/// `LASTSAVE`
pub static LASTSAVE: Spec = Spec {
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
    id: id::LASTSAVE,
};

/// `LATENCY`
pub static LATENCY: Spec = Spec {
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
    id: id::LATENCY,
};

/// `LATENCY DOCTOR`
pub static LATENCY_DOCTOR: Spec = Spec {
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
    id: id::LATENCY_DOCTOR,
};

/// `LATENCY GRAPH`
pub static LATENCY_GRAPH: Spec = Spec {
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
    id: id::LATENCY_GRAPH,
};

/// `LATENCY HELP`
pub static LATENCY_HELP: Spec = Spec {
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
    id: id::LATENCY_HELP,
};

/// `LATENCY HISTOGRAM`
pub static LATENCY_HISTOGRAM: Spec = Spec {
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
    id: id::LATENCY_HISTOGRAM,
};

/// `LATENCY HISTORY`
pub static LATENCY_HISTORY: Spec = Spec {
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
    id: id::LATENCY_HISTORY,
};

/// `LATENCY LATEST`
pub static LATENCY_LATEST: Spec = Spec {
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
    id: id::LATENCY_LATEST,
};

/// `LATENCY RESET`
pub static LATENCY_RESET: Spec = Spec {
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
    id: id::LATENCY_RESET,
};

/// `LOLWUT`
pub static LOLWUT: Spec = Spec {
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
    id: id::LOLWUT,
};

/// `MEMORY`
pub static MEMORY: Spec = Spec {
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
    id: id::MEMORY,
};

/// `MEMORY DOCTOR`
pub static MEMORY_DOCTOR: Spec = Spec {
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
    id: id::MEMORY_DOCTOR,
};

/// `MEMORY HELP`
pub static MEMORY_HELP: Spec = Spec {
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
    id: id::MEMORY_HELP,
};

/// `MEMORY MALLOC-STATS`
pub static MEMORY_MALLOC_STATS: Spec = Spec {
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
    id: id::MEMORY_MALLOC_STATS,
};

/// `MEMORY PURGE`
pub static MEMORY_PURGE: Spec = Spec {
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
    id: id::MEMORY_PURGE,
};

/// `MEMORY STATS`
pub static MEMORY_STATS: Spec = Spec {
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
    id: id::MEMORY_STATS,
};

/// `MEMORY USAGE`
pub static MEMORY_USAGE: Spec = Spec {
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
    id: id::MEMORY_USAGE,
};

/// `MODULE`
pub static MODULE: Spec = Spec {
    full_name: "module",
    subcommands: &[&MODULE_HELP, &MODULE_LIST, &MODULE_LOAD, &MODULE_LOADEX, &MODULE_UNLOAD],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Names the modules, of which this server has none.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::MODULE,
};

/// `MODULE HELP`
pub static MODULE_HELP: Spec = Spec {
    full_name: "module|help",
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
    id: id::MODULE_HELP,
};

/// `MODULE LIST`
pub static MODULE_LIST: Spec = Spec {
    full_name: "module|list",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Lists the modules.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MODULE_LIST,
};

/// `MODULE LOAD`
pub static MODULE_LOAD: Spec = Spec {
    full_name: "module|load",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::AtLeast(3),
    flags: MODULES_CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("path"), string("arg").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Is refused: there are no modules in C.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MODULE_LOAD,
};

/// `MODULE LOADEX`
pub static MODULE_LOADEX: Spec = Spec {
    full_name: "module|loadex",
    subcommands: &[],
    group: Group::Server,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: MODULES_CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[
        string("path"),
        block("configs", &[string("name"), string("value")])
            .after("CONFIG")
            .optional()
            .repeated()
            .token_repeated(),
        string("args").after("ARGS").optional().repeated(),
    ],
    tips: &[],
    history: &[],
    summary: "Is refused: there are no modules in C.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MODULE_LOADEX,
};

/// `MODULE UNLOAD`
pub static MODULE_UNLOAD: Spec = Spec {
    full_name: "module|unload",
    subcommands: &[],
    group: Group::Server,
    since: "4.0.0",
    arity: Arity::Exactly(3),
    flags: MODULES_CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("name")],
    tips: &[],
    history: &[],
    summary: "Is refused: there are no modules.",
    complexity: "O(1)",
    deprecated: None,
    id: id::MODULE_UNLOAD,
};

/// Flags of commands that would change the loaded modules.
const MODULES_CHANGE: Flags =
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::PROTECTED);

/// `MONITOR`
pub static MONITOR: Spec = Spec {
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
    id: id::MONITOR,
};

/// `PSYNC`
pub static PSYNC: Spec = Spec {
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
    id: id::PSYNC,
};

/// `REPLCONF`
pub static REPLCONF: Spec = Spec {
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
    id: id::REPLCONF,
};

const REPLICAOF_ARGS: &[Arg] = &[one_of(
    "args",
    &[
        block("host-port", &[string("host"), integer("port")]),
        block("no-one", &[token("no", "NO"), token("one", "ONE")]),
    ],
)];

/// `REPLICAOF`
pub static REPLICAOF: Spec = Spec {
    full_name: "replicaof",
    subcommands: &[],
    group: Group::Server,
    since: "5.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE).or(Flags::NO_ASYNC_LOADING),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: REPLICAOF_ARGS,
    tips: &[],
    history: &[],
    summary: "Makes this server a replica of another, or a primary.",
    complexity: "O(1)",
    deprecated: None,
    id: id::REPLICAOF,
};

/// `RESTORE-ASKING`
pub static RESTORE_ASKING: Spec = Spec {
    full_name: "restore-asking",
    subcommands: &[],
    group: Group::Server,
    since: "3.0.0",
    arity: Arity::AtLeast(4),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::ASKING).or(Flags::SYSCMD),
    acl: Cat::KEYSPACE.or(Cat::DANGEROUS),
    keys: Keys::Specs(&[one(1, OW_UPDATE)]),
    args: super::generic::RESTORE_ARGS,
    tips: &[],
    history: super::generic::RESTORE_HISTORY,
    summary: "RESTORE of a key that moves between the nodes of a cluster.",
    complexity: "O(N), N being the size of the payload",
    deprecated: None,
    id: id::RESTORE_ASKING,
};

/// `ROLE`
pub static ROLE: Spec = Spec {
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
    id: id::ROLE,
};

/// `SAVE`
pub static SAVE: Spec = Spec {
    full_name: "save",
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
    summary: "Writes the snapshot file. Nothing else is served meanwhile.",
    complexity: "O(N) where N is the total number of keys in all databases",
    deprecated: None,
    id: id::SAVE,
};

/// `SHUTDOWN`
pub static SHUTDOWN: Spec = Spec {
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
    id: id::SHUTDOWN,
};

/// `SLAVEOF`
pub static SLAVEOF: Spec = Spec {
    full_name: "slaveof",
    subcommands: &[],
    group: Group::Server,
    since: "1.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE).or(Flags::NO_ASYNC_LOADING),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: REPLICAOF_ARGS,
    tips: &[],
    history: &[],
    summary: "Makes this server a replica of another, or a primary.",
    complexity: "O(1)",
    deprecated: Some(("5.0.0", "`REPLICAOF`")),
    id: id::SLAVEOF,
};

/// `SLOWLOG`
pub static SLOWLOG: Spec = Spec {
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
    id: id::SLOWLOG,
};

/// `SLOWLOG GET`
pub static SLOWLOG_GET: Spec = Spec {
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
    id: id::SLOWLOG_GET,
};

/// `SLOWLOG HELP`
pub static SLOWLOG_HELP: Spec = Spec {
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
    id: id::SLOWLOG_HELP,
};

/// `SLOWLOG LEN`
pub static SLOWLOG_LEN: Spec = Spec {
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
    id: id::SLOWLOG_LEN,
};

/// `SLOWLOG RESET`
pub static SLOWLOG_RESET: Spec = Spec {
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
    id: id::SLOWLOG_RESET,
};

/// `SWAPDB`
pub static SWAPDB: Spec = Spec {
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
    id: id::SWAPDB,
};

/// `SYNC`
pub static SYNC: Spec = Spec {
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
    id: id::SYNC,
};

/// `TIME`
pub static TIME: Spec = Spec {
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
    id: id::TIME,
};

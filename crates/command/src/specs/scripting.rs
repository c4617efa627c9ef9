//! Commands on scripts and libraries of functions.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Cat, Flags, Group, KeySpec, Keys, Spec};

specs! {
    scripting:
    EVAL,
    EVAL_RO,
    EVALSHA,
    EVALSHA_RO,
    FCALL,
    FCALL_RO,
    FUNCTION,
    FUNCTION_DELETE,
    FUNCTION_DUMP,
    FUNCTION_FLUSH,
    FUNCTION_HELP,
    FUNCTION_KILL,
    FUNCTION_LIST,
    FUNCTION_LOAD,
    FUNCTION_RESTORE,
    FUNCTION_STATS,
    SCRIPT,
    SCRIPT_DEBUG,
    SCRIPT_EXISTS,
    SCRIPT_FLUSH,
    SCRIPT_HELP,
    SCRIPT_KILL,
    SCRIPT_LOAD,
    SCRIPT_SHOW,
}

/// Flags of commands that run a script or a function.
const RUN: Flags = Flags::NOSCRIPT
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::STALE)
    .or(Flags::MOVABLE_KEYS);

/// Flags of commands that read or change the set of known scripts.
const KNOWN: Flags = Flags::NOSCRIPT.or(Flags::STALE);

/// Keys of a script that may change keys.
const WRITTEN: KeySpec = counted(2, 0, 1, 1, RW_ACCESS_UPDATE);

/// Keys of a script that only reads keys.
const READ: KeySpec = counted(2, 0, 1, 1, RO_ACCESS);

/// Remark on the flags of a script's keys.
const UNKNOWN_USE: &str =
    "The script decides about its keys, so the most that the command allows is assumed.";

/// The arguments after the script or function.
const KEYS_AND_ARGUMENTS: [Arg; 3] =
    [integer("numkeys"), key("key", 0).optional().repeated(), string("arg").optional().repeated()];

const CALL_OF_SCRIPT: &[Arg] = &call_of("script");
const CALL_BY_SHA1: &[Arg] = &call_of("sha1");
const CALL_OF_FUNCTION: &[Arg] = &call_of("function");

/// The arguments of a call: the script or function, its keys and its arguments.
const fn call_of(what: &'static str) -> [Arg; 4] {
    let [numkeys, keys, arguments] = KEYS_AND_ARGUMENTS;
    [string(what), numkeys, keys, arguments]
}

/// Whether removed scripts or functions are freed at once or by another thread.
const FLUSH_TYPE: Arg = one_of("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional();

pub static EVAL: Spec = Spec {
    full_name: "eval",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::MAY_REPLICATE),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[WRITTEN.note(UNKNOWN_USE)]),
    args: CALL_OF_SCRIPT,
    tips: &[],
    history: &[],
    summary: "Runs a script.",
    complexity: "That of the script",
    deprecated: None,
    id: id::EVAL,
};

pub static EVAL_RO: Spec = Spec {
    full_name: "eval_ro",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::READONLY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[READ.note(UNKNOWN_USE)]),
    args: CALL_OF_SCRIPT,
    tips: &[],
    history: &[],
    summary: "Runs a script that changes nothing.",
    complexity: "That of the script",
    deprecated: None,
    id: id::EVAL_RO,
};

pub static EVALSHA: Spec = Spec {
    full_name: "evalsha",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::MAY_REPLICATE),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[WRITTEN]),
    args: CALL_BY_SHA1,
    tips: &[],
    history: &[],
    summary: "Runs a cached script by the SHA-1 of its text.",
    complexity: "That of the script",
    deprecated: None,
    id: id::EVALSHA,
};

pub static EVALSHA_RO: Spec = Spec {
    full_name: "evalsha_ro",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::READONLY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[READ]),
    args: CALL_BY_SHA1,
    tips: &[],
    history: &[],
    summary: "Runs a cached script that changes nothing by the SHA-1 of its text.",
    complexity: "That of the script",
    deprecated: None,
    id: id::EVALSHA_RO,
};

pub static FCALL: Spec = Spec {
    full_name: "fcall",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::MAY_REPLICATE),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[WRITTEN.note(UNKNOWN_USE)]),
    args: CALL_OF_FUNCTION,
    tips: &[],
    history: &[],
    summary: "Runs a function of a library.",
    complexity: "That of the function",
    deprecated: None,
    id: id::FCALL,
};

pub static FCALL_RO: Spec = Spec {
    full_name: "fcall_ro",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: RUN.or(Flags::READONLY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[READ.note(UNKNOWN_USE)]),
    args: CALL_OF_FUNCTION,
    tips: &[],
    history: &[],
    summary: "Runs a function of a library that changes nothing.",
    complexity: "That of the function",
    deprecated: None,
    id: id::FCALL_RO,
};

pub static FUNCTION: Spec = Spec {
    full_name: "function",
    subcommands: &[
        &FUNCTION_DELETE,
        &FUNCTION_DUMP,
        &FUNCTION_FLUSH,
        &FUNCTION_HELP,
        &FUNCTION_KILL,
        &FUNCTION_LIST,
        &FUNCTION_LOAD,
        &FUNCTION_RESTORE,
        &FUNCTION_STATS,
    ],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Container for commands about function libraries.",
    complexity: "That of the subcommand",
    deprecated: None,
    id: id::FUNCTION,
};

pub static FUNCTION_DELETE: Spec = Spec {
    full_name: "function|delete",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::WRITE.or(Flags::NOSCRIPT),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[string("library-name")],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Deletes a library and its functions.",
    complexity: "O(1)",
    deprecated: None,
    id: id::FUNCTION_DELETE,
};

pub static FUNCTION_DUMP: Spec = Spec {
    full_name: "function|dump",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows all libraries as one payload, for FUNCTION RESTORE.",
    complexity: "O(N), N being the length of all code",
    deprecated: None,
    id: id::FUNCTION_DUMP,
};

pub static FUNCTION_FLUSH: Spec = Spec {
    full_name: "function|flush",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::NOSCRIPT),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[FLUSH_TYPE],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Deletes all libraries.",
    complexity: "O(N) with SYNC, N being the number of functions; O(1) with ASYNC",
    deprecated: None,
    id: id::FUNCTION_FLUSH,
};

pub static FUNCTION_HELP: Spec = Spec {
    full_name: "function|help",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::FUNCTION_HELP,
};

pub static FUNCTION_KILL: Spec = Spec {
    full_name: "function|kill",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    history: &[],
    summary: "Ends the running function, if the function has not written.",
    complexity: "O(1)",
    deprecated: None,
    id: id::FUNCTION_KILL,
};

pub static FUNCTION_LIST: Spec = Spec {
    full_name: "function|list",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NOSCRIPT,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[
        string("library-name-pattern").after("LIBRARYNAME").optional(),
        token("withcode", "WITHCODE").optional(),
    ],
    tips: &["nondeterministic_output_order"],
    history: &[],
    summary: "Describes the libraries.",
    complexity: "O(N), N being the number of functions",
    deprecated: None,
    id: id::FUNCTION_LIST,
};

pub static FUNCTION_LOAD: Spec = Spec {
    full_name: "function|load",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::NOSCRIPT),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[token("replace", "REPLACE").optional(), string("function-code")],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Creates a library from its text.",
    complexity: "O(N), N being the length of the text, and what the text does when it runs",
    deprecated: None,
    id: id::FUNCTION_LOAD,
};

pub static FUNCTION_RESTORE: Spec = Spec {
    full_name: "function|restore",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::NOSCRIPT),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[
        string("serialized-value"),
        one_of("policy", &[token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE")])
            .optional(),
    ],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Creates libraries from a payload of FUNCTION DUMP.",
    complexity: "O(N), N being the length of all code, and what that does when it runs",
    deprecated: None,
    id: id::FUNCTION_RESTORE,
};

pub static FUNCTION_STATS: Spec = Spec {
    full_name: "function|stats",
    subcommands: &[],
    group: Group::Scripting,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[],
    summary: "Shows the running function, and the libraries and functions of each engine.",
    complexity: "O(1)",
    deprecated: None,
    id: id::FUNCTION_STATS,
};

pub static SCRIPT: Spec = Spec {
    full_name: "script",
    subcommands: &[
        &SCRIPT_DEBUG,
        &SCRIPT_EXISTS,
        &SCRIPT_FLUSH,
        &SCRIPT_HELP,
        &SCRIPT_KILL,
        &SCRIPT_LOAD,
        &SCRIPT_SHOW,
    ],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Container for commands about scripts.",
    complexity: "That of the subcommand",
    deprecated: None,
    id: id::SCRIPT,
};

pub static SCRIPT_DEBUG: Spec = Spec {
    full_name: "script|debug",
    subcommands: &[],
    group: Group::Scripting,
    since: "3.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::NOSCRIPT,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[
        one_of("mode", &[token("yes", "YES"), token("sync", "SYNC"), token("no", "NO")]),
        string("engine").optional().since("9.1.0"),
    ],
    tips: &[],
    history: &[],
    summary: "Sets whether the client's next scripts run in the debugger.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SCRIPT_DEBUG,
};

pub static SCRIPT_EXISTS: Spec = Spec {
    full_name: "script|exists",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::AtLeast(3),
    flags: KNOWN,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[string("sha1").repeated()],
    tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
    history: &[],
    summary: "Returns which scripts are cached.",
    complexity: "O(N), N being the number of scripts asked for",
    deprecated: None,
    id: id::SCRIPT_EXISTS,
};

pub static SCRIPT_FLUSH: Spec = Spec {
    full_name: "script|flush",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::AtLeast(2),
    flags: KNOWN,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[FLUSH_TYPE.since("6.2.0")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[("6.2.0", "Modifiers `ASYNC` and `SYNC`.")],
    summary: "Removes all scripts from the cache.",
    complexity: "O(N) with SYNC, N being the number of scripts; O(1) with ASYNC",
    deprecated: None,
    id: id::SCRIPT_FLUSH,
};

pub static SCRIPT_HELP: Spec = Spec {
    full_name: "script|help",
    subcommands: &[],
    group: Group::Scripting,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows the subcommands.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SCRIPT_HELP,
};

pub static SCRIPT_KILL: Spec = Spec {
    full_name: "script|kill",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    history: &[],
    summary: "Ends the running script, if the script has not written.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SCRIPT_KILL,
};

pub static SCRIPT_LOAD: Spec = Spec {
    full_name: "script|load",
    subcommands: &[],
    group: Group::Scripting,
    since: "2.6.0",
    arity: Arity::Exactly(3),
    flags: KNOWN,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[string("script")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Caches a script without running it.",
    complexity: "O(N), N being the length of the script",
    deprecated: None,
    id: id::SCRIPT_LOAD,
};

pub static SCRIPT_SHOW: Spec = Spec {
    full_name: "script|show",
    subcommands: &[],
    group: Group::Scripting,
    since: "8.0.0",
    arity: Arity::Exactly(3),
    flags: KNOWN,
    acl: Cat::SCRIPTING,
    keys: Keys::Specs(&[]),
    args: &[string("sha1")],
    tips: &[],
    history: &[],
    summary: "Shows the text of a script.",
    complexity: "O(N), N being the length of the script",
    deprecated: None,
    id: id::SCRIPT_SHOW,
};

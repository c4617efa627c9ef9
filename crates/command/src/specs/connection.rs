//! Connection commands.

use super::shorthand::*;
use crate::spec::{Arity, Cat, Flags, Group, Keys, Spec};

specs! {
    connection:
    AUTH,
    CLIENT,
    CLIENT_CACHING,
    CLIENT_CAPA,
    CLIENT_GETNAME,
    CLIENT_GETREDIR,
    CLIENT_HELP,
    CLIENT_ID,
    CLIENT_IMPORT_SOURCE,
    CLIENT_INFO,
    CLIENT_KILL,
    CLIENT_LIST,
    CLIENT_MAINT_NOTIFICATIONS,
    CLIENT_NO_EVICT,
    CLIENT_NO_TOUCH,
    CLIENT_PAUSE,
    CLIENT_REPLY,
    CLIENT_SETINFO,
    CLIENT_SETNAME,
    CLIENT_TRACKING,
    CLIENT_TRACKINGINFO,
    CLIENT_UNBLOCK,
    CLIENT_UNPAUSE,
    ECHO,
    HELLO,
    PING,
    QUIT,
    RESET,
    SELECT,
}

pub static AUTH: Spec = Spec {
    full_name: "auth",
    subcommands: &[],
    group: Group::Connection,
    since: "1.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NOSCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("username").optional().since("6.0.0"), string("password")],
    tips: &[],
    history: &[("6.0.0", "A user name may come before the password.")],
    summary: "Authenticates the client by a password, or by user name and password.",
    complexity: "O(N), N being the number of passwords of the user",
    deprecated: None,
    id: id::AUTH,
};

pub static CLIENT: Spec = Spec {
    full_name: "client",
    subcommands: &[
        &CLIENT_CACHING,
        &CLIENT_CAPA,
        &CLIENT_GETNAME,
        &CLIENT_GETREDIR,
        &CLIENT_HELP,
        &CLIENT_ID,
        &CLIENT_IMPORT_SOURCE,
        &CLIENT_INFO,
        &CLIENT_KILL,
        &CLIENT_LIST,
        &CLIENT_MAINT_NOTIFICATIONS,
        &CLIENT_NO_EVICT,
        &CLIENT_NO_TOUCH,
        &CLIENT_PAUSE,
        &CLIENT_REPLY,
        &CLIENT_SETINFO,
        &CLIENT_SETNAME,
        &CLIENT_TRACKING,
        &CLIENT_TRACKINGINFO,
        &CLIENT_UNBLOCK,
        &CLIENT_UNPAUSE,
    ],
    group: Group::Connection,
    since: "2.4.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Container for commands about connections.",
    complexity: "As the subcommand",
    deprecated: None,
    id: id::CLIENT,
};

pub static CLIENT_CACHING: Spec = Spec {
    full_name: "client|caching",
    subcommands: &[],
    group: Group::Connection,
    since: "6.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("mode", &[token("yes", "YES"), token("no", "NO")])],
    tips: &[],
    history: &[],
    summary: "Sets whether keys of the next command are tracked, in the opt-in and opt-out modes.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_CACHING,
};

pub static CLIENT_CAPA: Spec = Spec {
    full_name: "client|capa",
    subcommands: &[],
    group: Group::Connection,
    since: "8.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("capability").repeated()],
    tips: &[],
    history: &[],
    summary: "Declares capabilities of the client.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_CAPA,
};

pub static CLIENT_GETNAME: Spec = Spec {
    full_name: "client|getname",
    subcommands: &[],
    group: Group::Connection,
    since: "2.6.9",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Returns the name of the connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_GETNAME,
};

pub static CLIENT_GETREDIR: Spec = Spec {
    full_name: "client|getredir",
    subcommands: &[],
    group: Group::Connection,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Returns the id of the client that receives the invalidations of this connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_GETREDIR,
};

pub static CLIENT_HELP: Spec = Spec {
    full_name: "client|help",
    subcommands: &[],
    group: Group::Connection,
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
    id: id::CLIENT_HELP,
};

pub static CLIENT_ID: Spec = Spec {
    full_name: "client|id",
    subcommands: &[],
    group: Group::Connection,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Returns the id of the connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_ID,
};

pub static CLIENT_IMPORT_SOURCE: Spec = Spec {
    full_name: "client|import-source",
    subcommands: &[],
    group: Group::Connection,
    since: "8.1.0",
    arity: Arity::Exactly(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])],
    tips: &[],
    history: &[],
    summary: "Marks the connection as one that brings data into a server in import mode.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_IMPORT_SOURCE,
};

pub static CLIENT_INFO: Spec = Spec {
    full_name: "client|info",
    subcommands: &[],
    group: Group::Connection,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Describes the connection itself.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_INFO,
};

pub static CLIENT_KILL: Spec = Spec {
    full_name: "client|kill",
    subcommands: &[],
    group: Group::Connection,
    since: "2.4.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "filter",
        &[
            string("old-format").shown_as("ip:port").deprecated("2.8.12"),
            one_of(
                "new-format",
                &[
                    integer("client-id").after("ID").optional().repeated().since("2.8.12"),
                    one_of(
                        "client-type",
                        &[
                            token("normal", "NORMAL"),
                            token("master", "MASTER").since("3.2.0"),
                            token("primary", "PRIMARY").since("8.0.0"),
                            token("slave", "SLAVE"),
                            token("replica", "REPLICA").since("5.0.0"),
                            token("pubsub", "PUBSUB"),
                        ],
                    )
                    .after("TYPE")
                    .optional()
                    .since("2.8.12"),
                    string("username").after("USER").optional(),
                    string("addr").shown_as("ip:port").after("ADDR").optional(),
                    string("laddr").shown_as("ip:port").after("LADDR").optional().since("6.2.0"),
                    one_of("skipme", &[token("yes", "YES"), token("no", "NO")]).after("SKIPME").optional(),
                    integer("maxage").after("MAXAGE").optional().since("8.0.0"),
                    string("name").after("NAME").optional().since("9.0.0"),
                    integer("idle").after("IDLE").optional().since("9.0.0"),
                    string("flags").after("FLAGS").optional().since("9.0.0"),
                    string("lib-name").after("LIB-NAME").optional().since("9.0.0"),
                    string("lib-ver").after("LIB-VER").optional().since("9.0.0"),
                    integer("db").after("DB").optional().since("9.0.0"),
                    string("capa").after("CAPA").optional().since("9.0.0"),
                    string("ip").after("IP").optional().since("9.0.0"),
                    one_of(
                        "not-client-type",
                        &[
                            token("normal", "NORMAL"),
                            token("master", "MASTER"),
                            token("primary", "PRIMARY"),
                            token("slave", "SLAVE"),
                            token("replica", "REPLICA"),
                            token("pubsub", "PUBSUB"),
                        ],
                    )
                    .after("NOT-TYPE")
                    .optional()
                    .since("9.0.0"),
                    integer("not-client-id").after("NOT-ID").optional().repeated().since("9.0.0"),
                    string("not-username").after("NOT-USER").optional().since("9.0.0"),
                    string("not-addr").shown_as("ip:port").after("NOT-ADDR").optional().since("9.0.0"),
                    string("not-laddr").shown_as("ip:port").after("NOT-LADDR").optional().since("9.0.0"),
                    string("not-name").after("NOT-NAME").optional().since("9.0.0"),
                    string("not-flags").after("NOT-FLAGS").optional().since("9.0.0"),
                    string("not-lib-name").after("NOT-LIB-NAME").optional().since("9.0.0"),
                    string("not-lib-ver").after("NOT-LIB-VER").optional().since("9.0.0"),
                    integer("not-db").after("NOT-DB").optional().since("9.0.0"),
                    string("not-capa").after("NOT-CAPA").optional().since("9.0.0"),
                    string("not-ip").after("NOT-IP").optional().since("9.0.0"),
                ],
            )
            .repeated(),
        ],
    )],
    tips: &[],
    history: &[
        ("2.8.12", "Filters by name and value."),
        ("2.8.12", "Filter `ID`."),
        ("3.2.0", "Type `master` for filter `TYPE`."),
        ("5.0.0", "Type `replica` for filter `TYPE`; `slave` still works."),
        ("6.2.0", "Filter `LADDR`."),
        ("8.0.0", "Filter `MAXAGE`."),
        ("8.0.0", "Type `primary` for filter `TYPE`; `master` still works."),
        ("8.1.0", "Filter `ID` takes several ids."),
        (
            "9.0.0",
            "Filters NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA and IP, and the negated NOT-ID, NOT-TYPE, NOT-ADDR, NOT-LADDR, NOT-USER, NOT-FLAGS, NOT-NAME, NOT-LIB-NAME, NOT-LIB-VER, NOT-DB, NOT-CAPA and NOT-IP.",
        ),
    ],
    summary: "Closes the connections that match.",
    complexity: "O(N), N being the number of connections",
    deprecated: None,
    id: id::CLIENT_KILL,
};

pub static CLIENT_LIST: Spec = Spec {
    full_name: "client|list",
    subcommands: &[],
    group: Group::Connection,
    since: "2.4.0",
    arity: Arity::AtLeast(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[
        one_of(
            "client-type",
            &[
                token("normal", "NORMAL"),
                token("master", "MASTER"),
                token("replica", "REPLICA"),
                token("pubsub", "PUBSUB"),
            ],
        )
        .after("TYPE")
        .optional()
        .since("5.0.0"),
        integer("client-id").after("ID").optional().repeated().since("6.2.0"),
        string("username").after("USER").optional().since("8.1.0"),
        string("addr").shown_as("ip:port").after("ADDR").optional().since("8.1.0"),
        string("laddr").shown_as("ip:port").after("LADDR").optional().since("8.1.0"),
        one_of("skipme", &[token("yes", "YES"), token("no", "NO")]).after("SKIPME").optional().since("8.1.0"),
        integer("maxage").after("MAXAGE").optional().since("8.1.0"),
        string("name").after("NAME").optional().since("9.0.0"),
        integer("idle").after("IDLE").optional().since("9.0.0"),
        string("flags").after("FLAGS").optional().since("9.0.0"),
        string("lib-name").after("LIB-NAME").optional().since("9.0.0"),
        string("lib-ver").after("LIB-VER").optional().since("9.0.0"),
        integer("db").after("DB").optional().since("9.0.0"),
        string("capa").after("CAPA").optional().since("9.0.0"),
        string("ip").after("IP").optional().since("9.0.0"),
        one_of(
            "not-client-type",
            &[
                token("normal", "NORMAL"),
                token("master", "MASTER"),
                token("replica", "REPLICA"),
                token("pubsub", "PUBSUB"),
            ],
        )
        .after("NOT-TYPE")
        .optional()
        .since("9.0.0"),
        integer("not-client-id").after("NOT-ID").optional().repeated().since("9.0.0"),
        string("not-username").after("NOT-USER").optional().since("9.0.0"),
        string("not-addr").shown_as("ip:port").after("NOT-ADDR").optional().since("9.0.0"),
        string("not-laddr").shown_as("ip:port").after("NOT-LADDR").optional().since("9.0.0"),
        string("not-name").after("NOT-NAME").optional().since("9.0.0"),
        string("not-flags").after("NOT-FLAGS").optional().since("9.0.0"),
        string("not-lib-name").after("NOT-LIB-NAME").optional().since("9.0.0"),
        string("not-lib-ver").after("NOT-LIB-VER").optional().since("9.0.0"),
        integer("not-db").after("NOT-DB").optional().since("9.0.0"),
        string("not-capa").after("NOT-CAPA").optional().since("9.0.0"),
        string("not-ip").after("NOT-IP").optional().since("9.0.0"),
    ],
    tips: &["nondeterministic_output"],
    history: &[
        ("2.8.12", "Field `id`."),
        ("5.0.0", "Filter `TYPE`."),
        ("6.0.0", "Field `user`."),
        ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and filter `ID`."),
        ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "Field `ssub`."),
        ("8.0.0", "Type `primary` for filter `TYPE`; `master` still works."),
        ("8.1.0", "Filters USER, ADDR, LADDR, SKIPME and MAXAGE."),
        (
            "9.0.0",
            "Filters NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA and IP, and the negated NOT-ID, NOT-TYPE, NOT-ADDR, NOT-LADDR, NOT-USER, NOT-FLAGS, NOT-NAME, NOT-LIB-NAME, NOT-LIB-VER, NOT-DB, NOT-CAPA and NOT-IP.",
        ),
    ],
    summary: "Describes all connections, or those that match.",
    complexity: "O(N), N being the number of connections",
    deprecated: None,
    id: id::CLIENT_LIST,
};

pub static CLIENT_MAINT_NOTIFICATIONS: Spec = Spec {
    full_name: "client|maint_notifications",
    subcommands: &[],
    group: Group::Connection,
    since: "9.2.0",
    arity: Arity::AtLeast(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[
        one_of("enabled", &[token("on", "ON"), token("off", "OFF")]),
        one_of(
            "endpoint-type",
            &[
                token("internal-ip", "INTERNAL-IP"),
                token("internal-fqdn", "INTERNAL-FQDN"),
                token("external-ip", "EXTERNAL-IP"),
                token("external-fqdn", "EXTERNAL-FQDN"),
                token("none", "NONE"),
            ],
        )
        .after("MOVING-ENDPOINT-TYPE")
        .optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Sets whether the connection receives a message at a failover, and in which form it has the address of the new primary.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_MAINT_NOTIFICATIONS,
};

pub static CLIENT_NO_EVICT: Spec = Spec {
    full_name: "client|no-evict",
    subcommands: &[],
    group: Group::Connection,
    since: "7.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])],
    tips: &[],
    history: &[],
    summary: "Exempts the connection from eviction of clients (`maxmemory-clients`).",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_NO_EVICT,
};

pub static CLIENT_NO_TOUCH: Spec = Spec {
    full_name: "client|no-touch",
    subcommands: &[],
    group: Group::Connection,
    since: "7.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])],
    tips: &[],
    history: &[],
    summary: "Sets whether commands of the connection change the LRU and LFU data of keys.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_NO_TOUCH,
};

pub static CLIENT_PAUSE: Spec = Spec {
    full_name: "client|pause",
    subcommands: &[],
    group: Group::Connection,
    since: "3.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[
        integer("timeout"),
        one_of("mode", &[token("write", "WRITE"), token("all", "ALL")]).optional().since("6.2.0"),
    ],
    tips: &[],
    history: &[("6.2.0", "Mode `WRITE`, and with it the `mode` option.")],
    summary: "Pauses commands of all clients for a time.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_PAUSE,
};

pub static CLIENT_REPLY: Spec = Spec {
    full_name: "client|reply",
    subcommands: &[],
    group: Group::Connection,
    since: "3.2.0",
    arity: Arity::Exactly(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::NO_MULTI).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("action", &[token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")])],
    tips: &[],
    history: &[],
    summary: "Switches replies on or off, or skips the next one.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_REPLY,
};

pub static CLIENT_SETINFO: Spec = Spec {
    full_name: "client|setinfo",
    subcommands: &[],
    group: Group::Connection,
    since: "7.2.0",
    arity: Arity::Exactly(4),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[one_of("attr", &[string("libname").after("LIB-NAME"), string("libver").after("LIB-VER")])],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Records facts about the client, such as its library.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_SETINFO,
};

pub static CLIENT_SETNAME: Spec = Spec {
    full_name: "client|setname",
    subcommands: &[],
    group: Group::Connection,
    since: "2.6.9",
    arity: Arity::Exactly(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("connection-name")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[],
    summary: "Names the connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_SETNAME,
};

pub static CLIENT_TRACKING: Spec = Spec {
    full_name: "client|tracking",
    subcommands: &[],
    group: Group::Connection,
    since: "6.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[
        one_of("status", &[token("on", "ON"), token("off", "OFF")]),
        integer("client-id").after("REDIRECT").optional(),
        string("prefix").after("PREFIX").optional().repeated().token_repeated(),
        token("bcast", "BCAST").optional(),
        token("optin", "OPTIN").optional(),
        token("optout", "OPTOUT").optional(),
        token("noloop", "NOLOOP").optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Turns invalidation messages for client-side caching on or off.",
    complexity: "O(1); some options cost more",
    deprecated: None,
    id: id::CLIENT_TRACKING,
};

pub static CLIENT_TRACKINGINFO: Spec = Spec {
    full_name: "client|trackinginfo",
    subcommands: &[],
    group: Group::Connection,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Describes how keys of the connection are tracked.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLIENT_TRACKINGINFO,
};

pub static CLIENT_UNBLOCK: Spec = Spec {
    full_name: "client|unblock",
    subcommands: &[],
    group: Group::Connection,
    since: "5.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[
        integer("client-id"),
        one_of("unblock-type", &[token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Unblocks a client that is blocked by a command.",
    complexity: "O(log N), N being the number of connections",
    deprecated: None,
    id: id::CLIENT_UNBLOCK,
};

pub static CLIENT_UNPAUSE: Spec = Spec {
    full_name: "client|unpause",
    subcommands: &[],
    group: Group::Connection,
    since: "6.2.0",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Ends the pause of CLIENT PAUSE.",
    complexity: "O(N), N being the number of paused clients",
    deprecated: None,
    id: id::CLIENT_UNPAUSE,
};

pub static ECHO: Spec = Spec {
    full_name: "echo",
    subcommands: &[],
    group: Group::Connection,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("message")],
    tips: &[],
    history: &[],
    summary: "Returns its argument.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ECHO,
};

pub static HELLO: Spec = Spec {
    full_name: "hello",
    subcommands: &[],
    group: Group::Connection,
    since: "6.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::NOSCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[block(
        "arguments",
        &[
            integer("protover"),
            block("auth", &[string("username"), string("password")]).after("AUTH").optional(),
            string("clientname").after("SETNAME").optional(),
        ],
    )
    .optional()],
    tips: &[],
    history: &[
        ("8.1.0", "The reply has `availability_zone` when that config is set."),
        ("6.2.0", "The version may be left out, to ask only for the state of the connection."),
    ],
    summary: "Sets the protocol version of the connection, with user and client name if given, and describes the server.",
    complexity: "O(1)",
    deprecated: None,
    id: id::HELLO,
};

pub static PING: Spec = Spec {
    full_name: "ping",
    subcommands: &[],
    group: Group::Connection,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::FAST,
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[string("message").optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[],
    summary: "Returns PONG, or its argument.",
    complexity: "O(1)",
    deprecated: None,
    id: id::PING,
};

pub static QUIT: Spec = Spec {
    full_name: "quit",
    subcommands: &[],
    group: Group::Connection,
    since: "1.0.0",
    arity: Arity::AtLeast(1),
    flags: Flags::NOSCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Ends the connection after the reply.",
    complexity: "O(1)",
    deprecated: None,
    id: id::QUIT,
};

pub static RESET: Spec = Spec {
    full_name: "reset",
    subcommands: &[],
    group: Group::Connection,
    since: "6.2.0",
    arity: Arity::Exactly(1),
    flags: Flags::NOSCRIPT
        .or(Flags::LOADING)
        .or(Flags::STALE)
        .or(Flags::FAST)
        .or(Flags::NO_AUTH)
        .or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Resets the connection to its state after the connect.",
    complexity: "O(1)",
    deprecated: None,
    id: id::RESET,
};

pub static SELECT: Spec = Spec {
    full_name: "select",
    subcommands: &[],
    group: Group::Connection,
    since: "1.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST).or(Flags::ALLOW_BUSY),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[integer("index")],
    tips: &[],
    history: &[],
    summary: "Chooses the database of the connection.",
    complexity: "O(1)",
    deprecated: None,
    id: id::SELECT,
};

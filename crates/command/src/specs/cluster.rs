//! Cluster commands, and those that control what a connection may read from a node.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Cat, Flags, Group, KeyFlags, Keys, Spec};

specs! {
    cluster:
    ASKING,
    CLUSTER,
    CLUSTER_ADDSLOTS,
    CLUSTER_ADDSLOTSRANGE,
    CLUSTER_BUMPEPOCH,
    CLUSTER_CANCELSLOTMIGRATIONS,
    CLUSTER_COUNT_FAILURE_REPORTS,
    CLUSTER_COUNTKEYSINSLOT,
    CLUSTER_DELSLOTS,
    CLUSTER_DELSLOTSRANGE,
    CLUSTER_FAILOVER,
    CLUSTER_FLUSHSLOT,
    CLUSTER_FLUSHSLOTS,
    CLUSTER_FORGET,
    CLUSTER_GETKEYSINSLOT,
    CLUSTER_GETSLOTMIGRATIONS,
    CLUSTER_HELP,
    CLUSTER_INFO,
    CLUSTER_KEYSLOT,
    CLUSTER_LINKS,
    CLUSTER_MEET,
    CLUSTER_MIGRATESLOTS,
    CLUSTER_MYID,
    CLUSTER_MYSHARDID,
    CLUSTER_NODES,
    CLUSTER_REPLICAS,
    CLUSTER_REPLICATE,
    CLUSTER_RESET,
    CLUSTER_SAVECONFIG,
    CLUSTER_SET_CONFIG_EPOCH,
    CLUSTER_SETSLOT,
    CLUSTER_SHARDS,
    CLUSTER_SLAVES,
    CLUSTER_SLOT_STATS,
    CLUSTER_SLOTS,
    CLUSTER_SYNCSLOTS,
    CLUSTERSCAN,
    READONLY,
    READWRITE,
}

/// Flags of commands that change the node, or its knowledge of other nodes.
const CHANGE: Flags = Flags::ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);
/// Flags of commands that operators use to read cluster state.
const ADMIN_READ: Flags = Flags::ADMIN.or(Flags::STALE);
/// Flags of commands that clients use to read cluster state.
const READ: Flags = Flags::LOADING.or(Flags::STALE);

const MOVES: &[Arg] = &[block(
    "migration-group",
    &[
        token("slotsrange-token", "SLOTSRANGE"),
        block("range", &[integer("start-slot"), integer("end-slot")]).repeated(),
        token("node-token", "NODE"),
        string("node-id"),
    ],
)
.repeated()];

const HISTORY_REPORTS: &[(&str, &str)] = &[("9.0.0", "Reports about a failed node are not taken any more.")];
const HISTORY_MEET: &[(&str, &str)] = &[("4.0.0", "The port of the bus can be said.")];
const HISTORY_REPLICATE: &[(&str, &str)] = &[("9.0.0", "NO ONE.")];
const HISTORY_SHARDS: &[(&str, &str)] = &[("9.1.0", "Shards have ids, nodes may have a zone.")];
const HISTORY_SLOTS: &[(&str, &str)] =
    &[("4.0.0", "Ids of nodes."), ("7.0.0", "Metadata of nodes."), ("9.1.0", "The zone in the metadata.")];

/// `ASKING`
pub static ASKING: Spec = Spec {
    full_name: "asking",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::FAST,
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lets the next command into a slot that moves here.",
    complexity: "O(1)",
    deprecated: None,
    id: id::ASKING,
};

/// `CLUSTER`
pub static CLUSTER: Spec = Spec {
    full_name: "cluster",
    subcommands: &[
        &CLUSTER_ADDSLOTS,
        &CLUSTER_ADDSLOTSRANGE,
        &CLUSTER_BUMPEPOCH,
        &CLUSTER_CANCELSLOTMIGRATIONS,
        &CLUSTER_COUNT_FAILURE_REPORTS,
        &CLUSTER_COUNTKEYSINSLOT,
        &CLUSTER_DELSLOTS,
        &CLUSTER_DELSLOTSRANGE,
        &CLUSTER_FAILOVER,
        &CLUSTER_FLUSHSLOT,
        &CLUSTER_FLUSHSLOTS,
        &CLUSTER_FORGET,
        &CLUSTER_GETKEYSINSLOT,
        &CLUSTER_GETSLOTMIGRATIONS,
        &CLUSTER_HELP,
        &CLUSTER_INFO,
        &CLUSTER_KEYSLOT,
        &CLUSTER_LINKS,
        &CLUSTER_MEET,
        &CLUSTER_MIGRATESLOTS,
        &CLUSTER_MYID,
        &CLUSTER_MYSHARDID,
        &CLUSTER_NODES,
        &CLUSTER_REPLICAS,
        &CLUSTER_REPLICATE,
        &CLUSTER_RESET,
        &CLUSTER_SAVECONFIG,
        &CLUSTER_SET_CONFIG_EPOCH,
        &CLUSTER_SETSLOT,
        &CLUSTER_SHARDS,
        &CLUSTER_SLAVES,
        &CLUSTER_SLOT_STATS,
        &CLUSTER_SLOTS,
        &CLUSTER_SYNCSLOTS,
    ],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(2),
    flags: Flags::NONE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows and changes this node of a cluster.",
    complexity: "That of the subcommand",
    deprecated: None,
    id: id::CLUSTER,
};

/// `CLUSTER ADDSLOTS`
pub static CLUSTER_ADDSLOTS: Spec = Spec {
    full_name: "cluster|addslots",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(3),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("slot").repeated()],
    tips: &[],
    history: &[],
    summary: "Takes slots that have no owner.",
    complexity: "O(N), N slots",
    deprecated: None,
    id: id::CLUSTER_ADDSLOTS,
};

/// `CLUSTER ADDSLOTSRANGE`
pub static CLUSTER_ADDSLOTSRANGE: Spec = Spec {
    full_name: "cluster|addslotsrange",
    subcommands: &[],
    group: Group::Cluster,
    since: "7.0.0",
    arity: Arity::AtLeast(4),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[block("range", &[integer("start-slot"), integer("end-slot")]).repeated()],
    tips: &[],
    history: &[],
    summary: "Takes ranges of slots that have no owner.",
    complexity: "O(N), N slots",
    deprecated: None,
    id: id::CLUSTER_ADDSLOTSRANGE,
};

/// `CLUSTER BUMPEPOCH`
pub static CLUSTER_BUMPEPOCH: Spec = Spec {
    full_name: "cluster|bumpepoch",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Takes the highest epoch of the cluster, and says which.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_BUMPEPOCH,
};

/// `CLUSTER CANCELSLOTMIGRATIONS`
pub static CLUSTER_CANCELSLOTMIGRATIONS: Spec = Spec {
    full_name: "cluster|cancelslotmigrations",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.0.0",
    arity: Arity::Exactly(2),
    flags: CHANGE.or(Flags::ALL_DBS),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Gives up the moves of slots that are under way.",
    complexity: "O(N), N moves",
    deprecated: None,
    id: id::CLUSTER_CANCELSLOTMIGRATIONS,
};

/// `CLUSTER COUNT-FAILURE-REPORTS`
pub static CLUSTER_COUNT_FAILURE_REPORTS: Spec = Spec {
    full_name: "cluster|count-failure-reports",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: ADMIN_READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("node-id")],
    tips: &["nondeterministic_output"],
    history: HISTORY_REPORTS,
    summary: "Counts the nodes that report another one as failing.",
    complexity: "O(N), N reports",
    deprecated: None,
    id: id::CLUSTER_COUNT_FAILURE_REPORTS,
};

/// `CLUSTER COUNTKEYSINSLOT`
pub static CLUSTER_COUNTKEYSINSLOT: Spec = Spec {
    full_name: "cluster|countkeysinslot",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::STALE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("slot")],
    tips: &[],
    history: &[],
    summary: "Counts the keys of a slot that this node holds.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_COUNTKEYSINSLOT,
};

/// `CLUSTER DELSLOTS`
pub static CLUSTER_DELSLOTS: Spec = Spec {
    full_name: "cluster|delslots",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(3),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("slot").repeated()],
    tips: &[],
    history: &[],
    summary: "Leaves slots without an owner, as this node sees it.",
    complexity: "O(N), N slots",
    deprecated: None,
    id: id::CLUSTER_DELSLOTS,
};

/// `CLUSTER DELSLOTSRANGE`
pub static CLUSTER_DELSLOTSRANGE: Spec = Spec {
    full_name: "cluster|delslotsrange",
    subcommands: &[],
    group: Group::Cluster,
    since: "7.0.0",
    arity: Arity::AtLeast(4),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[block("range", &[integer("start-slot"), integer("end-slot")]).repeated()],
    tips: &[],
    history: &[],
    summary: "Leaves ranges of slots without an owner, as this node sees it.",
    complexity: "O(N), N slots",
    deprecated: None,
    id: id::CLUSTER_DELSLOTSRANGE,
};

/// `CLUSTER FAILOVER`
pub static CLUSTER_FAILOVER: Spec = Spec {
    full_name: "cluster|failover",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(2),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of("options", &[token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional()],
    tips: &[],
    history: &[],
    summary: "Has this replica take over from its primary.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_FAILOVER,
};

/// `CLUSTER FLUSHSLOT`
pub static CLUSTER_FLUSHSLOT: Spec = Spec {
    full_name: "cluster|flushslot",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.0.0",
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::ADMIN).or(Flags::NO_ASYNC_LOADING).or(Flags::ALL_DBS),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[]),
    args: &[
        integer("slot"),
        one_of("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional(),
    ],
    tips: &[],
    history: &[],
    summary: "Removes every key of a slot, in all databases.",
    complexity: "O(N), N being the number of keys in the slot",
    deprecated: None,
    id: id::CLUSTER_FLUSHSLOT,
};

/// `CLUSTER FLUSHSLOTS`
pub static CLUSTER_FLUSHSLOTS: Spec = Spec {
    full_name: "cluster|flushslots",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Gives up all slots of this node, which must have no keys.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_FLUSHSLOTS,
};

/// `CLUSTER FORGET`
pub static CLUSTER_FORGET: Spec = Spec {
    full_name: "cluster|forget",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("node-id")],
    tips: &[],
    history: &[],
    summary: "Drops a node, and keeps it out for a while.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_FORGET,
};

/// `CLUSTER GETKEYSINSLOT`
pub static CLUSTER_GETKEYSINSLOT: Spec = Spec {
    full_name: "cluster|getkeysinslot",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(4),
    flags: Flags::STALE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("slot"), integer("count")],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Names keys of a slot that this node holds.",
    complexity: "O(N), N names",
    deprecated: None,
    id: id::CLUSTER_GETKEYSINSLOT,
};

/// `CLUSTER GETSLOTMIGRATIONS`
pub static CLUSTER_GETSLOTMIGRATIONS: Spec = Spec {
    full_name: "cluster|getslotmigrations",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.0.0",
    arity: Arity::Exactly(2),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lists moves of slots, those under way and those that have ended.",
    complexity: "O(N), N moves",
    deprecated: None,
    id: id::CLUSTER_GETSLOTMIGRATIONS,
};

/// `CLUSTER HELP`
pub static CLUSTER_HELP: Spec = Spec {
    full_name: "cluster|help",
    subcommands: &[],
    group: Group::Cluster,
    since: "5.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Prints this help.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_HELP,
};

/// `CLUSTER INFO`
pub static CLUSTER_INFO: Spec = Spec {
    full_name: "cluster|info",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Shows the state of the cluster and of its bus.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_INFO,
};

/// `CLUSTER KEYSLOT`
pub static CLUSTER_KEYSLOT: Spec = Spec {
    full_name: "cluster|keyslot",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: Flags::STALE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("key")],
    tips: &[],
    history: &[],
    summary: "Computes the slot of a key.",
    complexity: "O(N), N bytes",
    deprecated: None,
    id: id::CLUSTER_KEYSLOT,
};

/// `CLUSTER LINKS`
pub static CLUSTER_LINKS: Spec = Spec {
    full_name: "cluster|links",
    subcommands: &[],
    group: Group::Cluster,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::STALE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Lists the connections of the bus.",
    complexity: "O(N), N nodes",
    deprecated: None,
    id: id::CLUSTER_LINKS,
};

/// `CLUSTER MEET`
pub static CLUSTER_MEET: Spec = Spec {
    full_name: "cluster|meet",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(4),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("ip"), integer("port"), integer("cluster-bus-port").optional().since("4.0.0")],
    tips: &[],
    history: HISTORY_MEET,
    summary: "Joins this node and another one, with all that they know.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_MEET,
};

/// `CLUSTER MIGRATESLOTS`
pub static CLUSTER_MIGRATESLOTS: Spec = Spec {
    full_name: "cluster|migrateslots",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.0.0",
    arity: Arity::AtLeast(4),
    flags: CHANGE.or(Flags::ALL_DBS),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: MOVES,
    tips: &[],
    history: &[],
    summary: "Moves slots with their keys to other nodes.",
    complexity: "O(N), N groups",
    deprecated: None,
    id: id::CLUSTER_MIGRATESLOTS,
};

/// `CLUSTER MYID`
pub static CLUSTER_MYID: Spec = Spec {
    full_name: "cluster|myid",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Shows the id of this node.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_MYID,
};

/// `CLUSTER MYSHARDID`
pub static CLUSTER_MYSHARDID: Spec = Spec {
    full_name: "cluster|myshardid",
    subcommands: &[],
    group: Group::Cluster,
    since: "7.2.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Shows the id of the shard of this node.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_MYSHARDID,
};

/// `CLUSTER NODES`
pub static CLUSTER_NODES: Spec = Spec {
    full_name: "cluster|nodes",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Lists the nodes, a line each.",
    complexity: "O(N), N nodes",
    deprecated: None,
    id: id::CLUSTER_NODES,
};

/// `CLUSTER REPLICAS`
pub static CLUSTER_REPLICAS: Spec = Spec {
    full_name: "cluster|replicas",
    subcommands: &[],
    group: Group::Cluster,
    since: "5.0.0",
    arity: Arity::Exactly(3),
    flags: ADMIN_READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("node-id")],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Lists the replicas of a primary, a line each.",
    complexity: "O(N), N replicas",
    deprecated: None,
    id: id::CLUSTER_REPLICAS,
};

/// `CLUSTER REPLICATE`
pub static CLUSTER_REPLICATE: Spec = Spec {
    full_name: "cluster|replicate",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(3),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "args",
        &[string("node-id"), block("no-one", &[token("no", "NO"), token("one", "ONE")]).since("9.0.0")],
    )],
    tips: &[],
    history: HISTORY_REPLICATE,
    summary: "Follows a primary, or none.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_REPLICATE,
};

/// `CLUSTER RESET`
pub static CLUSTER_RESET: Spec = Spec {
    full_name: "cluster|reset",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(2),
    flags: ADMIN_READ.or(Flags::NOSCRIPT),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of("reset-type", &[token("hard", "HARD"), token("soft", "SOFT")]).optional()],
    tips: &[],
    history: &[],
    summary: "Forgets the cluster; with HARD, takes another id too.",
    complexity: "O(N), N nodes",
    deprecated: None,
    id: id::CLUSTER_RESET,
};

/// `CLUSTER SAVECONFIG`
pub static CLUSTER_SAVECONFIG: Spec = Spec {
    full_name: "cluster|saveconfig",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Writes the file of nodes.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_SAVECONFIG,
};

/// `CLUSTER SET-CONFIG-EPOCH`
pub static CLUSTER_SET_CONFIG_EPOCH: Spec = Spec {
    full_name: "cluster|set-config-epoch",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: CHANGE,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[integer("config-epoch")],
    tips: &[],
    history: &[],
    summary: "Gives a new node its epoch.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_SET_CONFIG_EPOCH,
};

/// `CLUSTER SETSLOT`
pub static CLUSTER_SETSLOT: Spec = Spec {
    full_name: "cluster|setslot",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::AtLeast(4),
    flags: CHANGE.or(Flags::MAY_REPLICATE),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[
        integer("slot"),
        one_of(
            "subcommand",
            &[
                string("importing").after("IMPORTING").shown_as("node-id"),
                string("migrating").after("MIGRATING").shown_as("node-id"),
                string("node").after("NODE").shown_as("node-id"),
                token("stable", "STABLE"),
            ],
        ),
        integer("timeout").after("TIMEOUT").optional().since("8.0.0"),
    ],
    tips: &[],
    history: &[("8.0.0", "TIMEOUT.")],
    summary: "Opens a slot for a move by hand, closes it, or gives it an owner.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_SETSLOT,
};

/// `CLUSTER SHARDS`
pub static CLUSTER_SHARDS: Spec = Spec {
    full_name: "cluster|shards",
    subcommands: &[],
    group: Group::Cluster,
    since: "7.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: HISTORY_SHARDS,
    summary: "Lists the shards: their slots and nodes.",
    complexity: "O(N), N nodes",
    deprecated: None,
    id: id::CLUSTER_SHARDS,
};

/// `CLUSTER SLAVES`
pub static CLUSTER_SLAVES: Spec = Spec {
    full_name: "cluster|slaves",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(3),
    flags: ADMIN_READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[string("node-id")],
    tips: &["nondeterministic_output"],
    history: &[],
    summary: "Lists the replicas of a primary, a line each.",
    complexity: "O(N), N replicas",
    deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
    id: id::CLUSTER_SLAVES,
};

/// `CLUSTER SLOT-STATS`
pub static CLUSTER_SLOT_STATS: Spec = Spec {
    full_name: "cluster|slot-stats",
    subcommands: &[],
    group: Group::Cluster,
    since: "8.0.0",
    arity: Arity::AtLeast(4),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[one_of(
        "filter",
        &[
            block("slotsrange", &[integer("start-slot"), integer("end-slot")]).after("SLOTSRANGE"),
            block(
                "orderby",
                &[
                    string("metric"),
                    integer("limit").after("LIMIT").optional(),
                    one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
                ],
            )
            .after("ORDERBY"),
        ],
    )],
    tips: &["nondeterministic_output", "request_policy:all_shards"],
    history: &[],
    summary: "Shows what is counted for each slot of this shard.",
    complexity: "O(N) with a range, O(N*log(N)) in order; N slots of the range, or of the shard",
    deprecated: None,
    id: id::CLUSTER_SLOT_STATS,
};

/// `CLUSTER SLOTS`
pub static CLUSTER_SLOTS: Spec = Spec {
    full_name: "cluster|slots",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(2),
    flags: READ,
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &["nondeterministic_output"],
    history: HISTORY_SLOTS,
    summary: "Lists the ranges of slots with their nodes.",
    complexity: "O(N), N nodes",
    deprecated: None,
    id: id::CLUSTER_SLOTS,
};

/// `CLUSTER SYNCSLOTS`
pub static CLUSTER_SYNCSLOTS: Spec = Spec {
    full_name: "cluster|syncslots",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.0.0",
    arity: Arity::AtLeast(3),
    flags: CHANGE.or(Flags::MAY_REPLICATE).or(Flags::SYSCMD),
    acl: Cat::NONE,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Carries a move of slots between servers.",
    complexity: "O(1)",
    deprecated: None,
    id: id::CLUSTER_SYNCSLOTS,
};

/// `CLUSTERSCAN`
pub static CLUSTERSCAN: Spec = Spec {
    full_name: "clusterscan",
    subcommands: &[],
    group: Group::Cluster,
    since: "9.1.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY.or(Flags::TOUCHES_ARBITRARY_KEYS),
    acl: Cat::KEYSPACE,
    keys: Keys::Specs(&[range(1, 0, 1, KeyFlags::NOT_KEY)]),
    args: &[
        string("cursor"),
        pattern("match-pattern").after("MATCH").optional(),
        integer("count").after("COUNT").optional(),
        string("type").after("TYPE").optional(),
        integer("slot").after("SLOT").optional(),
    ],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    history: &[],
    summary: "Walks over the keys of the cluster in small steps.",
    complexity: "O(N), N being the number of elements returned",
    deprecated: None,
    id: id::CLUSTERSCAN,
};

/// `READONLY`
pub static READONLY: Spec = Spec {
    full_name: "readonly",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Lets the connection read from a replica of a cluster.",
    complexity: "O(1)",
    deprecated: None,
    id: id::READONLY,
};

/// `READWRITE`
pub static READWRITE: Spec = Spec {
    full_name: "readwrite",
    subcommands: &[],
    group: Group::Cluster,
    since: "3.0.0",
    arity: Arity::Exactly(1),
    flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
    acl: Cat::CONNECTION,
    keys: Keys::Specs(&[]),
    args: &[],
    tips: &[],
    history: &[],
    summary: "Takes READONLY back.",
    complexity: "O(1)",
    deprecated: None,
    id: id::READWRITE,
};

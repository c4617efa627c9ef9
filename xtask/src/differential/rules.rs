//! The commands of the differential test, their frequency, and the comparison of their replies:
//! one table with reasons.
//!
//! Invariant: whatever a rule allows, an error is only ever equal to the same error, byte for byte.

/// The comparison of two replies to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The bytes are equal.
    Exact,
    /// Equal elements in any order.
    Unordered,
    /// Equal names with equal values in any order, as a map or as a flat array.
    Pairs,
    /// Like [`Rule::Pairs`], but values of these names are compared by type alone.
    PairsWithout(&'static [&'static str]),
    /// The types are equal, and both replies or neither are null.
    Shape,
    /// A list of records of names and values, without the values of these names.
    Records(&'static [&'static str]),
    /// Integers, or arrays of integers, that differ by at most this much; negative integers must be equal.
    Near(i64),
    /// A cursor and elements: if both cursors are 0, the same elements in any order; otherwise compared by
    /// shape.
    Scan,
    /// Text of `name=value` words: the same names in the same order.
    FieldNames,
    /// Text with the same `# Section` lines.
    Sections,
    /// Text with the same lines, except lines that begin like this.
    LinesWithout(&'static [&'static str]),
    /// The nodes of a cluster, a line each, in any order and without times and ports of the bus.
    Nodes,
    /// Elements in any order, without the values of these names, however deep they lie.
    DeepWithout(&'static [&'static str]),
    /// The command is never sent.
    Skip,
}

/// A row: commands by pattern (`*` matches any text), the rule, the weight (usually 10), and the reason.
pub(crate) struct Row {
    pub(crate) pattern: &'static str,
    pub(crate) rule: Rule,
    pub(crate) weight: u32,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
    reason: &'static str,
}

/// A row with all of its fields.
const fn row(pattern: &'static str, rule: Rule, weight: u32, reason: &'static str) -> Row {
    Row { pattern, rule, weight, reason }
}

/// Rows that precede [`ROWS`] in cluster mode.
pub(crate) const CLUSTER_ROWS: &[Row] = &[
    row("asking", Rule::Exact, 20, ""),
    row("readonly", Rule::Exact, 5, ""),
    row("readwrite", Rule::Exact, 5, ""),
    row("cluster|setslot", Rule::Exact, 60, ""),
    row("cluster|keyslot", Rule::Exact, 10, ""),
    row("cluster|countkeysinslot", Rule::Exact, 30, ""),
    row("cluster|getkeysinslot", Rule::Unordered, 30, "the order of keys belongs to the table's layout"),
    row("cluster|info", Rule::LinesWithout(&["cluster_stats_"]), 10, "messages of the bus are counted apart"),
    row("cluster|nodes", Rule::Nodes, 10, "times, and ports that no client is told elsewhere"),
    row("cluster|slots", Rule::Exact, 10, ""),
    row(
        "cluster|shards",
        Rule::DeepWithout(&["replication-offset"]),
        10,
        "streams have lengths of their own",
    ),
    row("msetex", Rule::Skip, 0, "the reference asks for the slot of none of its keys: docs/compat.md"),
    row("cluster|links", Rule::Shape, 2, "times and memory of connections"),
    row("cluster|replicas", Rule::Exact, 4, ""),
    row("cluster|slaves", Rule::Exact, 2, ""),
    row("cluster|count-failure-reports", Rule::Exact, 4, ""),
    row("cluster|slot-stats", Rule::Exact, 15, ""),
    row("cluster|my*id", Rule::Exact, 4, ""),
    row("cluster|help", Rule::Shape, 1, "help is prose, in our own words"),
    row("cluster|addslots*", Rule::Exact, 6, "refused, as they are drawn"),
    row("cluster|delslots*", Rule::Exact, 6, "refused, as they are drawn"),
    row("cluster|forget", Rule::Exact, 4, "refused, as it is drawn"),
    row("cluster|meet", Rule::Exact, 4, "refused, as it is drawn"),
    row("cluster|replicate", Rule::Exact, 4, "refused, as it is drawn"),
    row("cluster|failover", Rule::Exact, 4, "refused: there are no replicas"),
    row("cluster|set-config-epoch", Rule::Exact, 4, "refused, as it is drawn"),
    row("cluster|saveconfig", Rule::Exact, 1, ""),
    row("cluster*", Rule::Skip, 0, "would change who owns what, or is not there yet"),
];

/// The weight of a command without a row.
pub(crate) const WEIGHT: u32 = 10;

/// The first row that matches a command's full name (`config|get`) counts. A command without a row is not
/// sent if it may block. Otherwise the reference's tips decide: with `nondeterministic_output` replies are
/// compared by shape, with `nondeterministic_output_order` without order, and without either tip exactly.
pub(crate) const ROWS: &[Row] = &[
    // Time passes between the executions on the two servers.
    row("ttl", Rule::Near(2), 12, "seconds pass between the two servers' replies"),
    row("pttl", Rule::Near(3000), 12, "milliseconds pass between the two servers' replies"),
    row("expiretime", Rule::Near(2), 10, "a relative expiry is counted from the moment of execution"),
    row("pexpiretime", Rule::Near(3000), 10, "a relative expiry is counted from the moment of execution"),
    row("httl", Rule::Near(2), 10, "as TTL"),
    row("hpttl", Rule::Near(3000), 10, "as PTTL"),
    row("hexpiretime", Rule::Near(2), 10, "as EXPIRETIME"),
    row("hpexpiretime", Rule::Near(3000), 10, "as PEXPIRETIME"),
    row("object|idletime", Rule::Shape, 5, "the clock; a frequency reads as a time after the policy changed"),
    row("object|freq", Rule::Shape, 5, "counted by chance"),
    row("time", Rule::Shape, 2, "the clock"),
    row("lastsave", Rule::Shape, 1, "the clock"),
    // Random draws, and orders that depend on the layout of a hash table.
    row("randomkey", Rule::Shape, 3, "a draw"),
    row("srandmember", Rule::Shape, 5, "a draw"),
    row("hrandfield", Rule::Shape, 5, "a draw"),
    row("zrandmember", Rule::Shape, 5, "a draw"),
    row("spop", Rule::Skip, 0, "a draw that changes the key: the two would part"),
    row("scan", Rule::Scan, 6, "cursors and order belong to the table's layout"),
    row("hscan", Rule::Scan, 6, "cursors and order belong to the table's layout"),
    row("sscan", Rule::Scan, 6, "cursors and order belong to the table's layout"),
    row("zscan", Rule::Scan, 6, "cursors and order belong to the table's layout"),
    row("clusterscan", Rule::Scan, 6, "cursors name their node, and order belongs to the table's layout"),
    row("hgetall", Rule::Pairs, 10, "the order of fields belongs to the table's layout"),
    row("keys", Rule::Unordered, 3, "the order of keys belongs to the table's layout"),
    row("sort*", Rule::Unordered, 5, "equal weights keep the order of the table"),
    row(
        "dump",
        Rule::Shape,
        5,
        "compression and cuts are free; behind a stream each server restores the other's payloads",
    ),
    row("restore*", Rule::Exact, 15, ""),
    // Replies that describe the process.
    row("*|help", Rule::Shape, 1, "help is prose, in our own words"),
    row("info", Rule::Sections, 1, "figures of the process"),
    row(
        "hello",
        Rule::PairsWithout(&["id", "modules"]),
        6,
        "connections are numbered apart; modules are built in or not",
    ),
    row("client|id", Rule::Shape, 2, "numbers of connections differ"),
    row("client|info", Rule::FieldNames, 2, "figures of the connection"),
    row("client|list", Rule::Shape, 2, "connections are numbered apart, and an id may choose among them"),
    row("client|kill", Rule::Exact, 2, "only filters that the generator names, which meet nobody"),
    row("client|pause", Rule::Exact, 1, "only times that the generator names, a millisecond at most"),
    row("client|reply", Rule::Exact, 1, "only what is answered; SKIP and OFF are among the broken requests"),
    row("client|tracking", Rule::Skip, 0, "invalidations come at moments that no order fixes"),
    row("client|*", Rule::Exact, 3, ""),
    row("config|get", Rule::Pairs, 4, "parameters are a set"),
    row("config|set", Rule::Exact, 4, ""),
    row("config|rewrite", Rule::Skip, 0, "writes a file"),
    row("config|resetstat", Rule::Exact, 1, ""),
    row("command", Rule::Skip, 0, "compared field by field before the streams"),
    row("command|docs", Rule::Skip, 0, "compared field by field before the streams"),
    row("command|list", Rule::Shape, 1, "ours may lack commands of later features"),
    row("command|count", Rule::Shape, 1, "ours may lack commands of later features"),
    row("command|info", Rule::Shape, 2, "notes are prose; compared field by field before the streams"),
    row("command|getkeys*", Rule::Exact, 8, ""),
    row("memory|usage", Rule::Shape, 3, "the layout of entries is free"),
    row("memory|*", Rule::Shape, 1, "figures of the allocator"),
    row("latency|*", Rule::Shape, 1, "measured times"),
    row("slowlog|*", Rule::Shape, 1, "measured times"),
    row("commandlog|*", Rule::Shape, 1, "measured times"),
    row("lolwut", Rule::Shape, 1, "a drawing"),
    row("role", Rule::Exact, 1, ""),
    // Commands that end, block or leave the process.
    row("shutdown", Rule::Skip, 0, "ends the server"),
    row("debug", Rule::Exact, 3, "only the subcommands that the generator names"),
    row("save", Rule::Skip, 0, "writes a file"),
    row("bgsave", Rule::Skip, 0, "writes a file"),
    row("bgrewriteaof", Rule::Skip, 0, "writes a file"),
    row("replicaof", Rule::Skip, 0, "leaves the machine"),
    row("slaveof", Rule::Skip, 0, "leaves the machine"),
    row("failover", Rule::Skip, 0, "leaves the machine"),
    row("migrate", Rule::Skip, 0, "leaves the machine"),
    row("module|*", Rule::Skip, 0, "loads foreign code"),
    row("sync", Rule::Skip, 0, "turns the connection into a replica's"),
    row("psync", Rule::Skip, 0, "turns the connection into a replica's"),
    row("replconf", Rule::Skip, 0, "turns the connection into a replica's"),
    row("monitor", Rule::Skip, 0, "turns the connection into a monitor's"),
    row("blpop", Rule::Exact, 2, "only times that the generator names, a moment at most"),
    row("brpop", Rule::Exact, 2, "as BLPOP"),
    row("blmove", Rule::Exact, 2, "as BLPOP"),
    row("brpoplpush", Rule::Exact, 2, "as BLPOP"),
    row("blmpop", Rule::Exact, 2, "as BLPOP"),
    row("wait", Rule::Exact, 1, "there are no replicas, and it waits for a moment at most"),
    row(
        "*subscribe",
        Rule::Skip,
        0,
        "replies do not match commands one to one; the listener of every stream subscribes",
    ),
    row("publish", Rule::Exact, 12, "the listener is sent the message"),
    row("spublish", Rule::Exact, 4, "as PUBLISH"),
    row("pubsub|channels", Rule::Unordered, 2, "channels are a set"),
    row("pubsub|shardchannels", Rule::Unordered, 2, "channels are a set"),
    row("pubsub|help", Rule::Skip, 0, "prose"),
    row("pubsub|*", Rule::Exact, 2, ""),
    row("wait*", Rule::Skip, 0, "waits for replicas"),
    row("acl|whoami", Rule::Exact, 2, ""),
    row("acl|cat", Rule::Unordered, 2, "categories are a set"),
    row(
        "acl|log",
        Rule::Records(&[
            "age-seconds",
            "client-info",
            "entry-id",
            "timestamp-created",
            "timestamp-last-updated",
        ]),
        4,
        "times, numbers and the connection",
    ),
    row("acl|dryrun", Rule::Exact, 6, ""),
    row("acl|setuser", Rule::Exact, 10, ""),
    row("acl|getuser", Rule::Exact, 6, ""),
    row("acl|deluser", Rule::Exact, 2, ""),
    row("acl|list", Rule::Exact, 4, ""),
    row("acl|genpass", Rule::Shape, 1, "random"),
    row("acl|*", Rule::Exact, 1, ""),
    row("auth", Rule::Exact, 3, ""),
    row("cluster*", Rule::Skip, 0, "needs a cluster"),
    row("readonly", Rule::Exact, 1, ""),
    row("readwrite", Rule::Exact, 1, ""),
    row("asking", Rule::Exact, 1, ""),
    row("eval", Rule::Exact, 25, "the commands inside are those that are compared byte by byte"),
    row("eval*", Rule::Exact, 6, ""),
    row("fcall*", Rule::Exact, 12, ""),
    row("function|load", Rule::Exact, 10, ""),
    row("function|list", Rule::Unordered, 2, "the order belongs to the table's layout"),
    row("function|dump", Rule::Shape, 1, "compression is free"),
    row("function|restore", Rule::Skip, 0, "the tests of the engine have the payloads"),
    row("function|flush", Rule::Exact, 1, ""),
    row("function*", Rule::Exact, 2, ""),
    row("script|debug", Rule::Skip, 0, "a debugger talks in a protocol of its own"),
    row("script|flush", Rule::Exact, 1, ""),
    row("script*", Rule::Exact, 3, ""),
    row("pfselftest", Rule::Skip, 0, "takes seconds"),
    row("pfdebug", Rule::Skip, 0, "shows a layout"),
    // Streams need no clock, because their ids are given.
    row("xadd", Rule::Exact, 60, ""),
    row("xpending", Rule::Shape, 10, "idle times"),
    row("xinfo|consumers", Rule::Shape, 5, "idle times"),
    row("xinfo|stream", Rule::Exact, 10, "FULL, which tells times, is not drawn"),
    row("xgroup|destroy", Rule::Exact, 4, ""),
    row("xgroup|delconsumer", Rule::Exact, 4, ""),
    row("xgroup|create", Rule::Exact, 20, ""),
    row("xreadgroup", Rule::Exact, 25, "no BLOCK is drawn"),
    row("xread", Rule::Exact, 10, "no BLOCK is drawn"),
    row("xsetid", Rule::Exact, 3, ""),
    row("x*", Rule::Exact, 10, ""),
    // Destructive commands are drawn less often, so that there is data to destroy.
    row("flushall", Rule::Exact, 1, ""),
    row("flushdb", Rule::Exact, 2, ""),
    row("swapdb", Rule::Exact, 4, ""),
    row("select", Rule::Exact, 5, ""),
    row("move", Rule::Exact, 15, ""),
    row("copy", Rule::Exact, 15, ""),
    row("rename*", Rule::Exact, 15, ""),
    row("quit", Rule::Exact, 1, ""),
    row("reset", Rule::Exact, 1, ""),
    // Most transactions are drawn as a whole.
    row("multi", Rule::Exact, 2, ""),
    row("exec", Rule::Exact, 8, ""),
    row("discard", Rule::Exact, 3, ""),
    row("rpush", Rule::Exact, 30, ""),
    row("lpush", Rule::Exact, 30, ""),
    row("set", Rule::Exact, 40, ""),
    row("get", Rule::Exact, 20, ""),
];

#[cfg(test)]
mod tests {
    use super::{CLUSTER_ROWS, ROWS, Rule};

    #[test]
    fn whatever_is_not_compared_byte_by_byte_has_a_reason() {
        for row in ROWS.iter().chain(CLUSTER_ROWS).filter(|row| row.rule != Rule::Exact) {
            assert!(!row.reason.is_empty(), "{}", row.pattern);
        }
    }
}

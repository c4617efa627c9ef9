//! The answers of the server that `--check-move` examines; `judge.rs` derives its findings from nothing else.
//!
//! Invariant: no facts hold a password, a digest or the value of a secret directive. The payloads of DUMP are
//! the only contents of keys that facts hold.

use std::collections::BTreeMap;

/// A part of the answers, or the reason that the part is not known.
pub type Asked<T> = Result<T, UnknownFact>;

/// Why a part is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFact {
    /// The command whose answer is missing.
    pub command: &'static str,
    /// The reason that the command has no usable answer.
    pub why: WhyUnknown,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// The user has no right to the command.
    Rights,
    /// The server has no such command, or has given it another name.
    NoCommand,
    /// Another error, by its code (the first word of the reply).
    Error(String),
    /// The reply has a type that the command does not return.
    Strange,
    /// The reply would be so large that producing it would keep the server busy.
    TooMuch,
}

/// All answers of the other server, one field for each group of commands.
#[derive(Clone, Debug)]
pub struct MoveFacts {
    /// The fields of INFO.
    pub info: Asked<InfoFacts>,
    /// INFO commandstats: the number of calls of each command.
    pub calls: Asked<Vec<CommandCalls>>,
    /// CONFIG GET *: the directives, without the values of secrets.
    pub settings: Asked<Vec<SettingFact>>,
    /// MODULE LIST: names and versions.
    pub modules: Asked<Vec<(Vec<u8>, i64)>>,
    /// ACL LIST, without passwords and without their digests.
    pub users: Asked<Vec<Vec<u8>>>,
    /// FUNCTION LIST: names and engines.
    pub libraries: Asked<Vec<(Vec<u8>, Vec<u8>)>>,
    /// CLIENT LIST: the number of clients of each kind.
    pub clients: Asked<BTreeMap<ClientGroup, u64>>,
    /// CLUSTER NODES, and the answers of the other nodes; `None` where the server is no node of a cluster.
    pub cluster: Option<Asked<ClusterFacts>>,
    /// SCAN, TYPE, OBJECT ENCODING and DUMP: a sample of the keys.
    pub keys: Asked<KeySample>,
}

/// The fields of INFO, by name.
#[derive(Clone, Debug, Default)]
pub struct InfoFacts(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl InfoFacts {
    /// Parses the reply of INFO: a field is a line `name:value`.
    pub fn read(text: &[u8]) -> InfoFacts {
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let fields = lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line[..colon].to_vec(), line[colon + 1..].to_vec()))
        });
        InfoFacts(fields.collect())
    }

    /// The value of a field; empty where the field is missing.
    pub fn text(&self, name: &str) -> &[u8] {
        self.0.get(name.as_bytes()).map_or(b"", Vec::as_slice)
    }

    /// The value of a field as a number; 0 where the field is missing or no number.
    pub fn number(&self, name: &str) -> u64 {
        sluice_base::num::parse_u64(self.text(name)).unwrap_or(0)
    }

    /// Whether the field `name` has exactly this value.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name) == value.as_bytes()
    }

    /// Whether the server is a node of a cluster.
    pub(crate) fn is_node(&self) -> bool {
        self.is("redis_mode", "cluster") || self.is("cluster_enabled", "1")
    }

    /// Keys of all databases together; `u64::MAX` where the sum would be larger.
    pub fn keys(&self) -> u64 {
        self.databases().fold(0, |sum, (_, keys)| sum.saturating_add(keys))
    }

    /// The numbers of the databases that have keys, each with its number of keys.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().filter_map(|(name, value)| {
            let number = sluice_base::num::parse_u64(name.strip_prefix(b"db")?)?;
            Some((number, field(value, b"keys")?))
        })
    }
}

/// The number after `name=` in a text of fields with commas between them.
pub fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b',')
        .find_map(|part| sluice_base::num::parse_u64(part.strip_prefix(name)?.strip_prefix(b"=")?))
}

/// How often a command was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCalls {
    /// The name of the command, such as `get` or `config|get`.
    pub name: Vec<u8>,
    /// Number of executed calls, failed ones included.
    pub calls: u64,
    /// Number of executed calls that ended with an error.
    pub failed: u64,
}

/// A directive of the other server, with its value unless that is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFact {
    /// The directive's name in lower case.
    pub name: Vec<u8>,
    /// The directive's value, or whether a secret is set.
    pub value: SettingValue,
}

/// The value of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// The value of a directive that is no secret.
    Plain(Vec<u8>),
    /// The directive is a secret and has a value.
    Secret,
    /// The directive is a secret and is empty.
    NoSecret,
}

/// The properties by which clients are grouped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientGroup {
    /// The client library's name, or the name that the client has set where it reports no library; empty for
    /// a Sentinel.
    pub library: Vec<u8>,
    /// The version of the client library; empty where unknown.
    pub version: Vec<u8>,
    /// The RESP version of the connection, 2 or 3.
    pub protocol: u8,
    /// What the connection is for, beside plain commands.
    pub role: ClientRole,
}

/// What a client's connection is for, beside plain commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientRole {
    /// Commands only.
    Usual,
    /// The client uses client-side caching (CLIENT TRACKING).
    Tracking,
    /// The connection of a replica to its primary.
    Replica,
    /// The connection of a Sentinel.
    Sentinel,
}

/// A cluster as the node that was asked sees it, and the answers of each other node about itself.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The nodes, in the order of the reply; of a large cluster only the first ones and the asked one.
    pub nodes: Vec<ClusterNodeFact>,
    /// Number of nodes that are not in `nodes`.
    pub omitted: usize,
    /// Ranges of slots without an owner, first and last slot of each.
    pub uncovered: Vec<(u16, u16)>,
}

/// A node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterNodeFact {
    /// The address; empty where the node that was asked does not know its own address yet.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// Whether this is the node that was asked first and named the others.
    pub is_asked_one: bool,
    /// Whether the node is a primary.
    pub is_primary: bool,
    /// Whether the node owns slots.
    pub has_slots: bool,
    /// The node's condition, as the node that was asked sees it.
    pub health: NodeCondition,
    /// Slots that the node's line marks as migrating or importing.
    pub open: Vec<OpenSlotFact>,
    /// The node's own answers, or the reason that it gave none; `None` where the node was not asked.
    pub view: Option<Result<NodeView, String>>,
}

impl ClusterNodeFact {
    /// Address and port in printable ASCII.
    pub fn name(&self) -> String {
        crate::arguments::shown_target(&self.host, self.port)
    }
}

/// The condition of a node, from the flags in CLUSTER NODES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCondition {
    /// None of the flags of a failure is set.
    Well,
    /// The node that was asked gets no answer from this node (`fail?`).
    Suspected,
    /// The flag `fail`, `noaddr` or `handshake` is set.
    Failed,
}

/// A slot that an operator moves by CLUSTER SETSLOT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSlotFact {
    /// The number of the slot, 0 to 16,383.
    pub slot: u16,
    /// `true` if the slot leaves the node (`migrating`), `false` if the node receives the slot (`importing`).
    pub leaves: bool,
}

/// The answers of another node of the cluster.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The fields of INFO of the node.
    pub info: Asked<InfoFacts>,
    /// MODULE LIST: names and versions.
    pub modules: Asked<Vec<(Vec<u8>, i64)>>,
    /// The migrating and importing slots in the node's own line of CLUSTER NODES.
    pub open: Asked<Vec<OpenSlotFact>>,
}

/// A sample of the keys of the databases.
#[derive(Clone, Debug, Default)]
pub struct KeySample {
    /// Number of keys in the sample.
    pub looked_at: u64,
    /// Number of keys in the sample for which TYPE was refused.
    pub refused: u64,
    /// Number of keys of each pair of type and encoding.
    pub kinds: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    /// The payloads of a few keys of each type and encoding.
    pub payloads: Vec<PayloadFact>,
}

/// The reply of DUMP for one key of the sample.
#[derive(Clone, Debug)]
pub struct PayloadFact {
    /// The type of the key, such as `hash`.
    pub kind: Vec<u8>,
    /// The encoding of the key, such as `listpack`.
    pub encoding: Vec<u8>,
    /// The payload, or why it is unknown: the server refused MEMORY USAGE or DUMP.
    pub payload: Asked<Vec<u8>>,
}

//! What was learnt of the other server: what is judged, and all that is judged.
//!
//! Invariant: no password, digest or value of a secret directive is in here. Payloads of DUMP are data.

use std::collections::BTreeMap;

/// A part of what was asked, or why that part is not known.
pub type Asked<T> = Result<T, UnknownFact>;

/// Why a part is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFact {
    /// The command that was asked.
    pub command: &'static str,
    /// Why there is no answer.
    pub why: WhyUnknown,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// The user may not ask.
    Rights,
    /// The server has no such command, or has given it another name.
    NoCommand,
    /// Another error: its first word.
    Error(String),
    /// An answer of another kind than the command has.
    Strange,
    /// There would be too much of it.
    TooMuch,
}

/// Everything that was learnt.
#[derive(Clone, Debug)]
pub struct MoveFacts {
    /// INFO.
    pub info: Asked<InfoFacts>,
    /// INFO commandstats.
    pub calls: Asked<Vec<CommandCalls>>,
    /// CONFIG GET.
    pub settings: Asked<Vec<SettingFact>>,
    /// MODULE LIST: names and versions.
    pub modules: Asked<Vec<(Vec<u8>, i64)>>,
    /// ACL LIST, with `#0…0` for each password.
    pub users: Asked<Vec<Vec<u8>>>,
    /// FUNCTION LIST: names and engines.
    pub libraries: Asked<Vec<(Vec<u8>, Vec<u8>)>>,
    /// CLIENT LIST, grouped.
    pub clients: Asked<BTreeMap<ClientGroup, u64>>,
    /// CLUSTER NODES, and what the other nodes say; none where the server is no node of a cluster.
    pub cluster: Option<Asked<ClusterFacts>>,
    /// SCAN, TYPE, OBJECT ENCODING, DUMP.
    pub keys: Asked<KeySample>,
}

/// The fields of INFO.
#[derive(Clone, Debug, Default)]
pub struct InfoFacts(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl InfoFacts {
    /// The fields of a text.
    pub fn read(text: &[u8]) -> InfoFacts {
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let fields = lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line[..colon].to_vec(), line[colon + 1..].to_vec()))
        });
        InfoFacts(fields.collect())
    }

    /// A field; empty where there is none.
    pub fn text(&self, name: &str) -> &[u8] {
        self.0.get(name.as_bytes()).map_or(b"", Vec::as_slice)
    }

    /// A field that is a number; 0 where there is none.
    pub fn number(&self, name: &str) -> u64 {
        sluice_base::num::parse_u64(self.text(name)).unwrap_or(0)
    }

    /// Whether a field is there with this value.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name) == value.as_bytes()
    }

    /// Whether the server is a node of a cluster.
    pub(crate) fn is_node(&self) -> bool {
        self.is("redis_mode", "cluster") || self.is("cluster_enabled", "1")
    }

    /// Keys of all databases together; the end of 64 bits where a server claims more.
    pub fn keys(&self) -> u64 {
        self.databases().fold(0, |sum, (_, keys)| sum.saturating_add(keys))
    }

    /// The databases that have keys, with their numbers of keys.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().filter_map(|(name, value)| {
            let number = sluice_base::num::parse_u64(name.strip_prefix(b"db")?)?;
            Some((number, field(value, b"keys")?))
        })
    }
}

/// The number behind `name=` among fields with commas between.
pub fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b',')
        .find_map(|part| sluice_base::num::parse_u64(part.strip_prefix(name)?.strip_prefix(b"=")?))
}

/// How often a command was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCalls {
    /// The name, `get` or `config|get`.
    pub name: Vec<u8>,
    /// Calls that ran.
    pub calls: u64,
    /// Calls of these that ended with an error.
    pub failed: u64,
}

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFact {
    /// The name.
    pub name: Vec<u8>,
    /// The value.
    pub value: SettingValue,
}

/// The value of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// One that is no secret.
    Plain(Vec<u8>),
    /// A secret that is set.
    Secret,
    /// A secret that is not set.
    NoSecret,
}

/// What clients of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientGroup {
    /// The library, or the client's own name where there is none.
    pub library: Vec<u8>,
    /// The library's version.
    pub version: Vec<u8>,
    /// 2 or 3.
    pub protocol: u8,
    /// What the client does beside commands.
    pub role: ClientRole,
}

/// What a client does beside commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientRole {
    /// Nothing.
    Usual,
    /// Client-side caching.
    Tracking,
    /// A replica.
    Replica,
    /// A Sentinel.
    Sentinel,
}

/// A cluster, as the node that was asked sees it, and what each of the others says of itself.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The nodes, in the order of the reply.
    pub nodes: Vec<ClusterNodeFact>,
    /// Ranges of slots that nobody owns.
    pub uncovered: Vec<(u16, u16)>,
}

/// A node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterNodeFact {
    /// The address; empty where the node that was asked has not learnt its own.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// Whether this is the node that was asked.
    pub is_asked_one: bool,
    /// Whether the node is a primary.
    pub is_primary: bool,
    /// Whether the node owns slots.
    pub has_slots: bool,
    /// How the node is, as the asked one sees it.
    pub health: NodeCondition,
    /// Slots that a node names as on their way in its own line.
    pub open: Vec<OpenSlotFact>,
    /// The answers of the node, or why there are none; none where the node was not asked.
    pub view: Option<Result<NodeView, String>>,
}

impl ClusterNodeFact {
    /// Address and port, as they are shown.
    pub fn name(&self) -> String {
        crate::arguments::shown_target(&self.host, self.port)
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCondition {
    /// It answers.
    Well,
    /// The node that was asked does not hear of it (`fail?`).
    Suspected,
    /// Marked as failed, without an address, or never heard of.
    Failed,
}

/// A slot that is on its way by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSlotFact {
    /// The slot.
    pub slot: u16,
    /// Whether it leaves the node (`migrating`), rather than comes (`importing`).
    pub leaves: bool,
}

/// The answers of a node.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// INFO.
    pub info: Asked<InfoFacts>,
    /// MODULE LIST: names and versions.
    pub modules: Asked<Vec<(Vec<u8>, i64)>>,
    /// The open slots of its own line.
    pub open: Asked<Vec<OpenSlotFact>>,
}

/// Some of the keys.
#[derive(Clone, Debug, Default)]
pub struct KeySample {
    /// How many were looked at.
    pub looked_at: u64,
    /// How many of these the user may not look at.
    pub refused: u64,
    /// Types and encodings, with how many keys have them.
    pub kinds: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    /// Payloads of some keys: type, encoding, and the payload or why there is none.
    pub payloads: Vec<PayloadFact>,
}

/// The payload of a key.
#[derive(Clone, Debug)]
pub struct PayloadFact {
    /// The key's type.
    pub kind: Vec<u8>,
    /// The key's encoding.
    pub encoding: Vec<u8>,
    /// What DUMP answered.
    pub payload: Asked<Vec<u8>>,
}

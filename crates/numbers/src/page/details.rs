//! What is asked for the page, and what the main thread answers.

use crate::page::keys::{LargestKeys, SlotLook};

/// Credentials that one [`PageAsk`] has judged, at most: each costs a hash of its password.
pub const JUDGED_MAX: usize = 4;

/// What requests for the page, or for the sizes of slots, want beside a sample.
#[derive(Clone, Debug, Default)]
pub struct PageAsk {
    /// Somebody looks at the page.
    pub looks_at_page: bool,
    /// A machine asks for the sizes of slots.
    pub looks_at_slots: bool,
    /// Somebody looks at the largest and the hottest keys.
    pub looks_at_keys: bool,
    /// Users and passwords of requests for names of keys.
    pub credentials: Vec<BasicCredentials>,
}

/// A user and a password, as a request shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The user.
    pub user: Box<[u8]>,
    /// The password.
    pub password: Box<[u8]>,
    /// Where the request has come from, for the log of refusals.
    pub peer: Box<str>,
}

/// Without what they are: nothing may write them to a log.
impl std::fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// What a request may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MayShow {
    /// Names of keys: its user may read each key of each database that holds keys.
    pub key_names: bool,
    /// Arguments of logged commands: its user may call COMMANDLOG GET, and sees names of keys.
    pub arguments: bool,
}

/// What became of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedCredentials {
    /// No such user, or another password.
    Refused,
    /// The user may see this.
    Accepted(MayShow),
}

/// What the main thread answers.
#[derive(Clone, Debug, Default)]
pub struct PageDetails {
    /// Clients, most bytes first.
    pub clients: Vec<ClientRow>,
    /// Clients that are sent slow reads' replies.
    pub slow_reads: Vec<ClientRow>,
    /// The newest slow commands.
    pub slow_commands: Vec<SlowCommandRow>,
    /// The script that runs.
    pub script: Option<ScriptRow>,
    /// Moves of slots, the newest first.
    pub moves: Vec<MoveRow>,
    /// Nodes of the cluster, those in trouble first; empty without a cluster.
    pub nodes: Vec<NodeRow>,
    /// The largest keys, while somebody looks.
    pub largest: Option<LargestKeys>,
    /// The keys that clients access most, likewise.
    pub hottest: Option<Vec<HotKeyRow>>,
    /// The sizes of slots, where they are asked for.
    pub slot_look: Option<SlotLook>,
    /// Facts that are no numbers: a name, and the text.
    pub texts: Vec<(&'static str, String)>,
    /// What became of [`PageAsk::credentials`], in their order.
    pub judged: Vec<JudgedCredentials>,
}

/// A node of the cluster, as this node sees it.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// The node's id, 40 hexadecimal digits.
    pub id: String,
    /// The name that an operator gave the node, or else its host name; empty for neither.
    pub name: Box<[u8]>,
    /// Address and port of the node for clients.
    pub address: String,
    /// Whether the row is the server's own.
    pub is_myself: bool,
    /// Whether the node is a replica.
    pub is_replica: bool,
    /// Id of a replica's primary; empty for a primary, and where the primary is not known.
    pub primary: String,
    /// How many slots the node has.
    pub slots: u16,
    /// `ok`, `pfail` (this node gets no answer from it) or `fail` (the cluster holds it for failed).
    pub health: &'static str,
    /// Whether this node's connection to the node's bus is open.
    pub is_linked: bool,
    /// Milliseconds since the node's last PONG; `None` for none, and for the server's own row.
    pub pong_age_ms: Option<u64>,
}

/// A move of slots to or from this node.
#[derive(Clone, Debug)]
pub struct MoveRow {
    /// Whether the slots leave this node.
    pub leaves: bool,
    /// The slots, `100-200 300-300`, cut where there are many ranges.
    pub slots: String,
    /// The other node's id; empty where it is not known.
    pub node: String,
    /// As CLUSTER GETSLOTMIGRATIONS has it.
    pub state: &'static str,
    /// The reason of a failure; empty otherwise.
    pub message: String,
    /// When its state changed last, seconds since the epoch.
    pub updated_s: i64,
    /// Keys and bytes so far; none of a move that has ended.
    pub progress: Option<MoveRowProgress>,
}

/// How far a move of slots is.
#[derive(Clone, Copy, Debug)]
pub struct MoveRowProgress {
    /// Keys that were sent, or have come.
    pub keys: u64,
    /// Keys in slots that were not begun; none of a move to this node.
    pub keys_left: Option<u64>,
    /// Bytes that were sent, or have come.
    pub bytes: u64,
    /// Bytes that wait to be sent; none of a move to this node.
    pub bytes_left: Option<u64>,
    /// Writers of the slots wait.
    pub holds_writers: bool,
    /// Writers of the slots are slowed down.
    pub is_braked: bool,
}

/// A logged command.
#[derive(Clone, Debug)]
pub struct SlowCommandRow {
    /// Number of the entry.
    pub id: u64,
    /// When it ran, seconds since the epoch.
    pub at_s: i64,
    /// Duration, microseconds.
    pub us: i64,
    /// Its words, shortened for the log.
    pub argv: Vec<Vec<u8>>,
    /// Address of its client.
    pub address: Box<str>,
    /// Name of its client; empty for none.
    pub client_name: Box<[u8]>,
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// What CLIENT ID answers.
    pub id: u64,
    /// Address of the client.
    pub address: Box<str>,
    /// Name of the client; empty for none.
    pub name: Box<[u8]>,
    /// Library that the client has named; empty for none.
    pub library: Box<[u8]>,
    /// Name of the client's user.
    pub user: Box<[u8]>,
    /// The command that ran last.
    pub command: &'static str,
    /// As CLIENT LIST's flags.
    pub flags: String,
    /// Time since it connected, seconds.
    pub age_s: i64,
    /// Time since its last request, seconds.
    pub idle_s: i64,
    /// Output that it has not taken, bytes.
    pub output_bytes: usize,
    /// All that is held for it, bytes.
    pub held_bytes: usize,
    /// Commands that it has run.
    pub commands: u64,
}

/// A key that clients access often.
#[derive(Clone, Debug)]
pub struct HotKeyRow {
    /// Number of the database.
    pub db: usize,
    /// Name of the key.
    pub name: Box<[u8]>,
    /// Accesses in a second, estimated.
    pub per_second: u64,
}

/// A script.
#[derive(Clone, Debug)]
pub struct ScriptRow {
    /// The SHA-1 of a script, or the name of a function.
    pub name: Box<[u8]>,
    /// Since when it runs, ms.
    pub running_ms: u64,
}

//! The requests of the metrics endpoint's web page to the main thread, and the main thread's answers.

use crate::page::keys::{LargestKeys, SlotLook};

/// At most this many credentials are checked for one [`PageAsk`], because each check costs a hash of the
/// password.
pub const JUDGED_MAX: usize = 4;

/// The data that requests for the page, or for the sizes of slots, need in addition to a sample.
#[derive(Clone, Debug, Default)]
pub struct PageAsk {
    /// Whether a client displays the page.
    pub looks_at_page: bool,
    /// Whether a client requests the sizes of slots.
    pub looks_at_slots: bool,
    /// Whether a client displays the largest and the hottest keys.
    pub looks_at_keys: bool,
    /// Users and passwords of requests for names of keys, at most [`JUDGED_MAX`].
    pub credentials: Vec<BasicCredentials>,
}

/// A user and a password from a request's header, with the requester's address.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// Name of the user, as sent.
    pub user: Box<[u8]>,
    /// The password in plain text.
    pub password: Box<[u8]>,
    /// Address of the requester, for the log of refusals.
    pub peer: Box<str>,
}

/// Shows a fixed word, so that no log can contain a password.
impl std::fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// The confidential data that a request may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MayShow {
    /// Names of keys: the user may read every key of each database that holds keys or has a shown hot key.
    pub key_names: bool,
    /// Arguments of logged commands: the user may call COMMANDLOG GET and see names of keys.
    pub arguments: bool,
}

/// The result of checking credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedCredentials {
    /// The user is unknown or disabled, or the password is wrong.
    Refused,
    /// The user is authenticated; the field has the user's rights.
    Accepted(MayShow),
}

/// The main thread's answer to a [`PageAsk`].
#[derive(Clone, Debug, Default)]
pub struct PageDetails {
    /// The clients that hold most memory, largest first.
    pub clients: Vec<ClientRow>,
    /// Clients that currently receive the reply of a slow read.
    pub slow_reads: Vec<ClientRow>,
    /// The newest slow commands.
    pub slow_commands: Vec<SlowCommandRow>,
    /// The script that is running, if any.
    pub script: Option<ScriptRow>,
    /// Moves of slots, the newest first, up to a maximum; empty without a cluster.
    pub moves: Vec<MoveRow>,
    /// Nodes of the cluster, those in trouble first, up to a maximum; empty without a cluster.
    pub nodes: Vec<NodeRow>,
    /// Number of nodes, without those still in a handshake; 0 without a cluster.
    pub node_count: usize,
    /// The largest keys, if [`PageAsk::looks_at_keys`].
    pub largest: Option<LargestKeys>,
    /// The most accessed keys, if [`PageAsk::looks_at_keys`].
    pub hottest: Option<Vec<HotKeyRow>>,
    /// The sizes of slots, if [`PageAsk::looks_at_slots`].
    pub slot_look: Option<SlotLook>,
    /// Facts that are not numbers, as names and texts.
    pub texts: Vec<(&'static str, String)>,
    /// Results for [`PageAsk::credentials`], in the same order.
    pub judged: Vec<JudgedCredentials>,
}

/// A node of the cluster, as this node sees it.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// The node's id, 40 hexadecimal digits.
    pub id: String,
    /// The name that an operator gave the node, or else its host name; empty if the node has neither.
    pub name: Box<[u8]>,
    /// Address and port of the node for clients; empty for a node without an address.
    pub address: String,
    /// Whether the row is the server's own.
    pub is_myself: bool,
    /// Whether the node is a replica.
    pub is_replica: bool,
    /// Id of a replica's primary; empty for a primary, and for a replica whose primary is not known.
    pub primary: String,
    /// How many slots the node has.
    pub slots: u16,
    /// `ok`, `pfail` (this node gets no answer from that node) or `fail` (the cluster considers that node
    /// failed).
    pub health: &'static str,
    /// Whether this node's connection to the node's bus is open.
    pub is_linked: bool,
    /// Milliseconds since the node's last PONG; `None` if no PONG has arrived, and in the server's own row.
    pub pong_age_ms: Option<u64>,
}

/// A move of slots to or from this node.
#[derive(Clone, Debug)]
pub struct MoveRow {
    /// Whether the slots leave this node.
    pub leaves: bool,
    /// The slots, as `100-200 300-300`; cut if there are many ranges.
    pub slots: String,
    /// The other node's id; empty if unknown.
    pub node: String,
    /// State of the move, in the words of CLUSTER GETSLOTMIGRATIONS.
    pub state: &'static str,
    /// The reason of a failure; empty without one.
    pub message: String,
    /// Time of the last change of state, in seconds since the epoch.
    pub updated_s: i64,
    /// Keys and bytes so far; `None` for a move that has ended.
    pub progress: Option<MoveRowProgress>,
}

/// The progress of a move of slots.
#[derive(Clone, Copy, Debug)]
pub struct MoveRowProgress {
    /// Keys sent or received so far.
    pub keys: u64,
    /// Keys in slots whose transfer has not begun; `None` for a move to this node.
    pub keys_left: Option<u64>,
    /// Bytes sent or received so far.
    pub bytes: u64,
    /// Bytes waiting to be sent; `None` for a move to this node.
    pub bytes_left: Option<u64>,
    /// Whether clients that write to the slots wait.
    pub holds_writers: bool,
    /// Whether clients that write to the slots are slowed down.
    pub is_braked: bool,
}

/// An entry of the log of slow commands.
#[derive(Clone, Debug)]
pub struct SlowCommandRow {
    /// Number of the entry in the log.
    pub id: u64,
    /// Time of the command, in seconds since the epoch.
    pub at_s: i64,
    /// Duration of the command, in microseconds.
    pub us: i64,
    /// Name and arguments, shortened as in the log.
    pub argv: Vec<Vec<u8>>,
    /// Address of the client.
    pub address: Box<str>,
    /// Name of the client; empty if it has none.
    pub client_name: Box<[u8]>,
}

/// A connected client with its buffers and counters.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// Id of the client, as from CLIENT ID.
    pub id: u64,
    /// Address of the client.
    pub address: Box<str>,
    /// Name of the client; empty if it has none.
    pub name: Box<[u8]>,
    /// Library named by the client; empty if it has named none.
    pub library: Box<[u8]>,
    /// Name of the authenticated user.
    pub user: Box<[u8]>,
    /// Full name of the last command.
    pub command: &'static str,
    /// Flags of the client, as in CLIENT LIST.
    pub flags: String,
    /// Time since the client connected, in seconds.
    pub age_s: i64,
    /// Time since the client's last request, in seconds.
    pub idle_s: i64,
    /// Output that is not yet sent to the client, in bytes.
    pub output_bytes: usize,
    /// All memory held for the client, in bytes.
    pub held_bytes: usize,
    /// Number of commands that the client has run.
    pub commands: u64,
}

/// A frequently accessed key.
#[derive(Clone, Debug)]
pub struct HotKeyRow {
    /// Number of the database.
    pub db: usize,
    /// Name of the key.
    pub name: Box<[u8]>,
    /// Estimated accesses per second.
    pub per_second: u64,
}

/// A running script or function.
#[derive(Clone, Debug)]
pub struct ScriptRow {
    /// The SHA-1 of a script, or the name of a function.
    pub name: Box<[u8]>,
    /// Time since the script began, in ms.
    pub running_ms: u64,
}

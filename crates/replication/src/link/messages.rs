//! Inputs and outputs of a link, the state of the server that a step can see, and the types of which they
//! consist.

use sluice_base::LogLevel;

/// Address of the primary that this server follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Host name or IP address of the primary.
    pub host: String,
    /// TCP port of the primary.
    pub port: u16,
}

/// A position in a history of replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPoint {
    /// The id of the history, 40 hexadecimal digits; empty if the primary has not named it (SYNC).
    pub replid: String,
    /// Number of bytes of the history whose effects the data contain.
    pub offset: u64,
}

/// The state of the link, as ROLE reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// This server has no primary.
    #[default]
    None,
    /// The next attempt is due, or the pause before it has not ended.
    Connect,
    /// A connection is being made.
    Connecting,
    /// The handshake is under way, or the dialogue on the snapshot's own connection.
    Handshake,
    /// A snapshot is awaited, received or loaded, or the stream after it is awaited.
    Transfer,
    /// The link is up, and commands are received.
    Connected,
}

/// The user and password with which this server logs in to its primary.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// User name; `None` for a primary that has a password but no users.
    pub user: Option<&'a [u8]>,
    /// Password of the user, or the primary's only password.
    pub password: &'a [u8],
}

/// The state of the server that a step of the link can see.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The monotonic clock, ns.
    pub now_ns: u64,
    /// How long a link may be silent, ns.
    pub timeout_ns: u64,
    /// When the last bytes arrived on a connection that the link does not read itself, ns of the
    /// monotonic clock. A connection that the link does not read carries a snapshot or commands.
    pub last_activity_ns: u64,
    /// The configured credentials for the primary, if any.
    pub credentials: Option<Credentials<'a>>,
    /// The port that this server announces.
    pub port: u16,
    /// The address that this server announces; empty for none.
    pub address: &'a [u8],
    /// The id of this server as a node of a cluster; `None` without cluster mode.
    pub node_id: Option<&'a [u8]>,
    /// The server version that is announced.
    pub version: &'a str,
    /// Whether the snapshot may arrive on a connection of its own.
    pub dual_channel: bool,
    /// Whether a snapshot without a checksum is acceptable because the connection checks the data it carries.
    pub skips_checksum: bool,
    /// Capabilities that name the codecs with which the primary may compress its bytes.
    pub codecs: &'a [&'a [u8]],
    /// Whether an attempt may begin. No attempt may begin while data are being loaded, for example those of
    /// an earlier attempt.
    pub may_connect: bool,
    /// The position of the data, if the data can be brought up to date from that position.
    pub resume: Option<&'a HistoryPoint>,
}

/// The reason why a snapshot was not received or not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// The snapshot could not be received or written; the log has the reason.
    Transfer,
    /// The snapshot file has replaced the earlier file, but could not be loaded; the log has the reason.
    Load,
    /// The snapshot could not be loaded while it was received into memory; the log has the reason.
    Stream,
}

/// An event of a link. The number in a variant is the number of the attempt to which the event belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// Time has passed. The owner of the link gives this input regularly.
    Tick,
    /// The connection is established.
    Opened(u64),
    /// The connection could not be established. The text is the reason, as the operating system names it.
    Refused(u64, &'a str),
    /// Bytes arrived on the connection.
    Received(u64, &'a [u8]),
    /// The connection has ended.
    Ended(u64),
    /// Bytes arrived on the main channel while the snapshot has a connection of its own.
    MainReceived(u64, &'a [u8]),
    /// The main channel has ended, while the snapshot has a connection of its own.
    MainEnded(u64),
    /// The snapshot is complete and valid, and is durable under its temporary name.
    Saved(u64),
    /// The snapshot file is durable under its final name.
    InForce(u64),
    /// The header of a snapshot that is being received into memory is valid.
    Accepted(u64),
    /// The snapshot is loaded into the keyspace.
    Loaded(u64),
    /// The snapshot could not be received or loaded.
    Failed(u64, SyncFailure),
}

/// An output of a link; outputs are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkOutput {
    /// An output for the owner of the data, their history and the clients.
    Decision(LinkDecision),
    /// An output for the owner of the connections.
    Order(TransportOrder),
}

impl From<LinkDecision> for LinkOutput {
    fn from(decision: LinkDecision) -> LinkOutput {
        LinkOutput::Decision(decision)
    }
}

impl From<TransportOrder> for LinkOutput {
    fn from(order: TransportOrder) -> LinkOutput {
        LinkOutput::Order(order)
    }
}

/// A decision of a link about the data, their history and the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkDecision {
    /// Replace the earlier file by the saved file.
    Commit,
    /// Load the file that was committed.
    Load,
    /// The loaded data have this position, and the history of the position replaces the history known until
    /// now.
    Adopt(HistoryPoint),
    /// The data stay at their position in the history. The id is the new id of the history, if the primary
    /// has named one.
    Continue(Option<String>),
    /// The replica to which the role was to be handed over has taken the role.
    HandedOver,
    /// The replica to which the role was to be handed over refuses the role.
    NotHandedOver,
    /// Report the position of the data to the primary.
    Acknowledge,
    /// Write a line to the log.
    Log(LogLevel, String),
}

/// An order of a link to the owner of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportOrder {
    /// Make a connection for this attempt.
    Connect(u64, Primary),
    /// Keep the connection as the main channel and make another one for the snapshot. In later orders and
    /// events, "the connection" is the new connection.
    ConnectSecond(u64, Primary),
    /// Send these bytes on the connection.
    Send(Vec<u8>),
    /// Send these bytes on the main channel.
    SendMain(Vec<u8>),
    /// Buffer the bytes of the main channel, beginning with these bytes, until the snapshot is loaded.
    Buffer(Vec<u8>),
    /// Hand the connection to the receiver of the snapshot. These are the first bytes of the snapshot.
    Receive(Vec<u8>),
    /// Send the primary a sign of life during a transfer or a load.
    KeepAlive,
    /// Execute the commands that arrive on the connection. The stream begins with these bytes, or with
    /// the buffered bytes if there is a main channel.
    Stream(Vec<u8>),
    /// Close the connections of the attempt and stop its work.
    Close,
}

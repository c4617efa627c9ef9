//! What goes into a link and what comes out of it: inputs with what a step can see around it, outputs, and
//! the nouns of both.

use sluice_base::LogLevel;

/// A primary that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A position in a history of replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPoint {
    /// The id of the history, 40 hexadecimal digits; empty where the primary has not told it (SYNC).
    pub replid: String,
    /// Bytes of the history that the data have.
    pub offset: u64,
}

/// How far the link is, as ROLE tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// This server follows nobody.
    #[default]
    None,
    /// The next attempt is due, or waits for its time.
    Connect,
    /// A connection is being made.
    Connecting,
    /// Both sides introduce themselves.
    Handshake,
    /// A snapshot is received or loaded.
    Transfer,
    /// Commands are received.
    Connected,
}

/// Who this server is to its primary.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// Its user; none for a primary that knows passwords alone.
    pub user: Option<&'a [u8]>,
    /// Its password.
    pub password: &'a [u8],
}

/// What a step can see of the server around the link.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The monotonic clock, ns.
    pub now_ns: u64,
    /// How long a link may be silent, ns.
    pub timeout_ns: u64,
    /// When something was heard last on a connection that others read, ns of the monotonic clock: while a
    /// snapshot or commands are received.
    pub last_activity_ns: u64,
    /// What the primary asks for, if it does.
    pub credentials: Option<Credentials<'a>>,
    /// The port that is announced.
    pub port: u16,
    /// The address that is announced, if any.
    pub address: &'a [u8],
    /// The id of this server as a node of a cluster; none without cluster mode.
    pub node_id: Option<&'a [u8]>,
    /// The version that is announced.
    pub version: &'a str,
    /// Whether the snapshot may come on a connection of its own.
    pub dual_channel: bool,
    /// Whether a snapshot without a checksum will do, because the connection checks what it carries.
    pub skips_checksum: bool,
    /// By what the primary may compress what it sends, as capabilities.
    pub codecs: &'a [&'a [u8]],
    /// Whether an attempt may begin: not while data are loaded, which may be those of an attempt before.
    pub may_connect: bool,
    /// Where the data stand, if they can be brought up to date from there.
    pub resume: Option<&'a HistoryPoint>,
}

/// Why a snapshot was not received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// What was received, or could be written: the log has the reason.
    Transfer,
    /// The file was in force, and could not be loaded: the log has the reason.
    Load,
    /// It could not be loaded as it came: the log has the reason.
    Stream,
}

/// What happens to a link. Numbers are those of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// Time passes.
    Tick,
    /// The connection is there.
    Opened(u64),
    /// There is no connection, for this reason of the system.
    Refused(u64, &'a str),
    /// Bytes came.
    Received(u64, &'a [u8]),
    /// The connection has ended.
    Ended(u64),
    /// Bytes came on the main channel, while the snapshot has a connection of its own.
    MainReceived(u64, &'a [u8]),
    /// The main channel has ended, while the snapshot has a connection of its own.
    MainEnded(u64),
    /// The snapshot was received whole, judged good, and is durable under its temporary name.
    Saved(u64),
    /// It has its name, and is durable under it.
    InForce(u64),
    /// The snapshot is received into memory, and its header was judged good.
    Accepted(u64),
    /// It was loaded.
    Loaded(u64),
    /// There is no snapshot.
    Failed(u64, SyncFailure),
}

/// What a link wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkOutput {
    /// By whoever has the data, their history and the clients.
    Decision(LinkDecision),
    /// By whoever has the connections.
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

/// What a link has decided about data, their history and clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkDecision {
    /// Put the file that was saved in the place of the one before.
    Commit,
    /// Load it.
    Load,
    /// The data stand at this point of that history, which replaces all that was known.
    Adopt(HistoryPoint),
    /// The data go on in the history where they stand, which has this id from now on, if another.
    Continue(Option<String>),
    /// The replica to which the role was to be handed over has taken it.
    HandedOver,
    /// It has not.
    NotHandedOver,
    /// Tell the primary how far the data are.
    Acknowledge,
    /// Write a line to the log.
    Log(LogLevel, String),
}

/// What a link orders of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportOrder {
    /// Make a connection for this attempt.
    Connect(u64, Primary),
    /// Keep the connection as the main channel, and make another for the snapshot: what is said of a
    /// connection from now on is of that.
    ConnectSecond(u64, Primary),
    /// Send this.
    Send(Vec<u8>),
    /// Send this on the main channel.
    SendMain(Vec<u8>),
    /// Keep what comes on the main channel until the snapshot is loaded: these bytes first.
    Buffer(Vec<u8>),
    /// Give the connection to what receives a snapshot: these bytes of it have come already.
    Receive(Vec<u8>),
    /// Let the primary know that this server lives: it loads.
    KeepAlive,
    /// Execute what comes on the connection: these bytes first, or what was buffered of the main channel.
    Stream(Vec<u8>),
    /// Give up the connection and whatever works for it.
    Close,
}

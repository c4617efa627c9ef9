//! Atomic moves of slots (section 6 of the specification of the slots): jobs as one side of them sees them.
//!
//! On the target `establish.rs` says whether a move may begin, and `import.rs` carries it out; on the source
//! `export.rs` does both; `contested.rs` keeps slots whose source has not heard of the claim. Keys and
//! connections are the caller's: of the machine a job learns what the other side has said, how far the stream
//! is, and that its connection has ended; it asks for words to be sent, for a connection to be opened or
//! closed, for a stream, for writes to be held back, for keys to be deleted.
//!
//! Invariants: (1) a slot belongs to at most one job that is not finished; (2) a job that has claimed its
//! slots ends with success if they are still this node's when the file is durable, whatever becomes of its
//! connection; (3) a job that fails is finished when the keys of its slots are gone, and no earlier.

pub(crate) mod contested;
pub(crate) mod convergence;
pub(crate) mod establish;
pub(crate) mod export;
pub(crate) mod export_job;
pub(crate) mod import;
pub(crate) mod job;
pub(crate) mod kept;
pub(crate) mod log;

use crate::address::IpText;
use crate::id::{ID_LEN, NodeId};
use crate::node::Ms;
use crate::slots::HashSlot;
use std::fmt;

/// What operators are shown of a move whose other end was silent for `repl-timeout`.
pub const MOVE_TIMED_OUT: &str = "Timed out after too long with no interaction";

/// The name of a job: 40 bytes that the source has drawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobName(pub [u8; ID_LEN]);

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A move to this shard, as ESTABLISH describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// The name.
    pub name: JobName,
    /// The node that the slots come from; none where only the move's two ends are heard of.
    pub source: Option<NodeId>,
    /// The first and the last slot of each range, in the order in which they were named. No slot stands in
    /// two.
    pub ranges: Box<[(HashSlot, HashSlot)]>,
}

impl SlotMove {
    /// The slots.
    pub fn slots(&self) -> impl Iterator<Item = HashSlot> + '_ {
        let numbers = self.ranges.iter().flat_map(|(first, last)| first.number()..=last.number());
        numbers.filter_map(HashSlot::new)
    }
}

/// One group of MIGRATESLOTS: ranges, and the node that they go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsToMove {
    /// The first and the last slot of each range, as they were named. No slot stands in two.
    pub ranges: Box<[(HashSlot, HashSlot)]>,
    /// The target.
    pub target: NodeId,
}

/// How far the connection of an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
// Names say all.
#[allow(missing_docs)]
pub enum ExportHandshake {
    Connecting,
    SendingAuthCommand,
    ReadingAuthResponse,
    SendingEstablishCommand,
    ReadingEstablishResponse,
}

/// What the two sides of a job say to each other, beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum SyncWord {
    Ack,
    SnapshotEof,
    RequestPause,
    Paused,
    RequestFailover,
    FailoverGranted,
    /// The target does not take the slots over, though they may have been granted. Only Sluice sends it, as
    /// it closes the connection of a job while the source holds writers back.
    Refused,
    /// Any other.
    Unknown,
}

impl SyncWord {
    const KNOWN: [(SyncWord, &str); 7] = [
        (SyncWord::Ack, "ACK"),
        (SyncWord::SnapshotEof, "SNAPSHOT-EOF"),
        (SyncWord::RequestPause, "REQUEST-PAUSE"),
        (SyncWord::Paused, "PAUSED"),
        (SyncWord::RequestFailover, "REQUEST-FAILOVER"),
        (SyncWord::FailoverGranted, "FAILOVER-GRANTED"),
        (SyncWord::Refused, "REFUSED"),
    ];

    /// The word of a command.
    pub fn parse(text: &[u8]) -> SyncWord {
        let known = SyncWord::KNOWN.iter().find(|(_, known)| text.eq_ignore_ascii_case(known.as_bytes()));
        known.map_or(SyncWord::Unknown, |(word, _)| *word)
    }

    /// The word as it is sent.
    pub fn text(self) -> &'static str {
        SyncWord::KNOWN.iter().find(|(word, _)| *word == self).map_or("", |(_, text)| *text)
    }
}

/// Why a command of a job's connection was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFault {
    /// There is not enough memory.
    OutOfMemory,
    /// A replica that may take this node's place did not acknowledge in time what came ahead of the end.
    ReplicasBehind,
    /// Any other error.
    Refused,
}

/// What happens to moves.
#[derive(Clone, Copy, Debug)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum MigrationInput<'a> {
    /// The source has established a job, which `Cluster::may_import` allows; its slots have no keys here.
    Established(&'a SlotMove),
    /// The other side has said something. What it sent before has been executed.
    Said { job: JobName, word: SyncWord },
    /// MIGRATESLOTS of a client: slots that `Cluster::may_export` allows, no two groups with one in common.
    Begin { client: &'a str, groups: &'a [SlotsToMove] },
    /// CANCELSLOTMIGRATIONS of a client. A move whose target may own its slots already goes on to its end.
    Cancel { client: &'a str },
    /// A move from this node goes on.
    Export { job: JobName, input: ExportInput<'a> },
    /// A command of the source was not executed.
    Faulted { job: JobName, fault: ImportFault },
    /// Bytes of the source came last at this time. Told ahead of a tick.
    Heard { job: JobName, at: Ms },
    /// The connection of the job has ended.
    LinkLost { job: JobName },
    /// All keys of a database were deleted.
    Flushed,
    /// A client has deleted all keys of a slot.
    SlotFlushed(HashSlot),
    /// Other data take the place of these.
    DataReplaced,
    /// The primary of this node, a log or a file tells of a move.
    Told { job: &'a SlotMove, from: ToldBy },
    /// The primary of this node, or a log, tells of a move's end.
    ToldEnd { job: JobName, success: bool, message: &'a [u8] },
    /// A move that this node was told of cannot go on, because this node is the primary now.
    Abandoned { job: &'a SlotMove, why: &'static str },
    /// The keys of a failed job are gone, and its slots are shown.
    CleanedUp { job: JobName },
}

/// What the connection and the stream of a move from this node have come to.
#[derive(Clone, Copy, Debug)]
pub enum ExportInput<'a> {
    /// The connection is so far.
    Handshake(ExportHandshake),
    /// There is no connection with the target, or the target refuses the move: what is shown of it.
    NotConnected(&'a str),
    /// The target has answered ESTABLISH with OK.
    Established,
    /// The image of the slots is on its way, as are writes from now on.
    StreamBegan,
    /// All keys of the image stand in the stream, and SNAPSHOT-EOF after them.
    ImageSent,
    /// The stream cannot begin, or cannot go on: why.
    StreamBroke(&'a str),
    /// Writes to the slots are held back, and the stream has all before and PAUSED; so many bytes are left to
    /// be sent.
    Held {
        /// Bytes, as `remaining_repl_size` counts them.
        left: u64,
    },
}

/// Who tells of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// A stream or a log: the move is the newest.
    Command,
    /// A snapshot, which is older than what this node remembers.
    Snapshot,
}

/// What a move needs of the rest of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum MigrationOrder {
    /// Send a word to the other side, when everything that its connection has sent so far is as durable as
    /// the answers of clients are.
    Say { job: JobName, word: SyncWord },
    /// Close the connection of a job. No input is owed for it.
    Close { job: JobName },
    /// Tell the source [`SyncWord::Refused`], and close the connection of a job.
    Refuse { job: JobName },
    /// Delete the keys of a failed job in slots that this node does not own; the end is
    /// [`MigrationInput::CleanedUp`].
    CleanUp { job: JobName, why: &'static str },
    /// Connect with the target of a move, say who this is, and ask to move the slots; what comes of it is
    /// told by [`ExportInput`].
    Connect { job: JobName, ip: IpText, port: u16 },
    /// Stream the slots of a move: their image, and all writes to them.
    Stream { job: JobName },
    /// Hold back writes to the slots of a move as soon as little is left to be sent; the end is
    /// [`ExportInput::Held`]. Said again it changes nothing.
    Hold { job: JobName },
    /// A move from this node has ended, and the map is that of after: no more is streamed or held back, and
    /// the connection closes. No input is owed for it.
    EndExport { job: JobName },
    /// Show the slots of a job: they are this node's. Replicas and the log are told.
    Show { job: JobName },
}

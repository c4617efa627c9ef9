//! Atomic moves of slots (section 6 of the specification of the slots): the state of each job (the move of
//! some slots) on its source and on its target.
//!
//! On the target `establish.rs` decides whether a move may begin, and `import.rs` carries it out; on the
//! source `export.rs` does both. `contested.rs` defends slots that this node has claimed while their source
//! does not know of the claim yet. Keys and connections belong to the caller. The caller reports events such
//! as the other side's messages and the end of the connection as [`MigrationInput`], and carries out the
//! orders of [`MigrationOrder`], such as sending a message, holding back writes and deleting keys.
//!
//! Invariants: (1) a slot belongs to at most one job that is not finished; (2) a job that has claimed its
//! slots succeeds if this node still owns them when the file is durable, whatever happens to its connection;
//! (3) a failed import of this node is not finished before the keys of its slots are deleted, or all data are
//! replaced.

pub(crate) mod contested;
pub(crate) mod convergence;
pub(crate) mod establish;
pub(crate) mod export;
pub(crate) mod export_job;
pub(crate) mod held;
pub(crate) mod import;
pub(crate) mod job;
pub(crate) mod log;

use crate::address::IpText;
use crate::id::{ID_LEN, NodeId};
use crate::node::Ms;
use crate::slots::HashSlot;
use std::fmt;

/// The message shown for a move that failed because the target received nothing, or the source received no
/// ACK, for `repl-timeout`.
pub const MOVE_TIMED_OUT: &str = "Timed out after too long with no interaction";

/// The name of a job: 40 bytes that the source draws at random.
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

/// The name, source and slots of a move, as ESTABLISH describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// The job's name, drawn by its source.
    pub name: JobName,
    /// The node that the slots come from; `None` if that is this node, or if this node only has another
    /// node's report of the move.
    pub source: Option<NodeId>,
    /// The first and the last slot of each range, in the order of the command. No slot is in two ranges.
    pub ranges: Box<[(HashSlot, HashSlot)]>,
}

impl SlotMove {
    /// The slots of all ranges.
    pub fn slots(&self) -> impl Iterator<Item = HashSlot> + '_ {
        let numbers = self.ranges.iter().flat_map(|(first, last)| first.number()..=last.number());
        numbers.filter_map(HashSlot::new)
    }
}

/// One group of MIGRATESLOTS: ranges, and the node that they move to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsToMove {
    /// The first and the last slot of each range, in the order of the command. No slot is in two ranges.
    pub ranges: Box<[(HashSlot, HashSlot)]>,
    /// The node that is to own the slots.
    pub target: NodeId,
}

/// Progress of an export's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ExportHandshake {
    Connecting,
    SendingAuthCommand,
    ReadingAuthResponse,
    SendingEstablishCommand,
    ReadingEstablishResponse,
}

/// The messages that the two sides of a job exchange, in addition to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum SyncMessage {
    Ack,
    SnapshotEof,
    RequestPause,
    Paused,
    RequestFailover,
    FailoverGranted,
    /// The target does not take the slots over, although they may have been granted. Only Sluice sends
    /// this message, when it closes a job's connection while the source holds writes back.
    Refused,
    /// Any other word, which a newer version may send.
    Unknown,
}

impl SyncMessage {
    const KNOWN: [(SyncMessage, &str); 7] = [
        (SyncMessage::Ack, "ACK"),
        (SyncMessage::SnapshotEof, "SNAPSHOT-EOF"),
        (SyncMessage::RequestPause, "REQUEST-PAUSE"),
        (SyncMessage::Paused, "PAUSED"),
        (SyncMessage::RequestFailover, "REQUEST-FAILOVER"),
        (SyncMessage::FailoverGranted, "FAILOVER-GRANTED"),
        (SyncMessage::Refused, "REFUSED"),
    ];

    /// The message with this name; `Unknown` for any other text.
    pub fn parse(text: &[u8]) -> SyncMessage {
        let known = SyncMessage::KNOWN.iter().find(|(_, known)| text.eq_ignore_ascii_case(known.as_bytes()));
        known.map_or(SyncMessage::Unknown, |(word, _)| *word)
    }

    /// The message's name on the connection; empty for `Unknown`.
    pub fn text(self) -> &'static str {
        SyncMessage::KNOWN.iter().find(|(word, _)| *word == self).map_or("", |(_, text)| *text)
    }
}

/// The reason why this node, the target of a job, cannot continue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFault {
    /// This node is out of memory.
    OutOfMemory,
    /// A replica that may be elected in this node's place did not acknowledge the preceding data in time.
    ReplicasBehind,
    /// A command of the source failed with another error.
    Refused,
}

/// Events of atomic moves.
#[derive(Clone, Copy, Debug)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum MigrationInput<'a> {
    /// The source has established a job that `Cluster::may_import` allows; its slots have no keys here.
    Established(&'a SlotMove),
    /// A message of the other side has arrived; all data before it have been executed.
    Said { job: JobName, word: SyncMessage },
    /// MIGRATESLOTS of a client: slots that `Cluster::may_export` allows, no slot in two groups.
    Begin { client: &'a str, groups: &'a [SlotsToMove] },
    /// CANCELSLOTMIGRATIONS of a client. A move whose target may already own its slots continues.
    Cancel { client: &'a str },
    /// The connection or the stream of a move from this node has made progress.
    Export { job: JobName, input: ExportInput<'a> },
    /// A command of the source could not be executed, or replicas did not acknowledge in time.
    Faulted { job: JobName, fault: ImportFault },
    /// The time when the source last sent bytes. Sent before a tick.
    Heard { job: JobName, at: Ms },
    /// The connection of the job has ended.
    LinkLost { job: JobName },
    /// All keys of a database were deleted.
    Flushed,
    /// A client has deleted all keys of a slot.
    SlotFlushed(HashSlot),
    /// The data of this node are replaced by other data.
    DataReplaced,
    /// The primary of this node, an append-only file or a snapshot reports a move.
    Reported { job: &'a SlotMove, from: ReportSource },
    /// The primary of this node, or an append-only file, reports the end of a move.
    ReportedEnd { job: JobName, success: bool, message: &'a [u8] },
    /// A reported move cannot continue, because this node has become the primary.
    Abandoned { job: &'a SlotMove, why: &'static str },
    /// The keys of a failed job are deleted, and its slots are visible again.
    CleanedUp { job: JobName },
}

/// Progress of the connection and the stream of a move from this node.
#[derive(Clone, Copy, Debug)]
pub enum ExportInput<'a> {
    /// The connection has reached this step.
    Handshake(ExportHandshake),
    /// The connection failed, or the target refuses the move; the text is shown for the job.
    NotConnected(&'a str),
    /// The target has answered ESTABLISH with OK.
    Established,
    /// The snapshot of the slots is being sent, with all later writes after it.
    StreamBegan,
    /// All keys of the snapshot are in the stream, followed by SNAPSHOT-EOF.
    ImageSent,
    /// The stream cannot begin or continue, for this reason.
    StreamBroke(&'a str),
    /// Writes to the slots are held back; the stream has all earlier writes and PAUSED. `left` bytes are
    /// not sent yet.
    Held {
        /// Unsent bytes, as `remaining_repl_size` counts them.
        left: u64,
    },
}

/// The origin of a report about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportSource {
    /// The replication stream or an append-only file. The move is newer than all moves that this node
    /// remembers.
    Command,
    /// A snapshot. The move is older than all moves that this node remembers.
    Snapshot,
}

/// Requests of the state machine to the host in an atomic move.
#[derive(Clone, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum MigrationOrder {
    /// Send a message to the other side, as soon as the commands received on its connection so far are as
    /// durable as commands must be before clients get replies. A message of a target, other than ACK, also
    /// waits for the target's replicas (see `held.rs`).
    Say { job: JobName, word: SyncMessage },
    /// Close the connection of a job. No input reports the end.
    Close { job: JobName },
    /// Send [`SyncMessage::Refused`] to the source, and close the connection of the job.
    Refuse { job: JobName },
    /// Delete the keys of a failed job in slots that this node does not own;
    /// [`MigrationInput::CleanedUp`] follows.
    CleanUp { job: JobName, why: &'static str },
    /// Connect to the target of a move, introduce this node and establish the move; [`ExportInput`]
    /// reports the progress.
    Connect { job: JobName, ip: IpText, port: u16 },
    /// Stream the slots of a move: a snapshot of them, and all writes after it.
    Stream { job: JobName },
    /// Hold back writes to the slots of a move as soon as few bytes are unsent; [`ExportInput::Held`]
    /// follows. A repetition changes nothing.
    Hold { job: JobName },
    /// A move from this node has ended, and the current map shows the result: stop its stream, let held
    /// writes continue, and close the connection. No input reports the end.
    EndExport { job: JobName },
    /// Make the keys of a job's slots visible, because this node owns the slots now, and report that to
    /// replicas and in the append-only file.
    Show { job: JobName },
}

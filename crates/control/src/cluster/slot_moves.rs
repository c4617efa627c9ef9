//! Atomic moves of slots to and from this node, as far as connections have a part in them: which one belongs
//! to which job, and which clients wait for a job to begin. The jobs themselves are in the node's machine.
//!
//! Invariant: a job has at most one connection, and a session belongs to at most one job.

use crate::cluster::exports::ExportId;
use sluice_base::SessionKey;
use sluice_cluster::{HashSlot, JobName, KeptWord, NodeId, SlotMove, SlotSet, Ticket};
use sluice_keyspace::SlotImport;
use sluice_session::Session;

/// Connections of moves of slots.
#[derive(Debug, Default)]
pub struct SlotMoves {
    /// Clients whose ESTABLISH is right, and waits until their slots have no keys of before (G-16).
    pub establishing: Vec<Establishing>,
    /// Connections of jobs that have begun.
    pub links: Vec<ImportLink>,
    /// Moves from this node.
    pub exports: Vec<ExportLink>,
    /// Bytes that connections of moves have carried, for INFO: at most a cron old.
    pub carried: CarriedBytes,
}

impl SlotMoves {
    /// Whether a move to or from this node has a connection.
    pub fn are_under_way(&self) -> bool {
        !self.links.is_empty() || !self.exports.is_empty()
    }
}

/// Bytes that came by the connections of moves to this node, and left by those of moves from here.
#[derive(Clone, Copy, Debug, Default)]
pub struct CarriedBytes {
    /// Received.
    pub imported: u64,
    /// Sent.
    pub exported: u64,
}

/// A move from this node: its connection and its stream.
#[derive(Debug)]
pub struct ExportLink {
    /// The job.
    pub job: JobName,
    /// The session of the target; none while the connection is made.
    pub session: Option<SessionKey>,
    /// The stream; none before the target has agreed.
    pub stream: Option<ExportId>,
    /// The target.
    pub target: NodeId,
    /// The slots as clients are told them: `1,5-9`.
    pub shown_slots: String,
    /// The id under which clients were told that the slots are on their way; none before.
    pub told_as: Option<i64>,
    /// Bytes sent that are counted already.
    pub sent_bytes: u64,
}

impl ExportLink {
    /// A move whose connection is to be made.
    pub fn new(job: JobName, target: NodeId, shown_slots: String) -> ExportLink {
        ExportLink { job, session: None, stream: None, target, shown_slots, told_as: None, sent_bytes: 0 }
    }
}

/// A connection that is to be made with the target of a move from this node.
#[derive(Clone, Debug)]
pub struct ExportTarget {
    /// The job.
    pub job: JobName,
    /// The target's address.
    pub host: String,
    /// The port for clients there.
    pub port: u16,
    /// AUTH, as it is sent; none where no password is needed.
    pub auth: Option<Vec<u8>>,
    /// ESTABLISH, as it is sent.
    pub establish: Vec<u8>,
}

/// A client that waits for its job to begin.
#[derive(Debug)]
pub struct Establishing {
    /// The command that is to be answered.
    pub ticket: Ticket,
    /// The client.
    pub client: SessionKey,
    /// The job.
    pub job: SlotMove,
}

/// The connection of a job.
#[derive(Debug)]
pub struct ImportLink {
    /// The session of the source.
    pub session: SessionKey,
    /// The job.
    pub job: JobName,
    /// The slots of the job: the source writes to no others.
    pub slots: Box<SlotSet>,
    /// Bytes that had come when the machine was told last that the source is heard; they are counted.
    pub heard_bytes: u64,
    /// A word that waits for the replicas.
    pub kept: Option<KeptWord>,
    /// Replicas that had acknowledged what had come when the source was asked to hold writes back.
    pub in_sync: Vec<NodeId>,
}

impl SlotMoves {
    /// Counts what has come by the connection of this number among `links`, which is this session; whether
    /// anything has.
    pub fn note_heard(&mut self, at: usize, session: &Session) -> bool {
        let Some(link) = self.links.get_mut(at) else { return false };
        let now = session.caller.traffic.net_in;
        let before = std::mem::replace(&mut link.heard_bytes, now);
        self.carried.imported += now.saturating_sub(before);
        now != before
    }

    /// Counts what has left by the connection of this number among `exports`, which is this session.
    pub fn note_sent(&mut self, at: usize, session: &Session) {
        let Some(link) = self.exports.get_mut(at) else { return };
        let now = session.caller.traffic.net_out;
        self.carried.exported += now.saturating_sub(std::mem::replace(&mut link.sent_bytes, now));
    }

    /// The job of a session. Cost: a look at each connection, of which there are as many as sources.
    pub fn link(&self, session: SessionKey) -> Option<&ImportLink> {
        self.links.iter().find(|link| link.session == session)
    }

    /// The move from this node whose target has this session.
    pub(crate) fn export_of(&self, session: SessionKey) -> Option<&ExportLink> {
        self.exports.iter().find(|link| link.session == Some(session))
    }

    /// The move from this node of this name.
    pub fn export(&mut self, job: JobName) -> Option<&mut ExportLink> {
        self.exports.iter_mut().find(|link| link.job == job)
    }
}

/// A move as the keyspace knows it.
pub fn import_of(job: &SlotMove) -> SlotImport {
    let ranges = job.ranges.iter().map(|(first, last)| (first.number(), last.number()));
    SlotImport {
        name: job.name.0,
        source: job.source.map(|source| *source.as_bytes()),
        ranges: ranges.collect(),
    }
}

/// A move that the keyspace knows of. Its source is not this node's affair.
pub fn move_of(import: &SlotImport) -> SlotMove {
    let range = |(first, last): &(u16, u16)| HashSlot::new(*first).zip(HashSlot::new(*last));
    SlotMove {
        name: JobName(import.name),
        source: import.source.and_then(|source| NodeId::parse(&source)),
        ranges: import.ranges.iter().filter_map(range).collect(),
    }
}

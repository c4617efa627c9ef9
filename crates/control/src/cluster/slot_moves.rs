//! Connections of slot migrations to and from this node: the connection of each job, and the clients that
//! wait for a job to begin. The jobs, which are the migrations themselves, are in the node's state machine.
//!
//! Invariant: a job has at most one connection, and a session belongs to at most one job.

use crate::cluster::exports::ExportId;
use sluice_base::SessionKey;
use sluice_cluster::{HashSlot, HeldMessage, JobName, NodeId, SlotMove, SlotSet, Ticket};
use sluice_keyspace::SlotImport;
use sluice_session::Session;

/// The connections of slot migrations.
#[derive(Debug, Default)]
pub struct SlotMoves {
    /// Clients whose ESTABLISH was accepted and waits until old keys in the slots are deleted (G-16).
    pub establishing: Vec<Establishing>,
    /// Connections of imports that have begun.
    pub links: Vec<ImportLink>,
    /// Exports with their connections.
    pub exports: Vec<ExportLink>,
    /// Bytes transferred by migrations, for INFO; updated at least every cron.
    pub carried: CarriedBytes,
}

impl SlotMoves {
    /// Whether an import or export of this node is in progress; the connection of an export may still be
    /// missing.
    pub fn are_under_way(&self) -> bool {
        !self.links.is_empty() || !self.exports.is_empty()
    }
}

/// Bytes received by imports and sent by exports.
#[derive(Clone, Copy, Debug, Default)]
pub struct CarriedBytes {
    /// Bytes received by imports.
    pub imported: u64,
    /// Bytes sent by exports.
    pub exported: u64,
}

/// An export: its connection and its stream.
#[derive(Debug)]
pub struct ExportLink {
    /// The job in the node's machine.
    pub job: JobName,
    /// The session of the target; `None` while the connection is being made, and after its loss.
    pub session: Option<SessionKey>,
    /// The stream; `None` until the target has agreed.
    pub stream: Option<ExportId>,
    /// The node that receives the slots.
    pub target: NodeId,
    /// The slots in the text for clients: `1,5-9`.
    pub shown_slots: String,
    /// The id of the notification that informs clients of the move of the slots; `None` before the
    /// notification is sent.
    pub told_as: Option<i64>,
    /// Bytes sent that are already included in [`SlotMoves::carried`].
    pub sent_bytes: u64,
}

impl ExportLink {
    /// An export whose connection is still to be made.
    pub fn new(job: JobName, target: NodeId, shown_slots: String) -> ExportLink {
        ExportLink { job, session: None, stream: None, target, shown_slots, told_as: None, sent_bytes: 0 }
    }
}

/// The data for connecting to the target of an export.
#[derive(Clone, Debug)]
pub struct ExportTarget {
    /// The job that the connection is for.
    pub job: JobName,
    /// IP address or host name of the target.
    pub host: String,
    /// The target's port for clients.
    pub port: u16,
    /// The encoded AUTH command; `None` if no password is needed.
    pub auth: Option<Vec<u8>>,
    /// The encoded ESTABLISH command.
    pub establish: Vec<u8>,
}

/// A client that waits for its job to begin.
#[derive(Debug)]
pub struct Establishing {
    /// Identifies the command to answer.
    pub ticket: Ticket,
    /// The session that sent ESTABLISH.
    pub client: SessionKey,
    /// The job to begin.
    pub job: SlotMove,
}

/// The connection of an import.
#[derive(Debug)]
pub struct ImportLink {
    /// The session of the source node.
    pub session: SessionKey,
    /// The job in the node's machine.
    pub job: JobName,
    /// The slots of the job: the source writes to no others.
    pub slots: Box<SlotSet>,
    /// Bytes that had been received when the machine was last informed of the source's activity; they are
    /// already included in [`SlotMoves::carried`].
    pub heard_bytes: u64,
    /// A protocol message to the source that is sent when the replicas have acknowledged the data received so
    /// far.
    pub kept: Option<HeldMessage>,
    /// Replicas that had acknowledged all received data when the source was asked to hold writes.
    pub in_sync: Vec<NodeId>,
}

impl SlotMoves {
    /// Counts the bytes received by `links[at]`, whose session is `session`. Returns whether there are any.
    pub fn note_heard(&mut self, at: usize, session: &Session) -> bool {
        let Some(link) = self.links.get_mut(at) else { return false };
        let now = session.caller.traffic.net_in;
        let before = std::mem::replace(&mut link.heard_bytes, now);
        self.carried.imported += now.saturating_sub(before);
        now != before
    }

    /// Counts the bytes sent by `exports[at]`, whose session is `session`.
    pub fn note_sent(&mut self, at: usize, session: &Session) {
        let Some(link) = self.exports.get_mut(at) else { return };
        let now = session.caller.traffic.net_out;
        self.carried.exported += now.saturating_sub(std::mem::replace(&mut link.sent_bytes, now));
    }

    /// The import of a session. Cost: O(imports).
    pub fn link(&self, session: SessionKey) -> Option<&ImportLink> {
        self.links.iter().find(|link| link.session == session)
    }

    /// The export whose target has this session.
    pub(crate) fn export_of(&self, session: SessionKey) -> Option<&ExportLink> {
        self.exports.iter().find(|link| link.session == Some(session))
    }

    /// The export of this job.
    pub fn export(&mut self, job: JobName) -> Option<&mut ExportLink> {
        self.exports.iter_mut().find(|link| link.job == job)
    }
}

/// The job of an import in the form that the keyspace stores.
pub fn import_of(job: &SlotMove) -> SlotImport {
    let ranges = job.ranges.iter().map(|(first, last)| (first.number(), last.number()));
    SlotImport {
        name: job.name.0,
        source: job.source.map(|source| *source.as_bytes()),
        ranges: ranges.collect(),
    }
}

/// The job of an import that the keyspace stores.
pub fn move_of(import: &SlotImport) -> SlotMove {
    let range = |(first, last): &(u16, u16)| HashSlot::new(*first).zip(HashSlot::new(*last));
    SlotMove {
        name: JobName(import.name),
        source: import.source.and_then(|source| NodeId::parse(&source)),
        ranges: import.ranges.iter().filter_map(range).collect(),
    }
}

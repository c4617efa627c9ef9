//! Atomic moves of slots to and from this node, as far as connections have a part in them: which one belongs to
//! which job, and who waits for a job to begin. The jobs themselves are in the node's machine.
//!
//! Invariant: a job has at most one connection, and a session belongs to at most one job.

use crate::Control;
use crate::cluster::exports::ExportId;
use crate::cluster::mode::ClusterMode;
use crate::process::Process;
use sluice_base::{LogLevel, Now, SessionKey};
use sluice_cluster::{
    ClusterInput, HashSlot, ImportFault, JobName, MigrationInput, NodeId, SlotMove, SlotSet, SyncWord, Ticket,
};
use sluice_commands::CmdError;
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
}

impl SlotMoves {
    /// The job of a session. Cost: a look at each connection, of which there are as many as sources.
    pub fn link(&self, session: SessionKey) -> Option<&ImportLink> {
        self.links.iter().find(|link| link.session == session)
    }

    /// The move from this node whose target has this session.
    pub fn export_of(&self, session: SessionKey) -> Option<&ExportLink> {
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

impl Control {
    /// A command of the source of a move has failed here: the job does, too.
    #[cold]
    pub fn fail_import_of(&mut self, session: &Session, error: &CmdError, process: &mut dyn Process) {
        let Some(mode) = self.cluster.as_deref_mut() else { return };
        let Some(job) = mode.moves.link(session.key).map(|link| link.job) else { return };
        let text = error.wire();
        let line = format!(
            "== CRITICAL == This slot-import-target is sending an error to its slot-import-source: '{}' after processing the \
             command '{}'",
            text[..text.len().min(ERROR_SHOWN_BYTES)].escape_ascii(),
            session.caller.last_command.map_or("<unknown>", |spec| spec.full_name)
        );
        process.log(LogLevel::Warning, &line);
        let fault = if text.starts_with(b"OOM ") { ImportFault::OutOfMemory } else { ImportFault::Refused };
        let input = MigrationInput::Faulted { job, fault };
        mode.machine.step(process.recent(), &ClusterInput::Migration(input));
        self.clients.blocking.node_has_decided();
    }

    /// The target of a move from this node has said what does not belong there.
    #[cold]
    pub fn fail_export_of(&mut self, session: SessionKey, process: &mut dyn Process) {
        let Some(mode) = self.cluster.as_deref_mut() else { return };
        let Some(job) = mode.moves.export_of(session).map(|link| link.job) else { return };
        let input = MigrationInput::Said { job, word: SyncWord::Unknown };
        mode.machine.step(process.recent(), &ClusterInput::Migration(input));
        self.clients.blocking.node_has_decided();
    }

    /// A database was emptied: keys of moves are gone.
    pub fn fail_flushed_moves(&mut self, now: Now) {
        let is_moving = |mode: &&mut ClusterMode| !mode.moves.links.is_empty() || !mode.moves.exports.is_empty();
        let Some(mode) = self.cluster.as_deref_mut().filter(is_moving) else { return };
        mode.machine.step(now, &ClusterInput::Migration(MigrationInput::Flushed));
        self.clients.blocking.node_has_decided();
    }

    /// Other data take the place of these, and moves that were under way are over.
    pub(crate) fn forget_slot_moves(&mut self, now: Now) {
        let Some(mode) = self.cluster.as_deref_mut() else { return };
        mode.machine.step(now, &ClusterInput::Migration(MigrationInput::DataReplaced));
        mode.emptying.failed_imports.clear();
        self.clients.blocking.node_has_decided();
    }

    /// The connection of a move from this node has ended.
    pub fn lose_export_link(&mut self, session: SessionKey, process: &mut dyn Process) {
        let Some(mode) = self.cluster.as_deref_mut() else { return };
        let lost = mode.moves.exports.iter_mut().find(|link| link.session == Some(session));
        let Some(link) = lost else { return };
        link.session = None;
        let input = MigrationInput::LinkLost { job: link.job };
        mode.machine.step(process.recent(), &ClusterInput::Migration(input));
        self.clients.blocking.node_has_decided();
    }

    /// The connection of a move to this node has ended.
    pub fn lose_import_link(&mut self, session: SessionKey, process: &mut dyn Process) {
        let Some(mode) = self.cluster.as_deref_mut() else { return };
        let Some(at) = mode.moves.links.iter().position(|link| link.session == session) else { return };
        let job = mode.moves.links.swap_remove(at).job;
        self.epoch.advance();
        let input = MigrationInput::LinkLost { job };
        mode.machine.step(process.recent(), &ClusterInput::Migration(input));
        self.clients.blocking.node_has_decided();
    }
}

/// Bytes of an error that the log shows.
const ERROR_SHOWN_BYTES: usize = 4096;

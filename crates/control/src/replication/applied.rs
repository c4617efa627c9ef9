//! The consequences of a command from the primary that this replica has executed, does not know, or has
//! failed to execute.

use crate::cluster::move_ends::{fail_export_of, fail_import_of};
use crate::process::Process;
use crate::{Control, ReplicationState};
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::mistake::{self, Mistake};
use sluice_command::Spec;
use sluice_command::specs::{connection, transactions};
use sluice_commands::{Args, CmdError};
use sluice_replication::HistoryPoint;
use sluice_resp::Request;
use sluice_resp::command::push_command;
use sluice_session::{Closing, Session};

impl ReplicationState {
    /// Clears the link's session, which has ended.
    pub fn forget_link_session(&mut self, key: SessionKey) {
        if let Some(role) = self.replica.quietly().as_mut()
            && role.session == Some(key)
        {
            role.session = None;
            role.uncounted = Vec::new();
            role.asks_ack = false;
        }
    }

    /// Logs a command of the primary that this version does not know, once for each of the first
    /// `DROPPED_NAMES_MAX` names.
    #[cold]
    pub fn note_dropped(&mut self, args: Args<'_>, process: &mut dyn Process) {
        let Some(role) = self.replica.quietly().as_mut() else { return };
        let name = &args.at(0)[..args.at(0).len().min(DROPPED_BYTES_MAX)];
        if role.dropped.len() < DROPPED_NAMES_MAX && role.dropped.insert(name.to_ascii_uppercase()) {
            let name = name.escape_ascii();
            let text = format!(
                "== CRITICAL == The primary has sent '{name}', which this version does not know: such commands \
                 are dropped, and the data differ from the primary's from now on. Upgrade this replica"
            );
            process.log(LogLevel::Warning, &text);
        }
    }

    /// The position of the data in the history, if the data can be updated from there.
    pub fn resume_point(&self) -> Option<HistoryPoint> {
        let stream = &self.stream;
        self.replica
            .as_ref()
            .filter(|role| role.can_resume)
            .map(|_| HistoryPoint { replid: stream.replid.clone(), offset: stream.offset })
    }
}

impl Control {
    /// Handles the failure of a command. If it is from the primary, the data may differ from the primary's
    /// from now on: the failure is logged, and the link is cut if later commands in the stream depend on the
    /// command, or if this server lacks a database that the command names. A failure on the connection of a
    /// slot migration fails the migration. For other clients this function does nothing.
    #[cold]
    pub fn note_divergence(
        &mut self,
        session: &mut Session,
        spec: &Spec,
        error: &CmdError,
        process: &mut dyn Process,
    ) {
        if session.caller.is_import() {
            return fail_import_of(self, session, error, process);
        }
        if session.caller.is_export() {
            return fail_export_of(self, session.key, process);
        }
        if !session.caller.is_primary() {
            return;
        }
        let text = error.wire();
        let text = &text[..text.len().min(ERROR_SHOWN_BYTES)];
        let command = spec.full_name;
        let line = format!(
            "== CRITICAL == This replica is sending an error to its primary: '{}' after processing the command '{command}'",
            text.escape_ascii()
        );
        process.log(LogLevel::Warning, &line);
        if carries_others(spec) || matches!(error, CmdError::DbIndex) {
            self.cut_link(session, command, process);
        }
    }

    /// Closes the link after a failed command of the primary that later commands depend on. The offset
    /// counted so far stays valid, and the next attempt to connect asks to continue there. If the command
    /// failed within a transaction, the data is at no position of the history, so the next attempt asks for a
    /// full synchronisation.
    #[cold]
    pub fn cut_link(&mut self, session: &mut Session, command: &str, process: &mut dyn Process) {
        let is_half_done = session.caller.flags.in_exec;
        if let Some(role) = self.replication.replica.quietly().as_mut() {
            role.is_cut = true;
            role.can_resume &= !is_half_done;
        }
        session.caller.closing = Closing::Now;
        self.clients.to_close.push(session.key);
        let databases = self.limits.databases;
        let line = format!(
            "== CRITICAL == '{command}' from the primary has failed here, and later commands depend on \
             it: the link is closed and opened again. This server has {databases} databases; if the \
             primary has more, set databases to the primary's number and restart"
        );
        process.log(LogLevel::Warning, &line);
    }

    /// Counts an executed request of the primary and relays it to replicas; requests of a transaction are
    /// relayed together when it has ended. Also sends the acknowledgement if the primary has asked for one.
    pub fn note_applied(&mut self, session: &mut Session, request: &Request<'_>) {
        let Some(role) = self.replication.replica.quietly().as_mut() else { return };
        if role.session != Some(session.key) || role.is_cut {
            return;
        }
        if std::mem::take(&mut role.asks_ack) {
            self.push_ack(session);
        }
        let Some(role) = self.replication.replica.quietly().as_mut() else { return };
        request.push_wire(&mut role.uncounted);
        if session.transaction.is_some() && !mistake::is_made(Mistake::TransactionByParts) {
            return;
        }
        role.db = session.caller.db;
        self.replication.stream.relay(&role.uncounted);
        self.replication.stream.relay_selects(role.db);
        role.uncounted.clear();
        if role.uncounted.capacity() > UNCOUNTED_KEPT_BYTES {
            role.uncounted = Vec::new();
        }
    }

    /// Writes REPLCONF ACK to the link: the offset of the data, and the offset that is on disk if the
    /// append-only file is on.
    pub fn push_ack(&mut self, session: &mut Session) {
        let Some(role) = self.replication.replica.quietly().as_mut() else { return };
        let (aof, offset) = (&self.persistence.aof, self.replication.stream.offset);
        let text = offset.to_string();
        let mut bytes = Vec::new();
        if aof.is_on() {
            let durable = &mut role.durable;
            // Nothing counts as durable before the first base is installed, because the first increment
            // cannot be loaded without it.
            let has_base = !self.persistence.rewriting.is_first || mistake::is_made(Mistake::AckWithoutBase);
            if has_base && durable.awaited.is_some_and(|(position, _)| aof.is_durable(position)) {
                durable.offset = durable.awaited.take().map_or(0, |(_, offset)| offset);
            }
            if has_base && aof.is_durable(aof.position()) || mistake::is_made(Mistake::UnsyncedAck) {
                durable.offset = offset;
            } else if durable.awaited.is_none() {
                durable.awaited = Some((aof.position(), offset));
            }
            let durable = durable.offset.to_string();
            let words = [&b"REPLCONF"[..], b"ACK", text.as_bytes(), b"FACK", durable.as_bytes()];
            push_command(&mut bytes, words.into_iter());
        } else {
            push_command(&mut bytes, [&b"REPLCONF"[..], b"ACK", text.as_bytes()].into_iter());
        }
        session.outbox.push(&bytes);
    }
}

/// Whether later commands in a primary's stream change their meaning if this command has failed.
pub fn carries_others(spec: &Spec) -> bool {
    [connection::SELECT.id, transactions::MULTI.id, transactions::EXEC.id, transactions::DISCARD.id]
        .contains(&spec.id)
}

/// At most this many bytes of an error's text are logged.
const ERROR_SHOWN_BYTES: usize = 4096;

/// A buffer for a primary's transaction that grows beyond this size is freed after the transaction.
const UNCOUNTED_KEPT_BYTES: usize = 1 << 20;

const DROPPED_BYTES_MAX: usize = 64;

/// Number of dropped commands' names that are remembered.
const DROPPED_NAMES_MAX: usize = 32;

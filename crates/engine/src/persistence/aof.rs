//! What the engine does with the append-only file's stream.

use crate::engine::Engine;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::mistake::{self, Mistake};
use sluice_control::process::{AofBacklog, Process};
use sluice_control::{Control, PersistenceState, ReplicationState};
use sluice_persist::rdb::Version;
use sluice_resp::Outbox;
use sluice_session::{Caller, Closing};
use sluice_snapshot::RdbAux;
use std::ops::{ControlFlow, Range};

/// Whether a client is sent what it did not ask for: commands of others, the stream. Messages and
/// invalidations are marked as they are sent (`Session::was_pushed`), but for those to the client that runs
/// a command.
fn receives_pushes(caller: &Caller) -> bool {
    caller.subscribed.is_any() || caller.flags.monitor || caller.replica.is_some()
}

impl Engine {
    /// Begins to append: from the next unit on, into a file that is empty or ends with a whole unit. To be
    /// called between units.
    pub fn begin_aof(&mut self) {
        self.core.control.persistence.aof.begin();
        self.begin_aof_file();
        self.core.notice();
    }

    /// Appends nothing from now on. What is pending can still be taken.
    pub fn end_aof(&mut self) {
        self.core.control.persistence.aof.end();
        self.core.notice();
    }

    /// The next unit is the first of another file. To be called between units, after [`Engine::take_aof`].
    pub fn begin_aof_file(&mut self) {
        let Control {
            persistence: PersistenceState { aof, .. },
            replication: ReplicationState { stream, .. },
            ..
        } = &mut self.core.control;
        aof.begin_file(stream);
    }

    /// Whether output waits until it is durable: `appendfsync always`.
    pub fn is_aof_strict(&self) -> bool {
        self.core.control.persistence.aof.is_strict()
    }

    /// End of the last unit that was appended: a position.
    pub fn aof_position(&self) -> u64 {
        self.core.control.persistence.aof.position()
    }

    /// Takes the bytes of the units that have closed since the last call, and the positions where they begin
    /// and end. The caller gives an empty buffer in exchange. `None` where there are none.
    pub fn take_aof(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        self.core.control.persistence.aof.take(buffer)
    }

    /// Has the file say where in the history of replication the data stand: behind the units of an iteration.
    pub(crate) fn note_history(&mut self) {
        let Control {
            persistence: PersistenceState { aof, .. },
            replication: ReplicationState { stream, .. },
            ..
        } = &mut self.core.control;
        aof.note_history(stream);
    }

    /// Whether there are bytes to be taken.
    #[inline]
    pub fn has_aof(&self) -> bool {
        self.core.control.persistence.aof.has_pending()
    }

    /// Learns that everything up to this position is on disk.
    #[inline]
    pub fn report_aof_durable(&mut self, position: u64, process: &mut dyn Process) {
        if self.core.control.persistence.aof.report_durable(position) {
            self.list_durable_output();
            self.core.control.clients.blocking.replica_acknowledged();
            self.serve_waiting(process);
        }
    }

    /// Learns that nothing can be written just now, for this reason of the system, or that it can be again.
    pub fn report_aof_fault(&mut self, fault: Option<String>) {
        self.core.control.persistence.aof.report_fault(fault);
    }

    /// What [`Engine::report_aof_backlog`] was told last.
    pub fn aof_backlog(&self) -> AofBacklog {
        self.core.control.persistence.aof.report().backlog
    }

    /// Learns how far the disk is behind: commands that write wait while the backlog is full, and go on when
    /// it is not.
    #[inline]
    pub fn report_aof_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        if backlog != self.core.control.persistence.aof.report().backlog {
            self.change_aof_backlog(backlog, process);
        }
    }

    #[cold]
    fn change_aof_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        let before = self.core.control.persistence.aof.report_backlog(backlog);
        match backlog {
            // It begins every rewrite, and is over when the disk has synced: no event for the log.
            AofBacklog::Changing => {}
            AofBacklog::Full => {
                let text =
                    "The disk does not keep up with the AOF file: commands that write wait until it does.";
                process.log(LogLevel::Warning, text);
            }
            AofBacklog::Fine => {
                if before == AofBacklog::Full {
                    let text = "The disk keeps up with the AOF file again: commands that write go on.";
                    process.log(LogLevel::Notice, text);
                }
                self.core.control.clients.blocking.release_postponed();
                self.serve_waiting(process);
            }
        }
    }

    /// Notes for the latency monitor how long something took that the process did.
    pub fn report_latency(&mut self, event: &'static str, nanos: u64, process: &mut dyn Process) {
        let now = process.recent();
        self.core.control.note_latency(event, now, nanos);
    }

    /// Gives the data away as the base of an append-only file, piece by piece. Errors: those of `give`.
    pub fn write_aof_base(
        &mut self,
        give: &mut dyn FnMut(&[u8]) -> Result<(), String>,
        process: &mut dyn Process,
    ) -> Result<(), String> {
        let used_memory = process.used_memory(&self.core.keyspace);
        let about = RdbAux {
            now: process.now(),
            used_memory,
            stream: None,
            slot_states: None,
            imports: self.core.keyspace.imports(),
            is_aof_base: true,
        };
        let config = &self.core.control.config;
        let mut result = Ok(());
        sluice_snapshot::write(
            &self.core.keyspace,
            config,
            sluice_snapshot::options(config, Version::Valkey),
            &about,
            self.core.control.libraries(),
            &mut || {},
            &mut |piece| {
                result = give(&piece);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        result
    }

    /// Up to which position of the append-only file output may tell of: what is on disk, where replies wait
    /// for that.
    #[inline]
    pub fn output_bound(&self) -> u64 {
        let aof = &self.core.control.persistence.aof;
        if aof.is_strict() { aof.report().durable } else { u64::MAX }
    }

    /// Defers output that is not durable; what may be sent of the session's output.
    #[cold]
    #[inline(never)]
    pub(crate) fn defer_output(
        &mut self,
        key: SessionKey,
        output: Outbox,
        durable: u64,
    ) -> Option<(Outbox, Closing)> {
        let needs = self.output_position(key);
        let session = self.core.sessions.get_mut(key)?;
        if needs <= durable && !session.has_deferred_output() {
            return Some((output, session.caller.closing));
        }
        let front = session.front.get_or_insert_default();
        if front.push(needs, output) && needs > durable {
            self.core.control.persistence.aof.await_durable(needs, key);
        }
        let output = front.take(durable);
        // It ends behind what waits.
        let closing = if front.has_deferred_output() { Closing::No } else { session.caller.closing };
        session.front.take_if(|front| front.is_empty());
        Some((output, closing))
    }

    /// Lists the sessions as ready whose output has become durable, or does not have to be any more.
    #[inline]
    pub(crate) fn list_durable_output(&mut self) {
        let bound = self.output_bound();
        while let Some(key) = self.core.control.persistence.aof.take_durable(bound) {
            if let Some(session) = self.core.sessions.get_mut(key)
                && !session.queued
            {
                session.queued = true;
                self.core.control.clients.ready.push(key);
            }
        }
    }

    /// The position that must be durable before a session's output, as it is now, is sent. It never falls.
    pub fn output_position(&mut self, key: SessionKey) -> u64 {
        let newest = self.core.control.persistence.aof.position();
        if mistake::is_made(Mistake::AnsweredEarly) {
            return 0;
        }
        let Some(session) = self.core.sessions.get_mut(key) else { return 0 };
        if std::mem::take(&mut session.was_pushed) || receives_pushes(&session.caller) {
            session.wait_until_durable(newest);
        }
        session.durable_at
    }
}

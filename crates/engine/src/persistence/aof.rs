//! Work of the engine on the stream of the append-only file.

use crate::core::Core;
use sluice_base::LogLevel;
use sluice_control::process::{AofBacklog, Process};
use sluice_control::{Control, PersistenceState, ReplicationState};
use sluice_session::Caller;
use std::ops::Range;

/// Whether a client gets output that it did not request, such as commands of other clients or the
/// stream. Messages and invalidations are marked when they are sent (`Session::was_pushed`), except
/// those to the client that runs a command.
pub(crate) fn receives_pushes(caller: &Caller) -> bool {
    caller.subscribed.is_any() || caller.flags.monitor || caller.replica.is_some()
}

/// Steps of appending to the file, and of waiting until writes are durable.
pub(crate) struct Appending<'a> {
    core: &'a mut Core,
}

impl<'a> Appending<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Appending<'a> {
        Appending { core }
    }
}

impl Appending<'_> {
    /// As [`Engine::begin_aof`](crate::engine::Engine::begin_aof).
    pub(crate) fn begin_aof(&mut self) {
        self.core.control.persistence.aof.begin();
        self.begin_aof_file();
        self.core.refresh_derived();
    }

    /// As [`Engine::end_aof`](crate::engine::Engine::end_aof).
    pub(crate) fn end_aof(&mut self) {
        self.core.control.persistence.aof.end();
        self.core.refresh_derived();
    }

    /// As [`Engine::begin_aof_file`](crate::engine::Engine::begin_aof_file).
    pub(crate) fn begin_aof_file(&mut self) {
        let Control {
            persistence: PersistenceState { aof, .. },
            replication: ReplicationState { stream, .. },
            ..
        } = &mut self.core.control;
        aof.begin_file(stream);
    }

    /// As [`Engine::take_aof`](crate::engine::Engine::take_aof).
    pub(crate) fn take_aof(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        self.core.control.persistence.aof.take(buffer)
    }

    /// As [`Engine::take_made_aof`](crate::engine::Engine::take_made_aof).
    #[inline]
    pub(crate) fn take_made_aof(
        &mut self,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Option<(Vec<u8>, Range<u64>)> {
        self.core.control.persistence.aof.take_made(buffer)
    }

    /// Appends a note of the offset in the replication history, after the commands of an iteration.
    pub(crate) fn note_history(&mut self) {
        let Control {
            persistence: PersistenceState { aof, .. },
            replication: ReplicationState { stream, .. },
            ..
        } = &mut self.core.control;
        aof.note_history(stream);
    }

    /// Notes that everything up to this position is on disk. Returns `true` if the position has grown: the
    /// caller then serves clients that wait for it.
    #[inline]
    pub(crate) fn note_durable(&mut self, position: u64) -> bool {
        let is_news = self.core.control.persistence.aof.report_durable(position);
        if is_news {
            self.list_durable_output();
            self.core.control.clients.blocking.replica_acknowledged();
        }
        is_news
    }

    /// As [`Engine::report_aof_fault`](crate::engine::Engine::report_aof_fault).
    pub(crate) fn report_aof_fault(&mut self, fault: Option<String>) {
        self.core.control.persistence.aof.report_fault(fault);
    }

    /// Notes how far the disk lags. When the disk has caught up, the caller serves the clients that have
    /// waited.
    #[cold]
    pub(crate) fn note_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        if backlog == self.core.control.persistence.aof.report().backlog {
            return;
        }
        let before = self.core.control.persistence.aof.report_backlog(backlog);
        match backlog {
            // This state is not logged, because every rewrite begins with it, and it ends when the disk has
            // synced.
            AofBacklog::Changing => {}
            AofBacklog::Full => {
                let text = "The disk is too slow for the AOF file: writes wait until it has caught up.";
                process.log(LogLevel::Warning, text);
            }
            AofBacklog::Fine => {
                if before == AofBacklog::Full {
                    let text = "The disk has caught up with the AOF file: writes go on.";
                    process.log(LogLevel::Notice, text);
                }
                self.core.control.clients.blocking.release_postponed();
            }
        }
    }

    /// Lists as ready the sessions whose output has waited for a position that is durable now, and those that
    /// need not wait any more.
    #[inline]
    pub(crate) fn list_durable_output(&mut self) {
        let bound = bound_of(&self.core.control);
        while let Some(key) = self.core.control.persistence.aof.take_durable(bound) {
            if let Some(session) = self.core.sessions.get_mut(key)
                && !session.queued
            {
                session.queued = true;
                self.core.control.clients.ready.push(key);
            }
        }
    }
}

/// Position of the append-only file up to which output may be sent.
#[inline]
pub(crate) fn bound_of(control: &Control) -> u64 {
    let aof = &control.persistence.aof;
    if aof.is_strict() { aof.report().durable } else { u64::MAX }
}

//! How the end of the server is waited for.

use crate::engine::Engine;
use sluice_base::LogLevel;
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::ending::begin::{are_replicas_at, begin};
use sluice_control::persistence::ending::{NOT_ENDED, PendingEnd};
use sluice_control::persistence::saving::Ending;
use sluice_control::process::Process;

impl Engine {
    /// Begins to end the server for a signal where replicas have to be waited for. `false`: there is nothing
    /// to wait for. The end comes as [`Action::Shutdown`].
    pub fn end_waits_for_replicas(&mut self, ending: Ending, force: bool, process: &mut dyn Process) -> bool {
        let control = &mut self.control;
        let is_off = control.config.int(param::SHUTDOWN_TIMEOUT) == 0;
        if control.persistence.pending_end.is_some() {
            return true;
        }
        if is_off || are_replicas_at(control, &self.sessions, control.replication.stream.offset) {
            return false;
        }
        let pending = PendingEnd::new(ending, force, control, process.recent());
        begin(pending, control, process);
        true
    }

    /// From now on nothing is executed and no wait ends: the files are about to be closed, and what was done
    /// behind that would be lost. Replicas still get what the stream has.
    pub fn stop(&mut self) {
        self.control.persistence.has_stopped = true;
    }

    /// Ends the server when the replicas have everything, or have had the time for it.
    #[inline]
    pub(crate) fn advance_end(&mut self, process: &mut dyn Process) {
        let Some(pending) = self.control.persistence.pending_end.as_deref() else { return };
        // SHUTDOWN NOSAVE ends a server whose script has no end, and saves nothing of it.
        let breaks_off = pending.ending == Ending::NoSave && *self.control.scripts.is_busy;
        if breaks_off || self.control.between_units(BetweenUnits::End) {
            self.advance_pending_end(process);
        }
    }

    #[cold]
    fn advance_pending_end(&mut self, process: &mut dyn Process) {
        let Some(mut pending) = self.control.persistence.pending_end.take_if(|pending| !pending.is_over)
        else {
            return;
        };
        let is_late = process.recent().mono_ns / 1_000_000 >= pending.deadline_ms;
        let are_there = are_replicas_at(&self.control, &self.sessions, pending.offset);
        if !pending.is_aborted && !is_late && !are_there {
            *self.control.persistence.pending_end = Some(pending);
            return;
        }
        if !pending.is_aborted {
            self.log_replicas(pending.offset, process);
            if self.prepare_end(pending.ending, pending.force, process) {
                // Nothing is executed any more: who waits gets no answer.
                pending.is_over = true;
                *self.control.persistence.pending_end = Some(pending);
                return self.actions.push(Action::Shutdown);
            }
        }
        self.control.clients.blocking.release_postponed();
        for client in pending.clients {
            self.end_wait(client, process, |reply| reply.error(&NOT_ENDED.wire()));
        }
        self.serve_waiting(process);
    }

    /// Tells the log which replicas lack something.
    fn log_replicas(&self, offset: u64, process: &mut dyn Process) {
        let keys = self.control.replicas();
        let sessions: Vec<_> = keys.into_iter().filter_map(|key| self.sessions.get(key)).collect();
        let (mut count, mut lagging) = (0, 0);
        for session in sessions {
            let Some(replica) = session.caller.replica_state() else { continue };
            count += 1;
            if u64::try_from(replica.acked).is_ok_and(|acked| acked >= offset) {
                continue;
            }
            lagging += 1;
            let behind = i64::try_from(offset).unwrap_or(i64::MAX).saturating_sub(replica.acked.max(0));
            let lag = process.recent().unix_s() - replica.acked_s;
            let name = session.caller.replica_name();
            let text = format!(
                "Lagging replica {name} reported offset {behind} behind master, lag={lag}, state={:?}.",
                replica.stage
            );
            process.log(LogLevel::Notice, &text);
        }
        if count > 0 {
            let text = format!("{} of {count} replicas are in sync when shutting down.", count - lagging);
            process.log(LogLevel::Notice, &text);
        }
    }
}

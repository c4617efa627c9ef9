//! How an open unit, a suspended EXEC or script, begins, continues and ends.

use super::OpenUnit;
use crate::cluster::driver::ClusterDriver;
use crate::cluster::driving::log_writes_too_late;
use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::request::Next;
use crate::exec::unit::{Suspension, Unit};
use crate::persistence::rewriting::Rewrites;
use crate::persistence::saving::Saves;
use crate::replication::failover::FailoverSteps;
use crate::replication::replicas::ReplicaFeeds;
use crate::replication::role::RoleChanges;
use crate::waiting::ending::WaitEnds;
use crate::waiting::migration::MigrationEnds;
use sluice_base::mistake::Mistake;
use sluice_base::{Now, SessionKey, mistake};
use sluice_command::Named;
use sluice_commands::{Args, Hashing, Outcome, Run, WaitFor};
use sluice_control::cluster::move_ends::{lose_export_link, lose_import_link};
use sluice_control::process::Process;
use sluice_resp::Mark;
use sluice_scripts::debugger::LOOK_NS;
use sluice_scripts::run::{ScriptProgress, ScriptRun};
use sluice_session::Session;
use sluice_session::blocking::Waiting;

/// Result of a slice of the open unit's command.
struct OpenEnd {
    /// Time so far, ns: that of a script, or that of EXEC itself without the time of its commands.
    spent_ns: u64,
    /// Outcome of the command, or the error to reply with.
    result: Run,
}

impl Engine {
    /// When the open unit goes on ([`Engine::advance_unit`]): monotonic nanoseconds. Without an open unit, 0
    /// while scripts wait for their turn, and otherwise `u64::MAX`.
    #[inline]
    pub fn next_unit_ns(&self) -> u64 {
        match &self.open {
            Some(open) => open.at.until_ns,
            None if self.has_turns() => 0,
            None => u64::MAX,
        }
    }

    /// Whether a unit is open.
    #[inline]
    pub fn has_open_unit(&self) -> bool {
        self.core.has_open_unit()
    }

    /// The client of the open unit, and the time at which that unit happens, monotonic
    /// nanoseconds: for tests.
    #[doc(hidden)]
    pub fn open_unit(&self) -> Option<(SessionKey, u64)> {
        self.open.as_ref().map(|open| (open.client, open.unit.now.mono_ns))
    }

    /// Goes on with the open unit if its time has come, or with scripts that wait for their turn:
    /// once an iteration.
    #[inline]
    pub fn advance_unit(&mut self, process: &mut dyn Process) {
        if self.next_unit_ns() <= process.recent().mono_ns {
            self.advance_scripts_and_unit(process);
        }
    }

    #[cold]
    fn advance_scripts_and_unit(&mut self, process: &mut dyn Process) {
        if self.open.is_none() {
            return self.serve_turns(process);
        }
        if self.open.as_ref().is_some_and(|open| open.at.until_ns <= process.recent().mono_ns) {
            self.look_at_busy_script(process);
            match self.awaits_debugger(process) {
                true => {}
                false => self.go_on(process),
            }
        }
    }

    /// Whether the open unit stays suspended because its debugger has stopped it. It goes on if the
    /// script was killed, its client has gone, or the server is about to end.
    fn awaits_debugger(&mut self, process: &mut dyn Process) -> bool {
        let is_killed =
            self.core.control.scripts.running.as_ref().is_some_and(|running| running.ending.is_some());
        let persistence = &self.core.control.persistence;
        let ends = self.core.control.debug.end_waits_for_cron
            || persistence.pending_end.is_some()
            || persistence.saved_for_end;
        let Some(open) = self.open.as_deref_mut().filter(|open| open.is_stopped()) else {
            return false;
        };
        if is_killed || ends || open.orphan.is_some() {
            if ends && let Some(run) = open.at.script.as_deref_mut() {
                run.debugger = None;
            }
            return false;
        }
        open.at.until_ns = process.recent().mono_ns.saturating_add(LOOK_NS);
        true
    }

    /// Suspends a run: the unit keeps its recorded commands, and its client waits.
    #[cold]
    pub(crate) fn stand_still(
        &mut self,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let Some(at) = ended.unit.suspended.take() else {
            debug_assert!(false, "whoever stands still says where");
            self.core.end_command(CommandEnding::Done, ended, session, now, process);
            return Next::Done;
        };
        let Ended { unit, spec, args, db, request_bytes, mark, .. } = ended;
        let mut at = *at;
        let yielded = Ended::new(unit, spec, args, db, request_bytes, mark);
        let spent_ns = self.core.end_command(CommandEnding::Yields, yielded, session, now, process);
        let unit = std::mem::replace(unit, Unit::new(*now));
        let client = session.key;
        let own_messages = std::mem::take(&mut self.core.control.clients.pubsub.outgoing.own);
        let reply = session.outbox.split_off(mark);
        if let (None, Some(run)) = (&at.transaction, at.script.as_mut()) {
            run.spent_ns += spent_ns;
        }
        let open = OpenUnit { unit, client, at, reply, own_messages, spent_ns, request: None, orphan: None };
        self.leave_open(open, session);
        Next::Wait(Box::new(WaitFor::Unit))
    }

    fn leave_open(&mut self, mut open: OpenUnit, session: &mut Session) {
        if open.at.script.is_some() && mistake::is_made(Mistake::RunByParts) {
            *self.core.control.clients.unit_stands_open = false;
            let rest = Unit::new(open.unit.now);
            self.core.close_own_unit(std::mem::replace(&mut open.unit, rest));
        }
        debug_assert_eq!(
            self.core.effects.changes(),
            0,
            "a command's effects are committed with the command"
        );
        if open.is_stopped() {
            self.scripts().await_debugger(&mut open, session);
        }
        // The reply written so far counts as memory of the client.
        let queued = open.at.transaction.as_ref().map_or(0, |position| position.transaction.heap_bytes());
        session.caller.multi.bytes = sluice_base::heap::short(queued + open.reply.len());
        self.open = Some(Box::new(open));
        *self.core.control.clients.unit_stands_open = true;
    }

    #[cold]
    pub(crate) fn go_on(&mut self, process: &mut dyn Process) {
        let Some(open) = self.open.take() else { return };
        let OpenUnit { mut unit, client, at, reply, own_messages, spent_ns, request, orphan } = *open;
        let found = self.core.sessions.take(client);
        let is_connected = found.is_some();
        let Some(mut session) = found.or(orphan) else {
            debug_assert!(false, "a unit keeps the session of a client that has gone");
            *self.core.control.clients.unit_stands_open = false;
            self.core.close_own_unit(unit);
            return self.end_open_unit(process);
        };
        // Messages that other clients have sent to this client while the unit was suspended precede the
        // reply.
        let pushed = std::mem::replace(&mut session.outbox, reply);
        self.core.control.clients.pubsub.outgoing.own = own_messages;
        let mut now = process.now();
        let Suspension { transaction, mut script, .. } = at;
        if !is_connected && let Some(run) = script.as_deref_mut() {
            run.debugger = None;
        }
        let mut ended = OpenEnd { spent_ns, result: Ok(Outcome::Done) };
        match (transaction, script) {
            (Some(position), script) => {
                // `unit.suspended` says whether the run is suspended again.
                let _ =
                    self.run_queued_commands(&mut unit, &mut session, position, script, &mut now, process);
            }
            (None, Some(run)) => {
                if !is_connected {
                    self.core.control.scripts.drop_unneeded_script(run.has_written);
                }
                ended = self.resume_open_script(*run, &mut unit, &mut session, &mut now, process);
                if mistake::is_made(Mistake::RunDropped) && !is_connected {
                    unit.commands = None;
                }
            }
            (None, None) => {}
        }
        if let Some(at) = unit.suspended.take() {
            let reply = std::mem::replace(&mut session.outbox, pushed);
            let own_messages = std::mem::take(&mut self.core.control.clients.pubsub.outgoing.own);
            let at = *at;
            let open = OpenUnit { unit, client, at, reply, own_messages, spent_ns, request, orphan: None };
            self.leave_open(open, &mut session);
            return match is_connected {
                true => self.core.sessions.put_back(session),
                false => self.keep_orphan(session),
            };
        }
        *self.core.control.clients.unit_stands_open = false;
        log_writes_too_late(&self.core.control, &unit, process);
        match self.core.control.unpark(&mut session).or(request) {
            Some(waiting) => self.end_open_command(unit, &waiting, ended, &mut session, &mut now, process),
            None => {
                debug_assert!(false, "a unit keeps the request of a client that has gone");
                self.core.close_own_unit(unit);
            }
        }
        let mut before = pushed;
        before.append(&mut self.scripting.debug_output);
        session.outbox.prepend(before);
        match is_connected {
            true => {
                WaitEnds::of(&mut self.core).resume(&mut session, process);
                self.core.sessions.put_back(session);
            }
            false => self.forget_session(client, session, process),
        }
        self.end_open_unit(process);
    }

    /// Keeps a session that has ended if it belongs to the open unit's client, because the unit continues
    /// with it. Drops any other session.
    pub(crate) fn keep_orphan(&mut self, session: Box<Session>) {
        if let Some(open) = self.open.as_mut().filter(|open| open.client == session.key) {
            open.orphan = Some(session);
        }
    }

    /// Goes on with a suspended script that is not part of EXEC. Returns its result if the script has ended.
    fn resume_open_script(
        &mut self,
        mut run: ScriptRun,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> OpenEnd {
        let began_ns = now.mono_ns;
        let progress = self.resume_run(&mut run, unit, session, now, process);
        *now = process.now();
        let spent_ns = now.mono_ns.saturating_sub(began_ns);
        match progress {
            ScriptProgress::StandsStill => {
                self.core.stats.iteration.command_ns += spent_ns;
                run.spent_ns += spent_ns;
                self.scripts().leave_run(Box::new(run), unit, now.mono_ns);
                OpenEnd { spent_ns: 0, result: Ok(Outcome::Done) }
            }
            ScriptProgress::Ended(result) => {
                let spent_ns = spent_ns + run.spent_ns;
                self.scripts().end_run(run, session);
                OpenEnd { spent_ns, result }
            }
        }
    }

    /// Ends the EXEC itself, or a script's command, and commits its unit.
    fn end_open_command(
        &mut self,
        mut unit: Unit,
        waiting: &Waiting,
        end: OpenEnd,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) {
        let Named::Command(spec) = waiting.prepared.named else { return self.core.close_own_unit(unit) };
        let request = waiting.request.at(0);
        let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
        let args = Args::new(&request, &waiting.prepared, &hashing);
        let db = session.caller.db;
        session.caller.last_command = Some(spec);
        let mut ended = Ended::new(&mut unit, spec, args, db, request.wire_len(), Mark::default());
        ended.earlier_ns = end.spent_ns;
        self.end_script_command(end.result, ended, session, now, process);
        self.core.close_unit(unit, session, spec);
        if self.core.control.clients.pubsub.outgoing.is_unfinished() {
            self.core.finish_delivery(session, process);
        }
        if session.caller.is_primary() {
            self.core.control.note_applied(session, &request);
        }
    }

    /// Does the work that has waited for the end of the unit.
    fn end_open_unit(&mut self, process: &mut dyn Process) {
        self.apply_user_load(process);
        // The node's decisions are carried out before the held requests run, because another node may own
        // their slots by now.
        ClusterDriver::of(&mut self.core).take_cluster_outputs(process);
        RoleChanges::of(&mut self.core).apply_role(process);
        FailoverSteps::of(&mut self.core).apply_failover(None, process);
        Rewrites::of(&mut self.core).follow_appendonly(process);
        Saves::of(&mut self.core).carry_out_asks(process);
        MigrationEnds::of(&mut self.core).end_paused_migrations(process);
        // The held requests run again, in their order.
        self.core.control.clients.blocking.release_postponed();
        self.serve_waiting(process);
    }

    /// Work that was refused since the last call because a unit is open: for tests, in builds
    /// with assertions only.
    #[doc(hidden)]
    pub fn take_refused_between_units(&mut self) -> Vec<String> {
        self.core.control.take_refused_between_units()
    }

    /// Forgets a session that is no longer in the table. The session of the open unit's client is kept
    /// until the unit ends.
    pub(crate) fn forget_session(
        &mut self,
        key: SessionKey,
        mut session: Box<Session>,
        process: &mut dyn Process,
    ) {
        if session.waiting.is_some() || self.core.control.clients.watching.concerns(key) {
            self.forget_waits(&mut session, process);
        }
        if session.caller.is_primary() {
            self.core.control.replication.forget_link_session(key);
        }
        // Both functions are called whatever kind the connection has now, because the kind may have changed
        // since the link was made.
        lose_import_link(&mut self.core.control, &session, process);
        lose_export_link(&mut self.core.control, &session, process);
        if session.caller.replica.is_some() {
            ReplicaFeeds::of(&mut self.core).detach_replica(key, &session);
        }
        if session.caller.subscribed.is_any() {
            self.core.control.clients.pubsub.forget(key);
        }
        if session.caller.flags.monitor {
            self.core.control.clients.monitors.retain(|k| *k != key);
        }
        self.core.control.clients.tracking.leave(key);
        self.keep_orphan(session);
    }
}

//! How a unit comes to stand open, goes on and ends.

use super::{OpenUnit, StoodStill};
use crate::args::Args;
use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::outcome::Outcome;
use crate::exec::prepare::Hashing;
use crate::exec::request::Next;
use crate::exec::unit::Unit;
use crate::host::process::Process;
use crate::session::Session;
use crate::waiting::blocking::{WaitFor, Waiting};
use sluice_base::Now;
use sluice_command::{Named, Spec};
use sluice_resp::Mark;

impl Engine {
    /// When a unit that stands open goes on ([`Engine::advance_unit`]): monotonic nanoseconds, `u64::MAX` where there is none.
    #[inline]
    pub fn next_unit_ns(&self) -> u64 {
        self.open_unit.as_ref().map_or(u64::MAX, |open| open.at.until_ns)
    }

    /// Whether a unit stands open. What the process does of its own accord then waits, such as to end migrations.
    #[inline]
    pub fn has_open_unit(&self) -> bool {
        *self.control.clients.unit_stands_open
    }

    /// Goes on with the unit that stands open, if its time has come: once an iteration.
    #[inline]
    pub fn advance_unit(&mut self, process: &mut dyn Process) {
        if self.next_unit_ns() <= process.recent().mono_ns {
            self.go_on(process);
        }
    }

    /// A run stands still: the unit takes along what it has done, and its client waits.
    #[cold]
    pub(crate) fn stand_still(
        &mut self,
        at: StoodStill,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let Ended { unit, spec, args, db, request_bytes, mark, .. } = ended;
        let yielded = Ended::new(unit, spec, args, db, request_bytes, mark);
        let spent_ns = self.end_command(CommandEnding::Yields, yielded, session, now, process);
        let outer = std::mem::replace(unit, Unit::new(*now));
        let reply = session.outbox.split_off(mark);
        self.leave_open(OpenUnit {
            unit: outer,
            client: session.key,
            at,
            reply,
            spent_ns,
            request: None,
            orphan: None,
        });
        Next::Wait(Box::new(WaitFor::Unit))
    }

    fn leave_open(&mut self, open: OpenUnit) {
        debug_assert_eq!(self.effects.changes(), 0, "a command's effects are committed with the command");
        self.open_unit = Some(Box::new(open));
        *self.control.clients.unit_stands_open = true;
    }

    #[cold]
    fn go_on(&mut self, process: &mut dyn Process) {
        let Some(open) = self.open_unit.take() else { return };
        let OpenUnit { mut unit, client, at, reply, spent_ns, mut request, orphan } = *open;
        let found = self.sessions.take(client);
        let is_connected = found.is_some();
        let Some(mut session) = found.or(orphan) else { return };
        // What others have sent the client meanwhile stands before the reply.
        let pushed = std::mem::replace(&mut session.outbox, reply);
        let mut now = process.now();
        let began_ns = now.mono_ns;
        let StoodStill { transaction, next, .. } = at;
        match self.run_queued_commands(&mut unit, &mut session, transaction, next, &mut now, process) {
            Ok(Outcome::StandStill(at)) => {
                // The commands have taken this time, each of them counted; EXEC has it at its end.
                let spent_ns = spent_ns + process.now().mono_ns.saturating_sub(began_ns);
                let reply = std::mem::replace(&mut session.outbox, pushed);
                let orphan = if is_connected {
                    self.sessions.put_back(session);
                    None
                } else {
                    Some(session)
                };
                self.leave_open(OpenUnit { unit, client, at: *at, reply, spent_ns, request, orphan });
            }
            Ok(_) | Err(_) => {
                let Some(waiting) = self.unpark(&mut session).or_else(|| request.take()) else { return };
                *self.control.clients.unit_stands_open = false;
                if let Some(spec) = self.end_exec(unit, &waiting, spent_ns, &mut session, &mut now, process) {
                    session.caller.last_command = Some(spec);
                }
                session.outbox.prepend(pushed);
                match is_connected {
                    true => {
                        self.resume(&mut session, process);
                        self.sessions.put_back(session);
                    }
                    false => self.forget_session(client, session, process),
                }
                self.end_open_unit(process);
            }
        }
    }

    /// Ends the EXEC itself, and commits its unit.
    fn end_exec(
        &mut self,
        mut unit: Unit,
        waiting: &Waiting,
        spent_ns: u64,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Option<&'static Spec> {
        let Named::Command(spec) = waiting.prepared.named else { return None };
        let request = waiting.request.at(0);
        let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
        let args = Args::new(&request, &waiting.prepared, &hashing);
        let db = session.caller.db;
        let mut ended = Ended::new(&mut unit, spec, args, db, request.wire_len(), Mark::default());
        ended.earlier_ns = spent_ns;
        self.end_command(CommandEnding::Done, ended, session, now, process);
        self.close_unit(unit, session, spec);
        if self.control.clients.pubsub.outgoing.is_unfinished() {
            self.finish_delivery(session, process);
        }
        Some(spec)
    }

    /// What has waited for the end of the unit happens.
    fn end_open_unit(&mut self, process: &mut dyn Process) {
        self.settle_role(process);
        self.settle_failover(process);
        self.begin_wanted_save(process);
        self.settle_aof(process);
        self.end_paused_migrations(process);
        // The requests that were held, in their order.
        self.control.clients.blocking.end_pause();
        self.serve_waiting(process);
    }
}

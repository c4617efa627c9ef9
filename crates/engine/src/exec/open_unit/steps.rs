//! How a unit comes to stand open, goes on and ends.

use super::OpenUnit;
use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::request::Next;
use crate::exec::unit::StoodStill;
use crate::exec::unit::Unit;
use crate::host::process::Process;
use crate::session::Session;
use crate::waiting::blocking::Waiting;
use sluice_base::Now;
use sluice_command::Named;
use sluice_commands::{Args, Hashing, Outcome, WaitFor};
use sluice_resp::Mark;

impl Engine {
    /// When a unit that stands open goes on ([`Engine::advance_unit`]): monotonic nanoseconds, `u64::MAX` where there is none.
    #[inline]
    pub fn next_unit_ns(&self) -> u64 {
        self.units.open.as_ref().map_or(u64::MAX, |open| open.at.until_ns)
    }

    /// Whether a unit stands open.
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
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let Some(at) = ended.unit.stood_still.take() else {
            debug_assert!(false, "whoever stands still says where");
            self.end_command(CommandEnding::Done, ended, session, now, process);
            return Next::Done;
        };
        let Ended { unit, spec, args, db, request_bytes, mark, .. } = ended;
        let at = *at;
        let yielded = Ended::new(unit, spec, args, db, request_bytes, mark);
        let spent_ns = self.end_command(CommandEnding::Yields, yielded, session, now, process);
        let unit = std::mem::replace(unit, Unit::new(*now));
        let client = session.key;
        let own_messages = std::mem::take(&mut self.control.clients.pubsub.outgoing.own);
        let reply = session.outbox.split_off(mark);
        let open = OpenUnit { unit, client, at, reply, own_messages, spent_ns, request: None, orphan: None };
        self.leave_open(open, session);
        Next::Wait(Box::new(WaitFor::Unit))
    }

    fn leave_open(&mut self, open: OpenUnit, session: &mut Session) {
        debug_assert_eq!(self.effects.changes(), 0, "a command's effects are committed with the command");
        // What is written of the reply counts as memory of the client.
        let queued = open.at.transaction.heap_bytes();
        session.caller.multi.bytes = crate::session::short(queued + open.reply.len());
        self.units.open = Some(Box::new(open));
        *self.control.clients.unit_stands_open = true;
    }

    #[cold]
    fn go_on(&mut self, process: &mut dyn Process) {
        let Some(open) = self.units.open.take() else { return };
        let OpenUnit { mut unit, client, at, reply, own_messages, spent_ns, request, orphan } = *open;
        let found = self.sessions.take(client);
        let is_connected = found.is_some();
        let Some(mut session) = found.or(orphan) else {
            debug_assert!(false, "a unit keeps the session of a client that has gone");
            *self.control.clients.unit_stands_open = false;
            self.close_own_unit(unit);
            return self.end_open_unit(process);
        };
        // What others have sent the client meanwhile stands before the reply.
        let pushed = std::mem::replace(&mut session.outbox, reply);
        self.control.clients.pubsub.outgoing.own = own_messages;
        let mut now = process.now();
        let StoodStill { transaction, next, .. } = at;
        let result = self.run_queued_commands(&mut unit, &mut session, transaction, next, &mut now, process);
        if let (Ok(Outcome::StandStill), Some(at)) = (result, unit.stood_still.take()) {
            let reply = std::mem::replace(&mut session.outbox, pushed);
            let own_messages = std::mem::take(&mut self.control.clients.pubsub.outgoing.own);
            let at = *at;
            let open = OpenUnit { unit, client, at, reply, own_messages, spent_ns, request, orphan: None };
            self.leave_open(open, &mut session);
            return match is_connected {
                true => self.sessions.put_back(session),
                false => self.keep_orphan(session),
            };
        }
        *self.control.clients.unit_stands_open = false;
        match self.unpark(&mut session).or(request) {
            Some(waiting) => self.end_exec(unit, &waiting, spent_ns, &mut session, &mut now, process),
            None => {
                debug_assert!(false, "a unit keeps the request of a client that has gone");
                self.close_own_unit(unit);
            }
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

    /// A client has gone: the unit that stands open goes on with the session.
    pub(crate) fn keep_orphan(&mut self, session: Box<Session>) {
        if let Some(open) = self.units.open.as_mut().filter(|open| open.client == session.key) {
            open.orphan = Some(session);
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
    ) {
        let Named::Command(spec) = waiting.prepared.named else { return self.close_own_unit(unit) };
        let request = waiting.request.at(0);
        let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
        let args = Args::new(&request, &waiting.prepared, &hashing);
        let db = session.caller.db;
        session.caller.last_command = Some(spec);
        let mut ended = Ended::new(&mut unit, spec, args, db, request.wire_len(), Mark::default());
        ended.earlier_ns = spent_ns;
        self.end_command(CommandEnding::Done, ended, session, now, process);
        self.close_unit(unit, session, spec);
        if self.control.clients.pubsub.outgoing.is_unfinished() {
            self.finish_delivery(session, process);
        }
        if session.caller.is_primary() {
            self.note_applied(session, &request);
        }
    }

    /// What has waited for the end of the unit happens.
    fn end_open_unit(&mut self, process: &mut dyn Process) {
        self.settle_role(process);
        self.settle_failover(process);
        self.begin_wanted_save(process);
        self.settle_aof(process);
        self.end_paused_migrations(process);
        // The requests that were held, in their order.
        self.control.clients.blocking.release_postponed();
        self.serve_waiting(process);
    }
}

//! Transactions: MULTI queues commands, and EXEC runs them as one execution unit.
//!
//! EXEC has no handler: the queued commands may be of any kind, so they run with the whole engine, each
//! in its own context. A command was checked when it was queued, and the rights of the user are checked again
//! when it runs. Checks of the state of the server (memory, a pause) are made for EXEC itself, with the flags
//! of all queued commands.

use crate::cluster::redirect::{SlotRoute, note_route, route_of};
use crate::cluster::slot_costs::count_request;
use crate::core::Core;
use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::gate::NotPermitted;
use crate::exec::request::Next;
use crate::exec::standing::Standing;
use crate::exec::unit::{CountedSlot, Suspension, TransactionPosition, Unit};
use crate::session::output_limit::note_query_buffer_disconnection;
use crate::users::UserUpdates;
use sluice_acl::RefusalContext;
use sluice_base::Now;
use sluice_cluster::HashSlot;
use sluice_command::specs::connection;
use sluice_command::specs::transactions::condition_len;
use sluice_command::{Named, Spec};
use sluice_commands::{Args, CmdError, Hashing, Outcome, Prepared, Run};
use sluice_control::process::Process;
use sluice_control::users::rights;
use sluice_keyspace::Access;
use sluice_resp::{Reply, Request};
use sluice_scripts::run::{ScriptProgress, ScriptRun};
use sluice_session::{Closing, Session};

impl Engine {
    /// Queues a command of a client in MULTI.
    #[cold]
    pub(crate) fn queue_command(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        prepared: Prepared,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        // The queue keeps no prepared hashes, because they belong to the batch, which does not outlive this
        // call.
        let prepared = prepared.alone();
        let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
        let args = Args::new(&request, &prepared, &hashing);
        let script = self.flags_of_called_script(spec, args);
        let flags = crate::exec::gate::flags_of_call(spec, script);
        let route = self.core.control.cluster.as_ref().map(|_| route_of(spec, args));
        let Some(transaction) = &mut session.transaction else { return };
        let is_lost = transaction.aborted || self.core.control.clients.watching.has_changed(session.key);
        if let Some(route) = route.filter(|_| !is_lost) {
            let db = transaction.selected_db().unwrap_or(session.caller.db);
            note_route(&mut transaction.route, route, spec, args, db);
        }
        session.caller.traffic.net_in += request.wire_len() as u64;
        if let Some(SlotRoute::Slot(slot)) = route
            && self.core.derived.counts_slots
        {
            count_request(&mut self.core.control, slot, request.wire_len());
        }
        session.caller.last_command = Some(spec);
        transaction.push(flags, prepared, &request);
        if spec.id == connection::SELECT.id {
            match selected_by(args, self.core.control.limits.databases) {
                Some(db) => transaction.select(db),
                // The link is cut: no command of the primary's transaction has been executed, and none will
                // be.
                None if session.caller.is_primary() => {
                    return self.core.control.cut_link(session, spec.full_name, process);
                }
                None => {}
            }
        }
        let queued = transaction.requests.bytes();
        session.caller.multi.queued = i32::try_from(transaction.len()).unwrap_or(i32::MAX);
        let is_bounded = !session.caller.is_primary();
        if is_bounded
            && queued + session.caller.traffic.input_bytes > self.core.control.limits.client_query_buffer
        {
            return self.end_overlong(session, process);
        }
        let mark = session.outbox.mark();
        Reply::new(&mut session.outbox, session.caller.proto).raw(b"+QUEUED\r\n");
        self.core.control.apply_reply_mode(session, mark, process);
    }

    /// Closes a client whose queue and query buffer are together larger than `client-query-buffer-limit`, as
    /// if one request were so large.
    #[cold]
    fn end_overlong(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.caller.closing = Closing::Now;
        self.core.control.clients.to_close.push(session.key);
        note_query_buffer_disconnection(&mut self.core.stats, &session.caller.origin.addr, process);
    }

    /// EXEC: runs the queued commands, as commands of `unit`, if none was rejected when it was queued, no
    /// watched key was changed, and the conditions among the arguments hold.
    pub(crate) fn run_transaction(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        access: Access,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        let Some(transaction) = session.transaction.take() else {
            return Err(CmdError::text("ERR EXEC without MULTI"));
        };
        let unchanged = !self.watched_keys_changed(session, unit.now);
        self.core.control.clients.watching.forget(session.key);
        if transaction.aborted {
            self.end_transaction(session);
            return Err(CmdError::text("EXECABORT Transaction discarded because of previous errors."));
        }
        let holds = match unchanged && args.len() > 1 {
            true => self.conditions_hold(session, access, args),
            false => Ok(unchanged),
        };
        let Ok(true) = holds else {
            self.end_transaction(session);
            holds?;
            Reply::new(&mut session.outbox, session.caller.proto).null_array();
            return Ok(Outcome::Done);
        };
        if let Some(slot) = transaction.route.slot.and_then(HashSlot::new) {
            unit.counts_for = CountedSlot::Of(slot);
        }
        session.caller.flags.in_exec = true;
        session.caller.multi.bytes = sluice_base::heap::short(transaction.heap_bytes());
        Reply::new(&mut session.outbox, session.caller.proto).array(transaction.len());
        let position = TransactionPosition { transaction, next: 0 };
        self.run_queued_commands(unit, session, position, None, now, process)
    }

    /// Whether the conditions of EXEC hold, checked in the order of the arguments up to the first that
    /// does not. A key that has expired is absent, and is deleted as after a read.
    #[cold]
    fn conditions_hold(
        &mut self,
        session: &Session,
        access: Access,
        args: Args<'_>,
    ) -> Result<bool, CmdError> {
        const MALFORMED: CmdError =
            CmdError::text("EXECABORT Transaction discarded because of: invalid check condition syntax");
        let mut at = 1;
        while at < args.len() {
            at += condition_len(args.at(at)).ok_or(MALFORMED)?;
        }
        if at > args.len() {
            return Err(MALFORMED);
        }
        let Core { keyspace, effects, .. } = &mut self.core;
        let mut db = keyspace.read(session.caller.db, access, effects);
        at = 1;
        while let Some(len) = args.get(at).and_then(condition_len) {
            let entry = db.look(args.key(at + 1));
            let holds = match (len, entry) {
                (3, None) => args.is(at, "IFNE"),
                (3, Some(entry)) => entry.as_str()?.is(args.at(at + 2)) == args.is(at, "IFEQ"),
                (_, entry) => entry.is_some() == args.is(at, "XX"),
            };
            if !holds {
                return Ok(false);
            }
            at += len;
        }
        Ok(true)
    }

    /// Runs the queued commands from the command `next` on. `script` is the suspended script of that
    /// command. The run may be suspended again after each command, and inside each script.
    pub(crate) fn run_queued_commands(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        position: TransactionPosition,
        mut script: Option<Box<ScriptRun>>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        let TransactionPosition { transaction, next } = position;
        let outer = std::mem::replace(&mut unit.standing, Standing::Queued);
        let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
        for (i, prepared) in transaction.prepared.iter().enumerate().skip(next) {
            let request = transaction.requests.at(i);
            let Named::Command(spec) = prepared.named else { continue };
            let args = Args::new(&request, prepared, &hashing);
            match script.take() {
                Some(run) => {
                    self.resume_queued_script(unit, session, *run, spec, args, request, now, process)
                }
                None => drop(self.run_queued(unit, session, spec, args, request, now, process)),
            }
            if session.caller.is_primary() && session.caller.closing == Closing::Now {
                // The link was cut: the remaining commands are not executed on these data.
                break;
            }
            if let Some(mut at) = unit.suspended.take() {
                unit.standing = outer;
                at.transaction = Some(TransactionPosition { transaction, next: i });
                unit.suspended = Some(at);
                return Ok(Outcome::StandStill);
            }
            // EXEC is not suspended after a save for the end of the server, because that save is repeated
            // after the last command, and must not contain a part of a transaction.
            let may_stand_still = !self.core.control.persistence.saved_for_end;
            if let Some(pause_ns) = self.core.control.debug.stand_still_ns.take().filter(|_| may_stand_still)
            {
                unit.standing = outer;
                let until_ns = now.mono_ns.saturating_add(pause_ns);
                let transaction = Some(TransactionPosition { transaction, next: i + 1 });
                unit.suspended = Some(Box::new(Suspension { transaction, script: None, until_ns }));
                return Ok(Outcome::StandStill);
            }
        }
        unit.standing = outer;
        session.caller.flags.in_exec = false;
        self.end_transaction(session);
        Ok(Outcome::Done)
    }

    /// Suspends EXEC because the script of a queued command is suspended.
    #[cold]
    pub(crate) fn yield_queued(
        &mut self,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let Ended { unit, spec, args, db, request_bytes, mark, .. } = ended;
        let yielded = Ended::new(unit, spec, args, db, request_bytes, mark);
        let spent_ns = self.core.end_command(CommandEnding::Yields, yielded, session, now, process);
        if let Some(run) = unit.suspended.as_mut().and_then(|at| at.script.as_mut()) {
            run.spent_ns += spent_ns;
        }
        Next::Done
    }

    /// Goes on with the suspended script of a queued command, and ends the command if the script ends.
    #[allow(clippy::too_many_arguments)]
    fn resume_queued_script(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        mut run: ScriptRun,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) {
        let mark = session.outbox.mark();
        let progress = self.resume_run(&mut run, unit, session, now, process);
        let db = run.db;
        let mut ended = Ended::new(unit, spec, args, db, request.wire_len(), mark);
        match progress {
            ScriptProgress::StandsStill => {
                let spent_ns = self.core.end_command(CommandEnding::Yields, ended, session, now, process);
                run.spent_ns += spent_ns;
                self.scripts().leave_run(Box::new(run), unit, now.mono_ns);
            }
            ScriptProgress::Ended(result) => {
                ended.earlier_ns = run.spent_ns;
                self.scripts().end_run(run, session);
                self.end_script_command(result, ended, session, now, process);
            }
        }
    }

    /// Ends a command whose script has ended in a later slice.
    pub(crate) fn end_script_command(
        &mut self,
        result: Run,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) {
        match result {
            Ok(Outcome::DoneWithError) => {
                self.core.end_command(CommandEnding::Failed, ended, session, now, process);
            }
            Ok(_) => {
                self.core.end_command(CommandEnding::Done, ended, session, now, process);
            }
            Err(error) => {
                session.outbox.rewind(ended.mark);
                self.core.control.note_divergence(session, ended.spec, &error, process);
                self.core.reply_error(session, &error);
                self.core.end_command(CommandEnding::Failed, ended, session, now, process);
            }
        }
    }

    /// Replies with an error to a queued command that may not run any more.
    #[cold]
    pub(super) fn refuse_queued(
        &mut self,
        session: &mut Session,
        refused: NotPermitted,
        spec: &'static Spec,
        args: Args<'_>,
        now: Now,
    ) {
        match refused {
            NotPermitted::Rejected(rejection) => self.core.reply_error(session, &rejection.error),
            NotPermitted::Denied(denial) => {
                UserUpdates::of(&mut self.core).note_denial(
                    session,
                    denial,
                    RefusalContext::Multi,
                    spec,
                    args,
                    now,
                );
                self.core.reply_error(session, &rights::queued_error(denial));
            }
        }
    }

    /// Whether a key that the client watches was changed, or has expired since WATCH.
    fn watched_keys_changed(&self, session: &Session, now: Now) -> bool {
        let watching = &self.core.control.clients.watching;
        watching.has_changed(session.key)
            || watching.live(session.key).any(|(db, key)| {
                let db = self.core.keyspace.db(db);
                let found = db.find(self.core.keyspace.key(key));
                found.and_then(|found| db.expiry(found.handle)).is_some_and(|at_ms| now.unix_ms() > at_ms)
            })
    }

    /// Ends MULTI. The caller forgets the watched keys.
    pub(crate) fn end_transaction(&mut self, session: &mut Session) {
        session.transaction = None;
        session.caller.leave_multi();
        session.mask = self.core.gate.session_mask(session);
    }

    /// Ends the transaction because EXEC itself was rejected. Returns the error to reply with.
    #[cold]
    pub(crate) fn reject_exec(&mut self, session: &mut Session, error: &CmdError) -> CmdError {
        self.core.control.clients.watching.forget(session.key);
        self.end_transaction(session);
        if matches!(error, CmdError::Redirect(_) | CmdError::Slot(_)) {
            return error.clone();
        }
        let wire = error.wire();
        // The reference strips the code of two errors (a wrong number of arguments, and a command that a
        // RESP2 subscriber may not send), and keeps the code of all others.
        let is_made = matches!(error, CmdError::Arity(_)) || wire.starts_with(b"ERR Can't execute ");
        let told = if is_made { wire.strip_prefix(b"ERR ") } else { None };
        let told = told.unwrap_or(&wire);
        CmdError::owned([b"EXECABORT Transaction discarded because of: ", told].concat())
    }
}

/// The database that a queued SELECT will select; `None` if it will fail.
fn selected_by(args: Args<'_>, databases: usize) -> Option<usize> {
    usize::try_from(args.int(1).ok()?).ok().filter(|db| *db < databases)
}

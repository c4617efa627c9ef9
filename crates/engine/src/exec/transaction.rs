//! Transactions: commands are queued, and EXEC runs them as one execution unit.
//!
//! EXEC is no handler: the queued commands may be of any kind, so they run with the whole engine, each in its own context.
//! A command was admitted when it was queued. What depends on the state of the server at EXEC (memory, a pause) is asked
//! for EXEC itself, with the flags of everything queued.

use crate::engine::Engine;
use crate::exec::standing::Standing;
use crate::exec::unit::StoodStill;
use crate::exec::unit::Unit;
use crate::host::process::Process;
use crate::session::transaction::Transaction;
use crate::session::{Closing, Session};
use sluice_base::Now;
use sluice_command::{Named, Spec};
use sluice_commands::{Args, CmdError, Hashing, Outcome, Prepared, Run};
use sluice_resp::{Reply, Request};

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
        let Some(transaction) = &mut session.transaction else { return };
        session.caller.traffic.net_in += request.wire_len() as u64;
        session.caller.last_command = Some(spec);
        transaction.push(spec, prepared, &request);
        let queued = transaction.requests.bytes();
        session.caller.multi.queued = i32::try_from(transaction.len()).unwrap_or(i32::MAX);
        let is_bounded = !session.caller.is_primary();
        if is_bounded && queued + session.caller.traffic.input_bytes > self.control.limits.client_query_buffer
        {
            return self.end_overlong(session, process);
        }
        let mark = session.outbox.mark();
        Reply::new(&mut session.outbox, session.caller.proto).simple(b"QUEUED");
        self.apply_reply_mode(session, mark, process);
    }

    /// Ends a client whose queue is larger than `client-query-buffer-limit`, as one with so large a request.
    #[cold]
    fn end_overlong(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.caller.closing = Closing::Now;
        self.control.clients.to_close.push(session.key);
        self.note_query_buffer_disconnection(&session.caller.origin.addr, process);
    }

    /// EXEC: runs what is queued, as commands of `unit`.
    pub(crate) fn run_transaction(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        let Some(transaction) = session.transaction.take() else {
            return Err(CmdError::text("ERR EXEC without MULTI"));
        };
        let unchanged = !self.watched_keys_changed(session, unit.now);
        self.control.clients.watching.forget(session.key);
        if transaction.aborted {
            self.end_transaction(session);
            return Err(CmdError::text("EXECABORT Transaction discarded because of previous errors."));
        }
        if !unchanged {
            self.end_transaction(session);
            Reply::new(&mut session.outbox, session.caller.proto).null_array();
            return Ok(Outcome::Done);
        }
        session.caller.flags.in_exec = true;
        session.caller.multi.bytes = crate::session::short(transaction.heap_bytes());
        Reply::new(&mut session.outbox, session.caller.proto).array(transaction.len());
        self.run_queued_commands(unit, session, transaction, 0, now, process)
    }

    /// Runs what is queued from the command `next` on. It may stand still behind each of them.
    pub(crate) fn run_queued_commands(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        transaction: Box<Transaction>,
        next: usize,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        let outer = std::mem::replace(&mut unit.standing, Standing::Queued);
        let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
        for (i, prepared) in transaction.prepared.iter().enumerate().skip(next) {
            let request = transaction.requests.at(i);
            let Named::Command(spec) = prepared.named else { continue };
            let args = Args::new(&request, prepared, &hashing);
            self.run_queued(unit, session, spec, args, request, now, process);
            // What was saved for the end of the server is saved once more behind the last command, and shows whole units.
            let may_stand_still = !self.control.persistence.saved_for_end;
            if let Some(pause_ns) = self.control.debug.stand_still_ns.take().filter(|_| may_stand_still) {
                unit.standing = outer;
                let until_ns = now.mono_ns.saturating_add(pause_ns);
                unit.stood_still = Some(Box::new(StoodStill { transaction, next: i + 1, until_ns }));
                return Ok(Outcome::StandStill);
            }
        }
        unit.standing = outer;
        session.caller.flags.in_exec = false;
        self.end_transaction(session);
        Ok(Outcome::Done)
    }

    /// Whether a key that the client watches was changed, or has expired since.
    fn watched_keys_changed(&self, session: &Session, now: Now) -> bool {
        let watching = &self.control.clients.watching;
        watching.has_changed(session.key)
            || watching.live(session.key).any(|(db, key)| {
                let db = self.keyspace.db(db);
                let found = db.find(self.keyspace.key(key));
                found.and_then(|found| db.expiry(found.handle)).is_some_and(|at_ms| now.unix_ms() > at_ms)
            })
    }

    /// Leaves MULTI. The caller forgets what is watched.
    pub(crate) fn end_transaction(&mut self, session: &mut Session) {
        session.transaction = None;
        session.caller.leave_multi();
        session.mask = self.gate.session_mask(session);
    }

    /// EXEC itself was rejected: the transaction is over.
    #[cold]
    pub(crate) fn reject_exec(&mut self, session: &mut Session, error: &CmdError) -> CmdError {
        self.control.clients.watching.forget(session.key);
        self.end_transaction(session);
        if matches!(error, CmdError::Redirect(_)) {
            return error.clone();
        }
        let wire = error.wire();
        // The reference tells a wrong number of arguments without its code, and any other error with it.
        let told = if matches!(error, CmdError::Arity(_)) { wire.strip_prefix(b"ERR ") } else { None };
        let told = told.unwrap_or(&wire);
        CmdError::owned([b"EXECABORT Transaction discarded because of: ", told].concat())
    }
}

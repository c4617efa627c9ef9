//! Parking, serving and ending the clients that wait; the lists are in `blocking.rs`.

use crate::action::Action;
use crate::args::Args;
use crate::blocking::{BlockOn, Due, Unblock, WaitFor, Waiting};
use crate::engine::Engine;
use crate::error::CmdError;
use crate::exec::Next;
use crate::families::replication::{AOF_IS_OFF, reply_waitaof};
use crate::prepare::Hashing;
use crate::prepare::Prepared;
use crate::process::Process;
use crate::session::{Closing, Session};
use crate::session_key::SessionKey;
use sluice_base::Now;
use sluice_command::Named;
use sluice_keyspace::Key;
use sluice_resp::{OwnedRequests, Reply};

impl Engine {
    /// Keeps a request that must wait, in the session.
    #[cold]
    pub(crate) fn park(
        &mut self,
        session: &mut Session,
        mut request: OwnedRequests,
        prepared: Prepared,
        on: WaitFor,
    ) {
        for (index, bytes) in std::mem::take(&mut self.control.blocking.replaced_args) {
            request.replace_arg(0, index, &bytes);
        }
        let order = self.control.blocking.next_order();
        let waiting = Box::new(Waiting { request, prepared: prepared.alone(), on, order, unblock: None });
        self.control.blocking.add(session.key, &waiting);
        session.caller.argv_bytes = waiting.args_bytes();
        session.waiting = Some(waiting);
        if matches!(on, WaitFor::Replicas { .. }) {
            self.control.ask_replicas = true;
        }
        self.refresh_listening();
    }

    /// Takes a session's request back.
    pub(crate) fn unpark(&mut self, session: &mut Session) -> Option<Box<Waiting>> {
        let waiting = session.waiting.take()?;
        self.control.blocking.remove(session.key, &waiting);
        session.caller.argv_bytes = 0;
        self.refresh_listening();
        Some(waiting)
    }

    /// Serves the clients whose wait is over: keys first, in the order in which they became ready. To be called
    /// between units.
    #[inline]
    pub(crate) fn serve_waiting(&mut self, process: &mut dyn Process) {
        if self.control.blocking.is_due() {
            self.serve_due(process);
        }
    }

    #[cold]
    fn serve_due(&mut self, process: &mut dyn Process) {
        if self.control.has_stopped {
            return;
        }
        while let Some(due) = self.control.blocking.next_due() {
            match due {
                Due::Key(db, key) => self.serve_key(db, &key, process),
                Due::Resumed(client) => self.run_waiting(client, process),
                Due::Unblocked(client) => self.end_by_request(client, process),
                Due::Acknowledged => self.serve_acknowledged(process),
                Due::SlowReads => self.serve_slow_reads(process),
            }
        }
    }

    /// Serves the clients that wait for a key, in the order of their coming, as long as the key has what they want. Those
    /// that begin to wait meanwhile are left to the next time.
    fn serve_key(&mut self, db: usize, name: &[u8], process: &mut dyn Process) {
        let last = self.control.blocking.last_order();
        let mut after = 0;
        while let Some((order, client)) = self.control.blocking.next_waiter(db, name, after, last) {
            after = order;
            let key = self.keyspace.key(name);
            let now = process.recent();
            let Some(session) = self.sessions.get(client) else { continue };
            // What a client that is being closed took would be lost.
            if session.caller.closing != Closing::No {
                continue;
            }
            // A client that was unblocked before the key became ready gets the reply of the unblocking.
            let Some(Waiting { on: WaitFor::Keys(on), unblock: None, .. }) = session.waiting.as_deref()
            else {
                continue;
            };
            match self.live_type(db, key, now) {
                Some(found) if found == on.wanted => self.run_waiting(client, process),
                // The command answers an error.
                Some(_) | None if on.ends_without_key => self.run_waiting(client, process),
                Some(_) | None => {}
            }
        }
    }

    /// The type of the value under a key, none when there is no key or it has expired. Leaves no trace.
    fn live_type(&self, db: usize, key: Key<'_>, now: Now) -> Option<sluice_value::Type> {
        let db = self.keyspace.db(db);
        let found = db.find(key)?;
        let expired = db.expiry(found.handle).is_some_and(|at_ms| now.unix_ms() > at_ms);
        (!expired).then(|| db.entry(found.handle).type_of())
    }

    /// Runs a waiting client's command again.
    pub(crate) fn run_waiting(&mut self, client: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.sessions.take(client) else { return };
        let Some(waiting) = self.unpark(&mut session) else { return self.sessions.put_back(session) };
        // A client that is being closed does nothing more.
        if session.caller.closing != Closing::No {
            return self.sessions.put_back(session);
        }
        let Waiting { request, prepared, on, .. } = *waiting;
        let began = process.recent();
        let mut now = began;
        let again = {
            let request = request.at(0);
            let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
            let args = Args::new(&request, &prepared, &hashing);
            session.is_rerun = matches!(on, WaitFor::Keys(_));
            let next = self.process_again(&mut session, &prepared, args, request, &mut now, process);
            session.is_rerun = false;
            self.note_slow_read_waited(on, &next, began);
            if next == Next::Done && session.caller.is_primary() {
                self.note_applied(&mut session, &request);
            }
            next
        };
        match again {
            Next::Done => self.resume(&mut session, process),
            Next::Wait(again) => {
                let on = match (*again, on) {
                    // The time that it may wait began when it came.
                    (WaitFor::Keys(again), WaitFor::Keys(first)) => {
                        WaitFor::Keys(BlockOn { deadline_ms: first.deadline_ms, ..again })
                    }
                    (WaitFor::SlowRead { .. }, first @ WaitFor::SlowRead { .. }) => first,
                    (again, _) => again,
                };
                self.park(&mut session, request, prepared, on);
            }
        }
        self.sessions.put_back(session);
    }

    /// Lets a client's next requests go on.
    pub(crate) fn resume(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.note_output(&mut self.control.ready);
        self.after_batch(session, process);
        self.actions.push(Action::Resume(vec![session.key]));
    }

    /// Answers the clients of WAIT whose replicas have acknowledged enough.
    fn serve_acknowledged(&mut self, process: &mut dyn Process) {
        for client in self.control.blocking.waiting_for_replicas() {
            let Some(session) = self.sessions.get(client) else { continue };
            match session.waiting.as_ref().map(|waiting| waiting.on) {
                Some(WaitFor::Replicas { count, offset, local: None, .. }) => {
                    let acknowledged = self.replicas_at(offset);
                    if acknowledged >= count {
                        self.end_wait(client, process, |reply| reply.int(acknowledged));
                    }
                }
                Some(WaitFor::Replicas { local: Some(local), .. })
                    if local.is_awaited && !self.control.wants_aof() =>
                {
                    self.end_wait(client, process, |reply| reply.error(&AOF_IS_OFF.wire()));
                }
                Some(WaitFor::Replicas { count, offset, local: Some(local), .. }) => {
                    let is_durable = self.control.is_kept(local.position);
                    let acknowledged = self.aof_replicas_at(offset);
                    if (is_durable || !local.is_awaited) && acknowledged >= count {
                        self.end_wait(client, process, |reply| {
                            reply_waitaof(reply, is_durable, acknowledged)
                        });
                    }
                }
                Some(
                    WaitFor::Keys(_)
                    | WaitFor::Pause
                    | WaitFor::Load
                    | WaitFor::Shutdown
                    | WaitFor::SlowRead { .. }
                    | WaitFor::Reply
                    | WaitFor::Migration(_),
                )
                | None => {}
            }
        }
    }

    /// How many replicas have acknowledged an offset.
    pub(crate) fn replicas_at(&self, offset: u64) -> i64 {
        crate::families::replication::replicas_at(&self.control, &self.sessions, offset)
    }

    /// How many replicas have said that what stands before an offset is on their disks.
    fn aof_replicas_at(&self, offset: u64) -> i64 {
        crate::families::replication::aof_replicas_at(&self.control, &self.sessions, offset)
    }

    /// Ends the waits whose time is over; returns the milliseconds until the next one.
    pub(crate) fn expire_waits(&mut self, now: Now, process: &mut dyn Process) -> Option<u64> {
        let now_ms = now.mono_ns / 1_000_000;
        while let Some(client) = self.control.blocking.next_expired(now_ms) {
            self.end_as_timeout(client, process);
        }
        Some(self.control.blocking.next_deadline_ms()?.saturating_sub(now_ms))
    }

    fn end_as_timeout(&mut self, client: SessionKey, process: &mut dyn Process) {
        let on = self.sessions.get(client).and_then(|session| Some(session.waiting.as_ref()?.on));
        match on {
            Some(WaitFor::Replicas { offset, local: Some(local), .. }) => {
                let is_durable = self.control.is_kept(local.position);
                let acknowledged = self.aof_replicas_at(offset);
                self.end_wait(client, process, |reply| reply_waitaof(reply, is_durable, acknowledged));
            }
            Some(WaitFor::Replicas { offset, local: None, .. }) => {
                let acknowledged = self.replicas_at(offset);
                self.end_wait(client, process, |reply| reply.int(acknowledged));
            }
            Some(WaitFor::Keys(_)) => self.end_wait(client, process, |reply| reply.null_array()),
            // These end by themselves.
            Some(
                WaitFor::Pause
                | WaitFor::Load
                | WaitFor::Shutdown
                | WaitFor::SlowRead { .. }
                | WaitFor::Reply
                | WaitFor::Migration(_),
            )
            | None => {}
        }
    }

    /// CLIENT UNBLOCK.
    fn end_by_request(&mut self, client: SessionKey, process: &mut dyn Process) {
        let waiting = self.sessions.get(client).and_then(|session| session.waiting.as_ref());
        let spec = waiting.and_then(|waiting| match waiting.prepared.named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        });
        match waiting.and_then(|waiting| waiting.unblock) {
            Some(Unblock::Timeout) => self.end_as_timeout(client, process),
            Some(Unblock::Error) => {
                let error = CmdError::text("UNBLOCKED client unblocked via CLIENT UNBLOCK");
                self.stats.count_error(&error.wire());
                if let Some(spec) = spec {
                    self.stats.commands[spec.id.0 as usize].rejected += 1;
                }
                self.end_wait(client, process, |reply| reply.error(&error.wire()));
            }
            // It was served, or is gone.
            None => {}
        }
    }

    /// Answers a client that waits in place of its command.
    pub(crate) fn end_wait(
        &mut self,
        client: SessionKey,
        process: &mut dyn Process,
        answer: impl FnOnce(&mut Reply<'_>),
    ) {
        let Some(mut session) = self.sessions.take(client) else { return };
        if let Some(waiting) = self.unpark(&mut session) {
            if let Named::Command(spec) = waiting.prepared.named {
                self.account(&mut session, spec, 0, false);
            }
            let mark = session.outbox.mark();
            answer(&mut Reply::new(&mut session.outbox, session.caller.proto));
            self.apply_reply_mode(&mut session, mark, process);
            self.resume(&mut session, process);
        }
        self.sessions.put_back(session);
    }

    /// Forgets what a session waits for and watches: it ends.
    pub(crate) fn forget_waits(&mut self, session: &mut Session) {
        self.end_lost_read(session);
        self.unpark(session);
        self.control.watching.forget(session.key);
        self.refresh_listening();
    }
}

//! Parking, serving and ending the clients that wait; the lists are in `blocking.rs`.

use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::request::Next;
use crate::exec::unit::Unit;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_command::Named;
use sluice_commands::{Args, BlockOn, CmdError, Hashing, WaitFor};
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_control::replication::waitaof::{AOF_IS_OFF, reply_waitaof};
use sluice_keyspace::Key;
use sluice_resp::{Mark, Reply};
use sluice_session::blocking::{ReadyWork, Unblock, Waiting};
use sluice_session::{Closing, Session};

/// What a command took whose reply was not written where the command ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProducedTimes {
    /// Processor time in all, ns.
    pub duration_ns: u64,
    /// The part of it that everybody waited for, ns.
    pub executing_ns: u64,
    /// Bytes of the reply.
    pub reply_bytes: usize,
}

impl Engine {
    /// Serves the clients whose wait is over: keys first, in the order in which they became ready. To be
    /// called between units.
    #[inline]
    pub(crate) fn serve_waiting(&mut self, process: &mut dyn Process) {
        if self.core.control.clients.blocking.is_due() {
            self.serve_due(process);
        }
    }

    #[cold]
    fn serve_due(&mut self, process: &mut dyn Process) {
        if self.core.control.persistence.has_stopped {
            return;
        }
        // Asked each time: the EXEC of a client that is served may stand still.
        while self.core.control.between_units(BetweenUnits::Service)
            && let Some(due) = self.core.control.clients.blocking.next_due()
        {
            match due {
                ReadyWork::NodeDecisions => self.take_cluster_outputs(process),
                ReadyWork::Key(db, key) => self.serve_key(db, &key, process),
                ReadyWork::Resumed(client) => self.run_waiting(client, process),
                ReadyWork::Unblocked(client) => self.end_by_request(client, process),
                ReadyWork::Acknowledged => self.serve_acknowledged(process),
                ReadyWork::UserLoads => self.serve_user_loads(process),
                ReadyWork::SlowReads => self.serve_slow_reads(process),
            }
        }
    }

    /// Serves the clients that wait for a key, in the order of their coming, as long as the key has what they
    /// want. Those that begin to wait meanwhile are left to the next time.
    fn serve_key(&mut self, db: usize, name: &[u8], process: &mut dyn Process) {
        let last = self.core.control.clients.blocking.last_order();
        let mut after = 0;
        while let Some((order, client)) =
            self.core.control.clients.blocking.next_waiter(db, name, after, last)
        {
            after = order;
            let key = self.core.keyspace.key(name);
            let now = process.recent();
            let Some(session) = self.core.sessions.get(client) else { continue };
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
        let db = self.core.keyspace.db(db);
        let found = db.find(key)?;
        let expired = db.expiry(found.handle).is_some_and(|at_ms| now.unix_ms() > at_ms);
        (!expired).then(|| db.entry(found.handle).type_of())
    }

    /// Runs a waiting client's command again.
    pub(crate) fn run_waiting(&mut self, client: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.core.sessions.take(client) else { return };
        let Some(waiting) = self.core.control.unpark(&mut session) else {
            return self.core.sessions.put_back(session);
        };
        // A client that is being closed does nothing more.
        if session.caller.closing != Closing::No {
            return self.core.sessions.put_back(session);
        }
        let Waiting { request, prepared, on, .. } = *waiting;
        let began = process.recent();
        let mut now = began;
        let again = {
            let request = request.at(0);
            let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
            let args = Args::new(&request, &prepared, &hashing);
            session.is_rerun = matches!(on, WaitFor::Keys(_) | WaitFor::ReplicasFirst { .. });
            session.was_postponed = matches!(on, WaitFor::Pause);
            let next = self.process_again(&mut session, &prepared, args, request, &mut now, process);
            (session.is_rerun, session.was_postponed) = (false, false);
            self.note_slow_read_waited(on, &next, began);
            if next == Next::Done && session.caller.is_primary() {
                self.core.control.note_applied(&mut session, &request);
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
                self.core.control.park(&mut session, request, prepared, on);
            }
        }
        self.core.sessions.put_back(session);
    }

    /// Lets a client's next requests go on.
    pub(crate) fn resume(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.note_output(&mut self.core.control.clients.ready);
        self.after_batch(session, process);
        self.core.actions.push(Action::Resume(vec![session.key]));
    }

    /// Answers the clients of WAIT whose replicas have acknowledged enough.
    fn serve_acknowledged(&mut self, process: &mut dyn Process) {
        for client in self.core.control.clients.blocking.waiting_for_replicas() {
            let Some(session) = self.core.sessions.get(client) else { continue };
            match session.waiting.as_ref().map(|waiting| waiting.on) {
                Some(WaitFor::Replicas { count, offset, local: None, .. }) => {
                    let acknowledged = self.replicas_at(offset);
                    if acknowledged >= count {
                        self.end_wait(client, process, |reply| reply.int(acknowledged));
                    }
                }
                Some(WaitFor::Replicas { local: Some(local), .. })
                    if local.is_awaited && !self.core.control.wants_aof() =>
                {
                    self.end_wait(client, process, |reply| reply.error(&AOF_IS_OFF.wire()));
                }
                Some(WaitFor::Replicas { count, offset, local: Some(local), .. }) => {
                    let is_durable = self.core.control.is_kept(local.position);
                    let acknowledged = self.aof_replicas_at(offset);
                    if (is_durable || !local.is_awaited) && acknowledged >= count {
                        self.end_wait(client, process, |reply| {
                            reply_waitaof(reply, is_durable, acknowledged)
                        });
                    }
                }
                Some(WaitFor::ReplicasFirst { count, offset, .. }) => {
                    if self.replicas_at(offset) >= count {
                        self.run_waiting(client, process);
                    }
                }
                Some(
                    WaitFor::Keys(_)
                    | WaitFor::Pause
                    | WaitFor::Load
                    | WaitFor::Users
                    | WaitFor::UserLoads
                    | WaitFor::Shutdown
                    | WaitFor::SlowRead { .. }
                    | WaitFor::Reply
                    | WaitFor::Unit
                    | WaitFor::Held
                    | WaitFor::Turn
                    | WaitFor::Migration(_)
                    | WaitFor::Cluster(_),
                )
                | None => {}
            }
        }
    }

    /// How many replicas have acknowledged an offset.
    pub(crate) fn replicas_at(&self, offset: u64) -> i64 {
        sluice_control::replication::acks::replicas_at(&self.core.control, &self.core.sessions, offset)
    }

    /// How many replicas have said that what stands before an offset is on their disks.
    fn aof_replicas_at(&self, offset: u64) -> i64 {
        sluice_control::replication::acks::aof_replicas_at(&self.core.control, &self.core.sessions, offset)
    }

    /// Ends the waits whose time is over; returns the milliseconds until the next one.
    pub(crate) fn expire_waits(&mut self, now: Now, process: &mut dyn Process) -> Option<u64> {
        let now_ms = now.mono_ns / 1_000_000;
        while let Some(client) = self.core.control.clients.blocking.next_expired(now_ms) {
            self.end_as_timeout(client, process);
        }
        Some(self.core.control.clients.blocking.next_deadline_ms()?.saturating_sub(now_ms))
    }

    fn end_as_timeout(&mut self, client: SessionKey, process: &mut dyn Process) {
        let on = self.core.sessions.get(client).and_then(|session| Some(session.waiting.as_ref()?.on));
        match on {
            Some(WaitFor::Replicas { offset, local: Some(local), .. }) => {
                let is_durable = self.core.control.is_kept(local.position);
                let acknowledged = self.aof_replicas_at(offset);
                self.end_wait(client, process, |reply| reply_waitaof(reply, is_durable, acknowledged));
            }
            Some(WaitFor::Replicas { offset, local: None, .. }) => {
                let acknowledged = self.replicas_at(offset);
                self.end_wait(client, process, |reply| reply.int(acknowledged));
            }
            Some(WaitFor::Keys(_)) => self.end_wait(client, process, |reply| reply.null_array()),
            Some(WaitFor::ReplicasFirst { .. }) => {
                let error = CmdError::text("NOREPLICAS Not enough good replicas to write.");
                self.core.stats.count_error(&error.wire());
                self.end_wait(client, process, |reply| reply.error(&error.wire()));
            }
            // These end by themselves.
            Some(
                WaitFor::Pause
                | WaitFor::Load
                | WaitFor::Users
                | WaitFor::UserLoads
                | WaitFor::Shutdown
                | WaitFor::SlowRead { .. }
                | WaitFor::Reply
                | WaitFor::Unit
                | WaitFor::Held
                | WaitFor::Turn
                | WaitFor::Migration(_)
                | WaitFor::Cluster(_),
            )
            | None => {}
        }
    }

    /// CLIENT UNBLOCK.
    fn end_by_request(&mut self, client: SessionKey, process: &mut dyn Process) {
        let waiting = self.core.sessions.get(client).and_then(|session| session.waiting.as_ref());
        let spec = waiting.and_then(|waiting| match waiting.prepared.named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        });
        match waiting.and_then(|waiting| waiting.unblock) {
            Some(Unblock::Timeout) => self.end_as_timeout(client, process),
            Some(Unblock::Error) => {
                let error = CmdError::text("UNBLOCKED client unblocked via CLIENT UNBLOCK");
                self.core.stats.count_error(&error.wire());
                if let Some(spec) = spec {
                    self.core.stats.commands[spec.id.0 as usize].rejected += 1;
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
        let Some(mut session) = self.core.sessions.take(client) else { return };
        if session.waiting.is_some() {
            let mark = session.outbox.mark();
            answer(&mut Reply::new(&mut session.outbox, session.caller.proto));
            self.end_waiting_at(
                CommandEnding::Answered,
                ProducedTimes::default(),
                mark,
                &mut session,
                process,
            );
            self.resume(&mut session, process);
        }
        self.core.sessions.put_back(session);
    }

    /// Ends a command whose session has waited, without running it again, and takes its request back.
    pub(crate) fn end_waiting(
        &mut self,
        ending: CommandEnding,
        times: ProducedTimes,
        session: &mut Session,
        process: &mut dyn Process,
    ) {
        let mark = session.outbox.mark();
        self.end_waiting_at(ending, times, mark, session, process);
    }

    /// As [`Engine::end_waiting`], with a reply that begins at `mark`.
    fn end_waiting_at(
        &mut self,
        ending: CommandEnding,
        times: ProducedTimes,
        mark: Mark,
        session: &mut Session,
        process: &mut dyn Process,
    ) {
        let Some(waiting) = self.core.control.unpark(session) else { return };
        let Named::Command(spec) = waiting.prepared.named else { return };
        let request = waiting.request.at(0);
        let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
        let mut now = process.recent();
        // Nothing is committed: the command has changed nothing, or has been committed where it ran.
        let mut unit = Unit::new(now);
        let ended = Ended {
            unit: &mut unit,
            spec,
            args: Args::new(&request, &waiting.prepared, &hashing),
            db: session.caller.db,
            request_bytes: request.wire_len(),
            mark,
            produced_bytes: times.reply_bytes,
            earlier_ns: 0,
            duration_ns: times.duration_ns,
            executing_ns: times.executing_ns,
        };
        self.end_command(ending, ended, session, &mut now, process);
    }

    /// Forgets what a session waits for and watches: it ends.
    pub(crate) fn forget_waits(&mut self, session: &mut Session, process: &mut dyn Process) {
        self.end_lost_read(session, process);
        if let Some(waiting) = self.core.control.unpark(session)
            && let Some(open) = self.open.as_mut().filter(|_| waiting.on == WaitFor::Unit)
        {
            open.request = Some(waiting);
        }
        self.core.control.clients.watching.forget(session.key);
    }
}

//! How clients' waits end without running their commands again.

use crate::core::Core;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::unit::Unit;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_command::Named;
use sluice_commands::{Args, CmdError, Hashing, WaitFor};
use sluice_control::action::Action;
use sluice_control::process::Process;
use sluice_control::replication::acks::{aof_replicas_at, replicas_at};
use sluice_control::replication::waitaof::reply_waitaof;
use sluice_resp::{Mark, Reply};
use sluice_session::blocking::Unblock;
use sluice_session::{Authentication, Closing, Session};

/// Cost of a command whose reply was not written while the command ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProducedTimes {
    /// Processor time in all, ns.
    pub duration_ns: u64,
    /// The part of `duration_ns` on the main thread, for which all clients waited, ns.
    pub executing_ns: u64,
    /// Bytes of the reply.
    pub reply_bytes: usize,
}

/// Steps that end the waits of clients.
pub(crate) struct WaitEnds<'a> {
    core: &'a mut Core,
}

impl<'a> WaitEnds<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> WaitEnds<'a> {
        WaitEnds { core }
    }
}

impl WaitEnds<'_> {
    /// Ends the waits whose time is over. Returns the milliseconds until the next deadline; `None` if there
    /// is none.
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
                let acknowledged = aof_replicas_at(&self.core.control, &self.core.sessions, offset);
                self.end_wait(client, process, |reply| reply_waitaof(reply, is_durable, acknowledged));
            }
            Some(WaitFor::Replicas { offset, local: None, .. }) => {
                let acknowledged = replicas_at(&self.core.control, &self.core.sessions, offset);
                self.end_wait(client, process, |reply| reply.int(acknowledged));
            }
            Some(WaitFor::Keys(_)) => self.end_wait(client, process, |reply| reply.null_array()),
            Some(WaitFor::ReplicasFirst { .. }) => {
                let error = CmdError::text("NOREPLICAS Not enough good replicas to write.");
                self.core.stats.count_error(&error.wire());
                self.end_wait(client, process, |reply| reply.error(&error.wire()));
            }
            // These waits have no deadline.
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

    /// Ends the wait of a client that CLIENT UNBLOCK has named.
    pub(crate) fn end_by_request(&mut self, client: SessionKey, process: &mut dyn Process) {
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
            // The client was served, or is gone.
            None => {}
        }
    }

    /// Ends a client's wait with this reply, without running its command.
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

    /// Ends a command whose session has waited, without running it again, and drops its request.
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

    /// As [`WaitEnds::end_waiting`], with a reply that begins at `mark`.
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
        self.core.end_command(ending, ended, session, &mut now, process);
    }

    /// Makes a client's next requests run.
    pub(crate) fn resume(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.note_output(&mut self.core.control.clients.ready);
        self.after_batch(session, process);
        self.core.actions.push(Action::Resume(vec![session.key]));
    }

    /// Counts a slow read (a read whose large reply another thread produces) whose session ends before its
    /// reply is complete. The command has taken effect (a pop, for example, has removed its elements), so it
    /// counts, with its time on the main thread.
    pub(crate) fn end_lost_read(&mut self, session: &mut Session, process: &mut dyn Process) {
        let Some(producing) = session.take_producing() else { return };
        let executing_ns = producing.executing_ns;
        let times = ProducedTimes { duration_ns: executing_ns, executing_ns, reply_bytes: 0 };
        self.end_waiting(CommandEnding::Lost, times, session, process);
    }

    /// Closes an unauthenticated client with too much unread output, and a client that is to be closed after
    /// its reply once it has no unread output.
    #[cold]
    pub(crate) fn after_batch(&mut self, session: &mut Session, process: &mut dyn Process) {
        if session.caller.flags.authentication == Authentication::Never {
            self.core.limit_output(session, process);
        }
        if session.caller.closing == Closing::AfterReply && session.output_bytes() == 0 {
            self.core.control.clients.to_close.push(session.key);
        }
    }
}

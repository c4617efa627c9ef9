//! The run of one request: checks of existence and arity, the gate, the handler with its context, and the
//! commit.

use crate::cluster::exports::held;
use crate::cluster::slot_costs::count_refused;
use crate::core::Core;
use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::gate::{Asked, Permit, Verdict};
use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use crate::upkeep::evict::Evictions;
use crate::users::UserUpdates;
use crate::waiting::migration::MigrationEnds;
use crate::waiting::slow_reads::SlowReadSteps;
use sluice_acl::{Denial, RefusalContext};
use sluice_base::{LogLevel, Now};
use sluice_command::specs::transactions;
use sluice_command::{Flags, Named, Spec};
use sluice_commands::{Args, CmdError, Migration, Outcome, Prepared, ReplyMode, WaitFor};
use sluice_control::action::Action;
use sluice_control::cluster::move_ends::{fail_export_of, fail_import_of};
use sluice_control::process::Process;
use sluice_control::replication::applied;
use sluice_control::unknown::{unknown_command, unknown_subcommand};
use sluice_control::upkeep::evict::Headroom;
use sluice_control::users::rights;
use sluice_resp::{Reply, Request};
use sluice_session::{AskingState, Session};

/// The result of processing a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The request was executed, queued or rejected.
    Done,
    /// The request must wait for this.
    Wait(Box<WaitFor>),
}

impl Engine {
    /// Runs the request of a client again, after the client has waited.
    #[cold]
    pub(crate) fn process_again(
        &mut self,
        session: &mut Session,
        item: &Prepared,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        session.caller.flags.asking = session.caller.flags.asking.before_again();
        self.process_request(session, item, args, request, now, process)
    }

    /// Runs one command of a transaction.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run_queued(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        // The previous command may have changed the state against which this command is checked.
        self.core.refresh_derived();
        let permit = match self.core.gate.pass(spec, session, Standing::Queued) {
            Some(permit) => permit,
            None => match self.core.gate.ask_inside(&Asked::queued(
                spec,
                args,
                session,
                &self.core.control,
                &self.core.keyspace,
                *now,
            )) {
                Ok(permit) => permit,
                Err(refused) => {
                    self.refuse_queued(session, refused, spec, args, *now);
                    return Next::Done;
                }
            },
        };
        self.run_command(unit, permit, session, spec, args, request, now, process)
    }

    /// Runs a command that a script calls.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn run_called(
        &mut self,
        unit: &mut Unit,
        permit: Permit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        self.run_command(unit, permit, session, spec, args, request, now, process)
    }

    /// Runs one request, unless it must wait. Inlined into the loop over a batch, because a call would cost
    /// 80 instructions a request. Request and arguments are passed by value: a single reference to them, even
    /// on a path that is never taken, would make the compiler write both to memory for every command.
    #[inline(always)]
    pub(super) fn process_request(
        &mut self,
        session: &mut Session,
        item: &Prepared,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        self.core.refresh_derived();
        if session.caller.reply != ReplyMode::On {
            session.caller.reply = session.caller.reply.next();
        }
        let spec = match item.named {
            Named::Command(spec) if spec.arity.accepts(args.len()) => spec,
            _ => {
                match request.is_http() {
                    true => self.core.end_http(session, now.unix_s(), process),
                    false => self.reject_unknown(session, item.named, args, request, process),
                }
                return Next::Done;
            }
        };
        let permit = match self.core.gate.pass(spec, session, Standing::Client) {
            Some(permit) => permit,
            None => match self.pass_or_ask(session, spec, item, args, now, process) {
                Verdict::Run(permit) => permit,
                Verdict::Reject(rejection) => {
                    self.reject(session, spec, &rejection.error, args, request, process);
                    return Next::Done;
                }
                Verdict::Deny(denial) => {
                    self.refuse(session, denial, spec, args, request, *now, process);
                    return Next::Done;
                }
                Verdict::Queue => {
                    self.queue_command(session, spec, *item, request, process);
                    return Next::Done;
                }
                Verdict::Postpone => {
                    session.caller.last_command = Some(spec);
                    return Next::Wait(Box::new(self.postponed_for()));
                }
            },
        };
        let mut unit = self.core.begin_unit(*now);
        let next = self.run_command(&mut unit, permit, session, spec, args, request, now, process);
        self.core.close_unit(unit, session, spec);
        if self.core.control.clients.pubsub.outgoing.is_unfinished() {
            self.core.finish_delivery(session, process);
        }
        next
    }

    /// Executes a command that has its permit, as part of a unit, and commits it.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub(super) fn run_command(
        &mut self,
        unit: &mut Unit,
        permit: Permit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        if unit.standing.row().counts_request {
            session.caller.last_command = Some(spec);
            session.caller.traffic.net_in += if session.is_rerun { 0 } else { request.wire_len() as u64 };
        }
        let mark = session.outbox.mark();
        let db = session.caller.db;
        let is_checked = self.probes.declared_keys.is_on();
        if is_checked {
            self.record_declared_keys();
        }
        let result = self.dispatch(unit, permit, session, spec, args, now, process);
        if is_checked {
            self.check_declared_keys(spec, args, db);
        }
        // The number is computed anew on each path, because a value that a cold path uses, too, would be
        // written to memory for every command.
        let request_bytes = request.wire_len();
        if let Ok(Outcome::Done) = &result {
            // There is nothing to drop, but the compiler would call a function to find that out.
            std::mem::forget(result);
            let ended = Ended::new(unit, spec, args, db, request_bytes, mark);
            self.core.take_ending_steps(CommandEnding::Done, ended, session, now, process);
            return Next::Done;
        }
        let ended = Ended::new(unit, spec, args, db, request_bytes, mark);
        match result {
            Ok(outcome) => self.defer(outcome, ended, session, request, now, process),
            Err(error) => self.fail_command(&error, ended, session, now, process),
        }
    }

    /// Ends a command that failed: its reply is the error only.
    #[cold]
    fn fail_command(
        &mut self,
        error: &CmdError,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        session.outbox.rewind(ended.mark);
        if let CmdError::BadData(line) = error {
            process.log(LogLevel::Warning, line);
        }
        self.core.control.note_divergence(session, ended.spec, error, process);
        self.core.reply_error(session, error);
        self.core.end_command(CommandEnding::Failed, ended, session, now, process);
        Next::Done
    }

    /// Handles an outcome other than the usual one: a reply that contains an error, a wait, a reply that a
    /// thread produces, a suspension, or a migration. Inside a transaction or script, where no command can
    /// wait, the migration is done in place.
    #[cold]
    fn defer(
        &mut self,
        outcome: Outcome,
        ended: Ended<'_>,
        session: &mut Session,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        match outcome {
            Outcome::Done => {
                self.core.end_command(CommandEnding::Done, ended, session, now, process);
                Next::Done
            }
            Outcome::DoneWithError => {
                self.core.end_command(CommandEnding::Failed, ended, session, now, process);
                Next::Done
            }
            Outcome::Wait(on) => self.begin_wait(on, ended, session, request, now, process),
            Outcome::WaitSince(on, replaced) => {
                self.core.control.clients.blocking.replaced_args = replaced;
                self.begin_wait(on, ended, session, request, now, process)
            }
            Outcome::Produce(read) => {
                let on =
                    SlowReadSteps::of(&mut self.core).begin_slow_read(read, ended, session, now, process);
                Next::Wait(Box::new(on))
            }
            Outcome::Migrate(migration) if !ended.unit.standing.row().may_wait => {
                match MigrationEnds::of(&mut self.core).migrate_in_place(
                    session,
                    *migration,
                    ended.unit.now,
                    process,
                ) {
                    Ok(()) => {
                        self.core.end_command(CommandEnding::Done, ended, session, now, process);
                        Next::Done
                    }
                    Err(error) => self.fail_command(&error, ended, session, now, process),
                }
            }
            Outcome::StandStill if ended.unit.standing == Standing::Queued => {
                self.yield_queued(ended, session, now, process)
            }
            Outcome::StandStill => self.stand_still(ended, session, now, process),
            Outcome::Migrate(migration) => self.begin_migration(migration, ended, session, now, process),
        }
    }

    /// Ends the run of a command that cannot go on before an event. The caller stores the request in the
    /// session (`Control::park`).
    #[cold]
    fn begin_wait(
        &mut self,
        mut on: Box<WaitFor>,
        ended: Ended<'_>,
        session: &mut Session,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let ending = match &mut *on {
            WaitFor::SlowRead { since_ns } => {
                *since_ns = ended.unit.now.mono_ns;
                SlowReadSteps::of(&mut self.core).postpone_slow_read(session, request);
                CommandEnding::Deferred
            }
            WaitFor::Keys(_)
            | WaitFor::Pause
            | WaitFor::Held
            | WaitFor::Turn
            | WaitFor::Unit
            | WaitFor::Replicas { .. }
            | WaitFor::ReplicasFirst { .. }
            | WaitFor::Load
            | WaitFor::Users
            | WaitFor::UserLoads
            | WaitFor::Shutdown
            | WaitFor::Reply
            | WaitFor::Migration(_)
            | WaitFor::Cluster(_) => CommandEnding::Blocked,
        };
        self.core.end_command(ending, ended, session, now, process);
        Next::Wait(on)
    }

    /// The gate's answer to a request for which a check may have to be asked. In a cluster, the prepared
    /// hashes of the keys are enough for most requests.
    #[inline]
    fn pass_or_ask(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        item: &Prepared,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Verdict {
        if let Some(mode) = &self.core.control.cluster
            && let Some(permit) = self.core.gate.pass_own_slot(spec, session, item, args, &mode.served)
        {
            return Verdict::Run(permit);
        }
        self.ask_gate(session, spec, args, now, process)
    }

    /// Notes at the beginning of a request whether ASKING applies to it.
    #[cold]
    fn note_asking(&mut self, session: &mut Session) {
        let is_in_multi = session.transaction.is_some();
        session.caller.flags.asking = session.caller.flags.asking.at_request(is_in_multi);
        session.mask = self.core.gate.session_mask(session);
    }

    #[cold]
    fn ask_gate(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Verdict {
        if session.caller.flags.asking != AskingState::No {
            self.note_asking(session);
        }
        let room = match self.core.control.limits.maxmemory {
            0 => Headroom::Enough,
            // While a transaction or script is suspended, the request is postponed, and memory is freed when
            // the request runs again.
            _ if self.core.has_open_unit() => Headroom::Enough,
            _ => self.make_room_for(session, now, process),
        };
        self.scripting.is_full = room == Headroom::None;
        let script = self.flags_of_called_script(spec, args);
        let asked =
            Asked::new(spec, args, session, &self.core.control, &self.core.keyspace, script, *now, room);
        let verdict = self.core.gate.ask(&asked);
        let is_held = matches!(verdict, Verdict::Postpone) && !asked.session.is_rerun && held::waits(&asked);
        if is_held && let Some(mode) = self.core.control.cluster.as_deref_mut() {
            mode.exports_mut().holds.writes += 1;
        }
        if let Verdict::Run(_) = verdict
            && self.core.control.persistence.aof.is_strict()
        {
            session.wait_until_durable(self.core.control.persistence.aof.needed_by(spec, args));
        }
        verdict
    }

    /// The reason for which the gate has postponed a request.
    #[cold]
    fn postponed_for(&self) -> WaitFor {
        if *self.core.control.clients.unit_stands_open { WaitFor::Held } else { WaitFor::Pause }
    }

    /// Frees memory before a session's command. The command's own time begins after that.
    fn make_room_for(&mut self, session: &mut Session, now: &mut Now, process: &mut dyn Process) -> Headroom {
        let room = Evictions::of(&mut self.core).make_room(session.caller.proto, process);
        *now = process.recent();
        if self.core.control.clients.pubsub.outgoing.is_unfinished() {
            self.core.finish_delivery(session, process);
        }
        self.core.refresh_derived();
        room
    }

    /// Rejects a request that names no command, or has a wrong number of arguments. Unauthenticated
    /// clients get NOAUTH, so that the names of existing commands stay hidden. If the command needs no
    /// authentication and only the number of its arguments is wrong, they get the error of arity.
    #[cold]
    fn reject_unknown(
        &mut self,
        session: &mut Session,
        named: Named,
        args: Args<'_>,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        self.note_asking(session);
        let unauthenticated = session.caller.must_authenticate(&self.core.control.limits);
        let error = match named {
            Named::Command(spec) if unauthenticated && !spec.flags.has(Flags::NO_AUTH) => CmdError::NoAuth,
            Named::UnknownSubcommand(_) | Named::Unknown if unauthenticated => CmdError::NoAuth,
            Named::Command(spec) => {
                self.core.stats.commands[spec.id.0 as usize].rejected += 1;
                CmdError::Arity(spec.full_name)
            }
            Named::UnknownSubcommand(container) => unknown_subcommand(container, args),
            Named::Unknown => unknown_command(args),
        };
        if session.caller.is_primary() {
            match named {
                Named::Command(spec) if applied::carries_others(spec) => {
                    self.core.control.note_divergence(
                        session,
                        spec,
                        &CmdError::Arity(spec.full_name),
                        process,
                    );
                }
                Named::Command(_) | Named::UnknownSubcommand(_) | Named::Unknown => {
                    self.core.control.replication.note_dropped(args, process);
                }
            }
        }
        session.caller.last_command = match named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        };
        if session.caller.is_import() {
            fail_import_of(&mut self.core.control, session, &error, process);
        }
        if session.caller.is_export() {
            fail_export_of(&mut self.core.control, session.key, process);
        }
        let error = match named {
            Named::Command(spec) if spec.id == transactions::EXEC.id => self.reject_exec(session, &error),
            Named::Command(_) | Named::UnknownSubcommand(_) | Named::Unknown => error,
        };
        self.answer_error(session, &error, request, process);
    }

    /// Rejects a command that the gate has stopped.
    #[cold]
    fn reject(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        error: &CmdError,
        args: Args<'_>,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        if self.core.derived.counts_slots {
            count_refused(&mut self.core.control, session, spec, args, request.wire_len());
        }
        self.core.stats.commands[spec.id.0 as usize].rejected += 1;
        session.caller.last_command = Some(spec);
        self.core.control.note_divergence(session, spec, error, process);
        if spec.id == transactions::EXEC.id {
            let error = self.reject_exec(session, error);
            return self.answer_error(session, &error, request, process);
        }
        self.answer_error(session, error, request, process);
    }

    /// Rejects a command that the session's user may not run.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn refuse(
        &mut self,
        session: &mut Session,
        denial: Denial,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: Now,
        process: &mut dyn Process,
    ) {
        let context =
            if session.transaction.is_some() { RefusalContext::Multi } else { RefusalContext::Toplevel };
        // The ACL log shows the command that the client asked for, not the command that it ran before.
        session.caller.last_command = Some(spec);
        UserUpdates::of(&mut self.core).note_denial(session, denial, context, spec, args, now);
        let error = rights::error(denial, &session.caller, spec);
        self.reject(session, spec, &error, args, request, process);
    }

    /// Replies with an error to a request that does not run, and marks an open transaction of a client as
    /// aborted.
    #[cold]
    fn answer_error(
        &mut self,
        session: &mut Session,
        error: &CmdError,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        session.caller.traffic.net_in += request.wire_len() as u64;
        // A transaction of the primary is not aborted, because the primary has run its other commands.
        if let Some(transaction) = session.transaction.as_mut().filter(|_| !session.caller.is_primary()) {
            transaction.abort();
        }
        self.core.control.end_caching(session);
        let mark = session.outbox.mark();
        self.core.reply_error(session, error);
        self.core.control.apply_reply_mode(session, mark, process);
    }

    /// Begins a migration, for whose end the client waits.
    #[cold]
    pub(crate) fn begin_migration(
        &mut self,
        mut migration: Box<Migration>,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        self.core.end_command(CommandEnding::Blocked, ended, session, now, process);
        self.core.control.clients.migrations.begin(session.key, session.caller.db, &mut migration);
        let id = migration.id;
        self.core.actions.push(Action::Migrate(migration));
        Next::Wait(Box::new(WaitFor::Migration(id)))
    }
}

impl Core {
    /// Counts an error and writes the reply, unless the client's mode of replies drops it.
    #[cold]
    pub(crate) fn reply_error(&mut self, session: &mut Session, error: &CmdError) {
        let text = error.wire();
        self.stats.count_error(&text);
        // An error reply to a replica, or to the primary, means that one of the two servers is wrong.
        let is_unexpected = session.caller.replica.is_some() || session.caller.is_primary();
        self.stats.failures.unexpected += u64::from(is_unexpected);
        if matches!(session.caller.reply, ReplyMode::On | ReplyMode::Forbidden) {
            Reply::new(&mut session.outbox, session.caller.proto).error(&text);
        }
    }
}

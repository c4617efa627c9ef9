//! Execution: from a batch of parsed requests to replies.
//!
//! 1. `prepare`: every request's command and the hashes of its first 16 keys; buckets and entries are prefetched.
//! 2. For each request in order: existence and arity, gate, unit, context, handler, commit; then each client is served that
//!    waited for a key which the unit has filled.
//!
//! Batches are in `exec/batch.rs`, the contexts of handlers in `exec/ctx.rs`, and what joins the two in `exec/dispatch.rs`.

mod batch;
pub mod ctx;
mod declared;
mod dispatch;
mod replay;
mod transaction;

pub use batch::{Flow, Submitted};
pub use declared::DeclaredKeysCheck;
pub(crate) use replay::AofEnd;

use crate::args::Args;
use crate::blocking::WaitFor;
use crate::engine::Engine;
use crate::error::{CmdError, shown};
use crate::evict::Room;
use crate::gate::{Asked, Permit, Verdict};
use crate::limits::Limits;
use crate::prepare::Prepared;
use crate::process::{LogLevel, Process};
use crate::session::{Closing, ReplyMode, Session};
use crate::unit::Unit;
use ctx::Outcome;
use sluice_base::Now;
use sluice_command::specs::transactions;
use sluice_command::{Flags, Named, Spec};
use sluice_resp::{Mark, Reply, Request};

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was executed, queued or rejected.
    Done,
    /// It must wait.
    Wait(Box<WaitFor>),
}

/// What became of a command that has something to wait for.
enum PutOff {
    /// It did not have to wait, and was executed to its end.
    Executed {
        /// It has answered an error.
        failed: bool,
    },
    /// Its session waits, and the command is not committed as one that has ended.
    Waits(Next),
}

impl Engine {
    /// Runs one request of a client that waited, again.
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
        self.process_request(session, item, args, request, now, process)
    }

    /// Runs one command of a transaction.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn run_queued(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let permit = self.gate.of_queued();
        self.run_command(unit, permit, session, spec, args, request, now, process)
    }

    /// Runs one request, unless it must wait. Inlined into the loop over a batch: a call would cost 80 instructions
    /// a request. Request and arguments go by value here, because one reference to them, even on a path that is never taken,
    /// has both written to memory for every command.
    #[inline(always)]
    fn process_request(
        &mut self,
        session: &mut Session,
        item: &Prepared,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        if session.caller.reply != ReplyMode::On {
            session.caller.reply = session.caller.reply.next();
        }
        let spec = match item.named {
            Named::Command(spec) if spec.arity.accepts(args.len()) => spec,
            _ => {
                match request.is_http() {
                    true => self.end_http(session, now.unix_s(), process),
                    false => self.reject_unknown(session, item.named, args, request, process),
                }
                return Next::Done;
            }
        };
        let permit = match self.gate.pass(spec, session) {
            Some(permit) => permit,
            None => match self.ask_gate(session, spec, args, now, process) {
                Verdict::Run(permit) => permit,
                Verdict::Reject(error) => {
                    self.reject(session, spec, &error, request, process);
                    return Next::Done;
                }
                Verdict::Queue => {
                    self.queue_command(session, spec, *item, request, process);
                    return Next::Done;
                }
                Verdict::Postpone => {
                    session.caller.last_command = Some(spec);
                    return Next::Wait(Box::new(WaitFor::Pause));
                }
            },
        };
        let mut unit = self.open_unit(*now);
        let next = self.run_command(&mut unit, permit, session, spec, args, request, now, process);
        self.close_unit(unit, session, spec);
        if self.control.pubsub.outgoing.is_unfinished() {
            self.finish_delivery(session, process);
        }
        next
    }

    /// Executes a command that may run, as part of a unit, and commits it.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn run_command(
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
        // Consumed: a permit is good for one run.
        let Permit { .. } = permit;
        if !unit.is_nested() {
            session.caller.last_command = Some(spec);
            session.caller.net_in += if session.is_rerun { 0 } else { request.wire_len() as u64 };
        }
        let mark = session.outbox.mark();
        let db = session.caller.db;
        let is_checked = self.declared_keys_check.is_on();
        if is_checked {
            self.record_declared_keys();
        }
        let result = self.dispatch(unit, session, spec, args, now, process);
        if is_checked {
            self.check_declared_keys(spec, args, db);
        }
        let failed = match result {
            Ok(Outcome::Done) => false,
            Ok(outcome) => match self.put_off(outcome, unit, session, spec, args, request, now, process) {
                PutOff::Executed { failed } => failed,
                PutOff::Waits(next) => return next,
            },
            Err(error) => {
                session.outbox.rewind(mark);
                if let CmdError::BadData(line) = &error {
                    process.log(LogLevel::Warning, line);
                }
                self.reply_error(session, &error);
                true
            }
        };
        self.commit_command(db, args, unit.now, session.caller.proto);
        if self.has_unusual_access && !failed {
            self.note_local_expiries(session, spec, args, db);
        }
        let end = process.now();
        let duration_ns = end.mono_ns.saturating_sub(now.mono_ns);
        *now = end;
        self.account(session, spec, duration_ns, failed);
        let limits: &Limits = &self.control.limits;
        let request_bytes = request.wire_len();
        let reply_bytes = session.outbox.len_since(mark);
        let loggable = duration_ns as i64 >= limits.note_ns
            || request_bytes as i64 >= limits.large_request
            || reply_bytes as i64 >= limits.large_reply;
        if loggable {
            self.log_command(session, spec, args, duration_ns, request_bytes, reply_bytes, end);
        }
        if !self.control.monitors.is_empty() && !session.is_rerun {
            self.feed_monitors(session, spec, args, end);
        }
        if session.caller.reply != ReplyMode::On && !unit.is_nested() {
            self.apply_reply_mode(session, mark, process);
        }
        if session.output_bytes() >= self.control.limits.output_floor {
            self.limit_output(session, process);
        }
        Next::Done
    }

    /// Begins what a command waits for, or does in place what nobody can wait for inside a transaction.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn put_off(
        &mut self,
        outcome: Outcome,
        unit: &Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> PutOff {
        match outcome {
            Outcome::Done => PutOff::Executed { failed: false },
            Outcome::Wait(on) => {
                PutOff::Waits(self.begin_wait(session, spec, args, request, on, unit.now, process))
            }
            Outcome::WaitSince(on, replaced) => {
                self.control.blocking.replaced_args = replaced;
                PutOff::Waits(self.begin_wait(session, spec, args, request, on, unit.now, process))
            }
            Outcome::Produce(read) => {
                self.commit_command(session.caller.db, args, unit.now, session.caller.proto);
                if self.has_unusual_access {
                    self.note_local_expiries(session, spec, args, session.caller.db);
                }
                PutOff::Waits(self.begin_slow_read(session, spec, args, read, now, process))
            }
            Outcome::Migrate(migration) if unit.is_nested() => {
                let moved = self.migrate_in_place(session, *migration, unit.now, process);
                if let Err(error) = &moved {
                    self.reply_error(session, error);
                }
                PutOff::Executed { failed: moved.is_err() }
            }
            Outcome::Migrate(migration) => {
                PutOff::Waits(self.begin_migration(session, spec, args, migration, unit.now, process))
            }
        }
    }

    /// A command has found that it must wait. MONITOR shows it now, and not when it is served: but for a slow read, which
    /// happens when a thread is free.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn begin_wait(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: Request<'_>,
        mut on: Box<WaitFor>,
        now: Now,
        process: &mut dyn Process,
    ) -> Next {
        let is_put_off = matches!(*on, WaitFor::SlowRead { .. });
        if let WaitFor::SlowRead { since_ns } = &mut *on {
            *since_ns = now.mono_ns;
            self.put_off_slow_read(session, request);
        }
        self.commit_command(session.caller.db, args, now, session.caller.proto);
        if !self.control.monitors.is_empty() && !session.is_rerun && !is_put_off {
            self.feed_monitors(session, spec, args, process.recent());
        }
        Next::Wait(on)
    }

    #[inline(always)]
    pub(crate) fn account(&mut self, session: &mut Session, spec: &Spec, duration_ns: u64, failed: bool) {
        session.caller.commands += 1;
        let latency_tracking = self.control.limits.latency_tracking;
        self.stats.total_commands += 1;
        self.stats.iteration_command_ns += duration_ns;
        let stats = &mut self.stats.commands[spec.id.0 as usize];
        stats.calls += 1;
        stats.spent_ns += duration_ns;
        stats.failed += u64::from(failed);
        if latency_tracking {
            stats.latency.get_or_insert_default().record(duration_ns);
        }
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
        let room = match self.control.limits.maxmemory {
            0 => Room::Enough,
            _ => self.make_room_for(session, now, process),
        };
        let asked = Asked::new(spec, args, session, &self.control, *now, room);
        let verdict = self.gate.ask(&asked);
        if let Verdict::Run(_) = verdict
            && self.control.aof.is_strict()
        {
            session.wait_until_durable(self.control.aof.needed_by(spec, args));
        }
        verdict
    }

    /// Makes room ahead of a session's command, whose own time begins behind that.
    fn make_room_for(&mut self, session: &mut Session, now: &mut Now, process: &mut dyn Process) -> Room {
        let room = self.make_room(session.caller.proto, process);
        *now = process.recent();
        if self.control.pubsub.outgoing.is_unfinished() {
            self.finish_delivery(session, process);
        }
        room
    }

    /// Rejects a request that names no command, or has a wrong number of arguments. Unauthenticated clients get the same
    /// answer for all of these, so they do not learn which commands exist.
    #[cold]
    fn reject_unknown(
        &mut self,
        session: &mut Session,
        named: Named,
        args: Args<'_>,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        let unauthenticated = !session.caller.authenticated && !self.control.limits.password.is_empty();
        let error = match named {
            Named::Command(spec) if unauthenticated && !spec.flags.has(Flags::NO_AUTH) => CmdError::NoAuth,
            Named::UnknownSubcommand(_) | Named::Unknown if unauthenticated => CmdError::NoAuth,
            Named::Command(spec) => {
                self.stats.commands[spec.id.0 as usize].rejected += 1;
                CmdError::Arity(spec.full_name)
            }
            Named::UnknownSubcommand(container) => unknown_subcommand(container, args),
            Named::Unknown => unknown_command(args),
        };
        if session.caller.is_primary() {
            self.note_dropped(args, process);
        }
        session.caller.last_command = match named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        };
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
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        self.stats.commands[spec.id.0 as usize].rejected += 1;
        if spec.id == transactions::EXEC.id {
            let error = self.reject_exec(session, error);
            return self.answer_error(session, &error, request, process);
        }
        self.answer_error(session, error, request, process);
    }

    /// Answers a request that does not run.
    #[cold]
    fn answer_error(
        &mut self,
        session: &mut Session,
        error: &CmdError,
        request: Request<'_>,
        process: &mut dyn Process,
    ) {
        session.caller.net_in += request.wire_len() as u64;
        // The primary has run the others.
        if let Some(transaction) = session.transaction.as_mut().filter(|_| !session.caller.is_primary()) {
            transaction.abort();
        }
        let mark = session.outbox.mark();
        self.reply_error(session, error);
        self.apply_reply_mode(session, mark, process);
    }

    /// Does with the reply since `mark` what CLIENT REPLY, or being a replica, demands.
    #[cold]
    pub(crate) fn apply_reply_mode(&mut self, session: &mut Session, mark: Mark, process: &mut dyn Process) {
        match session.caller.reply {
            ReplyMode::On | ReplyMode::SkipNext | ReplyMode::Attaching => {}
            ReplyMode::Off => session.outbox.rewind(mark),
            ReplyMode::Skipping => {
                session.outbox.rewind(mark);
                session.caller.reply = ReplyMode::On;
            }
            ReplyMode::Forbidden if session.outbox.len_since(mark) == 0 => {}
            ReplyMode::Forbidden => {
                session.outbox.rewind(mark);
                session.caller.closing = Closing::Now;
                self.control.to_close.push(session.key);
                let command = session.caller.last_command.map_or("<unknown>", |spec| spec.full_name);
                let mut text =
                    format!("Replica generated a reply to command '{command}', disconnecting it: ");
                session.push_line(process.recent().unix_s(), &self.control.watching, None, &mut text);
                process.log(LogLevel::Warning, &text);
            }
        }
    }

    /// Writes an error reply and counts it.
    #[cold]
    pub(crate) fn reply_error(&mut self, session: &mut Session, error: &CmdError) {
        let text = error.wire();
        self.stats.count_error(&text);
        // An error sent to a replica means that the replica or this server is wrong.
        self.stats.unexpected_errors += u64::from(session.caller.replica.is_some());
        if matches!(session.caller.reply, ReplyMode::On | ReplyMode::Forbidden) {
            Reply::new(&mut session.outbox, session.caller.proto).error(&text);
        }
    }
}

/// The error for a name that is no command: name and arguments are shown shortened, and end at a zero byte.
fn unknown_command(args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shown(args.at(0), SHOWN_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut left = SHOWN_BYTES;
    for arg in args.iter_from(1) {
        if left == 0 {
            break;
        }
        let before = text.len();
        text.push(b'\'');
        text.extend_from_slice(shown(arg, left));
        text.extend_from_slice(b"' ");
        left = left.saturating_sub(text.len() - before);
    }
    CmdError::owned(text)
}

fn unknown_subcommand(container: &Spec, args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(shown(args.at(1), SHOWN_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", container.name().to_ascii_uppercase()).as_bytes());
    CmdError::owned(text)
}

/// Bytes of names and arguments shown in an error.
const SHOWN_BYTES: usize = 128;

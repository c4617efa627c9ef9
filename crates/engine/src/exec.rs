//! Execution: from a batch of parsed requests to replies.
//!
//! 1. `prepare`: every request's command and the hash of its first key; buckets and entries are prefetched.
//! 2. For each request in order: existence and arity, gate, unit, context, handler, commit; then those are served who
//!    wait for what the unit has brought.
//!
//! Times: the clock is read when the batch begins and after each command; a command starts when its predecessor ended.

use crate::args::Args;
use crate::blocking::WaitFor;
use crate::ctx::{
    DatasetCtx, DebugCtx, Handler, Outcome, ReadCtx, ServerCtx, SessionCtx, TransactionCtx, WriteCtx,
};
use crate::engine::Engine;
use crate::error::{CmdError, shown};
use crate::gate::{Asked, Permit, Verdict};
use crate::limits::Limits;
use crate::prepare::{Prepared, Preparer};
use crate::process::{LogLevel, Process};
use crate::session::{Closing, ReplyMode, Session, SessionKey};
use crate::unit::Unit;
use sluice_base::Now;
use sluice_command::specs::{generic, transactions};
use sluice_command::{Flags, Named, Spec};
use sluice_keyspace::{Access, ExpiryMode, Touch};
use sluice_resp::{Mark, Outbox, OwnedRequests, Reply, Request, Requests};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Requests executed (or refused); the input up to the end of the last one is used up.
    pub executed: usize,
    /// What follows.
    pub flow: Flow,
}

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// Its last request waits, kept in the session: the engine will ask for [`crate::Action::Resume`].
    Waiting,
    /// It ends: read nothing more.
    Closing,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was executed, queued or refused.
    Done,
    /// It must wait.
    Wait(WaitFor),
}

/// A batch under way.
struct Batch<'a> {
    input: &'a [u8],
    requests: &'a Requests,
    executed: usize,
    flow: Flow,
    /// End of the last command, which is the start of the next.
    now: Now,
}

impl Engine {
    /// Executes requests of a session in order, as far as it goes. `requests` are ranges of `input`.
    pub fn submit(
        &mut self,
        key: SessionKey,
        input: &[u8],
        requests: &Requests,
        process: &mut dyn Process,
    ) -> Submitted {
        let Some(mut session) = self.begin(key, process) else {
            return Submitted { executed: 0, flow: Flow::Closing };
        };
        let mut batch =
            Batch { input, requests, executed: 0, flow: flow_of(&session), now: process.recent() };
        let batch_max = self.control.limits.prefetch_batch;
        let mut prepared = std::mem::take(&mut self.prepared);
        while batch.flow == Flow::Continue && batch.executed < requests.len() {
            let end = (batch.executed + batch_max).min(requests.len());
            self.prepare(session.caller.db, input, requests, batch.executed..end, &mut prepared);
            session = self.execute(session, &mut batch, &prepared, process);
        }
        self.prepared = prepared;
        self.finish(session, batch, process)
    }

    /// The same for requests that a worker has prepared, all of them, and whose keys were prefetched
    /// ([`Engine::prefetch_buckets`], [`Engine::prefetch_entries`]).
    pub fn submit_prepared(
        &mut self,
        key: SessionKey,
        input: &[u8],
        requests: &Requests,
        prepared: &[Prepared],
        process: &mut dyn Process,
    ) -> Submitted {
        let Some(mut session) = self.begin(key, process) else {
            return Submitted { executed: 0, flow: Flow::Closing };
        };
        let mut batch =
            Batch { input, requests, executed: 0, flow: flow_of(&session), now: process.recent() };
        if batch.flow == Flow::Continue {
            session = self.execute(session, &mut batch, prepared, process);
        }
        self.finish(session, batch, process)
    }

    /// What workers prepare requests with; to be renewed when [`Engine::limits`] gives another snapshot.
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// Asks the processor for the buckets of prepared requests, ahead of [`Engine::prefetch_entries`].
    pub fn prefetch_buckets(&self, key: SessionKey, prepared: &[Prepared]) {
        let Some(session) = self.sessions.get(key) else { return };
        let db = self.keyspace.db(session.caller.db);
        prepared.iter().filter_map(Prepared::key_hash).for_each(|hash| db.prefetch_bucket(hash));
    }

    /// Asks the processor for the entries of prepared requests, ahead of [`Engine::submit_prepared`].
    pub fn prefetch_entries(&mut self, key: SessionKey, prepared: &[Prepared]) {
        let Some(session) = self.sessions.get(key) else { return };
        let db = self.keyspace.db(session.caller.db);
        let mut keys = 0;
        for hash in prepared.iter().filter_map(Prepared::key_hash) {
            db.prefetch_entry(hash);
            keys += 1;
        }
        self.stats.prefetch_entries += keys;
    }

    /// Counts a group of requests whose keys were prefetched together.
    pub fn count_prefetch_group(&mut self) {
        self.stats.prefetch_batches += 1;
    }

    #[inline]
    fn begin(&mut self, key: SessionKey, process: &mut dyn Process) -> Option<Box<Session>> {
        let mut session = self.sessions.take(key)?;
        session.caller.last_s = process.recent().unix_s();
        if session.outbox.capacity_bytes() == 0
            && let Some(spare) = self.spare.pop()
        {
            session.outbox = spare;
        }
        Some(session)
    }

    /// Executes prepared requests as far as it goes; gives the session back.
    #[inline]
    fn execute(
        &mut self,
        mut session: Box<Session>,
        batch: &mut Batch<'_>,
        prepared: &[Prepared],
        process: &mut dyn Process,
    ) -> Box<Session> {
        if self.keyspace.is_nearly_full(session.caller.db) != self.control.nearly_full {
            self.watch_room(process);
        }
        for item in prepared {
            let request = batch.requests.at(batch.executed, batch.input);
            let args = Args::new(&request, item.hashed, item.hash, self.seed);
            let next = self.process_request(&mut session, item, args, &request, &mut batch.now, process);
            batch.executed += 1;
            if let Next::Wait(on) = next {
                self.park(&mut session, OwnedRequests::of(&request), *item, on);
            }
            if self.control.blocking.is_due() {
                session = self.serve_between(session, process);
            }
            batch.flow = flow_of(&session);
            if batch.flow != Flow::Continue {
                break;
            }
        }
        session
    }

    /// Serves those who wait, between two requests of a session. The session takes its place in the table meanwhile, so
    /// that what others do reaches it.
    #[cold]
    fn serve_between(&mut self, session: Box<Session>, process: &mut dyn Process) -> Box<Session> {
        let key = session.key;
        self.sessions.put_back(session);
        self.serve_waiting(process);
        self.sessions.take(key).expect("only the server ends sessions, between batches")
    }

    #[inline]
    fn finish(
        &mut self,
        mut session: Box<Session>,
        batch: Batch<'_>,
        process: &mut dyn Process,
    ) -> Submitted {
        session.note_output(&mut self.control.ready);
        if !session.caller.ever_authenticated || batch.flow == Flow::Closing {
            self.after_batch(&mut session, process);
        }
        self.sessions.put_back(session);
        Submitted { executed: batch.executed, flow: batch.flow }
    }

    /// Ends a stranger that is owed too much, and a client that ends without being owed anything.
    #[cold]
    pub(crate) fn after_batch(&mut self, session: &mut Session, process: &mut dyn Process) {
        if !session.caller.ever_authenticated {
            self.limit_output(session, process);
        }
        if session.caller.closing == Closing::AfterReply && session.output_bytes() == 0 {
            self.control.doomed.push(session.key);
        }
    }

    fn prepare(
        &mut self,
        db: usize,
        input: &[u8],
        requests: &Requests,
        batch: std::ops::Range<usize>,
        out: &mut Vec<Prepared>,
    ) {
        out.clear();
        let many = batch.len() > 1;
        let db = self.keyspace.db(db);
        for i in batch {
            let item = self.preparer.prepare(&requests.at(i, input));
            if many && let Some(hash) = item.key_hash() {
                db.prefetch_bucket(hash);
            }
            out.push(item);
        }
        if many {
            let mut keys = 0;
            for hash in out.iter().filter_map(Prepared::key_hash) {
                db.prefetch_entry(hash);
                keys += 1;
            }
            if keys > 1 {
                self.stats.prefetch_batches += 1;
                self.stats.prefetch_entries += keys;
            }
        }
    }

    /// Runs one request, unless it must wait.
    #[inline]
    pub(crate) fn process_request(
        &mut self,
        session: &mut Session,
        item: &Prepared,
        args: Args<'_>,
        request: &Request<'_>,
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
                    false => self.refuse_unknown(session, item.named, args, request, process),
                }
                return Next::Done;
            }
        };
        let permit = match self.gate.pass(spec, session.mask) {
            Some(permit) => permit,
            None => match self.ask_gate(session, spec, args, *now, process) {
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
                    return Next::Wait(WaitFor::Pause);
                }
            },
        };
        let mut unit = self.open_unit(*now);
        let next = self.run_command(&mut unit, permit, session, spec, args, request, now, process);
        self.close_unit(unit, session, spec);
        next
    }

    /// Executes a command that may run, as part of a unit, and commits it.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(crate) fn run_command(
        &mut self,
        unit: &mut Unit,
        permit: Permit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        request: &Request<'_>,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> Next {
        let Permit { .. } = permit;
        if !unit.is_nested() {
            session.caller.last_command = Some(spec);
            session.caller.net_in += if session.is_rerun { 0 } else { request.raw().len() as u64 };
        }
        let mark = session.outbox.mark();
        let db = session.caller.db;
        let result = self.dispatch(unit, session, spec, args, now, process);
        let failed = match result {
            Ok(Outcome::Done) => false,
            Ok(Outcome::Wait(on)) => {
                self.commit_command(db, spec, args, unit.now);
                return self.begin_wait(session, spec, args, on, process);
            }
            Err(error) => {
                session.outbox.rewind(mark);
                self.reply_error(session, &error);
                true
            }
        };
        self.commit_command(db, spec, args, unit.now);
        let end = process.now();
        let nanos = end.mono_ns.saturating_sub(now.mono_ns);
        *now = end;
        self.account(session, spec, nanos, failed);
        let limits: &Limits = &self.control.limits;
        let request_bytes = request.raw().len();
        let reply_bytes = session.outbox.len_since(mark);
        let loggable = nanos as i64 >= limits.note_nanos
            || request_bytes as i64 >= limits.large_request && limits.large_request >= 0
            || reply_bytes as i64 >= limits.large_reply && limits.large_reply >= 0;
        if loggable {
            self.log_command(session, spec, args, nanos, request_bytes, reply_bytes, end);
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

    /// A command has found that it must wait. MONITOR shows it now, and not when it is served.
    #[cold]
    fn begin_wait(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        on: WaitFor,
        process: &mut dyn Process,
    ) -> Next {
        if !self.control.monitors.is_empty() && !session.is_rerun {
            self.feed_monitors(session, spec, args, process.recent());
        }
        Next::Wait(on)
    }

    #[inline]
    pub(crate) fn account(&mut self, session: &mut Session, spec: &Spec, nanos: u64, failed: bool) {
        session.caller.commands += 1;
        let latency_tracking = self.control.limits.latency_tracking;
        self.stats.total_commands += 1;
        self.stats.turn_command_nanos += nanos;
        let stats = &mut self.stats.commands[spec.id.0 as usize];
        stats.calls += 1;
        stats.nanos += nanos;
        stats.failed += u64::from(failed);
        if latency_tracking {
            stats.latency.get_or_insert_default().record(nanos);
        }
    }

    #[inline]
    fn dispatch(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        clock: &mut Now,
        process: &mut dyn Process,
    ) -> crate::ctx::Run {
        let handler = self.handlers[spec.id.0 as usize];
        let now = unit.now;
        let access = self.access(session, spec, now);
        let Engine { keyspace, effects, control, sessions, stats, actions, rng, gate, .. } = self;
        let number = session.caller.db;
        let proto = session.caller.proto;
        let limits: &Limits = &control.limits;
        match handler {
            Handler::Read(run) => {
                let db = keyspace.read(number, access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                run(&mut ReadCtx { db, limits, rng, reply }, args)
            }
            Handler::Write(run) => {
                let db = keyspace.write(number, access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                let may_wait = !unit.is_nested();
                run(&mut WriteCtx { db, limits, reply, spec, may_wait }, args)
            }
            Handler::Dataset(run) => {
                let data = keyspace.dataset(access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                run(&mut DatasetCtx { data, caller: &session.caller, limits, reply }, args)
            }
            Handler::Session(run) => {
                let reply = Reply::new(&mut session.outbox, proto);
                let result = run(&mut SessionCtx { caller: &mut session.caller, limits, stats, reply }, args);
                session.mask = gate.session_mask(session);
                result
            }
            Handler::Transaction(run) => {
                let db = keyspace.read(number, access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                let Session { key, caller, transaction, .. } = session;
                let watching = &mut control.watching;
                let result =
                    run(&mut TransactionCtx { db, key: *key, caller, transaction, watching, reply }, args);
                session.mask = gate.session_mask(session);
                self.refresh_listening();
                result
            }
            Handler::Exec => self.run_transaction(unit, session, clock, process),
            Handler::Server(run) => {
                let mut outbox = std::mem::take(&mut session.outbox);
                let reply = Reply::new(&mut outbox, proto);
                let may_wait = !unit.is_nested();
                let mut ctx = ServerCtx {
                    now,
                    session,
                    sessions,
                    control,
                    stats,
                    keyspace,
                    process,
                    actions,
                    reply,
                    may_wait,
                };
                let result = run(&mut ctx, args);
                self.after_server(session, outbox);
                result
            }
            Handler::Debug(run) => {
                let mut outbox = std::mem::take(&mut session.outbox);
                let reply = Reply::new(&mut outbox, proto);
                let data = keyspace.dataset(access, effects);
                let mut ctx = DebugCtx { now, data, session, control, process, actions, reply };
                let result = run(&mut ctx, args);
                self.after_server(session, outbox);
                result
            }
        }
    }

    /// A server command may have changed anything: the gate, what is listened to, and its own output.
    #[cold]
    fn after_server(&mut self, session: &mut Session, mut outbox: Outbox) {
        // What others pushed to this session meanwhile comes after its reply.
        outbox.append(&mut session.outbox);
        session.outbox = outbox;
        session.mask = self.gate.session_mask(session);
        self.refresh();
    }

    #[inline]
    fn access(&self, session: &Session, spec: &Spec, now: Now) -> Access {
        let limits: &Limits = &self.control.limits;
        let clock = now.unix_s() as u32 & sluice_keyspace::CLOCK_MASK;
        let mut touch = if limits.lfu { self.lfu_touch(now) } else { Touch::Lru(clock) };
        // TOUCH is asked for by name, so it touches all the same.
        if session.caller.flags.no_touch && spec.id != generic::TOUCH.id {
            touch = Touch::No { fresh: touch.fresh() };
        }
        let expiry = if limits.import_mode {
            if session.caller.flags.import_source { ExpiryMode::Ignore } else { ExpiryMode::Hide }
        } else if self.control.pause.active(now) {
            // A deletion is a write, which the pause keeps back.
            ExpiryMode::Hide
        } else {
            ExpiryMode::Delete
        };
        Access { now, touch, expiry }
    }

    fn lfu_touch(&self, now: Now) -> Touch {
        let limits = &self.control.limits;
        // The dice need not be secret, only uncorrelated with the key: the clock's low bits, mixed, are enough.
        let dice = (now.mono_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        Touch::Lfu {
            minutes: (now.unix_s() / 60) as u16,
            decay: limits.lfu_decay,
            factor: limits.lfu_factor,
            dice,
        }
    }

    #[cold]
    fn ask_gate(
        &mut self,
        session: &Session,
        spec: &'static Spec,
        args: Args<'_>,
        now: Now,
        process: &mut dyn Process,
    ) -> Verdict {
        let used_memory = if self.control.limits.maxmemory > 0 { process.used_memory() } else { 0 };
        let asked = Asked::new(spec, args, session, &self.control, now, used_memory);
        self.gate.ask(&asked)
    }

    /// Refuses what is no command. To strangers it is all the same: they learn nothing of what there is.
    #[cold]
    fn refuse_unknown(
        &mut self,
        session: &mut Session,
        named: Named,
        args: Args<'_>,
        request: &Request<'_>,
        process: &mut dyn Process,
    ) {
        let stranger = !session.caller.authenticated && !self.control.limits.password.is_empty();
        let error = match named {
            Named::Command(spec) if stranger && !spec.flags.has(Flags::NO_AUTH) => CmdError::NoAuth,
            Named::UnknownSubcommand(_) | Named::Unknown if stranger => CmdError::NoAuth,
            Named::Command(spec) => {
                self.stats.commands[spec.id.0 as usize].rejected += 1;
                CmdError::Arity(spec.full_name)
            }
            Named::UnknownSubcommand(container) => unknown_subcommand(container, args),
            Named::Unknown => unknown_command(args),
        };
        session.caller.last_command = match named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        };
        self.refuse(session, &error, request, process);
    }

    /// Refuses a command that the gate has stopped.
    #[cold]
    fn reject(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        error: &CmdError,
        request: &Request<'_>,
        process: &mut dyn Process,
    ) {
        self.stats.commands[spec.id.0 as usize].rejected += 1;
        if spec.id == transactions::EXEC.id && session.transaction.is_some() {
            let error = self.refuse_exec(session, error);
            return self.refuse(session, &error, request, process);
        }
        self.refuse(session, error, request, process);
    }

    /// Answers a request that does not run.
    #[cold]
    fn refuse(
        &mut self,
        session: &mut Session,
        error: &CmdError,
        request: &Request<'_>,
        process: &mut dyn Process,
    ) {
        session.caller.net_in += request.raw().len() as u64;
        if let Some(transaction) = &mut session.transaction {
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
                self.control.doomed.push(session.key);
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
        // A replica that is sent an error is no good, or we are none.
        self.stats.unexpected_errors += u64::from(session.caller.replica.is_some());
        if matches!(session.caller.reply, ReplyMode::On | ReplyMode::Forbidden) {
            Reply::new(&mut session.outbox, session.caller.proto).error(&text);
        }
    }
}

fn flow_of(session: &Session) -> Flow {
    match session.caller.closing {
        Closing::No if session.waiting.is_some() => Flow::Waiting,
        Closing::No => Flow::Continue,
        Closing::AfterReply | Closing::Now => Flow::Closing,
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

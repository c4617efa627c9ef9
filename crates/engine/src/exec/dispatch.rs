//! Dispatch: the engine taken apart into the context of a handler's kind.

use super::ctx::{
    DatasetCtx, DebugCtx, Handler, LogCtx, Observed, ReadCtx, ReportCtx, Run, Seal, ServerCtx, SessionCtx,
    StaticCtx, TransactionCtx, WriteCtx,
};
use crate::args::Args;
use crate::control::Control;
use crate::engine::Engine;
use crate::limits::Limits;
use crate::process::Process;
use crate::session::Session;
use crate::unit::Unit;
use sluice_base::Now;
use sluice_command::Spec;
use sluice_command::specs::generic;
use sluice_keyspace::{Access, ExpiryMode, Touch};
use sluice_resp::{Outbox, Reply};

impl Engine {
    #[inline]
    pub(super) fn dispatch(
        &mut self,
        unit: &mut Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        clock: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
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
                run(&mut ReadCtx { db, limits, rng, reply, _seal: Seal(()) }, args)
            }
            Handler::Write(run) => {
                let db = keyspace.write(number, access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                let may_wait = !unit.is_nested();
                run(&mut WriteCtx { db, limits, reply, spec, may_wait, _seal: Seal(()) }, args)
            }
            Handler::Dataset(run) => {
                let data = keyspace.dataset(access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                run(&mut DatasetCtx { data, caller: &session.caller, limits, reply, _seal: Seal(()) }, args)
            }
            Handler::Session(run) => {
                let reply = Reply::new(&mut session.outbox, proto);
                let result = run(
                    &mut SessionCtx { caller: &mut session.caller, limits, stats, reply, _seal: Seal(()) },
                    args,
                );
                session.mask = gate.session_mask(session);
                result
            }
            Handler::Transaction(run) => {
                let db = keyspace.read(number, access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                let Session { key, caller, transaction, .. } = session;
                let watching = &mut control.watching;
                let result = run(
                    &mut TransactionCtx {
                        db,
                        key: *key,
                        caller,
                        transaction,
                        watching,
                        reply,
                        _seal: Seal(()),
                    },
                    args,
                );
                session.mask = gate.session_mask(session);
                self.refresh_listening();
                result
            }
            Handler::Exec => self.run_transaction(unit, session, clock, process),
            Handler::Static(run) => {
                let reply = Reply::new(&mut session.outbox, proto);
                run(&mut StaticCtx { now, reply, _seal: Seal(()) }, args)
            }
            Handler::Log(run) => {
                let reply = Reply::new(&mut session.outbox, proto);
                let Control { commandlog, latency, .. } = control;
                run(&mut LogCtx { commandlog, latency, reply, _seal: Seal(()) }, args)
            }
            Handler::Report(run) => {
                let mut outbox = std::mem::take(&mut session.outbox);
                let reply = Reply::new(&mut outbox, proto);
                let process = Observed(process);
                let mut ctx = ReportCtx {
                    now,
                    session,
                    sessions,
                    control,
                    stats,
                    keyspace,
                    process,
                    reply,
                    _seal: Seal(()),
                };
                let result = run(&mut ctx, args);
                session.outbox = outbox;
                result
            }
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
                    _seal: Seal(()),
                };
                let result = run(&mut ctx, args);
                self.after_server(session, outbox);
                result
            }
            Handler::Debug(run) => {
                let mut outbox = std::mem::take(&mut session.outbox);
                let reply = Reply::new(&mut outbox, proto);
                let data = keyspace.dataset(access, effects);
                let mut ctx =
                    DebugCtx { now, data, session, control, process, actions, reply, _seal: Seal(()) };
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
}

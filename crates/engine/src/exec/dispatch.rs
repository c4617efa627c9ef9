//! Dispatch: calls a handler with the context of its kind, which borrows parts of the engine.

use crate::cluster::driver::ClusterDriver;
use crate::core::Core;
use crate::engine::Engine;
use crate::exec::gate::{self, Permit};
use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use crate::persistence::loading::aof::replay::replay;
use crate::persistence::rewriting::Rewrites;
use crate::persistence::saving::Saves;
use crate::replication::failover::FailoverSteps;
use crate::replication::maintenance::Notices;
use crate::replication::replicas::ReplicaFeeds;
use crate::replication::role::RoleChanges;
use crate::users::UserUpdates;
use sluice_base::{ChangeGuard, Now};
use sluice_cluster::SlotMap;
use sluice_command::Spec;
use sluice_command::specs::{cluster, generic, server};
use sluice_commands::{Args, CmdError, DataHandler, Limits, ReadCtx, Run, SlowReadAsk, StaticCtx, WriteCtx};
use sluice_control::cluster::move_ends::{fail_flushed_moves, fail_moves_of_flushed_slot};
use sluice_control::ctx::{
    ClusterCtx, DatasetCtx, DebugCtx, Handler, ImportsCtx, LogCtx, Observed, PubSubCtx, ReportCtx, ServerCtx,
    SessionCtx, TransactionCtx, UsersCtx,
};
use sluice_control::process::Process;
use sluice_control::replication::acks::counted_replicas;
use sluice_control::users::rights;
use sluice_control::{ClientRelations, Control};
use sluice_keyspace::{Access, AccessUpdate, ExpiryMode};
use sluice_resp::Reply;
use sluice_scripts::state::ScriptFacts;
use sluice_session::Session;
use sluice_session::line::LineSources;

/// Makes the contexts of handlers, each from the parts of the engine that handlers of its kind may use.
struct HandlerContexts<'a> {
    core: &'a mut Core,
}

impl Engine {
    /// Runs a command in the context of its handler's kind.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn dispatch(
        &mut self,
        unit: &mut Unit,
        permit: Permit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        clock: &mut Now,
        process: &mut dyn Process,
    ) -> Run {
        // The permit is consumed, because it is good for one run only.
        let Permit { .. } = permit;
        let handler = self.preparing.handlers[spec.id.0 as usize];
        let access = self.contexts().access(session, spec, unit.now);
        let Core { keyspace, effects, control, .. } = &mut self.core;
        let proto = session.caller.proto;
        let limits: &Limits = &control.limits;
        match handler {
            Handler::Data(handler) => self.contexts().run_data(handler, access, unit, session, spec, args),
            Handler::Dataset(run) => {
                let data = keyspace.dataset(access, effects);
                let reply = Reply::new(&mut session.outbox, proto);
                let mut ctx = DatasetCtx { data, caller: &session.caller, limits, reply };
                let result = run(&mut ctx, args);
                if [server::FLUSHALL.id, server::FLUSHDB.id].contains(&spec.id) && result.is_ok() {
                    fail_flushed_moves(&mut self.core.control, unit.now);
                }
                if spec.id == cluster::CLUSTER_FLUSHSLOT.id && result.is_ok() {
                    let slot = args.get(2).unwrap_or_default();
                    fail_moves_of_flushed_slot(&mut self.core.control, slot, unit.now);
                }
                if spec.id == server::FLUSHALL.id && result.is_ok() {
                    Saves::of(&mut self.core).save_emptiness(process);
                }
                result
            }
            Handler::Session(run) => self.contexts().for_session(run, unit.standing, session, args),
            Handler::Transaction(run) => self.contexts().for_transaction(run, session, access, args),
            Handler::Exec => self.run_transaction(unit, session, access, args, clock, process),
            Handler::PubSub(run) => self.contexts().for_pubsub(run, session, args),
            Handler::Report(run) => {
                let scripts = self.script_facts();
                self.contexts().for_report(run, unit, session, args, scripts, process)
            }
            Handler::Log(run) => {
                let reply = Reply::new(&mut session.outbox, proto);
                let Control { commandlog, latency, clients: ClientRelations { hot_keys, .. }, .. } = control;
                let hot_keys = &mut hot_keys.command;
                run(&mut LogCtx { now: unit.now, commandlog, latency, hot_keys, reply }, args)
            }
            Handler::Server(run) => self.contexts().for_server(run, unit, session, args, process),
            Handler::Cluster(run) => self.contexts().for_cluster(run, unit, session, args),
            Handler::Imports(run) => self.contexts().for_imports(run, unit, session, args),
            Handler::ReadByMap(run) => read_by_map(&mut self.core, run, access, unit, session, args),
            Handler::Users(run) => self.contexts().for_users(run, unit, session, args, process),
            Handler::Debug(run) => self.contexts().for_debug(run, access, unit, session, args, process),
            Handler::Script(command) => self.run_script(command, unit, session, args, clock, process),
        }
    }

    #[inline(always)]
    fn contexts(&mut self) -> HandlerContexts<'_> {
        HandlerContexts { core: &mut self.core }
    }
}

impl HandlerContexts<'_> {
    /// Runs a command about data. Inlined into its only caller.
    #[inline(always)]
    fn run_data(
        &mut self,
        handler: DataHandler,
        access: Access,
        unit: &Unit,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
    ) -> Run {
        let (number, proto) = (session.caller.db, session.caller.proto);
        let may_wait = unit.standing.row().may_wait;
        let reads_any_key = self.reads_any_key(session, spec, args);
        let Core { keyspace, effects, control, rng, .. } = self.core;
        let limits: &Limits = &control.limits;
        let reply = Reply::new(&mut session.outbox, proto);
        let slow = SlowReadAsk {
            reads: &mut control.clients.slow_reads,
            elements_max: limits.slow_read_elements,
            mode: session.caller.reply,
            may_wait,
        };
        match handler {
            DataHandler::Read(run) => {
                let db = keyspace.read(number, access, effects);
                run(&mut ReadCtx { db, limits, rng, slow, reply, may_wait, reads_any_key }, args)
            }
            DataHandler::Write(run) | DataHandler::Keeping(run) => {
                let db = keyspace.write(number, access, effects);
                run(&mut WriteCtx { db, limits, reply, rng, slow, spec, may_wait, reads_any_key }, args)
            }
            DataHandler::Static(run) => {
                let entries = &mut control.clients.command_entries;
                run(&mut StaticCtx { now: unit.told_now.unwrap_or(unit.now), entries, reply }, args)
            }
        }
    }

    /// Whether the session's user may read keys whose names are only in the data, as SORT by a pattern
    /// does. For a user with limited rights, the answer is computed for SORT and SORT_RO only, and is `false`
    /// for other commands.
    #[inline(always)]
    fn reads_any_key(&self, session: &Session, spec: &'static Spec, args: Args<'_>) -> bool {
        session.mask & gate::RIGHTS == 0 || self.sorts_by_any_key(session, spec, args)
    }

    #[cold]
    fn sorts_by_any_key(&self, session: &Session, spec: &'static Spec, args: Args<'_>) -> bool {
        let sorts = spec.id == generic::SORT.id || spec.id == generic::SORT_RO.id;
        sorts && rights::may_read_any_key(&session.caller, spec, args, self.core.control.limits.databases)
    }

    fn for_session(
        &mut self,
        run: fn(&mut SessionCtx<'_>, Args<'_>) -> Run,
        standing: Standing,
        session: &mut Session,
        args: Args<'_>,
    ) -> Run {
        let Core { control, gate, .. } = self.core;
        let reply = Reply::new(&mut session.outbox, session.caller.proto);
        let (caller, limits) = (ChangeGuard::new(&mut session.caller), &control.limits);
        let is_called = standing == Standing::Script;
        let mut ctx = SessionCtx { caller, is_called, limits, reply };
        let result = run(&mut ctx, args);
        // The session's mask is not computed after a PING, which changes nothing, because that would cost
        // as much as the rest of a PING.
        if ctx.caller.can_have_changed() {
            session.mask = gate.session_mask(session);
        }
        result
    }

    fn for_cluster(
        &mut self,
        run: fn(&mut ClusterCtx<'_>, Args<'_>) -> Run,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
    ) -> Run {
        let replicas = counted_replicas(&self.core.control, &self.core.sessions).count() as i64;
        let offset = ClusterDriver::of(self.core).offset_for_nodes();
        let Core { control, keyspace, effects, .. } = self.core;
        let Control { cluster, config, replication, clients, .. } = control;
        let Some(mode) = cluster.as_deref_mut() else {
            return Err(CmdError::NO_CLUSTER);
        };
        let result = session.with_reply(|session, reply| {
            let mut ctx = ClusterCtx {
                now: unit.now,
                session,
                mode,
                config,
                offset,
                is_replica: replication.replica.is_some(),
                replicas,
                effects,
                keyspace,
                reply,
                may_wait: unit.standing.row().may_wait,
            };
            run(&mut ctx, args)
        });
        if mode.machine.has_outputs() {
            clients.blocking.node_has_decided();
        }
        result
    }

    fn for_imports(
        &mut self,
        run: fn(&mut ImportsCtx<'_>, Args<'_>) -> Run,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
    ) -> Run {
        let Core { keyspace, effects, control, .. } = self.core;
        let Control { cluster, limits, clients, .. } = control;
        let proto = session.caller.proto;
        let mut ctx = ImportsCtx {
            now: unit.now,
            client: session.key,
            caller: &mut session.caller,
            may_wait: unit.standing.row().may_wait,
            mode: cluster.as_deref_mut(),
            imports: keyspace.import_marks(),
            limits,
            effects,
            reply: Reply::new(&mut session.outbox, proto),
        };
        let result = run(&mut ctx, args);
        if ctx.mode.is_some_and(|mode| mode.machine.has_outputs()) {
            clients.blocking.node_has_decided();
        }
        result
    }

    fn for_users(
        &mut self,
        run: fn(&mut UsersCtx<'_>, Args<'_>) -> Run,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
        process: &mut dyn Process,
    ) -> Run {
        let Core { control, stats, actions, .. } = self.core;
        let Control {
            clients: ClientRelations { users, watching, tracking, .. },
            config,
            limits,
            renames,
            ..
        } = control;
        let sources = LineSources { watching, tracking };
        let (now, may_wait) = (unit.now, unit.standing.row().may_wait);
        let result = session.with_reply(|session, reply| {
            let mut ctx = UsersCtx {
                now,
                session,
                users,
                sources,
                config,
                limits,
                renames,
                stats,
                process,
                actions,
                reply,
                may_wait,
            };
            run(&mut ctx, args)
        });
        self.after_server(session);
        result
    }

    fn for_transaction(
        &mut self,
        run: fn(&mut TransactionCtx<'_>, Args<'_>) -> Run,
        session: &mut Session,
        access: Access,
        args: Args<'_>,
    ) -> Run {
        let Core { keyspace, effects, control, gate, .. } = self.core;
        let db = keyspace.read(session.caller.db, access, effects);
        let Session { key, caller, transaction, outbox, .. } = session;
        let reply = Reply::new(outbox, caller.proto);
        let (key, watching) = (*key, &mut control.clients.watching);
        let mut ctx = TransactionCtx { db, key, caller, transaction, watching, reply };
        let result = run(&mut ctx, args);
        session.mask = gate.session_mask(session);
        result
    }

    fn for_pubsub(
        &mut self,
        run: fn(&mut PubSubCtx<'_>, Args<'_>) -> Run,
        session: &mut Session,
        args: Args<'_>,
    ) -> Run {
        let Core { effects, control, gate, .. } = self.core;
        let Session { key, caller, outbox, .. } = session;
        let before = caller.subscribed;
        let reply = Reply::new(outbox, caller.proto);
        let ClientRelations { pubsub, tracking, .. } = &mut control.clients;
        let key = *key;
        let result = run(&mut PubSubCtx { key, caller, pubsub, tracking, effects, reply }, args);
        if session.caller.subscribed != before {
            session.mask = gate.session_mask(session);
        }
        result
    }

    fn for_report(
        &mut self,
        run: fn(&mut ReportCtx<'_>, Args<'_>) -> Run,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
        scripts: ScriptFacts,
        process: &mut dyn Process,
    ) -> Run {
        let job = self.core.job_state();
        let Core { keyspace, control, sessions, stats, .. } = self.core;
        let now = unit.now;
        session.with_reply(|session, reply| {
            let process = Observed::new(process);
            let mut ctx =
                ReportCtx { now, session, sessions, control, stats, keyspace, job, scripts, process, reply };
            run(&mut ctx, args)
        })
    }

    fn for_server(
        &mut self,
        run: fn(&mut ServerCtx<'_>, Args<'_>) -> Run,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
        process: &mut dyn Process,
    ) -> Run {
        let Core { keyspace, control, sessions, stats, actions, .. } = self.core;
        let may_wait = unit.standing.row().may_wait;
        let result = session.with_reply(|session, reply| {
            let mut ctx = ServerCtx {
                now: unit.now,
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
            run(&mut ctx, args)
        });
        self.after_server(session);
        Rewrites::of(self.core).follow_appendonly(process);
        Saves::of(self.core).carry_out_asks(process);
        // During a command of the link to the primary the role is not changed here, because the link's
        // session, which ends with its role, is executing. A change of role that waited for a load is carried
        // out after the link's step.
        if !session.caller.is_primary() {
            RoleChanges::of(self.core).apply_role(process);
        }
        FailoverSteps::of(self.core).apply_failover(Some(session), process);
        if std::mem::take(&mut self.core.control.replication.maintenance.has_newcomer) {
            Notices::of(self.core, Some(session), process).tell_newcomer();
        }
        // During a replica's own command nothing is counted, because its session is not in the table then.
        if self.core.control.replication.count_good_replicas && session.caller.replica.is_none() {
            ReplicaFeeds::of(self.core).count_good_replicas(unit.now);
        }
        result
    }

    fn for_debug(
        &mut self,
        run: fn(&mut DebugCtx<'_>, Args<'_>) -> Run,
        access: Access,
        unit: &Unit,
        session: &mut Session,
        args: Args<'_>,
        process: &mut dyn Process,
    ) -> Run {
        let Core { keyspace, effects, control, actions, .. } = self.core;
        let data = keyspace.dataset(access, effects);
        let now = access.now;
        let may_wait = unit.standing.row().may_wait;
        let result = session.with_reply(|session, reply| {
            let mut ctx = DebugCtx { now, data, session, control, process, actions, reply, may_wait, replay };
            run(&mut ctx, args)
        });
        self.after_server(session);
        // DEBUG may have begun a load, which asks for the end of a save.
        Saves::of(self.core).carry_out_asks(process);
        result
    }

    /// Applies changes of users to all sessions, and updates the mask of the session whose command may have
    /// changed the users.
    #[cold]
    fn after_server(&mut self, session: &mut Session) {
        UserUpdates::of(self.core).apply_users(Some(session));
        session.mask = self.core.gate.session_mask(session);
    }

    #[inline(always)]
    fn access(&self, session: &Session, spec: &Spec, now: Now) -> Access {
        if self.core.derived.has_unusual_access || session.caller.flags.no_touch {
            return self.unusual_access(session, spec, now);
        }
        Access { now, touch: AccessUpdate::Lru(lru_clock(now)), expiry: ExpiryMode::Delete, must_obey: false }
    }

    #[cold]
    fn unusual_access(&self, session: &Session, spec: &Spec, now: Now) -> Access {
        let limits: &Limits = &self.core.control.limits;
        let mut touch = if limits.lfu { self.lfu_touch(now) } else { AccessUpdate::Lru(lru_clock(now)) };
        // TOUCH sets the access time even for a client with CLIENT NO-TOUCH.
        if session.caller.flags.no_touch && spec.id != generic::TOUCH.id {
            touch = AccessUpdate::No { fresh: touch.fresh() };
        }
        let must_obey = session.caller.must_obey();
        let expiry = if self.core.control.replication.replica.is_some() {
            // On a replica, the primary decides when a key is deleted; until then its commands access the key
            // as alive. For other clients an expired key is hidden.
            if must_obey { ExpiryMode::Ignore } else { ExpiryMode::Hide }
        } else if must_obey {
            // The command comes from a log or from the source of a move of slots, which contain the deletions
            // as commands, too.
            ExpiryMode::Ignore
        } else if limits.import_mode {
            if session.caller.flags.import_source { ExpiryMode::Ignore } else { ExpiryMode::Hide }
        } else if self.core.control.is_write_paused(now) {
            // Expired keys are hidden and not deleted, because a deletion is a write, which the pause holds
            // back.
            ExpiryMode::Hide
        } else {
            ExpiryMode::Delete
        };
        Access { now, touch, expiry, must_obey }
    }

    fn lfu_touch(&self, now: Now) -> AccessUpdate {
        let limits = &self.core.control.limits;
        // The random bits need not be secret, only independent of the key, so the clock's low bits suffice if
        // they are mixed.
        let dice = (now.mono_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        AccessUpdate::Lfu {
            minutes: (now.unix_s() / 60) as u16,
            decay: limits.lfu_decay,
            factor: limits.lfu_factor,
            dice,
        }
    }
}

fn lru_clock(now: Now) -> u32 {
    now.unix_s() as u32 & sluice_keyspace::CLOCK_MASK
}

/// Runs a command that reads data by the map of slots. A separate function, so that its variables are
/// not in the stack frame of every command.
#[cold]
#[inline(never)]
fn read_by_map(
    core: &mut Core,
    run: fn(&mut ReadCtx<'_>, &SlotMap, Args<'_>) -> Run,
    access: Access,
    unit: &Unit,
    session: &mut Session,
    args: Args<'_>,
) -> Run {
    let Core { keyspace, effects, control, rng, .. } = core;
    let map = control.cluster.as_ref().map(|mode| mode.map.clone()).ok_or(CmdError::NO_CLUSTER)?;
    let limits: &Limits = &control.limits;
    let may_wait = unit.standing.row().may_wait;
    let slow = SlowReadAsk {
        reads: &mut control.clients.slow_reads,
        elements_max: limits.slow_read_elements,
        mode: session.caller.reply,
        may_wait,
    };
    let db = keyspace.read(session.caller.db, access, effects);
    let reply = Reply::new(&mut session.outbox, session.caller.proto);
    let mut ctx = ReadCtx { db, limits, rng, slow, reply, may_wait, reads_any_key: false };
    run(&mut ctx, &map, args)
}

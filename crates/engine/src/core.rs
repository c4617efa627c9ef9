//! The core: the data, the sessions and the control plane, and the consequences of their changes.
//!
//! A function that holds only a [`Core`] cannot run a command: a core has neither the specs and handlers,
//! nor scripts, nor the open execution unit (a suspended transaction or script). These are fields of
//! [`Engine`](crate::engine::Engine). So the steps that work on a core call no command. Follow-up work that
//! runs commands, such as serving clients that waited, is left to the engine, which called the step.

use crate::exec::gate::Gate;
use sluice_base::Rng;
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::observe::info::ClientMemoryPass;
use sluice_control::observe::page::PageWatch;
use sluice_control::persistence::background::{Job, JobNumbers};
use sluice_control::upkeep::evict::Eviction;
use sluice_control::upkeep::expire::ActiveExpiry;
use sluice_control::{ClientRelations, Control, ReplicationState};
use sluice_keyspace::{Class, Classes, Effects, Keyspace, MessageListeners};
use sluice_numbers::progress::ProgressClock;
use sluice_numbers::stats::Stats;
use sluice_replication::UnitCommands;
use sluice_resp::Outbox;
use sluice_session::Sessions;

/// The state of an engine without the execution of commands.
pub(crate) struct Core {
    pub(crate) keyspace: Keyspace,
    pub(crate) sessions: Sessions,
    pub(crate) control: Control,
    pub(crate) effects: Effects,
    pub(crate) stats: Stats,
    pub(crate) gate: Gate,
    pub(crate) actions: Vec<Action>,
    pub(crate) rng: Rng,
    pub(crate) upkeep: Upkeep,
    /// The snapshot or rewrite that is written in the background; `None` if none is.
    pub(crate) job: Option<Job>,
    /// State that one execution unit leaves for the next step, or the next unit.
    pub(crate) units: UnitState,
    /// Flags derived from the control plane.
    pub(crate) derived: DerivedState,
    /// Events of keys as `db:event key`, while
    /// [`Engine::record_events`](crate::engine::Engine::record_events) asks for them.
    pub(crate) events: Option<Vec<String>>,
}

/// State that one execution unit leaves for the next step, or the next unit.
#[derive(Debug, Default)]
pub(crate) struct UnitState {
    /// Number of changes of the command that is being committed.
    pub changes: u64,
    /// Empty outboxes that keep their memory for the next replies, because idle sessions keep none. The
    /// last used one is at the end.
    pub spare_outboxes: Vec<Outbox>,
    /// Memory for the commands of the next unit that has commands for replicas or the append-only file.
    pub spare_commands: Option<Box<UnitCommands>>,
}

/// State of the work that no command asks for.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    pub cron: CronState,
    /// State of the cycle of active expiry.
    pub expiry: ActiveExpiry,
    pub compaction: CompactionState,
    /// State of eviction, which keeps memory below `maxmemory`.
    pub eviction: Eviction,
}

/// Flags derived from the control plane, beside those that the gate and the effects keep themselves.
#[derive(Debug, Default)]
pub(crate) struct DerivedState {
    /// Value of the control plane's epoch (`Control::epoch`) for which all derived flags were computed.
    pub epoch: u32,
    /// Keys may be looked up in another way than usual, because of the configuration, a pause, the role or a
    /// move of slots, or hot keys are counted ([`Core::refresh_access`]).
    pub has_unusual_access: bool,
    /// The cost of commands is counted for the slot of their keys (cluster mode with
    /// `cluster-slot-stats-enabled`).
    pub counts_slots: bool,
    /// Changes are recorded for replicas or the append-only file.
    pub has_stream: bool,
    /// Changes are recorded for exports of slots.
    pub taps_exports: bool,
    /// The epoch in which the end of an iteration takes its steps only if a flag asks for one of them; `None`
    /// while some state requires the steps at each end (`iteration_end.rs`).
    pub plain_end: Option<u32>,
}

/// State of the cron between calls.
#[derive(Debug, Default)]
pub(crate) struct CronState {
    pub(crate) next_ms: i64,
    pub(crate) next_client_slot: usize,
    /// State of the pass that adds up the memory of the clients, for the metrics.
    pub(crate) client_memory: ClientMemoryPass,
    /// Numbers that are gathered while a browser shows the page of the metrics endpoint.
    pub(crate) page: PageWatch,
    pub(crate) last_second: i64,
    /// When a client that sent HTTP was last logged, seconds since the epoch.
    pub(crate) http_said_s: i64,
    pub(crate) rate_at_us: u64,
    /// When the last PING was sent to replicas, in ns of the monotonic clock, because the wall clock may be
    /// set back.
    pub(crate) last_ping_ns: Option<u64>,
    /// When the progress of long work was last logged; `None` while there is no such work.
    pub(crate) progress: Option<ProgressClock>,
}

/// State of compaction between calls.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Monotonic time of the next step, ns.
    pub(crate) next_ns: u64,
    /// Number of the database to check next.
    pub(crate) db: usize,
    /// Number of databases in a row that needed no compaction.
    pub(crate) idle: usize,
}

impl Core {
    /// A core without sessions. The derived flags are not computed yet.
    pub(crate) fn new(keyspace: Keyspace, control: Control, rng: Rng) -> Core {
        Core {
            keyspace,
            sessions: Sessions::default(),
            control,
            effects: Effects::default(),
            stats: Stats::new(sluice_command::table::COUNT),
            gate: Gate::new(&sluice_command::table::ALL),
            actions: Vec::new(),
            rng,
            upkeep: Upkeep::default(),
            job: None,
            units: UnitState::default(),
            derived: DerivedState::default(),
            events: None,
        }
    }

    /// Recomputes the derived flags if the control plane has changed. To be called before anything that asks
    /// the gate or records changes, such as a command, a step of expiry or eviction, or the end of an
    /// iteration.
    #[inline(always)]
    pub(crate) fn refresh_derived(&mut self) {
        if self.control.epoch.now() != self.derived.epoch {
            self.recompute_derived();
        }
    }

    /// Recomputes everything that is derived from the configuration and the control plane, and has the memory
    /// checked if there is a `maxmemory`.
    #[cold]
    pub(crate) fn recompute_derived(&mut self) {
        self.derived.epoch = self.control.epoch.now();
        self.control.persistence.aof.set_strict(self.control.limits.fsyncs_always);
        self.gate.rearm(&self.control);
        self.refresh_access();
        self.derived.counts_slots =
            self.control.cluster.is_some() && self.control.config.bool(param::CLUSTER_SLOT_STATS_ENABLED);
        let exports = self.control.cluster.as_ref().map(|mode| mode.exports());
        self.derived.taps_exports = exports.is_some_and(|exports| !exports.tapped().is_empty());
        self.effects.flushed_keys.are_wanted = self.derived.taps_exports;
        self.derived.has_stream =
            self.control.replication.stream.generates() || self.control.persistence.aof.is_on();
        self.effects.propagating = self.derived.has_stream || self.derived.taps_exports;
        self.effects.message_listeners = match self.control.cluster.is_some() {
            true => MessageListeners::Nodes,
            false if self.effects.propagating => MessageListeners::Replicas,
            false => MessageListeners::None,
        };
        self.refresh_listening();
        self.evict_soon();
    }

    /// Turns the recording of modified keys on while a client watches or tracks keys, waits for keys or
    /// subscribes to their events. If only tracking without prefixes needs the changes, most changes of keys
    /// that no client has read are not recorded.
    #[inline]
    pub(crate) fn refresh_listening(&mut self) {
        let control = &self.control;
        let tracking = &control.clients.tracking;
        let published = match control.clients.pubsub.has_listeners() {
            true => control.limits.notify.classes,
            false => Classes::NONE,
        };
        let tracks = tracking.is_active();
        let hears_all = tracks && (tracking.prefixes() > 0 || !published.is_empty());
        if hears_all || !control.clients.watching.is_empty() || self.events.is_some() {
            self.effects.listen(Classes::CHANGES.or(published));
        } else if tracks {
            self.effects.listen_by_key();
        } else {
            self.effects.listen(published);
        }
        if !tracks {
            self.effects.listened_keys().clear();
        }
        self.effects.flushed_keys.are_published = published.has(Class::Generic) || self.events.is_some();
        self.effects.blocked_listening = control.clients.blocking.wants_keys();
        self.effects.removal_listening = control.clients.blocking.wants_removals();
    }

    /// Whether an execution unit is open.
    #[inline]
    pub(crate) fn has_open_unit(&self) -> bool {
        *self.control.clients.unit_stands_open
    }

    /// Recomputes whether `HandlerContexts::access` has to look at the configuration, a pause, the role and
    /// moves of slots, and whether keys are noted after a command (hot keys, expiry on a replica).
    pub(crate) fn refresh_access(&mut self) {
        let Control {
            clients: ClientRelations { pause, hot_keys, .. },
            replication: ReplicationState { replica, failover, .. },
            limits,
            ..
        } = &self.control;
        self.derived.has_unusual_access = limits.lfu
            || limits.import_mode
            || pause.until_ms != 0
            || limits.hot_keys.keys > 0
            || hot_keys.page.is_on()
            || replica.is_some()
            || failover.is_some()
            || self.control.is_paused_by_cluster()
            || self.control.cluster.as_ref().is_some_and(|mode| !mode.moves.links.is_empty());
    }

    /// Progress of the background job; `None` if there is no job.
    pub(crate) fn job_state(&self) -> Option<JobNumbers> {
        Some(self.job.as_ref()?.state(&self.keyspace, self.effects.left_to_others()))
    }

    /// Makes the end of this iteration check the memory if there is a `maxmemory`, because the limit or the
    /// eviction policy may have changed.
    pub(crate) fn evict_soon(&mut self) {
        self.upkeep.eviction.is_running |= self.control.limits.maxmemory > 0;
    }
}

//! The core: the data, the sessions and the control plane, and what follows from a change of these.
//!
//! Whoever holds a [`Core`] cannot have a command run: a core has neither what looks commands up nor the
//! handlers, no scripts, and no unit that stands open. These are fields of
//! [`Engine`](crate::engine::Engine). So what the rooms of the engine do on a core calls no command, and what
//! has to follow there, such as the service of clients that waited, is left to the engine that called.

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

/// What an engine has but for execution.
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
    /// What is written in the background.
    pub(crate) job: Option<Job>,
    /// What one execution unit leaves for the next step, or the next unit.
    pub(crate) units: UnitState,
    /// What was concluded from the control plane.
    pub(crate) conclusions: Conclusions,
    /// What [`Engine::record_events`](crate::engine::Engine::record_events) asked for: `db:event key`.
    pub(crate) events: Option<Vec<String>>,
}

/// What one execution unit leaves for the next step, or the next unit.
#[derive(Debug, Default)]
pub(crate) struct UnitState {
    /// Changes of the command that is being committed.
    pub changes: u64,
    /// Empty outboxes with memory, the warmest last: idle sessions hold none.
    pub spare_outboxes: Vec<Outbox>,
    /// Memory for the commands of the next unit that has some.
    pub spare_commands: Option<Box<UnitCommands>>,
}

/// Where the work stands that no command asks for.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// The cron.
    pub cron: CronState,
    /// The cycle of expiry.
    pub expiry: ActiveExpiry,
    /// Compaction.
    pub compaction: CompactionState,
    /// What makes room above `maxmemory`.
    pub eviction: Eviction,
}

/// What was concluded from the control plane, beside the gate's and the effects' own conclusions.
#[derive(Debug, Default)]
pub(crate) struct Conclusions {
    /// The epoch that all conclusions belong to.
    pub epoch: u32,
    /// The configuration or a pause asks for more than the usual way to look at keys
    /// ([`Core::refresh_access`]).
    pub has_unusual_access: bool,
    /// What commands cost is counted for the slot of their keys (`cluster-slot-stats-enabled`).
    pub counts_slots: bool,
    /// Replicas or the append-only file are told of changes.
    pub has_stream: bool,
    /// Exports of slots are told of changes.
    pub taps_exports: bool,
    /// The epoch in which the end of an iteration has nothing to do but for what passes; none while anything
    /// stands that each end looks at (`iteration_end.rs`).
    pub plain_end: Option<u32>,
}

/// Where the cron stands between calls.
#[derive(Debug, Default)]
pub(crate) struct CronState {
    pub(crate) next_ms: i64,
    pub(crate) next_client_slot: usize,
    /// Memory of clients, where metrics want it.
    pub(crate) client_memory: ClientMemoryPass,
    /// What is gathered while somebody looks at the page of the metrics endpoint.
    pub(crate) page: PageWatch,
    pub(crate) last_second: i64,
    /// When the log last spoke of a client that spoke HTTP, seconds since the epoch.
    pub(crate) http_said_s: i64,
    pub(crate) rate_at_us: u64,
    /// When the last replica ping went out, ns of the monotonic clock: the wall clock may be set back.
    pub(crate) last_ping_ns: Option<u64>,
    /// When long work was told of; none while none is under way.
    pub(crate) progress: Option<ProgressClock>,
}

/// Where compaction stands between calls.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Monotonic time of the next step, ns.
    pub(crate) next_ns: u64,
    /// The database whose turn it is.
    pub(crate) db: usize,
    /// Databases in a row that had nothing to do.
    pub(crate) idle: usize,
}

impl Core {
    /// A core whose sessions are none. Conclusions are not drawn yet.
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
            conclusions: Conclusions::default(),
            events: None,
        }
    }

    /// Draws the conclusions from what has changed, if anything has. To be called ahead of whatever asks the
    /// gate or has changes recorded: each command, each step of expiry and eviction, the end of an iteration.
    #[inline(always)]
    pub(crate) fn notice(&mut self) {
        if self.control.epoch.now() != self.conclusions.epoch {
            self.draw_conclusions();
        }
    }

    /// What the configuration and the control plane arm.
    #[cold]
    pub(crate) fn draw_conclusions(&mut self) {
        self.conclusions.epoch = self.control.epoch.now();
        self.control.persistence.aof.set_strict(self.control.limits.fsyncs_always);
        self.gate.rearm(&self.control);
        self.refresh_access();
        self.conclusions.counts_slots =
            self.control.cluster.is_some() && self.control.config.bool(param::CLUSTER_SLOT_STATS_ENABLED);
        let exports = self.control.cluster.as_ref().map(|mode| mode.exports());
        self.conclusions.taps_exports = exports.is_some_and(|exports| !exports.tapped().is_empty());
        self.effects.flushed_keys.are_wanted = self.conclusions.taps_exports;
        self.conclusions.has_stream =
            self.control.replication.stream.generates() || self.control.persistence.aof.is_on();
        self.effects.propagating = self.conclusions.has_stream || self.conclusions.taps_exports;
        self.effects.message_listeners = match self.control.cluster.is_some() {
            true => MessageListeners::Nodes,
            false if self.effects.propagating => MessageListeners::Replicas,
            false => MessageListeners::None,
        };
        self.refresh_listening();
        self.evict_soon();
    }

    /// Has modified keys recorded while a client watches or tracks keys, waits for keys or subscribes to
    /// their events. Where all who listen have named their keys, changes of other keys cost nothing.
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

    /// Whether a unit stands open.
    #[inline]
    pub(crate) fn has_open_unit(&self) -> bool {
        *self.control.clients.unit_stands_open
    }

    /// Looks again whether `HandlerContexts::access` has to ask the configuration and the pause.
    pub(crate) fn refresh_access(&mut self) {
        let Control {
            clients: ClientRelations { pause, hot_keys, .. },
            replication: ReplicationState { replica, failover, .. },
            limits,
            ..
        } = &self.control;
        self.conclusions.has_unusual_access = limits.lfu
            || limits.import_mode
            || pause.until_ms != 0
            || limits.hot_keys.keys > 0
            || hot_keys.page.is_on()
            || replica.is_some()
            || failover.is_some()
            || self.control.is_paused_by_cluster()
            || self.control.cluster.as_ref().is_some_and(|mode| !mode.moves.links.is_empty());
    }

    /// How far the job is.
    pub(crate) fn job_state(&self) -> Option<JobNumbers> {
        Some(self.job.as_ref()?.state(&self.keyspace, self.effects.left_to_others()))
    }

    /// The limit, or what room is made by, may be another: looks at the end of this iteration.
    pub(crate) fn evict_soon(&mut self) {
        self.upkeep.eviction.is_running |= self.control.limits.maxmemory > 0;
    }
}

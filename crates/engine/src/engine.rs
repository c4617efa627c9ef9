//! The engine: a server without a process. Bytes parsed come in by [`Engine::submit`], time by
//! [`Engine::cron`], connections by [`Engine::connect`]; replies go out by [`Engine::take_output`], actions
//! by [`Engine::take_actions`].

use crate::exec::declared::{DeclaredKeysCheck, RightsProbes};
use crate::exec::gate::Gate;
use crate::exec::open_unit::OpenUnit;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_base::{HashSeed, Now, Rng, hex};
use sluice_commands::{Limits, PreparedBatch, Preparer};
use sluice_config::{Config, param};
use sluice_control::Control;
use sluice_control::action::Action;
use sluice_control::cluster::import_ends::lose_import_link;
use sluice_control::ctx::Handler;
use sluice_control::observe::info::ClientMemoryPass;
use sluice_control::observe::page::PageWatch;
use sluice_control::persistence::background::Job;
use sluice_control::process::Process;
use sluice_control::replication::role::ReplicaRole;
use sluice_control::upkeep::evict::Eviction;
use sluice_control::upkeep::expire::ActiveExpiry;
use sluice_keyspace::{Classes, Effects, KeyHasher, Keyspace, Layout, MessageListeners};
use sluice_numbers::progress::ProgressClock;
use sluice_numbers::stats::Stats;
use sluice_replication::UnitCommands;
use sluice_replication::{Primary, ReplicaLink};
use sluice_resp::{AuthState, Outbox};
use sluice_scripts::state::Scripting;
use sluice_session::identity::Identity;
use sluice_session::{ClientAddress, ClientKind, Closing, ReplicaState, Session, Sessions, SyncStage};
use std::sync::Arc;

/// A server without a process.
pub struct Engine {
    pub(crate) keyspace: Keyspace,
    pub(crate) sessions: Sessions,
    pub(crate) control: Control,
    pub(crate) effects: Effects,
    pub(crate) stats: Stats,
    pub(crate) gate: Gate,
    pub(crate) actions: Vec<Action>,
    pub(crate) rng: Rng,
    pub(crate) preparing: Preparing,
    pub(crate) upkeep: Upkeep,
    /// What is written in the background.
    pub(crate) job: Option<Job>,
    /// What one execution unit leaves for the next step, or the next unit.
    pub(crate) units: UnitState,
    /// What was concluded from the control plane.
    pub(crate) conclusions: Conclusions,
    /// The scripts that are known, and their machine.
    pub(crate) scripting: Scripting,
    /// What tests look at.
    pub(crate) probes: Probes,
}

/// From requests to handlers: looking up the specs and keys of a batch ahead of its execution, and the
/// handler of a spec.
pub(crate) struct Preparing {
    /// How.
    pub preparer: Preparer,
    /// Memory for the next batch; none while one runs, and before the first.
    pub batch: Option<Box<PreparedBatch>>,
    /// Handlers by the id of their spec.
    pub handlers: Box<[Handler]>,
}

/// What one execution unit leaves for the next step, or the next unit.
#[derive(Debug, Default)]
pub(crate) struct UnitState {
    /// Changes of the command that is being committed.
    pub changes: u64,
    /// The unit that stands open.
    pub open: Option<Box<OpenUnit>>,
    /// Empty outboxes with memory, the warmest last: idle sessions hold none.
    pub spare_outboxes: Vec<Outbox>,
    /// Memory for the commands of the next unit that has some.
    pub spare_commands: Option<Box<UnitCommands>>,
}

/// What tests look at.
pub(crate) struct Probes {
    /// What [`Engine::record_events`] asked for: `db:event key`.
    pub events: Option<Vec<String>>,
    /// Whether commands are held to the keys that they declare.
    pub declared_keys: DeclaredKeysCheck,
    /// Users whom the check of rights asks about, made when it first does.
    pub(crate) rights: Option<Box<RightsProbes>>,
}

impl Probes {
    /// Bytes that the allocator has given, events apart.
    pub(crate) fn footprint(&self) -> usize {
        self.rights.as_deref().map_or(0, |rights| heap::boxed::<RightsProbes>() + rights.footprint())
    }
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
    /// ([`Engine::refresh_access`]).
    pub has_unusual_access: bool,
    /// What commands cost is counted for the slot of their keys (`cluster-slot-stats-enabled`).
    pub counts_slots: bool,
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

/// Where an engine's secrets and sequences start.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// Key of the hash of keys.
    pub hash: HashSeed,
    /// Start of the random sequence.
    pub rng: u64,
}

impl Engine {
    /// An engine with empty databases.
    pub fn new(config: Config, seeds: Seeds, process: &mut dyn Process) -> Engine {
        let limits = Arc::new(Limits::new(&config));
        let now = process.now();
        let layout = match config.bool(param::CLUSTER_ENABLED) {
            true => Layout::PerSlot,
            false => Layout::One,
        };
        let hasher = KeyHasher::new(seeds.hash, layout);
        let keyspace = Keyspace::new(limits.databases, hasher);
        let mut control = Control::new(config, limits, now, hex(&process.entropy()), hex(&process.entropy()));
        if let Some((host, port)) = control.config.replica_of() {
            let host = String::from_utf8_lossy(host).into_owned();
            let link = ReplicaLink::new(Primary { host, port }, seeds.rng, 0);
            *control.replication.replica = Some(Box::new(ReplicaRole::new(link)));
            control.replication.stream.set_has_primary(true);
        }
        control.clients.slow_reads.threads = 1;
        Engine::with(control, keyspace, Rng::new(seeds.rng))
    }

    /// An engine that will have no clients, around this keyspace: for the commands of a log.
    pub(crate) fn for_replay(config: Config, limits: Arc<Limits>, keyspace: Keyspace, now: Now) -> Engine {
        let control = Control::new(config, limits, now, String::new(), String::new());
        Engine::with(control, keyspace, Rng::new(0))
    }

    fn with(mut control: Control, keyspace: Keyspace, rng: Rng) -> Engine {
        let limits = Arc::make_mut(&mut control.limits);
        limits.hash.seed = keyspace.hasher().seed();
        limits.set.seed = keyspace.hasher().seed();
        let mut engine = Engine {
            preparing: Preparing {
                preparer: Preparer::new(keyspace.hasher(), &control.renames),
                batch: None,
                handlers: sluice_control::routes::handlers(),
            },
            keyspace,
            sessions: Sessions::default(),
            control,
            effects: Effects::default(),
            stats: Stats::new(sluice_command::table::COUNT),
            gate: Gate::new(&sluice_command::table::ALL),
            actions: Vec::new(),
            rng,
            upkeep: Upkeep::default(),
            units: UnitState::default(),
            conclusions: Conclusions::default(),
            scripting: Scripting::default(),
            probes: Probes { events: None, declared_keys: DeclaredKeysCheck::DEFAULT, rights: None },
            job: None,
        };
        engine.draw_conclusions();
        engine
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
    fn draw_conclusions(&mut self) {
        self.conclusions.epoch = self.control.epoch.now();
        self.control.persistence.aof.set_strict(self.control.limits.fsyncs_always);
        self.gate.rearm(&self.control);
        self.refresh_access();
        self.conclusions.counts_slots =
            self.control.cluster.is_some() && self.control.config.bool(param::CLUSTER_SLOT_STATS_ENABLED);
        self.effects.propagating =
            self.control.replication.stream.generates() || self.control.persistence.aof.is_on();
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
        if hears_all || !control.clients.watching.is_empty() || self.probes.events.is_some() {
            self.effects.listen(Classes::CHANGES.or(published));
        } else if tracks {
            self.effects.listen_by_key();
        } else {
            self.effects.listen(published);
        }
        if !tracks {
            self.effects.listened_keys().clear();
        }
        self.effects.blocked_listening = control.clients.blocking.wants_keys();
        self.effects.removal_listening = control.clients.blocking.wants_removals();
    }

    /// Looks whether all databases have room, where one differs from what was known: the gate refuses what
    /// needs more.
    #[cold]
    pub(crate) fn check_entry_space(&mut self, process: &mut dyn Process) {
        let nearly_full = (0..self.keyspace.databases()).any(|number| self.keyspace.is_nearly_full(number));
        if nearly_full == *self.control.nearly_full {
            return;
        }
        *self.control.nearly_full = nearly_full;
        let text = match nearly_full {
            true => {
                "A database has nearly as many entries as one can hold: writes that may need more are refused from now on"
            }
            false => "There is room for entries again: writes are accepted",
        };
        process.log(sluice_base::LogLevel::Warning, text);
    }

    /// Begins to record what happens to keys: for tests.
    #[doc(hidden)]
    pub fn record_events(&mut self) {
        self.probes.events = Some(Vec::new());
        self.control.epoch.advance();
    }

    /// What happened to keys since the last call, as `db:event key`, in order.
    #[doc(hidden)]
    pub fn take_events(&mut self) -> Vec<String> {
        self.probes.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets from how many bytes of entries on a database is nearly full: for tests.
    #[doc(hidden)]
    pub fn set_entry_space_max(&mut self, bytes: usize) {
        self.keyspace.set_entry_space_max(bytes);
    }

    /// The numbers in force.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.control.limits
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.control.config
    }

    /// Commands executed since the start, or the last CONFIG RESETSTAT.
    pub fn commands_executed(&self) -> u64 {
        self.stats.total_commands
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// Adds a client. The server has checked `maxclients`.
    pub fn connect(&mut self, connection: ClientAddress, process: &mut dyn Process) -> SessionKey {
        let now_s = process.now().unix_s();
        self.stats.connections.accepted += 1;
        let identity = Identity::of_newcomer(self.control.clients.users.users());
        let gate = &self.gate;
        self.sessions.add(|key, id| gate.masked(Session::new(key, id, connection, now_s, identity)))
    }

    /// Counts a connection that was refused.
    pub fn count_rejected(&mut self) {
        self.stats.connections.rejected += 1;
    }

    /// Makes a client a replica that has the data already: from the next unit on it is sent the stream, its
    /// database named first. To be called between units.
    pub fn feed(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.caller.kind = ClientKind::Replica;
        session.caller.replica = Some(Box::new(ReplicaState {
            snapshot_queued: 0,
            acked: sluice_session::NOT_ACKED,
            acked_s: 0,
            stage: SyncStage::Online,
            awaits_ack: false,
            sends_acks: false,
            acked_aof: 0,
            spool: None,
            is_main_channel: false,
            next: self.control.replication.stream.offset,
            superseded_at: None,
            superseded_s: 0,
        }));
        session.mask = self.gate.session_mask(session);
        let stream = &mut self.control.replication.stream;
        if !stream.has_begun() {
            stream.begin(stream.replid.clone());
        }
        stream.attach(key);
    }

    /// Learns that a client has gone, or is to be closed at the end of the iteration: from now on the client
    /// gets nothing that another client could get. [`Engine::disconnect`] follows.
    #[cold]
    pub fn client_lost(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.sessions.take(key) else { return };
        session.caller.closing = Closing::Now;
        self.forget_waits(&mut session, process);
        self.sessions.put_back(session);
    }

    /// Learns that a client has ended its side of the connection. Whether the client is owed replies that
    /// were not taken yet, such as those that wait until they are durable: then it ends behind them, and
    /// waits for nothing else. A replica, and a client whose reply a thread is producing, ends at once.
    #[cold]
    pub fn input_ended(&mut self, key: SessionKey, process: &mut dyn Process) -> bool {
        let is_owed = |session: &Session| {
            let has_output = !session.outbox.is_empty() || session.has_deferred_output();
            let is_plain = session.caller.kind == ClientKind::Normal && session.producing().is_none();
            has_output && is_plain && session.caller.closing != Closing::Now
        };
        if !self.sessions.get(key).is_some_and(is_owed) {
            return false;
        }
        let Some(mut session) = self.sessions.take(key) else { return false };
        session.caller.closing = Closing::AfterReply;
        self.forget_waits(&mut session, process);
        session.note_output(&mut self.control.clients.ready);
        self.sessions.put_back(session);
        true
    }

    /// Forgets a client whose socket is closed.
    pub fn disconnect(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(session) = self.sessions.remove(key) else { return };
        // By the slot, which another client may have at the end of a unit that stands open.
        self.leave_group(key);
        self.forget_session(key, session, process);
    }

    /// Forgets a session that is not among the others any more. That of a unit which stands open goes on with
    /// the unit.
    pub(crate) fn forget_session(
        &mut self,
        key: SessionKey,
        mut session: Box<Session>,
        process: &mut dyn Process,
    ) {
        if session.waiting.is_some() || self.control.clients.watching.concerns(key) {
            self.forget_waits(&mut session, process);
        }
        if session.caller.is_primary() {
            self.control.replication.forget_link_session(key);
        }
        // Whatever the connection has become since.
        lose_import_link(&mut self.control, key, process);
        if session.caller.replica.is_some() {
            self.detach_replica(key, &session);
        }
        if session.caller.subscribed.is_any() {
            self.control.clients.pubsub.forget(key);
        }
        if session.caller.flags.monitor {
            self.control.clients.monitors.retain(|k| *k != key);
        }
        self.control.clients.tracking.leave(key);
        self.keep_orphan(session);
    }

    /// A session, to look at; `None` when it ended.
    pub fn session(&self, key: SessionKey) -> Option<&Session> {
        self.sessions.get(key)
    }

    /// Whether a client has authenticated itself: what it may send for itself, which [`Limits::admission`]
    /// decides with the password. A client that is gone has not.
    pub fn authentication(&self, key: SessionKey) -> AuthState {
        self.session(key).map_or(AuthState::Unauthenticated, |session| session.caller.admission())
    }

    /// Publishes what the server knows of a client's unparsed input, bytes used and unused.
    pub fn publish_input(&mut self, key: SessionKey, used: usize, free: usize) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.caller.traffic.input_bytes = used;
            session.caller.traffic.input_free = sluice_base::heap::short(free);
        }
    }

    /// Notes that bytes came from a client, though no whole request yet: it is not idle.
    pub fn touch_last_interaction(&mut self, key: SessionKey, now: Now) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.caller.traffic.last_s = now.unix_s();
        }
    }

    /// Sends an error to a client whose bytes were no request, and ends it after that. `input` is what was
    /// not executed of them, for the log.
    pub fn protocol_error(
        &mut self,
        key: SessionKey,
        message: &[u8],
        input: &[u8],
        process: &mut dyn Process,
    ) {
        let Some(mut session) = self.sessions.take(key) else { return };
        let mut client = String::new();
        session.push_line(process.recent().unix_s(), self.control.clients.line_sources(), None, &mut client);
        let reason = message.strip_prefix(b"ERR Protocol error: ").unwrap_or(message).escape_ascii();
        let shown = match self.control.config.bool(param::HIDE_USER_DATA_FROM_LOG) {
            true => "*redacted*".to_owned(),
            false => shown_input(input),
        };
        let text = format!("Protocol error ({reason}) from client: {client}. Query buffer: {shown}");
        process.log(sluice_base::LogLevel::Verbose, &text);
        if let Some(role) = self.control.replication.replica.as_mut().filter(|_| session.caller.is_primary())
        {
            // The same bytes would come again.
            role.can_resume = false;
        }
        session.caller.closing = Closing::AfterReply;
        self.reply_error(&mut session, &sluice_commands::CmdError::owned(message));
        session.note_output(&mut self.control.clients.ready);
        self.sessions.put_back(session);
    }

    /// Counts a client that is closed because its unfinished request is too large.
    pub fn count_query_buffer_disconnection(&mut self, key: SessionKey, process: &mut dyn Process) {
        let addr =
            self.sessions.get(key).map(|session| session.caller.origin.addr.clone()).unwrap_or_default();
        self.note_query_buffer_disconnection(&addr, process);
    }

    pub(crate) fn note_query_buffer_disconnection(&mut self, addr: &str, process: &mut dyn Process) {
        self.stats.disconnections.query_buffer += 1;
        let text = format!("Closing client that reached max query buffer length: {addr}");
        process.log(sluice_base::LogLevel::Warning, &text);
    }

    /// Does what is done once an iteration of the event loop, behind its commands: replicas get the snapshot
    /// that they ask for, and what the units have added to the replication stream.
    pub fn end_iteration(&mut self, process: &mut dyn Process) {
        self.notice();
        self.renew_script_share();
        self.list_durable_output();
        self.advance_tracking(process);
        self.advance_cluster(process);
        if self.control.persistence.has_stopped {
            return self.deliver_stream(process);
        }
        self.serve_full_syncs(process);
        self.control.ask_replicas();
        self.deliver_stream(process);
        self.advance_end(process);
        self.advance_failover(process);
        self.note_history();
        self.evict_by_clock(false, process);
        if self.control.limits.maxmemory_clients > 0 {
            self.evict_clients(process);
        }
    }

    /// Whether [`Engine::take_ready`] has something: a replica that has taken what it was queued is queued
    /// more while it is sent to.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.control.clients.ready.is_empty()
    }

    /// Sessions with output since the last call, each once.
    pub fn take_ready(&mut self, into: &mut Vec<SessionKey>) {
        into.append(&mut self.control.clients.ready);
    }

    /// Takes what a session's client may be sent. The bytes count against the output limits until
    /// [`Engine::sent`]; the outbox itself should come back by [`Engine::recycle`]. `None` when the session
    /// is gone or ends at once: it is sent nothing more. What is not durable stays, and the session is listed
    /// as ready when it is.
    #[inline]
    pub fn take_output(&mut self, key: SessionKey) -> Option<(Outbox, Closing)> {
        self.take_output_up_to(key, self.output_bound())
    }

    /// As [`Engine::take_output`], where everything up to this position of the append-only file is durable.
    #[inline]
    pub fn take_output_up_to(&mut self, key: SessionKey, durable: u64) -> Option<(Outbox, Closing)> {
        let session = self.sessions.get_mut(key)?;
        session.queued = false;
        if session.caller.closing == Closing::Now {
            return None;
        }
        let outbox = std::mem::take(session.unsent_mut());
        session.in_flight += outbox.len();
        session.output_peak = session.output_peak.max(sluice_base::heap::short(outbox.len()));
        self.stats.output_peaks.note(session.in_flight);
        if durable < u64::MAX || session.front.is_some() {
            return self.defer_output(key, outbox, durable);
        }
        Some((outbox, session.caller.closing))
    }

    /// Takes an outbox back whose bytes were sent.
    pub fn recycle(&mut self, mut outbox: Outbox) {
        if self.units.spare_outboxes.len() < SPARE_OUTBOXES && outbox.capacity_bytes() <= SPARE_OUTBOX_BYTES {
            outbox.clear();
            self.units.spare_outboxes.push(outbox);
        }
    }

    /// The server has sent so many bytes of a session's output.
    pub fn sent(&mut self, key: SessionKey, bytes: usize, now: Now) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_flight = session.in_flight.saturating_sub(bytes);
            session.caller.traffic.net_out += bytes as u64;
            if session.caller.replica.is_some() {
                self.note_taken_by_replica(key, bytes, now);
            }
        }
    }

    /// Changes so far: a position in the history of the data, which a log on disk follows. Only grows.
    pub fn written(&self) -> u64 {
        self.control.persistence.written
    }

    /// Whether [`Engine::take_to_close`] would give any session.
    #[inline]
    pub fn has_to_close(&self) -> bool {
        !self.control.clients.to_close.is_empty()
    }

    /// Sessions that were marked to end since the last call; the server closes them.
    pub fn take_to_close(&mut self, into: &mut Vec<SessionKey>) {
        into.append(&mut self.control.clients.to_close);
    }

    /// Wishes to the process since the last call.
    pub fn take_actions(&mut self, into: &mut Vec<Action>) {
        into.append(&mut self.actions);
    }

    /// Values that lose their key and are larger than this many bytes become [`Action::FreeValue`], the
    /// others are freed at once; at first [`sluice_keyspace::LAZY_FREE_BYTES`].
    pub fn set_lazyfree_threshold(&mut self, bytes: usize) {
        self.effects.lazyfree_threshold = sluice_keyspace::LazyFreeThreshold(bytes);
    }

    /// Whether there are actions.
    #[inline]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Nanoseconds spent in commands since the last call: to be called once per iteration, for the loop's own
    /// statistics.
    pub fn take_command_ns(&mut self) -> u64 {
        let ran = self.stats.total_commands.saturating_sub(self.stats.iteration.began_at);
        self.stats.iteration.commands_max = self.stats.iteration.commands_max.max(ran);
        self.stats.iteration.began_at = self.stats.total_commands;
        self.scripting.share.base_ns = 0;
        std::mem::take(&mut self.stats.iteration.command_ns)
    }

    /// The code of all libraries of functions, by name: for tests.
    #[doc(hidden)]
    pub fn library_codes(&self) -> impl Iterator<Item = &[u8]> {
        self.control.functions.codes().map(|code| &**code)
    }

    /// The keyspace, for tests and for saving.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }
}

/// The beginning of what a client sent, for the log.
fn shown_input(input: &[u8]) -> String {
    let shown = &input[..input.len().min(SHOWN_INPUT_BYTES)];
    let more = if shown.len() < input.len() { " (...)" } else { "" };
    format!("'{}'{more}", shown.escape_ascii())
}

/// Bytes of a broken request that the log shows.
pub const SHOWN_INPUT_BYTES: usize = 128;

/// Empty outboxes kept for the next replies.
const SPARE_OUTBOXES: usize = 64;
/// An outbox is not kept beyond this size.
const SPARE_OUTBOX_BYTES: usize = 64 * 1024;

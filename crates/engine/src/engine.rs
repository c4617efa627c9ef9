//! The engine: a server without a process. Parsed requests enter by [`Engine::submit`], time by
//! [`Engine::cron`], connections by [`Engine::connect`]; replies leave by [`Engine::take_output`], requests
//! to the process by [`Engine::take_actions`]. An *execution unit*, or unit, is a command, transaction or
//! script with its effects; a unit that is suspended is open.

mod cluster;
pub mod exports;
pub(crate) mod iteration_end;
pub(crate) mod memory_parts;
mod multicast;
mod observe;
mod persistence;
mod replication;
mod upkeep;
mod users;
mod waiting;

use crate::core::Core;
use crate::exec::declared::{DeclaredKeysCheck, RightsProbes};
use crate::exec::open_unit::OpenUnit;
use crate::replication::full_sync::FullCopies;
use crate::session::output_limit::note_query_buffer_disconnection;
use sluice_base::{HashSeed, Now, Rng, SessionKey, heap, hex};
use sluice_commands::{Limits, PreparedBatch, Preparer};
use sluice_config::{Config, param};
use sluice_control::Control;
use sluice_control::action::Action;
use sluice_control::ctx::Handler;
use sluice_control::process::Process;
use sluice_control::replication::role::ReplicaRole;
use sluice_keyspace::{KeyHasher, Keyspace, Layout};
use sluice_numbers::stats::RejectedConnection;
use sluice_replication::{Primary, ReplicaLink};
use sluice_resp::{AuthState, Outbox};
use sluice_scripts::state::Scripting;
use sluice_session::identity::Identity;
use sluice_session::{ClientAddress, ClientKind, Closing, ReplicaState, Session, SessionCounts, SyncStage};
use std::sync::Arc;

/// A server without a process: data, sessions, control plane, and the execution of commands.
pub struct Engine {
    /// The state of the engine without the execution of commands.
    pub(crate) core: Core,
    pub(crate) preparing: Preparing,
    /// The open unit; `None` if there is none.
    pub(crate) open: Option<Box<OpenUnit>>,
    /// The cached scripts of EVAL, their Lua machine, and memory that runs reuse.
    pub(crate) scripting: Scripting,
    /// Switches and state of checks that tests use.
    pub(crate) probes: Probes,
}

/// Prepares requests: looks up the specs and keys of a batch before its execution, and the handler of a spec.
pub(crate) struct Preparing {
    pub preparer: Preparer,
    /// Memory for the next batch; `None` while a batch runs, and before the first.
    pub batch: Option<Box<PreparedBatch>>,
    /// Handlers by the id of their spec.
    pub handlers: Box<[Handler]>,
}

/// Switches and state of checks that tests use.
pub(crate) struct Probes {
    /// Whether commands are checked against the keys that they declare.
    pub declared_keys: DeclaredKeysCheck,
    /// Users with which the check of rights tests commands; `None` before the first check.
    pub(crate) rights: Option<Box<RightsProbes>>,
}

impl Probes {
    /// Bytes of heap memory that the users for the check of rights take, as the allocator rounds them.
    pub(crate) fn footprint(&self) -> usize {
        self.rights.as_deref().map_or(0, |rights| heap::boxed::<RightsProbes>() + rights.footprint())
    }
}

/// Start values of an engine's secrets and random sequences.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// Key of the hash functions for keys, hash fields and set members.
    pub hash: HashSeed,
    /// Start of the random sequence.
    pub rng: u64,
}

impl Engine {
    /// An engine with empty databases; a replica if the configuration names a primary.
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
            process.set_role(true);
        }
        control.clients.slow_reads.threads = 1;
        Engine::with(control, keyspace, Rng::new(seeds.rng))
    }

    /// An engine without clients that replays the commands of a log into this keyspace.
    pub(crate) fn for_replay(config: Config, limits: Arc<Limits>, keyspace: Keyspace, now: Now) -> Engine {
        let control = Control::new(config, limits, now, String::new(), String::new());
        Engine::with(control, keyspace, Rng::new(0))
    }

    fn with(mut control: Control, keyspace: Keyspace, rng: Rng) -> Engine {
        let limits = Arc::make_mut(&mut control.limits);
        limits.hash.seed = keyspace.hasher().seed();
        limits.set.seed = keyspace.hasher().seed();
        let preparing = Preparing {
            preparer: Preparer::new(keyspace.hasher(), &control.renames),
            batch: None,
            handlers: sluice_control::routes::handlers(),
        };
        let mut engine = Engine {
            core: Core::new(keyspace, control, rng),
            preparing,
            open: None,
            scripting: Scripting::default(),
            probes: Probes { declared_keys: DeclaredKeysCheck::DEFAULT, rights: None },
        };
        engine.core.recompute_derived();
        engine
    }

    /// Checks whether each database has room for entries, and notes and logs a change: while a database is
    /// nearly full, the gate refuses commands that need more memory.
    #[cold]
    pub(crate) fn check_entry_space(&mut self, process: &mut dyn Process) {
        let nearly_full =
            (0..self.core.keyspace.databases()).any(|number| self.core.keyspace.is_nearly_full(number));
        if nearly_full == *self.core.control.nearly_full {
            return;
        }
        *self.core.control.nearly_full = nearly_full;
        let text = match nearly_full {
            true => {
                "A database has nearly the maximum of entries: writes that may add entries are refused. Delete keys"
            }
            false => "The database has room for entries again: writes are accepted",
        };
        process.log(sluice_base::LogLevel::Warning, text);
    }

    /// Begins to record the events of keys: for tests.
    #[doc(hidden)]
    pub fn record_events(&mut self) {
        self.core.events = Some(Vec::new());
        self.core.control.epoch.advance();
    }

    /// Takes the recorded events of keys, as `db:event key`, in order: for tests.
    #[doc(hidden)]
    pub fn take_events(&mut self) -> Vec<String> {
        self.core.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets the size of the entries, in bytes, from which a database counts as nearly full: for tests.
    #[doc(hidden)]
    pub fn set_entry_space_max(&mut self, bytes: usize) {
        self.core.keyspace.set_entry_space_max(bytes);
    }

    /// The limits in force: numbers derived from the configuration.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.core.control.limits
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.core.control.config
    }

    /// Number of commands executed since the start, or since the last CONFIG RESETSTAT.
    pub fn commands_executed(&self) -> u64 {
        self.core.stats.total_commands
    }

    /// Number of connections, and how many of them have priority.
    pub fn connections(&self) -> SessionCounts {
        self.core.sessions.counts()
    }

    /// Adds a client and returns the key of its session. The server has checked `maxclients`.
    pub fn connect(&mut self, connection: ClientAddress, process: &mut dyn Process) -> SessionKey {
        let now_s = process.now().unix_s();
        self.core.stats.connections.accepted += 1;
        let identity = Identity::of_newcomer(self.core.control.clients.users.users());
        let gate = &self.core.gate;
        self.core.sessions.add(|key, id| gate.masked(Session::new(key, id, connection, now_s, identity)))
    }

    /// Counts a connection that was refused.
    pub fn count_rejected(&mut self, rejected: RejectedConnection) {
        self.core.stats.connections.count_rejected(rejected);
    }

    /// Makes a client a replica that has the data already: it is sent the stream from the next unit on,
    /// beginning with SELECT. To be called between units.
    pub fn feed(&mut self, key: SessionKey) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
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
            next: self.core.control.replication.stream.offset,
            superseded_at: None,
            superseded_s: 0,
        }));
        session.mask = self.core.gate.session_mask(session);
        let stream = &mut self.core.control.replication.stream;
        if !stream.has_begun() {
            stream.begin(stream.replid.clone());
        }
        stream.attach(key);
    }

    /// Notes that a client has gone, or is to be closed at the end of the iteration. From now
    /// on the client takes nothing that another client could get, such as an element of a
    /// list. [`Engine::disconnect`] follows.
    #[cold]
    pub fn client_lost(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.core.sessions.take(key) else { return };
        session.caller.closing = Closing::Now;
        self.forget_waits(&mut session, process);
        self.core.sessions.put_back(session);
    }

    /// Notes that a client has closed its sending side. Returns whether the client still gets replies that
    /// were not taken yet, such as those that wait until the append-only file is durable. If so, the session
    /// ends after these replies, and waits for nothing else. `false` also for a session that is not a normal
    /// client's (such as a replica's), and for one whose reply a thread is producing.
    #[cold]
    pub fn input_ended(&mut self, key: SessionKey, process: &mut dyn Process) -> bool {
        let is_owed = |session: &Session| {
            let has_output = !session.outbox.is_empty() || session.has_deferred_output();
            let is_plain = session.caller.kind == ClientKind::Normal && session.producing().is_none();
            has_output && is_plain && session.caller.closing != Closing::Now
        };
        if !self.core.sessions.get(key).is_some_and(is_owed) {
            return false;
        }
        let Some(mut session) = self.core.sessions.take(key) else { return false };
        session.caller.closing = Closing::AfterReply;
        self.forget_waits(&mut session, process);
        session.note_output(&mut self.core.control.clients.ready);
        self.core.sessions.put_back(session);
        true
    }

    /// Forgets a client whose socket is closed.
    pub fn disconnect(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(session) = self.core.sessions.remove(key) else { return };
        // The client leaves its group now, not when its session is forgotten after an open unit, because
        // groups are indexed by the slot in the session table, and another client may have that slot by then.
        self.leave_group(key);
        self.forget_session(key, session, process);
    }

    /// A session, for reading; `None` when it has ended.
    pub fn session(&self, key: SessionKey) -> Option<&Session> {
        self.core.sessions.get(key)
    }

    /// Whether a client has authenticated. From this and from the password of the default user,
    /// [`Limits::admission`] derives what the client may send. A client that is gone counts as
    /// unauthenticated.
    pub fn authentication(&self, key: SessionKey) -> AuthState {
        self.session(key).map_or(AuthState::Unauthenticated, |session| session.caller.admission())
    }

    /// Publishes the size of a client's query buffer: `used` bytes that are not parsed yet, and `free` bytes
    /// of unused capacity.
    pub fn publish_input(&mut self, key: SessionKey, used: usize, free: usize) {
        if let Some(session) = self.core.sessions.get_mut(key) {
            session.caller.traffic.input_bytes = used;
            session.caller.traffic.input_free = sluice_base::heap::short(free);
        }
    }

    /// Notes that bytes arrived from a client, which is then not idle, even if the bytes are no whole
    /// request.
    pub fn touch_last_interaction(&mut self, key: SessionKey, now: Now) {
        if let Some(session) = self.core.sessions.get_mut(key) {
            session.caller.traffic.last_s = now.unix_s();
        }
    }

    /// Sends an error to a client whose bytes were no request, and marks the session to end after the error.
    /// `input` is the part of the bytes that was not executed, for the log.
    pub fn protocol_error(
        &mut self,
        key: SessionKey,
        message: &[u8],
        input: &[u8],
        process: &mut dyn Process,
    ) {
        let Some(mut session) = self.core.sessions.take(key) else { return };
        let mut client = String::new();
        session.push_line(
            process.recent().unix_s(),
            self.core.control.clients.line_sources(),
            None,
            &mut client,
        );
        let reason = message.strip_prefix(b"ERR Protocol error: ").unwrap_or(message).escape_ascii();
        let shown = match self.core.control.config.bool(param::HIDE_USER_DATA_FROM_LOG) {
            true => "*redacted*".to_owned(),
            false => shown_input(input),
        };
        let text = format!("Protocol error ({reason}) from client: {client}. Query buffer: {shown}");
        process.log(sluice_base::LogLevel::Verbose, &text);
        if let Some(role) =
            self.core.control.replication.replica.as_mut().filter(|_| session.caller.is_primary())
        {
            // The link must not resume here, because it would get these bytes again.
            role.can_resume = false;
        }
        session.caller.closing = Closing::AfterReply;
        self.core.reply_error(&mut session, &sluice_commands::CmdError::owned(message));
        session.note_output(&mut self.core.control.clients.ready);
        self.core.sessions.put_back(session);
    }

    /// Counts a client that is closed because its unfinished request is too large.
    pub fn count_query_buffer_disconnection(&mut self, key: SessionKey, process: &mut dyn Process) {
        let addr =
            self.core.sessions.get(key).map(|session| session.caller.origin.addr.clone()).unwrap_or_default();
        note_query_buffer_disconnection(&mut self.core.stats, &addr, process);
    }

    /// Whether [`Engine::take_ready`] has a session. A replica is listed again each time that it has
    /// taken what was queued and more of the stream or snapshot follows.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.core.control.clients.ready.is_empty()
    }

    /// Appends to `into` the sessions that have got output since the last call, each once.
    pub fn take_ready(&mut self, into: &mut Vec<SessionKey>) {
        into.append(&mut self.core.control.clients.ready);
    }

    /// Takes the output that may be sent to a session's client. The bytes count against the output limits
    /// until [`Engine::sent`]; the outbox itself should be returned by [`Engine::recycle`]. `None` when the
    /// session is gone or ends at once: nothing more is sent. Output that must wait until the append-only
    /// file is durable stays here, and the session is listed as ready when it may be sent.
    #[inline]
    pub fn take_output(&mut self, key: SessionKey) -> Option<(Outbox, Closing)> {
        self.take_output_up_to(key, self.output_bound())
    }

    /// As [`Engine::take_output`], given that the append-only file is durable up to the position `durable`.
    #[inline]
    pub fn take_output_up_to(&mut self, key: SessionKey, durable: u64) -> Option<(Outbox, Closing)> {
        let session = self.core.sessions.get_mut(key)?;
        session.queued = false;
        if session.caller.closing == Closing::Now {
            return None;
        }
        let outbox = std::mem::take(session.unsent_mut());
        session.in_flight += outbox.len();
        session.output_peak = session.output_peak.max(sluice_base::heap::short(outbox.len()));
        self.core.stats.output_peaks.note(session.in_flight);
        if durable < u64::MAX || session.front.is_some() {
            return self.defer_output(key, outbox, durable);
        }
        Some((outbox, session.caller.closing))
    }

    /// Takes back an outbox whose bytes were sent. Its memory is used again, unless it is large or enough
    /// outboxes are kept.
    pub fn recycle(&mut self, mut outbox: Outbox) {
        if self.core.units.spare_outboxes.len() < SPARE_OUTBOXES
            && outbox.capacity_bytes() <= SPARE_OUTBOX_BYTES
        {
            outbox.clear();
            self.core.units.spare_outboxes.push(outbox);
        }
    }

    /// Notes that the server has sent `bytes` of a session's output.
    pub fn sent(&mut self, key: SessionKey, bytes: usize, now: Now) {
        if let Some(session) = self.core.sessions.get_mut(key) {
            session.in_flight = session.in_flight.saturating_sub(bytes);
            session.caller.traffic.net_out += bytes as u64;
            if session.caller.replica.is_some() {
                FullCopies::of(&mut self.core).note_taken_by_replica(key, bytes, now);
            }
        }
    }

    /// Number of changes so far, which never falls: a position in the history of the data.
    pub fn written(&self) -> u64 {
        self.core.control.persistence.written
    }

    /// Whether [`Engine::take_to_close`] would return a session.
    #[inline]
    pub fn has_to_close(&self) -> bool {
        !self.core.control.clients.to_close.is_empty()
    }

    /// Appends to `into` the sessions that were marked to end since the last call; the server closes their
    /// connections.
    pub fn take_to_close(&mut self, into: &mut Vec<SessionKey>) {
        into.append(&mut self.core.control.clients.to_close);
    }

    /// Appends to `into` the requests to the process since the last call.
    pub fn take_actions(&mut self, into: &mut Vec<Action>) {
        into.append(&mut self.core.actions);
    }

    /// Sets the size in bytes above which a value that loses its key becomes [`Action::FreeValue`]; smaller
    /// values are freed at once. The initial size is [`sluice_keyspace::LAZY_FREE_BYTES`].
    pub fn set_lazyfree_threshold(&mut self, bytes: usize) {
        self.core.effects.lazyfree_threshold = sluice_keyspace::LazyFreeThreshold(bytes);
    }

    /// Whether the next iteration has work even without input: actions, or promised bytes
    /// (`upkeep/promised.rs`) for replicas or the append-only file.
    #[inline]
    pub fn has_more_to_do(&self) -> bool {
        !self.core.actions.is_empty() || self.core.control.has_promises()
    }

    /// Nanoseconds spent in commands since the last call, for the statistics of the event loop. To be called
    /// once per iteration: the call also ends the count of the iteration's commands.
    pub fn take_command_ns(&mut self) -> u64 {
        let ran = self.core.stats.total_commands.saturating_sub(self.core.stats.iteration.began_at);
        self.core.stats.iteration.commands_max = self.core.stats.iteration.commands_max.max(ran);
        self.core.stats.iteration.began_at = self.core.stats.total_commands;
        self.scripting.share.base_ns = 0;
        std::mem::take(&mut self.core.stats.iteration.command_ns)
    }

    /// The code of all libraries of functions, by name: for tests.
    #[doc(hidden)]
    pub fn library_codes(&self) -> impl Iterator<Item = &[u8]> {
        self.core.control.functions.codes().map(|code| &**code)
    }

    /// The keyspace, for tests and for the process's saves.
    pub fn keyspace(&self) -> &Keyspace {
        &self.core.keyspace
    }
}

/// The beginning of a client's input, escaped for the log.
fn shown_input(input: &[u8]) -> String {
    let shown = &input[..input.len().min(SHOWN_INPUT_BYTES)];
    let more = if shown.len() < input.len() { " (...)" } else { "" };
    format!("'{}'{more}", shown.escape_ascii())
}

/// Maximum bytes of a broken request that the log shows.
pub const SHOWN_INPUT_BYTES: usize = 128;

/// Maximum number of empty outboxes that are kept for the next replies.
const SPARE_OUTBOXES: usize = 64;
/// Largest memory in bytes of an outbox that is kept.
const SPARE_OUTBOX_BYTES: usize = 64 * 1024;

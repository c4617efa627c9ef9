//! The control plane: configuration, logs of commands and latencies, monitors, replicas, pauses.

mod files;
mod replicas;

use crate::cluster::mode::ClusterMode;
use crate::persistence::aof::AofStream;
use crate::persistence::ending::PendingEnd;
use crate::persistence::loading::LoadUnderWay;
use crate::persistence::rewriting::Rewriting;
use crate::persistence::saving::{JobAsk, Saving};
use crate::replication::failover::Failover;
use crate::replication::role::LinkCounts;
use crate::users::UsersState;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_base::{Epoch, Watched};
use sluice_commands::{CommandEntries, Limits, SlowReads};
use sluice_config::choice::AclPubsubDefault;
use sluice_config::{Config, param};
use sluice_numbers::commandlog::{CommandLog, LogKind};
use sluice_numbers::hot_keys::HotKeyCounts;
use sluice_numbers::latency::LatencyMonitor;
use sluice_replication::FullSyncs;
use sluice_replication::LinkOutput;
use sluice_replication::ReplicationStream;
use sluice_scripts::functions::Functions;
use sluice_scripts::state::ScriptWatch;
use sluice_session::Session;
use sluice_session::blocking::Blocking;
use sluice_session::identity::is_open;
use sluice_session::line::LineSources;
use sluice_session::migration::Migrations;
use sluice_snapshot::{Libraries, LoadCounts};
use sluice_subscriptions::multicast::Multicasts;
use sluice_subscriptions::registry::PubSub;
use sluice_subscriptions::tracking::Tracking;
use sluice_subscriptions::watch::Watching;
use std::collections::VecDeque;
use std::sync::Arc;

/// The control plane: configuration, logs, clients' relations and counters; no keys.
#[derive(Debug)]
pub struct Control {
    /// Changes with whatever the gate and the effects draw conclusions from.
    pub epoch: Epoch,
    /// The configuration.
    pub config: Config,
    /// The numbers in force that follow from it.
    pub limits: Watched<Arc<Limits>>,
    /// Slow commands, large requests, large replies.
    pub commandlog: CommandLog,
    /// Spikes of latency by event.
    pub latency: LatencyMonitor,
    /// Commands renamed by the configuration: new name to old; an old name that maps to nothing is gone.
    pub renames: Arc<sluice_commands::Renames>,
    /// When the server started.
    pub started: Now,
    /// The run's id, 40 hexadecimal digits.
    pub run_id: String,
    /// A database has no room for many more entries: what could add some is refused.
    pub nearly_full: Watched<bool>,
    /// What clients have to do with each other and with the server: who waits, listens, watches, must go.
    pub clients: ClientRelations,
    /// The data in files: what is appended, saved, loaded, and how the server ends.
    pub persistence: PersistenceState,
    /// This server as a replica and as a primary: role, stream, replicas.
    pub replication: ReplicationState,
    /// This server as a node of a cluster; none without cluster mode.
    pub cluster: Option<Box<ClusterMode>>,
    /// What DEBUG has switched.
    pub debug: DebugSwitches,
    /// The script that stands still.
    pub scripts: ScriptWatch,
    /// The libraries of functions.
    pub functions: Functions,
}

/// What clients have to do with each other and with the server: who waits, listens, watches, must go.
#[derive(Debug)]
pub struct ClientRelations {
    /// Sessions that asked for MONITOR; stale ones are dropped when fed.
    pub monitors: Vec<SessionKey>,
    /// A unit stands open: nobody else's request is executed, and nothing of
    /// [`BetweenUnits`](crate::between_units::BetweenUnits) happens.
    pub unit_stands_open: Watched<bool>,
    /// What was refused while a unit stands open, a bit for each of
    /// [`BetweenUnits`](crate::between_units::BetweenUnits): for tests.
    pub(crate) refused_between_units: std::cell::Cell<u32>,
    /// CLIENT PAUSE.
    pub pause: Watched<Pause>,
    /// Clients that wait.
    pub blocking: Blocking,
    /// Replies that threads of their own produce.
    pub slow_reads: SlowReads,
    /// Keys that clients access most.
    pub hot_keys: HotKeyCounts,
    /// What COMMAND INFO has answered clients before.
    pub command_entries: CommandEntries,
    /// Keys on their way to other servers.
    pub migrations: Watched<Migrations>,
    /// Users, and what was refused them.
    pub users: UsersState,
    /// Subscriptions to channels.
    pub pubsub: PubSub,
    /// Messages of this iteration for the clients of I/O threads.
    pub multicasts: Multicasts,
    /// Keys that clients watch.
    pub watching: Watching,
    /// Keys that clients keep copies of.
    pub tracking: Tracking,
    /// Sessions with output that the server has not taken yet.
    pub ready: Vec<SessionKey>,
    /// Sessions that must end, marked while another session ran.
    pub to_close: Vec<SessionKey>,
}

/// The data in files: what is appended, saved, loaded, and how the server ends.
#[derive(Debug)]
pub struct PersistenceState {
    /// What is appended to the append-only file.
    pub aof: AofStream,
    /// Rewriting it.
    pub rewriting: Rewriting,
    /// What commands have asked of the jobs that write in the background.
    pub asked: Vec<JobAsk>,
    /// What saving in the background remembers.
    pub saving: Watched<Saving>,
    /// Something is written in the background.
    pub is_writing: bool,
    /// Changes since the last save; a save may set it back to 0.
    pub dirty: u64,
    /// Changes since the start: only grows.
    pub written: u64,
    /// Time of the last save, seconds since the epoch.
    pub last_save_s: i64,
    /// Saves so far.
    pub saves: u64,
    /// The RDB file has the data that were loaded from it last, and nothing else was loaded since: how many
    /// changes there had been then.
    pub loaded_file_at: Option<u64>,
    /// The load under way.
    pub load: Watched<Option<Box<LoadUnderWay>>>,
    /// What the last load brought.
    pub last_load: LoadCounts,
    /// Files of which only a part could be loaded.
    pub partly_loaded: PartlyLoaded,
    /// The server ends, and its data was saved for that.
    pub saved_for_end: bool,
    /// The server ends as soon as the replicas have everything.
    pub pending_end: Watched<Option<Box<PendingEnd>>>,
    /// Nothing is executed any more: see `Engine::stop`.
    pub has_stopped: bool,
}

/// Files of which only a part could be loaded: that part must not take their place.
#[derive(Debug, Default)]
pub struct PartlyLoaded {
    /// Folder and name of an RDB file. No save replaces that file.
    pub snapshot: Option<(Vec<u8>, Vec<u8>)>,
    /// The append-only file is one: no rewrite takes its place.
    pub aof: bool,
}

/// This server as a replica and as a primary: role, stream, replicas.
#[derive(Debug)]
pub struct ReplicationState {
    /// What replicas are sent.
    pub stream: ReplicationStream,
    /// Replicas that ask for the data.
    pub full_syncs: FullSyncs,
    /// This server as a replica; none for a primary.
    pub replica: Watched<Option<Box<crate::replication::role::ReplicaRole>>>,
    /// What the link to the primary wants done, in order.
    pub link_outputs: VecDeque<LinkOutput>,
    /// The number of the last attempt of the links that were given up.
    pub link_attempts: u64,
    /// What has come of the links to primaries.
    pub link_counts: LinkCounts,
    /// The role that a client has asked for.
    pub role_wanted: Option<crate::replication::role::RoleWanted>,
    /// Keys that clients of this server gave an expiry while it was a replica.
    pub local_expiries: crate::replication::local_expiry::LocalExpiries,
    /// The database that the primary's stream has selected at the point of the snapshot that was loaded last.
    pub loaded_stream_db: Option<usize>,
    /// FAILOVER: this server hands its role to a replica.
    pub failover: Watched<Option<Box<Failover>>>,
    /// A client of `PSYNC ... FAILOVER` waits until this server is promoted.
    pub failover_asked: bool,
    /// What clients are told that want to know of failovers.
    pub maintenance: crate::replication::maintenance::Maintenance,
    /// Replicas that have the data and are not late, as `min-replicas-to-write` counts them.
    pub good_replicas: Watched<i64>,
    /// They are to be counted again.
    pub count_good_replicas: bool,
    /// A client waits for replicas: they are asked how far they are.
    pub ask_replicas: bool,
}

/// What DEBUG has switched.
#[derive(Debug)]
pub struct DebugSwitches {
    /// DEBUG STAND-STILL: for so many ns the EXEC under way stands still behind this command.
    pub stand_still_ns: Option<u64>,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: bool,
    /// DEBUG PAUSE-CRON.
    pub cron_paused: bool,
    /// A signal that ends the server came while the cron was paused.
    pub end_waits_for_cron: bool,
    /// DEBUG DICT-RESIZING.
    pub resizing: bool,
    /// DEBUG QUICKLIST-PACKED-THRESHOLD, bytes; 0: the default.
    pub packed_threshold: usize,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call commands that are not for scripts.
    pub scripts_call_all: bool,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub skip_checksum: bool,
    /// DEBUG CLIENT-ENFORCE-REPLY-LIST and REPLYBUFFER settings that have no counterpart here are accepted.
    pub enforce_reply_list: bool,
}

/// CLIENT PAUSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Until when, ms since the epoch; 0: no pause.
    pub until_ms: i64,
    /// Everything waits, not writes alone.
    pub all: bool,
}

impl Control {
    /// The control plane of a server that begins now, with this run id and the id of its own history.
    pub fn new(
        config: Config,
        limits: Arc<Limits>,
        now: sluice_base::Now,
        run_id: String,
        replid: String,
    ) -> Control {
        // Lines that are no good were refused when the configuration was read.
        let renames = sluice_commands::renames(&config).unwrap_or_default();
        let epoch = Epoch::default();
        let mut clients = ClientRelations::new(&epoch, &config);
        clients.hot_keys.command.configure(limits.hot_keys);
        Control {
            config,
            limits: Watched::new(limits, &epoch),
            commandlog: Default::default(),
            latency: Default::default(),
            renames: Arc::new(renames),
            started: now,
            run_id,
            nearly_full: Watched::new(false, &epoch),
            clients,
            persistence: PersistenceState { last_save_s: now.unix_s(), ..PersistenceState::new(&epoch) },
            replication: ReplicationState::new(replid, &epoch),
            cluster: None,
            debug: DebugSwitches::default(),
            scripts: ScriptWatch::new(&epoch),
            functions: Functions::default(),
            epoch,
        }
    }
}

impl ClientRelations {
    /// What a client's line shows beside the session.
    #[inline]
    pub fn line_sources(&self) -> LineSources<'_> {
        LineSources { watching: &self.watching, tracking: &self.tracking }
    }

    fn new(epoch: &Epoch, config: &Config) -> ClientRelations {
        let all_channels =
            config.choice::<AclPubsubDefault>(param::ACL_PUBSUB_DEFAULT) == AclPubsubDefault::AllChannels;
        let mut users = UsersState::new(all_channels);
        if let password @ [_, ..] = config.bytes(param::REQUIREPASS) {
            users.change().set_default_password(Some(password));
        }
        ClientRelations {
            users,
            monitors: Vec::new(),
            unit_stands_open: Watched::new(false, epoch),
            refused_between_units: Default::default(),
            pause: Watched::new(Pause::default(), epoch),
            blocking: Blocking::new(epoch.clone()),
            slow_reads: SlowReads::default(),
            hot_keys: HotKeyCounts::new(epoch),
            command_entries: CommandEntries::default(),
            migrations: Watched::new(Migrations::default(), epoch),
            pubsub: PubSub::new(epoch.clone()),
            multicasts: Multicasts::default(),
            watching: Watching::new(epoch.clone()),
            tracking: Tracking::new(epoch.clone()),
            ready: Vec::new(),
            to_close: Vec::new(),
        }
    }
}

impl PersistenceState {
    /// Whether commands that write wait, because the server is about to end.
    #[inline]
    pub fn holds_writes_for_end(&self) -> bool {
        self.pending_end.as_deref().is_some_and(PendingEnd::holds_writes)
    }

    fn new(epoch: &Epoch) -> PersistenceState {
        PersistenceState {
            aof: AofStream::new(epoch.clone()),
            rewriting: Rewriting::default(),
            asked: Vec::new(),
            saving: Watched::new(Default::default(), epoch),
            is_writing: false,
            dirty: 0,
            written: 0,
            last_save_s: 0,
            saves: 0,
            loaded_file_at: None,
            load: Watched::new(None, epoch),
            last_load: LoadCounts::default(),
            partly_loaded: PartlyLoaded::default(),
            saved_for_end: false,
            pending_end: Watched::new(None, epoch),
            has_stopped: false,
        }
    }
}

impl ReplicationState {
    /// A primary without replicas, whose stream would have this id.
    fn new(replid: String, epoch: &Epoch) -> ReplicationState {
        ReplicationState {
            stream: ReplicationStream::new(replid).watched_by(epoch.clone()),
            full_syncs: Default::default(),
            replica: Watched::new(None, epoch),
            link_outputs: VecDeque::new(),
            link_attempts: 0,
            link_counts: LinkCounts::default(),
            role_wanted: None,
            local_expiries: Default::default(),
            loaded_stream_db: None,
            failover: Watched::new(None, epoch),
            failover_asked: false,
            maintenance: crate::replication::maintenance::Maintenance::default(),
            good_replicas: Watched::new(0, epoch),
            count_good_replicas: false,
            ask_replicas: false,
        }
    }
}

impl Default for DebugSwitches {
    fn default() -> DebugSwitches {
        DebugSwitches {
            stand_still_ns: None,
            active_expire: true,
            cron_paused: false,
            end_waits_for_cron: false,
            resizing: true,
            packed_threshold: 0,
            scripts_call_all: false,
            skip_checksum: false,
            enforce_reply_list: false,
        }
    }
}

impl Control {
    /// Has the configuration's numbers take effect.
    pub fn apply_limits(&mut self) {
        let mut limits = Limits::new(&self.config);
        limits.list.packed_threshold = self.debug.packed_threshold;
        limits.skip_checksum = self.debug.skip_checksum;
        limits.default_user_is_open = is_open(self.clients.users.users().default_user());
        limits.hash.seed = self.limits.hash.seed;
        limits.set.seed = self.limits.set.seed;
        self.clients.hot_keys.command.configure(limits.hot_keys);
        for kind in LogKind::ALL {
            self.commandlog.keep_newest(kind, self.log_entries_max(kind));
        }
        *self.limits = Arc::new(limits);
        if let Some(load) = self.persistence.load.as_ref() {
            load.set_key_delay(&self.config);
        }
    }

    /// The most entries of a command log.
    pub fn log_entries_max(&self, kind: LogKind) -> usize {
        let directive = match kind {
            LogKind::Slow => param::COMMANDLOG_SLOW_EXECUTION_MAX_LEN,
            LogKind::LargeRequest => param::COMMANDLOG_LARGE_REQUEST_MAX_LEN,
            LogKind::LargeReply => param::COMMANDLOG_LARGE_REPLY_MAX_LEN,
        };
        usize::try_from(self.config.int(directive)).unwrap_or(0)
    }

    /// The libraries of functions as a snapshot shows them. Cost: O(libraries).
    pub fn libraries(&self) -> Libraries {
        self.functions.codes().cloned().collect()
    }

    /// Whether bytes for replicas or for the append-only file are promised and not made.
    #[inline]
    pub fn has_promises(&self) -> bool {
        self.replication.stream.has_promises() || self.persistence.aof.has_promises()
    }

    /// Counts changes of the data.
    #[inline]
    pub fn count_changes(&mut self, changes: u64) {
        self.persistence.dirty += changes;
        self.persistence.written += changes;
    }

    /// Whether something is written in the background, or a base of the append-only file is being put in
    /// force.
    #[inline]
    pub fn works_in_background(&self) -> bool {
        self.persistence.is_writing || self.persistence.rewriting.began_s.is_some()
    }

    /// Whether what was appended up to this position is kept: on disk, and in a file that the next start
    /// reads.
    #[inline]
    pub fn is_kept(&self, position: u64) -> bool {
        let has_begun = self.persistence.aof.is_on() || !self.wants_aof();
        has_begun && self.persistence.aof.is_durable(position) && !self.persistence.rewriting.is_first
    }

    /// Whether there shall be an append-only file: there is one, or it begins with the next rewrite.
    #[inline]
    pub fn wants_aof(&self) -> bool {
        self.config.bool(param::APPENDONLY)
    }

    /// Whether changes of the data are kept back, those by expiry and eviction too.
    #[inline]
    pub fn is_write_paused(&self, now: Now) -> bool {
        self.clients.pause.active(now) || self.replication.failover.is_some() || self.is_paused_by_cluster()
    }

    /// Whether a replica of this node is about to take over by hand: no write may follow the offset that the
    /// replica was told.
    #[inline]
    pub fn is_paused_by_cluster(&self) -> bool {
        self.cluster.as_ref().is_some_and(|mode| mode.paused_until_ms.is_some())
    }

    /// Ends a pause and lets the requests go on that it has kept.
    pub fn end_pause(&mut self) {
        *self.clients.pause = Pause::default();
        self.clients.blocking.release_postponed();
    }

    /// A command behind CLIENT CACHING has ended, unless it stands in a transaction that goes on.
    #[inline]
    pub fn end_caching(&mut self, session: &Session) {
        if session.transaction.is_some() || !session.tracks_reads {
            return;
        }
        if let Some(client) = self.clients.tracking.client_mut(session.key) {
            client.caching = false;
        }
    }
}

impl Pause {
    /// Whether a pause is in force.
    #[inline]
    pub fn active(&self, now: Now) -> bool {
        self.until_ms != 0 && self.until_ms > now.unix_ms()
    }

    /// Pauses until then at least. A pause in force is neither shortened nor made milder.
    pub(crate) fn prolong(&mut self, now: Now, until_ms: i64, all: bool) {
        let old = if self.active(now) { *self } else { Pause::default() };
        *self = Pause { until_ms: old.until_ms.max(until_ms), all: old.all || all };
    }
}

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

/// The control plane: configuration, logs, relations of clients, and counters; no keys.
#[derive(Debug)]
pub struct Control {
    /// A counter that advances with each change of state that the gate or the effects have cached.
    pub epoch: Epoch,
    /// The values of all directives.
    pub config: Config,
    /// Numbers derived from the configuration.
    pub limits: Watched<Arc<Limits>>,
    /// Slow commands, large requests, large replies.
    pub commandlog: CommandLog,
    /// Spikes of latency by event.
    pub latency: LatencyMonitor,
    /// Names changed by `rename-command`, each with its present meaning; a name without a value has no
    /// meaning any more.
    pub renames: Arc<sluice_commands::Renames>,
    /// The time at which the server started.
    pub started: Now,
    /// Random id of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// A database has almost no room for more entries, so commands that may add some are refused.
    pub nearly_full: Watched<bool>,
    /// Blocked, subscribed, watching, monitoring and closing clients.
    pub clients: ClientRelations,
    /// The data in files: appending, saving, loading, and the end of the server.
    pub persistence: PersistenceState,
    /// This server as a replica and as a primary: role, stream, replicas.
    pub replication: ReplicationState,
    /// This server as a node of a cluster; `None` without cluster mode.
    pub cluster: Option<Box<ClusterMode>>,
    /// Behaviour switched by DEBUG.
    pub debug: DebugSwitches,
    /// The suspended script, if any, and changes of the settings for scripts.
    pub scripts: ScriptWatch,
    /// The libraries of functions.
    pub functions: Functions,
}

/// Blocked, subscribed, watching, monitoring and closing clients.
#[derive(Debug)]
pub struct ClientRelations {
    /// Sessions with MONITOR on; those that no longer exist are dropped at the next feed.
    pub monitors: Vec<SessionKey>,
    /// An execution unit is open, for example a suspended transaction or script: no other client's request is
    /// executed, and nothing of [`BetweenUnits`](crate::between_units::BetweenUnits) happens.
    pub unit_stands_open: Watched<bool>,
    /// Work refused while a unit was open, one bit for each of
    /// [`BetweenUnits`](crate::between_units::BetweenUnits): for tests.
    pub(crate) refused_between_units: std::cell::Cell<u32>,
    /// The state of CLIENT PAUSE.
    pub pause: Watched<Pause>,
    /// Blocked and postponed clients.
    pub blocking: Blocking,
    /// Slow reads, whose replies are produced on threads of their own.
    pub slow_reads: SlowReads,
    /// Counts of the most accessed keys.
    pub hot_keys: HotKeyCounts,
    /// Encoded entries of COMMAND INFO, kept for later clients.
    pub command_entries: CommandEntries,
    /// Keys that MIGRATE is sending to other servers.
    pub migrations: Watched<Migrations>,
    /// The users, and the log of refusals.
    pub users: UsersState,
    /// Subscriptions to channels and patterns.
    pub pubsub: PubSub,
    /// Messages of this iteration for clients of I/O threads.
    pub multicasts: Multicasts,
    /// Keys watched by WATCH.
    pub watching: Watching,
    /// Client-side caching: keys and prefixes that clients track.
    pub tracking: Tracking,
    /// Sessions with output that the server has not yet collected.
    pub ready: Vec<SessionKey>,
    /// Sessions to close, marked while another session ran.
    pub to_close: Vec<SessionKey>,
}

/// The data in files: appending, saving, loading, and the end of the server.
#[derive(Debug)]
pub struct PersistenceState {
    /// The stream of commands for the append-only file.
    pub aof: AofStream,
    /// Rewrites of the append-only file.
    pub rewriting: Rewriting,
    /// Requests by commands to begin background saves and rewrites, or to break off saves.
    pub asked: Vec<JobAsk>,
    /// State of background saves.
    pub saving: Watched<Saving>,
    /// A background job is in progress: a save, a rewrite, or a snapshot for replicas.
    pub is_writing: bool,
    /// Number of changes since the last save.
    pub dirty: u64,
    /// Number of changes since the start; never decreases.
    pub written: u64,
    /// Time of the last successful save or, before it, of the start, in seconds since the epoch.
    pub last_save_s: i64,
    /// Number of attempts to save since the start.
    pub saves: u64,
    /// Value of `dirty` after the last load, if that load read the whole RDB file in use: while `dirty`
    /// keeps this value, the file has exactly the present data. `None` otherwise.
    pub loaded_file_at: Option<u64>,
    /// The load in progress, if any.
    pub load: Watched<Option<Box<LoadUnderWay>>>,
    /// Counts of the last load.
    pub last_load: LoadCounts,
    /// Files that were loaded only in part.
    pub partly_loaded: PartlyLoaded,
    /// The server is ending, and the data have been saved for the shutdown.
    pub saved_for_end: bool,
    /// A shutdown that waits for replicas or other work.
    pub pending_end: Watched<Option<Box<PendingEnd>>>,
    /// No command is executed any more: see `Engine::stop`.
    pub has_stopped: bool,
}

/// Files that were loaded only in part; the loaded part must not replace them.
#[derive(Debug, Default)]
pub struct PartlyLoaded {
    /// Folder and name of an RDB file that no save may replace.
    pub snapshot: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether the append-only file was loaded only in part, so that no rewrite may replace it.
    pub aof: bool,
}

/// This server as a replica and as a primary: role, stream, replicas.
#[derive(Debug)]
pub struct ReplicationState {
    /// The replication stream for replicas, with its backlog.
    pub stream: ReplicationStream,
    /// Replicas that wait for or receive a full synchronisation.
    pub full_syncs: FullSyncs,
    /// The state of this server as a replica; `None` for a primary.
    pub replica: Watched<Option<Box<crate::replication::role::ReplicaRole>>>,
    /// Requests of the link to the primary, to be carried out in order.
    pub link_outputs: VecDeque<LinkOutput>,
    /// Number of the last connection attempt that any ended link has made. The next link continues the
    /// numbering, so that late results of old links are recognised.
    pub link_attempts: u64,
    /// Counts of the results of links to primaries.
    pub link_counts: LinkCounts,
    /// The role that a client or the cluster has requested, until it takes effect.
    pub role_wanted: Option<crate::replication::role::RoleWanted>,
    /// Keys to which clients of this server gave an expiry while it was a replica.
    pub local_expiries: crate::replication::local_expiry::LocalExpiries,
    /// Database selected by the primary's stream at the point of the snapshot loaded last.
    pub loaded_stream_db: Option<usize>,
    /// FAILOVER in progress: this server hands its role over to a replica.
    pub failover: Watched<Option<Box<Failover>>>,
    /// A client of `PSYNC ... FAILOVER` waits until this server is promoted.
    pub failover_asked: bool,
    /// Notifications for clients that asked to be informed of failovers.
    pub maintenance: crate::replication::maintenance::Maintenance,
    /// Number of replicas that are online and not late, as `min-replicas-to-write` counts them.
    pub good_replicas: Watched<i64>,
    /// `good_replicas` has to be counted again.
    pub count_good_replicas: bool,
    /// The replicas must be asked for their offsets, because a client, a shutdown or a slot migration waits
    /// for them.
    pub ask_replicas: bool,
}

/// Behaviour switched by DEBUG.
#[derive(Debug)]
pub struct DebugSwitches {
    /// DEBUG STAND-STILL: time for which the current EXEC is suspended after this command, in ns.
    pub stand_still_ns: Option<u64>,
    /// DEBUG SET-ACTIVE-EXPIRE: whether the expiry cycle runs.
    pub active_expire: bool,
    /// DEBUG PAUSE-CRON: whether the cron is paused.
    pub cron_paused: bool,
    /// A signal to end the server arrived while the cron was paused.
    pub end_waits_for_cron: bool,
    /// DEBUG DICT-RESIZING: whether the indexes of keys shrink by themselves.
    pub resizing: bool,
    /// DEBUG QUICKLIST-PACKED-THRESHOLD, in bytes; 0 means the default.
    pub packed_threshold: usize,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call commands that are not allowed in scripts.
    pub scripts_call_all: bool,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION: whether checksums are ignored.
    pub skip_checksum: bool,
    /// DEBUG CLIENT-ENFORCE-REPLY-LIST: an unauthenticated client is closed at its first byte of waiting
    /// output.
    pub enforce_reply_list: bool,
}

/// A pause of clients by CLIENT PAUSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// End of the pause, in ms since the epoch; 0 means no pause.
    pub until_ms: i64,
    /// Whether all commands are paused, not only writes.
    pub all: bool,
}

impl Control {
    /// The control plane of a new server with this run id and the id of its own replication history.
    pub fn new(
        config: Config,
        limits: Arc<Limits>,
        now: sluice_base::Now,
        run_id: String,
        replid: String,
    ) -> Control {
        // The default is never used, because invalid lines were refused when the configuration was read.
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
    /// The data for a client's line in CLIENT LIST that is not in the session.
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
    /// Whether writing commands are held because the server is about to end.
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
    /// A primary without replicas; `replid` is the id of its history.
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
    /// Applies the numbers derived from the configuration.
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

    /// The maximum number of entries of a command log.
    pub fn log_entries_max(&self, kind: LogKind) -> usize {
        let directive = match kind {
            LogKind::Slow => param::COMMANDLOG_SLOW_EXECUTION_MAX_LEN,
            LogKind::LargeRequest => param::COMMANDLOG_LARGE_REQUEST_MAX_LEN,
            LogKind::LargeReply => param::COMMANDLOG_LARGE_REPLY_MAX_LEN,
        };
        usize::try_from(self.config.int(directive)).unwrap_or(0)
    }

    /// The libraries of functions, for a snapshot. Cost: O(libraries).
    pub fn libraries(&self) -> Libraries {
        self.functions.codes().cloned().collect()
    }

    /// Whether bytes for replicas or for the append-only file are reserved but not yet written.
    #[inline]
    pub fn has_promises(&self) -> bool {
        self.replication.stream.has_promises() || self.persistence.aof.has_promises()
    }

    /// Counts changes of the data since the last save and since the start.
    #[inline]
    pub fn count_changes(&mut self, changes: u64) {
        self.persistence.dirty += changes;
        self.persistence.written += changes;
    }

    /// Whether a background job writes a file, or a new base of the append-only file is being installed.
    #[inline]
    pub fn works_in_background(&self) -> bool {
        self.persistence.is_writing || self.persistence.rewriting.began_s.is_some()
    }

    /// Whether everything appended up to this position is on disk, in a file that the next start reads.
    #[inline]
    pub fn is_kept(&self, position: u64) -> bool {
        let has_begun = self.persistence.aof.is_on() || !self.wants_aof();
        has_begun && self.persistence.aof.is_durable(position) && !self.persistence.rewriting.is_first
    }

    /// Whether `appendonly` is on: the append-only file exists, or begins with the next rewrite.
    #[inline]
    pub fn wants_aof(&self) -> bool {
        self.config.bool(param::APPENDONLY)
    }

    /// Whether all changes of the data are paused, including expiry and eviction.
    #[inline]
    pub fn is_write_paused(&self, now: Now) -> bool {
        self.clients.pause.active(now) || self.replication.failover.is_some() || self.is_paused_by_cluster()
    }

    /// Whether a replica is taking over by a manual failover, so no write may follow the offset that the
    /// replica has received.
    #[inline]
    pub fn is_paused_by_cluster(&self) -> bool {
        self.cluster.as_ref().is_some_and(|mode| mode.paused_until_ms.is_some())
    }

    /// Ends a pause and releases the requests that it postponed.
    pub fn end_pause(&mut self) {
        *self.clients.pause = Pause::default();
        self.clients.blocking.release_postponed();
    }

    /// Ends the effect of CLIENT CACHING after the command to which it applied, or after the whole
    /// transaction.
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
    /// Whether the pause is in force at `now`.
    #[inline]
    pub fn active(&self, now: Now) -> bool {
        self.until_ms != 0 && self.until_ms > now.unix_ms()
    }

    /// Pauses until `until_ms` or longer. A pause in force is not shortened, and not reduced to writes.
    pub(crate) fn prolong(&mut self, now: Now, until_ms: i64, all: bool) {
        let old = if self.active(now) { *self } else { Pause::default() };
        *self = Pause { until_ms: old.until_ms.max(until_ms), all: old.all || all };
    }
}

//! A client as the engine knows it: its identity, its output, its deferred commands. No socket is here.
//!
//! Invariants: (1) a [`SessionKey`] names a session by its slot in the table and a generation, so the key
//! of a session that has ended finds nothing; (2) while a session executes, it is taken out of the table:
//! commands reach it as `ctx.session`, and the other sessions as `ctx.sessions`; (3) a client to close is
//! only marked here: the server closes its socket.

pub mod front;
pub mod identity;
pub mod line;
pub mod replica_feed;
pub mod table;
pub mod transaction;

use crate::blocking::Waiting;
use crate::front::FrontOutput;
use crate::identity::Identity;
use crate::slow_reads::Producing;
use crate::transaction::Transaction;
use sluice_acl::User;
use sluice_base::SessionKey;
use sluice_base::mistake::{self, Mistake};
use sluice_base::{ClientId, heap};
use sluice_command::Spec;
use sluice_commands::{Limits, ReplyMode};
use sluice_replication::Feed;
use sluice_replication::SpoolReceiver;
use sluice_resp::{AuthState, Outbox, Protocol, Reply};
use sluice_subscriptions::registry::Subscribed;
use std::sync::Arc;

/// The client that runs a command: the part of the client's session that handlers may see.
#[derive(Debug)]
pub struct Caller {
    /// The client's id, as CLIENT ID returns it.
    pub id: ClientId,
    /// Index of the database that SELECT chose, from 0.
    pub db: usize,
    /// RESP version of the client's replies, which HELLO sets.
    pub proto: Protocol,
    /// User under whose rights the client's commands run.
    user: Arc<User>,
    /// Names that the client has given itself; `None` until it sets one.
    pub labels: Option<Box<Labels>>,
    /// Place and time of the connection.
    pub origin: ClientOrigin,
    /// Amounts of input and output, and the time of the last input.
    pub traffic: ClientTraffic,
    /// Transaction of the client, for display.
    pub multi: MultiShown,
    /// Properties that outlast a command.
    pub flags: ClientFlags,
    /// Mode set by CLIENT REPLY: whether replies are sent.
    pub reply: ReplyMode,
    /// Command that is running, or else the last one that ran; `None` before the client's first command.
    pub last_command: Option<&'static Spec>,
    /// Kind of the connection, which decides the client's output limits and the lists that show the client.
    pub kind: ClientKind,
    /// Whether the connection is to be closed, and if so, at once or after the reply.
    pub closing: Closing,
    /// State of the replication to this client; `None` if the client is not a replica.
    pub replica: Option<Box<ReplicaState>>,
    /// Offset of the replication stream after the client's last command. WAIT waits until replicas
    /// acknowledge it.
    pub write_offset: u64,
    /// Numbers of channels, patterns and shard channels that the client is subscribed to.
    pub subscribed: Subscribed,
}

/// Place and time of a client's connection.
#[derive(Clone, Debug)]
pub struct ClientOrigin {
    /// Address of the client, as CLIENT LIST shows it.
    pub addr: Box<str>,
    /// Address of the server's end; all clients of a listener share the text.
    pub laddr: Arc<str>,
    /// File descriptor of the connection, for display.
    pub fd: i32,
    /// Time of the connection, seconds since the epoch.
    pub created_s: u32,
    /// What a replica has announced by REPLCONF, such as its address; `None` before the first announcement.
    pub announced: Option<Box<Announced>>,
}

/// Amounts of a client's input and output.
#[derive(Clone, Debug)]
pub struct ClientTraffic {
    /// Time of the last input, seconds since the epoch.
    pub last_s: i64,
    /// Bytes of the requests executed or rejected.
    pub net_in: u64,
    /// Bytes of output sent so far.
    pub net_out: u64,
    /// Commands executed so far.
    pub commands: u64,
    /// Bytes of unparsed input in the query buffer, as the server last published them.
    pub input_bytes: usize,
    /// Unused bytes of the query buffer, for display; [`u32::MAX`] for more.
    pub input_free: u32,
    /// When the output first exceeded the soft limit, seconds of the monotonic clock; 0 while it is within
    /// the limit.
    pub soft_limit_since_s: u32,
}

/// The transaction of a client, for display.
#[derive(Clone, Copy, Debug)]
pub struct MultiShown {
    /// Commands queued since MULTI; 0 outside of a transaction, -1 for a client that never began one.
    pub queued: i32,
    /// Bytes of the transaction that EXEC is running, for display; [`u32::MAX`] for more.
    pub bytes: u32,
}

/// Names that a client has given itself. Boxed in [`Caller`], because few clients give themselves names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Name set by CLIENT SETNAME; empty if none.
    pub name: Box<[u8]>,
    /// Library name set by CLIENT SETINFO LIB-NAME; empty if none.
    pub lib_name: Box<[u8]>,
    /// Library version set by CLIENT SETINFO LIB-VER; empty if none.
    pub lib_ver: Box<[u8]>,
}

/// What SCRIPT DEBUG has set for a client's next script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptDebugging {
    /// NO: the script runs without a debugger.
    #[default]
    No,
    /// SYNC: the script is debugged.
    Sync,
    /// YES, which is not supported: the next script is refused, because `valkey-cli --ldb` ignores the
    /// error of SCRIPT DEBUG itself.
    Refused,
}

/// Which command of a client ASKING applies to: the next one, or everything from MULTI to EXEC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskingState {
    /// ASKING applies to no command.
    #[default]
    No,
    /// ASKING applies to the next command.
    Next,
    /// ASKING applies to the command that is running, or else to the last one that ran.
    Now,
}

impl AskingState {
    /// State when a request begins. A transaction is one request, from MULTI to EXEC.
    #[must_use]
    pub fn at_request(self, is_in_multi: bool) -> AskingState {
        match self {
            AskingState::Next => AskingState::Now,
            AskingState::Now if is_in_multi => AskingState::Now,
            AskingState::Now | AskingState::No => AskingState::No,
        }
    }

    /// State before a request is executed again after it has waited.
    #[must_use]
    pub fn before_again(self) -> AskingState {
        match self {
            AskingState::Now => AskingState::Next,
            AskingState::Next | AskingState::No => self,
        }
    }
}

/// Whether a client has authenticated, or connected while no password was required: see [`Identity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// The client has never authenticated.
    #[default]
    Never,
    /// The client was authenticated once, and no longer has a user. A client that was authenticated once
    /// may have more unread output than one that never was.
    Before,
    /// The client has authenticated, and acts as its user.
    Now,
}

impl Authentication {
    /// State after the client has lost its user.
    #[must_use]
    pub fn ended(self) -> Authentication {
        match self {
            Authentication::Never => Authentication::Never,
            Authentication::Before | Authentication::Now => Authentication::Before,
        }
    }
}

/// Form of the address in MOVING notifications to a client, as CLIENT MAINT_NOTIFICATIONS sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintenanceNotices {
    /// No notification is sent.
    #[default]
    Off,
    /// An IP address: `internal-ip` or `external-ip`.
    ToIp,
    /// A host name: `internal-fqdn` or `external-fqdn`.
    ToName,
    /// No address, so that the client reconnects to the address that it is configured with.
    ToSame,
}

/// The size of a session is bounded, because there can be many clients, and an idle one takes as many bytes
/// as an active one.
const _: () = assert!(size_of::<Session>() <= 320);

impl Caller {
    /// Makes the client act as the user of `identity` from now on, and updates whether it is authenticated.
    pub fn act_as(&mut self, identity: Identity) {
        self.flags.authentication = match identity.is_authenticated {
            true => Authentication::Now,
            false => self.flags.authentication.ended(),
        };
        self.user = identity.user;
    }

    /// User of the client in its present definition: whenever users change, `users.rs` of the crate `engine`
    /// replaces the user here.
    #[inline]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Replaces the user by its new definition.
    pub fn renew_user(&mut self, user: &Arc<User>) {
        self.user = Arc::clone(user);
    }

    /// Name of the client's user.
    pub fn user_name(&self) -> &[u8] {
        self.user.name()
    }

    /// Whether the client must authenticate before it may run other commands.
    #[inline]
    pub fn must_authenticate(&self, limits: &Limits) -> bool {
        limits.admission(self.admission()) == AuthState::Unauthenticated
    }

    /// What the client may send, as far as this depends on its own authentication. [`Limits::admission`] also
    /// considers whether the default user is open, that is, enabled and without a password.
    #[inline]
    pub fn admission(&self) -> AuthState {
        match self.flags.authentication {
            _ if self.is_primary() => AuthState::Primary,
            Authentication::Never | Authentication::Before => AuthState::Unauthenticated,
            Authentication::Now => AuthState::Authenticated,
        }
    }

    /// Name set by CLIENT SETNAME; empty if none.
    pub fn name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.name)
    }

    /// Library name set by CLIENT SETINFO LIB-NAME; empty if none.
    pub fn lib_name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.lib_name)
    }

    /// Library version set by CLIENT SETINFO LIB-VER; empty if none.
    pub fn lib_ver(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.lib_ver)
    }

    /// The labels, to change; allocated if the client had none.
    pub fn labels_mut(&mut self) -> &mut Labels {
        self.labels.get_or_insert_default()
    }

    /// Whether the client is this server's primary, whose commands were checked by the primary itself.
    #[inline]
    pub fn is_primary(&self) -> bool {
        self.kind == ClientKind::Primary
    }

    /// Whether the client is the source of a move of slots to this server.
    #[inline]
    pub fn is_import(&self) -> bool {
        self.kind == ClientKind::SlotImport
    }

    /// Whether the client is the target of a move of slots from this server.
    #[inline]
    pub fn is_export(&self) -> bool {
        self.kind == ClientKind::SlotExport
    }

    /// Whether the client's commands must not be refused, because they were executed before, by another
    /// server or before a restart: see [`sluice_keyspace::Access::must_obey`].
    #[inline]
    pub fn must_obey(&self) -> bool {
        matches!(self.kind, ClientKind::Primary | ClientKind::Log | ClientKind::SlotImport)
    }

    /// Copy of the replication state; `None` if the client is no replica.
    #[inline]
    pub fn replica_state(&self) -> Option<ReplicaState> {
        self.replica.as_deref().copied()
    }

    /// Whether the client may run only a few commands such as SUBSCRIBE and UNSUBSCRIBE. This holds for a
    /// subscriber in RESP2, where a pushed message looks like a reply.
    #[inline]
    pub fn only_listens(&self) -> bool {
        self.proto == Protocol::Resp2 && self.subscribed.is_any()
    }

    /// Marks the transaction as over.
    #[inline]
    pub fn leave_multi(&mut self) {
        self.multi.queued = self.multi.queued.min(0);
        self.multi.bytes = 0;
    }

    /// Whether the client is on this machine: a Unix socket, or a loopback address.
    pub fn is_local(&self) -> bool {
        let ip = ip_of(&self.origin.addr);
        self.flags.medium == Medium::Unix || ip.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Name of a replica in log lines: its IP address and port.
    pub fn replica_name(&self) -> String {
        match self.replica_address() {
            (ip, 0) => format!("{ip}:<unknown-replica-port>"),
            (ip, port) => format!("{ip}:{port}"),
        }
    }

    /// Address at which a replica can be reached, as INFO and ROLE show it: the IP address that it
    /// announced or connected from, and the port that it announced, or 0.
    pub fn replica_address(&self) -> (&str, i32) {
        let came_from = ip_of(&self.origin.addr);
        match &self.origin.announced {
            Some(own) if !own.ip.is_empty() => (&own.ip, own.port),
            Some(own) => (came_from, own.port),
            None => (came_from, 0),
        }
    }

    /// Whether this replica can be reached at the address `ip` and `port`.
    pub fn is_reached_at(&self, ip: &str, port: i32) -> bool {
        let (own_ip, own_port) = self.replica_address();
        own_port == port && own_ip.eq_ignore_ascii_case(ip)
    }

    /// Whether this connection of a replica replaces earlier ones from the replica's address. It does so if
    /// it receives the stream and has announced a port.
    pub fn supersedes(&self) -> bool {
        let takes_stream = self
            .origin
            .announced
            .as_deref()
            .is_some_and(|announced| !announced.rdb_channel && !announced.rdb_only);
        takes_stream && self.replica_address().1 != 0
    }
}

/// Kind of a connection, which decides its output limits and the lists that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Plain client, or one that runs MONITOR.
    Normal,
    /// Replica, whose output is the replication stream.
    Replica,
    /// Primary of this server, whose input is the replication stream.
    Primary,
    /// Client that replays an append-only file.
    Log,
    /// Source of an atomic move of slots to this server; its input is the stream of the move.
    SlotImport,
    /// Target of an atomic move of slots from this server; its output is the stream of the move.
    SlotExport,
}

impl ClientKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [ClientKind; 6] = [
        ClientKind::Normal,
        ClientKind::Replica,
        ClientKind::Primary,
        ClientKind::Log,
        ClientKind::SlotImport,
        ClientKind::SlotExport,
    ];
}

/// Value of [`ReplicaState::acked`] before a replica's first acknowledgement. It is below offset 0,
/// because the replica may still be loading a snapshot of data written before the history began.
pub const NOT_ACKED: i64 = -1;

/// State of the replication to one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// Bytes of its snapshot that are queued and not sent yet. They do not count against the output limit.
    pub snapshot_queued: usize,
    /// Last offset that the replica acknowledged; [`NOT_ACKED`] before its first acknowledgement.
    pub acked: i64,
    /// Time of the last acknowledgement, seconds since the epoch.
    pub acked_s: i64,
    /// Stage of the synchronisation.
    pub stage: SyncStage,
    /// The stream after the snapshot waits until the replica acknowledges the snapshot, because otherwise the
    /// replica could not tell where the snapshot ends.
    pub awaits_ack: bool,
    /// Offset of the first byte of the stream that is not queued yet; [`u64::MAX`] while the stream is not
    /// sent to the replica.
    pub next: u64,
    /// Reader of the stream that was written after the snapshot and did not fit into the backlog.
    pub spool: Option<SpoolReceiver>,
    /// Offset up to which the replica's own append-only file is on its disk, as last acknowledged.
    pub acked_aof: i64,
    /// The connection carries the stream while a second connection carries the snapshot. Cleared when
    /// the replica reports that it has loaded the snapshot.
    pub is_main_channel: bool,
    /// The replica acknowledges offsets, because it asked for the data by PSYNC. It is closed if it is silent
    /// for `repl-timeout`.
    pub sends_acks: bool,
    /// Offset at which the stream ended when a later connection with the same announced address and port
    /// asked for the data or the stream. `None` again when that later connection has gone.
    pub superseded_at: Option<u64>,
    /// Time at which the later connection asked for the data or the stream, seconds since the epoch.
    pub superseded_s: i64,
}

impl ReplicaState {
    /// Whether the replica has the data, and is sent the stream.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.stage == SyncStage::Online && !self.awaits_ack && !self.is_main_channel
    }

    /// Whether writes can rely on the replica at second `now_s` if the replica may be silent for `lag_s`
    /// seconds. If a later connection seems to have replaced this one, the replica must have acknowledged
    /// something on this one since then.
    pub fn is_good(&self, now_s: i64, lag_s: i64) -> bool {
        let is_there = self.is_counted() || self.acked_s > self.superseded_s;
        is_there && now_s - self.acked_s <= lag_s
    }

    /// Whether this connection counts as a replica of its own, even if there is a later connection from the
    /// same address. A replica that has reconnected acknowledges on its old connection nothing past the end
    /// that the stream had at that time. A connection that has acknowledged more belongs to another replica,
    /// because several can have the same address because of address translation.
    pub fn is_counted(&self) -> bool {
        let is_other = |position: u64| u64::try_from(self.acked).is_ok_and(|acked| acked > position);
        self.superseded_at.is_none_or(is_other) || mistake::is_made(Mistake::CountedTwice)
    }
}

/// The stages of a full synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStage {
    /// The replica waits until a snapshot can be sent to it.
    Wanted,
    /// The snapshot is being sent.
    Sending,
    /// The snapshot is sent, and the stream follows.
    Online,
}

/// What a client announces by REPLCONF before it asks for the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Port on which the replica listens; not checked.
    pub port: i32,
    /// Address at which the replica can be reached; empty for the one that it connected from.
    pub ip: Box<str>,
    /// Version of the replica, a byte for each of three numbers; 0 if unknown.
    pub version: u32,
    /// The replica can read a snapshot that ends with a mark instead of announcing its length.
    pub eof: bool,
    /// The replica understands that a history goes on under another replication id.
    pub psync2: bool,
    /// The replica needs no checksum at the end of a snapshot if the connection itself protects its bytes, as
    /// TLS does.
    pub skips_checksum: bool,
    /// The replica reads a snapshot that is compressed as a whole by LZ4.
    pub lz4: bool,
    /// The replica reads a snapshot that is compressed as a whole by Zstd.
    pub zstd: bool,
    /// The replica can receive the snapshot on a second connection, beside the one for the stream.
    pub dual_channel: bool,
    /// This connection is the one for the snapshot.
    pub rdb_channel: bool,
    /// Id of the client that receives the snapshot for this replica; `None` if there is no second connection.
    pub rdb_client: Option<u64>,
    /// The client wants the snapshot but no stream.
    pub rdb_only: bool,
    /// The client wants a snapshot without keys.
    pub without_keys: bool,
    /// Id of the replica as a node of this server's cluster; `None` if it announced none.
    pub node_id: Option<Box<str>>,
}

/// Whether a session is to be closed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The session stays open.
    No,
    /// The session is closed once its output has been sent.
    AfterReply,
    /// The session is closed at once.
    Now,
}

/// Properties of a client that outlast a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFlags {
    /// Medium of the connection.
    pub medium: Medium,
    /// CLIENT CAPA has announced `redirect`, as CLIENT LIST shows.
    pub capa_redirect: bool,
    /// CLIENT NO-EVICT is on.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH is on.
    pub no_touch: bool,
    /// READONLY is on, so a replica of a cluster may answer the client's reads.
    pub read_only: bool,
    /// Which command ASKING applies to.
    pub asking: AskingState,
    /// Notifications that CLIENT MAINT_NOTIFICATIONS asked for.
    pub maintenance: MaintenanceNotices,
    /// MONITOR is on: executed commands are sent to the client.
    pub monitor: bool,
    /// CLIENT IMPORT-SOURCE is on.
    pub import_source: bool,
    /// EXEC runs the client's transaction.
    pub in_exec: bool,
    /// What SCRIPT DEBUG has set for the next script.
    pub script_debugging: ScriptDebugging,
    /// Whether the client has authenticated.
    pub authentication: Authentication,
}

/// A connected client: identity, output, and requests that wait.
#[derive(Debug)]
pub struct Session {
    /// Key of the session in the table.
    pub key: SessionKey,
    /// Identity and state, as handlers see them.
    pub caller: Caller,
    /// Replies that the server has not taken yet.
    pub outbox: Outbox,
    /// The session is on the list of sessions with new output.
    pub queued: bool,
    /// Whether the client came from one of `priority-subnets`.
    has_priority: bool,
    /// Bits of the gate's checks that can reject a request of this session (`Gate::session_mask`).
    pub mask: u32,
    /// Commands that MULTI has queued; `None` outside of a transaction.
    pub transaction: Option<Box<Transaction>>,
    /// Rest of the snapshot that is being sent to this replica; `None` if no snapshot is being sent.
    pub feed: Option<Box<Feed>>,
    /// Command that is blocked or postponed; `None` if the client does not wait.
    pub waiting: Option<Box<Waiting>>,
    /// Output that precedes `outbox`: segments that wait until they are durable (they count as taken by the
    /// server), and a reply that another thread produces.
    pub front: Option<Box<FrontOutput>>,
    /// A command that has waited runs again, so MONITOR and the client's counters have recorded it already.
    pub is_rerun: bool,
    /// CLIENT TRACKING is on, so the keys that the client reads may have to be remembered.
    pub tracks_reads: bool,
    /// The request that runs again was postponed by a pause, a failover or a shutdown.
    pub was_postponed: bool,
    /// Bytes of output that are neither sent yet nor in `outbox` any more, because the server has taken them,
    /// they are listed for the client's group (`Multicasts`), or they wait until they are durable. They count
    /// towards the output limits.
    pub in_flight: usize,
    /// Position of the append-only file that must be durable before the session's output is sent.
    pub durable_at: u64,
    /// Messages were pushed to the output since [`Session::durable_at`] was last raised for pushed messages.
    /// Before they are sent, the append-only file must be durable up to the time at which they were pushed.
    /// Set only if replies wait for durability.
    pub was_pushed: bool,
    /// Most bytes of output that were handed over at once since the last run of the cron, for display;
    /// [`u32::MAX`] for more.
    pub output_peak: u32,
}

impl Session {
    /// Runs a command that writes a reply and needs the whole session. Whatever is pushed to the session
    /// while the command runs, by the command or by others, follows the reply.
    pub fn with_reply<R>(&mut self, run: impl FnOnce(&mut Session, Reply<'_>) -> R) -> R {
        let mut outbox = std::mem::take(&mut self.outbox);
        let reply = Reply::new(&mut outbox, self.caller.proto);
        let result = run(self, reply);
        outbox.append(&mut self.outbox);
        self.outbox = outbox;
        result
    }

    /// A session for a client that has just connected.
    pub fn new(
        key: SessionKey,
        id: ClientId,
        connection: ClientAddress,
        now_s: i64,
        identity: Identity,
    ) -> Session {
        Session {
            key,
            outbox: Outbox::new(),
            queued: false,
            has_priority: connection.has_priority,
            mask: 0,
            transaction: None,
            feed: None,
            waiting: None,
            front: None,
            is_rerun: false,
            tracks_reads: false,
            was_postponed: false,
            in_flight: 0,
            output_peak: 0,
            durable_at: 0,
            was_pushed: false,
            caller: Caller {
                id,
                db: 0,
                proto: Protocol::Resp2,
                labels: None,
                origin: ClientOrigin {
                    addr: connection.addr.into(),
                    laddr: connection.laddr,
                    fd: connection.fd,
                    created_s: now_s as u32,
                    announced: None,
                },
                traffic: ClientTraffic {
                    last_s: now_s,
                    net_in: 0,
                    net_out: 0,
                    commands: 0,
                    input_bytes: 0,
                    input_free: 0,
                    soft_limit_since_s: 0,
                },
                multi: MultiShown { queued: -1, bytes: 0 },
                flags: ClientFlags {
                    medium: connection.medium,
                    authentication: match identity.is_authenticated {
                        true => Authentication::Now,
                        false => Authentication::Never,
                    },
                    ..ClientFlags::default()
                },
                reply: ReplyMode::On,
                last_command: None,
                kind: ClientKind::Normal,
                closing: Closing::No,
                replica: None,
                write_offset: 0,
                subscribed: Subscribed::default(),
                user: identity.user,
            },
        }
    }

    /// Heap bytes of the session, without texts and values that are shared.
    pub fn footprint(&self) -> usize {
        let caller = &self.caller;
        let labels = caller.labels.as_deref().map_or(0, |labels| {
            let texts = [&labels.name, &labels.lib_name, &labels.lib_ver].map(|text| heap::block(text.len()));
            heap::boxed::<Labels>() + texts.iter().sum::<usize>()
        });
        let announced = caller.origin.announced.as_deref();
        let replica = caller.replica.as_deref().map_or(0, |_| heap::boxed::<ReplicaState>())
            + announced.map_or(0, |own| heap::boxed::<Announced>() + heap::block(own.ip.len()));
        let output = self.outbox.footprint() + self.feed.as_deref().map_or(0, |_| heap::boxed::<Feed>());
        let output = output + self.front.as_ref().map_or(0, |front| front.footprint());
        let deferred = self.transaction.as_deref().map_or(0, Transaction::footprint)
            + self.waiting.as_deref().map_or(0, Waiting::footprint);
        heap::boxed::<Session>()
            + heap::block(caller.origin.addr.len())
            + labels
            + replica
            + output
            + deferred
    }

    /// Bytes of output that are not sent to the client yet.
    #[inline]
    pub fn output_bytes(&self) -> usize {
        self.outbox.len() + self.in_flight + self.producing().map_or(0, |of| of.unsent.len())
    }

    /// Bytes of memory of the output that the server has not taken yet.
    #[inline]
    pub fn outbox_capacity(&self) -> usize {
        self.outbox.capacity_bytes() + self.front.as_ref().map_or(0, |front| front.capacity_bytes())
    }

    /// Output that the server may take now. While a thread still produces a reply, this excludes all output
    /// that follows the reply.
    #[inline]
    pub fn unsent_mut(&mut self) -> &mut Outbox {
        match self.front.as_deref_mut() {
            Some(FrontOutput { producing: Some(producing), .. }) => &mut producing.unsent,
            Some(_) | None => &mut self.outbox,
        }
    }

    /// The reply that a thread produces for this client. Until the reply is whole, `outbox` has only
    /// output that follows it.
    #[inline]
    pub fn producing(&self) -> Option<&Producing> {
        self.front.as_ref()?.producing.as_ref()
    }

    /// Mutable access to the reply of [`Session::producing`].
    #[inline]
    pub fn producing_mut(&mut self) -> Option<&mut Producing> {
        self.front.as_mut()?.producing.as_mut()
    }

    /// Removes the reply that a thread produces, and returns it; `None` if there is none.
    pub fn take_producing(&mut self) -> Option<Producing> {
        let producing = self.front.as_mut()?.producing.take();
        self.front.take_if(|front| front.is_empty());
        producing
    }

    /// Whether output waits until it is durable.
    #[inline]
    pub fn has_deferred_output(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.has_deferred_output())
    }

    /// Appends the session to `ready` if its outbox has output and the session is not in `ready` already.
    #[inline]
    pub fn note_output(&mut self, ready: &mut Vec<SessionKey>) {
        if !self.queued && !self.outbox.is_empty() {
            self.queued = true;
            ready.push(self.key);
        }
    }

    /// Bytes of the transaction that the client queues or runs.
    pub(crate) fn multi_mem(&self) -> usize {
        self.transaction
            .as_ref()
            .map_or(self.caller.multi.bytes as usize, |transaction| transaction.heap_bytes())
    }

    /// Bytes of the requests that are deferred: the one that waits, and the transaction.
    pub(crate) fn deferred_bytes(&self) -> usize {
        self.multi_mem() + self.waiting.as_ref().map_or(0, |waiting| waiting.heap_bytes())
    }

    /// Notes that the session's next output must not be sent before `position` of the append-only file is
    /// durable.
    #[inline]
    pub fn wait_until_durable(&mut self, position: u64) {
        self.durable_at = self.durable_at.max(position);
    }

    /// Appends the session of a slow read to `ready` if the server has output to take and the session is not
    /// in `ready` already.
    #[inline]
    pub fn note_unsent(&mut self, ready: &mut Vec<SessionKey>) {
        if !self.queued && !self.unsent_mut().is_empty() {
            self.queued = true;
            ready.push(self.key);
        }
    }
}

/// What the server knows of a new connection.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// Address of the client, as CLIENT LIST shows it.
    pub addr: String,
    /// Address of the server, as CLIENT LIST shows it.
    pub laddr: Arc<str>,
    /// File descriptor of the connection, for display.
    pub fd: i32,
    /// Medium of the connection.
    pub medium: Medium,
    /// Whether the client comes from one of `priority-subnets`.
    pub has_priority: bool,
}

/// Medium of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// TCP without encryption.
    #[default]
    Tcp,
    /// Unix socket.
    Unix,
    /// TLS: the connection itself detects bytes that were changed on the way.
    Tls,
}

/// Address without its port: `127.0.0.1` of `127.0.0.1:5000`, `::1` of `[::1]:5000`.
pub fn ip_of(addr: &str) -> &str {
    let ip = addr.rsplit_once(':').map_or(addr, |(ip, _)| ip);
    ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip)
}

//! A client as the engine knows it: its identity, its output, its deferred commands. No socket is here.
//!
//! Invariants: (1) a [`SessionKey`] names a session by slot and generation, so a stale one finds nothing; (2)
//! while a session executes it is taken out of the table, and commands reach it as `ctx.session`, the others
//! as `ctx.sessions`; (3) only marks are set here when a client must go: the server closes its socket.

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

/// The client that runs a command: all that handlers may see of it.
#[derive(Debug)]
pub struct Caller {
    /// What CLIENT ID answers.
    pub id: ClientId,
    /// Selected database.
    pub db: usize,
    /// Protocol of replies.
    pub proto: Protocol,
    /// In whose name the client acts.
    user: Arc<User>,
    /// What it calls itself, if it does.
    pub labels: Option<Box<Labels>>,
    /// Where it has come from.
    pub origin: ClientOrigin,
    /// What it has sent and was sent.
    pub traffic: ClientTraffic,
    /// Its transaction, for display.
    pub multi: MultiShown,
    /// Its lasting properties.
    pub flags: ClientFlags,
    /// CLIENT REPLY.
    pub reply: ReplyMode,
    /// The command it ran last (or runs).
    pub last_command: Option<&'static Spec>,
    /// Kind of connection.
    pub kind: ClientKind,
    /// Whether and how it ends.
    pub closing: Closing,
    /// Replica state, when it is one.
    pub replica: Option<Box<ReplicaState>>,
    /// Offset of the replication stream behind its last command: what WAIT waits for.
    pub write_offset: u64,
    /// How much it has subscribed to.
    pub subscribed: Subscribed,
}

/// Where a client has come from, and when.
#[derive(Clone, Debug)]
pub struct ClientOrigin {
    /// Its address, as CLIENT LIST shows it.
    pub addr: Box<str>,
    /// Address of the server's end: one text for all clients of a listener.
    pub laddr: Arc<str>,
    /// Number of its descriptor, for display.
    pub fd: i32,
    /// When it connected, seconds since the epoch.
    pub created_s: u32,
    /// What a replica has said of itself by REPLCONF, where it can be reached among others; none before that.
    pub announced: Option<Box<Announced>>,
}

/// What a client has sent and was sent.
#[derive(Clone, Debug)]
pub struct ClientTraffic {
    /// When it last sent something, seconds since the epoch.
    pub last_s: i64,
    /// Bytes of the requests executed or rejected.
    pub net_in: u64,
    /// Bytes sent.
    pub net_out: u64,
    /// Commands executed.
    pub commands: u64,
    /// Bytes of unparsed input it holds, as the server published it.
    pub input_bytes: usize,
    /// Unused bytes of that buffer, for display; [`u32::MAX`] for more.
    pub input_free: u32,
    /// When its output first exceeded the soft limit, seconds of the monotonic clock; 0 for not.
    pub soft_limit_since_s: u32,
}

/// The transaction of a client, for display.
#[derive(Clone, Copy, Debug)]
pub struct MultiShown {
    /// Commands queued since MULTI; 0 outside of a transaction, -1 for a client that never began one.
    pub queued: i32,
    /// Bytes of the transaction that EXEC runs, for display; [`u32::MAX`] for more.
    pub bytes: u32,
}

/// What a client calls itself. Few do all of it, and there are many clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// CLIENT SETNAME.
    pub name: Box<[u8]>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Box<[u8]>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Box<[u8]>,
}

/// What SCRIPT DEBUG has said about a client's next script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptDebugging {
    /// It runs.
    #[default]
    No,
    /// SYNC: it is debugged.
    Sync,
    /// YES, which is not there: it is refused, since `valkey-cli --ldb` does not look at the first error.
    Refused,
}

/// Which of a client's commands ASKING is about: the next one, or MULTI to EXEC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskingState {
    /// None.
    #[default]
    No,
    /// The command that comes next.
    Next,
    /// The command that runs, or ran last.
    Now,
}

impl AskingState {
    /// What is so for a request that has come. A transaction is one request, from MULTI to EXEC.
    #[must_use]
    pub fn at_request(self, is_in_multi: bool) -> AskingState {
        match self {
            AskingState::Next => AskingState::Now,
            AskingState::Now if is_in_multi => AskingState::Now,
            AskingState::Now | AskingState::No => AskingState::No,
        }
    }

    /// What is so ahead of a request that comes once more, because it has waited.
    #[must_use]
    pub fn before_again(self) -> AskingState {
        match self {
            AskingState::Now => AskingState::Next,
            AskingState::Next | AskingState::No => self,
        }
    }
}

/// Whether a client has proved who it is, or came when nobody had to: see [`Identity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// The client has not.
    #[default]
    Never,
    /// The client had, and is nobody now. Whoever was authenticated once may have more unread output.
    Before,
    /// The client has.
    Now,
}

impl Authentication {
    /// What is so when the client is nobody any more.
    #[must_use]
    pub fn ended(self) -> Authentication {
        match self {
            Authentication::Never => Authentication::Never,
            Authentication::Before | Authentication::Now => Authentication::Before,
        }
    }
}

/// What a client has asked for by CLIENT MAINT_NOTIFICATIONS: the address that a MOVING names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintenanceNotices {
    /// No notification is sent.
    #[default]
    Off,
    /// An IP address: `internal-ip` or `external-ip`.
    ToIp,
    /// A host name: `internal-fqdn` or `external-fqdn`.
    ToName,
    /// None: the client connects to where it is configured to.
    ToSame,
}

/// What a client takes at most, beside its connection, whether it is idle or not: there are many.
const _: () = assert!(size_of::<Session>() <= 320);

impl Caller {
    /// The client acts in this name from now on.
    pub fn act_as(&mut self, identity: Identity) {
        self.flags.authentication = match identity.is_authenticated {
            true => Authentication::Now,
            false => self.flags.authentication.ended(),
        };
        self.user = identity.user;
    }

    /// Its user, as defined now: `users.rs` renews it when users change.
    #[inline]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Its user has a new form.
    pub fn renew_user(&mut self, user: &Arc<User>) {
        self.user = Arc::clone(user);
    }

    /// Name of its user.
    pub fn user_name(&self) -> &[u8] {
        self.user.name()
    }

    /// Whether the client must give a name and a password before anything else.
    #[inline]
    pub fn must_authenticate(&self, limits: &Limits) -> bool {
        limits.admission(self.admission()) == AuthState::Unauthenticated
    }

    /// What the client may send, for itself. [`Limits::admission`] decides with what the default user asks
    /// for.
    #[inline]
    pub fn admission(&self) -> AuthState {
        match self.flags.authentication {
            _ if self.is_primary() => AuthState::Primary,
            Authentication::Never | Authentication::Before => AuthState::Unauthenticated,
            Authentication::Now => AuthState::Authenticated,
        }
    }

    /// CLIENT SETNAME; empty for none.
    pub fn name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.name)
    }

    /// CLIENT SETINFO LIB-NAME; empty for none.
    pub fn lib_name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.lib_name)
    }

    /// CLIENT SETINFO LIB-VER; empty for none.
    pub fn lib_ver(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |labels| &labels.lib_ver)
    }

    /// What it calls itself, to change.
    pub fn labels_mut(&mut self) -> &mut Labels {
        self.labels.get_or_insert_default()
    }

    /// Whether it is this server's primary: what it sends was decided there.
    #[inline]
    pub fn is_primary(&self) -> bool {
        self.kind == ClientKind::Primary
    }

    /// Whether it is the source of a move of slots to this server.
    #[inline]
    pub fn is_import(&self) -> bool {
        self.kind == ClientKind::SlotImport
    }

    /// Whether it is the target of a move of slots from this server.
    #[inline]
    pub fn is_export(&self) -> bool {
        self.kind == ClientKind::SlotExport
    }

    /// Whether its commands were decided elsewhere: see [`sluice_keyspace::Access::is_decided`].
    #[inline]
    pub fn is_decided(&self) -> bool {
        matches!(self.kind, ClientKind::Primary | ClientKind::Log | ClientKind::SlotImport)
    }

    /// Replica state, when it is one.
    #[inline]
    pub fn replica_state(&self) -> Option<ReplicaState> {
        self.replica.as_deref().copied()
    }

    /// Whether it may only subscribe, unsubscribe and little else: in RESP2 a message looks like a reply.
    #[inline]
    pub fn only_listens(&self) -> bool {
        self.proto == Protocol::Resp2 && self.subscribed.is_any()
    }

    /// Its transaction is over.
    #[inline]
    pub fn leave_multi(&mut self) {
        self.multi.queued = self.multi.queued.min(0);
        self.multi.bytes = 0;
    }

    /// Whether the client is on this machine: a Unix socket, or the loopback address.
    pub fn is_local(&self) -> bool {
        let ip = ip_of(&self.origin.addr);
        self.flags.medium == Medium::Unix || ip.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// A replica's name in the log.
    pub fn replica_name(&self) -> String {
        match self.replica_address() {
            (ip, 0) => format!("{ip}:<unknown-replica-port>"),
            (ip, port) => format!("{ip}:{port}"),
        }
    }

    /// Where a replica can be reached, as INFO and ROLE show it: the address it announced or came from, and
    /// the port it announced, or 0.
    pub fn replica_address(&self) -> (&str, i32) {
        let came_from = ip_of(&self.origin.addr);
        match &self.origin.announced {
            Some(own) if !own.ip.is_empty() => (&own.ip, own.port),
            Some(own) => (came_from, own.port),
            None => (came_from, 0),
        }
    }

    /// Whether its replica says that it is reached there.
    pub fn is_reached_at(&self, ip: &str, port: i32) -> bool {
        let (own_ip, own_port) = self.replica_address();
        own_port == port && own_ip.eq_ignore_ascii_case(ip)
    }

    /// Whether, as a replica's connection, it takes the place of earlier ones at its address: it takes the
    /// stream, and says where it is.
    pub fn supersedes(&self) -> bool {
        let takes_stream = self
            .origin
            .announced
            .as_deref()
            .is_some_and(|announced| !announced.rdb_channel && !announced.rdb_only);
        takes_stream && self.replica_address().1 != 0
    }
}

/// Which limits and lists a client belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A plain client; a MONITOR is one too.
    Normal,
    /// A replica, whose output is a stream.
    Replica,
    /// The primary of this server, whose input is a stream.
    Primary,
    /// In whose name an append-only file is replayed.
    Log,
    /// The source of an atomic move of slots to this server, whose input is a stream.
    SlotImport,
    /// The target of an atomic move of slots from this server, whose output is a stream.
    SlotExport,
}

impl ClientKind {
    /// All kinds, in their order.
    pub const ALL: [ClientKind; 6] = [
        ClientKind::Normal,
        ClientKind::Replica,
        ClientKind::Primary,
        ClientKind::Log,
        ClientKind::SlotImport,
        ClientKind::SlotExport,
    ];
}

/// What a replica has acknowledged that has said nothing: not even offset 0, since it may be loading its
/// snapshot, which has what was written before the history began.
pub const NOT_ACKED: i64 = -1;

/// How far a replica's synchronisation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// Bytes of its snapshot that are queued and not sent yet: they do not count against its output limit.
    pub snapshot_queued: usize,
    /// Last offset it acknowledged; [`NOT_ACKED`] before the first.
    pub acked: i64,
    /// Time of that, seconds since the epoch.
    pub acked_s: i64,
    /// How far it is.
    pub stage: SyncStage,
    /// What comes after its snapshot waits until it says that it has that: it could not tell the end
    /// otherwise.
    pub awaits_ack: bool,
    /// Offset of the first byte of the stream that it was not queued; [`u64::MAX`] while it is not sent the
    /// stream.
    pub next: u64,
    /// Where it takes what is behind its snapshot and was more than the backlog keeps.
    pub spool: Option<SpoolReceiver>,
    /// Last position of its append-only file that it said is on its disk: an offset of the stream.
    pub acked_aof: i64,
    /// It takes the stream while its other connection takes the snapshot, until it says that it has that.
    pub is_main_channel: bool,
    /// It tells how far it is (it came by PSYNC): one that is silent for `repl-timeout` is closed.
    pub sends_acks: bool,
    /// Where the stream ended when a later connection came whose replica says that it is reached at the same
    /// address and port. `None` again when that one has gone.
    pub superseded_at: Option<u64>,
    /// When that connection came, s since the epoch.
    pub superseded_s: i64,
}

impl ReplicaState {
    /// Whether it has the data, and is sent what comes behind.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.stage == SyncStage::Online && !self.awaits_ack && !self.is_main_channel
    }

    /// Whether writes can rely on it at this second, if it may be silent for `lag_s`. A connection that a
    /// later one seems to have replaced has to have been heard of since.
    pub fn is_good(&self, now_s: i64, lag_s: i64) -> bool {
        let is_there = self.is_counted() || self.acked_s > self.superseded_s;
        is_there && now_s - self.acked_s <= lag_s
    }

    /// Whether its acknowledgements count beside those of later connections from the same address: a replica
    /// that has come back has acknowledged nothing on this connection behind the end that the stream had
    /// then. Whoever has is another replica: addresses of several can be the same behind a translation of
    /// addresses.
    pub fn is_counted(&self) -> bool {
        let is_other = |position: u64| u64::try_from(self.acked).is_ok_and(|acked| acked > position);
        self.superseded_at.is_none_or(is_other) || mistake::is_made(Mistake::CountedTwice)
    }
}

/// The stages of a full synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStage {
    /// It waits for a snapshot.
    Wanted,
    /// It is sent one.
    Sending,
    /// It receives the stream.
    Online,
}

/// What a client says of itself by REPLCONF before it asks for the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Port on which it listens; not checked.
    pub port: i32,
    /// Address at which it can be reached; empty: the one it came from.
    pub ip: Box<str>,
    /// Its version, a byte for each of three numbers; 0: unknown.
    pub version: u32,
    /// It can read a snapshot that ends with a mark.
    pub eof: bool,
    /// It understands that a history goes on under another id.
    pub psync2: bool,
    /// It needs no checksum at the end of a snapshot that a connection with checks of its own brings.
    pub skips_checksum: bool,
    /// It reads a snapshot that is compressed as a whole by LZ4.
    pub lz4: bool,
    /// It reads a snapshot that is compressed as a whole by Zstd.
    pub zstd: bool,
    /// It can take the snapshot on a connection beside that of the stream.
    pub dual_channel: bool,
    /// This is that connection.
    pub rdb_channel: bool,
    /// Id of the client that takes the snapshot for it.
    pub rdb_client: Option<u64>,
    /// It wants the snapshot and no stream.
    pub rdb_only: bool,
    /// It wants no keys in it.
    pub without_keys: bool,
    /// The id by which it is a node of this server's cluster.
    pub node_id: Option<Box<str>>,
}

/// When a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// It stays.
    No,
    /// Once its output has been sent.
    AfterReply,
    /// At once.
    Now,
}

/// Lasting properties of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFlags {
    /// What the connection is made of.
    pub medium: Medium,
    /// Capabilities it announced by CLIENT CAPA, as shown in CLIENT LIST.
    pub capa_redirect: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// READONLY.
    pub read_only: bool,
    /// ASKING.
    pub asking: AskingState,
    /// CLIENT MAINT_NOTIFICATIONS.
    pub maintenance: MaintenanceNotices,
    /// MONITOR.
    pub monitor: bool,
    /// CLIENT IMPORT-SOURCE.
    pub import_source: bool,
    /// Runs EXEC.
    pub in_exec: bool,
    /// What becomes of its next script.
    pub script_debugging: ScriptDebugging,
    /// Whether the client is authenticated.
    pub authentication: Authentication,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    /// Its name in the table.
    pub key: SessionKey,
    /// Its identity and state, as handlers see it.
    pub caller: Caller,
    /// Replies that the server has not taken yet.
    pub outbox: Outbox,
    /// It is on the list of sessions with new output.
    pub queued: bool,
    /// Whether the client came from one of `priority-subnets`.
    has_priority: bool,
    /// Bits of the gate's checks that can reject this session something (`Gate::session_mask`).
    pub mask: u32,
    /// What MULTI has queued, between MULTI and EXEC.
    pub transaction: Option<Box<Transaction>>,
    /// What is left of the snapshot that it is sent.
    pub feed: Option<Box<Feed>>,
    /// The command that it waits with, if it waits.
    pub waiting: Option<Box<Waiting>>,
    /// Output in front of `outbox`: what waits until it is durable, which counts as taken, and a reply that a
    /// thread produces.
    pub front: Option<Box<FrontOutput>>,
    /// Its waiting command is run again: MONITOR and its counts know it already.
    pub is_rerun: bool,
    /// CLIENT TRACKING: what it reads may have to be remembered.
    pub tracks_reads: bool,
    /// Its request runs again that was postponed by a pause, a failover or the end of the server.
    pub was_postponed: bool,
    /// Bytes the server has taken, or finds listed, or that wait until they are durable, and that are not
    /// sent yet: counts against the output limits.
    pub in_flight: usize,
    /// Position of the append-only file that must be durable before the session's output is sent.
    pub durable_at: u64,
    /// Its output holds what it did not ask for, since [`Session::durable_at`] was last asked for: all that
    /// is written by then must be durable first. Kept where replies wait for that.
    pub was_pushed: bool,
    /// Most bytes of output that were handed over at once since the cron last looked, for display;
    /// [`u32::MAX`] for more.
    pub output_peak: u32,
}

impl Session {
    /// Has a command write its reply while it may look at the whole session. What others, or the command
    /// itself, push to the session meanwhile comes after the reply.
    pub fn with_reply<R>(&mut self, run: impl FnOnce(&mut Session, Reply<'_>) -> R) -> R {
        let mut outbox = std::mem::take(&mut self.outbox);
        let reply = Reply::new(&mut outbox, self.caller.proto);
        let result = run(self, reply);
        outbox.append(&mut self.outbox);
        self.outbox = outbox;
        result
    }

    /// A client that has come just now.
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

    /// Bytes that the allocator has given. A text that several clients share is not counted.
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

    /// Bytes of output that the client has not received yet.
    #[inline]
    pub fn output_bytes(&self) -> usize {
        self.outbox.len() + self.in_flight + self.producing().map_or(0, |of| of.unsent.len())
    }

    /// Memory of the output that the server has not taken.
    #[inline]
    pub fn outbox_capacity(&self) -> usize {
        self.outbox.capacity_bytes() + self.front.as_ref().map_or(0, |front| front.capacity_bytes())
    }

    /// What the server may take now: nothing of what comes behind a reply that a thread produces.
    #[inline]
    pub fn unsent_mut(&mut self) -> &mut Outbox {
        match self.front.as_deref_mut() {
            Some(FrontOutput { producing: Some(producing), .. }) => &mut producing.unsent,
            Some(_) | None => &mut self.outbox,
        }
    }

    /// What a thread has produced of the reply that it waits for. Until the reply's end, `outbox` has what
    /// comes behind that.
    #[inline]
    pub fn producing(&self) -> Option<&Producing> {
        self.front.as_ref()?.producing.as_ref()
    }

    /// As [`Session::producing`], to be changed.
    #[inline]
    pub fn producing_mut(&mut self) -> Option<&mut Producing> {
        self.front.as_mut()?.producing.as_mut()
    }

    /// Ends what a thread produces.
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

    /// Lists a session that has output, once.
    #[inline]
    pub fn note_output(&mut self, ready: &mut Vec<SessionKey>) {
        if !self.queued && !self.outbox.is_empty() {
            self.queued = true;
            ready.push(self.key);
        }
    }

    /// Bytes of the transaction that it queues or runs.
    pub(crate) fn multi_mem(&self) -> usize {
        self.transaction
            .as_ref()
            .map_or(self.caller.multi.bytes as usize, |transaction| transaction.heap_bytes())
    }

    /// Bytes of the requests that it has deferred: what it waits with, and its transaction.
    pub(crate) fn deferred_bytes(&self) -> usize {
        self.multi_mem() + self.waiting.as_ref().map_or(0, |waiting| waiting.heap_bytes())
    }

    /// The session's next output must not be sent before this position is durable.
    #[inline]
    pub fn wait_until_durable(&mut self, position: u64) {
        self.durable_at = self.durable_at.max(position);
    }

    /// Lists a session for which a thread produces, if the server has something to take.
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
    /// The client's address, as shown.
    pub addr: String,
    /// The server's address, as shown.
    pub laddr: Arc<str>,
    /// The descriptor, for display.
    pub fd: i32,
    /// What the connection is made of.
    pub medium: Medium,
    /// Whether the client comes from one of `priority-subnets`.
    pub has_priority: bool,
}

/// What a connection is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// TCP.
    #[default]
    Tcp,
    /// A unix socket.
    Unix,
    /// TLS: the connection notices by itself when bytes are changed on the way.
    Tls,
}

/// The address without its port, as `127.0.0.1:5000` or `[::1]:5000`.
pub fn ip_of(addr: &str) -> &str {
    let ip = addr.rsplit_once(':').map_or(addr, |(ip, _)| ip);
    ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip)
}

//! The table of parameters: a list, in the order of the example file.
//!
//! A row is `NAME: type = constructor, "prose";`. The macro turns the rows into the array [`PARAMS`] and,
//! in [`param`], one typed constant per row; a row whose constructor disagrees with its type does not
//! compile. Bounds and defaults are those of the reference; a row without effect here gives the reason.

use crate::choice::{
    AclPubsubDefault, AppendFsync, BgsaveMethod, ClusterSaveBehavior, DisklessLoad, EndpointType, EventLoop,
    EvictionPolicy, Guard, LogFormat, LogLevel, LogTimestampFormat, OomScoreAdj, PropagationErrorBehavior,
    RdbCompression, RdbVersionCheck, ReplCompression, Supervisor, SyslogFacility, TlsAuthClients,
    TlsUserField, shutdown,
};
use crate::row::{
    Id, Param, ParamId, ParamKind, Section, UnitOfMeasure, boolean, bytes, flags, in_unit, kind::*, list,
    number, one_of, optional, optional_binary, special, text, text_binary,
};
use crate::value::check;

const INT: i128 = i32::MAX as i128;
const UINT: i128 = u32::MAX as i128;
const LONG: i128 = i64::MAX as i128;
const ULONG: i128 = u64::MAX as i128;
const MIB: i128 = 1024 * 1024;

const CRASH: &str = "settings of panics and crash reports";
const MPTCP: &str = "multipath TCP";

// Reasons why a directive has no effect here.
const NO_SCAN_FIELDS: &str = "entries are moved one by one, and large values are not moved";
const ALWAYS_LAZY: &str = "large values are always freed in the background";
const OLD_DATA_LAZY: &str = "the old data are always freed in the background";
const REPLICA_GOES_ON: &str = "a replica whose disk fails always continues";
const FIXED_COPY: &str = "values from 16 KiB on are sent without a copy, with threads or without";
const NO_FORK: &str = "there is no child process: snapshots are taken by threads";
const OWN_FSYNC: &str = "the append-only file has a thread of its own for fsync";
const NO_DH: &str = "Diffie-Hellman is done on elliptic curves alone, which need no parameters";
const NO_DELAYED_WRITERS: &str =
    "clients never wait for a slow replica: its output is spooled to disk, or its link is closed";
const SHORT_ITERATIONS: &str =
    "long commands pause in between, and every connection is served in each iteration";
const NO_RDMA: &str = "RDMA is not built in";

impl ParamId {
    /// The row of the table.
    pub fn param(self) -> &'static Param {
        &PARAMS[usize::from(self.0)]
    }

    /// Every parameter, in table order.
    pub fn all() -> impl Iterator<Item = ParamId> {
        (0..PARAMS.len()).map(|index| ParamId(index as u16))
    }

    /// The parameter with that name or alias, in any case. Cost: a scan of the table.
    pub fn find(name: &[u8]) -> Option<ParamId> {
        Self::find_spelled(name).map(|(id, _)| id)
    }

    /// Like [`ParamId::find`], with the spelling in the table that matched: the name or the alias.
    pub(crate) fn find_spelled(name: &[u8]) -> Option<(ParamId, &'static str)> {
        let same = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        ParamId::all().find_map(|id| {
            let param = id.param();
            if same(param.name) {
                return Some((id, param.name));
            }
            param.alias.filter(|alias| same(alias)).map(|alias| (id, alias))
        })
    }
}

macro_rules! params {
    ($( $section:ident { $( $id:ident : $kind:ty = $row:expr, $doc:literal ; )* } )*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum ParamIndex { $($( $id, )*)* COUNT }

        const TABLE: [Param; ParamIndex::COUNT as usize] =
            [ $($( $row.documented(Section::$section, $doc), )*)* ];

        /// Every parameter; [`crate::ParamId`] and [`Id`] are positions in it.
        pub static PARAMS: [Param; ParamIndex::COUNT as usize] = TABLE;

        /// The parameters by name, with the type of their values.
        pub mod param {
            use super::*;
            $($( #[doc = $doc] pub const $id: Id<$kind> = Id::new(ParamIndex::$id as u16); )*)*
        }

        $($( const _: () = assert!(<$kind as Holds>::TAG as u8 == tag(&TABLE[ParamIndex::$id as usize].kind) as u8); )*)*
    };
}

params! {
    Network {
        BIND: List = list("bind", &["*", "-::*"]),
            "Addresses to listen on. A leading '-' allows an address to be missing; '*' and '::*' mean all of IPv4 and IPv6.";
        BIND_SOURCE_ADDR: Text = optional("bind-source-addr"),
            "Local address from which this server opens connections to others.";
        PROTECTED_MODE: Bool = boolean("protected-mode", true),
            "Refuse clients from other machines while the default user has no password and no address was chosen.";
        PORT: Int = number("port", 6379, 0, 65535),
            "TCP port for clients; 0 opens none.";
        TCP_BACKLOG: Int = number("tcp-backlog", 511, 0, INT).immutable(),
            "Connections that may wait to be accepted; the kernel has a limit of its own (net.core.somaxconn).";
        UNIXSOCKET: Text = optional("unixsocket").immutable(),
            "Path of a Unix socket to listen on as well.";
        UNIXSOCKETGROUP: Text = optional("unixsocketgroup").immutable(),
            "Group that owns the Unix socket.";
        UNIXSOCKETPERM: Int = in_unit("unixsocketperm", 0, (0, 0o777), UnitOfMeasure::Octal).immutable(),
            "Permissions of the Unix socket, in octal; 0 leaves what the umask gives.";
        TIMEOUT: Int = number("timeout", 0, 0, INT),
            "Seconds after which an idle client is disconnected; 0 is never.";
        TCP_KEEPALIVE: Int = number("tcp-keepalive", 300, 0, INT),
            "Seconds of silence after which the kernel probes a connection; 0 turns probing off.";
        MPTCP: Bool = boolean("mptcp", false).immutable().later("multipath TCP"),
            "Listen with multipath TCP where the kernel has it.";
        SOCKET_MARK_ID: Int = number("socket-mark-id", 0, 0, UINT).immutable(),
            "Mark for our sockets, for the firewall or router to recognise; 0 sets none.";
        MAX_NEW_CONNECTIONS_PER_CYCLE: Int = number("max-new-connections-per-cycle", 10, 1, 1000),
            "New clients that one iteration of the event loop accepts; clients of priority-subnets and unixsocket are not counted.";
        MAX_NEW_TLS_CONNECTIONS_PER_CYCLE: Int = number("max-new-tls-connections-per-cycle", 1, 1, 1000),
            "New TLS clients that one iteration of the event loop accepts after their handshakes.";
        PRIORITY_PREEMPTIVE_POLL_INTERVAL_US: Int = number("priority-preemptive-poll-interval-us", 0, 0, INT).ignored(SHORT_ITERATIONS).not_in_star(),
            "Microseconds after which an iteration of the event loop looks for the cluster's bus, replicas and slot migrations in between.";
        RDMA_BIND: List = list("rdma-bind", &[]).ignored(NO_RDMA),
            "Addresses to listen on for RDMA.";
        RDMA_PORT: Int = number("rdma-port", 0, 0, 65535).ignored(NO_RDMA),
            "Port for RDMA; 0 opens none.";
        RDMA_RX_SIZE: Int = number("rdma-rx-size", MIB, 65536, 16 * MIB).immutable().ignored(NO_RDMA),
            "Size in bytes of the receive buffer of an RDMA connection.";
        RDMA_COMPLETION_VECTOR: Int = number("rdma-completion-vector", -1, -1, 1024).immutable().ignored(NO_RDMA),
            "Completion vector for RDMA; -1 picks one.";
    }
    Tls {
        TLS_PORT: Int = number("tls-port", 0, 0, 65535),
            "TCP port for TLS clients; 0 opens none.";
        TLS_CERT_FILE: Text = optional("tls-cert-file").volatile(),
            "File with this server's certificate.";
        TLS_KEY_FILE: Text = optional("tls-key-file").volatile(),
            "File with the certificate's private key.";
        TLS_KEY_FILE_PASS: Text = optional("tls-key-file-pass").sensitive(),
            "Password of tls-key-file.";
        TLS_ALT_CERT_FILE: Text = optional("tls-alt-cert-file").volatile().not_in_star(),
            "File with a second certificate of this server, with a key of another kind, as ECDSA beside RSA: each client gets the one that it can verify.";
        TLS_ALT_KEY_FILE: Text = optional("tls-alt-key-file").volatile().not_in_star(),
            "File with the second certificate's private key.";
        TLS_ALT_KEY_FILE_PASS: Text = optional("tls-alt-key-file-pass").sensitive().not_in_star(),
            "Password of tls-alt-key-file.";
        TLS_CLIENT_CERT_FILE: Text = optional("tls-client-cert-file").volatile(),
            "Certificate for connections that this server opens; without it the server's own is used.";
        TLS_CLIENT_KEY_FILE: Text = optional("tls-client-key-file").volatile(),
            "Private key for connections that this server opens.";
        TLS_CLIENT_KEY_FILE_PASS: Text = optional("tls-client-key-file-pass").sensitive(),
            "Password of tls-client-key-file.";
        TLS_DH_PARAMS_FILE: Text = optional("tls-dh-params-file").volatile().ignored(NO_DH),
            "Parameters for Diffie-Hellman, for old clients.";
        TLS_CA_CERT_FILE: Text = optional("tls-ca-cert-file").volatile(),
            "File with the certificates of the authorities that we trust.";
        TLS_CA_CERT_DIR: Text = optional("tls-ca-cert-dir").volatile(),
            "Directory with the certificates of the authorities that we trust.";
        TLS_AUTH_CLIENTS: Choice<TlsAuthClients> = one_of::<TlsAuthClients>("tls-auth-clients", TlsAuthClients::Yes as u8),
            "Whether clients must show a certificate: 'no', 'yes', or 'optional'.";
        TLS_AUTH_CLIENTS_USER: Choice<TlsUserField> = one_of::<TlsUserField>("tls-auth-clients-user", TlsUserField::Off as u8),
            "Log a client in as the user that this field of its certificate names.";
        TLS_REPLICATION: Bool = boolean("tls-replication", false),
            "Use TLS on the connection to the primary.";
        TLS_CLUSTER: Bool = boolean("tls-cluster", false),
            "Use TLS between the nodes of a cluster, and for MIGRATE.";
        TLS_PROTOCOLS: Text = optional("tls-protocols"),
            "Versions of TLS that are allowed, separated by spaces: TLSv1.2, TLSv1.3.";
        TLS_CIPHERS: Text = optional("tls-ciphers"),
            "Ciphers for TLS 1.2.";
        TLS_CIPHERSUITES: Text = optional("tls-ciphersuites"),
            "Cipher suites for TLS 1.3.";
        TLS_PREFER_SERVER_CIPHERS: Bool = boolean("tls-prefer-server-ciphers", false),
            "Choose the cipher by our order instead of the client's.";
        TLS_SESSION_CACHING: Bool = boolean("tls-session-caching", true),
            "Let clients resume sessions, which saves most of the handshake.";
        TLS_SESSION_CACHE_SIZE: Int = number("tls-session-cache-size", 20480, 0, INT),
            "Sessions that are remembered; 0 is no limit.";
        TLS_SESSION_CACHE_TIMEOUT: Int = number("tls-session-cache-timeout", 300, 0, INT),
            "Seconds for which a session is remembered.";
        TLS_AUTO_RELOAD_INTERVAL: Int = number("tls-auto-reload-interval", 0, 0, INT),
            "Seconds between checks whether certificate files have changed; 0 is never.";
    }
    General {
        DAEMONIZE: Bool = boolean("daemonize", false).immutable(),
            "Go into the background after the start.";
        SUPERVISED: Choice<Supervisor> = one_of::<Supervisor>("supervised", Supervisor::No as u8).immutable(),
            "Supervisor to notify when the server is ready: systemd, upstart, auto or no.";
        PIDFILE: Text = optional("pidfile").immutable(),
            "File that holds the process id while the server runs.";
        LOGLEVEL: Choice<LogLevel> = one_of::<LogLevel>("loglevel", LogLevel::Notice as u8),
            "The least important line that is logged: debug, verbose, notice, warning, nothing.";
        LOGFILE: Text = text("logfile", "").immutable(),
            "File that receives the log; empty is standard output.";
        LOG_FORMAT: Choice<LogFormat> = one_of::<LogFormat>("log-format", LogFormat::Legacy as u8),
            "Shape of a log line: legacy, logfmt or json.";
        LOG_TIMESTAMP_FORMAT: Choice<LogTimestampFormat> = one_of::<LogTimestampFormat>("log-timestamp-format", LogTimestampFormat::Legacy as u8),
            "How a log line writes the time: legacy, iso8601 or milliseconds.";
        HIDE_USER_DATA_FROM_LOG: Bool = boolean("hide-user-data-from-log", true),
            "Keep data of clients out of the log; the log still names keys that cannot be loaded from a file.";
        SYSLOG_ENABLED: Bool = boolean("syslog-enabled", false).immutable(),
            "Log to the system log as well.";
        SYSLOG_IDENT: Text = text("syslog-ident", "valkey").immutable(),
            "Name of this server in the system log.";
        SYSLOG_FACILITY: Choice<SyslogFacility> = one_of::<SyslogFacility>("syslog-facility", SyslogFacility::Local0 as u8).immutable(),
            "Facility of the system log that receives the lines.";
        CRASH_LOG_ENABLED: Bool = boolean("crash-log-enabled", true),
            "Write a report to the log when the server crashes.";
        CRASH_MEMCHECK_ENABLED: Bool = boolean("crash-memcheck-enabled", true).ignored("memory is not tested after a crash"),
            "Test the memory after a crash.";
        DATABASES: Int = number("databases", 16, 1, INT).immutable(),
            "Number of databases, the first of which is 0.";
        ALWAYS_SHOW_LOGO: Bool = boolean("always-show-logo", false).immutable(),
            "Print the banner at the start even when the log is not a terminal.";
        SET_PROC_TITLE: Bool = boolean("set-proc-title", true).immutable(),
            "Show address and role in the list of processes.";
        PROC_TITLE_TEMPLATE: Text = text("proc-title-template", "{title} {listen-addr} {server-mode}").checked(check::proc_title),
            "Text for the list of processes, with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}.";
        LOCALE_COLLATE: Text = text("locale-collate", "").checked(check::locale).later("collation in SORT"),
            "Locale by which SORT ALPHA and Lua compare strings; empty takes the environment's.";
        DIR: Text = optional("dir").checked(check::dir).protected().deny_loading(),
            "Working directory: snapshots, append-only files and relative paths are found here.";
        HZ: Int = number("hz", 10, 0, INT).clamped(1, 500),
            "Runs of the cron (background work) a second, from 1 to 500.";
        AVAILABILITY_ZONE: Text = text_binary("availability-zone", ""),
            "Zone in which this server runs; shown to clients.";
        EXTENDED_REDIS_COMPATIBILITY: Bool = boolean("extended-redis-compatibility", false),
            "Report the name Redis and its version in a few replies, for clients that check them.";
        IGNORE_WARNINGS: Text = text("ignore-warnings", "").ignored("it names a warning about forking, and nothing here forks"),
            "Warnings at the start that are not logged, separated by spaces.";
        HASH_SEED: Text = optional_binary("hash-seed").immutable().checked(check::hash_seed),
            "Seed of the hash functions, to make runs reproducible; random when not set.";
        IMPORT_MODE: Bool = boolean("import-mode", false).debug(),
            "Do not expire or evict keys while another server's data are copied in (CLIENT IMPORT-SOURCE).";
    }
    Security {
        REQUIREPASS: Text = optional_binary("requirepass").sensitive(),
            "Password of the default user; not set means none.";
        ACLFILE: Text = text("aclfile", "").immutable(),
            "File with the users, instead of lines in this one.";
        ACLLOG_MAX_LEN: Int = number("acllog-max-len", 128, 0, LONG),
            "Denied attempts that ACL LOG remembers.";
        ACL_PUBSUB_DEFAULT: Choice<AclPubsubDefault> = one_of::<AclPubsubDefault>("acl-pubsub-default", AclPubsubDefault::ResetChannels as u8),
            "Channels that a new user may use: allchannels or resetchannels (none).";
        ENABLE_PROTECTED_CONFIGS: Choice<Guard> = one_of::<Guard>("enable-protected-configs", Guard::No as u8).immutable(),
            "Who may change protected parameters with CONFIG SET: no one, all, or local clients.";
        ENABLE_DEBUG_COMMAND: Choice<Guard> = one_of::<Guard>("enable-debug-command", Guard::No as u8).immutable(),
            "Who may use DEBUG: no one, all, or local clients.";
        ENABLE_MODULE_COMMAND: Choice<Guard> = one_of::<Guard>("enable-module-command", Guard::No as u8).immutable(),
            "Who may use MODULE: no one, all, or local clients.";
    }
    Clients {
        MAXCLIENTS: Int = number("maxclients", 10000, 1, UINT),
            "Clients that may be connected at once.";
        MAXCLIENTS_RESERVED: Int = number("maxclients-reserved", 0, 0, UINT).not_in_star(),
            "Connections of maxclients that are reserved for clients of priority-subnets; 0, or no such networks, reserves none.";
        PRIORITY_SUBNETS: Text = text("priority-subnets", "").checked(check::priority_subnets).not_in_star(),
            "Addresses and networks whose clients are accepted before others and may use the connections of maxclients-reserved: one value, as 10.0.0.0/8,2001:db8::1, or with blanks in quotes.";
        CLIENT_OUTPUT_BUFFER_LIMIT: Special = special("client-output-buffer-limit", ParamKind::BufferLimits).multi_arg(),
            "Output buffer above which a client is disconnected: class, hard limit, soft limit, seconds above the soft limit. Classes: normal, replica, pubsub.";
        CLIENT_QUERY_BUFFER_LIMIT: Int = bytes("client-query-buffer-limit", 1024 * MIB, MIB, LONG).debug(),
            "Query buffer (received bytes of unfinished requests) above which a client is disconnected.";
        PROTO_MAX_BULK_LEN: Int = bytes("proto-max-bulk-len", 512 * MIB, MIB, LONG).debug(),
            "Longest single argument, and longest string that a command may build.";
        MAXMEMORY_CLIENTS: Int = in_unit("maxmemory-clients", 0, (-100, LONG), UnitOfMeasure::MemoryOrPercent),
            "Memory of all clients together, above which the largest are disconnected; a percentage is of maxmemory; 0 is no limit.";
        TRACKING_TABLE_MAX_KEYS: Int = number("tracking-table-max-keys", 1_000_000, 0, LONG),
            "Keys that are remembered for client-side caching; 0 is no limit.";
    }
    Memory {
        MAXMEMORY: Int = bytes("maxmemory", 0, 0, ULONG),
            "Memory for data, above which keys are evicted or writes refused; 0 is no limit.";
        MAXMEMORY_POLICY: Choice<EvictionPolicy> = one_of::<EvictionPolicy>("maxmemory-policy", EvictionPolicy::NoEviction as u8),
            "Which keys make room: volatile-* takes keys with an expiry, allkeys-* takes any, noeviction refuses writes.";
        MAXMEMORY_SAMPLES: Int = number("maxmemory-samples", 5, 1, 64),
            "Keys that are compared to find one to evict.";
        MAXMEMORY_EVICTION_TENACITY: Int = number("maxmemory-eviction-tenacity", 10, 0, 100),
            "How long one command may evict: 0 is shortest, 100 is without regard to latency.";
        LFU_LOG_FACTOR: Int = number("lfu-log-factor", 10, 0, INT),
            "How slowly the counter of uses (OBJECT FREQ) grows under an LFU policy; a higher factor distinguishes more frequent keys.";
        LFU_DECAY_TIME: Int = number("lfu-decay-time", 1, 0, INT),
            "Minutes after which the counter of uses falls by one; 0 is never.";
    }
    Freeing {
        ACTIVE_EXPIRE_EFFORT: Int = number("active-expire-effort", 1, 1, 10),
            "Work spent on finding expired keys, from 1 to 10.";
        ACTIVEREHASHING: Bool = boolean("activerehashing", true),
            "Shrink, a step at a time, tables of keys that have become too large.";
        LAZYFREE_LAZY_EVICTION: Bool = boolean("lazyfree-lazy-eviction", true).debug(),
            "Send replicas UNLINK, not DEL, for evicted keys. Large values are always freed in the background.";
        LAZYFREE_LAZY_EXPIRE: Bool = boolean("lazyfree-lazy-expire", true).debug(),
            "Send replicas UNLINK, not DEL, for expired keys. Large values are always freed in the background.";
        LAZYFREE_LAZY_SERVER_DEL: Bool = boolean("lazyfree-lazy-server-del", true).debug(),
            "Send replicas UNLINK, not DEL, for keys that a command deletes on its own. Large values are always freed in the background.";
        LAZYFREE_LAZY_USER_DEL: Bool = boolean("lazyfree-lazy-user-del", true).debug().ignored(ALWAYS_LAZY),
            "Let DEL free in the background, as UNLINK does.";
        LAZYFREE_LAZY_USER_FLUSH: Bool = boolean("lazyfree-lazy-user-flush", true).debug(),
            "Let FLUSHDB, FLUSHALL, SCRIPT FLUSH and FUNCTION FLUSH without SYNC free in the background.";
    }
    Snapshots {
        SAVE: Special = special("save", ParamKind::Save).multi_arg(),
            "Save points: pairs of seconds and changes. A save begins when both are reached since the last save. An empty value turns saving off.";
        STOP_WRITES_ON_BGSAVE_ERROR: Bool = boolean("stop-writes-on-bgsave-error", true),
            "Refuse writes after a save has failed, until a save succeeds.";
        FORKLESS_INFRASTRUCTURE_ENABLED: Bool = boolean("forkless-infrastructure-enabled", false).immutable().ignored(NO_FORK).not_in_star(),
            "Let snapshots be taken without a fork.";
        BGSAVE_DEFAULT_METHOD: Choice<BgsaveMethod> = one_of::<BgsaveMethod>("bgsave-default-method", BgsaveMethod::Fork as u8).ignored(NO_FORK).not_in_star(),
            "How BGSAVE takes a snapshot: by fork or forkless.";
        RDBCOMPRESSION: Choice<RdbCompression> = one_of::<RdbCompression>("rdbcompression", RdbCompression::Yes as u8),
            "Compress snapshots: each string (yes, lzf), or the whole file (lz4, zstd), which Valkey reads from 9.2 on.";
        RDBCHECKSUM: Bool = boolean("rdbchecksum", true).immutable(),
            "End a snapshot with a checksum, and verify it when loading.";
        RDB_VERSION_CHECK: Choice<RdbVersionCheck> = one_of::<RdbVersionCheck>("rdb-version-check", RdbVersionCheck::Strict as u8),
            "Versions of snapshots that are loaded: those we know (strict), or newer ones too as long as they make sense (relaxed).";
        DBFILENAME: Text = text("dbfilename", "dump.rdb").protected().checked(check::dbfilename),
            "Name of the snapshot file.";
        RDB_DEL_SYNC_FILES: Bool = boolean("rdb-del-sync-files", false).later("the removal of files of a full sync"),
            "Delete snapshot files that were made only for replication.";
        RDB_SAVE_INCREMENTAL_FSYNC: Bool = boolean("rdb-save-incremental-fsync", true),
            "Fsync a snapshot piece by piece while it is written.";
    }
    AppendOnly {
        APPENDONLY: Bool = boolean("appendonly", false).deny_loading(),
            "Log every write to a file that is replayed at the start.";
        APPENDFILENAME: Text = text("appendfilename", "appendonly.aof").immutable().checked(check::appendfilename),
            "First part of the names of the append-only files.";
        APPENDDIRNAME: Text = text("appenddirname", "appendonlydir").immutable().checked(check::appenddirname),
            "Directory of the append-only files, within the working directory.";
        APPENDFSYNC: Choice<AppendFsync> = one_of::<AppendFsync>("appendfsync", AppendFsync::EverySecond as u8),
            "When the append-only file is fsynced: before each reply (always), each second (everysec), or when the kernel does so (no).";
        NO_APPENDFSYNC_ON_REWRITE: Bool = boolean("no-appendfsync-on-rewrite", false).ignored(OWN_FSYNC),
            "Do not fsync the append-only file while a save or rewrite is under way.";
        AUTO_AOF_REWRITE_PERCENTAGE: Int = number("auto-aof-rewrite-percentage", 100, 0, INT),
            "Growth in percent after which the append-only file is rewritten; 0 is never.";
        AUTO_AOF_REWRITE_MIN_SIZE: Int = bytes("auto-aof-rewrite-min-size", 64 * MIB, 0, LONG),
            "Size below which the append-only file is not rewritten automatically.";
        AOF_LOAD_TRUNCATED: Bool = boolean("aof-load-truncated", true),
            "Load an append-only file whose end is missing, up to its last whole command.";
        AOF_USE_RDB_PREAMBLE: Bool = boolean("aof-use-rdb-preamble", true),
            "Begin a rewritten file with a snapshot, which loads faster.";
        AOF_TIMESTAMP_ENABLED: Bool = boolean("aof-timestamp-enabled", false),
            "Write the time into the append-only file, so that sluice-check-aof --truncate-to-timestamp can cut it.";
        AOF_REWRITE_INCREMENTAL_FSYNC: Bool = boolean("aof-rewrite-incremental-fsync", true),
            "Fsync a rewritten file piece by piece while it is written.";
    }
    Replication {
        REPLICAOF: Special = special("replicaof", ParamKind::ReplicaOf).alias("slaveof").immutable().multi_arg(),
            "Host and port of the primary that this server replicates; 'no one' is none.";
        PRIMARYAUTH: Text = optional_binary("primaryauth").alias("masterauth").sensitive(),
            "Password for the primary.";
        PRIMARYUSER: Text = optional("primaryuser").alias("masteruser").sensitive(),
            "User name for the primary.";
        REPLICA_SERVE_STALE_DATA: Bool = boolean("replica-serve-stale-data", true).alias("slave-serve-stale-data"),
            "Answer clients while the link to the primary is down or the first full sync is not complete.";
        REPLICA_READ_ONLY: Bool = boolean("replica-read-only", true).alias("slave-read-only").debug(),
            "Refuse writes of clients on a replica.";
        REPLICA_PRIORITY: Int = number("replica-priority", 100, 0, INT).alias("slave-priority"),
            "Rank for promotion by Sentinel; the lowest wins, 0 is never promoted.";
        REPLICA_ANNOUNCED: Bool = boolean("replica-announced", true),
            "Let Sentinel report this replica.";
        REPLICA_ANNOUNCE_IP: Text = optional("replica-announce-ip").alias("slave-announce-ip"),
            "Address that a replica reports instead of the one that its primary sees.";
        REPLICA_ANNOUNCE_PORT: Int = number("replica-announce-port", 0, 0, 65535).alias("slave-announce-port"),
            "Port that a replica reports instead of its own; 0 is its own.";
        REPLICA_IGNORE_MAXMEMORY: Bool = boolean("replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory"),
            "Leave eviction to the primary.";
        REPLICA_IGNORE_DISK_WRITE_ERRORS: Bool = boolean("replica-ignore-disk-write-errors", false).ignored(REPLICA_GOES_ON),
            "Go on when a replica cannot write what the primary sends to disk, instead of ending the process.";
        REPLICA_LAZY_FLUSH: Bool = boolean("replica-lazy-flush", true).alias("slave-lazy-flush").ignored(OLD_DATA_LAZY),
            "Free the old data in the background at a full sync.";
        MIN_REPLICAS_TO_WRITE: Int = number("min-replicas-to-write", 0, 0, INT).alias("min-slaves-to-write"),
            "Replicas within min-replicas-max-lag without which writes are refused; 0 needs none.";
        MIN_REPLICAS_MAX_LAG: Int = number("min-replicas-max-lag", 10, 0, INT).alias("min-slaves-max-lag"),
            "Seconds since a replica's last acknowledgement up to which it counts for min-replicas-to-write; 0 turns the rule off.";
        REPL_BACKLOG_SIZE: Int = bytes("repl-backlog-size", 10 * MIB, 1, LONG).clamped(16384, LONG),
            "Size of the replication backlog: a replica that reconnects within it gets a partial sync.";
        REPL_BACKLOG_TTL: Int = number("repl-backlog-ttl", 3600, 0, LONG),
            "Seconds without replicas after which the replication backlog is freed; 0 is never.";
        REPL_TIMEOUT: Int = number("repl-timeout", 60, 1, INT),
            "Seconds of silence after which a primary or a replica closes the replication link.";
        REPL_PING_REPLICA_PERIOD: Int = number("repl-ping-replica-period", 10, 1, INT).alias("repl-ping-slave-period"),
            "Seconds between pings to replicas.";
        REPL_THROTTLING_ENABLED: Bool = boolean("repl-throttling-enabled", false).ignored(NO_DELAYED_WRITERS).not_in_star(),
            "Delay clients that write while replicas lag far behind.";
        REPL_DISABLE_TCP_NODELAY: Bool = boolean("repl-disable-tcp-nodelay", false),
            "Send replicas fewer, fuller packets, at the price of lag.";
        REPL_MPTCP: Bool = boolean("repl-mptcp", false).immutable().later(MPTCP),
            "Use multipath TCP on the link to the primary.";
        REPL_DISKLESS_SYNC: Bool = boolean("repl-diskless-sync", true).debug(),
            "Send the snapshot of a full sync to the socket without a file.";
        REPL_DISKLESS_SYNC_DELAY: Int = number("repl-diskless-sync-delay", 5, 0, INT),
            "Seconds to wait for more replicas before a full sync begins.";
        REPL_DISKLESS_SYNC_MAX_REPLICAS: Int = number("repl-diskless-sync-max-replicas", 0, 0, INT),
            "Number of waiting replicas at which a full sync begins at once; 0 waits the whole delay.";
        REPL_COMPRESSION: Choice<ReplCompression> = one_of::<ReplCompression>("repl-compression", ReplCompression::No as u8).not_in_star(),
            "Compress full syncs for replicas whose setting allows it, and accept compressed full syncs from the primary: lz4 (or yes), zstd.";
        REPL_DISKLESS_LOAD: Choice<DisklessLoad> = one_of::<DisklessLoad>("repl-diskless-load", DisklessLoad::Disabled as u8).debug().deny_loading(),
            "How a replica loads a full sync from the socket: disabled, on-empty-db, swapdb, flush-before-load.";
        DUAL_CHANNEL_REPLICATION_ENABLED: Bool = boolean("dual-channel-replication-enabled", false).debug(),
            "Send the snapshot of a full sync and the writes that follow over two connections.";
        PROPAGATION_ERROR_BEHAVIOR: Choice<PropagationErrorBehavior> = one_of::<PropagationErrorBehavior>("propagation-error-behavior", PropagationErrorBehavior::Ignore as u8).later("a choice of what follows an error in the stream"),
            "What to do when a command from the primary or the append-only file fails: ignore, panic, panic-on-replicas.";
    }
    Cluster {
        CLUSTER_ENABLED: Bool = boolean("cluster-enabled", false).immutable(),
            "Run as a node of a cluster.";
        CLUSTER_CONFIG_FILE: Text = text("cluster-config-file", "nodes.conf").immutable().checked(check::cluster_config_file),
            "File in which the node keeps what it knows of the cluster; not for editing.";
        CLUSTER_CONFIG_SAVE_BEHAVIOR: Choice<ClusterSaveBehavior> = one_of::<ClusterSaveBehavior>("cluster-config-save-behavior", ClusterSaveBehavior::Sync as u8),
            "What to do when cluster-config-file cannot be written: end the process (sync) or go on (best-effort).";
        CLUSTER_NODE_TIMEOUT: Int = number("cluster-node-timeout", 15000, 0, LONG),
            "Milliseconds of silence after which a node counts as failing.";
        CLUSTER_PORT: Int = number("cluster-port", 0, 0, 65535).immutable(),
            "Port of the cluster bus; 0 is the client port plus 10000.";
        CLUSTER_DATABASES: Int = number("cluster-databases", 1, 1, INT).immutable(),
            "Number of databases in cluster mode.";
        CLUSTER_REQUIRE_FULL_COVERAGE: Bool = boolean("cluster-require-full-coverage", true),
            "Refuse commands (CLUSTERDOWN) while any slot has no owner.";
        CLUSTER_ALLOW_READS_WHEN_DOWN: Bool = boolean("cluster-allow-reads-when-down", false),
            "Answer reads of this node's slots while the cluster is down.";
        CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN: Bool = boolean("cluster-allow-pubsubshard-when-down", true),
            "Deliver sharded messages while the cluster is down.";
        CLUSTER_REPLICA_VALIDITY_FACTOR: Int = number("cluster-replica-validity-factor", 10, 0, INT).alias("cluster-slave-validity-factor"),
            "Node timeouts without a link to its primary after which a replica is too old for a failover; 0 is never.";
        CLUSTER_REPLICA_NO_FAILOVER: Bool = boolean("cluster-replica-no-failover", false).alias("cluster-slave-no-failover"),
            "Never start a failover automatically; CLUSTER FAILOVER still works.";
        CLUSTER_MANUAL_FAILOVER_TIMEOUT: Int = number("cluster-manual-failover-timeout", 5000, 1, INT),
            "Milliseconds that a manual failover (CLUSTER FAILOVER) may take.";
        CLUSTER_MIGRATION_BARRIER: Int = number("cluster-migration-barrier", 1, 0, INT),
            "Replicas that a primary keeps before one may move to a primary without any.";
        CLUSTER_ALLOW_REPLICA_MIGRATION: Bool = boolean("cluster-allow-replica-migration", true),
            "Let replicas move to primaries that have none.";
        CLUSTER_BLACKLIST_TTL: Int = number("cluster-blacklist-ttl", 60, 0, LONG),
            "Seconds after CLUSTER FORGET during which the forgotten node is not accepted again.";
        CLUSTER_LINK_SENDBUF_LIMIT: Int = bytes("cluster-link-sendbuf-limit", 0, 0, ULONG),
            "Send buffer above which a link of the cluster bus is closed; 0 is no limit.";
        CLUSTER_ANNOUNCE_IP: Text = optional_binary("cluster-announce-ip").checked(check::announced_ip),
            "Address that the node reports instead of the one that others see.";
        CLUSTER_ANNOUNCE_CLIENT_IPV4: Text = optional("cluster-announce-client-ipv4").checked(check::ipv4),
            "IPv4 address that the node reports to clients.";
        CLUSTER_ANNOUNCE_CLIENT_IPV6: Text = optional("cluster-announce-client-ipv6").checked(check::ipv6),
            "IPv6 address that the node reports to clients.";
        CLUSTER_ANNOUNCE_HOSTNAME: Text = optional("cluster-announce-hostname").checked(check::hostname),
            "Host name that the node reports.";
        CLUSTER_ANNOUNCE_HUMAN_NODENAME: Text = optional_binary("cluster-announce-human-nodename").checked(check::nodename),
            "Name of the node in logs.";
        CLUSTER_ANNOUNCE_PORT: Int = number("cluster-announce-port", 0, 0, 65535),
            "Client port that the node reports; 0 is its own.";
        CLUSTER_ANNOUNCE_TLS_PORT: Int = number("cluster-announce-tls-port", 0, 0, 65535),
            "TLS port that the node reports; 0 is its own.";
        CLUSTER_ANNOUNCE_BUS_PORT: Int = number("cluster-announce-bus-port", 0, 0, 65535),
            "Port of the bus that the node reports; 0 is its own.";
        CLUSTER_ANNOUNCE_CLIENT_PORT: Int = number("cluster-announce-client-port", 0, 0, 65535),
            "Port that the node reports to clients; 0 is the one that it reports to nodes.";
        CLUSTER_ANNOUNCE_CLIENT_TLS_PORT: Int = number("cluster-announce-client-tls-port", 0, 0, 65535),
            "TLS port that the node reports to clients; 0 is the one that it reports to nodes.";
        CLUSTER_PREFERRED_ENDPOINT_TYPE: Choice<EndpointType> = one_of::<EndpointType>("cluster-preferred-endpoint-type", EndpointType::Ip as u8),
            "What redirections name: ip, hostname or unknown-endpoint.";
        ANNOUNCE_ENDPOINT_FOR: Special = special("announce-endpoint-for", ParamKind::EndpointRules).multi_arg().not_in_star(),
            "Address that clients of a network receive in place of a node's own: network, node (address:port, host name or id), endpoint or endpoint:port. Lines add up; of those for a network and a node the first counts. Each node answers by its own lines.";
        CLUSTER_SLOT_STATS_ENABLED: Bool = boolean("cluster-slot-stats-enabled", false),
            "Count processor time and traffic of each slot.";
        CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN: Int = number("cluster-slot-migration-log-max-len", 1000, 0, LONG),
            "Finished slot migrations that are remembered.";
        SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES: Int = in_unit("slot-migration-max-failover-repl-bytes", 0, (-1, LONG), UnitOfMeasure::SignedMemory),
            "Unsent bytes below which a slot migration may pause writes and finish; -1 is any amount.";
    }
    Scripting {
        BUSY_REPLY_THRESHOLD: Int = number("busy-reply-threshold", 5000, 0, LONG).alias("lua-time-limit"),
            "Milliseconds of a script after which other clients get BUSY errors; 0 is never.";
        SCRIPT_MEMORY_LIMIT: Int = in_unit("script-memory-limit", 0, (0, LONG), UnitOfMeasure::Memory).not_in_star(),
            "Bytes that the Lua machine of scripts may use; 0: 1 GiB, or with maxmemory an eighth of it, 64 MiB at least.";
        MAXMEMORY_SCRIPTS: Int = bytes("maxmemory-scripts", 0, 0, LONG).not_in_star(),
            "Bytes of cached EVAL scripts above which the least recently used are evicted; 0 is no limit. At most 500 are kept in any case; scripts of SCRIPT LOAD are never evicted.";
        SCRIPT_DENY_OOM_CALLS: Bool = boolean("script-deny-oom-calls", false).not_in_star(),
            "Refuse a script's calls that need memory once maxmemory is reached, even if the script began before.";
        LUA_ENABLE_INSECURE_API: Bool = boolean("lua-enable-insecure-api", false).alias("lua-enable-deprecated-api").hidden().protected(),
            "Give scripts old functions that break out of the sandbox.";
    }
    CommandLog {
        COMMANDLOG_EXECUTION_SLOWER_THAN: Int = number("commandlog-execution-slower-than", 10000, -1, LONG).alias("slowlog-log-slower-than"),
            "Microseconds from which a command is logged as slow; 0 logs all, -1 none.";
        COMMANDLOG_SLOW_EXECUTION_MAX_LEN: Int = number("commandlog-slow-execution-max-len", 128, 0, LONG).alias("slowlog-max-len"),
            "Slow commands that are remembered.";
        COMMANDLOG_REQUEST_LARGER_THAN: Int = number("commandlog-request-larger-than", MIB, -1, LONG),
            "Bytes from which a request is logged as large; -1 logs none.";
        COMMANDLOG_LARGE_REQUEST_MAX_LEN: Int = number("commandlog-large-request-max-len", 128, 0, LONG),
            "Large requests that are remembered.";
        COMMANDLOG_REPLY_LARGER_THAN: Int = number("commandlog-reply-larger-than", MIB, -1, LONG),
            "Bytes from which a reply is logged as large; -1 logs none.";
        COMMANDLOG_LARGE_REPLY_MAX_LEN: Int = number("commandlog-large-reply-max-len", 128, 0, LONG),
            "Large replies that are remembered.";
    }
    Latency {
        LATENCY_MONITOR_THRESHOLD: Int = number("latency-monitor-threshold", 0, 0, LONG),
            "Milliseconds from which an event is recorded for LATENCY; 0 records none.";
        LATENCY_TRACKING: Bool = boolean("latency-tracking", true),
            "Keep a histogram of execution times for each command.";
        LATENCY_TRACKING_INFO_PERCENTILES: Special = special("latency-tracking-info-percentiles", ParamKind::Percentiles).multi_arg(),
            "Percentiles of execution time that INFO latencystats shows: 99.9 is the p99.9.";
    }
    HotKeys {
        HOTKEYS_TOP_K: Int = number("hotkeys-top-k", 0, 0, 1000).not_in_star(),
            "Number of the most accessed keys that HOTKEYS reports; 0 turns it off.";
        HOTKEYS_SAMPLING_PERCENTAGE: Int = number("hotkeys-sampling-percentage", 1, 1, 100).not_in_star(),
            "Percent of accesses that HOTKEYS counts; 100 counts all.";
        HOTKEYS_WINDOW_SECONDS: Int = number("hotkeys-window-seconds", 1, 1, 300).not_in_star(),
            "Length of a window of HOTKEYS in seconds: accesses are counted by window and shown after its end.";
    }
    Metrics {
        METRICS_PORT: Int = number("metrics-port", 0, 0, 65535).not_in_star(),
            "TCP port of the metrics endpoint over HTTP: /metrics for Prometheus, and a page for browsers; 0 opens none.";
        METRICS_BIND: List = list("metrics-bind", &["127.0.0.1", "-::1"]).not_in_star(),
            "Addresses for metrics-port, written as those of bind. Addresses other than loopback need metrics-token, or metrics-tls with tls-auth-clients yes.";
        METRICS_TOKEN: Text = optional("metrics-token").sensitive().concealed().checked(check::metrics_token).not_in_star(),
            "Token that a request for /metrics must send as 'Authorization: Bearer TOKEN'.";
        METRICS_TLS: Bool = boolean("metrics-tls", false).not_in_star(),
            "Speak TLS on metrics-port, with the certificates and settings of the other tls directives.";
    }
    Events {
        NOTIFY_KEYSPACE_EVENTS: Special = special("notify-keyspace-events", ParamKind::NotifyEvents),
            "Events that are published: K or E for the channels, then classes g $ l s h z x e t m d n, or A for all but m and n.";
    }
    Encodings {
        HASH_MAX_LISTPACK_ENTRIES: Int = number("hash-max-listpack-entries", 512, 0, LONG).alias("hash-max-ziplist-entries"),
            "Fields up to which a hash is kept compact.";
        HASH_MAX_LISTPACK_VALUE: Int = bytes("hash-max-listpack-value", 64, 0, LONG).alias("hash-max-ziplist-value"),
            "Bytes of its longest field or value up to which a hash is kept compact.";
        LIST_MAX_LISTPACK_SIZE: Int = number("list-max-listpack-size", -2, -INT - 1, INT).alias("list-max-ziplist-size"),
            "Elements in one node of a list; -1 to -5 are 4, 8, 16, 32 and 64 KiB instead.";
        LIST_COMPRESS_DEPTH: Int = number("list-compress-depth", 0, 0, INT).debug(),
            "Nodes at each end of a list that stay uncompressed; 0 compresses none.";
        SET_MAX_INTSET_ENTRIES: Int = number("set-max-intset-entries", 512, 0, LONG),
            "Members up to which a set of numbers is kept compact.";
        SET_MAX_LISTPACK_ENTRIES: Int = number("set-max-listpack-entries", 128, 0, LONG),
            "Members up to which a set is kept compact.";
        SET_MAX_LISTPACK_VALUE: Int = number("set-max-listpack-value", 64, 0, LONG),
            "Bytes of its longest member up to which a set is kept compact.";
        ZSET_MAX_LISTPACK_ENTRIES: Int = number("zset-max-listpack-entries", 128, 0, LONG).alias("zset-max-ziplist-entries"),
            "Members up to which a sorted set is kept compact.";
        ZSET_MAX_LISTPACK_VALUE: Int = bytes("zset-max-listpack-value", 64, 0, LONG).alias("zset-max-ziplist-value"),
            "Bytes of its longest member up to which a sorted set is kept compact.";
        HLL_SPARSE_MAX_BYTES: Int = bytes("hll-sparse-max-bytes", 3000, 0, LONG),
            "Bytes up to which a HyperLogLog is kept sparse.";
        STREAM_NODE_MAX_BYTES: Int = bytes("stream-node-max-bytes", 4096, 0, LONG),
            "Bytes in one node of a stream; 0 is no limit.";
        STREAM_NODE_MAX_ENTRIES: Int = number("stream-node-max-entries", 100, 0, LONG),
            "Entries in one node of a stream; 0 is no limit.";
    }
    Threads {
        IO_THREADS_NUM: Int = number("io-threads", 1, 1, 256).debug(),
            "Threads that read, parse and write, the executing one included. The others work only while that pays: INFO server, io_threads_reason.";
        IO_THREADS_ALWAYS_ACTIVE: Bool = boolean("io-threads-always-active", false).hidden(),
            "Use the threads even when there is little to do.";
        PREFETCH_BATCH_MAX_SIZE: Int = number("prefetch-batch-max-size", 16, 0, 128),
            "Commands whose keys are prefetched together; 0 and 1 prefetch none. Of several clients of I/O threads, up to 128.";
        MIN_IO_THREADS_AVOID_COPY_REPLY: Int = number("min-io-threads-avoid-copy-reply", 7, 0, INT).hidden().ignored(FIXED_COPY),
            "Threads from which large values are sent without a copy; 0 never sends so.";
        MIN_STRING_SIZE_AVOID_COPY_REPLY: Int = number("min-string-size-avoid-copy-reply", 16384, 0, INT).hidden().ignored(FIXED_COPY),
            "Bytes from which a value is sent without a copy.";
        MIN_STRING_SIZE_AVOID_COPY_REPLY_THREADED: Int = number("min-string-size-avoid-copy-reply-threaded", 65536, 0, INT).hidden().ignored(FIXED_COPY),
            "The same while threads write.";
        EVENT_LOOP: Choice<EventLoop> = one_of::<EventLoop>("event-loop", EventLoop::Auto as u8).immutable().not_in_star(),
            "Kernel interface for sockets: io_uring, epoll, poll, or auto: epoll, or poll where there is no epoll.";
        EVENT_LOOP_BATCH_WAIT_US: Int = number("event-loop-batch-wait-us", 30, 0, 1000).not_in_star(),
            "Microseconds that an iteration of the event loop may wait for more requests to serve together, while at least 24 connections are active and requests come in pipelines; 0 never waits.";
        EVENT_LOOP_BATCH_WAIT_DEPTH: Int = number("event-loop-batch-wait-depth", 4, 1, 1024).not_in_star(),
            "Requests per receive from which on iterations may wait for more. 1 waits without pipelines too: less processor time per request, but later replies.";
        SLOW_READ_ELEMENTS: Int = number("slow-read-elements", 4096, 0, LONG).not_in_star(),
            "Elements of large values above which a read runs on a thread of its own, so that only other such reads wait for it; 256 bytes of a string count as an element. 0 runs all reads on the main thread.";
        SLOW_READ_THREADS: Int = number("slow-read-threads", 0, 0, 256).immutable().not_in_star(),
            "Threads for the reads of slow-read-elements; 0 is half the processors.";
    }
    Defragmentation {
        ACTIVEDEFRAG: Bool = boolean("activedefrag", false).debug(),
            "Spend more time on compaction, which moves entries together to free memory; a little is always spent.";
        ACTIVE_DEFRAG_IGNORE_BYTES: Int = bytes("active-defrag-ignore-bytes", 100 * MIB, 1, LONG),
            "Wasted bytes below which there is no compaction.";
        ACTIVE_DEFRAG_THRESHOLD_LOWER: Int = number("active-defrag-threshold-lower", 10, 0, 1000),
            "Percent of wasted memory at which compaction begins.";
        ACTIVE_DEFRAG_THRESHOLD_UPPER: Int = number("active-defrag-threshold-upper", 100, 0, 1000),
            "Percent of wasted memory at which compaction gets its greatest share of time.";
        ACTIVE_DEFRAG_CYCLE_MIN: Int = number("active-defrag-cycle-min", 1, 1, 99),
            "Percent of processor time for compaction at the lower threshold.";
        ACTIVE_DEFRAG_CYCLE_MAX: Int = number("active-defrag-cycle-max", 25, 1, 99),
            "Percent of processor time for compaction at the upper threshold.";
        ACTIVE_DEFRAG_CYCLE_US: Int = number("active-defrag-cycle-us", 500, 0, 100_000),
            "Microseconds of one step of compaction.";
        ACTIVE_DEFRAG_MAX_SCAN_FIELDS: Int = number("active-defrag-max-scan-fields", 1000, 1, LONG).ignored(NO_SCAN_FIELDS),
            "Elements above which a value is moved in several steps.";
        JEMALLOC_BG_THREAD: Bool = boolean("jemalloc-bg-thread", true),
            "Let the allocator give memory back from a thread of its own.";
    }
    System {
        SHUTDOWN_ON_SIGINT: Flags = flags("shutdown-on-sigint", shutdown::NAMES),
            "How SIGINT ends the server: default, or any of save, nosave, now, force, safe, failover.";
        SHUTDOWN_ON_SIGTERM: Flags = flags("shutdown-on-sigterm", shutdown::NAMES),
            "How SIGTERM ends the server: default, or any of save, nosave, now, force, safe, failover.";
        SHUTDOWN_TIMEOUT: Int = number("shutdown-timeout", 10, 0, INT),
            "Seconds that a shutdown waits for replicas that lag.";
        OOM_SCORE_ADJ: Choice<OomScoreAdj> = one_of::<OomScoreAdj>("oom-score-adj", OomScoreAdj::No as u8),
            "Tell the kernel which processes to end first when memory runs out: no, yes or relative, absolute.";
        OOM_SCORE_ADJ_VALUES: Special = special("oom-score-adj-values", ParamKind::OomValues).multi_arg(),
            "Scores for a primary, a replica and a background process, from -2000 to 2000.";
        DISABLE_THP: Bool = boolean("disable-thp", true).immutable(),
            "Turn off transparent huge pages for this process.";
        SERVER_CPULIST: Text = optional("server-cpulist").alias("server_cpulist").immutable(),
            "Processors for the executing and I/O threads.";
        BIO_CPULIST: Text = optional("bio-cpulist").alias("bio_cpulist").immutable(),
            "Processors for background threads.";
        AOF_REWRITE_CPULIST: Text = optional("aof-rewrite-cpulist").alias("aof_rewrite_cpulist").immutable().ignored(NO_FORK),
            "Processors for rewriting the append-only file.";
        BGSAVE_CPULIST: Text = optional("bgsave-cpulist").alias("bgsave_cpulist").immutable().ignored(NO_FORK),
            "Processors for taking snapshots.";
    }
    Testing {
        ENABLE_DEBUG_ASSERT: Bool = boolean("enable-debug-assert", false).immutable().hidden().later(CRASH),
            "Let DEBUG ASSERT-like checks end the process.";
        USE_EXIT_ON_PANIC: Bool = boolean("use-exit-on-panic", false).hidden().later(CRASH),
            "Exit instead of aborting after a panic.";
        DEBUG_CONTEXT: Text = text("debug-context", "").hidden().debug().later(CRASH),
            "A word about what is being tested, for crash reports.";
        WATCHDOG_PERIOD: Int = number("watchdog-period", 0, 0, INT).hidden().ignored("the event loop measures its own iterations: INFO debug"),
            "Milliseconds of a stuck event loop after which its position is logged; 0 is never.";
        RDB_KEY_SAVE_DELAY: Int = number("rdb-key-save-delay", 0, -INT - 1, INT).hidden(),
            "Microseconds to wait after each saved key; negative waits once per so many keys.";
        KEY_LOAD_DELAY: Int = number("key-load-delay", 0, -INT - 1, INT).hidden(),
            "Microseconds to wait after each loaded key; negative waits once per so many keys.";
        LOADING_PROCESS_EVENTS_INTERVAL_BYTES: Int = number("loading-process-events-interval-bytes", 2 * MIB, 1024, INT).hidden(),
            "Bytes loaded until INFO shows them, 256 KiB at most. Clients are served all the time.";
        AOF_DISABLE_AUTO_GC: Bool = boolean("aof-disable-auto-gc", false).hidden(),
            "Keep append-only files that a rewrite has made superfluous.";
        CLUSTER_PING_INTERVAL: Int = number("cluster-ping-interval", 0, 0, LONG).hidden(),
            "Milliseconds between pings on the bus; 0 follows the node timeout.";
        CLUSTER_MESSAGE_GOSSIP_PERC: Int = number("cluster-message-gossip-perc", 10, 1, 100).hidden(),
            "Percent of the known nodes that one message lists.";
    }
}

/// Names that a config file may contain, with one value, and that no longer have an effect.
pub(crate) const RETIRED: &[&str] = &[
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
    "io-threads-do-reads",
    "dynamic-hz",
    "events-per-io-thread",
    "sanitize-dump-payload",
];

/// Ties the marker types of [`Id`] to kinds of rows.
trait Holds {
    const TAG: Tag;
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Bool,
    Int,
    Text,
    Choice,
    Flags,
    List,
    Special,
}

macro_rules! holds {
    ($($marker:ident)*) => { $( impl Holds for $marker { const TAG: Tag = Tag::$marker; } )* };
}

holds! { Bool Int Text Flags List Special }

impl<T> Holds for Choice<T> {
    const TAG: Tag = Tag::Choice;
}

const fn tag(kind: &ParamKind) -> Tag {
    match kind {
        ParamKind::Bool { .. } => Tag::Bool,
        ParamKind::Int { .. } => Tag::Int,
        ParamKind::Text { .. } => Tag::Text,
        ParamKind::Choice { .. } => Tag::Choice,
        ParamKind::Flags { .. } => Tag::Flags,
        ParamKind::List { .. } => Tag::List,
        ParamKind::Save
        | ParamKind::BufferLimits
        | ParamKind::OomValues
        | ParamKind::NotifyEvents
        | ParamKind::ReplicaOf
        | ParamKind::Percentiles
        | ParamKind::EndpointRules => Tag::Special,
    }
}

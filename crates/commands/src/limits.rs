//! Settings from the configuration, in the form in which commands need them.
//!
//! A [`Limits`] is immutable; CONFIG SET makes a new one. A command therefore reads plain fields, and an I/O
//! thread can hold the settings that were in force when its present work began.

use sluice_base::hash::HashSeed;
use sluice_config::choice::{AppendFsync, EvictionPolicy, RdbVersionCheck};
use sluice_config::{ClientClass, Config, notify, param};
use sluice_keyspace::{Classes, EvictionKeys, EvictionOrder};
use sluice_resp::AuthState;
use sluice_value::{HashLimits, ListLimits, SetLimits, StreamLimits, ZsetLimits};

/// Length in bytes of the largest string that a client, the primary or the AOF can create, whatever
/// `proto-max-bulk-len` allows. Pages of zeros take no memory, so without this limit a single command could
/// make a string with more bits than an `i64` can count.
pub(crate) const STRING_BYTES_MAX: usize = 1 << 40;

/// Settings from the configuration.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Length in bytes of the largest string of a client.
    pub proto_max_bulk_len: usize,
    /// Length in bytes of the largest query buffer of a client.
    pub client_query_buffer: usize,
    /// Largest number of requests in a batch, 1 to 128.
    pub prefetch_batch: usize,
    /// Duration in nanoseconds from which on a command is logged as slow; a negative value means never.
    pub slow_ns: i64,
    /// Shortest duration, in nanoseconds, that the slow log or the latency monitor records; `i64::MAX` if
    /// neither records any.
    pub note_ns: i64,
    /// Length in bytes from which on a request is logged; `i64::MAX` means never.
    pub large_request: i64,
    /// Length in bytes from which on a reply is logged; `i64::MAX` means never.
    pub large_reply: i64,
    /// Number of keys tracked for client-side caching; 0 means no limit.
    pub tracked_keys_max: usize,
    /// Whether latencies are recorded for each command.
    pub latency_tracking: bool,
    /// Duration in milliseconds from which on the latency monitor keeps an event; 0 means never.
    pub latency_threshold_ms: u64,
    /// Which accesses HOTKEYS counts.
    pub hot_keys: HotKeyLimits,
    /// Whether access clocks count frequency (LFU) instead of time (LRU).
    pub lfu: bool,
    /// Minutes after which an LFU counter decreases by one.
    pub lfu_decay: u32,
    /// Factor that makes an LFU counter grow more slowly.
    pub lfu_factor: u32,
    /// Whether the deletion of an expired key propagates as UNLINK.
    pub lazy_expire: bool,
    /// Whether the removal of a key by RESTORE, by SPOP of all members, or because the node does not own its
    /// slot propagates as UNLINK.
    pub lazy_server_del: bool,
    /// Whether FLUSHALL and FLUSHDB without an argument free on another thread.
    pub lazy_user_flush: bool,
    /// Output limits of normal clients, replicas and Pub/Sub clients, in this order.
    pub output: [OutputLimit; 3],
    /// The smallest limit of normal and Pub/Sub clients, in bytes. A client with less output needs no check.
    /// `usize::MAX` if there is no limit.
    pub output_floor: usize,
    /// The replication backlog keeps at least this many bytes of history, once it has received that many.
    pub backlog_bytes: u64,
    /// Classes of key events that are published, and their channels.
    pub notify: Notify,
    /// Whether replies that name the server call it Redis.
    pub redis_names: bool,
    /// Whether import mode is on, in which an import source may keep expired keys.
    pub import_mode: bool,
    /// Memory in bytes above which keys are evicted, or writes that need more memory are refused; 0 means no
    /// limit.
    pub maxmemory: usize,
    /// How keys are evicted above `maxmemory`.
    pub eviction: EvictionLimits,
    /// Memory of all clients, in bytes, from which on the largest clients are closed; 0 means no limit.
    pub maxmemory_clients: usize,
    /// Whether the default user is enabled and has no password, so every new connection may act as this user.
    pub default_user_is_open: bool,
    /// Thresholds of list encodings.
    pub list: ListLimits,
    /// Largest length in bytes of a sparse HyperLogLog.
    pub hll_sparse_bytes_max: usize,
    /// Thresholds of hash encodings, and the seed of hash tables.
    pub hash: HashLimits,
    /// Thresholds of set encodings, and the seed of hash tables.
    pub set: SetLimits,
    /// Node sizes and thresholds of streams.
    pub stream: StreamLimits,
    /// Thresholds of sorted set encodings.
    pub zset: ZsetLimits,
    /// Whether payloads, for example of DUMP and MIGRATE, contain compressed strings.
    pub rdb_compression: bool,
    /// Whether RESTORE accepts payloads of unknown versions.
    pub any_rdb_version: bool,
    /// Whether RESTORE skips the checksum: DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub skip_checksum: bool,
    /// Whether a reply waits until the write that it reports is durable, while the AOF is on.
    pub fsyncs_always: bool,
    /// Whether the AOF contains timestamps.
    pub aof_timestamps: bool,
    /// Number of elements above which a read is produced by another thread; `usize::MAX` means never.
    pub slow_read_elements: usize,
    /// Number of databases, at least 1.
    pub databases: usize,
    /// Whether this server is a node of a cluster.
    pub is_cluster: bool,
    /// Largest number of client connections: `maxclients`.
    pub maxclients: usize,
}

/// Settings of the counts that HOTKEYS reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeyLimits {
    /// Number of keys that are counted; 0 means none.
    pub keys: usize,
    /// Share of accesses that are counted, in percent.
    pub percent: u32,
    /// Length of a counting window, in seconds.
    pub window_s: u64,
}

/// Output limit of a class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Output in bytes from which on the client is closed at once; 0 means no limit.
    pub hard: usize,
    /// Output in bytes from which on the client is closed after `soft_seconds`; 0 means no limit.
    pub soft: usize,
    /// Seconds for which the output may stay above `soft`.
    pub soft_seconds: u64,
}

/// `notify-keyspace-events`. If no channel is selected, no class is selected, either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// Whether events are published in the channel of the key.
    pub keyspace: bool,
    /// Whether events are published in the channel of the event.
    pub keyevent: bool,
    /// The classes of events that are published.
    pub classes: Classes,
}

impl Notify {
    fn new(bits: u32) -> Notify {
        let [keyspace, keyevent] = [notify::KEYSPACE, notify::KEYEVENT].map(|bit| bits & bit != 0);
        let classes = match keyspace || keyevent {
            true => Classes::of_letters(&notify::letters(bits)),
            false => Classes::NONE,
        };
        Notify { keyspace, keyevent, classes }
    }
}

impl Limits {
    /// `cluster` or `standalone`, as HELLO and INFO report it.
    pub fn mode_name(&self) -> &'static str {
        if self.is_cluster { "cluster" } else { "standalone" }
    }

    /// The settings of a configuration. The engine sets the seeds afterwards.
    pub fn new(config: &Config) -> Limits {
        let slow_ns = config.int(param::COMMANDLOG_EXECUTION_SLOWER_THAN).saturating_mul(1000);
        let threshold_ms = config.int(param::LATENCY_MONITOR_THRESHOLD);
        let latency_ns = if threshold_ms > 0 { threshold_ms.saturating_mul(1_000_000) } else { i64::MAX };
        let policy = config.choice::<EvictionPolicy>(param::MAXMEMORY_POLICY);
        let output = output_limits(config);
        // The limit of replicas is left out, because it applies to their backlog and not to their output.
        let bounds = [&output[0], &output[2]]
            .into_iter()
            .flat_map(|limit| [limit.hard, limit.soft])
            .filter(|bytes| *bytes > 0);
        let output_floor = bounds.min().unwrap_or(usize::MAX);
        Limits {
            proto_max_bulk_len: (config.int(param::PROTO_MAX_BULK_LEN) as usize).min(STRING_BYTES_MAX),
            client_query_buffer: config.int(param::CLIENT_QUERY_BUFFER_LIMIT) as usize,
            prefetch_batch: (config.int(param::PREFETCH_BATCH_MAX_SIZE) as usize).clamp(1, 128),
            slow_ns,
            note_ns: latency_ns.min(threshold(slow_ns)),
            large_request: threshold(config.int(param::COMMANDLOG_REQUEST_LARGER_THAN)),
            large_reply: threshold(config.int(param::COMMANDLOG_REPLY_LARGER_THAN)),
            tracked_keys_max: config.uint(param::TRACKING_TABLE_MAX_KEYS) as usize,
            latency_tracking: config.bool(param::LATENCY_TRACKING),
            latency_threshold_ms: threshold_ms as u64,
            hot_keys: hot_key_limits(config),
            lfu: matches!(policy, EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu),
            lfu_decay: config.int(param::LFU_DECAY_TIME) as u32,
            lfu_factor: config.int(param::LFU_LOG_FACTOR) as u32,
            lazy_expire: config.bool(param::LAZYFREE_LAZY_EXPIRE),
            lazy_server_del: config.bool(param::LAZYFREE_LAZY_SERVER_DEL),
            lazy_user_flush: config.bool(param::LAZYFREE_LAZY_USER_FLUSH),
            output,
            output_floor,
            backlog_bytes: config.uint(param::REPL_BACKLOG_SIZE),
            notify: Notify::new(config.notify_keyspace_events()),
            redis_names: config.bool(param::EXTENDED_REDIS_COMPATIBILITY),
            import_mode: config.bool(param::IMPORT_MODE),
            maxmemory: config.int(param::MAXMEMORY) as usize,
            eviction: EvictionLimits::new(config, policy),
            maxmemory_clients: maxmemory_clients(config),
            // `Control::apply_limits`, which knows the users, replaces this.
            default_user_is_open: config.bytes(param::REQUIREPASS).is_empty(),
            list: list_limits(config),
            hll_sparse_bytes_max: config.int(param::HLL_SPARSE_MAX_BYTES) as usize,
            hash: HashLimits {
                max_entries: config.int(param::HASH_MAX_LISTPACK_ENTRIES) as usize,
                max_value: config.int(param::HASH_MAX_LISTPACK_VALUE) as usize,
                // The engine replaces the seed in `Engine::with`.
                seed: HashSeed::default(),
            },
            set: SetLimits {
                max_intset: config.int(param::SET_MAX_INTSET_ENTRIES) as usize,
                max_entries: config.int(param::SET_MAX_LISTPACK_ENTRIES) as usize,
                max_value: config.int(param::SET_MAX_LISTPACK_VALUE) as usize,
                seed: HashSeed::default(),
            },
            stream: stream_limits(config),
            zset: zset_limits(config),
            rdb_compression: config.choice(param::RDBCOMPRESSION).is_of_strings(),
            any_rdb_version: config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK)
                == RdbVersionCheck::Relaxed,
            skip_checksum: false,
            fsyncs_always: config.choice::<AppendFsync>(param::APPENDFSYNC) == AppendFsync::Always,
            aof_timestamps: config.bool(param::AOF_TIMESTAMP_ENABLED),
            slow_read_elements: slow_read_elements(config),
            databases: databases(config),
            is_cluster: config.bool(param::CLUSTER_ENABLED),
            maxclients: config.int(param::MAXCLIENTS) as usize,
        }
    }

    /// The state whose limits apply to a connection's next request. `own` is the state of the connection. An
    /// unauthenticated connection counts as authenticated while the default user is open.
    pub fn admission(&self, own: AuthState) -> AuthState {
        match own {
            AuthState::Unauthenticated if self.default_user_is_open => AuthState::Authenticated,
            own => own,
        }
    }
}

fn hot_key_limits(config: &Config) -> HotKeyLimits {
    HotKeyLimits {
        keys: config.int(param::HOTKEYS_TOP_K) as usize,
        percent: config.int(param::HOTKEYS_SAMPLING_PERCENTAGE) as u32,
        window_s: config.int(param::HOTKEYS_WINDOW_SECONDS) as u64,
    }
}

fn stream_limits(config: &Config) -> StreamLimits {
    StreamLimits {
        node_max_bytes: config.int(param::STREAM_NODE_MAX_BYTES) as usize,
        node_max_entries: config.int(param::STREAM_NODE_MAX_ENTRIES) as u64,
    }
}

/// The output limits of normal clients, replicas and Pub/Sub clients.
fn output_limits(config: &Config) -> [OutputLimit; 3] {
    [ClientClass::Normal, ClientClass::Replica, ClientClass::Pubsub].map(|class| {
        let limit = config.buffer_limit(class);
        OutputLimit {
            hard: limit.hard_bytes as usize,
            soft: limit.soft_bytes as usize,
            soft_seconds: limit.soft_seconds as u64,
        }
    })
}

fn list_limits(config: &Config) -> ListLimits {
    ListLimits {
        max_listpack_size: config.int(param::LIST_MAX_LISTPACK_SIZE) as i32,
        compress_depth: config.int(param::LIST_COMPRESS_DEPTH) as u32,
        packed_threshold: 0,
    }
}

fn zset_limits(config: &Config) -> ZsetLimits {
    ZsetLimits {
        entries_max: config.int(param::ZSET_MAX_LISTPACK_ENTRIES) as usize,
        value_max: config.int(param::ZSET_MAX_LISTPACK_VALUE) as usize,
    }
}

/// Number of databases; a node of a cluster has a setting of its own.
fn databases(config: &Config) -> usize {
    let directive = match config.bool(param::CLUSTER_ENABLED) {
        true => param::CLUSTER_DATABASES,
        false => param::DATABASES,
    };
    config.int(directive) as usize
}

/// Number of elements that a read may visit on the main thread; any number if the directive is 0.
fn slow_read_elements(config: &Config) -> usize {
    match config.int(param::SLOW_READ_ELEMENTS) {
        0 => usize::MAX,
        elements => usize::try_from(elements).unwrap_or(usize::MAX),
    }
}

/// How keys are evicted above `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionLimits {
    /// Order in which keys are evicted, and the keys that may be evicted. With `None`, writes are refused
    /// instead.
    pub rule: Option<(EvictionOrder, EvictionKeys)>,
    /// Number of keys of each database that are examined for one choice.
    pub samples: usize,
    /// Longest time for which one command may evict keys, in nanoseconds.
    pub budget_ns: u64,
    /// Whether the deletion of an evicted key propagates as UNLINK.
    pub is_lazy: bool,
    /// Whether a replica leaves eviction to its primary.
    pub is_left_to_primary: bool,
}

impl EvictionLimits {
    fn new(config: &Config, policy: EvictionPolicy) -> EvictionLimits {
        use EvictionKeys::{All, Volatile};
        use EvictionOrder::{EndsFirst, LeastFrequent, LeastRecent, Random};
        let rule = match policy {
            EvictionPolicy::AllkeysLru => Some((LeastRecent, All)),
            EvictionPolicy::AllkeysLfu => Some((LeastFrequent, All)),
            EvictionPolicy::AllkeysRandom => Some((Random, All)),
            EvictionPolicy::VolatileLru => Some((LeastRecent, Volatile)),
            EvictionPolicy::VolatileLfu => Some((LeastFrequent, Volatile)),
            EvictionPolicy::VolatileRandom => Some((Random, Volatile)),
            EvictionPolicy::VolatileTtl => Some((EndsFirst, Volatile)),
            EvictionPolicy::NoEviction => None,
        };
        EvictionLimits {
            rule,
            samples: config.int(param::MAXMEMORY_SAMPLES) as usize,
            budget_ns: eviction_budget_ns(config.int(param::MAXMEMORY_EVICTION_TENACITY)),
            is_lazy: config.bool(param::LAZYFREE_LAZY_EVICTION),
            is_left_to_primary: config.bool(param::REPLICA_IGNORE_MAXMEMORY),
        }
    }
}

/// Longest time for which one command may evict keys, in nanoseconds, for a value of
/// `maxmemory-eviction-tenacity`. Up to the value 10 the time grows to half a millisecond, and from there by
/// 15 % for each step; at 100 there is no limit.
fn eviction_budget_ns(tenacity: i64) -> u64 {
    match tenacity {
        ..=10 => tenacity.max(0) as u64 * 50_000,
        11..100 => (500_000.0 * 1.15_f64.powi(tenacity as i32 - 10)) as u64,
        100.. => u64::MAX,
    }
}

/// The limit of the memory of all clients together, in bytes; 0 means no limit.
fn maxmemory_clients(config: &Config) -> usize {
    match config.int(param::MAXMEMORY_CLIENTS) {
        // A negative value is a share of `maxmemory` in percent.
        percent @ ..0 => {
            (config.uint(param::MAXMEMORY) as f64 * percent.unsigned_abs() as f64 / 100.0) as usize
        }
        bytes => bytes as usize,
    }
}

/// Converts a threshold of the configuration, in which a negative value means "never".
fn threshold(value: i64) -> i64 {
    if value >= 0 { value } else { i64::MAX }
}

//! Numbers from the configuration that commands need, in the shape in which they need them.
//!
//! A [`Limits`] is immutable; CONFIG SET makes another. So the path of a command reads plain fields, and an
//! I/O thread can hold the one that was in force when its job began.

use sluice_base::hash::HashSeed;
use sluice_config::choice::{AppendFsync, EvictionPolicy, RdbVersionCheck};
use sluice_config::{ClientClass, Config, notify, param};
use sluice_keyspace::{Classes, EvictionKeys, EvictionOrder};
use sluice_resp::AuthState;
use sluice_value::{HashLimits, ListLimits, SetLimits, StreamLimits, ZsetLimits};

/// Bytes of the largest string, whatever `proto-max-bulk-len` allows, whether a client, the primary or a log
/// asks. Pages of zeros take no memory, so that one command could make a string whose bits overflow an `i64`.
pub(crate) const STRING_BYTES_MAX: usize = 1 << 40;

/// Numbers from the configuration.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest string of a client, bytes.
    pub proto_max_bulk_len: usize,
    /// Largest input buffer of a client, bytes.
    pub client_query_buffer: usize,
    /// Requests looked at together.
    pub prefetch_batch: usize,
    /// Commands that took at least so long are logged, nanoseconds; negative: none.
    pub slow_ns: i64,
    /// The least duration that the log or the latency monitor wants to hear of, nanoseconds; `i64::MAX`:
    /// none.
    pub note_ns: i64,
    /// Requests of at least so many bytes are logged; `i64::MAX`: none.
    pub large_request: i64,
    /// Replies of at least so many bytes are logged; `i64::MAX`: none.
    pub large_reply: i64,
    /// Keys that are remembered for client-side caching; 0: no bound.
    pub tracked_keys_max: usize,
    /// Durations are kept per command.
    pub latency_tracking: bool,
    /// Events that took at least so long are kept, milliseconds; 0: none.
    pub latency_threshold_ms: u64,
    /// What HOTKEYS counts.
    pub hot_keys: HotKeyLimits,
    /// Access clocks are frequencies, not times.
    pub lfu: bool,
    /// Minutes per step of decay.
    pub lfu_decay: u32,
    /// Weight of the counter against its growth.
    pub lfu_factor: u32,
    /// Expired keys propagate as UNLINK.
    pub lazy_expire: bool,
    /// A key that RESTORE removes propagates as UNLINK.
    pub lazy_server_del: bool,
    /// FLUSHALL and FLUSHDB without an argument free elsewhere.
    pub lazy_user_flush: bool,
    /// Output limits: hard, soft, soft seconds; of normal clients, replicas and pubsub.
    pub output: [OutputLimit; 3],
    /// The least of them, bytes: below it no client needs a look. `usize::MAX` where there is none.
    pub output_floor: usize,
    /// Bytes of the history that the backlog keeps at least, where there are so many.
    pub backlog_bytes: u64,
    /// Which events of keys are published, and where.
    pub notify: Notify,
    /// Replies that name the server call it Redis.
    pub redis_names: bool,
    /// Import mode: sources may keep expired keys.
    pub import_mode: bool,
    /// Bytes of memory at which writes that need more are refused; 0: none.
    pub maxmemory: usize,
    /// What makes room above `maxmemory`.
    pub eviction: EvictionLimits,
    /// Bytes of all clients together at which the largest are closed; 0: none.
    pub maxmemory_clients: usize,
    /// Whoever connects may act as the default user: that is enabled, and asks for no password.
    pub default_user_is_open: bool,
    /// Thresholds of lists.
    pub list: ListLimits,
    /// Bytes up to which a HyperLogLog is kept sparse.
    pub hll_sparse_bytes_max: usize,
    /// Thresholds of hashes, and the seed of their tables.
    pub hash: HashLimits,
    /// Thresholds of sets, and the seed of their tables.
    pub set: SetLimits,
    /// Thresholds of streams.
    pub stream: StreamLimits,
    /// Thresholds of sorted sets.
    pub zset: ZsetLimits,
    /// DUMP compresses strings.
    pub rdb_compression: bool,
    /// RESTORE takes payloads of versions that are not known.
    pub any_rdb_version: bool,
    /// RESTORE does not compare checksums: DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub skip_checksum: bool,
    /// Replies wait until what they tell is durable, while the append-only file is on.
    pub fsyncs_always: bool,
    /// Times stand in the append-only file.
    pub aof_timestamps: bool,
    /// A read that visits more elements is produced by a thread of its own; `usize::MAX`: none is.
    pub slow_read_elements: usize,
    /// How many databases.
    pub databases: usize,
    /// Whether this server is a node of a cluster.
    pub is_cluster: bool,
    /// How many connections.
    pub maxclients: usize,
}

/// What HOTKEYS counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeyLimits {
    /// How many keys; 0: nothing is counted.
    pub keys: usize,
    /// Of a hundred accesses so many count.
    pub percent: u32,
    /// Seconds that are counted together.
    pub window_s: u64,
}

/// Output limit of a class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes at which the client is closed; 0: none.
    pub hard: usize,
    /// Bytes at which it is closed after `soft_seconds`; 0: none.
    pub soft: usize,
    /// Seconds it may stay above `soft`.
    pub soft_seconds: u64,
}

/// `notify-keyspace-events`. Without a channel to publish in, no class is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// In the channel of the key.
    pub keyspace: bool,
    /// In the channel of the event.
    pub keyevent: bool,
    /// The classes of events.
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
    /// What this server is, as HELLO and INFO name it.
    pub fn mode_name(&self) -> &'static str {
        if self.is_cluster { "cluster" } else { "standalone" }
    }

    /// From a configuration.
    pub fn new(config: &Config) -> Limits {
        let slow_ns = config.int(param::COMMANDLOG_EXECUTION_SLOWER_THAN).saturating_mul(1000);
        let threshold_ms = config.int(param::LATENCY_MONITOR_THRESHOLD);
        let latency_ns = if threshold_ms > 0 { threshold_ms.saturating_mul(1_000_000) } else { i64::MAX };
        let policy = config.choice::<EvictionPolicy>(param::MAXMEMORY_POLICY);
        let output = output_limits(config);
        // A replica's limit is about the backlog, and not about its output.
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
            // The engine knows the users: see `Control::apply_limits`.
            default_user_is_open: config.bytes(param::REQUIREPASS).is_empty(),
            list: list_limits(config),
            hll_sparse_bytes_max: config.int(param::HLL_SPARSE_MAX_BYTES) as usize,
            hash: HashLimits {
                max_entries: config.int(param::HASH_MAX_LISTPACK_ENTRIES) as usize,
                max_value: config.int(param::HASH_MAX_LISTPACK_VALUE) as usize,
                // The engine knows the seed: see `Engine::with`.
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

    /// What a connection may send before it is looked at, when this is what it may send for itself: one that
    /// has not authenticated itself may send everything while the default user is open.
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

/// The output limits of normal clients, replicas and pubsub.
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

/// What a read may visit where commands run: everything, where the directive is 0.
/// How many databases there are: a node of a cluster has its own number.
fn databases(config: &Config) -> usize {
    let directive = match config.bool(param::CLUSTER_ENABLED) {
        true => param::CLUSTER_DATABASES,
        false => param::DATABASES,
    };
    config.int(directive) as usize
}

fn slow_read_elements(config: &Config) -> usize {
    match config.int(param::SLOW_READ_ELEMENTS) {
        0 => usize::MAX,
        elements => usize::try_from(elements).unwrap_or(usize::MAX),
    }
}

/// What makes room above `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionLimits {
    /// Which key goes first, and which keys may go; none: writes are refused.
    pub rule: Option<(EvictionOrder, EvictionKeys)>,
    /// Keys of each database that a choice looks at.
    pub samples: usize,
    /// How long a command may evict at most, nanoseconds.
    pub budget_ns: u64,
    /// Evicted keys propagate as UNLINK.
    pub is_lazy: bool,
    /// A replica leaves eviction to its primary.
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

/// How long a command may evict with this tenacity: up to 10 it grows to half a millisecond, from there by 15
/// % each; at 100 without a bound.
fn eviction_budget_ns(tenacity: i64) -> u64 {
    match tenacity {
        ..=10 => tenacity.max(0) as u64 * 50_000,
        11..100 => (500_000.0 * 1.15_f64.powi(tenacity as i32 - 10)) as u64,
        100.. => u64::MAX,
    }
}

/// Bytes that all clients together may take; 0: any number.
fn maxmemory_clients(config: &Config) -> usize {
    match config.int(param::MAXMEMORY_CLIENTS) {
        // A share of `maxmemory`.
        percent @ ..0 => {
            (config.uint(param::MAXMEMORY) as f64 * percent.unsigned_abs() as f64 / 100.0) as usize
        }
        bytes => bytes as usize,
    }
}

/// A threshold of the configuration, of which a negative one means that nothing reaches it.
fn threshold(value: i64) -> i64 {
    if value >= 0 { value } else { i64::MAX }
}

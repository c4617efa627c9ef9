//! The fields of INFO, one row each; INFO and the metrics endpoint are two renderers of these rows.
//!
//! A row is `NAME: kind("name of the field", unit, "help")`, with `.metric("...")` if the endpoint shows
//! the number under that name. Names that begin with `redis_` are redis_exporter's, with its types, so
//! that its dashboards work; `sluice_` marks our own. A section names a row by its constant, so a field
//! without a row does not compile. `*` in a name stands for a part that varies, such as a number, a command
//! or an error code; the endpoint shows that part as the label `.label("...")`, if the row has one.
//!
//! The table in `docs/fields.md` is made from these rows; a test checks it (`info/tests.rs`).

/// The description of one field of INFO.
#[derive(Clone, Copy, Debug)]
pub struct InfoField {
    /// The name in INFO; `*` stands for the varying part.
    pub name: &'static str,
    /// The behaviour of the number over time.
    pub kind: FieldKind,
    /// The unit of the number in INFO.
    pub unit: FieldUnit,
    /// The meaning of the field, for operators and for `# HELP`.
    pub help: &'static str,
    /// The name at the metrics endpoint; empty if the endpoint does not show the field as one number.
    pub metric: &'static str,
    /// The endpoint shows the number divided by this.
    pub divisor: u32,
    /// Whether INFO also has a line whose name ends in `_human`, with the number in a readable unit, such as
    /// `1.50K`.
    pub human: bool,
    /// The endpoint's label for the part that `*` stands for; empty if there is none.
    pub label: &'static str,
    /// The heading of the field's section in INFO.
    pub section: &'static str,
}

/// The behaviour of a field's number over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The number only grows, until the process ends or CONFIG RESETSTAT.
    Counter,
    /// The number goes up and down.
    Gauge,
    /// The value is a text, not a number.
    Text,
    /// The value has several numbers, each with its own family in `info/families.rs`.
    Record,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUnit {
    /// A number without a unit, such as a number of things or an id; also the unit of texts.
    Count,
    /// Bytes of memory, files or traffic.
    Bytes,
    /// A duration or a time in seconds.
    Seconds,
    /// A duration or a time in milliseconds.
    Milliseconds,
    /// A duration or a time in microseconds.
    Microseconds,
    /// A share in percent, 0 to 100.
    Percent,
    /// A fraction or a multiple of one.
    Ratio,
}

/// Identifies a field: its index in [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldId(pub(super) u16);

impl FieldId {
    /// The description of this field.
    pub fn row(self) -> &'static InfoField {
        &FIELDS[usize::from(self.0)]
    }
}

const fn row(name: &'static str, kind: FieldKind, unit: FieldUnit, help: &'static str) -> InfoField {
    InfoField { name, kind, unit, help, metric: "", divisor: 1, human: false, label: "", section: "" }
}

const fn text(name: &'static str, help: &'static str) -> InfoField {
    row(name, FieldKind::Text, FieldUnit::Count, help)
}

const fn record(name: &'static str, label: &'static str, help: &'static str) -> InfoField {
    let row = row(name, FieldKind::Record, FieldUnit::Count, help);
    InfoField { label, ..row }
}

const fn gauge(name: &'static str, unit: FieldUnit, help: &'static str) -> InfoField {
    row(name, FieldKind::Gauge, unit, help)
}

const fn counter(name: &'static str, unit: FieldUnit, help: &'static str) -> InfoField {
    row(name, FieldKind::Counter, unit, help)
}

impl InfoField {
    const fn metric(self, metric: &'static str) -> InfoField {
        InfoField { metric, ..self }
    }

    const fn over(self, divisor: u32) -> InfoField {
        InfoField { divisor, ..self }
    }

    const fn with_human(self) -> InfoField {
        InfoField { human: true, ..self }
    }

    const fn label(self, label: &'static str) -> InfoField {
        InfoField { label, ..self }
    }

    const fn under(self, section: &'static str) -> InfoField {
        InfoField { section, ..self }
    }

    /// The parts of the name before and after `*`; without a `*`, the whole name and an empty text.
    pub(super) fn around_star(&self) -> (&'static str, &'static str) {
        self.name.split_once('*').unwrap_or((self.name, ""))
    }
}

use FieldUnit::{Bytes, Count, Microseconds, Milliseconds, Percent, Ratio, Seconds};

macro_rules! fields {
    ($( $title:literal { $( $id:ident : $row:expr ; )* } )*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum FieldIndex { $($( $id, )*)* COUNT }

        /// Every field, section by section; a [`FieldId`] is an index in it.
        pub static FIELDS: [InfoField; FieldIndex::COUNT as usize] = [ $($( $row.under($title), )*)* ];

        /// The ids of the fields, by name.
        #[allow(missing_docs, reason = "a row says by itself what it is")]
        pub mod field {
            use super::{FieldId, FieldIndex};
            $($( pub const $id: FieldId = FieldId(FieldIndex::$id as u16); )*)*
        }
    };
}

fields! {
    "Server" {
        REDIS_VERSION: text("redis_version", "version of Redis whose commands clients may expect");
        SERVER_NAME: text("server_name", "always `valkey`: clients look for that name");
        VALKEY_VERSION: text("valkey_version", "version of Valkey that this server is compatible with");
        VALKEY_RELEASE_STAGE: text("valkey_release_stage", "release stage of the Valkey version");
        REDIS_GIT_SHA1: text("redis_git_sha1", "always zeros");
        REDIS_GIT_DIRTY: text("redis_git_dirty", "always 0");
        REDIS_BUILD_ID: text("redis_build_id", "always 0");
        REDIS_MODE: text("redis_mode", "the mode, in place of `server_mode` where `extended-redis-compatibility` is yes");
        SERVER_MODE: text("server_mode", "the mode: `standalone` or `cluster`");
        OS: text("os", "system, its version, machine");
        ARCH_BITS: text("arch_bits", "bits of a pointer");
        MONOTONIC_CLOCK: text("monotonic_clock", "how the clock is read");
        MULTIPLEXING_API: text("multiplexing_api", "kernel interface of the event loop, under Valkey's name");
        GCC_VERSION: text("gcc_version", "always 0.0.0");
        PROCESS_ID: gauge("process_id", Count, "id of the process").metric("redis_process_id");
        PROCESS_SUPERVISED: text("process_supervised", "the supervisor that started the process, or `no`");
        RUN_ID: text("run_id", "random id of this run");
        TCP_PORT: text("tcp_port", "port of clients without TLS; where there is none, the port of TLS");
        SERVER_TIME_USEC: gauge("server_time_usec", Microseconds, "the server's time since the epoch");
        UPTIME_IN_SECONDS: gauge("uptime_in_seconds", Seconds, "time since the start").metric("redis_uptime_in_seconds");
        UPTIME_IN_DAYS: gauge("uptime_in_days", Count, "time since the start, whole days");
        HZ: gauge("hz", Count, "runs of the cron in a second");
        CONFIGURED_HZ: gauge("configured_hz", Count, "the directive `hz`: runs of the cron in a second");
        CLIENTS_HZ: gauge("clients_hz", Count, "runs of the cron in a second that look at clients, as `hz`");
        LRU_CLOCK: gauge("lru_clock", Count, "clock of the LRU, seconds modulo 2^24");
        EXECUTABLE: text("executable", "path of the program");
        CONFIG_FILE: text("config_file", "path of the configuration file");
        IO_THREADS_ACTIVE: gauge("io_threads_active", Count, "1 while an I/O thread is active").metric("redis_io_threads_active");
        AVAILABILITY_ZONE: text("availability_zone", "the directive `availability-zone`");
        SHUTDOWN_IN_MILLISECONDS: gauge("shutdown_in_milliseconds", Milliseconds, "time until a shutdown stops waiting for replicas");
        LISTENER: text("listener*", "a listening socket: 0 plain TCP, 1 unix, 2 TLS");
        SLUICE_VERSION: text("sluice_version", "this server's own version");
        EVENT_LOOP: text("event_loop", "kernel interface of the event loop: `epoll`, `poll` or `io_uring`");
        EVENT_LOOP_REASON: text("event_loop_reason", "reason for the choice of the kernel interface");
        IO_THREADS_WORKERS: gauge("io_threads_workers", Count, "I/O threads that own connections").metric("sluice_io_threads");
        IO_THREADS_REASON: text("io_threads_reason", "reason for the present number of I/O threads");
    }
    "TLS" {
        TLS_SERVER_CERT_SERIAL: text("tls_server_cert_serial", "serial number of the server's certificate, hexadecimal");
        TLS_SERVER_CERT_EXPIRES: gauge("tls_server_cert_expires_in_seconds", Seconds, "time until the server's certificate expires").metric("sluice_tls_server_cert_expires_seconds");
        TLS_SERVER_ALT_CERT_SERIAL: text("tls_server_alt_cert_serial", "serial number of the server's second certificate");
        TLS_SERVER_ALT_CERT_EXPIRES: gauge("tls_server_alt_cert_expires_in_seconds", Seconds, "time until the server's second certificate expires").metric("sluice_tls_server_alt_cert_expires_seconds");
        TLS_CLIENT_CERT_SERIAL: text("tls_client_cert_serial", "serial number of the client certificate, for connections that the server opens");
        TLS_CLIENT_CERT_EXPIRES: gauge("tls_client_cert_expires_in_seconds", Seconds, "time until the client certificate expires, for connections that the server opens").metric("sluice_tls_client_cert_expires_seconds");
        TLS_CA_CERT_SERIAL: text("tls_ca_cert_serial", "serial number of the CA certificate that expires first");
        TLS_CA_CERT_EXPIRES: gauge("tls_ca_cert_expires_in_seconds", Seconds, "time until the first CA certificate expires").metric("sluice_tls_ca_cert_expires_seconds");
    }
    "Clients" {
        CONNECTED_CLIENTS: gauge("connected_clients", Count, "clients, replicas left out").metric("redis_connected_clients");
        CONNECTED_PRIORITY_CLIENTS: gauge("connected_priority_clients", Count, "clients that came from one of `priority-subnets`").metric("sluice_connected_priority_clients");
        CLUSTER_CONNECTIONS: gauge("cluster_connections", Count, "two for each other node that this one knows").metric("redis_cluster_connections");
        MAXCLIENTS: gauge("maxclients", Count, "clients allowed").metric("redis_max_clients");
        CLIENT_RECENT_MAX_INPUT_BUFFER: gauge("client_recent_max_input_buffer", Bytes, "largest query buffer of a client in the last seconds").metric("redis_client_recent_max_input_buffer_bytes");
        CLIENT_RECENT_MAX_OUTPUT_BUFFER: gauge("client_recent_max_output_buffer", Bytes, "largest output buffer of a client in the last seconds").metric("redis_client_recent_max_output_buffer_bytes");
        BLOCKED_CLIENTS: gauge("blocked_clients", Count, "clients blocked by a command, as BLPOP or WAIT").metric("redis_blocked_clients");
        TRACKING_CLIENTS: gauge("tracking_clients", Count, "clients with CLIENT TRACKING").metric("redis_tracking_clients");
        PUBSUB_CLIENTS: gauge("pubsub_clients", Count, "clients with subscriptions").metric("redis_pubsub_clients");
        WATCHING_CLIENTS: gauge("watching_clients", Count, "clients that watch keys for a transaction").metric("redis_watching_clients");
        CLIENTS_IN_TIMEOUT_TABLE: gauge("clients_in_timeout_table", Count, "clients that wait with a deadline").metric("redis_clients_in_timeout_table");
        TOTAL_WATCHED_KEYS: gauge("total_watched_keys", Count, "keys that clients watch for transactions").metric("redis_total_watched_keys");
        TOTAL_BLOCKING_KEYS: gauge("total_blocking_keys", Count, "keys that clients wait for").metric("redis_total_blocking_keys");
        TOTAL_BLOCKING_KEYS_ON_NOKEY: gauge("total_blocking_keys_on_nokey", Count, "of the keys that clients wait for, those whose deletion wakes a client too").metric("redis_total_blocking_keys_on_nokey");
        PAUSED_REASON: text("paused_reason", "why clients are paused: `none`, `client_pause`, `failover_in_progress`, `slot_migration_in_progress` (writers of the slots alone)");
        PAUSED_ACTIONS: text("paused_actions", "which commands are paused: `none`, `write`, `all`");
        PAUSED_TIMEOUT_MILLISECONDS: gauge("paused_timeout_milliseconds", Milliseconds, "time until the commands of paused clients run");
    }
    "Memory" {
        USED_MEMORY: gauge("used_memory", Bytes, "memory in use").with_human().metric("redis_memory_used_bytes");
        USED_MEMORY_RSS: gauge("used_memory_rss", Bytes, "resident memory of the process").with_human().metric("redis_memory_used_rss_bytes");
        USED_MEMORY_PEAK: gauge("used_memory_peak", Bytes, "peak of memory in use").with_human().metric("redis_memory_used_peak_bytes");
        USED_MEMORY_PEAK_PERC: gauge("used_memory_peak_perc", Percent, "memory in use, as a share of the peak");
        USED_MEMORY_OVERHEAD: gauge("used_memory_overhead", Bytes, "memory that is not data").metric("redis_memory_used_overhead_bytes");
        USED_MEMORY_STARTUP: gauge("used_memory_startup", Bytes, "memory in use after the start, before data were loaded").metric("redis_memory_used_startup_bytes");
        USED_MEMORY_DATASET: gauge("used_memory_dataset", Bytes, "memory of the data: memory in use less the overhead; a value on its way to a client counts as overhead").metric("redis_memory_used_dataset_bytes");
        USED_MEMORY_DATASET_PERC: gauge("used_memory_dataset_perc", Percent, "memory of the data, as a share of memory in use less `used_memory_startup`");
        ALLOCATOR_ALLOCATED: gauge("allocator_allocated", Bytes, "memory that the allocator has given out").metric("redis_allocator_allocated_bytes");
        ALLOCATOR_ACTIVE: gauge("allocator_active", Bytes, "pages in use by the allocator").metric("redis_allocator_active_bytes");
        ALLOCATOR_RESIDENT: gauge("allocator_resident", Bytes, "resident pages of the allocator").metric("redis_allocator_resident_bytes");
        ALLOCATOR_MUZZY: gauge("allocator_muzzy", Bytes, "pages of the allocator that the kernel may take back").metric("sluice_allocator_muzzy_bytes");
        TOTAL_SYSTEM_MEMORY: gauge("total_system_memory", Bytes, "memory of the machine").with_human().metric("redis_total_system_memory_bytes");
        USED_MEMORY_LUA: gauge("used_memory_lua", Bytes, "memory of the Lua machine of EVAL").metric("redis_memory_used_lua_bytes");
        USED_MEMORY_VM_EVAL: gauge("used_memory_vm_eval", Bytes, "memory of the Lua machine of EVAL, under a later name").metric("redis_memory_used_vm_eval_bytes");
        USED_MEMORY_LUA_HUMAN: text("used_memory_lua_human", "memory of the Lua machine of EVAL, for readers");
        USED_MEMORY_SCRIPTS_EVAL: gauge("used_memory_scripts_eval", Bytes, "memory of the cached scripts of EVAL").metric("redis_memory_used_scripts_eval_bytes");
        NUMBER_OF_CACHED_SCRIPTS: gauge("number_of_cached_scripts", Count, "scripts in the cache of EVAL").metric("redis_number_of_cached_scripts");
        NUMBER_OF_FUNCTIONS: gauge("number_of_functions", Count, "functions in all libraries").metric("redis_number_of_functions");
        NUMBER_OF_LIBRARIES: gauge("number_of_libraries", Count, "libraries of functions").metric("redis_number_of_libraries");
        USED_MEMORY_VM_FUNCTIONS: gauge("used_memory_vm_functions", Bytes, "memory of the Lua machines of function libraries").metric("redis_memory_used_vm_functions_bytes");
        USED_MEMORY_VM_TOTAL: gauge("used_memory_vm_total", Bytes, "memory of all Lua machines").with_human().metric("redis_memory_used_vm_total");
        USED_MEMORY_FUNCTIONS: gauge("used_memory_functions", Bytes, "memory of function libraries, without the Lua machines").metric("redis_memory_used_functions_bytes");
        USED_MEMORY_SCRIPTS: gauge("used_memory_scripts", Bytes, "memory of scripts and function libraries, without the Lua machines").with_human().metric("redis_memory_used_scripts_bytes");
        MAXMEMORY: gauge("maxmemory", Bytes, "the directive `maxmemory`; 0: no limit").with_human().metric("redis_memory_max_bytes");
        MAXMEMORY_POLICY: text("maxmemory_policy", "the directive `maxmemory-policy`");
        ALLOCATOR_FRAG_RATIO: gauge("allocator_frag_ratio", Ratio, "bytes in active pages of the allocator, divided by bytes that it has given out").metric("redis_allocator_frag_ratio");
        ALLOCATOR_FRAG_BYTES: gauge("allocator_frag_bytes", Bytes, "bytes in active pages of the allocator, less bytes that it has given out").metric("redis_allocator_frag_bytes");
        ALLOCATOR_RSS_RATIO: gauge("allocator_rss_ratio", Ratio, "resident pages of the allocator, divided by its active pages").metric("redis_allocator_rss_ratio");
        ALLOCATOR_RSS_BYTES: gauge("allocator_rss_bytes", Bytes, "bytes in resident pages of the allocator, less bytes in its active pages").metric("redis_allocator_rss_bytes");
        RSS_OVERHEAD_RATIO: gauge("rss_overhead_ratio", Ratio, "resident memory of the process, divided by that of the allocator").metric("sluice_rss_overhead_ratio");
        RSS_OVERHEAD_BYTES: gauge("rss_overhead_bytes", Bytes, "resident memory of the process, less that of the allocator").metric("sluice_rss_overhead_bytes");
        MEM_FRAGMENTATION_RATIO: gauge("mem_fragmentation_ratio", Ratio, "resident memory of the process, divided by memory in use").metric("redis_mem_fragmentation_ratio");
        MEM_FRAGMENTATION_BYTES: gauge("mem_fragmentation_bytes", Bytes, "resident memory of the process, less memory in use").metric("redis_mem_fragmentation_bytes");
        MEM_NOT_COUNTED_FOR_EVICT: gauge("mem_not_counted_for_evict", Bytes, "memory that `maxmemory` does not count").metric("redis_mem_not_counted_for_eviction_bytes");
        MEM_REPLICATION_BACKLOG: gauge("mem_replication_backlog", Bytes, "memory of the replication backlog").metric("sluice_mem_replication_backlog_bytes");
        MEM_TOTAL_REPLICATION_BUFFERS: gauge("mem_total_replication_buffers", Bytes, "memory of the replication backlog and of the replicas' output buffers").metric("redis_mem_total_replication_buffers_bytes");
        MEM_REPLICAS_REPL_BUFFER: gauge("mem_replicas_repl_buffer", Bytes, "replication stream that this replica buffers until the snapshot is loaded").metric("sluice_mem_replicas_repl_buffer_bytes");
        MEM_CLIENTS_SLAVES: gauge("mem_clients_slaves", Bytes, "memory of the replicas' connections, output buffers included").metric("redis_mem_clients_slaves");
        MEM_CLIENTS_NORMAL: gauge("mem_clients_normal", Bytes, "memory of clients that are no replicas").metric("redis_mem_clients_normal");
        MEM_CLUSTER_LINKS: gauge("mem_cluster_links", Bytes, "memory of queued and unfinished messages on the links of the cluster bus");
        MEM_CLUSTER_SLOT_IMPORT: gauge("mem_cluster_slot_import", Bytes, "memory of connections of slot migrations to this node");
        MEM_CLUSTER_SLOT_EXPORT: gauge("mem_cluster_slot_export", Bytes, "memory of streams and connections of slot migrations from this node");
        MEM_AOF_BUFFER: gauge("mem_aof_buffer", Bytes, "always 0");
        MEM_ALLOCATOR: text("mem_allocator", "name and version of the allocator");
        MEM_OVERHEAD_DB_HASHTABLE_REHASHING: gauge("mem_overhead_db_hashtable_rehashing", Bytes, "always 0").metric("redis_mem_overhead_db_hashtable_rehashing_bytes");
        ACTIVE_DEFRAG_RUNNING: gauge("active_defrag_running", Percent, "share of the main thread's time that compaction may take; 0: nothing to do").metric("redis_active_defrag_running");
        LAZYFREE_PENDING_OBJECTS: gauge("lazyfree_pending_objects", Count, "values that wait to be freed by another thread").metric("redis_lazyfree_pending_objects");
        LAZYFREED_OBJECTS: counter("lazyfreed_objects", Count, "values that another thread has freed").metric("sluice_lazyfreed_objects_total");
    }
    "Persistence" {
        LOADING: gauge("loading", Count, "1 while data are loaded and commands are refused with LOADING").metric("redis_loading_dump_file");
        ASYNC_LOADING: gauge("async_loading", Count, "1 while new data are loaded and the old data are still served").metric("redis_async_loading");
        CURRENT_COW_PEAK: gauge("current_cow_peak", Bytes, "always equal to `current_cow_size`");
        CURRENT_COW_SIZE: gauge("current_cow_size", Bytes, "bytes that the save under way has copied because commands changed entries").metric("sluice_snapshot_copied_bytes");
        CURRENT_COW_SIZE_AGE: gauge("current_cow_size_age", Seconds, "always 0");
        CURRENT_FORK_PERC: gauge("current_fork_perc", Percent, "share of the keys that the save under way has captured");
        CURRENT_SAVE_KEYS_PROCESSED: gauge("current_save_keys_processed", Count, "keys that the save under way has captured").metric("sluice_snapshot_keys_captured");
        CURRENT_SAVE_KEYS_TOTAL: gauge("current_save_keys_total", Count, "keys that the save under way has to capture").metric("sluice_snapshot_keys");
        CURRENT_SAVE_KEYS_CHANGED: gauge("current_save_keys_changed", Count, "keys that the save under way captured early because a command was about to change them").metric("sluice_snapshot_keys_changed");
        CURRENT_SAVE_HELD_BYTES: gauge("current_save_held_bytes", Bytes, "memory kept only for saves and for snapshots of full syncs").metric("sluice_snapshot_held_bytes");
        RDB_CHANGES_SINCE_LAST_SAVE: gauge("rdb_changes_since_last_save", Count, "changes of data since the last save of the RDB file").metric("redis_rdb_changes_since_last_save");
        RDB_BGSAVE_IN_PROGRESS: gauge("rdb_bgsave_in_progress", Count, "1 while an RDB file is saved in the background").metric("redis_rdb_bgsave_in_progress");
        RDB_LAST_SAVE_TIME: gauge("rdb_last_save_time", Seconds, "when the last save of the RDB file ended, or the server started, since the epoch").metric("redis_rdb_last_save_timestamp_seconds");
        RDB_LAST_BGSAVE_STATUS: gauge("rdb_last_bgsave_status", Count, "`ok` (1), or `err` (0): the last save of the RDB file failed").metric("redis_rdb_last_bgsave_status");
        RDB_LAST_BGSAVE_TIME_SEC: gauge("rdb_last_bgsave_time_sec", Seconds, "duration of the last save of the RDB file in the background; -1: none").metric("redis_rdb_last_bgsave_duration_sec");
        RDB_CURRENT_BGSAVE_TIME_SEC: gauge("rdb_current_bgsave_time_sec", Seconds, "age of the save of the RDB file under way; -1: none").metric("redis_rdb_current_bgsave_duration_sec");
        RDB_SAVES: counter("rdb_saves", Count, "saves of the RDB file").metric("redis_rdb_saves_total");
        RDB_LAST_COW_SIZE: gauge("rdb_last_cow_size", Bytes, "bytes that the last save of the RDB file copied because commands changed entries").metric("redis_rdb_last_cow_size_bytes");
        RDB_LAST_LOAD_KEYS_EXPIRED: gauge("rdb_last_load_keys_expired", Count, "keys that the last load left out because they had expired").metric("redis_rdb_last_load_expired_keys");
        RDB_LAST_LOAD_KEYS_LOADED: gauge("rdb_last_load_keys_loaded", Count, "keys loaded by the last load").metric("redis_rdb_last_load_loaded_keys");
        AOF_ENABLED: gauge("aof_enabled", Count, "1 with an append-only file").metric("redis_aof_enabled");
        AOF_REWRITE_IN_PROGRESS: gauge("aof_rewrite_in_progress", Count, "1 while the append-only file is rewritten").metric("redis_aof_rewrite_in_progress");
        AOF_REWRITE_SCHEDULED: gauge("aof_rewrite_scheduled", Count, "1 while a rewrite of the append-only file waits for a save").metric("redis_aof_rewrite_scheduled");
        AOF_LAST_REWRITE_TIME_SEC: gauge("aof_last_rewrite_time_sec", Seconds, "duration of the last rewrite of the append-only file; -1: none").metric("redis_aof_last_rewrite_duration_sec");
        AOF_CURRENT_REWRITE_TIME_SEC: gauge("aof_current_rewrite_time_sec", Seconds, "age of the rewrite of the append-only file under way; -1: none").metric("redis_aof_current_rewrite_duration_sec");
        AOF_LAST_BGREWRITE_STATUS: gauge("aof_last_bgrewrite_status", Count, "`ok` (1), or `err` (0): the last rewrite of the append-only file failed").metric("redis_aof_last_bgrewrite_status");
        AOF_REWRITES: counter("aof_rewrites", Count, "rewrites of the append-only file that have begun").metric("sluice_aof_rewrites_total");
        AOF_REWRITES_CONSECUTIVE_FAILURES: gauge("aof_rewrites_consecutive_failures", Count, "failed rewrites of the append-only file in a row").metric("sluice_aof_rewrites_consecutive_failures");
        AOF_LAST_WRITE_STATUS: gauge("aof_last_write_status", Count, "`ok` (1), or `err` (0): the append-only file cannot be written").metric("redis_aof_last_write_status");
        AOF_LAST_COW_SIZE: gauge("aof_last_cow_size", Bytes, "bytes that the last rewrite of the append-only file copied because commands changed entries").metric("redis_aof_last_cow_size_bytes");
        MODULE_FORK_IN_PROGRESS: gauge("module_fork_in_progress", Count, "always 0").metric("redis_module_fork_in_progress");
        MODULE_FORK_LAST_COW_SIZE: gauge("module_fork_last_cow_size", Bytes, "always 0").metric("redis_module_fork_last_cow_size");
        SLOT_MIGRATION_FORK_IN_PROGRESS: gauge("slot_migration_fork_in_progress", Count, "always 0");
        AOF_CURRENT_SIZE: gauge("aof_current_size", Bytes, "bytes of the append-only file").metric("redis_aof_current_size_bytes");
        AOF_BASE_SIZE: gauge("aof_base_size", Bytes, "bytes of the append-only file after its last rewrite, or at the start").metric("redis_aof_base_size_bytes");
        AOF_PENDING_REWRITE: gauge("aof_pending_rewrite", Count, "1 while a rewrite of the append-only file waits for a save, by its other name").metric("redis_aof_pending_rewrite");
        AOF_BUFFER_LENGTH: gauge("aof_buffer_length", Bytes, "bytes of the append-only file that are not written yet").metric("redis_aof_buffer_length");
        AOF_PENDING_BIO_FSYNC: gauge("aof_pending_bio_fsync", Count, "1 while an fsync of the append-only file is under way").metric("redis_aof_pending_bio_fsync");
        AOF_DELAYED_FSYNC: gauge("aof_delayed_fsync", Count, "fsyncs of the append-only file that took longer than a second, those of `appendfsync always` not counted").metric("redis_aof_delayed_fsync");
        LOADING_START_TIME: gauge("loading_start_time", Seconds, "when the load began, since the epoch");
        LOADING_TOTAL_BYTES: gauge("loading_total_bytes", Bytes, "size of the file under load").metric("sluice_loading_total_bytes");
        LOADING_RDB_USED_MEM: gauge("loading_rdb_used_mem", Bytes, "memory in use when the file under load was saved, as the file says");
        LOADING_LOADED_BYTES: gauge("loading_loaded_bytes", Bytes, "bytes loaded so far of the file under load").metric("sluice_loading_loaded_bytes");
        LOADING_LOADED_PERC: gauge("loading_loaded_perc", Percent, "share loaded so far of the file under load");
        LOADING_ETA_SECONDS: gauge("loading_eta_seconds", Seconds, "estimated time until the load ends").metric("sluice_loading_eta_seconds");
    }
    "Stats" {
        TOTAL_CONNECTIONS_RECEIVED: counter("total_connections_received", Count, "connections accepted").metric("redis_connections_received_total");
        TOTAL_COMMANDS_PROCESSED: counter("total_commands_processed", Count, "commands executed").metric("redis_commands_processed_total");
        INSTANTANEOUS_OPS_PER_SEC: gauge("instantaneous_ops_per_sec", Count, "commands a second, over the last 1.6 seconds").metric("sluice_instantaneous_ops_per_second");
        TOTAL_NET_INPUT_BYTES: counter("total_net_input_bytes", Bytes, "bytes received").metric("redis_net_input_bytes_total");
        TOTAL_NET_OUTPUT_BYTES: counter("total_net_output_bytes", Bytes, "bytes sent").metric("redis_net_output_bytes_total");
        TOTAL_NET_REPL_INPUT_BYTES: counter("total_net_repl_input_bytes", Bytes, "bytes received from the primary").metric("redis_net_repl_input_bytes_total");
        TOTAL_NET_REPL_OUTPUT_BYTES: counter("total_net_repl_output_bytes", Bytes, "bytes sent to replicas").metric("redis_net_repl_output_bytes_total");
        TOTAL_NET_CLUSTER_SLOT_IMPORT_BYTES: counter("total_net_cluster_slot_import_bytes", Bytes, "bytes received by slot migrations to this node");
        TOTAL_NET_CLUSTER_SLOT_EXPORT_BYTES: counter("total_net_cluster_slot_export_bytes", Bytes, "bytes sent by slot migrations from this node");
        INSTANTANEOUS_INPUT_KBPS: gauge("instantaneous_input_kbps", Count, "KiB a second received");
        INSTANTANEOUS_OUTPUT_KBPS: gauge("instantaneous_output_kbps", Count, "KiB a second sent");
        INSTANTANEOUS_INPUT_REPL_KBPS: gauge("instantaneous_input_repl_kbps", Count, "KiB a second received from the primary");
        INSTANTANEOUS_OUTPUT_REPL_KBPS: gauge("instantaneous_output_repl_kbps", Count, "always 0.00");
        REJECTED_CONNECTIONS: counter("rejected_connections", Count, "connections refused").metric("redis_rejected_connections_total");
        REJECTED_PRIORITY_CONNECTIONS: counter("rejected_priority_connections", Count, "connections of `priority-subnets` refused because `maxclients` was reached").metric("sluice_rejected_priority_connections_total");
        SYNC_FULL: gauge("sync_full", Count, "full syncs of replicas").metric("redis_replica_resyncs_full");
        SYNC_PARTIAL_OK: gauge("sync_partial_ok", Count, "partial syncs of replicas").metric("redis_replica_partial_resync_accepted");
        SYNC_PARTIAL_ERR: gauge("sync_partial_err", Count, "partial syncs that replicas requested and that were not possible: a full sync followed").metric("redis_replica_partial_resync_denied");
        EXPIRED_KEYS: counter("expired_keys", Count, "keys that have expired").metric("redis_expired_keys_total");
        EXPIRED_FIELDS: counter("expired_fields", Count, "fields of hashes that have expired").metric("sluice_expired_fields_total");
        EXPIRED_STALE_PERC: gauge("expired_stale_perc", Percent, "share of expired keys among the keys that expiry samples, smoothed").metric("redis_expired_stale_percentage");
        EXPIRED_KEYS_WITH_VOLATILE_ITEMS_STALE_PERC: gauge("expired_keys_with_volatile_items_stale_perc", Percent, "always 0.00");
        EXPIRED_TIME_CAP_REACHED_COUNT: counter("expired_time_cap_reached_count", Count, "cycles of expiry that took longer than a period of the cron").metric("redis_expired_time_cap_reached_total");
        EXPIRE_CYCLE_CPU_MILLISECONDS: counter("expire_cycle_cpu_milliseconds", Milliseconds, "time in cycles of expiry").metric("redis_expire_cycle_cpu_time_ms_total");
        EVICTED_KEYS: counter("evicted_keys", Count, "keys evicted because of `maxmemory`").metric("redis_evicted_keys_total");
        EVICTED_CLIENTS: counter("evicted_clients", Count, "clients closed because of `maxmemory-clients`").metric("redis_evicted_clients_total");
        EVICTED_SCRIPTS: counter("evicted_scripts", Count, "scripts of EVAL evicted from the cache").metric("redis_evicted_scripts_total");
        TOTAL_EVICTION_EXCEEDED_TIME: counter("total_eviction_exceeded_time", Milliseconds, "time with more memory in use than `maxmemory`").metric("redis_eviction_exceeded_time_ms_total");
        CURRENT_EVICTION_EXCEEDED_TIME: gauge("current_eviction_exceeded_time", Milliseconds, "time since memory in use went above `maxmemory`; 0: it is not above").metric("redis_current_eviction_exceeded_time_ms");
        KEYSPACE_HITS: counter("keyspace_hits", Count, "look-ups that found a key: the hit rate is hits / (hits + misses)").metric("redis_keyspace_hits_total");
        KEYSPACE_MISSES: counter("keyspace_misses", Count, "look-ups that found no key").metric("redis_keyspace_misses_total");
        PUBSUB_CHANNELS: gauge("pubsub_channels", Count, "channels with subscribers").metric("redis_pubsub_channels");
        PUBSUB_PATTERNS: gauge("pubsub_patterns", Count, "patterns with subscribers").metric("redis_pubsub_patterns");
        PUBSUBSHARD_CHANNELS: gauge("pubsubshard_channels", Count, "sharded channels with subscribers").metric("redis_pubsubshard_channels");
        LATEST_FORK_USEC: gauge("latest_fork_usec", Microseconds, "always 0: nothing forks").metric("redis_latest_fork_usec");
        TOTAL_FORKS: counter("total_forks", Count, "always 0");
        MIGRATE_CACHED_SOCKETS: gauge("migrate_cached_sockets", Count, "connections that MIGRATE keeps open for the next call").metric("redis_migrate_cached_sockets_total");
        SLAVE_EXPIRES_TRACKED_KEYS: gauge("slave_expires_tracked_keys", Count, "keys that a writable replica expires on its own").metric("redis_slave_expires_tracked_keys");
        ACTIVE_DEFRAG_HITS: gauge("active_defrag_hits", Count, "entries that compaction has moved").metric("redis_defrag_hits");
        ACTIVE_DEFRAG_MISSES: gauge("active_defrag_misses", Count, "moves of entries that compaction has taken back").metric("redis_defrag_misses");
        ACTIVE_DEFRAG_KEY_HITS: gauge("active_defrag_key_hits", Count, "keys that compaction has moved").metric("redis_defrag_key_hits");
        ACTIVE_DEFRAG_KEY_MISSES: gauge("active_defrag_key_misses", Count, "moves of keys that compaction has taken back").metric("redis_defrag_key_misses");
        TOTAL_ACTIVE_DEFRAG_TIME: counter("total_active_defrag_time", Milliseconds, "time with compaction at work");
        CURRENT_ACTIVE_DEFRAG_TIME: gauge("current_active_defrag_time", Milliseconds, "time that compaction has been at work without a break; 0: nothing to do");
        TRACKING_TOTAL_KEYS: gauge("tracking_total_keys", Count, "keys that clients with CLIENT TRACKING have read").metric("redis_tracking_total_keys");
        TRACKING_TOTAL_ITEMS: gauge("tracking_total_items", Count, "pairs of a key and a client with CLIENT TRACKING that has read the key").metric("redis_tracking_total_items");
        TRACKING_TOTAL_PREFIXES: gauge("tracking_total_prefixes", Count, "prefixes of keys that clients with CLIENT TRACKING asked for").metric("redis_tracking_total_prefixes");
        UNEXPECTED_ERROR_REPLIES: counter("unexpected_error_replies", Count, "errors on the link of a primary or replica").metric("redis_unexpected_error_replies");
        TOTAL_ERROR_REPLIES: counter("total_error_replies", Count, "error replies").metric("redis_total_error_replies");
        DUMP_PAYLOAD_SANITIZATIONS: counter("dump_payload_sanitizations", Count, "always 0").metric("redis_dump_payload_sanitizations");
        TOTAL_READS_PROCESSED: counter("total_reads_processed", Count, "reads from client sockets").metric("redis_total_reads_processed");
        TOTAL_WRITES_PROCESSED: counter("total_writes_processed", Count, "writes to client sockets").metric("redis_total_writes_processed");
        IO_THREADED_READS_PROCESSED: counter("io_threaded_reads_processed", Count, "batches of requests that came from I/O threads").metric("redis_io_threaded_reads_processed");
        IO_THREADED_WRITES_PROCESSED: counter("io_threaded_writes_processed", Count, "batches of replies that went to I/O threads").metric("redis_io_threaded_writes_processed");
        IO_THREADED_FREED_OBJECTS: counter("io_threaded_freed_objects", Count, "values that I/O threads freed").metric("sluice_io_threads_freed_objects_total");
        IO_THREADED_ACCEPT_PROCESSED: counter("io_threaded_accept_processed", Count, "new connections handed to I/O threads at once").metric("sluice_io_threads_accepts_total");
        IO_THREADED_POLL_PROCESSED: counter("io_threaded_poll_processed", Count, "waits of I/O threads that returned events").metric("sluice_io_threads_polls_total");
        IO_THREADED_TOTAL_PREFETCH_BATCHES: counter("io_threaded_total_prefetch_batches", Count, "groups of keys that were prefetched").metric("sluice_prefetch_batches_total");
        IO_THREADED_TOTAL_PREFETCH_ENTRIES: counter("io_threaded_total_prefetch_entries", Count, "keys that were prefetched in groups").metric("sluice_prefetch_entries_total");
        CLIENT_QUERY_BUFFER_LIMIT_DISCONNECTIONS: counter("client_query_buffer_limit_disconnections", Count, "clients closed because their query buffer was too large").metric("redis_client_query_buffer_limit_disconnections_total");
        CLIENT_OUTPUT_BUFFER_LIMIT_DISCONNECTIONS: counter("client_output_buffer_limit_disconnections", Count, "clients closed because their output buffer was too large (`client-output-buffer-limit`)").metric("redis_client_output_buffer_limit_disconnections_total");
        REPLY_BUFFER_SHRINKS: counter("reply_buffer_shrinks", Count, "always 0").metric("redis_reply_buffer_shrinks_total");
        REPLY_BUFFER_EXPANDS: counter("reply_buffer_expands", Count, "always 0").metric("redis_reply_buffer_expands_total");
        SLOW_READS_RUNNING: gauge("slow_reads_running", Count, "threads that produce the reply of a slow read now").metric("sluice_slow_reads_running");
        SLOW_READS_WAITING: gauge("slow_reads_waiting", Count, "clients whose slow read waits for a thread").metric("sluice_slow_reads_waiting");
        SLOW_READS_TOTAL: counter("slow_reads_total", Count, "slow reads begun on threads of their own").metric("sluice_slow_reads_total");
        SLOW_READS_IN_PLACE: counter("slow_reads_in_place", Count, "reads as large as slow reads that ran on the main thread").metric("sluice_slow_reads_in_place_total");
        SLOW_READS_RETAINED_BYTES: gauge("slow_reads_retained_bytes", Bytes, "memory kept only for slow reads").metric("sluice_slow_reads_retained_bytes");
        EVENTLOOP_CYCLES: counter("eventloop_cycles", Count, "iterations of the event loop").metric("sluice_iterations_total");
        EVENTLOOP_DURATION_SUM: counter("eventloop_duration_sum", Microseconds, "time in iterations of the event loop").metric("sluice_iterations_duration_seconds_total").over(1_000_000);
        EVENTLOOP_DURATION_CMD_SUM: counter("eventloop_duration_cmd_sum", Microseconds, "time in commands within iterations of the event loop").metric("sluice_iterations_command_seconds_total").over(1_000_000);
        INSTANTANEOUS_EVENTLOOP_CYCLES_PER_SEC: gauge("instantaneous_eventloop_cycles_per_sec", Count, "iterations of the event loop a second");
        INSTANTANEOUS_EVENTLOOP_DURATION_USEC: gauge("instantaneous_eventloop_duration_usec", Microseconds, "mean time of an iteration of the event loop");
        ACL_ACCESS_DENIED_AUTH: counter("acl_access_denied_auth", Count, "failed authentications").metric("redis_acl_access_denied_auth_total");
        ACL_ACCESS_DENIED_CMD: counter("acl_access_denied_cmd", Count, "calls refused because of the command").metric("redis_acl_access_denied_cmd_total");
        ACL_ACCESS_DENIED_KEY: counter("acl_access_denied_key", Count, "calls refused because of a key").metric("redis_acl_access_denied_key_total");
        ACL_ACCESS_DENIED_CHANNEL: counter("acl_access_denied_channel", Count, "calls refused because of a channel").metric("redis_acl_access_denied_channel_total");
        ACL_ACCESS_DENIED_TLS_CERT: counter("acl_access_denied_tls_cert", Count, "TLS connections whose certificate names no user").metric("sluice_acl_access_denied_tls_cert_total");
        ACL_ACCESS_DENIED_DB: counter("acl_access_denied_db", Count, "calls refused because of a database").metric("sluice_acl_access_denied_db_total");
    }
    "Replication" {
        ROLE: text("role", "`master` or `slave`");
        MASTER_HOST: text("master_host", "the primary's host");
        MASTER_PORT: text("master_port", "the primary's port");
        MASTER_LINK_STATUS: gauge("master_link_status", Count, "`up` (1) or `down` (0): the link to the primary").metric("redis_master_link_up");
        MASTER_LAST_IO_SECONDS_AGO: gauge("master_last_io_seconds_ago", Seconds, "time since the last bytes from the primary; -1: no link").metric("redis_master_last_io_seconds_ago");
        MASTER_SYNC_IN_PROGRESS: gauge("master_sync_in_progress", Count, "1 while a full sync from the primary is under way").metric("redis_master_sync_in_progress");
        SLAVE_READ_REPL_OFFSET: gauge("slave_read_repl_offset", Bytes, "position up to which this replica has received the replication stream").metric("sluice_replica_read_offset_bytes");
        SLAVE_REPL_OFFSET: gauge("slave_repl_offset", Bytes, "position up to which this replica has executed the replication stream").metric("redis_slave_repl_offset");
        REPLICAS_REPL_BUFFER_SIZE: gauge("replicas_repl_buffer_size", Bytes, "replication stream that this replica buffers until the snapshot is loaded");
        REPLICAS_REPL_BUFFER_PEAK: gauge("replicas_repl_buffer_peak", Bytes, "peak of the replication stream that this replica buffered during the last full sync").metric("sluice_replicas_repl_buffer_peak_bytes");
        MASTER_SYNC_TOTAL_BYTES: gauge("master_sync_total_bytes", Bytes, "bytes of the primary's snapshot; 0 or -1: not known").metric("sluice_master_sync_total_bytes");
        MASTER_SYNC_READ_BYTES: gauge("master_sync_read_bytes", Bytes, "bytes of the primary's snapshot received so far").metric("sluice_master_sync_read_bytes");
        MASTER_SYNC_LEFT_BYTES: gauge("master_sync_left_bytes", Bytes, "bytes of the primary's snapshot still to receive");
        MASTER_SYNC_PERC: gauge("master_sync_perc", Percent, "share of the primary's snapshot received so far");
        MASTER_SYNC_LAST_IO_SECONDS_AGO: gauge("master_sync_last_io_seconds_ago", Seconds, "time since the last bytes of the primary's snapshot");
        MASTER_LINK_DOWN_SINCE_SECONDS: gauge("master_link_down_since_seconds", Seconds, "time since the link to the primary went down; -1: there was no link yet").metric("sluice_master_link_down_since_seconds");
        SLAVE_PRIORITY: gauge("slave_priority", Count, "the directive `replica-priority`").metric("redis_slave_priority");
        SLAVE_READ_ONLY: gauge("slave_read_only", Count, "the directive `replica-read-only`");
        REPLICA_ANNOUNCED: gauge("replica_announced", Count, "the directive `replica-announced`");
        CONNECTED_SLAVES: gauge("connected_slaves", Count, "replicas that are connected").metric("redis_connected_slaves");
        MIN_SLAVES_GOOD_SLAVES: gauge("min_slaves_good_slaves", Count, "replicas that count for `min-replicas-to-write`").metric("sluice_good_replicas");
        SLAVE: record("slave*", "", "a replica: address, state, acknowledged position, lag in seconds");
        REPLICAS_WAITING_PSYNC: gauge("replicas_waiting_psync", Count, "replicas that receive a snapshot on a second connection (dual channel)").metric("sluice_replicas_waiting_psync");
        MASTER_FAILOVER_STATE: text("master_failover_state", "state of FAILOVER: `no-failover`, `waiting-for-sync` or `failover-in-progress`");
        MASTER_REPLID: text("master_replid", "replication id of the data's history");
        MASTER_REPLID2: text("master_replid2", "replication id of the history before the last promotion");
        MASTER_REPL_OFFSET: gauge("master_repl_offset", Bytes, "position of the replication stream").metric("redis_master_repl_offset");
        SECOND_REPL_OFFSET: gauge("second_repl_offset", Bytes, "position up to which `master_replid2` is valid; -1: none").metric("redis_second_repl_offset");
        REPL_BACKLOG_ACTIVE: gauge("repl_backlog_active", Count, "1 with a replication backlog").metric("redis_repl_backlog_is_active");
        REPL_BACKLOG_SIZE: gauge("repl_backlog_size", Bytes, "the directive `repl-backlog-size`").metric("redis_replication_backlog_bytes");
        REPL_BACKLOG_FIRST_BYTE_OFFSET: gauge("repl_backlog_first_byte_offset", Bytes, "position of the first byte of the replication backlog").metric("redis_repl_backlog_first_byte_offset");
        REPL_BACKLOG_HISTLEN: gauge("repl_backlog_histlen", Bytes, "bytes in the replication backlog").metric("redis_repl_backlog_history_bytes");
    }
    "CPU" {
        USED_CPU_SYS: counter("used_cpu_sys", Seconds, "processor time of the process in the kernel").metric("redis_cpu_sys_seconds_total");
        USED_CPU_USER: counter("used_cpu_user", Seconds, "processor time of the process outside the kernel").metric("redis_cpu_user_seconds_total");
        USED_CPU_SYS_CHILDREN: counter("used_cpu_sys_children", Seconds, "processor time of child processes in the kernel").metric("redis_cpu_sys_children_seconds_total");
        USED_CPU_USER_CHILDREN: counter("used_cpu_user_children", Seconds, "processor time of child processes outside the kernel").metric("redis_cpu_user_children_seconds_total");
        USED_CPU_SYS_MAIN_THREAD: counter("used_cpu_sys_main_thread", Seconds, "processor time of the main thread in the kernel").metric("redis_cpu_sys_main_thread_seconds_total");
        USED_CPU_USER_MAIN_THREAD: counter("used_cpu_user_main_thread", Seconds, "processor time of the main thread outside the kernel").metric("redis_cpu_user_main_thread_seconds_total");
        USED_ACTIVE_TIME_MAIN_THREAD: counter("used_active_time_main_thread", Seconds, "time in which the main thread had work").metric("sluice_main_thread_active_seconds_total");
        USED_ACTIVE_TIME_IO_THREAD: counter("used_active_time_io_thread_*", Seconds, "time in which an I/O thread had work").label("thread").metric("sluice_io_thread_active_seconds_total");
    }
    "Commandstats" {
        CMDSTAT: record("cmdstat_*", "cmd", "a command: calls, time, calls refused before they ran, calls that failed");
    }
    "Errorstats" {
        ERRORSTAT: record("errorstat_*", "err", "error replies by their first word");
    }
    "Latencystats" {
        LATENCY_PERCENTILES_USEC: record("latency_percentiles_usec_*", "cmd", "percentiles of a command's execution time (p50, p99, p99.9 by default), microseconds");
    }
    "Cluster" {
        CLUSTER_ENABLED: gauge("cluster_enabled", Count, "1: the server is a node of a cluster").metric("redis_cluster_enabled");
    }
    "Slot Migration" {
        SLOT_MIGRATIONS_ACTIVE: gauge("slot_migrations_active", Count, "unfinished slot migrations from this node, to this node or to its primary").metric("sluice_slot_migrations_active");
        SLOT_MIGRATION_LAST_PAUSE_US: gauge("slot_migration_last_pause_us", Microseconds, "last time for which writers of slots on their way to another node were paused").metric("sluice_slot_migration_last_pause_seconds").over(1_000_000);
        SLOT_MIGRATION_MAX_PAUSE_US: gauge("slot_migration_max_pause_us", Microseconds, "longest time for which writers of slots on their way to another node were paused").metric("sluice_slot_migration_max_pause_seconds").over(1_000_000);
        SLOT_MIGRATION_HELD_WRITES: counter("slot_migration_held_writes", Count, "writes that waited because their slot was about to move to another node").metric("sluice_slot_migration_held_writes_total");
        SLOT_MIGRATION_BRAKED_SLOTS: gauge("slot_migration_braked_slots", Count, "slots whose writers are slowed down because the target node receives less than clients write").metric("sluice_slot_migration_braked_slots");
        SLOTS_BEING_FREED: gauge("slots_being_freed", Count, "slots whose keys are being deleted in the background: slots of other nodes, and flushed slots").metric("sluice_slots_being_freed");
    }
    "Cluster Info" {
        CLUSTER_STATE: gauge("cluster_state", Count, "`ok` (1), or `fail` (0): whether the cluster serves, as this node sees it").metric("redis_cluster_state");
        CLUSTER_SLOTS_ASSIGNED: gauge("cluster_slots_assigned", Count, "slots that have an owner").metric("redis_cluster_slots_assigned");
        CLUSTER_SLOTS_OK: gauge("cluster_slots_ok", Count, "slots whose owner is neither PFAIL nor FAIL").metric("redis_cluster_slots_ok");
        CLUSTER_SLOTS_PFAIL: gauge("cluster_slots_pfail", Count, "slots whose owner this node does not reach (PFAIL)").metric("redis_cluster_slots_pfail");
        CLUSTER_SLOTS_FAIL: gauge("cluster_slots_fail", Count, "slots whose owner has failed (FAIL)").metric("redis_cluster_slots_fail");
        CLUSTER_NODES_PFAIL: gauge("cluster_nodes_pfail", Count, "nodes that this node does not reach").metric("redis_cluster_nodes_pfail");
        CLUSTER_NODES_FAIL: gauge("cluster_nodes_fail", Count, "nodes that a quorum has marked as failed").metric("redis_cluster_nodes_fail");
        CLUSTER_VOTING_NODES_PFAIL: gauge("cluster_voting_nodes_pfail", Count, "primaries with slots that this node does not reach").metric("redis_cluster_voting_nodes_pfail");
        CLUSTER_VOTING_NODES_FAIL: gauge("cluster_voting_nodes_fail", Count, "primaries with slots that have failed").metric("redis_cluster_voting_nodes_fail");
        CLUSTER_KNOWN_NODES: gauge("cluster_known_nodes", Count, "nodes, this one included").metric("redis_cluster_known_nodes");
        CLUSTER_SIZE: gauge("cluster_size", Count, "primaries with slots").metric("redis_cluster_size");
        CLUSTER_CURRENT_EPOCH: gauge("cluster_current_epoch", Count, "the highest epoch that is known").metric("redis_cluster_current_epoch");
        CLUSTER_MY_EPOCH: gauge("cluster_my_epoch", Count, "the epoch of this node, or of its primary").metric("redis_cluster_my_epoch");
        CLUSTER_MESSAGES_SENT_BY_TYPE: counter("cluster_stats_messages_*_sent", Count, "bus messages queued for sending, by type").label("type");
        CLUSTER_MESSAGES_SENT: counter("cluster_stats_messages_sent", Count, "bus messages queued for sending").metric("redis_cluster_messages_sent_total");
        CLUSTER_MESSAGES_RECEIVED_BY_TYPE: counter("cluster_stats_messages_*_received", Count, "bus messages received, by type").label("type");
        CLUSTER_MESSAGES_RECEIVED: counter("cluster_stats_messages_received", Count, "bus messages received").metric("redis_cluster_messages_received_total");
        CLUSTER_BYTES_SENT: counter("cluster_stats_bytes_sent", Bytes, "bytes sent on the bus");
        CLUSTER_BYTES_RECEIVED: counter("cluster_stats_bytes_received", Bytes, "bytes received on the bus");
        CLUSTER_PUBSUB_BYTES_SENT: counter("cluster_stats_pubsub_bytes_sent", Bytes, "bytes of published messages sent on the bus");
        CLUSTER_PUBSUB_BYTES_RECEIVED: counter("cluster_stats_pubsub_bytes_received", Bytes, "bytes of published messages received on the bus");
        CLUSTER_MODULE_BYTES_SENT: counter("cluster_stats_module_bytes_sent", Bytes, "always 0");
        CLUSTER_MODULE_BYTES_RECEIVED: counter("cluster_stats_module_bytes_received", Bytes, "bytes of messages of modules");
        CLUSTER_LINKS_BUFFER_LIMIT_EXCEEDED: counter("total_cluster_links_buffer_limit_exceeded", Count, "bus links closed because their buffers were too large");
    }
    "Scripting Engines" {
        ENGINES_COUNT: gauge("engines_count", Count, "always 1");
        ENGINES_TOTAL_USED_MEMORY: gauge("engines_total_used_memory", Bytes, "memory of the Lua machines");
        ENGINES_TOTAL_MEMORY_OVERHEAD: gauge("engines_total_memory_overhead", Bytes, "always 0");
        ENGINE: record("engine_*", "", "the Lua engine");
        SCRIPTS_SLICES: counter("scripts_slices", Count, "pauses of scripts after a slice of 2 ms, in which replicas are fed and clients accepted; commands of other clients wait").metric("sluice_scripts_slices_total");
        SCRIPTS_MAXMEMORY_OVERRUN_BYTES: gauge("scripts_maxmemory_overrun_bytes", Bytes, "largest number of bytes beyond `maxmemory` at the end of a script that had written").metric("sluice_scripts_maxmemory_overrun_bytes");
    }
    "Hotkeys" {
        HOTKEYS_LAST_WINDOW_SAMPLES: gauge("hotkeys_last_window_samples", Count, "accesses counted in the last window of HOTKEYS: a key with more than 1/`hotkeys-top-k` of the accesses is listed").metric("sluice_hotkeys_last_window_samples");
        HOTKEYS_LAST_WINDOW_DURATION_MS: gauge("hotkeys_last_window_duration_ms", Milliseconds, "duration of the last window of HOTKEYS; 0: there is none").metric("sluice_hotkeys_last_window_duration_seconds").over(1000);
    }
    "Keyspace" {
        DB: record("db*", "db", "a database that holds keys");
    }
    "Progress" {
        WORK_UNDER_WAY: gauge("work_under_way", Count, "long work under way: loads, saves, rewrites, full syncs, slot migrations, a shutdown that waits").metric("sluice_work_under_way");
        PROGRESS: record("progress_*", "", "progress of long work: `loading`, `saving`, `rewriting`, `snapshot` (for replicas), `sending0` … (to each replica), `receiving`, `exporting0` …, `importing0` … (each slot migration), `ending` (a shutdown); -1: unknown");
    }
    "Debug" {
        EVENTLOOP_PARKS: counter("eventloop_parks", Count, "waits of the event loop that blocked").metric("sluice_eventloop_parks_total");
        EVENTLOOP_SYSTEM_CALLS: counter("eventloop_system_calls", Count, "calls into the kernel by the event loop").metric("sluice_eventloop_system_calls_total");
        EVENTLOOP_EVENTS: counter("eventloop_events", Count, "events that the event loop has handled").metric("sluice_eventloop_events_total");
        EVENTLOOP_STALE_EVENTS: counter("eventloop_stale_events", Count, "events of connections closed before the event loop handled them").metric("sluice_eventloop_stale_events_total");
        EVENTLOOP_GATHERED: counter("eventloop_gathered", Count, "waits of the event loop that were prolonged to gather more requests").metric("sluice_eventloop_gathered_total");
        EVENTLOOP_STARVATIONS: counter("eventloop_starvations", Count, "receives of the event loop that found no buffer").metric("sluice_eventloop_starvations_total");
        EVENTLOOP_WAKES_COALESCED: counter("eventloop_wakes_coalesced", Count, "wake-ups of the event loop that were merged with a pending one").metric("sluice_eventloop_wakes_coalesced_total");
        EVENTLOOP_WAKES_SENT: counter("eventloop_wakes_sent", Count, "wake-ups of the event loop that were sent by a system call").metric("sluice_eventloop_wakes_sent_total");
        EVENTLOOP_WAKES_SEEN: counter("eventloop_wakes_seen", Count, "wake-ups that the event loop has received").metric("sluice_eventloop_wakes_seen_total");
        EVENTLOOP_ACCEPT_FAILURES: counter("eventloop_accept_failures", Count, "connections that could not be accepted").metric("sluice_eventloop_accept_failures_total");
        EVENTLOOP_SENDS_BLOCKED: counter("eventloop_sends_blocked", Count, "sends that the socket took only in part").metric("sluice_eventloop_sends_blocked_total");
        EVENTLOOP_ITERATION_MAX_USEC: gauge("eventloop_iteration_max_usec", Microseconds, "longest iteration of the event loop by the wall clock").metric("sluice_iteration_max_seconds").over(1_000_000);
        EVENTLOOP_ITERATION_MAX_CPU_USEC: gauge("eventloop_iteration_max_cpu_usec", Microseconds, "the main thread's processor time in the longest iteration of the event loop").metric("sluice_iteration_max_cpu_seconds").over(1_000_000);
        MEMORY_PART: text("memory_*", "parts of memory, where a build with debug assertions sums them");
        EVENTLOOP_DURATION_AOF_SUM: counter("eventloop_duration_aof_sum", Microseconds, "always 0");
        EVENTLOOP_DURATION_CRON_SUM: counter("eventloop_duration_cron_sum", Microseconds, "time in the cron").metric("sluice_cron_seconds_total").over(1_000_000);
        EVENTLOOP_DURATION_MAX: gauge("eventloop_duration_max", Microseconds, "longest iteration of the event loop by the wall clock, since CONFIG RESETSTAT");
        EVENTLOOP_CMD_PER_CYCLE_MAX: gauge("eventloop_cmd_per_cycle_max", Count, "most commands in an iteration of the event loop").metric("sluice_iteration_commands_max");
        IO_THREADED_READS_PENDING: gauge("io_threaded_reads_pending", Count, "batches of requests from I/O threads that wait for the main thread").metric("sluice_io_threads_batches_pending");
        IO_THREADED_WRITES_PENDING: gauge("io_threaded_writes_pending", Count, "always 0");
        IO_THREADS_PARKS: counter("io_threads_parks", Count, "times I/O threads slept until woken").metric("sluice_io_threads_parks_total");
        IO_THREADS_GROWN: counter("io_threads_grown", Count, "times I/O threads were added").metric("sluice_io_threads_grown_total");
        IO_THREADS_SHRUNK: counter("io_threads_shrunk", Count, "times I/O threads were taken away").metric("sluice_io_threads_shrunk_total");
        IO_THREADS_QUEUE_WAIT_USEC: counter("io_threads_queue_wait_usec", Microseconds, "time that batches of requests from I/O threads waited for the main thread").metric("sluice_io_threads_queue_wait_seconds_total").over(1_000_000);
        IO_THREADS_SERVICE_USEC: counter("io_threads_service_usec", Microseconds, "time of iterations of the event loop that executed batches of I/O threads").metric("sluice_io_threads_service_seconds_total").over(1_000_000);
        IO_THREADS_INBOX_FULL: counter("io_threads_inbox_full", Count, "messages to I/O threads that waited at their sender").metric("sluice_io_threads_inbox_full_total");
        IO_THREADS_OUTBOX_FULL: counter("io_threads_outbox_full", Count, "messages from I/O threads that waited at their sender").metric("sluice_io_threads_outbox_full_total");
        IO_THREADS_BALANCED: counter("io_threads_balanced", Count, "connections moved from a busy I/O thread to others").metric("sluice_io_threads_balanced_total");
        IO_THREADS_KEPT: gauge("io_threads_kept", Count, "connections that the main thread serves itself while I/O threads are active").metric("sluice_io_threads_kept");
        IO_THREADS_SPINNING: gauge("io_threads_spinning", Count, "1 while the I/O threads and the main thread spin for 50 microseconds before they sleep").metric("sluice_io_threads_spinning");
    }
}

//! The sections of INFO, each a function that writes its fields.

use super::numbers::MemoryReport;
use super::view::View;
use crate::Control;
use crate::observe::progress::under_way::WorkSources;
use crate::persistence::loading::LoadUnderWay;
use crate::replication::role::ReplicaRole;
use sluice_base::Now;
use sluice_base::version;
use sluice_config::param;
use sluice_numbers::facts::{EventLoopCounts, SyncFacts};
use sluice_numbers::info::families::family;
use sluice_numbers::info::fields::{FieldId, field};
use sluice_numbers::info::sink::Sink;
use sluice_numbers::info::value::{FieldValue, ValuePart};
use sluice_numbers::info::value::{difference, ratio};
use sluice_numbers::info::work;
use sluice_replication::Backlog;
use sluice_replication::LinkState;
use sluice_scripts::state::ScriptFacts;
use sluice_session::SyncStage;
use sluice_subscriptions::registry::TopicKind;

pub(super) fn server(view: &View<'_>, out: &mut dyn Sink) {
    let (facts, control) = (view.facts, view.control);
    let uptime = view.now.mono_ns.saturating_sub(control.started.mono_ns) / 1_000_000_000;
    let hz = control.config.int(param::HZ);
    out.add(field::REDIS_VERSION, version::REDIS_COMPATIBLE);
    out.add(field::SERVER_NAME, "valkey");
    out.add(field::VALKEY_VERSION, version::COMPATIBLE);
    out.add(field::VALKEY_RELEASE_STAGE, "ga");
    out.add(field::REDIS_GIT_SHA1, "00000000");
    out.add(field::REDIS_GIT_DIRTY, "0");
    out.add(field::REDIS_BUILD_ID, "0");
    let mode = if control.limits.redis_names { field::REDIS_MODE } else { field::SERVER_MODE };
    out.add(mode, control.limits.mode_name());
    out.add(field::OS, &facts.os);
    out.add(field::ARCH_BITS, facts.arch_bits);
    out.add(field::MONOTONIC_CLOCK, &facts.monotonic_clock);
    out.add(field::MULTIPLEXING_API, &facts.event_loop);
    out.add(field::GCC_VERSION, "0.0.0");
    out.add(field::PROCESS_ID, facts.pid);
    out.add(field::PROCESS_SUPERVISED, facts.supervised.unwrap_or("no"));
    out.add(field::RUN_ID, &control.run_id);
    out.add(field::TCP_PORT, served_port(control));
    out.add(field::SERVER_TIME_USEC, view.now.unix_us);
    out.add(field::UPTIME_IN_SECONDS, uptime);
    out.add(field::UPTIME_IN_DAYS, uptime / 86_400);
    for name in [field::HZ, field::CONFIGURED_HZ, field::CLIENTS_HZ] {
        out.add(name, hz);
    }
    out.add(field::LRU_CLOCK, view.now.unix_s() as u32 & sluice_keyspace::CLOCK_MASK);
    out.add(field::EXECUTABLE, &facts.executable);
    out.add(field::CONFIG_FILE, &facts.config_file);
    out.add(field::IO_THREADS_ACTIVE, u8::from(facts.io_threads.active > 0));
    out.add(field::AVAILABILITY_ZONE, &*control.config.str(param::AVAILABILITY_ZONE));
    if let Some(pending) = control.persistence.pending_end.as_ref() {
        let left_ms = pending.deadline_ms.saturating_sub(view.now.mono_ns / 1_000_000);
        out.add(field::SHUTDOWN_IN_MILLISECONDS, left_ms);
    }
    for (number, listener) in &facts.listeners {
        out.add_at(field::LISTENER, number, listener);
    }
    out.add(field::SLUICE_VERSION, facts.own_version);
    out.add(field::EVENT_LOOP, &facts.event_loop);
    out.add(field::EVENT_LOOP_REASON, &facts.event_loop_reason);
    out.add(field::IO_THREADS_WORKERS, facts.io_threads.active);
    out.add(field::IO_THREADS_REASON, facts.io_threads.reason);
}

/// The port for clients: the plain port, or the TLS port if there is no plain one.
pub(super) fn served_port(control: &Control) -> i64 {
    match control.config.int(param::PORT) {
        0 => control.config.int(param::TLS_PORT),
        port => port,
    }
}

pub(super) fn tls(view: &View<'_>, out: &mut dyn Sink) {
    let certificates = &view.facts.certificates;
    let rows = [
        (field::TLS_SERVER_CERT_SERIAL, field::TLS_SERVER_CERT_EXPIRES, &certificates.server),
        (field::TLS_SERVER_ALT_CERT_SERIAL, field::TLS_SERVER_ALT_CERT_EXPIRES, &certificates.server_alt),
        (field::TLS_CLIENT_CERT_SERIAL, field::TLS_CLIENT_CERT_EXPIRES, &certificates.client),
        (field::TLS_CA_CERT_SERIAL, field::TLS_CA_CERT_EXPIRES, &certificates.authority),
    ];
    for (serial_field, left_field, fact) in rows {
        let (serial, left_s) = match fact {
            Some(fact) => (fact.serial.as_str(), fact.expires_at_s - view.now.unix_s()),
            None => ("none", 0),
        };
        out.add(serial_field, serial);
        out.add(left_field, left_s);
    }
}

pub(super) fn clients(view: &View<'_>, out: &mut dyn Sink) {
    let control = view.control;
    out.add(field::CONNECTED_CLIENTS, view.sessions.len().saturating_sub(view.replicas().len()));
    out.add(field::CONNECTED_PRIORITY_CLIENTS, view.sessions.counts().priority);
    let of_bus = control.cluster.as_ref().map_or(0, |mode| mode.machine.connections_wanted());
    out.add(field::CLUSTER_CONNECTIONS, of_bus);
    out.add(field::MAXCLIENTS, control.limits.maxclients);
    out.add(field::CLIENT_RECENT_MAX_INPUT_BUFFER, view.facts.recent_max_input);
    out.add(field::CLIENT_RECENT_MAX_OUTPUT_BUFFER, view.stats.output_peaks.max());
    out.add(field::BLOCKED_CLIENTS, control.clients.blocking.count());
    out.add(field::TRACKING_CLIENTS, control.clients.tracking.clients());
    out.add(field::PUBSUB_CLIENTS, control.clients.pubsub.clients());
    out.add(field::WATCHING_CLIENTS, control.clients.watching.clients());
    out.add(field::CLIENTS_IN_TIMEOUT_TABLE, control.clients.blocking.with_deadline());
    out.add(field::TOTAL_WATCHED_KEYS, control.clients.watching.keys());
    out.add(field::TOTAL_BLOCKING_KEYS, control.clients.blocking.keys());
    out.add(field::TOTAL_BLOCKING_KEYS_ON_NOKEY, control.clients.blocking.keys_until_gone());
    let pause = *control.clients.pause;
    let now_ms = view.now.unix_ms();
    let cluster_ms = control.cluster.as_ref().and_then(|mode| mode.paused_until_ms);
    let left_ms = |until: u64| until.saturating_sub(view.now.mono_ns / 1_000_000) as i64;
    let cluster_left = cluster_ms.map(left_ms);
    let moves_ms = control.cluster.as_ref().and_then(|mode| mode.machine.moves_hold_until_ms());
    let (reason, actions, left) = match (pause.active(view.now), pause.all) {
        _ if control.replication.failover.is_some() => ("failover_in_progress", "write", i64::MAX - now_ms),
        (is_clients, all) if cluster_left.is_some() => {
            // If two pauses are in force, the longer duration and the wider scope are shown.
            let left = if is_clients { pause.until_ms - now_ms } else { 0 };
            let actions = if is_clients && all { "all" } else { "write" };
            ("failover_in_progress", actions, left.max(cluster_left.unwrap_or(0)))
        }
        (false, _) => match moves_ms {
            Some(until) => ("slot_migration_in_progress", "write", left_ms(until)),
            None => ("none", "none", 0),
        },
        (true, all) => ("client_pause", if all { "all" } else { "write" }, pause.until_ms - now_ms),
    };
    out.add(field::PAUSED_REASON, reason);
    out.add(field::PAUSED_ACTIONS, actions);
    out.add(field::PAUSED_TIMEOUT_MILLISECONDS, left);
}

fn script_memory(scripts: &ScriptFacts, out: &mut dyn Sink) {
    let eval = scripts.eval_machine_bytes as u64;
    out.add(field::USED_MEMORY_LUA, eval);
    out.add(field::USED_MEMORY_VM_EVAL, eval);
    out.add(field::USED_MEMORY_LUA_HUMAN, &sluice_numbers::info::lines::human(eval));
    out.add(field::USED_MEMORY_SCRIPTS_EVAL, scripts.eval_bytes);
    out.add(field::NUMBER_OF_CACHED_SCRIPTS, scripts.cached);
    out.add(field::NUMBER_OF_FUNCTIONS, scripts.functions);
    out.add(field::NUMBER_OF_LIBRARIES, scripts.libraries);
    out.add(field::USED_MEMORY_VM_FUNCTIONS, scripts.function_machine_bytes);
    out.add(field::USED_MEMORY_VM_TOTAL, scripts.machine_bytes());
    out.add(field::USED_MEMORY_FUNCTIONS, scripts.function_bytes);
    out.add(field::USED_MEMORY_SCRIPTS, (scripts.eval_bytes + scripts.function_bytes) as u64);
}

pub(super) fn memory(view: &View<'_>, out: &mut dyn Sink) {
    let report = MemoryReport::new(view);
    let facts = view.facts;
    out.add(field::USED_MEMORY, report.used);
    out.add(field::USED_MEMORY_RSS, facts.resident as u64);
    out.add(field::USED_MEMORY_PEAK, report.peak);
    out.add(field::USED_MEMORY_PEAK_PERC, FieldValue::Percent(report.peak_percent()));
    out.add(field::USED_MEMORY_OVERHEAD, report.overhead);
    out.add(field::USED_MEMORY_STARTUP, report.startup);
    out.add(field::USED_MEMORY_DATASET, report.dataset);
    out.add(field::USED_MEMORY_DATASET_PERC, FieldValue::Percent(report.dataset_percent()));
    out.add(field::ALLOCATOR_ALLOCATED, facts.allocator_allocated);
    out.add(field::ALLOCATOR_ACTIVE, facts.allocator_active);
    out.add(field::ALLOCATOR_RESIDENT, facts.allocator_resident);
    out.add(field::ALLOCATOR_MUZZY, facts.allocator_muzzy);
    out.add(field::TOTAL_SYSTEM_MEMORY, facts.total_system_memory as u64);
    script_memory(&view.scripts, out);
    let config = &view.control.config;
    out.add(field::MAXMEMORY, view.control.limits.maxmemory as u64);
    out.add(field::MAXMEMORY_POLICY, &*String::from_utf8_lossy(&config.shown(param::MAXMEMORY_POLICY)));
    memory_ratios(view, &report, out);
    let aof_bytes = if view.control.persistence.aof.is_on() { facts.aof.buffer_bytes } else { 0 };
    out.add(field::MEM_NOT_COUNTED_FOR_EVICT, report.replica_buffers + report.replica_queues + aof_bytes);
    out.add(field::MEM_REPLICATION_BACKLOG, report.backlog);
    out.add(field::MEM_TOTAL_REPLICATION_BUFFERS, report.backlog + report.replica_buffers);
    out.add(field::MEM_REPLICAS_REPL_BUFFER, facts.stream_buffer.bytes);
    out.add(field::MEM_CLIENTS_SLAVES, report.replicas + report.replica_buffers);
    out.add(field::MEM_CLIENTS_NORMAL, report.clients);
    out.add(field::MEM_CLUSTER_LINKS, report.links);
    out.add(field::MEM_CLUSTER_SLOT_IMPORT, report.slot_imports);
    out.add(field::MEM_CLUSTER_SLOT_EXPORT, report.slot_exports);
    out.zeros(&[field::MEM_AOF_BUFFER]);
    out.add(field::MEM_ALLOCATOR, &facts.allocator);
    out.add(field::MEM_OVERHEAD_DB_HASHTABLE_REHASHING, 0);
    out.add(field::ACTIVE_DEFRAG_RUNNING, view.stats.compaction.running_percent);
    out.add(field::LAZYFREE_PENDING_OBJECTS, facts.lazyfree_pending);
    out.add(field::LAZYFREED_OBJECTS, facts.lazyfreed.saturating_sub(view.stats.base.lazyfreed));
}

fn memory_ratios(view: &View<'_>, report: &MemoryReport, out: &mut dyn Sink) {
    let facts = view.facts;
    let allocated = facts.allocator_allocated as u64;
    let active = facts.allocator_active as u64;
    let resident = facts.allocator_resident as u64;
    let rss = facts.resident as u64;
    let mut pair = |quotient: FieldId, bytes: FieldId, a: u64, b: u64| {
        out.add(quotient, FieldValue::Decimal(ratio(a, b), 2));
        out.add(bytes, difference(a, b));
    };
    pair(field::ALLOCATOR_FRAG_RATIO, field::ALLOCATOR_FRAG_BYTES, active, allocated);
    pair(field::ALLOCATOR_RSS_RATIO, field::ALLOCATOR_RSS_BYTES, resident, active);
    pair(field::RSS_OVERHEAD_RATIO, field::RSS_OVERHEAD_BYTES, rss, resident);
    pair(field::MEM_FRAGMENTATION_RATIO, field::MEM_FRAGMENTATION_BYTES, rss, report.used);
}

pub(super) fn persistence(view: &View<'_>, out: &mut dyn Sink) {
    let load = view.control.persistence.load.as_deref();
    let is_async = load.is_some_and(LoadUnderWay::is_async);
    out.add(field::LOADING, u8::from(load.is_some() && !is_async));
    out.add(field::ASYNC_LOADING, u8::from(is_async));
    let saving = &view.control.persistence.saving;
    let job = view.job.unwrap_or_default();
    let (changed, copied) = job.changed;
    let percent = job.captured as f64 * 100.0 / job.total.max(1) as f64;
    out.add(field::CURRENT_COW_PEAK, copied);
    out.add(field::CURRENT_COW_SIZE, copied);
    out.add(field::CURRENT_COW_SIZE_AGE, 0);
    out.add(field::CURRENT_FORK_PERC, FieldValue::Decimal(percent, 2));
    out.add(field::CURRENT_SAVE_KEYS_PROCESSED, job.captured);
    out.add(field::CURRENT_SAVE_KEYS_TOTAL, job.total);
    // The next fields have no counterpart in the reference.
    out.add(field::CURRENT_SAVE_KEYS_CHANGED, changed);
    out.add(
        field::CURRENT_SAVE_HELD_BYTES,
        job.held_bytes + job.detached_bytes + view.control.replication.full_syncs.held_bytes(),
    );
    out.add(field::RDB_CHANGES_SINCE_LAST_SAVE, view.control.persistence.dirty);
    out.add(field::RDB_BGSAVE_IN_PROGRESS, u8::from(view.control.rdb_began_s().is_some()));
    out.add(field::RDB_LAST_SAVE_TIME, view.control.persistence.last_save_s);
    out.add(field::RDB_LAST_BGSAVE_STATUS, FieldValue::status(!saving.failed));
    out.add(field::RDB_LAST_BGSAVE_TIME_SEC, saving.last_s.unwrap_or(-1));
    let current_s = view.control.rdb_began_s().map_or(-1, |began_s| view.now.unix_s() - began_s);
    out.add(field::RDB_CURRENT_BGSAVE_TIME_SEC, current_s);
    out.add(field::RDB_SAVES, view.control.persistence.saves);
    out.add(field::RDB_LAST_COW_SIZE, saving.last_copied_bytes);
    let last = &view.control.persistence.last_load;
    let (loaded, expired) = load.map_or((last.loaded, last.expired), LoadUnderWay::keys);
    out.add(field::RDB_LAST_LOAD_KEYS_EXPIRED, expired);
    out.add(field::RDB_LAST_LOAD_KEYS_LOADED, loaded);
    let (aof, rewriting) = (&view.control.persistence.aof, &view.control.persistence.rewriting);
    // The append-only file counts as enabled during a load, and when it was just turned on and its first
    // rewrite waits for a background job to end.
    let will_be_on = rewriting.scheduled || load.is_some();
    let is_enabled = aof.is_on() || will_be_on && view.control.config.bool(param::APPENDONLY);
    out.add(field::AOF_ENABLED, u8::from(is_enabled));
    out.add(field::AOF_REWRITE_IN_PROGRESS, u8::from(rewriting.began_s.is_some()));
    out.add(field::AOF_REWRITE_SCHEDULED, u8::from(rewriting.scheduled));
    out.add(field::AOF_LAST_REWRITE_TIME_SEC, rewriting.last_s.unwrap_or(-1));
    let current_s = rewriting.began_s.map_or(-1, |began_s| view.now.unix_s() - began_s);
    out.add(field::AOF_CURRENT_REWRITE_TIME_SEC, current_s);
    out.add(field::AOF_LAST_BGREWRITE_STATUS, FieldValue::status(!rewriting.failed));
    out.add(field::AOF_REWRITES, rewriting.count);
    out.add(field::AOF_REWRITES_CONSECUTIVE_FAILURES, rewriting.failures);
    out.add(field::AOF_LAST_WRITE_STATUS, FieldValue::status(aof.report().fault.is_none()));
    out.add(field::AOF_LAST_COW_SIZE, rewriting.last_copied_bytes);
    out.zeros(&[
        field::MODULE_FORK_IN_PROGRESS,
        field::MODULE_FORK_LAST_COW_SIZE,
        field::SLOT_MIGRATION_FORK_IN_PROGRESS,
    ]);
    if aof.is_on() {
        let facts = view.facts.aof;
        out.add(field::AOF_CURRENT_SIZE, facts.current_bytes);
        out.add(field::AOF_BASE_SIZE, facts.base_bytes);
        out.add(field::AOF_PENDING_REWRITE, u8::from(rewriting.scheduled));
        out.add(field::AOF_BUFFER_LENGTH, facts.buffer_bytes);
        out.add(field::AOF_PENDING_BIO_FSYNC, u8::from(facts.is_syncing));
        out.add(field::AOF_DELAYED_FSYNC, facts.delayed_syncs);
    }
    if let Some(load) = load {
        loading(load, view.now, out);
    }
}

fn loading(load: &LoadUnderWay, now: Now, out: &mut dyn Sink) {
    let figures = load.figures(now);
    out.add(field::LOADING_START_TIME, figures.start_s);
    out.add(field::LOADING_TOTAL_BYTES, figures.total_bytes);
    out.add(field::LOADING_RDB_USED_MEM, figures.rdb_used_memory);
    out.add(field::LOADING_LOADED_BYTES, figures.loaded_bytes);
    out.add(field::LOADING_LOADED_PERC, FieldValue::Decimal(figures.percent, 2));
    out.add(field::LOADING_ETA_SECONDS, figures.eta_s);
}

pub(super) fn stats(view: &View<'_>, out: &mut dyn Sink) {
    let stats = view.stats;
    traffic(view, out);
    out.add(field::REJECTED_CONNECTIONS, stats.connections.rejected);
    out.add(field::REJECTED_PRIORITY_CONNECTIONS, stats.connections.rejected_priority);
    out.add(field::SYNC_FULL, stats.syncs.full);
    out.add(field::SYNC_PARTIAL_OK, stats.syncs.partial_ok);
    out.add(field::SYNC_PARTIAL_ERR, stats.syncs.partial_err);
    out.add(field::EXPIRED_KEYS, stats.expiry.keys);
    out.add(field::EXPIRED_FIELDS, view.stats.expiry.fields);
    out.add(field::EXPIRED_STALE_PERC, FieldValue::Decimal(stats.expiry.stale_percent, 2));
    out.add(field::EXPIRED_KEYS_WITH_VOLATILE_ITEMS_STALE_PERC, "0.00");
    out.add(field::EXPIRED_TIME_CAP_REACHED_COUNT, stats.expiry.capped);
    out.add(field::EXPIRE_CYCLE_CPU_MILLISECONDS, stats.expiry.ns / 1_000_000);
    out.add(field::EVICTED_KEYS, stats.eviction.keys);
    out.add(field::EVICTED_CLIENTS, stats.eviction.clients);
    out.add(field::EVICTED_SCRIPTS, view.stats.eviction.scripts);
    let (total_ms, current_ms) = stats.eviction.memory_exceeded.ms(view.now);
    out.add(field::TOTAL_EVICTION_EXCEEDED_TIME, total_ms);
    out.add(field::CURRENT_EVICTION_EXCEEDED_TIME, current_ms);
    out.add(field::KEYSPACE_HITS, stats.lookups.hits);
    out.add(field::KEYSPACE_MISSES, stats.lookups.misses);
    let pubsub = &view.control.clients.pubsub;
    out.add(field::PUBSUB_CHANNELS, pubsub.count(TopicKind::Channel));
    out.add(field::PUBSUB_PATTERNS, pubsub.count(TopicKind::Pattern));
    out.add(field::PUBSUBSHARD_CHANNELS, pubsub.count(TopicKind::Shard));
    out.zeros(&[field::LATEST_FORK_USEC, field::TOTAL_FORKS]);
    out.add(field::MIGRATE_CACHED_SOCKETS, view.facts.migrate_cached_sockets);
    out.add(field::SLAVE_EXPIRES_TRACKED_KEYS, view.control.replication.local_expiries.count());
    compaction(view, out);
    let tracking = &view.control.clients.tracking;
    out.add(field::TRACKING_TOTAL_KEYS, tracking.keys());
    out.add(field::TRACKING_TOTAL_ITEMS, tracking.items());
    out.add(field::TRACKING_TOTAL_PREFIXES, tracking.prefixes());
    out.add(field::UNEXPECTED_ERROR_REPLIES, stats.failures.unexpected);
    out.add(field::TOTAL_ERROR_REPLIES, stats.failures.replied);
    out.add(field::DUMP_PAYLOAD_SANITIZATIONS, 0);
    events(view, out);
    let refused = stats.failures.refused;
    out.add(field::ACL_ACCESS_DENIED_AUTH, refused.auth);
    out.add(field::ACL_ACCESS_DENIED_CMD, refused.command);
    out.add(field::ACL_ACCESS_DENIED_KEY, refused.key);
    out.add(field::ACL_ACCESS_DENIED_CHANNEL, refused.channel);
    out.add(field::ACL_ACCESS_DENIED_TLS_CERT, refused.tls_cert);
    out.add(field::ACL_ACCESS_DENIED_DB, refused.database);
}

/// Writes the counters of compaction. The numbers of moved blocks and of moved keys are equal, because an
/// entry is one block.
fn compaction(view: &View<'_>, out: &mut dyn Sink) {
    let compaction = &view.stats.compaction;
    let current_ms = compaction.current_ms(view.now.unix_ms());
    out.add(field::ACTIVE_DEFRAG_HITS, compaction.moved);
    out.add(field::ACTIVE_DEFRAG_MISSES, compaction.abandoned);
    out.add(field::ACTIVE_DEFRAG_KEY_HITS, compaction.moved);
    out.add(field::ACTIVE_DEFRAG_KEY_MISSES, compaction.abandoned);
    out.add(field::TOTAL_ACTIVE_DEFRAG_TIME, compaction.total_ms + current_ms);
    out.add(field::CURRENT_ACTIVE_DEFRAG_TIME, current_ms);
}

fn traffic(view: &View<'_>, out: &mut dyn Sink) {
    let (stats, facts) = (view.stats, view.facts);
    let kib = |rate: u64| FieldValue::Decimal(rate as f64 / 1024.0, 2);
    out.add(field::TOTAL_CONNECTIONS_RECEIVED, stats.connections.accepted);
    out.add(field::TOTAL_COMMANDS_PROCESSED, stats.total_commands);
    out.add(field::INSTANTANEOUS_OPS_PER_SEC, stats.rates.ops.mean());
    out.add(field::TOTAL_NET_INPUT_BYTES, facts.net_input_bytes.saturating_sub(stats.base.net_input_bytes));
    out.add(
        field::TOTAL_NET_OUTPUT_BYTES,
        facts.net_output_bytes.saturating_sub(stats.base.net_output_bytes),
    );
    let repl_input = facts.net_repl_input_bytes.saturating_sub(stats.base.net_repl_input_bytes);
    out.add(field::TOTAL_NET_REPL_INPUT_BYTES, repl_input);
    out.add(field::TOTAL_NET_REPL_OUTPUT_BYTES, stats.syncs.output_bytes);
    let carried = view.control.cluster.as_ref().map(|mode| mode.moves.carried).unwrap_or_default();
    out.add(field::TOTAL_NET_CLUSTER_SLOT_IMPORT_BYTES, carried.imported);
    out.add(field::TOTAL_NET_CLUSTER_SLOT_EXPORT_BYTES, carried.exported);
    out.add(field::INSTANTANEOUS_INPUT_KBPS, kib(stats.rates.input.mean()));
    out.add(field::INSTANTANEOUS_OUTPUT_KBPS, kib(stats.rates.output.mean()));
    out.add(field::INSTANTANEOUS_INPUT_REPL_KBPS, kib(stats.rates.repl_input.mean()));
    out.add(field::INSTANTANEOUS_OUTPUT_REPL_KBPS, "0.00");
}

/// Counters of the event loop.
fn events(view: &View<'_>, out: &mut dyn Sink) {
    let (stats, facts, base) = (view.stats, view.facts, &view.stats.base);
    out.add(field::TOTAL_READS_PROCESSED, facts.reads_processed.saturating_sub(base.reads_processed));
    out.add(field::TOTAL_WRITES_PROCESSED, facts.writes_processed.saturating_sub(base.writes_processed));
    let (threads, before) = (&facts.io_threads, &base.io_threads);
    out.add(field::IO_THREADED_READS_PROCESSED, threads.reads.saturating_sub(before.reads));
    out.add(field::IO_THREADED_WRITES_PROCESSED, threads.writes.saturating_sub(before.writes));
    out.add(field::IO_THREADED_FREED_OBJECTS, threads.freed.saturating_sub(before.freed));
    out.add(
        field::IO_THREADED_ACCEPT_PROCESSED,
        threads.placed.accepts.saturating_sub(before.placed.accepts),
    );
    out.add(field::IO_THREADED_POLL_PROCESSED, threads.polls.saturating_sub(before.polls));
    out.add(field::IO_THREADED_TOTAL_PREFETCH_BATCHES, stats.prefetch.batches);
    out.add(field::IO_THREADED_TOTAL_PREFETCH_ENTRIES, stats.prefetch.entries);
    out.add(field::CLIENT_QUERY_BUFFER_LIMIT_DISCONNECTIONS, stats.disconnections.query_buffer);
    out.add(field::CLIENT_OUTPUT_BUFFER_LIMIT_DISCONNECTIONS, stats.disconnections.output_buffer);
    out.zeros(&[field::REPLY_BUFFER_SHRINKS, field::REPLY_BUFFER_EXPANDS]);
    slow_reads(view, out);
    out.add(field::EVENTLOOP_CYCLES, facts.eventloop_cycles.saturating_sub(base.eventloop_cycles));
    out.add(
        field::EVENTLOOP_DURATION_SUM,
        facts.eventloop_duration_sum.saturating_sub(base.eventloop_duration_sum),
    );
    let commands = facts.eventloop_duration_cmd_sum.saturating_sub(base.eventloop_duration_cmd_sum);
    out.add(field::EVENTLOOP_DURATION_CMD_SUM, commands);
    out.add(field::INSTANTANEOUS_EVENTLOOP_CYCLES_PER_SEC, stats.rates.cycles.mean());
    out.add(field::INSTANTANEOUS_EVENTLOOP_DURATION_USEC, stats.rates.cycle_us.mean());
}

/// Writes the counters of slow reads: replies produced on threads of their own, which the reference does not
/// have.
fn slow_reads(view: &View<'_>, out: &mut dyn Sink) {
    let reads = &view.control.clients.slow_reads;
    out.add(field::SLOW_READS_RUNNING, reads.running);
    out.add(field::SLOW_READS_WAITING, view.control.clients.blocking.slow_reads());
    out.add(field::SLOW_READS_TOTAL, reads.total);
    out.add(field::SLOW_READS_IN_PLACE, reads.in_place);
    out.add(field::SLOW_READS_RETAINED_BYTES, reads.retained_bytes);
}

pub(super) fn replication(view: &View<'_>, out: &mut dyn Sink) {
    let stream = &view.control.replication.stream;
    match view.control.replication.replica.as_deref() {
        Some(role) => replica(view, role, out),
        None => out.add(field::ROLE, "master"),
    }
    let replicas = view.replicas();
    out.add(field::CONNECTED_SLAVES, replicas.len());
    let config = &view.control.config;
    if config.int(param::MIN_REPLICAS_TO_WRITE) > 0 && config.int(param::MIN_REPLICAS_MAX_LAG) > 0 {
        out.add(field::MIN_SLAVES_GOOD_SLAVES, *view.control.replication.good_replicas);
    }
    for (i, session) in replicas.into_iter().enumerate() {
        let Some(replica) = session.caller.replica_state() else { continue };
        let is_rdb_channel =
            session.caller.origin.announced.as_deref().is_some_and(|announced| announced.rdb_channel);
        let state = match replica.stage {
            SyncStage::Wanted => "wait_bgsave",
            // A snapshot that ends with a mark is sent while it is being made, so the replica still counts
            // as waiting for it.
            SyncStage::Sending if session.feed.as_ref().is_some_and(|feed| feed.trailer.is_some()) => {
                "wait_bgsave"
            }
            SyncStage::Online if replica.is_main_channel => "bg_transfer",
            // An RDB channel ends once its snapshot is sent, so it is never `online`.
            SyncStage::Online if replica.is_online() && !is_rdb_channel => "online",
            SyncStage::Sending | SyncStage::Online => "send_bulk",
        };
        let kind = match () {
            () if is_rdb_channel => "rdb-channel",
            () if replica.is_main_channel => "main-channel",
            () => "replica",
        };
        let (ip, port) = session.caller.replica_address();
        let lag = if replica.acked_s == 0 { -1 } else { view.now.unix_s() - replica.acked_s };
        let offset = replica.acked.max(0);
        let known_lag = (lag >= 0).then_some(family::CONNECTED_SLAVE_LAG);
        let parts = [
            ValuePart::label("ip", "slave_ip", ip),
            ValuePart::label("port", "slave_port", port),
            ValuePart::label("state", "slave_state", state),
            ValuePart::number("offset", family::CONNECTED_SLAVE_OFFSET, offset),
            ValuePart { family: known_lag, ..ValuePart::shown("lag", lag) },
            ValuePart::shown("type", kind),
        ];
        out.add_at(field::SLAVE, i, FieldValue::Parts(&parts));
    }
    out.add(field::REPLICAS_WAITING_PSYNC, stream.reserved.len());
    let failover = view.control.replication.failover.as_deref();
    out.add(field::MASTER_FAILOVER_STATE, failover.map_or("no-failover", |failover| failover.stage_name()));
    out.add(field::MASTER_REPLID, &stream.replid);
    let earlier = stream.earlier.as_ref();
    out.add(
        field::MASTER_REPLID2,
        earlier.map_or("0000000000000000000000000000000000000000", |(replid, _)| replid),
    );
    out.add(field::MASTER_REPL_OFFSET, stream.offset);
    out.add(
        field::SECOND_REPL_OFFSET,
        earlier.map_or(-1, |(_, offset)| i64::try_from(*offset).unwrap_or(i64::MAX)),
    );
    let backlog = stream.backlog();
    out.add(field::REPL_BACKLOG_ACTIVE, u8::from(backlog.is_some()));
    out.add(field::REPL_BACKLOG_SIZE, view.control.config.int(param::REPL_BACKLOG_SIZE));
    out.add(field::REPL_BACKLOG_FIRST_BYTE_OFFSET, backlog.map_or(0, |backlog| backlog.start() + 1));
    out.add(field::REPL_BACKLOG_HISTLEN, backlog.map_or(0, Backlog::kept_bytes));
}

/// The fields that a replica shows about its primary.
fn replica(view: &View<'_>, role: &ReplicaRole, out: &mut dyn Sink) {
    let (control, now_s) = (view.control, view.now.unix_s());
    let is_transfer = role.link.state() == LinkState::Transfer;
    out.add(field::ROLE, "slave");
    let primary = role.primary();
    out.add(field::MASTER_HOST, &primary.host);
    out.add(field::MASTER_PORT, primary.port);
    let port = primary.port.to_string();
    out.set_labels(&[("master_host", &primary.host), ("master_port", &port)]);
    let status = if role.is_up() { FieldValue::Word("up", 1) } else { FieldValue::Word("down", 0) };
    out.add(field::MASTER_LINK_STATUS, status);
    let session = role.session.and_then(|key| view.sessions.get(key));
    let silent_s = session.map_or(-1, |session| (now_s - session.caller.traffic.last_s).max(0));
    out.add(field::MASTER_LAST_IO_SECONDS_AGO, silent_s);
    out.add(field::MASTER_SYNC_IN_PROGRESS, u8::from(is_transfer));
    // The offset is shown as 1, the reference's number for an unknown offset, while a snapshot is about to
    // replace the data, so that a server with such data does not look fit for promotion.
    let stays = !role.link.is_committed() && (role.is_up() || role.can_resume);
    let offset = if stays { control.replication.stream.offset } else { 1 };
    out.add(
        field::SLAVE_READ_REPL_OFFSET,
        offset + session.map_or(0, |session| role.unapplied_bytes(session)),
    );
    out.add(field::SLAVE_REPL_OFFSET, offset);
    out.set_labels(&[]);
    out.add(field::REPLICAS_REPL_BUFFER_SIZE, view.facts.stream_buffer.bytes);
    out.add(field::REPLICAS_REPL_BUFFER_PEAK, view.facts.stream_buffer.peak);
    if is_transfer {
        sync(view.facts.sync, out);
    }
    if !role.is_up() {
        let since_s = match (role.down_since_s, role.earlier_s()) {
            (0, 0) => -1,
            // The present link has never been up, so the last contact with the previous primary counts.
            (0, earlier_s) => now_s - earlier_s,
            (down_s, _) => now_s - down_s,
        };
        out.add(field::MASTER_LINK_DOWN_SINCE_SECONDS, since_s);
    }
    out.add(field::SLAVE_PRIORITY, control.config.int(param::REPLICA_PRIORITY));
    out.add(field::SLAVE_READ_ONLY, u8::from(control.config.bool(param::REPLICA_READ_ONLY)));
    out.add(field::REPLICA_ANNOUNCED, u8::from(control.config.bool(param::REPLICA_ANNOUNCED)));
}

/// The progress of receiving the primary's snapshot.
fn sync(facts: Option<SyncFacts>, out: &mut dyn Sink) {
    let SyncFacts { total_bytes, read_bytes, last_io_s } =
        facts.unwrap_or(SyncFacts { total_bytes: -1, read_bytes: 0, last_io_s: 0 });
    let known = u64::try_from(total_bytes).ok().filter(|total| *total > 0);
    let percent = known.map_or(0.0, |total| read_bytes as f64 * 100.0 / total as f64);
    out.add(field::MASTER_SYNC_TOTAL_BYTES, total_bytes);
    out.add(field::MASTER_SYNC_READ_BYTES, read_bytes);
    out.add(field::MASTER_SYNC_LEFT_BYTES, known.map_or(0, |total| total.saturating_sub(read_bytes)));
    out.add(field::MASTER_SYNC_PERC, FieldValue::Decimal(percent, 2));
    out.add(field::MASTER_SYNC_LAST_IO_SECONDS_AGO, last_io_s);
}

pub(super) fn cpu(view: &View<'_>, out: &mut dyn Sink) {
    let cpu = view.facts.cpu;
    for (name, us) in [
        (field::USED_CPU_SYS, cpu.sys),
        (field::USED_CPU_USER, cpu.user),
        (field::USED_CPU_SYS_CHILDREN, cpu.sys_children),
        (field::USED_CPU_USER_CHILDREN, cpu.user_children),
        (field::USED_CPU_SYS_MAIN_THREAD, cpu.sys_main),
        (field::USED_CPU_USER_MAIN_THREAD, cpu.user_main),
        (field::USED_ACTIVE_TIME_MAIN_THREAD, cpu.active_main),
    ] {
        out.add(name, FieldValue::Micros(us));
    }
    for (i, us) in view.facts.io_threads.active_us.iter().enumerate() {
        out.add_at(field::USED_ACTIVE_TIME_IO_THREAD, i + 1, FieldValue::Micros(*us));
    }
}

pub(super) fn modules(_: &View<'_>, _: &mut dyn Sink) {}

pub(super) fn commandstats(view: &View<'_>, out: &mut dyn Sink) {
    for (spec, stats) in sluice_command::table::ALL.iter().zip(&view.stats.commands) {
        if stats.calls == 0 && stats.rejected == 0 && stats.failed == 0 {
            continue;
        }
        let usec = stats.spent_ns / 1000;
        let each = if stats.calls == 0 { 0.0 } else { stats.spent_ns as f64 / 1000.0 / stats.calls as f64 };
        let parts = [
            ValuePart::number("calls", family::COMMANDS, stats.calls),
            ValuePart::number("usec", family::COMMANDS_DURATION, usec),
            ValuePart::shown("usec_per_call", FieldValue::Decimal(each, 2)),
            ValuePart::number("rejected_calls", family::COMMANDS_REJECTED, stats.rejected),
            ValuePart::number("failed_calls", family::COMMANDS_FAILED, stats.failed),
        ];
        out.add_at(field::CMDSTAT, spec.full_name, FieldValue::Parts(&parts));
    }
}

pub(super) fn errorstats(view: &View<'_>, out: &mut dyn Sink) {
    for (code, count) in &view.stats.failures.by_code {
        // Scripts choose the codes of their errors. Bytes that separate fields are replaced, so that no
        // code can be mistaken for another field.
        let code = code.replace(['#', ':', '\n', '\r'], "_");
        out.add_at(
            field::ERRORSTAT,
            code,
            FieldValue::Parts(&[ValuePart::number("count", family::ERRORS, *count)]),
        );
    }
}

pub(super) fn latencystats(view: &View<'_>, out: &mut dyn Sink) {
    if !view.control.limits.latency_tracking {
        return;
    }
    let percentiles = view.control.config.latency_percentiles();
    for (spec, stats) in sluice_command::table::ALL.iter().zip(&view.stats.commands) {
        let Some(histogram) = &stats.latency else { continue };
        let values: Vec<String> = percentiles
            .iter()
            .map(|percent| format!("p{percent}={:.3}", histogram.percentile(*percent) as f64 / 1000.0))
            .collect();
        out.add_at(field::LATENCY_PERCENTILES_USEC, spec.full_name, &values.join(","));
    }
}

pub(super) fn cluster(view: &View<'_>, out: &mut dyn Sink) {
    out.add(field::CLUSTER_ENABLED, u64::from(view.control.cluster.is_some()));
}

pub(super) fn scripting_engines(view: &View<'_>, out: &mut dyn Sink) {
    let scripts = &view.scripts;
    out.add(field::ENGINES_COUNT, 1);
    out.add(field::ENGINES_TOTAL_USED_MEMORY, scripts.machine_bytes());
    out.add(field::ENGINES_TOTAL_MEMORY_OVERHEAD, 0);
    let bytes = scripts.machine_bytes();
    let parts = [
        ValuePart::shown("name", "LUA"),
        ValuePart::shown("module", "lua"),
        ValuePart::shown("abi_version", 4u64),
        ValuePart::shown("used_memory", bytes),
        ValuePart::shown("memory_overhead", 0u64),
    ];
    out.add_at(field::ENGINE, 0, FieldValue::Parts(&parts));
    // The next fields do not exist in the reference.
    out.add(field::SCRIPTS_SLICES, view.stats.iteration.script_slices);
    out.add(field::SCRIPTS_MAXMEMORY_OVERRUN_BYTES, view.stats.eviction.script_overrun_max);
}

pub(super) fn hot_keys(view: &View<'_>, out: &mut dyn Sink) {
    let hot_keys = &view.control.clients.hot_keys.command;
    out.add(field::HOTKEYS_LAST_WINDOW_SAMPLES, hot_keys.samples());
    out.add(field::HOTKEYS_LAST_WINDOW_DURATION_MS, hot_keys.span_ms());
}

pub(super) fn keyspace(view: &View<'_>, out: &mut dyn Sink) {
    for (number, db) in view.keyspace.iter() {
        if db.shown().is_empty() {
            continue;
        }
        let name = format!("db{number}");
        let parts = [
            ValuePart::hidden_label("db", &name),
            ValuePart::number("keys", family::DB_KEYS, db.shown().len()),
            ValuePart::number("expires", family::DB_KEYS_EXPIRING, db.shown().expires_len()),
            ValuePart::number("avg_ttl", family::DB_AVG_TTL, db.avg_ttl_ms),
            ValuePart::shown("keys_with_volatile_items", db.volatile_len()),
        ];
        out.add_at(field::DB, number, FieldValue::Parts(&parts));
    }
}

/// The progress of long work.
pub(super) fn progress(view: &View<'_>, out: &mut dyn Sink) {
    let sources = WorkSources {
        now: view.now,
        control: view.control,
        keyspace: view.keyspace,
        sessions: view.sessions,
        job: view.job,
        sync: view.facts.sync,
    };
    work::section(&sources.list(), out);
}

pub(super) fn debug(view: &View<'_>, out: &mut dyn Sink) {
    let facts = view.facts;
    if let Some(counts) = &facts.event_loop_counts {
        event_loop(counts, out);
    }
    for (name, bytes) in &facts.memory_parts {
        out.add_at(field::MEMORY_PART, name, *bytes);
    }
    out.add(field::EVENTLOOP_DURATION_AOF_SUM, 0);
    out.add(field::EVENTLOOP_DURATION_CRON_SUM, view.stats.cron_ns / 1000);
    out.add(field::EVENTLOOP_DURATION_MAX, facts.longest_iteration_us);
    out.add(field::EVENTLOOP_CMD_PER_CYCLE_MAX, view.stats.iteration.commands_max);
    out.add(field::IO_THREADED_READS_PENDING, facts.io_threads.reads_pending);
    out.zeros(&[field::IO_THREADED_WRITES_PENDING]);
    let threads = &facts.io_threads;
    out.add(field::IO_THREADS_PARKS, threads.parks);
    out.add(field::IO_THREADS_GROWN, threads.grown);
    out.add(field::IO_THREADS_SHRUNK, threads.shrunk);
    out.add(field::IO_THREADS_QUEUE_WAIT_USEC, threads.wait_ns / 1000);
    out.add(field::IO_THREADS_SERVICE_USEC, threads.service_ns / 1000);
    out.add(field::IO_THREADS_INBOX_FULL, threads.full[0]);
    out.add(field::IO_THREADS_OUTBOX_FULL, threads.full[1]);
    out.add(field::IO_THREADS_BALANCED, threads.placed.balanced);
    out.add(field::IO_THREADS_KEPT, threads.placed.kept);
    out.add(field::IO_THREADS_SPINNING, u64::from(threads.is_spinning));
}

fn event_loop(counts: &EventLoopCounts, out: &mut dyn Sink) {
    for (name, count) in [
        (field::EVENTLOOP_PARKS, counts.parks),
        (field::EVENTLOOP_SYSTEM_CALLS, counts.system_calls),
        (field::EVENTLOOP_EVENTS, counts.events),
        (field::EVENTLOOP_STALE_EVENTS, counts.stale_events),
        (field::EVENTLOOP_GATHERED, counts.gathered),
        (field::EVENTLOOP_STARVATIONS, counts.starvations),
        (field::EVENTLOOP_WAKES_COALESCED, counts.wakes_coalesced),
        (field::EVENTLOOP_WAKES_SENT, counts.wakes_sent),
        (field::EVENTLOOP_WAKES_SEEN, counts.wakes_seen),
        (field::EVENTLOOP_ACCEPT_FAILURES, counts.accept_failures),
        (field::EVENTLOOP_SENDS_BLOCKED, counts.sends_blocked),
        (field::EVENTLOOP_ITERATION_MAX_USEC, counts.iteration_max_us),
        (field::EVENTLOOP_ITERATION_MAX_CPU_USEC, counts.iteration_max_cpu_us),
    ] {
        out.add(name, count);
    }
}

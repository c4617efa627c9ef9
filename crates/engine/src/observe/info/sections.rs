//! The sections' lines.

use super::lines::Lines;
use super::numbers::{MemoryReport, difference, ratio};
use super::view::View;
use crate::control::Control;
use crate::host::process::SyncFacts;
use crate::persistence::loading::LoadUnderWay;
use crate::pubsub::registry::TopicKind;
use crate::replication::role::ReplicaRole;
use crate::scripting::state::ScriptFacts;
use crate::session::SyncStage;
use sluice_base::Now;
use sluice_base::version;
use sluice_config::param;
use sluice_replication::Backlog;
use sluice_replication::LinkState;

pub(super) fn server(view: &View<'_>, out: &mut Lines) {
    let (facts, control) = (view.facts, view.control);
    let uptime = view.now.mono_ns.saturating_sub(control.started.mono_ns) / 1_000_000_000;
    let hz = control.config.int(param::HZ);
    out.add("redis_version", version::REDIS_COMPATIBLE);
    out.add("server_name", "valkey");
    out.add("valkey_version", version::COMPATIBLE);
    out.fixed(&[
        ("valkey_release_stage", "ga"),
        ("redis_git_sha1", "00000000"),
        ("redis_git_dirty", "0"),
        ("redis_build_id", "0"),
    ]);
    let mode = if control.limits.redis_names { "redis_mode" } else { "server_mode" };
    out.add(mode, "standalone");
    out.add("os", &facts.os);
    out.add("arch_bits", facts.arch_bits);
    out.add("monotonic_clock", &facts.monotonic_clock);
    out.add("multiplexing_api", &facts.event_loop);
    out.add("gcc_version", "0.0.0");
    out.add("process_id", facts.pid);
    out.add("process_supervised", facts.supervised.unwrap_or("no"));
    out.add("run_id", &control.run_id);
    out.add("tcp_port", served_port(control));
    out.add("server_time_usec", view.now.unix_us);
    out.add("uptime_in_seconds", uptime);
    out.add("uptime_in_days", uptime / 86_400);
    for name in ["hz", "configured_hz", "clients_hz"] {
        out.add(name, hz);
    }
    out.add("lru_clock", view.now.unix_s() as u32 & sluice_keyspace::CLOCK_MASK);
    out.add("executable", &facts.executable);
    out.add("config_file", &facts.config_file);
    out.add("io_threads_active", u8::from(facts.io_threads.active > 0));
    out.add("availability_zone", control.config.str(param::AVAILABILITY_ZONE));
    if let Some(pending) = control.persistence.pending_end.as_ref() {
        let left_ms = pending.deadline_ms.saturating_sub(view.now.mono_ns / 1_000_000);
        out.add("shutdown_in_milliseconds", left_ms);
    }
    for (number, listener) in &facts.listeners {
        out.add(&format!("listener{number}"), listener);
    }
    out.add("sluice_version", facts.own_version);
    out.add("event_loop", &facts.event_loop);
    out.add("event_loop_reason", &facts.event_loop_reason);
    out.add("io_threads_workers", facts.io_threads.active);
    out.add("io_threads_reason", facts.io_threads.reason);
}

/// The port of clients: that of TLS where there is no other.
fn served_port(control: &Control) -> i64 {
    match control.config.int(param::PORT) {
        0 => control.config.int(param::TLS_PORT),
        port => port,
    }
}

pub(super) fn tls(view: &View<'_>, out: &mut Lines) {
    let certificates = &view.facts.certificates;
    for (of, fact) in
        [("server", &certificates.server), ("client", &certificates.client), ("ca", &certificates.authority)]
    {
        let (serial, left_s) = match fact {
            Some(fact) => (fact.serial.as_str(), fact.expires_at_s - view.now.unix_s()),
            None => ("none", 0),
        };
        out.add(&format!("tls_{of}_cert_serial"), serial);
        out.add(&format!("tls_{of}_cert_expires_in_seconds"), left_s);
    }
}

pub(super) fn clients(view: &View<'_>, out: &mut Lines) {
    let control = view.control;
    out.add("connected_clients", view.sessions.len().saturating_sub(view.replicas().len()));
    out.add("cluster_connections", 0);
    out.add("maxclients", control.limits.maxclients);
    out.add("client_recent_max_input_buffer", view.facts.recent_max_input);
    out.add("client_recent_max_output_buffer", view.stats.output_peaks.max());
    out.add("blocked_clients", control.clients.blocking.count());
    out.add("tracking_clients", control.clients.tracking.clients());
    out.add("pubsub_clients", control.clients.pubsub.clients());
    out.add("watching_clients", control.clients.watching.clients());
    out.add("clients_in_timeout_table", control.clients.blocking.with_deadline());
    out.add("total_watched_keys", control.clients.watching.keys());
    out.add("total_blocking_keys", control.clients.blocking.keys());
    out.add("total_blocking_keys_on_nokey", control.clients.blocking.keys_until_gone());
    let pause = *control.clients.pause;
    let now_ms = view.now.unix_ms();
    let (reason, actions, left) = match (pause.active(view.now), pause.all) {
        _ if control.replication.failover.is_some() => ("failover_in_progress", "write", i64::MAX - now_ms),
        (false, _) => ("none", "none", 0),
        (true, all) => ("client_pause", if all { "all" } else { "write" }, pause.until_ms - now_ms),
    };
    out.add("paused_reason", reason);
    out.add("paused_actions", actions);
    out.add("paused_timeout_milliseconds", left);
}

fn script_memory(scripts: &ScriptFacts, out: &mut Lines) {
    let eval = scripts.eval_machine_bytes as u64;
    out.add("used_memory_lua", eval);
    out.add("used_memory_vm_eval", eval);
    out.add("used_memory_lua_human", super::lines::human(eval));
    out.add("used_memory_scripts_eval", scripts.eval_bytes);
    out.add("number_of_cached_scripts", scripts.cached);
    out.add("number_of_functions", scripts.functions);
    out.add("number_of_libraries", scripts.libraries);
    out.add("used_memory_vm_functions", scripts.function_machine_bytes);
    out.add_bytes("used_memory_vm_total", scripts.machine_bytes());
    out.add("used_memory_functions", scripts.function_bytes);
    out.add_bytes("used_memory_scripts", (scripts.eval_bytes + scripts.function_bytes) as u64);
}

pub(super) fn memory(view: &View<'_>, out: &mut Lines) {
    let report = MemoryReport::new(view);
    let facts = view.facts;
    out.add_bytes("used_memory", report.used);
    out.add_bytes("used_memory_rss", facts.resident as u64);
    out.add_bytes("used_memory_peak", report.peak);
    out.add("used_memory_peak_perc", format_args!("{:.2}%", report.peak_percent()));
    out.add("used_memory_overhead", report.overhead);
    out.add("used_memory_startup", report.startup);
    out.add("used_memory_dataset", report.dataset);
    out.add("used_memory_dataset_perc", format_args!("{:.2}%", report.dataset_percent()));
    out.add("allocator_allocated", facts.allocator_allocated);
    out.add("allocator_active", facts.allocator_active);
    out.add("allocator_resident", facts.allocator_resident);
    out.add("allocator_muzzy", facts.allocator_muzzy);
    out.add_bytes("total_system_memory", facts.total_system_memory as u64);
    script_memory(&view.scripts, out);
    let config = &view.control.config;
    out.add_bytes("maxmemory", view.control.limits.maxmemory as u64);
    out.add("maxmemory_policy", String::from_utf8_lossy(&config.shown(param::MAXMEMORY_POLICY)));
    memory_ratios(view, &report, out);
    let aof_bytes = if view.control.persistence.aof.is_on() { facts.aof.buffer_bytes } else { 0 };
    out.add("mem_not_counted_for_evict", report.replica_buffers + report.replica_queues + aof_bytes);
    out.add("mem_replication_backlog", report.backlog);
    out.add("mem_total_replication_buffers", report.backlog + report.replica_buffers);
    out.add("mem_replicas_repl_buffer", facts.stream_buffer.bytes);
    out.add("mem_clients_slaves", report.replicas + report.replica_buffers);
    out.add("mem_clients_normal", report.clients);
    out.zeros(&["mem_cluster_links", "mem_cluster_slot_import", "mem_cluster_slot_export", "mem_aof_buffer"]);
    out.add("mem_allocator", &facts.allocator);
    out.add("mem_overhead_db_hashtable_rehashing", 0);
    out.add("active_defrag_running", view.stats.compaction.running_percent);
    out.add("lazyfree_pending_objects", facts.lazyfree_pending);
    out.add("lazyfreed_objects", facts.lazyfreed.saturating_sub(view.stats.base.lazyfreed));
}

fn memory_ratios(view: &View<'_>, report: &MemoryReport, out: &mut Lines) {
    let facts = view.facts;
    let allocated = facts.allocator_allocated as u64;
    let active = facts.allocator_active as u64;
    let resident = facts.allocator_resident as u64;
    let rss = facts.resident as u64;
    let mut pair = |name: &str, bytes: &str, a: u64, b: u64| {
        out.add(name, format_args!("{:.2}", ratio(a, b)));
        out.add(bytes, difference(a, b));
    };
    pair("allocator_frag_ratio", "allocator_frag_bytes", active, allocated);
    pair("allocator_rss_ratio", "allocator_rss_bytes", resident, active);
    pair("rss_overhead_ratio", "rss_overhead_bytes", rss, resident);
    pair("mem_fragmentation_ratio", "mem_fragmentation_bytes", rss, report.used);
}

pub(super) fn persistence(view: &View<'_>, out: &mut Lines) {
    let load = view.control.persistence.load.as_deref();
    let is_async = load.is_some_and(LoadUnderWay::is_async);
    out.add("loading", u8::from(load.is_some() && !is_async));
    out.add("async_loading", u8::from(is_async));
    let saving = &view.control.persistence.saving;
    let job = view.job.unwrap_or_default();
    let (changed, copied) = job.changed;
    let percent = job.captured as f64 * 100.0 / job.total.max(1) as f64;
    out.add("current_cow_peak", copied);
    out.add("current_cow_size", copied);
    out.add("current_cow_size_age", 0);
    out.add("current_fork_perc", format_args!("{percent:.2}"));
    out.add("current_save_keys_processed", job.captured);
    out.add("current_save_keys_total", job.total);
    // What the reference's fields have no room for.
    out.add("current_save_keys_changed", changed);
    out.add(
        "current_save_held_bytes",
        job.held_bytes + job.detached_bytes + view.control.replication.full_syncs.held_bytes(),
    );
    out.add("rdb_changes_since_last_save", view.control.persistence.dirty);
    out.add("rdb_bgsave_in_progress", u8::from(view.control.rdb_began_s().is_some()));
    out.add("rdb_last_save_time", view.control.persistence.last_save_s);
    out.add("rdb_last_bgsave_status", if saving.failed { "err" } else { "ok" });
    out.add("rdb_last_bgsave_time_sec", saving.last_s.unwrap_or(-1));
    let current_s = view.control.rdb_began_s().map_or(-1, |began_s| view.now.unix_s() - began_s);
    out.add("rdb_current_bgsave_time_sec", current_s);
    out.add("rdb_saves", view.control.persistence.saves);
    out.add("rdb_last_cow_size", saving.last_copied_bytes);
    let last = &view.control.persistence.last_load;
    let (loaded, expired) = load.map_or((last.loaded, last.expired), LoadUnderWay::keys);
    out.add("rdb_last_load_keys_expired", expired);
    out.add("rdb_last_load_keys_loaded", loaded);
    let (aof, rewriting) = (&view.control.persistence.aof, &view.control.persistence.rewriting);
    // A file that is loaded is on; one that was turned on waits for a job to end.
    let will_be_on = rewriting.scheduled || load.is_some();
    let is_enabled = aof.is_on() || will_be_on && view.control.config.bool(param::APPENDONLY);
    out.add("aof_enabled", u8::from(is_enabled));
    out.add("aof_rewrite_in_progress", u8::from(rewriting.began_s.is_some()));
    out.add("aof_rewrite_scheduled", u8::from(rewriting.scheduled));
    out.add("aof_last_rewrite_time_sec", rewriting.last_s.unwrap_or(-1));
    let current_s = rewriting.began_s.map_or(-1, |began_s| view.now.unix_s() - began_s);
    out.add("aof_current_rewrite_time_sec", current_s);
    out.add("aof_last_bgrewrite_status", if rewriting.failed { "err" } else { "ok" });
    out.add("aof_rewrites", rewriting.count);
    out.add("aof_rewrites_consecutive_failures", rewriting.failures);
    out.add("aof_last_write_status", if aof.report().fault.is_none() { "ok" } else { "err" });
    out.add("aof_last_cow_size", rewriting.last_copied_bytes);
    out.fixed(&[
        ("module_fork_in_progress", "0"),
        ("module_fork_last_cow_size", "0"),
        ("slot_migration_fork_in_progress", "0"),
    ]);
    if aof.is_on() {
        let facts = view.facts.aof;
        out.add("aof_current_size", facts.current_bytes);
        out.add("aof_base_size", facts.base_bytes);
        out.add("aof_pending_rewrite", u8::from(rewriting.scheduled));
        out.add("aof_buffer_length", facts.buffer_bytes);
        out.add("aof_pending_bio_fsync", u8::from(facts.is_syncing));
        out.add("aof_delayed_fsync", facts.delayed_syncs);
    }
    if let Some(load) = load {
        loading(load, view.now, out);
    }
}

fn loading(load: &LoadUnderWay, now: Now, out: &mut Lines) {
    let figures = load.figures(now);
    out.add("loading_start_time", figures.start_s);
    out.add("loading_total_bytes", figures.total_bytes);
    out.add("loading_rdb_used_mem", figures.rdb_used_memory);
    out.add("loading_loaded_bytes", figures.loaded_bytes);
    out.add("loading_loaded_perc", format_args!("{:.2}", figures.percent));
    out.add("loading_eta_seconds", figures.eta_s);
}

pub(super) fn stats(view: &View<'_>, out: &mut Lines) {
    let stats = view.stats;
    traffic(view, out);
    out.add("rejected_connections", stats.connections.rejected);
    out.add("sync_full", stats.syncs.full);
    out.add("sync_partial_ok", stats.syncs.partial_ok);
    out.add("sync_partial_err", stats.syncs.partial_err);
    out.add("expired_keys", stats.expiry.keys);
    out.add("expired_fields", view.stats.expiry.fields);
    out.add("expired_stale_perc", format_args!("{:.2}", stats.expiry.stale_percent));
    out.add("expired_keys_with_volatile_items_stale_perc", "0.00");
    out.add("expired_time_cap_reached_count", stats.expiry.capped);
    out.add("expire_cycle_cpu_milliseconds", stats.expiry.ns / 1_000_000);
    out.add("evicted_keys", stats.eviction.keys);
    out.add("evicted_clients", stats.eviction.clients);
    out.add("evicted_scripts", view.stats.eviction.scripts);
    let (total_ms, current_ms) = stats.eviction.memory_exceeded.ms(view.now);
    out.add("total_eviction_exceeded_time", total_ms);
    out.add("current_eviction_exceeded_time", current_ms);
    out.add("keyspace_hits", stats.lookups.hits);
    out.add("keyspace_misses", stats.lookups.misses);
    let pubsub = &view.control.clients.pubsub;
    out.add("pubsub_channels", pubsub.count(TopicKind::Channel));
    out.add("pubsub_patterns", pubsub.count(TopicKind::Pattern));
    out.add("pubsubshard_channels", pubsub.count(TopicKind::Shard));
    out.zeros(&["latest_fork_usec", "total_forks"]);
    out.add("migrate_cached_sockets", view.facts.migrate_cached_sockets);
    out.add("slave_expires_tracked_keys", view.control.replication.local_expiries.len());
    compaction(view, out);
    let tracking = &view.control.clients.tracking;
    out.add("tracking_total_keys", tracking.keys());
    out.add("tracking_total_items", tracking.items());
    out.add("tracking_total_prefixes", tracking.prefixes());
    out.add("unexpected_error_replies", stats.failures.unexpected);
    out.add("total_error_replies", stats.failures.replied);
    out.add("dump_payload_sanitizations", 0);
    events(view, out);
    let refused = stats.failures.refused;
    out.add("acl_access_denied_auth", refused.auth);
    out.add("acl_access_denied_cmd", refused.command);
    out.add("acl_access_denied_key", refused.key);
    out.add("acl_access_denied_channel", refused.channel);
    out.add("acl_access_denied_tls_cert", refused.tls_cert);
    out.add("acl_access_denied_db", refused.database);
}

/// An entry is one block: a block moved is a key moved.
fn compaction(view: &View<'_>, out: &mut Lines) {
    let compaction = &view.stats.compaction;
    let current_ms = compaction.current_ms(view.now.unix_ms());
    out.add("active_defrag_hits", compaction.moved);
    out.add("active_defrag_misses", compaction.abandoned);
    out.add("active_defrag_key_hits", compaction.moved);
    out.add("active_defrag_key_misses", compaction.abandoned);
    out.add("total_active_defrag_time", compaction.total_ms + current_ms);
    out.add("current_active_defrag_time", current_ms);
}

fn traffic(view: &View<'_>, out: &mut Lines) {
    let (stats, facts) = (view.stats, view.facts);
    let kib = |rate: u64| format!("{:.2}", rate as f64 / 1024.0);
    out.add("total_connections_received", stats.connections.accepted);
    out.add("total_commands_processed", stats.total_commands);
    out.add("instantaneous_ops_per_sec", stats.rates.ops.mean());
    out.add("total_net_input_bytes", facts.net_input_bytes.saturating_sub(stats.base.net_input_bytes));
    out.add("total_net_output_bytes", facts.net_output_bytes.saturating_sub(stats.base.net_output_bytes));
    let repl_input = facts.net_repl_input_bytes.saturating_sub(stats.base.net_repl_input_bytes);
    out.add("total_net_repl_input_bytes", repl_input);
    out.add("total_net_repl_output_bytes", stats.syncs.output_bytes);
    out.zeros(&["total_net_cluster_slot_import_bytes", "total_net_cluster_slot_export_bytes"]);
    out.add("instantaneous_input_kbps", kib(stats.rates.input.mean()));
    out.add("instantaneous_output_kbps", kib(stats.rates.output.mean()));
    out.add("instantaneous_input_repl_kbps", kib(stats.rates.repl_input.mean()));
    out.fixed(&[("instantaneous_output_repl_kbps", "0.00")]);
}

/// What the event loop did.
fn events(view: &View<'_>, out: &mut Lines) {
    let (stats, facts, base) = (view.stats, view.facts, &view.stats.base);
    out.add("total_reads_processed", facts.reads_processed.saturating_sub(base.reads_processed));
    out.add("total_writes_processed", facts.writes_processed.saturating_sub(base.writes_processed));
    let (threads, before) = (&facts.io_threads, &base.io_threads);
    out.add("io_threaded_reads_processed", threads.reads.saturating_sub(before.reads));
    out.add("io_threaded_writes_processed", threads.writes.saturating_sub(before.writes));
    out.add("io_threaded_freed_objects", threads.freed.saturating_sub(before.freed));
    out.add("io_threaded_accept_processed", threads.accepts.saturating_sub(before.accepts));
    out.add("io_threaded_poll_processed", threads.polls.saturating_sub(before.polls));
    out.add("io_threaded_total_prefetch_batches", stats.prefetch.batches);
    out.add("io_threaded_total_prefetch_entries", stats.prefetch.entries);
    out.add("client_query_buffer_limit_disconnections", stats.disconnections.query_buffer);
    out.add("client_output_buffer_limit_disconnections", stats.disconnections.output_buffer);
    out.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    slow_reads(view, out);
    out.add("eventloop_cycles", facts.eventloop_cycles.saturating_sub(base.eventloop_cycles));
    out.add(
        "eventloop_duration_sum",
        facts.eventloop_duration_sum.saturating_sub(base.eventloop_duration_sum),
    );
    let commands = facts.eventloop_duration_cmd_sum.saturating_sub(base.eventloop_duration_cmd_sum);
    out.add("eventloop_duration_cmd_sum", commands);
    out.add("instantaneous_eventloop_cycles_per_sec", stats.rates.cycles.mean());
    out.add("instantaneous_eventloop_duration_usec", stats.rates.cycle_us.mean());
}

/// Replies that threads of their own produce: the reference has none.
fn slow_reads(view: &View<'_>, out: &mut Lines) {
    let reads = &view.control.clients.slow_reads;
    out.add("slow_reads_running", reads.running);
    out.add("slow_reads_waiting", view.control.clients.blocking.slow_reads());
    out.add("slow_reads_total", reads.total);
    out.add("slow_reads_in_place", reads.in_place);
    out.add("slow_reads_retained_bytes", reads.retained_bytes);
}

pub(super) fn replication(view: &View<'_>, out: &mut Lines) {
    let stream = &view.control.replication.stream;
    match view.control.replication.replica.as_deref() {
        Some(role) => replica(view, role, out),
        None => out.add("role", "master"),
    }
    let replicas = view.replicas();
    out.add("connected_slaves", replicas.len());
    let config = &view.control.config;
    if config.int(param::MIN_REPLICAS_TO_WRITE) > 0 && config.int(param::MIN_REPLICAS_MAX_LAG) > 0 {
        out.add("min_slaves_good_slaves", *view.control.replication.good_replicas);
    }
    for (i, session) in replicas.into_iter().enumerate() {
        let Some(replica) = session.caller.replica_state() else { continue };
        let is_rdb_channel =
            session.caller.origin.announced.as_deref().is_some_and(|announced| announced.rdb_channel);
        let state = match replica.stage {
            SyncStage::Wanted => "wait_bgsave",
            // One that ends with a mark is sent while it is made.
            SyncStage::Sending if session.feed.as_ref().is_some_and(|feed| feed.trailer.is_some()) => {
                "wait_bgsave"
            }
            SyncStage::Online if replica.is_main_channel => "bg_transfer",
            // It ends when its snapshot is sent.
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
        out.add(
            &format!("slave{i}"),
            format_args!("ip={ip},port={port},state={state},offset={offset},lag={lag},type={kind}"),
        );
    }
    out.add("replicas_waiting_psync", stream.reserved.len());
    let failover = view.control.replication.failover.as_deref();
    out.add("master_failover_state", failover.map_or("no-failover", |failover| failover.stage_name()));
    out.add("master_replid", &stream.replid);
    let earlier = stream.earlier.as_ref();
    out.add(
        "master_replid2",
        earlier.map_or("0000000000000000000000000000000000000000", |(replid, _)| replid),
    );
    out.add("master_repl_offset", stream.offset);
    out.add(
        "second_repl_offset",
        earlier.map_or(-1, |(_, offset)| i64::try_from(*offset).unwrap_or(i64::MAX)),
    );
    let backlog = stream.backlog();
    out.add("repl_backlog_active", u8::from(backlog.is_some()));
    out.add("repl_backlog_size", view.control.config.int(param::REPL_BACKLOG_SIZE));
    out.add("repl_backlog_first_byte_offset", backlog.map_or(0, |backlog| backlog.start() + 1));
    out.add("repl_backlog_histlen", backlog.map_or(0, Backlog::kept_bytes));
}

/// What a replica knows of its primary.
fn replica(view: &View<'_>, role: &ReplicaRole, out: &mut Lines) {
    let (control, now_s) = (view.control, view.now.unix_s());
    let is_transfer = role.link.state() == LinkState::Transfer;
    out.add("role", "slave");
    out.add("master_host", &role.primary().host);
    out.add("master_port", role.primary().port);
    out.add("master_link_status", if role.is_up() { "up" } else { "down" });
    let session = role.session.and_then(|key| view.sessions.get(key));
    let silent_s = session.map_or(-1, |session| (now_s - session.caller.traffic.last_s).max(0));
    out.add("master_last_io_seconds_ago", silent_s);
    out.add("master_sync_in_progress", u8::from(is_transfer));
    // The reference's number where nothing is known.
    // Data that a snapshot is about to replace are no reason to promote this server.
    let stays = !role.link.is_committed() && (role.is_up() || role.can_resume);
    let offset = if stays { control.replication.stream.offset } else { 1 };
    out.add("slave_read_repl_offset", offset + session.map_or(0, |session| role.unapplied_bytes(session)));
    out.add("slave_repl_offset", offset);
    out.add("replicas_repl_buffer_size", view.facts.stream_buffer.bytes);
    out.add("replicas_repl_buffer_peak", view.facts.stream_buffer.peak);
    if is_transfer {
        sync(view.facts.sync, out);
    }
    if !role.is_up() {
        let since_s = if role.down_since_s == 0 { -1 } else { now_s - role.down_since_s };
        out.add("master_link_down_since_seconds", since_s);
    }
    out.add("slave_priority", control.config.int(param::REPLICA_PRIORITY));
    out.add("slave_read_only", u8::from(control.config.bool(param::REPLICA_READ_ONLY)));
    out.add("replica_announced", u8::from(control.config.bool(param::REPLICA_ANNOUNCED)));
}

/// How far the snapshot of the primary is.
fn sync(facts: Option<SyncFacts>, out: &mut Lines) {
    let SyncFacts { total_bytes, read_bytes, last_io_s } =
        facts.unwrap_or(SyncFacts { total_bytes: -1, read_bytes: 0, last_io_s: 0 });
    let known = u64::try_from(total_bytes).ok().filter(|total| *total > 0);
    let percent = known.map_or(0.0, |total| read_bytes as f64 * 100.0 / total as f64);
    out.add("master_sync_total_bytes", total_bytes);
    out.add("master_sync_read_bytes", read_bytes);
    out.add("master_sync_left_bytes", known.map_or(0, |total| total.saturating_sub(read_bytes)));
    out.add("master_sync_perc", format_args!("{percent:.2}"));
    out.add("master_sync_last_io_seconds_ago", last_io_s);
}

pub(super) fn cpu(view: &View<'_>, out: &mut Lines) {
    let cpu = view.facts.cpu;
    for (name, us) in [
        ("used_cpu_sys", cpu.sys),
        ("used_cpu_user", cpu.user),
        ("used_cpu_sys_children", cpu.sys_children),
        ("used_cpu_user_children", cpu.user_children),
        ("used_cpu_sys_main_thread", cpu.sys_main),
        ("used_cpu_user_main_thread", cpu.user_main),
        ("used_active_time_main_thread", cpu.active_main),
    ] {
        out.add(name, format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000));
    }
    for (i, us) in view.facts.io_threads.active_us.iter().enumerate() {
        let name = format!("used_active_time_io_thread_{}", i + 1);
        out.add(&name, format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000));
    }
}

pub(super) fn modules(_: &View<'_>, _: &mut Lines) {}

pub(super) fn nothing(_: &View<'_>, _: &mut Lines) {}

pub(super) fn commandstats(view: &View<'_>, out: &mut Lines) {
    for (spec, stats) in sluice_command::table::ALL.iter().zip(&view.stats.commands) {
        if stats.calls == 0 && stats.rejected == 0 && stats.failed == 0 {
            continue;
        }
        let usec = stats.spent_ns / 1000;
        let each = if stats.calls == 0 { 0.0 } else { stats.spent_ns as f64 / 1000.0 / stats.calls as f64 };
        let (calls, rejected, failed) = (stats.calls, stats.rejected, stats.failed);
        out.add(
            &format!("cmdstat_{}", spec.full_name),
            format_args!(
                "calls={calls},usec={usec},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn errorstats(view: &View<'_>, out: &mut Lines) {
    for (code, count) in &view.stats.failures.by_code {
        // A script chooses its errors' codes: none may look like another field.
        let code = code.replace(['#', ':', '\n', '\r'], "_");
        out.add(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub(super) fn latencystats(view: &View<'_>, out: &mut Lines) {
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
        out.add(&format!("latency_percentiles_usec_{}", spec.full_name), values.join(","));
    }
}

pub(super) fn cluster(_: &View<'_>, out: &mut Lines) {
    out.add("cluster_enabled", 0);
}

pub(super) fn scripting_engines(view: &View<'_>, out: &mut Lines) {
    let scripts = &view.scripts;
    out.add("engines_count", 1);
    out.add("engines_total_used_memory", scripts.machine_bytes());
    out.add("engines_total_memory_overhead", 0);
    let bytes = scripts.machine_bytes();
    out.add(
        "engine_0",
        format_args!("name=LUA,module=lua,abi_version=4,used_memory={bytes},memory_overhead=0"),
    );
    // What the reference does not tell.
    out.add("scripts_slices", view.stats.iteration.script_slices);
    out.add("scripts_maxmemory_overrun_bytes", view.stats.eviction.script_overrun_max);
}

pub(super) fn keyspace(view: &View<'_>, out: &mut Lines) {
    for (number, db) in view.keyspace.iter() {
        if db.is_empty() && db.expires_len() == 0 {
            continue;
        }
        let (keys, expires, ttl) = (db.len(), db.expires_len(), db.avg_ttl_ms);
        let volatile = db.volatile_len();
        out.add(
            &format!("db{number}"),
            format_args!("keys={keys},expires={expires},avg_ttl={ttl},keys_with_volatile_items={volatile}"),
        );
    }
}

pub(super) fn debug(view: &View<'_>, out: &mut Lines) {
    let facts = view.facts;
    for (name, value) in &facts.debug {
        out.add(name, value);
    }
    out.add("eventloop_duration_aof_sum", 0);
    out.add("eventloop_duration_cron_sum", view.stats.cron_ns / 1000);
    out.add("eventloop_duration_max", facts.longest_iteration_us);
    out.add("eventloop_cmd_per_cycle_max", view.stats.iteration.commands_max);
    out.add("io_threaded_reads_pending", facts.io_threads.reads_pending);
    out.zeros(&["io_threaded_writes_pending"]);
    let threads = &facts.io_threads;
    out.add("io_threads_parks", threads.parks);
    out.add("io_threads_grown", threads.grown);
    out.add("io_threads_shrunk", threads.shrunk);
    out.add("io_threads_queue_wait_usec", threads.wait_ns / 1000);
    out.add("io_threads_service_usec", threads.service_ns / 1000);
    out.add("io_threads_inbox_full", threads.full[0]);
    out.add("io_threads_outbox_full", threads.full[1]);
    out.add("io_threads_balanced", threads.balanced);
}

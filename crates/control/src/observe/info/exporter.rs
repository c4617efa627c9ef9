//! Numbers of the metrics endpoint that have no field in INFO.

use super::view::View;
use crate::cluster::shown_moves::{ShownMove, shown_moves};
use crate::persistence::loading::LoadUnderWay;
use sluice_base::Histogram;
use sluice_base::version;
use sluice_command::Spec;
use sluice_config::param;
use sluice_keyspace::Db;
use sluice_numbers::commandlog::LogKind;
use sluice_numbers::info::families::family;
use sluice_numbers::info::sample::{CommandLatencies, Health, LATENCIES_MAX, Sampler};
use sluice_numbers::info::value::Number;
use sluice_numbers::stats::CommandStats;
use std::collections::BTreeMap;

/// Writes the numbers that only the metrics endpoint shows. Cost: about a microsecond for each of the shown
/// commands, which are at most [`LATENCIES_MAX`].
pub(super) fn numbers(view: &View<'_>, out: &mut Sampler) {
    identity(view, out);
    out.number(family::LATEST_FORK, 0, Number::Uint(0));
    let config = &view.control.config;
    out.number(family::CONFIG_MAXMEMORY, 0, Number::Uint(view.control.limits.maxmemory as u64));
    out.number(family::CONFIG_MAXCLIENTS, 0, Number::Int(config.int(param::MAXCLIENTS)));
    out.number(family::CONFIG_IO_THREADS, 0, Number::Int(config.int(param::IO_THREADS_NUM)));
    empty_databases(view, out);
    slow_commands(view, out);
    latencies(view, out);
    moves(view, out);
    out.sample.health = health(view);
}

fn identity(view: &View<'_>, out: &mut Sampler) {
    let (facts, control) = (view.facts, view.control);
    out.number(family::UP, 0, Number::Uint(1));
    out.number(family::START_TIME, 0, Number::Int(control.started.unix_s()));
    let role = control.replication.replica.as_deref();
    let port = super::sections::served_port(control).to_string();
    let policy = control.config.shown(param::MAXMEMORY_POLICY);
    out.info(
        family::INSTANCE,
        &[
            ("role", if role.is_some() { "slave" } else { "master" }),
            ("redis_version", version::REDIS_COMPATIBLE),
            ("redis_build_id", "0"),
            ("redis_mode", control.limits.mode_name()),
            ("os", &facts.os),
            ("maxmemory_policy", &String::from_utf8_lossy(&policy)),
            ("tcp_port", &port),
            ("run_id", &control.run_id),
            ("process_id", &facts.pid.to_string()),
            ("master_replid", &control.replication.stream.replid),
        ],
    );
    out.info(family::BUILD, &[("version", facts.own_version), ("compatible", version::COMPATIBLE)]);
    out.info(
        family::EVENT_LOOP_INFO,
        &[("event_loop", &facts.event_loop), ("reason", &facts.event_loop_reason)],
    );
    out.info(family::IO_THREADS_INFO, &[("reason", facts.io_threads.reason)]);
    if let Some(role) = role {
        let primary = role.primary();
        let read_only = if control.config.bool(param::REPLICA_READ_ONLY) { "1" } else { "0" };
        out.info(
            family::SLAVE,
            &[
                ("master_host", &primary.host),
                ("master_port", &primary.port.to_string()),
                ("read_only", read_only),
            ],
        );
    }
}

/// Writes the databases without keys, which redis_exporter also shows, so that graphs go down to 0. The
/// section Keyspace writes the databases with keys.
fn empty_databases(view: &View<'_>, out: &mut Sampler) {
    let is_empty = |db: &Db| db.shown().is_empty();
    for (number, _) in view.keyspace.iter().filter(|(_, db)| is_empty(db)) {
        if number >= EMPTY_DATABASES_MAX {
            return;
        }
        let labels = out.keep_labels(vec![("db", format!("db{number}").into())]);
        out.number(family::DB_KEYS, labels, Number::Uint(0));
        out.number(family::DB_KEYS_EXPIRING, labels, Number::Uint(0));
    }
}

/// At most this many databases without keys are shown, because a server may have any number of databases.
pub(crate) const EMPTY_DATABASES_MAX: usize = 16;

fn slow_commands(view: &View<'_>, out: &mut Sampler) {
    let log = &view.control.commandlog;
    out.number(family::SLOWLOG_LENGTH, 0, Number::Uint(log.len(LogKind::Slow) as u64));
    let last = log.newest(LogKind::Slow, 1).next();
    out.number(family::SLOWLOG_LAST_ID, 0, Number::Uint(last.map_or(0, |entry| entry.id)));
    out.number(family::LAST_SLOW_EXECUTION, 0, Number::Int(last.map_or(0, |entry| entry.value)));
    for (event, series) in view.control.latency.iter() {
        let Some((at_s, duration_ms)) = series.samples.back() else { continue };
        let labels = out.keep_labels(vec![("event_name", event.into())]);
        out.number(family::LATENCY_SPIKE_LAST, labels, Number::Int(*at_s));
        out.number(family::LATENCY_SPIKE_DURATION, labels, Number::Uint(*duration_ms));
    }
}

fn latencies(view: &View<'_>, out: &mut Sampler) {
    if !view.control.limits.latency_tracking {
        return;
    }
    let all = sluice_command::table::ALL.iter().zip(&view.stats.commands);
    let mut found: Vec<(&Spec, &CommandStats, &Histogram)> =
        all.filter_map(|(spec, stats)| Some((*spec, stats, stats.latency.as_deref()?))).collect();
    if found.len() > LATENCIES_MAX {
        found.select_nth_unstable_by_key(LATENCIES_MAX, |(_, stats, _)| std::cmp::Reverse(stats.calls));
        found.truncate(LATENCIES_MAX);
    }
    let percentiles = view.control.config.latency_percentiles();
    for (spec, stats, histogram) in found {
        let by_power = histogram.by_power_of_two();
        let us = |percent: f64| histogram.percentile_by(&by_power, percent) as f64 / 1000.0;
        out.sample.latencies.push(CommandLatencies {
            command: spec.full_name,
            count: histogram.total(),
            sum_us: stats.spent_ns / 1000,
            by_power,
            percentiles: percentiles.iter().map(|percent| (*percent, us(*percent))).collect(),
        });
    }
}

/// Writes the number of slot migrations in each state, and the progress of the running ones (V-10).
fn moves(view: &View<'_>, out: &mut Sampler) {
    let Some(mode) = view.control.cluster.as_deref() else { return };
    let mut states: BTreeMap<(&'static str, &'static str), u64> = BTreeMap::new();
    for ShownMove { row, progress } in shown_moves(mode, view.keyspace, view.sessions) {
        *states.entry((row.operation, row.state)).or_default() += 1;
        let Some(progress) = progress else { continue };
        let labels = out.keep_labels(vec![
            ("operation", row.operation.to_ascii_lowercase().into()),
            ("job", row.name.to_string().into()),
        ]);
        out.number(family::SLOT_MIGRATION_KEYS, labels, Number::Uint(progress.keys));
        out.number(family::SLOT_MIGRATION_BYTES, labels, Number::Uint(progress.bytes));
        if row.operation == "EXPORT" {
            out.number(family::SLOT_MIGRATION_KEYS_LEFT, labels, Number::Uint(progress.keys_left));
            out.number(family::SLOT_MIGRATION_LEFT, labels, Number::Uint(progress.bytes_left));
        }
    }
    for ((operation, state), count) in states {
        let operation = operation.to_ascii_lowercase();
        let labels = out.keep_labels(vec![("operation", operation.into()), ("state", state.into())]);
        out.number(family::SLOT_MIGRATIONS, labels, Number::Uint(count));
    }
}

fn health(view: &View<'_>) -> Health {
    let control = view.control;
    let is_async = control.persistence.load.as_deref().is_some_and(LoadUnderWay::is_async);
    match () {
        () if control.persistence.load.is_some() && !is_async => Health::Loading,
        () if control.replication.replica.as_deref().is_some_and(|role| !role.is_up()) => Health::LinkDown,
        () if control.persistence.aof.report().fault.is_some() => Health::AofFailed,
        () => Health::Fine,
    }
}

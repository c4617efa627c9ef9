//! The families of metrics: one for each field of [`FIELDS`] that has a metric, and those below, which have
//! labels or no field in INFO. Names and labels that begin with `redis_` are redis_exporter's.

use super::fields::FIELDS;
use crate::info::fields::{FieldId, FieldKind, FieldUnit, InfoField};

/// A family of metrics: samples of one name that differ in labels.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name of its samples.
    pub name: &'static str,
    /// The behaviour of the numbers over time.
    pub kind: FamilyKind,
    /// The meaning of the numbers, for `# HELP`.
    pub help: &'static str,
    /// The unit of the numbers as they are shown, after the division by `divisor`.
    pub unit: FieldUnit,
    /// Numbers are divided by this before they are shown.
    pub divisor: u32,
}

/// The behaviour of a family's numbers over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// The numbers only grow, until the process ends or CONFIG RESETSTAT.
    Counter,
    /// The numbers go up and down.
    Gauge,
    /// The number is always 1, and the labels are the information.
    Info,
}

/// Index in the list that consists of [`FIELDS`] and, after these, of [`FAMILIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(u16);

impl FamilyId {
    /// The family with this index.
    pub(crate) fn family(self) -> Family {
        let index = usize::from(self.0);
        match index.checked_sub(FIELDS.len()) {
            Some(further) => FAMILIES[further],
            None => Family::of(&FIELDS[index]),
        }
    }
}

impl FamilyId {
    /// The family of a field's metric.
    pub(crate) const fn of(field: FieldId) -> FamilyId {
        FamilyId(field.0)
    }
}

impl From<FieldId> for FamilyId {
    fn from(field: FieldId) -> FamilyId {
        FamilyId::of(field)
    }
}

impl Family {
    fn of(field: &InfoField) -> Family {
        let kind = match field.kind {
            FieldKind::Counter => FamilyKind::Counter,
            FieldKind::Gauge | FieldKind::Text | FieldKind::Record => FamilyKind::Gauge,
        };
        let InfoField { metric, help, divisor, .. } = *field;
        // Only durations are divided, and the result is in seconds.
        let unit = if divisor == 1 { field.unit } else { FieldUnit::Seconds };
        Family { name: metric, kind, help, unit, divisor }
    }
}

/// A family without a unit.
pub const fn family(name: &'static str, kind: FamilyKind, help: &'static str) -> Family {
    Family { name, kind, help, unit: FieldUnit::Count, divisor: 1 }
}

const fn counter(name: &'static str, help: &'static str) -> Family {
    family(name, FamilyKind::Counter, help)
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    family(name, FamilyKind::Gauge, help)
}

const fn info(name: &'static str, help: &'static str) -> Family {
    family(name, FamilyKind::Info, help)
}

impl Family {
    const fn in_unit(self, unit: FieldUnit) -> Family {
        Family { unit, ..self }
    }

    const fn over(self, divisor: u32) -> Family {
        Family { divisor, ..self }
    }
}

use FieldUnit::{Bytes, Seconds};

macro_rules! families {
    ($( $id:ident : $row:expr ; )*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum FamilyIndex { $( $id, )* COUNT }

        /// The families that do not belong to a field of [`FIELDS`].
        pub static FAMILIES: [Family; FamilyIndex::COUNT as usize] = [ $( $row, )* ];

        /// The ids of the families, by name.
        #[allow(missing_docs, reason = "a row says by itself what it is")]
        pub mod family {
            use super::{FIELDS, FamilyIndex};
            use crate::info::families::FamilyId;
            $( pub const $id: FamilyId = FamilyId(FIELDS.len() as u16 + FamilyIndex::$id as u16); )*
        }
    };
}

families! {
    UP: gauge("redis_up", "1: the server answers");
    INSTANCE: info("redis_instance_info", "the server: role, versions, port, ids, in labels");
    START_TIME: gauge("redis_start_time_seconds", "when the server started, since the epoch").in_unit(Seconds);
    BUILD: info("sluice_build_info", "the server's own version and the one that it is compatible with, in labels");
    EVENT_LOOP_INFO: info("sluice_event_loop_info", "the kernel interface of the event loop and the reason for that choice, in labels");
    IO_THREADS_INFO: info("sluice_io_threads_reason_info", "reason for the present number of I/O threads, in a label");
    LATEST_FORK: gauge("redis_latest_fork_seconds", "always 0: nothing forks").in_unit(Seconds);
    CONFIG_MAXMEMORY: gauge("redis_config_maxmemory", "the directive `maxmemory`, bytes");
    CONFIG_MAXCLIENTS: gauge("redis_config_maxclients", "the directive `maxclients`");
    CONFIG_IO_THREADS: gauge("redis_config_io_threads", "the directive `io-threads`");
    COMMANDS: counter("redis_commands_total", "calls by command, refused ones not counted");
    COMMANDS_DURATION: counter("redis_commands_duration_seconds_total", "execution time by command").in_unit(Seconds).over(1_000_000);
    COMMANDS_REJECTED: counter("redis_commands_rejected_calls_total", "calls by command that were refused before execution");
    COMMANDS_FAILED: counter("redis_commands_failed_calls_total", "calls by command that ended in an error");
    LATENCIES: gauge("redis_commands_latencies_usec", "latency by command: a histogram of execution times, microseconds");
    PERCENTILES: gauge("redis_latency_percentiles_usec", "latency by command: percentiles of execution time (p50, p99, p99.9 by default), microseconds");
    PERCENTILES_SUM: counter("redis_latency_percentiles_usec_sum", "execution time by command that the percentiles count, microseconds");
    PERCENTILES_COUNT: counter("redis_latency_percentiles_usec_count", "calls by command that the percentiles count");
    ERRORS: counter("redis_errors_total", "error replies by their first word");
    DB_KEYS: gauge("redis_db_keys", "keys of a database");
    DB_KEYS_EXPIRING: gauge("redis_db_keys_expiring", "keys of a database that have an expiry");
    DB_AVG_TTL: gauge("redis_db_avg_ttl_seconds", "mean time to live of the keys of a database that have an expiry").in_unit(Seconds).over(1000);
    CONNECTED_SLAVE_OFFSET: gauge("redis_connected_slave_offset_bytes", "position of the replication stream that a replica has acknowledged").in_unit(Bytes);
    CONNECTED_SLAVE_LAG: gauge("redis_connected_slave_lag_seconds", "time since the last acknowledgement of a replica").in_unit(Seconds);
    WORK_DONE: gauge("sluice_work_done", "part of a piece of long work that is done, in the unit of label `unit`");
    WORK_SIZE: gauge("sluice_work_size", "size of a piece of long work, in the unit of label `unit`; absent while unknown");
    WORK_PERCENT: gauge("sluice_work_percent", "percentage of a piece of long work that is done; absent while unknown");
    WORK_RATE: gauge("sluice_work_rate", "rate of a piece of long work, in the unit of label `unit` a second");
    WORK_SECONDS: gauge("sluice_work_seconds", "time since a piece of long work began").in_unit(Seconds);
    WORK_SECONDS_LEFT: gauge("sluice_work_left_seconds", "time until a piece of long work ends, at its rate so far; absent while unknown").in_unit(Seconds);
    SLOT_MIGRATIONS: gauge("sluice_slot_migrations", "slot migrations that CLUSTER GETSLOTMIGRATIONS lists, by `operation` and `state`");
    SLOT_MIGRATION_KEYS: gauge("sluice_slot_migration_keys", "keys sent or received by a slot migration under way");
    SLOT_MIGRATION_KEYS_LEFT: gauge("sluice_slot_migration_keys_left", "keys that a slot migration from this node has not reached yet");
    SLOT_MIGRATION_BYTES: gauge("sluice_slot_migration_bytes", "bytes sent or received by a slot migration under way").in_unit(Bytes);
    SLOT_MIGRATION_LEFT: gauge("sluice_slot_migration_left_bytes", "bytes of a slot migration from this node that are not sent yet: its `remaining_repl_size`").in_unit(Bytes);
    SLAVE: info("redis_slave_info", "this server as a replica: its primary, and whether clients may write, in labels");
    SLOWLOG_LENGTH: gauge("redis_slowlog_length", "slow commands that SLOWLOG remembers");
    SLOWLOG_LAST_ID: gauge("redis_slowlog_last_id", "number of the last slow command in SLOWLOG");
    LAST_SLOW_EXECUTION: gauge("redis_last_slow_execution_duration_seconds", "duration of the last slow command in SLOWLOG").in_unit(Seconds).over(1_000_000);
    LATENCY_SPIKE_LAST: gauge("redis_latency_spike_last", "time of the last latency spike of an event of LATENCY, since the epoch");
    LATENCY_SPIKE_DURATION: gauge("redis_latency_spike_duration_seconds", "duration of the last latency spike of an event of LATENCY").in_unit(Seconds).over(1000);
    MEMORY_LIMIT: gauge("sluice_memory_limit_bytes", "memory limit of the process's control group, or of a group above; 0: no limit").in_unit(Bytes);
    SAMPLE_DURATION: gauge("sluice_sample_duration_seconds", "time that the main thread took to make this sample").in_unit(Seconds).over(1_000_000_000);
    SAMPLE_AGE: gauge("sluice_sample_age_seconds", "age of this sample: large while the main thread does not answer").in_unit(Seconds);
    SAMPLES: counter("sluice_samples_total", "samples that the main thread has made");
    SCRAPES: counter("redis_exporter_scrapes_total", "requests for metrics that the endpoint has answered");
    SCRAPE_ERROR: gauge("redis_exporter_last_scrape_error", "always 0");
    SCRAPE_DURATION: gauge("redis_exporter_last_scrape_duration_seconds", "how long this request waited for a sample").in_unit(Seconds);
    ENDPOINT_CONNECTIONS: gauge("sluice_metrics_connections", "connections to the endpoint of metrics");
    ENDPOINT_REFUSED: counter("sluice_metrics_refused_total", "requests that the endpoint refused, and connections that it closed");
}

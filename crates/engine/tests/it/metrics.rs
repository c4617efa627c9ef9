//! Tests of the samples for the metrics endpoint, and of their text.

use crate::cluster::two_shards;
use sluice_numbers::facts::ProcessNumbers;
use sluice_numbers::info::sample::Health;
use sluice_numbers::info::text::{EndpointNumbers, MetricsFormat};
use sluice_testkit::{MetricSamples, Rig, check_open_metrics};
use std::collections::BTreeMap;

fn text(rig: &mut Rig, format: MetricsFormat) -> String {
    let mut sample = rig.engine.metrics_sample(&mut rig.process);
    sample.took(1000);
    sample.text(format) + &EndpointNumbers::default().text(format)
}

fn samples(rig: &mut Rig) -> MetricSamples {
    let text = text(rig, MetricsFormat::OpenMetrics);
    check_open_metrics(&text).unwrap_or_else(|reason| panic!("{reason}\n{text}"))
}

/// Value of a series.
#[track_caller]
fn number(samples: &MetricSamples, name: &str, labels: &str) -> f64 {
    let found = samples.get(name).and_then(|all| all.iter().find(|(of, _)| of == labels));
    found.unwrap_or_else(|| panic!("no {name} of {labels}: {:?}", samples.get(name))).1
}

/// A rig with keys in two databases, an expiry, failed commands, a script and two replicas.
fn busy_rig() -> Rig {
    let mut rig = Rig::with(&[("metrics-port", "1"), ("maxmemory", "100mb")]);
    for line in [
        "SET a 1",
        "SET b 1 EX 100",
        "GET a",
        "GET nosuch",
        "NOSUCH",
        "SELECT 2",
        "SET c 1",
        "CONFIG GET port",
    ] {
        rig.run(line);
    }
    rig.run("EVAL \"return redis.error_reply('MY\\\"CODE\\\\\\\\ x')\" 0");
    rig.replica();
    rig.replica();
    rig
}

#[test]
fn what_another_thread_has_read_of_the_process_takes_its_place_with_what_follows_from_it() {
    let mut rig = busy_rig();
    rig.process.facts.allocator_resident = 4 << 20;
    let mut sample = rig.engine.metrics_sample(&mut rig.process);
    let (resident, sys, user) = (6 << 20, 1_500_000, 2_000_000);
    let read = ProcessNumbers { resident, sys, user, sys_children: 3, ..ProcessNumbers::default() };
    sample.set_process_numbers(read);
    let format = MetricsFormat::OpenMetrics;
    let text = sample.text(format) + &EndpointNumbers::default().text(format);
    let samples = check_open_metrics(&text).unwrap_or_else(|reason| panic!("{reason}"));
    for (name, wanted) in [
        ("redis_memory_used_rss_bytes", (6 << 20) as f64),
        ("sluice_rss_overhead_ratio", 1.5),
        ("sluice_rss_overhead_bytes", (2 << 20) as f64),
        ("redis_mem_fragmentation_ratio", 6.0),
        ("redis_mem_fragmentation_bytes", (5 << 20) as f64),
        ("redis_cpu_sys_seconds_total", 1.5),
        ("redis_cpu_user_seconds_total", 2.0),
        ("redis_cpu_sys_children_seconds_total", 3e-6),
        ("redis_cpu_user_children_seconds_total", 0.0),
    ] {
        assert_eq!(number(&samples, name, ""), wanted, "{name}");
    }
}

#[test]
fn a_sample_is_valid_and_has_the_numbers_of_info() {
    let mut rig = busy_rig();
    let samples = samples(&mut rig);
    assert_eq!(number(&samples, "redis_up", ""), 1.0);
    assert_eq!(number(&samples, "redis_db_keys", "db=\"db0\""), 2.0);
    assert_eq!(number(&samples, "redis_db_keys_expiring", "db=\"db0\""), 1.0);
    assert_eq!(number(&samples, "redis_db_keys", "db=\"db2\""), 1.0);
    assert_eq!(number(&samples, "redis_db_keys", "db=\"db1\""), 0.0);
    assert_eq!(number(&samples, "redis_keyspace_hits_total", ""), 1.0);
    assert_eq!(number(&samples, "redis_keyspace_misses_total", ""), 1.0);
    assert_eq!(number(&samples, "redis_commands_total", "cmd=\"set\""), 3.0);
    assert_eq!(number(&samples, "redis_commands_total", "cmd=\"config|get\""), 1.0);
    assert_eq!(number(&samples, "redis_commands_latencies_usec_count", "cmd=\"get\""), 2.0);
    assert_eq!(number(&samples, "redis_commands_latencies_usec_bucket", "cmd=\"get\",le=\"+Inf\""), 2.0);
    assert_eq!(number(&samples, "redis_memory_max_bytes", ""), 104_857_600.0);
    assert_eq!(number(&samples, "redis_connected_slaves", ""), 2.0);
    assert_eq!(number(&samples, "redis_errors_total", "err=\"ERR\""), 1.0);
    assert_eq!(number(&samples, "redis_errors_total", "err=\"MY\\\"CODE\\\\\""), 1.0);
    assert_eq!(number(&samples, "sluice_sample_duration_seconds", ""), 0.000001);
    assert!(samples["redis_instance_info"][0].0.contains("role=\"master\""));
}

/// The values are those that redis_exporter makes of CLUSTER INFO, with 1 for `ok` and 0 for `fail`.
#[test]
fn a_node_of_a_cluster_says_whether_it_serves_and_how_many_are_down() {
    let mut rig = Rig::node(Some(&two_shards()), &[("metrics-port", "1")]);
    for (state, ms) in [(0.0, 0), (1.0, 2_100)] {
        rig.pass_ms(ms);
        rig.end_iteration();
        let samples = samples(&mut rig);
        for (name, value) in [
            ("state", state),
            ("nodes_pfail", 0.0),
            ("nodes_fail", 0.0),
            ("voting_nodes_pfail", 0.0),
            ("voting_nodes_fail", 0.0),
            ("known_nodes", 3.0),
        ] {
            assert_eq!(number(&samples, &format!("redis_cluster_{name}"), ""), value, "{name}");
        }
    }
}

/// Series that the dashboards and alerts of redis_exporter use (contrib/), and series that other dashboards
/// use most.
const ASKED_FOR: &str = "redis_up redis_uptime_in_seconds redis_start_time_seconds redis_instance_info redis_connected_clients \
    redis_blocked_clients redis_memory_used_bytes redis_memory_max_bytes redis_memory_used_rss_bytes redis_memory_used_peak_bytes \
    redis_memory_used_dataset_bytes redis_memory_used_overhead_bytes redis_mem_fragmentation_ratio redis_total_system_memory_bytes \
    redis_commands_processed_total redis_commands_total redis_commands_duration_seconds_total \
    redis_commands_failed_calls_total redis_commands_rejected_calls_total redis_commands_latencies_usec_bucket \
    redis_latency_percentiles_usec redis_errors_total redis_keyspace_hits_total redis_keyspace_misses_total \
    redis_net_input_bytes_total redis_net_output_bytes_total redis_db_keys redis_db_keys_expiring redis_db_avg_ttl_seconds \
    redis_expired_keys_total redis_evicted_keys_total redis_connected_slaves redis_connected_slave_offset_bytes \
    redis_slowlog_length redis_slowlog_last_id redis_config_maxmemory redis_config_maxclients redis_rejected_connections_total \
    redis_connections_received_total redis_pubsub_channels redis_pubsub_patterns redis_master_repl_offset \
    redis_replication_backlog_bytes redis_repl_backlog_is_active redis_rdb_last_save_timestamp_seconds \
    redis_rdb_changes_since_last_save redis_rdb_last_bgsave_status redis_rdb_bgsave_in_progress redis_aof_enabled \
    redis_loading_dump_file redis_cpu_sys_seconds_total redis_cpu_user_seconds_total redis_allocator_frag_ratio redis_process_id \
    redis_exporter_last_scrape_error redis_exporter_scrapes_total redis_exporter_last_scrape_duration_seconds \
    redis_client_recent_max_input_buffer_bytes redis_client_recent_max_output_buffer_bytes redis_total_error_replies \
    redis_io_threads_active redis_replica_resyncs_full redis_lazyfree_pending_objects redis_acl_access_denied_auth_total";

#[test]
fn boards_of_redis_exporter_find_what_they_ask_for() {
    let mut rig = busy_rig();
    let of_open_metrics = samples(&mut rig);
    let text = text(&mut rig, MetricsFormat::Prometheus);
    let names: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for name in ASKED_FOR.split_whitespace() {
        assert!(of_open_metrics.contains_key(name), "{name}");
        assert!(names.iter().any(|line| line.split(['{', ' ']).next() == Some(name)), "{name}");
    }
    assert!(text.contains("# TYPE redis_commands_processed_total counter\nredis_commands_processed_total "));
    assert!(text.contains("quantile=\"99.9\""));
    assert!(!text.contains("# EOF"));
}

#[test]
fn a_replica_shows_its_link_with_the_labels_of_the_exporter() {
    let mut rig = Rig::new();
    rig.run("REPLICAOF 10.0.0.7 6380");
    let samples = samples(&mut rig);
    let labels = "master_host=\"10.0.0.7\",master_port=\"6380\"";
    assert_eq!(number(&samples, "redis_master_link_up", labels), 0.0);
    assert_eq!(number(&samples, "redis_master_sync_in_progress", labels), 0.0);
    assert!(samples.contains_key("redis_slave_repl_offset") && samples.contains_key("redis_slave_info"));
    assert_eq!(rig.engine.metrics_sample(&mut rig.process).health, Health::LinkDown);
}

#[test]
fn the_number_of_series_has_a_bound() {
    let mut rig = Rig::with(&[("databases", "1000")]);
    for code in 0..500 {
        rig.run(&format!("EVAL \"return redis.error_reply('C{code} x')\" 0"));
    }
    let samples = samples(&mut rig);
    assert!(samples["redis_errors_total"].len() <= 140, "{}", samples["redis_errors_total"].len());
    assert_eq!(samples["redis_db_keys"].len(), 16);
    let all: usize = samples.values().map(Vec::len).sum();
    assert!(all < 2000, "{all}");
}

#[test]
fn clients_are_summed_by_the_cron_where_they_are_many() {
    let mut rig = Rig::with(&[("metrics-port", "1")]);
    let memory = |rig: &mut Rig| number(&samples(rig), "redis_mem_clients_normal", "");
    let few = memory(&mut rig);
    for _ in 0..1000 {
        rig.connect();
    }
    for _ in 0..25 {
        rig.pass_ms(100);
        rig.cron();
    }
    let many = memory(&mut rig);
    assert!((few * 990.0..few * 1020.0).contains(&many), "{few} {many}");
    let info = rig.run("INFO memory");
    let of_info = info.split("mem_clients_normal:").nth(1).unwrap().split("\\r").next().unwrap();
    let of_info: f64 = of_info.parse().unwrap();
    assert!((of_info - many).abs() < of_info / 100.0, "{of_info} {many}");
}

/// Names in the table of the documentation. A test in `observe/info/tests.rs` of the crate `control` checks
/// that the table has all rows.
fn documented() -> Vec<(String, bool)> {
    let page = include_str!("../../../../docs/fields.md");
    let table = page.split("<!-- fields -->").nth(1).unwrap().split("<!-- /fields -->").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| (row.split('`').next().unwrap().to_owned(), row.contains("_human`"))).collect()
}

#[test]
fn every_field_of_info_is_documented() {
    let mut rig = busy_rig();
    rig.process.facts.event_loop_counts = Some(Default::default());
    rig.process.facts.io_threads.active_us = vec![1, 2];
    rig.process.facts.listeners = vec![(0, "name=tcp".to_owned())];
    let mut lines = rig.run("INFO everything") + &rig.run("INFO debug");
    rig.run("REPLICAOF 10.0.0.7 6380");
    lines += &rig.run("INFO replication");
    let rows = documented();
    let is_row = |name: &str| {
        rows.iter().any(|(row, human)| match row.split_once('*') {
            Some((before, behind)) => name.starts_with(before) && name.ends_with(behind),
            None => name == row || *human && name.strip_suffix("_human") == Some(row),
        })
    };
    let mut seen = BTreeMap::new();
    for line in lines.split("\\r\\n").filter(|line| !line.contains("# ")) {
        let Some((name, _)) = line.trim_matches('"').split_once(':') else { continue };
        assert!(is_row(name), "{name} has no row");
        seen.insert(name.to_owned(), ());
    }
    assert!(seen.len() > 250, "{}", seen.len());
}

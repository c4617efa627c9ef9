//! Behaviour of INFO.

use sluice_control::process::MemoryShown;
use sluice_testkit::Rig;

/// The reply's text, without its quotes.
fn text(rig: &mut Rig, sections: &str) -> String {
    let reply = rig.run(&format!("INFO {sections}"));
    reply.trim_matches('"').replace("\\r\\n", "\n")
}

fn headings(rig: &mut Rig, sections: &str) -> Vec<String> {
    text(rig, sections).lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect()
}

fn field(rig: &mut Rig, section: &str, name: &str) -> String {
    let text = text(rig, section);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or("(none)").to_owned()
}

#[test]
fn numbers_of_memory_are_asked_for_behind_the_last_command_that_is_not_info() {
    let mut rig = Rig::new();
    let mut asked = |lines: &[&str]| {
        lines.iter().for_each(|line| drop(rig.run(line)));
        rig.process.memory_shown.pop().unwrap()
    };
    let first = asked(&["INFO"]);
    assert_eq!(asked(&["INFO memory", "INFO", "INFO all"]), first, "nothing but INFO has run");
    let MemoryShown::After(commands) = first else { panic!("{first:?}") };
    assert_eq!(asked(&["SET k v", "INFO memory"]), MemoryShown::After(commands + 1));
    assert_eq!(asked(&["INFO replication"]), MemoryShown::No);
    assert_eq!(asked(&["INFO stats cpu"]), MemoryShown::No);
    assert_eq!(asked(&["EVAL 'return 1' 0", "INFO cpu memory"]), MemoryShown::After(commands + 2));
}

#[test]
fn default_shows_these_sections() {
    let mut rig = Rig::new();
    let wanted = [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Modules",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ];
    assert_eq!(headings(&mut rig, ""), wanted);
    assert_eq!(headings(&mut rig, "default"), wanted);
}

#[test]
fn all_and_everything_show_more() {
    let mut rig = Rig::new();
    let all = headings(&mut rig, "all");
    assert_eq!(all, headings(&mut rig, "EVERYTHING"));
    for name in ["TLS", "Commandstats", "Latencystats", "Cluster Info", "Scripting Engines"] {
        assert!(all.iter().any(|heading| heading == name), "{name}");
    }
    assert!(!all.iter().any(|heading| heading == "Debug"));
}

#[test]
fn sections_come_in_their_own_order_and_once() {
    let mut rig = Rig::new();
    assert_eq!(headings(&mut rig, "keyspace cpu CPU"), ["CPU", "Keyspace"]);
    assert_eq!(headings(&mut rig, "default commandstats").len(), 12);
    assert_eq!(headings(&mut rig, "debug"), ["Debug"]);
    rig.check("INFO nosuch", "\"\"");
}

#[test]
fn an_empty_line_stands_between_sections() {
    let mut rig = Rig::new();
    assert_eq!(text(&mut rig, "modules cluster"), "# Modules\n\n# Cluster\ncluster_enabled:0\n");
}

#[test]
fn the_reply_is_verbatim_text_in_resp3() {
    let mut rig = Rig::new();
    rig.run("HELLO 3");
    assert_eq!(rig.run("INFO cluster"), "=txt:# Cluster\\r\\ncluster_enabled:0\\r\\n");
}

#[test]
fn server_names_versions_and_process() {
    let mut rig = Rig::new();
    for (name, value) in [
        ("redis_version", "7.2.4"),
        ("server_name", "valkey"),
        ("valkey_version", "9.1.2"),
        ("server_mode", "standalone"),
        ("process_id", "4711"),
        ("tcp_port", "6379"),
        ("hz", "10"),
        ("uptime_in_seconds", "0"),
    ] {
        assert_eq!(field(&mut rig, "server", name), value, "{name}");
    }
    rig.pass_ms(2 * 86_400_000);
    assert_eq!(field(&mut rig, "server", "uptime_in_days"), "2");
}

#[test]
fn the_mode_has_its_old_name_on_demand() {
    let mut rig = Rig::new();
    rig.run("CONFIG SET extended-redis-compatibility yes");
    assert_eq!(field(&mut rig, "server", "redis_mode"), "standalone");
    assert_eq!(field(&mut rig, "server", "server_mode"), "(none)");
    assert!(rig.run("LOLWUT").contains("Redis ver. 7.2.4"));
}

#[test]
fn clients_counts_connections_and_shows_a_pause() {
    let mut rig = Rig::new();
    rig.connect();
    assert_eq!(field(&mut rig, "clients", "connected_clients"), "2");
    assert_eq!(field(&mut rig, "clients", "paused_reason"), "none");
    rig.run("CLIENT PAUSE 10000 WRITE");
    assert_eq!(field(&mut rig, "clients", "paused_reason"), "client_pause");
    assert_eq!(field(&mut rig, "clients", "paused_actions"), "write");
    let left: i64 = field(&mut rig, "clients", "paused_timeout_milliseconds").parse().unwrap_or(0);
    assert!((9_900..=10_000).contains(&left), "{left}");
}

#[test]
fn memory_is_the_processes_and_adds_up() {
    let mut rig = Rig::new();
    rig.process.facts.used_memory = 3 << 20;
    rig.process.facts.used_memory_peak = 4 << 20;
    rig.process.facts.used_memory_startup = 1 << 20;
    rig.process.facts.resident = 6 << 20;
    assert_eq!(field(&mut rig, "memory", "used_memory"), "3145728");
    assert_eq!(field(&mut rig, "memory", "used_memory_human"), "3.00M");
    assert_eq!(field(&mut rig, "memory", "used_memory_peak_perc"), "75.00%");
    assert_eq!(field(&mut rig, "memory", "mem_fragmentation_ratio"), "2.00");
    let number = |rig: &mut Rig, name: &str| field(rig, "memory", name).parse::<u64>().unwrap_or(0);
    let (overhead, dataset) =
        (number(&mut rig, "used_memory_overhead"), number(&mut rig, "used_memory_dataset"));
    assert_eq!(overhead + dataset, 3 << 20);
    assert!(overhead > 1 << 20);
}

#[test]
fn stats_count_look_ups_connections_and_errors() {
    let mut rig = Rig::new();
    for line in ["SET a 1", "GET a", "GET b", "NOSUCH"] {
        rig.run(line);
    }
    for (name, value) in [
        ("keyspace_hits", "1"),
        ("keyspace_misses", "1"),
        ("total_connections_received", "1"),
        ("total_error_replies", "1"),
        ("expired_keys", "0"),
    ] {
        assert_eq!(field(&mut rig, "stats", name), value, "{name}");
    }
}

#[test]
fn changes_are_counted_since_the_last_save() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("DEL a");
    assert_eq!(field(&mut rig, "persistence", "rdb_changes_since_last_save"), "2");
}

#[test]
fn commandstats_tell_refused_from_failed() {
    let mut rig = Rig::new();
    for line in ["GET a", "GET", "SET a 1 EX 0", "CONFIG GET port"] {
        rig.run(line);
    }
    let stat = |rig: &mut Rig, name: &str| field(rig, "commandstats", &format!("cmdstat_{name}"));
    let get = stat(&mut rig, "get");
    assert!(get.starts_with("calls=1,usec=") && get.ends_with(",rejected_calls=1,failed_calls=0"), "{get}");
    let set = stat(&mut rig, "set");
    assert!(set.starts_with("calls=1,usec=") && set.ends_with(",rejected_calls=0,failed_calls=1"), "{set}");
    assert!(stat(&mut rig, "config|get").contains(",usec_per_call="));
    assert_eq!(stat(&mut rig, "append"), "(none)");
}

#[test]
fn errorstats_count_by_code() {
    let mut rig = Rig::new();
    rig.run("NOSUCH");
    rig.run("CONFIG SET maxmemory 1");
    rig.run("SET a 1");
    assert_eq!(field(&mut rig, "errorstats", "errorstat_ERR"), "count=1");
    assert_eq!(field(&mut rig, "errorstats", "errorstat_OOM"), "count=1");
}

#[test]
fn latencystats_show_the_configured_percentiles() {
    let mut rig = Rig::new();
    rig.run("GET a");
    let line = field(&mut rig, "latencystats", "latency_percentiles_usec_get");
    assert!(line.starts_with("p50=") && line.contains(",p99=") && line.contains(",p99.9="), "{line}");
    rig.run("CONFIG SET latency-tracking-info-percentiles \"0.0 50.0 100.0\"");
    let line = field(&mut rig, "latencystats", "latency_percentiles_usec_get");
    assert!(line.starts_with("p0=") && line.contains(",p50=") && line.contains(",p100="), "{line}");
    rig.run("CONFIG SET latency-tracking no");
    assert_eq!(text(&mut rig, "latencystats"), "# Latencystats\n");
}

#[test]
fn keyspace_lists_databases_that_hold_keys() {
    let mut rig = Rig::new();
    assert_eq!(text(&mut rig, "keyspace"), "# Keyspace\n");
    rig.run("SET a 1");
    rig.run("SET b 1 EX 100");
    assert_eq!(field(&mut rig, "keyspace", "db0"), "keys=2,expires=1,avg_ttl=0,keys_with_volatile_items=0");
    assert_eq!(field(&mut rig, "keyspace", "db1"), "(none)");
}

#[test]
fn debug_times_the_cron() {
    let mut rig = Rig::new();
    rig.pass_ms(1000);
    rig.cron();
    assert_ne!(field(&mut rig, "debug", "eventloop_duration_cron_sum"), "0");
}

#[test]
fn replication_knows_who_is_fed() {
    let mut rig = Rig::new();
    assert_eq!(field(&mut rig, "replication", "role"), "master");
    assert_eq!(field(&mut rig, "replication", "connected_slaves"), "0");
    assert_eq!(field(&mut rig, "replication", "master_replid").len(), 40);
}

#[test]
fn server_names_its_own_version_and_its_supervisor() {
    let mut rig = Rig::new();
    rig.process.facts.own_version = "0.1.0+1a2b3c4d5e6f";
    assert_eq!(field(&mut rig, "server", "sluice_version"), "0.1.0+1a2b3c4d5e6f");
    assert_eq!(field(&mut rig, "server", "valkey_version"), "9.1.2");
    assert_eq!(field(&mut rig, "server", "process_supervised"), "no");
    rig.process.facts.supervised = Some("systemd");
    assert_eq!(field(&mut rig, "server", "process_supervised"), "systemd");
}

#[test]
fn stats_count_errors_that_replicas_are_sent() {
    let mut rig = Rig::new();
    rig.run("nosuch");
    assert_eq!(field(&mut rig, "stats", "unexpected_error_replies"), "0");
    let replica = rig.replica();
    rig.run_as(replica, "nosuch");
    assert_eq!(field(&mut rig, "stats", "unexpected_error_replies"), "1");
    assert_eq!(field(&mut rig, "stats", "total_error_replies"), "2");
}

#[test]
fn clients_shows_the_largest_output_of_the_last_seconds() {
    let mut rig = Rig::new();
    rig.run(&format!("SET k {}", "x".repeat(5000)));
    rig.run("GET k");
    let mut peaks = Vec::new();
    for _ in 0..10 {
        peaks.push(
            field(&mut rig, "clients", "client_recent_max_output_buffer").parse::<usize>().unwrap_or(0),
        );
        rig.pass_ms(1000);
        rig.cron();
    }
    assert!(peaks[..8].iter().all(|peak| *peak >= 5000), "{peaks:?}");
    assert!(peaks[9] < 5000, "{peaks:?}");
}

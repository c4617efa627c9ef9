//! The directives that the cluster node's state machine uses.

use sluice_base::LogLevel;
use sluice_cluster::{
    BusDebug, BusTransport, ClusterSettings, MigrationRules, NodeLabels, OwnAddress, ReplicaRules,
    SaveBehavior,
};
use sluice_config::choice::ClusterSaveBehavior;
use sluice_config::{Config, param};
use std::sync::Arc;

/// The default port of the bus is the client port plus this number.
const BUS_PORT_OFFSET: i64 = 10_000;

/// The machine's settings from a configuration.
pub fn of(config: &Config, debug: BusDebug) -> ClusterSettings {
    ClusterSettings {
        node_timeout_ms: config.uint(param::CLUSTER_NODE_TIMEOUT),
        ping_interval_ms: config.uint(param::CLUSTER_PING_INTERVAL),
        gossip_percent: u8::try_from(config.int(param::CLUSTER_MESSAGE_GOSSIP_PERC)).unwrap_or(100),
        require_full_coverage: config.bool(param::CLUSTER_REQUIRE_FULL_COVERAGE),
        replica: ReplicaRules {
            no_failover: config.bool(param::CLUSTER_REPLICA_NO_FAILOVER),
            validity_factor: config.uint(param::CLUSTER_REPLICA_VALIDITY_FACTOR),
            ping_period_ms: config.uint(param::REPL_PING_REPLICA_PERIOD).saturating_mul(1_000),
            migration_barrier: config.uint(param::CLUSTER_MIGRATION_BARRIER),
        },
        migration: MigrationRules {
            repl_timeout_ms: config.uint(param::REPL_TIMEOUT).saturating_mul(1_000),
            log_len_max: usize::try_from(config.uint(param::CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN))
                .unwrap_or(usize::MAX),
            uses_tls: config.bool(param::TLS_REPLICATION),
        },
        allow_replica_migration: config.bool(param::CLUSTER_ALLOW_REPLICA_MIGRATION),
        manual_failover_timeout_ms: config.uint(param::CLUSTER_MANUAL_FAILOVER_TIMEOUT),
        blacklist_ttl_s: config.uint(param::CLUSTER_BLACKLIST_TTL),
        link_publish_limit_bytes: ClusterSettings::default().link_publish_limit_bytes,
        link_sendbuf_limit_bytes: config.uint(param::CLUSTER_LINK_SENDBUF_LIMIT),
        save_behavior: match config.choice::<ClusterSaveBehavior>(param::CLUSTER_CONFIG_SAVE_BEHAVIOR) {
            ClusterSaveBehavior::Sync => SaveBehavior::Sync,
            ClusterSaveBehavior::BestEffort => SaveBehavior::BestEffort,
        },
        transport: match config.bool(param::TLS_CLUSTER) {
            true => BusTransport::Tls,
            false => BusTransport::Tcp,
        },
        announced: own_address(config),
        // The machine reports lines of every level, because the process filters them by `loglevel`.
        log_level: LogLevel::Debug,
        debug,
    }
}

/// The port of the cluster bus: `cluster-port`, or else the client port (with `tls-cluster`, the TLS port)
/// plus 10,000.
pub fn bus_port(config: &Config) -> i64 {
    let base = match config.bool(param::TLS_CLUSTER) {
        true => config.int(param::TLS_PORT),
        false => config.int(param::PORT),
    };
    match config.int(param::CLUSTER_PORT) {
        0 => base + BUS_PORT_OFFSET,
        port => port,
    }
}

fn own_address(config: &Config) -> OwnAddress {
    // The conversion does not fail: the directives allow only valid port numbers, and a bus port above 65,535
    // is refused at the start.
    let port = |number: i64| u16::try_from(number).unwrap_or(0);
    let announced = |directive, own: i64| match config.int(directive) {
        0 => port(own),
        announced => port(announced),
    };
    let text = |directive| config.str(directive).into_owned();
    let ip = text(param::CLUSTER_ANNOUNCE_IP);
    OwnAddress {
        ip: (!ip.is_empty()).then(|| ip.into()),
        tcp_port: announced(param::CLUSTER_ANNOUNCE_PORT, config.int(param::PORT)),
        tls_port: announced(param::CLUSTER_ANNOUNCE_TLS_PORT, config.int(param::TLS_PORT)),
        bus_port: announced(param::CLUSTER_ANNOUNCE_BUS_PORT, bus_port(config)),
        labels: NodeLabels {
            host_name: text(param::CLUSTER_ANNOUNCE_HOSTNAME).into(),
            human_name: Arc::from(config.bytes(param::CLUSTER_ANNOUNCE_HUMAN_NODENAME)),
            availability_zone: Arc::from(config.bytes(param::AVAILABILITY_ZONE)),
            client_ipv4: text(param::CLUSTER_ANNOUNCE_CLIENT_IPV4).parse().ok(),
            client_ipv6: text(param::CLUSTER_ANNOUNCE_CLIENT_IPV6).parse().ok(),
            client_port: port(config.int(param::CLUSTER_ANNOUNCE_CLIENT_PORT)),
            client_tls_port: port(config.int(param::CLUSTER_ANNOUNCE_CLIENT_TLS_PORT)),
        },
    }
}

//! Directives that the machine reads (C-1), and facts of the process at its start.

use crate::address::{BusTransport, IpText, NodeLabels};
use sluice_base::LogLevel;

/// What a failed write of `nodes.conf` does: `cluster-config-save-behavior` (N-22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveBehavior {
    /// The process ends.
    #[default]
    Sync,
    /// The node goes on, and gives no vote until a write succeeds.
    BestEffort,
}

/// Directives about replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRules {
    /// `cluster-replica-no-failover`: this node announces NOFAILOVER, and does not stand for election.
    pub no_failover: bool,
    /// `cluster-replica-validity-factor`; 0 for any age.
    pub validity_factor: u64,
    /// `repl-ping-replica-period`, in ms.
    pub ping_period_ms: u64,
    /// `cluster-migration-barrier`: replicas that a primary keeps when one of them moves.
    pub migration_barrier: u64,
}

impl Default for ReplicaRules {
    fn default() -> ReplicaRules {
        ReplicaRules { no_failover: false, validity_factor: 10, ping_period_ms: 10_000, migration_barrier: 1 }
    }
}

/// Directives about atomic moves of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationRules {
    /// `repl-timeout`, in ms: how long the other side of a job may be silent.
    pub repl_timeout_ms: u64,
    /// `cluster-slot-migration-log-max-len`: jobs that are remembered.
    pub log_len_max: usize,
    /// `tls-replication`: connections to targets are of TLS.
    pub uses_tls: bool,
}

impl Default for MigrationRules {
    fn default() -> MigrationRules {
        MigrationRules { repl_timeout_ms: 60_000, log_len_max: 1_000, uses_tls: false }
    }
}

/// Directives in force. A change is a whole new record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `cluster-node-timeout`, *T*.
    pub node_timeout_ms: u64,
    /// `cluster-ping-interval`; 0 for T/2.
    pub ping_interval_ms: u64,
    /// `cluster-message-gossip-perc`, 1 to 100.
    pub gossip_percent: u8,
    /// `cluster-require-full-coverage`.
    pub require_full_coverage: bool,
    /// What this node does as a replica.
    pub replica: ReplicaRules,
    /// What holds for atomic moves of slots.
    pub migration: MigrationRules,
    /// `cluster-allow-replica-migration`.
    pub allow_replica_migration: bool,
    /// `cluster-manual-failover-timeout`.
    pub manual_failover_timeout_ms: u64,
    /// `cluster-blacklist-ttl`.
    pub blacklist_ttl_s: u64,
    /// `cluster-link-sendbuf-limit`; 0 for none.
    pub link_sendbuf_limit_bytes: u64,
    /// `cluster-link-publish-limit`: bytes of published messages that wait on one link at most.
    pub link_publish_limit_bytes: u64,
    /// `cluster-config-save-behavior`.
    pub save_behavior: SaveBehavior,
    /// `tls-cluster`.
    pub transport: BusTransport,
    /// What others are told of this node.
    pub announced: OwnAddress,
    /// Log lines below this level are not made.
    pub log_level: LogLevel,
    /// Switches of DEBUG.
    pub debug: BusDebug,
}

/// Address, ports and names of this node, for others. Ports are derived: the announced one, else the one that
/// is listened on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddress {
    /// `cluster-announce-ip`.
    pub ip: Option<IpText>,
    /// The port of clients without TLS; 0 for none.
    pub tcp_port: u16,
    /// The port of clients with TLS; 0 for none.
    pub tls_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Names, and addresses for clients.
    pub labels: NodeLabels,
}

/// Switches of DEBUG for the bus (V-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusDebug {
    /// `DEBUG DROP-CLUSTER-PACKET-FILTER`.
    pub packet_filter: PacketFilter,
    /// `DEBUG CLOSE-CLUSTER-LINK-ON-PACKET-DROP`.
    pub on_packet_drop: OnPacketDrop,
    /// `DEBUG DISABLE-CLUSTER-RANDOM-PING`.
    pub random_ping: Switch,
    /// `DEBUG DISABLE-CLUSTER-RECONNECTION`.
    pub reconnection: Switch,
    /// `DEBUG SLOTMIGRATION PREVENT-FAILOVER`.
    pub takeover_of_imports: Switch,
    /// `DEBUG SLOTMIGRATION PREVENT-PAUSE`.
    pub pauses_of_exports: Switch,
}

/// Which received messages are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketFilter {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Packets whose type has this number on the wire.
    Type(u16),
}

/// What becomes of a link whose message the filter drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPacketDrop {
    /// The link stays.
    #[default]
    Keep,
    /// The link is closed.
    Close,
}

/// Whether a part of the cron runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// The part runs.
    #[default]
    Runs,
    /// The part does nothing.
    Disabled,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            node_timeout_ms: 15_000,
            ping_interval_ms: 0,
            gossip_percent: 10,
            require_full_coverage: true,
            replica: ReplicaRules::default(),
            migration: MigrationRules::default(),
            allow_replica_migration: true,
            manual_failover_timeout_ms: 5_000,
            blacklist_ttl_s: 60,
            link_sendbuf_limit_bytes: 0,
            link_publish_limit_bytes: 64 << 20,
            save_behavior: SaveBehavior::Sync,
            transport: BusTransport::Tcp,
            announced: OwnAddress::default(),
            log_level: LogLevel::Notice,
            debug: BusDebug::default(),
        }
    }
}

impl ClusterSettings {
    /// How old the last pong may be before a ping is due (G-8).
    pub(crate) fn ping_after_ms(&self) -> u64 {
        if self.ping_interval_ms > 0 { self.ping_interval_ms } else { self.node_timeout_ms / 2 }
    }

    /// How long a handshake lasts, and how long a node waits before it repeats a MEET (G-13, G-15).
    pub(crate) fn handshake_ms(&self) -> u64 {
        self.node_timeout_ms.max(1_000)
    }
}

//! The directives that the state machine reads (C-1).

use crate::address::{BusTransport, IpText, NodeLabels};
use sluice_base::LogLevel;

/// What a failed write of `nodes.conf` does: `cluster-config-save-behavior` (N-22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveBehavior {
    /// The process ends with an error.
    #[default]
    Sync,
    /// The node keeps running, and gives no vote until a write succeeds.
    BestEffort,
}

/// Directives about this node as a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRules {
    /// `cluster-replica-no-failover`: this node announces NOFAILOVER, and starts no election by itself.
    pub no_failover: bool,
    /// `cluster-replica-validity-factor`; 0 accepts data of any age.
    pub validity_factor: u64,
    /// `repl-ping-replica-period`, in ms: time between two PINGs of a primary.
    pub ping_period_ms: u64,
    /// `cluster-migration-barrier`: replicas that a primary must keep when one of them moves
    /// to another primary.
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
    /// `repl-timeout`, in ms: the time for which a source may send nothing, and a target may send no ACK.
    pub repl_timeout_ms: u64,
    /// `cluster-slot-migration-log-max-len`: length of the list of jobs above which finished
    /// ones are dropped.
    pub log_len_max: usize,
    /// `tls-replication`: connections to targets use TLS.
    pub uses_tls: bool,
}

impl Default for MigrationRules {
    fn default() -> MigrationRules {
        MigrationRules { repl_timeout_ms: 60_000, log_len_max: 1_000, uses_tls: false }
    }
}

/// All directives in force. A change replaces the whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `cluster-node-timeout`, *T*, in ms: a node that is silent for this long is suspected.
    pub node_timeout_ms: u64,
    /// `cluster-ping-interval`, in ms; 0 stands for T/2.
    pub ping_interval_ms: u64,
    /// `cluster-message-gossip-perc`, 1 to 100: the share of the known nodes that are drawn for a message's
    /// gossip.
    pub gossip_percent: u8,
    /// `cluster-require-full-coverage`: a slot without an owner, or with a failed one, takes the cluster
    /// down.
    pub require_full_coverage: bool,
    /// Directives about this node as a replica.
    pub replica: ReplicaRules,
    /// Directives about atomic moves of slots.
    pub migration: MigrationRules,
    /// `cluster-allow-replica-migration`: this node may become a replica of another primary by itself.
    pub allow_replica_migration: bool,
    /// `cluster-manual-failover-timeout`, in ms: the longest time that a manual failover may take.
    pub manual_failover_timeout_ms: u64,
    /// `cluster-blacklist-ttl`, in seconds: how long a forgotten node stays forgotten.
    pub blacklist_ttl_s: u64,
    /// `cluster-link-sendbuf-limit`, in bytes of one link's queue; 0 for no limit.
    pub link_sendbuf_limit_bytes: u64,
    /// `cluster-link-publish-limit`: the most bytes of published messages that may wait on one link.
    pub link_publish_limit_bytes: u64,
    /// `cluster-config-save-behavior`: what a failed write of `nodes.conf` does.
    pub save_behavior: SaveBehavior,
    /// `tls-cluster`: whether the bus uses TLS.
    pub transport: BusTransport,
    /// The address, ports and names that this node announces.
    pub announced: OwnAddress,
    /// Log lines below this level are not written.
    pub log_level: LogLevel,
    /// Switches that DEBUG sets, for tests.
    pub debug: BusDebug,
}

/// Address, ports and names of this node, for other nodes. A port is the announced port, or, if none is
/// announced, the port on which the node listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddress {
    /// `cluster-announce-ip`; `None` if the directive is not set.
    pub ip: Option<IpText>,
    /// The port of clients without TLS; 0 for none.
    pub tcp_port: u16,
    /// The port of clients with TLS; 0 for none.
    pub tls_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Names of this node, and its addresses for clients.
    pub labels: NodeLabels,
}

/// Switches of DEBUG for the bus (V-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusDebug {
    /// `DEBUG DROP-CLUSTER-PACKET-FILTER`: received messages that this node drops.
    pub packet_filter: PacketFilter,
    /// `DEBUG CLOSE-CLUSTER-LINK-ON-PACKET-DROP`: whether a dropped message closes its link.
    pub on_packet_drop: OnPacketDrop,
    /// `DEBUG DISABLE-CLUSTER-RANDOM-PING`: whether the cron pings random nodes.
    pub random_ping: Switch,
    /// `DEBUG DISABLE-CLUSTER-RECONNECTION`: whether the cron dials lost links again.
    pub reconnection: Switch,
    /// `DEBUG SLOTMIGRATION PREVENT-FAILOVER`: whether granted imports claim their slots.
    pub takeover_of_imports: Switch,
    /// `DEBUG SLOTMIGRATION PREVENT-PAUSE`: whether exports hold writes back.
    pub pauses_of_exports: Switch,
}

/// The received messages that the debug filter drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketFilter {
    /// No message is dropped.
    #[default]
    None,
    /// Every message is dropped.
    All,
    /// Messages whose type has this number on the wire are dropped.
    Type(u16),
}

/// What happens to a link when the filter drops one of its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPacketDrop {
    /// The link stays open.
    #[default]
    Keep,
    /// The link is closed.
    Close,
}

/// Whether a part of the node's work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// The work is done, as in production.
    #[default]
    Runs,
    /// The work is left out, for a test.
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
    /// Age of the last pong, in ms, from which on a ping is due (G-8).
    pub(crate) fn ping_after_ms(&self) -> u64 {
        if self.ping_interval_ms > 0 { self.ping_interval_ms } else { self.node_timeout_ms / 2 }
    }

    /// Milliseconds that a handshake may last, and that a node waits before it repeats a MEET (G-13, G-15).
    pub(crate) fn handshake_ms(&self) -> u64 {
        self.node_timeout_ms.max(1_000)
    }
}

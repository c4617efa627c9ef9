//! The contents of the bus's messages, after all checks (W-1 to W-17).

use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::slots::BITMAP_LEN;

/// The kinds of messages, with their numbers on the wire (W-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum MessageType {
    /// A node's regular message, which a PONG answers.
    Ping = 0,
    /// The answer to a PING or MEET, or an unasked announcement to all nodes.
    Pong = 1,
    /// A PING whose sender wants to join the receiver's cluster.
    Meet = 2,
    /// The report that a node has failed.
    Fail = 3,
    /// A message for subscribers of a channel.
    Publish = 4,
    /// A replica asks for votes.
    AuthRequest = 5,
    /// A voter's vote for the replica that asked.
    AuthAck = 6,
    /// The slots of a node, for a node that has an older state of them.
    Update = 7,
    /// A replica asks its primary to pause writes for a manual failover.
    ManualFailoverStart = 8,
    /// A message between modules; its contents are not read.
    Module = 9,
    /// A message for subscribers of a sharded channel.
    PublishShard = 10,
}

/// Properties of a node, in its own header or in gossip about it; W-3 lists the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFlags(pub u16);

impl NodeFlags {
    /// The node is a primary.
    pub const PRIMARY: NodeFlags = NodeFlags(0x0001);
    /// The node is a replica.
    pub const REPLICA: NodeFlags = NodeFlags(0x0002);
    /// The node does not answer the sender of the flags.
    pub const PFAIL: NodeFlags = NodeFlags(0x0004);
    /// The node has failed, because a quorum agrees.
    pub const FAIL: NodeFlags = NodeFlags(0x0008);
    /// The node is the sender of the flags.
    pub const MYSELF: NodeFlags = NodeFlags(0x0010);
    /// The node's id is not known yet. Gossip leaves such nodes out.
    pub const HANDSHAKE: NodeFlags = NodeFlags(0x0020);
    /// The node's address is not known. Gossip leaves such nodes out.
    pub const NOADDR: NodeFlags = NodeFlags(0x0040);
    /// The node is to get a MEET.
    pub const MEET: NodeFlags = NodeFlags(0x0080);
    /// Replicas of others may move to this primary.
    pub const MIGRATE_TO: NodeFlags = NodeFlags(0x0100);
    /// The replica does not start a failover by itself.
    pub const NOFAILOVER: NodeFlags = NodeFlags(0x0200);
    /// The node reads extensions. This flag is read in gossip about the node; in the node's own header,
    /// EXT_DATA counts instead.
    pub const EXTENSIONS: NodeFlags = NodeFlags(0x0400);
    /// The node reads published messages with a light header.
    pub const LIGHT_PUBLISH: NodeFlags = NodeFlags(0x0800);
    /// The node reads light messages of modules, and may be sent MEET again.
    pub const MULTI_MEET: NodeFlags = NodeFlags(0x1000);
    /// The replica considers its primary failed.
    pub const MY_PRIMARY_FAIL: NodeFlags = NodeFlags(0x2000);

    /// Whether every bit of `other` is set.
    pub fn contains(self, other: NodeFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for NodeFlags {
    type Output = NodeFlags;

    fn bitor(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 | other.0)
    }
}

/// Flags of one message: byte 2253 of its header (W-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags {
    /// PAUSED: the sender is a primary that pauses writes for a manual failover.
    pub is_paused: bool,
    /// FORCEACK: a voter may vote although the primary is up.
    pub force_ack: bool,
    /// EXT_DATA: the sender reads extensions.
    pub reads_extensions: bool,
}

/// The full header (2.1): the sender, and the slots and epochs that it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusHeader<'a> {
    /// The highest epoch of elections that the sender knows.
    pub current_epoch: ClusterEpoch,
    /// The epoch of `slots`: the config epoch of the sender, or of its primary if it is a replica.
    pub config_epoch: ClusterEpoch,
    /// The sender's replication offset; a replica sends the offset that it has processed (N-8).
    pub offset: u64,
    /// The id of the sending node.
    pub sender: NodeId,
    /// The sender's slots, or those of its primary, as a bitmap.
    pub slots: &'a [u8; BITMAP_LEN],
    /// The sender's primary; `None` for a primary.
    pub replica_of: Option<NodeId>,
    /// The address that the sender announces, as text without NUL. If it is empty, the address of the
    /// connection counts.
    pub ip: &'a str,
    /// The port for clients: the TLS port if the sender has `tls-cluster yes`, or the TCP port.
    pub port: u16,
    /// The other port for clients; 0 for none.
    pub other_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Bits about the sender.
    pub flags: NodeFlags,
    /// Whether the sender considers the cluster down. This server ignores the field.
    pub is_down: bool,
    /// The flags of this message.
    pub message_flags: MessageFlags,
}

/// A message whose every part has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusMessage<'a> {
    /// A message with a full header, which names the sender.
    Full(BusHeader<'a>, MessageBody<'a>),
    /// A message that names no sender. The node of its connection counts as the sender (W-4).
    Light(LightBody<'a>),
}

/// The body after a full header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody<'a> {
    /// A request for a PONG, with gossip.
    Ping(Gossip<'a>),
    /// The answer to a PING or MEET, or an announcement, with gossip.
    Pong(Gossip<'a>),
    /// A PING of a sender that wants to join the receiver's cluster.
    Meet(Gossip<'a>),
    /// The report that the node with this id has failed.
    Fail(NodeId),
    /// A message for subscribers of a channel.
    Publish(PublishedMessage<'a>),
    /// A message for subscribers of a sharded channel.
    PublishShard(PublishedMessage<'a>),
    /// A replica's request for votes.
    AuthRequest,
    /// A voter's vote for the replica that asked.
    AuthAck,
    /// The slots of a node, for a receiver that has an older state of them.
    Update {
        /// The config epoch of these slots.
        config_epoch: ClusterEpoch,
        /// The owner of the slots.
        node: NodeId,
        /// The slots, as a bitmap.
        slots: &'a [u8; BITMAP_LEN],
    },
    /// A replica's request that its primary pauses writes.
    ManualFailoverStart,
    /// A message between modules; its contents are not read.
    Module,
    /// A message of an unknown type; only its header is used (W-13).
    Unknown(u16),
}

/// The body after a light header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LightBody<'a> {
    /// A message for subscribers of a channel.
    Publish(PublishedMessage<'a>),
    /// A message for subscribers of a sharded channel.
    PublishShard(PublishedMessage<'a>),
    /// A message between modules; its contents are not read.
    Module,
}

/// A published message, for subscribers of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedMessage<'a> {
    /// The name of the channel, any bytes.
    pub channel: &'a [u8],
    /// The message as the client published it.
    pub message: &'a [u8],
}

/// Gossip about other nodes in PING, PONG and MEET, and extensions about the sender.
///
/// Entries are parsed by an iterator, not collected in a list, because a message may have 65,535 of them.
/// Their number and ids have been checked already; their addresses are checked when they are parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gossip<'a> {
    /// The entries' bytes, 104 each; [`Gossip::entries`] parses them.
    pub(super) entries: &'a [u8],
    /// Number of entries with a malformed id; if it is not 0, the whole section is ignored (G-11).
    pub invalid_ids: u16,
    /// The extensions' bytes; `None` for a message without extensions, which differs from one with
    /// unknown extensions only (W-10).
    pub(super) extensions: Option<&'a [u8]>,
}

/// A message's gossip about one node, which is neither sender nor receiver (2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipEntry<'a> {
    /// The node that the entry is about.
    pub node: NodeId,
    /// Time at which the sender sent the unanswered ping to the node, as wall time in seconds; 0 for none.
    pub ping_sent_s: u32,
    /// Time at which the sender last received a pong of the node, as wall time in seconds.
    pub pong_received_s: u32,
    /// The address as text without NUL. Entries in which no NUL ends the address are skipped.
    pub ip: &'a str,
    /// The port for clients: the TLS port if the sender has `tls-cluster yes`, or the TCP port.
    pub port: u16,
    /// The other port for clients; 0 for none.
    pub other_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Flags as on the wire; the reader decides which bits to believe (G-10).
    pub flags: NodeFlags,
}

/// The contents of an extension (2.3). A text that CONFIG SET would refuse counts as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension<'a> {
    /// The sender's `cluster-announce-hostname`, not empty.
    HostName(&'a str),
    /// The sender's `cluster-announce-human-nodename`, not empty.
    HumanName(&'a [u8]),
    /// A node that an operator had forgotten.
    Forgotten(ForgottenNode),
    /// The id of the sender's shard.
    Shard(ShardId),
    /// The sender's `cluster-announce-client-ipv4`, not empty.
    ClientIpv4(std::net::Ipv4Addr),
    /// The sender's `cluster-announce-client-ipv6`, not empty.
    ClientIpv6(crate::text::Ipv6Text),
    /// The sender's `cluster-announce-client-port`, for TCP.
    ClientPort(u16),
    /// The sender's `cluster-announce-client-tls-port`, for TLS.
    ClientTlsPort(u16),
    /// The sender's `availability-zone`, not empty.
    AvailabilityZone(&'a [u8]),
}

/// A node that an operator has forgotten, and the number of seconds for which it stays forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenNode {
    /// The id of the forgotten node.
    pub node: NodeId,
    /// Seconds left; the wire allows any number (G-21).
    pub seconds: u64,
}

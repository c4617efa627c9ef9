//! What the bus's messages hold, checked (W-1 to W-17).

use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::slots::BITMAP_LEN;

/// The kinds of messages, with their numbers on the wire (W-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum MessageType {
    /// What a node says by itself, and what is answered with a PONG.
    Ping = 0,
    /// The answer to a PING or MEET; a change that all are to hear at once.
    Pong = 1,
    /// A PING whose sender wants to be known.
    Meet = 2,
    /// A node has failed.
    Fail = 3,
    /// A message for subscribers of a channel.
    Publish = 4,
    /// A replica asks for votes.
    AuthRequest = 5,
    /// A vote.
    AuthAck = 6,
    /// The slots of a node, for one that has them wrong.
    Update = 7,
    /// A replica asks its primary to pause for a failover by hand.
    ManualFailoverStart = 8,
    /// A module's own.
    Module = 9,
    /// A message for subscribers of a sharded channel.
    PublishShard = 10,
}

/// What a node says of itself in a header, or another of it in gossip: bits of W-3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFlags(pub u16);

impl NodeFlags {
    /// The node is a primary.
    pub const PRIMARY: NodeFlags = NodeFlags(0x0001);
    /// The node is a replica.
    pub const REPLICA: NodeFlags = NodeFlags(0x0002);
    /// The node does not answer the one who speaks of it.
    pub const PFAIL: NodeFlags = NodeFlags(0x0004);
    /// The node has failed, as a quorum holds.
    pub const FAIL: NodeFlags = NodeFlags(0x0008);
    /// The node is the one who speaks.
    pub const MYSELF: NodeFlags = NodeFlags(0x0010);
    /// The node's id is not known yet. Such nodes are not spoken of.
    pub const HANDSHAKE: NodeFlags = NodeFlags(0x0020);
    /// The node's address is not known. Such nodes are not spoken of.
    pub const NOADDR: NodeFlags = NodeFlags(0x0040);
    /// The node is to get a MEET.
    pub const MEET: NodeFlags = NodeFlags(0x0080);
    /// Replicas of others may move to this primary.
    pub const MIGRATE_TO: NodeFlags = NodeFlags(0x0100);
    /// The replica does not take over by itself.
    pub const NOFAILOVER: NodeFlags = NodeFlags(0x0200);
    /// The node reads extensions, as gossip says it.
    pub const EXTENSIONS: NodeFlags = NodeFlags(0x0400);
    /// The node reads published messages with a light header.
    pub const LIGHT_PUBLISH: NodeFlags = NodeFlags(0x0800);
    /// The node reads light messages of modules, and may be sent MEET again.
    pub const MULTI_MEET: NodeFlags = NodeFlags(0x1000);
    /// The replica holds its primary for FAIL.
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

/// What a header says of its message: byte 2253 (W-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags {
    /// PAUSED: the sender is a primary that pauses writes for a manual failover.
    pub is_paused: bool,
    /// FORCEACK: a voter is to vote although the primary is up.
    pub force_ack: bool,
    /// EXT_DATA: the sender reads extensions.
    pub reads_extensions: bool,
}

/// The full header (2.1): who speaks, and what that node claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusHeader<'a> {
    /// The highest epoch of elections that the sender knows.
    pub current_epoch: ClusterEpoch,
    /// The version of `slots`: the sender's, or that of its primary.
    pub config_epoch: ClusterEpoch,
    /// The sender's offset in the replication stream; of a replica, what it has processed (N-8).
    pub offset: u64,
    /// The sender's id.
    pub sender: NodeId,
    /// The sender's slots, or those of its primary, as a bitmap.
    pub slots: &'a [u8; BITMAP_LEN],
    /// The sender's primary; `None` for a primary.
    pub replica_of: Option<NodeId>,
    /// The address that the sender announces, as text without NUL; empty: that of the connection.
    pub ip: &'a str,
    /// The port for clients: that for TLS if the sender has `tls-cluster yes`, else that for TCP.
    pub port: u16,
    /// The port for clients that `port` is not; 0 for none.
    pub other_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Bits about the sender.
    pub flags: NodeFlags,
    /// Whether the cluster's state is fail, as the sender sees it. Nobody reads it.
    pub is_down: bool,
    /// What the sender says of the message.
    pub message_flags: MessageFlags,
}

/// A message that has been checked as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusMessage<'a> {
    /// A message with a full header, by which the sender is named.
    Full(BusHeader<'a>, MessageBody<'a>),
    /// A message that names no sender: the connection does (W-4).
    Light(LightBody<'a>),
}

/// What follows a full header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody<'a> {
    /// A question, with gossip.
    Ping(Gossip<'a>),
    /// An answer, or a change.
    Pong(Gossip<'a>),
    /// A PING of a sender that wants to be known.
    Meet(Gossip<'a>),
    /// A node that has failed.
    Fail(NodeId),
    /// A message to subscribers of a channel.
    Publish(PublishedMessage<'a>),
    /// A message to subscribers of a sharded channel.
    PublishShard(PublishedMessage<'a>),
    /// A request for votes.
    AuthRequest,
    /// A vote.
    AuthAck,
    /// The slots of a node that the receiver has wrong.
    Update {
        /// The version of the slots.
        config_epoch: ClusterEpoch,
        /// Whose slots they are.
        node: NodeId,
        /// The slots, as a bitmap.
        slots: &'a [u8; BITMAP_LEN],
    },
    /// A request to pause.
    ManualFailoverStart,
    /// A module's message. Nothing of it is read.
    Module,
    /// A type that this version does not know; its header counts (W-13).
    Unknown(u16),
}

/// What follows a light header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LightBody<'a> {
    /// A message to subscribers of a channel.
    Publish(PublishedMessage<'a>),
    /// A message to subscribers of a sharded channel.
    PublishShard(PublishedMessage<'a>),
    /// A module's message. Nothing of it is read.
    Module,
}

/// A message to subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedMessage<'a> {
    /// The channel.
    pub channel: &'a [u8],
    /// What is told.
    pub message: &'a [u8],
}

/// What PING, PONG and MEET tell of other nodes, and of the sender beside its header.
///
/// An iterator over the entries rather than a list: a message may have 65,535 of them, and they have been
/// checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gossip<'a> {
    /// Entries, 104 bytes each, of which [`Gossip::entries`] makes [`GossipEntry`]s.
    pub(super) entries: &'a [u8],
    /// Entries whose id is none: with one, the section is ignored (G-11).
    pub invalid_ids: u16,
    /// Extensions; `None` for a message without any, which differs from one with unknown ones alone (W-10).
    pub(super) extensions: Option<&'a [u8]>,
}

/// What a message tells of a node that is neither sender nor receiver (2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipEntry<'a> {
    /// The node that is spoken of.
    pub node: NodeId,
    /// Wall time in seconds; 0 for no ping that is unanswered.
    pub ping_sent_s: u32,
    /// Wall time in seconds.
    pub pong_received_s: u32,
    /// The address as text without NUL. Entries whose text is not ended are skipped.
    pub ip: &'a str,
    /// The port for clients: that for TLS if the sender has `tls-cluster yes`, else that for TCP.
    pub port: u16,
    /// The port for clients that `port` is not; 0 for none.
    pub other_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Bits as they are on the wire: whoever believes them chooses (G-10).
    pub flags: NodeFlags,
}

/// What an extension says (2.3). Texts that would not pass CONFIG SET are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension<'a> {
    /// `cluster-announce-hostname`.
    HostName(&'a str),
    /// `cluster-announce-human-nodename`.
    HumanName(&'a [u8]),
    /// A node that an operator had forgotten.
    Forgotten(ForgottenNode),
    /// The sender's shard.
    Shard(ShardId),
    /// `cluster-announce-client-ipv4`.
    ClientIpv4(std::net::Ipv4Addr),
    /// `cluster-announce-client-ipv6`.
    ClientIpv6(crate::text::Ipv6Text),
    /// `cluster-announce-client-port`.
    ClientPort(u16),
    /// `cluster-announce-client-tls-port`.
    ClientTlsPort(u16),
    /// `availability-zone`.
    AvailabilityZone(&'a [u8]),
}

/// A node that was forgotten by an operator, and for how many seconds it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenNode {
    /// The node.
    pub node: NodeId,
    /// Seconds left; any number on the wire (G-21).
    pub seconds: u64,
}

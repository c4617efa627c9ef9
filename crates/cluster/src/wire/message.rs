//! What the bus's messages hold, checked (W-1 to W-17).

use crate::id::{Epoch, NodeId, ShardId};
use crate::slots::BITMAP_LEN;

/// The kinds of messages, with their numbers on the wire (W-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum MessageType {
    Ping = 0,
    Pong = 1,
    Meet = 2,
    Fail = 3,
    Publish = 4,
    AuthRequest = 5,
    AuthAck = 6,
    Update = 7,
    ManualFailoverStart = 8,
    Module = 9,
    PublishShard = 10,
}

/// What a node says of itself in a header, or another of it in gossip: bits of W-3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    pub const PRIMARY: Flags = Flags(0x0001);
    pub const REPLICA: Flags = Flags(0x0002);
    pub const PFAIL: Flags = Flags(0x0004);
    pub const FAIL: Flags = Flags(0x0008);
    pub const MYSELF: Flags = Flags(0x0010);
    pub const HANDSHAKE: Flags = Flags(0x0020);
    pub const NOADDR: Flags = Flags(0x0040);
    pub const MEET: Flags = Flags(0x0080);
    pub const MIGRATE_TO: Flags = Flags(0x0100);
    pub const NOFAILOVER: Flags = Flags(0x0200);
    pub const EXTENSIONS: Flags = Flags(0x0400);
    pub const LIGHT_PUBLISH: Flags = Flags(0x0800);
    pub const MULTI_MEET: Flags = Flags(0x1000);
    pub const MY_PRIMARY_FAIL: Flags = Flags(0x2000);

    /// Whether every bit of `other` is set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
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
pub struct Header<'a> {
    pub current_epoch: Epoch,
    pub config_epoch: Epoch,
    /// The sender's offset in the replication stream; of a replica, what it has processed (N-8).
    pub offset: u64,
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
    pub bus_port: u16,
    pub flags: Flags,
    /// Whether the cluster's state is fail, as the sender sees it. Nobody reads it.
    pub is_down: bool,
    pub message_flags: MessageFlags,
}

/// A message that has been checked as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    Full(Header<'a>, Body<'a>),
    /// A message that names no sender: the connection does (W-4).
    Light(LightBody<'a>),
}

/// What follows a full header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    Ping(Gossip<'a>),
    Pong(Gossip<'a>),
    Meet(Gossip<'a>),
    /// A node that has failed.
    Fail(NodeId),
    Publish(Published<'a>),
    PublishShard(Published<'a>),
    AuthRequest,
    AuthAck,
    /// The slots of a node that the receiver has wrong.
    Update { config_epoch: Epoch, node: NodeId, slots: &'a [u8; BITMAP_LEN] },
    ManualFailoverStart,
    /// A module's message. Nothing of it is read.
    Module,
    /// A type that this version does not know; its header counts (W-13).
    Unknown(u16),
}

/// What follows a light header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LightBody<'a> {
    Publish(Published<'a>),
    PublishShard(Published<'a>),
    Module,
}

/// A message to subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published<'a> {
    pub channel: &'a [u8],
    pub message: &'a [u8],
}

/// What PING, PONG and MEET tell of other nodes, and of the sender beside its header.
///
/// An iterator over the entries rather than a list: a message may have 65,535 of them, and they have been checked.
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
    pub node: NodeId,
    /// Wall time in seconds; 0 for no ping that is unanswered.
    pub ping_sent_s: u32,
    /// Wall time in seconds.
    pub pong_received_s: u32,
    /// The address as text without NUL. Entries whose text is not ended are skipped.
    pub ip: &'a str,
    pub port: u16,
    pub other_port: u16,
    pub bus_port: u16,
    pub flags: Flags,
}

/// What an extension says (2.3). Texts that would not pass CONFIG SET are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension<'a> {
    HostName(&'a str),
    HumanName(&'a [u8]),
    Forgotten(ForgottenNode),
    Shard(ShardId),
    ClientIpv4(std::net::Ipv4Addr),
    ClientIpv6(std::net::Ipv6Addr),
    ClientPort(u16),
    ClientTlsPort(u16),
    AvailabilityZone(&'a [u8]),
}

/// A node that was forgotten by an operator, and for how many seconds it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenNode {
    pub node: NodeId,
    pub seconds: u64,
}

//! What is known of one node (N-1).
//!
//! Invariants: (1) flags of the wire are derived from states when a message is written, and states are never
//! read back from flags of our own; (2) times are milliseconds of the monotonic clock, but for the wall time
//! of the last pong, which is shown; (3) an index of a node is valid until the node is deleted, and the table
//! takes every index of a deleted node out of the others.

use crate::address::{NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::link_key::LinkKey;
use crate::reports::FailureReports;
use crate::slots::SlotSet;
use crate::wire::NodeFlags;

/// Milliseconds of the monotonic clock.
pub type Ms = u64;

/// Addresses that are tried for one node beside the announced one.
pub(crate) const CANDIDATES_MAX: usize = 8;

/// The position of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIx(pub(crate) u32);

/// How far the acquaintance with a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum NodeStanding {
    /// A node without its own id yet (N-2).
    Handshake { since: Ms, initiator: Initiator },
    /// A node that is part of the cluster.
    Known,
    /// A node whose address led to somebody else (G-16).
    NoAddr,
}

/// Who began a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum Initiator {
    /// CLUSTER MEET here.
    Met,
    /// A MEET that was received.
    MetBy,
}

/// Whether a node answers, as this node sees it (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum NodeHealth {
    Up,
    /// No answer for T: an opinion of this node alone.
    PFail,
    /// The cluster's verdict.
    Fail {
        since: Ms,
    },
}

/// What a node is in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// No header has said (N-16).
    Unknown,
    Primary,
    /// A replica; `None` while its primary is not known here.
    Replica(Option<NodeIx>),
}

/// Whether a MEET goes out when the link to a node opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetFlag {
    No,
    Wanted,
}

/// Times of a node (table of G-9). Times that gossip asks for come first, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Clocks {
    pub(crate) ping_sent: Option<Ms>,
    pub(crate) pong_received: Option<Ms>,
    /// Wall time of the last pong in milliseconds; 0 for none.
    pub(crate) pong_wall_ms: i64,
    /// Wall time of the ping that is unanswered in milliseconds; 0 for none.
    pub(crate) ping_wall_ms: i64,
    pub(crate) data_received: Ms,
    pub(crate) created: Ms,
    pub(crate) meet_sent: Option<Ms>,
    pub(crate) dialled: Option<Ms>,
    /// When a header of the node's own said last that the node is a primary of the shard that is known here;
    /// none where its last header said otherwise.
    pub(crate) told_primary: Option<Ms>,
    /// Since when no link in of the node is bound.
    pub(crate) link_in_lost: Ms,
    /// The last UPDATE that the node was sent: its subject, and when.
    pub(crate) updated: Option<(NodeIx, Ms)>,
}

/// Abilities and wishes of a node, and its conduct so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// Bits EXTENSIONS, LIGHT_PUBLISH, MULTI_MEET.
    pub(crate) capabilities: NodeFlags,
    pub(crate) no_failover: bool,
    pub(crate) my_primary_fail: bool,
    pub(crate) migrate_to: bool,
    /// The node has told its slots at its epoch, to this process. Slots that the file of the start binds to
    /// it, or a failover that another node tells of, it may have let go: nobody is told of those (E-20).
    pub(crate) has_claimed: bool,
    /// MEETs that were sent unasked since a link in was last bound (G-13).
    pub(crate) auto_meets: u8,
    /// Until when the node would have been forgotten, had its own MEET not let it in: what others still say
    /// of that FORGET does not count.
    pub(crate) let_in_until: Option<Ms>,
}

/// Addresses to try for a node whose announced one does not answer (G-23).
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) addresses: Vec<NodeAddress>,
    /// The address at which somebody else was found (G-16): its ports count for addresses that come without.
    pub(crate) lost: Option<NodeAddress>,
    /// Which is dialled next: 0 for the announced address, `n` for candidate `n - 1`.
    pub(crate) turn: usize,
    /// When the announced address was first found not to answer.
    pub(crate) failing_since: Option<Ms>,
    pub(crate) resolved: Option<Ms>,
}

/// The link that was dialled to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkOut {
    None,
    Dialling(LinkKey),
    Open(LinkKey),
}

impl LinkOut {
    /// The link, being made or made.
    pub(crate) fn key(self) -> Option<LinkKey> {
        match self {
            LinkOut::None => None,
            LinkOut::Dialling(key) | LinkOut::Open(key) => Some(key),
        }
    }
}

/// A node, as this node knows it. This node itself is one of them. Fields that each entry of gossip asks for
/// come first, and the bitmap of slots last: the compiler's own order has the bitmap between the two.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ClusterNode {
    pub(crate) id: NodeId,
    pub(crate) standing: NodeStanding,
    pub(crate) health: NodeHealth,
    pub(crate) role: NodeRole,
    pub(crate) meet: MeetFlag,
    pub(crate) slot_count: u16,
    /// Reports that the node fails (F-3).
    pub(crate) reports: FailureReports,
    pub(crate) clocks: Clocks,
    pub(crate) marks: Marks,
    pub(crate) place: NodePlace,
    pub(crate) config_epoch: ClusterEpoch,
    pub(crate) offset: u64,
    /// The node's replicas, by id.
    pub(crate) replicas: Vec<NodeIx>,
    /// The shard that the node's own word, or its primary's, has put it in.
    pub(crate) shard: Option<ShardId>,
    /// The shard that is shown while `shard` is not known (N-4).
    pub(crate) made_up_shard: ShardId,
    pub(crate) slots: SlotSet,
}

/// Where a node is, and the connections with it.
#[derive(Clone, Debug)]
pub(crate) struct NodePlace {
    pub(crate) address: NodeAddress,
    pub(crate) labels: NodeLabels,
    pub(crate) candidates: Candidates,
    pub(crate) link_out: LinkOut,
    pub(crate) link_in: Option<LinkKey>,
}

impl ClusterNode {
    /// A node of which nothing but the id is known.
    pub(crate) fn new(id: NodeId, made_up_shard: ShardId, now: Ms) -> ClusterNode {
        ClusterNode {
            id,
            shard: None,
            made_up_shard,
            standing: NodeStanding::Known,
            health: NodeHealth::Up,
            role: NodeRole::Unknown,
            meet: MeetFlag::No,
            config_epoch: ClusterEpoch(0),
            slots: SlotSet::EMPTY,
            slot_count: 0,
            replicas: Vec::new(),
            place: NodePlace {
                address: NodeAddress::none(),
                labels: NodeLabels::default(),
                candidates: Candidates::default(),
                link_out: LinkOut::None,
                link_in: None,
            },
            clocks: Clocks { created: now, data_received: now, link_in_lost: now, ..Clocks::default() },
            marks: Marks::default(),
            offset: 0,
            reports: FailureReports::default(),
        }
    }

    /// Whether the node's id is not known yet.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.standing, NodeStanding::Handshake { .. })
    }

    /// Whether the node has no address.
    pub(crate) fn is_without_address(&self) -> bool {
        self.standing == NodeStanding::NoAddr
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.health, NodeHealth::Fail { .. })
    }

    /// Since when the node is FAIL, if it is.
    pub(crate) fn failed_since(&self) -> Option<Ms> {
        match self.health {
            NodeHealth::Fail { since, .. } => Some(since),
            NodeHealth::Up | NodeHealth::PFail => None,
        }
    }

    /// Whether the node neither failed nor is suspected.
    pub(crate) fn is_up(&self) -> bool {
        self.health == NodeHealth::Up
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.role == NodeRole::Primary
    }

    pub(crate) fn is_replica(&self) -> bool {
        matches!(self.role, NodeRole::Replica(_))
    }

    /// A primary with slots (*voter*).
    pub(crate) fn is_voter(&self) -> bool {
        self.is_primary() && self.slot_count > 0
    }

    /// The node's primary, for a replica of a known one.
    pub(crate) fn primary(&self) -> Option<NodeIx> {
        match self.role {
            NodeRole::Replica(primary) => primary,
            NodeRole::Unknown | NodeRole::Primary => None,
        }
    }

    /// The shard to show.
    pub(crate) fn shown_shard(&self) -> ShardId {
        self.shard.unwrap_or(self.made_up_shard)
    }

    /// Whether both are known to be of one shard. A shard that is not known is another one (N-4).
    pub(crate) fn shares_shard_with(&self, other: &ClusterNode) -> bool {
        self.shard.is_some() && self.shard == other.shard
    }

    /// Flags of W-3 that others are told of the node: role, health, capabilities.
    pub(crate) fn flags(&self) -> NodeFlags {
        let mut flags = self.marks.capabilities;
        let mut set = |is_set: bool, flag: NodeFlags| {
            if is_set {
                flags = flags | flag;
            }
        };
        set(self.is_primary(), NodeFlags::PRIMARY);
        set(self.is_replica(), NodeFlags::REPLICA);
        set(self.health == NodeHealth::PFail, NodeFlags::PFAIL);
        set(self.is_failed(), NodeFlags::FAIL);
        set(self.is_handshake(), NodeFlags::HANDSHAKE);
        set(self.is_without_address(), NodeFlags::NOADDR);
        set(self.meet == MeetFlag::Wanted, NodeFlags::MEET);
        set(self.marks.migrate_to, NodeFlags::MIGRATE_TO);
        set(self.marks.no_failover, NodeFlags::NOFAILOVER);
        set(self.marks.my_primary_fail, NodeFlags::MY_PRIMARY_FAIL);
        flags
    }
}

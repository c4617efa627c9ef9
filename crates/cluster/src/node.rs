//! The state that this node keeps of one node of the cluster (N-1).
//!
//! Invariants: (1) the flags that this node sends are derived from its state when a message is written, and
//! no state is derived from them; (2) times are milliseconds of the monotonic clock, except the wall times of
//! the last ping and pong, which are for display and gossip; (3) an index of a node is valid until the node
//! is deleted, and the table removes the index of a deleted node from all other nodes.

use crate::address::{NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::link_key::LinkKey;
use crate::reports::FailureReports;
use crate::slots::SlotSet;
use crate::wire::NodeFlags;

/// Milliseconds of the monotonic clock.
pub type Ms = u64;

/// The most addresses that are tried for one node in addition to the announced one.
pub(crate) const CANDIDATES_MAX: usize = 8;

/// The position of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIx(pub(crate) u32);

/// Whether a node is part of the cluster yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum NodeStanding {
    /// A node whose id is not known yet (N-2).
    Handshake { since: Ms, initiator: Initiator },
    /// A node that is part of the cluster.
    Known,
    /// A node without an address, because another node answered there (G-16) or the file says so.
    NoAddr,
}

/// The node that began a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum Initiator {
    /// This node, by CLUSTER MEET of an operator.
    Met,
    /// The other node, by a MEET that this node received.
    MetBy,
}

/// A node's health as this node sees it (section 4 of the specification of the bus).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum NodeHealth {
    Up,
    /// Suspected by this node alone, because the node has not answered for the node timeout T.
    PFail,
    /// Failed, because a quorum of voters agrees, a FAIL was received, another node answered at the node's
    /// address, or the file or the gossip from which this node learned of the node says so.
    Fail {
        since: Ms,
    },
}

/// A node's role in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// Neither the file nor a header of the node has named its role (N-16).
    Unknown,
    Primary,
    /// A replica; `None` while its primary is not known here.
    Replica(Option<NodeIx>),
}

/// Whether a MEET is sent when the link to a node opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetFlag {
    No,
    Wanted,
}

/// Times of a node (table of G-9). The times that gossip reads are first, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Clocks {
    pub(crate) ping_sent: Option<Ms>,
    pub(crate) pong_received: Option<Ms>,
    /// Wall time of the last pong in ms; 0 for none.
    pub(crate) pong_wall_ms: i64,
    /// Wall time of the unanswered ping in ms; 0 for none.
    pub(crate) ping_wall_ms: i64,
    pub(crate) data_received: Ms,
    pub(crate) created: Ms,
    pub(crate) meet_sent: Option<Ms>,
    pub(crate) dialled: Option<Ms>,
    /// Time at which a header of the node itself last said that the node is a primary of the shard known
    /// here; `None` if the node's last header said otherwise.
    pub(crate) told_primary: Option<Ms>,
    /// Time at which the node last lost the incoming link bound to it, or the time of the record's creation
    /// if it had none yet.
    pub(crate) link_in_lost: Ms,
    /// The last UPDATE that was sent to the node: the node that it was about, and the time.
    pub(crate) updated: Option<(NodeIx, Ms)>,
}

/// Capabilities and flags of a node, and facts that this node has noted about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The bits EXTENSIONS, LIGHT_PUBLISH and MULTI_MEET.
    pub(crate) capabilities: NodeFlags,
    pub(crate) no_failover: bool,
    pub(crate) my_primary_fail: bool,
    pub(crate) migrate_to: bool,
    /// Whether the node has sent its slots at its current epoch to this process. Before that, its slots
    /// here come from the file of the start or from another node's report of a failover; the node may have
    /// given them up, so they are reported to no node (E-20).
    pub(crate) has_claimed: bool,
    /// Number of MEETs that were sent without a command since an incoming link was last bound to the node
    /// (G-13).
    pub(crate) auto_meets: u8,
    /// The time until which the node would be forgotten if its own MEET had not readmitted it. Until then,
    /// other nodes' reports of the same FORGET are ignored.
    pub(crate) let_in_until: Option<Ms>,
}

/// Addresses to try for a node whose announced address does not answer (G-23).
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) addresses: Vec<NodeAddress>,
    /// The address at which another node was found (G-16). The ports of this address are used for candidates
    /// without ports.
    pub(crate) lost: Option<NodeAddress>,
    /// The address to dial next: 0 for the announced one, `n` for candidate `n - 1`.
    pub(crate) turn: usize,
    /// Time at which the announced address first failed to answer.
    pub(crate) failing_since: Option<Ms>,
    pub(crate) resolved: Option<Ms>,
}

/// The outgoing link to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkOut {
    None,
    Dialling(LinkKey),
    Open(LinkKey),
}

impl LinkOut {
    /// The link's key, whether it is established or not.
    pub(crate) fn key(self) -> Option<LinkKey> {
        match self {
            LinkOut::None => None,
            LinkOut::Dialling(key) | LinkOut::Open(key) => Some(key),
        }
    }
}

/// A node as this node sees it; this node has a record too. The fields that each entry of gossip reads
/// are first, and the bitmap of slots is last, because the compiler's own order would put the bitmap between
/// them.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ClusterNode {
    pub(crate) id: NodeId,
    pub(crate) standing: NodeStanding,
    pub(crate) health: NodeHealth,
    pub(crate) role: NodeRole,
    pub(crate) meet: MeetFlag,
    pub(crate) slot_count: u16,
    /// Other nodes' reports that the node has failed (F-3).
    pub(crate) reports: FailureReports,
    pub(crate) clocks: Clocks,
    pub(crate) marks: Marks,
    pub(crate) place: NodePlace,
    pub(crate) config_epoch: ClusterEpoch,
    pub(crate) offset: u64,
    /// The node's replicas, ordered by id.
    pub(crate) replicas: Vec<NodeIx>,
    /// The shard that the file, the node itself or its primary has named.
    pub(crate) shard: Option<ShardId>,
    /// The shard to show as long as `shard` is not known (N-4).
    pub(crate) made_up_shard: ShardId,
    pub(crate) slots: SlotSet,
}

/// A node's address, and the connections with the node.
#[derive(Clone, Debug)]
pub(crate) struct NodePlace {
    pub(crate) address: NodeAddress,
    pub(crate) labels: NodeLabels,
    pub(crate) candidates: Candidates,
    pub(crate) link_out: LinkOut,
    pub(crate) link_in: Option<LinkKey>,
}

impl ClusterNode {
    /// A node of which only the id is known.
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

    /// The time since which the node is FAIL; `None` if it is not.
    pub(crate) fn failed_since(&self) -> Option<Ms> {
        match self.health {
            NodeHealth::Fail { since, .. } => Some(since),
            NodeHealth::Up | NodeHealth::PFail => None,
        }
    }

    /// Whether the node is neither failed nor suspected.
    pub(crate) fn is_up(&self) -> bool {
        self.health == NodeHealth::Up
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.role == NodeRole::Primary
    }

    pub(crate) fn is_replica(&self) -> bool {
        matches!(self.role, NodeRole::Replica(_))
    }

    /// Whether the node is a primary with slots (*voter*).
    pub(crate) fn is_voter(&self) -> bool {
        self.is_primary() && self.slot_count > 0
    }

    /// The node's primary; `None` for a primary, or if the primary is not known.
    pub(crate) fn primary(&self) -> Option<NodeIx> {
        match self.role {
            NodeRole::Replica(primary) => primary,
            NodeRole::Unknown | NodeRole::Primary => None,
        }
    }

    /// The shard for display.
    pub(crate) fn shown_shard(&self) -> ShardId {
        self.shard.unwrap_or(self.made_up_shard)
    }

    /// Whether both nodes are known to be in one shard. An unknown shard differs from every other (N-4).
    pub(crate) fn shares_shard_with(&self, other: &ClusterNode) -> bool {
        self.shard.is_some() && self.shard == other.shard
    }

    /// The flags of W-3 that other nodes receive about the node, such as role, health and capabilities.
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

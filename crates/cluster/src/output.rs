//! The outputs of the state machine ([`crate::Cluster`]): actions for the host, drained after each step.

use crate::address::{IpText, NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::link_key::LinkKey;
use crate::migration::MigrationOrder;
use crate::node::{Ms, NodeHealth};
use crate::slots::SlotSet;
use sluice_base::{Bytes, LogLevel};
use std::sync::Arc;

/// The number of a state of `nodes.conf`; a file of a greater generation holds all changes of
/// the smaller ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The command that an answer belongs to: a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The two queues of a link: control messages overtake published messages (G-32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusLane {
    /// All messages except published ones. They overtake published messages that wait, but never split one.
    Control,
    /// Published messages, in the order of their publication.
    Publish,
}

/// An action for the host. An output that depends on a file is withheld until the file is durable
/// (E-53), as [`crate::ClusterInput::Saved`] reports.
#[derive(Clone, Debug)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ClusterOutput {
    /// Connect; [`crate::ClusterInput::Connected`] or [`crate::ClusterInput::DialFailed`] follows.
    Dial {
        link: LinkKey,
        ip: IpText,
        port: u16,
    },
    /// Close a connection and drop its queue. No input reports the end.
    Close {
        link: LinkKey,
    },
    /// Look up the addresses of a host name; [`crate::ClusterInput::Resolved`] follows.
    Resolve {
        node: NodeId,
        host: Arc<str>,
    },
    /// Append a message to a lane of a link's queue.
    Send {
        link: LinkKey,
        message: Arc<[u8]>,
        lane: BusLane,
    },
    /// Write `nodes.conf`, with fsync of file and folder; one write is under way at a time.
    Persist {
        generation: Generation,
        file: Arc<[u8]>,
    },
    /// Answer the command with this ticket.
    Reply {
        to: Ticket,
        answer: ClusterAnswer,
    },
    /// Change the role of this node in replication.
    Role(RoleChange),
    /// The map of slots that the gate (the checks before a command runs) reads; it replaces the earlier map.
    Slots(Arc<SlotMap>),
    /// Hide the keys of slots that another node owns, and delete the keys of each slot as soon as
    /// [`crate::Cluster::may_delete_keys_of`] says so.
    EmptySlots {
        slots: Box<SlotSet>,
        why: LostSlots,
    },
    /// End the subscriptions to sharded channels of these slots (P-6).
    ChannelsGone(Box<SlotSet>),
    /// Report the slots that have keys, by [`crate::ClusterInput::KeysIn`].
    AskKeys,
    /// Hold back client writes, expiry, eviction and traffic to replicas (M3);
    /// [`crate::ClusterInput::WritesPaused`] follows.
    PauseWrites {
        until: Ms,
    },
    /// End the pause of [`ClusterOutput::PauseWrites`]. The map of the step precedes this output.
    Unpause,
    /// Deliver a message to subscribers of this node.
    Deliver {
        channel: Bytes,
        message: Bytes,
        scope: PublishScope,
    },
    /// Carry out a part of an atomic move of slots.
    Migration(MigrationOrder),
    Log(LogLevel, String),
    /// End the process (N-22).
    End(ExitReason),
}

/// The reason why slots with keys belong to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostSlots {
    /// The other node has claimed the slots from this one (E-15).
    TakenOver,
    /// At the start, or when this node became the primary, its data had keys in slots of the other node
    /// (R30).
    FoundAtStart,
}

/// The reason why the process has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// `nodes.conf` could not be written, with `cluster-config-save-behavior sync`.
    ConfigNotSaved,
}

/// The nodes that a published message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishScope {
    /// PUBLISH: all nodes of the cluster.
    All,
    /// SPUBLISH: the nodes of the shard.
    Shard,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ClusterAnswer {
    Ok,
    Integer(i64),
    /// A simple string, without the `+`.
    Status(String),
    /// An error, with its code: `ERR …`.
    Error(String),
}

/// A change of this node's role in replication.
#[derive(Clone, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum RoleChange {
    /// Become a primary; the replication history is kept.
    Primary,
    /// Become a replica of `node`, or follow it at another address.
    ReplicaOf { node: NodeId, address: NodeAddress, synchronisation: Synchronisation },
    /// Drop all keys and functions: RESET and REPLICATE NO ONE on a replica (M21, R3).
    DropData,
}

/// How a replica's first synchronisation with its primary begins (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronisation {
    /// By a full sync: the replica does not offer its own history.
    Full,
    /// By PSYNC: the replica offers its own history.
    Partial,
}

/// Whether the cluster serves requests (F-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ClusterState {
    Ok,
    Fail,
}

/// A node in a [`SlotMap`].
#[derive(Clone, Debug)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct MapNode {
    pub id: NodeId,
    pub shard: ShardId,
    pub address: NodeAddress,
    pub labels: NodeLabels,
    pub health: NodeHealth,
    /// Whether the node is a replica with offset 0, which has no data yet (N-8).
    pub is_loading: bool,
    pub primary: Option<NodeId>,
    pub is_myself: bool,
    /// Whether clients are not shown the node: it is in handshake, has no address, or has no role yet.
    pub is_hidden: bool,
    pub config_epoch: ClusterEpoch,
}

/// The state that the gate, CLUSTER SLOTS and CLUSTER SHARDS read. Each change makes a new map.
#[derive(Clone, Debug)]
// Fields without a comment are explained by their names.
#[allow(missing_docs)]
pub struct SlotMap {
    pub state: ClusterState,
    /// For each slot the owner's position in `nodes` plus one; 0 for none.
    pub owners: Box<[u16]>,
    /// The nodes, ordered by id.
    pub nodes: Vec<MapNode>,
    /// Slots that this node has just received, or has lost and gets back key by key. Requests to these slots
    /// wait until the file is durable.
    pub postponed: SlotSet,
    /// Whether this node is a replica that is about to end. If so, its readers are redirected to the slot's
    /// owner.
    pub is_leaving: bool,
    /// Whether this node has restarted and does not know yet whether it is still a primary. If so, requests
    /// that would be refused in the present state wait, for at most two seconds after the node's first step.
    pub is_coming_back: bool,
    /// This node's primary; `None` if this node is no replica, or its primary is not known.
    pub my_primary: Option<NodeId>,
    pub migrating: Vec<(crate::HashSlot, NodeId)>,
    pub importing: Vec<(crate::HashSlot, NodeId)>,
}

/// The last map in a list of outputs.
pub fn newest_map<'a>(
    outputs: impl DoubleEndedIterator<Item = &'a ClusterOutput>,
) -> Option<&'a Arc<SlotMap>> {
    outputs.rev().find_map(|output| match output {
        ClusterOutput::Slots(map) => Some(map),
        _ => None,
    })
}

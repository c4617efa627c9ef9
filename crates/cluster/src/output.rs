//! What the machine wants done: outputs, drained after each step.

use crate::address::{IpText, NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::link_key::LinkKey;
use crate::migration::MigrationOrder;
use crate::node::{Ms, NodeHealth};
use crate::slots::SlotSet;
use sluice_base::{Bytes, LogLevel};
use std::sync::Arc;

/// A state of what must be durable; a greater one holds everything of a smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The command that an answer belongs to: a number of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What overtakes what on a link (G-32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusLane {
    /// Everything but published messages: goes ahead of these, at the borders of messages.
    Control,
    /// Published messages, in their order.
    Publish,
}

/// One thing to do. Nothing that depends on a file is given out before the file is durable (E-53): the
/// machine keeps it until [`crate::ClusterInput::Saved`].
#[derive(Clone, Debug)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ClusterOutput {
    /// Connect; the end is [`crate::ClusterInput::Connected`] or [`crate::ClusterInput::DialFailed`].
    Dial {
        link: LinkKey,
        ip: IpText,
        port: u16,
    },
    /// Close a connection, with what is queued on it. No input is owed for it.
    Close {
        link: LinkKey,
    },
    /// Ask for the addresses of a host name; the end is [`crate::ClusterInput::Resolved`].
    Resolve {
        node: NodeId,
        host: Arc<str>,
    },
    /// Queue a message.
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
    /// Answer a command.
    Reply {
        to: Ticket,
        answer: ClusterAnswer,
    },
    /// Change what replication does.
    Role(RoleChange),
    /// What the gate reads, whole.
    Slots(Arc<SlotMap>),
    /// Hide the keys of slots that another node owns, and delete those of each as soon as
    /// [`crate::Cluster::may_delete_keys_of`] says so.
    EmptySlots {
        slots: Box<SlotSet>,
        why: LostSlots,
    },
    /// End subscriptions to sharded channels of these slots (P-6).
    ChannelsGone(Box<SlotSet>),
    /// Say which slots have keys: [`crate::ClusterInput::KeysIn`].
    AskKeys,
    /// Hold client writes, expiry, eviction and traffic to replicas (M3); the end is
    /// [`crate::ClusterInput::WritesPaused`].
    PauseWrites {
        until: Ms,
    },
    /// End of that pause. The map of its step comes first.
    Unpause,
    /// A message for subscribers of this node.
    Deliver {
        channel: Bytes,
        message: Bytes,
        scope: PublishScope,
    },
    /// Go on with an atomic move of slots.
    Migration(MigrationOrder),
    Log(LogLevel, String),
    /// The process has to end (N-22).
    End(ExitReason),
}

/// How slots with keys came to be another node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostSlots {
    /// The other node has taken them from this one (E-15).
    TakenOver,
    /// The data that were loaded at the start have keys of them (R30).
    FoundAtStart,
}

/// Why the process has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// `nodes.conf` could not be written, with `cluster-config-save-behavior sync`.
    ConfigNotSaved,
}

/// Who hears a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishScope {
    /// PUBLISH: every node.
    All,
    /// SPUBLISH: the nodes of the shard.
    Shard,
}

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ClusterAnswer {
    Ok,
    Integer(i64),
    /// A simple string, without the `+`.
    Status(String),
    /// An error, with its code: `ERR …`.
    Error(String),
}

/// What becomes of replication.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum RoleChange {
    /// A primary from now on. History is kept.
    Primary,
    /// Follow a primary.
    ReplicaOf { node: NodeId, address: NodeAddress, synchronisation: Synchronisation },
    /// Drop all keys and functions: RESET and REPLICATE NO ONE on a replica (M21, R3).
    DropData,
}

/// How a replica begins with its primary (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronisation {
    /// Own history is not offered.
    Full,
    /// Own history is offered (PSYNC).
    Partial,
}

/// Whether the cluster serves (F-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ClusterState {
    Ok,
    Fail,
}

/// A node in a [`SlotMap`].
#[derive(Clone, Debug)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub struct MapNode {
    pub id: NodeId,
    pub shard: ShardId,
    pub address: NodeAddress,
    pub labels: NodeLabels,
    pub health: NodeHealth,
    /// Whether the node's offset is 0: a replica that has no data yet (N-8).
    pub is_loading: bool,
    pub primary: Option<NodeId>,
    pub is_myself: bool,
    /// In handshake, without address, or of no role yet: not shown to clients.
    pub is_hidden: bool,
    pub config_epoch: ClusterEpoch,
}

/// What the gate and the readers of CLUSTER SLOTS and SHARDS need: made anew when it changes.
#[derive(Clone, Debug)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub struct SlotMap {
    pub state: ClusterState,
    /// For each slot the owner's position in `nodes` plus one; 0 for none.
    pub owners: Box<[u16]>,
    /// By id.
    pub nodes: Vec<MapNode>,
    /// Slots that this node has just got, or lost and gets back key by key: requests to them wait until the
    /// file is durable.
    pub postponed: SlotSet,
    /// This node is a replica that is about to end: who reads here is sent to the slot's owner.
    pub is_leaving: bool,
    /// This node has come back, and hears first whether it is still a primary: until then requests that the
    /// state would refuse wait. That is over at most two seconds after the node's first step.
    pub is_coming_back: bool,
    /// This node's primary, for a replica.
    pub my_primary: Option<NodeId>,
    pub migrating: Vec<(crate::HashSlot, NodeId)>,
    pub importing: Vec<(crate::HashSlot, NodeId)>,
}

/// The last map among outputs.
pub fn newest_map<'a>(
    outputs: impl DoubleEndedIterator<Item = &'a ClusterOutput>,
) -> Option<&'a Arc<SlotMap>> {
    outputs.rev().find_map(|output| match output {
        ClusterOutput::Slots(map) => Some(map),
        _ => None,
    })
}

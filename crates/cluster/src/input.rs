//! The inputs of the state machine ([`crate::Cluster`]): each step takes one.

use crate::candidate::FailoverKind;
use crate::id::{ClusterEpoch, NodeId};
use crate::link_key::LinkKey;
use crate::migration::MigrationInput;
use crate::node::Ms;
use crate::open_slots::OpenSlotList;
use crate::output::{BusLane, Generation, PublishScope, Ticket};
use crate::settings::ClusterSettings;
use crate::slots::{HashSlot, SlotSet};
use sluice_base::Bytes;
use std::net::IpAddr;
use std::sync::Arc;

/// An event for the state machine, such as a clock tick, bus traffic, the result of an output, or a
/// command.
#[derive(Clone, Debug)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ClusterInput<'a> {
    /// The cron: every 100 ms. Late and missing ticks are normal.
    Tick,
    /// The moment of [`crate::Cluster::deadline`]. An early input changes nothing.
    Deadline,
    /// This node's process was suspended for longer than the node timeout T and runs again (S-24). This input
    /// precedes everything that clients and other nodes sent during the suspension.
    Suspension,
    /// A dialled connection is established.
    Connected { link: LinkKey },
    /// Bytes received on a link; messages may be split anywhere.
    ReceivedMessage { link: LinkKey, bytes: &'a [u8] },
    /// Bytes of one lane of a link's queue were written to the connection.
    Sent { link: LinkKey, lane: BusLane, bytes: usize },
    /// The connection has ended.
    Closed { link: LinkKey },
    /// A dialled connection could not be established.
    DialFailed { link: LinkKey, moment: DialMoment },
    /// The addresses of a host name; empty when the name has none.
    Resolved { node: NodeId, addresses: &'a [IpAddr] },
    /// The file of this generation is durable.
    Saved { generation: Generation },
    /// The file of this generation could not be written.
    SaveFailed { generation: Generation },
    /// The node's replication offset (N-8): a primary's own, or the offset that a replica has processed.
    Offset(u64),
    /// The pause of [`crate::ClusterOutput::PauseWrites`] is in force. Until it ends, no write of a client
    /// enters the stream after this offset.
    WritesPaused { offset: u64 },
    /// The time (on the clock of `now`) at which this replica last received data on the replication link;
    /// `None` if it has received none since this process started.
    PrimaryContact { at: Option<Ms> },
    /// The slots that have keys. This input is sent when the server has loaded its data at the start, and as
    /// the answer to [`crate::ClusterOutput::AskKeys`].
    KeysIn(&'a SlotSet),
    /// Whether the keyspace has keys in any database. This input is sent before a tick, but not while data
    /// are loaded. Without this input the node counts as one with keys.
    HasKeys(HasKeys),
    /// The end of an event loop iteration, after all its inputs. An election, and the cluster's state after
    /// changes of other nodes' health, are decided here, from all inputs of the iteration together. Needed
    /// if [`crate::Cluster::awaits_iteration_end`] says so.
    IterationEnd,
    /// The command or transaction in which [`crate::Cluster::execute_at_once`] was called has ended. Needed
    /// if [`crate::Cluster::awaits_unit_end`] says so.
    UnitEnd,
    /// The open slots of this replica's primary, from a full sync.
    OpenSlots(&'a OpenSlotList),
    /// A client's command; the answer carries its ticket.
    Command { ticket: Ticket, client: &'a str, command: ClusterCommand<'a> },
    /// The directives in force, after a change of any of them.
    Settings(&'a Arc<ClusterSettings>),
    /// An event of an atomic move of slots.
    Migration(MigrationInput<'a>),
    /// A message that a client of this node publishes to subscribers at other nodes.
    Publish { channel: &'a Bytes, message: &'a Bytes, scope: PublishScope },
}

/// The moment at which a dial failed (G-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialMoment {
    /// The call that opens the connection returned an error.
    AtOnce,
    /// The connection attempt failed after the call had returned.
    Later,
}

/// Commands that the state machine executes; nearly all of them change its state. The caller parses the
/// arguments, and answers those that do not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ClusterCommand<'a> {
    /// CLUSTER MEET; without `bus_port` the bus port is `port` plus 10,000.
    Meet { ip: &'a str, port: i64, bus_port: Option<i64> },
    /// CLUSTER FAILOVER, plain or with FORCE or TAKEOVER.
    Failover { kind: FailoverKind },
    /// CLUSTER FORGET; `node` is the id as the client sent it.
    Forget { node: &'a [u8] },
    /// CLUSTER REPLICATE; `node` is the id as the client sent it.
    Replicate { node: &'a [u8], data: HasKeys },
    /// CLUSTER REPLICATE NO ONE.
    ReplicateNoOne,
    /// CLUSTER RESET, SOFT or HARD.
    Reset { kind: ResetKind, data: HasKeys },
    /// CLUSTER ADDSLOTS and ADDSLOTSRANGE: every slot named, in order.
    AddSlots { slots: &'a [HashSlot] },
    /// CLUSTER DELSLOTS and DELSLOTSRANGE: every slot named, in order.
    DelSlots { slots: &'a [HashSlot] },
    /// CLUSTER FLUSHSLOTS; `data` says whether this node has keys.
    FlushSlots { data: HasKeys },
    /// CLUSTER BUMPEPOCH, without arguments.
    BumpEpoch,
    /// CLUSTER SET-CONFIG-EPOCH; a negative epoch is refused.
    SetConfigEpoch { epoch: i64 },
    /// CLUSTER SAVECONFIG: writes `nodes.conf` now.
    SaveConfig,
    /// CLUSTER COUNT-FAILURE-REPORTS; `node` is the id as the client sent it.
    CountFailureReports { node: &'a [u8] },
    /// CLUSTER SETSLOT, with its slot and action.
    SetSlot(SetSlot<'a>),
    /// DEBUG CLUSTERLINK KILL: closes the links of a node.
    KillLinks { direction: LinkDirection, node: &'a [u8] },
}

/// CLUSTER SETSLOT. The caller checks that the client may send it and that no atomic migration prevents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSlot<'a> {
    /// The slot to change, 0 to 16,383.
    pub slot: HashSlot,
    /// The new state of the slot.
    pub action: SlotAction<'a>,
    /// Whether the slot has keys here, in any database.
    pub keys: HasKeys,
}

/// The new state of a slot by SETSLOT; ids are the client's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum SlotAction<'a> {
    Migrating(&'a [u8]),
    Importing(&'a [u8]),
    /// The slot is neither migrating nor importing any more.
    Stable,
    /// The slot gets the owner with this id.
    Node(&'a [u8]),
}

/// Whether the keyspace, or one slot, has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum HasKeys {
    Yes,
    No,
}

/// CLUSTER RESET SOFT or HARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum ResetKind {
    Soft,
    Hard,
}

/// The links of a node that DEBUG CLUSTERLINK KILL closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Variants without a comment are explained by their names.
#[allow(missing_docs)]
pub enum LinkDirection {
    To,
    From,
    All,
}

/// The epoch in a command; `None` for a negative number.
pub(crate) fn epoch_of(number: i64) -> Option<ClusterEpoch> {
    u64::try_from(number).ok().map(ClusterEpoch)
}

//! What happens to the machine: inputs, one a step.

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

/// One event.
#[derive(Clone, Debug)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ClusterInput<'a> {
    /// The cron: every 100 ms. Late and missing ones are normal.
    Tick,
    /// The moment of [`crate::Cluster::deadline`]. One that comes early changes nothing.
    Deadline,
    /// This node's process has stood still for longer than T, and goes on (S-24). To come ahead of anything
    /// that a client or another node has sent meanwhile.
    StoodStill,
    /// A dialled connection is made.
    Connected { link: LinkKey },
    /// Bytes of a link, split anywhere.
    ReceivedMessage { link: LinkKey, bytes: &'a [u8] },
    /// Bytes of one lane of a link's queue were written.
    Sent { link: LinkKey, lane: BusLane, bytes: usize },
    /// The connection has ended.
    Closed { link: LinkKey },
    /// A connection was not made.
    DialFailed { link: LinkKey, moment: DialMoment },
    /// The addresses of a host name; none when it has none.
    Resolved { node: NodeId, addresses: &'a [IpAddr] },
    /// The file of a generation is durable.
    Saved { generation: Generation },
    /// The file of a generation was not written.
    SaveFailed { generation: Generation },
    /// How far this node is in the replication stream (N-8): as a primary its own offset, as a replica what
    /// it has processed.
    Offset(u64),
    /// The pause of [`crate::ClusterOutput::PauseWrites`] is in force: no write of a client comes behind this
    /// offset of the stream until it ends.
    WritesPaused { offset: u64 },
    /// When this replica heard its primary last on the replication link, on the clock of `now`; none: never
    /// in this process.
    PrimaryContact { at: Option<Ms> },
    /// The slots that have keys, when the data of the start are loaded, and as the answer to
    /// [`crate::ClusterOutput::AskKeys`].
    KeysIn(&'a SlotSet),
    /// Whether the keyspace has keys, in any database: told ahead of a tick, and not while data are loaded.
    /// Without a word this node counts as one with keys.
    HasKeys(HasKeys),
    /// The end of an event loop iteration: its inputs have been stepped, and what they have said together
    /// decides on an election, and on the cluster's state where other nodes' health has changed. Wanted where
    /// [`crate::Cluster::awaits_iteration_end`] says so.
    IterationEnd,
    /// The unit of commands that were executed at once has ended. Wanted when
    /// [`crate::Cluster::awaits_unit_end`] says so.
    UnitEnd,
    /// The open slots of this replica's primary, as a full synchronisation has brought them.
    OpenSlots(&'a OpenSlotList),
    /// A command of a client.
    Command { ticket: Ticket, client: &'a str, command: ClusterCommand<'a> },
    /// The directives in force.
    Settings(&'a Arc<ClusterSettings>),
    /// Something has happened to an atomic move of slots.
    Migration(MigrationInput<'a>),
    /// A message of a client here for subscribers elsewhere.
    Publish { channel: &'a Bytes, message: &'a Bytes, scope: PublishScope },
}

/// When a dial failed (G-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialMoment {
    /// In the call.
    AtOnce,
    /// While the connection was being made.
    Later,
}

/// Commands that change something here. Arguments are parsed; texts that do not parse are answered by the
/// caller.
#[derive(Clone, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ClusterCommand<'a> {
    /// CLUSTER MEET, with the bus port in force.
    Meet { ip: &'a str, port: i64, bus_port: Option<i64> },
    /// CLUSTER FAILOVER.
    Failover { kind: FailoverKind },
    /// CLUSTER FORGET.
    Forget { node: &'a [u8] },
    /// CLUSTER REPLICATE.
    Replicate { node: &'a [u8], data: HasKeys },
    /// CLUSTER REPLICATE NO ONE.
    ReplicateNoOne,
    /// CLUSTER RESET.
    Reset { kind: ResetKind, data: HasKeys },
    /// CLUSTER ADDSLOTS and ADDSLOTSRANGE: every slot named, in order.
    AddSlots { slots: &'a [HashSlot] },
    /// CLUSTER DELSLOTS and DELSLOTSRANGE.
    DelSlots { slots: &'a [HashSlot] },
    /// CLUSTER FLUSHSLOTS.
    FlushSlots { data: HasKeys },
    /// CLUSTER BUMPEPOCH.
    BumpEpoch,
    /// CLUSTER SET-CONFIG-EPOCH.
    SetConfigEpoch { epoch: i64 },
    /// CLUSTER SAVECONFIG.
    SaveConfig,
    /// CLUSTER COUNT-FAILURE-REPORTS.
    CountFailureReports { node: &'a [u8] },
    /// CLUSTER SETSLOT.
    SetSlot(SetSlot<'a>),
    /// DEBUG CLUSTERLINK KILL.
    KillLinks { direction: LinkDirection, node: &'a [u8] },
}

/// CLUSTER SETSLOT. Who may send it, and that an atomic migration stands in its way, is asked by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSlot<'a> {
    /// The slot.
    pub slot: HashSlot,
    /// What becomes of the slot.
    pub action: SlotAction<'a>,
    /// Whether the slot has keys here, in any database.
    pub keys: HasKeys,
}

/// What becomes of a slot by SETSLOT; ids as their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum SlotAction<'a> {
    Migrating(&'a [u8]),
    Importing(&'a [u8]),
    /// The slot is neither migrating nor importing any more.
    Stable,
    /// The slot gets this owner.
    Node(&'a [u8]),
}

/// Whether the keyspace has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum HasKeys {
    Yes,
    No,
}

/// CLUSTER RESET SOFT or HARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum ResetKind {
    Soft,
    Hard,
}

/// Which links of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Names say all of the undocumented ones.
#[allow(missing_docs)]
pub enum LinkDirection {
    To,
    From,
    All,
}

/// An epoch of a command: 0 and above.
pub(crate) fn epoch_of(number: i64) -> Option<ClusterEpoch> {
    u64::try_from(number).ok().map(ClusterEpoch)
}

//! The engine's state as a node of a cluster.
//!
//! The machine is the state machine of the node (`sluice_cluster`). An execution unit is a command, or a
//! transaction or script as a whole; it is open while it is suspended.
//!
//! Invariants: (1) `map` is the machine's newest map, and `served` is computed from it: both change together,
//! between two units; (2) each ticket belongs to one waiting session, or to a session that no longer exists.

use crate::cluster::exports::SlotExports;
use crate::cluster::order::BusOrder;
use crate::cluster::settings;
use crate::cluster::slot_moves::SlotMoves;
use crate::cluster::slot_stats::SlotStats;
use sluice_base::{Bytes, Now, SessionKey, heap};
use sluice_cluster::{
    AskingClient, BusDebug, Cluster, ClusterInput, ClusterOutput, ClusterState, HashSlot, NodeId,
    OpenSlotList, RoleChange, SlotMap, SlotSet, Ticket,
};
use sluice_config::Config;
use sluice_keyspace::IMPORT_NAME_LEN;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// At most this many bytes of published messages of other nodes wait for the end of an open unit; further
/// messages are dropped.
const WAITING_MESSAGES_MAX: usize = 64 << 20;
/// Bytes counted for a waiting message in addition to its text.
const MESSAGE_OVERHEAD: usize = 128;

/// This server as a node of a cluster.
pub struct ClusterMode {
    /// The state machine of the node.
    pub machine: Cluster,
    /// The newest map of slots.
    pub map: Arc<SlotMap>,
    /// The slots whose requests pass the gate without a look-up, computed from `map`.
    pub served: ServedSlots,
    /// Decisions of the machine that wait for the end of an open unit, in order.
    decisions: VecDeque<ClusterOutput>,
    /// Clients whose commands the machine has not yet answered, by ticket.
    pub waiting: BTreeMap<u64, SessionKey>,
    /// The ticket issued last.
    last_ticket: u64,
    /// Orders of the node to the process, to be carried out in order.
    pub orders: VecDeque<BusOrder>,
    /// The files loaded at the start have been kept under a second name.
    pub has_kept_files: bool,
    /// Slots whose keys are being deleted.
    pub emptying: Emptying,
    /// Connections of slot migrations.
    pub moves: SlotMoves,
    /// End of the write pause for a manual failover, in ms of the monotonic clock; `None` without a
    /// pause. The machine ends it; CLIENT UNPAUSE does not.
    pub paused_until_ms: Option<u64>,
    /// All data must be dropped once this node is a primary; waits for the end of a load.
    pub drops_data: bool,
    /// Bytes of the messages among `decisions`.
    waiting_message_bytes: usize,
    /// The initial data is or will be loaded, and the machine does not yet know which slots have keys.
    pub keys_to_check: bool,
    /// The time at which the machine's cron is next due, and the time of this server's last progress.
    pub pulse: Pulse,
    /// The open slots in the form that a full synchronisation sends; `None` if no slot is open.
    pub open_slots: Option<String>,
    /// Encoded replies of CLUSTER SLOTS, SHARDS and NODES, kept until the map or the settings change; SHARDS,
    /// which shows offsets, only until the machine's next tick. For NODES, the number stored with the reply
    /// is the count of inputs that the machine had processed when the reply was made; any further input makes
    /// the reply outdated.
    pub replies: BTreeMap<KeptReply, (Option<u64>, Bytes)>,
    /// Counters of each slot.
    pub slot_stats: SlotStats,
    /// Exports of slots to other nodes.
    exports: SlotExports,
    /// Behaviour switched by DEBUG, for tests.
    pub debug: BusDebug,
}

/// Times of the node's timers, in ns of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    /// The next time at which the machine's cron is due.
    pub next_tick_ns: u64,
    /// Last time at which this server made progress: a client's batch, or the end of an iteration.
    pub moved_ns: u64,
}

/// Slots that this node does not own and whose keys are being deleted here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emptying {
    /// The slots to empty. This node neither owns nor receives any of these slots. On a replica the set is
    /// empty, because the primary deletes the keys.
    pub slots: SlotSet,
    /// Slots of `slots` that were open for a manual move when another node claimed them, with the end of a
    /// grace period in ns of the monotonic clock. Until then their keys are not deleted, because keys that
    /// were not yet moved exist nowhere else. Within that period CLUSTER SETSLOT IMPORTING shows the keys
    /// again; `valkey-cli --cluster fix` uses this command to move the keys on to the owner.
    pub kept: BTreeMap<HashSlot, u64>,
    /// The slot of `slots` in which deletion has begun; all other slots still have all of their keys.
    pub begun: Option<HashSlot>,
    /// Position of the walk over that slot's keys in a database.
    pub cursor: u64,
    /// Failed imports of slots. The keys of an import are deleted first, and then its mark in the keyspace.
    pub failed_imports: Vec<FailedImport>,
}

impl Emptying {
    /// The next slot to delete keys from: the slot already begun, or else the first slot that is not in a
    /// grace period and that `may_delete` allows.
    pub fn next(&self, now_ns: u64, may_delete: impl Fn(HashSlot) -> bool) -> Option<HashSlot> {
        let is_due = |slot: &HashSlot| self.kept.get(slot).is_none_or(|until_ns| now_ns >= *until_ns);
        self.begun.or_else(|| self.slots.iter().find(|slot| is_due(slot) && may_delete(*slot)))
    }

    /// Time of the next deletion, in ns of the monotonic clock; 0: at once; `u64::MAX`: none.
    pub fn due_ns(&self, may_delete: impl Fn(HashSlot) -> bool) -> u64 {
        let mut due_ns = u64::MAX;
        for slot in self.slots.iter().filter(|slot| may_delete(*slot)) {
            match self.kept.get(&slot) {
                Some(until_ns) => due_ns = due_ns.min(*until_ns),
                None => return 0,
            }
        }
        due_ns
    }

    /// Whether a slot still has all of its keys and is in its grace period.
    pub fn keeps(&self, slot: HashSlot) -> bool {
        self.kept.contains_key(&slot) && self.begun != Some(slot)
    }

    /// Removes a slot that is empty or whose keys need not be deleted any more.
    pub fn remove(&mut self, slot: HashSlot) {
        self.slots.remove(slot);
        self.kept.remove(&slot);
        self.begun.take_if(|begun| *begun == slot);
    }
}

/// A failed import of slots that is not yet cleaned up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedImport {
    /// The name of the import's job.
    pub name: [u8; IMPORT_NAME_LEN],
    /// The reason, as sent to replicas.
    pub why: &'static str,
}

/// Replies about all nodes that are kept encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapReply {
    /// The reply of CLUSTER SLOTS.
    Slots,
    /// The reply of CLUSTER SHARDS.
    Shards,
    /// The reply of CLUSTER NODES.
    Nodes,
}

/// The key of a kept reply: the command, and the properties of clients that get the same reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptReply {
    /// The command that the reply answers.
    pub what: MapReply,
    /// The properties of the client on which addresses depend.
    pub client: AskingClient,
    /// Indexes of the rules of `announce-endpoint-for` that match the client's network.
    pub rules: Vec<u16>,
    /// Whether the client uses RESP3.
    pub is_resp3: bool,
    /// The numeric value of `cluster-preferred-endpoint-type`.
    pub endpoints: u8,
}

/// Slots whose requests pass the gate without a further look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSlots {
    /// Slots that this node owns and serves, except open slots and slots whose new owner is not yet durable
    /// in `nodes.conf` (`SlotMap::postponed`). Empty on a replica, on a node that is about to end
    /// (`SlotMap::is_leaving`), and while the cluster is down.
    pub own: SlotSet,
    /// Slots of this replica's primary, with the same exceptions. Empty on a primary, on a node that is
    /// about to end (`SlotMap::is_leaving`), and while the cluster is down.
    pub of_primary: SlotSet,
}

impl ServedSlots {
    /// Whether this node owns and serves the slot of this number, with no look-up needed: false for an
    /// open slot.
    #[inline]
    pub fn owns(&self, slot: usize) -> bool {
        u16::try_from(slot).ok().and_then(HashSlot::new).is_some_and(|slot| self.own.contains(slot))
    }

    /// The served slots of a map. Cost: O(slots).
    pub fn of(map: &SlotMap) -> ServedSlots {
        let mut served = ServedSlots { own: SlotSet::EMPTY, of_primary: SlotSet::EMPTY };
        if map.state != ClusterState::Ok || map.is_leaving {
            return served;
        }
        let position = |wanted: &dyn Fn(usize) -> bool| (0..map.nodes.len()).find(|at| wanted(*at));
        let (slots, owner) = match map.my_primary {
            None => (&mut served.own, position(&|at| map.nodes[at].is_myself)),
            Some(primary) => (&mut served.of_primary, position(&|at| map.nodes[at].id == primary)),
        };
        let Some(owner) = owner else { return served };
        for (number, at) in (0_u16..).zip(map.owners.iter()) {
            if usize::from(*at) == owner + 1
                && let Some(slot) = HashSlot::new(number)
            {
                slots.insert(slot);
            }
        }
        let open = map.migrating.iter().chain(&map.importing).map(|(slot, _)| *slot);
        open.chain(map.postponed.iter()).for_each(|slot| {
            slots.remove(slot);
        });
        served
    }
}

impl ClusterMode {
    /// The next slot to delete keys from. `None` if none is left to empty, or each is in its grace period
    /// or still belongs to this node according to the saved `nodes.conf`.
    pub fn next_to_empty(&self, now_ns: u64) -> Option<HashSlot> {
        self.emptying.next(now_ns, |slot| self.machine.may_delete_keys_of(slot))
    }

    /// The time of the next deletion of keys in lost slots: see [`Emptying::due_ns`].
    pub fn emptying_due_ns(&self) -> u64 {
        self.emptying.due_ns(|slot| self.machine.may_delete_keys_of(slot))
    }

    /// Passes the present values of the directives to the machine.
    pub(crate) fn apply_settings(&mut self, config: &Config, now: Now) {
        let settings = Arc::new(settings::of(config, self.debug));
        self.machine.step(now, &ClusterInput::Settings(&settings));
        // The kept replies contain addresses, and `cluster-preferred-endpoint-type` may have changed.
        self.replies.clear();
    }

    /// The initial state of cluster mode, with a newly created machine.
    pub fn new(machine: Cluster) -> ClusterMode {
        let map = Arc::new(SlotMap {
            state: ClusterState::Fail,
            owners: Box::default(),
            nodes: Vec::new(),
            postponed: SlotSet::EMPTY,
            is_leaving: false,
            is_coming_back: false,
            my_primary: None,
            migrating: Vec::new(),
            importing: Vec::new(),
        });
        ClusterMode {
            machine,
            served: ServedSlots::of(&map),
            map,
            decisions: VecDeque::new(),
            waiting: BTreeMap::new(),
            last_ticket: 0,
            orders: VecDeque::new(),
            has_kept_files: false,
            emptying: Emptying::default(),
            moves: SlotMoves::default(),
            paused_until_ms: None,
            drops_data: false,
            waiting_message_bytes: 0,
            keys_to_check: true,
            pulse: Pulse::default(),
            open_slots: None,
            replies: BTreeMap::new(),
            slot_stats: SlotStats::default(),
            exports: SlotExports::default(),
            debug: BusDebug::default(),
        }
    }

    /// Installs a new map, resets the counters of slots that have another owner, and drops the kept replies.
    pub fn set_map(&mut self, map: Arc<SlotMap>) {
        self.served = ServedSlots::of(&map);
        self.open_slots = OpenSlotList::of(&map).to_text();
        self.slot_stats.forget_moved(&self.map, &map);
        self.map = map;
        self.replies.clear();
    }

    /// Stores a decision until no unit is open. A unit may stay open for long, and the rate of decisions
    /// depends on other nodes. So only the newer of two successive maps is kept, and messages beyond a limit
    /// are dropped, as for a client that does not read.
    pub fn decide(&mut self, decision: ClusterOutput) {
        match &decision {
            ClusterOutput::Slots(_) if matches!(self.decisions.back(), Some(ClusterOutput::Slots(_))) => {
                self.decisions.pop_back();
            }
            ClusterOutput::Deliver { channel, message, .. } => {
                let bytes = channel.len() + message.len() + MESSAGE_OVERHEAD;
                if self.waiting_message_bytes + bytes > WAITING_MESSAGES_MAX {
                    return;
                }
                self.waiting_message_bytes += bytes;
            }
            _ => {}
        }
        self.decisions.push_back(decision);
    }

    /// Whether a decision waits.
    pub fn has_decisions(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Whether a waiting decision makes this node a replica of another one.
    pub fn is_to_follow(&self) -> bool {
        let is_to_follow =
            |decision: &ClusterOutput| matches!(decision, ClusterOutput::Role(RoleChange::ReplicaOf { .. }));
        self.decisions.iter().any(is_to_follow)
    }

    /// Removes and returns the next decision. The count of message bytes is reset only when none is left.
    pub fn next_decision(&mut self) -> Option<ClusterOutput> {
        let decision = self.decisions.pop_front();
        if self.decisions.is_empty() {
            self.waiting_message_bytes = 0;
        }
        decision
    }

    /// The newest map, even if its effects wait for the end of a unit: CLUSTER SLOTS shows the changes of
    /// CONFIG SET in the same transaction (K-34).
    pub(crate) fn newest_map(&self) -> &Arc<SlotMap> {
        let decided = || sluice_cluster::newest_map(self.decisions.iter());
        self.machine.awaited_map().or_else(decided).unwrap_or(&self.map)
    }

    /// Bytes of heap memory, as the allocator rounds them, for the map, kept replies, queues, waiting clients
    /// and counters of slots; without the machine's table of nodes, without messages and without exports.
    /// O(kept replies).
    pub fn footprint(&self) -> usize {
        let map = &self.map;
        let open = heap::vec(&map.migrating) + heap::vec(&map.importing);
        let map = heap::block(size_of_val(&*map.owners)) + heap::vec(&map.nodes) + open;
        let replies: usize = self.replies.values().map(|(_, reply)| reply.footprint()).sum();
        let replies = replies + heap::tree::<KeptReply, (Option<u64>, Bytes)>(self.replies.len());
        let queues = heap::deque(&self.decisions) + heap::deque(&self.orders);
        let waiting = heap::tree::<u64, SessionKey>(self.waiting.len())
            + heap::tree::<HashSlot, u64>(self.emptying.kept.len());
        let open_slots = self.open_slots.as_ref().map_or(0, |text| heap::block(text.capacity()));
        map + replies + queues + waiting + open_slots + self.slot_stats.footprint()
    }

    /// Drops the kept replies that contain offsets.
    pub fn forget_offsets(&mut self) {
        self.replies.retain(|key, _| key.what != MapReply::Shards);
    }

    /// Issues a ticket for a command of this client.
    pub fn ticket(&mut self, client: SessionKey) -> Ticket {
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, client);
        Ticket(self.last_ticket)
    }

    /// Exports of slots to other nodes.
    #[inline]
    pub fn exports(&self) -> &SlotExports {
        &self.exports
    }

    /// Exports of slots to other nodes, to be changed.
    pub fn exports_mut(&mut self) -> &mut SlotExports {
        &mut self.exports
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.machine.id()
    }
}

impl fmt::Debug for ClusterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMode").field("id", &self.id()).field("map", &self.map).finish_non_exhaustive()
    }
}

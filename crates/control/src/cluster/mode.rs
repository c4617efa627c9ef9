//! What the engine knows as a node of a cluster.
//!
//! Invariants: (1) `map` is the machine's newest map, and `served` follows from it: both change together,
//! between units; (2) each ticket belongs to one session that waits, or to none that is left.

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

/// Bytes of other nodes' messages that wait for the end of a unit, at most.
const WAITING_MESSAGES_MAX: usize = 64 << 20;
/// Bytes that a message takes beside its own.
const MESSAGE_OVERHEAD: usize = 128;

/// This server as a node of a cluster.
pub struct ClusterMode {
    /// The node.
    pub machine: Cluster,
    /// The newest map of slots.
    pub map: Arc<SlotMap>,
    /// What the gate reads.
    pub served: ServedSlots,
    /// What the machine has decided and a unit that stands open keeps from being carried out, in order.
    decisions: VecDeque<ClusterOutput>,
    /// Clients whose commands the machine has not answered.
    pub waiting: BTreeMap<u64, SessionKey>,
    /// The last ticket that was given out.
    last_ticket: u64,
    /// What the process is to do, in order.
    pub orders: VecDeque<BusOrder>,
    /// The files that were loaded at the start have a second name.
    pub has_kept_files: bool,
    /// Slots whose keys are being deleted.
    pub emptying: Emptying,
    /// Connections of atomic moves of slots.
    pub moves: SlotMoves,
    /// Until when a failover by hand holds writes back, ms of the monotonic clock; none: it does not. The
    /// machine ends it; CLIENT UNPAUSE does not.
    pub paused_until_ms: Option<u64>,
    /// All data are to go as soon as this node is a primary: that waits for the end of a load.
    pub drops_data: bool,
    /// Bytes of messages among the decisions that wait.
    waiting_message_bytes: usize,
    /// The data of the start are there, or will be, and the machine has not been told which slots have keys.
    pub keys_to_check: bool,
    /// When the machine's cron is due, and whether this server goes on.
    pub pulse: Pulse,
    /// The open slots as a full synchronisation carries them; none where no slot is open.
    pub open_slots: Option<String>,
    /// Encoded replies of CLUSTER SLOTS, SHARDS and NODES, until the map changes; for NODES also the
    /// machine's number of inputs at which the reply was made and is right.
    pub replies: BTreeMap<KeptReply, (Option<u64>, Bytes)>,
    /// What is counted for each slot.
    pub slot_stats: SlotStats,
    /// Exports of slots to other nodes.
    exports: SlotExports,
    /// Switches of DEBUG.
    pub debug: BusDebug,
}

/// Times of the monotonic clock, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    /// When the machine's cron is due next.
    pub next_tick_ns: u64,
    /// When this server was last seen to go on: at a batch of a client, or the end of an iteration.
    pub moved_ns: u64,
}

/// Slots of other nodes whose keys are being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emptying {
    /// None of them is a slot that this node owns or gets, and none is on a replica, whose keys are its
    /// primary's affair.
    pub slots: SlotSet,
    /// Slots among them that were open for a move by hand when another node claimed them, with the time until
    /// which they stay, ns of the monotonic clock: keys that were not moved are nowhere else. IMPORTING has
    /// them back within that time, as `valkey-cli --cluster fix` says it to move them on to the owner.
    pub kept: BTreeMap<HashSlot, u64>,
    /// The slot among them of which some keys are gone; of no other one any key is.
    pub begun: Option<HashSlot>,
    /// Where the walk over its keys in a database stands.
    pub cursor: u64,
    /// Imports of slots that have failed here: their keys go first, then the mark of the import.
    pub failed_imports: Vec<FailedImport>,
}

impl Emptying {
    /// The slot whose keys are to be deleted next, among those of which they may be: the one that was begun
    /// comes first.
    pub fn next(&self, now_ns: u64, may_delete: impl Fn(HashSlot) -> bool) -> Option<HashSlot> {
        let is_due = |slot: &HashSlot| self.kept.get(slot).is_none_or(|until_ns| now_ns >= *until_ns);
        self.begun.or_else(|| self.slots.iter().find(|slot| is_due(slot) && may_delete(*slot)))
    }

    /// When keys are to be deleted next, ns of the monotonic clock; 0: at once; `u64::MAX`: none are.
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

    /// Whether all keys of a slot are there, and stay for a while.
    pub fn keeps(&self, slot: HashSlot) -> bool {
        self.kept.contains_key(&slot) && self.begun != Some(slot)
    }

    /// A slot is empty, or keeps its keys.
    pub fn remove(&mut self, slot: HashSlot) {
        self.slots.remove(slot);
        self.kept.remove(&slot);
        self.begun.take_if(|begun| *begun == slot);
    }
}

/// An import of slots that has failed and is not forgotten yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedImport {
    /// Its name.
    pub name: [u8; IMPORT_NAME_LEN],
    /// Why, as replicas are told.
    pub why: &'static str,
}

/// A reply about all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapReply {
    /// CLUSTER SLOTS.
    Slots,
    /// CLUSTER SHARDS.
    Shards,
    /// CLUSTER NODES.
    Nodes,
}

/// The key of a kept reply: a command, and the clients that are told the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptReply {
    /// The command.
    pub what: MapReply,
    /// The addresses that the client is told.
    pub client: AskingClient,
    /// The rules of `announce-endpoint-for` for the client's network, by their positions.
    pub rules: Vec<u16>,
    /// Whether the client speaks RESP3.
    pub is_resp3: bool,
    /// `cluster-preferred-endpoint-type` as its number.
    pub endpoints: u8,
}

/// Slots that need no question at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSlots {
    /// Slots that this node owns and serves, without those that are open or whose file is not durable yet;
    /// empty on a replica, and while the cluster is down.
    pub own: SlotSet,
    /// Slots of this replica's primary that are not open; empty on a primary, on a replica that is about to
    /// end, and while the cluster is down.
    pub of_primary: SlotSet,
}

impl ServedSlots {
    /// Whether the slot of this number needs no question, since this node is its owner.
    #[inline]
    pub fn owns(&self, slot: usize) -> bool {
        u16::try_from(slot).ok().and_then(HashSlot::new).is_some_and(|slot| self.own.contains(slot))
    }

    /// What follows from a map. Cost: O(slots).
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
    /// The slot whose keys are to be deleted next; none where each of them is this node's by its file, or
    /// stays for a while.
    pub fn next_to_empty(&self, now_ns: u64) -> Option<HashSlot> {
        self.emptying.next(now_ns, |slot| self.machine.may_delete_keys_of(slot))
    }

    /// When keys of lost slots are to be deleted next: see [`Emptying::due_ns`].
    pub fn emptying_due_ns(&self) -> u64 {
        self.emptying.due_ns(|slot| self.machine.may_delete_keys_of(slot))
    }

    /// Has the machine know the directives in force.
    pub(crate) fn apply_settings(&mut self, config: &Config, now: Now) {
        let settings = Arc::new(settings::of(config, self.debug));
        self.machine.step(now, &ClusterInput::Settings(&settings));
        // Which of a node's addresses are told is a directive, too.
        self.replies.clear();
    }

    /// The state around a machine that has just begun.
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

    /// Takes up a new map.
    pub fn set_map(&mut self, map: Arc<SlotMap>) {
        self.served = ServedSlots::of(&map);
        self.open_slots = OpenSlotList::of(&map).to_text();
        self.slot_stats.forget_moved(&self.map, &map);
        self.map = map;
        self.replies.clear();
    }

    /// Keeps a decision until no unit stands open. A unit may stand for long, and others decide the rate: of
    /// two maps in a row the newer one is kept, and messages beyond a bound are lost, as those to a client
    /// that does not read.
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

    /// Whether this node is to follow another as soon as the unit ends.
    pub fn is_to_follow(&self) -> bool {
        let is_to_follow =
            |decision: &ClusterOutput| matches!(decision, ClusterOutput::Role(RoleChange::ReplicaOf { .. }));
        self.decisions.iter().any(is_to_follow)
    }

    /// The next decision. Messages are counted while any is left.
    pub fn next_decision(&mut self) -> Option<ClusterOutput> {
        let decision = self.decisions.pop_front();
        if self.decisions.is_empty() {
            self.waiting_message_bytes = 0;
        }
        decision
    }

    /// The newest map, though what it changes waits for the end of a unit: CLUSTER SLOTS shows what CONFIG
    /// SET has changed in the same transaction (K-34).
    pub(crate) fn newest_map(&self) -> &Arc<SlotMap> {
        let decided = || sluice_cluster::newest_map(self.decisions.iter());
        self.machine.awaited_map().or_else(decided).unwrap_or(&self.map)
    }

    /// Bytes that the allocator has given for what changes with the map and with what is asked; without the
    /// machine's table of nodes, and without messages. O(kept replies).
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

    /// Drops the replies that show offsets.
    pub fn forget_offsets(&mut self) {
        self.replies.retain(|key, _| key.what != MapReply::Shards);
    }

    /// A ticket for a command of this client.
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

    /// Exports of slots, to go on with.
    pub fn exports_mut(&mut self) -> &mut SlotExports {
        &mut self.exports
    }

    /// This node's id.
    pub fn id(&self) -> NodeId {
        self.machine.id()
    }
}

impl fmt::Debug for ClusterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMode").field("id", &self.id()).field("map", &self.map).finish_non_exhaustive()
    }
}

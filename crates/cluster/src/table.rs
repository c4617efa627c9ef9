//! The nodes, the owners of slots, open slots, and the replicas of each primary.
//!
//! Invariants: (1) the table of owners, the nodes' bitmaps and their counts agree; (2) a node's list of
//! replicas has exactly the nodes whose primary it is, ordered by id; (3) no part of the table refers to a
//! deleted node, except [`crate::node::Clocks::updated`]; (4) exactly one node is this node, and it is never
//! deleted; (5) nodes are visited in the order of their positions, so that the state machine is a function of
//! its inputs; (6) the next tick checks every node that may have changed.

use crate::id::NodeId;
use crate::id_index::IdIndex;
use crate::node::{ClusterNode, Ms, NodeHealth, NodeIx, NodeRole};
use crate::slots::{HashSlot, SLOT_COUNT, SlotSet};
use sluice_base::HashSeed;
use sluice_base::mistake::{Mistake, is_made};
use std::collections::BTreeMap;

/// The most nodes that may be known. Further nodes are ignored in gossip, and so are MEETs from them,
/// with a warning.
pub const NODES_MAX: usize = 2_000;
/// The most handshakes at one time.
pub const HANDSHAKES_MAX: usize = 64;

/// The position for "no owner".
const NOBODY: u32 = u32::MAX;

/// The times of the cron's next work for a node.
#[derive(Clone, Copy, Debug)]
struct CronDue {
    /// No work is due for the node before this time.
    at: Ms,
    /// Time at which the node is to be suspected if its state does not change before.
    suspicion: Option<Ms>,
}

impl CronDue {
    const NOW: CronDue = CronDue { at: 0, suspicion: None };
}

/// All nodes, and the distribution of the slots among them.
#[derive(Clone, Debug)]
pub(crate) struct NodeTable {
    nodes: Vec<Option<Box<ClusterNode>>>,
    /// The next check of each node, by position. The cron reads this array, and then only the few nodes that
    /// are due.
    due: Vec<CronDue>,
    free: Vec<u32>,
    /// The nodes ordered by id, for display.
    by_id: BTreeMap<NodeId, NodeIx>,
    /// The positions by id, for look-ups.
    index: IdIndex,
    me: NodeIx,
    owners: Vec<u32>,
    /// Number of suspected nodes (PFAIL).
    suspects: usize,
    /// Slots that their owner no longer claims (E-12).
    unclaimed: SlotSet,
    /// Slots of this node, or of its primary, that migrate, each with its target.
    pub(crate) migrating: BTreeMap<HashSlot, NodeIx>,
    /// Slots that this node, or its primary, imports, each with its source.
    pub(crate) importing: BTreeMap<HashSlot, NodeIx>,
}

impl NodeTable {
    /// A table with only this node. `seed` is the key of the table's index of ids.
    pub(crate) fn new(me: ClusterNode, seed: HashSeed) -> NodeTable {
        let by_id = BTreeMap::from([(me.id, NodeIx(0))]);
        let mut index = IdIndex::new(seed);
        index.rebuild(1, std::iter::once((&me.id, 0)));
        NodeTable {
            nodes: vec![Some(Box::new(me))],
            due: vec![CronDue::NOW],
            free: Vec::new(),
            by_id,
            index,
            me: NodeIx(0),
            owners: vec![NOBODY; usize::from(SLOT_COUNT)],
            suspects: 0,
            unclaimed: SlotSet::EMPTY,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    pub(crate) fn my_ix(&self) -> NodeIx {
        self.me
    }

    pub(crate) fn me(&self) -> &ClusterNode {
        self.node(self.me)
    }

    pub(crate) fn me_mut(&mut self) -> &mut ClusterNode {
        self.node_mut(self.me)
    }

    /// The node at `ix`, which must be valid.
    pub(crate) fn node(&self, ix: NodeIx) -> &ClusterNode {
        self.nodes[ix.0 as usize].as_deref().expect("an index of a node lives as long as the node")
    }

    /// The node at `ix` for a change; the next tick checks that node.
    pub(crate) fn node_mut(&mut self, ix: NodeIx) -> &mut ClusterNode {
        self.due[ix.0 as usize] = CronDue::NOW;
        self.nodes[ix.0 as usize].as_deref_mut().expect("an index of a node lives as long as the node")
    }

    /// Whether work may be due for a node now. O(1).
    pub(crate) fn is_due(&self, ix: NodeIx, now: Ms) -> bool {
        self.due[ix.0 as usize].at <= now
    }

    /// Records that the cron has checked a node, and that nothing is due for it before `at` unless the node
    /// changes.
    pub(crate) fn set_due(&mut self, ix: NodeIx, at: Ms, suspicion: Option<Ms>) {
        self.due[ix.0 as usize] = CronDue { at, suspicion };
    }

    /// Time at which a node is to be suspected, according to the cron's last check of it. O(1).
    pub(crate) fn suspicion_at(&self, ix: NodeIx) -> Option<Ms> {
        self.due[ix.0 as usize].suspicion
    }

    /// Makes the next tick check every node, because directives have changed.
    pub(crate) fn all_due(&mut self) {
        self.due.fill(CronDue::NOW);
    }

    /// Whether there is a node at `ix`.
    pub(crate) fn has(&self, ix: NodeIx) -> bool {
        self.nodes.get(ix.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn find(&self, id: &NodeId) -> Option<NodeIx> {
        self.index.find(id, |position| &self.node(NodeIx(position)).id).map(NodeIx)
    }

    /// Rebuilds the index of ids, because the index is full, or because a node was deleted or got another id.
    fn rebuild_index(&mut self) {
        let ids = self.by_id.iter().map(|(id, ix)| (id, ix.0));
        self.index.rebuild(self.by_id.len(), ids);
    }

    /// The number of nodes, including this one and handshakes.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The number of positions; each smaller number may be the position of a node.
    pub(crate) fn positions(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The node at a position, if there is one.
    pub(crate) fn at(&self, position: u32) -> Option<NodeIx> {
        self.nodes.get(position as usize)?.as_ref().map(|_| NodeIx(position))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIx, &ClusterNode)> {
        self.nodes.iter().zip(0..).filter_map(|(node, ix)| Some((NodeIx(ix), node.as_deref()?)))
    }

    /// All nodes, ordered by id.
    pub(crate) fn by_id(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.by_id.values().copied()
    }

    /// Adds a node whose id is not in the table.
    pub(crate) fn insert(&mut self, node: ClusterNode) -> NodeIx {
        let id = node.id;
        let ix = match self.free.pop() {
            Some(ix) => {
                self.nodes[ix as usize] = Some(Box::new(node));
                self.due[ix as usize] = CronDue::NOW;
                NodeIx(ix)
            }
            None => {
                self.nodes.push(Some(Box::new(node)));
                self.due.push(CronDue::NOW);
                NodeIx(self.nodes.len() as u32 - 1)
            }
        };
        let before = self.by_id.insert(id, ix);
        assert!(before.is_none(), "two nodes of one id");
        if !self.index.insert(&id, ix.0) {
            self.rebuild_index();
        }
        ix
    }

    /// Sets the health of a node.
    pub(crate) fn set_health(&mut self, ix: NodeIx, health: NodeHealth) {
        let before = std::mem::replace(&mut self.node_mut(ix).health, health);
        self.suspects -= usize::from(before == NodeHealth::PFail);
        self.suspects += usize::from(health == NodeHealth::PFail);
    }

    /// The number of suspected nodes. O(1).
    pub(crate) fn suspects(&self) -> usize {
        self.suspects
    }

    /// Gives a node another id. This is the node's own id at the end of a handshake, or a new id of this node
    /// at RESET HARD.
    pub(crate) fn rename(&mut self, ix: NodeIx, id: NodeId) {
        let old = std::mem::replace(&mut self.node_mut(ix).id, id);
        self.by_id.remove(&old);
        let before = self.by_id.insert(id, ix);
        assert!(before.is_none(), "two nodes of one id");
        self.rebuild_index();
        if let Some(primary) = self.node(ix).primary() {
            self.sort_replicas(primary);
        }
    }

    /// Deletes a node, and all references to it in slots, open slots, reports and replicas (G-22).
    /// Returns the slots of the deleted node. The caller closes its links.
    pub(crate) fn delete(&mut self, ix: NodeIx) -> SlotSet {
        assert!(ix != self.me, "this node is never deleted");
        let slots = self.node(ix).slots.clone();
        for slot in slots.iter() {
            self.unbind(slot);
        }
        self.migrating.retain(|_, to| *to != ix);
        self.importing.retain(|_, from| *from != ix);
        for replica in std::mem::take(&mut self.node_mut(ix).replicas) {
            self.node_mut(replica).role = NodeRole::Replica(None);
        }
        self.leave_primary(ix);
        for node in self.nodes.iter_mut().flatten() {
            node.reports.remove(ix.0);
            // The position may soon belong to another node, and an UPDATE about that node would be taken for
            // a repetition.
            node.clocks.updated = node.clocks.updated.filter(|(owner, _)| *owner != ix);
        }
        self.by_id.remove(&self.node(ix).id.clone());
        self.rebuild_index();
        self.set_health(ix, NodeHealth::Up);
        self.nodes[ix.0 as usize] = None;
        self.free.push(ix.0);
        slots
    }

    /// The owner of a slot, `None` without one.
    pub(crate) fn owner(&self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.owners[usize::from(slot.number())];
        (owner != NOBODY).then_some(NodeIx(owner))
    }

    /// Whether a slot is no longer claimed by its owner.
    pub(crate) fn is_unclaimed(&self, slot: HashSlot) -> bool {
        self.unclaimed.contains(slot)
    }

    /// Whether there are slots that their owner does not claim.
    pub(crate) fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    pub(crate) fn set_unclaimed(&mut self, slot: HashSlot) {
        self.unclaimed.insert(slot);
    }

    pub(crate) fn set_claimed(&mut self, slot: HashSlot) {
        self.unclaimed.remove(slot);
    }

    /// The slots of a node, without those that it no longer claims (E-20).
    pub(crate) fn claimed_slots(&self, ix: NodeIx) -> SlotSet {
        let mut slots = self.node(ix).slots.clone();
        for slot in self.unclaimed.iter().filter(|_| !is_made(Mistake::UnclaimedSlotsTold)) {
            slots.remove(slot);
        }
        slots
    }

    /// Gives a slot without an owner to a node. If it is the node's first slot and any primary has replicas,
    /// replicas may migrate to the node (R21).
    pub(crate) fn bind(&mut self, slot: HashSlot, ix: NodeIx) {
        let owner = &mut self.owners[usize::from(slot.number())];
        assert!(*owner == NOBODY, "a slot has one owner");
        *owner = ix.0;
        self.unclaimed.remove(slot);
        let first = {
            let node = self.node_mut(ix);
            node.slots.insert(slot);
            node.slot_count += 1;
            node.slot_count == 1
        };
        if first && self.iter().any(|(_, node)| node.is_primary() && !node.replicas.is_empty()) {
            self.node_mut(ix).marks.migrate_to = true;
        }
    }

    /// Removes the owner of a slot; returns the former owner.
    pub(crate) fn unbind(&mut self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.owner(slot)?;
        self.owners[usize::from(slot.number())] = NOBODY;
        self.unclaimed.remove(slot);
        let node = self.node_mut(owner);
        node.slots.remove(slot);
        node.slot_count -= 1;
        Some(owner)
    }

    /// Makes a node a primary. If it was a replica and is not this node, replicas may migrate to it (R21).
    pub(crate) fn make_primary(&mut self, ix: NodeIx) {
        let was_replica = self.node(ix).is_replica();
        self.leave_primary(ix);
        let is_me = ix == self.me;
        let node = self.node_mut(ix);
        node.role = NodeRole::Primary;
        if was_replica && !is_me {
            node.marks.migrate_to = true;
        }
    }

    /// Makes a node a replica; `None` if its primary is not known.
    pub(crate) fn make_replica(&mut self, ix: NodeIx, primary: Option<NodeIx>) {
        assert!(primary != Some(ix), "no node is its own replica");
        self.leave_primary(ix);
        let node = self.node_mut(ix);
        node.role = NodeRole::Replica(primary);
        node.marks.migrate_to = false;
        if let Some(primary) = primary {
            let above = self.node_mut(primary);
            above.replicas.push(ix);
            above.marks.migrate_to = true;
            self.sort_replicas(primary);
        }
    }

    fn leave_primary(&mut self, ix: NodeIx) {
        let Some(primary) = self.node(ix).primary() else { return };
        let above = self.node_mut(primary);
        above.replicas.retain(|replica| *replica != ix);
        if above.replicas.is_empty() {
            above.marks.migrate_to = false;
        }
        self.node_mut(ix).role = NodeRole::Replica(None);
    }

    fn sort_replicas(&mut self, primary: NodeIx) {
        let mut replicas = std::mem::take(&mut self.node_mut(primary).replicas);
        replicas.sort_by_key(|replica| self.node(*replica).id);
        self.node_mut(primary).replicas = replicas;
    }

    /// The primary of a node: the known primary of a replica, or the node itself.
    pub(crate) fn primary_of(&self, ix: NodeIx) -> NodeIx {
        self.node(ix).primary().unwrap_or(ix)
    }

    /// Whether the chain of primaries that begins with `ix` contains `target`, or is a cycle.
    pub(crate) fn leads_to(&self, ix: NodeIx, target: NodeIx) -> bool {
        let mut at = ix;
        for _ in 0..self.len() {
            if at == target {
                return true;
            }
            let Some(above) = self.node(at).primary() else { return false };
            at = above;
        }
        true
    }
}

/// Ids that an operator has forgotten, each with the time at which it is admitted again (G-21).
#[derive(Clone, Debug, Default)]
pub(crate) struct Blacklist {
    until: BTreeMap<NodeId, Ms>,
}

/// The most ids in the blacklist. If it is full, the id whose time ends first is removed for a new one
///
pub const BLACKLIST_MAX: usize = 1_024;
/// The longest time for which an id may be forgotten, in seconds.
const FORGOTTEN_S_MAX: u64 = 7 * 24 * 3_600;

impl Blacklist {
    /// Adds an id for `seconds`, but for at most 7 days. If the list is full, the id whose time ends first is
    /// removed.
    pub(crate) fn add(&mut self, id: NodeId, seconds: u64, now: Ms) {
        if !self.until.contains_key(&id) && self.until.len() >= BLACKLIST_MAX {
            let first = self.until.iter().min_by_key(|(_, until)| **until).map(|(id, _)| *id);
            if let Some(first) = first {
                self.until.remove(&first);
            }
        }
        self.until.insert(id, now.saturating_add(seconds.min(FORGOTTEN_S_MAX) * 1_000));
    }

    pub(crate) fn contains(&self, id: &NodeId, now: Ms) -> bool {
        self.until.get(id).is_some_and(|until| *until > now)
    }

    /// Removes an id; returns the end of its time.
    pub(crate) fn remove(&mut self, id: &NodeId) -> Option<Ms> {
        self.until.remove(id)
    }

    pub(crate) fn clear(&mut self) {
        self.until.clear();
    }

    /// Removes ids whose time is over.
    pub(crate) fn expire(&mut self, now: Ms) {
        if !self.until.is_empty() {
            self.until.retain(|_, until| *until > now);
        }
    }

    /// The ids, each with the whole seconds that are left. An id in its last second is left out. A node that
    /// still knows the forgotten node forgets it for as many seconds as it receives, so if the rest were
    /// rounded up to one second, the id would circulate for ever.
    pub(crate) fn iter(&self, now: Ms) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.until
            .iter()
            .filter(move |(_, until)| **until > now)
            .map(move |(id, until)| (*id, (*until - now) / 1_000))
            .filter(|(_, seconds)| *seconds > 0)
    }
}

//! Nodes, owners of slots, open slots, and who is whose replica.
//!
//! Invariants: (1) the table of owners, the nodes' bitmaps and their counts agree; (2) a node's list of
//! replicas holds exactly the nodes whose primary it is, by id; (3) a deleted node is named nowhere; (4)
//! exactly one node is this one, and it is never deleted; (5) nodes are walked in the order of their
//! positions, so that a machine is a function of its inputs; (6) the next cron looks at every node that
//! may have changed.

use crate::id::NodeId;
use crate::id_index::IdIndex;
use crate::node::{ClusterNode, Ms, NodeHealth, NodeIx, NodeRole};
use crate::slots::{HashSlot, SLOT_COUNT, SlotSet};
use sluice_base::HashSeed;
use sluice_base::mistake::{Mistake, is_made};
use std::collections::BTreeMap;

/// Nodes that may be known. MEETs and gossip about more are ignored with a warning.
pub const NODES_MAX: usize = 2_000;
/// Handshakes under way at once.
pub const HANDSHAKES_MAX: usize = 64;

/// The position that stands for "no owner".
const NOBODY: u32 = u32::MAX;

/// The cron's next look at a node.
#[derive(Clone, Copy, Debug)]
struct CronDue {
    /// Nothing is due for the node before this time.
    at: Ms,
    /// The moment at which the node is to be suspected, as long as nothing changes the node.
    suspicion: Option<Ms>,
}

impl CronDue {
    const NOW: CronDue = CronDue { at: 0, suspicion: None };
}

/// All nodes, and the slots among them.
#[derive(Clone, Debug)]
pub(crate) struct NodeTable {
    nodes: Vec<Option<Box<ClusterNode>>>,
    /// By position: the cron reads this, and few of the nodes.
    due: Vec<CronDue>,
    free: Vec<u32>,
    /// Nodes in the order of their ids, for what is shown.
    by_id: BTreeMap<NodeId, NodeIx>,
    /// Positions by id, for look-ups.
    index: IdIndex,
    me: NodeIx,
    owners: Vec<u32>,
    /// How many nodes are suspected (PFAIL).
    suspects: usize,
    /// Slots that their owner does not claim any more (E-12).
    unclaimed: SlotSet,
    /// Slots of mine that move away, and where to.
    pub(crate) migrating: BTreeMap<HashSlot, NodeIx>,
    /// Slots that move to me, and where from.
    pub(crate) importing: BTreeMap<HashSlot, NodeIx>,
}

impl NodeTable {
    /// A table with this node alone. `seed` is the key of its index.
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

    /// The node at `ix`, which the caller holds as valid.
    pub(crate) fn node(&self, ix: NodeIx) -> &ClusterNode {
        self.nodes[ix.0 as usize].as_deref().expect("an index of a node lives as long as the node")
    }

    /// The node at `ix` for a change, after which the next cron looks at that node.
    pub(crate) fn node_mut(&mut self, ix: NodeIx) -> &mut ClusterNode {
        self.due[ix.0 as usize] = CronDue::NOW;
        self.nodes[ix.0 as usize].as_deref_mut().expect("an index of a node lives as long as the node")
    }

    /// Whether the cron may have something to do for a node by now. O(1).
    pub(crate) fn is_due(&self, ix: NodeIx, now: Ms) -> bool {
        self.due[ix.0 as usize].at <= now
    }

    /// The cron has looked at a node: nothing is due before `at`, unless somebody changes the node.
    pub(crate) fn set_due(&mut self, ix: NodeIx, at: Ms, suspicion: Option<Ms>) {
        self.due[ix.0 as usize] = CronDue { at, suspicion };
    }

    /// The moment at which a node is to be suspected, as the cron found that looked at the node last. O(1).
    pub(crate) fn suspicion_at(&self, ix: NodeIx) -> Option<Ms> {
        self.due[ix.0 as usize].suspicion
    }

    /// The next cron looks at every node: directives have changed.
    pub(crate) fn all_due(&mut self) {
        self.due.fill(CronDue::NOW);
    }

    /// Whether a node stands at `ix`.
    pub(crate) fn has(&self, ix: NodeIx) -> bool {
        self.nodes.get(ix.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn find(&self, id: &NodeId) -> Option<NodeIx> {
        self.index.find(id, |position| &self.node(NodeIx(position)).id).map(NodeIx)
    }

    /// The index has to be made anew: it is full, or a node has gone or has another id.
    fn rebuild_index(&mut self) {
        let ids = self.by_id.iter().map(|(id, ix)| (id, ix.0));
        self.index.rebuild(self.by_id.len(), ids);
    }

    /// How many nodes there are, this one and handshakes included.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many positions there are: each below may hold a node.
    pub(crate) fn positions(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The node at position `position`, if one is there.
    pub(crate) fn at(&self, position: u32) -> Option<NodeIx> {
        self.nodes.get(position as usize)?.as_ref().map(|_| NodeIx(position))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIx, &ClusterNode)> {
        self.nodes.iter().zip(0..).filter_map(|(node, ix)| Some((NodeIx(ix), node.as_deref()?)))
    }

    /// All nodes by id.
    pub(crate) fn by_id(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.by_id.values().copied()
    }

    /// Adds a node whose id nobody here has.
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

    /// What is held of a node's health.
    pub(crate) fn set_health(&mut self, ix: NodeIx, health: NodeHealth) {
        let before = std::mem::replace(&mut self.node_mut(ix).health, health);
        self.suspects -= usize::from(before == NodeHealth::PFail);
        self.suspects += usize::from(health == NodeHealth::PFail);
    }

    /// How many nodes are suspected. O(1).
    pub(crate) fn suspects(&self) -> usize {
        self.suspects
    }

    /// Gives a node its own id: the end of a handshake, or RESET HARD of this node.
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

    /// Takes a node out: slots, open slots, reports and replicas of it lose their reference (G-22). The slots
    /// that it owned come back. The links are the caller's to close.
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
        }
        self.by_id.remove(&self.node(ix).id.clone());
        self.rebuild_index();
        self.set_health(ix, NodeHealth::Up);
        self.nodes[ix.0 as usize] = None;
        self.free.push(ix.0);
        slots
    }

    /// Who owns a slot.
    pub(crate) fn owner(&self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.owners[usize::from(slot.number())];
        (owner != NOBODY).then_some(NodeIx(owner))
    }

    /// Whether the owner of a slot has stopped claiming it.
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

    /// The slots of a node but those that it has stopped claiming (E-20).
    pub(crate) fn claimed_slots(&self, ix: NodeIx) -> SlotSet {
        let mut slots = self.node(ix).slots.clone();
        for slot in self.unclaimed.iter().filter(|_| !is_made(Mistake::UnclaimedSlotsTold)) {
            slots.remove(slot);
        }
        slots
    }

    /// Gives a slot without owner to a node.
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

    /// Takes a slot from its owner; whether it had one.
    pub(crate) fn unbind(&mut self, slot: HashSlot) -> Option<NodeIx> {
        let owner = self.owner(slot)?;
        self.owners[usize::from(slot.number())] = NOBODY;
        self.unclaimed.remove(slot);
        let node = self.node_mut(owner);
        node.slots.remove(slot);
        node.slot_count -= 1;
        Some(owner)
    }

    /// Makes a node a primary (R21: replicas may move to it).
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

    /// Makes a node the replica of another, or of one that is not known.
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

    /// The primary of a node: its primary if it is a replica of a known one, else itself.
    pub(crate) fn primary_of(&self, ix: NodeIx) -> NodeIx {
        self.node(ix).primary().unwrap_or(ix)
    }

    /// Whether the primaries above `ix` lead to `target`.
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

/// Ids that an operator forgot, each until a time (G-21).
#[derive(Clone, Debug, Default)]
pub(crate) struct Blacklist {
    until: BTreeMap<NodeId, Ms>,
}

/// Ids that the blacklist holds at most; the one that ends first makes room.
pub const BLACKLIST_MAX: usize = 1_024;
/// Seconds for which an id may be forgotten at most.
const FORGOTTEN_S_MAX: u64 = 7 * 24 * 3_600;

impl Blacklist {
    /// Adds an id for `seconds`, 7 days at most.
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

    /// Takes an id out; until when it would have stayed.
    pub(crate) fn remove(&mut self, id: &NodeId) -> Option<Ms> {
        self.until.remove(id)
    }

    pub(crate) fn clear(&mut self) {
        self.until.clear();
    }

    /// Drops ids whose time is over.
    pub(crate) fn expire(&mut self, now: Ms) {
        if !self.until.is_empty() {
            self.until.retain(|_, until| *until > now);
        }
    }

    /// The ids, with the whole seconds that are left of each. An id in its last second is not told: what is
    /// told is begun anew by whoever still knows the node, and a part of a second counted as one would go
    /// around for ever.
    pub(crate) fn iter(&self, now: Ms) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.until
            .iter()
            .filter(move |(_, until)| **until > now)
            .map(move |(id, until)| (*id, (*until - now) / 1_000))
            .filter(|(_, seconds)| *seconds > 0)
    }
}

//! The answer to a request by its slot: a pure function of the map (S-11 to S-19).
//!
//! Invariants: (1) keys are looked for only where a slot is open; (2) a request that may run here answers
//! [`SlotVerdict::Local`] whatever later checks say.

use crate::output::{ClusterState, MapNode, SlotMap};
use crate::slots::HashSlot;

/// A request whose keys have one slot, as far as the slot's owner asks.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest {
    /// The slot.
    pub slot: HashSlot,
    /// Whether a command of sharded publish/subscribe is among the commands.
    pub is_shard_pubsub: bool,
    /// Whether a command, or the script that it runs, writes.
    pub writes: bool,
    /// Whether the command is MIGRATE.
    pub is_migrate: bool,
    /// Whether the command takes a key to another database (S-13).
    pub leaves_db: bool,
    /// Whether ASKING came before, or the command asks by itself.
    pub is_asking: bool,
    /// Whether the client has sent READONLY.
    pub is_readonly: bool,
}

/// Directives that decide while the cluster is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownRules {
    /// `cluster-allow-reads-when-down`.
    pub allows_reads: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub allows_shard_pubsub: bool,
}

/// Keys of a request that were looked for here. Nothing is counted where they are not to be looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Keys that are here, each as often as the request names it.
    pub existing: usize,
    /// Keys that are not, or have expired.
    pub missing: usize,
    /// Whether two keys of the request differ.
    pub are_several: bool,
}

/// Where a request is answered.
#[derive(Clone, Copy, Debug)]
pub enum SlotVerdict<'a> {
    /// Here.
    Local,
    /// Here, as soon as the node's file says so.
    LocalLater,
    /// By what this node has heard shortly after it came back; now nowhere.
    DownAtFirst,
    /// Nowhere: the slot has no owner.
    Unbound,
    /// Nowhere: the cluster is down.
    Down,
    /// Nowhere, because the request writes and the cluster is down.
    DownForWrites,
    /// At two nodes: the client is to come again.
    TryAgain,
    /// At the node that the slot moves to, for this request.
    Ask(&'a MapNode),
    /// At the slot's owner.
    Moved(&'a MapNode),
}

impl SlotMap {
    /// The owner of a slot.
    pub fn owner(&self, slot: HashSlot) -> Option<&MapNode> {
        let position = self.owners.get(usize::from(slot.number())).copied().unwrap_or(0);
        self.nodes.get(usize::from(position).checked_sub(1)?)
    }

    /// The node with this id.
    fn node(&self, id: crate::NodeId) -> Option<&MapNode> {
        let at = self.nodes.binary_search_by(|node| node.id.cmp(&id)).ok()?;
        self.nodes.get(at)
    }

    /// Where a request is answered. `look` looks for its keys, and is called only where that matters.
    pub fn answer(
        &self,
        request: &SlotRequest,
        rules: DownRules,
        look: impl FnOnce() -> KeyCounts,
    ) -> SlotVerdict<'_> {
        let slot = request.slot;
        let Some(owner) = self.owner(slot) else { return SlotVerdict::Unbound };
        let is_replica = self.my_primary.is_some();
        let is_mine = match self.my_primary {
            Some(primary) => owner.id == primary,
            None => owner.is_myself,
        };
        let looks_at_open = !is_replica || request.is_readonly;
        let target = find(&self.migrating, slot).filter(|_| looks_at_open && is_mine);
        let is_importing = looks_at_open && target.is_none() && find(&self.importing, slot).is_some();
        let is_open = target.is_some() || is_importing;
        let looks_for_keys = is_open && !request.is_shard_pubsub;
        if looks_for_keys && request.leaves_db {
            return SlotVerdict::TryAgain;
        }
        if self.state == ClusterState::Fail
            && let Some(refusal) = refusal_when_down(request, rules)
        {
            return if self.is_coming_back { SlotVerdict::DownAtFirst } else { refusal };
        }
        if is_open && !is_replica && request.is_migrate {
            return SlotVerdict::Local;
        }
        let keys = if looks_for_keys { look() } else { KeyCounts::default() };
        if let Some(target) = target
            && keys.missing > 0
        {
            return match self.node(target) {
                _ if keys.existing > 0 => SlotVerdict::TryAgain,
                Some(node) => SlotVerdict::Ask(node),
                None => SlotVerdict::Unbound,
            };
        }
        if is_importing && request.is_asking {
            let is_split = keys.are_several && keys.missing > 0;
            return match is_split {
                true => SlotVerdict::TryAgain,
                false if self.postponed.contains(slot) => SlotVerdict::LocalLater,
                false => SlotVerdict::Local,
            };
        }
        let reads = (request.is_readonly || request.is_shard_pubsub) && !request.writes;
        let reads_here = reads && !self.is_leaving;
        match is_mine && (!is_replica || reads_here) {
            true if self.postponed.contains(slot) => SlotVerdict::LocalLater,
            true => SlotVerdict::Local,
            false => SlotVerdict::Moved(owner),
        }
    }
}

/// Why a request is not answered while the cluster is down (S-14).
fn refusal_when_down(request: &SlotRequest, rules: DownRules) -> Option<SlotVerdict<'static>> {
    if request.is_shard_pubsub {
        return (!rules.allows_shard_pubsub).then_some(SlotVerdict::Down);
    }
    match rules.allows_reads {
        false => Some(SlotVerdict::Down),
        true => request.writes.then_some(SlotVerdict::DownForWrites),
    }
}

/// The node of an open slot in a list that is ordered by slot.
fn find(open: &[(HashSlot, crate::NodeId)], slot: HashSlot) -> Option<crate::NodeId> {
    let at = open.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    open.get(at).map(|(_, node)| *node)
}

#[cfg(test)]
mod tests;

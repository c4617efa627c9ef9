//! Decides from its slot where a request is executed. The decision is a pure function of the map (S-11 to
//! S-19).
//!
//! Invariants: (1) keys are looked up only if the slot is open, that is, migrating or imported; (2) a request
//! that may be executed here gets [`SlotVerdict::Local`] or [`SlotVerdict::LocalLater`], whatever later
//! checks decide.

use crate::output::{ClusterState, MapNode, SlotMap};
use crate::slots::HashSlot;

/// The properties of a request, whose keys are all in one slot, that decide where it is executed.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest {
    /// The slot of all keys of the request.
    pub slot: HashSlot,
    /// Whether a command of sharded publish/subscribe is among the commands.
    pub is_shard_pubsub: bool,
    /// Whether a command, or the script that it runs, writes.
    pub writes: bool,
    /// Whether the command is MIGRATE.
    pub is_migrate: bool,
    /// Whether the command takes a key to another database (S-13).
    pub leaves_db: bool,
    /// Whether the client sent ASKING before, or the command implies ASKING.
    pub is_asking: bool,
    /// Whether the client has sent READONLY.
    pub is_readonly: bool,
}

/// Directives about requests while the cluster is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownRules {
    /// `cluster-allow-reads-when-down`: reads are executed while the cluster is down.
    pub allows_reads: bool,
    /// `cluster-allow-pubsubshard-when-down`: sharded publish/subscribe works while the cluster is down.
    pub allows_shard_pubsub: bool,
}

/// Counts of a request's keys that were looked up here; all 0 if no look-up is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Keys that exist here, each as often as the request names it.
    pub existing: usize,
    /// Keys that do not exist here, or have expired.
    pub missing: usize,
    /// Whether two keys of the request differ.
    pub are_several: bool,
}

/// The place where a request is executed, or the reason why it is refused.
#[derive(Clone, Copy, Debug)]
pub enum SlotVerdict<'a> {
    /// This node executes the request now.
    Local,
    /// This node executes the request once its `nodes.conf` is durable.
    LocalLater,
    /// Undecided, because this node has just restarted. The request waits until the cluster's state is known.
    DownAtFirst,
    /// Refused: the slot has no owner, or the node that it moves to is not known.
    Unbound,
    /// Refused: the cluster is down.
    Down,
    /// Refused, because the request writes and the cluster is down.
    DownForWrites,
    /// Refused, because the request's keys are or may be at two nodes, or because it takes a key of an open
    /// slot to another database. The client has to try again.
    TryAgain,
    /// The node that the slot moves to, for this request only (`-ASK`).
    Ask(&'a MapNode),
    /// The slot's owner (`-MOVED`).
    Moved(&'a MapNode),
}

impl SlotMap {
    /// The owner of a slot; `None` if the slot has none.
    pub fn owner(&self, slot: HashSlot) -> Option<&MapNode> {
        let position = self.owners.get(usize::from(slot.number())).copied().unwrap_or(0);
        self.nodes.get(usize::from(position).checked_sub(1)?)
    }

    fn node(&self, id: crate::NodeId) -> Option<&MapNode> {
        let at = self.nodes.binary_search_by(|node| node.id.cmp(&id)).ok()?;
        self.nodes.get(at)
    }

    /// Decides where a request is executed. `look` looks up its keys, and is called only if the slot is open.
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

/// The refusal of a request while the cluster is down; `None` for requests that are allowed then (S-14).
fn refusal_when_down(request: &SlotRequest, rules: DownRules) -> Option<SlotVerdict<'static>> {
    if request.is_shard_pubsub {
        return (!rules.allows_shard_pubsub).then_some(SlotVerdict::Down);
    }
    match rules.allows_reads {
        false => Some(SlotVerdict::Down),
        true => request.writes.then_some(SlotVerdict::DownForWrites),
    }
}

/// The node of an open slot in a list ordered by slot.
fn find(open: &[(HashSlot, crate::NodeId)], slot: HashSlot) -> Option<crate::NodeId> {
    let at = open.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    open.get(at).map(|(_, node)| *node)
}

#[cfg(test)]
mod tests;

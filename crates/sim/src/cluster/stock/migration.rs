//! Replicas that move to orphaned primaries (R20, R21).

use super::record::StockNode;
use super::state::Stock;
use sluice_cluster::NodeId;
use sluice_cluster::wire::NodeFlags;
use std::collections::BTreeMap;

/// Milliseconds after which a replica moves to an orphaned primary.
const ORPHANED_MS: u64 = 5_000;

impl Stock {
    /// R21, as far as a check at each tick can approximate it: a primary that gets its first replica or
    /// slot wants replicas, and one that has lost its last replica does not.
    fn note_wishes(&mut self) {
        let mut replicas: BTreeMap<NodeId, usize> = BTreeMap::new();
        for primary in self.nodes.values().filter_map(|node| node.primary) {
            *replicas.entry(primary).or_default() += 1;
        }
        self.seen_primaries.retain(|id, _| self.nodes.contains_key(id));
        for (id, node) in &mut self.nodes {
            let seen = self.seen_primaries.entry(*id).or_default();
            let count = replicas.get(id).copied().unwrap_or(0);
            let has_slots = !node.slots.is_empty();
            let is_first_slot = has_slots && !seen.has_slots && !replicas.is_empty();
            match node.has(NodeFlags::PRIMARY) {
                false => node.clear(NodeFlags::MIGRATE_TO),
                true if count > seen.replicas || is_first_slot => node.set(NodeFlags::MIGRATE_TO),
                true if count == 0 && seen.replicas > 0 => node.clear(NodeFlags::MIGRATE_TO),
                true => {}
            }
            (seen.replicas, seen.has_slots) = (count, has_slots);
        }
    }

    fn good_replicas(&self, primary: NodeId) -> usize {
        let is_good = |node: &&StockNode| node.primary == Some(primary) && !node.has(NodeFlags::FAIL);
        self.nodes.values().filter(is_good).count()
    }

    /// R20: called at each tick; moves this replica to an orphaned primary when the replica's turn has come.
    pub(super) fn migrate(&mut self) {
        self.note_wishes();
        let Some(mine) = self.own().primary.filter(|_| self.settings.allow_replica_migration) else { return };
        let is_counted = |id: &NodeId, node: &StockNode| {
            let is_out = node.has(NodeFlags::FAIL | NodeFlags::NOADDR | NodeFlags::HANDSHAKE);
            *id != self.me && !is_out && node.has(NodeFlags::PRIMARY)
        };
        let primaries = self.nodes.iter().filter(|(id, node)| is_counted(id, node));
        let good: BTreeMap<NodeId, usize> = primaries.map(|(id, _)| (*id, self.good_replicas(*id))).collect();
        let wants_one = |id: &NodeId| {
            let node = &self.nodes[id];
            good[id] == 0 && !node.slots.is_empty() && node.has(NodeFlags::MIGRATE_TO)
        };
        let orphans: Vec<NodeId> = good.keys().copied().filter(wants_one).collect();
        let most = good.values().copied().max().unwrap_or(0);
        if orphans.is_empty() || most < 2 || good.get(&mine) != Some(&most) {
            return;
        }
        for (id, seen) in &mut self.seen_primaries {
            match orphans.contains(id) {
                true => _ = seen.orphaned.get_or_insert(self.now),
                false => seen.orphaned = None,
            }
        }
        let is_up = |node: &&StockNode| node.primary == Some(mine) && !node.is_failing();
        let is_spare = self.nodes.values().filter(is_up).count() > self.settings.migration_barrier;
        // A dead replica counts too, as in the reference (D16).
        let full = self.nodes.iter().filter(|(_, node)| {
            node.primary.and_then(|primary| good.get(&primary)).is_some_and(|count| *count == most)
        });
        let candidate = full.map(|(id, _)| *id).min();
        let target = orphans[0];
        let since = self.seen_primaries.get(&target).and_then(|seen| seen.orphaned);
        let is_time = since.is_some_and(|since| self.now.saturating_sub(since) > ORPHANED_MS);
        if self.health.is_ok && is_spare && candidate == Some(self.me) && is_time {
            self.follow(target);
            self.pong_to_all();
        }
    }
}

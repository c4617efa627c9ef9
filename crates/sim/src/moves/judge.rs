//! The checks at each step, and at the end.

use super::clients::{is_over, ranges_have};
use super::ledger::Excuse;
use super::view::{KeyName, NodeLine, content_of, lines_of, shown, slot_of};
use super::world::{MS, MovesWorld};
use crate::net::NodeId;
use crate::node::node_of;
use sluice_cluster::SLOT_COUNT;
use sluice_engine::exports::slot_exports;
use std::collections::{BTreeMap, BTreeSet};

/// Steps between two checks of the slots' owners.
const LOOK_STEPS: u64 = 8;
/// Milliseconds without faults within which all nodes must agree; clients write during the first
/// `WRITTEN_MS` of them.
const TOGETHER_MS: u64 = 60_000;
const WRITTEN_MS: u64 = 30_000;

impl MovesWorld {
    /// Does the checks of a step.
    pub(super) fn look(&mut self) -> Result<(), String> {
        for id in 0..self.hosts.len() {
            if self.goes_on(id) {
                self.has_no_bit_without_job(id)?;
                self.hides_what_comes(id)?;
            }
        }
        if self.steps.is_multiple_of(LOOK_STEPS) {
            self.has_one_owner()?;
        }
        Ok(())
    }

    /// Checks that a primary hides slots, and that a node exports slots, only for a job that is not finished
    /// (H-29).
    fn has_no_bit_without_job(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = &mut self.hosts[id].node else { return Ok(()) };
        let exports = slot_exports(&mut node.engine).map_or(0, |exports| exports.jobs().count());
        let is_primary = node.engine.primary().is_none() && !node.engine.is_loading();
        let imports = node.engine.keyspace().imports();
        let Some(machine) = node.engine.node() else { return Ok(()) };
        if imports.is_empty() && exports == 0 {
            return Ok(());
        }
        let is_known = |name: &[u8]| {
            let mut rows = machine.migrations();
            rows.any(|row| row.name.0[..] == *name && row.operation == "IMPORT" && !is_over(row.state))
        };
        if let Some(import) = imports.iter().find(|import| is_primary && !is_known(&import.name)) {
            let name = import.name.escape_ascii();
            return Err(format!("H-29: node {id} hides the slots of {name}, which is no job of it"));
        }
        let open = machine.migrations().filter(|row| row.operation == "EXPORT" && !is_over(row.state));
        if open.count() < exports {
            return Err(format!("H-29: node {id} exports slots without a job"));
        }
        Ok(())
    }

    /// Checks that the first slot of each move that brings slots to this node is hidden during the move
    /// (G-13), and that a failed move leaves no keys in its slots, except in slots that the node or its
    /// primary serves or kept.
    fn hides_what_comes(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = &self.hosts[id].node else { return Ok(()) };
        let Some(machine) = node.engine.node().filter(|_| !node.engine.is_loading()) else { return Ok(()) };
        let keyspace = node.engine.keyspace();
        for row in machine.migrations().filter(|row| row.operation == "IMPORT" && !is_over(row.state)) {
            let first = row.slot_ranges.split('-').next().and_then(|first| first.parse().ok());
            if first.is_some_and(|first| !keyspace.is_hidden(first)) {
                return Err(format!("G-13: node {id} shows slots that are on their way: {row:?}"));
            }
        }
        let imports =
            keyspace.imports().iter().map(|import| (import.name.to_vec(), import.slots().collect()));
        let imports: Vec<(Vec<u8>, Vec<u16>)> = imports.collect();
        for (name, slots) in self.hosts[id].imports.iter().filter(|(name, _)| !has(&imports, name)) {
            let mut rows = machine.migrations();
            let is_failed = rows.any(|row| row.name.0[..] == name[..] && row.state == "failed");
            let lines = lines_of(&machine.nodes_text());
            let own = lines.iter().find(|line| line.is_myself).cloned().unwrap_or_default();
            let is_served = |slot: u16| {
                own.has(slot)
                    || self.kept.contains(&(name.clone(), slot))
                    || lines.iter().any(|line| line.id == own.primary && line.has(slot))
            };
            let mut left = slots.iter().filter(|slot| {
                let has_keys = keyspace.iter().any(|(_, db)| db.slot_len(**slot) > 0);
                // Hidden keys do not count, because the next move of the slot may have begun.
                has_keys && !is_served(**slot) && !keyspace.is_hidden(**slot)
            });
            if let Some(slot) = left.next().filter(|_| is_failed) {
                let name = name.escape_ascii();
                return Err(format!("A-36: node {id} has keys of slot {slot}, whose move {name} has failed"));
            }
        }
        self.hosts[id].imports = imports;
        Ok(())
    }

    /// Notes the slots of failed imports that a primary keeps as its own, because a replica has the
    /// keys of these imports until the primary's deletions arrive, whoever owns the slots later.
    pub(super) fn note_kept(&mut self, id: NodeId) {
        let own = self.hosts[id].own_line();
        let machine = self.hosts[id].node.as_ref().and_then(|node| node.engine.node());
        let rows = machine.into_iter().flat_map(|machine| machine.migrations());
        for row in rows.filter(|row| own.is_primary && row.operation == "IMPORT" && row.state == "failed") {
            let slots = self.plan.tags.iter().map(|(_, slot)| *slot);
            let kept = slots.filter(|slot| own.has(*slot) && ranges_have(&row.slot_ranges, *slot));
            self.kept.extend(kept.map(|slot| (row.name.0.to_vec(), slot)));
        }
    }

    /// Checks that no two nodes that receive each other's messages own a slot at one epoch for long.
    fn has_one_owner(&mut self) -> Result<(), String> {
        let lines = self.own_lines();
        let limit_ns = 8 * self.plan.timeout_ms * MS;
        for one in 0..lines.len() {
            for other in one + 1..lines.len() {
                let (of_one, of_other) = (&lines[one], &lines[other]);
                let both = of_one.is_primary
                    && of_other.is_primary
                    && of_one.epoch == of_other.epoch
                    && of_one.shared_with(of_other).is_some();
                let talk = self.goes_on(one) && self.goes_on(other) && !self.net.is_cut(one, other);
                if !both || !talk {
                    self.two_owners.remove(&(one, other));
                    continue;
                }
                let since_ns = *self.two_owners.entry((one, other)).or_insert(self.now.mono_ns);
                if self.now.mono_ns - since_ns > limit_ns {
                    return Err(format!("nodes {one} and {other} own a slot at epoch {}", of_one.epoch));
                }
            }
        }
        Ok(())
    }

    /// Runs until all nodes agree and no move of slots is in progress.
    pub(super) fn come_together(&mut self) -> Result<(), String> {
        let end_ns = self.now.mono_ns + TOGETHER_MS * MS;
        self.rests_ns = self.now.mono_ns + WRITTEN_MS * MS;
        loop {
            self.run_ms(500)?;
            self.hear_answers();
            match self.is_together() {
                Ok(()) => return Ok(()),
                Err(why) if self.now.mono_ns > end_ns => {
                    return Err(format!("not within {TOGETHER_MS} ms: {why}"));
                }
                Err(why) => self.trace(|| why),
            }
        }
    }

    fn is_together(&mut self) -> Result<(), String> {
        let mut first: Option<Vec<NodeLine>> = None;
        for id in 0..self.hosts.len() {
            let lines = self.lines_seen_by(id)?;
            match &first {
                Some(first) if *first != lines => {
                    return Err(format!("nodes 0 and {id} do not agree: {first:?}, {lines:?}"));
                }
                Some(_) => {}
                None => first = Some(lines),
            }
            self.has_ended_all(id)?;
        }
        let lines = first.unwrap_or_default();
        let missing = (0..SLOT_COUNT).find(|slot| lines.iter().filter(|line| line.has(*slot)).count() != 1);
        if let Some(slot) = missing {
            return Err(format!("slot {slot} has no owner, or two"));
        }
        self.have_their_primaries_data()?;
        // This is checked last, because keys of a lost slot are deleted in slices, after `nodes.conf` was
        // written without the slot.
        (0..self.hosts.len()).try_for_each(|id| self.keeps_own_keys(id))
    }

    /// Checks that a primary has no keys in slots of other owners.
    fn keeps_own_keys(&self, id: NodeId) -> Result<(), String> {
        let (host, own) = (&self.hosts[id], self.hosts[id].own_line());
        let Some(node) = host.node.as_ref().filter(|_| own.is_primary) else { return Ok(()) };
        match content_of(&node.engine).keys().find(|key| !own.has(slot_of(key))) {
            Some(key) => Err(format!("node {id} keeps {}, whose slot is another's", shown(key))),
            None => Ok(()),
        }
    }

    /// All nodes as node `id` sees them, without the flag `myself`.
    fn lines_seen_by(&self, id: NodeId) -> Result<Vec<NodeLine>, String> {
        let machine = self.hosts[id].node.as_ref().and_then(|node| node.engine.node());
        let Some(machine) = machine else { return Err(format!("node {id} does not run")) };
        let info = machine.info();
        if info.state != sluice_cluster::ClusterState::Ok {
            return Err(format!("node {id} holds the cluster for failed"));
        }
        let mut lines = lines_of(&machine.nodes_text());
        if let Some(line) = lines.iter().find(|line| line.is_failing) {
            return Err(format!("node {id} holds {} for failed", line.id));
        }
        lines.iter_mut().for_each(|line| line.is_myself = false);
        lines.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(lines)
    }

    fn has_ended_all(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = &mut self.hosts[id].node else { return Ok(()) };
        let exports = slot_exports(&mut node.engine).map_or(0, |exports| exports.jobs().count());
        let imports = node.engine.keyspace().imports().len();
        let Some(machine) = node.engine.node() else { return Ok(()) };
        if let Some(row) = machine.migrations().find(|row| !is_over(row.state)) {
            return Err(format!("node {id} goes on with {row:?}"));
        }
        match (exports, imports) {
            (0, 0) => Ok(()),
            _ => Err(format!("node {id} has {exports} exports and {imports} imports")),
        }
    }

    /// Checks that each replica has its primary's data.
    fn have_their_primaries_data(&self) -> Result<(), String> {
        let contents: Vec<BTreeMap<KeyName, Vec<u64>>> = self
            .hosts
            .iter()
            .map(|host| host.node.as_ref().map(|node| content_of(&node.engine)).unwrap_or_default())
            .collect();
        for (id, host) in self.hosts.iter().enumerate() {
            let primary = host.node.as_ref().and_then(|node| node.engine.primary());
            let Some(primary) = primary.map(node_of) else { continue };
            if contents[id] != contents[primary] {
                let differs = contents[primary].iter().find(|(key, ids)| contents[id].get(*key) != Some(ids));
                let more = contents[id].keys().find(|key| !contents[primary].contains_key(*key));
                return Err(format!(
                    "node {id} has other data than node {primary}: {differs:?}, here {:?}; or more: {:?}",
                    differs.and_then(|(key, _)| contents[id].get(key)),
                    more.map(shown)
                ));
            }
        }
        Ok(())
    }

    /// Does the checks of the end.
    pub(super) fn judge(&mut self) -> Result<(), String> {
        let lines = self.own_lines();
        for (id, line) in lines.iter().enumerate() {
            let Some(node) = &self.hosts[id].node else { return Err(format!("node {id} does not run")) };
            self.keeps_own_keys(id)?;
            let content = content_of(&node.engine);
            for (key, ids) in &content {
                let once: BTreeSet<&u64> = ids.iter().collect();
                if once.len() < ids.len() {
                    return Err(format!("{} at node {id} has a write twice: {ids:?}", shown(key)));
                }
            }
            if !line.is_primary {
                continue;
            }
            for key in self.ledger.keys().into_iter().filter(|key| line.has(slot_of(key))) {
                let has = content.get(&key).map_or(&[][..], Vec::as_slice);
                if let Some(lost) = self.ledger.owed(&key).find(|id| !has.contains(id)) {
                    return Err(format!(
                        "write {lost} of {} in slot {} was confirmed, and node {id}, its owner, has not: {has:?}",
                        shown(&key),
                        slot_of(&key)
                    ));
                }
                if let Some((first, second)) = self.ledger.reversed(&key, has) {
                    return Err(format!(
                        "write {second} of {} stands ahead of {first}, which was answered first: {has:?}",
                        shown(&key)
                    ));
                }
            }
        }
        self.met.confirmed = self.ledger.counts(None);
        self.met.lost_by_failover = self.ledger.counts(Some(Excuse::Failover));
        self.met.lost_by_force = self.ledger.counts(Some(Excuse::Forced));
        self.met.lost_by_left_out = self.ledger.counts(Some(Excuse::LeftOut));
        self.met.lost_by_flush = self.ledger.counts(Some(Excuse::Flush));
        self.met.lost_by_claims = self.ledger.counts(Some(Excuse::Claims));
        self.met.lost_by_base = self.ledger.counts(Some(Excuse::Base));
        Ok(())
    }
}

fn has(imports: &[(Vec<u8>, Vec<u16>)], name: &[u8]) -> bool {
    imports.iter().any(|(own, _)| own == name)
}

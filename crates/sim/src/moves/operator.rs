//! The operators' commands: moves and cancels, failovers, flushes, rewrites.

use super::orders::{Asked, OrderKind};
use super::plan::id_of;
use super::view::{NodeLine, content_of, slot_of};
use super::world::MovesWorld;
use crate::net::NodeId;
use std::collections::BTreeSet;

/// Time after an operator's order, ns, within which a failover counts as forced. It is long because an
/// election may have to be repeated.
const FORCED_NS: u64 = 10_000_000_000;

impl MovesWorld {
    fn strikes_at(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.rng.below(one_in) == 0
    }

    fn order(&mut self, id: NodeId, words: &[String], what: OrderKind) {
        self.trace(|| format!("to node {id}: {}", words.join(" ")));
        let boot = self.hosts[id].boot;
        let Some(node) = &mut self.hosts[id].node else { return };
        let session = node.client();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        node.request(session, &words);
        self.operators.asked.push(Asked { node: id, boot, session, what });
    }

    fn order_text(&mut self, id: NodeId, text: &str, what: OrderKind) {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        self.order(id, &words, what);
    }

    /// Takes the replies to the operators' earlier commands, and sends new random commands.
    pub(super) fn order_moves(&mut self) {
        self.hear_answers();
        let rates = self.plan.rates;
        let id = self.rng.below(self.hosts.len() as u64) as usize;
        if !self.goes_on(id) {
            return;
        }
        if self.strikes_at(rates.migrate) {
            self.migrate(id);
        }
        if self.strikes_at(rates.cancel) {
            self.order_text(id, "CLUSTER CANCELSLOTMIGRATIONS", OrderKind::Other);
        }
        if self.strikes_at(rates.rewrite) {
            self.met.rewrites += 1;
            self.order_text(id, "BGREWRITEAOF", OrderKind::Other);
        }
        if self.strikes_at(rates.flush) {
            self.met.flushes += 1;
            self.order_text(id, "FLUSHALL", OrderKind::Flush);
        }
        if self.strikes_at(rates.fail_over)
            && let Some(replica) = self.any_replica()
        {
            self.met.failovers += 1;
            let is_forced = self.rng.below(4) == 0;
            if is_forced {
                self.hosts[replica].forced_until_ns = self.now.mono_ns + FORCED_NS;
            }
            let forced = if is_forced { " FORCE" } else { "" };
            self.order_text(replica, &format!("CLUSTER FAILOVER{forced}"), OrderKind::Other);
        }
    }

    fn any_replica(&mut self) -> Option<NodeId> {
        let follows =
            |id: &NodeId| self.hosts[*id].node.as_ref().is_some_and(|node| node.engine.primary().is_some());
        let replicas: Vec<NodeId> =
            (0..self.hosts.len()).filter(|id| self.goes_on(*id)).filter(follows).collect();
        let at = self.rng.below(replicas.len().max(1) as u64) as usize;
        replicas.get(at).copied()
    }

    /// Sends MIGRATESLOTS with up to three groups of slots, if the node is a primary with slots and suitable
    /// groups were drawn.
    fn migrate(&mut self, source: NodeId) {
        let own = self.hosts[source].own_line();
        if !own.is_primary || own.slots.is_empty() {
            return;
        }
        let mut words: Vec<String> = ["CLUSTER", "MIGRATESLOTS"].map(str::to_owned).to_vec();
        let mut groups = 0;
        let mut taken = BTreeSet::new();
        for _ in 0..1 + self.rng.below(3) {
            let target = self.rng.below(self.hosts.len() as u64) as usize;
            let ranges = self.ranges(&own, &mut taken);
            let is_target = target != source && self.hosts[target].own_line().is_primary;
            // Sometimes the target is a replica, which is refused.
            if ranges.is_empty() || (!is_target && (target == source || self.rng.below(8) > 0)) {
                continue;
            }
            groups += 1;
            words.push("SLOTSRANGE".to_owned());
            words.extend(ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
            words.extend(["NODE".to_owned(), id_of(target)]);
        }
        if groups > 0 {
            self.order(source, &words, OrderKind::Migrate(groups));
        }
    }

    /// Ranges of slots that the node owns and that no earlier group of the command has. Unless a whole range
    /// is drawn, each range ends with a slot to which clients write.
    fn ranges(&mut self, own: &NodeLine, taken: &mut BTreeSet<u16>) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        if self.rng.below(20) == 0 && taken.is_empty() {
            // Sometimes a whole range is moved, with all clients' slots in it.
            let at = self.rng.below(own.slots.len() as u64) as usize;
            ranges.push(own.slots[at]);
        } else {
            let slots: Vec<u16> =
                self.plan.tags.iter().map(|(_, slot)| *slot).filter(|slot| own.has(*slot)).collect();
            for _ in 0..(1 + self.rng.below(3)).min(slots.len() as u64) {
                let slot = slots[self.rng.below(slots.len() as u64) as usize];
                let wide = self.rng.below(4) * self.rng.below(40);
                let (first, last) = (slot.saturating_sub(wide as u16), slot);
                let (first, last) = if own.has(first) { (first, last) } else { (last, last) };
                ranges.push((first, last));
            }
        }
        ranges.retain(|(first, last)| {
            let is_free = (*first..=*last).all(|slot| own.has(slot) && !taken.contains(&slot));
            if is_free {
                taken.extend(*first..=*last);
            }
            is_free
        });
        ranges
    }

    /// Takes the replies to operators' commands.
    pub(super) fn hear_answers(&mut self) {
        for asked in std::mem::take(&mut self.operators.asked) {
            let Asked { node: id, boot, session, what } = asked;
            if self.hosts[id].boot != boot || self.hosts[id].node.is_none() {
                // The process has ended without a reply, but it may have executed the flush.
                if what == OrderKind::Flush {
                    self.excuse_flush(id);
                }
                continue;
            }
            let Some(node) = &mut self.hosts[id].node else { continue };
            let answer = String::from_utf8_lossy(&node.replies(session)).into_owned();
            if answer.is_empty() && node.has_client(session) {
                if what == OrderKind::Flush {
                    self.excuse_flush(id);
                }
                self.operators.asked.push(asked);
                continue;
            }
            node.close_client(session);
            match what {
                OrderKind::Migrate(_) if answer.starts_with('-') => self.met.refused += 1,
                OrderKind::Flush => self.excuse_flush(id),
                OrderKind::Migrate(_) | OrderKind::Other => {}
            }
            if answer.starts_with('-') {
                self.trace(|| format!("node {id} refuses: {}", answer.trim()));
            }
        }
    }

    /// Notes in the ledger that a flush may have removed all writes to certain slots: those that the node
    /// owns (by its own view or its file), and those of which it has keys.
    fn excuse_flush(&mut self, id: NodeId) {
        let own = self.hosts[id].own_line();
        let node = self.hosts[id].node.as_ref();
        let kept: BTreeSet<u16> =
            node.map(|node| content_of(&node.engine).keys().map(slot_of).collect()).unwrap_or_default();
        for at in 0..self.plan.tags.len() {
            let slot = self.plan.tags[at].1;
            if own.has(slot) || kept.contains(&slot) {
                self.ledger.flushed(slot);
            }
        }
    }
}

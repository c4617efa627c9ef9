//! Failure detection and the cluster's state (section 4 of the specification).

use super::state::Stock;
use sluice_cluster::NodeId;
use sluice_cluster::wire::{MessageBody, MessageFlags, NodeFlags};

impl Stock {
    pub(super) fn quorum(&self) -> usize {
        self.health.size / 2 + 1
    }

    /// F-1: suspects a node that has an unanswered ping and was silent for longer than the node timeout.
    pub(super) fn suspect(&mut self, id: NodeId) {
        let now = self.now;
        let node = &self.nodes[&id];
        if node.ping_sent == 0 || node.is_failing() {
            return;
        }
        let silent = now.saturating_sub(node.ping_sent).min(now.saturating_sub(node.data_received));
        if silent > self.settings.timeout_ms {
            self.node_mut(id).set(NodeFlags::PFAIL);
            self.todo.evaluate = true;
            if self.own().is_voter() {
                self.condemn_if_agreed(id);
            }
        }
    }

    /// F-3: notes a report about a node that is not FAIL yet, with the time rounded up to the next whole
    /// second.
    pub(super) fn report(&mut self, id: NodeId, by: NodeId) {
        let at = (self.now / 1_000 + 1) * 1_000;
        if !self.nodes[&id].has(NodeFlags::FAIL) {
            self.node_mut(id).reports.insert(by, at);
        }
    }

    /// F-5: marks a suspected node as failed if a quorum reports it. Reports count until they expire,
    /// whatever the reporter's role is by now (F-4).
    pub(super) fn condemn_if_agreed(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        if !node.has(NodeFlags::PFAIL) || node.has(NodeFlags::FAIL) {
            return;
        }
        let oldest = self.now.saturating_sub(2 * self.settings.timeout_ms);
        self.node_mut(id).reports.retain(|_, at| *at > oldest);
        let votes = self.nodes[&id].reports.len() + usize::from(self.own().is_voter());
        if votes >= self.quorum() {
            self.fail(id);
            self.tell_of_failure(id);
        }
    }

    fn fail(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node_mut(id);
        node.clear(NodeFlags::PFAIL);
        node.set(NodeFlags::FAIL);
        node.fail_time = now;
        self.todo.evaluate = true;
        self.todo.save = true;
        if self.own().primary == Some(id) {
            // As in the reference, the flag is never cleared (D-1).
            self.own_mut().set(NodeFlags::MY_PRIMARY_FAIL);
            self.todo.failover = true;
        }
    }

    /// F-6: sends FAIL about a node to all nodes.
    pub(super) fn tell_of_failure(&mut self, id: NodeId) {
        self.tell_all(&MessageBody::Fail(id), MessageFlags::default());
    }

    /// F-7: marks a node as failed because of a FAIL message.
    pub(super) fn told_of_failure(&mut self, id: NodeId) {
        let is_known = self.nodes.get(&id).is_some_and(|node| !node.has(NodeFlags::FAIL));
        if is_known && id != self.me {
            self.fail(id);
        }
    }

    /// A PONG on the outgoing link ends suspicion, and failure too, except in the first two node timeouts of
    /// a voter's failure (step 9, F-8).
    pub(super) fn pong(&mut self, id: NodeId) {
        let (now, limit) = (self.now, 2 * self.settings.timeout_ms);
        let node = self.node_mut(id);
        (node.ping_sent, node.pong_received) = (0, now);
        let is_over = if node.has(NodeFlags::PFAIL) {
            true
        } else {
            node.has(NodeFlags::FAIL) && (!node.is_voter() || now.saturating_sub(node.fail_time) > limit)
        };
        if is_over {
            node.clear(NodeFlags::PFAIL | NodeFlags::FAIL);
            self.todo.save = true;
            self.todo.evaluate = true;
        }
    }

    /// F-20 to F-23: evaluates the cluster's state.
    pub(super) fn evaluate(&mut self) {
        let now = self.now;
        let first = *self.health.first_ms.get_or_insert(now);
        let is_primary = self.own().has(NodeFlags::PRIMARY);
        if is_primary && !self.health.is_ok && now - first < 2_000 {
            self.health.is_safe_to_join = false;
            return;
        }
        self.health.is_safe_to_join = true;
        let voters = self.nodes.values().filter(|node| node.is_voter());
        self.health.size = voters.clone().count();
        let reachable = voters.clone().filter(|node| !node.is_failing()).count();
        let covered: u32 = self
            .nodes
            .values()
            .filter(|node| !node.has(NodeFlags::FAIL))
            .map(|node| u32::from(node.slots.len()))
            .sum();
        let mut is_ok = covered == 16_384 || !self.settings.require_full_coverage;
        if reachable < self.quorum() {
            is_ok = false;
            self.health.minority_ms = Some(now);
        }
        let delay = self.settings.timeout_ms.clamp(500, 5_000);
        let is_early = self.health.minority_ms.is_some_and(|at| now - at < delay);
        if is_ok && !self.health.is_ok && is_primary && is_early {
            return;
        }
        self.health.is_ok = is_ok;
    }
}

//! FAILOVER: the primary hands its role over while faults occur, and the Sentinel sees the result later.
//!
//! The simulation checks that (1) without FORCE the new primary has every write of the old one, and
//! every promised write; (2) after a failover without a handover, the primary soon executes the waiting
//! write; (3) both nodes continue one history, as at the end of every run.
//!
//! If a client aborts a failover after the target was asked to take over, two primaries are left, as in the
//! reference. The old primary has kept its role and has the promised writes; the Sentinel makes the other
//! node a replica.

mod drill;
mod slow;
mod under_way;

pub(super) use self::under_way::Handovers;

use self::under_way::{Handover, Resumed};
use super::{FAILOVER_NS, MS, World};
use crate::net::NodeId;
use crate::node::port_of;
use crate::promises::key_of;
use std::collections::BTreeSet;

impl World {
    /// At random, asks for a failover, aborts the failover that is under way, or makes one of its steps slow.
    pub(super) fn hand_over_or_abort(&mut self) {
        let is_left = self.handovers.under_way.is_none() && self.has_failover(self.primary);
        let is_seen = self.is_seen(self.primary);
        self.end_slow_network();
        if let Some(Handover { from, .. }) = &self.handovers.under_way {
            self.slow_down(*from);
        }
        let Handovers { rng, one_in, under_way, .. } = &mut self.handovers;
        if *one_in == 0 {
            return;
        }
        match under_way {
            Some(Handover { from, .. }) if rng.below(40) == 0 => {
                let from = *from;
                self.give_up(from);
            }
            Some(_) => {}
            // The failover goes on, but the Sentinel no longer watches it.
            None if is_left && rng.below(40) == 0 => self.order(self.primary, &["FAILOVER", "ABORT"]),
            None if is_left => {}
            None if rng.below(*one_in) == 0 && is_seen => self.ask_for_failover(),
            None => {}
        }
    }

    fn has_failover(&self, id: NodeId) -> bool {
        self.hosts[id].node.as_ref().is_some_and(|node| node.engine.has_failover())
    }

    fn give_up(&mut self, from: NodeId) {
        let had_one = self.has_failover(from);
        self.order(from, &["FAILOVER", "ABORT"]);
        let has_one = self.has_failover(from);
        if let Some(handover) = &mut self.handovers.under_way {
            handover.is_given_up |= had_one && !has_one;
        }
    }

    pub(super) fn ask_for_failover(&mut self) {
        let from = self.primary;
        let replicas: BTreeSet<NodeId> =
            (0..self.hosts.len()).filter(|id| self.followed(*id) == Some(from)).collect();
        let rng = &mut self.handovers.rng;
        let (host, timeout) = (format!("10.0.0.{from}"), (1 + rng.below(3000)).to_string());
        let target = replicas.iter().nth(rng.below(replicas.len().max(1) as u64) as usize);
        let port = port_of(target.copied().unwrap_or(from)).to_string();
        let words: &[&str] = match rng.below(5) {
            0 => &["FAILOVER"],
            1 => &["FAILOVER", "TIMEOUT", &timeout],
            2 => &["FAILOVER", "TO", &host, &port],
            3 => &["FAILOVER", "TO", &host, &port, "TIMEOUT", &timeout],
            _ => &["FAILOVER", "TO", &host, &port, "TIMEOUT", &timeout, "FORCE"],
        };
        let is_forced = words.contains(&"FORCE");
        self.order(from, words);
        let Some(node) = &mut self.hosts[from].node else { return };
        if node.engine.has_failover() {
            let waiter = node.client();
            node.request(waiter, &[b"SET", b"waiter", b"1"]);
            self.handovers.under_way =
                Some(Handover { from, replicas, is_forced, is_given_up: false, waiter });
        }
    }

    /// Watches a failover, and takes the outcome once the former primary is visible and knows the outcome.
    pub(super) fn watch_handover(&mut self) -> Result<(), String> {
        self.check_resumed()?;
        let Some(handover) = &self.handovers.under_way else { return Ok(()) };
        let from = handover.from;
        let Some(node) = self.hosts[from].node.as_ref().filter(|_| self.is_seen(from)) else {
            return self.leave_handover();
        };
        if node.engine.has_failover() {
            return Ok(());
        }
        match self.followed(from) {
            Some(target) => self.handed_over(target),
            None => {
                let since_ns = self.now.mono_ns;
                if let Some(Handover { waiter, .. }) = self.handovers.under_way.take() {
                    self.trace(|| format!("node {from} has not handed over"));
                    self.met.not_handed_over += 1;
                    self.handovers.resumed = Some(Resumed { at: from, waiter, since_ns, iterations: 0 });
                }
                Ok(())
            }
        }
    }

    /// Handles a failover whose primary is not visible, so that the outcome is unknown. If the Sentinel is
    /// about to replace that primary, it prefers a replica that has taken over already.
    fn leave_handover(&mut self) -> Result<(), String> {
        let is_lost = self.unseen_ns.is_some_and(|since_ns| self.now.mono_ns - since_ns > FAILOVER_NS);
        let Some(handover) = self.handovers.under_way.as_ref().filter(|_| is_lost) else { return Ok(()) };
        let has_taken_over = |id: &NodeId| {
            let node = self.hosts[*id].node.as_ref().filter(|_| self.is_seen(*id));
            node.is_some_and(|node| node.engine.primary().is_none())
        };
        match handover.replicas.iter().copied().find(has_taken_over).filter(|_| !handover.is_given_up) {
            Some(target) => self.handed_over(target),
            None => {
                self.handovers.under_way = None;
                Ok(())
            }
        }
    }

    /// Takes `target` as the new primary.
    fn handed_over(&mut self, target: NodeId) -> Result<(), String> {
        let Some(Handover { from, is_forced, .. }) = self.handovers.under_way.take() else { return Ok(()) };
        self.trace(|| format!("node {from} has handed over to node {target}"));
        self.met.handed_over += 1;
        // The writes are checked only if the new primary still has the role, because after a crash it has
        // only the data of its disk.
        let has_role = self.hosts[target].node.as_ref().is_some_and(|node| node.engine.primary().is_none());
        if has_role && !is_forced {
            self.check_has_all(from, target)?;
        }
        if let Some(point) = self.hosts[from].node.as_ref().and_then(|node| node.engine.history_point()) {
            self.primary_replid = point.replid;
        }
        (self.primary, self.unseen_ns) = (target, None);
        self.forget_pending();
        // The Sentinel rewrites the configuration files of both nodes.
        self.hosts[from].follows = Some(target);
        if self.hosts[from].starts_ns == u64::MAX {
            self.hosts[from].starts_ns = self.now.mono_ns + self.handovers.rng.below(3_000) * MS;
        }
        self.hosts[target].follows = None;
        if has_role {
            self.forget_lost(target);
            return Ok(());
        }
        if self.hosts[target].node.is_none() && !self.plan.restarts_primary {
            self.hosts[target].starts_ns = u64::MAX;
        }
        // If the target is down, it is replaced later. If the target has restarted, it follows its former
        // primary. The nodes then have no primary, so one is chosen at once.
        if self.hosts[target].node.is_some() { self.fail_over() } else { Ok(()) }
    }

    /// Checks that the new primary has all earlier writes.
    fn check_has_all(&self, from: NodeId, target: NodeId) -> Result<(), String> {
        let has = |id: NodeId, key: &[u8]| self.hosts[id].node.as_ref().is_some_and(|node| node.has_key(key));
        let mut promised = self.given.iter().map(|given| given.key.clone());
        let mut written = (1..=self.promises).map(key_of).filter(|key| has(from, key));
        match promised.find(|key| !has(target, key)).or_else(|| written.find(|key| !has(target, key))) {
            Some(key) => Err(format!(
                "node {from} has handed over to node {target}, which lacks {}",
                key.escape_ascii()
            )),
            None => Ok(()),
        }
    }

    /// Checks that a write that waited for a failover is executed soon after the failover has ended without a
    /// handover.
    fn check_resumed(&mut self) -> Result<(), String> {
        let Some(mut resumed) = self.handovers.resumed.take() else { return Ok(()) };
        let Resumed { at, waiter, since_ns, iterations } = resumed;
        if self.is_stalled(at) {
            self.handovers.resumed = Some(Resumed { at, waiter, since_ns: self.now.mono_ns, iterations: 0 });
            return Ok(());
        }
        let Some(node) = self.hosts[at].node.as_mut().filter(|node| node.has_client(waiter)) else {
            return Ok(());
        };
        let replies = node.replies(waiter);
        if replies.starts_with(b"+OK") {
            self.met.resumed += 1;
            return Ok(());
        }
        if replies.starts_with(b"-MISCONF") && self.disks.are_drawn() {
            return Ok(());
        }
        if node.engine.primary().is_some() || node.engine.has_failover() {
            return Ok(());
        }
        // The write may still wait, because a script is running or the server is about to shut down.
        if node.engine.has_open_unit() || replies.starts_with(b"-BUSY") || self.runs.ends(at) {
            return Ok(());
        }
        let is_late = self.now.mono_ns - since_ns > 1_000 * MS && iterations > 3;
        if is_late && self.disks.are_drawn() && self.plan.nodes[at].is_strict {
            // The reply may still wait for the disk.
            return Ok(());
        }
        if is_late || !replies.is_empty() {
            let replies = replies.escape_ascii();
            return Err(format!("node {at} has not handed over, and its client was told \"{replies}\""));
        }
        resumed.iterations += 1;
        self.handovers.resumed = Some(resumed);
        Ok(())
    }

    /// Ends failovers at the end of a run, so that no failover waits for a replica that does not answer.
    pub(super) fn end_handover(&mut self) {
        for id in 0..self.hosts.len() {
            if self.has_failover(id) {
                self.give_up(id);
            }
        }
        self.handovers.one_in = 0;
        self.end_slow_steps();
    }
}

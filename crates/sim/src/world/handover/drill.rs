//! A drill is a FAILOVER at the end of a run, when all nodes agree and the network works, but some steps are
//! slow. Before the FAILOVER, the target's link is cut twice within a second, first at the primary and then
//! at the target, as CLIENT KILL at each server would do.
//!
//! ```text
//!  calm ─► cut at primary ─► linked again ─► cut at target ─► time ─► FAILOVER TO ─► outcome ─► settled
//! ```
//!
//! The drill checks the following, because no data are lost here and slow steps have a bound:
//! (1) the target is a replica again before FAILOVER is sent;
//! (2) the failover has an outcome within its time limit plus the time of the slow steps;
//! (3) the role is handed over if the limit leaves enough time;
//! (4) immediately after that, exactly one node is a primary, and it executes writes;
//! (5) no answered write is lost, although no WAIT followed;
//! (6) all nodes agree again.

use super::under_way::Handover;
use super::{MS, World};
use crate::net::NodeId;
use crate::node::port_of;
use sluice_base::SessionKey;
use sluice_replication::LinkState;
use std::collections::BTreeSet;

/// Longest time until a replica is linked again, with the delays and iterations of a drill and without
/// slow steps, ms. This is less than the shortest pause that may follow a lost link, which is 500 ms.
const LINK_MS: u64 = 450;
/// Longest time of a failover without slow steps, ms. A replica reports its offset once a second; after the
/// report, the roles change.
const HAND_OVER_MS: u64 = 1_000 + 2 * LINK_MS;
/// Longest time of a failover that began before the drill, ms.
const EARLIER_MS: u64 = 10_000;
/// Longest iteration of a drill, ms.
const STEP_MS: u64 = 12;

/// The writes of a drill: the client, the write that it waits for, and the answered writes.
#[derive(Default)]
struct DrillWrites {
    at: Option<(NodeId, SessionKey)>,
    asked: Option<Vec<u8>>,
    number: u64,
    answered: Vec<Vec<u8>>,
}

impl World {
    /// Runs a drill, as the module describes it. The draws use the generator of the slow steps.
    pub(in crate::world) fn drill(&mut self) -> Result<(), String> {
        if !self.handovers.slow.has_drill {
            return Ok(());
        }
        self.net.latency_ms = 1;
        for id in 0..self.hosts.len() {
            // The timeout is long, because a suspended process must not count as a lost link.
            self.order(id, &["CONFIG", "SET", "repl-timeout", "60"]);
        }
        let mut writes = DrillWrites::default();
        self.drill_for(1_500, &mut writes)?;
        self.drill_until_no_failover(&mut writes)?;
        let from = self.primary;
        let replicas: BTreeSet<NodeId> =
            (0..self.hosts.len()).filter(|id| self.followed(*id) == Some(from)).collect();
        let at = self.handovers.slow.rng.below(replicas.len().max(1) as u64) as usize;
        let Some(target) = replicas.iter().nth(at).copied() else { return Ok(()) };
        self.trace(|| format!("a drill: node {from} is to hand over to node {target}"));
        self.order(from, &["CLIENT", "KILL", "TYPE", "replica"]);
        self.drill_until_lost(target, &mut writes)?;
        let slow_ms = self.draw_slow_steps(from);
        self.drill_until_linked(target, LINK_MS + slow_ms, &mut writes)?;
        self.order(target, &["CLIENT", "KILL", "TYPE", "primary"]);
        let slow_ms = self.draw_slow_steps(from);
        self.drill_for(LINK_MS + slow_ms, &mut writes)?;
        self.drill_failover(target, replicas, &mut writes)?;
        self.end_slow_steps();
        self.settle()?;
        self.check_drilled(&writes)
    }

    /// Replaces the slow steps by up to two new ones; returns the milliseconds that the new ones may add.
    fn draw_slow_steps(&mut self, from: NodeId) -> u64 {
        self.end_slow_steps();
        let count = self.handovers.slow.rng.below(3);
        let most_ms = [50, 200, 1_500][self.handovers.slow.rng.below(3) as usize];
        (0..count).for_each(|_| self.slow_step(from, most_ms));
        // Messages may be slow for up to `most_ms`, and the last slow message arrives after that.
        count * most_ms * 2
    }

    /// Orders the failover and waits for its outcome.
    fn drill_failover(
        &mut self,
        target: NodeId,
        replicas: BTreeSet<NodeId>,
        writes: &mut DrillWrites,
    ) -> Result<(), String> {
        let from = self.primary;
        let (host, port) = (format!("10.0.0.{from}"), port_of(target).to_string());
        let limit_ms = [100, 1_000, 4_000, 9_000][self.handovers.slow.rng.below(4) as usize];
        let limit = limit_ms.to_string();
        let words = ["FAILOVER", "TO", &host, &port, "TIMEOUT", &limit];
        self.trace(|| format!("to {from}: {}", words.join(" ")));
        let answer = self.ask(from, &words);
        if answer != b"+OK\r\n" {
            return Err(format!(
                "node {from} was told to hand over to node {target}, which had time to be linked again, and said {}",
                answer.escape_ascii()
            ));
        }
        if let Some(node) = &mut self.hosts[from].node {
            let waiter = node.client();
            node.request(waiter, &[b"SET", b"waiter", b"1"]);
            self.handovers.under_way =
                Some(Handover { from, replicas, is_forced: false, is_given_up: false, waiter });
        }
        let slow_ms = self.draw_slow_steps(from);
        let since_ns = self.now.mono_ns;
        let bound_ms = limit_ms + slow_ms + HAND_OVER_MS;
        while self.has_failover(from) || self.handovers.is_under_way() {
            if self.now.mono_ns - since_ns > bound_ms * MS {
                return Err(format!("a failover with {limit_ms} ms has no outcome after {bound_ms} ms"));
            }
            self.drill_step(writes)?;
        }
        if self.primary == target {
            self.met.drilled += 1;
        } else if limit_ms > slow_ms + HAND_OVER_MS {
            return Err(format!("node {from} has not handed over to node {target} in {limit_ms} ms"));
        }
        self.check_one_primary()?;
        let (count, bound_ms) = (writes.answered.len(), slow_ms + 2 * LINK_MS);
        self.drill_for(bound_ms, writes)?;
        match writes.answered.len() > count {
            true => Ok(()),
            false => Err(format!("no write was executed in {bound_ms} ms after a failover")),
        }
    }

    /// Sends a command that is answered at once, and returns the reply.
    fn ask(&mut self, id: NodeId, words: &[&str]) -> Vec<u8> {
        let Some(node) = &mut self.hosts[id].node else { return Vec::new() };
        let client = node.client();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        node.request(client, &words);
        node.iterate(self.now, &mut self.net);
        node.replies(client)
    }

    fn drill_for(&mut self, ms: u64, writes: &mut DrillWrites) -> Result<(), String> {
        let end_ns = self.now.mono_ns + ms * MS;
        while self.now.mono_ns < end_ns {
            self.drill_step(writes)?;
        }
        Ok(())
    }

    /// Waits for the outcome of an earlier failover. It cannot simply be aborted, because a node that is busy
    /// with a script refuses FAILOVER ABORT.
    fn drill_until_no_failover(&mut self, writes: &mut DrillWrites) -> Result<(), String> {
        let end_ns = self.now.mono_ns + EARLIER_MS * MS;
        while self.has_failover(self.primary) || self.handovers.is_under_way() {
            if self.now.mono_ns > end_ns {
                return Err(format!("a failover of before has no outcome after {EARLIER_MS} ms"));
            }
            self.drill_step(writes)?;
        }
        // After a failover that the Sentinel does not watch, the primary may be another node than the
        // Sentinel assumes.
        if let [primary] = self.primaries()[..] {
            self.primary = primary;
        }
        Ok(())
    }

    fn primaries(&self) -> Vec<NodeId> {
        let is_primary =
            |id: &NodeId| self.hosts[*id].node.as_ref().is_some_and(|node| node.engine.primary().is_none());
        (0..self.hosts.len()).filter(is_primary).collect()
    }

    fn drill_until_lost(&mut self, target: NodeId, writes: &mut DrillWrites) -> Result<(), String> {
        let end_ns = self.now.mono_ns + LINK_MS * MS;
        while self.is_linked(target) {
            if self.now.mono_ns > end_ns {
                return Err(format!("the primary has closed the link of node {target}, which still has it"));
            }
            self.drill_step(writes)?;
        }
        Ok(())
    }

    fn drill_until_linked(
        &mut self,
        target: NodeId,
        bound_ms: u64,
        writes: &mut DrillWrites,
    ) -> Result<(), String> {
        let end_ns = self.now.mono_ns + bound_ms * MS;
        while !self.is_linked(target) {
            if self.now.mono_ns > end_ns {
                return Err(format!("node {target} is not linked again after {bound_ms} ms"));
            }
            self.drill_step(writes)?;
        }
        Ok(())
    }

    fn is_linked(&self, id: NodeId) -> bool {
        self.hosts[id].node.as_ref().is_some_and(|node| node.link_state() == LinkState::Connected)
    }

    /// Runs one step of a drill: time passes, then the Sentinel, the writing client and the nodes act.
    fn drill_step(&mut self, writes: &mut DrillWrites) -> Result<(), String> {
        let ms = 1 + self.handovers.slow.rng.below(STEP_MS);
        self.pass_ms(ms)?;
        self.end_slow_network();
        self.watch_handover()?;
        self.drill_write(writes);
        self.mend_logs();
        self.iterate()
    }

    /// Takes the reply to the client's last write, and sometimes sends the next write, to the present
    /// primary.
    fn drill_write(&mut self, writes: &mut DrillWrites) {
        let primary = self.primary;
        if let Some((id, key)) = writes.at
            && writes.asked.is_some()
            && let Some(node) = &mut self.hosts[id].node
        {
            let reply = node.replies(key);
            if reply.is_empty() && id == primary {
                return;
            }
            let asked = writes.asked.take();
            writes.answered.extend(asked.filter(|_| reply.starts_with(b"+OK")));
        }
        if self.is_stalled(primary) || self.handovers.slow.rng.below(4) > 0 {
            return;
        }
        let Some(node) = &mut self.hosts[primary].node else { return };
        let client = match writes.at {
            Some((id, client)) if id == primary && node.has_client(client) => client,
            Some(_) | None => node.client(),
        };
        writes.at = Some((primary, client));
        writes.number += 1;
        let key = format!("drill:{}", writes.number).into_bytes();
        node.request(client, &[b"SET", &key, b"1"]);
        writes.asked = Some(key);
    }

    /// Checks that exactly one node is a primary, and that the Sentinel considers this node the primary.
    fn check_one_primary(&self) -> Result<(), String> {
        let primaries = self.primaries();
        match primaries[..] == [self.primary] {
            true => Ok(()),
            false => Err(format!("primaries after a failover are {primaries:?}, wanted {}", self.primary)),
        }
    }

    /// Checks that the primary has every answered write.
    fn check_drilled(&self, writes: &DrillWrites) -> Result<(), String> {
        self.check_one_primary()?;
        let Some(node) = &self.hosts[self.primary].node else { return Ok(()) };
        match writes.answered.iter().find(|key| !node.has_key(key)) {
            Some(key) => Err(format!("{} was answered and is lost", key.escape_ascii())),
            None => Ok(()),
        }
    }
}

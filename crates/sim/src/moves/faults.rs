//! The faults of a run with moves.

use super::world::{MS, MovesWorld};
use crate::net::NodeId;

impl MovesWorld {
    fn hits(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.rng.below(one_in) == 0
    }

    /// Causes the faults of this step.
    pub(super) fn strike(&mut self) -> Result<(), String> {
        let (rates, now_ns, count) = (self.plan.rates, self.now.mono_ns, self.hosts.len() as u64);
        if self.heals_ns > 0 && self.heals_ns <= now_ns {
            self.trace(|| "the network is whole".to_owned());
            self.net.heal();
            self.heals_ns = 0;
        }
        for host in self.hosts.iter_mut().filter(|host| host.file_heals_ns <= now_ns) {
            host.file.set_full(false);
        }
        let id = self.rng.below(count) as usize;
        if self.hits(rates.crash) {
            self.crash(id);
        }
        if self.hits(rates.crash_claimant)
            && let Some(id) = self.claimant()
        {
            self.met.claimants_crashed += 1;
            self.crash(id);
        }
        if self.hits(rates.kill) && self.net.kill_any(&mut self.rng).is_some() {
            self.met.kills += 1;
        }
        if self.hits(rates.kill_move) {
            self.kill_move();
        }
        let other = self.rng.below(count) as usize;
        if self.heals_ns == 0 && other != id && self.hits(rates.cut) {
            self.met.cuts += 1;
            self.net.cut(id, other);
            self.heals_ns = now_ns + self.rng.below(3 * self.plan.timeout_ms) * MS;
            self.trace(|| format!("nothing passes between {id} and {other}"));
        }
        if self.heals_ns == 0 && self.hits(rates.isolate) {
            self.met.cuts += 1;
            (0..self.hosts.len()).filter(|other| *other != id).for_each(|other| self.net.cut(id, other));
            self.heals_ns = now_ns + self.rng.below(3 * self.plan.timeout_ms) * MS;
            self.trace(|| format!("node {id} is alone"));
        }
        if self.hits(rates.stall) {
            self.met.stalls += 1;
            let until_ns = now_ns + self.rng.below(2 * self.plan.timeout_ms) * MS;
            self.hosts[id].stalls_until_ns = self.hosts[id].stalls_until_ns.max(until_ns);
            self.trace(|| format!("node {id} stands still"));
        }
        if self.hits(rates.node_file) {
            self.met.node_file_faults += 1;
            self.hosts[id].file.set_full(true);
            self.hosts[id].file_heals_ns = now_ns + self.rng.below(2_000) * MS;
            self.trace(|| format!("nodes.conf of node {id} cannot be written"));
        }
        Ok(())
    }

    /// A node that has claimed slots and has not announced the claim yet.
    fn claimant(&self) -> Option<NodeId> {
        (0..self.hosts.len()).find(|id| {
            let machine = self.hosts[*id].node.as_ref().and_then(|node| node.engine.node());
            let mut rows = machine.into_iter().flat_map(|machine| machine.migrations());
            rows.any(|row| row.operation == "IMPORT" && row.state == "failover-granted")
        })
    }

    /// Kills the connection of a random move.
    fn kill_move(&mut self) {
        let nodes = self.hosts.iter().filter_map(|host| host.node.as_ref());
        let conns: Vec<_> = nodes.flat_map(|node| node.export_conns()).collect();
        let at = self.rng.below(conns.len().max(1) as u64) as usize;
        if let Some(conn) = conns.get(at) {
            self.met.killed_moves += 1;
            self.net.kill(*conn, &mut self.rng);
            self.trace(|| "a connection of a move dies".to_owned());
        }
    }

    /// Ends all faults, and starts every node.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.trace(|| "nothing goes wrong any more".to_owned());
        self.net.heal();
        self.plan.rates = super::plan::MoveRates::default();
        for id in 0..self.hosts.len() {
            self.hosts[id].file.set_full(false);
            self.hosts[id].file.set_most_ms(self.plan.file_ms.min(40));
            self.hosts[id].stalls_until_ns = 0;
            self.start(id)?;
        }
        Ok(())
    }
}

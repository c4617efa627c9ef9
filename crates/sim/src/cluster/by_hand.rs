//! Manual failovers with late messages, votes and files (S-20, S-26, S-36).

use crate::cluster::act::{Failover, Order};
use crate::cluster::clock::MS;
use crate::cluster::view::Role;
use crate::cluster::world::World;

/// Time limit of a manual failover, ms: `cluster-manual-failover-timeout`.
const GIVEN_UP_MS: u64 = 5_000;

impl World {
    /// Runs agreed failovers, and forced ones whose votes arrive too late.
    pub(super) fn hand_over(&mut self) -> Result<(), String> {
        for round in 0..8 {
            let Some((replica, primary)) = self.any_pair(round) else { return Ok(()) };
            match round % 4 {
                3 => self.vote_too_late(replica)?,
                _ => self.agree_late(replica, primary)?,
            }
            self.net.slow_ways.clear();
            self.heal()?;
            self.run(2_500 + 4 * self.plan.timeout_ms)?;
        }
        self.wait_until("S-27 after failovers by hand", 20 * self.plan.timeout_ms, World::agree)
    }

    /// A random pair of a replica and its primary, by the replica's view. In every second round both are
    /// nodes of ours, if there is such a pair.
    fn any_pair(&mut self, round: usize) -> Option<(usize, usize)> {
        let mut pairs = Vec::new();
        for (host, view) in self.views_of(0) {
            let Role::Replica(Some(primary)) = view.own().role else { continue };
            let above = self.hosts.iter().position(|other| other.id() == Some(primary));
            pairs.extend(above.map(|above| (host, above)));
        }
        let are_ours =
            |(one, other): &(usize, usize)| self.hosts[*one].is_ours() && self.hosts[*other].is_ours();
        if round.is_multiple_of(2) && pairs.iter().any(are_ours) {
            pairs.retain(are_ours);
        }
        let at = self.rng.below(pairs.len().max(1) as u64) as usize;
        pairs.get(at).copied()
    }

    /// Runs an agreed failover. Some connections between the replica and other nodes are slow, each with a
    /// delay of its own, so that the request for a pause, the primary's answer or votes arrive late.
    fn agree_late(&mut self, replica: usize, primary: usize) -> Result<(), String> {
        for host in (0..self.hosts.len()).filter(|host| *host != replica) {
            for way in [(replica, host), (host, replica)] {
                let late_ms = self.rng.below(self.plan.timeout_ms / 2);
                if self.rng.below(4) == 0 {
                    self.net.slow_ways.insert(way, late_ms * MS);
                }
            }
        }
        if self.rng.below(2) == 0 {
            // The primary receives messages of the replica later than the node timeout allows.
            let late_ms = self.plan.timeout_ms + self.rng.below(self.plan.timeout_ms);
            self.net.slow_ways.insert((replica, primary), late_ms * MS);
        }
        let wait_ms = self.rng.below(500);
        self.run(wait_ms)?;
        self.order(replica, &Order::Failover(Failover::Default))?;
        if self.rng.below(3) == 0 {
            let wait_ms = self.rng.below(300);
            self.run(wait_ms)?;
            self.order(replica, &Order::Failover(Failover::Default))?;
        }
        self.run(GIVEN_UP_MS + 1_000)
    }

    /// The votes of an election arrive after its end, when another election has begun. Voters receive
    /// the second request too late, so that the second election gets no vote.
    fn vote_too_late(&mut self, replica: usize) -> Result<(), String> {
        let others: Vec<usize> = (0..self.hosts.len()).filter(|host| *host != replica).collect();
        others.iter().for_each(|other| self.net.cut(*other, replica));
        self.order(replica, &Order::Failover(Failover::Force))?;
        let open_ms = (2 * self.plan.timeout_ms).clamp(2_000, GIVEN_UP_MS);
        self.run(open_ms + open_ms / 50 + 300)?;
        others.iter().for_each(|other| self.net.cut(replica, *other));
        self.order(replica, &Order::Failover(Failover::Force))?;
        self.run(self.plan.disk_ms + 50)?;
        self.net.mend(|_, to| to == replica, self.now_ns, &mut self.queue);
        self.run(self.plan.timeout_ms / 2)
    }
}

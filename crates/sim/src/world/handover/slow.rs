//! Slow steps: suspended processes, late messages, late connections. On a busy machine such steps occur
//! without any fault.

use super::{MS, World};
use crate::net::NodeId;

impl World {
    /// Whether the process of a node is suspended at this moment.
    pub(in crate::world) fn is_stalled(&self, id: NodeId) -> bool {
        self.hosts[id].stalls_until_ns > self.now.mono_ns
    }

    /// Perhaps makes a step of the present failover slow.
    pub(super) fn slow_down(&mut self, from: NodeId) {
        let slow = &mut self.handovers.slow;
        if slow.one_in > 0 && slow.rng.below(slow.one_in) == 0 {
            let most_ms = [100, 400, 1_500][slow.rng.below(3) as usize];
            self.slow_step(from, most_ms);
        }
    }

    /// Makes one step slow: suspends the primary or any node, or delays messages or connections. The step
    /// takes at most `most_ms` milliseconds. While messages are slow, each takes longer by up to a tenth of
    /// `most_ms`.
    pub(super) fn slow_step(&mut self, from: NodeId, most_ms: u64) {
        let count = self.hosts.len() as u64;
        let now_ns = self.now.mono_ns;
        let slow = &mut self.handovers.slow;
        let delay_ns = (1 + slow.rng.below(most_ms)) * MS;
        let kind = slow.rng.below(4);
        match kind {
            0 | 1 => {
                let id = if kind == 0 { from } else { slow.rng.below(count) as usize };
                self.hosts[id].stalls_until_ns = now_ns + delay_ns;
                self.trace(|| format!("node {id} stands still for {} ms", delay_ns / MS));
            }
            2 => {
                self.net.slow_ns = delay_ns / 10;
                slow.ends_ns = now_ns + most_ms * MS;
                self.trace(|| format!("messages take {} ms more", delay_ns / MS / 10));
            }
            _ => {
                slow.set_up_ns = delay_ns;
                slow.ends_ns = now_ns + most_ms * MS;
                self.trace(|| format!("connections take {} ms more", delay_ns / MS));
            }
        }
        self.met.slow_steps += 1;
    }

    /// Restores the usual delays of messages and connections if the period of slow ones is over.
    pub(super) fn end_slow_network(&mut self) {
        let slow = &mut self.handovers.slow;
        if slow.ends_ns <= self.now.mono_ns {
            (slow.set_up_ns, self.net.slow_ns) = (0, 0);
        }
    }

    /// Ends all slow steps.
    pub(super) fn end_slow_steps(&mut self) {
        self.handovers.slow.ends_ns = 0;
        self.end_slow_network();
        for host in &mut self.hosts {
            host.stalls_until_ns = 0;
        }
    }
}

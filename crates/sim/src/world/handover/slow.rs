//! Steps that take long: processes that stand still, messages that are late, connections that are made late.
//! A machine that is busy does that to servers which are in order.

use super::{MS, World};
use crate::net::NodeId;

impl World {
    /// Whether the process of a node stands still.
    pub(in crate::world) fn is_stalled(&self, id: NodeId) -> bool {
        self.hosts[id].stalls_until_ns > self.now.mono_ns
    }

    /// A step of a failover that is under way is slow, perhaps.
    pub(super) fn slow_down(&mut self, from: NodeId) {
        let slow = &mut self.handovers.slow;
        if slow.one_in > 0 && slow.rng.below(slow.one_in) == 0 {
            let most_ms = [100, 400, 1_500][slow.rng.below(3) as usize];
            self.slow_step(from, most_ms);
        }
    }

    /// One slow step: of the primary, of any node, of the messages, or of connections. The step costs at most
    /// so many milliseconds; messages take a tenth of that more, each, for so long.
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

    /// Messages and connections take no longer any more, once their time is over.
    pub(super) fn end_slow_network(&mut self) {
        let slow = &mut self.handovers.slow;
        if slow.ends_ns <= self.now.mono_ns {
            (slow.set_up_ns, self.net.slow_ns) = (0, 0);
        }
    }

    /// No step is slow any more.
    pub(super) fn end_slow_steps(&mut self) {
        self.handovers.slow.ends_ns = 0;
        self.end_slow_network();
        for host in &mut self.hosts {
            host.stalls_until_ns = 0;
        }
    }
}

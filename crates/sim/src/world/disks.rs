//! Faults of the nodes' disks: the operations that a disk refuses, and the period of the fault. A simulated
//! operator has an append-only file rewritten after a failed sync.
//!
//! The checks are those for good disks, except that a server with a faulty disk may fail to start before
//! the disk is healed, and that a primary may refuse writes.

mod faults;

pub(super) use self::faults::DiskFaults;

use super::{MS, SimHost, World};
use crate::disk::DiskFault;
use crate::net::NodeId;

impl World {
    /// Heals the disks whose faults are to end, has faulty logs rewritten, and perhaps makes a disk faulty.
    pub(super) fn break_disks(&mut self) {
        if !self.disks.are_drawn() {
            return;
        }
        let now_ns = self.now.mono_ns;
        let is_due = |(id, at_ns): (&NodeId, &u64)| (*at_ns <= now_ns).then_some(*id);
        let due: Vec<NodeId> = self.disks.heals_ns.iter().filter_map(is_due).collect();
        due.into_iter().for_each(|id| self.heal_disk(id));
        self.mend_logs();
        let DiskFaults { rng, one_in, heals_ns } = &mut self.disks;
        // A node whose append-only file has no base yet is preferred now and then, so that in some runs a
        // first base cannot be put in force.
        let without_base = self
            .hosts
            .iter()
            .position(|host| host.node.as_ref().is_some_and(|node| node.process.lacks_aof_base()));
        let baseless = without_base.filter(|_| rng.below(30) == 0);
        if baseless.is_none() && rng.below(*one_in) > 0 {
            return;
        }
        let id = baseless.unwrap_or(rng.below(self.hosts.len() as u64) as usize);
        let fault = DiskFault::ALL[rng.below(DiskFault::ALL.len() as u64) as usize];
        if heals_ns.contains_key(&id) {
            return;
        }
        heals_ns.insert(id, now_ns + (50 + rng.below(4_000)) * MS);
        self.hosts[id].disk.set_fault(Some(fault));
        self.met.disk_faults += 1;
        self.trace(|| format!("the disk of node {id} is faulty: {fault:?}"));
    }

    /// Whether any node has an append-only file that a start would not read, because no base is in force yet.
    pub(super) fn has_no_base(&self) -> bool {
        self.hosts.iter().any(lacks_base)
    }

    fn heal_disk(&mut self, id: NodeId) {
        self.disks.heals_ns.remove(&id);
        self.hosts[id].disk.set_fault(None);
        self.trace(|| format!("the disk of node {id} is healed"));
    }
    pub(super) fn heal_disks(&mut self) {
        self.disks.heals_ns.clear();
        self.hosts.iter().for_each(|host| host.disk.set_fault(None));
    }

    /// After some time, orders the rewrite of a faulty append-only file whose disk works again.
    pub(super) fn mend_logs(&mut self) {
        for id in 0..self.hosts.len() {
            let host = &self.hosts[id];
            let is_lost = host.node.as_ref().is_some_and(|node| node.process.has_aof_fault());
            if is_lost && host.disk.fault().is_none() && self.disks.rng.below(60) == 0 {
                self.order(id, &["BGREWRITEAOF"]);
            }
        }
    }
}

fn lacks_base(host: &SimHost) -> bool {
    host.node.as_ref().is_some_and(|node| node.process.lacks_aof_base())
}

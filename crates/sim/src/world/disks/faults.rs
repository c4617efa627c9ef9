//! The faulty disks of a run, and the rate at which disks become faulty.

use crate::net::NodeId;
use sluice_base::Rng;
use std::collections::BTreeMap;

/// The faulty disks of a run. The draws use a generator of their own, so that a seed without faulty disks
/// has the same run as before disk faults existed.
pub(in crate::world) struct DiskFaults {
    pub(super) rng: Rng,
    /// On average, a disk becomes faulty in one of this many steps; 0 if none does.
    pub(super) one_in: u64,
    /// When each faulty disk is healed, ns.
    pub(super) heals_ns: BTreeMap<NodeId, u64>,
}

impl DiskFaults {
    /// The disk faults that a run of `seed` plans.
    pub(in crate::world) fn new(seed: u64) -> DiskFaults {
        let mut rng = Rng::new(seed ^ 0xD15C_FA17);
        let one_in = match rng.below(2) {
            0 => 0,
            _ => 20 + rng.below(80),
        };
        DiskFaults { rng, one_in, heals_ns: BTreeMap::new() }
    }

    /// Whether the run has disk faults.
    pub(in crate::world) fn are_drawn(&self) -> bool {
        self.one_in > 0
    }
}

//! Which disks are faulty, and how often one becomes so.

use crate::net::NodeId;
use sluice_base::Rng;
use std::collections::BTreeMap;

/// What of a run is about faulty disks. Its chances are drawn apart: a run without them is what it was before
/// there were any.
pub(in crate::world) struct DiskFaults {
    pub(super) rng: Rng,
    /// One in so many steps; 0: none.
    pub(super) one_in: u64,
    /// When the disks that are faulty are healed.
    pub(super) heals_ns: BTreeMap<NodeId, u64>,
}

impl DiskFaults {
    /// Those of a seed.
    pub(in crate::world) fn new(seed: u64) -> DiskFaults {
        let mut rng = Rng::new(seed ^ 0xD15C_FA17);
        let one_in = match rng.below(2) {
            0 => 0,
            _ => 20 + rng.below(80),
        };
        DiskFaults { rng, one_in, heals_ns: BTreeMap::new() }
    }

    /// Whether there are any.
    pub(in crate::world) fn are_drawn(&self) -> bool {
        self.one_in > 0
    }
}

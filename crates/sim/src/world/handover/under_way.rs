//! Failovers with an unknown outcome, and the rates of failovers and of slow steps.

use crate::net::NodeId;
use sluice_base::Rng;
use sluice_base::SessionKey;
use std::collections::BTreeSet;

/// A failover whose outcome the Sentinel does not know.
pub(in crate::world) struct Handover {
    pub(super) from: NodeId,
    /// The replicas of the primary when FAILOVER was sent; if one of them is now a primary, it has taken
    /// over.
    pub(super) replicas: BTreeSet<NodeId>,
    pub(super) is_forced: bool,
    /// Whether the primary was told to abort; the target may take over nevertheless.
    pub(super) is_given_up: bool,
    /// A client whose write waits for the outcome.
    pub(super) waiter: SessionKey,
}

/// A client whose write has to be executed, because the failover has ended without a handover.
pub(super) struct Resumed {
    pub(super) at: NodeId,
    pub(super) waiter: SessionKey,
    pub(super) since_ns: u64,
    pub(super) iterations: u64,
}

/// The failovers of a run. The draws use a generator of their own, so that a seed without failovers has the
/// same run as before failovers existed.
pub(in crate::world) struct Handovers {
    pub(super) rng: Rng,
    /// On average, a failover is ordered in one of this many steps; 0 if none is.
    pub(super) one_in: u64,
    pub(super) under_way: Option<Handover>,
    pub(super) resumed: Option<Resumed>,
    pub(super) slow: SlowSteps,
}

impl Handovers {
    /// The failovers that a run of `seed` plans.
    pub(in crate::world) fn new(seed: u64) -> Handovers {
        let mut rng = Rng::new(seed ^ 0xFA11_07E4);
        let one_in = match rng.below(2) {
            0 => 0,
            _ => 20 + rng.below(60),
        };
        Handovers { rng, one_in, under_way: None, resumed: None, slow: SlowSteps::new(seed) }
    }

    /// Additional time to establish a connection, ns.
    pub(in crate::world) fn slow_set_up_ns(&self) -> u64 {
        self.slow.set_up_ns
    }

    /// Whether a failover has an unknown outcome.
    pub(in crate::world) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

/// The slow steps of a run. They use a generator of their own, so that a seed without slow steps has the
/// same run as before slow steps existed.
pub(in crate::world) struct SlowSteps {
    pub(super) rng: Rng,
    /// On average, one of this many steps of a failover is slow; 0 if none is.
    pub(super) one_in: u64,
    /// Whether the run ends with a drill.
    pub(super) has_drill: bool,
    /// Additional time to establish a connection, ns.
    pub(super) set_up_ns: u64,
    /// The time from which connections and messages have their usual delays again, ns.
    pub(super) ends_ns: u64,
}

impl SlowSteps {
    /// The slow steps that a run of `seed` draws.
    fn new(seed: u64) -> SlowSteps {
        let mut rng = Rng::new(seed ^ 0x5103_57E9);
        let one_in = [0, 8, 30][rng.below(3) as usize];
        let has_drill = rng.below(3) == 0;
        SlowSteps { rng, one_in, has_drill, set_up_ns: 0, ends_ns: 0 }
    }
}

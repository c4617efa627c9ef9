//! Failovers whose outcome is not known, how often one is asked for, and how often a step is slow.

use crate::net::NodeId;
use sluice_base::Rng;
use sluice_base::SessionKey;
use std::collections::BTreeSet;

/// A failover that the Sentinel does not know the outcome of.
pub(in crate::world) struct Handover {
    pub(super) from: NodeId,
    /// Replicas of the primary when it was asked: one of these that is a primary has taken over.
    pub(super) replicas: BTreeSet<NodeId>,
    pub(super) is_forced: bool,
    /// The primary has given it up, whatever its target does.
    pub(super) is_given_up: bool,
    /// A client whose write waits for the outcome.
    pub(super) waiter: SessionKey,
}

/// A client whose write has to be executed, because the failover has come to nothing.
pub(super) struct Resumed {
    pub(super) at: NodeId,
    pub(super) waiter: SessionKey,
    pub(super) since_ns: u64,
    pub(super) iterations: u64,
}

/// What of a run is about FAILOVER. Its chances are drawn apart: a run without it is what it was before there
/// was any.
pub(in crate::world) struct Handovers {
    pub(super) rng: Rng,
    /// One in so many steps; 0: none.
    pub(super) one_in: u64,
    pub(super) under_way: Option<Handover>,
    pub(super) resumed: Option<Resumed>,
    pub(super) slow: SlowSteps,
}

impl Handovers {
    /// The hand-overs that a run of `seed` plans.
    pub(in crate::world) fn new(seed: u64) -> Handovers {
        let mut rng = Rng::new(seed ^ 0xFA11_07E4);
        let one_in = match rng.below(2) {
            0 => 0,
            _ => 20 + rng.below(60),
        };
        Handovers { rng, one_in, under_way: None, resumed: None, slow: SlowSteps::new(seed) }
    }

    /// How much longer a connection takes to be made.
    pub(in crate::world) fn slow_set_up_ns(&self) -> u64 {
        self.slow.set_up_ns
    }

    /// Whether the outcome of one is not known.
    pub(in crate::world) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

/// Slow steps of a run, drawn apart: a run without them is what it was before there were any.
pub(in crate::world) struct SlowSteps {
    pub(super) rng: Rng,
    /// One in so many steps of a failover is slow; 0: none.
    pub(super) one_in: u64,
    /// The run has a drill at its end.
    pub(super) has_drill: bool,
    /// Nanoseconds that a connection takes beside those of the network.
    pub(super) set_up_ns: u64,
    /// When connections and messages take no longer any more.
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

//! Failovers whose outcome is not known, and how often one is asked for.

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
}

impl Handovers {
    /// Those of a seed.
    pub(in crate::world) fn new(seed: u64) -> Handovers {
        let mut rng = Rng::new(seed ^ 0xFA11_07E4);
        let one_in = match rng.below(2) {
            0 => 0,
            _ => 20 + rng.below(60),
        };
        Handovers { rng, one_in, under_way: None, resumed: None }
    }

    /// Whether the outcome of one is not known.
    pub(in crate::world) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

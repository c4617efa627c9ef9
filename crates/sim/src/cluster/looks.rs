//! The state that checks keep between two rounds.

use sluice_cluster::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// State between two rounds of checks. For conditions that must end soon, it has the times, ns, at which they
/// began.
#[derive(Default)]
pub(super) struct Looks {
    pub(super) two_owners: BTreeMap<(usize, usize), u64>,
    pub(super) follows_dead: BTreeMap<usize, u64>,
    /// When a node was last out of contact with a quorum.
    pub(super) minority: BTreeMap<usize, u64>,
    /// Whether nodes restart in a calm season, so that they may be suspected, but not FAIL.
    pub(super) bears_suspicion: bool,
    /// Whether clients write keys.
    pub(super) writes: bool,
    /// The most replicas that node 0 of a scene has had.
    pub(super) most_followers: usize,
    pub(super) served: BTreeMap<usize, bool>,
    /// The voters that a node knows, and since when its set of voters has been the same.
    voters: BTreeMap<usize, (BTreeSet<NodeId>, u64)>,
}

impl Looks {
    /// Notes the voters that a node knows now. Returns since when the set of its voters has been the same,
    /// ns.
    pub(super) fn voters_since<'a>(
        &mut self,
        host: usize,
        voters: impl Iterator<Item = &'a NodeId>,
        now_ns: u64,
    ) -> u64 {
        let voters: BTreeSet<NodeId> = voters.copied().collect();
        let known = self.voters.entry(host).or_insert_with(|| (voters.clone(), now_ns));
        if known.0 != voters {
            *known = (voters, now_ns);
        }
        known.1
    }

    /// Forgets the state of a node's last process.
    pub(super) fn restarts(&mut self, host: usize) {
        self.served.remove(&host);
        self.minority.remove(&host);
        self.follows_dead.remove(&host);
        self.voters.remove(&host);
        self.two_owners.retain(|(one, other), _| *one != host && *other != host);
    }
}

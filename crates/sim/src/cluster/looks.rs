//! The memory of looks.

use std::collections::BTreeMap;

/// What looks remember: since when something is so that may not last, ns.
#[derive(Default)]
pub(super) struct Looks {
    pub(super) two_owners: BTreeMap<(usize, usize), u64>,
    pub(super) follows_dead: BTreeMap<usize, u64>,
    /// When a node was last out of contact with a quorum.
    pub(super) minority: BTreeMap<usize, u64>,
    /// In a calm, nodes start again: they may be suspected, and not fail.
    pub(super) bears_suspicion: bool,
    /// Keys are written.
    pub(super) writes: bool,
    /// The most replicas that node 0 of a scene has had.
    pub(super) most_followers: usize,
    pub(super) served: BTreeMap<usize, bool>,
}

impl Looks {
    /// A node starts: what was seen of its last process does not count.
    pub(super) fn restarts(&mut self, host: usize) {
        self.served.remove(&host);
        self.minority.remove(&host);
        self.follows_dead.remove(&host);
        self.two_owners.retain(|(one, other), _| *one != host && *other != host);
    }
}

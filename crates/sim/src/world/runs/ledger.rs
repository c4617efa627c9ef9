//! The scripts that clients have run, and their known outcomes.

use crate::net::NodeId;
use crate::workload::Words;
use sluice_base::{Rng, SessionKey};
use std::collections::{BTreeMap, BTreeSet};

/// The known outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The run continues or has ended: each node has all of the run's writes, or none.
    Open,
    /// The run was refused, killed, or lost before its end: no node has any of its writes.
    Dropped,
}

/// An open execution unit, and the role of its node: the primary that it follows, or a primary's own history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenAt {
    pub(super) unit: (SessionKey, u64),
    pub(super) follows: Option<NodeId>,
    pub(super) history: Option<String>,
}

/// The command that makes a promised write.
pub(in crate::world) enum HowPromised {
    /// A SET, without a library.
    Plainly,
    /// A SET, after a library was loaded.
    AfterLibrary,
    /// A run, which this command starts.
    ByRun(Words),
}

/// An execution of a script or function that writes.
#[derive(Debug)]
pub(super) struct Run {
    /// The keys that the run writes before it ends.
    pub(super) parts: Vec<Vec<u8>>,
    /// The node that executes the run; `None` after the node's process has ended.
    pub(super) at: Option<NodeId>,
    /// Number of snapshots that the node had loaded when the run was sent. Once the node has loaded another
    /// one, missing keys prove nothing about the run.
    pub(super) snapshots: u64,
    /// The client that has sent the run and waits for the reply; `None` if the client has closed its
    /// session, or if another part of the simulation takes the reply.
    pub(super) caller: Option<SessionKey>,
    /// Number of replies that the client receives before the reply of the run.
    pub(super) replies_before: usize,
    /// Replies to the client so far.
    pub(super) replies: Vec<u8>,
    pub(super) fate: Fate,
}

/// The runs of a seed. The draws use a generator of their own, so that a seed without scripts has the same
/// run as before scripts existed.
pub(in crate::world) struct Runs {
    pub(super) rng: Rng,
    /// On average, a script is started in one of this many steps; 0 if none is.
    pub(super) one_in: u64,
    /// Whether clients also load libraries and call functions.
    pub(super) has_libraries: bool,
    pub(super) all: Vec<Run>,
    /// Number of names used so far, for keys and for versions of libraries.
    pub(super) names: u64,
    /// Acknowledged versions of the library whose version only ever rises. Each version is also the number of
    /// the promise before whose write it was loaded.
    pub(super) kept: Vec<u64>,
    /// Nodes that were asked to shut down.
    pub(super) ending: BTreeSet<NodeId>,
    /// Clients that have asked to kill a script.
    pub(super) killers: Vec<(NodeId, SessionKey)>,
    /// Open execution units at the last check.
    pub(super) open: BTreeMap<NodeId, OpenAt>,
}

impl Runs {
    /// The runs that `seed` plans.
    pub(in crate::world) fn new(seed: u64) -> Runs {
        let mut rng = Rng::new(seed ^ 0x5C21_9700);
        let one_in = match rng.below(3) {
            0 => 0,
            _ => 6 + rng.below(30),
        };
        let has_libraries = rng.below(2) == 0;
        Runs {
            rng,
            one_in,
            has_libraries,
            all: Vec::new(),
            names: 0,
            kept: Vec::new(),
            ending: BTreeSet::new(),
            killers: Vec::new(),
            open: BTreeMap::new(),
        }
    }

    /// Whether the simulation has runs.
    pub(in crate::world) fn are_drawn(&self) -> bool {
        self.one_in > 0
    }

    /// Whether a node was asked to shut down; until the node ends, it may hold writes back.
    pub(in crate::world) fn ends(&self, id: NodeId) -> bool {
        self.ending.contains(&id)
    }

    /// Marks the run that writes this key as dropped.
    pub(in crate::world) fn drop_run_of(&mut self, key: &[u8]) {
        let has_it = |run: &&mut Run| run.parts.iter().any(|part| part == key);
        if let Some(run) = self.all.iter_mut().rev().find(has_it) {
            run.fate = Fate::Dropped;
        }
    }

    /// Notes that the library of this promise was acknowledged.
    pub(in crate::world) fn note_kept(&mut self, promise: u64) {
        self.kept.push(promise);
    }

    /// New names of keys. Their first byte is in no other text of the workload.
    pub(super) fn new_keys(&mut self, count: u64) -> Vec<Vec<u8>> {
        self.names += 1;
        (0..count).map(|part| format!("\x02run-{}-{part};", self.names).into_bytes()).collect()
    }
}

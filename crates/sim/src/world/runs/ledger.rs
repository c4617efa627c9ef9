//! What was run, and what is known of it.

use crate::net::NodeId;
use crate::workload::Words;
use sluice_base::{Rng, SessionKey};
use std::collections::{BTreeMap, BTreeSet};

/// What has become of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on, or has ended: all of it is somewhere, or nothing.
    Open,
    /// It was refused, killed, or lost before its end: nothing of it is anywhere.
    Dropped,
}

/// A unit that stands open, and the role of its node: whom the node follows, or of a primary its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenAt {
    pub(super) unit: (SessionKey, u64),
    pub(super) follows: Option<NodeId>,
    pub(super) history: Option<String>,
}

/// How a promised write is made.
pub(in crate::world) enum HowPromised {
    /// By SET.
    Plainly,
    /// By SET, with a library loaded ahead of it.
    BehindLibrary,
    /// By a run, this command.
    ByRun(Words),
}

/// A run that writes.
#[derive(Debug)]
pub(super) struct Run {
    /// What it writes before it ends.
    pub(super) parts: Vec<Vec<u8>>,
    /// The node that executes it; none behind the end of that process.
    pub(super) at: Option<NodeId>,
    /// Snapshots that the node had loaded when the run was asked for: behind another one, what the node lacks
    /// says nothing of the run.
    pub(super) snapshots: u64,
    /// Who has asked for it and hears the answer; none where the client has gone, or where somebody else
    /// listens.
    pub(super) caller: Option<SessionKey>,
    /// Replies ahead of the one that tells of it.
    pub(super) replies_before: usize,
    /// What the caller was sent.
    pub(super) replies: Vec<u8>,
    pub(super) fate: Fate,
}

/// What of a seed is about runs. Its chances are drawn apart: a run without them is what it was before there
/// were any.
pub(in crate::world) struct Runs {
    pub(super) rng: Rng,
    /// One in so many steps; 0: none.
    pub(super) one_in: u64,
    /// There are functions, too.
    pub(super) has_libraries: bool,
    pub(super) all: Vec<Run>,
    /// Names given so far, of keys and of versions of libraries.
    pub(super) names: u64,
    /// Versions of the library that only gets younger, whose loading was acknowledged ahead of the promise
    /// with this number.
    pub(super) kept: Vec<u64>,
    /// Nodes that were told to end.
    pub(super) ending: BTreeSet<NodeId>,
    /// Clients that have asked for the end of a run.
    pub(super) killers: Vec<(NodeId, SessionKey)>,
    /// Units that stood open at the last look.
    pub(super) open: BTreeMap<NodeId, OpenAt>,
}

impl Runs {
    /// Those of a seed.
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

    /// Whether there are any.
    pub(in crate::world) fn are_drawn(&self) -> bool {
        self.one_in > 0
    }

    /// Whether a node was told to end: it may hold writes until then.
    pub(in crate::world) fn ends(&self, id: NodeId) -> bool {
        self.ending.contains(&id)
    }

    /// The run that writes this key has come to nothing.
    pub(in crate::world) fn drop_run_of(&mut self, key: &[u8]) {
        let has_it = |run: &&mut Run| run.parts.iter().any(|part| part == key);
        if let Some(run) = self.all.iter_mut().rev().find(has_it) {
            run.fate = Fate::Dropped;
        }
    }

    /// The library of this promise was acknowledged.
    pub(in crate::world) fn note_kept(&mut self, promise: u64) {
        self.kept.push(promise);
    }

    /// New names of keys. Their first byte is in no other text of the workload.
    pub(super) fn new_keys(&mut self, count: u64) -> Vec<Vec<u8>> {
        self.names += 1;
        (0..count).map(|part| format!("\x02run-{}-{part};", self.names).into_bytes()).collect()
    }
}

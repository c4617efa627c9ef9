//! The commands that operators have sent, and the lines of logs about moves.

use super::met::MovesMet;
use crate::net::NodeId;
use sluice_base::SessionKey;
use std::collections::BTreeSet;

/// A command that is not answered yet.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) boot: u64,
    pub(super) session: SessionKey,
    pub(super) what: OrderKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    /// MIGRATESLOTS with this many groups of slots.
    Migrate(u64),
    Flush,
    Other,
}

/// The commands without a reply, and the unfinished jobs (moves of slots).
#[derive(Debug, Default)]
pub(super) struct Operators {
    pub(super) asked: Vec<Asked>,
    /// Jobs that have begun and not ended, each with its source.
    open: BTreeSet<(NodeId, String)>,
}

impl Operators {
    /// Reads a line of a node's log.
    pub(super) fn read(&mut self, node: NodeId, line: &str, met: &mut MovesMet) {
        let Some((_, job)) = line.split_once("{name: ") else { return };
        let Some((name, rest)) = job.split_once(", operation: export") else { return };
        if line.starts_with("Slot migration initiated") {
            met.begun += 1;
            self.open.insert((node, name.to_owned()));
        } else if let Some((_, state)) = rest.split_once("finished. State: ")
            && self.open.remove(&(node, name.to_owned()))
        {
            match state.split(',').next() {
                Some("success") => met.succeeded += 1,
                Some("cancelled") => met.cancelled += 1,
                _ => met.failed += 1,
            }
        }
    }

    /// Forgets the unfinished jobs of a process that has ended.
    pub(super) fn ended(&mut self, node: NodeId, met: &mut MovesMet) {
        let before = self.open.len();
        self.open.retain(|(of, _)| *of != node);
        met.forgotten += (before - self.open.len()) as u64;
    }
}

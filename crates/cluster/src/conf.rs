//! Reads `nodes.conf`, and reports which parts of the file are ignored (N-10 to N-16, N-25).
//!
//! Invariants: (1) a file that [`crate::Cluster`] wrote is read without a loss; (2) any text gives a whole
//! [`SavedCluster`] or a reason not to start, in time linear in its bytes; (3) ignored parts are reported
//! with the number of their line, each unknown name only once; (4) an identity is never guessed, and an epoch
//! that may be too low is not used.

mod line;
#[cfg(test)]
mod tests;

use crate::address::BusTransport;
use crate::id::{ClusterEpoch, NodeId};
use crate::saved::{OwnLine, SavedCluster, SavedEpochs, SavedNode, SavedRole};
use crate::slots::SlotSet;
use crate::table::NODES_MAX;
use line::{ConfLine, Damage, LineNote, NodeLine, Unreadable, VarsLine};
use sluice_base::LogLevel;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Number of reports that are kept with their text; further ones are only counted.
const REPAIRS_MAX: usize = 100;
/// Maximum bytes of a name from the file that a report shows.
const SHOWN_MAX: usize = 64;

/// The contents of a file, and the reports about it for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfFile {
    /// The state that the file holds.
    pub saved: SavedCluster,
    /// The reports about ignored parts: level and text of a log line.
    pub repairs: Vec<(LogLevel, String)>,
}

/// The reason why a node does not start from its file. The file stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartRefused {
    /// No readable line has the flag `myself`; `suspect` is the first line that could have been this node's.
    NoIdentity {
        /// The number of that line, from 1 on.
        suspect: Option<usize>,
    },
    /// Two lines with different ids have the flag `myself`.
    TwoIdentities {
        /// The number of the first of the two.
        first: usize,
        /// The number of the second.
        second: usize,
    },
}

impl fmt::Display for StartRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartRefused::NoIdentity { suspect: Some(line) } => write!(
                f,
                "No line of the cluster configuration file says which node this is, and line {line} cannot be read. \
                 Restore that line, or remove the file to start as a new node."
            ),
            StartRefused::NoIdentity { suspect: None } => f.write_str(
                "No line of the cluster configuration file says which node this is. Restore the line of this node, \
                 or remove the file to start as a new node.",
            ),
            StartRefused::TwoIdentities { first, second } => write!(
                f,
                "Lines {first} and {second} of the cluster configuration file both say that they are this node, with \
                 different ids. Remove the flag 'myself' from the wrong one."
            ),
        }
    }
}

impl std::error::Error for StartRefused {}

/// Reads a file that is not empty. `transport` decides the meaning of a line with only one port.
pub fn read(text: &[u8], transport: BusTransport) -> Result<ConfFile, StartRefused> {
    let mut reader = ConfReader::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        match line::read(line, transport) {
            Ok(None) => {}
            Ok(Some(ConfLine::Vars(vars))) => reader.vars(number, &vars),
            Ok(Some(ConfLine::Node(node))) => reader.node(number, *node)?,
            Err(Unreadable { why }) => reader.drop_line(number, why),
        }
    }
    reader.finish()
}

/// The contents that were read so far.
#[derive(Default)]
struct ConfReader {
    lines: Vec<Numbered>,
    /// The line number of each id.
    numbers: BTreeMap<NodeId, usize>,
    /// The line of this node, with its number.
    me: Option<OwnNumber>,
    /// The number of the first line that could be this node's: a line that cannot be read, or has an
    /// unknown flag.
    suspect: Option<usize>,
    current: Option<ClusterEpoch>,
    last_vote: Option<ClusterEpoch>,
    /// Whether a `vars` line could not be read as a whole.
    vars_are_damaged: bool,
    repairs: Repairs,
}

/// The number and id of this node's line.
#[derive(Clone, Copy)]
struct OwnNumber {
    id: NodeId,
    number: usize,
}

/// A line of a node with its number.
struct Numbered {
    number: usize,
    line: NodeLine,
}

impl ConfReader {
    fn drop_line(&mut self, number: usize, why: Damage) {
        self.suspect.get_or_insert(number);
        self.repairs.warn(number, format_args!("dropped, {why}. A live node returns by gossip."));
    }

    fn vars(&mut self, number: usize, vars: &VarsLine) {
        for name in &vars.unknown {
            self.repairs.unknown(number, "variable", name);
        }
        // If there are several `vars` lines, the highest epochs are used, because any of these lines may be
        // outdated.
        self.current = self.current.max(vars.current);
        self.last_vote = self.last_vote.max(vars.last_vote);
        if let Some(why) = vars.damage {
            self.vars_are_damaged = true;
            self.repairs.warn(number, format_args!("the epochs are unreadable, {why}."));
        }
    }

    fn node(&mut self, number: usize, line: NodeLine) -> Result<(), StartRefused> {
        self.notes(number, &line.notes);
        let id = line.node.id;
        if line.is_me {
            return self.own(number, line);
        }
        if let Some(why) = line.damage {
            self.drop_line(number, why);
        } else if let Some(first) = self.numbers.get(&id) {
            self.repairs.warn(number, format_args!("dropped, line {first} is of the same node."));
        } else if self.lines.len() - usize::from(self.me.is_some()) >= NODES_MAX - 1 {
            self.repairs.warn(number, format_args!("dropped, {NODES_MAX} nodes are known already."));
        } else {
            self.numbers.insert(id, number);
            self.lines.push(Numbered { number, line });
        }
        Ok(())
    }

    /// Handles a line with the flag `myself`.
    fn own(&mut self, number: usize, line: NodeLine) -> Result<(), StartRefused> {
        let id = line.node.id;
        if let Some(me) = self.me {
            if me.id != id {
                return Err(StartRefused::TwoIdentities { first: me.number, second: number });
            }
            self.repairs.warn(number, format_args!("dropped, line {} is of the same node.", me.number));
            return Ok(());
        }
        // An earlier line with this node's id lacks the flag `myself`, like the line about this node in
        // another node's file. That line is dropped.
        if let Some(other) = self.numbers.insert(id, number) {
            self.lines.retain(|line| line.number != other);
            self.repairs.warn(other, format_args!("dropped, line {number} is of the same node."));
        }
        if let Some(why) = line.damage {
            self.repairs.warn(
                number,
                format_args!(
                    "the line of this node is damaged, {why}. The id is kept, and no slot is served until CLUSTER RESET, \
                     REPLICATE, ADDSLOTS or SETSLOT says what the node is."
                ),
            );
        }
        self.me = Some(OwnNumber { id, number });
        self.lines.push(Numbered { number, line });
        Ok(())
    }

    fn notes(&mut self, number: usize, notes: &[LineNote]) {
        for note in notes {
            match note {
                LineNote::UnknownFlag(name) => {
                    // The unknown flag may be a damaged `myself`.
                    self.suspect.get_or_insert(number);
                    self.repairs.unknown(number, "flag", name);
                }
                LineNote::UnknownField(name) => self.repairs.unknown(number, "field", name),
                LineNote::BadValue(name) => {
                    self.repairs.warn(number, format_args!("the value of {name} is invalid and ignored."));
                }
                LineNote::OpenSlotOfAnother => {
                    self.repairs.warn(number, format_args!("open slots of another node are ignored."));
                }
            }
        }
    }

    fn finish(mut self) -> Result<ConfFile, StartRefused> {
        let Some(own) = self.me else { return Err(StartRefused::NoIdentity { suspect: self.suspect }) };
        self.share_slots();
        let epochs = self.epochs();
        if epochs.last_vote.is_none() {
            self.repairs.push(
                LogLevel::Warning,
                "The cluster configuration file lacks the epochs: this node does not vote until other \
                 nodes have reported theirs."
                    .to_owned(),
            );
        }
        let (mine, others): (Vec<Numbered>, Vec<Numbered>) =
            self.lines.into_iter().partition(|line| line.number == own.number);
        let Some(Numbered { line: mut mine, .. }) = mine.into_iter().next() else {
            return Err(StartRefused::NoIdentity { suspect: self.suspect });
        };
        let own_line = if mine.damage.is_some() { OwnLine::Damaged } else { OwnLine::Whole };
        if own_line == OwnLine::Damaged {
            mine.migrating.clear();
            mine.importing.clear();
        }
        let saved = SavedCluster {
            me: mine.node,
            own_line,
            others: others.into_iter().map(|numbered| numbered.line.node).collect(),
            migrating: mine.migrating,
            importing: mine.importing,
            epochs,
        };
        Ok(ConfFile { saved, repairs: self.repairs.finish() })
    }

    /// The epochs of `vars`. A file that was written while the node's last vote was unknown has only
    /// currentEpoch, which is used, because other nodes may have received it. If one `vars` line is damaged,
    /// none is used.
    fn epochs(&self) -> SavedEpochs {
        match self.current {
            Some(current) if !self.vars_are_damaged => SavedEpochs { current, last_vote: self.last_vote },
            _ => SavedEpochs::default(),
        }
    }

    /// Leaves each slot to the first line that claims it, and no slots to lines that cannot own any.
    fn share_slots(&mut self) {
        let mut claimed = SlotSet::EMPTY;
        for Numbered { number, line } in &mut self.lines {
            let node: &mut SavedNode = &mut line.node;
            let may_own = line.damage.is_none() && !matches!(node.role, SavedRole::Replica(_));
            let before = node.slots.len();
            let slots = std::mem::replace(&mut node.slots, SlotSet::EMPTY);
            slots.iter().filter(|slot| may_own && claimed.insert(*slot)).for_each(|slot| {
                node.slots.insert(slot);
            });
            let lost = before - node.slots.len();
            if lost > 0 && may_own {
                self.repairs.warn(*number, format_args!("{lost} slot(s) belong to an earlier line."));
            } else if lost > 0 && line.damage.is_none() {
                self.repairs.warn(*number, format_args!("{lost} slot(s) of a replica have no owner."));
            }
        }
    }
}

/// The reports for the log.
#[derive(Default)]
struct Repairs {
    texts: Vec<(LogLevel, String)>,
    /// Ignored names: each is reported once.
    names: BTreeSet<Vec<u8>>,
    /// Number of reports that were not kept.
    more: usize,
}

impl Repairs {
    fn push(&mut self, level: LogLevel, text: String) {
        if self.texts.len() < REPAIRS_MAX {
            self.texts.push((level, text));
        } else {
            self.more += 1;
        }
    }

    fn warn(&mut self, number: usize, what: fmt::Arguments<'_>) {
        self.push(LogLevel::Warning, format!("Cluster configuration file, line {number}: {what}"));
    }

    /// Reports a name that a newer version may have written.
    fn unknown(&mut self, number: usize, what: &str, name: &[u8]) {
        let shown = &name[..name.len().min(SHOWN_MAX)];
        if self.names.len() >= REPAIRS_MAX || !self.names.insert(shown.to_vec()) {
            return;
        }
        let shown = shown.escape_ascii();
        let text =
            format!("Cluster configuration file, line {number}: the unknown {what} '{shown}' is ignored.");
        self.push(LogLevel::Notice, text);
    }

    fn finish(mut self) -> Vec<(LogLevel, String)> {
        if self.more > 0 {
            let text = format!("Cluster configuration file: {} more repairs.", self.more);
            self.texts.push((LogLevel::Warning, text));
        }
        self.texts
    }
}

//! The commands that the current execution unit (a command or a transaction) gives to the replication stream
//! and to the append-only file.
//!
//! A command is encoded once, without SELECT. Each of the two receivers (the stream and the file) has its own
//! selected database, so SELECT is inserted when the unit is copied to a receiver
//! ([`UnitCommands::write_to`]).
//!
//! Invariants: (1) `runs` cover `bytes` without a gap, in order; (2) a receiver gets whole commands, and
//! SELECT before the first command of a database that is not the receiver's selected one; (3) several
//! commands of one unit are wrapped in MULTI and EXEC for a receiver, except with [`Grouping::Separate`].

use sluice_base::heap;
use sluice_keyspace::{Argv, EncodedCommands, PromisedCommands};
use sluice_resp::command::push_command;

/// Encoded commands of one execution unit, for both receivers.
#[derive(Debug, Default)]
pub struct UnitCommands {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    /// Number of all commands. `for_replicas` counts the commands for replicas alone, and `for_file`
    /// those for the append-only file alone.
    count: usize,
    for_replicas: usize,
    for_file: usize,
    /// Commands that are encoded later, and the index of their run.
    promised: Option<Box<(usize, PromisedCommands)>>,
}

/// Consecutive commands of one database and one audience.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    db: usize,
    audience: Audience,
}

/// The receivers of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Replicas and the append-only file.
    All,
    /// Replicas alone, because the command changes no data or a script has asked for it.
    Replicas,
    /// The append-only file alone, because a script has asked for it.
    File,
}

/// The grouping of a unit's commands in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// The commands are wrapped in MULTI and EXEC if there is more than one.
    Transaction,
    /// Without MULTI and EXEC, because the unit changed the keys independently of each other.
    Separate,
}

impl UnitCommands {
    /// Bytes of heap memory, including the box around this value, without promised commands.
    pub fn footprint_boxed(&self) -> usize {
        heap::boxed::<UnitCommands>() + heap::vec(&self.bytes) + heap::vec(&self.runs)
    }

    /// Adds a command of database `db`.
    pub fn command<'a>(
        &mut self,
        db: usize,
        audience: Audience,
        argv: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        self.begin_run(db, audience);
        push_command(&mut self.bytes, argv);
        self.count += 1;
        self.for_replicas += usize::from(audience == Audience::Replicas);
        self.for_file += usize::from(audience == Audience::File);
    }

    /// Begins a new run unless the last run has this database and this audience. The following commands
    /// belong to this run.
    #[inline]
    fn begin_run(&mut self, db: usize, audience: Audience) {
        if self.runs.last().is_none_or(|run| run.db != db || run.audience != audience) {
            self.runs.push(Run { start: self.bytes.len(), db, audience });
        }
    }

    /// Adds rewritten commands that are encoded already.
    pub fn encoded(&mut self, db: usize, audience: Audience, commands: &EncodedCommands) {
        if commands.count > 0 {
            self.begin_run(db, audience);
            self.bytes.extend_from_slice(&commands.bytes);
            self.count_more(audience, commands.count);
        }
    }

    fn count_more(&mut self, audience: Audience, count: usize) {
        self.count += count;
        self.for_replicas += if audience == Audience::Replicas { count } else { 0 };
        self.for_file += if audience == Audience::File { count } else { 0 };
    }

    /// Adds commands that are encoded later, or encodes them at once if the unit already has such promised
    /// commands.
    pub fn promised(&mut self, db: usize, audience: Audience, commands: &PromisedCommands) {
        if self.promised.is_some() {
            return self.encoded(db, audience, &commands.encoded());
        }
        // A new run begins here: `promised` has its index, and the promised commands are written before the
        // run's bytes.
        self.runs.push(Run { start: self.bytes.len(), db, audience });
        self.promised = Some(Box::new((self.runs.len() - 1, commands.share())));
        self.count_more(audience, commands.count());
    }

    /// Adds a rewritten command.
    pub fn argv(&mut self, db: usize, audience: Audience, argv: &Argv) {
        self.command(db, audience, argv.iter().map(Vec::as_slice));
    }

    /// Length in bytes of the encoded commands, without the promised commands.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of bytes that a replica receives for these commands as one transaction, without the bytes of
    /// SELECT. Cost: O(runs).
    pub fn bytes_for_replicas(&self) -> usize {
        let wrapping = if self.count - self.for_file > 1 { WRAPPING_BYTES } else { 0 };
        let runs = self.runs_with_ends().filter(|(run, _)| run.audience != Audience::File);
        let promised = self.promised.as_ref().map_or(0, |promised| promised.1.left());
        runs.map(|(run, end)| end - run.start).sum::<usize>() + promised + wrapping
    }

    fn runs_with_ends(&self) -> impl Iterator<Item = (&Run, usize)> {
        let ends = self.runs.iter().skip(1).map(|run| run.start);
        self.runs.iter().zip(ends.chain([self.bytes.len()]))
    }

    /// How many commands there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the unit has no commands.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether at least one command is for the append-only file.
    pub fn changes_data(&self) -> bool {
        self.count > self.for_replicas
    }

    /// Appends the commands for a receiver, the replicas or the append-only file, to `out`; `selected` is
    /// the receiver's selected database, which is updated. Promised commands for this receiver, if any, are
    /// left out and returned with their position in `out`.
    #[must_use]
    pub fn write_to(
        &self,
        receiver: Audience,
        grouping: Grouping,
        selected: &mut Option<usize>,
        out: &mut Vec<u8>,
    ) -> Option<(usize, PromisedCommands)> {
        let count = match receiver {
            Audience::Replicas => self.count - self.for_file,
            Audience::All | Audience::File => self.count - self.for_replicas,
        };
        let wrap = count > 1 && grouping == Grouping::Transaction;
        if wrap {
            push_command(out, [&b"MULTI"[..]].into_iter());
        }
        let mut promised = None;
        for (number, (run, end)) in self.runs_with_ends().enumerate() {
            if run.audience != Audience::All && run.audience != receiver {
                continue;
            }
            if *selected != Some(run.db) {
                *selected = Some(run.db);
                let number = run.db.to_string();
                push_command(out, [&b"SELECT"[..], number.as_bytes()].into_iter());
            }
            if let Some(commands) = self.promised.as_deref().filter(|(run, _)| *run == number) {
                promised = Some((out.len(), commands.1.share()));
            }
            out.extend_from_slice(&self.bytes[run.start..end]);
        }
        if wrap {
            push_command(out, [&b"EXEC"[..]].into_iter());
        }
        promised
    }

    /// Removes the commands and keeps their buffer for reuse, unless it is large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.count = 0;
        self.for_replicas = 0;
        self.for_file = 0;
        self.promised = None;
        if self.bytes.capacity() > BUFFER_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.runs.capacity() > RUNS_KEPT {
            self.runs = Vec::new();
        }
    }
}

/// Length in bytes of MULTI and EXEC.
const WRAPPING_BYTES: usize = b"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n".len();
/// A buffer larger than this many bytes is not kept for the next unit.
pub(crate) const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// A list with room for more runs than this is not kept for the next unit.
const RUNS_KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn del(unit: &mut UnitCommands, db: usize, key: &str) {
        unit.command(db, Audience::All, [&b"DEL"[..], key.as_bytes()].into_iter());
    }

    /// The commands that a receiver gets, as words separated by spaces.
    fn text(
        unit: &UnitCommands,
        receiver: Audience,
        grouping: Grouping,
        selected: &mut Option<usize>,
    ) -> String {
        let mut out = Vec::new();
        assert!(unit.write_to(receiver, grouping, selected, &mut out).is_none());
        let text = String::from_utf8(out).unwrap();
        let words = text.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn select_stands_inside_a_transaction() {
        let mut unit = UnitCommands::default();
        del(&mut unit, 0, "a");
        del(&mut unit, 0, "b");
        let text = text(&unit, Audience::File, Grouping::Transaction, &mut None);
        assert_eq!(text, "MULTI SELECT 0 DEL a DEL b EXEC");
    }

    #[test]
    fn one_command_and_loose_ones_stand_alone() {
        let mut unit = UnitCommands::default();
        del(&mut unit, 0, "a");
        assert_eq!(text(&unit, Audience::File, Grouping::Transaction, &mut Some(0)), "DEL a");
        del(&mut unit, 0, "b");
        assert_eq!(text(&unit, Audience::File, Grouping::Separate, &mut Some(0)), "DEL a DEL b");
    }

    #[test]
    fn each_receiver_has_its_own_selected_database() {
        let (mut replicas, mut log) = (Some(3), None);
        let mut unit = UnitCommands::default();
        del(&mut unit, 3, "a");
        assert_eq!(text(&unit, Audience::Replicas, Grouping::Transaction, &mut replicas), "DEL a");
        assert_eq!(text(&unit, Audience::File, Grouping::Transaction, &mut log), "SELECT 3 DEL a");
        unit.clear();
        del(&mut unit, 3, "b");
        del(&mut unit, 0, "c");
        for selected in [&mut replicas, &mut log] {
            assert_eq!(text(&unit, Audience::File, Grouping::Separate, selected), "DEL b SELECT 0 DEL c");
        }
    }

    #[test]
    fn what_is_for_replicas_alone_is_neither_given_to_the_file_nor_counted_there() {
        let mut unit = UnitCommands::default();
        unit.command(5, Audience::Replicas, [&b"PUBLISH"[..], b"c", b"m"].into_iter());
        assert!(!unit.changes_data());
        let mut selected = None;
        assert_eq!(text(&unit, Audience::File, Grouping::Transaction, &mut selected), "");
        assert_eq!(selected, None);
        del(&mut unit, 0, "a");
        assert!(unit.changes_data());
        assert_eq!(text(&unit, Audience::File, Grouping::Transaction, &mut None), "SELECT 0 DEL a");
        assert_eq!(
            text(&unit, Audience::Replicas, Grouping::Transaction, &mut None),
            "MULTI SELECT 5 PUBLISH c m SELECT 0 DEL a EXEC"
        );
    }

    #[test]
    fn what_is_for_the_file_alone_is_not_given_to_replicas() {
        let mut unit = UnitCommands::default();
        unit.command(0, Audience::File, [&b"DEL"[..], b"a"].into_iter());
        assert_eq!(text(&unit, Audience::Replicas, Grouping::Transaction, &mut None), "");
        assert_eq!(text(&unit, Audience::File, Grouping::Transaction, &mut Some(0)), "DEL a");
        unit.command(0, Audience::Replicas, [&b"DEL"[..], b"b"].into_iter());
        unit.command(0, Audience::All, [&b"DEL"[..], b"c"].into_iter());
        assert_eq!(
            text(&unit, Audience::Replicas, Grouping::Transaction, &mut Some(0)),
            "MULTI DEL b DEL c EXEC"
        );
        assert_eq!(
            text(&unit, Audience::File, Grouping::Transaction, &mut Some(0)),
            "MULTI DEL a DEL c EXEC"
        );
    }
}

//! Background jobs: a cut of the keyspace (all entries as they are at one moment) is passed piece by piece
//! to threads, which write it to a file or make a snapshot for replicas.
//!
//! ```text
//!  begin (between two units) ──► capturing, a slice each iteration ──all captured──► writing the rest ──► outcome
//!                                      │ the thread lags: no slice      (then: end of file, sync, rename)
//!                                      └──── FLUSHALL, BGSAVE CANCEL, end of the server, an error ──► broken off
//! ```
//!
//! Invariants: (1) one job at a time; (2) the file has the data that the keyspace had between two units
//! (commands, transactions or scripts); (3) no command waits for a job: a change copies the changed entry,
//! once; (4) the job waits instead: while at least `AHEAD_WEIGHT` bytes are on their way to the file, the
//! cursor (the position up to which the job has captured) does not advance. Entries captured because a
//! command is about to change them are given to the thread even then, and are shown in INFO; (5) an emptied
//! database is captured first, and then freed.

use crate::process::{Background, Process};
use sluice_base::Now;
use sluice_keyspace::{Captured, CutState, Db, Keyspace};

/// A background job with its cut of the data.
pub struct Job {
    /// Time of the cut.
    pub began: Now,
    /// The thread that writes.
    pub writing: Box<dyn Background>,
    /// The stage of the job.
    pub stage: JobStage,
    /// Databases emptied since the cut, which still have entries to capture.
    pub detached: Vec<Db>,
    /// Emptied databases that the cut no longer needs, to be freed.
    pub passed: Vec<Db>,
    /// Number of the database that is being captured.
    at: usize,
    /// Number of entries at the cut.
    total: usize,
    /// Sums over databases whose cut has ended: entries captured because they were about to change, and
    /// bytes copied for them.
    changed: (u64, u64),
    /// Value of [`sluice_keyspace::Effects::left_to_others`] at the cut.
    left_before: u64,
    /// The thread's progress number when last checked, and the time at which it last changed.
    pub progress: (u64, Now),
    /// Time since which the job holds more memory than its budget, in ns of the monotonic clock; `None` while
    /// it does not.
    pub over_budget_since_ns: Option<u64>,
}

/// The stage of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JobStage {
    /// Entries of the cut remain to be captured.
    Capturing,
    /// All entries were captured and given to the thread, which is still writing.
    WritingRest,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("total", &self.total).finish_non_exhaustive()
    }
}

/// The state of a job for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobNumbers {
    /// Time of the cut, in ns of the monotonic clock.
    pub began_ns: u64,
    /// Number of entries at the cut.
    pub total: usize,
    /// Number of entries captured so far.
    pub captured: usize,
    /// Number of entries captured because they were about to change, and bytes copied for them.
    pub changed: (u64, u64),
    /// Bytes of memory that only the job holds; approximate for large values.
    pub held_bytes: usize,
    /// Bytes of entries in databases emptied since the cut.
    pub detached_bytes: usize,
    /// Bytes of heap memory that these databases take. All of them count as used memory, because the process
    /// knows only for the databases of the keyspace which parts of their chunks are in use.
    pub detached_allocated_bytes: usize,
}

/// The result of a slice of capturing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// No job is running.
    None,
    /// Entries remain to be captured, and the thread has room.
    More,
    /// The thread has to catch up or is writing the rest, and will wake the event loop.
    Waits,
}

/// The cursor stops while pieces of this many bytes are on their way to the file; each value counts as if
/// it were copied.
const AHEAD_WEIGHT: usize = 4 << 20;
/// Number of entries captured between two readings of the clock; capturing them takes about 10 µs.
const ENTRIES_PER_LOOK: usize = 64;

impl Job {
    /// Cuts the keyspace; `writing` writes the cut.
    pub fn begin(
        keyspace: &mut Keyspace,
        writing: Box<dyn Background>,
        left_to_others: u64,
        began: Now,
    ) -> Job {
        let total = keyspace.iter().map(|(_, db)| db.len()).sum();
        keyspace.begin_cut();
        Job {
            began,
            writing,
            stage: JobStage::Capturing,
            detached: Vec::new(),
            passed: Vec::new(),
            at: 0,
            total,
            changed: (0, 0),
            left_before: left_to_others,
            progress: (0, began),
            over_budget_since_ns: None,
        }
    }

    /// Captures until the budget is spent, the thread needs to catch up, or nothing is left.
    pub fn slice(&mut self, keyspace: &mut Keyspace, budget_ns: u64, process: &mut dyn Process) -> Slice {
        if self.stage == JobStage::WritingRest {
            return Slice::Waits;
        }
        // Entries captured because they were about to change are given to the thread even if many bytes wait
        // there, because the thread has to keep up with the writers.
        while let Some(piece) = self.take_captured(keyspace) {
            self.writing.give(piece);
        }
        let began_ns = process.now().mono_ns;
        loop {
            if self.writing.weight() >= AHEAD_WEIGHT {
                return Slice::Waits;
            }
            match self.advance(keyspace) {
                Some(piece) => self.writing.give(piece),
                None if self.detached.is_empty() && self.at == keyspace.databases() => {
                    self.stage = JobStage::WritingRest;
                    self.writing.all_given(self.total);
                    // The result is empty and may be dropped, because all captures were taken above.
                    self.end_cuts(keyspace);
                    return Slice::Waits;
                }
                None => {}
            }
            if process.now().mono_ns.saturating_sub(began_ns) >= budget_ns {
                return Slice::More;
            }
        }
    }

    fn take_captured(&mut self, keyspace: &mut Keyspace) -> Option<Captured> {
        keyspace.take_captured().or_else(|| self.detached.iter_mut().find_map(Db::take_captured))
    }

    /// Captures a few entries of the current database, and goes to the next one when none are left.
    /// Emptied databases come first, because only the cut still needs their memory.
    fn advance(&mut self, keyspace: &mut Keyspace) -> Option<Captured> {
        if let Some(db) = self.detached.last_mut() {
            let piece = db.advance_cut(ENTRIES_PER_LOOK);
            if piece.is_none() && !has_more(db) {
                self.changed = add_changes(self.changed, db.cut_state());
                self.passed.extend(self.detached.pop());
            }
            return piece;
        }
        let number = self.at;
        let piece = keyspace.advance_cut(number, ENTRIES_PER_LOOK);
        if piece.is_none() && !has_more(keyspace.db(number)) {
            self.at += 1;
            // The search starts again at the first database, because SWAPDB may have moved one to an index
            // that was already passed.
            if self.at == keyspace.databases() {
                let left = keyspace.iter().position(|(_, db)| has_more(db));
                self.at = left.unwrap_or(self.at);
            }
        }
        piece
    }

    /// Approximate bytes of large values that only the cut still owns. `left_to_others` counts the bytes of
    /// values that have lost their key and that another owner frees. The result is at most the weight of
    /// the pieces on their way to the file.
    fn held_value_bytes(&self, keyspace: &Keyspace, left_to_others: u64) -> usize {
        let on_way =
            self.writing.weight() + self.states(keyspace).map(|state| state.waiting_weight).sum::<usize>();
        let left = left_to_others.saturating_sub(self.left_before);
        on_way.min(left.saturating_sub(self.writing.freed_value_bytes()) as usize)
    }

    /// Takes over an emptied database, which the cut may still need.
    pub fn keep(&mut self, db: Db) {
        match has_more(&db) {
            true => self.detached.push(db),
            false => {
                self.changed = add_changes(self.changed, db.cut_state());
                self.passed.push(db);
            }
        }
    }

    /// Ends all cuts. Returns captures that were not taken.
    pub fn end_cuts(&mut self, keyspace: &mut Keyspace) -> Vec<Captured> {
        self.changed = self.sum_changed(keyspace);
        let mut left = keyspace.end_cut();
        left.extend(self.detached.iter_mut().flat_map(Db::end_cut));
        left
    }

    fn states<'a>(&'a self, keyspace: &'a Keyspace) -> impl Iterator<Item = CutState> {
        keyspace.iter().map(|(_, db)| db).chain(&self.detached).filter_map(Db::cut_state)
    }

    fn sum_changed(&self, keyspace: &Keyspace) -> (u64, u64) {
        self.states(keyspace).fold(self.changed, |changed, state| add_changes(changed, Some(state)))
    }

    /// The state of the job for INFO. `left_to_others`: bytes of values that others will free.
    pub fn state(&self, keyspace: &Keyspace, left_to_others: u64) -> JobNumbers {
        let left: usize = self.states(keyspace).map(|state| state.left).sum();
        let waiting: usize = self.states(keyspace).map(|state| state.waiting_bytes).sum();
        JobNumbers {
            began_ns: self.began.mono_ns,
            total: self.total,
            captured: self.total.saturating_sub(left),
            changed: self.sum_changed(keyspace),
            held_bytes: waiting + self.writing.held_bytes() + self.held_value_bytes(keyspace, left_to_others),
            detached_bytes: self.detached.iter().map(Db::entry_bytes).sum(),
            detached_allocated_bytes: self.detached.iter().map(Db::allocated_bytes).sum(),
        }
    }
}

fn add_changes((entries, bytes): (u64, u64), state: Option<CutState>) -> (u64, u64) {
    let state = state.unwrap_or_default();
    (entries + state.changed, bytes + state.changed_bytes)
}

fn has_more(db: &Db) -> bool {
    db.cut_state().is_some_and(|state| state.left > 0 || state.waiting_bytes > 0)
}

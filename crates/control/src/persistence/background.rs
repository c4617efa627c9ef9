//! Writing in the background: a cut of the keyspace, handed piece by piece to threads that write it to a
//! file, or make a snapshot of it that replicas take.
//!
//! ```text
//!  begin (between two units) ──► capturing, a slice each iteration ──all captured──► writing the rest ──► outcome
//!                                      │ the thread is behind: no slice               (the thread: end of the file, sync, rename)
//!                                      └──── FLUSHALL, BGSAVE CANCEL, end of the server, an error ──► broken off
//! ```
//!
//! Invariants: (1) one job at a time; (2) what the file holds is what the keyspace held between two units;
//! (3) no command waits for a job: a change copies the entry that it changes, once; (4) the job waits
//! instead: while more than `AHEAD_WEIGHT` is on its way to the file, the cursor stands still. What changes
//! capture meanwhile is given to the thread all the same, which then does the least that it can with it, and
//! is shown in INFO; (5) a database that was emptied is captured first, and freed then.

use crate::process::{Background, Process};
use sluice_base::Now;
use sluice_keyspace::{Captured, CutState, Db, Keyspace};

/// A job under way.
pub struct Job {
    /// When the cut was made.
    pub began: Now,
    /// The thread that writes.
    pub writing: Box<dyn Background>,
    /// How far the job is.
    pub stage: JobStage,
    /// Databases that were emptied since the cut: it goes on in them.
    pub detached: Vec<Db>,
    /// Those of them that the cut does not need any more: to be freed.
    pub passed: Vec<Db>,
    /// The database whose turn it is.
    at: usize,
    /// Entries at the cut.
    total: usize,
    /// What the cuts said that are over: entries captured by changes, bytes copied for them.
    changed: (u64, u64),
    /// What had been left to others before the cut: see [`sluice_keyspace::Effects::left_to_others`].
    left_before: u64,
    /// What the thread had done when it was looked at, and when it had done something new.
    pub progress: (u64, Now),
    /// Since when it holds more than it may.
    pub over_budget_since_ns: Option<u64>,
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JobStage {
    /// The cut is open.
    Capturing,
    /// Everything was captured and given to the thread, which writes what is left.
    WritingRest,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("total", &self.total).finish_non_exhaustive()
    }
}

/// How far a job is, for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobNumbers {
    /// When the cut was made, monotonic ns.
    pub began_ns: u64,
    /// Entries at the cut.
    pub total: usize,
    /// Entries captured.
    pub captured: usize,
    /// Entries that were captured because they were about to change, and bytes copied for them.
    pub changed: (u64, u64),
    /// Bytes of allocated memory that only the job holds; of large values about.
    pub held_bytes: usize,
    /// Bytes of entries of databases that were emptied since the cut.
    pub detached_bytes: usize,
    /// Of these databases, what the allocator has given: the process counts no entry that has left the
    /// keyspace.
    pub detached_allocated_bytes: usize,
}

/// What a slice has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// There is no job.
    None,
    /// There is more to capture, and room for it.
    More,
    /// The thread has to go on first, and will wake the event loop.
    Waits,
}

/// Where the cursor stands still: so much is on its way to the file, each value as if it were copied.
const AHEAD_WEIGHT: usize = 4 << 20;
/// Entries captured between two looks at the clock: about 10 µs.
const ENTRIES_PER_LOOK: usize = 64;

impl Job {
    /// Makes the cut, which `writing` writes.
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

    /// Captures until the time is up, the thread is behind, or nothing is left.
    pub fn slice(&mut self, keyspace: &mut Keyspace, budget_ns: u64, process: &mut dyn Process) -> Slice {
        if self.stage == JobStage::WritingRest {
            return Slice::Waits;
        }
        // What changes have captured is given however much is on its way: the thread has to keep up with the
        // writers.
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
                    // Everything was taken: nothing is left to be freed.
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

    /// Captures a little of the database whose turn it is, and passes to the next one when nothing is left.
    /// One that was emptied comes first: its memory is there for the cut alone.
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
            // One that was exchanged with another is met at its new index.
            if self.at == keyspace.databases() {
                let left = keyspace.iter().position(|(_, db)| has_more(db));
                self.at = left.unwrap_or(self.at);
            }
        }
        piece
    }

    /// Bytes of large values of which the cut is the last owner, about: `left_to_others` counts those that
    /// lost their key. At most what is on its way to the file.
    fn held_value_bytes(&self, keyspace: &Keyspace, left_to_others: u64) -> usize {
        let on_way =
            self.writing.weight() + self.states(keyspace).map(|state| state.waiting_weight).sum::<usize>();
        let left = left_to_others.saturating_sub(self.left_before);
        on_way.min(left.saturating_sub(self.writing.freed_value_bytes()) as usize)
    }

    /// Takes over a database that was emptied, as long as the cut needs it.
    pub fn keep(&mut self, db: Db) {
        match has_more(&db) {
            true => self.detached.push(db),
            false => {
                self.changed = add_changes(self.changed, db.cut_state());
                self.passed.push(db);
            }
        }
    }

    /// Ends all cuts; what was captured and not taken.
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

    /// The job as INFO shows it. `left_to_others`: bytes of values that others are to free.
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

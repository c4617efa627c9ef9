//! Writing in the background: a cut of the keyspace, handed piece by piece to threads that write it to a file, or make a
//! snapshot of it that replicas take.
//!
//! ```text
//!  begin (between two units) ──► capturing, a slice each iteration ──all captured──► writing the rest ──► outcome
//!                                      │ the thread is behind: no slice               (the thread: end of the file, sync, rename)
//!                                      └──── FLUSHALL, BGSAVE CANCEL, end of the server, an error ──► broken off
//! ```
//!
//! Invariants: (1) one job at a time; (2) what the file holds is what the keyspace held between two units; (3) no command waits
//! for a job: a change copies the entry that it changes, once; (4) the job waits instead: while more than [`AHEAD_WEIGHT`] is
//! on its way to the file, the cursor stands still. What changes capture meanwhile is given to the thread all the same, which
//! then does the least that it can with it, and is shown in INFO; (5) a database that was emptied is captured first, and freed then.

use crate::action::Action;
use crate::engine::Engine;
use crate::process::{Background, BackgroundFile, LogLevel, Process, SaveError};
use crate::snapshot::{self, RdbAux, SnapshotFile};
use sluice_base::Now;
use sluice_config::param;
use sluice_keyspace::{Captured, CutState, Db, Keyspace};
use sluice_persist::rdb::Version;

/// A job under way.
pub(crate) struct Job {
    /// When the cut was made.
    pub began: Now,
    writing: Box<dyn Background>,
    stage: JobStage,
    /// Databases that were emptied since the cut: it goes on in them.
    detached: Vec<Db>,
    /// Those of them that the cut does not need any more: to be freed.
    passed: Vec<Db>,
    /// The database whose turn it is.
    at: usize,
    /// Entries at the cut.
    total: usize,
    /// What the cuts said that are over: entries captured by changes, bytes copied for them.
    changed: (u64, u64),
    /// What had been left to others before the cut: see [`sluice_keyspace::Effects::left_to_others`].
    left_before: u64,
    /// What the thread had done when it was looked at, and when it had done something new.
    progress: (u64, Now),
    /// Since when it holds more than it may.
    over_budget_since_ns: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JobStage {
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
pub struct JobState {
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
    /// Of these databases, what the allocator has given: the process counts no entry that has left the keyspace.
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
/// A thread that has written nothing for so many seconds is given up; one that forces the file to disk, which may be much at
/// once, later.
const STALLED_S: i64 = 60;
const STALLED_AT_END_S: i64 = 600;
/// What a job may hold beyond the data: so many bytes, or a tenth of used memory where that is more. A job that holds more for longer
/// than [`OVER_BUDGET_NS_MAX`] is given up: its thread is not given a processor, and the copies for changes would grow to the size
/// of the data.
const HELD_BYTES_MAX: usize = 64 << 20;
const HELD_SHARE: usize = 10;
/// One unit may capture any amount; the thread has to be through with it in this time.
const OVER_BUDGET_NS_MAX: u64 = 2_000_000_000;

impl Job {
    /// Makes the cut, which `writing` writes.
    fn begin(keyspace: &mut Keyspace, writing: Box<dyn Background>, left_to_others: u64, began: Now) -> Job {
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
    fn slice(&mut self, keyspace: &mut Keyspace, budget_ns: u64, process: &mut dyn Process) -> Slice {
        if self.stage == JobStage::WritingRest {
            return Slice::Waits;
        }
        // What changes have captured is given however much is on its way: the thread has to keep up with the writers.
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

    /// Captures a little of the database whose turn it is, and passes to the next one when nothing is left. One that was emptied comes
    /// first: its memory is there for the cut alone.
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
            // One that was exchanged with another is met in its new place.
            if self.at == keyspace.databases() {
                let left = keyspace.iter().position(|(_, db)| has_more(db));
                self.at = left.unwrap_or(self.at);
            }
        }
        piece
    }

    /// Bytes of large values of which the cut is the last owner, about: `left_to_others` counts those that lost their key. At
    /// most what is on its way to the file.
    fn held_value_bytes(&self, keyspace: &Keyspace, left_to_others: u64) -> usize {
        let on_way =
            self.writing.weight() + self.states(keyspace).map(|state| state.waiting_weight).sum::<usize>();
        let left = left_to_others.saturating_sub(self.left_before);
        on_way.min(left.saturating_sub(self.writing.freed_value_bytes()) as usize)
    }

    /// Takes over a database that was emptied, as long as the cut needs it.
    fn keep(&mut self, db: Db) {
        match has_more(&db) {
            true => self.detached.push(db),
            false => {
                self.changed = add_changes(self.changed, db.cut_state());
                self.passed.push(db);
            }
        }
    }

    /// Ends all cuts; what was captured and not taken.
    fn end_cuts(&mut self, keyspace: &mut Keyspace) -> Vec<Captured> {
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

    fn state(&self, keyspace: &Keyspace, left_to_others: u64) -> JobState {
        let left: usize = self.states(keyspace).map(|state| state.left).sum();
        let waiting: usize = self.states(keyspace).map(|state| state.waiting_bytes).sum();
        JobState {
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

impl Engine {
    /// Makes a cut of everything, which is written to the file `target` from now on. To be called as [`Engine::begin_job`].
    pub(crate) fn begin_file_job(
        &mut self,
        target: BackgroundFile,
        process: &mut dyn Process,
    ) -> Result<(), SaveError> {
        let control = &self.control;
        let about = RdbAux {
            now: process.now(),
            used_memory: process.used_memory(&self.keyspace),
            stream: control.stream.point(),
            is_aof_base: target.is_aof_base,
        };
        let sizes = self.database_sizes();
        let options = snapshot::options(&control.config, Version::Valkey);
        let mut file = SnapshotFile::new(&control.config, options, &about, &control.kept, sizes);
        if target.as_commands {
            let stamp = control.limits.aof_timestamps.then_some(about.now);
            file = file.written_as_commands(stamp, control.stream.point());
        }
        let writing = process.write_in_background(target, file)?;
        self.begin_job(writing, process);
        Ok(())
    }

    /// Makes a cut of everything, which `writing` writes from now on. To be called between units, while no job is under way.
    /// Cost: one step for each chunk of entries.
    pub(crate) fn begin_job(&mut self, writing: Box<dyn Background>, process: &mut dyn Process) {
        debug_assert!(self.job.is_none(), "one job at a time (1)");
        self.job =
            Some(Job::begin(&mut self.keyspace, writing, self.effects.left_to_others(), process.now()));
        self.control.is_writing = true;
    }

    /// The databases that are not empty: number, keys, keys with an expiry.
    pub(crate) fn database_sizes(&self) -> Vec<(usize, usize, usize)> {
        let filled = self.keyspace.iter().filter(|(_, db)| !db.is_empty());
        filled.map(|(number, db)| (number, db.len(), db.expires_len())).collect()
    }

    /// Goes on with the job for so long at most, about. To be called between units, once an iteration.
    pub fn save_slice(&mut self, budget_ns: u64, process: &mut dyn Process) -> Slice {
        let delay = self.control.config.int(param::RDB_KEY_SAVE_DELAY);
        let Some(under_way) = &mut self.job else { return Slice::None };
        under_way.writing.set_key_delay(delay);
        if let Some(line) = under_way.writing.warning() {
            process.log(LogLevel::Warning, &line);
        }
        if let Some(outcome) = under_way.writing.outcome() {
            let state = self.job_state().unwrap_or_default();
            let began = self.drop_job().unwrap_or_else(|| process.recent());
            self.job_ended(began, state, outcome, process);
            return Slice::None;
        }
        if self.is_over_budget(process) {
            return Slice::None;
        }
        let Some(under_way) = &mut self.job else { return Slice::None };
        let slice = under_way.slice(&mut self.keyspace, budget_ns, process);
        self.actions.extend(under_way.passed.drain(..).map(|db| Action::FreeDb(Box::new(db))));
        slice
    }

    /// Gives up a job that has held more than it may for too long. Whether it was.
    fn is_over_budget(&mut self, process: &mut dyn Process) -> bool {
        let Some(state) = self.job_state() else { return false };
        let used = process.used_memory(&self.keyspace).saturating_sub(state.held_bytes);
        let budget = HELD_BYTES_MAX.max(used / HELD_SHARE);
        let now = process.recent();
        let Some(job) = &mut self.job else { return false };
        if job.stage != JobStage::Capturing || state.held_bytes <= budget {
            job.over_budget_since_ns = None;
            return false;
        }
        let since_ns = *job.over_budget_since_ns.get_or_insert(now.mono_ns);
        if now.mono_ns.saturating_sub(since_ns) < OVER_BUDGET_NS_MAX {
            return false;
        }
        let began = self.drop_job().unwrap_or(now);
        let text = format!(
            "Saving was given up: {} bytes are held for it and {budget} may be, as its thread does not keep up with the commands \
             that write",
            state.held_bytes
        );
        self.job_ended(began, state, Err(SaveError(text)), process);
        true
    }

    /// Whether a job is under way.
    #[inline]
    pub fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// How far the job is.
    pub(crate) fn job_state(&self) -> Option<JobState> {
        Some(self.job.as_ref()?.state(&self.keyspace, self.effects.left_to_others()))
    }

    /// Ends the job whatever its state; when it began. A file that is not finished leaves nothing behind.
    pub(crate) fn drop_job(&mut self) -> Option<Now> {
        let mut job = self.job.take()?;
        self.control.is_writing = false;
        let left = job.end_cuts(&mut self.keyspace);
        if !left.is_empty() {
            self.actions.push(Action::FreeCaptured(left));
        }
        let emptied = job.detached.drain(..).chain(job.passed.drain(..));
        self.actions.extend(emptied.map(|db| Action::FreeDb(Box::new(db))));
        Some(job.began)
    }

    /// Gives up a job whose thread has written nothing for [`STALLED_S`]; once a second.
    pub(crate) fn watch_job(&mut self, now: Now, process: &mut dyn Process) {
        let Some(job) = &mut self.job else { return };
        let progress = job.writing.progress();
        let is_idle = job.stage == JobStage::Capturing && job.writing.weight() == 0;
        if progress != job.progress.0 || is_idle {
            job.progress = (progress, now);
        }
        let limit_s = match job.stage {
            JobStage::WritingRest if job.writing.weight() == 0 => STALLED_AT_END_S,
            JobStage::Capturing | JobStage::WritingRest => STALLED_S,
        };
        if now.unix_s() - job.progress.1.unix_s() < limit_s {
            return;
        }
        let state = self.job_state().unwrap_or_default();
        let began = self.drop_job().unwrap_or(now);
        let text = format!("Saving made no progress for {limit_s} seconds: is the disk well?");
        self.job_ended(began, state, Err(SaveError(text)), process);
    }

    /// Takes over a database that was emptied while the cut is open; gives back one that no job needs.
    pub(crate) fn keep_emptied_db_for_cut(&mut self, db: Db) -> Option<Db> {
        match &mut self.job {
            Some(job) if db.cut_state().is_some() => {
                job.keep(db);
                None
            }
            Some(_) | None => Some(db),
        }
    }

    /// Bytes of used memory that only the job holds, databases that were emptied included, and a snapshot that replicas have not
    /// taken.
    pub(crate) fn held_by_job(&self) -> usize {
        let state = self.job_state().unwrap_or_default();
        state.held_bytes + state.detached_allocated_bytes + self.control.full_syncs.held_bytes()
    }

    /// The name of the snapshot file, as the configuration has it.
    pub(crate) fn snapshot_target(&self) -> BackgroundFile {
        let config = &self.control.config;
        BackgroundFile {
            name: config.bytes(param::DBFILENAME).to_vec(),
            sync_early: config.bool(param::RDB_SAVE_INCREMENTAL_FSYNC),
            key_delay: config.int(param::RDB_KEY_SAVE_DELAY),
            is_aof_base: false,
            as_commands: false,
        }
    }
}

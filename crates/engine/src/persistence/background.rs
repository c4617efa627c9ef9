//! A background job (a save, a rewrite, or a snapshot for replicas), advanced a slice at a time once an
//! iteration.

use crate::core::Core;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_config::{Config, param};
use sluice_control::action::Action;
use sluice_control::persistence::background::{Job, JobNumbers, JobStage, Slice};
use sluice_control::persistence::saving::UnderWay;
use sluice_control::process::{Background, BackgroundFile, Process, SaveError};
use sluice_keyspace::Db;
use sluice_persist::rdb::Version;
use sluice_snapshot::{RdbAux, SnapshotFile};

/// Seconds for which a job's thread may write nothing before the job is given up.
const STALLED_S: i64 = 60;

/// The limit in place of [`STALLED_S`] while the thread forces the file to disk, because much data may be
/// written then.
const STALLED_AT_END_S: i64 = 600;

/// Bytes that a job may hold beyond the data, or a tenth of used memory if that is more. A job that holds
/// more for longer than [`OVER_BUDGET_NS_MAX`] is given up, because its thread gets too little processor
/// time, and the copies for changes would grow to the size of the data.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Used memory divided by this is the other bound on what a job may hold: see [`HELD_BYTES_MAX`].
const HELD_SHARE: usize = 10;

/// Time in which the thread must have written what exceeds the budget, ns. A job is not given up at once,
/// because the changes of a single command or transaction may capture any amount.
const OVER_BUDGET_NS_MAX: u64 = 2_000_000_000;

/// Steps of the job that writes in the background.
pub(crate) struct Jobs<'a> {
    core: &'a mut Core,
}

impl<'a> Jobs<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Jobs<'a> {
        Jobs { core }
    }
}

impl Jobs<'_> {
    /// Makes a cut of the whole keyspace, that is a snapshot of this moment, and has it written to the file
    /// `target`. May be called when [`Jobs::begin_job`] may. Errors: the process cannot write the file.
    pub(crate) fn begin_file_job(
        &mut self,
        target: BackgroundFile,
        process: &mut dyn Process,
    ) -> Result<(), SaveError> {
        let control = &self.core.control;
        let about = RdbAux {
            now: process.now(),
            used_memory: process.used_memory(&self.core.keyspace),
            stream: control.replication.stream.point(),
            slot_states: None,
            imports: self.core.keyspace.imports(),
            is_aof_base: target.is_aof_base,
        };
        let sizes = self.database_sizes();
        let options = sluice_snapshot::options(&control.config, Version::Valkey);
        let mut file = SnapshotFile::new(&control.config, options, &about, control.libraries(), sizes);
        if target.as_commands {
            let stamp = control.limits.aof_timestamps.then_some(about.now);
            file = file.written_as_commands(stamp, control.replication.stream.point(), about.imports);
        }
        let writing = process.write_in_background(target, file)?;
        self.begin_job(writing, process);
        Ok(())
    }

    /// Makes a cut of the whole keyspace, that is a snapshot of this moment, which `writing` writes from
    /// now on. To be called while no command or transaction is in progress and no job is under way. Cost: one
    /// step for each chunk of entries.
    pub(crate) fn begin_job(&mut self, writing: Box<dyn Background>, process: &mut dyn Process) {
        debug_assert!(self.core.job.is_none(), "one job at a time (1)");
        debug_assert!(!self.core.has_open_unit(), "a cut shows no part of a unit");
        self.core.job = Some(Job::begin(
            &mut self.core.keyspace,
            writing,
            self.core.effects.left_to_others(),
            process.now(),
        ));
        self.core.control.persistence.is_writing = true;
    }

    /// The databases that are not empty, each as its number, the count of its keys, and the count of its keys
    /// with an expiry time.
    pub(crate) fn database_sizes(&self) -> Vec<(usize, usize, usize)> {
        let filled = self.core.keyspace.iter().filter(|(_, db)| !db.is_empty());
        filled.map(|(number, db)| (number, db.len(), db.expires_len())).collect()
    }

    /// As [`Engine::save_slice`](crate::engine::Engine::save_slice).
    pub(crate) fn save_slice(&mut self, budget_ns: u64, process: &mut dyn Process) -> Slice {
        let delay = self.core.control.config.int(param::RDB_KEY_SAVE_DELAY);
        let Some(under_way) = &mut self.core.job else { return Slice::None };
        under_way.writing.set_key_delay(delay);
        if let Some(line) = under_way.writing.warning() {
            process.log(LogLevel::Warning, &line);
        }
        if let Some(outcome) = under_way.writing.outcome() {
            let state = self.core.job_state().unwrap_or_default();
            let began = self.drop_job().unwrap_or_else(|| process.recent());
            self.job_ended(began, state, outcome, process);
            return Slice::None;
        }
        if self.is_over_budget(process) {
            return Slice::None;
        }
        let Some(under_way) = &mut self.core.job else { return Slice::None };
        let slice = under_way.slice(&mut self.core.keyspace, budget_ns, process);
        self.core.actions.extend(under_way.passed.drain(..).map(|db| Action::FreeDb(Box::new(db))));
        slice
    }

    /// Gives up a job that has held too much memory for too long while it captured the data, and returns
    /// whether the job was given up.
    fn is_over_budget(&mut self, process: &mut dyn Process) -> bool {
        let Some(state) = self.core.job_state() else { return false };
        let used = process.used_memory(&self.core.keyspace).saturating_sub(state.held_bytes);
        let budget = HELD_BYTES_MAX.max(used / HELD_SHARE);
        let now = process.recent();
        let Some(job) = &mut self.core.job else { return false };
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
            "Saving was stopped: it holds {} bytes of memory, more than {budget}, because it is slower \
             than the commands that write",
            state.held_bytes
        );
        self.job_ended(began, state, Err(SaveError(text)), process);
        true
    }

    /// Ends the job in any state, and returns when it began. An unfinished file is removed.
    pub(crate) fn drop_job(&mut self) -> Option<Now> {
        let mut job = self.core.job.take()?;
        self.core.control.persistence.is_writing = false;
        let left = job.end_cuts(&mut self.core.keyspace);
        if !left.is_empty() {
            self.core.actions.push(Action::FreeCaptured(left));
        }
        let emptied = job.detached.drain(..).chain(job.passed.drain(..));
        self.core.actions.extend(emptied.map(|db| Action::FreeDb(Box::new(db))));
        Some(job.began)
    }

    /// Gives up a job whose thread has written nothing for [`STALLED_S`], or for [`STALLED_AT_END_S`] at its
    /// end; once a second.
    pub(crate) fn watch_job(&mut self, now: Now, process: &mut dyn Process) {
        let Some(job) = &mut self.core.job else { return };
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
        let state = self.core.job_state().unwrap_or_default();
        let began = self.drop_job().unwrap_or(now);
        let text = format!("Saving made no progress for {limit_s} seconds and was stopped: check the disk");
        self.job_ended(began, state, Err(SaveError(text)), process);
    }

    /// Bytes of used memory that only the job holds. They include databases that were emptied, and a
    /// snapshot that replicas have not taken.
    pub(crate) fn held_by_job(&self) -> usize {
        let state = self.core.job_state().unwrap_or_default();
        state.held_bytes
            + state.detached_allocated_bytes
            + self.core.control.replication.full_syncs.held_bytes()
    }

    /// Ends a save that is under way; the file of the previous save stays.
    pub(crate) fn break_off_save(&mut self, process: &mut dyn Process) {
        if let Some(UnderWay { began_s, .. }) = self.core.control.persistence.saving.under_way.take() {
            self.note_save_end(began_s, process.recent().unix_s());
            self.drop_job();
            process.log(LogLevel::Notice, "Background saving was stopped; the previous RDB file is kept");
        }
    }

    fn note_save_end(&mut self, began_s: i64, now_s: i64) {
        let copied = self.core.job_state().map(|state| state.changed.1);
        let saving = &mut self.core.control.persistence.saving;
        saving.last_s = Some(now_s - began_s);
        saving.last_copied_bytes = copied.unwrap_or(saving.last_copied_bytes);
    }

    /// Handles the end of a job, successful or not.
    #[cold]
    pub(crate) fn job_ended(
        &mut self,
        began: Now,
        state: JobNumbers,
        outcome: Result<(), SaveError>,
        process: &mut dyn Process,
    ) {
        if self.core.control.persistence.rewriting.began_s.is_some() {
            return self.core.control.rewrite_written(state, outcome, process);
        }
        if self.core.control.replication.full_syncs.began_s.take().is_some() {
            return full_sync_written(state, outcome, process);
        }
        let Some(save) = self.core.control.persistence.saving.under_way.take() else { return };
        let now = process.now();
        self.note_save_end(save.began_s, now.unix_s());
        self.core.control.persistence.saving.last_copied_bytes = state.changed.1;
        match outcome {
            Ok(()) => {
                let ms = now.mono_ns.saturating_sub(began.mono_ns) / 1_000_000;
                let (entries, bytes) = state.changed;
                let text = format!(
                    "DB saved on disk: {} keys in {ms} ms; {entries} of them were changed meanwhile, for which \
                     {bytes} bytes were copied",
                    state.total
                );
                process.log(LogLevel::Notice, &text);
                process.log(LogLevel::Notice, "Background saving terminated with success");
                self.core.control.persistence.dirty =
                    self.core.control.persistence.dirty.saturating_sub(save.dirty);
                self.core.control.persistence.last_save_s = now.unix_s();
                self.core.control.persistence.saving.failed = false;
            }
            Err(SaveError(line)) => {
                process.log(LogLevel::Warning, &line);
                process.log(LogLevel::Warning, "Background saving error");
                self.core.control.persistence.saving.failed = true;
            }
        }
    }
}

impl Core {
    /// As [`Engine::has_job`](crate::engine::Engine::has_job).
    pub(crate) fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// Keeps a database that was emptied while its cut is open; returns the database if no job needs it.
    pub(crate) fn keep_emptied_db_for_cut(&mut self, db: Db) -> Option<Db> {
        match &mut self.job {
            Some(job) if db.cut_state().is_some() => {
                job.keep(db);
                None
            }
            Some(_) | None => Some(db),
        }
    }
}

/// Logs that the job of a snapshot for replicas has ended; replicas may still have to read some of the
/// snapshot.
fn full_sync_written(state: JobNumbers, outcome: Result<(), SaveError>, process: &mut dyn Process) {
    match outcome {
        Ok(()) => {
            let (entries, bytes) = state.changed;
            let text = format!(
                "Background full synchronization: the snapshot of {} keys is complete; {entries} of \
                 them were changed meanwhile, for which {bytes} bytes were copied",
                state.total
            );
            process.log(LogLevel::Notice, &text);
        }
        Err(SaveError(line)) => {
            process.log(LogLevel::Warning, &line);
            process.log(LogLevel::Warning, "Background full synchronization error");
        }
    }
}

/// The snapshot file to write, as configured.
pub(crate) fn snapshot_target(config: &Config) -> BackgroundFile {
    BackgroundFile {
        name: config.bytes(param::DBFILENAME).to_vec(),
        sync_early: config.bool(param::RDB_SAVE_INCREMENTAL_FSYNC),
        key_delay: config.int(param::RDB_KEY_SAVE_DELAY),
        is_aof_base: false,
        as_commands: false,
    }
}

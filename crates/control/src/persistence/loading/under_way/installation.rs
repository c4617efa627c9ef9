//! Installing the result of a load: data, functions, and the position in the replication history.

use crate::Control;
use crate::cluster::move_ends::forget_slot_moves;
use crate::persistence::loading::job::{LoadJob, LoadSource};
use crate::persistence::loading::plan::{LoadPlan, LoadPurpose, OldData};
use crate::persistence::loading::under_way::{LoadUnderWay, LoadedFrom};
use crate::process::Process;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_keyspace::{Dataset, Keyspace};
use sluice_replication::{Audience, Grouping, UnitCommands};
use sluice_snapshot::{Duplicates, LeftOut, LoadCounts, LoadOutcome, LoadedHistory, NotLoaded};
use std::sync::PoisonError;

impl Control {
    /// Records the counts of a load, and whether the file contains more than was loaded. A load of an RDB
    /// file leaves the record about the append-only file unchanged, and the other way round.
    fn note_loaded(&mut self, from: LoadedFrom, counts: LoadCounts) {
        let is_partial = counts.skipped > 0 || counts.dropped > 0;
        match from {
            LoadedFrom::Snapshot => {
                self.persistence.partly_loaded.snapshot = is_partial.then(|| self.snapshot_file())
            }
            LoadedFrom::Aof => self.persistence.partly_loaded.aof = is_partial,
        }
        self.persistence.rewriting.refusal_said = false;
        // The counts describe the last load of an RDB file, so they stay if an append-only file had no RDB
        // base.
        if from == LoadedFrom::Snapshot || counts != LoadCounts::default() {
            self.persistence.last_load = counts;
        }
    }

    /// Begins a load into `keyspace`: from now on the gate refuses commands that would change keys, and
    /// commands that would read them unless the old data is served.
    pub fn begin_load(
        &mut self,
        source: LoadSource,
        keyspace: Keyspace,
        plan: LoadPlan,
        now: Now,
    ) -> LoadJob {
        assert!(self.persistence.load.is_none(), "one load at a time");
        forget_slot_moves(self, now);
        let from = match &source {
            LoadSource::Snapshot(_) => LoadedFrom::Snapshot,
            LoadSource::Aof(..) => LoadedFrom::Aof,
        };
        let job = LoadJob::new(source, keyspace, &plan, self, now);
        let (progress, functions) = (job.progress(), job.functions());
        let (began, has_freed) = (now, false);
        let load = LoadUnderWay { plan, from, progress, began, has_freed, functions };
        *self.persistence.load = Some(Box::new(load));
        job
    }

    /// Installs the result of a load in place of the present data. `data` is the present data; its `effects`
    /// record what the replacement changes.
    pub fn install(
        &mut self,
        outcome: LoadOutcome,
        load: &LoadUnderWay,
        data: &mut Dataset<'_>,
        process: &mut dyn Process,
    ) -> Result<(), NotLoaded> {
        let LoadOutcome { keyspace, result } = outcome;
        if let Some(keyspace) = keyspace {
            data.replace(keyspace);
        }
        match result {
            Ok(brought) => {
                let functions = self.install_functions(load);
                self.note_loaded(load.from, brought.counts);
                self.note_loaded_history(load.plan.purpose, brought.history, brought.counts);
                if load.from == LoadedFrom::Aof {
                    // No change counts as unsaved, because the append-only file contains all of them.
                    self.persistence.dirty = 0;
                }
                functions.map_err(|error| {
                    let text = format!("Failed loading library, {}", String::from_utf8_lossy(&error));
                    process.log(LogLevel::Warning, &text);
                    NotLoaded::Failed
                })
            }
            Err(why) => {
                let (loaded, expired) = load.keys();
                self.persistence.last_load = LoadCounts { loaded, expired, ..LoadCounts::default() };
                if load.has_freed {
                    // No save may replace the file, because it has data that was freed in memory and could
                    // not be loaded.
                    self.persistence.partly_loaded.snapshot = Some(self.snapshot_file());
                }
                Err(why)
            }
        }
    }

    /// Installs the loaded libraries of functions, in place of the present ones or in addition to them.
    ///
    /// # Errors
    /// A loaded library has the name of a present one that must not be replaced, or one of its
    /// functions has the name of a function of a library that stays. The present libraries then stay
    /// unchanged.
    fn install_functions(&mut self, load: &LoadUnderWay) -> Result<(), Vec<u8>> {
        let brought = load.functions.lock().unwrap_or_else(PoisonError::into_inner).take();
        let brought = brought.unwrap_or_default();
        let joined = match load.plan.old {
            OldData::Freed | OldData::Kept => {
                self.functions = brought;
                Ok(())
            }
            OldData::Filled => {
                let replaces = load.plan.duplicates == Duplicates::Replace;
                self.functions.join(brought, replaces).map(drop)
            }
        };
        // The configured limit (`script-memory-limit`) applies from now on; during the load the libraries
        // of the file had a separate one.
        self.functions.set_limit(sluice_scripts::state::memory_limit(&self.config));
        joined
    }

    /// Records the position in a replication history that the file states. Only a load at the start adopts
    /// that position.
    fn note_loaded_history(&mut self, purpose: LoadPurpose, mut history: LoadedHistory, counts: LoadCounts) {
        // If keys were skipped, no position is adopted: a replica that continued from there would have more
        // keys than this server.
        if purpose == LoadPurpose::Start && counts.skipped > 0 {
            return;
        }
        let selected = history.db();
        let db = selected.filter(|db| *db < self.limits.databases);
        let expired = history.take_expired();
        match (purpose, history.point(), self.replication.replica.as_mut()) {
            (LoadPurpose::Start, Some((replid, offset)), Some(role)) => {
                // Without the selected database the link cannot continue, because the following commands
                // could be executed in a wrong database.
                role.can_resume = db.is_some();
                role.db = db.unwrap_or(0);
                self.replication.stream.adopt_history(replid, offset);
                self.replication.stream.relay_selects(db.unwrap_or(0));
            }
            (LoadPurpose::Start, Some((replid, offset)), None) => {
                self.replication.stream.resume(replid, offset);
                self.propagate_expired(&expired);
            }
            (LoadPurpose::Sync, _, role) => {
                // The database is recorded even if this server lacks it, because the link's session must not
                // execute commands in another one.
                self.replication.loaded_stream_db = selected;
                // The link, not the file, will report the position of the data. Until the link has done so,
                // the position counts as unknown. It stays unknown if the link gave up the synchronisation
                // while the file was loaded.
                if let Some(role) = role {
                    role.can_resume = false;
                }
            }
            (LoadPurpose::Start, None, _) | (LoadPurpose::Debug(_), _, _) => {}
        }
    }

    /// The load left out expired keys and hash fields. Replicas that continue at the file's position still
    /// have them, so this function sends those replicas the deletions. A replica that has received commands
    /// after that position cannot continue here, because the history of the file is kept only up to that
    /// position.
    fn propagate_expired(&mut self, expired: &[LeftOut]) {
        let name: &[u8] = if self.limits.lazy_expire { b"UNLINK" } else { b"DEL" };
        for LeftOut { db, key, fields } in expired {
            if fields.is_empty() {
                self.feed_replicas(*db, [name, key].into_iter());
            }
            for fields in fields.chunks(FIELDS_TOLD_MAX) {
                let fields = fields.iter().map(Vec::as_slice);
                self.feed_replicas(*db, [&b"HDEL"[..], key].into_iter().chain(fields));
            }
        }
    }

    fn feed_replicas<'a>(&mut self, db: usize, argv: impl Iterator<Item = &'a [u8]> + Clone) {
        let mut unit = UnitCommands::default();
        unit.command(db, Audience::Replicas, argv.collect::<Vec<_>>().into_iter());
        self.replication.stream.add_unit(&unit, Grouping::Separate);
        self.replication.stream.trim(self.limits.backlog_bytes);
    }

    /// Ends a load that was run on the main thread, inside a transaction.
    pub(crate) fn end_load_here(
        &mut self,
        data: &mut Dataset<'_>,
        process: &mut dyn Process,
    ) -> Result<(), NotLoaded> {
        let Some(load) = self.persistence.load.take() else { return Err(NotLoaded::Stopped) };
        let news = load.progress.take_news();
        news.lines.iter().for_each(|(level, line)| process.log(*level, line));
        let outcome = news.outcome.ok_or(NotLoaded::Stopped)?;
        self.install(outcome, &load, data, process)?;
        process.log(LogLevel::Notice, load.from.done());
        Ok(())
    }
}

/// One HDEL deletes at most this many fields.
const FIELDS_TOLD_MAX: usize = 1024;

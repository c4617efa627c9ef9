//! Saving: the data written to the snapshot file: at one moment for SAVE, DEBUG RELOAD, FLUSHALL and the end of the server; in
//! the background for BGSAVE and at save points, by a job of `background.rs`.
//!
//! Invariants: (1) the file holds one moment: everybody waits, or a cut keeps it; (2) changes count as saved only when the file
//! is durable; (3) a failure leaves the file before, or the new one, and never a part of one: see [`SnapshotSink`].

#[cfg(doc)]
use crate::action::Action;
use crate::background::JobState;
use crate::control::Control;
use crate::engine::Engine;
use crate::process::{LogLevel, Process, SaveError, SnapshotSink};
use crate::snapshot::{self, RdbAux};
use sluice_base::{Bytes, Now};
use sluice_config::{SavePoint, param};
use sluice_keyspace::Keyspace;
use sluice_persist::rdb::Version;
use std::cell::RefCell;
use std::ops::ControlFlow;

/// What becomes of the data when the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Saved if there are save points.
    ByConfig,
    /// Saved.
    Save,
    /// Not saved.
    NoSave,
}

/// The data were not saved; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotSaved;

/// Writes the snapshot file whole. Cost: O(data), in time and on disk.
pub(crate) fn save(
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> Result<(), NotSaved> {
    let refusal = match () {
        () if control.snapshot_holds_more() => Some(PARTLY_LOADED),
        () if control.awaits_sync_file() => Some(BEHIND_SYNC),
        () if control.rewriting.is_snapshot_wanted(process) => Some(BEHIND_BASE),
        () => None,
    };
    if let Some(line) = refusal {
        process.log(LogLevel::Warning, line);
        return Err(NotSaved);
    }
    let about = RdbAux {
        now: process.now(),
        used_memory: process.used_memory(keyspace),
        stream: control.stream.point(),
        is_aof_base: false,
    };
    let name = control.config.bytes(param::DBFILENAME).to_vec();
    let sync_early = control.config.bool(param::RDB_SAVE_INCREMENTAL_FSYNC);
    let done = process.create_snapshot(&name, sync_early).and_then(|mut sink| {
        write(keyspace, control, &about, sink.as_mut(), process)?;
        sink.finish()
    });
    match done {
        Ok(()) => {
            process.log(LogLevel::Notice, "DB saved on disk");
            control.dirty = 0;
            control.last_save_s = process.now().unix_s();
            control.saving.failed = false;
            Ok(())
        }
        Err(SaveError(line)) => {
            process.log(LogLevel::Warning, &line);
            Err(NotSaved)
        }
    }
}

const BEHIND_SYNC: &str = "Not saving: the snapshot of the primary is about to be loaded from the RDB file.";

// A younger file would be linked as the base of commands that it has already.
const BEHIND_BASE: &str = "Not saving: the RDB file is about to become the base of the append-only file.";

const PARTLY_LOADED: &str = "Not saving: the RDB file of this name holds keys that were passed over when it was loaded, and \
                             they would be lost. Give another dbfilename, or move that file and load without it.";

fn write(
    keyspace: &Keyspace,
    control: &Control,
    about: &RdbAux<'_>,
    sink: &mut dyn SnapshotSink,
    process: &mut dyn Process,
) -> Result<(), SaveError> {
    let (mut result, mut bytes, mut said_ns) = (Ok(()), 0, about.now.mono_ns);
    let process = RefCell::new(process);
    let mut give = |piece: Bytes| {
        result = sink.write(&piece);
        bytes += piece.len() as u64;
        let mut process = process.borrow_mut();
        let now_ns = process.now().mono_ns;
        if now_ns.saturating_sub(said_ns) >= SAID_EVERY_NS {
            said_ns = now_ns;
            let seconds = now_ns.saturating_sub(about.now.mono_ns) / 1_000_000_000;
            let text = format!("Saving: {} MB written in {seconds} seconds", bytes / 1_000_000);
            process.log(LogLevel::Notice, &text);
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let config = &control.config;
    let delay = config.int(param::RDB_KEY_SAVE_DELAY);
    let mut entries = 0;
    let mut each = || {
        entries += 1;
        let microseconds = key_delay_us(delay, entries);
        if microseconds > 0 {
            process.borrow_mut().sleep(microseconds);
        }
    };
    let options = snapshot::options(config, Version::Valkey);
    snapshot::write(keyspace, config, options, about, &control.kept, &mut each, &mut give);
    result
}

/// Microseconds to wait behind the key of that number, as the setting `rdb-key-save-delay` wants it: so many, or, where it is negative,
/// one behind so many keys.
pub fn key_delay_us(setting: i64, number: u64) -> u64 {
    match u64::try_from(setting) {
        Ok(microseconds) => microseconds,
        Err(_) => u64::from(number.is_multiple_of(setting.unsigned_abs())),
    }
}

/// Time between two lines of the log about how far a save or a load is.
pub(crate) const SAID_EVERY_NS: u64 = 5_000_000_000;

const NOT_ENDED: &str = "Errors trying to shut down the server. Check the logs for more information.";

const NO_FIRST_BASE: &str = "The first base of the AOF could not be written: the next start does not read what was appended. \
                             Exit anyway.";

/// Saves the data where the end of the server wants that. `false`, where it could not be saved and the server shall not end.
pub(crate) fn prepare_end(
    ending: Ending,
    force: bool,
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> bool {
    process.log(LogLevel::Notice, "User requested shutdown...");
    if control.aof.is_on() && !process.has_aof_base() {
        // What was appended so far is in a file that the next start does not read.
        let is_written = control.rewriting.began_s.is_some();
        match force || ending == Ending::NoSave {
            true => process.log(LogLevel::Warning, "Writing initial AOF. Exit anyway."),
            // There is nothing to wait for: a server whose disk holds no base can be ended nevertheless.
            false if !is_written => process.log(LogLevel::Warning, NO_FIRST_BASE),
            false => {
                process.log(LogLevel::Warning, "Writing initial AOF, can't exit.");
                process.log(LogLevel::Warning, NOT_ENDED);
                return false;
            }
        }
    }
    let wanted = match ending {
        // What is there is not the data.
        _ if control.load.is_some() => false,
        Ending::ByConfig => !control.config.save_points().is_empty(),
        Ending::Save => true,
        Ending::NoSave => false,
    };
    if wanted {
        process.log(LogLevel::Notice, "Saving the final RDB snapshot before exiting.");
        if save(keyspace, control, process).is_ok() {
            control.saved_for_end = true;
        } else if force {
            process.log(LogLevel::Warning, "Error trying to save the DB. Exit anyway.");
        } else {
            process.log(LogLevel::Warning, "Error trying to save the DB, can't exit.");
            process.log(LogLevel::Warning, NOT_ENDED);
            return false;
        }
    }
    if control.saving.under_way.is_some() {
        process.log(LogLevel::Notice, "A save is under way in the background: it is broken off");
        control.saving.cancelled = true;
    }
    true
}

/// What saving in the background remembers between two steps.
#[derive(Clone, Debug, Default)]
pub struct Saving {
    /// Why a save shall begin as soon as the running command is done.
    pub(crate) wanted: Option<Why>,
    /// A save shall begin when nothing else is written in the background.
    pub(crate) scheduled: bool,
    /// What is written as an RDB file in the background, for the disk or for replicas, was asked to end.
    pub(crate) cancelled: bool,
    /// The save that is under way.
    pub(crate) under_way: Option<UnderWay>,
    /// The last one that ended failed.
    pub(crate) failed: bool,
    /// When one was begun last, seconds since the epoch.
    tried_s: i64,
    /// How long the last one took, seconds.
    pub(crate) last_s: Option<i64>,
    /// Bytes copied for commands that changed an entry while the last one was under way.
    pub(crate) last_copied_bytes: u64,
}

/// A save under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    /// Changes that it has, of those since the save before.
    dirty: u64,
    /// When it began, seconds since the epoch.
    pub(crate) began_s: i64,
}

/// Why a save begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// BGSAVE.
    Command,
    /// The changes and the seconds of a save point.
    SavePoint(SavePoint),
}

/// After a failure the next save is tried so many seconds later.
const RETRY_S: i64 = 5;

impl Control {
    /// Since when an RDB file is written in the background, for the disk or for replicas, seconds since the epoch.
    pub(crate) fn rdb_began_s(&self) -> Option<i64> {
        self.saving.under_way.map(|save| save.began_s).or(self.full_syncs.began_s)
    }

    /// Whether writes are refused because the data could not be saved.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.saving.failed
            && self.config.bool(param::STOP_WRITES_ON_BGSAVE_ERROR)
            && !self.config.save_points().is_empty()
    }
}

impl Engine {
    /// Begins the save that the last command has asked for: between two units.
    #[inline]
    pub(crate) fn begin_wanted_save(&mut self, process: &mut dyn Process) {
        if let Some(why) = self.control.saving.wanted.take() {
            self.begin_save(why, process);
        }
        if std::mem::take(&mut self.control.saving.cancelled) {
            self.break_off_save(process);
            self.break_off_full_sync(process);
        }
    }

    #[cold]
    fn begin_save(&mut self, why: Why, process: &mut dyn Process) {
        if self.control.awaits_sync_file() || self.is_snapshot_wanted(process) {
            self.control.saving.scheduled = true;
            return;
        }
        let now = process.now();
        self.control.saving.tried_s = now.unix_s();
        self.control.saving.scheduled = false;
        self.control.saves += 1;
        let begun = match self.control.snapshot_holds_more() {
            true => Err(SaveError(PARTLY_LOADED.to_owned())),
            false => self.begin_file_job(self.snapshot_target(), process),
        };
        if let Err(SaveError(line)) = begun {
            process.log(LogLevel::Warning, &line);
            process.log(LogLevel::Warning, "Background saving error");
            self.control.saving.failed = true;
            self.refresh();
            return;
        }
        let (dirty, began_s) = (self.control.dirty, now.unix_s());
        self.control.saving.under_way = Some(UnderWay { dirty, began_s });
        let why = match why {
            Why::Command => "by request".to_owned(),
            Why::SavePoint(point) => format!("{} changes in {} seconds", point.changes, point.seconds),
        };
        let keys = self.job_state().map_or(0, |state| state.total);
        let text = format!("Background saving started: {keys} keys, {why}");
        process.log(LogLevel::Notice, &text);
    }

    /// Ends a save that is under way, if there is one; the file before stays.
    pub(crate) fn break_off_save(&mut self, process: &mut dyn Process) {
        if let Some(UnderWay { began_s, .. }) = self.control.saving.under_way.take() {
            self.note_save_end(began_s, process.recent().unix_s());
            self.drop_job();
            process.log(LogLevel::Notice, "Background saving was broken off; the file before stays");
        }
    }

    fn note_save_end(&mut self, began_s: i64, now_s: i64) {
        let copied = self.job_state().map(|state| state.changed.1);
        let saving = &mut self.control.saving;
        saving.last_s = Some(now_s - began_s);
        saving.last_copied_bytes = copied.unwrap_or(saving.last_copied_bytes);
    }

    /// A job has ended, well or not.
    #[cold]
    pub(crate) fn job_ended(
        &mut self,
        began: Now,
        state: JobState,
        outcome: Result<(), SaveError>,
        process: &mut dyn Process,
    ) {
        if self.control.rewriting.began_s.is_some() {
            return self.rewrite_written(state, outcome, process);
        }
        if self.control.full_syncs.began_s.take().is_some() {
            return self.full_sync_written(state, outcome, process);
        }
        let Some(save) = self.control.saving.under_way.take() else { return };
        let now = process.now();
        self.note_save_end(save.began_s, now.unix_s());
        self.control.saving.last_copied_bytes = state.changed.1;
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
                self.control.dirty = self.control.dirty.saturating_sub(save.dirty);
                self.control.last_save_s = now.unix_s();
                self.control.saving.failed = false;
            }
            Err(SaveError(line)) => {
                process.log(LogLevel::Warning, &line);
                process.log(LogLevel::Warning, "Background saving error");
                self.control.saving.failed = true;
            }
        }
        self.refresh();
    }

    /// Begins the save that is scheduled, or due at a save point.
    pub(crate) fn save_if_due(&mut self, now: Now, process: &mut dyn Process) {
        let control = &self.control;
        let rests = control.saving.failed && now.unix_s() - control.saving.tried_s <= RETRY_S;
        // While data are loaded there are none to save.
        if control.works_in_background() || rests || self.is_loading() || control.awaits_sync_file() {
            return;
        }
        if self.is_snapshot_wanted(process) {
            return;
        }
        let control = &self.control;
        if control.saving.scheduled {
            return self.begin_save(Why::Command, process);
        }
        let since_s = now.unix_s() - control.last_save_s;
        let points = control.config.save_points();
        let due = points.iter().find(|point| {
            control.dirty >= u64::try_from(point.changes).unwrap_or(0) && since_s > point.seconds
        });
        if let Some(point) = due.copied() {
            let text = format!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            process.log(LogLevel::Notice, &text);
            self.begin_save(Why::SavePoint(point), process);
        }
    }

    /// Whether the end that a signal asks for waits until DEBUG PAUSE-CRON lets the cron go on: until then SHUTDOWN ABORT can
    /// prevent it, by [`Action::KeepRunning`].
    pub fn end_waits_for_cron(&mut self) -> bool {
        self.control.end_waits_for_cron = self.control.cron_paused;
        self.control.cron_paused
    }

    /// Prepares the end of the server: saves the data where that is wanted. `false`, where the server shall not end, as it
    /// would lose data; the log says why.
    pub fn prepare_end(&mut self, ending: Ending, force: bool, process: &mut dyn Process) -> bool {
        let may_end = prepare_end(ending, force, &self.keyspace, &mut self.control, process);
        self.begin_wanted_save(process);
        may_end
    }

    /// Saves what commands have changed since the data were saved for the end of the server: others of the same iteration
    /// were executed behind SHUTDOWN. Nothing may be executed after this.
    pub fn save_rest(&mut self, process: &mut dyn Process) {
        if self.control.saved_for_end && self.control.dirty > 0 {
            // It worked a moment ago. If it does not now, the log says so, and those changes are lost.
            let _ = save(&self.keyspace, &mut self.control, process);
        }
    }
}

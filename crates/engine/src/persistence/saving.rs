//! Saving: SAVE, BGSAVE, save points, the save at the end.

use crate::engine::Engine;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::background::JobNumbers;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::saving::in_place::{PARTLY_LOADED, prepare_end, save_for_end};
use sluice_control::persistence::saving::{JobAsk, UnderWay, Why};
use sluice_control::process::{Process, SaveError};

/// After a failure the next save is tried so many seconds later.
const RETRY_S: i64 = 5;

impl Engine {
    /// Does what commands have asked of the jobs that write in the background. While a unit stands open the
    /// asks stay.
    pub(crate) fn carry_out_asks(&mut self, process: &mut dyn Process) {
        if self.core.control.persistence.asked.is_empty()
            || !self.core.control.between_units(BetweenUnits::Save)
        {
            return;
        }
        for ask in std::mem::take(&mut self.core.control.persistence.asked) {
            match ask {
                JobAsk::Save(why) => self.begin_save(why, process),
                JobAsk::BreakSavesOff => {
                    self.break_off_save(process);
                    self.break_off_full_sync(process);
                }
                JobAsk::Rewrite => self.rewrite_when_free(process),
            }
        }
    }

    #[cold]
    fn begin_save(&mut self, why: Why, process: &mut dyn Process) {
        // What is being loaded is in no snapshot.
        if self.is_loading() || self.core.control.awaits_sync_file() || self.is_snapshot_wanted(process) {
            self.core.control.persistence.saving.scheduled = true;
            return;
        }
        let now = process.now();
        self.core.control.persistence.saving.tried_s = now.unix_s();
        self.core.control.persistence.saving.scheduled = false;
        self.core.control.persistence.saves += 1;
        let begun = match self.core.control.snapshot_holds_more() {
            true => Err(SaveError(PARTLY_LOADED.to_owned())),
            false => self.begin_file_job(self.snapshot_target(), process),
        };
        if let Err(SaveError(line)) = begun {
            process.log(LogLevel::Warning, &line);
            process.log(LogLevel::Warning, "Background saving error");
            self.core.control.persistence.saving.failed = true;
            return;
        }
        let (dirty, began_s) = (self.core.control.persistence.dirty, now.unix_s());
        self.core.control.persistence.saving.under_way = Some(UnderWay { dirty, began_s });
        let why = match why {
            Why::Command => "by request".to_owned(),
            Why::SavePoint(point) => format!("{} changes in {} seconds", point.changes, point.seconds),
        };
        let keys = self.core.job_state().map_or(0, |state| state.total);
        let text = format!("Background saving started: {keys} keys, {why}");
        process.log(LogLevel::Notice, &text);
    }

    /// Ends a save that is under way, if there is one; the file before stays.
    pub(crate) fn break_off_save(&mut self, process: &mut dyn Process) {
        if let Some(UnderWay { began_s, .. }) = self.core.control.persistence.saving.under_way.take() {
            self.note_save_end(began_s, process.recent().unix_s());
            self.drop_job();
            process.log(LogLevel::Notice, "Background saving was broken off; the file before stays");
        }
    }

    fn note_save_end(&mut self, began_s: i64, now_s: i64) {
        let copied = self.core.job_state().map(|state| state.changed.1);
        let saving = &mut self.core.control.persistence.saving;
        saving.last_s = Some(now_s - began_s);
        saving.last_copied_bytes = copied.unwrap_or(saving.last_copied_bytes);
    }

    /// A job has ended, well or not.
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
            return self.full_sync_written(state, outcome, process);
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

    /// Begins the save that is scheduled, or due at a save point.
    pub(crate) fn save_if_due(&mut self, now: Now, process: &mut dyn Process) {
        if !self.core.control.between_units(BetweenUnits::Save) {
            return;
        }
        let control = &self.core.control;
        let rests =
            control.persistence.saving.failed && now.unix_s() - control.persistence.saving.tried_s <= RETRY_S;
        // While data are loaded there are none to save.
        if control.works_in_background() || rests || self.is_loading() || control.awaits_sync_file() {
            return;
        }
        if self.is_snapshot_wanted(process) {
            return;
        }
        let control = &self.core.control;
        if control.persistence.saving.scheduled {
            return self.begin_save(Why::Command, process);
        }
        let since_s = now.unix_s() - control.persistence.last_save_s;
        let points = control.config.save_points();
        let due = points.iter().find(|point| {
            control.persistence.dirty >= u64::try_from(point.changes).unwrap_or(0) && since_s > point.seconds
        });
        if let Some(point) = due.copied() {
            let text = format!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            process.log(LogLevel::Notice, &text);
            self.begin_save(Why::SavePoint(point), process);
        }
    }

    /// Whether the end that a signal asks for waits until DEBUG PAUSE-CRON lets the cron go on: until then
    /// SHUTDOWN ABORT can prevent it, by
    /// [`Action::KeepRunning`](sluice_control::action::Action::KeepRunning). It waits for a unit that stands
    /// open, too; a script that has written nothing is ended for it.
    pub fn end_waits_for_cron(&mut self, process: &mut dyn Process) -> bool {
        let waits =
            self.core.control.debug.cron_paused || !self.core.control.between_units(BetweenUnits::End);
        if waits && !self.core.control.debug.cron_paused {
            let line = self.core.control.scripts.end_for_server();
            line.into_iter().for_each(|line| process.log(LogLevel::Warning, &line));
        }
        self.core.control.debug.end_waits_for_cron = waits;
        waits
    }

    /// Prepares the end of the server: saves the data where that is wanted. `false`, where the server shall
    /// not end, as it would lose data; the log says why.
    pub fn prepare_end(&mut self, order: &EndOrder, process: &mut dyn Process) -> bool {
        let may_end = prepare_end(order, &self.core.keyspace, &mut self.core.control, process);
        self.carry_out_asks(process);
        may_end
    }

    /// Saves what commands have changed since the data were saved for the end of the server: others of the
    /// same iteration were executed behind SHUTDOWN. Nothing may be executed after this.
    pub fn save_rest(&mut self, process: &mut dyn Process) {
        // A save shows no part of a unit: one that stands open here is a script that SHUTDOWN NOSAVE has cut
        // short.
        let saves = self.core.control.persistence.saved_for_end && !self.core.has_open_unit();
        if saves && self.core.control.persistence.dirty > 0 {
            // It worked a moment ago. If it does not now, the log says so, and those changes are lost.
            let _ = save_for_end(&self.core.keyspace, &mut self.core.control, process);
        }
    }
}

//! Saving: SAVE, BGSAVE, save points, and the save at the end of the server.

use crate::core::Core;
use crate::persistence::background::{Jobs, snapshot_target};
use crate::persistence::rewriting::Rewrites;
use crate::replication::full_sync::FullCopies;
use sluice_base::{LogLevel, Now};
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::saving::in_place::{PARTLY_LOADED, prepare_end, save_for_end};
use sluice_control::persistence::saving::{JobAsk, UnderWay, Why};
use sluice_control::process::{Process, SaveError};

/// The cron begins no save within this many seconds after an attempt that failed.
const RETRY_S: i64 = 5;

/// Steps of the saves of the data.
pub(crate) struct Saves<'a> {
    core: &'a mut Core,
}

impl<'a> Saves<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Saves<'a> {
        Saves { core }
    }
}

impl Saves<'_> {
    /// Carries out the requests of commands about background jobs. While a transaction or script is in
    /// progress, the requests are kept.
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
                    Jobs::of(self.core).break_off_save(process);
                    FullCopies::of(self.core).break_off_full_sync(process);
                }
                JobAsk::Rewrite => Rewrites::of(self.core).rewrite_when_free(process),
            }
        }
    }

    #[cold]
    fn begin_save(&mut self, why: Why, process: &mut dyn Process) {
        // Data that are being loaded are not saved, and no save replaces an RDB file that is to become the
        // base of the append-only file.
        if self.core.is_loading()
            || self.core.control.awaits_sync_file()
            || Rewrites::of(self.core).is_snapshot_wanted(process)
        {
            self.core.control.persistence.saving.scheduled = true;
            return;
        }
        let now = process.now();
        self.core.control.persistence.saving.tried_s = now.unix_s();
        self.core.control.persistence.saving.scheduled = false;
        self.core.control.persistence.saves += 1;
        let target = snapshot_target(&self.core.control.config);
        let begun = match self.core.control.snapshot_holds_more() {
            true => Err(SaveError(PARTLY_LOADED.to_owned())),
            false => Jobs::of(self.core).begin_file_job(target, process),
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

    /// Begins a save that is scheduled, or due at a save point.
    pub(crate) fn save_if_due(&mut self, now: Now, process: &mut dyn Process) {
        if !self.core.control.between_units(BetweenUnits::Save) {
            return;
        }
        let control = &self.core.control;
        let rests =
            control.persistence.saving.failed && now.unix_s() - control.persistence.saving.tried_s <= RETRY_S;
        // While data are loaded, there is nothing to save.
        if control.works_in_background() || rests || self.core.is_loading() || control.awaits_sync_file() {
            return;
        }
        if Rewrites::of(self.core).is_snapshot_wanted(process) {
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

    /// As [`Engine::end_waits_for_cron`](crate::engine::Engine::end_waits_for_cron).
    pub(crate) fn end_waits_for_cron(&mut self, process: &mut dyn Process) -> bool {
        let waits =
            self.core.control.debug.cron_paused || !self.core.control.between_units(BetweenUnits::End);
        if waits && !self.core.control.debug.cron_paused {
            let line = self.core.control.scripts.end_for_server();
            line.into_iter().for_each(|line| process.log(LogLevel::Warning, &line));
        }
        self.core.control.debug.end_waits_for_cron = waits;
        waits
    }

    /// As [`Engine::prepare_end`](crate::engine::Engine::prepare_end).
    pub(crate) fn prepare_end(&mut self, order: &EndOrder, process: &mut dyn Process) -> bool {
        let may_end = prepare_end(order, &self.core.keyspace, &mut self.core.control, process);
        self.carry_out_asks(process);
        may_end
    }

    /// As [`Engine::save_rest`](crate::engine::Engine::save_rest).
    pub(crate) fn save_rest(&mut self, process: &mut dyn Process) {
        // A save must not contain a part of the changes of a transaction or script. An execution unit that is
        // open here is that of a script that SHUTDOWN NOSAVE has broken off.
        let saves = self.core.control.persistence.saved_for_end && !self.core.has_open_unit();
        if saves && self.core.control.persistence.dirty > 0 {
            // The previous save has just worked. If this one fails, the log says so, and the latest changes
            // are lost.
            let _ = save_for_end(&self.core.keyspace, &mut self.core.control, process);
        }
    }

    /// Ends a background save after FLUSHALL, and saves the empty databases if save points are configured.
    /// After a successful save, no change counts as unsaved.
    #[cold]
    pub(crate) fn save_emptiness(&mut self, process: &mut dyn Process) {
        self.core.control.replication.local_expiries.clear();
        let changes = self.core.effects.take_changes();
        self.core.control.count_changes(changes);
        Jobs::of(self.core).break_off_save(process);
        if !self.core.control.config.save_points().is_empty() {
            // A failure is in the log, and the changes stay counted.
            let _ = sluice_control::persistence::saving::in_place::save(
                &self.core.keyspace,
                &mut self.core.control,
                process,
            );
        }
    }
}

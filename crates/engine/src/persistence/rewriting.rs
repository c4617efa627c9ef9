//! How a rewrite of the append-only file begins, goes on and ends.

use crate::core::Core;
use crate::persistence::aof::Appending;
use crate::persistence::background::Jobs;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_base::mistake::{self, Mistake};
use sluice_config::param;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::{AofBacklog, AofIncrement, BackgroundFile, Process, SaveError};
use sluice_numbers::facts::AofFacts;

/// Whether and why a rewrite is needed, as the growth of the file and the free disk space show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RewriteReason {
    Nothing,
    /// The file has grown by this many percent.
    Growth(u64),
    /// This many bytes of the disk are free, too few for a rewrite when the file reaches the size at which
    /// its growth would cause one.
    Space(u64),
    /// This many bytes of the disk are free, too few for a rewrite even now.
    TooSmall(u64),
}

/// A lack of space causes no rewrite of a file that has grown by a smaller percentage, because the next
/// rewrite would follow at once.
const SPACE_GROWTH_PERCENT: u64 = 10;

/// Whether a file of this size needs a rewrite. The new base is expected to be as large as the last one.
/// `percent` and `min` are `auto-aof-rewrite-percentage`, which is not 0, and `auto-aof-rewrite-min-size`.
fn due(facts: &AofFacts, percent: u64, min: u64) -> RewriteReason {
    let AofFacts { current_bytes, base_bytes, free_bytes, .. } = *facts;
    let base = base_bytes.max(1);
    let growth = (u128::from(current_bytes) * 100 / u128::from(base)).saturating_sub(100);
    let growth = u64::try_from(growth).unwrap_or(u64::MAX);
    let is_large = current_bytes > min;
    if is_large && growth >= percent {
        return RewriteReason::Growth(growth);
    }
    let Some(free) = free_bytes.filter(|_| is_large && growth >= SPACE_GROWTH_PERCENT) else {
        return RewriteReason::Nothing;
    };
    // The size at which growth causes a rewrite. The bytes appended until the file has this size take space,
    // too.
    let asked_at = u128::from(base) * u128::from(percent.saturating_add(100)) / 100;
    let until_then = asked_at.saturating_sub(u128::from(current_bytes));
    match u128::from(free) {
        free_now if free_now < u128::from(base) => RewriteReason::TooSmall(free),
        free_now if free_now < until_then + u128::from(base) => RewriteReason::Space(free),
        _ => RewriteReason::Nothing,
    }
}

/// Steps of the rewrites of the append-only file.
pub(crate) struct Rewrites<'a> {
    core: &'a mut Core,
}

impl<'a> Rewrites<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Rewrites<'a> {
        Rewrites { core }
    }
}

impl Rewrites<'_> {
    /// Turns the append-only file off, between two commands or transactions, if the configuration has turned
    /// it off.
    pub(crate) fn follow_appendonly(&mut self, process: &mut dyn Process) {
        if !self.core.control.between_units(BetweenUnits::Rewrite) {
            return;
        }
        let wants_aof = self.core.control.config.bool(param::APPENDONLY);
        if self.core.control.persistence.aof.is_on() && !wants_aof {
            self.turn_aof_off(process);
        }
    }

    /// Begins a rewrite, or schedules one while another job writes in the background.
    pub(crate) fn rewrite_when_free(&mut self, process: &mut dyn Process) {
        match self.core.control.works_in_background() {
            true => self.core.control.persistence.rewriting.scheduled = true,
            false => {
                self.begin_rewrite(process);
            }
        }
    }

    /// Begins a rewrite. To be called while no command or transaction is in progress and no job is under way.
    /// Returns whether the rewrite has begun; if not, the reason is logged.
    pub(crate) fn begin_rewrite(&mut self, process: &mut dyn Process) -> bool {
        assert!(
            !self.core.is_loading(),
            "a base of data that are not there yet would take the place of the files"
        );
        if let Some(line) = self.core.control.rewrite_refusal() {
            // A newly enabled append-only file needs its first rewrite as soon as that may begin, so the
            // rewrite stays scheduled.
            let waits_for_base = self.core.control.wants_aof() && !self.core.control.persistence.aof.is_on();
            let rewriting = &mut self.core.control.persistence.rewriting;
            rewriting.scheduled = waits_for_base;
            if !std::mem::replace(&mut rewriting.refusal_said, true) {
                process.log(LogLevel::Warning, line);
            }
            return false;
        }
        let rewriting = &mut self.core.control.persistence.rewriting;
        rewriting.scheduled = false;
        rewriting.count += 1;
        let now = process.now();
        let begun = self.switch_for_rewrite(process).and_then(|()| {
            let config = &self.core.control.config;
            let target = BackgroundFile {
                name: Vec::new(),
                sync_early: config.bool(param::AOF_REWRITE_INCREMENTAL_FSYNC),
                key_delay: config.int(param::RDB_KEY_SAVE_DELAY),
                is_aof_base: true,
                as_commands: !config.bool(param::AOF_USE_RDB_PREAMBLE),
            };
            Jobs::of(self.core)
                .begin_file_job(target, process)
                .inspect_err(|_| process.end_aof_rewrite(false))
        });
        if let Err(SaveError(line)) = begun {
            process.log(LogLevel::Warning, &line);
            self.core.control.rewrite_failed(now, process);
            return false;
        }
        self.core.control.persistence.rewriting.began_s = Some(now.unix_s());
        let keys = self.core.job_state().map_or(0, |state| state.total);
        process.log(LogLevel::Notice, &format!("Background append only file rewriting started: {keys} keys"));
        true
    }

    /// Begins an append-only file that has the RDB file from which the data were just loaded as its base.
    /// Returns whether it has begun; otherwise an append-only file that is wanted needs a rewrite.
    pub(crate) fn begin_aof_with_snapshot(&mut self, process: &mut dyn Process) -> bool {
        let control = &mut self.core.control;
        let is_unchanged = control.persistence.loaded_file_at.take() == Some(control.persistence.dirty);
        let wants_base = control.wants_aof() && !control.persistence.aof.is_on();
        let is_rdb = control.config.bool(param::AOF_USE_RDB_PREAMBLE);
        let is_rdb = is_rdb && process.has_links();
        let is_free = control.persistence.rewriting.began_s.is_none() && control.rewrite_refusal().is_none();
        if !(is_unchanged && wants_base && is_rdb && is_free) || self.core.has_job() {
            return false;
        }
        if process.is_aof_closing() {
            let control = &mut self.core.control;
            let name = control.config.bytes(param::DBFILENAME).to_vec();
            control.persistence.rewriting.awaited_file = Some((name, control.replication.stream.offset));
            return false;
        }
        let now = process.now();
        if let Err(SaveError(line)) = self.switch_for_rewrite(process) {
            process.log(LogLevel::Warning, &line);
            self.core.control.rewrite_failed(now, process);
            return false;
        }
        let name = self.core.control.config.bytes(param::DBFILENAME).to_vec();
        process.use_snapshot_as_base(&name);
        let rewriting = &mut self.core.control.persistence.rewriting;
        rewriting.scheduled = false;
        rewriting.began_s = Some(now.unix_s());
        rewriting.has_snapshot = true;
        true
    }

    /// Begins the append-only file with the awaited RDB file (`awaited_file`) as its base, if the data are
    /// still those of that file.
    fn begin_aof_with_awaited(&mut self, process: &mut dyn Process) -> bool {
        let control = &mut self.core.control;
        let Some((name, offset)) = control.persistence.rewriting.awaited_file.take() else { return false };
        let is_same =
            control.config.bytes(param::DBFILENAME) == name && control.replication.stream.offset == offset;
        // The data are those of the file at 0 changes, because changes are counted from 0 after a
        // synchronisation.
        control.persistence.loaded_file_at = is_same.then_some(0);
        self.begin_aof_with_snapshot(process)
    }

    /// As [`Engine::is_snapshot_wanted`](crate::engine::Engine::is_snapshot_wanted).
    pub(crate) fn is_snapshot_wanted(&mut self, process: &mut dyn Process) -> bool {
        self.core.control.persistence.rewriting.is_snapshot_wanted(process)
    }

    /// Ends the current file and, if `appendonly` is on, begins the file for the commands that follow the
    /// data of the new base.
    fn switch_for_rewrite(&mut self, process: &mut dyn Process) -> Result<(), SaveError> {
        let wants_aof = self.core.control.config.bool(param::APPENDONLY);
        let increment = match (wants_aof, self.core.control.persistence.aof.is_on()) {
            (true, true) => AofIncrement::Next,
            (true, false) => AofIncrement::First,
            (false, _) => AofIncrement::None,
        };
        Appending::of(self.core).note_history();
        let mut pending = Vec::new();
        Appending::of(self.core).take_aof(&mut pending);
        let position = self.core.control.persistence.aof.position();
        let backlog = process.switch_increment(increment, &self.core.control.config, pending, position)?;
        match increment {
            AofIncrement::Next => Appending::of(self.core).begin_aof_file(),
            AofIncrement::First => {
                Appending::of(self.core).begin_aof();
                self.core.control.persistence.rewriting.is_first = true;
            }
            AofIncrement::None => {}
        }
        // The new file begins with the offset in the replication history, because a crash may lose the end
        // of the previous file.
        Appending::of(self.core).note_history();
        let offset = self.core.control.replication.stream.offset;
        if let Some(role) = self.core.control.replication.replica.as_mut() {
            role.await_rewrite(position, offset);
        }
        Appending::of(self.core).note_backlog(backlog, process);
        Ok(())
    }

    /// Notes whether the process has put the new base in force. The caller then serves clients that have
    /// waited.
    pub(crate) fn note_rewrite(&mut self, is_in_force: bool, process: &mut dyn Process) {
        if self.core.control.persistence.rewriting.began_s.is_none() {
            return;
        }
        let now = process.recent();
        let has_snapshot = std::mem::take(&mut self.core.control.persistence.rewriting.has_snapshot);
        match is_in_force || mistake::is_made(Mistake::FailedRewriteCounts) {
            true => {
                if has_snapshot {
                    process.log(LogLevel::Notice, "Reused RDB file from primary sync as AOF base file");
                }
                let rewriting = &mut self.core.control.persistence.rewriting;
                rewriting.last_s = rewriting.began_s.take().map(|began_s| now.unix_s() - began_s);
                rewriting.failed = false;
                rewriting.failures = 0;
                rewriting.is_first = false;
                self.core.control.clients.blocking.replica_acknowledged();
            }
            false => self.core.control.rewrite_failed(now, process),
        }
        self.core.control.leave_aof_if_off(process);
    }

    /// As [`Engine::report_aof_cut_failed`](crate::engine::Engine::report_aof_cut_failed).
    pub(crate) fn report_aof_cut_failed(&mut self, process: &mut dyn Process) {
        if self.core.control.persistence.rewriting.began_s.is_some() && self.core.has_job() {
            Jobs::of(self.core).drop_job();
            process.end_aof_rewrite(false);
            self.core.control.rewrite_failed(process.recent(), process);
        }
    }

    /// Ends a rewrite and the appending of commands. Waits until the appended commands are on disk.
    pub(crate) fn turn_aof_off(&mut self, process: &mut dyn Process) {
        let (pending, position) = self.end_appending(process);
        process.close_aof(&self.core.control.config, pending, position);
        self.note_aof_off(position, process);
    }

    /// Ends the append-only file before other data are loaded. Waits for the disk only if replies
    /// depend on it.
    pub(crate) fn leave_aof(&mut self, process: &mut dyn Process) {
        if self.core.control.persistence.aof.is_strict() {
            return self.turn_aof_off(process);
        }
        let (pending, position) = self.end_appending(process);
        process.close_aof_later(&self.core.control.config, pending, position);
        self.note_aof_off(position, process);
    }

    /// Ends a rewrite and the appending. Returns the pending bytes, and the position after them.
    fn end_appending(&mut self, process: &mut dyn Process) -> (Vec<u8>, u64) {
        self.break_off_rewrite(process);
        let mut pending = Vec::new();
        Appending::of(self.core).take_aof(&mut pending);
        let position = self.core.control.persistence.aof.position();
        Appending::of(self.core).end_aof();
        (pending, position)
    }

    fn note_aof_off(&mut self, position: u64, process: &mut dyn Process) {
        self.core.control.persistence.rewriting.is_first = false;
        // Clients need not wait any more for commands that were appended.
        Appending::of(self.core).note_durable(position);
        self.core.control.clients.blocking.replica_acknowledged();
        Appending::of(self.core).report_aof_fault(None);
        Appending::of(self.core).note_backlog(AofBacklog::Fine, process);
    }

    /// Ends a rewrite that is under way or scheduled; the current files stay in use.
    pub(crate) fn break_off_rewrite(&mut self, process: &mut dyn Process) {
        self.core.control.cancel_scheduled_rewrite(process);
        let rewriting = &mut self.core.control.persistence.rewriting;
        rewriting.leaves_snapshot |= std::mem::take(&mut rewriting.has_snapshot);
        if let Some(began_s) = self.core.control.persistence.rewriting.began_s.take() {
            self.core.control.persistence.rewriting.last_s = Some(process.recent().unix_s() - began_s);
            Jobs::of(self.core).drop_job();
            process.end_aof_rewrite(false);
            process.log(LogLevel::Notice, "Background AOF rewrite was stopped; the old AOF files are kept");
        }
    }

    /// Begins a rewrite that is scheduled, or due because the file has grown or the disk runs out of space.
    pub(crate) fn rewrite_if_due(&mut self, now: Now, process: &mut dyn Process) {
        if !self.core.control.between_units(BetweenUnits::Rewrite) {
            return;
        }
        // While data are loaded, there is nothing to write.
        if self.core.has_job()
            || self.core.control.persistence.rewriting.began_s.is_some()
            || self.core.is_loading()
        {
            return;
        }
        if self.core.control.persistence.rewriting.scheduled {
            if process.is_aof_closing() {
                return;
            }
            if self.begin_aof_with_awaited(process) {
                return;
            }
            let rests = self.core.control.persistence.rewriting.failed
                && now.unix_s() < self.core.control.persistence.rewriting.rests_until_s;
            if !rests {
                self.begin_rewrite(process);
            }
            return;
        }
        let config = &self.core.control.config;
        let (percent, min) =
            (config.uint(param::AUTO_AOF_REWRITE_PERCENTAGE), config.uint(param::AUTO_AOF_REWRITE_MIN_SIZE));
        if percent == 0
            || !self.core.control.persistence.aof.is_on()
            || now.unix_s() < self.core.control.persistence.rewriting.rests_until_s
        {
            return;
        }
        if self.core.control.persistence.rewriting.refusal_said
            && self.core.control.rewrite_refusal().is_some()
        {
            return;
        }
        match due(&process.aof(), percent, min) {
            RewriteReason::Nothing => {}
            RewriteReason::Growth(growth) => {
                let text = format!("Starting automatic rewriting of AOF on {growth}% growth");
                process.log(LogLevel::Notice, &text);
                self.begin_rewrite(process);
            }
            RewriteReason::Space(free) => {
                let text = format!(
                    "Starting automatic rewriting of AOF: {free} bytes are free on its disk, too few \
                     for a rewrite after growth of {percent}%"
                );
                process.log(LogLevel::Notice, &text);
                self.begin_rewrite(process);
            }
            RewriteReason::TooSmall(free) => self.core.control.log_disk_too_small(free, now, process),
        }
    }

    /// Schedules the rewrite that begins the append-only file again, after the file had ended with the
    /// former data.
    pub(crate) fn begin_aof_again(&mut self) {
        self.core.control.persistence.rewriting.scheduled |=
            self.core.control.wants_aof() && !self.core.control.persistence.aof.is_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn asked(current: u64, base: u64, free: Option<u64>) -> RewriteReason {
        let (current_bytes, base_bytes) = (current * MIB, base * MIB);
        let free_bytes = free.map(|free| free * MIB);
        due(&AofFacts { current_bytes, base_bytes, free_bytes, ..AofFacts::default() }, 100, 64 * MIB)
    }

    #[test]
    fn a_rewrite_is_due_by_growth_or_while_the_disk_still_holds_one() {
        for (current, base, free, wanted) in [
            (200, 100, None, RewriteReason::Growth(100)),
            (199, 100, None, RewriteReason::Nothing),
            (63, 1, None, RewriteReason::Nothing),
            // 80 MiB will still be appended, and the rewrite takes 100 MiB.
            (120, 100, Some(180), RewriteReason::Nothing),
            (120, 100, Some(179), RewriteReason::Space(179 * MIB)),
            (120, 100, Some(100), RewriteReason::Space(100 * MIB)),
            (120, 100, Some(99), RewriteReason::TooSmall(99 * MIB)),
            (109, 100, Some(100), RewriteReason::Nothing),
            (63, 50, Some(1), RewriteReason::Nothing),
            (200, 100, Some(0), RewriteReason::Growth(100)),
        ] {
            assert_eq!(asked(current, base, free), wanted, "{current} of {base}, {free:?} free");
        }
        let full =
            AofFacts { current_bytes: u64::MAX, base_bytes: 0, free_bytes: Some(0), ..AofFacts::default() };
        assert_eq!(due(&full, u64::MAX, 0), RewriteReason::Growth(u64::MAX), "no sum overflows");
    }
}

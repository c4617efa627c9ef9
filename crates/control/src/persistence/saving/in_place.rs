//! Saving in place, while all clients wait: SAVE, DEBUG RELOAD, FLUSHALL, and shutdown.

use crate::Control;
#[cfg(doc)]
use crate::action::Action;
use crate::persistence::ending::EndOrder;
use crate::persistence::saving::{Ending, JobAsk, key_delay_us};
use crate::process::{Process, SaveError, SnapshotSink};
use sluice_base::Bytes;
use sluice_base::LogLevel;
use sluice_base::progress::{ProgressUnit, WorkProgress};
use sluice_config::param;
use sluice_keyspace::Keyspace;
use sluice_numbers::progress::{LongWork, ProgressClock, ProgressOutput, WorkKind};
use sluice_persist::rdb::Version;
use sluice_snapshot::RdbAux;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

/// The data could not be saved; the reason is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSaved;

/// Writes the whole RDB file, or logs why it may not be replaced at present. Cost: O(data), in time and on
/// disk.
pub fn save(keyspace: &Keyspace, control: &mut Control, process: &mut dyn Process) -> Result<(), NotSaved> {
    save_as(WorkKind::Saving, keyspace, control, process)
}

/// [`save`] for a shutdown.
pub fn save_for_end(
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> Result<(), NotSaved> {
    save_as(WorkKind::FinalSave, keyspace, control, process)
}

fn save_as(
    kind: WorkKind,
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> Result<(), NotSaved> {
    let refusal = match () {
        () if control.snapshot_holds_more() => Some(PARTLY_LOADED),
        () if control.awaits_sync_file() => Some(BEHIND_SYNC),
        () if control.persistence.rewriting.is_snapshot_wanted(process) => Some(BEHIND_BASE),
        () => None,
    };
    if let Some(line) = refusal {
        process.log(LogLevel::Warning, line);
        return Err(NotSaved);
    }
    let about = RdbAux {
        now: process.now(),
        used_memory: process.used_memory(keyspace),
        stream: control.replication.stream.point(),
        slot_states: None,
        imports: keyspace.imports(),
        is_aof_base: false,
    };
    let name = control.config.bytes(param::DBFILENAME).to_vec();
    let sync_early = control.config.bool(param::RDB_SAVE_INCREMENTAL_FSYNC);
    let mut teller = SaveReporter::new(kind, keyspace, about.now.mono_ns);
    let done = process.create_snapshot(&name, sync_early).and_then(|mut sink| {
        write(keyspace, control, &about, sink.as_mut(), &mut teller, process)?;
        sink.finish()
    });
    teller.end(&done, process);
    match done {
        Ok(()) => {
            process.log(LogLevel::Notice, "DB saved on disk");
            control.persistence.dirty = 0;
            control.persistence.last_save_s = process.now().unix_s();
            control.persistence.saving.failed = false;
            Ok(())
        }
        Err(SaveError(line)) => {
            process.log(LogLevel::Warning, &line);
            Err(NotSaved)
        }
    }
}

pub(crate) const BEHIND_SYNC: &str =
    "Not saving: the snapshot of the primary is about to be loaded from the RDB file.";

// A save is refused in this state, because a newer file would be linked as the base of an increment whose
// commands it already contains.
pub(crate) const BEHIND_BASE: &str =
    "Not saving: the RDB file is about to become the base of the append-only file.";

/// The log line if a save would replace a file that was loaded only in part.
pub const PARTLY_LOADED: &str = "Not saving: the RDB file of this name holds keys or records that were skipped at the load, \
                             and they would be lost. Set another dbfilename, or move that file and restart without it.";

fn write(
    keyspace: &Keyspace,
    control: &Control,
    about: &RdbAux<'_>,
    sink: &mut dyn SnapshotSink,
    teller: &mut SaveReporter,
    process: &mut dyn Process,
) -> Result<(), SaveError> {
    let (mut result, entries) = (Ok(()), Cell::new(0));
    let process = RefCell::new(process);
    let mut give = |piece: Bytes| {
        result = sink.write(&piece);
        teller.tell(entries.get(), *process.borrow_mut());
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let config = &control.config;
    let delay = config.int(param::RDB_KEY_SAVE_DELAY);
    let mut each = || {
        entries.set(entries.get() + 1);
        let microseconds = key_delay_us(delay, entries.get());
        if microseconds > 0 {
            process.borrow_mut().sleep(microseconds);
        }
    };
    let options = sluice_snapshot::options(config, Version::Valkey);
    sluice_snapshot::write(keyspace, config, options, about, control.libraries(), &mut each, &mut give);
    result
}

/// Logs and shows the progress of a save in place, during which not even the cron runs.
struct SaveReporter {
    kind: WorkKind,
    keys: u64,
    began_ns: u64,
    clock: ProgressClock,
    has_shown: bool,
}

impl SaveReporter {
    fn new(kind: WorkKind, keyspace: &Keyspace, began_ns: u64) -> SaveReporter {
        let keys = keyspace.iter().map(|(_, db)| db.len() as u64).sum();
        SaveReporter { kind, keys, began_ns, clock: ProgressClock::new(began_ns), has_shown: false }
    }

    /// Reports that `done` keys are written.
    fn tell(&mut self, done: u64, process: &mut dyn Process) {
        let now_ns = process.now().mono_ns;
        let telling = self.clock.tick(now_ns);
        if telling == ProgressOutput::Nothing {
            return;
        }
        let (total, unit) = (Some(self.keys), ProgressUnit::Keys);
        let progress = WorkProgress { done, total, unit, spent_ns: now_ns.saturating_sub(self.began_ns) };
        let work = LongWork { kind: self.kind.clone(), progress };
        if telling == ProgressOutput::ProcessAndLog {
            process.log(LogLevel::Notice, &work.to_string());
        }
        self.has_shown = true;
        process.show_progress(std::slice::from_ref(&work));
    }

    /// Ends the display of the progress. After a successful save for a shutdown the display stays, because
    /// no client is served any more.
    fn end(self, result: &Result<(), SaveError>, process: &mut dyn Process) {
        let is_over = self.kind == WorkKind::FinalSave && result.is_ok();
        if self.has_shown && !is_over {
            process.show_progress(&[]);
        }
    }
}

pub(crate) const REQUESTED: &str = "User requested shutdown...";

/// Whether SAFE keeps this node running, because its vote counts (M13).
pub(crate) fn is_kept_as_voter(order: &EndOrder, control: &Control) -> bool {
    let is_voter = || control.cluster.as_ref().is_some_and(|mode| mode.machine.is_voter());
    order.in_cluster.is_safe && is_voter()
}

/// Logs that a node whose vote counts does not end.
pub(crate) fn refuse_as_voter(process: &mut dyn Process) {
    process.log(LogLevel::Warning, &format!("{VOTER} Can't exit."));
    process.log(LogLevel::Warning, NOT_ENDED);
}

const VOTER: &str = "This is a voting primary. Shutting down may cause the cluster to go down.";

pub(crate) const NOT_ENDED: &str =
    "Errors trying to shut down the server. Check the logs for more information.";

pub(crate) const NO_FIRST_BASE: &str = "The first base file of the AOF could not be written: the next \
                             start will not load the appended writes. Exit anyway.";

/// Saves the data if the shutdown requires it. Returns `false` if the server must not end.
pub fn prepare_end(
    order: &EndOrder,
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> bool {
    let EndOrder { ending, force, .. } = *order;
    process.log(LogLevel::Notice, REQUESTED);
    if is_kept_as_voter(order, control) {
        if !force {
            refuse_as_voter(process);
            return false;
        }
        process.log(LogLevel::Warning, &format!("{VOTER} Exit anyway."));
    }
    if control.persistence.aof.is_on() && !process.has_aof_base() {
        // Without a base, the bytes appended so far are in a file that the next start does not read.
        let is_written = control.persistence.rewriting.began_s.is_some();
        match force || ending == Ending::NoSave {
            true => process.log(LogLevel::Warning, "Writing initial AOF. Exit anyway."),
            // No base is being written, so there is nothing to wait for; a server whose disk has no room for
            // a base must still be able to end.
            false if !is_written => process.log(LogLevel::Warning, NO_FIRST_BASE),
            false => {
                process.log(LogLevel::Warning, "Writing initial AOF, can't exit.");
                process.log(LogLevel::Warning, NOT_ENDED);
                return false;
            }
        }
    }
    let wanted = match ending {
        // Nothing is saved during a load, because the present data is not the data of the server.
        _ if control.persistence.load.is_some() => false,
        Ending::ByConfig => !control.config.save_points().is_empty(),
        Ending::Save => true,
        Ending::NoSave => false,
    };
    if wanted {
        process.log(LogLevel::Notice, "Saving the final RDB snapshot before exiting.");
        if save_for_end(keyspace, control, process).is_ok() {
            control.persistence.saved_for_end = true;
        } else if force {
            process.log(LogLevel::Warning, "Error trying to save the DB. Exit anyway.");
        } else {
            process.log(LogLevel::Warning, "Error trying to save the DB, can't exit.");
            process.log(LogLevel::Warning, NOT_ENDED);
            return false;
        }
    }
    if control.persistence.saving.under_way.is_some() {
        process.log(LogLevel::Notice, "A save is under way in the background: it is stopped");
        control.persistence.asked.push(JobAsk::BreakSavesOff);
    }
    true
}

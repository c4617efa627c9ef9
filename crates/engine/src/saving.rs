//! Saving: the data written to the snapshot file, for SAVE, DEBUG RELOAD, FLUSHALL and the end of the server.
//!
//! Invariants: (1) everybody waits while this runs, so the file holds one moment; (2) changes count as saved only when the file
//! is durable; (3) a failure leaves the file before, or the new one, and never a part of one: see [`SnapshotSink`].

use crate::control::Control;
use crate::engine::Engine;
use crate::process::{LogLevel, Process, SaveError, SnapshotSink};
use crate::snapshot::{self, RdbAux};
use sluice_base::Bytes;
use sluice_config::param;
use sluice_keyspace::Keyspace;
use sluice_persist::rdb::Version;
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
    if control.partly_loaded.as_ref().is_some_and(|place| *place == control.snapshot_place()) {
        process.log(LogLevel::Warning, PARTLY_LOADED);
        return Err(NotSaved);
    }
    let about = RdbAux {
        now: process.now(),
        used_memory: process.used_memory(keyspace),
        stream: None,
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
            Ok(())
        }
        Err(SaveError(line)) => {
            process.log(LogLevel::Warning, &line);
            Err(NotSaved)
        }
    }
}

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
    let mut give = |piece: Bytes| {
        result = sink.write(&piece);
        bytes += piece.len() as u64;
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
    let options = snapshot::options(config, Version::Valkey);
    snapshot::write(Some(keyspace), config, options, about, &control.kept, &mut give);
    result
}

/// Time between two lines of the log about how far a save or a load is.
pub(crate) const SAID_EVERY_NS: u64 = 5_000_000_000;

/// Saves the data where the end of the server wants that. `false`, where it could not be saved and the server shall not end.
pub(crate) fn prepare_end(
    ending: Ending,
    force: bool,
    keyspace: &Keyspace,
    control: &mut Control,
    process: &mut dyn Process,
) -> bool {
    process.log(LogLevel::Notice, "User requested shutdown...");
    let wanted = match ending {
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
            process.log(
                LogLevel::Warning,
                "Errors trying to shut down the server. Check the logs for more information.",
            );
            return false;
        }
    }
    true
}

impl Engine {
    /// Prepares the end of the server: saves the data where that is wanted. `false`, where the server shall not end, as it
    /// would lose data; the log says why.
    pub fn prepare_end(&mut self, ending: Ending, force: bool, process: &mut dyn Process) -> bool {
        prepare_end(ending, force, &self.keyspace, &mut self.control, process)
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

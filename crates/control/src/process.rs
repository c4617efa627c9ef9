//! Requests of the engine to the process that are carried out during the call. Requests to be carried out
//! later are [`crate::action::Action`]s.

use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, ParamId};
use sluice_keyspace::{Captured, Keyspace};
#[cfg(doc)]
use sluice_numbers::facts::ProcessNumbers;
use sluice_numbers::facts::{AofFacts, Counts, Facts, SyncFacts};
use sluice_numbers::progress::LongWork;
use sluice_replication::{SnapshotPieces, StreamSpool};
use sluice_snapshot::SnapshotFile;
use sluice_snapshot::SnapshotSource;

/// Whether INFO shows numbers about memory, and how recent they must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryShown {
    /// The requested sections show no memory.
    No,
    /// The requested sections show memory. Numbers up to a tenth of a second old suffice if no command except
    /// INFO has run since they were read, so a client's write shows in its next INFO. The field is the number
    /// of commands other than INFO that have run so far.
    After(u64),
}

/// The clock of the process.
pub trait ProcessClock {
    /// Reads the clock; at most twice for each execution unit.
    fn now(&mut self) -> Now;

    /// The last reading of the clock, which may be as old as the previous command. Free.
    fn recent(&mut self) -> Now;

    /// Stops the whole server for this time, for example for DEBUG SLEEP.
    fn sleep(&mut self, microseconds: u64);

    /// Whether a run that cannot be suspended (a script, for example) must end. True if the run replays an
    /// append-only file whose load was stopped.
    fn is_broken_off(&mut self) -> bool {
        false
    }
}

/// The memory of the process.
pub trait ProcessMemory {
    /// Bytes in use, as `maxmemory` counts them; for `keyspace` see [`Process::facts`]. Cheap.
    fn used_memory(&mut self, keyspace: &Keyspace) -> usize;

    /// Bytes in use right now, without memory that another thread is about to free. Cost: some microseconds.
    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize;

    /// Returns unused memory to the system: MEMORY PURGE.
    fn purge_memory(&mut self);

    /// The allocator's own report: MEMORY MALLOC-STATS.
    fn malloc_stats(&mut self) -> String;
}

/// Effects of the configuration outside of the engine.
pub trait ProcessSettings {
    /// Applies a parameter, which CONFIG SET has changed, to things outside of the engine (listeners, log,
    /// descriptor limits). `Err` is the reason of a failure: the engine then rolls the change back, and calls
    /// this again for the parameters already applied. Each parameter has its own call, so that the engine's
    /// error can name the faulty one; `config` has all new values from the first call on.
    fn apply_config(&mut self, config: &Config, changed: ParamId) -> Result<(), String>;

    /// The effective value of a parameter just applied, if it differs from the given text, as for the working
    /// directory, which becomes absolute. `None` for all other parameters.
    fn in_force(&mut self, _changed: ParamId) -> Option<Vec<u8>> {
        None
    }

    /// Replaces the contents of the configuration file by the result of `make` for the present text.
    /// `Err` is the text for the client.
    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String>;
}

/// Snapshot files, snapshots for replicas, and spools of the stream.
pub trait SnapshotFiles {
    /// Begins a snapshot file next to the one of this name in the working directory; the old file stays
    /// until the new one is finished. With `sync_early` written bytes are forced to disk regularly, not
    /// all at the end.
    fn create_snapshot(&mut self, name: &[u8], sync_early: bool) -> Result<Box<dyn SnapshotSink>, SaveError>;

    /// Begins writing a file on a thread of its own, which wakes the event loop when it has caught up and
    /// when it is done.
    fn write_in_background(
        &mut self,
        target: BackgroundFile,
        file: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError>;

    /// Begins making a snapshot on a thread of its own; `replicas` replicas read the snapshot, each at its
    /// own pace. The event loop is woken when data arrives for a replica that has read everything so far.
    fn snapshot_for_replicas(
        &mut self,
        replicas: usize,
        key_delay: i64,
        file: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError>;

    /// Begins spooling a stream to disk for `replicas` readers that lag so far that the data no longer fit in
    /// memory: the replication stream for replicas, or the stream of a slot migration for its target. The
    /// event loop is woken when data arrives for a reader that has read everything so far. `Err` is a line
    /// for the log.
    fn spool_stream(&mut self, replicas: usize) -> Result<Box<dyn StreamSpool>, SaveError>;

    /// Gives each data file (snapshots, append-only files) a second name that ends in `ending`, so that
    /// replacing the file loses nothing. Returns the names; none in a process without files.
    ///
    /// # Errors
    /// The reason, for the log, why a file could not get a second name.
    fn keep_data_files(&mut self, config: &Config, ending: &str) -> Result<Vec<String>, String> {
        let _ = (config, ending);
        Ok(Vec::new())
    }

    /// The snapshot file of this name in the working directory, not yet opened, for another thread to read.
    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource>;
}

/// The files of the append-only file, and their thread.
pub trait AppendOnlyFile {
    /// Begins a rewrite of the append-only file: `pending`, which ends at `position`, goes into the
    /// present increment, and later bytes go into a new one. Returns whether writing commands must wait,
    /// as later reported by `Engine::report_aof_backlog`. After an error nothing has changed.
    fn switch_increment(
        &mut self,
        increment: AofIncrement,
        config: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError>;

    /// Installs the base written in the background if `is_whole`; otherwise there is no base. The result
    /// of installing is reported by `Engine::report_aof_rewrite`.
    fn end_aof_rewrite(&mut self, is_whole: bool);

    /// Makes the snapshot file of this name, which is durable, the base of the rewrite that
    /// [`AppendOnlyFile::switch_increment`] has begun. `Engine::report_aof_rewrite` reports whether it is
    /// installed. Called only if [`AppendOnlyFile::has_links`].
    fn use_snapshot_as_base(&mut self, name: &[u8]) {
        let _ = name;
    }

    /// Whether files can have a second name, as [`AppendOnlyFile::use_snapshot_as_base`] requires. If
    /// not, a rewrite is begun instead.
    fn has_links(&self) -> bool {
        false
    }

    /// Whether the append-only file has an installed base; false while the first one is written.
    fn has_aof_base(&mut self) -> bool;

    /// Closes the append-only file after `pending`, which ends at `position`. Waits until `pending` is on
    /// disk.
    fn close_aof(&mut self, config: &Config, pending: Vec<u8>, position: u64);

    /// Closes the append-only file after `pending`, which ends at `position`, without waiting: the file's
    /// thread makes the bytes durable. [`AppendOnlyFile::is_aof_closing`] reports the end.
    fn close_aof_later(&mut self, config: &Config, pending: Vec<u8>, position: u64) {
        self.close_aof(config, pending, position);
    }

    /// Whether the thread of a closed append-only file has not yet ended: opening another one would
    /// wait for it.
    fn is_aof_closing(&mut self) -> bool {
        false
    }

    /// The size of the append-only file and the state of its disk. Cheap.
    fn aof(&mut self) -> AofFacts;

    /// The files of the append-only file, for another thread to open and read. `pending`, which ends at
    /// `position`, is appended first.
    fn aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles>;
}

/// The file of users, at the path in `aclfile`. The defaults are for a process without files.
pub trait UserFile {
    /// Reads the text of the file. `Err` is the system's reason.
    fn read_user_file(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        let _ = path;
        Err("there are no files here".to_owned())
    }

    /// Replaces the text of the file durably, or leaves the file unchanged. `Err` is a reason for the log.
    fn replace_user_file(&mut self, path: &[u8], text: &[u8]) -> Result<(), String> {
        let _ = (path, text);
        Err("there are no files here".to_owned())
    }
}

/// The process around an engine, as a sum of parts. The crate `server` implements it; tests use a fake.
pub trait Process:
    ProcessClock + ProcessMemory + ProcessSettings + SnapshotFiles + AppendOnlyFile + UserFile
{
    /// Facts for INFO, MEMORY and similar commands. `keyspace` supplies the bytes in use within the chunks
    /// of entries, which the allocator does not know. Cost: some system calls.
    fn facts(&mut self, keyspace: &Keyspace) -> Facts;

    /// [`Process::facts`] for INFO. The cost is the same if memory is shown and its numbers are read
    /// again; otherwise some microseconds.
    fn facts_for_info(&mut self, keyspace: &Keyspace, memory: MemoryShown) -> Facts {
        let _ = memory;
        self.facts(keyspace)
    }

    /// [`Process::facts`] for a sample of the metrics endpoint. Called at most once a second. The allocator's
    /// numbers may be some tenths of a second old, and numbers that another thread reads itself
    /// ([`ProcessNumbers`]) are left out. Cost: some microseconds.
    fn sample_facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.facts(keyspace)
    }

    /// The progress of a snapshot being received from the primary, as in [`Facts::sync`]. Cheap.
    fn sync(&mut self) -> Option<SyncFacts> {
        None
    }

    /// Displays the progress of long work. Called some times a second while there is any, and once with
    /// an empty list at the end. Does not block.
    fn show_progress(&mut self, works: &[LongWork]) {
        let _ = works;
    }

    /// Running counts, for the rates in INFO. Cheap.
    fn counts(&mut self) -> Counts;

    /// Moves keys to another server while the caller waits: MIGRATE inside a transaction. May take the
    /// migration's timeout for each key.
    fn migrate(&mut self, migration: Migration) -> MigrationOutcome;

    /// CONFIG RESETSTAT: resets the longest iteration of the event loop ([`Facts::longest_iteration_us`]). A
    /// maximum, unlike a count, cannot be subtracted from later values.
    fn forget_longest_iteration(&mut self) {}

    /// Reports the server's new role to the process: lines of the log show the role, and
    /// `oom-score-adj-values` has a value for each role.
    fn set_role(&mut self, _is_replica: bool) {}

    /// Writes a line to the log.
    fn log(&mut self, level: LogLevel, line: &str);

    /// Unpredictable random bytes, for run ids and replication ids.
    fn entropy(&mut self) -> [u8; 20];
}

/// A snapshot file being written. If dropped before [`SnapshotSink::finish`], the file is removed.
pub trait SnapshotSink {
    /// Writes the whole of the next piece.
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError>;

    /// Forces the file to disk and replaces the old file by it. After an error either the old or the
    /// new file exists.
    fn finish(self: Box<Self>) -> Result<(), SaveError>;
}

/// The description of a file to write in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundFile {
    /// Name of the file in the working directory.
    pub name: Vec<u8>,
    /// Whether written bytes are forced to disk regularly, not all at the end.
    pub sync_early: bool,
    /// Setting `rdb-key-save-delay`: microseconds to wait after each key; -n means one microsecond after
    /// every n-th key.
    pub key_delay: i64,
    /// Whether the file is a base of the append-only file, to be installed by
    /// [`AppendOnlyFile::end_aof_rewrite`].
    pub is_aof_base: bool,
    /// Whether a base is written as commands, not as a snapshot.
    pub as_commands: bool,
}

/// The destination of the bytes that are appended after a rewrite has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofIncrement {
    /// The next increment of the same append-only file.
    Next,
    /// The first increment of a newly enabled append-only file.
    First,
    /// No file, because the append-only file is off.
    None,
}

/// A file being written in the background. Dropping it breaks the writing off: when the drop returns, the
/// file has replaced the old one or never will.
pub trait Background {
    /// Passes the next piece to the thread. Does not block.
    fn give(&mut self, piece: Captured);

    /// Reports that all pieces were passed, with `entries` entries in total. If the number is right, the
    /// thread finishes the file and replaces the old one.
    fn all_given(&mut self, entries: usize);

    /// Applies the setting `rdb-key-save-delay`, which may have changed.
    fn set_key_delay(&mut self, key_delay: i64);

    /// Weight of the pieces passed but not yet written, as [`Captured::weight`] counts.
    fn weight(&self) -> usize;

    /// Bytes of memory that only the pieces passed but not yet written hold, without large values.
    fn held_bytes(&self) -> usize;

    /// Bytes of the large values that were freed so far together with a written piece, because the piece
    /// was their last owner.
    fn freed_value_bytes(&self) -> u64;

    /// A number that grows while there is progress.
    fn progress(&self) -> u64;

    /// A line for the log about a cause of slowness, if there is a new one.
    fn warning(&mut self) -> Option<String>;

    /// The result, once it is known.
    fn outcome(&mut self) -> Option<Result<(), SaveError>>;
}

/// The files of an append-only file, for the thread that loads them.
pub trait AofFiles: Send {
    /// Opens and returns all files in the order of loading. Waits until appended bytes are written. `Err`
    /// has lines for the log.
    fn list(&mut self) -> Result<Vec<AofPart>, Vec<String>>;
}

/// A file of an append-only file to be loaded.
pub struct AofPart {
    /// Name of the file, for the log.
    pub name: String,
    /// Whether the file is the base, not an increment.
    pub is_base: bool,
    /// Whether this is a single file without a manifest, as versions before 7.0 wrote it.
    pub is_old_style: bool,
    /// The contents, for reading.
    pub source: Box<dyn AofSource>,
}

/// A file of an append-only file being read.
pub trait AofSource: SnapshotSource {
    /// Truncates the file to `size` bytes, durably, because more will be appended. The bytes cut off are
    /// first saved durably in a file of their own, whose name is returned; `at_s`, in seconds since the
    /// epoch, becomes a part of the name. `Err` is the reason; the file is then unchanged, or truncated
    /// with the cut bytes saved.
    fn cut_off(&mut self, size: u64, at_s: i64) -> Result<String, String>;
}

/// The reason, as a line for the log, why a snapshot could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveError(pub String);

/// Whether the process accepts more bytes for the append-only file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AofBacklog {
    /// The disk keeps up with the appended bytes.
    #[default]
    Fine,
    /// The disk has fallen too far back, so writing commands wait.
    Full,
    /// A rewrite has just switched increments. Bytes written now would stay in memory until all bytes before
    /// the switch are on disk, so writing commands wait.
    Changing,
}

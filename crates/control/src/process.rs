//! What the engine asks of the process around it, where it must wait for the answer. Wishes without an answer
//! are [`crate::action::Action`]s.

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

/// Whether INFO shows the numbers of memory, and how new they have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryShown {
    /// INFO shows none.
    No,
    /// INFO shows them. Numbers of a tenth of a second before will do while no more commands than this have
    /// run, INFO left out: what a client has written shows in the client's next INFO.
    After(u64),
}

/// What time it is.
pub trait ProcessClock {
    /// Reads the clock. At most twice per execution unit.
    fn now(&mut self) -> Now;

    /// The last reading, for what may be as old as the previous command. Free.
    fn recent(&mut self) -> Now;

    /// Waits, the whole server with it: DEBUG SLEEP.
    fn sleep(&mut self, microseconds: u64);

    /// Whether what runs and cannot stand still is to end: a log is replayed whose load was stopped.
    fn is_broken_off(&mut self) -> bool {
        false
    }
}

/// The memory of the process.
pub trait ProcessMemory {
    /// Bytes in use now, as `maxmemory` counts them; `keyspace` as in [`Process::facts`]. Cheap.
    fn used_memory(&mut self, keyspace: &Keyspace) -> usize;

    /// Bytes in use at this moment, without what another thread is about to free. Cost: some microseconds.
    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize;

    /// Gives unused memory back to the system: MEMORY PURGE.
    fn purge_memory(&mut self);

    /// The allocator's own report: MEMORY MALLOC-STATS.
    fn malloc_stats(&mut self) -> String;
}

/// What a change of the configuration means outside the engine.
pub trait ProcessSettings {
    /// Applies what a CONFIG SET changed outside the engine (listeners, log, limits of descriptors). `Err`
    /// says why not: the engine then rolls the change back and calls this again for what was applied already.
    /// There is one call for each parameter, so that the engine's error can name the one at fault; `config`
    /// holds all the new values from the first call on.
    fn apply_config(&mut self, config: &Config, changed: ParamId) -> Result<(), String>;

    /// The value in force of a parameter that was just applied, where it is not the text that was given: the
    /// working directory has an absolute name. `None` for all others.
    fn in_force(&mut self, _changed: ParamId) -> Option<Vec<u8>> {
        None
    }

    /// Replaces the config file's contents with what `make` returns for its present text.
    /// Errors: text for the client.
    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String>;
}

/// Snapshots, and what replicas take at their own pace.
pub trait SnapshotFiles {
    /// Begins a snapshot file beside the one of this name in the working directory; what is there stays until
    /// the new one is finished. `sync_early`: what is written is forced to disk as it comes, and not all at
    /// the end.
    fn create_snapshot(&mut self, name: &[u8], sync_early: bool) -> Result<Box<dyn SnapshotSink>, SaveError>;

    /// Begins to write a file on a thread of its own, which wakes the event loop when it has caught up and
    /// when it is done.
    fn write_in_background(
        &mut self,
        target: BackgroundFile,
        file: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError>;

    /// Begins to make a snapshot on a thread of its own, which so many replicas take by and by. The event
    /// loop is woken when one that found nothing to take finds something.
    fn snapshot_for_replicas(
        &mut self,
        replicas: usize,
        key_delay: i64,
        file: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError>;

    /// Begins to keep the replication stream for so many replicas that cannot take it yet, beyond what memory
    /// is there for. The event loop is woken when one that found nothing to take finds something. Errors: a
    /// line for the log.
    fn spool_stream(&mut self, replicas: usize) -> Result<Box<dyn StreamSpool>, SaveError>;

    /// Gives the files of the data, snapshot and append-only file, a second name each, which ends in
    /// `ending`: what takes their place loses nothing. The names; none in a process without files.
    ///
    /// # Errors
    /// Why a file has no second name, for the log.
    fn keep_data_files(&mut self, config: &Config, ending: &str) -> Result<Vec<String>, String> {
        let _ = (config, ending);
        Ok(Vec::new())
    }

    /// The snapshot file of this name in the working directory, not opened yet: another thread reads it.
    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource>;
}

/// The append-only file.
pub trait AppendOnlyFile {
    /// A rewrite of the append-only file begins here: `pending`, which ends at `position`, goes into the file
    /// before, and what comes behind into another. Whether commands that write are to wait, as
    /// `Engine::report_aof_backlog` is told later. Errors: nothing has changed.
    fn switch_increment(
        &mut self,
        increment: AofIncrement,
        config: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError>;

    /// The base that was written in the background is to be put in force, or there is none.
    /// `Engine::report_aof_rewrite` tells what came of the former.
    fn end_aof_rewrite(&mut self, is_whole: bool);

    /// The base of the rewrite that [`AppendOnlyFile::switch_increment`] has begun is the snapshot file of
    /// this name, which is durable. `Engine::report_aof_rewrite` tells whether it is in force. Asked
    /// for where [`AppendOnlyFile::has_links`].
    fn use_snapshot_as_base(&mut self, name: &[u8]) {
        let _ = name;
    }

    /// Whether a file can have a second name, which [`AppendOnlyFile::use_snapshot_as_base`] needs. Without,
    /// a rewrite is begun.
    fn has_links(&self) -> bool {
        false
    }

    /// Whether a base of the append-only file is in force: not while the first is written.
    fn has_aof_base(&mut self) -> bool;

    /// Nothing more is appended behind `pending`, which ends at `position`. Waits until that is on disk.
    fn close_aof(&mut self, config: &Config, pending: Vec<u8>, position: u64);

    /// Nothing more is appended behind `pending`, which ends at `position`. Nobody waits: the thread of the
    /// file makes it durable. [`AppendOnlyFile::is_aof_closing`] tells when it is.
    fn close_aof_later(&mut self, config: &Config, pending: Vec<u8>, position: u64) {
        self.close_aof(config, pending, position);
    }

    /// Whether the thread of an append-only file that was closed has not ended: to open another one would
    /// wait for it.
    fn is_aof_closing(&mut self) -> bool {
        false
    }

    /// How large the append-only file is. Cheap.
    fn aof(&mut self) -> AofFacts;

    /// The files of the append-only file, `pending` with them, which ends at `position`: another thread asks
    /// for them and reads them.
    fn aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles>;
}

/// The file of users, of which `aclfile` gives the path. A process without files keeps these answers.
pub trait UserFile {
    /// Its text. Errors: the system's reason.
    fn read_user_file(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        let _ = path;
        Err("there are no files here".to_owned())
    }

    /// Replaces the text of the file by this one, durably, or leaves the file as it was. Errors: for the log.
    fn replace_user_file(&mut self, path: &[u8], text: &[u8]) -> Result<(), String> {
        let _ = (path, text);
        Err("there are no files here".to_owned())
    }
}

/// The process around an engine: what it is asked, in parts. `server` implements it; tests use a fake.
pub trait Process:
    ProcessClock + ProcessMemory + ProcessSettings + SnapshotFiles + AppendOnlyFile + UserFile
{
    /// Facts for INFO, MEMORY and their like. Of the memory, `keyspace` knows what the allocator does not:
    /// how much of the entries' chunks is in use. Cost: some system calls.
    fn facts(&mut self, keyspace: &Keyspace) -> Facts;

    /// As [`Process::facts`], for INFO. Cost: as of that where memory is shown and its numbers are read anew,
    /// otherwise some microseconds.
    fn facts_for_info(&mut self, keyspace: &Keyspace, memory: MemoryShown) -> Facts {
        let _ = memory;
        self.facts(keyspace)
    }

    /// As [`Process::facts`], for a sample of the metrics endpoint, once a second at most: the allocator's
    /// numbers may be some tenths of a second old, and what another thread can read of the process
    /// ([`ProcessNumbers`]) is left out where one reads it. Cost: some microseconds.
    fn sample_facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.facts(keyspace)
    }

    /// How far the snapshot is that is received from the primary, as in [`Facts::sync`]. Cheap.
    fn sync(&mut self) -> Option<SyncFacts> {
        None
    }

    /// Shows people how far long work is. Called some times a second while any is under way, and once with
    /// none when all is over. Does not wait.
    fn show_progress(&mut self, works: &[LongWork]) {
        let _ = works;
    }

    /// Running counts for the rates in INFO. Cheap.
    fn counts(&mut self) -> Counts;

    /// Moves keys to another server in place: for MIGRATE inside a transaction. It may take the timeout of
    /// the migration for each key.
    fn migrate(&mut self, migration: Migration) -> MigrationOutcome;

    /// CONFIG RESETSTAT: the longest iteration of the event loop ([`Facts::longest_iteration_us`]) is that of
    /// the iterations from now on. A largest value, unlike a count, cannot be subtracted from later ones.
    fn forget_longest_iteration(&mut self) {}

    /// Lines of the log show from now on that this server is a replica, or that it is none.
    fn set_log_role(&mut self, _is_replica: bool) {}

    /// Writes a line to the log.
    fn log(&mut self, level: LogLevel, line: &str);

    /// Random bytes that cannot be predicted: run ids, replication ids.
    fn entropy(&mut self) -> [u8; 20];
}

/// A snapshot file that is written. One that is dropped before its end leaves nothing behind.
pub trait SnapshotSink {
    /// Writes the next piece, whole.
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError>;

    /// Forces the file to disk and puts it in the place of the one before. After an error there is the one or
    /// the other.
    fn finish(self: Box<Self>) -> Result<(), SaveError>;
}

/// A file to be written in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundFile {
    /// Its name in the working directory.
    pub name: Vec<u8>,
    /// What is written is forced to disk as it comes, and not all at the end.
    pub sync_early: bool,
    /// Setting `rdb-key-save-delay`: microseconds to wait after each key; negative: one after so many keys.
    pub key_delay: i64,
    /// It becomes the base of the append-only file, and [`AppendOnlyFile::end_aof_rewrite`] gives it a name.
    pub is_aof_base: bool,
    /// A base is written as commands, and not as a snapshot.
    pub as_commands: bool,
}

/// What is behind the cut of a rewrite of the append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofIncrement {
    /// Another file of the same append-only file.
    Next,
    /// The first file of an append-only file that was turned on.
    First,
    /// Nothing: the append-only file is off.
    None,
}

/// A file that is written in the background. One that is dropped is broken off: when that has returned, the
/// file has taken the place of the one before, or never will.
pub trait Background {
    /// Hands over the next piece. Does not wait.
    fn give(&mut self, piece: Captured);

    /// All pieces were given, and have so many entries: if they have, the file is to be finished and put in
    /// the place of the one before.
    fn all_given(&mut self, entries: usize);

    /// Takes up the setting `rdb-key-save-delay`, which may have changed since the file was begun.
    fn set_key_delay(&mut self, key_delay: i64);

    /// What was handed over and is not written yet, as [`Captured::weight`] counts.
    fn weight(&self) -> usize;

    /// Bytes of memory that only this holds, large values left out.
    fn held_bytes(&self) -> usize;

    /// Bytes of large values so far that were freed with the pieces, which were their last owners.
    fn freed_value_bytes(&self) -> u64;

    /// A number that grows as long as there is progress.
    fn progress(&self) -> u64;

    /// A line for the log: what makes it slower than it should be.
    fn warning(&mut self) -> Option<String>;

    /// What came of it, once that is known.
    fn outcome(&mut self) -> Option<Result<(), SaveError>>;
}

/// The files of an append-only file, for the thread that loads them.
pub trait AofFiles: Send {
    /// All of them in the order in which they are loaded, opened. Waits until what was appended is written.
    /// Errors: lines for the log.
    fn list(&mut self) -> Result<Vec<AofPart>, Vec<String>>;
}

/// A file of an append-only file that is to be loaded.
pub struct AofPart {
    /// Its name, for the log.
    pub name: String,
    /// Whether it is the base, and not an increment.
    pub is_base: bool,
    /// Whether it is the only file there is, as versions before 7.0 wrote it.
    pub is_old_style: bool,
    /// Its bytes.
    pub source: Box<dyn AofSource>,
}

/// A file of an append-only file that is read.
pub trait AofSource: SnapshotSource {
    /// Cuts the file off behind so many bytes, durably: more is going to be appended. What stood there is
    /// durable in a file of its own before; the name of that file. `at_s`: the time, seconds since the epoch,
    /// for the name. Errors: the reason; the file is as it was, or cut off and kept.
    fn cut_off(&mut self, size: u64, at_s: i64) -> Result<String, String>;
}

/// Why a snapshot could not be written: a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveError(pub String);

/// Whether the process takes more bytes for the append-only file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AofBacklog {
    /// The log keeps up.
    #[default]
    Fine,
    /// The disk is so far behind that commands that write wait.
    Full,
    /// Another increment begins behind the cut of a rewrite: what is written meanwhile would lie in the
    /// memory of the process until the disk has what is before the cut, so commands that write wait.
    Changing,
}

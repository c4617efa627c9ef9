//! A load as a value: made by the engine, and run by a thread of the server.

use super::aof::{AofLoad, LogReplay};
use super::plan::{LoadPlan, LoadPurpose, OldData};
use crate::Control;
use crate::process::AofFiles;
use sluice_base::{LogLevel, Now};
use sluice_config::choice::RdbVersionCheck;
use sluice_config::param;
use sluice_keyspace::KeyHasher;
use sluice_keyspace::Keyspace;
use sluice_persist::rdb::{ReadOptions, Unknown};
use sluice_scripts::functions::{Functions, LoadedFunctions};
use sluice_scripts::library::{LoadWatch, MachineLimits};
use sluice_scripts::state::machine_limits;
use sluice_snapshot::{FileLoad, LoadOutcome, LoadProgress, LoadThread, NotLoaded, Reporter, SnapshotSource};
use sluice_snapshot::{LoadOptions, piece_bytes};
use std::sync::{Arc, PoisonError};

/// The files that a load reads.
pub enum LoadSource {
    /// A snapshot in the RDB format, from a file or from the primary.
    Snapshot(Box<dyn SnapshotSource>),
    /// An append-only file, with the function that replays it.
    Aof(Box<dyn AofFiles>, LogReplay),
}

/// The files with the reader for them.
enum LoadReader {
    Snapshot(Box<dyn SnapshotSource>, Box<FileLoad>),
    Aof(Box<AofLoad>, LogReplay),
}

/// A load to be run once, by any thread.
pub struct LoadJob {
    reader: LoadReader,
    keyspace: Keyspace,
    old: OldData,
    progress: Arc<LoadProgress>,
    /// Limits for the machines (interpreters) of the libraries that the load makes.
    machines: MachineLimits,
    functions: LoadedFunctions,
}

impl std::fmt::Debug for LoadJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadJob").field("old", &self.old).finish_non_exhaustive()
    }
}

impl LoadJob {
    pub(crate) fn new(
        source: LoadSource,
        keyspace: Keyspace,
        plan: &LoadPlan,
        control: &Control,
        now: Now,
    ) -> LoadJob {
        let progress = Arc::new(LoadProgress::default());
        progress.publish_memory(&keyspace);
        progress.set_key_delay(control.config.int(param::KEY_LOAD_DELAY));
        let reader = match source {
            LoadSource::Snapshot(source) => {
                let options = load_options(control, keyspace.hasher(), plan, now);
                LoadReader::Snapshot(source, Box::new(FileLoad::new(options)))
            }
            LoadSource::Aof(files, replay) => LoadReader::Aof(Box::new(AofLoad::new(control, files)), replay),
        };
        let machines = machine_limits(&control.config).of_file();
        let functions = LoadedFunctions::default();
        LoadJob { reader, keyspace, old: plan.old, progress, machines, functions }
    }

    /// The place where the load will store the libraries of functions.
    pub(crate) fn functions(&self) -> LoadedFunctions {
        self.functions.clone()
    }

    /// The progress of the load, shared with other threads.
    pub fn progress(&self) -> Arc<LoadProgress> {
        self.progress.clone()
    }

    /// Runs the load. The result is stored in the progress, for `Engine::advance_load`. Cost: O(file).
    pub fn run(self, thread: &mut dyn LoadThread) {
        let LoadJob { reader, mut keyspace, old, progress, machines, functions } = self;
        let out = &mut Reporter { progress: &progress, thread };
        let result = match reader {
            LoadReader::Snapshot(mut source, file) => file.run(source.as_mut(), &mut keyspace, out),
            LoadReader::Aof(load, replay) => replay(*load, &mut keyspace, out),
        };
        let result = result.and_then(|brought| {
            let loaded = load_functions(&brought.libraries, machines, out)?;
            *functions.lock().unwrap_or_else(PoisonError::into_inner) = Some(loaded);
            Ok(brought)
        });
        // A partly filled new keyspace is useless, and is freed here rather than on the main thread.
        let keyspace = match (&result, old) {
            (Err(_), OldData::Freed | OldData::Kept) => None,
            (Ok(_), _) | (Err(_), OldData::Filled) => Some(keyspace),
        };
        progress.news().outcome = Some(LoadOutcome { keyspace, result });
        out.thread.wake();
    }
}

/// Passes on the log lines of libraries while the libraries are made, and stops this work at once if the load
/// is stopped.
struct FileWatch<'a, 'b>(&'a mut Reporter<'b>);

impl LoadWatch for FileWatch<'_, '_> {
    fn now_ns(&mut self) -> u64 {
        if self.0.is_stopped() { u64::MAX } else { self.0.thread.now().mono_ns }
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.0.log(level, line);
    }
}

/// Makes the libraries of a file, on the load's thread rather than the main thread. Cost: running the code
/// of each library, without a limit on time; memory is limited by [`MachineLimits::of_file`].
fn load_functions(
    libraries: &[Arc<[u8]>],
    machines: MachineLimits,
    out: &mut Reporter<'_>,
) -> Result<Functions, NotLoaded> {
    let loaded = Functions::of_codes(libraries.iter(), machines, &mut FileWatch(out));
    loaded.map_err(|error| {
        if out.is_stopped() {
            return NotLoaded::Stopped;
        }
        out.log(LogLevel::Warning, format!("Failed loading library, {}", String::from_utf8_lossy(&error)));
        NotLoaded::Failed
    })
}

/// The options for reading a snapshot, from the configuration and the plan.
fn load_options(control: &Control, hasher: KeyHasher, plan: &LoadPlan, now: Now) -> LoadOptions {
    let (config, limits) = (&control.config, &control.limits);
    let is_relaxed = config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
    let comes_by_tls =
        plan.purpose == LoadPurpose::Sync && !plan.is_of_file && config.bool(param::TLS_REPLICATION);
    LoadOptions {
        reading: ReadOptions {
            unknown: if is_relaxed { Unknown::Skip } else { Unknown::Refuse },
            checksum: config.bool(param::RDBCHECKSUM) && !control.debug.skip_checksum && !comes_by_tls,
            list: limits.list,
            hash: limits.hash,
            zset: limits.zset,
            set: limits.set,
            member_seed: hasher.seed(),
        },
        duplicates: plan.duplicates,
        now,
        lfu: limits.lfu,
        is_relaxed,
        piece_bytes: piece_bytes(config),
        name: config.bytes(param::DBFILENAME).to_vec(),
        ends_process: plan.purpose == LoadPurpose::Start,
        // A replica keeps expired keys, because its primary decides when a key expires.
        keeps_expired: control.replication.replica.is_some(),
        is_checked_on_the_way: comes_by_tls,
        // A file from the primary need not be kept if records were dropped, because the primary still has
        // the data.
        replaces_file: plan.purpose != LoadPurpose::Sync,
    }
}

const _: fn() = || {
    fn is_sent<T: Send>() {}
    is_sent::<LoadJob>();
};

//! Loading an append-only file by a second engine: the work of a load on its thread.
//!
//! Invariants: (1) the second engine has no clients, no streams and no files: requests to the process are
//! refused or ignored, and no command of a log makes any; (2) the keyspace is returned even if the load
//! fails; (3) only the last file may end within a record or a transaction, with `aof-load-truncated`, and is
//! cut off there before the load has succeeded; (4) bytes that are cut off are kept in another file.

use crate::core::Core;
use crate::engine::Engine;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, ParamId, param};
use sluice_control::persistence::loading::aof::AofEnd;
use sluice_control::persistence::loading::aof::AofLoad;
use sluice_control::process::{
    AofBacklog, AofFiles, AofIncrement, AofPart, AppendOnlyFile, Background, BackgroundFile, Process,
    ProcessClock, ProcessMemory, ProcessSettings, SaveError, SnapshotFiles, SnapshotSink, UserFile,
};
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::{AofFacts, Counts, Facts};
use sluice_replication::{SnapshotPieces, StreamSpool};
use sluice_scripts::library::LoadWatch;
use sluice_snapshot::{LoadResult, LoadedHistory, NotLoaded, Reporter, SnapshotFile, SnapshotSource};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Loads all files into `keyspace`. Cost: O(bytes of the files).
pub(crate) fn replay(
    load: AofLoad,
    keyspace: &mut Keyspace,
    out: &mut Reporter<'_>,
) -> Result<LoadResult, NotLoaded> {
    let AofLoad { mut files, config, limits, skip_checksum } = load;
    let parts = files.list().map_err(|lines| {
        lines.into_iter().for_each(|line| out.log(LogLevel::Warning, line));
        NotLoaded::Failed
    })?;
    let twin = keyspace.empty_twin();
    let now = out.thread.now();
    let mut engine = Engine::for_replay(config, limits, std::mem::replace(keyspace, twin), now);
    engine.core.control.debug.skip_checksum = skip_checksum;
    let mut process = ReplayProcess { out, recent: now, history: LoadedHistory::default() };
    let result = load_parts(&mut engine, parts, &mut process);
    let history = process.history;
    let Core { keyspace: filled, control, .. } = engine.core;
    *keyspace = filled;
    result.map(|()| LoadResult {
        counts: control.persistence.last_load,
        libraries: control.libraries(),
        history,
        slot_states: None,
    })
}

fn load_parts(
    engine: &mut Engine,
    mut parts: Vec<AofPart>,
    process: &mut ReplayProcess<'_, '_>,
) -> Result<(), NotLoaded> {
    let mut total = 0;
    for part in &mut parts {
        total += open(part, process)?;
    }
    process.out.progress.bytes_total.store(total, Relaxed);
    let (count, mut before, mut is_after_log) = (parts.len(), 0, false);
    for (at, mut part) in parts.into_iter().enumerate() {
        let size = open(&mut part, process)?;
        if at > 0 {
            process.history.begin_file(is_after_log);
        }
        is_after_log = !part.is_base;
        load_part(engine, part, at + 1 == count, before, process)?;
        before += size;
    }
    Ok(())
}

/// Opens a file if it is not open yet. Returns its size in bytes.
fn open(part: &mut AofPart, process: &mut ReplayProcess<'_, '_>) -> Result<u64, NotLoaded> {
    let opened = part.source.open().and_then(|size| size.ok_or("No such file or directory".to_owned()));
    opened.map_err(|reason| {
        let name = &part.name;
        fail(process, format!("Fatal error: can't open the append log file {name} for reading: {reason}"))
    })
}

/// Loads one file; `before` is the size in bytes of the files before it.
fn load_part(
    engine: &mut Engine,
    mut part: AofPart,
    is_last: bool,
    before: u64,
    process: &mut ReplayProcess<'_, '_>,
) -> Result<(), NotLoaded> {
    let start_ns = process.now().mono_ns;
    let had_gap = process.history.has_gap();
    match engine.replay_aof(&mut part, before, process)? {
        AofEnd::Whole => {}
        AofEnd::Truncated(_) if !engine.config().bool(param::AOF_LOAD_TRUNCATED) => {
            let name = &part.name;
            let text = format!(
                "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then \
                 use sluice-check-aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' \
                 configuration option to yes and restart the server."
            );
            return Err(fail(process, text));
        }
        AofEnd::Truncated(_) if !is_last => {
            return Err(fail(process, "Fatal error: the truncated file is not the last file".to_owned()));
        }
        AofEnd::Truncated(valid) => cut_off(&mut part, valid, process)?,
    }
    if process.history.has_gap() && !had_gap {
        let text = format!(
            "The end of the file before {} is missing: an fsync failed before a crash. Replicas need a \
             full sync, as the replication history has a gap.",
            part.name
        );
        process.out.log(LogLevel::Warning, text);
    }
    let seconds = Duration::from_nanos(process.now().mono_ns.saturating_sub(start_ns)).as_secs_f64();
    let what = if part.is_base { "base" } else { "incr" };
    let text = format!("DB loaded from {what} file {}: {seconds:.3} seconds", part.name);
    process.out.log(LogLevel::Notice, text);
    Ok(())
}

/// Cuts off an incomplete record or transaction at the end of the file, because more will be appended.
fn cut_off(part: &mut AofPart, valid: u64, process: &mut ReplayProcess<'_, '_>) -> Result<(), NotLoaded> {
    let AofPart { name, source, .. } = part;
    let at_s = process.now().unix_s();
    let out = &mut *process.out;
    out.log(LogLevel::Warning, format!("!!! Warning: short read while loading the AOF file {name}!!!"));
    out.log(LogLevel::Warning, format!("!!! Truncating the AOF {name} at offset {valid} !!!"));
    let kept = source
        .cut_off(valid, at_s)
        .map_err(|reason| fail(process, format!("Error truncating the AOF file {name}: {reason}")))?;
    let text = format!(
        "The bytes of the AOF {name} after offset {valid} are kept in {kept}, which no server reads. \
         Delete that file when it is not needed"
    );
    process.out.log(LogLevel::Warning, text);
    let text = format!("AOF {name} loaded anyway because aof-load-truncated is enabled");
    process.out.log(LogLevel::Warning, text);
    Ok(())
}

fn fail(process: &mut ReplayProcess<'_, '_>, text: String) -> NotLoaded {
    process.out.log(LogLevel::Warning, text);
    NotLoaded::Failed
}

/// The `Process` of the second engine, which has only a clock and the server's log.
pub(crate) struct ReplayProcess<'a, 'b> {
    pub(crate) out: &'a mut Reporter<'b>,
    recent: Now,
    /// The offset in a replication history that the loaded data have reached.
    pub(crate) history: LoadedHistory,
}

impl ReplayProcess<'_, '_> {
    /// Publishes the progress for other threads: the bytes read of all files, the numbers of loaded and
    /// expired keys, and the memory.
    pub(crate) fn publish(&mut self, read: u64, loaded: (u64, u64), keyspace: &Keyspace) {
        let progress = self.out.progress;
        progress.bytes_read.store(read, Relaxed);
        progress.keys_loaded.store(loaded.0, Relaxed);
        progress.keys_expired.store(loaded.1, Relaxed);
        progress.publish_memory(keyspace);
    }
}

fn refused() -> SaveError {
    SaveError("A log that is loaded saves nothing".to_owned())
}

impl ProcessClock for ReplayProcess<'_, '_> {
    fn now(&mut self) -> Now {
        self.recent = self.out.thread.now();
        self.recent
    }

    fn recent(&mut self) -> Now {
        self.recent
    }

    fn sleep(&mut self, microseconds: u64) {
        self.out.thread.sleep(microseconds);
    }

    fn is_broken_off(&mut self) -> bool {
        self.out.is_stopped()
    }
}

/// Supplies the clock and the log to the loading of a base's function libraries, and breaks the loading off
/// if the load is stopped.
impl LoadWatch for ReplayProcess<'_, '_> {
    fn now_ns(&mut self) -> u64 {
        if self.out.is_stopped() { u64::MAX } else { self.now().mono_ns }
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.out.log(level, line);
    }
}

impl ProcessMemory for ReplayProcess<'_, '_> {
    fn used_memory(&mut self, _: &Keyspace) -> usize {
        0
    }

    fn counted_memory(&mut self, _: &Keyspace) -> usize {
        0
    }

    fn purge_memory(&mut self) {}

    fn malloc_stats(&mut self) -> String {
        String::new()
    }
}

impl ProcessSettings for ReplayProcess<'_, '_> {
    fn apply_config(&mut self, _: &Config, _: ParamId) -> Result<(), String> {
        Ok(())
    }

    fn rewrite_config(&mut self, _: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        Err(refused().0)
    }
}

impl SnapshotFiles for ReplayProcess<'_, '_> {
    fn create_snapshot(&mut self, _: &[u8], _: bool) -> Result<Box<dyn SnapshotSink>, SaveError> {
        Err(refused())
    }

    fn write_in_background(
        &mut self,
        _: BackgroundFile,
        _: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError> {
        Err(refused())
    }

    fn snapshot_for_replicas(
        &mut self,
        _: usize,
        _: i64,
        _: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError> {
        Err(refused())
    }

    fn spool_stream(&mut self, _: usize) -> Result<Box<dyn StreamSpool>, SaveError> {
        Err(refused())
    }

    fn snapshot_source(&mut self, _: &[u8]) -> Box<dyn SnapshotSource> {
        Box::new(NoLogFile)
    }
}

impl UserFile for ReplayProcess<'_, '_> {}

impl AppendOnlyFile for ReplayProcess<'_, '_> {
    fn switch_increment(
        &mut self,
        _: AofIncrement,
        _: &Config,
        _: Vec<u8>,
        _: u64,
    ) -> Result<AofBacklog, SaveError> {
        Err(refused())
    }

    fn end_aof_rewrite(&mut self, _: bool) {}

    fn has_aof_base(&mut self) -> bool {
        false
    }

    fn close_aof(&mut self, _: &Config, _: Vec<u8>, _: u64) {}

    fn aof(&mut self) -> AofFacts {
        AofFacts::default()
    }

    fn aof_files(&mut self, _: &Config, _: Vec<u8>, _: u64) -> Box<dyn AofFiles> {
        Box::new(NoLogFile)
    }
}

impl Process for ReplayProcess<'_, '_> {
    fn facts(&mut self, _: &Keyspace) -> Facts {
        Facts::default()
    }

    fn counts(&mut self) -> Counts {
        Counts::default()
    }

    fn migrate(&mut self, _: Migration) -> MigrationOutcome {
        // The migrations of a log were done when it was written.
        MigrationOutcome::default()
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.out.log(level, line);
    }

    fn entropy(&mut self) -> [u8; 20] {
        [0; 20]
    }
}

/// The snapshot file and the append-only files of the second engine, which loads none.
struct NoLogFile;

impl SnapshotSource for NoLogFile {
    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }

    fn read(&mut self, _: &mut [u8]) -> Result<usize, String> {
        Ok(0)
    }
}

impl AofFiles for NoLogFile {
    fn list(&mut self) -> Result<Vec<AofPart>, Vec<String>> {
        Ok(Vec::new())
    }
}

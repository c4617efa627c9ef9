//! The process of a node's engine: the fake process that tests use (`FakeProcess`), with an append-only
//! file on a simulated disk, and random bytes from the seed.

use crate::aof::AofWriter;
use crate::disk::{Disk, DiskFault};
use sluice_base::LogLevel;
use sluice_base::{Now, Rng};
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, ParamId};
use sluice_control::process::{
    AofBacklog, AofFiles, AofIncrement, Background, BackgroundFile, Process, SaveError, SnapshotSink,
};
use sluice_control::process::{
    AppendOnlyFile, ProcessClock, ProcessMemory, ProcessSettings, SnapshotFiles, UserFile,
};
use sluice_engine::Engine;
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::{AofFacts, Counts, Facts};
use sluice_replication::{SnapshotPieces, StreamSpool};
use sluice_snapshot::{SnapshotFile, SnapshotSource};
use sluice_testkit::FakeProcess;

/// A fake process with a simulated disk and append-only file.
pub struct SimProcess {
    pub base: FakeProcess,
    pub disk: Disk,
    rng: Rng,
    aof: Option<AofWriter>,
    /// The time (ns) at which a written base is put in force, and the contents of the base.
    finishing: Option<(u64, Vec<u8>)>,
    /// `has_failed`: the rewrite has ended without a base; `has_no_log`: the rewrite began, but no new log
    /// file could be created.
    has_failed: bool,
    has_no_log: bool,
    /// The fault of the append-only file that was last reported to the engine.
    told: Option<&'static str>,
    /// Duration of a sync, and time between two syncs, ms.
    sync_ms: (u64, u64),
    /// Longest time until a written base is in force, ms.
    base_ms: u64,
}

impl SimProcess {
    /// A process on this disk.
    pub fn new(disk: Disk, now: Now, mut rng: Rng) -> SimProcess {
        let base = FakeProcess { now, snapshots: disk.snapshots.clone(), ..FakeProcess::default() };
        let (sync_ms, base_ms) = ((rng.below(200), 1 + rng.below(1000)), [100, 4000][rng.below(2) as usize]);
        SimProcess {
            base,
            disk,
            rng,
            aof: None,
            finishing: None,
            has_failed: false,
            has_no_log: false,
            told: None,
            sync_ms,
            base_ms,
        }
    }

    /// Opens the append-only file at a start of the node, after the data were loaded. Errors: why the disk
    /// refuses.
    pub fn open_aof(&mut self, engine: &mut Engine) -> Result<(), String> {
        self.disk.note_loaded();
        let log = match self.disk.last_log() {
            Some(log) => log,
            None => {
                let mut base = Vec::new();
                let mut give = |piece: &[u8]| {
                    base.extend_from_slice(piece);
                    Ok(())
                };
                engine.write_aof_base(&mut give, self)?;
                let log = self.disk.add_log()?;
                self.disk.put_in_force(base, vec![log])?;
                log
            }
        };
        self.aof = Some(self.writer(log, true, engine.aof_position()));
        engine.begin_aof();
        Ok(())
    }

    fn writer(&self, log: usize, is_in_force: bool, position: u64) -> AofWriter {
        let sync_ns = (self.sync_ms.0 * 1_000_000, self.sync_ms.1 * 1_000_000);
        AofWriter::new(self.disk.clone(), log, is_in_force, (position, self.base.now.mono_ns), sync_ns)
    }

    /// Passes the effects of new execution units to the append-only file, does the file's writes and syncs,
    /// and reports the results to the engine. Called once in each iteration.
    pub fn feed_aof(&mut self, engine: &mut Engine) {
        let now_ns = self.base.now.mono_ns;
        let made: Vec<_> = std::iter::from_fn(|| engine.take_made_aof(Vec::new)).collect();
        if let Some(aof) = &mut self.aof {
            made.into_iter().for_each(|(bytes, range)| aof.push(bytes, range.end));
            aof.work(now_ns, &mut self.rng);
            let (durable, fault) = (aof.durable(), aof.fault());
            engine.report_aof_durable(durable, self);
            if std::mem::replace(&mut self.told, fault) != fault {
                engine.report_aof_fault(fault.map(str::to_owned));
            }
        }
        if std::mem::take(&mut self.has_no_log) {
            engine.report_aof_cut_failed(self);
        }
        if self.finishing.as_ref().is_some_and(|(at_ns, _)| *at_ns <= now_ns)
            && let Some((_, base)) = self.finishing.take()
            && let Some(aof) = &mut self.aof
        {
            let is_in_force = aof.put_in_force(base);
            engine.report_aof_rewrite(is_in_force, self);
        }
        if std::mem::take(&mut self.has_failed) {
            engine.report_aof_rewrite(false, self);
        }
    }

    /// Writes and syncs the effects of all execution units before the server ends.
    pub fn end_aof(&mut self, engine: &mut Engine) {
        let mut bytes = Vec::new();
        let end = engine.take_aof(&mut bytes).map(|range| range.end);
        if let Some(mut aof) = self.aof.take() {
            if let Some(end) = end {
                aof.push(bytes, end);
            }
            aof.close(&mut self.rng);
        }
    }

    /// The position up to which the append-only file is durable; `None` if there is no such file.
    pub fn durable(&self) -> Option<u64> {
        Some(self.aof.as_ref()?.durable())
    }

    /// Whether there is an append-only file that a start would not read, because no base is in force yet.
    pub fn lacks_aof_base(&self) -> bool {
        self.aof.as_ref().is_some_and(|aof| !aof.is_in_force())
    }

    /// Makes each sync begin right after the previous one, as under `appendfsync always`.
    pub fn sync_always(&mut self) {
        self.sync_ms.1 = 0;
    }

    /// Whether the append-only file accepts no writes, or cannot make them durable.
    pub fn has_aof_fault(&self) -> bool {
        self.aof.as_ref().is_some_and(|aof| aof.fault().is_some())
    }

    /// Applies the disk's present fault to the files other than the append-only file.
    pub fn meet_disk(&mut self) {
        let reason = self.disk.commit_fault();
        let is_full = self.disk.fault() == Some(DiskFault::Full);
        *self.base.background_fault.borrow_mut() = reason.map(str::to_owned);
        *self.base.replicas_lack_room.borrow_mut() = reason.filter(|_| is_full).map(str::to_owned);
        self.base.is_spool_stuck.set(is_full);
    }
}

impl ProcessClock for SimProcess {
    fn now(&mut self) -> Now {
        self.base.now()
    }

    fn recent(&mut self) -> Now {
        self.base.recent()
    }

    fn sleep(&mut self, microseconds: u64) {
        self.base.sleep(microseconds);
    }
}

impl ProcessMemory for SimProcess {
    fn used_memory(&mut self, keyspace: &Keyspace) -> usize {
        self.base.used_memory(keyspace)
    }

    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize {
        self.base.counted_memory(keyspace)
    }

    fn purge_memory(&mut self) {}

    fn malloc_stats(&mut self) -> String {
        String::new()
    }
}

impl ProcessSettings for SimProcess {
    fn apply_config(&mut self, config: &Config, changed: ParamId) -> Result<(), String> {
        self.base.applied.clear();
        self.base.apply_config(config, changed)
    }

    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        self.base.rewrite_config(make)
    }
}

impl SnapshotFiles for SimProcess {
    fn create_snapshot(&mut self, name: &[u8], sync_early: bool) -> Result<Box<dyn SnapshotSink>, SaveError> {
        self.base.create_snapshot(name, sync_early)
    }

    fn write_in_background(
        &mut self,
        target: BackgroundFile,
        file: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError> {
        self.base.write_in_background(target, file)
    }

    fn snapshot_for_replicas(
        &mut self,
        replicas: usize,
        key_delay: i64,
        file: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError> {
        self.base.snapshot_for_replicas(replicas, key_delay, file)
    }

    fn spool_stream(&mut self, replicas: usize) -> Result<Box<dyn StreamSpool>, SaveError> {
        self.base.spool_stream(replicas)
    }

    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource> {
        Box::new(self.disk.file(self.base.snapshot_source(name)))
    }
}

impl UserFile for SimProcess {}

impl AppendOnlyFile for SimProcess {
    fn switch_increment(
        &mut self,
        increment: AofIncrement,
        _: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError> {
        self.finishing = None;
        self.has_no_log = false;
        match (&mut self.aof, increment) {
            (Some(aof), AofIncrement::Next) => {
                aof.push(pending, position);
                self.has_no_log = aof.cut(&mut self.rng).is_err();
            }
            (_, AofIncrement::First | AofIncrement::Next) => {
                let log = self.disk.add_log().map_err(|reason| SaveError(reason.to_owned()))?;
                (self.aof, self.told) = (Some(self.writer(log, false, position)), None);
            }
            (_, AofIncrement::None) => {}
        }
        Ok(AofBacklog::Fine)
    }

    fn end_aof_rewrite(&mut self, is_whole: bool) {
        // The fake process writes a base under an empty name.
        let base = self.disk.snapshots.borrow_mut().remove(&b""[..]);
        self.finishing = None;
        if is_whole {
            match base.filter(|_| self.aof.is_some()) {
                Some(base) => {
                    let at_ns = self.base.now.mono_ns + self.rng.below(self.base_ms) * 1_000_000;
                    self.finishing = Some((at_ns, base));
                }
                None => self.has_failed = true,
            }
        }
    }

    fn has_aof_base(&mut self) -> bool {
        self.aof.as_ref().is_some_and(AofWriter::is_in_force)
    }

    fn close_aof(&mut self, _: &Config, pending: Vec<u8>, position: u64) {
        self.finishing = None;
        if let Some(mut aof) = self.aof.take() {
            aof.push(pending, position);
            aof.close(&mut self.rng);
        }
        self.told = None;
    }

    fn aof(&mut self) -> AofFacts {
        let (current_bytes, base_bytes) = self.disk.sizes();
        AofFacts { current_bytes, base_bytes, ..AofFacts::default() }
    }

    fn aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles> {
        self.base.aof_files(config, pending, position)
    }
}

impl Process for SimProcess {
    fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.base.facts(keyspace)
    }

    fn counts(&mut self) -> Counts {
        self.base.counts()
    }

    fn migrate(&mut self, migration: Migration) -> MigrationOutcome {
        self.base.migrate(migration)
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.base.log(level, line);
    }

    fn entropy(&mut self) -> [u8; 20] {
        let mut bytes = [0; 20];
        for piece in bytes.chunks_mut(8) {
            let random = self.rng.next_u64().to_le_bytes();
            let len = piece.len();
            piece.copy_from_slice(&random[..len]);
        }
        bytes
    }
}

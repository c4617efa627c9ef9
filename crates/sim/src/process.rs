//! The process around a node's engine: the fake of the tests, with an append-only file that has a disk, and random bytes of the seed.

use crate::disk::Disk;
use sluice_base::{Now, Rng};
use sluice_config::{Config, ParamId};
use sluice_engine::{
    AofBacklog, AofFacts, AofFiles, AofIncrement, Background, BackgroundFile, Counts, Engine, Facts,
    LogLevel, Migration, MigrationOutcome, Process, SaveError, SnapshotFile, SnapshotPieces, SnapshotSink,
    SnapshotSource, StreamSpool,
};
use sluice_keyspace::Keyspace;
use sluice_testkit::FakeProcess;

/// See the module.
pub struct SimProcess {
    pub base: FakeProcess,
    pub disk: Disk,
    rng: Rng,
    open: Option<OpenAof>,
    /// A base that was written, and when it is in force.
    finishing: Option<(u64, Vec<u8>)>,
    /// What becomes of a rewrite that has no base.
    has_failed: bool,
    /// Milliseconds that a sync takes, and between two of them.
    sync_ms: (u64, u64),
    /// Most milliseconds until a base that was written is in force.
    base_ms: u64,
}

/// The append-only file while it is appended to.
struct OpenAof {
    /// Logs since the base in force, or since the cut of the first one; the last is appended to.
    logs: Vec<usize>,
    /// Logs since the last cut.
    behind_cut: Vec<usize>,
    /// Whether a start reads them.
    is_in_force: bool,
    /// End of what was appended: a position.
    position: u64,
    durable: u64,
    /// When the next sync begins, and the one under way: when it ends, log, bytes, position.
    next_sync_ns: u64,
    sync: Option<(u64, usize, usize, u64)>,
}

impl SimProcess {
    /// A process with this disk.
    pub fn new(disk: Disk, now: Now, mut rng: Rng) -> SimProcess {
        let base = FakeProcess { now, snapshots: disk.snapshots.clone(), ..FakeProcess::default() };
        let (sync_ms, base_ms) = ((rng.below(200), 1 + rng.below(1000)), [100, 4000][rng.below(2) as usize]);
        SimProcess { base, disk, rng, open: None, finishing: None, has_failed: false, sync_ms, base_ms }
    }

    /// Opens the append-only file of a start, behind the data that were loaded.
    pub fn open_aof(&mut self, engine: &mut Engine) {
        let log = match self.disk.last_log() {
            Some(log) => log,
            None => {
                let mut base = Vec::new();
                let mut give = |piece: &[u8]| {
                    base.extend_from_slice(piece);
                    Ok(())
                };
                // Memory takes everything.
                let _ = engine.write_aof_base(&mut give, self);
                let log = self.disk.add_log();
                self.disk.put_in_force(base, vec![log]);
                log
            }
        };
        self.open = Some(self.opened(log, true, engine.aof_position()));
        engine.begin_aof();
    }

    fn opened(&self, log: usize, is_in_force: bool, position: u64) -> OpenAof {
        OpenAof {
            logs: vec![log],
            behind_cut: vec![log],
            is_in_force,
            position,
            durable: position,
            next_sync_ns: self.base.now.mono_ns,
            sync: None,
        }
    }

    fn append(&mut self, bytes: &[u8], end: u64) {
        if let Some(open) = &mut self.open
            && let Some(log) = open.logs.last()
        {
            self.disk.append(*log, bytes);
            open.position = end;
        }
    }

    /// Feeds the file and has it synced; once an iteration.
    pub fn feed_aof(&mut self, engine: &mut Engine) {
        let mut bytes = Vec::new();
        if let Some(range) = engine.take_aof(&mut bytes) {
            self.append(&bytes, range.end);
        }
        let now_ns = self.base.now.mono_ns;
        if let Some(open) = &mut self.open {
            if let Some((_, log, len, position)) = open.sync.take_if(|sync| sync.0 <= now_ns) {
                self.disk.sync(log, len);
                open.durable = open.durable.max(position);
            }
            let is_due = open.sync.is_none() && open.next_sync_ns <= now_ns && open.durable < open.position;
            if is_due && let Some(log) = open.logs.last() {
                let len = self.disk.append(*log, b"");
                let took_ns = self.sync_ms.0 * 1_000_000;
                open.sync = Some((now_ns + took_ns, *log, len, open.position));
                open.next_sync_ns = now_ns + self.sync_ms.1 * 1_000_000;
            }
            engine.report_aof_durable(open.durable, self);
        }
        if self.finishing.as_ref().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            self.put_in_force(engine);
        }
        if std::mem::take(&mut self.has_failed) {
            engine.report_aof_rewrite(false, self);
        }
    }

    fn put_in_force(&mut self, engine: &mut Engine) {
        let Some((_, base)) = self.finishing.take() else { return };
        let Some(open) = &mut self.open else { return };
        open.logs = open.behind_cut.clone();
        open.is_in_force = true;
        self.disk.put_in_force(base, open.logs.clone());
        engine.report_aof_rewrite(true, self);
    }
}

impl Process for SimProcess {
    fn now(&mut self) -> Now {
        self.base.now()
    }
    fn recent(&mut self) -> Now {
        self.base.recent()
    }
    fn facts(&mut self, keyspace: &Keyspace) -> Facts {
        self.base.facts(keyspace)
    }
    fn counts(&mut self) -> Counts {
        self.base.counts()
    }
    fn used_memory(&mut self, keyspace: &Keyspace) -> usize {
        self.base.used_memory(keyspace)
    }
    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize {
        self.base.counted_memory(keyspace)
    }
    fn apply_config(&mut self, config: &Config, changed: ParamId) -> Result<(), String> {
        self.base.applied.clear();
        self.base.apply_config(config, changed)
    }
    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        self.base.rewrite_config(make)
    }
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
    fn cut_aof(
        &mut self,
        increment: AofIncrement,
        _: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError> {
        self.finishing = None;
        self.append(&pending, position);
        match (&mut self.open, increment) {
            (Some(open), AofIncrement::Next) => {
                let log = self.disk.add_log();
                if let Some(before) = open.logs.last() {
                    self.disk.sync_all(*before);
                }
                open.durable = open.position;
                open.sync = None;
                open.logs.push(log);
                open.behind_cut = vec![log];
                if open.is_in_force {
                    self.disk.add_in_force(log);
                }
            }
            (_, AofIncrement::First | AofIncrement::Next) => {
                let log = self.disk.add_log();
                self.open = Some(self.opened(log, false, position));
            }
            (_, AofIncrement::None) => {}
        }
        Ok(AofBacklog::Fine)
    }
    fn end_aof_rewrite(&mut self, is_whole: bool) {
        // The fake writes a base under no name.
        let base = self.disk.snapshots.borrow_mut().remove(&b""[..]);
        self.finishing = None;
        if is_whole {
            match base.filter(|_| self.open.is_some()) {
                Some(base) => {
                    let at_ns = self.base.now.mono_ns + self.rng.below(self.base_ms) * 1_000_000;
                    self.finishing = Some((at_ns, base));
                }
                None => self.has_failed = true,
            }
        }
    }
    fn has_aof_base(&mut self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_in_force)
    }
    fn migrate(&mut self, migration: Migration) -> MigrationOutcome {
        self.base.migrate(migration)
    }

    fn close_aof(&mut self, _: &Config, pending: Vec<u8>, position: u64) {
        self.append(&pending, position);
        self.finishing = None;
        if let Some(open) = self.open.take() {
            open.logs.iter().for_each(|log| self.disk.sync_all(*log));
        }
    }
    fn aof(&mut self) -> AofFacts {
        let (current_bytes, base_bytes) = self.disk.sizes();
        AofFacts { current_bytes, base_bytes, ..AofFacts::default() }
    }
    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource> {
        self.base.snapshot_source(name)
    }
    fn aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles> {
        self.base.aof_files(config, pending, position)
    }
    fn sleep(&mut self, microseconds: u64) {
        self.base.sleep(microseconds);
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
    fn purge_memory(&mut self) {}
    fn malloc_stats(&mut self) -> String {
        String::new()
    }
}

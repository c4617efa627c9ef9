//! A fake process that records what the engine asks of it.

use sluice_base::LogLevel;
use sluice_base::{Bytes, Now};
use sluice_commands::{Migration, MigrationOutcome};
use sluice_config::{Config, ParamId};
use sluice_control::process::{
    AofBacklog, AofFiles, AofIncrement, AofPart, AofSource, Background, BackgroundFile, Process, SaveError,
    SnapshotSink,
};
use sluice_control::process::{
    AppendOnlyFile, MemoryShown, ProcessClock, ProcessMemory, ProcessSettings, SnapshotFiles, UserFile,
};
use sluice_keyspace::{Captured, Keyspace};
use sluice_numbers::facts::{AofFacts, Counts, Facts, SyncFacts};
use sluice_numbers::progress::LongWork;
use sluice_replication::{NextPiece, SnapshotPieces, SnapshotProgress, StreamSpool};
use sluice_snapshot::{SnapshotFile, SnapshotSource};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// A process whose clock moves only when the test moves it, apart from one microsecond per reading.
#[derive(Debug)]
pub struct FakeProcess {
    /// User files, by path.
    pub user_files: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Microseconds by which each reading advances the clock; initially 1.
    pub us_each_look: u64,
    /// The current time of the fake clock.
    pub now: Now,
    /// The last random byte; each later random byte is one more.
    pub entropy: u8,
    /// The payloads of MIGRATE inside transactions.
    pub migrated: Vec<Vec<u8>>,
    /// The result of each MIGRATE inside a transaction.
    pub migration_outcome: MigrationOutcome,
    /// Level and text of each logged line.
    pub log: Vec<(LogLevel, String)>,
    /// Whether log lines show the role of a replica.
    pub logs_as_replica: bool,
    /// Names of the directives applied, in order.
    pub applied: Vec<&'static str>,
    /// When set, `apply_config` fails with this text.
    pub refuse: Option<String>,
    /// The config file, if there is one.
    pub file: Option<String>,
    /// The facts that INFO is given.
    pub facts: Facts,
    /// The memory figures that each INFO requested.
    pub memory_shown: Vec<MemoryShown>,
    /// The long work that each call of `show_progress` was given.
    pub shown: Vec<Vec<LongWork>>,
    /// Snapshot files by name.
    pub snapshots: Snapshots,
    /// Whether a second name for a snapshot file is refused.
    pub has_no_second_names: bool,
    /// When set, snapshots cannot be written, with this error in the log.
    pub refuse_snapshots: Option<String>,
    /// Number of pieces that the background writer may still write; after these the disk hangs.
    pub background_room: Rc<Cell<usize>>,
    /// Bytes of pieces that are not written yet.
    pub background_held: Rc<Cell<usize>>,
    /// The reason with which further pieces of a snapshot for replicas are refused while some replicas have
    /// not taken all earlier pieces; `None` for no refusal.
    pub replicas_lack_room: Rc<RefCell<Option<String>>>,
    /// Bytes of the replication stream that were spooled so far.
    pub spooled: Rc<Cell<usize>>,
    /// Whether the disk of the spool hangs.
    pub is_spool_stuck: Rc<Cell<bool>>,
    /// A warning that the background writer reports to the log.
    pub background_warning: Rc<RefCell<Option<String>>>,
    /// The error with which background writes fail from now on; `None` if they succeed.
    pub background_fault: Rc<RefCell<Option<String>>>,
    /// Number of entries passed to the background writer so far.
    pub background_given: Rc<Cell<usize>>,
    /// For each rewrite of the append-only file that has begun: the new increment, the last bytes before that
    /// increment, and the end offset of these bytes.
    pub aof_cuts: Vec<(AofIncrement, Vec<u8>, u64)>,
    /// For each rewrite that has ended: whether it was successful.
    pub aof_ended: Vec<bool>,
    /// Snapshot files that were to become the base of the append-only file.
    pub aof_snapshot_bases: Vec<Vec<u8>>,
    /// The last bytes of append-only files that were closed, and their end offsets.
    pub aof_closed: Vec<(Vec<u8>, u64)>,
    /// Whether the append-only file has a base.
    pub aof_has_base: bool,
    /// The return value of [`AppendOnlyFile::is_aof_closing`].
    pub aof_closes: bool,
    /// Whether the data count as used memory, in addition to `facts.used_memory`.
    pub counts_data: bool,
    /// The append-only file's backlog at the beginning of a rewrite, which decides whether write commands
    /// wait.
    pub aof_backlog_at_cut: AofBacklog,
    /// The files of the append-only file, the base first, with their names. Before they are loaded, bytes
    /// that were not appended yet are added to the last file.
    pub aof_parts: NamedBytes,
    /// The parts that were cut off at the ends of append-only files, with the names under which they are
    /// kept.
    pub aof_kept: NamedBytes,
}

/// Snapshot files in memory, by name.
pub type Snapshots = Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// A snapshot that is written into memory.
struct MemorySink {
    files: Snapshots,
    name: Vec<u8>,
    bytes: Vec<u8>,
}

impl SnapshotSink for MemorySink {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<(), SaveError> {
        self.files.borrow_mut().insert(self.name, self.bytes);
        Ok(())
    }
}

/// A background writer that writes its file to memory at once, as far as `room` allows.
struct MemoryBackground<S: MemoryTarget> {
    file: Option<SnapshotFile>,
    sink: Option<S>,
    waiting: VecDeque<Captured>,
    room: Rc<Cell<usize>>,
    warning: Rc<RefCell<Option<String>>>,
    /// The error of a disk that fails, shared with the process; `None` for memory.
    fault: Option<Rc<RefCell<Option<String>>>>,
    failed: Option<String>,
    given: Rc<Cell<usize>>,
    held: Rc<Cell<usize>>,
    entries: u64,
    freed_value_bytes: u64,
    all_given: bool,
}

/// The target of a snapshot.
trait MemoryTarget {
    fn write(&mut self, piece: Bytes);
    fn finish(self);
}

impl MemoryTarget for MemorySink {
    fn write(&mut self, piece: Bytes) {
        self.bytes.extend_from_slice(&piece);
    }
    fn finish(self) {
        self.files.borrow_mut().insert(self.name, self.bytes);
    }
}

/// A snapshot for replicas in memory, and the progress of each replica.
#[derive(Default)]
struct MemoryPieces {
    pieces: Vec<Bytes>,
    made: Option<SnapshotProgress>,
    taken: Vec<usize>,
    news: Cell<bool>,
    lacks_room: Rc<RefCell<Option<String>>>,
}

/// The writing end of the snapshot for replicas.
struct MemoryPiecesSink(Rc<RefCell<MemoryPieces>>);

impl MemoryTarget for MemoryPiecesSink {
    fn write(&mut self, piece: Bytes) {
        let mut pieces = self.0.borrow_mut();
        pieces.pieces.push(piece);
        pieces.news.set(true);
    }
    fn finish(self) {
        let mut pieces = self.0.borrow_mut();
        pieces.made =
            Some(SnapshotProgress::Whole(pieces.pieces.iter().map(|piece| piece.len() as u64).sum()));
        pieces.news.set(true);
    }
}

impl Drop for MemoryPiecesSink {
    fn drop(&mut self) {
        let mut pieces = self.0.borrow_mut();
        pieces.made.get_or_insert(SnapshotProgress::Failed);
        pieces.news.set(true);
    }
}

/// The reading end of the snapshot for replicas.
struct MemoryPiecesSource(Rc<RefCell<MemoryPieces>>);

impl SnapshotPieces for MemoryPiecesSource {
    fn next(&mut self, replica: usize) -> NextPiece {
        let mut pieces = self.0.borrow_mut();
        let at = pieces.taken[replica];
        match (pieces.pieces.get(at).cloned(), pieces.made) {
            (_, Some(SnapshotProgress::Failed)) => NextPiece::Failed,
            (Some(piece), _) => {
                pieces.taken[replica] += 1;
                NextPiece::Piece(piece)
            }
            (None, Some(SnapshotProgress::Whole(_))) => NextPiece::End,
            (None, Some(SnapshotProgress::UnderWay) | None) => NextPiece::Later,
        }
    }
    fn leave(&mut self, replica: usize) {
        self.0.borrow_mut().taken[replica] = usize::MAX;
    }
    fn made(&self) -> SnapshotProgress {
        self.0.borrow().made.unwrap_or(SnapshotProgress::UnderWay)
    }
    fn lacks_room(&self) -> Option<String> {
        self.0.borrow().lacks_room.borrow().clone()
    }
    fn has_news(&self) -> bool {
        let pieces = self.0.borrow();
        pieces.news.take() || pieces.lacks_room.borrow().is_some()
    }
    fn held_bytes(&self) -> usize {
        self.0.borrow().pieces.iter().map(|piece| piece.len()).sum()
    }
}

/// A spool of the replication stream in memory.
#[derive(Debug)]
struct MemorySpool {
    blocks: Vec<Bytes>,
    /// Number of blocks that each replica has taken.
    taken: Vec<usize>,
    /// Bytes in all spools, for the test.
    spooled: Rc<Cell<usize>>,
    /// Whether the disk hangs.
    is_stuck: Rc<Cell<bool>>,
    unwritten: usize,
}

impl StreamSpool for MemorySpool {
    fn give(&mut self, block: Bytes) {
        self.spooled.set(self.spooled.get() + block.len());
        if self.is_stuck.get() {
            self.unwritten += block.len();
        }
        self.blocks.push(block);
    }
    fn next(&mut self, replica: usize) -> NextPiece {
        let Some(block) = self.blocks.get(self.taken[replica]) else { return NextPiece::Later };
        self.taken[replica] += 1;
        NextPiece::Piece(block.clone())
    }
    fn leave(&mut self, replica: usize) {
        self.taken[replica] = usize::MAX;
    }
    fn has_news(&self) -> bool {
        false
    }
    fn unwritten_bytes(&self) -> usize {
        self.unwritten
    }
    fn memory_bytes(&self) -> usize {
        self.unwritten
    }
    fn warning(&mut self) -> Option<String> {
        None
    }
}

impl<S: MemoryTarget> MemoryBackground<S> {
    fn new(file: SnapshotFile, sink: S, process: &FakeProcess) -> MemoryBackground<S> {
        MemoryBackground {
            file: Some(file),
            sink: Some(sink),
            waiting: VecDeque::new(),
            room: process.background_room.clone(),
            warning: process.background_warning.clone(),
            fault: None,
            failed: None,
            given: process.background_given.clone(),
            held: process.background_held.clone(),
            entries: 0,
            freed_value_bytes: 0,
            all_given: false,
        }
    }

    /// Makes this background writer fail as the process's disk does.
    fn on_disk(self, process: &FakeProcess) -> MemoryBackground<S> {
        MemoryBackground { fault: Some(process.background_fault.clone()), ..self }
    }

    fn write(&mut self) {
        if let Some(fault) = &self.fault {
            let fault = fault.borrow();
            self.failed = self.failed.take().or_else(|| fault.clone());
        }
        while self.room.get() > 0
            && let Some(piece) = self.waiting.pop_front()
        {
            self.room.set(self.room.get() - 1);
            self.entries += piece.len() as u64;
            let Some(sink) = &mut self.sink else { return };
            let mut give = |bytes: Bytes| {
                sink.write(bytes);
                ControlFlow::Continue(())
            };
            if let Some(file) = &mut self.file {
                let _ = file.piece(&piece, &mut || (), &mut give);
            }
            self.freed_value_bytes += piece.own_value_bytes() as u64;
            self.held.set(self.held.get() - piece.footprint());
        }
    }
}

impl<S: MemoryTarget> Background for MemoryBackground<S> {
    fn give(&mut self, piece: Captured) {
        self.given.set(self.given.get() + piece.len());
        self.held.set(self.held.get() + piece.footprint());
        self.waiting.push_back(piece);
        self.write();
    }
    fn all_given(&mut self, entries: usize) {
        let given = self.entries + self.waiting.iter().map(|piece| piece.len() as u64).sum::<u64>();
        assert_eq!(entries as u64, given, "a snapshot has every entry of the cut");
        self.all_given = true;
    }
    fn set_key_delay(&mut self, _: i64) {}
    fn weight(&self) -> usize {
        self.waiting.iter().map(Captured::weight).sum()
    }
    fn held_bytes(&self) -> usize {
        self.waiting.iter().map(Captured::footprint).sum()
    }
    fn freed_value_bytes(&self) -> u64 {
        self.freed_value_bytes
    }
    fn progress(&self) -> u64 {
        self.entries
    }
    fn warning(&mut self) -> Option<String> {
        self.warning.take()
    }
    fn outcome(&mut self) -> Option<Result<(), SaveError>> {
        self.write();
        if let Some(reason) = &self.failed {
            self.sink.take()?;
            return Some(Err(SaveError(format!("Write error saving DB on disk: {reason}"))));
        }
        if !self.all_given || !self.waiting.is_empty() {
            return None;
        }
        let mut sink = self.sink.take()?;
        let mut give = |bytes: Bytes| {
            sink.write(bytes);
            ControlFlow::Continue(())
        };
        let _ = self.file.take()?.finish(&mut give);
        sink.finish();
        Some(Ok(()))
    }
}

/// A snapshot that is read from memory, at most 1,000 bytes at a time.
struct MemorySource {
    /// The bytes; `None` if there is no such file.
    bytes: Option<Vec<u8>>,
    at: usize,
    /// The name of the file; `None` if the file cannot have a second name.
    name: Option<Vec<u8>>,
}

impl SnapshotSource for MemorySource {
    fn keep(&mut self) -> Result<Option<String>, String> {
        let name = self.name.as_deref().ok_or("Operation not permitted")?;
        Ok(Some(format!("{}.as-loaded-1", name.escape_ascii())))
    }
    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(self.bytes.as_ref().map(|bytes| bytes.len() as u64))
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let rest = &self.bytes.as_ref().expect("it was opened")[self.at..];
        let len = rest.len().min(into.len()).min(1000);
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

/// Files of an append-only file in memory.
struct MemoryFiles {
    parts: NamedBytes,
    kept: NamedBytes,
}

/// Files in memory: their names and bytes.
type NamedBytes = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

impl AofFiles for MemoryFiles {
    fn list(&mut self) -> Result<Vec<AofPart>, Vec<String>> {
        let parts = self.parts.lock().unwrap();
        let part = |(at, (name, bytes)): (usize, &(String, Vec<u8>))| AofPart {
            name: name.clone(),
            is_base: at == 0,
            is_old_style: false,
            source: Box::new(MemoryPart {
                source: MemorySource {
                    bytes: Some(bytes.clone()),
                    at: 0,
                    name: Some(name.clone().into_bytes()),
                },
                parts: self.parts.clone(),
                kept: self.kept.clone(),
                index: at,
            }),
        };
        Ok(parts.iter().enumerate().map(part).collect())
    }
}

/// One file of an append-only file in memory.
struct MemoryPart {
    source: MemorySource,
    parts: NamedBytes,
    kept: NamedBytes,
    index: usize,
}

impl SnapshotSource for MemoryPart {
    fn keep(&mut self) -> Result<Option<String>, String> {
        self.source.keep()
    }
    fn open(&mut self) -> Result<Option<u64>, String> {
        self.source.open()
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        self.source.read(into)
    }
}

impl AofSource for MemoryPart {
    fn cut_off(&mut self, size: u64, at_s: i64) -> Result<String, String> {
        let (name, bytes) = &mut self.parts.lock().unwrap()[self.index];
        let name = format!("{name}.cut-{at_s}");
        self.kept.lock().unwrap().push((name.clone(), bytes.split_off(size as usize)));
        Ok(name)
    }
}

impl Default for FakeProcess {
    fn default() -> FakeProcess {
        FakeProcess {
            user_files: BTreeMap::new(),
            has_no_second_names: false,
            now: Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 },
            entropy: 0,
            migrated: Vec::new(),
            migration_outcome: MigrationOutcome::default(),
            spooled: Rc::default(),
            is_spool_stuck: Rc::default(),
            log: Vec::new(),
            logs_as_replica: false,
            applied: Vec::new(),
            refuse: None,
            file: None,
            memory_shown: Vec::new(),
            shown: Vec::new(),
            facts: Facts { pid: 4711, used_memory: 1 << 20, ..Facts::default() },
            snapshots: Snapshots::default(),
            refuse_snapshots: None,
            background_room: Rc::new(Cell::new(usize::MAX)),
            background_held: Rc::default(),
            replicas_lack_room: Rc::default(),
            background_warning: Rc::default(),
            background_fault: Rc::default(),
            background_given: Rc::default(),
            aof_cuts: Vec::new(),
            aof_ended: Vec::new(),
            aof_snapshot_bases: Vec::new(),
            aof_closed: Vec::new(),
            aof_has_base: true,
            aof_closes: false,
            counts_data: false,
            aof_backlog_at_cut: AofBacklog::Fine,
            aof_parts: Arc::default(),
            aof_kept: Arc::default(),
            us_each_look: 1,
        }
    }
}

impl FakeProcess {
    /// Moves the clock forward, in microseconds.
    pub fn pass_us(&mut self, us: u64) {
        self.now.mono_ns += us * 1000;
        self.now.unix_us += us as i64;
    }
}

impl ProcessClock for FakeProcess {
    fn now(&mut self) -> Now {
        self.pass_us(self.us_each_look);
        self.now
    }

    fn recent(&mut self) -> Now {
        self.now
    }

    fn sleep(&mut self, microseconds: u64) {
        self.pass_us(microseconds);
    }
}

impl ProcessMemory for FakeProcess {
    fn used_memory(&mut self, _: &Keyspace) -> usize {
        self.facts.used_memory
    }

    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize {
        match self.counts_data {
            true => {
                let cuts = keyspace.iter().filter_map(|(_, db)| db.cut_state());
                let waiting: usize = cuts.map(|cut| cut.waiting_bytes).sum();
                self.facts.used_memory + keyspace.data_bytes() + waiting + self.background_held.get()
            }
            false => self.facts.used_memory,
        }
    }

    fn purge_memory(&mut self) {}

    fn malloc_stats(&mut self) -> String {
        "fake".into()
    }
}

impl ProcessSettings for FakeProcess {
    fn apply_config(&mut self, _: &Config, changed: ParamId) -> Result<(), String> {
        if let Some(text) = &self.refuse {
            return Err(text.clone());
        }
        self.applied.push(changed.param().name);
        Ok(())
    }

    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        match &self.file {
            None => Err("The server is running without a config file".into()),
            Some(text) => {
                self.file = Some(String::from_utf8_lossy(&make(Some(text.as_bytes()))).into_owned());
                Ok(())
            }
        }
    }
}

impl SnapshotFiles for FakeProcess {
    fn create_snapshot(&mut self, name: &[u8], _: bool) -> Result<Box<dyn SnapshotSink>, SaveError> {
        if let Some(text) = &self.refuse_snapshots {
            return Err(SaveError(text.clone()));
        }
        Ok(Box::new(MemorySink { files: self.snapshots.clone(), name: name.to_vec(), bytes: Vec::new() }))
    }

    fn write_in_background(
        &mut self,
        target: BackgroundFile,
        file: SnapshotFile,
    ) -> Result<Box<dyn Background>, SaveError> {
        if let Some(text) = &self.refuse_snapshots {
            return Err(SaveError(text.clone()));
        }
        let sink = MemorySink { files: self.snapshots.clone(), name: target.name, bytes: Vec::new() };
        Ok(Box::new(MemoryBackground::new(file, sink, self).on_disk(self)))
    }

    fn snapshot_for_replicas(
        &mut self,
        replicas: usize,
        _: i64,
        file: SnapshotFile,
    ) -> Result<(Box<dyn Background>, Box<dyn SnapshotPieces>), SaveError> {
        if let Some(text) = &self.refuse_snapshots {
            return Err(SaveError(text.clone()));
        }
        let lacks_room = self.replicas_lack_room.clone();
        let pieces = MemoryPieces { taken: vec![0; replicas], lacks_room, ..MemoryPieces::default() };
        let pieces = Rc::new(RefCell::new(pieces));
        let sink = MemoryPiecesSink(pieces.clone());
        let background = MemoryBackground::new(file, sink, self);
        Ok((Box::new(background), Box::new(MemoryPiecesSource(pieces))))
    }

    fn spool_stream(&mut self, replicas: usize) -> Result<Box<dyn StreamSpool>, SaveError> {
        let (spooled, is_stuck) = (self.spooled.clone(), self.is_spool_stuck.clone());
        let taken = vec![0; replicas];
        Ok(Box::new(MemorySpool { blocks: Vec::new(), taken, spooled, is_stuck, unwritten: 0 }))
    }

    fn snapshot_source(&mut self, name: &[u8]) -> Box<dyn SnapshotSource> {
        let bytes = self.snapshots.borrow().get(name).cloned();
        let name = (!self.has_no_second_names).then(|| name.to_vec());
        Box::new(MemorySource { bytes, at: 0, name })
    }
}

impl UserFile for FakeProcess {
    fn read_user_file(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        self.user_files.get(path).cloned().ok_or_else(|| "No such file or directory".to_owned())
    }

    fn replace_user_file(&mut self, path: &[u8], text: &[u8]) -> Result<(), String> {
        self.user_files.insert(path.to_vec(), text.to_vec());
        Ok(())
    }
}

impl AppendOnlyFile for FakeProcess {
    fn switch_increment(
        &mut self,
        increment: AofIncrement,
        _: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError> {
        self.aof_cuts.push((increment, pending, position));
        Ok(self.aof_backlog_at_cut)
    }

    fn end_aof_rewrite(&mut self, is_whole: bool) {
        self.aof_ended.push(is_whole);
    }

    fn use_snapshot_as_base(&mut self, name: &[u8]) {
        self.aof_snapshot_bases.push(name.to_vec());
    }

    fn has_links(&self) -> bool {
        true
    }

    fn has_aof_base(&mut self) -> bool {
        self.aof_has_base
    }

    fn close_aof(&mut self, _: &Config, pending: Vec<u8>, position: u64) {
        self.aof_closed.push((pending, position));
    }

    fn is_aof_closing(&mut self) -> bool {
        self.aof_closes
    }

    fn aof(&mut self) -> AofFacts {
        self.facts.aof
    }

    fn aof_files(&mut self, _: &Config, pending: Vec<u8>, _: u64) -> Box<dyn AofFiles> {
        if let Some((_, bytes)) = self.aof_parts.lock().unwrap().last_mut() {
            bytes.extend_from_slice(&pending);
        }
        Box::new(MemoryFiles { parts: self.aof_parts.clone(), kept: self.aof_kept.clone() })
    }
}

impl Process for FakeProcess {
    fn facts(&mut self, _: &Keyspace) -> Facts {
        self.facts.clone()
    }

    fn facts_for_info(&mut self, keyspace: &Keyspace, memory: MemoryShown) -> Facts {
        self.memory_shown.push(memory);
        self.facts(keyspace)
    }

    fn sync(&mut self) -> Option<SyncFacts> {
        self.facts.sync
    }

    fn show_progress(&mut self, works: &[LongWork]) {
        self.shown.push(works.to_vec());
    }

    fn counts(&mut self) -> Counts {
        Counts::default()
    }

    fn migrate(&mut self, migration: Migration) -> MigrationOutcome {
        let mut sent = Vec::new();
        (0..migration.key_count()).for_each(|number| migration.push_restore(number, &mut sent));
        self.migrated.push(sent);
        self.migration_outcome.clone()
    }

    fn set_role(&mut self, is_replica: bool) {
        self.logs_as_replica = is_replica;
    }

    fn log(&mut self, level: LogLevel, line: &str) {
        self.log.push((level, line.to_owned()));
    }

    fn entropy(&mut self) -> [u8; 20] {
        self.entropy = self.entropy.wrapping_add(1);
        [self.entropy; 20]
    }
}

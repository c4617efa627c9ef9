//! A queue of a snapshot's pieces, from the thread that makes the snapshot to replicas or to a file. The
//! pieces are kept in memory up to a bound, and beyond that in a scratch file.
//!
//! ```text
//!  thread that makes it ──push──► chunks ──next──► replicas, by the main thread: each at its own position
//!                                  │  │  └─take──► or the thread that writes the file
//!                                  │  └── beyond MEMORY_MAX: written to the scratch file, which has no name any more
//!                                  ▼
//!                            loading thread: reads ahead for a replica that found its next chunk on disk
//! ```
//!
//! Invariants: (1) the main thread never waits and touches no file; (2) the thread that makes the snapshot
//! waits for replicas only if the scratch file cannot be made or written, and for the thread that writes the
//! file also while captured changes weigh less than `SPILL_WEIGHT` of `background.rs`; (3) the pieces take at
//! most [`MEMORY_MAX`] or the bytes of one larger piece, and for each replica less than [`LOADED_MAX`] plus
//! one piece that were read ahead; (4) a chunk is freed when the last reader has passed it, and the scratch
//! file when the writer and all readers of the file are gone, or when the process ends.

use crate::threads::Thread;
use sluice_base::Bytes;
use sluice_control::process::SaveError;
use sluice_evloop::Waker;
use sluice_replication::{NextPiece, SnapshotPieces, SnapshotProgress};
use sluice_storage::plain_error;
use sluice_storage::replacement::folder_of;
use sluice_storage::{Storage, StorageFile};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes of pieces in memory, apart from a single larger piece and from pieces that were
/// read ahead.
const MEMORY_MAX: usize = 4 << 20;
/// No more chunks are read ahead for a reader for which at least this many bytes were read ahead.
const LOADED_MAX: usize = 1 << 20;
/// The scratch file leaves at least this many bytes of its disk free, so that an append-only file there can
/// grow.
const FREE_KEPT: u64 = 64 << 20;
/// The scratch file also leaves free at least 1/`FREE_KEPT_SHARE` of the space that was free when the file
/// was made.
const FREE_KEPT_SHARE: u64 = 10;
/// Permissions of the scratch file, which has a name only for a moment.
const MODE: u32 = 0o600;

/// The state that the ends of a spool share.
pub struct Spool {
    state: Mutex<SpoolState>,
    /// Signals changes of the state for which a thread may wait.
    changed: Condvar,
    /// Whether a replica that got [`NextPiece::Later`] may find a piece or the end now.
    news: AtomicBool,
    /// Bytes of memory of the chunks.
    held: AtomicUsize,
    /// Whether changes are captured faster than entries are formatted, so that the thread that makes the
    /// snapshot must not wait for the file.
    pressed: AtomicBool,
    /// Whether `warning` has a line for the log.
    warns: AtomicBool,
    waker: Waker,
    taker: Taker,
}

/// The receiver of the snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taker {
    Replicas,
    File,
}

struct SpoolState {
    chunks: VecDeque<SpoolChunk>,
    /// Number of the first chunk in `chunks`, counted from the beginning.
    first: usize,
    readers: Vec<Option<SpoolReader>>,
    /// Number of bytes of chunks in memory, without chunks that were read ahead.
    memory: usize,
    /// Number of bytes of chunks that were read ahead from the scratch file.
    loaded: usize,
    /// Number of bytes of all pieces so far.
    total: u64,
    made: SnapshotProgress,
    /// The scratch file, for the thread that writes the snapshot file.
    scratch: Option<Box<dyn StorageFile>>,
    /// The reason why the scratch file takes no more pieces. The thread that makes the snapshot then
    /// waits until all readers have taken some chunks.
    lacks_room: Option<String>,
    /// The line for the log with this reason, until the line is taken.
    warning: Option<String>,
}

enum SpoolChunk {
    Memory(Bytes),
    Disk(ScratchRange),
}

/// A range of bytes in the scratch file.
#[derive(Clone, Copy)]
struct ScratchRange {
    at: u64,
    len: usize,
}

struct SpoolReader {
    /// Number of the first chunk that was neither taken nor claimed by the loading thread.
    next: usize,
    loaded: VecDeque<Bytes>,
    loaded_bytes: usize,
    /// Whether the reader found nothing to take.
    waits: bool,
    /// Whether the loading thread is reading the reader's next chunk.
    is_loading: bool,
    /// Whether reading the scratch file has failed.
    has_failed: bool,
}

/// The end at which the making thread adds pieces.
pub struct SpoolWriter {
    spool: Arc<Spool>,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    scratch: ScratchFile,
}

enum ScratchFile {
    None,
    File {
        file: Box<dyn StorageFile>,
        at: u64,
        /// Number of bytes of the disk that must stay free.
        kept_free: u64,
    },
    /// The scratch file cannot be created, or takes no more pieces.
    Unavailable,
}

/// The end at which the main thread takes pieces for replicas.
pub struct SpoolReaders(Arc<Spool>);

/// The end at which the thread that writes the file takes pieces.
pub struct SpoolFileReader {
    spool: Arc<Spool>,
    scratch: Option<Box<dyn StorageFile>>,
    failure: Option<SaveError>,
}

/// A piece taken to be written.
pub struct TakenPiece {
    /// The bytes of the piece, which follow the bytes of earlier pieces in the file.
    pub bytes: Bytes,
    /// Bytes of memory of the remaining pieces.
    pub left_bytes: usize,
}

/// A spool for `replicas` replicas. Its scratch file is made at `path` when needed, and is unlinked at once.
pub fn for_replicas(
    storage: &Arc<dyn Storage>,
    path: PathBuf,
    replicas: usize,
    waker: Waker,
) -> (SpoolWriter, SpoolReaders) {
    let writer = spool(storage, path, Taker::Replicas, replicas, waker);
    let readers = SpoolReaders(writer.shared());
    (writer, readers)
}

/// A spool from which a thread writes a file; otherwise like [`for_replicas`].
pub fn for_file(storage: &Arc<dyn Storage>, path: PathBuf, waker: Waker) -> (SpoolWriter, SpoolFileReader) {
    let writer = spool(storage, path, Taker::File, 1, waker);
    let reader = SpoolFileReader { spool: writer.shared(), scratch: None, failure: None };
    (writer, reader)
}

fn spool(
    storage: &Arc<dyn Storage>,
    path: PathBuf,
    taker: Taker,
    readers: usize,
    waker: Waker,
) -> SpoolWriter {
    let reader = || SpoolReader {
        next: 0,
        loaded: VecDeque::new(),
        loaded_bytes: 0,
        waits: false,
        is_loading: false,
        has_failed: false,
    };
    let state = SpoolState {
        chunks: VecDeque::new(),
        first: 0,
        readers: (0..readers).map(|_| Some(reader())).collect(),
        memory: 0,
        loaded: 0,
        total: 0,
        made: SnapshotProgress::UnderWay,
        scratch: None,
        lacks_room: None,
        warning: None,
    };
    let spool = Arc::new(Spool {
        state: Mutex::new(state),
        changed: Condvar::new(),
        news: AtomicBool::new(false),
        held: AtomicUsize::new(0),
        pressed: AtomicBool::new(false),
        warns: AtomicBool::new(false),
        waker,
        taker,
    });
    SpoolWriter { spool, storage: storage.clone(), path, scratch: ScratchFile::None }
}

impl Spool {
    fn lock(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, SpoolState>) -> MutexGuard<'a, SpoolState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory of the pieces that at least one reader has not taken, including pieces that were read
    /// ahead.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Records that changes are captured faster than entries are formatted, so that the thread that makes
    /// the snapshot no longer waits for the file.
    pub fn press(&self) {
        let state = self.lock();
        // Relaxed: the lock orders the store before the check of a thread that is about to wait.
        self.pressed.store(true, Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Records that changes are no longer captured faster than entries are formatted, so that the thread that
    /// makes the snapshot may wait for the file again.
    pub fn ease(&self) {
        self.pressed.store(false, Relaxed);
    }

    /// A line for the log with the reason why the scratch file takes no more pieces. It is returned only
    /// once.
    pub fn warning(&self) -> Option<String> {
        // Acquire: pairs with the store in `SpoolWriter::go_without`.
        self.warns.swap(false, Acquire).then(|| self.lock().warning.take()).flatten()
    }

    /// Publishes the memory in use, releases the lock, and wakes waiting threads.
    fn let_go(&self, state: MutexGuard<'_, SpoolState>) {
        self.held.store(state.memory + state.loaded, Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Wakes the main thread to check its replicas again; does nothing if a thread writes the file.
    fn report(&self) {
        if self.taker == Taker::File {
            return;
        }
        // Release: pairs with the swap by which the main thread takes the flag; the main thread then locks
        // the state to read it.
        self.news.store(true, Release);
        self.waker.wake();
    }

    /// Breaks the snapshot off. Unless the snapshot is complete, no pieces can be added or taken any more.
    pub fn break_off(&self) {
        let mut state = self.lock();
        if state.made == SnapshotProgress::UnderWay {
            state.made = SnapshotProgress::Failed;
        }
        self.let_go(state);
        self.report();
    }

    /// Removes all readers, so that untaken chunks are freed, even if other holders still share the
    /// spool. Returns the scratch file, if no reader has taken it.
    fn give_up(&self) -> Option<Box<dyn StorageFile>> {
        self.break_off();
        let mut state = self.lock();
        state.readers.iter_mut().for_each(|reader| *reader = None);
        state.loaded = 0;
        state.free_passed();
        let scratch = state.scratch.take();
        self.let_go(state);
        scratch
    }

    /// Adds a chunk, and wakes the threads that wait for a chunk.
    fn add(&self, mut state: MutexGuard<'_, SpoolState>, chunk: SpoolChunk) {
        let len = match &chunk {
            SpoolChunk::Memory(bytes) => {
                state.memory += bytes.len();
                bytes.len()
            }
            SpoolChunk::Disk(range) => range.len,
        };
        state.total += len as u64;
        state.chunks.push_back(chunk);
        let waits = state.readers.iter().flatten().any(|reader| reader.waits);
        self.let_go(state);
        if waits {
            self.report();
        }
    }

    /// Reads ahead for readers that wait for a chunk on disk, until no reader is left or the
    /// snapshot has failed.
    fn load(&self, mut file: Box<dyn StorageFile>) {
        let mut state = self.lock();
        while state.made != SnapshotProgress::Failed && state.readers.iter().any(Option::is_some) {
            let Some((number, range)) = state.next_load() else {
                state = self.wait(state);
                continue;
            };
            drop(state);
            let loaded = read(file.as_mut(), range);
            state = self.lock();
            if let Some(reader) = &mut state.readers[number] {
                reader.is_loading = false;
                match loaded {
                    Ok(bytes) => {
                        reader.loaded_bytes += bytes.len();
                        reader.loaded.push_back(bytes);
                        state.loaded += range.len;
                    }
                    Err(_) => reader.has_failed = true,
                }
                self.let_go(state);
                self.report();
                state = self.lock();
            }
        }
    }
}

impl SpoolState {
    fn chunk(&self, number: usize) -> Option<&SpoolChunk> {
        self.chunks.get(number.checked_sub(self.first)?)
    }

    /// Chooses a waiting reader whose next chunk is on disk and may be read ahead, and marks it as being
    /// served. Returns the number of the reader and the range of the chunk.
    fn next_load(&mut self) -> Option<(usize, ScratchRange)> {
        for number in 0..self.readers.len() {
            let Some(reader) = &self.readers[number] else { continue };
            if !reader.waits || reader.has_failed || reader.loaded_bytes >= LOADED_MAX {
                continue;
            }
            let Some(SpoolChunk::Disk(range)) = self.chunk(reader.next) else { continue };
            let range = *range;
            if let Some(reader) = &mut self.readers[number] {
                reader.next += 1;
                reader.is_loading = true;
            }
            self.free_passed();
            return Some((number, range));
        }
        None
    }

    /// Frees the chunks that all readers have passed.
    fn free_passed(&mut self) {
        let Some(least) = self.readers.iter().flatten().map(|reader| reader.next).min() else {
            self.chunks.clear();
            self.memory = 0;
            return;
        };
        while self.first < least {
            self.first += 1;
            if let Some(SpoolChunk::Memory(bytes)) = self.chunks.pop_front() {
                self.memory -= bytes.len();
            }
        }
    }
}

fn read(file: &mut dyn StorageFile, range: ScratchRange) -> io::Result<Bytes> {
    let (mut bytes, mut filled) = (vec![0; range.len], 0);
    while filled < range.len {
        match file.read_at(range.at + filled as u64, &mut bytes[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Bytes::from_vec(bytes))
}

impl SpoolWriter {
    /// The shared state, through which the snapshot can be broken off.
    pub fn shared(&self) -> Arc<Spool> {
        self.spool.clone()
    }

    /// Adds a piece. Waits in the cases that invariant 2 names. Errors: the snapshot was broken off, or no
    /// reader is left.
    pub fn push(&mut self, piece: Bytes) -> Result<(), SaveError> {
        if piece.is_empty() {
            return Ok(());
        }
        let spool = self.spool.clone();
        let mut state = spool.lock();
        loop {
            if state.made == SnapshotProgress::Failed || state.readers.iter().all(Option::is_none) {
                return Err(SaveError("Saving was stopped".to_owned()));
            }
            let has_room = state.memory == 0 || state.memory + piece.len() <= MEMORY_MAX;
            match self.scratch {
                _ if has_room => {
                    spool.add(state, SpoolChunk::Memory(piece));
                    return Ok(());
                }
                // Relaxed: the lock orders this load after the store in `press`.
                _ if spool.taker == Taker::File && !spool.pressed.load(Relaxed) => state = spool.wait(state),
                ScratchFile::Unavailable => state = spool.wait(state),
                ScratchFile::None => {
                    drop(state);
                    if let Err(reason) = self.make_scratch() {
                        self.go_without(&reason);
                    }
                    state = spool.lock();
                }
                ScratchFile::File { .. } => {
                    drop(state);
                    match self.spill(&piece) {
                        Ok(range) => {
                            spool.add(spool.lock(), SpoolChunk::Disk(range));
                            return Ok(());
                        }
                        Err(reason) => self.go_without(&reason),
                    }
                    state = spool.lock();
                }
            }
        }
    }

    /// Records that all pieces were added.
    pub fn end(&self) {
        let mut state = self.spool.lock();
        if state.made == SnapshotProgress::UnderWay {
            state.made = SnapshotProgress::Whole(state.total);
        }
        self.spool.let_go(state);
        self.spool.report();
    }

    /// Creates the scratch file, and hands it to the reader or starts the loading thread. Errors: the reason
    /// why this failed.
    fn make_scratch(&mut self) -> Result<(), String> {
        let SpoolWriter { spool, storage, path, .. } = self;
        // If the free space is not known, only a write error shows that the disk is full.
        let free = storage.free_bytes(folder_of(path)).unwrap_or(u64::MAX);
        let kept_free = FREE_KEPT.max(free / FREE_KEPT_SHARE);
        check_free(free, kept_free)?;
        let made = storage.create(path, MODE).and_then(|file| {
            let reading = storage.open(path);
            storage.remove(path)?;
            let (reading, spool) = (reading?, spool.clone());
            if spool.taker == Taker::File {
                spool.lock().scratch = Some(reading);
                return Ok(file);
            }
            Thread::SnapshotLoad.start(move || spool.load(reading))?;
            Ok(file)
        });
        let file = made.map_err(|error| format!("it cannot be made: {}", plain_error(&error)))?;
        self.scratch = ScratchFile::File { file, at: 0, kept_free };
        Ok(())
    }

    /// Appends a piece to the scratch file. Errors: the reason why the piece was not written.
    fn spill(&mut self, piece: &[u8]) -> Result<ScratchRange, String> {
        let ScratchFile::File { file, at, kept_free } = &mut self.scratch else {
            unreachable!("it is asked for where there is a file")
        };
        let free = self.storage.free_bytes(folder_of(&self.path)).unwrap_or(u64::MAX);
        check_free(free.saturating_sub(piece.len() as u64), *kept_free)?;
        let range = ScratchRange { at: *at, len: piece.len() };
        let mut rest = piece;
        while !rest.is_empty() {
            let error = match file.write(rest) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = &rest[written..];
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            // The space of a partly written piece is freed. If the truncation fails, the bytes stay but
            // are never read.
            let _ = file.truncate(*at);
            return Err(format!("write error: {}", plain_error(&error)));
        }
        *at += piece.len() as u64;
        Ok(range)
    }

    /// Stops writing to the scratch file; the chunks in it are still read. A line for the log gives the
    /// reason.
    fn go_without(&mut self, reason: &str) {
        self.scratch = ScratchFile::Unavailable;
        let line = format!(
            "A scratch file of a snapshot or stream cannot be written any further, so its sender waits for the slowest receiver; make room in dir: {reason}"
        );
        let mut state = self.spool.lock();
        state.lacks_room = Some(reason.to_owned());
        state.warning = Some(line);
        drop(state);
        // Release: a thread that sees the flag also sees the line.
        self.spool.warns.store(true, Release);
        // The main thread disconnects replicas that need the length of the snapshot first. Such replicas
        // take no piece until the snapshot is complete, and without a scratch file the thread that makes
        // the snapshot would wait for them.
        self.spool.report();
        self.spool.waker.wake();
    }
}

fn check_free(free: u64, kept_free: u64) -> Result<(), String> {
    match free < kept_free {
        true => Err(format!("{kept_free} bytes of the disk must stay free")),
        false => Ok(()),
    }
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        // If the snapshot is complete, this only wakes threads that wait for its end.
        self.spool.break_off();
    }
}

impl SnapshotPieces for SpoolReaders {
    fn next(&mut self, replica: usize) -> NextPiece {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if state.made == SnapshotProgress::Failed {
            return NextPiece::Failed;
        }
        let end = state.first + state.chunks.len();
        let Some(reader) = state.readers.get_mut(replica).and_then(Option::as_mut) else {
            return NextPiece::Failed;
        };
        if let Some(bytes) = reader.loaded.pop_front() {
            reader.loaded_bytes -= bytes.len();
            state.loaded -= bytes.len();
            self.0.let_go(guard);
            return NextPiece::Piece(bytes);
        }
        if reader.has_failed {
            return NextPiece::Failed;
        }
        let is_at_end = reader.next == end && !reader.is_loading;
        if is_at_end && matches!(state.made, SnapshotProgress::Whole(_)) {
            return NextPiece::End;
        }
        let in_memory = match state.chunks.get(reader.next - state.first) {
            Some(SpoolChunk::Memory(bytes)) if !reader.is_loading => bytes.clone(),
            Some(SpoolChunk::Memory(_) | SpoolChunk::Disk(_)) | None => {
                reader.waits = true;
                self.0.let_go(guard);
                return NextPiece::Later;
            }
        };
        reader.waits = false;
        reader.next += 1;
        state.free_passed();
        self.0.let_go(guard);
        NextPiece::Piece(in_memory)
    }

    fn leave(&mut self, replica: usize) {
        let mut state = self.0.lock();
        if let Some(reader) = state.readers.get_mut(replica).and_then(Option::take) {
            state.loaded -= reader.loaded_bytes;
        }
        state.free_passed();
        self.0.let_go(state);
    }

    fn made(&self) -> SnapshotProgress {
        self.0.lock().made
    }

    fn lacks_room(&self) -> Option<String> {
        self.0.lock().lacks_room.clone()
    }

    fn has_news(&self) -> bool {
        // AcqRel: pairs with the store in `report`.
        self.0.news.swap(false, AcqRel)
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }
}

impl Drop for SpoolReaders {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl SpoolFileReader {
    /// Waits for the next piece, and takes it. Returns `None` at the end, or after a failure;
    /// [`SpoolFileReader::is_whole`] distinguishes the two.
    pub fn take(&mut self) -> Option<TakenPiece> {
        let mut guard = self.spool.lock();
        let (range, left_bytes) = loop {
            let state = &mut *guard;
            if state.made == SnapshotProgress::Failed {
                return None;
            }
            let next = state.readers.first()?.as_ref()?.next;
            let found = match state.chunk(next) {
                Some(SpoolChunk::Memory(bytes)) => Some(Ok(bytes.clone())),
                Some(SpoolChunk::Disk(range)) => Some(Err(*range)),
                None => None,
            };
            if found.is_none() && state.made != SnapshotProgress::UnderWay {
                return None;
            }
            let Some(found) = found else {
                guard = self.spool.wait(guard);
                continue;
            };
            state.readers.first_mut()?.as_mut()?.next += 1;
            state.free_passed();
            if self.scratch.is_none() {
                self.scratch = state.scratch.take();
            }
            let left_bytes = state.memory;
            self.spool.let_go(guard);
            match found {
                Ok(bytes) => return Some(TakenPiece { bytes, left_bytes }),
                Err(range) => break (range, left_bytes),
            }
        };
        let loaded = match &mut self.scratch {
            Some(file) => read(file.as_mut(), range),
            None => Err(ErrorKind::NotFound.into()),
        };
        match loaded {
            Ok(bytes) => Some(TakenPiece { bytes, left_bytes }),
            Err(error) => {
                let reason = plain_error(&error);
                self.failure = Some(SaveError(format!("Read error on the scratch file of a save: {reason}")));
                self.spool.break_off();
                None
            }
        }
    }

    /// Whether the snapshot is complete and was read without error.
    pub fn is_whole(&self) -> bool {
        self.failure.is_none() && matches!(self.spool.lock().made, SnapshotProgress::Whole(_))
    }

    /// The error of this reader; `None` if there was none, or after a call has returned it.
    pub fn failure(&mut self) -> Option<SaveError> {
        self.failure.take()
    }
}

impl Drop for SpoolFileReader {
    fn drop(&mut self) {
        // The thread that makes the snapshot must be woken, because it may be waiting for room.
        let scratch = self.spool.give_up();
        // The file is freed on this thread, and not on the thread that drops the last share of the spool,
        // because freeing a large file takes long.
        drop(scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_storage::Real;
    use sluice_storage::faulty::{AfterCrash, Faulty, FileFault, Plan};

    const PIECE: usize = 256 << 10;

    fn waker() -> Waker {
        let config = sluice_evloop::Config::default();
        let chosen = sluice_evloop::AnyLoop::choose(sluice_evloop::Backend::Poll, &config).expect("a loop");
        chosen.event_loop.waker()
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-spool-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }

    fn piece(number: usize) -> Bytes {
        Bytes::from_vec((0..PIECE).map(|at| (at ^ (number * 31)) as u8).collect())
    }

    fn take(readers: &mut SpoolReaders, replica: usize) -> Bytes {
        loop {
            match readers.next(replica) {
                NextPiece::Piece(bytes) => return bytes,
                NextPiece::Later => std::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn replicas_take_a_snapshot_at_their_own_pace_and_whoever_makes_it_does_not_wait() {
        let folder = folder("pace");
        let storage: Arc<dyn Storage> = Arc::new(Real);
        let (mut writer, mut readers) = for_replicas(&storage, folder.join("scratch"), 3, waker());
        let pieces = 160;
        for number in 0..pieces {
            writer.push(piece(number)).expect("written");
            assert!(readers.held_bytes() <= MEMORY_MAX, "{}", readers.held_bytes());
        }
        assert!(readers.made() == SnapshotProgress::UnderWay && readers.lacks_room().is_none());
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "the scratch file has no name");
        // Replica 0 is ahead of the others, and takes the chunks on disk.
        for number in 0..pieces {
            assert_eq!(take(&mut readers, 0)[..], piece(number)[..], "{number}");
        }
        assert_eq!(readers.next(0), NextPiece::Later);
        readers.leave(2);
        assert!(readers.held_bytes() > MEMORY_MAX - PIECE, "the other one has taken nothing");
        assert!(readers.has_news() && !readers.has_news());
        writer.push(piece(pieces)).expect("written");
        assert!(readers.has_news(), "one that was told to come later finds something");
        writer.end();
        drop(writer);
        assert_eq!(readers.made(), SnapshotProgress::Whole(((pieces + 1) * PIECE) as u64));
        for number in 0..=pieces {
            assert_eq!(take(&mut readers, 1)[..], piece(number)[..], "{number}");
            assert!(readers.held_bytes() <= MEMORY_MAX + LOADED_MAX + PIECE);
        }
        take(&mut readers, 0);
        for replica in [0, 1] {
            assert_eq!(readers.next(replica), NextPiece::End);
            readers.leave(replica);
        }
        assert_eq!(readers.held_bytes(), 0);
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn without_a_scratch_file_a_snapshot_waits_for_the_slowest_replica() {
        let storage: Arc<dyn Storage> = Arc::new(Real);
        let nowhere = PathBuf::from("/nowhere/scratch");
        let (mut writer, mut readers) = for_replicas(&storage, nowhere, 2, waker());
        let pieces = 2 * MEMORY_MAX / PIECE;
        let making = std::thread::spawn(move || {
            for number in 0..pieces {
                writer.push(piece(number)).expect("written");
            }
            writer.end();
        });
        for number in 0..pieces {
            for replica in [0, 1] {
                assert_eq!(take(&mut readers, replica)[..], piece(number)[..], "{number}");
            }
            assert!(readers.held_bytes() <= MEMORY_MAX);
        }
        making.join().expect("no panic");
        assert_eq!(readers.next(0), NextPiece::End);
    }

    /// Sends a snapshot through a spool on a disk with a fault to two replicas that take the pieces
    /// alternately. Returns the line for the log.
    fn sync_with(fault: FileFault, first: u64) -> String {
        let folder = folder(&format!("{fault:?}"));
        let plan = Plan { fault, first, count: u64::MAX, seed: 1 };
        let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
        let (mut writer, mut readers) = for_replicas(&storage, folder.join("scratch"), 2, waker());
        let spool = writer.shared();
        let pieces = 2 * MEMORY_MAX / PIECE;
        let making = std::thread::spawn(move || {
            for number in 0..pieces {
                writer.push(piece(number)).expect("a full disk is no reason to fail");
            }
            writer.end();
        });
        let line = loop {
            if let Some(line) = spool.warning() {
                break line;
            }
            std::thread::yield_now();
        };
        assert_eq!(spool.warning(), None, "once");
        while !readers.has_news() {
            std::thread::yield_now();
        }
        assert!(readers.lacks_room().is_some_and(|reason| line.ends_with(&reason)));
        assert_eq!(readers.made(), SnapshotProgress::UnderWay);
        for number in 0..pieces {
            for replica in [0, 1] {
                assert_eq!(take(&mut readers, replica)[..], piece(number)[..], "{number}");
            }
            assert!(readers.held_bytes() <= MEMORY_MAX + 2 * (LOADED_MAX + PIECE));
        }
        making.join().expect("no panic");
        assert_eq!(readers.next(0), NextPiece::End);
        std::fs::remove_dir_all(&folder).expect("removable");
        line
    }

    #[test]
    fn a_scratch_disk_that_fails_ends_no_snapshot_and_what_it_has_is_read() {
        // The first fault occurs after the scratch file was created and unlinked, and some pieces were
        // written.
        for (fault, reason) in [
            (FileFault::FillsUp, "write error: No space left on device"),
            (FileFault::WriteError, "write error: I/O error"),
        ] {
            let line = sync_with(fault, 9);
            assert!(line.ends_with(reason), "{line}");
        }
        let line = sync_with(FileFault::WriteError, 1);
        assert!(line.contains("waits for the slowest receiver"), "{line}");
    }

    #[test]
    fn the_scratch_file_leaves_room_on_its_disk() {
        let line = sync_with(FileFault::NoSpace, u64::MAX);
        assert!(line.ends_with(": 67108864 bytes of the disk must stay free"), "{line}");
        assert!(check_free(FREE_KEPT - 1, FREE_KEPT).is_err());
        assert_eq!(check_free(FREE_KEPT, FREE_KEPT), Ok(()));
    }

    #[test]
    fn a_scratch_disk_that_fails_ends_no_save() {
        let folder = folder("save");
        let plan = Plan { fault: FileFault::FillsUp, first: 9, count: u64::MAX, seed: 1 };
        let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
        let (mut writer, mut reader) = for_file(&storage, folder.join("scratch"), waker());
        let spool = writer.shared();
        spool.press();
        let pieces = 2 * MEMORY_MAX / PIECE;
        let making = std::thread::spawn(move || {
            for number in 0..pieces {
                writer.push(piece(number)).expect("a full disk is no reason to fail");
            }
            writer.end();
        });
        while !spool.warns.load(Acquire) {
            std::thread::yield_now();
        }
        for number in 0..pieces {
            assert_eq!(reader.take().expect("a piece").bytes[..], piece(number)[..], "{number}");
        }
        assert!(reader.take().is_none() && reader.is_whole());
        making.join().expect("no panic");
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_snapshot_that_is_broken_off_fails_for_all_and_nobody_waits_for_ever() {
        let storage: Arc<dyn Storage> = Arc::new(Real);
        let (mut writer, mut readers) = for_replicas(&storage, PathBuf::from("/nowhere/s"), 1, waker());
        writer.push(piece(0)).expect("there is room");
        let spool = writer.shared();
        let making = std::thread::spawn(move || {
            let failed = (1..1000).find_map(|number| writer.push(piece(number)).err());
            failed.expect("it is broken off")
        });
        while readers.held_bytes() + PIECE <= MEMORY_MAX {
            std::thread::yield_now();
        }
        spool.break_off();
        assert_eq!(making.join().expect("no panic"), SaveError("Saving was stopped".to_owned()));
        assert_eq!(readers.next(0), NextPiece::Failed);
        assert_eq!(readers.made(), SnapshotProgress::Failed);
        assert!(spool.held_bytes() > 0);
        drop(readers);
        assert_eq!(spool.held_bytes(), 0, "whoever could break it off still shares it");
    }

    #[test]
    fn whoever_makes_a_file_waits_for_the_disk_until_changes_press() {
        let folder = folder("press");
        let storage: Arc<dyn Storage> = Arc::new(Real);
        let (mut writer, mut reader) = for_file(&storage, folder.join("scratch"), waker());
        let spool = writer.shared();
        let pieces = 4 * MEMORY_MAX / PIECE;
        let making = std::thread::spawn(move || {
            for number in 0..pieces {
                writer.push(piece(number)).expect("written");
            }
            writer.end();
        });
        while spool.held_bytes() + PIECE <= MEMORY_MAX {
            std::thread::yield_now();
        }
        assert!(!making.is_finished(), "it waits, as nobody writes");
        spool.press();
        making.join().expect("no panic");
        assert!(spool.held_bytes() <= MEMORY_MAX, "the rest is on disk: {}", spool.held_bytes());
        for number in 0..pieces {
            assert_eq!(reader.take().expect("a piece").bytes[..], piece(number)[..], "{number}");
        }
        assert!(reader.take().is_none() && reader.is_whole());
        assert_eq!(spool.held_bytes(), 0);
        std::fs::remove_dir_all(&folder).expect("removable");
    }
}

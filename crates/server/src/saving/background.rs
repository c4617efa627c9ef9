//! Files written in the background: captured entries are formatted, compressed and checksummed on one
//! thread, and written on another.
//!
//! ```text
//!  main thread ──pieces──► queue ──► formatting thread ──bytes──► spool ──► writing thread: file ──end──► sync, rename,
//!       ▲                                  │                                   │               sync of the folder ──► outcome
//!       └──── woken: caught up, or done ───┴───────────────────────────────────┘
//!  for replicas there is no writing thread: the main thread takes the bytes out of the spool
//! ```
//!
//! Invariants: (1) the main thread hands over pieces, reads counters and takes the outcome. It waits for a
//! thread only if it breaks a file off (aborts it) while the file gets its name; this wait is as long as a
//! rename;
//! (2) a file that was broken off never gets its name (see [`Commit`]); (3) after an error no more bytes are
//! written, and the file does not get its name; (4) while changing entries are captured faster than entries
//! are formatted ([`PRESSED_WEIGHT`]), nothing is compressed or delayed. Beyond [`SPILL_WEIGHT`] the
//! formatting thread does not wait for the disk either, and bytes that do not fit into the spool's memory
//! are written to its scratch file. Therefore, unless the scratch file cannot be written, the copies of
//! changing entries are held only as long as formatting takes.

use super::spool::{Spool, SpoolFileReader, SpoolWriter};
use crate::threads::Thread;
use sluice_base::Bytes;
use sluice_control::persistence::saving::key_delay_us;
use sluice_control::process::{Background, SaveError};
use sluice_evloop::Waker;
use sluice_keyspace::Captured;
use sluice_snapshot::SnapshotFile;
use sluice_storage::{LockHold, Storage};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The sink of a file that a thread writes.
pub trait BackgroundSink: Send {
    /// Writes the next piece completely.
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError>;

    /// Syncs the file and puts it in force. The step that makes the file valid, such as its rename, is done
    /// through `pass`, which may refuse the step.
    fn finish_through(self: Box<Self>, pass: &mut Pass<'_>) -> Result<(), SaveError>;

    /// For a snapshot, its temporary file, until the file gets its name.
    fn temporary_snapshot(&self) -> Option<PathBuf>;

    /// For a base of the append-only file, its temporary file, until the file gets its name.
    fn temporary_base(&self) -> Option<PathBuf> {
        None
    }
}

/// A function that performs the step passed to it, or refuses the step with an error.
pub type Pass<'a> = dyn FnMut(&mut dyn FnMut() -> Result<(), SaveError>) -> Result<(), SaveError> + 'a;

/// The main thread's side of a file that is written in the background.
pub struct BackgroundWriter {
    /// The channel for captured pieces; `None` after the last piece.
    pieces: Option<Sender<Captured>>,
    handle: WriterHandle,
    /// Whether the main thread passes the formatted bytes to replicas. Bytes that wait in the spool then
    /// count neither in `weight` nor in `held_bytes`.
    is_for_replicas: bool,
}

/// The resources of a background writer other than its sink.
pub struct WriterResources {
    /// Access to the file system.
    pub storage: Arc<dyn Storage>,
    /// Path for a scratch file.
    pub scratch: PathBuf,
    /// The claim that keeps other servers from using the file's name until the file is done.
    pub claim: Option<LockHold>,
}

/// A handle to a background writer, to query it or break it off.
#[derive(Clone)]
pub struct WriterHandle {
    shared: Arc<WriterState>,
    spool: Arc<Spool>,
    storage: Arc<dyn Storage>,
    /// For a snapshot, its temporary file, until the file gets its name.
    temporary: Option<PathBuf>,
    /// For a base, its temporary file, until the file gets its name.
    temporary_base: Option<PathBuf>,
}

#[derive(Default)]
struct WriterState {
    /// The sum of [`Captured::weight`] over the pieces that are not formatted yet.
    weight: AtomicUsize,
    /// Bytes of memory of the pieces that are not formatted yet.
    held: AtomicUsize,
    /// Bytes of large values that were freed with their pieces.
    freed_values: AtomicU64,
    /// Number of entries formatted so far.
    formatted: AtomicUsize,
    /// Bytes written to the file.
    written: AtomicU64,
    /// Whether the writing thread has bytes to write.
    is_writing: AtomicBool,
    /// Number of entries that the file must have.
    entries: AtomicUsize,
    /// Set when the file is broken off, and checked between two writes. Whether the file gets its name is
    /// decided by `commit`.
    broken_off: AtomicBool,
    /// Locked while the file gets its name.
    commit: Mutex<Commit>,
    /// The setting `rdb-key-save-delay`. It orders no other accesses (relaxed).
    key_delay: AtomicI64,
    /// The error of the formatting thread.
    not_formatted: Mutex<Option<SaveError>>,
    outcome: Mutex<Option<Result<(), SaveError>>>,
    has_ended: AtomicBool,
}

/// Whether the file may replace its predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Commit {
    /// Once complete, the new file may replace its predecessor.
    #[default]
    Allowed,
    /// The file must never replace its predecessor, because the save was broken off.
    Refused,
    /// The file has replaced its predecessor.
    Passed,
}

/// The main thread is woken when the weight of the unformatted pieces, or the bytes that wait to be written
/// to the file, fall below this.
const CAUGHT_UP_WEIGHT: usize = 2 << 20;
/// When the weight of the unformatted pieces reaches this, and until it falls below [`CAUGHT_UP_WEIGHT`],
/// entries count as changing faster than they are formatted. The cursor with which the main thread captures
/// unchanged entries stops at 4 MiB, so the weight can exceed 4 MiB only because of changes.
const PRESSED_WEIGHT: usize = 6 << 20;
/// If the weight of the unformatted pieces is at least this, the formatting thread must not wait for the disk
/// any more. The weight is so high that a disk which is syncing some megabytes is usually ready before it is
/// reached. This is better because bytes in the scratch file are written twice, which delays clients that
/// write more than the wait would.
const SPILL_WEIGHT: usize = 12 << 20;

impl BackgroundWriter {
    /// Begins to write a file into `sink`. `key_delay` is the setting `rdb-key-save-delay`.
    pub fn start(
        file: SnapshotFile,
        sink: Box<dyn BackgroundSink>,
        key_delay: i64,
        resources: WriterResources,
        waker: Waker,
    ) -> Result<BackgroundWriter, SaveError> {
        let WriterResources { storage, scratch, claim } = resources;
        let (into, from) = super::spool::for_file(&storage, scratch, waker.clone());
        let handle = WriterHandle {
            shared: WriterState::new(key_delay),
            spool: into.shared(),
            storage,
            temporary: sink.temporary_snapshot(),
            temporary_base: sink.temporary_base(),
        };
        let seen = handle.shared.clone();
        let woken = waker.clone();
        spawn(Thread::SnapshotWrite, move || {
            let outcome = write(sink, from, &seen, &woken);
            // The claim on the name is not needed any more, because the file either has its name by now, or
            // never gets it.
            drop(claim);
            seen.end(outcome, &woken);
        })?;
        // If the formatting thread cannot be started, dropping the spool ends the writing thread.
        let pieces = start_formatting(file, into, &handle, waker, |_, _| ())?;
        Ok(BackgroundWriter { pieces: Some(pieces), handle, is_for_replicas: false })
    }

    /// Begins to make a snapshot for replicas, which receive it from the spool.
    pub fn start_for_replicas(
        file: SnapshotFile,
        into: SpoolWriter,
        key_delay: i64,
        storage: Arc<dyn Storage>,
        waker: Waker,
    ) -> Result<BackgroundWriter, SaveError> {
        let handle = WriterHandle {
            shared: WriterState::new(key_delay),
            spool: into.shared(),
            storage,
            temporary: None,
            temporary_base: None,
        };
        let end = |shared: &WriterState, waker: &Waker| {
            let failed = shared.not_formatted.lock().unwrap_or_else(PoisonError::into_inner).take();
            shared.end(failed.map_or(Ok(()), Err), waker);
        };
        let pieces = start_formatting(file, into, &handle, waker, end)?;
        Ok(BackgroundWriter { pieces: Some(pieces), handle, is_for_replicas: true })
    }

    /// A handle, to query the writer or break it off.
    pub fn handle(&self) -> WriterHandle {
        self.handle.clone()
    }
}

impl WriterState {
    fn new(key_delay: i64) -> Arc<WriterState> {
        Arc::new(WriterState { key_delay: key_delay.into(), ..WriterState::default() })
    }

    fn end(&self, outcome: Result<(), SaveError>, waker: &Waker) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.has_ended.store(true, Release);
        waker.wake();
    }
}

fn spawn(thread: Thread<'_>, run: impl FnOnce() + Send + 'static) -> Result<(), SaveError> {
    let spawned = thread.start(run);
    spawned.map(drop).map_err(|error| SaveError(format!("Cannot start a thread to save: {error}")))
}

/// Starts the formatting thread, which calls `end` when it has succeeded or failed. Returns the channel
/// for captured pieces.
fn start_formatting(
    file: SnapshotFile,
    mut into: SpoolWriter,
    handle: &WriterHandle,
    waker: Waker,
    end: impl FnOnce(&WriterState, &Waker) + Send + 'static,
) -> Result<Sender<Captured>, SaveError> {
    let (pieces, received) = channel();
    let shared = handle.shared.clone();
    spawn(Thread::Snapshot, move || {
        let formatted = format(file, &mut into, &received, &shared, &waker);
        match formatted {
            Ok(()) => into.end(),
            Err(error) => {
                *shared.not_formatted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
        // Dropping the spool's end breaks an incomplete snapshot off.
        drop(into);
        end(&shared, &waker);
    })?;
    Ok(pieces)
}

impl WriterHandle {
    /// Breaks the file off. When this returns, the file has its name already, or never gets it. Waits
    /// only for a rename that is under way.
    pub fn break_off(&self) {
        self.shared.broken_off.store(true, Release);
        self.spool.break_off();
        let mut commit = self.shared.commit.lock().unwrap_or_else(PoisonError::into_inner);
        if *commit == Commit::Allowed {
            *commit = Commit::Refused;
            // The thread would also remove the file, but may be waiting for the disk. If the file is gone
            // already, the error is harmless.
            if let Some(temporary) = self.temporary.as_ref().or(self.temporary_base.as_ref()) {
                let _ = self.storage.remove(temporary);
            }
        }
    }

    /// Whether the file becomes a snapshot, and not a base of the append-only file.
    pub fn is_snapshot(&self) -> bool {
        self.temporary.is_some()
    }

    /// Whether the file is a base of the append-only file that is still being written, and was
    /// not broken off.
    pub fn is_base_under_way(&self) -> bool {
        self.temporary_base.is_some() && self.runs() && !self.shared.broken_off.load(Acquire)
    }

    /// Whether the thread has not ended, because it still writes, or was broken off and waits for the disk.
    pub fn runs(&self) -> bool {
        !self.shared.has_ended.load(Acquire)
    }
}

impl Background for BackgroundWriter {
    fn give(&mut self, piece: Captured) {
        let WriterHandle { shared, spool, .. } = &self.handle;
        let before = shared.weight.fetch_add(piece.weight(), Relaxed);
        shared.held.fetch_add(piece.footprint(), Relaxed);
        if before < SPILL_WEIGHT && before + piece.weight() >= SPILL_WEIGHT {
            spool.press();
        }
        if let Some(pieces) = &self.pieces {
            // The send fails only if the thread has ended early. Then its outcome is an error, and the
            // piece is not needed.
            let _ = pieces.send(piece);
        }
    }

    fn all_given(&mut self, entries: usize) {
        self.handle.shared.entries.store(entries, Release);
        self.pieces = None;
    }

    fn set_key_delay(&mut self, key_delay: i64) {
        self.handle.shared.key_delay.store(key_delay, Relaxed);
    }

    fn weight(&self) -> usize {
        let WriterHandle { shared, spool, .. } = &self.handle;
        let in_spool = if self.is_for_replicas { 0 } else { spool.held_bytes() };
        shared.weight.load(Acquire) + in_spool
    }

    fn held_bytes(&self) -> usize {
        let WriterHandle { shared, spool, .. } = &self.handle;
        let in_spool = if self.is_for_replicas { 0 } else { spool.held_bytes() };
        shared.held.load(Relaxed) + in_spool
    }

    fn freed_value_bytes(&self) -> u64 {
        self.handle.shared.freed_values.load(Relaxed)
    }

    fn progress(&self) -> u64 {
        let shared = &self.handle.shared;
        let written = shared.written.load(Relaxed);
        // While the disk hangs there is no progress, even if entries are being formatted.
        match shared.is_writing.load(Relaxed) {
            true => written,
            false => written + shared.formatted.load(Relaxed) as u64,
        }
    }

    fn warning(&mut self) -> Option<String> {
        self.handle.spool.warning()
    }

    fn outcome(&mut self) -> Option<Result<(), SaveError>> {
        self.handle.shared.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        if !self.handle.shared.has_ended.load(Acquire) {
            self.handle.break_off();
        }
    }
}

/// Formats all given pieces, and checks that they had the expected number of entries.
fn format(
    mut file: SnapshotFile,
    into: &mut SpoolWriter,
    pieces: &Receiver<Captured>,
    shared: &WriterState,
    waker: &Waker,
) -> Result<(), SaveError> {
    let spool = into.shared();
    // Only the first error is kept, because nothing is formatted after an error.
    let mut result = Ok(());
    let mut give = |bytes: Bytes| {
        if result.is_ok() {
            result = match shared.broken_off.load(Acquire) {
                true => Err(broken_off()),
                false => into.push(bytes),
            };
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (mut entries, mut is_pressed) = (0, false);
    for piece in pieces {
        let waiting = shared.weight.load(Relaxed);
        let was_pressed = is_pressed;
        is_pressed = waiting >= if was_pressed { CAUGHT_UP_WEIGHT } else { PRESSED_WEIGHT };
        if was_pressed && !is_pressed {
            spool.ease();
        }
        file.compress(!is_pressed);
        let mut each = || {
            entries += 1;
            shared.formatted.fetch_add(1, Relaxed);
            if !is_pressed {
                delay(entries, shared);
            }
        };
        let going = file.piece(&piece, &mut each, &mut give);
        let (weight, footprint) = (piece.weight(), piece.footprint());
        shared.freed_values.fetch_add(piece.own_value_bytes() as u64, Relaxed);
        drop(piece);
        shared.held.fetch_sub(footprint, Relaxed);
        let before = shared.weight.fetch_sub(weight, Release);
        if before >= CAUGHT_UP_WEIGHT && before - weight < CAUGHT_UP_WEIGHT {
            waker.wake();
        }
        if going.is_break() {
            break;
        }
    }
    if shared.broken_off.load(Acquire) {
        // The channel has closed because the save was broken off.
        return Err(broken_off());
    }
    let going = file.finish(&mut give);
    result?;
    let wanted = shared.entries.load(Acquire);
    if going.is_break() || entries != wanted {
        return Err(SaveError(format!(
            "A snapshot has {entries} of {wanted} keys: it was discarded. This is a bug of the server; please report it"
        )));
    }
    Ok(())
}

/// Writes the formatted bytes to the file, and puts the file in force.
fn write(
    mut sink: Box<dyn BackgroundSink>,
    mut from: SpoolFileReader,
    shared: &WriterState,
    waker: &Waker,
) -> Result<(), SaveError> {
    loop {
        shared.is_writing.store(false, Relaxed);
        let Some(piece) = from.take() else { break };
        shared.is_writing.store(true, Relaxed);
        if shared.broken_off.load(Acquire) {
            return Err(broken_off());
        }
        sink.write(&piece.bytes)?;
        shared.written.fetch_add(piece.bytes.len() as u64, Relaxed);
        if piece.left_bytes < CAUGHT_UP_WEIGHT && piece.left_bytes + piece.bytes.len() >= CAUGHT_UP_WEIGHT {
            waker.wake();
        }
    }
    if !from.is_whole() {
        let failed = shared.not_formatted.lock().unwrap_or_else(PoisonError::into_inner).take();
        return Err(from.failure().or(failed).unwrap_or_else(broken_off));
    }
    shared.is_writing.store(true, Relaxed);
    sink.finish_through(&mut |step| {
        let mut commit = shared.commit.lock().unwrap_or_else(PoisonError::into_inner);
        if *commit == Commit::Refused {
            return Err(broken_off());
        }
        step()?;
        *commit = Commit::Passed;
        Ok(())
    })
}

fn broken_off() -> SaveError {
    SaveError("Saving was stopped".to_owned())
}

/// A delay checks at intervals of this time whether its save was broken off or the setting has changed.
const DELAY_STEP: Duration = Duration::from_millis(10);

/// Waits after the key with this number, as `rdb-key-save-delay` demands. The setting may change during the
/// wait.
fn delay(number: usize, shared: &WriterState) {
    let mut waited = Duration::ZERO;
    loop {
        let wanted = key_delay_us(shared.key_delay.load(Relaxed), number as u64);
        let left = Duration::from_micros(wanted).saturating_sub(waited);
        if left.is_zero() || shared.broken_off.load(Relaxed) {
            return;
        }
        let step = left.min(DELAY_STEP);
        std::thread::sleep(step);
        waited += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saving::snapshot;
    use sluice_snapshot::SnapshotFile;
    use sluice_storage::FileAccess;
    use sluice_storage::{LockRefused, Real, StorageFile};
    use std::ffi::OsString;
    use std::io;
    use std::path::Path;
    use std::sync::mpsc;

    /// The real file system, except that each sync reports to the test that it waits, and continues when
    /// the test permits it.
    struct SlowSync {
        waits: Mutex<mpsc::Sender<()>>,
        goes_on: Arc<Mutex<Receiver<()>>>,
    }

    struct SlowFile {
        file: Box<dyn StorageFile>,
        waits: mpsc::Sender<()>,
        goes_on: Arc<Mutex<Receiver<()>>>,
    }

    impl Storage for SlowSync {
        fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn StorageFile>> {
            let waits = self.waits.lock().expect("no test has panicked").clone();
            let file = Real.create(path, mode)?;
            Ok(Box::new(SlowFile { file, waits, goes_on: self.goes_on.clone() }))
        }
        fn is_written(&self, path: &Path) -> bool {
            Real.is_written(path)
        }
        fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
            Real.open(path)
        }
        fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
            Real.append(path)
        }
        fn create_folder(&self, path: &Path) -> io::Result<()> {
            Real.create_folder(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            Real.rename(from, to)
        }
        fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
            Real.link(from, to)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            Real.remove(path)
        }
        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            Real.sync_folder(folder)
        }
        fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
            Real.list(folder)
        }
        fn is_there(&self, path: &Path) -> io::Result<bool> {
            Real.is_there(path)
        }
        fn is_same(&self, one: &Path, other: &Path) -> io::Result<bool> {
            Real.is_same(one, other)
        }
        fn access(&self, path: &Path) -> io::Result<FileAccess> {
            Real.access(path)
        }
        fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
            Real.free_bytes(folder)
        }
        fn lock(&self, path: &Path, text: &str) -> Result<LockHold, LockRefused> {
            Real.lock(path, text)
        }
    }

    impl StorageFile for SlowFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.file.write(bytes)
        }
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.file.read(into)
        }
        fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
            self.file.read_at(at, into)
        }
        fn sync(&mut self) -> io::Result<()> {
            self.waits.send(()).expect("the test listens");
            self.goes_on.lock().expect("no test has panicked").recv().expect("the test speaks");
            self.file.sync()
        }
        fn sync_data(&mut self) -> io::Result<()> {
            self.sync()
        }
        fn truncate(&mut self, bytes: u64) -> io::Result<()> {
            self.file.truncate(bytes)
        }
        fn size(&self) -> io::Result<u64> {
            self.file.size()
        }
        fn twin(&self) -> io::Result<Box<dyn StorageFile>> {
            self.file.twin()
        }
        fn set_access(&self, like: FileAccess) -> io::Result<()> {
            self.file.set_access(like)
        }
    }

    fn run(break_off: bool) -> (Result<(), SaveError>, Vec<String>) {
        let folder =
            std::env::temp_dir().join(format!("sluice-background-{}-{break_off}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let ((waits, waiting), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let slow = SlowSync { waits: Mutex::new(waits), goes_on: Arc::new(Mutex::new(goes_on)) };
        let storage: Arc<dyn Storage> = Arc::new(slow);
        let target = folder.join("dump.rdb");
        let name = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
        let sink = snapshot::create(&storage, name, false, 7).expect("a file");
        let config = sluice_evloop::Config::default();
        let event_loop =
            sluice_evloop::AnyLoop::choose(sluice_evloop::Backend::Poll, &config).expect("a loop").event_loop;
        let file = SnapshotFile::empty();
        let mut writer = BackgroundWriter::start(
            file,
            Box::new(sink),
            0,
            WriterResources { storage, scratch: folder.join("s"), claim: None },
            event_loop.waker(),
        )
        .expect("a thread");
        let handle = writer.handle();
        writer.all_given(0);
        waiting.recv().expect("the thread forces the file to disk");
        if break_off {
            handle.break_off();
        }
        go_on.send(()).expect("the thread waits");
        while handle.runs() {
            std::thread::yield_now();
        }
        let outcome = writer.outcome().expect("it has ended");
        let names = std::fs::read_dir(&folder).expect("a folder");
        let names =
            names.map(|name| name.expect("a name").file_name().to_string_lossy().into_owned()).collect();
        std::fs::remove_dir_all(&folder).expect("removable");
        (outcome, names)
    }

    #[test]
    fn a_file_that_is_broken_off_while_it_is_forced_to_disk_never_gets_its_name() {
        let (outcome, names) = run(true);
        assert_eq!(outcome, Err(broken_off()));
        assert!(names.is_empty(), "{names:?}");
        let (outcome, names) = run(false);
        assert_eq!(outcome, Ok(()));
        assert_eq!(names, ["dump.rdb"]);
    }

    /// Returns captured pieces of a keyspace with `strings` strings of 1 MiB, which compress well.
    fn captured(strings: usize) -> Vec<Captured> {
        use sluice_keyspace::{KeyHasher, Keyspace, Layout, NewValue};
        let seed = sluice_base::HashSeed { k0: 1, k1: 2 };
        let mut keyspace = Keyspace::new(1, KeyHasher::new(seed, Layout::One));
        for number in 0..strings {
            let text = Bytes::from_vec(vec![b'a'; 1 << 20]);
            let key = format!("key:{number}");
            assert!(keyspace.load(0, key.as_bytes(), NewValue::StrShared(&text), None, 0));
        }
        keyspace.begin_cut();
        let mut pieces = Vec::new();
        while keyspace.db(0).cut_state().is_some_and(|state| state.left > 0 || state.waiting_bytes > 0) {
            pieces.extend(keyspace.advance_cut(0, 1000));
        }
        pieces
    }

    /// Writes pieces that are given while the disk hangs. Returns the file's size, and the bytes held when
    /// formatting had caught up.
    fn write_with_hanging_disk(name: &str, pieces: Vec<Captured>) -> (u64, usize) {
        let folder = std::env::temp_dir().join(format!("sluice-background-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let ((waits, waiting), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let slow = SlowSync { waits: Mutex::new(waits), goes_on: Arc::new(Mutex::new(goes_on)) };
        let storage: Arc<dyn Storage> = Arc::new(slow);
        let target = folder.join("dump.rdb");
        let name = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
        let sink = snapshot::create(&storage, name, true, 0).expect("a file");
        let config = sluice_evloop::Config::default();
        let event_loop =
            sluice_evloop::AnyLoop::choose(sluice_evloop::Backend::Poll, &config).expect("a loop").event_loop;
        let entries = pieces.iter().map(Captured::len).sum();
        let file = SnapshotFile::compressing();
        let resources = WriterResources { storage, scratch: folder.join("scratch"), claim: None };
        // The delay after the first entry leaves the test time to give all pieces.
        let writer = BackgroundWriter::start(file, Box::new(sink), 200_000, resources, event_loop.waker());
        let mut writer = writer.expect("threads");
        pieces.into_iter().for_each(|piece| writer.give(piece));
        writer.all_given(entries);
        // The disk hangs at the first sync, but the pieces are formatted nevertheless, until formatting
        // has caught up.
        while writer.handle.shared.weight.load(Acquire) >= CAUGHT_UP_WEIGHT {
            std::thread::yield_now();
        }
        let held = writer.held_bytes();
        let mut syncs = 0;
        while writer.handle().runs() {
            if waiting.try_recv().is_ok() {
                syncs += 1;
                go_on.send(()).expect("the thread waits");
            }
            std::thread::yield_now();
        }
        assert!(syncs > 0);
        assert_eq!(writer.outcome(), Some(Ok(())));
        let bytes = std::fs::metadata(&target).expect("the file").len();
        std::fs::remove_dir_all(&folder).expect("removable");
        (bytes, held)
    }

    #[test]
    fn what_changes_have_captured_does_not_wait_for_a_disk_that_hangs_nor_is_it_compressed() {
        let (bytes, held) = write_with_hanging_disk("pressed", captured(64));
        assert!(bytes > 50 << 20, "what writers were ahead with is not compressed: {bytes}");
        assert!(held <= 8 << 20, "it waits on disk: {held}");
        let (bytes, _) = write_with_hanging_disk("calm", captured(4));
        assert!(bytes < 1 << 20, "a cursor's pieces are compressed: {bytes}");
    }
}

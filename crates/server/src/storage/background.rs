//! Files written on a thread of their own: what a cut has captured is formatted, compressed, summed and written there.
//!
//! ```text
//!  main thread ──pieces──► channel ──► thread: format ──► file ──end──► sync, rename, sync of the folder ──► outcome
//!       ▲                                 └── wakes the event loop: caught up, or done
//! ```
//!
//! Invariants: (1) the main thread hands over, reads counters and takes the outcome; it waits for the thread only to break it off
//! while the file gets its name, for the length of a rename; (2) a file that was broken off never gets its name: [`Commit`];
//! (3) after an error nothing more is written, and nothing gets its name.

use super::Storage;
use sluice_base::Bytes;
use sluice_engine::{Background, SaveError, SnapshotFile, key_delay_us};
use sluice_evloop::Waker;
use sluice_keyspace::Captured;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a thread writes a file to.
pub trait BackgroundSink: Send {
    /// Writes the next piece, whole.
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError>;

    /// Forces the file to disk and puts it in force; the step from which on it counts is made through `pass`, which may refuse it.
    fn finish_through(self: Box<Self>, pass: &mut Pass<'_>) -> Result<(), SaveError>;

    /// Of a snapshot: its file, as long as it has no other name.
    fn temporary_snapshot(&self) -> Option<PathBuf>;
}

/// Makes a step, or refuses it.
pub type Pass<'a> = dyn FnMut(&mut dyn FnMut() -> Result<(), SaveError>) -> Result<(), SaveError> + 'a;

/// A file that a thread writes.
pub struct BackgroundWriter {
    /// `None` behind the last piece.
    pieces: Option<Sender<Captured>>,
    handle: WriterHandle,
}

/// What can be asked of a file that a thread writes, and the order to break it off.
#[derive(Clone)]
pub struct WriterHandle {
    shared: Arc<WriterState>,
    storage: Arc<dyn Storage>,
    /// Of a snapshot: its file, as long as it has no other name.
    temporary: Option<PathBuf>,
}

#[derive(Default)]
struct WriterState {
    /// What is on its way to the file, as [`Captured::weight`] counts, and in bytes of memory.
    weight: AtomicUsize,
    held: AtomicUsize,
    /// Entries and bytes written.
    progress: AtomicU64,
    /// Entries that the file must have.
    entries: AtomicUsize,
    /// For looks between two writes; `commit` decides.
    broken_off: AtomicBool,
    /// Locked while the file gets its name.
    commit: Mutex<Commit>,
    /// The setting `rdb-key-save-delay`. Nothing follows from it (relaxed).
    key_delay: AtomicI64,
    outcome: Mutex<Option<Result<(), SaveError>>>,
    has_ended: AtomicBool,
}

/// Whether the file may take the place of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Commit {
    /// Once it is whole.
    #[default]
    Allowed,
    /// Never.
    Refused,
    /// It has.
    Passed,
}

/// The main thread is woken when less than this is on its way.
const CAUGHT_UP_WEIGHT: usize = 4 << 20;

impl BackgroundWriter {
    /// Begins to write a file into `sink`. `key_delay` is the setting `rdb-key-save-delay`.
    pub fn start(
        file: SnapshotFile,
        sink: Box<dyn BackgroundSink>,
        key_delay: i64,
        storage: Arc<dyn Storage>,
        waker: Waker,
    ) -> Result<BackgroundWriter, SaveError> {
        let shared = Arc::new(WriterState { key_delay: key_delay.into(), ..WriterState::default() });
        let temporary = sink.temporary_snapshot();
        let (pieces, received) = channel();
        let seen = shared.clone();
        let run = move || {
            let _stack = crate::crash::SignalStack::install();
            yield_to_others();
            let outcome = write(file, sink, &received, &seen, &waker);
            *seen.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            seen.has_ended.store(true, Release);
            waker.wake();
        };
        let spawned = std::thread::Builder::new().name("snapshot".to_owned()).spawn(run);
        spawned.map_err(|error| SaveError(format!("Cannot start a thread to save on: {error}")))?;
        Ok(BackgroundWriter { pieces: Some(pieces), handle: WriterHandle { shared, storage, temporary } })
    }

    /// For whoever may have to break it off.
    pub fn handle(&self) -> WriterHandle {
        self.handle.clone()
    }
}

impl WriterHandle {
    /// Breaks it off: when this returns, the file has its name already, or never gets it. Waits for a rename that is under way,
    /// and for nothing else.
    pub fn break_off(&self) {
        self.shared.broken_off.store(true, Release);
        let mut commit = self.shared.commit.lock().unwrap_or_else(PoisonError::into_inner);
        if *commit == Commit::Allowed {
            *commit = Commit::Refused;
            // The thread would remove it too, but may wait for the disk; that it is gone already is no matter.
            if let Some(temporary) = &self.temporary {
                let _ = self.storage.remove(temporary);
            }
        }
    }

    /// Whether it becomes the snapshot file, and not a base of the append-only file.
    pub fn is_snapshot(&self) -> bool {
        self.temporary.is_some()
    }

    /// Whether the thread has not ended: it writes, or was broken off and still waits for the disk.
    pub fn runs(&self) -> bool {
        !self.shared.has_ended.load(Acquire)
    }
}

impl Background for BackgroundWriter {
    fn give(&mut self, piece: Captured) {
        self.handle.shared.weight.fetch_add(piece.weight(), Relaxed);
        self.handle.shared.held.fetch_add(piece.footprint(), Relaxed);
        if let Some(pieces) = &self.pieces {
            // The thread ends early only with an outcome, which is an error: the piece is not needed then.
            let _ = pieces.send(piece);
        }
    }

    fn end(&mut self, entries: usize) {
        self.handle.shared.entries.store(entries, Release);
        self.pieces = None;
    }

    fn set_key_delay(&mut self, key_delay: i64) {
        self.handle.shared.key_delay.store(key_delay, Relaxed);
    }

    fn weight(&self) -> usize {
        self.handle.shared.weight.load(Acquire)
    }

    fn held_bytes(&self) -> usize {
        self.handle.shared.held.load(Relaxed)
    }

    fn progress(&self) -> u64 {
        self.handle.shared.progress.load(Relaxed)
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

/// Lets this thread have a third of what others get where processors are short; on an idle one it loses nothing.
fn yield_to_others() {
    // Only a matter of who waits: where it is not allowed, nothing is wrong.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// Niceness of the thread: at 5 it has the weight 335 of 1,024.
const NICE: i32 = 5;

fn write(
    mut file: SnapshotFile,
    mut sink: Box<dyn BackgroundSink>,
    pieces: &Receiver<Captured>,
    shared: &WriterState,
    waker: &Waker,
) -> Result<(), SaveError> {
    // The first error stands: nothing is written behind it.
    let mut result = Ok(());
    let mut give = |bytes: Bytes| {
        if result.is_ok() {
            result = match shared.broken_off.load(Acquire) {
                true => Err(broken_off()),
                false => sink.write(&bytes),
            };
            shared.progress.fetch_add(bytes.len() as u64, Relaxed);
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut entries = 0;
    for piece in pieces {
        let mut each = || {
            entries += 1;
            shared.progress.fetch_add(1, Relaxed);
            delay(entries, shared);
        };
        let going = file.piece(&piece, &mut each, &mut give);
        let (weight, footprint) = (piece.weight(), piece.footprint());
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
        // The channel has ended because the job has.
        return Err(broken_off());
    }
    let going = file.finish(&mut give);
    result?;
    let wanted = shared.entries.load(Acquire);
    if going.is_break() || entries != wanted {
        return Err(SaveError(format!(
            "A snapshot has {entries} of {wanted} keys: this is a defect; it is not kept"
        )));
    }
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
    SaveError("Saving was broken off".to_owned())
}

/// How long a wait goes on after its save was broken off or the setting has changed, at most.
const DELAY_STEP: Duration = Duration::from_millis(10);

/// Waits behind the key of that number, as `rdb-key-save-delay` wants it. The setting may change meanwhile.
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
    use crate::storage::{LockHold, LockRefused, Real, StorageFile, snapshot};
    use sluice_engine::SnapshotFile;
    use std::ffi::OsString;
    use std::io;
    use std::path::Path;
    use std::sync::mpsc;

    /// The files of the machine, whose sync waits for a word and says that it does.
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
        fn remove(&self, path: &Path) -> io::Result<()> {
            Real.remove(path)
        }
        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            Real.sync_folder(folder)
        }
        fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
            Real.list(folder)
        }
        fn mode(&self, path: &Path) -> io::Result<u32> {
            Real.mode(path)
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
        fn set_mode(&self, mode: u32) -> io::Result<()> {
            self.file.set_mode(mode)
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
        let mut writer =
            BackgroundWriter::start(file, Box::new(sink), 0, storage, event_loop.waker()).expect("a thread");
        let handle = writer.handle();
        writer.end(0);
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
}

//! Loading: a keyspace is filled on a thread of its own, where no client sees it, and handed over whole.
//!
//! ```text
//!  main thread                                     the thread of the load
//!  begins ────────── Action::Load(LoadJob) ──────► LoadJob::run
//!    │  commands get -LOADING, INFO the numbers ◄─ LoadProgress, wake-up with each line of the log
//!    │  old data to the freeing thread ◄────────── the file is one that can be loaded: wake-up
//!  Engine::advance_load ◄───────────────────────── the keyspace, or why there is none: wake-up
//! ```
//!
//! Invariants: (1) nobody but the load sees the keyspace that is filled, and the main thread waits for nothing; (2) keys that
//! have expired are left out; (3) nothing of it is an effect: nothing is propagated, no change is counted; clients that watch
//! keys learn that the old ones are gone and the new ones came; (4) memory beside the keyspace: one piece, and the value that is
//! read; (5) the old data go when the load begins, before there is a second copy, except where the file is merged into them:
//! then they are what the load fills; (6) while a load is under way the engine's keyspace is empty and stays empty, or is what an
//! append-only file will replace: the gate lets no command pass that could change it, and nothing is saved or rewritten.
//!
//! # Other sources and other loads
//!
//! *A replica's full sync* is a [`SnapshotSource`] whose `read` waits for the bytes that the main thread receives and passes on by
//! a channel, and fails when the channel's other end is gone. `open` answers 0 bytes where the primary does not say how many come.
//! With `swapdb` the old data stay: `OldData::Kept`. Where they are those of the same history, the check `loading` of the gate lets
//! commands pass that read them.
//!
//! *The append-only file* is replayed by a second engine without clients, which [`LoadJob::run`] makes on the load's thread: the
//! engine is given the job's keyspace, runs the commands of the log by it, and gives the keyspace back (`loading/aof.rs`). The
//! old data stay until then: no log that turns out to be damaged takes them.

mod aof;
mod file;
mod history;
mod staged;
mod under_way;

pub(crate) use aof::ReplayProcess;
pub(crate) use file::{Duplicates, PreambleLoad, piece_bytes};
pub use file::{LoadCounts, NotLoaded};
pub(crate) use history::LoadedHistory;
pub use under_way::LoadEnded;
pub(crate) use under_way::{LoadPlan, LoadPurpose, LoadUnderWay, NOT_RELOADED, OldData};

use crate::control::Control;
use crate::process::{AofFiles, LogLevel, SnapshotSource};
use aof::AofLoad;
use file::{Brought, FileLoad};
use sluice_base::Now;
use sluice_config::param;
use sluice_keyspace::{ChunkMemory, Keyspace};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a load asks of the thread that it runs on.
pub trait LoadThread {
    /// Wakes the main thread: there is something for [`crate::Engine::advance_load`].
    fn wake(&mut self);

    /// Waits, for the directive `key-load-delay`.
    fn sleep(&mut self, microseconds: u64);

    /// Reads the clock.
    fn now(&mut self) -> Now;
}

/// Where the data come from.
pub(crate) enum LoadSource {
    /// A snapshot file.
    Snapshot(Box<dyn SnapshotSource>),
    /// The files of an append-only file.
    Aof(Box<dyn AofFiles>),
}

/// What reads them.
enum LoadReader {
    Snapshot(Box<dyn SnapshotSource>, Box<FileLoad>),
    Aof(Box<AofLoad>),
}

/// A load that has to be run: by any thread, once.
pub struct LoadJob {
    reader: LoadReader,
    keyspace: Keyspace,
    old: OldData,
    progress: Arc<LoadProgress>,
}

impl std::fmt::Debug for LoadJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadJob").field("old", &self.old).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn is_sent<T: Send>() {}
    is_sent::<LoadJob>();
};

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
                let mut file = FileLoad::new(control, keyspace.hasher(), plan.duplicates, now);
                file.ends_process = plan.purpose == LoadPurpose::Start;
                // The primary says when a key goes.
                file.keeps_expired = control.replica.is_some();
                LoadReader::Snapshot(source, Box::new(file))
            }
            LoadSource::Aof(files) => LoadReader::Aof(Box::new(AofLoad::new(control, files))),
        };
        LoadJob { reader, keyspace, old: plan.old, progress }
    }

    /// What the load shows to other threads.
    pub fn progress(&self) -> Arc<LoadProgress> {
        self.progress.clone()
    }

    /// Loads. What came of it is for [`crate::Engine::advance_load`]. Cost: O(file).
    pub fn run(self, thread: &mut dyn LoadThread) {
        let LoadJob { reader, mut keyspace, old, progress } = self;
        let out = &mut Reporter { progress: &progress, thread };
        let result = match reader {
            LoadReader::Snapshot(mut source, file) => file.run(source.as_mut(), &mut keyspace, out),
            LoadReader::Aof(load) => load.run(&mut keyspace, out),
        };
        // A part of a keyspace is of no use to anybody, and is freed here rather than by the main thread.
        let keyspace = match (&result, old) {
            (Err(_), OldData::Freed | OldData::Kept) => None,
            (Ok(_), _) | (Err(_), OldData::Filled) => Some(keyspace),
        };
        progress.news().outcome = Some(LoadOutcome { keyspace, result });
        out.thread.wake();
    }
}

/// What a load shows to other threads: numbers, and news for the main thread.
///
/// The numbers only inform, so their order does not matter (relaxed); what the main thread acts on is behind the lock.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes of the file; 0: unknown.
    bytes_total: AtomicU64,
    bytes_read: AtomicU64,
    /// The file's field `used-mem`.
    rdb_used_memory: AtomicU64,
    keys_loaded: AtomicU64,
    keys_expired: AtomicU64,
    /// What the chunks of the keyspace take, which is not yet the engine's.
    chunk_bytes_used: AtomicUsize,
    chunk_bytes_touched: AtomicUsize,
    /// Directive `key-load-delay`. Written by the main thread.
    key_delay: AtomicI64,
    /// The load shall end. Written by the main thread.
    is_stopped: AtomicBool,
    news: Mutex<LoadNews>,
}

/// What the main thread has to do something about.
#[derive(Debug, Default)]
struct LoadNews {
    /// Lines for the log, in order; about [`LINES_MAX`] at most.
    lines: Vec<(LogLevel, String)>,
    /// The file's header was good: the old data can go.
    is_accepted: bool,
    outcome: Option<LoadOutcome>,
}

/// What came of a load.
#[derive(Debug)]
struct LoadOutcome {
    /// What was filled; none where it has been freed.
    keyspace: Option<Keyspace>,
    result: Result<Brought, NotLoaded>,
}

impl LoadProgress {
    /// Has the load end soon, without a keyspace.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// What the chunks of entries take that belong to the load.
    pub fn chunk_memory(&self) -> ChunkMemory {
        ChunkMemory {
            used_bytes: self.chunk_bytes_used.load(Relaxed),
            touched_bytes: self.chunk_bytes_touched.load(Relaxed),
        }
    }

    /// Bytes of the file, 0 where that is not known; bytes read; bytes of memory that the writer of the file had in use.
    pub(crate) fn bytes(&self) -> [u64; 3] {
        [&self.bytes_total, &self.bytes_read, &self.rdb_used_memory].map(|number| number.load(Relaxed))
    }

    /// Keys loaded so far, and keys left out because they have expired.
    pub(crate) fn keys(&self) -> (u64, u64) {
        (self.keys_loaded.load(Relaxed), self.keys_expired.load(Relaxed))
    }

    pub(crate) fn set_key_delay(&self, value: i64) {
        self.key_delay.store(value, Relaxed);
    }

    fn publish_memory(&self, keyspace: &Keyspace) {
        let memory = keyspace.chunk_memory();
        self.chunk_bytes_used.store(memory.used_bytes, Relaxed);
        self.chunk_bytes_touched.store(memory.touched_bytes, Relaxed);
    }

    fn news(&self) -> MutexGuard<'_, LoadNews> {
        // A panic ends the process.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_news(&self) -> LoadNews {
        std::mem::take(&mut *self.news())
    }
}

/// The load's side of [`LoadProgress`].
pub(crate) struct Reporter<'a> {
    progress: &'a LoadProgress,
    thread: &'a mut dyn LoadThread,
}

impl Reporter<'_> {
    /// Has the main thread write a line to the log. A file may have any number of fields: what the main thread has not come to
    /// write yet is bounded.
    pub(crate) fn log(&mut self, level: LogLevel, line: impl Into<String>) {
        let mut news = self.progress.news();
        if level == LogLevel::Warning || news.lines.len() < LINES_MAX {
            news.lines.push((level, line.into()));
        }
        drop(news);
        self.thread.wake();
    }

    /// Says that the file is one that can be loaded.
    fn accept(&mut self) {
        self.progress.news().is_accepted = true;
        self.thread.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.progress.is_stopped.load(Relaxed)
    }

    /// Waits behind a key, as `key-load-delay` wants it. `number` counts keys.
    #[inline]
    pub(crate) fn delay(&mut self, number: u64) {
        let delay = self.progress.key_delay.load(Relaxed);
        if delay != 0 {
            self.wait(delay, number);
        }
    }

    #[cold]
    fn wait(&mut self, delay: i64, number: u64) {
        match u64::try_from(delay) {
            Ok(microseconds) => self.thread.sleep(microseconds),
            Err(_) if number.is_multiple_of(delay.unsigned_abs()) => self.thread.sleep(1),
            Err(_) => {}
        }
    }
}

/// Lines that wait for the log; warnings are more, but the size of the file bounds their number.
const LINES_MAX: usize = 1000;

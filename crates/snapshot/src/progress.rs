//! The state of a running load that other threads can see.

use crate::outcome::{LoadResult, NotLoaded};
use sluice_base::{LogLevel, Now};
use sluice_keyspace::{ChunkMemory, Keyspace};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Services of the thread that a load runs on.
pub trait LoadThread {
    /// Wakes the main thread, which then calls `Engine::advance_load`.
    fn wake(&mut self);

    /// Sleeps, for the directive `key-load-delay`.
    fn sleep(&mut self, microseconds: u64);

    /// The present time of both clocks.
    fn now(&mut self) -> Now;
}

/// The state of a load that other threads see: numbers, and news for the main thread.
///
/// The numbers only inform, so they are read and written with relaxed ordering. The news, which the main
/// thread acts on, are protected by the lock.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes of the file; 0 if the size is unknown.
    pub bytes_total: AtomicU64,
    /// Bytes of the file that have been read.
    pub bytes_read: AtomicU64,
    /// The file's field `used-mem`.
    pub rdb_used_memory: AtomicU64,
    /// Keys that were loaded.
    pub keys_loaded: AtomicU64,
    /// Keys that were left out because they had expired.
    pub keys_expired: AtomicU64,
    /// Bytes in use in the chunks of the keyspace that is being loaded, which the engine does not count yet.
    chunk_bytes_used: AtomicUsize,
    chunk_bytes_touched: AtomicUsize,
    /// Directive `key-load-delay`. Written by the main thread.
    key_delay: AtomicI64,
    /// Asks the load to end. Written by the main thread.
    is_stopped: AtomicBool,
    news: Mutex<LoadNews>,
}

/// News of a load that the main thread has to act on.
#[derive(Debug, Default)]
pub struct LoadNews {
    /// Lines for the log, in order. Once `LINES_MAX` lines wait, only warnings are added.
    pub lines: Vec<(LogLevel, String)>,
    /// The file's header was found valid, so the old data can be deleted.
    pub is_accepted: bool,
    /// The result of the load, once it has ended.
    pub outcome: Option<LoadOutcome>,
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    /// The keyspace that was filled; `None` if the load has freed it.
    pub keyspace: Option<Keyspace>,
    /// Contents of the file beside the keys, or the reason why the load failed.
    pub result: Result<LoadResult, NotLoaded>,
}

impl LoadProgress {
    /// Asks the load to end soon. The load then returns no keyspace.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Memory of the chunks of entries that belong to the load.
    pub fn chunk_memory(&self) -> ChunkMemory {
        ChunkMemory {
            used_bytes: self.chunk_bytes_used.load(Relaxed),
            touched_bytes: self.chunk_bytes_touched.load(Relaxed),
        }
    }

    /// Bytes of the file (0 if unknown), bytes read so far, and bytes of memory that the writer of the file
    /// was using.
    pub fn bytes(&self) -> [u64; 3] {
        [&self.bytes_total, &self.bytes_read, &self.rdb_used_memory].map(|number| number.load(Relaxed))
    }

    /// Keys loaded so far, and keys left out because they have expired.
    pub fn keys(&self) -> (u64, u64) {
        (self.keys_loaded.load(Relaxed), self.keys_expired.load(Relaxed))
    }

    /// Passes a new value of the directive `key-load-delay` to the load.
    pub fn set_key_delay(&self, value: i64) {
        self.key_delay.store(value, Relaxed);
    }

    /// Publishes the memory that the keyspace takes now.
    pub fn publish_memory(&self, keyspace: &Keyspace) {
        let memory = keyspace.chunk_memory();
        self.chunk_bytes_used.store(memory.used_bytes, Relaxed);
        self.chunk_bytes_touched.store(memory.touched_bytes, Relaxed);
    }

    /// The news for the main thread, locked for a change.
    pub fn news(&self) -> MutexGuard<'_, LoadNews> {
        // The lock is never poisoned, because a panic ends the process.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the news for the main thread.
    pub fn take_news(&self) -> LoadNews {
        std::mem::take(&mut *self.news())
    }
}

/// The load's side of [`LoadProgress`].
pub struct Reporter<'a> {
    /// The state that other threads see.
    pub progress: &'a LoadProgress,
    /// Services of the thread that the load runs on.
    pub thread: &'a mut dyn LoadThread,
}

impl Reporter<'_> {
    /// Passes a line for the log to the main thread. A file may have any number of fields, so the number of
    /// lines that wait for the main thread is bounded; only warnings are passed in any case.
    pub fn log(&mut self, level: LogLevel, line: impl Into<String>) {
        let mut news = self.progress.news();
        if level == LogLevel::Warning || news.lines.len() < LINES_MAX {
            news.lines.push((level, line.into()));
        }
        drop(news);
        self.thread.wake();
    }

    /// Reports that the file's header was found valid.
    pub fn accept(&mut self) {
        self.progress.news().is_accepted = true;
        self.thread.wake();
    }

    /// Whether the main thread has asked the load to end.
    pub fn is_stopped(&self) -> bool {
        self.progress.is_stopped.load(Relaxed)
    }

    /// Waits after a key, as `key-load-delay` says. `number` is the number of keys so far. A delay of -n
    /// means a sleep of one microsecond after every n keys.
    #[inline]
    pub fn delay(&mut self, number: u64) {
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

/// Once this many lines wait for the log, only warnings are added; a load logs only a few hundred of these.
const LINES_MAX: usize = 1000;

//! What a load shows to other threads while it runs.

use crate::outcome::{LoadResult, NotLoaded};
use sluice_base::{LogLevel, Now};
use sluice_keyspace::{ChunkMemory, Keyspace};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a load asks of the thread that it runs on.
pub trait LoadThread {
    /// Wakes the main thread: there is something for `Engine::advance_load`.
    fn wake(&mut self);

    /// Waits, for the directive `key-load-delay`.
    fn sleep(&mut self, microseconds: u64);

    /// Reads the clock.
    fn now(&mut self) -> Now;
}

/// What a load shows to other threads: numbers, and news for the main thread.
///
/// The numbers only inform, so their order does not matter (relaxed); what the main thread acts on is behind
/// the lock.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes of the file; 0: unknown.
    pub bytes_total: AtomicU64,
    /// Bytes of the file so far.
    pub bytes_read: AtomicU64,
    /// The file's field `used-mem`.
    pub rdb_used_memory: AtomicU64,
    /// Keys that were loaded.
    pub keys_loaded: AtomicU64,
    /// Keys that had expired.
    pub keys_expired: AtomicU64,
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
pub struct LoadNews {
    /// Lines for the log, in order; about `LINES_MAX` at most.
    pub lines: Vec<(LogLevel, String)>,
    /// The file's header was good: the old data can go.
    pub is_accepted: bool,
    /// The end of the load.
    pub outcome: Option<LoadOutcome>,
}

/// What came of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    /// What was filled; none where it has been freed.
    pub keyspace: Option<Keyspace>,
    /// What it brought beside the keys.
    pub result: Result<LoadResult, NotLoaded>,
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

    /// Bytes of the file, 0 where that is not known; bytes read; bytes of memory that the writer of the file
    /// had in use.
    pub fn bytes(&self) -> [u64; 3] {
        [&self.bytes_total, &self.bytes_read, &self.rdb_used_memory].map(|number| number.load(Relaxed))
    }

    /// Keys loaded so far, and keys left out because they have expired.
    pub fn keys(&self) -> (u64, u64) {
        (self.keys_loaded.load(Relaxed), self.keys_expired.load(Relaxed))
    }

    /// The directive `key-load-delay` has another value.
    pub fn set_key_delay(&self, value: i64) {
        self.key_delay.store(value, Relaxed);
    }

    /// The keyspace takes so much memory now.
    pub fn publish_memory(&self, keyspace: &Keyspace) {
        let memory = keyspace.chunk_memory();
        self.chunk_bytes_used.store(memory.used_bytes, Relaxed);
        self.chunk_bytes_touched.store(memory.touched_bytes, Relaxed);
    }

    /// What is for the main thread, to be changed.
    pub fn news(&self) -> MutexGuard<'_, LoadNews> {
        // A panic ends the process.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is for the main thread, and is not any more.
    pub fn take_news(&self) -> LoadNews {
        std::mem::take(&mut *self.news())
    }
}

/// The load's side of [`LoadProgress`].
pub struct Reporter<'a> {
    /// What is shown.
    pub progress: &'a LoadProgress,
    /// The thread of the load.
    pub thread: &'a mut dyn LoadThread,
}

impl Reporter<'_> {
    /// Has the main thread write a line to the log. A file may have any number of fields: what the main
    /// thread has not come to write yet is bounded.
    pub fn log(&mut self, level: LogLevel, line: impl Into<String>) {
        let mut news = self.progress.news();
        if level == LogLevel::Warning || news.lines.len() < LINES_MAX {
            news.lines.push((level, line.into()));
        }
        drop(news);
        self.thread.wake();
    }

    /// Says that the file is one that can be loaded.
    pub fn accept(&mut self) {
        self.progress.news().is_accepted = true;
        self.thread.wake();
    }

    /// Whether the load shall end.
    pub fn is_stopped(&self) -> bool {
        self.progress.is_stopped.load(Relaxed)
    }

    /// Waits behind a key, as `key-load-delay` wants it. `number` counts keys.
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

/// Lines that wait for the log; warnings are more, but the size of the file bounds their number.
const LINES_MAX: usize = 1000;

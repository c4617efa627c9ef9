//! The state that the main thread and the file's thread share: blocks and commands in one direction,
//! positions and news in the other.
//!
//! Invariants: (1) blocks and commands are taken in the order in which they were given; (2) the position
//! of durable bytes is published after the bytes are durable (release), and read before anything depends
//! on their durability (acquire); (3) the atomics except `durable` and `has_news` order nothing
//! (relaxed).

use super::load::Listed;
use crate::test_switches;
use sluice_base::LogLevel;
use sluice_base::heap;
use sluice_config::choice::AppendFsync;
use sluice_control::process::AofBacklog;
use sluice_numbers::facts::AofFacts;
use sluice_storage::aof::Block;
use sluice_storage::aof::{History, NewBase};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state shared by the main thread and the file's thread.
#[derive(Default)]
pub struct AofShared {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// Position up to which all bytes are on disk.
    durable: AtomicU64,
    /// Number of bytes in blocks that were given to the thread but not written yet.
    waiting_bytes: AtomicU64,
    /// If at least this many bytes wait, the backlog counts as full.
    backlog_max: BacklogMax,
    /// Whether `news` has entries for the main thread.
    has_news: AtomicBool,
    news: Mutex<Vec<AofNews>>,
    /// The file's numbers for INFO and the main thread.
    pub numbers: AofNumbers,
}

/// The file's numbers for INFO and the main thread.
#[derive(Debug)]
pub struct AofNumbers {
    /// Bytes of all files with data.
    pub current_bytes: AtomicU64,
    /// Bytes that all files with data had after the last rewrite; the bytes of the base if there was no
    /// rewrite since the start.
    pub base_bytes: AtomicU64,
    /// Whether a sync is under way.
    pub is_syncing: AtomicBool,
    /// Number of syncs that took longer than a second, except with `appendfsync always`.
    pub delayed_syncs: AtomicU64,
    /// Number of free bytes on the disk; [`u64::MAX`] if unknown.
    pub free_bytes: AtomicU64,
    /// Whether the process writes another file in the background. The main thread sets this.
    pub has_job: AtomicBool,
    /// Bytes of memory that the file's thread uses.
    pub memory_bytes: AtomicU64,
    /// Whether another increment is being begun. Commands that write are held back until it has begun.
    pub is_changing: AtomicBool,
}

impl Default for AofNumbers {
    fn default() -> AofNumbers {
        AofNumbers {
            current_bytes: AtomicU64::default(),
            base_bytes: AtomicU64::default(),
            is_syncing: AtomicBool::default(),
            delayed_syncs: AtomicU64::default(),
            free_bytes: AtomicU64::new(u64::MAX),
            has_job: AtomicBool::default(),
            memory_bytes: AtomicU64::default(),
            is_changing: AtomicBool::default(),
        }
    }
}

impl AofNumbers {
    fn facts(&self, buffer_bytes: u64) -> AofFacts {
        AofFacts {
            current_bytes: self.current_bytes.load(Relaxed),
            base_bytes: self.base_bytes.load(Relaxed),
            buffer_bytes,
            is_syncing: self.is_syncing.load(Relaxed),
            delayed_syncs: self.delayed_syncs.load(Relaxed),
            free_bytes: Some(self.free_bytes.load(Relaxed)).filter(|bytes| *bytes != u64::MAX),
        }
    }
}

/// An item for the file's thread.
pub enum AofItem {
    Block(Block),
    Command(AofCommand),
    /// A wake-up, because another thread has ended a sync, or has put a base in force.
    SyncEnded,
}

/// A command for the file's thread, which the thread carries out after all earlier blocks.
pub enum AofCommand {
    /// Sets when the file is synced, as `appendfsync` says.
    Policy(AppendFsync),
    /// Sets whether files that a rewrite has replaced are removed.
    History(History),
    /// Sets the delay before each write, for DEBUG.
    Delay(Duration),
    /// Begins another increment at the cut of this rewrite, for all later blocks.
    BeginIncr(RewriteNumber),
    /// Puts the complete base of this rewrite in force.
    FinishBase(RewriteNumber, Box<NewBase>),
    /// Puts this RDB file in force as the base of this rewrite. The last field is the number in the file's
    /// temporary name.
    UseSnapshot(RewriteNumber, PathBuf, u64),
    /// Writes all earlier blocks, and answers with the files, which are opened for reading.
    ListFiles(SyncSender<Listed>),
    /// Writes and syncs all earlier blocks, and then ends the thread.
    End,
}

/// A report to the main thread.
#[derive(Debug, PartialEq, Eq)]
pub enum AofNews {
    /// A line for the log.
    Log(LogLevel, String),
    /// The reason why bytes cannot be written or synced; `None` if the fault has ended.
    Fault(Option<String>),
    /// With `appendfsync always`, bytes could not be written or synced, so the process must end.
    Fatal,
    /// An event for the latency monitor: its name, and its duration in nanoseconds.
    Latency(&'static str, u64),
    /// The increment at the cut of this rewrite has begun (`true`), or could not be created (`false`).
    IncrBegun(RewriteNumber, bool),
    /// The base of this rewrite is in force (`true`), or the rewrite has failed (`false`).
    BaseFinished(RewriteNumber, bool),
}

/// The number of a rewrite in this process. A base holds the data of one moment, the rewrite's *cut*, and
/// belongs only to the increment that begins at the same cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RewriteNumber(u64);

impl RewriteNumber {
    /// The number of the following rewrite.
    pub fn next(self) -> RewriteNumber {
        RewriteNumber(self.0 + 1)
    }
}

#[derive(Default)]
struct Inbox {
    items: VecDeque<AofItem>,
    /// Buffers whose bytes were written, for reuse by the next blocks.
    spent: Vec<Vec<u8>>,
    /// Whether the thread waits to be woken.
    waits: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the process, so the lock is never poisoned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl AofShared {
    /// A shared state whose backlog is full at `bytes_max` bytes.
    pub fn with_backlog(bytes_max: u64) -> AofShared {
        AofShared { backlog_max: BacklogMax(bytes_max), ..AofShared::default() }
    }
}

/// Methods for the main thread.
impl AofShared {
    /// Gives the thread an item. Costs a system call only if the thread waits.
    pub fn give(&self, item: AofItem) {
        if let AofItem::Block(block) = &item {
            // Relaxed: the inbox's lock orders this count before the thread can write the block.
            self.waiting_bytes.fetch_add(block.bytes.len() as u64, Relaxed);
        }
        let mut inbox = lock(&self.inbox);
        inbox.items.push_back(item);
        if std::mem::take(&mut inbox.waits) {
            drop(inbox);
            self.arrived.notify_one();
        }
    }

    /// A buffer for the next block. Reuses a buffer whose bytes were written, if there is one.
    pub fn buffer(&self) -> Vec<u8> {
        let mut buffer = lock(&self.inbox).spent.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Position up to which all bytes are on disk.
    pub fn durable(&self) -> u64 {
        // Pairs with `set_durable`: the reply to a command that writes is sent after the command's bytes are
        // on disk.
        self.durable.load(Acquire)
    }

    /// The backlog's next state. Commands that write are held back from the moment when the backlog is full
    /// until half of it is written, and while another increment is being begun.
    pub fn backlog(&self, present: AofBacklog) -> AofBacklog {
        // This number is read relaxed, like INFO's numbers, because only the time for which commands are
        // held back depends on it.
        let waiting = self.waiting_bytes.load(Relaxed);
        let max = self.backlog_max.0;
        match present {
            AofBacklog::Fine | AofBacklog::Changing if self.numbers.is_changing.load(Relaxed) => {
                AofBacklog::Changing
            }
            AofBacklog::Changing if waiting < max => AofBacklog::Fine,
            AofBacklog::Changing => AofBacklog::Full,
            AofBacklog::Fine if waiting >= max => AofBacklog::Full,
            AofBacklog::Full if waiting < max / 2 => AofBacklog::Fine,
            AofBacklog::Fine | AofBacklog::Full => present,
        }
    }

    /// Bytes of heap memory for the file. An item that is being passed between the threads may not be
    /// counted.
    pub fn footprint(&self) -> usize {
        let block = |item: &AofItem| match item {
            AofItem::Block(block) => heap::vec(&block.bytes),
            AofItem::Command(_) | AofItem::SyncEnded => 0,
        };
        let inbox = lock(&self.inbox);
        let items = heap::deque(&inbox.items) + inbox.items.iter().map(block).sum::<usize>();
        let spent = heap::vec(&inbox.spent) + inbox.spent.iter().map(heap::vec).sum::<usize>();
        items + spent + self.numbers.memory_bytes.load(Relaxed) as usize
    }

    /// The file's numbers for INFO.
    pub fn facts(&self) -> AofFacts {
        self.numbers.facts(self.waiting_bytes.load(Relaxed))
    }

    /// The news since the last call.
    pub fn take_news(&self) -> Vec<AofNews> {
        // Pairs with `report`; news that is added later wakes the loop once more.
        match self.has_news.swap(false, Acquire) {
            true => std::mem::take(&mut *lock(&self.news)),
            false => Vec::new(),
        }
    }
}

/// Methods for the thread of the file.
impl AofShared {
    /// Takes all items that were given. If there are none, first waits to be woken, but no longer than
    /// `timeout`, if it is given.
    pub fn take_or_wait(&self, into: &mut VecDeque<AofItem>, timeout: Option<Duration>) {
        let mut inbox = lock(&self.inbox);
        if inbox.items.is_empty() {
            inbox.waits = true;
            inbox = match timeout {
                Some(timeout) => {
                    let waited = self.arrived.wait_timeout(inbox, timeout);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner),
            };
            inbox.waits = false;
        }
        into.append(&mut inbox.items);
    }

    /// Takes all items that were given.
    pub fn take(&self, into: &mut VecDeque<AofItem>) {
        into.append(&mut lock(&self.inbox).items);
    }

    /// Keeps written buffers for the next blocks, unless there are enough already.
    pub fn give_back(&self, mut spent: Vec<Vec<u8>>) {
        if !spent.is_empty() {
            let mut inbox = lock(&self.inbox);
            if inbox.spent.len() < BUFFERS_MAX {
                inbox.spent.append(&mut spent);
            }
        }
    }

    /// Subtracts written bytes from the backlog. Returns whether the main thread must be woken in case it
    /// holds commands back.
    pub fn note_written(&self, bytes: u64) -> bool {
        let before = self.waiting_bytes.fetch_sub(bytes, Relaxed);
        let half = self.backlog_max.0 / 2;
        // Commands are held back only after the backlog was full. The backlog then falls below half exactly
        // once before commands may run again, and this wakes the main thread.
        before >= half && before - bytes < half
    }

    /// Publishes a position up to which all bytes are on disk.
    pub fn set_durable(&self, position: u64) {
        // Pairs with `durable`.
        self.durable.fetch_max(position, Release);
    }

    /// Adds news for the main thread; the caller wakes it.
    pub fn report(&self, news: AofNews) {
        lock(&self.news).push(news);
        // Pairs with `take_news`.
        self.has_news.store(true, Release);
    }
}

/// If at least this many bytes wait, the backlog counts as full.
struct BacklogMax(u64);

impl Default for BacklogMax {
    fn default() -> BacklogMax {
        BacklogMax(test_switches::number(test_switches::AOF_BACKLOG).unwrap_or(BACKLOG_BYTES_MAX))
    }
}

/// If this many bytes wait to be written, commands are held back. The main thread appends this many bytes
/// in two seconds at 128 MiB a second. While the disk does not respond, the reference continues for two
/// seconds, and then waits for the disk.
const BACKLOG_BYTES_MAX: u64 = 256 << 20;
/// No further buffers are kept for the next blocks if there are this many.
const BUFFERS_MAX: usize = 64;

//! What the main thread and the thread of the append-only file share: blocks and orders in one direction,
//! positions and news in the other.
//!
//! Invariants: (1) blocks and orders are taken in the order in which they were given; (2) a position is
//! published after what it says is true (release), and read before anything follows from it (acquire); (3)
//! the other numbers only inform (relaxed).

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

/// See the module.
#[derive(Default)]
pub struct AofShared {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// Position up to which everything is on disk.
    durable: AtomicU64,
    /// Bytes of blocks that were given and are not written yet.
    waiting_bytes: AtomicU64,
    /// Bytes from which on the backlog is full.
    backlog_max: BacklogMax,
    /// Whether there is news.
    has_news: AtomicBool,
    news: Mutex<Vec<AofNews>>,
    /// Numbers for INFO.
    pub numbers: AofNumbers,
}

/// Numbers for INFO.
#[derive(Debug)]
pub struct AofNumbers {
    /// Bytes of all files with data.
    pub current_bytes: AtomicU64,
    /// Bytes of all files with data after the last rewrite; since a start without one, those of the base.
    pub base_bytes: AtomicU64,
    /// A sync is under way.
    pub is_syncing: AtomicBool,
    /// Syncs that took longer than a second, under `everysec`.
    pub delayed_syncs: AtomicU64,
    /// Bytes that may still be written to the disk; [`u64::MAX`] where that is not known.
    pub free_bytes: AtomicU64,
    /// Something else is written in the background. Written by the main thread.
    pub has_job: AtomicBool,
    /// Memory of the thread of the file.
    pub memory_bytes: AtomicU64,
    /// Another increment begins, and commands that write are held back until it is there.
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

/// What the thread of the file is given.
pub enum AofItem {
    Block(Block),
    Command(AofCommand),
    /// The sync that was under way on another thread has ended.
    SyncEnded,
}

/// What the thread of the file is to do, behind the blocks before.
pub enum AofCommand {
    /// From now on sync so.
    Policy(AppendFsync),
    /// From now on remove files of no use, or do not.
    History(History),
    /// From now on wait so long before each write: for DEBUG.
    Delay(Duration),
    /// Begin another increment: what follows is behind the cut of this rewrite.
    BeginIncr(RewriteNumber),
    /// The base of this rewrite is whole.
    FinishBase(RewriteNumber, Box<NewBase>),
    /// The base of this rewrite is this RDB file; the number is that of its temporary name.
    UseSnapshot(RewriteNumber, PathBuf, u64),
    /// Write everything, and say which files there are.
    ListFiles(SyncSender<Listed>),
    /// Write and sync everything, then end.
    End,
}

/// What the main thread is to know.
#[derive(Debug, PartialEq, Eq)]
pub enum AofNews {
    /// A line for the log.
    Log(LogLevel, String),
    /// Why nothing can be written; none: it can be again.
    Fault(Option<String>),
    /// What is promised cannot be kept: the process ends.
    Fatal,
    /// Something took so many nanoseconds, for the latency monitor.
    Latency(&'static str, u64),
    /// The increment behind the cut is there, or is not.
    IncrBegun(RewriteNumber, bool),
    /// The rewrite is in force, or has failed.
    BaseFinished(RewriteNumber, bool),
}

/// Which rewrite of this process it is: a base belongs to the increment that begins at the same cut, and to
/// no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RewriteNumber(u64);

impl RewriteNumber {
    /// That of the rewrite behind this one.
    pub fn next(self) -> RewriteNumber {
        RewriteNumber(self.0 + 1)
    }
}

#[derive(Default)]
struct Inbox {
    items: VecDeque<AofItem>,
    /// Buffers that were written, for the next blocks.
    spent: Vec<Vec<u8>>,
    /// The thread waits to be woken.
    waits: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the process.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl AofShared {
    /// With a backlog that is full at so many bytes.
    pub fn with_backlog(bytes_max: u64) -> AofShared {
        AofShared { backlog_max: BacklogMax(bytes_max), ..AofShared::default() }
    }
}

/// The main thread's side.
impl AofShared {
    /// Gives something to the thread. Costs a system call only where the thread waits.
    pub fn give(&self, item: AofItem) {
        if let AofItem::Block(block) = &item {
            // Ordered by the inbox's lock: a block is counted before it can be written.
            self.waiting_bytes.fetch_add(block.bytes.len() as u64, Relaxed);
        }
        let mut inbox = lock(&self.inbox);
        inbox.items.push_back(item);
        if std::mem::take(&mut inbox.waits) {
            drop(inbox);
            self.arrived.notify_one();
        }
    }

    /// A buffer for the next block: one that was used before, if there is one.
    pub fn buffer(&self) -> Vec<u8> {
        let mut buffer = lock(&self.inbox).spent.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Position up to which everything is on disk.
    pub fn durable(&self) -> u64 {
        // Follows `set_durable`: the replies that report a write are sent after its bytes are on disk.
        self.durable.load(Acquire)
    }

    /// Whether more is to be given while so much waits: commands that write are held back from where the
    /// backlog is full until half of it is written, and while another increment begins.
    pub fn backlog(&self, present: AofBacklog) -> AofBacklog {
        // What follows from it is a matter of time alone: relaxed, as INFO's numbers.
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

    /// Bytes that the allocator has given for the file. What passes from one thread to the other may be
    /// missed.
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

    /// Numbers for INFO.
    pub fn facts(&self) -> AofFacts {
        self.numbers.facts(self.waiting_bytes.load(Relaxed))
    }

    /// What has happened since the last call.
    pub fn take_news(&self) -> Vec<AofNews> {
        // Follows `tell`; news that comes behind it wakes the loop once more.
        match self.has_news.swap(false, Acquire) {
            true => std::mem::take(&mut *lock(&self.news)),
            false => Vec::new(),
        }
    }
}

/// The side of the thread of the file.
impl AofShared {
    /// Takes everything that was given. Where there is nothing: waits to be woken, up to `timeout` if there
    /// is one.
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

    /// Takes everything that was given.
    pub fn take(&self, into: &mut VecDeque<AofItem>) {
        into.append(&mut lock(&self.inbox).items);
    }

    /// Gives buffers back.
    pub fn give_back(&self, mut spent: Vec<Vec<u8>>) {
        if !spent.is_empty() {
            let mut inbox = lock(&self.inbox);
            if inbox.spent.len() < BUFFERS_MAX {
                inbox.spent.append(&mut spent);
            }
        }
    }

    /// So many bytes were written. Whether the main thread, if it holds commands back, is to be woken.
    pub fn note_written(&self, bytes: u64) -> bool {
        let before = self.waiting_bytes.fetch_sub(bytes, Relaxed);
        let half = self.backlog_max.0 / 2;
        // It begins to hold back above half: every time is followed by one passage below.
        before >= half && before - bytes < half
    }

    /// Everything up to here is on disk.
    pub fn set_durable(&self, position: u64) {
        // Precedes `durable`.
        self.durable.fetch_max(position, Release);
    }

    /// Tells the main thread, which has to be woken.
    pub fn report(&self, news: AofNews) {
        lock(&self.news).push(news);
        // Precedes `take_news`.
        self.has_news.store(true, Release);
    }
}

/// Bytes from which on the backlog is full.
struct BacklogMax(u64);

impl Default for BacklogMax {
    fn default() -> BacklogMax {
        BacklogMax(test_switches::number(test_switches::AOF_BACKLOG).unwrap_or(BACKLOG_BYTES_MAX))
    }
}

/// Bytes that wait to be written before commands that write are held back: what the main thread appends in
/// two seconds at 128 MiB a second. The reference writes on for two seconds while the disk does not answer,
/// and then waits for it.
const BACKLOG_BYTES_MAX: u64 = 256 << 20;
/// Buffers that are kept for the next blocks.
const BUFFERS_MAX: usize = 64;

//! The thread of the append-only file: writes, syncs, changes files. The only one that touches the folder while the server runs.
//!
//! Under `always` it waits for blocks, and whatever has come meanwhile is made durable by one sync (group commit). Under `everysec`
//! and `no` nobody waits for a block: after one it looks for more every millisecond for a while before it waits to be woken, so
//! that a busy main thread pays no system call to wake it.

use super::appender::{Appender, Health};
use super::folder::{Folder, Named, NewBase};
use super::load::{FileEnding, Listed, NamedFiles};
use super::shared::{AofItem, AofNews, AofShared, History, Order};
use crate::os::plain_error;
use crate::switches;
use sluice_config::choice::AppendFsync;
use sluice_engine::{AofFiles, LogLevel};
use sluice_evloop::Waker;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What the thread works with.
pub struct Worker {
    shared: Arc<AofShared>,
    waker: Waker,
    folder: Folder,
    appender: Appender,
    policy: AppendFsync,
    /// How the present increment is named.
    named: Named,
    /// The present increment begins at the cut of the last rewrite that began.
    is_behind_cut: bool,
    /// The present fault was reported.
    is_faulty: bool,
    /// The file before was lost: nothing behind this position is durable before a rewrite is.
    lost_at: Option<u64>,
    /// Bytes of the files before this one.
    other_bytes: u64,
    /// What becomes of files of no use.
    history: History,
    /// When the disk was last asked for its space.
    measured_ns: Option<u64>,
    /// A write waits so long before, for DEBUG.
    delay: Duration,
    /// When a write error was last written to the log, when it is tried again, when the file was last synced.
    said_ns: Option<u64>,
    retry_ns: Option<u64>,
    last_sync_ns: u64,
    /// Monotonic nanoseconds.
    clock: Box<dyn FnMut() -> u64 + Send>,
    has_ended: bool,
    /// A test's switch: a sync takes so much longer.
    slow: Duration,
}

/// How long the thread looks for more before it waits to be woken, and how often.
const LINGER: Duration = Duration::from_millis(1);
const LINGER_ROUNDS: u32 = 20;
/// Time between two syncs under `everysec`, and between two attempts to write.
const SECOND_NS: u64 = 1_000_000_000;
/// Time between two lines of the log about one fault.
const SAID_EVERY_NS: u64 = 30 * SECOND_NS;
/// What is shorter interests no latency monitor.
const NOTED_NS: u64 = 1_000_000;

impl Worker {
    pub fn new(
        shared: Arc<AofShared>,
        waker: Waker,
        folder: Folder,
        appender: Appender,
        policy: AppendFsync,
        named: Named,
        mut clock: Box<dyn FnMut() -> u64 + Send>,
    ) -> Worker {
        let (_, all) = folder.sizes();
        let other_bytes = if named == Named::Now { all.saturating_sub(appender.size()) } else { 0 };
        shared.numbers.base_bytes.store(all, Relaxed);
        shared.set_durable(appender.synced());
        let slow = Duration::from_micros(switches::number(switches::FSYNC_US).unwrap_or(0));
        Worker {
            shared,
            waker,
            folder,
            appender,
            policy,
            named,
            is_behind_cut: named != Named::Now,
            is_faulty: false,
            lost_at: None,
            other_bytes,
            history: History::Removed,
            measured_ns: None,
            delay: Duration::ZERO,
            said_ns: None,
            retry_ns: None,
            last_sync_ns: clock(),
            clock,
            has_ended: false,
            slow,
        }
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Works until it is told to end.
    pub fn run(mut self) {
        let mut items = VecDeque::new();
        while !self.has_ended {
            self.collect(&mut items);
            self.work(&mut items);
        }
    }

    /// Waits for something to do.
    fn collect(&mut self, items: &mut VecDeque<AofItem>) {
        if self.policy != AppendFsync::Always {
            for _ in 0..LINGER_ROUNDS {
                self.shared.take(items);
                if !items.is_empty() || self.due().is_some_and(|due| due.is_zero()) {
                    return;
                }
                std::thread::sleep(LINGER);
            }
        }
        let due = self.due();
        self.shared.take_or_wait(items, due);
    }

    /// How long until something is due.
    fn due(&mut self) -> Option<Duration> {
        let syncs = self.policy == AppendFsync::EverySecond && self.appender.wants_sync();
        let sync_ns = syncs.then_some(self.last_sync_ns + SECOND_NS);
        let due_ns = [sync_ns, self.retry_ns].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub((self.clock)())))
    }

    /// Does what was given, and what is due.
    pub fn work(&mut self, items: &mut VecDeque<AofItem>) {
        for item in items.drain(..) {
            match item {
                AofItem::Block(block) => self.appender.push(block),
                AofItem::Order(order) => self.obey(order),
            }
        }
        if self.has_ended {
            return;
        }
        let now_ns = (self.clock)();
        if self.retry_ns.is_none_or(|at_ns| now_ns >= at_ns) {
            self.write();
        }
        match self.policy {
            AppendFsync::Always => self.sync(),
            AppendFsync::EverySecond if now_ns.saturating_sub(self.last_sync_ns) >= SECOND_NS => self.sync(),
            AppendFsync::EverySecond | AppendFsync::No => {}
        }
        self.shared.give_back(self.appender.take_spent());
        self.measure_space(now_ns);
        self.publish();
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Policy(policy) => self.policy = policy,
            Order::History(history) => {
                self.history = history;
                self.remove_history();
            }
            Order::BeginIncr => {
                let begun = self.begin_incr();
                self.is_behind_cut = begun;
                self.tell(AofNews::IncrBegun(begun));
            }
            Order::FinishBase(base) => {
                let finished = self.finish_base(*base);
                self.tell(AofNews::BaseFinished(finished));
            }
            Order::Delay(delay) => self.delay = delay,
            Order::ListFiles(asker) => {
                let listed = self.list_files();
                // A load that was stopped does not listen any more.
                let _ = asker.send(listed);
            }
            Order::End => self.end(),
        }
    }

    /// Writes what waits, and opens all files.
    fn list_files(&mut self) -> Listed {
        let written = self.appender.write();
        written.map_err(|error| vec![format!("Error writing to the AOF file: {}", plain_error(&error))])?;
        NamedFiles::of(&self.folder, FileEnding::Left).list()
    }

    /// Writes what waits.
    fn write(&mut self) {
        if !self.delay.is_zero() && self.appender.waiting_bytes() > 0 {
            std::thread::sleep(self.delay);
        }
        let began_ns = (self.clock)();
        match self.appender.write() {
            Ok(()) => {
                self.retry_ns = None;
                let has_job = self.shared.numbers.has_job.load(Relaxed);
                self.note_latency(
                    if has_job { "aof-write-active-child" } else { "aof-write-alone" },
                    began_ns,
                );
                self.note_latency("aof-write", began_ns);
                if self.is_faulty && *self.appender.health() == Health::Fine {
                    self.end_fault("AOF write error looks solved. The server can write again.");
                }
            }
            Err(error) => {
                let reason = plain_error(&error);
                if self.policy == AppendFsync::Always {
                    self.log(LogLevel::Warning, format!("Error writing to the AOF file: {reason}"));
                    let text = "Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...";
                    self.log(LogLevel::Warning, text.to_owned());
                    return self.fatal();
                }
                self.retry_ns = Some(began_ns + SECOND_NS);
                if self.said_ns.is_none_or(|at_ns| began_ns.saturating_sub(at_ns) >= SAID_EVERY_NS) {
                    self.said_ns = Some(began_ns);
                    self.log(LogLevel::Warning, format!("Error writing to the AOF file: {reason}"));
                }
                self.begin_fault(reason);
            }
        }
    }

    /// Forces to disk what is written.
    fn sync(&mut self) {
        let began_ns = (self.clock)();
        self.last_sync_ns = began_ns;
        if !self.appender.wants_sync() {
            return;
        }
        self.shared.numbers.is_syncing.store(true, Relaxed);
        let synced = self.appender.sync();
        if !self.slow.is_zero() {
            std::thread::sleep(self.slow);
        }
        self.shared.numbers.is_syncing.store(false, Relaxed);
        match synced {
            Ok(()) => {
                if self.policy == AppendFsync::Always {
                    self.note_latency("aof-fsync-always", began_ns);
                } else if (self.clock)().saturating_sub(began_ns) > SECOND_NS {
                    self.shared.numbers.delayed_syncs.fetch_add(1, Relaxed);
                }
                self.publish();
                self.waker.wake();
            }
            Err(error) => self.sync_failed(&plain_error(&error)),
        }
    }

    fn sync_failed(&mut self, reason: &str) {
        if self.policy == AppendFsync::Always {
            let text = format!(
                "Can't persist AOF for fsync error when the AOF fsync policy is 'always': {reason}. Exiting..."
            );
            self.log(LogLevel::Warning, text);
            return self.fatal();
        }
        self.log(LogLevel::Warning, format!("Fail to fsync the AOF file: {reason}"));
        self.begin_fault(reason.to_owned());
    }

    fn fatal(&mut self) {
        // Nothing is durable from here on, so no reply is sent.
        self.has_ended = true;
        self.tell(AofNews::Fatal);
    }

    fn begin_fault(&mut self, reason: String) {
        if !std::mem::replace(&mut self.is_faulty, true) {
            self.tell(AofNews::Fault(Some(reason)));
        }
    }

    fn end_fault(&mut self, text: &str) {
        self.is_faulty = false;
        self.said_ns = None;
        self.log(LogLevel::Warning, text.to_owned());
        self.tell(AofNews::Fault(None));
    }

    /// Begins another increment behind what is written.
    fn begin_incr(&mut self) -> bool {
        if let Err(error) = self.appender.write() {
            self.log(LogLevel::Warning, format!("Error writing to the AOF file: {}", plain_error(&error)));
            return false;
        }
        if self.appender.wants_sync()
            && let Err(error) = self.appender.sync()
        {
            self.sync_failed(&plain_error(&error));
        }
        if self.has_ended {
            return false;
        }
        self.publish();
        match self.folder.create_incr(self.named) {
            Ok((file, name)) => {
                self.log(LogLevel::Notice, format!("Creating AOF incr file {name} on background rewrite"));
                self.change_file(file)
            }
            Err(line) => {
                self.log(LogLevel::Warning, line);
                false
            }
        }
    }

    fn change_file(&mut self, file: Box<dyn crate::storage::StorageFile>) -> bool {
        if *self.appender.health() == Health::Lost {
            self.lost_at = Some(self.lost_at.unwrap_or(u64::MAX).min(self.appender.synced()));
        }
        match Appender::new(file, self.appender.written()) {
            Ok(appender) => {
                self.other_bytes += self.appender.size();
                self.appender = appender;
                true
            }
            Err(error) => {
                self.log(
                    LogLevel::Warning,
                    format!("Can't open the append-only file: {}", plain_error(&error)),
                );
                false
            }
        }
    }

    /// Puts a base that is whole in force, and with it the increment behind it.
    fn finish_base(&mut self, base: NewBase) -> bool {
        if !std::mem::take(&mut self.is_behind_cut) {
            // The present increment holds a part of what the base holds: it would be applied twice.
            return false;
        }
        // What the base replaces goes: what is behind the base must be on disk as far as it was said to be.
        let kept = usize::from(self.named == Named::Now);
        let began_ns = (self.clock)();
        let finished = self.folder.finish_base(base, kept, self.named);
        self.note_latency("aof-rename", began_ns);
        match finished {
            Ok(lines) => {
                lines.into_iter().for_each(|line| self.log(LogLevel::Notice, line));
                if self.named == Named::WithBase {
                    self.named = Named::Now;
                }
                self.lost_at = None;
                self.log(LogLevel::Notice, "Background AOF rewrite finished successfully".to_owned());
                if self.is_faulty && *self.appender.health() == Health::Fine {
                    self.end_fault("The AOF was written anew. The server can write again.");
                }
                let began_ns = (self.clock)();
                let (_, all) = self.folder.sizes();
                self.note_latency("aof-fstat", began_ns);
                self.other_bytes = all.saturating_sub(self.appender.size());
                self.shared.numbers.base_bytes.store(all, Relaxed);
                self.remove_history();
                true
            }
            Err(lines) => {
                lines.into_iter().for_each(|line| self.log(LogLevel::Warning, line));
                false
            }
        }
    }

    /// Removes files of no use, here and at once: a later increment may get the name of one of them.
    fn remove_history(&mut self) {
        let paths = self.folder.history();
        if paths.is_empty() || self.history == History::Kept {
            return;
        }
        for path in paths {
            let name = path.file_name().unwrap_or_default().display().to_string();
            self.log(LogLevel::Notice, format!("Removing the history file {name} in the background"));
            // One that cannot be removed hurts nobody but the disk.
            let _ = self.folder.storage().remove(&path);
        }
        if let Err(line) = self.folder.forget_history() {
            self.log(LogLevel::Warning, line);
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        let failed = match self.appender.write() {
            Err(error) => Some(format!("Error writing to the AOF file: {}", plain_error(&error))),
            Ok(()) if self.appender.wants_sync() => {
                let synced = self.appender.sync();
                synced.err().map(|error| format!("Fail to fsync the AOF file: {}.", plain_error(&error)))
            }
            Ok(()) => None,
        };
        if let Some(line) = failed {
            self.log(LogLevel::Warning, line);
            if self.policy == AppendFsync::Always {
                // The replies that wait for it are not sent.
                self.fatal();
            }
        }
        if self.named != Named::Now {
            self.folder.remove_temporary_incr();
        }
    }

    fn note_latency(&mut self, event: &'static str, began_ns: u64) {
        let spent_ns = (self.clock)().saturating_sub(began_ns);
        if spent_ns >= NOTED_NS {
            self.tell(AofNews::Latency(event, spent_ns));
        }
    }

    /// Asks the disk how much room there is, once a second at most.
    fn measure_space(&mut self, now_ns: u64) {
        if self.measured_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= SECOND_NS) {
            self.measured_ns = Some(now_ns);
            let free = self.folder.storage().free_bytes(self.folder.path());
            self.shared.numbers.free_bytes.store(free.unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Shows to the main thread how far the file is.
    fn publish(&self) {
        let numbers = &self.shared.numbers;
        numbers.buffer_bytes.store(self.appender.waiting_bytes(), Relaxed);
        numbers.current_bytes.store(self.other_bytes + self.appender.size(), Relaxed);
        self.shared.set_durable(self.appender.synced().min(self.lost_at.unwrap_or(u64::MAX)));
    }

    fn log(&mut self, level: LogLevel, line: String) {
        self.tell(AofNews::Log(level, line));
    }

    fn tell(&mut self, news: AofNews) {
        self.shared.tell(news);
        self.waker.wake();
    }
}

#[cfg(test)]
mod events_tests;

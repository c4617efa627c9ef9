//! The thread of the append-only file, which writes and syncs the file and adds and removes files. While the
//! server runs, only this thread and the threads that it starts use the folder.
//!
//! With `appendfsync always` the thread waits for blocks, and makes all blocks that have arrived during the
//! previous sync durable with one sync (group commit). With `everysec` a second thread syncs
//! (`sync_thread.rs`), so that blocks need not wait in memory while a slow disk syncs. With every policy a
//! third thread puts the base of a rewrite in force (`base_thread.rs`). While a rewrite begins, nothing can
//! be written, because later blocks belong after the rewrite's cut (the moment whose data are in its base).
//! The increment for these blocks gets a name that a start would find only when all blocks before the cut
//! have been written and a sync of them was tried. Commands that write wait until the increment has this
//! name, except with `always`, where their replies wait for the disk in any case. With `everysec` and `no`,
//! commands do not wait for their blocks. After a block the thread checks for more every millisecond for a
//! while before it waits to be woken, so that a busy main thread needs no system call to wake this thread.
//!
//! Invariants: (1) a base is put in force only with the increment that begins at its cut
//! ([`RewriteNumber`]); (2) after a failed sync no further position is published as durable, and the fault
//! does not end, until a base with a later cut is in force, whatever `appendfsync` is set to in the
//! meantime, and however many increments are begun; (3) the caller that ends the thread learns whether all
//! blocks are on disk ([`AofEnding`]).

use super::base_thread::{BaseJob, BaseOutcome, BaseThread};
use super::load::{FileEnding, Listed, NamedFiles};
use super::shared::{AofCommand, AofItem, AofNews, AofShared, RewriteNumber};
use super::sync_thread::{SyncOutcome, SyncThread};
use crate::test_switches;
use sluice_base::LogLevel;
use sluice_config::choice::AppendFsync;
use sluice_control::process::AofFiles;
use sluice_evloop::Waker;
use sluice_storage::Storage;
use sluice_storage::aof::{Appender, FileHealth};
use sluice_storage::aof::{Folder, History, Named, NewBase};
use sluice_storage::plain_error;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The state of the file's thread.
pub struct AofWorker {
    shared: Arc<AofShared>,
    waker: Waker,
    /// The folder; `None` while another thread puts a base in force.
    folder: Option<Folder>,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    appender: Appender,
    policy: AppendFsync,
    /// When the manifest names the present increment.
    named: Named,
    /// The rewrite at whose cut the present increment begins, until its base is put in force; `None` if there
    /// is no such rewrite, or the increment could not be created.
    cut: Option<RewriteNumber>,
    /// Whether the present fault was reported.
    is_faulty: bool,
    /// Set when a sync has failed. No bytes after this position count as durable until the base of a
    /// rewrite is in force (invariant 2).
    lost_at: Option<u64>,
    /// Total bytes of the files before the present increment.
    other_bytes: u64,
    /// Whether files that a rewrite has replaced are removed.
    history: History,
    /// Monotonic ns of the last check of the disk's free space.
    measured_ns: Option<u64>,
    /// The delay before each write, for DEBUG.
    delay: Duration,
    /// When a write error was last logged, monotonic ns; `None` without a present error.
    said_ns: Option<u64>,
    /// When the next attempt to write is due, monotonic ns; `None` if the last attempt succeeded.
    retry_ns: Option<u64>,
    /// When the last sync began, monotonic ns.
    last_sync_ns: u64,
    /// Reads the time, monotonic ns.
    clock: Box<dyn FnMut() -> u64 + Send>,
    ending: Option<AofEnding>,
    /// The thread that syncs with `everysec`; `None` if this thread itself syncs.
    sync_thread: Option<SyncThread>,
    /// The thread that puts a base in force; `None` while no base is being put in force.
    base_thread: Option<BaseThread>,
    /// When the sync under way on the other thread began, monotonic ns.
    sync_began_ns: u64,
    /// Extra time that each sync, and putting a base in force, takes in tests.
    slow: Duration,
}

/// How the file's thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofEnding {
    /// All blocks are on disk.
    Durable,
    /// Bytes could not be written or synced, either when the thread was ordered to end, or earlier with
    /// `appendfsync always`, which ends the thread.
    Failed,
    /// A sync has failed earlier, and no rewrite has replaced the files since then.
    Lost,
}

/// The log line for [`AofEnding::Lost`].
const LOST_AT_END: &str = "The end of the AOF file may not be on disk: an fsync has failed, and no \
                           rewrite has succeeded since. Check the disk: the next start loads the file up to its last whole command.";

/// How long the thread sleeps between two checks for more work.
const LINGER: Duration = Duration::from_millis(1);
/// How many times the thread checks for more work before it waits to be woken.
const LINGER_ROUNDS: u32 = 20;
/// Time between two syncs with `everysec`, and between two attempts to write.
const SECOND_NS: u64 = 1_000_000_000;
/// Time between two log lines about one fault.
const LOGGED_EVERY_NS: u64 = 30 * SECOND_NS;
/// Shorter latencies are not reported to the latency monitor.
const NOTED_NS: u64 = 1_000_000;

impl AofWorker {
    pub fn new(
        shared: Arc<AofShared>,
        waker: Waker,
        folder: Folder,
        appender: Appender,
        policy: AppendFsync,
        (named, cut): (Named, Option<RewriteNumber>),
        mut clock: Box<dyn FnMut() -> u64 + Send>,
    ) -> AofWorker {
        let (base, all) = folder.sizes();
        let other_bytes = if named == Named::Now { all.saturating_sub(appender.size()) } else { 0 };
        // Only the size of the base is stored, so that the increments count as growth. Otherwise a server
        // that is often restarted would never begin a rewrite.
        shared.numbers.base_bytes.store(base, Relaxed);
        shared.set_durable(appender.synced());
        let slow = Duration::from_micros(test_switches::number(test_switches::FSYNC_US).unwrap_or(0));
        AofWorker {
            shared,
            waker,
            storage: folder.storage().clone(),
            path: folder.path().to_owned(),
            folder: Some(folder),
            appender,
            policy,
            named,
            cut,
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
            ending: None,
            sync_thread: None,
            base_thread: None,
            sync_began_ns: 0,
            slow,
        }
    }

    /// Starts a thread that syncs with `everysec`, so that this thread can write blocks during a sync.
    pub fn sync_elsewhere(&mut self) -> std::io::Result<()> {
        self.sync_thread = Some(SyncThread::start(self.shared.clone(), self.slow)?);
        Ok(())
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Works until the thread is ordered to end, or, with `appendfsync always`, until bytes cannot be written
    /// or synced.
    pub fn run(mut self) -> AofEnding {
        let mut items = VecDeque::new();
        loop {
            if let Some(ending) = self.ending {
                return ending;
            }
            self.collect(&mut items);
            self.work(&mut items);
        }
    }

    /// Waits for items, or until a sync or an attempt to write is due.
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

    /// Time until the next sync or attempt to write; `None` if neither is planned.
    fn due(&mut self) -> Option<Duration> {
        let syncs =
            self.policy == AppendFsync::EverySecond && self.appender.wants_sync() && !self.is_syncing();
        let sync_ns = syncs.then_some(self.last_sync_ns + SECOND_NS);
        let due_ns = [sync_ns, self.retry_ns].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub((self.clock)())))
    }

    /// Carries out the items, and then what is due.
    pub fn work(&mut self, items: &mut VecDeque<AofItem>) {
        for item in items.drain(..) {
            match item {
                AofItem::Block(block) => self.appender.push(block),
                AofItem::Command(order) => self.obey(order),
                // The item only wakes this thread.
                AofItem::SyncEnded => {}
            }
        }
        if let Some(outcome) = self.sync_thread.as_mut().and_then(SyncThread::outcome) {
            self.other_sync_ended(outcome);
        }
        if let Some(outcome) = self.base_thread.as_ref().and_then(BaseThread::outcome) {
            self.base_thread = None;
            self.base_finished(outcome);
        }
        if self.ending.is_some() {
            return;
        }
        let now_ns = (self.clock)();
        if self.retry_ns.is_none_or(|at_ns| now_ns >= at_ns) {
            self.write();
        }
        match self.policy {
            AppendFsync::Always => self.sync(),
            AppendFsync::EverySecond if now_ns.saturating_sub(self.last_sync_ns) >= SECOND_NS => {
                self.sync_each_second();
            }
            AppendFsync::EverySecond | AppendFsync::No => {}
        }
        self.shared.give_back(self.appender.take_spent());
        self.measure_space(now_ns);
        self.publish();
    }

    fn obey(&mut self, order: AofCommand) {
        match order {
            AofCommand::Policy(policy) => self.policy = policy,
            AofCommand::History(history) => {
                self.history = history;
                // While another thread has the folder, the files are not removed before that thread has
                // ended.
                if self.base_thread.is_none() {
                    self.remove_history();
                }
            }
            AofCommand::BeginIncr(number) => {
                let begun = self.begin_incr();
                self.shared.numbers.is_changing.store(false, Relaxed);
                self.cut = begun.then_some(number);
                self.report(AofNews::IncrBegun(number, begun));
            }
            AofCommand::FinishBase(number, base) => self.finish_base(number, *base),
            AofCommand::UseSnapshot(number, snapshot, file) => self.use_snapshot(number, &snapshot, file),
            AofCommand::Delay(delay) => self.delay = delay,
            AofCommand::ListFiles(asker) => {
                let listed = self.list_files();
                // The send fails if the load was stopped.
                let _ = asker.send(listed);
            }
            AofCommand::End => self.end(),
        }
    }

    /// Writes the waiting blocks, and opens all files for a load.
    fn list_files(&mut self) -> Listed {
        let written = self.write_waiting();
        written.map_err(|error| vec![format!("Error writing to the AOF file: {}", plain_error(&error))])?;
        NamedFiles::of(self.folder(), FileEnding::Left).list()
    }

    /// Writes the waiting blocks, and reports a fault or its end.
    fn write(&mut self) {
        if !self.delay.is_zero() && self.shared.facts().buffer_bytes > 0 {
            std::thread::sleep(self.delay);
        }
        let began_ns = (self.clock)();
        match self.write_waiting() {
            Ok(()) => {
                self.retry_ns = None;
                let has_job = self.shared.numbers.has_job.load(Relaxed);
                let beside = match () {
                    () if self.is_syncing() => "aof-write-pending-fsync",
                    () if has_job => "aof-write-active-child",
                    () => "aof-write-alone",
                };
                self.note_latency(beside, began_ns);
                self.note_latency("aof-write", began_ns);
                // After a failed sync, only a rewrite ends the fault.
                if self.is_faulty && self.lost_at.is_none() {
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
                if self.said_ns.is_none_or(|at_ns| began_ns.saturating_sub(at_ns) >= LOGGED_EVERY_NS) {
                    self.said_ns = Some(began_ns);
                    self.log(LogLevel::Warning, format!("Error writing to the AOF file: {reason}"));
                }
                self.begin_fault(reason);
            }
        }
    }

    /// Writes all blocks. After each write the number of waiting bytes is published, because the main
    /// thread may be holding back commands until that number falls.
    fn write_waiting(&mut self) -> std::io::Result<()> {
        let AofWorker { shared, waker, appender, .. } = self;
        appender.write(&mut |bytes| {
            if shared.note_written(bytes) {
                waker.wake();
            }
        })
    }

    fn is_syncing(&self) -> bool {
        self.sync_thread.as_ref().is_some_and(SyncThread::is_under_way)
    }

    /// Begins a sync of the written bytes on the other thread, so that this thread can continue to write.
    fn sync_each_second(&mut self) {
        if self.is_syncing() {
            return;
        }
        let Some(sync_thread) = self.sync_thread.as_mut().filter(|_| self.appender.wants_sync()) else {
            return self.sync();
        };
        let began_ns = (self.clock)();
        self.last_sync_ns = began_ns;
        self.sync_began_ns = began_ns;
        match self.appender.begin_sync() {
            Ok(pending) => {
                self.shared.numbers.is_syncing.store(true, Relaxed);
                sync_thread.begin(pending);
            }
            // If there is no file descriptor for the other thread, this thread syncs.
            Err(_) => self.sync(),
        }
    }

    /// Waits for the sync under way on the other thread, if there is one.
    fn await_sync(&mut self) {
        if let Some(outcome) = self.sync_thread.as_mut().and_then(SyncThread::wait) {
            self.other_sync_ended(outcome);
        }
    }

    fn other_sync_ended(&mut self, outcome: SyncOutcome) {
        let result = self.appender.end_sync(outcome.position, outcome.result);
        self.sync_ended(result, self.sync_began_ns);
    }

    /// Forces the written bytes to disk.
    fn sync(&mut self) {
        self.await_sync();
        let began_ns = (self.clock)();
        self.last_sync_ns = began_ns;
        if !self.appender.wants_sync() {
            return;
        }
        self.shared.numbers.is_syncing.store(true, Relaxed);
        let result = self.appender.sync();
        if !self.slow.is_zero() {
            std::thread::sleep(self.slow);
        }
        self.sync_ended(result, began_ns);
    }

    fn sync_ended(&mut self, result: std::io::Result<()>, began_ns: u64) {
        self.shared.numbers.is_syncing.store(false, Relaxed);
        match result {
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
        self.lost_at = Some(self.lost_at.unwrap_or(u64::MAX).min(self.appender.synced()));
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
        // From now on no bytes become durable, so no reply that waits for durability is sent.
        self.ending = Some(AofEnding::Failed);
        self.report(AofNews::Fatal);
    }

    fn begin_fault(&mut self, reason: String) {
        if !std::mem::replace(&mut self.is_faulty, true) {
            self.report(AofNews::Fault(Some(reason)));
        }
    }

    fn end_fault(&mut self, text: &str) {
        self.is_faulty = false;
        self.said_ns = None;
        self.log(LogLevel::Warning, text.to_owned());
        self.report(AofNews::Fault(None));
    }

    /// Begins another increment after all waiting blocks were written and a sync was tried; returns whether
    /// it has begun.
    fn begin_incr(&mut self) -> bool {
        if let Err(error) = self.write_waiting() {
            self.log(LogLevel::Warning, format!("Error writing to the AOF file: {}", plain_error(&error)));
            return false;
        }
        self.sync();
        if self.ending.is_some() {
            return false;
        }
        self.publish();
        let named = self.named;
        let created = self.folder().create_incr(named);
        let warnings = self.folder().take_warnings();
        warnings.into_iter().for_each(|line| self.log(LogLevel::Warning, line));
        match created {
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

    fn change_file(&mut self, file: Box<dyn sluice_storage::StorageFile>) -> bool {
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

    /// Puts a snapshot file in force as the base of a rewrite, with the increment that begins at its cut.
    fn use_snapshot(&mut self, number: RewriteNumber, snapshot: &Path, file: u64) {
        if !self.slow.is_zero() {
            std::thread::sleep(self.slow);
        }
        let folder = self.folder();
        match NewBase::of_snapshot(folder.storage().clone(), folder.path(), snapshot, file) {
            Ok(base) => self.finish_base(number, base),
            Err(line) => {
                self.report(AofNews::Log(LogLevel::Warning, line));
                self.report(AofNews::BaseFinished(number, false));
            }
        }
    }

    fn finish_base(&mut self, number: RewriteNumber, base: NewBase) {
        if self.cut != Some(number) {
            // The base is not put in force, because the present increment does not begin at the cut of
            // this base, so that commands would be applied twice or never.
            return self.report(AofNews::BaseFinished(number, false));
        }
        self.cut = None;
        self.await_folder();
        let folder = self.folder.take().expect("nobody else has it: its thread has ended");
        let job = BaseJob { folder, number, base, named: self.named, history: self.history };
        let started = match self.sync_thread {
            Some(_) => BaseThread::start(job, self.shared.clone(), self.slow),
            None => Err(Box::new(job)),
        };
        match started {
            Ok(thread) => self.base_thread = Some(thread),
            // If no further thread can be started, this thread puts the base in force.
            Err(job) => {
                let outcome = job.run(&mut self.clock);
                self.base_finished(outcome);
            }
        }
    }

    /// Takes the folder back from the thread that puts a base in force, and reports the result.
    fn base_finished(&mut self, outcome: BaseOutcome) {
        let BaseOutcome { folder, number, finished, warnings, removed, other_bytes, rename_ns, measure_ns } =
            outcome;
        self.folder = Some(folder);
        self.note_spent("aof-rename", rename_ns);
        warnings.into_iter().for_each(|line| self.log(LogLevel::Warning, line));
        let is_in_force = finished.is_ok();
        match finished {
            Ok(lines) => {
                lines.into_iter().for_each(|line| self.log(LogLevel::Notice, line));
                if self.named == Named::WithBase {
                    self.named = Named::Now;
                }
                // Bytes from before the cut that a failed sync has lost are no longer needed. However, a
                // sync of the increment that follows the base may have failed as well.
                let is_lost = *self.appender.health() == FileHealth::Lost;
                self.lost_at = is_lost.then(|| self.appender.synced());
                self.log(LogLevel::Notice, "Background AOF rewrite finished successfully".to_owned());
                if self.is_faulty && *self.appender.health() == FileHealth::Fine {
                    self.end_fault("The AOF was rewritten. The server can write again.");
                }
                self.note_spent("aof-fstat", measure_ns);
                self.other_bytes = other_bytes;
                self.shared.numbers.base_bytes.store(other_bytes + self.appender.size(), Relaxed);
                removed.into_iter().for_each(|line| self.log(LogLevel::Notice, line));
                // Files that this rewrite or an earlier one has replaced may remain, because
                // `aof-disable-auto-gc` may have been turned off during the rewrite.
                self.remove_history();
            }
            Err(lines) => {
                lines.into_iter().for_each(|line| self.log(LogLevel::Warning, line));
                let line = "Background AOF rewrite failed; the old AOF files stay in use";
                self.log(LogLevel::Warning, line.to_owned());
            }
        }
        self.report(AofNews::BaseFinished(number, is_in_force));
    }

    /// Waits until no other thread has the folder.
    fn await_folder(&mut self) {
        if let Some(thread) = self.base_thread.take() {
            self.base_finished(thread.wait());
        }
    }

    /// The folder. If another thread has it, waits for that thread.
    fn folder(&mut self) -> &mut Folder {
        self.await_folder();
        self.folder.as_mut().expect("nobody else has it: its thread has ended")
    }

    /// Removes files that rewrites have replaced, as `history` says.
    fn remove_history(&mut self) {
        let history = self.history;
        let mut removed = Vec::new();
        let warning = self.folder().remove_history(history, &mut removed);
        removed.into_iter().for_each(|line| self.log(LogLevel::Notice, line));
        if let Some(line) = warning {
            self.log(LogLevel::Warning, line);
        }
    }

    fn end(&mut self) {
        self.await_sync();
        self.await_folder();
        if self.ending.is_some() {
            return;
        }
        let failed = match self.write_waiting() {
            Err(error) => Some(format!("Error writing to the AOF file: {}", plain_error(&error))),
            Ok(()) if self.appender.wants_sync() => {
                let synced = self.appender.sync();
                synced.err().map(|error| format!("Fail to fsync the AOF file: {}.", plain_error(&error)))
            }
            Ok(()) => None,
        };
        self.ending = Some(AofEnding::Durable);
        if let Some(line) = failed {
            self.log(LogLevel::Warning, line);
            self.ending = Some(AofEnding::Failed);
            if self.policy == AppendFsync::Always {
                // The process ends, so the replies that wait for these bytes are not sent.
                self.fatal();
            }
        } else if self.lost_at.is_some() {
            self.log(LogLevel::Warning, LOST_AT_END.to_owned());
            self.ending = Some(AofEnding::Lost);
        } else {
            self.publish();
        }
        if self.named != Named::Now {
            self.folder().remove_temporary_incr();
        }
    }

    fn note_latency(&mut self, event: &'static str, began_ns: u64) {
        let spent_ns = (self.clock)().saturating_sub(began_ns);
        self.note_spent(event, spent_ns);
    }

    fn note_spent(&mut self, event: &'static str, spent_ns: u64) {
        if spent_ns >= NOTED_NS {
            self.report(AofNews::Latency(event, spent_ns));
        }
    }

    /// Reads the free space of the disk, at most once a second.
    fn measure_space(&mut self, now_ns: u64) {
        if self.measured_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= SECOND_NS) {
            self.measured_ns = Some(now_ns);
            let free = self.storage.free_bytes(&self.path);
            self.shared.numbers.free_bytes.store(free.unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Publishes the sizes and the position of durable bytes for the main thread.
    fn publish(&self) {
        let numbers = &self.shared.numbers;
        numbers.current_bytes.store(self.other_bytes + self.appender.size(), Relaxed);
        numbers.memory_bytes.store(self.appender.footprint() as u64, Relaxed);
        self.shared.set_durable(self.appender.synced().min(self.lost_at.unwrap_or(u64::MAX)));
    }

    fn log(&mut self, level: LogLevel, line: String) {
        self.report(AofNews::Log(level, line));
    }

    fn report(&mut self, news: AofNews) {
        self.shared.report(news);
        self.waker.wake();
    }
}

#[cfg(test)]
mod events_tests;
#[cfg(test)]
mod tests;

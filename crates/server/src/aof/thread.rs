//! The thread of the append-only file: writes, syncs, changes files. The only one that touches the folder
//! while the server runs.
//!
//! Under `always` it waits for blocks, and whatever has come meanwhile is made durable by one sync (group
//! commit). Under `everysec` another thread syncs, so that a slow disk keeps nothing in the memory of the
//! process (`sync_thread.rs`), and one more puts a rewrite in force (`base_thread.rs`). While a rewrite
//! begins, nothing can be written: what comes is behind the cut, and the file for it has no name that a start
//! would find before the disk has what is before the cut. Commands that write wait for that. Under `everysec`
//! and `no` nobody waits for a block: after one it looks for more every millisecond for a while before it
//! waits to be woken, so that a busy main thread pays no system call to wake it.
//!
//! Invariants: (1) a base is put in force only with the increment that begins at its cut ([`RewriteNumber`]);
//! (2) behind a sync that has failed no position is published as durable, and the fault does not end, until a
//! base that was cut later is in force: whatever `appendfsync` says meanwhile, and however many increments
//! were begun; (3) whoever ends the thread learns whether everything is on disk ([`AofEnding`]).

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

/// What the thread works with.
pub struct AofWorker {
    shared: Arc<AofShared>,
    waker: Waker,
    /// None while another thread puts a base in force.
    folder: Option<Folder>,
    storage: Arc<dyn Storage>,
    path: PathBuf,
    appender: Appender,
    policy: AppendFsync,
    /// How the present increment is named.
    named: Named,
    /// The rewrite at whose cut the present increment begins; none where it could not be made, or the rewrite
    /// has ended.
    cut: Option<RewriteNumber>,
    /// The present fault was reported.
    is_faulty: bool,
    /// A sync has failed: nothing behind this position is durable before a rewrite into other files is (2).
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
    ending: Option<AofEnding>,
    /// Syncs under `everysec`; none: they are made here.
    sync_thread: Option<SyncThread>,
    /// Puts a base in force.
    base_thread: Option<BaseThread>,
    /// When the sync began that is under way there.
    sync_began_ns: u64,
    /// A test's switch: a sync takes so much longer, and so does putting a base in force.
    slow: Duration,
}

/// How the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofEnding {
    /// Everything that was given is on disk.
    Durable,
    /// Something could not be written or synced, and was not before.
    Failed,
    /// A sync has failed before, and no rewrite has made up for it.
    Lost,
}

/// What the log says where that is so at the end.
const LOST_AT_END: &str = "The end of the AOF file is not on disk for certain: a fsync of it has failed, and no rewrite has \
                           succeeded since.";

/// How long the thread looks for more before it waits to be woken, and how often.
const LINGER: Duration = Duration::from_millis(1);
const LINGER_ROUNDS: u32 = 20;
/// Time between two syncs under `everysec`, and between two attempts to write.
const SECOND_NS: u64 = 1_000_000_000;
/// Time between two lines of the log about one fault.
const SAID_EVERY_NS: u64 = 30 * SECOND_NS;
/// What is shorter interests no latency monitor.
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
        // What the increments hold is growth already: else a server that is restarted often would never
        // rewrite.
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

    /// Lets another thread sync under `everysec`, so that blocks are written meanwhile.
    pub fn sync_elsewhere(&mut self) -> std::io::Result<()> {
        self.sync_thread = Some(SyncThread::start(self.shared.clone(), self.slow)?);
        Ok(())
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Works until it is told to end, or can no longer keep what it promised.
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
        let syncs =
            self.policy == AppendFsync::EverySecond && self.appender.wants_sync() && !self.is_syncing();
        let sync_ns = syncs.then_some(self.last_sync_ns + SECOND_NS);
        let due_ns = [sync_ns, self.retry_ns].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub((self.clock)())))
    }

    /// Does what was given, and what is due.
    pub fn work(&mut self, items: &mut VecDeque<AofItem>) {
        for item in items.drain(..) {
            match item {
                AofItem::Block(block) => self.appender.push(block),
                AofItem::Command(order) => self.obey(order),
                // It woke this thread.
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
                // Where another thread has the folder, it is done behind that.
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
                // A load that was stopped does not listen any more.
                let _ = asker.send(listed);
            }
            AofCommand::End => self.end(),
        }
    }

    /// Writes what waits, and opens all files.
    fn list_files(&mut self) -> Listed {
        let written = self.write_waiting();
        written.map_err(|error| vec![format!("Error writing to the AOF file: {}", plain_error(&error))])?;
        NamedFiles::of(self.folder(), FileEnding::Left).list()
    }

    /// Writes what waits.
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
                // Behind a sync that has failed, only a rewrite ends the fault.
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
                if self.said_ns.is_none_or(|at_ns| began_ns.saturating_sub(at_ns) >= SAID_EVERY_NS) {
                    self.said_ns = Some(began_ns);
                    self.log(LogLevel::Warning, format!("Error writing to the AOF file: {reason}"));
                }
                self.begin_fault(reason);
            }
        }
    }

    /// Writes all blocks. The main thread learns after each write how much is left: it may hold back commands
    /// meanwhile.
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

    /// Begins to force to disk what is written; while that is under way, more is written.
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
            // Without a descriptor for the other thread it is made here.
            Err(_) => self.sync(),
        }
    }

    /// Waits for the sync that is under way on the other thread, if one is.
    fn await_sync(&mut self) {
        if let Some(outcome) = self.sync_thread.as_mut().and_then(SyncThread::wait) {
            self.other_sync_ended(outcome);
        }
    }

    fn other_sync_ended(&mut self, outcome: SyncOutcome) {
        let result = self.appender.end_sync(outcome.position, outcome.result);
        self.sync_ended(result, self.sync_began_ns);
    }

    /// Forces to disk what is written.
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
        // Nothing is durable from here on, so no reply is sent.
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

    /// Begins another increment behind what is written.
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

    /// Puts a base that is whole in force, and with it the increment behind it, while more is written.
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
            // The present increment does not begin where this base ends: commands would be applied twice, or
            // never.
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
            // Without another thread it is done here.
            Err(job) => {
                let outcome = job.run(&mut self.clock);
                self.base_finished(outcome);
            }
        }
    }

    /// Takes the folder back from the thread that puts a base in force.
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
                // A sync of the increment behind the base may have failed too.
                let is_lost = *self.appender.health() == FileHealth::Lost;
                self.lost_at = is_lost.then(|| self.appender.synced());
                self.log(LogLevel::Notice, "Background AOF rewrite finished successfully".to_owned());
                if self.is_faulty && *self.appender.health() == FileHealth::Fine {
                    self.end_fault("The AOF was written anew. The server can write again.");
                }
                self.note_spent("aof-fstat", measure_ns);
                self.other_bytes = other_bytes;
                self.shared.numbers.base_bytes.store(other_bytes + self.appender.size(), Relaxed);
                removed.into_iter().for_each(|line| self.log(LogLevel::Notice, line));
                // `aof-disable-auto-gc` may have been turned off meanwhile.
                self.remove_history();
            }
            Err(lines) => {
                lines.into_iter().for_each(|line| self.log(LogLevel::Warning, line));
                let line = "Background AOF rewrite failed: the files before stay in force";
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

    /// The folder, when no other thread has it.
    fn folder(&mut self) -> &mut Folder {
        self.await_folder();
        self.folder.as_mut().expect("nobody else has it: its thread has ended")
    }

    /// Removes files of no use.
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
                // The replies that wait for it are not sent.
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

    /// Asks the disk how much room there is, once a second at most.
    fn measure_space(&mut self, now_ns: u64) {
        if self.measured_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= SECOND_NS) {
            self.measured_ns = Some(now_ns);
            let free = self.storage.free_bytes(&self.path);
            self.shared.numbers.free_bytes.store(free.unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Shows to the main thread how far the file is.
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

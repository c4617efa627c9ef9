//! The end of a rewrite, on a separate thread: the base is put in force (named in the manifest) and the files
//! that the base replaces are removed, while the file's thread continues to write and sync. New bytes are
//! therefore written, and survive the process, even if changes of the folder take long.
//!
//! Invariants: (1) the thread owns the folder as long as the thread lives; during this time the files change
//! only by appending to the present increment; (2) the thread ends when its work is done, and the file's
//! thread then takes the folder back before it uses the folder again.

use super::clock::clock;
use super::shared::{AofItem, AofShared, RewriteNumber};
use crate::threads::Thread;
use sluice_storage::aof::{Folder, History, Named, NewBase};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A base to be put in force, with the folder.
pub struct BaseJob {
    pub folder: Folder,
    pub number: RewriteNumber,
    pub base: NewBase,
    /// When the manifest names the increment after the base.
    pub named: Named,
    pub history: History,
}

/// The result of a [`BaseJob`].
pub struct BaseOutcome {
    pub folder: Folder,
    pub number: RewriteNumber,
    /// Lines for the log: progress on success, reasons on failure.
    pub finished: Result<Vec<String>, Vec<String>>,
    /// Lines for the log on files that were moved aside, or could not be taken off the manifest.
    pub warnings: Vec<String>,
    /// Lines for the log on removed files.
    pub removed: Vec<String>,
    /// Total bytes of the files before the present increment.
    pub other_bytes: u64,
    /// Nanoseconds that the renames and the manifest took.
    pub rename_ns: u64,
    /// Nanoseconds that reading the sizes of the files took.
    pub measure_ns: u64,
}

impl BaseJob {
    /// Does the job on the calling thread. `clock`: monotonic nanoseconds.
    pub fn run(self, clock: &mut dyn FnMut() -> u64) -> BaseOutcome {
        let BaseJob { mut folder, number, base, named, history } = self;
        // With `Named::Now` the manifest already names the increment after the base, and continues to name
        // it.
        let kept = usize::from(named == Named::Now);
        let began_ns = clock();
        let finished = folder.finish_base(base, kept, named);
        let renamed_ns = clock();
        let mut warnings = folder.take_warnings();
        let other_bytes = folder.bytes_before_last();
        let (rename_ns, measure_ns) =
            (renamed_ns.saturating_sub(began_ns), clock().saturating_sub(renamed_ns));
        let mut removed = Vec::new();
        if finished.is_ok() {
            warnings.extend(folder.remove_history(history, &mut removed));
        }
        BaseOutcome { folder, number, finished, warnings, removed, other_bytes, rename_ns, measure_ns }
    }
}

/// The owner's handle of the thread that does one [`BaseJob`].
pub struct BaseThread(Receiver<BaseOutcome>);

impl BaseThread {
    /// Starts the thread, which wakes the file's thread when it ends. `slow`: a delay before the job, for
    /// tests. Errors: the job itself, if no thread can be started for it.
    pub fn start(job: BaseJob, shared: Arc<AofShared>, slow: Duration) -> Result<BaseThread, Box<BaseJob>> {
        let (ended, outcome) = channel();
        let started = Thread::AofBase.start_with(Box::new(job), move |job: Box<BaseJob>| {
            if !slow.is_zero() {
                std::thread::sleep(slow);
            }
            // The send fails only if the file's thread has ended.
            let _ = ended.send(job.run(&mut clock()));
            shared.give(AofItem::SyncEnded);
        });
        started.map(|_| BaseThread(outcome)).map_err(|refused| refused.job)
    }

    /// The outcome of the job, if it has ended.
    pub fn outcome(&self) -> Option<BaseOutcome> {
        self.0.try_recv().ok()
    }

    /// Waits for the outcome of the job.
    pub fn wait(self) -> BaseOutcome {
        self.0.recv().expect("a panic of the thread ends the process")
    }
}

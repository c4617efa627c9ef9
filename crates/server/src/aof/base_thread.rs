//! The end of a rewrite on a thread of its own: the base is put in force and what it replaces is removed,
//! while the thread of the file goes on to write and to sync. What is written survives the process, however
//! long the disk takes for the folder.
//!
//! Invariants: (1) the thread owns the folder as long as it lives: nobody else changes a file meanwhile, but
//! for appending to the present increment; (2) it ends with its work, and its owner takes the folder back
//! before anything else is done to it.

use super::clock::clock;
use super::shared::{AofItem, AofShared, RewriteNumber};
use crate::threads::Thread;
use sluice_storage::aof::{Folder, History, Named, NewBase};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A base that is to be put in force.
pub struct BaseJob {
    pub folder: Folder,
    pub number: RewriteNumber,
    pub base: NewBase,
    /// How the increment behind it is named.
    pub named: Named,
    pub history: History,
}

/// What has become of a [`BaseJob`].
pub struct BaseOutcome {
    pub folder: Folder,
    pub number: RewriteNumber,
    /// Lines for the log.
    pub finished: Result<Vec<String>, Vec<String>>,
    /// Files that were moved aside, or could not be taken off the manifest: lines for the log.
    pub warnings: Vec<String>,
    /// Files of no use that were removed: lines for the log.
    pub removed: Vec<String>,
    /// Bytes of the files before the present increment.
    pub other_bytes: u64,
    /// How long the renames and the manifest took, and the sizes.
    pub rename_ns: u64,
    pub measure_ns: u64,
}

impl BaseJob {
    /// Does it, on whichever thread. `clock`: monotonic nanoseconds.
    pub fn run(self, clock: &mut dyn FnMut() -> u64) -> BaseOutcome {
        let BaseJob { mut folder, number, base, named, history } = self;
        // What the base replaces goes: what is behind the base must be on disk as far as it was said to be.
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

/// The thread of one [`BaseJob`].
pub struct BaseThread(Receiver<BaseOutcome>);

impl BaseThread {
    /// Starts the thread, which wakes the thread of the file when it ends; `slow`: it takes so much longer.
    /// Errors: the job.
    pub fn start(job: BaseJob, shared: Arc<AofShared>, slow: Duration) -> Result<BaseThread, Box<BaseJob>> {
        let (ended, outcome) = channel();
        let started = Thread::AofBase.start_with(Box::new(job), move |job: Box<BaseJob>| {
            if !slow.is_zero() {
                std::thread::sleep(slow);
            }
            // Whoever has given the job waits for its end.
            let _ = ended.send(job.run(&mut clock()));
            shared.give(AofItem::SyncEnded);
        });
        started.map(|_| BaseThread(outcome)).map_err(|refused| refused.job)
    }

    /// What has become of the job, if it has ended.
    pub fn outcome(&self) -> Option<BaseOutcome> {
        self.0.try_recv().ok()
    }

    /// Waits for the end of the job.
    pub fn wait(self) -> BaseOutcome {
        self.0.recv().expect("a panic of the thread ends the process")
    }
}

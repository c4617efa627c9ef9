//! The word that decides which side ends a job; in a file of its own, so that loom can model it.
//!
//! | from | by | to | sends the end |
//! |---|---|---|---|
//! | QUEUED | the worker's `start` | RUNNING | – |
//! | QUEUED | `cancel` | DONE | the canceller or the worker that took the job out of the queue |
//! | RUNNING | `cancel` | CANCEL_REQUESTED | – |
//! | RUNNING, CANCEL_REQUESTED | the worker's `finish` | DONE | the worker |

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The job waits for a worker.
    Queued,
    /// A worker runs the job.
    Running,
    /// A worker runs the job, and was asked to stop.
    CancelRequested,
    /// The job has ended: finished, or cancelled before its start.
    Done,
}

/// The state of one job, changed by its worker and by its cancellers.
#[derive(Debug)]
pub(crate) struct JobProgress(AtomicU32);

/// The state that a cancellation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelEffect {
    /// The job had not begun: it will not run, and the caller of `cancel` takes it out of the queue.
    Waiting,
    /// A worker runs the job and was asked to stop.
    Running,
    /// The job was asked to stop before, or has ended.
    Late,
}

impl JobProgress {
    pub(crate) fn new() -> JobProgress {
        JobProgress(AtomicU32::new(QUEUED))
    }

    /// Called by the worker: false when the job was cancelled before and must not run.
    pub(crate) fn start(&self) -> bool {
        // AcqRel: `start` and `cancel` have one order, so exactly one of the two succeeds. The job itself
        // became visible through the queue's lock.
        self.0.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Called by the worker after the job returned or panicked. Returns whether the job was asked to stop.
    pub(crate) fn finish(&self) -> bool {
        // AcqRel: a thread that sees DONE sees the job's effects, and the worker sees a request
        // that came before.
        self.0.swap(DONE, Ordering::AcqRel) == CANCEL_REQUESTED
    }

    /// Called by any canceller, at any time and any number of times.
    pub(crate) fn cancel(&self) -> CancelEffect {
        // AcqRel on both: pairs with `start` and `finish`.
        if self.0.compare_exchange(QUEUED, DONE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return CancelEffect::Waiting;
        }
        match self.0.compare_exchange(RUNNING, CANCEL_REQUESTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => CancelEffect::Running,
            Err(_) => CancelEffect::Late,
        }
    }

    /// A version of `cancel` with an error that the models have to find: it loads, then stores. A job that
    /// starts in between runs although its end was sent already.
    #[cfg(loom)]
    #[allow(dead_code, reason = "for the models")]
    pub(crate) fn cancel_in_two_steps(&self) -> CancelEffect {
        if self.0.load(Ordering::Acquire) == QUEUED {
            self.0.store(DONE, Ordering::Release);
            return CancelEffect::Waiting;
        }
        self.cancel()
    }

    pub(crate) fn state(&self) -> JobState {
        // Acquire: pairs with `finish`.
        match self.0.load(Ordering::Acquire) {
            QUEUED => JobState::Queued,
            RUNNING => JobState::Running,
            CANCEL_REQUESTED => JobState::CancelRequested,
            _ => JobState::Done,
        }
    }
}

const QUEUED: u32 = 0;
const RUNNING: u32 = 1;
const CANCEL_REQUESTED: u32 = 2;
const DONE: u32 = 3;

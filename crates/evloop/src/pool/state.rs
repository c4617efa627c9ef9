//! The word that decides which side ends a job. A file of its own so that loom can model it.
//!
//! | from | by | to | sends the end |
//! |---|---|---|---|
//! | QUEUED | the worker's `start` | RUNNING | – |
//! | QUEUED | `cancel` | DONE | the holder of the job: the canceller that took it out of the queue, or the worker that did |
//! | RUNNING | `cancel` | CANCEL_REQUESTED | – |
//! | RUNNING, CANCEL_REQUESTED | the worker's `finish` | DONE | the worker |

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits for a worker.
    Queued,
    /// A worker is at it.
    Running,
    /// A worker is at it and was asked to stop.
    CancelRequested,
    /// It is over: finished, or cancelled before its start.
    Done,
}

/// The state of one job, changed by its worker and by those that cancel it.
#[derive(Debug)]
pub(crate) struct JobProgress(AtomicU32);

/// What a cancellation met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelEffect {
    /// No worker had begun: the job will not run, and the caller of `cancel` takes it out of the queue.
    Waiting,
    /// A worker is at it and was asked to stop.
    Running,
    /// It was asked before, or is over.
    Late,
}

impl JobProgress {
    pub(crate) fn new() -> JobProgress {
        JobProgress(AtomicU32::new(QUEUED))
    }

    /// Worker's side: false when the job was cancelled before and must not run.
    pub(crate) fn start(&self) -> bool {
        // AcqRel: one order with `cancel`, so that exactly one of the two succeeds. The job itself came
        // through the queue's lock.
        self.0.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Worker's side, after the job returned. Returns whether the job was asked to stop.
    pub(crate) fn finish(&self) -> bool {
        // AcqRel: a thread that sees DONE sees what the job did; and the request is seen if it came first.
        self.0.swap(DONE, Ordering::AcqRel) == CANCEL_REQUESTED
    }

    /// The other side, at any time and any number of times.
    pub(crate) fn cancel(&self) -> CancelEffect {
        // AcqRel on both: see `start` and `finish`, which are the other sides.
        if self.0.compare_exchange(QUEUED, DONE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return CancelEffect::Waiting;
        }
        match self.0.compare_exchange(RUNNING, CANCEL_REQUESTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => CancelEffect::Running,
            Err(_) => CancelEffect::Late,
        }
    }

    /// The mutant: looks and then stores. A job that starts in between runs although its end was sent
    /// already.
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

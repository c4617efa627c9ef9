//! Worker threads for jobs that would block the loop.
//!
//! Invariants: (1) a job that the pool accepted ends exactly once, with one [`Finished`] in the caller's
//! [`Mailbox`], whether it returns, panics, or is cancelled; (2) a job's memory lives until then, also after
//! a cancellation; (3) submitting never blocks: a full queue returns the job; (4) a cancelled job that had
//! not begun does not run, and leaves the queue at once; a job that had begun is asked to stop through its
//! [`Cancel`], and may do so when it likes; (5) closing the pool runs the queued jobs and joins the threads.
//!
//! A job costs two allocations and a lock on either side, which is little compared to its work.
//!
//! [`Mailbox`]: crate::Mailbox

mod state;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;

pub use self::state::JobState;
use self::state::{CancelEffect, JobProgress};
use crate::handle::Token;
use crate::mailbox::Sender;

/// A fixed number of threads that run jobs in the order of submission. A pool may serve several loops.
pub struct WorkerPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The main function of a pool's thread; see [`WorkerPool::open_on`].
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    /// Runs jobs on the calling thread until the pool is closed. A job's panic is caught.
    pub fn run(self) {
        self.shared.serve();
    }
}

/// The end of a job, received in the mailbox whose sender was submitted with the job.
#[derive(Debug)]
pub struct Finished<T> {
    /// The token that was submitted with the job.
    pub token: Token,
    /// The job's result, or the reason why it has none.
    pub outcome: JobOutcome<T>,
}

/// The result of a job.
#[derive(Debug)]
pub enum JobOutcome<T> {
    /// The job returned a value; also when it was asked to stop, whether it obeyed or not.
    Done(T),
    /// The job was cancelled before it began, and did not run.
    Cancelled,
    /// The job, or its drop after a cancellation, panicked with this message.
    Panicked(String),
}

/// A job that the pool refused, unchanged.
pub struct RejectedJob<J> {
    /// The job as it was submitted.
    pub job: J,
    /// The reason for the refusal.
    pub why: PoolRefusal,
}

/// Reasons for which a pool refuses a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRefusal {
    /// The queue has its maximum number of jobs.
    Full,
    /// The pool was closed.
    Closed,
}

/// Counters of a pool. The numbers are read one after the other, so they may be
/// of slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Number of threads of the pool.
    pub workers: usize,
    /// Jobs in the queue that have not begun.
    pub queued: usize,
    /// Jobs that the pool accepted.
    pub calls: u64,
    /// Jobs that ran to their end, including those that panicked or were asked to stop.
    pub completed: u64,
    /// Jobs that were cancelled before they began, or asked to stop while they ran.
    pub cancelled: u64,
    /// Whether the pool is closed and accepts no more jobs.
    pub closed: bool,
}

/// The handle of a submitted job, to cancel it or to read its state. Dropping the handle has no effect.
#[derive(Debug)]
pub struct JobHandle {
    progress: Arc<JobProgress>,
    sequence: u64,
    shared: Arc<Shared>,
}

/// Tells a running job whether it was asked to stop.
#[derive(Clone, Debug)]
pub struct Cancel {
    progress: Arc<JobProgress>,
}

impl Cancel {
    /// Whether the job was asked to stop.
    pub fn is_requested(&self) -> bool {
        self.progress.state() == JobState::CancelRequested
    }
}

impl WorkerPool {
    /// The number of threads and the maximum number of queued jobs that suit most uses.
    pub const DEFAULT: (usize, usize) = (2, 1024);

    /// Starts `workers` threads, 1..=256, for a queue of at most `queue_max` jobs, at least 1. Errors:
    /// `EINVAL` for other numbers, and the system's error if it refuses a thread.
    pub fn open(workers: usize, queue_max: usize) -> io::Result<WorkerPool> {
        WorkerPool::open_on(workers, queue_max, |number, worker| {
            Builder::new().name(format!("worker-{number}")).spawn(|| worker.run())
        })
    }

    /// Like [`WorkerPool::open`], but `start` starts the threads: it gets the number of each, from 0, and the
    /// main function. Errors: as for `open`, and those of `start`, after which no thread of the pool is left.
    pub fn open_on(
        workers: usize,
        queue_max: usize,
        mut start: impl FnMut(usize, Worker) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<WorkerPool> {
        if workers == 0 || workers > WORKERS_MAX || queue_max == 0 {
            return Err(Errno::INVAL.into());
        }
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { jobs: VecDeque::new(), next: 0, closed: false }),
            work: Condvar::new(),
            workers,
            queue_max,
            completed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        });
        let threads = Mutex::new(Vec::with_capacity(workers));
        let pool = WorkerPool { shared, threads };
        for number in 0..workers {
            // On failure the drop of the pool joins the threads that were started.
            let thread = start(number, Worker { shared: pool.shared.clone() })?;
            lock(&pool.threads).push(thread);
        }
        Ok(pool)
    }

    /// Submits a job. Its end is sent to `home` with `token`. Cost: a lock.
    pub fn submit<T, J>(
        &self,
        home: &Sender<Finished<T>>,
        token: Token,
        job: J,
    ) -> Result<JobHandle, RejectedJob<J>>
    where
        T: Send + 'static,
        J: FnOnce(&Cancel) -> T + Send + 'static,
    {
        let progress = Arc::new(JobProgress::new());
        let mut queue = lock(&self.shared.queue);
        let why = match (queue.closed, queue.jobs.len() >= self.shared.queue_max) {
            (true, _) => Some(PoolRefusal::Closed),
            (false, true) => Some(PoolRefusal::Full),
            (false, false) => None,
        };
        if let Some(why) = why {
            return Err(RejectedJob { job, why });
        }
        let task = Box::new(PooledJob { job, token, home: home.clone(), progress: progress.clone() });
        let sequence = queue.next;
        queue.next += 1;
        queue.jobs.push_back((sequence, task));
        drop(queue);
        self.shared.work.notify_one();
        Ok(JobHandle { progress, sequence, shared: self.shared.clone() })
    }

    /// The counters so far.
    pub fn statistics(&self) -> PoolStatistics {
        let queue = lock(&self.shared.queue);
        PoolStatistics {
            workers: self.shared.workers,
            queued: queue.jobs.len(),
            calls: queue.next,
            // Relaxed: statistics; they order nothing.
            completed: self.shared.completed.load(Ordering::Relaxed),
            cancelled: self.shared.cancelled.load(Ordering::Relaxed),
            closed: queue.closed,
        }
    }

    /// Refuses further jobs, runs the accepted ones to their ends, and joins the threads. A second call
    /// has no effect. Must not be called by a job.
    pub fn close(&self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
        // The threads are taken out first, because two closers must not wait for each other's lock while they
        // join.
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // Panics of jobs were caught, so a panic of the worker itself is a defect of this file.
            let _ = thread.join();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl JobHandle {
    /// The state of the job at this moment.
    pub fn state(&self) -> JobState {
        self.progress.state()
    }

    /// Cancels the job. The end is sent to the mailbox at once if the job had not begun, else when it
    /// returns. Returns whether the request was in time. Cost: a lock, if the job had not begun.
    pub fn cancel(&self) -> bool {
        match self.progress.cancel() {
            CancelEffect::Late => return false,
            CancelEffect::Running => {}
            CancelEffect::Waiting => {
                // A worker may have taken the job already; then its start fails, and the worker
                // sends the end.
                if let Some(task) = self.shared.take_out(self.sequence) {
                    task.abandon();
                }
            }
        }
        // Relaxed: a statistic.
        self.shared.cancelled.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// The state that the pool shares with its threads.
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    workers: usize,
    queue_max: usize,
    completed: AtomicU64,
    cancelled: AtomicU64,
}

struct Queue {
    /// Jobs in the order of their numbers.
    jobs: VecDeque<(u64, Box<dyn AnyJob>)>,
    /// Number of jobs accepted so far, which is also the number of the next job.
    next: u64,
    closed: bool,
}

impl Shared {
    /// Runs jobs until the pool is closed.
    fn serve(&self) {
        while let Some(task) = self.next() {
            if task.run() {
                // Relaxed: a statistic.
                self.completed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn next(&self) -> Option<Box<dyn AnyJob>> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some((_, task)) = queue.jobs.pop_front() {
                return Some(task);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_out(&self, sequence: u64) -> Option<Box<dyn AnyJob>> {
        let mut queue = lock(&self.queue);
        let index = queue.jobs.binary_search_by_key(&sequence, |(number, _)| *number).ok()?;
        queue.jobs.remove(index).map(|(_, task)| task)
    }
}

/// A job of any type.
trait AnyJob: Send {
    /// Runs the job and sends its end; false if it was cancelled before.
    fn run(self: Box<Self>) -> bool;
    /// Sends the end of a job that was cancelled.
    fn abandon(self: Box<Self>);
}

struct PooledJob<T, J> {
    job: J,
    token: Token,
    home: Sender<Finished<T>>,
    progress: Arc<JobProgress>,
}

impl<T: Send, J: FnOnce(&Cancel) -> T + Send> AnyJob for PooledJob<T, J> {
    fn run(self: Box<Self>) -> bool {
        if !self.progress.start() {
            self.abandon();
            return false;
        }
        let PooledJob { job, token, home, progress } = *self;
        let cancel = Cancel { progress };
        // A panic of the job leaves the pool's state intact; the caller must judge state that the job shares.
        let outcome = match catch_unwind(AssertUnwindSafe(|| job(&cancel))) {
            Ok(value) => JobOutcome::Done(value),
            Err(payload) => JobOutcome::Panicked(message_of(payload)),
        };
        cancel.progress.finish();
        home.send(Finished { token, outcome });
        true
    }

    fn abandon(self: Box<Self>) {
        let PooledJob { job, token, home, .. } = *self;
        // A panic is caught here, too, because dropping the job's captured values may panic just as running
        // the job may.
        let outcome = match catch_unwind(AssertUnwindSafe(|| drop(job))) {
            Ok(()) => JobOutcome::Cancelled,
            Err(payload) => JobOutcome::Panicked(message_of(payload)),
        };
        home.send(Finished { token, outcome });
    }
}

fn message_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>().map_err(|payload| payload.downcast::<&str>()) {
        Ok(text) => *text,
        Err(Ok(text)) => (*text).to_owned(),
        Err(Err(other)) => {
            // A payload of another type is never dropped, because its drop may panic too, and would end the
            // worker.
            std::mem::forget(other);
            "a job panicked".to_owned()
        }
    }
}

/// No code of a caller runs under the locks, so a panic cannot leave the guarded state inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `RejectedJob` is an error type, so it needs `Debug`, which closures lack.
impl<J> fmt::Debug for RejectedJob<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerPool").field(&self.statistics()).finish()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("workers", &self.workers).finish_non_exhaustive()
    }
}

const WORKERS_MAX: usize = 256;

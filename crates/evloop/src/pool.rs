//! Threads for what would block the loop.
//!
//! Invariants: (1) a job that was taken in ends exactly once, as one [`Finished`] in the caller's
//! [`Mailbox`], whatever happens to it: it returns, panics, or is cancelled; (2) what a job owns lives until
//! then, also when it was cancelled; (3) handing one in never blocks: a full queue gives it back; (4) a
//! cancelled job that had not begun does not run, and leaves the queue at once; one that had begun is asked,
//! by its [`Cancel`], and may answer when it likes; (5) closing lets the queue run empty and joins the
//! threads.
//!
//! A job costs two allocations and a lock on either side, which what it does outweighs by far.
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

/// A fixed number of threads that take jobs in the order in which they came. It may serve several loops.
pub struct WorkerPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What a thread of a pool runs; see [`WorkerPool::open_on`].
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

/// How a job ended; to be had from the mailbox whose sender came with it.
#[derive(Debug)]
pub struct Finished<T> {
    /// The token that was handed in with the job.
    pub token: Token,
    /// What became of it.
    pub outcome: JobOutcome<T>,
}

/// What became of a job.
#[derive(Debug)]
pub enum JobOutcome<T> {
    /// It returned; also when it was asked to stop, which it may have heeded or not.
    Done(T),
    /// It was cancelled before it began, and did not run.
    Cancelled,
    /// It panicked with this message.
    Panicked(String),
}

/// A job that was not taken in, whole.
pub struct NotPooled<J> {
    /// The job.
    pub job: J,
    /// Why.
    pub why: PoolRefusal,
}

/// Why a pool takes no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRefusal {
    /// As many jobs wait as may.
    Full,
    /// The pool was closed.
    Closed,
}

/// What a pool did so far. The numbers are of about the same moment, not of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Threads.
    pub workers: usize,
    /// Jobs that wait.
    pub queued: usize,
    /// Jobs that were taken in.
    pub calls: u64,
    /// Jobs that ran to their end, those included that panicked or were asked to stop.
    pub completed: u64,
    /// Jobs that were cancelled before they began, or asked to stop before they ended.
    pub cancelled: u64,
    /// The pool takes no more jobs.
    pub closed: bool,
}

/// Names a job that was handed in, to cancel it or to see where it stands. Dropping it changes nothing.
#[derive(Debug)]
pub struct JobHandle {
    progress: Arc<JobProgress>,
    sequence: u64,
    shared: Arc<Shared>,
}

/// What a running job asks whether it is still wanted.
#[derive(Clone, Debug)]
pub struct Cancel {
    progress: Arc<JobProgress>,
}

impl Cancel {
    /// Somebody asked the job to stop.
    pub fn is_requested(&self) -> bool {
        self.progress.state() == JobState::CancelRequested
    }
}

impl WorkerPool {
    /// Threads and waiting jobs that suit most.
    pub const DEFAULT: (usize, usize) = (2, 1024);

    /// Starts `workers` threads, 1..=256, for a queue of at most `queue_max` jobs, at least 1. Other numbers
    /// are `EINVAL`; or the system refuses the threads.
    pub fn open(workers: usize, queue_max: usize) -> io::Result<WorkerPool> {
        WorkerPool::open_on(workers, queue_max, |number, worker| {
            Builder::new().name(format!("worker-{number}")).spawn(|| worker.run())
        })
    }

    /// [`WorkerPool::open`] on threads that `start` starts, each with its number from 0 and what the thread
    /// is to run. Errors: as there; those of `start`, after which no thread of the pool is left.
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
            // On failure the pool's drop joins those before.
            let thread = start(number, Worker { shared: pool.shared.clone() })?;
            lock(&pool.threads).push(thread);
        }
        Ok(pool)
    }

    /// Hands in a job. Its end is sent to `home` with `token`. Cost: a lock.
    pub fn submit<T, J>(
        &self,
        home: &Sender<Finished<T>>,
        token: Token,
        job: J,
    ) -> Result<JobHandle, NotPooled<J>>
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
            return Err(NotPooled { job, why });
        }
        let task = Box::new(PooledJob { job, token, home: home.clone(), progress: progress.clone() });
        let sequence = queue.next;
        queue.next += 1;
        queue.jobs.push_back((sequence, task));
        drop(queue);
        self.shared.work.notify_one();
        Ok(JobHandle { progress, sequence, shared: self.shared.clone() })
    }

    /// The numbers so far.
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

    /// Takes no more jobs, lets those that it has come to their ends, and joins the threads. A second call
    /// does nothing. Must not be called by a job.
    pub fn close(&self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
        // Taken out first: two closers must not wait for each other's lock while they join.
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A worker's own panic would be a defect here, and jobs' panics were caught.
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
    /// Where it stands.
    pub fn state(&self) -> JobState {
        self.progress.state()
    }

    /// Asks for the job's end, which is sent to the mailbox: at once if it had not begun, else when it
    /// returns. Returns whether the request came in time to make a difference. Cost: a lock, if it had not
    /// begun.
    pub fn cancel(&self) -> bool {
        match self.progress.cancel() {
            CancelEffect::Late => return false,
            CancelEffect::Running => {}
            CancelEffect::Waiting => {
                // A worker may have it in hand already; then its start fails, and the worker sends the end.
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

/// What the pool and its threads share.
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    workers: usize,
    queue_max: usize,
    completed: AtomicU64,
    cancelled: AtomicU64,
}

struct Queue {
    /// In the order of their numbers.
    jobs: VecDeque<(u64, Box<dyn AnyJob>)>,
    /// Jobs taken in so far.
    next: u64,
    closed: bool,
}

impl Shared {
    /// A worker's life.
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
    /// Runs it and sends its end; false if it was cancelled before.
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
        // Nothing of the pool's is torn by it, and what the job shares with others is the caller's to judge.
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
        // What the job owns may panic when dropped, as it may when run.
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
            // Its drop may panic too, and that would take the worker along.
            std::mem::forget(other);
            "a job panicked".to_owned()
        }
    }
}

/// No code of a caller runs under the locks, so a panic leaves what they guard whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A closure has no `Debug`, and an error needs one.
impl<J> fmt::Debug for NotPooled<J> {
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

//! Operations that may block, for drivers over readiness and over the ring: files, processes, helper threads.

use std::collections::VecDeque;
use std::io;

use rustix::io::Errno;

use crate::event::{Event, Exit};
use crate::file::FileTable;
use crate::handle::{FileId, Source, Token};
use crate::mailbox::{Mailbox, Sender};
use crate::pool::{Cancel, Finished, JobHandle, JobOutcome, WorkerPool};
use crate::process::{ProcessTable, Reaper, WaitTarget};
use crate::waker::Waker;

/// A driver's files and processes; empty, and without a thread, until they are used.
#[derive(Debug)]
pub(crate) struct BlockingOps {
    pub(crate) files: FileTable,
    pub(crate) processes: ProcessTable,
    waker: Option<Waker>,
    workers: (usize, usize),
    pool: Option<FilePool>,
    reaper: Option<Reaper>,
}

/// The threads for operations on regular files and disks, whose readiness cannot be waited for.
#[derive(Debug)]
struct FilePool {
    pool: WorkerPool,
    home: Sender<Finished<Option<Errno>>>,
    ends: Mailbox<Finished<Option<Errno>>>,
    /// Files whose operation found the queue full; they continue when a job ends.
    stalled: VecDeque<u32>,
}

/// Whether the pool took a job.
pub(crate) enum Taken {
    Yes(JobHandle),
    /// The queue is full: the operation waits for room.
    Later,
    Never(io::Error),
}

impl BlockingOps {
    /// Files and processes, without threads, which start when they are needed. `workers`: the number of
    /// threads for files, and the number of jobs that may wait for them.
    pub(crate) fn new(workers: (usize, usize)) -> BlockingOps {
        BlockingOps {
            files: FileTable::default(),
            processes: ProcessTable::default(),
            waker: None,
            workers,
            pool: None,
            reaper: None,
        }
    }

    pub(crate) fn use_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Hands a file's operation to a thread.
    pub(crate) fn submit(
        &mut self,
        index: u32,
        job: impl FnOnce(&Cancel) -> Option<Errno> + Send + 'static,
    ) -> Taken {
        let pool = match self.pool() {
            Ok(pool) => pool,
            Err(error) => return Taken::Never(error),
        };
        match pool.pool.submit(&pool.home, Token(u64::from(index)), job) {
            Ok(handle) => Taken::Yes(handle),
            Err(_) => {
                pool.stalled.push_back(index);
                Taken::Later
            }
        }
    }

    fn pool(&mut self) -> io::Result<&mut FilePool> {
        if self.pool.is_none() {
            let waker = self.waker.clone().ok_or(Errno::BADF)?;
            let (home, ends) = Mailbox::new(waker);
            let (workers, queue) = self.workers;
            let pool = WorkerPool::open(workers, queue)?;
            self.pool = Some(FilePool { pool, home, ends, stalled: VecDeque::new() });
        }
        self.pool.as_mut().ok_or_else(|| Errno::BADF.into())
    }

    /// Files whose jobs ended, with the error of the job if it has one.
    pub(crate) fn file_ends(&mut self) -> Vec<(u32, Option<io::Error>)> {
        let Some(pool) = &mut self.pool else { return Vec::new() };
        let error_of = |outcome: JobOutcome<Option<Errno>>| match outcome {
            JobOutcome::Done(errno) => errno.map(io::Error::from),
            JobOutcome::Cancelled => Some(Errno::CANCELED.into()),
            JobOutcome::Panicked(text) => Some(io::Error::other(text)),
        };
        pool.ends.drain().map(|end| (end.token.0 as u32, error_of(end.outcome))).collect()
    }

    /// The file that has waited longest for room in the queue, if there is room.
    pub(crate) fn next_stalled(&mut self) -> Option<u32> {
        let pool = self.pool.as_mut()?;
        // Only this thread adds jobs, so the room lasts until the next job is submitted.
        let room = !pool.stalled.is_empty() && pool.pool.statistics().queued < self.workers.1;
        if room { pool.stalled.pop_front() } else { None }
    }

    /// Removes a file from the list of those that wait for room.
    pub(crate) fn unstall(&mut self, index: u32) {
        if let Some(pool) = &mut self.pool {
            pool.stalled.retain(|other| *other != index);
        }
    }

    /// Makes the helper thread watch the child of wait `index`.
    pub(crate) fn watch_child(&mut self, index: u32, whom: WaitTarget) -> io::Result<()> {
        if self.reaper.is_none() {
            self.reaper = Some(Reaper::open(self.waker.clone().ok_or(Errno::BADF)?)?);
        }
        if let Some(reaper) = &mut self.reaper {
            reaper.add(index, whom);
        }
        Ok(())
    }

    /// Stops watching the child of wait `index`; returns false when the helper thread has found the child's
    /// end already.
    pub(crate) fn unwatch_child(&mut self, index: u32) -> bool {
        self.reaper.as_mut().is_some_and(|reaper| reaper.remove(index))
    }

    /// The waits whose processes have ended, as found by the helper thread.
    pub(crate) fn process_ends(&mut self) -> Vec<(u32, Exit)> {
        self.reaper.as_mut().map(Reaper::found).unwrap_or_default()
    }
}

impl Drop for BlockingOps {
    fn drop(&mut self) {
        // Queued operations are cancelled; the drop of the pool joins the threads, and so waits for
        // operations that have begun.
        if self.pool.is_some() {
            self.files.ask_all();
        }
    }
}

/// Removes the pending events of a file that is being closed.
pub(crate) fn forget_events(deferred: &mut VecDeque<(Option<Source>, Event)>, file: FileId) {
    deferred.retain(|(_, event)| !matches!(event, Event::FileDone { done, .. } if done.id.file() == file));
}

//! Waiting for child processes.
//!
//! Where the system has descriptors of processes (Linux 5.3), a single child is waited for through its
//! descriptor, which becomes readable when the process ends. A helper thread polls every 1 to 16 ms for the
//! other waits: groups of children, which have no descriptor; a single child where descriptors of processes
//! are missing or denied, or cannot be waited for; and a child that has ended but cannot be reaped yet
//! because a debugger traces it. The descriptor of such a child stays readable, so a wait for the descriptor
//! would not block.
//!
//! Invariants: (1) each wait ends exactly once, with one event; (2) a cancelled wait reaps no child from
//! then on; (3) a wait reports every child that it reaps: a child is checked only after its descriptor was
//! opened, and is reported at once if it had ended by then; (4) a wait never blocks the loop's thread; (5)
//! a child with a descriptor is reaped through the descriptor, because after another waiter has reaped the
//! child its process id may belong to another child; (6) a descriptor that has become readable is not waited
//! for again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::event::{Event, Exit};
use crate::handle::{ProcessId, Source, Token};
use crate::mailbox::{Mailbox, Sender};
use crate::pool::{Finished, WorkerPool};
use crate::waker::Waker;

/// The waits for child processes of one event loop.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    entries: Vec<WaitEntry>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct WaitEntry {
    generation: u32,
    waiting: Option<ProcessWait>,
}

/// A wait that has not ended.
#[derive(Debug)]
pub(crate) struct ProcessWait {
    pub(crate) token: Token,
    pub(crate) pid: i32,
    pub(crate) means: WaitMethod,
    pub(crate) cancelled: bool,
}

/// How the end of a wait's process is detected.
#[derive(Debug)]
pub(crate) enum WaitMethod {
    /// The descriptor of the process, and the driver's source that waits for it. On io_uring the source is
    /// [`Source::NONE`], because an operation without a source waits.
    Descriptor(Arc<OwnedFd>, Source),
    /// The helper thread polls for the end.
    Helper,
}

/// The outcome of beginning a wait.
pub(crate) enum WaitStart {
    /// The wait has ended already.
    Over(Exit),
    /// This descriptor becomes readable when the process ends.
    Descriptor(Arc<OwnedFd>),
    /// The helper thread has to poll.
    Look,
}

impl ProcessTable {
    pub(crate) fn insert(&mut self, token: Token, pid: i32, means: WaitMethod) -> ProcessId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(WaitEntry { generation: 0, waiting: None });
            u32::try_from(self.entries.len() - 1).expect("fewer waits than processes")
        });
        let entry = &mut self.entries[index as usize];
        entry.waiting = Some(ProcessWait { token, pid, means, cancelled: false });
        ProcessId { index, generation: entry.generation }
    }

    pub(crate) fn at(&mut self, index: u32) -> Option<&mut ProcessWait> {
        self.entries.get_mut(index as usize)?.waiting.as_mut()
    }

    /// The index of a wait that has not ended.
    pub(crate) fn index(&self, id: ProcessId) -> Option<u32> {
        let entry = self.entries.get(id.index as usize)?;
        (entry.generation == id.generation && entry.waiting.is_some()).then_some(id.index)
    }

    pub(crate) fn all(&self) -> Vec<ProcessId> {
        let open = |(index, entry): (usize, &WaitEntry)| {
            let id = ProcessId { index: index as u32, generation: entry.generation };
            entry.waiting.as_ref().map(|_| id)
        };
        self.entries.iter().enumerate().filter_map(open).collect()
    }

    /// Ends a wait; returns its method and its event.
    pub(crate) fn end(&mut self, index: u32, exit: Exit) -> Option<(WaitMethod, Event)> {
        let entry = self.entries.get_mut(index as usize)?;
        let id = ProcessId { index, generation: entry.generation };
        let waiting = entry.waiting.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        Some((waiting.means, Event::ProcessEnded { token: waiting.token, id, exit }))
    }
}

/// Begins a wait for `pid`, which has the meaning of `waitpid`'s argument: the id of a child, -1 for any
/// child, 0 for any child in the process group of this process, `-g` for any child in the process group `g`.
pub(crate) fn begin(pid: i32) -> WaitStart {
    if let Some(child) = (pid > 0).then(|| Pid::from_raw(pid)).flatten()
        && let Ok(fd) = open(child)
    {
        // The descriptor is opened before the check, because an earlier check would miss a process that ends
        // in between.
        match reap_child(fd.as_fd(), pid) {
            // Reaping by descriptor failed: Linux 5.3 has descriptors of processes but reaps by them only
            // from 5.4 on, and a filter may deny it. The process is then reaped by its id.
            Some(Exit::Failed(_)) => {}
            Some(exit) => return WaitStart::Over(exit),
            None => return WaitStart::Descriptor(Arc::new(fd)),
        }
    }
    match reap_number(pid) {
        Some(exit) => WaitStart::Over(exit),
        None => WaitStart::Look,
    }
}

#[cfg(target_os = "linux")]
fn open(child: Pid) -> Result<OwnedFd, Errno> {
    rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn open(_: Pid) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// The children that a wait is for.
#[derive(Clone, Debug)]
pub(crate) enum WaitTarget {
    /// A process id or a group of processes, in the notation of `waitpid`.
    Number(i32),
    /// The child with this descriptor, which had this process id when the wait began.
    Child(Arc<OwnedFd>, i32),
}

impl WaitTarget {
    fn reap(&self) -> Option<Exit> {
        match self {
            WaitTarget::Number(pid) => reap_number(*pid),
            WaitTarget::Child(fd, pid) => reap_child(fd.as_fd(), *pid),
        }
    }
}

/// Checks once for the child with this descriptor and process id; `None` while it has not ended, or cannot be
/// reaped yet.
#[cfg(target_os = "linux")]
pub(crate) fn reap_child(fd: BorrowedFd<'_>, pid: i32) -> Option<Exit> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::PidFd(fd), options) {
        Ok(None) | Err(Errno::INTR) => None,
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Exited { pid, code },
            (None, Some(signal)) => Exit::Killed { pid, signal, core_dumped: status.dumped() },
            // This is not expected, because stops and continuations were not requested, so the kernel reports
            // neither.
            (None, None) => Exit::Failed(Errno::INVAL.into()),
        }),
        Err(Errno::CHILD) => Some(Exit::NoChild),
        Err(errno) => Some(Exit::Failed(errno.into())),
    }
}

/// This system has no descriptors of processes, so the process id alone identifies the child.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reap_child(_: BorrowedFd<'_>, pid: i32) -> Option<Exit> {
    reap_number(pid)
}

/// Checks once for the children that `pid` names in the notation of `waitpid`; `None` while none of them has
/// ended.
fn reap_number(pid: i32) -> Option<Exit> {
    let result = match pid {
        ..-1 => pid
            .checked_neg()
            .and_then(Pid::from_raw)
            .map_or(Err(Errno::SRCH), |group| rustix::process::waitpgid(group, WaitOptions::NOHANG)),
        -1 => rustix::process::wait(WaitOptions::NOHANG),
        0 => rustix::process::waitpgid(rustix::process::getpgrp(), WaitOptions::NOHANG),
        1.. => rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG),
    };
    match result {
        Ok(None) | Err(Errno::INTR) => None,
        Ok(Some((pid, status))) => Some(exit_of(pid.as_raw_nonzero().get(), status)),
        Err(Errno::CHILD) => Some(Exit::NoChild),
        Err(errno) => Some(Exit::Failed(errno.into())),
    }
}

fn exit_of(pid: i32, status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Exited { pid, code },
        (None, Some(signal)) => {
            Exit::Killed { pid, signal, core_dumped: status.as_raw() as u32 & CORE_DUMPED != 0 }
        }
        // This is not expected, because stops and continuations were not requested, so the kernel reports
        // neither.
        (None, None) => Exit::Failed(Errno::INVAL.into()),
    }
}

/// The thread that polls for processes whose end no descriptor reports; see the module.
#[derive(Debug)]
pub(crate) struct Reaper {
    list: Arc<WaitList>,
    found: Mailbox<(u32, Exit)>,
    home: Sender<(u32, Exit)>,
    /// Receives a message at the end of each job of the thread. Nothing needs these messages, so
    /// [`Reaper::add`] drops them.
    over: (Sender<Finished<()>>, Mailbox<Finished<()>>),
    /// This field is the last one because fields are dropped in order, and dropping the pool joins the
    /// thread. [`Reaper::drop`] has then already asked the thread to end.
    pool: WorkerPool,
}

#[derive(Debug, Default)]
struct WaitList {
    waits: Mutex<Waits>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waits {
    /// Index and target of each wait.
    waits: Vec<(u32, WaitTarget)>,
    /// Whether the thread is running the polling job.
    running: bool,
    stopping: bool,
    /// Set when a wait is added, so that the thread polls again soon.
    fresh: bool,
}

impl Reaper {
    pub(crate) fn open(waker: Waker) -> io::Result<Reaper> {
        let (home, found) = Mailbox::new(waker.clone());
        let over = Mailbox::new(waker);
        Ok(Reaper { list: Arc::default(), found, home, over, pool: WorkerPool::open(1, 4)? })
    }

    /// Adds a wait, and starts the polling job unless it is running.
    pub(crate) fn add(&mut self, index: u32, whom: WaitTarget) {
        self.over.1.drain().for_each(drop);
        let mut waits = self.list.lock();
        waits.waits.push((index, whom));
        waits.fresh = true;
        if std::mem::replace(&mut waits.running, true) {
            self.list.changed.notify_one();
            return;
        }
        drop(waits);
        let (list, home) = (self.list.clone(), self.home.clone());
        // The queue holds one job at most, since `running` was false.
        let _ = self.pool.submit(&self.over.0, Token::default(), move |_| list.look(&home));
    }

    /// Removes a wait; returns false if its child has been found already and the end of the wait is pending.
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        let mut waits = self.list.lock();
        let before = waits.waits.len();
        waits.waits.retain(|(other, _)| *other != index);
        waits.waits.len() != before
    }

    /// The ends that were found since the last call.
    pub(crate) fn found(&mut self) -> Vec<(u32, Exit)> {
        self.found.drain().collect()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.list.lock().stopping = true;
        self.list.changed.notify_one();
    }
}

impl WaitList {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's job: polls until no wait is left, or the `Reaper` is dropped.
    fn look(&self, home: &Sender<(u32, Exit)>) {
        let mut waits = self.lock();
        let mut pause = PAUSE_MIN;
        loop {
            let mut found = Vec::new();
            // The checks run under the lock, so that a wait is either removed or has found a child, never
            // both.
            waits.waits.retain(|(index, whom)| match whom.reap() {
                Some(exit) => {
                    found.push((*index, exit));
                    false
                }
                None => true,
            });
            if !found.is_empty() {
                home.send_all(found);
                pause = PAUSE_MIN;
            }
            if waits.waits.is_empty() || waits.stopping {
                waits.running = false;
                return;
            }
            if std::mem::take(&mut waits.fresh) {
                pause = PAUSE_MIN;
            }
            waits = self.changed.wait_timeout(waits, pause).unwrap_or_else(PoisonError::into_inner).0;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(16);
/// The bit of a wait status that reports a core dump.
const CORE_DUMPED: u32 = 0x80;

#[cfg(all(test, target_os = "linux"))]
mod tests;

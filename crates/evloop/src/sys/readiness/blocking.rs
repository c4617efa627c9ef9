//! Files and processes over readiness.
//!
//! A regular file is always ready and takes its time all the same: a thread of the pool does what is asked of it. A FIFO,
//! and whatever else can be waited for, is tried at once and then again when it is ready. A process is ready when it has
//! ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::{InputMode, Poller, Readiness};
use crate::blocking::{Taken, forget_events};
use crate::driver::Driver;
use crate::event::{Event, Exit};
use crate::file::{Cancelling, FileKind, FileOp, IoPath, Step, perform};
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::process::{WaitMethod, WaitStart, WaitTarget, begin, reap_child};

impl<P: Poller> Readiness<P> {
    pub(super) fn open_file(&mut self, fd: Arc<OwnedFd>) -> FileId {
        self.metrics.system_calls += 1;
        let kind = FileKind::of(&fd);
        let way = match kind {
            FileKind::Disk => IoPath::Pool,
            FileKind::Stream | FileKind::Other => {
                IoPath::Ready(self.attach(Fd::Shared(fd.clone()), Token::default()))
            }
        };
        self.blocking.files.open(fd, kind, way)
    }

    pub(super) fn start_file(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        let (id, event) = self.blocking.files.submit(file, op, token);
        self.tell(event);
        if let Some(index) = self.blocking.files.index(file) {
            self.run_file(index);
        }
        id
    }

    /// Begins the file's next operation, if none runs.
    fn run_file(&mut self, index: u32) {
        if self.blocking.files.begin(index) {
            self.drive_file(index);
        }
    }

    /// Goes on with the running operation, and with those behind it, until one has to wait.
    fn drive_file(&mut self, index: u32) {
        let mut calls = CALLS_MAX;
        loop {
            let doing = match self.blocking.files.way(index) {
                IoPath::Ready(source) => self.try_file(index, source, &mut calls),
                IoPath::Pool | IoPath::Native => self.lend_file(index),
            };
            if doing == DriveResult::Waits || !self.blocking.files.begin(index) {
                return;
            }
        }
    }

    /// Goes on with the running operation, with so many system calls.
    fn try_file(&mut self, index: u32, source: Source, calls: &mut u32) -> DriveResult {
        loop {
            let mut blocked = false;
            while *calls > 0 && !blocked {
                *calls -= 1;
                self.metrics.system_calls += 1;
                let result = self.blocking.files.attempt(index);
                blocked = result == Err(Errno::AGAIN);
                if !blocked && let Step::Ended(event) = self.blocking.files.progressed(index, result) {
                    self.tell(event);
                    return DriveResult::Over;
                }
            }
            match self.await_file(index, source) {
                Ok(()) => return DriveResult::Waits,
                // Ready at all times, so it is for the pool from now on.
                Err(Errno::PERM) => {
                    self.close(source);
                    self.blocking.files.set_way(index, IoPath::Pool);
                    return self.lend_file(index);
                }
                Err(errno) if blocked => {
                    self.end_running(index, Some(errno.into()));
                    return DriveResult::Over;
                }
                // It need not wait, and cannot be called again: then it goes on now.
                Err(_) => *calls = CALLS_MAX,
            }
        }
    }

    /// Asks for an event when the running operation can go on.
    fn await_file(&mut self, index: u32, source: Source) -> Result<(), Errno> {
        let writes = self.blocking.files.writes(index);
        let slot = self.slot(source).ok_or(Errno::BADF)?;
        slot.input = if writes { InputMode::FileWrite(index) } else { InputMode::FileRead(index) };
        let mut registered = self.register(source);
        if registered == Err(Errno::EXIST) {
            // The same descriptor is open as another file, too, and a set has each number once.
            registered = self.renumber(source).and_then(|()| self.register(source));
        }
        if registered.is_err()
            && let Some(slot) = self.slot(source)
        {
            slot.input = InputMode::Idle;
        }
        registered
    }

    /// Gives a source that is not registered a descriptor of its own for what it is open on.
    fn renumber(&mut self, source: Source) -> Result<(), Errno> {
        self.metrics.system_calls += 1;
        let slot = self.slot(source).ok_or(Errno::BADF)?;
        let fd = slot.fd.as_ref().ok_or(Errno::BADF)?;
        let twin = rustix::io::fcntl_dupfd_cloexec(fd, 0)?;
        // Shared, so that it leaves the set by name: others have it open.
        slot.fd = Some(Fd::Shared(Arc::new(twin)));
        Ok(())
    }

    /// Has a thread do the running operation.
    fn lend_file(&mut self, index: u32) -> DriveResult {
        let Some((fd, lent)) = self.blocking.files.lend(index) else { return DriveResult::Waits };
        let theirs = lent.clone();
        let taken = self.blocking.submit(index, move |cancel| perform(fd.as_fd(), &theirs, cancel));
        match taken {
            Taken::Yes(job) => self.blocking.files.lent(index, lent, job),
            Taken::Later => self.blocking.files.unlend(index, &lent),
            Taken::Never(error) => {
                self.blocking.files.unlend(index, &lent);
                self.end_running(index, Some(error));
                return DriveResult::Over;
            }
        }
        DriveResult::Waits
    }

    /// Ends the running operation, and only that.
    fn end_running(&mut self, index: u32, error: Option<std::io::Error>) {
        if let Step::Ended(event) = self.blocking.files.end(index, error) {
            self.tell(event);
        }
    }

    pub(super) fn cancel_file(&mut self, id: FileOpId) {
        match self.blocking.files.cancel(id) {
            Cancelling::Late => {}
            Cancelling::Ended(event) => self.tell(Some(event)),
            Cancelling::Ask(index) => self.ask_file(index),
        }
    }

    /// Ends the running operation, if no thread has it.
    fn ask_file(&mut self, index: u32) {
        if self.blocking.files.ask_thread(index) {
            return;
        }
        self.blocking.unstall(index);
        if let IoPath::Ready(source) = self.blocking.files.way(index)
            && let Some(slot) = self.slot(source)
        {
            slot.input = InputMode::Idle;
        }
        self.end_running(index, Some(Errno::CANCELED.into()));
        self.run_file(index);
    }

    pub(super) fn close_file(&mut self, file: FileId) {
        let Some(index) = self.blocking.files.index(file) else { return };
        forget_events(&mut self.deferred, file);
        let way = self.blocking.files.way(index);
        if let Some(index) = self.blocking.files.close(file) {
            self.ask_file(index);
        }
        if let IoPath::Ready(source) = way {
            self.close(source);
        }
    }

    pub(super) fn wait_process(&mut self, pid: i32, token: Token) -> ProcessId {
        self.metrics.system_calls += 2;
        let processes = &mut self.blocking.processes;
        match begin(pid) {
            WaitStart::Over(exit) => {
                let id = processes.insert(token, pid, WaitMethod::Helper);
                self.end_process(id.index(), exit);
                id
            }
            WaitStart::Descriptor(fd) => {
                // Shared, so that it is taken out of the set by name: a child of another thread's fork, before its exec, has a
                // copy, and closing ours would leave it in the set, readable for good.
                let source = self.attach(Fd::Shared(fd), Token::default());
                let id = self.blocking.processes.insert(token, pid, WaitMethod::Source(source));
                if let Some(slot) = self.slot(source) {
                    slot.input = InputMode::Process(id.index());
                }
                if self.register(source).is_err() {
                    self.hand_over(id.index(), source);
                }
                id
            }
            WaitStart::Look => {
                let id = processes.insert(token, pid, WaitMethod::Helper);
                if let Err(error) = self.blocking.watch_child(id.index(), WaitTarget::Number(pid)) {
                    self.end_process(id.index(), Exit::Failed(error));
                }
                id
            }
        }
    }

    pub(super) fn cancel_process(&mut self, id: ProcessId) {
        let Some(index) = self.blocking.processes.index(id) else { return };
        let by_helper = matches!(self.blocking.processes.at(index), Some(wait) if matches!(wait.means, WaitMethod::Helper));
        if !by_helper || self.blocking.unwatch_child(index) {
            self.end_process(index, Exit::Cancelled);
        }
    }

    /// Has the thread look for a process whose descriptor is of no use to the poller.
    fn hand_over(&mut self, index: u32, source: Source) {
        let Some(Fd::Shared(fd)) = self.slot(source).and_then(|slot| slot.fd.as_ref()) else { return };
        let fd = fd.clone();
        self.close(source);
        let Some(waiting) = self.blocking.processes.at(index) else { return };
        waiting.means = WaitMethod::Helper;
        let whom = WaitTarget::Child(fd, waiting.pid);
        if let Err(error) = self.blocking.watch_child(index, whom) {
            self.end_process(index, Exit::Failed(error));
        }
    }

    fn end_process(&mut self, index: u32, exit: Exit) {
        let Some((means, event)) = self.blocking.processes.end(index, exit) else { return };
        if let WaitMethod::Source(source) = means {
            self.close(source);
        }
        self.tell(Some(event));
    }

    /// A file or a process may go on.
    #[cold]
    pub(super) fn blocking_ready(&mut self, source: Source, input: InputMode) -> Option<Event> {
        match input {
            InputMode::FileRead(index) | InputMode::FileWrite(index) => {
                if let Some(slot) = self.slot(source) {
                    slot.input = InputMode::Idle;
                }
                self.drive_file(index);
            }
            InputMode::Process(index) => {
                let pid = self.blocking.processes.at(index)?.pid;
                self.metrics.system_calls += 1;
                match reap_child(self.slot(source)?.fd.as_ref()?.as_fd(), pid) {
                    Some(exit) => self.end_process(index, exit),
                    // It has ended, and a debugger traces it: it stays ready, and cannot be reaped.
                    None => self.hand_over(index, source),
                }
            }
            InputMode::Accept
            | InputMode::AcceptPaused
            | InputMode::Recv
            | InputMode::Fill(_)
            | InputMode::Idle
            | InputMode::Ended => {}
        }
        // Nothing can have been closed since it was put there.
        self.deferred.pop_front().map(|(_, event)| event)
    }

    /// What the threads that help have done.
    #[cold]
    pub(super) fn collect_finished(&mut self) {
        let ends = self.blocking.file_ends();
        for (index, error) in ends {
            self.end_running(index, error);
            // Before the file's next operation: one file must not keep the others out.
            while let Some(stalled) = self.blocking.next_stalled() {
                self.drive_file(stalled);
            }
            self.run_file(index);
        }
        for (index, exit) in self.blocking.process_ends() {
            self.end_process(index, exit);
        }
    }

    fn tell(&mut self, event: Option<Event>) {
        self.deferred.extend(event.map(|event| (None, event)));
    }
}

/// How far a running operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriveResult {
    /// An event will follow when it can go on.
    Waits,
    /// It is over, and its event is deferred.
    Over,
}

/// System calls that one file may make before others continue.
const CALLS_MAX: u32 = 16;

//! Files and processes over readiness.
//!
//! A regular file is always ready and takes its time all the same: a thread of the pool does what is asked of it. A FIFO,
//! and whatever else can be waited for, is tried at once and then again when it is ready. A process is ready when it has
//! ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::{Input, Poller, Readiness};
use crate::driver::{Driver, Fd};
use crate::event::{Event, Source, Token};
use crate::file::{Cancelling, FileId, FileOp, FileOpId, Kind, Step, Way, perform};
use crate::process::{Beginning, Exit, Means, ProcessId, begin, reap};
use crate::work::{Taken, forget_events};

impl<P: Poller> Readiness<P> {
    pub(super) fn open_file(&mut self, fd: Arc<OwnedFd>) -> FileId {
        self.metrics.system_calls += 1;
        let kind = Kind::of(&fd);
        let way = match kind {
            Kind::Disk => Way::Pool,
            Kind::Stream | Kind::Other => Way::Ready(self.attach(Fd::Shared(fd.clone()), Token::default())),
        };
        self.work.files.open(fd, kind, way)
    }

    pub(super) fn start_file(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        let (id, event) = self.work.files.submit(file, op, token);
        self.tell(event);
        if let Some(index) = self.work.files.index(file) {
            self.run_file(index);
        }
        id
    }

    /// Does the file's operations until one has to wait.
    fn run_file(&mut self, index: u32) {
        while self.work.files.begin(index) {
            match self.work.files.way(index) {
                Way::Ready(source) => {
                    if !self.try_file(index, source) {
                        return;
                    }
                }
                Way::Pool | Way::Native => return self.lend_file(index),
            }
        }
    }

    /// Goes on with the running operation; true when it is over.
    fn try_file(&mut self, index: u32, source: Source) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            self.metrics.system_calls += 1;
            let result = self.work.files.attempt(index);
            if result == Err(Errno::AGAIN) {
                break;
            }
            if let Step::Ended(event) = self.work.files.progressed(index, result) {
                self.tell(event);
                return true;
            }
        }
        let writes = self.work.files.writes(index);
        if let Some(slot) = self.slot(source) {
            slot.input = if writes { Input::FileWrite(index) } else { Input::FileRead(index) };
            self.raise(source);
        }
        false
    }

    /// Has a thread do the running operation.
    fn lend_file(&mut self, index: u32) {
        let Some((fd, lent)) = self.work.files.lend(index) else { return };
        let theirs = lent.clone();
        let taken = self.work.submit(index, move |cancel| perform(fd.as_fd(), &theirs, cancel));
        match taken {
            Taken::Yes(job) => self.work.files.lent(index, lent, job),
            Taken::Later => self.work.files.unlend(index, &lent),
            Taken::Never(error) => {
                self.work.files.unlend(index, &lent);
                self.end_file(index, Some(error));
            }
        }
    }

    fn end_file(&mut self, index: u32, error: Option<std::io::Error>) {
        if let Step::Ended(event) = self.work.files.end(index, error) {
            self.tell(event);
        }
        self.run_file(index);
    }

    pub(super) fn cancel_file(&mut self, id: FileOpId) {
        match self.work.files.cancel(id) {
            Cancelling::Late => {}
            Cancelling::Ended(event) => self.tell(Some(event)),
            Cancelling::Ask(index) => self.ask_file(index),
        }
    }

    /// Ends the running operation, if no thread has it.
    fn ask_file(&mut self, index: u32) {
        if self.work.files.ask_thread(index) {
            return;
        }
        self.work.unstall(index);
        if let Way::Ready(source) = self.work.files.way(index)
            && let Some(slot) = self.slot(source)
        {
            slot.input = Input::Idle;
        }
        self.end_file(index, Some(Errno::CANCELED.into()));
    }

    pub(super) fn close_file(&mut self, file: FileId) {
        let Some(index) = self.work.files.index(file) else { return };
        forget_events(&mut self.deferred, file);
        let way = self.work.files.way(index);
        if let Some(index) = self.work.files.close(file) {
            self.ask_file(index);
        }
        if let Way::Ready(source) = way {
            self.close(source);
        }
    }

    pub(super) fn wait_process(&mut self, pid: i32, token: Token) -> ProcessId {
        self.metrics.system_calls += 2;
        let processes = &mut self.work.processes;
        match begin(pid) {
            Beginning::Over(exit) => {
                let id = processes.insert(token, pid, Means::Helper);
                self.end_process(id.index(), exit);
                id
            }
            Beginning::Descriptor(fd) => {
                // Shared, so that it is taken out of the set by name: a child of somebody's between fork and exec has a
                // copy, and closing ours would leave it in the set, readable for good.
                let source = self.attach(Fd::Shared(Arc::new(fd)), Token::default());
                let id = self.work.processes.insert(token, pid, Means::Source(source));
                if let Some(slot) = self.slot(source) {
                    slot.input = Input::Process(id.index());
                    self.raise(source);
                }
                id
            }
            Beginning::Look => {
                let id = processes.insert(token, pid, Means::Helper);
                if let Err(error) = self.work.look_for(id.index(), pid) {
                    self.end_process(id.index(), Exit::Failed(error));
                }
                id
            }
        }
    }

    pub(super) fn cancel_process(&mut self, id: ProcessId) {
        let Some(index) = self.work.processes.index(id) else { return };
        let by_helper =
            matches!(self.work.processes.at(index), Some(wait) if matches!(wait.means, Means::Helper));
        if !by_helper || self.work.look_no_more(index) {
            self.end_process(index, Exit::Cancelled);
        }
    }

    fn end_process(&mut self, index: u32, exit: Exit) {
        let Some((means, event)) = self.work.processes.end(index, exit) else { return };
        if let Means::Source(source) = means {
            self.close(source);
        }
        self.tell(Some(event));
    }

    /// A file or a process may go on.
    #[cold]
    pub(super) fn slow_ready(&mut self, source: Source, input: Input) -> Option<Event> {
        match input {
            Input::FileRead(index) | Input::FileWrite(index) => {
                if let Some(slot) = self.slot(source) {
                    slot.input = Input::Idle;
                }
                if self.try_file(index, source) {
                    self.run_file(index);
                }
            }
            Input::Process(index) => {
                let pid = self.work.processes.at(index)?.pid;
                self.metrics.system_calls += 1;
                if let Some(exit) = reap(pid) {
                    self.end_process(index, exit);
                }
            }
            Input::Accept
            | Input::AcceptPaused
            | Input::Recv
            | Input::Fill(_)
            | Input::Idle
            | Input::Ended => {}
        }
        // Nothing can have been closed since it was put there.
        self.deferred.pop_front().map(|(_, event)| event)
    }

    /// A file or a process cannot be polled.
    #[cold]
    pub(super) fn fail_slow(&mut self, input: Input, errno: Errno) {
        match input {
            // Ready at all times, so it is for the pool from now on.
            Input::FileRead(index) | Input::FileWrite(index) if errno == Errno::PERM => {
                if let Way::Ready(source) = self.work.files.way(index) {
                    self.close(source);
                }
                self.work.files.set_way(index, Way::Pool);
                self.lend_file(index);
            }
            Input::FileRead(index) | Input::FileWrite(index) => self.end_file(index, Some(errno.into())),
            Input::Process(index) => self.end_process(index, Exit::Failed(errno.into())),
            Input::Accept
            | Input::AcceptPaused
            | Input::Recv
            | Input::Fill(_)
            | Input::Idle
            | Input::Ended => {}
        }
    }

    /// What the threads that help have done.
    #[cold]
    pub(super) fn helped(&mut self) {
        let ends = self.work.file_ends();
        for (index, error) in ends {
            self.end_file(index, error);
            for stalled in self.work.stalled() {
                self.lend_file(stalled);
            }
        }
        for (index, exit) in self.work.process_ends() {
            self.end_process(index, exit);
        }
    }

    fn tell(&mut self, event: Option<Event>) {
        self.deferred.extend(event.map(|event| (None, event)));
    }
}

/// System calls that one operation may make before others get their turn.
const ATTEMPTS_MAX: u32 = 16;

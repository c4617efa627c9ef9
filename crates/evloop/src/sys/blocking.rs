//! Files and processes of a driver: the code that the drivers over readiness and over the ring share.
//!
//! A driver implements the required methods of [`BlockingDriver`]: how an operation of a file continues and
//! how it is interrupted, and how a process's descriptor is waited for. The provided methods do the rest:
//! they run the operations of a file one after another, report the end of each operation as a deferred event,
//! and let the helper thread watch the processes without a descriptor.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::blocking::{BlockingOps, forget_events};
use crate::driver::Driver;
use crate::event::{Event, Exit};
use crate::file::{Cancelling, FileKind, FileOp, IoPath, Step};
use crate::handle::{FileId, FileOpId, ProcessId, Source, Token};
use crate::process::{WaitMethod, WaitStart, WaitTarget, begin, reap_child};

/// A driver's files and processes.
pub(super) trait BlockingDriver: Driver {
    /// The state of all files and processes.
    fn blocking(&mut self) -> &mut BlockingOps;

    /// Pending events. An event with a source is dropped if that source is no longer open.
    fn deferred(&mut self) -> &mut VecDeque<(Option<Source>, Event)>;

    /// The way in which the operations of a file will be performed.
    fn path_of(&mut self, fd: &Arc<OwnedFd>, kind: FileKind) -> IoPath;

    /// Performs or submits the file's operation that has begun.
    fn perform_file(&mut self, index: u32);

    /// Makes the running operation end soon.
    fn interrupt_file(&mut self, index: u32);

    /// Begins to wait for the descriptor of wait `index`: [`BlockingDriver::process_ready`] is called when
    /// the descriptor is readable. Returns the source that waits, or [`Source::NONE`].
    fn watch_process(&mut self, index: u32, fd: &Arc<OwnedFd>) -> Result<Source, Errno>;

    /// Cancels wait `index`, which waits for a descriptor. The wait ends now, or when the kernel no longer
    /// needs the descriptor.
    fn unwatch_process(&mut self, index: u32);

    fn open_file(&mut self, fd: Arc<OwnedFd>) -> FileId {
        self.metrics().system_calls += 1;
        let kind = FileKind::of(&fd);
        let path = self.path_of(&fd, kind);
        self.blocking().files.open(fd, kind, path)
    }

    fn start_file(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        let (id, event) = self.blocking().files.submit(file, op, token);
        self.defer(event);
        if let Some(index) = self.blocking().files.index(file) {
            self.run_file(index);
        }
        id
    }

    /// Begins the file's next operation, if none runs.
    fn run_file(&mut self, index: u32) {
        if self.blocking().files.begin(index) {
            self.perform_file(index);
        }
    }

    /// Ends the running operation; the queued operations stay queued.
    fn end_running(&mut self, index: u32, error: Option<io::Error>) {
        if let Step::Ended(event) = self.blocking().files.end(index, error) {
            self.defer(event);
        }
    }

    fn cancel_file(&mut self, id: FileOpId) {
        match self.blocking().files.cancel(id) {
            Cancelling::Late => {}
            Cancelling::Ended(event) => self.defer(Some(event)),
            Cancelling::Ask(index) => self.interrupt_file(index),
        }
    }

    fn close_file(&mut self, file: FileId) {
        let Some(index) = self.blocking().files.index(file) else { return };
        forget_events(self.deferred(), file);
        let path = self.blocking().files.way(index);
        if let Some(index) = self.blocking().files.close(file) {
            self.interrupt_file(index);
        }
        if let IoPath::Ready(source) = path {
            self.close(source);
        }
    }

    fn wait_process(&mut self, pid: i32, token: Token) -> ProcessId {
        self.metrics().system_calls += 2;
        let start = begin(pid);
        let id = self.blocking().processes.insert(token, pid, WaitMethod::Helper);
        let index = id.index();
        match start {
            WaitStart::Over(exit) => self.end_process(index, exit),
            WaitStart::Look => self.watch_by_helper(index, WaitTarget::Number(pid)),
            WaitStart::Descriptor(fd) => match self.watch_process(index, &fd) {
                Ok(source) => {
                    if let Some(waiting) = self.blocking().processes.at(index) {
                        waiting.means = WaitMethod::Descriptor(fd, source);
                    }
                }
                Err(_) => self.watch_by_helper(index, WaitTarget::Child(fd, pid)),
            },
        }
        id
    }

    fn cancel_process(&mut self, id: ProcessId) {
        let Some(index) = self.blocking().processes.index(id) else { return };
        let Some(waiting) = self.blocking().processes.at(index) else { return };
        match waiting.means {
            WaitMethod::Descriptor(..) => self.unwatch_process(index),
            WaitMethod::Helper => {
                if self.blocking().unwatch_child(index) {
                    self.end_process(index, Exit::Cancelled);
                }
            }
        }
    }

    /// Called when the wait for the process's descriptor has ended: because the process has ended, with an
    /// error, or after a cancellation.
    fn process_ready(&mut self, index: u32, result: Result<(), Errno>) {
        let Some(waiting) = self.blocking().processes.at(index) else { return };
        let WaitMethod::Descriptor(fd, source) = &waiting.means else { return };
        let (fd, source, pid) = (fd.clone(), *source, waiting.pid);
        if waiting.cancelled {
            return self.end_process(index, Exit::Cancelled);
        }
        self.metrics().system_calls += 1;
        match (reap_child(fd.as_fd(), pid), result) {
            (Some(exit), _) => self.end_process(index, exit),
            (None, Err(errno)) => self.end_process(index, Exit::Failed(errno.into())),
            // The process has ended, but a debugger traces it, so the descriptor stays readable and the
            // process cannot be reaped yet. Another wait for the descriptor would end at once, so the helper
            // thread polls for the process.
            (None, Ok(())) => {
                self.close(source);
                if let Some(waiting) = self.blocking().processes.at(index) {
                    waiting.means = WaitMethod::Helper;
                }
                self.watch_by_helper(index, WaitTarget::Child(fd, pid));
            }
        }
    }

    /// Makes the helper thread watch for the end of wait `index`.
    fn watch_by_helper(&mut self, index: u32, target: WaitTarget) {
        if let Err(error) = self.blocking().watch_child(index, target) {
            self.end_process(index, Exit::Failed(error));
        }
    }

    fn end_process(&mut self, index: u32, exit: Exit) {
        let Some((means, event)) = self.blocking().processes.end(index, exit) else { return };
        if let WaitMethod::Descriptor(_, source) = means {
            self.close(source);
        }
        self.defer(Some(event));
    }

    /// Takes up the results of the helper threads.
    #[cold]
    fn collect_finished(&mut self) {
        let ends = self.blocking().file_ends();
        for (index, error) in ends {
            self.end_running(index, error);
            // Stalled files come before the next operation of this file, because one file must not starve the
            // others.
            while let Some(stalled) = self.blocking().next_stalled() {
                self.perform_file(stalled);
            }
            self.run_file(index);
        }
        for (index, exit) in self.blocking().process_ends() {
            self.end_process(index, exit);
        }
    }

    fn defer(&mut self, event: Option<Event>) {
        self.deferred().extend(event.map(|event| (None, event)));
    }
}

//! Files and processes over readiness.
//!
//! A regular file is always ready, but its operations may still block, so a thread of the pool performs them.
//! A FIFO, or any other descriptor that can be waited for, is read or written at once, and again when it is
//! ready. A process is ready when it has ended.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::{InputMode, Poller, Readiness};
use crate::blocking::{BlockingOps, Taken};
use crate::driver::Driver;
use crate::event::{Event, Exit};
use crate::file::{FileKind, IoPath, Step, perform};
use crate::handle::{Fd, Source, Token};
use crate::sys::blocking::BlockingDriver;

impl<P: Poller> BlockingDriver for Readiness<P> {
    fn blocking(&mut self) -> &mut BlockingOps {
        &mut self.blocking
    }

    fn deferred(&mut self) -> &mut VecDeque<(Option<Source>, Event)> {
        &mut self.deferred
    }

    fn path_of(&mut self, fd: &Arc<OwnedFd>, kind: FileKind) -> IoPath {
        match kind {
            FileKind::Disk => IoPath::Pool,
            FileKind::Stream | FileKind::Other => {
                IoPath::Ready(self.attach(Fd::Shared(fd.clone()), Token::default()))
            }
        }
    }

    /// Continues the running operation, and then the queued ones, until one has to wait.
    fn perform_file(&mut self, index: u32) {
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

    /// Ends the running operation; if a thread of the pool performs the operation, asks that thread to end
    /// it.
    fn interrupt_file(&mut self, index: u32) {
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

    fn watch_process(&mut self, index: u32, fd: &Arc<OwnedFd>) -> Result<Source, Errno> {
        // The descriptor is attached as shared, so that the descriptor is removed from the set explicitly: a
        // process that another thread forks has a copy until its exec, and with such a copy, closing this
        // descriptor would leave it in the set, readable for ever.
        let source = self.attach(Fd::Shared(fd.clone()), Token::default());
        if let Some(slot) = self.slot(source) {
            slot.input = InputMode::Process(index);
        }
        let registered = self.register(source);
        if registered.is_err() {
            self.close(source);
        }
        registered.map(|()| source)
    }

    fn unwatch_process(&mut self, index: u32) {
        self.end_process(index, Exit::Cancelled);
    }
}

impl<P: Poller> Readiness<P> {
    /// Continues the running operation, with at most `calls` system calls if an event can continue it later.
    fn try_file(&mut self, index: u32, source: Source, calls: &mut u32) -> DriveResult {
        loop {
            let mut blocked = false;
            while *calls > 0 && !blocked {
                *calls -= 1;
                self.metrics.system_calls += 1;
                let result = self.blocking.files.attempt(index);
                blocked = result == Err(Errno::AGAIN);
                if !blocked && let Step::Ended(event) = self.blocking.files.progressed(index, result) {
                    self.defer(event);
                    return DriveResult::Over;
                }
            }
            match self.await_file(index, source) {
                Ok(()) => return DriveResult::Waits,
                // The file is always ready, so the pool performs its operations from now on.
                Err(Errno::PERM) => {
                    self.close(source);
                    self.blocking.files.set_way(index, IoPath::Pool);
                    return self.lend_file(index);
                }
                Err(errno) if blocked => {
                    self.end_running(index, Some(errno.into()));
                    return DriveResult::Over;
                }
                // The operation stopped only because of the limit on calls. Without a registration no event
                // would continue it later, so the limit is reset and the operation continues now.
                Err(_) => *calls = CALLS_MAX,
            }
        }
    }

    /// Requests an event when the running operation can continue.
    fn await_file(&mut self, index: u32, source: Source) -> Result<(), Errno> {
        let writes = self.blocking.files.writes(index);
        let slot = self.slot(source).ok_or(Errno::BADF)?;
        slot.input = if writes { InputMode::FileWrite(index) } else { InputMode::FileRead(index) };
        let mut registered = self.register(source);
        if registered == Err(Errno::EXIST) {
            // Another file may use this descriptor, too, and a poll set holds each descriptor number only
            // once.
            registered = self.renumber(source).and_then(|()| self.register(source));
        }
        if registered.is_err()
            && let Some(slot) = self.slot(source)
        {
            slot.input = InputMode::Idle;
        }
        registered
    }

    /// Replaces the descriptor of a source that is not registered by a duplicate.
    fn renumber(&mut self, source: Source) -> Result<(), Errno> {
        self.metrics.system_calls += 1;
        let slot = self.slot(source).ok_or(Errno::BADF)?;
        let fd = slot.fd.as_ref().ok_or(Errno::BADF)?;
        let twin = rustix::io::fcntl_dupfd_cloexec(fd, 0)?;
        // The duplicate is attached as shared, so that it is removed from the set explicitly: closing it
        // would not remove it, because other descriptors keep the same file open.
        slot.fd = Some(Fd::Shared(Arc::new(twin)));
        Ok(())
    }

    /// Submits the running operation to a thread of the pool.
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

    /// Continues a file or a process whose source is ready.
    #[cold]
    pub(super) fn blocking_ready(&mut self, source: Source, input: InputMode) -> Option<Event> {
        match input {
            InputMode::FileRead(index) | InputMode::FileWrite(index) => {
                if let Some(slot) = self.slot(source) {
                    slot.input = InputMode::Idle;
                }
                self.perform_file(index);
            }
            InputMode::Process(index) => self.process_ready(index, Ok(())),
            InputMode::Accept
            | InputMode::AcceptPaused
            | InputMode::Recv
            | InputMode::Fill(_)
            | InputMode::Idle
            | InputMode::Ended => {}
        }
        // The event needs no check of its source, because no source can have been closed since the event
        // was deferred.
        self.deferred.pop_front().map(|(_, event)| event)
    }
}

/// The result of an attempt to continue a running operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriveResult {
    /// The operation waits; an event follows when it can continue.
    Waits,
    /// The operation has ended, and its event is deferred.
    Over,
}

/// Number of system calls that one file may make before other sources continue.
const CALLS_MAX: u32 = 16;

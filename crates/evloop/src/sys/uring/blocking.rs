//! Files and processes on the ring: the kernel reads, writes and syncs, and polls the descriptor of a
//! process.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::kernel::{Cqe, Kernel, Op};
use super::{CANCEL, Other, POLLIN, POLLOUT, Uring};
use crate::blocking::BlockingOps;
use crate::event::Event;
use crate::file::{FileKind, IoPath, Part, Step};
use crate::handle::Source;
use crate::process::WaitMethod;
use crate::sys::blocking::BlockingDriver;

impl<K: Kernel> BlockingDriver for Uring<K> {
    fn blocking(&mut self) -> &mut BlockingOps {
        &mut self.blocking
    }

    fn deferred(&mut self) -> &mut VecDeque<(Option<Source>, Event)> {
        &mut self.deferred
    }

    fn path_of(&mut self, _: &Arc<OwnedFd>, _: FileKind) -> IoPath {
        IoPath::Native
    }

    /// Submits the rest of the running operation.
    fn perform_file(&mut self, index: u32) {
        let Some(fd) = self.blocking.files.fd(index).map(|fd| fd.as_raw_fd()) else { return };
        let user_data = Other::File.user_data(index);
        let Some(part) = self.blocking.files.part(index) else { return };
        self.in_flight += 1;
        if let Part::Sync { data_only } = part {
            self.kernel.push(Op::Sync { fd, data_only }, user_data);
            return;
        }
        // SAFETY: the bytes are the operation's buffer, which the table of files holds, and neither touches
        // nor frees, until the operation's completion was reaped.
        // JUSTIFICATION: the kernel moves the bytes.
        unsafe { self.kernel.push_part(fd, part, user_data) };
    }

    fn interrupt_file(&mut self, index: u32) {
        self.cancel_other(Other::File, index);
    }

    fn watch_process(&mut self, index: u32, fd: &Arc<OwnedFd>) -> Result<Source, Errno> {
        self.in_flight += 1;
        let poll = Op::Poll { fd: fd.as_raw_fd(), events: POLLIN };
        self.kernel.push(poll, Other::Process.user_data(index));
        Ok(Source::NONE)
    }

    /// The wait ends with the completion of its poll, because the kernel needs the descriptor until then.
    fn unwatch_process(&mut self, index: u32) {
        let Some(waiting) = self.blocking.processes.at(index) else { return };
        if !std::mem::replace(&mut waiting.cancelled, true) {
            self.cancel_other(Other::Process, index);
        }
    }
}

impl<K: Kernel> Uring<K> {
    /// Handles a completion of a file's operation.
    fn file_done(&mut self, index: u32, cqe: Cqe) {
        let files = &mut self.blocking.files;
        let mut result = usize::try_from(cqe.result).map_err(|_| Errno::from_raw_os_error(-cqe.result));
        if files.end_polling(index) {
            // A poll moves no bytes, so its result is not that of the operation.
            match (files.is_cancelled(index), result) {
                (true, _) => result = Err(Errno::CANCELED),
                (false, Ok(_)) => return self.perform_file(index),
                // The operation ends with the poll's error, because another attempt would only lead to
                // another poll.
                (false, Err(errno)) => {
                    self.end_running(index, Some(errno.into()));
                    return self.run_file(index);
                }
            }
        }
        // Some kernels report `EAGAIN` for a nonblocking FIFO instead of waiting, so the driver then polls.
        if result == Err(Errno::AGAIN) && !files.is_cancelled(index) {
            let events = if files.writes(index) { POLLOUT } else { POLLIN };
            let Some(fd) = files.fd(index).map(|fd| fd.as_raw_fd()) else { return };
            files.begin_polling(index);
            self.in_flight += 1;
            self.kernel.push(Op::Poll { fd, events }, Other::File.user_data(index));
            return;
        }
        match files.progressed(index, result) {
            Step::Again => self.perform_file(index),
            Step::Ended(event) => {
                self.defer(event);
                self.run_file(index);
            }
        }
    }

    /// Handles a completion that belongs to no source. If the completion yields an event, the event is
    /// deferred.
    #[cold]
    #[inline(never)]
    pub(super) fn complete_other(&mut self, cqe: Cqe) {
        if cqe.user_data >> 56 == CANCEL {
            return self.cancelled(cqe);
        }
        let Some((other, index)) = Other::parse(cqe.user_data) else { return };
        if other == Other::Wake {
            return self.woken_by(cqe);
        }
        self.in_flight -= 1;
        if other == Other::File {
            return self.file_done(index, cqe);
        }
        let failed = (cqe.result < 0).then(|| Errno::from_raw_os_error(-cqe.result));
        self.process_ready(index, failed.map_or(Ok(()), Err));
    }

    /// Asks an operation without a source to end; the operation's completion follows.
    fn cancel_other(&mut self, other: Other, index: u32) {
        self.cancel_target(other.user_data(index));
    }

    /// Whether an operation without a source was asked to end, and has not completed.
    pub(super) fn is_other_asked(&mut self, index: u32, other: Other) -> bool {
        match other {
            Other::Wake => self.waker_armed,
            Other::File => self.blocking.files.is_cancelled_waiting(index),
            Other::Process => self.blocking.processes.at(index).is_some_and(|waiting| match waiting.means {
                WaitMethod::Descriptor(..) => waiting.cancelled,
                WaitMethod::Helper => false,
            }),
        }
    }

    /// Closes all files and cancels all waits for processes, at the end of the loop.
    pub(super) fn end_blocking(&mut self) {
        for file in self.blocking.files.all() {
            self.close_file(file);
        }
        for id in self.blocking.processes.all() {
            self.cancel_process(id);
        }
    }
}

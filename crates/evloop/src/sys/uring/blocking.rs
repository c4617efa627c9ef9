//! Files and processes on the ring: the kernel reads, writes and syncs, and polls the descriptor of a process.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::kernel::{Cqe, Kernel, Op};
use super::{CANCEL, Other, POLLIN, POLLOUT, Uring};
use crate::blocking::forget_events;
use crate::event::{Event, Exit};
use crate::file::{self, Cancelling, FileOp, IoPath, Part, Step};
use crate::handle::{FileId, FileOpId, ProcessId, Token};
use crate::process::{WaitMethod, WaitStart, WaitTarget, begin, reap_child};

impl<K: Kernel> Uring<K> {
    pub(super) fn open_file(&mut self, fd: Arc<OwnedFd>) -> FileId {
        self.metrics.system_calls += 1;
        let kind = file::FileKind::of(&fd);
        self.blocking.files.open(fd, kind, IoPath::Native)
    }

    pub(super) fn start_file(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId {
        let (id, event) = self.blocking.files.submit(file, op, token);
        self.tell(event);
        if let Some(index) = self.blocking.files.index(file) {
            self.run_file(index);
        }
        id
    }

    /// Gives the kernel the file's next operation, if it has none.
    fn run_file(&mut self, index: u32) {
        if self.blocking.files.begin(index) {
            self.submit_file(index);
        }
    }

    /// Gives the kernel what is left of the running operation.
    fn submit_file(&mut self, index: u32) {
        let Some(fd) = self.blocking.files.fd(index).map(|fd| fd.as_raw_fd()) else { return };
        let user_data = Other::File.user_data(index);
        let Some(part) = self.blocking.files.part(index) else { return };
        self.in_flight += 1;
        if let Part::Sync { data_only } = part {
            self.kernel.push(Op::Sync { fd, data_only }, user_data);
            return;
        }
        // SAFETY: the bytes are the operation's buffer, which the table of files holds, and neither touches nor frees,
        // until the operation's completion was reaped.
        // JUSTIFICATION: the kernel moves the bytes.
        unsafe { self.kernel.push_part(fd, part, user_data) };
    }

    /// A completion of a file's operation.
    fn file_done(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let files = &mut self.blocking.files;
        let mut result = usize::try_from(cqe.result).map_err(|_| Errno::from_raw_os_error(-cqe.result));
        if files.end_polling(index) {
            // Whatever the poll says, no byte was moved.
            match (files.is_cancelled(index), result) {
                (true, _) => result = Err(Errno::CANCELED),
                (false, Ok(_)) => {
                    self.submit_file(index);
                    return None;
                }
                // Another attempt would lead here again.
                (false, Err(errno)) => return self.end_file(index, errno),
            }
        }
        // Kernels differ in whether a nonblocking FIFO is waited for.
        if result == Err(Errno::AGAIN) && !files.is_cancelled(index) {
            let events = if files.writes(index) { POLLOUT } else { POLLIN };
            let fd = files.fd(index)?.as_raw_fd();
            files.begin_polling(index);
            self.in_flight += 1;
            self.kernel.push(Op::Poll { fd, events }, Other::File.user_data(index));
            return None;
        }
        match files.progressed(index, result) {
            Step::Again => {
                self.submit_file(index);
                None
            }
            Step::Ended(event) => {
                self.run_file(index);
                event
            }
        }
    }

    fn end_file(&mut self, index: u32, errno: Errno) -> Option<Event> {
        let Step::Ended(event) = self.blocking.files.end(index, Some(errno.into())) else { return None };
        self.run_file(index);
        event
    }

    pub(super) fn cancel_file(&mut self, id: FileOpId) {
        match self.blocking.files.cancel(id) {
            Cancelling::Late => {}
            Cancelling::Ended(event) => self.tell(Some(event)),
            Cancelling::Ask(index) => self.cancel_other(Other::File, index),
        }
    }

    pub(super) fn close_file(&mut self, file: FileId) {
        forget_events(&mut self.deferred, file);
        if let Some(index) = self.blocking.files.close(file) {
            self.cancel_other(Other::File, index);
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
                let op = Op::Poll { fd: fd.as_raw_fd(), events: POLLIN };
                let id = processes.insert(token, pid, WaitMethod::Polled(fd));
                self.in_flight += 1;
                self.kernel.push(op, Other::Process.user_data(id.index()));
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
        let Some(waiting) = self.blocking.processes.at(index) else { return };
        match waiting.means {
            WaitMethod::Polled(_) => {
                // The descriptor stays open until the kernel is through with it.
                if !std::mem::replace(&mut waiting.cancelled, true) {
                    self.cancel_other(Other::Process, index);
                }
            }
            WaitMethod::Helper | WaitMethod::Source(_) => {
                if self.blocking.unwatch_child(index) {
                    self.end_process(index, Exit::Cancelled);
                }
            }
        }
    }

    /// The poll of a process's descriptor is over.
    fn process_done(&mut self, index: u32, cqe: Cqe) -> Option<Event> {
        let waiting = self.blocking.processes.at(index)?;
        let pid = waiting.pid;
        let WaitMethod::Polled(fd) = &waiting.means else { return None };
        let exit = if waiting.cancelled {
            Exit::Cancelled
        } else {
            self.metrics.system_calls += 1;
            match (reap_child(fd.as_fd(), pid), cqe.result) {
                (Some(exit), _) => exit,
                (None, ..0) => Exit::Failed(Errno::from_raw_os_error(-cqe.result).into()),
                (None, _) => {
                    // It has ended, and a debugger traces it. Another poll would be over at once.
                    let whom = WaitTarget::Child(fd.clone(), pid);
                    waiting.means = WaitMethod::Helper;
                    match self.blocking.watch_child(index, whom) {
                        Ok(()) => return None,
                        Err(error) => Exit::Failed(error),
                    }
                }
            }
        };
        self.blocking.processes.end(index, exit).map(|(_, event)| event)
    }

    fn end_process(&mut self, index: u32, exit: Exit) {
        let ended = self.blocking.processes.end(index, exit);
        self.tell(ended.map(|(_, event)| event));
    }

    /// A completion of something that is no source's.
    #[cold]
    #[inline(never)]
    pub(super) fn complete_other(&mut self, cqe: Cqe) -> Option<Event> {
        if cqe.user_data >> 56 == CANCEL {
            self.cancelled(cqe);
            return None;
        }
        let (other, index) = Other::parse(cqe.user_data)?;
        if other == Other::Wake {
            self.woken_by(cqe);
            return None;
        }
        self.in_flight -= 1;
        if other == Other::File { self.file_done(index, cqe) } else { self.process_done(index, cqe) }
    }

    /// Asks an operation to end; its completion follows when it has.
    fn cancel_other(&mut self, other: Other, index: u32) {
        self.cancel_target(other.user_data(index));
    }

    /// Whether an operation of no source was asked to end, and has not completed.
    pub(super) fn is_other_asked(&mut self, index: u32, other: Other) -> bool {
        match other {
            Other::Wake => self.waker_armed,
            Other::File => self.blocking.files.is_cancelled_waiting(index),
            Other::Process => self.blocking.processes.at(index).is_some_and(|waiting| match waiting.means {
                WaitMethod::Polled(_) => waiting.cancelled,
                WaitMethod::Helper | WaitMethod::Source(_) => false,
            }),
        }
    }

    /// Ends all of it, for the end of the loop.
    pub(super) fn wind_up_blocking(&mut self) {
        for file in self.blocking.files.all() {
            self.close_file(file);
        }
        for id in self.blocking.processes.all() {
            self.cancel_process(id);
        }
    }

    /// What the thread that looks for processes has found.
    #[cold]
    pub(super) fn collect_finished(&mut self) {
        for (index, exit) in self.blocking.process_ends() {
            self.end_process(index, exit);
        }
    }

    fn tell(&mut self, event: Option<Event>) {
        self.deferred.extend(event.map(|event| (None, event)));
    }
}

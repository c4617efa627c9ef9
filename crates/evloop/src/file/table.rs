//! The files of a loop: the queue of each file, and its running operation. The drivers perform the
//! operations; the parts that they share are here. The numbers of invariants are those of `file.rs`.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::op::{FileOp, FileWork, ended};
use crate::event::Event;
use crate::handle::{FileId, FileOpId, Source, Token};
use crate::pool::JobHandle;

/// The files of a loop.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    entries: Vec<FileEntry>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct FileEntry {
    generation: u32,
    fd: Option<Arc<OwnedFd>>,
    kind: FileKind,
    way: IoPath,
    running: Option<Running>,
    queue: VecDeque<(FileOpId, Token, FileOp)>,
    /// Number of operations submitted so far.
    sequence: u64,
    /// The file is closed and reports no events; the entry is kept for the running operation.
    closing: bool,
}

/// The kind of file that a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A regular file, directory or block device: poll(2) finds it always ready, it has offsets, and an
    /// operation may take long.
    Disk,
    /// A stream of bytes without offsets.
    Stream,
    /// A device, or a file whose kind only an attempt can find out.
    Other,
}

impl FileKind {
    /// The kind of an open file, by a system call.
    pub(crate) fn of(fd: &OwnedFd) -> FileKind {
        match rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile | FileType::BlockDevice | FileType::Directory) => FileKind::Disk,
            Ok(FileType::Fifo | FileType::Socket) => FileKind::Stream,
            Ok(FileType::CharacterDevice | FileType::Symlink | FileType::Unknown) | Err(_) => FileKind::Other,
        }
    }
}

/// The way in which a driver performs operations on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoPath {
    /// The kernel performs the operation and completes it.
    Native,
    /// A thread of the pool performs the operation, because the file is always ready and may block.
    Pool,
    /// The driver performs the operation when this source is ready.
    Ready(Source),
}

/// The operation that runs now.
#[derive(Debug)]
struct Running {
    id: FileOpId,
    token: Token,
    holder: Holder,
    bytes: usize,
    cancelled: bool,
    /// The kernel was asked for readiness of the file, not for the operation.
    polling: bool,
}

/// The holder of the running operation.
#[derive(Debug)]
enum Holder {
    /// The table holds the operation. The driver performs it, or the kernel does through pointers into the
    /// operation's buffer.
    Here(FileOp),
    /// A thread of the pool holds the operation until the job has ended; then the table takes the operation
    /// back, and no other thread reads it.
    Lent(Arc<Mutex<Lent>>, JobHandle),
}

/// The part of an operation that a thread of the pool works on.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(super) op: FileOp,
    pub(super) bytes: usize,
}

/// A step for the kernel to perform; the pointers are into the operation's buffer, which does
/// not move until [`FileTable::progressed`].
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Reads up to `len` bytes.
    Read {
        /// The memory to read into.
        to: *mut u8,
        /// Bytes of room at `to`.
        len: usize,
        /// Offset in the file; `None` for the position of the descriptor.
        at: Option<u64>,
    },
    /// Writes up to `len` bytes.
    Write {
        /// The memory to write from.
        bytes: *const u8,
        /// Number of bytes to write.
        len: usize,
        /// Offset in the file; `None` for the position of the descriptor.
        at: Option<u64>,
    },
    /// Waits until written data are on the medium.
    Sync {
        /// Leaves out the metadata of the file.
        data_only: bool,
    },
}

/// Whether an operation continues.
pub(crate) enum Step {
    Again,
    /// The operation has ended; the event, unless the file was closed.
    Ended(Option<Event>),
}

/// The work that a cancellation leaves to the driver.
pub(crate) enum Cancelling {
    /// No work: the operation has ended, its end is pending, or it was cancelled before.
    Late,
    /// The event of an operation that had not begun.
    Ended(Event),
    /// The thread or the kernel that performs the operation must be asked to end it.
    Ask(u32),
}

impl FileTable {
    pub(crate) fn open(&mut self, fd: Arc<OwnedFd>, kind: FileKind, way: IoPath) -> FileId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(FileEntry::vacant());
            u32::try_from(self.entries.len() - 1).expect("fewer files than descriptors")
        });
        let entry = &mut self.entries[index as usize];
        entry.fd = Some(fd);
        entry.kind = kind;
        entry.way = way;
        FileId { index, generation: entry.generation }
    }

    fn entry(&mut self, file: FileId) -> Option<&mut FileEntry> {
        let entry = self.entries.get_mut(file.index as usize)?;
        (entry.generation == file.generation && entry.fd.is_some() && !entry.closing).then_some(entry)
    }

    /// Queues an operation. Also returns the event of the operation if it ends at once.
    pub(crate) fn submit(&mut self, file: FileId, op: FileOp, token: Token) -> (FileOpId, Option<Event>) {
        let Some(entry) = self.entry(file) else {
            let id = FileOpId { file, sequence: 0 };
            return (id, Some(ended(id, token, op, 0, Some(Errno::BADF.into()))));
        };
        entry.sequence += 1;
        let id = FileOpId { file, sequence: entry.sequence };
        // An offset in a stream is refused here, because kernels differ in whether a ring reports it as an
        // error.
        let nowhere = entry.kind == FileKind::Stream && op.at.is_some();
        match op.outcome_at_once().or(nowhere.then_some(Err(Errno::SPIPE))) {
            Some(outcome) => (id, Some(ended(id, token, op, 0, outcome.err().map(io::Error::from)))),
            None => {
                entry.queue.push_back((id, token, op));
                (id, None)
            }
        }
    }

    /// Makes the next operation the running one. False when one runs already or none waits.
    pub(crate) fn begin(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        if entry.running.is_some() {
            return false;
        }
        let Some((id, token, op)) = entry.queue.pop_front() else { return false };
        entry.running =
            Some(Running { id, token, holder: Holder::Here(op), bytes: 0, cancelled: false, polling: false });
        true
    }

    pub(crate) fn way(&self, index: u32) -> IoPath {
        self.entries[index as usize].way
    }

    pub(crate) fn set_way(&mut self, index: u32, way: IoPath) {
        self.entries[index as usize].way = way;
    }

    pub(crate) fn fd(&self, index: u32) -> Option<&Arc<OwnedFd>> {
        self.entries[index as usize].fd.as_ref()
    }

    /// Whether the running operation waits to write rather than to read.
    pub(crate) fn writes(&self, index: u32) -> bool {
        match self.entries[index as usize].running.as_ref().map(|running| &running.holder) {
            Some(Holder::Here(op)) => op.work == FileWork::Write,
            Some(Holder::Lent(..)) | None => false,
        }
    }

    /// Makes one system call of the running operation, on the calling thread.
    pub(crate) fn attempt(&mut self, index: u32) -> Result<usize, Errno> {
        let entry = &mut self.entries[index as usize];
        match (&entry.fd, &mut entry.running) {
            (Some(fd), Some(Running { holder: Holder::Here(op), bytes, .. })) => {
                op.attempt(fd.as_fd(), *bytes)
            }
            _ => Err(Errno::BADF),
        }
    }

    /// The next step of the running operation, for the kernel to perform.
    pub(crate) fn part(&mut self, index: u32) -> Option<Part> {
        let running = self.entries[index as usize].running.as_mut()?;
        let Holder::Here(op) = &mut running.holder else { return None };
        let at = op.at.map(|at| at.saturating_add(running.bytes as u64));
        let rest = &mut op.buf[op.from + running.bytes..];
        Some(match op.work {
            FileWork::Read => Part::Read { to: rest.as_mut_ptr(), len: rest.len(), at },
            FileWork::Write => Part::Write { bytes: rest.as_ptr(), len: rest.len(), at },
            FileWork::Sync => Part::Sync { data_only: false },
            FileWork::SyncData => Part::Sync { data_only: true },
        })
    }

    /// Records that the kernel was asked for readiness, not for the running operation.
    pub(crate) fn begin_polling(&mut self, index: u32) {
        if let Some(running) = &mut self.entries[index as usize].running {
            running.polling = true;
        }
    }

    /// Ends the request for readiness; returns whether there was one.
    pub(crate) fn end_polling(&mut self, index: u32) -> bool {
        match &mut self.entries[index as usize].running {
            Some(running) => std::mem::take(&mut running.polling),
            None => false,
        }
    }

    /// Takes a step's result into account.
    pub(crate) fn progressed(&mut self, index: u32, result: Result<usize, Errno>) -> Step {
        let Some(running) = &mut self.entries[index as usize].running else { return Step::Ended(None) };
        let Holder::Here(op) = &running.holder else { return Step::Ended(None) };
        let error = match (op.account(&mut running.bytes, result), running.cancelled) {
            (ControlFlow::Break(error), _) => error,
            (ControlFlow::Continue(()), true) => Some(Errno::CANCELED),
            (ControlFlow::Continue(()), false) => return Step::Again,
        };
        self.end(index, error.map(io::Error::from))
    }

    /// Ends the running operation.
    pub(crate) fn end(&mut self, index: u32, error: Option<io::Error>) -> Step {
        let entry = &mut self.entries[index as usize];
        let Some(running) = entry.running.take() else { return Step::Ended(None) };
        let (op, bytes) = match running.holder {
            Holder::Here(op) => (op, running.bytes),
            Holder::Lent(lent, _) => {
                let mut lent = lent.lock().unwrap_or_else(PoisonError::into_inner);
                (std::mem::replace(&mut lent.op, FileOp::sync()), lent.bytes)
            }
        };
        if entry.closing {
            self.vacate(index);
            return Step::Ended(None);
        }
        Step::Ended(Some(ended(running.id, running.token, op, bytes, error)))
    }

    /// Cancels an operation, if it is not too late.
    pub(crate) fn cancel(&mut self, id: FileOpId) -> Cancelling {
        let Some(entry) = self.entry(id.file) else { return Cancelling::Late };
        if let Some(running) = &mut entry.running
            && running.id == id
        {
            let first = !std::mem::replace(&mut running.cancelled, true);
            return if first { Cancelling::Ask(id.file.index) } else { Cancelling::Late };
        }
        let Some(index) = entry.queue.iter().position(|(other, ..)| *other == id) else {
            return Cancelling::Late;
        };
        match entry.queue.remove(index) {
            Some((id, token, op)) => Cancelling::Ended(ended(id, token, op, 0, Some(Errno::CANCELED.into()))),
            None => Cancelling::Late,
        }
    }

    /// Closes the file: no more events. `Some` when an operation runs, which must be asked to end.
    pub(crate) fn close(&mut self, file: FileId) -> Option<u32> {
        let entry = self.entry(file)?;
        entry.queue.clear();
        entry.closing = true;
        match &mut entry.running {
            Some(running) => {
                running.cancelled = true;
                Some(file.index)
            }
            None => {
                self.vacate(file.index);
                None
            }
        }
    }

    /// Every file that is open, for the end of the loop.
    pub(crate) fn all(&self) -> Vec<FileId> {
        let open = |(index, entry): (usize, &FileEntry)| {
            let id = FileId { index: index as u32, generation: entry.generation };
            (entry.fd.is_some() && !entry.closing).then_some(id)
        };
        self.entries.iter().enumerate().filter_map(open).collect()
    }

    /// The index of a file that is open.
    pub(crate) fn index(&mut self, file: FileId) -> Option<u32> {
        self.entry(file).map(|_| file.index)
    }

    fn vacate(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        *entry = FileEntry { generation: entry.generation.wrapping_add(1), ..FileEntry::vacant() };
        self.free.push(index);
    }

    /// Moves the running operation into a [`Lent`] for a job of the pool, and returns it with the file.
    /// If the pool takes the job, [`FileTable::lent`] records its handle.
    pub(crate) fn lend(&mut self, index: u32) -> Option<(Arc<OwnedFd>, Arc<Mutex<Lent>>)> {
        let entry = &mut self.entries[index as usize];
        let fd = entry.fd.clone()?;
        let Running { holder: Holder::Here(op), bytes, .. } = entry.running.as_mut()? else { return None };
        let op = std::mem::replace(op, FileOp::sync());
        Some((fd, Arc::new(Mutex::new(Lent { op, bytes: *bytes }))))
    }

    /// Records that the pool took the job.
    pub(crate) fn lent(&mut self, index: u32, lent: Arc<Mutex<Lent>>, job: JobHandle) {
        if let Some(running) = &mut self.entries[index as usize].running {
            running.holder = Holder::Lent(lent, job);
        }
    }

    /// Takes the operation back from a job that the pool refused.
    pub(crate) fn unlend(&mut self, index: u32, lent: &Mutex<Lent>) {
        if let Some(Running { holder: Holder::Here(op), .. }) = &mut self.entries[index as usize].running {
            let mut lent = lent.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(op, &mut lent.op);
        }
    }

    /// Whether the running operation was cancelled, or its file closed.
    pub(crate) fn is_cancelled(&self, index: u32) -> bool {
        self.entries[index as usize].running.as_ref().is_some_and(|running| running.cancelled)
    }

    /// Whether the running operation was cancelled and may wait for ever. An operation on a disk ends without
    /// help; repeating the request while the kernel cannot find the operation would keep the loop busy.
    pub(crate) fn is_cancelled_waiting(&self, index: u32) -> bool {
        self.entries[index as usize].kind != FileKind::Disk && self.is_cancelled(index)
    }

    /// Asks the threads of all running operations to end them.
    pub(crate) fn ask_all(&self) {
        for index in 0..self.entries.len() as u32 {
            self.ask_thread(index);
        }
    }

    /// Whether an operation on a disk runs, which cannot be stopped.
    pub(crate) fn is_disk_busy(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == FileKind::Disk && entry.running.is_some())
    }

    /// Asks the thread of the running operation to end it; false when no thread has it.
    pub(crate) fn ask_thread(&self, index: u32) -> bool {
        match self.entries[index as usize].running.as_ref().map(|running| &running.holder) {
            Some(Holder::Lent(_, job)) => {
                job.cancel();
                true
            }
            Some(Holder::Here(_)) | None => false,
        }
    }
}

impl FileEntry {
    fn vacant() -> FileEntry {
        FileEntry {
            generation: 0,
            fd: None,
            kind: FileKind::Other,
            way: IoPath::Native,
            running: None,
            queue: VecDeque::new(),
            sequence: 0,
            closing: false,
        }
    }
}

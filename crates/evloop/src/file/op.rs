//! One operation on a file: the request, the system calls that perform it, and its end. The numbers of
//! invariants are those of `file.rs`.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::event::{Event, FileDone};
use crate::handle::{FileOpId, Token};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWork {
    /// Reads into the buffer.
    Read,
    /// Writes the buffer to the file.
    Write,
    /// Waits until data and metadata are on the medium (`fsync`).
    Sync,
    /// Waits until the data are on the medium (`fdatasync`).
    SyncData,
}

/// One operation on a file, with the buffer that it owns until its end.
///
/// Moves bytes between the file and `buf[from..]`, until all of it was moved, `least` bytes were moved, or
/// the file ends; a sync moves none. For a read or write, `from` beyond the buffer, a `least` that does not
/// fit, or an `at` above `i64::MAX` is `EINVAL`; `from` at the end of the buffer ends with 0 bytes, without a
/// system call.
#[derive(Debug)]
pub struct FileOp {
    /// Read, write or sync.
    pub work: FileWork,
    /// The buffer with the bytes to write or the room to read into: all of its length, without spare
    /// capacity.
    pub buf: Vec<u8>,
    /// Offset in the buffer at which to begin.
    pub from: usize,
    /// Least number of bytes to move; 0: one attempt, whatever it moves.
    pub least: usize,
    /// Offset in the file, in bytes; `None` for the position of the descriptor, which then advances.
    pub at: Option<u64>,
}

impl FileOp {
    /// Reads until `buf` is full or the file ends, from the descriptor's position.
    pub fn read(buf: Vec<u8>) -> FileOp {
        let least = buf.len();
        FileOp { work: FileWork::Read, buf, from: 0, least, at: None }
    }

    /// Reads the available bytes: at least one unless the file ends, at most the length of `buf`.
    pub fn read_some(buf: Vec<u8>) -> FileOp {
        FileOp { work: FileWork::Read, buf, from: 0, least: 0, at: None }
    }

    /// Writes all of `buf` at the descriptor's position.
    pub fn write(buf: Vec<u8>) -> FileOp {
        let least = buf.len();
        FileOp { work: FileWork::Write, buf, from: 0, least, at: None }
    }

    /// Waits until data and metadata are on the medium (`fsync`).
    pub fn sync() -> FileOp {
        FileOp { work: FileWork::Sync, buf: Vec::new(), from: 0, least: 0, at: None }
    }

    /// Waits until the data are on the medium (`fdatasync`).
    pub fn sync_data() -> FileOp {
        FileOp { work: FileWork::SyncData, ..FileOp::sync() }
    }

    /// Reads or writes at an offset in the file, in bytes; the descriptor's position stays as it is.
    #[must_use]
    pub fn at(mut self, position: u64) -> FileOp {
        self.at = Some(position);
        self
    }

    /// The outcome without a system call; `None` where a call is needed.
    pub(super) fn outcome_at_once(&self) -> Option<Result<(), Errno>> {
        if matches!(self.work, FileWork::Sync | FileWork::SyncData) {
            return None;
        }
        let room = match self.buf.len().checked_sub(self.from) {
            None => return Some(Err(Errno::INVAL)),
            Some(0) => return Some(Ok(())),
            Some(room) => room,
        };
        let fits = self.least <= room && self.at.is_none_or(|at| i64::try_from(at).is_ok());
        if fits { None } else { Some(Err(Errno::INVAL)) }
    }

    /// One system call that continues after the first `bytes` bytes.
    pub(super) fn attempt(&mut self, fd: BorrowedFd<'_>, bytes: usize) -> Result<usize, Errno> {
        let at = self.at.map(|at| at.saturating_add(bytes as u64));
        let begin = self.from + bytes;
        match (self.work, at) {
            (FileWork::Read, None) => rustix::io::read(fd, &mut self.buf[begin..]),
            (FileWork::Read, Some(at)) => rustix::io::pread(fd, &mut self.buf[begin..], at),
            (FileWork::Write, None) => rustix::io::write(fd, &self.buf[begin..]),
            (FileWork::Write, Some(at)) => rustix::io::pwrite(fd, &self.buf[begin..], at),
            (FileWork::Sync, _) => rustix::fs::fsync(fd).map(|()| 0),
            (FileWork::SyncData, _) => sync_data(fd).map(|()| 0),
        }
    }
}

impl FileOp {
    /// Takes a system call's result into account; `bytes` bytes were moved before the call. Returns whether
    /// another call follows, or with which error, if any, the operation ends. Shared by all drivers.
    pub(super) fn account(
        &self,
        bytes: &mut usize,
        result: Result<usize, Errno>,
    ) -> ControlFlow<Option<Errno>> {
        match result {
            // A write that moved no byte although there were bytes to write would move none at the next
            // attempt either.
            Ok(0) if self.work == FileWork::Write => ControlFlow::Break(Some(Errno::NOSPC)),
            // A read of 0 bytes means that the file has ended; a sync returns 0 when it is done.
            Ok(0) => ControlFlow::Break(None),
            Ok(moved) => {
                *bytes += moved;
                let enough = *bytes >= self.least || self.from + *bytes >= self.buf.len();
                if enough { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
            }
            Err(Errno::INTR | Errno::AGAIN) => ControlFlow::Continue(()),
            Err(errno) => ControlFlow::Break(Some(errno)),
        }
    }
}

/// The event for the end of an operation.
pub(super) fn ended(id: FileOpId, token: Token, op: FileOp, bytes: usize, error: Option<io::Error>) -> Event {
    Event::FileDone { token, done: FileDone { id, buf: op.buf, bytes, error } }
}

#[cfg(not(any(target_vendor = "apple", target_os = "dragonfly")))]
fn sync_data(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fdatasync(fd)
}

/// Calls `fsync`, because these systems have no cheaper call for the data alone.
#[cfg(any(target_vendor = "apple", target_os = "dragonfly"))]
fn sync_data(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(fd)
}

//! Descriptors in the loop, and the handles by which the caller and the loop refer to sources,
//! files and waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The caller's handle for a source, a timer, a job or an operation on a file or process. The loop never
/// interprets it. It has room for an index and a generation, so the caller finds the owner of an event
/// without a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// The loop's handle for an attached descriptor, never reused: an operation on a closed source has no
/// effect, or reports `EBADF` if it reports anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Source {
    /// The handle of no source.
    pub const NONE: Source = Source { index: u32::MAX, generation: 0 };

    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    #[inline]
    pub(crate) fn from_key(key: u64) -> Source {
        Source { index: key as u32, generation: (key >> 32) as u32 }
    }
}

/// A descriptor in the loop: owned by the loop, or shared with an owner that reads or writes it too.
#[derive(Debug)]
pub enum Fd {
    /// Closed by the loop.
    Owned(OwnedFd),
    /// Closed when the last holder drops it.
    Shared(Arc<OwnedFd>),
}

impl AsFd for Fd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Fd::Owned(fd) => fd.as_fd(),
            Fd::Shared(fd) => fd.as_fd(),
        }
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Fd {
        Fd::Owned(fd)
    }
}

impl From<Arc<OwnedFd>> for Fd {
    fn from(fd: Arc<OwnedFd>) -> Fd {
        Fd::Shared(fd)
    }
}

/// The loop's handle for a file, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The handle of one operation, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOpId {
    pub(crate) file: FileId,
    pub(crate) sequence: u64,
}

impl FileOpId {
    /// The file of the operation.
    pub fn file(self) -> FileId {
        self.file
    }
}

/// The handle of a wait for a process, to cancel the wait; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ProcessId {
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

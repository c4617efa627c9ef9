//! Descriptors under the loop's care, and the names by which the caller and the loop refer to sources, files
//! and waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The caller's name for a source or a timer. The loop carries it and never looks inside, so an index and a
/// generation fit, and an event finds its owner without a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// The loop's name for an attached descriptor. It is never reused: an operation on a source that was closed
/// does nothing, or reports `EBADF` where it reports anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Source {
    /// Names nothing: what stands where there is no descriptor.
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

/// A descriptor under the loop's care: its own, or shared with an owner that reads or writes on its own.
#[derive(Debug)]
pub enum Fd {
    /// Closed by the loop.
    Owned(OwnedFd),
    /// Closed when the last holder lets go.
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

/// The loop's name for a file. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names one operation, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOpId {
    pub(crate) file: FileId,
    pub(crate) sequence: u64,
}

impl FileOpId {
    /// The file that it is of.
    pub fn file(self) -> FileId {
        self.file
    }
}

/// Names a wait, to cancel it. It is never reused.
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

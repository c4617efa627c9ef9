//! Operations on files and FIFOs: what is asked for, and what comes of it.
//!
//! Invariants: (1) a file's operations run one after the other, in the order in which they were handed in, so
//! a write is behind the writes before it and a sync covers them; (2) each ends exactly once, as one event,
//! and its buffer comes home with it; (3) an entry of the table is used again only when nothing of it runs
//! any more.

mod op;
mod table;

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

pub use self::op::{FileOp, FileWork};
#[cfg(target_os = "linux")]
pub use self::table::Part;
pub(crate) use self::table::{Cancelling, FileKind, FileTable, IoPath, Lent, Step};
use crate::pool::Cancel;

/// Does a whole operation; what a thread of the pool does.
pub(crate) fn perform(fd: BorrowedFd<'_>, lent: &Mutex<Lent>, cancel: &Cancel) -> Option<Errno> {
    // Nobody else locks it before the job's end.
    let mut lent = lent.lock().unwrap_or_else(PoisonError::into_inner);
    let Lent { op, bytes } = &mut *lent;
    loop {
        if cancel.is_requested() {
            return Some(Errno::CANCELED);
        }
        let result = op.attempt(fd, *bytes);
        // What cannot be waited for is not asked again and again.
        if result == Err(Errno::AGAIN) {
            return Some(Errno::AGAIN);
        }
        if let ControlFlow::Break(error) = op.account(bytes, result) {
            return error;
        }
    }
}

#[cfg(test)]
mod tests;

//! Operations on files and FIFOs: requests and results.
//!
//! Invariants: (1) a file's operations run one after the other, in the order of submission, so a write
//! follows the writes before it and a sync covers them; (2) each ends exactly once, with one event that
//! returns its buffer, unless the file was closed; (3) an entry of the table is used again only when none of
//! its operations runs any more.

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

/// Performs a whole operation, on a thread of the pool. Returns the error if there was one.
pub(crate) fn perform(fd: BorrowedFd<'_>, lent: &Mutex<Lent>, cancel: &Cancel) -> Option<Errno> {
    // Only this job locks `lent` before the job's end.
    let mut lent = lent.lock().unwrap_or_else(PoisonError::into_inner);
    let Lent { op, bytes } = &mut *lent;
    loop {
        if cancel.is_requested() {
            return Some(Errno::CANCELED);
        }
        let result = op.attempt(fd, *bytes);
        // The thread has no way to wait until this file is ready, and trying again and again would keep the
        // thread busy, so the operation ends with the error.
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

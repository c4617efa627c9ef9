//! The state of the append-only file in the process: the open file, the file that is being closed, and the
//! rewrite under way.

mod service;

use crate::aof::{Aof, AofCommand, RewriteNumber};
use sluice_numbers::facts::AofFacts;
use std::path::PathBuf;
use std::time::Duration;

/// The append-only files: the open file, and the file that is being closed.
#[derive(Default)]
pub struct AofState {
    /// The append-only file; `None` if there is none.
    pub open: Option<Aof>,
    /// A former append-only file, which its thread still makes durable before the thread ends.
    pub closing: Option<Aof>,
    /// The delay before each write of the file (DEBUG AOF-FLUSH-SLEEP).
    pub delay: Duration,
    /// The number of the last rewrite that began.
    pub rewrite: RewriteNumber,
}

impl AofState {
    /// The directory of the file that is open or being closed. A change of the working directory does not
    /// affect it.
    pub fn directory(&self) -> Option<PathBuf> {
        let open = self.open.as_ref().or(self.closing.as_ref());
        open.and_then(|aof| aof.path().parent()).map(PathBuf::from)
    }

    /// Sets the delay before each write, for the thread of the current file and for those of later files.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
        if let Some(aof) = &self.open {
            aof.order(AofCommand::Delay(delay));
        }
    }

    /// The facts that INFO shows about the file.
    pub(super) fn facts(&self) -> AofFacts {
        self.open.as_ref().map(|aof| aof.shared().facts()).unwrap_or_default()
    }
}

//! The append-only file as the process has it: what is open, what closes, what is rewritten.

mod service;

use crate::aof::{Aof, AofCommand, RewriteNumber};
use sluice_numbers::facts::AofFacts;
use std::path::PathBuf;
use std::time::Duration;

/// The append-only file: the one that is open, and the one that closes.
#[derive(Default)]
pub struct AofState {
    /// The append-only file, where there is one.
    pub open: Option<Aof>,
    /// An append-only file whose thread makes it durable and ends.
    pub closing: Option<Aof>,
    /// How long each write of it waits: DEBUG AOF-FLUSH-SLEEP.
    pub delay: Duration,
    /// The rewrite of the append-only file that was begun last.
    pub rewrite: RewriteNumber,
}

impl AofState {
    /// The directory of the file that is open, or that closes. It stays when the working directory changes.
    pub fn directory(&self) -> Option<PathBuf> {
        let open = self.open.as_ref().or(self.closing.as_ref());
        open.and_then(|aof| aof.path().parent()).map(PathBuf::from)
    }

    /// Has the thread of the file, that of now and those of later, wait so long before each write.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
        if let Some(aof) = &self.open {
            aof.order(AofCommand::Delay(delay));
        }
    }

    /// What INFO shows of the file.
    pub(super) fn facts(&self) -> AofFacts {
        self.open.as_ref().map(|aof| aof.shared().facts()).unwrap_or_default()
    }
}

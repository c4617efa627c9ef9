//! The base that a rewrite writes in the background: a file beside the others until the thread of the file puts it in force.

use super::folder::NewBase;
use crate::storage::background::{BackgroundSink, Pass};
use sluice_engine::SaveError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a base waits that is written, synced and not yet in force.
#[derive(Clone, Default)]
pub struct WrittenBase(Arc<Mutex<Option<NewBase>>>);

impl WrittenBase {
    /// Takes it; `None` where there is none.
    pub fn take(&self) -> Option<NewBase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A base that is written.
pub struct BaseSink {
    base: NewBase,
    written: WrittenBase,
}

impl BaseSink {
    /// What is written into `base`; `written` gets it when it is whole.
    pub fn new(base: NewBase, written: WrittenBase) -> BaseSink {
        BaseSink { base, written }
    }
}

impl BackgroundSink for BaseSink {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        self.base.write(piece).map_err(SaveError)
    }

    fn finish_through(self: Box<Self>, pass: &mut Pass<'_>) -> Result<(), SaveError> {
        let BaseSink { mut base, written } = *self;
        base.sync().map_err(SaveError)?;
        let mut base = Some(base);
        pass(&mut || {
            *written.0.lock().unwrap_or_else(PoisonError::into_inner) = base.take();
            Ok(())
        })
    }

    fn temporary_snapshot(&self) -> Option<PathBuf> {
        None
    }
}

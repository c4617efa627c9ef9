//! The base that a rewrite writes in the background: a file beside the others until the thread of the file
//! puts it in force.

use super::shared::RewriteNumber;
use crate::saving::background::{BackgroundSink, Pass};
use sluice_control::process::SaveError;
use sluice_storage::aof::NewBase;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a base waits that is written, synced and not yet in force. One of an earlier rewrite never takes the
/// place of a later one, whenever its thread gets that far.
#[derive(Clone, Default)]
pub struct WrittenBase(Arc<Mutex<Option<(RewriteNumber, NewBase)>>>);

impl WrittenBase {
    /// Takes the base of this rewrite; `None` where it is not there. One of an earlier rewrite is removed.
    pub fn take(&self, wanted: RewriteNumber) -> Option<NewBase> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, base) =
            slot.take_if(|(number, _)| *number <= wanted).filter(|(number, _)| *number == wanted)?;
        Some(base)
    }

    /// Puts the base of a rewrite there, unless a later one has come before it: then its file is removed.
    fn put(&self, number: RewriteNumber, base: NewBase) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|(there, _)| *there < number) {
            *slot = Some((number, base));
        }
    }
}

/// A base that is written.
pub struct BaseSink {
    number: RewriteNumber,
    base: NewBase,
    written: WrittenBase,
}

impl BaseSink {
    /// What is written into `base`; `written` gets it when it is whole.
    pub fn new(number: RewriteNumber, base: NewBase, written: WrittenBase) -> BaseSink {
        BaseSink { number, base, written }
    }
}

impl BackgroundSink for BaseSink {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        self.base.write(piece).map_err(SaveError)
    }

    fn finish_through(self: Box<Self>, pass: &mut Pass<'_>) -> Result<(), SaveError> {
        let BaseSink { number, mut base, written } = *self;
        base.sync().map_err(SaveError)?;
        let mut base = Some(base);
        pass(&mut || {
            if let Some(base) = base.take() {
                written.put(number, base);
            }
            Ok(())
        })
    }

    fn temporary_snapshot(&self) -> Option<PathBuf> {
        None
    }

    fn temporary_base(&self) -> Option<PathBuf> {
        Some(self.base.temporary_path().to_owned())
    }
}

#[cfg(test)]
mod tests;

//! The base that a rewrite writes in the background: a temporary file, until the thread of the
//! append-only file puts the base in force (names it in the manifest).

use super::shared::RewriteNumber;
use crate::saving::background::{BackgroundSink, Pass};
use sluice_control::process::SaveError;
use sluice_storage::aof::NewBase;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Holds a base that is written and synced, but not yet in force. The base of an earlier rewrite never
/// replaces the base of a later rewrite, however late the earlier rewrite finishes.
#[derive(Clone, Default)]
pub struct WrittenBase(Arc<Mutex<Option<(RewriteNumber, NewBase)>>>);

impl WrittenBase {
    /// Takes the base of this rewrite; `None` if it is missing. The base of an earlier rewrite is removed.
    pub fn take(&self, wanted: RewriteNumber) -> Option<NewBase> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, base) =
            slot.take_if(|(number, _)| *number <= wanted).filter(|(number, _)| *number == wanted)?;
        Some(base)
    }

    /// Stores the base of a rewrite, unless the base of a later rewrite is stored already. In that case
    /// the file of this base is removed.
    fn put(&self, number: RewriteNumber, base: NewBase) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|(there, _)| *there < number) {
            *slot = Some((number, base));
        }
    }
}

/// The sink into which a rewrite writes its base.
pub struct BaseSink {
    number: RewriteNumber,
    base: NewBase,
    written: WrittenBase,
}

impl BaseSink {
    /// Writes into `base`, and stores the finished base in `written`.
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

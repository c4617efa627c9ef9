//! Bytes for replicas and for the append-only file that a command has promised are made in slices, one an
//! iteration: those of a million removed members would keep everybody waiting for some 50 ms.

use crate::core::Core;
use sluice_control::action::Action;

/// Bytes that a slice makes for a receiver: half a millisecond of work, about.
const SLICE_BYTES: usize = 512 << 10;

/// Promised bytes from which on a command is told where it runs. Later writes reach replicas and the file a
/// hundred iterations later by then.
pub(crate) const PROMISED_MAX: usize = 64 << 20;

/// The steps of making them.
pub(crate) struct PromisedSteps<'a> {
    core: &'a mut Core,
}

impl<'a> PromisedSteps<'a> {
    /// Works on this core.
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> PromisedSteps<'a> {
        PromisedSteps { core }
    }
}

impl PromisedSteps<'_> {
    /// Makes some of them, once an iteration; all of them where the server has stopped.
    #[inline]
    pub(crate) fn make_slice(&mut self) {
        if self.core.control.has_promises() {
            let is_last = self.core.control.persistence.has_stopped;
            self.make(if is_last { usize::MAX } else { SLICE_BYTES });
        }
    }

    #[cold]
    fn make(&mut self, bytes: usize) {
        let mut garbage = Vec::new();
        self.core.control.replication.stream.keep_promises(bytes, &mut garbage);
        self.core.control.persistence.aof.keep_promises(bytes, &mut garbage);
        self.core.actions.extend(garbage.into_iter().map(Action::FreeValue));
    }
}

//! Promised bytes for replicas and the append-only file: a command with many deletions adds to the streams
//! only a promise of the bytes of these deletions, and the bytes are made in slices, one an iteration. If
//! they were made at once, the bytes of a million removed members would stop all clients for some 50 ms.

use crate::core::Core;
use sluice_control::action::Action;

/// Bytes that a slice makes for the replicas, and as many for the append-only file: about half a millisecond
/// of work each.
const SLICE_BYTES: usize = 512 << 10;

/// With this many bytes promised already, a command with many deletions makes all its bytes when it runs. The
/// bytes of later writes wait for promised bytes, and making this many takes about a hundred iterations.
pub(crate) const PROMISED_MAX: usize = 64 << 20;

/// Steps that make promised bytes.
pub(crate) struct PromisedSteps<'a> {
    core: &'a mut Core,
}

impl<'a> PromisedSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> PromisedSteps<'a> {
        PromisedSteps { core }
    }
}

impl PromisedSteps<'_> {
    /// Makes a slice of the promised bytes, once an iteration; all of them if the server has stopped.
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

//! Listeners that have paused, most often for want of descriptors or memory, and the time of their next
//! attempt.

use crate::handle::Source;
/// The paused listeners and the time at which they try again. The pause doubles from 10 to 500 ms until
/// an accept succeeds.
#[derive(Debug)]
pub(super) struct AcceptPause {
    listeners: Vec<Source>,
    until_ns: u64,
    next_ms: u64,
}

impl AcceptPause {
    pub(super) const fn new() -> AcceptPause {
        AcceptPause { listeners: Vec::new(), until_ns: u64::MAX, next_ms: PAUSE_MIN_MS }
    }

    /// The time at which the listeners try again; `u64::MAX` when there are none.
    #[inline]
    pub(super) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Resets the pause to its minimum, after a successful accept.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.next_ms = PAUSE_MIN_MS;
    }

    #[cold]
    pub(super) fn add(&mut self, listener: Source, now_ns: u64) {
        if self.listeners.is_empty() {
            self.until_ns = now_ns.saturating_add(self.next_ms * 1_000_000);
            self.next_ms = (self.next_ms * 2).min(PAUSE_MAX_MS);
        }
        self.listeners.push(listener);
    }

    /// Ends the pause and returns the listeners, some of which may have been closed during the pause.
    #[cold]
    pub(super) fn end(&mut self) -> Vec<Source> {
        self.until_ns = u64::MAX;
        std::mem::take(&mut self.listeners)
    }
}

const PAUSE_MIN_MS: u64 = 10;
const PAUSE_MAX_MS: u64 = 500;

//! The end of the driver: all operations are cancelled, and the driver waits until the kernel uses none of
//! the driver's memory.
//!
//! The wait is bounded: if an operation does not end in time, its memory is leaked, which is safe, and the
//! drop of the driver returns.

use super::Uring;
use super::kernel::{Cqe, Kernel, Wait};
use super::slot::{Life, Other};
use crate::handle::Source;
use crate::slab::Slab;

impl<K: Kernel> Uring<K> {
    /// Cancels all operations and waits for their ends, so that the kernel uses no memory of the driver any
    /// more. Returns false if this would take too long, or if a call of the kernel fails.
    fn quiesce(&mut self) -> bool {
        for index in 0..self.slots.len() as u32 {
            let slot = &self.slots[index as usize];
            let source = Source { index, generation: slot.generation };
            if slot.fd.is_some() && slot.life == Life::Open {
                self.end_slot(source, Life::Closing);
            }
        }
        self.end_blocking();
        self.cancel_target(Other::Wake.user_data(0));
        // Reaped completions that the caller has not taken may also be the ends of operations. They are
        // handled only now that all slots are closed, so that none of them begins another operation.
        let mut ready = std::mem::take(&mut self.ready);
        ready.drain(..std::mem::take(&mut self.next));
        self.put_away(ready);
        let mut tries = 0;
        while self.in_flight != 0 || self.kernel.unsubmitted() {
            let wait = match tries {
                0 => Wait::No,
                // An operation on a disk cannot be stopped and may take long; all other operations were
                // cancelled, and end within one or two calls.
                _ if self.blocking.files.is_disk_busy() => Wait::Within { ns: DISK_WAIT_NS },
                _ => Wait::Within { ns: WAIT_NS },
            };
            if self.kernel.enter(wait).is_err() {
                return false;
            }
            let mut ready = Vec::new();
            self.kernel.reap(&mut ready, usize::MAX);
            if ready.is_empty() {
                tries += 1;
                if tries == TRIES {
                    return false;
                }
            }
            self.put_away(ready);
        }
        true
    }

    /// Handles completions without creating events.
    fn put_away(&mut self, ready: Vec<Cqe>) {
        for cqe in ready {
            if Other::parse(cqe.user_data) == Some((Other::Wake, 0)) {
                // The completion of the waker's poll is only counted, because handling it as in an iteration
                // would arm the poll again.
                self.in_flight -= usize::from(!cqe.more());
                self.waker_armed = cqe.more();
            } else {
                drop(self.complete(cqe, 0));
            }
        }
    }
}

impl<K: Kernel> Drop for Uring<K> {
    fn drop(&mut self) {
        if !self.quiesce() {
            // The memory is leaked, because the kernel may still write to it.
            self.kernel.leak_buffers();
            std::mem::forget(std::mem::replace(&mut self.sends, Slab::new()));
            std::mem::forget(std::mem::replace(&mut self.fills, Slab::new()));
            std::mem::forget(std::mem::take(&mut self.blocking.files));
        }
    }
}

/// Number of waits without a completion before giving up: ten seconds for a disk, a tenth
/// of a second otherwise.
const TRIES: u32 = 100;
const DISK_WAIT_NS: u64 = 100_000_000;
const WAIT_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests;

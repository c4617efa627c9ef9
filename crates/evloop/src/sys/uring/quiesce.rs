//! The end of the driver: everything is cancelled, and the kernel is waited for until it has no memory of
//! ours.
//!
//! Bounded: what does not end in time keeps its memory for good, which is safe, and the drop returns.

use super::Uring;
use super::kernel::{Cqe, Kernel, Wait};
use super::slot::{Life, Other};
use crate::handle::Source;
use crate::slab::Slab;

impl<K: Kernel> Uring<K> {
    /// Cancels all and waits for the ends, so that no memory is with the kernel. False when it would take too
    /// long.
    fn quiesce(&mut self) -> bool {
        for index in 0..self.slots.len() as u32 {
            let slot = &self.slots[index as usize];
            let source = Source { index, generation: slot.generation };
            if slot.fd.is_some() && slot.life == Life::Open {
                self.wind_up(source, Life::Closing);
            }
        }
        self.wind_up_blocking();
        self.cancel_target(Other::Wake.user_data(0));
        // What was reaped and not taken by the caller is the end of operations, too. After the winding up, so
        // that none of them begins another.
        let mut ready = std::mem::take(&mut self.ready);
        ready.drain(..std::mem::take(&mut self.next));
        self.put_away(ready);
        let mut tries = 0;
        while self.in_flight != 0 || self.kernel.unsubmitted() {
            let wait = match tries {
                0 => Wait::No,
                // What the disk is at takes its time; all else was cancelled, and ends with a look or two.
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

    /// Takes up completions without events.
    fn put_away(&mut self, ready: Vec<Cqe>) {
        for cqe in ready {
            if Other::parse(cqe.user_data) == Some((Other::Wake, 0)) {
                // Not as in an iteration, where it would be armed again.
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
            // The kernel may still write: better lost than shared.
            self.kernel.leak_buffers();
            std::mem::forget(std::mem::replace(&mut self.sends, Slab::new()));
            std::mem::forget(std::mem::replace(&mut self.fills, Slab::new()));
            std::mem::forget(std::mem::take(&mut self.blocking.files));
        }
    }
}

/// Waits that bring nothing before it is given up: ten seconds for a disk, a tenth of one for all else.
const TRIES: u32 = 100;
const DISK_WAIT_NS: u64 = 100_000_000;
const WAIT_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests;

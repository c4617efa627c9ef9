//! Wakers end a loop's wait from other threads, at the cost of one atomic operation while the loop is awake.
//!
//! Each loop has one atomic word with its state: running, notified or parked. Both sides change it only by
//! read-modify-write operations, and a producer makes its work visible before it wakes. Since modifications
//! of one word have one order, either the producer's swap comes before the loop's attempt to park, which then
//! fails, or after it, and then the producer sees "parked" and makes the wake-up descriptor readable. A
//! cheaper look at the word before the swap ("already notified") would be wrong: a stale value could skip the
//! wake after the loop has drained.

mod word;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::word::{ParkState, Word};
use crate::sys::wake::WakeFd;

/// A handle that wakes one loop. It can be cloned, used from any thread, and used even after the loop is
/// gone.
#[derive(Clone, Debug)]
pub struct Waker {
    park: Arc<Park>,
}

impl Waker {
    pub(crate) fn new(park: Arc<Park>) -> Waker {
        Waker { park }
    }

    /// Makes the loop's present or next wait return with [`Iteration::woken`](crate::Iteration::woken) set.
    /// The caller must publish its work first. Returns whether a system call was needed, which is the case
    /// only if the loop was asleep. Cost: one atomic swap, and a system call if the loop was asleep.
    #[inline]
    pub fn wake(&self) -> bool {
        match self.park.word.notify() {
            ParkState::Running => false,
            ParkState::Notified => {
                // The counter is changed by a load and a store, not in one atomic step: of two concurrent
                // wakes one may not be counted, which is acceptable for a statistic; a second locked
                // instruction would cost too much.
                let counter = &self.park.coalesced;
                counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                false
            }
            ParkState::Parked => {
                self.park.kick();
                true
            }
        }
    }
}

impl Waker {
    /// Like [`Waker::wake`], but only if the loop seems to sleep: for a caller that knows that another thread
    /// has woken the loop or is about to wake it, and that must not depend on that thread, which may be
    /// delayed. Not sufficient alone: a loop that is just going to sleep may not be woken. Returns whether a
    /// system call was needed. Cost: one load while the loop is awake.
    #[inline]
    pub fn wake_if_parked(&self) -> bool {
        self.park.word.seems_parked() && self.wake()
    }
}

/// The state that loop and wakers share: the word, and the descriptor that the drivers wait on.
#[derive(Debug)]
pub(crate) struct Park {
    pub(crate) word: Word,
    sent: AtomicU64,
    coalesced: AtomicU64,
    event: Arc<WakeFd>,
}

impl Park {
    pub(crate) fn new(event: Arc<WakeFd>) -> Park {
        Park { word: Word::new(), sent: AtomicU64::new(0), coalesced: AtomicU64::new(0), event }
    }

    /// Wake-ups that needed a system call.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Approximate number of wake-ups that found another wake-up pending.
    pub(crate) fn coalesced(&self) -> u64 {
        self.coalesced.load(Ordering::Relaxed)
    }

    #[cold]
    fn kick(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.event.kick();
    }
}

//! How other threads end a loop's wait, at the price of one atomic operation while the loop is awake.
//!
//! One word per loop: running, notified or parked. Both sides change it only by read-modify-write operations, and a
//! producer makes its work visible before it wakes. Since modifications of one word have one order, either the
//! producer's swap comes before the loop's attempt to park, which then fails, or after it, and then the producer sees
//! "parked" and writes to the eventfd. A cheaper look at the word before the swap ("already notified") would be wrong:
//! a stale value could skip the wake after the loop has drained.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Wakes one loop; cloned freely, used from any thread, valid after the loop is gone.
#[derive(Clone, Debug)]
pub struct Waker {
    park: Arc<Park>,
}

impl Waker {
    pub(crate) fn new(park: Arc<Park>) -> Waker {
        Waker { park }
    }

    /// Makes the loop's present or next wait return with [`Turn::woken`](crate::Turn::woken) set. Publish the work
    /// first. Returns whether the kernel had to be asked, which is so only when the loop was asleep. Cost: one atomic
    /// swap; a system call in the latter case.
    #[inline]
    pub fn wake(&self) -> bool {
        // AcqRel: releases the caller's work to the loop's swap in `resume`; acquires nothing the caller needs, but
        // keeps the order total with the loop's parking.
        if self.park.state.swap(NOTIFIED, Ordering::AcqRel) != PARKED {
            return false;
        }
        self.park.kick();
        true
    }
}

/// The word that loop and wakers share, with the eventfd that the drivers wait on.
#[derive(Debug)]
pub(crate) struct Park {
    state: AtomicU32,
    sent: AtomicU64,
    event: Arc<OwnedFd>,
}

impl Park {
    pub(crate) fn new(event: Arc<OwnedFd>) -> Park {
        Park { state: AtomicU32::new(RUNNING), sent: AtomicU64::new(0), event }
    }

    /// Loop side: announces that it is about to sleep. False when it was notified and must not.
    #[inline]
    pub(crate) fn try_park(&self) -> bool {
        // AcqRel on success orders the loop's last look at its mailboxes before a producer's swap that sees PARKED.
        self.state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Loop side: awake again, for whatever reason. Returns whether somebody woke it since the last call.
    #[inline]
    pub(crate) fn resume(&self) -> bool {
        // Acquire: pairs with the release in `wake`, so that what was published before it is seen by the drain after.
        self.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }

    /// Loop side, when it did not park: the same without a write if nobody woke it.
    #[inline]
    pub(crate) fn check(&self) -> bool {
        // A notification missed by this load is found by the next `check` or fails the next `try_park`.
        self.state.load(Ordering::Acquire) == NOTIFIED && self.resume()
    }

    /// Eventfd writes so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    #[cold]
    fn kick(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        // Fails only with EAGAIN when the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }
}

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

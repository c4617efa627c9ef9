//! The word that decides whether a wake-up needs a system call; in a file of its own, so that loom can model
//! it.
//!
//! | step | loop | effect of a concurrent `wake` |
//! |---|---|---|
//! | iteration without sleep | `check` | sets NOTIFIED; no side calls the kernel |
//! | before sleep | `try_park`: RUNNING to PARKED | it fails, no sleep |
//! | asleep | – | one producer sees PARKED, and asks the kernel; the others see NOTIFIED |
//! | awake, whatever the reason | `resume`: to RUNNING | a kick that lands later is one wake-up for nothing |

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of the loop: running, notified or parked.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

/// The state of the loop that a producer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkState {
    /// Awake: the loop will check its mailboxes.
    Running,
    /// Another producer has woken the loop already.
    Notified,
    /// Asleep: the producer must make the system call.
    Parked,
}

impl Word {
    pub(crate) fn new() -> Word {
        Word(AtomicU32::new(RUNNING))
    }

    /// Called by a producer, after it has published its work.
    #[inline]
    pub(crate) fn notify(&self) -> ParkState {
        // AcqRel: releases the caller's work to the loop's swap in `resume`; acquires nothing the caller
        // needs, but keeps the order total with the loop's parking.
        match self.0.swap(NOTIFIED, Ordering::AcqRel) {
            PARKED => ParkState::Parked,
            NOTIFIED => ParkState::Notified,
            _ => ParkState::Running,
        }
    }

    /// Whether the loop sleeps, as far as this thread can see: a relaxed load, possibly outdated.
    #[inline]
    pub(crate) fn seems_parked(&self) -> bool {
        self.0.load(Ordering::Relaxed) == PARKED
    }

    /// Called by the loop before it sleeps. Returns false if the loop was notified and must not sleep.
    #[inline]
    pub(crate) fn try_park(&self) -> bool {
        // On success, AcqRel orders the loop's last check of its mailboxes before the swap by which a
        // producer sees PARKED.
        self.0.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Called by the loop when it is awake again, for any reason. Returns whether the loop was notified since
    /// the last call.
    #[inline]
    pub(crate) fn resume(&self) -> bool {
        // Acquire: pairs with the release in `notify`, so that the drain that follows sees all work that
        // was published before.
        self.0.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }

    /// Called by the loop when it did not park. This is like `resume`, but writes nothing if the loop was not
    /// woken.
    #[inline]
    pub(crate) fn check(&self) -> bool {
        // If this load misses a notification, the next `check` finds it or the next `try_park` fails.
        self.0.load(Ordering::Acquire) == NOTIFIED && self.resume()
    }

    /// A version with an error that the models have to find: it skips the swap when the word seems to be
    /// notified already, but a stale value then loses a wake-up.
    #[cfg(loom)]
    #[allow(dead_code, reason = "for the models")]
    pub(crate) fn notify_unless_seen(&self) -> ParkState {
        if self.0.load(Ordering::Relaxed) == NOTIFIED { ParkState::Notified } else { self.notify() }
    }
}

const RUNNING: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

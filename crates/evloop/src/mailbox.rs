//! Sends values from other threads to the thread of a loop.
//!
//! The values are in a list under a lock, and the list is drained as a whole. The lock is held only for one
//! push or one swap; the wake-up follows the push. Where a lock costs too much (a thread that exchanges
//! millions of jobs) the `queue` crate has rings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::waker::Waker;

/// The receiving end, on the loop's thread: drain it when [`Iteration::woken`](crate::Iteration::woken) is
/// set.
#[derive(Debug)]
pub struct Mailbox<T> {
    shared: Arc<Mutex<Vec<T>>>,
    drained: Vec<T>,
}

/// The sending end; cloned freely.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Mutex<Vec<T>>>,
    waker: Waker,
}

impl<T> Mailbox<T> {
    /// A mailbox of the loop that `waker` wakes.
    pub fn new(waker: Waker) -> (Sender<T>, Mailbox<T>) {
        let shared = Arc::new(Mutex::new(Vec::new()));
        (Sender { shared: shared.clone(), waker }, Mailbox { shared, drained: Vec::new() })
    }

    /// Takes out all values sent so far; the values of one sender are in the order in which they were sent.
    /// Cost: one lock for all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::mem::swap(&mut *lock(&self.shared), &mut self.drained);
        self.drained.drain(..)
    }
}

impl<T> Sender<T> {
    /// Sends one value and wakes the loop. Returns whether the wake-up needed a system call.
    pub fn send(&self, value: T) -> bool {
        lock(&self.shared).push(value);
        self.waker.wake()
    }

    /// Sends many values with one wake-up.
    pub(crate) fn send_all(&self, values: impl IntoIterator<Item = T>) -> bool {
        lock(&self.shared).extend(values);
        self.waker.wake()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { shared: self.shared.clone(), waker: self.waker.clone() }
    }
}

/// Locks the list, even after a thread has panicked while pushing: the list is intact then, too.
fn lock<T>(shared: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

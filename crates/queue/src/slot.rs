//! One slot of a ring. A slot holds a value or nothing; only the ring's indexes or sequence numbers show
//! which of the two.
//!
//! Invariant: (1) of two successive calls on one slot, the earlier happens before the later, and the
//! calls alternate: put, take, put, …

#![allow(unsafe_code)]
// JUSTIFICATION: the safe form is a `Mutex<Option<T>>` in each slot, which costs two locks a job. One lock
// for the whole queue already costs 25 ns a job, against 1.5 (spsc) and 5.6 (spmc) job by job, and 1.1 to
// 1.9 times as much as these rings in batches of 16 (`bench/record/queue-1.txt`).

use std::mem::MaybeUninit;

use crate::primitive::UnsafeCell;

/// Room for one value.
#[derive(Debug)]
pub(crate) struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: a shared slot is reached only through `put` and `take`, whose callers promise that no two calls
// overlap and each sees the other's effects; then a value merely moves from thread to thread, which `T: Send`
// allows.
unsafe impl<T: Send> Sync for Slot<T> {}
// SAFETY: a slot owns at most a `T` and nothing else.
unsafe impl<T: Send> Send for Slot<T> {}

impl<T> Slot<T> {
    pub(crate) fn new() -> Slot<T> {
        Slot(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Moves `value` in.
    ///
    /// # Safety
    /// - No other call on this slot overlaps with this one, and all earlier ones happen before it.
    /// - The slot holds nothing (otherwise the old value is leaked).
    #[inline(always)]
    pub(crate) unsafe fn put(&self, value: T) {
        self.0.with_mut(|content| {
            // SAFETY: the pointer is valid for as long as `self` is, and the caller promises to be alone.
            unsafe { (*content).write(value) };
        });
    }

    /// Moves the value out.
    ///
    /// # Safety
    /// - No other call on this slot overlaps with this one, and all earlier ones happen before it.
    /// - The slot holds a value: the call before was `put`.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> T {
        self.0.with_mut(|content| {
            // SAFETY: the pointer is valid, the caller is alone, and the content was written by `put`.
            unsafe { (*content).assume_init_read() }
        })
    }
}

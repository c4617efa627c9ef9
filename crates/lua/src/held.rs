//! Bytes that native functions keep outside of the heap while they wait for what they called: a `gsub` in the
//! callback of a `gsub`, each with its text half done. They count against the limit, since calls nest two
//! hundred deep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a buffer that are not counted: with all that nest, less than a megabyte.
const HELD_FREE: usize = 4096;

/// The sum of what is held in a run. Shared, because a state may be dropped by another thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    pub(crate) fn sum(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// What a function holds now, in place of what `held` says.
    pub(crate) fn hold(&self, held: &mut Option<Held>, bytes: usize) {
        *held = None;
        if bytes > HELD_FREE {
            self.0.fetch_add(bytes, Ordering::Relaxed);
            *held = Some(Held { sum: self.0.clone(), bytes });
        }
    }
}

/// The bytes that one function holds: counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

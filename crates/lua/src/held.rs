//! Bytes that waiting native functions hold outside of the heap, for example a `gsub` called in the callback
//! of another `gsub`, each with its result half built. The bytes count against the limit, because calls can
//! nest two hundred levels deep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a function that holds at most this many are not counted. For all nested calls together these
/// are less than a megabyte.
const HELD_FREE: usize = 4096;

/// The sum of held bytes in a run. Shared, because another thread may drop a function's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    pub(crate) fn sum(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the bytes that a function holds, instead of those recorded in `held`.
    pub(crate) fn hold(&self, held: &mut Option<Held>, bytes: usize) {
        *held = None;
        if bytes > HELD_FREE {
            self.0.fetch_add(bytes, Ordering::Relaxed);
            *held = Some(Held { sum: self.0.clone(), bytes });
        }
    }
}

/// The bytes that one function holds, counted until this is dropped.
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

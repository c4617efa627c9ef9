//! The clock of the threads of the append-only file.

use sluice_clock::Clock;

/// A function that returns monotonic nanoseconds.
pub fn clock() -> Box<dyn FnMut() -> u64 + Send> {
    let mut clock = Clock::system();
    Box::new(move || clock.now().mono_ns)
}

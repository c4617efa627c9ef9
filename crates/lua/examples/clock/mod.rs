//! Processor time of the calling thread, which other processes on a busy computer hardly affect.

use std::time::Duration;

/// Time that the thread has run; 0 on systems without such a clock.
#[cfg(unix)]
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Time that the thread has run; 0 on systems without such a clock.
#[cfg(not(unix))]
pub fn now() -> Duration {
    Duration::ZERO
}

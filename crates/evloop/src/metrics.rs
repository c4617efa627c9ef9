//! What a loop counts about itself, for INFO.

/// Counters since the loop was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Calls of [`Loop::wait`](crate::Loop::wait).
    pub iterations: u64,
    /// Turns that blocked in the kernel.
    pub parks: u64,
    /// System calls the loop and its driver made, for waiting, receiving, sending, accepting and registering.
    pub system_calls: u64,
    /// Events handed to the caller.
    pub events: u64,
    /// Kernel events that arrived for a source that was closed meanwhile.
    pub stale: u64,
    /// Turns in which the waker was found to have been used.
    pub wakes_seen: u64,
    /// Kernel wake-ups by the waker that found nothing, because the loop was already awake when they landed.
    pub wakes_spurious: u64,
    /// Receives that found no buffer in the group and had to be started again (io_uring).
    pub starvations: u64,
    /// Eventfd writes of all wakers.
    pub wakes_sent: u64,
    /// Wakes that found another one pending and so cost nothing; about, since producers do not count in step.
    pub wakes_coalesced: u64,
    /// Connections accepted.
    pub accepts: u64,
    /// Accepts that failed for want of descriptors or memory.
    pub accept_failures: u64,
    /// Receives that brought bytes.
    pub receives: u64,
    /// Sends that the kernel took in part or not at all, so that the driver had to wait.
    pub sends_blocked: u64,
    /// Timers fired.
    pub timers_fired: u64,
    /// Waits that gathered ([`Config::batch_wait_us`](crate::Config::batch_wait_us)).
    pub gathered: u64,
    /// The longest time between two waits, in nanoseconds of the caller's clock.
    pub iteration_max_ns: u64,
}

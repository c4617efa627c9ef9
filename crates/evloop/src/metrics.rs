//! The counters of a loop, for INFO.

/// Counters since the loop was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Calls of [`Loop::wait`](crate::Loop::wait).
    pub iterations: u64,
    /// Iterations that blocked in the kernel.
    pub parks: u64,
    /// System calls that the driver made on the loop's thread, as far as it counts them: for example for
    /// waiting, receiving, sending, accepting and registering.
    pub system_calls: u64,
    /// Events handed to the caller.
    pub events: u64,
    /// Events that were dropped because their source had been closed before.
    pub stale: u64,
    /// Iterations that found the waker used.
    pub wakes_seen: u64,
    /// Receives that found no free receive buffer and were started again (io_uring).
    pub starvations: u64,
    /// Wake-ups of all wakers that needed a system call.
    pub wakes_sent: u64,
    /// Wakes that found another one pending and so cost nothing; approximate, because producers
    /// do not count atomically.
    pub wakes_coalesced: u64,
    /// Connections that listeners accepted.
    pub accepts: u64,
    /// Accepts that failed, most often for want of descriptors or memory; failures that concern a single
    /// connection do not count.
    pub accept_failures: u64,
    /// Receives that brought bytes.
    pub receives: u64,
    /// Sends that the kernel took in part or not at all, so that the driver had to wait.
    pub sends_blocked: u64,
    /// Timers that fired; cancelled ones are not counted.
    pub timers_fired: u64,
    /// Waits that gathered ([`Config::batch_wait_us`](crate::Config::batch_wait_us)).
    pub gathered: u64,
    /// The longest time between two waits, in nanoseconds of the caller's clock.
    pub iteration_max_ns: u64,
}

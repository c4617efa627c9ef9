//! The parameters of a loop; all limits of an iteration are here.

use crate::pool::WorkerPool;

/// Limits and sizes of one loop. The server uses [`Config::default`], with more connections accepted in each
/// iteration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ready descriptors taken from the kernel in one iteration, 1..=4096. Default 256.
    pub events_per_iteration: usize,
    /// Connections accepted in one iteration over all listeners, 1..=1000. Default 10.
    pub accepts_per_iteration: u32,
    /// Bytes that may be written in one iteration by sends that a full socket had interrupted; the last of
    /// these sends may exceed the limit by the bytes that its socket takes at once. At least 1. Has no
    /// effect on io_uring, where the kernel continues sends. Default 4 MiB, one or two milliseconds of
    /// copying.
    pub sent_on_per_iteration: usize,
    /// Timers fired in one iteration, at least 1. Default 256.
    pub timers_per_iteration: u32,
    /// Bytes of one receive buffer, and so the most that one connection receives in an iteration, apart
    /// from a [`Loop::recv_into`](crate::Loop::recv_into) and the chunk after it. 64 bytes to 16 MiB. Default
    /// 20 KiB: a request with a value of 16 KiB fits in one chunk.
    pub chunk_bytes: usize,
    /// Submission entries of the ring, a power of two in 1..=4096; the completion queue has eight times as
    /// many. A ring that memory limits do not allow is opened with half as many, repeatedly. Default 512.
    pub ring_entries: u32,
    /// Receive buffers lent to the ring, a power of two in 2..=4096. Default 256.
    pub ring_buffers: u16,
    /// Microseconds to gather requests before a wait, 0..=1000; 0 for never. A wait gathers only if at
    /// least 24 connections were active in the last 8 ms and at least 3 receives are expected during the
    /// wait, so that a few clients are never delayed. Gathering saves wake-ups, but delays replies. Default
    /// 0.
    pub batch_wait_us: u32,
    /// Threads for operations on regular files, on all drivers but io_uring, 1..=256; started with the
    /// first such operation. Default 2.
    pub file_workers: usize,
    /// Operations that may queue for these threads, at least 1; further operations wait in their files'
    /// queues. Default 1024.
    pub file_queue: usize,
    /// Seed of the simulated driver's script.
    #[cfg(any(test, feature = "sim"))]
    pub sim_seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            events_per_iteration: 256,
            accepts_per_iteration: 10,
            sent_on_per_iteration: 4 << 20,
            timers_per_iteration: 256,
            chunk_bytes: 20 * 1024,
            ring_entries: 512,
            ring_buffers: 256,
            batch_wait_us: 0,
            file_workers: WorkerPool::DEFAULT.0,
            file_queue: WorkerPool::DEFAULT.1,
            #[cfg(any(test, feature = "sim"))]
            sim_seed: 0,
        }
    }
}

impl Config {
    /// The configuration with every value clamped to its range.
    pub(crate) fn clamped(&self) -> Config {
        Config {
            events_per_iteration: self.events_per_iteration.clamp(1, 4096),
            accepts_per_iteration: self.accepts_per_iteration.clamp(1, 1000),
            sent_on_per_iteration: self.sent_on_per_iteration.max(1),
            timers_per_iteration: self.timers_per_iteration.max(1),
            chunk_bytes: self.chunk_bytes.clamp(64, 1 << 24),
            ring_entries: self.ring_entries.clamp(1, 4096).next_power_of_two(),
            ring_buffers: self.ring_buffers.clamp(2, 4096).next_power_of_two(),
            batch_wait_us: self.batch_wait_us.min(1000),
            file_workers: self.file_workers.clamp(1, 256),
            file_queue: self.file_queue.max(1),
            #[cfg(any(test, feature = "sim"))]
            sim_seed: self.sim_seed,
        }
    }
}

//! Cached numbers of the process's memory.

mod service;

use crate::allocator::Allocated;

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// As they were read last, with the entries' chunks.
    pub(super) numbers: Allocated,
    pub(super) read_at_ns: u64,
    pub(super) peak: usize,
    pub(super) peak_s: i64,
    pub(super) startup: usize,
}

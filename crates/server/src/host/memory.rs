//! Cached numbers of the process's memory.

mod steps;

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) used: usize,
    pub(super) read_at_ns: u64,
    pub(super) peak: usize,
    pub(super) peak_s: i64,
    pub(super) startup: usize,
}

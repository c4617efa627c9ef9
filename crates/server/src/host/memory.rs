//! Cached numbers of the process's memory.

mod service;

use crate::allocator::Allocated;

/// Commands that have run, and bytes that have come from clients: where neither has grown, memory hardly has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkDone {
    pub(super) commands: u64,
    pub(super) input_bytes: u64,
}

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// As they were read last, with the entries' chunks.
    pub(super) numbers: Allocated,
    pub(super) read_at_ns: u64,
    /// What clients had made the server do when the numbers were read.
    pub(super) read_behind: WorkDone,
    /// Commands but INFO that had run when INFO was last shown numbers that were read for it.
    pub(super) shown_after: u64,
    /// Resident bytes of the process as INFO was shown them last, and when they were read.
    pub(super) resident: usize,
    pub(super) resident_at_ns: u64,
    pub(super) peak: usize,
    pub(super) peak_s: i64,
    pub(super) startup: usize,
}

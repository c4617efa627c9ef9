//! Cached numbers of the process's memory.

mod service;

use crate::allocator::Allocated;

/// What shows, at the price of some reads, that memory has hardly grown since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SignsOfGrowth {
    /// Commands that have run.
    pub(super) commands: u64,
    /// Bytes that have come from clients.
    pub(super) input_bytes: u64,
    /// Bytes of the main thread's allocations, less the bytes of blocks that were freed there.
    pub(super) bytes_of_thread: i64,
    /// Bytes of entries.
    pub(super) entry_bytes: usize,
}

impl SignsOfGrowth {
    /// Whether more memory can be in use than when these were `before`. Another thread allocates for clients
    /// what the main thread does not, such as room of query buffers: that is no sign.
    pub(super) fn show_growth(&self, before: &SignsOfGrowth) -> bool {
        let has_worked = (self.commands, self.input_bytes) != (before.commands, before.input_bytes);
        let has_more = self.bytes_of_thread > before.bytes_of_thread || self.entry_bytes > before.entry_bytes;
        has_worked && has_more
    }
}

/// Cached numbers of the allocator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// As they were read last, with the entries' chunks.
    pub(super) numbers: Allocated,
    pub(super) read_at_ns: u64,
    /// How the signs stood when the numbers were read.
    pub(super) signs: SignsOfGrowth,
    /// Commands but INFO that had run when INFO was last shown numbers that were read for it.
    pub(super) shown_after: u64,
    /// Resident bytes of the process as INFO was shown them last, and when they were read.
    pub(super) resident: usize,
    pub(super) resident_at_ns: u64,
    pub(super) peak: usize,
    pub(super) peak_s: i64,
    pub(super) startup: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_again_where_commands_have_left_more_of_it() {
        let before = SignsOfGrowth { commands: 5, input_bytes: 100, bytes_of_thread: -7, entry_bytes: 50 };
        let reads = SignsOfGrowth { commands: 6, input_bytes: 130, ..before };
        assert!(!before.show_growth(&before) && !reads.show_growth(&before));
        assert!(SignsOfGrowth { bytes_of_thread: -6, ..reads }.show_growth(&before));
        assert!(SignsOfGrowth { entry_bytes: 51, ..reads }.show_growth(&before));
        // What the cron itself leaves is no client's.
        assert!(!SignsOfGrowth { bytes_of_thread: 0, ..before }.show_growth(&before));
        // Deletions.
        assert!(!SignsOfGrowth { bytes_of_thread: -90, entry_bytes: 9, ..reads }.show_growth(&before));
    }
}

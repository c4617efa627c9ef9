//! Cached figures of the process's memory.

mod service;

use crate::allocator::Allocated;

/// Numbers that are cheap to read, and show whether memory can have grown since an earlier reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SignsOfGrowth {
    /// Number of commands executed so far.
    pub(super) commands: u64,
    /// Number of bytes received from clients so far.
    pub(super) input_bytes: u64,
    /// Bytes allocated on the main thread, minus the bytes freed there.
    pub(super) bytes_of_thread: i64,
    /// Bytes of the entries' chunks in use.
    pub(super) entry_bytes: usize,
}

impl SignsOfGrowth {
    /// Whether more memory can be in use than at the time of `before`. Memory that another thread
    /// allocates for clients, such as query buffers, is not seen.
    pub(super) fn show_growth(&self, before: &SignsOfGrowth) -> bool {
        let has_worked = (self.commands, self.input_bytes) != (before.commands, before.input_bytes);
        let has_more = self.bytes_of_thread > before.bytes_of_thread || self.entry_bytes > before.entry_bytes;
        has_worked && has_more
    }
}

/// Cached figures of the allocator and of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// The last reading of the allocator's figures, with the entries' chunks.
    pub(super) numbers: Allocated,
    pub(super) read_at_ns: u64,
    /// The signs at the last reading that was made for the peak.
    pub(super) signs: SignsOfGrowth,
    /// Number of commands other than INFO that had run when the figures were last read for INFO.
    pub(super) shown_after: u64,
    /// Resident bytes of the process as last read for INFO.
    pub(super) resident: usize,
    /// When `resident` was read, monotonic ns.
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
        // Allocations without commands or input are no sign of growth, because the cron has made them.
        assert!(!SignsOfGrowth { bytes_of_thread: 0, ..before }.show_growth(&before));
        // Deletions are no sign of growth, because they lower both numbers of bytes.
        assert!(!SignsOfGrowth { bytes_of_thread: -90, entry_bytes: 9, ..reads }.show_growth(&before));
    }
}

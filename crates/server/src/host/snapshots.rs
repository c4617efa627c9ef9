//! Snapshots and other files that are written in the background.

mod service;

use crate::saving::background::WriterHandle;

/// Snapshots and other files that are written in the background.
pub struct Snapshots {
    /// The number of the next snapshot that is begun. The first has any.
    next: u64,
    /// Those that were begun in the background and may run still.
    writers: Vec<WriterHandle>,
}

impl Snapshots {
    /// None was begun.
    pub(super) fn new() -> Snapshots {
        Snapshots { next: first_snapshot(), writers: Vec::new() }
    }

    /// The number of a snapshot that begins.
    pub fn count(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Ends a rewrite of the append-only file: whether one was under way.
    pub fn break_off_rewrite(&mut self) -> bool {
        let mut was_under_way = false;
        for writer in self.writers.iter().filter(|writer| writer.is_base_under_way()) {
            writer.break_off();
            was_under_way = true;
        }
        was_under_way
    }
}

/// The number of the first snapshot: processes that have one number, each in a container of its own, shall
/// not meet in a folder.
fn first_snapshot() -> u64 {
    let mut bytes = [0; 4];
    // Without entropy the server does not start: see `seeds`.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

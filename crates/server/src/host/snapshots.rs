//! Snapshots and other files written in the background.

mod service;

use crate::saving::background::WriterHandle;

/// The background writers, and the numbers for snapshots and scratch files.
pub struct Snapshots {
    /// The number of the next snapshot or scratch file. The first number is random.
    next: u64,
    /// Writers that were started in the background and may still run.
    writers: Vec<WriterHandle>,
}

impl Snapshots {
    /// No writers, and a random first number.
    pub(super) fn new() -> Snapshots {
        Snapshots { next: first_snapshot(), writers: Vec::new() }
    }

    /// Takes the number for a new snapshot or scratch file.
    pub fn count(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Breaks off a rewrite of the append-only file. Returns whether a rewrite was under way.
    pub fn break_off_rewrite(&mut self) -> bool {
        let mut was_under_way = false;
        for writer in self.writers.iter().filter(|writer| writer.is_base_under_way()) {
            writer.break_off();
            was_under_way = true;
        }
        was_under_way
    }
}

/// The number of the first snapshot. It is random, because processes in containers may have equal ids and
/// share a folder, and their files must not have equal names.
fn first_snapshot() -> u64 {
    let mut bytes = [0; 4];
    // The error is ignored, because without entropy the server does not start (`seeds` in `start.rs`).
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

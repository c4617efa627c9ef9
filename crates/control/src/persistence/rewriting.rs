//! Rewriting the append-only file: a cut of the data (all entries as they are at one moment) becomes the new
//! base, and commands after the cut go into a new increment.
//!
//! ```text
//!  BGREWRITEAOF, growth, CONFIG SET appendonly yes
//!      │ cut: pending bytes go into the current increment, later bytes into a new one (`switch_increment`)
//!      ▼
//!  the job writes the base ──► the process puts the base in force ──► the previous files are removed
//!      └── if it fails or is broken off: the previous files stay in use, with one more increment
//! ```
//!
//! A file that has grown by `auto-aof-rewrite-percentage` is rewritten. If the disk would have no room for
//! a rewrite of a file that large, the rewrite begins earlier (`due` in the engine's
//! `persistence/rewriting.rs`).
//!
//! Invariants: (1) the data and the stream of commands are cut at the same moment, between two commands or
//! transactions; (2) one rewrite at a time, and none during a save; (3) a newly enabled append-only file is
//! read by the next start only once its first base is installed: until then the manifest does not name the
//! file with the appended bytes.

use crate::process::Process;

/// The state of rewrites between two steps.
#[derive(Clone, Debug, Default)]
pub struct Rewriting {
    /// A rewrite begins as soon as no other background job runs.
    pub scheduled: bool,
    /// Start of the rewrite in progress, in seconds since the epoch. A rewrite ends when its base is
    /// installed, which is later than the end of writing.
    pub began_s: Option<i64>,
    /// The append-only file was turned on, and its first base is not yet installed: the next start would
    /// not read the file.
    pub is_first: bool,
    /// The base of the rewrite in progress is the RDB file received from the primary.
    pub has_snapshot: bool,
    /// Name of an RDB file received from the primary, and the offset in the replication stream to which its
    /// data correspond. The file could not become a base yet, because the thread of the previous append-only
    /// file had not ended; the scheduled rewrite tries again.
    pub awaited_file: Option<(Vec<u8>, u64)>,
    /// A rewrite whose base was the RDB file of the primary was broken off. Until the thread of the
    /// append-only file has ended, it may still use the RDB file.
    pub leaves_snapshot: bool,
    /// Whether the last rewrite, or the last attempt to begin one, failed.
    pub failed: bool,
    /// Number of failures since the last success, or since BGREWRITEAOF scheduled a rewrite.
    pub failures: u32,
    /// Number of attempts to begin a rewrite that writes its own base, for INFO; an RDB file from the primary
    /// taken as the base is not counted.
    pub count: u64,
    /// Duration of the last rewrite, in seconds; `None` before the first.
    pub last_s: Option<i64>,
    /// Bytes of entries that were copied during the last rewrite because commands changed them before they
    /// were written (copy on write).
    pub last_copied_bytes: u64,
    /// Before this time (seconds since the epoch) the server begins no automatic rewrite, nor a scheduled one
    /// if the last rewrite failed.
    pub rests_until_s: i64,
    /// The lack of disk space for a rewrite is not logged again before this time, in seconds since the epoch.
    pub too_small_said_until_s: i64,
    /// The reason for which no rewrite begins has been logged; it is logged once.
    pub refusal_said: bool,
}

impl Rewriting {
    /// Whether an RDB file is needed for a base, so that no save may replace
    /// it: see `Engine::is_snapshot_wanted`.
    pub fn is_snapshot_wanted(&mut self, process: &mut dyn Process) -> bool {
        self.leaves_snapshot = self.leaves_snapshot && process.is_aof_closing();
        self.has_snapshot || self.leaves_snapshot
    }
}

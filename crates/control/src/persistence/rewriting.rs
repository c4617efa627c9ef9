//! Rewriting the append-only file: a cut of the data becomes the new base, and what comes behind the cut
//! another increment.
//!
//! ```text
//!  BGREWRITEAOF, growth, CONFIG SET appendonly yes
//!      │ cut: what is pending goes into the file before, what follows into another ([`Process::switch_increment`])
//!      ▼
//!  the job writes the base ──► the process puts the base in force ──► the files before are removed
//!      └── fails, or is broken off: the file before goes on, with one more increment
//! ```
//!
//! A file that has grown by `auto-aof-rewrite-percentage` is rewritten. Where the disk would not hold a
//! rewrite any more by then, the rewrite begins earlier (`due` in the engine's `persistence/rewriting.rs`).
//!
//! Invariants: (1) the cut of the data and that of the stream are between the same two units; (2) one rewrite
//! at a time, and none beside a save; (3) an append-only file that was turned on is one when its first base
//! is in force: until then what is appended lies beside the manifest.

use crate::process::Process;

/// What rewriting remembers between two steps.
#[derive(Clone, Debug, Default)]
pub struct Rewriting {
    /// A rewrite shall begin when nothing else is written in the background.
    pub scheduled: bool,
    /// When the one under way began, seconds since the epoch. It ends when the base is in force, and not when
    /// it is written.
    pub began_s: Option<i64>,
    /// The append-only file was turned on, and its first base is not in force: the next start would not read
    /// it.
    pub is_first: bool,
    /// The base of the one under way is the RDB file that the primary has sent.
    pub has_snapshot: bool,
    /// The thread of the append-only file before had not ended when the RDB file of the primary was to become
    /// a base: the file's name, and the offset of the stream at which the data are those of the file. The
    /// rewrite that is scheduled tries it again.
    pub awaited_file: Option<(Vec<u8>, u64)>,
    /// One with such a base was broken off: the thread of its append-only file may yet use the RDB file until
    /// it has ended.
    pub leaves_snapshot: bool,
    /// The last one that ended failed.
    pub failed: bool,
    /// Failures since the last success.
    pub failures: u32,
    /// Rewrites that were begun.
    pub count: u64,
    /// How long the last one took, seconds.
    pub last_s: Option<i64>,
    /// Bytes copied for commands that changed an entry while the last one was under way.
    pub last_copied_bytes: u64,
    /// No rewrite begins by itself before this, seconds since the epoch.
    pub rests_until_s: i64,
    /// The log says no more that the disk is too small before this, seconds since the epoch.
    pub too_small_said_until_s: i64,
    /// The log has said why no rewrite begins: growth, and what is scheduled, have it said once.
    pub refusal_said: bool,
}

impl Rewriting {
    /// As `Engine::is_snapshot_wanted`.
    pub fn is_snapshot_wanted(&mut self, process: &mut dyn Process) -> bool {
        self.leaves_snapshot = self.leaves_snapshot && process.is_aof_closing();
        self.has_snapshot || self.leaves_snapshot
    }
}

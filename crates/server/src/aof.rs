//! The append-only file on disk.
//!
//! ```text
//!  main thread ── blocks, orders ──► thread of the file: write, fsync ──► folder: manifest, base, increments
//!       ▲                                      │
//!       └──── positions, news, a wake-up ──────┘
//! ```
//!
//! The engine decides what is appended (`control/persistence/aof.rs`); this module knows no commands. The
//! *cut* of a rewrite is the moment whose data the rewrite writes into its base.

mod base_thread;
mod clock;
mod load;
mod open;
mod rewrite;
mod shared;
mod sync_thread;
mod thread;

use clock::clock;
pub use load::{AppendedFiles, FileEnding, NamedFiles, NoFiles};
pub use rewrite::{BaseSink, WrittenBase};
pub use shared::{AofCommand, AofItem, AofNews, AofShared, RewriteNumber};
pub use thread::{AofEnding, AofWorker};

use crate::threads::Thread;
use sluice_control::process::AofBacklog;
use sluice_engine::Engine;
use sluice_storage::aof::Block;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

/// The main thread's side of the append-only file.
pub struct Aof {
    shared: Arc<AofShared>,
    thread: Option<JoinHandle<AofEnding>>,
    /// Path of the file's folder.
    path: PathBuf,
    /// The base of a finished rewrite, until the file's thread puts the base in force (names it in the
    /// manifest).
    written: WrittenBase,
    /// Whether the manifest names a base.
    has_base: bool,
}

impl Aof {
    /// Starts the thread of the file.
    pub fn start(shared: Arc<AofShared>, mut worker: AofWorker, has_base: bool) -> std::io::Result<Aof> {
        worker.sync_elsewhere()?;
        let path = worker.path().to_owned();
        let thread = Thread::Aof.start(move || worker.run())?;
        Ok(Aof { shared, thread: Some(thread), path, written: WrittenBase::default(), has_base })
    }

    /// Gives the file's thread the bytes that the engine has completed for appending.
    pub fn append(&self, engine: &mut Engine) {
        while let Some((bytes, range)) = engine.take_made_aof(|| self.shared.buffer()) {
            self.give(bytes, range.end);
        }
    }

    /// Gives the file's thread all bytes that the engine has for appending, because the file is about to end.
    pub fn append_all(&self, engine: &mut Engine) {
        let mut bytes = Vec::new();
        if let Some(range) = engine.take_aof(&mut bytes) {
            self.give(bytes, range.end);
        }
    }

    /// Path of the file's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The shared slot in which a finished rewrite stores its base.
    pub fn written(&self) -> WrittenBase {
        self.written.clone()
    }

    /// Whether the manifest names a base.
    pub fn has_base(&self) -> bool {
        self.has_base
    }

    /// Records that a base was put in force.
    pub fn note_base(&mut self) {
        self.has_base = true;
    }

    /// Gives the file's thread a block of bytes, which ends at position `end`.
    pub fn give(&self, bytes: Vec<u8>, end: u64) {
        if !bytes.is_empty() {
            self.shared.give(AofItem::Block(Block { bytes, end }));
        }
    }

    /// Gives the file's thread a command, to be carried out after all earlier blocks and commands.
    pub fn order(&self, order: AofCommand) {
        self.shared.give(AofItem::Command(order));
    }

    /// Orders the thread to begin another increment at the cut of this rewrite. Returns whether commands
    /// that write must wait until the increment has begun. With `appendfsync always` (`is_strict`) such
    /// commands need not wait, because their replies wait for the disk in any case.
    pub fn begin_incr(&self, number: RewriteNumber, is_strict: bool) -> AofBacklog {
        self.shared.numbers.is_changing.store(!is_strict, Relaxed);
        self.order(AofCommand::BeginIncr(number));
        if is_strict { AofBacklog::Fine } else { AofBacklog::Changing }
    }

    /// The state shared with the file's thread.
    pub fn shared(&self) -> &Arc<AofShared> {
        &self.shared
    }

    /// Orders the thread to end once all earlier blocks are on disk.
    pub fn begin_end(&self) {
        self.order(AofCommand::End);
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the thread, which [`Aof::begin_end`] has ordered. Returns whether all blocks
    /// are on disk.
    pub fn await_end(mut self) -> AofEnding {
        let ending = self.thread.take().map(JoinHandle::join);
        // The join succeeds, because a panic of the thread would have ended the process.
        ending.and_then(Result::ok).unwrap_or(AofEnding::Failed)
    }
}

//! The append-only file on disk.
//!
//! ```text
//!  main thread ── blocks, orders ──► thread of the file: write, fsync ──► folder: manifest, base, increments
//!       ▲                                      │
//!       └──── positions, news, a wake-up ──────┘
//! ```
//!
//! The engine says what is appended (`control/persistence/aof.rs`); nothing here knows a command.

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

/// The append-only file as the main thread has it.
pub struct Aof {
    shared: Arc<AofShared>,
    thread: Option<JoinHandle<AofEnding>>,
    /// Where its folder is.
    path: PathBuf,
    /// A rewrite that has ended puts its base there.
    written: WrittenBase,
    /// Whether a base is in force.
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

    /// Gives the thread what the engine has to append, as far as it is made.
    pub fn append(&self, engine: &mut Engine) {
        while let Some((bytes, range)) = engine.take_made_aof(|| self.shared.buffer()) {
            self.give(bytes, range.end);
        }
    }

    /// Gives the thread all that the engine has to append: the file is about to end.
    pub fn append_all(&self, engine: &mut Engine) {
        let mut bytes = Vec::new();
        if let Some(range) = engine.take_aof(&mut bytes) {
            self.give(bytes, range.end);
        }
    }

    /// Where its folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a rewrite that has ended puts its base.
    pub fn written(&self) -> WrittenBase {
        self.written.clone()
    }

    /// Whether a base is in force.
    pub fn has_base(&self) -> bool {
        self.has_base
    }

    /// A base is in force from now on.
    pub fn note_base(&mut self) {
        self.has_base = true;
    }

    /// Gives the thread a block.
    pub fn give(&self, bytes: Vec<u8>, end: u64) {
        if !bytes.is_empty() {
            self.shared.give(AofItem::Block(Block { bytes, end }));
        }
    }

    /// Orders something, behind what was given before.
    pub fn order(&self, order: AofCommand) {
        self.shared.give(AofItem::Command(order));
    }

    /// Has the thread begin another increment behind the cut of this rewrite. Whether commands that write are
    /// to wait meanwhile: not where their replies wait for the disk anyway.
    pub fn begin_incr(&self, number: RewriteNumber, is_strict: bool) -> AofBacklog {
        self.shared.numbers.is_changing.store(!is_strict, Relaxed);
        self.order(AofCommand::BeginIncr(number));
        if is_strict { AofBacklog::Fine } else { AofBacklog::Changing }
    }

    /// What the two threads share.
    pub fn shared(&self) -> &Arc<AofShared> {
        &self.shared
    }

    /// Has the thread end when everything that was given is on disk.
    pub fn begin_end(&self) {
        self.order(AofCommand::End);
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until everything that was given is on disk, or is known not to be: which of the two. Behind
    /// [`Aof::begin_end`].
    pub fn await_end(mut self) -> AofEnding {
        let ending = self.thread.take().map(JoinHandle::join);
        // A panic of the thread has ended the process.
        ending.and_then(Result::ok).unwrap_or(AofEnding::Failed)
    }
}

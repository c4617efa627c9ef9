//! The part of the replication stream that waits for the end of a snapshot. A thread adds it to a spool
//! (`spool.rs`), because the disk may be slow and the main thread must not wait.

use super::spool::{self, Spool, SpoolReaders, SpoolWriter};
use crate::threads::Thread;
use sluice_base::Bytes;
use sluice_control::process::SaveError;
use sluice_evloop::Waker;
use sluice_replication::{NextPiece, SnapshotPieces, StreamSpool};
use sluice_storage::Storage;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The main thread's end of the spool.
pub struct SpooledStream {
    /// The channel for blocks to the thread. The engine's limit on `unwritten_bytes` bounds the queue.
    blocks: Sender<Bytes>,
    /// Number of bytes that were given to the thread and are not in the spool yet.
    unwritten: Arc<AtomicUsize>,
    readers: SpoolReaders,
    spool: Arc<Spool>,
}

/// Begins a spool for `replicas` replicas, with its scratch file at `path`. Errors: a line for the log.
pub fn begin(
    storage: &Arc<dyn Storage>,
    path: PathBuf,
    replicas: usize,
    waker: Waker,
) -> Result<SpooledStream, SaveError> {
    let (writer, readers) = spool::for_replicas(storage, path, replicas, waker);
    let (blocks, given) = channel();
    let unwritten = Arc::new(AtomicUsize::new(0));
    let (spool, counted) = (writer.shared(), unwritten.clone());
    Thread::StreamSpool
        .start(move || put_in(writer, &given, &counted))
        .map_err(|error| SaveError(format!("Can't spool the replication stream: {error}")))?;
    Ok(SpooledStream { blocks, unwritten, readers, spool })
}

/// Adds blocks to the spool until the sender is dropped or the spool was broken off.
fn put_in(mut writer: SpoolWriter, given: &Receiver<Bytes>, unwritten: &AtomicUsize) {
    while let Ok(block) = given.recv() {
        let len = block.len();
        if writer.push(block).is_err() {
            return;
        }
        // Relaxed: the count is only for the limit, and orders no other accesses.
        unwritten.fetch_sub(len, Relaxed);
    }
}

impl StreamSpool for SpooledStream {
    fn give(&mut self, block: Bytes) {
        // Relaxed: the count is only for the limit, and orders no other accesses.
        self.unwritten.fetch_add(block.len(), Relaxed);
        // The send fails if the thread has ended because the spool was broken off. The readers then get this
        // failure.
        let _ = self.blocks.send(block);
    }

    fn next(&mut self, replica: usize) -> NextPiece {
        self.readers.next(replica)
    }

    fn leave(&mut self, replica: usize) {
        self.readers.leave(replica);
    }

    fn has_news(&self) -> bool {
        self.readers.has_news()
    }

    fn unwritten_bytes(&self) -> usize {
        self.unwritten.load(Relaxed)
    }

    fn memory_bytes(&self) -> usize {
        self.unwritten_bytes() + self.readers.held_bytes()
    }

    fn warning(&mut self) -> Option<String> {
        self.spool.warning()
    }
}

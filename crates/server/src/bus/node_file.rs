//! The thread that writes the file `nodes.conf`.
//!
//! Invariants: (1) a text reported as saved is durable: both the file's content and its name are on disk
//! ([`NodeFile`]); (2) of several texts that wait for the thread, only the newest is written.

use crate::threads::Thread;
use sluice_cluster::Generation;
use sluice_evloop::Waker;
use sluice_storage::Storage;
use sluice_storage::node_file::NodeFile;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A text to be written as the file.
struct NextText {
    generation: Generation,
    text: Arc<[u8]>,
}

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Generation of the text that was written.
    pub generation: Generation,
    /// Number of queued texts that this write settles, namely its own text and older texts that need not be
    /// written any more.
    texts: usize,
    /// The error of the failed step, as text for the log.
    pub result: Result<(), String>,
}

/// The main thread's handle to the writing thread.
pub struct FileWriter {
    /// `None` once the writer has ended.
    texts: Option<Sender<NextText>>,
    reports: Receiver<FileReport>,
    thread: Option<JoinHandle<()>>,
    /// Number of queued texts whose result was not taken yet.
    under_way: usize,
}

impl FileWriter {
    /// Starts the thread that writes the file; `waker` is woken after each write.
    ///
    /// # Errors
    /// The operating system cannot start the thread.
    pub fn start(file: NodeFile, storage: Arc<dyn Storage>, waker: Waker) -> io::Result<FileWriter> {
        let (texts, asked) = channel();
        let (told, reports) = channel();
        let thread = Thread::ClusterFile.start(move || write_all(&storage, file, &asked, &told, &waker))?;
        Ok(FileWriter { texts: Some(texts), reports, thread: Some(thread), under_way: 0 })
    }

    /// Queues a text to be written.
    pub fn write(&mut self, generation: Generation, text: Arc<[u8]>) {
        if let Some(texts) = &self.texts
            && texts.send(NextText { generation, text }).is_ok()
        {
            self.under_way += 1;
        }
    }

    /// The result of the next finished write. Cost: one comparison while no write is under way.
    pub fn take(&mut self) -> Option<FileReport> {
        if self.under_way == 0 {
            return None;
        }
        let report = self.reports.try_recv().ok()?;
        self.under_way -= report.texts;
        Some(report)
    }

    /// Whether a text waits or is being written.
    #[cfg(test)]
    fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Writes the last text, waits until it is written, and releases the file. Returns the errors that were
    /// not taken yet, for the log.
    pub fn end(&mut self, last: Arc<[u8]>) -> Vec<String> {
        // The generation is arbitrary, because the engine is ending and needs no report of this write.
        self.write(Generation(u64::MAX), last);
        self.close()
    }

    /// Waits until the queued texts are written, and releases the file. Without the wait, an interrupted
    /// write would leave its temporary file. Returns the errors that were not taken yet, for the log.
    pub fn close(&mut self) -> Vec<String> {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            // The join succeeds, because a panic of the thread would have ended the process.
            let _ = thread.join();
        }
        self.reports.try_iter().filter_map(|report| report.result.err()).collect()
    }
}

/// Writes texts until the sender is gone.
fn write_all(
    storage: &Arc<dyn Storage>,
    mut file: NodeFile,
    asked: &Receiver<NextText>,
    told: &Sender<FileReport>,
    waker: &Waker,
) {
    while let Ok(mut next) = asked.recv() {
        let mut texts = 1;
        while let Ok(newer) = asked.try_recv() {
            next = newer;
            texts += 1;
        }
        let result = file.write(storage, &next.text);
        if told.send(FileReport { generation: next.generation, texts, result }).is_ok() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;

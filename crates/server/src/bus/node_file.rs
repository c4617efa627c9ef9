//! The thread that writes the file `nodes.conf`.
//!
//! Invariants: (1) what is told as saved is durable, file and name ([`NodeFile`]); (2) of texts that wait for
//! the thread the newest is written alone.

use crate::threads::Thread;
use sluice_cluster::Generation;
use sluice_evloop::Waker;
use sluice_storage::Storage;
use sluice_storage::node_file::NodeFile;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A text that is to be the file.
struct NextText {
    generation: Generation,
    text: Arc<[u8]>,
}

/// What came of a write.
#[derive(Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The newest text that the write stands for.
    pub generation: Generation,
    /// How many texts the write stands for.
    texts: usize,
    /// Which step failed and why, for the log.
    pub result: Result<(), String>,
}

/// The main thread's end of the thread.
pub struct FileWriter {
    /// None once the writer has ended.
    texts: Option<Sender<NextText>>,
    reports: Receiver<FileReport>,
    thread: Option<JoinHandle<()>>,
    /// Texts whose end was not told.
    under_way: usize,
}

impl FileWriter {
    /// Starts the thread that writes the file; `waker` is used when a write is over.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(file: NodeFile, storage: Arc<dyn Storage>, waker: Waker) -> io::Result<FileWriter> {
        let (texts, asked) = channel();
        let (told, reports) = channel();
        let thread = Thread::ClusterFile.start(move || write_all(&storage, file, &asked, &told, &waker))?;
        Ok(FileWriter { texts: Some(texts), reports, thread: Some(thread), under_way: 0 })
    }

    /// Has a text written.
    pub fn write(&mut self, generation: Generation, text: Arc<[u8]>) {
        if let Some(texts) = &self.texts
            && texts.send(NextText { generation, text }).is_ok()
        {
            self.under_way += 1;
        }
    }

    /// The next write that is over. Cost: a comparison while none is under way.
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

    /// Writes the last text, waits for the end of that, and lets go of the file. What failed meanwhile, for
    /// the log.
    pub fn end(&mut self, last: Arc<[u8]>) -> Vec<String> {
        // Nobody waits for this generation: the node is not told any more.
        self.write(Generation(u64::MAX), last);
        self.close()
    }

    /// Waits for the end of what is being written, which would leave its temporary file behind, and lets go
    /// of the file. What failed meanwhile, for the log.
    pub fn close(&mut self) -> Vec<String> {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            // A panic has ended the process.
            let _ = thread.join();
        }
        self.reports.try_iter().filter_map(|report| report.result.err()).collect()
    }
}

/// The thread: ends when nobody has texts any more.
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

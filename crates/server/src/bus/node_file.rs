//! The file `nodes.conf`: claimed and read at the start, written on a thread.
//!
//! Invariants: (1) no two processes write one file: a lock beside it keeps servers of ours away, and the file
//! itself is locked under its name at any moment, as the reference locks it (N-24); (2) what is told as saved
//! is durable, file and name; (3) of texts that wait for the thread the newest is written alone.

use crate::threads::Thread;
use sluice_cluster::Generation;
use sluice_config::{Config, param};
use sluice_evloop::Waker;
use sluice_storage::plain_error;
use sluice_storage::replacement::{Failed, Operation, Stage};
use sluice_storage::{LockHold, LockRefused, Replacement, Storage, read_whole};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A file that this process has for itself.
pub struct NodeFile {
    /// Absolute: the working directory may change.
    path: PathBuf,
    /// The lock beside it; none where files cannot be locked.
    hold: Option<LockHold>,
}

impl NodeFile {
    /// Claims the file that the configuration names, in the working directory. What cannot be locked goes to
    /// `say`.
    ///
    /// # Errors
    /// Another node has it: text for the log.
    pub fn claim(
        storage: &dyn Storage,
        config: &Config,
        say: &mut dyn FnMut(String),
    ) -> Result<NodeFile, String> {
        let name = OsStr::from_bytes(config.bytes(param::CLUSTER_CONFIG_FILE));
        let path = std::env::current_dir().unwrap_or_default().join(name);
        let refused = || {
            format!(
                "Sorry, the cluster configuration file {} is already used by a different Cluster node. Please make sure that \
                 different nodes use different cluster configuration files.",
                name.display()
            )
        };
        let hold = match storage.lock(&with_suffix(&path, ".lock"), &format!("{}\n", std::process::id())) {
            Ok(hold) => Some(hold),
            Err(LockRefused::Held(_)) => return Err(refused()),
            Err(LockRefused::Failed(error)) => {
                say(format!(
                    "{} cannot be locked ({}): nothing keeps another node from writing it",
                    path.display(),
                    plain_error(&error)
                ));
                None
            }
        };
        if storage.is_written(&path) {
            return Err(refused());
        }
        Ok(NodeFile { path, hold })
    }

    /// The bytes of the file; `None` where there is none, or an empty one.
    ///
    /// # Errors
    /// It is there and cannot be read: text for the log.
    pub fn read(&self, storage: &dyn Storage) -> Result<Option<Vec<u8>>, String> {
        match read_whole(storage, &self.path) {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!(
                "Loading the cluster node config from {}: {}",
                self.path.display(),
                plain_error(&error)
            )),
        }
    }

    /// Starts the thread that writes the file; `waker` is used when a write is over.
    ///
    /// # Errors
    /// There is no thread.
    pub fn write_with(self, storage: Arc<dyn Storage>, waker: Waker) -> io::Result<FileWriter> {
        let (texts, asked) = channel();
        let (told, reports) = channel();
        let thread = Thread::ClusterFile.start(move || write_all(&storage, self, &asked, &told, &waker))?;
        Ok(FileWriter { texts: Some(texts), reports, thread: Some(thread), under_way: 0 })
    }
}

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
    file: NodeFile,
    asked: &Receiver<NextText>,
    told: &Sender<FileReport>,
    waker: &Waker,
) {
    let temporary = with_suffix(&file.path, &format!(".tmp-{}", std::process::id()));
    // The file under its name stays open, and so locked, until another has the name.
    let mut in_place: Option<Replacement> = None;
    while let Ok(mut next) = asked.recv() {
        let mut texts = 1;
        while let Ok(newer) = asked.try_recv() {
            next = newer;
            texts += 1;
        }
        let result = match replace(storage, &temporary, &file.path, &next.text) {
            Ok(done) => {
                in_place = Some(done);
                Ok(())
            }
            Err(reason) => Err(reason),
        };
        if told.send(FileReport { generation: next.generation, texts, result }).is_ok() {
            waker.wake();
        }
    }
    drop(in_place);
    drop(file.hold);
}

/// Writes a file in place of another, durably. Errors: which step failed, for the log.
fn replace(
    storage: &Arc<dyn Storage>,
    temporary: &Path,
    target: &Path,
    text: &[u8],
) -> Result<Replacement, String> {
    let (temporary, target) = (temporary.to_path_buf(), target.to_path_buf());
    let mut written = 0;
    let tried = || -> Result<Replacement, Failed> {
        let mut next = Replacement::begin(storage.clone(), temporary, target, FILE_MODE, None)?;
        for piece in text.chunks(PIECE_BYTES) {
            next.write(piece)?;
            written += piece.len();
        }
        while next.step()? != Stage::Done {}
        Ok(next)
    };
    tried().map_err(|Failed { operation, error }| {
        let reason = plain_error(&error);
        match operation {
            Operation::Create => format!("Could not open temp cluster config file: {reason}"),
            Operation::Write => {
                format!("Failed after writing ({written}) bytes to tmp cluster config file: {reason}")
            }
            Operation::Sync => format!("Could not sync tmp cluster config file: {reason}"),
            Operation::Rename => format!("Could not rename tmp cluster config file: {reason}"),
            Operation::SyncFolder => format!("Could not sync cluster config file dir: {reason}"),
        }
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Permissions of a new file, less those that the process masks out.
const FILE_MODE: u32 = 0o644;
/// Bytes written at once.
const PIECE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;

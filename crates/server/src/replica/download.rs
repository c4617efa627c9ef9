//! A full sync by disk. A thread owns the connection and the file, receives, validates and writes the
//! snapshot, and makes the file durable.
//!
//! ```text
//!  line ──► payload ──► judged ──► synced ──Saved──► waits for `Commit` ──► renamed, folder synced ──InForce──► the socket goes back
//!     └────────┴──────────┴──────────┴── fails, is cancelled: the temporary file is removed ──► Failed
//! ```
//!
//! Invariants: (1) the thread shares nothing with other downloads: socket, file and counters are its own
//! (D-1); (2) the main thread never waits for this thread: to cancel a download, the main thread shuts the
//! socket down, which ends the wait of this thread, and drops the download; (3) a file with a wrong header,
//! version or checksum never gets its final name (D-3); (4) the file with the temporary name is removed in
//! every case, unless it was renamed (D-5); (5) nothing here waits for a reader of the data (D-8).

use super::progress::SyncProgress;
use crate::net::{BlockingStream, Stream, StreamRemote};
use crate::threads::Thread;
use sluice_base::LogLevel;
use sluice_evloop::Waker;
use sluice_persist::rdb::{Judge, LoadError, Problem, ReadOptions};
use sluice_replication::{Extent, Framing};
use sluice_storage::plain_error;
use sluice_storage::replacement::{Failed, Stage, folder_of};
use sluice_storage::{Replacement, Storage};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A report of the download's thread.
#[derive(Debug)]
pub enum Report {
    /// A line for the log.
    Log(LogLevel, String),
    /// The file is complete, valid and durable under its temporary name.
    Saved,
    /// The file has its final name, durably. Holds the connection, and the bytes that arrived
    /// after the snapshot.
    InForce(Stream, Vec<u8>),
    /// The file was not completed or not renamed; the log has the reason.
    Failed,
}

/// The order to give the saved file its final name.
struct Commit;

/// The main thread's side of a download. Dropping it before the download's end cancels the download.
pub struct Download {
    reports: Receiver<Report>,
    commit: Sender<Commit>,
    /// A handle to end the connection; `None` after the thread has returned the connection.
    remote: Option<StreamRemote>,
    progress: Arc<SyncProgress>,
    temporary: PathBuf,
    storage: Arc<dyn Storage>,
}

/// Where a received snapshot is stored, and how it is validated.
pub struct DownloadPlan {
    pub storage: Arc<dyn Storage>,
    pub temporary: PathBuf,
    pub target: PathBuf,
    /// The options with which the file will be read.
    pub options: ReadOptions,
    /// The directive `bio-cpulist`, for the thread.
    pub bio_cpulist: String,
}

impl Download {
    /// Begins to receive on this connection. The bytes in `first` were already received on it.
    pub fn start(stream: Stream, first: Vec<u8>, plan: DownloadPlan, waker: Waker) -> io::Result<Download> {
        let (sender, reports) = channel();
        let (commit, commits) = channel();
        let progress = Arc::new(SyncProgress::default());
        let stream = stream.block()?;
        let download = Download {
            reports,
            commit,
            remote: Some(stream.remote()?),
            progress: progress.clone(),
            temporary: plan.temporary.clone(),
            storage: plan.storage.clone(),
        };
        let bio = plan.bio_cpulist.clone();
        let job = DownloadJob { stream, plan, progress, reports: DownloadReporter { sender, waker } };
        Thread::Download { bio: &bio }.start(move || job.run(first, &commits))?;
        Ok(download)
    }

    /// Records that the thread has returned the connection.
    pub fn end(mut self) {
        self.remote = None;
    }

    /// The counters of received bytes.
    pub fn progress(&self) -> &Arc<SyncProgress> {
        &self.progress
    }

    /// The next report, if there is one; `Failed` if the thread has ended without a last report.
    pub fn take(&self) -> Option<Report> {
        match self.reports.try_recv() {
            Ok(report) => Some(report),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(Report::Failed),
        }
    }

    /// Orders the thread to replace the previous file by the saved file.
    pub fn commit(&self) {
        // The send fails only if the thread has ended, and then the thread has reported the reason.
        let _ = self.commit.send(Commit);
    }

    /// Sends the primary a keep-alive, in case the thread has received the whole snapshot and waits for the
    /// disk.
    pub fn keep_alive(&self) {
        if let Some(remote) = &self.remote {
            remote.keep_alive();
        }
    }

    /// Removes the temporary file, because the process ends before the thread does.
    pub fn remove_temporary(&self) {
        let _ = self.storage.remove(&self.temporary);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // The thread's receive ends at once. If the thread has ended, this has no effect.
        if let Some(remote) = &self.remote {
            remote.end();
        }
    }
}

struct DownloadReporter {
    sender: Sender<Report>,
    waker: Waker,
}

impl DownloadReporter {
    fn report(&self, report: Report) {
        // The send fails if the download was cancelled.
        if self.sender.send(report).is_ok() {
            self.waker.wake();
        }
    }

    fn log(&self, level: LogLevel, text: impl std::fmt::Display) {
        self.report(Report::Log(level, format!("Replica bio thread: {text}")));
    }
}

/// The state of a download's thread.
struct DownloadJob {
    stream: BlockingStream,
    plan: DownloadPlan,
    progress: Arc<SyncProgress>,
    reports: DownloadReporter,
}

/// The reason why there is no complete file, as a line for the log.
struct NoFile(String);

impl From<Failed> for NoFile {
    fn from(failed: Failed) -> NoFile {
        let reason = plain_error(&failed.error);
        NoFile(format!(
            "Write error or short write writing to the DB dump file needed for PRIMARY <-> REPLICA synchronization: {reason}"
        ))
    }
}

impl From<LoadError> for NoFile {
    fn from(error: LoadError) -> NoFile {
        NoFile(match error.problem {
            Problem::Magic => "Wrong signature in the snapshot of the primary: discarded".to_owned(),
            Problem::Version(version) => format!("Can't handle RDB format version {version}"),
            _ => format!("The snapshot of the primary was discarded: {error}"),
        })
    }
}

impl DownloadJob {
    fn run(mut self, first: Vec<u8>, commits: &Receiver<Commit>) {
        let result = self.receive(first).and_then(|(mut file, rest)| {
            self.reports.log(LogLevel::Notice, "Done downloading RDB");
            self.reports.report(Report::Saved);
            // To cancel the download, the main thread drops its end of the channel. Then `file` is dropped,
            // which removes the temporary file.
            commits.recv().map_err(|_| NoFile("The full sync was stopped".to_owned()))?;
            while file.step()? != Stage::Done {}
            Ok(rest)
        });
        let DownloadJob { stream, reports, .. } = self;
        match result {
            Ok(mut rest) => {
                let stream = stream.release(&mut rest);
                reports.report(Report::InForce(stream, rest));
            }
            Err(NoFile(line)) => {
                reports.log(LogLevel::Warning, line);
                reports.report(Report::Failed);
            }
        }
    }

    /// Receives, validates and writes the snapshot, and syncs the file. Returns the file, and the bytes
    /// that arrived after the snapshot.
    fn receive(&mut self, mut first: Vec<u8>) -> Result<(Replacement, Vec<u8>), NoFile> {
        let mut framing = Framing::default();
        let mut buffer = vec![0; READ_BYTES];
        self.progress.count_received(first.len());
        let extent = loop {
            let (used, extent) = framing.line(&first).map_err(|error| NoFile(error.to_string()))?;
            first.drain(..used);
            if let Some(extent) = extent {
                break extent;
            }
            let len = self.read(&mut buffer[..LINE_READ_BYTES])?;
            first.extend_from_slice(&buffer[..len]);
        };
        self.announce(extent)?;
        let DownloadPlan { storage, temporary, target, options, .. } = &self.plan;
        let (temporary, target) = (temporary.clone(), target.clone());
        let mut file = Replacement::begin(storage.clone(), temporary, target, MODE, Some(SYNC_EVERY))?;
        let mut judge = Judge::new(*options);
        let progress = self.progress.clone();
        let mut give = |bytes: &[u8]| -> Result<(), NoFile> {
            // The bytes are validated before they are written, so that data that are not a snapshot take
            // no disk space.
            judge.feed(bytes)?;
            file.write(bytes)?;
            progress.count_read(bytes.len());
            Ok(())
        };
        let used = framing.payload(&first, &mut give)?;
        let rest = first.split_off(used);
        while !framing.has_ended() {
            let welcome = framing.welcome(buffer.len());
            let len = self.read(&mut buffer[..welcome])?;
            framing.payload(&buffer[..len], &mut give)?;
        }
        judge.finish()?;
        file.step()?;
        Ok((file, rest))
    }

    fn announce(&self, extent: Extent) -> Result<(), NoFile> {
        let size = match extent {
            Extent::Sized(size) => {
                let text = format!("PRIMARY <-> REPLICA sync: receiving {size} bytes from primary to disk");
                self.reports.log(LogLevel::Notice, text);
                size
            }
            Extent::Marked => {
                let text = "PRIMARY <-> REPLICA sync: receiving streamed RDB from primary with EOF to disk";
                self.reports.log(LogLevel::Notice, text);
                0
            }
        };
        self.progress.set_total(size);
        // A snapshot that does not fit is refused before it is received (D-4). If the free space is not
        // known, the write fails instead.
        match self.plan.storage.free_bytes(folder_of(&self.plan.temporary)) {
            Ok(free) if free < size => Err(NoFile(format!(
                "The snapshot of the primary has {size} bytes, and {free} bytes are free on the disk: make room, and the full sync is tried again"
            ))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Receives at least one byte.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, NoFile> {
        loop {
            match self.stream.read(into) {
                Ok(0) => {
                    return Err(NoFile("I/O error trying to sync with PRIMARY: connection lost".to_owned()));
                }
                Ok(len) => {
                    self.progress.count_received(len);
                    return Ok(len);
                }
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => {
                    let reason = plain_error(&error);
                    return Err(NoFile(format!("I/O error trying to sync with PRIMARY: {reason}")));
                }
            }
        }
    }
}

/// Maximum number of bytes received at once (D-4).
const READ_BYTES: usize = 512 * 1024;
/// Maximum number of bytes received at once before the snapshot's first line is complete.
const LINE_READ_BYTES: usize = 1024;
/// The file is synced after each this many bytes, so that the number of bytes that wait in memory for the
/// disk is bounded (D-4).
const SYNC_EVERY: u64 = 16 << 20;
/// Permissions of a snapshot, before the process's umask.
const MODE: u32 = 0o666;

#[cfg(test)]
mod tests;

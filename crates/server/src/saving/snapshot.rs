//! The snapshot file on disk, written and read for the engine.

use super::background::{BackgroundSink, Pass};
use sluice_control::process::{SaveError, SnapshotSink};
use sluice_snapshot::SnapshotSource;
use sluice_storage::plain_error;
use sluice_storage::replacement::{Failed, Operation};
use sluice_storage::temporary::temporary_name;
use sluice_storage::{Replacement, Storage, StorageFile};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A snapshot being written under a temporary name.
pub struct SnapshotWriter {
    replacement: Option<Replacement>,
    location: SnapshotLocation,
}

/// The names of a snapshot under way, for the log's texts.
#[derive(Clone)]
struct SnapshotLocation {
    storage: Arc<dyn Storage>,
    /// The working directory; `None` if the directory has no name any more.
    folder: Option<PathBuf>,
    temporary: String,
    name: OsString,
}

/// Permissions of a snapshot, before the process's umask.
const MODE: u32 = 0o666;
/// If a snapshot is to be synced early, it is synced after each this many bytes while it is written.
const SYNC_EVERY: u64 = 16 << 20;

/// Begins a snapshot named `name` in the working directory; `number` makes the temporary name unique.
/// `sync_early`: whether the file is synced while it is written, and not only at its end.
pub fn create(
    storage: &Arc<dyn Storage>,
    name: &[u8],
    sync_early: bool,
    number: u64,
) -> Result<SnapshotWriter, SaveError> {
    let location = SnapshotLocation {
        storage: storage.clone(),
        folder: std::env::current_dir().ok(),
        temporary: temporary_name(std::process::id(), number),
        name: OsStr::from_bytes(name).to_owned(),
    };
    let folder = location.folder.clone().unwrap_or_default();
    let (temporary, target) = (folder.join(&location.temporary), folder.join(&location.name));
    let every = sync_early.then_some(SYNC_EVERY);
    let begun = Replacement::begin(storage.clone(), temporary, target, MODE, every);
    let replacement = Some(begun.map_err(|failed| location.describe(&failed))?);
    Ok(SnapshotWriter { replacement, location })
}

/// Begins a snapshot for which all clients wait. Its temporary name has only the process id, because
/// operators' scripts look for this name. While a process with the same id in another container writes such
/// a file, the name also has `number`.
pub fn create_awaited(
    storage: &Arc<dyn Storage>,
    name: &[u8],
    sync_early: bool,
    number: u64,
) -> Result<SnapshotWriter, SaveError> {
    let plain = temporary_name(std::process::id(), 0);
    let is_free = !storage.is_written(Path::new(&plain));
    create(storage, name, sync_early, if is_free { 0 } else { number })
}

impl BackgroundSink for SnapshotWriter {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        SnapshotSink::write(self, piece)
    }

    fn finish_through(mut self: Box<Self>, pass: &mut Pass<'_>) -> Result<(), SaveError> {
        let mut replacement = self.replacement.take().expect("it goes here and in `finish` alone");
        let location = &self.location;
        let mut step = || replacement.step().map(drop).map_err(|failed| location.describe(&failed));
        step()?;
        pass(&mut step)?;
        step()
    }

    fn temporary_snapshot(&self) -> Option<PathBuf> {
        Some(self.location.folder.clone().unwrap_or_default().join(&self.location.temporary))
    }
}

impl SnapshotSink for SnapshotWriter {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        let SnapshotWriter { replacement, location } = self;
        let replacement = replacement.as_mut().expect("it goes in `finish` alone, which takes the sink");
        replacement.write(piece).map_err(|failed| location.describe(&failed))
    }

    fn finish(mut self: Box<Self>) -> Result<(), SaveError> {
        let replacement = self.replacement.take().expect("it goes here alone");
        replacement.finish().map_err(|failed| self.location.describe(&failed))
    }
}

/// A snapshot for which all clients wait. If a second signal ends the process before the snapshot is
/// complete, the temporary file is removed.
pub struct AwaitedSnapshot(Option<Box<dyn SnapshotSink>>);

impl AwaitedSnapshot {
    /// The snapshot that `sink` writes under the name `temporary`. At most one such value exists at a time.
    pub fn new(temporary: Option<&Path>, sink: Box<dyn SnapshotSink>) -> AwaitedSnapshot {
        sluice_daemon::crash::set_unfinished(temporary);
        AwaitedSnapshot(Some(sink))
    }
}

impl Drop for AwaitedSnapshot {
    fn drop(&mut self) {
        sluice_daemon::crash::set_unfinished(None);
    }
}

impl SnapshotSink for AwaitedSnapshot {
    fn write(&mut self, piece: &[u8]) -> Result<(), SaveError> {
        self.0.as_mut().expect("it goes in `finish` alone").write(piece)
    }

    fn finish(mut self: Box<Self>) -> Result<(), SaveError> {
        self.0.take().expect("it goes here alone").finish()
    }
}

impl SnapshotLocation {
    /// The log's text about a failed save.
    fn describe(&self, failed: &Failed) -> SaveError {
        let reason = plain_error(&failed.error);
        let folder = match &self.folder {
            Some(folder) => folder.display().to_string(),
            None => "unknown".to_owned(),
        };
        let (temporary, name) = (&self.temporary, self.name.display());
        SaveError(match failed.operation {
            Operation::Create => format!(
                "Failed opening the temp RDB file {temporary} (in server root dir {folder}) for saving: {reason}"
            ),
            Operation::Write if failed.error.kind() == ErrorKind::StorageFull => {
                format!("Write error saving DB on disk(write): {reason}{}", self.free_space())
            }
            Operation::Write => format!("Write error saving DB on disk(write): {reason}"),
            Operation::Sync => format!("Write error saving DB on disk(fsync): {reason}"),
            Operation::Rename => format!(
                "Error moving temp DB file {temporary} on the final destination {name} (in server root dir {folder}): \
                 {reason}"
            ),
            Operation::SyncFolder => format!("Failed to fsync directory while saving DB: {reason}"),
        })
    }

    fn free_space(&self) -> String {
        let free = self.folder.as_ref().and_then(|folder| self.storage.free_bytes(folder).ok());
        free.map_or_else(String::new, |bytes| format!(" ({bytes} bytes are free)"))
    }
}

/// A snapshot being read.
struct SnapshotReader {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The opened file; `None` before it is opened.
    file: Option<Box<dyn StorageFile>>,
}

/// The source that reads the snapshot named `name` in the working directory.
pub fn source(storage: &Arc<dyn Storage>, name: &[u8]) -> Box<dyn SnapshotSource> {
    let path = Path::new(OsStr::from_bytes(name)).to_owned();
    Box::new(SnapshotReader { storage: storage.clone(), path, file: None })
}

impl SnapshotReader {
    fn open_file(&mut self) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.storage.open(&self.path)?),
        };
        file.size()
    }
}

impl SnapshotSource for SnapshotReader {
    fn keep(&mut self) -> Result<Option<String>, String> {
        sluice_storage::keep_as_loaded(self.storage.as_ref(), &self.path)
    }

    fn open(&mut self) -> Result<Option<u64>, String> {
        match self.open_file() {
            Ok(size) => Ok(Some(size)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(plain_error(&error)),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let Some(file) = &mut self.file else { return Err("it was not opened".to_owned()) };
        loop {
            match file.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other.map_err(|error| plain_error(&error)),
            }
        }
    }
}

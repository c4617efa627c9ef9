//! Replacing a file so that a crash at any moment leaves the old file or the new one.
//!
//! ```text
//!  writing ──synced──► synced ──renamed──► renamed ──folder synced──► done
//!     └─────────┴── dropped: the temporary file is removed, the old file stays
//! ```
//!
//! Each step is one operation of [`Storage`] or of the file, so the caller decides when and on which thread
//! to wait for the disk.

use super::{Storage, StorageFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The stage that a replacement has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes are written into the temporary file.
    Writing,
    /// The temporary file is whole and durable.
    Synced,
    /// The new file has the name of the old file.
    Renamed,
    /// The new file's name is durable.
    Done,
    /// A write, the sync or the rename has failed, so no more steps are tried.
    Failed,
}

/// An operation of a replacement, for the message about its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creating the temporary file, or linking it to an existing file.
    Create,
    /// Writing into the temporary file.
    Write,
    /// Forcing the temporary file to disk.
    Sync,
    /// Renaming the temporary file to the target.
    Rename,
    /// Forcing the target's folder to disk.
    SyncFolder,
}

/// An operation that failed, with the system's error.
#[derive(Debug)]
pub struct Failed {
    /// The operation that failed.
    pub operation: Operation,
    /// The system's error for the operation.
    pub error: io::Error,
}

impl Operation {
    fn failed(self, error: io::Error) -> Failed {
        Failed { operation: self, error }
    }
}

/// A new file that is to take the place of another.
pub struct Replacement {
    storage: Arc<dyn Storage>,
    temporary: PathBuf,
    target: PathBuf,
    file: Box<dyn StorageFile>,
    stage: Stage,
    /// Each time this many bytes have been written, they are forced to disk; with `None`, only at the end.
    sync_every: Option<u64>,
    unsynced: u64,
}

impl Replacement {
    /// Creates the temporary file with the owner, group and permissions of the target; if there is no
    /// target, with permissions `mode` less the process's umask. An existing file of the temporary name
    /// (left by a process of the same id, or put there by somebody else) is removed, never written into.
    pub fn begin(
        storage: Arc<dyn Storage>,
        temporary: PathBuf,
        target: PathBuf,
        mode: u32,
        sync_every: Option<u64>,
    ) -> Result<Replacement, Failed> {
        // A file that cannot be removed makes the creation below fail.
        if storage.is_there(&temporary).unwrap_or(true) {
            let _ = storage.remove(&temporary);
        }
        // No other user may read the new file before its permissions are set.
        let mode = if storage.is_there(&target).unwrap_or(true) { 0o600 } else { mode };
        let file = storage.create(&temporary, mode).map_err(|error| Operation::Create.failed(error))?;
        let replacement =
            Replacement { storage, temporary, target, file, stage: Stage::Writing, sync_every, unsynced: 0 };
        replacement.resemble(&replacement.target);
        Ok(replacement)
    }

    /// Gives the new file the owner, group and permissions of another file, if that exists, as far as the
    /// system allows it.
    pub(crate) fn resemble(&self, other: &Path) {
        if let Ok(access) = self.storage.access(other) {
            // Errors are ignored, so that the data are written on a file system without permissions, too.
            let _ = self.file.set_access(access);
        }
    }

    /// Begins with a link to a file that is whole and durable; that file keeps its own name as well.
    /// [`Replacement::aim_at`] sets the target.
    pub(crate) fn of_link(
        storage: Arc<dyn Storage>,
        source: &Path,
        temporary: PathBuf,
    ) -> Result<Replacement, Failed> {
        if storage.is_there(&temporary).unwrap_or(true) {
            let _ = storage.remove(&temporary);
        }
        storage.link(source, &temporary).map_err(|error| Operation::Create.failed(error))?;
        let file = storage.open(&temporary).map_err(|error| {
            let _ = storage.remove(&temporary);
            Operation::Create.failed(error)
        })?;
        let (target, stage) = (temporary.clone(), Stage::Synced);
        Ok(Replacement { storage, temporary, target, file, stage, sync_every: None, unsynced: 0 })
    }

    /// The file's path until it has its final name.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Changes the name that the file gets at the end, within the same folder.
    pub(crate) fn aim_at(&mut self, target: PathBuf) {
        assert!(matches!(self.stage, Stage::Writing | Stage::Synced), "it has its name already");
        self.target = target;
    }

    /// Writes all of these bytes. After a failure no more bytes are written, because a gap in the file would
    /// never be noticed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        assert!(matches!(self.stage, Stage::Writing | Stage::Failed), "nothing is written after the end");
        if self.stage == Stage::Failed {
            return Err(Operation::Write.failed(io::Error::other("an earlier write has failed")));
        }
        let written = self.write_all(bytes);
        if written.is_err() {
            self.stage = Stage::Failed;
        }
        written
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Failed> {
        while !bytes.is_empty() {
            let written = match self.file.write(bytes) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other,
            };
            let written = written.map_err(|error| Operation::Write.failed(error))?;
            self.unsynced += written as u64;
            bytes = &bytes[written..];
        }
        if self.sync_every.is_some_and(|every| self.unsynced >= every) {
            self.file.sync().map_err(|error| Operation::Sync.failed(error))?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Takes the next step; returns the stage that was reached.
    pub fn step(&mut self) -> Result<Stage, Failed> {
        let before = self.stage;
        let next = self.next_stage();
        match &next {
            Ok(stage) => self.stage = *stage,
            // After the rename the temporary name is gone, so there is nothing to remove.
            Err(_) if before == Stage::Renamed => {}
            Err(_) => self.stage = Stage::Failed,
        }
        next
    }

    fn next_stage(&mut self) -> Result<Stage, Failed> {
        match self.stage {
            Stage::Writing => {
                self.file.sync().map_err(|error| Operation::Sync.failed(error))?;
                Ok(Stage::Synced)
            }
            Stage::Synced => {
                let renamed = self.storage.rename(&self.temporary, &self.target);
                renamed.map_err(|error| Operation::Rename.failed(error))?;
                Ok(Stage::Renamed)
            }
            Stage::Renamed => {
                let synced = self.storage.sync_folder(folder_of(&self.target));
                synced.map_err(|error| Operation::SyncFolder.failed(error))?;
                Ok(Stage::Done)
            }
            Stage::Done => Ok(Stage::Done),
            Stage::Failed => Err(Operation::Sync.failed(io::Error::other("an earlier step has failed"))),
        }
    }

    /// Takes all remaining steps.
    pub fn finish(mut self) -> Result<(), Failed> {
        while self.step()? != Stage::Done {}
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        match self.stage {
            // A temporary file that cannot be removed does no harm.
            Stage::Writing | Stage::Synced | Stage::Failed => drop(self.storage.remove(&self.temporary)),
            Stage::Renamed | Stage::Done => {}
        }
    }
}

/// Replaces a file so that a crash leaves the old or the new contents, with the owner, group and permissions
/// of the old file. The contents may include a password, so no other user may read the new file before it has
/// those permissions; if there was no old file, only the owner may read it.
pub fn replace_file(storage: &Arc<dyn Storage>, path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    debug_assert_eq!(folder_of(&temporary), folder_of(path));
    let replaced = Replacement::begin(storage.clone(), temporary, path.to_owned(), 0o600, None).and_then(
        |mut replacement| {
            replacement.write(contents)?;
            replacement.finish()
        },
    );
    replaced.map_err(|failed| failed.error)
}

/// The folder of a file; `.` for a bare file name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;

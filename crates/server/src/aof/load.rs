//! The files of the append-only file, for the thread that loads them.
//!
//! Invariants: (1) all files are opened before the first is read, so that a file that a rewrite removes
//! during the load can still be read; (2) an incomplete end of a file that is being appended to is not
//! cut off.

use sluice_control::process::{AofFiles, AofPart, AofSource};
use sluice_persist::aof::AofFileKind;
use sluice_snapshot::SnapshotSource;
use sluice_storage::aof::Folder;
use sluice_storage::plain_error;
use sluice_storage::{Storage, StorageFile, kept};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The result of [`AofFiles::list`]: the open files, or lines for the log.
pub type Listed = Result<Vec<AofPart>, Vec<String>>;

/// The files that a manifest names.
pub struct NamedFiles {
    storage: Arc<dyn Storage>,
    files: Vec<NamedFile>,
    ending: FileEnding,
}

struct NamedFile {
    path: PathBuf,
    name: String,
    is_base: bool,
    is_old_style: bool,
}

/// Whether a load may cut off an incomplete end of the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnding {
    /// The end may be cut off, because no thread has the file open.
    CutOff,
    /// The end must be left as it is, because the server has started already and a thread may append to the
    /// file.
    Left,
}

impl NamedFiles {
    /// The files that a load reads.
    pub fn of(folder: &Folder, ending: FileEnding) -> NamedFiles {
        let files = folder.manifest().loaded().map(|(file, kind)| NamedFile {
            path: folder.path_of(&file.name),
            name: String::from_utf8_lossy(&file.name).into_owned(),
            is_base: kind == AofFileKind::Base,
            is_old_style: folder.is_old_style(file),
        });
        NamedFiles { storage: folder.storage().clone(), files: files.collect(), ending }
    }

    /// Whether the manifest names no files to load.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl AofFiles for NamedFiles {
    fn list(&mut self) -> Listed {
        let mut parts = Vec::with_capacity(self.files.len());
        for NamedFile { path, name, is_base, is_old_style } in self.files.drain(..) {
            let opened = self.storage.open(&path).and_then(|file| Ok((file.size()?, file)));
            let (size, file) = opened.map_err(|error| {
                let (name, reason) = (name.escape_default(), plain_error(&error));
                vec![format!("Unable to obtain the AOF file {name} length. stat: {reason}")]
            })?;
            let source = ReadLogFile { storage: self.storage.clone(), path, file, size, ending: self.ending };
            parts.push(AofPart { name, is_base, is_old_style, source: Box::new(source) });
        }
        Ok(parts)
    }
}

/// A file of the append-only file, opened for reading.
struct ReadLogFile {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    file: Box<dyn StorageFile>,
    /// Size in bytes when the file was opened.
    size: u64,
    ending: FileEnding,
}

impl SnapshotSource for ReadLogFile {
    fn keep(&mut self) -> Result<Option<String>, String> {
        sluice_storage::keep_as_loaded(self.storage.as_ref(), &self.path)
    }

    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.size))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        loop {
            match self.file.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other.map_err(|error| plain_error(&error)),
            }
        }
    }
}

impl AofSource for ReadLogFile {
    fn cut_off(&mut self, size: u64, at_s: i64) -> Result<String, String> {
        match self.ending {
            FileEnding::Left => Err("the server is appending to the file".to_owned()),
            FileEnding::CutOff => kept::cut_off(&self.storage, &self.path, size, at_s),
        }
    }
}

/// The files of the thread that appends to them. It sends the list after it has written everything that it
/// was given before the request for the list.
pub struct AppendedFiles(pub Receiver<Listed>);

impl AofFiles for AppendedFiles {
    fn list(&mut self) -> Listed {
        let listed = self.0.recv();
        listed.unwrap_or_else(|_| Err(vec!["The thread of the AOF file has ended".to_owned()]))
    }
}

/// The error lines for a folder that cannot be read.
pub struct NoFiles(pub Vec<String>);

impl AofFiles for NoFiles {
    fn list(&mut self) -> Listed {
        Err(std::mem::take(&mut self.0))
    }
}

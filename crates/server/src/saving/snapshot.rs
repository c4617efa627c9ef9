//! The snapshot file on disk: as the engine writes it, as the engine reads it, and what a server has left
//! that ended meanwhile.

use super::background::{BackgroundSink, Pass};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sluice_control::process::{SaveError, SnapshotSink};
use sluice_persist::rdb::MAGICS;
use sluice_snapshot::SnapshotSource;
use sluice_storage::plain_error;
use sluice_storage::replacement::{Failed, Operation};
use sluice_storage::{Replacement, Storage, StorageFile};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A snapshot that is written.
pub struct SnapshotWriter {
    replacement: Option<Replacement>,
    location: SnapshotLocation,
}

/// Where a snapshot is written, for what the log says.
#[derive(Clone)]
struct SnapshotLocation {
    storage: Arc<dyn Storage>,
    /// The working directory, as long as it has a name.
    folder: Option<PathBuf>,
    temporary: String,
    name: OsString,
}

/// Permissions of a snapshot, less those that the process masks out.
const MODE: u32 = 0o666;
/// Bytes after which a snapshot is forced to disk while it is written.
const SYNC_EVERY: u64 = 16 << 20;

/// Begins a snapshot of that name in the working directory; `number` is how many this process began before.
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

/// Creates the file of a snapshot for which everybody waits: scripts look for it under the number of the
/// process alone. While a process of the same number in another container writes such a file, the name is
/// another.
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

/// Where this process may make a scratch file for its snapshot of that number: what a crash leaves is removed
/// as other temporary files.
pub fn scratch_path(number: u64) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    folder.join(temporary_name(std::process::id(), number))
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

/// A snapshot for which everybody waits: what ends the process at once meanwhile removes its file.
pub struct AwaitedSnapshot(Option<Box<dyn SnapshotSink>>);

impl AwaitedSnapshot {
    /// The snapshot that `sink` makes under this name first. One of these lives at a time.
    pub fn new(temporary: Option<&Path>, sink: Box<dyn SnapshotSink>) -> AwaitedSnapshot {
        crate::crash::set_unfinished(temporary);
        AwaitedSnapshot(Some(sink))
    }
}

impl Drop for AwaitedSnapshot {
    fn drop(&mut self) {
        crate::crash::set_unfinished(None);
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
    /// What the log says of a save that failed.
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

/// A snapshot that is read.
struct SnapshotReader {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// None before it is opened.
    file: Option<Box<dyn StorageFile>>,
}

/// The snapshot of that name in the working directory.
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

/// The name under which the process of that number writes its snapshot of that number. One that was broken
/// off may still be there when the next begins, and in another container a process of the same number may use
/// the folder: numbers begin anywhere, and each has its own name.
fn temporary_name(pid: u32, number: u64) -> String {
    match number {
        0 => format!("temp-{pid}.rdb"),
        number => format!("temp-{}.{pid}.rdb", number as u32),
    }
}

/// Removes the temporary files of servers that have ended, of snapshots and of rewrites of the append-only
/// file, and their names go to `say`. A file of a process that lives stays: another server may use the
/// folder.
pub fn remove_left_over(storage: &dyn Storage, folder: &Path, say: &mut dyn FnMut(String)) {
    let Ok(names) = storage.list(folder) else { return };
    for name in names {
        let Some(pid) = name.to_str().and_then(pid_of) else { continue };
        let is_alive =
            i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH));
        let path = folder.join(&name);
        // In another container a process may have the number of this one, or of none that is seen here.
        if is_alive && pid != std::process::id() || storage.is_written(&path) {
            continue;
        }
        let name = name.display();
        if !is_of_server(storage, &path) {
            say(format!(
                "Left {name} alone: it has the name of a server's temporary file, and holds something else"
            ));
            continue;
        }
        say(match storage.remove(&path) {
            Ok(()) => format!("Removed {name}, which a server has left that ended while it saved"),
            Err(error) => format!("Could not remove the left-over file {name}: {}", plain_error(&error)),
        });
    }
}

/// Whether a file may be one that a server was writing: it begins as a snapshot, a log or a manifest does, or
/// is empty.
pub fn is_of_server(storage: &dyn Storage, path: &Path) -> bool {
    let mut start = [0; 8];
    let read = storage.open(path).and_then(|mut file| file.read(&mut start));
    let begins = |magic: &&[u8]| {
        let start = &start[..read.as_ref().copied().unwrap_or(0)];
        start.starts_with(magic) || magic.starts_with(start)
    };
    // One that cannot be read cannot be judged, and is of no use to anybody here.
    read.is_err() || MAGICS.iter().chain(BEGINNINGS).any(|magic| begins(&&magic[..]))
}

/// The first bytes of logs and manifests.
const BEGINNINGS: &[&[u8]] = &[b"*", b"#", b"file "];

/// The number of the process whose temporary file has this name. The names are ours and the reference's:
/// `temp-PID.rdb`, `temp-TIME.PID.rdb` of a full synchronisation, `temp-rewriteaof-PID.aof`,
/// `temp-rewriteaof-bg-PID.aof`.
fn pid_of(name: &str) -> Option<u32> {
    let inner = name.strip_prefix("temp-")?;
    let digits = match (inner.strip_suffix(".rdb"), inner.strip_suffix(".aof")) {
        (Some(inner), _) => match inner.split_once('.') {
            Some((time, digits)) if number(time).is_some() => digits,
            Some(_) => return None,
            None => inner,
        },
        (None, Some(inner)) => {
            let inner = inner.strip_prefix("rewriteaof-")?;
            inner.strip_prefix("bg-").unwrap_or(inner)
        }
        (None, None) => return None,
    };
    number(digits).filter(|pid| *pid > 0)
}

/// A number as programs write them.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-host-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("temporary directory");
        path
    }

    fn names(path: &Path) -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(path).expect("readable");
        entries.map(|entry| entry.expect("readable").file_name()).collect()
    }

    #[test]
    fn only_names_of_temporary_files_have_a_process() {
        for name in
            ["temp-17.rdb", "temp-1795324409.17.rdb", "temp-rewriteaof-17.aof", "temp-rewriteaof-bg-17.aof"]
        {
            assert_eq!(pid_of(name), Some(17), "{name}");
        }
        assert_eq!(pid_of(&temporary_name(17, 0)), Some(17));
        assert_eq!(pid_of(&temporary_name(17, 3)), Some(17));
        for other in [
            "temp-0.rdb",
            "temp-17.0.rdb",
            "temp-17.03.rdb",
            "temp-3.4.17.rdb",
            "temp-017.rdb",
            "temp-+1.rdb",
            "temp-.rdb",
            "temp-a.rdb",
            "temp-1.rdb.old",
            "temp-x.17.rdb",
            "temp-1.2.17.rdb",
            "temp-17.aof",
            "temp-rewriteaof-bg-.aof",
            "temp-rewriteaof-017.aof",
            "temp-appendonly.aof.1.incr.aof",
            "dump.rdb",
        ] {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_process_of_the_same_number_writes_is_no_left_over() {
        let storage: Arc<dyn Storage> = Arc::new(sluice_storage::Real);
        let dir = directory("same-number");
        let (written, left) = (temporary_name(std::process::id(), 7), temporary_name(std::process::id(), 8));
        let open = storage.create(&dir.join(&written), MODE).expect("made");
        std::fs::write(dir.join(&left), "REDIS0011 and a part").expect("writable");
        // What somebody else has given such a name.
        let foreign = temporary_name(std::process::id(), 9);
        std::fs::write(dir.join(&foreign), "notes").expect("writable");
        let mut said = Vec::new();
        remove_left_over(storage.as_ref(), &dir, &mut |line| said.push(line));
        let mut left: Vec<_> = names(&dir);
        left.sort();
        assert_eq!(left, [written.as_str(), foreign.as_str()], "{said:?}");
        drop(open);
        remove_left_over(storage.as_ref(), &dir, &mut |line| said.push(line));
        assert_eq!(names(&dir), [foreign.as_str()]);
        assert_eq!(said.iter().filter(|line| line.starts_with("Removed ")).count(), 2);
        assert_eq!(said.iter().filter(|line| line.starts_with("Left ")).count(), 2);
        std::fs::remove_dir_all(&dir).expect("removable");
    }
}

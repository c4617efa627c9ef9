//! The files of the machine.

use super::lock::lock_file;
use super::{FileAccess, LockHold, LockRefused, Storage, StorageFile};
use nix::fcntl::OFlag;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// The files of the machine, by system calls.
#[derive(Debug)]
pub struct Real;

impl Storage for Real {
    fn create(&self, path: &Path, mode: u32) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        // The error is ignored: on a file system without locks, `is_written` returns false for this file.
        let _ = file.try_lock();
        Ok(Box::new(RealFile(file)))
    }

    fn is_written(&self, path: &Path) -> bool {
        // A FIFO of that name must not block the server, and a link must not lead it to another file.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let tried = opened.map(|file| file.try_lock_shared());
        matches!(tried, Ok(Err(TryLockError::WouldBlock)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(RealFile(File::open(path)?)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(RealFile(OpenOptions::new().append(true).open(path)?)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn is_there(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_same(&self, one: &Path, other: &Path) -> io::Result<bool> {
        let (one, other) = (std::fs::metadata(one)?, std::fs::symlink_metadata(other)?);
        Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
    }

    fn access(&self, path: &Path) -> io::Result<FileAccess> {
        std::fs::metadata(path).map(|file| access_of(&file))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let facts = nix::sys::statvfs::statvfs(folder)?;
        Ok(facts.blocks_available() as u64 * facts.fragment_size() as u64)
    }

    fn lock(&self, path: &Path, text: &str) -> Result<LockHold, LockRefused> {
        lock_file(path, text)
    }
}

fn access_of(file: &Metadata) -> FileAccess {
    FileAccess { mode: file.mode() & 0o7777, uid: file.uid(), gid: file.gid() }
}

struct RealFile(File);

impl StorageFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.set_len(size)?;
        self.0.seek(SeekFrom::Start(size)).map(drop)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn twin(&self) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(RealFile(self.0.try_clone()?)))
    }

    fn set_access(&self, like: FileAccess) -> io::Result<()> {
        let own = access_of(&self.0.metadata()?);
        if (own.uid, own.gid) != (like.uid, like.gid) {
            // If the owner cannot be changed, only the group is changed, because only root can give a file
            // another owner, but a member of a group can give a file to that group.
            if fchown(&self.0, Some(like.uid), Some(like.gid)).is_err() {
                let _ = fchown(&self.0, None, Some(like.gid));
            }
        }
        let own = access_of(&self.0.metadata()?);
        self.0.set_permissions(Permissions::from_mode(like.mode_for(own.uid, own.gid)))
    }
}
